/*
 * openai_impl.h: what the three OpenAI dialects share, and others use: parsing of settings, tools
 * and messages; writing of usage, timings and chunks.
 *
 *      body --chat, completions, responses--> openai_settings.c, openai_tools.c, openai_messages.c
 *           --> struct gen_request
 *      struct answer --> openai_common.c --chat, completions, responses--> bytes
 *
 * Only the files openai_*.c, ollama.c, llama.c and rerank.c include this.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "dialect/answer.h"
#include "chat/error.h"
#include "chat/gen_request.h"
#include "dialect/json_read.h"
#include "base/json_write.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/str.h"

struct embed_request;

enum {
    OPENAI_MESSAGES_MAX = 16384, /* of a request; input items of Responses likewise */
    OPENAI_TOOLS_MAX = 1024,
    OPENAI_PARTS_MAX = 4096, /* of one message */
    OPENAI_BIASES_MAX = 65536,
    OPENAI_NAME_BYTES_MAX = 256,            /* keys and salts of the cache, names of tools */
    OPENAI_ID_BYTES = ANSWER_ID_BYTES + 24, /* with a prefix and a number */
};

/* ---- reading: settings (openai_settings.c) ---- */

/* The settings with the same name and meaning in all three: model, sampling, limits, format,
 * thinking, cache, streaming. */
enum err openai_read_settings(struct gen_request *request,
                              const struct json_reader *body) NODISCARD;

/* Parts of it, for Ollama: numbers, seed, biases; `stop`; the effort of thinking. */
enum err openai_read_sampling(struct gen_request *request,
                              const struct json_reader *body) NODISCARD;
enum err openai_read_stops(struct gen_request *request, const struct json_reader *body) NODISCARD;
enum err openai_read_effort(struct gen_request *request, const struct json_reader *holder,
                            const char *key) NODISCARD;

/* logprobs and top_logprobs, of chat. */
enum err openai_read_logprobs(struct gen_request *request,
                              const struct json_reader *body) NODISCARD;

/* `type`, `schema`, `json_schema` of a response_format or of Responses' text.format. */
enum err openai_read_format(struct gen_request *request,
                            const struct json_reader *format) NODISCARD;

/* The settings; if the field `limit` is 0, nothing is generated. openai_completions.c, as what
 * follows */
enum err openai_read_settings_or_none(struct gen_request *request, const struct json_reader *body,
                                      const char *limit) NODISCARD;
/* `prompt`: one or several. */
enum err openai_read_prompts(struct gen_request *request, const struct json_reader *body) NODISCARD;
/* `suffix`: what follows the text of the prompts; the model writes what is missing. */
enum err openai_read_suffix(struct gen_request *request, const struct json_reader *body) NODISCARD;
/* The prompt of a choice as the client sent it; for tokens, their texts. */
void openai_append_prompt(const struct answer *answer, size_t index, struct buf *out);

/* n, of chat and completions. */
enum err openai_read_choices(struct gen_request *request, const struct json_reader *body) NODISCARD;

/* ---- reading: messages and tools (openai_messages.c, openai_tools.c) ---- */

/* A required, non-empty string. */
enum err openai_need_str(const struct json_reader *reader, const char *key,
                         struct str *out) NODISCARD;

/* Content: a string or a list of parts. Parts that are not text are refused by name. */
enum err openai_read_content(struct gen_request *request, const struct json_reader *holder,
                             const char *key, struct message *message) NODISCARD;

/* prompt_cache_breakpoint of a part of `message`, which is the newest one or becomes a part of it;
 * `number` is that of the part, from 1. */
enum err openai_read_break(struct gen_request *request, const struct json_reader *part,
                           struct message *message, size_t number) NODISCARD;

/* Adds a message that is one text. */
enum err openai_add_text(struct gen_request *request, enum role role, struct str text) NODISCARD;

/* "role" of a message; ERR_INVALID if it is unknown. */
enum err openai_read_role(const struct json_reader *message, enum role *role) NODISCARD;

/* "messages" of chat completions, and whether to continue the last one. `bare`: messages may lack
 * their content. */
enum err openai_read_messages(struct gen_request *request, const struct json_reader *body,
                              bool bare) NODISCARD;

/* "tools" of chat completions. */
enum err openai_read_tools(struct gen_request *request, const struct json_reader *body) NODISCARD;
/* One of them; a custom one takes a text, and its parameters say so. */
enum err openai_read_function(struct gen_request *request, const struct json_reader *function,
                              struct str space, bool custom) NODISCARD;
/* tool_choice and parallel_tool_calls, once the tools are known. */
enum err openai_read_tool_choice(struct gen_request *request,
                                 const struct json_reader *body) NODISCARD;

/* "tools" of Responses; tools that only OpenAI can run are left out. openai_responses_tools.c */
enum err openai_responses_read_tools(struct gen_request *request,
                                     const struct json_reader *body) NODISCARD;

/* A tool as the client names it: `space` is empty outside of the namespaces of Responses. */
struct openai_tool_name {
    struct str space, name;
    bool custom; /* takes free text, not arguments */
};

/* The name by which the model knows a function of a namespace, which may be empty; in the arena. */
enum err openai_tools_name(struct gen_request *request, struct str space,
                           struct str *name) NODISCARD;
/* The reverse, using the tools of the request. */
struct openai_tool_name openai_tools_find(const struct gen_request *request, struct str flat);
/* "tools" of a response: as sent, and functions completed by the members that they lack. */
void openai_write_tools(struct json *json, yyjson_val *body);
/* "input": the text of a custom tool, from the arguments that carry it. */
void openai_write_input(struct json *json, struct str arguments);
/* The reverse: the text becomes arguments, in the arena. */
enum err openai_wrap_input(struct gen_request *request, struct str *text) NODISCARD;

/* Parses a Responses request. dialect_data is its body, parts of which are repeated in answers.
 * openai_responses_parse.c */
enum err openai_responses_parse(struct gen_request *request, yyjson_val *root,
                                struct api_error *error) NODISCARD;

/* "usage" of Responses. openai_responses.c */
void openai_write_usage(struct json *json, const struct answer *answer);

/* What /v1/responses/compact writes before a summary, and input items with one begin with. */
#define OPENAI_COMPACTION_MARK "hearth:"

/* ---- writing (openai_common.c) ---- */

/* "prompt_cache_diagnostics", if they were requested. */
void openai_write_diagnostics(struct json *json, const struct answer *answer);

/* "chatcmpl-<id>" and the like. */
const char *openai_id(char out[OPENAI_ID_BYTES], const char *prefix, const char *id);

uint32_t openai_reasoning_tokens(const struct answer *answer);

/* Writes its key and an object. */
void openai_write_timings(struct json *json, const struct answer *answer);
/* As vLLM names them. */
void openai_write_tokens(struct json *json, const char *key, const token_id *tokens, size_t count);

/* "stop", "length", "tool_calls"; NULL while the choice is running. */
const char *openai_finish_name(enum answer_finish finish);

/* The text of a token; *whole is false if it is only part of a character. `out` owns the text. */
enum { OPENAI_TOKEN_BYTES = 512 };
struct str openai_token_text(const struct answer *answer, token_id token,
                             char out[OPENAI_TOKEN_BYTES], bool *whole);

/* [{"token":...,"logprob":...,"bytes":[...],"top_logprobs":[...]}] of some of a choice's entries.
 */
struct openai_range {
    size_t from, to;
    bool ids; /* with "id", as llama-server has it */
};
void openai_write_logprobs(struct json *json, const struct answer *answer,
                           const struct answer_choice *choice, struct openai_range range);
/* Values that cannot be represented: -9999, as in the reference. */
void openai_write_logprob(struct json *json, float logprob);

/* Answers of chat and completions: the prefix of their ids, and their object names. */
struct openai_kind {
    const char *prefix, *object;
};

/* Opens an answer up to the inside of "choices". */
void openai_write_head(struct json *json, const struct answer *answer,
                       const struct openai_kind *kind);
/* usage, timings and x_cache. */
void openai_write_account(struct json *json, const struct answer *answer);
void openai_write_progress(struct json *json, const struct answer *answer, uint32_t done);

/* Chunks of streams. The last one before [DONE] has timings and the origin of the prompt. */
enum openai_chunk { OPENAI_CHUNK_INNER, OPENAI_CHUNK_LAST };

struct json openai_event_begin(struct answer *answer, struct buf *out);
enum openai_chunk openai_chunk_place(const struct answer *answer); /* of a choice's last chunk */
void openai_chunk_end(struct json *json, const struct answer *answer, enum openai_chunk place);
void openai_stream_end(struct answer *answer, const struct openai_kind *kind, struct buf *out);
void openai_stream_error(struct answer *answer, const struct api_error *error, struct buf *out);

/* usage of embeddings and scores: prompt_tokens and total_tokens. */
void openai_write_embed_usage(struct json *json, const struct answer *answer);
/* Text, tokens, or a list of either. */
enum err openai_read_inputs(struct gen_request *request, const struct json_reader *body,
                            const char *key, struct embed_request *embed) NODISCARD;
void openai_write_vector(struct json *json, const float *vector, size_t size);

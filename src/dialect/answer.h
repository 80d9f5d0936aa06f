/*
 * answer.h: a model's output in one form for all dialects, passed to the dialect's composer as it
 * arrives.
 *
 *      sched's sink --text--> output --events--> struct answer --> dialect->event ... --> bytes
 *
 * One answer has one or more choices (n), each produced by one generation. These structs contain
 * everything that a dialect writes; composers only format. A composer appends to `out`, which the
 * caller sends; it fails only through out->err.
 *
 * Owner: the scheduler's thread, from submit to the end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chat/error.h"
#include "chat/gen_request.h"
#include "base/buf.h"
#include "output/output_event.h"
#include "sched/gen.h"

enum {
    ANSWER_ID_BYTES = 40,
    ANSWER_CHOICES_MAX = 16, /* of one prompt */
    ANSWER_ALL_CHOICES_MAX = 128,
    ANSWER_CALLS_MAX = 128, /* of one choice */
    ANSWER_REASON_BYTES = 96,
    ANSWER_TEXT_BYTES_MAX = 16 * 1024 * 1024, /* content, thoughts, arguments of a call: each */
};

/* Why a choice ended, in the clients' terms. */
enum answer_finish {
    ANSWER_RUNNING,
    ANSWER_STOP,      /* "stop", "end_turn" */
    ANSWER_STOP_TEXT, /* "stop", "stop_sequence" */
    ANSWER_LENGTH,    /* "length", "max_tokens" */
    ANSWER_CALLS,     /* "tool_calls", "tool_use" */
    ANSWER_FAILED,    /* answer.error says what */
};

struct answer_call {
    /* unguessable; without the dialect's prefix ("call_", "toolu_", "fc_") */
    char id[ANSWER_ID_BYTES];
    char *name;
    struct buf arguments; /* JSON */
    bool complete;
};

/* Text that belongs to one token, with its probabilities. */
struct answer_logprob {
    token_id token;
    float logprob; /* NaN: none, of the first token of a prompt */
    struct sample_top top[SAMPLE_TOP_MAX];
    size_t top_count;
};

struct answer_choice {
    struct buf content, reasoning;
    struct answer_call *calls;
    size_t calls_count, calls_cap;
    char unread_call[ANSWER_REASON_BYTES]; /* why a call is in `content`; "" = none is */
    struct answer_logprob *logprobs;       /* NULL unless asked for */
    size_t logprobs_count, logprobs_cap;
    size_t logprobs_prompt; /* of them, of the prompt: the first ones */
    size_t logprobs_kept;   /* of them, of the content: answer_keep_logprobs */
    size_t logprobs_sent;   /* the composer's: entries already sent in a chunk */
    size_t logprobs_text;   /* the composer's: characters of their texts */
    token_id *tokens;       /* NULL unless asked for */
    size_t tokens_count, tokens_cap;
    enum answer_finish finish;
    struct str stop_text; /* of ANSWER_STOP_TEXT */
    uint32_t generated;
    uint32_t reasoning_tokens; /* of them, as far as known */
    /* For composers of streams that number their blocks. */
    int block;                         /* open block, -1 = none */
    int block_kind;                    /* the composer's */
    int blocks;                        /* opened so far */
    size_t block_text, block_logprobs; /* where those of the open block begin */
};

/* How a prompt differs from that of an earlier answer: the first part that does. */
enum diagnosis_kind {
    DIAGNOSIS_NONE, /* not asked for */
    DIAGNOSIS_SAME, /* it only continues the earlier one */
    DIAGNOSIS_NOT_FOUND,
    DIAGNOSIS_MODEL,
    DIAGNOSIS_SYSTEM,
    DIAGNOSIS_TOOLS,
    DIAGNOSIS_THINKING, /* reasoning is on or off, or has another effort */
    DIAGNOSIS_OTHER,    /* another setting that changes prompts */
    DIAGNOSIS_MESSAGES,
    DIAGNOSIS_COMPACTED, /* a summary has replaced messages */
};

struct diagnosis {
    enum diagnosis_kind kind;
    uint32_t earlier; /* tokens of the earlier prompt */
    /* how many of them this prompt begins with: at least, at most */
    uint32_t same_min, same_max;
};

/* Of request->embed: a vector of `size` floats for each input, or a score; owned. */
struct answer_vectors {
    float *values;
    uint32_t size;
};

struct answer {
    char id[ANSWER_ID_BYTES]; /* of the whole answer, without the dialect's prefix */
    const char *request_id;   /* as the header of the answer has it; borrowed. NULL: none */
    uint64_t created_s;       /* wall time */
    const char *model;        /* name to report */
    const struct gen_request *request;
    const token_id *prompt; /* of request->return_tokens; borrowed */
    size_t prompt_count;
    struct answer_choice *choices;
    size_t choices_count;
    int32_t slot; /* llama-server's id_slot, as in the request */
    /* of the prompt, as its first choice has it; of several prompts the sum, once all have ended.
     * `generated` of all choices together */
    struct gen_usage usage;
    /* of choices that have ended; with timings_each, of all up to their latest token */
    struct gen_times times;
    struct answer_vectors vectors;
    bool begun;             /* dialect->begin was called */
    struct api_error error; /* kind != API_OK: it failed */
    struct diagnosis diagnosis;
    uint64_t load_ns;   /* from the request's arrival until its model was loaded */
    double progress_ms; /* since prefill began; the caller's, set before `progress` */
    /* the composer's: number of the next event; 0: nothing written yet */
    uint64_t sequence;
    /* the composer's: completed items of a stream, repeated at its end; zeroed and freed with the
     * answer */
    struct buf items;
    /* The bytes of a token, for logprobs; of the model. */
    size_t (*token_bytes)(void *arg, token_id token, char *out, size_t size);
    void *token_bytes_arg;
};

/* A client API: how requests are parsed and answers are written. One constant per endpoint. */
struct dialect {
    const char *name;
    const char *stream_type; /* content type of a stream; NULL: text/event-stream */
    /* SSE text to send during silence; NULL: use `keepalive_event` */
    const char *keepalive;
    /* Fills request from `root`. ERR_INVALID: error is filled; ERR_NOMEM, ERR_LIMIT: the arena is
     * full. */
    enum err (*parse)(struct gen_request *request, yyjson_val *root, struct api_error *error);
    /* The body of an error answer. */
    void (*error)(const struct api_error *error, const char *request_id, struct buf *out);
    unsigned (*status)(enum api_error_kind kind); /* of HTTP; NULL: api_error_status */

    /* The whole answer as one JSON body. */
    void (*body)(struct answer *answer, struct buf *out);

    /* A stream: begin, then events of choices in any order, end. Each appends complete SSE events.
     * usage is known at `begin`. */
    void (*begin)(struct answer *answer, struct buf *out);
    void (*progress)(struct answer *answer, uint32_t done, struct buf *out); /* NULL: none */
    /* Called after the event was added to the choice: the call of a CALL_BEGIN is
     * choice->calls[event->call]. */
    void (*event)(struct answer *answer, size_t choice, const struct output_event *event,
                  struct buf *out);
    /* finish is set; usage and times cover all choices that have ended. The last one to end carries
     * timings. */
    void (*choice_end)(struct answer *answer, size_t choice, struct buf *out);
    void (*end)(struct answer *answer, struct buf *out);
    void (*stream_error)(struct answer *answer, const struct api_error *error, struct buf *out);
    /* NULL: `keepalive`. May be called before begin: the first one then opens the stream, and begin
     * does not repeat it. Later ones may be sent any number of times, anywhere in the stream. */
    void (*keepalive_event)(struct answer *answer, struct buf *out);
    bool content_logprobs;  /* those of thoughts, markup and stop texts are left out */
    bool keepalive_changes; /* what it writes depends on the events before it */
    bool continues; /* requests may name a stored answer: gen_request.earlier is set before parse */
    /* What is stored of a complete answer, as JSON (serve/stored.h); NULL: nothing. */
    void (*record)(struct answer *answer, struct buf *out);
};

extern const struct dialect dialect_openai_chat;
extern const struct dialect dialect_openai_completions;
extern const struct dialect dialect_openai_responses;
extern const struct dialect dialect_openai_compact; /* parse, error and body only */
extern const struct dialect dialect_anthropic_messages;
/* of /v1/messages/count_tokens: parse, error and status only */
extern const struct dialect dialect_anthropic_count;

extern const struct dialect dialect_llama_completion, dialect_llama_infill, dialect_llama_slots;
extern const struct dialect dialect_ollama_chat, dialect_ollama_generate;
extern const struct dialect dialect_ollama; /* of Ollama's other endpoints: parse and errors only */

/* parse, error and body only; parse fills request->embed (chat/embed_request.h), and body writes
 * answer->vectors */
extern const struct dialect dialect_openai_embeddings, dialect_rerank, dialect_score;
extern const struct dialect dialect_ollama_embed, dialect_llama_embedding;

/* The API of a body by its fields, where no path tells: completions, responses, messages, or chat. */
const struct dialect *dialect_recognize(yyjson_val *root);

/* The `error` of OpenAI's dialects. */
void openai_error_body(const struct api_error *error, const char *request_id, struct buf *out);

/* Creates an id and as many empty choices as the request asks for. The request is borrowed. */
void answer_init(struct answer *answer, const struct gen_request *request);
void answer_fini(struct answer *answer);

/* A call that is complete: the client must answer it. */
bool answer_has_calls(const struct answer_choice *choice);

/* Adds one event to a choice. ERR_NOMEM, ERR_LIMIT. */
enum err answer_add(struct answer *answer, size_t choice,
                    const struct output_event *event) NODISCARD;

/* Stores one token, of request->return_tokens. ERR_NOMEM. */
enum err answer_add_token(struct answer *answer, size_t choice, token_id token) NODISCARD;

/* Stores the probabilities of one token. ERR_NOMEM. */
enum err answer_add_logprob(struct answer *answer, size_t choice,
                            const struct sample_pick *pick) NODISCARD;

/* Of the probabilities added since the last call, keeps those of the last tokens, which make up this
 * many bytes of content. */
void answer_keep_logprobs(struct answer *answer, size_t choice, size_t bytes);

/* Milliseconds and speeds, for `timings` and the log line. */
struct answer_timings {
    double prompt_ms, predicted_ms, ttft_ms, total_ms;
    double prompt_per_s, predicted_per_s; /* 0 when nothing was computed */
};

struct answer_timings answer_timings(const struct answer *answer);

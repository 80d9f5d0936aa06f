/*
 * gen_request.h: what a client asks for, in one form for all dialects.
 *
 *      body --yyjson--> <dialect>_parse --> struct gen_request
 *           --> chat/template, chat/tokens --> struct gen (sched/gen.h)
 *
 * A dialect's parser fills it: it checks types and ranges, names the offending field, and ignores
 * unknown fields. Messages and tools become a typed conversation.
 *
 * Owner: one call (serve/call.h). All pointers point into its arena or its body.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/str.h"
#include "chat/conversation.h"
#include "chat/pictures.h"
#include "chat/template.h"
#include "engine/lora.h"
#include "engine/sample.h"
#include "grammar/constraint.h"
#include "output/reasoning.h"

enum gen_source {
    GEN_SOURCE_MESSAGES, /* a conversation, to be rendered by the template */
    GEN_SOURCE_TEXT,     /* plain text to continue */
    GEN_SOURCE_TOKENS,   /* taken as they are */
    GEN_SOURCE_INFILL,   /* text to continue up to `suffix` */
};

enum { GEN_STOPS_MAX = 16, GEN_STOP_BYTES_MAX = 1024 };

/* A context edit (prepare_edit.c): content that is cleared before the model sees it. */
enum gen_edit_kind { GEN_EDIT_TOOL_USES, GEN_EDIT_THINKING };

enum { GEN_EDITS_MAX = 8, GEN_EDIT_KEEP_ALL = UINT32_MAX };

struct gen_edit {
    enum gen_edit_kind kind;
    bool by_uses;              /* the trigger is a number of tool uses, not of tokens */
    uint32_t trigger;          /* of tool uses: nothing is cleared up to this */
    uint32_t keep;             /* of the newest tool uses, or turns with thoughts */
    uint32_t clear_at_least;   /* tokens; 0 = not set */
    const struct str *exclude; /* names of tools whose results stay */
    size_t exclude_count;
    bool all_inputs; /* also the arguments of calls; or those of some tools: */
    const struct str *inputs;
    size_t inputs_count;
    /* set by prepare.h */
    uint32_t cleared, cleared_tokens;
};

/* Fields inside messages, their parts and tools that nothing reads, as "messages[1].clear_at". */
enum { GEN_IGNORED_BYTES = 200 };
struct gen_ignored {
    char names[GEN_IGNORED_BYTES]; /* with ", " between them */
    uint32_t more;                 /* that have no room, or no plain name */
};

/* Where a client asked for a cache breakpoint: after the tools, the system prompt, or a message
 * (its index in the conversation). */
enum { GEN_BREAKPOINTS_MAX = 8, GEN_BREAK_TOOLS = -2, GEN_BREAK_SYSTEM = -1 };

/* A prompt of text or tokens, as `source` says. */
struct gen_prompt {
    struct str text;
    const int32_t *tokens;
    size_t tokens_count;
};

/* Another file that helps to fill in the middle. */
struct gen_extra {
    struct str name, text;
};

struct gen_request {
    struct arena arena;
    yyjson_doc *body; /* as it came */
    /* Responses: {"input":[...]}, the items of the conversation that the request continues; NULL:
     * none. Set before parsing */
    yyjson_doc *earlier;
    uint64_t asked; /* bits of its first 64 fields: the dialect knows them */
    struct gen_ignored ignored;

    struct str model; /* as the client wrote it; may be empty */
    enum gen_source source;
    struct conversation conversation;
    struct pictures pictures; /* of the conversation, where markers stand for them */
    yyjson_val *kwargs;       /* chat_template_kwargs: object, or NULL */
    struct str prompt;
    const int32_t *prompt_tokens;
    size_t prompt_tokens_count;
    const struct gen_prompt *more; /* further prompts, each with its own answers */
    size_t more_count;
    struct str suffix; /* of GEN_SOURCE_INFILL */
    const struct gen_extra *extras;
    size_t extras_count;
    const int32_t *context; /* tokens of earlier turns, before a conversation's */
    size_t context_count;
    bool continue_final; /* continue the last message, which is an assistant's */
    bool echo;           /* completions: return the prompt before the answer */
    bool score_prompt;   /* and the log-probabilities of its tokens */
    bool needs_text;     /* an answer without text is an error: it is a summary */
    bool store;          /* Responses: later requests may continue the answer */

    bool stream;
    bool stream_usage;   /* stream_options.include_usage */
    bool progress;       /* return_progress */
    bool timings_each;   /* timings_per_token */
    bool control_text;   /* show special tokens as text */
    uint32_t choices;    /* of each prompt: n; >= 1 */
    uint32_t max_tokens; /* 0 = as many as fit */
    /* starts as the server's defaults; grammar fields are set from what follows */
    struct sample_params sample;
    bool lora_chosen;         /* else the model's own set of adapters */
    struct lora_set lora;     /* not checked yet: the model may have fewer */
    const char *const *stops; /* searched for in the text of the answer (output/stop_text.h) */
    size_t stops_count;

    enum constraint_mode tool_choice;
    struct str tool_name; /* of CONSTRAINT_NAMED */
    bool parallel_calls;  /* starts as true */
    enum constraint_answer format;
    const char *format_field; /* the client's name for it; starts as "response_format" */
    yyjson_val *schema;       /* of CONSTRAINT_ANSWER_SCHEMA */
    struct str regex;         /* of CONSTRAINT_ANSWER_REGEX */
    yyjson_val *answers;      /* of CONSTRAINT_ANSWER_CHOICE: a list of strings */
    struct str grammar;       /* of CONSTRAINT_ANSWER_GRAMMAR */

    struct str prediction; /* what the client expects the answer to be; may be empty */

    enum chat_thinking thinking;
    struct str reasoning_effort; /* "low", ...; empty = not set */
    uint32_t reasoning_budget;   /* tokens; 0 = not set */
    enum reasoning_mode reasoning_mode;

    /* Vectors or scores of these inputs are wanted instead of an answer; NULL: not */
    const struct embed_request *embed;

    bool no_model;      /* /admin: can be answered without a model */
    bool unopened;      /* the prompt ends with the last message: no answer is opened */
    bool prefill_only;  /* only put the prompt's state into the cache; nothing is generated */
    bool load_only;     /* no prompt: only load the model */
    bool unload;        /* no prompt: only unload the model; with no_model */
    bool return_tokens; /* the answer has the tokens of the prompt and of itself */

    bool cache_read, cache_write; /* start as true */
    bool cache_no_disk;
    bool cache_demote;        /* its state leaves memory first, but not the disk */
    bool cache_release;       /* no request will continue this prompt: its state is evicted first */
    bool cache_explicit;      /* written up to the last breakpoint only */
    uint32_t cache_write_max; /* tokens that are written; 0 = all. Set by prepare.h */
    struct str cache_key;     /* prompt_cache_key: a hint for affinity */
    struct str cache_salt;    /* isolates the cache within a tenant */
    int32_t slot;             /* llama-server's id_slot; -1 = any */
    uint32_t cache_ttl_s;     /* 0 = by policy */
    int breakpoints[GEN_BREAKPOINTS_MAX]; /* GEN_BREAK_*, or indexes of messages, ascending */
    size_t breakpoints_count;
    struct gen_edit edits[GEN_EDITS_MAX];
    size_t edits_count;
    bool manages_context;  /* the answer says which edits were applied, if only none */
    struct str compare_id; /* of the earlier answer to compare prompts with; empty = none */
    uint32_t compactions;  /* items that stand for earlier turns */

    /* Kept for answers that repeat parts of the request; may be NULL. */
    const void *dialect_data; /* in the arena: the dialect's own */
};

/* Initialises the arena (at most `limit` bytes) and sets defaults. */
void gen_request_init(struct gen_request *request, size_t limit,
                      const struct sample_params *defaults);
void gen_request_fini(struct gen_request *request);

/* Adds a breakpoint after `where`: GEN_BREAK_* or the index of a message. Ascending; duplicates are
 * merged. */
void gen_request_add_break(struct gen_request *request, int where);

/* The choices of all prompts; those of prompt p begin at p * choices. */
size_t gen_request_choices(const struct gen_request *request);
/* Prompt `index`; 0 is the one in the request itself. */
struct gen_prompt gen_request_prompt(const struct gen_request *request, size_t index);

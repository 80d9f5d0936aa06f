/*
 * prepare.h: turns a request into the input of a generation: tokens, the places where they may be
 * cut, and a grammar.
 *
 *    gen_request --neutral text, tools--> --thoughts that the client dropped--> template --> text
 *                --turns as they were sampled--> tokens, marks           tools, format --> grammar
 *
 * The same conversation yields the same tokens on every turn (keeps I106), and control tokens that
 * a client wrote stay text (keeps I105).
 *
 * Threads: any; one call prepares one request. Takes milliseconds for long prompts: never call it
 * on the loop thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chat/error.h"
#include "chat/gen_request.h"
#include "chat/neutral.h"
#include "base/attr.h"
#include "base/hash.h"
#include "grammar/constraint.h"
#include "output/output.h"
#include "chat/template.h"
#include "chat/tokens.h"

struct recall;

/* The parts of a model that prompts need. */
struct chat_model {
    struct engine *engine; /* facts and tokens only */
    const struct chat_template *tmpl;
    struct tokens *tokens;
    const char *name;
};

/* The inputs of a preparation; all borrowed. */
/* What requests get that say nothing about it. */
struct prepare_defaults {
    enum chat_thinking thinking;
    uint32_t reasoning_budget; /* tokens; 0 = no limit */
    struct yyjson_val *kwargs; /* for templates: an object, or NULL */
};

struct prepare_tools {
    struct chat_model model;
    struct prepare_defaults defaults;
    struct neutral *neutral;     /* NULL = texts are not changed */
    struct recall *recall;       /* NULL = all turns are rendered */
    bool recall_keep;            /* as in recall.h */
    const char *tenant;          /* of the cache: "" = all share it */
    struct tokens_caller caller; /* its tenant and salt are filled in */
    bool any_length;             /* counted or shown only: need not fit the context */
    int64_t now_s;               /* local wall time */
    uint64_t *store_wait_ns;     /* what the request may still wait for a shared store; or NULL */
};

struct prepared {
    struct chat_text text;      /* of a conversation; in the request's arena */
    struct token_prompt prompt; /* owned */
    /* in the request's arena, as is all that follows; ascending, at different places */
    struct mark *marks;
    size_t marks_count;
    uint32_t anchor;    /* end of system prompt and tools; 0 = not known */
    uint32_t last_user; /* start of the last user message; 0 = not known */
    /* start of text after the last answer, or of the opening of the next one, that may be gone next
     * turn; 0 = none */
    uint32_t transient;
    uint32_t breakpoints[GEN_BREAKPOINTS_MAX];
    size_t breakpoints_count;
    struct placed_pictures pictures; /* of the request, which owns them */
    struct constraint constraint;    /* owned */
    const char *grammar;             /* NULL = none; of `constraint` or of the request */
    struct output_formats formats;
    bool calls; /* the answer may contain calls */
    /* the answer must contain calls or match the requested format: the grammar allows nothing
     * else */
    bool either;
    bool control_text; /* the answer's markup is made of control tokens */
    /* what closes a thought that has used its budget; none if there is no budget */
    struct token_prompt thought_end; /* owned */
    struct token_prompt prediction;  /* of the request; owned */
    struct str opening;              /* what the template wrote to open the answer */

    struct hash256 space, history; /* for recall_remember */
    bool history_known;
    size_t recalled; /* turns that were recalled as sampled */
    size_t original; /* tokens before context edits; 0 = none were requested */
    struct neutral_tally changed;
};

/* Fills `out`, which must be finished even after an error. ERR_INVALID: `error` says what is wrong.
 * Texts of the conversation are replaced by neutral ones, and thoughts that the client dropped are
 * restored. */
enum err prepare(struct prepared *out, struct gen_request *request,
                 const struct prepare_tools *tools, struct api_error *error) NODISCARD;

/* The tokens of a further prompt of the request, which has no template. `out` is zeroed, and must be
 * finished even after an error. */
enum err prepare_more(struct token_prompt *out, struct gen_request *request, size_t index,
                      const struct prepare_tools *tools, struct api_error *error) NODISCARD;

/* Accepts a zeroed one. */
void prepare_fini(struct prepared *out);

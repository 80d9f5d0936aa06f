/*
 * gen.h: one generation: the request to the scheduler, its progress reports, and its result.
 *
 *      serve -> sched_submit -> ADMIT -> LOOKUP -> RESTORE -> PREFILL -> DECODE -> end
 *                                 |                   |          |         |        |
 *      sink:                      |                started   progress  token ...  done
 *                                 '-- queued, deferred: only in the log and in sched_views
 *
 * The caller fills a `struct gen`. It and everything it points to stay the caller's memory and must
 * stay valid until sink.done, which is called exactly once for every gen that sched_submit
 * accepted. Sinks are called on the scheduler's thread and must not block.
 *
 * Threads: the fields of the request are read-only after sched_submit. gen_cancel may be called
 * from any thread while the gen is valid. Everything else belongs to the scheduler.
 */
#pragma once

#include <hearth/hearth.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/mark.h"
#include "base/err.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/picture.h"
#include "engine/sample.h"

/* The phases of a generation; the log, the metrics and the dashboard use these names. X(value,
 * name) */
#define GEN_PHASE_TABLE(X)                                                           \
    X(GEN_QUEUED, "queued")     /* not looked at yet */                              \
    X(GEN_DEFERRED, "deferred") /* no room now, or waits for another job's prefix */ \
    X(GEN_LOOKUP, "lookup")                                                          \
    X(GEN_RESTORE, "restore") /* bytes are being fetched */                          \
    X(GEN_PREFILL, "prefill")                                                        \
    X(GEN_DECODE, "decode")                                                          \
    X(GEN_FINISHED, "finished")                                                      \
    X(GEN_CANCELLED, "cancelled")                                                    \
    X(GEN_FAILED, "failed")

enum gen_phase { GEN_PHASE_TABLE(TABLE_VALUE) GEN_PHASE_COUNT };

const char *gen_phase_name(enum gen_phase phase);

/* Why a generation ended. X(value, name) */
#define GEN_END_TABLE(X)                                                       \
    X(GEN_END_STOP, "stop")           /* the model ended its answer */         \
    X(GEN_END_LENGTH, "length")       /* max_tokens, or the context is full */ \
    X(GEN_END_SINK, "sink")           /* the sink stopped it */                \
    X(GEN_END_CANCELLED, "cancelled") /* gen_cancel */                         \
    X(GEN_END_ERROR, "error")         /* see result.info */

enum gen_end { GEN_END_TABLE(TABLE_VALUE) GEN_END_COUNT };

/* Why a prompt that had HEARTH_REASON_NO_SNAPSHOT did not resume later. X(value, name) */
#define GEN_LATER_TABLE(X)                                                             \
    X(GEN_LATER_NONE, "")             /* another reason */                             \
    X(GEN_LATER_NO_PLACE, "no_place") /* no chunk of the earlier prompt ended there */ \
    X(GEN_LATER_BUDGET, "budget")     /* snapshots there were not worth their price */ \
    X(GEN_LATER_EVICTED, "evicted")   /* there was one, and it was evicted */

enum gen_later { GEN_LATER_TABLE(TABLE_VALUE) GEN_LATER_COUNT };

const char *gen_later_name(enum gen_later later);

/* Where the tokens of a prompt came from. prompt = device + ram + ssd + remote + computed, always;
 * a generation that ended before its prefill has zeros. In a view (sched.h) of a waiting
 * generation, only `prompt` is known. */
struct gen_usage {
    uint32_t prompt;
    uint32_t device, ram, ssd, remote, computed;
    uint32_t cut; /* further tokens of a prompt whose generation ended before they were computed */
    /* computed although they had been computed before and were not evicted; includes what a
     * preempted job lost */
    uint32_t twice;
    uint32_t generated;
    uint32_t drafted, accepted; /* guessed tokens that were computed; those that were right */
    enum hearth_match match;
    enum hearth_reason reason;
    enum gen_later later;
    /* position of the first token not found; = prompt when all were found */
    uint32_t first_difference;
    /* `diverged` within the first user message: a new conversation, no miss */
    bool new_conversation;
    uint64_t stored_bytes; /* bytes stored in the cache so far */
    double compute_s; /* what the prompt would take without the cache (cost.h); 0 = not known */
};

/* Prompt tokens that were not computed. */
static inline uint32_t gen_usage_reused(const struct gen_usage *usage)
{
    return usage->device + usage->ram + usage->ssd + usage->remote;
}

/* Nanoseconds of the monotonic clock; 0: never happened. */
struct gen_times {
    uint64_t submitted, admitted, looked_up, restored, first_token, ended;
    /* Duration of each part of a restore, separate from computing (keeps I26). Waiting for bytes
     * counts as fetching; the cost of a shortened plan counts as well. */
    uint64_t lookup_ns, fetch_ns, verify_ns, import_ns;
};

/* One sampled token. */
struct gen_token {
    token_id token;
    /* complete characters; may be empty, may begin in earlier tokens */
    struct str text;
    const struct sample_pick *pick; /* log-probabilities, if requested */
    uint32_t index;                 /* from 0 */
    struct gen_times times;         /* so far: `ended` is now */
};

struct gen_result {
    enum gen_end end;
    /* the last, incomplete character; follows the text of the last token */
    struct str tail;
    struct gen_usage usage;
    struct gen_times times;
    const token_id *tokens; /* sampled, including the end token; borrowed for the call */
    uint32_t tokens_count;
    const float *vector; /* of `embed`: facts.embed.size floats, borrowed for the call; or NULL */
    uint32_t seed;
    struct errinfo info; /* for GEN_END_ERROR */
};

struct gen_sink {
    /* The prompt's state is restored as given by `usage`; the number of tokens to compute is known.
     * May be NULL. */
    void (*started)(void *arg, const struct gen_usage *usage);
    /* `done` of usage->prompt tokens are computed. After each chunk. May be NULL. */
    void (*progress)(void *arg, const struct gen_usage *usage, uint32_t done);
    /* With score_prompt: the log-probabilities of the prompt's tokens from the second one on, in
     * order. */
    void (*scored)(void *arg, const struct sample_pick *pick);
    /* False: stop, with GEN_END_SINK. */
    bool (*token)(void *arg, const struct gen_token *token);
    void (*done)(void *arg, const struct gen_result *result);
    void *arg;
};

/* Cache settings of this request. */
struct gen_cache_hints {
    bool no_read, no_write; /* cache_prompt: false and the like */
    bool no_disk;
    enum hearth_reason search_failed; /* as in hearth_lookup_options */
    bool release;                     /* no request will continue the conversation */
    /* shares nothing on the device with other requests: it must be isolated from them and has no
     * space that would ensure it */
    bool isolated;
    bool pin;
    uint32_t ttl_s;
    uint32_t write_max; /* tokens to store at most; 0 = all */
    /* token counts where the client asked for snapshots, ascending; cuts of the schedule */
    const uint32_t *breakpoints;
    size_t breakpoints_count;
};

struct gen {
    uint64_t id;
    struct hearth_space *space;       /* for the model and tenant; NULL: the cache is off */
    struct hearth_space *draft_space; /* the same for the draft model, or NULL */
    const char *tenant;               /* for fairness; "" = none */
    const token_id *tokens;           /* the prompt, >= 1 */
    uint32_t tokens_count;
    const struct mark *marks; /* in tokens, ascending: where the prompt may be cut */
    size_t marks_count;
    const struct picture_piece *pictures; /* ascending; the prompt ends with text */
    size_t pictures_count;
    uint32_t anchor;    /* end of system prompt and tools; 0 = not known */
    uint32_t last_user; /* start of the last user message; 0 = not known */
    /* start of text at the end of the prompt that the next turn may not have; 0 = none */
    uint32_t transient;
    uint32_t max_tokens;         /* 0 = as many as fit */
    const struct lora_set *lora; /* adapters; NULL = as the engine was loaded */
    struct sample_params sample;
    /* report the log-probabilities of all tokens of the prompt; with cache.no_read: they are known
     * only where the prompt is computed */
    bool score_prompt;
    bool control_text; /* control tokens are also written into the text */
    /* The vector of the prompt is wanted (engine/embed.h), as the model pools it, not normalized.
     * It ends with GEN_END_STOP; `token` is never called and may be NULL. Inputs that have a prefix
     * in common continue from it, where the pooling allows that; set cache.write_max to the length
     * of a prefix that others share, or cache.no_write: the rest is rarely used again. */
    bool embed;
    struct gen_cache_hints cache;
    struct gen_sink sink;
    /* Tokens that come next instead of sampled ones. Set by the sink in `token`, consumed by the
     * scheduler. */
    const token_id *forced;
    uint32_t forced_count;
    /* The text that the client expects, for drafts; may be NULL. */
    const token_id *prediction;
    uint32_t prediction_count;
    /* The sink sets it when the answer calls a tool: the client will be back soon. */
    bool calls_tool;
    atomic_bool cancelled; /* set by gen_cancel */
};

/* Ends the generation at the scheduler's next turn; its state is kept (I95), and done is called.
 * Any thread; repeated calls are no-ops. Does not wake a sleeping scheduler: sched_cancel does. */
void gen_cancel(struct gen *gen);

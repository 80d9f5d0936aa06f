/*
 * gen.h: one generation: what the scheduler is asked for, what it reports on the way, and what came
 * out.
 *
 *      api --struct gen--> sched_submit -> ADMIT -> LOOKUP -> RESTORE -> PREFILL -> DECODE -> done
 *                                            |                  |          |          |
 *      sink:                                 |               started    progress    token ...          done
 *                                            '-- queued, deferred: in the log and in sched_each only
 *
 * A `struct gen` is filled by the caller and stays the caller's memory, with everything that it
 * points to, until sink.done was called: exactly once for every gen that sched_submit took. Sinks
 * are called on the scheduler's thread and must not block.
 *
 * Threads: the fields of the request are read-only after sched_submit. gen_cancel may be called
 * from any thread, as long as the caller keeps the memory; all else is the scheduler's.
 */
#ifndef HEARTH_SCHED_GEN_H
#define HEARTH_SCHED_GEN_H

#include <hearth/hearth.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mark.h"
#include "base/err.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/sample.h"

/* The way of a generation; the names are those of the log, the metrics and the dashboard. X(value,
 * name) */
#define GEN_PHASE_TABLE(X)                                                                  \
    X(GEN_QUEUED, "queued")     /* not looked at yet */                                     \
    X(GEN_DEFERRED, "deferred") /* no room for it now, or waits for another one's prefix */ \
    X(GEN_LOOKUP, "lookup")                                                                 \
    X(GEN_RESTORE, "restore") /* bytes are on their way */                                  \
    X(GEN_PREFILL, "prefill")                                                               \
    X(GEN_DECODE, "decode")                                                                 \
    X(GEN_FINISHED, "finished")                                                             \
    X(GEN_CANCELLED, "cancelled")                                                           \
    X(GEN_FAILED, "failed")

enum gen_phase {
#define X(value, name) value,
    GEN_PHASE_TABLE(X)
#undef X
        GEN_PHASE_COUNT
};

const char *gen_phase_name(enum gen_phase phase);

/* Why a generation ended. X(value, name) */
#define GEN_END_TABLE(X)                                                       \
    X(GEN_END_STOP, "stop")           /* the model ended its answer */         \
    X(GEN_END_STOP_TEXT, "stop_text") /* one of the stop texts came */         \
    X(GEN_END_LENGTH, "length")       /* max_tokens, or the context is full */ \
    X(GEN_END_SINK, "sink")           /* the sink had enough */                \
    X(GEN_END_CANCELLED, "cancelled") /* gen_cancel */                         \
    X(GEN_END_ERROR, "error")         /* result.info says what */

enum gen_end {
#define X(value, name) value,
    GEN_END_TABLE(X)
#undef X
        GEN_END_COUNT
};

/* Where the tokens of a prompt came from. prompt = device + ram + ssd + remote + computed, always:
 * what ended before its prefill began has zeros. In a view (sched.h) of one that waits, only
 * `prompt` is known. */
struct gen_usage {
    uint32_t prompt;
    uint32_t device, ram, ssd, remote, computed;
    uint32_t generated;
    enum hearth_match match;
    enum hearth_reason reason;
    /* position of the first token that was not held; = prompt when all were */
    uint32_t first_difference;
    uint64_t stored_bytes; /* that this generation put into the cache so far */
};

/* Nanoseconds of the monotonic clock; 0: never happened. */
struct gen_times {
    uint64_t submitted, admitted, looked_up, restored, first_token, ended;
    /* How long each part of getting state took, apart from computing (keeps I26). Waiting for bytes
     * is fetching; what a shortened plan had cost counts, too. */
    uint64_t lookup_ns, fetch_ns, verify_ns, import_ns;
};

/* One sampled token. */
struct gen_token {
    token_id token;
    /* complete characters that no stop text can begin with any more; may be empty, may belong to
     * earlier tokens */
    struct str text;
    const struct sample_pick *pick; /* log-probabilities, when they were asked for */
    uint32_t index;                 /* from 0 */
    struct gen_times times;         /* so far: `ended` is now */
};

struct gen_result {
    enum gen_end end;
    struct str stop_text; /* the one that came */
    /* text that was still held back when it ended; comes after that of the last token */
    struct str tail;
    struct gen_usage usage;
    struct gen_times times;
    const token_id *tokens; /* sampled, the end token included; borrowed for the call */
    uint32_t tokens_count;
    uint32_t seed;
    struct errinfo info; /* of GEN_END_ERROR */
};

struct gen_sink {
    /* The prompt's state is there up to `usage`'s parts; what is left to compute is known. May be
     * NULL. */
    void (*started)(void *arg, const struct gen_usage *usage);
    /* `done` of usage->prompt tokens stand. After each chunk. May be NULL. */
    void (*progress)(void *arg, const struct gen_usage *usage, uint32_t done);
    /* False: enough, ends with GEN_END_SINK. */
    bool (*token)(void *arg, const struct gen_token *token);
    void (*done)(void *arg, const struct gen_result *result);
    void *arg;
};

/* Of the cache, for this request. */
struct gen_cache_hints {
    bool no_read, no_write; /* cache_prompt: false and the like */
    bool no_disk;
    /* shares nothing on the device with anyone: it is to be kept from others, and has no space that
     * would do so */
    bool apart;
    bool pin;
    uint32_t ttl_s;
    /* token counts where the client wants snapshots, ascending; cuts of the schedule */
    const uint32_t *breakpoints;
    size_t breakpoints_count;
};

enum { GEN_STOPS_MAX = 16, GEN_STOP_BYTES_MAX = 1024 };

struct gen {
    uint64_t id;
    struct hearth_space *space; /* of model and tenant; NULL: the cache is off */
    const char *tenant;         /* for fairness; "" = none */
    const token_id *tokens;     /* the prompt, >= 1 */
    uint32_t tokens_count;
    const struct mark *marks; /* in tokens, ascending: where it may be cut */
    size_t marks_count;
    uint32_t anchor;     /* end of system prompt and tools; 0 = not known */
    uint32_t last_user;  /* start of the last user message; 0 = not known */
    uint32_t max_tokens; /* 0 = as many as fit */
    struct sample_params sample;
    const char *const *stops; /* texts */
    size_t stops_count;
    bool control_text; /* control tokens are written into the text, too */
    struct gen_cache_hints cache;
    struct gen_sink sink;
    atomic_bool cancelled; /* gen_cancel sets it */
};

/* It ends at the next turn of the scheduler, keeps what it has computed (I95), and done is called.
 * Any thread; again is a no-op. Does not wake a scheduler that sleeps: sched_cancel does. */
void gen_cancel(struct gen *gen);

#endif

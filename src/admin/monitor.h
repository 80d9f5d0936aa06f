/*
 * monitor.h: statistics about the server's own work, for /admin: sums of this run and of all runs,
 * the last hour, the last requests.
 *
 *      ends of generations and calls --count--> [ session | history | recent ] --> /admin/...
 *                                                    |
 *                    a thread, every 30 s and at the end --> state folder, "stats" (tally_encode)
 *
 * A kill -9 loses at most the last 30 s of the sums of all runs. A damaged file is logged and
 * started anew: statistics must not prevent serving.
 *
 * Threads: monitor_*: any. Lock: LOCK_RANK_MONITOR, held only to copy; never across I/O. The
 * functions of tally, history and recent are pure; their structs belong to the caller.
 */
#pragma once

#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_write.h"
#include "base/str.h"
#include "sched/gen.h"
#include "serve/auth.h"
#include "serve/respond.h"

struct clock;
struct file_sys;
struct log;
struct monitor;

/* ---- counters ---- */

/* In the order of the file: append new ones at the end. X(field) */
#define TALLY_TABLE(X) \
    X(requests)        \
    X(prompt)          \
    X(device)          \
    X(ram)             \
    X(ssd)             \
    X(remote)          \
    X(computed)        \
    X(generated)       \
    X(prefill_ns)      \
    X(decode_ns)       \
    X(restore_ns)      \
    X(twice)           \
    X(prefilled)       \
    X(drafted)         \
    X(accepted)        \
    X(reused_ns)

/* Requests, prompt tokens by source, tokens generated, time; tokens computed twice, and tokens that
 * prefill_ns was spent on; draft tokens, and those that became part of an answer; what computing
 * the reused tokens would have taken (estimated). Sums only, so that runs can be added; ratios are
 * computed on demand. */
struct tally {
#define X(field) uint64_t field;
    TALLY_TABLE(X)
#undef X
};

enum {
#define X(field) TALLY_##field,
    TALLY_TABLE(X)
#undef X
        TALLY_COUNT
};

/* Sums saturate instead of wrapping. */
void tally_add(struct tally *sum, const struct tally *more);
/* The tokens of one generation. */
struct tally tally_of(const struct gen_usage *usage);

/* Prompt tokens that were not computed, and their share of all; 0 when there were none. */
uint64_t tally_reused(const struct tally *sum);
double tally_efficiency(const struct tally *sum);
/* reused_ns, minus the time of restoring them; never below 0. */
double tally_saved_s(const struct tally *sum);

/* Writes the fields into an open object, as in /admin/stats. */
void tally_write(struct json *json, const struct tally *sum);

/* The file. `since_s` is the wall time at which the sums began. ERR_CORRUPT: not a valid file. */
enum err tally_encode(struct buf *out, const struct tally *sum, uint64_t since_s);
enum err tally_decode(struct str bytes, struct tally *sum, uint64_t *since_s) NODISCARD;

/* ---- the last hour, in steps of five seconds ---- */

enum { HISTORY_STEP_S = 5, HISTORY_STEPS = 720 };

/* The first count or query in a step starts it, so that no thread has to wake up. Times are
 * monotonic. */
struct history {
    uint64_t begin_ns;                 /* when step 0 began */
    uint64_t last;                     /* the current step */
    struct tally steps[HISTORY_STEPS]; /* step n is at n % HISTORY_STEPS */
};

void history_init(struct history *history, uint64_t now_ns);
void history_add(struct history *history, uint64_t now_ns, const struct tally *more);

/* The sums of the last `seconds`, in whole steps, including the current one. Returns the actual
 * number of seconds: less when the server is younger, at least 1. */
double history_sum(struct history *history, uint64_t now_ns, uint32_t seconds, struct tally *sum);

/* "step_s", "t" and a list for each source, generated and requests, oldest first, into an open
 * object. */
void history_write(struct json *json, struct history *history, uint64_t now_ns, uint64_t wall_s);

/* ---- the last requests that had a prompt ---- */

enum {
    RECENT_MAX = 64,
    RECENT_NAME_BYTES = 128,
    RECENT_WORDS_BYTES = 96,
    RECENT_GONE_STATUS = 499
};

/* Numbers and names. Text only where readers may see it: the reader may not be the author of the
 * request. */
struct recent_call {
    char id[RESPOND_ID_BYTES];
    char model[RECENT_NAME_BYTES]; /* truncated if longer */
    char tenant[AUTH_NAME_BYTES];
    char client[RECENT_NAME_BYTES]; /* its User-Agent; empty: it named none */
    /* first words of the conversation; empty: they are not to be shown, or there are none */
    char words[RECENT_WORDS_BYTES];
    const char *endpoint; /* a literal */
    double when_s;        /* wall time of its end */
    struct gen_usage usage;
    enum role role; /* of the message with the first difference; NONE: not known */
    uint32_t message;
    double ttft_s, seconds; /* 0: never happened */
    double tokens_per_s;    /* of the answer; 0: unknown */
    unsigned status;        /* HTTP status; RECENT_GONE_STATUS: the client disconnected before */
};

struct recent {
    struct recent_call calls[RECENT_MAX];
    uint64_t count; /* so far; the newest is at (count - 1) % RECENT_MAX */
};

void recent_add(struct recent *recent, const struct recent_call *call);

/* One of them as an object; all of them as an array, newest first. `words`: with them. */
void recent_write_call(struct json *json, const struct recent_call *call, bool words);
void recent_write(struct json *json, const struct recent *recent, bool words);

/* "message":"user[3]", as in the log, or null; into an open object. */
void recent_write_message(struct json *json, enum role role, uint32_t message);
/* "tokens":{"device","ram","ssd","remote"}, likewise. */
void recent_write_tokens(struct json *json, const struct gen_usage *usage);

/* ---- all of it ---- */

enum { MONITOR_SAVE_S = 30 };

struct monitor_options {
    const struct file_sys *fs; /* NULL: nothing is saved */
    int dir;                   /* the state folder; borrowed */
    /* Writes the engines' counters since the start into the times of a tally. On the monitor's
     * thread and on threads that query. May be NULL. */
    void (*times)(struct tally *tally, void *arg);
    /* Called repeatedly on the monitor's thread; returns the milliseconds until the next call. May
     * be NULL. */
    uint64_t (*tick)(void *arg);
    void *arg;
    struct clock *clock;
    struct log *log;
};

/* Reads the saved sums and starts the thread. */
enum err monitor_create(struct monitor **monitor, const struct monitor_options *options,
                        struct errinfo *info) NODISCARD;
/* Saves the sums. Accepts a pointer to NULL. */
void monitor_destroy(struct monitor **monitor);

/* The tokens of one generation; a request that has ended. */
void monitor_count_tokens(struct monitor *monitor, const struct gen_usage *usage);
void monitor_count_call(struct monitor *monitor, const struct recent_call *call);

/* A consistent snapshot. */
struct monitor_view {
    struct tally session, all;
    double uptime_s;
    uint64_t started_s, since_s; /* wall time: start of the server, start of the sums of all runs */
};
void monitor_get_view(struct monitor *monitor, struct monitor_view *view);

/* Like history_sum and history_write, recent_write. */
double monitor_sum(struct monitor *monitor, uint32_t seconds, struct tally *sum);
/* The same for the finished requests of one model; 0 and zeros if there were none. The first
 * MONITOR_MODELS_MAX models have such sums. */
enum { MONITOR_MODELS_MAX = 64 };
double monitor_sum_model(struct monitor *monitor, const char *model, uint32_t seconds,
                         struct tally *sum);
void monitor_write_history(struct monitor *monitor, struct json *json);
void monitor_write_recent(struct monitor *monitor, struct json *json, bool words);

/* Saves the sums now; the thread also does so by itself. */
enum err monitor_save(struct monitor *monitor, struct errinfo *info) NODISCARD;

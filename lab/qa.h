/*
 * qa.h: the agent-cache regression: typical requests of agents to a real server, checked from both
 * sides.
 *
 *      run 1     cold A|B.. together -> warm together -> exact A -> A, B, A -> turns
 *                -> edit, A again -> questions after a document, an edit inside it
 *                -> cancel, resume -> another tenant
 *                -> A and B to another model of the same process (multi)
 *      run 2     after a restart: A
 *      run 3     --exact, with its own folders: A, B, A: the same text
 *
 * Each request is a row of its probe: what the client measured and received, and what the server's
 * log says about it (found by the request id). The checks run when all servers have exited; each
 * has the number of its invariant, so a failure names what is violated.
 *
 * Owner: the main thread; concurrent clients are threads that end before the phase does.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/drill.h"
#include "base/err.h"
#include "lab/bench_ask.h"

struct buf;
struct json;

enum {
    QA_REQUESTS_MAX = 64,
    QA_CHECKS_MAX = 256,
    QA_EVENTS_MAX = 48,
    QA_SESSIONS_MAX = 8,
    QA_LINE_BYTES = 256,
    QA_CHUNK = 64, /* tokens of a prefill chunk of the servers; small: prompts have several */
};

/* X(value, name) */
#define QA_PROBE_TABLE(X)               \
    X(QA_PROBE_AB, "ab-warm-replay")    \
    X(QA_PROBE_TURNS, "turns")          \
    X(QA_PROBE_EDIT, "edit")            \
    X(QA_PROBE_FORK, "fork")            \
    X(QA_PROBE_CANCEL, "cancel-resume") \
    X(QA_PROBE_TENANT, "tenant")        \
    X(QA_PROBE_MODELS, "two-models")    \
    X(QA_PROBE_RESTART, "restart")      \
    X(QA_PROBE_EXACT, "exact")

enum qa_probe { QA_PROBE_TABLE(TABLE_VALUE) QA_PROBE_COUNT };

const char *qa_probe_name(enum qa_probe probe);

enum qa_event_kind { QA_EVENT_ROUTE, QA_EVENT_CACHE, QA_EVENT_PHASE, QA_EVENT_ANSWER };

/* A line of the server's log that belongs to a request. */
struct qa_event {
    enum qa_event_kind kind;
    char line[QA_LINE_BYTES]; /* without time and level */
};

struct qa_request {
    enum qa_probe probe;
    const char *phase; /* "warm" */
    char session;      /* 'a'... */
    unsigned run;      /* of the server: 1, 2, 3 */
    size_t shared;     /* tokens that it begins with like the one it diverged from; 0: none did */
    struct ask_result result;
    char failure[256]; /* of the connection; "" = none */
    struct qa_event events[QA_EVENTS_MAX];
    size_t events_count;
};

struct qa_check {
    enum qa_probe probe;
    unsigned invariant;
    bool passed;
    char text[200];   /* what must hold */
    char detail[200]; /* what was observed */
};

struct qa_options {
    const char *scratch; /* folder for this scenario */
    const char *id, *model;
    const char *other_model; /* served beside it by the same process; NULL = none */
    uint32_t prompt_bytes, max_tokens, threads, concurrent;
    uint64_t ram_bytes, timeout_ms;
    enum drill drill;
    void (*progress)(unsigned done, unsigned total, void *arg);
    void *arg;
};

struct qa_scenario {
    const struct qa_options *options;
    struct qa_request *requests; /* QA_REQUESTS_MAX */
    size_t requests_count;
    struct qa_check *checks; /* QA_CHECKS_MAX */
    size_t checks_count;
    double cap_bytes; /* as reported by the cache */
};

/* Runs all of it. ERR_OK also when checks failed; else a server could not be started. */
enum err qa_run(struct qa_scenario *scenario, const struct qa_options *options,
                struct errinfo *info) NODISCARD;
void qa_scenario_fini(struct qa_scenario *scenario);

bool qa_passed(const struct qa_scenario *scenario);
/* Whether a check of this invariant failed. */
bool qa_fell(const struct qa_scenario *scenario, unsigned invariant);

/* The scenario as an element of "scenarios". */
void qa_write_json(const struct qa_scenario *scenario, struct json *json);

/* ---- between its files ---- */

/* The phases of the probe of two sessions, for the first and for a second model. */
struct qa_ab {
    enum qa_probe probe;
    const char *cold, *warm, *exact, *aba[3];
};
extern const struct qa_ab qa_ab[2];

/* The first request of a phase and session; NULL: there is none. */
const struct qa_request *qa_find(const struct qa_scenario *scenario, const char *phase,
                                 char session);
/* qa_events.c: extracts the log lines of this run's requests. */
void qa_collect_events(struct qa_scenario *scenario, unsigned run, struct str log);
/* The number after "NAME=" in a line; -1: none. */
int64_t qa_event_number(const struct qa_event *event, const char *name);
/* The last cache event of the request: hit, partial or miss. NULL: not in the log. */
const struct qa_event *qa_decision(const struct qa_request *request);
/* qa_check.c: fills scenario->checks. */
void qa_check_all(struct qa_scenario *scenario);

struct qa_totals {
    unsigned hits, misses, writes;
    int64_t read_tokens, write_tokens;
};
/* Of all requests of a phase, as reported by the server. */
struct qa_totals qa_totals(const struct qa_scenario *scenario, const char *phase);

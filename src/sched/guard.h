/*
 * guard.h: memory rules: levels, estimates and decisions, as pure functions of limits and readings.
 *
 *      0 ........................................... soft ........ hard ..... ceiling
 *      | weights, cells | requests | queues | bodies | RAM tier      |           |
 *                                            shrinks above soft      |           |
 *                        no request is admitted beside others, chunks shrink     |
 *                                     the youngest request ends above it, twice in a row
 *
 * The measures, in this order: the RAM tier shrinks (guard_ram_cap), bodies that are still being
 * received are refused (guard_bodies_room), new work waits (guard_admit), chunks shrink down to a
 * floor (guard_chunk), a running request ends and its state is kept
 * (guard_is_over). A request that can never fit is refused before any of these.
 *
 * Admission and abort agree (keeps I70): every request that guard_admit accepts leaves the ledger
 * at or below the ceiling, and requests end only above the ceiling. So a request ends only because
 * of memory that is in no ledger, which is measured.
 *
 * An unknown value counts as 0 and decides nothing (keeps I76). All sums saturate at UINT64_MAX.
 *
 * Threads: no state. src/sched/memory.h keeps limits and readings.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"

/* X(value, name): the log, /props and the metrics use these names */
#define GUARD_LEVEL_TABLE(X)                                     \
    X(GUARD_OK, "ok")                                            \
    X(GUARD_SOFT, "soft") /* the RAM tier shrinks */             \
    X(GUARD_HARD, "hard") /* new work waits, chunks are small */ \
    X(GUARD_OVER, "over") /* above the ceiling */

enum guard_level { GUARD_LEVEL_TABLE(TABLE_VALUE) GUARD_LEVEL_COUNT };

const char *guard_level_name(enum guard_level level);

enum {
    GUARD_CHUNK_FLOOR = 32, /* tokens: smaller chunks cost time and save nothing */
    /* per prompt token: its text in body, document and rendered form, its id twice, marks (64), and
     * its place in the index of drafts (draft.h) */
    GUARD_RECORD_BYTES = 64 + 16,
    /* consecutive readings above the ceiling before a request ends */
    GUARD_OVER_POLLS = 2,
};

/* One consistent set: created as a whole and copied as a whole (keeps I71). */
struct guard_limits {
    uint64_t ceiling; /* 0: none, and nothing is limited */
    uint64_t soft, hard;
    /* of the RAM tier: its size when there is room, and its guaranteed minimum */
    uint64_t ram_wanted, ram_floor;
    uint64_t queues_max; /* for the records of all requests together, unless one needs more */
    uint64_t bodies_max; /* for the bodies of all requests together */
    /* of the machine's memory: left by the RAM tier to other programs */
    uint64_t available_min;
};

/* The ceiling is as requested, whatever the shares below it (keeps I70). */
struct guard_limits guard_limits_of(uint64_t ceiling, uint64_t ram_wanted, uint64_t ram_floor);

/* The ceiling when none is set: the machine's memory minus a reserve for everything else, and no
 * more than is available. */
uint64_t guard_ceiling_of(uint64_t total, uint64_t available);

struct guard_reading {
    uint64_t fixed; /* weights, cells and everything else allocated when a model is loaded */
    /* of the process beside `fixed` while it has no request: program, libraries, buffers */
    uint64_t base;
    uint64_t claims;    /* promised to running requests */
    uint64_t queues;    /* records of all current requests */
    uint64_t bodies;    /* of requests that are being received or answered */
    uint64_t ram_used;  /* by the RAM tier now */
    uint64_t process;   /* measured; 0 = not known */
    uint64_t available; /* on the machine; 0 = not known */
    uint32_t over;      /* consecutive readings above the ceiling, including this one */
};

/* What the process takes without requests. */
uint64_t guard_idle(const struct guard_reading *reading);
/* the larger of ledger and measurement */
uint64_t guard_used(const struct guard_reading *reading);
enum guard_level guard_level(const struct guard_limits *limits,
                             const struct guard_reading *reading);
bool guard_is_over(const struct guard_limits *limits, const struct guard_reading *reading);

/* ---- what a request needs ---- */

/* A loaded model. Each field may be 0: not known. */
struct guard_model {
    uint64_t weights;
    /* memory of all cells if allocated at load; then requests allocate none */
    uint64_t cells;
    uint64_t cell_bytes;     /* per token */
    uint64_t sequence_bytes; /* per sequence, whatever its length */
    uint64_t device; /* of weights and cells: in the memory of devices, not of this machine */
    /* reserved by the library to compute `chunk` tokens at the end of `context` cells in use. Such
     * memory counts once a run has touched it, and stays */
    uint64_t compute;
    uint32_t chunk, context;
};

/* Weights and cells in this machine's memory. */
uint64_t guard_model_fixed(const struct guard_model *model);

/* What a run of so many tokens touches of model->compute, with that many cells in use. */
uint64_t guard_compute(const struct guard_model *model, uint32_t tokens, uint32_t cells);

struct guard_ask {
    /* prompt tokens: cached; to compute. Both need cells (keeps I74) */
    uint32_t cached, fresh;
    uint32_t answer; /* tokens promised for the answer */
    uint32_t chunk;  /* tokens computed at a time */
};

struct guard_need {
    uint64_t cells, compute;
    uint64_t claim;   /* both: promised at admission */
    uint64_t records; /* from arrival to end */
    uint64_t total;
};

struct guard_need guard_need_of(const struct guard_model *model, const struct guard_ask *ask);

/* ---- decisions ---- */

enum guard_verdict {
    GUARD_ADMIT,
    GUARD_DEFER,  /* not beside the running requests */
    GUARD_REFUSE, /* never */
};

/* Memory for the records of requests while this one runs: its own may exceed the usual share. */
uint64_t guard_records(const struct guard_limits *limits, const struct guard_need *need);
/* The least that the process takes with the request: without requests (`idle`: fixed and base), its
 * claim, records, and the floor of the RAM tier. */
uint64_t guard_least(const struct guard_limits *limits, uint64_t idle,
                     const struct guard_need *need);
/* Whether that is below the ceiling. Depends only on constants, so a refusal is final. */
bool guard_fits(const struct guard_limits *limits, uint64_t idle, const struct guard_need *need);

/* `alone`: nothing else is running, so waiting would not help. */
enum guard_verdict guard_admit(const struct guard_limits *limits,
                               const struct guard_reading *reading, const struct guard_need *need,
                               bool alone);

/* Whether there is room for the records of one more request. One that has more than the share of
 * all requests is taken while no other is there. */
bool guard_takes(const struct guard_limits *limits, const struct guard_reading *reading,
                 uint64_t records);

/* Bytes that bodies may take now: their share, or what is left below `hard` when the RAM tier has
 * shrunk. */
uint64_t guard_bodies_room(const struct guard_limits *limits, const struct guard_reading *reading);

/* Size allowed for the RAM tier now, between its floor and the wanted size. */
uint64_t guard_ram_cap(const struct guard_limits *limits, const struct guard_reading *reading);

/* The next chunk of a prefill. */
struct guard_run {
    uint32_t wanted;  /* tokens */
    uint32_t cells;   /* in use at its end */
    uint64_t touched; /* of model->compute, by earlier runs */
};

/* Tokens of the next chunk: `wanted`, or as many as touch no more than earlier runs did and what is
 * left below `hard`, but at least the floor (keeps I77). */
uint32_t guard_chunk(const struct guard_limits *limits, const struct guard_reading *reading,
                     const struct guard_model *model, const struct guard_run *run);

/*
 * guard.h: what memory allows: levels, estimates and decisions, as pure functions of limits and
 * readings.
 *
 *      0 ........................................... soft ........ hard ..... ceiling
 *      | weights, cells | requests | queues | RAM tier               |           |
 *                                            gives way above soft    |           |
 *                             nobody is admitted beside others, chunks shrink    |
 *                                                      the youngest one ends above it, twice in a
 *                                                      row
 *
 * The ladder, in this order: the RAM tier gives way (guard_ram_cap), new work waits (guard_admit),
 * chunks become smaller down to a floor (guard_chunk), a running request ends and what it has
 * computed is kept (guard_is_over). What can never fit is refused before any of it.
 *
 * Admission and abort agree (keeps I70): whatever guard_admit lets in leaves the ledger at or below
 * the ceiling, and only above the ceiling is anything ended. So nobody is ended but for memory that
 * is in no ledger, which is measured.
 *
 * What is not known counts as nothing, and decides nothing (keeps I76). All sums stop at
 * UINT64_MAX.
 *
 * Threads: no state. src/sched/memory.h keeps limits and readings.
 */
#ifndef HEARTH_SCHED_GUARD_H
#define HEARTH_SCHED_GUARD_H

#include <stdbool.h>
#include <stdint.h>

/* X(value, name): the names are those of the log, of /props and of the metrics */
#define GUARD_LEVEL_TABLE(X)                                     \
    X(GUARD_OK, "ok")                                            \
    X(GUARD_SOFT, "soft") /* the RAM tier gives way */           \
    X(GUARD_HARD, "hard") /* new work waits, chunks are small */ \
    X(GUARD_OVER, "over") /* more than is allowed */

enum guard_level {
#define X(value, name) value,
    GUARD_LEVEL_TABLE(X)
#undef X
        GUARD_LEVEL_COUNT
};

const char *guard_level_name(enum guard_level level);

enum {
    GUARD_CHUNK_FLOOR = 32, /* tokens: smaller ones cost time and save nothing */
    /* per token of a prompt: its text in body, document and rendered form, its id twice, marks */
    GUARD_RECORD_BYTES = 64,
    /* readings above the ceiling, one after the other, before someone ends */
    GUARD_OVER_POLLS = 2,
};

/* One coherent set: made as a whole and copied as a whole (keeps I71). */
struct guard_limits {
    uint64_t ceiling; /* 0: there is none, and nothing is ever limited */
    uint64_t soft, hard;
    /* of the RAM tier: what it has when there is room, and what is not taken from it */
    uint64_t ram_wanted, ram_floor;
    uint64_t queues_max; /* of the records of all requests together */
    /* of the machine's memory, that the RAM tier leaves to others */
    uint64_t available_min;
};

/* The ceiling is what was asked for, whatever the shares below it are (keeps I70). */
struct guard_limits guard_limits_of(uint64_t ceiling, uint64_t ram_wanted, uint64_t ram_floor);

/* The ceiling when nobody has set one: what the machine has, without a reserve for everything else,
 * and not more than is available. */
uint64_t guard_ceiling_of(uint64_t total, uint64_t available);

struct guard_reading {
    uint64_t fixed;     /* weights, cells and whatever else is taken when a model is loaded */
    uint64_t claims;    /* promised to running requests */
    uint64_t queues;    /* records of all requests that are there */
    uint64_t ram_used;  /* by the RAM tier, now */
    uint64_t process;   /* measured; 0 = not known */
    uint64_t available; /* on the machine; 0 = not known */
    uint32_t over;      /* readings above the ceiling, one after the other, this one included */
};

/* the larger one of ledger and measurement */
uint64_t guard_used(const struct guard_reading *reading);
enum guard_level guard_level(const struct guard_limits *limits,
                             const struct guard_reading *reading);
bool guard_is_over(const struct guard_limits *limits, const struct guard_reading *reading);

/* ---- what a request needs ---- */

/* Of a loaded model. Each may be 0: not known. */
struct guard_model {
    uint64_t weights;
    /* memory of all cells, when it is taken at load; then requests take none */
    uint64_t cells;
    uint64_t cell_bytes;     /* of a token */
    uint64_t sequence_bytes; /* of a sequence, whatever its length */
};

uint64_t guard_model_fixed(const struct guard_model *model);

struct guard_ask {
    /* tokens of the prompt: held somewhere; to be computed. Both need cells (keeps I74) */
    uint32_t cached, fresh;
    uint32_t answer;     /* tokens that are promised for it */
    uint32_t chunk;      /* tokens computed at a time */
    uint64_t token_cost; /* bytes of computing one of them: guard_cost_per_token */
};

struct guard_need {
    uint64_t cells, compute;
    uint64_t claim;   /* both: what is promised when it is admitted */
    uint64_t records; /* from its arrival to its end */
    uint64_t total;
};

struct guard_need guard_need_of(const struct guard_model *model, const struct guard_ask *ask);

/* ---- decisions ---- */

enum guard_verdict {
    GUARD_ADMIT,
    GUARD_DEFER,  /* not beside what runs now */
    GUARD_REFUSE, /* never */
};

/* Whether it fits beside the fixed part when everything else has given way. Depends on nothing that
 * changes: never means never. */
bool guard_fits(const struct guard_limits *limits, uint64_t fixed, const struct guard_need *need);

/* `alone`: nothing else runs, so waiting would not help. */
enum guard_verdict guard_admit(const struct guard_limits *limits,
                               const struct guard_reading *reading, const struct guard_need *need,
                               bool alone);

/* Whether there is room for the records of one more request. */
bool guard_takes(const struct guard_limits *limits, const struct guard_reading *reading,
                 uint64_t records);

/* What the RAM tier may have now, within floor and wish. */
uint64_t guard_ram_cap(const struct guard_limits *limits, const struct guard_reading *reading);

/* Tokens of the next chunk: `wanted`, or as many as fit below `hard`, at least the floor (keeps
 * I77). */
uint32_t guard_chunk(const struct guard_limits *limits, const struct guard_reading *reading,
                     uint64_t token_cost, uint32_t wanted);

/* What computing a token has cost so far: what was measured last, and smoothed; the larger counts,
 * with a margin. */
struct guard_cost {
    double last, smooth;
};

void guard_cost_note(struct guard_cost *cost, uint64_t before, uint64_t after, uint32_t tokens);
uint64_t guard_cost_per_token(const struct guard_cost *cost);

#endif

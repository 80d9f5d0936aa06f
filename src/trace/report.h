/*
 * report.h: what replays came to, for people and for programs.
 *
 *      table   one line per policy and capacity, under a head that says what was replayed, with what and on what
 *      csv     the same, one line of names first; lines of the head begin with '#'
 *      json    one object: head, and a list of rows with every number under its own name
 *      svg     hit rate over capacity, one line per policy; stands alone, no script, no font
 *
 * Pure: numbers in, text out.
 */
#ifndef HEARTH_TRACE_REPORT_H
#define HEARTH_TRACE_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "trace/sim.h"

struct buf;
struct cost;

enum report_format { REPORT_TABLE, REPORT_CSV, REPORT_JSON, REPORT_SVG };

struct report_row {
    const char *policy;
    uint64_t capacity_bytes;
    uint64_t capacity_blocks; /* 0 = was given in bytes */
    struct sim_result result;
};

/* The best placement of snapshots: place.h. */
struct report_best {
    uint64_t snapshots;
    double hit_rate;
};

struct report {
    const char *version;  /* of the program */
    const char *machine;  /* "2 cores, 23 GiB" */
    const char *files;    /* "mooncake: conversation.jsonl", for people */
    const struct cost *cost;
    const char *snapshots; /* how they were placed; NULL = none are needed */
    uint32_t block_tokens, run_blocks, users;
    uint64_t seed;
    uint64_t requests, blocks, blocks_distinct, tokens;
    uint64_t ns; /* from the first request to the last */
    const struct report_row *rows;
    size_t rows_count;
    const struct report_best *best; /* NULL = not asked for */
};

/* Appends to `out`. Fails as buf_append does. */
enum err report_write(const struct report *report, enum report_format format, struct buf *out) NODISCARD;

/* svg.c; report_write calls it. */
void report_write_svg(const struct report *report, struct buf *out);

#endif

/*
 * tally.h: what a server has saved and computed, in a row of sums, and those sums as a file, so
 * that they survive it.
 *
 * Sums only: what is divided (efficiency, seconds saved) is made from them when someone asks, so
 * that the sums of many runs can be added.
 *
 * Pure functions; any thread, the structs are the caller's.
 */
#ifndef HEARTH_ADMIN_TALLY_H
#define HEARTH_ADMIN_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json_write.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "sched/gen.h"

/* In the order of the file: new ones go to the end. Tokens of prompts by where they came from, then
 * time. X(field) */
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
    X(restore_ns)

struct tally {
#define X(field) uint64_t field;
    TALLY_TABLE(X)
#undef X
};

/* Sums stop at their largest value instead of beginning anew. */
void tally_add(struct tally *sum, const struct tally *more);

/* The tokens of one generation. */
void tally_count(struct tally *sum, const struct gen_usage *usage);

/* Prompt tokens that were not computed, of all; 0 when there were none. */
double tally_efficiency(const struct tally *sum);
/* What computing them would have taken at the speed of those that were computed, without what
 * bringing them took; never below 0. An estimate: longer prompts are slower per token. */
double tally_saved_s(const struct tally *sum);

/* The fields of an open object, as /admin/stats has them. */
void tally_write(struct json *json, const struct tally *sum);

/* The file. `since_s` is the wall time that the sums began at. ERR_CORRUPT: it is not what was
 * written. */
enum err tally_encode(struct buf *out, const struct tally *sum, uint64_t since_s);
enum err tally_decode(struct str bytes, struct tally *sum, uint64_t *since_s) NODISCARD;

#endif

/*
 * kinds.h: what a layer's memory can do. Every decision about reuse reads these, never the name of
 * a model (keeps I5).
 *
 *   full        any prefix of the rows is a valid state
 *   sliding     only the last `window` rows are kept
 *   chunked     as sliding, the window starting anew at each multiple of its size
 *   recurrent   one state, valid at one token count; also every unknown kind (keeps I29)
 *
 * Pure data and pure functions; no thread, no owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

/* X(value, name) */
#define KIND_TABLE(X)          \
    X(KIND_FULL, "full")       \
    X(KIND_SLIDING, "sliding") \
    X(KIND_CHUNKED, "chunked") \
    X(KIND_RECURRENT, "recurrent")

enum kind { KIND_TABLE(TABLE_VALUE) KIND_COUNT };

/* A set of kinds, one bit each. */
typedef uint32_t kind_set;
#define KIND_BIT(kind) (1u << (kind))

/* Never NULL; "unknown" for values that are not a kind. */
const char *kind_name(enum kind kind);

/* "full+recurrent"; the order is that of the enum, bits that are no kind are "unknown", the empty
 * set is "none". Cut at `size`, which is at least 1. Returns `out`. */
const char *kind_set_names(kind_set set, char *out, size_t size);

/* A state of these kinds can be cut at any token of its rows: every kind is full. The empty set and
 * unknown bits are not. */
bool kind_set_sliceable(kind_set set);

/* Some kind needs a snapshot at exactly the boundary: all sets but the sliceable ones. */
bool kind_set_needs_snapshot(kind_set set);

/* Why the newest tokens of a sequence cannot be removed again. X(value, text) */
#define ROLLBACK_TABLE(X)                                                                    \
    X(ROLLBACK_WORKS, "")                                                                    \
    X(ROLLBACK_OFF, "rolling back was not enabled when the model was loaded")                \
    X(ROLLBACK_LIBRARY, "the library cannot roll back the recurrent state of this model")    \
    X(ROLLBACK_MEMORY, "earlier recurrent states take too much memory; --drafts N takes it") \
    X(ROLLBACK_STREAMS, "with a cache per sequence (--kv-streams), rows may be lost")        \
    X(ROLLBACK_FAILED, "the self-test of rolling back failed")

enum rollback { ROLLBACK_TABLE(TABLE_VALUE) ROLLBACK_COUNT };

const char *rollback_text(enum rollback why);

/* Layers of one kind in a model. */
struct engine_layer_group {
    enum kind kind;
    uint32_t layers; /* 0 = unknown */
};

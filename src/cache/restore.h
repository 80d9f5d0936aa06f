/*
 * restore.h: to which token counts a held state can be restored, for each kind of layer and for
 * composites. Pure functions.
 *
 *      kind        retained                                  can be restored to pos
 *      full        [0, length)                               any pos in [0, length]
 *      sliding     the last rows, [start, length)            pos whose whole window [max(0, pos - window), pos) is retained
 *      chunked     as sliding, window from the chunk's start pos whose chunk start is retained
 *      recurrent   nothing                                   length only: exact checkpoint or replay
 *      composite   each child's                              what all children can (keeps I18)
 *
 * Failure changes nothing and says why; the result is (restored, tokens, replay start, reason) as
 * in INVARIANTS I15-I21.
 */
#ifndef HEARTH_CACHE_RESTORE_H
#define HEARTH_CACHE_RESTORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* bits, as hearth_kind */
enum restore_kind {
    RESTORE_FULL = 1,
    RESTORE_SLIDING = 2,
    RESTORE_CHUNKED = 4,
    RESTORE_RECURRENT = 8
};

struct restore_range {
    uint32_t begin, end; /* tokens whose rows are there */
};

/* The state of one layer, or of layers that are alike. */
struct restore_state {
    uint32_t kind;   /* one enum restore_kind; anything else is treated as recurrent (keeps I29) */
    uint32_t length; /* logical: tokens it stands for */
    uint32_t window; /* sliding, chunked */
    uint32_t start;  /* first retained row: sliding, chunked */
    /* rows pinned at the front ("attention sinks"): not restorable when != 0 (keeps I16) */
    uint32_t keep;
};

struct restore_result {
    bool restored;
    uint32_t tokens;       /* restored; 0 on failure */
    uint32_t replay_start; /* where computing goes on */
    const char *reason;    /* a literal, also on success */
};

struct restore_range restore_retained(const struct restore_state *state);
bool restore_possible(const struct restore_state *state, uint32_t pos);
/* Shortens the state to pos; untouched when that is not possible (keeps I17). */
struct restore_result restore_apply(struct restore_state *state, uint32_t pos);

/* Composites: all or nothing. */
bool restore_possible_all(const struct restore_state *states, size_t count, uint32_t pos);
struct restore_result restore_apply_all(struct restore_state *states, size_t count, uint32_t pos);
/* The largest pos <= limit that all can be restored to; 0 = only a cold start. */
uint32_t restore_longest(const struct restore_state *states, size_t count, uint32_t limit);

#endif

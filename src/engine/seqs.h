/*
 * seqs.h: the accounting of an engine: which sequences exist, how long they are, which cells they
 * share.
 *
 * A fork shares the cells of its source. To know the number of free cells before calling the
 * library, each sequence is a list of spans of tokens, and forks share spans:
 *
 *      seq 0   [ span A 0..512 ][ span B 512..600 ]     cells = A 512 + B 88 + C 40 = 640
 *      seq 1   [ span A 0..512 ][ span C 512..552 ]     (forked from seq 0 at 512, then 40 tokens)
 *
 * A span is used whole or not at all: a cut inside a shared one splits it. Slots go FREE -> LIVE ->
 * FREE. A BROKEN one (a run failed in the middle) can only be released; a RETIRED one (the library
 * refused an import into it) is not reused until no other slot is in use and the library can be
 * emptied as a whole (keeps I102).
 *
 * A FOLD is a picture of an M-RoPE model: its tokens share a position, and all of them take fewer
 * positions than there are tokens. The library knows positions only, so that a fold is whole in a
 * range of rows, or not in it:
 *
 *      tokens      0 1 2 3 | 4 5 6 7 8 9 10 11 12 | 13 14       a picture of 3 x 3
 *      positions   0 1 2 3 | 4 4 4 4 4 4  4  4  4 |  7  8       takes 3 positions
 *
 * Pure bookkeeping, no library; owner: the engine's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

enum { SEQS_SLOTS_MAX = 256, SEQS_NONE = -1 };

enum seqs_slot_state { SEQS_FREE, SEQS_LIVE, SEQS_BROKEN, SEQS_RETIRED };

struct seqs_span {
    uint32_t length;
    uint32_t users;
};

struct seqs_fold {
    uint32_t begin, end; /* tokens */
    uint32_t positions;
};

struct seqs_slot {
    enum seqs_slot_state state;
    uint32_t length;
    struct seqs_span **spans; /* in order of tokens, without gaps */
    size_t spans_count, spans_cap;
    struct seqs_fold *folds; /* ascending; during a restore, also of tokens that are yet to come */
    size_t folds_count, folds_cap;
};

struct seqs {
    struct seqs_slot slots[SEQS_SLOTS_MAX];
    uint32_t slots_count;
    uint32_t cells; /* all there are; with `streams`, per sequence */
    uint32_t cells_used;
    bool streams;
};

void seqs_init(struct seqs *seqs, uint32_t slots, uint32_t cells, bool streams);
void seqs_fini(struct seqs *seqs);

/* A free slot becomes live and empty; SEQS_NONE when there is none. */
int32_t seqs_acquire(struct seqs *seqs) NODISCARD;
/* A given free slot becomes live and empty, for accounting that mirrors another process's. */
void seqs_claim(struct seqs *seqs, int32_t slot);
/* As acquire, with the content of `from`, a live slot. Takes no cells; with streams as many as
 * `from` has. */
int32_t seqs_fork(struct seqs *seqs, int32_t from) NODISCARD;
void seqs_release(struct seqs *seqs, int32_t slot); /* live or broken -> free */

/* Of a live slot. Exceeding the cells, or lengthening a sequence by truncating it, is a caller's
 * bug. */
void seqs_append(struct seqs *seqs, int32_t slot, uint32_t tokens);
void seqs_truncate(struct seqs *seqs, int32_t slot, uint32_t length);
void seqs_break(struct seqs *seqs, int32_t slot);  /* live -> broken; its cells stay in use */
void seqs_retire(struct seqs *seqs, int32_t slot); /* live -> retired; its cells are free */
/* When nothing is live or broken: retired -> free. Else a no-op. */
void seqs_recycle(struct seqs *seqs);

/* Of a live slot: after all of its folds. */
void seqs_fold(struct seqs *seqs, int32_t slot, struct seqs_fold fold);
/* Removes the folds that end after `length`. */
void seqs_unfold(struct seqs *seqs, int32_t slot, uint32_t length);
/* Of a token, or of what follows the last one. */
uint32_t seqs_position(const struct seqs *seqs, int32_t slot, uint32_t token);
/* The largest number of tokens <= `length` that ends in no fold. */
uint32_t seqs_floor(const struct seqs *seqs, int32_t slot, uint32_t length);

bool seqs_live(const struct seqs *seqs, int32_t slot);       /* any number is allowed */
uint32_t seqs_length(const struct seqs *seqs, int32_t slot); /* 0 for slots that are not in use */
uint32_t seqs_cells_free(const struct seqs *seqs); /* with streams: of an empty sequence */
uint32_t seqs_live_count(const struct seqs *seqs);

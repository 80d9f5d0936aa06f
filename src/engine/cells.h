/*
 * cells.h: a model of where libllama puts tokens, so that state is imported where that is fast.
 *
 * All sequences share one array of cells. A token takes the first free one: the library looks from
 * its HEAD on, and there is never a free cell before that, because cells that become free pull it
 * back. State that is imported into cells which follow each other takes one copy per layer; with a
 * gap anywhere it takes one per cell and layer: on a GPU a hundred times as long.
 *
 *      cells   | A A A A . . B B B . . . . . . .
 *                        ^head   six tokens: a piece of 2, and a piece of 4
 *
 * So an import is cut into pieces at the gaps. The rules were read in llama-kv-cache.cpp and are
 * compared with the library in tests/engine/cells_test.c. If a release has others, imports are
 * slower, but not wrong.
 *
 * Pure bookkeeping, no library; owner: the engine's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/seqs.h"

struct cells_seq {
    uint32_t *at; /* the cell of each token */
    uint32_t count, cap;
};

struct cells {
    uint16_t *users; /* sequences that use each cell; NULL: the model is off */
    uint32_t size, used, head;
    bool lost; /* the library did something unknown; until all cells are free */
    struct cells_seq seqs[SEQS_SLOTS_MAX];
};

/* All cells are free, and the library's head is at the first one. A model that could not be
 * allocated is off. */
void cells_init(struct cells *cells, uint32_t size);
void cells_fini(struct cells *cells);
/* As after init; a no-op when it is off. */
void cells_reset(struct cells *cells);
/* A call failed in the middle. */
void cells_lose(struct cells *cells);

/* The library has computed or imported this token. Positions of a sequence are 0, 1, 2 ..., placed
 * in any order. */
void cells_place(struct cells *cells, int32_t seq, uint32_t position);
void cells_copy(struct cells *cells, int32_t from, int32_t to);
/* Removes the tokens from `length` on. */
void cells_cut(struct cells *cells, int32_t seq, uint32_t length);

/* How many of so many tokens to import next: as many as follow each other, or all before the next
 * run that is worth a call of its own. All, if nothing is known. */
uint32_t cells_piece(const struct cells *cells, uint32_t tokens);

/* cells.c: see the header. */
#include "engine/cells.h"

#include <string.h>

#include "base/attr.h"
#include "base/mem.h"

enum {
    RUN_MIN = 4, /* cells that follow each other; a call costs as much as this many cells alone */
    NOT_PLACED = UINT32_MAX
};

static bool is_off(const struct cells *cells)
{
    return cells->users == NULL || cells->lost;
}

void cells_init(struct cells *cells, uint32_t size)
{
    cells_fini(cells);
    cells->users = mem_try_alloc_array(size, sizeof(*cells->users));
    cells->size = cells->users != NULL ? size : 0;
    cells_reset(cells);
}

void cells_fini(struct cells *cells)
{
    for (size_t i = 0; i < COUNT_OF(cells->seqs); i++)
        mem_free(cells->seqs[i].at);
    mem_free(cells->users);
    *cells = (struct cells){0};
}

void cells_reset(struct cells *cells)
{
    if (cells->users == NULL)
        return;
    memset(cells->users, 0, cells->size * sizeof(*cells->users));
    cells->used = cells->head = 0;
    cells->lost = false;
    for (size_t i = 0; i < COUNT_OF(cells->seqs); i++)
        cells->seqs[i].count = 0;
}

void cells_lose(struct cells *cells)
{
    cells->lost = true;
}

/* The first free cell at or after `at`; `size`: none. */
static uint32_t next_free(const struct cells *cells, uint32_t at)
{
    while (at < cells->size && cells->users[at] > 0)
        at++;
    return at;
}

static bool reserve(struct cells_seq *seq, uint32_t count)
{
    if (count > seq->cap) {
        uint32_t cap = MAX(count, 2 * seq->cap);
        uint32_t *at = mem_try_realloc(seq->at, cap * sizeof(*at));
        if (at == NULL)
            return false;
        seq->at = at;
        seq->cap = cap;
    }
    return true;
}

void cells_place(struct cells *cells, int32_t seq, uint32_t position)
{
    struct cells_seq *into = &cells->seqs[seq];

    if (is_off(cells))
        return;
    uint32_t at = next_free(cells, cells->head);
    if (at == cells->size || !reserve(into, position + 1)) {
        cells_lose(cells);
        return;
    }
    while (into->count <= position)
        into->at[into->count++] = NOT_PLACED;
    into->at[position] = at;
    cells->users[at] = 1;
    cells->used++;
    cells->head = at + 1;
}

void cells_copy(struct cells *cells, int32_t from, int32_t to)
{
    const struct cells_seq *source = &cells->seqs[from];
    struct cells_seq *copy = &cells->seqs[to];

    if (is_off(cells))
        return;
    if (copy->count > 0 || !reserve(copy, source->count)) {
        cells_lose(cells);
        return;
    }
    for (uint32_t i = 0; i < source->count; i++) {
        copy->at[i] = source->at[i];
        if (copy->at[i] != NOT_PLACED)
            cells->users[copy->at[i]]++;
    }
    copy->count = source->count;
}

void cells_cut(struct cells *cells, int32_t seq, uint32_t length)
{
    struct cells_seq *from = &cells->seqs[seq];

    if (is_off(cells))
        return;
    for (; from->count > length; from->count--) {
        uint32_t at = from->at[from->count - 1];
        if (at == NOT_PLACED || --cells->users[at] > 0)
            continue;
        cells->used--;
        cells->head = MIN(cells->head, at);
    }
}

uint32_t cells_piece(const struct cells *cells, uint32_t tokens)
{
    if (is_off(cells) || tokens > cells->size - cells->used)
        return tokens;
    uint32_t at = next_free(cells, cells->head), piece = 0;
    while (piece < tokens) {
        uint32_t run = 1;
        while (run < tokens - piece && at + run < cells->size && cells->users[at + run] == 0)
            run++;
        if (run >= RUN_MIN && piece > 0)
            break; /* a piece of its own */
        piece += run;
        if (run >= RUN_MIN)
            break;
        at = next_free(cells, at + run);
    }
    return piece;
}

/*
 * engine_fake_memory.h: the memory of the fake engine: rows in cells, windows, recurrent states,
 * and their images. For engine_fake.c only.
 *
 * The bytes are the only truth. What a memory is worth is read from them (fake_memory_read),
 * whatever put them there: a run, a fork or an import of other state.
 *
 * OWNER: the engine's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "engine/kinds.h"

enum { FAKE_VALUE_BYTES = 16, FAKE_HEADER_BYTES = 16 };

/* A number that matters and its rounding, as floats have high and low bits. */
struct fake_value {
    uint64_t main, low;
};

/* What a sequence's memory is worth, one value per kind. */
struct fake_sums {
    struct fake_value kinds[KIND_COUNT];
};

struct fake_memory_shape {
    kind_set kinds;
    uint32_t window;  /* of sliding and chunked */
    uint32_t surplus; /* rows that a window keeps beyond those that it needs */
    uint32_t sequences;
    uint32_t cells;       /* all there are; with streams, per sequence */
    uint32_t rows_bytes;  /* of a token, >= FAKE_VALUE_BYTES */
    uint32_t state_bytes; /* of the recurrent kind, >= FAKE_VALUE_BYTES */
    bool streams;
};

enum fake_image { FAKE_IMAGE_ROWS = 1, FAKE_IMAGE_SNAPSHOT = 2, FAKE_IMAGE_WHOLE = 3 };

struct fake_memory;

/* Two numbers to one; a change of either changes all bits of the result. */
uint64_t fake_mix(uint64_t a, uint64_t b);

/* ERR_NOMEM; *memory is then NULL. */
enum err fake_memory_create(struct fake_memory **memory,
                            const struct fake_memory_shape *shape) NODISCARD;
void fake_memory_destroy(struct fake_memory **memory);

/* The tokens that all kinds of the sequence hold; -1 when they disagree, as after an import of
 * parts that do not belong together. */
int64_t fake_memory_length(const struct fake_memory *memory, int32_t seq);
uint32_t fake_memory_cells_used(const struct fake_memory *memory);
/* Cells that the sequence can still take, forgetting that others want some as well. */
uint32_t fake_memory_room(const struct fake_memory *memory, int32_t seq);
/* Ranges of adjacent cells that the rows of these tokens lie in. */
uint32_t fake_memory_ranges(const struct fake_memory *memory, int32_t seq, uint32_t begin,
                            uint32_t end);

/* Reads every byte. Append carries the sums on, so that a run reads the memory once. */
struct fake_sums fake_memory_read(const struct fake_memory *memory, int32_t seq);
void fake_memory_append(struct fake_memory *memory, int32_t seq, struct fake_value value,
                        struct fake_sums *sums);

void fake_memory_copy(struct fake_memory *memory, int32_t from, int32_t to); /* into an empty one */
/* The least number, other than 0, that the windows allow a cut to. */
uint32_t fake_memory_least(const struct fake_memory *memory, int32_t seq);
void fake_memory_clear(struct fake_memory *memory, int32_t seq);
/* False when a kind no longer holds, or never held, what it needs at `length`; nothing has changed
 * then. */
bool fake_memory_cut(struct fake_memory *memory, int32_t seq, uint32_t length) NODISCARD;
/* Cuts the rows alone: for a sequence that is being imported, and whose other kinds come last. */
void fake_memory_cut_rows(struct fake_memory *memory, int32_t seq, uint32_t length);

/* The physical order of the windows' rows, as a number: 0 as long as no window has moved since the
 * sequence was empty, else the length at which an import or settle last put them in order. */
uint32_t fake_memory_layout(const struct fake_memory *memory, int32_t seq);
void fake_memory_settle(struct fake_memory *memory, int32_t seq);

/* Bytes of an image with `rows` rows and, unless it is one of rows, the other kinds as they are at
 * token `at`. */
uint64_t fake_memory_image_bytes(const struct fake_memory *memory, enum fake_image image,
                                 uint32_t rows, uint32_t at);
/* Writes an image of tokens [begin, end); snapshots and whole images are of all the sequence has,
 * begin being 0. */
void fake_memory_export(const struct fake_memory *memory, int32_t seq, enum fake_image image,
                        uint32_t begin, uint32_t end, void *dst);
/* Rows go behind those that are there; the other kinds are replaced. False when the lengths do not
 * fit or cells are missing. With `fail` half of the rows are written, and then it is false as
 * well. */
bool fake_memory_import(struct fake_memory *memory, int32_t seq, enum fake_image image,
                        const void *data, uint64_t bytes, bool fail) NODISCARD;

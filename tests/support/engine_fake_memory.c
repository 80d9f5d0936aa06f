/*
 * engine_fake_memory.c: bytes that are remembered, and what they are worth.
 *
 * A row or a state is `size` bytes: main part (8, little-endian), low part (8), and filler that
 * follows from the main part. Reading hashes the filler and the place as well: no flipped bit and
 * no swapped row goes unseen. The worth of rows is a sum over them, so that it can be carried from
 * token to token; that of the recurrent state is replaced by each token.
 *
 *      image       offset  bytes
 *      header      0       4      enum fake_image
 *                  4       4      rows in it
 *                  8       4      token at which its other kinds stand; 0 in an image of rows
 *                  12      4      0
 *      rows        16      rows * rows_bytes                           (rows, whole)
 *      windows     ...     rows that the window holds then * 16, each   (snapshot, whole)
 *      state       ...     state_bytes                                 (snapshot, whole)
 *
 * An image is valid if and only if its header is one that an export writes for the kind of image
 * that was asked for, and its length is the one that the header's numbers make. More is not
 * checked, as libllama does not: finding lies is the callers' work, and the logits tell whether
 * they did it.
 */
#include "support/engine_fake_memory.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "base/le.h"
#include "base/mem.h"

enum { WINDOW_ROW_BYTES = FAKE_VALUE_BYTES };

/* The rows [begin, end) of a sliding or chunked kind, and some that it no longer looks at; that of
 * token n lies at n % places. */
struct window {
    uint32_t oldest, begin, end;
    unsigned char *rows;
};

struct sequence {
    uint32_t *cells; /* of the full kind: where the row of each token is */
    uint32_t length;
    struct window windows[KIND_COUNT]; /* only sliding and chunked are used */
    unsigned char *state;
    uint32_t state_at;
    uint32_t settled_at; /* where the windows were last put in order; 0 = before they moved */
};

struct fake_memory {
    struct fake_memory_shape shape;
    unsigned char *rows; /* of all cells */
    uint32_t *users;     /* of each cell */
    uint32_t lowest;     /* all cells before it have users; with streams it is not used */
    uint32_t cells_used;
    struct sequence *sequences;
};

static bool has(const struct fake_memory *memory, int kind)
{
    return (memory->shape.kinds & KIND_BIT(kind)) != 0;
}

static bool has_window(const struct fake_memory *memory, int kind)
{
    return (kind == KIND_SLIDING || kind == KIND_CHUNKED) && has(memory, kind);
}

static struct sequence *get_sequence(const struct fake_memory *memory, int32_t seq)
{
    assert(seq >= 0 && (uint32_t)seq < memory->shape.sequences);
    return &memory->sequences[seq];
}

/* ---- values ---- */

uint64_t fake_mix(uint64_t a, uint64_t b)
{
    /* splitmix64's finish */
    uint64_t z = (a ^ 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u + b;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static void write_value(unsigned char *out, uint32_t size, struct fake_value value)
{
    unsigned char word[8];

    assert(size >= FAKE_VALUE_BYTES);
    le_put_u64(out, value.main);
    le_put_u64(out + 8, value.low);
    for (uint32_t at = FAKE_VALUE_BYTES; at < size; at += 8) {
        le_put_u64(word, fake_mix(value.main, at));
        memcpy(out + at, word, MIN(8, size - at));
    }
}

/* What the bytes are worth at a place. */
static struct fake_value read_value(const unsigned char *data, uint32_t size, uint32_t place)
{
    uint64_t main = fake_mix(le_get_u64(data), place);

    if (size > FAKE_VALUE_BYTES) {
        struct hash128 filler = hash128_of(data + FAKE_VALUE_BYTES, size - FAKE_VALUE_BYTES);
        main = fake_mix(main, le_get_u64(filler.bytes));
    }
    return (struct fake_value){main, fake_mix(le_get_u64(data + 8), place)};
}

static void add_value(struct fake_value *sum, struct fake_value value)
{
    sum->main += value.main;
    sum->low += value.low;
}

static void subtract_value(struct fake_value *sum, struct fake_value value)
{
    sum->main -= value.main;
    sum->low -= value.low;
}

/* ---- cells and windows ---- */

static unsigned char *cell_row(const struct fake_memory *memory, uint32_t cell)
{
    return memory->rows + (size_t)cell * memory->shape.rows_bytes;
}

static struct fake_value read_row(const struct fake_memory *memory, const struct sequence *s,
                                  uint32_t at)
{
    return read_value(cell_row(memory, s->cells[at]), memory->shape.rows_bytes, at);
}

static uint32_t places(const struct fake_memory *memory)
{
    return memory->shape.window + memory->shape.surplus;
}

static unsigned char *window_row(const struct fake_memory *memory, const struct window *window,
                                 uint32_t at)
{
    return window->rows + (size_t)(at % places(memory)) * WINDOW_ROW_BYTES;
}

static struct fake_value read_window_row(const struct fake_memory *memory,
                                         const struct window *window, uint32_t at)
{
    return read_value(window_row(memory, window, at), WINDOW_ROW_BYTES, at);
}

/* The first row that a window of this kind still holds when it ends at `end`. */
static uint32_t window_begin(const struct fake_memory *memory, int kind, uint32_t end)
{
    uint32_t size = memory->shape.window;

    if (kind == KIND_CHUNKED)
        return end - end % size;
    return end > size ? end - size : 0;
}

static struct fake_value read_state(const struct fake_memory *memory, const struct sequence *s)
{
    return read_value(s->state, memory->shape.state_bytes, s->state_at);
}

/* The first cell without users, as libllama looks for one: what is decoded beside other sequences
 * lies scattered among them. */
static uint32_t find_cell(struct fake_memory *memory)
{
    while (memory->users[memory->lowest] > 0)
        memory->lowest++;
    return memory->lowest;
}

/* Takes a cell for the next row; where to write it, or NULL when there is none. */
static unsigned char *add_row(struct fake_memory *memory, struct sequence *s)
{
    uint32_t cell;

    if (s->length == memory->shape.cells)
        return NULL;
    if (memory->shape.streams)
        cell = (uint32_t)(s - memory->sequences) * memory->shape.cells + s->length;
    else if (memory->cells_used < memory->shape.cells)
        cell = find_cell(memory);
    else
        return NULL;
    assert(memory->users[cell] == 0);
    memory->users[cell] = 1;
    memory->cells_used++;
    s->cells[s->length++] = cell;
    return cell_row(memory, cell);
}

static void drop_rows(struct fake_memory *memory, struct sequence *s, uint32_t length)
{
    while (s->length > length) {
        uint32_t cell = s->cells[--s->length];
        assert(memory->users[cell] > 0);
        if (--memory->users[cell] > 0)
            continue;
        memory->cells_used--;
        memory->lowest = MIN(memory->lowest, cell);
    }
}

/* Appends a row; those that no longer belong to the window leave the sum before their place is
 * written over. */
static void push_window(const struct fake_memory *memory, int kind, struct window *window,
                        struct fake_value value, struct fake_value *sum)
{
    uint32_t at = window->end++;
    uint32_t begin = window_begin(memory, kind, window->end);

    for (; window->begin < MIN(begin, at); window->begin++)
        subtract_value(sum, read_window_row(memory, window, window->begin));
    window->begin = begin;
    if (window->end > places(memory))
        window->oldest = MAX(window->oldest, window->end - places(memory));
    write_value(window_row(memory, window, at), WINDOW_ROW_BYTES, value);
    if (begin <= at) /* else it completed a chunk */
        add_value(sum, read_window_row(memory, window, at));
}

/* ---- a sequence ---- */

int64_t fake_memory_length(const struct fake_memory *memory, int32_t seq)
{
    const struct sequence *s = get_sequence(memory, seq);
    const uint32_t each[KIND_COUNT] = {
        [KIND_FULL] = s->length,
        [KIND_SLIDING] = s->windows[KIND_SLIDING].end,
        [KIND_CHUNKED] = s->windows[KIND_CHUNKED].end,
        [KIND_RECURRENT] = s->state_at,
    };
    int64_t length = -1;

    for (int kind = 0; kind < KIND_COUNT; kind++) {
        if (!has(memory, kind))
            continue;
        if (length >= 0 && length != each[kind])
            return -1;
        length = each[kind];
    }
    return length;
}

uint32_t fake_memory_cells_used(const struct fake_memory *memory)
{
    return memory->cells_used;
}

uint32_t fake_memory_room(const struct fake_memory *memory, int32_t seq)
{
    const struct sequence *s = get_sequence(memory, seq);

    if (!has(memory, KIND_FULL))
        return UINT32_MAX;
    return memory->shape.cells - (memory->shape.streams ? s->length : memory->cells_used);
}

uint32_t fake_memory_ranges(const struct fake_memory *memory, int32_t seq, uint32_t begin,
                            uint32_t end)
{
    const struct sequence *s = get_sequence(memory, seq);
    uint32_t ranges = 0;

    if (!has(memory, KIND_FULL))
        return 0;
    assert(end <= s->length);
    for (uint32_t at = begin; at < end; at++)
        ranges += at == begin || s->cells[at] != s->cells[at - 1] + 1;
    return ranges;
}

struct fake_sums fake_memory_read(const struct fake_memory *memory, int32_t seq)
{
    const struct sequence *s = get_sequence(memory, seq);
    struct fake_sums sums = {0};

    for (uint32_t at = 0; at < s->length; at++)
        add_value(&sums.kinds[KIND_FULL], read_row(memory, s, at));
    for (int kind = 0; kind < KIND_COUNT; kind++)
        for (uint32_t at = s->windows[kind].begin; at < s->windows[kind].end; at++)
            add_value(&sums.kinds[kind], read_window_row(memory, &s->windows[kind], at));
    if (s->state_at > 0)
        sums.kinds[KIND_RECURRENT] = read_state(memory, s);
    return sums;
}

void fake_memory_append(struct fake_memory *memory, int32_t seq, struct fake_value value,
                        struct fake_sums *sums)
{
    struct sequence *s = get_sequence(memory, seq);

    for (int kind = 0; kind < KIND_COUNT; kind++) {
        struct fake_value own = {fake_mix(value.main, (uint64_t)kind), value.low};
        if (has_window(memory, kind)) {
            push_window(memory, kind, &s->windows[kind], own, &sums->kinds[kind]);
        } else if (has(memory, kind) && kind == KIND_FULL) {
            unsigned char *row = add_row(memory, s);
            assert(row != NULL); /* the caller looked at the room */
            write_value(row, memory->shape.rows_bytes, own);
            add_value(&sums->kinds[kind], read_row(memory, s, s->length - 1));
        } else if (has(memory, kind)) {
            write_value(s->state, memory->shape.state_bytes, own);
            s->state_at++;
            sums->kinds[kind] = read_state(memory, s);
        }
    }
}

static bool windows_moved(const struct fake_memory *memory, const struct sequence *s)
{
    return (has(memory, KIND_SLIDING) && s->windows[KIND_SLIDING].begin > 0) ||
           (has(memory, KIND_CHUNKED) && s->windows[KIND_CHUNKED].begin > 0);
}

uint32_t fake_memory_layout(const struct fake_memory *memory, int32_t seq)
{
    return get_sequence(memory, seq)->settled_at;
}

static void settle(const struct fake_memory *memory, struct sequence *s, uint32_t at)
{
    s->settled_at = windows_moved(memory, s) ? at : 0;
}

void fake_memory_settle(struct fake_memory *memory, int32_t seq)
{
    settle(memory, get_sequence(memory, seq), (uint32_t)fake_memory_length(memory, seq));
}

void fake_memory_copy(struct fake_memory *memory, int32_t from, int32_t to)
{
    const struct sequence *source = get_sequence(memory, from);
    struct sequence *s = get_sequence(memory, to);

    assert(s != source && fake_memory_length(memory, to) == 0);
    for (uint32_t i = 0; i < source->length; i++) {
        if (memory->shape.streams) {
            unsigned char *row = add_row(memory, s);
            assert(row != NULL); /* as many cells as the source has */
            memcpy(row, cell_row(memory, source->cells[i]), memory->shape.rows_bytes);
        } else {
            memory->users[source->cells[i]]++;
            s->cells[s->length++] = source->cells[i];
        }
    }
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        struct window *window = &s->windows[kind];
        window->oldest = source->windows[kind].oldest;
        window->begin = source->windows[kind].begin;
        window->end = source->windows[kind].end;
        if (has_window(memory, kind) && window->end > 0)
            memcpy(window->rows, source->windows[kind].rows,
                   (size_t)places(memory) * WINDOW_ROW_BYTES);
    }
    s->settled_at = source->settled_at;
    s->state_at = source->state_at;
    if (s->state_at > 0)
        memcpy(s->state, source->state, memory->shape.state_bytes);
}

void fake_memory_clear(struct fake_memory *memory, int32_t seq)
{
    struct sequence *s = get_sequence(memory, seq);

    drop_rows(memory, s, 0);
    for (int kind = 0; kind < KIND_COUNT; kind++)
        s->windows[kind].oldest = s->windows[kind].begin = s->windows[kind].end = 0;
    s->state_at = s->settled_at = 0;
}

static bool can_cut(const struct fake_memory *memory, const struct sequence *s, uint32_t length)
{
    if (length == 0)
        return true;
    if (has(memory, KIND_FULL) && length > s->length)
        return false;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        const struct window *window = &s->windows[kind];
        uint32_t begin = window_begin(memory, kind, length);
        if (has_window(memory, kind) &&
            (length > window->end || (begin < window->oldest && begin < length)))
            return false;
    }
    return !has(memory, KIND_RECURRENT) || length == s->state_at;
}

uint32_t fake_memory_least(const struct fake_memory *memory, int32_t seq)
{
    const struct sequence *s = get_sequence(memory, seq);
    uint32_t length = (uint32_t)fake_memory_length(memory, seq), least = length;

    while (least > 1 && can_cut(memory, s, least - 1))
        least--;
    return least;
}

bool fake_memory_cut(struct fake_memory *memory, int32_t seq, uint32_t length)
{
    struct sequence *s = get_sequence(memory, seq);

    if (!can_cut(memory, s, length))
        return false;
    drop_rows(memory, s, length);
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        if (has_window(memory, kind)) {
            s->windows[kind].begin = window_begin(memory, kind, length);
            s->windows[kind].end = length;
        }
    }
    s->state_at = has(memory, KIND_RECURRENT) ? length : 0;
    if (!windows_moved(memory, s))
        s->settled_at = 0;
    return true;
}

void fake_memory_cut_rows(struct fake_memory *memory, int32_t seq, uint32_t length)
{
    drop_rows(memory, get_sequence(memory, seq), length);
}

/* ---- images ---- */

uint64_t fake_memory_image_bytes(const struct fake_memory *memory, enum fake_image image,
                                 uint32_t rows, uint32_t at)
{
    uint64_t bytes = FAKE_HEADER_BYTES;

    if (image != FAKE_IMAGE_SNAPSHOT && has(memory, KIND_FULL))
        bytes += (uint64_t)rows * memory->shape.rows_bytes;
    if (image == FAKE_IMAGE_ROWS)
        return bytes;
    for (int kind = 0; kind < KIND_COUNT; kind++)
        if (has_window(memory, kind))
            bytes += (uint64_t)(at - window_begin(memory, kind, at)) * WINDOW_ROW_BYTES;
    return bytes + (has(memory, KIND_RECURRENT) ? memory->shape.state_bytes : 0);
}

/* The windows and the state as they are at `at`, to or from bytes. */
static void export_parts(const struct fake_memory *memory, const struct sequence *s, uint32_t at,
                         unsigned char *out)
{
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        if (!has_window(memory, kind))
            continue;
        assert(s->windows[kind].end == at);
        for (uint32_t i = s->windows[kind].begin; i < at; i++, out += WINDOW_ROW_BYTES)
            memcpy(out, window_row(memory, &s->windows[kind], i), WINDOW_ROW_BYTES);
    }
    if (has(memory, KIND_RECURRENT))
        memcpy(out, s->state, memory->shape.state_bytes);
}

static void import_parts(const struct fake_memory *memory, struct sequence *s, uint32_t at,
                         const unsigned char *data)
{
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        struct window *window = &s->windows[kind];
        if (!has_window(memory, kind))
            continue;
        window->oldest = window->begin = window_begin(memory, kind, at);
        window->end = at;
        for (uint32_t i = window->begin; i < at; i++, data += WINDOW_ROW_BYTES)
            memcpy(window_row(memory, window, i), data, WINDOW_ROW_BYTES);
    }
    if (has(memory, KIND_RECURRENT)) {
        memcpy(s->state, data, memory->shape.state_bytes);
        s->state_at = at;
    }
    settle(memory, s, at);
}

void fake_memory_export(const struct fake_memory *memory, int32_t seq, enum fake_image image,
                        uint32_t begin, uint32_t end, void *dst)
{
    const struct sequence *s = get_sequence(memory, seq);
    unsigned char *out = dst;
    bool rows = image != FAKE_IMAGE_SNAPSHOT && has(memory, KIND_FULL);

    assert(begin <= end && (!rows || end <= s->length));
    assert(image == FAKE_IMAGE_ROWS || begin == 0);
    le_put_u32(out, image);
    le_put_u32(out + 4, rows ? end - begin : 0);
    le_put_u32(out + 8, image != FAKE_IMAGE_ROWS ? end : 0);
    le_put_u32(out + 12, 0);
    out += FAKE_HEADER_BYTES;
    for (uint32_t at = begin; rows && at < end; at++, out += memory->shape.rows_bytes)
        memcpy(out, cell_row(memory, s->cells[at]), memory->shape.rows_bytes);
    if (image != FAKE_IMAGE_ROWS)
        export_parts(memory, s, end, out);
}

bool fake_memory_import(struct fake_memory *memory, int32_t seq, enum fake_image image,
                        const void *data, uint64_t bytes, bool fail)
{
    struct sequence *s = get_sequence(memory, seq);
    const unsigned char *in = data;

    if (bytes < FAKE_HEADER_BYTES || le_get_u32(in) != image || le_get_u32(in + 12) != 0)
        return false;
    uint32_t rows = le_get_u32(in + 4), at = le_get_u32(in + 8);
    if (rows > 0 && (image == FAKE_IMAGE_SNAPSHOT || !has(memory, KIND_FULL)))
        return false;
    if (image == FAKE_IMAGE_ROWS && at != 0)
        return false;
    if (bytes != fake_memory_image_bytes(memory, image, rows, at) || at > memory->shape.cells)
        return false;
    in += FAKE_HEADER_BYTES;
    for (uint32_t i = 0; i < (fail ? rows / 2 : rows); i++, in += memory->shape.rows_bytes) {
        unsigned char *row = add_row(memory, s);
        if (row == NULL)
            return false;
        memcpy(row, in, memory->shape.rows_bytes);
    }
    if (image != FAKE_IMAGE_ROWS && !fail)
        import_parts(memory, s, at, in);
    return !fail;
}

/* ---- life ---- */

/* False when there is no memory; what is there already is destroyed with the rest. */
static bool create_sequence(const struct fake_memory *memory, struct sequence *s)
{
    const struct fake_memory_shape *shape = &memory->shape;

    if (has(memory, KIND_FULL) &&
        (s->cells = mem_try_alloc_array(shape->cells, sizeof(*s->cells))) == NULL)
        return false;
    for (int kind = 0; kind < KIND_COUNT; kind++)
        if (has_window(memory, kind) &&
            (s->windows[kind].rows = mem_try_alloc_array(places(memory), WINDOW_ROW_BYTES)) == NULL)
            return false;
    return !has(memory, KIND_RECURRENT) || (s->state = mem_try_alloc(shape->state_bytes)) != NULL;
}

static bool create_cells(struct fake_memory *memory)
{
    const struct fake_memory_shape *shape = &memory->shape;
    size_t cells = (size_t)shape->cells * (shape->streams ? shape->sequences : 1);

    if (!has(memory, KIND_FULL))
        return true;
    memory->rows = mem_try_alloc_array(cells, shape->rows_bytes);
    memory->users = mem_try_alloc_array(cells, sizeof(*memory->users));
    if (memory->rows == NULL || memory->users == NULL)
        return false;
    memset(memory->users, 0, cells * sizeof(*memory->users));
    return true;
}

enum err fake_memory_create(struct fake_memory **memory, const struct fake_memory_shape *shape)
{
    struct fake_memory *m = mem_alloc(sizeof(*m));

    assert(shape->sequences >= 1 && shape->cells >= 1 && shape->window >= 1);
    assert(shape->rows_bytes >= FAKE_VALUE_BYTES && shape->state_bytes >= FAKE_VALUE_BYTES);
    m->shape = *shape;
    m->sequences = mem_alloc_array(shape->sequences, sizeof(*m->sequences));
    bool whole = create_cells(m);
    for (uint32_t i = 0; whole && i < shape->sequences; i++)
        whole = create_sequence(m, &m->sequences[i]);
    if (!whole)
        fake_memory_destroy(&m);
    *memory = m;
    return whole ? ERR_OK : ERR_NOMEM;
}

void fake_memory_destroy(struct fake_memory **memory)
{
    struct fake_memory *m = *memory;

    if (m == NULL)
        return;
    for (uint32_t i = 0; i < m->shape.sequences; i++) {
        mem_free(m->sequences[i].cells);
        for (int kind = 0; kind < KIND_COUNT; kind++)
            mem_free(m->sequences[i].windows[kind].rows);
        mem_free(m->sequences[i].state);
    }
    mem_free(m->sequences);
    mem_free(m->rows);
    mem_free(m->users);
    mem_free(m);
    *memory = NULL;
}

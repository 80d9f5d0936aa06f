/*
 * sections.c: state in and out of libllama by the section algebra, with public calls only and
 * without parsing the library's format.
 *
 *      FULL    (flags 0)             = H  A  P          H  header of the library
 *      PARTIAL (flags PARTIAL_ONLY)  = H  P             A  rows of the full-attention cache, one
 *                                                          per cell of the sequence
 *                                                       P  what cannot be cut: sliding caches,
 *                                                          recurrent states
 *
 *      rows image [b, e)   copy the range into `temp` (in a unified cache that copies no data),
 *                          give its recurrent part the state of a sequence that has none, and write
 *                          FULL. What follows A is then either P_empty already, or sliding rows of
 *                          the range that happen to be in the window: it is overwritten with
 *                          P_empty.
 *      snapshot at n       PARTIAL of the sequence while its length is n.
 *      restore             each rows image into `temp`, from there into the target; then the
 *                          snapshot on top.
 *
 * So an image goes from the library into the caller's memory and back without an extra copy, unless
 * it has to be cut (cells.h). The probe has measured A and P when the model was loaded; if the
 * library returns other sizes, the comparison in state.c catches it.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "engine/catch.h"
#include "engine/engine_llama.h"
#include "engine/host_memory.h"
#include "engine/rows_image.h"

enum { PIECE_BYTES_MIN = 1 << 20, PIECE_BYTES_MAX = 64 << 20 };

static void clear(struct engine_llama *llama, seq_id seq)
{
    /* Removing a whole sequence never fails. */
    bool removed = llama_memory_seq_rm(llama->memory, seq, -1, -1);
    assert(removed);
    (void)removed;
}

/* ---- calls that may throw ---- */

struct state_call {
    struct llama_context *ctx;
    void *to;         /* to export; NULL: import */
    const void *from; /* to import */
    uint64_t size, done;
    seq_id seq;
    llama_state_seq_flags flags;
};

static void call_state(void *arg)
{
    struct state_call *call = arg;

    call->done = call->to != NULL ? llama_state_seq_get_data_ext(call->ctx, call->to, call->size,
                                                                 call->seq, call->flags)
                                  : llama_state_seq_set_data_ext(call->ctx, call->from, call->size,
                                                                 call->seq, call->flags);
}

/* An image of rows is all of a sequence that has nothing else. */
static llama_state_seq_flags flags_of(enum state_kind kind)
{
    return kind == STATE_SNAPSHOT ? LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY : LLAMA_STATE_SEQ_FLAGS_NONE;
}

/* False: what it wrote before it refused is unknown. */
static bool set_state(struct engine_llama *llama, seq_id seq, enum state_kind kind,
                      const void *from, uint64_t size)
{
    struct state_call call = {llama->ctx, NULL, from, size, 0, seq, flags_of(kind)};

    return catch_call(call_state, &call) == ERR_OK && call.done == size;
}

/* What follows the rows of an image: P_empty. */
static uint64_t tail_bytes(const struct engine_llama *llama)
{
    return llama->sections.empty_bytes - llama->sections.header;
}

static uint64_t put_tail(const struct engine_llama *llama, void *to)
{
    memcpy(to, llama->sections.empty + llama->sections.header, tail_bytes(llama));
    return tail_bytes(llama);
}

uint64_t sections_rows_capacity(const struct engine *engine, uint32_t tokens)
{
    const struct sections *sections = &engine_llama_of(engine)->sections;
    uint64_t bytes = state_rows_bytes(engine, tokens);

    if (bytes == 0)
        return 0;
    uint64_t sliding = MIN(tokens, engine->facts.window) * sections->part_each;
    return bytes + (engine->facts.window > 0 ? sections->part_fixed + sliding : 0);
}

uint64_t sections_end_bytes(struct engine *engine, seq_id seq, enum state_kind kind)
{
    return llama_state_seq_get_size_ext(engine_llama_of(engine)->ctx, seq, flags_of(kind));
}

uint64_t sections_export_end(struct engine *engine, seq_id seq, enum state_kind kind, void *dst,
                             uint64_t capacity)
{
    struct engine_llama *llama = engine_llama_of(engine);
    struct state_call call = {llama->ctx, dst, NULL, capacity, 0, seq, flags_of(kind)};

    assert(dst != NULL);
    return !llama->lost && catch_call(call_state, &call) == ERR_OK ? call.done : 0;
}

uint64_t sections_export_rows(struct engine *engine, seq_id seq, uint32_t begin, uint32_t end,
                              void *dst, uint64_t capacity)
{
    struct engine_llama *llama = engine_llama_of(engine);
    const struct sections *sections = &llama->sections;
    uint64_t rows = sections->header + sections->rows_fixed + (end - begin) * sections->rows_each;

    llama_memory_seq_cp(llama->memory, seq, llama->temp, (llama_pos)begin, (llama_pos)end);
    if (engine->facts.kinds & KIND_BIT(KIND_RECURRENT))
        llama_memory_seq_cp(llama->memory, llama->empty, llama->temp, -1, -1);
    uint64_t full = sections_end_bytes(engine, llama->temp, STATE_WHOLE);
    if (engine->facts.mrope) /* more cells than positions */
        rows = full -
               (sections->no_partial
                    ? 0
                    : sections_end_bytes(engine, llama->temp, STATE_SNAPSHOT) - sections->header);
    uint64_t written = 0;
    if (full >= rows && full <= capacity)
        written = sections_export_end(engine, llama->temp, STATE_WHOLE, dst, full);
    clear(llama, llama->temp);
    if (written != full || written == 0)
        return 0;
    if (rows + tail_bytes(llama) > capacity)
        return 0;
    return rows + put_tail(llama, (unsigned char *)dst + rows);
}

/* ---- rings ---- */

/* A sliding cache that is smaller than the context is a ring: a token takes an empty cell, or one
 * that has left the window. But the library reuses only cells that belong to a single sequence.
 * Forks of a long prompt share all cells of the ring, so that none is empty and none may be reused:
 * no sequence can add a token any more. Nothing is done about it at the fork, which thus costs
 * nothing and keeps its layout. When the library reports no room, all windows that may be shared
 * are exported and imported again, one by one.
 *
 * The first imports may find no room while others hold their cells. After the last export
 * nothing is shared, so another pass has room for all: the ring is sized for one window per
 * sequence. */
struct window {
    seq_id seq;
    unsigned char *data; /* NULL: imported again */
    uint64_t bytes;
};

static size_t take_windows(struct engine_llama *llama, struct window *windows)
{
    size_t count = 0;

    for (seq_id seq = 0; seq < llama->temp; seq++) {
        if (!llama->shares[seq])
            continue;
        uint64_t bytes = sections_end_bytes(&llama->base, seq, STATE_SNAPSHOT);
        unsigned char *data = mem_try_alloc(bytes);
        windows[count++] = (struct window){seq, data, bytes};
        if (data == NULL ||
            sections_export_end(&llama->base, seq, STATE_SNAPSHOT, data, bytes) != bytes) {
            while (count > 0)
                mem_free(windows[--count].data);
            return 0;
        }
    }
    return count;
}

/* Returns how many found no room. */
static size_t put_windows(struct engine_llama *llama, struct window *windows, size_t count)
{
    size_t left = 0;

    for (size_t i = 0; i < count; i++) {
        struct window *window = &windows[i];
        if (window->data == NULL)
            continue;
        if (!set_state(llama, window->seq, STATE_SNAPSHOT, window->data, window->bytes)) {
            left++;
            continue;
        }
        mem_free(window->data);
        window->data = NULL;
    }
    return left;
}

bool sections_unshare(struct engine_llama *llama)
{
    struct window windows[SEQS_SLOTS_MAX];
    size_t count = llama->lost ? 0 : take_windows(llama, windows);

    if (count == 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        llama->shares[windows[i].seq] = false;
        llama->unshared[windows[i].seq] = true;
    }
    if (put_windows(llama, windows, count) == 0)
        return true;
    llama->tainted = true;
    if (put_windows(llama, windows, count) == 0)
        return true;
    for (size_t i = 0; i < count; i++)
        mem_free(windows[i].data);
    llama->lost = true;
    return false;
}

/* ---- import ---- */

/* set_data first empties the destination; what it wrote before it refused is unknown. Free cells
 * may then hold NaN, which attention multiplies by a weight of zero: they are zeroed as soon as
 * there is no live sequence (engine_llama.c). */
static bool import(struct engine_llama *llama, seq_id seq, enum state_kind kind, const void *data,
                   uint64_t bytes)
{
    bool ok = set_state(llama, seq, kind, data, bytes);

    /* Perhaps for lack of room in a ring. */
    if (!ok && sections_unshare(llama))
        ok = set_state(llama, seq, kind, data, bytes);
    if (!ok) {
        llama->tainted = true;
        cells_lose(&llama->cells);
    }
    return ok;
}

static bool import_image(struct engine_llama *llama, seq_id seq, const void *data, uint64_t bytes)
{
    bool ok = import(llama, llama->temp, STATE_ROWS, data, bytes);

    if (ok)
        llama_memory_seq_cp(llama->memory, llama->temp, seq, -1, -1);
    clear(llama, llama->temp);
    return ok;
}

static void free_piece(struct engine_llama *llama)
{
    if (llama->piece != NULL)
        host_memory_free(llama->piece, NULL);
    llama->piece = NULL;
    llama->piece_bytes = 0;
}

/* Grows in powers of two: pinning memory takes long. */
static bool reserve_piece(struct engine_llama *llama, uint64_t bytes)
{
    uint64_t size = PIECE_BYTES_MIN;

    assert(bytes <= PIECE_BYTES_MAX);
    if (bytes <= llama->piece_bytes)
        return true;
    while (size < bytes)
        size *= 2;
    free_piece(llama);
    llama->piece = host_memory_alloc(size, NULL);
    llama->piece_bytes = llama->piece != NULL ? size : 0;
    return llama->piece != NULL;
}

/* How many cells of an image are imported next; 0: they cannot be cut out. */
static uint32_t choose_piece(struct engine_llama *llama, const struct rows_image *image,
                             uint32_t begin)
{
    uint32_t left = image->count - begin, piece = cells_piece(&llama->cells, left);

    if (llama->piece_max > 0)
        piece = MIN(piece, llama->piece_max);
    if (piece == image->count)
        return piece;
    while (piece > 0 && rows_image_piece_bytes(image, piece) + tail_bytes(llama) > PIECE_BYTES_MAX)
        piece /= 2;
    if (piece > 0 &&
        !reserve_piece(llama, rows_image_piece_bytes(image, piece) + tail_bytes(llama)))
        return 0;
    return piece;
}

static bool import_piece(struct engine_llama *llama, seq_id seq, const struct rows_image *image,
                         uint32_t begin, uint32_t end)
{
    const void *data = image->data;
    uint64_t bytes = image->bytes;

    if (end - begin < image->count) {
        data = llama->piece;
        bytes = rows_image_cut(image, begin, end, llama->piece);
        put_tail(llama, (unsigned char *)llama->piece + bytes);
        llama->pieces_count++;
    }
    if (!import_image(llama, seq, data, bytes + tail_bytes(llama)))
        return false;
    for (uint32_t i = begin; i < end; i++)
        cells_place(&llama->cells, seq, rows_image_position(image, i));
    return true;
}

static bool import_rows(struct engine_llama *llama, seq_id seq, const void *data, uint64_t bytes)
{
    uint64_t tail = tail_bytes(llama);
    struct rows_image image;
    uint32_t begin = 0, piece = 0;

    if (!llama->pieces || bytes < tail || !rows_image_read(&image, data, bytes - tail))
        return import_image(llama, seq, data, bytes);
    do {
        piece = choose_piece(llama, &image, begin);
        if (piece == 0 && begin == 0)
            piece = image.count; /* as one, however slow */
        if (piece == 0 || !import_piece(llama, seq, &image, begin, begin + piece))
            return false;
        begin += piece;
    } while (begin < image.count);
    return true;
}

bool sections_import(struct engine *engine, seq_id seq, enum state_kind kind, const void *data,
                     uint64_t bytes)
{
    struct engine_llama *llama = engine_llama_of(engine);

    return kind == STATE_ROWS ? import_rows(llama, seq, data, bytes)
                              : import(llama, seq, kind, data, bytes);
}

void sections_close(struct engine_llama *llama)
{
    cells_fini(&llama->cells);
    free_piece(llama);
}

/* Before the snapshot is imported, a sequence has only rows, and rows can be cut whatever the
 * other kinds are. */
bool sections_rows_cut(struct engine *engine, seq_id seq, uint32_t length)
{
    struct engine_llama *llama = engine_llama_of(engine);
    bool cut = llama_memory_seq_rm(llama->memory, seq, (llama_pos)length, -1);

    if (cut)
        cells_cut(&llama->cells, seq, length);
    return cut;
}

/* A window that is exported and imported again is compact and in order, as after a restore, and a
 * recurrent state that was rolled back is where the library looks first. Without either, no layout
 * can differ. */
bool sections_settle(struct engine *engine, seq_id seq)
{
    struct engine_llama *llama = engine_llama_of(engine);

    bool windows = engine->facts.kinds & (KIND_BIT(KIND_SLIDING) | KIND_BIT(KIND_CHUNKED));

    if ((!windows && llama->states == 0) || engine->facts.slicing == ENGINE_SLICING_NONE)
        return true;
    uint64_t bytes = sections_end_bytes(engine, seq, STATE_SNAPSHOT);
    if (bytes > llama->staging_bytes) {
        unsigned char *staging = mem_try_realloc(llama->staging, bytes);
        if (staging == NULL)
            return false;
        llama->staging = staging;
        llama->staging_bytes = bytes;
    }
    return sections_export_end(engine, seq, STATE_SNAPSHOT, llama->staging, bytes) == bytes &&
           import(llama, seq, STATE_SNAPSHOT, llama->staging, bytes);
}

/* The library copies from one cache to another in its next run only. Until then an export of the
 * copy has other bytes, and whatever is imported into either cache would be copied, or overwritten
 * by the copy. */
bool sections_copy_whole(struct engine *engine, seq_id from, seq_id to)
{
    uint64_t bytes = sections_end_bytes(engine, from, STATE_WHOLE);

    if (seqs_length(&engine->seqs, from) == 0)
        return true;
    void *data = mem_try_alloc(bytes);
    bool ok = data != NULL &&
              sections_export_end(engine, from, STATE_WHOLE, data, bytes) == bytes &&
              import(engine_llama_of(engine), to, STATE_WHOLE, data, bytes);
    mem_free(data);
    return ok;
}

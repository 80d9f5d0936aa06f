/*
 * probe.c: finds out what the memory of a freshly loaded model can do, by asking the library and by
 * trying it.
 *
 * The library says whether a model is recurrent or hybrid and how wide its window is; it does not
 * say whether the state that it writes can be taken apart the way sections.c does. So a short
 * prompt is run and
 *
 *      1. the sizes of FULL and PARTIAL for several token counts must fit the section algebra,
 *      2. rows in two pieces plus a snapshot are exported, everything is forgotten, and they are
 *         imported again,
 *      3. exporting once more must give the same bytes,
 *      4. the next token's logits must be those of the run that was never interrupted: bit for bit
 *         (facts.exact), or nearly.
 *
 *      5. a neighbour's state must be the same bytes before and after the import,
 *      6. imported in pieces, rows must be the same bytes; otherwise they are always imported whole.
 *      7. a token that is removed again, and computed again, has the same logits: windows can be cut
 *         where the library still has their rows (facts.windows_cut).
 *
 * 24 tokens show nothing about a window or an index that is wider: sparse attention selects all of
 * them, so that a state without its index would pass. Where the model is fast enough, the test is
 * repeated with a prompt that is longer than both. Where it is not, the bytes of a row must at
 * least have room for the index that the metadata announces.
 *
 * The library (0.7.0) restores a compressed index beside a recurrent state wrongly, by whole
 * sequences as well, and whether a short test notices depends on the weights. So models that have
 * one are served without state, untested. Other memories that keep an index beside a recurrent
 * state must pass the long test bit for bit. Compressed rows without a recurrent state (deepseek4)
 * are tested as all others.
 *
 * ROLLING BACK. Drafts remove tokens of the last run again. Full attention allows that anyway. A
 * window has lost no row that it needs, because the library chooses the cells of a run before it
 * writes any of them. A recurrent state can be rolled back if the context keeps earlier ones. That
 * is tried with two runs whose removed tokens differ: what follows must be the same bits.
 *
 * A model that fails is served with whole-sequence state (the same test with one object), and one
 * that fails that as well, without any state. Results are never wrong (keeps I28, I29), and one
 * warning is logged.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/context_room.h"
#include "engine/engine_llama.h"
#include "engine/gguf_file.h"

enum {
    PROBE_TOKENS = 24,
    PROBE_CUT = 10,
    PROBE_LONG_MAX = 4096, /* tokens of a long prompt */
    PROBE_LONG_MS = 1000,  /* what a long prompt may take */
    PROBE_LONG_ANY = 128,  /* tokens of one that is run however long it takes */
    NEIGHBOUR_TOKENS = 5,
    REMOVED_MAX = 2, /* tokens that are removed again */
    PROBE_PIECE = 4, /* rows that are imported at a time */
};

struct probe {
    struct engine_llama *llama;
    token_id tokens[PROBE_LONG_MAX + 1];
    uint32_t count;         /* of the prompt */
    uint64_t row_bytes_min; /* that the metadata implies */
    float *cold;            /* logits of the token after the prompt */
    uint32_t removed;       /* tokens of a run that are removed again */
};

/* ---- kinds ---- */

static kind_set ask_kinds(const struct engine_llama *llama, const struct gguf_file *file)
{
    kind_set kinds = 0;

    if (llama_model_is_recurrent(llama->model))
        return KIND_BIT(KIND_RECURRENT);
    if (llama_model_is_hybrid(llama->model))
        kinds |= KIND_BIT(KIND_RECURRENT);
    if (llama->base.facts.window > 0)
        kinds |= gguf_file_has_arch_key(file, "attention.chunk_size") ? KIND_BIT(KIND_CHUNKED)
                                                                      : KIND_BIT(KIND_SLIDING);
    return kinds;
}

/* Hybrid memories with an index beside their rows copy whole sequences only: asked for a range, the
 * library aborts. They are recognised by their keys. */
static bool is_indexed_hybrid(const struct engine_llama *llama, const struct gguf_file *file)
{
    return gguf_file_has_arch_key(file, "attention.indexer.top_k") &&
           llama_model_is_hybrid(llama->model);
}

static bool is_compressed(const struct gguf_file *file)
{
    return gguf_file_has_arch_key(file, "attention.compress_ratios");
}

/* The library calls a memory with compressed rows hybrid, too. */
static bool has_recurrent_layer(const struct engine_llama *llama, const struct gguf_file *file)
{
    for (uint32_t i = 0; i < llama->base.facts.layers; i++)
        if (gguf_file_layer(file, i).recurrent)
            return true;
    return false;
}

/* A cell's own record in the state: position, count of sequences, sequence. */
enum { CELL_BYTES = 12 };

/* Bytes of K and V of one layer and token, by the metadata; in most models all layers with rows
 * have the same number. */
static uint64_t row_bytes(const struct engine_llama *llama, const struct gguf_file *file)
{
    uint64_t heads = gguf_file_arch_uint(file, "attention.head_count", 1);
    uint64_t kv_heads = gguf_file_arch_uint(file, "attention.head_count_kv", heads);
    uint64_t width = gguf_file_arch_uint(file, "embedding_length", 0) / MAX(heads, 1);
    uint64_t key = gguf_file_arch_uint(file, "attention.key_length", width);
    uint64_t value = gguf_file_arch_uint(file, "attention.value_length", width);

    return ggml_row_size(llama->type_k, (int64_t)(kv_heads * key)) +
           ggml_row_size(llama->type_v, (int64_t)(kv_heads * value));
}

/* How many layers the bytes of a row make up; 0 when they are not a multiple of a layer's. */
static uint32_t layers_of(uint64_t each, uint64_t row)
{
    uint64_t bytes = each > CELL_BYTES ? each - CELL_BYTES : 0;

    return row > 0 && bytes % row == 0 ? (uint32_t)(bytes / row) : 0;
}

/* How many layers are of which kind: by the measured bytes, or by the roles of the tensors. 0 =
 * unknown. */
static void count_groups(struct engine_llama *llama, const struct gguf_file *file)
{
    struct engine_facts *facts = &llama->base.facts;
    uint64_t row = row_bytes(llama, file);
    uint32_t attention = 0, counts[KIND_COUNT] = {0};

    for (uint32_t i = 0; i < facts->layers; i++) {
        struct gguf_file_layer layer = gguf_file_layer(file, i);
        attention += layer.attention && !layer.recurrent;
        counts[KIND_RECURRENT] += layer.recurrent;
    }
    counts[KIND_FULL] = layers_of(llama->sections.rows_each, row);
    counts[KIND_SLIDING] = counts[KIND_CHUNKED] = layers_of(llama->sections.part_each, row);
    if (counts[KIND_FULL] == 0 &&
        !(facts->kinds & (KIND_BIT(KIND_SLIDING) | KIND_BIT(KIND_CHUNKED))))
        counts[KIND_FULL] = attention;
    facts->groups_count = 0;
    for (int kind = 0; kind < KIND_COUNT; kind++)
        if (facts->kinds & KIND_BIT(kind))
            facts->groups[facts->groups_count++] =
                (struct engine_layer_group){.kind = kind, .layers = counts[kind]};
}

/* ---- running the probe's prompt ---- */

/* In chunks of the engine's size, which may be smaller than the prompt. */
static enum err run(struct probe *probe, seq_id seq, uint32_t from, uint32_t count, bool logits,
                    struct errinfo *info)
{
    struct engine *engine = &probe->llama->base;

    for (uint32_t n; count > 0; from += n, count -= n) {
        n = MIN(count, engine->facts.chunk);
        struct engine_item item = {seq, probe->tokens + from, n, logits && n == count};
        uint64_t begin_ns = clock_mono_ns(clock_real());
        TRY(engine_run(engine, &item, 1, info));
        double speed = n * 1e9 / (double)(clock_mono_ns(clock_real()) - begin_ns + 1);
        engine->facts.tokens_per_s = MAX(engine->facts.tokens_per_s, (uint32_t)MIN(speed, 1e9));
    }
    return ERR_OK;
}

/* Text tokens, so that no model treats them specially. */
static void choose_tokens(struct probe *probe)
{
    const struct engine *engine = &probe->llama->base;
    uint32_t candidate = engine->facts.vocab / 3, tried = 0;

    for (size_t i = 0; i < COUNT_OF(probe->tokens);) {
        token_id token = (token_id)(candidate % engine->facts.vocab);
        candidate += 7919 % engine->facts.vocab + 1;
        if (!engine_token_is_control(engine, token) || ++tried > 1000)
            probe->tokens[i++] = token;
    }
}

/* ---- sizes ---- */

struct sizes {
    uint64_t full, partial;
};

static struct sizes measure(struct engine_llama *llama, seq_id seq)
{
    return (struct sizes){.full = sections_end_bytes(&llama->base, seq, STATE_WHOLE),
                          .partial = sections_end_bytes(&llama->base, seq, STATE_SNAPSHOT)};
}

/* Sizes of rows [0, n) alone, without recurrent state. */
static struct sizes measure_rows(struct engine_llama *llama, seq_id seq, uint32_t n)
{
    llama_memory_seq_cp(llama->memory, seq, llama->temp, 0, (llama_pos)n);
    if (llama->base.facts.kinds & KIND_BIT(KIND_RECURRENT))
        llama_memory_seq_cp(llama->memory, llama->empty, llama->temp, -1, -1);
    struct sizes sizes = measure(llama, llama->temp);
    llama_memory_seq_rm(llama->memory, llama->temp, -1, -1);
    return sizes;
}

/* Fits a line through two points; false when the third is not on it. */
static bool fit_line(const uint64_t sizes[3], const uint32_t counts[3], uint64_t *fixed,
                     uint64_t *each)
{
    if (sizes[2] < sizes[1])
        return false;
    *each = (sizes[2] - sizes[1]) / (counts[2] - counts[1]);
    if (sizes[1] < counts[1] * *each)
        return false;
    *fixed = sizes[1] - counts[1] * *each;
    return *fixed + counts[0] * *each == sizes[0] && *fixed + counts[2] * *each == sizes[2];
}

static bool take_empty(struct engine_llama *llama)
{
    struct sections *sections = &llama->sections;
    struct sizes none = measure(llama, llama->empty);

    mem_free(sections->empty);
    sections->empty_bytes = none.partial;
    sections->empty = mem_try_alloc(none.partial);
    return sections->empty != NULL &&
           sections_export_end(&llama->base, llama->empty, STATE_SNAPSHOT, sections->empty,
                               none.partial) == none.partial;
}

static bool measure_sections(struct engine_llama *llama, seq_id seq)
{
    static const uint32_t counts[3] = {1, PROBE_CUT, PROBE_TOKENS};
    struct sections *sections = &llama->sections;
    uint64_t rows[3], parts[3];

    sections->header = 8; /* magic and version; checked by the import that follows */
    if (!take_empty(llama) || sections->empty_bytes < sections->header)
        return false;
    bool announced = llama->base.facts.kinds != 0;
    for (int i = 0; i < 3; i++) {
        struct sizes sizes = measure_rows(llama, seq, counts[i]);
        /* An older library ignores PARTIAL_ONLY for a plain cache and writes everything. */
        sections->no_partial = !announced && sizes.partial == sizes.full;
        if (sections->no_partial)
            sizes.partial = sections->header;
        if (sizes.full < sizes.partial)
            return false;
        rows[i] = sizes.full - sizes.partial;
        parts[i] = sizes.partial;
    }
    if (sections->no_partial)
        sections->empty_bytes = sections->header;
    return fit_line(rows, counts, &sections->rows_fixed, &sections->rows_each) &&
           fit_line(parts, counts, &sections->part_fixed, &sections->part_each);
}

/* Derives kinds from the sizes: rows mean full attention, an unannounced P is treated as
 * recurrent. */
static void derive_kinds(struct engine_llama *llama, seq_id seq)
{
    struct engine_facts *facts = &llama->base.facts;
    const struct sections *sections = &llama->sections;
    bool announced = facts->kinds != 0;

    if (!announced || sections->rows_each > 2 * CELL_BYTES) /* more than the record of a cell */
        facts->kinds |= KIND_BIT(KIND_FULL);
    uint64_t partial = measure(llama, seq).partial;
    if (!announced && !sections->no_partial && partial > sections->empty_bytes)
        facts->kinds |= KIND_BIT(KIND_RECURRENT);
    /* Without a layer that has all rows, rows are records of cells alone: the snapshot has all that
     * attention reads. */
    bool rows = sections->rows_each > 0 && facts->kinds & KIND_BIT(KIND_FULL);
    facts->rows_bytes_per_token = rows ? sections->rows_each : 0;
    facts->rows_bytes_fixed = rows ? sections->rows_fixed + sections->empty_bytes : 0;
    facts->snapshot_bytes_max = 0;
    if (kind_set_needs_snapshot(facts->kinds)) {
        uint64_t more = facts->window >= PROBE_TOKENS ? facts->window + 1 - PROBE_TOKENS : 0;
        facts->snapshot_bytes_max = partial + more * sections->part_each;
    }
    /* The library allocates the memory of all cells at load and does not report how much: it is
     * computed from the measured sizes. */
    facts->kv_bytes = (uint64_t)facts->context * facts->rows_bytes_per_token +
                      facts->sequences * facts->snapshot_bytes_max;
}

/* ---- trying it ---- */

static enum { SAME, NEAR, FAR } compare_logits(const float *a, const float *b, uint32_t count)
{
    float largest = 0, distance = 0;

    if (memcmp(a, b, count * sizeof(*a)) == 0)
        return SAME;
    for (uint32_t i = 0; i < count; i++) {
        if (!isfinite(a[i]) || !isfinite(b[i]))
            return FAR;
        largest = fmaxf(largest, fabsf(a[i]));
        distance = fmaxf(distance, fabsf(a[i] - b[i]));
    }
    return distance <= 0.01f * largest ? NEAR : FAR;
}

/* An object of the probe, with its own memory. */
static bool export_object(struct engine *engine, seq_id seq, enum state_kind kind, uint32_t begin,
                          uint32_t end, struct state_object *object)
{
    uint64_t capacity = kind == STATE_ROWS       ? state_rows_capacity(engine, end - begin)
                        : kind == STATE_SNAPSHOT ? state_snapshot_bytes(engine, seq)
                                                 : state_whole_bytes(engine, seq);
    void *data = mem_try_alloc(capacity);

    object->data = data;
    if (data == NULL)
        return false;
    if (kind == STATE_ROWS)
        return state_export_rows(engine, seq, begin, end, data, capacity, &object->shape, NULL) ==
               ERR_OK;
    if (kind == STATE_SNAPSHOT)
        return state_export_snapshot(engine, seq, data, capacity, &object->shape, NULL) == ERR_OK;
    return state_export_whole(engine, seq, data, capacity, &object->shape, NULL) == ERR_OK;
}

struct objects {
    struct state_object rows[2], snapshot;
    struct state_restore restore;
};

static void free_objects(struct objects *objects)
{
    mem_free((void *)objects->rows[0].data);
    mem_free((void *)objects->rows[1].data);
    mem_free((void *)objects->snapshot.data);
}

static bool export_objects(const struct probe *probe, seq_id seq, struct objects *objects)
{
    struct engine *engine = &probe->llama->base;
    const struct engine_facts *facts = &engine->facts;
    const uint32_t count = probe->count, cut = count * PROBE_CUT / PROBE_TOKENS;

    *objects = (struct objects){.restore = {.rows = objects->rows, .length = count}};
    if (facts->slicing == ENGINE_SLICING_WHOLE) {
        objects->restore.rows_count = 1;
        return export_object(engine, seq, STATE_WHOLE, 0, count, &objects->rows[0]);
    }
    if (facts->rows_bytes_per_token > 0) {
        objects->restore.rows_count = 2;
        if (!export_object(engine, seq, STATE_ROWS, 0, cut, &objects->rows[0]) ||
            !export_object(engine, seq, STATE_ROWS, cut, count, &objects->rows[1]))
            return false;
    }
    if (!kind_set_needs_snapshot(facts->kinds))
        return true;
    objects->restore.snapshot = &objects->snapshot;
    return export_object(engine, seq, STATE_SNAPSHOT, 0, count, &objects->snapshot);
}

static bool same_object(const struct state_object *a, const struct state_object *b)
{
    return (a->data == NULL && b->data == NULL) ||
           (a->shape.bytes == b->shape.bytes && hash128_eq(&a->shape.digest, &b->shape.digest));
}

static bool same_objects(const struct objects *a, const struct objects *b)
{
    return same_object(&a->rows[0], &b->rows[0]) && same_object(&a->rows[1], &b->rows[1]) &&
           same_object(&a->snapshot, &b->snapshot);
}

static enum engine_fault compare_restored(struct probe *probe, seq_id seq,
                                          const struct objects *objects)
{
    struct engine *engine = &probe->llama->base;
    struct objects again = {0};

    bool same = export_objects(probe, seq, &again) && same_objects(objects, &again);
    free_objects(&again);
    if (!same)
        return ENGINE_FAULT_BYTES;
    if (run(probe, seq, probe->count, 1, true, NULL) != ERR_OK)
        return ENGINE_FAULT_LOGITS;
    switch (compare_logits(probe->cold, engine_logits(engine, 0), engine->facts.vocab)) {
    case SAME:
        engine->facts.exact |= probe->count == PROBE_TOKENS;
        return ENGINE_FAULT_NONE;
    case NEAR:
        engine->facts.exact = false;
        return ENGINE_FAULT_NONE;
    default:
        return ENGINE_FAULT_LOGITS;
    }
}

/* Restores the exported objects and compares the re-exported bytes and the next logits. */
static enum engine_fault try_restore(struct probe *probe, const struct objects *objects)
{
    struct engine *engine = &probe->llama->base;
    seq_id seq;

    if (state_import(engine, &objects->restore, &seq, NULL) != ERR_OK)
        return ENGINE_FAULT_IMPORT;
    enum engine_fault fault = compare_restored(probe, seq, objects);
    engine_seq_release(engine, &seq);
    return fault;
}

/* The library's whole state of a sequence; false when it cannot be exported. */
static bool hash_sequence(struct engine_llama *llama, seq_id seq, struct hash128 *hash)
{
    uint64_t bytes = measure(llama, seq).full;
    unsigned char *data = mem_try_alloc(bytes);
    bool ok =
        data != NULL && sections_export_end(&llama->base, seq, STATE_WHOLE, data, bytes) == bytes;

    if (ok)
        *hash = hash128_of(data, bytes);
    mem_free(data);
    return ok;
}

/* Restores beside a sequence that must stay as it is. */
static enum engine_fault try_neighbour(struct probe *probe, const struct objects *objects)
{
    struct engine *engine = &probe->llama->base;
    enum engine_fault fault = ENGINE_FAULT_NONE;
    struct hash128 before, after;
    seq_id neighbour, seq;

    llama_memory_clear(probe->llama->memory, true);
    if (engine->facts.sequences < 2 || engine_seq_acquire(engine, &neighbour, NULL) != ERR_OK)
        return fault;
    if (run(probe, neighbour, 0, NEIGHBOUR_TOKENS, false, NULL) != ERR_OK ||
        !hash_sequence(probe->llama, neighbour, &before)) {
        fault = ENGINE_FAULT_EXPORT;
    } else if (state_import(engine, &objects->restore, &seq, NULL) != ERR_OK) {
        fault = ENGINE_FAULT_IMPORT;
    } else {
        if (!hash_sequence(probe->llama, neighbour, &after) || !hash128_eq(&before, &after))
            fault = ENGINE_FAULT_NEIGHBOUR;
        engine_seq_release(engine, &seq);
    }
    engine_seq_release(engine, &neighbour);
    return fault;
}

/* Whether rows can also be imported in pieces (rows_image.h): exported again, they must be the same
 * bytes. Only where the cells are known (cells.h). */
static bool try_pieces(struct probe *probe, const struct objects *objects)
{
    struct engine_llama *llama = probe->llama;
    struct engine *engine = &llama->base;
    struct objects again = {0};
    seq_id seq;

    if (engine->facts.slicing != ENGINE_SLICING_ROWS || engine->seqs.streams ||
        engine->facts.kinds != KIND_BIT(KIND_FULL))
        return false;
    llama_memory_clear(llama->memory, true);
    llama->pieces = true;
    llama->piece_max = PROBE_PIECE;
    llama->pieces_count = 0;
    bool same = state_import(engine, &objects->restore, &seq, NULL) == ERR_OK;
    if (same) {
        same = llama->pieces_count > 0 && export_objects(probe, seq, &again) &&
               same_objects(objects, &again);
        free_objects(&again);
        engine_seq_release(engine, &seq);
    }
    llama->piece_max = 0;
    llama->pieces_count = 0;
    return same;
}

/* Whether windows can be cut where their rows are still there: the last token, computed again. The
 * window was imported just before it, and has one row more than it needs. */
static bool try_cut(struct probe *probe, seq_id seq)
{
    struct engine *engine = &probe->llama->base;

    if ((engine->facts.kinds & ~KIND_BIT(KIND_FULL)) == 0 ||
        (engine->facts.kinds & KIND_BIT(KIND_RECURRENT)))
        return false;
    engine->facts.windows_cut = true; /* so that it is tried */
    return engine_seq_truncate(engine, seq, probe->count, NULL) == ERR_OK &&
           run(probe, seq, probe->count, 1, true, NULL) == ERR_OK &&
           compare_logits(probe->cold, engine_logits(engine, 0), engine->facts.vocab) != FAR;
}

/* One attempt in the mode of facts.slicing: cold run, export, clear everything, restore. */
static enum err try_mode(struct probe *probe, bool *ok, struct errinfo *info)
{
    struct engine_llama *llama = probe->llama;
    struct engine *engine = &llama->base;
    struct objects objects = {0};
    seq_id seq;

    TRY(engine_seq_acquire(engine, &seq, info));
    enum err err = run(probe, seq, 0, probe->count, false, info);
    if (err == ERR_OK && probe->count == PROBE_TOKENS &&
        engine->facts.slicing == ENGINE_SLICING_ROWS) {
        *ok = measure_sections(llama, seq) && llama->sections.rows_each >= probe->row_bytes_min;
        if (*ok)
            derive_kinds(llama, seq);
    }
    if (err == ERR_OK)
        err = engine_seq_settle(engine, seq, info); /* beyond a window, as before every store */
    *ok = *ok && err == ERR_OK && export_objects(probe, seq, &objects);
    if (err == ERR_OK)
        err = run(probe, seq, probe->count, 1, true, info);
    if (err == ERR_OK)
        memcpy(probe->cold, engine_logits(engine, 0), engine->facts.vocab * sizeof(float));
    /* Of the short prompt: whether there is a long one depends on the speed of the moment. */
    if (err == ERR_OK && probe->count == PROBE_TOKENS)
        llama->bits = hash256_of(probe->cold, engine->facts.vocab * sizeof(float));
    engine->facts.windows_cut = err == ERR_OK && try_cut(probe, seq);
    engine_seq_release(engine, &seq);
    llama_memory_clear(llama->memory, true);
    if (err == ERR_OK)
        engine->facts.fault = *ok ? try_restore(probe, &objects) : ENGINE_FAULT_EXPORT;
    if (err == ERR_OK && engine->facts.fault == ENGINE_FAULT_NONE)
        engine->facts.fault = try_neighbour(probe, &objects);
    llama->pieces =
        err == ERR_OK && engine->facts.fault == ENGINE_FAULT_NONE && try_pieces(probe, &objects);
    *ok = err == ERR_OK && engine->facts.fault == ENGINE_FAULT_NONE;
    free_objects(&objects);
    llama_memory_clear(llama->memory, true);
    return err;
}

/* The prompt alone, for a model whose state is not touched: does it run, and to which bits. */
static enum err run_only(struct probe *probe, struct errinfo *info)
{
    struct engine_llama *llama = probe->llama;
    seq_id seq;

    TRY(engine_seq_acquire(&llama->base, &seq, info));
    enum err err = run(probe, seq, 0, probe->count, true, info);
    if (err == ERR_OK)
        llama->bits =
            hash256_of(engine_logits(&llama->base, 0), llama->base.facts.vocab * sizeof(float));
    engine_seq_release(&llama->base, &seq);
    return err;
}

/* ---- rolling back ---- */

/* The prompt, then twice one of its next tokens with others after it, which are removed again.
 * Writes the logits of the second. */
static bool run_removing(struct probe *probe, uint32_t others, float *logits)
{
    struct engine *engine = &probe->llama->base;
    token_id tokens[1 + REMOVED_MAX];
    bool ok = false;
    seq_id seq;

    llama_memory_clear(probe->llama->memory, true);
    if (engine_seq_acquire(engine, &seq, NULL) != ERR_OK)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        struct engine_item item = {seq, tokens, 1 + probe->removed, 1 + probe->removed};
        tokens[0] = probe->tokens[probe->count + i];
        for (uint32_t k = 0; k < probe->removed; k++)
            tokens[1 + k] = probe->tokens[others + i * REMOVED_MAX + k];
        ok = (i > 0 ? ok : run(probe, seq, 0, probe->count, false, NULL) == ERR_OK) &&
             engine_run(engine, &item, 1, NULL) == ERR_OK;
        if (ok)
            memcpy(logits, engine_logits_nth(engine, 0, 0), engine->facts.vocab * sizeof(*logits));
        ok = ok && engine_seq_truncate(engine, seq, probe->count + i + 1, NULL) == ERR_OK;
    }
    engine_seq_release(engine, &seq);
    return ok;
}

static bool try_rollback(struct probe *probe)
{
    const uint32_t vocab = probe->llama->base.facts.vocab;
    float *logits = mem_try_alloc(vocab * sizeof(*logits));

    probe->count = PROBE_TOKENS;
    probe->removed = MIN(probe->llama->base.facts.rollback, REMOVED_MAX);
    bool ok = logits != NULL && run_removing(probe, 2 * PROBE_TOKENS, probe->cold) &&
              run_removing(probe, 3 * PROBE_TOKENS, logits) &&
              memcmp(probe->cold, logits, vocab * sizeof(*logits)) == 0;
    mem_free(logits);
    llama_memory_clear(probe->llama->memory, true);
    return ok;
}

/* Decides facts.rollback; the kinds are known. */
static void find_rollback(struct probe *probe, const struct gguf_file *file, struct log *log)
{
    struct engine_llama *llama = probe->llama;
    struct engine_facts *facts = &llama->base.facts;
    bool recurrent = facts->kinds & KIND_BIT(KIND_RECURRENT);

    facts->rollback = 0;
    if (kind_set_sliceable(facts->kinds)) {
        facts->rollback = UINT32_MAX;
    } else if (recurrent && (llama->states == 0 || facts->slicing != ENGINE_SLICING_ROWS)) {
        if (llama->states > 0)
            facts->no_rollback = ROLLBACK_LIBRARY;
        return;
    } else if (llama->base.seqs.streams) {
        facts->no_rollback = ROLLBACK_STREAMS;
        return;
    } else {
        facts->rollback = recurrent ? llama->states : facts->chunk / 2;
        if (facts->rollback == 0 || !try_rollback(probe)) {
            facts->rollback = 0;
            facts->no_rollback = ROLLBACK_FAILED;
            LOG_WARN(log, "engine", "answers of this model are not drafted",
                     LOG_STR("model", facts->name),
                     LOG_STR("reason", rollback_text(facts->no_rollback)));
            return;
        }
        if (recurrent)
            facts->kv_bytes += llama->states * facts->sequences * context_state_bytes(file);
    }
    facts->no_rollback = ROLLBACK_WORKS;
}

/* Without the sizes, unannounced kinds are unknown: use the strictest kind (keeps I29). */
static void forget_sizes(struct engine_facts *facts, kind_set asked)
{
    if (facts->slicing == ENGINE_SLICING_ROWS)
        return;
    facts->kinds = asked ? asked : KIND_BIT(KIND_FULL);
    if (facts->slicing == ENGINE_SLICING_NONE) {
        facts->kinds |= KIND_BIT(KIND_RECURRENT);
        facts->exact = false;
    }
    facts->rows_bytes_fixed = facts->rows_bytes_per_token = facts->snapshot_bytes_max = 0;
}

/* Tokens of a prompt that is longer than the window and what an index selects; 0 when the short one
 * is, or when such a prompt takes too long here. */
static uint32_t long_count(const struct probe *probe, const struct gguf_file *file)
{
    const struct engine_facts *facts = &probe->llama->base.facts;
    uint64_t selected = gguf_file_arch_uint(file, "attention.indexer.top_k", 0);
    uint64_t count = MAX(selected, facts->window) + PROBE_TOKENS;

    if (count == PROBE_TOKENS || count > MIN(PROBE_LONG_MAX, facts->context / 2) ||
        (count > PROBE_LONG_ANY && count * 1000 > (uint64_t)facts->tokens_per_s * PROBE_LONG_MS))
        return 0;
    return (uint32_t)count;
}

/* What a row must have room for at least: the keys of each layer that attends, and those of its
 * index. Only for models with an index: in others, layers share rows in more ways than we know. */
static uint64_t least_row_bytes(const struct engine_llama *llama, const struct gguf_file *file)
{
    uint64_t index = gguf_file_arch_uint(file, "attention.indexer.key_length", 0);
    uint64_t key = gguf_file_arch_uint(file, "attention.key_length", 0);
    uint64_t heads = gguf_file_arch_uint(file, "attention.head_count_kv", 1), bytes = CELL_BYTES;

    if (index == 0 || llama->base.facts.window > 0)
        return 0;
    for (uint32_t i = 0; i < llama->base.facts.layers; i++) {
        struct gguf_file_layer layer = gguf_file_layer(file, i);
        if (layer.attention && !layer.recurrent)
            bytes += ggml_row_size(llama->type_k, (int64_t)(heads * key));
        if (layer.indexed)
            bytes += ggml_row_size(llama->type_k, (int64_t)index);
    }
    return bytes;
}

/* The mode of facts.slicing, or the next simpler one that works. */
static enum err find_mode(struct probe *probe, struct log *log, struct errinfo *info)
{
    struct engine_facts *facts = &probe->llama->base.facts;
    enum err err = ERR_OK;
    bool ok = false;

    for (; facts->slicing > ENGINE_SLICING_NONE && err == ERR_OK && !ok; facts->slicing -= !ok) {
        ok = true;
        err = try_mode(probe, &ok, info);
        if (!ok && err == ERR_OK)
            LOG_WARN(log, "engine",
                     facts->slicing == ENGINE_SLICING_ROWS
                         ? "the self-test of sliced state failed: whole sequences only"
                         : "the self-test of state failed: nothing can be restored",
                     LOG_STR("model", facts->name), LOG_UINT("tokens", probe->count),
                     LOG_STR("reason", engine_fault_text(facts->fault)));
    }
    return err;
}

static void refuse(struct probe *probe, enum engine_fault fault, struct log *log)
{
    struct engine_facts *facts = &probe->llama->base.facts;

    facts->slicing = ENGINE_SLICING_NONE;
    facts->fault = fault;
    LOG_WARN(log, "engine", "state of this model is not reused", LOG_STR("model", facts->name),
             LOG_STR("reason", engine_fault_text(fault)));
}

/* Decides facts.slicing. */
static enum err try_all(struct probe *probe, const struct gguf_file *file, struct log *log,
                        struct errinfo *info)
{
    struct engine_llama *llama = probe->llama;
    struct engine_facts *facts = &llama->base.facts;
    bool indexed = is_indexed_hybrid(llama, file);
    bool doubtful = indexed && has_recurrent_layer(llama, file);

    if (doubtful && is_compressed(file)) {
        refuse(probe, ENGINE_FAULT_INDEX, log);
        return run_only(probe, info);
    }
    facts->slicing =
        llama->base.seqs.streams || indexed ? ENGINE_SLICING_WHOLE : ENGINE_SLICING_ROWS;
    TRY(find_mode(probe, log, info));
    probe->count = long_count(probe, file);
    if (probe->count > 0)
        TRY(find_mode(probe, log, info));
    if (doubtful && facts->slicing != ENGINE_SLICING_NONE && (probe->count == 0 || !facts->exact))
        refuse(probe, ENGINE_FAULT_UNPROVEN, log);
    return ERR_OK;
}

enum err engine_llama_probe(struct engine_llama *llama, const struct gguf_file *file,
                            struct log *log, struct errinfo *info)
{
    struct engine_facts *facts = &llama->base.facts;
    struct probe *probe = mem_try_alloc(sizeof(*probe));
    float *cold = mem_try_alloc(facts->vocab * sizeof(float));
    enum err err = err_set(info, ERR_NOMEM, "no memory for the self-test");

    if (probe != NULL && cold != NULL) {
        *probe = (struct probe){.llama = llama, .cold = cold, .count = PROBE_TOKENS};
        probe->row_bytes_min = least_row_bytes(llama, file);
        choose_tokens(probe);
        kind_set asked = facts->kinds = ask_kinds(llama, file);
        err = try_all(probe, file, log, info);
        forget_sizes(facts, asked);
        if (err == ERR_OK)
            find_rollback(probe, file, log);
        if (err == ERR_OK && llama->pieces) {
            llama_memory_clear(llama->memory, true);
            cells_init(&llama->cells, facts->context);
        }
    }
    mem_free(cold);
    mem_free(probe);
    if (err == ERR_OK)
        count_groups(llama, file);
    return err;
}

/*
 * engine_fake.c: an engine that thinks with a hash.
 *
 *      token, position, salt ---.
 *      worth of the rows -------+--> value --> a row, a row of each window, the next state --> worth --> logits
 *      worth of the windows ----|
 *      worth of the state ------'                                          (engine_fake_memory.c)
 *
 * The memory is read anew, all of it, at the beginning of each run, as attention does. Beside the
 * main part of a value there is a low one, which alone knows of chunk shapes; it reaches the low
 * bits of the logits and never the main part.
 *
 * What it deliberately does not do: check what engine.c has checked, and doubt what is imported.
 */
#include "support/engine_fake.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "support/engine_fake_memory.h"
#include "engine/engine_ops.h"
#include "engine/picture.h"
#include "engine/projector.h"

enum {
    FAKE_PICTURE_TOKENS = 16,
    LAYERS_PER_KIND = 2,
    OUTPUTS_EXTRA = 64,
    /* What an export of rows spoils behind its image when other kinds pass through, as libllama
     * does. */
    SCRIBBLE_BYTES = 64,
    EARLIER_MAX = 33, /* states per sequence */
};

/* What a sequence had besides rows at an earlier length. */
struct earlier {
    uint32_t at;
    uint64_t bytes;
    unsigned char *data;
};

struct engine_fake {
    struct engine base;
    struct engine_fake_options options; /* with the defaults filled in */
    struct engine_fake_stats stats;
    struct fake_memory *memory;
    uint64_t owed_ns;                                  /* of options.defers */
    uint64_t salt;                                     /* of the options and the set of adapters */
    bool embeds;                                       /* the run is for vectors */
    float vectors[SEQS_SLOTS_MAX][ENGINE_FAKE_VECTOR]; /* per item of the last run */
    float *logits;                                     /* ENGINE_FAKE_VOCAB floats per output */
    struct earlier earlier[SEQS_SLOTS_MAX][EARLIER_MAX]; /* of length n at n % EARLIER_MAX */
    atomic_bool aborting;
    atomic_ullong beats;
};

static const char *const control_names[ENGINE_FAKE_VOCAB - 256] = {
    [ENGINE_FAKE_BOS - 256] = "<|bos|>",
    [ENGINE_FAKE_EOS - 256] = "<|eos|>",
    [ENGINE_FAKE_TURN_BEGIN - 256] = "<|im_start|>",
    [ENGINE_FAKE_TURN_END - 256] = "<|im_end|>",
};

static struct engine_fake *fake_of(const struct engine *engine)
{
    return (struct engine_fake *)engine;
}

/* ---- tokens ---- */

/* The control token that the text begins with, or TOKEN_NONE. */
static token_id find_control(struct str text)
{
    for (size_t i = 0; i < COUNT_OF(control_names); i++) {
        size_t len = strlen(control_names[i]);
        if (text.len >= len && memcmp(text.ptr, control_names[i], len) == 0)
            return 256 + (token_id)i;
    }
    return TOKEN_NONE;
}

/* Counts; also writes if `tokens` is not NULL. */
static size_t walk_text(const struct engine_fake *fake, struct str text, unsigned flags,
                        token_id *tokens)
{
    size_t count = 0;

    if ((flags & ENGINE_TOKENIZE_BOS) && fake->options.add_bos) {
        if (tokens != NULL)
            tokens[count] = ENGINE_FAKE_BOS;
        count++;
    }
    for (size_t at = 0; at < text.len; count++) {
        struct str rest = {text.ptr + at, text.len - at};
        token_id token = flags & ENGINE_TOKENIZE_CONTROL ? find_control(rest) : TOKEN_NONE;
        at += token == TOKEN_NONE ? 1 : strlen(control_names[token - 256]);
        if (token == TOKEN_NONE)
            token = (unsigned char)rest.ptr[0];
        if (tokens != NULL)
            tokens[count] = token;
    }
    return count;
}

static enum err fake_tokenize(const struct engine *engine, struct str text, unsigned flags,
                              token_id *tokens, size_t max, size_t *count)
{
    *count = walk_text(fake_of(engine), text, flags, NULL);
    if (*count <= max && *count > 0)
        walk_text(fake_of(engine), text, flags, tokens);
    return ERR_OK;
}

static size_t fake_token_bytes(const struct engine *engine, token_id token, bool control, char *out,
                               size_t size)
{
    char byte = (char)token;
    const char *bytes = token < 256 ? &byte : control ? control_names[token - 256] : "";
    size_t len = token < 256 ? 1 : strlen(bytes);

    (void)engine;
    if (MIN(len, size) > 0)
        memcpy(out, bytes, MIN(len, size));
    return len;
}

static bool fake_token_is_end(const struct engine *engine, token_id token)
{
    (void)engine;
    return token == ENGINE_FAKE_EOS || token == ENGINE_FAKE_TURN_END;
}

static bool fake_token_is_control(const struct engine *engine, token_id token)
{
    (void)engine;
    return token >= 256;
}

static unsigned fake_token_traits(const struct engine *engine, token_id token)
{
    return fake_token_is_control(engine, token) ? ENGINE_TOKEN_CONTROL : 0;
}

/* ---- running ---- */

static struct fake_value think(const struct fake_sums *sums, uint64_t input, uint64_t shape)
{
    struct fake_value value = {input, fake_mix(shape, input)};

    for (int kind = 0; kind < KIND_COUNT; kind++) {
        value.main = fake_mix(value.main, sums->kinds[kind].main);
        value.low = fake_mix(value.low, sums->kinds[kind].low);
    }
    return value;
}

static float to_float(uint64_t hash, float range)
{
    return ((float)(hash >> 40) / (float)(1u << 24) - 0.5f) * range;
}

/* All logits lie in [-8, 8] but one, which is 12: greedy picks make readable text, and noise does
 * not move them. */
static void answer(const struct engine_fake *fake, struct fake_value value, float *logits)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz      ";
    uint64_t pick = fake_mix(value.main, ENGINE_FAKE_VOCAB);
    uint32_t winner = (uint32_t)letters[pick % (sizeof(letters) - 1)];

    if (fake->options.end_one_in > 0 && (pick >> 32) % fake->options.end_one_in == 0)
        winner = ENGINE_FAKE_TURN_END;
    for (uint32_t token = 0; token < ENGINE_FAKE_VOCAB; token++)
        logits[token] = (token == winner ? 12.0f : to_float(fake_mix(value.main, token), 15.9f)) +
                        to_float(fake_mix(value.low, token), ENGINE_FAKE_NOISE);
}

/* Adds a token's vector to that of its item, of which `parts` there will be. */
static void embed(struct fake_value value, uint32_t parts, float *vector)
{
    for (uint64_t i = 0; i < ENGINE_FAKE_VECTOR; i++)
        vector[i] += (to_float(fake_mix(value.main, i), 2) +
                      to_float(fake_mix(value.low, i), ENGINE_FAKE_NOISE)) /
                     (float)parts;
}

/* A run of tokens of one item, inside one piece of a batch. */
struct part {
    const struct engine_item *item;
    float *vector; /* of the item */
    size_t output; /* the first of the item */
    uint32_t offset, count;
    uint64_t batch_shape;
};

static void keep_earlier(struct engine_fake *fake, seq_id seq, uint32_t at)
{
    struct earlier *earlier = &fake->earlier[seq][at % EARLIER_MAX];

    if (fake->options.rollback == 0)
        return;
    earlier->at = at;
    earlier->bytes = fake_memory_image_bytes(fake->memory, FAKE_IMAGE_SNAPSHOT, 0, at);
    mem_free(earlier->data);
    earlier->data = mem_alloc(earlier->bytes);
    fake_memory_export(fake->memory, seq, FAKE_IMAGE_SNAPSHOT, 0, at, earlier->data);
}

static void run_part(struct engine_fake *fake, const struct part *part)
{
    const struct engine_item *item = part->item;
    struct fake_sums sums = fake_memory_read(fake->memory, item->seq);
    uint64_t at = (uint64_t)fake_memory_length(fake->memory, item->seq);
    uint64_t shape = fake->options.chunk_sensitive ? fake_mix(at, part->count) : 0;
    struct fake_value value = {0};

    if (fake->options.layout_sensitive)
        shape = fake_mix(shape, fake_memory_layout(fake->memory, item->seq));
    if (fake->options.batch_sensitive)
        shape = fake_mix(shape, part->batch_shape);
    for (uint32_t i = 0; i < part->count; i++, at++) {
        uint64_t token = (uint64_t)item->tokens[part->offset + i];
        value = think(&sums, fake_mix(fake_mix(fake->salt, at), token), shape);
        fake_memory_append(fake->memory, item->seq, value, &sums);
        keep_earlier(fake, item->seq, (uint32_t)at + 1);
        bool mean = fake->base.facts.embed.pooling == ENGINE_POOLING_MEAN;
        if (fake->embeds && (mean || part->offset + i + 1 == item->count))
            embed(value, mean ? item->count : 1, part->vector);
        uint32_t before = item->count - item->logits;
        if (part->offset + i >= before)
            answer(fake, think(&sums, value.main, value.low),
                   fake->logits + (part->output + part->offset + i - before) * ENGINE_FAKE_VOCAB);
    }
    fake->stats.tokens += part->count;
}

/* Runs the next piece of the batch, from token `offset` of item `index` on, which are moved. */
static void run_piece(struct engine_fake *fake, const struct engine_item *items, size_t count,
                      size_t *index, uint32_t *offset)
{
    uint32_t left = fake->options.piece;
    uint64_t prefill = 0, batch_shape = count;
    bool decode = false;

    for (size_t i = 0; i < count; i++)
        batch_shape = fake_mix(batch_shape, items[i].count);
    while (*index < count && left > 0) {
        const struct engine_item *item = &items[*index];
        uint32_t n = MIN(left, item->count - *offset);
        size_t output = 0;
        for (size_t i = 0; i < *index; i++)
            output += items[i].logits;
        run_part(fake,
                 &(struct part){item, fake->vectors[*index], output, *offset, n, batch_shape});
        decode = decode || item->count == 1;
        prefill += item->count > 1 ? n : 0;
        left -= n;
        *offset += n;
        if (*offset == item->count) {
            (*index)++;
            *offset = 0;
        }
    }
    fake->stats.pieces++;
    uint64_t token_ns = fake->options.prefill_ns;
    if (fake->options.cell_ns > 0)
        token_ns += fake->options.cell_ns * fake_memory_cells_used(fake->memory);
    uint64_t ns = prefill * token_ns + (decode ? fake->options.decode_ns : 0), now = ns;
    if (fake->options.defers) {
        bool outputs = false;
        for (size_t i = 0; i < count; i++)
            outputs |= items[i].logits > 0;
        now = outputs ? fake->owed_ns + ns : MAX(fake->owed_ns, 1000);
        fake->owed_ns = outputs ? 0 : ns;
    }
    if (fake->options.clock != NULL)
        clock_sleep_ns(fake->options.clock, now);
}

/* The memory counts for itself: that engine.c's books agree with it is what tests want to see. */
static enum err check_memory(struct engine_fake *fake, const struct engine_item *items,
                             size_t count, struct errinfo *info)
{
    uint64_t tokens = 0;

    for (size_t i = 0; i < count; i++) {
        if (fake_memory_length(fake->memory, items[i].seq) < 0)
            return err_set(info, ERR_ENGINE, "sequence %d has parts of different lengths",
                           items[i].seq);
        tokens = fake->options.streams ? items[i].count : tokens + items[i].count;
        if (tokens > fake_memory_room(fake->memory, items[i].seq))
            return err_set(info, ERR_LIMIT, "no cells for %u tokens of sequence %d", items[i].count,
                           items[i].seq);
    }
    return ERR_OK;
}

static bool fake_set_lora(struct engine *engine, const struct lora_set *set)
{
    struct engine_fake *fake = fake_of(engine);
    uint32_t bits;

    fake->salt = fake->options.salt;
    for (uint32_t i = 0; i < LORA_MAX; i++) {
        memcpy(&bits, &set->scale[i], sizeof(bits));
        if (bits != 0)
            fake->salt = fake_mix(fake->salt, (uint64_t)(i + 1) << 32 | bits);
    }
    return true;
}

static enum err run(struct engine_fake *fake, const struct engine_item *items, size_t count,
                    struct errinfo *info)
{
    size_t index = 0;
    uint32_t offset = 0;

    assert(count <= fake->options.sequences);
    /* Relaxed: the flag orders no other memory, and an abort that comes too early has no run to
     * end. */
    atomic_store_explicit(&fake->aborting, false, memory_order_relaxed);
    TRY(check_memory(fake, items, count, info));
    if (fake->options.refuses != NULL && fake->options.refuses(items, count, fake->options.arg))
        return err_set(info, ERR_LIMIT, "refused by the test");
    fake->stats.runs++;
    memset(fake->vectors, 0, sizeof(fake->vectors));
    while (index < count) {
        atomic_fetch_add_explicit(&fake->beats, 1, memory_order_relaxed);
        if (fake->options.on_piece != NULL)
            fake->options.on_piece(&fake->base, fake->options.arg);
        if (atomic_load_explicit(&fake->aborting, memory_order_relaxed))
            return err_set(info, ERR_CANCELLED, "aborted");
        if (fault_fires(fake->options.fault_run))
            return err_set(info, ERR_ENGINE, "an injected fault");
        run_piece(fake, items, count, &index, &offset);
    }
    return ERR_OK;
}

static enum err fake_run(struct engine *engine, const struct engine_item *items, size_t count,
                         struct errinfo *info)
{
    fake_of(engine)->embeds = false;
    return run(fake_of(engine), items, count, info);
}

static enum err fake_embed(struct engine *engine, const struct engine_item *items, size_t count,
                           struct errinfo *info)
{
    fake_of(engine)->embeds = true;
    return run(fake_of(engine), items, count, info);
}

static const float *fake_logits(struct engine *engine, size_t output)
{
    assert(output < engine->facts.outputs);
    return fake_of(engine)->logits + output * ENGINE_FAKE_VOCAB;
}

static const float *fake_embedding(struct engine *engine, size_t index)
{
    return fake_of(engine)->options.no_vectors ? NULL : fake_of(engine)->vectors[index];
}

static void fake_abort(struct engine *engine)
{
    atomic_store_explicit(&fake_of(engine)->aborting, true, memory_order_relaxed);
}

static uint64_t fake_beats(const struct engine *engine)
{
    return atomic_load_explicit(&fake_of(engine)->beats, memory_order_relaxed);
}

/* ---- sequences ---- */

static bool fake_seq_copy(struct engine *engine, seq_id from, seq_id to)
{
    struct engine_fake *fake = fake_of(engine);

    fake_memory_copy(fake->memory, from, to);
    return !fake->options.streams || !fault_fires(fake->options.fault_import);
}

static bool fake_seq_cut(struct engine *engine, seq_id seq, uint32_t length)
{
    struct engine_fake *fake = fake_of(engine);
    const struct earlier *earlier = &fake->earlier[seq][length % EARLIER_MAX];

    if (fake_memory_cut(fake->memory, seq, length))
        return true;
    if (earlier->data == NULL || earlier->at != length)
        return false;
    fake_memory_cut_rows(fake->memory, seq, length);
    return fake_memory_import(fake->memory, seq, FAKE_IMAGE_SNAPSHOT, earlier->data, earlier->bytes,
                              false);
}

static uint32_t fake_seq_least(struct engine *engine, seq_id seq)
{
    return fake_memory_least(fake_of(engine)->memory, seq);
}

static void fake_seq_clear(struct engine *engine, seq_id seq)
{
    fake_memory_clear(fake_of(engine)->memory, seq);
}

/* Parts that do not belong together are no sequence: 0, which no caller expects after an import. */
static uint32_t fake_seq_length(struct engine *engine, seq_id seq)
{
    int64_t length = fake_memory_length(fake_of(engine)->memory, seq);

    return length < 0 ? 0 : (uint32_t)length;
}

static bool fake_seq_settle(struct engine *engine, seq_id seq)
{
    struct engine_fake *fake = fake_of(engine);

    if (fault_fires(fake->options.fault_import))
        return false;
    fake_memory_settle(fake->memory, seq);
    fake->stats.settles++;
    return true;
}

/* ---- state ---- */

static uint64_t fake_rows_capacity(const struct engine *engine, uint32_t tokens)
{
    const struct engine_fake *fake = fake_of(engine);
    uint64_t bytes = fake_memory_image_bytes(fake->memory, FAKE_IMAGE_ROWS, tokens, 0);

    if (fake->base.facts.rows_bytes_per_token == 0)
        return 0;
    return bytes + (kind_set_sliceable(fake->options.kinds) ? 0 : SCRIBBLE_BYTES);
}

static enum fake_image image_of(enum state_kind kind)
{
    return kind == STATE_ROWS       ? FAKE_IMAGE_ROWS
           : kind == STATE_SNAPSHOT ? FAKE_IMAGE_SNAPSHOT
                                    : FAKE_IMAGE_WHOLE;
}

static uint64_t fake_end_bytes(struct engine *engine, seq_id seq, enum state_kind kind)
{
    uint32_t length = fake_seq_length(engine, seq);

    if (kind == STATE_SNAPSHOT && !kind_set_needs_snapshot(fake_of(engine)->options.kinds))
        return 0;
    return fake_memory_image_bytes(fake_of(engine)->memory, image_of(kind), length, length);
}

/* Counts an export of that many ranges that is about to happen; 0 when it is to fail. */
static uint64_t begin_export(struct engine_fake *fake, uint64_t bytes, uint32_t ranges)
{
    if (fake->options.on_export != NULL)
        fake->options.on_export(fake->options.arg);
    if (fake->options.clock != NULL)
        clock_sleep_ns(fake->options.clock, fake->owed_ns + ranges * fake->options.export_ns +
                                                bytes / 1024 * fake->options.kib_ns);
    fake->owed_ns = 0;
    if (fault_fires(fake->options.fault_export))
        return 0;
    fake->stats.exports++;
    fake->stats.bytes_exported += bytes;
    return bytes;
}

static uint64_t fake_export_rows(struct engine *engine, seq_id seq, uint32_t begin, uint32_t end,
                                 void *dst, uint64_t capacity)
{
    struct engine_fake *fake = fake_of(engine);
    uint64_t room = fake_rows_capacity(engine, end - begin);
    uint64_t bytes = fake_memory_image_bytes(fake->memory, FAKE_IMAGE_ROWS, end - begin, 0);

    assert(capacity >= room);
    memset(dst, 0xA5, room); /* also behind the image, and all of it when the export fails */
    bytes = begin_export(fake, bytes, fake_memory_ranges(fake->memory, seq, begin, end));
    if (bytes > 0)
        fake_memory_export(fake->memory, seq, FAKE_IMAGE_ROWS, begin, end, dst);
    return bytes;
}

static uint64_t fake_export_end(struct engine *engine, seq_id seq, enum state_kind kind, void *dst,
                                uint64_t capacity)
{
    uint64_t bytes = fake_end_bytes(engine, seq, kind);

    assert(capacity >= bytes);
    bytes = begin_export(fake_of(engine), bytes, 0);
    if (bytes > 0)
        fake_memory_export(fake_of(engine)->memory, seq, image_of(kind), 0,
                           fake_seq_length(engine, seq), dst);
    return bytes;
}

static bool fake_import(struct engine *engine, seq_id seq, enum state_kind kind, const void *data,
                        uint64_t bytes)
{
    struct engine_fake *fake = fake_of(engine);
    bool fail = fault_fires(fake->options.fault_import);

    if (!fake_memory_import(fake->memory, seq, image_of(kind), data, bytes, fail))
        return false;
    if (fake->options.clock != NULL)
        clock_sleep_ns(fake->options.clock, fake->options.import_ns);
    fake->stats.imports++;
    fake->stats.bytes_imported += bytes;
    return true;
}

static bool fake_rows_cut(struct engine *engine, seq_id seq, uint32_t length)
{
    fake_memory_cut_rows(fake_of(engine)->memory, seq, length);
    return true;
}

/* ---- life ---- */

static void fake_close(struct engine *engine)
{
    struct engine_fake *fake = fake_of(engine);

    fake_memory_destroy(&fake->memory);
    for (size_t seq = 0; seq < SEQS_SLOTS_MAX; seq++)
        for (size_t i = 0; i < EARLIER_MAX; i++)
            mem_free(fake->earlier[seq][i].data);
    mem_free(fake->logits);
    mem_free(fake);
}

static uint64_t fake_device_free(struct engine *engine)
{
    return engine->facts.device_total - engine->facts.device_bytes;
}

/* Of 16 tokens, which follow from its file. */
static enum err fake_read_picture(const struct engine *engine, struct str file,
                                  struct picture **out, struct errinfo *info)
{
    const struct engine_fake_options *options = &((const struct engine_fake *)engine)->options;
    struct hash256 identity = hash256_of(file.ptr, file.len);
    struct picture *picture = mem_alloc(sizeof(*picture));

    (void)info;
    if (options->on_picture != NULL)
        options->on_picture(options->arg);
    if (options->clock != NULL && options->picture_ns > 0)
        clock_sleep_ns(options->clock, options->picture_ns);
    picture->count = FAKE_PICTURE_TOKENS;
    picture->tokens = mem_alloc_array(picture->count, sizeof(*picture->tokens));
    picture_fill_tokens(&identity, 0, FAKE_PICTURE_TOKENS, picture->tokens, FAKE_PICTURE_TOKENS);
    picture->pieces = mem_alloc_array(1, sizeof(*picture->pieces));
    picture->pieces[picture->pieces_count++] = (struct picture_piece){
        .count = FAKE_PICTURE_TOKENS, .positions = FAKE_PICTURE_TOKENS, .picture = picture};
    *out = picture;
    return ERR_OK;
}

static const struct engine_ops fake_ops = {
    .close = fake_close,
    .tokenize = fake_tokenize,
    .token_bytes = fake_token_bytes,
    .token_is_end = fake_token_is_end,
    .token_is_control = fake_token_is_control,
    .token_traits = fake_token_traits,
    .seq_copy = fake_seq_copy,
    .seq_cut = fake_seq_cut,
    .seq_least = fake_seq_least,
    .seq_clear = fake_seq_clear,
    .seq_length = fake_seq_length,
    .seq_settle = fake_seq_settle,
    .set_lora = fake_set_lora,
    .run = fake_run,
    .read_picture = fake_read_picture,
    .logits = fake_logits,
    .embed = fake_embed,
    .embedding = fake_embedding,
    .abort = fake_abort,
    .beats = fake_beats,
    .device_free = fake_device_free,
    .rows_capacity = fake_rows_capacity,
    .export_rows = fake_export_rows,
    .end_bytes = fake_end_bytes,
    .export_end = fake_export_end,
    .import = fake_import,
    .rows_cut = fake_rows_cut,
};

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
    return value != 0 ? value : otherwise;
}

static struct engine_fake_options fill_options(const struct engine_fake_options *options)
{
    struct engine_fake_options filled = *options;

    filled.kinds = or_default(options->kinds, KIND_BIT(KIND_FULL));
    filled.window = or_default(options->window, 64);
    filled.context = or_default(options->context, 4096);
    filled.sequences = or_default(options->sequences, 8);
    filled.chunk = or_default(options->chunk, 512);
    filled.rows_bytes = or_default(options->rows_bytes, 32);
    filled.snapshot_bytes = or_default(options->snapshot_bytes, 64);
    filled.piece = or_default(options->piece, UINT32_MAX);
    filled.name = options->name != NULL ? options->name : "fake";
    return filled;
}

static enum err check_options(const struct engine_fake_options *options, struct errinfo *info)
{
    if (options->kinds >> KIND_COUNT != 0)
        return err_set(info, ERR_INVALID, "kinds: 0x%x has bits that are no kind", options->kinds);
    if (options->sequences > SEQS_SLOTS_MAX)
        return err_set(info, ERR_INVALID, "sequences: %u, at most %d", options->sequences,
                       SEQS_SLOTS_MAX);
    if (options->rollback >= EARLIER_MAX)
        return err_set(info, ERR_INVALID, "rollback: %u, at most %d", options->rollback,
                       EARLIER_MAX - 1);
    if (options->streams && options->context < options->sequences)
        return err_set(info, ERR_INVALID, "context: %u cells for %u sequences", options->context,
                       options->sequences);
    if (options->rows_bytes < FAKE_VALUE_BYTES || options->snapshot_bytes < FAKE_VALUE_BYTES)
        return err_set(info, ERR_INVALID, "rows and snapshots have at least %d bytes",
                       FAKE_VALUE_BYTES);
    return ERR_OK;
}

/* Whatever changes a byte or a logit (keeps I97). */
static struct hash256 make_fingerprint(const struct engine_fake_options *options)
{
    struct hash256_state state;

    hash256_init(&state);
    hash256_update_u64(&state, options->salt);
    hash256_update_u32(&state, options->kinds);
    hash256_update_u32(&state, options->window);
    hash256_update_u32(&state, options->context);
    hash256_update_u32(&state, options->rows_bytes);
    hash256_update_u32(&state, options->snapshot_bytes);
    hash256_update_u32(&state, options->chunk_sensitive);
    hash256_update_u32(&state, options->batch_sensitive);
    hash256_update_u32(&state, options->layout_sensitive);
    return hash256_final(&state);
}

/* The largest snapshot: a sliding window is full at most, a chunked one ends a chunk when it would
 * be. */
static uint64_t snapshot_bytes_max(const struct engine_fake_options *options)
{
    uint64_t bytes = FAKE_HEADER_BYTES;

    if (!kind_set_needs_snapshot(options->kinds))
        return 0;
    if (options->kinds & KIND_BIT(KIND_SLIDING))
        bytes += (uint64_t)options->window * FAKE_VALUE_BYTES;
    if (options->kinds & KIND_BIT(KIND_CHUNKED))
        bytes += (uint64_t)(options->window - 1) * FAKE_VALUE_BYTES;
    return bytes + (options->kinds & KIND_BIT(KIND_RECURRENT) ? options->snapshot_bytes : 0);
}

static void fill_facts(struct engine_facts *facts, const struct engine_fake_options *options)
{
    static const enum engine_slicing slicings[] = {
        [ENGINE_FAKE_ROWS] = ENGINE_SLICING_ROWS,
        [ENGINE_FAKE_WHOLE] = ENGINE_SLICING_WHOLE,
        [ENGINE_FAKE_NONE] = ENGINE_SLICING_NONE,
    };
    bool full = (options->kinds & KIND_BIT(KIND_FULL)) != 0;
    bool windows = (options->kinds & (KIND_BIT(KIND_SLIDING) | KIND_BIT(KIND_CHUNKED))) != 0;

    *facts = (struct engine_facts){
        .name = options->name,
        .architecture = "fake",
        .description = "an engine without a model",
        .chat_template = options->chat_template,
        .weights_bytes = options->weights_bytes,
        .context = options->context,
        .context_trained = options->context,
        .sequences = options->sequences,
        .chunk = options->chunk,
        .outputs = options->sequences + OUTPUTS_EXTRA,
        .vocab = ENGINE_FAKE_VOCAB,
        .window = windows ? options->window : 0,
        .kinds = options->kinds,
        .slicing = slicings[options->slicing],
        .fault = options->slicing == ENGINE_FAKE_NONE ? ENGINE_FAULT_EXPORT : ENGINE_FAULT_NONE,
        .rollback = kind_set_sliceable(options->kinds) ? UINT32_MAX : options->rollback,
        .no_rollback = kind_set_sliceable(options->kinds) || options->rollback > 0
                           ? ROLLBACK_WORKS
                           : ROLLBACK_LIBRARY,
        .windows_cut = windows && !(options->kinds & KIND_BIT(KIND_RECURRENT)),
        .exact = true,
        .rows_bytes_fixed = full ? FAKE_HEADER_BYTES : 0,
        .rows_bytes_per_token = full ? options->rows_bytes : 0,
        .snapshot_bytes_max = snapshot_bytes_max(options),
        .compute_bytes = options->compute_bytes,
        .kv_bytes =
            full && !options->cells_by_use ? (uint64_t)options->context * options->rows_bytes : 0,
        .device_bytes = options->device_bytes,
        .device_total = options->device_total,
        .bos = ENGINE_FAKE_BOS,
        .eos = ENGINE_FAKE_EOS,
        .eot = ENGINE_FAKE_TURN_END,
        .add_bos = options->add_bos,
        .fim = options->fim ? (struct engine_fim){ENGINE_FAKE_TURN_BEGIN, ENGINE_FAKE_TURN_END,
                                                  ENGINE_FAKE_EOS, TOKEN_NONE, TOKEN_NONE}
                            : (struct engine_fim){-1, -1, -1, -1, -1},
        .words = true,
        .embed = {.pooling = options->pooling != ENGINE_POOLING_AUTO ? options->pooling
                                                                     : ENGINE_POOLING_LAST,
                  .size = ENGINE_FAKE_VECTOR,
                  .whole = options->encoder,
                  .only = options->encoder || options->pooling == ENGINE_POOLING_RANK,
                  .rank_begin = TOKEN_NONE,
                  .rank_middle = ENGINE_FAKE_EOS,
                  .rank_separator = TOKEN_NONE,
                  .rank_end = ENGINE_FAKE_EOS},
        .fingerprint = make_fingerprint(options),
        .backend = "fake",
    };
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        if (options->kinds & KIND_BIT(kind)) {
            facts->groups[facts->groups_count++] =
                (struct engine_layer_group){(enum kind)kind, LAYERS_PER_KIND};
            facts->layers += LAYERS_PER_KIND;
        }
    }
}

enum err engine_fake_create(struct engine **engine, const struct engine_fake_options *options,
                            struct errinfo *info)
{
    struct engine_fake_options filled = fill_options(options);

    *engine = NULL;
    TRY(check_options(&filled, info));
    struct engine_fake *fake = mem_alloc(sizeof(*fake));
    const struct fake_memory_shape shape = {
        .kinds = filled.kinds,
        .window = filled.window,
        .surplus = filled.surplus,
        .sequences = filled.sequences,
        .cells = filled.streams ? filled.context / filled.sequences : filled.context,
        .rows_bytes = filled.rows_bytes,
        .state_bytes = filled.snapshot_bytes,
        .streams = filled.streams,
    };
    fake->base.ops = &fake_ops;
    fake->options = filled;
    fill_facts(&fake->base.facts, &filled);
    fake->base.facts.images = filled.sees;
    fake->salt = filled.salt;
    if (filled.lora != NULL)
        fake->base.facts.lora = *filled.lora;
    seqs_init(&fake->base.seqs, shape.sequences, shape.cells, shape.streams);
    *engine = &fake->base;
    fake->logits = mem_try_alloc_array((size_t)fake->base.facts.outputs * ENGINE_FAKE_VOCAB,
                                       sizeof(*fake->logits));
    if (fake->logits == NULL || fake_memory_create(&fake->memory, &shape) != ERR_OK) {
        engine_close(engine);
        return err_set(info, ERR_NOMEM, "no memory for %u cells", filled.context);
    }
    return ERR_OK;
}

struct engine_fake_stats engine_fake_stats(const struct engine *engine)
{
    const struct engine_fake *fake = fake_of(engine);
    struct engine_fake_stats stats = fake->stats;

    assert(engine->ops == &fake_ops);
    stats.cells_used = fake_memory_cells_used(fake->memory);
    return stats;
}

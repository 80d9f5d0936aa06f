#include "engine/state.h"

#include <string.h>

#include "base/mem.h"
#include "engine/state_digest.h"
#include "support/engine_fake.h"
#include "support/test.h"

enum {
    FULL = KIND_BIT(KIND_FULL),
    HYBRID = KIND_BIT(KIND_FULL) | KIND_BIT(KIND_SLIDING) | KIND_BIT(KIND_RECURRENT),
    CONTEXT = 100,
    SEQUENCES = 4,
    LENGTH = 45, /* two blocks and a tail */
    BLOCK = 16,
    BLOCKS = 3,
    IMAGE_BYTES_MAX = 4096,
};

/* An engine with one sequence of LENGTH tokens, that sequence as objects, and what it says next. */
struct fixture {
    struct engine_fake_options options;
    struct engine *engine;
    seq_id seq;
    token_id tokens[LENGTH];
    struct state_object rows[BLOCKS];
    struct state_object snapshot, whole;
    unsigned char images[BLOCKS + 2][IMAGE_BYTES_MAX];
    struct state_restore restore;
    float truth[ENGINE_FAKE_VOCAB];
    struct errinfo info;
};

static seq_id acquire(struct engine *engine)
{
    seq_id seq = SEQ_NONE;

    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    return seq;
}

static const float *run(struct engine *engine, seq_id seq, const token_id *tokens, uint32_t count)
{
    struct engine_item item = {seq, tokens, count, true};

    assert_ok(engine_run(engine, &item, 1, NULL));
    return engine_logits(engine, 0);
}

/* What the sequence says after one more token, asked of a fork so that it stays as it is. */
static void ask(struct engine *engine, seq_id seq, float *out)
{
    token_id next = 'n';
    seq_id fork = SEQ_NONE;

    assert_ok(engine_seq_fork(engine, seq, &fork, NULL));
    memcpy(out, run(engine, fork, &next, 1), ENGINE_FAKE_VOCAB * sizeof(*out));
    engine_seq_release(engine, &fork);
}

static void assert_says(struct fixture *f, seq_id seq, bool truth)
{
    float says[ENGINE_FAKE_VOCAB];

    ask(f->engine, seq, says);
    assert_int_equal(memcmp(says, f->truth, sizeof(says)) == 0, truth);
}

static void export_all(struct fixture *f)
{
    for (uint32_t i = 0; i < BLOCKS; i++) {
        f->rows[i].data = f->images[i];
        assert_ok(state_export_rows(f->engine, f->seq, i * BLOCK, MIN((i + 1) * BLOCK, LENGTH),
                                    f->images[i], IMAGE_BYTES_MAX, &f->rows[i].shape, NULL));
    }
    f->restore = (struct state_restore){f->rows, BLOCKS, NULL, LENGTH, NULL};
    if (kind_set_needs_snapshot(f->options.kinds)) {
        f->snapshot.data = f->images[BLOCKS];
        assert_ok(state_export_snapshot(f->engine, f->seq, f->images[BLOCKS], IMAGE_BYTES_MAX,
                                        &f->snapshot.shape, NULL));
        f->restore.snapshot = &f->snapshot;
    }
    f->whole.data = f->images[BLOCKS + 1];
    assert_ok(state_export_whole(f->engine, f->seq, f->images[BLOCKS + 1], IMAGE_BYTES_MAX,
                                 &f->whole.shape, NULL));
}

static struct fixture *create(struct engine_fake_options options)
{
    struct fixture *f = mem_alloc(sizeof(*f));

    f->options = options;
    f->options.context = options.context ? options.context : CONTEXT;
    f->options.sequences = options.sequences ? options.sequences : SEQUENCES;
    f->options.window = 7;
    assert_ok(engine_fake_create(&f->engine, &f->options, NULL));
    f->seq = acquire(f->engine);
    for (int i = 0; i < LENGTH; i++)
        f->tokens[i] = i * 37 % 256;
    run(f->engine, f->seq, f->tokens, LENGTH);
    ask(f->engine, f->seq, f->truth);
    if (options.slicing == ENGINE_FAKE_ROWS)
        export_all(f);
    return f;
}

static void destroy(struct fixture **f)
{
    engine_close(&(*f)->engine);
    mem_free(*f);
    *f = NULL;
}

/* How many sequences can still be had. */
static int sequences_free(struct engine *engine)
{
    seq_id seqs[SEQUENCES];
    int count = 0;

    while (count < SEQUENCES && engine_seq_acquire(engine, &seqs[count], NULL) == ERR_OK)
        count++;
    for (int i = 0; i < count; i++)
        engine_seq_release(engine, &seqs[i]);
    return count;
}

/* Refused before the library saw a byte: no sequence, no cell, no import, and the one that was
 * there is as it was. */
static void assert_refused(struct fixture *f, const struct state_restore *restore,
                           enum err expected)
{
    struct engine_fake_stats before = engine_fake_stats(f->engine);
    int sequences = sequences_free(f->engine);
    seq_id seq = 77;

    f->info = (struct errinfo){0};
    assert_err(state_import(f->engine, restore, &seq, &f->info), expected);
    assert_int_equal(seq, SEQ_NONE);
    assert_int_equal(f->info.code, expected);
    assert_true(strlen(f->info.text) > 0);
    struct engine_fake_stats after = engine_fake_stats(f->engine);
    assert_int_equal(after.imports, before.imports);
    assert_int_equal(after.cells_used, before.cells_used);
    assert_int_equal(sequences_free(f->engine), sequences);
    assert_says(f, f->seq, true);
}

static void assert_restores(struct fixture *f, const struct state_restore *restore)
{
    seq_id seq = SEQ_NONE;

    assert_ok(state_import(f->engine, restore, &seq, NULL));
    assert_int_equal(engine_seq_length(f->engine, seq), restore->length);
    assert_says(f, seq, true);
    engine_seq_release(f->engine, &seq);
}

static void test_restores_blocks_and_wholes(void **state)
{
    const kind_set sets[] = {FULL, HYBRID};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(sets); i++) {
        struct fixture *f = create((struct engine_fake_options){.kinds = sets[i]});
        assert_restores(f, &f->restore);
        f->restore = (struct state_restore){&f->whole, 1, NULL, LENGTH, NULL};
        assert_restores(f, &f->restore);
        destroy(&f);
    }
}

static void test_sizes_are_exact(void **state)
{
    struct fixture *f = create((struct engine_fake_options){.kinds = HYBRID});
    const struct engine_facts *facts = engine_facts(f->engine);

    (void)state;
    for (int i = 0; i < BLOCKS; i++) {
        uint32_t tokens = f->rows[i].shape.end - f->rows[i].shape.begin;
        assert_int_equal(f->rows[i].shape.bytes,
                         facts->rows_bytes_fixed + tokens * facts->rows_bytes_per_token);
        assert_int_equal(f->rows[i].shape.bytes, state_rows_bytes(f->engine, tokens));
        assert_true(state_rows_capacity(f->engine, tokens) > f->rows[i].shape.bytes);
    }
    assert_int_equal(state_rows_bytes(f->engine, 0), 0);
    assert_int_equal(f->snapshot.shape.bytes, state_snapshot_bytes(f->engine, f->seq));
    assert_true(f->snapshot.shape.bytes <= facts->snapshot_bytes_max);
    assert_int_equal(f->whole.shape.bytes, state_whole_bytes(f->engine, f->seq));
    destroy(&f);
}

/* Too little memory is refused; enough of it is not exceeded by a byte. */
static void test_exports_stay_inside_their_memory(void **state)
{
    struct fixture *f = create((struct engine_fake_options){.kinds = HYBRID});
    uint64_t need = state_rows_capacity(f->engine, 10);
    unsigned char memory[IMAGE_BYTES_MAX], clean[IMAGE_BYTES_MAX];
    struct state_shape shape;

    (void)state;
    memset(memory, '#', sizeof(memory));
    memset(clean, '#', sizeof(clean));
    assert_err(state_export_rows(f->engine, f->seq, 5, 15, memory, need - 1, &shape, &f->info),
               ERR_LIMIT);
    assert_err(state_export_snapshot(f->engine, f->seq, memory, f->snapshot.shape.bytes - 1, &shape,
                                     &f->info),
               ERR_LIMIT);
    assert_err(
        state_export_whole(f->engine, f->seq, memory, f->whole.shape.bytes - 1, &shape, &f->info),
        ERR_LIMIT);
    assert_memory_equal(memory, clean, sizeof(memory));
    assert_ok(state_export_rows(f->engine, f->seq, 5, 15, memory, need, &shape, NULL));
    assert_memory_equal(memory + need, clean, sizeof(memory) - need);
    assert_ok(
        state_export_snapshot(f->engine, f->seq, memory, f->snapshot.shape.bytes, &shape, NULL));
    assert_memory_equal(memory + need, clean, sizeof(memory) - need);
    destroy(&f);
}

static void test_exports_that_cannot_be(void **state)
{
    struct fixture *f = create((struct engine_fake_options){.kinds = FULL});
    unsigned char memory[IMAGE_BYTES_MAX];
    struct state_shape shape;
    seq_id empty = acquire(f->engine);

    (void)state;
    assert_err(state_export_rows(f->engine, f->seq, 5, 5, memory, sizeof(memory), &shape, &f->info),
               ERR_INVALID);
    assert_err(state_export_rows(f->engine, f->seq, 6, 5, memory, sizeof(memory), &shape, &f->info),
               ERR_INVALID);
    assert_err(state_export_rows(f->engine, f->seq, 0, LENGTH + 1, memory, sizeof(memory), &shape,
                                 &f->info),
               ERR_INVALID);
    assert_err(state_export_snapshot(f->engine, f->seq, memory, sizeof(memory), &shape, &f->info),
               ERR_UNSUPPORTED);
    assert_err(state_export_whole(f->engine, empty, memory, sizeof(memory), &shape, &f->info),
               ERR_INVALID);
    destroy(&f);
    f = create((struct engine_fake_options){.kinds = HYBRID});
    empty = acquire(f->engine);
    assert_err(state_export_snapshot(f->engine, empty, memory, sizeof(memory), &shape, &f->info),
               ERR_INVALID);
    destroy(&f);
}

/* The same rows, however they were cut and wherever they have been. */
static void test_export_of_an_import_is_the_same(void **state)
{
    struct fixture *f = create((struct engine_fake_options){.kinds = HYBRID});
    unsigned char again[IMAGE_BYTES_MAX];
    struct state_shape shape;
    seq_id seq = SEQ_NONE;

    (void)state;
    assert_ok(state_import(f->engine, &f->restore, &seq, NULL));
    for (int i = 0; i < BLOCKS; i++) {
        assert_ok(state_export_rows(f->engine, seq, f->rows[i].shape.begin, f->rows[i].shape.end,
                                    again, sizeof(again), &shape, NULL));
        assert_memory_equal(again, f->images[i], shape.bytes);
        assert_true(hash128_eq(&shape.digest, &f->rows[i].shape.digest));
    }
    assert_ok(state_export_snapshot(f->engine, seq, again, sizeof(again), &shape, NULL));
    assert_memory_equal(again, f->images[BLOCKS], shape.bytes);
    destroy(&f);
}

static void test_i11_objects_are_not_changed_by_use(void **state)
{
    struct fixture *f = create((struct engine_fake_options){.kinds = HYBRID});
    static unsigned char images[BLOCKS + 2][IMAGE_BYTES_MAX];
    seq_id seq = SEQ_NONE;

    (void)state;
    memcpy(images, f->images, sizeof(images));
    assert_ok(state_import(f->engine, &f->restore, &seq, NULL));
    run(f->engine, seq, f->tokens, 10);
    assert_memory_equal(images, f->images, sizeof(images));
    destroy(&f);
}

/* A match may end inside the last block when every kind is full; any other needs a snapshot that
 * really is of that length. */
static void test_last_rows_may_reach_beyond_when_all_is_full(void **state)
{
    struct fixture *f = create((struct engine_fake_options){.kinds = FULL});
    token_id next = 'n';

    (void)state;
    for (uint32_t length = 2 * BLOCK + 1; length <= LENGTH; length++) {
        seq_id seq = SEQ_NONE, cold = acquire(f->engine);
        float says[ENGINE_FAKE_VOCAB];
        f->restore.length = length;
        run(f->engine, cold, f->tokens, length);
        memcpy(says, run(f->engine, cold, &next, 1), sizeof(says));
        engine_seq_release(f->engine, &cold);
        assert_ok(state_import(f->engine, &f->restore, &seq, NULL));
        assert_int_equal(engine_seq_length(f->engine, seq), length);
        assert_memory_equal(run(f->engine, seq, &next, 1), says, sizeof(says));
        engine_seq_release(f->engine, &seq);
        assert_int_equal(engine_cells_free(f->engine), CONTEXT - LENGTH);
    }
    f->restore.length = 2 * BLOCK; /* the last object would not be needed at all */
    assert_refused(f, &f->restore, ERR_INVALID);
    destroy(&f);
    f = create((struct engine_fake_options){.kinds = HYBRID});
    f->restore.length = LENGTH - 1;
    f->snapshot.shape.end = LENGTH - 1;
    f->snapshot.verified = true;
    seq_id seq = SEQ_NONE;
    assert_err(state_import(f->engine, &f->restore, &seq, NULL), ERR_ENGINE);
    assert_int_equal(seq, SEQ_NONE);
    assert_says(f, f->seq, true);
    destroy(&f);
}

/* The run of another branch, which shares the first block only, is used for that block and cut
 * where our own rows begin. */
static void test_i92_rows_of_another_branch_are_cut(void **state)
{
    const kind_set sets[] = {FULL, HYBRID};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(sets); i++) {
        struct fixture *f =
            create((struct engine_fake_options){.kinds = sets[i], .context = 4 * CONTEXT});
        unsigned char image[IMAGE_BYTES_MAX];
        token_id tokens[LENGTH];
        seq_id branch = acquire(f->engine);
        memcpy(tokens, f->tokens, sizeof(tokens));
        tokens[BLOCK + 1] ^= 1;
        run(f->engine, branch, tokens, LENGTH);
        f->rows[0].data = image;
        assert_ok(state_export_rows(f->engine, branch, 0, LENGTH, image, sizeof(image),
                                    &f->rows[0].shape, NULL));
        assert_restores(f, &f->restore);
        destroy(&f);
    }
}

/* ---- refusals ---- */

/* Spoils a restore in one way; what is changed in a shape has a digest to match, so that the digest
 * is not what refuses it. */
typedef void spoil_fn(struct fixture *f);

static void sign(struct state_object *object)
{
    object->shape.digest = state_digest(&object->shape, object->data);
}

static void spoil_nothing_to_do(struct fixture *f)
{
    f->restore.length = 0;
}

static void spoil_gap(struct fixture *f)
{
    f->rows[1] = f->rows[2];
    f->restore.rows_count = 2;
}

static void spoil_order(struct fixture *f)
{
    struct state_object first = f->rows[0];

    f->rows[0] = f->rows[1];
    f->rows[1] = first;
}

static void spoil_beginning(struct fixture *f)
{
    f->restore.rows++;
    f->restore.rows_count--;
}

static void spoil_twice(struct fixture *f)
{
    f->rows[1] = f->rows[0];
}

static void spoil_too_short(struct fixture *f)
{
    f->restore.rows_count--;
}

static void spoil_no_rows(struct fixture *f)
{
    f->restore.rows_count = 0;
}

static void spoil_overlap(struct fixture *f)
{
    f->rows[1].shape.begin--;
    sign(&f->rows[1]);
}

static void spoil_engine(struct fixture *f)
{
    f->rows[1].shape.engine.bytes[31] ^= 1;
    sign(&f->rows[1]);
}

static void spoil_rows_kind(struct fixture *f)
{
    f->rows[1].shape.kind = STATE_SNAPSHOT;
    sign(&f->rows[1]);
}

static void spoil_rows_kind_unknown(struct fixture *f)
{
    f->rows[1].shape.kind = 9;
    sign(&f->rows[1]);
}

static void spoil_rows_more_bytes(struct fixture *f)
{
    f->rows[1].shape.bytes++;
    sign(&f->rows[1]);
}

static void spoil_rows_fewer_bytes(struct fixture *f)
{
    f->rows[1].shape.bytes -= engine_facts(f->engine)->rows_bytes_per_token;
    sign(&f->rows[1]);
}

static void spoil_rows_no_bytes(struct fixture *f)
{
    f->rows[1].shape.bytes = 0;
    sign(&f->rows[1]);
}

static void spoil_rows_empty(struct fixture *f)
{
    f->rows[1].shape.begin = f->rows[1].shape.end;
    sign(&f->rows[1]);
}

static void spoil_rows_far(struct fixture *f)
{
    f->rows[2].shape.end = UINT32_MAX;
    sign(&f->rows[2]);
}

static void spoil_snapshot_missing(struct fixture *f)
{
    f->restore.snapshot = NULL;
}

static void spoil_snapshot_elsewhere(struct fixture *f)
{
    f->snapshot.shape.end--;
    sign(&f->snapshot);
}

static void spoil_snapshot_begin(struct fixture *f)
{
    f->snapshot.shape.begin = 1;
    sign(&f->snapshot);
}

static void spoil_snapshot_kind(struct fixture *f)
{
    f->snapshot.shape.kind = STATE_ROWS;
    sign(&f->snapshot);
}

static void spoil_snapshot_is_whole(struct fixture *f)
{
    f->restore.snapshot = &f->whole;
}

static void spoil_snapshot_engine(struct fixture *f)
{
    f->snapshot.shape.engine.bytes[0] ^= 0x80;
    sign(&f->snapshot);
}

static void spoil_snapshot_no_bytes(struct fixture *f)
{
    f->snapshot.shape.bytes = 0;
    sign(&f->snapshot);
}

static void spoil_snapshot_too_large(struct fixture *f)
{
    f->snapshot.shape.bytes = engine_facts(f->engine)->snapshot_bytes_max + 1;
    sign(&f->snapshot);
}

static void spoil_whole_among_rows(struct fixture *f)
{
    f->rows[0] = f->whole;
}

static void spoil_whole_with_snapshot(struct fixture *f)
{
    f->restore.rows = &f->whole;
    f->restore.rows_count = 1;
}

static void spoil_whole_elsewhere(struct fixture *f)
{
    f->restore = (struct state_restore){&f->whole, 1, NULL, LENGTH - 1, NULL};
}

static void test_i31_i36_what_does_not_fit_is_refused_untouched(void **state)
{
    spoil_fn *const spoils[] = {
        spoil_nothing_to_do,
        spoil_gap,
        spoil_order,
        spoil_beginning,
        spoil_twice,
        spoil_too_short,
        spoil_no_rows,
        spoil_overlap,
        spoil_engine,
        spoil_rows_kind,
        spoil_rows_kind_unknown,
        spoil_rows_more_bytes,
        spoil_rows_fewer_bytes,
        spoil_rows_no_bytes,
        spoil_rows_empty,
        spoil_rows_far,
        spoil_snapshot_missing,
        spoil_snapshot_elsewhere,
        spoil_snapshot_begin,
        spoil_snapshot_kind,
        spoil_snapshot_engine,
        spoil_snapshot_no_bytes,
        spoil_whole_among_rows,
        spoil_snapshot_too_large,
        spoil_whole_elsewhere,
        spoil_whole_with_snapshot,
        spoil_snapshot_is_whole,
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(spoils); i++) {
        for (int verified = 0; verified < 2; verified++) {
            struct fixture *f = create((struct engine_fake_options){.kinds = HYBRID});
            spoils[i](f);
            for (int j = 0; verified && j < BLOCKS; j++)
                f->rows[j].verified = true;
            f->snapshot.verified = f->whole.verified = verified;
            assert_refused(f, &f->restore, ERR_INVALID);
            destroy(&f);
        }
    }
}

static void test_a_snapshot_for_full_layers_is_refused(void **state)
{
    struct fixture *f = create((struct engine_fake_options){.kinds = FULL});

    (void)state;
    f->restore.snapshot = &f->whole;
    assert_refused(f, &f->restore, ERR_INVALID);
    destroy(&f);
}

/* One bit in any byte of any object, and the library sees nothing of all the others either. */
static void test_i102_damaged_bytes_are_refused_untouched(void **state)
{
    struct fixture *f = create((struct engine_fake_options){.kinds = HYBRID});

    (void)state;
    for (int i = 0; i <= BLOCKS; i++) {
        uint64_t bytes = i < BLOCKS ? f->rows[i].shape.bytes : f->snapshot.shape.bytes;
        for (uint64_t at = 0; at < bytes; at += 5) {
            f->images[i][at] ^= (unsigned char)(1u << at % 8);
            assert_refused(f, &f->restore, ERR_CORRUPT);
            f->images[i][at] ^= (unsigned char)(1u << at % 8);
        }
    }
    f->images[BLOCKS + 1][100] ^= 1;
    f->restore = (struct state_restore){&f->whole, 1, NULL, LENGTH, NULL};
    assert_refused(f, &f->restore, ERR_CORRUPT);
    f->images[BLOCKS + 1][100] ^= 1;
    assert_restores(f, &f->restore);
    destroy(&f);
}

/* The digest of an object that is marked as verified is not computed again: the caller must be
 * right. */
static void test_verified_is_believed(void **state)
{
    struct fixture *f = create((struct engine_fake_options){.kinds = HYBRID});
    seq_id seq = SEQ_NONE;

    (void)state;
    f->images[1][100] ^= 1;
    f->rows[1].verified = true;
    assert_ok(state_import(f->engine, &f->restore, &seq, NULL));
    assert_says(f, seq, false);
    assert_says(f, f->seq, true);
    destroy(&f);
}

/* A good image under another name: the digest covers the shape as well. */
static void test_digest_covers_every_field(void **state)
{
    struct fixture *f = create((struct engine_fake_options){.kinds = FULL});
    struct state_object *object = &f->rows[1];
    const struct state_object good = *object;

    (void)state;
    assert_ok(state_check(f->engine, object, NULL));
    object->shape.begin -= BLOCK;
    object->shape.end -= BLOCK;
    assert_err(state_check(f->engine, object, &f->info), ERR_CORRUPT);
    *object = good;
    object->shape.digest.bytes[15] ^= 1;
    assert_err(state_check(f->engine, object, &f->info), ERR_CORRUPT);
    *object = good;
    for (int field = 0; field < 5; field++) {
        struct state_shape shape = good.shape;
        shape.kind += field == 0;
        shape.begin += field == 1;
        shape.end += field == 2;
        shape.bytes -= field == 3;
        shape.engine.bytes[7] ^= field == 4;
        struct hash128 digest = state_digest(&shape, good.data);
        assert_false(hash128_eq(&digest, &good.shape.digest));
    }
    assert_restores(f, &f->restore);
    destroy(&f);
}

/* Objects that no restore could use are refused one by one as well: tiers ask before they keep
 * one. */
static void test_check_of_one_object(void **state)
{
    struct fixture *f = create((struct engine_fake_options){.kinds = HYBRID});
    const struct state_object whole = f->whole;

    (void)state;
    assert_ok(state_check(f->engine, &f->whole, NULL));
    f->whole.shape.end = CONTEXT + 1;
    sign(&f->whole);
    assert_err(state_check(f->engine, &f->whole, &f->info), ERR_INVALID);
    f->whole.shape.end = 0;
    sign(&f->whole);
    assert_err(state_check(f->engine, &f->whole, &f->info), ERR_INVALID);
    f->whole = whole;
    f->whole.shape.begin = 1;
    sign(&f->whole);
    assert_err(state_check(f->engine, &f->whole, &f->info), ERR_INVALID);
    f->whole = whole;
    f->whole.shape.bytes = 0;
    sign(&f->whole);
    assert_err(state_check(f->engine, &f->whole, &f->info), ERR_INVALID);
    destroy(&f);
}

/* ---- limits ---- */

static void test_cells_must_suffice(void **state)
{
    struct fixture *f = create((struct engine_fake_options){.kinds = FULL});
    token_id filler[CONTEXT] = {0};
    seq_id other = acquire(f->engine), seq = SEQ_NONE;

    (void)state;
    /* 100 cells: 45 are used, 10 more, 45 remain: just enough. One more, and it is not. */
    run(f->engine, other, filler, CONTEXT - 2 * LENGTH);
    assert_ok(state_import(f->engine, &f->restore, &seq, NULL));
    assert_int_equal(engine_cells_free(f->engine), 0);
    engine_seq_release(f->engine, &seq);
    run(f->engine, other, filler, 1);
    assert_refused(f, &f->restore, ERR_LIMIT);
    /* The whole last object has to fit, though less of it is wanted in the end. */
    f->restore.length = LENGTH - 5;
    assert_refused(f, &f->restore, ERR_LIMIT);
    destroy(&f);
}

/* Cells that were free at the beginning may be taken before the last object: that is a refusal,
 * after which the import goes on, not a failure of the library, which costs the sequence. */
static void test_cells_that_were_taken_meanwhile(void **state)
{
    struct fixture *f = create((struct engine_fake_options){.kinds = FULL});
    const size_t last = f->restore.rows_count - 1;
    token_id filler[CONTEXT] = {0};
    seq_id other = acquire(f->engine), seq = SEQ_NONE;

    (void)state;
    f->restore.length = LENGTH - 1; /* the last object has one row beyond it */
    assert_ok(state_import_begin(f->engine, &f->restore, &seq, NULL));
    for (size_t i = 0; i < last; i++)
        assert_ok(state_import_object(f->engine, &f->restore, i, &seq, NULL));
    uint32_t rows = f->rows[last].shape.end - f->rows[last].shape.begin;
    run(f->engine, other, filler, engine_cells_free(f->engine) - (rows - 1));
    assert_err(state_import_object(f->engine, &f->restore, last, &seq, &f->info), ERR_LIMIT);
    assert_int_not_equal(seq, SEQ_NONE);
    engine_seq_release(f->engine, &other);
    assert_ok(state_import_object(f->engine, &f->restore, last, &seq, NULL));
    assert_ok(state_import_end(f->engine, &f->restore, &seq, NULL));
    destroy(&f);
}

static void test_a_sequence_must_be_free(void **state)
{
    struct fixture *f = create((struct engine_fake_options){.kinds = FULL});
    seq_id seq = SEQ_NONE, last = SEQ_NONE;

    (void)state;
    for (int i = 1; i < SEQUENCES; i++)
        last = acquire(f->engine);
    assert_err(state_import(f->engine, &f->restore, &seq, &f->info), ERR_LIMIT);
    assert_int_equal(seq, SEQ_NONE);
    assert_int_equal(engine_fake_stats(f->engine).imports, 0);
    engine_seq_release(f->engine, &last);
    assert_ok(state_import(f->engine, &f->restore, &seq, NULL));
    destroy(&f);
}

/* ---- modes ---- */

static void test_whole_mode_takes_wholes_only(void **state)
{
    struct fixture *rows = create((struct engine_fake_options){.kinds = HYBRID});
    struct fixture *f =
        create((struct engine_fake_options){.kinds = HYBRID, .slicing = ENGINE_FAKE_WHOLE});
    unsigned char memory[IMAGE_BYTES_MAX];
    struct state_shape shape;

    (void)state;
    assert_err(
        state_export_rows(f->engine, f->seq, 0, 16, memory, sizeof(memory), &shape, &f->info),
        ERR_UNSUPPORTED);
    assert_err(state_export_snapshot(f->engine, f->seq, memory, sizeof(memory), &shape, &f->info),
               ERR_UNSUPPORTED);
    assert_refused(f, &rows->restore, ERR_INVALID);
    assert_ok(state_export_whole(f->engine, f->seq, memory, sizeof(memory), &f->whole.shape, NULL));
    f->whole.data = memory;
    f->restore = (struct state_restore){&f->whole, 1, NULL, LENGTH, NULL};
    assert_restores(f, &f->restore);
    destroy(&f);
    destroy(&rows);
}

static void test_no_mode_takes_nothing(void **state)
{
    struct fixture *rows = create((struct engine_fake_options){.kinds = FULL});
    struct fixture *f =
        create((struct engine_fake_options){.kinds = FULL, .slicing = ENGINE_FAKE_NONE});
    unsigned char memory[IMAGE_BYTES_MAX];
    struct state_shape shape;

    (void)state;
    assert_err(
        state_export_rows(f->engine, f->seq, 0, 16, memory, sizeof(memory), &shape, &f->info),
        ERR_UNSUPPORTED);
    assert_err(state_export_whole(f->engine, f->seq, memory, sizeof(memory), &shape, &f->info),
               ERR_UNSUPPORTED);
    assert_refused(f, &rows->restore, ERR_UNSUPPORTED);
    destroy(&f);
    destroy(&rows);
}

/* A model without full layers has no rows: its snapshot is all there is. */
static void test_recurrent_models_have_snapshots_only(void **state)
{
    struct engine_fake_options options = {.kinds = KIND_BIT(KIND_RECURRENT)};
    struct fixture *hybrid = create((struct engine_fake_options){.kinds = HYBRID});
    unsigned char memory[IMAGE_BYTES_MAX];
    struct state_object snapshot = {.data = memory};
    struct state_restore restore = {NULL, 0, &snapshot, 5, NULL};
    struct state_shape shape;
    struct engine *engine = NULL;
    token_id tokens[5] = {1, 2, 3, 4, 5};

    (void)state;
    assert_ok(engine_fake_create(&engine, &options, NULL));
    seq_id seq = acquire(engine), restored = SEQ_NONE;
    run(engine, seq, tokens, 5);
    assert_int_equal(state_rows_bytes(engine, 5), 0);
    assert_err(state_export_rows(engine, seq, 0, 5, memory, sizeof(memory), &shape, NULL),
               ERR_UNSUPPORTED);
    assert_ok(state_export_snapshot(engine, seq, memory, sizeof(memory), &snapshot.shape, NULL));
    assert_ok(state_import(engine, &restore, &restored, NULL));
    float says[ENGINE_FAKE_VOCAB];
    memcpy(says, run(engine, seq, tokens, 1), sizeof(says));
    assert_memory_equal(run(engine, restored, tokens, 1), says, sizeof(says));
    restore.rows = hybrid->rows;
    restore.rows_count = 1;
    assert_err(state_import(engine, &restore, &restored, NULL), ERR_INVALID);
    engine_close(&engine);
    destroy(&hybrid);
}

/* ---- failures ---- */

/* Each import of a restore fails in turn. Its sequence is never used again, its cells are, and
 * other sequences are not affected. */
static void test_i102_a_refused_import_retires_its_sequence_only(void **state)
{
    struct fault fault = {0};
    int failures = 0;

    (void)state;
    FAULT_LOOP (&fault) {
        struct fixture *f =
            create((struct engine_fake_options){.kinds = HYBRID, .fault_import = &fault});
        seq_id seq = SEQ_NONE;
        enum err err = state_import(f->engine, &f->restore, &seq, &f->info);
        if (err != ERR_OK) {
            failures++;
            assert_int_equal(err, ERR_ENGINE);
            assert_int_equal(seq, SEQ_NONE);
            assert_int_equal(sequences_free(f->engine), SEQUENCES - 2);
            assert_restores(f, &f->restore);
        }
        engine_seq_release(f->engine, &seq);
        assert_int_equal(engine_fake_stats(f->engine).cells_used, LENGTH);
        assert_int_equal(engine_cells_free(f->engine), CONTEXT - LENGTH);
        assert_says(f, f->seq, true);
        destroy(&f);
    }
    assert_int_equal(failures, BLOCKS + 1);
}

/* Until the last one in use is given back: then all of them are as new. */
static void test_when_all_sequences_are_retired_there_are_none(void **state)
{
    struct fault fault = {0};
    struct fixture *f = create((struct engine_fake_options){.kinds = FULL, .fault_import = &fault});
    seq_id seq = SEQ_NONE;

    (void)state;
    fault_arm(&fault, 1, true);
    for (int i = 1; i < SEQUENCES; i++)
        assert_err(state_import(f->engine, &f->restore, &seq, &f->info), ERR_ENGINE);
    assert_err(state_import(f->engine, &f->restore, &seq, &f->info), ERR_LIMIT);
    assert_int_equal(engine_seq_length(f->engine, f->seq), LENGTH);
    engine_seq_release(f->engine, &f->seq);
    assert_int_equal(sequences_free(f->engine), SEQUENCES);
    for (int i = 0; i < 3 * SEQUENCES; i++) /* nothing else is in use: each comes back at once */
        assert_err(state_import(f->engine, &f->restore, &seq, &f->info), ERR_ENGINE);
    fault_arm(&fault, 0, false);
    assert_int_equal(sequences_free(f->engine), SEQUENCES);
    assert_ok(state_import(f->engine, &f->restore, &f->seq, &f->info));
    assert_says(f, f->seq, true);
    destroy(&f);
}

/* What the library made of it is compared with what was asked for, whatever the shapes said. */
static void test_a_restore_of_another_length_is_not_handed_over(void **state)
{
    struct fixture *f = create((struct engine_fake_options){.kinds = HYBRID});
    unsigned char memory[IMAGE_BYTES_MAX];
    struct state_object late = {.data = memory};
    seq_id seq = SEQ_NONE;

    (void)state;
    run(f->engine, f->seq, f->tokens, 1);
    assert_ok(state_export_snapshot(f->engine, f->seq, memory, sizeof(memory), &late.shape, NULL));
    late.shape.end = LENGTH;
    late.verified = true;
    f->restore.snapshot = &late;
    assert_err(state_import(f->engine, &f->restore, &seq, &f->info), ERR_ENGINE);
    assert_int_equal(seq, SEQ_NONE);
    assert_int_equal(engine_fake_stats(f->engine).cells_used, LENGTH + 1);
    destroy(&f);
}

static void test_a_failed_export_leaves_the_sequence(void **state)
{
    struct fault fault = {0};
    unsigned char memory[IMAGE_BYTES_MAX];
    struct state_shape shape;
    struct fixture *f =
        create((struct engine_fake_options){.kinds = HYBRID, .fault_export = &fault});

    (void)state;
    fault_arm(&fault, 1, true);
    assert_err(
        state_export_rows(f->engine, f->seq, 0, 16, memory, sizeof(memory), &shape, &f->info),
        ERR_ENGINE);
    assert_err(state_export_snapshot(f->engine, f->seq, memory, sizeof(memory), &shape, &f->info),
               ERR_ENGINE);
    assert_err(state_export_whole(f->engine, f->seq, memory, sizeof(memory), &shape, &f->info),
               ERR_ENGINE);
    assert_says(f, f->seq, true);
    fault_arm(&fault, 0, false);
    assert_restores(f, &f->restore);
    destroy(&f);
}

TEST_SUITE(TEST(test_restores_blocks_and_wholes), TEST(test_sizes_are_exact),
           TEST(test_exports_stay_inside_their_memory), TEST(test_exports_that_cannot_be),
           TEST(test_export_of_an_import_is_the_same),
           TEST(test_i11_objects_are_not_changed_by_use),
           TEST(test_last_rows_may_reach_beyond_when_all_is_full),
           TEST(test_i92_rows_of_another_branch_are_cut),
           TEST(test_i31_i36_what_does_not_fit_is_refused_untouched),
           TEST(test_a_snapshot_for_full_layers_is_refused),
           TEST(test_i102_damaged_bytes_are_refused_untouched), TEST(test_verified_is_believed),
           TEST(test_digest_covers_every_field), TEST(test_check_of_one_object),
           TEST(test_cells_must_suffice), TEST(test_cells_that_were_taken_meanwhile),
           TEST(test_a_sequence_must_be_free), TEST(test_whole_mode_takes_wholes_only),
           TEST(test_no_mode_takes_nothing), TEST(test_recurrent_models_have_snapshots_only),
           TEST(test_i102_a_refused_import_retires_its_sequence_only),
           TEST(test_when_all_sequences_are_retired_there_are_none),
           TEST(test_a_restore_of_another_length_is_not_handed_over),
           TEST(test_a_failed_export_leaves_the_sequence))

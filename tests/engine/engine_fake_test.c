#include "support/engine_fake.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "engine/state.h"
#include "support/test.h"

enum { KIND_SETS = 1 << KIND_COUNT, WINDOW = 7, BLOCK = 16, PROMPT = 75, PIECES_MAX = 64 };

/* ---- helpers ---- */

static struct engine *create(struct engine_fake_options options)
{
    struct engine *engine = NULL;

    assert_ok(engine_fake_create(&engine, &options, NULL));
    return engine;
}

static seq_id acquire(struct engine *engine)
{
    seq_id seq = SEQ_NONE;

    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    return seq;
}

/* Runs tokens as one chunk; the logits of the last one. */
static const float *run(struct engine *engine, seq_id seq, const token_id *tokens, uint32_t count)
{
    struct engine_item item = {seq, tokens, count, true};

    assert_ok(engine_run(engine, &item, 1, NULL));
    return engine_logits(engine, 0);
}

static bool same_logits(const float *a, const float *b)
{
    return memcmp(a, b, ENGINE_FAKE_VOCAB * sizeof(*a)) == 0;
}

/* They differ by more than rounding would explain. */
static bool other_answer(const float *a, const float *b)
{
    float most = 0;

    for (int i = 0; i < ENGINE_FAKE_VOCAB; i++)
        most = fmaxf(most, fabsf(a[i] - b[i]));
    return most > 1.0f;
}

static void keep_logits(float *out, const float *logits)
{
    memcpy(out, logits, ENGINE_FAKE_VOCAB * sizeof(*out));
}

static token_id best(const float *logits)
{
    token_id token = 0;

    for (token_id i = 1; i < ENGINE_FAKE_VOCAB; i++)
        token = logits[i] > logits[token] ? i : token;
    return token;
}

static void fill_tokens(uint64_t seed, token_id *tokens, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tokens[i] = (token_id)test_random_below(&seed, ENGINE_FAKE_VOCAB);
}

/* What a cold sequence of these tokens, run as one chunk each time, says. */
static void cold_logits(struct engine_fake_options options, const token_id *tokens, uint32_t count,
                        float *out)
{
    struct engine *engine = create(options);
    seq_id seq = acquire(engine);

    keep_logits(out, run(engine, seq, tokens, count));
    engine_close(&engine);
}

/* The books of engine.c and the memory agree. */
static void check_cells(const struct engine *engine, uint32_t context)
{
    if (engine_facts(engine)->kinds & KIND_BIT(KIND_FULL))
        assert_int_equal(engine_fake_stats(engine).cells_used, context - engine_cells_free(engine));
}

/* A sequence as objects: blocks of BLOCK rows and a tail, and a snapshot where one is needed; or
 * one whole object. */
struct saved {
    struct state_object rows[PIECES_MAX];
    struct state_object snapshot;
    struct state_restore restore;
};

static void *save_rows(struct engine *engine, seq_id seq, uint32_t begin, uint32_t end,
                       struct state_shape *shape)
{
    uint64_t capacity = state_rows_capacity(engine, end - begin);
    void *data = mem_alloc(capacity);

    assert_ok(state_export_rows(engine, seq, begin, end, data, capacity, shape, NULL));
    return data;
}

static void save(struct engine *engine, seq_id seq, bool whole, struct saved *saved)
{
    uint32_t length = engine_seq_length(engine, seq);
    kind_set kinds = engine_facts(engine)->kinds;
    size_t count = 0;

    *saved = (struct saved){.restore = {.rows = saved->rows, .length = length}};
    if (whole) {
        uint64_t bytes = state_whole_bytes(engine, seq);
        void *data = mem_alloc(bytes);
        assert_ok(state_export_whole(engine, seq, data, bytes, &saved->rows[count].shape, NULL));
        saved->rows[count++].data = data;
    }
    for (uint32_t at = 0; !whole && (kinds & KIND_BIT(KIND_FULL)) && at < length; at += BLOCK) {
        assert_true(count < PIECES_MAX);
        saved->rows[count].data =
            save_rows(engine, seq, at, MIN(at + BLOCK, length), &saved->rows[count].shape);
        count++;
    }
    saved->restore.rows_count = count;
    if (!whole && kind_set_needs_snapshot(kinds)) {
        uint64_t bytes = state_snapshot_bytes(engine, seq);
        void *data = mem_alloc(bytes);
        assert_ok(state_export_snapshot(engine, seq, data, bytes, &saved->snapshot.shape, NULL));
        saved->snapshot.data = data;
        saved->restore.snapshot = &saved->snapshot;
    }
}

static void drop(struct saved *saved)
{
    for (size_t i = 0; i < saved->restore.rows_count; i++)
        mem_free((void *)saved->rows[i].data);
    mem_free((void *)saved->snapshot.data);
    *saved = (struct saved){0};
}

static seq_id restore(struct engine *engine, const struct saved *saved)
{
    seq_id seq = SEQ_NONE;

    assert_ok(state_import(engine, &saved->restore, &seq, NULL));
    return seq;
}

/* ---- facts and tokens ---- */

static void test_facts_say_what_was_asked_for(void **state)
{
    struct engine *engine = create((struct engine_fake_options){
        .kinds = KIND_BIT(KIND_FULL) | KIND_BIT(KIND_SLIDING),
        .window = 7,
        .context = 99,
        .sequences = 3,
        .chunk = 20,
        .rows_bytes = 40,
        .chat_template = "{{ x }}",
    });
    const struct engine_facts *facts = engine_facts(engine);

    (void)state;
    assert_int_equal(facts->kinds, KIND_BIT(KIND_FULL) | KIND_BIT(KIND_SLIDING));
    assert_int_equal(facts->window, 7);
    assert_int_equal(facts->context, 99);
    assert_int_equal(facts->sequences, 3);
    assert_int_equal(facts->chunk, 20);
    assert_int_equal(facts->vocab, ENGINE_FAKE_VOCAB);
    assert_int_equal(facts->rows_bytes_per_token, 40);
    assert_int_equal(facts->snapshot_bytes_max, 16 + 7 * 16);
    assert_int_equal(facts->groups_count, 2);
    assert_int_equal(facts->slicing, ENGINE_SLICING_ROWS);
    assert_string_equal(facts->chat_template, "{{ x }}");
    assert_int_equal(engine_cells_free(engine), 99);
    engine_close(&engine);
    assert_null(engine);
}

static void test_impossible_options_are_refused(void **state)
{
    const struct engine_fake_options bad[] = {
        {.kinds = 1u << KIND_COUNT},
        {.sequences = 257},
        {.streams = true, .sequences = 8, .context = 7},
        {.rows_bytes = 15},
        {.snapshot_bytes = 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct engine *engine = (struct engine *)1;
        struct errinfo info = {0};
        assert_err(engine_fake_create(&engine, &bad[i], &info), ERR_INVALID);
        assert_null(engine);
        assert_true(strlen(info.text) > 0);
    }
}

static void test_i97_whatever_shapes_state_is_in_the_fingerprint(void **state)
{
    const struct engine_fake_options variants[] = {
        {0},
        {.salt = 1},
        {.kinds = 3},
        {.kinds = 3, .window = 65},
        {.context = 4097},
        {.rows_bytes = 33},
        {.snapshot_bytes = 65},
        {.chunk_sensitive = true},
        {.batch_sensitive = true},
        {.layout_sensitive = true},
    };
    struct hash256 seen[COUNT_OF(variants)];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(variants); i++) {
        struct engine *engine = create(variants[i]);
        seen[i] = engine_facts(engine)->fingerprint;
        for (size_t j = 0; j < i; j++)
            assert_false(hash256_eq(&seen[i], &seen[j]));
        engine_close(&engine);
    }
}

static void test_i105_control_tokens_only_where_trusted(void **state)
{
    struct engine *engine = create((struct engine_fake_options){.add_bos = true});
    struct str text = STR("a<|im_end|>\xff");
    token_id tokens[32];
    size_t count = 0;

    (void)state;
    assert_ok(engine_tokenize(engine, text, ENGINE_TOKENIZE_CONTROL | ENGINE_TOKENIZE_BOS, tokens,
                              COUNT_OF(tokens), &count, NULL));
    assert_int_equal(count, 4);
    assert_int_equal(tokens[0], ENGINE_FAKE_BOS);
    assert_int_equal(tokens[1], 'a');
    assert_int_equal(tokens[2], ENGINE_FAKE_TURN_END);
    assert_int_equal(tokens[3], 0xff);
    assert_ok(engine_tokenize(engine, text, 0, tokens, COUNT_OF(tokens), &count, NULL));
    assert_int_equal(count, text.len);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(tokens[i], (unsigned char)text.ptr[i]);
    tokens[0] = -7;
    assert_err(engine_tokenize(engine, text, 0, tokens, text.len - 1, &count, NULL), ERR_LIMIT);
    assert_int_equal(count, text.len);
    assert_int_equal(tokens[0], -7);
    assert_ok(engine_tokenize(engine, STR_NONE, 0, NULL, 0, &count, NULL));
    assert_int_equal(count, 0);
    engine_close(&engine);
}

static void test_bytes_of_tokens(void **state)
{
    struct engine *engine = create((struct engine_fake_options){0});
    char out[16];

    (void)state;
    memset(out, '#', sizeof(out));
    assert_int_equal(engine_token_bytes(engine, 0xe4, false, out, sizeof(out)), 1);
    assert_int_equal((unsigned char)out[0], 0xe4);
    assert_int_equal(engine_token_bytes(engine, ENGINE_FAKE_EOS, false, out, sizeof(out)), 0);
    assert_int_equal(engine_token_bytes(engine, ENGINE_FAKE_EOS, true, out, 3), 7);
    assert_memory_equal(out, "<|e####", 7);
    assert_int_equal(engine_token_bytes(engine, ENGINE_FAKE_VOCAB, true, out, sizeof(out)), 0);
    assert_true(engine_token_is_end(engine, ENGINE_FAKE_EOS));
    assert_true(engine_token_is_end(engine, ENGINE_FAKE_TURN_END));
    assert_false(engine_token_is_end(engine, ENGINE_FAKE_TURN_BEGIN));
    assert_true(engine_token_is_control(engine, ENGINE_FAKE_TURN_BEGIN));
    assert_false(engine_token_is_control(engine, 255));
    assert_int_equal(engine_token_traits(engine, ENGINE_FAKE_TURN_BEGIN), ENGINE_TOKEN_CONTROL);
    assert_int_equal(engine_token_traits(engine, 255), 0);
    engine_close(&engine);
}

/* ---- logits ---- */

/* Of every kind set, at every place: another token there, another answer at the end, far beyond any
 * window. A model of nothing but chunked layers is the exception: it really knows nothing of
 * earlier chunks. */
static void test_logits_know_every_token(void **state)
{
    token_id tokens[PROMPT];
    float cold[ENGINE_FAKE_VOCAB], other[ENGINE_FAKE_VOCAB];

    (void)state;
    for (kind_set kinds = 1; kinds < KIND_SETS; kinds++) {
        struct engine_fake_options options = {.kinds = kinds, .window = WINDOW, .context = 256};
        fill_tokens(kinds, tokens, PROMPT);
        cold_logits(options, tokens, PROMPT, cold);
        for (int i = 0; i < PROMPT; i++) {
            tokens[i] ^= 1;
            cold_logits(options, tokens, PROMPT, other);
            tokens[i] ^= 1;
            bool seen = kinds != KIND_BIT(KIND_CHUNKED) || i >= PROMPT - PROMPT % WINDOW;
            assert_int_equal(same_logits(cold, other), !seen);
        }
        cold_logits(options, tokens, PROMPT, other);
        assert_true(same_logits(cold, other));
        options.salt = 1;
        cold_logits(options, tokens, PROMPT, other);
        assert_false(same_logits(cold, other));
    }
}

static void test_greedy_text_is_readable_and_ends(void **state)
{
    struct engine *engine = create((struct engine_fake_options){.end_one_in = 50});
    seq_id seq = acquire(engine);
    token_id token = 'x';
    int count = 0;

    (void)state;
    for (; !engine_token_is_end(engine, token) && count < 2000; count++) {
        assert_true(token == ' ' || (token >= 'a' && token <= 'z'));
        token = best(run(engine, seq, &token, 1));
    }
    assert_true(count > 1 && count < 2000);
    engine_close(&engine);
}

/* The same prompt cut in other places: the same bits, unless chunks are to show; then low bits
 * only. */
static void test_i24_chunk_shapes_move_low_bits_only(void **state)
{
    token_id tokens[PROMPT];
    float one[ENGINE_FAKE_VOCAB], two[ENGINE_FAKE_VOCAB], three[ENGINE_FAKE_VOCAB];

    (void)state;
    fill_tokens(1, tokens, PROMPT);
    for (kind_set kinds = 1; kinds < KIND_SETS; kinds++) {
        for (int sensitive = 0; sensitive < 2; sensitive++) {
            struct engine *engine = create((struct engine_fake_options){
                .kinds = kinds, .window = WINDOW, .chunk_sensitive = sensitive});
            seq_id a = acquire(engine), b = acquire(engine), c = acquire(engine);
            keep_logits(one, run(engine, a, tokens, PROMPT));
            run(engine, b, tokens, 30);
            keep_logits(two, run(engine, b, tokens + 30, PROMPT - 30));
            run(engine, c, tokens, 30);
            keep_logits(three, run(engine, c, tokens + 30, PROMPT - 30));
            assert_true(same_logits(two, three));
            assert_int_equal(same_logits(one, two), !sensitive);
            assert_int_equal(best(one), best(two));
            for (int i = 0; i < ENGINE_FAKE_VOCAB; i++)
                assert_true(fabsf(one[i] - two[i]) <= 2 * ENGINE_FAKE_NOISE);
            engine_close(&engine);
        }
    }
}

/* The first tokens of a longer chunk are not the first tokens of a shorter one. */
static void test_rows_know_the_size_of_their_chunk(void **state)
{
    token_id tokens[20];
    unsigned char one[1024], two[1024];
    struct state_shape shape;

    (void)state;
    fill_tokens(16, tokens, COUNT_OF(tokens));
    for (int sensitive = 0; sensitive < 2; sensitive++) {
        struct engine *engine = create((struct engine_fake_options){.chunk_sensitive = sensitive});
        seq_id a = acquire(engine), b = acquire(engine);
        run(engine, a, tokens, 20);
        run(engine, b, tokens, 10);
        assert_ok(state_export_rows(engine, a, 0, 1, one, sizeof(one), &shape, NULL));
        assert_ok(state_export_rows(engine, b, 0, 1, two, sizeof(two), &shape, NULL));
        assert_int_equal(memcmp(one, two, shape.bytes) == 0, !sensitive);
        engine_close(&engine);
    }
}

/* Where nothing is remembered, the place of a token still counts. */
static void test_logits_know_the_position(void **state)
{
    token_id tokens[WINDOW] = {1, 2, 3, 4, 5, 6, 7};
    float first[ENGINE_FAKE_VOCAB];
    struct engine *engine =
        create((struct engine_fake_options){.kinds = KIND_BIT(KIND_CHUNKED), .window = WINDOW});
    seq_id seq = acquire(engine);

    (void)state;
    keep_logits(first, run(engine, seq, tokens, WINDOW));
    assert_true(other_answer(first, run(engine, seq, tokens, WINDOW)));
    engine_close(&engine);
}

/* Whether all logits of a batch are those of its tokens one by one. */
static void test_several_outputs_equal_single_steps(void **state)
{
    token_id tokens[20];
    float alone[ENGINE_FAKE_VOCAB];

    (void)state;
    fill_tokens(2, tokens, COUNT_OF(tokens));
    for (uint32_t piece = 0; piece < 8; piece++) {
        struct engine *engine = create((struct engine_fake_options){.piece = piece});
        struct engine_item items[] = {{acquire(engine), tokens, 20, 7},
                                      {acquire(engine), tokens, 5, 0},
                                      {acquire(engine), tokens, 3, 3}};
        assert_ok(engine_run(engine, items, COUNT_OF(items), NULL));
        for (size_t i = 0; i < COUNT_OF(items); i++) {
            for (uint32_t nth = 0; nth < items[i].logits; nth++) {
                uint32_t count = items[i].count - items[i].logits + nth + 1;
                cold_logits((struct engine_fake_options){0}, tokens, count, alone);
                assert_true(same_logits(engine_logits_nth(engine, i, nth), alone));
            }
        }
        engine_close(&engine);
    }
}

static void test_batches_show_only_when_asked(void **state)
{
    token_id tokens[20];
    float alone[ENGINE_FAKE_VOCAB];

    (void)state;
    fill_tokens(2, tokens, COUNT_OF(tokens));
    for (int sensitive = 0; sensitive < 2; sensitive++) {
        struct engine_fake_options options = {.chunk_sensitive = true,
                                              .batch_sensitive = sensitive};
        struct engine *engine = create(options);
        struct engine_item items[] = {{acquire(engine), tokens + 3, 5, false},
                                      {acquire(engine), tokens, 20, true},
                                      {acquire(engine), tokens + 1, 1, true}};
        assert_null(engine_logits(engine, 0));
        assert_ok(engine_run(engine, items, COUNT_OF(items), NULL));
        cold_logits(options, tokens, 20, alone);
        assert_null(engine_logits(engine, 0));
        assert_int_equal(same_logits(engine_logits(engine, 1), alone), !sensitive);
        assert_false(same_logits(engine_logits(engine, 2), alone));
        assert_null(engine_logits(engine, 3));
        engine_close(&engine);
    }
}

/* ---- restoring ---- */

/* Cold and restored at every boundary, for every kind set, in blocks and as a whole; what follows
 * is the same bit by bit when it runs in the same chunks. */
static void test_i110_restored_equals_cold(void **state)
{
    token_id tokens[PROMPT];
    float cold[ENGINE_FAKE_VOCAB];
    struct saved *saved = mem_alloc(sizeof(*saved));

    (void)state;
    fill_tokens(3, tokens, PROMPT);
    for (kind_set kinds = 1; kinds < KIND_SETS; kinds++) {
        for (int whole = 0; whole < 2; whole++) {
            struct engine_fake_options options = {.kinds = kinds,
                                                  .window = WINDOW,
                                                  .context = 400,
                                                  .chunk_sensitive = true,
                                                  .slicing =
                                                      whole ? ENGINE_FAKE_WHOLE : ENGINE_FAKE_ROWS};
            struct engine *one = create(options), *two = create(options);
            for (uint32_t at = 1; at < PROMPT; at++) {
                seq_id a = acquire(one);
                run(one, a, tokens, at);
                save(one, a, whole, saved);
                seq_id b = restore(two, saved);
                assert_int_equal(engine_seq_length(two, b), at);
                keep_logits(cold, run(one, a, tokens + at, PROMPT - at));
                assert_true(same_logits(run(two, b, tokens + at, PROMPT - at), cold));
                keep_logits(cold, run(one, a, tokens, 1));
                assert_true(same_logits(run(two, b, tokens, 1), cold));
                check_cells(two, 400);
                drop(saved);
                engine_seq_release(one, &a);
                engine_seq_release(two, &b);
            }
            engine_close(&one);
            engine_close(&two);
        }
    }
    mem_free(saved);
}

/* Runs tokens [from, PROMPT) in chunks of 20, settling at each cut when asked to. */
static void run_settling(struct engine *engine, seq_id seq, const token_id *tokens, uint32_t from,
                         bool settle, float *out)
{
    for (uint32_t at = from; at < PROMPT; at += 20) {
        if (settle)
            assert_ok(engine_seq_settle(engine, seq, NULL));
        keep_logits(out, run(engine, seq, tokens + at, MIN(20, PROMPT - at)));
    }
}

/* A window that has moved lies elsewhere after a restore. A run that settles at every cut does not
 * see it. */
static void test_layout_shows_unless_settled(void **state)
{
    token_id tokens[PROMPT];
    float cold[ENGINE_FAKE_VOCAB], restored[ENGINE_FAKE_VOCAB];
    struct saved *saved = mem_alloc(sizeof(*saved));

    (void)state;
    fill_tokens(14, tokens, PROMPT);
    for (kind_set kinds = 1; kinds < KIND_SETS; kinds++) {
        for (int settle = 0; settle < 2; settle++) {
            struct engine *engine = create((struct engine_fake_options){
                .kinds = kinds, .window = WINDOW, .layout_sensitive = true});
            bool windows = (kinds & (KIND_BIT(KIND_SLIDING) | KIND_BIT(KIND_CHUNKED))) != 0;
            for (uint32_t at = 20; at < PROMPT; at += 20) {
                seq_id a = acquire(engine), b = acquire(engine);
                run_settling(engine, a, tokens, 0, settle, cold);
                for (uint32_t done = 0; done < at; done += 20) {
                    if (settle)
                        assert_ok(engine_seq_settle(engine, b, NULL));
                    run(engine, b, tokens + done, 20);
                }
                save(engine, b, false, saved);
                seq_id c = SEQ_NONE, source = restore(engine, saved);
                assert_ok(engine_seq_fork(engine, source, &c,
                                          NULL)); /* forks have their source's layout */
                engine_seq_release(engine, &source);
                run_settling(engine, c, tokens, at, settle, restored);
                assert_int_equal(same_logits(cold, restored), settle || !windows);
                assert_int_equal(best(cold), best(restored));
                drop(saved);
                engine_seq_release(engine, &a);
                engine_seq_release(engine, &b);
                engine_seq_release(engine, &c);
            }
            engine_close(&engine);
        }
    }
    mem_free(saved);
}

/* What a lie does: it is refused, or it is believed and gives another answer, or one that differs
 * in low bits only. */
enum outcome { UNSEEN, LOW_BITS, SEEN };

static enum outcome tell(struct engine *engine, const struct saved *saved, const float *truth)
{
    seq_id seq = SEQ_NONE;
    token_id next = 'n';
    struct saved lie = *saved;

    lie.restore.rows = lie.rows;
    for (size_t i = 0; i < lie.restore.rows_count; i++)
        lie.rows[i].verified = true;
    lie.snapshot.verified = true;
    lie.restore.snapshot = saved->restore.snapshot ? &lie.snapshot : NULL;
    if (state_import(engine, &lie.restore, &seq, NULL) != ERR_OK)
        return SEEN;
    const float *says = run(engine, seq, &next, 1);
    enum outcome outcome = other_answer(says, truth)  ? SEEN
                           : same_logits(says, truth) ? UNSEEN
                                                      : LOW_BITS;
    engine_seq_release(engine, &seq);
    return outcome;
}

/* One bit in any byte of any object, with the checks of the digest turned off. Headers may be
 * refused; that costs the fake a sequence each time, hence the many. */
static void test_no_flipped_bit_goes_unseen(void **state)
{
    token_id tokens[40], next = 'n';
    float truth[ENGINE_FAKE_VOCAB];
    struct saved *saved = mem_alloc(sizeof(*saved));

    (void)state;
    fill_tokens(4, tokens, COUNT_OF(tokens));
    for (kind_set kinds = 1; kinds < KIND_SETS; kinds++) {
        struct engine *engine = create((struct engine_fake_options){
            .kinds = kinds, .window = WINDOW, .sequences = 256, .context = 400});
        seq_id seq = acquire(engine);
        run(engine, seq, tokens, COUNT_OF(tokens));
        save(engine, seq, false, saved);
        keep_logits(truth, run(engine, seq, &next, 1));
        assert_int_equal(tell(engine, saved, truth), UNSEEN);
        for (size_t i = 0; i <= saved->restore.rows_count; i++) {
            struct state_object *object =
                i < saved->restore.rows_count ? &saved->rows[i] : &saved->snapshot;
            for (uint64_t at = 0; object->data != NULL && at < object->shape.bytes; at++) {
                unsigned char *byte = (unsigned char *)object->data + at;
                *byte ^= 1u << (at % 8);
                assert_int_not_equal(tell(engine, saved, truth), UNSEEN);
                *byte ^= 1u << (at % 8);
            }
        }
        assert_int_equal(tell(engine, saved, truth), UNSEEN);
        drop(saved);
        engine_close(&engine);
    }
    mem_free(saved);
}

/* Objects that are whole and well, but not of this prompt. */
static void test_wrong_blocks_and_snapshots_show(void **state)
{
    token_id tokens[48], other[48], next = 'n';
    float truth[ENGINE_FAKE_VOCAB];
    struct saved *mine = mem_alloc(sizeof(*mine)), *theirs = mem_alloc(sizeof(*theirs));

    (void)state;
    fill_tokens(5, tokens, COUNT_OF(tokens));
    memcpy(other, tokens, sizeof(other));
    other[0] ^=
        1; /* differs in the first token only: all later rows look alike to a careless key */
    for (kind_set kinds = 1; kinds < KIND_SETS; kinds++) {
        struct engine_fake_options options = {.kinds = kinds, .window = WINDOW};
        struct engine *engine = create(options);
        seq_id a = acquire(engine), b = acquire(engine);
        run(engine, a, tokens, COUNT_OF(tokens));
        run(engine, b, other, COUNT_OF(other));
        save(engine, a, false, mine);
        save(engine, b, false, theirs);
        keep_logits(truth, run(engine, a, &next, 1));
        for (size_t i = 0; i < mine->restore.rows_count; i++) {
            struct saved lie = *mine;
            lie.rows[i].data = theirs->rows[i].data; /* another prefix */
            assert_int_equal(tell(engine, &lie, truth), SEEN);
            lie.rows[i].data = mine->rows[(i + 1) % 3].data; /* another place */
            assert_int_equal(tell(engine, &lie, truth), SEEN);
            lie.rows[(i + 1) % 3].data = mine->rows[i].data; /* swapped */
            assert_int_equal(tell(engine, &lie, truth), SEEN);
        }
        if (mine->restore.snapshot != NULL) {
            struct saved lie = *mine;
            lie.snapshot.data = theirs->snapshot.data;
            /* Nothing but chunked layers: the first token is forgotten, and both are the same. */
            assert_int_equal(tell(engine, &lie, truth),
                             kinds != KIND_BIT(KIND_CHUNKED) ? SEEN : UNSEEN);
        }
        drop(mine);
        drop(theirs);
        engine_close(&engine);
    }
    mem_free(mine);
    mem_free(theirs);
}

/* A snapshot that claims another token count than it was taken at, and state of other weights with
 * a forged fingerprint. */
static void test_stale_and_foreign_state_shows(void **state)
{
    token_id tokens[48], next = 'n';
    float truth[ENGINE_FAKE_VOCAB];
    struct saved *early = mem_alloc(sizeof(*early)), *late = mem_alloc(sizeof(*late));

    (void)state;
    fill_tokens(6, tokens, COUNT_OF(tokens));
    for (kind_set kinds = 1; kinds < KIND_SETS; kinds++) {
        struct engine_fake_options options = {.kinds = kinds, .window = WINDOW};
        struct engine *engine = create(options);
        options.salt = 99;
        struct engine *foreign = create(options);
        seq_id a = acquire(engine), b = acquire(foreign);
        run(engine, a, tokens, 47);
        save(engine, a, false, early);
        run(engine, a, tokens + 47, 1);
        save(engine, a, false, late);
        keep_logits(truth, run(engine, a, &next, 1));
        if (late->restore.snapshot != NULL) {
            struct saved lie = *late;
            lie.snapshot.data = early->snapshot.data;
            lie.snapshot.shape.bytes = early->snapshot.shape.bytes;
            assert_int_equal(tell(engine, &lie, truth), SEEN);
        }
        drop(late);
        drop(early);
        run(foreign, b, tokens, 47);
        run(foreign, b, tokens + 47, 1);
        save(foreign, b, false, late);
        for (size_t i = 0; i < late->restore.rows_count; i++)
            late->rows[i].shape.engine = engine_facts(engine)->fingerprint;
        late->snapshot.shape.engine = engine_facts(engine)->fingerprint;
        assert_int_equal(tell(engine, late, truth), SEEN);
        drop(late);
        engine_close(&engine);
        engine_close(&foreign);
    }
    mem_free(early);
    mem_free(late);
}

/* ---- sequences ---- */

static void test_forks_share_cells_and_part_ways(void **state)
{
    token_id tokens[PROMPT];
    float left[ENGINE_FAKE_VOCAB], right[ENGINE_FAKE_VOCAB], cold[ENGINE_FAKE_VOCAB];

    (void)state;
    fill_tokens(7, tokens, PROMPT);
    for (kind_set kinds = 1; kinds < KIND_SETS; kinds++) {
        for (int streams = 0; streams < 2; streams++) {
            struct engine_fake_options options = {.kinds = kinds,
                                                  .window = WINDOW,
                                                  .context = 400,
                                                  .sequences = 4,
                                                  .streams = streams};
            struct engine *engine = create(options);
            seq_id a = acquire(engine), b = SEQ_NONE;
            run(engine, a, tokens, 50);
            assert_ok(engine_seq_fork(engine, a, &b, NULL));
            if (kinds & KIND_BIT(KIND_FULL))
                assert_int_equal(engine_fake_stats(engine).cells_used, streams ? 100 : 50);
            keep_logits(left, run(engine, a, tokens + 50, 5));
            keep_logits(right, run(engine, b, tokens + 60, 5));
            assert_false(same_logits(left, right));
            engine_seq_release(engine, &a);
            keep_logits(right, run(engine, b, tokens + 65, 10));
            memmove(tokens + 50, tokens + 60, 15 * sizeof(*tokens));
            cold_logits(options, tokens, 65, cold);
            assert_true(same_logits(right, cold));
            fill_tokens(7, tokens, PROMPT);
            engine_close(&engine);
        }
    }
}

/* What the headers say, as a formula: where may a sequence of one run be cut? A window keeps
 * `surplus` rows more than it looks at. */
static bool may_cut(kind_set kinds, uint32_t rollback, uint32_t surplus, uint32_t length,
                    uint32_t at)
{
    uint32_t kept = WINDOW + surplus, oldest = length > kept ? length - kept : 0;
    bool sliding = at < WINDOW ? oldest == 0 : at - WINDOW >= oldest;
    bool chunked = at - at % WINDOW >= oldest;

    if (at == 0 || at == length || kind_set_sliceable(kinds) || length - at <= rollback)
        return true;
    return !(kinds & KIND_BIT(KIND_RECURRENT)) && (sliding || !(kinds & KIND_BIT(KIND_SLIDING))) &&
           (chunked || !(kinds & KIND_BIT(KIND_CHUNKED)));
}

static void test_i17_a_refused_truncation_changes_nothing(void **state)
{
    token_id tokens[40], next = 'n';
    float now[ENGINE_FAKE_VOCAB], cold[ENGINE_FAKE_VOCAB];

    (void)state;
    fill_tokens(8, tokens, COUNT_OF(tokens));
    for (kind_set kinds = 1; kinds < KIND_SETS; kinds++) {
        uint32_t rollback = kinds % 3 * 5, surplus = kinds % 4 * 3;
        struct engine_fake_options options = {.kinds = kinds,
                                              .window = WINDOW,
                                              .surplus = surplus,
                                              .context = 100,
                                              .rollback = rollback};
        struct engine *engine = create(options);
        for (uint32_t length = 1; length < COUNT_OF(tokens); length += 3) {
            for (uint32_t at = 0; at <= length; at++) {
                seq_id seq = acquire(engine);
                run(engine, seq, tokens, length);
                bool cut = may_cut(kinds, rollback, surplus, length, at);
                assert_err(engine_seq_truncate(engine, seq, at, NULL),
                           cut ? ERR_OK : ERR_UNSUPPORTED);
                assert_int_equal(engine_seq_length(engine, seq), cut ? at : length);
                check_cells(engine, 100);
                keep_logits(now, run(engine, seq, &next, 1));
                seq_id again = acquire(engine);
                if ((cut ? at : length) > 0)
                    run(engine, again, tokens, cut ? at : length);
                keep_logits(cold, run(engine, again, &next, 1));
                assert_true(same_logits(now, cold));
                engine_seq_release(engine, &seq);
                engine_seq_release(engine, &again);
            }
        }
        engine_close(&engine);
    }
}

static void test_cells_run_out(void **state)
{
    token_id tokens[40];
    struct errinfo info;

    (void)state;
    fill_tokens(9, tokens, COUNT_OF(tokens));
    for (int streams = 0; streams < 2; streams++) {
        struct engine *engine = create((struct engine_fake_options){
            .context = streams ? 64 : 32, .sequences = 2, .streams = streams});
        seq_id a = acquire(engine), b = acquire(engine), c = SEQ_NONE;
        struct engine_item item = {a, tokens, 33, true};
        assert_err(engine_run(engine, &item, 1, &info), ERR_LIMIT);
        assert_null(engine_logits(engine, 0));
        assert_int_equal(engine_seq_length(engine, a), 0);
        item.count = 32;
        assert_ok(engine_run(engine, &item, 1, &info));
        item = (struct engine_item){b, tokens, 1, true};
        assert_err(engine_run(engine, &item, 1, &info), streams ? ERR_OK : ERR_LIMIT);
        assert_err(engine_seq_acquire(engine, &c, &info), ERR_LIMIT);
        assert_int_equal(c, SEQ_NONE);
        engine_seq_release(engine, &a);
        assert_ok(engine_run(engine, &item, 1, &info));
        engine_close(&engine);
    }
}

static void test_runs_that_cannot_be_are_refused(void **state)
{
    token_id tokens[8] = {1, 2, 3, 4, 5, 6, 7, ENGINE_FAKE_VOCAB};
    struct engine *engine = create((struct engine_fake_options){.chunk = 4, .sequences = 2});
    seq_id seq = acquire(engine);
    const struct engine_item bad[][2] = {
        {{seq, tokens + 7, 1, true}},  {{seq, tokens, 0, true}},
        {{seq, tokens, 7, true}},      {{seq + 1, tokens, 1, true}},
        {{SEQ_NONE, tokens, 1, true}}, {{seq, tokens, 1, true}, {seq, tokens, 1, true}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_err(engine_run(engine, bad[i], i == 5 ? 2 : 1, NULL), ERR_INVALID);
    assert_err(engine_run(engine, bad[0], 0, NULL), ERR_INVALID);
    assert_int_equal(engine_fake_stats(engine).runs, 0);
    assert_int_equal(engine_seq_length(engine, seq), 0);
    engine_close(&engine);
}

/* ---- abort, time, faults ---- */

struct abort_at {
    int piece, seen;
};

static void abort_at_piece(struct engine *engine, void *arg)
{
    struct abort_at *at = arg;

    if (at->seen++ == at->piece)
        engine_abort(engine);
}

/* Two sequences in one batch, ten tokens at a time, aborted before each piece in turn. */
static void test_abort_leaves_whole_pieces(void **state)
{
    token_id tokens[60], next = 'n';
    float now[ENGINE_FAKE_VOCAB], cold[ENGINE_FAKE_VOCAB];

    (void)state;
    fill_tokens(10, tokens, COUNT_OF(tokens));
    for (int piece = 0; piece <= 5; piece++) {
        struct abort_at at = {.piece = piece};
        struct engine *engine = create(
            (struct engine_fake_options){.piece = 10, .on_piece = abort_at_piece, .arg = &at});
        struct engine_item items[] = {{acquire(engine), tokens, 25, true},
                                      {acquire(engine), tokens, 25, true}};
        engine_abort(engine); /* nothing runs: no effect on what comes */
        assert_err(engine_run(engine, items, 2, NULL), piece < 5 ? ERR_CANCELLED : ERR_OK);
        uint32_t done = MIN((uint32_t)piece * 10, 50u), first = MIN(done, 25u);
        assert_int_equal(engine_seq_length(engine, items[0].seq), first);
        assert_int_equal(engine_seq_length(engine, items[1].seq), done - first);
        assert_int_equal(engine_fake_stats(engine).tokens, done);
        if (piece < 5)
            assert_null(engine_logits(engine, 0));
        at.piece = -1;
        /* Both go on as if they had been run to there. */
        for (int i = 0; i < 2; i++) {
            uint32_t length = engine_seq_length(engine, items[i].seq);
            seq_id again = acquire(engine);
            keep_logits(now, run(engine, items[i].seq, &next, 1));
            if (length > 0)
                run(engine, again, tokens, length);
            keep_logits(cold, run(engine, again, &next, 1));
            assert_true(same_logits(now, cold));
        }
        check_cells(engine, 4096);
        engine_close(&engine);
    }
}

/* A state that cannot be cut is not trusted after an abort: the sequence can only be released, and
 * then comes back clean. */
static void test_abort_breaks_what_cannot_be_cut(void **state)
{
    token_id tokens[60];
    struct abort_at at = {.piece = 1};
    struct engine_fake_options options = {.kinds = KIND_BIT(KIND_FULL) | KIND_BIT(KIND_RECURRENT),
                                          .piece = 10,
                                          .on_piece = abort_at_piece,
                                          .arg = &at};
    struct engine *engine = create(options);
    seq_id seq = acquire(engine);
    struct engine_item item = {seq, tokens, 60, true};
    float cold[ENGINE_FAKE_VOCAB];

    (void)state;
    fill_tokens(11, tokens, COUNT_OF(tokens));
    assert_err(engine_run(engine, &item, 1, NULL), ERR_CANCELLED);
    assert_err(engine_run(engine, &item, 1, NULL), ERR_INVALID);
    engine_seq_release(engine, &seq);
    assert_int_equal(engine_fake_stats(engine).cells_used, 0);
    at.piece = -1;
    cold_logits(options, tokens, 60, cold);
    assert_true(same_logits(run(engine, acquire(engine), tokens, 60), cold));
    engine_close(&engine);
}

static void abort_often(void *arg)
{
    for (int i = 0; i < 20000; i++)
        engine_abort(arg);
}

/* Any thread may abort at any time: a run is whole or cancelled, and nothing is lost. */
static void test_abort_from_another_thread(void **state)
{
    token_id tokens[64];
    struct engine *engine = create((struct engine_fake_options){.piece = 1});
    struct thread thread = {0};

    (void)state;
    fill_tokens(15, tokens, COUNT_OF(tokens));
    assert_ok(thread_start(&thread, "aborter", abort_often, engine, NULL));
    for (int i = 0; i < 50; i++) {
        seq_id seq = acquire(engine);
        struct engine_item item = {seq, tokens, COUNT_OF(tokens), false};
        enum err err = engine_run(engine, &item, 1, NULL);
        assert_true(err == ERR_OK || err == ERR_CANCELLED);
        assert_int_equal(err == ERR_OK, engine_seq_length(engine, seq) == COUNT_OF(tokens));
        check_cells(engine, 4096);
        engine_seq_release(engine, &seq);
    }
    thread_join(&thread);
    engine_close(&engine);
}

static void test_time_passes_as_told(void **state)
{
    token_id tokens[20];
    struct clock *clock = clock_create_fake(1000, 0);
    struct engine *engine =
        create((struct engine_fake_options){.clock = clock, .prefill_ns = 10, .decode_ns = 700});
    seq_id a = acquire(engine), b = acquire(engine), c = acquire(engine);
    struct engine_item items[] = {{a, tokens, 1, true}, {b, tokens, 1, true}, {c, tokens, 5, true}};

    (void)state;
    fill_tokens(12, tokens, COUNT_OF(tokens));
    run(engine, a, tokens, 20);
    assert_int_equal(clock_mono_ns(clock), 1000 + 200);
    run(engine, a, tokens, 1);
    assert_int_equal(clock_mono_ns(clock), 1000 + 200 + 700);
    assert_ok(engine_run(engine, items, 3, NULL));
    assert_int_equal(clock_mono_ns(clock), 1000 + 200 + 700 + 700 + 50);
    engine_close(&engine);
    clock_destroy_fake(&clock);
}

static void test_every_failed_run_breaks_only_its_sequences(void **state)
{
    token_id tokens[30], next = 'n';
    float now[ENGINE_FAKE_VOCAB], cold[ENGINE_FAKE_VOCAB];
    struct fault fault = {0};
    int failures = 0;

    (void)state;
    fill_tokens(13, tokens, COUNT_OF(tokens));
    FAULT_LOOP (&fault) {
        struct engine *engine =
            create((struct engine_fake_options){.piece = 10, .fault_run = &fault, .context = 100});
        seq_id a = acquire(engine), b = acquire(engine);
        struct engine_item item = {a, tokens, 30, true}, other = {b, tokens, 1, true};
        if (engine_run(engine, &item, 1, NULL) == ERR_OK) {
            engine_close(&engine);
            continue;
        }
        failures++;
        assert_null(engine_logits(engine, 0));
        assert_err(engine_run(engine, &item, 1, NULL), ERR_INVALID);
        assert_ok(engine_run(engine, &other, 1, NULL));
        engine_seq_release(engine, &a);
        engine_seq_release(engine, &b);
        assert_int_equal(engine_fake_stats(engine).cells_used, 0);
        a = acquire(engine);
        keep_logits(now, run(engine, a, &next, 1));
        cold_logits((struct engine_fake_options){.context = 100}, &next, 1, cold);
        assert_true(same_logits(now, cold));
        engine_close(&engine);
    }
    assert_int_equal(failures, 3);
}

static void test_create_survives_every_failed_allocation(void **state)
{
    struct engine_fake_options options = {.kinds = KIND_SETS - 1, .context = 64, .sequences = 3};
    struct fault fault = {0};
    int failures = 0;

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct engine *engine = NULL;
        enum err err = engine_fake_create(&engine, &options, NULL);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
        assert_int_equal(err == ERR_OK, engine != NULL);
        failures += err != ERR_OK;
        engine_close(&engine);
    }
    mem_set_fault(NULL);
    assert_int_equal(failures, 3 + 3 * 4);
}

/* ---- everything at once ---- */

enum { SEQUENCES = 6, CONTEXT = 300 };

/* What each sequence should hold. */
struct model {
    bool live[SEQUENCES];
    uint32_t length[SEQUENCES];
    token_id tokens[SEQUENCES][CONTEXT];
};

/* A fresh run of the same tokens says what the sequence must say next. */
static void check_sequence(struct engine *engine, struct engine *reference, struct model *model,
                           seq_id seq, token_id next)
{
    seq_id cold = acquire(reference);
    float expected[ENGINE_FAKE_VOCAB];

    model->tokens[seq][model->length[seq]++] = next;
    keep_logits(expected, run(reference, cold, model->tokens[seq], model->length[seq]));
    assert_true(same_logits(run(engine, seq, &next, 1), expected));
    engine_seq_release(reference, &cold);
}

/* `fresh` holds what `seq` holds. */
static void copy_model(struct model *model, seq_id seq, seq_id fresh)
{
    assert_false(model->live[fresh]);
    model->live[fresh] = true;
    model->length[fresh] = model->length[seq];
    memcpy(model->tokens[fresh], model->tokens[seq], sizeof(model->tokens[seq]));
}

/* One random operation on a live sequence. */
static void step(struct engine *engine, struct model *model, seq_id seq, uint64_t *seed)
{
    static struct saved saved;
    uint32_t length = model->length[seq], n;
    seq_id fresh = SEQ_NONE;

    switch (test_random_below(seed, 8)) {
    case 0:
        if (engine_seq_fork(engine, seq, &fresh, NULL) == ERR_OK)
            copy_model(model, seq, fresh);
        break;
    case 1:
    case 2:
        n = (uint32_t)test_random_below(seed, length + 1);
        if (engine_seq_truncate(engine, seq, n, NULL) == ERR_OK)
            model->length[seq] = n;
        break;
    case 3:
    case 4:
        n = (uint32_t)test_random_below(seed, MIN(40u, engine_cells_free(engine)) + 1);
        if (n > 0 && length + n < CONTEXT) {
            fill_tokens(test_random(seed), model->tokens[seq] + length, n);
            run(engine, seq, model->tokens[seq] + length, n);
            model->length[seq] += n;
        }
        break;
    case 5:
    case 6:
        if (length > 0) {
            save(engine, seq, test_random_below(seed, 2), &saved);
            if (state_import(engine, &saved.restore, &fresh, NULL) == ERR_OK)
                copy_model(model, seq, fresh);
            drop(&saved);
        }
        break;
    case 7:
        model->live[seq] = false;
        engine_seq_release(engine, &seq);
        break;
    }
}

static void run_random(uint64_t *seed, kind_set kinds, int steps)
{
    struct engine_fake_options options = {
        .kinds = kinds, .window = WINDOW, .context = CONTEXT, .sequences = SEQUENCES};
    struct engine *engine = create(options), *reference = create(options);
    struct model *model = mem_alloc(sizeof(*model));

    for (int i = 0; i < steps; i++) {
        seq_id seq = (seq_id)test_random_below(seed, SEQUENCES);
        if (model->live[seq]) {
            step(engine, model, seq, seed);
        } else if (engine_seq_acquire(engine, &seq, NULL) == ERR_OK) {
            assert_false(model->live[seq]);
            model->live[seq] = true;
            model->length[seq] = 0;
        }
        seq = (seq_id)test_random_below(seed, SEQUENCES);
        if (model->live[seq]) {
            assert_int_equal(engine_seq_length(engine, seq), model->length[seq]);
            if (engine_cells_free(engine) > 0 && model->length[seq] + 1 < CONTEXT)
                check_sequence(engine, reference, model, seq, (token_id)(i % 256));
        }
        check_cells(engine, CONTEXT);
    }
    engine_close(&engine);
    engine_close(&reference);
    mem_free(model);
}

/* Random operations; each sequence always says what a cold run of its tokens says. */
static void test_equals_cold_runs_whatever_happens(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (kind_set kinds = 1; kinds < KIND_SETS; kinds++)
        run_random(&seed, kinds, 150);
}

TEST_SUITE(TEST(test_facts_say_what_was_asked_for), TEST(test_impossible_options_are_refused),
           TEST(test_i97_whatever_shapes_state_is_in_the_fingerprint),
           TEST(test_i105_control_tokens_only_where_trusted), TEST(test_bytes_of_tokens),
           TEST(test_logits_know_every_token), TEST(test_greedy_text_is_readable_and_ends),
           TEST(test_i24_chunk_shapes_move_low_bits_only), TEST(test_batches_show_only_when_asked),
           TEST(test_rows_know_the_size_of_their_chunk), TEST(test_logits_know_the_position),
           TEST(test_several_outputs_equal_single_steps), TEST(test_i110_restored_equals_cold),
           TEST(test_layout_shows_unless_settled), TEST(test_no_flipped_bit_goes_unseen),
           TEST(test_wrong_blocks_and_snapshots_show), TEST(test_stale_and_foreign_state_shows),
           TEST(test_forks_share_cells_and_part_ways),
           TEST(test_i17_a_refused_truncation_changes_nothing), TEST(test_cells_run_out),
           TEST(test_runs_that_cannot_be_are_refused), TEST(test_abort_leaves_whole_pieces),
           TEST(test_abort_breaks_what_cannot_be_cut), TEST(test_abort_from_another_thread),
           TEST(test_time_passes_as_told), TEST(test_every_failed_run_breaks_only_its_sequences),
           TEST(test_create_survives_every_failed_allocation),
           TEST(test_equals_cold_runs_whatever_happens))

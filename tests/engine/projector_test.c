/*
 * projector.c with made models: what a picture becomes, that its tokens identify it, and that the
 * model's answer depends on it, also after its state was exported and imported.
 */
#include "engine/projector.h"

#include <string.h>

#include "base/mem.h"
#include "engine/engine_ops.h"
#include "engine/state.h"
#include "support/models.h"
#include "support/pictures.h"
#include "support/test.h"

enum { SIDE = 120, TEXT = 5, CHUNK = 128, MROPE = 2 /* pairs from here on */ };

static const struct pair {
    const char *model, *projector;
} pairs[] =
    {
        {"llama", "mmproj-mlp"},
        {"gemma3", "mmproj-gemma3"}, /* not causal, and layers with a window */
        {"qwen2vl", "mmproj-qwen2vl"},
        {"qwen2vl", "mmproj-qwen25vl"},
        {"qwen3vl", "mmproj-qwen3vl"},
};

static struct engine *load(const struct pair *pair)
{
    char *projector = mem_strdup(test_model(pair->projector));
    struct engine *engine = test_engine(
        pair->model,
        &(struct engine_options){
            .context = 1024, .sequences = 4, .chunk = CHUNK, .threads = 1, .projector = projector});

    mem_free(projector);
    assert_true(engine_facts(engine)->images);
    return engine;
}

static struct picture *read_file(const struct engine *engine, struct str file)
{
    struct picture *picture = NULL;
    struct errinfo info = {0};

    if (picture_create(engine, file, &picture, &info) != ERR_OK)
        fail_msg("%s", info.text);
    mem_free((void *)(uintptr_t)file.ptr);
    return picture;
}

static bool same_tokens(const struct picture *a, const struct picture *b)
{
    return a->count == b->count && memcmp(a->tokens, b->tokens, a->count * sizeof(*a->tokens)) == 0;
}

/* ---- identity ---- */

static void test_identity(void **state)
{
    struct engine *engine = load(&pairs[0]);
    struct picture *png = read_file(engine, test_png(SIDE, SIDE, 1));
    struct picture *bmp = read_file(engine, test_bmp(SIDE, SIDE, 1));
    struct picture *other = read_file(engine, test_png(SIDE, SIDE, 2));
    struct picture *wider = read_file(engine, test_png(SIDE + 1, SIDE, 1));

    (void)state;
    assert_int_equal(png->pieces_count, 1);
    assert_false(png->weak);
    const struct picture_piece *piece = &png->pieces[0];
    assert_int_equal(piece->count, 16);
    for (uint32_t i = 0; i < piece->count; i++) {
        token_id token = png->tokens[piece->at + i];
        assert_true(token_is_picture(token));
        assert_int_equal((token & PICTURE_FIRST) != 0, i == 0);
        assert_false(engine_token_valid(engine, token));
        assert_int_not_equal(token, other->tokens[piece->at + i]);
        assert_int_not_equal(token, wider->tokens[piece->at + i]);
    }
    assert_true(same_tokens(png, bmp)); /* the pixels count, not the file */
    picture_destroy(&png);
    picture_destroy(&bmp);
    picture_destroy(&other);
    picture_destroy(&wider);
    engine_close(&engine);
}

static void test_refusals(void **state)
{
    struct engine *engine = load(&pairs[0]);
    struct picture *picture = NULL;
    struct errinfo info = {0};
    struct str png = test_png(SIDE, SIDE, 1), bomb = test_png_bomb(10000);

    (void)state;
    assert_err(picture_create(engine, STR("not a picture"), &picture, &info), ERR_UNSUPPORTED);
    assert_err(picture_create(engine, bomb, &picture, &info), ERR_LIMIT);
    assert_err(picture_create(engine, (struct str){png.ptr, png.len / 2}, &picture, &info),
               ERR_INVALID);
    assert_null(picture);
    engine_close(&engine);
    engine = test_engine("llama", NULL);
    assert_err(picture_create(engine, png, &picture, &info), ERR_UNSUPPORTED);
    assert_non_null(strstr(info.text, "--mmproj"));
    engine_close(&engine);
    struct engine_options options = {
        .path = mem_strdup(test_model("llama")), .context = 256, .threads = 1};
    options.projector = options.path; /* a model, but no projector */
    assert_err(engine_load(&engine, &options, &info), ERR_ENGINE);
    assert_non_null(strstr(info.text, "cannot be used with this model"));
    mem_free((void *)(uintptr_t)options.path);
    mem_free((void *)(uintptr_t)png.ptr);
    mem_free((void *)(uintptr_t)bomb.ptr);
}

/* ---- running ---- */

static void run_text(struct engine *engine, seq_id seq, const token_id *tokens, uint32_t count)
{
    struct engine_item item = {seq, tokens, count, true};
    struct errinfo info = {0};

    if (engine_run(engine, &item, 1, &info) != ERR_OK)
        fail_msg("%s", info.text);
}

/* Runs the tokens of a picture: pieces and the text around them. */
static void run_picture(struct engine *engine, seq_id seq, const struct picture *picture)
{
    struct errinfo info = {0};
    size_t at = 0, next = 0;

    while (at < picture->count) {
        const struct picture_piece *piece =
            next < picture->pieces_count ? &picture->pieces[next] : NULL;
        size_t end = piece != NULL ? piece->at : picture->count;
        if (at < end)
            run_text(engine, seq, picture->tokens + at, (uint32_t)(end - at));
        at = end;
        if (piece == NULL)
            break;
        if (engine_run_picture(engine, seq, piece, &info) != ERR_OK)
            fail_msg("%s", info.text);
        at += piece->count;
        next++;
    }
}

static const token_id before[TEXT] = {300, 301, 302, 303, 304};
static const token_id after[TEXT] = {310, 311, 312, 313, 314};

static float *logits_after(struct engine *engine, seq_id seq)
{
    run_text(engine, seq, after, TEXT);
    size_t bytes = engine_facts(engine)->vocab * sizeof(float);
    float *copy = mem_alloc(bytes);
    memcpy(copy, engine_logits(engine, 0), bytes);
    return copy;
}

/* A cold run of text, a picture and text. */
static float *cold(struct engine *engine, const struct picture *picture)
{
    seq_id seq;

    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    run_text(engine, seq, before, TEXT);
    run_picture(engine, seq, picture);
    assert_int_equal(engine_seq_length(engine, seq), TEXT + picture->count);
    float *logits = logits_after(engine, seq);
    /* the library's own count: the picture takes as many positions as it says */
    uint32_t more = picture->pieces[0].count - picture->pieces[0].positions;
    assert_int_equal(engine->ops->seq_length(engine, seq), 2 * TEXT + picture->count - more);
    engine_seq_release(engine, &seq);
    return logits;
}

struct saved {
    struct state_object rows[4], snapshot;
    token_id *tokens;
    bool needs; /* a snapshot */
};

static void export_rows(struct engine *engine, seq_id seq, uint32_t begin, uint32_t end,
                        struct state_object *rows)
{
    uint64_t capacity = state_range_capacity(engine, seq, begin, end);
    void *memory = mem_alloc(capacity);
    struct errinfo info = {0};

    if (state_export_rows(engine, seq, begin, end, memory, capacity, &rows->shape, &info) != ERR_OK)
        fail_msg("rows %u..%u: %s", begin, end, info.text);
    rows->data = memory;
}

/* State after the picture, or `more` tokens after it, as rows in four parts, with cuts before,
 * inside (twice) and after the picture, and a snapshot. */
static void save(struct engine *engine, const struct picture *picture, uint32_t more,
                 struct saved *saved)
{
    uint32_t length = TEXT + (uint32_t)picture->count, end = length + more;
    const uint32_t at = TEXT + picture->pieces[0].at, last = at + picture->pieces[0].count;
    const uint32_t cuts[] = {0, TEXT - 1, at + 4, last - 3, end};
    seq_id seq;

    saved->needs = kind_set_needs_snapshot(engine_facts(engine)->kinds);
    saved->tokens = mem_alloc_array(end, sizeof(*saved->tokens));
    memcpy(saved->tokens, before, sizeof(before));
    memcpy(saved->tokens + TEXT, picture->tokens, picture->count * sizeof(*picture->tokens));
    memcpy(saved->tokens + length, after, more * sizeof(*after));
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    run_text(engine, seq, before, TEXT);
    run_picture(engine, seq, picture);
    if (saved->needs) {
        uint64_t bytes = state_snapshot_bytes(engine, seq);
        void *memory = mem_alloc(bytes);
        assert_ok(state_export_snapshot(engine, seq, memory, bytes, &saved->snapshot.shape, NULL));
        saved->snapshot.data = memory;
    }
    if (more > 0)
        run_text(engine, seq, after, more);
    for (size_t i = 0; i < COUNT_OF(saved->rows); i++)
        export_rows(engine, seq, cuts[i], cuts[i + 1], &saved->rows[i]);
    engine_seq_release(engine, &seq);
}

static void forget(struct saved *saved)
{
    for (size_t i = 0; i < COUNT_OF(saved->rows); i++)
        mem_free((void *)(uintptr_t)saved->rows[i].data);
    mem_free((void *)(uintptr_t)saved->snapshot.data);
    mem_free(saved->tokens);
}

/* Logits of the text after the picture. With `more`, the rows of that text are there as well and
 * are cut off. */
static float *restored(struct engine *engine, const struct picture *picture, uint32_t more)
{
    uint32_t length = TEXT + (uint32_t)picture->count;
    struct saved saved = {0};
    struct errinfo info = {0};
    seq_id seq, fork;

    save(engine, picture, more, &saved);
    struct state_restore restore = {saved.rows, COUNT_OF(saved.rows),
                                    saved.needs ? &saved.snapshot : NULL, length, saved.tokens};
    if (state_import(engine, &restore, &seq, &info) != ERR_OK)
        fail_msg("%s", info.text);
    assert_int_equal(engine_seq_length(engine, seq), length);
    assert_ok(engine_seq_fork(engine, seq, &fork, NULL));
    float *logits = logits_after(engine, fork);
    engine_seq_release(engine, &seq);
    engine_seq_release(engine, &fork);
    forget(&saved);
    return logits;
}

static bool equal(const struct engine *engine, const float *a, const float *b)
{
    return memcmp(a, b, engine_facts(engine)->vocab * sizeof(*a)) == 0;
}

static void check_pair(const struct pair *pair)
{
    struct engine *engine = load(pair);
    struct picture *one = read_file(engine, test_png(SIDE, SIDE, 1));
    struct picture *two = read_file(engine, test_png(SIDE, SIDE, 2));
    float *first = cold(engine, one), *again = cold(engine, one), *other = cold(engine, two);
    float *back = restored(engine, one, 0), *cut = restored(engine, one, 3);

    const struct picture_piece *piece = &one->pieces[0];

    assert_int_equal(engine_facts(engine)->mrope, pair >= &pairs[MROPE]);
    assert_int_equal(piece->positions < piece->count, pair >= &pairs[MROPE]);
    assert_int_equal(picture_positions(one->tokens[piece->at], piece->count), piece->positions);
    assert_true(equal(engine, first, again));
    assert_false(equal(engine, first, other));
    assert_true(equal(engine, first, back));
    assert_true(equal(engine, first, cut));
    mem_free(first);
    mem_free(again);
    mem_free(other);
    mem_free(back);
    mem_free(cut);
    picture_destroy(&one);
    picture_destroy(&two);
    engine_close(&engine);
}

static void test_causal(void **state)
{
    (void)state;
    check_pair(&pairs[0]);
}

static void test_not_causal(void **state)
{
    (void)state;
    check_pair(&pairs[1]);
}

static void test_mrope(void **state)
{
    (void)state;
    for (size_t i = MROPE; i < COUNT_OF(pairs); i++)
        check_pair(&pairs[i]);
}

/* Without the prompt, or with another picture in it, rows are not taken for others. */
static void test_mrope_refusals(void **state)
{
    struct engine *engine = load(&pairs[MROPE]);
    struct picture *picture = read_file(engine, test_png(SIDE, SIDE, 1));
    uint32_t length = TEXT + (uint32_t)picture->count, at = TEXT + picture->pieces[0].at + 6;
    struct saved saved = {0};
    struct state_restore restore = {saved.rows, COUNT_OF(saved.rows), NULL, length, NULL};
    seq_id seq;

    (void)state;
    save(engine, picture, 0, &saved);
    assert_err(state_import(engine, &restore, &seq, NULL), ERR_INVALID);
    restore.tokens = saved.tokens;
    saved.tokens[at] |= PICTURE_FIRST; /* two pictures instead of one */
    assert_err(state_import(engine, &restore, &seq, NULL), ERR_INVALID);
    saved.tokens[at] &= ~PICTURE_FIRST;
    assert_ok(state_import(engine, &restore, &seq, NULL));
    assert_err(engine_seq_truncate(engine, seq, at, NULL), ERR_UNSUPPORTED);
    assert_ok(engine_seq_truncate(engine, seq, TEXT, NULL));
    run_picture(engine, seq, picture); /* where the other one was */
    engine_seq_release(engine, &seq);
    forget(&saved);
    picture_destroy(&picture);
    engine_close(&engine);
}

/* No room: nothing has changed. */
static void test_no_room(void **state)
{
    struct engine *engine = load(&pairs[0]);
    struct picture *picture = read_file(engine, test_png(SIDE, SIDE, 1));
    static const token_id text[CHUNK];
    struct errinfo info = {0};
    seq_id seq;

    (void)state;
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    while (engine_cells_free(engine) > CHUNK)
        run_text(engine, seq, text, CHUNK);
    run_text(engine, seq, text, engine_cells_free(engine) - 15);
    uint32_t length = engine_seq_length(engine, seq);
    assert_err(engine_run_picture(engine, seq, &picture->pieces[0], &info), ERR_LIMIT);
    assert_int_equal(engine_seq_length(engine, seq), length);
    run_text(engine, seq, text, 1);
    engine_seq_release(engine, &seq);
    picture_destroy(&picture);
    engine_close(&engine);
}

static int setup(void **state)
{
    (void)state;
    if (!projector_available())
        TEST_SKIP("this build of llama.cpp has no libmtmd");
    return 0;
}

TEST_SUITE(cmocka_unit_test_setup(test_identity, setup),
           cmocka_unit_test_setup(test_refusals, setup), cmocka_unit_test_setup(test_causal, setup),
           cmocka_unit_test_setup(test_not_causal, setup),
           cmocka_unit_test_setup(test_mrope, setup),
           cmocka_unit_test_setup(test_mrope_refusals, setup),
           cmocka_unit_test_setup(test_no_room, setup))

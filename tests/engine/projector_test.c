/*
 * projector.c with made models: what a picture becomes, that its tokens identify it, and that the
 * model's answer depends on it, also after its state was exported and imported.
 */
#include "engine/projector.h"

#include <string.h>

#include "base/mem.h"
#include "engine/state.h"
#include "support/models.h"
#include "support/pictures.h"
#include "support/test.h"

enum { SIDE = 120, TEXT = 5, CHUNK = 128 };

static const struct pair {
    const char *model, *projector;
} pairs[] = {
    {"llama", "mmproj-mlp"}, {"gemma3", "mmproj-gemma3"}, /* not causal, and layers with a window */
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
    engine_seq_release(engine, &seq);
    return logits;
}

/* State after the picture, as rows in two parts, cut inside the picture, and a snapshot. */
static float *restored(struct engine *engine, const struct picture *picture)
{
    uint32_t length = TEXT + (uint32_t)picture->count, cut = length - 3;
    struct state_object rows[2] = {0}, snapshot = {0};
    bool needs = kind_set_needs_snapshot(engine_facts(engine)->kinds);
    void *memory[3] = {mem_alloc(state_rows_capacity(engine, cut)),
                       mem_alloc(state_rows_capacity(engine, length - cut)), NULL};
    seq_id seq;

    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    run_text(engine, seq, before, TEXT);
    run_picture(engine, seq, picture);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t begin = i == 0 ? 0 : cut, end = i == 0 ? cut : length;
        assert_ok(state_export_rows(engine, seq, begin, end, memory[i],
                                    state_rows_capacity(engine, end - begin), &rows[i].shape,
                                    NULL));
        rows[i].data = memory[i];
    }
    if (needs) {
        uint64_t bytes = state_snapshot_bytes(engine, seq);
        memory[2] = mem_alloc(bytes);
        assert_ok(state_export_snapshot(engine, seq, memory[2], bytes, &snapshot.shape, NULL));
        snapshot.data = memory[2];
    }
    engine_seq_release(engine, &seq);
    struct state_restore restore = {rows, 2, needs ? &snapshot : NULL, length};
    assert_ok(state_import(engine, &restore, &seq, NULL));
    float *logits = logits_after(engine, seq);
    engine_seq_release(engine, &seq);
    for (size_t i = 0; i < COUNT_OF(memory); i++)
        mem_free(memory[i]);
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
    float *back = restored(engine, one);

    assert_true(equal(engine, first, again));
    assert_false(equal(engine, first, other));
    assert_true(equal(engine, first, back));
    mem_free(first);
    mem_free(again);
    mem_free(other);
    mem_free(back);
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
           cmocka_unit_test_setup(test_no_room, setup))

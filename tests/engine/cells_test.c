/*
 * The model of the library's cells: its rules on small examples, and against the library, whose
 * debug log tells its head and the number of used cells before each placement.
 */
#include "engine/cells.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llama.h>

#include "base/mem.h"
#include "engine/engine_llama.h"
#include "engine/state.h"
#include "support/models.h"
#include "support/test.h"

static void place(struct cells *cells, int32_t seq, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++)
        cells_place(cells, seq, i);
}

static void test_an_empty_cache_takes_everything_at_once(void **state)
{
    struct cells cells = {0};

    (void)state;
    assert_int_equal(cells_piece(&cells, 1000), 1000); /* off: all at once */
    cells_init(&cells, 100);
    assert_int_equal(cells_piece(&cells, 100), 100);
    place(&cells, 0, 0, 40);
    assert_int_equal(cells_piece(&cells, 60), 60);
    assert_int_equal(cells.head, 40);
    cells_fini(&cells);
}

static void test_pieces_end_at_gaps(void **state)
{
    struct cells cells = {0};

    (void)state;
    cells_init(&cells, 100);
    place(&cells, 0, 0, 10);
    place(&cells, 1, 0, 10);
    place(&cells, 2, 0, 10);
    cells_cut(&cells, 1, 0); /* 10 free cells, then 10 used, then 70 free */
    assert_int_equal(cells.head, 10);
    assert_int_equal(cells_piece(&cells, 30), 10);
    place(&cells, 3, 0, 10);
    assert_int_equal(cells_piece(&cells, 20), 20);
    cells_fini(&cells);
}

static void test_short_runs_are_imported_together(void **state)
{
    struct cells cells = {0};

    (void)state;
    cells_init(&cells, 100);
    for (uint32_t i = 0; i < 20; i++) /* two sequences, cell by cell */
        place(&cells, (int32_t)(i % 2), i / 2, i / 2 + 1);
    cells_cut(&cells, 0, 0);
    assert_int_equal(cells_piece(&cells, 30), 10); /* ten single cells, then a long run */
    assert_int_equal(cells_piece(&cells, 6), 6);
    cells_fini(&cells);
}

static void test_forks_keep_cells(void **state)
{
    struct cells cells = {0};

    (void)state;
    cells_init(&cells, 100);
    place(&cells, 0, 0, 20);
    cells_copy(&cells, 0, 1);
    cells_cut(&cells, 0, 0);
    assert_int_equal(cells.used, 20);
    cells_cut(&cells, 1, 15);
    assert_int_equal(cells.used, 15);
    assert_int_equal(cells.head, 15);
    cells_lose(&cells);
    assert_int_equal(cells_piece(&cells, 500), 500);
    cells_reset(&cells);
    assert_int_equal(cells.used, 0);
    cells_fini(&cells);
}

/* ---- against the library ---- */

enum { CONTEXT = 512, SEQUENCES = 6, CHUNK = 64, STEPS = 150 };

struct watch {
    const struct cells *cells;
    unsigned seen, differed;
};

static void on_library_log(enum ggml_log_level level, const char *text, void *arg)
{
    struct watch *watch = arg;
    const char *used = strstr(text, " used = "), *head = strstr(text, " head = ");

    (void)level;
    if (used == NULL || head == NULL || strstr(text, "find_slot") == NULL)
        return;
    watch->seen++;
    watch->differed += strtoul(used + 8, NULL, 10) != watch->cells->used ||
                       strtoul(head + 8, NULL, 10) != watch->cells->head;
}

struct play {
    struct engine *engine;
    uint64_t random;
    seq_id seqs[SEQUENCES];
};

static void run_some(struct play *play, seq_id seq)
{
    token_id tokens[CHUNK];
    uint32_t count = 1 + (uint32_t)test_random_below(
                             &play->random, test_random_below(&play->random, 2) ? 3 : CHUNK - 1);
    struct engine_item item = {seq, tokens, count, 0};

    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (token_id)(10 + test_random_below(&play->random, 100));
    if (engine_cells_free(play->engine) >= count)
        assert_ok(engine_run(play->engine, &item, 1, NULL));
}

/* Part of a sequence goes out and comes back in as another one; it must have the same bytes. */
static void move(struct play *play, seq_id from, seq_id *to)
{
    struct engine *engine = play->engine;
    uint32_t length = engine_seq_length(engine, from);
    uint32_t end = length > 0 ? 1 + (uint32_t)test_random_below(&play->random, length) : 0;

    if (end == 0 || engine_cells_free(engine) < end)
        return;
    uint64_t capacity = state_rows_capacity(engine, end);
    void *data = mem_alloc(capacity), *again = mem_alloc(capacity);
    struct state_object object = {.data = data};
    struct state_restore restore = {.rows = &object, .rows_count = 1, .length = end};
    struct state_shape shape;
    assert_ok(state_export_rows(engine, from, 0, end, data, capacity, &object.shape, NULL));
    assert_ok(state_import(engine, &restore, to, NULL));
    assert_ok(state_export_rows(engine, *to, 0, end, again, capacity, &shape, NULL));
    assert_int_equal(shape.bytes, object.shape.bytes);
    mem_free(again);
    mem_free(data);
}

static void step(struct play *play)
{
    size_t a = test_random_below(&play->random, SEQUENCES),
           b = test_random_below(&play->random, SEQUENCES);
    uint64_t what = test_random_below(&play->random, 10);

    if (play->seqs[a] == SEQ_NONE) {
        assert_ok(engine_seq_acquire(play->engine, &play->seqs[a], NULL));
        run_some(play, play->seqs[a]);
    } else if (what < 5) {
        run_some(play, play->seqs[a]);
    } else if (what == 5 && engine_seq_length(play->engine, play->seqs[a]) > 1) {
        assert_ok(
            engine_seq_truncate(play->engine, play->seqs[a],
                                (uint32_t)test_random_below(
                                    &play->random, engine_seq_length(play->engine, play->seqs[a])),
                                NULL));
    } else if (what == 6 && play->seqs[b] == SEQ_NONE) {
        assert_ok(engine_seq_fork(play->engine, play->seqs[a], &play->seqs[b], NULL));
    } else if (what < 9 && play->seqs[b] == SEQ_NONE) {
        move(play, play->seqs[a], &play->seqs[b]);
    } else {
        engine_seq_release(play->engine, &play->seqs[a]);
    }
}

static void test_the_library_places_tokens_like_the_model(void **state)
{
    struct engine_options options = {.path = test_model("qwen3"),
                                     .context = CONTEXT,
                                     .sequences = SEQUENCES,
                                     .chunk = CHUNK,
                                     .threads = 1};
    struct play play = {.random = 42};
    struct watch watch = {0};
    struct errinfo info = {0};

    (void)state;
    setenv("LLAMA_KV_CACHE_DEBUG", "1", 1);
    assert_ok(engine_load(&play.engine, &options, &info));
    struct engine_llama *llama = engine_llama_of(play.engine);
    assert_true(llama->pieces);
    watch.cells = &llama->cells;
    llama_log_set(on_library_log, &watch);
    for (size_t i = 0; i < SEQUENCES; i++)
        play.seqs[i] = SEQ_NONE;
    for (int i = 0; i < STEPS; i++)
        step(&play);
    assert_false(llama->cells.lost);
    assert_int_equal(watch.differed, 0);
    assert_true(watch.seen > STEPS / 2);
    assert_true(llama->pieces_count > 0);
    for (size_t i = 0; i < SEQUENCES; i++)
        engine_seq_release(play.engine, &play.seqs[i]);
    assert_int_equal(llama->cells.used, 0);
    engine_close(&play.engine);
    unsetenv("LLAMA_KV_CACHE_DEBUG");
}

TEST_SUITE(TEST(test_an_empty_cache_takes_everything_at_once), TEST(test_pieces_end_at_gaps),
           TEST(test_short_runs_are_imported_together), TEST(test_forks_keep_cells),
           TEST(test_the_library_places_tokens_like_the_model))

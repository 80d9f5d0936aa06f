/*
 * Shared segments in an engine's process are pinned ahead, never on the path of a request, and
 * unpinned before they are unmapped. The driver is tests/cuda.c.
 */
#include "engine/worker_pin.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/engine_worker.h"
#include "engine/state.h"
#include "engine/worker_memory.h"
#include "support/fake_cuda.h"
#include "support/fake_worker.h"
#include "support/test.h"

enum { MIB = 1 << 20, A = 64, B = 65, C = 66, TOKENS = 64 };

struct kit {
    struct worker_memory *memory;
    char *a, *b; /* two arenas, made before the engine was loaded */
    struct engine *engine;
    seq_id seq;
};

/* Virtual memory: nothing touches most of it. */
static void *arena(const struct kit *kit, size_t mib)
{
    void *memory = worker_memory_alloc(mib * MIB, kit->memory);

    assert_non_null(memory);
    return memory;
}

static void open_kit(struct kit *kit)
{
    struct engine_fake_options fake = {
        .kinds = KIND_BIT(KIND_FULL), .context = 1024, .sequences = 2, .chunk = 64};

    *kit = (struct kit){.memory = worker_memory_create(), .seq = SEQ_NONE};
    kit->a = arena(kit, A);
    kit->b = arena(kit, B);
    assert_ok(fake_worker_load(&kit->engine, &fake,
                               &(struct engine_worker_options){.memory = kit->memory}, NULL));
}

static void close_kit(struct kit *kit)
{
    engine_seq_release(kit->engine, &kit->seq);
    engine_close(&kit->engine);
    worker_memory_free(kit->a, kit->memory);
    worker_memory_free(kit->b, kit->memory);
    worker_memory_destroy(&kit->memory);
}

static void compute(struct kit *kit)
{
    token_id tokens[TOKENS];
    struct engine_item item = {SEQ_NONE, tokens, TOKENS, 1};

    for (int i = 0; i < TOKENS; i++)
        tokens[i] = i % 7;
    assert_ok(engine_seq_acquire(kit->engine, &kit->seq, NULL));
    item.seq = kit->seq;
    assert_ok(engine_run(kit->engine, &item, 1, NULL));
}

/* Out of the engine and into it again, through this memory. */
static void move_state(struct kit *kit, void *memory, size_t mib)
{
    struct state_object rows = {.data = memory};
    struct state_restore restore = {.rows = &rows, .rows_count = 1, .length = TOKENS};
    seq_id copy;

    assert_ok(
        state_export_rows(kit->engine, kit->seq, 0, TOKENS, memory, mib * MIB, &rows.shape, NULL));
    assert_ok(state_import(kit->engine, &restore, &copy, NULL));
    engine_seq_release(kit->engine, &copy);
}

static void expect_bytes(const struct kit *kit, uint64_t pinned_mib, uint64_t plain_mib)
{
    struct host_memory_stats stats = engine_host_memory(kit->engine);

    for (int i = 0; i < 5000 && stats.pinned + stats.plain != (pinned_mib + plain_mib) * MIB; i++) {
        clock_sleep_ns(clock_real(), NS_PER_MS); /* it counts just after the driver's answer */
        stats = engine_host_memory(kit->engine);
    }
    assert_int_equal(stats.pinned / MIB, pinned_mib);
    assert_int_equal(stats.plain / MIB, plain_mib);
}

/* Those that exist come with the load, later ones when the scheduler measures. Neither needs a
 * call that uses them. */
static void test_segments_are_pinned_ahead(void **state)
{
    struct kit kit;

    (void)state;
    fake_cuda_offer();
    open_kit(&kit);
    fake_cuda_expect("register 64, register 65");
    void *small = arena(&kit, 32); /* as large as a picture may be */
    void *c = arena(&kit, C);
    assert_true(engine_memory(kit.engine) > 0);
    fake_cuda_expect("register 64, register 65, register 66");
    expect_bytes(&kit, A + B + C, 0);
    compute(&kit);
    move_state(&kit, kit.b, B);
    move_state(&kit, c, C);
    move_state(&kit, small, 32);
    worker_memory_free(small, kit.memory);
    worker_memory_free(c, kit.memory);
    close_kit(&kit);
    assert_string_equal(fake_cuda_calls(), "register 64, register 65, register 66");
}

/* A new segment in the middle of a request is used at once, and pinned a second later. */
static void test_requests_do_not_wait(void **state)
{
    struct kit kit;

    (void)state;
    fake_cuda_offer();
    open_kit(&kit);
    fake_cuda_expect("register 64, register 65");
    compute(&kit);
    uint64_t begin_ns = clock_mono_ns(clock_real());
    char *c = arena(&kit, C);
    move_state(&kit, c, C);
    if (clock_mono_ns(clock_real()) - begin_ns < 500 * NS_PER_MS) /* else: a busy machine */
        assert_string_equal(fake_cuda_calls(), "register 64, register 65");
    fake_cuda_expect("register 64, register 65, register 66");
    assert_true(clock_mono_ns(clock_real()) - begin_ns >= 1000 * NS_PER_MS);
    worker_memory_free(c, kit.memory);
    close_kit(&kit);
}

/* The segment that is refused is used as it is, and counted; the others are pinned. */
static void test_a_refused_segment_is_used_as_it_is(void **state)
{
    struct kit kit;

    (void)state;
    fake_cuda_offer();
    setenv("FAKE_CUDA_FAIL", "1", 1);
    open_kit(&kit);
    fake_cuda_expect("refuse 64, register 65");
    expect_bytes(&kit, B, A);
    compute(&kit);
    move_state(&kit, kit.a, A);
    worker_memory_free(kit.a, kit.memory);
    kit.a = NULL;
    assert_true(engine_memory(kit.engine) > 0);
    expect_bytes(&kit, B, 0);
    assert_string_equal(fake_cuda_calls(), "refuse 64, register 65"); /* and no unregister */
    close_kit(&kit);
}

/* The driver itself checks that the memory is still mapped (tests/cuda.c). */
static void test_freed_segments_are_unpinned_first(void **state)
{
    struct kit kit;

    (void)state;
    fake_cuda_offer();
    open_kit(&kit);
    fake_cuda_expect("register 64, register 65");
    worker_memory_free(kit.a, kit.memory);
    kit.a = NULL;
    assert_true(engine_memory(kit.engine) > 0);
    assert_string_equal(fake_cuda_calls(), "register 64, register 65, unregister 64");
    expect_bytes(&kit, B, 0);
    close_kit(&kit);
}

/* Freed while it is being pinned, and while it waits for that. The second one may have its turn
 * before the child learns that it is freed. */
static void test_freed_while_being_pinned(void **state)
{
    static const char *const right[] = {"register 64, unregister 64",
                                        "register 64, unregister 64, register 65, unregister 65",
                                        "register 64, register 65, unregister 64, unregister 65"};
    struct kit kit;
    bool found = false;

    (void)state;
    fake_cuda_offer();
    setenv("FAKE_CUDA_MS", "100", 1);
    open_kit(&kit);
    fake_cuda_expect("register 64");
    worker_memory_free(kit.a, kit.memory);
    worker_memory_free(kit.b, kit.memory);
    kit.a = kit.b = NULL;
    assert_true(engine_memory(kit.engine) > 0);
    expect_bytes(&kit, 0, 0);
    for (size_t i = 0; i < COUNT_OF(right); i++)
        found = found || strcmp(fake_cuda_calls(), right[i]) == 0;
    if (!found)
        fail_msg("calls are: %s", fake_cuda_calls());
    close_kit(&kit);
}

/* The driver forgets a process that ends; the next one begins again. */
static void test_a_new_process_pins_again(void **state)
{
    struct kit kit;

    (void)state;
    fake_cuda_offer();
    open_kit(&kit);
    fake_cuda_expect("register 64, register 65");
    expect_bytes(&kit, A + B, 0);
    kill(engine_worker_pid(kit.engine), SIGKILL);
    while (engine_alive(kit.engine))
        clock_sleep_ns(clock_real(), NS_PER_MS);
    assert_ok(engine_restart(kit.engine, NULL, NULL, NULL));
    fake_cuda_expect("register 64, register 65, register 64, register 65");
    expect_bytes(&kit, A + B, 0);
    compute(&kit);
    move_state(&kit, kit.a, A);
    close_kit(&kit);
}

/* As on a CPU, with Vulkan or HIP: segments come when they are needed. */
static void test_without_a_driver(void **state)
{
    struct kit kit;

    (void)state;
    open_kit(&kit);
    assert_true(engine_memory(kit.engine) > 0);
    expect_bytes(&kit, 0, 0);
    compute(&kit);
    move_state(&kit, kit.a, A);
    close_kit(&kit);
}

/* The driver is loaded, but the model is not on a device of it. */
static void test_no_device_in_use(void **state)
{
    struct kit kit;

    (void)state;
    fake_cuda_offer();
    setenv("FAKE_CUDA_ACTIVE", "-1", 1);
    open_kit(&kit);
    compute(&kit);
    move_state(&kit, kit.a, A);
    assert_true(engine_memory(kit.engine) > 0);
    close_kit(&kit);
    assert_string_equal(fake_cuda_calls(), "");
}

TEST_SUITE(TEST(test_segments_are_pinned_ahead), TEST(test_requests_do_not_wait),
           TEST(test_a_refused_segment_is_used_as_it_is),
           TEST(test_freed_segments_are_unpinned_first), TEST(test_freed_while_being_pinned),
           TEST(test_a_new_process_pins_again), TEST(test_without_a_driver),
           TEST(test_no_device_in_use))

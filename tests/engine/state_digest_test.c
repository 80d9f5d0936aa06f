#include "engine/state_digest.h"

#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "engine/state.h"
#include "support/test.h"

enum { PIECE = 4 << 20, IMAGE = 5 * PIECE + 12345, ROUNDS = 200 };

static unsigned char *make_image(void)
{
    unsigned char *image = mem_alloc(IMAGE);

    for (size_t i = 0; i < IMAGE; i += 977)
        image[i] = (unsigned char)(i / 977);
    return image;
}

static struct state_shape shape_of(uint64_t bytes)
{
    return (struct state_shape){.kind = STATE_ROWS, .begin = 7, .end = 99, .bytes = bytes};
}

static bool same(struct hash128 a, struct hash128 b)
{
    return hash128_eq(&a, &b);
}

/* Any byte and any field counts, wherever the pieces end. */
static void test_everything_counts(void **state)
{
    static const uint64_t places[] = {0, PIECE - 1, PIECE, 3 * PIECE + 17, IMAGE - 1};
    static const uint64_t sizes[] = {1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, IMAGE};
    unsigned char *image = make_image();
    struct state_shape shape = shape_of(IMAGE), other = shape;
    struct hash128 whole = state_digest(&shape, image);

    (void)state;
    assert_true(same(whole, state_digest(&shape, image)));
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        image[places[i]] ^= 1;
        assert_false(same(whole, state_digest(&shape, image)));
        image[places[i]] ^= 1;
    }
    other.end++;
    assert_false(same(whole, state_digest(&other, image)));
    for (size_t i = 0; i + 1 < COUNT_OF(sizes); i++)
        for (size_t k = i + 1; k < COUNT_OF(sizes); k++) {
            struct state_shape a = shape_of(sizes[i]), b = shape_of(sizes[k]);
            assert_false(same(state_digest(&a, image), state_digest(&b, image)));
        }
    mem_free(image);
}

static void count_call(void *arg)
{
    atomic_fetch_add((atomic_uint *)arg, 1);
}

/* Many tasks at once give what one at a time gives; each calls back once, before it is gone. */
static void test_tasks_at_once(void **state)
{
    unsigned char *image = make_image();
    struct state_digest_task *tasks[8];
    struct hash128 truth[8];
    atomic_uint calls = 0;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(tasks); i++) {
        struct state_shape shape = shape_of(IMAGE - i * PIECE / 2);
        truth[i] = state_digest(&shape, image);
    }
    for (size_t i = 0; i < COUNT_OF(tasks); i++) {
        struct state_shape shape = shape_of(IMAGE - i * PIECE / 2);
        tasks[i] = state_digest_start(&shape, image, count_call, &calls);
    }
    while (!state_digest_ready(tasks[3]))
        ;
    for (size_t i = COUNT_OF(tasks); i-- > 0;)
        assert_true(same(state_digest_finish(&tasks[i]), truth[i]));
    assert_int_equal(calls, COUNT_OF(tasks));
    mem_free(image);
}

/* After a cancel no thread touches the bytes any more. */
static void test_cancelled_at_any_time(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        unsigned char *image = mem_alloc(2 * PIECE + 1);
        struct state_shape shape = shape_of(2 * PIECE + 1);
        atomic_uint calls = 0;
        struct state_digest_task *task = state_digest_start(&shape, image, count_call, &calls);
        for (int spin = 0; spin < round * 50; spin++)
            (void)state_digest_ready(task);
        state_digest_cancel(&task);
        mem_free(image);
        assert_true(calls <= 1);
        assert_null(task);
    }
    state_digest_cancel(&(struct state_digest_task *){NULL}); /* a no-op */
}

TEST_SUITE(TEST(test_everything_counts), TEST(test_tasks_at_once), TEST(test_cancelled_at_any_time))

/*
 * shared_queue_test.c: the order of puts to a shared store, and the limits of their queue.
 */
#include "tier/shared_queue.h"

#include "base/mem.h"
#include "support/test.h"

enum { ITEMS_MAX = 4, BYTES_MAX = 1000 };

/* Admits object n of this space, or frees it. How many it displaced: *displaced. */
static enum shared_admission put(struct shared_queue *queue, uint8_t n, uint8_t space,
                                 uint32_t urgency, uint64_t bytes, uint32_t *displaced)
{
    struct tier_meta meta = {.key = {{n}}, .space = {{space}}, .urgency = urgency, .bytes = bytes};
    struct shared_put *new = shared_put_create(&meta, &meta, NULL, NULL);
    struct list_node *link;
    struct list out;

    list_init(&out);
    enum shared_admission admission = shared_queue_admit(queue, new, &out);
    if (admission != SHARED_ADMITTED)
        shared_put_free(new);
    *displaced = (uint32_t)out.count;
    while ((link = list_pop_front(&out)) != NULL)
        shared_put_free(CONTAINER_OF(link, struct shared_put, link));
    return admission;
}

static void must_put(struct shared_queue *queue, uint8_t n, uint8_t space, uint32_t urgency,
                     uint64_t bytes, uint32_t displaced)
{
    uint32_t left;

    assert_int_equal(put(queue, n, space, urgency, bytes, &left), SHARED_ADMITTED);
    assert_int_equal(left, displaced);
}

/* The keys in the order of taking. */
static void check_order(struct shared_queue *queue, const char *keys)
{
    for (; *keys != '\0'; keys++) {
        struct shared_put *first = shared_queue_take(queue);
        assert_non_null(first);
        assert_int_equal(first->meta.key.bytes[0], *keys);
        shared_queue_release(queue, first);
        shared_put_free(first);
    }
    assert_null(shared_queue_take(queue));
    assert_int_equal(queue->bytes, 0);
}

static void test_urgent_ones_first(void **state)
{
    struct shared_queue queue;

    (void)state;
    shared_queue_init(&queue, ITEMS_MAX, BYTES_MAX);
    must_put(&queue, 'r', 1, 2, 10, 0); /* the rest */
    must_put(&queue, 't', 1, 1, 10, 0); /* an ended turn */
    must_put(&queue, 's', 1, 0, 10, 0); /* a system prompt */
    must_put(&queue, 'u', 1, 1, 10, 0); /* as urgent as t, and later */
    check_order(&queue, "stur");
}

static void test_full_queue_keeps_urgent_ones(void **state)
{
    struct shared_queue queue;
    uint32_t left;

    (void)state;
    shared_queue_init(&queue, ITEMS_MAX, BYTES_MAX);
    for (uint8_t i = 0; i < ITEMS_MAX; i++)
        must_put(&queue, (uint8_t)('a' + i), 1, 2, 10, 0);
    assert_int_equal(put(&queue, 'x', 1, 2, 10, &left), SHARED_QUEUE_FULL);
    assert_int_equal(left, 0);
    must_put(&queue, 's', 1, 0, 10, 1); /* the newest of the least urgent leaves */
    check_order(&queue, "sabc");
}

/* Bytes of a put that was taken are still in memory. */
static void test_bytes_count_until_released(void **state)
{
    struct shared_queue queue;
    uint32_t left;

    (void)state;
    shared_queue_init(&queue, ITEMS_MAX, BYTES_MAX);
    must_put(&queue, 'a', 1, 2, 900, 0);
    struct shared_put *taken = shared_queue_take(&queue);
    assert_int_equal(put(&queue, 'b', 1, 2, 200, &left), SHARED_QUEUE_FULL);
    shared_queue_release(&queue, taken);
    shared_put_free(taken);
    must_put(&queue, 'b', 1, 2, 200, 0);
    check_order(&queue, "b");
}

static void test_space_has_half_at_most(void **state)
{
    struct shared_queue queue;
    uint32_t left;

    (void)state;
    shared_queue_init(&queue, ITEMS_MAX, BYTES_MAX);
    must_put(&queue, 'a', 1, 2, 400, 0);
    assert_int_equal(put(&queue, 'b', 1, 0, 200, &left), SHARED_OVER_SHARE);
    must_put(&queue, 'c', 2, 2, 400, 0); /* of another tenant */
    check_order(&queue, "ac");
    must_put(&queue, 'd', 1, 2, 900, 0); /* alone, it may be larger */
    check_order(&queue, "d");
}

static void test_removed_and_notes(void **state)
{
    struct shared_queue queue;
    struct hash256 key = {{'a'}};
    static const char large[500];

    (void)state;
    shared_queue_init(&queue, ITEMS_MAX, BYTES_MAX);
    must_put(&queue, 'a', 1, 2, 600, 0);
    struct shared_put *note = shared_put_create_note(&key, large, sizeof(large));
    assert_int_equal(shared_queue_admit(&queue, note, NULL), SHARED_QUEUE_FULL);
    shared_put_free(shared_queue_remove(&queue, &key));
    assert_null(shared_queue_remove(&queue, &key));
    assert_int_equal(shared_queue_admit(&queue, note, NULL), SHARED_ADMITTED);
    check_order(&queue, "a");
}

TEST_SUITE(TEST(test_urgent_ones_first), TEST(test_full_queue_keeps_urgent_ones),
           TEST(test_bytes_count_until_released), TEST(test_space_has_half_at_most),
           TEST(test_removed_and_notes))

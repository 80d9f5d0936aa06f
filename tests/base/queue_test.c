#include "base/queue.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "support/test.h"

static struct queue *create(size_t capacity)
{
    struct queue *queue;

    assert_ok(queue_create(&queue, "test", capacity, NULL));
    return queue;
}

static void test_first_in_first_out_and_bounded(void **state)
{
    struct queue *queue = create(3);
    char items[4];

    (void)state;
    for (int turn = 0; turn < 5; turn++) { /* around the ring, and over its end */
        assert_true(queue_try_push(queue, &items[0]));
        assert_true(queue_try_push(queue, &items[1]));
        assert_true(queue_try_push(queue, &items[2]));
        assert_int_equal(queue_length(queue), 3);
        assert_false(queue_try_push(queue, &items[3]));
        assert_ptr_equal(queue_try_pop(queue), &items[0]);
        assert_true(queue_try_push(queue, &items[3]));
        assert_ptr_equal(queue_pop(queue, 0), &items[1]);
        assert_ptr_equal(queue_pop(queue, UINT64_MAX), &items[2]);
        assert_ptr_equal(queue_try_pop(queue), &items[3]);
        assert_null(queue_try_pop(queue));
        assert_null(queue_pop(queue, 0));
        assert_int_equal(queue_length(queue), 0);
    }
    queue_destroy(&queue);
    assert_null(queue);
    queue_destroy(&queue);
}

/* Random operations against a plain array. */
static void test_equals_oracle(void **state)
{
    uint64_t seed = test_seed();
    static char items[7];
    void *oracle[COUNT_OF(items)];

    (void)state;
    for (int round = 0; round < 200; round++) {
        size_t capacity = 1 + test_random_below(&seed, COUNT_OF(items)), count = 0;
        struct queue *queue = create(capacity);
        bool closed = false;
        for (int step = 0; step < 60; step++) {
            void *item = &items[test_random_below(&seed, COUNT_OF(items))], *popped;
            size_t choice = test_random_below(&seed, 50);
            if (choice == 0) {
                queue_close(queue);
                closed = true;
            } else if (choice < 26) {
                bool fits = !closed && count < capacity;
                assert_int_equal(queue_try_push(queue, item), fits);
                if (fits)
                    oracle[count++] = item;
            } else {
                popped = choice % 2 ? queue_try_pop(queue) : queue_pop(queue, 0);
                assert_ptr_equal(popped, count > 0 ? oracle[0] : NULL);
                if (count > 0)
                    memmove(oracle, oracle + 1, --count * sizeof(oracle[0]));
            }
            assert_int_equal(queue_length(queue), count);
            assert_int_equal(queue_closed(queue), closed);
        }
        while (queue_try_pop(queue) != NULL)
            count--;
        assert_int_equal(count, 0);
        queue_destroy(&queue);
    }
}

static void test_wait_ends_at_the_timeout(void **state)
{
    struct queue *queue = create(1);
    uint64_t start = clock_mono_ns(clock_real());

    (void)state;
    assert_null(queue_pop(queue, 5 * NS_PER_MS));
    assert_true(clock_mono_ns(clock_real()) - start >= 5 * NS_PER_MS);
    queue_destroy(&queue);
}

/* ---- close ---- */

struct waiter {
    struct queue *queue;
    void *item; /* popped */
    struct thread thread;
};

static void pop_waiting(void *arg)
{
    struct waiter *waiter = arg;

    waiter->item = queue_pop(waiter->queue, UINT64_MAX);
}

enum { WAITERS = 3 };

static void test_close_wakes_all_that_pop(void **state)
{
    struct queue *queue = create(2);
    struct waiter waiters[WAITERS];
    char item;

    (void)state;
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = (struct waiter){.queue = queue, .item = &item};
        assert_ok(thread_start(&waiters[i].thread, "pop", pop_waiting, &waiters[i], NULL));
    }
    assert_true(queue_try_push(queue, &item)); /* for exactly one of them */
    queue_close(queue);
    int got = 0;
    for (int i = 0; i < WAITERS; i++) {
        thread_join(&waiters[i].thread);
        got += waiters[i].item == &item;
    }
    assert_int_equal(got, 1);
    queue_destroy(&queue);
}

static void test_closed_keeps_what_is_inside(void **state)
{
    struct queue *queue = create(2);
    char item;

    (void)state;
    assert_true(queue_try_push(queue, &item));
    assert_false(queue_closed(queue));
    queue_close(queue);
    queue_close(queue);
    assert_true(queue_closed(queue));
    assert_false(queue_try_push(queue, &item));
    assert_ptr_equal(queue_try_pop(queue), &item);
    assert_null(queue_try_pop(queue));
    queue_destroy(&queue);
}

static void test_destroy_of_a_filled_queue_aborts(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        struct queue *queue = create(1);
        close(2);
        if (queue_try_push(queue, &pid))
            queue_destroy(&queue);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* ---- many threads ---- */

enum { PRODUCERS = 3, CONSUMERS = 4, ITEMS = 2000 };

struct item {
    int producer, number;
    atomic_int taken;
};

struct crowd {
    struct queue *queue;
    struct item items[PRODUCERS][ITEMS];
    atomic_int out_of_order;
};

struct member {
    struct crowd *crowd;
    int index;
    struct thread thread;
};

static void produce(void *arg)
{
    struct member *member = arg;
    struct queue *queue = member->crowd->queue;

    for (int i = 0; i < ITEMS; i++) {
        struct item *item = &member->crowd->items[member->index][i];
        while (!queue_try_push(queue, item))
            sched_yield();
    }
}

static void consume(void *arg)
{
    struct member *member = arg;
    struct crowd *crowd = member->crowd;
    int last[PRODUCERS];
    struct item *item;

    memset(last, -1, sizeof(last));
    while ((item = queue_pop(crowd->queue, UINT64_MAX)) != NULL) {
        atomic_fetch_add(&item->taken, 1);
        if (item->number <= last[item->producer])
            atomic_fetch_add(&crowd->out_of_order, 1);
        last[item->producer] = item->number;
    }
}

static void run_crowd(struct crowd *crowd, size_t capacity)
{
    struct member producers[PRODUCERS], consumers[CONSUMERS];

    crowd->queue = create(capacity);
    for (int p = 0; p < PRODUCERS; p++)
        for (int i = 0; i < ITEMS; i++)
            crowd->items[p][i] = (struct item){.producer = p, .number = i};
    for (int i = 0; i < CONSUMERS; i++) {
        consumers[i] = (struct member){.crowd = crowd, .index = i};
        assert_ok(thread_start(&consumers[i].thread, "consume", consume, &consumers[i], NULL));
    }
    for (int i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct member){.crowd = crowd, .index = i};
        assert_ok(thread_start(&producers[i].thread, "produce", produce, &producers[i], NULL));
    }
    for (int i = 0; i < PRODUCERS; i++)
        thread_join(&producers[i].thread);
    queue_close(crowd->queue);
    for (int i = 0; i < CONSUMERS; i++)
        thread_join(&consumers[i].thread);
    queue_destroy(&crowd->queue);
}

static void test_every_item_arrives_once_and_in_order(void **state)
{
    static const size_t capacities[] = {1, 7, 1000};
    static struct crowd crowd;

    (void)state;
    for (size_t c = 0; c < COUNT_OF(capacities); c++) {
        run_crowd(&crowd, capacities[c]);
        for (int p = 0; p < PRODUCERS; p++)
            for (int i = 0; i < ITEMS; i++)
                assert_int_equal(atomic_load(&crowd.items[p][i].taken), 1);
        assert_int_equal(atomic_load(&crowd.out_of_order), 0);
    }
}

/* ---- creation ---- */

static void test_creation_survives_failed_allocations(void **state)
{
    struct fault fault = {0};
    int rounds = 0;

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct errinfo info = {0};
        struct queue *queue;
        enum err err = queue_create(&queue, "starved", 100, &info);
        if (atomic_load(&fault.fired)) {
            assert_err(err, ERR_NOMEM);
            assert_null(queue);
            assert_non_null(strstr(info.text, "'starved'"));
        } else {
            assert_ok(err);
        }
        queue_destroy(&queue);
        rounds++;
    }
    mem_set_fault(NULL);
    assert_true(rounds >= 2);
}

static void test_impossible_capacity_is_refused(void **state)
{
    struct queue *queue;

    (void)state;
    assert_err(queue_create(&queue, "vast", SIZE_MAX, NULL), ERR_NOMEM);
    assert_null(queue);
}

TEST_SUITE(TEST(test_first_in_first_out_and_bounded), TEST(test_equals_oracle),
           TEST(test_wait_ends_at_the_timeout), TEST(test_close_wakes_all_that_pop),
           TEST(test_closed_keeps_what_is_inside), TEST(test_destroy_of_a_filled_queue_aborts),
           TEST(test_every_item_arrives_once_and_in_order),
           TEST(test_creation_survives_failed_allocations),
           TEST(test_impossible_capacity_is_refused))

#include "cache/heap.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "cache/object.h"
#include "support/cache_check.h"
#include "support/test.h"

enum { OBJECTS = 300 };

static struct object *objects_create(size_t count)
{
    struct object *objects = mem_alloc_array(count, sizeof(*objects));

    for (size_t i = 0; i < count; i++)
        objects[i].heap_slot = OBJECT_NOT_IN_HEAP;
    return objects;
}

/* The heap as a list: in order of insertion, searched from one end to the other. */
struct oracle {
    struct object *in[OBJECTS];
    size_t count;
};

static struct object *oracle_first(const struct oracle *oracle)
{
    struct object *first = NULL;

    for (size_t i = 0; i < oracle->count; i++) {
        struct object *o = oracle->in[i];
        if (first == NULL || o->priority < first->priority ||
            (o->priority == first->priority && o->end > first->end))
            first = o;
    }
    return first;
}

static void oracle_remove(struct oracle *oracle, const struct object *object)
{
    size_t at = 0;

    while (at < oracle->count && oracle->in[at] != object)
        at++;
    if (at == oracle->count)
        return;
    oracle->count--;
    for (; at < oracle->count; at++)
        oracle->in[at] = oracle->in[at + 1];
}

static void random_step(struct heap *heap, struct oracle *oracle, struct object *objects,
                        uint64_t *seed)
{
    struct object *o = &objects[test_random_below(seed, OBJECTS)];

    switch (test_random_below(seed, 5)) {
    case 0:
        o = heap_first(heap);
        if (o != NULL) {
            heap_remove(heap, o);
            oracle_remove(oracle, o);
        }
        break;
    case 1:
        heap_remove(heap, o); /* whether it is in or not */
        oracle_remove(oracle, o);
        break;
    case 2:
        o->priority = (double)test_random_below(seed, 20);
        heap_moved(heap, o);
        break;
    default:
        if (o->heap_slot != OBJECT_NOT_IN_HEAP)
            break;
        o->priority = (double)test_random_below(seed, 20); /* few values: ties are common */
        o->end = (uint32_t)test_random_below(seed, 3);
        assert_true(heap_push(heap, o));
        oracle->in[oracle->count++] = o;
    }
}

static void test_equals_oracle(void **state)
{
    uint64_t seed = test_seed();
    struct object *objects = objects_create(OBJECTS);
    struct oracle oracle = {.count = 0};
    struct heap heap;

    (void)state;
    heap_init(&heap);
    for (int step = 0; step < 100000; step++) {
        random_step(&heap, &oracle, objects, &seed);
        assert_int_equal(heap.count, oracle.count);
        assert_ptr_equal(heap_first(&heap), oracle_first(&oracle));
        if (step % 64 == 0)
            heap_check(&heap);
    }
    assert_true(heap.count > 10);
    heap_fini(&heap);
    for (size_t i = 0; i < OBJECTS; i++)
        assert_int_equal(objects[i].heap_slot, OBJECT_NOT_IN_HEAP);
    mem_free(objects);
}

/* Lowest priority, then the later end, then first come first served, also after a priority went
 * away and came back. */
static void test_ties_leave_in_a_fixed_order(void **state)
{
    struct object *o = objects_create(6);
    struct heap heap;
    static const size_t leaves[] = {4, 2, 5, 0, 1, 3};

    (void)state;
    heap_init(&heap);
    for (size_t i = 0; i < 6; i++) {
        o[i].priority = i == 3 ? 2 : i == 4 ? -1 : 1;
        o[i].end = i == 2 || i == 5 ? 9 : 4;
        assert_true(heap_push(&heap, &o[i]));
    }
    o[0].priority = 7;
    heap_moved(&heap, &o[0]);
    o[0].priority = 1;
    heap_moved(&heap, &o[0]);
    for (size_t i = 0; i < 6; i++) {
        assert_ptr_equal(heap_first(&heap), &o[leaves[i]]);
        heap_remove(&heap, &o[leaves[i]]);
        heap_check(&heap);
    }
    assert_null(heap_first(&heap));
    heap_fini(&heap);
    mem_free(o);
}

static void test_survives_every_failed_allocation(void **state)
{
    struct fault fault = {0};
    size_t refused = 0;

    (void)state;
    FAULT_LOOP (&fault) {
        struct object *objects = objects_create(OBJECTS);
        struct heap heap;
        heap_init(&heap);
        mem_set_fault(&fault);
        for (size_t i = 0; i < OBJECTS; i++) {
            size_t count = heap.count;
            objects[i].priority = (double)(i * 7919 % 101);
            if (!heap_push(&heap, &objects[i])) {
                assert_int_equal(objects[i].heap_slot, OBJECT_NOT_IN_HEAP);
                assert_int_equal(heap.count, count);
                refused++;
            }
            heap_check(&heap);
        }
        mem_set_fault(NULL);
        assert_true(heap.count >= OBJECTS - 1);
        heap_fini(&heap);
        mem_free(objects);
    }
    assert_int_equal(refused, 6); /* 16, 32, 64, 128, 256, 512 */
}

static void test_reserved_pushes_cannot_fail(void **state)
{
    struct object *objects = objects_create(OBJECTS);
    struct fault fault = {0};
    struct heap heap;

    (void)state;
    heap_init(&heap);
    assert_true(heap_reserve(&heap, OBJECTS));
    fault_arm(&fault, 1, true);
    mem_set_fault(&fault);
    assert_true(heap_reserve(&heap, OBJECTS));
    for (size_t i = 0; i < OBJECTS; i++)
        assert_true(heap_push(&heap, &objects[i]));
    assert_false(heap_reserve(&heap, heap.cap + 1));
    assert_false(heap_reserve(&heap, heap.cap + 1)); /* the first refusal changed nothing */
    mem_set_fault(NULL);
    heap_check(&heap);
    assert_int_equal(heap.count, OBJECTS);
    heap_fini(&heap);
    mem_free(objects);
}

static bool aborts(void (*misuse)(struct heap *heap, struct object *objects))
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct heap heap;
        struct object *objects = objects_create(4);
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(2);
        signal(SIGABRT, SIG_DFL);
        heap_init(&heap);
        for (size_t i = 0; i < 3; i++) {
            objects[i].priority = (double)i;
            if (!heap_push(&heap, &objects[i]))
                _exit(2);
        }
        misuse(&heap, objects);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void nothing_wrong(struct heap *heap, struct object *objects)
{
    heap_moved(heap, &objects[3]);
    heap_check(heap);
}

static void push_twice(struct heap *heap, struct object *objects)
{
    if (heap_push(heap, &objects[0]))
        heap_check(heap);
}

static void push_nan(struct heap *heap, struct object *objects)
{
    objects[3].priority = NAN;
    if (heap_push(heap, &objects[3]))
        heap_check(heap);
}

static void remove_from_another(struct heap *heap, struct object *objects)
{
    struct heap other;

    (void)heap;
    heap_init(&other);
    heap_remove(&other, &objects[0]);
}

static void check_priority_changed_in_silence(struct heap *heap, struct object *objects)
{
    objects[0].priority = 5;
    heap_check(heap);
}

static void check_wrong_slot(struct heap *heap, struct object *objects)
{
    objects[1].heap_slot = 2;
    heap_check(heap);
}

static void test_misuse_aborts(void **state)
{
    (void)state;
    assert_false(aborts(nothing_wrong));
    assert_true(aborts(push_twice));
    assert_true(aborts(push_nan));
    assert_true(aborts(remove_from_another));
    assert_true(aborts(check_priority_changed_in_silence));
    assert_true(aborts(check_wrong_slot));
}

TEST_SUITE(TEST(test_equals_oracle), TEST(test_ties_leave_in_a_fixed_order),
           TEST(test_survives_every_failed_allocation), TEST(test_reserved_pushes_cannot_fail),
           TEST(test_misuse_aborts))

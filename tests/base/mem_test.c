#include "base/mem.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

static void test_alloc_is_zeroed(void **state)
{
    char zero[4096] = {0};

    (void)state;
    for (size_t size = 0; size < sizeof(zero); size = size * 2 + 1) {
        char *ptr = mem_alloc(size);
        assert_memory_equal(ptr, zero, size);
        mem_free(ptr);
    }
}

static void test_strings_are_copied(void **state)
{
    char *whole = mem_strdup("hearth"), *part = mem_strndup("hearth", 4),
         *none = mem_strndup("", 0);

    (void)state;
    assert_string_equal(whole, "hearth");
    assert_string_equal(part, "hear");
    assert_string_equal(none, "");
    mem_free(whole);
    mem_free(part);
    mem_free(none);
    mem_free(NULL);
}

static void test_overflow_is_refused(void **state)
{
    size_t out;

    (void)state;
    assert_null(mem_try_alloc_array(SIZE_MAX / 2, 3));
    assert_true(mem_mul_overflows(SIZE_MAX, 2, &out));
    assert_true(mem_add_overflows(SIZE_MAX, 1, &out));
    assert_false(mem_mul_overflows(7, 6, &out));
    assert_int_equal(out, 42);
    assert_false(mem_add_overflows(40, 2, &out));
    assert_int_equal(out, 42);
}

static void test_every_try_asks_the_fault(void **state)
{
    struct fault fault = {0};
    int rounds = 0;

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        void *a = mem_try_alloc(8);
        void *b = mem_try_alloc_array(2, 8);
        void *c = mem_try_realloc(NULL, 8);
        void *d = mem_try_alloc_aligned(4096, 8);
        int nulls = !a + !b + !c + !d;
        assert_int_equal(nulls, rounds < 4 ? 1 : 0);
        mem_free(a);
        mem_free(b);
        mem_free(c);
        mem_free(d);
        rounds++;
    }
    mem_set_fault(NULL);
    assert_int_equal(rounds, 5);
}

static void test_sticky_fault_fails_all_later_calls(void **state)
{
    struct fault fault = {0};

    (void)state;
    fault_arm(&fault, 2, true);
    mem_set_fault(&fault);
    void *first = mem_try_alloc(1);
    assert_non_null(first);
    assert_null(mem_try_alloc(1));
    assert_null(mem_try_alloc(1));
    mem_set_fault(NULL);
    assert_int_equal(atomic_load(&fault.fired), 2);
    mem_free(first);
}

static void test_realloc_failure_keeps_the_block(void **state)
{
    struct fault fault = {0};
    char *ptr = mem_try_alloc(4);

    (void)state;
    memcpy(ptr, "abc", 4);
    fault_arm(&fault, 1, false);
    mem_set_fault(&fault);
    assert_null(mem_try_realloc(ptr, 4096));
    mem_set_fault(NULL);
    assert_string_equal(ptr, "abc");
    mem_free(ptr);
}

static void test_alloc_aborts_rather_than_return_null(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        close(2);
        signal(SIGABRT, SIG_DFL);
        void *ptr = mem_alloc_array(SIZE_MAX / 2, 4);
        _exit(ptr == NULL ? 1 : 2);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void test_arrays_grow(void **state)
{
    struct fault fault = {0};
    size_t cap = 0;
    int *items = NULL;

    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_true(mem_try_reserve(&items, (size_t)i + 1, &cap, sizeof(*items)));
        items[i] = i;
    }
    assert_int_equal(cap, 128);
    assert_true(mem_try_reserve(&items, 1000, &cap, sizeof(*items)));
    assert_int_equal(cap, 1000);
    /* On failure nothing changes. */
    int *before = items;
    assert_false(mem_try_reserve(&items, SIZE_MAX / 2, &cap, sizeof(*items)));
    mem_set_fault(&fault);
    fault_arm(&fault, 1, false);
    assert_false(mem_try_reserve(&items, 1001, &cap, sizeof(*items)));
    mem_set_fault(NULL);
    assert_ptr_equal(items, before);
    assert_int_equal(cap, 1000);
    for (int i = 0; i < 100; i++)
        assert_int_equal(items[i], i);
    mem_free(items);
    items = NULL;
    cap = 0;
    for (int i = 0; i < 9; i++) {
        mem_reserve_one(&items, (size_t)i, &cap, sizeof(*items));
        items[i] = i;
    }
    assert_int_equal(cap, 16);
    for (int i = 0; i < 9; i++)
        assert_int_equal(items[i], i);
    mem_free(items);
}

TEST_SUITE(TEST(test_arrays_grow), TEST(test_alloc_is_zeroed), TEST(test_strings_are_copied),
           TEST(test_overflow_is_refused), TEST(test_every_try_asks_the_fault),
           TEST(test_sticky_fault_fails_all_later_calls),
           TEST(test_realloc_failure_keeps_the_block),
           TEST(test_alloc_aborts_rather_than_return_null))

/*
 * test.h: what every suite includes. A suite is a program that holds cmocka tests:
 *
 *     static void test_something(void **state) { ... }
 *
 *     TEST_SUITE(TEST(test_something), TEST(test_i31_splice_is_transactional))
 *
 *     suite --list         prints the names of its tests, one a line
 *     suite --run NAME     runs one of them in this process; the runner (tests/run.c) does so for
 *                          each
 *     suite                runs all of them
 *
 * A test that cannot run here says why with TEST_SKIP("no GPU"). Randomised tests take
 * their seed from test_seed(), which prints it; HEARTH_TEST_SEED repeats a run.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/attr.h"
#include "base/fault.h"

/* Whether the build has a sanitizer: its own memory is many times ours, and it keeps for a while
 * what was freed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#else
#define TEST_SANITIZED 0
#endif

#define TEST(function) cmocka_unit_test(function)

#define TEST_SUITE(...)                                       \
    int main(int argc, char **argv)                           \
    {                                                         \
        const struct CMUnitTest tests[] = {__VA_ARGS__};      \
        return test_main(argc, argv, tests, COUNT_OF(tests)); \
    }

#define TEST_SKIP(reason)        \
    do {                         \
        test_print_skip(reason); \
        skip();                  \
    } while (0)

#define assert_ok(expr)                                      \
    do {                                                     \
        enum err err_ = (expr);                              \
        if (err_ != ERR_OK)                                  \
            fail_msg("%s gave '%s'", #expr, err_name(err_)); \
    } while (0)

#define assert_err(expr, expected) assert_string_equal(err_name(expr), err_name(expected))

int test_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count);
void test_print_skip(const char *reason);

/* A seed for this run, printed so that a failure can be repeated. */
uint64_t test_seed(void);

/* A small generator with good bits (splitmix64), and a number below n. */
uint64_t test_random(uint64_t *state);
uint64_t test_random_below(uint64_t *state, uint64_t n);

/* A fresh empty folder below the build folder, removed when the process ends. Borrowed,
 * NUL-terminated. */
const char *test_dir(void);

/* Memory whose last byte is the last before an unreadable page: reading beyond the end is a crash,
 * not luck. Holds a copy of `data`; released at the end of the process. */
const char *test_guarded(const void *data, size_t len);

/* Where `../shared/<name>` is, or NULL when this clone has no such folder. */
const char *test_shared(const char *name);

#include "base/clock.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/lock.h"
#include "support/test.h"

static void test_fake_stands_still_until_moved(void **state)
{
    struct clock *clock = clock_create_fake(5, 1000);

    (void)state;
    assert_int_equal(clock_mono_ns(clock), 5);
    assert_int_equal(clock_wall_ns(clock), 1000);
    assert_int_equal(clock_mono_ns(clock), 5);
    clock_fake_advance(clock, 0);
    clock_fake_advance(clock, 3 * NS_PER_S);
    assert_int_equal(clock_mono_ns(clock), 3 * NS_PER_S + 5);
    assert_int_equal(clock_wall_ns(clock), 3 * NS_PER_S + 1000);
    clock_destroy_fake(&clock);
    assert_null(clock);
    clock_destroy_fake(&clock);
}

static void test_sleep_on_a_fake_moves_it(void **state)
{
    struct clock *clock = clock_create_fake(0, 0);
    uint64_t before = clock_mono_ns(clock_real());

    (void)state;
    clock_sleep_ns(clock, 3600 * NS_PER_S);
    assert_int_equal(clock_mono_ns(clock), 3600 * NS_PER_S);
    assert_int_equal(clock_wall_ns(clock), 3600 * NS_PER_S);
    assert_true(clock_mono_ns(clock_real()) - before < 60 * NS_PER_S);
    clock_destroy_fake(&clock);
}

static void test_deadlines_do_not_wrap(void **state)
{
    struct clock *clock = clock_create_fake(100, 0);

    (void)state;
    assert_int_equal(clock_deadline_ns(clock, 0), 100);
    assert_int_equal(clock_deadline_ns(clock, 23), 123);
    assert_true(clock_deadline_ns(clock, UINT64_MAX - 100) == UINT64_MAX);
    assert_true(clock_deadline_ns(clock, UINT64_MAX - 101) == UINT64_MAX - 1);
    assert_true(clock_deadline_ns(clock, UINT64_MAX - 99) == UINT64_MAX);
    assert_true(clock_deadline_ns(clock, UINT64_MAX) == UINT64_MAX);
    clock_destroy_fake(&clock);
}

static void test_real_times_are_the_machines(void **state)
{
    struct clock *clock = clock_real();
    struct timespec mono, wall;

    (void)state;
    assert_ptr_equal(clock, clock_real());
    clock_gettime(CLOCK_MONOTONIC, &mono);
    clock_gettime(CLOCK_REALTIME, &wall);
    uint64_t mono_ns = (uint64_t)mono.tv_sec * NS_PER_S + (uint64_t)mono.tv_nsec;
    uint64_t wall_ns = (uint64_t)wall.tv_sec * NS_PER_S + (uint64_t)wall.tv_nsec;
    /* Both only grow between the two looks, unless the wall clock is set just now. */
    assert_true(clock_mono_ns(clock) - mono_ns < 60 * NS_PER_S);
    assert_true(clock_wall_ns(clock) - wall_ns < 60 * NS_PER_S);
    uint64_t last = clock_mono_ns(clock);
    for (int i = 0; i < 1000; i++) {
        uint64_t now = clock_mono_ns(clock);
        assert_true(now >= last);
        last = now;
    }
}

static atomic_int alarms;

static void count_alarm(int signum)
{
    (void)signum;
    atomic_fetch_add(&alarms, 1);
}

static void test_real_sleep_outlasts_signals(void **state)
{
    struct sigaction action = {.sa_handler = count_alarm}, old;
    struct itimerval every_ms = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    uint64_t start = clock_mono_ns(clock_real());

    (void)state;
    sigaction(SIGALRM, &action, &old);
    setitimer(ITIMER_REAL, &every_ms, NULL);
    clock_sleep_ns(clock_real(), 10 * NS_PER_MS);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &old, NULL);
    assert_true(clock_mono_ns(clock_real()) - start >= 10 * NS_PER_MS);
    assert_true(atomic_load(&alarms) > 0);
}

enum { MOVERS = 4, MOVES = 5000 };

static void mover(void *arg)
{
    for (int i = 0; i < MOVES; i++)
        clock_fake_advance(arg, 3);
}

static void test_fake_is_moved_by_many_threads(void **state)
{
    struct clock *clock = clock_create_fake(1, 2);
    struct thread threads[MOVERS] = {0};
    uint64_t last = 0;

    (void)state;
    for (int i = 0; i < MOVERS; i++)
        assert_ok(thread_start(&threads[i], "mover", mover, clock, NULL));
    for (int i = 0; i < 1000; i++) {
        uint64_t now = clock_mono_ns(clock);
        assert_true(now >= last && now % 3 == 1);
        last = now;
    }
    for (int i = 0; i < MOVERS; i++)
        thread_join(&threads[i]);
    assert_int_equal(clock_mono_ns(clock), 3 * MOVERS * MOVES + 1);
    assert_int_equal(clock_wall_ns(clock), 3 * MOVERS * MOVES + 2);
    clock_destroy_fake(&clock);
}

static void test_the_real_clock_is_not_moved_by_hand(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        close(2);
        clock_fake_advance(clock_real(), 1);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

TEST_SUITE(TEST(test_fake_stands_still_until_moved), TEST(test_sleep_on_a_fake_moves_it),
           TEST(test_deadlines_do_not_wrap), TEST(test_real_times_are_the_machines),
           TEST(test_real_sleep_outlasts_signals), TEST(test_fake_is_moved_by_many_threads),
           TEST(test_the_real_clock_is_not_moved_by_hand))

#include "base/lock.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/test.h"

/* Runs fn in a child and expects SIGABRT, and on its stderr the given words (NULL: any). */
static void assert_aborts(void (*fn)(void), const char *first, const char *second)
{
    char text[4096];
    size_t len = 0;
    ssize_t got;
    int fds[2], status;

    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fds[1], 2);
        alarm(10); /* a deadlock is not an abort */
        fn();
        _exit(0);
    }
    close(fds[1]);
    while (len < sizeof(text) - 1 && (got = read(fds[0], text + len, sizeof(text) - 1 - len)) > 0)
        len += (size_t)got;
    text[len] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
        fail_msg("no abort, but status 0x%x and '%s'", (unsigned)status, text);
    if ((first && !strstr(text, first)) || (second && !strstr(text, second)))
        fail_msg("'%s' does not name %s and %s", text, first, second);
}

static void start(struct thread *thread, void (*fn)(void *arg), void *arg)
{
    *thread = (struct thread){0};
    assert_ok(thread_start(thread, "test", fn, arg, NULL));
}

/* ---- locks ---- */

struct probe {
    struct lock *lock;
    bool held;
};

static void probe_held(void *arg)
{
    struct probe *probe = arg;

    probe->held = lock_is_held(probe->lock);
}

static void test_knows_who_holds_it(void **state)
{
    struct lock lock;
    struct thread thread;
    struct probe probe = {&lock, true};

    (void)state;
    lock_init(&lock, "probed", LOCK_RANK_TEST_LOW);
    assert_false(lock_is_held(&lock));
    lock_enter(&lock);
    assert_true(lock_is_held(&lock));
    lock_assert_held(&lock);
    start(&thread, probe_held, &probe);
    thread_join(&thread);
    assert_false(probe.held);
    lock_leave(&lock);
    assert_false(lock_is_held(&lock));
    lock_fini(&lock);
}

enum { COUNTERS = 4, COUNTS = 5000 };

struct shared {
    struct lock lock;
    struct cond cond;
    long count GUARDED_BY(lock);
    int waiting GUARDED_BY(lock);
    bool go GUARDED_BY(lock);
};

static void count_up(void *arg)
{
    struct shared *shared = arg;

    for (int i = 0; i < COUNTS; i++) {
        lock_enter(&shared->lock);
        shared->count++;
        lock_leave(&shared->lock);
    }
}

static void test_excludes_one_another(void **state)
{
    struct shared shared = {.count = 0};
    struct thread threads[COUNTERS];

    (void)state;
    lock_init(&shared.lock, "counted", LOCK_RANK_TEST_LOW);
    for (int i = 0; i < COUNTERS; i++)
        start(&threads[i], count_up, &shared);
    for (int i = 0; i < COUNTERS; i++)
        thread_join(&threads[i]);
    assert_int_equal(shared.count, COUNTERS * COUNTS);
    lock_fini(&shared.lock);
}

static void test_nests_by_rank_and_leaves_in_any_order(void **state)
{
    struct lock low, middle, high;

    (void)state;
    lock_init(&low, "low", LOCK_RANK_TEST_LOW);
    lock_init(&middle, "middle", LOCK_RANK_CACHE);
    lock_init(&high, "high", LOCK_RANK_TEST_HIGH);
    for (int i = 0; i < 100; i++) { /* far more often than locks can nest: nothing is left behind */
        lock_enter(&low);
        lock_enter(&middle);
        lock_enter(&high);
        lock_leave(&middle);
        assert_true(lock_is_held(&low) && !lock_is_held(&middle) && lock_is_held(&high));
        lock_leave(&high);
        lock_enter(&middle);
        lock_leave(&low);
        lock_leave(&middle);
    }
    lock_fini(&high);
    lock_fini(&middle);
    lock_fini(&low);
}

static void enter_twice(void)
{
    struct lock lock;

    lock_init(&lock, "twice", LOCK_RANK_TEST_LOW);
    lock_enter(&lock);
    lock_enter(&lock);
}

static void leave_free(void)
{
    struct lock lock;

    lock_init(&lock, "free", LOCK_RANK_TEST_LOW);
    lock_leave(&lock);
}

static void leave_lock(void *arg)
{
    lock_leave(arg);
}

static void leave_anothers(void)
{
    struct lock lock;
    struct thread thread;

    lock_init(&lock, "foreign", LOCK_RANK_TEST_LOW);
    lock_enter(&lock);
    start(&thread, leave_lock, &lock);
    thread_join(&thread);
}

static void fini_held(void)
{
    struct lock lock;

    lock_init(&lock, "busy", LOCK_RANK_TEST_LOW);
    lock_enter(&lock);
    lock_fini(&lock);
}

static void wait_without_lock(void)
{
    struct lock lock;
    struct cond cond;

    lock_init(&lock, "missing", LOCK_RANK_TEST_LOW);
    cond_init(&cond);
    cond_wait(&cond, &lock);
}

static void take_owner(void *arg)
{
    thread_owner_take(arg, "engine");
}

static void check_owner(void *arg)
{
    thread_owner_check(arg, "engine");
}

static void leave_owner(void *arg)
{
    thread_owner_leave(arg, "engine");
}

/* In another thread, while this one has it. */
static void with_anothers(void (*fn)(void *arg))
{
    struct thread_owner owner = {0};
    struct thread thread;

    thread_owner_take(&owner, "engine");
    start(&thread, fn, &owner);
    thread_join(&thread);
}

static void take_anothers(void)
{
    with_anothers(take_owner);
}

static void use_anothers(void)
{
    with_anothers(check_owner);
}

static void leave_anothers_owner(void)
{
    with_anothers(leave_owner);
}

static void test_an_owner_can_change(void **state)
{
    struct thread_owner owner = {0};
    struct thread thread;

    (void)state;
    thread_owner_check(&owner, "one");
    thread_owner_take(&owner, "one");
    thread_owner_check(&owner, "one");
    thread_owner_leave(&owner, "one");
    start(&thread, check_owner, &owner);
    thread_join(&thread);
    start(&thread, take_owner, &owner);
    thread_join(&thread);
}

static void test_misuse_aborts_in_every_build(void **state)
{
    (void)state;
    assert_aborts(take_anothers, "'engine'", "already");
    assert_aborts(use_anothers, "'engine'", "used");
    assert_aborts(leave_anothers_owner, "'engine'", "left");
    assert_aborts(enter_twice, "'twice'", "taken twice");
    assert_aborts(leave_free, "'free'", NULL);
    assert_aborts(leave_anothers, "'foreign'", NULL);
    assert_aborts(fini_held, "'busy'", NULL);
    assert_aborts(wait_without_lock, "'missing'", NULL);
}

#ifdef HEARTH_DEBUG
static void nest(enum lock_rank first, enum lock_rank second)
{
    struct lock outer, inner;

    lock_init(&outer, "outer", first);
    lock_init(&inner, "inner", second);
    lock_enter(&outer);
    lock_enter(&inner);
}

static void nest_downwards(void)
{
    nest(LOCK_RANK_LOG, LOCK_RANK_QUEUE);
}

static void nest_equal(void)
{
    nest(LOCK_RANK_QUEUE, LOCK_RANK_QUEUE);
}

/* The lock that forbids the third one is still held although the one below it was left. */
static void nest_after_leaving_the_lower(void)
{
    struct lock low, high, middle;

    lock_init(&low, "low", LOCK_RANK_TEST_LOW);
    lock_init(&high, "high", LOCK_RANK_TEST_HIGH);
    lock_init(&middle, "middle", LOCK_RANK_CACHE);
    lock_enter(&low);
    lock_enter(&high);
    lock_leave(&low);
    lock_enter(&middle);
}

static void wait_with_two(void)
{
    struct lock low, high;
    struct cond cond;

    lock_init(&low, "kept", LOCK_RANK_TEST_LOW);
    lock_init(&high, "waited", LOCK_RANK_TEST_HIGH);
    cond_init(&cond);
    lock_enter(&low);
    lock_enter(&high);
    (void)!cond_wait_until(&cond, &high, 0);
}

static void enter_and_end(void *arg)
{
    lock_enter(arg);
}

static void end_with_lock(void)
{
    static struct lock lock;
    struct thread thread = {0};

    lock_init(&lock, "kept", LOCK_RANK_TEST_LOW);
    (void)!thread_start(&thread, "forgetful", enter_and_end, &lock, NULL);
    thread_join(&thread);
}
#endif

static void test_rank_violations_abort_with_both_names(void **state)
{
    (void)state;
#ifdef HEARTH_DEBUG
    assert_aborts(nest_downwards, "'outer' (rank 80)", "'inner' (rank 50)");
    assert_aborts(nest_equal, "'outer'", "'inner'");
    assert_aborts(nest_after_leaving_the_lower, "'high'", "'middle'");
    assert_aborts(wait_with_two, "'waited'", "'kept'");
    assert_aborts(end_with_lock, "'forgetful'", "'kept'");
#else
    TEST_SKIP("ranks are checked in debug and sanitizer builds only");
#endif
}

/* ---- conditions ---- */

static void shared_init(struct shared *shared)
{
    *shared = (struct shared){.count = 0};
    lock_init(&shared->lock, "shared", LOCK_RANK_TEST_LOW);
    cond_init(&shared->cond);
}

static void shared_fini(struct shared *shared)
{
    cond_fini(&shared->cond);
    lock_fini(&shared->lock);
}

static void wait_for_go(void *arg)
{
    struct shared *shared = arg;

    lock_enter(&shared->lock);
    shared->waiting++;
    while (!shared->go)
        cond_wait(&shared->cond, &shared->lock);
    lock_assert_held(&shared->lock);
    shared->count++;
    lock_leave(&shared->lock);
}

/* Returns when that many threads are inside of cond_wait: they gave up the lock after they were
 * counted. */
static void await_waiters(struct shared *shared, int want)
{
    for (bool there = false; !there;) {
        lock_enter(&shared->lock);
        there = shared->waiting == want;
        lock_leave(&shared->lock);
    }
}

static void test_broadcast_wakes_all(void **state)
{
    struct shared shared;
    struct thread threads[COUNTERS];

    (void)state;
    shared_init(&shared);
    for (int i = 0; i < COUNTERS; i++)
        start(&threads[i], wait_for_go, &shared);
    await_waiters(&shared, COUNTERS);
    lock_enter(&shared.lock);
    assert_int_equal(shared.count, 0);
    shared.go = true;
    cond_broadcast(&shared.cond);
    lock_leave(&shared.lock);
    for (int i = 0; i < COUNTERS; i++)
        thread_join(&threads[i]);
    assert_int_equal(shared.count, COUNTERS);
    shared_fini(&shared);
}

static void test_signal_wakes_one_that_waits(void **state)
{
    struct shared shared;
    struct thread thread;

    (void)state;
    shared_init(&shared);
    start(&thread, wait_for_go, &shared);
    await_waiters(&shared, 1);
    lock_enter(&shared.lock);
    shared.go = true;
    cond_signal(&shared.cond);
    lock_leave(&shared.lock);
    thread_join(&thread);
    assert_int_equal(shared.count, 1);
    shared_fini(&shared);
}

/* A condition that went by the wall clock would see a monotonic deadline as one of 1970, and return
 * too early. */
static void test_deadline_is_of_the_monotonic_clock(void **state)
{
    struct shared shared;
    uint64_t deadline = clock_deadline_ns(clock_real(), 10 * NS_PER_MS);

    (void)state;
    shared_init(&shared);
    lock_enter(&shared.lock);
    while (cond_wait_until(&shared.cond, &shared.lock, deadline))
        continue;
    assert_true(lock_is_held(&shared.lock));
    assert_true(clock_mono_ns(clock_real()) >= deadline);
    assert_false(cond_wait_until(&shared.cond, &shared.lock, 0));
    lock_leave(&shared.lock);
    shared_fini(&shared);
}

static void wait_without_deadline(void *arg)
{
    struct shared *shared = arg;
    bool in_time = true;

    lock_enter(&shared->lock);
    shared->waiting++;
    while (!shared->go && in_time)
        in_time = cond_wait_until(&shared->cond, &shared->lock, UINT64_MAX);
    shared->count = in_time ? 1 : -1;
    lock_leave(&shared->lock);
}

static void test_the_last_deadline_is_never(void **state)
{
    struct shared shared;
    struct thread thread;

    (void)state;
    shared_init(&shared);
    start(&thread, wait_without_deadline, &shared);
    await_waiters(&shared, 1);
    lock_enter(&shared.lock);
    shared.go = true;
    cond_signal(&shared.cond);
    lock_leave(&shared.lock);
    thread_join(&thread);
    assert_int_equal(shared.count, 1);
    shared_fini(&shared);
}

/* ---- threads ---- */

struct seen {
    char name[32];
    sigset_t mask;
};

static void look_at_self(void *arg)
{
    struct seen *seen = arg;

    pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
    pthread_sigmask(SIG_SETMASK, NULL, &seen->mask);
}

static void test_thread_has_a_name(void **state)
{
    struct thread thread = {0};
    struct seen seen;

    (void)state;
    assert_ok(thread_start(&thread, "mover", look_at_self, &seen, NULL));
    assert_true(thread.started);
    thread_join(&thread);
    assert_string_equal(seen.name, "mover");
    assert_ok(thread_start(&thread, "a name that is too long", look_at_self, &seen, NULL));
    thread_join(&thread);
    assert_string_equal(seen.name, "a name that is ");
}

static void test_thread_leaves_signals_to_the_main_thread(void **state)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    static const int others[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1, SIGCHLD, SIGALRM};
    struct thread thread = {0};
    struct seen seen;
    sigset_t before, after;

    (void)state;
    sigemptyset(&before);
    sigaddset(&before, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_ok(thread_start(&thread, "signals", look_at_self, &seen, NULL));
    thread_join(&thread);
    for (size_t i = 0; i < COUNT_OF(others); i++)
        assert_int_equal(sigismember(&seen.mask, others[i]), 1);
    assert_int_equal(sigismember(&seen.mask, SIGRTMIN + 1), 1);
    for (size_t i = 0; i < COUNT_OF(faults); i++)
        assert_int_equal(sigismember(&seen.mask, faults[i]), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(sigismember(&after, SIGUSR2), 1);
    assert_int_equal(sigismember(&after, SIGINT), 0);
}

static void test_join_of_what_was_not_started_is_nothing(void **state)
{
    struct thread thread = {0};
    struct seen seen;

    (void)state;
    thread_join(&thread);
    assert_ok(thread_start(&thread, "once", look_at_self, &seen, NULL));
    thread_join(&thread);
    assert_false(thread.started);
    thread_join(&thread);
}

/* No address space is large enough for this stack, so that the system refuses the thread. */
static void test_refused_thread_is_an_error_with_a_sentence(void **state)
{
    struct thread thread = {0};
    struct errinfo info = {0};
    struct seen seen;
    pthread_attr_t huge, usual;
    sigset_t mask;

    (void)state;
    pthread_getattr_default_np(&usual);
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, (size_t)1 << 60);
    assert_int_equal(pthread_setattr_default_np(&huge), 0);
    assert_err(thread_start(&thread, "refused", look_at_self, &seen, &info), ERR_LIMIT);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    assert_non_null(strstr(info.text, "cannot start thread 'refused'"));
    assert_false(thread.started);
    thread_join(&thread);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_int_equal(sigismember(&mask, SIGINT), 0);
    assert_ok(thread_start(&thread, "next", look_at_self, &seen, NULL));
    thread_join(&thread);
    pthread_attr_destroy(&huge);
    pthread_attr_destroy(&usual);
}

static void go_to_background(void *niceness)
{
    thread_set_background();
    *(int *)niceness = getpriority(PRIO_PROCESS, 0);
}

static void test_background_is_of_one_thread(void **state)
{
    int before = getpriority(PRIO_PROCESS, 0), niceness = -100;
    struct thread thread = {0};

    (void)state;
    assert_ok(thread_start(&thread, "background", go_to_background, &niceness, NULL));
    thread_join(&thread);
    assert_true(niceness >= 10);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), before);
}

TEST_SUITE(TEST(test_knows_who_holds_it), TEST(test_excludes_one_another),
           TEST(test_nests_by_rank_and_leaves_in_any_order),
           TEST(test_misuse_aborts_in_every_build), TEST(test_an_owner_can_change),
           TEST(test_rank_violations_abort_with_both_names), TEST(test_broadcast_wakes_all),
           TEST(test_signal_wakes_one_that_waits), TEST(test_deadline_is_of_the_monotonic_clock),
           TEST(test_the_last_deadline_is_never), TEST(test_thread_has_a_name),
           TEST(test_thread_leaves_signals_to_the_main_thread),
           TEST(test_join_of_what_was_not_started_is_nothing),
           TEST(test_refused_thread_is_an_error_with_a_sentence),
           TEST(test_background_is_of_one_thread))

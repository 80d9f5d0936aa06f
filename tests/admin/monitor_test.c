/* monitor_test.c: sums that survive: a good end, a kill, a damaged file, a disk that fails. */
#include "admin/monitor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/file_fault.h"
#include "base/mem.h"
#include "support/test.h"

static const struct gen_usage usage = {.prompt = 10, .ram = 7, .computed = 3, .generated = 2};
static const struct recent_call call = {.id = "req_1", .endpoint = "chat", .role = GEN_ROLE_NONE};

static int open_dir(void)
{
    int dir = FILE_NO;

    assert_ok(file_open_dir(file_sys_real(), test_dir(), true, &dir, NULL));
    return dir;
}

static struct monitor *open_monitor(const struct file_sys *fs, int dir)
{
    struct monitor_options options = {.fs = fs, .dir = dir, .clock = clock_real()};
    struct monitor *monitor;

    assert_ok(monitor_create(&monitor, &options, NULL));
    return monitor;
}

static void count_one(struct monitor *monitor)
{
    monitor_count_tokens(monitor, &usage);
    monitor_count_call(monitor, &call);
}

static struct monitor_view view_of(struct monitor *monitor)
{
    struct monitor_view view;

    monitor_get_view(monitor, &view);
    return view;
}

static void test_sums_survive_a_good_end(void **state)
{
    int dir = open_dir();
    uint64_t since_s = 0;

    (void)state;
    (void)!file_remove_at(file_sys_real(), dir, "stats", false, NULL);
    for (uint64_t run = 0; run < 3; run++) {
        struct monitor *monitor = open_monitor(file_sys_real(), dir);
        struct monitor_view view = view_of(monitor);

        assert_int_equal(view.session.requests, 0);
        assert_int_equal(view.all.requests, 2 * run);
        assert_int_equal(view.all.ram, 14 * run);
        since_s = run == 0 ? view.since_s : since_s;
        assert_int_equal(view.since_s, since_s);
        count_one(monitor);
        count_one(monitor);
        assert_int_equal(view_of(monitor).all.requests, 2 * run + 2);
        monitor_destroy(&monitor);
    }
    file_close(file_sys_real(), &dir);
}

/* What was kept last is there, whatever happens after it: here the process that counted is never
 * ended in order. */
static void test_a_kill_loses_what_was_not_kept(void **state)
{
    int dir = open_dir();
    struct monitor *killed = open_monitor(file_sys_real(), dir), *next;
    uint64_t before = view_of(killed).all.requests;

    (void)state;
    count_one(killed);
    assert_ok(monitor_save(killed, NULL));
    count_one(killed);
    next = open_monitor(file_sys_real(), dir);
    assert_int_equal(view_of(next).all.requests, before + 1);
    monitor_destroy(&next);
    monitor_destroy(&killed);
    file_close(file_sys_real(), &dir);
}

static void test_a_damaged_file_begins_anew(void **state)
{
    static const char *const contents[] = {
        "", "x", "HEARTHTL and then something else that is none of ours at all, but longer"};
    int dir = open_dir();

    (void)state;
    for (size_t i = 0; i < COUNT_OF(contents); i++) {
        struct monitor *monitor;

        assert_ok(file_replace(file_sys_real(), dir, "stats", contents[i], strlen(contents[i]),
                               0600, NULL));
        monitor = open_monitor(file_sys_real(), dir);
        assert_int_equal(view_of(monitor).all.requests, 0);
        count_one(monitor);
        monitor_destroy(&monitor);
        monitor = open_monitor(file_sys_real(), dir);
        assert_int_equal(view_of(monitor).all.requests, 1);
        monitor_destroy(&monitor);
    }
    file_close(file_sys_real(), &dir);
}

/* Each call of the file system fails once: the old sums or the new ones, never others. */
static void test_every_call_of_the_disk_may_fail(void **state)
{
    int dir = open_dir();
    struct file_fault fault;
    struct monitor *monitor;
    uint64_t before;

    (void)state;
    file_fault_init(&fault, file_sys_real());
    fault.errnum = EIO;
    monitor = open_monitor(&fault.sys, dir);
    before = view_of(monitor).all.requests;
    FAULT_LOOP (&fault.when) {
        struct monitor *after;
        uint64_t now;
        enum err err;

        count_one(monitor);
        err = monitor_save(monitor, NULL);
        after = open_monitor(file_sys_real(), dir);
        now = view_of(after).all.requests;
        monitor_destroy(&after);
        assert_true(now == before || now == view_of(monitor).all.requests);
        assert_true(err != ERR_OK || now == view_of(monitor).all.requests);
        before = now;
    }
    assert_int_equal(before, view_of(monitor).all.requests);
    monitor_destroy(&monitor);
    file_close(file_sys_real(), &dir);
}

static void add_times(struct tally *tally, void *arg)
{
    tally->prefill_ns = *(uint64_t *)arg;
}

static void test_times_of_engines_count(void **state)
{
    uint64_t prefill_ns = 3 * NS_PER_S;
    struct monitor_options options = {
        .times = add_times, .arg = &prefill_ns, .clock = clock_real()};
    struct monitor_view view;
    struct monitor *monitor;

    (void)state;
    assert_ok(monitor_create(&monitor, &options, NULL));
    count_one(monitor);
    view = view_of(monitor);
    assert_int_equal(view.session.prefill_ns, 3 * NS_PER_S);
    assert_true(tally_saved_s(&view.session) > 6.9);
    assert_ok(monitor_save(monitor, NULL)); /* nowhere to keep it: no failure */
    monitor_destroy(&monitor);
}

static void test_no_memory(void **state)
{
    struct fault fault = {0};

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct monitor_options options = {.clock = clock_real()};
        struct monitor *monitor;

        if (monitor_create(&monitor, &options, NULL) == ERR_OK)
            count_one(monitor);
        monitor_destroy(&monitor);
    }
    mem_set_fault(NULL);
}

TEST_SUITE(TEST(test_sums_survive_a_good_end), TEST(test_a_kill_loses_what_was_not_kept),
           TEST(test_a_damaged_file_begins_anew), TEST(test_every_call_of_the_disk_may_fail),
           TEST(test_times_of_engines_count), TEST(test_no_memory))

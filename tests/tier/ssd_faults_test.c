/*
 * Every file call of every phase of the SSD tier fails, in every way, once and for good. Each run
 * must end without a crash, a failed lookup, a false byte or a leak of room, and the tier must work
 * again as soon as the disk does, without a restart.
 *
 * A run of CI takes a part of them; `make faults` (HEARTH_SSD_FAULTS=1) takes all and prints the
 * table of phases and errors: how many calls were made to fail, and after how many of them
 * everything held.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/file_fault.h"
#include "support/ssd_kit.h"
#include "support/test.h"
#include "support/tier_suite.h"

#define WAIT_NS (20 * NS_PER_S)

enum { BYTES = 9000, STORED = 5, CAP = 220000 };

/* ---- phases ---- */

struct run {
    const char *path;
    struct tier_ssd_options options;
    struct file_fault *fault;
    struct tier *tier; /* NULL: it could not be opened */
    long n;
    bool sticky;
    bool harmed; /* some files were damaged behind its back */
};

static void arm(struct run *run)
{
    fault_arm(&run->fault->when, run->n, run->sticky);
}

static void disarm(struct run *run, long *fired)
{
    *fired = atomic_load(&run->fault->when.fired);
    fault_arm(&run->fault->when, 0, false);
}

static void open_run(struct run *run)
{
    if (tier_ssd_open(&run->tier, &run->options, NULL) != ERR_OK)
        run->tier = NULL;
}

static void prepare(struct run *run, bool catalogue)
{
    struct tier_ssd_options options = run->options;
    char name[700];

    options.fs = NULL;
    struct tier *tier = ssd_kit_open(&options);
    for (uint32_t n = 0; n < STORED; n++)
        assert_int_equal(ssd_kit_put(tier, n, 0, BYTES), TIER_OK);
    tier_close(&tier);
    snprintf(name, sizeof(name), "%s/catalogue", run->path);
    if (!catalogue)
        assert_int_equal(unlink(name), 0);
}

static long phase_open(struct run *run)
{
    long fired;

    arm(run);
    open_run(run);
    disarm(run, &fired);
    return fired;
}

static long phase_recover(struct run *run)
{
    prepare(run, false);
    return phase_open(run);
}

static long phase_catalogue(struct run *run)
{
    prepare(run, true);
    return phase_open(run);
}

static long phase_store(struct run *run)
{
    long fired;

    open_run(run);
    arm(run);
    for (uint32_t n = 0; n < 3; n++)
        (void)ssd_kit_put(run->tier, n, 0, BYTES);
    (void)run->tier->ops->flush(run->tier, WAIT_NS);
    disarm(run, &fired);
    return fired;
}

static long phase_evict(struct run *run)
{
    long fired;

    open_run(run);
    for (uint32_t n = 0; n < 9; n++)
        (void)ssd_kit_put(run->tier, n, 0, BYTES);
    assert_true(run->tier->ops->flush(run->tier, WAIT_NS));
    arm(run);
    ssd_kit_drop(run->tier, 1);
    for (uint32_t n = 9; n < 12; n++)
        (void)ssd_kit_put(run->tier, n, 0, BYTES);
    (void)run->tier->ops->flush(run->tier, WAIT_NS);
    disarm(run, &fired);
    return fired;
}

static long phase_read(struct run *run)
{
    long fired;

    prepare(run, true);
    open_run(run);
    arm(run);
    for (uint32_t n = 0; n < STORED; n++)
        (void)tier_suite_get(run->tier, n, BYTES); /* fails when false bytes are OK */
    disarm(run, &fired);
    return fired;
}

static void ignore(enum tier_result result, void *arg)
{
    (void)result;
    (void)arg;
}

/* Puts that wait in the queue, and a flush that they meet the disk in. */
static long phase_flush(struct run *run)
{
    static unsigned char data[3][BYTES];
    long fired;

    open_run(run);
    tier_ssd_hold(run->tier, true);
    for (uint32_t n = 0; n < 3; n++) {
        struct tier_meta meta = tier_suite_meta(n, BYTES);
        tier_suite_fill(data[n], BYTES, n, 0);
        assert_true(run->tier->ops->put(run->tier, &meta, data[n], ignore, NULL));
    }
    arm(run);
    tier_ssd_hold(run->tier, false);
    assert_true(run->tier->ops->flush(run->tier, WAIT_NS));
    disarm(run, &fired);
    return fired;
}

/* Damaged files are found, and go into quarantine. */
static long phase_damage(struct run *run)
{
    long fired;

    prepare(run, true);
    open_run(run);
    run->harmed = true;
    ssd_kit_flip(run->path, 0, -1);
    ssd_kit_flip(run->path, 1, 300);
    arm(run);
    for (uint32_t n = 0; n < STORED; n++)
        (void)tier_suite_get(run->tier, n, BYTES);
    (void)run->tier->ops->flush(run->tier, WAIT_NS);
    disarm(run, &fired);
    return fired;
}

static long phase_close(struct run *run)
{
    long fired;

    prepare(run, true);
    open_run(run);
    for (uint32_t n = 1; n < STORED; n++) /* enough gone that the catalogue is rewritten */
        ssd_kit_drop(run->tier, n);
    arm(run);
    (void)run->tier->ops->flush(run->tier, WAIT_NS);
    tier_close(&run->tier);
    disarm(run, &fired);
    return fired;
}

static const struct {
    const char *name;
    long (*run)(struct run *run);
} phases[] = {
    {"open", phase_open},   {"recover", phase_recover}, {"catalogue", phase_catalogue},
    {"store", phase_store}, {"evict", phase_evict},     {"read", phase_read},
    {"flush", phase_flush}, {"damage", phase_damage},   {"close", phase_close},
};

static const struct {
    const char *name;
    enum file_fault_kind kind;
    int errnum;
} errors[] = {
    {"ENOSPC", FILE_FAULT_ERROR, ENOSPC}, {"EIO", FILE_FAULT_ERROR, EIO},
    {"EINTR", FILE_FAULT_ERROR, EINTR},   {"EROFS", FILE_FAULT_ERROR, EROFS},
    {"EMFILE", FILE_FAULT_ERROR, EMFILE}, {"short", FILE_FAULT_SHORT, EIO},
    {"torn", FILE_FAULT_TORN, EIO},       {"slow", FILE_FAULT_DELAY, EIO},
};

/* ---- what must hold afterwards ---- */

/* Stores something new, by itself: what could not be read is looked at again after a second. */
static void must_store(struct tier *tier)
{
    enum tier_result result = TIER_RESULT_COUNT;

    for (int i = 0; i < 400 && result != TIER_OK; i++) {
        if (i > 0)
            clock_sleep_ns(clock_real(), 10 * NS_PER_MS);
        result = ssd_kit_put(tier, 70, 0, BYTES);
    }
    assert_int_equal(result, TIER_OK);
    assert_int_equal(tier_suite_get(tier, 70, BYTES), TIER_OK);
}

/* Every object is right or not there. */
static void must_serve(const struct run *run, struct tier *tier)
{
    for (uint32_t n = 0; n < 12; n++) {
        struct hash256 key = tier_suite_key(n);
        bool there = tier->ops->has(tier, &key);
        enum tier_result result = tier_suite_get(tier, n, BYTES);
        assert_true(result == TIER_OK || (result == TIER_MISSING && !there) ||
                    (result == TIER_DAMAGED && run->harmed));
    }
}

static void must_be_whole(struct run *run)
{
    if (run->tier != NULL) {
        must_serve(run, run->tier);
        must_store(run->tier);
        assert_true(run->tier->ops->flush(run->tier, WAIT_NS));
        tier_ssd_check(run->tier);
        tier_close(&run->tier);
    }
    struct tier_ssd_options options = run->options;
    options.fs = NULL;
    struct tier *tier = ssd_kit_open(&options);
    must_serve(run, tier);
    must_store(tier);
    assert_true(tier->ops->flush(tier, WAIT_NS));
    assert_int_equal(ssd_kit_count_files(run->path, ".tmp"), 0);
    assert_true(ssd_kit_disk_bytes(run->path) <= CAP);
    tier_ssd_check(tier);
    tier_close(&tier);
}

/* How many calls fired. */
static long run_one(size_t phase, size_t error, long n, bool sticky, bool sealed)
{
    struct clock *clock = clock_create_fake(1, 1);
    struct file_fault fault;
    struct run run = {.path = ssd_kit_new_path(), .fault = &fault, .n = n, .sticky = sticky};

    file_fault_init(&fault, file_sys_real());
    fault.kind = errors[error].kind;
    fault.errnum = errors[error].errnum;
    fault.clock = clock; /* slow without waiting */
    fault.delay_ns = NS_PER_S;
    run.options = ssd_kit_options(run.path, CAP);
    run.options.seal_key = sealed ? ssd_kit_seal_key() : NULL;
    run.options.fs = &fault.sys;
    run.options.free_min = 1;
    long fired = phases[phase].run(&run);
    must_be_whole(&run);
    ssd_kit_remove(run.path);
    clock_destroy_fake(&clock);
    return fired;
}

static bool whole_campaign(void)
{
    return getenv("HEARTH_SSD_FAULTS") != NULL;
}

/* In CI each error, once and for good, takes every sixteenth call, and begins with another:
 * together they meet them all. Sealed, where the calls are the same, they take a third of these. A
 * failure ends the test, so that what was tried and not passed is in no row. */
static void run_phase(size_t phase, bool sealed)
{
    const long stride = whole_campaign() ? 1 : 2 * (long)COUNT_OF(errors) * (sealed ? 3 : 1);
    long all = 0;

    for (int sticky = 0; sticky < 2; sticky++) {
        printf("| %-9s | %-8s |%s", phases[phase].name, sticky ? "for good" : "once",
               sealed ? " sealed |" : "");
        for (size_t error = 0; error < COUNT_OF(errors); error++) {
            long calls = 0, n = 1 + (long)(error * 2 + (size_t)sticky + phase) % stride;
            for (; run_one(phase, error, n, sticky, sealed) > 0; n += stride)
                calls++;
            all += calls;
            printf(" %s %ld/%ld |", errors[error].name, calls, calls);
        }
        printf("\n");
    }
    assert_true(all * stride >= (long)COUNT_OF(errors));
}

#define PHASE_TEST(name, number)                    \
    static void test_faults_##name(void **s)        \
    {                                               \
        (void)s;                                    \
        run_phase(number, false);                   \
    }                                               \
    static void test_faults_sealed_##name(void **s) \
    {                                               \
        (void)s;                                    \
        run_phase(number, true);                    \
    }
PHASE_TEST(open, 0)
PHASE_TEST(recover, 1)
PHASE_TEST(catalogue, 2)
PHASE_TEST(store, 3)
PHASE_TEST(evict, 4)
PHASE_TEST(read, 5)
PHASE_TEST(flush, 6)
PHASE_TEST(damage, 7)
PHASE_TEST(close, 8)

TEST_SUITE(TEST(test_faults_open), TEST(test_faults_recover), TEST(test_faults_catalogue),
           TEST(test_faults_store), TEST(test_faults_evict), TEST(test_faults_read),
           TEST(test_faults_flush), TEST(test_faults_damage), TEST(test_faults_close),
           TEST(test_faults_sealed_open), TEST(test_faults_sealed_recover),
           TEST(test_faults_sealed_catalogue), TEST(test_faults_sealed_store),
           TEST(test_faults_sealed_evict), TEST(test_faults_sealed_read),
           TEST(test_faults_sealed_flush), TEST(test_faults_sealed_damage),
           TEST(test_faults_sealed_close))

#include <stdio.h>

#include "sched/sched_impl.h"
#include "support/test.h"

static struct job job_of(struct sched *sched, const char *tenant, uint32_t rest)
{
    struct job job = {.sched = sched, .tenant = fair_tenant(sched, tenant), .count = rest};

    job.tenant->jobs++;
    return job;
}

static void test_tenants_take_turns(void **state)
{
    static struct sched sched;
    struct job flood = job_of(&sched, "flood", 100), calm = job_of(&sched, "calm", 5000);

    (void)state;
    assert_true(fair_before(&flood, &calm)); /* no tenant was served yet: the shorter one */
    fair_charge(&flood, 100);
    assert_true(fair_before(&calm, &flood));
    fair_charge(&calm, 5000);
    assert_true(fair_before(&flood, &calm));
}

static void test_short_goes_first_and_nobody_starves(void **state)
{
    static struct sched sched;
    struct job small = job_of(&sched, "", 10), large = job_of(&sched, "", 9000);

    (void)state;
    assert_true(fair_before(&small, &large));
    large.wait.turns = 1000;
    assert_true(fair_before(&large, &small));
    /* A queue that is never empty: all in it have waited, and those who keep coming are short. */
    small.wait.turns = 100;
    assert_true(fair_before(&large, &small) && !fair_before(&small, &large));
    small.wait.turns = 1001;
    assert_true(fair_before(&small, &large));
    small.wait.turns = large.wait.turns = 100; /* not yet: the shorter one */
    assert_true(fair_before(&small, &large));
}

/* Who was away comes first for a prompt, and is not served alone until it has caught up. */
static void test_absence_gives_a_bounded_credit(void **state)
{
    static struct sched sched;
    struct job busy = job_of(&sched, "busy", 100);

    (void)state;
    fair_charge(&busy, 1000000);
    struct job fresh = job_of(&sched, "fresh", 100);
    assert_int_equal(fresh.tenant->served, 1000000 - 16384);
    assert_true(fair_behind(&fresh, &busy) && !fair_behind(&busy, &fresh));
    fair_charge(&fresh, 16384);
    assert_false(fair_behind(&fresh, &busy));
}

/* Virtual time advances while other tenants are idle: a tenant that arrives then has no debt, and
 * no more than the credit. */
static void test_time_never_goes_back(void **state)
{
    static struct sched sched;
    struct job first = job_of(&sched, "first", 100);

    (void)state;
    fair_charge(&first, 1000000);
    first.tenant->jobs = 0; /* gone */
    struct job second = job_of(&sched, "second", 100);
    assert_int_equal(second.tenant->served, 1000000 - 16384);
    assert_int_equal(job_of(&sched, "first", 100).tenant->served, 1000000);
}

/* The flood's own backlog puts it behind, from the first token on; but not for ever. */
static void test_a_backlog_counts(void **state)
{
    static struct sched sched;
    struct job flood[3], calm;

    (void)state;
    list_init(&sched.jobs);
    for (size_t i = 0; i < COUNT_OF(flood); i++) {
        flood[i] = job_of(&sched, "flood", 10000);
        list_push_back(&sched.jobs, &flood[i].link);
    }
    calm = job_of(&sched, "calm", 3000);
    list_push_back(&sched.jobs, &calm.link);
    fair_count_backlogs(&sched);
    assert_int_equal(flood[0].tenant->backlog, 30000);
    assert_true(fair_before(&calm, &flood[0]) && fair_behind(&calm, &flood[0]));
    calm.done = 1000; /* its weight does not change by being served */
    fair_charge(&calm, 1000);
    fair_count_backlogs(&sched);
    assert_true(fair_behind(&calm, &flood[0]));
    fair_charge(&calm, 20000);
    assert_true(fair_behind(&flood[0], &calm));
}

/* Only what is kept is put back, only for who is behind, and the youngest first. */
static void test_victims(void **state)
{
    static struct sched sched;
    struct job flood[3], calm;

    (void)state;
    list_init(&sched.jobs);
    for (size_t i = 0; i < COUNT_OF(flood); i++) {
        flood[i] = job_of(&sched, "flood", 100);
        flood[i].active = flood[i].keep.stores = true;
        flood[i].phase = GEN_DECODE;
        list_push_back(&sched.jobs, &flood[i].link);
    }
    calm = job_of(&sched, "calm", 100);
    list_push_back(&sched.jobs, &calm.link);
    sched.options.parallel = sched.active = 3;
    assert_null(fair_place_victim(&sched)); /* no tenant is behind */
    fair_charge(&flood[0], 512);            /* so little is not worth swapping state for */
    assert_null(fair_place_victim(&sched));
    assert_null(fair_victim(&calm));
    fair_charge(&flood[0], 1);
    assert_ptr_equal(fair_place_victim(&sched), &flood[2]);
    fair_charge(&flood[0], 4487);
    assert_ptr_equal(fair_place_victim(&sched), &flood[2]);
    assert_ptr_equal(fair_victim(&calm), &flood[2]);
    flood[2].keep.stores = false; /* its state would be lost */
    assert_ptr_equal(fair_victim(&calm), &flood[1]);
    flood[1].seq = SEQ_NONE;
    assert_ptr_equal(fair_victim(&calm), &flood[0]);
    assert_null(fair_victim(&flood[0]));
    sched.active = 2; /* a place is free */
    assert_null(fair_place_victim(&sched));
    sched.options.exact = true;
    assert_null(fair_victim(&calm));
}

static void test_accounts_are_bounded(void **state)
{
    static struct sched sched;
    char name[32];

    (void)state;
    for (int i = 0; i < 10 * SCHED_TENANTS_MAX; i++) {
        snprintf(name, sizeof(name), "tenant %d", i);
        assert_non_null(fair_tenant(&sched, name));
    }
    assert_int_equal(sched.tenants_count, SCHED_TENANTS_MAX);
    assert_ptr_equal(fair_tenant(&sched, "tenant 3"), &sched.tenants[3]);
}

static void test_admission_follows_fairness(void **state)
{
    static struct sched sched;
    struct job a = job_of(&sched, "a", 50), b = job_of(&sched, "b", 60);

    (void)state;
    list_init(&sched.jobs);
    sched.options.parallel = 1;
    list_push_back(&sched.jobs, &a.link);
    list_push_back(&sched.jobs, &b.link);
    fair_charge(&a, 1);
    assert_ptr_equal(fair_next_queued(&sched), &b);
    b.phase = GEN_PREFILL;
    assert_ptr_equal(fair_next_queued(&sched), &a);
    sched.active = 1;
    assert_null(fair_next_queued(&sched));
}

TEST_SUITE(TEST(test_tenants_take_turns), TEST(test_short_goes_first_and_nobody_starves),
           TEST(test_absence_gives_a_bounded_credit), TEST(test_time_never_goes_back),
           TEST(test_a_backlog_counts), TEST(test_victims), TEST(test_accounts_are_bounded),
           TEST(test_admission_follows_fairness))

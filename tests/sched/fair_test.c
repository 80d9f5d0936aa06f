#include <stdio.h>

#include "sched/sched_impl.h"
#include "support/test.h"

static struct job job_of(struct sched *sched, const char *tenant, uint32_t rest)
{
    struct job job = {.sched = sched, .tenant = fair_tenant(sched, tenant), .target = rest};

    job.tenant->jobs++;
    return job;
}

static void test_tenants_take_turns(void **state)
{
    static struct sched sched;
    struct job flood = job_of(&sched, "flood", 100), calm = job_of(&sched, "calm", 5000);

    (void)state;
    assert_true(fair_before(&flood, &calm)); /* nobody was served: the shorter one */
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
    large.turns_waited = 1000;
    assert_true(fair_before(&large, &small));
}

/* Who was away is not served alone until it has caught up. */
static void test_absence_gives_no_credit(void **state)
{
    static struct sched sched;
    struct job busy = job_of(&sched, "busy", 100);

    (void)state;
    fair_charge(&busy, 1000000);
    struct job fresh = job_of(&sched, "fresh", 100);
    assert_int_equal(fresh.tenant->served, 1000000);
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
           TEST(test_absence_gives_no_credit), TEST(test_accounts_are_bounded),
           TEST(test_admission_follows_fairness))

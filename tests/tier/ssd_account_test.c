#include "tier/ssd_account.h"

#include "base/clock.h"
#include "support/test.h"

#define DAY_NS (UINT64_C(86400) * NS_PER_S)

static struct ssd_account account_with(uint64_t bytes_max)
{
    struct ssd_account account;

    ssd_account_init(&account, &(struct ssd_account_limits){.bytes_max = bytes_max});
    return account;
}

static void test_i93_reservations_end_at_the_cap(void **state)
{
    struct ssd_account account = account_with(1000);

    (void)state;
    ssd_account_add(&account, SSD_OVERHEAD, 100);
    ssd_account_add(&account, SSD_LIVE, 500);
    assert_true(ssd_account_try_reserve(&account, 400)); /* exactly */
    assert_false(ssd_account_try_reserve(&account, 1));
    assert_int_equal(ssd_account_missing(&account, 1), 1);
    assert_int_equal(ssd_account_missing(&account, 500), 500);
    assert_true(ssd_account_missing(&account, 501) == UINT64_MAX); /* not even without objects */
    assert_true(ssd_account_missing(&account, UINT64_MAX) == UINT64_MAX);
    ssd_account_unreserve(&account, 400);
    assert_int_equal(ssd_account_missing(&account, 401), 1);
    ssd_account_add(&account, SSD_FOREIGN, 300); /* foreign files count */
    assert_int_equal(ssd_account_missing(&account, 401), 301);
}

static void test_doomed_bytes_are_unlinked_before_they_are_used(void **state)
{
    struct ssd_account account = account_with(1000);

    (void)state;
    ssd_account_add(&account, SSD_DOOMED, 800);
    assert_int_equal(ssd_account_must_reap(&account), 0);
    assert_true(ssd_account_try_reserve(&account, 900)); /* they do not stand in its way, */
    assert_int_equal(ssd_account_must_reap(&account),
                     700); /* but must be gone before a byte is written */
    ssd_account_remove(&account, SSD_DOOMED, 700);
    assert_int_equal(ssd_account_must_reap(&account), 0);
}

static void test_directory_above_the_cap(void **state)
{
    struct ssd_account account = account_with(1000);

    (void)state;
    ssd_account_add(&account, SSD_LIVE, 1500);
    assert_int_equal(ssd_account_excess(&account), 500);
    assert_int_equal(ssd_account_missing(&account, 10), 510);
    assert_false(ssd_account_try_reserve(&account, 0));
    ssd_account_remove(&account, SSD_LIVE, 500);
    assert_int_equal(ssd_account_excess(&account), 0);
    assert_int_equal(ssd_account_must_reap(&account), 0);
}

static void test_i64_free_space_is_measured_anew_after_a_write(void **state)
{
    struct ssd_account account;

    (void)state;
    ssd_account_init(&account,
                     &(struct ssd_account_limits){.bytes_max = 1 << 20, .free_min = 1000});
    uint64_t at = account.writes_ended;
    assert_int_equal(ssd_account_free_missing(&account, 1500, at, 500), 0);
    assert_int_equal(ssd_account_free_missing(&account, 1499, at, 500), 1);
    ssd_account_begin_write(&account, 300); /* of another, whose blocks may not be counted */
    assert_int_equal(ssd_account_free_missing(&account, 1500, at, 500), 300);
    ssd_account_end_write(&account, 300);
    assert_true(ssd_account_free_missing(&account, UINT64_MAX, at, 500) == UINT64_MAX);
    assert_int_equal(ssd_account_free_missing(&account, 1500, account.writes_ended, 500), 0);
}

static void test_daily_budget(void **state)
{
    struct ssd_account account;
    uint64_t now = 20000 * DAY_NS + 5;

    (void)state;
    ssd_account_init(&account,
                     &(struct ssd_account_limits){.bytes_max = 1 << 20, .day_bytes_max = 1000});
    assert_true(ssd_account_take_day(&account, 600, now));
    assert_false(ssd_account_take_day(&account, 401, now + DAY_NS - 6));
    assert_true(ssd_account_take_day(&account, 400, now));
    assert_false(ssd_account_take_day(&account, 1, now - DAY_NS)); /* a clock that goes back */
    assert_true(ssd_account_take_day(&account, 1000, now + DAY_NS));
    ssd_account_give_day(&account, 10);
    assert_true(ssd_account_take_day(&account, 10, now + DAY_NS));
    assert_false(ssd_account_take_day(&account, 1, now + DAY_NS));
    assert_false(ssd_account_take_day(&account, 1001, now + 9 * DAY_NS));
    /* A clock that was years ahead for a moment. */
    assert_true(ssd_account_take_day(&account, 1000, now + 2000 * DAY_NS));
    assert_false(ssd_account_take_day(&account, 1, now + 9 * DAY_NS));
    assert_true(ssd_account_take_day(&account, 1000, now + 10 * DAY_NS));
}

/* A restart does not give a day's bytes twice. */
static void test_daily_budget_is_recalled(void **state)
{
    struct ssd_account account;
    uint64_t now = 20000 * DAY_NS + 5;

    (void)state;
    ssd_account_init(&account,
                     &(struct ssd_account_limits){.bytes_max = 1 << 20, .day_bytes_max = 1000});
    ssd_account_recall_day(&account, 700, now - DAY_NS, now); /* yesterday */
    ssd_account_recall_day(&account, 700, now, now);
    assert_false(ssd_account_take_day(&account, 301, now));
    ssd_account_recall_day(&account, 700, now, now); /* more than the budget of today */
    assert_false(ssd_account_take_day(&account, 1, now));
}

static void test_second_sighting(void **state)
{
    struct ssd_account account, any = account_with(1);
    struct hash256 one = hash256_of("1", 1), two = hash256_of("2", 1);

    (void)state;
    ssd_account_init(&account,
                     &(struct ssd_account_limits){.bytes_max = 1, .second_sighting = true});
    assert_false(ssd_account_sight(&account, &one));
    assert_false(ssd_account_sight(&account, &two));
    assert_true(ssd_account_sight(&account, &one));
    assert_true(ssd_account_sight(&account, &one));
    struct hash256 same_slot = one; /* but another key, which takes its place */
    same_slot.bytes[1] ^= 1;
    assert_false(ssd_account_sight(&account, &same_slot));
    assert_false(ssd_account_sight(&account, &one));
    ssd_account_fini(&account);
    assert_true(ssd_account_sight(&any, &one));
}

/* Whatever happens in whatever order: what may lie on the disk never exceeds the cap once a writer
 * has done what must_reap says. */
static void test_random_against_sums(void **state)
{
    enum { CAP = 10000 };
    struct ssd_account account = account_with(CAP);
    uint64_t seed = test_seed(), live = 0, reserved = 0, doomed = 0;

    (void)state;
    for (int step = 0; step < 20000; step++) {
        uint64_t bytes = test_random_below(&seed, 3000);
        switch (test_random_below(&seed, 4)) {
        case 0:
            if (ssd_account_try_reserve(&account, bytes))
                reserved += bytes;
            else
                assert_true(live + reserved + bytes > CAP);
            break;
        case 1: /* a write: reaps, then becomes live */
            bytes = MIN(bytes, reserved);
            ssd_account_remove(&account, SSD_DOOMED, ssd_account_must_reap(&account));
            doomed = account.bytes[SSD_DOOMED];
            assert_true(live + reserved + doomed <= CAP);
            ssd_account_unreserve(&account, bytes);
            ssd_account_add(&account, SSD_LIVE, bytes);
            reserved -= bytes;
            live += bytes;
            break;
        case 2:
            bytes = MIN(bytes, live);
            ssd_account_remove(&account, SSD_LIVE, bytes);
            ssd_account_add(&account, SSD_DOOMED, bytes);
            live -= bytes;
            doomed += bytes;
            break;
        default:
            bytes = MIN(bytes, reserved);
            ssd_account_unreserve(&account, bytes);
            reserved -= bytes;
        }
        assert_int_equal(account.bytes[SSD_LIVE], live);
        assert_int_equal(account.reserved, reserved);
        assert_int_equal(account.bytes[SSD_DOOMED], doomed);
        assert_true(live + reserved <= CAP);
    }
}

TEST_SUITE(TEST(test_i93_reservations_end_at_the_cap),
           TEST(test_doomed_bytes_are_unlinked_before_they_are_used),
           TEST(test_directory_above_the_cap),
           TEST(test_i64_free_space_is_measured_anew_after_a_write), TEST(test_daily_budget),
           TEST(test_daily_budget_is_recalled), TEST(test_second_sighting),
           TEST(test_random_against_sums))

/*
 * tier_suite.h: what every tier must do, as tests that any tier can be given to.
 *
 *     static const struct tier_factory factory = {.name = "ram", .open = open_ram, ...};
 *
 *     TIER_SUITE_DEFINE(ram, &factory)
 *     TEST_SUITE(TIER_SUITE_TESTS(ram, &factory) TEST(test_something_of_its_own))
 *
 * One test per check and tier: `test_ram_put_then_get`. Callbacks may come from any
 * thread; nothing sleeps, and every wait ends after a while with a failure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tier/tier.h"
#include "support/test.h"

struct tier_factory {
    const char *name;
    /* A new, empty tier with that cap. */
    struct tier *(*open)(uint64_t bytes_max);
    /* Optional: a tier with what the last one that was closed left behind. */
    struct tier *(*reopen)(uint64_t bytes_max);
    /* Optional: changes a stored byte of the object behind the tier's back. */
    void (*damage)(struct tier *tier, const struct hash256 *key);
    /* Optional: operations that come from now on wait (true), or all go on (false). */
    void (*hold)(struct tier *tier, bool hold);
    bool unbounded; /* the test does not set the cap: not tested */
    bool shared;    /* an object that is there stays, and `each` sees none (tier_shared.h) */
    unsigned steps; /* of each random test; 0: those of a tier without a network */
};

#define TIER_SUITE_TABLE(X, prefix, factory) \
    X(prefix, factory, put_then_get)         \
    X(prefix, factory, unknown_keys)         \
    X(prefix, factory, small_capacity)       \
    X(prefix, factory, put_replaces)         \
    X(prefix, factory, drop_forgets)         \
    X(prefix, factory, each_shows_all)       \
    X(prefix, factory, each_may_drop)        \
    X(prefix, factory, stats_add_up)         \
    X(prefix, factory, cap_holds)            \
    X(prefix, factory, damage_is_found)      \
    X(prefix, factory, given_digest_is_kept) \
    X(prefix, factory, cancel)               \
    X(prefix, factory, flush)                \
    X(prefix, factory, callbacks_may_call)   \
    X(prefix, factory, close_ends_all)       \
    X(prefix, factory, equals_oracle)        \
    X(prefix, factory, threads)

#define TIER_SUITE_DECLARE(prefix, factory, check) \
    void tier_suite_##check(const struct tier_factory *tier_factory);
TIER_SUITE_TABLE(TIER_SUITE_DECLARE, , )

#define TIER_SUITE_FUNCTION(prefix, factory, check)   \
    static void test_##prefix##_##check(void **state) \
    {                                                 \
        (void)state;                                  \
        tier_suite_##check(factory);                  \
    }
#define TIER_SUITE_ENTRY(prefix, factory, check) TEST(test_##prefix##_##check),

#define TIER_SUITE_DEFINE(prefix, factory) TIER_SUITE_TABLE(TIER_SUITE_FUNCTION, prefix, factory)
#define TIER_SUITE_TESTS(prefix, factory)  TIER_SUITE_TABLE(TIER_SUITE_ENTRY, prefix, factory)

/* ---- also for the tests of single tiers ---- */

/* Key number n, and bytes that only it has in that version. */
struct hash256 tier_suite_key(uint32_t n);
void tier_suite_fill(unsigned char *data, uint64_t bytes, uint32_t n, uint32_t version);
struct tier_meta tier_suite_meta(uint32_t n, uint64_t bytes);

/* Puts version 0 of key n and waits. False when it was not taken; fails when it was not stored. */
bool tier_suite_put(struct tier *tier, uint32_t n, uint64_t bytes);
/* Gets key n and waits; a TIER_OK that comes with other bytes than those of version 0 fails. */
enum tier_result tier_suite_get(struct tier *tier, uint32_t n, uint64_t bytes);

const char *tier_result_name(enum tier_result result);

#include "cache/events.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "hearth/hearth.h"
#include "support/test.h"

enum { WALL_S = 1763177838 };

static const struct hearth_event sample = {
    .number = 93,
    .wall_ns = UINT64_C(1763177838123456789),
    .kind = HEARTH_EVENT_HIT,
    .request = 17,
    .prompt_tokens = 28412,
    .read_tokens = 27540,
    .write_tokens = 5,
    .bytes = 3221225472,
    .tier = HEARTH_TIER_RAM,
    .match = HEARTH_MATCH_PREFIX,
    .reason = HEARTH_REASON_DIVERGED,
    .first_difference = 27541,
    .us = 412,
    .object = HEARTH_OBJECT_SNAPSHOT,
    .position = 8192,
};

/* The last line that a log was given, and how many came. */
struct lines {
    char last[HEARTH_EVENT_LINE_BYTES];
    atomic_int count;
};

static void keep_line(const char *line, void *arg)
{
    struct lines *lines = arg;

    snprintf(lines->last, sizeof(lines->last), "%s", line);
    atomic_fetch_add_explicit(&lines->count, 1, memory_order_relaxed);
}

static void count_line(const char *line, void *arg)
{
    struct lines *lines = arg;

    assert_true(strncmp(line, "[cache] ", 8) == 0);
    atomic_fetch_add_explicit(&lines->count, 1, memory_order_relaxed);
}

static struct clock *clock_at_start(void)
{
    return clock_create_fake(1000 * NS_PER_S, WALL_S * NS_PER_S);
}

/* ---- lines ---- */

static void test_i47_every_field_is_in_the_line(void **state)
{
    char line[HEARTH_EVENT_LINE_BYTES];
    size_t len = hearth_event_format(&sample, line, sizeof(line));

    (void)state;
    assert_string_equal(line, "[cache] 17 hit prompt_tokens=28412 read_tokens=27540 write_tokens=5 "
                              "match=prefix tier=ram reason=diverged us=412 bytes=3221225472 "
                              "first_difference=27541 object=snapshot position=8192 number=93 "
                              "wall_ns=1763177838123456789");
    assert_int_equal(len, strlen(line));
    assert_int_equal(sizeof(sample), 80); /* a new field? Add it to the line as well */
}

static void test_longest_line_fits(void **state)
{
    struct hearth_event event;
    char line[HEARTH_EVENT_LINE_BYTES];
    size_t longest = 0;

    (void)state;
    memset(&event, 0xff, sizeof(event)); /* every number as long as it can be, every name unknown */
    for (int kind = 0; kind < HEARTH_EVENT_COUNT; kind++)
        for (int reason = 0; reason <= HEARTH_REASON_COUNT; reason++) {
            event.kind = (enum hearth_event_kind)kind;
            event.reason = (enum hearth_reason)reason;
            event.match = HEARTH_MATCH_SUPERSEQUENCE;
            size_t len = hearth_event_format(&event, line, sizeof(line));
            longest = MAX(longest, len);
        }
    assert_true(longest < HEARTH_EVENT_LINE_BYTES - 1);
    assert_non_null(strstr(line, "tier=unknown"));
}

static void test_short_buffer_cuts_the_line(void **state)
{
    char whole[HEARTH_EVENT_LINE_BYTES], line[HEARTH_EVENT_LINE_BYTES];
    size_t len = hearth_event_format(&sample, whole, sizeof(whole));

    (void)state;
    for (size_t size = 1; size <= len + 1; size++) {
        memset(line, 'x', sizeof(line));
        assert_int_equal(hearth_event_format(&sample, line, size), size - 1);
        assert_int_equal(strlen(line), size - 1);
        assert_memory_equal(line, whole, size - 1);
        assert_int_equal(line[size], 'x');
    }
}

static void test_i104_names_of_kinds_and_reasons_are_closed_lists(void **state)
{
    struct hearth_event event = sample;
    char line[HEARTH_EVENT_LINE_BYTES], word[64];

    (void)state;
    for (int i = 0; i < HEARTH_EVENT_COUNT; i++) {
        assert_true(hearth_event_name((enum hearth_event_kind)i)[0] != '\0');
        for (int j = 0; j < i; j++)
            assert_string_not_equal(hearth_event_name((enum hearth_event_kind)i),
                                    hearth_event_name((enum hearth_event_kind)j));
    }
    assert_string_equal(hearth_event_name(HEARTH_EVENT_WRITE), "write");
    assert_string_equal(hearth_event_name(HEARTH_EVENT_COUNT), "unknown");
    for (int i = 0; i < HEARTH_REASON_COUNT; i++) {
        event.reason = (enum hearth_reason)i;
        hearth_event_format(&event, line, sizeof(line));
        snprintf(word, sizeof(word), " reason=%s ", hearth_reason_name((enum hearth_reason)i));
        assert_non_null(strstr(line, word));
        assert_null(strstr(line, "unknown"));
    }
    event.tier = HEARTH_TIER_COUNT;
    hearth_event_format(&event, line, sizeof(line));
    assert_non_null(strstr(line, " tier=none "));
}

static void test_log_gets_each_line_stamped(void **state)
{
    struct clock *clock = clock_at_start();
    struct lines lines = {0};
    struct events *events = events_create(4, clock, keep_line, &lines);
    char expected[HEARTH_EVENT_LINE_BYTES];

    (void)state;
    events_add(events, &sample);
    clock_fake_advance(clock, 5);
    events_add(events, &sample);
    assert_int_equal(atomic_load(&lines.count), 2);
    snprintf(expected, sizeof(expected), " number=2 wall_ns=%" PRIu64, WALL_S * NS_PER_S + 5);
    assert_non_null(strstr(lines.last, expected));
    events_destroy(&events);
    events_destroy(&events);
    clock_destroy_fake(&clock);
}

/* ---- the ring ---- */

static void test_ring_keeps_the_last_ones(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (size_t size = 1; size <= 9; size++) {
        struct clock *clock = clock_at_start();
        struct events *events = events_create(size, clock, NULL, NULL);
        struct hearth_event out[16];
        assert_int_equal(events_read(events, 0, out, 16), 0);
        for (uint64_t n = 1; n <= 30; n++) {
            struct hearth_event event = sample;
            event.request = n * 7;
            events_add(events, &event);
            uint64_t after = test_random_below(&seed, n + 3);
            size_t max = test_random_below(&seed, COUNT_OF(out));
            uint64_t oldest = n > size ? n - size + 1 : 1, first = MAX(after + 1, oldest);
            size_t count = events_read(events, after, out, max);
            assert_int_equal(count, first > n ? 0 : MIN(max, n - first + 1));
            for (size_t i = 0; i < count; i++) {
                assert_int_equal(out[i].number, first + i);
                assert_int_equal(out[i].request, out[i].number * 7);
            }
        }
        assert_int_equal(events_read(events, UINT64_MAX, out, 16), 0);
        events_destroy(&events);
        clock_destroy_fake(&clock);
    }
}

/* ---- rates ---- */

static void assert_rate(const struct events *events, enum hearth_event_kind kind, unsigned seconds,
                        struct hearth_rate expected)
{
    struct hearth_rate rate = events_rate(events, kind, seconds);

    assert_int_equal(rate.count, expected.count);
    assert_int_equal(rate.prompt_tokens, expected.prompt_tokens);
    assert_int_equal(rate.read_tokens, expected.read_tokens);
}

static void test_i46_rates_are_sums_and_reset_keeps_the_ring(void **state)
{
    struct clock *clock = clock_at_start();
    struct events *events = events_create(8, clock, NULL, NULL);
    struct hearth_event out[8];

    (void)state;
    for (int kind = 0; kind < HEARTH_EVENT_COUNT; kind++)
        assert_rate(events, (enum hearth_event_kind)kind, 900, (struct hearth_rate){0});
    events_add(events, &sample);
    assert_rate(events, HEARTH_EVENT_HIT, 60, (struct hearth_rate){1, 28412, 27540, 5, 3221225472});
    assert_rate(events, HEARTH_EVENT_EVICT, 60,
                (struct hearth_rate){0}); /* a hit is nothing else */
    assert_rate(events, HEARTH_EVENT_HIT, 0, (struct hearth_rate){0});
    events_reset(events);
    assert_rate(events, HEARTH_EVENT_HIT, 900, (struct hearth_rate){0});
    assert_int_equal(events_read(events, 0, out, 8), 1);
    events_add(events, &sample);
    assert_int_equal(events_read(events, 0, out, 8), 2);
    assert_rate(events, HEARTH_EVENT_HIT, 900,
                (struct hearth_rate){1, 28412, 27540, 5, 3221225472});
    events_destroy(&events);
    clock_destroy_fake(&clock);
}

static void test_rates_forget_by_whole_seconds(void **state)
{
    struct clock *clock = clock_create_fake(0, 0); /* also covers the first seconds of the clock */
    struct events *events = events_create(8, clock, NULL, NULL);

    (void)state;
    events_add(events, &sample);
    clock_fake_advance(clock, 59 * NS_PER_S + NS_PER_S - 1);
    assert_int_equal(events_rate(events, HEARTH_EVENT_HIT, 60).count, 1);
    clock_fake_advance(clock, 1);
    assert_int_equal(events_rate(events, HEARTH_EVENT_HIT, 60).count, 0);
    assert_int_equal(events_rate(events, HEARTH_EVENT_HIT, 61).count, 1);
    clock_fake_advance(clock, 839 * NS_PER_S);
    assert_int_equal(events_rate(events, HEARTH_EVENT_HIT, 900).count, 1);
    clock_fake_advance(clock, NS_PER_S);
    assert_int_equal(events_rate(events, HEARTH_EVENT_HIT, 900).count, 0);
    events_add(events, &sample); /* into the place of the first one */
    assert_int_equal(events_rate(events, HEARTH_EVENT_HIT, 900).count, 1);
    events_destroy(&events);
    clock_destroy_fake(&clock);
}

enum { HISTORY = 4000 };

static void test_rates_equal_oracle(void **state)
{
    static struct {
        uint64_t second;
        struct hearth_event event;
    } history[HISTORY];
    uint64_t seed = test_seed();
    struct clock *clock = clock_at_start();
    struct events *events = events_create(8, clock, NULL, NULL);

    (void)state;
    for (size_t n = 0; n < HISTORY; n++) {
        struct hearth_event event = {
            .kind = (enum hearth_event_kind)test_random_below(&seed, HEARTH_EVENT_COUNT),
            .prompt_tokens = (uint32_t)test_random(&seed),
            .read_tokens = (uint32_t)test_random(&seed)};
        uint64_t jump = test_random_below(&seed, 50) == 0 ? 1000 : 3;
        clock_fake_advance(clock, test_random_below(&seed, jump * NS_PER_S));
        history[n].second = clock_mono_ns(clock) / NS_PER_S;
        history[n].event = event;
        events_add(events, &event);
        if (n % 8 != 0)
            continue;
        enum hearth_event_kind kind =
            (enum hearth_event_kind)test_random_below(&seed, HEARTH_EVENT_COUNT);
        unsigned seconds = (unsigned)test_random_below(&seed, HEARTH_RATE_SECONDS_MAX + 1);
        struct hearth_rate expected = {0};
        for (size_t i = 0; i <= n; i++) {
            if (history[i].event.kind != kind || history[n].second - history[i].second >= seconds)
                continue;
            expected.count++;
            expected.prompt_tokens += history[i].event.prompt_tokens;
            expected.read_tokens += history[i].event.read_tokens;
        }
        assert_rate(events, kind, seconds, expected);
    }
    events_destroy(&events);
    clock_destroy_fake(&clock);
}

/* ---- threads ---- */

enum { WRITERS = 3, ADDS = 2000, RING = 64 };

static void add_many(void *arg)
{
    for (int i = 0; i < ADDS; i++)
        events_add(arg, &(struct hearth_event){
                            .kind = HEARTH_EVENT_MISS, .prompt_tokens = 2, .read_tokens = 1});
}

static void test_no_event_is_lost_between_threads(void **state)
{
    struct clock *clock = clock_at_start();
    struct lines lines = {0};
    struct events *events = events_create(RING, clock, count_line, &lines);
    struct thread writers[WRITERS] = {0};
    struct hearth_event out[RING];
    uint64_t seen = 0;

    (void)state;
    for (int i = 0; i < WRITERS; i++)
        assert_ok(thread_start(&writers[i], "writer", add_many, events, NULL));
    while (seen < WRITERS * ADDS) {
        size_t count = events_read(events, seen, out, RING);
        for (size_t i = 0; i < count; i++) {
            assert_true(out[i].number > seen);
            assert_true(i == 0 || out[i].number == seen + 1);
            assert_int_equal(out[i].prompt_tokens, 2);
            seen = out[i].number;
        }
        struct hearth_rate rate = events_rate(events, HEARTH_EVENT_MISS, 900);
        assert_true(rate.count >= seen);
        assert_int_equal(rate.prompt_tokens, 2 * rate.read_tokens);
        clock_fake_advance(clock, NS_PER_MS);
    }
    for (int i = 0; i < WRITERS; i++)
        thread_join(&writers[i]);
    assert_int_equal(atomic_load(&lines.count), WRITERS * ADDS);
    assert_int_equal(events_read(events, 0, out, RING), RING);
    events_destroy(&events);
    clock_destroy_fake(&clock);
}

struct looks {
    struct events *events;
    int count;
};

/* The log may look at the events again: no lock is held while it is called. */
static void look_again(const char *line, void *arg)
{
    struct looks *looks = arg;

    looks->count++;
    assert_int_equal(events_rate(looks->events, HEARTH_EVENT_HIT, 1).count, 1);
    assert_non_null(strstr(line, " hit "));
}

static void test_log_is_called_without_the_lock(void **state)
{
    struct clock *clock = clock_at_start();
    struct looks looks = {0};

    (void)state;
    looks.events = events_create(1, clock, look_again, &looks);
    events_add(looks.events, &sample);
    assert_int_equal(looks.count, 1);
    events_destroy(&looks.events);
    clock_destroy_fake(&clock);
}

TEST_SUITE(TEST(test_i47_every_field_is_in_the_line), TEST(test_longest_line_fits),
           TEST(test_short_buffer_cuts_the_line),
           TEST(test_i104_names_of_kinds_and_reasons_are_closed_lists),
           TEST(test_log_gets_each_line_stamped), TEST(test_ring_keeps_the_last_ones),
           TEST(test_i46_rates_are_sums_and_reset_keeps_the_ring),
           TEST(test_rates_forget_by_whole_seconds), TEST(test_rates_equal_oracle),
           TEST(test_no_event_is_lost_between_threads), TEST(test_log_is_called_without_the_lock))

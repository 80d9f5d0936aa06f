#include "cache/policy.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "support/test.h"

#define GIB        (UINT64_C(1) << 30)
#define KIB        UINT64_C(1024)
#define DAY_NS     (24 * 3600 * NS_PER_S)
#define ROW_BYTES  (112 * KIB) /* per token, of a 0.6B model */
#define SNAP_BYTES (20 * 1024 * KIB)

enum { ASSISTANT, USER, SYSTEM };

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b))))
        fail_msg("%.17g is not %.17g", a, b);
}

static struct policy_entry rows(uint32_t begin, uint32_t end, uint8_t entry)
{
    return (struct policy_entry){.begin = begin,
                                 .end = end,
                                 .bytes = (end - begin) * ROW_BYTES,
                                 .entry = entry,
                                 .tokens_per_s = 1000};
}

/* ---- the chance ---- */

static void test_chance_is_what_the_trace_measured(void **state)
{
    static const double measured[] = {.242, .423, .497, .579, .651, .632};

    (void)state;
    for (uint32_t uses = 0; uses < COUNT_OF(measured); uses++)
        assert_true(fabs(policy_reuse_chance(uses, 0, USER) - measured[uses]) < 0.04);
    /* Of what is used again, half is within 114 s and nine tenths are within 519 s: the odds fall
     * as much. */
    double odds = .25 / .75, half = policy_reuse_chance(0, 114 * NS_PER_S, USER);
    double tenth = policy_reuse_chance(0, 519 * NS_PER_S, USER);
    assert_near(half / (1 - half), odds / 2);
    assert_true(fabs(tenth / (1 - tenth) - odds / 10) < 0.001);
}

static void test_chance_rises_with_uses_and_falls_with_age(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint32_t uses = (uint32_t)test_random_below(&seed, 100);
        uint64_t age = test_random_below(&seed, 7 * DAY_NS);
        uint8_t entry = (uint8_t)test_random_below(&seed, 3);
        double chance = policy_reuse_chance(uses, age, entry);
        assert_true(chance > 0 && chance < 1);
        assert_true(policy_reuse_chance(uses + 1, age, entry) > chance);
        assert_true(policy_reuse_chance(uses, age + NS_PER_S, entry) < chance);
        assert_true(policy_reuse_chance(uses, age, SYSTEM) >= chance);
    }
    assert_true(policy_reuse_chance(UINT32_MAX, 0, SYSTEM) <= 1);
    assert_true(policy_reuse_chance(0, UINT64_MAX, ASSISTANT) >= 0);
}

/* ---- priorities ---- */

static void test_policies_are_found_by_name(void **state)
{
    enum policy policy = POLICY_COUNT;

    (void)state;
    for (int i = 0; i < POLICY_COUNT; i++) {
        assert_true(policy_find(policy_names[i], &policy));
        assert_int_equal(policy, i);
    }
    assert_null(policy_names[POLICY_COUNT]);
    assert_false(policy_find("lru", &policy));
    assert_false(policy_find("", &policy));
    assert_int_equal(policy, POLICY_COUNT - 1);
    assert_true(policy_find("saving-per-byte", &policy));
    assert_int_equal(policy, POLICY_SAVING_PER_BYTE);
}

struct scored {
    double priority;
    uint32_t end;
    uint64_t used_ns; /* what the oracle knows */
    uint8_t entry;
};

static int by_number(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* The order of the heap: lowest priority first, later tokens first among equals. */
static int by_priority(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;

    if (x->priority != y->priority)
        return x->priority < y->priority ? -1 : 1;
    return by_number(y->end, x->end);
}

/* Scores random objects, sorts them as the heap would, and asks `before` about every pair of
 * neighbours. */
static void check_order(enum policy policy, uint64_t time_step,
                        bool (*before)(const struct scored *a, const struct scored *b))
{
    uint64_t seed = test_seed();
    struct scored all[200];

    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < COUNT_OF(all); i++) {
            struct policy_entry e = rows(0, (uint32_t)test_random_below(&seed, 8) * 256, 0);
            e.entry = (uint8_t)test_random_below(&seed, 3);
            e.now_ns = 50 * DAY_NS + test_random_below(&seed, 40) * time_step;
            e.age_ns = test_random_below(&seed, 20) * time_step;
            e.floor = (double)test_random_below(&seed, 1000); /* is not theirs */
            all[i] =
                (struct scored){policy_priority(policy, &e), e.end, e.now_ns - e.age_ns, e.entry};
        }
        qsort(all, COUNT_OF(all), sizeof(all[0]), by_priority);
        for (size_t i = 1; i < COUNT_OF(all); i++)
            assert_true(before(&all[i - 1], &all[i]));
    }
}

static bool used_earlier(const struct scored *a, const struct scored *b)
{
    return a->used_ns < b->used_ns || (a->used_ns == b->used_ns && a->end >= b->end);
}

static void test_baselines_order_as_they_say(void **state)
{
    struct policy_entry early = {.now_ns = 5, .age_ns = 10};

    (void)state;
    check_order(POLICY_LRU_TAIL, 1, used_earlier);              /* to the nanosecond */
    assert_true(policy_priority(POLICY_LRU_TAIL, &early) == 0); /* used before the clock began */
}

static void test_saving_is_seconds_per_gib_over_the_floor(void **state)
{
    struct policy_entry e = {.end = 1000, .bytes = GIB, .tokens_per_s = 1000};

    (void)state;
    assert_near(policy_priority(POLICY_SAVING_PER_BYTE, &e), 0.25);
    e.floor = 7;
    assert_near(policy_priority(POLICY_SAVING_PER_BYTE, &e), 7.25);
    e.bytes = GIB / 2;
    assert_near(policy_priority(POLICY_SAVING_PER_BYTE, &e), 7.5);
    e.tokens_per_s = 500;
    assert_near(policy_priority(POLICY_SAVING_PER_BYTE, &e), 8);
    e.begin = 500;
    assert_near(policy_priority(POLICY_SAVING_PER_BYTE, &e), 7.5);
    e.uses = 1;
    assert_near(policy_priority(POLICY_SAVING_PER_BYTE, &e), 7.8);
    e.uses = 30; /* a long session is as mortal as a short one */
    assert_near(policy_priority(POLICY_SAVING_PER_BYTE, &e), 7.8);
    e.age_ns = 114 * NS_PER_S;
    assert_near(policy_priority(POLICY_SAVING_PER_BYTE, &e), 7.5);
    e = (struct policy_entry){.end = 1000, .bytes = GIB};
    assert_near(policy_priority(POLICY_SAVING_PER_BYTE, &e), 0.25); /* speed not known: 1,000 */
}

static void test_the_older_of_equals_goes_first(void **state)
{
    struct policy_entry old = rows(0, 256, USER), new = rows(0, 256, USER);

    (void)state;
    /* Also after a million turnovers and a hundred days. */
    old.floor = new.floor = 1e6 * policy_priority(POLICY_SAVING_PER_BYTE, &old);
    old.now_ns = 100 * DAY_NS;
    new.now_ns = old.now_ns + NS_PER_S;
    assert_true(policy_priority(POLICY_SAVING_PER_BYTE, &old) <
                policy_priority(POLICY_SAVING_PER_BYTE, &new));
}

static void test_priorities_are_finite(void **state)
{
    static const struct policy_entry odd[] = {
        {.end = UINT32_MAX, .entry = SYSTEM, .uses = UINT32_MAX, .tokens_per_s = 1e-300},
        {.begin = 5, .end = 5, .bytes = UINT64_MAX, .age_ns = UINT64_MAX},
        {.end = 1, .now_ns = UINT64_MAX, .entry = 255, .tokens_per_s = -1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(odd); i++)
        for (int policy = 0; policy < POLICY_COUNT; policy++) {
            double priority = policy_priority((enum policy)policy, &odd[i]);
            assert_true(isfinite(priority) && priority >= 0);
            if (policy == POLICY_SAVING_PER_BYTE)
                assert_true(priority < 1e11); /* floors stay within reach of others */
        }
    struct policy_entry nothing = {.begin = 5, .end = 5};
    assert_true(policy_priority(POLICY_SAVING_PER_BYTE, &nothing) == 0);
}

/* ---- anchors ---- */

static struct policy_entry random_object(uint64_t *seed, uint8_t entry)
{
    uint32_t begin = (uint32_t)test_random_below(seed, 800) * 256;
    struct policy_entry e =
        rows(begin, begin + 256 * (1 + (uint32_t)test_random_below(seed, 8)), entry);

    e.uses = (uint32_t)test_random_below(seed, 1000);
    e.now_ns = DAY_NS + test_random_below(seed, 100 * DAY_NS);
    e.age_ns = test_random_below(seed, DAY_NS);
    return e;
}

/* Whatever the uses, lengths and ages below a day. */
static void test_i103_anchor_outweighs_every_tail_of_a_day(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int i = 0; i < 50000; i++) {
        struct policy_entry anchor = random_object(&seed, SYSTEM);
        struct policy_entry tail = random_object(&seed, (uint8_t)test_random_below(&seed, SYSTEM));
        tail.shared = test_random_below(&seed, 2); /* is nothing to a tail */
        double value = policy_priority(POLICY_SAVING_PER_BYTE, &tail);
        anchor.shared = true;
        assert_true(policy_priority(POLICY_SAVING_PER_BYTE, &anchor) > 1.499 * value);
    }
}

static void test_i103_shared_anchor_snapshot_outlives_longer_tails(void **state)
{
    struct policy_entry anchor = {
        .end = 15000, .bytes = SNAP_BYTES, .entry = SYSTEM, .snapshot = true, .shared = true};
    struct policy_entry tail = anchor;

    (void)state;
    anchor.now_ns = tail.now_ns = 2 * DAY_NS;
    anchor.age_ns = DAY_NS - 1;
    tail.entry = ASSISTANT;
    tail.begin = 15000;
    tail.uses = 1000;
    tail.end = 15000 + 22000;
    assert_true(policy_priority(POLICY_SAVING_PER_BYTE, &anchor) >
                policy_priority(POLICY_SAVING_PER_BYTE, &tail));
}

enum { HELD = 100 };

/* A cache of equal objects, one of them an unused anchor; the others are replaced one by one,
 * each used as often as it takes to be worth the most. Returns the turnovers that the anchor
 * survived. */
static int turnovers_of_anchor(enum policy policy, bool shared)
{
    double held[HELD], floor = 0;

    for (int step = 0;; step++) {
        struct policy_entry e = rows(0, 256, step == 0 ? SYSTEM : USER);
        e.uses = step == 0 ? 0 : 1000;
        e.shared = shared;
        e.floor = floor;
        e.now_ns = (uint64_t)step * 60 * NS_PER_S;
        int slot = step;
        if (step >= HELD) {
            slot = 0;
            for (int i = 1; i < HELD; i++)
                slot = held[i] < held[slot] ? i : slot;
            floor = fmax(floor, held[slot]);
            if (slot == 0)
                return step / HELD - 1;
        }
        held[slot] = policy_priority(policy, &e);
    }
}

static void test_i103_lone_anchor_outlives_turnovers_but_not_for_ever(void **state)
{
    (void)state;
    int turnovers = turnovers_of_anchor(POLICY_SAVING_PER_BYTE, true);
    assert_true(turnovers >= 1 && turnovers < 4);
    /* An anchor that is not shared is evicted as a tail is. */
    assert_int_equal(turnovers_of_anchor(POLICY_SAVING_PER_BYTE, false), 0);
    /* The simulation can see the difference. */
    assert_int_equal(turnovers_of_anchor(POLICY_LRU_TAIL, true), 0);
}

/* ---- a real trace: blocks of equal seconds and bytes, so only the order decides ---- */

enum { TRACE_IDS_MAX = 200000 };

struct leaf {
    double priority;
    uint32_t end, id;
};

struct replay {
    enum policy policy;
    size_t cap;
    struct leaf *heap; /* lazy: entries that are not current any more are passed over */
    size_t heap_count, heap_cap;
    struct leaf current[TRACE_IDS_MAX];
    uint32_t uses[TRACE_IDS_MAX];
    bool held[TRACE_IDS_MAX];
    size_t held_count;
    double floor;
    uint64_t hits, blocks;
};

static bool leaves_first(const struct leaf *a, const struct leaf *b)
{
    return a->priority < b->priority || (a->priority == b->priority && a->end > b->end);
}

static void heap_swap(struct leaf *a, struct leaf *b)
{
    struct leaf t = *a;

    *a = *b;
    *b = t;
}

static void replay_push(struct replay *r, struct leaf leaf)
{
    if (r->heap_count == r->heap_cap) {
        r->heap_cap = r->heap_cap ? 2 * r->heap_cap : 1 << 16;
        r->heap = mem_try_realloc(r->heap, r->heap_cap * sizeof(*r->heap));
        assert_non_null(r->heap);
    }
    size_t i = r->heap_count++;
    r->heap[i] = leaf;
    for (; i > 0 && leaves_first(&r->heap[i], &r->heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap_swap(&r->heap[i], &r->heap[(i - 1) / 2]);
}

static struct leaf replay_pop(struct replay *r)
{
    struct leaf first = r->heap[0];

    r->heap[0] = r->heap[--r->heap_count];
    for (size_t i = 0, child; (child = 2 * i + 1) < r->heap_count; i = child) {
        if (child + 1 < r->heap_count && leaves_first(&r->heap[child + 1], &r->heap[child]))
            child++;
        if (!leaves_first(&r->heap[child], &r->heap[i]))
            break;
        heap_swap(&r->heap[child], &r->heap[i]);
    }
    return first;
}

static void replay_evict(struct replay *r)
{
    while (r->held_count > r->cap) {
        struct leaf leaf = replay_pop(r);
        const struct leaf *now = &r->current[leaf.id];
        if (!r->held[leaf.id] || now->priority != leaf.priority || now->end != leaf.end)
            continue;
        r->held[leaf.id] = false;
        r->held_count--;
        r->floor = fmax(r->floor, leaf.priority);
    }
}

static void replay_request(struct replay *r, uint64_t time_ms, const uint32_t *ids, size_t count)
{
    size_t hits = 0;

    while (hits < count && r->held[ids[hits]])
        hits++;
    r->hits += hits;
    r->blocks += count;
    for (size_t i = 0; i < count; i++) {
        struct policy_entry e = rows((uint32_t)i * 512, (uint32_t)(i + 1) * 512, USER);
        r->uses[ids[i]] = r->held[ids[i]] ? r->uses[ids[i]] + 1 : 0;
        e.uses = r->uses[ids[i]];
        e.now_ns = time_ms * NS_PER_MS;
        e.floor = r->floor;
        r->held_count += !r->held[ids[i]];
        r->held[ids[i]] = true;
        r->current[ids[i]] = (struct leaf){policy_priority(r->policy, &e), e.end, ids[i]};
        replay_push(r, r->current[ids[i]]);
    }
    replay_evict(r);
}

/* {"timestamp": 27482, ..., "hash_ids": [46, 47, ...]} */
static void replay_line(struct replay *r, const char *line)
{
    static uint32_t ids[4096];
    const char *time = strstr(line, "\"timestamp\": "), *at = strstr(line, "\"hash_ids\": [");
    size_t count = 0;
    char *end;

    assert_true(time != NULL && at != NULL);
    for (at += strlen("\"hash_ids\": ["); *at != ']'; at = *end == ',' ? end + 1 : end) {
        assert_true(count < COUNT_OF(ids));
        ids[count] = (uint32_t)strtoul(at, &end, 10);
        assert_true(end != at && ids[count] < TRACE_IDS_MAX);
        count++;
    }
    replay_request(r, strtoull(time + strlen("\"timestamp\": "), NULL, 10), ids, count);
}

static double replay_rate(struct str text, enum policy policy, size_t cap)
{
    struct str piece;
    char line[1 << 14]; /* separate, since sanitizers measure the whole string at every strstr */
    struct replay *r = mem_alloc(sizeof(*r));

    r->policy = policy;
    r->cap = cap;
    while (str_next(&text, '\n', &piece))
        if (piece.len > 0) {
            assert_true(piece.len < sizeof(line));
            memcpy(line, piece.ptr, piece.len);
            line[piece.len] = '\0';
            replay_line(r, line);
        }
    double rate = (double)r->hits / (double)r->blocks;
    mem_free(r->heap);
    mem_free(r);
    return rate;
}

struct point {
    size_t cap;
    double lru_known; /* so that the replay itself is checked */
};

/* Better over all capacities, and nowhere much worse. */
static void check_trace(const char *path, const struct point *points, size_t count)
{
    char *text = NULL;
    size_t len;
    double gain = 0;

    if (path == NULL) {
        print_message("no ../shared/traces: only the trace of tests/data\n");
        return;
    }
    assert_ok(file_read_all(file_sys_real(), AT_FDCWD, path, 16 << 20, &text, &len, NULL));
    for (size_t i = 0; i < count; i++) {
        struct str trace = {text, len};
        double lru = replay_rate(trace, POLICY_LRU_TAIL, points[i].cap);
        double saving = replay_rate(trace, POLICY_SAVING_PER_BYTE, points[i].cap);
        print_message("%zu blocks: lru-tail %.4f, saving-per-byte %.4f\n", points[i].cap, lru,
                      saving);
        assert_true(fabs(lru - points[i].lru_known) < 0.002);
        assert_true(saving > lru - 0.003);
        gain += saving - lru;
    }
    assert_true(gain / (double)count > 0.002);
    mem_free(text);
}

/* Known: what tests/data/traces/make.py prints. */
static void test_beats_lru(void **state)
{
    static const struct point points[] = {{50, .3857}, {100, .5474}, {200, .6411}};

    (void)state;
    check_trace("tests/data/traces/agents.jsonl", points, COUNT_OF(points));
}

static void test_beats_lru_on_the_conversation_trace(void **state)
{
    static const struct point points[] = {{5000, .112}, {10000, .212}, {30000, .326}};

    (void)state;
    check_trace(test_shared("traces/mooncake/conversation_trace.jsonl"), points, COUNT_OF(points));
}

static void test_beats_lru_on_the_synthetic_trace(void **state)
{
    static const struct point points[] = {{5000, .279}, {10000, .424}, {30000, .624}};

    (void)state;
    check_trace(test_shared("traces/mooncake/synthetic_trace.jsonl"), points, COUNT_OF(points));
}

/* ---- admission ---- */

static void test_i13_replaces_only_on_a_good_hit(void **state)
{
    (void)state;
    assert_true(policy_may_replace(1000, 2000, 0));
    assert_false(policy_may_replace(999, 1200, 0));  /* too few tokens, though most of the prompt */
    assert_false(policy_may_replace(1000, 2001, 0)); /* less than half */
    assert_false(policy_may_replace(5000, 10001, 0)); /* a long hit, but a short part */
    assert_true(policy_may_replace(UINT32_MAX, UINT32_MAX, 0));
    assert_false(policy_may_replace(0x80000000 - 1, UINT32_MAX, 0)); /* does not wrap */
    assert_true(policy_may_replace(0x80000000, UINT32_MAX, 0));
    assert_false(policy_may_replace(0, 0, 0));
}

static void test_i14_system_prompt_must_match_whole(void **state)
{
    (void)state;
    assert_false(policy_may_replace(14999, 20000, 15000));
    assert_true(policy_may_replace(15000, 20000, 15000));
    assert_false(
        policy_may_replace(400, 500, 300)); /* a short system prompt does not lower the bar */
}

/* ---- snapshots ---- */

static const struct policy_snapshot hybrid = {
    .count = 60001,
    .anchor = 15000,
    .last_user = 58000,
    .junction = 40000,
    .rows_bytes_per_token = 24 * KIB,
    .snapshot_bytes = 2000 * 24 * KIB, /* a snapshot costs as much as 2,000 tokens */
};

/* The positions in (0, count] that are wanted, in order. */
static size_t wanted(const struct policy_snapshot *where, uint32_t *out, size_t max)
{
    size_t n = 0;

    for (uint32_t at = 0; at <= where->count + 2; at++)
        if (policy_wants_snapshot(where, at)) {
            assert_true(n < max);
            out[n++] = at;
        }
    return n;
}

#define assert_wanted(where, ...)                                                     \
    do {                                                                              \
        const uint32_t expected_[] = {__VA_ARGS__};                                   \
        uint32_t got_[64];                                                            \
        assert_int_equal(wanted((where), got_, COUNT_OF(got_)), COUNT_OF(expected_)); \
        assert_memory_equal(got_, expected_, sizeof(expected_));                      \
    } while (0)

static void test_snapshots_at_marks_and_the_end(void **state)
{
    struct policy_snapshot where = hybrid;

    (void)state;
    assert_wanted(&where, 15000, 40000, 58000, 60000);
    where.generated = true; /* what was generated can be resumed at its very end */
    assert_wanted(&where, 15000, 40000, 58000, 60001);
    where = hybrid;
    where.from = 15000; /* has one already, and there is no way back */
    assert_wanted(&where, 40000, 58000, 60000);
    where.from = 60000;
    uint32_t none[1];
    assert_int_equal(wanted(&where, none, 1), 0);
    where = (struct policy_snapshot){.count = 1, .anchor = 1, .snapshot_bytes = KIB};
    assert_int_equal(wanted(&where, none, 1), 0);
    where.count = 0;
    where.anchor = 5000;
    assert_false(policy_wants_snapshot(&where, 5000));
}

static void test_snapshots_are_worth_their_bytes(void **state)
{
    struct policy_snapshot where = hybrid;

    (void)state;
    where.junction = 0;
    where.from = 56000;
    assert_wanted(&where, 58000, 60000);
    where.from = 56001; /* one token less than it costs */
    assert_wanted(&where, 60000);
    where.junction = 58000; /* others need it as well: a quarter is enough */
    assert_wanted(&where, 58000, 60000);
    where.from = 57500;
    assert_wanted(&where, 58000, 60000);
    where.from = 57501;
    assert_wanted(&where, 60000);
    where = hybrid;
    where.anchor = 500;
    assert_wanted(&where, 500, 40000, 58000, 60000);
    where.anchor = 499;
    assert_wanted(&where, 40000, 58000, 60000);
    where.transient = 58499; /* too near after the last message */
    assert_wanted(&where, 40000, 58000, 60000);
    where.transient = 58500; /* the next turn needs it: a quarter is enough */
    assert_wanted(&where, 40000, 58000, 58500, 60000);
    where.transient = 0;
    where.last_user = 41999; /* too near after the junction */
    assert_wanted(&where, 40000, 60000);
    where.last_user = 42000;
    assert_wanted(&where, 40000, 42000, 60000);
}

static void test_gap_is_bounded(void **state)
{
    struct policy_snapshot where = {.count = 50001, .last_user = 16384, .rows_bytes_per_token = 1};

    (void)state;
    where.snapshot_bytes = UINT64_MAX; /* worth it after 16,384 tokens, however large */
    assert_wanted(&where, 16384, 50000);
    where.last_user = 16383;
    assert_wanted(&where, 50000);
    where.rows_bytes_per_token = 0; /* nothing but recurrent layers: no rows to compare with */
    where.last_user = 256;
    assert_wanted(&where, 256, 50000);
    where.last_user = 255;
    assert_wanted(&where, 50000);
}

static void test_sparse_grid_fills_what_marks_leave_open(void **state)
{
    struct policy_snapshot where = hybrid;

    (void)state;
    where.sparse = 8192;
    /* Eight times 2,000 tokens: every second place. 16384 and 32768 are within half a step of a
     * mark. */
    assert_wanted(&where, 15000, 40000, 49152, 58000, 60000);
    where.last_user = 0;
    assert_wanted(&where, 15000, 40000, 49152, 60000);
    where.sparse = 500;
    where.from = 20000;
    assert_wanted(&where, 32000, 40000, 48000, 60000);
    where.snapshot_bytes = 100 * 24 * KIB; /* never finer than asked for, and than eight blocks */
    where.sparse = 8192;
    assert_wanted(&where, 24576, 32768, 40000, 49152, 60000);
}

static void test_snapshots_are_apart(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 300; round++) {
        uint32_t gap = 256 + (uint32_t)test_random_below(&seed, 1000), at[64];
        struct policy_snapshot where = {.count = 1 + (uint32_t)test_random_below(&seed, 8000),
                                        .generated = test_random_below(&seed, 2),
                                        .rows_bytes_per_token = KIB,
                                        .snapshot_bytes = gap * KIB};
        where.from = (uint32_t)test_random_below(&seed, where.count);
        where.anchor = (uint32_t)test_random_below(&seed, where.count + 100);
        where.last_user = (uint32_t)test_random_below(&seed, where.count + 100);
        where.transient = (uint32_t)test_random_below(&seed, where.count + 100);
        where.junction = (uint32_t)test_random_below(&seed, where.count + 100);
        where.sparse = (uint32_t)test_random_below(&seed, 3) * 512;
        uint32_t end = where.generated ? where.count : where.count - 1, before = where.from;
        size_t n = wanted(&where, at, COUNT_OF(at));
        assert_int_equal(n > 0, end > where.from);
        for (size_t i = 0; i < n; i++) {
            bool mark = at[i] == where.anchor || at[i] == where.last_user ||
                        at[i] == where.junction || at[i] == where.transient;
            assert_true(at[i] > where.from && at[i] <= end);
            assert_true(mark || at[i] == end || (where.sparse > 0 && at[i] % where.sparse == 0));
            assert_true(at[i] == end || 4 * (at[i] - before) >= gap);
            before = at[i];
        }
        assert_true(n == 0 || at[n - 1] == end);
    }
}

/* ---- restore or recompute ---- */

static void test_restores_only_what_is_faster(void **state)
{
    (void)state;
    assert_near(policy_fetch_seconds(GIB, (double)GIB, 0.5, (double)GIB * 4), 1.75);
    assert_near(policy_fetch_seconds(GIB, 0, 0.5, 0), 0.5); /* what is not known costs nothing */
    assert_true(policy_fetch_seconds(UINT64_MAX, NAN, -1, -5) == 0);
    assert_true(policy_restore_pays(1, 1.1));
    assert_false(policy_restore_pays(1.1, 1));
    assert_false(policy_restore_pays(1, 1));
    assert_true(policy_restore_pays(5, 0)); /* speed not known: always restore */
    assert_true(policy_restore_pays(5, NAN));
    assert_true(policy_restore_pays(5, INFINITY));
    assert_false(policy_restore_pays(policy_fetch_seconds(1, 0, INFINITY, 0), 1000));
}

TEST_SUITE(TEST(test_chance_is_what_the_trace_measured),
           TEST(test_chance_rises_with_uses_and_falls_with_age),
           TEST(test_policies_are_found_by_name), TEST(test_baselines_order_as_they_say),
           TEST(test_saving_is_seconds_per_gib_over_the_floor),
           TEST(test_the_older_of_equals_goes_first), TEST(test_priorities_are_finite),
           TEST(test_i103_anchor_outweighs_every_tail_of_a_day),
           TEST(test_i103_shared_anchor_snapshot_outlives_longer_tails),
           TEST(test_i103_lone_anchor_outlives_turnovers_but_not_for_ever), TEST(test_beats_lru),
           TEST(test_beats_lru_on_the_conversation_trace),
           TEST(test_beats_lru_on_the_synthetic_trace), TEST(test_i13_replaces_only_on_a_good_hit),
           TEST(test_i14_system_prompt_must_match_whole), TEST(test_snapshots_at_marks_and_the_end),
           TEST(test_snapshots_are_worth_their_bytes), TEST(test_gap_is_bounded),
           TEST(test_sparse_grid_fills_what_marks_leave_open), TEST(test_snapshots_are_apart),
           TEST(test_restores_only_what_is_faster))

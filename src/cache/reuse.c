/*
 * reuse.c: a ring of turns, found by the key of one block each, and a table of rates per class.
 *
 *      blocks   |  0  |  1  |  2  |  3  |  4  |        the turn is registered at block 3:
 *      key                         ^                   the last blocks may be rendered otherwise
 *                                                      in the next turn
 *
 * Ages are counted in buckets of which each is 1.5 times as long as the one before. In a bucket, the
 * hazard is uses / turns that reached it; turns that have not been continued yet count up to their
 * age (Kaplan and Meier). Rates follow from the hazards, and are computed again every RELEARN turns.
 *
 * POOLING. A class has few turns at first. Its hazards start from those of all turns with the same
 * ending, and these from a prior: so traffic that is faster than any prior is learned after a few
 * turns, and classes differ only once their turns did.
 *
 * PRIORS. Log-logistic, from one half of the conversation trace and of the Claude Code sessions of
 * docs/replay-traces.md: the share of turns that are continued, the median of the gaps, the shape.
 *
 * A log-logistic hazard rises from 0, and so does that of an agent that never returns within 3 s.
 * A rate must not: it would evict the conversation in use, which is the youngest (decision 028).
 */
#include "cache/reuse.h"

#include <math.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/mem.h"

enum {
    BUCKETS = 40,
    SLOTS = 2 * REUSE_TURNS, /* of the hash table; a power of two */
    RELEARN = 32,
    NONE = UINT16_MAX,
    ADDED_MANY = 2048, /* tokens: more than a question and its answer */
    KINDS = 4,
    CLASSES = 3 * KINDS + 1,
    CALLS = HEARTH_ENDING_CALL * KINDS, /* the first class of turns that end in a call */
    PACES = 16,
};

static const double BUCKET_S = 2, BUCKET_GROWTH = 1.5;
/* A prior counts as this many turns of an ending, and an ending as this many turns of a class. */
static const double PRIOR_TURNS = 5, POOL_TURNS = 60;
/* pace 0 of a mark is 1.5 s between calls, pace 15 four minutes */
static const double USUAL_PACE_S = 15, PACE_WEIGHT = 0.2, PACE_MIN = 0.1, PACE_GROWTH = 1.4;
static const double FIRST_PACE_WEIGHT = 0.15;

const struct reuse_mark REUSE_SHARED = {.class = CLASSES - 1};

/* Each ending has KINDS classes: first turn, second or third, later, one that added much. */
static const struct {
    double share, median_s, shape;
} priors[] = {
    [HEARTH_ENDING_UNKNOWN] = {.5, 115, 1.45},
    [HEARTH_ENDING_TEXT] = {.75, 200, 1.2},
    [HEARTH_ENDING_CALL] = {.97, 15, 1.6},
    [HEARTH_ENDING_CALL + 1] = {.6, 115, 1.45}, /* shared */
};

struct turn {
    uint64_t key; /* of the block at which it is registered; 0 = not registered */
    uint64_t request, at_ns;
    float pace_s;     /* between calls of tools in its conversation */
    float returned_s; /* until it was continued; < 0: not yet */
    uint32_t tokens;
    uint16_t number; /* in its conversation, from 0 */
    struct reuse_mark mark;
    uint8_t ending;
    uint16_t next; /* in its slot */
};

struct reuse {
    struct turn turns[REUSE_TURNS];
    size_t count; /* ever noted */
    uint16_t slots[SLOTS];
    double rates[CLASSES][BUCKETS];
    double first_pace_s; /* of conversations that begin: that of the recent ones */
};

/* ---- ages ---- */

static double bucket_begin(int bucket)
{
    return bucket == 0 ? 0 : BUCKET_S * pow(BUCKET_GROWTH, bucket - 1);
}

static int bucket_of(double seconds)
{
    double units = seconds / BUCKET_S;

    if (units < 1)
        return 0;
    return (int)fmin(1 + log(units) / log(BUCKET_GROWTH), BUCKETS - 1);
}

static double seconds_between(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / (double)NS_PER_S : 0;
}

/* Relative to the usual one. Only turns that end in a call have one. */
static double pace_of(struct reuse_mark mark)
{
    bool call = mark.class >= CALLS && mark.class < CALLS + KINDS;

    return call ? PACE_MIN * pow(PACE_GROWTH, mark.pace) : 1;
}

/* ---- rates ---- */

struct counts {
    double uses[BUCKETS], turns[BUCKETS]; /* turns that reached the bucket */
};

static void count_turn(struct counts *counts, const struct turn *turn, uint64_t now_ns)
{
    bool returned = turn->returned_s >= 0;
    double age = returned ? turn->returned_s : seconds_between(turn->at_ns, now_ns);
    double pace = pace_of(turn->mark);
    int last = bucket_of(age / pace);
    double begin = bucket_begin(last),
           part = (age / pace - begin) / (bucket_begin(last + 1) - begin);

    for (int i = 0; i < last; i++)
        counts->turns[i]++;
    counts->turns[last] += returned ? 1 : fmin(part, 1);
    counts->uses[last] += returned;
}

/* The share of turns continued in a bucket, of those that reached it, by the prior. */
static double prior_hazard(int ending, int bucket)
{
    double share = priors[ending].share, shape = priors[ending].shape;
    double from = pow(bucket_begin(bucket) / priors[ending].median_s, shape);
    double to = pow(bucket_begin(bucket + 1) / priors[ending].median_s, shape);
    double before = 1 - share + share / (1 + from), after = 1 - share + share / (1 + to);

    return (before - after) / before;
}

/* The best ratio from each age on. */
static void fill_rates(double rates[BUCKETS], const double hazards[BUCKETS])
{
    for (int age = BUCKETS - 1; age >= 0; age--) {
        double left = 1, uses = 0, seconds = 0;
        rates[age] = age + 1 < BUCKETS ? rates[age + 1] : 0; /* never lower when younger */
        for (int i = age; i < BUCKETS; i++) {
            double length = bucket_begin(i + 1) - bucket_begin(i);
            uses += left * hazards[i];
            seconds += left * (1 - hazards[i] / 2) * length;
            left *= 1 - hazards[i];
            rates[age] = fmax(rates[age], uses / seconds);
        }
    }
}

/* The hazard of all turns with the ending of a class. */
static double pooled_hazard(const struct counts counts[CLASSES], int class, int bucket)
{
    int first = class - class % KINDS, end = MIN(first + KINDS, CLASSES);
    double uses = PRIOR_TURNS * prior_hazard(class / KINDS, bucket), turns = PRIOR_TURNS;

    for (int i = first; i < end; i++) {
        uses += counts[i].uses[bucket];
        turns += counts[i].turns[bucket];
    }
    return uses / turns;
}

static void learn(struct reuse *reuse, uint64_t now_ns)
{
    struct counts counts[CLASSES] = {0};
    double hazards[BUCKETS];

    for (size_t i = 0; i < MIN(reuse->count, REUSE_TURNS); i++)
        count_turn(&counts[reuse->turns[i].mark.class], &reuse->turns[i], now_ns);
    for (int class = 0; class < CLASSES; class ++) {
        for (int i = 0; i < BUCKETS; i++)
            hazards[i] = (counts[class].uses[i] + POOL_TURNS * pooled_hazard(counts, class, i)) /
                         (counts[class].turns[i] + POOL_TURNS);
        fill_rates(reuse->rates[class], hazards);
    }
}

uint64_t reuse_version(const struct reuse *reuse)
{
    return reuse->count / RELEARN;
}

double reuse_rate(const struct reuse *reuse, struct reuse_mark mark, uint64_t age_ns)
{
    double pace = pace_of(mark);
    double age = (double)age_ns / (double)NS_PER_S / pace;

    return reuse->rates[mark.class][bucket_of(age)] / pace;
}

/* ---- turns by key ---- */

static uint16_t *slot_of(struct reuse *reuse, uint64_t key)
{
    return &reuse->slots[key & (SLOTS - 1)];
}

static struct turn *find(struct reuse *reuse, uint64_t key)
{
    uint16_t at = *slot_of(reuse, key);

    while (at != NONE && reuse->turns[at].key != key)
        at = reuse->turns[at].next;
    return at == NONE ? NULL : &reuse->turns[at];
}

static void unregister(struct reuse *reuse, struct turn *turn)
{
    uint16_t *at = slot_of(reuse, turn->key), self = (uint16_t)(turn - reuse->turns);

    if (turn->key == 0)
        return;
    while (*at != self)
        at = &reuse->turns[*at].next;
    *at = turn->next;
    turn->key = 0;
}

static void enter(struct reuse *reuse, struct turn *turn, uint64_t key)
{
    struct turn *old = find(reuse, key);

    if (old != NULL)
        unregister(reuse, old);
    turn->key = key;
    turn->next = *slot_of(reuse, key);
    *slot_of(reuse, key) = (uint16_t)(turn - reuse->turns);
}

/* The key of a block and everything before it. Collisions cost a wrong guess, no wrong state. */
static uint64_t next_key(uint64_t key, const int32_t *tokens, size_t count)
{
    struct hash128 hash = hash128_of(tokens, count * sizeof(*tokens));
    uint64_t block;

    memcpy(&block, hash.bytes, sizeof(block));
    key = (key ^ block) * UINT64_C(0x9E3779B97F4A7C15);
    return (key ^ key >> 29) | 1;
}

/* The longest earlier turn that this one contains, and the key to register this one with; 0: too
 * short to be recognised. */
static struct turn *find_earlier(struct reuse *reuse, const struct reuse_turn *turn, uint64_t *own)
{
    size_t blocks = turn->count / turn->block_tokens, at = (4 * blocks + 4) / 5;
    struct turn *earlier = NULL;
    uint64_t key;

    *own = 0;
    memcpy(&key, turn->space->bytes, sizeof(key));
    for (size_t i = 0; i < blocks; i++) {
        key = next_key(key, turn->tokens + i * turn->block_tokens, turn->block_tokens);
        struct turn *found = find(reuse, key);
        earlier = found != NULL ? found : earlier;
        if (i + 1 == at)
            *own = key;
    }
    return earlier;
}

/* ---- noting ---- */

static double nearer(double pace_s, double gap_s, double weight)
{
    return exp((1 - weight) * log(pace_s) + weight * log(fmax(gap_s, 1)));
}

/* The pace of a conversation after `gap` seconds: a geometric mean, where pauses of people after a
 * text do not count. */
static float pace_after(struct reuse *reuse, const struct turn *earlier, double gap)
{
    if (earlier->ending == HEARTH_ENDING_CALL)
        reuse->first_pace_s = nearer(reuse->first_pace_s, gap, FIRST_PACE_WEIGHT);
    if (earlier->ending == HEARTH_ENDING_TEXT)
        return earlier->pace_s;
    return (float)nearer((double)earlier->pace_s, gap, PACE_WEIGHT);
}

static void classify(struct turn *turn, uint32_t added)
{
    int kind = turn->number == 0 ? 0 : added > ADDED_MANY ? 3 : turn->number < 3 ? 1 : 2;
    double pace = log((double)turn->pace_s / USUAL_PACE_S / PACE_MIN) / log(PACE_GROWTH);

    turn->mark.class = (uint8_t)(turn->ending * KINDS + kind) & 15;
    turn->mark.pace = (uint8_t)fmin(fmax(round(pace), 0), PACES - 1) & 15;
}

static struct turn *add_turn(struct reuse *reuse)
{
    struct turn *turn = &reuse->turns[reuse->count++ % REUSE_TURNS];

    if (reuse->count > REUSE_TURNS)
        unregister(reuse, turn);
    *turn = (struct turn){.returned_s = -1, .pace_s = (float)reuse->first_pace_s};
    return turn;
}

struct reuse_mark reuse_note(struct reuse *reuse, const struct reuse_turn *noted)
{
    uint64_t key;
    struct turn *earlier = find_earlier(reuse, noted, &key);
    bool same = earlier != NULL && noted->request != 0 && earlier->request == noted->request;
    struct turn before = earlier != NULL ? *earlier : (struct turn){0};
    uint32_t tokens = (uint32_t)noted->count;

    if (earlier != NULL && !same && earlier->returned_s < 0)
        earlier->returned_s = (float)seconds_between(earlier->at_ns, noted->now_ns);
    struct turn *turn = same ? earlier : add_turn(reuse);
    if (earlier != NULL && !same) {
        turn->number = (uint16_t)MIN(before.number + 1, UINT16_MAX);
        turn->pace_s = pace_after(reuse, &before, seconds_between(before.at_ns, noted->now_ns));
    }
    turn->request = noted->request;
    turn->at_ns = noted->now_ns;
    turn->ending = (uint8_t)MIN(noted->ending, HEARTH_ENDING_CALL);
    classify(turn, same ? 0 : tokens - MIN(before.tokens, tokens));
    turn->tokens = tokens;
    if (same)
        unregister(reuse, turn);
    if (key != 0)
        enter(reuse, turn, key);
    if (reuse->count % RELEARN == 0)
        learn(reuse, noted->now_ns);
    return turn->mark;
}

/* ---- life ---- */

struct reuse *reuse_create(void)
{
    struct reuse *reuse = mem_alloc(sizeof(*reuse));

    memset(reuse->slots, 0xFF, sizeof(reuse->slots)); /* NONE */
    reuse->first_pace_s = USUAL_PACE_S;
    learn(reuse, 0);
    return reuse;
}

void reuse_destroy(struct reuse **reuse)
{
    mem_free(*reuse);
    *reuse = NULL;
}

/*
 * policy.c: numbers in, one number or a yes or no out.
 *
 * UNITS. The value of an object under saving-per-byte is in seconds of computing saved per GiB
 * held, weighted by the probability that they are saved at all. A prefill of 1,000 tokens/s with
 * 112 KiB of rows per token makes 9.4 s/GiB, a fast GPU with the same rows less than 1, a
 * recurrent snapshot that saves 100,000 tokens with 20 MiB more than 1,000. So values lie between
 * 0.01 and 10,000, and a floor that rises by about one value per turnover of the cache stays exact
 * enough in a double for as long as the machine runs.
 *
 * CHANCE. From the block trace in NOTE.md of the traces (182,790 blocks):
 *
 *      uses so far                    0     1     2     3     4     5     6     7
 *      measured: used once more    .242  .423  .497  .579  .651  .632  .789  .835
 *      (uses + 1) / (uses + 4)     .250  .400  .500  .571  .625  .667  .700  .727
 *
 * The last line is the rule of succession with 1 yes and 3 no. Gaps between uses are 114 s at p50
 * and 519 s at p90. The log-logistic curve through these two points gives the share of gaps longer
 * than an age, and Bayes' rule the remaining chance when the object has not been used until then:
 *
 *      longer(age) = 1 / (1 + (age / 114 s)^1.45)          chance = p longer / (p longer + 1 - p)
 *
 * At most one use counts towards a value. The turns of a session raise the uses of its blocks
 * together, and it ends after thirty turns as suddenly as after three: counting two of them costs
 * up to a point of hit rate on agent traces with a hybrid model, and wins 0.06 on conversations
 * (docs/replay-traces.md has the numbers).
 *
 * TIME. Objects stored between two evictions have the same floor. Without a correction, those with
 * the latest tokens would be evicted first, however new; with a large cache that costs half a
 * point on the traces. So a value grows by a billionth per second: negligible against other
 * values, but enough to evict the older of equals first.
 *
 * Not here: raising the floor, and never evicting a parent before its children; these belong to
 * the owners of the heap and the tree.
 */
#include "cache/policy.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"

enum { ENTRY_USER = 1, ENTRY_SYSTEM = 2 }; /* as enum hearth_entry */

static const double GIB = 1024.0 * 1024 * 1024;
/* Used until the speed is measured; all objects of a model are alike then. */
static const double TOKENS_PER_S_NOMINAL = 1000;
/* Keeps one absurd object from raising the floor out of reach of all others. */
static const double VALUE_MAX = 1e9;
static const double TIME_SHARE_PER_S = 1e-9;

enum { USES_COUNTED = 1 };

static const double GAP_S_P50 = 114;
static const double GAP_SHAPE = 1.45; /* ln 9 / ln (p90 / p50) */

/* Shared anchors are used by conversations that come and go with people, not by the turns of one
 * conversation: half of the gaps are taken to be longer than a day, with a prior of three yes
 * and one no. The lowest chance of such an anchor below a day (0.6) against the highest that a
 * tail can count (0.4) gives the factor of 1.5 that the header promises. */
static const double ANCHOR_GAP_S_P50 = 24 * 3600;

enum {
    REPLACE_TOKENS_MIN = 1000,
    GAP_TOKENS_MIN = 256,   /* a block: below that, recomputing is cheaper than any bookkeeping */
    GAP_TOKENS_MAX = 16384, /* this much computing is worth a snapshot of any size */
    /* anchors and junctions also serve other conversations, transient text the next turn */
    SHARED_MARK_WEIGHT = 4,
    GUESS_PART = 4, /* a guess is worth so many times less than what was used */
    /* a grid position only serves prompts that happen to branch after it, so it must save this
     * many gaps */
    GRID_GAPS = 8,
};

/* The last use, in nanoseconds; a use before the start of the clock counts as its start. */
static uint64_t used_ns(const struct policy_entry *entry)
{
    return entry->now_ns > entry->age_ns ? entry->now_ns - entry->age_ns : 0;
}

static double used_s(const struct policy_entry *entry)
{
    return (double)used_ns(entry) / (double)NS_PER_S;
}

/* Below everything else under any policy; the longest unused first. Clocks do not reach 2^63 ns. */
static double superseded(const struct policy_entry *entry)
{
    return (double)used_ns(entry) - 0x1p63;
}

/* Seconds saved per GiB and use, times `uses`. */
static double worth(const struct policy_entry *entry, double uses)
{
    double tokens_per_s = entry->tokens_per_s > 0 ? entry->tokens_per_s : TOKENS_PER_S_NOMINAL;
    double seconds = (double)(entry->end - entry->begin) / tokens_per_s;
    double gib = (double)MAX(entry->bytes, 1) / GIB;

    return fmin(uses * seconds / gib, VALUE_MAX) * (1 + used_s(entry) * TIME_SHARE_PER_S);
}

static double saving_per_byte(const struct policy_entry *entry)
{
    /* An anchor that is not shared ends with its session, as a tail does. */
    uint8_t kind = entry->shared ? entry->entry : MIN(entry->entry, ENTRY_USER);

    return worth(entry, policy_reuse_chance(MIN(entry->uses, USES_COUNTED), entry->age_ns, kind));
}

static double guessed(const struct policy_entry *entry, double value)
{
    return entry->guess ? value / GUESS_PART : value;
}

/* 0, negative values and NaN mean "unknown". */
static bool is_known(double v)
{
    return v > 0;
}

bool policy_find(const char *name, enum policy *policy)
{
    for (size_t i = 0; i < POLICY_COUNT; i++)
        if (strcmp(policy_names[i], name) == 0) {
            *policy = (enum policy)i;
            return true;
        }
    return false;
}

double policy_priority(enum policy policy, const struct policy_entry *entry)
{
    assert(entry->begin <= entry->end);
    if (entry->superseded)
        return superseded(entry);
    switch (policy) {
    case POLICY_LRU_TAIL:
        return guessed(entry, (double)used_ns(entry));
    case POLICY_EXPECTED_REUSE:
        return guessed(entry, worth(entry, entry->uses_per_s));
    default:
        assert(policy == POLICY_SAVING_PER_BYTE);
        return entry->floor + guessed(entry, saving_per_byte(entry));
    }
}

double policy_reuse_chance(uint32_t uses, uint64_t age_ns, uint8_t entry)
{
    bool anchor = entry == ENTRY_SYSTEM;
    double yes = (double)uses + (anchor ? 3 : 1), no = anchor ? 1 : 3;
    double age = (double)age_ns / (double)NS_PER_S / (anchor ? ANCHOR_GAP_S_P50 : GAP_S_P50);

    /* p longer / (p longer + 1 - p), with p = yes / (yes + no) and 1 / longer = 1 + age^shape. */
    return yes / (yes + no * (1 + pow(age, GAP_SHAPE)));
}

bool policy_may_replace(uint32_t reused, uint32_t prompt, uint32_t system)
{
    return reused >= MAX(REPLACE_TOKENS_MIN, system) && 2 * (uint64_t)reused >= prompt;
}

/* ---- snapshots ---- */

/* A snapshot costs as much as the rows of this many tokens, and has to save at least as many. */
static uint32_t gap_tokens(const struct policy_snapshot *where)
{
    if (where->rows_bytes_per_token == 0)
        return GAP_TOKENS_MIN;
    uint64_t tokens = where->snapshot_bytes / where->rows_bytes_per_token;
    return (uint32_t)MIN(MAX(tokens, GAP_TOKENS_MIN), GAP_TOKENS_MAX);
}

/* The last position that can be resumed: the last token of a prompt is always computed, for its
 * logits. */
static uint32_t end_of(const struct policy_snapshot *where)
{
    return where->generated || where->count == 0 ? where->count : where->count - 1;
}

struct mark {
    uint32_t at;
    uint32_t weight;
};

enum { MARKS_MAX = 4 };

/* The marks of a prompt that are worth their bytes, ascending. Each saves the tokens between it
 * and the previous one. */
static size_t worthy_marks(const struct policy_snapshot *where, struct mark *marks)
{
    struct mark all[MARKS_MAX] = {{where->anchor, SHARED_MARK_WEIGHT},
                                  {where->junction, SHARED_MARK_WEIGHT},
                                  {where->transient, SHARED_MARK_WEIGHT},
                                  {where->last_user, 1}};
    uint32_t before = where->from, end = end_of(where);
    size_t count = 0;

    for (size_t round = 0; round < MARKS_MAX; round++) {
        struct mark *next = NULL; /* the lowest remaining one */
        for (size_t i = 0; i < MARKS_MAX; i++)
            if (all[i].at > before && all[i].at < end && (next == NULL || all[i].at < next->at))
                next = &all[i];
        if (next == NULL)
            break;
        if ((uint64_t)(next->at - before) * next->weight >= gap_tokens(where)) {
            marks[count++] = *next;
            before = next->at;
        }
        next->at = 0;
    }
    return count;
}

/* The grid fills the gaps between marks: every `sparse` tokens, or a multiple of that when
 * GRID_GAPS gaps are more, and never within half a step of any mark. */
static bool on_sparse_grid(const struct policy_snapshot *where, const struct mark *marks,
                           size_t count, uint32_t at)
{
    if (where->sparse == 0)
        return false;
    uint64_t gap = GRID_GAPS * (uint64_t)gap_tokens(where);
    uint64_t step = (gap + where->sparse - 1) / where->sparse * where->sparse;
    uint64_t apart = step / 2;
    if (at % step != 0 || at < where->from + apart || at + apart > end_of(where))
        return false;
    for (size_t i = 0; i < count; i++)
        if (at + apart > marks[i].at && marks[i].at + apart > at)
            return false;
    return true;
}

bool policy_wants_snapshot(const struct policy_snapshot *where, uint32_t at)
{
    struct mark marks[MARKS_MAX];

    if (at <= where->from || at > end_of(where))
        return false;
    if (at == end_of(where) || at == where->fork)
        return true;
    size_t count = worthy_marks(where, marks);
    for (size_t i = 0; i < count; i++)
        if (marks[i].at == at)
            return true;
    return on_sparse_grid(where, marks, count, at);
}

/* ---- restore or recompute ---- */

double policy_fetch_seconds(uint64_t bytes, double bytes_per_s, double latency_s,
                            double import_bytes_per_s)
{
    double seconds = is_known(latency_s) ? latency_s : 0;

    if (is_known(bytes_per_s))
        seconds += (double)bytes / bytes_per_s;
    if (is_known(import_bytes_per_s))
        seconds += (double)bytes / import_bytes_per_s;
    return seconds;
}

bool policy_restore_pays(double fetch_s, double compute_s)
{
    return !is_known(compute_s) || fetch_s < compute_s;
}

const char *const policy_names[] = {POLICY_TABLE(TABLE_NAME)[POLICY_COUNT] = NULL};

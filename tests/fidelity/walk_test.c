/*
 * walk_test.c: random walks of several sequences, compared with an engine that computes everything.
 *
 * Sequences are begun, run in batches of several (prefills, single tokens, guesses of which some are
 * removed again), forked, truncated, settled, aborted, released, exported and imported, in any order
 * and beside each other. Rows are imported in pieces, cut, and with a snapshot that another sequence
 * left. After each step that computed something, the logits of a sequence are judged (cold.h). So a
 * state that is not that of its tokens is found by whatever comes after it.
 *
 * `make test` takes STEPS steps of fixed walks; `make truth` walks with random seeds
 * (HEARTH_WALK_STEPS, HEARTH_TEST_SEED).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/state.h"
#include "support/cold.h"
#include "support/models.h"
#include "support/test.h"

enum {
    STEPS = 100,
    SEQUENCES = 6,
    TOKENS_MAX = 400,
    CHUNK = 64,
    GUESSES_MAX = 4,
    KEPT_MAX = 8,
    PIECES = 3,
    CLAIMS_MAX = 1024,
};

/* The state of a sequence as it once was. */
struct kept {
    token_id tokens[TOKENS_MAX];
    uint32_t count;
    struct state_object rows[PIECES], snapshot; /* whole: the first of `rows` */
    size_t rows_count;
};

struct line {
    seq_id seq; /* SEQ_NONE: free */
    token_id tokens[TOKENS_MAX];
    uint32_t count;
};

struct walk {
    const char *family;
    uint64_t seed, first_seed;
    struct cold cold;
    struct engine *engine;
    const struct engine_facts *facts;
    struct line lines[SEQUENCES];
    struct kept kept[KEPT_MAX];
    unsigned ticks_left; /* then the run is aborted; 0: never */
    uint64_t step, judged, looked_twice, cuts, refused, imports, forks, aborts;
    bool trace; /* print every step */
};

/* What a step does, printed when it is wanted (HEARTH_WALK_TRACE=1): the story of a failure. */
PRINTF(2, 3) static void tell(const struct walk *walk, const char *fmt, ...)
{
    va_list args;

    if (!walk->trace)
        return;
    printf("%llu: ", (unsigned long long)walk->step);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    printf("\n");
}

static uint32_t below(struct walk *walk, uint64_t n)
{
    return (uint32_t)test_random_below(&walk->seed, n);
}

static struct line *some_line(struct walk *walk, bool used)
{
    for (int tries = 0; tries < 40; tries++) {
        struct line *line = &walk->lines[below(walk, SEQUENCES)];
        if ((line->seq != SEQ_NONE) == used && (!used || line->count > 0))
            return line;
    }
    return NULL;
}

static void release(struct walk *walk, struct line *line)
{
    tell(walk, "release %d of %u", line->seq, line->count);
    engine_seq_release(walk->engine, &line->seq);
    line->count = 0;
}

/* ---- judging ---- */

/* The logits after the first `count` tokens of the line, of all tokens. */
static void judge(struct walk *walk, const struct line *line, uint32_t count, const float *logits)
{
    static struct cold_claim claims[CLAIMS_MAX];
    uint32_t vocab = walk->facts->vocab;
    struct cold_subject subject = {line->tokens, count, claims, vocab};

    assert_true(vocab <= CLAIMS_MAX);
    for (uint32_t i = 0; i < vocab; i++)
        claims[i] = (struct cold_claim){count, (token_id)i, logits[i]};
    cold_normalize(claims, vocab);
    struct cold_verdict verdict = cold_judge(&walk->cold, &subject);
    walk->judged++;
    walk->looked_twice += verdict.ways > 1;
    if (verdict.wrong)
        fail_msg(
            "%s: after %u tokens of sequence %d log-probabilities are off by %.4f; %u cold runs "
            "differ by %.4f from each other. Again: HEARTH_TEST_SEED=0x%llx "
            "HEARTH_WALK_STEPS=%llu HEARTH_WALK_TRACE=1",
            walk->family, count, line->seq, verdict.nearest, verdict.ways, verdict.spread,
            (unsigned long long)walk->first_seed, (unsigned long long)walk->step + 1);
}

/* ---- runs ---- */

struct part {
    struct line *line;
    uint32_t keep; /* of its tokens, the others are removed again */
};

static void on_tick(void *arg)
{
    struct walk *walk = arg;

    if (walk->ticks_left > 0 && --walk->ticks_left == 0)
        engine_abort(walk->engine);
}

/* Chooses what a line gets: a prefill, one token, or guesses after one. */
static uint32_t choose_tokens(struct walk *walk, struct part *part, uint32_t room)
{
    struct line *line = part->line;
    uint32_t how = below(walk, 4), count = 1;

    part->keep = UINT32_MAX;
    if (how == 0 || line->count == 0) {
        count = 1 + below(walk, CHUNK);
    } else if (how < 3) {
        count += 1 + below(walk, GUESSES_MAX);
        part->keep = line->count + 1 + below(walk, count);
    }
    count = MIN(MIN(count, room), TOKENS_MAX - line->count);
    for (uint32_t i = 0; i < count; i++)
        line->tokens[line->count + i] = cold_random_token(&walk->cold, &walk->seed);
    return count;
}

static void cut(struct walk *walk, struct line *line, uint32_t length)
{
    enum err err = engine_seq_truncate(walk->engine, line->seq, length, NULL);

    if (err == ERR_OK)
        line->count = length;
    else
        assert_err(err, ERR_UNSUPPORTED);
    tell(walk, "cut %d to %u: %s", line->seq, length, err_name(err));
    walk->cuts += err == ERR_OK;
    walk->refused += err != ERR_OK;
    assert_int_equal(engine_seq_length(walk->engine, line->seq), line->count);
}

/* Those that can be cut end where they were computed, the others can only be released. Recurrent
 * states are all broken. */
static void take_abort(struct walk *walk, struct part *parts, size_t count)
{
    walk->aborts++;
    for (int i = 0; (walk->facts->kinds & KIND_BIT(KIND_RECURRENT)) && i < SEQUENCES; i++)
        if (walk->lines[i].count > 0)
            release(walk, &walk->lines[i]);
    for (size_t i = 0; i < count; i++) {
        struct line *line = parts[i].line;
        if (line->seq == SEQ_NONE)
            continue;
        uint32_t length = engine_seq_length(walk->engine, line->seq);
        if (!kind_set_sliceable(walk->facts->kinds) || length == 0)
            release(walk, line);
        else
            line->count = length;
    }
}

static void take_run(struct walk *walk, struct part *parts, const struct engine_item *items,
                     size_t count)
{
    size_t judged = below(walk, (uint64_t)count);

    for (size_t i = 0; i < count; i++)
        parts[i].line->count += items[i].count;
    uint32_t nth = below(walk, items[judged].logits);
    judge(walk, parts[judged].line, parts[judged].line->count - items[judged].logits + nth + 1,
          engine_logits_nth(walk->engine, judged, nth));
    for (size_t i = 0; walk->trace && i < count; i++) /* so that the first wrong one is shown */
        judge(walk, parts[i].line, parts[i].line->count, engine_logits(walk->engine, i));
    for (size_t i = 0; i < count; i++)
        if (parts[i].keep < parts[i].line->count)
            cut(walk, parts[i].line, parts[i].keep);
}

static void step_run(struct walk *walk)
{
    struct engine_item items[SEQUENCES];
    struct part parts[SEQUENCES];
    uint32_t room = CHUNK;
    size_t count = 0, wish = 1 + below(walk, below(walk, 2) ? 1 : SEQUENCES);

    for (int i = 0; i < SEQUENCES && count < wish; i++) {
        struct line *line = &walk->lines[(walk->step + (uint64_t)i) % SEQUENCES];
        if (line->seq == SEQ_NONE || line->count + 1 >= TOKENS_MAX || room == 0)
            continue;
        parts[count].line = line;
        uint32_t tokens = choose_tokens(walk, &parts[count], room);
        items[count++] = (struct engine_item){line->seq, line->tokens + line->count, tokens,
                                              MIN(tokens, (uint32_t)GUESSES_MAX + 1)};
        room -= tokens;
    }
    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        tell(walk, "run %d from %u, %u tokens", items[i].seq, parts[i].line->count, items[i].count);
    walk->ticks_left = below(walk, 12) == 0 ? 1 + below(walk, 60) : 0;
    enum err err = engine_run(walk->engine, items, count, NULL);
    walk->ticks_left = 0;
    tell(walk, "... %s", err_name(err));
    if (err == ERR_CANCELLED) {
        take_abort(walk, parts, count);
    } else if (err == ERR_LIMIT) {
        release(walk, parts[0].line);
    } else {
        assert_ok(err);
        take_run(walk, parts, items, count);
    }
}

/* ---- sequences ---- */

static void step_begin(struct walk *walk)
{
    struct line *line = some_line(walk, false);

    if (line != NULL && engine_seq_acquire(walk->engine, &line->seq, NULL) == ERR_OK)
        line->count = 0;
}

static void step_fork(struct walk *walk)
{
    struct line *from = some_line(walk, true), *to = some_line(walk, false);

    if (from == NULL || to == NULL ||
        (walk->facts->slicing == ENGINE_SLICING_NONE && from->count == 0))
        return;
    enum err err = engine_seq_fork(walk->engine, from->seq, &to->seq, NULL);
    if (err == ERR_LIMIT)
        return;
    assert_ok(err);
    memcpy(to->tokens, from->tokens, sizeof(to->tokens));
    to->count = from->count;
    tell(walk, "fork %d of %u as %d", from->seq, from->count, to->seq);
    walk->forks++;
}

static void step_release(struct walk *walk)
{
    struct line *line = some_line(walk, true);

    if (line != NULL)
        release(walk, line);
}

static void step_cut(struct walk *walk)
{
    struct line *line = some_line(walk, true);

    if (line != NULL && line->count > 1)
        cut(walk, line, 1 + below(walk, line->count - 1));
}

static void step_settle(struct walk *walk)
{
    struct line *line = some_line(walk, true);

    if (line == NULL)
        return;
    tell(walk, "settle %d at %u", line->seq, line->count);
    assert_ok(engine_seq_settle(walk->engine, line->seq, NULL));
}

/* ---- state ---- */

static void drop(struct kept *kept)
{
    for (size_t i = 0; i < kept->rows_count; i++)
        mem_free((void *)(uintptr_t)kept->rows[i].data);
    mem_free((void *)(uintptr_t)kept->snapshot.data);
    *kept = (struct kept){0};
}

static void keep_whole(struct walk *walk, seq_id seq, struct kept *kept)
{
    uint64_t bytes = state_whole_bytes(walk->engine, seq);
    void *data = mem_alloc(bytes);

    assert_ok(state_export_whole(walk->engine, seq, data, bytes, &kept->rows[0].shape, NULL));
    kept->rows[0].data = data;
    kept->rows_count = 1;
}

static void keep_rows(struct walk *walk, seq_id seq, struct kept *kept)
{
    size_t pieces = 1 + below(walk, PIECES);
    uint32_t begin = 0;

    for (size_t i = 0; i < pieces && begin < kept->count; i++) {
        uint32_t end = i + 1 == pieces ? kept->count : begin + 1 + below(walk, kept->count - begin);
        uint64_t bytes = state_range_capacity(walk->engine, seq, begin, end);
        void *data = mem_alloc(bytes);
        struct state_object *rows = &kept->rows[kept->rows_count++];
        assert_ok(
            state_export_rows(walk->engine, seq, begin, end, data, bytes, &rows->shape, NULL));
        rows->data = data;
        begin = end;
    }
}

static void step_export(struct walk *walk)
{
    struct line *line = some_line(walk, true);
    struct kept *kept = &walk->kept[below(walk, KEPT_MAX)];

    if (line == NULL || walk->facts->slicing == ENGINE_SLICING_NONE)
        return;
    drop(kept);
    memcpy(kept->tokens, line->tokens, sizeof(kept->tokens));
    kept->count = line->count;
    tell(walk, "export %d at %u", line->seq, line->count);
    if (walk->facts->slicing == ENGINE_SLICING_WHOLE) {
        keep_whole(walk, line->seq, kept);
        return;
    }
    if (walk->facts->rows_bytes_per_token > 0)
        keep_rows(walk, line->seq, kept);
    if (kind_set_needs_snapshot(walk->facts->kinds)) {
        uint64_t bytes = state_snapshot_bytes(walk->engine, line->seq);
        void *data = mem_alloc(bytes);
        assert_ok(state_export_snapshot(walk->engine, line->seq, data, bytes, &kept->snapshot.shape,
                                        NULL));
        kept->snapshot.data = data;
    }
}

/* Rows of a sequence that begins with these tokens: of another one, if there is one. */
static const struct kept *rows_for(struct walk *walk, const struct kept *kept)
{
    for (int tries = 0; tries < KEPT_MAX; tries++) {
        const struct kept *other = &walk->kept[below(walk, KEPT_MAX)];
        if (other->count >= kept->count && other->rows_count > 0 &&
            memcmp(other->tokens, kept->tokens, kept->count * sizeof(*kept->tokens)) == 0)
            return other;
    }
    return kept;
}

static void step_import(struct walk *walk)
{
    struct kept *kept = &walk->kept[below(walk, KEPT_MAX)];
    struct line *line = some_line(walk, false);
    bool whole = walk->facts->slicing == ENGINE_SLICING_WHOLE;

    if (kept->count == 0 || line == NULL)
        return;
    const struct kept *rows = whole ? kept : rows_for(walk, kept);
    struct state_restore restore = {.rows = rows->rows, .length = kept->count};
    if (kept->snapshot.data != NULL)
        restore.snapshot = &kept->snapshot;
    else if (!whole)
        restore.length = 1 + below(walk, kept->count);
    while (restore.rows_count < rows->rows_count &&
           (restore.rows_count == 0 || rows->rows[restore.rows_count].shape.begin < restore.length))
        restore.rows_count++;
    enum err err = state_import(walk->engine, &restore, &line->seq, NULL);
    if (err == ERR_LIMIT)
        return;
    assert_ok(err);
    memcpy(line->tokens, kept->tokens, sizeof(line->tokens));
    line->count = restore.length;
    tell(walk, "import %u of %u as %d, rows of one of %u in %zu pieces", restore.length,
         kept->count, line->seq, rows->count, restore.rows_count);
    walk->imports++;
}

/* ---- walks ---- */

static const struct {
    void (*take)(struct walk *walk);
    unsigned weight;
} steps[] = {
    {step_run, 12}, {step_begin, 2},  {step_fork, 2},   {step_release, 1},
    {step_cut, 1},  {step_settle, 1}, {step_export, 3}, {step_import, 3},
};

static void take_step(struct walk *walk)
{
    unsigned all = 0, chosen, i = 0;

    for (size_t k = 0; k < COUNT_OF(steps); k++)
        all += steps[k].weight;
    chosen = below(walk, all);
    while (chosen >= steps[i].weight)
        chosen -= steps[i++].weight;
    steps[i].take(walk);
    walk->step++;
}

static uint64_t wanted_steps(void)
{
    const char *text = getenv("HEARTH_WALK_STEPS");
    uint64_t count;

    return text != NULL && str_to_u64(str_from(text), &count) && count > 0 ? count : 0;
}

static void check_walk(const char *family, struct engine_options options, uint64_t seed)
{
    static struct walk walk;
    uint64_t wanted = wanted_steps();

    walk = (struct walk){.family = family, .seed = wanted > 0 ? test_seed() : seed};
    walk.first_seed = walk.seed;
    walk.trace = getenv("HEARTH_WALK_TRACE") != NULL;
    options.path = test_model_narrow(family);
    cold_open(&walk.cold, &options, walk.seed);
    options.context = SEQUENCES * TOKENS_MAX;
    options.sequences = SEQUENCES;
    options.chunk = CHUNK;
    options.threads = 1;
    options.rollback = walk.seed % 2 ? GUESSES_MAX : 0; /* both: states lie elsewhere in memory */
    options.on_tick = on_tick;
    options.tick_arg = &walk;
    assert_ok(engine_load(&walk.engine, &options, NULL));
    walk.facts = engine_facts(walk.engine);
    for (int i = 0; i < SEQUENCES; i++)
        walk.lines[i].seq = SEQ_NONE;
    for (uint64_t left = wanted > 0 ? wanted : STEPS; left > 0; left--)
        take_step(&walk);
    printf(
        "%-13s %llu judged, %llu of them twice; %llu imports, %llu forks, %llu cuts, %llu refused, "
        "%llu aborts; usual %.4f\n",
        family, (unsigned long long)walk.judged, (unsigned long long)walk.looked_twice,
        (unsigned long long)walk.imports, (unsigned long long)walk.forks,
        (unsigned long long)walk.cuts, (unsigned long long)walk.refused,
        (unsigned long long)walk.aborts, walk.cold.usual);
    assert_true(walk.judged > 0 && walk.forks > 0);
    for (int i = 0; i < KEPT_MAX; i++)
        drop(&walk.kept[i]);
    engine_close(&walk.engine);
    cold_close(&walk.cold);
}

#define FAMILIES(X) \
    X(qwen3)        \
    X(gemma3) X(qwen35) X(lfm2) X(nemotron_h) X(granitehybrid) X(mamba2) X(deepseek2) X(qwen3moe)
#define STREAMS(X) X(qwen3) X(gemma3) X(qwen35) X(mamba2)
#define TEST_OF(family)                                     \
    static void test_##family(void **state)                 \
    {                                                       \
        (void)state;                                        \
        check_walk(#family, (struct engine_options){0}, 1); \
    }
#define STREAMS_TEST_OF(family)                                           \
    static void test_##family##_streams(void **state)                     \
    {                                                                     \
        (void)state;                                                      \
        check_walk(#family, (struct engine_options){.streams = true}, 1); \
    }
#define ENTRY(family)         TEST(test_##family),
#define STREAMS_ENTRY(family) TEST(test_##family##_streams),

FAMILIES(TEST_OF)
STREAMS(STREAMS_TEST_OF)

TEST_SUITE(FAMILIES(ENTRY) STREAMS(STREAMS_ENTRY))

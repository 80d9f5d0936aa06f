/*
 * cold.c: see cold.h. The first way is that of a server without a cache: whole chunks, then token by
 * token where claims begin. The second has whole chunks to the end. The others have random cuts and
 * neighbours.
 */
#include "support/cold.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/test.h"

enum {
    CONTEXT = 16384,
    CHUNK = 512,
    PIECE_MAX = 48,        /* where claims are: each token has logits */
    NEIGHBOUR_TOKENS = 24, /* in a batch */
    NEIGHBOUR_MAX = 1000,
    USUAL_PROMPTS = 5,
    USUAL_WAYS = 5,
    WAYS_FIRST = 8, /* that are run before a verdict */
    HOPELESS = 4,   /* times too far: other ways will not come near either */
    TOPS = 20,
    ANSWER = 6, /* of the prompts that are measured */
    LENGTH_MAX = CONTEXT / 2
};

/* Where all ways have the same bits: answers are written in digits. */
static const double least = 1e-4;

/* Log-probabilities after first, first + 1, ... last tokens. */
struct rows {
    uint32_t first, last;
    float *values;
};

const char *cold_lie_text(enum cold_lie lie)
{
    static const char *const texts[] = {
#define X(value, text) text,
        COLD_LIE_TABLE(X)
#undef X
    };

    return texts[lie];
}

/* ---- running ---- */

static float *row_of(const struct cold *cold, const struct rows *rows, uint32_t at)
{
    assert_true(at >= rows->first && at <= rows->last);
    return rows->values + (size_t)(at - rows->first) * cold->facts->vocab;
}

static void put_row(const struct cold *cold, const float *logits, float *row)
{
    uint32_t vocab = cold->facts->vocab;
    double largest = -INFINITY, sum = 0;

    for (uint32_t i = 0; i < vocab; i++)
        largest = fmax(largest, (double)logits[i]);
    for (uint32_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - largest);
    for (uint32_t i = 0; i < vocab; i++)
        row[i] = (float)((double)logits[i] - largest - log(sum));
}

void cold_normalize(struct cold_claim *claims, size_t count)
{
    double largest = -INFINITY, sum = 0;

    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, (double)claims[i].logprob);
    for (size_t i = 0; i < count; i++)
        sum += exp((double)claims[i].logprob - largest);
    for (size_t i = 0; i < count; i++)
        claims[i].logprob = (float)((double)claims[i].logprob - largest - log(sum));
}

struct way {
    bool plain, single;   /* whole chunks; then token by token */
    seq_id neighbours[2]; /* SEQ_NONE: none */
};

/* How many tokens the next batch takes. A batch has few places for logits. */
static uint32_t piece_at(struct cold *cold, const struct way *way, const struct rows *rows,
                         uint32_t at)
{
    uint32_t before = rows->first - 1; /* tokens of which no rows are wanted */
    uint32_t end = MIN(rows->last, MAX(before, at) + PIECE_MAX);
    uint32_t most = MIN(end - at, cold->facts->chunk);

    if (way->single)
        most = at < before ? MIN(before - at, most) : 1;
    if (way->plain)
        return most;
    /* Short pieces as well as long ones. */
    return 1 + (uint32_t)test_random_below(&cold->seed, 1 + test_random_below(&cold->seed, most));
}

/* Neighbours come and go, so that the cells of the sequence have gaps and are in no order: sums over
 * them round differently. */
static uint32_t choose_neighbour(struct cold *cold, struct way *way, struct engine_item *item,
                                 uint32_t room)
{
    static token_id tokens[NEIGHBOUR_TOKENS];
    seq_id *seq = &way->neighbours[test_random_below(&cold->seed, COUNT_OF(way->neighbours))];

    if (*seq == SEQ_NONE)
        return 0;
    if (test_random_below(&cold->seed, 4) == 0) {
        engine_seq_release(cold->engine, seq);
        assert_ok(engine_seq_acquire(cold->engine, seq, NULL));
    }
    uint32_t count = (uint32_t)test_random_below(&cold->seed, NEIGHBOUR_TOKENS + 1);
    count = MIN(count, room);
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = cold_random_token(cold, &cold->seed);
    *item = (struct engine_item){*seq, tokens, count, 0};
    return engine_seq_length(cold->engine, *seq) < NEIGHBOUR_MAX ? count : 0;
}

static void run_piece(struct cold *cold, struct way *way, struct engine_item item)
{
    struct engine_item items[2] = {item};
    uint32_t beside = choose_neighbour(cold, way, &items[1], CHUNK - item.count);

    assert_ok(engine_run(cold->engine, items, beside > 0 ? 2 : 1, NULL));
    cold->tokens += item.count;
}

static struct way begin_way(struct cold *cold, unsigned number)
{
    struct way way = {.plain = number < 2, .single = number % 3 == 0};

    for (size_t i = 0; i < COUNT_OF(way.neighbours); i++) {
        way.neighbours[i] = SEQ_NONE;
        if (number > 1)
            assert_ok(engine_seq_acquire(cold->engine, &way.neighbours[i], NULL));
    }
    return way;
}

static struct rows run_way(struct cold *cold, const struct cold_subject *subject, unsigned number)
{
    struct rows rows = {subject->claims[0].at, subject->claims[subject->claims_count - 1].at, NULL};
    struct way way = begin_way(cold, number);
    seq_id seq;

    assert_true(rows.first >= 1 && rows.last <= subject->count && rows.last <= LENGTH_MAX);
    rows.values = mem_alloc_array((size_t)(rows.last - rows.first + 1) * cold->facts->vocab,
                                  sizeof(*rows.values));
    assert_ok(engine_seq_acquire(cold->engine, &seq, NULL));
    for (uint32_t at = 0, count; at < rows.last; at += count) {
        count = piece_at(cold, &way, &rows, at);
        uint32_t end = at + count, wanted = end < rows.first ? 0 : MIN(count, end + 1 - rows.first);
        run_piece(cold, &way, (struct engine_item){seq, subject->tokens + at, count, wanted});
        for (uint32_t i = 0; i < wanted; i++)
            put_row(cold, engine_logits_nth(cold->engine, 0, i),
                    row_of(cold, &rows, end - wanted + i + 1));
    }
    engine_seq_release(cold->engine, &seq);
    for (size_t i = 0; i < COUNT_OF(way.neighbours); i++)
        engine_seq_release(cold->engine, &way.neighbours[i]);
    return rows;
}

/* ---- comparing ---- */

static double distance_of_claims(const struct cold *cold, const struct cold_subject *subject,
                                 const struct rows *rows)
{
    double largest = 0;

    for (size_t i = 0; i < subject->claims_count; i++) {
        const struct cold_claim *claim = &subject->claims[i];
        double distance =
            fabs((double)claim->logprob - (double)row_of(cold, rows, claim->at)[claim->token]);
        if (!(distance <= largest)) /* also what is no number */
            largest = distance;
    }
    return largest;
}

/* Of two ways, where the subject claims something. */
static double distance_of_ways(const struct cold *cold, const struct cold_subject *subject,
                               const struct rows *a, const struct rows *b)
{
    double largest = 0;

    for (size_t i = 0; i < subject->claims_count; i++) {
        const struct cold_claim *claim = &subject->claims[i];
        largest = fmax(largest, fabs((double)row_of(cold, a, claim->at)[claim->token] -
                                     (double)row_of(cold, b, claim->at)[claim->token]));
    }
    return largest;
}

static void add_way(struct cold *cold, const struct cold_subject *subject, struct rows *all,
                    struct cold_verdict *verdict)
{
    struct rows *rows = &all[verdict->ways];

    *rows = run_way(cold, subject, verdict->ways);
    double distance = distance_of_claims(cold, subject, rows);
    if (verdict->ways == 0)
        verdict->distance = verdict->nearest = distance;
    verdict->nearest = fmin(verdict->nearest, distance);
    for (unsigned i = 0; i < verdict->ways; i++)
        verdict->spread = fmax(verdict->spread, distance_of_ways(cold, subject, &all[i], rows));
    verdict->ways++;
}

/* Times the largest distance that rounding explains. */
static bool is_beyond(const struct cold *cold, const struct cold_verdict *verdict, double times)
{
    return !(verdict->nearest <= times * COLD_FACTOR * fmax(cold->usual, verdict->spread));
}

struct cold_verdict cold_judge(struct cold *cold, const struct cold_subject *subject)
{
    struct cold_verdict verdict = {0};
    struct rows all[COLD_WAYS_MAX];

    add_way(cold, subject, all, &verdict);
    if (!(verdict.distance <= cold->usual))
        while (verdict.ways < WAYS_FIRST ||
               (verdict.ways < COLD_WAYS_MAX && is_beyond(cold, &verdict, 1) &&
                !is_beyond(cold, &verdict, HOPELESS)))
            add_way(cold, subject, all, &verdict);
    verdict.wrong = is_beyond(cold, &verdict, 1);
    for (unsigned i = 0; i < verdict.ways; i++)
        mem_free(all[i].values);
    return verdict;
}

/* ---- measuring ---- */

token_id cold_random_token(const struct cold *cold, uint64_t *seed)
{
    for (;;) {
        token_id token = (token_id)test_random_below(seed, cold->facts->vocab);
        if (!engine_token_is_control(cold->engine, token) &&
            !engine_token_is_end(cold->engine, token) &&
            engine_token_bytes(cold->engine, token, false, NULL, 0) > 0)
            return token;
    }
}

static void fill(struct cold *cold, token_id *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = cold_random_token(cold, &cold->seed);
}

/* The most probable tokens after each of the last ANSWER tokens, as an answer has them. */
static void claim_tops(struct cold *cold, struct cold_subject *subject, struct cold_claim *claims)
{
    struct cold_claim span[] = {{subject->count - ANSWER + 1, 0, 0}, {subject->count, 0, 0}};
    struct cold_subject all = {subject->tokens, subject->count, span, COUNT_OF(span)};
    struct rows rows = run_way(cold, &all, 0);

    subject->claims = claims;
    subject->claims_count = 0;
    for (uint32_t at = rows.first; at <= rows.last; at++) {
        float *row = row_of(cold, &rows, at);
        for (int n = 0; n < TOPS; n++) {
            token_id best = 0;
            for (uint32_t i = 1; i < cold->facts->vocab; i++)
                best = row[i] > row[best] ? (token_id)i : best;
            claims[subject->claims_count++] = (struct cold_claim){at, best, row[best]};
            row[best] = -INFINITY;
        }
    }
    mem_free(rows.values);
}

static void measure_usual(struct cold *cold)
{
    static token_id tokens[CHUNK * USUAL_PROMPTS];
    static struct cold_claim claims[ANSWER * TOPS];

    for (int i = 0; i < USUAL_PROMPTS; i++) {
        struct cold_subject subject = {tokens, (uint32_t)(30 + 120 * i), NULL, 0};
        struct cold_verdict verdict = {0};
        struct rows all[USUAL_WAYS];
        fill(cold, tokens, subject.count);
        claim_tops(cold, &subject, claims);
        for (int k = 0; k < USUAL_WAYS; k++)
            add_way(cold, &subject, all, &verdict);
        cold->usual = fmax(cold->usual, verdict.spread);
        for (int k = 0; k < USUAL_WAYS; k++)
            mem_free(all[k].values);
    }
}

void cold_open(struct cold *cold, const struct engine_options *options, uint64_t seed)
{
    struct engine_options filled = *options;
    struct errinfo info = {0};

    filled.context = CONTEXT;
    filled.sequences = 3;
    filled.chunk = CHUNK;
    filled.streams = false; /* cells in other orders round differently */
    filled.threads = 1;
    *cold = (struct cold){.seed = seed};
    if (engine_load(&cold->engine, &filled, &info) != ERR_OK)
        fail_msg("%s: %s", filled.path, info.text);
    cold->facts = engine_facts(cold->engine);
    measure_usual(cold);
    cold->usual = fmax(cold->usual, least);
}

void cold_close(struct cold *cold)
{
    engine_close(&cold->engine);
}

/* ---- power ---- */

/* The tokens that a wrong state has; `count` of them are right, and the last ANSWER are the answer. */
static uint32_t tell_lie(struct cold *cold, enum cold_lie lie, token_id *tokens, uint32_t count)
{
    uint32_t prompt = count - ANSWER, at;

    switch (lie) {
    case COLD_LIE_TOKEN:
        at = (uint32_t)test_random_below(&cold->seed, prompt);
        fill(cold, tokens + at, 1);
        return count;
    case COLD_LIE_BLOCK:
        at = (uint32_t)test_random_below(&cold->seed, prompt - 16);
        fill(cold, tokens + at, 16);
        return count;
    case COLD_LIE_MISSING:
        at = (uint32_t)test_random_below(&cold->seed, prompt);
        memmove(tokens + at, tokens + at + 1, (count - at - 1) * sizeof(*tokens));
        return count - 1;
    case COLD_LIE_LAST:
        memmove(tokens + prompt, tokens + prompt - 1, (ANSWER + 1) * sizeof(*tokens));
        return count + 1;
    default:
        memmove(tokens + prompt + 3, tokens + prompt, ANSWER * sizeof(*tokens));
        fill(cold, tokens + prompt, 3);
        return count + 3;
    }
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double judge_lie(struct cold *cold, enum cold_lie lie, const token_id *right,
                        uint32_t length, bool *found)
{
    token_id *tokens = mem_alloc_array(length + 8, sizeof(*tokens));
    static struct cold_claim claims[ANSWER * TOPS];
    struct cold_subject subject = {tokens, 0, NULL, 0};

    memcpy(tokens, right, length * sizeof(*tokens));
    subject.count = tell_lie(cold, lie, tokens, length);
    claim_tops(cold, &subject, claims);
    for (size_t i = 0; i < subject.claims_count; i++)
        claims[i].at = claims[i].at + length - subject.count; /* as the right tokens count */
    subject.tokens = right;
    subject.count = length;
    struct cold_verdict verdict = cold_judge(cold, &subject);
    *found = verdict.wrong;
    mem_free(tokens);
    return verdict.nearest;
}

void cold_measure_power(struct cold *cold, uint32_t length, unsigned prompts,
                        struct cold_power power[COLD_LIE_COUNT])
{
    token_id *right = mem_alloc_array(length, sizeof(*right));
    double *distances = mem_alloc_array(prompts, sizeof(*distances));

    for (enum cold_lie lie = 0; lie < COLD_LIE_COUNT; lie++) {
        power[lie] = (struct cold_power){.tried = prompts};
        for (unsigned i = 0; i < prompts; i++) {
            bool found;
            fill(cold, right, length);
            distances[i] = judge_lie(cold, lie, right, length, &found);
            power[lie].found += found;
        }
        qsort(distances, prompts, sizeof(*distances), compare_doubles);
        power[lie].median = distances[prompts / 2];
    }
    mem_free(distances);
    mem_free(right);
}

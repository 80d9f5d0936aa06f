#include "engine/sample.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "engine/engine_ops.h"
#include "support/test.h"

/* ---- an engine whose logits are what a test says ---- */

enum { VOCAB = 32, END = 30, END_TOO = 31, CONTEXT = 64 };

struct bench {
    struct engine base;
    float logits[VOCAB];
};

static const float *bench_logits(struct engine *engine, size_t output)
{
    assert_int_equal(output, 0);
    return ((struct bench *)engine)->logits;
}

static bool bench_is_end(const struct engine *engine, token_id token)
{
    (void)engine;
    return token >= END;
}

static const struct engine_ops bench_ops = {.logits = bench_logits, .token_is_end = bench_is_end};

/* Logits fall by 0.25 from token to token: 0 is the most probable, and no two are equal. */
static void bench_init(struct bench *bench)
{
    *bench = (struct bench){.base = {.ops = &bench_ops, .run_items = 2, .run_outputs = {0, 1, 1}}};
    bench->base.facts.vocab = VOCAB;
    bench->base.facts.context = CONTEXT;
    for (int i = 0; i < VOCAB; i++)
        bench->logits[i] = 3.0f - 0.25f * (float)i;
}

static void bench_randomise(struct bench *bench, uint64_t *seed)
{
    for (int i = 0; i < VOCAB; i++)
        bench->logits[i] = (float)test_random_below(seed, 1000000) / 1e5f - 5.0f;
}

/* A new sampler; the test fails when it is refused. */
static struct sampler *create(struct bench *bench, const struct sample_params *params)
{
    struct errinfo info = {0};
    struct sampler *sampler = NULL;

    if (sampler_create(&sampler, &bench->base, params, &info) != ERR_OK)
        fail_msg("%s", info.text);
    return sampler;
}

static token_id pick(struct sampler *sampler)
{
    struct errinfo info = {0};
    struct sample_pick result;

    if (sampler_pick(sampler, 0, &result, &info) != ERR_OK)
        fail_msg("%s", info.text);
    return result.token;
}

/* What a fresh sampler picks first. */
static token_id pick_once(struct bench *bench, const struct sample_params *params)
{
    struct sampler *sampler = create(bench, params);
    token_id token = pick(sampler);

    sampler_destroy(&sampler);
    return token;
}

static struct sample_params greedy(void)
{
    struct sample_params params = sample_params_default();

    params.temperature = 0;
    return params;
}

static struct sample_params random_with(uint64_t seed)
{
    struct sample_params params = sample_params_default();

    params.seed = seed;
    params.temperature = 1;
    return params;
}

/* How often each token comes in `draws` picks of one sampler. */
static void count(struct bench *bench, const struct sample_params *params, int draws,
                  int counts[VOCAB])
{
    struct sampler *sampler = create(bench, params);

    memset(counts, 0, VOCAB * sizeof(*counts));
    for (int i = 0; i < draws; i++)
        counts[pick(sampler)]++;
    sampler_destroy(&sampler);
}

static void probabilities(const float *logits, double temperature, double p[VOCAB])
{
    double sum = 0;

    for (int i = 0; i < VOCAB; i++)
        sum += p[i] = exp((double)logits[i] / temperature);
    for (int i = 0; i < VOCAB; i++)
        p[i] /= sum;
}

/* Within five standard deviations of what the probabilities want: one run in a million errs. */
static void assert_follows(const int counts[VOCAB], int draws, const double p[VOCAB])
{
    for (int i = 0; i < VOCAB; i++) {
        double sigma = sqrt(draws * p[i] * (1 - p[i]));
        if (fabs(counts[i] - draws * p[i]) > 5 * sigma + 1)
            fail_msg("token %d came %d times of %d, expected %.1f", i, counts[i], draws,
                     draws * p[i]);
    }
}

/* Exactly the tokens of `allowed` come. Enough draws that none with a probability above 1/1000
 * stays away. */
static void assert_support(struct bench *bench, const struct sample_params *params,
                           const bool allowed[VOCAB])
{
    int counts[VOCAB];
    double p[VOCAB];

    probabilities(bench->logits, 1, p);
    count(bench, params, 20000, counts);
    for (int i = 0; i < VOCAB; i++) {
        if (!allowed[i] && counts[i] > 0)
            fail_msg("token %d must not come, came %d times", i, counts[i]);
        if (allowed[i] && counts[i] == 0 && p[i] > 1e-3)
            fail_msg("token %d (p = %g) never came", i, p[i]);
    }
}

/* ---- picking ---- */

static void test_greedy_picks_the_largest(void **state)
{
    static const float greedy_temperatures[] = {0.0f, -1.0f, 1e-6f, FLT_MIN};
    uint64_t seed = test_seed();
    struct bench bench;

    (void)state;
    bench_init(&bench);
    for (int round = 0; round < 200; round++) {
        struct sample_params params = greedy();
        int largest = 0;
        params.temperature = greedy_temperatures[round % 4];
        bench_randomise(&bench, &seed);
        for (int i = 1; i < VOCAB; i++)
            largest = bench.logits[i] > bench.logits[largest] ? i : largest;
        assert_int_equal(pick_once(&bench, &params), largest);
    }
}

static void test_greedy_takes_the_first_of_equals(void **state)
{
    struct sample_params params = greedy();
    struct bench bench;

    (void)state;
    bench_init(&bench);
    bench.logits[7] = bench.logits[3] = bench.logits[20] = 9.0f;
    assert_int_equal(pick_once(&bench, &params), 3);
}

/* Steps that narrow a random choice leave a greedy one alone. */
static void test_greedy_ignores_what_narrows(void **state)
{
    struct sample_params params = greedy();
    struct bench bench;

    (void)state;
    bench_init(&bench);
    bench.logits[0] = 20.0f;
    params.typical_p = 0.01f;
    params.xtc_probability = 1.0f;
    params.xtc_threshold = 0.0f;
    params.top_k = 5;
    assert_int_equal(pick_once(&bench, &params), 0);
}

static void test_top_k_of_one_equals_greedy(void **state)
{
    uint64_t seed = test_seed();
    struct bench bench;

    (void)state;
    bench_init(&bench);
    for (int round = 0; round < 200; round++) {
        struct sample_params first = greedy(), second = random_with((uint64_t)round);
        second.top_k = 1;
        bench_randomise(&bench, &seed);
        assert_int_equal(pick_once(&bench, &first), pick_once(&bench, &second));
    }
}

static void test_random_picks_follow_the_softmax(void **state)
{
    static const float temperatures[] = {1.0f, 0.5f, 2.0f, 0.8f};
    enum { DRAWS = 20000 };
    struct bench bench;
    int counts[VOCAB];
    double p[VOCAB];

    (void)state;
    bench_init(&bench);
    for (size_t i = 0; i < COUNT_OF(temperatures); i++) {
        struct sample_params params = random_with(i);
        params.temperature = temperatures[i];
        probabilities(bench.logits, (double)temperatures[i], p);
        count(&bench, &params, DRAWS, counts);
        assert_follows(counts, DRAWS, p);
    }
}

/* ---- seeds ---- */

static void assert_same_picks(struct bench *bench, const struct sample_params *a,
                              const struct sample_params *b, bool same)
{
    struct sampler *first = create(bench, a), *second = create(bench, b);
    bool equal = true;

    for (int i = 0; i < 100; i++)
        equal &= pick(first) == pick(second);
    assert_int_equal(equal, same);
    sampler_destroy(&first);
    sampler_destroy(&second);
}

static void test_the_seed_decides(void **state)
{
    static const uint64_t seeds[] = {
        0, 1, 42, UINT32_MAX, UINT32_MAX - 1, (uint64_t)1 << 32, UINT64_MAX - 1};
    struct bench bench;

    (void)state;
    bench_init(&bench);
    for (size_t i = 0; i < COUNT_OF(seeds); i++) {
        struct sample_params params = random_with(seeds[i]), other = random_with(7);
        params.xtc_probability = other.xtc_probability = 0.5f;
        assert_same_picks(&bench, &params, &params, true);
        assert_same_picks(&bench, &params, &other, false);
        struct sampler *sampler = create(&bench, &params);
        other.seed = sampler_seed(sampler);
        sampler_destroy(&sampler);
        assert_same_picks(&bench, &params, &other, true);
    }
    struct sample_params low = random_with(5), high = random_with(5 + ((uint64_t)1 << 32));
    assert_same_picks(&bench, &low, &high, false);
}

static void test_a_random_seed_is_new_and_can_be_repeated(void **state)
{
    struct sample_params params = random_with(SAMPLE_SEED_RANDOM);
    struct bench bench;
    token_id picks[50];

    (void)state;
    bench_init(&bench);
    assert_same_picks(&bench, &params, &params, false);
    struct sampler *sampler = create(&bench, &params);
    for (size_t i = 0; i < COUNT_OF(picks); i++)
        picks[i] = pick(sampler);
    params.seed = sampler_seed(sampler);
    sampler_destroy(&sampler);
    sampler = create(&bench, &params);
    assert_int_equal(sampler_seed(sampler), params.seed);
    for (size_t i = 0; i < COUNT_OF(picks); i++)
        assert_int_equal(pick(sampler), picks[i]);
    sampler_destroy(&sampler);
}

/* ---- narrowing; tokens are in the order of their probability ---- */

static void allow_first(bool allowed[VOCAB], int n)
{
    for (int i = 0; i < VOCAB; i++)
        allowed[i] = i < n;
}

static void test_top_k_keeps_k(void **state)
{
    struct sample_params params = random_with(1);
    struct bench bench;
    bool allowed[VOCAB];

    (void)state;
    bench_init(&bench);
    params.top_k = 5;
    allow_first(allowed, 5);
    assert_support(&bench, &params, allowed);
    params.top_k = 1000;
    allow_first(allowed, VOCAB);
    assert_support(&bench, &params, allowed);
    params.top_k = -1;
    assert_support(&bench, &params, allowed);
}

static void test_top_p_keeps_the_smallest_set(void **state)
{
    struct sample_params params = random_with(2);
    struct bench bench;
    bool allowed[VOCAB];
    double p[VOCAB], sum = 0;
    int n = 0;

    (void)state;
    bench_init(&bench);
    probabilities(bench.logits, 1, p);
    params.top_p = 0.7f;
    while (sum < 0.7)
        sum += p[n++];
    assert_true(n > 1 && n < VOCAB);
    allow_first(allowed, n);
    assert_support(&bench, &params, allowed);
    params.top_p = 0;
    allow_first(allowed, 1);
    assert_support(&bench, &params, allowed);
}

static void test_min_p_keeps_a_share_of_the_largest(void **state)
{
    struct sample_params params = random_with(3);
    struct bench bench;
    bool allowed[VOCAB];

    (void)state;
    bench_init(&bench);
    params.min_p = 0.2f; /* e^(-0.25 n) >= 0.2: n <= 6.4 */
    allow_first(allowed, 7);
    assert_support(&bench, &params, allowed);
}

static void test_top_n_sigma_keeps_what_is_near_the_largest(void **state)
{
    struct sample_params params = random_with(4);
    struct bench bench;
    bool allowed[VOCAB];
    double deviation = 0.25 * sqrt((VOCAB * VOCAB - 1) / 12.0); /* of equally spaced logits */

    (void)state;
    bench_init(&bench);
    params.top_n_sigma = 0.5f;
    allow_first(allowed, 1 + (int)(0.5 * deviation / 0.25));
    assert_support(&bench, &params, allowed);
}

/* The tokens whose surprise is nearest to the entropy, until they have typical_p together. */
static void typical_oracle(const double p[VOCAB], double typical_p, bool allowed[VOCAB])
{
    double entropy = 0, sum = 0;

    for (int i = 0; i < VOCAB; i++)
        entropy -= p[i] > 0 ? p[i] * log(p[i]) : 0;
    memset(allowed, 0, VOCAB * sizeof(*allowed));
    while (sum <= typical_p) {
        int best = -1;
        for (int i = 0; i < VOCAB; i++)
            if (p[i] > 0 && !allowed[i] &&
                (best < 0 || fabs(-log(p[i]) - entropy) < fabs(-log(p[best]) - entropy)))
                best = i;
        allowed[best] = true;
        sum += p[best];
    }
}

static void test_typical_keeps_what_is_near_the_entropy(void **state)
{
    struct sample_params params = random_with(5);
    struct bench bench;
    bool allowed[VOCAB];
    double p[VOCAB];

    (void)state;
    bench_init(&bench);
    params.typical_p = 0.3f;
    probabilities(bench.logits, 1, p);
    typical_oracle(p, 0.3, allowed);
    assert_false(allowed[0]); /* the most probable one is not typical here */
    assert_support(&bench, &params, allowed);
}

/* Forbidden and vanishing candidates made the library's entropy a NaN, and "typical" any set. */
static void test_typical_bears_impossible_tokens(void **state)
{
    struct sample_params params = random_with(6);
    struct sample_bias ban = {1, -INFINITY};
    struct bench bench;
    bool allowed[VOCAB];
    double p[VOCAB];

    (void)state;
    bench_init(&bench);
    bench.logits[1] = -INFINITY;
    bench.logits[2] = -500.0f;
    probabilities(bench.logits, 1, p);
    params.typical_p = 0.3f;
    typical_oracle(p, 0.3, allowed);
    assert_support(&bench, &params, allowed);
    bench.logits[1] = 2.75f;
    params.biases = &ban;
    params.biases_count = 1;
    assert_support(&bench, &params, allowed);
}

static void test_xtc_takes_the_first_choices_away(void **state)
{
    struct sample_params params = random_with(7);
    struct bench bench;
    bool allowed[VOCAB];
    double p[VOCAB];
    int counts[VOCAB], above = 0, first = 0;

    (void)state;
    bench_init(&bench);
    probabilities(bench.logits, 1, p);
    while (p[above] >= 0.1)
        above++;
    assert_true(above >= 3);
    params.xtc_probability = 1.0f;
    params.xtc_threshold = 0.1f;
    for (int i = 0; i < VOCAB; i++)
        allowed[i] = i >= above - 1; /* all that reach the threshold but the least of them */
    assert_support(&bench, &params, allowed);

    /* Half of the time, and independent of the pick itself. */
    params.xtc_probability = 0.5f;
    count(&bench, &params, 20000, counts);
    for (int i = 0; i < above - 1; i++)
        first += counts[i];
    double expected = 0;
    for (int i = 0; i < above - 1; i++)
        expected += 0.5 * p[i] * 20000;
    assert_true(fabs(first - expected) < 5 * sqrt(expected));
}

/* The numbers that decide about XTC are not those that pick: a pick of the first token says nothing
 * about the next one. */
static void test_xtc_draws_numbers_of_its_own(void **state)
{
    struct bench bench;
    int firsts = 0, followed = 0;

    (void)state;
    bench_init(&bench);
    for (uint64_t seed = 0; seed < 4000; seed++) {
        struct sample_params params = random_with(seed);
        params.xtc_probability = 0.5f;
        struct sampler *sampler = create(&bench, &params);
        if (pick(sampler) == 0) {
            firsts++;
            followed += pick(sampler) < 3;
        }
        sampler_destroy(&sampler);
    }
    assert_true(firsts > 200);
    assert_true(followed > firsts / 8 && followed < firsts / 2);
}

/* ---- biases ---- */

static void test_biases_add_up(void **state)
{
    struct sample_params params = greedy();
    struct sample_bias biases[] = {{9, 1.5f}, {9, 1.5f}, {0, -0.6f}, {0, -0.3f}};
    struct bench bench;

    (void)state;
    bench_init(&bench); /* token 0 has 3, token 9 has 0.75 */
    params.biases = biases;
    params.biases_count = 1;
    assert_int_equal(pick_once(&bench, &params), 0);
    params.biases_count = 2;
    assert_int_equal(pick_once(&bench, &params), 9);
    biases[0].bias = 0;
    params.biases_count = 3;
    assert_int_equal(pick_once(&bench, &params), 1);
}

static void test_infinite_biases_forbid_and_force(void **state)
{
    struct sample_params params = greedy();
    struct sample_bias biases[] = {{0, -INFINITY}, {1, -INFINITY}, {25, INFINITY}, {25, -INFINITY}};
    struct bench bench;

    (void)state;
    bench_init(&bench);
    params.biases = biases;
    params.biases_count = 2;
    assert_int_equal(pick_once(&bench, &params), 2);
    params.biases_count = 3;
    assert_int_equal(pick_once(&bench, &params), 25);
    params.biases_count = 4; /* forbidden and forced: forbidden */
    assert_int_equal(pick_once(&bench, &params), 2);

    params = random_with(1);
    params.biases = biases;
    params.biases_count = 3;
    params.temperature = 0.001f;
    params.penalty_repeat = 1000.0f;
    params.penalty_frequency = params.penalty_presence = 100.0f;
    params.top_n_sigma = 1.0f;
    params.typical_p = params.top_p = 0.9f;
    int counts[VOCAB];
    count(&bench, &params, 1000, counts);
    assert_int_equal(counts[25], 1000);
}

static void test_several_forced_tokens_share(void **state)
{
    struct sample_params params = random_with(3);
    struct sample_bias biases[] = {{3, INFINITY}, {20, INFINITY}};
    struct bench bench;
    int counts[VOCAB];

    (void)state;
    bench_init(&bench);
    params.biases = biases;
    params.biases_count = 2;
    count(&bench, &params, 10000, counts);
    assert_int_equal(counts[3] + counts[20], 10000);
    assert_true(counts[3] > 4500 && counts[20] > 4500);
}

/* Logits with biases: few values, so that many are equal. */
static void random_biases(struct bench *bench, uint64_t *seed, struct sample_bias *biases,
                          size_t biases_count, float logits[VOCAB])
{
    for (int i = 0; i < VOCAB; i++)
        logits[i] = bench->logits[i] = (float)(test_random(seed) % 6);
    for (size_t i = 0; i < biases_count; i++) {
        float value = (float)(test_random(seed) % 5) - 2.0f;
        biases[i] = (struct sample_bias){(token_id)(test_random(seed) % VOCAB), value};
        if (test_random(seed) % 4 == 0)
            biases[i].bias = -INFINITY;
        logits[biases[i].token] += biases[i].bias;
    }
}

static void test_greedy_picks_the_largest_with_biases(void **state)
{
    uint64_t seed = test_seed();
    struct bench bench;

    (void)state;
    bench_init(&bench);
    for (size_t round = 0; round < 500; round++) {
        struct sample_params params = greedy();
        struct sample_bias biases[8];
        float logits[VOCAB];
        int largest = 0;
        params.biases = biases;
        params.biases_count = round % COUNT_OF(biases);
        random_biases(&bench, &seed, biases, params.biases_count, logits);
        for (int i = 1; i < VOCAB; i++)
            largest = logits[i] > logits[largest] ? i : largest;
        assert_int_equal(pick_once(&bench, &params), largest);
    }
}

/* Two of the three largest are pushed away, a small one is lifted: the next ones move up. */
static void test_top_k_counts_after_biases(void **state)
{
    struct sample_params params = random_with(4);
    struct sample_bias biases[] = {{9, 2.5f}, {0, -INFINITY}, {2, -3.0f}};
    bool allowed[VOCAB] = {[1] = true, [3] = true, [9] = true};
    struct bench bench;

    (void)state;
    bench_init(&bench);
    params.top_k = 3;
    params.biases = biases;
    params.biases_count = COUNT_OF(biases);
    assert_support(&bench, &params, allowed);
}

static void test_biases_may_forbid_everything(void **state)
{
    struct sample_params params = greedy();
    struct sample_bias biases[VOCAB];
    struct sample_pick result;
    struct errinfo info = {0};
    struct bench bench;

    (void)state;
    bench_init(&bench);
    for (int i = 0; i < VOCAB; i++)
        biases[i] = (struct sample_bias){i, -INFINITY};
    params.biases = biases;
    params.biases_count = VOCAB;
    struct sampler *sampler = create(&bench, &params);
    memset(biases, 0, sizeof(biases)); /* the sampler has its own */
    assert_err(sampler_pick(sampler, 0, &result, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "biases"));
    sampler_destroy(&sampler);
}

static void test_ignore_end_never_ends(void **state)
{
    struct sample_params params = greedy();
    struct bench bench;

    (void)state;
    bench_init(&bench);
    bench.logits[END] = 50.0f;
    bench.logits[END_TOO] = 60.0f;
    assert_int_equal(pick_once(&bench, &params), END_TOO);
    params.ignore_end = true;
    assert_int_equal(pick_once(&bench, &params), 0);
    struct sample_bias force = {END, INFINITY};
    params.biases = &force;
    params.biases_count = 1;
    assert_int_equal(pick_once(&bench, &params), 0);
}

/* ---- penalties ---- */

static void test_penalties_change_the_pick(void **state)
{
    struct sample_params params = greedy();
    struct bench bench;

    (void)state;
    bench_init(&bench);            /* 3.0, 2.75, 2.5, ... */
    params.penalty_repeat = 1.15f; /* 3.0 -> 2.61 -> still above 2.5 */
    struct sampler *sampler = create(&bench, &params);
    assert_int_equal(pick(sampler), 0);
    assert_int_equal(pick(sampler), 1);
    assert_int_equal(pick(sampler), 0);
    sampler_destroy(&sampler);

    params = greedy();
    params.penalty_presence = 0.6f; /* once, however often: 3.0 -> 2.4 */
    sampler = create(&bench, &params);
    static const token_id presence[] = {0, 1, 2, 0, 0, 0};
    for (size_t i = 0; i < COUNT_OF(presence); i++)
        assert_int_equal(pick(sampler), presence[i]);
    sampler_destroy(&sampler);

    params = greedy();
    params.penalty_frequency = 0.3f; /* each time: 3.0, 2.7, 2.4 */
    sampler = create(&bench, &params);
    static const token_id frequency[] = {0, 1, 0, 2, 1, 0};
    for (size_t i = 0; i < COUNT_OF(frequency); i++)
        assert_int_equal(pick(sampler), frequency[i]);
    sampler_destroy(&sampler);
}

static void test_penalties_look_back_so_far(void **state)
{
    struct sample_params params = greedy();
    struct bench bench;
    token_id prompt[CONTEXT + 10];

    (void)state;
    bench_init(&bench);
    for (size_t i = 0; i < COUNT_OF(prompt); i++)
        prompt[i] = 0;
    prompt[COUNT_OF(prompt) - 1] = prompt[COUNT_OF(prompt) - 2] = 9;
    params.penalty_presence = 1.0f;
    static const struct {
        int32_t last;
        token_id expected;
    } cases[] = {{2, 0}, {3, 1}, {-1, 1}, {1000, 1}, {INT32_MAX, 1}, {0, 0}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        params.penalty_last = cases[i].last;
        struct sampler *sampler = create(&bench, &params);
        assert_ok(sampler_prime(sampler, prompt, COUNT_OF(prompt), NULL));
        assert_int_equal(pick(sampler), cases[i].expected);
        sampler_destroy(&sampler);
    }
}

static void test_priming_in_pieces_equals_one_call(void **state)
{
    uint64_t seed = test_seed();
    struct sample_params params = greedy();
    struct bench bench;
    token_id prompt[200];

    (void)state;
    bench_init(&bench);
    params.penalty_frequency = 0.11f;
    params.penalty_last = 40;
    for (int round = 0; round < 50; round++) {
        bench_randomise(&bench, &seed);
        for (size_t i = 0; i < COUNT_OF(prompt); i++)
            prompt[i] = (token_id)test_random_below(&seed, VOCAB);
        struct sampler *whole = create(&bench, &params), *pieces = create(&bench, &params);
        assert_ok(sampler_prime(whole, prompt, COUNT_OF(prompt), NULL));
        size_t cut = test_random_below(&seed, COUNT_OF(prompt));
        assert_ok(sampler_prime(pieces, prompt, cut, NULL));
        assert_ok(sampler_prime(pieces, prompt + cut, 0, NULL));
        assert_ok(sampler_prime(pieces, prompt + cut, COUNT_OF(prompt) - cut, NULL));
        for (int i = 0; i < 20; i++)
            assert_int_equal(pick(whole), pick(pieces));
        sampler_destroy(&whole);
        sampler_destroy(&pieces);
    }
}

static void test_dry_breaks_a_repetition(void **state)
{
    static const token_id prompt[] = {5, 6, 7, 0, 8, 9, 5, 6, 7};
    struct sample_params params = greedy();
    struct bench bench;

    (void)state;
    bench_init(&bench);
    params.dry_breakers_count = 0;
    params.dry_multiplier = 1.0f;
    struct sampler *sampler = create(&bench, &params);
    assert_int_equal(pick(sampler), 0);
    sampler_destroy(&sampler);
    sampler = create(&bench, &params);
    assert_ok(
        sampler_prime(sampler, prompt, COUNT_OF(prompt), NULL)); /* 0 would make it 5 6 7 0 again */
    assert_int_equal(pick(sampler), 1);
    sampler_destroy(&sampler);
    params.dry_allowed = 4;
    sampler = create(&bench, &params);
    assert_ok(sampler_prime(sampler, prompt, COUNT_OF(prompt), NULL));
    assert_int_equal(pick(sampler), 0);
    sampler_destroy(&sampler);
    params.dry_allowed = 2;
    params.dry_last = 5; /* the first occurrence is out of sight */
    sampler = create(&bench, &params);
    assert_ok(sampler_prime(sampler, prompt, COUNT_OF(prompt), NULL));
    assert_int_equal(pick(sampler), 0);
    sampler_destroy(&sampler);
}

/* ---- what is refused ---- */

static void assert_refused(struct bench *bench, const struct sample_params *params,
                           enum err expected, const char *word)
{
    struct errinfo info = {0};
    struct sampler *sampler = (struct sampler *)bench;

    assert_err(sampler_create(&sampler, &bench->base, params, &info), expected);
    assert_null(sampler);
    if (strstr(info.text, word) == NULL)
        fail_msg("'%s' does not name '%s'", info.text, word);
}

static void test_every_number_is_checked(void **state)
{
    struct sample_params params = sample_params_default();
    struct bench bench;
    const struct {
        const char *name;
        float *value, below, above;
    } fields[] = {
        {"temperature", &params.temperature, -101, 101},
        {"top_p", &params.top_p, -0.01f, 1.01f},
        {"min_p", &params.min_p, -0.01f, 1.01f},
        {"typical_p", &params.typical_p, -0.01f, 1.01f},
        {"top_n_sigma", &params.top_n_sigma, -101, 101},
        {"xtc_probability", &params.xtc_probability, -0.01f, 1.01f},
        {"xtc_threshold", &params.xtc_threshold, -0.01f, 1.01f},
        {"penalty_repeat", &params.penalty_repeat, 0, 1001},
        {"penalty_frequency", &params.penalty_frequency, -101, 101},
        {"penalty_presence", &params.penalty_presence, -101, 101},
        {"dry_multiplier", &params.dry_multiplier, -0.01f, 101},
        {"dry_base", &params.dry_base, 0.99f, 101},
    };
    const struct {
        const char *name;
        int32_t *value, below;
    } integers[] = {
        {"penalty_last", &params.penalty_last, -2},
        {"dry_last", &params.dry_last, -2},
        {"dry_allowed", &params.dry_allowed, 0},
    };

    (void)state;
    bench_init(&bench);
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        const float values[] = {NAN, -NAN, INFINITY, -INFINITY, fields[i].below, fields[i].above};
        float old = *fields[i].value;
        for (size_t j = 0; j < COUNT_OF(values); j++) {
            *fields[i].value = values[j];
            assert_refused(&bench, &params, ERR_INVALID, fields[i].name);
        }
        *fields[i].value = old;
    }
    for (size_t i = 0; i < COUNT_OF(integers); i++) {
        int32_t old = *integers[i].value;
        *integers[i].value = integers[i].below;
        assert_refused(&bench, &params, ERR_INVALID, integers[i].name);
        *integers[i].value = INT32_MIN;
        assert_refused(&bench, &params, ERR_INVALID, integers[i].name);
        *integers[i].value = old;
    }
    params.logprobs = SAMPLE_TOP_MAX + 1;
    assert_refused(&bench, &params, ERR_INVALID, "logprobs");
}

/* All at the ends of their ranges, in all combinations that matter: no abort, always a token. */
static void test_extremes_are_survived(void **state)
{
    uint64_t seed = test_seed();
    struct bench bench;

    (void)state;
    bench_init(&bench);
    for (int round = 0; round < 300; round++) {
        struct sample_params params = random_with((uint64_t)round);
#define EITHER(a, b) (test_random_below(&seed, 2) ? (a) : (b))
        params.temperature = EITHER(1e-4f, 100.0f);
        params.top_k = EITHER(INT32_MAX, INT32_MIN);
        params.top_p = EITHER(0.0f, 0.999f);
        params.min_p = EITHER(0.0f, 1.0f);
        params.typical_p = EITHER(0.0f, 0.999f);
        params.top_n_sigma = EITHER(100.0f, 1e-6f);
        params.xtc_probability = EITHER(0.0f, 1.0f);
        params.xtc_threshold = EITHER(0.0f, 1.0f);
        params.penalty_repeat = EITHER(0.001f, 1000.0f);
        params.penalty_frequency = EITHER(-100.0f, 100.0f);
        params.penalty_presence = EITHER(-100.0f, 100.0f);
        params.penalty_last = EITHER(-1, INT32_MAX);
        params.dry_multiplier = EITHER(0.0f, 100.0f);
        params.dry_base = EITHER(1.0f, 100.0f);
        params.dry_allowed = EITHER(1, INT32_MAX);
        params.dry_last = EITHER(-1, INT32_MAX);
        params.dry_breakers_count = 0;
#undef EITHER
        bench_randomise(&bench, &seed);
        bench.logits[test_random_below(&seed, VOCAB)] = -INFINITY;
        bench.logits[test_random_below(&seed, VOCAB)] = 1e30f;
        bench.logits[test_random_below(&seed, VOCAB)] = -1e30f;
        struct sampler *sampler = create(&bench, &params);
        for (int i = 0; i < 2 * CONTEXT; i++) {
            token_id token = pick(sampler);
            assert_true(token >= 0 && token < VOCAB && bench.logits[token] > -INFINITY);
        }
        sampler_destroy(&sampler);
    }
}

static void test_biases_are_checked(void **state)
{
    struct sample_params params = sample_params_default();
    struct sample_bias biases[VOCAB + 1] = {{0, 0}};
    struct bench bench;

    (void)state;
    bench_init(&bench);
    params.biases = biases;
    params.biases_count = 1;
    static const token_id tokens[] = {-1, VOCAB, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < COUNT_OF(tokens); i++) {
        biases[0] = (struct sample_bias){tokens[i], 1};
        assert_refused(&bench, &params, ERR_INVALID, "vocabulary of 32");
    }
    static const float values[] = {NAN, 1.1e6f, -1.1e6f};
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        biases[0] = (struct sample_bias){3, values[i]};
        assert_refused(&bench, &params, ERR_INVALID, "bias for token 3");
    }
    biases[0] = (struct sample_bias){3, 1};
    params.biases_count = VOCAB + 1;
    assert_refused(&bench, &params, ERR_LIMIT, "biases");
}

static void test_breakers_are_checked(void **state)
{
    static const char too_long[] = "12345678901234567890123456789012345678901";
    struct sample_params params = sample_params_default();
    struct bench bench;

    (void)state;
    bench_init(&bench);
    assert_int_equal(strlen(too_long), SAMPLE_BREAKER_BYTES_MAX + 1);
    params.dry_breakers_count = SAMPLE_BREAKERS_MAX + 1;
    assert_refused(&bench, &params, ERR_LIMIT, "dry_breakers");
    params.dry_breakers_count = 1;
    params.dry_breakers[0] = "";
    assert_refused(&bench, &params, ERR_INVALID, "dry_breakers");
    params.dry_breakers[0] = too_long;
    assert_refused(&bench, &params, ERR_INVALID, "dry_breakers");
    params.dry_breakers[0] = too_long + 1;
    struct sampler *sampler = create(&bench, &params); /* DRY is off: never looked up */
    sampler_destroy(&sampler);
}

static void test_needs_the_library_for_breakers(void **state)
{
    struct sample_params params = sample_params_default();
    struct bench bench;

    (void)state;
    bench_init(&bench);
    params.dry_multiplier = 1;
    assert_refused(&bench, &params, ERR_UNSUPPORTED, "dry_breakers");
}

static void test_bad_logits_are_the_engines_fault(void **state)
{
    static const float values[] = {NAN, INFINITY};
    struct sample_params params = sample_params_default();
    struct sample_pick result;
    struct errinfo info = {0};
    struct bench bench;

    (void)state;
    bench_init(&bench);
    struct sampler *sampler = create(&bench, &params);
    assert_err(sampler_pick(sampler, 1, &result, &info), ERR_ENGINE);
    assert_non_null(strstr(info.text, "item 1"));
    assert_err(sampler_pick(sampler, 2, &result, &info), ERR_ENGINE);
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        bench_init(&bench);
        bench.logits[VOCAB - 1] = values[i];
        assert_err(sampler_pick(sampler, 0, &result, &info), ERR_ENGINE);
    }
    for (int i = 0; i < VOCAB; i++)
        bench.logits[i] = -INFINITY;
    assert_err(sampler_pick(sampler, 0, &result, &info), ERR_INVALID);
    bench_init(&bench);
    pick(sampler);
    assert_int_equal(sampler_stats(sampler).picks, 1);
    sampler_destroy(&sampler);
    sampler_destroy(&sampler);
}

/* ---- log-probabilities ---- */

static void test_logprobs_equal_oracle(void **state)
{
    uint64_t seed = test_seed();
    struct bench bench;

    (void)state;
    bench_init(&bench);
    for (int round = 0; round < 2000; round++) {
        struct sample_params params = random_with((uint64_t)round);
        struct sample_pick result;
        struct errinfo info;
        double p[VOCAB];
        bool used[VOCAB] = {false};
        bench_randomise(&bench, &seed);
        for (int i = 0; i < VOCAB; i++) /* many ties, some impossible */
            bench.logits[i] = i % 7 == round % 7 ? -INFINITY : floorf(bench.logits[i]);
        probabilities(bench.logits, 1, p);
        params.logprob = round % 3 > 0;
        params.logprobs = (uint32_t)test_random_below(&seed, SAMPLE_TOP_MAX + 1);
        params.temperature = 0.3f; /* none of the chain's business shows */
        params.top_k = 3;
        struct sampler *sampler = create(&bench, &params);
        assert_ok(sampler_pick(sampler, 0, &result, &info));
        assert_float_equal(result.logprob, params.logprob ? log(p[result.token]) : 0, 1e-5);
        assert_int_equal(result.top_count, params.logprobs);
        for (size_t i = 0; i < result.top_count; i++) {
            int best = -1;
            for (int j = 0; j < VOCAB; j++)
                if (!used[j] && (best < 0 || bench.logits[j] > bench.logits[best]))
                    best = j;
            used[best] = true;
            assert_int_equal(result.top[i].token, best);
            assert_float_equal(result.top[i].logprob, log(p[best]), 1e-5);
        }
        struct sample_pick score; /* of a given token: the same, and nothing is remembered */
        uint64_t picks = sampler_stats(sampler).picks;
        assert_ok(sampler_score(sampler, 0, 0, result.token, &score, &info));
        assert_true(score.token == result.token && score.logprob == result.logprob);
        assert_int_equal(score.top_count, result.top_count);
        assert_memory_equal(score.top, result.top, result.top_count * sizeof(result.top[0]));
        assert_int_equal(sampler_stats(sampler).picks, picks);
        bench.logits[0] = NAN;
        assert_err(sampler_score(sampler, 0, 0, result.token, &score, &info), ERR_ENGINE);
        sampler_destroy(&sampler);
    }
}

static void test_impossible_tokens_are_not_listed(void **state)
{
    struct sample_params params = greedy();
    struct sample_pick result;
    struct errinfo info;
    struct bench bench;

    (void)state;
    bench_init(&bench);
    for (int i = 0; i < VOCAB; i++)
        bench.logits[i] = i == 4 ? 1.0f : i == 8 ? 2.0f : -INFINITY;
    params.logprobs = 5;
    struct sampler *sampler = create(&bench, &params);
    assert_ok(sampler_pick(sampler, 0, &result, &info));
    assert_int_equal(result.top_count, 2);
    assert_int_equal(result.top[0].token, 8);
    assert_int_equal(result.top[1].token, 4);
    assert_float_equal(exp((double)result.top[0].logprob) + exp((double)result.top[1].logprob), 1.0,
                       1e-6);
    sampler_destroy(&sampler);
}

/* Not asked for: no pass over the vocabulary, nothing written, nothing allocated. */
static void test_i84_logprobs_cost_nothing_unasked(void **state)
{
    struct fault fault = {0};
    struct bench bench;

    (void)state;
    bench_init(&bench);
    for (int asked = 0; asked < 3; asked++) {
        struct sample_params params = random_with(1);
        struct sample_pick result, untouched;
        struct errinfo info;
        params.logprob = asked == 1;
        params.logprobs = asked == 2 ? 4 : 0;
        struct sampler *sampler = create(&bench, &params);
        memset(&result, 0xA5, sizeof(result));
        untouched = result;
        fault_arm(&fault, 0, false);
        mem_set_fault(&fault);
        for (int i = 0; i < 10; i++)
            assert_ok(sampler_pick(sampler, 0, &result, &info));
        mem_set_fault(NULL);
        assert_int_equal(atomic_load(&fault.calls), 0);
        assert_int_equal(sampler_stats(sampler).picks, 10);
        assert_int_equal(sampler_stats(sampler).logprob_passes, asked ? 10 : 0);
        assert_int_equal(result.top_count, asked == 2 ? 4 : 0);
        assert_memory_equal(&result.top[result.top_count], &untouched.top[result.top_count],
                            (SAMPLE_TOP_MAX - result.top_count) * sizeof(result.top[0]));
        if (asked != 1)
            assert_true(result.logprob == 0.0f);
        sampler_destroy(&sampler);
    }
}

static void test_survives_every_failed_allocation(void **state)
{
    struct sample_bias biases[] = {{1, 2}, {3, 4}};
    struct sample_params params = sample_params_default();
    struct fault fault = {0};
    struct bench bench;
    int failed = 0;

    (void)state;
    bench_init(&bench);
    params.biases = biases;
    params.biases_count = 2;
    params.ignore_end = true;
    params.penalty_repeat = 1.1f;
    params.logprobs = 3;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct sampler *sampler = NULL;
        struct errinfo info = {0};
        enum err err = sampler_create(&sampler, &bench.base, &params, &info);
        if (atomic_load(&fault.fired)) {
            assert_err(err, ERR_NOMEM);
            assert_null(sampler);
            failed++;
        } else {
            assert_ok(err);
            pick(sampler);
        }
        sampler_destroy(&sampler);
    }
    mem_set_fault(NULL);
    assert_int_equal(failed, 2);
}

TEST_SUITE(TEST(test_greedy_picks_the_largest), TEST(test_greedy_takes_the_first_of_equals),
           TEST(test_greedy_ignores_what_narrows), TEST(test_top_k_of_one_equals_greedy),
           TEST(test_random_picks_follow_the_softmax), TEST(test_the_seed_decides),
           TEST(test_a_random_seed_is_new_and_can_be_repeated), TEST(test_top_k_keeps_k),
           TEST(test_top_p_keeps_the_smallest_set), TEST(test_min_p_keeps_a_share_of_the_largest),
           TEST(test_top_n_sigma_keeps_what_is_near_the_largest),
           TEST(test_typical_keeps_what_is_near_the_entropy),
           TEST(test_typical_bears_impossible_tokens), TEST(test_xtc_takes_the_first_choices_away),
           TEST(test_xtc_draws_numbers_of_its_own), TEST(test_biases_add_up),
           TEST(test_infinite_biases_forbid_and_force), TEST(test_several_forced_tokens_share),
           TEST(test_greedy_picks_the_largest_with_biases), TEST(test_top_k_counts_after_biases),
           TEST(test_biases_may_forbid_everything), TEST(test_ignore_end_never_ends),
           TEST(test_penalties_change_the_pick), TEST(test_penalties_look_back_so_far),
           TEST(test_priming_in_pieces_equals_one_call), TEST(test_dry_breaks_a_repetition),
           TEST(test_every_number_is_checked), TEST(test_extremes_are_survived),
           TEST(test_biases_are_checked), TEST(test_breakers_are_checked),
           TEST(test_needs_the_library_for_breakers), TEST(test_bad_logits_are_the_engines_fault),
           TEST(test_logprobs_equal_oracle), TEST(test_impossible_tokens_are_not_listed),
           TEST(test_i84_logprobs_cost_nothing_unasked),
           TEST(test_survives_every_failed_allocation))

/*
 * cache_bench.c: what the cache costs beside the bytes that it moves. CSV on stdout, one row a point; `#` lines describe the run.
 *
 *      cache_bench [BLOCKS_MAX]       the largest index of 16-token blocks, 1,000,000 by default
 *
 *   lookup   one prompt of 100,000 tokens, all held, found in an index of more and more blocks. The prompts share a system
 *            prompt; they are looked up in random order, so that their nodes are not in the processor's caches, but the prompt
 *            itself is, as after tokenizing.
 *   diverge  a block that none of `children` siblings has: the best of them is searched.
 *   insert   400 new blocks: nodes, keys and one object, beyond the copy of the state itself.
 *
 * vs_memcmp is the time divided by that of one memcmp of the same tokens with a flat copy as cold as the nodes: what comparing
 * in full (keeps I101) costs in any case, and a number that can be compared between machines.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/sysinfo.h"
#include "cache/index.h"
#include "version.h"

enum {
    PROMPT_TOKENS = 100000,
    SHARED_TOKENS = 4096, /* system prompt and tools */
    INSERT_BLOCKS = 400,
    ROUNDS = 300,
    /* Qwen3-0.6B: 28 layers x 8 heads x 128 x (K and V) x 2 bytes, the smallest rows that we expect. */
    ROW_BYTES = 28 * 8 * 128 * 2 * 2,
};

/* Percentiles, since others share the machine: one lost time slice is more than all lookups of a round. */
struct sample {
    double us[ROUNDS];
    size_t count;
};

/* An index of `prompts` prompts, their tokens in one flat array, and one run of rows for each. */
struct corpus {
    struct index *index;
    int32_t *tokens;
    struct object *objects;
    size_t prompts;
    uint32_t block;
};

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static double now_us(void)
{
    return (double)clock_mono_ns(clock_real()) / (double)NS_PER_US;
}

static void sample_add(struct sample *sample, double us)
{
    assert(sample->count < ROUNDS);
    sample->us[sample->count++] = us;
}

static int compare_us(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double sample_percentile(struct sample *sample, size_t percent)
{
    qsort(sample->us, sample->count, sizeof(sample->us[0]), compare_us);
    return sample->us[(sample->count - 1) * percent / 100];
}

static void forget(struct object *object, void *arg)
{
    (void)object;
    (void)arg;
}

static void fill(int32_t *tokens, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        tokens[i] = (int32_t)(next_random(&seed) % 150000);
}

/* Stores rows of [begin, count) in the nodes of these tokens. */
static void store(struct index *index, const int32_t *tokens, size_t count, struct object *object)
{
    struct node *last = index_insert(index, tokens, count);

    if (last == NULL) {
        fprintf(stderr, "cache_bench: no memory\n");
        exit(1);
    }
    object->kind = OBJECT_ROWS;
    object->end = (uint32_t)count;
    index_attach(index, last, object, forget, NULL);
}

static void corpus_init(struct corpus *corpus, uint32_t block, size_t blocks)
{
    size_t whole = PROMPT_TOKENS / block * block;
    size_t blocks_own = (whole - SHARED_TOKENS) / block;
    struct hash256 key = hash256_of("bench", 5);

    corpus->block = block;
    corpus->prompts = MAX(1, (blocks - SHARED_TOKENS / block) / blocks_own);
    corpus->index = index_create(&key, block);
    corpus->tokens = mem_alloc_array(corpus->prompts, PROMPT_TOKENS * sizeof(int32_t));
    corpus->objects = mem_alloc_array(corpus->prompts + 1, sizeof(*corpus->objects));
    fill(corpus->tokens, SHARED_TOKENS, 1);
    store(corpus->index, corpus->tokens, SHARED_TOKENS, &corpus->objects[corpus->prompts]);
    for (size_t i = 0; i < corpus->prompts; i++) {
        int32_t *tokens = corpus->tokens + i * PROMPT_TOKENS;
        if (i > 0)
            memcpy(tokens, corpus->tokens, SHARED_TOKENS * sizeof(*tokens));
        fill(tokens + SHARED_TOKENS, PROMPT_TOKENS - SHARED_TOKENS, 2 + i);
        corpus->objects[i].begin = SHARED_TOKENS;
        store(corpus->index, tokens, whole, &corpus->objects[i]);
    }
}

static void corpus_fini(struct corpus *corpus)
{
    index_destroy(&corpus->index, forget, NULL);
    mem_free(corpus->objects);
    mem_free(corpus->tokens);
}

static void print_row(const char *part, uint32_t block, size_t blocks, size_t children,
                      struct sample *sample, struct sample *flat)
{
    double us = sample_percentile(sample, 50);

    printf("%s,%" PRIu32 ",%zu,%zu,%.2f,%.2f,", part, block, blocks, children, us,
           sample_percentile(sample, 99));
    if (flat != NULL)
        printf("%.2f", us / sample_percentile(flat, 50));
    printf("\n");
    fflush(stdout);
}

/* Makes the tokens of a random prompt anew, so that neither its nodes nor its flat copy are read; returns which. */
static size_t random_prompt(const struct corpus *corpus, int32_t *prompt, uint64_t *seed)
{
    size_t i = next_random(seed) % corpus->prompts;

    fill(prompt, SHARED_TOKENS, 1);
    fill(prompt + SHARED_TOKENS, PROMPT_TOKENS - SHARED_TOKENS, 2 + i);
    return i;
}

static void bench_lookup(const struct corpus *corpus)
{
    struct sample lookup = {.count = 0}, flat = {.count = 0};
    uint64_t seed = 7;
    int32_t *prompt = mem_alloc_array(PROMPT_TOKENS, sizeof(*prompt));
    size_t whole = PROMPT_TOKENS / corpus->block * corpus->block, wrong = 0;

    for (int round = 0; round < ROUNDS; round++) {
        random_prompt(corpus, prompt, &seed);
        double start = now_us();
        wrong += index_match(corpus->index, prompt, PROMPT_TOKENS).tokens != whole;
        sample_add(&lookup, now_us() - start);
    }
    for (int round = 0; round < ROUNDS; round++) {
        size_t i = random_prompt(corpus, prompt, &seed);
        double start = now_us();
        wrong += memcmp(prompt, corpus->tokens + i * PROMPT_TOKENS, whole * sizeof(*prompt)) != 0;
        sample_add(&flat, now_us() - start);
    }
    if (wrong > 0)
        fprintf(stderr, "cache_bench: %zu comparisons were wrong\n", wrong);
    print_row("lookup", corpus->block, index_nodes(corpus->index), 1, &lookup, &flat);
    mem_free(prompt);
}

static void bench_insert(const struct corpus *corpus)
{
    size_t count = INSERT_BLOCKS * (size_t)corpus->block;
    int32_t *tokens = mem_alloc_array(count, sizeof(*tokens));
    struct sample insert = {.count = 0};

    for (int round = 0; round < ROUNDS; round++) {
        struct object object = {.begin = 0};
        fill(tokens, count, 1000000 + (uint64_t)round);
        double start = now_us();
        store(corpus->index, tokens, count, &object);
        sample_add(&insert, now_us() - start);
        index_detach(corpus->index, &object);
    }
    print_row("insert", corpus->block, index_nodes(corpus->index), 1, &insert, NULL);
    mem_free(tokens);
}

static void print_memory(const struct corpus *corpus)
{
    double per_block = (double)index_bytes(corpus->index) / (double)index_nodes(corpus->index);

    printf("# block_tokens %" PRIu32 ": %.0f bytes a block, %.2f times its tokens, %.4f %% of "
           "rows of %d bytes a token\n",
           corpus->block, per_block, per_block / (corpus->block * sizeof(int32_t)),
           100 * per_block / ((double)corpus->block * ROW_BYTES), ROW_BYTES);
}

static void bench_corpus(uint32_t block, size_t blocks)
{
    struct corpus corpus;

    corpus_init(&corpus, block, blocks);
    bench_lookup(&corpus);
    bench_insert(&corpus);
    print_memory(&corpus);
    corpus_fini(&corpus);
}

/* Siblings that begin alike and leave one another in the middle of the block: what comparing costs most. */
static void bench_diverge(uint32_t block, size_t children)
{
    struct hash256 key = hash256_of("bench", 5);
    struct index *index = index_create(&key, block);
    struct object *objects = mem_alloc_array(children, sizeof(*objects));
    int32_t *tokens = mem_alloc_array(block, sizeof(*tokens));
    struct sample diverge = {.count = 0};
    uint64_t seed = 7;

    fill(tokens, block, 1);
    for (size_t i = 0; i < children; i++) {
        tokens[block / 2] = (int32_t)(2 * i);
        store(index, tokens, block, &objects[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        tokens[block / 2] = (int32_t)(2 * (next_random(&seed) % children) + 1);
        double start = now_us();
        uint32_t common = index_match(index, tokens, block).tokens;
        sample_add(&diverge, now_us() - start);
        if (common != block / 2)
            fprintf(stderr, "cache_bench: %" PRIu32 " tokens in common\n", common);
    }
    print_row("diverge", block, index_nodes(index), children, &diverge, NULL);
    index_destroy(&index, forget, NULL);
    mem_free(objects);
    mem_free(tokens);
}

int main(int argc, char **argv)
{
    size_t blocks_max = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 1000000;

    printf("# cache_bench, hearth %s (%s, %s), %u cores, %.0f GiB\n", HEARTH_VERSION, HEARTH_COMMIT,
           HEARTH_VARIANT, sysinfo_cores(), (double)sysinfo_memory_total() / (double)(1 << 30));
    printf("part,block_tokens,blocks,children,us_p50,us_p99,vs_memcmp\n");
    for (size_t blocks = 10000; blocks <= blocks_max; blocks *= 10)
        bench_corpus(16, blocks);
    for (size_t blocks = 1000; blocks <= blocks_max / 10; blocks *= 10)
        bench_corpus(256, blocks);
    for (size_t children = 1; children <= blocks_max / 10; children *= 10)
        bench_diverge(256, children);
    return 0;
}

/*
 * cache_bench.c: what the cache costs beside the bytes that it moves. One row a point.
 *
 *      hearth bench cache [BLOCKS_MAX]       1,000,000 blocks by default, which takes 3 GB
 *
 * Of the index alone:
 *   lookup   one prompt of 100,000 tokens, all held, found in an index of more and more blocks. The
 *            prompts share a system prompt; they are looked up in random order, so that their nodes
 *            are not in the processor's caches, but the prompt itself is, as after tokenizing.
 *   diverge  a block that none of `children` siblings has: the best of them is searched.
 *   insert   400 new blocks: nodes, keys and one object, beyond the copy of the state itself.
 *
 * Of the whole, through hearth.h, blocks of 256 tokens in runs of 8:
 *
 *   api_lookup   the same prompts: hearth_lookup, with plan, leases and one token left to run
 *   api_release  of such a plan
 *   api_insert   400 new blocks: hearth_store_open to close, nothing written into the memory
 *   api_get      hearth_plan_fetch of an object of 28 MiB and a copy out of it, as an import does;
 *                vs_memcpy: the same copy of plain memory
 *
 * vs_memcmp is the time divided by that of one memcmp of the same tokens with a flat copy as cold
 * as the nodes: what comparing in full (keeps I101) costs in any case, and a number that can be
 * compared between machines; for api_get, of memcpy.
 */
#include <hearth/hearth.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "lab/micro.h"
#include "cache/index.h"

enum {
    PROMPT_TOKENS = 100000,
    SHARED_TOKENS = 4096, /* system prompt and tools */
    INSERT_BLOCKS = 400,
    ROUNDS = 300,
    API_BLOCK = 256,
    API_FLAT = 256, /* prompts in the flat copy: 100 MB, more than processors cache */
    GET_OBJECTS = 12,
    /* Qwen3-0.6B: 28 layers x 8 heads x 128 x (K and V) x 2 bytes, the smallest rows that we
     * expect. */
    ROW_BYTES = 28 * 8 * 128 * 2 * 2,
};

/* Percentiles, since others share the machine: one lost time slice is more than all lookups of a
 * round. */
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

/* ---- the index alone ---- */

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
    object->kind = HEARTH_OBJECT_ROWS;
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
    char name[64], ratio[32] = "";

    snprintf(name, sizeof(name), "%s_%" PRIu32, part, block);
    if (flat != NULL)
        snprintf(ratio, sizeof(ratio), "%.2f", us / sample_percentile(flat, 50));
    micro_row(name, "%" PRIu32 ",%zu,%zu,%.2f,%.2f,%s", block, blocks, children, us,
              sample_percentile(sample, 99), ratio);
}

/* Makes the tokens of a random prompt anew, so that neither its nodes nor its flat copy are read;
 * returns which. */
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

    micro_note("block_tokens %" PRIu32 ": %.0f bytes a block, %.2f times its tokens, %.4f %% of "
               "rows of %d bytes a token",
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

/* Siblings that begin alike and leave one another in the middle of the block: what comparing costs
 * most. */
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

/* ---- the whole ---- */

/* A cache that grows; prompt i is made of seed 2 + i. */
struct api {
    struct hearth_cache *cache;
    struct hearth_space *space;
    size_t prompts, blocks;
};

static void must(int error, const char *what)
{
    if (error == HEARTH_OK)
        return;
    fprintf(stderr, "cache_bench: %s: %s\n", what, hearth_error_text(error));
    exit(1);
}

static void api_open(struct api *api, uint64_t ram_bytes, uint64_t books_bytes, uint32_t run_tokens)
{
    struct hearth_options options = {.struct_size = sizeof(options),
                                     .ram_bytes = ram_bytes,
                                     .books_bytes = books_bytes,
                                     .block_tokens = API_BLOCK,
                                     .run_tokens = run_tokens};
    struct hearth_model model = {.struct_size = sizeof(model), .kinds = HEARTH_KIND_FULL};

    *api = (struct api){0};
    must(hearth_open(&api->cache, &options, NULL), "open");
    must(hearth_space_open(api->cache, &model, "", 0, &api->space), "space");
}

static void api_close(struct api *api)
{
    hearth_space_close(&api->space);
    hearth_close(&api->cache);
}

/* Stores all whole blocks; `bytes` of each object are written, or none but its page is held. */
static void api_store(struct api *api, const int32_t *tokens, size_t count, uint64_t bytes)
{
    struct hearth_store *store;
    uint32_t begin, end;
    void *memory;

    must(hearth_store_open(api->space, tokens, count, NULL, &store), "store");
    while (hearth_store_next(store, &begin, &end)) {
        must(hearth_store_reserve(store, HEARTH_OBJECT_ROWS, begin, end, MAX(bytes, 1), &memory),
             "reserve");
        if (bytes > 0)
            memset(memory, (int)begin, bytes);
        must(hearth_store_commit(store, MAX(bytes, 1), "", 0), "commit");
        api->blocks += (end - begin) / API_BLOCK;
    }
    hearth_store_close(&store);
}

static void make_prompt(int32_t *prompt, size_t i)
{
    fill(prompt, SHARED_TOKENS, 1);
    fill(prompt + SHARED_TOKENS, PROMPT_TOKENS - SHARED_TOKENS, 2 + i);
}

static void api_bench_lookup(const struct api *api, int32_t *prompt, const int32_t *flat)
{
    struct sample lookup = {.count = 0}, release = {.count = 0}, compare = {.count = 0};
    size_t whole = PROMPT_TOKENS / API_BLOCK * API_BLOCK, wrong = 0;
    uint64_t seed = 11;

    for (int round = 0; round < ROUNDS; round++) {
        size_t i = next_random(&seed) % api->prompts;
        struct hearth_plan *plan;
        make_prompt(prompt, i);
        double start = now_us();
        must(hearth_lookup(api->space, prompt, PROMPT_TOKENS, NULL, &plan), "lookup");
        sample_add(&lookup, now_us() - start);
        wrong += hearth_plan_info(plan)->boundary != whole;
        start = now_us();
        hearth_plan_release(&plan);
        sample_add(&release, now_us() - start);
        make_prompt(prompt, i % API_FLAT);
        start = now_us();
        wrong += memcmp(prompt, flat + i % API_FLAT * PROMPT_TOKENS, whole * sizeof(*prompt)) != 0;
        sample_add(&compare, now_us() - start);
    }
    if (wrong > 0)
        fprintf(stderr, "cache_bench: %zu plans or comparisons were wrong\n", wrong);
    print_row("api_lookup", API_BLOCK, api->blocks, 1, &lookup, &compare);
    print_row("api_release", API_BLOCK, api->blocks, 1, &release, NULL);
}

static void api_bench_insert(struct api *api, uint64_t seed)
{
    enum { INSERTS = 20 };
    size_t count = INSERT_BLOCKS * (size_t)API_BLOCK;
    int32_t *tokens = mem_alloc_array(count, sizeof(*tokens));
    struct sample insert = {.count = 0};

    for (uint64_t round = 0; round < INSERTS; round++) {
        fill(tokens, count, seed + round);
        double start = now_us();
        api_store(api, tokens, count, 0);
        sample_add(&insert, now_us() - start);
    }
    print_row("api_insert", API_BLOCK, api->blocks, 1, &insert, NULL);
    mem_free(tokens);
}

/* All that the ledger counts beside the pages of the objects, against the rows that so many blocks
 * would have. */
static void api_print_memory(const struct api *api)
{
    struct hearth_stats stats = {.struct_size = sizeof(stats)};

    hearth_get_stats(api->cache, NULL, &stats);
    double books = (double)(stats.bytes_budget - stats.objects * 4096),
           blocks = (double)api->blocks;
    micro_note("%.0f blocks in %" PRIu64
               " objects: %.0f bytes of books a block, %.4f %% of rows of %d bytes a token",
               blocks, stats.objects, books / blocks,
               100 * books / (blocks * API_BLOCK * ROW_BYTES), ROW_BYTES);
}

static void api_bench(size_t blocks_max)
{
    int32_t *prompt = mem_alloc_array(PROMPT_TOKENS, sizeof(*prompt));
    int32_t *flat = mem_alloc_array(API_FLAT, PROMPT_TOKENS * sizeof(*flat));
    size_t whole = PROMPT_TOKENS / API_BLOCK * API_BLOCK;
    struct api api;

    /* Rows of a few bytes: as much for books as for them. */
    uint64_t part = (uint64_t)blocks_max * 2048 + (UINT64_C(1) << 29);
    api_open(&api, 2 * part, part, 0);
    for (size_t i = 0; i < API_FLAT; i++)
        make_prompt(flat + i * PROMPT_TOKENS, i);
    for (size_t blocks = 1000; blocks <= blocks_max; blocks *= 10) {
        for (; api.blocks < blocks; api.prompts++) {
            make_prompt(prompt, api.prompts);
            api_store(&api, prompt, whole, 0);
        }
        api_bench_lookup(&api, prompt, flat);
        api_bench_insert(&api, UINT64_C(1) << 40 | blocks);
        api_print_memory(&api);
    }
    api_close(&api);
    mem_free(flat);
    mem_free(prompt);
}

/* Copies out of what was fetched, and out of plain memory, in turns. */
static void api_bench_get(void)
{
    const uint64_t bytes = (uint64_t)API_BLOCK * ROW_BYTES;
    size_t count = GET_OBJECTS * (size_t)API_BLOCK + 1;
    int32_t *tokens = mem_alloc_array(count, sizeof(*tokens));
    char *to = mem_alloc(bytes), *plain = mem_alloc(GET_OBJECTS * bytes);
    struct sample get = {.count = 0}, copy = {.count = 0};
    struct hearth_plan *plan;
    struct api api;

    api_open(&api, (GET_OBJECTS + 2) * bytes + (UINT64_C(64) << 20), 0, API_BLOCK);
    fill(tokens, count, 3);
    api_store(&api, tokens, count - 1, bytes);
    memset(plain, 1, GET_OBJECTS * bytes);
    memset(to, 1, bytes);
    must(hearth_lookup(api.space, tokens, count, NULL, &plan), "lookup");
    assert(hearth_plan_info(plan)->objects_count == GET_OBJECTS);
    for (size_t i = 0; i < 4 * (size_t)GET_OBJECTS; i++) {
        const void *from;
        double start = now_us();
        must(hearth_plan_fetch(plan, i % GET_OBJECTS, 0, &from), "fetch");
        memcpy(to, from, bytes);
        sample_add(&get, now_us() - start);
        start = now_us();
        memcpy(to, plain + i % GET_OBJECTS * bytes, bytes);
        sample_add(&copy, now_us() - start);
    }
    print_row("api_get", API_BLOCK, GET_OBJECTS, 1, &get, &copy);
    micro_note("%.1f GB/s out of the cache, %.1f GB/s by memcpy",
               (double)bytes / sample_percentile(&get, 50) / 1e3,
               (double)bytes / sample_percentile(&copy, 50) / 1e3);
    hearth_plan_release(&plan);
    api_close(&api);
    mem_free(plain);
    mem_free(to);
    mem_free(tokens);
}

static int run_bench(int argc, char **argv)
{
    size_t blocks_max = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 1000000;

    for (size_t blocks = 10000; blocks <= blocks_max; blocks *= 10)
        bench_corpus(16, blocks);
    for (size_t blocks = 1000; blocks <= blocks_max / 10; blocks *= 10)
        bench_corpus(256, blocks);
    for (size_t children = 1; children <= blocks_max / 10; children *= 10)
        bench_diverge(256, children);
    api_bench(blocks_max);
    api_bench_get();
    return 0;
}

static const struct sheet_column columns[] = {
    MICRO_COLUMN(part, SHEET_TEXT), MICRO_COLUMN(block_tokens, 0), MICRO_COLUMN(blocks, 0),
    MICRO_COLUMN(children, 0),      MICRO_COLUMN(us_p50, 2),       MICRO_COLUMN(us_p99, 2),
    MICRO_COLUMN(vs_memcmp, 2),
};

const struct micro micro_cache = {
    .name = "cache",
    .columns = columns,
    .columns_count = COUNT_OF(columns),
    .plot = {.kind = PLOT_LINES,
             .title = "microseconds over blocks held",
             .series = "part",
             .x = "blocks",
             .y = "us_p50",
             .logarithmic = true},
    .run = run_bench,
};

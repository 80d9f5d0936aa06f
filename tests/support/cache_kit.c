/*
 * cache_kit.c: rows and snapshots from a chain of hashes over the tokens.
 */
#include "support/cache_kit.h"

#include <string.h>

#include "base/mem.h"
#include "cache/cache.h"
#include "support/cache_check.h"
#include "support/test.h"

enum { FETCH_MS = 20000 }; /* a busy machine is not late; tests of a tier that is have their own */

const struct hearth_lookup_options kit_peeking = {.struct_size = sizeof(kit_peeking),
                                                  .flags = HEARTH_LOOKUP_PEEK};

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static uint64_t chain(uint64_t hash, int32_t token)
{
    return mix(hash + 0x9E3779B97F4A7C15u + (uint32_t)token);
}

/* Word `word` of what stands at a place of the chain. */
static uint64_t word_of(enum hearth_object_kind kind, uint64_t hash, uint32_t word)
{
    return mix(hash ^ ((uint64_t)kind << 60) ^ word);
}

struct hearth_options kit_options(uint64_t ram_bytes)
{
    static const unsigned char key[HEARTH_KEY_BYTES] = {1, 2, 3};

    return (struct hearth_options){
        .struct_size = sizeof(struct hearth_options),
        .ram_bytes = ram_bytes,
        .block_tokens = KIT_BLOCK,
        .run_tokens = 4 * KIT_BLOCK,
        .key = key,
    };
}

struct hearth_model kit_model(uint32_t kinds)
{
    return (struct hearth_model){.struct_size = sizeof(struct hearth_model),
                                 .fingerprint = {7},
                                 .kinds = kinds,
                                 .window = 24};
}

void kit_open_with(struct kit *kit, const struct hearth_options *options,
                   const struct hearth_model *model)
{
    char message[HEARTH_MESSAGE_BYTES] = "";

    *kit = (struct kit){.tag = 1, .row_bytes = 64, .snapshot_bytes = 512};
    if (hearth_open(&kit->cache, options, message) != HEARTH_OK)
        fail_msg("hearth_open: %s", message);
    assert_int_equal(hearth_space_open(kit->cache, model, "", 0, &kit->space), HEARTH_OK);
}

void kit_open(struct kit *kit, uint64_t ram_bytes, uint32_t kinds)
{
    struct hearth_options options = kit_options(ram_bytes);
    struct hearth_model model = kit_model(kinds);

    kit_open_with(kit, &options, &model);
}

void kit_open_holding(struct kit *kit, uint32_t kinds, int32_t *tokens, uint32_t count)
{
    kit_open(kit, 4 << 20, kinds);
    kit_tokens(tokens, count, 1);
    kit_store(kit, tokens, count, NULL);
}

void kit_close(struct kit *kit)
{
    hearth_space_close(&kit->space);
    hearth_close(&kit->cache);
}

struct kit kit_space(const struct kit *kit, const struct hearth_model *model, const char *tenant,
                     uint64_t share)
{
    struct kit other = *kit;

    other.tag =
        mix(kit->tag + strlen(tenant) * 131 + (uint64_t)tenant[0] + model->fingerprint[0] * 7919u);
    assert_int_equal(hearth_space_open(kit->cache, model, tenant, share, &other.space), HEARTH_OK);
    return other;
}

void kit_tokens(int32_t *tokens, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++)
        tokens[i] = (int32_t)((mix(i + 1) & 0xffff) * 1000 + seed);
}

uint64_t kit_bytes(const struct kit *kit, enum hearth_object_kind kind, uint32_t begin,
                   uint32_t end)
{
    return kind == HEARTH_OBJECT_SNAPSHOT ? kit->snapshot_bytes
                                          : (uint64_t)(end - begin) * kit->row_bytes;
}

void kit_fill(const struct kit *kit, enum hearth_object_kind kind, uint32_t begin, uint32_t end,
              const int32_t *tokens, void *memory)
{
    uint64_t hash = mix(kit->tag), *out = memory;

    for (uint32_t i = 0; i < end; i++) {
        hash = chain(hash, tokens[i]);
        for (uint32_t w = 0; kind != HEARTH_OBJECT_SNAPSHOT && i >= begin && w < kit->row_bytes / 8;
             w++)
            *out++ = word_of(kind, hash, w);
    }
    for (uint32_t w = 0; kind == HEARTH_OBJECT_SNAPSHOT && w < kit->snapshot_bytes / 8; w++)
        *out++ = word_of(kind, hash, w);
}

void kit_expect(const struct kit *kit, const struct hearth_object *object, const void *data,
                const int32_t *tokens, size_t count)
{
    uint32_t shape[3] = {object->kind, object->begin, object->end};
    uint32_t end = (uint32_t)MIN(object->end, count);
    uint64_t bytes = kit_bytes(kit, object->kind, object->begin, end);

    assert_non_null(data);
    assert_int_equal(object->shape_bytes, sizeof(shape));
    assert_memory_equal(object->shape, shape, sizeof(shape));
    assert_int_equal(object->bytes, kit_bytes(kit, object->kind, object->begin, object->end));
    void *expected = mem_alloc(bytes);
    kit_fill(kit, object->kind, object->begin, end, tokens, expected);
    if (memcmp(expected, data, bytes) != 0)
        fail_msg("object %d [%u, %u) has other bytes than it should", object->kind, object->begin,
                 object->end);
    mem_free(expected);
}

int kit_put(const struct kit *kit, struct hearth_store *store, enum hearth_object_kind kind,
            uint32_t begin, uint32_t end, const int32_t *tokens)
{
    uint32_t shape[3] = {kind, begin, end};
    uint64_t bytes = kit_bytes(kit, kind, begin, end);
    void *memory;
    int error = hearth_store_reserve(store, kind, begin, end, bytes + 100, &memory);

    if (error != HEARTH_OK) {
        assert_null(memory);
        return error;
    }
    kit_fill(kit, kind, begin, end, tokens, memory);
    return hearth_store_commit(store, bytes, shape, sizeof(shape));
}

size_t kit_store(const struct kit *kit, const int32_t *tokens, size_t count,
                 const struct hearth_store_hints *hints)
{
    struct hearth_store *store;
    uint32_t begin, end;
    size_t stored = 0;

    if (hearth_store_open(kit->space, tokens, count, hints, &store) != HEARTH_OK)
        return 0;
    while (hearth_store_next(store, &begin, &end)) {
        stored += kit_put(kit, store, HEARTH_OBJECT_ROWS, begin, end, tokens) == HEARTH_OK;
        if (kit->space->model.captures_sliding)
            stored += kit_put(kit, store, HEARTH_OBJECT_SLIDING, begin, end, tokens) == HEARTH_OK;
    }
    hearth_store_close(&store);
    return stored;
}

int kit_snapshot(const struct kit *kit, const int32_t *tokens, size_t count, uint32_t at)
{
    struct hearth_store *store;
    int error = hearth_store_open(kit->space, tokens, count, NULL, &store);

    if (error != HEARTH_OK)
        return error;
    error = kit_put(kit, store, HEARTH_OBJECT_SNAPSHOT, 0, at, tokens);
    hearth_store_close(&store);
    return error;
}

/* Whether the objects are enough for a sequence of `boundary` tokens. */
static void expect_cover(const struct kit *kit, const struct hearth_plan_info *info, size_t count)
{
    const struct hearth_model *model = &kit->space->model;
    uint32_t rows = 0,
             sliding = info->boundary > model->window ? info->boundary - model->window : 0;
    bool snapshot = false;

    assert_true(info->boundary < count); /* keeps I12 */
    for (size_t i = 0; i < info->objects_count; i++) {
        const struct hearth_object *object = &info->objects[i];
        assert_false(snapshot); /* it is the last */
        switch (object->kind) {
        case HEARTH_OBJECT_ROWS:
            assert_true(object->begin <= rows && object->begin < info->boundary);
            rows = object->end;
            break;
        case HEARTH_OBJECT_SLIDING:
            assert_true(object->begin <= sliding);
            sliding = object->end;
            break;
        case HEARTH_OBJECT_SNAPSHOT:
            assert_int_equal(object->end, info->boundary);
            snapshot = true;
            break;
        }
    }
    if (info->boundary == 0) {
        assert_int_equal(info->objects_count, 0);
        return;
    }
    assert_true(!space_has_rows(kit->space) || rows >= info->boundary);
    assert_true(!model->captures_sliding || sliding >= info->boundary);
    assert_int_equal(snapshot, space_needs_snapshot(kit->space));
}

/* How far the object is of the prompt's tokens. */
static uint32_t useful_end(const struct hearth_plan_info *info, size_t i)
{
    bool more = i + 1 < info->objects_count && info->objects[i + 1].kind == info->objects[i].kind;

    return more ? MIN(info->objects[i + 1].begin, info->boundary) : info->boundary;
}

/* False: the plan was shortened. */
static bool import(const struct kit *kit, struct hearth_plan *plan, const int32_t *tokens)
{
    const struct hearth_plan_info *info = hearth_plan_info(plan);

    for (size_t i = 0; i < info->objects_count; i++) {
        const void *data;
        if (hearth_plan_fetch(plan, i, FETCH_MS, &data) != HEARTH_OK) {
            assert_null(data);
            hearth_plan_shorten(plan, i, HEARTH_REASON_NONE);
            return false;
        }
        kit_expect(kit, &info->objects[i], data, tokens, useful_end(info, i));
    }
    return true;
}

struct hearth_plan *kit_lookup(const struct kit *kit, const int32_t *tokens, size_t count)
{
    struct hearth_plan *plan;

    assert_int_equal(hearth_lookup(kit->space, tokens, count, NULL, &plan), HEARTH_OK);
    return plan;
}

uint32_t kit_restore(const struct kit *kit, const int32_t *tokens, size_t count,
                     struct hearth_plan_info *out)
{
    struct hearth_plan *plan;
    uint32_t last = UINT32_MAX;

    if (hearth_lookup(kit->space, tokens, count, NULL, &plan) != HEARTH_OK)
        return 0;
    do {
        assert_true(hearth_plan_info(plan)->boundary < last); /* it gets shorter each time */
        last = hearth_plan_info(plan)->boundary;
        expect_cover(kit, hearth_plan_info(plan), count);
    } while (!import(kit, plan, tokens));
    hearth_plan_accept(plan);
    if (out != NULL) {
        *out = *hearth_plan_info(plan);
        out->objects = NULL;
    }
    hearth_plan_release(&plan);
    return last;
}

struct hearth_plan_info kit_peek(const struct kit *kit, const int32_t *tokens, size_t count)
{
    struct hearth_plan *plan;
    struct hearth_plan_info info;

    assert_int_equal(hearth_lookup(kit->space, tokens, count, &kit_peeking, &plan), HEARTH_OK);
    info = *hearth_plan_info(plan);
    expect_cover(kit, &info, count);
    hearth_plan_release(&plan);
    info.objects = NULL;
    return info;
}

struct hearth_stats kit_stats(const struct kit *kit)
{
    struct hearth_stats stats = {.struct_size = sizeof(stats)};

    hearth_get_stats(kit->cache, NULL, &stats);
    return stats;
}

void kit_check(const struct kit *kit)
{
    struct hearth_stats stats = kit_stats(kit);

    cache_check(kit->cache);
    assert_true(stats.bytes_budget <= stats.bytes_cap);
    assert_true(stats.hits + stats.misses <= stats.lookups);
}

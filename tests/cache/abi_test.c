/*
 * abi_test.c: programs that were built with an older or a newer header than the library. An older
 * one has shorter structs, and nothing past their end may be read or written; a newer one has
 * longer ones, and fields that the library does not know are left alone.
 */
#include "hearth/hearth.h"

#include <string.h>

#include "support/test.h"

enum {
    RAM_BYTES = 4 << 20,
    NEWER = 64 /* bytes that a newer header has and this library does not know */
};

/* The first `size` bytes of a struct, flush against memory that cannot be read. */
static const void *cut(const void *full, size_t size)
{
    const char *copy = test_guarded(full, size);

    assert_int_equal(*(const size_t *)full, size);
    return copy;
}

static struct hearth_cache *open_cache(void)
{
    struct hearth_cache *cache;
    struct hearth_options options = {
        .struct_size = sizeof(options), .ram_bytes = RAM_BYTES, .block_tokens = 16};

    assert_int_equal(hearth_open(&cache, &options, NULL), HEARTH_OK);
    return cache;
}

static struct hearth_space *open_space(struct hearth_cache *cache)
{
    struct hearth_space *space;
    struct hearth_model model = {.struct_size = sizeof(model), .kinds = HEARTH_KIND_FULL};

    assert_int_equal(hearth_space_open(cache, &model, "", 0, &space), HEARTH_OK);
    return space;
}

/* ---- options ---- */

/* What a program wrote against the very first header might have: a size and a cap. */
static void test_older_options(void **state)
{
    struct hearth_cache *cache;
    struct hearth_options options = {.struct_size = offsetof(struct hearth_options, block_tokens),
                                     .ram_bytes = RAM_BYTES,
                                     .policy = "no such policy"};
    struct hearth_stats stats = {.struct_size = sizeof(stats)};

    (void)state;
    assert_int_equal(hearth_open(&cache, cut(&options, options.struct_size), NULL), HEARTH_OK);
    hearth_get_stats(cache, NULL, &stats);
    assert_int_equal(stats.bytes_cap, RAM_BYTES);
    hearth_close(&cache);
    /* The same with the field inside of the size is refused: the size decides. */
    options.struct_size = sizeof(options);
    assert_int_equal(hearth_open(&cache, &options, NULL), HEARTH_ERROR_INVALID);
    assert_null(cache);
}

static void test_newer_options(void **state)
{
    struct hearth_cache *cache;
    struct {
        struct hearth_options known;
        unsigned char unknown[NEWER];
    } options = {.known = {.struct_size = sizeof(options), .ram_bytes = RAM_BYTES}};

    (void)state;
    memset(options.unknown, 0xff, sizeof(options.unknown));
    assert_int_equal(hearth_open(&cache, &options.known, NULL), HEARTH_OK);
    hearth_close(&cache);
}

/* A size that was forgotten is a struct without a single field: a sentence, not a crash. */
static void test_options_without_size(void **state)
{
    struct hearth_cache *cache;
    struct hearth_options options = {.ram_bytes = RAM_BYTES};
    char message[HEARTH_MESSAGE_BYTES] = "";

    (void)state;
    assert_int_equal(hearth_open(&cache, &options, message), HEARTH_ERROR_INVALID);
    assert_true(strlen(message) > 0);
    assert_null(cache);
}

/* ---- models ---- */

static void test_older_model(void **state)
{
    struct hearth_cache *cache = open_cache();
    struct hearth_space *older, *newer;
    struct hearth_model model = {.struct_size = offsetof(struct hearth_model, captures_sliding),
                                 .fingerprint = "a model",
                                 .kinds = HEARTH_KIND_FULL};

    (void)state;
    assert_int_equal(hearth_space_open(cache, cut(&model, model.struct_size), "", 0, &older),
                     HEARTH_OK);
    /* Fields that it does not know are zero: it shares state with a program that says so. */
    model.struct_size = sizeof(model);
    assert_int_equal(hearth_space_open(cache, &model, "", 0, &newer), HEARTH_OK);
    assert_ptr_equal(older, newer);
    hearth_space_close(&older);
    hearth_space_close(&newer);
    hearth_close(&cache);
}

static void test_newer_model(void **state)
{
    struct hearth_cache *cache = open_cache();
    struct hearth_space *space;
    struct {
        struct hearth_model known;
        unsigned char unknown[NEWER];
    } model = {.known = {.struct_size = sizeof(model), .kinds = HEARTH_KIND_FULL}};

    (void)state;
    memset(model.unknown, 0xff, sizeof(model.unknown));
    assert_int_equal(hearth_space_open(cache, &model.known, "", 0, &space), HEARTH_OK);
    hearth_space_close(&space);
    hearth_close(&cache);
}

/* ---- hints ---- */

/* Stores one block with these hints; whether it can be cleared says that it was held, not pinned
 * for ever. */
static void store_block(struct hearth_space *space, const struct hearth_store_hints *hints)
{
    struct hearth_store *store;
    int32_t tokens[16] = {1, 2, 3};
    void *memory;

    assert_int_equal(hearth_store_open(space, tokens, COUNT_OF(tokens), hints, &store), HEARTH_OK);
    assert_int_equal(hearth_store_reserve(store, HEARTH_OBJECT_ROWS, 0, 16, 100, &memory),
                     HEARTH_OK);
    memset(memory, 1, 100);
    assert_int_equal(hearth_store_commit(store, 100, "s", 1), HEARTH_OK);
    hearth_store_close(&store);
}

static void test_older_and_newer_hints(void **state)
{
    struct hearth_cache *cache = open_cache();
    struct hearth_space *space = open_space(cache);
    struct hearth_store_hints older = {.struct_size = offsetof(struct hearth_store_hints, ttl_s),
                                       .entry = HEARTH_ENTRY_USER};
    struct {
        struct hearth_store_hints known;
        unsigned char unknown[NEWER];
    } newer = {.known = {.struct_size = sizeof(newer), .entry = HEARTH_ENTRY_USER}};

    (void)state;
    store_block(space, cut(&older, older.struct_size));
    assert_true(hearth_clear(cache, space, HEARTH_TIER_COUNT) > 0);
    memset(newer.unknown, 0xff, sizeof(newer.unknown));
    store_block(space, &newer.known);
    assert_true(hearth_clear(cache, space, HEARTH_TIER_COUNT) > 0);
    store_block(space, NULL);
    hearth_space_close(&space);
    hearth_close(&cache);
}

/* ---- lookups ---- */

static void test_older_and_newer_lookup_options(void **state)
{
    struct hearth_cache *cache = open_cache();
    struct hearth_space *space = open_space(cache);
    struct hearth_lookup_options older = {
        .struct_size = offsetof(struct hearth_lookup_options, flags), .request = 7};
    struct {
        struct hearth_lookup_options known;
        unsigned char unknown[NEWER];
    } newer = {.known = {.struct_size = sizeof(newer), .request = 8}};
    struct hearth_stats stats = {.struct_size = sizeof(stats)};
    struct hearth_event event;
    struct hearth_plan *plan;
    int32_t token = 1;

    (void)state;
    assert_int_equal(hearth_lookup(space, &token, 1, cut(&older, older.struct_size), &plan),
                     HEARTH_OK);
    hearth_plan_release(&plan);
    memset(newer.unknown, 0xff, sizeof(newer.unknown));
    assert_int_equal(hearth_lookup(space, &token, 1, &newer.known, &plan), HEARTH_OK);
    hearth_plan_release(&plan);
    hearth_get_stats(cache, NULL, &stats);
    assert_int_equal(stats.lookups, 2); /* neither was a peek */
    assert_int_equal(hearth_events_read(cache, 0, &event, 1), 1);
    assert_int_equal(event.request, 7);
    assert_int_equal(hearth_events_read(cache, 2, &event, 1), 1);
    assert_int_equal(event.request, 8);
    hearth_space_close(&space);
    hearth_close(&cache);
}

/* ---- sessions ---- */

static bool import_all(const struct hearth_object *objects, const void *const *data, size_t count,
                       uint32_t boundary, void *arg)
{
    (void)objects, (void)data, (void)count, (void)boundary;
    assert_null(arg); /* older programs have none */
    return true;
}

static uint64_t one_byte(enum hearth_object_kind kind, uint32_t begin, uint32_t end, void *arg)
{
    (void)kind, (void)begin, (void)end, (void)arg;
    return 1;
}

/* The bytes after the end of the struct are not a function of the program, whatever their value. */
static void test_older_and_newer_session_ops(void **state)
{
    struct hearth_cache *cache = open_cache();
    struct hearth_space *space = open_space(cache);
    struct hearth_session_ops older = {.struct_size = offsetof(struct hearth_session_ops, capacity),
                                       .import = import_all};
    struct hearth_session_ops without_export = {
        .struct_size = offsetof(struct hearth_session_ops, export_to), .capacity = one_byte};
    struct hearth_session_ops unsized = {.import = import_all};
    struct {
        struct hearth_session_ops known;
        unsigned char unknown[NEWER];
    } newer = {.known = {.struct_size = sizeof(newer), .import = import_all}};
    int32_t tokens[16] = {1, 2, 3};
    uint32_t reused;
    uint64_t stored;

    (void)state;
    store_block(space, NULL);
    assert_int_equal(
        hearth_session_lookup(space, cut(&older, older.struct_size), tokens, 16, NULL, &reused),
        HEARTH_OK);
    assert_int_equal(reused, 15);
    assert_int_equal(hearth_session_insert(space, cut(&without_export, without_export.struct_size),
                                           tokens, 16, NULL, &stored),
                     HEARTH_ERROR_INVALID);
    assert_int_equal(hearth_session_lookup(space, &unsized, tokens, 16, NULL, &reused),
                     HEARTH_ERROR_INVALID);
    memset(newer.unknown, 0xff, sizeof(newer.unknown));
    assert_int_equal(hearth_session_lookup(space, &newer.known, tokens, 16, NULL, &reused),
                     HEARTH_OK);
    assert_int_equal(reused, 15);
    hearth_space_close(&space);
    hearth_close(&cache);
}

/* ---- stats: the library writes ---- */

static void test_older_stats(void **state)
{
    struct hearth_cache *cache = open_cache();
    struct hearth_space *space = open_space(cache);
    unsigned char bytes[sizeof(struct hearth_stats)];
    size_t size = offsetof(struct hearth_stats, misses);
    struct hearth_stats *stats = (struct hearth_stats *)(void *)bytes;
    struct hearth_plan *plan;
    int32_t token = 1;

    (void)state;
    assert_int_equal(hearth_lookup(space, &token, 1, NULL, &plan), HEARTH_OK);
    hearth_plan_release(&plan);
    memset(bytes, 0xee, sizeof(bytes));
    memcpy(bytes, &size, sizeof(size));
    hearth_get_stats(cache, NULL, stats);
    assert_int_equal(stats->struct_size, size);
    assert_int_equal(stats->lookups, 1);
    for (size_t i = size; i < sizeof(bytes); i++)
        assert_int_equal(bytes[i], 0xee);
    hearth_space_close(&space);
    hearth_close(&cache);
}

/* A newer program sees in struct_size how much was filled in. */
static void test_newer_stats(void **state)
{
    struct hearth_cache *cache = open_cache();
    struct {
        struct hearth_stats known;
        unsigned char unknown[NEWER];
    } stats = {.known = {.struct_size = sizeof(stats)}};

    (void)state;
    memset(stats.unknown, 0xee, sizeof(stats.unknown));
    hearth_get_stats(cache, NULL, &stats.known);
    assert_int_equal(stats.known.struct_size, sizeof(stats.known));
    assert_int_equal(stats.known.bytes_cap, RAM_BYTES);
    for (size_t i = 0; i < NEWER; i++)
        assert_int_equal(stats.unknown[i], 0xee);
    hearth_close(&cache);
}

TEST_SUITE(TEST(test_older_options), TEST(test_newer_options), TEST(test_options_without_size),
           TEST(test_older_model), TEST(test_newer_model), TEST(test_older_and_newer_hints),
           TEST(test_older_and_newer_lookup_options), TEST(test_older_and_newer_session_ops),
           TEST(test_older_stats), TEST(test_newer_stats))

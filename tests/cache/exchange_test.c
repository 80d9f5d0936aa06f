/* Objects to and from a folder: all that was there is there again, right to the last byte, or is
 * refused. */
#include <hearth/hearth.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/object_path.h"
#include "cache/cache.h"
#include "support/cache_kit.h"
#include "support/ssd_kit.h"
#include "support/test.h"

enum { RAM = 8 << 20, TOKENS = 100 };

static const uint32_t FULL = HEARTH_KIND_FULL;
static const uint32_t HYBRID = HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT;

static struct hearth_folder_options folder_options(const char *path)
{
    return (struct hearth_folder_options){.struct_size = sizeof(struct hearth_folder_options),
                                          .path = path};
}

static struct hearth_moved export_to(const struct kit *kit, const char *path)
{
    struct hearth_folder_options options = folder_options(path);
    struct hearth_moved moved;
    char message[HEARTH_MESSAGE_BYTES] = "";

    if (hearth_export(kit->cache, &options, &moved, message) != HEARTH_OK)
        fail_msg("export: %s", message);
    kit_check(kit);
    return moved;
}

static struct hearth_moved import_from(const struct kit *kit, const char *path)
{
    struct hearth_folder_options options = folder_options(path);
    struct hearth_moved moved;
    char message[HEARTH_MESSAGE_BYTES] = "";

    if (hearth_import(kit->cache, &options, &moved, message) != HEARTH_OK)
        fail_msg("import: %s", message);
    kit_check(kit);
    return moved;
}

static void fill(const struct kit *kit, uint32_t kinds, int32_t tokens[2][TOKENS])
{
    kit_tokens(tokens[0], TOKENS, 1);
    kit_tokens(tokens[1], TOKENS, 2);
    memcpy(tokens[1], tokens[0], 40 * sizeof(int32_t)); /* a branch from the middle of a run */
    for (int i = 0; i < 2; i++) {
        kit_store(kit, tokens[i], TOKENS, NULL);
        if (kinds & HEARTH_KIND_RECURRENT) {
            kit_snapshot(kit, tokens[i], TOKENS, 20);
            kit_snapshot(kit, tokens[i], TOKENS, TOKENS - 1);
        }
    }
}

static void test_there_and_back(void **state)
{
    static const uint32_t kinds[] = {HEARTH_KIND_FULL, HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT,
                                     HEARTH_KIND_RECURRENT};
    int32_t tokens[2][TOKENS];
    struct kit kit;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const char *path = ssd_kit_new_path();
        kit_open(&kit, RAM, kinds[i]);
        fill(&kit, kinds[i], tokens);
        struct hearth_stats before = kit_stats(&kit);
        struct hearth_moved out = export_to(&kit, path), again;
        struct hearth_stats after = kit_stats(&kit);
        assert_memory_equal(&before, &after, sizeof(before)); /* it goes on as it was */
        assert_int_equal(out.objects, before.objects);
        assert_int_equal(out.refused, 0);
        again = import_from(&kit, path);
        assert_int_equal(again.held, out.objects);
        assert_int_equal(again.objects + again.refused, 0);
        kit_close(&kit);
        kit_open(&kit, RAM, kinds[i]);
        struct hearth_moved in = import_from(&kit, path);
        assert_int_equal(in.objects, out.objects);
        assert_int_equal(in.bytes, out.bytes);
        assert_int_equal(in.held + in.refused, 0);
        for (int j = 0; j < 2; j++)
            assert_int_equal(kit_restore(&kit, tokens[j], TOKENS, NULL), TOKENS - 1);
        kit_close(&kit);
    }
}

/* Records are no turns of conversations: nothing is learned from how fast they come. */
static void test_imports_are_no_turns(void **state)
{
    enum { PROMPTS = 40 }; /* more than it takes to learn rates anew */
    const char *path = ssd_kit_new_path();
    int32_t tokens[TOKENS];
    struct kit kit;

    (void)state;
    kit_open(&kit, RAM, FULL);
    for (uint32_t i = 0; i < PROMPTS; i++) {
        kit_tokens(tokens, TOKENS, i);
        kit_store(&kit, tokens, TOKENS, NULL);
    }
    assert_true(reuse_version(kit.cache->reuse) > 0);
    assert_true(export_to(&kit, path).objects >= PROMPTS);
    kit_close(&kit);
    kit_open(&kit, RAM, FULL);
    assert_true(import_from(&kit, path).objects >= PROMPTS);
    assert_int_equal(reuse_version(kit.cache->reuse), 0);
    kit_close(&kit);
}

/* Objects that are only on disk are exported as well, sealed or not, and an import is written to
 * the disk below. */
static void test_from_disk_to_disk(void **state)
{
    struct tier_ssd_options ssd = ssd_kit_options(ssd_kit_new_path(), 64 << 20);
    const char *path = ssd_kit_new_path();
    int32_t tokens[2][TOKENS];
    struct kit kit;

    (void)state;
    for (int round = 0; round < 2; round++) {
        kit_open(&kit, RAM, FULL);
        cache_attach_tier(kit.cache, HEARTH_TIER_SSD, ssd_kit_open(&ssd), 1e9);
        if (round == 0)
            fill(&kit, FULL, tokens);
        else
            assert_int_equal(import_from(&kit, path).refused, 0);
        mover_drain(kit.cache, 20000);
        hearth_clear(kit.cache, NULL, HEARTH_TIER_RAM);
        if (round == 0)
            assert_int_equal(export_to(&kit, path).objects, kit_stats(&kit).objects);
        for (int j = 0; j < 2; j++)
            assert_int_equal(kit_restore(&kit, tokens[j], TOKENS, NULL), TOKENS - 1);
        kit_close(&kit);
        ssd = ssd_kit_options(ssd_kit_new_path(), 64 << 20);
    }
}

static void test_one_path_by_its_key(void **state)
{
    static const unsigned char unknown[HEARTH_KEY_BYTES] = {1};
    struct hearth_folder_options options = folder_options(ssd_kit_new_path());
    struct hearth_probe probe = {.struct_size = sizeof(probe)};
    struct hearth_block blocks[8];
    struct hearth_moved moved;
    int32_t tokens[2][TOKENS];
    struct kit kit;

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    fill(&kit, HYBRID, tokens);
    options.key = unknown;
    assert_int_equal(hearth_export(kit.cache, &options, &moved, NULL), HEARTH_ERROR_MISSING);
    assert_int_equal(hearth_probe(kit.space, tokens[1], TOKENS, &probe, blocks, 8), HEARTH_OK);
    /* the end of the branch; the run that it leaves goes on elsewhere */
    options.key = blocks[6].key;
    assert_int_equal(hearth_export(kit.cache, &options, &moved, NULL), HEARTH_OK);
    kit_close(&kit);
    kit_open(&kit, RAM, HYBRID);
    struct hearth_moved in = import_from(&kit, options.path);
    assert_int_equal(in.objects, moved.objects);
    assert_int_equal(in.refused, 0);
    assert_int_equal(kit_restore(&kit, tokens[1], TOKENS, NULL), TOKENS - 1);
    /* of the other, what they share */
    assert_int_equal(kit_peek(&kit, tokens[0], TOKENS).boundary, 20);
    kit_close(&kit);
}

/* A prompt whose time to live is over is not written: the export asks the clock as well. */
static void test_expired_prompts_are_not_exported(void **state)
{
    struct hearth_folder_options options = folder_options(ssd_kit_new_path());
    struct hearth_probe probe = {.struct_size = sizeof(probe)};
    struct hearth_block blocks[8];
    int32_t tokens[2][TOKENS];
    struct kit kit;
    size_t i = 0;

    (void)state;
    kit_open(&kit, RAM, FULL);
    struct clock *clock = clock_create_fake(1000 * NS_PER_S, 1000 * NS_PER_S);
    kit.cache->clock = clock;
    kit_tokens(tokens[0], TOKENS, 1);
    kit_tokens(tokens[1], TOKENS, 2);
    kit_store(&kit, tokens[0], TOKENS, NULL);
    kit_store(&kit, tokens[1], TOKENS, NULL);
    assert_int_equal(hearth_probe(kit.space, tokens[0], TOKENS, &probe, blocks, 8), HEARTH_OK);
    /* the first object: its key is that of its last block */
    while (i < 8 && hearth_expire(kit.cache, blocks[i].key, 10) != HEARTH_OK)
        i++;
    assert_true(i < 8);
    clock_fake_advance(clock, 10 * NS_PER_S);
    export_to(&kit, options.path);
    kit_close(&kit);
    clock_destroy_fake(&clock);
    kit_open(&kit, RAM, FULL);
    import_from(&kit, options.path);
    assert_int_equal(kit_peek(&kit, tokens[0], TOKENS).boundary, 0);
    assert_int_equal(kit_restore(&kit, tokens[1], TOKENS, NULL), TOKENS - 1);
    kit_close(&kit);
}

/* ---- what is refused ---- */

static bool damage_first(const struct tier_meta *meta, void *arg)
{
    char path[1024], name[OBJECT_PATH_BYTES];
    unsigned char byte;

    object_path(&meta->key, name);
    snprintf(path, sizeof(path), "%s/%s", (const char *)arg, name);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    off_t at = lseek(fd, 0, SEEK_END) - 3;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
    return meta->begin != 64; /* rows that others need, and a few more */
}

static void test_damaged_ones_and_what_is_behind_them_are_refused(void **state)
{
    const char *path = ssd_kit_new_path();
    struct tier_ssd_options ssd = ssd_kit_options(path, UINT64_C(1) << 40);
    int32_t tokens[TOKENS];
    struct kit kit;

    (void)state;
    kit_open_holding(&kit, FULL, tokens, TOKENS);
    uint64_t all = export_to(&kit, path).objects;
    ssd.key = kit.cache->key;
    kit_close(&kit);
    ssd.read_only = true;
    struct tier *tier = ssd_kit_open(&ssd);
    tier->ops->each(tier, damage_first, (void *)(uintptr_t)path);
    tier_close(&tier);
    kit_open(&kit, RAM, FULL);
    struct hearth_moved in = import_from(&kit, path);
    assert_int_equal(in.objects + in.refused, all);
    assert_true(in.refused >= 2);
    (void)kit_restore(&kit, tokens, TOKENS, NULL); /* fails at the first wrong byte */
    assert_int_equal(kit_stats(&kit).objects, in.objects);
    assert_int_equal(ssd_kit_count_files(path, ".hobj"), (int)all); /* nothing there is changed */
    kit_close(&kit);
}

/* Keeps the record of the tail, and its tokens. */
struct tail {
    struct tier_meta meta;
    int32_t tokens[KIT_BLOCK];
};

static bool take_tail(const struct tier_meta *meta, void *arg)
{
    struct tail *tail = arg;

    if (meta->tokens_count >= KIT_BLOCK)
        return true;
    tail->meta = *meta;
    memcpy(tail->tokens, meta->tokens, meta->tokens_count * sizeof(int32_t));
    return true;
}

/* A file with the right digests that says it begins far after the block that it follows: its tokens
 * would have a gap. */
static void test_records_that_contradict_themselves_are_refused(void **state)
{
    const char *path = ssd_kit_new_path();
    struct tier_ssd_options ssd = ssd_kit_options(path, UINT64_C(1) << 40);
    struct tier_answer answer;
    int32_t tokens[TOKENS];
    struct tail tail;
    struct kit kit;
    char bytes[64] = "";

    (void)state;
    kit_open_holding(&kit, FULL, tokens, TOKENS);
    uint64_t all = export_to(&kit, path).objects;
    ssd.key = kit.cache->key;
    kit_close(&kit);
    struct tier *tier = ssd_kit_open(&ssd);
    tier->ops->each(tier, take_tail, &tail);
    tail.meta.tokens = tail.tokens;
    tail.meta.key.bytes[0] ^= 1;
    tail.meta.begin += 1000 * KIT_BLOCK;
    tail.meta.end += 1000 * KIT_BLOCK;
    tail.meta.bytes = sizeof(bytes);
    tail.meta.digest = (struct hash128){{0}};
    tier_answer_init(&answer);
    assert_true(tier->ops->put(tier, &tail.meta, bytes, tier_answer_done, &answer));
    assert_int_equal(tier_answer_wait(&answer), TIER_OK);
    tier_answer_fini(&answer);
    tier_close(&tier);
    kit_open(&kit, RAM, FULL);
    struct hearth_moved in = import_from(&kit, path);
    assert_int_equal(in.objects, all);
    assert_int_equal(in.refused, 1);
    kit_close(&kit);
}

static bool take_first(const struct tier_meta *meta, void *arg)
{
    struct tail *first = arg;

    if (meta->begin != 0)
        return true;
    first->meta = *meta;
    memcpy(first->tokens, meta->tokens, meta->tokens_count * sizeof(int32_t));
    return false;
}

/* I101: a record with a right place and right tokens, under a key that is not theirs, proves nothing:
 * it is refused, and leaves nothing in the tree. */
static void test_i101_keys_belong_to_their_tokens(void **state)
{
    const char *path = ssd_kit_new_path();
    struct tier_ssd_options ssd = ssd_kit_options(path, UINT64_C(1) << 40);
    struct tier_ssd_options other = ssd_kit_options(ssd_kit_new_path(), UINT64_C(1) << 40);
    struct tier_answer answer;
    int32_t tokens[TOKENS];
    struct tail first;
    struct kit kit;

    (void)state;
    kit_open(&kit, RAM, FULL);
    kit_tokens(tokens, TOKENS, 1);
    kit_store(&kit, tokens, KIT_BLOCK, NULL);
    export_to(&kit, path);
    ssd.key = kit.cache->key;
    kit_close(&kit);
    struct tier *tier = ssd_kit_open(&ssd);
    tier->ops->each(tier, take_first, &first);
    tier_close(&tier);
    first.meta.tokens = first.tokens;
    char *bytes = mem_alloc(first.meta.bytes);
    memset(bytes, 0, first.meta.bytes);
    first.meta.key.bytes[0] ^= 1;
    first.meta.digest = (struct hash128){{0}};
    other.key = ssd.key;
    tier = ssd_kit_open(&other);
    tier_answer_init(&answer);
    assert_true(tier->ops->put(tier, &first.meta, bytes, tier_answer_done, &answer));
    assert_int_equal(tier_answer_wait(&answer), TIER_OK);
    tier_answer_fini(&answer);
    mem_free(bytes);
    tier_close(&tier);
    kit_open(&kit, RAM, FULL);
    struct hearth_moved in = import_from(&kit, other.path);
    assert_int_equal(in.objects + in.held, 0);
    assert_int_equal(in.refused, 1);
    assert_int_equal(kit_peek(&kit, tokens, TOKENS).boundary, 0);
    assert_int_equal(kit_stats(&kit).objects, 0);
    kit_close(&kit);
}

static void test_others_objects_are_refused(void **state)
{
    static const unsigned char other_key[HEARTH_KEY_BYTES] = {9};
    const char *path = ssd_kit_new_path();
    struct hearth_options options = kit_options(RAM);
    struct hearth_model model = kit_model(FULL);
    int32_t tokens[TOKENS];
    struct kit kit;

    (void)state;
    kit_open_holding(&kit, FULL, tokens, TOKENS);
    uint64_t all = export_to(&kit, path).objects;
    kit_close(&kit);
    for (int other = 0; other < 3; other++) {
        options = kit_options(RAM);
        model = kit_model(FULL);
        if (other == 0)
            options.key = other_key; /* installation */
        else if (other == 1)
            model.fingerprint[3] = 1; /* model */
        else
            options.block_tokens = 32;
        kit_open_with(&kit, &options, &model);
        struct hearth_moved in = import_from(&kit, path);
        assert_int_equal(in.refused, all);
        assert_int_equal(in.objects + in.held, 0);
        assert_int_equal(kit_stats(&kit).objects, 0);
        kit_close(&kit);
    }
}

static void test_seals_are_respected(void **state)
{
    static const unsigned char seal_key[HEARTH_KEY_BYTES] = "a key";
    struct hearth_ssd_options ssd = {
        .struct_size = sizeof(ssd), .path = ssd_kit_new_path(), .seal_key = seal_key};
    struct hearth_folder_options folder = folder_options(ssd_kit_new_path());
    struct hearth_moved moved;
    char message[HEARTH_MESSAGE_BYTES] = "";
    int32_t tokens[TOKENS];
    struct kit kit;

    (void)state;
    kit_open(&kit, RAM, FULL);
    assert_int_equal(hearth_attach_ssd(kit.cache, &ssd, NULL), HEARTH_OK);
    kit_tokens(tokens, TOKENS, 1);
    kit_store(&kit, tokens, TOKENS, NULL);
    assert_int_equal(hearth_export(kit.cache, &folder, &moved, message), HEARTH_ERROR_REFUSED);
    assert_string_not_equal(message, "");
    /* nothing in the clear, not even a folder */
    assert_int_equal(ssd_kit_count_files(folder.path, ""), 0);
    folder.seal_key = seal_key;
    assert_int_equal(hearth_export(kit.cache, &folder, &moved, message), HEARTH_OK);
    assert_int_equal(moved.objects, 3);
    kit_close(&kit);
    kit_open(&kit, RAM, FULL);
    struct hearth_moved in = import_from(&kit, folder.path); /* without the key */
    assert_int_equal(in.objects, 0);
    assert_int_equal(in.refused, 3);
    assert_int_equal(hearth_import(kit.cache, &folder, &in, NULL), HEARTH_OK);
    assert_int_equal(in.objects, 3);
    assert_int_equal(kit_restore(&kit, tokens, TOKENS, NULL), TOKENS - 1);
    kit_close(&kit);
}

static void test_folders_that_cannot_be(void **state)
{
    struct hearth_folder_options options = folder_options(NULL);
    struct hearth_moved moved;
    char message[HEARTH_MESSAGE_BYTES] = "";
    struct kit kit;

    (void)state;
    kit_open(&kit, RAM, FULL);
    assert_int_equal(hearth_export(kit.cache, &options, &moved, message), HEARTH_ERROR_INVALID);
    assert_int_equal(hearth_import(kit.cache, &options, &moved, message), HEARTH_ERROR_INVALID);
    options.path = "/proc/nowhere";
    assert_int_equal(hearth_export(kit.cache, &options, &moved, message), HEARTH_ERROR_SYSTEM);
    assert_string_not_equal(message, "");
    options.path = ssd_kit_new_path(); /* nothing is there, and nothing is made */
    assert_int_equal(hearth_import(kit.cache, &options, &moved, message), HEARTH_ERROR_SYSTEM);
    kit_close(&kit);
}

static void test_without_memory_objects_are_refused(void **state)
{
    const char *path = ssd_kit_new_path();
    struct fault fault = {0};
    int32_t tokens[TOKENS];
    struct kit kit;

    (void)state;
    kit_open_holding(&kit, FULL, tokens, TOKENS);
    uint64_t all = export_to(&kit, path).objects;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        hearth_clear(kit.cache, NULL, HEARTH_TIER_COUNT);
        struct hearth_moved in = import_from(&kit, path);
        /* a record that could not be read is not counted twice */
        assert_true(in.objects + in.refused <= all);
        assert_true(in.objects == all || atomic_load(&fault.fired) > 0);
    }
    mem_set_fault(NULL);
    assert_int_equal(kit_restore(&kit, tokens, TOKENS, NULL), TOKENS - 1);
    kit_close(&kit);
}

TEST_SUITE(TEST(test_expired_prompts_are_not_exported), TEST(test_i101_keys_belong_to_their_tokens),
           TEST(test_there_and_back), TEST(test_imports_are_no_turns), TEST(test_from_disk_to_disk),
           TEST(test_one_path_by_its_key),
           TEST(test_damaged_ones_and_what_is_behind_them_are_refused),
           TEST(test_records_that_contradict_themselves_are_refused),
           TEST(test_others_objects_are_refused), TEST(test_seals_are_respected),
           TEST(test_folders_that_cannot_be), TEST(test_without_memory_objects_are_refused))

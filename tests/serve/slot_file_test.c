/*
 * slot_file_test.c: whatever call of the disk fails, a file is the old one or the new one, and
 * nothing else is left in the folder.
 */
#include "serve/slot_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lab/file_fault.h"
#include "support/cache_kit.h"
#include "support/test.h"

enum { TOKENS = 64 };

struct place {
    struct kit kit;
    struct file_fault fault;
    struct slot_files files;
    struct slot_state state;
    int32_t tokens[TOKENS];
    unsigned char key[HEARTH_KEY_BYTES];
};

static void open_place(struct place *place)
{
    struct hearth_probe probe = {.struct_size = sizeof(probe)};
    struct hearth_block blocks[TOKENS];

    *place = (struct place){0};
    kit_open_holding(&place->kit, HEARTH_KIND_FULL, place->tokens, TOKENS);
    assert_int_equal(hearth_probe(place->kit.space, place->tokens, TOKENS, &probe, blocks, TOKENS),
                     HEARTH_OK);
    assert_true(probe.blocks_count > 0);
    memcpy(place->key, blocks[probe.blocks_count - 1].key, sizeof(place->key));
    file_fault_init(&place->fault, file_sys_real());
    place->fault.errnum = EIO;
    place->files = (struct slot_files){.path = test_dir(), .fs = &place->fault.sys};
    buf_init(&place->state.tokens, 1 << 20);
    buf_append(&place->state.tokens, place->tokens, sizeof(place->tokens));
}

static void close_place(struct place *place)
{
    buf_fini(&place->state.tokens);
    kit_close(&place->kit);
}

static enum err save(struct place *place, uint64_t *bytes)
{
    struct errinfo info = {0};

    return slot_file_save(&place->files, "talk", &place->state, place->kit.cache, place->key, bytes,
                          &info);
}

static enum err restore(struct place *place, size_t *count)
{
    struct slot_state state = {0};
    struct errinfo info = {0};
    uint64_t bytes;

    buf_init(&state.tokens, 1 << 20);
    enum err err =
        slot_file_restore(&place->files, "talk", &state, place->kit.cache, &bytes, &info);
    *count = state.tokens.len / sizeof(int32_t);
    if (err == ERR_OK)
        assert_memory_equal(state.tokens.data, place->tokens, state.tokens.len);
    buf_fini(&state.tokens);
    return err;
}

static unsigned count_files(void)
{
    unsigned count = 0;
    DIR *dir = opendir(test_dir());

    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += entry->d_name[0] != '.' || strncmp(entry->d_name, ".slot-", 6) == 0;
    closedir(dir);
    return count;
}

/* Calls that cleaning up needs as well: when one of them fails, a temporary file may stay until a
 * later start. */
#define CLEANING                                                               \
    ((UINT64_C(1) << FILE_CALL_OPENAT) | (UINT64_C(1) << FILE_CALL_UNLINKAT) | \
     (UINT64_C(1) << FILE_CALL_LIST))

static void save_with_faults(struct place *place, uint64_t calls)
{
    uint64_t bytes;
    size_t count;

    place->fault.calls = calls;
    buf_truncate(&place->state.tokens, 16 * sizeof(int32_t));
    assert_ok(save(place, &bytes)); /* the old one */
    buf_truncate(&place->state.tokens, 0);
    buf_append(&place->state.tokens, place->tokens, sizeof(place->tokens));
    FAULT_LOOP (&place->fault.when) {
        enum err err = save(place, &bytes);
        long fired = atomic_load(&place->fault.when.fired);

        fault_arm(&place->fault.when, 0, false);
        assert_true(fired > 0 || err == ERR_OK);
        assert_ok(restore(place, &count));
        assert_true(count == TOKENS || (count == 16 && err != ERR_OK));
        atomic_store(&place->fault.when.fired, fired);
    }
}

static void test_saving_while_calls_fail(void **state)
{
    struct place place;

    (void)state;
    open_place(&place);
    save_with_faults(&place, ~CLEANING);
    assert_int_equal(count_files(), 1);
    save_with_faults(&place, CLEANING);
    close_place(&place);
}

static void restore_with_faults(struct place *place, uint64_t calls)
{
    size_t count;

    place->fault.calls = calls;
    FAULT_LOOP (&place->fault.when) {
        enum err err = restore(place, &count);

        assert_true(err != ERR_OK || count == TOKENS);
        assert_true(err == ERR_OK || atomic_load(&place->fault.when.fired) > 0);
    }
}

static void test_restoring_while_calls_fail(void **state)
{
    struct place place;
    uint64_t bytes;

    (void)state;
    open_place(&place);
    assert_ok(save(&place, &bytes));
    restore_with_faults(&place, ~CLEANING);
    assert_int_equal(count_files(), 1);
    restore_with_faults(&place, CLEANING);
    close_place(&place);
}

TEST_SUITE(TEST(test_saving_while_calls_fail), TEST(test_restoring_while_calls_fail))

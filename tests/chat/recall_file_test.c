/*
 * The file of turns: it comes back as it was, and whatever is wrong with it, nothing of it does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "lab/file_fault.h"
#include "base/mem.h"
#include "chat/recall.h"
#include "support/test.h"

#define NAME "turns"

static const struct hash256 space = {{1}}, key = {{42}};
static const int32_t tokens[] = {1, -2, 0x12345678, 4};

struct place {
    const struct file_sys *fs;
    int dir;
    struct errinfo info;
};

static void place_init(struct place *place)
{
    *place = (struct place){.fs = file_sys_real(), .dir = FILE_NO};
    assert_ok(file_open_dir(place->fs, test_dir(), true, &place->dir, &place->info));
}

static void remember(struct recall *recall, const char *id)
{
    struct tool_call call = {str_from(id), STR("f"), str_from(id)};
    struct recall_turn turn = {.space = space,
                               .opening = STR("<|im_start|>assistant\n"),
                               .message = {STR("c"), str_from(id), &call, 1},
                               .tokens = tokens,
                               .tokens_count = COUNT_OF(tokens),
                               .end = STR("<|im_end|>")};

    assert_ok(recall_remember(recall, &turn));
}

static struct recall *some_turns(void)
{
    struct recall *recall = recall_create(&(struct recall_options){0});

    remember(recall, "a");
    remember(recall, "b");
    return recall;
}

/* The turn as a whole, through a prompt that has it. */
static bool is_there(struct recall *recall, const char *id)
{
    struct tool_call call = {str_from(id), STR("f"), str_from(id)};
    struct str text = STR("<|im_start|>assistant\nc<|im_end|>\n");
    struct recall_place place = {.message = {STR("c"), str_from(id), &call, 1}, .end = text.len};
    struct recall_prompt prompt = {.space = space,
                                   .text = text,
                                   .opening_begin = text.len,
                                   .places = &place,
                                   .places_count = 1,
                                   .keep = true};
    struct recall_plan plan;

    assert_ok(recall_apply(recall, &prompt, &plan));
    bool hit = plan.outcomes[0] == RECALL_HIT;
    if (hit) {
        assert_int_equal(plan.segments[1].tokens_count, COUNT_OF(tokens));
        assert_memory_equal(plan.segments[1].tokens, tokens, sizeof(tokens));
    }
    recall_plan_fini(&plan);
    return hit;
}

/* Loads the file that is there; how many turns it had. */
static uint64_t load(struct place *place, const struct hash256 *with)
{
    struct recall *recall = recall_create(&(struct recall_options){0});

    assert_ok(recall_load(recall, place->fs, place->dir, NAME, with, &place->info));
    uint64_t turns = recall_stats(recall).turns;
    assert_true(turns == 0 || (is_there(recall, "a") && is_there(recall, "b")));
    recall_destroy(&recall);
    return turns;
}

static void save_some(struct place *place)
{
    struct recall *recall = some_turns();

    assert_ok(recall_save(recall, place->fs, place->dir, NAME, &key, &place->info));
    recall_destroy(&recall);
}

static void test_turns_come_back(void **state)
{
    struct place place;
    struct stat st;

    (void)state;
    place_init(&place);
    assert_int_equal(load(&place, &key), 0); /* no file, no turns, no error */
    save_some(&place);
    assert_int_equal(load(&place, &key), 2);
    assert_int_equal(fstatat(place.dir, NAME, &st, 0), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    file_close(place.fs, &place.dir);
}

static void test_empty_store_and_small_store(void **state)
{
    struct recall *recall = recall_create(&(struct recall_options){0});
    struct place place;

    (void)state;
    place_init(&place);
    assert_ok(recall_save(recall, place.fs, place.dir, NAME, &key, &place.info));
    assert_int_equal(load(&place, &key), 0);
    recall_destroy(&recall);
    save_some(&place);
    /* One that has room for the newest only. */
    recall = recall_create(&(struct recall_options){.bytes_max = 700});
    assert_ok(recall_load(recall, place.fs, place.dir, NAME, &key, &place.info));
    assert_int_equal(recall_stats(recall).turns, 1);
    assert_true(is_there(recall, "b"));
    recall_destroy(&recall);
    file_close(place.fs, &place.dir);
}

/* Not as the store writes it, but thousands of times a second. */
static void write_file(struct place *place, const char *data, size_t len)
{
    int fd = FILE_NO;

    assert_ok(file_open_at(place->fs, place->dir, NAME, O_WRONLY | O_TRUNC, 0, &fd, &place->info));
    assert_ok(file_write_at(place->fs, fd, data, len, 0, &place->info));
    file_close(place->fs, &fd);
}

/* In place, into one store: it stays empty. */
static void check_flips(struct place *place, const char *data, size_t len)
{
    struct recall *recall = recall_create(&(struct recall_options){0});
    int fd = FILE_NO;

    assert_ok(file_open_at(place->fs, place->dir, NAME, O_WRONLY, 0, &fd, &place->info));
    for (size_t bit = 0; bit < 8 * len; bit++) {
        char flipped = (char)(data[bit / 8] ^ (1 << bit % 8));
        assert_ok(file_write_at(place->fs, fd, &flipped, 1, bit / 8, &place->info));
        assert_ok(recall_load(recall, place->fs, place->dir, NAME, &key, &place->info));
        assert_int_equal(recall_stats(recall).turns, 0);
        assert_ok(file_write_at(place->fs, fd, data + bit / 8, 1, bit / 8, &place->info));
    }
    file_close(place->fs, &fd);
    recall_destroy(&recall);
}

static void test_every_cut_and_every_flip_is_seen(void **state)
{
    struct place place;
    char *data;
    size_t len;

    (void)state;
    place_init(&place);
    save_some(&place);
    assert_ok(file_read_all(place.fs, place.dir, NAME, 1 << 20, &data, &len, &place.info));
    for (size_t cut = 0; cut < len; cut++) {
        write_file(&place, data, cut);
        assert_int_equal(load(&place, &key), 0);
    }
    write_file(&place, data, len);
    check_flips(&place, data, len);
    char *longer = mem_try_alloc(len + 1);
    memcpy(longer, data, len);
    longer[len] = 0;
    write_file(&place, longer, len + 1);
    assert_int_equal(load(&place, &key), 0);
    write_file(&place, data, len);
    assert_int_equal(load(&place, &(struct hash256){{43}}), 0); /* of another installation */
    assert_int_equal(load(&place, &key), 2);
    mem_free(longer);
    mem_free(data);
    file_close(place.fs, &place.dir);
}

/* A file with the right key whose inside is wrong: only we could write it, and still nothing of it
 * is believed. */
static void test_lengths_are_checked_behind_the_hash(void **state)
{
    struct hash256 derived = hash256_derive("hearth replay file 1", key.bytes, sizeof(key.bytes));
    static const size_t fields[] = {0, 8, 12, 16, 24, 28, 32, 36, 40, 44, 48};
    struct place place;
    char *data;
    size_t len;

    (void)state;
    place_init(&place);
    save_some(&place);
    assert_ok(file_read_all(place.fs, place.dir, NAME, 1 << 20, &data, &len, &place.info));
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        for (int change = 0; change < 4; change++) {
            static const unsigned char values[] = {1, 3, 0x40, 0xFF};
            char kept[4];
            memcpy(kept, data + fields[i], 4);
            data[fields[i] + (size_t)change / 2] ^= (char)values[change];
            struct hash256 digest = hash256_keyed(&derived, data, len - HASH256_BYTES);
            memcpy(data + len - HASH256_BYTES, digest.bytes, HASH256_BYTES);
            write_file(&place, data, len);
            if (load(&place, &key) != 0)
                fail_msg("a wrong byte at %zu is believed", fields[i] + (size_t)change / 2);
            memcpy(data + fields[i], kept, 4);
        }
    mem_free(data);
    file_close(place.fs, &place.dir);
}

/* Files of older versions have the generated text of each turn, which nothing used. */
static void test_text_in_older_files_is_skipped(void **state)
{
    struct hash256 derived = hash256_derive("hearth replay file 1", key.bytes, sizeof(key.bytes));
    static const char text[] = "<think>c";
    const size_t turn = 24, more = sizeof(text) - 1;
    const size_t at = turn + 124 + HASH256_BYTES + sizeof(tokens) +
                      strlen("<|im_start|>assistant\n"
                             "<|im_end|>");
    struct place place;
    struct buf older;
    char *data;
    size_t len;

    (void)state;
    place_init(&place);
    save_some(&place);
    assert_ok(file_read_all(place.fs, place.dir, NAME, 1 << 20, &data, &len, &place.info));
    buf_init(&older, 1 << 20);
    buf_append(&older, data, at);
    buf_append(&older, text, more);
    buf_append(&older, data + at, len - at - HASH256_BYTES);
    older.data[16] += (char)more;
    older.data[turn] += (char)more;
    older.data[turn + 20] = (char)more;
    struct hash256 digest = hash256_keyed(&derived, older.data, older.len);
    buf_append(&older, digest.bytes, sizeof(digest.bytes));
    write_file(&place, older.data, older.len);
    assert_int_equal(load(&place, &key), 2);
    buf_fini(&older);
    mem_free(data);
    file_close(place.fs, &place.dir);
}

static void test_a_failed_save_leaves_the_old_file(void **state)
{
    struct recall *recall = some_turns();
    struct file_fault fault;
    struct place place;

    (void)state;
    place_init(&place);
    save_some(&place);
    remember(recall, "c");
    file_fault_init(&fault, place.fs);
    fault.kind = FILE_FAULT_ERROR;
    fault.errnum = ENOSPC;
    FAULT_LOOP (&fault.when) {
        enum err err = recall_save(recall, &fault.sys, place.dir, NAME, &key, &place.info);
        assert_true(err == ERR_OK || fault.when.fired > 0);
        uint64_t turns = load(&place, &key);
        assert_true(turns == 2 || turns == 3);
        assert_true(err != ERR_OK || turns == 3);
    }
    recall_destroy(&recall);
    file_close(place.fs, &place.dir);
}

static void test_a_failed_load_is_no_turns(void **state)
{
    struct file_fault fault;
    struct place place;

    (void)state;
    place_init(&place);
    save_some(&place);
    file_fault_init(&fault, place.fs);
    fault.kind = FILE_FAULT_ERROR;
    fault.errnum = EIO;
    FAULT_LOOP (&fault.when) {
        struct recall *recall = recall_create(&(struct recall_options){0});
        enum err err = recall_load(recall, &fault.sys, place.dir, NAME, &key, &place.info);
        assert_true(err == ERR_OK || fault.when.fired > 0);
        uint64_t turns = recall_stats(recall).turns;
        assert_true(err == ERR_OK ? turns == 2 : turns == 0);
        recall_destroy(&recall);
    }
    file_close(place.fs, &place.dir);
}

static void test_no_memory(void **state)
{
    struct recall *recall = some_turns();
    struct fault fault = {0};
    struct place place;

    (void)state;
    place_init(&place);
    FAULT_LOOP (&fault) {
        mem_set_fault(&fault);
        enum err err = recall_save(recall, place.fs, place.dir, NAME, &key, &place.info);
        mem_set_fault(NULL);
        assert_err(err, fault.fired > 0 ? ERR_NOMEM : ERR_OK);
    }
    fault = (struct fault){0};
    FAULT_LOOP (&fault) {
        struct recall *other = recall_create(&(struct recall_options){0});
        mem_set_fault(&fault);
        enum err err = recall_load(other, place.fs, place.dir, NAME, &key, &place.info);
        mem_set_fault(NULL);
        assert_err(err, fault.fired > 0 ? ERR_NOMEM : ERR_OK);
        assert_true(err != ERR_OK || recall_stats(other).turns == 2);
        recall_destroy(&other);
    }
    recall_destroy(&recall);
    file_close(place.fs, &place.dir);
}

/* ---- sealed ---- */

/* Saves one turn whose texts and tokens can be looked for. */
static void save_sealed(struct place *place, const struct hash256 *seal_key)
{
    struct recall *recall = recall_create(&(struct recall_options){.seal_key = seal_key});

    remember(recall, "an id that is a secret");
    assert_ok(recall_save(recall, place->fs, place->dir, NAME, &key, &place->info));
    recall_destroy(&recall);
}

static uint64_t load_sealed(struct place *place, const struct hash256 *seal_key)
{
    struct recall *recall = recall_create(&(struct recall_options){.seal_key = seal_key});

    assert_ok(recall_load(recall, place->fs, place->dir, NAME, &key, &place->info));
    uint64_t turns = recall_stats(recall).turns;
    assert_true(turns == 0 || is_there(recall, "an id that is a secret"));
    recall_destroy(&recall);
    return turns;
}

static bool file_has(struct place *place, const void *needle, size_t len)
{
    char *data;
    size_t data_len;

    assert_ok(file_read_all(place->fs, place->dir, NAME, 1 << 20, &data, &data_len, NULL));
    bool found = memmem(data, data_len, needle, len) != NULL;
    mem_free(data);
    return found;
}

static void test_sealed_turns(void **state)
{
    static const struct hash256 seal_key = {{5}}, other = {{6}};
    struct place place;

    (void)state;
    place_init(&place);
    save_sealed(&place, NULL);
    assert_true(file_has(&place, "secret", 6) && file_has(&place, tokens, sizeof(tokens)));
    assert_int_equal(load_sealed(&place, &seal_key), 0); /* in the clear: not believed */
    save_sealed(&place, &seal_key);
    assert_false(file_has(&place, "secret", 6) || file_has(&place, tokens, 8) ||
                 file_has(&place, "assistant", 9));
    assert_int_equal(load_sealed(&place, &seal_key), 1);
    assert_int_equal(load_sealed(&place, &other), 0);
    assert_int_equal(load_sealed(&place, NULL), 0);
    file_close(place.fs, &place.dir);
}

static void test_sealed_cuts_and_flips_are_seen(void **state)
{
    static const struct hash256 seal_key = {{5}};
    struct place place;
    char *data;
    size_t len;

    (void)state;
    place_init(&place);
    save_sealed(&place, &seal_key);
    assert_ok(file_read_all(place.fs, place.dir, NAME, 1 << 20, &data, &len, NULL));
    for (size_t at = 0; at < len; at += at < 40 ? 3 : 11) { /* each is written to the disk */
        data[at] ^= 4;
        assert_ok(file_replace(place.fs, place.dir, NAME, data, len, 0600, NULL));
        assert_int_equal(load_sealed(&place, &seal_key), 0);
        data[at] ^= 4;
        assert_ok(file_replace(place.fs, place.dir, NAME, data, at, 0600, NULL));
        assert_int_equal(load_sealed(&place, &seal_key), 0);
    }
    mem_free(data);
    file_close(place.fs, &place.dir);
}

TEST_SUITE(TEST(test_turns_come_back), TEST(test_empty_store_and_small_store),
           TEST(test_every_cut_and_every_flip_is_seen),
           TEST(test_lengths_are_checked_behind_the_hash),
           TEST(test_text_in_older_files_is_skipped), TEST(test_a_failed_save_leaves_the_old_file),
           TEST(test_a_failed_load_is_no_turns), TEST(test_no_memory), TEST(test_sealed_turns),
           TEST(test_sealed_cuts_and_flips_are_seen))

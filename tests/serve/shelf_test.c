/*
 * Tests of src/serve/shelf.c: limits, tenants, and files that come back or do not.
 */
#include "serve/shelf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "lab/file_fault.h"
#include "base/mem.h"
#include "support/test.h"

enum { TTL_S = 60 };

static const struct shelf_options small = {.count_max = 3, .bytes_max = 100, .dir = FILE_NO};

static bool put(struct shelf *shelf, const char *tenant, const char *id, const char *data)
{
    return shelf_put(shelf, tenant, str_from(id), str_from(data));
}

/* "" for an entry that is not there. Valid until the next call. */
static const char *get(struct shelf *shelf, const char *tenant, const char *id)
{
    static char text[256];
    struct buf out;

    buf_init(&out, sizeof(text));
    if (!shelf_get(shelf, tenant, str_from(id), &out))
        buf_clear(&out);
    snprintf(text, sizeof(text), "%s", buf_str(&out));
    buf_fini(&out);
    return text;
}

static void test_the_oldest_is_evicted(void **state)
{
    struct shelf *shelf = shelf_create(&small);

    (void)state;
    assert_true(put(shelf, "a", "1", "one") && put(shelf, "a", "2", "two"));
    assert_true(put(shelf, "a", "3", "three"));
    assert_string_equal(get(shelf, "a", "1"), "one"); /* now the newest */
    assert_true(put(shelf, "a", "4", "four"));
    assert_string_equal(get(shelf, "a", "2"), "");
    assert_string_equal(get(shelf, "a", "1"), "one");
    assert_true(put(shelf, "a", "4", "again"));
    assert_string_equal(get(shelf, "a", "4"), "again");
    assert_int_equal(shelf_stats(shelf).entries, 3);
    assert_int_equal(shelf_stats(shelf).bytes, 3 + 5 + 5);
    shelf_destroy(&shelf);
}

static void test_bytes_are_bounded(void **state)
{
    struct shelf *shelf = shelf_create(&small);
    char text[102];

    (void)state;
    memset(text, 'x', sizeof(text));
    text[101] = '\0';
    assert_false(put(shelf, "a", "1", text));
    text[60] = '\0';
    assert_true(put(shelf, "a", "1", text) && put(shelf, "a", "2", text));
    assert_string_equal(get(shelf, "a", "1"), "");
    assert_string_equal(get(shelf, "a", "2"), text);
    assert_false(shelf_put(shelf, "a", STR(""), STR("x")));
    shelf_destroy(&shelf);
}

/* Neither sees the other's, and neither evicts them. */
static void test_tenants(void **state)
{
    struct shelf *shelf = shelf_create(&small);

    (void)state;
    assert_true(put(shelf, "a", "1", "mine"));
    for (int i = 0; i < 9; i++) {
        char id[16];

        snprintf(id, sizeof(id), "%d", i);
        assert_true(put(shelf, "b", id, "theirs"));
    }
    assert_string_equal(get(shelf, "a", "1"), "mine");
    assert_string_equal(get(shelf, "a", "8"), "");
    assert_false(shelf_remove(shelf, "a", STR("8")));
    assert_true(shelf_remove(shelf, "b", STR("8")));
    assert_false(shelf_remove(shelf, "b", STR("8")));
    shelf_destroy(&shelf);
}

static void test_time_to_live(void **state)
{
    struct shelf_options options = small;

    (void)state;
    options.clock = clock_create_fake(1, 1000 * NS_PER_S);
    options.ttl_s = TTL_S;
    struct shelf *shelf = shelf_create(&options);
    assert_true(put(shelf, "a", "1", "one"));
    clock_fake_advance(options.clock, (TTL_S - 1) * NS_PER_S);
    assert_string_equal(get(shelf, "a", "1"), "one");
    clock_fake_advance(options.clock, NS_PER_S);
    assert_string_equal(get(shelf, "a", "1"), "");
    assert_true(put(shelf, "a", "2", "two"));
    assert_int_equal(shelf_stats(shelf).entries, 1);
    shelf_destroy(&shelf);
    clock_destroy_fake(&options.clock);
}

/* ---- files ---- */

static struct shelf_options on_disk(const struct file_sys *fs)
{
    struct shelf_options options = small;
    struct errinfo info = {0};

    options.fs = fs;
    options.key = (struct hash256){{7}};
    assert_ok(file_open_dir(fs, test_dir(), true, &options.dir, &info));
    return options;
}

static void reopen(struct shelf **shelf, const struct shelf_options *options)
{
    shelf_destroy(shelf);
    *shelf = shelf_create(options);
}

static void test_files_come_back(void **state)
{
    struct shelf_options options = on_disk(file_sys_real());
    struct shelf *shelf = shelf_create(&options);

    (void)state;
    assert_true(put(shelf, "a", "1", "one") && put(shelf, "", "2", "two"));
    assert_true(put(shelf, "a", "3", "three") && shelf_remove(shelf, "a", STR("3")));
    reopen(&shelf, &options);
    assert_string_equal(get(shelf, "a", "1"), "one");
    assert_string_equal(get(shelf, "", "2"), "two");
    assert_string_equal(get(shelf, "a", "2"), "");
    assert_int_equal(shelf_stats(shelf).entries, 2);
    options.key.bytes[0]++; /* another installation's: not used, and not touched */
    reopen(&shelf, &options);
    assert_int_equal(shelf_stats(shelf).entries, 0);
    options.key.bytes[0]--;
    reopen(&shelf, &options);
    assert_int_equal(shelf_stats(shelf).entries, 2);
    options.key.bytes[0]++; /* until they are too old for any key */
    options.clock = clock_create_fake(1, clock_wall_ns(clock_real()) + 100 * TTL_S * NS_PER_S);
    options.ttl_s = TTL_S;
    reopen(&shelf, &options);
    options.key.bytes[0]--;
    options.ttl_s = 0;
    reopen(&shelf, &options);
    assert_int_equal(shelf_stats(shelf).entries, 0);
    shelf_destroy(&shelf);
    clock_destroy_fake(&options.clock);
    file_close(options.fs, &options.dir);
}

struct first_file {
    char name[64];
};

static void note_file(const char *name, unsigned char type, void *arg)
{
    (void)type;
    snprintf(((struct first_file *)arg)->name, 64, "%s", name);
}

/* Nothing of a text is readable in a file, and no changed byte is accepted. */
static void test_files_are_sealed(void **state)
{
    struct shelf_options options = on_disk(file_sys_real());
    struct shelf *shelf = shelf_create(&options);
    struct first_file file = {{0}};
    struct errinfo info = {0};
    char *data;
    size_t len;

    (void)state;
    assert_true(put(shelf, "tenant", "secret-id", "a secret text"));
    assert_ok(file_list(options.fs, options.dir, note_file, &file, &info));
    for (size_t at = 0;; at += 7) {
        assert_ok(file_read_all(options.fs, options.dir, file.name, 4096, &data, &len, &info));
        assert_null(memmem(data, len, "secret", 6));
        assert_null(memmem(data, len, "tenant", 6));
        if (at >= len) {
            mem_free(data);
            break;
        }
        data[at] ^= 1;
        assert_ok(file_replace(options.fs, options.dir, file.name, data, len, 0600, &info));
        mem_free(data);
        reopen(&shelf, &options);
        assert_int_equal(shelf_stats(shelf).entries, 0);
        assert_true(put(shelf, "tenant", "secret-id", "a secret text"));
    }
    shelf_destroy(&shelf);
    file_close(options.fs, &options.dir);
}

/* Expired and surplus files are removed at the start, the oldest first. */
static void test_limits_hold_for_files(void **state)
{
    struct shelf_options options = on_disk(file_sys_real());
    struct shelf *shelf;

    (void)state;
    options.clock = clock_create_fake(1, 1000 * NS_PER_S);
    shelf = shelf_create(&options);
    for (char id = '1'; id <= '3'; id++) {
        assert_true(shelf_put(shelf, "a", (struct str){&id, 1}, STR("x")));
        clock_fake_advance(options.clock, NS_PER_S);
    }
    options.count_max = 2;
    reopen(&shelf, &options);
    assert_string_equal(get(shelf, "a", "1"), "");
    assert_string_equal(get(shelf, "a", "3"), "x");
    options.ttl_s = 2;
    reopen(&shelf, &options);
    assert_string_equal(get(shelf, "a", "2"), "");
    assert_string_equal(get(shelf, "a", "3"), "x");
    shelf_destroy(&shelf);
    file_close(options.fs, &options.dir);
    clock_destroy_fake(&options.clock);
}

/* A clock that is years ahead hides the entries, and does not delete them, unless it stays so. */
static void test_a_clock_that_is_wrong_for_a_while(void **state)
{
    struct shelf_options options = on_disk(file_sys_real());
    const uint64_t now_ns = 1000 * NS_PER_S, ahead_ns = now_ns + 100 * TTL_S * NS_PER_S;
    struct clock *right = clock_create_fake(1, now_ns), *wrong = clock_create_fake(1, ahead_ns);
    struct shelf *shelf;

    (void)state;
    options.clock = right;
    options.ttl_s = TTL_S;
    shelf = shelf_create(&options);
    assert_true(put(shelf, "a", "1", "one"));
    options.clock = wrong;
    reopen(&shelf, &options);
    assert_string_equal(get(shelf, "a", "1"), "");
    assert_true(put(shelf, "a", "2", "two"));
    options.clock = right;
    reopen(&shelf, &options);
    assert_string_equal(get(shelf, "a", "1"), "one");
    assert_string_equal(get(shelf, "a", "2"), "two");
    options.clock = wrong;
    reopen(&shelf, &options);
    clock_fake_advance(wrong, 24 * 3600 * NS_PER_S);
    assert_true(put(shelf, "a", "3", "three"));
    options.clock = right;
    reopen(&shelf, &options);
    assert_string_equal(get(shelf, "a", "1"), "");
    shelf_destroy(&shelf);
    file_close(options.fs, &options.dir);
    clock_destroy_fake(&right);
    clock_destroy_fake(&wrong);
}

/* Whichever disk call fails: memory has the entry, and a later start finds it or does not. */
static void test_failing_disk(void **state)
{
    struct shelf_options options = on_disk(file_sys_real());
    struct file_fault fault;

    (void)state;
    file_fault_init(&fault, options.fs);
    fault.kind = FILE_FAULT_ERROR;
    fault.errnum = EIO;
    options.fs = &fault.sys;
    FAULT_LOOP (&fault.when) {
        struct shelf *shelf = shelf_create(&options);

        assert_true(put(shelf, "a", "1", "one"));
        assert_string_equal(get(shelf, "a", "1"), "one");
        reopen(&shelf, &options);
        const char *found = get(shelf, "a", "1");
        assert_true(found[0] == '\0' || strcmp(found, "one") == 0);
        (void)shelf_remove(shelf, "a", STR("1"));
        shelf_destroy(&shelf);
    }
    options.fs = file_sys_real();
    file_close(options.fs, &options.dir);
}

/* A disk on which the owner deletes an entry while its file is about to be written. */
struct deleting {
    struct file_sys sys;
    struct file_ops ops;
    struct shelf *shelf;
    unsigned deletions;
};

static int delete_and_open(void *ctx, int dir, const char *name, int flags, mode_t mode)
{
    struct deleting *deleting = ctx;

    deleting->deletions += shelf_remove(deleting->shelf, "a", STR("1"));
    int fd = openat(dir, name, flags, mode);
    return fd >= 0 ? fd : -errno;
}

static void test_what_is_deleted_while_it_is_written_stays_deleted(void **state)
{
    struct shelf_options options = on_disk(file_sys_real());
    const struct file_sys *real = options.fs;
    struct deleting deleting = {.ops = *real->ops};

    (void)state;
    deleting.ops.openat = delete_and_open;
    deleting.sys = (struct file_sys){.ops = &deleting.ops, .ctx = &deleting};
    options.fs = &deleting.sys;
    deleting.shelf = shelf_create(&options);
    (void)put(deleting.shelf, "a", "1", "one");
    assert_true(deleting.deletions > 0);
    assert_string_equal(get(deleting.shelf, "a", "1"), "");
    options.fs = real;
    reopen(&deleting.shelf, &options);
    assert_string_equal(get(deleting.shelf, "a", "1"), "");
    assert_int_equal(shelf_stats(deleting.shelf).entries, 0);
    shelf_destroy(&deleting.shelf);
    file_close(options.fs, &options.dir);
}

TEST_SUITE(TEST(test_what_is_deleted_while_it_is_written_stays_deleted),
           TEST(test_the_oldest_is_evicted), TEST(test_bytes_are_bounded), TEST(test_tenants),
           TEST(test_time_to_live), TEST(test_files_come_back), TEST(test_files_are_sealed),
           TEST(test_limits_hold_for_files), TEST(test_a_clock_that_is_wrong_for_a_while),
           TEST(test_failing_disk))

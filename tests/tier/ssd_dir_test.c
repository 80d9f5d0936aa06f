#include "tier/ssd_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lab/file_fault.h"
#include "support/ssd_kit.h"
#include "support/test.h"
#include "support/tier_suite.h"

static const char *path;
static struct ssd_dir dir;

static void open_dir(void)
{

    assert_ok(ssd_dir_open(&dir, file_sys_real(), path, false, NULL));
}

static int setup(void **state)
{
    (void)state;
    path = ssd_kit_new_path();
    open_dir();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ssd_dir_close(&dir);
    return 0;
}

static const char *below(const char *name)
{
    static char texts[4][1200];
    static int number;
    char *text = texts[number++ % 4];

    snprintf(text, sizeof(texts[0]), "%s/%s", path, name);
    return text;
}

/* A file with that text under key n. */
static void publish(uint32_t n, const char *text)
{
    struct hash256 key = tier_suite_key(n);
    char temp[SSD_DIR_TEMP_BYTES];
    int fd;

    assert_ok(ssd_dir_create_temp(&dir, temp, &fd, NULL));
    assert_ok(file_write_at(dir.fs, fd, text, strlen(text), 0, NULL));
    file_close(dir.fs, &fd);
    assert_ok(ssd_dir_publish(&dir, temp, &key, NULL));
}

static enum err try_open(uint32_t n, uint64_t *bytes)
{
    struct hash256 key = tier_suite_key(n);
    bool direct = false;
    struct stat st;
    int fd;
    enum err err = ssd_dir_open_object(&dir, &key, &direct, &fd, &st, NULL);

    if (err == ERR_OK)
        *bytes = (uint64_t)st.st_size;
    file_close(dir.fs, &fd);
    return err;
}

static mode_t mode_of(const char *name)
{
    struct stat st;

    assert_int_equal(lstat(name, &st), 0);
    return st.st_mode & 0777;
}

static void test_published_under_its_name_for_its_owner_only(void **state)
{
    char object[1024];
    uint64_t bytes = 0;

    (void)state;
    umask(0);
    publish(1, "one");
    publish(1, "and another");
    assert_ok(try_open(1, &bytes));
    assert_int_equal(bytes, 11);
    assert_err(try_open(2, &bytes), ERR_NOT_FOUND);
    ssd_kit_object_path(path, 1, object);
    assert_int_equal(mode_of(object), 0600);
    assert_int_equal(mode_of(path), 0700);
    assert_int_equal(mode_of(below("tmp")), 0700);
    *strrchr(object, '/') = '\0';
    assert_int_equal(mode_of(object), 0700);
    assert_int_equal(ssd_kit_count_files(below("tmp"), ""), 0);
}

static void test_leaf_goes_with_its_last_file(void **state)
{
    struct hash256 key = tier_suite_key(1);
    char object[1024];
    uint64_t bytes;
    bool kept;

    (void)state;
    publish(1, "one");
    assert_ok(ssd_dir_remove(&dir, &key, 0, &kept, NULL));
    assert_ok(ssd_dir_remove(&dir, &key, 0, &kept, NULL)); /* gone is gone */
    assert_err(try_open(1, &bytes), ERR_NOT_FOUND);
    ssd_kit_object_path(path, 1, object);
    *strrchr(object, '/') = '\0';
    assert_int_equal(access(object, F_OK), -1);
    publish(1, "again");
    assert_ok(try_open(1, &bytes));
}

static void test_second_process_is_refused(void **state)
{
    struct ssd_dir other;
    struct errinfo info;

    (void)state;
    assert_err(ssd_dir_open(&other, file_sys_real(), path, false, &info), ERR_BUSY);
    assert_non_null(strstr(info.text, "another process uses it"));
    assert_ok(ssd_dir_open(&other, file_sys_real(), path, true, NULL));
    ssd_dir_close(&other);
    ssd_dir_close(&dir);
    open_dir(); /* the lock goes with its holder */
}

static void test_read_only_makes_nothing(void **state)
{
    const char *other_path = ssd_kit_new_path();
    struct ssd_dir other;

    (void)state;
    assert_err(ssd_dir_open(&other, file_sys_real(), other_path, true, NULL), ERR_NOT_FOUND);
    assert_int_equal(mkdir(other_path, 0700), 0);
    assert_ok(ssd_dir_open(&other, file_sys_real(), other_path, true, NULL));
    ssd_dir_close(&other);
    assert_int_equal(ssd_kit_count_files(other_path, ""), 0);
}

static void test_left_temporary_files_are_removed(void **state)
{
    char temp[SSD_DIR_TEMP_BYTES];
    int fd;

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_ok(ssd_dir_create_temp(&dir, temp, &fd, NULL));
        file_close(dir.fs, &fd);
    }
    close(open(below("tmp/mine.txt"), O_CREAT | O_WRONLY, 0600)); /* not ours */
    ssd_dir_close(&dir);
    assert_ok(ssd_dir_open(&dir, file_sys_real(), path, false, NULL));
    assert_int_equal(dir.temps_removed, 3);
    assert_int_equal(ssd_kit_count_files(below("tmp"), ""), 1);
}

/* ---- links, and whatever else may lie there ---- */

static void test_links_are_not_followed(void **state)
{
    struct hash256 key = tier_suite_key(1);
    char object[1024], leaf[1024], top[1024], temp[SSD_DIR_TEMP_BYTES];
    const char *elsewhere = ssd_kit_new_path();
    uint64_t bytes;
    int fd;

    (void)state;
    publish(1, "one");
    assert_int_equal(mkdir(elsewhere, 0700), 0);
    ssd_kit_object_path(path, 1, object);
    snprintf(leaf, sizeof(leaf), "%.*s", (int)(strrchr(object, '/') - object), object);
    snprintf(top, sizeof(top), "%.*s", (int)(strrchr(leaf, '/') - leaf), leaf);
    assert_int_equal(unlink(object), 0);
    assert_int_equal(symlink("/etc/passwd", object), 0);
    assert_err(try_open(1, &bytes), ERR_INVALID);
    publish(1, "in place of the link"); /* not through it */
    assert_ok(try_open(1, &bytes));
    assert_int_equal(bytes, 20);
    assert_int_equal(unlink(object), 0);
    assert_int_equal(rmdir(leaf), 0);
    assert_int_equal(symlink(elsewhere, leaf), 0); /* a leaf that leads away */
    assert_ok(ssd_dir_create_temp(&dir, temp, &fd, NULL));
    file_close(dir.fs, &fd);
    assert_true(ssd_dir_publish(&dir, temp, &key, NULL) != ERR_OK);
    assert_err(try_open(1, &bytes), ERR_NOT_FOUND);
    assert_int_equal(unlink(leaf), 0);
    assert_int_equal(rmdir(top), 0);
    assert_int_equal(symlink(elsewhere, top), 0); /* and a top */
    assert_true(ssd_dir_publish(&dir, temp, &key, NULL) != ERR_OK);
    assert_ok(ssd_dir_discard(&dir, temp, NULL));
    assert_int_equal(ssd_kit_count_files(elsewhere, ""), 0);
}

static void test_pipes_and_directories_are_not_opened(void **state)
{
    char object[1024];
    uint64_t bytes;

    (void)state;
    publish(1, "one");
    publish(2, "two");
    ssd_kit_object_path(path, 1, object);
    assert_int_equal(unlink(object), 0);
    assert_int_equal(mkfifo(object, 0600), 0);
    assert_err(try_open(1, &bytes), ERR_INVALID); /* and does not wait */
    ssd_kit_object_path(path, 2, object);
    assert_int_equal(unlink(object), 0);
    assert_int_equal(mkdir(object, 0700), 0);
    assert_err(try_open(2, &bytes), ERR_INVALID);
}

/* ---- listing ---- */

struct seen {
    int regular[8], odd;
};

static void on_entry(const struct ssd_dir_entry *entry, void *arg)
{
    struct seen *seen = arg;

    seen->odd += !entry->regular;
    for (uint32_t n = 0; entry->regular && n < 8; n++) {
        struct hash256 key = tier_suite_key(n);
        seen->regular[n] += hash256_eq(&key, &entry->key);
    }
}

static enum err list_all(struct seen *seen)
{
    enum err first = ERR_OK;

    *seen = (struct seen){0};
    for (unsigned top = 0; top < SSD_DIR_TOPS; top++) {
        enum err err = ssd_dir_list(&dir, top, on_entry, seen, NULL);
        first = first != ERR_OK ? first : err;
    }
    return first;
}

static void test_lists_what_has_our_names(void **state)
{
    char object[1024], other[1024];
    struct seen seen;

    (void)state;
    for (uint32_t n = 0; n < 5; n++)
        publish(n, "x");
    assert_ok(list_all(&seen));
    assert_int_equal(seen.odd, 0);
    for (uint32_t n = 0; n < 8; n++)
        assert_int_equal(seen.regular[n], n < 5);
    ssd_kit_object_path(path, 0, object);
    snprintf(other, sizeof(other), "%.*s/note.txt", (int)(strrchr(object, '/') - object), object);
    close(open(other, O_CREAT | O_WRONLY, 0600));
    ssd_kit_object_path(path, 1, object);
    ssd_kit_object_path(path, 2, other);
    *strrchr(other, '/') = '\0';
    strncat(other, strrchr(object, '/'), sizeof(other) - strlen(other) - 1);
    assert_int_equal(rename(object, other), 0); /* a good name in the wrong place */
    ssd_kit_object_path(path, 3, object);
    assert_int_equal(unlink(object), 0);
    assert_int_equal(symlink("x", object), 0);
    assert_ok(list_all(&seen));
    assert_int_equal(seen.odd, 3);
    for (uint32_t n = 0; n < 8; n++)
        assert_int_equal(seen.regular[n], n == 0 || n == 2 || n == 4);
}

static void test_quarantine_is_bounded(void **state)
{
    uint64_t files, bytes;
    bool kept;

    (void)state;
    for (uint32_t n = 0; n < SSD_DIR_QUARANTINE_MAX + 3; n++) {
        struct hash256 key = tier_suite_key(n);
        publish(n, "damaged");
        assert_ok(ssd_dir_remove(&dir, &key, UINT64_MAX, &kept, NULL));
        assert_int_equal(kept, n < SSD_DIR_QUARANTINE_MAX);
        assert_err(try_open(n, &bytes), ERR_NOT_FOUND);
    }
    assert_ok(ssd_dir_quarantined(&dir, &files, &bytes, NULL));
    assert_int_equal(files, SSD_DIR_QUARANTINE_MAX);
    assert_int_equal(bytes, SSD_DIR_QUARANTINE_MAX * 4096);
    ssd_dir_empty_quarantine(&dir);
    for (uint32_t n = 0; n < 4; n++) {
        struct hash256 key = tier_suite_key(n / 2); /* each twice: the second is not kept */
        publish(n / 2, "damaged");
        assert_ok(ssd_dir_remove(&dir, &key, 4096, &kept, NULL));
        assert_int_equal(kept, n == 0); /* and there is room for one block */
    }
}

/* Every call fails once: an error, no leak of handles, and the next try works. */
static void test_survives_every_failed_call(void **state)
{
    struct file_fault fault;
    struct hash256 key = tier_suite_key(1);
    struct seen seen;
    int rounds = 0;

    (void)state;
    ssd_dir_close(&dir);
    file_fault_init(&fault, file_sys_real());
    fault.errnum = EIO;
    FAULT_LOOP (&fault.when) {
        uint64_t bytes;
        bool kept;
        if (ssd_dir_open(&dir, &fault.sys, path, false, NULL) == ERR_OK) {
            char temp[SSD_DIR_TEMP_BYTES];
            int fd;
            if (ssd_dir_create_temp(&dir, temp, &fd, NULL) == ERR_OK) {
                file_close(dir.fs, &fd);
                if (ssd_dir_publish(&dir, temp, &key, NULL) != ERR_OK)
                    (void)!ssd_dir_discard(&dir, temp, NULL);
            }
            (void)!list_all(&seen);
            (void)!try_open(1, &bytes);
            (void)!ssd_dir_remove(&dir, &key, 0, &kept, NULL);
            ssd_dir_close(&dir);
        }
        rounds++;
    }
    assert_true(rounds > 20);
    open_dir();
    publish(1, "one");
    assert_ok(list_all(&seen));
    assert_int_equal(seen.regular[1], 1);
}

#define DIR_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

TEST_SUITE(DIR_TEST(test_published_under_its_name_for_its_owner_only),
           DIR_TEST(test_leaf_goes_with_its_last_file), DIR_TEST(test_second_process_is_refused),
           DIR_TEST(test_read_only_makes_nothing), DIR_TEST(test_left_temporary_files_are_removed),
           DIR_TEST(test_links_are_not_followed),
           DIR_TEST(test_pipes_and_directories_are_not_opened),
           DIR_TEST(test_lists_what_has_our_names), DIR_TEST(test_quarantine_is_bounded),
           DIR_TEST(test_survives_every_failed_call))

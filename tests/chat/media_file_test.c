/*
 * media_file.c: what file:// URLs reach, and what they do not.
 */
#include "chat/media_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "support/test.h"

enum { MAX_BYTES = 1000 };

static char dir[512];

static void put(const char *name, size_t bytes)
{
    char path[1024];

    snprintf(path, sizeof(path), "%s/%s", test_dir(), name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < bytes; i++)
        fputc('x', file);
    fclose(file);
}

static int setup(void **state)
{
    char path[1024];

    (void)state;
    snprintf(dir, sizeof(dir), "%s/media", test_dir());
    mkdir(dir, 0700);
    snprintf(path, sizeof(path), "%s/inner", dir);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/media-not", test_dir());
    mkdir(path, 0700);
    put("secret.png", 4);
    put("media-not/a.png", 4);
    put("media/a b.png", 5);
    put("media/inner/c.png", 6);
    put("media/100%", 7);
    put("media/.hidden.png", 4);
    put("media/most.png", MAX_BYTES);
    put("media/large.png", MAX_BYTES + 1);
    snprintf(path, sizeof(path), "%s/link.png", dir);
    (void)symlink("a b.png", path);
    snprintf(path, sizeof(path), "%s/out", dir);
    (void)symlink("..", path);
    snprintf(path, sizeof(path), "%s/pipe.png", dir);
    (void)mkfifo(path, 0600); /* the folder may be that of the test before */
    return 0;
}

static enum err read_url(const char *folder, const char *url, struct str *out, struct errinfo *info)
{
    static struct arena arena;

    arena_fini(&arena);
    arena_init(&arena, 1 << 20);
    return media_file_read(folder, str_from(url), MAX_BYTES, &arena, out, info);
}

static void test_files_below(void **state)
{
    char urls[5][1024];
    static const size_t sizes[] = {5, 6, 5, 7, 6};
    struct str file;

    (void)state;
    snprintf(urls[0], sizeof(urls[0]), "file://%s/a%%20b.png", dir);
    snprintf(urls[1], sizeof(urls[1]), "file://inner/c.png");
    snprintf(urls[2], sizeof(urls[2]), "file://a b.png");
    snprintf(urls[3], sizeof(urls[3]), "file://100%%25");
    snprintf(urls[4], sizeof(urls[4]), "file:///%s//inner//c.png", dir);
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        assert_true(media_file_is_url(str_from(urls[i])));
        assert_ok(read_url(dir, urls[i], &file, NULL));
        assert_int_equal(file.len, sizes[i]);
    }
    assert_ok(read_url(dir, "file://most.png", &file, NULL));
    assert_int_equal(file.len, MAX_BYTES);
    assert_false(media_file_is_url(STR("https://example.com/a.png")));
}

/* All of these get the same sentence: a client does not learn what exists elsewhere. */
static void test_nothing_else(void **state)
{
    static const char *const names[] = {
        "file://",
        "file:///",
        "file://none.png",
        "file://inner",
        "file://inner/",
        "file://link.png",
        "file://out/secret.png",
        "file://../secret.png",
        "file://inner/../a b.png",
        "file://%2e%2e/secret.png",
        "file://./a b.png",
        "file://.hidden.png",
        "file://pipe.png",
        "file://a b.png/",
        "file://a b.png%00",
        "file://%zz",
        "file://100%", /* its URL has %25 */
        "file:///etc/hostname",
        "file:///proc/self/environ",
    };
    char outside[2][1024];
    struct str file;
    struct errinfo info = {0};

    (void)state;
    snprintf(outside[0], sizeof(outside[0]), "file://%s/secret.png", test_dir());
    snprintf(outside[1], sizeof(outside[1]), "file://%s-not/a.png", dir);
    for (size_t i = 0; i < COUNT_OF(names) + 2; i++) {
        const char *url = i < COUNT_OF(names) ? names[i] : outside[i - COUNT_OF(names)];
        if (read_url(dir, url, &file, &info) != ERR_INVALID)
            fail_msg("%s", url);
        assert_non_null(strstr(info.text, "is not a file below the folder of --media-path"));
    }
    assert_err(read_url(dir, "file://large.png", &file, &info), ERR_LIMIT);
    assert_err(read_url(NULL, "file://inner/c.png", &file, &info), ERR_UNSUPPORTED);
    assert_non_null(strstr(info.text, "--media-path DIR"));
    assert_err(read_url("/none/such", "file://c.png", &file, &info), ERR_INVALID);
}

TEST_SUITE(cmocka_unit_test_setup(test_files_below, setup),
           cmocka_unit_test_setup(test_nothing_else, setup))

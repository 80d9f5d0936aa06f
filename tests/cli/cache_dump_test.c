/* `hearth cache dump`: says what a file is, never more than it proved. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/seal.h"
#include "cli/cli.h"
#include "support/cli_run.h"
#include "support/test.h"
#include "support/tier_suite.h"
#include "tier/ssd_format.h"

enum { BYTES = 3000000 };

static char object[700], key_file[700], seal_file[700];

static void write_file(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_int_equal(write(fd, data, len), len);
    close(fd);
}

static void make_object(void)
{
    const struct ssd_limits limits = {
        .tokens_max = 100, .shape_bytes_max = TIER_SHAPE_BYTES_MAX, .payload_bytes_max = BYTES};
    struct hash256 key = hash256_of("installation", 12);
    struct tier_meta meta = tier_suite_meta(3, BYTES);
    unsigned char *data = mem_alloc(4096 + BYTES);
    int32_t tokens[3] = {11, -22, 33};
    struct ssd_format format;
    char hex[HASH256_HEX_BYTES];

    snprintf(object, sizeof(object), "%s/object", test_dir());
    snprintf(key_file, sizeof(key_file), "%s/key", test_dir());
    meta.tokens = tokens;
    meta.tokens_count = 3;
    tier_suite_fill(data + 4096, BYTES, 3, 0);
    ssd_format_init(&format, &key, &limits, false);
    assert_ok(ssd_format_encode(&format, &meta, data + 4096, data, 4096));
    write_file(object, data, 4096 + BYTES);
    hash256_hex(&key, hex);
    write_file(key_file, hex, 64);
    mem_free(data);
}

/* The same as `hearth serve --ssd-encrypt` writes it. */
static void make_sealed_object(void)
{
    const struct ssd_limits limits = {
        .tokens_max = 100, .shape_bytes_max = TIER_SHAPE_BYTES_MAX, .payload_bytes_max = BYTES};
    struct hash256 seal_key = hash256_of("seal", 4), key = seal_installation_key(&seal_key);
    struct tier_meta meta = tier_suite_meta(3, BYTES);
    unsigned char *data = mem_alloc(4096 + BYTES);
    int32_t tokens[3] = {11, -22, 33};
    struct ssd_format format;

    make_object();
    snprintf(seal_file, sizeof(seal_file), "%s/seal", test_dir());
    meta.tokens = tokens;
    meta.tokens_count = 3;
    tier_suite_fill(data + 4096, BYTES, 3, 0);
    ssd_format_init(&format, &key, &limits, false);
    ssd_format_set_seal(&format, &key, &seal_key);
    assert_ok(ssd_format_encode(&format, &meta, data + 4096, data, 4096));
    for (size_t at = 0; at < BYTES; at += SSD_FRAME_BYTES)
        ssd_format_seal_frame(&format, data, at / SSD_FRAME_BYTES, data + 4096 + at,
                              data + 4096 + at, MIN(BYTES - at, SSD_FRAME_BYTES));
    ssd_format_seal_header(&format, data);
    write_file(object, data, 4096 + BYTES);
    write_file(seal_file, seal_key.bytes, sizeof(seal_key.bytes));
    mem_free(data);
}

/* Runs `hearth cache ...`. */
static int run(const char *const *args)
{
    static const struct command *const commands[] = {&command_cache, NULL};
    char *argv[8] = {(char *)"hearth", (char *)"cache"};
    int argc = 2;

    while (args[argc - 2] != NULL) {
        argv[argc] = (char *)(uintptr_t)args[argc - 2];
        argc++;
    }
    cli_set_env(0, "XDG_CONFIG_HOME", "/dev/null/nowhere");
    return cli_run_args(commands, argc, argv);
}

#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

static void flip(int64_t at)
{
    int fd = open(object, O_RDWR);
    unsigned char byte;

    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void test_dump_with_the_key_verifies_all_of_it(void **state)
{
    (void)state;
    make_object();
    assert_int_equal(RUN("dump", "--key-file", key_file, object), CLI_EXIT_OK);
    assert_string_equal(cli_got.err, "");
    assert_non_null(strstr(cli_got.out, "header is     ok: valid\n"));
    assert_non_null(strstr(cli_got.out, "payload       3000000 bytes\n"));
    assert_non_null(strstr(cli_got.out, "object is     ok: valid\n"));
    assert_null(strstr(cli_got.out, "token ids")); /* not unless they are asked for */
    assert_int_equal(RUN("dump", "-k", key_file, "--tokens", "2", object), CLI_EXIT_OK);
    assert_non_null(strstr(cli_got.out, "token ids     11 -22 ...\n"));
    flip(4096 + BYTES - 1);
    assert_int_equal(RUN("dump", "-k", key_file, object), CLI_EXIT_FAILURE);
    assert_non_null(strstr(cli_got.out, "header is     ok: valid\n"));
    assert_non_null(strstr(cli_got.out, "object is     damaged: "));
    flip(300);
    assert_int_equal(RUN("dump", "-k", key_file, object), CLI_EXIT_FAILURE);
    assert_non_null(strstr(cli_got.out, "header is     damaged: "));
}

static void test_dump_without_the_key_shows_and_verifies_nothing(void **state)
{
    (void)state;
    make_object();
    assert_int_equal(RUN("dump", object), CLI_EXIT_OK);
    assert_non_null(strstr(cli_got.out, "header is     not verified, no key\n"));
    assert_non_null(strstr(cli_got.out, "tokens        768 to 1024, the last 3 held\n"));
    assert_null(strstr(cli_got.out, "object is"));
}

static void test_dump_of_whatever_there_is(void **state)
{
    static const off_t sizes[] = {0, 1, 191, 192, 300, 4095, 4096, 5000};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        make_object();
        assert_int_equal(truncate(object, sizes[i]), 0);
        assert_int_equal(RUN("dump", object), CLI_EXIT_OK);
        assert_int_equal(RUN("dump", "-k", key_file, object), CLI_EXIT_FAILURE);
        assert_non_null(strstr(cli_got.out, "truncated: shorter than its header says"));
    }
    write_file(object, "this is not an object", 21);
    assert_int_equal(RUN("dump", "-k", key_file, object), CLI_EXIT_FAILURE);
    assert_non_null(strstr(cli_got.out, "not_ours: "));
}

static void test_mistakes_are_sentences(void **state)
{
    char other[700];

    (void)state;
    make_object();
    assert_int_equal(RUN("dump"), CLI_EXIT_USAGE);
    assert_int_equal(RUN("burn", object), CLI_EXIT_USAGE);
    assert_non_null(strstr(cli_got.err,
                           "unknown cache command \"burn\"; expected stats, ls, show, verify, gc, "
                           "clear, pin, unpin, probe, warm, export, import, dump\n"));
    assert_int_equal(RUN("dump", "/nonexistent/x"), CLI_EXIT_FAILURE);
    assert_non_null(strstr(cli_got.err, "/nonexistent/x"));
    assert_int_equal(RUN("dump", test_dir()), CLI_EXIT_FAILURE);
    assert_non_null(strstr(cli_got.err, "is not a regular file"));
    assert_int_equal(RUN("dump", "-k", object, object), CLI_EXIT_FAILURE);
    snprintf(other, sizeof(other), "%s/short", test_dir());
    write_file(other, "abc", 3);
    assert_int_equal(RUN("dump", "-k", other, object), CLI_EXIT_FAILURE);
    assert_non_null(strstr(cli_got.err, "64 hex digits"));
    snprintf(other, sizeof(other), "%s/pipe", test_dir());
    assert_int_equal(mkfifo(other, 0600), 0);
    assert_int_equal(RUN("dump", other), CLI_EXIT_FAILURE); /* and does not wait */
}

static void test_dump_of_a_sealed_object(void **state)
{
    (void)state;
    make_sealed_object();
    assert_int_equal(RUN("dump", "--tokens", "9", object), CLI_EXIT_OK);
    assert_non_null(strstr(cli_got.out, "flags         0x2 sealed\n"));
    assert_non_null(strstr(cli_got.out, "the rest is   sealed: "));
    assert_null(strstr(cli_got.out, "token ids"));
    assert_null(strstr(cli_got.out, "\nspace"));
    assert_int_equal(RUN("dump", "--encrypt-key", seal_file, "--tokens", "9", object), CLI_EXIT_OK);
    assert_non_null(strstr(cli_got.out, "header is     ok: valid\n"));
    assert_non_null(strstr(cli_got.out, "tokens        768 to 1024, the last 3 held\n"));
    assert_non_null(strstr(cli_got.out, "token ids     11 -22 33\n"));
    assert_non_null(strstr(cli_got.out, "object is     ok: valid\n"));
    assert_int_equal(RUN("dump", "-e", key_file, object), CLI_EXIT_FAILURE); /* another key */
    assert_non_null(strstr(cli_got.out, "object is     other_key: "));
    assert_non_null(strstr(cli_got.out, "the rest is   sealed: "));
    assert_int_equal(RUN("dump", "-k", key_file, object), CLI_EXIT_FAILURE);
    assert_non_null(strstr(cli_got.out, "object is     unsupported: "));
    assert_int_equal(RUN("dump", "-e", seal_file, "-k", key_file, object), CLI_EXIT_FAILURE);
    assert_non_null(strstr(cli_got.out, "object is     other_key: "));
    flip(4096 + BYTES - 1);
    assert_int_equal(RUN("dump", "-e", seal_file, object), CLI_EXIT_FAILURE);
    assert_non_null(strstr(cli_got.out, "object is     damaged: "));
    assert_int_equal(chmod(seal_file, 0644), 0);
    assert_int_equal(RUN("dump", "-e", seal_file, object), CLI_EXIT_FAILURE);
    assert_non_null(strstr(cli_got.err, "chmod 600"));
}

TEST_SUITE(TEST(test_dump_with_the_key_verifies_all_of_it),
           TEST(test_dump_without_the_key_shows_and_verifies_nothing),
           TEST(test_dump_of_whatever_there_is), TEST(test_dump_of_a_sealed_object),
           TEST(test_mistakes_are_sentences))

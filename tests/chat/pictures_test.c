/*
 * pictures.c: base64 of every length, URLs, limits, and markers that no other text can be.
 */
#include "chat/pictures.h"

#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "chat/error.h"
#include "chat/prepare.h"
#include "support/engine_fake.h"
#include "support/pictures.h"
#include "support/test.h"

struct fixture {
    struct arena arena;
    struct pictures pictures;
    struct str marker;
    struct errinfo info;
};

static void begin(struct fixture *f)
{
    *f = (struct fixture){0};
    arena_init(&f->arena, 64 << 20);
}

static void end(struct fixture *f)
{
    pictures_fini(&f->pictures);
    arena_fini(&f->arena);
}

static enum err add(struct fixture *f, const char *base64)
{
    return pictures_add(&f->pictures, &f->arena, str_from(base64), "p", &f->marker, &f->info);
}

static enum err add_url(struct fixture *f, const char *url)
{
    return pictures_add_url(&f->pictures, &f->arena, str_from(url), "p", &f->marker, &f->info);
}

static void test_base64_of_all_lengths(void **state)
{
    struct fixture f;
    char bytes[10];

    (void)state;
    begin(&f);
    for (size_t len = 1; len <= sizeof(bytes); len++) {
        for (size_t i = 0; i < len; i++)
            bytes[i] = (char)(250 - 37 * i);
        struct str copy = {mem_strndup(bytes, len), len};
        char *text = test_base64(copy);
        assert_ok(add(&f, text));
        struct str file = f.pictures.list[f.pictures.count - 1].file;
        assert_int_equal(file.len, len);
        assert_memory_equal(file.ptr, bytes, len);
        mem_free(text);
    }
    assert_ok(add(&f, "-_8 \r\n ="));
    assert_memory_equal(f.pictures.list[f.pictures.count - 1].file.ptr, "\xfb\xff", 2);
    assert_err(add(&f, ""), ERR_INVALID);
    assert_err(add(&f, "===="), ERR_INVALID);
    assert_err(add(&f, "QUJ*"), ERR_INVALID);
    assert_err(add(&f, "QQ==QQ=="), ERR_INVALID);
    end(&f);
}

static void test_urls(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f);
    assert_ok(add_url(&f, "data:image/png;base64,QUJD"));
    assert_memory_equal(f.pictures.list[0].file.ptr, "ABC", 3);
    assert_err(add_url(&f, "http://example.com/a.png"), ERR_UNSUPPORTED);
    assert_err(add_url(&f, "file:///etc/passwd"), ERR_UNSUPPORTED);
    assert_err(add_url(&f, "data:image/png,abc"), ERR_UNSUPPORTED);
    end(&f);
}

/* The same file has the same marker, another one another, and neither contains the hash of the
 * file, which anybody could compute. */
static void test_markers(void **state)
{
    struct fixture f;
    char hex[HASH256_HEX_BYTES];

    (void)state;
    begin(&f);
    assert_ok(add(&f, "QUJD"));
    struct str first = f.marker;
    assert_ok(add(&f, "QUJE"));
    assert_false(str_eq(first, f.marker));
    assert_ok(add(&f, "QUJD"));
    assert_true(str_eq(first, f.marker));
    assert_true(str_starts(first, STR(PICTURE_MARKER)));
    struct hash256 plain = hash256_of("ABC", 3);
    hash256_hex(&plain, hex);
    assert_true(str_find(first, str_from(hex)) == SIZE_MAX);
    end(&f);
}

static void test_limits(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f);
    for (size_t i = 0; i < PICTURES_MAX; i++)
        assert_ok(add(&f, "QUJD"));
    assert_err(add(&f, "QUJD"), ERR_LIMIT);
    f.pictures.count = 0;
    struct str large = {"", (size_t)PICTURE_BYTES_MAX * 4 / 3 + 8}; /* never read */
    assert_err(pictures_add(&f.pictures, &f.arena, large, "p", &f.marker, &f.info), ERR_LIMIT);
    end(&f);
}

/* A model that does not see: the error says what to do, names the field, and has the words that
 * make Claude Code take the picture out of its conversation. */
static void test_blind_model(void **state)
{
    struct prepare_tools tools = {0};
    struct api_error error = {0};
    struct fixture f;

    (void)state;
    begin(&f);
    assert_ok(engine_fake_create(&tools.model.engine, &(struct engine_fake_options){0}, NULL));
    assert_ok(add(&f, "QUJD"));
    assert_err(pictures_read(&f.pictures, f.marker, &tools, &error), ERR_INVALID);
    assert_int_equal(error.kind, API_ERROR_UNSUPPORTED);
    assert_string_equal(error.param, "p");
    assert_non_null(strstr(error.message, "--mmproj"));
    assert_non_null(strstr(error.message, "could not process image"));
    engine_close(&tools.model.engine);
    end(&f);
}

/* ---- what is decoded, and when ---- */

struct watch {
    unsigned decoded, stop_after; /* 0: never */
};

static void on_picture(void *arg)
{
    ((struct watch *)arg)->decoded++;
}

static bool is_stopped(void *arg)
{
    const struct watch *watch = arg;

    return watch->stop_after > 0 && watch->decoded >= watch->stop_after;
}

/* Reads them with an engine that sees; `text` shows all but the last `hidden`. */
static enum err read_all(struct fixture *f, struct watch *watch, size_t hidden,
                         struct api_error *error)
{
    struct engine_fake_options fake = {.sees = true, .on_picture = on_picture, .arg = watch};
    struct prepare_tools tools = {.caller = {.stopped = is_stopped, .arg = watch}};
    struct buf text;

    buf_init(&text, 1 << 20);
    for (size_t i = 0; i + hidden < f->pictures.count; i++)
        buf_appendf(&text, "a picture: " STR_FMT, STR_ARG(f->pictures.list[i].marker));
    assert_ok(engine_fake_create(&tools.model.engine, &fake, NULL));
    enum err err = pictures_read(&f->pictures, buf_text(&text), &tools, error);
    if (err == ERR_OK) /* nothing is left to do */
        assert_ok(pictures_read(&f->pictures, STR_NONE, &tools, error));
    engine_close(&tools.model.engine);
    buf_fini(&text);
    return err;
}

static void add_file(struct fixture *f, struct str file)
{
    char *base64 = test_base64(file);

    assert_ok(add(f, base64));
    mem_free(base64);
}

static void test_all_are_decoded_once(void **state)
{
    struct api_error error = {0};
    struct watch watch = {0};
    struct fixture f;

    (void)state;
    begin(&f);
    add_file(&f, test_png(20, 20, 1));
    add_file(&f, test_bmp(20, 20, 2));
    add_file(&f, test_jpeg_plain(4000, 3000));
    add_file(&f, test_gif_plain(4000, 3000, 0));
    add_file(&f, test_png_plain(4000, 3000));
    assert_int_equal(f.pictures.pixels, 2 * 400 + 3 * 12000000);
    assert_ok(read_all(&f, &watch, 0, &error));
    assert_int_equal(watch.decoded, 5);
    end(&f);
}

/* The error is known before the first one is decoded. */
static void test_errors_come_before_decoding(void **state)
{
    struct api_error error = {0};
    struct watch watch = {0};
    struct fixture f;

    (void)state;
    begin(&f);
    add_file(&f, test_png(20, 20, 1));
    add_file(&f, test_png(20, 20, 2));
    assert_err(read_all(&f, &watch, 1, &error), ERR_INVALID);
    assert_non_null(strstr(error.message, "does not show"));
    add_file(&f, test_bmp_empty(6400, 6554)); /* more than one may have, however small its file */
    assert_err(read_all(&f, &watch, 0, &error), ERR_INVALID);
    assert_int_equal(error.kind, API_ERROR_TOO_LARGE);
    assert_non_null(strstr(error.message, "6400 x 6554"));
    assert_int_equal(watch.decoded, 0);
    end(&f);
}

/* Each of them is small enough. */
static void test_pixels_of_a_request(void **state)
{
    enum { SIDE = 6400, MOST = PICTURES_PIXELS_MAX / (SIDE * SIDE) };
    struct api_error error = {0};
    struct watch watch = {0};
    struct fixture f;

    (void)state;
    begin(&f);
    for (size_t i = 0; i < MOST; i++)
        add_file(&f, test_jpeg_plain(SIDE, SIDE));
    assert_ok(read_all(&f, &watch, 0, &error));
    assert_int_equal(watch.decoded, MOST);
    end(&f);
    begin(&f);
    watch.decoded = 0;
    for (size_t i = 0; i < PICTURES_MAX; i++)
        add_file(&f, test_bmp_empty(SIDE, SIDE));
    assert_err(read_all(&f, &watch, 0, &error), ERR_INVALID);
    assert_int_equal(error.kind, API_ERROR_TOO_LARGE);
    assert_non_null(strstr(error.message, "together"));
    assert_non_null(strstr(error.message, "could not process image"));
    assert_int_equal(watch.decoded, 0);
    end(&f);
}

/* The client disconnects, or the server ends. */
static void test_it_stops_between_two(void **state)
{
    struct watch watch = {.stop_after = 2};
    struct api_error error = {0};
    struct fixture f;

    (void)state;
    begin(&f);
    for (uint32_t i = 0; i < 6; i++)
        add_file(&f, test_png(20, 20, i));
    assert_true(read_all(&f, &watch, 0, &error) != ERR_OK);
    assert_int_equal(error.kind, API_ERROR_UNAVAILABLE);
    assert_int_equal(watch.decoded, 2);
    end(&f);
}

TEST_SUITE(TEST(test_base64_of_all_lengths), TEST(test_urls), TEST(test_markers), TEST(test_limits),
           TEST(test_blind_model), TEST(test_all_are_decoded_once),
           TEST(test_errors_come_before_decoding), TEST(test_pixels_of_a_request),
           TEST(test_it_stops_between_two))

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "support/test.h"

#define START_WALL_NS UINT64_C(1794713838123456789) /* 2026-11-15T03:37:18.123Z */
#define TIME_TEXT     "2026-11-15T03:37:18.123Z"

/* A log into a socket that keeps the borders of writes: one recv gives what one write(2) gave. */
static struct clock *fake_clock;
static int sockets[2];
static char got[2 * PIPE_BUF];

static struct log *create_log(enum log_format format, unsigned burst)
{
    struct log_options options = {
        .level = LOG_LEVEL_DEBUG,
        .format = format,
        .burst = burst,
        .interval_ns = NS_PER_S,
        .fd = sockets[1],
        .clock = fake_clock,
    };

    return log_create(&options);
}

static int open_socket(void **state)
{
    (void)state;
    fake_clock = clock_create_fake(1000, START_WALL_NS);
    return socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets);
}

static int close_socket(void **state)
{
    (void)state;
    clock_destroy_fake(&fake_clock);
    close(sockets[0]);
    close(sockets[1]);
    return 0;
}

#define LOG_TEST(function) cmocka_unit_test_setup_teardown(function, open_socket, close_socket)

/* The next write, or NULL when there is none. Its end of line is checked and cut off. */
static char *next_line(void)
{
    ssize_t len = recv(sockets[0], got, sizeof(got) - 1, MSG_DONTWAIT);

    if (len < 0)
        return NULL;
    assert_true(len > 0 && got[len - 1] == '\n');
    got[len - 1] = '\0';
    assert_null(strchr(got, '\n'));
    assert_int_equal(strlen(got), len - 1);
    return got;
}

static void expect_line(const char *expected)
{
    char *line = next_line();

    assert_non_null(line);
    assert_string_equal(line, expected);
}

static void test_text_lines(void **state)
{
    struct log *log = create_log(LOG_FORMAT_TEXT, 0);

    (void)state;
    LOG_INFO(log, "cache", "hit", LOG_UINT("id", 7), LOG_INT("delta", -3),
             LOG_STR("match", "prefix"));
    expect_line(TIME_TEXT " info  [cache] hit id=7 delta=-3 match=prefix");
    LOG_ERROR(log, "disk", "cannot write");
    expect_line(TIME_TEXT " error [disk] cannot write");
    LOG_DEBUG(log, "a", "b", LOG_FLOAT("ms", 1.5), LOG_BOOL("ok", true), LOG_BOOL("bad", false),
              LOG_STR("none", NULL), LOG_UINT("max", UINT64_MAX), LOG_INT("min", INT64_MIN));
    expect_line(TIME_TEXT " debug [a] b ms=1.5 ok=true bad=false none=- max=18446744073709551615 "
                          "min=-9223372036854775808");
    LOG_WARN(log, "a", "b", LOG_FLOAT("f", 0), LOG_FLOAT("n", NAN), LOG_FLOAT("i", -INFINITY),
             LOG_FLOAT("e", 1e300));
    expect_line(TIME_TEXT " warn  [a] b f=0 n=nan i=-inf e=1e+300");
    assert_null(next_line());
    log_destroy(&log);
    assert_null(log);
    log_destroy(&log);
}

static void test_json_lines(void **state)
{
    struct log *log = create_log(LOG_FORMAT_JSON, 0);

    (void)state;
    LOG_INFO(log, "cache", "hit", LOG_UINT("id", 7), LOG_STR("match", "prefix"));
    expect_line("{\"time\":\"" TIME_TEXT
                "\",\"level\":\"info\",\"tag\":\"cache\",\"message\":\"hit\","
                "\"id\":7,\"match\":\"prefix\"}");
    LOG_WARN(log, "a", "say \"b\"", LOG_FLOAT("f", 0.25), LOG_FLOAT("n", NAN),
             LOG_FLOAT("i", INFINITY), LOG_BOOL("ok", true), LOG_STR("none", NULL),
             LOG_INT("min", INT64_MIN));
    expect_line("{\"time\":\"" TIME_TEXT "\",\"level\":\"warn\",\"tag\":\"a\","
                "\"message\":\"say \\\"b\\\"\",\"f\":0.25,\"n\":null,\"i\":null,\"ok\":true,"
                "\"none\":null,\"min\":-9223372036854775808}");
    LOG_ERROR(log, "a", "bare");
    expect_line("{\"time\":\"" TIME_TEXT
                "\",\"level\":\"error\",\"tag\":\"a\",\"message\":\"bare\"}");
    log_destroy(&log);
}

static void test_color_is_for_text_only(void **state)
{
    struct log_options options = {.fd = sockets[1], .clock = fake_clock, .color = true};
    struct log *log = log_create(&options);

    (void)state;
    LOG_INFO(log, "a", "b");
    expect_line(TIME_TEXT " \x1b[32minfo \x1b[0m [a] b");
    log_destroy(&log);
    options.format = LOG_FORMAT_JSON;
    log = log_create(&options);
    LOG_INFO(log, "a", "b");
    expect_line("{\"time\":\"" TIME_TEXT "\",\"level\":\"info\",\"tag\":\"a\",\"message\":\"b\"}");
    log_destroy(&log);
}

static void test_values_are_quoted_when_needed(void **state)
{
    static const struct {
        const char *value, *text, *json;
    } cases[] = {
        {"plain", "plain", "\"plain\""},
        {"a/b:c,d-e{}[]'", "a/b:c,d-e{}[]'", "\"a/b:c,d-e{}[]'\""},
        {"", "\"\"", "\"\""},
        {"-", "\"-\"", "\"-\""},
        {"two words", "\"two words\"", "\"two words\""},
        {"a=b", "\"a=b\"", "\"a=b\""},
        {"a\"b", "\"a\\\"b\"", "\"a\\\"b\""},
        {"a\\b", "\"a\\\\b\"", "\"a\\\\b\""},
        {"a\nb\r\tc", "\"a\\nb\\r\\tc\"", "\"a\\nb\\r\\tc\""},
        {"\x01\x1b[31m\x7f", "\"\\u0001\\u001b[31m\\u007f\"", "\"\\u0001\\u001b[31m\\u007f\""},
        {"caf\xc3\xa9", "caf\xc3\xa9", "\"caf\xc3\xa9\""},
        {"\xf0\x9f\x94\xa5", "\xf0\x9f\x94\xa5", "\"\xf0\x9f\x94\xa5\""},
        {"\xc2\x9b", "\"\\u009b\"", "\"\\u009b\""},                     /* CSI as one character */
        {"\xe2\x80\xa8", "\"\\u2028\"", "\"\\u2028\""},                 /* line separator */
        {"a\xff", "\"a\\xff\"", "\"a\xef\xbf\xbd\""},                   /* never UTF-8 */
        {"\x80", "\"\\x80\"", "\"\xef\xbf\xbd\""},                      /* a tail without a head */
        {"\xc3", "\"\\xc3\"", "\"\xef\xbf\xbd\""},                      /* a head without a tail */
        {"\xe2\x82", "\"\\xe2\\x82\"", "\"\xef\xbf\xbd\xef\xbf\xbd\""}, /* cut off */
        {"\xc0\xaf", "\"\\xc0\\xaf\"",
         "\"\xef\xbf\xbd\xef\xbf\xbd\""}, /* '/' in a forbidden form */
        {"\xed\xa0\x80", "\"\\xed\\xa0\\x80\"", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xf4\x90\x80\x80", "\"\\xf4\\x90\\x80\\x80\"",
         "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xf8\x88\x80\x80\x80", "\"\\xf8\\x88\\x80\\x80\\x80\"",
         "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
    };
    struct log *text = create_log(LOG_FORMAT_TEXT, 0), *json = create_log(LOG_FORMAT_JSON, 0);

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        LOG_INFO(text, "t", "m", LOG_STR("v", cases[i].value));
        assert_string_equal(strstr(next_line(), "v=") + 2, cases[i].text);
        LOG_INFO(json, "t", "m", LOG_STR("v", cases[i].value));
        char *value = strstr(next_line(), "\"v\":") + 4;
        value[strlen(value) - 1] = '\0'; /* the brace */
        assert_string_equal(value, cases[i].json);
    }
    log_destroy(&text);
    log_destroy(&json);
}

/* ---- a reader of flat JSON objects, as strict as it needs to be to notice a forgery ---- */

static const char *read_hex4(const char *at, unsigned *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, at++) {
        const char *digits = "0123456789abcdef", *digit = *at ? strchr(digits, *at) : NULL;
        assert_non_null(digit);
        *code = *code * 16 + (unsigned)(digit - digits);
    }
    return at;
}

static void append_utf8(struct buf *out, unsigned code)
{
    if (code < 0x80) {
        buf_append_char(out, (char)code);
    } else if (code < 0x800) {
        buf_append_char(out, (char)(0xC0 | code >> 6));
        buf_append_char(out, (char)(0x80 | (code & 0x3F)));
    } else {
        buf_append_char(out, (char)(0xE0 | code >> 12));
        buf_append_char(out, (char)(0x80 | (code >> 6 & 0x3F)));
        buf_append_char(out, (char)(0x80 | (code & 0x3F)));
    }
}

static const char *read_string(const char *at, struct buf *out)
{
    static const char names[] = "\"\\nrt", values[] = "\"\\\n\r\t";
    unsigned code;

    buf_clear(out);
    assert_int_equal(*at++, '"');
    while (*at != '"') {
        assert_true((unsigned char)*at >= 0x20); /* also no end of the text */
        if (*at != '\\') {
            buf_append_char(out, *at++);
        } else if (*++at == 'u') {
            at = read_hex4(at + 1, &code);
            append_utf8(out, code);
        } else {
            const char *name = *at ? strchr(names, *at++) : NULL;
            assert_non_null(name);
            buf_append_char(out, values[name - names]);
        }
    }
    return at + 1;
}

/* Checks that the line is one object of scalars; leaves the text of member `key` in `out`; returns
 * how many there are. */
static int read_object(const char *at, const char *key, struct buf *out)
{
    struct buf name, value;
    int members = 0;

    buf_init(&name, 10000);
    buf_init(&value, 10000);
    buf_clear(out);
    assert_int_equal(*at++, '{');
    do {
        at = read_string(at, &name);
        assert_int_equal(*at++, ':');
        if (*at == '"') {
            at = read_string(at, &value);
            if (strcmp(buf_str(&name), key) == 0)
                buf_append(out, buf_str(&value), value.len);
        } else {
            size_t len = strcspn(at, ",}");
            assert_true(len > 0 && strspn(at, "0123456789+-.aeflnrstu") >= len);
            at += len;
        }
        members++;
    } while (*at++ == ',');
    assert_int_equal(at[-1], '}');
    assert_int_equal(*at, '\0');
    buf_fini(&name);
    buf_fini(&value);
    return members;
}

/* Text of valid characters comes out of the JSON as it went in. */
static void test_json_round_trips(void **state)
{
    static const char *const pieces[] = {
        "a",    "\"",       "\\",       "\n",           "\x01",
        "\x7f", "\xc3\xa9", "\xc2\x85", "\xe2\x80\xa9", "\xf0\x9f\x94\xa5",
        "/",    "{",        "}",        "u0041",        "=",
        " "};
    struct log *log = create_log(LOG_FORMAT_JSON, 0);
    uint64_t seed = test_seed();
    struct buf in, out;

    (void)state;
    buf_init(&in, 1000);
    buf_init(&out, 10000);
    for (int i = 0; i < 2000; i++) {
        buf_clear(&in);
        for (uint64_t n = test_random_below(&seed, 40); n > 0; n--)
            buf_append_str(&in, pieces[test_random_below(&seed, COUNT_OF(pieces))]);
        LOG_INFO(log, "t", "m", LOG_STR("v", buf_str(&in)), LOG_UINT("last", 1));
        assert_int_equal(read_object(next_line(), "v", &out), 6);
        assert_string_equal(buf_str(&out), buf_str(&in));
    }
    buf_fini(&in);
    buf_fini(&out);
    log_destroy(&log);
}

static bool is_utf8(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    while (*at != '\0') {
        int tail = *at < 0x80 ? 0 : *at >= 0xF0 ? 3 : *at >= 0xE0 ? 2 : *at >= 0xC2 ? 1 : -1;
        if (tail < 0 || *at > 0xF4)
            return false;
        for (at++; tail > 0; tail--, at++)
            if ((*at & 0xC0) != 0x80)
                return false;
    }
    return true;
}

/* Any bytes, any length, in every place: one line, valid JSON, valid UTF-8. */
static void test_no_bytes_can_forge_a_line(void **state)
{
    struct log *json = create_log(LOG_FORMAT_JSON, 0), *text = create_log(LOG_FORMAT_TEXT, 0);
    uint64_t seed = test_seed();
    static char bytes[6000];
    struct buf out;

    (void)state;
    buf_init(&out, 10000);
    for (int i = 0; i < 1000; i++) {
        size_t len = test_random_below(&seed, 1 << (1 + test_random_below(&seed, 12)));
        for (size_t k = 0; k < len; k++)
            bytes[k] = (char)(1 + test_random_below(&seed, 255));
        bytes[len] = '\0';
        const struct log_field *fields = LOG_FIELDS(LOG_STR("v", bytes), LOG_STR(bytes, bytes),
                                                    LOG_INT("i", -1), LOG_STR("w", bytes));
        log_event(json, LOG_LEVEL_INFO, bytes, bytes, fields);
        char *line = next_line();
        assert_true(strlen(line) < PIPE_BUF);
        assert_true(is_utf8(line));
        int members = read_object(line, "v", &out);
        assert_true(members >= 4 && members <= 9);
        log_event(text, LOG_LEVEL_INFO, bytes, bytes, fields);
        line = next_line();
        assert_true(strlen(line) < PIPE_BUF);
        assert_true(is_utf8(line));
        for (const char *at = line; *at != '\0'; at++)
            assert_true((unsigned char)*at >= 0x20 && *at != 0x7f);
    }
    buf_fini(&out);
    log_destroy(&json);
    log_destroy(&text);
}

static void test_long_lines_are_cut(void **state)
{
    struct log *log = create_log(LOG_FORMAT_TEXT, 0);
    static char huge[100000];

    (void)state;
    memset(huge, 'x', sizeof(huge) - 1);
    LOG_INFO(log, "t", "m", LOG_STR("a", huge), LOG_UINT("b", 2));
    char *line = next_line();
    assert_non_null(strstr(line, "xxx b=2 cut=true"));
    assert_int_equal(strspn(strstr(line, "a=") + 2, "x"), 1024);

    LOG_INFO(log, "t", "m", LOG_STR("a", huge), LOG_STR("b", huge), LOG_STR("c", huge),
             LOG_STR("d", huge), LOG_STR("e", huge), LOG_UINT("f", UINT64_MAX));
    line = next_line();
    assert_true(strlen(line) > PIPE_BUF - 100 && strlen(line) < PIPE_BUF);
    assert_non_null(strstr(line, " d=x"));
    assert_null(strstr(line, "f="));
    assert_string_equal(line + strlen(line) - 9, " cut=true");
    log_destroy(&log);
}

/* The cut, byte by byte through the last fields: the JSON stays whole wherever it falls. */
static void test_lines_are_cut_anywhere(void **state)
{
    static const char last[] = "caf\xc3\xa9\n\x01";
    struct log *log = create_log(LOG_FORMAT_JSON, 1);
    int whole = 0, without_f = 0, with_short_e = 0, without_e = 0;
    char full[981], some[1000];
    struct buf e;

    (void)state;
    buf_init(&e, 10000);
    memset(full, 'x', sizeof(full) - 1);
    full[sizeof(full) - 1] = '\0';
    for (size_t len = 900; len < sizeof(some); len++) {
        memset(some, 'x', len);
        some[len] = '\0';
        const struct log_field *fields =
            LOG_FIELDS(LOG_STR("a", full), LOG_STR("b", full), LOG_STR("c", full),
                       LOG_STR("d", some), LOG_STR("e", last), LOG_UINT("f", 12345));
        for (int i = 0; i < 3; i++) /* the first after a pause says suppressed=2 */
            log_event(log, LOG_LEVEL_INFO, "t", "m", fields);
        clock_fake_advance(fake_clock, NS_PER_S);
        char *line = next_line();
        assert_true(strlen(line) < PIPE_BUF);
        read_object(line, "e", &e);
        assert_true(is_utf8(line));
        assert_int_equal(strncmp(buf_str(&e), last, e.len), 0);
        assert_int_equal(strstr(line, "\"suppressed\":2") != NULL, len > 900);
        bool has_e = strstr(line, "\"e\":") != NULL, has_f = strstr(line, "\"f\":12345") != NULL;
        assert_int_equal(strstr(line, "\"cut\":true") != NULL, !has_f);
        whole += has_f;
        without_f += !has_f && has_e && e.len == strlen(last);
        with_short_e += !has_f && has_e && e.len < strlen(last);
        without_e += !has_e;
        assert_null(next_line());
    }
    assert_true(whole > 0 && without_f > 0 && with_short_e > 5 && without_e > 0);
    buf_fini(&e);
    log_destroy(&log);
}

static void test_levels(void **state)
{
    static const char *const names[] = {"debug", "info", "warn", "error", "off"};
    struct log *log = create_log(LOG_FORMAT_TEXT, 0);
    enum log_level level = LOG_LEVEL_WARN;

    (void)state;
    log_set_level(log, LOG_LEVEL_WARN);
    assert_false(log_enabled(log, LOG_LEVEL_INFO));
    assert_true(log_enabled(log, LOG_LEVEL_WARN));
    LOG_INFO(log, "a", "no");
    log_event(log, LOG_LEVEL_INFO, "a", "no", LOG_FIELDS());
    assert_null(next_line());
    LOG_WARN(log, "a", "yes");
    assert_non_null(next_line());
    log_set_level(log, LOG_LEVEL_OFF);
    LOG_ERROR(log, "a", "no");
    assert_null(next_line());
    log_destroy(&log);

    assert_false(log_enabled(NULL, LOG_LEVEL_ERROR));
    LOG_ERROR((struct log *)NULL, "a", "b");
    log_event(NULL, LOG_LEVEL_ERROR, "a", "b", LOG_FIELDS());

    for (int i = 0; i < 5; i++) {
        assert_true(log_level_parse(names[i], &level));
        assert_int_equal(level, i);
        assert_string_equal(log_level_name((enum log_level)i), names[i]);
    }
    assert_string_equal(log_level_name((enum log_level)5), "unknown");
    assert_false(log_level_parse("", &level));
    assert_false(log_level_parse("INFO", &level));
    assert_false(log_level_parse("inform", &level));
    assert_int_equal(level, LOG_LEVEL_OFF);
}

static int count_lines(void)
{
    int count = 0;

    while (next_line() != NULL)
        count++;
    return count;
}

static void test_equal_messages_are_limited(void **state)
{
    struct log *log = create_log(LOG_FORMAT_TEXT, 3);

    (void)state;
    for (int i = 0; i < 10; i++)
        LOG_INFO(log, "a", "same", LOG_INT("i", i)); /* fields do not make a message another */
    assert_int_equal(count_lines(), 3);
    assert_int_equal(log_lines_suppressed(log), 7);
    LOG_INFO(log, "a", "other");
    expect_line(TIME_TEXT " info  [a] other");
    LOG_INFO(log, "b", "same");
    expect_line(TIME_TEXT " info  [b] same");

    clock_fake_advance(fake_clock, NS_PER_S - 1);
    LOG_INFO(log, "a", "same");
    assert_null(next_line());
    clock_fake_advance(fake_clock, 1);
    LOG_INFO(log, "a", "same");
    expect_line("2026-11-15T03:37:19.123Z info  [a] same suppressed=8");
    LOG_INFO(log, "a", "same");
    expect_line("2026-11-15T03:37:19.123Z info  [a] same");
    assert_int_equal(log_lines_suppressed(log), 8);
    log_destroy(&log);
}

static void test_no_burst_means_no_limit(void **state)
{
    struct log *log = create_log(LOG_FORMAT_TEXT, 0);

    (void)state;
    for (int i = 0; i < 100; i++)
        LOG_INFO(log, "a", "same");
    assert_int_equal(count_lines(), 100);
    assert_int_equal(log_lines_suppressed(log), 0);
    log_destroy(&log);
}

/* More messages than the table has room for: all are written, and those within the table's size
 * stay limited. */
static void test_table_of_messages_is_bounded(void **state)
{
    static char messages[1000][16];
    struct log *log = create_log(LOG_FORMAT_TEXT, 1);

    (void)state;
    for (int i = 0; i < 1000; i++) {
        snprintf(messages[i], sizeof(messages[i]), "m%d", i);
        clock_fake_advance(fake_clock, 1);
        LOG_INFO(log, "a", messages[i]);
        LOG_INFO(log, "a", messages[i]);
        assert_int_equal(count_lines(), 1);
    }
    assert_int_equal(log_lines_suppressed(log), 1000);
    for (int i = 990; i < 1000; i++) /* the newest are still there, the oldest were dropped */
        LOG_INFO(log, "a", messages[i]);
    assert_int_equal(count_lines(), 0);
    LOG_INFO(log, "a", messages[0]);
    assert_int_equal(count_lines(), 1);
    log_destroy(&log);
}

/* ---- writing ---- */

static void test_failed_writes_are_counted(void **state)
{
    struct log_options options = {.fd = open("/dev/full", O_WRONLY), .clock = fake_clock};
    struct log *log = log_create(&options);

    (void)state;
    assert_true(options.fd >= 0);
    errno = EXDEV;
    LOG_INFO(log, "a", "b");
    assert_int_equal(errno, EXDEV);
    LOG_INFO(log, "a", "b");
    assert_int_equal(log_lines_lost(log), 2);
    log_destroy(&log);
    close(options.fd);
    assert_int_equal(fcntl(options.fd, F_GETFD), -1);
    log = log_create(&options);
    LOG_INFO(log, "a", "b");
    assert_int_equal(log_lines_lost(log), 1);
    log_destroy(&log);
}

/* A limit on the size of files lets a write come short and the next one fail. */
static void test_a_torn_line_does_not_spoil_the_next(void **state)
{
    char path[600], content[200];
    struct rlimit limit, before;

    (void)state;
    snprintf(path, sizeof(path), "%s/log", test_dir());
    struct log_options options = {.fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600),
                                  .clock = fake_clock};
    struct log *log = log_create(&options);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){.rlim_cur = strlen(TIME_TEXT " info  [a] first\n" TIME_TEXT),
                            .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    LOG_INFO(log, "a", "first");
    LOG_INFO(log, "a", "second");
    LOG_INFO(log, "a", "third");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(log_lines_lost(log), 2);
    LOG_INFO(log, "a", "fourth");
    LOG_INFO(log, "a", "fifth");
    assert_int_equal(log_lines_lost(log), 2);

    ssize_t len = pread(options.fd, content, sizeof(content) - 1, 0);
    assert_true(len > 0);
    content[len] = '\0';
    assert_string_equal(content, TIME_TEXT " info  [a] first\n" TIME_TEXT "\n" TIME_TEXT
                                           " info  [a] fourth\n" TIME_TEXT " info  [a] fifth\n");
    log_destroy(&log);
    close(options.fd);
}

static int drain_fd, drain_ticks;
static char drained[3 * PIPE_BUF];
static size_t drained_len;

static void drain(int signum)
{
    (void)signum;
    int errno_before = errno;
    if (++drain_ticks >= 2) { /* the first only interrupts */
        ssize_t len =
            recv(drain_fd, drained + drained_len, sizeof(drained) - drained_len - 1, MSG_DONTWAIT);
        drained_len += len > 0 ? (size_t)len : 0;
    }
    errno = errno_before;
}

/* A full stream socket takes a line in parts, and signals interrupt the waiting in between. */
static void test_interrupted_and_short_writes_go_on(void **state)
{
    struct sigaction action = {.sa_handler = drain}; /* without SA_RESTART */
    struct itimerval timer = {{0, 5000}, {0, 5000}}, none = {0};
    int streams[2], smallest = 1;
    char text[1000];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, streams), 0);
    assert_int_equal(setsockopt(streams[1], SOL_SOCKET, SO_SNDBUF, &smallest, sizeof(smallest)), 0);
    struct log_options options = {.fd = streams[1], .clock = fake_clock};
    struct log *log = log_create(&options);
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    drain_fd = streams[0];
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
    for (int i = 0; i < 2; i++)
        LOG_INFO(log, "a", "m", LOG_STR("a", text), LOG_STR("b", text), LOG_STR("c", text));
    assert_int_equal(setitimer(ITIMER_REAL, &none, NULL), 0);
    drain(SIGALRM);
    drain(SIGALRM);
    assert_int_equal(log_lines_lost(log), 0);
    assert_true(drain_ticks > 3); /* it did wait */
    assert_int_equal(drained_len,
                     2 * strlen(TIME_TEXT " info  [a] m a= b= c=\n") + 6 * strlen(text));
    assert_memory_equal(drained, drained + drained_len / 2, drained_len / 2);
    log_destroy(&log);
    close(streams[0]);
    close(streams[1]);
}

/* ---- the queue ---- */

static struct log *create_queued(int fd, size_t bytes)
{
    struct log_options options = {.fd = fd, .clock = fake_clock};
    struct log *log = log_create(&options);

    assert_ok(log_start_writer(log, bytes, NULL));
    return log;
}

/* The reader comes late; the end waits for it. */
static void test_queued_lines_are_whole_and_in_order(void **state)
{
    struct log *log = create_queued(sockets[1], 1 << 16);
    char expected[100];

    (void)state;
    errno = EXDEV;
    for (int i = 0; i < 100; i++)
        LOG_INFO(log, "a", "numbered", LOG_INT("line", i));
    assert_int_equal(errno, EXDEV);
    log_destroy(&log);
    for (int i = 0; i < 100; i++) {
        snprintf(expected, sizeof(expected), TIME_TEXT " info  [a] numbered line=%d", i);
        /* The second that log_destroy waits may be short on a busy machine. */
        assert_int_equal(poll(&(struct pollfd){.fd = sockets[0], .events = POLLIN}, 1, 30000), 1);
        expect_line(expected);
    }
    assert_null(next_line());
}

/* One page, full. */
static void open_full_pipe(int pipes[2])
{
    static const char junk[4096];

    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_true(fcntl(pipes[1], F_SETPIPE_SZ, 4096) >= 4096);
    assert_int_equal(write(pipes[1], junk, sizeof(junk)), sizeof(junk));
}

/* Reads up to the text, which is the last of all. */
static void read_until(int fd, struct buf *text, const char *last)
{
    while (strstr(buf_str(text), last) == NULL) {
        char *to = buf_reserve(text, 4096);
        ssize_t len = read(fd, to, 4096);
        assert_true(len > 0);
        for (ssize_t i = 0; i < len; i++)
            to[i] = to[i] != '\0' ? to[i] : '\n';
        buf_commit(text, (size_t)len);
    }
}

static void test_a_full_queue_drops_and_says_so(void **state)
{
    enum { LINES = 1000 };
    char line[100];
    struct buf text;
    int pipes[2], kept = 0;

    (void)state;
    open_full_pipe(pipes);
    struct log *log = create_queued(pipes[1], 8192);
    for (int i = 0; i < LINES; i++)
        LOG_INFO(log, "a", "numbered", LOG_INT("line", i));
    uint64_t dropped = log_lines_dropped(log);
    assert_true(dropped > LINES / 2 && dropped < LINES);
    buf_init(&text, 1 << 20);
    read_until(pipes[0], &text, "log lines were dropped");
    LOG_INFO(log, "a", "the end");
    read_until(pipes[0], &text, "the end");
    assert_int_equal(log_lines_dropped(log), dropped);
    snprintf(line, sizeof(line),
             " warn  [log] %d log lines were dropped: the reader of standard error is too slow\n",
             (int)dropped);
    assert_non_null(strstr(buf_str(&text), line));
    const char *at = buf_str(&text);
    for (int i = 0; i < LINES;
         i++) { /* whole, in order; which ones, depends on when the writer began */
        snprintf(line, sizeof(line), "\n" TIME_TEXT " info  [a] numbered line=%d\n", i);
        const char *next = strstr(at, line);
        kept += next != NULL;
        at = next != NULL ? next + 1 : at;
    }
    assert_int_equal(kept + (int)dropped, LINES);
    buf_fini(&text);
    log_destroy(&log);
    close(pipes[0]);
    close(pipes[1]);
}

/* The end does not wait for ever; a reader that comes back later finds the thread alive and the log
 * not freed under it. */
static void test_the_end_leaves_a_reader_that_stalls(void **state)
{
    struct buf text;
    int pipes[2];

    (void)state;
    open_full_pipe(pipes);
    struct log *log = create_queued(pipes[1], LOG_QUEUE_BYTES_MIN);
    LOG_INFO(log, "a", "never read in time");
    log_destroy(&log);
    assert_null(log);
    buf_init(&text, 1 << 16);
    read_until(pipes[0], &text, "never read in time");
    buf_fini(&text);
    /* the other end stays open: the thread may not have returned from its write yet */
    close(pipes[0]);
}

/* ---- threads ---- */

enum { WRITERS = 4, LINES_EACH = 200 };

struct writer {
    struct thread thread;
    struct log *log;
    int number;
};

static void write_many(void *arg)
{
    struct writer *writer = arg;

    for (int i = 0; i < LINES_EACH; i++) {
        LOG_INFO(writer->log, "t", "numbered", LOG_INT("writer", writer->number),
                 LOG_INT("line", i));
        log_set_level(writer->log, LOG_LEVEL_INFO);
        LOG_DEBUG(writer->log, "t", "never");
    }
}

static int write_from_threads(struct log *log)
{
    struct writer writers[WRITERS] = {0};
    long next[WRITERS] = {0};
    int lines = 0;

    for (int i = 0; i < WRITERS; i++) {
        writers[i].log = log;
        writers[i].number = i;
        assert_ok(thread_start(&writers[i].thread, "writer", write_many, &writers[i], NULL));
    }
    while (log_lines_suppressed(log) + (uint64_t)lines < WRITERS * LINES_EACH) {
        const char *text = next_line();
        if (text == NULL)
            continue;
        const char *number_at = strstr(text, " writer="), *line_at = strstr(text, " line=");
        assert_true(number_at != NULL && line_at != NULL);
        long number = strtol(number_at + 8, NULL, 10), line = strtol(line_at + 6, NULL, 10);
        assert_true(number >= 0 && number < WRITERS);
        assert_true(line >= next[number]); /* each writer's own lines are in order */
        next[number] = line + 1;
        lines++;
    }
    for (int i = 0; i < WRITERS; i++)
        thread_join(&writers[i].thread);
    assert_null(next_line());
    return lines;
}

static void test_lines_of_threads_do_not_mix(void **state)
{
    struct log *log = create_log(LOG_FORMAT_TEXT, 0);

    (void)state;
    log_set_level(log, LOG_LEVEL_INFO);
    assert_int_equal(write_from_threads(log), WRITERS * LINES_EACH);
    assert_int_equal(log_lines_lost(log), 0);
    log_destroy(&log);
}

static void test_lines_of_threads_do_not_mix_in_the_queue(void **state)
{
    struct log *log = create_queued(sockets[1], 1 << 20);

    (void)state;
    assert_int_equal(write_from_threads(log), WRITERS * LINES_EACH);
    assert_int_equal(log_lines_lost(log), 0);
    assert_int_equal(log_lines_dropped(log), 0);
    log_destroy(&log);
}

static void test_threads_share_the_limit(void **state)
{
    struct log *log = create_log(LOG_FORMAT_TEXT, 5);

    (void)state;
    log_set_level(log, LOG_LEVEL_INFO);
    assert_int_equal(write_from_threads(log), 5);
    assert_int_equal(log_lines_suppressed(log), WRITERS * LINES_EACH - 5);
    log_destroy(&log);
}

/* Words that differ from line to line are neither limited nor able to forge a line. */
static void test_free_text_is_not_limited(void **state)
{
    struct log *log = create_log(LOG_FORMAT_TEXT, 1);

    (void)state;
    for (int i = 0; i < 3; i++)
        log_text(log, LOG_LEVEL_INFO, "route", "%d model=x", 7);
    log_text(log, LOG_LEVEL_INFO, "route", "a\nb");
    for (int i = 0; i < 3; i++)
        expect_line(TIME_TEXT " info  [route] 7 model=x");
    expect_line(TIME_TEXT " info  [route] a\\nb");
    log_set_level(log, LOG_LEVEL_WARN);
    log_text(log, LOG_LEVEL_INFO, "route", "unseen");
    assert_null(next_line());
    log_destroy(&log);
}

/* Warnings and errors are kept for a while, for readers; the number shows what was missed. */
static void test_warnings_are_kept(void **state)
{
    struct log *log = create_log(LOG_FORMAT_TEXT, 0);
    static struct log_line lines[128];
    char tag[16];

    (void)state;
    assert_int_equal(log_read(log, 0, lines, 128), 0);
    assert_int_equal(log_read(NULL, 0, lines, 128), 0);
    LOG_INFO(log, "a", "not kept");
    LOG_WARN(log, "a", "kept", LOG_UINT("n", 7), LOG_STR("text", "two words"));
    LOG_ERROR(log, "b", "kept, too");
    assert_int_equal(log_read(log, 0, lines, 128), 2);
    assert_string_equal(lines[0].text, "kept n=7 text=\"two words\"");
    assert_string_equal(lines[0].tag, "a");
    assert_int_equal(lines[0].level, LOG_LEVEL_WARN);
    assert_int_equal(lines[0].wall_ns, START_WALL_NS);
    assert_int_equal(lines[1].number, 2);
    assert_int_equal(log_read(log, 1, lines, 128), 1);
    assert_int_equal(log_read(log, 2, lines, 128), 0);
    for (int i = 0; i < 100; i++) {
        snprintf(tag, sizeof(tag), "%d", i);
        LOG_WARN(log, "c", "again", LOG_STR("tag", tag));
        while (recv(sockets[0], got, sizeof(got), MSG_DONTWAIT) > 0)
            ;
    }
    assert_int_equal(log_read(log, 2, lines, 128), 64); /* the oldest have gone */
    assert_int_equal(lines[0].number, 39);
    assert_string_equal(lines[63].text, "again tag=99");
    assert_int_equal(log_read(log, 2, lines, 5), 5);
    assert_int_equal(log_get_level(log), LOG_LEVEL_DEBUG);
    log_destroy(&log);
}

TEST_SUITE(LOG_TEST(test_queued_lines_are_whole_and_in_order),
           LOG_TEST(test_a_full_queue_drops_and_says_so),
           LOG_TEST(test_the_end_leaves_a_reader_that_stalls),
           LOG_TEST(test_lines_of_threads_do_not_mix_in_the_queue),
           LOG_TEST(test_warnings_are_kept), LOG_TEST(test_free_text_is_not_limited),
           LOG_TEST(test_text_lines), LOG_TEST(test_json_lines),
           LOG_TEST(test_color_is_for_text_only), LOG_TEST(test_values_are_quoted_when_needed),
           LOG_TEST(test_json_round_trips), LOG_TEST(test_no_bytes_can_forge_a_line),
           LOG_TEST(test_long_lines_are_cut), LOG_TEST(test_lines_are_cut_anywhere),
           LOG_TEST(test_levels), LOG_TEST(test_equal_messages_are_limited),
           LOG_TEST(test_no_burst_means_no_limit), LOG_TEST(test_table_of_messages_is_bounded),
           LOG_TEST(test_failed_writes_are_counted),
           LOG_TEST(test_a_torn_line_does_not_spoil_the_next),
           LOG_TEST(test_interrupted_and_short_writes_go_on),
           LOG_TEST(test_lines_of_threads_do_not_mix), LOG_TEST(test_threads_share_the_limit))

#include "base/progress.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/test.h"

#define MIB (UINT64_C(1) << 20)

static struct clock *fake_clock;
static int fds[2];
static char got[8192];

static int open_pipe(void **state)
{
    (void)state;
    fake_clock = clock_create_fake(1000, 0);
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm", 1);
    return pipe2(fds, O_NONBLOCK);
}

static int close_pipe(void **state)
{
    (void)state;
    clock_destroy_fake(&fake_clock);
    close(fds[0]);
    close(fds[1]);
    return 0;
}

#define PIPE_TEST(function) cmocka_unit_test_setup_teardown(function, open_pipe, close_pipe)

/* All that was written since the last call. */
static const char *output_of(int fd)
{
    ssize_t len = read(fd, got, sizeof(got) - 1);

    got[len > 0 ? len : 0] = '\0';
    return got;
}

static void expect(const char *text)
{
    assert_string_equal(output_of(fds[0]), text);
}

static struct progress *create(enum progress_style style, const char *label,
                               enum progress_unit unit)
{
    return progress_create(fds[1], style, label, unit, fake_clock);
}

static void update_after(struct progress *progress, uint64_t ms, uint64_t done, uint64_t total)
{
    clock_fake_advance(fake_clock, ms * NS_PER_MS);
    progress_update(progress, done, total);
}

static void test_one_line_per_quarter(void **state)
{
    struct progress *progress = create(PROGRESS_STYLE_AUTO, "loading model", PROGRESS_UNIT_BYTES);

    (void)state;
    update_after(progress, 1000, 0, 2300 * MIB);
    update_after(progress, 1000, 574 * MIB, 2300 * MIB);
    expect("");
    update_after(progress, 100, 575 * MIB, 2300 * MIB);
    expect("loading model: 25% (575.0 MiB of 2.2 GiB, 2.1 s)\n");
    update_after(progress, 0, 600 * MIB, 2300 * MIB);
    expect("");
    update_after(progress, 1000, 1200 * MIB, 2300 * MIB);
    expect("loading model: 50% (1.2 of 2.2 GiB, 3.1 s)\n");
    update_after(progress, 1000, 2300 * MIB - 1, 2300 * MIB);
    expect("loading model: 75% (2.2 of 2.2 GiB, 4.1 s)\n");
    update_after(progress, 1000, 2300 * MIB, 2300 * MIB);
    expect("loading model: 100% (2.2 of 2.2 GiB, 5.1 s)\n");
    progress_finish(&progress, true);
    assert_null(progress);
    expect("");
    progress_finish(&progress, true); /* a no-op by now */
}

static void test_finish_completes_the_lines(void **state)
{
    struct progress *progress = create(PROGRESS_STYLE_LINES, "reading", PROGRESS_UNIT_TOKENS);

    (void)state;
    update_after(progress, 65000, 9000, 28412);
    expect("reading: 25% (9,000 of 28,412 tokens, 1 min 05 s)\n");
    progress_finish(&progress, true);
    expect("reading: 100% (28,412 of 28,412 tokens, 1 min 05 s)\n");

    progress = create(PROGRESS_STYLE_LINES, "reading", PROGRESS_UNIT_NONE);
    update_after(progress, 1000, 2, 5);
    expect("reading: 25% (2 of 5, 1.0 s)\n");
    progress_finish(&progress, false);
    expect("");
}

static void test_a_part_is_shown_as_a_percentage(void **state)
{
    struct progress *progress = create(PROGRESS_STYLE_LINES, "loading", PROGRESS_UNIT_NONE);

    (void)state;
    clock_fake_advance(fake_clock, NS_PER_S);
    progress_part(0.5, progress);
    expect("loading: 50% (1.0 s)\n");
    progress_finish(&progress, true);
    expect("loading: 100% (1.0 s)\n");

    progress = create(PROGRESS_STYLE_BAR, "loading", PROGRESS_UNIT_NONE);
    clock_fake_advance(fake_clock, NS_PER_S);
    progress_part(0.5, progress);
    expect("\rloading  [##########..........]  50%  1.0 s\x1b[K");
    progress_finish(&progress, false);
    expect("\r\x1b[K");
}

static void test_lines_without_a_total(void **state)
{
    struct progress *progress = create(PROGRESS_STYLE_LINES, "counting", PROGRESS_UNIT_TOKENS);

    (void)state;
    update_after(progress, 9999, 5, 0);
    expect("");
    update_after(progress, 1, 1234, 0);
    expect("counting: 1,234 tokens (10.0 s)\n");
    update_after(progress, 9999, 2000, 0);
    expect("");
    progress_finish(&progress, true);
    expect("counting: 2,000 tokens (20.0 s)\n");
}

static void test_what_is_short_shows_nothing(void **state)
{
    const enum progress_style styles[] = {PROGRESS_STYLE_BAR, PROGRESS_STYLE_LINES};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(styles); i++) {
        for (int ok = 0; ok < 2; ok++) {
            struct progress *progress = create(styles[i], "short", PROGRESS_UNIT_NONE);
            update_after(progress, 499, 99, 100);
            progress_finish(&progress, ok);
            expect("");
        }
        struct progress *progress = create(styles[i], "longer", PROGRESS_UNIT_NONE);
        update_after(progress, 500, 99, 100);
        assert_true(strlen(output_of(fds[0])) > 0);
        progress_finish(&progress, false);
        output_of(fds[0]);
    }
}

static void test_off_shows_nothing(void **state)
{
    struct progress *progress = create(PROGRESS_STYLE_OFF, "x", PROGRESS_UNIT_NONE);

    (void)state;
    update_after(progress, 5000, 50, 100);
    progress_finish(&progress, true);
    expect("");
}

static void test_bar_is_redrawn_in_place(void **state)
{
    struct progress *progress = create(PROGRESS_STYLE_BAR, "loading model", PROGRESS_UNIT_BYTES);

    (void)state;
    update_after(progress, 3100, 1200 * MIB, 2300 * MIB);
    expect("\rloading model  [##########..........]  52%  1.2 of 2.2 GiB  3.1 s\x1b[K");
    update_after(progress, 99, 1300 * MIB, 2300 * MIB);
    expect("");
    update_after(progress, 1, 1400 * MIB, 2300 * MIB);
    expect("\rloading model  [############........]  60%  1.4 of 2.2 GiB  3.2 s\x1b[K");
    clock_fake_advance(fake_clock, NS_PER_MS);
    progress_finish(&progress, true);
    expect("\rloading model  [####################] 100%  2.2 of 2.2 GiB  3.2 s\x1b[K\n");
}

static void test_bar_is_cleared_on_failure(void **state)
{
    struct progress *progress = create(PROGRESS_STYLE_BAR, "x", PROGRESS_UNIT_NONE);

    (void)state;
    update_after(progress, 1000, 0, 10);
    expect("\rx  [....................]   0%  0 of 10  1.0 s\x1b[K");
    progress_finish(&progress, false);
    expect("\r\x1b[K");
}

static void test_bar_without_a_total(void **state)
{
    struct progress *progress = create(PROGRESS_STYLE_BAR, "x", PROGRESS_UNIT_BYTES);

    (void)state;
    update_after(progress, 1000, 1536, 0);
    expect("\rx  1.5 KiB  1.0 s\x1b[K");
    progress_finish(&progress, true);
    expect("\rx  1.5 KiB  1.0 s\x1b[K\n");
}

static void test_at_most_ten_bars_a_second(void **state)
{
    struct progress *progress = create(PROGRESS_STYLE_BAR, "x", PROGRESS_UNIT_NONE);
    int bars = 0;

    (void)state;
    clock_fake_advance(fake_clock, NS_PER_S);
    for (uint64_t i = 0; i < 1000; i++) {
        update_after(progress, 1, i, 1000);
        bars += output_of(fds[0])[0] == '\r';
    }
    assert_int_equal(bars, 10);
    progress_finish(&progress, false);
}

static void test_never_looks_finished_too_early(void **state)
{
    struct progress *progress = create(PROGRESS_STYLE_BAR, "x", PROGRESS_UNIT_BYTES);

    (void)state;
    update_after(progress, 1000, UINT64_MAX - 1, UINT64_MAX);
    assert_non_null(strstr(output_of(fds[0]), "]  99%  "));
    update_after(progress, 1000, UINT64_MAX, UINT64_MAX);
    assert_non_null(strstr(output_of(fds[0]), "] 100%  "));
    progress_finish(&progress, true);
}

static void test_label_is_harmless(void **state)
{
    char label[] = "a\nb\x1b[2J\x7f";
    struct progress *progress = create(PROGRESS_STYLE_LINES, label, PROGRESS_UNIT_NONE);

    (void)state;
    memset(label, 'z', sizeof(label) - 1); /* it was copied */
    update_after(progress, 1000, 1, 4);
    expect("a?b?[2J?: 25% (1 of 4, 1.0 s)\n");
    progress_finish(&progress, false);

    /* 39 bytes, then a character of two: the whole character goes. */
    progress = create(PROGRESS_STYLE_LINES, "123456789012345678901234567890123456789\xc3\xa9xyz",
                      PROGRESS_UNIT_NONE);
    update_after(progress, 1000, 1, 4);
    expect("123456789012345678901234567890123456789: 25% (1 of 4, 1.0 s)\n");
    progress_finish(&progress, false);
    progress = create(PROGRESS_STYLE_LINES, "12345678901234567890123456789012345678\xc3\xa9xyz",
                      PROGRESS_UNIT_NONE);
    update_after(progress, 1000, 1, 4);
    expect("12345678901234567890123456789012345678\xc3\xa9: 25% (1 of 4, 1.0 s)\n");
    progress_finish(&progress, false);
    progress = create(PROGRESS_STYLE_LINES, "1234567890123456789012345678901234567890",
                      PROGRESS_UNIT_NONE);
    update_after(progress, 1000, 1, 4);
    expect("1234567890123456789012345678901234567890: 25% (1 of 4, 1.0 s)\n");
    progress_finish(&progress, false);
}

static void test_failed_writes_are_ignored(void **state)
{
    int full = open("/dev/full", O_WRONLY);
    struct progress *progress =
        progress_create(full, PROGRESS_STYLE_BAR, "x", PROGRESS_UNIT_NONE, fake_clock);

    (void)state;
    update_after(progress, 1000, 1, 4);
    progress_finish(&progress, true);
    assert_null(progress);
    close(full);
}

/* ---- on a terminal ---- */

struct terminal {
    int screen, fd; /* what we read and what the program writes to */
};

static bool open_terminal(struct terminal *terminal)
{
    terminal->screen = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (terminal->screen < 0 || grantpt(terminal->screen) != 0 || unlockpt(terminal->screen) != 0)
        return false;
    terminal->fd = open(ptsname(terminal->screen), O_RDWR | O_NOCTTY);
    return terminal->fd >= 0;
}

static void close_terminal(struct terminal *terminal)
{
    close(terminal->screen);
    close(terminal->fd);
}

static void set_columns(const struct terminal *terminal, unsigned short columns)
{
    struct winsize size = {.ws_col = columns, .ws_row = 24};

    assert_int_equal(ioctl(terminal->fd, TIOCSWINSZ, &size), 0);
}

static const char *draw_on(struct terminal *terminal, const char *label)
{
    struct progress *progress =
        progress_create(terminal->fd, PROGRESS_STYLE_AUTO, label, PROGRESS_UNIT_BYTES, fake_clock);

    update_after(progress, 3100, 1200 * MIB, 2300 * MIB);
    const char *text = output_of(terminal->screen);
    static char kept[sizeof(got)];
    memcpy(kept, text, strlen(text) + 1);
    progress_finish(&progress, false);
    output_of(terminal->screen);
    return kept;
}

static void test_auto_looks_at_the_terminal(void **state)
{
    struct terminal terminal;

    (void)state;
    if (!open_terminal(&terminal))
        TEST_SKIP("no pseudo terminals here");
    assert_true(progress_color_allowed(terminal.fd));
    assert_string_equal(draw_on(&terminal, "loading"),
                        "\rloading  [\x1b[32m##########\x1b[0m..........]  52%  1.2 of 2.2 GiB  "
                        "3.1 s\x1b[K");
    setenv("NO_COLOR", "1", 1);
    assert_false(progress_color_allowed(terminal.fd));
    assert_string_equal(draw_on(&terminal, "loading"),
                        "\rloading  [##########..........]  52%  1.2 of 2.2 GiB  3.1 s\x1b[K");
    setenv("NO_COLOR", "", 1);
    assert_true(progress_color_allowed(terminal.fd));
    setenv("TERM", "dumb", 1);
    assert_false(progress_color_allowed(terminal.fd));
    assert_string_equal(draw_on(&terminal, "loading"),
                        "loading: 50% (1.2 of 2.2 GiB, 3.1 s)\r\n"); /* the terminal adds the \r */
    setenv("TERM", "xterm", 1);
    assert_false(progress_color_allowed(fds[1]));
    close_terminal(&terminal);
}

static void test_bar_fits_the_terminal(void **state)
{
    struct terminal terminal;

    (void)state;
    if (!open_terminal(&terminal))
        TEST_SKIP("no pseudo terminals here");
    setenv("NO_COLOR", "1", 1);
    /* é is one column: 7 + 2 + 22 + 1 + 4 + 2 + 14 + 2 + 5 = 59, and the last column stays empty.
     */
    set_columns(&terminal, 60);
    assert_string_equal(
        draw_on(&terminal, "load\xc3\xa9ng"),
        "\rload\xc3\xa9ng  [##########..........]  52%  1.2 of 2.2 GiB  3.1 s\x1b[K");
    set_columns(&terminal, 59);
    assert_string_equal(draw_on(&terminal, "load\xc3\xa9ng"),
                        "\rload\xc3\xa9ng  52%  1.2 of 2.2 GiB  3.1 s\x1b[K");
    set_columns(&terminal, 30);
    assert_string_equal(draw_on(&terminal, "loading"), "\rloading  52%  3.1 s\x1b[K");
    set_columns(&terminal, 15);
    assert_string_equal(draw_on(&terminal, "loading"), "\r 52%  3.1 s\x1b[K");
    set_columns(&terminal, 5);
    assert_string_equal(draw_on(&terminal, "loading"), "\r 52%\x1b[K");
    unsetenv("NO_COLOR"); /* colours take no columns */
    set_columns(&terminal, 60);
    assert_non_null(strstr(draw_on(&terminal, "loading"), "[\x1b[32m####"));
    close_terminal(&terminal);
}

/* A reader that stalls does not stop what is shown: a write into this pipe would wait for ever. */
static void test_a_full_pipe_is_not_waited_for(void **state)
{
    struct progress *progress = create(PROGRESS_STYLE_LINES, "loading", PROGRESS_UNIT_NONE);

    (void)state;
    memset(got, 'x', sizeof(got));
    while (write(fds[1], got, sizeof(got)) > 0)
        ;
    assert_int_equal(fcntl(fds[1], F_SETFL, 0), 0);
    for (uint64_t done = 0; done <= 4; done++)
        update_after(progress, 1000, done, 4);
    progress_finish(&progress, true);
    while (strcmp(output_of(fds[0]), "") != 0)
        assert_null(strstr(got, "loading"));
}

TEST_SUITE(PIPE_TEST(test_a_full_pipe_is_not_waited_for), PIPE_TEST(test_one_line_per_quarter),
           PIPE_TEST(test_finish_completes_the_lines), PIPE_TEST(test_lines_without_a_total),
           PIPE_TEST(test_a_part_is_shown_as_a_percentage),
           PIPE_TEST(test_what_is_short_shows_nothing), PIPE_TEST(test_off_shows_nothing),
           PIPE_TEST(test_bar_is_redrawn_in_place), PIPE_TEST(test_bar_is_cleared_on_failure),
           PIPE_TEST(test_bar_without_a_total), PIPE_TEST(test_at_most_ten_bars_a_second),
           PIPE_TEST(test_never_looks_finished_too_early), PIPE_TEST(test_label_is_harmless),
           PIPE_TEST(test_failed_writes_are_ignored), PIPE_TEST(test_auto_looks_at_the_terminal),
           PIPE_TEST(test_bar_fits_the_terminal))

/* `hearth top` in a real terminal (a pty) against the real server: it draws, follows a resize, ends
 * with q, and leaves the terminal as it was. */
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/buf.h"
#include "support/serve_proc.h"
#include "support/test.h"

struct terminal {
    int fd;    /* ours */
    int other; /* its, held open to look at its settings */
    pid_t pid;
    struct buf seen;
};

static void start_top(struct terminal *terminal, const struct serve_proc *proc,
                      const char *no_color)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    char url[64];

    snprintf(url, sizeof(url), "http://127.0.0.1:%u", proc->port);
    assert_int_equal(openpty(&terminal->fd, &terminal->other, NULL, NULL, &size), 0);
    buf_init(&terminal->seen, 16 << 20);
    terminal->pid = fork();
    assert_true(terminal->pid >= 0);
    if (terminal->pid == 0) {
        setsid();
        ioctl(terminal->other, TIOCSCTTY, 0);
        for (int fd = 0; fd < 3; fd++)
            dup2(terminal->other, fd);
        setenv("TERM", "xterm", 1);
        setenv("XDG_CONFIG_HOME", "/dev/null/nowhere", 1);
        if (no_color != NULL)
            setenv("NO_COLOR", no_color, 1);
        else
            unsetenv("NO_COLOR");
        execl(getenv("HEARTH"), "hearth", "top", "--url", url, "--interval", "100ms", (char *)NULL);
        _exit(127);
    }
}

/* Reads until the text was seen behind `from`; returns where. */
static size_t wait_for(struct terminal *terminal, const char *text, size_t from)
{
    for (int tries = 0; tries < 600; tries++) {
        const char *found = strstr(buf_str(&terminal->seen) + from, text);
        struct pollfd fd = {.fd = terminal->fd, .events = POLLIN};
        char *to;
        if (found != NULL)
            return (size_t)(found - buf_str(&terminal->seen)) + strlen(text);
        if (poll(&fd, 1, 100) <= 0)
            continue;
        to = buf_reserve(&terminal->seen, 65536);
        assert_non_null(to);
        ssize_t got = read(terminal->fd, to, 65536);
        if (got > 0)
            buf_commit(&terminal->seen, (size_t)got);
    }
    fail_msg("'%s' was not seen; this was: %.2000s", text, buf_str(&terminal->seen) + from);
    return 0;
}

/* Until a picture has so many lines. */
static void wait_for_lines(struct terminal *terminal, int lines, size_t from)
{
    for (int pictures = 0; pictures < 100; pictures++) {
        size_t begin = wait_for(terminal, "\x1b[H", from),
               end = wait_for(terminal, "\x1b[J", begin);
        int count = 1;
        for (size_t i = begin; i < end; i++)
            count += terminal->seen.data[i] == '\n';
        if (count == lines)
            return;
        from = end;
    }
    fail_msg("no picture has %d lines", lines);
}

static int end_of(struct terminal *terminal)
{
    int status = 0;

    (void)wait_for(terminal, "\x1b[?1049l", 0); /* it gives the screen back */
    assert_int_equal(waitpid(terminal->pid, &status, 0), terminal->pid);
    close(terminal->fd);
    close(terminal->other);
    buf_fini(&terminal->seen);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void ask_something(const struct serve_proc *proc)
{
    struct http_answer answer;

    serve_proc_ask(proc, "POST", "/v1/completions",
                   "{\"prompt\": \"Once upon a time there was\", \"max_tokens\": 4}", &answer);
    http_answer_fini(&answer);
}

static void test_live(void **state)
{
    struct serve_proc proc = {0};
    struct terminal terminal;
    struct termios during;

    (void)state;
    serve_proc_start(&proc, "qwen3", "");
    start_top(&terminal, &proc, NULL);
    size_t at = wait_for(&terminal, "\x1b[?1049h", 0);
    at = wait_for(&terminal, "0 running", at);
    assert_int_equal(tcgetattr(terminal.other, &during), 0);
    assert_false(during.c_lflag & ICANON);
    ask_something(&proc);
    at = wait_for(&terminal, "in 1 requests", at);
    assert_non_null(strstr(buf_str(&terminal.seen), "\x1b[1m"));
    struct winsize narrow = {.ws_row = 5, .ws_col = 30};
    assert_int_equal(ioctl(terminal.fd, TIOCSWINSZ, &narrow), 0);
    wait_for_lines(&terminal, 5, at);
    assert_int_equal(write(terminal.fd, "q", 1), 1);
    assert_int_equal(end_of(&terminal), 0);
    serve_proc_stop(&proc);
}

static void test_ctrl_c_and_the_terminal_afterwards(void **state)
{
    struct serve_proc proc = {0};
    struct terminal terminal;
    struct termios after;
    int status;

    (void)state;
    serve_proc_start(&proc, "qwen3", "");
    start_top(&terminal, &proc, "1");
    (void)wait_for(&terminal, "0 running", 0);
    assert_null(strstr(buf_str(&terminal.seen), "\x1b[1m")); /* NO_COLOR */
    assert_int_equal(write(terminal.fd, "\x03", 1), 1);
    (void)wait_for(&terminal, "\x1b[?25h\x1b[?1049l", 0);
    assert_int_equal(waitpid(terminal.pid, &status, 0), terminal.pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(tcgetattr(terminal.other, &after), 0);
    assert_true((after.c_lflag & (ICANON | ECHO)) == (ICANON | ECHO));
    close(terminal.fd);
    close(terminal.other);
    buf_fini(&terminal.seen);
    serve_proc_stop(&proc);
}

/* A server that goes away is said in the picture, which stays. */
static void test_a_server_that_ends(void **state)
{
    struct serve_proc proc = {0};
    struct terminal terminal;

    (void)state;
    serve_proc_start(&proc, "qwen3", "");
    start_top(&terminal, &proc, NULL);
    size_t at = wait_for(&terminal, "0 running", 0);
    serve_proc_kill(&proc);
    (void)wait_for(&terminal, "no server at", at);
    assert_int_equal(write(terminal.fd, "q", 1), 1);
    assert_int_equal(end_of(&terminal), 0);
}

/* Not a terminal: one picture, no sequences. */
static void test_piped(void **state)
{
    struct serve_proc proc = {0};
    char command[2048], line[4096] = "";
    size_t len = 0;

    (void)state;
    serve_proc_start(&proc, "qwen3", "");
    ask_something(&proc);
    snprintf(command, sizeof(command),
             "XDG_CONFIG_HOME=/dev/null/nowhere %s top --url http://127.0.0.1:%u", getenv("HEARTH"),
             proc.port);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    len = fread(line, 1, sizeof(line) - 1, pipe);
    line[len] = '\0';
    assert_int_equal(pclose(pipe), 0);
    assert_null(strchr(line, '\x1b'));
    assert_non_null(strstr(line, "in 1 requests"));
    assert_non_null(strstr(line, "0 running\n"));
    serve_proc_kill(&proc);
    pipe = popen(command, "r");
    assert_int_equal(fread(line, 1, sizeof(line), pipe), 0);
    assert_int_equal(WEXITSTATUS(pclose(pipe)), 1);
}

TEST_SUITE(TEST(test_live), TEST(test_ctrl_c_and_the_terminal_afterwards),
           TEST(test_a_server_that_ends), TEST(test_piped))

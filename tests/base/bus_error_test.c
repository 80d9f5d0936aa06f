/* A mapped file that shrinks, and a SIGBUS that has nothing to do with files, each in a process of
 * its own. */
#include "base/bus_error.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

enum { BYTES = 1 << 16 };

/* Runs it in a child; its status, and what it wrote to stderr. */
static int run_child(void (*act)(const char *path), const char *path, char *text, size_t size)
{
    int ends[2], status;

    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        bus_error_install();
        act(path);
        _exit(0);
    }
    close(ends[1]);
    size_t len = 0;
    for (ssize_t got; (got = read(ends[0], text + len, size - 1 - len)) > 0;)
        len += (size_t)got;
    text[len] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void touch_missing_page(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    volatile char *at;

    if (ftruncate(fd, BYTES) != 0)
        _exit(100);
    at = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED || ftruncate(fd, BYTES / 2) != 0)
        _exit(101);
    (void)at[0]; /* is still there */
    (void)at[BYTES - 1];
}

static void raise_it(const char *path)
{
    (void)path;
    raise(SIGBUS);
}

static void test_a_shrunk_file_is_named(void **state)
{
    char path[1024], text[4096];

    (void)state;
    snprintf(path, sizeof(path), "%s/a model.gguf", test_dir());
    int status = run_child(touch_missing_page, path, text, sizeof(text));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), BUS_ERROR_EXIT);
    assert_non_null(strstr(text, path));
    assert_non_null(strstr(text, "--no-mmap"));
}

static void test_another_cause_ends_as_usual(void **state)
{
    char text[4096];

    (void)state;
    int status = run_child(raise_it, "", text, sizeof(text));
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
    assert_string_equal(text, "");
}

TEST_SUITE(TEST(test_a_shrunk_file_is_named), TEST(test_another_cause_ends_as_usual))

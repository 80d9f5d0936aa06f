/*
 * run.c: the test runner. `run [-j N] [--timeout S] [--outside FOLDER] SUITE...`
 *
 * Each suite lists its tests (SUITE --list); each test then runs in its own process (SUITE
 * --run NAME), several at a time, in a process group that is killed when the time is up. A crash, a
 * hang or a leak therefore costs one test, not the suite. One line is printed per suite, the whole
 * output of every failed test, and at the end
 *
 *     N passed, M failed
 *
 * The exit status is 0 when nothing failed and something ran. Tests write into their scratch
 * folders only: a name that was not in a FOLDER before is a failure as well. The folders are the root
 * of the disk, the one that the runner was started in, and $HOME, unless others are given.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OUTPUT_BYTES_MAX = 256 * 1024, TIMEOUT_S_DEFAULT = 120, JOBS_MAX = 64 };

enum outcome { OUTCOME_PENDING, OUTCOME_PASSED, OUTCOME_FAILED, OUTCOME_SKIPPED };

struct suite {
    const char *path;
    char name[256];
    int tests, done, passed, failed, skipped;
    double seconds; /* sum over its tests */
};

struct test {
    struct suite *suite;
    char name[256];
};

/* A running test. */
struct job {
    struct test *test;
    pid_t pid;
    int fd; /* its stdout and stderr; -1 when closed */
    char *output;
    size_t len;
    double started;
    bool timed_out;
};

static struct test *tests;
static int tests_count, tests_cap;
static int timeout_s = TIMEOUT_S_DEFAULT;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void add_test(struct suite *suite, const char *name)
{
    if (tests_count == tests_cap) {
        tests_cap = tests_cap ? tests_cap * 2 : 256;
        tests = realloc(tests, (size_t)tests_cap * sizeof(*tests));
        if (tests == NULL)
            abort();
    }
    struct test *test = &tests[tests_count++];
    test->suite = suite;
    snprintf(test->name, sizeof(test->name), "%s", name);
    suite->tests++;
}

/* "build/release/tests/base/buf_test" -> "base/buf". */
static void name_suite(struct suite *suite)
{
    const char *start = suite->path;

    for (const char *p = start; (p = strstr(p, "tests/")) != NULL; p += 6)
        start = p + 6;
    snprintf(suite->name, sizeof(suite->name), "%s", start);
    char *tail = strstr(suite->name, "_test");
    if (tail != NULL)
        *tail = '\0';
}

static bool list_tests(struct suite *suite)
{
    char command[1024], line[256];

    snprintf(command, sizeof(command), "'%s' --list", suite->path);
    FILE *pipe = popen(command, "r");
    if (pipe == NULL)
        return false;
    while (fgets(line, sizeof(line), pipe) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '\0')
            add_test(suite, line);
    }
    return pclose(pipe) == 0 && suite->tests > 0;
}

static void start_job(struct job *job, struct test *test)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0)
        abort();
    job->test = test;
    job->len = 0;
    job->timed_out = false;
    job->started = now();
    job->output = malloc(OUTPUT_BYTES_MAX);
    job->pid = fork();
    if (job->pid < 0 || job->output == NULL)
        abort();
    if (job->pid == 0) {
        setpgid(0, 0);
        int null = open("/dev/null", O_RDONLY);
        if (null < 0 || dup2(null, 0) < 0 || dup2(fds[1], 1) < 0 || dup2(fds[1], 2) < 0)
            _exit(126);
        execl(test->suite->path, test->suite->path, "--run", test->name, (char *)NULL);
        _exit(127);
    }
    setpgid(job->pid, job->pid);
    close(fds[1]);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    job->fd = fds[0];
}

/* Reads what is there. Output beyond the maximum is dropped, and said so when shown. */
static void read_output(struct job *job)
{
    char drop[4096];

    for (;;) {
        size_t room = OUTPUT_BYTES_MAX - job->len;
        ssize_t n = read(job->fd, room ? job->output + job->len : drop, room ? room : sizeof(drop));
        if (n > 0) {
            job->len += room ? (size_t)n : 0;
        } else {
            if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
                close(job->fd);
                job->fd = -1;
            }
            return;
        }
    }
}

static bool has_line(const struct job *job, const char *prefix)
{
    size_t len = strlen(prefix);

    for (size_t i = 0; i + len <= job->len; i++)
        if ((i == 0 || job->output[i - 1] == '\n') && memcmp(job->output + i, prefix, len) == 0)
            return true;
    return false;
}

static void show_failure(const struct job *job, int status)
{
    const struct test *test = job->test;

    printf("FAIL %s %s: ", test->suite->name, test->name);
    if (job->timed_out)
        printf("no end after %d s\n", timeout_s);
    else if (WIFSIGNALED(status))
        printf("signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        printf("exit status %d\n", WEXITSTATUS(status));
    fwrite(job->output, 1, job->len, stdout);
    if (job->len == OUTPUT_BYTES_MAX)
        printf("\n[more output was cut]\n");
    printf("again: %s --run %s\n", test->suite->path, test->name);
}

static void show_skip(const struct job *job)
{
    for (size_t i = 0; i + 5 <= job->len; i++) {
        if ((i == 0 || job->output[i - 1] == '\n') && memcmp(job->output + i, "SKIP ", 5) == 0) {
            const char *line = job->output + i + 5;
            int len = (int)strcspn(line, "\n");
            printf("skip %s %s: %.*s\n", job->test->suite->name, job->test->name, len, line);
            return;
        }
    }
}

static void finish_job(struct job *job, int status)
{
    struct suite *suite = job->test->suite;

    if (job->fd >= 0) {
        read_output(job);
        if (job->fd >= 0)
            close(job->fd);
    }
    kill(-job->pid, SIGKILL); /* whatever the test left running */
    if (job->len == OUTPUT_BYTES_MAX)
        job->len--;
    job->output[job->len] = '\0';
    suite->seconds += now() - job->started;
    suite->done++;
    if (job->timed_out || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        suite->failed++;
        show_failure(job, status);
    } else if (has_line(job, "SKIP ")) {
        suite->skipped++;
        show_skip(job);
    } else {
        suite->passed++;
    }
    if (suite->done == suite->tests) {
        printf("%-4s %-28s %3d passed", suite->failed ? "FAIL" : "ok", suite->name, suite->passed);
        if (suite->failed)
            printf(", %d failed", suite->failed);
        if (suite->skipped)
            printf(", %d skipped", suite->skipped);
        printf("  %.2f s\n", suite->seconds);
    }
    fflush(stdout);
    free(job->output);
    job->output = NULL;
    job->pid = 0;
}

/* True when the job ended and its place is free. */
static bool tend_job(struct job *job)
{
    int status;

    if (job->fd >= 0)
        read_output(job);
    pid_t done = waitpid(job->pid, &status, WNOHANG);
    if (done == job->pid) {
        finish_job(job, status);
        return true;
    }
    if (!job->timed_out && now() - job->started > timeout_s) {
        job->timed_out = true;
        kill(-job->pid, SIGKILL);
    }
    return false;
}

static void run_all(int jobs_count)
{
    struct job jobs[JOBS_MAX] = {0};
    struct pollfd fds[JOBS_MAX];
    int next = 0, running = 0;

    while (next < tests_count || running > 0) {
        for (int i = 0; i < jobs_count && next < tests_count; i++) {
            if (jobs[i].pid == 0) {
                start_job(&jobs[i], &tests[next++]);
                running++;
            }
        }
        for (int i = 0; i < jobs_count; i++)
            fds[i] = (struct pollfd){.fd = jobs[i].pid ? jobs[i].fd : -1, .events = POLLIN};
        poll(fds, (nfds_t)jobs_count, 5);
        for (int i = 0; i < jobs_count; i++)
            if (jobs[i].pid != 0 && tend_job(&jobs[i]))
                running--;
    }
}

/* ---- what must not change ---- */

enum { OUTSIDE_MAX = 8 };

struct outside {
    const char *folder;
    struct dirent **names; /* before the first test */
    int count;
};

static struct outside outside[OUTSIDE_MAX];
static int outside_count;

static void add_outside(const char *folder)
{
    if (folder != NULL && outside_count < OUTSIDE_MAX)
        outside[outside_count++].folder = folder;
}

static int list_names(const char *folder, struct dirent ***names)
{
    int count = scandir(folder, names, NULL, alphasort);

    return count < 0 ? 0 : count;
}

static void free_names(struct dirent **names, int count)
{
    for (int i = 0; i < count; i++)
        free(names[i]);
    if (count > 0)
        free(names);
}

/* What tests/sdk and tests/web download is kept for the next run, once per user. */
static bool is_download(const char *name)
{
    return strcmp(name, ".cache") == 0 || strcmp(name, ".npm") == 0;
}

/* Tells of each new name; those from before are sorted as scandir sorts them. Returns how many
 * there are. */
static int count_new(const struct outside *one)
{
    struct dirent **now_there;
    int count = list_names(one->folder, &now_there), found = 0, at = 0;

    for (int i = 0; i < count; i++) {
        const char *name = now_there[i]->d_name;
        while (at < one->count && strcoll(one->names[at]->d_name, name) < 0)
            at++;
        if ((at < one->count && strcmp(one->names[at]->d_name, name) == 0) || is_download(name))
            continue;
        printf("FAIL a test made '%s' in %s\n", name, one->folder);
        found++;
    }
    free_names(now_there, count);
    return found;
}

static int run_watched(int jobs)
{
    int made = 0;

    if (outside_count == 0) {
        add_outside("/");
        add_outside(".");
        add_outside(getenv("HOME"));
    }
    for (int i = 0; i < outside_count; i++)
        outside[i].count = list_names(outside[i].folder, &outside[i].names);
    run_all(jobs);
    for (int i = 0; i < outside_count; i++) {
        made += count_new(&outside[i]);
        free_names(outside[i].names, outside[i].count);
    }
    return made;
}

static int summarise(const struct suite *suites, int count, int failed, double seconds)
{
    int passed = 0, skipped = 0;

    for (int i = 0; i < count; i++) {
        passed += suites[i].passed;
        failed += suites[i].failed;
        skipped += suites[i].skipped;
    }
    printf("%d suites, %d tests, %d skipped, %.1f s\n", count, tests_count, skipped, seconds);
    printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct suite *suites = calloc((size_t)argc, sizeof(*suites));
    int count = 0, jobs = (int)sysconf(_SC_NPROCESSORS_ONLN);
    double started = now();

    if (suites == NULL)
        abort();
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-j") == 0 && i + 1 < argc) {
            jobs = (int)strtol(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--timeout") == 0 && i + 1 < argc) {
            timeout_s = (int)strtol(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--outside") == 0 && i + 1 < argc) {
            add_outside(argv[++i]);
        } else {
            suites[count].path = argv[i];
            name_suite(&suites[count++]);
        }
    }
    for (int i = 0; i < count; i++) {
        if (!list_tests(&suites[i])) {
            printf("FAIL %s: it does not list its tests\n", suites[i].name);
            suites[i].failed++;
        }
    }
    int made = run_watched(jobs < 1 ? 1 : jobs > JOBS_MAX ? JOBS_MAX : jobs);
    return summarise(suites, count, made, now() - started);
}

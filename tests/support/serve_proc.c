/*
 * serve_proc.c: fork, exec, and the files that it writes: `out.N` (banner) and `log.N` in the
 * test's folder.
 */
#include "support/serve_proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/attr.h"
#include "support/models.h"
#include "support/test.h"

enum {
    FILE_BYTES_MAX = 64 << 20,
    ARGS_MAX = 64,
    PAUSE_MS_MIN = 2,
    PAUSE_MS_MAX = 50,
    WAIT_MS = 60 * 1000,
    SHOWN_BYTES = 3000
};

/* Servers that run, to be killed when the test ends; never many. */
static pid_t running[16];

static void kill_running(void)
{
    for (size_t i = 0; i < COUNT_OF(running); i++)
        if (running[i] > 0)
            kill(running[i], SIGKILL);
}

static void remember(pid_t old, pid_t new)
{
    for (size_t i = 0; i < COUNT_OF(running); i++) {
        if (running[i] != old)
            continue;
        running[i] = new;
        return;
    }
    fail_msg("too many servers");
}

/* ---- files ---- */

static void file_path(const struct serve_proc *proc, const char *name, char path[1024])
{
    snprintf(path, 1024, "%s/%s.%u", test_dir(), name, proc->number);
}

static struct buf read_file(const char *path)
{
    struct buf text;
    int fd = open(path, O_RDONLY | O_NONBLOCK); /* the log may be a FIFO */
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    size_t got;

    buf_init(&text, FILE_BYTES_MAX);
    while (file != NULL) {
        char *to = buf_reserve(&text, 65536);
        if (to == NULL || (got = fread(to, 1, 65536, file)) == 0)
            break;
        buf_commit(&text, got);
    }
    if (file != NULL)
        fclose(file);
    return text;
}

struct buf serve_proc_banner(const struct serve_proc *proc)
{
    char path[1024];

    file_path(proc, "out", path);
    return read_file(path);
}

struct buf serve_proc_log(const struct serve_proc *proc)
{
    char path[1024];

    file_path(proc, "log", path);
    return read_file(path);
}

static void fail_with_log(const struct serve_proc *proc, const char *what)
{
    struct buf log = serve_proc_log(proc);
    size_t from = log.len > SHOWN_BYTES ? log.len - SHOWN_BYTES : 0;

    fail_msg("%s; the end of the log:\n%s", what, buf_str(&log) + from);
}

void serve_proc_pause(const struct serve_proc *proc, unsigned *waited_ms, const char *what)
{
    unsigned ms = MIN(PAUSE_MS_MIN + *waited_ms / 50, PAUSE_MS_MAX);
    const struct timespec pause = {.tv_nsec = ms * 1000000L};

    if ((*waited_ms += ms) > WAIT_MS)
        fail_with_log(proc, what);
    if (proc->pid > 0 && waitpid(proc->pid, NULL, WNOHANG) == proc->pid) {
        remember(proc->pid, 0);
        fail_with_log(proc, "the server ended by itself");
    }
    nanosleep(&pause, NULL);
}

void serve_proc_wait_log(const struct serve_proc *proc, const char *text)
{
    for (unsigned waited_ms = 0;; serve_proc_pause(proc, &waited_ms, text)) {
        struct buf log = serve_proc_log(proc);
        bool found = strstr(buf_str(&log), text) != NULL;
        buf_fini(&log);
        if (found)
            return;
    }
}

/* ---- starting and ending ---- */

/* In the child. Only what may be called between fork and exec. */
static void become(const char *const *argv, const char *out, const char *log, pid_t parent)
{
    int out_fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(out_fd, 1) < 0 || dup2(log_fd, 2) < 0)
        _exit(126);
    execv(argv[0], (char *const *)argv);
    _exit(127);
}

static size_t split_args(char *text, const char **argv, size_t count)
{
    char *rest = text;

    for (char *word; (word = strsep(&rest, " ")) != NULL && count + 1 < ARGS_MAX;)
        if (*word != '\0')
            argv[count++] = word;
    argv[count] = NULL;
    return count;
}

static void spawn(struct serve_proc *proc)
{
    const char *hearth = getenv("HEARTH");
    char lab[1024], args[sizeof(proc->args)], out[1024], log[1024];
    pid_t parent = getpid();
    const char *argv[ARGS_MAX] = {hearth ? hearth : "build/release/hearth",
                                  "serve",
                                  proc->model,
                                  "--port",
                                  "0",
                                  "-t",
                                  "1",
                                  "--state-dir",
                                  proc->state_dir};

    /* Only the lab's program can be told to fail. */
    if (strstr(proc->args, "--fault") != NULL) {
        snprintf(lab, sizeof(lab), "%s-lab", argv[0]);
        argv[0] = lab;
    }
    memcpy(args, proc->args, sizeof(args));
    split_args(args, argv, 9);
    file_path(proc, "out", out);
    file_path(proc, "log", log);
    proc->pid = fork();
    assert_true(proc->pid >= 0);
    if (proc->pid == 0)
        become(argv, out, log, parent);
    remember(0, proc->pid);
}

/* The banner says where it is, and ends with the line about Ctrl-C. */
static void wait_for_banner(struct serve_proc *proc)
{
    static const char before[] = "Anthropic http://127.0.0.1:";

    for (unsigned waited_ms = 0;; serve_proc_pause(proc, &waited_ms, "there is no banner")) {
        struct buf out = serve_proc_banner(proc);
        const char *at = strstr(buf_str(&out), before);
        bool up = at != NULL && strstr(at, "Ctrl-C") != NULL;
        if (up)
            proc->port = (uint16_t)strtoul(at + sizeof(before) - 1, NULL, 10);
        buf_fini(&out);
        if (up)
            return;
    }
}

static void leave_no_trace(void)
{
    static const char *const variables[] = {"HEARTH_CONFIG",     "HEARTH_LOG_LEVEL",
                                            "HEARTH_LOG_FORMAT", "HEARTH_COLOR",
                                            "HEARTH_BACKENDS",   "HEARTH_API_KEYS"};

    for (size_t i = 0; i < COUNT_OF(variables); i++)
        unsetenv(variables[i]);
    setenv("XDG_CONFIG_HOME", "/dev/null/nowhere", 1);
    setenv("XDG_CACHE_HOME", test_dir(), 1);
    setenv("HTTP_CLIENT_MS", "60000", 0); /* cores are shared with other tests */
    atexit(kill_running);
}

void serve_proc_start(struct serve_proc *proc, const char *family, const char *args)
{
    static unsigned count;

    if (count == 0)
        leave_no_trace();
    *proc = (struct serve_proc){.number = ++count, .headers = ""};
    snprintf(proc->model, sizeof(proc->model), "%s",
             strchr(family, '/') != NULL ? family : test_model(family));
    snprintf(proc->state_dir, sizeof(proc->state_dir), "%s/state.%u", test_dir(), proc->number);
    snprintf(proc->args, sizeof(proc->args), "%s", args);
    serve_proc_restart(proc);
}

void serve_proc_restart(struct serve_proc *proc)
{
    char out[1024];

    assert_int_equal(proc->pid, 0);
    file_path(proc, "out", out);
    unlink(out); /* the old banner has the old port */
    spawn(proc);
    wait_for_banner(proc);
}

static int end_with(struct serve_proc *proc, int signal)
{
    unsigned waited_ms = 0;
    int status = 0;
    pid_t pid = proc->pid;

    assert_true(pid > 0);
    kill(pid, signal);
    proc->pid = 0; /* its end is no surprise from now on */
    while (waitpid(pid, &status, WNOHANG) != pid)
        serve_proc_pause(proc, &waited_ms, "the server does not end");
    remember(pid, 0);
    return status;
}

int serve_proc_wait_end(struct serve_proc *proc)
{
    return end_with(proc, 0);
}

void serve_proc_stop(struct serve_proc *proc)
{
    int status = end_with(proc, SIGTERM);

    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_with_log(proc, "the server did not end well");
}

void serve_proc_kill(struct serve_proc *proc)
{
    int status = end_with(proc, SIGKILL);

    assert_true(WIFSIGNALED(status));
}

/* ---- asking ---- */

void serve_proc_send(const struct serve_proc *proc, struct http_client *client, const char *path,
                     const char *body)
{
    char headers[512];

    snprintf(headers, sizeof(headers), "Content-Type: application/json\r\n%s", proc->headers);
    http_client_connect(client, proc->port);
    http_client_request(client, "POST", path, headers, str_from(body));
}

void serve_proc_ask(const struct serve_proc *proc, const char *method, const char *path,
                    const char *body, struct http_answer *answer)
{
    struct http_client client;

    http_client_connect(&client, proc->port);
    http_client_request(&client, method, path, proc->headers, str_from(body));
    if (!http_client_answer(&client, false, answer, NULL) || !answer->complete)
        fail_with_log(proc, "no whole answer");
    http_client_close(&client);
}

double serve_proc_metric(const struct serve_proc *proc, const char *name)
{
    struct http_answer answer;
    size_t len = strlen(name);
    double value = -1;

    serve_proc_ask(proc, "GET", "/metrics", NULL, &answer);
    const char *text = buf_str(&answer.body);
    for (const char *at = strstr(text, name); at != NULL; at = strstr(at + 1, name))
        if ((at == text || at[-1] == '\n') && at[len] == ' ')
            value = strtod(at + len, NULL);
    if (value < 0)
        fail_msg("there is no %s in:\n%s", name, text);
    http_answer_fini(&answer);
    return value;
}

void serve_proc_wait_metric(const struct serve_proc *proc, const char *name, double value)
{
    char what[256];
    double seen;

    for (unsigned waited_ms = 0; (seen = serve_proc_metric(proc, name)) != value;) {
        snprintf(what, sizeof(what), "%s is %g, never was %g", name, seen, value);
        serve_proc_pause(proc, &waited_ms, what);
    }
}

/* ---- what the system says ---- */

static bool is_socket(DIR *dir, const char *name)
{
    static const char socket[] = "socket:";
    char target[sizeof(socket) - 1];

    return readlinkat(dirfd(dir), name, target, sizeof(target)) == sizeof(target) &&
           memcmp(target, socket, sizeof(target)) == 0;
}

/* The entries of /proc/PID/<name>; those that are links to sockets are counted on their own as
 * well.
 */
static size_t count_entries(const struct serve_proc *proc, const char *name, size_t *sockets)
{
    char path[64];
    size_t count = 0;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)proc->pid, name);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL; count++)
        *sockets += is_socket(dir, entry->d_name);
    closedir(dir);
    return count;
}

struct serve_proc_size serve_proc_size(const struct serve_proc *proc)
{
    struct serve_proc_size size = {0};
    char path[64];

    size.descriptors = count_entries(proc, "fd", &size.sockets);
    size.threads = count_entries(proc, "task", &size.sockets);

    snprintf(path, sizeof(path), "/proc/%d/status", (int)proc->pid);
    struct buf text = read_file(path);
    const char *at = strstr(buf_str(&text), "VmRSS:");
    assert_non_null(at);
    size.rss_bytes = strtoull(at + 6, NULL, 10) * 1024;
    buf_fini(&text);
    return size;
}

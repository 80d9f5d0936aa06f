/*
 * process.c: fork and exec of a child that dies with its parent, and what /proc reports about
 * a process.
 */
#include "cli/process.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/sysinfo.h"

enum { PROC_BYTES_MAX = 16 << 20, WALK_FILES = 16, PAUSE_MS = 5 };

struct process {
    pid_t pid;
    bool ended;
    int status;
};

static size_t count_of(const char *const *list)
{
    size_t count = 0;

    while (list[count] != NULL)
        count++;
    return count;
}

/* Whether both are about the same variable. */
static bool same_name(const char *a, const char *b)
{
    return str_eq((struct str){a, strcspn(a, "=")}, (struct str){b, strcspn(b, "=")});
}

const char **process_make_env(const char *const *old, const char *const *changes)
{
    const char **env = mem_alloc_array(count_of(old) + count_of(changes) + 1, sizeof(*env));
    size_t count = 0;

    for (; *old != NULL; old++) {
        const char *const *change = changes;
        while (*change != NULL && !same_name(*change, *old))
            change++;
        if (*change == NULL)
            env[count++] = *old;
    }
    for (; *changes != NULL; changes++)
        if (strchr(*changes, '=') != NULL)
            env[count++] = *changes;
    return env;
}

/* In the child: only functions that are safe between fork and exec. */
static void become(const char *const *argv, const char **env, int out, int err, pid_t parent)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0); /* Ctrl-C is for the parent */
    if (getppid() != parent || dup2(out, STDOUT_FILENO) < 0 ||
        (err != FILE_NO && dup2(err, STDERR_FILENO) < 0))
        _exit(126);
    execve(argv[0], (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)env);
    _exit(127);
}

static enum err open_output(const char *path, int flags, int *fd, struct errinfo *info)
{
    return file_open_at(file_sys_real(), AT_FDCWD, path, O_WRONLY | O_CREAT | flags, 0600, fd,
                        info);
}

enum err process_start(struct process **out_process, const struct process_options *options,
                       struct errinfo *info)
{
    static const char *const unchanged[] = {NULL};
    int out = FILE_NO, err_fd = FILE_NO;
    pid_t parent = getpid();

    *out_process = NULL;
    enum err err = open_output(options->out, O_TRUNC, &out, info);
    if (err == ERR_OK && options->err != NULL)
        err = open_output(options->err, O_APPEND, &err_fd, info);
    const char **env = process_make_env((const char *const *)environ,
                                        options->env != NULL ? options->env : unchanged);
    pid_t pid = err == ERR_OK ? fork() : -1;
    if (pid == 0)
        become(options->argv, env, out, err_fd, parent);
    if (err == ERR_OK && pid < 0)
        err = err_set_errno(info, errno, "fork");
    mem_free(env);
    file_close(file_sys_real(), &out);
    file_close(file_sys_real(), &err_fd);
    if (err != ERR_OK)
        return err;
    *out_process = mem_alloc(sizeof(**out_process));
    (*out_process)->pid = pid;
    return ERR_OK;
}

static bool reap(struct process *process, int flags)
{
    if (!process->ended && waitpid(process->pid, &process->status, flags) == process->pid)
        process->ended = true;
    return process->ended;
}

bool process_runs(struct process *process)
{
    return !reap(process, WNOHANG);
}

void process_kill(struct process **process)
{
    if (*process == NULL)
        return;
    if (process_runs(*process)) {
        kill((*process)->pid, SIGKILL);
        reap(*process, 0);
    }
    mem_free(*process);
    *process = NULL;
}

enum err process_stop(struct process **process, uint64_t timeout_ms, struct errinfo *info)
{
    uint64_t deadline_ns = clock_deadline_ns(clock_real(), timeout_ms * NS_PER_MS);

    if (process_runs(*process))
        kill((*process)->pid, SIGTERM);
    while (process_runs(*process) && clock_mono_ns(clock_real()) < deadline_ns)
        clock_sleep_ns(clock_real(), PAUSE_MS * NS_PER_MS);
    bool ended = !process_runs(*process);
    int status = (*process)->status;
    process_kill(process);
    if (!ended)
        return err_set(info, ERR_TIMEOUT, "it did not end when it was asked to");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return ERR_OK;
    return WIFSIGNALED(status)
               ? err_set(info, ERR_ENGINE, "it died of signal %d", WTERMSIG(status))
               : err_set(info, ERR_ENGINE, "it ended with status %d", WEXITSTATUS(status));
}

/* ---- what /proc says ---- */

/* Files of /proc have no size, so file_read_all cannot read them. */
static size_t read_proc(const struct process *process, const char *name, char *out, size_t size)
{
    char path[64];
    int fd = FILE_NO;
    size_t len = 0;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)process->pid, name);
    if (file_open_at(file_sys_real(), AT_FDCWD, path, O_RDONLY, 0, &fd, NULL) != ERR_OK)
        return 0;
    for (ssize_t got; len + 1 < size && (got = read(fd, out + len, size - 1 - len)) > 0;)
        len += (size_t)got;
    out[len] = '\0';
    file_close(file_sys_real(), &fd);
    return len;
}

double process_cpu_s(const struct process *process)
{
    char text[4096];
    struct str rest, word;
    uint64_t user = 0, system = 0;

    if (process->ended || read_proc(process, "stat", text, sizeof(text)) == 0)
        return 0;
    const char *after = strrchr(text, ')'); /* the name before it may contain spaces */
    rest = str_from(after != NULL ? after + 1 : "");
    for (int field = 0; str_next(&rest, ' ', &word); field++)
        if ((field == 12 && !str_to_u64(word, &user)) ||
            (field == 13 && !str_to_u64(word, &system)))
            return 0;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

bool process_find_file(const struct process *process, const char *text, char *out, size_t size)
{
    char *maps = mem_alloc(PROC_BYTES_MAX);
    bool found = false;
    struct str rest, line;

    rest = (struct str){maps, read_proc(process, "maps", maps, PROC_BYTES_MAX)};
    while (!found && str_next(&rest, '\n', &line)) {
        const char *path = memchr(line.ptr, '/', line.len);
        struct str name = {path, path != NULL ? line.len - (size_t)(path - line.ptr) : 0};
        if (path == NULL || str_find(name, str_from(text)) == SIZE_MAX || name.len >= size)
            continue;
        snprintf(out, size, STR_FMT, STR_ARG(name));
        found = true;
    }
    mem_free(maps);
    return found;
}

bool process_hearth_path(const char *name, char *out, size_t size)
{
    char path[PATH_MAX];

    if (realpath(sysinfo_program(), path) == NULL)
        return false;
    const int folder = (int)(strrchr(path, '/') - path);
    return snprintf(out, size, "%.*s/%s", folder, path, name) < (int)size && access(out, X_OK) == 0;
}

/* ---- scratch ---- */

const char *process_temp_dir(void)
{
    const char *folder = getenv("TMPDIR");

    return folder != NULL && folder[0] != '\0' ? folder : "/tmp";
}

int process_lock(bool wait, bool *busy)
{
    enum { RETRY_MS = 100 };
    const struct file_sys *fs = file_sys_real();
    struct errinfo info = {0};
    char path[256];
    int fd = -1;

    *busy = false;
    snprintf(path, sizeof(path), "%s/hearth-bench-%u.lock", process_temp_dir(), (unsigned)getuid());
    if (file_open_at(fs, AT_FDCWD, path, O_RDWR | O_CREAT, 0600, &fd, &info) != ERR_OK)
        return -1;
    enum err err;
    while ((err = file_lock(fs, fd, &info)) == ERR_BUSY && wait)
        clock_sleep_ns(clock_real(), RETRY_MS * NS_PER_MS);
    *busy = err == ERR_BUSY;
    if (err != ERR_OK)
        process_unlock(fd);
    return err == ERR_OK ? fd : -1;
}

void process_unlock(int lock)
{
    if (lock >= 0)
        file_close(file_sys_real(), &lock);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    remove(path);
    return 0; /* removes the rest even if one file cannot be removed */
}

void process_remove_tree(const char *path)
{
    nftw(path, remove_entry, WALK_FILES, FTW_DEPTH | FTW_PHYS);
}

/* In the child: waits until the parent has ended. Servers of the parent end with it, but may still
 * write for a moment. */
NORETURN static void clean_up(const char *path, int parent)
{
    enum { TRIES = 300, TRY_MS = 100 };
    char byte;

    setsid(); /* Ctrl-C is for the parent */
    dup2(parent, STDIN_FILENO);
    (void)close_range(STDIN_FILENO + 1, ~0u, 0);
    while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR)
        ;
    for (int i = 0; i < TRIES && access(path, F_OK) == 0; i++) {
        process_remove_tree(path);
        clock_sleep_ns(clock_real(), TRY_MS * NS_PER_MS);
    }
    _exit(0);
}

bool process_make_scratch(char *out, size_t size, bool keep)
{
    int ends[2]; /* ours stays open until this process ends */

    snprintf(out, size, "%s/hearth.XXXXXX", process_temp_dir());
    if (mkdtemp(out) == NULL)
        return false;
    if (!keep && pipe2(ends, O_CLOEXEC) == 0) {
        if (fork() == 0)
            clean_up(out, ends[0]);
        close(ends[0]);
    }
    return true;
}

/*
 * worker_process.c: see the header. There is one call at a time. During a call the parent polls the
 * socket and the pipe of the child's output, and checks the child's ticks four times per timeout.
 * The child's last line of output is kept: when it dies, that is the best explanation available
 * ("GGML_ASSERT(...) failed").
 */
#include "engine/worker_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sysinfo.h"

enum {
    LINE_BYTES_MAX = LOG_TEXT_BYTES_MAX, /* longer ones are cut into several */
    POLITE_MS = 1000,                    /* to exit before it is killed */
    CANCEL_MS = 100,
    /* for the status of a killed child, which is only used in the message */
    STATUS_MS = 1000,
};

struct worker_process {
    struct worker_process_options options;
    char name[128]; /* of the options */
    pid_t pid;
    bool reaped;
    int signal; /* that it died of by itself */
    int socket, pipe;
    char line[LINE_BYTES_MAX];
    size_t line_len;
    char last_line[256]; /* of its output */
    char death[sizeof(((struct errinfo *)0)->text)];
    unsigned char message[WORKER_MESSAGE_BYTES_MAX];
};

/* ---- its output ---- */

/* "2026-11-15T03:37:18.123Z info [engine] text": a line of our own log; anything else is the
 * library's. */
static enum log_level split_line(const char **text)
{
    enum log_level level = LOG_LEVEL_WARN;
    char name[8] = "";
    const char *space = strchr(*text, ' ');
    size_t len = space != NULL ? strcspn(space + 1, " ") : 0;

    if (space == NULL || space == *text || space[-1] != 'Z' || len == 0 || len >= sizeof(name))
        return level;
    memcpy(name, space + 1, len);
    if (log_level_parse(name, &level)) {
        *text = space + 1 + len;
        *text += strspn(*text, " ");
    }
    return level;
}

static void end_line(struct worker_process *process)
{
    const char *text = process->line;

    process->line[process->line_len] = '\0';
    process->line_len = 0;
    if (text[0] == '\0')
        return;
    enum log_level level = split_line(&text);
    snprintf(process->last_line, sizeof(process->last_line), "%.255s", text);
    log_text(process->options.log, level, "worker", "%s: %s", process->options.name, text);
}

/* Reads what is available. False: the other end is closed. */
static bool read_output(struct worker_process *process)
{
    char bytes[4096];

    for (;;) {
        ssize_t n = read(process->pipe, bytes, sizeof(bytes));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0;
        for (ssize_t i = 0; i < n; i++) {
            if (bytes[i] != '\n')
                process->line[process->line_len++] = bytes[i] != '\0' ? bytes[i] : ' ';
            if (bytes[i] == '\n' || process->line_len + 1 == sizeof(process->line))
                end_line(process);
        }
    }
}

/* ---- its end ---- */

/* Waits until its output is closed, which is when it ends. */
static void await_end(struct worker_process *process, uint64_t ms)
{
    uint64_t deadline = clock_deadline_ns(clock_real(), ms * NS_PER_MS);
    struct pollfd fd = {.fd = process->pipe, .events = POLLIN};

    while (read_output(process) && clock_mono_ns(clock_real()) < deadline)
        (void)poll(&fd, 1, 10);
}

static bool reap(struct worker_process *process, int *status, int flags)
{
    pid_t pid;

    while ((pid = waitpid(process->pid, status, flags)) < 0 && errno == EINTR)
        ;
    process->reaped = process->reaped || pid == process->pid;
    return pid == process->pid;
}

static void describe_end(struct worker_process *process, char *out, size_t size)
{
    int status = 0;
    uint64_t deadline = clock_deadline_ns(clock_real(), STATUS_MS * NS_PER_MS);

    snprintf(out, size, "ended");
    while (!reap(process, &status, WNOHANG)) {
        if (clock_mono_ns(clock_real()) > deadline)
            return;
        clock_sleep_ns(clock_real(), NS_PER_MS);
    }
    process->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (WIFSIGNALED(status))
        snprintf(out, size, "was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(out, size, "ended with status %d", WEXITSTATUS(status));
}

/* The only way into DEAD. `why` NULL: it died by itself. */
static void declare_dead(struct worker_process *process, const char *why)
{
    char end[128] = "";

    if (process->death[0] != '\0')
        return;
    if (why == NULL)
        await_end(process, STATUS_MS);
    (void)kill(process->pid, SIGKILL); /* not reaped yet: the pid is still valid */
    read_output(process);
    if (why == NULL)
        describe_end(process, end, sizeof(end));
    snprintf(process->death, sizeof(process->death), "the process of model %s %.128s%s%.200s",
             process->options.name, why != NULL ? why : end,
             process->last_line[0] ? "; its last words: " : "", process->last_line);
    LOG_ERROR(process->options.log, "worker", "an engine's process is dead",
              LOG_INT("pid", process->pid), LOG_STR("reason", process->death));
}

bool worker_process_alive(struct worker_process *process)
{
    struct pollfd fd = {.fd = process->socket, .events = POLLRDHUP};

    if (process->death[0] == '\0' && poll(&fd, 1, 0) > 0 &&
        (fd.revents & (POLLRDHUP | POLLHUP | POLLERR)))
        declare_dead(process, NULL);
    return process->death[0] == '\0';
}

const char *worker_process_death(const struct worker_process *process)
{
    return process->death;
}

int worker_process_signal(const struct worker_process *process)
{
    return process->signal;
}

pid_t worker_process_pid(const struct worker_process *process)
{
    return process->pid;
}

/* ---- its beginning ---- */

/* A group of its own: when the parent dies, the group is orphaned, and the kernel sends SIGHUP and
 * SIGCONT to a stopped member. So a worker in SIGSTOP notices the closed socket as well.
 *
 * Move the output first: the socket's target descriptor may be the one of the pipe. */
static int spawn(struct worker_process *process, int socket, int pipe)
{
    const char *program =
        process->options.program != NULL ? process->options.program : sysinfo_program();
    char name[] = "hearth", argument[] = WORKER_ARGUMENT;
    char *argv[] = {name, argument, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;

    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipe, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipe, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, socket, WORKER_SOCKET);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    int error = posix_spawn(&process->pid, program, &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = FILE_NO;
}

static enum err open_ends(struct worker_process *process, struct errinfo *info)
{
    int sockets[2] = {FILE_NO, FILE_NO}, pipes[2] = {FILE_NO, FILE_NO}, error = 0;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0 ||
        pipe2(pipes, O_CLOEXEC) != 0 || fcntl(pipes[0], F_SETFL, O_NONBLOCK) != 0)
        error = errno;
    if (error == 0)
        error = spawn(process, sockets[1], pipes[1]);
    close_fd(&sockets[1]);
    close_fd(&pipes[1]);
    process->socket = sockets[0];
    process->pipe = pipes[0];
    return error == 0 ? ERR_OK
                      : err_set_errno(info, error, "no process for an engine can be started");
}

enum err worker_process_start(struct worker_process **out,
                              const struct worker_process_options *options, struct errinfo *info)
{
    struct worker_process *process = mem_alloc(sizeof(*process));

    *out = NULL;
    process->options = *options;
    snprintf(process->name, sizeof(process->name), "%s", options->name);
    process->options.name = process->name;
    enum err err = open_ends(process, info);
    if (err == ERR_OK) {
        *out = process;
        return ERR_OK;
    }
    close_fd(&process->socket);
    close_fd(&process->pipe);
    mem_free(process);
    return err;
}

void worker_process_stop(struct worker_process **out)
{
    struct worker_process *process = *out;
    int status;

    *out = NULL;
    if (process == NULL)
        return;
    close_fd(&process->socket);
    if (process->death[0] == '\0')
        await_end(process, POLITE_MS);
    if (!process->reaped) {
        (void)kill(process->pid, SIGKILL);
        reap(process, &status, 0);
    }
    close_fd(&process->pipe);
    mem_free(process);
}

/* ---- calls ---- */

static bool send_message(struct worker_process *process, const unsigned char *message, size_t len,
                         int fd)
{
    struct iovec part = {.iov_base = (void *)message, .iov_len = len};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t sent;

    if (fd != FILE_NO) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&header);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
    }
    do
        sent = sendmsg(process->socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)len;
}

enum arrival { ARRIVED_NOTHING, ARRIVED_PROGRESS, ARRIVED_REPLY, ARRIVED_END, ARRIVED_NONSENSE };

static enum arrival receive(struct worker_process *process, uint32_t number,
                            struct worker_reply *reply)
{
    ssize_t len;

    do
        len = recv(process->socket, process->message, sizeof(process->message),
                   MSG_DONTWAIT | MSG_TRUNC);
    while (len < 0 && errno == EINTR);
    if (len < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return ARRIVED_NOTHING;
    if (len <= 0)
        return ARRIVED_END;
    if ((size_t)len > sizeof(process->message) ||
        worker_reply_decode(process->message, (size_t)len, reply) != ERR_OK ||
        reply->number != number)
        return ARRIVED_NONSENSE;
    return reply->kind == WORKER_PROGRESS ? ARRIVED_PROGRESS : ARRIVED_REPLY;
}

static void wait_for_more(struct worker_process *process, uint64_t deadline_ns, uint32_t poll_ms)
{
    struct pollfd fds[] = {{.fd = process->socket, .events = POLLIN},
                           {.fd = process->pipe, .events = POLLIN}};
    uint64_t now = clock_mono_ns(clock_real());
    uint64_t left_ms = deadline_ns > now ? (deadline_ns - now) / NS_PER_MS + 1 : 0;

    if (poll(fds, 2, (int)MIN(left_ms, poll_ms)) > 0 && fds[1].revents != 0)
        read_output(process);
}

/* What arrived, or ARRIVED_NOTHING after a timeout; ARRIVED_PROGRESS only when the call is
 * cancelled. */
static enum arrival await_reply(struct worker_process *process, uint32_t number,
                                const struct worker_wait *wait, struct worker_reply *reply)
{
    uint64_t silence_ns = wait->silence_ms * NS_PER_MS;
    uint64_t deadline_ns = clock_deadline_ns(clock_real(), silence_ns);
    unsigned ticks = atomic_load_explicit(&process->options.control->ticks, memory_order_relaxed);
    float done = 0;

    for (;;) {
        enum arrival arrival = receive(process, number, reply);
        unsigned now = atomic_load_explicit(&process->options.control->ticks, memory_order_relaxed);
        if (arrival != ARRIVED_NOTHING && arrival != ARRIVED_PROGRESS)
            return arrival;
        if (arrival == ARRIVED_PROGRESS)
            done = (float)MIN(reply->value, 1000000) / 1e6f;
        if (wait->on_progress != NULL && !wait->on_progress(done, wait->progress_arg))
            return ARRIVED_PROGRESS;
        if (now != ticks || arrival == ARRIVED_PROGRESS) {
            ticks = now;
            deadline_ns = clock_deadline_ns(clock_real(), silence_ns);
        } else if (clock_mono_ns(clock_real()) >= deadline_ns) {
            return ARRIVED_NOTHING;
        }
        if (arrival == ARRIVED_NOTHING)
            wait_for_more(process, deadline_ns,
                          wait->on_progress != NULL ? CANCEL_MS : wait->silence_ms / 4 + 1);
    }
}

static enum err is_dead(const struct worker_process *process, struct errinfo *info)
{
    return err_set(info, ERR_ENGINE, "%s", process->death);
}

enum err worker_process_call(struct worker_process *process, const unsigned char *message,
                             size_t len, int fd, uint32_t number, const struct worker_wait *wait,
                             struct worker_reply *reply, struct errinfo *info)
{
    char hang[128];

    if (process->death[0] != '\0')
        return is_dead(process, info);
    bool sent = send_message(process, message, len, fd);
    if (sent && wait->on_sent != NULL)
        wait->on_sent(wait->sent_arg);
    switch (sent ? await_reply(process, number, wait, reply) : ARRIVED_END) {
    case ARRIVED_REPLY:
        return ERR_OK;
    case ARRIVED_PROGRESS:
        declare_dead(process, "was ended because its loading was cancelled");
        return err_set(info, ERR_CANCELLED, "loading %s was cancelled", process->options.name);
    case ARRIVED_END:
        declare_dead(process, NULL);
        break;
    case ARRIVED_NONSENSE:
        declare_dead(process, "sent a message that is not valid and was ended");
        break;
    case ARRIVED_NOTHING:
        snprintf(hang, sizeof(hang), "gave no sign of life for %u ms in %s and was ended",
                 wait->silence_ms, wait->what);
        declare_dead(process, hang);
        break;
    }
    return is_dead(process, info);
}

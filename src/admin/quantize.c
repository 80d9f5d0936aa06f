/*
 * quantize.c: a served model in another data type, as a task that outlives its request.
 *
 *      POST   /admin/models/quantize   {"model", "type", "file", "allow_requantize"} -> the task
 *      GET    /admin/models/quantize   the task: state, progress, error
 *      DELETE /admin/models/quantize   cancels it
 *
 * The task runs `hearth model quantize` in a process of its own, because the library needs one with a
 * single thread, and because what it does not like must not end the server. That command checks the
 * disk first, writes to a temporary name, and removes it on every failure and on SIGTERM. The output
 * is beside the input, under a plain name: the admin key gives access to that folder only.
 *
 *      IDLE --POST--> RUNNING --end of the process--> DONE, FAILED, CANCELLED --POST--> RUNNING
 *
 * One task at a time. A thread reads what the command prints and waits for its end.
 */
#include "admin/admin_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sysinfo.h"
#include "engine/quantize.h"
#include "models/pool.h"

extern char **environ;

enum { PATH_BYTES = 4096, TYPE_BYTES = 32, MODEL_BYTES = 256, PRINTED_MAX = 4096 };

/* X(value, name) */
#define QUANTIZE_STATE_TABLE(X)    \
    X(QUANTIZE_IDLE, "idle")       \
    X(QUANTIZE_RUNNING, "running") \
    X(QUANTIZE_DONE, "done")       \
    X(QUANTIZE_FAILED, "failed")   \
    X(QUANTIZE_CANCELLED, "cancelled")

enum quantize_state { QUANTIZE_STATE_TABLE(TABLE_VALUE) };

static const char *const state_names[] = {QUANTIZE_STATE_TABLE(TABLE_NAME)};

struct order {
    char model[MODEL_BYTES], type[TYPE_BYTES], in[PATH_BYTES], out[PATH_BYTES];
    bool requantize;
};

struct admin_quantize {
    const char *program; /* NULL: this one */
    struct log *log;
    struct thread thread; /* of the last task; of the thread that answers slow requests */
    int printed;          /* the reading end of the command's output; the task's thread */

    struct lock lock;
    struct order order GUARDED_BY(lock);
    enum quantize_state state GUARDED_BY(lock);
    bool cancelled GUARDED_BY(lock);
    pid_t pid GUARDED_BY(lock); /* 0: does not run, or was waited for */
    float progress GUARDED_BY(lock);
    char error[PRINTED_MAX] GUARDED_BY(lock);
};

struct admin_quantize *admin_quantize_create(const char *program, struct log *log)
{
    struct admin_quantize *task = mem_alloc(sizeof(*task));

    task->program = program;
    task->log = log;
    lock_init(&task->lock, "quantize", LOCK_RANK_MONITOR);
    return task;
}

static bool cancel(struct admin_quantize *task)
{
    lock_enter(&task->lock);
    bool running = task->state == QUANTIZE_RUNNING;
    task->cancelled |= running;
    if (task->pid > 0)
        kill(task->pid, SIGTERM);
    lock_leave(&task->lock);
    return running;
}

void admin_quantize_destroy(struct admin_quantize **out)
{
    struct admin_quantize *task = *out;

    if (task == NULL)
        return;
    cancel(task);
    thread_join(&task->thread);
    lock_fini(&task->lock);
    mem_free(task);
    *out = NULL;
}

/* ---- the task's thread ---- */

/* "quantizing: 50% (1.2 s)", or "hearth model: why it failed". */
static void read_line(struct admin_quantize *task, struct str line)
{
    static const struct str label = STR("quantizing: "), command = STR("hearth model: ");
    struct str number;
    uint64_t percent;

    lock_enter(&task->lock);
    if (str_starts(line, label)) {
        struct str rest = str_skip(line, label.len);

        if (str_next(&rest, '%', &number) && str_to_u64(str_trim(number), &percent) &&
            percent <= 100)
            task->progress = (float)percent / 100;
    } else if (str_starts(line, command)) {
        snprintf(task->error, sizeof(task->error), "%.*s", (int)(line.len - command.len),
                 line.ptr + command.len);
    }
    lock_leave(&task->lock);
}

static void read_printed(struct admin_quantize *task)
{
    struct buf text;
    char bytes[512];
    size_t end;

    buf_init(&text, PRINTED_MAX);
    for (;;) {
        ssize_t got = read(task->printed, bytes, sizeof(bytes));
        if (got == 0 || (got < 0 && errno != EINTR))
            break;
        if (got > 0 && buf_append(&text, bytes, (size_t)got) != ERR_OK)
            buf_clear(&text); /* longer than any line of the command */
        while ((end = str_find(buf_text(&text), STR("\n"))) != SIZE_MAX) {
            read_line(task, (struct str){text.data, end});
            buf_consume(&text, end + 1);
        }
    }
    buf_fini(&text);
    close(task->printed);
}

static void end(struct admin_quantize *task, int status)
{
    lock_enter(&task->lock);
    bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    task->state = good ? QUANTIZE_DONE : task->cancelled ? QUANTIZE_CANCELLED : QUANTIZE_FAILED;
    if (good)
        task->progress = 1;
    if (good || task->cancelled)
        task->error[0] = '\0';
    else if (task->error[0] == '\0')
        snprintf(task->error, sizeof(task->error), "the command ended without a reason");
    LOG_INFO(task->log, "models", "quantize", LOG_STR("state", state_names[task->state]),
             LOG_STR("model", task->order.model), LOG_STR("type", task->order.type));
    lock_leave(&task->lock);
}

static void follow(void *arg)
{
    struct admin_quantize *task = arg;
    int status = 0;

    read_printed(task);
    lock_enter(&task->lock);
    pid_t pid = task->pid;
    lock_leave(&task->lock);
    /* It has closed its output, so it ends; its number stays its own until it is waited for. */
    siginfo_t ended;
    while (waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT) != 0 && errno == EINTR)
        continue;
    lock_enter(&task->lock);
    task->pid = 0;
    lock_leave(&task->lock);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    end(task, status);
}

/* ---- starting ---- */

static enum err spawn(struct admin_quantize *task, const struct order *order, int fd,
                      struct errinfo *info)
{
    const char *program = task->program != NULL ? task->program : sysinfo_program();
    const char *argv[] = {"hearth",
                          "model",
                          "quantize",
                          order->in,
                          order->out,
                          order->type,
                          order->requantize ? "--allow-requantize" : NULL,
                          NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t pid = 0;

    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, fd, STDERR_FILENO);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    int error =
        posix_spawn(&pid, program, &actions, &attributes, (char **)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        return err_set_errno(info, error, "no process can be started");
    lock_enter(&task->lock);
    task->pid = pid;
    if (task->cancelled) /* before there was a process to tell */
        kill(pid, SIGTERM);
    lock_leave(&task->lock);
    return ERR_OK;
}

static enum err start(struct admin_quantize *task, const struct order *order, struct errinfo *info)
{
    int fds[2];

    thread_join(&task->thread); /* of the last task, which has ended */
    if (pipe2(fds, O_CLOEXEC) != 0)
        return err_set_errno(info, errno, "pipe");
    task->printed = fds[0];
    lock_enter(&task->lock);
    task->order = *order;
    task->state = QUANTIZE_RUNNING;
    task->cancelled = false;
    task->progress = 0;
    task->error[0] = '\0';
    lock_leave(&task->lock);
    enum err err = spawn(task, order, fds[1], info);
    close(fds[1]);
    if (err == ERR_OK) {
        err = thread_start(&task->thread, "quantize", follow, task, info);
        if (err != ERR_OK) { /* without it: cancelled */
            cancel(task);
            follow(task);
        }
        return err;
    }
    close(fds[0]);
    lock_enter(&task->lock);
    task->state = QUANTIZE_FAILED;
    lock_leave(&task->lock);
    return err;
}

/* ---- requests ---- */

static void write_task(struct admin_quantize *task, struct json *json)
{
    lock_enter(&task->lock);
    json_key_text(json, "state", state_names[task->state]);
    if (task->state != QUANTIZE_IDLE) {
        json_key_text(json, "model", task->order.model);
        json_key_text(json, "type", task->order.type);
        json_key_text(json, "file", file_base_name(task->order.out));
        json_key_single(json, "progress", task->progress);
        json_key_text(json, "error", task->error[0] != '\0' ? task->error : NULL);
    }
    lock_leave(&task->lock);
}

static enum err read_type(struct order *order, const struct json_reader *body)
{
    struct str type = STR_NONE;

    TRY(json_read_str(body, "type", &type));
    for (size_t i = 0; quantize_types[i] != NULL; i++) {
        if (!str_eq_nocase(type, str_from(quantize_types[i])))
            continue;
        snprintf(order->type, sizeof(order->type), "%s", quantize_types[i]);
        return ERR_OK;
    }
    return json_read_error(body, "type", "must be a data type, such as \"Q4_K_M\" or \"Q8_0\"");
}

/* The input is the file of a served model. */
static enum err read_model(struct order *order, struct call *call, const struct json_reader *body)
{
    struct pool *pool = api_pool(call->api, body->error);
    struct str name = STR_NONE;
    struct pool_view view;

    if (pool == NULL)
        return ERR_INVALID;
    TRY(json_read_str(body, "model", &name));
    size_t index = pool_find(pool, name, name.len > 0);
    if (index == SIZE_MAX || !pool_view(pool, index, &view))
        return api_error_set(body->error, API_ERROR_MODEL, "model", "There is no such model.");
    snprintf(order->model, sizeof(order->model), "%s", view.name);
    if (snprintf(order->in, sizeof(order->in), "%s", view.path) >= (int)sizeof(order->in))
        return json_read_error(body, "model", "has a path that is too long");
    return ERR_OK;
}

/* "file", or NAME-TYPE.gguf, beside the input. */
static enum err read_file(struct order *order, const struct json_reader *body)
{
    const char *base = file_base_name(order->in);
    struct str name = STR_NONE, stem = str_from(base);
    int len;

    TRY(json_read_str(body, "file", &name));
    if (str_ends(stem, STR(".gguf")))
        stem.len -= sizeof(".gguf") - 1;
    if (name.len > 0 && (!file_is_plain_name(name) || !str_ends(name, STR(".gguf"))))
        return json_read_error(body, "file",
                               "must be a name that ends in .gguf: letters, digits, '.', '_', '-'");
    len = snprintf(order->out, sizeof(order->out), "%.*s", (int)(base - order->in), order->in);
    len += name.len > 0 ? snprintf(order->out + len, sizeof(order->out) - (size_t)len, STR_FMT,
                                   STR_ARG(name))
                        : snprintf(order->out + len, sizeof(order->out) - (size_t)len,
                                   STR_FMT "-%s.gguf", STR_ARG(stem), order->type);
    return len < (int)sizeof(order->out)
               ? ERR_OK
               : json_read_error(body, "file", "has a path that is too long");
}

static enum err read_order(struct order *order, struct call *call, const struct json_reader *body)
{
    TRY(read_type(order, body));
    TRY(read_model(order, call, body));
    TRY(read_file(order, body));
    return json_read_bool(body, "allow_requantize", &order->requantize);
}

static bool is_running(struct admin_quantize *task)
{
    lock_enter(&task->lock);
    bool running = task->state == QUANTIZE_RUNNING;
    lock_leave(&task->lock);
    return running;
}

enum err endpoint_quantize(struct call *call, const struct json_reader *body, struct json *json)
{
    struct admin_quantize *task = admin_of(call->api)->quantize;
    struct errinfo info = {0};

    if (is_running(task))
        return api_error_set(body->error, API_ERROR_BUSY, NULL,
                             "A model is being quantized. Wait for its end, or cancel it.");
    struct order *order = mem_alloc(sizeof(*order));
    enum err err = read_order(order, call, body);
    if (err == ERR_OK) {
        err = start(task, order, &info);
        if (err != ERR_OK)
            api_error_from(body->error, err, &info);
        else
            write_task(task, json);
    }
    mem_free(order);
    return err;
}

enum err endpoint_quantize_state(const struct loop_request *req, struct json *json,
                                 struct api_error *error)
{
    (void)error;
    write_task(admin_of(req->api)->quantize, json);
    return ERR_OK;
}

enum err endpoint_quantize_cancel(const struct loop_request *req, struct json *json,
                                  struct api_error *error)
{
    struct admin_quantize *task = admin_of(req->api)->quantize;

    if (!cancel(task))
        return api_error_set(error, API_ERROR_NOT_FOUND, NULL, "No model is being quantized.");
    write_task(task, json);
    return ERR_OK;
}

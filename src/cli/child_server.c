/*
 * child_server.c: arguments, the wait for the banner, and the log.
 *
 * hearth prints its port in its banner.
 */
#include "cli/child_server.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/process.h"

enum {
    FILE_BYTES_MAX = 256 << 20,
    START_MS = 10 * 60 * 1000, /* a large model on a slow disk */
    PAUSE_MS = 10,
    SHOWN_BYTES = 300,
};

/* Of the environment: whom a server is for, what it serves, and what it leaves elsewhere. */
static const char *const private_env[] = {"HEARTH_MODEL",
                                          "HEARTH_HF_REPO",
                                          "HEARTH_MODELS_DIR",
                                          "HEARTH_ALIAS",
                                          "HEARTH_PIN_MODEL",
                                          "HEARTH_API_KEY",
                                          "HEARTH_API_KEY_FILE",
                                          "HEARTH_TLS_CERT",
                                          "HEARTH_TLS_KEY",
                                          "HEARTH_SHARED",
                                          "HEARTH_RECORD",
                                          "HEARTH_MEDIA_PATH",
                                          NULL};

void server_args_add(struct server_args *args, const char *item)
{
    mem_reserve_one(&args->items, args->count, &args->cap, sizeof(*args->items));
    args->items[args->count++] = item;
}

void server_args_pair(struct server_args *args, const char *name, const char *value)
{
    server_args_add(args, name);
    server_args_add(args, value);
}

void server_args_number(struct server_args *args, size_t slot, const char *name, uint32_t value)
{
    snprintf(args->numbers[slot], sizeof(args->numbers[slot]), "%u", value);
    server_args_pair(args, name, args->numbers[slot]);
}

void server_args_common(struct server_args *args, const struct server_setup *setup)
{
    server_args_number(args, 0, "-t", setup->threads);
    server_args_number(args, 1, "-c", setup->context);
    server_args_number(args, 2, "-np", setup->parallel);
    for (size_t i = 0; setup->more != NULL && setup->more[i] != NULL; i++)
        server_args_add(args, setup->more[i]);
}

static void file_path(const struct server *server, const char *ending, char out[SERVER_PATH_BYTES])
{
    snprintf(out, SERVER_PATH_BYTES, "%s/%s.%s", server->setup.scratch, server->setup.name, ending);
}

static enum err read_file(const struct server *server, const char *ending, struct buf *out,
                          struct errinfo *info)
{
    char path[SERVER_PATH_BYTES], *data;
    size_t len;

    file_path(server, ending, path);
    TRY(file_read_all(file_sys_real(), AT_FDCWD, path, FILE_BYTES_MAX, &data, &len, info));
    enum err err = buf_append(out, data, len);
    mem_free(data);
    return err;
}

enum err server_read_log(const struct server *server, struct buf *out, struct errinfo *info)
{
    return read_file(server, "log", out, info);
}

/* It exited before it was up: the end of its log says why. */
static enum err explain(const struct server *server, struct errinfo *info)
{
    struct buf log;

    buf_init(&log, FILE_BYTES_MAX);
    enum err err = server_read_log(server, &log, info);
    size_t from = log.len > SHOWN_BYTES ? log.len - SHOWN_BYTES : 0;
    if (err == ERR_OK)
        err = err_set(info, ERR_ENGINE, "%s ended at its start: ...%s", server->setup.name,
                      buf_str(&log) + from);
    buf_fini(&log);
    return err;
}

/* Frees the arguments. */
enum err server_spawn(struct server *server, struct server_args *args, const char *const *env,
                      struct errinfo *info)
{
    char out[SERVER_PATH_BYTES], log[SERVER_PATH_BYTES];

    file_path(server, "out", out);
    file_path(server, "log", log);
    server_args_add(args, NULL); /* their end */
    const struct process_options options = {
        .argv = args->items, .env = env, .out = out, .err = log};
    enum err err = process_start(&server->process, &options, info);
    mem_free(args->items);
    return err;
}

/* The port in the banner, once the banner is complete. */
static bool read_banner(struct server *server)
{
    static const char before[] = "Anthropic http://127.0.0.1:";
    struct buf text;
    bool up = false;

    buf_init(&text, FILE_BYTES_MAX);
    if (read_file(server, "out", &text, NULL) == ERR_OK) {
        const char *at = strstr(buf_str(&text), before);
        up = at != NULL && strstr(at, "Ctrl-C") != NULL;
        if (up)
            snprintf(server->url.port, sizeof(server->url.port), "%lu",
                     strtoul(at + sizeof(before) - 1, NULL, 10));
    }
    buf_fini(&text);
    return up;
}

enum err server_await(struct server *server, bool (*is_up)(struct server *server),
                      struct errinfo *info)
{
    uint64_t deadline_ns = clock_deadline_ns(clock_real(), START_MS * NS_PER_MS);

    while (!is_up(server)) {
        if (!process_runs(server->process)) {
            process_kill(&server->process);
            return explain(server, info);
        }
        if (clock_mono_ns(clock_real()) >= deadline_ns) {
            process_kill(&server->process);
            return err_set(info, ERR_TIMEOUT, "%s does not come up", server->setup.name);
        }
        clock_sleep_ns(clock_real(), PAUSE_MS * NS_PER_MS);
    }
    return ERR_OK;
}

enum err server_start_hearth(struct server *server, const struct server_setup *setup,
                             struct errinfo *info)
{
    char program[SERVER_PATH_BYTES], config[SERVER_PATH_BYTES];
    struct server_args args = {.count = 0};
    int fd = FILE_NO;

    *server = (struct server){.setup = *setup};
    TRY(client_parse_url("http://127.0.0.1:1", &server->url, info));
    const char *name = setup->faults ? "hearth-lab" : "hearth";
    if (!process_hearth_path(name, program, sizeof(program)))
        return err_set(info, ERR_NOT_FOUND, "%s is not beside this program", name);
    file_path(server, "ini", config);
    TRY(file_open_at(file_sys_real(), AT_FDCWD, config, O_WRONLY | O_CREAT, 0600, &fd, info));
    file_close(file_sys_real(), &fd);
    server_args_add(&args, program);
    server_args_add(&args, "serve");
    server_args_add(&args, setup->model);
    server_args_pair(&args, "--config", config);
    server_args_pair(&args, "--host", "127.0.0.1");
    server_args_pair(&args, "--port", "0");
    if (setup->chunk > 0)
        server_args_number(&args, 3, "-ub", setup->chunk);
    server_args_common(&args, setup);
    TRY(server_spawn(server, &args, private_env, info));
    return server_await(server, read_banner, info);
}

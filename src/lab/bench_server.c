/*
 * bench_server.c: arguments, the wait for the first answer, and the log.
 *
 * hearth prints its port in its banner. llama-server takes a port and fails when it is in use: it
 * gets one that was free a moment ago, and is started again if another program took it.
 */
#include "lab/bench_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "lab/bench_process.h"

enum {
    FILE_BYTES_MAX = 256 << 20,
    START_MS = 10 * 60 * 1000, /* a large model on a slow disk */
    STOP_MS = 2 * 60 * 1000,   /* it writes unsaved state to disk */
    PAUSE_MS = 10,
    ASK_MS = 60 * 1000,
    IDLE_MS = 60 * 1000,
    SHOWN_BYTES = 300,
    STARTS_MAX = 3,
};

/* Of the environment: whom a server is for, what it serves, and what it leaves elsewhere. */
static const char *const private_env[] = {"HEARTH_MODEL",        "HEARTH_HF_REPO",
                                          "HEARTH_MODELS_DIR",   "HEARTH_ALIAS",
                                          "HEARTH_PIN_MODEL",    "HEARTH_API_KEY",
                                          "HEARTH_API_KEY_FILE", "HEARTH_TLS_CERT",
                                          "HEARTH_TLS_KEY",      "HEARTH_SHARED",
                                          "HEARTH_RECORD",       "HEARTH_SLOT_SAVE_PATH",
                                          "HEARTH_MEDIA_PATH",   NULL};

struct args {
    const char **items;
    size_t count, cap;
    char numbers[5][16];
};

static void add(struct args *args, const char *item)
{
    mem_reserve_one(&args->items, args->count, &args->cap, sizeof(*args->items));
    args->items[args->count++] = item;
}

static void add_pair(struct args *args, const char *name, const char *value)
{
    add(args, name);
    add(args, value);
}

static void add_number(struct args *args, size_t slot, const char *name, uint32_t value)
{
    snprintf(args->numbers[slot], sizeof(args->numbers[slot]), "%u", value);
    add_pair(args, name, args->numbers[slot]);
}

static void add_common(struct args *args, const struct server_setup *setup)
{
    add_number(args, 0, "-t", setup->threads);
    add_number(args, 1, "-c", setup->context);
    add_number(args, 2, "-np", setup->parallel);
    for (size_t i = 0; setup->more != NULL && setup->more[i] != NULL; i++)
        add(args, setup->more[i]);
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
static enum err spawn(struct server *server, struct args *args, const char *const *env,
                      struct errinfo *info)
{
    char out[SERVER_PATH_BYTES], log[SERVER_PATH_BYTES];

    file_path(server, "out", out);
    file_path(server, "log", log);
    add(args, NULL); /* their end */
    const struct process_options options = {
        .argv = args->items, .env = env, .out = out, .err = log};
    enum err err = process_start(&server->process, &options, info);
    mem_free(args->items);
    return err;
}

/* ---- hearth ---- */

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

/* The caller finishes `body` in any case. Returns the status; 0: no answer. */
static int get(const struct server *server, const char *path, struct buf *body)
{
    const struct client_request request = {.url = &server->url,
                                           .method = "GET",
                                           .path = path,
                                           .key = server->setup.key,
                                           .timeout_ms = ASK_MS};
    int status = 0;

    buf_init(body, FILE_BYTES_MAX);
    return client_fetch(&request, &status, body, NULL) == ERR_OK ? status : 0;
}

static bool answers(struct server *server)
{
    struct buf body;
    int status = get(server, "/health", &body);

    buf_fini(&body);
    return status == 200;
}

static enum err await(struct server *server, bool (*is_up)(struct server *server),
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
    struct args args = {.count = 0};
    int fd = FILE_NO;

    *server = (struct server){.setup = *setup};
    TRY(client_parse_url("http://127.0.0.1:1", &server->url, info));
    if (!process_own_path(program, sizeof(program)))
        return err_set(info, ERR_NOT_FOUND, "hearth cannot find itself");
    file_path(server, "ini", config);
    TRY(file_open_at(file_sys_real(), AT_FDCWD, config, O_WRONLY | O_CREAT, 0600, &fd, info));
    file_close(file_sys_real(), &fd);
    add(&args, program);
    add(&args, "serve");
    add(&args, setup->model);
    add_pair(&args, "--config", config);
    add_pair(&args, "--host", "127.0.0.1");
    add_pair(&args, "--port", "0");
    if (setup->chunk > 0)
        add_number(&args, 3, "-ub", setup->chunk);
    add_common(&args, setup);
    TRY(spawn(server, &args, private_env, info));
    return await(server, read_banner, info);
}

/* ---- llama-server ---- */

static bool is_there(const char *path)
{
    return access(path, X_OK) == 0;
}

/* .../sysroot/usr/lib/ARCH/ggml/backends0: the program is in .../sysroot/usr/bin. */
static bool find_in_sysroot(struct server *server, const char *backends_dir)
{
    char libdir[SERVER_PATH_BYTES / 4], root[SERVER_PATH_BYTES / 4];

    snprintf(libdir, sizeof(libdir), "%s", backends_dir);
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(libdir, '/');
        if (slash == NULL)
            return false;
        *slash = '\0';
    }
    char *usr = strstr(libdir, "/usr/lib/");
    if (usr == NULL)
        return false;
    snprintf(root, sizeof(root), "%.*s", (int)(usr - libdir), libdir);
    if (root[0] == '\0') /* the system's own: /usr/bin, no loader */
        return false;
    snprintf(server->llama, sizeof(server->llama), "%s/usr/bin/llama-server", root);
    snprintf(server->loader, sizeof(server->loader), "%s/usr/lib64/ld-linux-x86-64.so.2", root);
    snprintf(server->libraries, sizeof(server->libraries), "%s:%s/llama", libdir, libdir);
    return is_there(server->llama) && is_there(server->loader);
}

bool server_find_llama(struct server *server, const char *path, const char *backends_dir)
{
    *server = (struct server){.setup = {0}};
    if (path == NULL && backends_dir != NULL && find_in_sysroot(server, backends_dir))
        return true;
    *server = (struct server){.setup = {0}};
    snprintf(server->llama, sizeof(server->llama), "%s",
             path != NULL ? path : "/usr/bin/llama-server");
    return is_there(server->llama);
}

/* A port that is free now. */
static enum err choose_port(struct server *server, struct errinfo *info)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        if (fd >= 0)
            close(fd);
        return err_set(info, ERR_IO, "there is no free port");
    }
    close(fd);
    TRY(client_parse_url("http://127.0.0.1:1", &server->url, info));
    snprintf(server->url.port, sizeof(server->url.port), "%u", ntohs(address.sin_port));
    return ERR_OK;
}

static enum err start_llama_once(struct server *server, struct errinfo *info)
{
    const struct server_setup *setup = &server->setup;
    struct args args = {.count = 0};
    uint32_t chunk = setup->chunk > 0 ? setup->chunk : 512;
    char backend[SERVER_PATH_BYTES + 32];
    const char *const env[] = {server->backend[0] != '\0' ? backend : NULL, NULL};

    snprintf(backend, sizeof(backend), "GGML_BACKEND_PATH=%s", server->backend);
    TRY(choose_port(server, info));
    if (server->loader[0] != '\0') {
        add(&args, server->loader);
        add_pair(&args, "--library-path", server->libraries);
    }
    add(&args, server->llama);
    add_pair(&args, "-m", setup->model);
    add_pair(&args, "--port", server->url.port);
    add_number(&args, 3, "-ub", chunk);
    add_number(&args, 4, "-b", chunk);
    add(&args, "--no-webui");
    add_common(&args, setup);
    TRY(spawn(server, &args, env, info));
    return await(server, answers, info);
}

static enum err start_llama(struct server *server, struct errinfo *info)
{
    enum err err = ERR_IO;

    for (int i = 0; i < STARTS_MAX && err != ERR_OK; i++)
        err = start_llama_once(server, info);
    return err;
}

enum err server_start_llama(struct server *server, const struct server_setup *setup,
                            const struct server *hearth, struct errinfo *info)
{
    server->setup = *setup;
    if (server->loader[0] != '\0' && !process_find_file(hearth->process, "/libggml-cpu",
                                                        server->backend, sizeof(server->backend)))
        return err_set(info, ERR_NOT_FOUND, "hearth has loaded no backend of ggml");
    return start_llama(server, info);
}

/* ---- both ---- */

enum err server_stop(struct server *server, struct errinfo *info)
{
    if (server->process == NULL)
        return ERR_OK;
    enum err err = process_stop(&server->process, STOP_MS, info);
    /* llama-server dies of the signal, which is normal for it. */
    return server->llama[0] != '\0' ? ERR_OK : err;
}

void server_kill(struct server *server)
{
    process_kill(&server->process);
}

enum err server_restart(struct server *server, const char *model, struct errinfo *info)
{
    struct server_setup setup = server->setup;

    TRY(server_stop(server, info));
    if (model != NULL)
        setup.model = model;
    if (server->llama[0] == '\0')
        return server_start_hearth(server, &setup, info);
    server->setup = setup;
    return start_llama(server, info);
}

double server_metric(const struct server *server, const char *name)
{
    struct buf body;
    bool answered = get(server, "/metrics", &body) != 0;
    struct str rest = {buf_str(&body), answered ? body.len : 0}, line;
    double value = -1;

    while (str_next(&rest, '\n', &line)) {
        struct str begin = str_from(name);
        if (str_starts(line, begin) && line.len > begin.len + 1 && line.ptr[begin.len] == ' ' &&
            !str_to_f64(str_skip(line, begin.len + 1), &value))
            value = -1;
    }
    buf_fini(&body);
    return value;
}

/* An answer counts as unsaved before its client receives it, so one check is enough. */
void server_wait_idle(const struct server *server)
{
    uint64_t deadline_ns = clock_deadline_ns(clock_real(), IDLE_MS * NS_PER_MS);

    while ((server_metric(server, "hearth_sched_active") > 0 ||
            server_metric(server, "hearth_sched_unsaved") > 0) &&
           clock_mono_ns(clock_real()) < deadline_ns)
        clock_sleep_ns(clock_real(), PAUSE_MS * NS_PER_MS);
}

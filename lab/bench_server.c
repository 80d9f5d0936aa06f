/*
 * bench_server.c: llama-server beside hearth.
 *
 * llama-server takes a port and fails when it is in use: it
 * gets one that was free a moment ago, and is started again if another program took it.
 */
#include "lab/bench_server.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "cli/process.h"

enum {
    FILE_BYTES_MAX = 256 << 20,
    STOP_MS = 2 * 60 * 1000, /* it writes unsaved state to disk */
    PAUSE_MS = 10,
    ASK_MS = 60 * 1000,
    IDLE_MS = 60 * 1000,
    STARTS_MAX = 3,
};

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
    struct server_args args = {.count = 0};
    uint32_t chunk = setup->chunk > 0 ? setup->chunk : 512;
    char backend[SERVER_PATH_BYTES + 32];
    const char *const env[] = {server->backend[0] != '\0' ? backend : NULL, NULL};

    snprintf(backend, sizeof(backend), "GGML_BACKEND_PATH=%s", server->backend);
    TRY(choose_port(server, info));
    if (server->loader[0] != '\0') {
        server_args_add(&args, server->loader);
        server_args_pair(&args, "--library-path", server->libraries);
    }
    server_args_add(&args, server->llama);
    server_args_pair(&args, "-m", setup->model);
    server_args_pair(&args, "--port", server->url.port);
    server_args_number(&args, 3, "-ub", chunk);
    server_args_number(&args, 4, "-b", chunk);
    server_args_add(&args, "--no-webui");
    server_args_common(&args, setup);
    TRY(server_spawn(server, &args, env, info));
    return server_await(server, answers, info);
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

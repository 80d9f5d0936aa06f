/*
 * rpc.c: the plug-in's functions, found by name. Before the plug-in uses a server, we ask for a sign
 * of life: without a connection the plug-in ends the process, and it waits for ever for one that
 * accepts (the kernel does that for a stopped process) and never answers.
 */
#include "engine/rpc.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ggml-backend.h>
#include <ggml-rpc.h>

#include "base/attr.h"
#include "base/le.h"
#include "base/str.h"
#include "base/sysinfo.h"
#include "engine/backend.h"

enum { SERVER_BYTES = 256, DEVICES_MAX = 16, CONNECT_MS = 3000, ANSWER_MS = 3000 };

/* The first message of a client: the command HELLO, the bytes that follow (little-endian), and as
 * many zeros: no transport but TCP. A server with another version of the protocol closes the
 * connection, which is a sign of life as well: the plug-in then names the versions. */
static const unsigned char hello[1 + 8 + 24] = {14, 24};

static const char missing[] =
    "there is no libggml-rpc.so in %s; install Debian's libggml0-backend-rpc, or build with "
    "`make RPC=1`";

bool rpc_is_here(void)
{
    return ggml_backend_reg_by_name("RPC") != NULL;
}

static void *find_function(const char *name, struct errinfo *info)
{
    ggml_backend_reg_t reg = ggml_backend_reg_by_name("RPC");
    void *function = reg != NULL ? ggml_backend_reg_get_proc_address(reg, name) : NULL;

    if (function == NULL)
        (void)err_set(info, ERR_NOT_FOUND, missing, backend_dir());
    return function;
}

static bool wait_for(int fd, short events, int ms)
{
    struct pollfd ready = {.fd = fd, .events = events};

    return poll(&ready, 1, ms) == 1;
}

/* Reads the whole answer, a length and as many bytes: a server that still writes when we close may
 * die of it. */
static bool hears(int fd)
{
    unsigned char bytes[256];
    size_t len = 0, wanted = 8;

    while (len < wanted) {
        if (!wait_for(fd, POLLIN, ANSWER_MS))
            return false;
        ssize_t got = recv(fd, bytes + len, wanted - len, 0);
        if (got <= 0)
            return true; /* it closed the connection */
        len += (size_t)got;
        if (len == 8)
            wanted += MIN(le_get_u64(bytes), sizeof(bytes) - 8);
    }
    return true;
}

static bool answers(const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error = -1;
    socklen_t len = sizeof(error);

    if (fd < 0)
        return false;
    /* A failure at once (no route) is told only here; that of an attempt by poll. */
    bool begun = connect(fd, address->ai_addr, address->ai_addrlen) == 0 || errno == EINPROGRESS;
    bool up = begun && wait_for(fd, POLLOUT, CONNECT_MS) &&
              getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0 &&
              send(fd, hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello) && hears(fd);
    close(fd);
    return up;
}

static enum err check_server(const char *server, struct errinfo *info)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char host[SERVER_BYTES];
    const char *colon = strrchr(server, ':');
    bool up = false;

    if (colon == NULL || colon == server || colon[1] == '\0')
        return err_set(info, ERR_INVALID, "--rpc %s: expected HOST:PORT[,HOST:PORT...]", server);
    snprintf(host, sizeof(host), "%.*s", (int)(colon - server), server);
    if (getaddrinfo(host, colon + 1, &hints, &found) == 0) {
        for (const struct addrinfo *each = found; each != NULL && !up; each = each->ai_next)
            up = answers(each);
        freeaddrinfo(found);
    }
    return up ? ERR_OK
              : err_set(
                    info, ERR_IO,
                    "the worker at %s does not answer: is it running, and not in use by another "
                    "server?",
                    server);
}

enum err rpc_add_servers(const char *servers, struct errinfo *info)
{
    ggml_backend_reg_t (*add)(const char *endpoint) = NULL;
    struct str rest = str_from(servers), each;

    *(void **)&add = find_function("ggml_backend_rpc_add_server", info);
    if (add == NULL)
        return ERR_NOT_FOUND;
    while (str_next(&rest, ',', &each)) {
        char server[SERVER_BYTES];
        if (each.len >= sizeof(server))
            return err_set(info, ERR_INVALID, "--rpc: the name of a worker is too long");
        snprintf(server, sizeof(server), STR_FMT, STR_ARG(each));
        TRY(check_server(server, info));
        ggml_backend_reg_t reg = add(server);
        if (reg == NULL)
            return err_set(info, ERR_IO, "the worker at %s offers no devices", server);
        ggml_backend_register(reg);
    }
    return ERR_OK;
}

/* GPUs; without one, the processor. */
static size_t list_devices(ggml_backend_dev_t *devices)
{
    size_t count = 0;

    for (size_t i = 0; i < ggml_backend_dev_count() && count < DEVICES_MAX; i++)
        if (backend_is_gpu(ggml_backend_dev_get(i)))
            devices[count++] = ggml_backend_dev_get(i);
    if (count == 0) {
        devices[0] = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
        count = devices[0] != NULL;
    }
    return count;
}

enum err rpc_serve(const char *listen, const char *backends, unsigned threads, struct errinfo *info)
{
    void (*serve)(const char *endpoint, const char *cache_dir, size_t threads_count,
                  size_t devices_count, ggml_backend_dev_t *devices) = NULL;
    ggml_backend_dev_t devices[DEVICES_MAX];

    backend_init(backends);
    *(void **)&serve = find_function("ggml_backend_rpc_start_server", info);
    if (serve == NULL)
        return ERR_NOT_FOUND;
    backend_show_log();
    size_t count = list_devices(devices);
    if (count == 0)
        return err_set(info, ERR_NOT_FOUND, "there is no device to offer");
    /* No folder for a cache: it would keep state of prompts there, found by a hash that can be
     * forged. */
    serve(listen, NULL, threads > 0 ? threads : sysinfo_cores(), count, devices);
    return err_set(info, ERR_IO, "cannot listen on %s", listen);
}

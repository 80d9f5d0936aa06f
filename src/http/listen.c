/*
 * listen.c: binding. Names are not resolved: a resolver's answer may not be the address that the
 * operator meant to listen on.
 *
 * A local socket is a file that survives when its server is killed. Such a file is removed only if
 * it is a socket and no server answers there. Its mode is set between bind and listen, when no
 * client can connect yet.
 */
#include "http/listen.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/str.h"

enum { BACKLOG = 511 };

static enum err fail(struct errinfo *info, int uv_error, const char *what)
{
    if (uv_error == UV_EADDRINUSE)
        return err_set(info, ERR_BUSY, "%s is in use already: another server runs there", what);
    return err_set_errno(info, -uv_error, "cannot listen on %s", what);
}

static bool parse_address(const char *host, uint16_t port, struct sockaddr_storage *address)
{
    char bare[64];
    struct str text = str_from(host);

    if (str_eq_nocase(text, STR("localhost")))
        text = STR("127.0.0.1");
    if (text.len >= 2 && text.ptr[0] == '[' && text.ptr[text.len - 1] == ']')
        text = (struct str){text.ptr + 1, text.len - 2};
    if (text.len >= sizeof(bare))
        return false;
    memcpy(bare, text.ptr, text.len);
    bare[text.len] = '\0';
    return uv_ip4_addr(bare, port, (struct sockaddr_in *)address) == 0 ||
           uv_ip6_addr(bare, port, (struct sockaddr_in6 *)address) == 0;
}

static uint16_t port_of(const uv_tcp_t *handle)
{
    struct sockaddr_storage address;
    int len = sizeof(address);

    if (uv_tcp_getsockname(handle, (struct sockaddr *)&address, &len) != 0)
        return 0;
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

enum err http_listen_tcp(uv_tcp_t *handle, const char *host, uint16_t port, uv_connection_cb fn,
                         uint16_t *bound, struct errinfo *info)
{
    struct sockaddr_storage address = {0};
    char what[128];

    if (!parse_address(host, port, &address))
        return err_set(
            info, ERR_INVALID,
            "'%s' is not an address to listen on; use 127.0.0.1, 0.0.0.0 or ::1, for example",
            host);
    snprintf(what, sizeof(what), "%s port %u", host, port);
    int rc = uv_tcp_bind(handle, (const struct sockaddr *)&address, 0);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)handle, BACKLOG, fn);
    if (rc != 0)
        return fail(info, rc, what);
    *bound = port_of(handle);
    return ERR_OK;
}

/* True when a connection to the socket is refused: its server is gone. */
static bool is_stale(const struct sockaddr_un *address)
{
    struct stat st;

    if (lstat(address->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    bool stale = connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 &&
                 errno == ECONNREFUSED;
    close(fd);
    return stale;
}

enum err http_listen_unix(uv_pipe_t *handle, const char *path, uv_connection_cb fn,
                          struct errinfo *info)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);

    if (len == 0 || len >= sizeof(address.sun_path))
        return err_set(info, ERR_INVALID, "the path of a local socket has 1 to %zu bytes: '%s'",
                       sizeof(address.sun_path) - 1, path);
    memcpy(address.sun_path, path, len);
    if (is_stale(&address))
        unlink(path);
    int rc = uv_pipe_bind(handle, path);
    if (rc == 0 && chmod(path, 0600) != 0)
        rc = -errno;
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)handle, BACKLOG, fn);
    return rc == 0 ? ERR_OK : fail(info, rc, path);
}

/*
 * kv_socket.c: sockets, and libssl by dlopen.
 *
 * The few functions of libssl that are used have had the same signatures since 1.1. Its headers are
 * not needed: every struct of it is opaque.
 */
#include "tier/kv_socket.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

/* ---- TLS ---- */

/* X(result, name, arguments) */
#define TLS_TABLE(X)                                                            \
    X(void *, TLS_client_method, (void))                                        \
    X(void *, SSL_CTX_new, (void *))                                            \
    X(void, SSL_CTX_free, (void *))                                             \
    X(int, SSL_CTX_set_default_verify_paths, (void *))                          \
    X(int, SSL_CTX_load_verify_locations, (void *, const char *, const char *)) \
    X(void, SSL_CTX_set_verify, (void *, int, void *))                          \
    X(void *, SSL_new, (void *))                                                \
    X(void, SSL_free, (void *))                                                 \
    X(int, SSL_set_fd, (void *, int))                                           \
    X(long, SSL_ctrl, (void *, int, long, void *))                              \
    X(int, SSL_set1_host, (void *, const char *))                               \
    X(int, SSL_connect, (void *))                                               \
    X(int, SSL_read, (void *, void *, int))                                     \
    X(int, SSL_write, (void *, const void *, int))                              \
    X(int, SSL_pending, (const void *))                                         \
    X(int, SSL_get_error, (const void *, int))                                  \
    X(long, SSL_get_verify_result, (const void *))

enum {
    TLS_VERIFY_PEER = 1,
    TLS_SET_HOST_NAME = 55,
    TLS_SET_MODE = 33,
    TLS_MODE_PARTIAL_WRITE = 3, /* partial writes, and retries from another address */
    TLS_WANT_READ = 2,
    TLS_WANT_WRITE = 3,
    TLS_BYTES_MAX = 1 << 20,
};

struct kv_tls {
    void *library, *context;
#define X(result, name, arguments) result(*name) arguments;
    TLS_TABLE(X)
#undef X
};

static enum err load(struct kv_tls *tls, struct errinfo *info)
{
    static const char *const names[] = {"libssl.so.3", "libssl.so.1.1"};

    for (size_t i = 0; i < COUNT_OF(names) && tls->library == NULL; i++)
        tls->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (tls->library == NULL)
        return err_set(info, ERR_UNSUPPORTED, "TLS needs libssl, which is not installed here");
#define X(result, name, arguments)                       \
    *(void **)(&tls->name) = dlsym(tls->library, #name); \
    if (tls->name == NULL)                               \
        return err_set(info, ERR_UNSUPPORTED, "libssl has no " #name);
    TLS_TABLE(X)
#undef X
    return ERR_OK;
}

enum err kv_tls_open(struct kv_tls **out, const char *ca_file, struct errinfo *info)
{
    struct kv_tls *tls = mem_alloc(sizeof(*tls));
    enum err err = load(tls, info);

    *out = NULL;
    if (err == ERR_OK) {
        tls->context = tls->SSL_CTX_new(tls->TLS_client_method());
        if (tls->context == NULL)
            err = err_set(info, ERR_NOMEM, "libssl cannot make a context");
    }
    if (err == ERR_OK) {
        int good = ca_file != NULL ? tls->SSL_CTX_load_verify_locations(tls->context, ca_file, NULL)
                                   : tls->SSL_CTX_set_default_verify_paths(tls->context);
        tls->SSL_CTX_set_verify(tls->context, TLS_VERIFY_PEER, NULL);
        if (good != 1)
            err = err_set(info, ERR_INVALID, "cannot read certificates from %s",
                          ca_file != NULL ? ca_file : "the system's folders");
    }
    *out = tls;
    if (err != ERR_OK)
        kv_tls_close(out);
    return err;
}

void kv_tls_close(struct kv_tls **tls)
{
    if (*tls == NULL)
        return;
    if ((*tls)->context != NULL)
        (*tls)->SSL_CTX_free((*tls)->context);
    if ((*tls)->library != NULL)
        dlclose((*tls)->library);
    mem_free(*tls);
    *tls = NULL;
}

/* What a result of libssl means for the caller: bytes, 0 (would block) or -1. */
static ssize_t tls_result(struct kv_socket *sock, int result)
{
    if (result > 0)
        return result;
    int why = sock->tls->SSL_get_error(sock->ssl, result);
    sock->wants = why == TLS_WANT_READ ? POLLIN : why == TLS_WANT_WRITE ? POLLOUT : 0;
    return sock->wants != 0 ? 0 : -1;
}

static enum err tls_begin(struct kv_socket *sock, const char *host, struct errinfo *info)
{
    struct kv_tls *tls = sock->tls;

    sock->ssl = tls->SSL_new(tls->context);
    if (sock->ssl == NULL)
        return err_set(info, ERR_NOMEM, "libssl has no memory");
    (void)tls->SSL_ctrl(sock->ssl, TLS_SET_MODE, TLS_MODE_PARTIAL_WRITE, NULL);
    (void)tls->SSL_ctrl(sock->ssl, TLS_SET_HOST_NAME, 0, (void *)(uintptr_t)host);
    if (tls->SSL_set1_host(sock->ssl, host) != 1 || tls->SSL_set_fd(sock->ssl, sock->fd) != 1)
        return err_set(info, ERR_NOMEM, "libssl refuses the host name %s", host);
    return ERR_OK;
}

/* ---- connecting ---- */

static enum err start(struct kv_socket *sock, const struct addrinfo *address)
{
    int one = 1;

    sock->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (sock->fd < 0)
        return err_from_errno(errno);
    (void)setsockopt(sock->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(sock->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    if (connect(sock->fd, address->ai_addr, address->ai_addrlen) == 0 || errno == EINPROGRESS)
        return ERR_OK;
    enum err err = err_from_errno(errno);
    close(sock->fd);
    sock->fd = -1;
    return err;
}

enum err kv_socket_connect(struct kv_socket *sock, struct kv_tls *tls, const char *host,
                           const char *port, struct errinfo *info)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG}, *found = NULL;
    enum err err = ERR_IO;

    *sock = (struct kv_socket){.fd = -1, .tls = tls};
    int status = getaddrinfo(host, port, &hints, &found);
    if (status != 0)
        return err_set(info, ERR_IO, "%s: %s", host, gai_strerror(status));
    for (const struct addrinfo *each = found; each != NULL && err != ERR_OK; each = each->ai_next)
        err = start(sock, each);
    freeaddrinfo(found);
    if (err == ERR_OK && tls != NULL)
        err = tls_begin(sock, host, info);
    if (err != ERR_OK) {
        kv_socket_close(sock);
        return err_set(info, err, "cannot connect to %s:%s", host, port);
    }
    sock->wants = POLLOUT;
    return ERR_OK;
}

enum err kv_socket_finish(struct kv_socket *sock, struct errinfo *info)
{
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(sock->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != 0)
        return err_set_errno(info, error, "connect");
    sock->wants = 0;
    if (sock->ssl != NULL) {
        ssize_t result = tls_result(sock, sock->tls->SSL_connect(sock->ssl));
        if (result < 0)
            return err_set(info, ERR_IO, "TLS handshake failed (certificate check: %ld)",
                           sock->tls->SSL_get_verify_result(sock->ssl));
        if (result == 0)
            return ERR_BUSY;
    }
    sock->wants = 0;
    sock->connected = true;
    return ERR_OK;
}

void kv_socket_close(struct kv_socket *sock)
{
    if (sock->ssl != NULL)
        sock->tls->SSL_free(sock->ssl);
    if (sock->fd >= 0)
        close(sock->fd);
    *sock = (struct kv_socket){.fd = -1};
}

/* ---- bytes ---- */

static bool would_block(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

ssize_t kv_socket_send(struct kv_socket *sock, const struct iovec *iov, int count)
{
    sock->wants = 0;
    if (sock->ssl != NULL) { /* the first piece; the caller comes back for the others */
        size_t len = MIN(iov[0].iov_len, (size_t)TLS_BYTES_MAX);
        return tls_result(sock, sock->tls->SSL_write(sock->ssl, iov[0].iov_base, (int)len));
    }
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                             .msg_iovlen = (size_t)count};
    ssize_t sent = sendmsg(sock->fd, &message, MSG_NOSIGNAL);
    return sent >= 0 ? sent : would_block() ? 0 : -1;
}

ssize_t kv_socket_receive(struct kv_socket *sock, void *to, size_t len)
{
    sock->wants = 0;
    if (sock->ssl != NULL) {
        len = MIN(len, (size_t)TLS_BYTES_MAX);
        return tls_result(sock, sock->tls->SSL_read(sock->ssl, to, (int)len));
    }
    ssize_t got = recv(sock->fd, to, len, 0);
    return got > 0 ? got : got < 0 && would_block() ? 0 : -1;
}

bool kv_socket_is_stale(const struct kv_socket *sock)
{
    struct pollfd poll_fd = {.fd = sock->fd, .events = POLLIN};

    return poll(&poll_fd, 1, 0) != 0;
}

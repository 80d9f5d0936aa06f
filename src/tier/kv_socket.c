/* kv_socket.c: sockets of plain bytes, or with a TLS session on top. */
#include "tier/kv_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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

enum err kv_socket_connect(struct kv_socket *sock, const struct tls *tls, const char *host,
                           const char *port, struct errinfo *info)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG}, *found = NULL;
    enum err err = ERR_IO;

    *sock = (struct kv_socket){.fd = -1};
    int status = getaddrinfo(host, port, &hints, &found);
    if (status != 0)
        return err_set(info, ERR_IO, "%s: %s", host, gai_strerror(status));
    for (const struct addrinfo *each = found; each != NULL && err != ERR_OK; each = each->ai_next)
        err = start(sock, each);
    freeaddrinfo(found);
    if (err == ERR_OK && tls != NULL)
        err = tls_session_connect(&sock->tls, tls, sock->fd, host, info);
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
    if (sock->tls != NULL)
        TRY(tls_session_handshake(sock->tls, &sock->wants, info));
    sock->connected = true;
    return ERR_OK;
}

void kv_socket_close(struct kv_socket *sock)
{
    tls_session_destroy(&sock->tls);
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
    if (sock->tls != NULL) /* the first piece; the caller comes back for the others */
        return tls_session_write(sock->tls, iov[0].iov_base, iov[0].iov_len, &sock->wants);
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                             .msg_iovlen = (size_t)count};
    ssize_t sent = sendmsg(sock->fd, &message, MSG_NOSIGNAL);
    return sent >= 0 ? sent : would_block() ? 0 : -1;
}

ssize_t kv_socket_receive(struct kv_socket *sock, void *to, size_t len)
{
    sock->wants = 0;
    if (sock->tls != NULL)
        return tls_session_read(sock->tls, to, len, &sock->wants);
    ssize_t got = recv(sock->fd, to, len, 0);
    return got > 0 ? got : got < 0 && would_block() ? 0 : -1;
}

bool kv_socket_is_stale(const struct kv_socket *sock)
{
    struct pollfd poll_fd = {.fd = sock->fd, .events = POLLIN};

    return poll(&poll_fd, 1, 0) != 0;
}

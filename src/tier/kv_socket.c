/*
 * kv_socket.c: sockets of plain bytes, or with a TLS session on top.
 *
 * getaddrinfo() has no deadline and cannot be cancelled, so a name is looked up by a thread of its
 * own. Until it ends, poll() watches an eventfd in place of the socket. A socket that is closed
 * meanwhile leaves the lookup to its thread.
 */
#include "tier/kv_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/mem.h"

enum { LOOKUPS_MAX = 64 }; /* at a time, of the whole process */

/* ---- names ---- */

struct kv_lookup {
    char *host, *port;
    const struct tls *tls; /* for the socket */
    int done;              /* becomes readable */
    /* of the thread until `ended` */
    int status;
    struct addrinfo *found;
    atomic_bool ended;
    atomic_int users; /* the socket and the thread */
};

static atomic_int lookups;

static int look_up(struct kv_lookup *lookup, int flags)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};

    return getaddrinfo(lookup->host, lookup->port, &hints, &lookup->found);
}

static void lookup_leave(struct kv_lookup *lookup)
{
    if (atomic_fetch_sub(&lookup->users, 1) > 1)
        return;
    if (lookup->found != NULL)
        freeaddrinfo(lookup->found);
    if (lookup->done >= 0)
        close(lookup->done);
    mem_free(lookup->host);
    mem_free(lookup->port);
    mem_free(lookup);
    atomic_fetch_sub(&lookups, 1);
}

static void lookup_run(void *arg)
{
    struct kv_lookup *lookup = arg;

    lookup->status = look_up(lookup, AI_ADDRCONFIG);
    atomic_store(&lookup->ended, true);
    (void)eventfd_write(lookup->done, 1);
    lookup_leave(lookup);
}

static enum err lookup_start(struct kv_lookup *lookup, struct errinfo *info)
{
    struct thread thread = {0};

    if (atomic_load(&lookups) > LOOKUPS_MAX)
        return err_set(info, ERR_LIMIT, "%s: names are looked up too slowly", lookup->host);
    lookup->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lookup->done < 0)
        return err_set_errno(info, errno, "eventfd");
    atomic_fetch_add(&lookup->users, 1);
    enum err err = thread_start(&thread, "lookup", lookup_run, lookup, info);
    if (err == ERR_OK)
        thread_detach(&thread);
    else
        atomic_fetch_sub(&lookup->users, 1);
    return err;
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

/* The lookup has ended: connects to the first address that can be tried. */
static enum err connect_found(struct kv_socket *sock, struct errinfo *info)
{
    struct kv_lookup *lookup = sock->lookup;
    enum err err = ERR_IO;

    if (lookup->status != 0)
        return err_set(info, ERR_IO, "%s: %s", lookup->host, gai_strerror(lookup->status));
    for (const struct addrinfo *at = lookup->found; at != NULL && err != ERR_OK; at = at->ai_next)
        err = start(sock, at);
    if (err == ERR_OK && lookup->tls != NULL)
        err = tls_session_connect(&sock->tls, lookup->tls, sock->fd, lookup->host, info);
    if (err != ERR_OK)
        return err_set(info, err, "cannot connect to %s:%s", lookup->host, lookup->port);
    sock->wants = POLLOUT;
    sock->lookup = NULL;
    lookup_leave(lookup);
    return ERR_OK;
}

enum err kv_socket_connect(struct kv_socket *sock, const struct tls *tls, const char *host,
                           const char *port, struct errinfo *info)
{
    struct kv_lookup *lookup = mem_alloc(sizeof(*lookup));
    enum err err;

    *lookup = (struct kv_lookup){
        .host = mem_strdup(host), .port = mem_strdup(port), .tls = tls, .done = -1, .users = 1};
    atomic_fetch_add(&lookups, 1);
    *sock = (struct kv_socket){.fd = -1, .lookup = lookup};
    lookup->status = look_up(lookup, AI_NUMERICHOST);
    if (lookup->status == EAI_NONAME) {
        err = lookup_start(lookup, info);
        sock->fd = lookup->done;
        sock->wants = POLLIN;
    } else {
        err = connect_found(sock, info);
    }
    if (err != ERR_OK)
        kv_socket_close(sock);
    return err;
}

enum err kv_socket_finish(struct kv_socket *sock, struct errinfo *info)
{
    int error = 0;
    socklen_t len = sizeof(error);

    if (sock->lookup != NULL) {
        if (atomic_load(&sock->lookup->ended))
            TRY(connect_found(sock, info));
        return ERR_BUSY;
    }
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
    if (sock->fd >= 0 && (sock->lookup == NULL || sock->fd != sock->lookup->done))
        close(sock->fd);
    if (sock->lookup != NULL)
        lookup_leave(sock->lookup);
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

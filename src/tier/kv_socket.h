/*
 * kv_socket.h: a TCP connection that never blocks, in plain text or with TLS (base/tls.h). Nor does
 * looking up its host's name.
 *
 * Threads: a socket belongs to one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/tls.h"

struct kv_lookup;

struct kv_socket {
    int fd;                   /* to be polled; -1: closed */
    struct kv_lookup *lookup; /* of the host's name; NULL: it has ended */
    struct tls_session *tls;  /* NULL: plain */
    bool connected;           /* TCP, and TLS where it is used */
    short wants; /* poll events that the last call needs, beside those of the caller; 0 */
};

/* Starts connecting; kv_socket_finish completes it. */
enum err kv_socket_connect(struct kv_socket *sock, const struct tls *tls, const char *host,
                           const char *port, struct errinfo *info) NODISCARD;
/* To be called when poll reports the socket. ERR_BUSY: not yet. */
enum err kv_socket_finish(struct kv_socket *sock, struct errinfo *info) NODISCARD;
void kv_socket_close(struct kv_socket *sock);

/* Bytes moved; 0: would block; -1: closed or failed. */
ssize_t kv_socket_send(struct kv_socket *sock, const struct iovec *iov, int count);
ssize_t kv_socket_receive(struct kv_socket *sock, void *to, size_t len);
/* An idle connection that the other side has closed, or on which it says something unasked. */
bool kv_socket_is_stale(const struct kv_socket *sock);

/*
 * kv_socket.h: a TCP connection that never blocks, in plain text or with TLS.
 *
 * TLS is libssl's (OpenSSL 3 or 1.1), loaded at run time: hearth neither builds with it nor needs
 * it for anything else. Certificates are always verified, names included.
 *
 * Threads: a socket belongs to one thread at a time; struct kv_tls may be used by any.
 */
#ifndef HEARTH_TIER_KV_SOCKET_H
#define HEARTH_TIER_KV_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/attr.h"
#include "base/err.h"

struct kv_tls;

/* UNSUPPORTED: libssl cannot be loaded. `ca_file` NULL: the certificates of the system. */
enum err kv_tls_open(struct kv_tls **tls, const char *ca_file, struct errinfo *info) NODISCARD;
void kv_tls_close(struct kv_tls **tls);

struct kv_socket {
    int fd; /* -1: closed */
    struct kv_tls *tls;
    void *ssl;
    bool connected; /* TCP, and TLS where it is used */
    short wants;    /* poll events that the last call needs, beside those of the caller; 0 */
};

/* Starts connecting; kv_socket_finish completes it. */
enum err kv_socket_connect(struct kv_socket *sock, struct kv_tls *tls, const char *host,
                           const char *port, struct errinfo *info) NODISCARD;
/* To be called when poll reports the socket. ERR_BUSY: not yet. */
enum err kv_socket_finish(struct kv_socket *sock, struct errinfo *info) NODISCARD;
void kv_socket_close(struct kv_socket *sock);

/* Bytes moved; 0: would block; -1: closed or failed. */
ssize_t kv_socket_send(struct kv_socket *sock, const struct iovec *iov, int count);
ssize_t kv_socket_receive(struct kv_socket *sock, void *to, size_t len);
/* An idle connection that the other side has closed, or on which it says something unasked. */
bool kv_socket_is_stale(const struct kv_socket *sock);

#endif

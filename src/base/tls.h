/*
 * tls.h: TLS by libssl (OpenSSL 3 or 1.1), which is loaded when the first context is opened.
 *
 *      client: struct tls of trusted certificates    -> a session on a socket that does not block
 *      server: struct tls of a certificate and a key -> a session between two buffers
 *
 * TLS 1.2 and newer only. Clients always verify certificates, names included.
 *
 * Threads: a struct tls may be used by any; a session by one thread at a time. A session keeps what
 * it needs of its struct tls, which may be closed before it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct tls;
struct tls_session;

/* ERR_UNSUPPORTED: libssl cannot be loaded. ERR_INVALID names the file and says what is wrong with
 * it. `ca_file` NULL: the certificates of the system. */
enum err tls_open_client(struct tls **tls, const char *ca_file, struct errinfo *info) NODISCARD;
/* PEM files; the first has the server's certificate and those between it and a root. */
enum err tls_open_server(struct tls **tls, const char *cert_file, const char *key_file,
                         struct errinfo *info) NODISCARD;
void tls_close(struct tls **tls);

void tls_session_destroy(struct tls_session **session);

/* ---- clients: on a socket ---- */

/* `host` is the name to verify. The socket stays the caller's, and SIGPIPE must be ignored. */
enum err tls_session_connect(struct tls_session **session, const struct tls *tls, int fd,
                             const char *host, struct errinfo *info) NODISCARD;
/* ERR_BUSY: not yet, call again when the socket is ready for *wants (POLLIN or POLLOUT). */
enum err tls_session_handshake(struct tls_session *session, short *wants,
                               struct errinfo *info) NODISCARD;
/* Bytes moved; 0: would block, *wants says what for; -1: closed or failed. */
ssize_t tls_session_write(struct tls_session *session, const void *data, size_t len, short *wants);
ssize_t tls_session_read(struct tls_session *session, void *to, size_t len, short *wants);

/* ---- servers: between two buffers ---- */

/* NULL when out of memory. */
struct tls_session *tls_session_accept(const struct tls *tls) NODISCARD;

enum tls_state {
    TLS_STATE_HANDSHAKE,
    TLS_STATE_OPEN,
    TLS_STATE_ENDED,  /* the client will send nothing more; it may still read */
    TLS_STATE_FAILED, /* tls_session_reason says why. An alert may wait in the output */
};
enum tls_state tls_session_state(const struct tls_session *session);
const char *tls_session_reason(const struct tls_session *session);

/* Bytes from the socket. False: out of memory. */
bool tls_session_feed(struct tls_session *session, struct str bytes) NODISCARD;
/* Decrypted bytes: how many were written to `to`; 0: no more for now. */
size_t tls_session_open(struct tls_session *session, void *to, size_t len);
/* Encrypts all of it. False before the handshake is done, or when the session has failed. */
bool tls_session_seal(struct tls_session *session, struct str bytes) NODISCARD;
/* Tells the other side that nothing more will be sent. */
void tls_session_end(struct tls_session *session);
/* Bytes for the socket. */
size_t tls_session_pending(struct tls_session *session);
/* Moves the bytes for the socket to the end of `out`. Fails as buf_append does. */
enum err tls_session_take(struct tls_session *session, struct buf *out) NODISCARD;

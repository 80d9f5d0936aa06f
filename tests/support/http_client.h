/*
 * http_client.h: a small blocking HTTP client for tests: raw bytes out, answers read and checked
 * in.
 *
 * Every read has a deadline (10 s; HTTP_CLIENT_MS of the environment), after which the test fails:
 * nothing hangs. A failure of the socket that a test did not expect fails the test as well.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct http_client {
    int fd;
    struct buf in; /* received and not used yet */
    bool eof;      /* the server closed, or reset */
    bool reset;
    struct tls_session *session; /* NULL: plain */
};

/* From now on, clients speak TLS to TCP ports, and http_kit_start serves it, with the certificate
 * of tests/data/tls. False: there is no libssl here. */
bool http_client_use_tls(bool tls);
bool http_client_uses_tls(void);
#define TEST_CERT "tests/data/tls/cert.pem"
#define TEST_KEY  "tests/data/tls/key.pem"

struct http_answer {
    int status;
    struct buf head; /* status line and headers, without the empty line */
    struct buf body; /* decoded */
    bool complete;   /* ended as its framing says; false: the connection broke off */
    bool keep_alive;
};

void http_client_connect(struct http_client *client, uint16_t port);
bool http_client_try_connect(struct http_client *client, uint16_t port);
void http_client_connect_unix(struct http_client *client, const char *path);
void http_client_close(struct http_client *client);
void http_client_reset(struct http_client *client); /* closes with a RST */
/* Connects without a handshake, whatever http_client_use_tls says. */
void http_client_connect_plain(struct http_client *client, uint16_t port);
void http_client_shut(struct http_client *client); /* sends no more, reads on */

void http_client_send(struct http_client *client, struct str bytes);
void http_client_send_text(struct http_client *client, const char *text);
/* What the system takes without waiting; 0 when it takes none, or the connection is broken. */
size_t http_client_try_send(struct http_client *client, struct str bytes);

/* Reads more bytes into client->in; false at the end. */
bool http_client_read(struct http_client *client);
/* True when the server has closed (data before that is kept in client->in); waits for it. */
bool http_client_wait_closed(struct http_client *client);

/* Reads one answer, skipping 100 Continue (counted in *continues unless NULL). `to_head`: of a HEAD
 * request. False: the server closed before a head was complete. */
bool http_client_answer(struct http_client *client, bool to_head, struct http_answer *answer,
                        unsigned *continues);
void http_answer_fini(struct http_answer *answer);
/* The value of a header; empty when there is none. */
struct str http_answer_header(const struct http_answer *answer, const char *name);

/* "METHOD path", with a Host header, `headers` (lines, each with its CRLF) and a body with its
 * length. */
void http_client_request(struct http_client *client, const char *method, const char *path,
                         const char *headers, struct str body);

/* False: the connection broke before all was sent. */
bool http_client_try_request(struct http_client *client, const char *method, const char *path,
                             const char *headers, struct str body);

/* For streams: the head first, then piece by piece: the next chunk's data appended to `data`; false
 * at the end of the stream. */
bool http_client_head(struct http_client *client, struct http_answer *answer);
bool http_client_chunk(struct http_client *client, struct buf *data);

/* Cuts the next event off `stream`: its name (may be empty) and its data lines, joined by LF,
 * appended. False: no whole event is there. Comments count in *comments unless NULL. */
bool http_sse_next(struct str *stream, struct str *name, struct buf *data, unsigned *comments);

/*
 * http_client.c: see http_client.h. The reader of answers is written separately on purpose: it must
 * not share the mistakes of src/http.
 */
#include "support/http_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/tls.h"
#include "support/test.h"

enum { CLIENT_MS = 10 * 1000, READ_BYTES = 64 * 1024, BYTES_MAX = 512 << 20 };

static int deadline_ms(void)
{
    const char *text = getenv("HTTP_CLIENT_MS");
    uint64_t ms;

    return text != NULL && str_to_u64(str_from(text), &ms) ? (int)ms : CLIENT_MS;
}

static struct tls *trusted; /* NULL: plain */

bool http_client_use_tls(bool tls)
{
    struct errinfo info;

    tls_close(&trusted);
    if (!tls)
        return true;
    signal(SIGPIPE, SIG_IGN);
    enum err err = tls_open_client(&trusted, TEST_CERT, &info);
    if (err != ERR_OK && err != ERR_UNSUPPORTED)
        fail_msg("%s", info.text);
    return err == ERR_OK;
}

bool http_client_uses_tls(void)
{
    return trusted != NULL;
}

static void wait_for(const struct http_client *client, short wants)
{
    struct pollfd poll_fd = {.fd = client->fd, .events = wants};

    if (poll(&poll_fd, 1, deadline_ms()) != 1)
        fail_msg("the server did nothing in time, after: %s", buf_str(&client->in));
}

static void begin_tls(struct http_client *client)
{
    struct errinfo info;
    enum err err;
    short wants;

    assert_int_equal(fcntl(client->fd, F_SETFL, O_NONBLOCK), 0);
    assert_ok(tls_session_connect(&client->session, trusted, client->fd, "localhost", &info));
    while ((err = tls_session_handshake(client->session, &wants, &info)) == ERR_BUSY)
        wait_for(client, wants);
    if (err != ERR_OK)
        fail_msg("%s", info.text);
}

static void init(struct http_client *client, int fd)
{
    assert_true(fd >= 0);
    *client = (struct http_client){.fd = fd};
    buf_init(&client->in, BYTES_MAX);
}

static bool try_connect(struct http_client *client, uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;

    init(client, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connect(client->fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return true;
    http_client_close(client);
    return false;
}

bool http_client_try_connect(struct http_client *client, uint16_t port)
{
    if (!try_connect(client, port))
        return false;
    if (trusted != NULL)
        begin_tls(client);
    return true;
}

void http_client_connect(struct http_client *client, uint16_t port)
{
    assert_true(http_client_try_connect(client, port));
}

void http_client_connect_plain(struct http_client *client, uint16_t port)
{
    assert_true(try_connect(client, port));
}

void http_client_connect_unix(struct http_client *client, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    assert_true(strlen(path) < sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path));
    init(client, socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    assert_int_equal(connect(client->fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

void http_client_close(struct http_client *client)
{
    tls_session_destroy(&client->session);
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    buf_fini(&client->in);
}

void http_client_reset(struct http_client *client)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};

    setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    http_client_close(client);
}

void http_client_shut(struct http_client *client)
{
    shutdown(client->fd, SHUT_WR);
}

static bool try_send_all(struct http_client *client, struct str bytes)
{
    while (bytes.len > 0) {
        short wants = 0;
        ssize_t sent = client->session != NULL
                           ? tls_session_write(client->session, bytes.ptr, bytes.len, &wants)
                           : send(client->fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
        if (wants != 0) {
            wait_for(client, wants);
            continue;
        }
        if (sent <= 0)
            return false;
        bytes = (struct str){bytes.ptr + sent, bytes.len - (size_t)sent};
    }
    return true;
}

void http_client_send(struct http_client *client, struct str bytes)
{
    assert_true(try_send_all(client, bytes));
}

void http_client_send_text(struct http_client *client, const char *text)
{
    http_client_send(client, str_from(text));
}

size_t http_client_try_send(struct http_client *client, struct str bytes)
{
    ssize_t sent = send(client->fd, bytes.ptr, bytes.len, MSG_NOSIGNAL | MSG_DONTWAIT);

    return sent > 0 ? (size_t)sent : 0;
}

static ssize_t receive(struct http_client *client, char *to)
{
    ssize_t got;
    short wants = POLLIN;

    if (client->session == NULL) {
        wait_for(client, wants);
        return recv(client->fd, to, READ_BYTES, 0);
    }
    while ((got = tls_session_read(client->session, to, READ_BYTES, &wants)) == 0)
        wait_for(client, wants);
    return MAX(got, 0);
}

bool http_client_read(struct http_client *client)
{
    if (client->eof)
        return false;
    char *to = buf_reserve(&client->in, READ_BYTES);
    assert_non_null(to);
    ssize_t got = receive(client, to);
    if (got > 0) {
        buf_commit(&client->in, (size_t)got);
        return true;
    }
    client->eof = true;
    client->reset = got < 0;
    return false;
}

bool http_client_wait_closed(struct http_client *client)
{
    while (http_client_read(client))
        continue;
    return client->eof;
}

static size_t find(const struct buf *in, const char *text)
{
    return str_find((struct str){buf_str(in), in->len}, str_from(text));
}

struct str http_answer_header(const struct http_answer *answer, const char *name)
{
    struct str rest = {buf_str(&answer->head), answer->head.len}, line, key;

    while (str_next(&rest, '\n', &line)) {
        line = str_trim(line);
        if (str_next(&line, ':', &key) && str_eq_nocase(key, str_from(name)))
            return str_trim(line);
    }
    return STR_NONE;
}

static int parse_status(const struct buf *head)
{
    uint64_t status;

    assert_true(head->len >= 13);
    assert_memory_equal(head->data, "HTTP/1.1 ", 9);
    assert_true(str_to_u64((struct str){head->data + 9, 3}, &status));
    assert_true(head->data[12] == ' ');
    return (int)status;
}

bool http_client_head(struct http_client *client, struct http_answer *answer)
{
    size_t end;

    *answer = (struct http_answer){0};
    buf_init(&answer->head, BYTES_MAX);
    buf_init(&answer->body, BYTES_MAX);
    while ((end = find(&client->in, "\r\n\r\n")) == SIZE_MAX)
        if (!http_client_read(client))
            return false;
    buf_append(&answer->head, client->in.data, end);
    buf_consume(&client->in, end + 4);
    answer->status = parse_status(&answer->head);
    answer->keep_alive = !str_eq_nocase(http_answer_header(answer, "connection"), STR("close"));
    return true;
}

static bool take(struct http_client *client, size_t len, struct buf *to)
{
    while (client->in.len < len)
        if (!http_client_read(client))
            return false;
    if (to != NULL)
        buf_append(to, client->in.data, len);
    buf_consume(&client->in, len);
    return true;
}

/* Reads "HEX CRLF"; SIZE_MAX when the connection ended. */
static size_t chunk_size(struct http_client *client)
{
    size_t end;

    while ((end = find(&client->in, "\r\n")) == SIZE_MAX)
        if (!http_client_read(client))
            return SIZE_MAX;
    char *stop;
    size_t size = strtoull(client->in.data, &stop, 16);
    assert_true(stop == client->in.data + end && end > 0);
    buf_consume(&client->in, end + 2);
    return size;
}

bool http_client_chunk(struct http_client *client, struct buf *data)
{
    size_t size = chunk_size(client);
    char end[2];

    if (size == SIZE_MAX || !take(client, size, data))
        return false;
    while (client->in.len < 2)
        if (!http_client_read(client))
            return false;
    memcpy(end, client->in.data, 2);
    assert_memory_equal(end, "\r\n", 2);
    buf_consume(&client->in, 2);
    return size > 0;
}

static void read_body(struct http_client *client, struct http_answer *answer)
{
    struct str length = http_answer_header(answer, "content-length");
    uint64_t bytes;

    if (str_eq_nocase(http_answer_header(answer, "transfer-encoding"), STR("chunked"))) {
        assert_int_equal(length.len, 0);
        size_t size;
        while ((size = chunk_size(client)) != SIZE_MAX) {
            bool whole = take(client, size, &answer->body) && take(client, 2, NULL);
            answer->complete = whole && size == 0;
            if (!whole || size == 0)
                return;
        }
    } else if (length.len > 0) {
        assert_true(str_to_u64(length, &bytes));
        answer->complete = take(client, bytes, &answer->body);
    } else {
        answer->complete = http_client_wait_closed(client) && !client->reset;
        buf_append(&answer->body, buf_str(&client->in), client->in.len);
        buf_clear(&client->in);
    }
}

bool http_client_answer(struct http_client *client, bool to_head, struct http_answer *answer,
                        unsigned *continues)
{
    for (;;) {
        if (!http_client_head(client, answer))
            return false;
        if (answer->status != 100)
            break;
        if (continues != NULL)
            ++*continues;
        http_answer_fini(answer);
    }
    if (to_head || answer->status == 204 || answer->status == 304)
        answer->complete = true;
    else
        read_body(client, answer);
    return true;
}

void http_answer_fini(struct http_answer *answer)
{
    buf_fini(&answer->head);
    buf_fini(&answer->body);
}

bool http_client_try_request(struct http_client *client, const char *method, const char *path,
                             const char *headers, struct str body)
{
    struct buf text;

    buf_init(&text, BYTES_MAX);
    buf_appendf(&text, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s", method, path, headers);
    if (body.len > 0)
        buf_appendf(&text, "Content-Length: %zu\r\n", body.len);
    buf_append_str(&text, "\r\n");
    buf_append(&text, body.ptr != NULL ? body.ptr : "", body.len);
    bool sent = try_send_all(client, (struct str){text.data, text.len});
    buf_fini(&text);
    return sent;
}

void http_client_request(struct http_client *client, const char *method, const char *path,
                         const char *headers, struct str body)
{
    assert_true(http_client_try_request(client, method, path, headers, body));
}

static void take_line(struct str line, struct str *name, struct buf *data, unsigned *lines,
                      unsigned *comments)
{
    if (str_starts(line, STR(":"))) {
        if (comments != NULL)
            ++*comments;
    } else if (str_starts(line, STR("event: "))) {
        *name = (struct str){line.ptr + 7, line.len - 7};
    } else if (str_starts(line, STR("data: "))) {
        if ((*lines)++ > 0)
            buf_append_char(data, '\n');
        buf_append(data, line.ptr + 6, line.len - 6);
    }
}

bool http_sse_next(struct str *stream, struct str *name, struct buf *data, unsigned *comments)
{
    struct str rest = *stream, line;
    unsigned lines = 0;

    *name = STR_NONE;
    while (memchr(rest.ptr, '\n', rest.len) != NULL && str_next(&rest, '\n', &line)) {
        if (line.len > 0) {
            take_line(line, name, data, &lines, comments);
            continue;
        }
        *stream = rest;
        if (lines > 0)
            return true;
    }
    return false;
}

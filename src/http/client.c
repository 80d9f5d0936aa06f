/*
 * client.c: bytes in, answers out.
 *
 *      socket -> llhttp: head, body by length, in chunks, or to EOF -> body
 *             -> events: lines "data: ...", ended by an empty line
 *
 * The last call returned the first `taken` bytes of `body`; the next call drops them. So a piece
 * can be used without a copy.
 */
#include "http/client.h"

#include <errno.h>
#include <llhttp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/tls.h"

enum { READ_BYTES = 64 * 1024, EVENT_BYTES_MAX = 16 * 1024 * 1024 };

struct client {
    int fd;
    uint64_t deadline_ns;
    struct client_url url;
    struct tls *tls; /* NULL: plain */
    struct tls_session *session;
    llhttp_t parser;
    char field[16]; /* the beginning of the current header's name */
    bool in_value, head_ended, ended;
    char request_id[CLIENT_ID_BYTES];
    struct buf body; /* decoded, not yet dropped */
    size_t taken;
    struct buf events; /* decoded body, not a whole event yet */
    size_t events_taken;
};

/* ---- addresses ---- */

/* "unix:/path", or a path ending in ".sock" as in `serve --host`. */
static bool is_socket(const char *text, const char **path)
{
    static const char scheme[] = "unix:";
    bool named = strncmp(text, scheme, sizeof(scheme) - 1) == 0;

    *path = named ? text + sizeof(scheme) - 1 : text;
    return named || (strstr(text, "://") == NULL && str_ends(str_from(text), STR(".sock")));
}

static enum err parse_socket(const char *path, struct client_url *url, struct errinfo *info)
{
    if (path[0] == '\0' || strlen(path) >= sizeof(url->socket))
        return err_set(info, ERR_INVALID, "%s: the path of a local socket has 1 to %zu bytes", path,
                       sizeof(url->socket) - 1);
    *url = (struct client_url){.host = "localhost", .port = "80"};
    snprintf(url->socket, sizeof(url->socket), "%s", path);
    return ERR_OK;
}

/* "host", "host:port", "[::1]:port": the port, and the host without brackets. */
static enum err parse_host(const char *text, struct str host, struct client_url *url,
                           struct errinfo *info)
{
    size_t bracket = host.len > 0 && host.ptr[0] == '[' ? str_find(host, STR("]")) : SIZE_MAX;
    struct str name = host, rest = {host.ptr + host.len, 0};
    uint64_t port = url->tls ? 443 : 80;

    if (bracket != SIZE_MAX) {
        name = (struct str){host.ptr + 1, bracket - 1};
        rest = str_skip(host, bracket + 1);
    } else if (memchr(host.ptr, ':', host.len) != NULL) {
        name.len = str_find(host, STR(":"));
        rest = str_skip(host, name.len);
    }
    if (rest.len > 0 &&
        (rest.ptr[0] != ':' || !str_to_u64(str_skip(rest, 1), &port) || port == 0 || port > 65535))
        return err_set(info, ERR_INVALID, "%s: expected a port number after ':'", text);
    if (name.len == 0 || name.len >= sizeof(url->host))
        return err_set(info, ERR_INVALID, "%s: expected http://host:port/path", text);
    snprintf(url->host, sizeof(url->host), STR_FMT, STR_ARG(name));
    snprintf(url->port, sizeof(url->port), "%u", (unsigned)port);
    return ERR_OK;
}

enum err client_parse_url(const char *text, struct client_url *url, struct errinfo *info)
{
    bool tls = str_starts(str_from(text), STR("https://"));
    bool plain = str_starts(str_from(text), STR("http://"));
    const char *host = tls || plain ? strstr(text, "://") + 3 : text;
    size_t host_len = strcspn(host, "/"), base_len = strlen(host + host_len);
    const char *path;

    *url = (struct client_url){.tls = tls};
    if (is_socket(text, &path))
        return parse_socket(path, url, info);
    if (strstr(text, "://") != NULL && host == text)
        return err_set(info, ERR_INVALID, "%s: only http:// and https:// are supported", text);
    while (base_len > 0 && host[host_len + base_len - 1] == '/')
        base_len--;
    if (base_len >= sizeof(url->base))
        return err_set(info, ERR_INVALID, "%s: expected http://host:port/path", text);
    snprintf(url->base, sizeof(url->base), "%.*s", (int)base_len, host + host_len);
    return parse_host(text, (struct str){host, host_len}, url, info);
}

/* As written in a URL and in the Host header. */
static const char *authority(const struct client_url *url, char out[CLIENT_NAME_BYTES + 16])
{
    bool literal = strchr(url->host, ':') != NULL;

    snprintf(out, CLIENT_NAME_BYTES + 16, literal ? "[%s]:%s" : "%s:%s", url->host, url->port);
    return out;
}

const char *client_url_text(const struct client_url *url, char out[CLIENT_URL_BYTES])
{
    char where[CLIENT_NAME_BYTES + 16];

    if (url->socket[0] != '\0')
        snprintf(out, CLIENT_URL_BYTES, "unix:%s", url->socket);
    else
        snprintf(out, CLIENT_URL_BYTES, "http%s://%s%s", url->tls ? "s" : "", authority(url, where),
                 url->base);
    return out;
}

/* ---- the socket ---- */

static enum err failed(const struct client *client, int error, struct errinfo *info)
{
    char url[CLIENT_URL_BYTES];

    return err_set_errno(info, error, "%s", client_url_text(&client->url, url));
}

static enum err wait_for(struct client *client, short events, struct errinfo *info)
{
    char url[CLIENT_URL_BYTES];

    for (;;) {
        struct pollfd fd = {.fd = client->fd, .events = events};
        uint64_t now_ns = clock_mono_ns(clock_real());
        uint64_t left_ms =
            client->deadline_ns > now_ns ? (client->deadline_ns - now_ns) / NS_PER_MS + 1 : 0;
        int got = poll(&fd, 1, (int)MIN(left_ms, (uint64_t)1000000));
        if (got > 0)
            return ERR_OK;
        if (got < 0 && errno != EINTR)
            return failed(client, errno, info);
        if (got == 0 && clock_mono_ns(clock_real()) >= client->deadline_ns)
            return err_set(info, ERR_TIMEOUT, "%s does not answer",
                           client_url_text(&client->url, url));
    }
}

static enum err connect_to(struct client *client, int family, const struct sockaddr *address,
                           socklen_t address_len, struct errinfo *info)
{
    int one = 1, error = 0;
    socklen_t len = sizeof(error);

    if (client->fd >= 0)
        close(client->fd);
    client->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (client->fd < 0)
        return err_set_errno(info, errno, "socket");
    if (family != AF_UNIX)
        setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connect(client->fd, address, address_len) == 0)
        return ERR_OK;
    if (errno != EINPROGRESS)
        return failed(client, errno, info);
    TRY(wait_for(client, POLLOUT, info));
    getsockopt(client->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    return error == 0 ? ERR_OK : failed(client, error, info);
}

static enum err connect_local(struct client *client, struct errinfo *info)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", client->url.socket);
    return connect_to(client, AF_UNIX, (const void *)&address, sizeof(address), info);
}

/* Connects to the first of the host's addresses that accepts. */
static enum err connect_any(struct client *client, struct errinfo *info)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *addresses = NULL;
    int found = getaddrinfo(client->url.host, client->url.port, &hints, &addresses);
    enum err err = ERR_IO;

    if (found != 0)
        return err_set(info, ERR_IO, "%s: %s", client->url.host, gai_strerror(found));
    for (struct addrinfo *at = addresses; at != NULL && err != ERR_OK; at = at->ai_next)
        err = connect_to(client, at->ai_family, at->ai_addr, at->ai_addrlen, info);
    freeaddrinfo(addresses);
    return err;
}

static enum err begin_tls(struct client *client, struct errinfo *info)
{
    short wants;
    enum err err;

    signal(SIGPIPE, SIG_IGN); /* libssl writes without MSG_NOSIGNAL */
    TRY(tls_open_client(&client->tls, NULL, info));
    TRY(tls_session_connect(&client->session, client->tls, client->fd, client->url.host, info));
    while ((err = tls_session_handshake(client->session, &wants, info)) == ERR_BUSY)
        TRY(wait_for(client, wants, info));
    if (err == ERR_OK)
        return ERR_OK;
    char url[CLIENT_URL_BYTES];
    return err_wrap(info, ERR_DENIED, "%s", client_url_text(&client->url, url));
}

/* As send and recv: bytes moved, 0 at the end, -1 with *wants = 0 on an error in errno; otherwise
 * what to wait for. */
static ssize_t put(struct client *client, const char *data, size_t len, short *wants)
{
    if (client->session != NULL) {
        ssize_t sent = tls_session_write(client->session, data, len, wants);
        errno = EPIPE;
        return sent > 0 ? sent : -1;
    }
    ssize_t sent = send(client->fd, data, len, MSG_NOSIGNAL);
    *wants = sent < 0 && (errno == EAGAIN || errno == EINTR) ? POLLOUT : 0;
    return sent;
}

static ssize_t get(struct client *client, char *to, size_t len, short *wants)
{
    if (client->session != NULL) {
        ssize_t got = tls_session_read(client->session, to, len, wants);
        return got > 0 ? got : *wants != 0 ? -1 : 0;
    }
    ssize_t got = recv(client->fd, to, len, 0);
    *wants = got < 0 && (errno == EAGAIN || errno == EINTR) ? POLLIN : 0;
    return got;
}

/* ---- the answer, as llhttp reports it ---- */

/* Appends to a text, as far as it has room. */
static void append(char *text, size_t size, const char *at, size_t len)
{
    size_t used = strlen(text);

    snprintf(text + used, size - used, "%.*s", (int)MIN(len, size), at);
}

static int on_field(llhttp_t *parser, const char *at, size_t len)
{
    struct client *client = parser->data;

    if (client->in_value)
        client->field[0] = '\0';
    client->in_value = false;
    append(client->field, sizeof(client->field), at, len);
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t len)
{
    struct client *client = parser->data;

    client->in_value = true;
    if (str_eq_nocase(str_from(client->field), STR("x-request-id")))
        append(client->request_id, sizeof(client->request_id), at, len);
    return 0;
}

static int on_head(llhttp_t *parser)
{
    ((struct client *)parser->data)->head_ended = true;
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    return buf_append(&((struct client *)parser->data)->body, at, len) == ERR_OK ? 0 : HPE_USER;
}

static int on_end(llhttp_t *parser)
{
    ((struct client *)parser->data)->ended = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_headers_complete = on_head,
    .on_body = on_body,
    .on_message_complete = on_end,
};

enum err client_open(struct client **out, const struct client_url *url, uint64_t timeout_ms,
                     struct errinfo *info)
{
    struct client *client = mem_alloc(sizeof(*client));

    client->fd = -1;
    client->url = *url;
    client->deadline_ns = clock_deadline_ns(clock_real(), timeout_ms * NS_PER_MS);
    llhttp_init(&client->parser, HTTP_RESPONSE, &settings);
    client->parser.data = client;
    buf_init(&client->body, CLIENT_BODY_BYTES_MAX);
    buf_init(&client->events, EVENT_BYTES_MAX);
    enum err err = url->socket[0] != '\0' ? connect_local(client, info) : connect_any(client, info);
    if (err == ERR_OK && url->tls)
        err = begin_tls(client, info);
    if (err != ERR_OK)
        client_close(&client);
    *out = client;
    return err;
}

void client_close(struct client **client)
{
    if (*client == NULL)
        return;
    tls_session_destroy(&(*client)->session);
    tls_close(&(*client)->tls);
    if ((*client)->fd >= 0)
        close((*client)->fd);
    buf_fini(&(*client)->body);
    buf_fini(&(*client)->events);
    mem_free(*client);
    *client = NULL;
}

static enum err send_all(struct client *client, const char *data, size_t len, struct errinfo *info)
{
    short wants;

    while (len > 0) {
        ssize_t sent = put(client, data, len, &wants);
        if (sent < 0 && wants == 0)
            return failed(client, errno, info);
        if (sent < 0) {
            TRY(wait_for(client, wants, info));
            continue;
        }
        data += sent;
        len -= (size_t)sent;
    }
    return ERR_OK;
}

enum err client_send(struct client *client, const char *method, const char *path, const char *key,
                     const char *body, struct errinfo *info)
{
    size_t body_len = body != NULL ? strlen(body) : 0;
    char host[CLIENT_NAME_BYTES + 16];
    struct buf head;

    buf_init(&head, CLIENT_HEAD_BYTES_MAX);
    buf_appendf(&head, "%s %s%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nAccept: */*\r\n",
                method, client->url.base, path, authority(&client->url, host));
    if (key != NULL)
        buf_appendf(&head, "Authorization: Bearer %s\r\n", key);
    if (body != NULL)
        buf_appendf(&head, "Content-Type: application/json\r\nContent-Length: %zu\r\n", body_len);
    buf_append_str(&head, "\r\n");
    enum err err = head.err;
    if (err == ERR_OK)
        err = send_all(client, head.data, head.len, info);
    if (err == ERR_OK && body_len > 0)
        err = send_all(client, body, body_len, info);
    buf_fini(&head);
    return err;
}

/* Passes received bytes, or the end of the connection, to the parser. */
static enum err parse(struct client *client, const char *bytes, size_t len, struct errinfo *info)
{
    llhttp_errno_t error =
        len > 0 ? llhttp_execute(&client->parser, bytes, len) : llhttp_finish(&client->parser);
    char url[CLIENT_URL_BYTES];

    if (client->body.err != ERR_OK)
        return err_set(info, client->body.err, "%s", err_sentence(client->body.err));
    if (client->ended)
        return ERR_OK;
    if (len == 0)
        return err_set(info, ERR_CLOSED, "%s closed the connection",
                       client_url_text(&client->url, url));
    return error == HPE_OK ? ERR_OK
                           : err_set(info, ERR_CORRUPT, "the answer is not valid HTTP: %s",
                                     llhttp_get_error_reason(&client->parser));
}

static enum err receive(struct client *client, struct errinfo *info)
{
    char bytes[READ_BYTES];
    short wants;

    for (;;) {
        ssize_t got = get(client, bytes, sizeof(bytes), &wants);
        if (got >= 0)
            return parse(client, bytes, (size_t)got, info);
        if (wants == 0)
            return failed(client, errno, info);
        TRY(wait_for(client, wants, info));
    }
}

enum err client_read_head(struct client *client, struct client_head *head, struct errinfo *info)
{
    while (!client->head_ended)
        TRY(receive(client, info));
    head->status = client->parser.status_code;
    memcpy(head->request_id, client->request_id, sizeof(head->request_id));
    return ERR_OK;
}

enum err client_read(struct client *client, struct str *piece, struct errinfo *info)
{
    *piece = STR_NONE;
    buf_consume(&client->body, client->taken);
    client->taken = 0;
    while (client->body.len == 0 && !client->ended)
        TRY(receive(client, info));
    client->taken = client->body.len;
    *piece = (struct str){client->body.data, client->body.len};
    return ERR_OK;
}

/* ---- events ---- */

/* The length of the first whole event, or SIZE_MAX; `skip` is the length of its terminator. */
static size_t event_length(const struct buf *events, size_t *skip)
{
    struct str text = {events->data, events->len};
    size_t lf = str_find(text, STR("\n\n")), crlf = str_find(text, STR("\r\n\r\n"));

    *skip = crlf < lf ? 4 : 2;
    return MIN(lf, crlf);
}

static struct str event_data(struct str event)
{
    struct str line;

    while (str_next(&event, '\n', &line))
        if (str_starts(line, STR("data:")))
            return str_trim(str_skip(line, 5));
    return STR_NONE;
}

enum err client_read_event(struct client *client, struct str *data, bool *end, struct errinfo *info)
{
    *end = false;
    *data = STR_NONE;
    buf_consume(&client->events, client->events_taken);
    client->events_taken = 0;
    for (;;) {
        struct str piece;
        size_t skip, len = event_length(&client->events, &skip);
        if (len != SIZE_MAX) {
            *data = event_data((struct str){client->events.data, len});
            if (data->len > 0) {
                client->events_taken = len + skip;
                return ERR_OK;
            }
            buf_consume(&client->events, len + skip); /* a comment */
            continue;
        }
        TRY(client_read(client, &piece, info));
        *end = piece.len == 0;
        if (*end)
            return ERR_OK;
        if (buf_append(&client->events, piece.ptr, piece.len) != ERR_OK)
            return err_set(info, client->events.err, "an event of the answer is too long");
    }
}

enum err client_read_all(struct client *client, struct buf *out, struct errinfo *info)
{
    struct str piece;

    do {
        TRY(client_read(client, &piece, info));
        TRY(buf_append(out, piece.ptr, piece.len));
    } while (piece.len > 0);
    return ERR_OK;
}

enum err client_fetch(const struct client_request *request, int *status, struct buf *out,
                      struct errinfo *info)
{
    struct client *client;
    struct client_head head = {0};

    TRY(client_open(&client, request->url, request->timeout_ms, info));
    enum err err =
        client_send(client, request->method, request->path, request->key, request->body, info);
    if (err == ERR_OK)
        err = client_read_head(client, &head, info);
    if (err == ERR_OK)
        err = client_read_all(client, out, info);
    if (err == ERR_OK)
        *status = head.status;
    client_close(&client);
    return err;
}

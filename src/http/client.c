/*
 * client.c: bytes in, answers out.
 *
 *      socket -> in (raw) -> framing: length, chunks, or to EOF -> body
 *             -> events: lines "data: ...", ended by an empty line
 *
 * The last call returned the first `taken` bytes of `in`; the next call drops them. So a piece can
 * be used without a copy.
 */
#include "http/client.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"

enum { READ_BYTES = 64 * 1024, EVENT_BYTES_MAX = 16 * 1024 * 1024 };

enum framing { FRAMING_LENGTH, FRAMING_CHUNKS, FRAMING_CLOSE };

struct client {
    int fd;
    uint64_t deadline_ns;
    struct client_url url;
    struct buf in;
    size_t taken;
    enum framing framing;
    uint64_t left; /* bytes left in the body or in the chunk */
    bool body_ended;
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
    uint64_t port = 80;

    if (bracket != SIZE_MAX) {
        name = (struct str){host.ptr + 1, bracket - 1};
        rest = (struct str){host.ptr + bracket + 1, host.len - bracket - 1};
    } else if (memchr(host.ptr, ':', host.len) != NULL) {
        name.len = str_find(host, STR(":"));
        rest = (struct str){host.ptr + name.len, host.len - name.len};
    }
    if (rest.len > 0 &&
        (rest.ptr[0] != ':' || !str_to_u64((struct str){rest.ptr + 1, rest.len - 1}, &port) ||
         port == 0 || port > 65535))
        return err_set(info, ERR_INVALID, "%s: expected a port number after ':'", text);
    if (name.len == 0 || name.len >= sizeof(url->host))
        return err_set(info, ERR_INVALID, "%s: expected http://host:port/path", text);
    snprintf(url->host, sizeof(url->host), STR_FMT, STR_ARG(name));
    snprintf(url->port, sizeof(url->port), "%u", (unsigned)port);
    return ERR_OK;
}

enum err client_parse_url(const char *text, struct client_url *url, struct errinfo *info)
{
    static const char scheme[] = "http://";
    const char *host =
        strncmp(text, scheme, sizeof(scheme) - 1) == 0 ? text + sizeof(scheme) - 1 : text;
    size_t host_len = strcspn(host, "/"), base_len = strlen(host + host_len);
    const char *path;

    *url = (struct client_url){0};
    if (is_socket(text, &path))
        return parse_socket(path, url, info);
    if (strstr(text, "://") != NULL && host == text)
        return err_set(info, ERR_INVALID, "%s: only http:// is supported", text);
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
        snprintf(out, CLIENT_URL_BYTES, "http://%s%s", authority(url, where), url->base);
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

enum err client_open(struct client **out, const struct client_url *url, uint64_t timeout_ms,
                     struct errinfo *info)
{
    struct client *client = mem_alloc(sizeof(*client));

    client->fd = -1;
    client->url = *url;
    client->deadline_ns = clock_deadline_ns(clock_real(), timeout_ms * NS_PER_MS);
    buf_init(&client->in, CLIENT_BODY_BYTES_MAX);
    buf_init(&client->events, EVENT_BYTES_MAX);
    enum err err = url->socket[0] != '\0' ? connect_local(client, info) : connect_any(client, info);
    if (err != ERR_OK)
        client_close(&client);
    *out = client;
    return err;
}

void client_close(struct client **client)
{
    if (*client == NULL)
        return;
    if ((*client)->fd >= 0)
        close((*client)->fd);
    buf_fini(&(*client)->in);
    buf_fini(&(*client)->events);
    mem_free(*client);
    *client = NULL;
}

static enum err send_all(struct client *client, const char *data, size_t len, struct errinfo *info)
{
    while (len > 0) {
        ssize_t sent = send(client->fd, data, len, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return failed(client, errno, info);
        if (sent < 0) {
            TRY(wait_for(client, POLLOUT, info));
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

/* Reads more bytes into `in`. ERR_CLOSED at the end of the connection. */
static enum err receive(struct client *client, struct errinfo *info)
{
    char url[CLIENT_URL_BYTES];

    for (;;) {
        char *to = buf_reserve(&client->in, READ_BYTES);
        if (to == NULL)
            return err_set(info, client->in.err, "%s", err_sentence(client->in.err));
        ssize_t got = recv(client->fd, to, READ_BYTES, 0);
        if (got > 0) {
            buf_commit(&client->in, (size_t)got);
            return ERR_OK;
        }
        if (got == 0)
            return err_set(info, ERR_CLOSED, "%s closed the connection",
                           client_url_text(&client->url, url));
        if (errno != EAGAIN && errno != EINTR)
            return failed(client, errno, info);
        TRY(wait_for(client, POLLIN, info));
    }
}

/* ---- the head ---- */

static struct str head_field(struct str head, struct str name)
{
    struct str line;

    while (str_next(&head, '\n', &line)) {
        if (line.len <= name.len || line.ptr[name.len] != ':')
            continue;
        if (str_eq_nocase((struct str){line.ptr, name.len}, name))
            return str_trim((struct str){line.ptr + name.len + 1, line.len - name.len - 1});
    }
    return STR_NONE;
}

static enum err read_framing(struct client *client, struct str head, struct errinfo *info)
{
    struct str length = head_field(head, STR("content-length"));

    client->left = 0;
    client->body_ended = false;
    if (str_eq_nocase(head_field(head, STR("transfer-encoding")), STR("chunked"))) {
        client->framing = FRAMING_CHUNKS;
    } else if (length.ptr == NULL) {
        client->framing = FRAMING_CLOSE;
    } else {
        client->framing = FRAMING_LENGTH;
        if (!str_to_u64(length, &client->left))
            return err_set(info, ERR_CORRUPT, "the answer's Content-Length is no number");
    }
    return ERR_OK;
}

enum err client_read_head(struct client *client, struct client_head *head, struct errinfo *info)
{
    static const char begin[] = "HTTP/1.";
    size_t end;

    *head = (struct client_head){0};
    while ((end = str_find((struct str){client->in.data, client->in.len}, STR("\r\n\r\n"))) ==
           SIZE_MAX) {
        if (client->in.len > CLIENT_HEAD_BYTES_MAX)
            return err_set(info, ERR_CORRUPT, "the answer has no head");
        TRY(receive(client, info));
    }
    struct str text = {client->in.data, end + 2};
    uint64_t status = 0;
    if (!str_starts(text, STR(begin)) || text.len < 12 ||
        !str_to_u64((struct str){text.ptr + 9, 3}, &status))
        return err_set(info, ERR_CORRUPT, "the answer is not HTTP");
    head->status = (int)status;
    struct str id = head_field(text, STR("x-request-id"));
    snprintf(head->request_id, sizeof(head->request_id), "%.*s",
             (int)MIN(id.len, sizeof(head->request_id) - 1), id.ptr != NULL ? id.ptr : "");
    TRY(read_framing(client, text, info));
    buf_consume(&client->in, end + 4);
    return ERR_OK;
}

/* ---- the body ---- */

static bool parse_hex(struct str text, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
                                                : 16;
        if (digit == 16 || *value > UINT64_MAX >> 5)
            return false;
        *value = *value << 4 | digit;
    }
    return text.len > 0;
}

/* Reads the line that begins a chunk, after the empty line that ended the previous chunk. */
static enum err begin_chunk(struct client *client, struct errinfo *info)
{
    for (;;) {
        struct str in = {client->in.data, client->in.len};
        size_t end = str_find(in, STR("\r\n"));
        if (end == SIZE_MAX) {
            TRY(receive(client, info));
            continue;
        }
        struct str line = {in.ptr, end}, size;
        bool empty = end == 0;
        if (!empty && (!str_next(&line, ';', &size) || !parse_hex(str_trim(size), &client->left)))
            return err_set(info, ERR_CORRUPT, "a chunk of the answer has no length");
        buf_consume(&client->in, end + 2);
        if (empty)
            continue;
        client->body_ended = client->left == 0;
        return ERR_OK;
    }
}

static enum err hand_out(struct client *client, struct str *piece)
{
    uint64_t len = client->in.len;

    if (client->framing != FRAMING_CLOSE) {
        len = MIN(len, client->left);
        client->left -= len;
    }
    client->body_ended = client->framing == FRAMING_LENGTH && client->left == 0;
    client->taken = (size_t)len;
    *piece = (struct str){client->in.data, (size_t)len};
    return ERR_OK;
}

enum err client_read(struct client *client, struct str *piece, struct errinfo *info)
{
    *piece = STR_NONE;
    buf_consume(&client->in, client->taken);
    client->taken = 0;
    if (client->framing == FRAMING_LENGTH && client->left == 0)
        client->body_ended = true;
    if (!client->body_ended && client->framing == FRAMING_CHUNKS && client->left == 0)
        TRY(begin_chunk(client, info));
    if (client->body_ended)
        return ERR_OK;
    if (client->in.len == 0) {
        enum err err = receive(client, info);
        if (err == ERR_CLOSED && client->framing == FRAMING_CLOSE) {
            client->body_ended = true;
            return ERR_OK;
        }
        TRY(err);
    }
    return hand_out(client, piece);
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
            return str_trim((struct str){line.ptr + 5, line.len - 5});
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

enum err client_fetch(const struct client_request *request, int *status, struct buf *out,
                      struct errinfo *info)
{
    struct client *client;
    struct client_head head;
    struct str piece = {"", 1};

    TRY(client_open(&client, request->url, request->timeout_ms, info));
    enum err err =
        client_send(client, request->method, request->path, request->key, request->body, info);
    if (err == ERR_OK)
        err = client_read_head(client, &head, info);
    while (err == ERR_OK && piece.len > 0) {
        err = client_read(client, &piece, info);
        if (err == ERR_OK && piece.len > 0)
            err = buf_append(out, piece.ptr, piece.len);
    }
    if (err == ERR_OK)
        *status = head.status;
    client_close(&client);
    return err;
}

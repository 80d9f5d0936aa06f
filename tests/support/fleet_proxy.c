/*
 * fleet_proxy.c: a thread per connection, which ends when either side closes.
 */
#include "support/fleet_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/test.h"

enum { PIECE = 256 << 10, TAIL = 32 };

static bool send_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, data, len, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        data += sent;
        len -= (size_t)sent;
    }
    return true;
}

/* The last bytes of a piece. */
struct tail {
    char bytes[TAIL];
    size_t len;
};

/* Whether the text is in these bytes, or begins in the piece before. */
static bool has_text(const char *text, struct tail *tail, const char *data, size_t len)
{
    char joined[2 * TAIL];
    size_t first = MIN(len, TAIL), both = tail->len + first;

    memcpy(joined, tail->bytes, tail->len);
    memcpy(joined + tail->len, data, first);
    bool found = text != NULL && (memmem(joined, both, text, strlen(text)) != NULL ||
                                  memmem(data, len, text, strlen(text)) != NULL);
    tail->len = first;
    memcpy(tail->bytes, data + len - first, first);
    return found;
}

/* Moves what is there in one direction; false: the connection ends. */
static bool forward(struct fleet_proxy_conn *conn, bool reply, char *piece, struct tail *tail)
{
    struct fleet_proxy *proxy = conn->proxy;
    ssize_t got = recv(reply ? conn->server : conn->client, piece, PIECE, 0);

    if (got <= 0)
        return false;
    if (reply) {
        clock_sleep_ns(clock_real(), atomic_load(&proxy->delay_ms) * NS_PER_MS);
        return send_all(conn->client, piece, (size_t)got);
    }
    const char *lost = atomic_load(&proxy->lost);
    bool lose = has_text(lost, tail, piece, (size_t)got) &&
                atomic_compare_exchange_strong(&proxy->lost, &lost, NULL);
    if (!send_all(conn->server, piece, (size_t)got))
        return false;
    if (lose) {
        (void)!recv(conn->server, piece, PIECE, 0); /* it was done */
        atomic_fetch_add(&proxy->losses, 1);
    }
    return !lose;
}

static void run_conn(void *arg)
{
    struct fleet_proxy_conn *conn = arg;
    static _Thread_local char piece[PIECE];
    struct tail tail = {.len = 0};
    bool open = true;

    while (open) {
        struct pollfd fds[] = {{.fd = conn->client, .events = POLLIN},
                               {.fd = conn->server, .events = POLLIN}};
        if (poll(fds, COUNT_OF(fds), -1) < 0)
            break;
        for (size_t i = 0; i < COUNT_OF(fds) && open; i++)
            if (fds[i].revents != 0)
                open = forward(conn, i == 1, piece, &tail);
    }
    shutdown(conn->client, SHUT_RDWR);
    shutdown(conn->server, SHUT_RDWR);
}

static int open_socket(uint16_t port, bool listens, uint16_t *bound)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    assert_true(fd >= 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (!listens)
        return connect(fd, (struct sockaddr *)&address, len) == 0 ? fd : (close(fd), -1);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fd, FLEET_PROXY_CONNS), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *bound = ntohs(address.sin_port);
    return fd;
}

static void run_proxy(void *arg)
{
    struct fleet_proxy *proxy = arg;
    int fd, one = 1;

    while ((fd = accept(proxy->listener, NULL, NULL)) >= 0) {
        unsigned index = atomic_load(&proxy->conns_count);
        int server = index < FLEET_PROXY_CONNS ? open_socket(proxy->to, false, NULL) : -1;
        if (server < 0) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        struct fleet_proxy_conn *conn = &proxy->conns[index];
        *conn = (struct fleet_proxy_conn){.proxy = proxy, .client = fd, .server = server};
        assert_ok(thread_start(&conn->thread, "proxy", run_conn, conn, NULL));
        atomic_store(&proxy->conns_count, index + 1);
    }
}

void fleet_proxy_start(struct fleet_proxy *proxy, uint16_t to)
{
    memset(proxy, 0, sizeof(*proxy));
    proxy->to = to;
    proxy->listener = open_socket(0, true, &proxy->port);
    assert_ok(thread_start(&proxy->thread, "proxies", run_proxy, proxy, NULL));
}

void fleet_proxy_stop(struct fleet_proxy *proxy)
{
    shutdown(proxy->listener, SHUT_RDWR);
    thread_join(&proxy->thread);
    close(proxy->listener);
    for (unsigned i = 0; i < atomic_load(&proxy->conns_count); i++) {
        struct fleet_proxy_conn *conn = &proxy->conns[i];
        shutdown(conn->client, SHUT_RDWR);
        shutdown(conn->server, SHUT_RDWR);
        thread_join(&conn->thread);
        close(conn->client);
        close(conn->server);
    }
}

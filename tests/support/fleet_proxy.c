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
#include "base/mem.h"
#include "support/test.h"
#include "support/tier_suite.h"
#include "tier/tier_shared.h"

enum { PIECE = 256 << 10, OBJECT_BYTES = 90000, PIECES_MAX = 300 };

/* ---- the proxy ---- */

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

/* Instead of forwarding a request. False: the connection ends. */
static bool refuse(struct fleet_proxy_conn *conn, const struct fleet_fault *fault)
{
    struct linger linger = {.l_onoff = 1};
    char reply[256];

    if (fault->kind == FLEET_REPLY) {
        int len = snprintf(reply, sizeof(reply), fault->reply, conn->proxy->port);
        (void)send_all(conn->client, reply, (size_t)len);
    } else if (fault->kind == FLEET_RESET) {
        setsockopt(conn->client, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    }
    return fault->kind == FLEET_SILENT;
}

static void wait_while_held(struct fleet_proxy *proxy, const char *piece, size_t len)
{
    const char *text = atomic_load(&proxy->held);

    if (text == NULL || memmem(piece, len, text, strlen(text)) == NULL)
        return;
    atomic_fetch_add(&proxy->holds, 1);
    while (atomic_load(&proxy->held) != NULL)
        clock_sleep_ns(clock_real(), NS_PER_MS);
}

static bool forward_request(struct fleet_proxy_conn *conn, char *piece)
{
    struct fleet_proxy *proxy = conn->proxy;
    const struct fleet_fault *fault = atomic_load(&proxy->fault);
    ssize_t got = recv(conn->client, piece, PIECE, 0);

    if (got <= 0)
        return false;
    wait_while_held(proxy, piece, (size_t)got);
    if (fault == NULL || atomic_fetch_sub(&proxy->pieces, 1) != 1)
        return send_all(conn->server, piece, (size_t)got);
    if (fault->kind != FLEET_LOST && fault->kind != FLEET_HALF)
        return refuse(conn, fault);
    conn->spoils = fault; /* its reply, when the rest of the request has come */
    return send_all(conn->server, piece, (size_t)got);
}

/* All connections share a line of this speed. */
static void wait_for_line(struct fleet_proxy *proxy, size_t bytes)
{
    unsigned long long speed = atomic_load(&proxy->speed), begin, now;

    atomic_fetch_add(&proxy->bytes, bytes);
    if (speed == 0)
        return;
    begin = atomic_load(&proxy->free_at_ns);
    do
        now = clock_mono_ns(clock_real());
    while (!atomic_compare_exchange_weak(&proxy->free_at_ns, &begin,
                                         MAX(begin, now) + bytes * NS_PER_S / speed));
    if (begin > now)
        clock_sleep_ns(clock_real(), begin - now);
}

static bool forward_reply(struct fleet_proxy_conn *conn, char *piece)
{
    ssize_t got = recv(conn->server, piece, PIECE, 0);

    if (got <= 0)
        return false;
    if (conn->spoils != NULL)
        got = conn->spoils->kind == FLEET_HALF ? got / 2 : 0;
    clock_sleep_ns(clock_real(), atomic_load(&conn->proxy->delay_ms) * NS_PER_MS);
    wait_for_line(conn->proxy, (size_t)got);
    return send_all(conn->client, piece, (size_t)got) && conn->spoils == NULL;
}

static void run_conn(void *arg)
{
    struct fleet_proxy_conn *conn = arg;
    char *piece = mem_alloc(PIECE);
    bool open = true;

    while (open) {
        struct pollfd fds[] = {{.fd = conn->client, .events = POLLIN},
                               {.fd = conn->server, .events = POLLIN}};
        if (poll(fds, COUNT_OF(fds), -1) < 0)
            break;
        for (size_t i = 0; i < COUNT_OF(fds) && open; i++)
            if (fds[i].revents != 0)
                open = i == 0 ? forward_request(conn, piece) : forward_reply(conn, piece);
    }
    shutdown(conn->client, SHUT_RDWR);
    shutdown(conn->server, SHUT_RDWR);
    mem_free(piece);
}

/* Listens on a free port, or connects to one; -1: it could not connect. */
static int open_socket(uint16_t to, uint16_t *listens)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(to)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    assert_true(fd >= 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (listens == NULL && connect(fd, (struct sockaddr *)&address, len) != 0) {
        close(fd);
        return -1;
    }
    if (listens == NULL)
        return fd;
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fd, FLEET_PROXY_CONNS), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *listens = ntohs(address.sin_port);
    return fd;
}

static void end_conn(struct fleet_proxy_conn *conn)
{
    shutdown(conn->client, SHUT_RDWR);
    shutdown(conn->server, SHUT_RDWR);
    thread_join(&conn->thread);
    close(conn->client);
    close(conn->server);
}

static void run_proxy(void *arg)
{
    struct fleet_proxy *proxy = arg;
    int fd, one = 1;

    while ((fd = accept(proxy->listener, NULL, NULL)) >= 0) {
        struct fleet_proxy_conn *conn = &proxy->conns[proxy->conns_count % FLEET_PROXY_CONNS];
        int server = open_socket(proxy->to, NULL);
        if (server < 0) {
            close(fd);
            continue;
        }
        if (proxy->conns_count >= FLEET_PROXY_CONNS) /* the oldest one ends */
            end_conn(conn);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        *conn = (struct fleet_proxy_conn){.proxy = proxy, .client = fd, .server = server};
        assert_ok(thread_start(&conn->thread, "proxy", run_conn, conn, NULL));
        proxy->conns_count++;
    }
}

void fleet_proxy_start(struct fleet_proxy *proxy, uint16_t to)
{
    memset(proxy, 0, sizeof(*proxy));
    proxy->to = to;
    proxy->listener = open_socket(0, &proxy->port);
    assert_ok(thread_start(&proxy->thread, "proxies", run_proxy, proxy, NULL));
}

void fleet_proxy_stop(struct fleet_proxy *proxy)
{
    atomic_store(&proxy->held, NULL);
    shutdown(proxy->listener, SHUT_RDWR);
    thread_join(&proxy->thread);
    close(proxy->listener);
    for (unsigned i = 0; i < MIN(proxy->conns_count, FLEET_PROXY_CONNS); i++)
        end_conn(&proxy->conns[i]);
}

void fleet_proxy_fault(struct fleet_proxy *proxy, const struct fleet_fault *fault, int n)
{
    atomic_store(&proxy->fault, NULL);
    atomic_store(&proxy->pieces, n);
    atomic_store(&proxy->fault, fault);
}

/* ---- loops ---- */

/* Stores object n in one tier, and reads it in another; whether both worked. */
static bool store_and_read(const struct tier_shared_options *options, uint32_t n)
{
    static unsigned char data[OBJECT_BYTES];
    struct tier_meta meta = tier_suite_meta(n, OBJECT_BYTES);
    struct tier_answer answer;
    struct tier *a, *b;

    tier_answer_init(&answer);
    assert_ok(tier_shared_open(&a, options, NULL));
    assert_ok(tier_shared_open(&b, options, NULL));
    tier_suite_fill(data, OBJECT_BYTES, n, 0);
    bool stored = a->ops->put(a, &meta, data, tier_answer_done, &answer) &&
                  tier_answer_wait(&answer) == TIER_OK;
    enum tier_result read = tier_suite_get(b, n, OBJECT_BYTES); /* never other bytes */
    tier_close(&a);
    tier_close(&b);
    tier_answer_fini(&answer);
    return stored && read == TIER_OK;
}

void fleet_fault_loop(struct fleet_proxy *proxy, const struct tier_shared_options *options,
                      const struct fleet_fault *faults, size_t count)
{
    static uint32_t object;
    struct tier_shared_options brief = *options;

    brief.timeout_ns = 50 * NS_PER_MS;
    for (size_t i = 0; i < count; i++) {
        for (int n = 1, left = 0; left <= 0; n++) {
            bool silent = faults[i].kind == FLEET_SILENT;
            object++;
            fleet_proxy_fault(proxy, &faults[i], n);
            bool good = store_and_read(silent ? &brief : options, object);
            left = atomic_load(&proxy->pieces);
            fleet_proxy_fault(proxy, NULL, 0);
            if ((left > 0 && !good && !silent) || n > PIECES_MAX ||
                (!store_and_read(options, object) && !store_and_read(options, object)))
                fail_msg("%s at piece %d", faults[i].name, n);
        }
    }
}

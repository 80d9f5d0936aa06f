/*
 * kv_test.c: what a server may do wrong, at the socket. The server is a thread with a script; real
 * servers are in kv_valkey_test.c.
 */
#include "tier/kv.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "support/fleet_kit.h"
#include "support/test.h"

enum { DEADLINE_MS = 300, SLACK_MS = 5000 };

/* Answers each command with the same text; "" is silence, NULL closes the connection. The first
 * command of a run is CLUSTER SLOTS, which it says not to know. */
struct script {
    int listener;
    uint16_t port;
    const char *_Atomic reply;
    atomic_bool reset; /* closes with RST after the reply */
    atomic_int connections, commands;
    struct thread thread;
    char url[64];
};

static void answer(struct script *script, int fd)
{
    static const char no_cluster[] = "-ERR This instance has cluster support disabled\r\n";
    char bytes[65536];
    ssize_t got;

    while ((got = recv(fd, bytes, sizeof(bytes) - 1, 0)) > 0) {
        bytes[got] = '\0';
        const char *reply = atomic_load(&script->reply);
        bool slots = strstr(bytes, "SLOTS") != NULL;
        atomic_fetch_add(&script->commands, 1);
        if (slots)
            reply = no_cluster;
        if (reply == NULL)
            break;
        if (reply[0] != '\0' && send(fd, reply, strlen(reply), MSG_NOSIGNAL) < 0)
            break;
        if (atomic_load(&script->reset) && !slots) {
            struct linger linger = {.l_onoff = 1};
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
            break;
        }
    }
    close(fd);
}

static void run_script(void *arg)
{
    struct script *script = arg;
    int fd;

    while ((fd = accept(script->listener, NULL, NULL)) >= 0) {
        atomic_fetch_add(&script->connections, 1);
        answer(script, fd);
    }
}

static void script_start(struct script *script, const char *reply)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    memset(script, 0, sizeof(*script));
    script->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(script->listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(script->listener, 16), 0);
    assert_int_equal(getsockname(script->listener, (struct sockaddr *)&address, &len), 0);
    script->port = ntohs(address.sin_port);
    snprintf(script->url, sizeof(script->url), "valkey://127.0.0.1:%u/t", script->port);
    atomic_store(&script->reply, reply);
    assert_ok(thread_start(&script->thread, "script", run_script, script, NULL));
}

static void script_stop(struct script *script)
{
    shutdown(script->listener, SHUT_RDWR);
    thread_join(&script->thread);
    close(script->listener);
}

static struct kv *open_kv(const char *url, uint64_t retry_ns)
{
    struct kv_options options = {.url = url, .ttl_s = 60, .retry_ns = retry_ns};
    struct errinfo info = {0};
    struct kv *kv;

    if (kv_open(&kv, &options, &info) != ERR_OK)
        fail_msg("%s", info.text);
    return kv;
}

/* One operation, which must end in time whatever the server does. */
static struct kv_op run_one(struct kv *kv, enum kv_verb verb, void *dst, uint64_t capacity)
{
    struct kv_op op = {
        .verb = verb, .name = "name", .dst = dst, .capacity = capacity, .data = "data", .bytes = 4};
    uint64_t begin = clock_mono_ns(clock_real());

    kv_run(kv, &op, 1, begin + DEADLINE_MS * NS_PER_MS);
    assert_true(clock_mono_ns(clock_real()) - begin < (DEADLINE_MS + SLACK_MS) * NS_PER_MS);
    return op;
}

/* ---- replies ---- */

static const struct {
    const char *reply;
    enum kv_verb verb;
    enum kv_result result;
} replies[] = {
    {"$4\r\nabcd\r\n", KV_GET, KV_OK},
    {"$-1\r\n", KV_GET, KV_MISSING},
    {"$0\r\n\r\n", KV_GET, KV_OK},
    {"+OK\r\n", KV_PUT, KV_OK},
    {":1\r\n", KV_EXISTS, KV_OK},
    {":0\r\n", KV_EXISTS, KV_MISSING},
    {":0\r\n", KV_DELETE, KV_MISSING},
    {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", KV_PUT, KV_FULL},
    {"-LOADING Valkey is loading the dataset in memory\r\n", KV_GET, KV_ERROR},
    {"-READONLY You can't write against a read only replica.\r\n", KV_PUT, KV_ERROR},
    {"-NOAUTH Authentication required.\r\n", KV_GET, KV_ERROR},
    {"-CLUSTERDOWN The cluster is down\r\n", KV_GET, KV_ERROR},
    {"-MOVED x y\r\n", KV_GET, KV_ERROR},
    {"-MOVED 99999 127.0.0.1:1\r\n", KV_GET, KV_ERROR},
    /* of another type than the question */
    {"+OK\r\n", KV_GET, KV_ERROR},
    {":1\r\n", KV_GET, KV_ERROR},
    {"*1\r\n$4\r\nabcd\r\n", KV_GET, KV_ERROR},
    {"$4\r\nabcd\r\n", KV_PUT, KV_ERROR},
    {"$4\r\nabcd\r\n", KV_EXISTS, KV_ERROR},
    {"$-1\r\n", KV_EXISTS, KV_ERROR},
    /* nonsense */
    {"$-2\r\n", KV_GET, KV_ERROR},
    {"$x\r\n", KV_GET, KV_ERROR},
    {"HTTP/1.1 400 Bad Request\r\n\r\n", KV_GET, KV_ERROR},
    {"\r\n", KV_GET, KV_ERROR},
    /* too long for the room, and complete */
    {"$12\r\nabcdefghijkl\r\n", KV_GET, KV_ERROR},
    /* half a reply, then silence; lengths that never come */
    {"$4\r\nab", KV_GET, KV_TIMEOUT},
    {"$99999999999999\r\nab", KV_GET, KV_TIMEOUT},
    {"$4", KV_GET, KV_TIMEOUT},
    {"", KV_GET, KV_TIMEOUT},
    {NULL, KV_GET, KV_ERROR}, /* closed */
};

static void test_replies(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        char dst[8] = "......";
        struct script script;
        script_start(&script, replies[i].reply);
        struct kv *kv = open_kv(script.url, NS_PER_S);
        struct kv_op op = run_one(kv, replies[i].verb, dst, 4);
        if (op.result != replies[i].result)
            fail_msg("reply %zu: result %d", i, (int)op.result);
        assert_memory_equal(dst + 4, "..", 2); /* nothing beyond its room */
        kv_close(&kv);
        script_stop(&script);
    }
}

/* ---- connections ---- */

static void test_refused(void **state)
{
    (void)state;
    char url[64];
    struct kv_server_stats stats;

    snprintf(url, sizeof(url), "valkey://127.0.0.1:%u", fleet_free_port());
    struct kv *kv = open_kv(url, 3600 * NS_PER_S);
    for (int i = 0; i < 3; i++)
        assert_int_not_equal(run_one(kv, KV_GET, NULL, 0).result, KV_OK);
    kv_server_stats(kv, 0, &stats);
    assert_string_equal(kv_breaker_name(stats.breaker), "open");
    assert_true(kv_is_down(kv));
    assert_int_equal(run_one(kv, KV_GET, NULL, 0).result, KV_DOWN);
    kv_close(&kv);
}

static void test_reset(void **state)
{
    (void)state;
    struct script script;
    char dst[8];

    script_start(&script, "$4\r\na");
    atomic_store(&script.reset, true);
    struct kv *kv = open_kv(script.url, NS_PER_S);
    assert_int_equal(run_one(kv, KV_GET, dst, 4).result, KV_ERROR);
    assert_true(atomic_load(&script.connections) >= 2); /* tried once more */
    kv_close(&kv);
    script_stop(&script);
}

/* Redirections that never end are an error, not a loop. */
static void test_moved_storm(void **state)
{
    (void)state;
    static const char *const words[] = {"MOVED", "ASK"};

    for (size_t i = 0; i < COUNT_OF(words); i++) {
        struct script script;
        char reply[64], dst[8];
        script_start(&script, "");
        snprintf(reply, sizeof(reply), "-%s 1 127.0.0.1:%u\r\n", words[i], script.port);
        atomic_store(&script.reply, reply);
        struct kv *kv = open_kv(script.url, NS_PER_S);
        struct kv_op op = run_one(kv, KV_GET, dst, 4);
        assert_true(op.result == KV_ERROR || op.result == KV_TIMEOUT);
        assert_true(atomic_load(&script.commands) < 40);
        kv_close(&kv);
        script_stop(&script);
    }
}

/* Open after three failures; then one run tries, and closes it. */
static void test_breaker(void **state)
{
    (void)state;
    struct script script;
    struct kv_server_stats stats;
    char dst[8];
    enum kv_result result = KV_DOWN;

    script_start(&script, "-LOADING\r\n");
    struct kv *kv = open_kv(script.url, 50 * NS_PER_MS);
    for (int i = 0; i < 3; i++)
        assert_int_equal(run_one(kv, KV_GET, dst, 4).result, KV_ERROR);
    kv_server_stats(kv, 0, &stats);
    assert_string_equal(kv_breaker_name(stats.breaker), "open");
    assert_int_equal(stats.opened, 1);
    atomic_store(&script.reply, "$4\r\nabcd\r\n");
    while (result == KV_DOWN) { /* until it is time to try */
        result = run_one(kv, KV_GET, dst, 4).result;
        clock_sleep_ns(clock_real(), NS_PER_MS);
    }
    assert_int_equal(result, KV_OK);
    kv_server_stats(kv, 0, &stats);
    assert_string_equal(kv_breaker_name(stats.breaker), "closed");
    kv_close(&kv);
    script_stop(&script);
}

static void test_urls(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "http://x",
                                      "valkey://",
                                      "valkey:///",
                                      "valkey://:1",
                                      "valkey://host:",
                                      "valkey://h:1234567890123",
                                      "valkey://h/{p}"};

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct kv_options options = {.url = bad[i]};
        struct errinfo info = {0};
        struct kv *kv;
        assert_err(kv_open(&kv, &options, &info), ERR_INVALID);
        assert_null(kv);
    }
    struct kv *kv = open_kv("redis://user:p@ss@h1:1,h2/fleet", 1);
    assert_string_equal(kv_prefix(kv), "fleet:");
    assert_int_equal(kv_servers(kv), 2);
    kv_close(&kv);
}

TEST_SUITE(TEST(test_replies), TEST(test_refused), TEST(test_reset), TEST(test_moved_storm),
           TEST(test_breaker), TEST(test_urls))

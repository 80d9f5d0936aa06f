/*
 * kv_test.c: what a server may do wrong, at the socket. The server is a thread with a script; real
 * servers are in kv_valkey_test.c and kv_s3_test.c, and loops of faults in tier_shared_test.c.
 */
#include "tier/kv.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "support/fleet_kit.h"
#include "support/test.h"

enum { SHORT_MS = 100, LONG_MS = 60000 };

/* Answers each command with the same text; "" is silence, NULL closes the connection. The first
 * command of a run is CLUSTER SLOTS, which it says not to know. */
struct script {
    int listener;
    uint16_t port;
    const char *_Atomic reply;
    const char *auth;    /* the reply to AUTH */
    atomic_bool reset;   /* closes with RST after the reply */
    atomic_bool silent;  /* to every command */
    atomic_uint drip_ms; /* between two bytes of the reply; 0: all at once */
    atomic_int connections, commands;
    struct thread thread;
    char url[64];
};

/* False: the connection ends. */
static bool answer_one(struct script *script, int fd, const char *command, bool *let_in)
{
    static const char no_cluster[] = "-ERR This instance has cluster support disabled\r\n";
    const char *reply = atomic_load(&script->reply);
    bool prelude = true;

    atomic_fetch_add(&script->commands, 1);
    if (atomic_load(&script->silent))
        return true;
    if (strstr(command, "SLOTS") != NULL)
        reply = no_cluster;
    else if (strstr(command, "\r\nAUTH\r\n") != NULL)
        *let_in = (reply = script->auth) != NULL;
    else if (script->auth != NULL && !*let_in)
        reply = "-NOAUTH Authentication required.\r\n";
    else if (strstr(command, "ASKING") != NULL)
        reply = "+OK\r\n";
    else
        prelude = false;
    if (reply == NULL)
        return false;
    for (size_t len = strlen(reply), at = 0, some; at < len; at += some) {
        some = atomic_load(&script->drip_ms) > 0 ? 1 : len;
        if (at > 0)
            clock_sleep_ns(clock_real(), atomic_load(&script->drip_ms) * NS_PER_MS);
        if (send(fd, reply + at, some, MSG_NOSIGNAL) < 0)
            return false;
    }
    struct linger linger = {.l_onoff = 1};
    bool reset = atomic_load(&script->reset) && !prelude;
    if (reset)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    return !reset;
}

static void answer(struct script *script, int fd)
{
    char bytes[65536];
    bool open = true, let_in = false;
    ssize_t got;

    while (open && (got = recv(fd, bytes, sizeof(bytes) - 1, 0)) > 0) {
        bytes[got] = '\0';
        for (char *command = bytes, *next; open && command != NULL; command = next) {
            next = strstr(command, "\r\n*"); /* pipelined */
            if (next != NULL)
                next[1] = '\0'; /* keeps its last \r */
            next = next != NULL ? next + 2 : NULL;
            open = answer_one(script, fd, command, &let_in);
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
    char endpoint[64];

    memset(script, 0, sizeof(*script));
    script->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(script->listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(script->listener, 16), 0);
    assert_int_equal(getsockname(script->listener, (struct sockaddr *)&address, &len), 0);
    script->port = ntohs(address.sin_port);
    snprintf(script->url, sizeof(script->url), "valkey://127.0.0.1:%u/t", script->port);
    snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%u", script->port);
    setenv("AWS_ENDPOINT_URL_S3", endpoint, 1); /* for s3:// */
    setenv("AWS_ACCESS_KEY_ID", "id", 1);
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

static struct kv_op run_until(struct kv *kv, enum kv_verb verb, bool once, void *dst,
                              uint64_t capacity, unsigned ms)
{
    struct kv_op op = {.verb = verb,
                       .name = "name",
                       .dst = dst,
                       .capacity = capacity,
                       .data = "data",
                       .bytes = 4,
                       .once = once};

    kv_run(kv, &op, 1, clock_deadline_ns(clock_real(), ms * NS_PER_MS));
    return op;
}

/* The deadline is far away: only what the server does ends it. */
static struct kv_op run_one(struct kv *kv, enum kv_verb verb, void *dst, uint64_t capacity)
{
    return run_until(kv, verb, false, dst, capacity, LONG_MS);
}

/* ---- replies ---- */

enum { ONCE = 16 }; /* with a verb */

struct reply {
    const char *reply;
    int verb;
    enum kv_result result;
};

static void check_replies(const char *url, const struct reply *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char dst[8] = "......";
        struct script script;
        struct kv_server_stats stats;
        script_start(&script, rows[i].reply);
        struct kv *kv = open_kv(url != NULL ? url : script.url, NS_PER_S);
        struct kv_op op = run_until(kv, (enum kv_verb)(rows[i].verb & ~ONCE), rows[i].verb & ONCE,
                                    dst, 4, rows[i].result == KV_TIMEOUT ? SHORT_MS : LONG_MS);
        kv_server_stats(kv, 0, &stats);
        bool good = op.result == KV_OK || op.result == KV_MISSING;
        if (op.result != rows[i].result || (good && stats.failures > 0) ||
            op.existed != ((rows[i].verb & ONCE) != 0))
            fail_msg("reply %zu: result %d, %d failures", i, (int)op.result, (int)stats.failures);
        assert_memory_equal(dst + 4, "..", 2); /* nothing beyond its room */
        kv_close(&kv);
        script_stop(&script);
    }
}

static const struct reply of_valkey[] = {
    {"$4\r\nabcd\r\n", KV_GET, KV_OK},
    {"$-1\r\n", KV_GET, KV_MISSING},
    {"$0\r\n\r\n", KV_GET, KV_OK},
    {"+OK\r\n", KV_PUT, KV_OK},
    {":1\r\n", KV_EXISTS, KV_OK},
    {":0\r\n", KV_EXISTS, KV_MISSING},
    {":0\r\n", KV_DELETE, KV_MISSING},
    {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", KV_PUT, KV_FULL},
    {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", KV_GET, KV_ERROR},
    {"-LOADING Valkey is loading the dataset in memory\r\n", KV_GET, KV_ERROR},
    {"-READONLY You can't write against a read only replica.\r\n", KV_PUT, KV_ERROR},
    {"-NOAUTH Authentication required.\r\n", KV_GET, KV_ERROR},
    {"-NOPERM User default has no permissions to run the 'set' command\r\n", KV_PUT, KV_ERROR},
    {"-MISCONF Errors writing to the AOF file\r\n", KV_PUT, KV_ERROR},
    {"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", KV_GET, KV_ERROR},
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
    {"$-1\r\n", KV_PUT | ONCE, KV_OK},
};

static void test_valkey_replies(void **state)
{
    (void)state;
    check_replies(NULL, of_valkey, COUNT_OF(of_valkey));
}

#define S3_ERROR(status, code, len)                            \
    "HTTP/1.1 " status "\r\nContent-Type: application/xml\r\n" \
    "Content-Length: " len "\r\n\r\n<Error><Code>" code "</Code></Error>"
#define S3_OK(length, body) "HTTP/1.1 200 OK\r\n" length "\r\n" body

static const struct reply of_s3[] = {
    {S3_OK("Content-Length: 4\r\n", "abcd"), KV_GET, KV_OK},
    {S3_OK("Content-Length: 0\r\n", ""), KV_GET, KV_OK},
    {S3_OK("Content-Length: 0\r\n", ""), KV_PUT, KV_OK},
    {S3_OK("Content-Length: 999\r\n", ""), KV_EXISTS, KV_OK}, /* that of the object */
    {"HTTP/1.1 204 No Content\r\n\r\n", KV_DELETE, KV_OK},
    {"HTTP/1.1 404 Not Found\r\n\r\n", KV_EXISTS, KV_MISSING},
    {S3_ERROR("404 Not Found", "NoSuchKey", "37"), KV_GET, KV_MISSING},
    {S3_ERROR("404 Not Found", "NoSuchBucket", "40"), KV_PUT, KV_ERROR},
    {S3_ERROR("412 Precondition Failed", "PreconditionFailed", "46"), KV_PUT | ONCE, KV_OK},
    {S3_ERROR("409 Conflict", "ConditionalRequestConflict", "54"), KV_PUT | ONCE, KV_OK},
    {S3_ERROR("412 Precondition Failed", "PreconditionFailed", "46"), KV_PUT, KV_ERROR},
    {S3_ERROR("403 Forbidden", "SignatureDoesNotMatch", "49"), KV_GET, KV_ERROR},
    {S3_ERROR("403 Forbidden", "RequestTimeTooSkewed", "48"), KV_PUT, KV_ERROR},
    {S3_ERROR("500 Internal Server Error", "InternalError", "41"), KV_GET, KV_ERROR},
    {S3_ERROR("503 Slow Down", "SlowDown", "36"), KV_PUT, KV_ERROR},
    {S3_ERROR("507 Insufficient Storage", "Full", "32"), KV_PUT, KV_FULL},
    {S3_ERROR("301 Moved Permanently", "PermanentRedirect", "45"), KV_GET, KV_ERROR},
    /* the digest of a part is in its head: an ETag proves nothing */
    {S3_OK("ETag: \"0\"\r\nContent-Length: 4\r\n", "abcd"), KV_GET, KV_OK},
    /* a length that is not that of the body, or none */
    {S3_OK("Content-Length: 12\r\n", "abcdefghijkl"), KV_GET, KV_ERROR},
    {S3_OK("Content-Length: 4\r\n", "ab"), KV_GET, KV_TIMEOUT},
    {S3_OK("Content-Length: 99999999999999\r\n", "ab"), KV_GET, KV_TIMEOUT},
    {S3_OK("Content-Length: x\r\n", "abcd"), KV_GET, KV_ERROR},
    {S3_OK("Content-Length: -4\r\n", "abcd"), KV_GET, KV_ERROR},
    {S3_OK("", "abcd"), KV_GET, KV_ERROR},
    {S3_OK("Transfer-Encoding: chunked\r\n", "4\r\nabcd\r\n0\r\n\r\n"), KV_GET, KV_ERROR},
    {"HTTP/1.1 2", KV_GET, KV_TIMEOUT},
    {"HTTP/1.1 20x OK\r\n\r\n", KV_GET, KV_ERROR},
    {"HTTP/1.1 100 Continue\r\n\r\n", KV_PUT, KV_ERROR},
    {"+OK\r\n\r\n\r\n", KV_GET, KV_ERROR},
    {"", KV_GET, KV_TIMEOUT},
    {NULL, KV_GET, KV_ERROR}, /* closed */
};

static void test_s3_replies(void **state)
{
    (void)state;
    check_replies("s3://bucket/t", of_s3, COUNT_OF(of_s3));
}

/* A server that does not let this client in, or not any more. */
static void test_passwords(void **state)
{
    static const struct {
        const char *auth, *reply;
        bool let_in;
    } rows[] = {
        {"+OK\r\n", "$4\r\nabcd\r\n", true},
        {"+OK\r\n", "-NOAUTH Authentication required.\r\n", false}, /* lost */
        {"-WRONGPASS invalid username-password pair\r\n", "$4\r\nabcd\r\n", false},
        {"-ERR Client sent AUTH, but no password is set\r\n", "$4\r\nabcd\r\n", false},
        {"$x\r\n", "$4\r\nabcd\r\n", false},
        {NULL, "$4\r\nabcd\r\n", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct script script;
        char url[64], dst[8];
        script_start(&script, rows[i].reply);
        script.auth = rows[i].auth;
        snprintf(url, sizeof(url), "valkey://u:p@127.0.0.1:%u", script.port);
        struct kv *kv = open_kv(url, NS_PER_S);
        bool let_in = run_one(kv, KV_GET, dst, 4).result == KV_OK; /* else its breaker may open */
        if (let_in != rows[i].let_in)
            fail_msg("row %zu", i);
        kv_close(&kv);
        script_stop(&script);
    }
}

/* The log says why a server is not used. */
static void test_reasons(void **state)
{
    static const struct {
        const char *url, *auth, *reply, *why;
    } rows[] = {
        {"valkey://u:p@127.0.0.1:%u", "-WRONGPASS invalid pair\r\n", "", "WRONGPASS invalid pair"},
        {"valkey://127.0.0.1:%u", NULL, "-LOADING in memory\r\n", "LOADING in memory"},
        {"valkey://127.0.0.1:%u", NULL, NULL, "connection lost"},
        {"s3://bucket/t", NULL, S3_ERROR("403 Forbidden", "No", "30"), "HTTP status 403"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct script script;
        char url[64];
        script_start(&script, rows[i].reply);
        script.auth = rows[i].auth;
        snprintf(url, sizeof(url), rows[i].url, script.port);
        const char *line = fleet_breaker_line(&(struct kv_options){.url = url});
        if (strstr(line, rows[i].why) == NULL)
            fail_msg("row %zu: %s", i, line);
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

/* A value that comes slowly is no fault of the server, one that does not come is. */
static void test_slow_values(void **state)
{
    char dst[20];
    struct kv_op op = {.verb = KV_GET, .name = "name", .dst = dst, .capacity = sizeof(dst)};
    struct script script;

    (void)state;
    script_start(&script, "$20\r\nabcdefghijklmnopqrst\r\n");
    struct kv *kv = open_kv(script.url, NS_PER_S);
    (void)run_one(kv, KV_GET, dst, sizeof(dst)); /* it knows its slots now */
    atomic_store(&script.drip_ms, 100);          /* 2.6 s in all */
    kv_run_while_moving(kv, &op, 1, 2200 * NS_PER_MS, UINT64_MAX, NULL, NULL);
    assert_int_equal(op.result, KV_OK);
    assert_memory_equal(dst, "abcdefghijklmnopqrst", sizeof(dst));
    atomic_store(&script.silent, true);
    kv_run_while_moving(kv, &op, 1, 100 * NS_PER_MS, UINT64_MAX, NULL, NULL);
    assert_int_equal(op.result, KV_TIMEOUT);
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
        assert_int_equal(run_one(kv, KV_GET, dst, 4).result, KV_ERROR);
        assert_true(atomic_load(&script.commands) < 40);
        kv_close(&kv);
        script_stop(&script);
    }
}

/* A slot that moves to a server with a password, to which there is no connection yet. */
static void test_asked_with_password(void **state)
{
    (void)state;
    struct script from, to;
    char url[64], reply[64], dst[8];

    script_start(&from, "");
    script_start(&to, "$4\r\nabcd\r\n");
    from.auth = to.auth = "+OK\r\n";
    snprintf(reply, sizeof(reply), "-ASK 1 127.0.0.1:%u\r\n", to.port);
    atomic_store(&from.reply, reply);
    snprintf(url, sizeof(url), "valkey://u:p@127.0.0.1:%u", from.port);
    struct kv *kv = open_kv(url, NS_PER_S);
    assert_int_equal(run_one(kv, KV_GET, dst, 4).result, KV_OK);
    assert_memory_equal(dst, "abcd", 4);
    kv_close(&kv);
    script_stop(&from);
    script_stop(&to);
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

/* A server that stays dead is asked after 1, 2, 4, 8 times the delay. */
static void test_breaker_backs_off(void **state)
{
    const uint64_t first = 4 * NS_PER_MS;
    struct script script;
    uint64_t delay = 0;

    (void)state;
    script_start(&script, "-LOADING\r\n");
    struct kv *kv = open_kv(script.url, first);
    (void)run_one(kv, KV_GET, NULL, 0); /* it knows its slots now */
    for (int probe = 0; probe < 2 + 5;) {
        uint64_t begin = clock_mono_ns(clock_real());
        while (run_one(kv, KV_GET, NULL, 0).result == KV_DOWN)
            clock_sleep_ns(clock_real(), NS_PER_MS / 4);
        assert_true(clock_mono_ns(clock_real()) - begin >= delay);
        if (++probe >= 2) /* the third failure opened it, and later ones do again */
            delay = probe == 2 ? first : 2 * delay;
    }
    kv_close(&kv);
    script_stop(&script);
}

/* Nothing is asked of the store, so only the timer can find that it is well again. */
static void test_breaker_of_an_idle_server(void **state)
{
    struct kv_server_stats stats;
    struct script script;
    char dst[8];

    (void)state;
    script_start(&script, "-LOADING\r\n");
    struct kv *kv = open_kv(script.url, 50 * NS_PER_MS);
    for (int i = 0; i < 3; i++)
        assert_int_equal(run_one(kv, KV_GET, dst, 4).result, KV_ERROR);
    atomic_store(&script.reply, ":0\r\n");
    do {
        clock_sleep_ns(clock_real(), NS_PER_MS);
        kv_try_down(kv, clock_deadline_ns(clock_real(), NS_PER_S));
        kv_server_stats(kv, 0, &stats);
    } while (stats.breaker != KV_CLOSED);
    uint64_t replies = stats.replies;
    kv_try_down(kv, clock_deadline_ns(clock_real(), NS_PER_S));
    kv_server_stats(kv, 0, &stats);
    assert_int_equal(stats.replies, replies); /* one that is well is left alone */
    kv_close(&kv);
    script_stop(&script);
}

/* The system's resolver, which may be slow. */
static const char name_of_server[] = "store.hearth.test";
static atomic_bool resolver_hangs;
static atomic_int resolving;

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **found)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

    *(void **)&real = dlsym(RTLD_NEXT, __func__);
    if (strcmp(host, name_of_server) != 0 || (hints->ai_flags & AI_NUMERICHOST))
        return real(host, port, hints, found);
    atomic_fetch_add(&resolving, 1);
    while (atomic_load(&resolver_hangs))
        clock_sleep_ns(clock_real(), NS_PER_MS);
    atomic_fetch_sub(&resolving, 1);
    return real("127.0.0.1", port, hints, found);
}

static void let_resolve(void *arg)
{
    (void)arg;
    clock_sleep_ns(clock_real(), 5 * NS_PER_S);
    atomic_store(&resolver_hangs, false);
}

/* Waits for the name of a server end at the deadline, and closing does not wait at all. */
static void test_slow_names(void **state)
{
    struct script script;
    struct thread thread = {0};
    char url[64], dst[8];

    (void)state;
    script_start(&script, "$4\r\nabcd\r\n");
    snprintf(url, sizeof(url), "valkey://%s:%u/t", name_of_server, script.port);
    struct kv *kv = open_kv(url, NS_PER_S);
    assert_int_equal(run_one(kv, KV_GET, dst, 4).result, KV_OK);
    kv_close(&kv);
    atomic_store(&resolver_hangs, true);
    assert_ok(thread_start(&thread, "resolver", let_resolve, NULL, NULL));
    kv = open_kv(url, NS_PER_S);
    assert_int_equal(run_until(kv, KV_GET, false, dst, 4, SHORT_MS).result, KV_TIMEOUT);
    kv_close(&kv);
    assert_true(atomic_load(&resolver_hangs)); /* still */
    thread_join(&thread);
    while (atomic_load(&resolving) > 0)
        clock_sleep_ns(clock_real(), NS_PER_MS);
    script_stop(&script);
}

static void run_silent(void *arg)
{
    struct kv_op op = {.verb = KV_GET, .name = "name"};

    kv_run(arg, &op, 1, UINT64_MAX);
}

/* While one run tries, the breaker is half-open, and other runs do not wait. */
static void test_half_open(void **state)
{
    (void)state;
    struct script script;
    struct kv_server_stats stats = {.breaker = KV_CLOSED};
    struct thread thread = {0};
    char dst[8];

    script_start(&script, "-LOADING\r\n");
    struct kv *kv = open_kv(script.url, 200 * NS_PER_MS);
    while (stats.breaker != KV_OPEN) { /* a slow machine asks for slots meanwhile, which works */
        (void)run_one(kv, KV_GET, dst, 4);
        kv_server_stats(kv, 0, &stats);
    }
    atomic_store(&script.silent, true);
    while (kv_is_down(kv)) /* until it is time to try */
        clock_sleep_ns(clock_real(), NS_PER_MS);
    assert_ok(thread_start(&thread, "silent", run_silent, kv, NULL));
    while (stats.breaker != KV_HALF_OPEN)
        kv_server_stats(kv, 0, &stats);
    assert_string_equal(kv_breaker_name(stats.breaker), "half-open");
    kv_stop(kv);
    thread_join(&thread);
    kv_server_stats(kv, 0, &stats); /* it did not answer */
    assert_string_equal(kv_breaker_name(stats.breaker), "open");
    assert_int_equal(stats.opened, 2);
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

TEST_SUITE(TEST(test_valkey_replies), TEST(test_s3_replies), TEST(test_passwords),
           TEST(test_reasons), TEST(test_refused), TEST(test_reset), TEST(test_slow_values),
           TEST(test_moved_storm), TEST(test_asked_with_password), TEST(test_breaker),
           TEST(test_breaker_backs_off), TEST(test_breaker_of_an_idle_server), TEST(test_half_open),
           TEST(test_slow_names), TEST(test_urls))

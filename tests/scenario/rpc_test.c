/*
 * rpc_test.c: a model over two workers: state goes out and comes back, bit for bit, and a worker that
 * dies ends in an error, a reload when it is back, and a restore from the cache.
 */
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yyjson.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/fleet_kit.h"
#include "support/scenario.h"
#include "support/test.h"

enum { ANSWER = 8, WORKERS = 2, TRIES = 1200 };

static const char backends[] = ".deps/fleet/backends";

struct worker {
    pid_t pid;
    uint16_t port;
};

static void start_worker(struct worker *worker)
{
    char listen[64], log[1200];
    char *program = getenv("HEARTH");

    worker->port = worker->port ? worker->port : fleet_free_port();
    snprintf(listen, sizeof(listen), "127.0.0.1:%u", worker->port);
    snprintf(log, sizeof(log), "%s/worker.%u", test_dir(), worker->port);
    char *argv[] = {
        program,       (char[]){"worker"},     (char[]){"--listen"},        listen, (char[]){"-t"},
        (char[]){"1"}, (char[]){"--backends"}, (char *)(uintptr_t)backends, NULL};
    worker->pid = fleet_spawn(argv, log);
    for (int i = 0; i < TRIES && !fleet_is_up(worker->port); i++)
        clock_sleep_ns(clock_real(), 20 * NS_PER_MS);
    assert_true(fleet_is_up(worker->port));
}

/* Its threads wait for each other as the server's do. */
static void check_spins(const struct worker *worker)
{
    char path[64], text[8192];
    bool found = false;

    snprintf(path, sizeof(path), "/proc/%d/environ", (int)worker->pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t len = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[len] = '\0';
    for (size_t at = 0; at < len; at += strlen(text + at) + 1)
        found = found || strncmp(text + at, "GOMP_SPINCOUNT=", 15) == 0;
    assert_true(found);
}

static struct talk opening(void)
{
    struct talk talk = {0};

    talk_say(&talk, "system", talk_words(1, 60));
    talk_say(&talk, "user", talk_words(2, 20));
    return talk;
}

/* An answer with its probabilities, which differ as soon as a bit of the state does. */
struct detailed {
    int status;
    uint64_t computed;
    char *logprobs; /* owned; NULL: none */
};

static struct detailed ask(struct scenario *scenario, const struct talk *talk)
{
    const char *body = scenario_body(talk, SCENARIO_CHAT, ANSWER, false);
    size_t size = strlen(body) + 64;
    char *with = mem_alloc(size);
    struct http_answer answer;

    snprintf(with, size, "{\"logprobs\":true,\"top_logprobs\":5,%s", body + 1);
    serve_proc_ask(&scenario->proc, "POST", scenario_path(SCENARIO_CHAT), with, &answer);
    struct detailed result = {.status = answer.status};
    if (answer.status == 200) {
        yyjson_doc *doc = yyjson_read(buf_str(&answer.body), answer.body.len, 0);
        yyjson_val *root = yyjson_doc_get_root(doc);
        result.logprobs = yyjson_val_write(yyjson_ptr_get(root, "/choices/0/logprobs"), 0, NULL);
        result.computed = yyjson_get_uint(yyjson_ptr_get(root, "/x_cache/computed"));
        yyjson_doc_free(doc);
    }
    http_answer_fini(&answer);
    mem_free(with);
    return result;
}

/* The device is cleared, which stores its sequences. */
static void store_all(struct scenario *scenario)
{
    struct http_answer answer;
    bool cleared = false;

    while (!cleared) { /* an engine that is busy for seconds is listed as failed */
        serve_proc_ask(&scenario->proc, "POST", "/admin/cache/clear", "{\"tier\":\"device\"}",
                       &answer);
        assert_int_equal(answer.status, 200);
        cleared = strstr(buf_str(&answer.body), "\"failed\":[]") != NULL;
        http_answer_fini(&answer);
    }
}

/* Cold, then from the cache of a server that has loaded its engine anew: the same bits. */
static void check_family(const char *family)
{
    struct worker workers[WORKERS] = {{0}};
    struct scenario scenario;
    struct talk talk = opening();
    char args[512];

    if (access(".deps/fleet/backends/libggml-rpc.so", R_OK) != 0)
        TEST_SKIP("no RPC plug-in here; tools/deps.sh --tools fetches it");
    for (int i = 0; i < WORKERS; i++)
        start_worker(&workers[i]);
    check_spins(&workers[0]);
    snprintf(args, sizeof(args), "--exact --rpc 127.0.0.1:%u,127.0.0.1:%u --backends %s",
             workers[0].port, workers[1].port, backends);
    scenario_open(&scenario, family, args);
    struct detailed cold = ask(&scenario, &talk);
    assert_int_equal(cold.status, 200);
    assert_non_null(cold.logprobs);
    assert_true(cold.computed > ANSWER);
    store_all(&scenario);
    fleet_end(workers[1].pid);
    assert_int_not_equal(ask(&scenario, &talk).status, 200); /* an error, and the server lives */
    start_worker(&workers[1]);
    struct detailed restored = ask(&scenario, &talk);
    for (int i = 0; i < TRIES && restored.status != 200; i++) {
        clock_sleep_ns(clock_real(), 50 * NS_PER_MS);
        restored = ask(&scenario, &talk);
    }
    assert_int_equal(restored.status, 200);
    assert_true(restored.computed < cold.computed);
    assert_string_equal(restored.logprobs, cold.logprobs);
    free(restored.logprobs);
    free(cold.logprobs);
    serve_proc_stop(&scenario.proc);
}

static void test_dense(void **state)
{
    (void)state;
    check_family("qwen3");
}

static void test_hybrid(void **state)
{
    (void)state;
    check_family("qwen35");
}

static void test_sliding(void **state)
{
    (void)state;
    check_family("gemma3");
}

/* A client that closes before it has read the answer: the worker then writes to a closed connection,
 * as when its server ends in the middle of a batch. */
static void close_early(const struct worker *worker)
{
    static const unsigned char hello[33] = {14, 24};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(worker->port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(send(fd, hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
    close(fd);
}

/* A worker outlives its clients, and says when they come and go. */
static void test_a_worker_outlives_its_server(void **state)
{
    struct worker worker = {0};
    struct scenario scenario;
    struct talk talk = opening();
    char args[256], command[1400];

    (void)state;
    if (access(".deps/fleet/backends/libggml-rpc.so", R_OK) != 0)
        TEST_SKIP("no RPC plug-in here; tools/deps.sh --tools fetches it");
    start_worker(&worker);
    for (int i = 0; i < 20; i++)
        close_early(&worker);
    snprintf(args, sizeof(args), "--rpc 127.0.0.1:%u --backends %s", worker.port, backends);
    scenario_open(&scenario, "qwen3", args);
    struct detailed answer = ask(&scenario, &talk);
    assert_int_equal(answer.status, 200);
    free(answer.logprobs);
    assert_int_equal(waitpid(worker.pid, NULL, WNOHANG), 0);
    snprintf(command, sizeof(command),
             "grep -q '^Accepted client connection' %s/worker.%u && "
             "grep -q '^Client connection closed' %s/worker.%u",
             test_dir(), worker.port, test_dir(), worker.port);
    assert_int_equal(system(command), 0);
    serve_proc_stop(&scenario.proc);
}

/* A worker that hangs (it is stopped: the kernel still accepts connections for it): an error soon,
 * not when the load of the engine times out after two minutes. */
static void test_a_worker_that_hangs(void **state)
{
    struct worker worker = {0};
    struct scenario scenario;
    struct talk talk = opening(), other = {0};
    char args[256];

    (void)state;
    if (access(".deps/fleet/backends/libggml-rpc.so", R_OK) != 0)
        TEST_SKIP("no RPC plug-in here; tools/deps.sh --tools fetches it");
    start_worker(&worker);
    snprintf(args, sizeof(args), "--rpc 127.0.0.1:%u --backends %s", worker.port, backends);
    scenario_open(&scenario, "qwen3", args);
    free(ask(&scenario, &talk).logprobs);
    kill(worker.pid, SIGSTOP);
    uint64_t begin_ns = clock_mono_ns(clock_real());
    talk_say(&other, "user", talk_words(3, 40));
    assert_int_equal(ask(&scenario, &other).status, 503);
    assert_int_equal(ask(&scenario, &other).status, 503); /* of the restart that failed */
    uint64_t took_s = (clock_mono_ns(clock_real()) - begin_ns) / NS_PER_S;
    printf("503 after %llu s\n", (unsigned long long)took_s);
    assert_true(took_s < 60);
    kill(worker.pid, SIGCONT);
    struct detailed answer = ask(&scenario, &other);
    for (int i = 0; i < TRIES && answer.status != 200; i++) {
        clock_sleep_ns(clock_real(), 50 * NS_PER_MS);
        answer = ask(&scenario, &other);
    }
    assert_int_equal(answer.status, 200);
    free(answer.logprobs);
    serve_proc_stop(&scenario.proc);
}

/* `doctor` says what RPC lacks. */
static void test_doctor(void **state)
{
    char command[2400], text[256], all[8192] = "";

    (void)state;
    if (access(".deps/fleet/backends/libggml-rpc.so", R_OK) != 0)
        TEST_SKIP("no RPC plug-in here; tools/deps.sh --tools fetches it");
    snprintf(command, sizeof(command), "HOME=%s %s doctor --backends %s 2>&1", test_dir(),
             getenv("HEARTH"), backends);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    while (fgets(text, sizeof(text), pipe) != NULL)
        strncat(all, text, sizeof(all) - strlen(all) - 1);
    pclose(pipe);
    if (strstr(all, "no authentication") == NULL || strstr(all, "private network") == NULL ||
        strstr(all, "disk cache") == NULL)
        fail_msg("%s", all);
}

TEST_SUITE(TEST(test_dense), TEST(test_hybrid), TEST(test_sliding),
           TEST(test_a_worker_outlives_its_server), TEST(test_a_worker_that_hangs),
           TEST(test_doctor))

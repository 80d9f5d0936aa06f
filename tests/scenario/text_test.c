/*
 * text_test.c: texts made to be slow and large, at a real server: others are answered meanwhile,
 * memory stays under the ceiling, and a lack of memory is an error of one request.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "support/serve_proc.h"
#include "support/test.h"

#define MIB ((size_t)1 << 20)

/* {"content":"aaaa..."}: one word, which no tokenizer can cut. */
static char *make_body(const char *head, size_t bytes, const char *tail)
{
    size_t before = strlen(head);
    char *body = mem_alloc(before + bytes + strlen(tail) + 1);

    memcpy(body, head, before);
    memset(body + before, 'a', bytes);
    memcpy(body + before + bytes, tail, strlen(tail) + 1);
    return body;
}

static char *tokenize_body(size_t bytes)
{
    return make_body("{\"content\":\"", bytes, "\"}");
}

static int ask(const struct serve_proc *proc, const char *path, const char *body)
{
    struct http_answer answer;

    serve_proc_ask(proc, "POST", path, body, &answer);
    int status = answer.status;
    http_answer_fini(&answer);
    return status;
}

static bool is_answered(const struct http_client *client)
{
    struct pollfd fd = {.fd = client->fd, .events = POLLIN};

    return poll(&fd, 1, 0) != 0;
}

/* One tenant's long texts would take both workers twice over. They are tokenized one after the
 * other instead, and the other tenant's short text is done before the second of them. */
static void test_short_texts_do_not_wait_for_long_ones(void **state)
{
    struct serve_proc proc = {0};
    struct http_client clients[4];
    char *body = tokenize_body(3 * MIB);

    (void)state;
    serve_proc_start(&proc, "qwen3", "--api-key a:AAAA,b:BBBB");
    for (size_t i = 0; i < COUNT_OF(clients); i++) {
        body[strlen("{\"content\":\"")] = (char)('b' + i); /* none is remembered from another */
        http_client_connect(&clients[i], proc.port);
        http_client_request(&clients[i], "POST", "/tokenize", "x-api-key: AAAA\r\n",
                            str_from(body));
    }
    proc.headers = "x-api-key: BBBB\r\n";
    assert_int_equal(ask(&proc, "/tokenize", "{\"content\":\"Hello\"}"), 200);
    assert_false(is_answered(&clients[1]));
    for (size_t i = 0; i < COUNT_OF(clients); i++)
        http_client_reset(&clients[i]);
    mem_free(body);
    serve_proc_stop(&proc);
}

static uint64_t status_bytes(const struct serve_proc *proc, const char *field)
{
    char path[64], line[256];
    uint64_t kib = 0;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)proc->pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            kib = strtoull(line + strlen(field) + 1, NULL, 10);
    fclose(file);
    assert_true(kib > 0);
    return kib * 1024;
}

/* What the attack sent: refused, and not by using the memory first. */
static void test_memory_stays_under_the_ceiling(void **state)
{
    struct serve_proc proc = {.headers = ""};
    char *text = tokenize_body(24 * MIB), *run = tokenize_body(4 * MIB - 1),
         *chat = make_body("{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"",
                           24 * MIB, "\"}]}");

    (void)state;
    serve_proc_start(&proc, "qwen3", "--max-memory 512MiB");
    assert_int_equal(ask(&proc, "/tokenize", text), 413);
    assert_int_equal(ask(&proc, "/v1/chat/completions", chat), 400);
    int status = ask(&proc, "/tokenize", run);
    assert_true(status == 200 || status == 413 || status == 503);
    if (!TEST_SANITIZED && status_bytes(&proc, "VmHWM") > 512 * MIB)
        fail_msg("%zu MiB", (size_t)(status_bytes(&proc, "VmHWM") / MIB));
    mem_free(text);
    mem_free(run);
    mem_free(chat);
    serve_proc_stop(&proc);
}

/* As under ulimit -v. */
static void survive(const char *args)
{
    struct serve_proc proc = {.headers = ""};
    char *run = tokenize_body(4 * MIB - 1);

    serve_proc_start(&proc, "qwen3", args);
    struct rlimit limit = {status_bytes(&proc, "VmSize") + 160 * MIB, RLIM_INFINITY};
    assert_int_equal(prlimit(proc.pid, RLIMIT_AS, &limit, NULL), 0);
    assert_int_equal(ask(&proc, "/tokenize", run), 503);
    assert_int_equal(ask(&proc, "/tokenize", "{\"content\":\"Hello\"}"), 200);
    mem_free(run);
    serve_proc_stop(&proc);
}

static void test_a_lack_of_memory_ends_one_request(void **state)
{
    (void)state;
    if (TEST_SANITIZED) /* their shadow memory has no limit that could be set */
        skip();
    survive("");
    survive("--isolate");
}

TEST_SUITE(TEST(test_short_texts_do_not_wait_for_long_ones),
           TEST(test_memory_stays_under_the_ceiling), TEST(test_a_lack_of_memory_ends_one_request))

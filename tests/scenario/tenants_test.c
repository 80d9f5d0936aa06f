/*
 * tenants_test.c: keys change while the server runs. The next owner of a server with one key finds
 * nothing of the last one's prompts; a new key of the same name finds everything.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "support/scenario.h"
#include "support/test.h"

static void write_keys(const char *text)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/keys", test_dir());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* How much of the prompt was reused. */
static uint64_t ask(struct serve_proc *proc, const char *headers)
{
    struct talk talk = {0};
    struct http_answer answer;

    talk_say(&talk, "user", talk_words(3, 60));
    proc->headers = headers;
    serve_proc_ask(proc, "POST", scenario_path(SCENARIO_CHAT),
                   scenario_body(&talk, SCENARIO_CHAT, 4, false), &answer);
    if (answer.status != 200)
        fail_msg("status %d: %s", answer.status, buf_str(&answer.body));
    yyjson_doc *doc = yyjson_read(answer.body.data, answer.body.len, 0);
    uint64_t cached =
        yyjson_get_uint(yyjson_doc_ptr_get(doc, "/usage/prompt_tokens_details/cached_tokens"));
    yyjson_doc_free(doc);
    http_answer_fini(&answer);
    return cached;
}

static int status_of(struct serve_proc *proc, const char *headers)
{
    struct http_answer answer;

    proc->headers = headers;
    serve_proc_ask(proc, "GET", "/props", NULL, &answer);
    int status = answer.status;
    http_answer_fini(&answer);
    return status;
}

/* SIGHUP, and the new key is known. */
static void change_keys(struct serve_proc *proc, const char *text, const char *headers)
{
    unsigned waited_ms = 0;

    write_keys(text);
    kill(proc->pid, SIGHUP);
    while (status_of(proc, headers) != 200)
        serve_proc_pause(proc, &waited_ms, "the keys are not read again");
}

static void test_a_sole_tenant_leaves_nothing_behind(void **state)
{
    static const char anna[] = "x-api-key: AAAA\r\n", again[] = "x-api-key: BBBB\r\n",
                      cleo[] = "x-api-key: CCCC\r\n";
    struct serve_proc proc;
    char args[700];

    (void)state;
    write_keys("anna:AAAA\n");
    snprintf(args, sizeof(args), "-c 1024 --ram-cache 64MiB --ssd-dir none --api-key-file %s/keys",
             test_dir());
    serve_proc_start(&proc, "qwen3", args);
    assert_int_equal(ask(&proc, anna), 0);
    assert_true(ask(&proc, anna) > 0);
    change_keys(&proc, "anna:BBBB\n", again);
    assert_true(ask(&proc, again) > 0);
    change_keys(&proc, "cleo:CCCC\n", cleo);
    assert_int_equal(ask(&proc, cleo), 0);
    change_keys(&proc, "anna:BBBB\ncleo:CCCC\n", again);
    assert_true(ask(&proc, again) > 0);
    assert_true(ask(&proc, cleo) > 0);
    serve_proc_stop(&proc);
}

TEST_SUITE(TEST(test_a_sole_tenant_leaves_nothing_behind))

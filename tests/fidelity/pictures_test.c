/*
 * pictures_test.c: prompts with pictures have the log-probabilities of cold runs, from RAM and from
 * disk, with every kind of projector (keeps I111).
 *
 * A server with --exact and small blocks, so that a picture is longer than a block. A conversation
 * with two pictures and text between them is asked with a salt (nothing is found), and without: for
 * the first time, again (state from RAM) and after a restart (from disk); then its next turn. The
 * same in a process of its own, where positions are counted on both sides.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "base/mem.h"
#include "engine/projector.h"
#include "support/models.h"
#include "support/pictures.h"
#include "support/serve_proc.h"
#include "support/test.h"

enum { ANSWER = 4, PROBS_BYTES = 16384, SIDE = 200 };

struct answer {
    uint32_t prompt, ram, ssd;
    char probs[PROBS_BYTES];
};

static char *pictures[2];

static void ask(const struct serve_proc *proc, const char *salt, const char *turn,
                struct answer *answer)
{
    struct http_answer http;
    struct buf body;

    buf_init(&body, 1 << 22);
    buf_appendf(&body,
                "{\"messages\":[{\"role\":\"user\",\"content\":["
                "{\"type\":\"text\",\"text\":\"Compare these two pictures. This is the first: \"},"
                "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,%s\"}},"
                "{\"type\":\"text\",\"text\":\"and this is the second one: \"},"
                "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,%s\"}},"
                "{\"type\":\"text\",\"text\":\"Which one is larger?\"}]}%s],"
                "\"max_tokens\":%d,\"temperature\":0,\"ignore_eos\":true,\"logprobs\":true,"
                "\"top_logprobs\":5,\"cache_salt\":\"%s\"}",
                pictures[0], pictures[1], turn, ANSWER, salt);
    serve_proc_ask(proc, "POST", "/v1/chat/completions", buf_str(&body), &http);
    buf_fini(&body);
    if (http.status != 200)
        fail_msg("%d %s", http.status, buf_str(&http.body));
    yyjson_doc *doc = yyjson_read(buf_str(&http.body), http.body.len, 0);
    char *probs = yyjson_val_write(yyjson_doc_ptr_get(doc, "/choices/0/logprobs/content"), 0, NULL);
    assert_non_null(probs);
    assert_true(strlen(probs) < PROBS_BYTES);
    snprintf(answer->probs, PROBS_BYTES, "%s", probs);
    answer->ram = (uint32_t)yyjson_get_uint(yyjson_doc_ptr_get(doc, "/x_cache/ram"));
    answer->ssd = (uint32_t)yyjson_get_uint(yyjson_doc_ptr_get(doc, "/x_cache/ssd"));
    answer->prompt = (uint32_t)yyjson_get_uint(yyjson_doc_ptr_get(doc, "/usage/prompt_tokens"));
    free(probs);
    yyjson_doc_free(doc);
    http_answer_fini(&http);
}

static void expect_same(const struct answer *a, const struct answer *cold, const char *what)
{
    if (strcmp(a->probs, cold->probs) != 0)
        fail_msg("%s: other log-probabilities:\n%s\n%s", what, a->probs, cold->probs);
}

/* All but the last of a prompt's whole blocks come from the cache. */
static void expect_reuse(uint32_t reused, uint32_t prompt)
{
    if (reused < prompt / 2)
        fail_msg("%u of %u tokens were reused", reused, prompt);
}

static void check(const char *family, const char *projector, const char *more)
{
    static const char turn[] = ",{\"role\":\"assistant\",\"content\":\"The second.\"},"
                               "{\"role\":\"user\",\"content\":\"Are you sure?\"}";
    static struct answer cold, next, answer;
    struct serve_proc proc = {0};
    char args[2048];

    if (!projector_available())
        TEST_SKIP("this build of llama.cpp has no libmtmd");
    pictures[0] = test_base64(test_png(SIDE, SIDE, 1));
    pictures[1] = test_base64(test_png(SIDE + 60, SIDE - 60, 2));
    snprintf(args, sizeof(args),
             "--mmproj %s --exact --block-size 16 --ubatch-size 64 -t 1 --ssd-dir %s/ssd "
             "--ssd-free 1MiB %s",
             test_model(projector), test_dir(), more);
    serve_proc_start(&proc, family, args);
    ask(&proc, "a", "", &cold);
    ask(&proc, "b", turn, &next);
    assert_string_not_equal(cold.probs, next.probs);
    ask(&proc, "", "", &answer);
    expect_same(&answer, &cold, "the first time");
    ask(&proc, "", "", &answer);
    expect_same(&answer, &cold, "from RAM");
    expect_reuse(answer.ram, answer.prompt);
    serve_proc_stop(&proc);
    serve_proc_restart(&proc);
    ask(&proc, "", turn, &answer);
    expect_same(&answer, &next, "the next turn, from disk");
    expect_reuse(answer.ssd, answer.prompt);
    ask(&proc, "", "", &answer);
    expect_same(&answer, &cold, "from both");
    serve_proc_stop(&proc);
    mem_free(pictures[0]);
    mem_free(pictures[1]);
}

static void test_i111_causal(void **state)
{
    (void)state;
    check("llama", "mmproj-mlp", "");
}

static void test_i111_not_causal(void **state)
{
    (void)state;
    check("gemma3", "mmproj-gemma3", "");
}

static void test_i111_mrope(void **state)
{
    (void)state;
    check("qwen2vl", "mmproj-qwen2vl", "");
}

static void test_i111_mrope_in_a_process(void **state)
{
    (void)state;
    check("qwen2vl", "mmproj-qwen2vl", "--isolate");
}

TEST_SUITE(TEST(test_i111_causal), TEST(test_i111_not_causal), TEST(test_i111_mrope),
           TEST(test_i111_mrope_in_a_process))

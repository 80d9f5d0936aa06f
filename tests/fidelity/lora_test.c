/*
 * lora_test.c: a served model with adapters: each set of them has the log-probabilities of its own
 * cold runs, from RAM and from disk, and never those of another set (keeps I97).
 *
 * A server with --exact, RAM and disk, and three made adapters, the last of which is activated by
 * the beginning of an answer. Each set is asked with a salt of its own (nothing is found), and
 * without: for the first time, again (state from RAM), and after a restart (from disk). The same
 * with --isolate.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "lab/model_make.h"
#include "support/models.h"
#include "support/scenario.h"
#include "support/test.h"

enum { ANSWER = 4, PROBS_BYTES = 16384 };

static const char invocation[] = "<|im_start|>assistant";

/* The last one is activated. */
static const char *const sets[] = {
    "[]",
    "[{\"id\":0,\"scale\":1}]",
    "[{\"id\":0,\"scale\":0.5}]",
    "[{\"id\":1,\"scale\":1}]",
    "[{\"id\":2,\"scale\":1}]",
};
enum { SETS = COUNT_OF(sets), ACTIVATED = SETS - 1 };

struct answer {
    uint32_t prompt, ram, ssd;
    char probs[PROBS_BYTES];
};

static void make_adapter(char path[512], uint64_t seed, const char *text)
{
    snprintf(path, 512, "%s/lora%llu.gguf", test_dir(), (unsigned long long)seed);
    assert_ok(model_make_adapter(
        &(struct model_adapter_options){
            .base = test_model("qwen3"), .out = path, .seed = seed, .invocation = text},
        NULL));
}

static void start(struct serve_proc *proc, const char *more)
{
    char paths[3][512], args[3072];

    for (uint64_t i = 0; i < 3; i++)
        make_adapter(paths[i], i, i == 2 ? invocation : NULL);
    snprintf(args, sizeof(args),
             "--exact --ubatch-size 64 -t 1 --ssd-dir %s/ssd%s --ssd-free 1MiB --lora %s=0 --lora "
             "%s=0 --lora %s=0 %s",
             test_dir(), more, paths[0], paths[1], paths[2], more);
    serve_proc_start(proc, "qwen3", args);
}

static void ask(const struct serve_proc *proc, const char *set, const char *salt,
                struct answer *answer)
{
    struct talk talk = {0};
    struct http_answer http;
    struct buf body;

    talk_say(&talk, "system", talk_words(1, 60));
    talk_say(&talk, "user", talk_words(2, 10));
    const char *plain = scenario_body(&talk, SCENARIO_CHAT, ANSWER, false);
    buf_init(&body, 1 << 20);
    buf_appendf(&body, "{\"logprobs\":true,\"top_logprobs\":5,\"cache_salt\":\"%s\",\"lora\":%s,%s",
                salt, set, plain + 1);
    serve_proc_ask(proc, "POST", "/v1/chat/completions", buf_str(&body), &http);
    buf_fini(&body);
    if (http.status != 200)
        fail_msg("%s: %d %s", set, http.status, buf_str(&http.body));
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

/* The first of a set reuses nothing of another one, except that an activated adapter continues from
 * the state of the model without adapters. */
static void check_ram(const struct serve_proc *proc, const struct answer *cold)
{
    struct answer answer;

    for (size_t i = 0; i < SETS; i++) {
        ask(proc, sets[i], "", &answer);
        expect_same(&answer, &cold[i], "the first time");
        assert_int_equal(answer.ram > 0, i == ACTIVATED);
        ask(proc, sets[i], "", &answer);
        expect_same(&answer, &cold[i], "from RAM");
        assert_true(answer.ram > 0);
    }
}

static void check(const char *more)
{
    static struct answer cold[SETS];
    struct serve_proc proc = {0};
    struct answer answer;
    char salt[8];

    start(&proc, more);
    for (size_t i = 0; i < SETS; i++) {
        snprintf(salt, sizeof(salt), "s%zu", i);
        ask(&proc, sets[i], salt, &cold[i]);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(cold[i].probs, cold[k].probs);
    }
    check_ram(&proc, cold);
    serve_proc_stop(&proc);
    serve_proc_restart(&proc);
    for (size_t i = SETS; i-- > 0;) {
        ask(&proc, sets[i], "", &answer);
        expect_same(&answer, &cold[i], "from disk");
        /* the last set has brought the model's own state to RAM */
        assert_true(i == 0 ? answer.ram > 0 : answer.ssd > 0);
    }
    serve_proc_stop(&proc);
}

static void test_i97_sets_of_adapters(void **state)
{
    (void)state;
    check("");
}

static void test_i97_sets_of_adapters_in_a_process(void **state)
{
    (void)state;
    check("--isolate");
}

TEST_SUITE(TEST(test_i97_sets_of_adapters), TEST(test_i97_sets_of_adapters_in_a_process))

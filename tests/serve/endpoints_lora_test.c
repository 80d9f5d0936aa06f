/*
 * endpoints_lora_test.c: GET and POST /lora-adapters: the adapters of requests that name none.
 */
#include <stdio.h>
#include <string.h>

#include "lab/model_make.h"
#include "support/models.h"
#include "support/serve_proc.h"
#include "support/test.h"

/* A request after an unload waits for the model. */
static void reload(const struct serve_proc *proc)
{
    struct http_answer http;
    char path[512];

    const char *name = strrchr(proc->model, '/') + 1;
    snprintf(path, sizeof(path), "/v1/models/%.*s/unload", (int)strcspn(name, "."), name);
    serve_proc_ask(proc, "POST", path, "", &http);
    assert_int_equal(http.status, 200);
    http_answer_fini(&http);
    serve_proc_ask(proc, "POST", "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":1}", &http);
    assert_int_equal(http.status, 200);
    http_answer_fini(&http);
}

static void test_the_default_can_be_changed(void **state)
{
    char paths[2][512], args[1280];
    struct serve_proc proc = {0};
    struct http_answer http;

    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/lora%llu.gguf", test_dir(), (unsigned long long)i);
        assert_ok(model_make_adapter(
            &(struct model_adapter_options){.base = test_model("qwen3"),
                                            .out = paths[i],
                                            .seed = i,
                                            .invocation = i == 0 ? "<|im_start|>" : NULL},
            NULL));
    }
    snprintf(args, sizeof(args), "--no-cache --lora %s=0 --lora %s=0.5", paths[0], paths[1]);
    serve_proc_start(&proc, "qwen3", args);
    serve_proc_ask(&proc, "GET", "/lora-adapters", NULL, &http);
    assert_int_equal(http.status, 200);
    assert_non_null(
        strstr(buf_str(&http.body), "{\"id\":1,\"path\":\"lora1.gguf\",\"scale\":0.5}"));
    assert_non_null(strstr(buf_str(&http.body), "\"alora_invocation_tokens\":["));
    http_answer_fini(&http);
    serve_proc_ask(&proc, "POST", "/lora-adapters", "[{\"id\":1,\"scale\":0.25}]", &http);
    assert_int_equal(http.status, 200);
    assert_non_null(strstr(buf_str(&http.body), "\"lora1.gguf\",\"scale\":0.25"));
    http_answer_fini(&http);
    reload(&proc);
    serve_proc_ask(&proc, "GET", "/lora-adapters", NULL, &http);
    assert_int_equal(http.status, 200);
    if (strstr(buf_str(&http.body), "\"lora1.gguf\",\"scale\":0.25") == NULL)
        fail_msg("after a reload: %s", buf_str(&http.body));
    http_answer_fini(&http);
    static const char *const wrong[] = {"",
                                        "{}",
                                        "[{\"id\":3,\"scale\":1}]",
                                        "[{\"scale\":1}]",
                                        "[1]",
                                        "[{\"id\":0,\"scale\":1e9}]"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        serve_proc_ask(&proc, "POST", "/lora-adapters", wrong[i], &http);
        if (http.status != 400)
            fail_msg("%s: %d %s", wrong[i], http.status, buf_str(&http.body));
        http_answer_fini(&http);
    }
    serve_proc_ask(&proc, "GET", "/lora-adapters?model=unknown", NULL, &http);
    assert_int_equal(http.status, 404);
    http_answer_fini(&http);
    serve_proc_stop(&proc);
}

TEST_SUITE(TEST(test_the_default_can_be_changed))

/* endpoints_ollama_test.c: Ollama's endpoints: models, version, refusals; prompts with and without
 * text; errors in its form. */
#include "serve/api_impl.h"

#include <string.h>

#include "support/api_kit.h"
#include "support/models.h"
#include "support/pool_kit.h"
#include "support/test.h"

#define ASK "\"options\":{\"num_predict\":3,\"temperature\":0}"

static void test_models(void **state)
{
    struct api_kit_options options = {.name = "org/model", .fake.context = 2048};
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    doc = api_kit_get(&kit, "/api/tags", 200);
    assert_string_equal(json_at(doc, "/models/0/name"), "org/model");
    assert_string_equal(json_at(doc, "/models/0/model"), "org/model");
    assert_string_equal(json_at(doc, "/models/0/details/format"), "gguf");
    assert_int_equal(strlen(json_at(doc, "/models/0/digest")), 64);
    yyjson_doc_free(doc);
    doc = api_kit_get(&kit, "/api/ps", 200);
    assert_int_equal(json_number_at(doc, "/models/0/context_length"), 2048);
    assert_string_equal(json_at(doc, "/models/0/expires_at"), "9999-12-31T23:59:59Z");
    yyjson_doc_free(doc);
    doc = api_kit_get(&kit, "/api/version", 200);
    assert_int_equal(strncmp(json_at(doc, "/version"), "0.", 2), 0);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/api/show", "{\"name\":\"org/model:latest\"}", 200);
    assert_string_equal(json_at(doc, "/capabilities/0"), "completion");
    assert_string_equal(json_at(doc, "/capabilities/1"), "tools");
    assert_non_null(json_at(doc, "/model_info/general.architecture"));
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/api/show", "{\"model\":\"other\"}", 404);
    assert_string_equal(json_at(doc, "/error"), "model 'other' not found");
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* A model that is not loaded is listed, and loaded by a request without a prompt. */
static void test_load_and_unload(void **state)
{
    struct pool_kit models;
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    pool_kit_open(&models, &(struct pool_options){0}, 2);
    api_kit_open(&kit, &(struct api_kit_options){.pool = models.pool});
    doc = api_kit_get(&kit, "/api/tags", 200);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/models")), 2);
    assert_string_equal(json_at(doc, "/models/1/name"), "b");
    assert_string_equal(json_at(doc, "/models/1/digest"), "");
    yyjson_doc_free(doc);
    doc = api_kit_get(&kit, "/api/ps", 200);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/models")), 0);
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_post(&kit, "/api/show", "{\"model\":\"b\"}", 200));
    doc = api_kit_post(&kit, "/api/generate", "{\"model\":\"b\"}", 200);
    assert_string_equal(json_at(doc, "/model"), "b");
    assert_string_equal(json_at(doc, "/done_reason"), "load");
    yyjson_doc_free(doc);
    doc = api_kit_get(&kit, "/api/ps", 200);
    assert_string_equal(json_at(doc, "/models/0/name"), "b");
    yyjson_doc_free(doc);
    doc =
        api_kit_post(&kit, "/api/chat", "{\"model\":\"b\",\"messages\":[],\"keep_alive\":0}", 200);
    assert_string_equal(json_at(doc, "/done_reason"), "unload");
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_post(&kit, "/api/generate", "{\"model\":\"z\",\"keep_alive\":0}", 404));
    api_kit_close(&kit);
    models.pool = NULL; /* the kit's by now */
    pool_kit_close(&models);
}

static enum err refuse_inspect(const struct pool_spec *spec, bool quick, struct model_file *file,
                               struct errinfo *info, void *arg)
{
    (void)spec, (void)quick, (void)file, (void)arg;
    return err_set(info, ERR_UNSUPPORTED, "nothing is loaded here");
}

static enum err refuse_load(const struct pool_spec *spec, bool warm,
                            bool (*progress)(float done, void *arg), void *progress_arg,
                            struct model **model, struct errinfo *info, void *arg)
{
    (void)warm, (void)progress, (void)progress_arg, (void)model;
    return refuse_inspect(spec, false, NULL, info, arg);
}

/* Clients do not offer such a model for chats. */
static void expect_embedding(struct api_kit *kit, const char *body)
{
    yyjson_doc *doc = api_kit_post(kit, "/api/show", body, 200);

    assert_string_equal(json_at(doc, "/capabilities/0"), "embedding");
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/capabilities")), 1);
    yyjson_doc_free(doc);
}

/* Details come from the header of the file, as they do from the model once it is loaded. */
static void test_models_that_are_not_loaded(void **state)
{
    struct pool_options options = {.ops = {.inspect = refuse_inspect, .load = refuse_load}};
    struct pool *pool;
    struct api_kit kit;
    yyjson_doc *doc, *loaded;

    (void)state;
    assert_ok(pool_create(&pool, &options, NULL));
    assert_ok(pool_add(pool, &(struct pool_spec){.name = "q", .path = test_model("qwen3")}, NULL));
    assert_ok(pool_add(pool, &(struct pool_spec){.name = "gone", .path = "/no/such"}, NULL));
    assert_ok(pool_add(pool, &(struct pool_spec){.name = "e", .path = test_model("bert")}, NULL));
    api_kit_open(&kit, &(struct api_kit_options){.pool = pool});
    for (int again = 0; again < 2; again++) { /* from the file, and from memory */
        doc = api_kit_get(&kit, "/api/tags", 200);
        assert_string_equal(json_at(doc, "/models/0/details/family"), "qwen3");
        assert_string_equal(json_at(doc, "/models/0/details/families/0"), "qwen3");
        assert_string_equal(json_at(doc, "/models/1/details/family"), "");
        assert_string_equal(json_at(doc, "/models/1/details/parameter_size"), "");
        /* Zed cannot read a list without them */
        assert_true(strcmp(json_at(doc, "/models/0/modified_at"), "1971") > 0);
        assert_string_equal(json_at(doc, "/models/1/modified_at"), "1970-01-01T00:00:00Z");
        if (again == 0)
            yyjson_doc_free(doc);
    }
    yyjson_doc *show = api_kit_post(&kit, "/api/show", "{\"model\":\"q\"}", 200);
    assert_string_equal(json_at(show, "/model_info/general.architecture"), "qwen3");
    assert_true(json_number_at(show, "/model_info/qwen3.context_length") > 0);
    assert_true(json_number_at(show, "/model_info/qwen3.block_count") > 0);
    assert_string_equal(json_at(show, "/capabilities/1"), "tools");
    assert_true(strcmp(json_at(show, "/modified_at"), "1971") > 0);
    assert_true(strlen(json_at(show, "/template")) > 100);
    yyjson_doc_free(show);
    yyjson_doc_free(api_kit_post(&kit, "/api/show", "{\"model\":\"gone\"}", 200));
    expect_embedding(&kit, "{\"model\":\"e\"}");
    api_kit_close(&kit);
    api_kit_open(&kit, &(struct api_kit_options){.family = "bert", .name = "e"});
    expect_embedding(&kit, "{\"model\":\"e\"}");
    api_kit_close(&kit);
    api_kit_open(&kit, &(struct api_kit_options){.family = "qwen3"});
    loaded = api_kit_get(&kit, "/api/tags", 200);
    static const char *const same[] = {"/models/0/details/parameter_size",
                                       "/models/0/details/quantization_level"};
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        assert_true(json_at(doc, same[i])[0] != '\0');
        assert_string_equal(json_at(doc, same[i]), json_at(loaded, same[i]));
    }
    yyjson_doc_free(loaded);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

static void test_unloading_needs_an_admin_key(void **state)
{
    static const char *const keys[] = {"one:sk-1"};
    struct api_kit_options options = {
        .api.auth = {.keys = keys, .keys_count = 1, .admin = "sk-admin"}};
    struct api_kit kit;
    struct http_answer answer;

    (void)state;
    api_kit_open(&kit, &options);
    api_kit_ask(&kit, "POST", "/api/generate", "authorization: Bearer sk-1\r\n",
                "{\"model\":\"fake\",\"keep_alive\":0}", &answer);
    assert_int_equal(answer.status, 403);
    assert_int_equal(strncmp(buf_str(&answer.body), "{\"error\":\"Unloading", 19), 0);
    http_answer_fini(&answer);
    api_kit_ask(&kit, "POST", "/api/generate", "authorization: Bearer sk-admin\r\n",
                "{\"model\":\"fake\",\"keep_alive\":0}", &answer);
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
    api_kit_close(&kit);
}

static size_t lines_of(const struct http_answer *answer)
{
    size_t lines = 0;

    for (const char *at = buf_str(&answer->body); (at = strchr(at, '\n')); at++)
        lines++;
    return lines;
}

static void test_answers(void **state)
{
    struct api_kit kit;
    struct http_answer answer;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    api_kit_ask(&kit, "POST", "/api/chat", NULL,
                "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]," ASK "}", &answer);
    assert_int_equal(answer.status, 200);
    assert_true(str_eq(http_answer_header(&answer, "content-type"), STR("application/x-ndjson")));
    assert_true(lines_of(&answer) >= 2);
    assert_non_null(strstr(buf_str(&answer.body), "\"done\":true,\"done_reason\":\"length\""));
    assert_non_null(strstr(buf_str(&answer.body), "\"eval_count\":3"));
    http_answer_fini(&answer);
    doc = api_kit_post(&kit, "/api/generate", "{\"prompt\":\"Hi\",\"stream\":false," ASK "}", 200);
    uint64_t prompt = json_number_at(doc, "/prompt_eval_count");
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/context")), prompt + 3);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/api/generate",
                       "{\"prompt\":\"Hi\",\"stream\":false,\"context\":[65,66]," ASK "}", 200);
    assert_int_equal(json_number_at(doc, "/prompt_eval_count"), prompt + 2);
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/api/generate",
                       "{\"prompt\":\"Hi\",\"raw\":true,\"stream\":false," ASK "}", 200);
    assert_int_equal(json_number_at(doc, "/prompt_eval_count"), 2);
    assert_null(yyjson_doc_ptr_get(doc, "/context"));
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* The same vectors in the forms of Ollama (new and old) and llama-server. */
static void test_vectors(void **state)
{
    struct api_kit kit;
    yyjson_doc *list, *old, *llama;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.fake.pooling = ENGINE_POOLING_MEAN});
    list = api_kit_post(&kit, "/api/embed", "{\"input\":[\"one\",\"two\"]}", 200);
    assert_string_equal(json_at(list, "/model"), "fake");
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(list, "/embeddings")), 2);
    assert_int_equal(json_number_at(list, "/prompt_eval_count"), 6);
    llama = api_kit_post(&kit, "/embedding", "{\"content\":[\"one\",\"two\"]}", 200);
    assert_int_equal(json_number_at(llama, "/1/index"), 1);
    for (size_t i = 0; i < ENGINE_FAKE_VECTOR; i++) {
        yyjson_val *a = yyjson_arr_get(yyjson_doc_ptr_get(list, "/embeddings/1"), i);
        yyjson_val *b = yyjson_arr_get(yyjson_doc_ptr_get(llama, "/1/embedding/0"), i);
        assert_true(yyjson_is_num(a) && yyjson_equals(a, b));
    }
    old = api_kit_post(&kit, "/api/embeddings", "{\"prompt\":\"two\"}", 200);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(old, "/embedding")), ENGINE_FAKE_VECTOR);
    yyjson_doc_free(list);
    yyjson_doc_free(llama);
    yyjson_doc_free(old);
    list = api_kit_post(&kit, "/embedding", "{\"content\":\"x\",\"embd_normalize\":1}", 400);
    yyjson_doc_free(list);
    static const char *const empty[] = {"{\"input\":[]}", "{\"input\":\"\"}", "{\"prompt\":\"\"}"};
    for (size_t i = 0; i < COUNT_OF(empty); i++) {
        list = api_kit_post(&kit, i < 2 ? "/api/embed" : "/api/embeddings", empty[i], 200);
        yyjson_val *none = yyjson_doc_ptr_get(list, i < 2 ? "/embeddings" : "/embedding");
        assert_true(yyjson_is_arr(none) && yyjson_arr_size(none) == 0);
        yyjson_doc_free(list);
    }
    api_kit_close(&kit);
}

static void test_errors(void **state)
{
    static const struct {
        const char *method, *path, *body;
        int status;
        const char *part;
    } cases[] = {
        {"POST", "/api/chat", "{\"messages\":5}", 400, "'messages' must be an array"},
        {"POST", "/api/pull", "{}", 501, "hearth pull"},
        {"POST", "/api/push", "{}", 501, "pushed"},
        {"POST", "/api/create", "{}", 501, "NAME=FILE"},
        {"POST", "/api/copy", "{}", 501, "NAME=FILE"},
        {"DELETE", "/api/delete", "{}", 501, "hearth rm"},
        {"POST", "/api/embed", "{}", 400, "'prompt' is missing"},
        {"GET", "/api/nothing", NULL, 404, "/api/chat"},
        {"GET", "/api/chat", NULL, 405, ""},
    };
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct http_answer answer;

        api_kit_ask(&kit, cases[i].method, cases[i].path, NULL, cases[i].body, &answer);
        assert_int_equal(answer.status, cases[i].status);
        assert_int_equal(strncmp(buf_str(&answer.body), "{\"error\":\"", 10), 0);
        assert_non_null(strstr(buf_str(&answer.body), cases[i].part));
        http_answer_fini(&answer);
    }
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_models), TEST(test_load_and_unload), TEST(test_models_that_are_not_loaded),
           TEST(test_unloading_needs_an_admin_key), TEST(test_answers), TEST(test_vectors),
           TEST(test_errors))

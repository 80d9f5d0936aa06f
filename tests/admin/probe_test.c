/* probe_test.c: a probe says what a request then does, and changes nothing; warming does it. */
#include "serve/api_impl.h"

#include <stdio.h>
#include <string.h>

#include "support/api_kit.h"
#include "support/test.h"

#define CHAT  "/v1/chat/completions"
#define PROBE "/admin/cache/probe"
#define A                                                                                         \
    "{\"messages\":[{\"role\":\"system\",\"content\":\"A long enough beginning that all of them " \
    "share, word by word.\"},"
#define ONE A "{\"role\":\"user\",\"content\":\"The first question of them all\"}]"
#define TWO A "{\"role\":\"user\",\"content\":\"Another question, quite different\"}]"

static yyjson_doc *post(struct api_kit *kit, const char *path, const char *body)
{
    return api_kit_post(kit, path, body, 200);
}

static void wait_idle(struct api_kit *kit)
{
    assert_ok(sched_wait_turn(model_sched(kit->model), 30000, NULL));
}

static void check_sum(yyjson_doc *doc)
{
    uint64_t sum = 0;
    static const char *const parts[] = {"/would/device", "/would/ram", "/would/ssd",
                                        "/would/remote", "/would/computed"};

    for (size_t i = 0; i < COUNT_OF(parts); i++)
        sum += json_number_at(doc, parts[i]);
    assert_int_equal(sum, json_number_at(doc, "/prompt_tokens"));
}

/* The blocks are the whole prompt, without a gap. */
static void check_blocks(yyjson_doc *doc)
{
    uint64_t at = 0;
    size_t i, count;
    yyjson_val *block;

    yyjson_arr_foreach(yyjson_doc_ptr_get(doc, "/blocks"), i, count, block)
    {
        assert_int_equal(yyjson_get_uint(yyjson_obj_get(block, "begin")), at);
        at = yyjson_get_uint(yyjson_obj_get(block, "end"));
    }
    assert_int_equal(at, json_number_at(doc, "/prompt_tokens"));
}

/* Probes a prompt, asks for it, and compares. */
static void check(struct api_kit *kit, const char *prompt, bool device)
{
    char body[1024];
    yyjson_doc *probe, *again, *answer;

    snprintf(body, sizeof(body), "%s}", prompt);
    probe = post(kit, PROBE, body);
    again = post(kit, PROBE, body);
    /* it counts as no use */
    assert_true(yyjson_equals(yyjson_doc_get_root(probe), yyjson_doc_get_root(again)));
    check_sum(probe);
    check_blocks(probe);
    snprintf(body, sizeof(body), "%s,\"max_tokens\":1,\"temperature\":0}", prompt);
    answer = post(kit, CHAT, body);
    wait_idle(kit);
    assert_int_equal(json_number_at(probe, "/prompt_tokens"),
                     json_number_at(answer, "/usage/prompt_tokens"));
    assert_int_equal(json_number_at(probe, "/would/device"),
                     json_number_at(answer, "/x_cache/device"));
    assert_int_equal(json_number_at(probe, "/would/ram"), json_number_at(answer, "/x_cache/ram"));
    assert_int_equal(json_number_at(probe, "/would/computed"),
                     json_number_at(answer, "/x_cache/computed"));
    assert_string_equal(json_at(probe, "/reason"), json_at(answer, "/x_cache/reason"));
    assert_string_equal(json_at(probe, "/match"), json_at(answer, "/x_cache/match"));
    assert_int_equal(json_number_at(probe, "/would/device") > 0, device);
    yyjson_doc_free(probe);
    yyjson_doc_free(again);
    yyjson_doc_free(answer);
}

static void test_a_probe_says_what_a_request_does(void **state)
{
    struct api_kit kit;

    (void)state;
    for (int park = 0; park < 2; park++) {
        api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 8 << 20, .sched.park = park});
        check(&kit, ONE, false);
        check(&kit, ONE, park);
        check(&kit, TWO, park);
        check(&kit, ONE, false); /* TWO has cut its end off the device, which is in memory */
        api_kit_close(&kit);
    }
}

static void test_against(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 8 << 20});
    doc = post(&kit, PROBE, ONE ",\"against\":" TWO "}}");
    assert_non_null(strstr(json_at(doc, "/first_difference/want"), "The first"));
    assert_non_null(strstr(json_at(doc, "/first_difference/have"), "Another"));
    assert_string_equal(json_at(doc, "/first_difference/message"), "user[1]");
    yyjson_doc_free(doc);
    doc = post(&kit, PROBE, ONE ",\"against\":" ONE "}}");
    assert_true(yyjson_is_null(yyjson_doc_ptr_get(doc, "/first_difference")));
    yyjson_doc_free(doc);
    doc = post(&kit, PROBE, "{\"tokens\":[1,2,3],\"against\":{\"tokens\":[1,2,4,5]}}");
    assert_int_equal(json_number_at(doc, "/first_difference/token"), 2);
    assert_int_equal(json_number_at(doc, "/against_tokens"), 4);
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_post(&kit, PROBE, ONE ",\"against\":7}", 400));
    yyjson_doc_free(api_kit_post(&kit, PROBE, ONE ",\"against\":{}}", 400));
    yyjson_doc_free(api_kit_post(&kit, PROBE, "{}", 400));
    yyjson_doc_free(api_kit_post(&kit, PROBE, "{\"dialect\":\"moon\",\"prompt\":\"x\"}", 400));
    yyjson_doc_free(api_kit_post(&kit, PROBE, "{\"tokens\":[-1]}", 400));
    yyjson_doc_free(api_kit_post(&kit, PROBE, "{\"tokens\":[99999999]}", 400));
    api_kit_close(&kit);
}

/* The same conversation as each dialect writes it. */
static void test_dialects(void **state)
{
    static const char *const bodies[] = {
        "{\"messages\":[{\"role\":\"system\",\"content\":\"Be kind\"},"
        "{\"role\":\"user\",\"content\":\"Hi\"}]}",
        "{\"dialect\":\"messages\",\"max_tokens\":1,\"system\":\"Be kind\","
        "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}",
        /* by their fields */
        "{\"max_tokens\":1,\"system\":\"Be kind\","
        "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}",
        "{\"instructions\":\"Be kind\",\"input\":\"Hi\"}",
    };
    struct api_kit kit;
    uint64_t tokens = 0;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 8 << 20});
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        yyjson_doc *doc = post(&kit, PROBE, bodies[i]);
        uint64_t its = json_number_at(doc, "/prompt_tokens");
        assert_true(its > 0 && (i == 0 || its == tokens));
        tokens = its;
        yyjson_doc_free(doc);
    }
    api_kit_close(&kit);
}

static void test_warm(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;
    uint64_t prompt;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 8 << 20, .prompts = true});
    doc = post(&kit, "/admin/cache/warm", ONE "}");
    prompt = json_number_at(doc, "/prompt_tokens");
    assert_int_equal(json_number_at(doc, "/computed"), prompt);
    assert_null(yyjson_doc_ptr_get(doc, "/choices")); /* nothing of an answer */
    yyjson_doc_free(doc);
    wait_idle(&kit);
    doc = post(&kit, CHAT, ONE ",\"max_tokens\":2,\"temperature\":0}");
    assert_int_equal(json_number_at(doc, "/x_cache/computed"), 1);
    yyjson_doc_free(doc);
    doc = api_kit_get(&kit, "/props", 200);
    /* of the chat: warming left no turn */
    assert_int_equal(json_number_at(doc, "/replay/remembered"), 1);
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_post(&kit, "/admin/cache/warm", "{}", 400));
    api_kit_close(&kit);
}

/* What an administrator warms for a tenant is the tenant's. */
static void test_for_a_tenant(void **state)
{
    static const char *const keys[] = {"alice:k1,bob:k2"};
    struct api_kit_options options = {.api.auth = {.keys = keys, .keys_count = 1, .admin = "boss"},
                                      .ram_bytes = 8 << 20};
    static const char *const readers[] = {"x-api-key: k1\r\n", "x-api-key: k2\r\n"};
    struct http_answer answer;
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    api_kit_ask(&kit, "POST", "/admin/cache/warm", "x-api-key: boss\r\n",
                ONE ",\"tenant\":\"alice\"}", &answer);
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
    wait_idle(&kit);
    for (size_t i = 0; i < COUNT_OF(readers); i++) {
        yyjson_doc *doc;

        api_kit_ask(&kit, "POST", CHAT, readers[i], ONE ",\"max_tokens\":1}", &answer);
        doc = yyjson_read(answer.body.data, answer.body.len, 0);
        assert_int_equal(json_number_at(doc, "/x_cache/computed") == 1, i == 0);
        yyjson_doc_free(doc);
        http_answer_fini(&answer);
    }
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_a_probe_says_what_a_request_does), TEST(test_against), TEST(test_dialects),
           TEST(test_warm), TEST(test_for_a_tenant))

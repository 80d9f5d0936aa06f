/*
 * Tests of src/serve/stored.c: chains render like the conversation in full; responses are read,
 * listed and deleted by their tenant only, and outlive a restart on disk.
 */
#include "serve/stored.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json_write.h"
#include "serve/shelf.h"
#include "support/api_kit.h"
#include "support/request_kit.h"
#include "support/test.h"

#define RESPONSES "/v1/responses"
#define LETTERS   "'temperature':0,'max_output_tokens':16,'logit_bias':{'97':90,'98':90,'99':90}"

static const char *const keys[] = {"anna:a-key", "bert:b-key"};

struct place {
    struct shelf *shelf;
    struct api_kit kit;
};

static void open_place(struct place *place, int dir, bool tenants)
{
    struct shelf_options shelf = {
        .count_max = 100, .bytes_max = 1 << 20, .dir = dir, .fs = file_sys_real()};
    struct api_kit_options options = {.ram_bytes = 64 << 20, .prompts = true};

    place->shelf = shelf_create(&shelf);
    options.api.stored = place->shelf;
    if (tenants)
        options.api.auth = (struct auth_options){.keys = keys, .keys_count = COUNT_OF(keys)};
    api_kit_open(&place->kit, &options);
}

static void close_place(struct place *place)
{
    api_kit_close(&place->kit);
    shelf_destroy(&place->shelf);
}

static void keep_id(yyjson_doc *doc, char id[64])
{
    snprintf(id, 64, "%s", json_at(doc, "/id"));
    yyjson_doc_free(doc);
}

static yyjson_doc *post(struct place *place, const char *fields, const char *previous, int status)
{
    char body[2048];

    snprintf(body, sizeof(body), "{" LETTERS ",%s%s%s%s}", fields,
             previous ? ",'previous_response_id':'" : "", previous ? previous : "",
             previous ? "'" : "");
    return api_kit_post(&place->kit, RESPONSES, json_quotes(body), status);
}

/* The items of the first answers, and another question, as a client would send them. */
static yyjson_doc *post_in_full(struct place *place, yyjson_doc *first, yyjson_doc *second)
{
    struct buf body;
    struct json json = json_begin(&body, 1 << 16, '{');

    json_key_text(&json, "instructions", "be brief");
    json_key_uint(&json, "max_output_tokens", 16);
    json_key_uint(&json, "temperature", 0);
    json_key_raw(&json, "logit_bias", STR("{\"97\":90,\"98\":90,\"99\":90}"));
    json_key_open(&json, "input", '[');
    json_raw(&json, STR("{\"role\":\"user\",\"content\":\"one\"}"));
    json_value(&json, yyjson_doc_ptr_get(first, "/output/0"));
    json_raw(&json, STR("{\"role\":\"user\",\"content\":\"two\"}"));
    json_value(&json, yyjson_doc_ptr_get(second, "/output/0"));
    json_raw(&json, STR("{\"role\":\"user\",\"content\":\"three\"}"));
    json_close(&json, ']');
    json_close(&json, '}');
    assert_ok(body.err);
    yyjson_doc *doc = api_kit_post(&place->kit, RESPONSES, buf_str(&body), 200);
    buf_fini(&body);
    return doc;
}

static void test_a_chain_is_the_conversation_in_full(void **state)
{
    struct place place;
    char one[64], two[64];

    (void)state;
    open_place(&place, FILE_NO, false);
    yyjson_doc *first = post(&place, "'instructions':'be brief','input':'one'", NULL, 200);
    snprintf(one, sizeof(one), "%s", json_at(first, "/id"));
    assert_true(yyjson_get_bool(yyjson_doc_ptr_get(first, "/store")));
    yyjson_doc *second = post(
        &place, "'instructions':'be brief','input':[{'role':'user','content':'two'}]", one, 200);
    snprintf(two, sizeof(two), "%s", json_at(second, "/id"));
    assert_string_equal(json_at(second, "/previous_response_id"), one);
    yyjson_doc *third = post(&place, "'instructions':'be brief','input':'three'", two, 200);
    yyjson_doc *full = post_in_full(&place, first, second);
    assert_int_equal(json_number_at(full, "/usage/input_tokens"),
                     json_number_at(third, "/usage/input_tokens"));
    assert_int_equal(json_number_at(full, "/x_cache/computed"), 1); /* token for token the same */
    assert_true(json_number_at(third, "/usage/input_tokens_details/cached_tokens") >=
                json_number_at(second, "/usage/input_tokens"));
    yyjson_doc_free(first);
    yyjson_doc_free(second);
    yyjson_doc_free(third);
    yyjson_doc_free(full);
    close_place(&place);
}

/* Without an input of its own, a request is about the conversation so far. */
static void test_no_further_input(void **state)
{
    static const char *const inputs[] = {"'input':null", "'input':[]", "'user':'x'"};
    struct place place;
    char id[64], body[256];

    (void)state;
    open_place(&place, FILE_NO, false);
    yyjson_doc *first = post(&place, "'input':'one'", NULL, 200);
    uint64_t told = json_number_at(first, "/usage/total_tokens");
    keep_id(first, id);
    for (size_t i = 0; i < COUNT_OF(inputs); i++) {
        yyjson_doc *next = post(&place, inputs[i], id, 200);
        assert_true(json_number_at(next, "/usage/input_tokens") > told);
        yyjson_doc_free(next);
        snprintf(body, sizeof(body), "{'model':'m',%s,'previous_response_id':'%s'," LETTERS "}",
                 inputs[i], id);
        yyjson_doc_free(api_kit_post(&place.kit, RESPONSES "/compact", json_quotes(body), 200));
        yyjson_doc_free(
            api_kit_post(&place.kit, RESPONSES "/input_tokens", json_quotes(body), 200));
    }
    close_place(&place);
}

/* References to items of earlier responses: the same tokens as with the items themselves. */
static void test_items_by_reference(void **state)
{
    struct place place;
    char fields[1024];

    (void)state;
    open_place(&place, FILE_NO, false);
    yyjson_doc *first = post(&place, "'input':'one'", NULL, 200);
    const char *item = json_at(first, "/output/0/id");
    snprintf(fields, sizeof(fields),
             "'input':[{'role':'user','content':'one'},{'type':'message','role':'assistant',"
             "'content':[{'type':'output_text','text':'%s'}]},{'role':'user','content':'two'}]",
             json_at(first, "/output/0/content/0/text"));
    yyjson_doc *full = post(&place, fields, NULL, 200);
    snprintf(fields, sizeof(fields),
             "'input':[{'role':'user','content':'one'},{'type':'item_reference','id':'%s'},"
             "{'role':'user','content':'two'}]",
             item);
    yyjson_doc *referred = post(&place, fields, NULL, 200);
    assert_int_equal(json_number_at(referred, "/usage/input_tokens"),
                     json_number_at(full, "/usage/input_tokens"));
    assert_int_equal(json_number_at(referred, "/x_cache/computed"), 1);
    snprintf(fields, sizeof(fields), "'input':[{'role':'user','content':'one'},{'id':'%s'}]", item);
    yyjson_doc_free(post(&place, fields, NULL, 200)); /* the short form */
    snprintf(fields, sizeof(fields), "'input':[{'type':'item_reference','id':'%.8sX'}]", item);
    yyjson_doc *missing = post(&place, fields, NULL, 404);
    assert_non_null(strstr(json_at(missing, "/error/message"), "not found"));
    assert_string_equal(json_at(missing, "/error/param"), "input");
    yyjson_doc_free(missing);
    yyjson_doc_free(post(&place, "'input':[{'type':'item_reference'}]", NULL, 404));
    yyjson_doc_free(post(&place, "'input':[{'type':'item_reference','id':'x'}]", NULL, 404));
    yyjson_doc_free(post(&place, "'input':[{'id':'msg_'},{'id':'_'}]", NULL, 404));
    yyjson_doc_free(first);
    yyjson_doc_free(full);
    yyjson_doc_free(referred);
    close_place(&place);
}

/* A response whose input has an item that is not shown to the model. It is large (`item`), or only
 * the record around it is. */
static void store_large(struct place *place, bool item, char id[64])
{
    struct buf body;
    char text[200 * 1000];

    memset(text, 'y', sizeof(text));
    struct json json = json_begin(&body, 1 << 20, '{');
    json_key_uint(&json, "max_output_tokens", 1);
    if (!item)
        json_key_str(&json, "user", (struct str){text, sizeof(text)});
    json_key_open(&json, "input", '[');
    json_raw(&json, STR("{\"role\":\"user\",\"content\":\"one\"}"));
    json_open(&json, '{');
    json_key_text(&json, "type", "web_search_call");
    if (item)
        json_key_str(&json, "action", (struct str){text, sizeof(text)});
    json_close(&json, '}');
    json_close(&json, ']');
    json_close(&json, '}');
    assert_ok(body.err);
    yyjson_doc *doc = api_kit_post(&place->kit, RESPONSES, buf_str(&body), 200);
    snprintf(id, 64, "in_%s_1", json_at(doc, "/id") + strlen("resp_"));
    yyjson_doc_free(doc);
    buf_fini(&body);
}

/* A message, and `count` references that alternate between two items. */
static yyjson_doc *post_references(struct place *place, size_t count, const char *one,
                                   const char *other, int status)
{
    struct buf body;
    struct json json = json_begin(&body, 1 << 20, '{');

    json_key_uint(&json, "max_output_tokens", 1);
    json_key_open(&json, "input", '[');
    json_raw(&json, STR("{\"role\":\"user\",\"content\":\"two\"}"));
    for (size_t i = 0; i < count; i++) {
        json_open(&json, '{');
        json_key_text(&json, "id", i % 2 ? one : other);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
    assert_ok(body.err);
    yyjson_doc *doc = api_kit_post(&place->kit, RESPONSES, buf_str(&body), status);
    buf_fini(&body);
    return doc;
}

/* A reference has 60 bytes, what it refers to may have megabytes: reading and writing that again and
 * again has a limit. (With a record of 40 MB, 100 references kept a worker busy for 40 s.) */
static void test_references_have_a_cost(void **state)
{
    struct place place;
    char a[64], b[64], large[64];

    (void)state;
    open_place(&place, FILE_NO, false);
    store_large(&place, false, a);
    store_large(&place, false, b);
    store_large(&place, true, large);
    yyjson_doc_free(post_references(&place, 2000, a, a, 200)); /* the record is read once */
    yyjson_doc_free(post_references(&place, 100, a, b, 200));
    yyjson_doc *refused = post_references(&place, 2000, a, b, 413);
    assert_string_equal(json_at(refused, "/error/param"), "input");
    assert_non_null(strstr(json_at(refused, "/error/message"), "previous_response_id"));
    yyjson_doc_free(refused);
    yyjson_doc_free(post_references(&place, 100, large, large, 200));
    yyjson_doc_free(post_references(&place, 400, large, large, 413));
    close_place(&place);
}

/* Ids that are looked for in a long input, from its end. */
static void test_references_to_a_long_input(void **state)
{
    struct buf body;
    struct place place;
    char id[64];

    (void)state;
    open_place(&place, FILE_NO, false);
    struct json json = json_begin(&body, 1 << 20, '{');
    json_key_uint(&json, "max_output_tokens", 1);
    json_key_open(&json, "input", '[');
    json_raw(&json, STR("{\"role\":\"user\",\"content\":\"one\"}"));
    for (size_t i = 1; i < 8000; i++)
        json_raw(&json, STR("{\"type\":\"mcp_\"}"));
    json_close(&json, ']');
    json_close(&json, '}');
    assert_ok(body.err);
    yyjson_doc *doc = api_kit_post(&place.kit, RESPONSES, buf_str(&body), 200);
    snprintf(id, 64, "in_%s_7999", json_at(doc, "/id") + strlen("resp_"));
    yyjson_doc_free(doc);
    buf_fini(&body);
    yyjson_doc_free(post_references(&place, 100, id, id, 200));
    yyjson_doc_free(post_references(&place, 8000, id, id, 413));
    close_place(&place);
}

/* A reference is good for its tenant only. */
static void test_i100_items_of_other_tenants(void **state)
{
    struct http_answer answer;
    struct place place;
    char body[512];

    (void)state;
    open_place(&place, FILE_NO, true);
    api_kit_ask(&place.kit, "POST", RESPONSES, "x-api-key: a-key\r\n",
                json_quotes("{" LETTERS ",'input':'one'}"), &answer);
    yyjson_doc *doc = yyjson_read(answer.body.data, answer.body.len, 0);
    http_answer_fini(&answer);
    snprintf(body, sizeof(body), "{" LETTERS ",'input':[{'type':'item_reference','id':'%s'}]}",
             json_at(doc, "/output/0/id"));
    yyjson_doc_free(doc);
    api_kit_ask(&place.kit, "POST", RESPONSES, "x-api-key: b-key\r\n", json_quotes(body), &answer);
    assert_int_equal(answer.status, 404);
    http_answer_fini(&answer);
    api_kit_ask(&place.kit, "POST", RESPONSES, "x-api-key: a-key\r\n", json_quotes(body), &answer);
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
    close_place(&place);
}

/* Instructions are those of each request, and a stream is stored as well. */
static void test_a_stream_is_stored(void **state)
{
    struct http_answer answer;
    struct place place;
    char id[64];

    (void)state;
    open_place(&place, FILE_NO, false);
    api_kit_ask(&place.kit, "POST", RESPONSES, NULL,
                json_quotes("{" LETTERS ",'input':'one','stream':true}"), &answer);
    assert_int_equal(answer.status, 200);
    const char *at = strstr(buf_str(&answer.body), "resp_");
    assert_non_null(at);
    snprintf(id, sizeof(id), "%.37s", at);
    http_answer_fini(&answer);
    char path[128];
    snprintf(path, sizeof(path), RESPONSES "/%s", id);
    yyjson_doc *doc = api_kit_get(&place.kit, path, 200);
    assert_string_equal(json_at(doc, "/id"), id);
    assert_string_equal(json_at(doc, "/status"), "incomplete");
    assert_int_equal(strlen(json_at(doc, "/output/0/content/0/text")), 16);
    yyjson_doc_free(doc);
    snprintf(path, sizeof(path), RESPONSES "/%s?stream=true", id); /* not as a stream again */
    doc = api_kit_get(&place.kit, path, 400);
    assert_string_equal(json_at(doc, "/error/param"), "stream");
    yyjson_doc_free(doc);
    doc = post(&place, "'input':'two'", id, 200);
    assert_true(json_number_at(doc, "/usage/input_tokens_details/cached_tokens") > 0);
    yyjson_doc_free(doc);
    close_place(&place);
}

static void test_store_false(void **state)
{
    struct place place;
    char id[64], path[128];

    (void)state;
    open_place(&place, FILE_NO, false);
    yyjson_doc *doc = post(&place, "'input':'one','store':false", NULL, 200);
    assert_false(yyjson_get_bool(yyjson_doc_ptr_get(doc, "/store")));
    keep_id(doc, id);
    doc = post(&place, "'input':'two'", id, 400);
    assert_string_equal(json_at(doc, "/error/code"), "previous_response_not_found");
    assert_string_equal(json_at(doc, "/error/param"), "previous_response_id");
    yyjson_doc_free(doc);
    snprintf(path, sizeof(path), RESPONSES "/%s", id);
    yyjson_doc_free(api_kit_get(&place.kit, path, 404));
    assert_int_equal(shelf_stats(place.shelf).entries, 0);
    close_place(&place);
}

static void test_items(void **state)
{
    struct place place;
    char one[64], two[64], path[192];

    (void)state;
    open_place(&place, FILE_NO, false);
    keep_id(post(&place, "'input':'one'", NULL, 200), one);
    keep_id(post(&place,
                 "'input':[{'role':'user','content':'a'},{'id':'mine','role':'user',"
                 "'content':[{'type':'input_text','text':'b'}]}]",
                 one, 200),
            two);
    snprintf(path, sizeof(path), RESPONSES "/%s/input_items?order=asc&limit=3", two);
    yyjson_doc *doc = api_kit_get(&place.kit, path, 200);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/data")), 3);
    assert_string_equal(json_at(doc, "/data/0/content/0/text"), "one");
    assert_string_equal(json_at(doc, "/data/0/content/0/type"), "input_text");
    assert_string_equal(json_at(doc, "/data/1/role"), "assistant");
    assert_string_equal(json_at(doc, "/data/2/content/0/text"), "a");
    assert_string_equal(json_at(doc, "/last_id"), json_at(doc, "/data/2/id"));
    assert_true(yyjson_get_bool(yyjson_doc_ptr_get(doc, "/has_more")));
    snprintf(path, sizeof(path), RESPONSES "/%s/input_items?order=asc&after=%s", two,
             json_at(doc, "/last_id"));
    yyjson_doc_free(doc);
    doc = api_kit_get(&place.kit, path, 200);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/data")), 1);
    assert_string_equal(json_at(doc, "/first_id"), "mine");
    assert_string_equal(json_at(doc, "/data/0/type"), "message"); /* was sent in the short form */
    assert_string_equal(json_at(doc, "/data/0/content/0/text"), "b");
    assert_false(yyjson_get_bool(yyjson_doc_ptr_get(doc, "/has_more")));
    yyjson_doc_free(doc);
    snprintf(path, sizeof(path), RESPONSES "/%s/input_items", two); /* the newest first */
    doc = api_kit_get(&place.kit, path, 200);
    assert_string_equal(json_at(doc, "/data/0/id"), "mine");
    yyjson_doc_free(doc);
    snprintf(path, sizeof(path), RESPONSES "/%s/input_items?limit=0", two);
    yyjson_doc_free(api_kit_get(&place.kit, path, 400));
    snprintf(path, sizeof(path), RESPONSES "/%s/input_items?order=up", two);
    yyjson_doc_free(api_kit_get(&place.kit, path, 400));
    yyjson_doc_free(api_kit_get(&place.kit, RESPONSES "/resp_0/input_items", 404));
    close_place(&place);
}

static int status_of(struct place *place, const char *method, const char *id, const char *key)
{
    struct http_answer answer;
    char path[128], header[128];

    snprintf(path, sizeof(path), RESPONSES "/%s", id);
    snprintf(header, sizeof(header), "authorization: Bearer %s\r\n", key);
    api_kit_ask(&place->kit, method, path, header, NULL, &answer);
    int status = answer.status;
    http_answer_fini(&answer);
    return status;
}

static void test_tenants(void **state)
{
    struct http_answer answer;
    struct place place;
    char id[64];

    (void)state;
    open_place(&place, FILE_NO, true);
    api_kit_ask(&place.kit, "POST", RESPONSES, "authorization: Bearer a-key\r\n",
                json_quotes("{" LETTERS ",'input':'one'}"), &answer);
    const char *at = strstr(buf_str(&answer.body), "resp_");
    assert_non_null(at);
    snprintf(id, sizeof(id), "%.37s", at);
    http_answer_fini(&answer);
    assert_int_equal(status_of(&place, "GET", id, "b-key"), 404);
    assert_int_equal(status_of(&place, "DELETE", id, "b-key"), 404);
    assert_int_equal(status_of(&place, "GET", id, "a-key"), 200);
    assert_int_equal(status_of(&place, "DELETE", id, "a-key"), 200);
    assert_int_equal(status_of(&place, "GET", id, "a-key"), 404);
    assert_int_equal(status_of(&place, "DELETE", id, "a-key"), 404);
    close_place(&place);
}

static void test_a_restart(void **state)
{
    struct errinfo info = {0};
    struct place place;
    int dir = FILE_NO;
    char id[64];

    (void)state;
    assert_ok(file_open_dir(file_sys_real(), test_dir(), true, &dir, &info));
    open_place(&place, dir, false);
    keep_id(post(&place, "'input':'one'", NULL, 200), id);
    close_place(&place);
    open_place(&place, dir, false);
    yyjson_doc *doc = post(&place, "'input':'two'", id, 200);
    assert_string_equal(json_at(doc, "/previous_response_id"), id);
    yyjson_doc_free(doc);
    close_place(&place);
    file_close(file_sys_real(), &dir);
}

/* A server without a shelf says so before anything is computed. */
static void test_off(void **state)
{
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    yyjson_doc *doc =
        api_kit_post(&kit, RESPONSES, json_quotes("{" LETTERS ",'input':'one'}"), 200);
    assert_false(yyjson_get_bool(yyjson_doc_ptr_get(doc, "/store")));
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, RESPONSES,
                       json_quotes("{'input':'one','previous_response_id':'resp_1'}"), 400);
    assert_string_equal(json_at(doc, "/error/code"), "previous_response_not_found");
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_items_by_reference), TEST(test_references_have_a_cost),
           TEST(test_references_to_a_long_input), TEST(test_i100_items_of_other_tenants),
           TEST(test_a_chain_is_the_conversation_in_full), TEST(test_no_further_input),
           TEST(test_a_stream_is_stored), TEST(test_store_false), TEST(test_items),
           TEST(test_tenants), TEST(test_a_restart), TEST(test_off))

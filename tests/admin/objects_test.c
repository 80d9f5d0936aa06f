/* objects_test.c: the cached objects, by pages, by key and as a tree; no prompt text is in it. */
#include "serve/api_impl.h"

#include <stdio.h>
#include <string.h>

#include "admin/admin_impl.h"
#include "support/api_kit.h"
#include "support/test.h"

#define CHAT    "/v1/chat/completions"
#define OBJECTS "/admin/cache/objects"

static void chat(struct api_kit *kit, const char *text, const char *key)
{
    struct http_answer answer;
    char body[1024], headers[64];

    snprintf(body, sizeof(body),
             "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],\"max_tokens\":2,"
             "\"temperature\":0}",
             text);
    snprintf(headers, sizeof(headers), "x-api-key: %s\r\n", key);
    api_kit_ask(kit, "POST", CHAT, headers, body, &answer);
    assert_int_equal(answer.status, 200);
    http_answer_fini(&answer);
    assert_ok(sched_wait_turn(model_sched(kit->model), 30000, NULL)); /* it is stored as well */
}

static const char *const keys[] = {"alice:k1,bob:k2"};
static const struct api_kit_options two_tenants = {
    .api.auth = {.keys = keys, .keys_count = 1, .admin = "boss"}, .ram_bytes = 8 << 20};

static yyjson_doc *ask(struct api_kit *kit, const char *path, int status)
{
    struct http_answer answer;
    yyjson_doc *doc;

    api_kit_ask(kit, "GET", path, "x-api-key: boss\r\n", NULL, &answer);
    if (answer.status != status)
        fail_msg("%s: %d %s", path, answer.status, buf_str(&answer.body));
    assert_null(strstr(buf_str(&answer.body), "secret")); /* whatever is asked */
    doc = yyjson_read(answer.body.data, answer.body.len, 0);
    assert_non_null(doc);
    http_answer_fini(&answer);
    return doc;
}

static size_t count(struct api_kit *kit, const char *query)
{
    char path[256];
    yyjson_doc *doc;
    size_t found;

    snprintf(path, sizeof(path), OBJECTS "?%s", query);
    doc = ask(kit, path, 200);
    found = yyjson_arr_size(yyjson_doc_ptr_get(doc, "/objects"));
    yyjson_doc_free(doc);
    return found;
}

static void fill(struct api_kit *kit)
{
    chat(kit,
         "the secret of alice is long enough for a few blocks of sixteen tokens each, and a little "
         "more",
         "k1");
    chat(kit,
         "the secret of bob is long enough for a few blocks of sixteen tokens each, and a little "
         "more",
         "k2");
    chat(kit,
         "the secret of bob is long enough for a few blocks of sixteen tokens each, but it goes "
         "another way",
         "k2");
}

static void test_lists_and_filters(void **state)
{
    struct api_kit kit;
    size_t all, alice, bob;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &two_tenants);
    assert_int_equal(count(&kit, ""), 0);
    fill(&kit);
    all = count(&kit, "limit=1000");
    alice = count(&kit, "tenant=alice");
    bob = count(&kit, "tenant=bob");
    assert_true(alice > 0 && bob > alice);
    assert_int_equal(all, alice + bob);
    assert_int_equal(count(&kit, "tenant=carol"), 0);
    assert_int_equal(count(&kit, "tier=ram"), all);
    assert_int_equal(count(&kit, "tier=ssd"), 0);
    assert_int_equal(count(&kit, "model=fake"), all);
    assert_int_equal(count(&kit, "model=other"), 0);
    assert_int_equal(count(&kit, "pinned=1"), 0);
    doc = ask(&kit, OBJECTS "?tenant=alice&limit=1", 200);
    assert_string_equal(json_at(doc, "/objects/0/model"), "fake");
    assert_string_equal(json_at(doc, "/objects/0/tenant"), "alice");
    assert_string_equal(json_at(doc, "/objects/0/tiers/0"), "ram");
    assert_int_equal(strlen(json_at(doc, "/objects/0/key")), 64);
    yyjson_doc_free(doc);
    yyjson_doc_free(ask(&kit, OBJECTS "?limit=0", 400));
    yyjson_doc_free(ask(&kit, OBJECTS "?limit=1001", 400));
    yyjson_doc_free(ask(&kit, OBJECTS "?tier=moon", 400));
    yyjson_doc_free(ask(&kit, OBJECTS "?after=nonsense", 400));
    api_kit_close(&kit);
}

static void test_pages(void **state)
{
    struct api_kit kit;
    char path[256] = OBJECTS "?limit=1";
    size_t all, seen = 0;
    char last[65] = "";

    (void)state;
    api_kit_open(&kit, &two_tenants);
    fill(&kit);
    all = count(&kit, "limit=1000");
    for (bool more = true; more; seen++) {
        yyjson_doc *doc = ask(&kit, path, 200);

        assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/objects")), 1);
        assert_true(strcmp(json_at(doc, "/objects/0/key"), last) >= 0);
        snprintf(last, sizeof(last), "%s", json_at(doc, "/objects/0/key"));
        more = json_at(doc, "/next")[0] != '\0';
        snprintf(path, sizeof(path), OBJECTS "?limit=1&after=%s", json_at(doc, "/next"));
        yyjson_doc_free(doc);
    }
    assert_int_equal(seen, all);
    api_kit_close(&kit);
}

/* The first object that has children. */
static yyjson_doc *find_parent(struct api_kit *kit)
{
    yyjson_doc *doc = ask(kit, OBJECTS "?limit=1000", 200);
    size_t i, all;
    yyjson_val *object;
    char path[256];

    yyjson_arr_foreach(yyjson_doc_ptr_get(doc, "/objects"), i, all, object)
    {
        yyjson_doc *one;

        snprintf(path, sizeof(path), OBJECTS "/%s", yyjson_get_str(yyjson_obj_get(object, "key")));
        one = ask(kit, path, 200);
        if (json_number_at(one, "/children_count") > 0) {
            yyjson_doc_free(doc);
            return one;
        }
        yyjson_doc_free(one);
    }
    fail_msg("no object has a child");
    return NULL;
}

static void test_one_by_its_key(void **state)
{
    struct api_kit kit;
    char path[256];
    yyjson_doc *doc, *child;

    (void)state;
    api_kit_open(&kit, &two_tenants);
    fill(&kit);
    doc = find_parent(&kit);
    snprintf(path, sizeof(path), OBJECTS "/%s", json_at(doc, "/children/0"));
    child = ask(&kit, path, 200);
    assert_string_equal(json_at(child, "/parent"), json_at(doc, "/key"));
    assert_int_equal(json_number_at(child, "/begin"), json_number_at(doc, "/end"));
    snprintf(path, sizeof(path), OBJECTS "/%s?tokens=1", json_at(doc, "/key"));
    yyjson_doc_free(ask(&kit, path, 403)); /* text is not for everybody */
    yyjson_doc_free(ask(&kit, OBJECTS "/123", 400));
    yyjson_doc_free(ask(
        &kit, OBJECTS "/0000000000000000000000000000000000000000000000000000000000000000", 404));
    yyjson_doc_free(child);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

static void test_text_where_it_is_allowed(void **state)
{
    struct api_kit_options options = two_tenants;
    struct http_answer answer;
    struct api_kit kit;
    char path[256];
    yyjson_doc *doc;

    (void)state;
    options.admin.show_text = true;
    api_kit_open(&kit, &options);
    fill(&kit);
    doc = ask(&kit, OBJECTS "?tenant=alice&limit=1", 200);
    snprintf(path, sizeof(path), OBJECTS "/%s?tokens=1", json_at(doc, "/objects/0/key"));
    yyjson_doc_free(doc);
    api_kit_ask(&kit, "GET", path, "x-api-key: boss\r\n", NULL, &answer);
    assert_int_equal(answer.status, 200);
    doc = yyjson_read(answer.body.data, answer.body.len, 0);
    assert_true(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/tokens")) > 0);
    assert_true(strlen(json_at(doc, "/text")) > 0);
    yyjson_doc_free(doc);
    http_answer_fini(&answer);
    api_kit_close(&kit);
}

static void test_the_tree(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;
    size_t nodes, i, all;
    yyjson_val *node;
    unsigned roots = 0;

    (void)state;
    api_kit_open(&kit, &two_tenants);
    fill(&kit);
    doc = ask(&kit, "/admin/cache/tree", 200);
    nodes = yyjson_arr_size(yyjson_doc_ptr_get(doc, "/nodes"));
    assert_true(nodes >= 4); /* alice's chain; bob's beginning and its two ends */
    yyjson_arr_foreach(yyjson_doc_ptr_get(doc, "/nodes"), i, all, node)
    {
        roots += yyjson_is_null(yyjson_obj_get(node, "parent"));
        assert_string_equal(yyjson_get_str(yyjson_obj_get(node, "model")), "fake");
    }
    assert_true(roots >= 2 && roots < nodes);
    yyjson_doc_free(doc);
    doc = ask(&kit, "/admin/cache/tree?limit=1", 200);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/nodes")), 1);
    yyjson_doc_free(doc);
    yyjson_doc_free(ask(&kit, "/admin/cache/tree?limit=x", 400));
    api_kit_close(&kit);
}

static void test_without_a_cache(void **state)
{
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    yyjson_doc_free(api_kit_get(&kit, OBJECTS, 400));
    yyjson_doc_free(api_kit_get(&kit, "/admin/cache/tree", 400));
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_lists_and_filters), TEST(test_pages), TEST(test_one_by_its_key),
           TEST(test_text_where_it_is_allowed), TEST(test_the_tree), TEST(test_without_a_cache))

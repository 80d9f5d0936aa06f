/* admin_test.c: /admin of a real server: what is cleared is computed again, sums survive a restart
 * and a kill, and a server with readers ends. */
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "support/scenario.h"
#include "support/test.h"

enum { ANSWER = 8 };

static struct talk opening(void)
{
    struct talk talk = {0};

    talk_say(&talk, "system", talk_words(1, 100));
    talk_say(&talk, "user", talk_words(2, 20));
    return talk;
}

static yyjson_doc *ask(const struct scenario *scenario, const char *method, const char *path,
                       const char *body)
{
    struct http_answer answer;
    yyjson_doc *doc;

    serve_proc_ask(&scenario->proc, method, path, body, &answer);
    if (answer.status != 200)
        fail_msg("%s: %d %s", path, answer.status, buf_str(&answer.body));
    doc = yyjson_read(answer.body.data, answer.body.len, 0);
    assert_non_null(doc);
    http_answer_fini(&answer);
    return doc;
}

static uint64_t number(const struct scenario *scenario, const char *path, const char *pointer)
{
    yyjson_doc *doc = ask(scenario, "GET", path, NULL);
    uint64_t value = yyjson_get_uint(yyjson_doc_ptr_get(doc, pointer));

    yyjson_doc_free(doc);
    return value;
}

static void clear(const struct scenario *scenario, const char *tier)
{
    char body[64];
    yyjson_doc *doc;

    snprintf(body, sizeof(body), "{\"tier\":\"%s\"}", tier);
    doc = ask(scenario, "POST", "/admin/cache/clear", body);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/failed")), 0);
    yyjson_doc_free(doc);
}

/* Tier by tier: the next one has it, until none does. */
static void test_what_is_cleared_misses(void **state)
{
    struct talk talk = opening();
    struct scenario scenario;

    (void)state;
    scenario_open(&scenario, "qwen3", "");
    scenario_ask(&scenario, &talk, ANSWER);
    assert_true(scenario_ask(&scenario, &talk, ANSWER).device > 0);
    clear(&scenario, "device");
    assert_true(scenario_ask(&scenario, &talk, ANSWER).ram > 0);
    clear(&scenario, "all");
    struct scenario_answer cold = scenario_ask(&scenario, &talk, ANSWER);
    assert_int_equal(cold.computed, cold.prompt);
    assert_int_equal(scenario_ask(&scenario, &talk, ANSWER).computed, 1);
    assert_int_equal(number(&scenario, "/admin/stats", "/session/requests"), 5);
    assert_int_equal(number(&scenario, "/admin/stats", "/session/prompt_tokens"), scenario.prompt);
    scenario_close(&scenario);
}

/* The sums of all runs are those of the answers; a kill loses no more than what was not kept yet.
 */
static void test_sums_survive(void **state)
{
    struct talk talk = opening();
    struct scenario scenario;

    (void)state;
    scenario_open(&scenario, "qwen3", "");
    scenario_ask(&scenario, &talk, ANSWER);
    scenario_ask(&scenario, &talk, ANSWER);
    scenario_restart(&scenario, true);
    assert_int_equal(number(&scenario, "/admin/stats", "/session/requests"), 0);
    assert_int_equal(number(&scenario, "/admin/stats", "/all_time/requests"), 2);
    scenario_ask(&scenario, &talk, ANSWER);
    assert_int_equal(number(&scenario, "/admin/stats", "/all_time/requests"), 3);
    scenario_restart(&scenario, false);
    assert_true(number(&scenario, "/admin/stats", "/all_time/requests") >= 2);
    scenario_close(&scenario);
}

/* A dashboard that is open does not keep the server from ending, and every setting is there. */
static void test_readers_do_not_hold_the_server(void **state)
{
    struct scenario scenario;
    struct http_client client;
    struct http_answer head;

    (void)state;
    scenario_open(&scenario, "qwen3", "--drain 600s");
    http_client_connect(&client, scenario.proc.port);
    http_client_request(&client, "GET", "/admin/events", "", STR_NONE);
    assert_true(http_client_head(&client, &head));
    assert_int_equal(head.status, 200);
    http_answer_fini(&head);
    yyjson_doc *doc = ask(&scenario, "GET", "/admin/settings", NULL);
    assert_true(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/settings")) > 30);
    yyjson_doc_free(doc);
    scenario_close(&scenario); /* would last ten minutes */
    http_client_close(&client);
}

TEST_SUITE(TEST(test_what_is_cleared_misses), TEST(test_sums_survive),
           TEST(test_readers_do_not_hold_the_server))

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "lab/qa.h"
#include "support/test.h"

static const char log_text[] =
    "2026-11-15T08:08:27.347Z info  [route] 1 model=qwen3 route=continuous reason=batch "
    "kinds=full\n"
    "2026-11-15T08:08:27.347Z info  [cache] 1 miss prompt_tokens=25 read_tokens=0 write_tokens=0 "
    "match=none tier=none reason=cold\n"
    "2026-11-15T08:08:27.350Z info  [api] 1 req_aa chat length 4 tokens | prompt 25 = device 0\n"
    "2026-11-15T08:08:27.351Z info  [cache] 1 write prompt_tokens=28 read_tokens=0 write_tokens=28 "
    "match=none\n"
    "2026-11-15T08:08:27.351Z info  [serve] 1 unrelated\n"
    "2026-11-15T08:08:27.368Z debug [phase] 12 prefill tokens=25 done=24\n"
    "2026-11-15T08:08:27.368Z info  [cache] 12 hit prompt_tokens=25 read_tokens=24 write_tokens=0 "
    "tier=device\n"
    "2026-11-15T08:08:27.369Z info  [api] 12 req_ab chat length 4 tokens | prompt 25 = device 24\n";

static void fill(struct qa_scenario *scenario, struct qa_request *requests)
{
    *scenario = (struct qa_scenario){.requests = requests, .requests_count = 3};
    memset(requests, 0, 3 * sizeof(*requests));
    requests[0] = (struct qa_request){.phase = "cold", .session = 'a', .run = 1};
    requests[1] = (struct qa_request){.phase = "warm", .session = 'a', .run = 1};
    requests[2] = (struct qa_request){.phase = "other", .session = 'a', .run = 2};
    snprintf(requests[0].result.request_id, CLIENT_ID_BYTES, "%s", "req_aa");
    snprintf(requests[1].result.request_id, CLIENT_ID_BYTES, "%s", "req_ab");
    snprintf(requests[2].result.request_id, CLIENT_ID_BYTES, "%s", "req_aa");
}

static void test_lines_find_their_request(void **state)
{
    struct qa_request *requests = mem_alloc_array(3, sizeof(*requests));
    struct qa_scenario scenario;

    (void)state;
    fill(&scenario, requests);
    qa_collect_events(&scenario, 1, STR(log_text));
    assert_int_equal(requests[0].events_count, 4);
    assert_int_equal(requests[1].events_count, 3);
    assert_int_equal(requests[2].events_count, 0); /* of another run */
    assert_int_equal(requests[0].events[0].kind, QA_EVENT_ROUTE);
    assert_string_equal(requests[1].events[0].line, "12 prefill tokens=25 done=24");
    assert_int_equal(qa_event_number(qa_decision(&requests[0]), "read_tokens"), 0);
    assert_int_equal(qa_event_number(qa_decision(&requests[1]), "read_tokens"), 24);
    assert_int_equal(qa_event_number(qa_decision(&requests[1]), "tier"), -1);
    assert_int_equal(qa_event_number(qa_decision(&requests[1]), "nothing"), -1);
    assert_null(qa_decision(&requests[2]));
    mem_free(requests);
}

static void test_totals(void **state)
{
    struct qa_request *requests = mem_alloc_array(3, sizeof(*requests));
    struct qa_scenario scenario;

    (void)state;
    fill(&scenario, requests);
    qa_collect_events(&scenario, 1, STR(log_text));
    struct qa_totals cold = qa_totals(&scenario, "cold"), warm = qa_totals(&scenario, "warm");
    assert_true(cold.misses == 1 && cold.hits == 0 && cold.writes == 1 && cold.write_tokens == 28);
    assert_true(warm.hits == 1 && warm.misses == 0 && warm.read_tokens == 24 && warm.writes == 0);
    mem_free(requests);
}

TEST_SUITE(TEST(test_lines_find_their_request), TEST(test_totals))

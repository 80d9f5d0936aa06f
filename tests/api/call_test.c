/* call_test.c: calls from the socket to the engine and back: answers, streams, n, errors of each stage, cancellation in each phase. */
#include "api/call.h"

#include <stdio.h>
#include <string.h>

#include "support/api_kit.h"
#include "support/test.h"

/* Letters only: the fake engine's own choice would be any bytes. */
#define LETTERS "\"logit_bias\":{\"97\":90,\"98\":90,\"99\":90,\"100\":90}"
#define USER    "\"messages\":[{\"role\":\"user\",\"content\":\"Hello there\"}]"
#define GREEDY  "\"temperature\":0,\"max_tokens\":12," LETTERS

static void test_whole_chat(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    doc = api_kit_post(&kit, "/v1/chat/completions", "{" USER "," GREEDY "}", 200);
    assert_string_equal(json_at(doc, "/object"), "chat.completion");
    assert_string_equal(json_at(doc, "/model"), "fake");
    assert_int_equal(strlen(json_at(doc, "/choices/0/message/content")), 12);
    assert_string_equal(json_at(doc, "/choices/0/finish_reason"), "length");
    assert_int_equal(json_number_at(doc, "/usage/completion_tokens"), 12);
    assert_true(json_number_at(doc, "/usage/prompt_tokens") > 12);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_whole_chat))

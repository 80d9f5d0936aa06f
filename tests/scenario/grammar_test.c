/*
 * grammar_test.c: grammars and schemas of one tenant that would keep a careless matcher busy
 * forever. Another tenant is answered meanwhile, the first one gets its answer or a clear error,
 * and the server stops on SIGTERM.
 */
#include <stdio.h>
#include <string.h>

#include "support/http_client.h"
#include "support/scenario.h"
#include "support/test.h"

#define A77 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define X70 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

#define REQUEST(tokens, field)                                                     \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Go on\"}],\"temperature\":0," \
    "\"max_tokens\":" tokens "," field "}"

/* Every "a" doubles the readings. */
#define DOUBLING                                                                               \
    REQUEST("200", "\"grammar\":\"root ::= s\\ns ::= \\\"a\\\" s t | \\\"a\\\" s u | \\\"" A77 \
                   "b\\\"\\nt ::= \\\"a\\\" \\\"t\\\"\\nu ::= \\\"a\\\" \\\"u\\\"\"")

#define LIST_WITH(last)                                                                        \
    "{\"type\":\"array\",\"prefixItems\":[{\"$ref\":\"#/$defs/s\"},{\"const\":\"" last "\"}]," \
    "\"minItems\":2,\"maxItems\":2}"
/* Two lists that differ behind the recursion only. */
#define DOUBLING_SCHEMA                                                                        \
    REQUEST("200",                                                                             \
            "\"json_schema\":{\"$ref\":\"#/$defs/s\",\"$defs\":{\"s\":{\"anyOf\":[" LIST_WITH( \
                "t") "," LIST_WITH("u") ",{\"const\":\"" X70 "\"}]}}}")

/* More than linear for any matcher; what must follow matches nothing, so that it never ends by
 * itself. */
#define HOPELESS_GRAMMAR                                                 \
    "\"grammar\":\"root ::= s [^\\\\x00-\\\\U0010FFFF]\\n"               \
    "s ::= \\\"a\\\" | \\\"a\\\" s | \\\"a\\\" s s | \\\"a\\\" s s s | " \
    "\\\"a\\\" s s s s | \\\"a\\\" s s s s s | \\\"a\\\" s s s s s s\""
#define HOPELESS REQUEST("3000", HOPELESS_GRAMMAR)

#define GOOD REQUEST("8", "\"ignore_eos\":true")

#define ANNA "authorization: Bearer key-anna\r\n"
#define BEN  "authorization: Bearer key-ben\r\n"

static void read_answer(struct http_client *client, int status, const char *words)
{
    struct http_answer answer;

    assert_true(http_client_answer(client, false, &answer, NULL));
    http_client_close(client);
    if (answer.status != status || strstr(buf_str(&answer.body), words) == NULL)
        fail_msg("%d instead of %d with '%s': %s", answer.status, status, words,
                 buf_str(&answer.body));
    http_answer_fini(&answer);
}

static void check_others_are_answered(const char *args)
{
    static const char chat[] = "/v1/chat/completions";
    struct serve_proc proc;
    struct http_client doubling, schema, hopeless, last;
    struct http_answer answer;

    serve_proc_start(&proc, "qwen3", args);
    proc.headers = ANNA;
    serve_proc_send(&proc, &doubling, chat, DOUBLING);
    serve_proc_send(&proc, &schema, chat, DOUBLING_SCHEMA);
    serve_proc_send(&proc, &hopeless, chat, HOPELESS);
    proc.headers = BEN;
    for (int i = 0; i < 6; i++) {
        serve_proc_ask(&proc, "POST", chat, GOOD, &answer);
        assert_int_equal(answer.status, 200);
        http_answer_fini(&answer);
    }
    read_answer(&doubling, 200, "aaaa");
    read_answer(&schema, 200, "\"finish_reason\"");
    read_answer(&hopeless, 400, "the grammar is too ambiguous");
    proc.headers = ANNA;
    serve_proc_send(&proc, &last, chat, HOPELESS);
    serve_proc_stop(&proc);
    http_client_close(&last);
}

#define ARGS "-c 4096 --ssd-dir none --parallel 4 --api-key anna:key-anna --api-key ben:key-ben"

static void test_one_tenants_grammar_does_not_stop_others(void **state)
{
    (void)state;
    check_others_are_answered(ARGS);
}

static void test_nor_with_a_worker(void **state)
{
    (void)state;
    check_others_are_answered(ARGS " --isolate");
}

/* A stream that has begun ends with an error event in the form of its dialect. */
static void test_streams_end_with_an_error_event(void **state)
{
    static const struct {
        const char *path, *body, *event;
    } streams[] = {
        {"/v1/chat/completions", REQUEST("3000", "\"stream\":true," HOPELESS_GRAMMAR),
         "data: {\"error\":{\"message\":\"the grammar is too ambiguous"},
        {"/v1/completions",
         "{\"prompt\":\"Go on\",\"max_tokens\":3000,\"stream\":true," HOPELESS_GRAMMAR "}",
         "data: {\"error\":{\"message\":\"the grammar is too ambiguous"},
        {"/v1/responses",
         "{\"input\":\"Go on\",\"max_output_tokens\":3000,\"stream\":true," HOPELESS_GRAMMAR "}",
         "event: response.failed"},
    };
    struct http_client client;
    struct serve_proc proc;

    (void)state;
    serve_proc_start(&proc, "qwen3", "-c 4096 --ssd-dir none");
    for (size_t i = 0; i < COUNT_OF(streams); i++) {
        serve_proc_send(&proc, &client, streams[i].path, streams[i].body);
        read_answer(&client, 200, streams[i].event);
    }
    serve_proc_stop(&proc);
}

TEST_SUITE(TEST(test_streams_end_with_an_error_event),
           TEST(test_one_tenants_grammar_does_not_stop_others), TEST(test_nor_with_a_worker))

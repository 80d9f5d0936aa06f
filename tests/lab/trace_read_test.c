#include "lab/trace_read.h"

#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "support/test.h"
#include "lab/trace.h"

#define DYNAMO(ms, in, out, hashes)                                                       \
    "{\"schema\":\"dynamo.request.trace.v1\",\"event_type\":\"request_end\","             \
    "\"agent_context\":{\"session_id\":\"s\"},\"request\":{\"request_received_ms\":" ms   \
    ",\"output_tokens\":" out ",\"replay\":{\"trace_block_size\":64,\"input_length\":" in \
    ",\"input_sequence_hashes\":[" hashes "]}}}\n"
static const char dynamo[] = DYNAMO(
    "1000", "130", "7",
    "18446744073709551615,22,33") "{\"event_type\":\"tool_end\",\"event_time_unix_ms\":1500}"
                                  "\n" DYNAMO("2000", "192", "9", "18446744073709551615,22,44");
static const char mooncake[] = "{\"timestamp\": 27000, \"input_length\": 1030, \"output_length\": "
                               "5, \"hash_ids\": [0, 1, 2]}\n"
                               "\n"
                               "{\"timestamp\": 30000, \"input_length\": 1100, \"output_length\": "
                               "7, \"hash_ids\": [0, 1, 3]}\n";
static const char claude[] =
    "{\"id\":\"x\",\"block_size\":64,\"hash_id_scope\":\"local\",\"tool_tokens\":100,\"system_"
    "tokens\":30,\"requests\":["
    "{\"t\":0.5,\"in\":200,\"out\":9,\"hash_ids\":[1,2,3]},"
    "{\"t\":2.0,\"type\":\"subagent\",\"tool_tokens\":64,\"system_tokens\":1,\"requests\":["
    "{\"t\":1.5,\"in\":129,\"out\":1,\"hash_ids\":[9,8,7]}]}]}";
static const char text[] = "{\"timestamp\": 1000000, \"input\": \"0123456789abcdefghij\", "
                           "\"output\": \"okay\", \"session_id\": \"s\"}\n"
                           "{\"timestamp\": 2000000, \"input\": \"0123456789abcdefGHIJ\", "
                           "\"output\": \"\", \"session_id\": \"t\"}\n";
static const char record[] =
    "{\"hearth_record\": 1, \"block_tokens\": 256}\n"
    "{\"t_us\": 5, \"session_id\": \"a\", \"in\": 600, \"out\": 3, \"anchor\": 300, "
    "\"blocks\": \"00000000000000ff123456789abcdef0\"}\n"
    "{\"t_us\": 9, \"in\": 700, \"out\": 3, \"blocks\": \"00000000000000ffffffffffffffffff\"}\n";

static enum err read_text_of(struct trace *trace, const char *content, enum read_format *format,
                             struct errinfo *info)
{
    struct read_options options = {.fs = file_sys_real(), .block_tokens = 2};
    size_t len = strlen(content);

    /* Against the end of readable memory. */
    return trace_read_memory(trace, "file", (struct str){test_guarded(content, len), len}, &options,
                             format, info);
}

static void read_ok(struct trace *trace, const char *content, enum read_format expected)
{
    enum read_format format;
    struct errinfo info = {0};

    trace_init(trace);
    if (read_text_of(trace, content, &format, &info) != ERR_OK)
        fail_msg("%s", info.text);
    assert_string_equal(read_format_names[format], read_format_names[expected]);
}

static void test_mooncake(void **state)
{
    struct trace trace;

    (void)state;
    read_ok(&trace, mooncake, READ_FORMAT_MOONCAKE);
    assert_int_equal(trace.block_tokens, 512);
    assert_int_equal(trace.requests_count, 2);
    assert_int_equal(trace.requests[0].at_ns, 27 * NS_PER_S);
    assert_int_equal(trace.requests[0].tokens, 1030);
    assert_int_equal(trace.requests[1].generated, 7);
    assert_int_equal(trace.ids_end, 4);
    assert_int_equal(trace.sessions, 0);
    trace_fini(&trace);
}

static void test_dynamo(void **state)
{
    struct trace trace;

    (void)state;
    read_ok(&trace, dynamo, READ_FORMAT_DYNAMO);
    assert_int_equal(trace.block_tokens, 64);
    assert_int_equal(trace.requests_count, 2); /* the end of a tool is none */
    assert_int_equal(trace.requests[0].tokens, 130);
    assert_int_equal(trace.requests[0].blocks, 2); /* the third is partial */
    assert_int_equal(trace.requests[1].blocks, 3);
    assert_int_equal(trace.requests[1].generated, 9);
    assert_int_equal(trace.requests[0].session, trace.requests[1].session);
    assert_int_equal(trace_id(&trace, &trace.requests[0], 1),
                     trace_id(&trace, &trace.requests[1], 1));
    trace_fini(&trace);
}

/* Dynamo's recorder wraps each event; its time is not that of the request. */
static void test_dynamo_as_recorded(void **state)
{
    static const char recorded[] =
        "{\"timestamp\":7,\"event\":{\"event_type\":\"tool_end\",\"event_time_unix_ms\":1500}}\n"
        "{\"timestamp\":9,\"event\":" DYNAMO("2000", "130", "7",
                                             "1,22,33") "}\n" DYNAMO("3000", "192", "9", "1,22,44");
    char lines[sizeof(recorded)];
    size_t len = 0;
    struct trace trace;

    (void)state;
    for (const char *from = recorded; *from != '\0'; from++) /* the event is in one line */
        if (*from != '\n' || from[1] != '}')
            lines[len++] = *from;
    lines[len] = '\0';
    read_ok(&trace, lines, READ_FORMAT_DYNAMO);
    assert_int_equal(trace.requests_count, 2);
    assert_int_equal(trace.requests[0].tokens, 130);
    assert_int_equal(trace.requests[0].at_ns, 2000 * NS_PER_MS);
    assert_int_equal(trace.requests[0].session, trace.requests[1].session);
    assert_int_equal(trace_id(&trace, &trace.requests[0], 1),
                     trace_id(&trace, &trace.requests[1], 1));
    trace_fini(&trace);
}

static void test_claude_code_with_an_agent(void **state)
{
    struct trace trace;

    (void)state;
    read_ok(&trace, claude, READ_FORMAT_CLAUDE_CODE);
    assert_int_equal(trace.block_tokens, 64);
    assert_int_equal(trace.requests_count, 2);
    assert_int_equal(trace.requests[0].anchor, 130);
    assert_int_equal(trace_anchor_blocks(&trace, &trace.requests[0]), 2);
    assert_int_equal(trace.requests[0].session, 1);
    assert_int_equal(trace.requests[1].at_ns,
                     3500 * NS_PER_MS);            /* counted from the start of the agent */
    assert_int_equal(trace.requests[1].blocks, 2); /* the third is not full */
    assert_int_equal(trace.requests[1].anchor, 65);
    trace_fini(&trace);
}

static void test_ids_of_two_files_are_two_things(void **state)
{
    struct read_options options = {.fs = file_sys_real()};
    struct trace trace;

    (void)state;
    trace_init(&trace);
    assert_ok(trace_read_memory(&trace, "a", STR(claude), &options, NULL, NULL));
    assert_ok(trace_read_memory(&trace, "b", STR(claude), &options, NULL, NULL));
    assert_int_equal(trace.ids_end, 2 * (3 + 2));
    assert_int_equal(trace.sessions, 2);
    trace_fini(&trace);
}

static void test_text_in_tokens_of_four_bytes(void **state)
{
    struct trace trace;

    (void)state;
    read_ok(&trace, text, READ_FORMAT_TEXT);
    assert_int_equal(trace.requests_count, 2);
    assert_int_equal(trace.requests[0].tokens, 5);
    assert_int_equal(trace.requests[0].blocks, 2);
    assert_int_equal(trace.requests[0].generated, 1);
    assert_int_equal(trace.requests[1].at_ns, 2 * NS_PER_S);
    assert_int_equal(trace.sessions, 2);
    assert_int_equal(trace.ids_end,
                     2); /* they differ in the fifth token, behind the last whole block */
    trace_fini(&trace);
}

static enum err one_token_per_byte(struct str in, int32_t **tokens, size_t *count,
                                   struct errinfo *info, void *arg)
{
    (void)info;
    (void)arg;
    *tokens = mem_try_alloc_array(in.len, sizeof(**tokens));
    if (*tokens == NULL)
        return ERR_NOMEM;
    for (size_t i = 0; i < in.len; i++)
        (*tokens)[i] = in.ptr[i];
    *count = in.len;
    return ERR_OK;
}

static void test_text_with_a_vocabulary(void **state)
{
    struct read_options options = {
        .fs = file_sys_real(), .block_tokens = 2, .tokenize = one_token_per_byte};
    struct trace trace;

    (void)state;
    trace_init(&trace);
    assert_ok(trace_read_memory(&trace, "file", STR(text), &options, NULL, NULL));
    assert_int_equal(trace.requests[0].tokens, 20);
    assert_int_equal(trace.ids_end, 10 + 2);
    trace_fini(&trace);
}

static void test_record(void **state)
{
    struct trace trace;

    (void)state;
    read_ok(&trace, record, READ_FORMAT_RECORD);
    assert_int_equal(trace.block_tokens, 256);
    assert_int_equal(trace.requests_count, 2);
    assert_int_equal(trace.requests[0].at_ns, 5000);
    assert_int_equal(trace.requests[0].anchor, 300);
    assert_int_equal(trace.requests[0].session, 1);
    assert_int_equal(trace.requests[1].session, TRACE_NO_SESSION);
    assert_int_equal(trace.ids_end, 3);
    trace_fini(&trace);
}

static void test_mistakes_name_file_and_line(void **state)
{
    static const struct {
        const char *content, *says;
    } cases[] = {
        {"", "file: is empty"},
        {"\n \n", "file: is empty"},
        {"{", "file:1: is not JSON"},
        {"[1]", "file:1: is no trace"},
        {"{\"a\": 1}", "file:1: is no trace"},
        {"{\"timestamp\": -1, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [1]}",
         "file:1: timestamp"},
        {"{\"timestamp\": 1, \"input_length\": 1e9, \"output_length\": 1, \"hash_ids\": [1]}",
         "file:1: timestamp"},
        {"{\"timestamp\": 1, \"input_length\": 9, \"output_length\": 1, \"hash_ids\": [-1]}",
         "file:1: hash_ids"},
        {"{\"timestamp\": 1, \"input_length\": 9, \"output_length\": 1, \"hash_ids\": 3}",
         "file:1: hash_ids"},
        {"{\"timestamp\": 1, \"input_length\": 9, \"output_length\": 1, \"hash_ids\": [1, 2]}",
         "file:1: the number of blocks"},
        {"{\"timestamp\": 1, \"input_length\": 0, \"output_length\": 1, \"hash_ids\": []}",
         "file:1: the number of blocks"},
        {"{\"requests\": []}", "file:1: block_size"},
        {"{\"block_size\": 64, \"requests\": 1}", "file:1: requests"},
        {"{\"block_size\": 64, \"requests\": [{\"t\": 1}]}", "file:1: t, in or out"},
        {"{\"block_size\": 64, \"requests\": [{\"requests\": []}]}", "file:1: t of an agent"},
        {"{\"timestamp\": 1, \"input\": 5}", "file:1: input"},
        {"{\"hearth_record\": 2}", "file:1: is a record of a version"},
        {"{\"hearth_record\": 1}", "file:1: block_tokens"},
        {"{\"hearth_record\": 1, \"block_tokens\": 4}\n{}", "file:2: t_us"},
        {"{\"hearth_record\": 1, \"block_tokens\": "
         "4}\n{\"t_us\":1,\"in\":4,\"out\":1,\"blocks\":\"0\"}",
         "file:2: blocks is no"},
        {"{\"hearth_record\": 1, \"block_tokens\": "
         "4}\n{\"t_us\":1,\"in\":4,\"out\":1,\"blocks\":\"000000000000000X\"}",
         "file:2: blocks has"},
        {"{\"hearth_record\": 1, \"block_tokens\": "
         "4}\n{\"t_us\":1,\"in\":4,\"out\":1,\"device\":1,\"ram\":1,\"ssd\":1,"
         "\"remote\":1,\"computed\":1,\"blocks\":\"0000000000000001\"}",
         "file:2: device, ram, ssd, remote and computed do not add up"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct trace trace;
        struct errinfo info = {0};
        trace_init(&trace);
        assert_true(read_text_of(&trace, cases[i].content, NULL, &info) != ERR_OK);
        if (strncmp(info.text, cases[i].says, strlen(cases[i].says)) != 0)
            fail_msg("%s: \"%s\" instead of \"%s\"", cases[i].content, info.text, cases[i].says);
        trace_fini(&trace);
    }
}

static void test_every_allocation_may_fail(void **state)
{
    static const char *const all[] = {mooncake, claude, text, record, dynamo};
    struct read_options options = {.fs = file_sys_real(), .block_tokens = 2};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        struct fault fault = {0};
        enum err err = ERR_NOMEM;
        FAULT_LOOP (&fault) {
            struct trace trace;
            trace_init(&trace);
            mem_set_fault(&fault);
            err = trace_read_memory(&trace, "file", str_from(all[i]), &options, NULL, NULL);
            mem_set_fault(NULL);
            trace_fini(&trace);
        }
        assert_ok(err);
    }
}

static void test_files_are_read_and_missing_ones_said(void **state)
{
    struct read_options options = {.fs = file_sys_real()};
    struct errinfo info = {0};
    struct trace trace;

    (void)state;
    trace_init(&trace);
    assert_err(trace_read(&trace, "/nonexistent/trace.jsonl", &options, NULL, &info),
               ERR_NOT_FOUND);
    trace_fini(&trace);
}

TEST_SUITE(TEST(test_mooncake), TEST(test_dynamo), TEST(test_dynamo_as_recorded),
           TEST(test_claude_code_with_an_agent), TEST(test_ids_of_two_files_are_two_things),
           TEST(test_text_in_tokens_of_four_bytes), TEST(test_text_with_a_vocabulary),
           TEST(test_record), TEST(test_mistakes_name_file_and_line),
           TEST(test_every_allocation_may_fail), TEST(test_files_are_read_and_missing_ones_said))

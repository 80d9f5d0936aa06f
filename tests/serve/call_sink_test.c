/* call_sink_test.c: streams: order and form of events, keep-alive before and in prefill, tool calls
 * of a real model, what is remembered of a turn. */
#include "serve/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "serve/api_impl.h"
#include "support/api_kit.h"
#include "support/test.h"

#define LETTERS  "\"logit_bias\":{\"97\":90,\"98\":90,\"99\":90,\"100\":90}"
#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"Hello there\"}]"
#define GREEDY   "\"temperature\":0,\"max_tokens\":12," LETTERS
#define CHAT     "/v1/chat/completions"

/* ---- reading streams ---- */

/* All events of a stream, in order. */
struct events {
    struct http_answer answer;
    char *names[4096];
    yyjson_doc *data[4096]; /* NULL: [DONE] */
    size_t count;
    bool done;
};

static void read_events(struct api_kit *kit, const char *path, const char *body,
                        struct events *events)
{
    struct str rest, name;
    struct buf data;

    memset(events, 0, sizeof(*events));
    api_kit_ask(kit, "POST", path, NULL, body, &events->answer);
    if (events->answer.status != 200)
        fail_msg("%s: %d %s", path, events->answer.status, buf_str(&events->answer.body));
    assert_true(events->answer.complete);
    rest = (struct str){buf_str(&events->answer.body), events->answer.body.len};
    buf_init(&data, 1 << 20);
    while (http_sse_next(&rest, &name, &data, NULL)) {
        assert_false(events->done); /* nothing comes after it */
        events->done = strcmp(buf_str(&data), "[DONE]") == 0;
        events->names[events->count] = mem_strndup(name.ptr ? name.ptr : "", name.len);
        events->data[events->count] = events->done ? NULL : yyjson_read(data.data, data.len, 0);
        assert_true(events->done || events->data[events->count]);
        events->count++;
        assert_true(events->count < COUNT_OF(events->names));
        buf_clear(&data);
    }
    assert_int_equal(rest.len, 0);
    buf_fini(&data);
}

static void free_events(struct events *events)
{
    for (size_t i = 0; i < events->count; i++) {
        mem_free(events->names[i]);
        yyjson_doc_free(events->data[i]);
    }
    http_answer_fini(&events->answer);
}

/* The texts at a pointer of all events, joined. */
static const char *joined(const struct events *events, const char *pointer, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < events->count; i++) {
        const char *text = events->data[i] ? json_at(events->data[i], pointer) : "";

        assert_true(len + strlen(text) < size);
        memcpy(out + len, text, strlen(text) + 1);
        len += strlen(text);
    }
    return out;
}

/* ---- streams equal whole answers ---- */

static void test_chat_stream(void **state)
{
    struct api_kit kit;
    struct events events;
    yyjson_doc *whole;
    char text[256];

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    whole = api_kit_post(&kit, CHAT, "{" MESSAGES "," GREEDY "}", 200);
    read_events(&kit, CHAT,
                "{\"stream\":true,\"stream_options\":{\"include_usage\":true}," MESSAGES "," GREEDY
                "}",
                &events);
    assert_true(
        str_eq(http_answer_header(&events.answer, "content-type"), STR("text/event-stream")));
    assert_true(str_eq(http_answer_header(&events.answer, "cache-control"), STR("no-cache")));
    assert_true(str_eq(http_answer_header(&events.answer, "x-accel-buffering"), STR("no")));
    assert_true(http_answer_header(&events.answer, "x-request-id").len > 8);
    assert_true(events.done);
    assert_string_equal(json_at(events.data[0], "/choices/0/delta/role"), "assistant");
    for (size_t i = 1; i + 1 < events.count; i++) /* one id, and one role */
        assert_string_equal(json_at(events.data[i], "/id"), json_at(events.data[0], "/id"));
    assert_string_equal(joined(&events, "/choices/0/delta/role", text, sizeof(text)), "assistant");
    assert_string_equal(joined(&events, "/choices/0/delta/content", text, sizeof(text)),
                        json_at(whole, "/choices/0/message/content"));
    assert_string_equal(joined(&events, "/choices/0/finish_reason", text, sizeof(text)), "length");
    assert_int_equal(json_number_at(events.data[events.count - 2], "/usage/completion_tokens"), 12);
    free_events(&events);
    yyjson_doc_free(whole);
    api_kit_close(&kit);
}

static void test_three_choices_in_one_stream(void **state)
{
    struct api_kit kit;
    struct events events;
    yyjson_doc *whole;
    char texts[3][64] = {"", "", ""};
    unsigned finished = 0;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    whole = api_kit_post(&kit, CHAT,
                         "{\"n\":3,\"seed\":7,\"max_tokens\":12," MESSAGES "," LETTERS "}", 200);
    read_events(&kit, CHAT,
                "{\"stream\":true,\"n\":3,\"seed\":7,\"max_tokens\":12," MESSAGES "," LETTERS "}",
                &events);
    for (size_t i = 0; i + 1 < events.count; i++) {
        uint64_t index = json_number_at(events.data[i], "/choices/0/index");
        const char *text = json_at(events.data[i], "/choices/0/delta/content");

        assert_true(index < 3);
        memcpy(texts[index] + strlen(texts[index]), text, strlen(text) + 1);
        finished += json_at(events.data[i], "/choices/0/finish_reason")[0] != '\0';
    }
    assert_int_equal(finished, 3);
    assert_string_equal(texts[0], json_at(whole, "/choices/0/message/content"));
    assert_string_equal(texts[1], json_at(whole, "/choices/1/message/content"));
    assert_string_equal(texts[2], json_at(whole, "/choices/2/message/content"));
    free_events(&events);
    yyjson_doc_free(whole);
    api_kit_close(&kit);
}

static void test_messages_stream(void **state)
{
    static const char *const expected[] = {"message_start", "content_block_start"};
    struct api_kit kit;
    struct events events;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    read_events(&kit, "/v1/messages",
                "{\"model\":\"x\",\"stream\":true,\"temperature\":0,\"max_tokens\":30," MESSAGES
                "}",
                &events);
    assert_false(events.done);
    for (size_t i = 0; i < COUNT_OF(expected); i++)
        assert_string_equal(events.names[i], expected[i]);
    for (size_t i = 0; i < events.count; i++)
        assert_string_equal(events.names[i], json_at(events.data[i], "/type"));
    assert_true(json_number_at(events.data[0], "/message/usage/input_tokens") > 0);
    assert_string_equal(events.names[events.count - 3], "content_block_stop");
    assert_string_equal(events.names[events.count - 2], "message_delta");
    assert_string_equal(json_at(events.data[events.count - 2], "/delta/stop_reason"), "max_tokens");
    assert_int_equal(json_number_at(events.data[events.count - 2], "/usage/output_tokens"), 30);
    assert_string_equal(events.names[events.count - 1], "message_stop");
    free_events(&events);
    api_kit_close(&kit);
}

static void test_responses_stream(void **state)
{
    struct api_kit kit;
    struct events events;
    uint64_t last = 0;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    read_events(&kit, "/v1/responses",
                "{\"stream\":true,\"temperature\":0,\"input\":\"Hi\",\"max_output_tokens\":20}",
                &events);
    assert_string_equal(events.names[0], "response.created");
    assert_true(events.done);
    assert_string_equal(events.names[events.count - 2], "response.incomplete");
    for (size_t i = 1; i + 1 < events.count; i++) { /* numbers go up */
        uint64_t number = json_number_at(events.data[i], "/sequence_number");

        assert_true(number > last);
        last = number;
    }
    free_events(&events);
    api_kit_close(&kit);
}

static void test_progress_when_asked_for(void **state)
{
    struct api_kit_options options = {.fake.chunk = 16};
    struct api_kit kit;
    struct events events;
    unsigned reports = 0;

    (void)state;
    api_kit_open(&kit, &options);
    read_events(
        &kit, CHAT,
        "{\"stream\":true,\"return_progress\":true,\"messages\":[{\"role\":\"user\",\"content\":\""
        "A text that is long enough to be computed in more than one piece by the "
        "engine.\"}]," GREEDY "}",
        &events);
    for (size_t i = 0; i + 1 < events.count; i++)
        reports += yyjson_doc_ptr_get(events.data[i], "/choices/0/delta") != NULL &&
                   json_number_at(events.data[i], "/prompt_progress/processed") > 0;
    assert_true(reports >= 2);
    free_events(&events);
    api_kit_close(&kit);
}

/* Every chunk of text tells how it stands. */
static double timing(yyjson_doc *chunk, const char *pointer)
{
    return yyjson_get_num(yyjson_doc_ptr_get(chunk, pointer));
}

static void test_timings_per_token(void **state)
{
    struct api_kit kit;
    struct events events;
    double count = 0, ms = 0;
    unsigned told = 0;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){0});
    read_events(&kit, CHAT, "{\"stream\":true,\"timings_per_token\":true," MESSAGES "," GREEDY "}",
                &events);
    for (size_t i = 0; i < events.count; i++) {
        yyjson_doc *chunk = events.data[i];

        if (!chunk || *json_at(chunk, "/choices/0/delta/content") == '\0')
            continue; /* the role's, and the end's */
        assert_true(timing(chunk, "/timings/ttft_ms") > 0);
        assert_true(timing(chunk, "/timings/prompt_ms") > 0);
        assert_true(timing(chunk, "/timings/predicted_n") > count);
        assert_true(timing(chunk, "/timings/predicted_ms") > ms);
        count = timing(chunk, "/timings/predicted_n");
        ms = timing(chunk, "/timings/predicted_ms");
        told++;
    }
    assert_true(told > 2);
    free_events(&events);
    api_kit_close(&kit);
}

/* ---- silence ---- */

/* Numbers of events, where a dialect has them, go up by one, whatever fills the silence between
 * them. */
static void check_numbers(const char *stream)
{
    static const char key[] = "\"sequence_number\":", filler[] = "hearth:keepalive\",";
    long expected = 0;

    for (const char *at = strstr(stream, key); at; at = strstr(at + 1, key)) {
        bool fills = memcmp(at - strlen(filler), filler, strlen(filler)) == 0;
        assert_int_equal(strtol(at + strlen(key), NULL, 10), fills ? expected - 1 : expected++);
    }
}

/* I80: the head and the first events are there before anything is computed, and silence is filled
 * in the dialect's own way. */
static void expect_keepalive(const char *path, const char *body, const char *opening,
                             const char *filler)
{
    struct api_kit_options options = {.api.keepalive_ms = 10, .gate_closed = true};
    struct http_client client;
    struct http_answer head;
    struct api_kit kit;
    const char *first, *second = NULL;
    struct buf data;

    api_kit_open(&kit, &options);
    api_kit_send(&kit, &client, path, body);
    assert_true(http_client_head(&client, &head));
    assert_int_equal(head.status, 200);
    buf_init(&data, 1 << 20);
    while (!second) {
        assert_true(http_client_chunk(&client, &data));
        first = strstr(buf_str(&data), filler);
        second = first ? strstr(first + 1, filler) : NULL;
    }
    assert_non_null(strstr(buf_str(&data), opening));
    api_kit_gate_open(&kit);
    while (http_client_chunk(&client, &data))
        continue;
    check_numbers(buf_str(&data));
    http_client_close(&client);
    http_answer_fini(&head);
    buf_fini(&data);
    api_kit_close(&kit);
}

static void test_i80_keepalive_of_each_dialect(void **state)
{
    (void)state;
    expect_keepalive(CHAT, "{\"stream\":true," MESSAGES "," GREEDY "}", "\"role\":\"assistant\"",
                     "\"delta\":{}");
    expect_keepalive("/v1/completions", "{\"stream\":true,\"prompt\":\"x\"," GREEDY "}",
                     "text_completion", "\"text\":\"\"");
    expect_keepalive("/v1/messages",
                     "{\"model\":\"x\",\"stream\":true,\"max_tokens\":9," MESSAGES "}",
                     "message_start", "event: ping\n");
    expect_keepalive(
        "/v1/responses",
        "{\"stream\":true,\"temperature\":0,\"input\":\"Hi\",\"max_output_tokens\":20}",
        "response.created", "event: hearth:keepalive\n");
}

/* What a stream opens with may repeat much of the request: it is not lost for that. */
static void test_i80_long_opening(void **state)
{
    static char body[20000];
    size_t len = (size_t)snprintf(
        body, sizeof(body),
        "{\"stream\":true,\"temperature\":0,\"input\":\"Hi\",\"max_output_tokens\":20,"
        "\"tools\":[{\"type\":\"web_search\",\"note\":\"");

    (void)state;
    memset(body + len, 'x', 10000);
    memcpy(body + len + 10000, "\"}]}", 5);
    expect_keepalive("/v1/responses", body, "response.created", "event: hearth:keepalive\n");
}

/* A queued call has its head as well: proxies and clients count from there. */
static void test_i80_head_while_queued(void **state)
{
    struct api_kit_options options = {
        .api.keepalive_ms = 10, .sched.parallel = 1, .gate_closed = true};
    struct http_client first, second;
    struct http_answer head;
    struct api_kit kit;
    struct buf data;

    (void)state;
    api_kit_open(&kit, &options);
    api_kit_send(&kit, &first, CHAT, "{" MESSAGES "," GREEDY "}");
    api_kit_gate_wait(&kit);
    api_kit_send(&kit, &second, "/v1/messages",
                 "{\"model\":\"x\",\"stream\":true,\"max_tokens\":5," MESSAGES "}");
    assert_true(http_client_head(&second, &head));
    assert_int_equal(head.status, 200);
    buf_init(&data, 1 << 20);
    while (!strstr(buf_str(&data), "event: ping\n"))
        assert_true(http_client_chunk(&second, &data));
    assert_null(strstr(buf_str(&data), "message_start")); /* nothing is known of its prompt yet */
    api_kit_gate_open(&kit);
    while (http_client_chunk(&second, &data))
        continue;
    assert_non_null(strstr(buf_str(&data), "message_stop"));
    http_client_close(&first);
    http_client_close(&second);
    http_answer_fini(&head);
    buf_fini(&data);
    api_kit_close(&kit);
}

/* ---- tool calls, of a real model whose weights are noise: a grammar makes it call ---- */

#define TOOL                                                                               \
    "{\"type\":\"function\",\"function\":{\"name\":\"look\",\"description\":\"Looks.\","   \
    "\"parameters\":"                                                                      \
    "{\"type\":\"object\",\"properties\":{\"deep\":{\"type\":\"boolean\"}},\"required\":[" \
    "\"deep\"],"                                                                           \
    "\"additionalProperties\":false}}}"
#define CALL_IT                   \
    "\"seed\":1,\"tools\":[" TOOL \
    "],\"tool_choice\":\"required\",\"parallel_tool_calls\":false,\"max_tokens\":200"

/* Without thoughts: noise would think for ever. */
static const struct api_kit_options caller = {
    .family = "qwen3",
    .template_text =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if tools %}{{ tools | tojson }}<tool_call>\n{\"name\": \"f\", \"arguments\": "
        "{}}\n</tool_call>{% endif %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
};

/* What the scheduler, and so the cache, is told of the answer's end. */
static void note_ending(struct call *call, void *arg)
{
    atomic_store((atomic_int *)arg, call->choices[0].gen.calls_tool ? 1 : 0);
}

static void test_tool_calls_of_a_model(void **state)
{
    atomic_int called = -1;
    struct api_kit kit;
    struct events events;
    yyjson_doc *doc;
    char text[256];

    (void)state;
    api_kit_open(&kit, &caller);
    kit.api->options.observer = (struct call_observer){.answering = note_ending, .arg = &called};
    yyjson_doc_free(api_kit_post(&kit, CHAT, "{" MESSAGES ",\"max_tokens\":1}", 200));
    assert_int_equal(atomic_load(&called), 0);
    doc = api_kit_post(&kit, CHAT, "{" MESSAGES "," CALL_IT "}", 200);
    assert_int_equal(atomic_load(&called), 1);
    assert_string_equal(json_at(doc, "/choices/0/finish_reason"), "tool_calls");
    assert_string_equal(json_at(doc, "/choices/0/message/tool_calls/0/function/name"), "look");
    assert_non_null(
        strstr(json_at(doc, "/choices/0/message/tool_calls/0/function/arguments"), "\"deep\""));
    assert_int_equal(strlen(json_at(doc, "/choices/0/message/tool_calls/0/id")),
                     strlen("call_") + 32);
    yyjson_doc_free(doc);

    read_events(&kit, CHAT, "{\"stream\":true," MESSAGES "," CALL_IT "}", &events);
    assert_string_equal(
        joined(&events, "/choices/0/delta/tool_calls/0/function/name", text, sizeof(text)), "look");
    joined(&events, "/choices/0/delta/tool_calls/0/function/arguments", text, sizeof(text));
    doc = yyjson_read(text, strlen(text), 0);
    assert_true(yyjson_is_bool(yyjson_doc_ptr_get(doc, "/deep")));
    yyjson_doc_free(doc);
    assert_string_equal(joined(&events, "/choices/0/finish_reason", text, sizeof(text)),
                        "tool_calls");
    free_events(&events);
    api_kit_close(&kit);
}

/* The choices of an answer as text, without the random ids of calls; *accepted: its drafts. */
static char *choices_of(struct api_kit *kit, const char *settings, uint64_t *accepted)
{
    char body[2048];

    snprintf(body, sizeof(body), "{" MESSAGES ",%s}", settings);
    yyjson_doc *doc = api_kit_post(kit, CHAT, body, 200);
    char *text = yyjson_val_write(yyjson_doc_ptr_get(doc, "/choices"), 0, NULL);
    *accepted = json_number_at(doc, "/usage/completion_tokens_details/accepted_prediction_tokens");
    yyjson_doc_free(doc);
    assert_non_null(text);
    for (char *id = text; (id = strstr(id, "\"call_")) != NULL; id++)
        memset(id + 6, 'x', 32);
    return text;
}

/* Each of these is the same with and without drafts, when it is asked for the first time and when
 * the answer is known. */
static void test_drafts_change_no_answer(void **state)
{
#define RANDOM "\"temperature\":1,\"seed\":3,\"max_tokens\":60," LETTERS
    static const char *const settings[] = {
        RANDOM,
        RANDOM ",\"n\":3",
        RANDOM ",\"stop\":[\"cab\"]",
        RANDOM ",\"logprobs\":true,\"top_logprobs\":3",
        RANDOM ",\"presence_penalty\":1.5,\"frequency_penalty\":1,\"repeat_penalty\":1.5",
        RANDOM ",\"grammar\":\"root ::= (\\\"ab\\\" | \\\"cad\\\" | \\\"b\\\")+\"",
        RANDOM ",\"min_p\":0.1,\"top_p\":0.9,\"top_k\":3",
        "\"temperature\":0," CALL_IT,
    };
    struct api_kit_options options[2];
    struct api_kit kits[2];

    (void)state;
    for (int on = 0; on < 2; on++) {
        options[on] = caller;
        options[on].family = NULL;
        options[on].ram_bytes = 1 << 22;
        options[on].sched.drafts = on ? 8 : 0;
        api_kit_open(&kits[on], &options[on]);
    }
    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        uint64_t accepted = 0, none = 0;
        char *plain = choices_of(&kits[0], settings[i], &none);
        for (int again = 0; again < 2; again++) {
            char *drafted = choices_of(&kits[1], settings[i], &accepted);
            assert_string_equal(drafted, plain);
            free(drafted);
        }
        assert_int_equal(none, 0);
        if (accepted == 0)
            fail_msg("no draft was accepted: %s", plain);
        assert_int_equal(strstr(plain, "\"stop\"") != NULL, strstr(settings[i], "stop") != NULL);
        assert_int_equal(strstr(plain, "\"look\"") != NULL, strstr(settings[i], "look") != NULL);
        free(plain);
    }
    api_kit_close(&kits[0]);
    api_kit_close(&kits[1]);
#undef RANDOM
}

static void test_tool_calls_in_the_other_dialects(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &caller);
    doc = api_kit_post(
        &kit, "/v1/messages",
        "{\"model\":\"x\",\"max_tokens\":200," MESSAGES
        ",\"tools\":[{\"name\":\"look\",\"input_schema\":"
        "{\"type\":\"object\",\"properties\":{\"deep\":{\"type\":\"boolean\"}},\"required\":["
        "\"deep\"]}}],"
        "\"tool_choice\":{\"type\":\"tool\",\"name\":\"look\",\"disable_parallel_tool_use\":true}}",
        200);
    assert_string_equal(json_at(doc, "/stop_reason"), "tool_use");
    assert_string_equal(json_at(doc, "/content/0/type"), "tool_use");
    assert_string_equal(json_at(doc, "/content/0/name"), "look");
    assert_true(yyjson_is_bool(yyjson_doc_ptr_get(doc, "/content/0/input/deep")));
    yyjson_doc_free(doc);
    doc = api_kit_post(
        &kit, "/v1/responses",
        "{\"input\":\"Hi\",\"max_output_tokens\":200,\"tools\":[{\"type\":\"function\",\"name\":"
        "\"look\","
        "\"parameters\":{\"type\":\"object\",\"properties\":{\"deep\":{\"type\":\"boolean\"}},"
        "\"required\":[\"deep\"],\"additionalProperties\":false}}],\"tool_choice\":\"required\","
        "\"parallel_tool_calls\":false}",
        200);
    assert_string_equal(json_at(doc, "/status"), "completed");
    assert_string_equal(json_at(doc, "/output/0/type"), "function_call");
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* A call that the length cuts off, wherever it does, is the client's to see as such, not an error.
 */
static void test_a_call_that_is_cut_off(void **state)
{
    struct api_kit kit;
    unsigned lengths = 0, calls = 0;
    char body[1024];

    (void)state;
    api_kit_open(&kit, &caller);
    for (unsigned max = 1; max <= 60 && calls == 0; max++) {
        yyjson_doc *doc;

        snprintf(body, sizeof(body),
                 "{\"temperature\":0,\"parallel_tool_calls\":false,\"tools\":[" TOOL
                 "],\"tool_choice\":\"required\","
                 "\"max_tokens\":%u," MESSAGES "}",
                 max);
        doc = api_kit_post(&kit, CHAT, body, 200);
        lengths += strcmp(json_at(doc, "/choices/0/finish_reason"), "length") == 0;
        calls += strcmp(json_at(doc, "/choices/0/finish_reason"), "tool_calls") == 0;
        assert_int_equal(lengths + calls, max);
        yyjson_doc_free(doc);
    }
    assert_true(lengths > 5); /* also in the middle of a call */
    api_kit_close(&kit);
}

/* The name of the tool cannot be written in this format, so no grammar holds the calls. */
#define ODD_TOOL   "\"name\":\"look up\",\"description\":\"Looks.\""
#define ODD_SCHEMA "{\"type\":\"object\",\"properties\":{\"deep\":{\"type\":\"boolean\"}}}"

static const struct api_kit_options odd_caller = {
    .family = "qwen3",
    .template_text =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if tools %}{{ tools | tojson }}<tool_call>\n<function=f>\n<parameter=a>\n1\n"
        "</parameter>\n</function>\n</tool_call>{% endif %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
};

/* I79: a call that cannot be read is text, with its markup, and no error, which clients would
 * answer with the same request. The model is made to open call after call. */
static void test_i79_a_call_that_cannot_be_read(void **state)
{
    static const struct {
        const char *path, *tool, *text;
    } apis[] = {
        {CHAT, "{\"type\":\"function\",\"function\":{" ODD_TOOL ",\"parameters\":" ODD_SCHEMA "}}",
         "\"content\":\"<tool_call>"},
        {"/v1/responses", "{\"type\":\"function\"," ODD_TOOL ",\"parameters\":" ODD_SCHEMA "}",
         "\"text\":\"<tool_call>"},
        {"/v1/messages", "{" ODD_TOOL ",\"input_schema\":" ODD_SCHEMA "}",
         "\"text\":\"<tool_call>"},
        {"/api/chat",
         "{\"type\":\"function\",\"function\":{" ODD_TOOL ",\"parameters\":" ODD_SCHEMA "}}",
         "\"content\":\"<tool_call>"},
    };
    struct sample_params sample = sample_params_default();
    struct sample_bias opener = {.token = 0, .bias = 100};
    struct api_kit_options options = odd_caller;
    struct http_answer answer;
    struct api_kit kit;
    char body[1024];

    (void)state;
    sample.biases = &opener;
    sample.biases_count = 1;
    options.api.sample = &sample;
    api_kit_open(&kit, &options);
    yyjson_doc *doc = api_kit_post(&kit, "/tokenize", "{\"content\":\"<tool_call>\"}", 200);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/tokens")), 1);
    opener.token = (token_id)json_number_at(doc, "/tokens/0");
    yyjson_doc_free(doc);
    for (size_t i = 0; i < 2 * COUNT_OF(apis); i++) {
        bool responses = strstr(apis[i / 2].path, "responses") != NULL;
        snprintf(body, sizeof(body),
                 "{\"model\":\"fake\",\"stream\":%s,\"temperature\":0,\"max_tokens\":5,"
                 "\"options\":{\"num_predict\":5},\"tools\":[%s],%s}",
                 i % 2 ? "true" : "false", apis[i / 2].tool,
                 responses ? "\"input\":\"Hi\"" : MESSAGES);
        api_kit_ask(&kit, "POST", apis[i / 2].path, NULL, body, &answer);
        const char *text = buf_str(&answer.body);
        if (answer.status != 200 || !answer.complete || strstr(text, "\"x_unread_call\"") == NULL)
            fail_msg("%s: %d %s", apis[i / 2].path, answer.status, text);
        assert_true(i % 2 == 1 || strstr(text, apis[i / 2].text) != NULL);
        assert_null(strstr(text, "error\":{"));
        assert_null(strstr(text, "response.failed"));
        http_answer_fini(&answer);
    }
    api_kit_close(&kit);
}

/* A stop text ends the answer, never a call: its markup is not text of the client. */
static void test_stop_texts_in_a_call(void **state)
{
    static const char *const stops[] = {"\\n",  "}",    ":",         "arguments",
                                        "look", "true", "tool_call", "</tool_call>"};
    struct api_kit kit;
    char body[1024];

    (void)state;
    api_kit_open(&kit, &caller);
    for (size_t i = 0; i < COUNT_OF(stops); i++) {
        snprintf(body, sizeof(body), "{\"stop\":[\"%s\"]," MESSAGES "," CALL_IT "}", stops[i]);
        yyjson_doc *doc = api_kit_post(&kit, CHAT, body, 200);
        assert_string_equal(json_at(doc, "/choices/0/finish_reason"), "tool_calls");
        assert_string_equal(json_at(doc, "/choices/0/message/content"), "");
        assert_string_equal(json_at(doc, "/choices/0/message/tool_calls/0/function/name"), "look");
        yyjson_doc_free(doc);
    }
    api_kit_close(&kit);
}

/* The prompt opens a thought, which the model never closes. */
static const struct api_kit_options thinker = {
    .template_text = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>"
                     "\n{% endfor %}{% if false %}</think>{% endif %}"
                     "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}",
};

static void test_stop_texts_in_a_thought(void **state)
{
    struct api_kit kit;
    struct events events;
    yyjson_doc *doc;
    char text[256], thought[256];

    (void)state;
    api_kit_open(&kit, &thinker);
    doc = api_kit_post(&kit, CHAT, "{\"stop\":[\"a\",\"b\"]," MESSAGES "," GREEDY "}", 200);
    assert_string_equal(json_at(doc, "/choices/0/finish_reason"), "length");
    assert_string_equal(json_at(doc, "/choices/0/message/content"), "");
    assert_int_equal(strlen(json_at(doc, "/choices/0/message/reasoning_content")), 12);
    snprintf(thought, sizeof(thought), "%s", json_at(doc, "/choices/0/message/reasoning_content"));
    assert_non_null(strpbrk(thought, "ab"));
    yyjson_doc_free(doc);
    read_events(&kit, CHAT, "{\"stream\":true,\"stop\":[\"a\",\"b\"]," MESSAGES "," GREEDY "}",
                &events);
    assert_string_equal(joined(&events, "/choices/0/delta/content", text, sizeof(text)), "");
    assert_string_equal(joined(&events, "/choices/0/delta/reasoning_content", text, sizeof(text)),
                        thought);
    free_events(&events);
    api_kit_close(&kit);
}

/* A thought that has used its budget is closed, and the answer begins; whether it is shown or
 * not. */
static void test_thinking_budget(void **state)
{
    static const char *const formats[] = {"auto", "hidden"};
    struct api_kit kit;
    yyjson_doc *doc;
    char body[512];

    (void)state;
    api_kit_open(&kit, &thinker);
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        snprintf(body, sizeof(body),
                 "{\"reasoning\":{\"max_tokens\":5},\"temperature\":0,\"max_tokens\":30,"
                 "\"reasoning_format\":\"%s\"," LETTERS "," MESSAGES "}",
                 formats[i]);
        doc = api_kit_post(&kit, CHAT, body, 200);
        assert_int_equal(strlen(json_at(doc, "/choices/0/message/reasoning_content")),
                         i == 0 ? 5 : 0);
        /* 30 tokens less the thought and its end, which are bytes here */
        assert_int_equal(strlen(json_at(doc, "/choices/0/message/content")), 30 - 5 - 10);
        assert_null(strchr(json_at(doc, "/choices/0/message/content"), '<'));
        assert_int_equal(json_number_at(doc, "/usage/completion_tokens"), 30);
        yyjson_doc_free(doc);
    }
    doc = api_kit_post(&kit, "/v1/messages",
                       "{\"model\":\"x\",\"max_tokens\":40,\"thinking\":{\"type\":\"enabled\","
                       "\"budget_tokens\":7}," MESSAGES "}",
                       200);
    assert_string_equal(json_at(doc, "/content/0/type"), "thinking");
    assert_string_equal(json_at(doc, "/content/1/type"), "text");
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* A last message with a thought alone goes on inside it, though the prompt opens none. */
static void test_a_thought_goes_on(void **state)
{
#define THINKS                                                                              \
    "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\","         \
    "\"reasoning_content\":\"Well \"}],\"reasoning\":{\"max_tokens\":5},\"temperature\":0," \
    "\"max_tokens\":30," LETTERS
    static const struct api_kit_options options = {
        .template_text =
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>"
            "\n{% endfor %}{% if false %}<think>\n</think>{% endif %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    };
    static const char *const ways[] = {"true", "\"reasoning_content\""};
    struct events events;
    struct api_kit kit;
    char body[512], text[256], thought[256];
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        snprintf(body, sizeof(body), "{\"continue_final_message\":%s," THINKS "}", ways[i]);
        doc = api_kit_post(&kit, "/apply-template", body, 200);
        assert_string_equal(json_at(doc, "/prompt"), "<|im_start|>user\nHi<|im_end|>\n"
                                                     "<|im_start|>assistant\n<think>\nWell ");
        yyjson_doc_free(doc);
        doc = api_kit_post(&kit, CHAT, body, 200);
        snprintf(thought, sizeof(thought), "%s",
                 json_at(doc, "/choices/0/message/reasoning_content"));
        assert_int_equal(strlen(thought), 5);
        assert_int_equal(strlen(json_at(doc, "/choices/0/message/content")), 30 - 5 - 10);
        yyjson_doc_free(doc);
    }
    read_events(&kit, CHAT, "{\"stream\":true," THINKS "}", &events);
    assert_string_equal(joined(&events, "/choices/0/delta/reasoning_content", text, sizeof(text)),
                        thought);
    free_events(&events);
    doc = api_kit_post(&kit, "/v1/messages",
                       "{\"model\":\"x\",\"max_tokens\":40,\"thinking\":{\"type\":\"enabled\","
                       "\"budget_tokens\":7},\"temperature\":0"
                       ",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":"
                       "\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"Well \","
                       "\"signature\":\"\"}]}]}",
                       200);
    assert_string_equal(json_at(doc, "/content/0/type"), "thinking");
    assert_true(strlen(json_at(doc, "/content/0/thinking")) >= 7); /* bytes, any */
    assert_string_equal(json_at(doc, "/content/1/type"), "text");
    yyjson_doc_free(doc);
    api_kit_close(&kit);
#undef THINKS
}

/* No summary is not worth sending the same request again, as clients do after a 500; and an empty
 * one would lose the conversation. */
static void test_a_compaction_without_a_summary(void **state)
{
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &thinker);
    yyjson_doc *doc =
        api_kit_post(&kit, "/v1/responses/compact",
                     "{\"model\":\"x\",\"input\":\"Hi\",\"max_output_tokens\":5}", 400);
    assert_string_equal(json_at(doc, "/error/param"), "max_output_tokens");
    assert_non_null(strstr(json_at(doc, "/error/message"), "wrote no summary"));
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* The markup of a call after a thought is not part of the thought. */
static void test_reasoning_tokens_before_a_call(void **state)
{
    static const struct api_kit_options options = {
        .template_text =
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor "
            "%}{% if tools %}{{ tools | tojson }}<tool_call>\n{\"name\": \"f\", \"arguments\": "
            "{}}\n</tool_call>{% endif %}{% if false %}</think>{% endif %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}",
    };
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    yyjson_doc *doc = api_kit_post(
        &kit, CHAT,
        "{\"reasoning\":{\"max_tokens\":5},\"temperature\":0,\"max_tokens\":200," LETTERS
        ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"look\"}}],"
        "\"tool_choice\":\"required\"," MESSAGES "}",
        200);
    assert_string_equal(json_at(doc, "/choices/0/message/tool_calls/0/function/name"), "look");
    assert_int_equal(strlen(json_at(doc, "/choices/0/message/reasoning_content")), 5);
    /* at most with its end, ten bytes and so ten tokens */
    size_t thought =
        (size_t)json_number_at(doc, "/usage/completion_tokens_details/reasoning_tokens");
    assert_true(thought >= 5 && thought <= 15);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* The texts of the tokens in a list of log-probabilities. */
static const char *tokens_at(yyjson_doc *doc, const char *pointer, char *out, size_t size)
{
    yyjson_val *list = yyjson_doc_ptr_get(doc, pointer), *entry;
    size_t i, count, len = 0;

    out[0] = '\0';
    yyjson_arr_foreach(list, i, count, entry)
    {
        len += (size_t)snprintf(out + len, size - len, "%s",
                                yyjson_get_str(yyjson_obj_get(entry, "token")));
        assert_true(len < size);
    }
    return out;
}

/* Probabilities are those of the content: not of the thought, its end, or a stop text. */
static void test_logprobs_are_of_the_content(void **state)
{
#define THINK "\"reasoning\":{\"max_tokens\":5},\"temperature\":0," LETTERS
    static const char *const stops[] = {"", ",\"stop\":[\"ab\",\"ba\",\"ca\",\"ac\"]"};
    struct events events;
    struct api_kit kit;
    char body[512], text[256], streamed[256];
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &thinker);
    for (size_t i = 0; i < COUNT_OF(stops); i++) {
        snprintf(body, sizeof(body),
                 "{" THINK ",\"max_tokens\":30,\"logprobs\":true%s," MESSAGES "}", stops[i]);
        doc = api_kit_post(&kit, CHAT, body, 200);
        assert_string_equal(tokens_at(doc, "/choices/0/logprobs/content", text, sizeof(text)),
                            json_at(doc, "/choices/0/message/content"));
        snprintf(body, sizeof(body),
                 "{\"stream\":true," THINK ",\"max_tokens\":30,\"logprobs\":true%s," MESSAGES "}",
                 stops[i]);
        read_events(&kit, CHAT, body, &events);
        size_t len = 0;
        for (size_t k = 0; k < events.count; k++)
            if (events.data[k] != NULL)
                len += strlen(tokens_at(events.data[k], "/choices/0/logprobs/content",
                                        streamed + len, sizeof(streamed) - len));
        assert_string_equal(streamed, text);
        free_events(&events);
        yyjson_doc_free(doc);
    }
    doc = api_kit_post(&kit, "/v1/responses",
                       "{" THINK ",\"max_output_tokens\":30,\"top_logprobs\":1,\"input\":\"x\"}",
                       200);
    assert_string_equal(tokens_at(doc, "/output/1/content/0/logprobs", text, sizeof(text)),
                        json_at(doc, "/output/1/content/0/text"));
    assert_true(text[0] != '\0');
    yyjson_doc_free(doc);
    api_kit_close(&kit);
#undef THINK
}

/* A schema holds the answer of the model to it. */
static void test_json_schema(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc, *content;
    const char *text;

    (void)state;
    api_kit_open(&kit, &caller);
    doc = api_kit_post(&kit, CHAT,
                       "{" MESSAGES ",\"max_tokens\":100,\"seed\":1,"
                       "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":"
                       "{\"name\":\"x\",\"schema\":{\"type\":\"object\",\"properties\":{\"yes\":{"
                       "\"type\":\"boolean\"}},"
                       "\"required\":[\"yes\"],\"additionalProperties\":false}}}}",
                       200);
    text = json_at(doc, "/choices/0/message/content");
    content = yyjson_read(text, strlen(text), 0);
    if (!content || !yyjson_is_bool(yyjson_doc_ptr_get(content, "/yes")))
        fail_msg("not by the schema: %s", text);
    yyjson_doc_free(content);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* One of two texts, and a text by a pattern, as a model writes them. */
static void test_choice_and_regex(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &caller);
    doc = api_kit_post(&kit, CHAT,
                       "{" MESSAGES
                       ",\"max_tokens\":40,\"seed\":1,\"guided_choice\":[\"maybe so\",\"never\"]}",
                       200);
    const char *text = json_at(doc, "/choices/0/message/content");
    assert_true(strcmp(text, "maybe so") == 0 || strcmp(text, "never") == 0);
    assert_string_equal(json_at(doc, "/choices/0/finish_reason"), "stop");
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, CHAT,
                       "{" MESSAGES ",\"max_tokens\":40,\"seed\":1,"
                       "\"structured_outputs\":{\"regex\":\"[a-f]{3}-[0-9]{2}\"}}",
                       200);
    text = json_at(doc, "/choices/0/message/content");
    assert_int_equal(strlen(text), 6);
    assert_int_equal(strspn(text, "abcdef"), 3);
    assert_int_equal(text[3], '-');
    assert_int_equal(strspn(text + 4, "0123456789"), 2);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

#define YES_OR_CALL                                                                               \
    "\"max_tokens\":400,\"tools\":[" TOOL "],\"parallel_tool_calls\":false,\"response_format\":{" \
    "\"type\":\"json_schema\",\"json_schema\":"                                                   \
    "{\"name\":\"x\",\"schema\":{\"type\":\"object\",\"properties\":{\"yes\":{\"enum\":[true,\"<" \
    "tool_call>\"]}},"                                                                            \
    "\"required\":[\"yes\"],\"additionalProperties\":false}}}"

/* Tools that may be called and a format of the answer: it is one of them, whatever the seed; and
 * both come. */
static void test_a_call_or_json(void **state)
{
    unsigned calls = 0, answers = 0;
    struct api_kit kit;
    char body[1024];

    (void)state;
    api_kit_open(&kit, &caller);
    for (int seed = 1; seed <= 24 && (calls == 0 || answers == 0); seed++) {
        snprintf(body, sizeof(body), "{" MESSAGES ",\"temperature\":2,\"seed\":%d," YES_OR_CALL "}",
                 seed);
        yyjson_doc *doc = api_kit_post(&kit, CHAT, body, 200);
        const char *finish = json_at(doc, "/choices/0/finish_reason");
        const char *text = json_at(doc, "/choices/0/message/content");
        yyjson_doc *content = yyjson_read(text, strlen(text), 0);

        if (strcmp(finish, "tool_calls") == 0) {
            assert_string_equal(text, "");
            calls++;
        } else if (strcmp(finish, "stop") == 0) {
            if (!yyjson_doc_ptr_get(content, "/yes"))
                fail_msg("not by the schema: %s", text);
            answers++;
        }
        yyjson_doc_free(content);
        yyjson_doc_free(doc);
    }
    print_message("%u calls, %u answers\n", calls, answers);
    assert_true(calls > 0 && answers > 0);
    api_kit_close(&kit);
}

/* ---- the next turn ---- */

/* I106: what was generated stands in the next prompt as it was sampled. */
static void test_i106_turns_are_recalled(void **state)
{
    struct api_kit_options options = {.prompts = true, .ram_bytes = 64 << 20};
    struct api_kit kit;
    yyjson_doc *first, *second, *other;
    char body[1024];
    const char *text;

    (void)state;
    api_kit_open(&kit, &options);
    first = api_kit_post(&kit, CHAT, "{" MESSAGES "," GREEDY "}", 200);
    text = json_at(first, "/choices/0/message/content");
    snprintf(body, sizeof(body),
             "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello "
             "there\"},{\"role\":\"assistant\",\"content\":\"%s\"},"
             "{\"role\":\"user\",\"content\":\"Go on\"}]," GREEDY "}",
             text);
    second = api_kit_post(&kit, "/apply-template", body, 200);
    assert_int_equal(json_number_at(second, "/replayed"), 1);
    yyjson_doc_free(second);
    second = api_kit_post(&kit, CHAT, body, 200);
    assert_true(json_number_at(second, "/usage/prompt_tokens_details/cached_tokens") >=
                json_number_at(first, "/usage/prompt_tokens") + 11);
    snprintf(body, sizeof(body),
             "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello "
             "there\"},{\"role\":\"assistant\",\"content\":\"%s!\"},"
             "{\"role\":\"user\",\"content\":\"Go on\"}]," GREEDY "}",
             text);
    other = api_kit_post(&kit, "/apply-template", body, 200);
    assert_int_equal(json_number_at(other, "/replayed"), 0); /* the client changed it */
    yyjson_doc_free(first);
    yyjson_doc_free(second);
    yyjson_doc_free(other);
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_chat_stream), TEST(test_three_choices_in_one_stream),
           TEST(test_messages_stream), TEST(test_responses_stream),
           TEST(test_progress_when_asked_for), TEST(test_timings_per_token),
           TEST(test_i80_keepalive_of_each_dialect), TEST(test_i80_long_opening),
           TEST(test_i80_head_while_queued), TEST(test_tool_calls_of_a_model),
           TEST(test_drafts_change_no_answer), TEST(test_tool_calls_in_the_other_dialects),
           TEST(test_a_call_that_is_cut_off), TEST(test_i79_a_call_that_cannot_be_read),
           TEST(test_stop_texts_in_a_call), TEST(test_stop_texts_in_a_thought),
           TEST(test_thinking_budget), TEST(test_a_thought_goes_on),
           TEST(test_a_compaction_without_a_summary), TEST(test_reasoning_tokens_before_a_call),
           TEST(test_logprobs_are_of_the_content), TEST(test_json_schema),
           TEST(test_choice_and_regex), TEST(test_a_call_or_json),
           TEST(test_i106_turns_are_recalled))

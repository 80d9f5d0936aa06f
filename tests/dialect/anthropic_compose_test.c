/*
 * Tests of src/dialect/anthropic_compose.c: streams event by event and whole bodies, as goldens;
 * the rules of a stream checked on random ones; sums of usage; errors.
 */
#include "dialect/anthropic_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/request_kit.h"
#include "support/test.h"

static const struct dialect *const dialect = &dialect_anthropic_messages;

enum { OUT_BYTES = 1 << 20, EVENTS_MAX = 64 };

/* ---- an answer that is made by hand ---- */

struct talk {
    struct gen_request request;
    struct answer answer;
    struct buf out;
};

static void talk_init(struct talk *talk)
{
    gen_request_init(&talk->request, REQUEST_KIT_LIMIT, NULL);
    answer_init(&talk->answer, &talk->request);
    snprintf(talk->answer.id, sizeof(talk->answer.id), "A");
    talk->answer.model = "tiny";
    talk->answer.request_id = "req_2a";
    talk->answer.usage = (struct gen_usage){.prompt = 100,
                                            .device = 10,
                                            .ram = 20,
                                            .ssd = 30,
                                            .remote = 5,
                                            .computed = 35,
                                            .match = HEARTH_MATCH_PREFIX,
                                            .reason = HEARTH_REASON_SHORT,
                                            .first_difference = 65};
    buf_init(&talk->out, OUT_BYTES);
}

static void talk_fini(struct talk *talk)
{
    buf_fini(&talk->out);
    answer_fini(&talk->answer);
    gen_request_fini(&talk->request);
}

/* One letter says which event: c(ontent), r(easoning), b(egin of call), a(rguments), e(nd of call),
 * x (error). */
static enum output_event_type event_type(char letter)
{
    static const char letters[] = "crbaex";
    const char *at = strchr(letters, letter);

    assert_non_null(at);
    return (enum output_event_type)(at - letters);
}

static unsigned call_number(const struct talk *talk, enum output_event_type type)
{
    unsigned calls = (unsigned)talk->answer.choices[0].calls_count;

    return type == OUTPUT_CALL_BEGIN || calls == 0 ? calls : calls - 1;
}

/* Into the answer, and, when it is streamed, out of the dialect. */
static void say(struct talk *talk, char letter, struct str text, bool stream)
{
    struct output_event event = {.type = event_type(letter), .text = text};

    event.call = call_number(talk, event.type);
    assert_ok(answer_add(&talk->answer, 0, &event));
    if (event.type == OUTPUT_CALL_BEGIN)
        snprintf(talk->answer.choices[0].calls[event.call].id, ANSWER_ID_BYTES, "C%u", event.call);
    if (stream)
        dialect->event(&talk->answer, 0, &event, &talk->out);
}

/* "c|Hel" "c|lo": one event for each text. */
static void say_all(struct talk *talk, const char *const *events, bool stream)
{
    for (; *events != NULL; events++)
        say(talk, (*events)[0], str_from(json_quotes(*events + 2)), stream);
}

static void finish(struct talk *talk, enum answer_finish finish)
{
    talk->answer.choices[0].finish = finish;
    talk->answer.choices[0].stop_text = finish == ANSWER_STOP_TEXT ? STR("EN\"D") : STR_NONE;
    talk->answer.usage.generated = 7;
    talk->answer.choices[0].reasoning_tokens = 3;
}

static void end_stream(struct talk *talk)
{
    dialect->choice_end(&talk->answer, 0, &talk->out);
    dialect->end(&talk->answer, &talk->out);
}

/* ---- reading a stream ---- */

struct events {
    yyjson_doc *docs[EVENTS_MAX];
    size_t count;
};

static const char *type_of(yyjson_val *event)
{
    return yyjson_get_str(yyjson_obj_get(event, "type"));
}

/* Each event is a line of its name, a line of JSON with the same name inside, and an empty line. */
static void events_read(struct events *events, const char *text)
{
    events->count = 0;
    while (*text != '\0') {
        char name[64];
        const char *data = strstr(text, "\ndata: "), *end = strstr(text, "\n\n");
        assert_memory_equal(text, "event: ", 7);
        assert_true(data != NULL && end != NULL && data < end && events->count < EVENTS_MAX);
        snprintf(name, sizeof(name), "%.*s", (int)(data - text - 7), text + 7);
        data += 7;
        yyjson_doc *doc = yyjson_read(data, (size_t)(end - data), 0);
        assert_non_null(doc);
        assert_string_equal(type_of(yyjson_doc_get_root(doc)), name);
        events->docs[events->count++] = doc;
        text = end + 2;
    }
}

static void events_free(struct events *events)
{
    for (size_t i = 0; i < events->count; i++)
        yyjson_doc_free(events->docs[i]);
    events->count = 0;
}

static void assert_stream(const struct talk *talk, const char *const *golden)
{
    struct events events;
    size_t i;

    assert_ok(talk->out.err);
    events_read(&events, buf_str(&talk->out));
    for (i = 0; golden[i] != NULL && i < events.count; i++)
        assert_string_equal(json_compact(yyjson_doc_get_root(events.docs[i])),
                            json_quotes(golden[i]));
    assert_null(golden[i]);
    assert_int_equal(events.count, i);
    events_free(&events);
}

#define USAGE(generated, thoughts)                                                             \
    "'usage':{'input_tokens':1,'cache_creation_input_tokens':34,'cache_read_input_tokens':65," \
    "'cache_creation':{'ephemeral_5m_input_tokens':34,'ephemeral_1h_input_tokens':0},"         \
    "'server_tool_use':null,'service_tier':'standard','inference_geo':null,'speed':null,"      \
    "'output_tokens':" generated ",'output_tokens_details':{'thinking_tokens':" thoughts "}}"
#define X_CACHE                                                                           \
    "'x_cache':{'device':10,'ram':20,'ssd':30,'remote':5,'computed':35,'match':'prefix'," \
    "'reason':'short','first_difference':65}"
#define START                                                                                  \
    "{'type':'message_start','message':{'id':'msg_A','type':'message','role':'assistant',"     \
    "'model':'tiny','content':[],'stop_reason':null,'stop_sequence':null,'stop_details':null," \
    "'container':null," USAGE("0", "0") ",'diagnostics':null," X_CACHE "}}"
#define END(reason, sequence)                                                               \
    "{'type':'message_delta','delta':{'stop_reason':'" reason "','stop_sequence':" sequence \
    ",'stop_details':null,'container':null}," USAGE("7", "3") "," X_CACHE "}",              \
        "{'type':'message_stop'}", NULL
#define BLOCK_START(index, block) \
    "{'type':'content_block_start','index':" index ",'content_block':" block "}"
#define DELTA(index, type, key, text)                                                             \
    "{'type':'content_block_delta','index':" index ",'delta':{'type':'" type "','" key "':'" text \
    "'}}"
#define BLOCK_STOP(index) "{'type':'content_block_stop','index':" index "}"

#define TEXT_START(index)        BLOCK_START(index, "{'type':'text','text':''}")
#define TEXT_DELTA(index, text)  DELTA(index, "text_delta", "text", text)
#define THINK_START(index)       BLOCK_START(index, "{'type':'thinking','thinking':'','signature':''}")
#define THINK_DELTA(index, text) DELTA(index, "thinking_delta", "thinking", text)
#define SIGNATURE(index)         DELTA(index, "signature_delta", "signature", "")
#define TOOL_START(index, id, name)                                           \
    BLOCK_START(index, "{'type':'tool_use','id':'toolu_" id "','name':'" name \
                       "','input':{},'caller':{'type':'direct'}}")
#define TOOL_DELTA(index, text) DELTA(index, "input_json_delta", "partial_json", text)

static const struct {
    const char *events[16];
    enum answer_finish finish;
    const char *stream[32]; /* the data of each event */
    const char *content;    /* of the whole body */
    const char *stop;
} goldens[] = {
    {{NULL},
     ANSWER_STOP,
     {START, END("end_turn", "null")},
     "[]",
     "'stop_reason':'end_turn','stop_sequence':null,'stop_details':null,'container':null"},
    {{"c|Hel", "c|lo\n", NULL},
     ANSWER_STOP,
     {START, TEXT_START("0"), TEXT_DELTA("0", "Hel"), TEXT_DELTA("0", "lo\\n"), BLOCK_STOP("0"),
      END("end_turn", "null")},
     "[{'type':'text','text':'Hello\\n'}]",
     "'stop_reason':'end_turn','stop_sequence':null,'stop_details':null,'container':null"},
    {{"r|Well", "r|...", "c|Yes", NULL},
     ANSWER_STOP,
     {START, THINK_START("0"), THINK_DELTA("0", "Well"), THINK_DELTA("0", "..."), SIGNATURE("0"),
      BLOCK_STOP("0"), TEXT_START("1"), TEXT_DELTA("1", "Yes"), BLOCK_STOP("1"),
      END("end_turn", "null")},
     "[{'type':'thinking','thinking':'Well...','signature':''},{'type':'text','text':'Yes'}]",
     "'stop_reason':'end_turn','stop_sequence':null,'stop_details':null,'container':null"},
    {{"b|f", "a|{'x'", "a|:1}", "e|", NULL},
     ANSWER_CALLS,
     {START, TOOL_START("0", "C0", "f"), TOOL_DELTA("0", "{\\'x\\'"), TOOL_DELTA("0", ":1}"),
      BLOCK_STOP("0"), END("tool_use", "null")},
     "[{'type':'tool_use','id':'toolu_C0','name':'f','input':{'x':1},'caller':{'type':'direct'}}]",
     "'stop_reason':'tool_use','stop_sequence':null,'stop_details':null,'container':null"},
    {{"b|f", "a|{}", "e|", "b|g", "a|{'y':[]}", "e|", NULL},
     ANSWER_CALLS,
     {START, TOOL_START("0", "C0", "f"), TOOL_DELTA("0", "{}"), BLOCK_STOP("0"),
      TOOL_START("1", "C1", "g"), TOOL_DELTA("1", "{\\'y\\':[]}"), BLOCK_STOP("1"),
      END("tool_use", "null")},
     "[{'type':'tool_use','id':'toolu_C0','name':'f','input':{},'caller':{'type':'direct'}},{'type'"
     ":'tool_use','id':'toolu_C1'"
     ",'name':'g','input':{'y':[]},'caller':{'type':'direct'}}]",
     "'stop_reason':'tool_use','stop_sequence':null,'stop_details':null,'container':null"},
    {{"c|Let me see.", "b|f", "a|{}", "e|", "c|Done?", NULL},
     ANSWER_CALLS,
     {START, TEXT_START("0"), TEXT_DELTA("0", "Let me see."), BLOCK_STOP("0"),
      TOOL_START("1", "C0", "f"), TOOL_DELTA("1", "{}"), BLOCK_STOP("1"), TEXT_START("2"),
      TEXT_DELTA("2", "Done?"), BLOCK_STOP("2"), END("tool_use", "null")},
     "[{'type':'text','text':'Let me "
     "see.Done?'},{'type':'tool_use','id':'toolu_C0','name':'f','input':{},'"
     "caller':{'type':'direct'}}]",
     "'stop_reason':'tool_use','stop_sequence':null,'stop_details':null,'container':null"},
    {{"r|hm", "b|f", "a|{}", "e|", NULL},
     ANSWER_CALLS,
     {START, THINK_START("0"), THINK_DELTA("0", "hm"), SIGNATURE("0"), BLOCK_STOP("0"),
      TOOL_START("1", "C0", "f"), TOOL_DELTA("1", "{}"), BLOCK_STOP("1"), END("tool_use", "null")},
     "[{'type':'thinking','thinking':'hm','signature':''},{'type':'tool_use','id':'toolu_C0','name'"
     ":'f','input':{},'caller':{'type':'direct'}}]",
     "'stop_reason':'tool_use','stop_sequence':null,'stop_details':null,'container':null"},
    {{"c|Once upon", NULL},
     ANSWER_LENGTH,
     {START, TEXT_START("0"), TEXT_DELTA("0", "Once upon"), BLOCK_STOP("0"),
      END("max_tokens", "null")},
     "[{'type':'text','text':'Once upon'}]",
     "'stop_reason':'max_tokens','stop_sequence':null,'stop_details':null,'container':null"},
    {{"c|One", NULL},
     ANSWER_STOP_TEXT,
     {START, TEXT_START("0"), TEXT_DELTA("0", "One"), BLOCK_STOP("0"),
      END("stop_sequence", "'EN\\'D'")},
     "[{'type':'text','text':'One'}]",
     "'stop_reason':'stop_sequence','stop_sequence':'EN\\'D','stop_details':null,'container':null"},
    /* Cut off within a call: its block is closed; a body does not have it. */
    {{"c|So:", "b|f", "a|{'x", NULL},
     ANSWER_LENGTH,
     {START, TEXT_START("0"), TEXT_DELTA("0", "So:"), BLOCK_STOP("0"), TOOL_START("1", "C0", "f"),
      TOOL_DELTA("1", "{\\'x"), BLOCK_STOP("1"), END("max_tokens", "null")},
     "[{'type':'text','text':'So:'}]",
     "'stop_reason':'max_tokens','stop_sequence':null,'stop_details':null,'container':null"},
};

static void test_streams(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(goldens); i++) {
        struct talk talk;
        talk_init(&talk);
        dialect->begin(&talk.answer, &talk.out);
        say_all(&talk, goldens[i].events, true);
        finish(&talk, goldens[i].finish);
        end_stream(&talk);
        assert_stream(&talk, goldens[i].stream);
        talk_fini(&talk);
    }
}

static void test_bodies(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(goldens); i++) {
        char body[2048];
        struct talk talk;
        talk_init(&talk);
        say_all(&talk, goldens[i].events, false);
        finish(&talk, goldens[i].finish);
        dialect->body(&talk.answer, &talk.out);
        assert_ok(talk.out.err);
        snprintf(body, sizeof(body),
                 "{'id':'msg_A','type':'message','role':'assistant','model':'tiny','content':%s,%"
                 "s," USAGE("7", "3") ",'diagnostics':null," X_CACHE "}",
                 goldens[i].content, goldens[i].stop);
        assert_string_equal(buf_str(&talk.out), json_quotes(body));
        talk_fini(&talk);
    }
}

static void test_error_in_a_stream(void **state)
{
    static const char *const events[] = {"c|So:", "b|f", "a|{", "x|no JSON", NULL};
    static const char *const golden[] = {
        START,
        TEXT_START("0"),
        TEXT_DELTA("0", "So:"),
        BLOCK_STOP("0"),
        TOOL_START("1", "C0", "f"),
        TOOL_DELTA("1", "{"),
        "{'type':'error','error':{'type':'api_error','message':'the model went \\'wild\\''},"
        "'request_id':'req_2a'}",
        NULL};
    struct api_error error;
    struct talk talk;

    (void)state;
    talk_init(&talk);
    dialect->begin(&talk.answer, &talk.out);
    say_all(&talk, events, true);
    api_error_set(&error, API_ERROR_SERVER, NULL, "the model went \"wild\"");
    dialect->stream_error(&talk.answer, &error, &talk.out);
    assert_stream(&talk, golden);
    talk_fini(&talk);
}

static void test_keepalive(void **state)
{
    struct events events;

    (void)state;
    events_read(&events, dialect->keepalive);
    assert_int_equal(events.count, 1);
    assert_string_equal(json_compact(yyjson_doc_get_root(events.docs[0])), "{\"type\":\"ping\"}");
    events_free(&events);
}

/* ---- errors ---- */

static void test_errors(void **state)
{
    static const struct {
        enum api_error_kind kind;
        unsigned status;
        const char *type;
    } cases[] = {
        {API_ERROR_INVALID, 400, "invalid_request_error"},
        {API_ERROR_AUTH, 401, "authentication_error"},
        {API_ERROR_PERMISSION, 403, "permission_error"},
        {API_ERROR_NOT_FOUND, 404, "not_found_error"},
        {API_ERROR_MODEL, 404, "not_found_error"},
        {API_ERROR_TOO_LARGE, 413, "request_too_large"},
        {API_ERROR_BUSY, 429, "rate_limit_error"},
        {API_ERROR_SERVER, 500, "api_error"},
        {API_ERROR_UNSUPPORTED, 400, "invalid_request_error"}, /* clients try 501 again */
        {API_ERROR_UNAVAILABLE, 529, "overloaded_error"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char golden[256];
        struct api_error error;
        struct buf out;
        buf_init(&out, OUT_BYTES);
        api_error_set(&error, cases[i].kind, "messages[0]", "so it is");
        dialect->error(&error, "req_7", &out);
        snprintf(golden, sizeof(golden),
                 "{'type':'error','error':{'type':'%s','message':'so it is'},'request_id':'req_7'}",
                 cases[i].type);
        assert_string_equal(buf_str(&out), json_quotes(golden));
        assert_int_equal(dialect->status(cases[i].kind), cases[i].status);
        buf_fini(&out);
    }
}

static void test_code_of_an_error(void **state)
{
    struct api_error error;
    struct buf out;

    (void)state;
    buf_init(&out, OUT_BYTES);
    api_error_set(&error, API_ERROR_UNSUPPORTED, "thread", "send it all");
    error.code = "no_threads";
    dialect->error(&error, "req_7", &out);
    assert_string_equal(
        buf_str(&out),
        json_quotes("{'type':'error','error':{'type':'invalid_request_error','message':'send it "
                    "all','details':{'error_code':'no_threads'}},'request_id':'req_7'}"));
    buf_fini(&out);
}

/* Agents look for this sentence to know that they must shorten their conversation. */
static void test_prompt_is_too_long(void **state)
{
    struct api_error error;
    struct buf out;

    (void)state;
    buf_init(&out, OUT_BYTES);
    api_error_set_context(&error, 200001, true, (struct api_context){131072, 131072});
    dialect->error(&error, NULL, &out);
    assert_string_equal(
        buf_str(&out),
        json_quotes("{'type':'error','error':{'type':'invalid_request_error','message':"
                    "'prompt is too long: 200001 tokens > 131072 maximum'},'request_id':null}"));
    assert_int_equal(dialect->status(API_ERROR_CONTEXT), 400);
    buf_fini(&out);
}

static void test_count_has_the_same_errors(void **state)
{
    (void)state;
    assert_ptr_equal(dialect_anthropic_count.error, dialect->error);
    assert_ptr_equal(dialect_anthropic_count.status, dialect->status);
    assert_ptr_equal(dialect_anthropic_count.parse, anthropic_parse_count);
}

/* ---- usage ---- */

static void check_usage_sums(yyjson_val *usage, const struct answer *answer)
{
    const struct gen_usage *is = &answer->usage;
    uint64_t input = yyjson_get_uint(yyjson_obj_get(usage, "input_tokens"));
    uint64_t read = yyjson_get_uint(yyjson_obj_get(usage, "cache_read_input_tokens"));
    uint64_t creation = yyjson_get_uint(yyjson_obj_get(usage, "cache_creation_input_tokens"));
    yyjson_val *by_ttl = yyjson_obj_get(usage, "cache_creation");
    uint64_t short_lived = yyjson_get_uint(yyjson_obj_get(by_ttl, "ephemeral_5m_input_tokens"));
    uint64_t long_lived = yyjson_get_uint(yyjson_obj_get(by_ttl, "ephemeral_1h_input_tokens"));

    assert_int_equal(input + read + creation, is->prompt);
    assert_int_equal(read, is->prompt - is->computed);
    assert_int_equal(short_lived + long_lived, creation);
    assert_int_equal(answer->request->cache_ttl_s < ANTHROPIC_TTL_LONG_S ? long_lived : short_lived,
                     0);
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(usage, "output_tokens")), is->generated);
}

static struct gen_usage random_usage(uint64_t *random)
{
    uint32_t parts[5];

    for (size_t i = 0; i < COUNT_OF(parts); i++)
        parts[i] = test_random_below(random, 2) == 0
                       ? 0
                       : (uint32_t)test_random_below(random, 1u << test_random_below(random, 20));
    return (struct gen_usage){
        .prompt = parts[0] + parts[1] + parts[2] + parts[3] + parts[4],
        .device = parts[0],
        .ram = parts[1],
        .ssd = parts[2],
        .remote = parts[3],
        .computed = parts[4],
        .generated = (uint32_t)test_random_below(random, 5000),
        .reason = (enum hearth_reason)test_random_below(random, HEARTH_REASON_COUNT)};
}

/* I99: the client's token counts add up to its prompt, at the start, at the end and in a body. */
static void test_i99_usage_adds_up(void **state)
{
    uint64_t random = test_seed();

    (void)state;
    for (int round = 0; round < 500; round++) {
        struct talk talk;
        struct events events;
        talk_init(&talk);
        talk.answer.usage = random_usage(&random);
        talk.request.cache_write = test_random_below(&random, 3) != 0;
        talk.request.cache_ttl_s = test_random_below(&random, 2) == 0 ? 300 : 3600;
        dialect->begin(&talk.answer, &talk.out);
        end_stream(&talk);
        events_read(&events, buf_str(&talk.out));
        check_usage_sums(yyjson_ptr_get(yyjson_doc_get_root(events.docs[0]), "/message/usage"),
                         &talk.answer);
        check_usage_sums(yyjson_ptr_get(yyjson_doc_get_root(events.docs[1]), "/usage"),
                         &talk.answer);
        events_free(&events);
        buf_clear(&talk.out);
        dialect->body(&talk.answer, &talk.out);
        yyjson_doc *doc = yyjson_read(buf_str(&talk.out), talk.out.len, 0);
        check_usage_sums(yyjson_ptr_get(yyjson_doc_get_root(doc), "/usage"), &talk.answer);
        yyjson_doc_free(doc);
        talk_fini(&talk);
    }
}

/* ---- the rules of a stream ---- */

struct blocks_check {
    const char *kind; /* of the open block; NULL: none is open */
    uint64_t blocks;
    bool signed_;
};

static void check_start(struct blocks_check *check, yyjson_val *event)
{
    assert_null(check->kind);
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(event, "index")), check->blocks);
    check->blocks++;
    check->kind = type_of(yyjson_obj_get(event, "content_block"));
    check->signed_ = false;
}

static void check_delta(struct blocks_check *check, yyjson_val *event)
{
    const char *type = type_of(yyjson_obj_get(event, "delta"));

    assert_non_null(check->kind);
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(event, "index")), check->blocks - 1);
    assert_false(check->signed_);
    check->signed_ = strcmp(type, "signature_delta") == 0;
    if (strcmp(check->kind, "text") == 0)
        assert_string_equal(type, "text_delta");
    else if (strcmp(check->kind, "tool_use") == 0)
        assert_string_equal(type, "input_json_delta");
    else
        assert_true(check->signed_ || strcmp(type, "thinking_delta") == 0);
}

static void check_stop(struct blocks_check *check, yyjson_val *event)
{
    assert_non_null(check->kind);
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(event, "index")), check->blocks - 1);
    assert_int_equal(check->signed_, strcmp(check->kind, "thinking") == 0);
    check->kind = NULL;
}

static void check_blocks(const struct events *events)
{
    struct blocks_check check = {0};

    assert_true(events->count >= 3);
    assert_string_equal(type_of(yyjson_doc_get_root(events->docs[0])), "message_start");
    for (size_t i = 1; i < events->count - 2; i++) {
        yyjson_val *event = yyjson_doc_get_root(events->docs[i]);
        if (strcmp(type_of(event), "content_block_start") == 0)
            check_start(&check, event);
        else if (strcmp(type_of(event), "content_block_delta") == 0)
            check_delta(&check, event);
        else if (strcmp(type_of(event), "content_block_stop") == 0)
            check_stop(&check, event);
        else
            fail_msg("a %s within a message", type_of(event));
    }
    assert_null(check.kind);
    assert_string_equal(type_of(yyjson_doc_get_root(events->docs[events->count - 2])),
                        "message_delta");
    assert_string_equal(type_of(yyjson_doc_get_root(events->docs[events->count - 1])),
                        "message_stop");
}

/* Bytes of all kinds, half characters and line ends among them: each event stays one event. */
static struct str random_text(uint64_t *random)
{
    static const char *const texts[] = {
        "a",    "\n\n",         "\r", "event: x\ndata: {}\n\n", "\"\\", "\xC3", "\xF0\x9F\x98\x80",
        "\x01", "\xE2\x80\xA8", " "};

    return str_from(texts[test_random_below(random, COUNT_OF(texts))]);
}

static void say_random_call(struct talk *talk, uint64_t *random, bool whole)
{
    say(talk, 'b', random_text(random), true);
    for (uint64_t i = test_random_below(random, 3); i > 0; i--)
        say(talk, 'a', random_text(random), true);
    if (whole)
        say(talk, 'e', STR(""), true);
}

static void test_random_streams_keep_the_rules(void **state)
{
    uint64_t random = test_seed();

    (void)state;
    for (int round = 0; round < 300; round++) {
        struct talk talk;
        struct events events;
        talk_init(&talk);
        dialect->begin(&talk.answer, &talk.out);
        for (uint64_t i = test_random_below(&random, 8); i > 0; i--) {
            uint64_t kind = test_random_below(&random, 3);
            if (kind == 2)
                say_random_call(&talk, &random, true);
            else
                say(&talk, kind == 0 ? 'c' : 'r', random_text(&random), true);
        }
        if (test_random_below(&random, 4) == 0)
            say_random_call(&talk, &random, false);
        finish(&talk, ANSWER_STOP);
        end_stream(&talk);
        assert_ok(talk.out.err);
        events_read(&events, buf_str(&talk.out));
        check_blocks(&events);
        events_free(&events);
        talk_fini(&talk);
    }
}

/* The composer fails by out->err only, and the answer stays usable. */
static void test_every_allocation_fails_once(void **state)
{
    struct fault fault = {0};

    (void)state;
    FAULT_LOOP (&fault) {
        struct talk talk;
        struct buf body;
        talk_init(&talk);
        say_all(&talk, goldens[2].events, false);
        buf_init(&body, OUT_BYTES);
        mem_set_fault(&fault);
        dialect->begin(&talk.answer, &talk.out);
        dialect->event(&talk.answer, 0,
                       &(struct output_event){.type = OUTPUT_CONTENT, .text = STR("x")}, &talk.out);
        end_stream(&talk);
        dialect->body(&talk.answer, &body);
        mem_set_fault(NULL);
        if (atomic_load(&fault.fired) > 0)
            assert_true(talk.out.err == ERR_NOMEM || body.err == ERR_NOMEM);
        else
            assert_true(talk.out.err == ERR_OK && body.err == ERR_OK);
        buf_fini(&body);
        talk_fini(&talk);
    }
}

TEST_SUITE(TEST(test_streams), TEST(test_bodies), TEST(test_error_in_a_stream),
           TEST(test_keepalive), TEST(test_errors), TEST(test_code_of_an_error),
           TEST(test_prompt_is_too_long), TEST(test_count_has_the_same_errors),
           TEST(test_i99_usage_adds_up), TEST(test_random_streams_keep_the_rules),
           TEST(test_every_allocation_fails_once))

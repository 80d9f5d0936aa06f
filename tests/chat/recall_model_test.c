/*
 * Conversations with a real template and a real tokenizer: whatever the client makes of the turns
 * it was told, the prompt of the next turn begins with the prompt of the last one and the tokens
 * that were sampled then.
 *
 * What is "sampled" is made up here, and cut into tokens at random: a model need not write a text
 * with the tokens that the tokenizer would give for it.
 */
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "lab/model_impl.h"
#include "jinja/jinja.h"
#include "base/json_scan.h"
#include "chat/recall.h"
#include "chat/template.h"
#include "support/chat_kit.h"
#include "support/models.h"
#include "support/test.h"

#define HEAD "<|im_start|>assistant\n"
#define END  "<|im_end|>"

enum { MESSAGES_MAX = 16, TOKENS_MAX = 8192, TEXT_MAX = 512 };

/* What a client does to a turn before it sends it back. */
enum client {
    CLIENT_EXACT = 0,
    CLIENT_REORDERS = 1, /* keys of objects */
    CLIENT_INDENTS = 2,
    CLIENT_DROPS = 4, /* thoughts */
    CLIENT_TRIMS = 8,
    CLIENT_ALL = 15,
};

struct said {
    const char *role;
    char content[TEXT_MAX], reasoning[TEXT_MAX], arguments[TEXT_MAX], id[32];
    bool has_call;
};

struct talk {
    struct engine *engine;
    struct jinja *tmpl;
    struct recall *recall;
    struct said messages[MESSAGES_MAX];
    size_t count;
    enum client client;
    bool keep;
    uint64_t seed;
    /* the last prompt and what was generated behind it */
    token_id tokens[TOKENS_MAX];
    size_t tokens_count;
    struct buf text;
    struct hash256 history;
    size_t opening_begin;
};

static const struct hash256 space = {{9}};

/* ---- rendering ---- */

static void put_string(struct buf *json, const char *key, const char *text)
{
    buf_appendf(json, ",\"%s\":\"", key);
    json_scan_escape(json, str_from(text));
    buf_append_char(json, '"');
}

static void put_messages(const struct talk *talk, struct buf *json)
{
    buf_append_str(json, "{\"add_generation_prompt\":true,\"messages\":[");
    for (size_t i = 0; i < talk->count; i++) {
        const struct said *message = &talk->messages[i];
        buf_appendf(json, "%s{\"role\":\"%s\"", i > 0 ? "," : "", message->role);
        put_string(json, "content", message->content);
        if (message->reasoning[0] != '\0')
            put_string(json, "reasoning_content", message->reasoning);
        if (message->has_call)
            buf_appendf(json, ",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":%s}}]",
                        message->arguments);
        buf_append_char(json, '}');
    }
    buf_append_str(json, "]}");
}

static void render(struct talk *talk)
{
    struct jinja_options options = {.limits = jinja_limits_default};
    struct jinja_error error = {0};
    struct jinja_output output;
    struct jinja_value vars;
    struct arena arena;
    struct buf json;

    buf_init(&json, 1 << 20);
    put_messages(talk, &json);
    yyjson_doc *doc = yyjson_read(buf_str(&json), json.len, 0);
    assert_non_null(doc);
    arena_init(&arena, 8 << 20);
    assert_ok(jinja_value_from_json(&arena, yyjson_doc_get_root(doc), NULL, &vars));
    buf_clear(&talk->text);
    jinja_output_init(&output, &talk->text);
    if (jinja_render(talk->tmpl, vars, &options, &arena, jinja_output_sink, &output, &error) !=
        ERR_OK)
        fail_msg("%s", error.message);
    jinja_output_fini(&output);
    arena_fini(&arena);
    yyjson_doc_free(doc);
    buf_fini(&json);
}

/* ---- tokens ---- */

static void tokenize(struct talk *talk, struct str text, token_id *tokens, size_t *count)
{
    struct errinfo info = {0};
    size_t more;

    assert_ok(engine_tokenize(talk->engine, text, ENGINE_TOKENIZE_CONTROL, tokens + *count,
                              TOKENS_MAX - *count, &more, &info));
    *count += more;
}

static void tokenize_plan(struct talk *talk, const struct recall_plan *plan, token_id *tokens,
                          size_t *count)
{
    struct buf run;

    buf_init(&run, 1 << 20);
    for (size_t i = 0; i <= plan->segments_count; i++) {
        const struct recall_segment *segment = &plan->segments[i];
        if (i < plan->segments_count && segment->type != RECALL_TOKENS) {
            buf_append(&run, segment->text.ptr, segment->text.len);
            continue;
        }
        tokenize(talk, (struct str){buf_str(&run), run.len}, tokens, count);
        buf_clear(&run);
        if (i == plan->segments_count)
            break;
        memcpy(tokens + *count, segment->tokens, segment->tokens_count * sizeof(*tokens));
        *count += segment->tokens_count;
    }
    buf_fini(&run);
}

/* The text in pieces of random length, each for itself, and the end of the turn. */
static void sample(struct talk *talk, struct str text, token_id *tokens, size_t *count)
{
    while (text.len > 0) {
        size_t len = 1 + test_random_below(&talk->seed, 7);
        len = MIN(len, text.len);
        tokenize(talk, (struct str){text.ptr, len}, tokens, count);
        text.ptr += len;
        text.len -= len;
    }
    tokenize(talk, STR(END), tokens, count);
}

/* ---- the server ---- */

static struct recall_message message_of(const struct said *message, struct tool_call *call)
{
    *call = (struct tool_call){str_from(message->id), STR("f"), str_from(message->arguments)};
    return (struct recall_message){
        .content = str_from(message->content),
        .reasoning = message->reasoning[0] ? str_from(message->reasoning) : STR_NONE,
        .calls = call,
        .calls_count = message->has_call,
    };
}

/* Thoughts that the client dropped are put back, as far as they are known. */
static void recall(struct talk *talk)
{
    for (size_t i = 0; i < talk->count; i++) {
        struct tool_call call;
        struct recall_message message = message_of(&talk->messages[i], &call);
        struct buf out;
        buf_init(&out, TEXT_MAX - 1);
        if (recall_thought(talk->recall, &space, &message, NULL, &out))
            snprintf(talk->messages[i].reasoning, TEXT_MAX, "%s", buf_str(&out));
        buf_fini(&out);
    }
}

static size_t find_places(struct talk *talk, struct recall_place *places, struct tool_call *calls)
{
    size_t at = 0, count = 0, last_user = 0;
    struct str text = {buf_str(&talk->text), talk->text.len};

    for (size_t i = 0; i < talk->count; i++)
        if (strcmp(talk->messages[i].role, "user") == 0)
            last_user = i;
    for (size_t i = 0; i < talk->count; i++) {
        if (strcmp(talk->messages[i].role, "assistant") != 0)
            continue;
        struct str rest = {text.ptr + at, text.len - at};
        places[count].message = message_of(&talk->messages[i], &calls[count]);
        places[count].user_since = i < last_user;
        places[count].begin = at + str_find(rest, STR(HEAD));
        rest = (struct str){text.ptr + places[count].begin, text.len - places[count].begin};
        at = places[count].end =
            places[count].begin + str_find(rest, STR(END "\n")) + strlen(END "\n");
        count++;
    }
    return count;
}

/* The prompt for the conversation as the client sent it; how many turns were recalled. */
static size_t prompt(struct talk *talk)
{
    struct recall_place places[MESSAGES_MAX];
    struct tool_call calls[MESSAGES_MAX];
    struct recall_plan plan;

    recall(talk);
    render(talk);
    struct recall_prompt request = {.space = space,
                                    .text = {buf_str(&talk->text), talk->text.len},
                                    .end = STR(END),
                                    .places = places,
                                    .places_count = find_places(talk, places, calls),
                                    .keep = talk->keep};
    talk->opening_begin = request.opening_begin = talk->text.len - strlen(HEAD);
    assert_ok(recall_apply(talk->recall, &request, &plan));
    talk->tokens_count = 0;
    tokenize_plan(talk, &plan, talk->tokens, &talk->tokens_count);
    talk->history = plan.history;
    size_t hits = plan.hits;
    recall_plan_fini(&plan);
    return hits;
}

/* ---- the client ---- */

/* Arguments {"b": B, "a": {"y": Y, "x": X}} as this client writes them. */
static void write_arguments(enum client client, unsigned n, char out[TEXT_MAX])
{
    const char *nl = client & CLIENT_INDENTS ? "\n    " : "";
    const char *sp = client & CLIENT_INDENTS ? "   " : "";

    if (client & CLIENT_REORDERS)
        snprintf(out, TEXT_MAX, "{%s\"a\":%s{\"x\":%s[1,2.50],\"y\":\"\xc3\xa9\"},%s\"b\":%s%u%s}",
                 nl, sp, sp, nl, sp, n, nl);
    else
        snprintf(out, TEXT_MAX, "{%s\"b\": %s%u, \"a\": {\"y\": \"\xc3\xa9\", \"x\": [1, 2.5]}%s}",
                 nl, sp, n, nl);
}

static void add_message(struct talk *talk, const char *role, const char *content)
{
    struct said *message = &talk->messages[talk->count++];

    assert_true(talk->count <= MESSAGES_MAX);
    *message = (struct said){.role = role};
    snprintf(message->content, TEXT_MAX, "%s", content);
}

/* The turn as the model writes it, is remembered with, and comes back from the client. */
static void generate(struct talk *talk, bool thinks, bool calls)
{
    token_id tokens[TOKENS_MAX];
    size_t count = 0;
    unsigned n = (unsigned)talk->count;
    struct said told = {.role = "assistant", .has_call = calls};
    struct tool_call call;
    char raw[4 * TEXT_MAX];

    snprintf(told.content, TEXT_MAX, " Turn %u: so be it. \n", n);
    snprintf(told.id, sizeof(told.id), "call_%u", n);
    if (thinks)
        snprintf(told.reasoning, TEXT_MAX, "I think of %u, and of  more.", n);
    if (calls)
        write_arguments(CLIENT_EXACT, n, told.arguments);
    snprintf(raw, sizeof(raw), "%s%s%s%s%s%s%s", thinks ? "<think>\n" : "", told.reasoning,
             thinks ? "\n</think>\n\n" : "", told.content,
             calls ? "<tool_call>\n{\"name\": \"f\", \"arguments\": " : "", told.arguments,
             calls ? "}\n</tool_call>" : "");
    sample(talk, str_from(raw), tokens, &count);
    struct recall_turn turn = {.space = space,
                               .history = talk->history,
                               .opening = STR(HEAD),
                               .message = message_of(&told, &call),
                               .tokens = tokens,
                               .tokens_count = count,
                               .end = STR(END)};
    assert_ok(recall_remember(talk->recall, &turn));
    memcpy(talk->tokens + talk->tokens_count, tokens, count * sizeof(*tokens));
    talk->tokens_count += count;
    if (talk->client & CLIENT_DROPS)
        told.reasoning[0] = '\0';
    if (calls)
        write_arguments(talk->client, n, told.arguments);
    if (talk->client & CLIENT_TRIMS)
        snprintf(told.content, TEXT_MAX, "Turn %u: so be it.", n);
    talk->messages[talk->count++] = told;
}

/* The client answers; the next prompt must begin with what is there. */
static void go_on(struct talk *talk, const char *role, size_t hits)
{
    static token_id before[TOKENS_MAX];
    size_t count = talk->tokens_count;

    memcpy(before, talk->tokens, count * sizeof(*before));
    add_message(talk, role, "Next.");
    assert_int_equal(prompt(talk), hits);
    assert_true(talk->tokens_count > count);
    assert_memory_equal(talk->tokens, before, count * sizeof(*before));
}

static void talk_init(struct talk *talk, struct engine *engine, enum client client, uint64_t seed)
{
    struct jinja_error error = {0};

    *talk = (struct talk){.engine = engine, .client = client, .seed = seed};
    buf_init(&talk->text, 1 << 20);
    talk->recall = recall_create(&(struct recall_options){0});
    assert_ok(jinja_compile(str_from(model_vocab_chat_template()), &talk->tmpl, &error));
    add_message(talk, "user", "Hello <b>.");
    assert_int_equal(prompt(talk), 0);
}

static void talk_fini(struct talk *talk)
{
    recall_destroy(&talk->recall);
    jinja_destroy(&talk->tmpl);
    buf_fini(&talk->text);
}

/* A loop of calls with thoughts, then an answer: the template keeps the thoughts, so all of it is
 * recalled. */
static void test_loops_of_calls_match_token_for_token(void **state)
{
    struct engine *engine = test_engine("qwen3", NULL);
    uint64_t seed = test_seed();

    (void)state;
    for (int client = 0; client <= CLIENT_ALL; client++) {
        static struct talk talk;
        talk_init(&talk, engine, (enum client)client, seed);
        for (size_t turn = 1; turn <= 3; turn++) {
            generate(&talk, turn != 2, true);
            go_on(&talk, "tool", turn);
        }
        talk_fini(&talk);
    }
    engine_close(&engine);
}

/* Answers without thoughts, found by content alone, over several turns of the user. */
static void test_answers_match_token_for_token(void **state)
{
    struct engine *engine = test_engine("qwen3", NULL);
    uint64_t seed = test_seed();

    (void)state;
    for (int client = 0; client <= CLIENT_ALL; client++) {
        static struct talk talk;
        talk_init(&talk, engine, (enum client)client, seed);
        for (size_t turn = 1; turn <= 3; turn++) {
            generate(&talk, false, turn == 2);
            go_on(&talk, turn == 2 ? "tool" : "user", turn);
        }
        talk_fini(&talk);
    }
    engine_close(&engine);
}

/* A new user message: the template drops earlier thoughts, and is followed; with `keep` the tokens
 * stay. */
static void test_thoughts_end_with_the_next_user_message(void **state)
{
    struct engine *engine = test_engine("qwen3", NULL);
    uint64_t seed = test_seed();
    static struct talk talk;

    (void)state;
    talk_init(&talk, engine, CLIENT_EXACT, seed);
    generate(&talk, true, true);
    go_on(&talk, "tool", 1);
    generate(&talk, true, false);
    add_message(&talk, "user", "And now?");
    assert_int_equal(prompt(&talk), 0);
    assert_int_equal(str_find((struct str){buf_str(&talk.text), talk.text.len}, STR("I think")),
                     SIZE_MAX);
    /* From there on the conversation is what the template made of it, and goes on to match. */
    generate(&talk, true, true);
    go_on(&talk, "tool", 1);
    talk_fini(&talk);

    talk_init(&talk, engine, CLIENT_ALL, seed);
    talk.keep = true;
    generate(&talk, true, true);
    go_on(&talk, "tool", 1);
    generate(&talk, true, false);
    go_on(&talk, "user", 2);
    generate(&talk, true, true);
    go_on(&talk, "tool", 3);
    talk_fini(&talk);
    engine_close(&engine);
}

/* ---- marks ---- */

static size_t mark_at(const struct chat_text *text, enum mark_kind kind, size_t message)
{
    for (size_t i = 0; i < text->mark_count; i++)
        if (text->marks[i].kind == kind && text->marks[i].message == message)
            return text->marks[i].at;
    return SIZE_MAX;
}

/* The marks of the template are the places that were found here by hand. */
static void check_marks(struct talk *talk)
{
    struct chat_template_options options = {.source = model_vocab_chat_template()};
    struct recall_place places[MESSAGES_MAX];
    struct tool_call calls[MESSAGES_MAX];
    struct chat_template *tmpl = NULL;
    struct errinfo info = {0};
    struct chat_text text;
    struct arena arena;
    struct buf json;

    buf_init(&json, 1 << 20);
    put_messages(talk, &json);
    struct gen_request read;
    assert_ok(chat_kit_read(&read, buf_str(&json), &info));
    struct chat_request request = chat_kit_request(&read);
    assert_ok(chat_template_create(&options, &tmpl, &info));
    arena_init(&arena, 8 << 20);
    if (chat_template_render(tmpl, &request, &arena, &text, &info) != ERR_OK)
        fail_msg("%s", info.text);
    /* It writes arguments in its own manner, so that the text is not quite that of render(). */
    buf_clear(&talk->text);
    buf_append(&talk->text, text.text.ptr, text.text.len);
    assert_int_equal(text.generation, text.text.len - strlen(HEAD));
    size_t count = find_places(talk, places, calls);
    for (size_t i = 0, place = 0; i < talk->count; i++) {
        if (strcmp(talk->messages[i].role, "assistant") != 0)
            continue;
        assert_true(place < count);
        assert_int_equal(mark_at(&text, MARK_MESSAGE_BEGIN, i), places[place].begin);
        assert_int_equal(mark_at(&text, MARK_MESSAGE_END, i), places[place].end);
        place++;
    }
    chat_template_destroy(&tmpl);
    arena_fini(&arena);
    gen_request_fini(&read);
    buf_fini(&json);
}

static void test_marks_of_the_template_are_the_places(void **state)
{
    struct engine *engine = test_engine("qwen3", NULL);
    static struct talk talk;

    (void)state;
    talk_init(&talk, engine, CLIENT_EXACT, test_seed());
    generate(&talk, true, true);
    go_on(&talk, "tool", 1);
    check_marks(&talk);
    generate(&talk, true, false);
    add_message(&talk, "user", "And now?");
    (void)prompt(&talk);
    check_marks(&talk);
    talk_fini(&talk);
    engine_close(&engine);
}

/* What all this is for: without it the same client's prompt is another one. */
static void test_without_recall_it_does_not_match(void **state)
{
    struct engine *engine = test_engine("qwen3", NULL);
    static token_id before[TOKENS_MAX];
    static struct talk talk;

    (void)state;
    talk_init(&talk, engine, CLIENT_ALL, test_seed());
    generate(&talk, true, true);
    size_t count = talk.tokens_count;
    memcpy(before, talk.tokens, count * sizeof(*before));
    recall_destroy(&talk.recall);
    talk.recall = recall_create(&(struct recall_options){0});
    add_message(&talk, "tool", "Next.");
    assert_int_equal(prompt(&talk), 0);
    assert_memory_not_equal(talk.tokens, before, count * sizeof(*before));
    talk_fini(&talk);
    engine_close(&engine);
}

TEST_SUITE(TEST(test_loops_of_calls_match_token_for_token),
           TEST(test_answers_match_token_for_token),
           TEST(test_thoughts_end_with_the_next_user_message),
           TEST(test_marks_of_the_template_are_the_places),
           TEST(test_without_recall_it_does_not_match))

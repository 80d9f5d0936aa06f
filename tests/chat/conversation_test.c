/* The conversation: what is added, what is borrowed, what is joined. */
#include "chat/conversation.h"

#include <string.h>
#include <yyjson.h>

#include "base/json_write.h"
#include "base/mem.h"
#include "support/chat_kit.h"
#include "support/test.h"

/* A text of the client is where the parser of the body put it: it is not copied again before it is
 * rendered. */
static void test_texts_are_borrowed_from_the_body(void **state)
{
    static const char body[] =
        "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]},"
        "{\"role\":\"assistant\",\"content\":null,\"reasoning\":\"t\",\"tool_calls\":[{\"id\":"
        "\"c\","
        "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}],"
        "\"tools\":[{\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}}]}";
    struct gen_request request;
    struct errinfo info;

    (void)state;
    assert_ok(chat_kit_read(&request, body, &info));
    yyjson_val *root = yyjson_doc_get_root(request.body);
    const struct message *messages = request.conversation.messages;
    const char *const pairs[][2] = {
        {messages[0].parts[0].text.ptr, "/messages/0/content"},
        {messages[1].parts[0].text.ptr, "/messages/1/content/0/text"},
        {messages[2].thought.ptr, "/messages/2/reasoning"},
        {messages[2].calls[0].id.ptr, "/messages/2/tool_calls/0/id"},
        {messages[2].calls[0].arguments.ptr, "/messages/2/tool_calls/0/function/arguments"},
        {request.conversation.tools[0].name.ptr, "/tools/0/function/name"},
    };
    for (size_t i = 0; i < COUNT_OF(pairs); i++)
        assert_ptr_equal(pairs[i][0], yyjson_get_str(yyjson_ptr_get(root, pairs[i][1])));
    assert_ptr_equal(request.conversation.tools[0].schema,
                     yyjson_ptr_get(root, "/tools/0/function/parameters"));
    gen_request_fini(&request);
}

static void test_a_text_and_its_parts(void **state)
{
    struct message message = {.role = ROLE_USER};
    struct arena arena;
    struct str text;

    (void)state;
    arena_init(&arena, 1 << 16);
    assert_ok(message_text(&message, &arena, STR("\n"), &text));
    assert_int_equal(text.len, 0);
    assert_ok(message_set_parts(&message, &arena, 3));
    message.parts[0].text = STR("a");
    message.parts[2].text = STR("b");
    assert_ok(message_text(&message, &arena, STR("\n"), &text));
    assert_true(str_eq(text, STR("a\n\nb")));
    assert_ok(message_text(&message, &arena, STR(""), &text));
    assert_true(str_eq(text, STR("ab")));
    assert_int_equal(message.form, CONTENT_PARTS);
    struct str whole = STR("whole");
    assert_ok(message_set_text(&message, &arena, whole));
    assert_ok(message_text(&message, &arena, STR("\n"), &text));
    assert_ptr_equal(text.ptr, whole.ptr);
    assert_int_equal(message.form, CONTENT_TEXT);
    arena_fini(&arena);
}

static void test_texts_become_one(void **state)
{
    struct texts texts = {0};
    struct str only = STR("only"), text;
    struct arena arena;

    (void)state;
    arena_init(&arena, 1 << 16);
    assert_ok(texts_join(&texts, &arena, &text));
    assert_true(text.ptr != NULL && text.len == 0 && !texts.any);
    assert_ok(texts_add(&texts, &arena, STR("\n"), STR("")));
    assert_true(texts.any);
    assert_ok(texts_add(&texts, &arena, STR("\n"), only));
    assert_ok(texts_join(&texts, &arena, &text));
    assert_ptr_equal(text.ptr, only.ptr);
    for (int i = 0; i < 9; i++)
        assert_ok(texts_add(&texts, &arena, i % 2 ? STR("") : STR("-"), STR("x")));
    assert_ok(texts_join(&texts, &arena, &text));
    assert_true(str_eq(text, STR("only-xx-xx-xx-xx-x")));
    assert_int_equal(text.len, texts.len);
    arena_fini(&arena);
}

static void test_many_messages_keep_their_order(void **state)
{
    struct arena arena;
    struct conversation talk = {.arena = &arena};

    (void)state;
    arena_init(&arena, 1 << 20);
    assert_ok(conversation_reserve(&talk, 3));
    for (unsigned i = 0; i < 100; i++) {
        char *text = arena_printf(&arena, "%u", i);
        assert_non_null(
            conversation_add_text(&talk, i % 2 ? ROLE_USER : ROLE_TOOL, str_from(text)));
        struct tool *tool = conversation_add_tool(&talk);
        assert_non_null(tool);
        tool->name = str_from(text);
    }
    assert_int_equal(talk.count, 100);
    assert_int_equal(talk.tools_count, 100);
    for (unsigned i = 0; i < 100; i++) {
        assert_true(str_eq(talk.messages[i].parts[0].text, talk.tools[i].name));
        assert_int_equal(talk.messages[i].role, i % 2 ? ROLE_USER : ROLE_TOOL);
    }
    arena_fini(&arena);
}

/* Everything that adds, until the n-th allocation or the arena's limit stops it. */
static enum err add_all(struct conversation *talk)
{
    struct yyjson_val *schema;
    struct str json;

    for (int i = 0; i < 3; i++) {
        struct message *message = conversation_add_text(talk, ROLE_ASSISTANT, STR("x"));
        if (message == NULL)
            return talk->arena->err;
        TRY(message_add_call(message, talk->arena, (struct tool_call){.name = STR("f")}));
        assert_true(str_eq(message->calls[0].arguments, STR("{}")));
        TRY(conversation_constant(talk, STR("{\"a\":[1,\"b\"]}"), &schema));
        TRY(conversation_json(talk, schema, &json));
        assert_true(str_eq(json, STR("{\"a\":[1,\"b\"]}")));
        struct tool *tool = conversation_add_tool(talk);
        if (tool == NULL)
            return talk->arena->err;
        *tool = (struct tool){.name = STR("f"), .schema = schema, .strict = true};
    }
    return ERR_OK;
}

static void test_no_room(void **state)
{
    struct arena arena;
    struct fault fault = {0};
    bool passed = false;

    (void)state;
    for (size_t limit = 0; limit < 8192; limit += 16) {
        arena_init(&arena, limit);
        struct conversation talk = {.arena = &arena};
        enum err err = add_all(&talk);
        assert_true(err == ERR_OK || (err == ERR_LIMIT && !passed));
        passed = err == ERR_OK;
        arena_fini(&arena);
    }
    assert_true(passed);
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        arena_init(&arena, 1 << 20);
        struct conversation talk = {.arena = &arena};
        enum err err = add_all(&talk);
        assert_err(err, atomic_load(&fault.fired) > 0 ? ERR_NOMEM : ERR_OK);
        arena_fini(&arena);
    }
    mem_set_fault(NULL);
}

static void test_a_tool_as_json(void **state)
{
    yyjson_doc *doc = yyjson_read("{\"type\":\"object\"}", 17, 0);
    const struct tool tools[] = {{.name = STR("f"),
                                  .description = STR("d\n"),
                                  .schema = yyjson_doc_get_root(doc),
                                  .strict = true},
                                 {.name = STR("g")}};
    struct buf text;

    (void)state;
    buf_init(&text, 1024);
    struct json json = json_to(&text);
    tool_write(&json, &tools[0]);
    tool_write(&json, &tools[1]);
    assert_string_equal(buf_str(&text), "{\"type\":\"function\",\"function\":{\"name\":\"f\","
                                        "\"description\":\"d\\n\",\"parameters\":{"
                                        "\"type\":\"object\"},\"strict\":true}},{\"type\":"
                                        "\"function\",\"function\":{\"name\":\"g\"}}");
    buf_fini(&text);
    yyjson_doc_free(doc);
}

TEST_SUITE(TEST(test_texts_are_borrowed_from_the_body), TEST(test_a_text_and_its_parts),
           TEST(test_texts_become_one), TEST(test_many_messages_keep_their_order),
           TEST(test_no_room), TEST(test_a_tool_as_json))

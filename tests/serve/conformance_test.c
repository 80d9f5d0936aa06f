/*
 * conformance_test.c: the answers of the published interfaces, by the fixtures in
 * tests/data/conformance. A fixture states facts about an interface: which members an object must
 * have and of which types, and which event may follow which. A random model answers, so texts are
 * not compared.
 *
 *      "suite": {"basic-response": "a whole response"},         names of a public suite: our cases
 *      "lists": {"usage": ["input_tokens integer", ...]},       lists of members, by name
 *      "cases": [
 *       {"name":..., "path":..., "body":{...}, "status":200,
 *        "has":    {"/usage": ["input_tokens integer", "details object|null"]},
 *        "is":     {"/object": "response"},
 *        "header": ["request-id"],
 *        "follows": {"": ["message_start"], "message_start": ["content_block_start"], ...},
 *        "last":   "message_stop", "done": false, "numbered": true,
 *        "events": {"message_start": {"/message": ["id string"]}}}]
 *
 * A missing body is a GET. "follows", "last", "done", "numbered" and "events" are those of a
 * stream, and may be given once for all cases, beside "cases". In chat an event has no name; its data is then looked at under the name "".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/api_kit.h"
#include "support/test.h"

/* Calls and thoughts are possible; the template itself forces neither. */
static const struct api_kit_options options = {
    .family = "qwen3",
    .template_text =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if tools %}{{ tools | tojson }}<tool_call>\n{\"name\": \"f\", \"arguments\": "
        "{}}\n</tool_call>{% endif %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
};

static const char *case_name;
static yyjson_val *file_root;

/* A part of the fixture, or the one that it names. */
static yyjson_val *named(yyjson_val *value, const char *kind)
{
    yyjson_val *table = yyjson_obj_get(file_root, kind);

    if (!yyjson_is_str(value))
        return value;
    yyjson_val *found =
        strcmp(kind, "lists") == 0 ? yyjson_obj_get(table, yyjson_get_str(value)) : table;
    if (found == NULL)
        fail_msg("%s: no '%s' of the name '%s'", case_name, kind, yyjson_get_str(value));
    return found;
}

static bool is_of_type(yyjson_val *value, struct str type)
{
    struct str is = yyjson_is_str(value)    ? STR("string")
                    : yyjson_is_bool(value) ? STR("boolean")
                    : yyjson_is_null(value) ? STR("null")
                    : yyjson_is_arr(value)  ? STR("array")
                    : yyjson_is_obj(value)  ? STR("object")
                    : yyjson_is_int(value)  ? STR("integer")
                                            : STR("number");

    return str_eq(is, type) || (str_eq(type, STR("number")) && yyjson_is_num(value));
}

/* "name type|type" */
static void check_member(yyjson_val *object, const char *pointer, const char *member)
{
    const char *blank = strchr(member, ' ');

    assert_non_null(blank);
    yyjson_val *value = yyjson_obj_getn(object, member, (size_t)(blank - member));
    if (value == NULL)
        fail_msg("%s: '%s' lacks '%.*s'", case_name, pointer, (int)(blank - member), member);
    struct str types = str_from(blank + 1), type;
    bool fits = false;
    while (!fits && str_next(&types, '|', &type))
        fits = is_of_type(value, type);
    if (!fits)
        fail_msg("%s: '%s': '%s' is a %s", case_name, pointer, member, yyjson_get_type_desc(value));
}

static void check_members(yyjson_val *root, yyjson_val *has)
{
    size_t i, count, k, members;
    yyjson_val *pointer, *list, *member;

    yyjson_obj_foreach(has, i, count, pointer, list)
    {
        yyjson_val *object = yyjson_ptr_get(root, yyjson_get_str(pointer));
        if (!yyjson_is_obj(object))
            fail_msg("%s: there is no object at '%s'", case_name, yyjson_get_str(pointer));
        yyjson_arr_foreach(named(list, "lists"), k, members, member)
            check_member(object, yyjson_get_str(pointer), yyjson_get_str(member));
    }
}

static void check_values(yyjson_val *root, yyjson_val *is)
{
    size_t i, count;
    yyjson_val *pointer, *value;

    yyjson_obj_foreach(is, i, count, pointer, value)
    {
        yyjson_val *found = yyjson_ptr_get(root, yyjson_get_str(pointer));
        if (!yyjson_equals(found, value)) {
            char *text = found ? yyjson_val_write(found, 0, NULL) : NULL;
            fail_msg("%s: '%s' is %s", case_name, yyjson_get_str(pointer), text ? text : "missing");
        }
    }
}

/* ---- streams ---- */

static bool lists(yyjson_val *list, struct str text)
{
    size_t i, count;
    yyjson_val *entry;

    yyjson_arr_foreach(list, i, count, entry)
    {
        if (str_eq((struct str){yyjson_get_str(entry), yyjson_get_len(entry)}, text))
            return true;
    }
    return false;
}

struct stream {
    yyjson_val *fixture;
    char last[64]; /* the event before this one; "" at first */
    uint64_t number;
    bool done;
};

static void check_event(struct stream *stream, struct str name, yyjson_val *data)
{
    yyjson_val *follows = named(yyjson_obj_get(stream->fixture, "follows"), "follows");
    yyjson_val *events = named(yyjson_obj_get(stream->fixture, "events"), "events");
    char event[64];

    snprintf(event, sizeof(event), STR_FMT, STR_ARG(name));
    if (stream->done)
        fail_msg("%s: '%s' after [DONE]", case_name, event);
    if (follows && !lists(yyjson_obj_get(follows, stream->last), name))
        fail_msg("%s: '%s' follows '%s'", case_name, event, stream->last);
    if (name.len > 0)
        assert_string_equal(yyjson_get_str(yyjson_obj_get(data, "type")), event);
    if (yyjson_is_true(yyjson_obj_get(stream->fixture, "numbered")))
        assert_int_equal(yyjson_get_uint(yyjson_obj_get(data, "sequence_number")),
                         stream->number++);
    check_members(data, yyjson_obj_get(events, event));
    snprintf(stream->last, sizeof(stream->last), "%s", event);
}

static void check_stream(yyjson_val *fixture, struct str text)
{
    struct stream stream = {.fixture = fixture};
    struct str name;
    struct buf data;

    buf_init(&data, 1 << 20);
    while (http_sse_next(&text, &name, &data, NULL)) {
        if (strcmp(buf_str(&data), "[DONE]") == 0) {
            stream.done = true;
        } else {
            yyjson_doc *doc = yyjson_read(data.data, data.len, 0);
            assert_non_null(doc);
            check_event(&stream, name, yyjson_doc_get_root(doc));
            yyjson_doc_free(doc);
        }
        buf_clear(&data);
    }
    buf_fini(&data);
    assert_string_equal(stream.last, yyjson_get_str(yyjson_obj_get(fixture, "last")));
    assert_int_equal(stream.done, yyjson_is_true(yyjson_obj_get(fixture, "done")));
}

/* ---- cases ---- */

static void check_answer(yyjson_val *fixture, const struct http_answer *answer)
{
    size_t i, count;
    yyjson_val *header;
    int status = yyjson_get_int(yyjson_obj_get(fixture, "status"));

    if (answer->status != (status ? status : 200))
        fail_msg("%s: %d %s", case_name, answer->status, buf_str(&answer->body));
    yyjson_arr_foreach(yyjson_obj_get(fixture, "header"), i, count, header)
    {
        if (http_answer_header(answer, yyjson_get_str(header)).len == 0)
            fail_msg("%s: no header '%s'", case_name, yyjson_get_str(header));
    }
    if (yyjson_obj_get(fixture, "last")) {
        check_stream(fixture, (struct str){buf_str(&answer->body), answer->body.len});
        return;
    }
    yyjson_doc *doc = yyjson_read(answer->body.data, answer->body.len, 0);
    assert_non_null(doc);
    check_members(yyjson_doc_get_root(doc), yyjson_obj_get(fixture, "has"));
    check_values(yyjson_doc_get_root(doc), yyjson_obj_get(fixture, "is"));
    yyjson_doc_free(doc);
}

static void run_file(const char *file)
{
    struct api_kit kit;
    size_t i, count;
    yyjson_val *fixture;
    yyjson_read_err err = {0};
    yyjson_doc *doc = yyjson_read_file(file, 0, NULL, &err);

    if (doc == NULL)
        fail_msg("%s: %s at byte %zu", file, err.msg, err.pos);
    api_kit_open(&kit, &options);
    file_root = yyjson_doc_get_root(doc);
    yyjson_arr_foreach(yyjson_obj_get(file_root, "cases"), i, count, fixture)
    {
        struct http_answer answer;
        yyjson_val *body = yyjson_obj_get(fixture, "body");
        char *text = body ? yyjson_val_write(body, 0, NULL) : NULL;
        case_name = yyjson_get_str(yyjson_obj_get(fixture, "name"));
        api_kit_ask(&kit, text ? "POST" : "GET", yyjson_get_str(yyjson_obj_get(fixture, "path")),
                    yyjson_get_str(yyjson_obj_get(fixture, "headers")), text, &answer);
        check_answer(fixture, &answer);
        http_answer_fini(&answer);
        free(text);
    }
    assert_true(count > 0);
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* Each test of the public suite, by its name, has a case here. Those that need a WebSocket have none;
 * a picture is read in scenario/pictures. */
static void test_every_case_of_the_suite(void **state)
{
    yyjson_doc *doc = yyjson_read_file("tests/data/conformance/responses.json", 0, NULL, NULL);
    yyjson_val *root = yyjson_doc_get_root(doc), *name, *ours, *fixture;
    size_t i, k, count, cases;

    (void)state;
    yyjson_obj_foreach(yyjson_obj_get(root, "suite"), i, count, name, ours)
    {
        bool found = false;

        yyjson_arr_foreach(yyjson_obj_get(root, "cases"), k, cases, fixture)
        {
            found |= yyjson_equals(yyjson_obj_get(fixture, "name"), ours);
        }
        if (!found)
            fail_msg("%s: there is no case '%s'", yyjson_get_str(name), yyjson_get_str(ours));
    }
    assert_true(count > 10);
    yyjson_doc_free(doc);
}

static void test_open_responses(void **state)
{
    (void)state;
    run_file("tests/data/conformance/responses.json");
}

static void test_chat_completions(void **state)
{
    (void)state;
    run_file("tests/data/conformance/chat.json");
}

static void test_messages(void **state)
{
    (void)state;
    run_file("tests/data/conformance/messages.json");
}

TEST_SUITE(TEST(test_every_case_of_the_suite), TEST(test_open_responses),
           TEST(test_chat_completions), TEST(test_messages))

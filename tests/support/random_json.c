/* random_json.c: see the header. */
#include "support/random_json.h"

#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "support/api_fields.h"
#include "support/pictures.h"
#include "support/scenario.h"
#include "support/test.h"

/* ---- values that mean nothing ---- */

static yyjson_mut_val *deep_value(yyjson_mut_doc *doc, uint64_t *seed)
{
    yyjson_mut_val *value = yyjson_mut_arr(doc);

    for (uint64_t n = test_random_below(seed, 200); n > 0; n--) {
        yyjson_mut_val *outer = yyjson_mut_arr(doc);
        yyjson_mut_arr_append(outer, value);
        value = outer;
    }
    return value;
}

static yyjson_mut_val *text_value(yyjson_mut_doc *doc, uint64_t *seed)
{
    static const char *const texts[] = {
        "",
        "x",
        "<|im_end|>\n<|im_start|>system\n",
        "\xf0\x9f\x94\xa5",
        "{{ 7 * 7 }}{% for %}",
        "auto",
        "none",
        "user",
        "tool",
        "json_object",
        "enabled",
        "<think>",
        "\x01\x02\x7f",
    };
    static const char nul[] = "a\0b";

    if (test_random_below(seed, 10) == 0)
        return yyjson_mut_strncpy(doc, nul, 3);
    if (test_random_below(seed, 10) == 0)
        return yyjson_mut_str(doc, talk_words(*seed % 8, 100));
    return yyjson_mut_str(doc, texts[test_random_below(seed, COUNT_OF(texts))]);
}

static yyjson_mut_val *number_value(yyjson_mut_doc *doc, uint64_t *seed)
{
    static const double numbers[] = {-1, 0.5, -0.0, 1e308, -1e308, 1e-320, 3, 2147483648.0, 1e18};

    switch (test_random_below(seed, 3)) {
    case 0:
        return yyjson_mut_uint(doc, test_random(seed) >> test_random_below(seed, 64));
    case 1:
        return yyjson_mut_sint(doc,
                               -(int64_t)(test_random(seed) >> (1 + test_random_below(seed, 62))));
    default:
        return yyjson_mut_real(doc, numbers[test_random_below(seed, COUNT_OF(numbers))]);
    }
}

yyjson_mut_val *random_json_value(yyjson_mut_doc *doc, uint64_t *seed)
{
    switch (test_random_below(seed, 7)) {
    case 0:
        return yyjson_mut_null(doc);
    case 1:
        return yyjson_mut_bool(doc, test_random_below(seed, 2) == 0);
    case 2:
        return yyjson_mut_obj(doc);
    case 3:
        return yyjson_mut_arr(doc);
    case 4:
        return deep_value(doc, seed);
    case 5:
        return text_value(doc, seed);
    default:
        return number_value(doc, seed);
    }
}

/* ---- values by the structure of requests ---- */

#define TOOL                                                                               \
    "[{\"type\":\"function\",\"name\":\"f\",\"function\":{\"name\":\"f\",\"parameters\":{" \
    "\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"integer\"}}}}}]"

/* What some endpoint takes for the field. A `%s` becomes a picture in base64. */
static const struct shape {
    const char *field, *json;
} shapes[] = {
    {"messages", "[{\"role\":\"user\",\"content\":\"Hi\"}]"},
    {"messages", "[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":"
                 "[{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,%s\"}},"
                 "{\"type\":\"text\",\"text\":\"What?\"}]}]"},
    {"messages", "[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"source\":{\"type\":"
                 "\"base64\",\"media_type\":\"image/png\",\"data\":\"%s\"}}]}]"},
    {"messages",
     "[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":null,"
     "\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\","
     "\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"2\"}]"},
    {"content", "\"Hello\""},
    {"content", "[{\"type\":\"text\",\"text\":\"Hi\"}]"},
    {"prompt", "\"Once upon a time\""},
    {"prompt", "[\"a\",\"b\"]"},
    {"prompt", "[1,2,3]"},
    {"input", "\"Hello\""},
    {"input", "[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"Hi\"}]}]"},
    {"tokens", "[1,2,3]"},
    {"images", "[\"%s\"]"},
    {"tools", TOOL},
    {"tool_choice", "\"required\""},
    {"tool_choice", "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"},
    {"response_format", "{\"type\":\"json_object\"}"},
    {"response_format", "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\",\"schema\":{"
                        "\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[1,2]}}}}}"},
    {"format", "\"json\""},
    {"grammar", "\"root ::= [a-z]+\""},
    {"query", "\"What?\""},
    {"documents", "[\"one\",\"two\"]"},
    {"max_tokens", "2"},
    {"n", "2"},
    {"stream", "true"},
    {"logprobs", "true"},
    {"temperature", "0.5"},
    {"echo", "true"},
    {"keep_alive", "0"},
    {"stop", "[\"x\"]"},
    {"system", "\"Be brief.\""},
    {"against", "{\"prompt\":\"Once upon\"}"},
    {"dialect", "\"messages\""},
    {"tenant", "\"other\""},
    {"key", "\"0\""},
    {"id_slot", "0"},
    {"filename", "\"x\""},
};

static yyjson_mut_val *shape_value(yyjson_mut_doc *doc, const struct shape *shape)
{
    static char picture[1024]; /* of one test's process */
    char text[4096];

    if (picture[0] == '\0') {
        char *base64 = test_base64(test_gif_plain(20, 20, 0));
        assert_true(strlen(base64) < sizeof(picture));
        memcpy(picture, base64, strlen(base64) + 1);
        mem_free(base64);
    }
    const char *mark = strstr(shape->json, "%s");
    int before = mark != NULL ? (int)(mark - shape->json) : (int)strlen(shape->json);
    snprintf(text, sizeof(text), "%.*s%s%s", before, shape->json, mark != NULL ? picture : "",
             mark != NULL ? mark + 2 : "");
    yyjson_doc *read = yyjson_read(text, strlen(text), 0);
    assert_non_null(read);
    yyjson_mut_val *value = yyjson_val_mut_copy(doc, yyjson_doc_get_root(read));
    yyjson_doc_free(read);
    return value;
}

static yyjson_mut_val *some_object(yyjson_mut_doc *doc, const struct api_fields *fields,
                                   unsigned depth, uint64_t *seed);

static yyjson_mut_val *some_value(yyjson_mut_doc *doc, const struct api_fields *fields,
                                  unsigned depth, uint64_t *seed)
{
    yyjson_mut_val *list;

    switch (test_random_below(seed, depth > 0 ? 6 : 4)) {
    case 0:
    case 1:
        return shape_value(doc, &shapes[test_random_below(seed, COUNT_OF(shapes))]);
    case 2:
    case 3:
        return random_json_value(doc, seed);
    case 4:
        return some_object(doc, fields, depth - 1, seed);
    default:
        list = yyjson_mut_arr(doc);
        for (uint64_t n = test_random_below(seed, 4); n > 0; n--)
            yyjson_mut_arr_append(list, some_value(doc, fields, depth - 1, seed));
        return list;
    }
}

/* One that fits the field, where one is known, more often than not. */
static yyjson_mut_val *value_for(yyjson_mut_doc *doc, const struct api_fields *fields,
                                 const char *field, unsigned depth, uint64_t *seed)
{
    size_t first = test_random_below(seed, COUNT_OF(shapes));

    for (size_t i = 0; i < COUNT_OF(shapes) && test_random_below(seed, 200) > 0; i++) {
        const struct shape *shape = &shapes[(first + i) % COUNT_OF(shapes)];
        if (strcmp(shape->field, field) == 0)
            return shape_value(doc, shape);
    }
    return some_value(doc, fields, depth, seed);
}

static void add_field(yyjson_mut_doc *doc, yyjson_mut_val *object, const struct api_fields *fields,
                      const char *field, unsigned depth, uint64_t *seed)
{
    yyjson_mut_obj_put(object, yyjson_mut_strcpy(doc, field),
                       value_for(doc, fields, field, depth, seed));
}

static yyjson_mut_val *some_object(yyjson_mut_doc *doc, const struct api_fields *fields,
                                   unsigned depth, uint64_t *seed)
{
    yyjson_mut_val *object = yyjson_mut_obj(doc);

    for (uint64_t n = test_random_below(seed, 5); n > 0; n--)
        add_field(doc, object, fields, fields->names[test_random_below(seed, fields->count)], depth,
                  seed);
    return object;
}

char *random_json_request(const struct api_fields *fields, uint64_t *seed, size_t *len)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *object = some_object(doc, fields, 3, seed);

    /* else nearly all end at the first field that is missing */
    for (uint64_t n = 1 + test_random_below(seed, 3); n > 0; n--)
        add_field(doc, object, fields, shapes[test_random_below(seed, COUNT_OF(shapes))].field, 2,
                  seed);
    yyjson_mut_doc_set_root(doc, object);
    char *text = yyjson_mut_write(doc, 0, len);
    yyjson_mut_doc_free(doc);
    return text;
}

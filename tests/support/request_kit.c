/*
 * request_kit.c: see request_kit.h.
 */
#include "support/request_kit.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/test.h"

const char *json_quotes(const char *text)
{
    static char texts[8][REQUEST_KIT_BYTES];
    static size_t next;
    char *out = texts[next++ % 8];

    assert_true(strlen(text) < REQUEST_KIT_BYTES);
    for (size_t i = 0; i <= strlen(text); i++)
        out[i] = text[i] == '\'' ? '"' : text[i];
    return out;
}

void parsed_init(struct parsed *parsed, request_parse_fn *parse, const char *body)
{
    const char *text = json_quotes(body);

    memset(parsed, 0, sizeof(*parsed));
    gen_request_init(&parsed->request, REQUEST_KIT_LIMIT, NULL);
    parsed->request.body = yyjson_read(text, strlen(text), 0);
    if (parsed->request.body == NULL)
        fail_msg("no JSON: %s", body);
    parsed->err =
        parse(&parsed->request, yyjson_doc_get_root(parsed->request.body), &parsed->error);
}

void parsed_fini(struct parsed *parsed)
{
    gen_request_fini(&parsed->request);
}

const char *json_compact(yyjson_val *value)
{
    static char *text;

    free(text);
    text = value != NULL ? yyjson_val_write(value, 0, NULL) : NULL;
    return text != NULL ? text : "null";
}

void assert_parses(request_parse_fn *parse, const char *body)
{
    struct parsed parsed;

    parsed_init(&parsed, parse, body);
    if (parsed.err != ERR_OK)
        fail_msg("%s\nwas refused: %s", body, parsed.error.message);
    parsed_fini(&parsed);
}

void assert_refused(request_parse_fn *parse, const char *body, enum api_error_kind kind,
                    const char *param, const char *message)
{
    struct parsed parsed;

    parsed_init(&parsed, parse, body);
    if (parsed.err != ERR_INVALID || parsed.error.kind != kind ||
        strcmp(parsed.error.param, param) != 0 || strcmp(parsed.error.message, message) != 0)
        fail_msg("%s\ngave %s, kind %d, field %s: %s\nnot kind %d, field %s: %s", body,
                 err_name(parsed.err), (int)parsed.error.kind, parsed.error.param,
                 parsed.error.message, (int)kind, param, message);
    parsed_fini(&parsed);
}

/* ---- mutation ---- */

static const char *const odd_values[] = {
    "null",
    "true",
    "0",
    "-1",
    "1.5",
    "1e300",
    "18446744073709551615",
    "\"\"",
    "\"text\"",
    "[]",
    "[[]]",
    "{}",
    "[{}]",
    "\"tool_result\"",
    "\"assistant\"",
    "{\"type\":\"text\"}",
    "\"user\"",
    "{\"type\":\"ephemeral\",\"ttl\":\"1h\"}",
    "\"a\\u0000b\"",
};

static yyjson_mut_val *odd_value(yyjson_mut_doc *doc, uint64_t *random)
{
    const char *text = odd_values[test_random_below(random, COUNT_OF(odd_values))];
    yyjson_doc *read = yyjson_read(text, strlen(text), 0);
    yyjson_mut_val *value = yyjson_val_mut_copy(doc, yyjson_doc_get_root(read));

    yyjson_doc_free(read);
    return value;
}

/* Of a random member: its key and value. */
static yyjson_mut_val *any_key(yyjson_mut_val *object, uint64_t *random)
{
    yyjson_mut_obj_iter iter = yyjson_mut_obj_iter_with(object);
    yyjson_mut_val *key = NULL;

    for (size_t i = test_random_below(random, yyjson_mut_obj_size(object)) + 1; i > 0; i--)
        key = yyjson_mut_obj_iter_next(&iter);
    return key;
}

static yyjson_mut_val *any_child(yyjson_mut_val *value, uint64_t *random)
{
    if (yyjson_mut_is_arr(value))
        return yyjson_mut_arr_get(value, test_random_below(random, yyjson_mut_arr_size(value)));
    return yyjson_mut_obj_iter_get_val(any_key(value, random));
}

/* A container that is not empty, somewhere in the tree; the root may be it. */
static yyjson_mut_val *any_container(yyjson_mut_val *value, uint64_t *random)
{
    while (test_random_below(random, 5) != 0) {
        yyjson_mut_val *child = any_child(value, random);
        if (yyjson_mut_is_ctn(child) && unsafe_yyjson_get_len(child) > 0)
            value = child;
    }
    return value;
}

static void change_array(yyjson_mut_doc *doc, yyjson_mut_val *array, uint64_t *random)
{
    size_t at = test_random_below(random, yyjson_mut_arr_size(array));

    switch (test_random_below(random, 3)) {
    case 0:
        yyjson_mut_arr_remove(array, at);
        break;
    case 1:
        yyjson_mut_arr_append(array, yyjson_mut_val_mut_copy(doc, yyjson_mut_arr_get(array, at)));
        break;
    default:
        yyjson_mut_arr_replace(array, at, odd_value(doc, random));
    }
}

char *json_mutate(const char *text, uint64_t *random)
{
    yyjson_doc *read = yyjson_read(text, strlen(text), 0);
    yyjson_mut_doc *doc = yyjson_doc_mut_copy(read, NULL);
    yyjson_mut_val *root = yyjson_mut_doc_get_root(doc);

    if (yyjson_mut_is_ctn(root) && unsafe_yyjson_get_len(root) > 0) {
        yyjson_mut_val *parent = any_container(root, random);
        if (yyjson_mut_is_arr(parent))
            change_array(doc, parent, random);
        else if (test_random_below(random, 3) == 0)
            yyjson_mut_obj_remove(parent, any_key(parent, random));
        else
            yyjson_mut_obj_replace(parent, any_key(parent, random), odd_value(doc, random));
    }
    char *out = yyjson_mut_write(doc, 0, NULL);
    char *copy = mem_strdup(out);
    free(out);
    yyjson_mut_doc_free(doc);
    yyjson_doc_free(read);
    return copy;
}

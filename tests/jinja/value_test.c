#include "jinja/value.h"

#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "base/arena.h"
#include "support/test.h"

enum { ARENA_MAX = 64 << 20 };

static void test_dict_against_a_plain_array(void **state)
{
    enum { KEYS = 300, OPERATIONS = 20000 };
    uint64_t random = test_seed();
    char names[KEYS][16];
    int64_t expected[KEYS];
    int order[KEYS], count = 0;
    struct arena arena;

    (void)state;
    arena_init(&arena, ARENA_MAX);
    struct jinja_value dict = jinja_dict_new(&arena);
    for (int i = 0; i < KEYS; i++) {
        snprintf(names[i], sizeof(names[i]), "key%d", i);
        expected[i] = -1;
    }
    for (int n = 0; n < OPERATIONS; n++) {
        int key = (int)test_random_below(&random, KEYS);
        struct jinja_value name = jinja_str(str_from(names[key]));
        const struct jinja_value *found = jinja_dict_get(dict.dict, name);
        if (expected[key] < 0) {
            assert_null(found);
        } else {
            assert_int_equal(found->integer, expected[key]);
        }
        if (n % 3 != 0)
            continue;
        if (expected[key] < 0)
            order[count++] = key;
        expected[key] = n;
        assert_true(jinja_dict_set(&arena, dict, name, jinja_int(n)));
    }
    assert_int_equal(jinja_dict_count(dict.dict), count);
    for (int i = 0; i < count; i++) {
        assert_string_equal(jinja_text(*jinja_dict_key(dict.dict, (size_t)i)).ptr, names[order[i]]);
        assert_int_equal(jinja_dict_value(dict.dict, (size_t)i)->integer, expected[order[i]]);
    }
    arena_fini(&arena);
}

static void test_numbers_are_one_key(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, ARENA_MAX);
    struct jinja_value dict = jinja_dict_new(&arena);
    for (int i = 0; i < 20; i++) /* large enough for an index */
        assert_true(jinja_dict_set(&arena, dict, jinja_int(i), jinja_int(i)));
    assert_true(jinja_dict_set(&arena, dict, jinja_float(7), jinja_int(70)));
    assert_true(jinja_dict_set(&arena, dict, jinja_bool(true), jinja_int(10)));
    assert_int_equal(jinja_dict_count(dict.dict), 20);
    assert_int_equal(jinja_dict_get(dict.dict, jinja_int(7))->integer, 70);
    assert_int_equal(jinja_dict_get(dict.dict, jinja_float(1))->integer, 10);
    assert_null(jinja_dict_get(dict.dict, jinja_float(1.5)));
    assert_null(jinja_dict_get(dict.dict, jinja_none()));
    assert_null(jinja_dict_get_str(dict.dict, STR("7")));
    arena_fini(&arena);
}

static void test_equality_is_pythons(void **state)
{
    struct jinja_value big = jinja_int((INT64_C(1) << 53) + 1),
                       near = jinja_float(9007199254740992.0);
    struct jinja_value one = jinja_int(1), yes = jinja_bool(true), text = jinja_str(STR("1"));
    struct jinja_value zero = jinja_float(-0.0), no = jinja_bool(false);
    uint64_t steps = 4;

    (void)state;
    assert_true(jinja_value_equal(&one, &yes, &steps));
    assert_true(jinja_value_equal(&zero, &no, &steps));
    assert_false(jinja_value_equal(&one, &text, &steps));
    assert_false(jinja_value_equal(&big, &near, &steps));
    assert_false(jinja_value_true(&no));
    assert_true(jinja_value_true(&text));
}

static void test_json_becomes_values(void **state)
{
    const char json[] = "{\"a\": [1, -2, 1.5, true, null, \"x\"], \"b\": {\"a\": 1, \"a\": 2}, "
                        "\"n\": 99999999999999999999}";
    yyjson_doc *doc = yyjson_read(json, sizeof(json) - 1, YYJSON_READ_BIGNUM_AS_RAW);
    struct jinja_value root;
    struct arena arena;
    uint32_t origin = 5;

    (void)state;
    arena_init(&arena, ARENA_MAX);
    assert_ok(jinja_value_from_json(&arena, yyjson_doc_get_root(doc), &origin, &root));
    const struct jinja_value *a = jinja_dict_get_str(root.dict, STR("a"));
    assert_int_equal(a->list->count, 6);
    assert_int_equal(a->list->items[1].integer, -2);
    assert_int_equal(a->list->items[4].kind, JINJA_NONE);
    /* "a" is 5, "x" 6, "b" 7, its two keys 8 and 9, "n" 10. */
    assert_int_equal(a->list->items[5].origin, 6);
    assert_int_equal(origin, 11);
    const struct jinja_value *b = jinja_dict_get_str(root.dict, STR("b"));
    assert_int_equal(jinja_dict_count(b->dict), 1);
    assert_int_equal(jinja_dict_get_str(b->dict, STR("a"))->integer, 2);
    const struct jinja_value *n = jinja_dict_get_str(root.dict, STR("n"));
    assert_int_equal(n->kind, JINJA_BIGINT);
    assert_memory_equal(jinja_text(*n).ptr, "99999999999999999999", 20);
    arena_fini(&arena);
    yyjson_doc_free(doc);
}

static void test_deep_json_is_refused(void **state)
{
    enum { DEPTH = 100000 };
    static char json[2 * DEPTH];
    struct jinja_value root;
    struct arena arena;

    (void)state;
    memset(json, '[', DEPTH);
    memset(json + DEPTH, ']', DEPTH);
    yyjson_doc *doc = yyjson_read(json, sizeof(json), 0);
    assert_non_null(doc);
    arena_init(&arena, ARENA_MAX);
    assert_err(jinja_value_from_json(&arena, yyjson_doc_get_root(doc), NULL, &root), ERR_LIMIT);
    arena_fini(&arena);
    arena_init(&arena, 40);
    assert_err(jinja_value_from_json(&arena, yyjson_doc_get_root(doc), NULL, &root), ERR_LIMIT);
    arena_fini(&arena);
    yyjson_doc_free(doc);
}

TEST_SUITE(TEST(test_dict_against_a_plain_array), TEST(test_numbers_are_one_key),
           TEST(test_equality_is_pythons), TEST(test_json_becomes_values),
           TEST(test_deep_json_is_refused))

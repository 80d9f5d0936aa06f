/*
 * Random schemas: whatever the grammar of one generates satisfies it.
 */
#include "grammar/schema.h"

#include <string.h>
#include <yyjson.h>

#include "base/buf.h"
#include "base/str.h"
#include "engine/gbnf.h"
#include "support/gbnf_language.h"
#include "support/json_validator.h"
#include "support/test.h"

enum { SCHEMAS = 400, TEXTS = 12, OUTPUT_BYTES = 1 << 22 };

static const char *const names[] = {"a",   "ab",       "abc",   "b",   "name",
                                    "a b", "\xC3\xA9", "\\\"q", "x/y~"};
static const char *const patterns[] = {"^[a-z]+$",
                                       "^a|b$",
                                       "ab",
                                       "^(ab|c[0-9]){2,3}$",
                                       "^[^0-9a-f]{2}x?$",
                                       "^\\\\(\\\"[.]$",
                                       "^[\\\"\\\\]+$",
                                       "^x{0,300}$",
                                       "^[A-Z][a-z]*( [A-Z][a-z]*)*$",
                                       "^$",
                                       "(a|bc)+$"};
static const char *const formats[] = {"date", "uuid", "ipv4", "whatever"};
static const char *const values[] = {"1",
                                     "-7",
                                     "2.5",
                                     "0",
                                     "true",
                                     "null",
                                     "\"a\"",
                                     "\"\"",
                                     "\"a\\\"\\\\\\n\\u0001\xC3\xA9\"",
                                     "[1,{\"a\":[]}]",
                                     "{}",
                                     "{\"k\":\"v\"}"};

struct maker {
    uint64_t *seed;
    struct buf *out;
};

static uint64_t below(struct maker *m, uint64_t n)
{
    return test_random_below(m->seed, n);
}

static void put(struct maker *m, const char *text)
{
    buf_append_str(m->out, text);
}

static void make_schema(struct maker *m, int depth);

static void make_string(struct maker *m)
{
    put(m, "{\"type\":\"string\"");
    switch (below(m, 5)) {
    case 0:
        buf_appendf(m->out, ",\"minLength\":%d,\"maxLength\":%d", (int)below(m, 4),
                    3 + (int)below(m, 600));
        break;
    case 1:
        buf_appendf(m->out, ",\"pattern\":\"%s\"", patterns[below(m, COUNT_OF(patterns))]);
        break;
    case 2:
        buf_appendf(m->out, ",\"pattern\":\"%s\",\"maxLength\":%d",
                    patterns[below(m, COUNT_OF(patterns))], 1 + (int)below(m, 400));
        break;
    case 3:
        buf_appendf(m->out, ",\"format\":\"%s\"", formats[below(m, COUNT_OF(formats))]);
        break;
    default:
        break;
    }
    put(m, "}");
}

static void make_bound(struct maker *m, const char *name, bool whole)
{
    static const char *const odd[] = {"0",
                                      "-1",
                                      "1",
                                      "10",
                                      "99",
                                      "100",
                                      "-1000",
                                      "9223372036854775807",
                                      "1e15",
                                      "18446744073709551615",
                                      "-9223372036854775808"};

    buf_appendf(m->out, ",\"%s\":", name);
    int64_t number = (int64_t)below(m, UINT64_C(1) << below(m, 40)) - (int64_t)below(m, 1 << 20);
    if (below(m, 3) == 0)
        put(m, odd[below(m, COUNT_OF(odd))]);
    else if (whole || below(m, 2))
        buf_appendf(m->out, "%lld", (long long)number);
    else
        buf_appendf(m->out, "%lld.%0*d", (long long)(number % 1000), 1 + (int)below(m, 5),
                    (int)below(m, 10));
}

static void make_number(struct maker *m)
{
    bool whole = below(m, 2);

    buf_appendf(m->out, "{\"type\":\"%s\"", whole ? "integer" : "number");
    if (below(m, 2))
        make_bound(m, below(m, 2) ? "minimum" : "exclusiveMinimum", whole);
    if (below(m, 2))
        make_bound(m, below(m, 2) ? "maximum" : "exclusiveMaximum", whole);
    if (below(m, 5) == 0)
        buf_appendf(m->out, ",\"multipleOf\":%s",
                    (const char *[]){"1", "2", "7", "0.01", "25", "0.5"}[below(m, 6)]);
    put(m, "}");
}

static void make_array(struct maker *m, int depth)
{
    put(m, "{\"type\":\"array\"");
    if (below(m, 3) == 0) {
        put(m, ",\"prefixItems\":[");
        for (uint64_t i = 0, count = 1 + below(m, 3); i < count; i++) {
            put(m, i ? "," : "");
            make_schema(m, depth - 1);
        }
        put(m, "]");
    }
    if (below(m, 3) > 0) {
        put(m, ",\"items\":");
        make_schema(m, depth - 1);
    }
    if (below(m, 3) == 0)
        buf_appendf(m->out, ",\"minItems\":%d", (int)below(m, 4));
    if (below(m, 3) == 0)
        buf_appendf(m->out, ",\"maxItems\":%d", (int)below(m, 6));
    put(m, "}");
}

static void make_object_body(struct maker *m, int depth)
{
    uint64_t mask = below(m, 1 << COUNT_OF(names)) & below(m, 1 << COUNT_OF(names));
    const char *comma = "";

    put(m, "\"type\":\"object\",\"properties\":{");
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (!(mask >> i & 1))
            continue;
        buf_appendf(m->out, "%s\"%s\":", comma, names[i]);
        make_schema(m, depth - 1);
        comma = ",";
    }
    put(m, "},\"required\":[");
    comma = "";
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (below(m, 4) > 0 || (!(mask >> i & 1) && below(m, 4) > 0))
            continue;
        buf_appendf(m->out, "%s\"%s\"", comma, names[i]);
        comma = ",";
    }
    put(m, "]");
    if (below(m, 2)) {
        put(m, ",\"additionalProperties\":");
        if (below(m, 2))
            make_schema(m, depth - 1);
        else
            put(m, below(m, 3) ? "true" : "false");
    }
}

static void make_object(struct maker *m, int depth)
{
    put(m, "{");
    make_object_body(m, depth);
    if (below(m, 4) == 0) {
        put(m, ",\"anyOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\",\"name\"]}]");
    } else if (below(m, 4) == 0) {
        put(m, ",\"allOf\":[{");
        make_object_body(m, depth - 1);
        put(m, "},{\"$ref\":\"#/$defs/two\"}]");
    }
    put(m, "}");
}

static void make_enum(struct maker *m)
{
    if (below(m, 3) == 0) {
        buf_appendf(m->out, "{\"const\":%s}", values[below(m, COUNT_OF(values))]);
        return;
    }
    put(m, below(m, 2) ? "{\"enum\":[" : "{\"type\":[\"string\",\"number\"],\"enum\":[");
    for (uint64_t i = 0, count = 1 + below(m, 5); i < count; i++)
        buf_appendf(m->out, "%s%s", i ? "," : "", values[below(m, COUNT_OF(values))]);
    put(m, "]}");
}

static void make_combination(struct maker *m, int depth)
{
    if (below(m, 4) == 0) { /* exclusive by their types: oneOf is read as anyOf */
        put(m, "{\"oneOf\":[");
        make_string(m);
        put(m, ",{\"type\":\"null\"},{\"type\":\"boolean\"},");
        make_number(m);
        put(m, "]}");
        return;
    }
    put(m, "{\"anyOf\":[");
    for (uint64_t i = 0, count = 1 + below(m, 3); i < count; i++) {
        put(m, i ? "," : "");
        make_schema(m, depth - 1);
    }
    put(m, below(m, 3) ? "]}" : "],\"type\":[\"object\",\"string\",\"integer\"]}");
}

static void make_schema(struct maker *m, int depth)
{
    static const char *const simple[] = {"{}",
                                         "true",
                                         "{\"type\":[\"null\",\"integer\"]}",
                                         "{\"type\":\"boolean\"}",
                                         "{\"type\":\"object\"}",
                                         "{\"type\":\"array\"}",
                                         "false",
                                         "{\"minLength\":2}"};

    switch (below(m, depth > 0 ? 10 : 5)) {
    case 0:
        put(m, simple[below(m, COUNT_OF(simple))]);
        return;
    case 1:
        make_string(m);
        return;
    case 2:
    case 3:
        make_number(m);
        return;
    case 4:
        make_enum(m);
        return;
    case 5:
        make_array(m, depth);
        return;
    case 6:
        make_combination(m, depth);
        return;
    case 7:
        put(m, below(m, 2) ? "{\"$ref\":\"#/$defs/one\"}" : "{\"$ref\":\"#/$defs/two\"}");
        return;
    default:
        make_object(m, depth);
    }
}

static void make_root(struct maker *m)
{
    put(m,
        "{\"$defs\":{\"one\":{\"type\":\"object\",\"properties\":{\"next\":{\"anyOf\":[{\"$ref\":"
        "\"#/$defs/one\"},{\"type\":\"null\"}]},\"v\":");
    make_schema(m, 1);
    put(m, "}},\"two\":{");
    make_object_body(m, 1);
    put(m, "}},\"allOf\":[");
    make_schema(m, 3);
    put(m, "]}");
}

/* Texts of its grammar must validate; and the matcher must agree that they are of it. */
static void check_texts(yyjson_val *schema, const char *source, const char *gbnf, uint64_t *seed)
{
    struct language *language = language_create(gbnf);
    struct buf text;

    buf_init(&text, OUTPUT_BYTES);
    for (int i = 0; i < TEXTS && !language_is_endless(language, "root"); i++) {
        buf_clear(&text);
        language_generate(language, "root", seed, &text);
        assert_ok(text.err);
        yyjson_doc *doc = yyjson_read(buf_str(&text), text.len, 0);
        if (doc == NULL)
            fail_msg("not JSON: %s\nschema: %s", buf_str(&text), source);
        if (!json_valid(schema, schema, yyjson_doc_get_root(doc)))
            fail_msg("not valid: %s\nschema: %s\n%s", buf_str(&text), source, gbnf);
        if (text.len < 200 && i == 0)
            assert_true(language_matches(language, "root", (struct str){text.data, text.len}));
        yyjson_doc_free(doc);
    }
    buf_fini(&text);
    language_destroy(&language);
}

static bool check_schema(const char *source, enum schema_space space, uint64_t *seed)
{
    struct schema_options options = {.space = space};
    struct errinfo info = {0};
    struct buf gbnf;
    yyjson_doc *doc = yyjson_read(source, strlen(source), 0);

    assert_non_null(doc);
    buf_init(&gbnf, OUTPUT_BYTES);
    enum err err = schema_write_gbnf(yyjson_doc_get_root(doc), &options, &gbnf, &info);
    if (err == ERR_OK) {
        if (gbnf_check(buf_str(&gbnf), "root", &info) != ERR_OK)
            fail_msg("%s\nschema: %s\n%s", info.text, source, buf_str(&gbnf));
        check_texts(yyjson_doc_get_root(doc), source, buf_str(&gbnf), seed);
    } else {
        assert_true(err == ERR_UNSUPPORTED || err == ERR_INVALID || err == ERR_LIMIT);
        assert_int_equal(strncmp(info.text, "schema", 6), 0);
        assert_int_equal(gbnf.len, 0);
    }
    buf_fini(&gbnf);
    yyjson_doc_free(doc);
    return err == ERR_OK;
}

static void test_generated_texts_are_valid(void **state)
{
    uint64_t seed = test_seed();
    struct buf source;
    int accepted = 0;

    (void)state;
    buf_init(&source, OUTPUT_BYTES);
    for (int i = 0; i < SCHEMAS; i++) {
        struct maker maker = {&seed, &source};
        buf_clear(&source);
        make_root(&maker);
        accepted += check_schema(buf_str(&source),
                                 i % 2 ? SCHEMA_SPACE_COMPACT : SCHEMA_SPACE_BOUNDED, &seed);
    }
    buf_fini(&source);
    print_message("%d of %d schemas compiled\n", accepted, SCHEMAS);
    assert_true(accepted > SCHEMAS / 3);
}

TEST_SUITE(TEST(test_generated_texts_are_valid))

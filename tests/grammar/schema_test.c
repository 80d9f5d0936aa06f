#include "grammar/schema.h"

#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/gbnf.h"
#include "support/gbnf_language.h"
#include "support/test.h"

enum { OUTPUT_BYTES = 1 << 22 };

static enum err compile(const char *source, const struct schema_options *options, struct buf *gbnf,
                        struct errinfo *info)
{
    yyjson_doc *doc = yyjson_read(source, strlen(source), 0);

    if (doc == NULL)
        fail_msg("not JSON: %s", source);
    enum err err = schema_write_gbnf(yyjson_doc_get_root(doc), options, gbnf, info);
    yyjson_doc_free(doc);
    return err;
}

static struct language *language_of(const char *source, enum schema_space space)
{
    struct schema_options options = {.space = space};
    struct errinfo info = {0};
    struct buf gbnf;

    buf_init(&gbnf, OUTPUT_BYTES);
    if (compile(source, &options, &gbnf, &info) != ERR_OK)
        fail_msg("%s\nschema: %s", info.text, source);
    if (gbnf_check(buf_str(&gbnf), "root", &info) != ERR_OK)
        fail_msg("%s\nschema: %s\n%s", info.text, source, buf_str(&gbnf));
    /* The language points into its text: kept until the end of the process. */
    char *text = buf_take(&gbnf);
    struct language *language = language_create(test_guarded(text, strlen(text) + 1));
    mem_free(text);
    return language;
}

/* ---- what is allowed and what not ---- */

struct documents {
    const char *schema;
    const char *good[8], *bad[10];
};

static const struct documents documents[] = {
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"}"
     ",\"c\":{}},"
     "\"required\":[\"b\"]}",
     {"{\"b\":\"\"}", "{\"a\":1,\"b\":\"x\"}", "{\"b\":\"x\",\"c\":[1]}",
      "{\"a\":1,\"b\":\"x\",\"c\":null}"},
     {"{}", "{\"a\":1}", "{\"b\":1}", "{\"b\":\"\",\"a\":1}", "{\"b\":\"\",\"d\":1}",
      "{,\"b\":\"\"}", "{\"b\":\"\",}", "{\"a\":1\"b\":\"\"}", "[]"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2}}}",
     {"{}", "{\"a\":1}", "{\"b\":2}", "{\"a\":1,\"b\":2}"},
     {"{\"a\":2}", "{\"b\":2,\"a\":1}", "{\"c\":1}", "{\"a\":1,}", "{,}"}},
    {"{\"type\":\"object\",\"properties\":{\"ab\":{\"const\":1}},\"additionalProperties\":{"
     "\"type\":\"boolean\"}}",
     {"{}", "{\"ab\":1}", "{\"ab\":1,\"x\":true}", "{\"a\":true}", "{\"abc\":true,\"b\":false}",
      "{\"\":true}"},
     {"{\"ab\":true}", "{\"x\":1}", "{\"x\":true,\"ab\":true}", "{\"a\\u0062\":true}"}},
    {"{\"type\":\"object\"}", {"{}", "{\"a\":{\"b\":[]}}"}, {"[]", "{\"a\"}", "{\"a\":}", "1"}},
    /* a declared name that needs an escape is no additional one either */
    {"{\"type\":\"object\",\"properties\":{\"a\\n\":{\"const\":1}},\"additionalProperties\":{"
     "\"const\":2}}",
     {"{\"a\\n\":1}", "{\"a\\n\":1,\"a\":2}", "{\"a\":2}", "{}"},
     {"{\"a\\n\":2}", "{\"a\\u000a\":2}", "{\"a\\n\":1,\"a\\n\":2}"}},
    {"{\"type\":\"object\",\"additionalProperties\":false}", {"{}"}, {"{\"a\":1}"}},
    {"{\"required\":[\"z\"]}",
     {"{\"z\":1}", "{\"z\":1,\"y\":2}"},
     {"{}", "{\"y\":2}", "{\"z\":1,\"z\":2}"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}",
     {"[1]", "[1,2]", "[1,2,3]"},
     {"[]", "[1,2,3,4]", "[\"a\"]", "[1,]", "[,1]", "[1 2]"}},
    {"{\"prefixItems\":[{\"type\":\"string\"},{\"type\":\"null\"}],\"items\":{\"type\":\"boolean\"}"
     ",\"minItems\":1}",
     {"[\"a\"]", "[\"a\",null]", "[\"a\",null,true]", "[\"\",null,true,false]"},
     {"[]", "[null]", "[\"a\",true]", "[\"a\",null,1]"}},
    {"{\"items\":[{\"const\":1}],\"additionalItems\":false}", {"[]", "[1]"}, {"[2]", "[1,1]"}},
    {"{\"prefixItems\":[{\"const\":1}]}", {"[]", "[1]"}, {"[1,1]"}},
    {"{\"type\":\"array\",\"maxItems\":0}", {"[]"}, {"[1]"}},
    {"{\"type\":[\"string\",\"null\"]}", {"\"a\"", "null"}, {"1", "true", "nul"}},
    {"{\"enum\":[\"a\",1,null,{\"k\":[1,2]},\"q\\\"\"]}",
     {"\"a\"", "1", "null", "{\"k\":[1,2]}", "\"q\\\"\""},
     {"\"b\"", "2", "{}", "{\"k\":[2,1]}"}},
    {"{\"type\":\"string\",\"enum\":[\"a\",1,\"bcd\"],\"maxLength\":2}",
     {"\"a\""},
     {"1", "\"bcd\""}},
    {"{\"type\":\"integer\",\"enum\":[1,5,9],\"minimum\":4,\"const\":5}", {"5"}, {"1", "9"}},
    {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}",
     {"1", "null", "-20", "0"},
     {"\"\"", "1.5", "-0", "01"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2}},\"anyOf\":[{"
     "\"required\":[\"a\"]},"
     "{\"required\":[\"b\"]}]}",
     {"{\"a\":1}", "{\"b\":2}", "{\"a\":1,\"b\":2}"},
     {"{}", "{\"c\":1}"}},
    {"{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":["
     "\"a\"]},{\"properties\":"
     "{\"a\":{\"minimum\":5},\"b\":{\"const\":0}}}]}",
     {"{\"a\":5}", "{\"a\":7,\"b\":0}"},
     {"{}", "{\"a\":4}", "{\"a\":5,\"b\":1}"}},
    {"{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":"
     "{\"anyOf\":[{\"$ref\":\"#/"
     "$defs/n\"},{\"type\":\"null\"}]}},\"required\":[\"v\"]}},\"$ref\":\"#/$defs/n\"}",
     {"{\"v\":1}", "{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3}}}"},
     {"{\"next\":null}", "{\"v\":1,\"next\":{}}", "{\"v\":1,\"next\":1}"}},
    {"{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}", {"[]", "[[],[[]]]"}, {"[1]", "{}"}},
    {"{\"definitions\":{\"a/b\":{\"const\":3}},\"$ref\":\"#/definitions/a~1b\"}", {"3"}, {"4"}},
    {"{\"definitions\":{\"a b\":{\"const\":3}},\"$ref\":\"#/definitions/a%20b\"}", {"3"}, {"4"}},
    {"{\"properties\":{\"a\":false,\"b\":{\"const\":1}}}", {"{}", "{\"b\":1}"}, {"{\"a\":1}"}},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
     {"\"ab\"", "\"\\n\\u00e9\xF0\x9F\x98\x80\""},
     {"\"a\"", "\"abcd\"", "\"\\ud83d\\ude00b\"", "\"a\nb\"", "\"a\"b\""}},
    {"{\"type\":\"string\",\"pattern\":\"^(?:a|b\\\\d)+?-[^x\\\\]]{2}$\"}",
     {"\"a-yz\"", "\"ab1a-\\\"\\\\\""},
     {"\"-yz\"", "\"b-yz\"", "\"a-yx\"", "\"a-]y\"", "\"a-y\""}},
    {"{\"type\":\"string\",\"pattern\":\"b\"}",
     {"\"b\"", "\"abc\"", "\"\\nb\""},
     {"\"a\"", "\"\""}},
    {"{\"type\":\"string\",\"pattern\":\"^\\\\$\\\\.\\\\/{1,}\\\\t$\"}",
     {"\"$./\\t\"", "\"$.//\\t\""},
     {"\"$.\\t\"", "\"x./\\t\""}},
    {"{\"type\":\"string\",\"pattern\":\"^[\\\\w.-]*$\",\"minLength\":1,\"maxLength\":3}",
     {"\"a\"", "\"_-.\""},
     {"\"\"", "\"abcd\"", "\"+\""}},
    {"{\"type\":\"string\",\"format\":\"date\"}",
     {"\"2024-02-29\"", "\"2000-02-29\"", "\"1999-12-31\""},
     {"\"2023-02-29\"", "\"1900-02-29\"", "\"2023-04-31\"", "\"2023-13-01\"", "\"2023-1-1\""}},
    {"{\"type\":\"string\",\"format\":\"date-time\"}",
     {"\"2024-05-06T07:08:09Z\"", "\"2024-05-06T07:08:09.5+02:00\""},
     {"\"2024-05-06\"", "\"2024-05-06T25:08:09Z\"", "\"2024-05-06T07:08:09\""}},
    {"{\"type\":\"string\",\"format\":\"email\"}",
     {"\"a.b@c-d.org\""},
     {"\"@b.c\"", "\"a b@c.d\""}},
    {"{\"type\":\"string\",\"format\":\"uri\"}",
     {"\"https://a.org:80/x/y?q=1#z\"", "\"mailto:a@b.c\""},
     {"\"/x\"", "\"http://a b\""}},
    {"{\"type\":\"string\",\"format\":\"duration\"}",
     {"\"P1D\"", "\"PT5M\"", "\"P1Y2M3DT4H5M6S\"", "\"P2W\""},
     {"\"P\"", "\"P1DT\"", "\"1D\""}},
    {"{\"type\":\"string\",\"format\":\"hostname\"}", {"\"a-b.example\""}, {"\"-a\"", "\"a..b\""}},
    {"{\"type\":\"string\",\"format\":\"time\"}",
     {"\"23:59:59Z\""},
     {"\"24:00:00Z\"", "\"23:59\""}},
    {"{\"type\":\"string\",\"maxLength\":0}", {"\"\""}, {"\"a\""}},
    {"{\"type\":\"string\",\"pattern\":\"^ab{0}c$\"}", {"\"ac\""}, {"\"abc\""}},
    {"{\"type\":\"string\",\"pattern\":\"(^a*$){2}\"}", {"\"\""}, {"\"a\"", "\"aa\""}},
    {"{\"type\":\"string\",\"pattern\":\"$^|b$\"}", {"\"\"", "\"ab\""}, {"\"a\"", "\"ba\""}},
    {"{\"format\":\"date\",\"pattern\":\"^x$\"}", {"\"x\""}, {"\"2024-01-01\""}},
    {"{\"type\":\"string\",\"format\":\"x-mine\"}", {"\"anything\""}, {"1"}},
    {"{\"type\":\"string\",\"format\":\"json-pointer\"}", {"\"anything\""}, {"1"}},
    {"{\"type\":\"string\",\"format\":7}", {"\"anything\""}, {"1"}},
    /* of the length of "date", but no text */
    {"{\"format\":[1,2,3,4]}", {"\"anything\"", "1"}, {"x"}},
    {"{\"type\":\"integer\",\"format\":\"int32\"}", {"7"}, {"\"7\""}},
    {"{\"type\":\"integer\",\"format\":\"date\"}", {"7"}, {"\"2024-01-01\""}},
    {"{\"enum\":[\"a\"],\"format\":\"x-mine\"}", {"\"a\""}, {"\"b\""}},
    {"{\"type\":\"integer\",\"minimum\":-12,\"maximum\":345}",
     {"-12", "-1", "0", "99", "345", "300"},
     {"-13", "346", "400", "1000", "-20", "0.5", "1e2", "-0"}},
    {"{\"type\":\"integer\",\"exclusiveMinimum\":9.5,\"exclusiveMaximum\":12}",
     {"10", "11"},
     {"9", "12", "9.6"}},
    {"{\"type\":\"integer\",\"minimum\":0}", {"0", "7", "123456789012345678"}, {"-1", "01"}},
    {"{\"type\":\"integer\",\"maximum\":9223372036854775807,\"minimum\":9223372036854775800}",
     {"9223372036854775807"},
     {"9223372036854775808", "9223372036854775799"}},
    /* written as doubles */
    {"{\"type\":\"integer\",\"maximum\":2e18}",
     {"2000000000000000000", "-5", "7"},
     {"2000000000000000001", "9223372036854775807"}},
    {"{\"type\":\"integer\",\"minimum\":1.5e18}",
     {"1500000000000000000", "9223372036854775807"},
     {"1499999999999999999", "0"}},
    {"{\"type\":\"number\",\"minimum\":-1e18,\"maximum\":1e18}",
     {"1000000000000000000", "1000000000000000000.0", "-1000000000000000000", "0.5"},
     {"1000000000000000000.1", "1000000000000000001", "-1000000000000000000.1"}},
    {"{\"type\":\"number\",\"minimum\":12.5,\"maximum\":340}",
     {"12.5", "12.50", "12.500000000000001", "13", "99.9", "100", "340", "340.0"},
     {"12", "12.4", "12.", "340.1", "341", "1000", "012.5", "9"}},
    {"{\"type\":\"number\",\"multipleOf\":0.1,\"minimum\":-0.25,\"exclusiveMaximum\":0.3}",
     {"-0.2", "-0.1", "0", "0.2"},
     {"-0.3", "-0.25", "0.3", "-0", "-0.0", "0.20"}},
    {"{\"type\":\"number\",\"minimum\":-1.5,\"exclusiveMaximum\":0.25}",
     {"-1.5", "-1.50", "-0.1", "0", "0.0", "0.2499"},
     {"-1.51", "-2", "0.25", "0.3", "1", "1e-3"}},
    {"{\"type\":\"number\",\"multipleOf\":0.01,\"minimum\":0}",
     {"0", "1.5", "99.99"},
     {"0.001", "-1", "1."}},
    {"{\"type\":\"integer\",\"multipleOf\":7}", {"0", "7", "-14", "700"}, {"1", "8", "-13", "07"}},
    {"{\"type\":\"integer\",\"multipleOf\":5,\"minimum\":3,\"maximum\":20}",
     {"5", "10", "20"},
     {"0", "3", "25"}},
    {"{\"type\":\"number\"}",
     {"0", "-1.5e+10", "12", "0.001"},
     {"+1", ".5", "1.", "00", "NaN", "1e"}},
    {"{}",
     {"null", "[1,{\"a\":\"\\u0041\"}]", "\"x\"", "-1"},
     {"", "nul", "\"\\ud800\"", "\"\\x\"", " 1"}},
    {"{\"type\":\"string\",\"format\":\"email\"}",
     {"\"verylonglocalpartnamehere@example.com\"", "\"a.b.c.d@example.com\"",
      "\"o'brien@example.ie\"", "\"x@my-very-long-host-name.com\"", "\"te~st@localhost\"",
      "\"\\\"a b\\\"@c.org\"", "\"a@[127.0.0.1]\"", "\"a@[IPv6:::1]\""},
     {"\"a..b@c.org\"", "\".a@b.c\"", "\"a@b=c.d\"", "\"a@[127.0.0.300]\"", "\"a@-b.c\"",
      "\"a b@c.d\""}},
    {"{\"type\":\"string\",\"format\":\"uri\"}",
     {"\"file:///tmp/x\"", "\"http://your-mesos-master-host:5050\"",
      "\"https://ec2-52-23-11-9.compute-1.amazonaws.com/\"", "\"https://user:pw@host/\"",
      "\"http://[::1]:80/\"", "\"http://xn--nw2a.xn--j6w193g/\"", "\"urn:isbn:1\"", "\"a:\""},
     {"\"http://[::1\"", "\"//a/b\"", "\"http://a/{b}\"", "\"1a:b\"", "\"http://[1:2]/\""}},
    {"{\"type\":\"string\",\"format\":\"hostname\"}",
     {"\"a-b-c-d.example.com\"", "\"one.two.three.four.five\"", "\"xn--4gbwdl.xn--wgbh1c\"",
      "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\""},
     {"\"a_b\"", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"", "\"a-.b\"",
      "\"a..b\"", "\"\""}},
    {"{\"type\":\"string\",\"format\":\"date-time\"}",
     {"\"2024-05-06t07:08:09z\"", "\"1998-12-31T23:59:60Z\"",
      "\"2024-05-06T07:08:09.1234567890123Z\""},
     {"\"2024-05-06T22:59:60Z\"", "\"2024-05-06 07:08:09Z\""}},
    {"{\"format\":\"date\"}", {"\"2024-02-29\""}, {"\"x\"", "7"}},
    {"{\"type\":\"string\",\"format\":\"email\",\"maxLength\":1024}", {"\"a@b.c\""}, {"\"a\""}},
    {"{\"type\":\"string\",\"format\":\"email\",\"minLength\":7,\"maxLength\":9}",
     {"\"a@b.cde\"", "\"ab@cd.efg\""},
     {"\"a@b.cd\"", "\"ab@cd.efgh\""}},
    {"{\"type\":\"string\",\"pattern\":\"^a+b*$\",\"minLength\":2,\"maxLength\":4}",
     {"\"aa\"", "\"abbb\"", "\"aaab\""},
     {"\"a\"", "\"aaaab\"", "\"ba\"", "\"b\""}},
    {"{\"type\":\"string\",\"pattern\":\"^$|^x\",\"minLength\":1}",
     {"\"x\"", "\"xy\""},
     {"\"\"", "\"y\""}},
    {"{\"type\":\"string\",\"pattern\":\"\\\"\\\\\\\\\",\"maxLength\":3}",
     {"\"\\\"\\\\\"", "\"\\\"\\\\\\n\""},
     {"\"\\\"\"", "\"\\\"\\\\\\n\\n\""}},
    {"{\"type\":\"string\",\"pattern\":\"^([a-z]+-?)*$\"}",
     {"\"\"", "\"a\"", "\"ab-c-\""},
     {"\"-\"", "\"a--b\""}},
    {"{\"type\":\"string\",\"pattern\":\"^(a|$)b*\"}",
     {"\"\"", "\"ab\"", "\"a\""},
     {"\"b\"", "\"c\""}},
    {"{\"type\":\"string\",\"pattern\":\"^data:(a|bc);[0-9]*$\",\"maxLength\":30000}",
     {"\"data:a;1\"", "\"data:bc;\""},
     {"\"data:c;\""}},
    {"{\"allOf\":[{\"type\":\"string\",\"pattern\":\"a\"},{\"type\":\"string\",\"pattern\":\"b\"}]"
     "}",
     {"\"ab\"", "\"xbxax\""},
     {"\"a\"", "\"b\"", "\"\""}},
    {"{\"type\":\"object\",\"patternProperties\":{\"^x-\":{\"type\":\"integer\"}}}",
     {"{}", "{\"x-a\":1}", "{\"x-\":2,\"x-b\":3}"},
     {"{\"x-a\":\"s\"}", "{\"y\":1}", "{\"a\":1}"}},
    {"{\"type\":\"object\",\"patternProperties\":{\"^x\":{\"type\":\"integer\"}},"
     "\"additionalProperties\":{\"type\":\"boolean\"}}",
     {"{\"x\":1,\"y\":true}", "{\"\":false}", "{\"ax\":true}"},
     {"{\"x\":true}", "{\"y\":1}", "{\"xy\":false}"}},
    {"{\"type\":\"object\",\"properties\":{\"xa\":{\"maximum\":5}},\"patternProperties\":{\"x\":{"
     "\"type\":\"integer\"},\"y$\":{\"minimum\":3}},\"additionalProperties\":false}",
     {"{\"xa\":5}", "{\"ax\":1}", "{\"y\":3.5}", "{\"xy\":4}", "{\"xa\":1,\"xb\":9}"},
     {"{\"xa\":6}", "{\"xa\":\"a\"}", "{\"ax\":1.5}", "{\"xy\":2}", "{\"xy\":4.5}", "{\"z\":1}",
      "{\"y\":2}"}},
    {"{\"type\":\"object\",\"allOf\":[{\"patternProperties\":{\"a\":{\"type\":\"integer\"}}},{"
     "\"properties\":{\"b\":{}},\"additionalProperties\":false}]}",
     {"{}", "{\"b\":\"x\"}"},
     {"{\"a\":1}", "{\"ab\":1}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-z]$\"},\"additionalProperties\":{"
     "\"type\":\"integer\"}}",
     {"{}", "{\"a\":1}"},
     {"{\"A\":1}", "{\"ab\":1}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\",\"b\"]},\"additionalProperties\":"
     "true}",
     {"{\"b\":[]}", "{}"},
     {"{\"c\":1}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"minLength\":2,\"maxLength\":3},"
     "\"additionalProperties\":true}",
     {"{\"ab\":1}", "{\"abc\":1}"},
     {"{\"a\":1}", "{\"abcd\":1}"}},
    {"{\"type\":\"object\",\"minProperties\":1,\"properties\":{\"a\":{},\"b\":{}}}",
     {"{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"b\":2}"},
     {"{}"}},
    {"{\"type\":\"object\",\"minProperties\":2,\"maxProperties\":3,\"additionalProperties\":{"
     "\"type\":\"integer\"}}",
     {"{\"a\":1,\"b\":2}", "{\"a\":1,\"b\":2,\"c\":3}"},
     {"{}", "{\"a\":1}", "{\"a\":1,\"b\":2,\"c\":3,\"d\":4}"}},
    {"{\"type\":\"object\",\"maxProperties\":1,\"patternProperties\":{\"^a$\":{}}}",
     {"{}", "{\"a\":1}"},
     {"{\"a\":1,\"b\":2}", "{\"b\":1}"}},
    {"{\"allOf\":[{\"properties\":{\"foo\":true}},{\"unevaluatedProperties\":false}]}",
     {"{}"},
     {"{\"foo\":1}"}},
    {"{\"type\":\"object\",\"allOf\":[{\"properties\":{\"foo\":true}}],\"unevaluatedProperties\":"
     "false}",
     {"{}", "{\"foo\":1}"},
     {"{\"bar\":1}"}},
    {"{\"$defs\":{\"A\":{\"unevaluatedProperties\":false}},\"properties\":{\"prop1\":{\"type\":"
     "\"string\"}},\"$ref\":\"#/$defs/A\"}",
     {"{}"},
     {"{\"prop1\":\"match\"}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":true},\"anyOf\":[{\"properties\":{\"b\":{"
     "\"const\":1}},\"required\":[\"b\"]},{\"properties\":{\"c\":true},\"unevaluatedProperties\":"
     "false}],\"unevaluatedProperties\":false}",
     {"{\"b\":1}", "{\"a\":1,\"b\":1}", "{\"c\":1}"},
     {"{\"a\":1,\"c\":1}", "{\"d\":1}"}},
    {"{\"type\":\"object\",\"patternProperties\":{\"^x\":true},\"unevaluatedProperties\":false}",
     {"{\"x1\":1}"},
     {"{\"y\":1}"}},
    {"{\"type\":\"object\",\"additionalProperties\":true,\"unevaluatedProperties\":false}",
     {"{\"y\":1}"},
     {"3"}},
    {"{\"type\":[\"string\",\"integer\"],\"minLength\":2,\"minimum\":5}",
     {"\"ab\"", "5"},
     {"\"a\"", "4", "null"}},
};

static void test_allows_what_the_schema_allows(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(documents); i++) {
        struct language *language = language_of(documents[i].schema, SCHEMA_SPACE_COMPACT);
        for (size_t k = 0; k < COUNT_OF(documents[i].good) && documents[i].good[k]; k++)
            if (!language_matches(language, "root", str_from(documents[i].good[k])))
                fail_msg("must be allowed: %s\nschema: %s", documents[i].good[k],
                         documents[i].schema);
        for (size_t k = 0; k < COUNT_OF(documents[i].bad) && documents[i].bad[k]; k++)
            if (language_matches(language, "root", str_from(documents[i].bad[k])))
                fail_msg("must not be allowed: %s\nschema: %s", documents[i].bad[k],
                         documents[i].schema);
        language_destroy(&language);
    }
}

static void test_integer_ranges_are_exact(void **state)
{
    uint64_t seed = test_seed();
    char source[160], text[32];

    (void)state;
    for (int round = 0; round < 60; round++) {
        int low = (int)test_random_below(&seed, 2500) - 1250;
        int high = low + (int)test_random_below(&seed, round % 2 ? 20 : 1500);
        snprintf(source, sizeof(source), "{\"type\":\"integer\",\"minimum\":%d,\"maximum\":%d}",
                 low, high);
        struct language *language = language_of(source, SCHEMA_SPACE_COMPACT);
        for (int i = -2800; i < 2800; i += 1 + (int)test_random_below(&seed, 5)) {
            snprintf(text, sizeof(text), "%d", i);
            if (language_matches(language, "root", str_from(text)) != (i >= low && i <= high))
                fail_msg("%d with %s", i, source);
        }
        language_destroy(&language);
    }
}

static void test_large_counts_are_exact(void **state)
{
    static const struct {
        size_t min, max;
    } counts[] = {{0, 256}, {0, 257}, {3, 700}, {300, 300}, {256, 1024}, {600, 1300}, {600, 0}};
    static char source[128], text[4096];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        size_t min = counts[i].min, max = counts[i].max ? counts[i].max : 1400;
        int len = snprintf(source, sizeof(source), "{\"type\":\"string\",\"minLength\":%zu", min);
        snprintf(source + len, sizeof(source) - (size_t)len,
                 counts[i].max ? ",\"maxLength\":%zu}" : "}", max);
        struct language *language = language_of(source, SCHEMA_SPACE_COMPACT);
        size_t lengths[] = {0,      min ? min - 1 : 0, min, min + 1, (min + max) / 2, max - 1, max,
                            max + 1};
        for (size_t k = 0; k < COUNT_OF(lengths); k++) {
            memset(text, 'x', sizeof(text));
            text[0] = text[lengths[k] + 1] = '"';
            bool expected = lengths[k] >= min && (lengths[k] <= max || counts[i].max == 0);
            if (language_matches(language, "root", (struct str){text, lengths[k] + 2}) != expected)
                fail_msg("%zu characters with %s", lengths[k], source);
        }
        language_destroy(&language);
    }
}

/* ---- white space, names ---- */

static void test_white_space_is_bounded(void **state)
{
    static const char schema[] = "{\"properties\":{\"a\":{\"type\":\"array\"},\"b\":{}}}";
    struct language *bounded = language_of(schema, SCHEMA_SPACE_BOUNDED);
    struct language *compact = language_of(schema, SCHEMA_SPACE_COMPACT);
    struct str pretty = STR("{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}");

    (void)state;
    assert_true(language_matches(bounded, "root", pretty));
    assert_false(language_matches(compact, "root", pretty));
    assert_true(language_matches(bounded, "root", STR("{\"a\":[1,2]}")));
    assert_true(language_matches(bounded, "root", STR("{ }")));
    assert_false(language_matches(bounded, "root", STR("{  }")));
    assert_false(language_matches(bounded, "root", STR("{} ")));
    assert_false(language_matches(bounded, "root", STR(" {}")));
    assert_false(language_matches(bounded, "root", STR("{\"a\" :[]}")));
    language_destroy(&bounded);
    language_destroy(&compact);
}

static void test_several_schemas_fit_into_one_grammar(void **state)
{
    struct schema_options one = {.root = "first", .prefix = "x-"},
                          two = {.root = "second", .prefix = "y-"};
    struct errinfo info = {0};
    struct buf gbnf;

    (void)state;
    buf_init(&gbnf, OUTPUT_BYTES);
    assert_ok(compile("{\"properties\":{\"a\":{\"type\":\"string\"}}}", &one, &gbnf, &info));
    assert_ok(compile("{\"type\":\"array\"}", &two, &gbnf, &info));
    buf_append_str(&gbnf, "root ::= \"<\" ( first | second ) \">\"\n");
    assert_ok(gbnf_check(buf_str(&gbnf), "root", &info));
    struct language *language = language_create(buf_str(&gbnf));
    assert_true(language_matches(language, "root", STR("<{\"a\":\"b\"}>")));
    assert_true(language_matches(language, "root", STR("<[1]>")));
    assert_false(language_matches(language, "root", STR("<1>")));
    language_destroy(&language);
    buf_fini(&gbnf);
}

static void test_any_object(void **state)
{
    struct errinfo info = {0};
    struct buf gbnf;

    (void)state;
    buf_init(&gbnf, OUTPUT_BYTES);
    assert_ok(schema_write_any_object(NULL, &gbnf, &info));
    assert_ok(gbnf_check(buf_str(&gbnf), "root", &info));
    struct language *language = language_create(buf_str(&gbnf));
    assert_true(language_matches(language, "root", STR("{\"a\": [1, {\"b\": null}]}")));
    assert_true(language_matches(language, "root", STR("{}")));
    assert_false(language_matches(language, "root", STR("[]")));
    language_destroy(&language);
    buf_fini(&gbnf);
}

/* ---- refusals ---- */

static const struct {
    const char *schema;
    enum err err;
    const char *says[2];
} refused[] = {
    {"{\"properties\":{\"a\":{\"patternProperties\":[]}}}",
     ERR_INVALID,
     {"'/properties/a/patternProperties'", "schemas"}},
    {"{\"patternProperties\":{\"(\":{}}}", ERR_INVALID, {"'/patternProperties/('", "no end"}},
    {"{\"propertyNames\":{\"not\":{}}}", ERR_UNSUPPORTED, {"'/propertyNames'", "enum"}},
    {"{\"propertyNames\":{\"type\":\"integer\"}}", ERR_INVALID, {"'/propertyNames'", "strings"}},
    {"{\"propertyNames\":{\"pattern\":5}}", ERR_INVALID, {"'/propertyNames'", "strings"}},
    {"{\"propertyNames\":{\"enum\":{}}}", ERR_INVALID, {"'/propertyNames'", "strings"}},
    {"{\"properties\":{\"a\":{}},\"minProperties\":2}",
     ERR_UNSUPPORTED,
     {"'/minProperties'", "required"}},
    {"{\"not\":{}}", ERR_UNSUPPORTED, {"'/not'", "instead"}},
    {"{\"type\":\"array\",\"uniqueItems\":true}",
     ERR_UNSUPPORTED,
     {"'/uniqueItems'", "leave it out"}},
    {"{\"if\":{}}", ERR_UNSUPPORTED, {"'/if'", "anyOf"}},
    {"{\"$ref\":\"http://x/y\"}", ERR_UNSUPPORTED, {"'/$ref'", "$defs"}},
    {"{\"$ref\":\"#/$defs/no\"}", ERR_INVALID, {"'/$ref'", "#/$defs/no"}},
    {"{\"$ref\":\"#\"}", ERR_INVALID, {"itself", ""}},
    {"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", ERR_INVALID, {"itself", ""}},
    {"{\"items\":{\"$defs\":{},\"allOf\":[{\"$ref\":\"#/items\"}]}}",
     ERR_INVALID,
     {"#/items", "itself"}},
    {"{\"type\":\"strong\"}", ERR_INVALID, {"'/type'", "string"}},
    {"{\"properties\":{\"a/b\":{\"type\":7}}}", ERR_INVALID, {"'/properties/a~1b/type'", ""}},
    {"{\"items\":3}", ERR_INVALID, {"'/items'", "boolean"}},
    {"{\"anyOf\":[]}", ERR_INVALID, {"'/anyOf'", ""}},
    {"{\"anyOf\":[{\"not\":{}}]}", ERR_UNSUPPORTED, {"'/anyOf/0/not'", ""}},
    {"false", ERR_INVALID, {"''", "nothing"}},
    {"{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", ERR_INVALID, {"nothing", ""}},
    {"{\"required\":[\"a\"],\"properties\":{\"a\":false}}", ERR_INVALID, {"nothing", ""}},
    {"{\"type\":\"integer\",\"minimum\":5,\"maximum\":4}", ERR_INVALID, {"nothing", ""}},
    {"{\"enum\":[]}", ERR_INVALID, {"nothing", ""}},
    {"{\"minLength\":-1}", ERR_INVALID, {"'/minLength'", "0 or more"}},
    {"{\"minLength\":1000000}", ERR_LIMIT, {"'/minLength'", "65536"}},
    {"{\"minimum\":\"1\"}", ERR_INVALID, {"'/minimum'", "number"}},
    {"{\"type\":\"integer\",\"minimum\":1e30}", ERR_UNSUPPORTED, {"'/minimum'", ""}},
    {"{\"type\":\"integer\",\"multipleOf\":1000,\"minimum\":5}",
     ERR_UNSUPPORTED,
     {"'/multipleOf'", "256"}},
    {"{\"pattern\":\"a(?=b)\"}", ERR_UNSUPPORTED, {"'/pattern'", "look-around"}},
    {"{\"pattern\":\"(a)\\\\1\"}", ERR_UNSUPPORTED, {"'/pattern'", "back references"}},
    {"{\"pattern\":\"\\\\bx\"}", ERR_UNSUPPORTED, {"'/pattern'", "leave them out"}},
    {"{\"pattern\":\"a^b\"}", ERR_INVALID, {"nothing", ""}},
    {"{\"pattern\":\"(a\"}", ERR_INVALID, {"'/pattern'", "no end"}},
    {"{\"pattern\":\"a)\"}", ERR_INVALID, {"'/pattern'", "closes"}},
    {"{\"pattern\":\"[a\"}", ERR_INVALID, {"'/pattern'", "no end"}},
    {"{\"pattern\":\"*\"}", ERR_INVALID, {"'/pattern'", "nothing to repeat"}},
    {"{\"pattern\":\"a|{3}\"}", ERR_INVALID, {"'/pattern'", "nothing to repeat"}},
    {"{\"pattern\":\"a{2}{3}\"}", ERR_INVALID, {"'/pattern'", "a repetition of a repetition"}},
    {"{\"pattern\":\"a{2}?{3,}\"}", ERR_INVALID, {"'/pattern'", "a repetition of a repetition"}},
    {"{\"pattern\":\"a{3,2}\"}", ERR_INVALID, {"'/pattern'", "below"}},
    {"{\"pattern\":\"a\\\\\"}", ERR_INVALID, {"'/pattern'", "backslash"}},
    {"{\"pattern\":\"^ab?$\",\"minLength\":3}", ERR_INVALID, {"nothing", ""}},
    {"{\"pattern\":\"^(a+,)+b+$\",\"maxLength\":60000}",
     ERR_UNSUPPORTED,
     {"'/pattern'", "too large"}},
    {"{\"allOf\":[{\"pattern\":\"^a$\"},{\"pattern\":\"^b$\"}]}", ERR_INVALID, {"nothing", ""}},
};

static void test_refuses_with_place_and_advice(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        struct errinfo info = {0};
        struct buf gbnf;
        buf_init(&gbnf, OUTPUT_BYTES);
        buf_append_str(&gbnf, "before");
        enum err err = compile(refused[i].schema, NULL, &gbnf, &info);
        if (err != refused[i].err || strstr(info.text, refused[i].says[0]) == NULL ||
            strstr(info.text, refused[i].says[1] ? refused[i].says[1] : "") == NULL)
            fail_msg("%s gave '%s': %s\n%s", refused[i].schema, err_name(err), info.text,
                     buf_str(&gbnf));
        assert_string_equal(buf_str(&gbnf), "before");
        buf_fini(&gbnf);
    }
}

/* ---- limits ---- */

static enum err compile_text(struct buf *source)
{
    struct errinfo info = {0};
    struct buf gbnf;

    buf_init(&gbnf, OUTPUT_BYTES);
    enum err err = compile(buf_str(source), NULL, &gbnf, &info);
    if (err == ERR_OK && gbnf_check(buf_str(&gbnf), "root", &info) != ERR_OK)
        fail_msg("%s", info.text);
    buf_fini(&gbnf);
    buf_clear(source);
    return err;
}

static void nest(struct buf *source, int depth)
{
    for (int i = 0; i < depth; i++)
        buf_append_str(source, "{\"items\":");
    buf_append_str(source, "{}");
    for (int i = 0; i < depth; i++)
        buf_append_str(source, "}");
}

static void test_limits(void **state)
{
    struct buf source;

    (void)state;
    buf_init(&source, OUTPUT_BYTES);
    nest(&source, SCHEMA_DEPTH_MAX - 1);
    assert_ok(compile_text(&source));
    nest(&source, SCHEMA_DEPTH_MAX + 1);
    assert_err(compile_text(&source), ERR_LIMIT);
    for (int over = 0; over < 2; over++) {
        for (int i = 0; i < SCHEMA_PROPERTIES_MAX + over; i++)
            buf_appendf(&source, "%s\"p%d\":{\"type\":\"string\"}", i ? "," : "{\"properties\":{",
                        i);
        buf_append_str(&source, "}}");
        assert_err(compile_text(&source), over ? ERR_LIMIT : ERR_OK);
    }
    /* Names that additional ones must differ from. */
    for (int longer = 0; longer < 2; longer++) {
        for (int i = 0; i < SCHEMA_PROPERTIES_MAX; i++)
            buf_appendf(&source, "%s\"p%*d\":{}", i ? "," : "{\"properties\":{", longer ? 40 : 3,
                        i);
        buf_append_str(&source, "},\"additionalProperties\":true}");
        assert_err(compile_text(&source), longer ? ERR_UNSUPPORTED : ERR_OK);
    }
    /* 2^40 combinations. */
    buf_append_str(&source, "{\"allOf\":[");
    for (int i = 0; i < 40; i++)
        buf_appendf(&source, "%s{\"anyOf\":[{\"minimum\":%d},{\"maximum\":%d}]}", i ? "," : "", i,
                    i);
    buf_append_str(&source, "]}");
    assert_err(compile_text(&source), ERR_LIMIT);
    /* Repetitions of repetitions. */
    buf_append_str(&source, "{\"anyOf\":[");
    for (int i = 0; i < 200; i++)
        buf_appendf(&source, "%s{\"pattern\":\"^a{%d,60000}$\"}", i ? "," : "", i);
    buf_append_str(&source, "]}");
    assert_err(compile_text(&source), ERR_LIMIT);
    /* Automata whose rules are never written: their work adds up. */
    buf_append_str(&source, "{\"properties\":{");
    for (int i = 0; i < 250; i++)
        buf_appendf(&source, "%s\"p%d\":{\"patternProperties\":{\"(a|b)*a(a|b){8}c{%d}\":false}}",
                    i ? "," : "", i, i % 9);
    buf_append_str(&source, "}}");
    assert_err(compile_text(&source), ERR_UNSUPPORTED);
    /* Lists that are compared value by value, and have none in common. */
    buf_append_str(&source, "{\"$defs\":{");
    for (int list = 0; list < 3; list++) {
        buf_appendf(&source, "%s\"%d\":{\"enum\":[0", list ? "," : "", list);
        for (int i = 1; i < 2000; i++)
            buf_appendf(&source, ",%d", list == 1 ? -i : i);
        buf_append_str(&source, "]}");
    }
    buf_append_str(&source, "},\"properties\":{");
    for (int i = 0; i < 20; i++)
        buf_appendf(&source,
                    "%s\"p%d\":{\"minimum\":%d,\"allOf\":[{\"$ref\":\"#/$defs/0\"},{\"$ref\":"
                    "\"#/$defs/1\"},{\"$ref\":\"#/$defs/2\"}]}",
                    i ? "," : "", i, i + 1);
    buf_append_str(&source, "}}");
    assert_err(compile_text(&source), ERR_LIMIT);
    /* One inside the other is no product: a rule for each. */
    buf_append_str(&source, "{\"pattern\":\"^(((a{1,9999}b){1,9999}c){1,9999}d){1,9999}$\"}");
    assert_err(compile_text(&source), ERR_OK);
    buf_fini(&source);
}

/* a?^n a^n: its grammar is followed in steps of n per character. */
static void test_patterns_cost_little_to_follow(void **state)
{
    struct errinfo info = {0};
    struct gbnf_match *match;
    struct gbnf *program;
    struct buf source, gbnf;

    (void)state;
    buf_init(&source, OUTPUT_BYTES);
    buf_init(&gbnf, OUTPUT_BYTES);
    buf_append_str(&source, "{\"type\":\"string\",\"pattern\":\"^");
    for (int i = 0; i < 400; i++)
        buf_append_str(&source, i < 200 ? "a?" : "a");
    buf_append_str(&source, "$\"}");
    assert_ok(compile(buf_str(&source), NULL, &gbnf, &info));
    assert_ok(gbnf_create(&program, buf_str(&gbnf), "root", &info));
    assert_ok(gbnf_match_create(&match, program, &info));
    assert_true(gbnf_match_push(match, '"'));
    for (int i = 0; i < 300; i++)
        assert_true(gbnf_match_push(match, 'a'));
    assert_true(gbnf_match_push(match, '"'));
    assert_true(gbnf_match_steps(match) < 300 * 400 * 4);
    gbnf_match_destroy(&match);
    gbnf_destroy(&program);
    buf_fini(&gbnf);
    buf_fini(&source);
}

static void test_output_limit_is_the_callers(void **state)
{
    struct errinfo info = {0};
    struct buf gbnf;

    (void)state;
    buf_init(&gbnf, 40);
    assert_err(compile("{\"type\":\"object\"}", NULL, &gbnf, &info), ERR_LIMIT);
    buf_fini(&gbnf);
}

static void test_survives_every_failed_allocation(void **state)
{
    struct fault fault = {0};

    (void)state;
    yyjson_doc *docs[COUNT_OF(documents)];
    for (size_t i = 0; i < COUNT_OF(documents); i++)
        docs[i] = yyjson_read(documents[i].schema, strlen(documents[i].schema), 0);
    for (size_t i = 0; i < COUNT_OF(documents); i += 3) {
        fault = (struct fault){0};
        mem_set_fault(&fault);
        FAULT_LOOP (&fault) {
            struct errinfo info = {0};
            struct buf gbnf;
            buf_init(&gbnf, OUTPUT_BYTES);
            enum err err = schema_write_gbnf(yyjson_doc_get_root(docs[i]), NULL, &gbnf, &info);
            assert_err(err, atomic_load(&fault.fired) ? ERR_NOMEM : ERR_OK);
            assert_true(err == ERR_OK || gbnf.len == 0);
            buf_fini(&gbnf);
        }
        mem_set_fault(NULL);
    }
    for (size_t i = 0; i < COUNT_OF(documents); i++)
        yyjson_doc_free(docs[i]);
}

TEST_SUITE(TEST(test_allows_what_the_schema_allows), TEST(test_integer_ranges_are_exact),
           TEST(test_large_counts_are_exact), TEST(test_white_space_is_bounded),
           TEST(test_several_schemas_fit_into_one_grammar), TEST(test_any_object),
           TEST(test_refuses_with_place_and_advice), TEST(test_limits),
           TEST(test_patterns_cost_little_to_follow), TEST(test_output_limit_is_the_callers),
           TEST(test_survives_every_failed_allocation))

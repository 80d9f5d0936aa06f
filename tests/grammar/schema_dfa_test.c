/*
 * schema_dfa_test.c: random patterns with lengths, and random patterns of names, against the
 * regular expressions of the C library: every short text over a small alphabet.
 */
#include <regex.h>
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "base/buf.h"
#include "grammar/schema.h"
#include "support/gbnf_language.h"
#include "support/test.h"

enum { ROUNDS = 40, TEXT_MAX = 4 };

static void write_pattern(struct buf *out, uint64_t *seed, unsigned depth)
{
    static const char *const counts[] = {"*", "+", "?", "{2}", "{1,2}", "{0,3}"};

    switch (depth > 3 ? 0 : test_random_below(seed, 5)) {
    case 0:
    case 1:
        buf_append_str(out, test_random_below(seed, 4) == 0   ? "[ab]"
                            : test_random_below(seed, 2) == 0 ? "a"
                                                              : "b");
        break;
    case 2:
        write_pattern(out, seed, depth + 1);
        write_pattern(out, seed, depth + 1);
        break;
    case 3:
        buf_append_char(out, '(');
        write_pattern(out, seed, depth + 1);
        buf_append_char(out, '|');
        write_pattern(out, seed, depth + 1);
        buf_append_char(out, ')');
        break;
    default: /* also of groups that can be empty */
        buf_append_char(out, '(');
        write_pattern(out, seed, depth + 1);
        buf_append_char(out, ')');
        buf_append_str(out, counts[test_random_below(seed, COUNT_OF(counts))]);
    }
}

static struct buf random_pattern(uint64_t *seed)
{
    struct buf inside, pattern;

    buf_init(&inside, 4096);
    buf_init(&pattern, 4096);
    write_pattern(&inside, seed, 0);
    buf_appendf(&pattern, "%s(%s)%s", test_random_below(seed, 2) ? "^" : "", buf_str(&inside),
                test_random_below(seed, 2) ? "$" : "");
    buf_fini(&inside);
    return pattern;
}

static bool matches(const struct buf *pattern, const char *text)
{
    regex_t regex;

    assert_int_equal(regcomp(&regex, buf_str(pattern), REG_EXTENDED | REG_NOSUB), 0);
    bool match = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return match;
}

/* The language of a schema; NULL: nothing satisfies it. `gbnf` must live as long. */
static struct language *language_of(const char *schema, struct buf *gbnf)
{
    struct schema_options options = {.space = SCHEMA_SPACE_COMPACT};
    struct errinfo info = {0};
    yyjson_doc *doc = yyjson_read(schema, strlen(schema), 0);

    assert_non_null(doc);
    enum err err = schema_write_gbnf(yyjson_doc_get_root(doc), &options, gbnf, &info);
    yyjson_doc_free(doc);
    if (err == ERR_INVALID && strstr(info.text, "nothing"))
        return NULL;
    if (err != ERR_OK)
        fail_msg("%s: %s", schema, info.text);
    return language_create(buf_str(gbnf));
}

/* The n-th text over a, b and c. */
static void nth_text(unsigned n, char text[TEXT_MAX + 1])
{
    size_t len = 0;

    for (; n > 0; n = (n - 1) / 3)
        text[len++] = (char)('a' + (n - 1) % 3);
    text[len] = '\0';
}

static unsigned texts_count(void)
{
    unsigned count = 0;

    for (int i = 0; i <= TEXT_MAX; i++)
        count = count * 3 + 1;
    return count;
}

static void test_patterns_with_lengths(void **state)
{
    uint64_t seed = test_seed();
    char schema[9000], text[TEXT_MAX + 1], value[16];

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct buf pattern = random_pattern(&seed), other = random_pattern(&seed), gbnf;
        unsigned min = (unsigned)test_random_below(&seed, 3), max = min + 1;
        snprintf(schema, sizeof(schema),
                 "{\"type\":\"string\",\"allOf\":[{\"pattern\":\"%s\"},{\"pattern\":\"%s\"}],"
                 "\"minLength\":%u,\"maxLength\":%u}",
                 buf_str(&pattern), buf_str(round % 2 ? &other : &pattern), min, max);
        buf_init(&gbnf, 1 << 22);
        struct language *language = language_of(schema, &gbnf);
        for (unsigned n = 0; n < texts_count(); n++) {
            nth_text(n, text);
            snprintf(value, sizeof(value), "\"%s\"", text);
            bool allowed = language && language_matches(language, "root", str_from(value));
            bool expected = strlen(text) >= min && strlen(text) <= max && matches(&pattern, text) &&
                            (round % 2 == 0 || matches(&other, text));
            if (allowed != expected)
                fail_msg("%s: %s must%s be allowed", schema, value, expected ? "" : " not");
        }
        if (language)
            language_destroy(&language);
        buf_fini(&gbnf);
        buf_fini(&pattern);
        buf_fini(&other);
    }
}

/* Each name has the types that its patterns allow; a declared one has its own as well. */
static void test_patterns_of_names(void **state)
{
    uint64_t seed = test_seed();
    char schema[9000], text[TEXT_MAX + 1], value[32];

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct buf one = random_pattern(&seed), two = random_pattern(&seed), gbnf;
        if (strcmp(buf_str(&one), buf_str(&two)) == 0)
            buf_append_str(&two, "c");
        snprintf(schema, sizeof(schema),
                 "{\"type\":\"object\",\"properties\":{\"ab\":{\"enum\":[1,2,4]}},"
                 "\"patternProperties\":{\"%s\":{\"enum\":[1,2]},\"%s\":{\"enum\":[1,3]}},"
                 "\"additionalProperties\":{\"enum\":[4]}}",
                 buf_str(&one), buf_str(&two));
        buf_init(&gbnf, 1 << 22);
        struct language *language = language_of(schema, &gbnf);
        assert_non_null(language);
        for (unsigned n = 0; n < texts_count(); n++)
            for (int number = 1; number <= 4; number++) {
                nth_text(n, text);
                snprintf(value, sizeof(value), "{\"%s\":%d}", text, number);
                bool first = matches(&one, text), second = matches(&two, text);
                bool declared = strcmp(text, "ab") == 0;
                bool expected = (!declared || number != 3) && (!first || number <= 2) &&
                                (!second || number == 1 || number == 3) &&
                                (declared || first || second || number == 4);
                if (language_matches(language, "root", str_from(value)) != expected)
                    fail_msg("%s: %s must%s be allowed", schema, value, expected ? "" : " not");
            }
        language_destroy(&language);
        buf_fini(&gbnf);
        buf_fini(&one);
        buf_fini(&two);
    }
}

TEST_SUITE(TEST(test_patterns_with_lengths), TEST(test_patterns_of_names))

#include "engine/gbnf.h"

#include <stdio.h>
#include <string.h>

#include <llama.h>

#include "base/buf.h"
#include "base/mem.h"
#include "support/test.h"

/* Grammars as people write them: those that come with llama.cpp, and what is made from JSON
 * schemas. */
static const char *const good[] = {
    "root ::= \"a\"",
    "root ::= \"\"",
    "root ::=",
    "# a comment\n\n  # another\nroot ::= \"a\" # behind it\n",
    "root ::= \"yes\" | \"no\"\r\n",
    "root ::= [a-zA-Z_] [^\\x00-\\x1F\"\\\\]* \"\\u00e9\\U0001F4A9\" [\\]\\[-]",
    "root ::= (\"a\" | \"b\" (\"c\")?)+ \"d\"{3} \"e\"{2,} \"f\"{0,5} \"g\"{0}",
    "root ::= ( \n \"a\"\n | \n \"b\" \n ) x\nx ::= .\n",
    "root ::= a | \n  b\na ::= \"1\"\nb ::= \"2\"",
    "root ::= item (\",\" ws item)*\nitem ::= [0-9]+\nws ::= [ \\t\\n]*",
    "root ::= object\n"
    "value ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"
    "object ::= \"{\" ws (string \":\" ws value (\",\" ws string \":\" ws value)*)? \"}\" ws\n"
    "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\n"
    "string ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | [\\\\] ([\"\\\\bfnrt] | \"u\" "
    "[0-9a-fA-F]{4}))* \"\\\"\" ws\n"
    "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9] "
    "[1-9]{0,15})? ws\n"
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n",
    "root ::= (expr \"=\" term \"\\n\")+\nexpr ::= term ([-+*/] term)*\nterm ::= num | \"(\" ws "
    "expr \")\" ws\n"
    "num ::= [0-9]+ ws\nws ::= [ \\t\\n]*",
    "root ::= tail\ntail ::= ws \"x\" tail | \"y\"\nws ::= [ ]*",
    "root ::= \"a\"\nroot ::= \"b\"",
    "root ::= \"x\"{1999}",
    "root ::= \"x\"{0,3000}",
    "root ::= <[5]>* !<[6]> (<[7]> | \"a\")",
};

/* What is wrong, and where. */
static const struct {
    const char *text, *at;
} broken[] = {
    {"", "no rule 'root'"},
    {"other ::= \"a\"", "no rule 'root'"},
    {"root", "line 1, column 5"},
    {"root := \"a\"", "line 1, column 6"},
    {"root ::= \"a", "line 1, column 12"},
    {"root ::= [a", "line 1, column 12"},
    {"root ::= [a-", "line 1, column 13"},
    {"root ::= \"\\q\"", "line 1, column 11"},
    {"root ::= \"\\x1g\"", "line 1, column 11"},
    {"root ::= \"\\u12", "line 1, column 11"},
    {"root ::= (\"a\"", "line 1, column 10"},
    {"root ::= (\"a\"]", "line 1, column 14"},
    {"root ::= \"a\")", "line 1, column 13"},
    {"root ::= *", "line 1, column 10"},
    {"root ::= \"\"*", "line 1, column 12"},
    {"root ::= \"a\"{0}*", "line 1, column 16"},
    {"root ::= \"a\" | +", "line 1, column 16"},
    {"root ::= \"a\"{", "line 1, column 14"},
    {"root ::= \"a\"{x}", "line 1, column 14"},
    {"root ::= \"a\"{1;2}", "line 1, column 15"},
    {"root ::= \"a\"{1,2", "line 1, column 17"},
    {"root ::= \"a\"{2001}", "line 1, column 13"},
    {"root ::= \"a\"{99999999999999999999999}", "line 1, column 13"},
    {"root ::= \"a\"{2000}", "line 1, column 13"},
    {"root ::= \"a\"{5,2}", "line 1, column 13"},
    {"root ::= \"a\"{50}{50}", "line 1, column 17"},
    {"root ::= (\"a\"{0,50}){50}", "line 1, column 21"},
    {"root ::= \"a\"\n  | \"b\"", "line 2, column 3"},
    {"root ::= a_b\na ::= \"\"", "line 1, column 11"},
    {"root ::= \"a\"\n\nmore ::= missing\n", "line 3, column 10"},
    {"root ::= \"a\" !<think>", "written as numbers"},
    {"root ::= <[]>", "number of a token"},
    {"root ::= <[2147483648]>", "number of a token"},
    {"root ::= <[5>", "expected ']>'"},
    {"root ::= !\"a\"", "written as numbers"},
    {"root ::= root \"a\" | \"b\"", "begins with itself"},
    {"root ::= a\na ::= b\nb ::= a | \"x\"", "begins with itself"},
    {"root ::= (a)\na ::= (\"\" root \"x\")?", "begins with itself"},
    /* The library does not see this one, and never comes back. */
    {"root ::= a root \"x\" | \"z\"\na ::= b\nb ::= \"\" | \"y\"", "begins with itself"},
};

static void test_takes_what_people_write(void **state)
{
    struct errinfo info = {0};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        if (gbnf_check(good[i], "root", &info) != ERR_OK)
            fail_msg("%s\n%s", good[i], info.text);
        struct llama_sampler *sampler = llama_sampler_init_grammar(NULL, good[i], "root");
        if (sampler == NULL)
            fail_msg("the library refuses %s", good[i]);
        llama_sampler_free(sampler);
    }
}

static void test_says_what_is_wrong_and_where(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(broken); i++) {
        struct errinfo info = {0};
        if (gbnf_check(broken[i].text, "root", &info) != ERR_INVALID)
            fail_msg("not refused: %s", broken[i].text);
        if (strstr(info.text, broken[i].at) == NULL)
            fail_msg("%s\ngave '%s', without '%s'", broken[i].text, info.text, broken[i].at);
    }
    assert_err(gbnf_check("root ::=", "start", NULL), ERR_INVALID);
    assert_ok(gbnf_check("start ::=", "start", NULL));
}

/* Appends `count` times a text in which %d is the number and %d+ the next one. */
static void repeat(struct buf *buf, size_t count, const char *format)
{
    for (size_t i = 0; i < count; i++) {
        const char *rest = format;
        for (const char *d; (d = strstr(rest, "%d")) != NULL;) {
            bool next = d[2] == '+';
            buf_append(buf, rest, (size_t)(d - rest));
            buf_appendf(buf, "%zu", i + next);
            rest = d + 2 + next;
        }
        buf_append_str(buf, rest);
    }
}

/* head, count times middle, tail */
static void assert_check(const char *head, size_t count, const char *middle, const char *tail,
                         enum err expected)
{
    struct errinfo info = {0};
    struct buf buf;

    buf_init(&buf, 16 * GBNF_BYTES_MAX);
    buf_append_str(&buf, head);
    repeat(&buf, count, middle);
    buf_append_str(&buf, tail);
    assert_ok(buf.err);
    enum err err = gbnf_check(buf_str(&buf), "root", &info);
    if (err != expected)
        fail_msg("%s %zu x %s %s: %s %s", head, count, middle, tail, err_name(err), info.text);
    buf_fini(&buf);
}

static void test_i108_every_limit_holds(void **state)
{
    (void)state;
    assert_check("root ::= #", GBNF_BYTES_MAX - 10, "x", "", ERR_OK);
    assert_check("root ::= #", GBNF_BYTES_MAX - 9, "x", "", ERR_LIMIT);
    assert_check("root ::= r0\n", GBNF_RULES_MAX - 1, "r%d ::= \"a\"\n", "", ERR_OK);
    assert_check("root ::= r0\n", GBNF_RULES_MAX, "r%d ::= \"a\"\n", "", ERR_LIMIT);
    assert_check("root ::= \"a\"", GBNF_NODES_MAX - 10, " .", "", ERR_OK);
    assert_check("root ::= \"a\"", GBNF_NODES_MAX, " .", "", ERR_LIMIT);
    assert_check("root ::= \"", 1000, "x", "\"{1000}", ERR_OK);
    assert_check("root ::= \"", 1100, "x", "\"{1000}", ERR_LIMIT);
    assert_check("root ::= ", GBNF_DEPTH_MAX, "(", "\"a\"", ERR_INVALID);
    assert_check("root ::= ", GBNF_DEPTH_MAX + 1, "(", "\"a\"", ERR_LIMIT);
    assert_check("root ::= ", 1000000, "(", "\"a\"", ERR_LIMIT);
    assert_check("root ::= r0\n", GBNF_CHAIN_MAX - 2, "r%d ::= r%d+\n", "r510 ::= \"x\"", ERR_OK);
    assert_check("root ::= r0\n", GBNF_CHAIN_MAX, "r%d ::= r%d+\n", "r512 ::= \"x\"", ERR_LIMIT);
    assert_check("root ::= \"x\"", GBNF_PATHS_MAX - 1, " | \"a\"", "", ERR_OK);
    assert_check("root ::= \"x\"", GBNF_PATHS_MAX, " | \"a\"", "", ERR_LIMIT);
    assert_check("root ::= \"x\"", GBNF_PATHS_MAX - 2, " | \"a\"", " | ", ERR_OK);
    assert_check("root ::= \"x\"", GBNF_PATHS_MAX - 1, " | \"a\"", " | ", ERR_LIMIT);
    /* 600 x 11 ways to begin, and many rules that have them. */
    assert_check(
        "root ::= (a?){600}\na ::= [0] | [1] | [2] | [3] | [4] | [5] | [6] | [7] | [8] | [9]\n",
        100, "r%d ::= root\n", "", ERR_OK);
    assert_check(
        "root ::= (a?){600}\na ::= [0] | [1] | [2] | [3] | [4] | [5] | [6] | [7] | [8] | [9]\n",
        200, "r%d ::= root\n", "", ERR_LIMIT);
}

/* Rules that double with each step: 2 to the 40th readings, each a list in the library's memory. */
static void test_refuses_exponential_beginnings(void **state)
{
    (void)state;
    assert_check("root ::= r0\n", 12, "r%d ::= r%d+ \"x\" | r%d+ \"y\"\n", "r12 ::= \"z\"", ERR_OK);
    assert_check("root ::= r0\n", 40, "r%d ::= r%d+ \"x\" | r%d+ \"y\"\n", "r40 ::= \"z\"",
                 ERR_LIMIT);
    assert_check("root ::= \"z\"\nroot2 ::= r0\n", 40, "r%d ::= (r%d+)? r%d+ \"y\"\n",
                 "r40 ::= \"z\"", ERR_LIMIT);
    assert_check("root ::= (a?){600}\na ::= ", 20, "\"a\" | ", "\"b\"", ERR_LIMIT);
    /* Empty rules, each known to be so only after the next: bounded, whatever the order. */
    assert_check("root ::= r0\n", 60, "r%d ::= r%d+\n", "r60 ::= \"\"", ERR_OK);
    assert_check("root ::= \"a\"\ns0 ::= \"\"\n", 400, "s%d+ ::= s%d\n", "", ERR_LIMIT);
}

/* Mutants of good grammars: whatever is let through, the library parses without complaint, crash or
 * delay. */
static void test_the_library_takes_what_passes(void **state)
{
    static const char alphabet[] = "\"[]().|*+?{},0123 \nabrot:=-\\x#^";
    uint64_t seed = test_seed();
    size_t passed = 0;

    (void)state;
    for (int step = 0; step < 30000; step++) {
        char text[1024];
        snprintf(text, sizeof(text), "%s", good[test_random_below(&seed, COUNT_OF(good))]);
        size_t len = strlen(text);
        for (uint64_t i = 1 + test_random_below(&seed, 3); i > 0 && len > 0; i--) {
            size_t at = test_random_below(&seed, len);
            char c = alphabet[test_random_below(&seed, sizeof(alphabet) - 1)];
            if (test_random_below(&seed, 2) == 0) {
                text[at] = c;
            } else if (len + 2 < sizeof(text)) {
                memmove(text + at + 1, text + at, len - at + 1);
                text[at] = c;
                len++;
            }
        }
        if (gbnf_check(text, "root", NULL) != ERR_OK)
            continue;
        passed++;
        struct llama_sampler *sampler = llama_sampler_init_grammar(NULL, text, "root");
        /* What it calls left recursion is more than what never ends: repetitions of what may be
         * empty. */
        if (sampler == NULL && strpbrk(text, "*+{") == NULL)
            fail_msg("the library refuses\n%s", text);
        llama_sampler_free(sampler);
    }
    assert_true(passed > 1000);
}

/* ... and what the library refuses as text is refused here as well. */
static void test_mutants_equal_the_library(void **state)
{
    static const char *const pieces[] = {"\"a\"", "[a-c]", ".",   "root", "x",  "(",   ")", "|",
                                         "*",     "+",     "{2}", "{1,}", "\n", "::=", "?", " "};
    uint64_t seed = test_seed();

    (void)state;
    for (int step = 0; step < 20000; step++) {
        char text[256] = "x ::= \"x\"\nroot ::= ";
        size_t len = strlen(text);
        for (uint64_t i = test_random_below(&seed, 8); i > 0; i--)
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%s",
                                    pieces[test_random_below(&seed, COUNT_OF(pieces))]);
        struct errinfo info = {0};
        enum err err = gbnf_check(text, "root", &info);
        /* Stricter on purpose: what never ends, and names that only an overwritten definition uses.
         */
        if (strstr(info.text, "begins with itself") != NULL ||
            strstr(info.text, "not defined") != NULL)
            continue;
        struct llama_sampler *sampler = llama_sampler_init_grammar(NULL, text, "root");
        if (sampler != NULL && err != ERR_OK)
            fail_msg("only the library takes\n%s\n%s", text, info.text);
        llama_sampler_free(sampler);
    }
}

static void test_survives_every_failed_allocation(void **state)
{
    struct fault fault = {0};

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct errinfo info = {0};
        enum err err = gbnf_check(good[10], "root", &info);
        /* The table of names does without a larger one. */
        if (err != ERR_OK)
            assert_err(err, ERR_NOMEM);
        else if (atomic_load(&fault.fired))
            assert_true(atomic_load(&fault.calls) > 2);
    }
    mem_set_fault(NULL);
}

TEST_SUITE(TEST(test_takes_what_people_write), TEST(test_says_what_is_wrong_and_where),
           TEST(test_i108_every_limit_holds), TEST(test_refuses_exponential_beginnings),
           TEST(test_the_library_takes_what_passes), TEST(test_mutants_equal_the_library),
           TEST(test_survives_every_failed_allocation))

#include <stdio.h>
#include <string.h>

#include "engine/gbnf.h"
#include "support/test.h"

static struct gbnf *translate(const char *text)
{
    struct errinfo info = {0};
    struct gbnf *program;

    if (gbnf_create(&program, text, "root", &info) != ERR_OK)
        fail_msg("%s\n%s", text, info.text);
    return program;
}

/* A bit for each number of "a" from 0 to 31 that is of the language. */
static uint32_t lengths_of(const char *text)
{
    struct gbnf *program = translate(text);
    struct gbnf_match *match;
    uint32_t lengths = 0;

    assert_ok(gbnf_match_create(&match, program, NULL));
    for (unsigned n = 0; n < 32; n++) {
        lengths |= (uint32_t)gbnf_match_whole(match) << n;
        if (!gbnf_match_push(match, 'a'))
            break;
    }
    gbnf_match_destroy(&match);
    gbnf_destroy(&program);
    return lengths;
}

static void test_repetitions_are_exact(void **state)
{
    (void)state;
    assert_int_equal(lengths_of("root ::= \"a\"?"), 0x3);
    assert_int_equal(lengths_of("root ::= \"a\"{3}"), 0x8);
    assert_int_equal(lengths_of("root ::= \"a\"{2,4}"), 0x1C);
    assert_int_equal(lengths_of("root ::= \"a\"{0}"), 0x1);
    assert_int_equal(lengths_of("root ::= \"a\"{2,}"), 0xFFFFFFFC);
    assert_int_equal(lengths_of("root ::= \"aa\"+"), 0x55555554);
    assert_int_equal(lengths_of("root ::= \"aa\"*"), 0x55555555);
    assert_int_equal(lengths_of("root ::= \"a\"{2,3}?"), 0xD);
    assert_int_equal(lengths_of("root ::= (\"a\"{2,3} | \"aaaaaaaaa\"){2}"), 0x41870);
    assert_int_equal(lengths_of("root ::= ((\"a\" x){2}){1,2}\nx ::= \"a\" | \"\""), 0x1FC);
    assert_int_equal(lengths_of("root ::= (\"\" | \"a\")*"), 0xFFFFFFFF);
    assert_int_equal(lengths_of("root ::= x\nx ::= \"aa\" x | \"a\""), 0xAAAAAAAA);
}

/* Numbers inside each other multiply the texts, not the program. */
static void test_nested_numbers_do_not_multiply(void **state)
{
    char text[8192];
    size_t len = (size_t)snprintf(text, sizeof(text), "root ::= ((\"");

    (void)state;
    memset(text + len, 'x', 4000);
    snprintf(text + len + 4000, sizeof(text) - len - 4000, "\"){40}){40}");
    struct gbnf *program = translate(text);
    assert_true(program->ops_count < 4300);
    gbnf_destroy(&program);
}

TEST_SUITE(TEST(test_repetitions_are_exact), TEST(test_nested_numbers_do_not_multiply))

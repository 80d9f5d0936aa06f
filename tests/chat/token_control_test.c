/* Control tokens in text, and where text may be cut. */
#include "chat/tokens_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/test.h"
#include "support/toy_tokenizer.h"

struct row {
    const char *text;
    unsigned traits;
    bool cut;
};

static void make(struct toy_tokenizer *toy, const struct row *rows, size_t count)
{
    *toy = (struct toy_tokenizer){0};
    for (size_t i = 0; i < count; i++) {
        snprintf(toy->specials[i].text, sizeof(toy->specials[i].text), "%s", rows[i].text);
        toy->specials[i].traits = rows[i].traits;
    }
}

enum {
    C = ENGINE_TOKEN_CONTROL,
    M = ENGINE_TOKEN_MARKER,
    L = ENGINE_TOKEN_STRIP_LEFT,
    R = ENGINE_TOKEN_STRIP_RIGHT
};

static void assert_cuts(const struct row *rows, size_t count)
{
    struct token_controls *controls;
    struct toy_tokenizer toy;
    size_t seen = 0;

    make(&toy, rows, count);
    assert_ok(token_controls_create(toy_engine(&toy), ENGINE_TOKEN_CONTROL, &controls));
    for (size_t i = 0; i < token_controls_count(controls); i++) {
        const struct token_control *control = token_controls_get(controls, i);
        const struct row *row = &rows[control->token - TOY_SPECIAL];
        assert_true(str_eq(control->text, str_from(row->text)));
        if (control->cut != row->cut)
            fail_msg("%s can%s be cut", row->text, control->cut ? "" : "not");
        assert_int_equal(control->strips, (row->traits & R) != 0);
        seen++;
    }
    for (size_t i = 0; i < count; i++)
        seen -= (rows[i].traits & C) != 0;
    assert_int_equal(seen, 0);
    token_controls_destroy(&controls);
}

static void test_what_can_be_cut(void **state)
{
    static const struct row usual[] = {
        {"<|im_start|>", C, true}, {"<|im_end|>", C, true}, {"<s>", C, true}, {"</s>", C, true},
        {"[INST]", C, true},       {"<think>", M, false},   {"im", M, false}};
    static const struct row prefix[] = {
        {"<|a|>", C, false}, {"<|a|>b", C, true}, {"<|c|>", C, false}, {"<|c|>d", M, false}};
    static const struct row inside[] = {
        {"bc", C, false}, {"abcd", C, true}, {"xy", C, false}, {"zxy", M, false}};
    static const struct row chain[] = {
        {"ab", C, false}, {"bc", C, false}, {"pq", C, false}, {"qr", M, false}};
    static const struct row itself[] = {{"aba", C, false}, {"<>", C, true}, {"xx", C, false}};
    static const struct row twins[] = {
        {"<a>", C, false}, {"<a>", C, false}, {"<b>", C, false}, {"<b>", M, false}};
    static const struct row strips[] = {
        {"<l>", C | L, false}, {"<r>", C | R, true}, {" <b", C, false}, {"b> ", C, false}};
    static const struct row strips_only[] = {
        {"<l>", C | L, false}, {"<r>", C | R, true}, {"<x>", C, true}};

    (void)state;
    assert_cuts(usual, COUNT_OF(usual));
    assert_cuts(prefix, COUNT_OF(prefix));
    assert_cuts(inside, COUNT_OF(inside));
    assert_cuts(chain, COUNT_OF(chain));
    assert_cuts(itself, COUNT_OF(itself));
    assert_cuts(twins, COUNT_OF(twins));
    assert_cuts(strips_only, COUNT_OF(strips_only));
    /* A token that begins with white space may take what <r> would. */
    struct row changed[COUNT_OF(strips)];
    memcpy(changed, strips, sizeof(strips));
    changed[1].cut = false;
    assert_cuts(changed, COUNT_OF(changed));
}

static void test_finds_the_first_and_longest(void **state)
{
    static const char letters[] = "ab<>";
    uint64_t random = test_seed();

    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct toy_tokenizer toy = {0};
        struct token_controls *controls;
        char text[40];
        size_t count = test_random_below(&random, 10),
               len = test_random_below(&random, sizeof(text));
        for (size_t i = 0; i < count; i++) {
            for (size_t k = 1 + test_random_below(&random, 4); k > 0; k--)
                toy.specials[i].text[k - 1] = letters[test_random_below(&random, 4)];
            toy.specials[i].traits = C;
        }
        for (size_t i = 0; i < len; i++)
            text[i] = letters[test_random_below(&random, 4)];
        assert_ok(token_controls_create(toy_engine(&toy), ENGINE_TOKEN_CONTROL, &controls));
        struct str guarded = {test_guarded(text, len), len};
        for (size_t at = 0; at <= len; at++) {
            size_t first = SIZE_MAX, longest = 0;
            for (size_t p = at; p < len && first == SIZE_MAX; p++)
                for (size_t i = 0; i < count; i++) {
                    size_t n = strlen(toy.specials[i].text);
                    if (p + n <= len && memcmp(text + p, toy.specials[i].text, n) == 0) {
                        first = p;
                        longest = n > longest ? n : longest;
                    }
                }
            const struct token_control *found;
            assert_int_equal(token_controls_find(controls, guarded, at, &found), first);
            assert_int_equal(found ? found->text.len : 0, longest);
            for (; found != NULL; found = token_controls_shorter(controls, found))
                assert_true(
                    str_starts((struct str){guarded.ptr + first, len - first}, found->text));
        }
        token_controls_destroy(&controls);
    }
}

static void test_no_memory(void **state)
{
    static const struct row rows[] = {{"<a>", C, true}, {"<b>", C, true}};
    struct token_controls *controls;
    struct fault fault = {0};
    struct toy_tokenizer toy;

    (void)state;
    make(&toy, rows, COUNT_OF(rows));
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        enum err err = token_controls_create(toy_engine(&toy), ENGINE_TOKEN_CONTROL, &controls);
        assert_err(err, atomic_load(&fault.fired) ? ERR_NOMEM : ERR_OK);
        assert_true((controls != NULL) == (err == ERR_OK));
        token_controls_destroy(&controls);
    }
    mem_set_fault(NULL);
    toy_engine(&toy);
    toy.engine.facts.vocab = 0;
    assert_ok(token_controls_create(&toy.engine, ENGINE_TOKEN_CONTROL, &controls));
    assert_int_equal(token_controls_count(controls), 0);
    token_controls_destroy(&controls);
}

TEST_SUITE(TEST(test_what_can_be_cut), TEST(test_finds_the_first_and_longest), TEST(test_no_memory))

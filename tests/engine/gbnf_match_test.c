
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <llama.h>

#include "base/buf.h"
#include "base/mem.h"
#include "engine/engine_llama.h"
#include "engine/gbnf.h"
#include "engine/grammar.h"
#include "support/models.h"
#include "support/test.h"

struct run {
    struct gbnf *program;
    struct gbnf_match *match;
};

static struct run begin(const char *text)
{
    struct errinfo info = {0};
    struct run run;

    if (gbnf_create(&run.program, text, "root", &info) != ERR_OK ||
        gbnf_match_create(&run.match, run.program, &info) != ERR_OK)
        fail_msg("%s\n%s", text, info.text);
    return run;
}

static void end(struct run *run)
{
    gbnf_match_destroy(&run->match);
    gbnf_destroy(&run->program);
}

/* ---- against the inference library ---- */

static bool library_allows(struct llama_sampler *sampler, token_id token)
{
    struct llama_token_data one = {.id = token};
    struct llama_token_data_array array = {.data = &one, .size = 1, .selected = -1};

    llama_sampler_apply(sampler, &array);
    return one.logit == 0.0f;
}

/* One of those whose text the grammars are about. */
static token_id token_named(const struct engine *engine, uint64_t *seed)
{
    static const char *const texts[] = {"a", "b", "e", "re", "ab"};
    struct str text = str_from(texts[test_random_below(seed, COUNT_OF(texts))]);
    char bytes[4];

    for (token_id token = 0; engine_token_valid(engine, token); token++) {
        size_t len = engine_token_bytes(engine, token, true, bytes, sizeof(bytes));
        if (len == text.len && memcmp(bytes, text.ptr, len) == 0)
            return token;
    }
    return 1;
}

/* A reference goes to the next rule: with ambiguous recursion the library would be busy for ever.
 */
static void random_grammar(const struct engine *engine, uint64_t *seed, struct buf *out)
{
    static const char *const parts[] = {"\"a\"",   "\"ab\"",     "[ab]",   "[^a ]", ".",
                                        "\"re\"?", "[a-e]{1,3}", "\"t\"*", "\"\""};
    enum { RULES = 3 };

    for (unsigned r = 0; r < RULES; r++) {
        buf_appendf(out, r == 0 ? "root ::= " : "r%u ::= ", r);
        for (uint64_t a = 1 + test_random_below(seed, 3); a > 0; a--) {
            buf_append_str(out, parts[test_random_below(seed, 5)]);
            for (uint64_t i = test_random_below(seed, 3); i > 0; i--) {
                uint64_t kind = test_random_below(seed, 6);
                if (kind == 0 && r + 1 < RULES)
                    buf_appendf(out, " r%u", r + 1);
                else if (kind == 1 && r + 1 < RULES)
                    buf_appendf(out, " (r%u | \"b\"){0,2}", r + 1);
                else if (kind == 2)
                    buf_appendf(out, test_random_below(seed, 2) ? " <[%d]>" : " (!<[%d]> | \"a\")",
                                token_named(engine, seed));
                else
                    buf_appendf(out, " %s", parts[test_random_below(seed, COUNT_OF(parts))]);
            }
            buf_append_str(out, a > 1 ? " | " : "\n");
        }
    }
    assert_ok(out->err);
}

/* Only what is UTF-8 by itself, as the library takes forms that are none; and only what is short.
 */
static bool is_simple(const struct engine *engine, token_id token)
{
    char bytes[4];
    size_t len = engine_token_bytes(engine, token, true, bytes, sizeof(bytes));

    for (size_t i = 0; i < len && i < sizeof(bytes); i++)
        if (bytes[i] & 0x80)
            return false;
    return len <= sizeof(bytes) || engine_token_is_end(engine, token);
}

/* A mask of all tokens is what was said of each of them. */
static void check_mask(const struct engine *engine, struct grammar *grammar, const char *text)
{
    uint32_t vocab = engine_facts(engine)->vocab;
    llama_token_data *data = mem_alloc_array(vocab, sizeof(*data));
    struct llama_token_data_array array = {.data = data, .size = vocab, .selected = -1};

    for (uint32_t i = 0; i < vocab; i++)
        data[i].id = (token_id)i;
    assert_ok(grammar_mask(grammar, &array, NULL));
    for (uint32_t i = 0; i < vocab; i++)
        if ((data[i].logit == 0) != grammar_allows(grammar, data[i].id))
            fail_msg("the mask of token %d is wrong:\n%s", data[i].id, text);
    mem_free(data);
}

/* The library takes a token for one that is named after the first characters of its own text, and
 * then cannot accept it. `loose`: the grammar may have such places. */
static size_t compare(const struct engine *engine, const char *text, bool loose, uint64_t *seed)
{
    struct llama_sampler *sampler =
        llama_sampler_init_grammar(engine_llama_vocab(engine), text, "root");
    struct grammar *grammar;
    struct errinfo info = {0};
    size_t compared = 0;

    assert_non_null(sampler);
    if (grammar_create(&grammar, engine, &(struct sample_params){.grammar = text}, &info) != ERR_OK)
        fail_msg("%s\n%s", text, info.text);
    for (size_t len = 0; len < 6;) {
        token_id chosen = TOKEN_NONE;
        uint64_t count = 0;
        check_mask(engine, grammar, text);
        for (token_id token = 0; engine_token_valid(engine, token); token++) {
            if (!is_simple(engine, token))
                continue;
            bool expected = library_allows(sampler, token),
                 allowed = grammar_allows(grammar, token);
            if (allowed != expected && (allowed || !loose))
                fail_msg("token %d after %zu bytes must %sbe allowed:\n%s", token, len,
                         expected ? "" : "not ", text);
            compared++;
            if (allowed && !engine_token_is_end(engine, token) &&
                test_random_below(seed, ++count) == 0)
                chosen = token;
        }
        if (chosen == TOKEN_NONE)
            break;
        len += engine_token_bytes(engine, chosen, true, NULL, 0);
        llama_sampler_accept(sampler, chosen);
        assert_ok(grammar_accept(grammar, chosen, &info));
    }
    grammar_destroy(&grammar);
    llama_sampler_free(sampler);
    return compared;
}

static const char *const recursive[] = {
    "root ::= v\nv ::= \"[\" (v (\",\" v)*)? \"]\" | \"{\" (s \":\" v)? \"}\" | s | [0-9]+\n"
    "s ::= \"\\\"\" [^\\\"]* \"\\\"\"",
    "root ::= e\ne ::= t ([-+] t)*\nt ::= [a-z]+ | \"(\" e \")\"",
    "root ::= \"a\" root \"b\" | \"c\"",
    "root ::= \"a\" root | \"b\" x\nx ::= \"c\" root | \"\"",
    "root ::= <[70]> root | <[66]>{2} | !<[70]> !<[71]> | [a-c]+ <[65]>",
    "root ::= (!<[66]> | !<[67]>) x\nx ::= !<[66]> (\"b\" | x)?",
};

static void test_equals_the_library(void **state)
{
    struct engine *engine = test_engine("qwen3", NULL);
    uint64_t seed = test_seed();
    size_t compared = 0;

    (void)state;
    for (int round = 0; round < 60; round++) {
        struct buf text;
        buf_init(&text, 4096);
        random_grammar(engine, &seed, &text);
        if (gbnf_check(buf_str(&text), "root", NULL) == ERR_OK) {
            struct llama_sampler *taken =
                llama_sampler_init_grammar(engine_llama_vocab(engine), buf_str(&text), "root");
            if (taken != NULL) /* it refuses repetitions of what may be empty */
                compared +=
                    compare(engine, buf_str(&text), strstr(buf_str(&text), "<[") != NULL, &seed);
            llama_sampler_free(taken);
        }
        buf_fini(&text);
    }
    for (size_t i = 0; i < 4 * COUNT_OF(recursive); i++)
        compared += compare(engine, recursive[i % COUNT_OF(recursive)], false, &seed);
    assert_true(compared > 20000);
    engine_close(&engine);
}

static void commit(struct run *run)
{
    assert_ok(gbnf_match_commit(run->match, NULL));
}

static bool take(struct run *run, const char *text)
{
    if (!gbnf_match_push_text(run->match, str_from(text)))
        return false;
    commit(run);
    return true;
}

/* Token 5 has the text "ab" here. It is read by name, by text, and both ways at once. */
static void test_tokens_by_number(void **state)
{
    static const struct {
        const char *grammar, *rest; /* what may follow token 5 */
        bool allowed;
    } cases[] = {
        {"root ::= <[5]> \"x\"", "x", true},
        {"root ::= <[6]> \"x\"", "x", false},
        {"root ::= !<[6]> \"x\"", "x", true},
        {"root ::= !<[5]> \"x\"", "x", false},
        {"root ::= [a-z] [^a] \"x\" | <[5]> \"y\"", "x", true},
        {"root ::= [a-z] [^a] \"x\" | <[5]> \"y\"", "y", true},
        {"root ::= . \"c\" \"x\" | <[5]> \"y\"", "y", true},
        {"root ::= \"a\" <[5]> \"x\"", "x", false},
        {"root ::= r \"x\"\nr ::= <[5]>? | \"ab\" r", "x", true},
        {"root ::= (<[5]> | <[6]>){1} \"x\"", "x", true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct run run = begin(cases[i].grammar);
        bool good = gbnf_match_push_token(run.match, 5, STR("ab"));
        if (good)
            commit(&run);
        good = good && take(&run, cases[i].rest) && gbnf_match_whole(run.match);
        if (good != cases[i].allowed)
            fail_msg("%s", cases[i].grammar);
        end(&run);
    }
}

/* ---- bounded work ---- */

#define A77 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* Every "a" doubles the ways to go on: a list of whole stacks has 2 to the 76th of them. */
static void test_doubling_readings_cost_little(void **state)
{
    struct run run = begin("root ::= s\ns ::= \"a\" s t | \"a\" s u | \"" A77 "b\"\n"
                           "t ::= \"a\" \"t\"\nu ::= \"a\" \"u\"");

    (void)state;
    assert_true(take(&run, A77 "aaab"));
    assert_true(gbnf_match_steps(run.match) < 50000);
    assert_false(gbnf_match_whole(run.match));
    assert_true(take(&run, "atauat"));
    assert_false(gbnf_match_push(run.match, 'a'));
    assert_true(gbnf_match_whole(run.match));
    end(&run);
}

/* a?^n a^n, which takes backtracking matchers 2 to the n steps, and lists of stacks n^3. */
static void test_optional_characters_cost_little(void **state)
{
    struct buf text;

    (void)state;
    buf_init(&text, 1 << 16);
    buf_append_str(&text, "root ::= r\nr ::= ");
    for (int i = 0; i < 400; i++)
        buf_append_str(&text, i < 200 ? "\"a\"? " : "\"a\" ");
    struct run run = begin(buf_str(&text));
    for (int i = 0; i < 400; i++) {
        assert_true(take(&run, "a"));
        assert_int_equal(gbnf_match_whole(run.match), i >= 199);
    }
    assert_false(gbnf_match_push(run.match, 'a'));
    assert_true(gbnf_match_steps(run.match) < 400 * 1600);
    end(&run);
    buf_fini(&text);
}

/* A text of `count` times "a"; ends at the first error, which must say what is wrong. */
static uint64_t exhaust(const char *grammar, int count)
{
    struct run run = begin(grammar);
    struct errinfo info = {0};
    uint64_t before = 0, most = 0;
    int i = 0;

    while (i < count && gbnf_match_push(run.match, 'a')) {
        commit(&run);
        most = MAX(most, gbnf_match_steps(run.match) - before);
        before = gbnf_match_steps(run.match);
        i++;
    }
    assert_true(i < count);
    assert_err(gbnf_match_error(run.match, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "too ambiguous"));
    assert_false(gbnf_match_push(run.match, 'a'));
    assert_err(gbnf_match_commit(run.match, &info), ERR_INVALID);
    end(&run);
    return most;
}

/* What is more than linear even here ends with an error, and no single token takes more than it
 * may. */
static void test_what_is_too_ambiguous_is_an_error(void **state)
{
    (void)state;
    assert_true(exhaust("root ::= s\ns ::= \"a\" | \"a\" s | \"a\" s s | \"a\" s s s", 5000) <
                GBNF_WORK_MAX);
}

/* A search that is too long is given up; the match goes on. */
static void test_a_search_is_given_up(void **state)
{
    struct run run = begin("root ::= s\ns ::= \"a\" | \"a\" s | \"a\" s s | \"a\" s s s");

    (void)state;
    assert_true(take(&run, "aa"));
    gbnf_match_search(run.match);
    while (gbnf_match_push(run.match, 'a'))
        ;
    assert_true(gbnf_match_search_end(run.match));
    assert_true(gbnf_match_steps(run.match) < GBNF_WORK_MAX / 2 + 65536);
    assert_true(take(&run, "aa"));
    gbnf_match_search(run.match);
    assert_true(gbnf_match_push(run.match, 'a'));
    assert_false(gbnf_match_search_end(run.match));
    end(&run);
}

/* Frames that are left behind are collected: a long list needs no more than a short one. */
static void test_long_texts_need_no_memory(void **state)
{
    struct run run = begin("root ::= item (\",\" item)*\nitem ::= \"[\" item* \"]\" | n\n"
                           "n ::= [0-9] n | x\nx ::= \"x\" y\ny ::= \"y\"");
    atomic_llong bytes = 0;

    (void)state;
    mem_set_account(&bytes);
    for (int i = 0; i < 4000; i++)
        assert_true(take(&run, "[12xy[3xy4xy]],"));
    mem_set_account(NULL);
    assert_true(atomic_load(&bytes) < 1 << 20);
    assert_true(take(&run, "xy"));
    assert_true(gbnf_match_whole(run.match));
    end(&run);
}

static void test_levels_go_back(void **state)
{
    struct run run = begin("root ::= (\"(\" root \")\")* | [^a] \"\xC3\xA9\"");

    (void)state;
    assert_true(gbnf_match_push_text(run.match, STR("(()(")));
    assert_false(gbnf_match_push_text(run.match, STR(")))")));
    gbnf_match_pop(run.match, 3);
    assert_true(gbnf_match_push_text(run.match, STR(")")));
    assert_true(gbnf_match_whole(run.match));
    gbnf_match_pop(run.match, 0);
    assert_true(gbnf_match_push_text(run.match, STR("\xE2\x82")));
    assert_false(gbnf_match_push(run.match, 'a'));
    assert_true(gbnf_match_push_text(run.match, STR("\xAC\xC3")));
    assert_false(gbnf_match_push(run.match, 0xAA));
    assert_true(gbnf_match_push(run.match, 0xA9));
    assert_true(gbnf_match_whole(run.match));
    gbnf_match_pop(run.match, 0);
    assert_false(gbnf_match_push_text(run.match, STR("\xE0\x80")));     /* too long a form */
    assert_false(gbnf_match_push_text(run.match, STR("\xED\xA0\x80"))); /* half of a pair */
    end(&run);
}

static void test_survives_every_failed_allocation(void **state)
{
    struct fault fault = {0};

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct gbnf *program;
        struct gbnf_match *match = NULL;
        struct errinfo info = {0};
        enum err err = gbnf_create(
            &program, "root ::= s\ns ::= \"a\" s \"b\" | <[7]> s \"c\" | \"a\"", "root", &info);
        if (err == ERR_OK)
            err = gbnf_match_create(&match, program, &info);
        for (int i = 0; i < 3000 && err == ERR_OK; i++)
            err = gbnf_match_push_token(match, 7, STR("a")) ? gbnf_match_commit(match, &info)
                                                            : gbnf_match_error(match, &info);
        if (err != ERR_OK)
            assert_err(err, ERR_NOMEM);
        gbnf_match_destroy(&match);
        gbnf_destroy(&program);
    }
    mem_set_fault(NULL);
}

TEST_SUITE(TEST(test_equals_the_library), TEST(test_tokens_by_number),
           TEST(test_doubling_readings_cost_little), TEST(test_optional_characters_cost_little),
           TEST(test_what_is_too_ambiguous_is_an_error), TEST(test_a_search_is_given_up),
           TEST(test_long_texts_need_no_memory), TEST(test_levels_go_back),
           TEST(test_survives_every_failed_allocation))

#include "engine/grammar.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <llama.h>

#include "base/buf.h"
#include "base/mem.h"
#include "engine/engine_ops.h"
#include "support/models.h"
#include "support/test.h"

enum { PIECE_MAX = 64 };

static struct grammar *create(const struct engine *engine, const struct sample_params *options)
{
    struct errinfo info = {0};
    struct grammar *grammar = NULL;

    if (grammar_create(&grammar, engine, options, &info) != ERR_OK)
        fail_msg("%s", info.text);
    return grammar;
}

static struct str piece_of(const struct engine *engine, token_id token, char piece[PIECE_MAX])
{
    size_t len = engine_token_bytes(engine, token, true, piece, PIECE_MAX);

    assert_true(len <= PIECE_MAX);
    return (struct str){piece, len};
}

/* The token that is exactly this text. */
static token_id token_of(const struct engine *engine, struct str text)
{
    char piece[PIECE_MAX];

    for (token_id token = 0; engine_token_valid(engine, token); token++)
        if (str_eq(piece_of(engine, token, piece), text))
            return token;
    fail_msg("no token is '" STR_FMT "'", STR_ARG(text));
    return TOKEN_NONE;
}

static void accept_bytes(const struct engine *engine, struct grammar *grammar, const char *text)
{
    for (; *text != '\0'; text++) {
        token_id token = token_of(engine, (struct str){text, 1});
        assert_true(grammar_allows(grammar, token));
        assert_ok(grammar_accept(grammar, token, NULL));
    }
}

/* ---- what is allowed ---- */

/* Whether a text can be completed to one of the language, and whether it is one of it. */
typedef bool (*may_begin_fn)(struct str text, bool *whole);

static bool begins_fixed(struct str text, struct str whole_text, bool *whole)
{
    *whole = str_eq(text, whole_text);
    return text.len <= whole_text.len && memcmp(text.ptr, whole_text.ptr, text.len) == 0;
}

static bool begins_greeting(struct str text, bool *whole)
{
    return begins_fixed(text, STR("return the value, in the end"), whole);
}

/* é € U+1F4A9: its tokens are parts of characters. */
static bool begins_characters(struct str text, bool *whole)
{
    return begins_fixed(text, STR("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x92\xA9"), whole);
}

/* [a-e]{2,5} ( "!" | "?" [0-9] )* */
static bool begins_mixed(struct str text, bool *whole)
{
    size_t letters = 0, at;

    while (letters < text.len && text.ptr[letters] >= 'a' && text.ptr[letters] <= 'e')
        letters++;
    *whole = letters >= 2 && letters <= 5;
    for (at = letters; at < text.len; at++) {
        bool digit = text.ptr[at] >= '0' && text.ptr[at] <= '9';
        bool after = at > letters && text.ptr[at - 1] == '?';
        if (after ? !digit : text.ptr[at] != '!' && text.ptr[at] != '?')
            return false;
        *whole = letters >= 2 && text.ptr[at] != '?';
    }
    return letters <= 5 && (letters >= 2 || at == letters);
}

static const struct {
    const char *gbnf;
    may_begin_fn may_begin;
} languages[] = {
    {"root ::= \"return the value, in the end\"", begins_greeting},
    {"root ::= \"\xC3\xA9\xE2\x82\xAC\\U0001F4A9\"", begins_characters},
    {"root ::= [a-e]{2,5} tail*\ntail ::= \"!\" | \"?\" [0-9]", begins_mixed},
};

/* At each step every token of the vocabulary is asked about; then one of those that are allowed
 * comes. */
static void follow(const struct engine *engine, struct grammar *grammar, may_begin_fn may_begin,
                   uint64_t *seed)
{
    char text[256];
    size_t len = 0;

    for (int step = 0; step < 30; step++) {
        token_id chosen = TOKEN_NONE;
        uint64_t allowed_count = 0;
        bool whole, unused, complete = may_begin((struct str){text, len}, &whole) && whole;
        for (token_id token = 0; engine_token_valid(engine, token); token++) {
            struct str piece = piece_of(engine, token, text + len);
            bool allowed = engine_token_is_end(engine, token)
                               ? complete
                               : piece.len > 0 && piece.ptr[0] != '\0' &&
                                     may_begin((struct str){text, len + piece.len}, &unused);
            if (grammar_allows(grammar, token) != allowed)
                fail_msg("after '%.*s' token %d '" STR_FMT "' must %sbe allowed", (int)len, text,
                         token, STR_ARG(piece), allowed ? "" : "not ");
            if (allowed && test_random_below(seed, ++allowed_count) == 0)
                chosen = token;
        }
        assert_int_not_equal(chosen, TOKEN_NONE);
        assert_ok(grammar_accept(grammar, chosen, NULL));
        if (engine_token_is_end(engine, chosen))
            return;
        len += piece_of(engine, chosen, text + len).len;
    }
}

static void test_allows_exactly_its_language(void **state)
{
    uint64_t seed = test_seed();
    struct engine *engine = test_engine("qwen3", NULL);

    (void)state;
    for (size_t i = 0; i < COUNT_OF(languages); i++) {
        for (int round = 0; round < 5; round++) {
            struct grammar *grammar =
                create(engine, &(struct sample_params){.grammar = languages[i].gbnf});
            follow(engine, grammar, languages[i].may_begin, &seed);
            grammar_destroy(&grammar);
        }
    }
    engine_close(&engine);
}

static void test_mask_equals_allows(void **state)
{
    struct engine *engine = test_engine("qwen3", NULL);
    uint32_t vocab = engine_facts(engine)->vocab;
    struct grammar *grammar = create(engine, &(struct sample_params){.grammar = languages[2].gbnf});
    struct llama_token_data *data = mem_alloc_array(vocab, sizeof(*data));
    size_t allowed = 0;

    (void)state;
    accept_bytes(engine, grammar, "abc");
    for (uint32_t i = 0; i < vocab; i++)
        data[i] = (struct llama_token_data){.id = (token_id)i, .logit = (float)i};
    struct llama_token_data_array array = {.data = data, .size = vocab, .selected = -1};
    assert_ok(grammar_mask(grammar, &array, NULL));
    assert_int_equal(array.size, vocab);
    for (uint32_t i = 0; i < vocab; i++) {
        bool is_allowed = grammar_allows(grammar, (token_id)i);
        assert_true(array.data[i].logit == (is_allowed ? (float)i : -INFINITY));
        allowed += is_allowed;
    }
    assert_true(allowed > 5 && allowed < vocab / 2);
    mem_free(data);
    grammar_destroy(&grammar);
    grammar_destroy(&grammar);
    engine_close(&engine);
}

static void test_starts_with_the_rule_root(void **state)
{
    struct engine *engine = test_engine("qwen3", NULL);
    struct grammar *grammar =
        create(engine, &(struct sample_params){.grammar = "other ::= \"b\"\nroot ::= \"a\""});

    (void)state;
    assert_false(grammar_allows(grammar, token_of(engine, STR("b"))));
    assert_true(grammar_allows(grammar, token_of(engine, STR("a"))));
    grammar_destroy(&grammar);
    engine_close(&engine);
}

/* ---- triggers ---- */

static void assert_next(const struct engine *engine, const struct grammar *grammar, char only)
{
    char piece[PIECE_MAX];
    bool any = false;

    for (token_id token = 0; engine_token_valid(engine, token); token++) {
        struct str text = piece_of(engine, token, piece);
        bool fits = text.len == 1 && text.ptr[0] == only;
        any |= fits;
        if (grammar_allows(grammar, token) != fits)
            fail_msg("'" STR_FMT "' must %sbe allowed", STR_ARG(text), fits ? "" : "not ");
    }
    assert_true(any);
}

/* 2,000 ways to go on: a mask of all tokens takes too many steps. The most probable that may come
 * are found one by one, and the grammar goes on. */
static void test_slow_masks_take_the_most_probable(void **state)
{
    struct engine *engine = test_engine("qwen3", NULL);
    uint32_t vocab = engine_facts(engine)->vocab;
    struct llama_token_data *data = mem_alloc_array(vocab, sizeof(*data));
    size_t allowed = 0, refused = 0;
    struct buf text;

    (void)state;
    buf_init(&text, 1 << 20);
    buf_append_str(&text, "root ::= r0");
    for (int i = 1; i < 2000; i++)
        buf_appendf(&text, " | r%d", i);
    for (int i = 0; i < 2000; i++)
        buf_appendf(&text, "\nr%d ::= [^%c]* \"%c\"", i, 'a' + i % 26, 'a' + i % 26);
    struct grammar *grammar = create(engine, &(struct sample_params){.grammar = buf_str(&text)});
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < vocab; i++)
            data[i] = (struct llama_token_data){.id = (token_id)i, .logit = (float)i};
        struct llama_token_data_array array = {.data = data, .size = vocab, .selected = -1};
        assert_ok(grammar_mask(grammar, &array, NULL));
        allowed = 0;
        for (uint32_t i = 0; i < vocab; i++)
            allowed += data[i].logit > -INFINITY;
        assert_true(allowed > 0 && allowed <= 256);
        for (refused = 0; data[refused].logit == -INFINITY; refused++)
            assert_false(grammar_allows(grammar, data[refused].id));
        assert_ok(grammar_accept(grammar, data[refused].id, NULL));
    }
    buf_fini(&text);
    mem_free(data);
    grammar_destroy(&grammar);
    engine_close(&engine);
}

static void test_waits_for_a_trigger_in_pieces(void **state)
{
    static const char *const triggers[] = {"[CALL]", "<tool_call>"};
    struct engine *engine = test_engine("qwen3", NULL);
    struct sample_params options = {.grammar = "root ::= (\"<tool_call>\" | \"[CALL]\") \"Z\"",
                                    .grammar_triggers = triggers,
                                    .grammar_triggers_count = 2};
    struct grammar *grammar = create(engine, &options);
    struct llama_token_data one = {.id = token_of(engine, STR("a")), .logit = 7};
    struct llama_token_data_array array = {.data = &one, .size = 1, .selected = -1};

    (void)state;
    assert_ok(grammar_mask(grammar, &array, NULL));
    assert_true(one.logit == 7);
    accept_bytes(engine, grammar, "[CALL [CAL] <tool_cal> anything <<tool_call");
    accept_bytes(engine, grammar, ">");
    assert_next(engine, grammar, 'Z');
    grammar_destroy(&grammar);

    grammar = create(engine, &options);
    accept_bytes(engine, grammar, "and now: [CALL]");
    assert_next(engine, grammar, 'Z');
    grammar_destroy(&grammar);

    grammar = create(engine, &options); /* in one token */
    assert_ok(grammar_accept(grammar, token_of(engine, STR("<tool_call>")), NULL));
    assert_next(engine, grammar, 'Z');
    grammar_destroy(&grammar);
    engine_close(&engine);
}

/* A long answer before the call costs no memory, and no token more time than the one before. */
static void test_waits_for_long(void **state)
{
    static const char *const triggers[] = {"xyz"};
    struct engine *engine = test_engine("qwen3", NULL);
    struct sample_params options = {
        .grammar = "root ::= \"xyzZ\"", .grammar_triggers = triggers, .grammar_triggers_count = 1};
    struct grammar *grammar = create(engine, &options);
    token_id x = token_of(engine, STR("x")), y = token_of(engine, STR("y"));

    (void)state;
    for (int i = 0; i < 100000; i++)
        assert_ok(grammar_accept(grammar, i % 2 ? x : y, NULL));
    accept_bytes(engine, grammar, "yz");
    assert_next(engine, grammar, 'Z');
    grammar_destroy(&grammar);
    engine_close(&engine);
}

#define LONG_TRIGGER "a longer trigger, so that much of the text is looked at again"

/* A token that completes a trigger may bring more text with it. */
static void test_reads_what_comes_with_the_trigger(void **state)
{
    static const char *const triggers[] = {"<tool", LONG_TRIGGER};
    struct engine *engine = test_engine("qwen3", NULL);
    token_id marker = token_of(engine, STR("<tool_call>"));
    struct sample_params options = {.grammar = "root ::= \"<tool_call>Z\"",
                                    .grammar_triggers = triggers,
                                    .grammar_triggers_count = 1};
    struct grammar *grammar = create(engine, &options);

    (void)state;
    accept_bytes(engine, grammar, "some <to");
    assert_ok(grammar_accept(grammar, marker, NULL));
    assert_next(engine, grammar, 'Z');
    grammar_destroy(&grammar);

    /* Refused: it waits on, and what was refused does not hide what comes later. */
    options.grammar = "root ::= \"<tool\" \"Z\" | \"" LONG_TRIGGER "\"";
    options.grammar_triggers_count = 2;
    grammar = create(engine, &options);
    assert_ok(grammar_accept(grammar, marker, NULL));
    accept_bytes(engine, grammar, "Z <tool");
    assert_next(engine, grammar, 'Z');
    grammar_destroy(&grammar);
    engine_close(&engine);
}

/* A thought may quote a trigger; as a token of its own it is one. */
static void test_a_quoted_trigger_in_a_thought_is_none(void **state)
{
    static const char *const triggers[] = {"<tool_call>"};
    struct engine *engine = test_engine("qwen3", NULL);
    struct sample_params options = {.grammar = "root ::= \"<tool_call>Z\"",
                                    .grammar_triggers = triggers,
                                    .grammar_triggers_count = 1,
                                    .grammar_thought_open = "[THINK]",
                                    .grammar_thought_close = "[/THINK]"};
    struct llama_token_data one = {.id = token_of(engine, STR("a")), .logit = 7};
    struct llama_token_data_array array = {.data = &one, .size = 1, .selected = -1};

    (void)state;
    for (int open = 0; open < 2; open++) {
        options.grammar_in_thought = open;
        struct grammar *grammar = create(engine, &options);
        accept_bytes(engine, grammar, open ? "" : "[THINK]");
        accept_bytes(engine, grammar, "I could write <tool_call> here, or <tool_call");
        assert_ok(grammar_mask(grammar, &array, NULL));
        assert_true(one.logit == 7); /* it still waits */
        accept_bytes(engine, grammar, "[/THINK]>Now: <tool_call>");
        assert_next(engine, grammar, 'Z');
        grammar_destroy(&grammar);

        grammar = create(engine, &options); /* a thought that was not closed */
        accept_bytes(engine, grammar, open ? "so" : "[THINK]so");
        assert_ok(grammar_accept(grammar, token_of(engine, STR("<tool_call>")), NULL));
        assert_next(engine, grammar, 'Z');
        grammar_destroy(&grammar);
    }
    engine_close(&engine);
}

/* Text from the beginning, or from after a thought, is the grammar's only if it reaches the point. */
static void test_starts_at_its_point(void **state)
{
    static const char *const others[] = {"{\"name\": \"Ann\", \"p\": 1}",
                                         "I say {\"name\": \"f\", \"p\": ", "{",
                                         "{\"name\": \"f\", \"q\": "};
    struct engine *engine = test_engine("qwen3", NULL);
    struct sample_params options = {
        .grammar = "root ::= \"\\n\"? \"{\\\"name\\\": \\\"f\\\", \\\"p\\\": Z\"",
        .grammar_point = "\"p\"",
        .grammar_thought_open = "[THINK]",
        .grammar_thought_close = "[/THINK]"};
    struct llama_token_data one = {.id = token_of(engine, STR("a")), .logit = 7};
    struct llama_token_data_array array = {.data = &one, .size = 1, .selected = -1};

    (void)state;
    for (int thought = 0; thought < 3; thought++) {
        options.grammar_in_thought = thought == 1;
        struct grammar *grammar = create(engine, &options);
        accept_bytes(engine, grammar,
                     (const char *[]){"", "so {\"name\": \"f\", \"p\": [/THINK]",
                                      "[THINK]so[/THINK]"}[thought]);
        accept_bytes(engine, grammar, "\n{\"name\": \"f\", \"p\"");
        accept_bytes(engine, grammar, ": ");
        assert_next(engine, grammar, 'Z');
        grammar_destroy(&grammar);
    }
    options.grammar_in_thought = false;
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        struct grammar *grammar = create(engine, &options);
        accept_bytes(engine, grammar, others[i]);
        assert_ok(grammar_mask(grammar, &array, NULL));
        assert_true(one.logit == 7); /* it still waits */
        grammar_destroy(&grammar);
    }
    engine_close(&engine);
}

/* No tokenizer spells half a character; the vocabulary does. */
static void test_a_trigger_may_be_part_of_a_character(void **state)
{
    static const char *const triggers[] = {"\xC3"};
    struct engine *engine = test_engine("qwen3", NULL);
    struct sample_params options = {.grammar = "root ::= \"\xC3\xA9Z\"",
                                    .grammar_triggers = triggers,
                                    .grammar_triggers_count = 1};
    struct grammar *grammar = create(engine, &options);

    (void)state;
    accept_bytes(engine, grammar, "caf\xC3");
    assert_next(engine, grammar, '\xA9');
    accept_bytes(engine, grammar, "\xA9");
    assert_next(engine, grammar, 'Z');
    grammar_destroy(&grammar);
    engine_close(&engine);
}

/* ---- what is refused ---- */

static void assert_refused(const struct engine *engine, const struct sample_params *options,
                           enum err expected, const char *words)
{
    struct errinfo info = {0};
    struct grammar *grammar = (struct grammar *)&info;

    assert_err(grammar_create(&grammar, engine, options, &info), expected);
    assert_null(grammar);
    if (strstr(info.text, words) == NULL)
        fail_msg("'%s' has no '%s'", info.text, words);
}

static void test_refusals_say_why(void **state)
{
    static const char *const wrong[] = {"no"}, *const empty[] = {""};
    static char too_long[GRAMMAR_TRIGGER_BYTES_MAX + 2];
    const char *const long_trigger[] = {too_long};
    const char *many[GRAMMAR_TRIGGERS_MAX + 1];
    struct engine *engine = test_engine("qwen3", NULL);
    struct sample_params options = {.grammar = "root ::= \"a\" *\nroot = x"};

    (void)state;
    assert_refused(engine, &options, ERR_INVALID, "line 2, column 6");
    options.grammar = "root ::= a\na ::= a \"b\" | \"c\"";
    assert_refused(engine, &options, ERR_INVALID, "left recursion");

    options.grammar = "root ::= \"a\"{200}";
    options.grammar_triggers = wrong;
    options.grammar_triggers_count = 1;
    assert_refused(engine, &options, ERR_INVALID, "trigger 'no'");
    options.grammar_triggers = empty;
    assert_refused(engine, &options, ERR_INVALID, "1 to 128 bytes");
    memset(too_long, 'a', sizeof(too_long) - 1);
    options.grammar_triggers = long_trigger;
    assert_refused(engine, &options, ERR_INVALID, "1 to 128 bytes");
    for (size_t i = 0; i < COUNT_OF(many); i++)
        many[i] = "a";
    options.grammar_triggers = many;
    options.grammar_triggers_count = COUNT_OF(many);
    assert_refused(engine, &options, ERR_LIMIT, "more than 32");
    engine_close(&engine);
}

static void test_survives_every_failed_allocation(void **state)
{
    static const char *const triggers[] = {"<tool_call>"};
    struct engine *engine = test_engine("qwen3", NULL);
    struct sample_params options = {.grammar = "root ::= \"<tool_call>Z\"",
                                    .grammar_triggers = triggers,
                                    .grammar_triggers_count = 1};
    struct fault fault = {0};

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct grammar *grammar = NULL;
        struct errinfo info = {0};
        enum err err = grammar_create(&grammar, engine, &options, &info);
        if (err != ERR_OK) {
            assert_err(err, ERR_NOMEM);
            assert_null(grammar);
        }
        grammar_destroy(&grammar);
    }
    mem_set_fault(NULL);
    engine_close(&engine);
}

TEST_SUITE(TEST(test_allows_exactly_its_language), TEST(test_mask_equals_allows),
           TEST(test_starts_with_the_rule_root), TEST(test_slow_masks_take_the_most_probable),
           TEST(test_waits_for_a_trigger_in_pieces), TEST(test_waits_for_long),
           TEST(test_reads_what_comes_with_the_trigger),
           TEST(test_a_quoted_trigger_in_a_thought_is_none), TEST(test_starts_at_its_point),
           TEST(test_a_trigger_may_be_part_of_a_character), TEST(test_refusals_say_why),
           TEST(test_survives_every_failed_allocation))

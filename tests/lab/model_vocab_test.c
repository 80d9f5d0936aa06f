#include "lab/model_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/engine.h"
#include "lab/model_make.h"
#include "support/test.h"

enum { TOKENS_MAX = 4096, FIRST_MERGE = 256, FIRST_SPECIAL = 768 };

static token_id tokens[TOKENS_MAX];

static struct engine *load(void)
{
    char path[512];
    struct engine *engine;

    snprintf(path, sizeof(path), "%s/vocab.gguf", test_dir());
    struct model_make_options make = {
        .family = "llama",
        .out = path,
        .shape = {.layers = 1, .width = 32, .ff = 32, .heads = 1, .vocab = 800}};
    struct engine_options options = {
        .path = path, .context = 64, .sequences = 1, .threads = 1, .chunk = 32};
    assert_ok(model_make(&make, NULL));
    assert_ok(engine_load(&engine, &options, NULL));
    return engine;
}

static size_t tokenize(struct engine *engine, struct str text, unsigned flags)
{
    size_t count;

    assert_ok(engine_tokenize(engine, text, flags, tokens, TOKENS_MAX, &count, NULL));
    return count;
}

static void assert_round_trip(struct engine *engine, struct str text)
{
    size_t count = tokenize(engine, text, 0), len = 0;
    char out[TOKENS_MAX];

    for (size_t i = 0; i < count; i++)
        len += engine_token_bytes(engine, tokens[i], false, out + len, sizeof(out) - len);
    assert_int_equal(len, text.len);
    assert_memory_equal(out, text.ptr, len);
}

/* A vocabulary with room for them has tokens for filling in the middle. */
static void test_fim(void **state)
{
    struct engine *engine = load();
    const struct engine_facts *facts = engine_facts(engine);

    (void)state;
    assert_true(engine_has_fim(facts));
    assert_int_equal(facts->fim.prefix, 777);
    assert_int_equal(facts->fim.middle, 779);
    assert_true(facts->fim.repo == TOKEN_NONE && facts->fim.file == TOKEN_NONE);
    engine_close(&engine);
}

static void test_any_text_survives(void **state)
{
    uint64_t seed = test_seed();
    struct engine *engine = load();
    char text[256];

    (void)state;
    assert_round_trip(engine, STR("The file does not exist.\n\n\tint main(void) { return 0; }\n"));
    assert_round_trip(engine, STR("Gr\xC3\xBC\xC3\x9F"
                                  "e, \xE4\xB8\xAD\xE6\x96\x87, \xF0\x9F\x94\xA5 and 12345"));
    for (int round = 0; round < 200; round++) {
        size_t len = 1 + test_random_below(&seed, sizeof(text) - 1);
        for (size_t i = 0; i < len; i++)
            text[i] = (char)(1 + test_random_below(&seed, 127)); /* any ASCII */
        assert_round_trip(engine, (struct str){text, len});
    }
    engine_close(&engine);
}

static void test_bytes_are_their_own_tokens(void **state)
{
    struct engine *engine = load();

    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        char out[8] = {0};
        assert_int_equal(engine_token_bytes(engine, byte, false, out, sizeof(out)), 1);
        assert_int_equal((unsigned char)out[0], byte);
    }
    engine_close(&engine);
}

static void test_merges_shorten_text(void **state)
{
    struct engine *engine = load();
    const struct str text =
        STR("If the value of this argument is given, the function returns the name of the file "
            "and the default number of bytes.");
    size_t whole = 0;

    (void)state;
    assert_true(tokenize(engine, text, 0) * 3 < text.len);
    /* Nearly every piece is what its own text becomes; a few are cut by the pre-tokenizer or
     * reached another way. */
    for (token_id t = FIRST_MERGE; t < FIRST_SPECIAL; t++) {
        char out[32];
        size_t len = engine_token_bytes(engine, t, false, out, sizeof(out));
        assert_true(len >= 2 && len <= sizeof(out));
        whole += tokenize(engine, (struct str){out, len}, 0) == 1 && tokens[0] == t;
    }
    assert_true(whole > (FIRST_SPECIAL - FIRST_MERGE) * 95 / 100);
    engine_close(&engine);
}

static void test_control_tokens(void **state)
{
    static const char *const names[] = {"<|endoftext|>",    "<|im_start|>", "<|im_end|>",
                                        "<tool_call>",      "</tool_call>", "<tool_response>",
                                        "</tool_response>", "<think>",      "</think>"};
    struct engine *engine = load();

    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_int_equal(tokenize(engine, str_from(names[i]), ENGINE_TOKENIZE_CONTROL), 1);
        assert_int_equal(tokens[0], FIRST_SPECIAL + (token_id)i);
    }
    assert_true(tokenize(engine, STR("<|im_end|>"), 0) > 1);
    assert_int_equal(engine_facts(engine)->eos, FIRST_SPECIAL + 2);
    assert_true(engine_token_is_end(engine, FIRST_SPECIAL + 2));
    assert_true(engine_token_is_end(engine, FIRST_SPECIAL));
    assert_false(engine_token_is_end(engine, FIRST_SPECIAL + 3));
    assert_false(engine_facts(engine)->add_bos);
    assert_int_equal(engine_facts(engine)->vocab, 800);
    assert_int_equal(model_vocab_min(), FIRST_SPECIAL + COUNT_OF(names));
    engine_close(&engine);
}

static void test_speech(void **state)
{
    (void)state;
    assert_int_equal(model_vocab_speech('\n'), MODEL_SPEECH_SELDOM);
    assert_int_equal(model_vocab_speech('a'), MODEL_SPEECH_SELDOM);
    assert_int_equal(model_vocab_speech('\t'), MODEL_SPEECH_NEVER);
    assert_int_equal(model_vocab_speech(0), MODEL_SPEECH_NEVER);
    assert_int_equal(model_vocab_speech(0x80), MODEL_SPEECH_NEVER);
    assert_int_equal(model_vocab_speech(FIRST_MERGE), MODEL_SPEECH_SELDOM);    /* " t" */
    assert_int_equal(model_vocab_speech(FIRST_MERGE + 6), MODEL_SPEECH_OFTEN); /* " the" */
    assert_int_equal(model_vocab_speech(FIRST_SPECIAL + 1), MODEL_SPEECH_NEVER);
    assert_int_equal(model_vocab_speech(FIRST_SPECIAL + 2), MODEL_SPEECH_SELDOM);
    assert_int_equal(model_vocab_speech(5000), MODEL_SPEECH_NEVER);
}

/* That it renders as meant is for the suite of our Jinja; here: that it has what it promises. */
static void test_template_has_all_parts(void **state)
{
    static const char *const parts[] = {
        "tools",   "tool_calls",      "<tool_call>",           "<tool_response>",
        "<think>", "enable_thinking", "add_generation_prompt", "reasoning_content"};
    const char *text = model_vocab_chat_template();
    int depth = 0;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        assert_non_null(strstr(text, parts[i]));
    for (const char *c = text; (c = strstr(c, "{%- ")) != NULL; c++) {
        depth += !strncmp(c, "{%- if ", 7) || !strncmp(c, "{%- for ", 8) ||
                 !strncmp(c, "{%- macro ", 10);
        depth -= !strncmp(c, "{%- end", 7);
        assert_true(depth >= 0);
    }
    assert_int_equal(depth, 0);
}

TEST_SUITE(TEST(test_fim), TEST(test_any_text_survives), TEST(test_bytes_are_their_own_tokens),
           TEST(test_merges_shorten_text), TEST(test_control_tokens), TEST(test_speech),
           TEST(test_template_has_all_parts))

/*
 * Pieces against libllama on vocabularies that made models do not have: SentencePiece, with and
 * without a blank before each piece, with control tokens that take white space (the library gives
 * them that by the model's name), that begin each other, and with markers made of white space. Only
 * the vocabulary is loaded.
 */
#include "chat/tokens.h"

#include <stdio.h>
#include <string.h>

#include <gguf.h>
#include <llama.h>

#include "base/buf.h"
#include "base/mem.h"
#include "engine/engine_llama.h"
#include "engine/engine_ops.h"
#include "lab/model_impl.h"
#include "support/test.h"

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_MARKER = 4, TYPE_BYTE = 6 };
enum { BYTES = 256, TEXT_MAX = 512, ROUNDS = 3000, WORD_ROUNDS = 600 };

struct special {
    const char *text;
    int type;
};

static const struct special specials[] = {
    {"<unk>", TYPE_UNKNOWN},         {"<s>", TYPE_CONTROL},     {"</s>", TYPE_CONTROL},
    {"<|user|>", TYPE_CONTROL},      {"<|end|>", TYPE_CONTROL}, {"<|assistant|>", TYPE_CONTROL},
    {"<|endoftext|>", TYPE_CONTROL}, {"<think>", TYPE_MARKER},  {"<|end", TYPE_CONTROL},
    {"[INST]", TYPE_CONTROL},        {"user|>", TYPE_MARKER},   {"  ", TYPE_MARKER},
    {"\n\n", TYPE_MARKER},
};

/* As SentencePiece writes blanks. */
#define BLANK "\xe2\x96\x81"
static const char *const pieces[] = {
    BLANK "t", "he",  "in",         "re", "on",   BLANK "the", BLANK BLANK, "er", BLANK "a", "th",
    "fire",    "fi",  BLANK "fire", "us", "user", "\n",        "as",        "st", "an",      "ab",
    "ba",      "aba", BLANK,        "a",  "b",    "t",         "h",         "e",  "i",       "n",
    "r",       "o",   "f",          "u",  "s",    "<",         "|",         ">",  "x",
};

struct vocab_kind {
    const char *name; /* of the model */
    size_t specials;
    bool space_prefix;
};

static void set_tokens(struct gguf_context *gguf, size_t special_count)
{
    static char bytes[BYTES][8];
    const char *texts[COUNT_OF(specials) + BYTES + COUNT_OF(pieces)];
    float scores[COUNT_OF(texts)] = {0};
    int32_t types[COUNT_OF(texts)];
    size_t n = 0;

    for (size_t i = 0; i < special_count; i++, n++) {
        texts[n] = specials[i].text;
        types[n] = specials[i].type;
    }
    for (size_t i = 0; i < BYTES; i++, n++) {
        snprintf(bytes[i], sizeof(bytes[i]), "<0x%02X>", (unsigned)i);
        texts[n] = bytes[i];
        types[n] = TYPE_BYTE;
    }
    for (size_t i = 0; i < COUNT_OF(pieces); i++, n++) {
        texts[n] = pieces[i];
        types[n] = TYPE_NORMAL;
        scores[n] = -1.0f - (float)i;
    }
    gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", texts, n);
    gguf_set_arr_data(gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores, n);
    gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types, n);
}

/* NULL: the library does not know this tokenizer. */
static struct llama_model *load_file(struct gguf_context *gguf)
{
    struct llama_model_params params = llama_model_default_params();
    char path[1024];

    gguf_set_val_str(gguf, "general.architecture", "llama");
    gguf_set_val_u32(gguf, "llama.context_length", 128);
    gguf_set_val_u32(gguf, "llama.embedding_length", 64);
    gguf_set_val_u32(gguf, "llama.block_count", 1);
    gguf_set_val_u32(gguf, "llama.feed_forward_length", 64);
    gguf_set_val_u32(gguf, "llama.attention.head_count", 4);
    gguf_set_val_f32(gguf, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    snprintf(path, sizeof(path), "%s/vocab.gguf", test_dir());
    assert_true(gguf_write_to_file(gguf, path, true));
    gguf_free(gguf);
    params.vocab_only = true;
    return llama_model_load_from_file(path, params);
}

static struct llama_model *load(const struct vocab_kind *kind)
{
    struct gguf_context *gguf = gguf_init_empty();

    gguf_set_val_str(gguf, "general.name", kind->name);
    gguf_set_val_str(gguf, "tokenizer.ggml.model", "llama");
    gguf_set_val_u32(gguf, "tokenizer.ggml.unknown_token_id", 0);
    gguf_set_val_u32(gguf, "tokenizer.ggml.bos_token_id", 1);
    gguf_set_val_u32(gguf, "tokenizer.ggml.eos_token_id", 2);
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_space_prefix", kind->space_prefix);
    set_tokens(gguf, kind->specials);
    struct llama_model *model = load_file(gguf);
    assert_non_null(model);
    return model;
}

/* The vocabulary of made models with another way to find words. */
static struct llama_model *load_words(const char *pre)
{
    struct gguf_context *gguf = gguf_init_empty();

    gguf_set_val_str(gguf, "general.name", pre);
    assert_ok(model_vocab_set_keys(gguf, model_vocab_min(), NULL));
    gguf_set_val_str(gguf, "tokenizer.ggml.pre", pre);
    return load_file(gguf);
}

/* An engine with a vocabulary and nothing else. */
struct vocab_engine {
    struct engine engine;
    const struct llama_vocab *vocab;
};

static const struct llama_vocab *vocab_of(const struct engine *engine)
{
    return CONTAINER_OF(engine, const struct vocab_engine, engine)->vocab;
}

static enum err tokenize(const struct engine *engine, struct str text, unsigned flags,
                         token_id *out, size_t max, size_t *count)
{
    int32_t n = llama_tokenize(vocab_of(engine), text.ptr, (int32_t)text.len, out, (int32_t)max,
                               false, flags & ENGINE_TOKENIZE_CONTROL);

    *count = (size_t)(n < 0 ? -n : n);
    return ERR_OK;
}

static size_t token_bytes(const struct engine *engine, token_id token, bool control, char *out,
                          size_t size)
{
    int32_t n = llama_token_to_piece(vocab_of(engine), token, out, (int32_t)size, 0, control);

    return (size_t)(n < 0 ? -n : n);
}

/* As engine_llama.c does. */
static unsigned token_traits(const struct engine *engine, token_id token)
{
    unsigned attr = llama_vocab_get_attr(vocab_of(engine), token);

    return (attr & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN) ? ENGINE_TOKEN_CONTROL
                                                                         : 0) |
           (attr & LLAMA_TOKEN_ATTR_USER_DEFINED ? ENGINE_TOKEN_MARKER : 0) |
           (attr & LLAMA_TOKEN_ATTR_LSTRIP ? ENGINE_TOKEN_STRIP_LEFT : 0) |
           (attr & LLAMA_TOKEN_ATTR_RSTRIP ? ENGINE_TOKEN_STRIP_RIGHT : 0);
}

static void random_text(struct buf *out, size_t special_count, uint64_t *random)
{
    static const char *const words[] = {"the", " ",  "  ",       "\n",    "fire", "aba",   "x",
                                        "<",   "|>", "\xc3\xa9", " user", "\n\n", "end|>", "<|"};

    buf_clear(out);
    for (size_t i = test_random_below(random, 14); i > 0; i--)
        buf_append_str(out, test_random_below(random, 2)
                                ? words[test_random_below(random, COUNT_OF(words))]
                                : specials[test_random_below(random, special_count)].text);
}

/* Runs of all that regular expressions of tokenizers tell apart. */
static void random_words(struct buf *out, uint64_t *random)
{
    static const char *const units[] = {
        "a",
        "the",
        "Fire",
        "aaaaaaaaaaaaaaaa",
        " ",
        "  ",
        " a",
        "\n",
        " \n",
        "\t",
        "\r\n",
        "7",
        "1234",
        ".",
        "'s",
        "'LL",
        "don't",
        "!?",
        "_",
        "\xc3\xa9",
        "\xc2\xa0",
        "\xe4\xb8\xad\xe6\x96\x87",
        "\xe3\x80\x82",
        "\xf0\x9f\x98\x80",
        "e\xcc\x81",
        "\xd7\x90",
        "IMGIMGAZ",
        " b c ",
        "<think>",
        "x y",
    };

    buf_clear(out);
    for (size_t i = test_random_below(random, 24); i > 0; i--) {
        const char *unit = units[test_random_below(random, COUNT_OF(units))];
        for (size_t n = test_random_below(random, 8) ? 1 : 1 + test_random_below(random, 5); n > 0;
             n--)
            buf_append_str(out, unit);
    }
}

/* `kind` NULL: a tokenizer with words. */
static size_t try_model(struct llama_model *model, const struct vocab_kind *kind, const char *name,
                        uint64_t *random)
{
    const struct llama_vocab *vocab = llama_model_get_vocab(model);
    static const struct engine_ops ops = {
        .tokenize = tokenize, .token_bytes = token_bytes, .token_traits = token_traits};
    struct vocab_engine engine = {
        .engine = {.ops = &ops,
                   .facts = {.vocab = (uint32_t)llama_vocab_n_tokens(vocab),
                             .bos = 1,
                             .words = kind == NULL}},
        .vocab = vocab};
    struct tokens_options options = {.engine = &engine.engine,
                                     .part_bytes = kind == NULL ? 12 : 0,
                                     .part_specials = 1 + test_random_below(random, 2)};
    int32_t expected[2 * TEXT_MAX];
    struct token_prompt prompt;
    struct tokens *tokens;
    struct buf text;
    size_t memo = 0, cuts;

    assert_ok(tokens_create(&options, &tokens, NULL));
    buf_init(&text, TEXT_MAX);
    for (int i = 0; i < (kind != NULL ? ROUNDS : WORD_ROUNDS); i++) {
        if (kind != NULL)
            random_text(&text, kind->specials, random);
        else
            random_words(&text, random);
        struct str whole = {buf_str(&text), text.len};
        int32_t n = llama_tokenize(vocab, whole.ptr, (int32_t)whole.len, expected,
                                   COUNT_OF(expected), false, true);
        assert_ok(tokens_from_string(tokens, NULL, whole, ENGINE_TOKENIZE_CONTROL, &prompt, NULL));
        if (prompt.count != (size_t)n ||
            (n > 0 && memcmp(prompt.tokens, expected, (size_t)n * sizeof(*expected)) != 0))
            fail_msg("%s, %zu special tokens, prefix %d: '%s'", name, kind ? kind->specials : 0,
                     kind && kind->space_prefix, buf_str(&text));
        memo += prompt.memo_tokens;
        token_prompt_fini(&prompt);
    }
    buf_fini(&text);
    cuts = tokens_stats(tokens).parts - tokens_stats(tokens).misses;
    tokens_destroy(&tokens);
    llama_model_free(model);
    return kind != NULL ? memo : cuts;
}

static void log_errors(enum ggml_log_level level, const char *text, void *arg)
{
    (void)arg;
    if (level == GGML_LOG_LEVEL_ERROR)
        print_error("%s", text);
}

static void test_sentence_pieces(void **state)
{
    static const char *const names[] = {"plain", "phi-3-mini"};
    uint64_t random = test_seed();

    (void)state;
    llama_log_set(log_errors, NULL);
    for (size_t name = 0; name < COUNT_OF(names); name++)
        for (size_t count = 8; count <= COUNT_OF(specials); count++)
            for (int prefix = 0; prefix < 2; prefix++) {
                struct vocab_kind kind = {names[name], count, prefix};
                assert_true(try_model(load(&kind), &kind, kind.name, &random) >
                            ROUNDS); /* or nothing was cut or remembered */
            }
}

/* Parts are the whole for every tokenizer of which load_llama.c says so and which this library
 * has. */
static void test_words(void **state)
{
    uint64_t random = test_seed();
    size_t known = 0;

    (void)state;
    llama_log_set(log_errors, NULL);
    for (size_t i = 0; engine_llama_words[i] != NULL; i++) {
        struct llama_model *model = load_words(engine_llama_words[i]);
        if (model == NULL) /* newer than the library */
            continue;
        known++;
        assert_true(try_model(model, NULL, engine_llama_words[i], &random) > WORD_ROUNDS / 10);
    }
    assert_true(known > 10);
}

TEST_SUITE(TEST(test_sentence_pieces), TEST(test_words))

/*
 * Pieces against libllama on vocabularies that made models do not have: SentencePiece, with and without a blank before each piece,
 * with control tokens that take white space (the library gives them that by the model's name), that begin each other, and with
 * markers made of white space. Only the vocabulary is loaded.
 */
#include "prompt/tokens.h"

#include <stdio.h>
#include <string.h>

#include <gguf.h>
#include <llama.h>

#include "base/buf.h"
#include "base/mem.h"
#include "support/test.h"

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_MARKER = 4, TYPE_BYTE = 6 };
enum { BYTES = 256, TEXT_MAX = 512, ROUNDS = 3000 };

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

static struct llama_model *load(const struct vocab_kind *kind)
{
    struct gguf_context *gguf = gguf_init_empty();
    struct llama_model_params params = llama_model_default_params();
    char path[1024];

    gguf_set_val_str(gguf, "general.architecture", "llama");
    gguf_set_val_str(gguf, "general.name", kind->name);
    gguf_set_val_str(gguf, "tokenizer.ggml.model", "llama");
    gguf_set_val_u32(gguf, "tokenizer.ggml.unknown_token_id", 0);
    gguf_set_val_u32(gguf, "tokenizer.ggml.bos_token_id", 1);
    gguf_set_val_u32(gguf, "tokenizer.ggml.eos_token_id", 2);
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_space_prefix", kind->space_prefix);
    gguf_set_val_u32(gguf, "llama.context_length", 128);
    gguf_set_val_u32(gguf, "llama.embedding_length", 64);
    gguf_set_val_u32(gguf, "llama.block_count", 1);
    gguf_set_val_u32(gguf, "llama.feed_forward_length", 64);
    gguf_set_val_u32(gguf, "llama.attention.head_count", 4);
    gguf_set_val_f32(gguf, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    set_tokens(gguf, kind->specials);
    snprintf(path, sizeof(path), "%s/vocab.gguf", test_dir());
    assert_true(gguf_write_to_file(gguf, path, true));
    gguf_free(gguf);
    params.vocab_only = true;
    struct llama_model *model = llama_model_load_from_file(path, params);
    assert_non_null(model);
    return model;
}

static enum err source_tokenize(void *arg, struct str text, unsigned flags, int32_t *out,
                                size_t max, size_t *count, struct errinfo *info)
{
    int32_t n = llama_tokenize(arg, text.ptr, (int32_t)text.len, out, (int32_t)max, false,
                               flags & TOKENS_CONTROL);

    (void)info;
    *count = (size_t)(n < 0 ? -n : n);
    return n < 0 ? ERR_LIMIT : ERR_OK;
}

static size_t source_bytes(void *arg, int32_t token, bool control, char *out, size_t size)
{
    int32_t n = llama_token_to_piece(arg, token, out, (int32_t)size, 0, control);

    return (size_t)(n < 0 ? -n : n);
}

/* As engine_llama.c does. */
static unsigned source_traits(void *arg, int32_t token)
{
    unsigned attr = llama_vocab_get_attr(arg, token);

    return (attr & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN) ? TOKENS_TRAIT_CONTROL
                                                                         : 0) |
           (attr & LLAMA_TOKEN_ATTR_USER_DEFINED ? TOKENS_TRAIT_MARKER : 0) |
           (attr & LLAMA_TOKEN_ATTR_LSTRIP ? TOKENS_TRAIT_STRIP_LEFT : 0) |
           (attr & LLAMA_TOKEN_ATTR_RSTRIP ? TOKENS_TRAIT_STRIP_RIGHT : 0);
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

static size_t try_kind(const struct vocab_kind *kind, uint64_t *random)
{
    struct llama_model *model = load(kind);
    const struct llama_vocab *vocab = llama_model_get_vocab(model);
    struct tokens_options options = {.source = {.tokenize = source_tokenize,
                                                .token_bytes = source_bytes,
                                                .token_traits = source_traits,
                                                .arg = (void *)(uintptr_t)vocab,
                                                .vocab = (uint32_t)llama_vocab_n_tokens(vocab),
                                                .bos = 1}};
    int32_t expected[2 * TEXT_MAX];
    struct token_prompt prompt;
    struct tokens *tokens;
    struct buf text;
    size_t memo = 0;

    assert_ok(tokens_create(&options, &tokens, NULL));
    buf_init(&text, TEXT_MAX);
    for (int i = 0; i < ROUNDS; i++) {
        random_text(&text, kind->specials, random);
        struct str whole = {buf_str(&text), text.len};
        int32_t n = llama_tokenize(vocab, whole.ptr, (int32_t)whole.len, expected,
                                   COUNT_OF(expected), false, true);
        assert_ok(tokens_from_string(tokens, whole, TOKENS_CONTROL, &prompt, NULL));
        if (prompt.count != (size_t)n ||
            (n > 0 && memcmp(prompt.tokens, expected, (size_t)n * sizeof(*expected)) != 0))
            fail_msg("%s, %zu special tokens, prefix %d: '%s'", kind->name, kind->specials,
                     kind->space_prefix, buf_str(&text));
        memo += prompt.memo_tokens;
        token_prompt_fini(&prompt);
    }
    buf_fini(&text);
    tokens_destroy(&tokens);
    llama_model_free(model);
    return memo;
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
                assert_true(try_kind(&kind, &random) >
                            ROUNDS); /* or nothing was cut or remembered */
            }
}

TEST_SUITE(TEST(test_sentence_pieces))

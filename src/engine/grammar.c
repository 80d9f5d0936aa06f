/*
 * grammar.c: the library's grammar sampler, entered only where it cannot throw.
 *
 * What it does with a token that it does not allow is no error but an exception, which no C caller can catch. Applying it
 * to a single candidate asks the same question without that risk, so each accept is preceded by one (feed). gbnf_check keeps
 * out the one construct (token references) for which the two disagree.
 *
 * While a grammar waits, the last few bytes of what was generated are kept, one less than the longest trigger has:
 *
 *      ... text that came out <tool_c|all>{"na         tail | piece of the new token
 *                             ^^^^^^^^^^^              a trigger that ends inside the piece; the rest is read after it
 *
 * The grammar knows characters only, so the text from the trigger on is given to a copy of it in any tokens that spell it;
 * which ones were generated does not matter. If all of them pass, the copy takes over.
 *
 * Not done here: regular expressions as triggers; choosing when a grammar ends (it allows the end of the generation).
 */
#include "engine/grammar.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include <llama.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/backend.h"
#include "engine/engine_llama.h"
#include "engine/gbnf.h"

enum {
    PIECE_BYTES = 256, /* of a token that are looked at while waiting */
    WINDOW_BYTES = GRAMMAR_TRIGGER_BYTES_MAX + PIECE_BYTES,
    WINDOW_TOKENS = WINDOW_BYTES, /* no token is empty */
};

struct grammar {
    const struct engine *engine;
    struct llama_sampler *sampler; /* at its very beginning while waiting */
    bool waiting;
    char *triggers[GRAMMAR_TRIGGERS_MAX];
    size_t triggers_count;
    token_id tokens[GRAMMAR_TRIGGERS_MAX];
    size_t tokens_count;
    size_t tail_max; /* bytes of the longest trigger - 1 */
    size_t tail_len;
    char window[WINDOW_BYTES]; /* the tail, and room for a piece */
};

/* ---- asking and feeding the library ---- */

static bool allows(struct llama_sampler *sampler, token_id token)
{
    struct llama_token_data one = {.id = token};
    struct llama_token_data_array array = {.data = &one, .size = 1, .selected = -1};

    llama_sampler_apply(sampler, &array);
    return one.logit == 0.0f;
}

static bool feed(struct llama_sampler *sampler, token_id token)
{
    if (!allows(sampler, token))
        return false;
    llama_sampler_accept(sampler, token);
    return true;
}

/* ---- text as tokens ---- */

/* The tokenizer's own answer, when its tokens spell exactly the text: some put a space in front. */
static bool tokenize_exactly(const struct engine *engine, struct str text, token_id *tokens,
                             size_t *count)
{
    char piece[PIECE_BYTES];
    size_t at = 0;

    if (engine_tokenize(engine, text, 0, tokens, WINDOW_TOKENS, count, NULL) != ERR_OK)
        return false;
    for (size_t i = 0; i < *count; i++) {
        size_t len = engine_token_bytes(engine, tokens[i], true, piece, sizeof(piece));
        if (len > sizeof(piece) || len > text.len - at || memcmp(piece, text.ptr + at, len) != 0)
            return false;
        at += len;
    }
    return at == text.len;
}

/* The token with the most bytes that `text` begins with, by a look at all of them: some milliseconds, once per trigger. */
static token_id longest_token(const struct engine *engine, struct str text, size_t *bytes)
{
    const token_id vocab = (token_id)engine_facts(engine)->vocab;
    token_id best = TOKEN_NONE;
    char piece[PIECE_BYTES];

    *bytes = 0;
    for (token_id token = 0; token < vocab; token++) {
        size_t len = engine_token_bytes(engine, token, true, piece, sizeof(piece));
        if (len > *bytes && len <= MIN(text.len, sizeof(piece)) &&
            memcmp(piece, text.ptr, len) == 0) {
            best = token;
            *bytes = len;
        }
    }
    return best;
}

static bool feed_text(const struct engine *engine, struct llama_sampler *sampler, struct str text)
{
    token_id tokens[WINDOW_TOKENS];
    size_t count, bytes;

    assert(text.len <= WINDOW_BYTES);
    if (tokenize_exactly(engine, text, tokens, &count)) {
        for (size_t i = 0; i < count; i++)
            if (!feed(sampler, tokens[i]))
                return false;
        return true;
    }
    for (; text.len > 0; text.ptr += bytes, text.len -= bytes) {
        token_id token = longest_token(engine, text, &bytes);
        if (token == TOKEN_NONE || !feed(sampler, token))
            return false;
    }
    return true;
}

/* ---- waiting ---- */

/* Gives the text to a copy, which takes over when it has allowed all of it. */
static bool try_start(struct grammar *grammar, struct str text)
{
    struct llama_sampler *copy = llama_sampler_clone(grammar->sampler);

    if (!feed_text(grammar->engine, copy, text)) {
        llama_sampler_free(copy);
        return false;
    }
    llama_sampler_free(grammar->sampler);
    grammar->sampler = copy;
    grammar->waiting = false;
    return true;
}

/* Where the first trigger begins that ends in the bytes behind the tail; SIZE_MAX when there is none. */
static size_t find_trigger(const struct grammar *grammar, size_t window_len)
{
    size_t first = SIZE_MAX;

    for (size_t i = 0; i < grammar->triggers_count; i++) {
        struct str trigger = str_from(grammar->triggers[i]);
        /* Occurrences inside the tail were seen before, and refused. */
        size_t from = grammar->tail_len - MIN(grammar->tail_len, trigger.len - 1);
        struct str rest = {grammar->window + from, window_len - from};
        size_t found = str_find(rest, trigger);
        if (found != SIZE_MAX)
            first = MIN(first, from + found);
    }
    return first;
}

static void watch(struct grammar *grammar, token_id token)
{
    for (size_t i = 0; i < grammar->tokens_count; i++) {
        if (grammar->tokens[i] == token) {
            bool fed = feed(grammar->sampler, token);
            assert(fed); /* tried in grammar_create; nothing was fed since */
            grammar->waiting = false;
            return;
        }
    }
    if (grammar->triggers_count == 0)
        return;
    size_t len = engine_token_bytes(grammar->engine, token, true,
                                    grammar->window + grammar->tail_len, PIECE_BYTES);
    size_t window_len = grammar->tail_len + MIN(len, PIECE_BYTES);
    size_t start = find_trigger(grammar, window_len);
    if (start != SIZE_MAX &&
        try_start(grammar, (struct str){grammar->window + start, window_len - start}))
        return;
    grammar->tail_len = MIN(window_len, grammar->tail_max);
    memmove(grammar->window, grammar->window + window_len - grammar->tail_len, grammar->tail_len);
}

/* ---- creating ---- */

static enum err copy_triggers(struct grammar *grammar, const struct grammar_options *options,
                              struct errinfo *info)
{
    if (options->triggers_count > GRAMMAR_TRIGGERS_MAX ||
        options->trigger_tokens_count > GRAMMAR_TRIGGERS_MAX)
        return err_set(info, ERR_LIMIT, "more than %d grammar triggers", GRAMMAR_TRIGGERS_MAX);
    for (size_t i = 0; i < options->triggers_count; i++) {
        size_t len = strnlen(options->triggers[i], GRAMMAR_TRIGGER_BYTES_MAX + 1);
        if (len == 0 || len > GRAMMAR_TRIGGER_BYTES_MAX)
            return err_set(info, ERR_INVALID, "a grammar trigger must have 1 to %d bytes",
                           GRAMMAR_TRIGGER_BYTES_MAX);
        grammar->triggers[grammar->triggers_count++] = mem_strdup(options->triggers[i]);
        grammar->tail_max = MAX(grammar->tail_max, len - 1);
    }
    for (size_t i = 0; i < options->trigger_tokens_count; i++) {
        if (!engine_token_valid(grammar->engine, options->trigger_tokens[i]))
            return err_set(info, ERR_INVALID, "grammar trigger %d is not in the vocabulary of %u",
                           options->trigger_tokens[i], engine_facts(grammar->engine)->vocab);
        grammar->tokens[grammar->tokens_count++] = options->trigger_tokens[i];
    }
    grammar->waiting = grammar->triggers_count + grammar->tokens_count > 0;
    return ERR_OK;
}

/* A trigger that the grammar does not begin with would never start it. */
static enum err check_triggers(const struct grammar *grammar, struct errinfo *info)
{
    for (size_t i = 0; i < grammar->tokens_count; i++)
        if (!allows(grammar->sampler, grammar->tokens[i]))
            return err_set(info, ERR_INVALID, "the grammar cannot begin with its trigger, token %d",
                           grammar->tokens[i]);
    for (size_t i = 0; i < grammar->triggers_count; i++) {
        struct llama_sampler *copy = llama_sampler_clone(grammar->sampler);
        bool fed = feed_text(grammar->engine, copy, str_from(grammar->triggers[i]));
        llama_sampler_free(copy);
        if (!fed)
            return err_set(info, ERR_INVALID, "the grammar cannot begin with its trigger '%.64s'",
                           grammar->triggers[i]);
    }
    return ERR_OK;
}

static enum err setup(struct grammar *grammar, const struct grammar_options *options,
                      const struct llama_vocab *vocab, struct errinfo *info)
{
    const char *root = options->root ? options->root : "root";

    TRY(gbnf_check(options->text, root, info));
    TRY(copy_triggers(grammar, options, info));
    grammar->sampler = llama_sampler_init_grammar(vocab, options->text, root);
    if (grammar->sampler == NULL) {
        const char *reason = backend_take_error();
        return err_set(info, ERR_INVALID, "the inference library refuses the grammar%s%s",
                       reason[0] ? ": " : "", reason);
    }
    return check_triggers(grammar, info);
}

enum err grammar_create(struct grammar **out, const struct engine *engine,
                        const struct grammar_options *options, struct errinfo *info)
{
    const struct llama_vocab *vocab = engine_llama_vocab(engine);

    *out = NULL;
    if (vocab == NULL)
        return err_set(info, ERR_UNSUPPORTED, "this engine has no grammars");
    struct grammar *grammar = mem_alloc(sizeof(*grammar));
    grammar->engine = engine;
    enum err err = setup(grammar, options, vocab, info);
    if (err != ERR_OK)
        grammar_destroy(&grammar);
    *out = grammar;
    return err;
}

void grammar_destroy(struct grammar **grammar)
{
    if (*grammar == NULL)
        return;
    for (size_t i = 0; i < (*grammar)->triggers_count; i++)
        mem_free((*grammar)->triggers[i]);
    llama_sampler_free((*grammar)->sampler);
    mem_free(*grammar);
    *grammar = NULL;
}

bool grammar_allows(const struct grammar *grammar, token_id token)
{
    return grammar->waiting || allows(grammar->sampler, token);
}

void grammar_mask(const struct grammar *grammar, struct llama_token_data_array *candidates)
{
    if (!grammar->waiting)
        llama_sampler_apply(grammar->sampler, candidates);
}

void grammar_accept(struct grammar *grammar, token_id token)
{
    if (grammar->waiting)
        watch(grammar, token);
    else
        llama_sampler_accept(grammar->sampler, token);
}

bool grammar_waits(const struct grammar *grammar)
{
    return grammar->waiting;
}

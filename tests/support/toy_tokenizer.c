/*
 * toy_tokenizer.c: see toy_tokenizer.h. Texts are at most TOY_TEXT_MAX bytes: every byte has a note
 * of which special token took it.
 */
#include "support/toy_tokenizer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

static const char *const words[] = {"the",  "th", "he", "fire", " fire", "\n\n", "us",
                                    "user", "ab", "ba", "aba",  "||",    "<|",   "|>"};

enum { WORD_BYTES = 8 }; /* none is longer */

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct str toy_text(const struct toy_tokenizer *toy, int32_t token, char byte[1])
{
    byte[0] = (char)token;
    if (token < TOY_BLANK)
        return (struct str){byte, 1};
    if (token >= TOY_SPECIAL)
        return str_from(toy->specials[token - TOY_SPECIAL].text);
    if (token < TOY_WORD || (size_t)(token - TOY_WORD) >= COUNT_OF(words))
        return STR(""); /* the prefix; not in use */
    return str_from(words[token - TOY_WORD]);
}

bool toy_is_control(const struct toy_tokenizer *toy, int32_t token)
{
    return token >= TOY_SPECIAL &&
           (toy->specials[token - TOY_SPECIAL].traits & ENGINE_TOKEN_CONTROL);
}

/* owner[i]: -1 free, else the special token whose text byte i belongs to; STRIPPED: white space
 * that a token took. */
enum { FREE = -1, STRIPPED = -2 };

static bool fits(const int *owner, struct str text, size_t at, struct str special)
{
    if (special.len == 0 || at + special.len > text.len ||
        memcmp(text.ptr + at, special.ptr, special.len) != 0)
        return false;
    for (size_t i = 0; i < special.len; i++)
        if (owner[at + i] != FREE)
            return false;
    return true;
}

static void take(const struct toy_tokenizer *toy, int *owner, struct str text, size_t at, int which)
{
    size_t len = strlen(toy->specials[which].text);
    unsigned traits = toy->specials[which].traits;

    for (size_t i = 0; i < len; i++)
        owner[at + i] = which;
    for (size_t i = at; (traits & ENGINE_TOKEN_STRIP_LEFT) && i > 0 && owner[i - 1] == FREE &&
                        is_space(text.ptr[i - 1]);
         i--)
        owner[i - 1] = STRIPPED;
    for (size_t i = at + len; (traits & ENGINE_TOKEN_STRIP_RIGHT) && i < text.len &&
                              owner[i] == FREE && is_space(text.ptr[i]);
         i++)
        owner[i] = STRIPPED;
}

static void partition(const struct toy_tokenizer *toy, struct str text, bool control, int *owner)
{
    for (size_t len = sizeof(toy->specials[0].text); len > 0; len--)
        for (int which = 0; which < TOY_SPECIALS_MAX; which++) {
            const struct toy_special *special = &toy->specials[which];
            if (special->traits == 0 || strlen(special->text) != len ||
                (!control && (special->traits & ENGINE_TOKEN_CONTROL)))
                continue;
            for (size_t at = 0; at < text.len; at++)
                if (fits(owner, text, at, str_from(special->text)))
                    take(toy, owner, text, at, which);
        }
}

static int32_t longest_word(struct str text, size_t *len)
{
    int32_t token = (unsigned char)text.ptr[0];

    *len = 1;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i]) > *len && str_starts(text, str_from(words[i]))) {
            token = TOY_WORD + (int32_t)i;
            *len = strlen(words[i]);
        }
    return token;
}

size_t toy_tokenize(const struct toy_tokenizer *toy, struct str text, bool control, int32_t *out,
                    size_t max)
{
    int *owner = malloc((text.len + 1) * sizeof(*owner));
    size_t count = 0, len;
    bool after_special = true;

    for (size_t i = 0; i < text.len; i++)
        owner[i] = FREE;
    partition(toy, text, control, owner);
    for (size_t at = 0; at < text.len; at += len) {
        len = 1;
        if (owner[at] == STRIPPED)
            continue;
        int32_t token = TOY_SPECIAL + owner[at];
        if (owner[at] >= 0) {
            len = strlen(toy->specials[owner[at]].text);
            after_special = true;
        } else {
            size_t run = 0;
            while (run < WORD_BYTES && at + run < text.len && owner[at + run] == FREE)
                run++;
            if (after_special && toy->space_prefix && count++ < max)
                out[count - 1] = TOY_BLANK;
            after_special = false;
            token = longest_word((struct str){text.ptr + at, run}, &len);
        }
        if (count++ < max)
            out[count - 1] = token;
    }
    free(owner);
    return count;
}

static struct toy_tokenizer *toy_of(const struct engine *engine)
{
    return CONTAINER_OF(engine, struct toy_tokenizer, engine);
}

static enum err tokenize(const struct engine *engine, struct str text, unsigned flags,
                         token_id *out, size_t max, size_t *count)
{
    struct toy_tokenizer *toy = toy_of(engine);

    atomic_fetch_add(&toy->calls, 1);
    atomic_fetch_add(&toy->bytes, text.len);
    if (fault_fires(toy->fault))
        return ERR_ENGINE;
    *count = toy_tokenize(toy, text, flags & ENGINE_TOKENIZE_CONTROL, out, max);
    return ERR_OK;
}

static size_t token_bytes(const struct engine *engine, token_id token, bool control, char *out,
                          size_t size)
{
    char byte[1];
    struct str text = toy_text(toy_of(engine), token, byte);

    if (!control && toy_is_control(toy_of(engine), token))
        return 0;
    if (size > 0)
        memcpy(out, text.ptr, text.len < size ? text.len : size);
    return text.len;
}

static unsigned token_traits(const struct engine *engine, token_id token)
{
    return token >= TOY_SPECIAL ? toy_of(engine)->specials[token - TOY_SPECIAL].traits : 0;
}

const struct engine *toy_engine(struct toy_tokenizer *toy)
{
    static const struct engine_ops ops = {
        .tokenize = tokenize, .token_bytes = token_bytes, .token_traits = token_traits};

    toy->engine = (struct engine){
        .ops = &ops,
        .facts = {.vocab = TOY_VOCAB,
                  .bos = TOY_SPECIAL,
                  .add_bos = toy->add_bos,
                  /* no word of the list goes on behind a letter and a blank */
                  .words = !toy->space_prefix},
    };
    return &toy->engine;
}

/*
 * toy_tokenizer.h: a small tokenizer that works as libllama's do, written to be obviously right: an
 * oracle for tokens.h, with special tokens that overlap in ways that no real vocabulary has.
 *
 * Special tokens are taken out of the text first, the longest first, each wherever it stands; those
 * marked as control tokens only when asked for. What is left is cut into the longest words of a
 * list, else bytes. With `space_prefix` a piece that follows a special token, or nothing, begins
 * with a token for a blank.
 */
#pragma once

#include <stdatomic.h>

#include "engine/engine_ops.h"

enum {
    TOY_SPECIALS_MAX = 32,
    TOY_BLANK = 256,   /* the prefix */
    TOY_WORD = 300,    /* the first word */
    TOY_SPECIAL = 400, /* the first special token */
    TOY_VOCAB = TOY_SPECIAL + TOY_SPECIALS_MAX,
};

struct toy_special {
    char text[48];
    unsigned traits; /* enum engine_token_traits; 0: not in use */
};

struct toy_tokenizer {
    struct engine engine; /* made by toy_engine */
    struct toy_special specials[TOY_SPECIALS_MAX];
    bool space_prefix, add_bos; /* BOS is the first special */
    atomic_ulong calls, bytes;  /* asked for so far */
    struct fault *fault; /* may be NULL: asked before each call, which then gives ERR_ENGINE */
};

/* An engine with this tokenizer and nothing else; part of `toy`. */
const struct engine *toy_engine(struct toy_tokenizer *toy);

/* All of a text at once, BOS not included. At most `max` tokens are written; returns their number.
 */
size_t toy_tokenize(const struct toy_tokenizer *toy, struct str text, bool control, int32_t *out,
                    size_t max);

/* The text of a token; empty for the prefix. */
struct str toy_text(const struct toy_tokenizer *toy, int32_t token, char byte[1]);
bool toy_is_control(const struct toy_tokenizer *toy, int32_t token);

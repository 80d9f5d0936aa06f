/*
 * token_control.h: finds the control tokens of a vocabulary in text.
 *
 *      entries, sorted by text:  <|im_end|>  <|im_start|>  <|im_start|>x  ...
 *      parent of an entry: the longest other entry that it begins with
 *
 * A tokenizer extracts the longest tokens first, wherever they occur, before it splits words. A
 * control token is a safe place to cut (`cut`) if no other one can overlap or contain it, it cannot
 * overlap itself, and it strips no white space before it: then the library finds it whatever
 * surrounds it, and both sides are tokenized independently.
 *
 * Immutable once made; any thread.
 */
#ifndef HEARTH_CHAT_TOKEN_CONTROL_H
#define HEARTH_CHAT_TOKEN_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct tokens_source;

struct token_control {
    struct str text;
    int32_t token;
    int32_t parent; /* index, -1: none */
    bool cut;
    bool strips; /* strips the white space after it */
};

struct token_controls;

enum err token_controls_create(const struct tokens_source *source,
                               struct token_controls **out) NODISCARD;
void token_controls_destroy(struct token_controls **controls);

/* Is `at` between a letter and a blank that is followed by a letter? */
bool token_words_end(struct str text, size_t at);

/* The first place at or after `at` with a control token, SIZE_MAX if there is none; *found is the
 * longest one there. */
size_t token_controls_find(const struct token_controls *controls, struct str text, size_t at,
                           const struct token_control **found);
/* The next shorter one at the same place, or NULL. */
const struct token_control *token_controls_shorter(const struct token_controls *controls,
                                                   const struct token_control *control);

/* Can text be cut between a letter and a blank that is followed by a letter (ASCII)? Not if a
 * special token, marker or control, contains a letter before a blank, or ends with a letter and
 * strips the white space after it. */
bool token_controls_spare_words(const struct token_controls *controls);
/* Some special token strips all white space around it. */
bool token_controls_strip(const struct token_controls *controls);

size_t token_controls_count(const struct token_controls *controls);
const struct token_control *token_controls_get(const struct token_controls *controls, size_t i);

#endif

/*
 * token_control.h: the control tokens of a vocabulary, to be found in text.
 *
 *      entries, sorted by text:  <|im_end|>  <|im_start|>  <|im_start|>x  ...      parent: the longest entry that it begins with
 *
 * A tokenizer takes out the longest tokens first, each wherever it stands, before it looks at
 * words. A control token is a safe place to cut (`cut`) when no other one can overlap it or contain
 * it, it cannot overlap itself, and it takes no white space before it: then the library finds it
 * whatever stands around it, and both sides are tokenized apart from each other.
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
    bool strips; /* takes the white space behind it */
};

struct token_controls;

enum err token_controls_create(const struct tokens_source *source,
                               struct token_controls **out) NODISCARD;
void token_controls_destroy(struct token_controls **controls);

/* Whether `at` is between a letter and a blank with a letter behind it. */
bool token_words_end(struct str text, size_t at);

/* The first place at or behind `at` where some control token stands, SIZE_MAX when there is none;
 * *found is the longest there. */
size_t token_controls_find(const struct token_controls *controls, struct str text, size_t at,
                           const struct token_control **found);
/* The next shorter one at the same place, or NULL. */
const struct token_control *token_controls_shorter(const struct token_controls *controls,
                                                   const struct token_control *control);

/* Could text be cut between a letter and a blank with a letter behind it (ASCII)? Not when a
 * special token, marker or control, has a letter before a blank inside, or ends with a letter and
 * takes the white space behind it. */
bool token_controls_spare_words(const struct token_controls *controls);
/* Some special token takes white space around it: as much as there is. */
bool token_controls_strip(const struct token_controls *controls);

size_t token_controls_count(const struct token_controls *controls);
const struct token_control *token_controls_get(const struct token_controls *controls, size_t i);

#endif

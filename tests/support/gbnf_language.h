/*
 * gbnf_language.h: grammars as the tests see them: a reader, a writer of random texts, and a
 * matcher, all independent of the inference library and of src/engine/gbnf.c. Simple and slow.
 *
 * The dialect is that of engine/gbnf.h; a grammar that does not parse fails the test.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct language;

struct language *language_create(const char *gbnf);
void language_destroy(struct language **language);

/* Whether `text` (UTF-8) as a whole is of the language that starts with `root`. */
bool language_matches(struct language *language, const char *root, struct str text);

/* Whether every text of it is endless, so that there is none. */
bool language_is_endless(struct language *language, const char *root);

/* Appends a random text of it, which must not be endless. */
void language_generate(struct language *language, const char *root, uint64_t *seed,
                       struct buf *out);

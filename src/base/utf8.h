/*
 * utf8.h: text as characters.
 *
 * Nothing here reads past the end or fails on invalid UTF-8: each invalid byte counts as one
 * character, U+FFFD. Pure functions, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* The character at *at (at < end); moves *at past it. */
uint32_t utf8_next(const char **at, const char *end);

/* The character that ends at *at (at > begin); moves *at before it. */
uint32_t utf8_prev(const char *begin, const char **at);

/* Writes 1 to 4 bytes and returns how many. */
size_t utf8_encode(uint32_t code, char out[4]);

/* Characters that a terminal or a viewer could take for a command or a line end: C0, DEL, C1 (U+009B
 * begins a command like ESC [), U+2028 and U+2029. */
bool utf8_is_control(uint32_t code);

/* Text from elsewhere for a terminal, in place: each such character, and each invalid byte, becomes
 * '?', except those in `keep`. Returns the new length, which is not larger. */
size_t utf8_clean(char *text, size_t len, const char *keep);

/* The length of a text that was cut somewhere, without a last character that is not whole. */
size_t utf8_whole(struct str text);

bool utf8_valid(struct str text);
bool utf8_is_ascii(struct str text);

/* Characters in a text, and the offset of the n-th (text.len when there are fewer). */
size_t utf8_count(struct str text);
size_t utf8_offset(struct str text, size_t n);

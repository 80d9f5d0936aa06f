/*
 * detok.h: tokens to text as they are generated, never cutting a UTF-8 character.
 *
 * A token may hold part of a character, or bytes that are no character at all. What is incomplete
 * waits for the next token; what can never become a character is replaced by U+FFFD, one per broken
 * sequence as the Unicode standard recommends, so that every piece handed out is valid UTF-8.
 * Owner: one generation, any thread. Knows the engine only as a source of token bytes.
 */
#ifndef HEARTH_OUTPUT_DETOK_H
#define HEARTH_OUTPUT_DETOK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "engine/engine.h"

struct detok {
    const struct engine *engine;
    bool control;          /* control tokens are written, too */
    unsigned char wait[4]; /* the beginning of a character */
    size_t wait_len;
};

void detok_init(struct detok *detok, const struct engine *engine, bool control);

/* Appends the text that is complete after `token` to out. */
enum err detok_push(struct detok *detok, token_id token, struct buf *out) NODISCARD;

/* Appends raw bytes in the same manner; what detok_push does with the bytes of its token. */
enum err detok_push_bytes(struct detok *detok, const char *bytes, size_t len,
                          struct buf *out) NODISCARD;

/* At the end: what still waits is no character; appends U+FFFD for it. */
enum err detok_finish(struct detok *detok, struct buf *out) NODISCARD;

#endif

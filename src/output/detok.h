/*
 * detok.h: tokens to text as they are generated, never cutting a UTF-8 character.
 *
 * A token may hold part of a character, or bytes that are no character at all. An incomplete
 * character waits for the next token. Bytes that can never become a character are replaced by
 * U+FFFD, one per broken sequence as the Unicode standard recommends, so that every piece handed
 * out is valid UTF-8. Owner: one generation, any thread. Uses the engine only for token bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "engine/engine.h"

struct detok {
    const struct engine *engine;
    bool control;          /* control tokens are also written */
    unsigned char wait[4]; /* the beginning of a character */
    size_t wait_len;
};

void detok_init(struct detok *detok, const struct engine *engine, bool control);

/* Appends to `out` the text that `token` completes. */
enum err detok_push(struct detok *detok, token_id token, struct buf *out) NODISCARD;

/* Does the same for raw bytes; detok_push calls it with the bytes of its token. */
enum err detok_push_bytes(struct detok *detok, const char *bytes, size_t len,
                          struct buf *out) NODISCARD;

/* At the end: appends U+FFFD if an incomplete character is left. */
enum err detok_finish(struct detok *detok, struct buf *out) NODISCARD;

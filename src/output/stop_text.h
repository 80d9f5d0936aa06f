/*
 * stop_text.h: sampled tokens as text, with an eye on stop texts.
 *
 *      tokens --detok--> held: | ... may begin a stop text | --> released: text that no stop text can begin in any more
 *
 * What could be the beginning of a stop text is held back until it is one or is not; a stop text
 * itself, and all behind it, is never released. Pure: no engine but for the bytes of tokens. Owner:
 * one generation.
 */
#ifndef HEARTH_OUTPUT_STOP_TEXT_H
#define HEARTH_OUTPUT_STOP_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "output/detok.h"

struct text {
    struct detok detok;
    const char *const *stops; /* borrowed */
    size_t stops_count;
    struct buf held;
    size_t released; /* bytes of `held` that were handed out by the last call */
    int stop;        /* index of the stop text that came; -1 = none */
};

void text_init(struct text *text, const struct engine *engine, bool control,
               const char *const *stops, size_t stops_count);
void text_fini(struct text *text);

/* Takes a token in; *out is what may be shown now, valid until the next call. After a stop text
 * came nothing more comes. */
enum err text_push(struct text *text, token_id token, struct str *out) NODISCARD;
/* As text_push, of bytes. */
enum err text_push_bytes(struct text *text, const char *bytes, size_t len,
                         struct str *out) NODISCARD;
/* The end: what was held back after all. */
enum err text_finish(struct text *text, struct str *out) NODISCARD;

#endif

/*
 * stop_text.h: sampled tokens as text, searched for stop texts.
 *
 *      tokens --detok--> held: | ... may begin a stop text | --> released: text with no stop text
 *
 * Text that could be the beginning of a stop text is held back until that is decided. A stop text
 * itself, and everything after it, is never released. Pure: uses the engine only for token bytes.
 * Owner: one generation.
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
    size_t released; /* bytes of `held` handed out by the last call */
    int stop;        /* index of the stop text that was found; -1 = none */
};

void text_init(struct text *text, const struct engine *engine, bool control,
               const char *const *stops, size_t stops_count);
void text_fini(struct text *text);

/* Adds a token; *out is the text that may be shown now, valid until the next call. After a stop
 * text it is always empty. */
enum err text_push(struct text *text, token_id token, struct str *out) NODISCARD;
/* As text_push, for bytes. */
enum err text_push_bytes(struct text *text, const char *bytes, size_t len,
                         struct str *out) NODISCARD;
/* The end: what was held back after all. */
enum err text_finish(struct text *text, struct str *out) NODISCARD;

#endif

/*
 * stop_text.h: searches the text of an answer for stop texts.
 *
 *      content --> held: | ... may begin a stop text | --> released: text with no stop text
 *
 * Text that could be the beginning of a stop text is held back until that is decided. A stop text
 * itself, and everything after it, is never released. Thoughts and the markup of calls are not
 * searched: clients do not see them as text, and must not have to avoid them. Owner: one
 * generation.
 */
#pragma once

#include <stddef.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct stop_text {
    const char *const *stops; /* borrowed */
    size_t stops_count;
    struct buf held;
    size_t released; /* bytes of `held` handed out by the last call */
    int found;       /* index of the stop text that was found; -1 = none */
};

void stop_text_init(struct stop_text *stop, const char *const *stops, size_t stops_count);
void stop_text_fini(struct stop_text *stop);

/* Adds text; *out is what may be shown now, valid until the next call. After a stop text it is
 * always empty. */
enum err stop_text_push(struct stop_text *stop, struct str text, struct str *out) NODISCARD;

/* The text ends here, for good or until other output ends: what was held back after all. */
struct str stop_text_flush(struct stop_text *stop);

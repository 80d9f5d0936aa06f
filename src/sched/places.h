/*
 * places.h: where the text of a prompt has joints: a later prompt that diverges from it often does so
 * at one of them.
 *
 *      Use these documents.\n\n## Document 1\n\nfire ash ...\n\nQuestion: what ...
 *                              ^ HEADING       ^ PARAGRAPH     ^ LABEL
 *
 * Places are found in the bytes of the tokens, whoever wrote the prompt: a chat, a raw completion, a
 * list of tokens. A place is a token boundary at which a line begins. What the line begins with gives
 * its kind, so the kind needs the text behind it, but the place itself does not.
 *
 * A SETTLED place is the first one after a blank line in a window of tokens. It depends on nothing
 * but the tokens before it, so an exact run may be cut there (engine/schedule.h).
 *
 * Threads: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/mark.h"
#include "engine/engine.h"

/* X(value, name) */
#define PLACE_TABLE(X)                                                                 \
    X(PLACE_PART, "part")           /* a content part of a message ends (MARK_PART) */ \
    X(PLACE_HEADING, "heading")     /* # or a rule of - = * */                         \
    X(PLACE_TAG, "tag")             /* < and a name */                                 \
    X(PLACE_LABEL, "label")         /* after a blank line: words and a colon */        \
    X(PLACE_FENCE, "fence")         /* ``` */                                          \
    X(PLACE_PARAGRAPH, "paragraph") /* after a blank line: anything else */            \
    X(PLACE_ITEM, "item")           /* - * 1. { */                                     \
    X(PLACE_LINE, "line")

enum place_kind { PLACE_TABLE(TABLE_VALUE) PLACE_COUNT };

struct place {
    uint32_t at;
    uint8_t kind;
    bool settled;
};

struct places {
    struct place *list; /* ascending, at different tokens; owned */
    size_t count;
};

/* The text to look at. */
struct places_text {
    const struct engine *engine; /* its vocabulary */
    const token_id *tokens;
    uint32_t count;
    const struct mark *marks; /* of them, those of parts; ascending */
    size_t marks_count;
    uint32_t window; /* of settled places */
};

/* ERR_NOMEM. */
enum err places_find(const struct places_text *text, struct places *places) NODISCARD;
void places_fini(struct places *places);

/*
 * embed_request.h: inputs that are to become vectors or scores, in one form for all dialects.
 *
 *      body --dialect->parse--> gen_request.embed --serve/call_embed.h--> answer.vectors
 *           --dialect->body--> bytes
 *
 * A dialect fills it in the request's arena, in `parse`. Its `body` finds a vector for each input
 * in the answer (answer.h), in the same order.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum { EMBED_INPUTS_MAX = 2048 }; /* OpenAI's */

struct embed_input {
    struct str text;
    const int32_t *tokens; /* instead of the text; NULL: text */
    size_t tokens_count;
};

struct embed_request {
    struct embed_input *inputs; /* the documents, if there are queries */
    size_t count;
    /* Scores are wanted instead of vectors: of each input with its query, or with the only one. */
    struct embed_input *queries;
    size_t queries_count;
    const char *field, *queries_field; /* the client's names, for errors */
    uint32_t dimensions;               /* only that many; 0 = all */
    bool raw;                          /* not scaled to length 1 */
    bool truncate;                     /* cut what exceeds the context */
};

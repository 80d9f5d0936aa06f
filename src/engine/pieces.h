/*
 * pieces.h: the sorted texts of a vocabulary, so that a grammar reads a shared prefix of many
 * tokens only once.
 *
 * For this folder only. Made once per engine, by the first generation with a grammar; 16 bytes per
 * token and the texts.
 *
 * OWNER: the engine; never changes. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "engine/engine.h"

enum { PIECE_BYTES_MAX = 1024 }; /* longer tokens are left out: no grammar allows them */

struct piece {
    const char *bytes;
    token_id token;
    uint16_t len;
    uint16_t shared; /* length of the prefix shared with the previous piece */
};

struct pieces {
    /* by bytes, then by token; without empty ones and those that end a generation */
    struct piece *list;
    size_t count;
    size_t from[257]; /* the first piece that begins with this byte or a larger one */
    token_id *ends;   /* tokens that end a generation */
    size_t ends_count;
    char *bytes;
};

/* The text of a token, into `bytes`; empty: no grammar allows it. As the inference library has it,
 * that is also so when it begins with NUL. */
struct str piece_text(const struct engine *engine, token_id token,
                      char bytes[static PIECE_BYTES_MAX]);

/* Returns the engine's pieces and builds them on first use. ERR_NOMEM. */
enum err pieces_of(const struct engine *engine, const struct pieces **pieces,
                   struct errinfo *info) NODISCARD;
void pieces_destroy(struct pieces **pieces);

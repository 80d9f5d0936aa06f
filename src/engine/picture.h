/*
 * picture.h: pictures for models that see, through libmtmd.
 *
 *      file (PNG, JPEG, ...) --picture_create--> pixels, identity --> tokens of the prompt
 *                                                     | engine_run: vision encoder --> embeddings
 *
 *      tokens    <start of image>  p0* p1 p2 ... pn  <end of image>
 *                 the model's own  '---- a piece --'
 *
 * IDENTITY. The tokens of a piece are not in any vocabulary: bit 30 says "picture", bit 29 marks
 * the first one of a piece, and the other 29 bits come from the hash of the pixels, their size, the
 * projector file and its limits. So a prompt with another picture is another prompt wherever tokens
 * are compared: in the cache, on disk, on other machines. The first token has 16 bits for the
 * positions that the piece takes (M-RoPE), so that a prompt alone says where its rows belong. Ten
 * tokens carry all 256 bits of the identity; shorter pieces are `weak`, and requests with one
 * neither read nor write the cache.
 *
 * A piece is computed in one go: a prompt is never cut or resumed inside it, because some models
 * let its tokens see each other.
 *
 * OWNER: pictures belong to their request; created on any thread, encoded on the engine's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "engine/engine.h"

enum {
    PICTURE_TOKEN = 1 << 30,
    PICTURE_FIRST = 1 << 29,
    PICTURE_CELLS_MIN = 10, /* 13 + 9 * 29 bits >= 256 */
    PICTURE_POSITIONS_MAX = 0xFFFF,
    PICTURE_BYTES_MAX = 32 << 20,
    PICTURE_PIXELS_MAX = 40 << 20,
    /* of one request: as many as a screen of 1920 x 1080 pixels has, for each of them */
    PICTURES_MAX = 64,
    PICTURES_PIXELS_MAX = 128 << 20,
};

struct buf;
struct picture;

/* Tokens that are computed from a part of a picture. */
struct picture_piece {
    uint32_t at, count; /* in the picture's tokens; in struct gen, in the prompt's */
    uint32_t begin;     /* in the picture's tokens */
    uint32_t positions; /* that it takes: `count`, or fewer with M-RoPE */
    const struct picture *picture;
    size_t chunk; /* of the library */
};

static inline bool token_is_picture(token_id token)
{
    return token >= PICTURE_TOKEN;
}

/* Of a piece with this first token. */
static inline uint32_t picture_positions(token_id first, uint32_t count)
{
    uint32_t positions = (uint32_t)first & PICTURE_POSITIONS_MAX;

    return positions > 0 ? positions : count;
}

/* Tokens of the piece that begins with the first of `count` tokens; 0: none does. */
uint32_t picture_run(const token_id *tokens, uint32_t count);

/* Appends "[picture HASH, N tokens]" for the piece that token `at` of a prompt belongs to, and
 * returns where it ends. */
size_t picture_describe(const token_id *tokens, size_t count, size_t at, struct buf *out);

/* The largest place <= at where a prompt may be cut: not inside a picture. */
uint32_t picture_floor(const token_id *tokens, uint32_t count, uint32_t at);

/* Checks and decodes a picture file. ERR_UNSUPPORTED: the model does not see, or the format is not
 * known; ERR_INVALID: the file is damaged; ERR_LIMIT: too large. Takes tens of milliseconds, a second
 * for the largest, and cannot be interrupted. */
enum err picture_create(const struct engine *engine, struct str file, struct picture **out,
                        struct errinfo *info) NODISCARD;
void picture_destroy(struct picture **picture);

const token_id *picture_tokens(const struct picture *picture, size_t *count);
const struct picture_piece *picture_pieces(const struct picture *picture, size_t *count);
/* Of a piece as its picture has it. */
const token_id *picture_piece_tokens(const struct picture_piece *piece);
/* Some piece is too short for the whole identity. */
bool picture_is_weak(const struct picture *picture);

/* Appends a piece to the sequence, on the engine's thread. Errors as for engine_run, but the
 * sequence is broken by ERR_CANCELLED as well. There are no logits of it. */
enum err engine_run_picture(struct engine *engine, seq_id seq, const struct picture_piece *piece,
                            struct errinfo *info) NODISCARD;

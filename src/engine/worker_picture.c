/*
 * worker_picture.c: see the header.
 *
 * The child is not trusted, and may write while the parent reads: each number is copied once, then
 * checked, then used.
 */
#include "engine/worker_picture.h"

#include <string.h>

#include "base/mem.h"
#include "engine/projector.h"

struct head {
    uint32_t tokens, pieces, weak;
};

struct piece {
    uint32_t at, count, positions;
};

static uint64_t bytes_of(uint64_t tokens, uint64_t pieces)
{
    return sizeof(struct head) + tokens * sizeof(token_id) + pieces * sizeof(struct piece);
}

uint64_t worker_picture_bytes_max(uint32_t tokens)
{
    return bytes_of(tokens, tokens);
}

uint64_t worker_picture_encode(const struct picture *picture, void *at, uint64_t room)
{
    struct head head = {(uint32_t)picture->count, (uint32_t)picture->pieces_count, picture->weak};
    uint64_t bytes = bytes_of(head.tokens, head.pieces);
    char *to = at;

    if (bytes > room)
        return 0;
    memcpy(to, &head, sizeof(head));
    to += sizeof(head);
    memcpy(to, picture->tokens, head.tokens * sizeof(token_id));
    to += head.tokens * sizeof(token_id);
    for (size_t i = 0; i < head.pieces; i++, to += sizeof(struct piece)) {
        const struct picture_piece *piece = &picture->pieces[i];
        memcpy(to, &(struct piece){piece->at, piece->count, piece->positions},
               sizeof(struct piece));
    }
    return bytes;
}

/* A piece is made of tokens that only pictures have. */
static bool is_piece(const struct picture *picture, const struct piece *piece)
{
    return piece->at <= picture->count && piece->count > 0 &&
           piece->count <= picture->count - piece->at && piece->positions > 0 &&
           picture_run(picture->tokens + piece->at, piece->count) == piece->count &&
           picture_positions(picture->tokens[piece->at], piece->count) == piece->positions;
}

bool worker_picture_decode(struct picture *picture, const void *from, uint64_t bytes)
{
    const char *at = from;
    struct head head;
    struct piece piece;

    if (bytes < sizeof(head))
        return false;
    memcpy(&head, at, sizeof(head));
    at += sizeof(head);
    if (bytes != bytes_of(head.tokens, head.pieces) || head.weak > 1)
        return false;
    picture->weak = head.weak;
    picture->count = head.tokens;
    picture->pieces_count = head.pieces;
    picture->tokens = mem_alloc_array(MAX(head.tokens, 1), sizeof(*picture->tokens));
    picture->pieces = mem_alloc_array(MAX(head.pieces, 1), sizeof(*picture->pieces));
    memcpy(picture->tokens, at, head.tokens * sizeof(*picture->tokens));
    at += head.tokens * sizeof(*picture->tokens);
    for (size_t i = 0; i < head.pieces; i++, at += sizeof(piece)) {
        memcpy(&piece, at, sizeof(piece));
        if (!is_piece(picture, &piece))
            return false;
        picture->pieces[i] =
            (struct picture_piece){piece.at, piece.count, piece.at, piece.positions, picture, i};
    }
    return true;
}

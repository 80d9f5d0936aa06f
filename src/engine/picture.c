/* picture.c: the tokens that stand for a picture; the library's part is in projector.c. */
#include "engine/picture.h"

#include "base/buf.h"
#include "base/le.h"
#include "base/mem.h"
#include "engine/engine_ops.h"
#include "engine/picture_file.h"
#include "engine/projector.h"

enum { IDS_PER_HASH = HASH256_BYTES / 4 };

void picture_fill_tokens(const struct hash256 *identity, uint32_t piece, uint32_t positions,
                         token_id *tokens, uint32_t count)
{
    struct hash256 hash = {0};

    for (uint32_t i = 0; i < count; i++) {
        if (i % IDS_PER_HASH == 0) {
            struct hash256_state state;
            hash256_init_keyed(&state, identity);
            hash256_update_u32(&state, piece);
            hash256_update_u32(&state, i / IDS_PER_HASH);
            hash = hash256_final(&state);
        }
        uint32_t bits = le_get_u32(hash.bytes + i % IDS_PER_HASH * 4) & (PICTURE_FIRST - 1);
        tokens[i] = (token_id)(PICTURE_TOKEN | bits);
    }
    tokens[0] = (tokens[0] & ~PICTURE_POSITIONS_MAX) | PICTURE_FIRST |
                (token_id)(positions == count ? 0 : positions);
}

uint32_t picture_run(const token_id *tokens, uint32_t count)
{
    uint32_t run = 0;

    while (run < count && token_is_picture(tokens[run]) &&
           ((tokens[run] & PICTURE_FIRST) != 0) == (run == 0))
        run++;
    return run;
}

uint32_t picture_floor(const token_id *tokens, uint32_t count, uint32_t at)
{
    while (at > 0 && at < count && token_is_picture(tokens[at]) && !(tokens[at] & PICTURE_FIRST))
        at--;
    return at;
}

size_t picture_describe(const token_id *tokens, size_t count, size_t at, struct buf *out)
{
    uint32_t begin = picture_floor(tokens, (uint32_t)count, (uint32_t)at);
    uint32_t run = picture_run(tokens + begin, (uint32_t)count - begin);
    struct hash256 hash = hash256_of(tokens + begin, run * sizeof(*tokens));
    char hex[HASH256_HEX_BYTES];

    hash256_hex(&hash, hex);
    buf_appendf(out, "[picture %.16s, %u tokens]", hex, run);
    return MAX((size_t)begin + run, at + 1);
}

enum err picture_create(const struct engine *engine, struct str file, struct picture **out,
                        struct errinfo *info)
{
    struct picture_size size;

    *out = NULL;
    if (!engine->facts.images || engine->ops->read_picture == NULL)
        return err_set(info, ERR_UNSUPPORTED,
                       "this model takes text only. To send pictures, load a model that can see, "
                       "with its projector: --mmproj FILE");
    if (file.len > PICTURE_BYTES_MAX)
        return err_set(info, ERR_LIMIT, "the picture has %zu bytes; at most %d are allowed",
                       file.len, PICTURE_BYTES_MAX);
    TRY(picture_file_check(file, PICTURE_PIXELS_MAX, &size, info));
    return engine->ops->read_picture(engine, file, out, info);
}

void picture_destroy(struct picture **picture)
{
    if (*picture == NULL)
        return;
    projector_drop((*picture)->chunks);
    mem_free((*picture)->tokens);
    mem_free((*picture)->pieces);
    mem_free((*picture)->file);
    mem_free(*picture);
    *picture = NULL;
}

const token_id *picture_tokens(const struct picture *picture, size_t *count)
{
    *count = picture->count;
    return picture->tokens;
}

const struct picture_piece *picture_pieces(const struct picture *picture, size_t *count)
{
    *count = picture->pieces_count;
    return picture->pieces;
}

const token_id *picture_piece_tokens(const struct picture_piece *piece)
{
    return piece->picture->tokens + piece->begin;
}

bool picture_is_weak(const struct picture *picture)
{
    return picture->weak;
}

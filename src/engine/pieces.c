/*
 * pieces.c: two passes over the vocabulary (sizes, then texts), and a sort.
 *
 * Two threads may make them at the same time; the first to finish wins, and the other copy is
 * freed.
 */
#include "engine/pieces.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/engine_ops.h"

static int by_bytes(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, MIN(x->len, y->len));

    if (order == 0)
        order = (x->len > y->len) - (x->len < y->len);
    return order != 0 ? order : (x->token > y->token) - (x->token < y->token);
}

struct str piece_text(const struct engine *engine, token_id token,
                      char bytes[static PIECE_BYTES_MAX])
{
    size_t len = engine_token_bytes(engine, token, true, bytes, PIECE_BYTES_MAX);
    bool usable = len <= PIECE_BYTES_MAX && len > 0 && bytes[0] != '\0';

    return (struct str){bytes, usable ? len : 0};
}

static bool allocate(struct pieces *pieces, const struct engine *engine)
{
    const token_id vocab = (token_id)engine_facts(engine)->vocab;
    char bytes[PIECE_BYTES_MAX];
    size_t total = 0, ends = 0;

    for (token_id token = 0; token < vocab; token++) {
        if (engine_token_is_end(engine, token))
            ends++;
        else
            total += piece_text(engine, token, bytes).len;
    }
    pieces->list = mem_try_alloc_array((size_t)vocab, sizeof(*pieces->list));
    pieces->ends = mem_try_alloc_array(ends, sizeof(*pieces->ends));
    pieces->bytes = mem_try_alloc(total);
    return pieces->list != NULL && pieces->ends != NULL && pieces->bytes != NULL;
}

static void fill(struct pieces *pieces, const struct engine *engine)
{
    const token_id vocab = (token_id)engine_facts(engine)->vocab;
    char bytes[PIECE_BYTES_MAX], *at = pieces->bytes;

    for (token_id token = 0; token < vocab; token++) {
        if (engine_token_is_end(engine, token)) {
            pieces->ends[pieces->ends_count++] = token;
            continue;
        }
        size_t len = piece_text(engine, token, bytes).len;
        if (len == 0)
            continue;
        memcpy(at, bytes, len);
        pieces->list[pieces->count++] =
            (struct piece){.bytes = at, .token = token, .len = (uint16_t)len};
        at += len;
    }
    qsort(pieces->list, pieces->count, sizeof(*pieces->list), by_bytes);
    for (size_t i = 1; i < pieces->count; i++) {
        const struct piece *before = &pieces->list[i - 1];
        struct piece *piece = &pieces->list[i];
        while (piece->shared < MIN(piece->len, before->len) &&
               piece->bytes[piece->shared] == before->bytes[piece->shared])
            piece->shared++;
    }
    for (size_t byte = 0, i = 0; byte < COUNT_OF(pieces->from); byte++) {
        while (i < pieces->count && (unsigned char)pieces->list[i].bytes[0] < byte)
            i++;
        pieces->from[byte] = i;
    }
}

enum err pieces_of(const struct engine *engine, const struct pieces **out, struct errinfo *info)
{
    _Atomic(struct pieces *) *place = (_Atomic(struct pieces *) *)&engine->pieces;
    struct pieces *ready = atomic_load(place);

    if (ready == NULL) {
        struct pieces *pieces = mem_alloc(sizeof(*pieces));
        if (!allocate(pieces, engine)) {
            pieces_destroy(&pieces);
            return err_set(info, ERR_NOMEM, "no memory for the texts of the vocabulary");
        }
        fill(pieces, engine);
        if (atomic_compare_exchange_strong(place, &ready, pieces))
            ready = pieces;
        else
            pieces_destroy(&pieces);
    }
    *out = ready;
    return ERR_OK;
}

void pieces_destroy(struct pieces **pieces)
{
    if (*pieces == NULL)
        return;
    mem_free((*pieces)->list);
    mem_free((*pieces)->ends);
    mem_free((*pieces)->bytes);
    mem_free(*pieces);
    *pieces = NULL;
}

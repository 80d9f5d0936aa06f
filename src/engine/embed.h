/*
 * embed.h: one vector for a whole input: embeddings, and the scores of rerankers.
 *
 *      encoder (facts.embed.whole)    engine_embed: one item has all tokens of an input
 *      decoder, last or rank          engine_run: all tokens but the last, as for an answer;
 *                                     engine_embed: the last token alone
 *      decoder, mean                  engine_embed: items of any length; the vector of each is the
 *                                     mean over its tokens, and the caller combines them
 *
 * Only `last` and `rank` can continue from a cached prefix: `mean` needs the rows of all tokens,
 * which are not part of the state.
 *
 * Threads: the engine's; arithmetic: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

/* How the rows of an input become one vector. X(value, name) */
#define ENGINE_POOLING_TABLE(X)                                                                    \
    X(ENGINE_POOLING_AUTO, "auto") /* as the file says; else mean for encoders, last for others */ \
    X(ENGINE_POOLING_MEAN, "mean")                                                                 \
    X(ENGINE_POOLING_CLS, "cls") /* of the first token */                                          \
    X(ENGINE_POOLING_LAST, "last")                                                                 \
    X(ENGINE_POOLING_RANK, "rank") /* a score, by the classifier of a reranker */

enum engine_pooling { ENGINE_POOLING_TABLE(TABLE_VALUE) ENGINE_POOLING_COUNT };

/* ended by NULL, in the order of the enum: an option's names */
extern const char *const engine_pooling_names[];

/* What a model makes of whole inputs; part of struct engine_facts. */
struct engine_embed {
    enum engine_pooling pooling; /* never AUTO */
    uint32_t size;               /* floats of a vector; of `rank`: scores, the first one counts */
    bool whole;                  /* an encoder: all tokens of an input are in one item */
    bool only;                   /* is not made for generating text */
    /* How a reranker reads a pair: its own form, with {query} and {document}; or NULL: the two
     * texts after one another, with the tokens that are not -1 around them. */
    const char *rank_form;
    int32_t rank_begin, rank_middle, rank_separator, rank_end;
};

struct engine;
struct engine_item;

/* As engine_run, but for the vectors of the items: their `logits` are 0 and their counts add up to
 * at most `chunk`. An encoder has no other way to run. */
enum err engine_embed(struct engine *engine, const struct engine_item *items, size_t count,
                      struct errinfo *info) NODISCARD;
/* The vector of item `index`, facts.embed.size floats, borrowed until the next run; NULL: the last
 * run computed none. */
const float *engine_embedding(struct engine *engine, size_t index);

/* Scales to length 1; a vector of zeros stays as it is. */
void embed_normalize(float *vector, size_t size);
/* Cosine of the angle between two vectors; 0 if one of them is zero. */
float embed_cosine(const float *a, const float *b, size_t size);

/*
 * lora.h: LoRA adapters of a loaded model, and the sets of them that requests choose.
 *
 *      --lora FILE[=SCALE]    loaded once, ids 0, 1, ... in the order of the options
 *      a set                  a scale for each id; 0 = not applied
 *
 * State that one set computed means nothing to another. So a set has its own fingerprint, and with
 * it its own space of the cache; without an applied adapter it is the model's own.
 *
 * An ACTIVATED adapter (aLoRA) names invocation tokens and is applied only from the last place in
 * the prompt where they are:
 *
 *      prompt    | .... before: the set without it .... | invocation .... with it .... answer |
 *      keys      | the tokens                           | salted tokens | the tokens          |
 *                0                                      from
 *
 * The state before `from` is that of the set without the adapter, in the same space. What follows
 * is kept apart by salted keys: the cache sees tokens there that no vocabulary has, and that depend
 * on the adapter and its scale.
 *
 * Threads: pure functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"

enum {
    LORA_MAX = 32,            /* adapters of a model */
    LORA_INVOCATION_MAX = 32, /* tokens */
    LORA_NAME_BYTES = 128,
    LORA_SCALE_MAX = 1000, /* that a request may ask for */
    /* salted keys: each has 31 bits of a hash, so eight tell any two sets apart */
    LORA_SALTED = 8,
};

/* An adapter to load. */
struct engine_adapter {
    const char *path; /* in GGUF */
    float scale;      /* of requests that choose no set */
};

struct lora_set {
    float scale[LORA_MAX]; /* finite; never -0 */
};

struct lora_adapter {
    char name[LORA_NAME_BYTES]; /* of its file, without the folder */
    struct hash256 digest;      /* of all its bytes */
    int32_t invocation[LORA_INVOCATION_MAX];
    uint32_t invocation_count; /* 0 = not activated: it is applied from the first token on */
};

struct lora_facts {
    uint32_t count;
    struct lora_adapter list[LORA_MAX];
    struct lora_set initial; /* the scales of the options */
};

bool lora_set_eq(const struct lora_set *a, const struct lora_set *b);

/* ERR_INVALID: it applies an adapter that does not exist, a scale is not finite, or more than one
 * activated adapter is applied. */
enum err lora_set_check(const struct lora_facts *facts, const struct lora_set *set,
                        struct errinfo *info) NODISCARD;

/* A set without its activated adapter: what applies before the invocation. */
struct lora_set lora_set_before(const struct lora_facts *facts, const struct lora_set *set);

/* The fingerprint of the space that a request with this set uses: of lora_set_before. `base` is
 * the model's own. */
struct hash256 lora_fingerprint(const struct hash256 *base, const struct lora_facts *facts,
                                const struct lora_set *set);

/* Which set computes which tokens of a prompt. */
struct lora_plan {
    struct lora_set before, after;
    uint32_t from; /* tokens that `before` computes; UINT32_MAX: there is no invocation */
};

struct lora_plan lora_plan_make(const struct lora_facts *facts, const struct lora_set *set,
                                const int32_t *tokens, uint32_t count);

/* The set for a token at this place. */
const struct lora_set *lora_plan_at(const struct lora_plan *plan, uint32_t at);

/* Salts the keys of a prompt of `count` tokens, in place, and undoes it for tokens
 * [begin, begin + count) of a prompt of `end` tokens. No-ops without an invocation. */
void lora_salt(const struct lora_facts *facts, const struct lora_plan *plan, uint32_t vocab,
               int32_t *tokens, uint32_t count);
bool lora_is_salted(const struct lora_plan *plan, uint32_t begin, uint32_t count, uint32_t end);
void lora_unsalt(const struct lora_facts *facts, const struct lora_plan *plan, uint32_t vocab,
                 int32_t *tokens, uint32_t begin, uint32_t count, uint32_t end);

/*
 * lora.c: see the header.
 *
 * A salted key is vocab + (part of a hash + token) modulo the room above the vocabulary. That is a
 * rotation, so it can be undone, and different tokens keep different keys.
 */
#include "engine/lora.h"

#include <math.h>
#include <string.h>

#include "base/le.h"

static bool is_activated(const struct lora_facts *facts, size_t id, const struct lora_set *set)
{
    return set->scale[id] != 0 && facts->list[id].invocation_count > 0;
}

bool lora_set_eq(const struct lora_set *a, const struct lora_set *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

enum err lora_set_check(const struct lora_facts *facts, const struct lora_set *set,
                        struct errinfo *info)
{
    size_t activated = 0;

    for (size_t i = 0; i < LORA_MAX; i++) {
        if (!isfinite(set->scale[i]))
            return err_set(info, ERR_INVALID, "the scale of adapter %zu is not a number", i);
        if (i >= facts->count && set->scale[i] != 0)
            return err_set(info, ERR_INVALID, "there is no adapter %zu: the model has %u", i,
                           facts->count);
        activated += i < facts->count && is_activated(facts, i, set);
    }
    if (activated > 1)
        return err_set(info, ERR_INVALID,
                       "only one adapter with invocation tokens can be applied at a time");
    return ERR_OK;
}

struct lora_set lora_set_before(const struct lora_facts *facts, const struct lora_set *set)
{
    struct lora_set before = *set;

    for (size_t i = 0; i < facts->count; i++)
        if (is_activated(facts, i, set))
            before.scale[i] = 0;
    return before;
}

static void hash_adapter(struct hash256_state *state, const struct lora_adapter *adapter,
                         float scale)
{
    uint32_t bits;

    memcpy(&bits, &scale, sizeof(bits));
    hash256_update(state, adapter->digest.bytes, HASH256_BYTES);
    hash256_update_u32(state, bits);
}

struct hash256 lora_fingerprint(const struct hash256 *base, const struct lora_facts *facts,
                                const struct lora_set *set)
{
    struct lora_set before = lora_set_before(facts, set);
    struct hash256_state state;
    bool any = false;

    hash256_init(&state);
    hash256_update_framed(&state, "hearth lora", 11);
    hash256_update(&state, base->bytes, HASH256_BYTES);
    for (size_t i = 0; i < facts->count; i++) {
        if (before.scale[i] == 0)
            continue;
        hash_adapter(&state, &facts->list[i], before.scale[i]);
        any = true;
    }
    return any ? hash256_final(&state) : *base;
}

/* ---- activated adapters ---- */

/* The id of the activated adapter of a set; `count` when there is none. */
static size_t activated_of(const struct lora_facts *facts, const struct lora_set *set)
{
    size_t id = 0;

    while (id < facts->count && !is_activated(facts, id, set))
        id++;
    return id;
}

/* The last place of the invocation; UINT32_MAX: it is not there. */
static uint32_t find_invocation(const struct lora_adapter *adapter, const int32_t *tokens,
                                uint32_t count)
{
    uint32_t len = adapter->invocation_count;

    for (uint32_t at = count >= len ? count - len + 1 : 0; at-- > 0;)
        if (memcmp(tokens + at, adapter->invocation, len * sizeof(*tokens)) == 0)
            return at;
    return UINT32_MAX;
}

struct lora_plan lora_plan_make(const struct lora_facts *facts, const struct lora_set *set,
                                const int32_t *tokens, uint32_t count)
{
    struct lora_set before = lora_set_before(facts, set);
    struct lora_plan plan = {.before = before, .after = before, .from = UINT32_MAX};
    size_t id = activated_of(facts, set);

    if (id < facts->count)
        plan.from = find_invocation(&facts->list[id], tokens, count);
    if (plan.from != UINT32_MAX)
        plan.after = *set;
    return plan;
}

const struct lora_set *lora_plan_at(const struct lora_plan *plan, uint32_t at)
{
    return at < plan->from ? &plan->before : &plan->after;
}

/* ---- keys ---- */

/* The end of the salted keys of a prompt of `end` tokens. */
static uint32_t salted_end(const struct lora_plan *plan, uint32_t end)
{
    return plan->from == UINT32_MAX ? 0 : MIN(end, plan->from + LORA_SALTED);
}

bool lora_is_salted(const struct lora_plan *plan, uint32_t begin, uint32_t count, uint32_t end)
{
    return begin + count > plan->from && begin < salted_end(plan, end);
}

static void rotate(const struct lora_facts *facts, const struct lora_plan *plan, uint32_t vocab,
                   int32_t *token, uint32_t at, bool back)
{
    size_t id = activated_of(facts, &plan->after);
    uint64_t room = (UINT64_C(1) << 31) - vocab;
    struct hash256_state state;

    hash256_init(&state);
    hash256_update_framed(&state, "hearth alora", 12);
    hash_adapter(&state, &facts->list[id], plan->after.scale[id]);
    struct hash256 hash = hash256_final(&state);
    uint64_t turn = le_get_u32(hash.bytes + (at - plan->from) * sizeof(uint32_t)) % room;
    if (back)
        *token = (int32_t)(((uint64_t)*token - vocab + room - turn) % room);
    else
        *token = (int32_t)(vocab + ((uint64_t)*token + turn) % room);
}

void lora_salt(const struct lora_facts *facts, const struct lora_plan *plan, uint32_t vocab,
               int32_t *tokens, uint32_t count)
{
    for (uint32_t at = plan->from; at < salted_end(plan, count); at++)
        rotate(facts, plan, vocab, &tokens[at], at, false);
}

void lora_unsalt(const struct lora_facts *facts, const struct lora_plan *plan, uint32_t vocab,
                 int32_t *tokens, uint32_t begin, uint32_t count, uint32_t end)
{
    uint32_t last = MIN(begin + count, salted_end(plan, end));

    for (uint32_t at = MAX(plan->from, begin); at < last; at++)
        rotate(facts, plan, vocab, &tokens[at - begin], at, true);
}

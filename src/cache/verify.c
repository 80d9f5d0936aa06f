/*
 * verify.c: verifying the bytes of cached objects, one by one, without blocking other work.
 *
 *      place (contents.c) --> the next object of the tier, leased --> its bytes are read, without the
 *      lock --> intact: nothing happens; damaged: it leaves the tier
 *
 * IN A SLOWER TIER the tier reads the whole object and compares (tier.h: verify); it quarantines a
 * damaged object itself. If memory has the object, it is written again. If no tier has it, it is
 * forgotten.
 *
 * IN MEMORY no digest is computed on arrival: an export is not read again, and objects from a
 * slower tier were verified there. So a comparison is possible only when a slower tier has the
 * object, or when an earlier verification left its digest. Two tiers may have different bytes for
 * the same tokens, computed twice: both are correct.
 *
 * Use counts and order do not change. Other threads see nothing but a lease.
 */
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "cache/cache.h"

enum { SKIPPED_AT_ONCE = 256, PIECE_BYTES = 4 << 20 };

struct verification {
    struct hearth_cache *cache;
    struct hearth_verify_options options;
    struct hearth_verified result;
    uint64_t started_ns;
    struct tier_answer answer;
};

/* ---- pace ---- */

/* Sleeps while ahead of the configured rate. */
static void keep_pace(const struct verification *verification, uint64_t bytes)
{
    uint64_t rate = verification->options.bytes_per_s;

    if (rate == 0)
        return;
    double due_ns = (double)bytes / (double)rate * (double)NS_PER_S;
    double spent_ns = (double)(clock_mono_ns(clock_real()) - verification->started_ns);
    if (due_ns > spent_ns)
        clock_sleep_ns(clock_real(), (uint64_t)(due_ns - spent_ns));
}

static bool wants_more(const struct verification *verification)
{
    const struct hearth_verify_options *options = &verification->options;

    return options->more == NULL || options->more(&verification->result, options->arg);
}

/* ---- handling damage ---- */

static void note_damage(struct verification *verification, const struct object *object,
                        struct deferred *deferred)
{
    struct hearth_cache *cache = verification->cache;
    struct hearth_event event =
        cache_object_event(object, HEARTH_EVENT_VERIFY_FAIL, verification->options.tier);

    event.reason = HEARTH_REASON_UNVERIFIED;
    verification->result.damaged++;
    object->space->stats.verify_failures++;
    /* slower tiers count their own */
    cache->tiers[HEARTH_TIER_RAM].counts.errors += event.tier == HEARTH_TIER_RAM;
    cache_note_event(cache, deferred, &event);
}

/* Removes it from memory; everywhere when no other tier has it or its bytes are leased. */
static void leave_memory(struct object *object, struct deferred *deferred)
{
    if (object->in & TIER_BITS_SLOWER && room_demote(object, deferred))
        return;
    object->damaged = true;
    room_drop(object, deferred);
}

/* The tier has quarantined the object, or had lost it before. */
static void leave_slower(struct object *object, enum hearth_tier level, struct deferred *deferred)
{
    bool in_memory = object->data != NULL;

    object->damaged |= object->in == TIER_BIT(level);
    room_leave_tier(object, level, deferred);
    if (in_memory)
        mover_write(object, deferred);
}

/* ---- in memory ---- */

/* Half a digest is enough to detect damage, and there may be a million of them. Never 0. */
static uint64_t half_of(const struct hash128 *digest)
{
    uint64_t half;

    memcpy(&half, digest->bytes, sizeof(half));
    return MAX(half, 1);
}

static uint64_t digest_memory(const struct verification *verification, const struct object *object)
{
    struct hash128_state state;

    hash128_init(&state);
    for (uint64_t at = 0; at < object->bytes;) {
        size_t piece = MIN(object->bytes - at, PIECE_BYTES);
        hash128_update(&state, (const char *)object->data + at, piece);
        at += piece;
        keep_pace(verification, verification->result.bytes + at);
    }
    struct hash128 digest = hash128_final(&state);
    return half_of(&digest);
}

/* Whether the bytes equal those of one of the tiers, or of an earlier verification (`before`).
 * Without any of these *known is false. Call without the lock. */
static bool is_right(struct hearth_cache *cache, const struct hash256 *key, uint32_t tiers,
                     uint64_t found, uint64_t before, bool *known)
{
    struct hash128 digest;
    bool right = false;

    *known = false;
    for (int level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++) {
        struct tier *tier = cache->tiers[level].tier;
        if (!(tiers & TIER_BIT(level)) || tier->ops->digest == NULL ||
            !tier->ops->digest(tier, key, &digest))
            continue;
        *known = true;
        right |= half_of(&digest) == found;
    }
    if (*known)
        return right;
    *known = before != 0;
    return before == found;
}

/* The object is leased; unlocks while its bytes are read. */
static void verify_memory(struct verification *verification, struct object *object,
                          struct deferred *deferred)
{
    struct hearth_cache *cache = verification->cache;
    uint64_t before = object->digest;
    uint32_t tiers = object->in;
    bool known;

    cache_leave(cache, deferred);
    uint64_t found = digest_memory(verification, object);
    bool right = is_right(cache, &object->key, tiers, found, before, &known);
    cache_enter(cache, deferred);
    bool damaged = known && !right;
    verification->result.unknown += !known;
    if (!damaged)
        object->digest = found;
    else
        note_damage(verification, object, deferred);
    bool leaves = damaged && !object->dropped;
    verification->result.dropped += leaves;
    room_unlease(object, deferred); /* frees the object if it was dropped meanwhile */
    if (leaves)
        leave_memory(object, deferred);
}

/* ---- in a slower tier ---- */

static void verify_slower(struct verification *verification, struct object *object,
                          struct deferred *deferred)
{
    struct hearth_cache *cache = verification->cache;
    enum hearth_tier level = verification->options.tier;
    struct tier *tier = cache->tiers[level].tier;

    cache_leave(cache, deferred);
    tier->ops->verify(tier, &object->key, tier_answer_done, &verification->answer);
    enum tier_result answer = tier_answer_wait(&verification->answer);
    keep_pace(verification, verification->result.bytes + object->bytes);
    cache_enter(cache, deferred);
    if (answer == TIER_DAMAGED)
        note_damage(verification, object, deferred);
    verification->result.failed += answer != TIER_OK && answer != TIER_DAMAGED;
    bool gone = answer == TIER_DAMAGED || answer == TIER_MISSING;
    bool leaves = gone && !object->dropped && object->in & TIER_BIT(level);
    verification->result.dropped += leaves && answer == TIER_DAMAGED;
    room_unlease(object, deferred);
    if (leaves)
        leave_slower(object, level, deferred);
}

/* ---- all of them ---- */

/* The next object of the tier, leased; NULL at the end. Unlocks now and then. */
static struct object *take_next(struct verification *verification, struct place *place,
                                struct deferred *deferred)
{
    struct hearth_cache *cache = verification->cache;
    struct object *object;
    size_t skipped = 0;

    while ((object = place_next(place)) != NULL &&
           !(object->in & TIER_BIT(verification->options.tier))) {
        if (++skipped % SKIPPED_AT_ONCE == 0) {
            cache_leave(cache, deferred);
            cache_enter(cache, deferred);
        }
    }
    if (object != NULL)
        room_lease(object);
    return object;
}

static void verify_all(struct verification *verification)
{
    struct hearth_cache *cache = verification->cache;
    bool in_memory = verification->options.tier == HEARTH_TIER_RAM, more = true;
    struct deferred deferred;
    struct object *object;
    struct place place;

    cache_enter(cache, &deferred);
    manage_expire_due(cache, &deferred);
    place_begin(&place, cache, verification->options.space);
    while (more && (object = take_next(verification, &place, &deferred)) != NULL) {
        uint64_t bytes = object->bytes;
        if (in_memory)
            verify_memory(verification, object, &deferred);
        else
            verify_slower(verification, object, &deferred);
        verification->result.objects++;
        verification->result.bytes += bytes;
        cache_leave(cache, &deferred);
        more = wants_more(verification);
        cache_enter(cache, &deferred);
    }
    place_end(&place);
    cache_leave(cache, &deferred);
}

int hearth_verify(struct hearth_cache *cache, const struct hearth_verify_options *options,
                  struct hearth_verified *result)
{
    struct verification verification = {.cache = cache, .started_ns = clock_mono_ns(clock_real())};

    *result = (struct hearth_verified){0};
    memcpy(&verification.options, options, MIN(options->struct_size, sizeof(verification.options)));
    enum hearth_tier level = verification.options.tier;
    if ((unsigned)level >= HEARTH_TIER_COUNT)
        return HEARTH_ERROR_INVALID;
    const struct tier *tier = cache->tiers[level].tier;
    if (level != HEARTH_TIER_RAM && (tier == NULL || tier->ops->verify == NULL))
        return HEARTH_ERROR_INVALID;
    sweep_tiers(cache);
    tier_answer_init(&verification.answer);
    verify_all(&verification);
    tier_answer_fini(&verification.answer);
    *result = verification.result;
    return HEARTH_OK;
}

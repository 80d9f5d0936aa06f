/*
 * replace.c: what a growing conversation supersedes.
 *
 * Blocks are stored once and shared, and longer rows displace shorter ones of the same tokens
 * (index.c); neither loses anything. These are left over from earlier turns and useless to a
 * conversation that continues:
 *
 *      snapshots     --anchor-------E1---G1---------E2---G2---------E3---G3
 *                    E: end of the prompt - 1, G: end of the answer
 *      turn 3 resumed at G2: E1, G1 and E2 are superseded. G2 is not: editing the last message or
 *      asking again returns to it. Snapshots before transient text are superseded like ends, and
 *      so are guesses (places where prompts might have diverged)
 *
 *      tails         ------------------[ old tail ]                              superseded
 *                                       '--[ this turn's prompt continues here ]
 *
 * Superseded objects are not dropped: they are the first to be evicted when room is needed, and
 * can be found until then. A use makes them equal to any other again. So an edit or a branch loses
 * nothing that there is room for (keeps I92).
 *
 * All of this happens only after a good hit: then the reused tokens belong to this conversation
 * (policy_may_replace; keeps I13, I14). A short prefix that two conversations share supersedes
 * nothing. Never superseded: anchors, objects that several conversations share, pinned objects,
 * and snapshots at which others branch or were seen to (junctions, the grid, the start of the last
 * message).
 */
#include "base/attr.h"
#include "cache/cache.h"

static uint32_t prompt_of(const struct hearth_store *store)
{
    return store->hints.prompt ? store->hints.prompt : (uint32_t)store->count;
}

static bool is_good_hit(const struct hearth_store *store)
{
    return policy_may_replace(store->hints.resumed, prompt_of(store), store->hints.anchor);
}

bool replace_is_turn_end(const struct hearth_store *store)
{
    return store->end + 1 >= prompt_of(store) || store->end == store->hints.transient;
}

void replace_tail(struct hearth_store *store, struct deferred *deferred)
{
    if (!is_good_hit(store))
        return;
    struct index_match match = store_match(store, (uint32_t)store->count);
    struct object *rows = match.partial ? node_rows(match.partial) : NULL;
    /* Without its own new tail, the prompt ends inside this one. */
    if (rows == NULL || !room_is_tail(rows) || match.tokens == store->count)
        return;
    bool reused = store->hints.resumed > rows->begin;
    if (reused && match.tokens < rows->end && !room_is_pinned(rows))
        room_supersede(rows, deferred);
}

static bool may_supersede(const struct hearth_store *store, const struct object *snapshot)
{
    return (snapshot->turn_end || snapshot->guess) && snapshot->end < store->hints.resumed &&
           snapshot->end > store->hints.anchor && snapshot->entry != HEARTH_ENTRY_SYSTEM &&
           !snapshot->shared && !room_is_pinned(snapshot);
}

void replace_snapshots(struct hearth_store *store, const struct object *snapshot,
                       struct deferred *deferred)
{
    if (snapshot->end <= store->hints.resumed || !is_good_hit(store))
        return;
    struct index_match match = store_match(store, store->hints.resumed);
    for (size_t i = 0; i < index_match_length(&match); i++) {
        struct node *node = index_match_node(&match, i);
        uint32_t at = MIN(node_end(node), store->hints.resumed);
        struct object *old;
        while (at > node_begin(node) && (old = node_snapshot_below(node, at)) != NULL) {
            if (may_supersede(store, old))
                room_supersede(old, deferred);
            at = old->end - 1;
        }
    }
}

/* ---- a conversation that has ended ---- */

/* `deferred` NULL: demotes it instead. */
static bool release_object(struct object *object, struct deferred *deferred)
{
    if (object == NULL || object->shared || object->superseded ||
        object->entry == HEARTH_ENTRY_SYSTEM || room_is_pinned(object))
        return false;
    if (deferred != NULL)
        room_supersede(object, deferred);
    else
        room_evict_first(object);
    return true;
}

/* Objects of the node after `keep`. */
static size_t release_node(struct node *node, uint32_t keep, struct deferred *deferred)
{
    struct object *rows = node_rows(node), *snapshot;
    uint32_t at = node_end(node);
    size_t count = 0;

    if (rows != NULL && rows->begin >= keep)
        count += release_object(rows, deferred);
    count += node_begin(node) >= keep && release_object(node_sliding(node), deferred);
    while (at > MAX(node_begin(node), keep) && (snapshot = node_snapshot_below(node, at)) != NULL &&
           snapshot->end > keep) {
        count += release_object(snapshot, deferred);
        at = snapshot->end - 1;
    }
    return count;
}

static size_t release(struct hearth_space *space, const int32_t *tokens, size_t count,
                      uint32_t keep, bool demote)
{
    struct deferred deferred;
    struct deferred *to = demote ? NULL : &deferred;
    size_t released = 0;

    if (count == 0 || count > CACHE_TOKENS_MAX)
        return 0;
    cache_enter(space->cache, &deferred);
    manage_expire_due(space->cache, &deferred);
    struct index_match match = index_match(space->index, tokens, count);
    for (size_t i = 0; i < index_match_length(&match); i++)
        released += release_node(index_match_node(&match, i), keep, to);
    cache_leave(space->cache, &deferred);
    return released;
}

size_t hearth_release(struct hearth_space *space, const int32_t *tokens, size_t count,
                      uint32_t keep)
{
    return release(space, tokens, count, keep, false);
}

size_t hearth_demote(struct hearth_space *space, const int32_t *tokens, size_t count, uint32_t keep)
{
    return release(space, tokens, count, keep, true);
}

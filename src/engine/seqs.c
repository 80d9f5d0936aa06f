/*
 * seqs.c: sequences as paths in a tree of spans.
 *
 * A span is used whole or not at all: when a sequence is cut inside a shared span, the span is
 * split for all of its users. Spans with the same users are joined again. So the number of spans
 * depends only on the current sharing, however often sequences fork, shorten and end:
 *
 *      S1  a slot's length is the sum of its spans, none of which is empty
 *      S2  a span's `users` is the number of slots that list it, and all of them list the same
 *          spans before it
 *      S3  `users` falls from span to span of a slot; what has the same users is one span
 *          (so a slot lists at most as many spans as there are slots)
 *      S4  cells_used is the sum over all spans
 *      S5  slots that are free or retired have no spans
 *
 *              acquire, claim, fork                seqs_break
 *      FREE ----------------------------> LIVE ------------------> BROKEN
 *        ^  ^                              |  '-- seqs_retire -> RETIRED |
 *        |  '------- seqs_recycle -------------------------------'       |
 *        '---------- seqs_release ---------+-----------------------------'
 *
 * With `streams` nothing is shared: a fork gets its own span. This module does not know which cell
 * of the library holds which token, or whether the library has the same length; engine.c compares
 * that.
 */
#include "engine/seqs.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

static struct seqs_slot *get_live(struct seqs *seqs, int32_t slot)
{
    assert(seqs_live(seqs, slot));
    return &seqs->slots[slot];
}

static struct seqs_span *last_span(const struct seqs_slot *slot)
{
    return slot->spans_count > 0 ? slot->spans[slot->spans_count - 1] : NULL;
}

/* Puts a span into the list at `index`; the caller counts the user. */
static void insert_span(struct seqs_slot *slot, size_t index, struct seqs_span *span)
{
    assert(index <= slot->spans_count);
    mem_reserve_one(&slot->spans, slot->spans_count, &slot->spans_cap, sizeof(span));
    memmove(slot->spans + index + 1, slot->spans + index,
            (slot->spans_count - index) * sizeof(*slot->spans));
    slot->spans[index] = span;
    slot->spans_count++;
}

static void remove_span(struct seqs_slot *slot, size_t index)
{
    assert(index < slot->spans_count);
    slot->spans_count--;
    memmove(slot->spans + index, slot->spans + index + 1,
            (slot->spans_count - index) * sizeof(*slot->spans));
}

/* The index of the span in the slot's list, or SIZE_MAX. */
static size_t find_span(const struct seqs_slot *slot, const struct seqs_span *span)
{
    for (size_t i = 0; i < slot->spans_count; i++)
        if (slot->spans[i] == span)
            return i;
    return SIZE_MAX;
}

/* The span keeps its first `length` tokens; a new one after it, in every slot that lists it, takes
 * the others. */
static void split_span(struct seqs *seqs, struct seqs_span *span, uint32_t length)
{
    struct seqs_span *rest = mem_alloc(sizeof(*rest));

    assert(length > 0 && length < span->length);
    rest->length = span->length - length;
    rest->users = span->users;
    span->length = length;
    for (uint32_t i = 0; i < seqs->slots_count; i++) {
        size_t at = find_span(&seqs->slots[i], span);
        if (at != SIZE_MAX)
            insert_span(&seqs->slots[i], at + 1, rest);
    }
}

/* Joins `after` to the span before it, in every slot that lists them (they are the same slots, by
 * S2). */
static void join_spans(struct seqs *seqs, struct seqs_span *span, struct seqs_span *after)
{
    assert(span->users == after->users);
    for (uint32_t i = 0; i < seqs->slots_count; i++) {
        size_t at = find_span(&seqs->slots[i], after);
        if (at != SIZE_MAX) {
            assert(at > 0 && seqs->slots[i].spans[at - 1] == span);
            remove_span(&seqs->slots[i], at);
        }
    }
    span->length += after->length;
    mem_free(after);
}

/* Restores S3 after a slot stopped using spans. Only a span that has just lost a user can have the
 * users of a span after it, and it is in the list of each of those; so a walk over all lists finds
 * every pair. */
static void join_all(struct seqs *seqs)
{
    for (uint32_t i = 0; i < seqs->slots_count; i++) {
        struct seqs_slot *slot = &seqs->slots[i];
        for (size_t at = 0; at + 1 < slot->spans_count;) {
            if (slot->spans[at]->users == slot->spans[at + 1]->users)
                join_spans(seqs, slot->spans[at], slot->spans[at + 1]);
            else
                at++;
        }
    }
}

/* Removes the last span from the slot. */
static void drop_last(struct seqs *seqs, struct seqs_slot *slot)
{
    struct seqs_span *span = last_span(slot);

    slot->spans_count--;
    slot->length -= span->length;
    if (--span->users == 0) {
        seqs->cells_used -= span->length;
        mem_free(span);
    }
}

static void drop_all(struct seqs *seqs, struct seqs_slot *slot)
{
    while (slot->spans_count > 0)
        drop_last(seqs, slot);
    slot->folds_count = 0;
    join_all(seqs);
}

static void add_span(struct seqs *seqs, struct seqs_slot *slot, uint32_t length)
{
    struct seqs_span *span = mem_alloc(sizeof(*span));

    span->length = length;
    span->users = 1;
    insert_span(slot, slot->spans_count, span);
    slot->length += length;
    seqs->cells_used += length;
}

static uint32_t count_state(const struct seqs *seqs, enum seqs_slot_state state)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < seqs->slots_count; i++)
        count += seqs->slots[i].state == state;
    return count;
}

void seqs_init(struct seqs *seqs, uint32_t slots, uint32_t cells, bool streams)
{
    assert(slots >= 1 && slots <= SEQS_SLOTS_MAX);
    assert(!streams || cells <= UINT32_MAX / slots); /* so that cells_used cannot wrap */
    *seqs = (struct seqs){.slots_count = slots, .cells = cells, .streams = streams};
}

void seqs_fini(struct seqs *seqs)
{
    for (uint32_t i = 0; i < seqs->slots_count; i++) {
        drop_all(seqs, &seqs->slots[i]);
        mem_free(seqs->slots[i].spans);
        mem_free(seqs->slots[i].folds);
    }
    assert(seqs->cells_used == 0);
    *seqs = (struct seqs){0};
}

void seqs_claim(struct seqs *seqs, int32_t slot)
{
    assert(slot >= 0 && (uint32_t)slot < seqs->slots_count);
    struct seqs_slot *s = &seqs->slots[slot];
    assert(s->state == SEQS_FREE && s->length == 0 && s->spans_count == 0);
    s->state = SEQS_LIVE;
}

int32_t seqs_acquire(struct seqs *seqs)
{
    for (uint32_t i = 0; i < seqs->slots_count; i++) {
        if (seqs->slots[i].state == SEQS_FREE) {
            seqs_claim(seqs, (int32_t)i);
            return (int32_t)i;
        }
    }
    return SEQS_NONE;
}

int32_t seqs_fork(struct seqs *seqs, int32_t from)
{
    struct seqs_slot *source = get_live(seqs, from);
    int32_t to = seqs_acquire(seqs);

    if (to == SEQS_NONE)
        return SEQS_NONE;
    struct seqs_slot *slot = &seqs->slots[to];
    for (size_t i = 0; i < source->folds_count; i++)
        seqs_fold(seqs, to, source->folds[i]);
    if (seqs->streams) {
        if (source->length > 0)
            add_span(seqs, slot, source->length);
        return to;
    }
    for (size_t i = 0; i < source->spans_count; i++) {
        source->spans[i]->users++;
        insert_span(slot, i, source->spans[i]);
    }
    slot->length = source->length;
    return to;
}

void seqs_release(struct seqs *seqs, int32_t slot)
{
    assert(slot >= 0 && (uint32_t)slot < seqs->slots_count);
    struct seqs_slot *s = &seqs->slots[slot];
    assert(s->state == SEQS_LIVE || s->state == SEQS_BROKEN);
    s->state = SEQS_FREE;
    drop_all(seqs, s);
}

void seqs_append(struct seqs *seqs, int32_t slot, uint32_t tokens)
{
    struct seqs_slot *s = get_live(seqs, slot);
    struct seqs_span *last = last_span(s);

    assert(tokens <= seqs->cells - (seqs->streams ? s->length : seqs->cells_used));
    if (tokens == 0)
        return;
    if (last == NULL || last->users > 1) {
        add_span(seqs, s, tokens);
        return;
    }
    last->length += tokens;
    s->length += tokens;
    seqs->cells_used += tokens;
}

void seqs_truncate(struct seqs *seqs, int32_t slot, uint32_t length)
{
    struct seqs_slot *s = get_live(seqs, slot);

    assert(length <= s->length);
    while (s->length > length) {
        struct seqs_span *last = last_span(s);
        uint32_t excess = s->length - length;
        if (excess < last->length)
            split_span(seqs, last, last->length - excess);
        drop_last(seqs, s);
    }
    join_all(seqs);
    seqs_unfold(seqs, slot, length);
}

void seqs_fold(struct seqs *seqs, int32_t slot, struct seqs_fold fold)
{
    struct seqs_slot *s = get_live(seqs, slot);

    assert(fold.begin < fold.end && fold.positions > 0);
    assert(s->folds_count == 0 || s->folds[s->folds_count - 1].end <= fold.begin);
    mem_reserve_one(&s->folds, s->folds_count, &s->folds_cap, sizeof(fold));
    s->folds[s->folds_count++] = fold;
}

void seqs_unfold(struct seqs *seqs, int32_t slot, uint32_t length)
{
    struct seqs_slot *s = get_live(seqs, slot);

    while (s->folds_count > 0 && s->folds[s->folds_count - 1].end > length)
        s->folds_count--;
}

uint32_t seqs_position(const struct seqs *seqs, int32_t slot, uint32_t token)
{
    const struct seqs_slot *s = &seqs->slots[slot];
    uint32_t position = seqs_floor(seqs, slot, token);

    for (size_t i = 0; i < s->folds_count && s->folds[i].end <= token; i++)
        position += s->folds[i].positions - (s->folds[i].end - s->folds[i].begin);
    return position;
}

uint32_t seqs_floor(const struct seqs *seqs, int32_t slot, uint32_t length)
{
    const struct seqs_slot *s = &seqs->slots[slot];

    for (size_t i = 0; i < s->folds_count && s->folds[i].begin < length; i++)
        if (length < s->folds[i].end)
            return s->folds[i].begin;
    return length;
}

void seqs_break(struct seqs *seqs, int32_t slot)
{
    get_live(seqs, slot)->state = SEQS_BROKEN;
}

void seqs_retire(struct seqs *seqs, int32_t slot)
{
    struct seqs_slot *s = get_live(seqs, slot);

    s->state = SEQS_RETIRED;
    drop_all(seqs, s);
}

void seqs_recycle(struct seqs *seqs)
{
    if (count_state(seqs, SEQS_LIVE) + count_state(seqs, SEQS_BROKEN) > 0)
        return;
    for (uint32_t i = 0; i < seqs->slots_count; i++)
        if (seqs->slots[i].state == SEQS_RETIRED)
            seqs->slots[i].state = SEQS_FREE;
}

bool seqs_live(const struct seqs *seqs, int32_t slot)
{
    return slot >= 0 && (uint32_t)slot < seqs->slots_count && seqs->slots[slot].state == SEQS_LIVE;
}

uint32_t seqs_length(const struct seqs *seqs, int32_t slot)
{
    assert(slot >= 0 && (uint32_t)slot < seqs->slots_count);
    return seqs->slots[slot].length;
}

uint32_t seqs_cells_free(const struct seqs *seqs)
{
    return seqs->streams ? seqs->cells : seqs->cells - seqs->cells_used;
}

uint32_t seqs_live_count(const struct seqs *seqs)
{
    return count_state(seqs, SEQS_LIVE);
}

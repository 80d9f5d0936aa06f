/*
 * index_pin.c: pins: paths of the tree that must stay.
 *
 *      pinned: "aabbc"        aabb -- c         the pin is at 5, and counted on both nodes
 *      it grows to "aabbcc"   aabb -- cc        the pin is still at 5, inside a longer node
 *      others come            aabb -+ cc
 *                                   '- cd       begins with the same five tokens, but is not pinned
 *
 * So a pin is more than a count on nodes: it knows its end and its last node, and is found by
 * exactly the tokens that it was created with. There are few pins, in one list; finding one
 * compares tokens with the candidates.
 */
#include <assert.h>

#include "base/mem.h"
#include "cache/index_impl.h"

static void count_on_path(const struct index *index, struct node *last, int delta)
{
    for (struct node *node = last; node->parent != NULL; node = node->parent) {
        uint32_t before = node->pins;
        assert(delta > 0 || before > 0);
        node->pins = delta > 0 ? before + 1 : before - 1;
        if ((before > 0) != (node->pins > 0))
            index_block_node(index, node, before == 0);
    }
}

bool index_pin(struct index *index, struct node *last, uint32_t end)
{
    struct index_pin *pin = NULL;

    assert(end > last->begin && end <= node_end(last));
    LIST_FOREACH (struct index_pin, other, &index->pins, link)
        if (other->last == last && other->end == end)
            pin = other;
    if (pin == NULL) {
        pin = mem_try_alloc(sizeof(*pin));
        if (pin == NULL)
            return false;
        *pin = (struct index_pin){.last = last, .end = end};
        list_push_back(&index->pins, &pin->link);
    }
    pin->count++;
    count_on_path(index, last, 1);
    return true;
}

/* Whether the tokens of this path begin with those of the pin. Whole blocks are either on the
 * path or different. */
static bool is_of(const struct index *index, const struct index_pin *pin,
                  const struct index_match *match, const int32_t *tokens)
{
    const struct node *last = pin->last;
    size_t before = last->begin / index->block_tokens;
    uint32_t count = pin->end - last->begin;

    if (before > match->nodes_count)
        return false;
    const struct node *parent = before > 0 ? match->path[before - 1] : index->root;
    return last->parent == parent &&
           treap_common(last->tokens, tokens + last->begin, count) == count;
}

struct index_pin *index_find_pin(struct index *index, const int32_t *tokens, size_t count)
{
    struct index_pin *found = NULL;

    if (list_empty(&index->pins))
        return NULL;
    struct index_match match = index_match(index, tokens, count);
    LIST_FOREACH (struct index_pin, pin, &index->pins, link)
        if (pin->end <= count && (found == NULL || pin->end > found->end) &&
            is_of(index, pin, &match, tokens))
            found = pin;
    return found;
}

struct index_pin *index_find_pin_in(const struct index *index, const struct node *last)
{
    struct index_pin *found = NULL;

    LIST_FOREACH (struct index_pin, pin, &index->pins, link)
        if (pin->last == last && (found == NULL || pin->end > found->end))
            found = pin;
    return found;
}

struct node *index_pin_last(const struct index_pin *pin)
{
    return pin->last;
}

uint32_t index_pin_end(const struct index_pin *pin)
{
    return pin->end;
}

static void forget(struct index *index, struct index_pin *pin)
{
    list_remove(&index->pins, &pin->link);
    mem_free(pin);
}

void index_unpin(struct index *index, struct index_pin *pin)
{
    struct node *last = pin->last;

    count_on_path(index, last, -1);
    if (--pin->count == 0)
        forget(index, pin);
    index_prune(index, last);
}

uint64_t index_pin_bytes(void)
{
    return sizeof(struct index_pin);
}

void index_move_pins(struct index *index, const struct node *from, struct node *to)
{
    LIST_FOREACH (struct index_pin, pin, &index->pins, link)
        if (pin->last == from)
            pin->last = to;
}

void index_forget_pins(struct index *index)
{
    LIST_FOREACH_SAFE (struct index_pin, pin, &index->pins, link)
        forget(index, pin);
}

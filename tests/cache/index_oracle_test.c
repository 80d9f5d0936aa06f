/*
 * Random operations on the index against a model without a tree: a list of objects, each with the
 * whole string of tokens up to the end of its node (its cover), and a list of pinned strings. The
 * expected answers follow from comparing strings, one after the other. Blocks and alphabets are
 * tiny, so that branches, tails and ties are everywhere.
 */
#include "cache/index.h"

#include <string.h>

#include "base/mem.h"
#include "support/cache_check.h"
#include "support/test.h"

enum { OBJECTS = 24, PINS = 64, TOKENS_MAX = 14 };

#ifdef HEARTH_DEBUG
enum { STEPS = 5000, CHECK_EVERY = 1 };
#else
enum { STEPS = 60000, CHECK_EVERY = 32 };
#endif

struct string {
    int32_t tokens[TOKENS_MAX];
    uint32_t count;
};

struct held {
    struct object object;
    struct string cover;
    bool live;
    bool told;    /* what on_change said */
    bool leaving; /* the model expects it to be dropped by this call */
};

struct pin {
    struct string string; /* of one node, or all that was pinned at once */
    uint32_t count;       /* 0: free */
};

struct bench {
    struct index *index;
    uint32_t block;
    uint32_t alphabet;
    uint64_t seed;
    struct held held[OBJECTS];
    struct pin pins[PINS]; /* of nodes */
    struct pin made[PINS]; /* as they were asked for */
    size_t attached, refused, displaced, grown, unaffordable,
        unpinned; /* that nothing is tested in vain */
};

/* ---- strings ---- */

static uint32_t common(const struct string *a, const struct string *b)
{
    uint32_t i = 0;

    while (i < a->count && i < b->count && a->tokens[i] == b->tokens[i])
        i++;
    return i;
}

static bool equal(const struct string *a, const struct string *b)
{
    return a->count == b->count && common(a, b) == a->count;
}

static bool begins_with(const struct string *a, const struct string *prefix)
{
    return common(a, prefix) == prefix->count;
}

static struct string cut(const struct string *a, uint32_t count)
{
    struct string s = *a;

    s.count = MIN(s.count, count);
    return s;
}

/* The string of the node that begins at `begin` on the way to `cover`. */
static struct string node_at(const struct bench *bench, const struct string *cover, uint32_t begin)
{
    return cut(cover, begin + bench->block);
}

static struct string string_of(const struct node *node)
{
    struct string s = {.count = node_end(node)};

    for (; node != NULL; node = node_parent(node))
        memcpy(&s.tokens[node_begin(node)], node_tokens(node),
               (node_end(node) - node_begin(node)) * sizeof(*s.tokens));
    return s;
}

static struct string *known(struct bench *bench, size_t i)
{
    if (i < OBJECTS)
        return bench->held[i].live ? &bench->held[i].cover : NULL;
    return bench->pins[i - OBJECTS].count ? &bench->pins[i - OBJECTS].string : NULL;
}

/* Something new, or something known that is cut, changed or continued. */
static struct string random_string(struct bench *bench)
{
    struct string s = {.count = 1 + (uint32_t)test_random_below(&bench->seed, TOKENS_MAX)};
    struct string *from = NULL;
    uint32_t keep = 0;

    for (int tries = 0; tries < 4 && from == NULL; tries++)
        from = known(bench, test_random_below(&bench->seed, OBJECTS + PINS / 4));
    if (from != NULL)
        keep = (uint32_t)test_random_below(&bench->seed, 2 * from->count);
    if (from != NULL && keep > from->count)
        keep = from->count;
    for (uint32_t i = 0; i < s.count; i++)
        s.tokens[i] =
            i < keep ? from->tokens[i] : (int32_t)test_random_below(&bench->seed, bench->alphabet);
    return s;
}

/* ---- the model ---- */

/* Who holds rows of this kind for the node `s` that begins at `begin`. */
static struct held *holder(struct bench *bench, enum hearth_object_kind kind,
                           const struct string *s, uint32_t begin)
{
    for (size_t i = 0; i < OBJECTS; i++) {
        struct held *h = &bench->held[i];
        if (!h->live || h->object.kind != kind || h->object.begin > begin ||
            h->cover.count <= begin)
            continue;
        struct string node = node_at(bench, &h->cover, begin);
        if (equal(&node, s))
            return h;
    }
    return NULL;
}

static struct held *snapshot(struct bench *bench, const struct string *s)
{
    for (size_t i = 0; i < OBJECTS; i++) {
        struct held *h = &bench->held[i];
        if (h->live && h->object.kind == HEARTH_OBJECT_SNAPSHOT && h->object.end == s->count &&
            begins_with(&h->cover, s))
            return h;
    }
    return NULL;
}

static uint32_t pins_of(const struct bench *bench, const struct string *s)
{
    for (size_t i = 0; i < PINS; i++)
        if (bench->pins[i].count && equal(&bench->pins[i].string, s))
            return bench->pins[i].count;
    return 0;
}

/* The first node of an object: of a snapshot the only one. */
static uint32_t first_begin(const struct bench *bench, const struct held *h)
{
    return h->object.kind == HEARTH_OBJECT_SNAPSHOT
               ? (h->cover.count - 1) / bench->block * bench->block
               : h->object.begin;
}

static bool evictable(struct bench *bench, const struct held *h)
{
    uint32_t begin = first_begin(bench, h);
    struct string first = node_at(bench, &h->cover, begin);

    for (; begin < h->cover.count; begin += bench->block) {
        struct string node = node_at(bench, &h->cover, begin);
        if (pins_of(bench, &node) > 0)
            return false;
    }
    for (size_t i = 0; i < OBJECTS && h->object.kind != HEARTH_OBJECT_SNAPSHOT; i++) {
        struct held *below = &bench->held[i];
        if (below != h && below->live && below->object.kind == HEARTH_OBJECT_ROWS &&
            begins_with(&below->cover, &first) && !begins_with(&h->cover, &below->cover))
            return false;
    }
    return true;
}

/* Inserting `s`: a tail that it extends grows, for all objects. */
static void model_grow(struct bench *bench, const struct string *s)
{
    struct string from = {.count = 0}, to;

    for (size_t i = 0; i < OBJECTS + PINS; i++) {
        struct string *t = known(bench, i);
        if (t != NULL && t->count % bench->block != 0 && t->count < s->count && begins_with(s, t))
            from = *t;
    }
    if (from.count == 0)
        return;
    bench->grown++;
    to = cut(s, (from.count / bench->block + 1) * bench->block);
    for (size_t i = 0; i < OBJECTS + PINS; i++) {
        struct string *t = known(bench, i);
        if (t != NULL && equal(t, &from))
            *t = to;
    }
}

static size_t model_nodes(struct bench *bench)
{
    struct string seen[(OBJECTS + PINS) * 2];
    size_t count = 0;

    for (size_t i = 0; i < OBJECTS + PINS; i++) {
        struct string *k = known(bench, i);
        for (uint32_t begin = 0; k != NULL && begin < k->count; begin += bench->block) {
            struct string node = node_at(bench, k, begin);
            size_t at = 0;
            while (at < count && !equal(&seen[at], &node))
                at++;
            if (at < count)
                continue;
            assert_true(count < COUNT_OF(seen));
            seen[count++] = node;
        }
    }
    return count;
}

/* ---- the index ---- */

static void on_change(struct object *object, bool is_evictable, void *arg)
{
    struct held *h = CONTAINER_OF(object, struct held, object);

    (void)arg;
    assert_true(h->told != is_evictable);
    h->told = is_evictable;
}

static void drop(struct object *object, void *arg)
{
    struct bench *bench = arg;
    struct held *h = CONTAINER_OF(object, struct held, object);

    assert_true(h->live && h->leaving && !h->told);
    assert_null(object->last);
    h->live = h->leaving = false;
    bench->displaced++;
}

/* NULL: no memory, by order. Checks that the node is one that may be returned. */
static struct node *insert(struct bench *bench, const struct string *s)
{
    struct fault fault = {0};
    bool longer_known = false, is_known = false;

    if (test_random_below(&bench->seed, 4) == 0) {
        fault_arm(&fault, 1 + (long)test_random_below(&bench->seed, 4), false);
        mem_set_fault(&fault);
    }
    uint64_t bytes = index_bytes(bench->index);
    struct node *node = index_insert(bench->index, s->tokens, s->count);
    mem_set_fault(NULL);
    bytes += ((s->count - 1) / bench->block + 1) * index_node_bytes(bench->block);
    assert_true(index_bytes(bench->index) <= bytes);
    assert_int_equal(node == NULL, atomic_load(&fault.fired) > 0);
    if (node == NULL) {
        bench->unaffordable++;
        return NULL;
    }
    model_grow(bench, s);
    struct string got = string_of(node);
    for (size_t i = 0; i < OBJECTS + PINS; i++) {
        struct string *k = known(bench, i);
        if (k == NULL || !begins_with(k, s))
            continue;
        struct string whole = node_at(bench, k, (s->count - 1) / bench->block * bench->block);
        longer_known = true;
        is_known |= equal(&got, &whole);
    }
    assert_true(longer_known ? is_known : equal(&got, s));
    return node;
}

/* Whether rows of these tokens, which end inside a node, are held by any node that begins with them. */
static bool tail_is_elsewhere(const struct bench *bench, const struct object *object,
                              const struct string *s)
{
    for (size_t i = 0; i < OBJECTS; i++) {
        const struct held *h = &bench->held[i];
        if (h->live && h->object.kind == object->kind && h->object.begin <= object->begin &&
            h->object.end >= object->end && begins_with(&h->cover, s))
            return true;
    }
    return false;
}

/* Whether the model would take it; marks what it would displace. */
static bool model_may_attach(struct bench *bench, const struct object *object,
                             const struct string *s, const struct string *cover)
{
    if (object->kind == HEARTH_OBJECT_SNAPSHOT)
        return snapshot(bench, s) == NULL;
    for (uint32_t begin = object->begin; begin < object->end; begin += bench->block) {
        struct string node = node_at(bench, cover, begin);
        struct held *h = holder(bench, object->kind, &node, begin);
        if (h != NULL && h->object.end >= MIN(object->end, node.count)) {
            for (size_t i = 0; i < OBJECTS; i++)
                bench->held[i].leaving = false;
            return false;
        }
        if (h != NULL)
            h->leaving = true;
    }
    if (s->count == cover->count || !tail_is_elsewhere(bench, object, s))
        return true;
    for (size_t i = 0; i < OBJECTS; i++)
        bench->held[i].leaving = false;
    return false;
}

static void step_store(struct bench *bench, struct held *h)
{
    struct string s = random_string(bench);
    enum hearth_object_kind kind =
        (enum hearth_object_kind)(1 + test_random_below(&bench->seed, 3));
    uint32_t blocks = s.count / bench->block, begin = blocks * bench->block;

    if (kind == HEARTH_OBJECT_SNAPSHOT)
        begin = 0;
    else if (begin == s.count)
        begin -= bench->block * (1 + (uint32_t)test_random_below(&bench->seed, blocks));
    struct node *node = insert(bench, &s);
    if (node == NULL)
        return;
    h->object = (struct object){.kind = kind, .begin = begin, .end = s.count};
    h->cover = string_of(node);
    bool may = model_may_attach(bench, &h->object, &s, &h->cover);
    assert_int_equal(index_may_attach(bench->index, node, &h->object), may);
    if (!may) {
        index_prune(bench->index, node);
        bench->refused++;
        return;
    }
    h->live = true;
    index_attach(bench->index, node, &h->object, drop, bench);
    for (size_t i = 0; i < OBJECTS; i++)
        assert_false(bench->held[i].leaving);
    bench->attached++;
}

static void step_detach(struct bench *bench, struct held *h)
{
    index_detach(bench->index, &h->object);
    assert_null(h->object.last);
    assert_false(h->told);
    h->live = false;
}

static void model_pin(struct pin *pins, const struct string *s, int delta)
{
    struct pin *free = NULL;

    for (size_t i = 0; i < PINS; i++) {
        struct pin *pin = &pins[i];
        if (pin->count && equal(&pin->string, s)) {
            pin->count = delta > 0 ? pin->count + 1 : pin->count - 1;
            return;
        }
        if (pin->count == 0)
            free = pin;
    }
    assert_true(delta > 0 && free != NULL);
    *free = (struct pin){.string = *s, .count = 1};
}

/* All nodes up to this one. */
static void model_pin_path(struct bench *bench, const struct node *node, int delta)
{
    struct string pinned = string_of(node);

    for (uint32_t begin = 0; begin < pinned.count; begin += bench->block) {
        struct string one = node_at(bench, &pinned, begin);
        model_pin(bench->pins, &one, delta);
    }
}

static void step_pin(struct bench *bench)
{
    struct string s = random_string(bench);
    struct index_match match = index_match(bench->index, s.tokens, s.count);
    struct node *node = match.partial;
    size_t used = 0;

    for (size_t i = 0; i < PINS; i++)
        used += bench->pins[i].count > 0;
    if (used + TOKENS_MAX > PINS / 2)
        return;
    if (node == NULL && match.nodes_count > 0)
        node = match.path[match.nodes_count - 1];
    if (node == NULL)
        return;
    s.count = match.tokens;
    model_pin_path(bench, node, 1);
    model_pin(bench->made, &s, 1);
    assert_true(index_pin(bench->index, node, s.count));
}

/* Undoes the longest pin that a string begins with. */
static void step_unpin(struct bench *bench)
{
    struct string s = random_string(bench);
    struct pin *expected = NULL;
    struct index_pin *pin = index_find_pin(bench->index, s.tokens, s.count);

    for (size_t i = 0; i < PINS; i++) {
        struct pin *made = &bench->made[i];
        if (made->count > 0 && begins_with(&s, &made->string) &&
            (expected == NULL || made->string.count > expected->string.count))
            expected = made;
    }
    assert_int_equal(pin != NULL, expected != NULL);
    if (pin == NULL)
        return;
    struct string last = string_of(index_pin_last(pin));
    assert_int_equal(index_pin_end(pin), expected->string.count);
    assert_true(begins_with(&last, &expected->string));
    model_pin_path(bench, index_pin_last(pin), -1);
    expected->count--;
    index_unpin(bench->index, pin);
    bench->unpinned++;
}

static void step_clear(struct bench *bench)
{
    size_t displaced = bench->displaced;

    for (size_t i = 0; i < OBJECTS; i++)
        bench->held[i].leaving = bench->held[i].live;
    memset(bench->pins, 0, sizeof(bench->pins));
    memset(bench->made, 0, sizeof(bench->made));
    index_clear(bench->index, drop, bench);
    bench->displaced = displaced;
    for (size_t i = 0; i < OBJECTS; i++)
        assert_false(bench->held[i].live);
}

/* ---- comparing ---- */

/* All components of a node whose string agrees with `s` up to `agree`. */
static void assert_node(struct bench *bench, const struct node *node, const struct string *s,
                        uint32_t agree)
{
    struct string whole = string_of(node);
    struct held *rows = holder(bench, HEARTH_OBJECT_ROWS, &whole, node_begin(node));
    struct held *sliding = holder(bench, HEARTH_OBJECT_SLIDING, &whole, node_begin(node));
    struct held *below = NULL;

    assert_true(common(&whole, s) >= agree);
    assert_ptr_equal(node_rows(node), rows ? &rows->object : NULL);
    assert_ptr_equal(node_sliding(node), sliding ? &sliding->object : NULL);
    assert_int_equal(node_rows_end(node),
                     rows ? MIN(rows->object.end, node_end(node)) : node_begin(node));
    assert_int_equal(node_is_tail(node), node_end(node) % bench->block != 0);
    assert_int_equal(node_pinned(node), pins_of(bench, &whole) > 0);
    assert_null(node_snapshot_below(node, node_begin(node)));
    for (uint32_t at = node_begin(node) + 1; at <= node_end(node); at++) {
        struct string exact = cut(&whole, at);
        struct held *here = snapshot(bench, &exact);
        below = here ? here : below;
        assert_ptr_equal(node_snapshot(node, at), here ? &here->object : NULL);
        assert_ptr_equal(node_snapshot_below(node, at), below ? &below->object : NULL);
    }
}

static void assert_match(struct bench *bench)
{
    struct string s = random_string(bench);
    struct index_match match = index_match(bench->index, s.tokens, s.count);
    uint32_t longest = 0, at = 0;

    for (size_t i = 0; i < OBJECTS + PINS; i++)
        if (known(bench, i) != NULL)
            longest = MAX(longest, common(known(bench, i), &s));
    assert_int_equal(match.tokens, longest);
    for (size_t i = 0; i < match.nodes_count; i++) {
        assert_int_equal(node_begin(match.path[i]), at);
        at = node_end(match.path[i]);
        assert_node(bench, match.path[i], &s, at);
    }
    assert_int_equal(match.tokens, at + match.partial_tokens);
    assert_int_equal(match.partial != NULL, match.partial_tokens > 0);
    if (match.partial != NULL) {
        assert_int_equal(node_begin(match.partial), at);
        assert_true(node_end(match.partial) > match.tokens);
        assert_node(bench, match.partial, &s, match.tokens);
    }
}

static void assert_all(struct bench *bench)
{
    size_t snapshots = 0, nodes = model_nodes(bench);

    index_check(bench->index);
    for (size_t i = 0; i < OBJECTS; i++) {
        struct held *h = &bench->held[i];
        assert_int_equal(h->told, h->live && evictable(bench, h));
        assert_int_equal(index_evictable(bench->index, &h->object),
                         h->told && h->object.leases == 0);
        if (h->live) {
            struct string cover = string_of(h->object.last);
            assert_true(equal(&cover, &h->cover));
            snapshots += h->object.kind == HEARTH_OBJECT_SNAPSHOT;
        }
    }
    assert_int_equal(index_snapshots(bench->index), snapshots);
    assert_int_equal(index_nodes(bench->index), nodes);
}

static void random_step(struct bench *bench)
{
    struct held *h = &bench->held[test_random_below(&bench->seed, OBJECTS)];
    uint64_t dice = test_random_below(&bench->seed, 1000);

    if (dice == 0)
        step_clear(bench);
    else if (dice < 34)
        step_pin(bench);
    else if (dice < 100)
        step_unpin(bench);
    else if (dice < 150 && h->live)
        h->object.leases ^= 1;
    else if (h->live && dice < 550)
        step_detach(bench, h);
    else if (!h->live)
        step_store(bench, h);
}

static void run(uint32_t block, uint32_t alphabet)
{
    struct bench *bench = mem_alloc(sizeof(*bench));
    struct hash256 key = hash256_of("oracle", 6);

    bench->index = index_create(&key, block);
    bench->block = block;
    bench->alphabet = alphabet;
    bench->seed = test_seed();
    index_on_change(bench->index, on_change, NULL);
    for (int step = 0; step < STEPS; step++) {
        random_step(bench);
        assert_match(bench);
        if (step % CHECK_EVERY == 0)
            assert_all(bench);
    }
    assert_all(bench);
    /* Less than half of what is seen with any seed. */
    assert_true(bench->attached > STEPS / 10 && bench->refused > STEPS / 100);
    assert_true(bench->unaffordable > STEPS / 500 && bench->unpinned > STEPS / 500);
    assert_true(block == 1 || (bench->displaced > STEPS / 500 && bench->grown > STEPS / 500));
    for (size_t i = 0; i < OBJECTS; i++)
        bench->held[i].object.leases = 0;
    step_clear(bench);
    assert_int_equal(index_nodes(bench->index), 0);
    index_destroy(&bench->index, drop, bench);
    mem_free(bench);
}

static void test_blocks_of_1(void **state)
{
    (void)state;
    run(1, 2);
}

static void test_blocks_of_2(void **state)
{
    (void)state;
    run(2, 2);
}

static void test_blocks_of_3(void **state)
{
    (void)state;
    run(3, 2);
    run(3, 3);
}

static void test_blocks_of_4(void **state)
{
    (void)state;
    run(4, 2);
    run(4, 3);
}

static void test_one_block_for_all(void **state)
{
    (void)state;
    run(TOKENS_MAX + 1, 2);
}

TEST_SUITE(TEST(test_blocks_of_1), TEST(test_blocks_of_2), TEST(test_blocks_of_3),
           TEST(test_blocks_of_4), TEST(test_one_block_for_all))

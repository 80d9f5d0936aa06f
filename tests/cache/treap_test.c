#include "cache/treap.h"

#include <string.h>

#include "base/mem.h"
#include "support/cache_check.h"
#include "support/test.h"

enum { NODES = 200, TOKENS_MAX = 6 };

struct entry {
    struct treap_node node;
    int32_t tokens[TOKENS_MAX];
};

/* The set as a sorted array. */
struct oracle {
    struct treap_node *in[NODES];
    size_t count;
};

static uint32_t naive_common(const int32_t *a, uint32_t a_count, const struct treap_node *b)
{
    uint32_t i = 0;

    while (i < a_count && i < b->count && a[i] == b->tokens[i])
        i++;
    return i;
}

static int naive_compare(const int32_t *a, uint32_t a_count, const struct treap_node *b)
{
    uint32_t i = naive_common(a, a_count, b);

    if (i < a_count && i < b->count)
        return a[i] < b->tokens[i] ? -1 : 1;
    return a_count == b->count ? 0 : a_count < b->count ? -1 : 1;
}

/* The number of strings that come before. */
static size_t oracle_rank(const struct oracle *oracle, const int32_t *tokens, uint32_t count)
{
    size_t rank = 0;

    while (rank < oracle->count && naive_compare(tokens, count, oracle->in[rank]) > 0)
        rank++;
    return rank;
}

/* Includes negative tokens: engines use them for padding, and their order must not surprise. */
static uint32_t random_tokens(uint64_t *seed, int32_t *tokens, uint32_t alphabet)
{
    uint32_t count = 1 + (uint32_t)test_random_below(seed, TOKENS_MAX);

    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (int32_t)test_random_below(seed, alphabet) - 1;
    return count;
}

static void assert_finds(struct treap_node *root, const struct oracle *oracle,
                         const int32_t *tokens, uint32_t count)
{
    size_t rank = oracle_rank(oracle, tokens, count);
    struct treap_node *equal = NULL, *prefix = NULL;
    struct treap_place place = treap_find(root, tokens, count);

    if (rank < oracle->count && naive_compare(tokens, count, oracle->in[rank]) == 0)
        equal = oracle->in[rank];
    for (size_t i = 0; i < oracle->count; i++)
        if (naive_common(tokens, count, oracle->in[i]) == oracle->in[i]->count)
            prefix = oracle->in[i]; /* the last one in order is the longest */
    assert_ptr_equal(treap_find_equal(root, tokens, count), equal);
    assert_ptr_equal(treap_find_prefix(root, tokens, count), prefix);
    if (equal != NULL) {
        assert_ptr_equal(place.before, equal);
        assert_int_equal(place.before_common, count);
        return;
    }
    assert_ptr_equal(place.before, rank > 0 ? oracle->in[rank - 1] : NULL);
    assert_ptr_equal(place.after, rank < oracle->count ? oracle->in[rank] : NULL);
    assert_int_equal(place.before_common,
                     rank > 0 ? naive_common(tokens, count, oracle->in[rank - 1]) : 0);
    assert_int_equal(place.after_common,
                     rank < oracle->count ? naive_common(tokens, count, oracle->in[rank]) : 0);
}

static void random_step(struct treap_node **root, struct oracle *oracle, struct entry *e,
                        uint64_t *seed, uint32_t alphabet)
{
    size_t at = 0;

    if (e->node.count > 0) {
        treap_remove(root, &e->node);
        e->node.count = 0;
        while (oracle->in[at] != &e->node)
            at++;
        oracle->count--;
        memmove(&oracle->in[at], &oracle->in[at + 1], (oracle->count - at) * sizeof(*oracle->in));
        return;
    }
    uint32_t count = random_tokens(seed, e->tokens, alphabet);
    if (treap_find_equal(*root, e->tokens, count) != NULL)
        return;
    /* Few priorities: equal ones must not break anything. */
    e->node = (struct treap_node){
        .priority = test_random_below(seed, 1000), .tokens = e->tokens, .count = count};
    at = oracle_rank(oracle, e->tokens, count);
    memmove(&oracle->in[at + 1], &oracle->in[at], (oracle->count - at) * sizeof(*oracle->in));
    oracle->in[at] = &e->node;
    oracle->count++;
    treap_insert(root, &e->node);
}

static void test_equals_oracle(void **state)
{
    uint64_t seed = test_seed();
    struct entry *entries = mem_alloc_array(NODES, sizeof(*entries));
    struct oracle oracle = {.count = 0};
    struct treap_node *root = NULL, *node;

    (void)state;
    for (int step = 0; step < 60000; step++) {
        int32_t tokens[TOKENS_MAX];
        uint32_t alphabet = 2 + (uint32_t)step / 20000;
        size_t i = 0;
        random_step(&root, &oracle, &entries[test_random_below(&seed, NODES)], &seed, alphabet);
        assert_finds(root, &oracle, tokens, random_tokens(&seed, tokens, alphabet));
        if (step % 50 != 0)
            continue;
        assert_int_equal(treap_check(root), oracle.count);
        for (node = treap_first(root); node != NULL; node = treap_next(root, node))
            assert_ptr_equal(node, oracle.in[i++]);
        assert_int_equal(i, oracle.count);
    }
    assert_true(oracle.count > 20);
    mem_free(entries);
}

static void test_empty(void **state)
{
    int32_t token = 1;
    struct treap_place place = treap_find(NULL, &token, 1);

    (void)state;
    assert_null(place.before);
    assert_null(place.after);
    assert_int_equal(place.before_common + place.after_common, 0);
    assert_null(treap_find_equal(NULL, &token, 1));
    assert_null(treap_find_prefix(NULL, &token, 1));
    assert_null(treap_first(NULL));
    assert_int_equal(treap_check(NULL), 0);
}

/* Every length and every place of a difference, the last token before an unreadable page. */
static void test_common_counts_tokens(void **state)
{
    enum { COUNT = 70 };
    int32_t a[COUNT], b[COUNT];

    (void)state;
    for (size_t i = 0; i < COUNT; i++)
        a[i] = b[i] = (int32_t)i * 1000003;
    for (uint32_t count = 0; count <= COUNT; count++) {
        const int32_t *guarded = (const void *)test_guarded(a, count * sizeof(*a));
        assert_int_equal(treap_common(guarded, b, count), count);
        for (uint32_t at = 0; at < count; at++) {
            b[at] ^= 1 << 30; /* the last byte only */
            assert_int_equal(treap_common(guarded, b, count), at);
            b[at] ^= 1 << 30;
        }
    }
}

static size_t depth_of(const struct treap_node *node)
{
    if (node == NULL)
        return 0;
    size_t left = depth_of(node->left), right = depth_of(node->right);

    return 1 + MAX(left, right);
}

/* Inserted in order, the worst case of a plain tree, 100,000 strings lie in a tree of a few times
 * log2(n) levels; and the same set has the same shape in whatever order it came. */
static void test_depth_is_logarithmic(void **state)
{
    enum { COUNT = 100000 };
    struct entry *entries = mem_alloc_array(COUNT, sizeof(*entries));
    struct treap_node *root = NULL, *forwards;
    uint64_t seed = 1;

    (void)state;
    for (int32_t i = 0; i < COUNT; i++) {
        entries[i].tokens[0] = i;
        entries[i].node = (struct treap_node){
            .priority = test_random(&seed), .tokens = entries[i].tokens, .count = 1};
        treap_insert(&root, &entries[i].node);
    }
    assert_int_equal(treap_check(root), COUNT);
    size_t depth = depth_of(root);
    assert_uint_in_range(depth, 17, 60); /* about 2 ln n + a few = 41 */

    forwards = root;
    root = NULL;
    for (int32_t i = COUNT - 1; i >= 0; i--)
        treap_insert(&root, &entries[i].node);
    assert_ptr_equal(root, forwards);
    assert_int_equal(depth_of(root), depth);
    for (int32_t i = 0; i < COUNT; i += 2)
        treap_remove(&root, &entries[i].node);
    assert_int_equal(treap_check(root), COUNT / 2);
    mem_free(entries);
}

TEST_SUITE(TEST(test_equals_oracle), TEST(test_empty), TEST(test_common_counts_tokens),
           TEST(test_depth_is_logarithmic))

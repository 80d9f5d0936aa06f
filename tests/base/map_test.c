#include "base/map.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "support/test.h"

enum {
    ENTRIES = 20000,
    MOVES_MAX = 4, /* chains that one call may move; the header says "a few" */
};

struct entry {
    uint32_t key;
    bool in_map;
    bool visited;
    struct map_node node;
};

/* A bench is a map, all entries that may be in it, and the hash in use. Entries know whether they
 * are in: the oracle. */
struct bench {
    struct map map;
    struct entry *entries;
    size_t count;       /* entries in the map */
    uint64_t hash_mask; /* few bits make equal hashes for different keys common */
    uint64_t seed;
};

static struct entry *entry_of(const struct map_node *node)
{
    return CONTAINER_OF(node, struct entry, node);
}

struct wanted {
    uint32_t key;
    uint64_t hash;
};

static bool equals(const struct map_node *node, const void *key)
{
    const struct wanted *wanted = key;

    assert_true(node->hash == wanted->hash); /* as the header promises */
    return entry_of(node)->key == wanted->key;
}

static uint64_t hash_of(const struct bench *bench, uint32_t key)
{
    return map_hash(&key, sizeof(key), bench->seed) & bench->hash_mask;
}

static void bench_init(struct bench *bench, uint64_t seed, uint64_t hash_mask)
{
    *bench = (struct bench){.seed = seed, .hash_mask = hash_mask};
    bench->entries = mem_alloc_array(ENTRIES, sizeof(*bench->entries));
    for (uint32_t i = 0; i < ENTRIES; i++)
        bench->entries[i].key = i;
    map_init(&bench->map);
}

static void bench_fini(struct bench *bench)
{
    map_fini(&bench->map);
    mem_free(bench->entries);
}

static void insert(struct bench *bench, uint32_t key)
{
    struct entry *e = &bench->entries[key];

    map_insert(&bench->map, &e->node, hash_of(bench, key));
    e->in_map = true;
    bench->count++;
}

static void remove_key(struct bench *bench, uint32_t key)
{
    struct entry *e = &bench->entries[key];

    map_remove(&bench->map, &e->node);
    e->in_map = false;
    bench->count--;
}

static struct map_node *find(struct bench *bench, uint32_t key)
{
    struct wanted wanted = {key, hash_of(bench, key)};

    return map_find(&bench->map, wanted.hash, equals, &wanted);
}

static void assert_find(struct bench *bench, uint32_t key)
{
    struct entry *e = &bench->entries[key];

    assert_ptr_equal(find(bench, key), e->in_map ? &e->node : NULL);
}

static void assert_finds_all(struct bench *bench)
{
    map_check(&bench->map);
    assert_int_equal(bench->map.count, bench->count);
    for (uint32_t key = 0; key < ENTRIES; key++)
        assert_find(bench, key);
}

/* Looks a random key up; when absent inserts it in percent_in of 100 cases, when present removes it
 * in the rest of them: the map tends to be percent_in full. */
static void random_steps(struct bench *bench, uint64_t *seed, int steps, unsigned percent_in)
{
    for (int step = 0; step < steps; step++) {
        uint32_t key = (uint32_t)test_random_below(seed, ENTRIES);
        assert_find(bench, key);
        if (!bench->entries[key].in_map && test_random_below(seed, 100) < percent_in)
            insert(bench, key);
        else if (bench->entries[key].in_map && test_random_below(seed, 100) >= percent_in)
            remove_key(bench, key);
        assert_int_equal(bench->map.count, bench->count);
        if (step % 2000 == 0)
            map_check(&bench->map);
    }
    assert_finds_all(bench);
}

static void test_equals_oracle(void **state)
{
    uint64_t seed = test_seed();
    struct bench bench;

    (void)state;
    bench_init(&bench, seed, UINT64_MAX);
    for (int wave = 0; wave < 4; wave++) {
        random_steps(&bench, &seed, 60000, 90);
        random_steps(&bench, &seed, 40000, 10);
    }
    bench_fini(&bench);
}

/* The same with 4096 hashes for 20,000 keys: then the callback decides. */
static void test_equals_oracle_when_hashes_collide(void **state)
{
    uint64_t seed = test_seed();
    struct bench bench;

    (void)state;
    bench_init(&bench, seed, 0xFFF);
    for (int wave = 0; wave < 2; wave++) {
        random_steps(&bench, &seed, 60000, 90);
        random_steps(&bench, &seed, 40000, 10);
    }
    bench_fini(&bench);
}

static void test_check_holds_after_every_step_of_growth(void **state)
{
    struct bench bench;
    size_t steps_growing = 0;

    (void)state;
    bench_init(&bench, 7, UINT64_MAX);
    for (uint32_t key = 0; key < 700; key++) {
        insert(&bench, key);
        map_check(&bench.map);
        for (uint32_t other = key % 13; other < key; other += 13) {
            steps_growing += bench.map.old.chains != NULL;
            assert_find(&bench, other);
            map_check(&bench.map);
        }
    }
    assert_true(steps_growing > 10);
    bench_fini(&bench);
}

/* No call may move more than a few chains, and chains must be short all the time. */
static void test_growth_is_incremental(void **state)
{
    struct bench bench;
    size_t growths = 0;

    (void)state;
    bench_init(&bench, 7, UINT64_MAX);
    for (uint32_t key = 0; key < ENTRIES; key++) {
        size_t before = bench.map.old_next, old_size = bench.map.old.mask + 1;
        bool growing = bench.map.old.chains != NULL;
        insert(&bench, key);
        if (growing && bench.map.old.chains != NULL)
            assert_true(bench.map.old_next - before <= MOVES_MAX);
        else if (growing)
            assert_true(old_size - before <= MOVES_MAX);
        else
            assert_true(bench.map.old_next == 0);
        growths += !growing && bench.map.old.chains != NULL;
        assert_true((bench.map.now.mask + 1) * 2 >= bench.map.count);
    }
    assert_int_equal(growths, 11); /* 16 << 11 is the first size above 20,000 */
    bench_fini(&bench);
}

/* Searches alone finish a growth, and then the old table is given back. */
static void test_find_finishes_growth(void **state)
{
    struct bench bench;
    uint32_t key = 0;

    (void)state;
    bench_init(&bench, 7, UINT64_MAX);
    while (key < 1000 || bench.map.old.chains == NULL)
        insert(&bench, key++);
    for (uint32_t i = 0; i < key; i++)
        assert_find(&bench, i);
    assert_null(bench.map.old.chains);
    bench_fini(&bench);
}

static void visit(struct map_node *node, void *arg)
{
    struct bench *bench = arg;
    struct entry *e = entry_of(node);

    assert_true(e->in_map && !e->visited);
    e->visited = true;
    if (e->key % 3 == 0) {
        remove_key(bench, e->key);
        memset(&e->node, 0xEE, sizeof(e->node)); /* as if freed */
    }
}

static void test_each_visits_once_and_may_remove(void **state)
{
    struct bench bench;
    uint32_t key = 0;

    (void)state;
    bench_init(&bench, 7, UINT64_MAX);
    map_each(&bench.map, visit, &bench); /* nothing to see */
    while (key < 1000 || bench.map.old.chains == NULL)
        insert(&bench, key++);
    for (int i = 0; i < 5; i++)
        assert_find(&bench, 1); /* the visit begins in the middle of a growth */
    assert_non_null(bench.map.old.chains);
    map_each(&bench.map, visit, &bench);
    for (uint32_t i = 0; i < ENTRIES; i++)
        assert_int_equal(bench.entries[i].visited, i < key);
    assert_int_equal(bench.count, key - (key + 2) / 3);
    assert_finds_all(&bench);
    bench_fini(&bench);
}

static void test_survives_every_failed_growth(void **state)
{
    size_t rounds = 0;

    (void)state;
    for (int sticky = 0; sticky < 2; sticky++) {
        struct fault fault = {.sticky = sticky == 1};
        FAULT_LOOP (&fault) {
            struct bench bench;
            bench_init(&bench, 7, UINT64_MAX);
            mem_set_fault(&fault);
            for (uint32_t key = 0; key < 3000; key++) {
                insert(&bench, key);
                if (key % 3 == 0)
                    remove_key(&bench, key / 2);
                assert_find(&bench, key / 3);
                if (key % 100 == 0)
                    map_check(&bench.map);
                if (key % 3 == 0)
                    insert(&bench, key / 2);
            }
            mem_set_fault(NULL);
            assert_finds_all(&bench);
            rounds++;
            bench_fini(&bench);
        }
    }
    assert_true(rounds >= 16);
}

/* A map that could not grow catches up when it can, and has not asked for memory with each insert
 * meanwhile. */
static void test_overfull_map_recovers(void **state)
{
    struct fault fault = {0};
    struct bench bench;
    uint32_t key = 0;

    (void)state;
    bench_init(&bench, 7, UINT64_MAX);
    fault_arm(&fault, 1, true);
    mem_set_fault(&fault);
    for (; key < 1000; key++)
        insert(&bench, key);
    mem_set_fault(NULL);
    assert_int_equal(bench.map.now.mask, 15);
    assert_true(atomic_load(&fault.fired) > 10 && atomic_load(&fault.fired) < 600);
    for (; key < 2000; key++)
        insert(&bench, key);
    assert_true(bench.map.now.mask + 1 >= 1024);
    assert_finds_all(&bench);
    bench_fini(&bench);
}

/* Published values of XXH3-64. */
static void test_hash_is_xxh3(void **state)
{
    (void)state;
    assert_true(map_hash("", 0, 0) == 0x2D06800538D394C2u);
    assert_true(map_hash("a", 1, 0) == 0xE6C632B61E964E1Fu);
    assert_true(map_hash("a", 1, 0) != map_hash("a", 1, 1));
}

/* Whether a misuse is stopped; in a child, since that is how it ends. */
static bool aborts(void (*misuse)(struct bench *bench))
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct bench bench;
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(2);
        signal(SIGABRT, SIG_DFL);
        bench_init(&bench, 7, UINT64_MAX);
        for (uint32_t key = 0; key < 20; key++)
            insert(&bench, key);
        misuse(&bench);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void nothing_wrong(struct bench *bench)
{
    map_check(&bench->map);
}

static void remove_twice(struct bench *bench)
{
    remove_key(bench, 3);
    remove_key(bench, 3);
}

static void check_changed_hash(struct bench *bench)
{
    bench->entries[3].node.hash ^= 1;
    map_check(&bench->map);
}

static void check_changed_hash_in_new_table(struct bench *bench)
{
    for (uint32_t key = 0; key < 20; key++)
        assert_find(bench, key);
    check_changed_hash(bench);
}

static void check_wrong_count(struct bench *bench)
{
    bench->map.count++;
    map_check(&bench->map);
}

static void check_endless_chain(struct bench *bench)
{
    bench->entries[3].node.next = &bench->entries[3].node;
    map_check(&bench->map);
}

static void insert_a_lot(struct map_node *node, void *arg)
{
    struct bench *bench = arg;

    (void)node;
    for (int i = 0; i < 20; i++)
        insert(bench, (uint32_t)bench->count);
}

static void insert_while_visiting(struct bench *bench)
{
    map_each(&bench->map, insert_a_lot, bench);
}

static void test_misuse_aborts(void **state)
{
    (void)state;
    assert_false(aborts(nothing_wrong));
    assert_true(aborts(remove_twice));
    assert_true(aborts(check_changed_hash));
    assert_true(aborts(check_changed_hash_in_new_table));
    assert_true(aborts(check_wrong_count));
    assert_true(aborts(check_endless_chain));
    assert_true(aborts(insert_while_visiting));
}

TEST_SUITE(TEST(test_equals_oracle), TEST(test_equals_oracle_when_hashes_collide),
           TEST(test_check_holds_after_every_step_of_growth), TEST(test_growth_is_incremental),
           TEST(test_find_finishes_growth), TEST(test_each_visits_once_and_may_remove),
           TEST(test_survives_every_failed_growth), TEST(test_overfull_map_recovers),
           TEST(test_hash_is_xxh3), TEST(test_misuse_aborts))

#include "base/arena.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "support/test.h"

enum { LIVE_MAX = 400, MARKS_MAX = 8 };

static bool is_filled(const void *ptr, unsigned char byte, size_t len)
{
    const unsigned char *bytes = ptr;

    for (size_t i = 0; i < len; i++)
        if (bytes[i] != byte)
            return false;
    return true;
}

static void assert_fresh(const void *ptr, size_t len)
{
    assert_non_null(ptr);
    assert_int_equal((uintptr_t)ptr % alignof(max_align_t), 0);
    assert_true(is_filled(ptr, 0, len));
}

static void test_init_allocates_nothing(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 1000);
    assert_int_equal(arena_bytes_held(&arena), 0);
    arena_reset(&arena);
    arena_release(&arena, arena_mark(&arena));
    assert_int_equal(arena_bytes_held(&arena), 0);
    arena_fini(&arena);
}

static void test_memory_is_zeroed_aligned_and_distinct(void **state)
{
    struct arena arena;
    char *last = NULL;

    (void)state;
    arena_init(&arena, 1 << 20);
    for (int round = 0; round < 3; round++) {
        for (size_t size = 0; size < 200; size++) {
            char *ptr = arena_alloc(&arena, size);
            assert_fresh(ptr, size);
            assert_ptr_not_equal(ptr, last);
            memset(ptr, 0xFF, size); /* what the next round must not see */
            last = ptr;
        }
        arena_reset(&arena);
    }
    arena_fini(&arena);
}

static void test_blocks_double(void **state)
{
    struct arena arena;
    size_t held = 0;
    int blocks = 0;

    (void)state;
    arena_init(&arena, 1 << 28);
    for (int i = 0; i < 40000; i++) {
        assert_non_null(arena_alloc(&arena, 64));
        blocks += arena_bytes_held(&arena) != held;
        held = arena_bytes_held(&arena);
        assert_true(held <= arena.used * 2 + 8192);
    }
    assert_true(blocks >= 8 && blocks <= 12);
    assert_int_equal(arena.used, 40000 * 64);
    /* A large piece has its own block and does not make the blocks after it as large. */
    assert_non_null(arena_alloc(&arena, 20 << 20));
    assert_non_null(arena_alloc(&arena, 64));
    assert_true(arena_bytes_held(&arena) < held + (22 << 20));
    arena_fini(&arena);
}

static void test_strings(void **state)
{
    struct arena arena;
    char longer[9000];

    (void)state;
    arena_init(&arena, 1 << 20);
    assert_string_equal(arena_strdup(&arena, STR("hello")), "hello");
    assert_string_equal(arena_strdup(&arena, STR_NONE), "");
    struct str guarded = {test_guarded("guarded", 7), 7};
    assert_string_equal(arena_strdup(&arena, guarded), "guarded");
    assert_string_equal(arena_printf(&arena, "%s %d", "x", 42), "x 42");
    assert_string_equal(arena_printf(&arena, "%s", ""), "");
    memset(longer, 'y', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_string_equal(arena_printf(&arena, "%s", longer), longer);
    arena_fini(&arena);
}

static void test_limit(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 160);
    assert_null(arena_alloc(&arena, 161));
    assert_err(arena.err, ERR_LIMIT);
    assert_int_equal(arena_bytes_held(&arena), 0);
    assert_fresh(arena_alloc(&arena, 100), 100); /* smaller ones still come */
    assert_int_equal(arena.used, 112);
    assert_fresh(arena_alloc(&arena, 48), 48);
    assert_null(arena_alloc(&arena, 0));
    assert_null(arena_strdup(&arena, STR("")));
    assert_null(arena_printf(&arena, "x"));
    assert_true(arena_bytes_held(&arena) < 300); /* not 4096, which it may never hand out */
    arena_reset(&arena);
    assert_err(arena.err, ERR_OK);
    assert_fresh(arena_alloc(&arena, 160), 160);
    arena_fini(&arena);
    assert_int_equal(arena.limit, 160);
    arena_init(&arena, 0);
    assert_null(arena_alloc(&arena, 0));
    assert_err(arena.err, ERR_LIMIT);
    arena_init(&arena, 17); /* the padding counts as well */
    assert_null(arena_alloc(&arena, 17));
    assert_fresh(arena_alloc(&arena, 16), 16);
    arena_fini(&arena);
}

static void test_sizes_that_overflow(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, SIZE_MAX / 2 - 1);
    assert_null(arena_alloc(&arena, SIZE_MAX));
    assert_err(arena.err, ERR_LIMIT);
    arena_reset(&arena);
    assert_null(arena_alloc_array(&arena, SIZE_MAX / 8, 16));
    assert_err(arena.err, ERR_LIMIT);
    int *numbers = arena_alloc_array(&arena, 100, sizeof(int));
    assert_fresh(numbers, 100 * sizeof(int));
    assert_null(arena_grow(&arena, numbers, 100 * sizeof(int), SIZE_MAX));
    assert_fresh(arena_alloc_array(&arena, 0, 16), 0);
    arena_fini(&arena);
}

static void test_grow(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 1 << 20);
    char *a = arena_grow(&arena, NULL, 0, 10);
    assert_fresh(a, 10);
    memset(a, 'a', 16); /* dirties the padding, which a later growth must clear */
    assert_ptr_equal(arena_grow(&arena, a, 10, 14), a);
    assert_true(is_filled(a, 'a', 10) && is_filled(a + 10, 0, 4));
    assert_ptr_equal(arena_grow(&arena, a, 14, 1000), a); /* the newest, in place */
    assert_true(is_filled(a, 'a', 10) && is_filled(a + 10, 0, 990));
    assert_int_equal(arena.used, 1008);
    char *b = arena_alloc(&arena, 5);
    char *moved = arena_grow(&arena, a, 1000, 1010);
    assert_ptr_not_equal(moved, a);
    assert_true(is_filled(moved, 'a', 10) && is_filled(moved + 10, 0, 1000));
    assert_true(is_filled(b, 0, 5));
    moved = arena_grow(&arena, moved, 1010, 100000); /* beyond the block */
    assert_true(is_filled(moved, 'a', 10) && is_filled(moved + 10, 0, 99990));
    memset(moved, 'm', 100000);
    assert_null(arena_grow(&arena, moved, 100000, (1 << 20) - 50000));
    assert_err(arena.err, ERR_LIMIT);
    assert_true(is_filled(moved, 'm', 100000));
    arena_fini(&arena);
}

static void test_release_gives_the_place_back(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 1 << 20);
    char *kept = arena_strdup(&arena, STR("kept"));
    struct arena_mark outer = arena_mark(&arena);
    char *first = arena_alloc(&arena, 100);
    struct arena_mark inner = arena_mark(&arena);
    size_t held = arena_bytes_held(&arena);
    char *second = arena_alloc(&arena, 100);
    assert_non_null(second);
    memset(second, 0xFF, 100);
    assert_non_null(arena_alloc(&arena, 50000));
    assert_true(arena_bytes_held(&arena) > held);
    arena_release(&arena, inner);
    assert_int_equal(arena_bytes_held(&arena), held);
    assert_ptr_equal(arena_alloc(&arena, 100), second);
    assert_fresh(second, 100);
    arena_release(&arena, outer);
    assert_ptr_equal(arena_alloc(&arena, 7), first);
    assert_string_equal(kept, "kept");
    arena_fini(&arena);
}

static void test_reset_keeps_the_largest_block(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 1 << 24);
    assert_non_null(arena_alloc(&arena, 100));
    assert_non_null(arena_alloc(&arena, 3000000));
    assert_non_null(arena_alloc(&arena, 100000));
    assert_true(arena_bytes_held(&arena) > 4000000);
    arena_reset(&arena);
    assert_int_equal(arena.used, 0);
    size_t held = arena_bytes_held(&arena);
    assert_true(held >= 3000000 && held < 3000100);
    assert_fresh(arena_alloc(&arena, 3000000), 3000000);
    assert_int_equal(arena_bytes_held(&arena), held);
    arena_fini(&arena);
    assert_int_equal(arena_bytes_held(&arena), 0);
    assert_fresh(arena_alloc(&arena, 10), 10);
    arena_fini(&arena);
}

/* A model of the arena: which allocations live, and what each is filled with. */
struct model {
    struct arena arena;
    struct {
        void *ptr;
        size_t size;
        unsigned char fill;
    } live[LIVE_MAX];
    size_t live_count;
    struct {
        struct arena_mark mark;
        size_t live_count;
    } marks[MARKS_MAX];
    size_t mark_count;
};

static void model_alloc(struct model *m, uint64_t *seed)
{
    size_t size = test_random_below(seed, test_random_below(seed, 10) ? 100 : 5000);
    void *ptr = arena_alloc(&m->arena, size);

    assert_fresh(ptr, size);
    m->live[m->live_count].ptr = ptr;
    m->live[m->live_count].size = size;
    m->live[m->live_count].fill = (unsigned char)test_random(seed);
    memset(ptr, m->live[m->live_count].fill, size);
    m->live_count++;
}

/* Grows one that is younger than the newest mark: an older one would leave the mark's reach. */
static void model_grow(struct model *m, uint64_t *seed)
{
    size_t first = m->mark_count ? m->marks[m->mark_count - 1].live_count : 0;

    if (first == m->live_count)
        return;
    size_t pick = test_random_below(seed, 2)
                      ? m->live_count - 1
                      : first + test_random_below(seed, m->live_count - first);
    size_t size = m->live[pick].size, more = test_random_below(seed, 300);
    char *ptr = arena_grow(&m->arena, m->live[pick].ptr, size, size + more);
    assert_non_null(ptr);
    assert_true(is_filled(ptr, m->live[pick].fill, size) && is_filled(ptr + size, 0, more));
    memset(ptr, m->live[pick].fill, size + more);
    m->live[pick].ptr = ptr;
    m->live[pick].size = size + more;
}

static void model_mark(struct model *m)
{
    if (m->mark_count == MARKS_MAX)
        return;
    m->marks[m->mark_count].mark = arena_mark(&m->arena);
    m->marks[m->mark_count].live_count = m->live_count;
    m->mark_count++;
}

static void model_release(struct model *m, uint64_t *seed)
{
    if (m->mark_count == 0)
        return;
    m->mark_count -=
        1 + test_random_below(seed, m->mark_count) / 2; /* a mark takes later ones along */
    arena_release(&m->arena, m->marks[m->mark_count].mark);
    m->live_count = m->marks[m->mark_count].live_count;
    assert_int_equal(m->arena.used, m->marks[m->mark_count].mark.used);
}

static void model_check(const struct model *m)
{
    size_t sum = 0;

    for (size_t i = 0; i < m->live_count; i++) {
        assert_true(is_filled(m->live[i].ptr, m->live[i].fill, m->live[i].size));
        sum += m->live[i].size;
    }
    assert_true(sum <= m->arena.used && m->arena.used <= arena_bytes_held(&m->arena));
}

static void test_equals_oracle(void **state)
{
    uint64_t seed = test_seed();
    static struct model m;

    (void)state;
    arena_init(&m.arena, 1 << 28);
    for (int step = 0; step < 20000; step++) {
        switch (test_random_below(&seed, 12)) {
        case 0:
            model_mark(&m);
            break;
        case 1:
            model_release(&m, &seed);
            break;
        case 2:
        case 3:
        case 4:
            model_grow(&m, &seed);
            break;
        default:
            model_alloc(&m, &seed);
            break;
        }
        if (m.live_count == LIVE_MAX) {
            arena_reset(&m.arena);
            m.live_count = m.mark_count = 0;
        }
        if (step % 64 == 0)
            model_check(&m);
    }
    model_check(&m);
    arena_fini(&m.arena);
}

static void test_survives_every_failed_allocation(void **state)
{
    struct fault fault = {0};

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct arena arena;
        char *text = NULL;
        size_t len = 0;
        arena_init(&arena, 1 << 24);
        struct arena_mark mark = arena_mark(&arena);
        for (int i = 0; i < 300; i++) {
            char *grown = arena_grow(&arena, text, len, len + 70);
            if (grown != NULL) {
                text = grown;
                memset(text + len, 'x', 70);
                len += 70;
            }
            char *copy = arena_printf(&arena, "%d", i);
            assert_true(copy == NULL || strlen(copy) > 0);
        }
        assert_true(len > 200 * 70 && is_filled(text, 'x', len));
        assert_err(arena.err, atomic_load(&fault.fired) ? ERR_NOMEM : ERR_OK);
        arena_release(&arena, mark);
        assert_int_equal(arena.used, 0);
        arena_fini(&arena);
    }
    mem_set_fault(NULL);
}

TEST_SUITE(TEST(test_init_allocates_nothing), TEST(test_memory_is_zeroed_aligned_and_distinct),
           TEST(test_blocks_double), TEST(test_strings), TEST(test_limit),
           TEST(test_sizes_that_overflow), TEST(test_grow), TEST(test_release_gives_the_place_back),
           TEST(test_reset_keeps_the_largest_block), TEST(test_equals_oracle),
           TEST(test_survives_every_failed_allocation))

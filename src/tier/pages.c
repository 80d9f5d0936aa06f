/*
 * pages.c: arenas cut into extents, a tree of the free ones, a map of those in use.
 *
 *      arena   [ used | free |  used  | used |     free     ]   lists all its extents by address
 *                        |                           |
 *      tree              '-- by pages, then address -'         best fit: one treap walk, O(log n)
 *      map        ptr -> used                                   for pages_free and pages_shrink
 *
 * P1  The extents of an arena cover its pages without gaps or overlaps.
 * P2  Two free extents are never neighbours: freeing merges them.
 * P3  A free extent is in the tree and a used one is in the map; neither contains anything else.
 * P4  An arena is in `empty` (oldest first) exactly when none of its pages are in use.
 * P5  held = bytes of the arenas + bytes being allocated + bytes being given back.
 *
 * The lock is never held while an allocator runs: pinning 64 MiB takes milliseconds. Bytes are
 * counted before the allocator is called and until it has taken them back, so the limit always
 * holds. The price is that an allocation may be refused although another thread is about to give
 * bytes back.
 *
 * Best fit by (size, address) keeps large gaps whole and fills low addresses first. An arena is
 * several times as large as the object it is made for, because the remainder at its end is wasted:
 * one object of 50 MiB in an arena of 64 would waste a quarter.
 *
 * Deliberately not here: moving objects to close gaps (leases point into them), giving back single
 * pages of an arena (pinned memory cannot), per-thread caches (each allocation is followed by a
 * copy of megabytes).
 */
#include "tier/pages.h"

#include <assert.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/mem.h"

#if defined(__SANITIZE_ADDRESS__)
#define PAGES_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PAGES_POISON 1
#endif
#endif
#ifdef PAGES_POISON
#include <sanitizer/asan_interface.h>
/* A simulation (lab/trace_sim.c) has addresses without memory, all of them below this one. */
#define MEMORY_FIRST (UINT64_C(1) << 44)
#define POISON(ptr, size)                         \
    do {                                          \
        if ((uintptr_t)(ptr) >= MEMORY_FIRST)     \
            ASAN_POISON_MEMORY_REGION(ptr, size); \
    } while (0)
#define UNPOISON(ptr, size)                         \
    do {                                            \
        if ((uintptr_t)(ptr) >= MEMORY_FIRST)       \
            ASAN_UNPOISON_MEMORY_REGION(ptr, size); \
    } while (0)
#else
#define POISON(ptr, size)   ((void)(ptr), (void)(size))
#define UNPOISON(ptr, size) ((void)(ptr), (void)(size))
#endif

#define ARENA_BYTES_DEFAULT (UINT64_C(64) << 20)
/* Exceeded only for an object that needs it: the caller waits until the whole arena is pinned. */
#define ARENA_BYTES_MAX (UINT64_C(1) << 30)
#define HUGE_PAGE_BYTES (UINT64_C(2) << 20)
/* An arena is made ahead only if the limit has room for this many arenas; and its maximum size. */
enum { AHEAD_ROOM = 8, QUIET_MS = 1000 };
#define AHEAD_BYTES_MAX (UINT64_C(256) << 20)
/* With ahead_bytes: of several objects, whatever their size, so that little is left over. */
#define AHEAD_ARENA_BYTES_MAX (UINT64_C(1) << 30)

enum { PAGE = PAGES_PAGE_BYTES };
/* An arena has room for this many objects of the size it is made for. Measured held/used ratio in a
 * full cache of 28 and 50 MiB objects: 1.28 with arenas of 64 MiB, 1.17 with room for 4 objects,
 * 1.14 with 8, 1.12 with 16. */
enum { ARENA_OBJECTS = 8 };

struct page_arena {
    void *memory;   /* as returned by the allocator */
    uint64_t bytes; /* allocated bytes, which are counted */
    char *base;     /* its first whole page */
    uint64_t count; /* whole pages */
    uint64_t used;  /* pages in use */
    struct list extents;
    struct list_node link;
    struct list_node empty_link; /* P4 */
};

struct extent {
    struct page_arena *arena;
    uint64_t first, count; /* pages of the arena */
    bool used;
    struct list_node link;       /* in arena->extents, or in pages->blank when recycled */
    struct map_node by_pointer;  /* when used */
    struct extent *left, *right; /* in the tree, when free */
    uint64_t priority;           /* treap priority: a parent's is >= its children's */
};

static_assert(2 * (sizeof(struct extent) + sizeof(void *)) <= PAGES_BOOK_BYTES,
              "pages.h promises it");

struct pages {
    /* limit_bytes is guarded by the lock; the other options never change */
    struct pages_options options;
    struct lock lock;
    struct list arenas GUARDED_BY(lock);
    struct list empty GUARDED_BY(lock);
    struct list blank GUARDED_BY(lock); /* extents for reuse: no heap call per object */
    struct extent *tree GUARDED_BY(lock);
    struct map used GUARDED_BY(lock);
    uint64_t bytes_used GUARDED_BY(lock);
    uint64_t bytes_held GUARDED_BY(lock);    /* P5 */
    uint64_t bytes_coming GUARDED_BY(lock);  /* being allocated */
    uint64_t bytes_leaving GUARDED_BY(lock); /* being given back */
    uint64_t bytes_empty GUARDED_BY(lock);   /* of the arenas in `empty` */
    uint64_t random GUARDED_BY(lock);
    struct cond arrived; /* signalled when an allocation has ended */
    struct cond wanted;  /* signalled when an arena should be made ahead, and when closing */
    /* size of the next arena made ahead: that of the last one made on demand, or with ahead_bytes
     * always arena_bytes */
    uint64_t bytes_ahead GUARDED_BY(lock);
    uint64_t used_ns GUARDED_BY(lock); /* the last sign of work; 0 = none yet */
    bool closing GUARDED_BY(lock);
    struct thread thread;
};

/* Readers must lock as well; const promises not to change the content. */
static struct pages *mutable_of(const struct pages *pages)
{
    return (struct pages *)pages;
}

static char *address_of(const struct extent *extent)
{
    return extent->arena->base + extent->first * PAGE;
}

/* ---- the tree of free extents ---- */

static bool before(const struct extent *a, const struct extent *b)
{
    if (a->count != b->count)
        return a->count < b->count;
    return (uintptr_t)address_of(a) < (uintptr_t)address_of(b);
}

static void tree_insert(struct extent **at, struct extent *extent)
{
    while (*at != NULL && (*at)->priority >= extent->priority)
        at = before(extent, *at) ? &(*at)->left : &(*at)->right;
    /* The old subtree becomes the children of the new node, split at its position in the order. */
    struct extent *rest = *at;
    struct extent **left = &extent->left, **right = &extent->right;
    *at = extent;
    while (rest != NULL) {
        if (before(rest, extent)) {
            *left = rest;
            left = &rest->right;
            rest = *left;
        } else {
            *right = rest;
            right = &rest->left;
            rest = *right;
        }
    }
    *left = *right = NULL;
}

static void tree_remove(struct extent **at, struct extent *extent)
{
    while (*at != extent) {
        assert(*at != NULL); /* P3 */
        at = before(extent, *at) ? &(*at)->left : &(*at)->right;
    }
    struct extent *left = extent->left, *right = extent->right;
    while (left != NULL && right != NULL) {
        if (left->priority >= right->priority) {
            *at = left;
            at = &left->right;
            left = *at;
        } else {
            *at = right;
            at = &right->left;
            right = *at;
        }
    }
    *at = left != NULL ? left : right;
}

/* The smallest free extent with `count` pages; of equal ones, that with the lowest address. */
static struct extent *tree_find(struct extent *extent, uint64_t count)
{
    struct extent *best = NULL;

    while (extent != NULL) {
        if (extent->count >= count) {
            best = extent;
            extent = extent->left;
        } else {
            extent = extent->right;
        }
    }
    return best;
}

/* ---- memory from outside ---- */

/* Aligned to huge pages; otherwise the first and the last part of an arena could never be one. */
static void *map_anonymous(uint64_t bytes)
{
    uint64_t align = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : PAGE;
    uint64_t total = bytes + align - PAGE;
    char *raw = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (raw == MAP_FAILED)
        return NULL;
    char *base = (char *)(((uintptr_t)raw + align - 1) / align * align);
    uint64_t ahead = (uint64_t)(base - raw), behind = total - ahead - bytes;
    if (ahead > 0)
        munmap(raw, ahead);
    if (behind > 0)
        munmap(base + bytes, behind);
    if (align == HUGE_PAGE_BYTES)
        (void)madvise(base, bytes, MADV_HUGEPAGE); /* kernels without huge pages use small ones */
    return base;
}

static void arena_destroy(struct pages *pages, struct page_arena *arena)
{
    UNPOISON(arena->base, arena->count * PAGE);
    if (pages->options.alloc != NULL)
        pages->options.free(arena->memory, pages->options.arg);
    else
        munmap(arena->memory, arena->bytes);
    mem_free(arena);
}

static struct page_arena *arena_create(struct pages *pages, uint64_t bytes)
{
    const struct pages_options *options = &pages->options;
    void *memory = options->alloc ? options->alloc(bytes, options->arg) : map_anonymous(bytes);

    if (memory == NULL)
        return NULL;
    uintptr_t base = ((uintptr_t)memory + PAGE - 1) / PAGE * PAGE;
    struct page_arena *arena = mem_alloc(sizeof(*arena));
    arena->memory = memory;
    arena->bytes = bytes;
    arena->base = (char *)base;
    arena->count = ((uintptr_t)memory + bytes - base) / PAGE;
    list_init(&arena->extents);
    POISON(arena->base, arena->count * PAGE);
    return arena;
}

/* ---- extents, under the lock ---- */

static struct extent *extent_create_locked(struct pages *pages, struct page_arena *arena,
                                           uint64_t first, uint64_t count) REQUIRES(pages->lock)
{
    lock_assert_held(&pages->lock);
    struct list_node *node = list_pop_front(&pages->blank);
    struct extent *extent =
        node ? CONTAINER_OF(node, struct extent, link) : mem_alloc(sizeof(*extent));
    /* A Weyl sequence, mixed once: priorities must be spread out, not secret. */
    pages->random += 0x9E3779B97F4A7C15u;
    *extent = (struct extent){.arena = arena, .first = first, .count = count};
    extent->priority = (pages->random ^ pages->random >> 29) * 0xBF58476D1CE4E5B9u;
    return extent;
}

/* The neighbour by address if it is free, else NULL. */
static struct extent *free_neighbour(const struct extent *extent, const struct list_node *node)
{
    if (node == &extent->arena->extents.head)
        return NULL;
    struct extent *other = CONTAINER_OF(node, struct extent, link);
    return other->used ? NULL : other;
}

/* Merges `other`, a free neighbour, into `extent`, which is in neither tree nor map. */
static void join_locked(struct pages *pages, struct extent *extent, struct extent *other)
    REQUIRES(pages->lock)
{
    lock_assert_held(&pages->lock);
    assert(!other->used && other->arena == extent->arena);
    tree_remove(&pages->tree, other);
    extent->first = MIN(extent->first, other->first);
    extent->count += other->count;
    list_remove(&extent->arena->extents, &other->link);
    list_push_front(&pages->blank, &other->link);
}

/* Frees an extent that is in the arena's list but not in the map (keeps P2). */
static void set_free_locked(struct pages *pages, struct extent *extent) REQUIRES(pages->lock)
{
    lock_assert_held(&pages->lock);
    struct extent *ahead = free_neighbour(extent, extent->link.prev);
    struct extent *behind = free_neighbour(extent, extent->link.next);
    extent->used = false;
    POISON(address_of(extent), extent->count * PAGE);
    if (ahead != NULL)
        join_locked(pages, extent, ahead);
    if (behind != NULL)
        join_locked(pages, extent, behind);
    tree_insert(&pages->tree, extent);
}

/* Splits off the pages after the first `count` and frees them. */
static void cut_locked(struct pages *pages, struct extent *extent, uint64_t count)
    REQUIRES(pages->lock)
{
    lock_assert_held(&pages->lock);
    assert(count > 0 && count < extent->count);
    struct extent *rest =
        extent_create_locked(pages, extent->arena, extent->first + count, extent->count - count);
    extent->count = count;
    list_insert_before(&extent->arena->extents, extent->link.next, &rest->link);
    set_free_locked(pages, rest);
}

static void count_used_locked(struct pages *pages, struct page_arena *arena, uint64_t taken,
                              uint64_t given) REQUIRES(pages->lock)
{
    lock_assert_held(&pages->lock);
    bool was_empty = arena->used == 0;
    arena->used += taken - given;
    pages->bytes_used += (taken - given) * PAGE;
    bool is_empty = arena->used == 0;
    if (was_empty && !is_empty) {
        list_remove(&pages->empty, &arena->empty_link);
        pages->bytes_empty -= arena->bytes;
        cond_signal(&pages->wanted);
    } else if (!was_empty && is_empty) {
        list_push_back(&pages->empty, &arena->empty_link);
        pages->bytes_empty += arena->bytes;
    }
}

static bool is_full_locked(const struct pages *pages, uint64_t count) REQUIRES(pages->lock)
{
    uint64_t max = pages->options.used_max;

    lock_assert_held(&pages->lock);
    return max > 0 && pages->bytes_used + count * PAGE > max;
}

/* Best fit; NULL when no arena has enough contiguous pages. */
static struct extent *take_fit_locked(struct pages *pages, uint64_t count) REQUIRES(pages->lock)
{
    lock_assert_held(&pages->lock);
    struct extent *extent = tree_find(pages->tree, count);
    if (extent == NULL)
        return NULL;
    tree_remove(&pages->tree, extent);
    extent->used = true;
    if (extent->count > count)
        cut_locked(pages, extent, count);
    void *ptr = address_of(extent);
    map_insert(&pages->used, &extent->by_pointer, map_hash(&ptr, sizeof(ptr), 0));
    count_used_locked(pages, extent->arena, count, 0);
    UNPOISON(ptr, count * PAGE);
    return extent;
}

static bool extent_is_at(const struct map_node *node, const void *key)
{
    return address_of(CONTAINER_OF(node, struct extent, by_pointer)) == *(void *const *)key;
}

/* Aborts when the pointer was not allocated here. */
static struct extent *find_used_locked(const struct pages *pages, const void *ptr)
    REQUIRES(pages->lock)
{
    lock_assert_held(&pages->lock);
    struct map_node *node =
        map_find(&mutable_of(pages)->used, map_hash(&ptr, sizeof(ptr), 0), extent_is_at, &ptr);
    assert(node != NULL);
    return CONTAINER_OF(node, struct extent, by_pointer);
}

/* ---- arenas ---- */

/* The size of a new arena that fits `count` pages; 0 when the limit has no room for it. An external
 * allocator may return any address, so one extra page is requested to have enough whole pages.
 * `least`: the minimum size. */
static uint64_t arena_bytes_locked(const struct pages *pages, uint64_t count, bool least)
    REQUIRES(pages->lock)
{
    const struct pages_options *options = &pages->options;
    uint64_t skew = options->alloc ? PAGE : 0;

    lock_assert_held(&pages->lock);
    if (count > (UINT64_MAX >> 1) / PAGE / ARENA_OBJECTS ||
        pages->bytes_held > options->limit_bytes)
        return 0;
    uint64_t room = (options->limit_bytes - pages->bytes_held) / PAGE * PAGE;
    uint64_t need = count * PAGE + skew;
    if (need > room)
        return 0;
    /* Memory that is slow to get is taken in small portions: the caller waits for all of it. */
    uint64_t most = options->ahead_bytes > 0 ? AHEAD_BYTES_MAX : ARENA_BYTES_MAX;
    uint64_t want = MIN(ARENA_OBJECTS * count * PAGE + skew, most);
    want = MAX(MAX(want, need), options->arena_bytes);
    return least ? need : MIN(want, room);
}

static void add_arena_locked(struct pages *pages, struct page_arena *arena) REQUIRES(pages->lock)
{
    lock_assert_held(&pages->lock);
    list_push_back(&pages->arenas, &arena->link);
    list_push_back(&pages->empty, &arena->empty_link);
    pages->bytes_empty += arena->bytes;
    struct extent *extent = extent_create_locked(pages, arena, 0, arena->count);
    list_push_back(&arena->extents, &extent->link);
    tree_insert(&pages->tree, extent);
}

/* Unlinks the arena that has been empty longest; NULL when none is empty. The caller then calls
 * give_back. */
static struct page_arena *take_empty_locked(struct pages *pages) REQUIRES(pages->lock)
{
    lock_assert_held(&pages->lock);
    struct list_node *node = list_pop_front(&pages->empty);
    if (node == NULL)
        return NULL;
    struct page_arena *arena = CONTAINER_OF(node, struct page_arena, empty_link);
    struct extent *extent = CONTAINER_OF(list_pop_front(&arena->extents), struct extent, link);
    assert(extent->count == arena->count && arena->used == 0);
    tree_remove(&pages->tree, extent);
    list_push_front(&pages->blank, &extent->link);
    list_remove(&pages->arenas, &arena->link);
    pages->bytes_empty -= arena->bytes;
    pages->bytes_leaving += arena->bytes;
    return arena;
}

/* An empty arena in excess of `spare`, or NULL. */
static struct page_arena *take_surplus_locked(struct pages *pages) REQUIRES(pages->lock)
{
    const struct pages_options *options = &pages->options;

    lock_assert_held(&pages->lock);
    bool over = pages->bytes_held - pages->bytes_leaving > options->limit_bytes;
    /* What is made ahead exceeds its bytes by up to an arena: giving that back would go on for
     * ever. */
    uint64_t spare = MAX(options->spare_bytes,
                         options->ahead_bytes > 0 ? options->ahead_bytes + pages->bytes_ahead : 0);
    bool many = spare > 0 ? pages->bytes_empty > spare : pages->empty.count > 1;
    return over || many ? take_empty_locked(pages) : NULL;
}

static void give_back(struct pages *pages, struct page_arena *arena)
{
    uint64_t bytes = arena->bytes;

    arena_destroy(pages, arena);
    lock_enter(&pages->lock);
    pages->bytes_held -= bytes;
    pages->bytes_leaving -= bytes;
    lock_leave(&pages->lock);
}

static void give_back_surplus(struct pages *pages)
{
    struct page_arena *arena;

    do {
        lock_enter(&pages->lock);
        arena = take_surplus_locked(pages);
        lock_leave(&pages->lock);
        if (arena != NULL)
            give_back(pages, arena);
    } while (arena != NULL);
}

/* Gives back an empty arena to make room for another. False when none is empty. */
static bool make_room(struct pages *pages)
{
    lock_enter(&pages->lock);
    struct page_arena *arena = take_empty_locked(pages);
    lock_leave(&pages->lock);
    if (arena != NULL)
        give_back(pages, arena);
    return arena != NULL;
}

/* Accounts for the result of an allocation of `bytes`: an arena, or NULL. */
static void arrive_locked(struct pages *pages, struct page_arena *arena, uint64_t bytes)
    REQUIRES(pages->lock)
{
    lock_assert_held(&pages->lock);
    pages->bytes_coming -= bytes;
    cond_broadcast(&pages->arrived);
    if (arena != NULL)
        add_arena_locked(pages, arena);
    else
        pages->bytes_held -= bytes;
}

/* An extent in a new arena of `bytes`, which are already counted; NULL when the allocation
 * fails. */
static struct extent *take_from_new_arena(struct pages *pages, uint64_t bytes, uint64_t count)
{
    struct page_arena *arena = arena_create(pages, bytes);
    struct extent *extent = NULL;

    lock_enter(&pages->lock);
    arrive_locked(pages, arena, bytes);
    if (arena != NULL) {
        if (pages->options.ahead_bytes == 0)
            pages->bytes_ahead = MAX(pages->options.arena_bytes, MIN(bytes, AHEAD_BYTES_MAX));
        extent = take_fit_locked(pages, count);
        assert(extent != NULL);
    }
    lock_leave(&pages->lock);
    return extent;
}

/* ---- making arenas ahead ---- */

/* A quarter of the limit is left to what is needed at once. */
static bool wants_ahead_locked(const struct pages *pages) REQUIRES(pages->lock)
{
    const struct pages_options *options = &pages->options;

    lock_assert_held(&pages->lock);
    if (pages->bytes_held > options->limit_bytes)
        return false;
    uint64_t room = options->limit_bytes - pages->bytes_held;
    if (options->ahead_bytes > 0)
        return pages->bytes_empty < options->ahead_bytes &&
               room >= pages->bytes_ahead + options->limit_bytes / 4;
    return pages->empty.count == 0 && room / AHEAD_ROOM >= pages->bytes_ahead;
}

/* Faults in a whole arena, one part at a time, because the process cannot map anything else
 * meanwhile. On kernels that do not support this, the first writer takes the page faults. */
static void touch(const struct page_arena *arena)
{
    uint64_t bytes = arena->count * PAGE;

    for (uint64_t at = 0; at < bytes; at += HUGE_PAGE_BYTES)
        if (madvise(arena->base + at, MIN(HUGE_PAGE_BYTES, bytes - at), MADV_POPULATE_WRITE) != 0)
            return;
}

/* Adds an arena whose bytes are already counted. False: the allocation failed. */
static bool add_ahead(struct pages *pages, uint64_t bytes)
{
    struct page_arena *arena = arena_create(pages, bytes);

    if (arena != NULL)
        touch(arena);
    lock_enter(&pages->lock);
    arrive_locked(pages, arena, bytes);
    lock_leave(&pages->lock);
    give_back_surplus(pages); /* another arena may have become empty, or the limit may be lower */
    return arena != NULL;
}

/* Pinning memory stops the device. As long as there is enough, it is done when there has been no
 * sign of work for a while. */
static bool must_wait_locked(const struct pages *pages, uint64_t until_ns) REQUIRES(pages->lock)
{
    const struct pages_options *options = &pages->options;

    lock_assert_held(&pages->lock);
    return options->ahead_bytes > 0 && pages->used_ns > 0 &&
           pages->bytes_empty >= options->arena_bytes && clock_mono_ns(clock_real()) < until_ns;
}

/* Whether to make an arena now. False: it waited, ask again. */
static bool is_due_locked(struct pages *pages) REQUIRES(pages->lock)
{
    uint64_t until_ns = pages->used_ns + QUIET_MS * NS_PER_MS;

    lock_assert_held(&pages->lock);
    if (!wants_ahead_locked(pages))
        cond_wait(&pages->wanted, &pages->lock);
    else if (must_wait_locked(pages, until_ns))
        (void)!cond_wait_until(&pages->wanted, &pages->lock, until_ns);
    else
        return true;
    return false;
}

static void keep_ahead(void *arg)
{
    struct pages *pages = arg;
    uint64_t bytes;

    thread_set_background();
    do {
        lock_enter(&pages->lock);
        while (!pages->closing && !is_due_locked(pages))
            ;
        bytes = pages->closing ? 0 : pages->bytes_ahead;
        pages->bytes_held += bytes;
        pages->bytes_coming += bytes;
        lock_leave(&pages->lock);
    } while (bytes > 0 && add_ahead(pages, bytes));
}

/* ---- checks ---- */

/* Returns the size of the subtree; checks that all of it is between `low` and `high` (NULL: no
 * bound). */
static size_t check_tree(const struct extent *extent, const struct extent *low,
                         const struct extent *high)
{
    if (extent == NULL)
        return 0;
    assert(!extent->used);
    assert(low == NULL || before(low, extent));
    assert(high == NULL || before(extent, high));
    assert(extent->left == NULL || extent->left->priority <= extent->priority);
    assert(extent->right == NULL || extent->right->priority <= extent->priority);
    return 1 + check_tree(extent->left, low, extent) + check_tree(extent->right, extent, high);
}

/* Adds the number of used extents to *used_count; returns the number of free ones. */
static size_t check_arena_locked(const struct pages *pages, const struct page_arena *arena,
                                 size_t *used_count) REQUIRES(pages->lock)
{
    uint64_t next = 0, used = 0;
    size_t free_count = 0;
    bool free_before = false;

    lock_assert_held(&pages->lock);
    list_check(&arena->extents);
    LIST_FOREACH (struct extent, extent, &arena->extents, link) {
        assert(extent->arena == arena && extent->count > 0);
        assert(extent->first == next);           /* P1 */
        assert(!(free_before && !extent->used)); /* P2 */
        assert(!extent->used || find_used_locked(pages, address_of(extent)) == extent);
        next += extent->count;
        used += extent->used ? extent->count : 0;
        *used_count += extent->used;
        free_count += !extent->used;
        free_before = !extent->used;
    }
    assert(next == arena->count && used == arena->used);
    assert(list_node_linked(&arena->empty_link) == (used == 0)); /* P4 */
    return free_count;
}

/* ---- public ---- */

struct pages *pages_create(const struct pages_options *options)
{
    struct pages *pages = mem_alloc(sizeof(*pages));

    assert((options->alloc == NULL) == (options->free == NULL));
    pages->options = *options;
    if (pages->options.arena_bytes == 0 && options->ahead_bytes > 0)
        pages->options.arena_bytes = MIN(options->ahead_bytes / 2, AHEAD_ARENA_BYTES_MAX);
    if (pages->options.arena_bytes == 0)
        pages->options.arena_bytes = ARENA_BYTES_DEFAULT;
    pages->options.arena_bytes = (pages->options.arena_bytes + PAGE - 1) / PAGE * PAGE;
    pages->bytes_ahead = pages->options.arena_bytes;
    lock_init(&pages->lock, "pages", LOCK_RANK_TIER);
    list_init(&pages->arenas);
    list_init(&pages->empty);
    list_init(&pages->blank);
    map_init(&pages->used);
    cond_init(&pages->arrived);
    cond_init(&pages->wanted);
    if (options->ahead) /* without the thread, storing waits for page faults */
        (void)!thread_start(&pages->thread, "pages", keep_ahead, pages, NULL);
    return pages;
}

void pages_destroy(struct pages **pages)
{
    struct pages *p = *pages;
    struct list_node *node;

    if (p == NULL)
        return;
    lock_enter(&p->lock);
    p->closing = true;
    cond_signal(&p->wanted);
    lock_leave(&p->lock);
    thread_join(&p->thread);
    assert(p->bytes_used == 0 && p->bytes_coming == 0 && p->bytes_leaving == 0);
    while (make_room(p)) {
    }
    assert(p->bytes_held == 0 && p->tree == NULL);
    while ((node = list_pop_front(&p->blank)) != NULL)
        mem_free(CONTAINER_OF(node, struct extent, link));
    map_fini(&p->used);
    cond_fini(&p->wanted);
    cond_fini(&p->arrived);
    lock_fini(&p->lock);
    mem_free(p);
    *pages = NULL;
}

void pages_note_work(struct pages *pages)
{
    lock_enter(&pages->lock);
    pages->used_ns = clock_mono_ns(clock_real());
    lock_leave(&pages->lock);
}

void *pages_alloc(struct pages *pages, uint64_t bytes)
{
    uint64_t count = bytes / PAGE + (bytes % PAGE != 0);
    bool least = false;

    assert(bytes > 0);
    for (;;) {
        lock_enter(&pages->lock);
        if (is_full_locked(pages, count)) {
            lock_leave(&pages->lock);
            return NULL;
        }
        struct extent *extent = take_fit_locked(pages, count);
        pages->used_ns = clock_mono_ns(clock_real());
        uint64_t size = extent ? 0 : arena_bytes_locked(pages, count, least);
        /* Another thread takes all that the limit allows: its arena may have room for both. */
        if (extent == NULL && size == 0 && pages->bytes_coming > 0) {
            cond_wait(&pages->arrived, &pages->lock);
            lock_leave(&pages->lock);
            continue;
        }
        pages->bytes_held += size;
        pages->bytes_coming += size;
        lock_leave(&pages->lock);
        if (size > 0)
            extent = take_from_new_arena(pages, size, count);
        if (extent != NULL)
            return address_of(extent);
        /* If the allocation failed, retry with the minimum size, then give back empty arenas. */
        if (size > 0 && !least)
            least = true;
        else if (!make_room(pages))
            return NULL;
    }
}

void pages_shrink(struct pages *pages, void *ptr, uint64_t bytes)
{
    uint64_t count = bytes / PAGE + (bytes % PAGE != 0);

    lock_enter(&pages->lock);
    struct extent *extent = find_used_locked(pages, ptr);
    assert(count > 0 && count <= extent->count);
    if (count < extent->count) {
        count_used_locked(pages, extent->arena, 0, extent->count - count);
        cut_locked(pages, extent, count);
    }
    lock_leave(&pages->lock);
}

void pages_free(struct pages *pages, void *ptr)
{
    lock_enter(&pages->lock);
    struct extent *extent = find_used_locked(pages, ptr);
    map_remove(&pages->used, &extent->by_pointer);
    count_used_locked(pages, extent->arena, 0, extent->count);
    set_free_locked(pages, extent);
    lock_leave(&pages->lock);
    give_back_surplus(pages);
}

void pages_set_limit(struct pages *pages, uint64_t limit_bytes)
{
    lock_enter(&pages->lock);
    pages->options.limit_bytes = limit_bytes;
    cond_signal(&pages->wanted);
    lock_leave(&pages->lock);
    give_back_surplus(pages);
}

uint64_t pages_bytes_used(const struct pages *pages)
{
    struct pages *p = mutable_of(pages);

    lock_enter(&p->lock);
    uint64_t bytes = p->bytes_used;
    lock_leave(&p->lock);
    return bytes;
}

uint64_t pages_bytes_held(const struct pages *pages)
{
    struct pages *p = mutable_of(pages);

    lock_enter(&p->lock);
    uint64_t bytes = p->bytes_held;
    lock_leave(&p->lock);
    return bytes;
}

uint64_t pages_bytes_of(const struct pages *pages, const void *ptr)
{
    struct pages *p = mutable_of(pages);

    lock_enter(&p->lock);
    uint64_t bytes = find_used_locked(p, ptr)->count * PAGE;
    lock_leave(&p->lock);
    return bytes;
}

void pages_check(const struct pages *pages)
{
    struct pages *p = mutable_of(pages);
    uint64_t bytes = 0, used = 0, empty = 0;
    size_t free_count = 0, used_count = 0;

    lock_enter(&p->lock);
    list_check(&p->arenas);
    list_check(&p->empty);
    map_check(&p->used);
    LIST_FOREACH (struct page_arena, arena, &p->arenas, link) {
        free_count += check_arena_locked(p, arena, &used_count);
        bytes += arena->bytes;
        used += arena->used * PAGE;
        empty += arena->used == 0 ? arena->bytes : 0;
    }
    assert(check_tree(p->tree, NULL, NULL) == free_count); /* P3 */
    assert(p->used.count == used_count);
    assert(bytes + p->bytes_coming + p->bytes_leaving == p->bytes_held); /* P5 */
    assert(used == p->bytes_used && empty == p->bytes_empty);
    lock_leave(&p->lock);
}

#include "tier/pages.h"

#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/mem.h"
#include "support/test.h"

enum { PAGE = PAGES_PAGE_BYTES, ARENAS_MAX = 64, LIVE_MAX = 256 };

/* An allocator that knows what it gave, may answer at odd addresses, and may be made to fail. */
struct source {
    struct fault fault;
    size_t skew; /* bytes by which its answers are off a page */
    uint64_t given, given_max;
    struct {
        char *raw, *ptr;
        uint64_t bytes;
    } arenas[ARENAS_MAX];
};

static void *source_alloc(size_t size, void *arg)
{
    struct source *source = arg;

    if (fault_fires(&source->fault))
        return NULL;
    for (int i = 0; i < ARENAS_MAX; i++) {
        if (source->arenas[i].raw != NULL)
            continue;
        source->arenas[i].raw = mem_try_alloc_aligned(PAGE, size + PAGE);
        assert_non_null(source->arenas[i].raw);
        source->arenas[i].ptr = source->arenas[i].raw + source->skew;
        source->arenas[i].bytes = size;
        source->given += size;
        source->given_max = MAX(source->given_max, source->given);
        return source->arenas[i].ptr;
    }
    fail_msg("more than %d arenas", ARENAS_MAX);
    return NULL;
}

static void source_free(void *ptr, void *arg)
{
    struct source *source = arg;
    int i = 0;

    while (i < ARENAS_MAX && source->arenas[i].ptr != ptr)
        i++;
    assert_true(i < ARENAS_MAX);
    source->given -= source->arenas[i].bytes;
    mem_free(source->arenas[i].raw);
    memset(&source->arenas[i], 0, sizeof(source->arenas[i]));
}

static struct pages *create(struct source *source, uint64_t arena_pages, uint64_t limit_pages)
{
    struct pages_options options = {
        .arena_bytes = arena_pages * PAGE,
        .limit_bytes = limit_pages * PAGE,
        .alloc = source ? source_alloc : NULL,
        .free = source ? source_free : NULL,
        .arg = source,
    };

    return pages_create(&options);
}

/* ---- the oracle: a byte per page of every arena ---- */

struct live {
    char *ptr;
    uint64_t bytes;   /* as asked for */
    uint64_t pattern; /* written into every page of it */
};

struct model {
    struct source *source;
    struct pages *pages;
    struct live live[LIVE_MAX];
    size_t count;
    uint64_t patterns;
};

static uint64_t pages_of(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE;
}

static bool page_is_used(const struct model *model, const char *page)
{
    for (size_t i = 0; i < model->count; i++) {
        const struct live *live = &model->live[i];
        if (page >= live->ptr && page < live->ptr + pages_of(live->bytes) * PAGE)
            return true;
    }
    return false;
}

/* Where best fit, lowest address first, has to put that many pages; NULL when nowhere. */
static char *model_fit(const struct model *model, uint64_t count)
{
    char *best = NULL;
    uint64_t best_run = UINT64_MAX;

    for (int i = 0; i < ARENAS_MAX; i++) {
        uintptr_t begin = (uintptr_t)model->source->arenas[i].ptr, run = 0;
        char *first = (char *)((begin + PAGE - 1) / PAGE * PAGE);
        uint64_t total = (begin + model->source->arenas[i].bytes - (uintptr_t)first) / PAGE;
        if (begin == 0)
            continue;
        for (uint64_t p = 0; p <= total; p++) {
            bool is_free = p < total && !page_is_used(model, first + p * PAGE);
            char *start = first + (p - run) * PAGE;
            if (!is_free && run >= count && (run < best_run || (run == best_run && start < best))) {
                best = start;
                best_run = run;
            }
            run = is_free ? run + 1 : 0;
        }
    }
    return best;
}

/* Both ends of every page carry the pattern: an overlap destroys it. */
static void write_pattern(const struct live *live)
{
    uint64_t room = pages_of(live->bytes) * PAGE;

    for (uint64_t at = 0; at < room; at += PAGE) {
        memcpy(live->ptr + at, &live->pattern, sizeof(live->pattern));
        memcpy(live->ptr + at + PAGE - sizeof(live->pattern), &live->pattern,
               sizeof(live->pattern));
    }
}

static void assert_pattern(const struct live *live)
{
    uint64_t room = pages_of(live->bytes) * PAGE;

    for (uint64_t at = 0; at < room; at += PAGE) {
        assert_memory_equal(live->ptr + at, &live->pattern, sizeof(live->pattern));
        assert_memory_equal(live->ptr + at + PAGE - sizeof(live->pattern), &live->pattern,
                            sizeof(live->pattern));
    }
}

static void model_alloc(struct model *model, uint64_t bytes)
{
    char *expected = model_fit(model, pages_of(bytes));
    uint64_t held = pages_bytes_held(model->pages);
    char *ptr = pages_alloc(model->pages, bytes);

    if (expected != NULL) {
        assert_ptr_equal(ptr, expected);
        assert_true(pages_bytes_held(model->pages) == held);
    }
    if (ptr == NULL)
        return;
    assert_int_equal((uintptr_t)ptr % PAGE, 0);
    for (uint64_t at = 0; at < bytes; at += PAGE)
        assert_false(page_is_used(model, ptr + at));
    assert_true(pages_bytes_of(model->pages, ptr) == pages_of(bytes) * PAGE);
    model->live[model->count] = (struct live){ptr, bytes, ++model->patterns};
    write_pattern(&model->live[model->count++]);
}

static void model_free(struct model *model, size_t i)
{
    assert_pattern(&model->live[i]);
    pages_free(model->pages, model->live[i].ptr);
    model->live[i] = model->live[--model->count];
}

static void model_shrink(struct model *model, size_t i, uint64_t bytes)
{
    pages_shrink(model->pages, model->live[i].ptr, bytes);
    model->live[i].bytes = bytes;
    assert_true(pages_bytes_of(model->pages, model->live[i].ptr) == pages_of(bytes) * PAGE);
    assert_pattern(&model->live[i]);
}

static void model_check(const struct model *model)
{
    uint64_t used = 0;

    pages_check(model->pages);
    for (size_t i = 0; i < model->count; i++) {
        used += pages_of(model->live[i].bytes) * PAGE;
        assert_pattern(&model->live[i]);
    }
    assert_true(pages_bytes_used(model->pages) == used);
    assert_true(pages_bytes_held(model->pages) == model->source->given);
}

static void model_step(struct model *model, uint64_t *seed, uint64_t pages_max)
{
    size_t choice = test_random_below(seed, 100);
    size_t i = model->count ? test_random_below(seed, model->count) : 0;

    if (choice < 50 && model->count < LIVE_MAX)
        model_alloc(model, 1 + test_random_below(seed, pages_max * PAGE));
    else if (choice < 65 && model->count > 0)
        model_shrink(model, i, 1 + test_random_below(seed, model->live[i].bytes));
    else if (model->count > 0)
        model_free(model, i);
}

static void model_end(struct model *model)
{
    while (model->count > 0)
        model_free(model, model->count - 1);
    model_check(model);
    pages_destroy(&model->pages);
    assert_null(model->pages);
    assert_int_equal(model->source->given, 0);
}

static void test_equals_oracle(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 12; round++) {
        struct source source = {.skew = round % 3 * 1000};
        uint64_t limit = 40 + test_random_below(&seed, 200);
        struct model model = {.source = &source, .pages = create(&source, 32, limit)};
        for (int step = 0; step < 400; step++) {
            model_step(&model, &seed, round % 2 ? 12 : 40);
            model_check(&model);
        }
        assert_true(source.given_max <= limit * PAGE);
        assert_true(source.given_max > limit * PAGE / 2);
        model_end(&model);
    }
}

/* Every call of the allocator fails once, and then all from the n-th on. */
static void test_survives_every_failed_arena(void **state)
{
    (void)state;
    for (int sticky = 0; sticky < 2; sticky++) {
        struct source source = {.fault.sticky = sticky == 1};
        int rounds = 0;
        FAULT_LOOP (&source.fault) {
            struct model model = {.source = &source, .pages = create(&source, 8, 400)};
            uint64_t seed = 7;
            for (int step = 0; step < 400; step++) {
                model_step(&model, &seed, 16);
                if (step % 20 == 0)
                    model_check(&model);
            }
            model_end(&model);
            rounds++;
        }
        /* Which arena is chosen depends on addresses, and so does how many are needed: 4 or 5. */
        assert_true(rounds > 3);
    }
}

/* ---- arenas ---- */

static void test_alloc_is_aligned_and_counted(void **state)
{
    struct source source = {.skew = 64};
    struct pages *pages = create(&source, 16, 1000);

    (void)state;
    char *a = pages_alloc(pages, 1), *b = pages_alloc(pages, PAGE + 1);
    assert_int_equal((uintptr_t)a % PAGE, 0);
    assert_int_equal((uintptr_t)b % PAGE, 0);
    assert_int_equal(pages_bytes_of(pages, a), PAGE);
    assert_int_equal(pages_bytes_of(pages, b), 2 * PAGE);
    assert_int_equal(pages_bytes_used(pages), 3 * PAGE);
    assert_int_equal(pages_bytes_held(pages), source.given);
    pages_shrink(pages, b, PAGE); /* nothing but the last page goes */
    pages_shrink(pages, b, 1);
    assert_int_equal(pages_bytes_of(pages, b), PAGE);
    assert_ptr_equal(pages_alloc(pages, PAGE), b + PAGE);
    pages_free(pages, b + PAGE);
    pages_free(pages, a);
    pages_free(pages, b);
    assert_int_equal(pages_bytes_used(pages), 0);
    pages_destroy(&pages);
    pages_destroy(&pages);
}

static void test_limit_refuses_and_sizes_cannot_overflow(void **state)
{
    struct source source = {.skew = 64};
    struct pages *pages = create(&source, 16, 20);

    (void)state;
    assert_null(pages_alloc(pages, UINT64_MAX));
    assert_null(pages_alloc(pages, UINT64_MAX / 8));
    assert_null(pages_alloc(pages, 20 * PAGE)); /* a page for the alignment is counted as well */
    void *a = pages_alloc(pages, 19 * PAGE);
    assert_non_null(a);
    assert_null(pages_alloc(pages, 1));
    assert_int_equal(source.given, 20 * PAGE);
    pages_free(pages, a);
    pages_set_limit(pages, UINT64_MAX);
    assert_null(pages_alloc(pages, UINT64_MAX));
    pages_destroy(&pages);
}

/* What an arena made for a small object could not hold is given back before a larger one is
 * refused. */
/* Gaps do not count towards the limit of extents. */
static void test_used_max(void **state)
{
    struct pages *pages = pages_create(&(struct pages_options){
        .arena_bytes = 16 * PAGE, .limit_bytes = 16 * PAGE, .used_max = 4 * PAGE});
    void *all[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_non_null(all[i] = pages_alloc(pages, PAGE));
    assert_null(pages_alloc(pages, 1));
    pages_free(pages, all[0]);
    pages_free(pages, all[2]);
    assert_non_null(all[0] = pages_alloc(pages, 2 * PAGE));
    assert_null(pages_alloc(pages, 1));
    pages_free(pages, all[0]);
    pages_free(pages, all[1]);
    pages_free(pages, all[3]);
    pages_destroy(&pages);
}

static void test_empty_arenas_make_room(void **state)
{
    struct source source = {0};
    struct pages *pages = create(&source, 16, 40);

    (void)state;
    void *small = pages_alloc(pages, PAGE);
    pages_free(pages, small);
    assert_int_equal(pages_bytes_held(pages), 16 * PAGE); /* spare: one arena */
    void *large = pages_alloc(pages, 30 * PAGE);
    assert_non_null(large);
    assert_int_equal(pages_bytes_held(pages), 40 * PAGE);
    pages_free(pages, large);
    assert_int_equal(pages_bytes_held(pages), 40 * PAGE); /* the same is likely to be asked again */
    assert_ptr_equal(pages_alloc(pages, 30 * PAGE), large);
    pages_free(pages, large);
    pages_destroy(&pages);
}

static void test_spare_arenas_are_kept_and_no_more(void **state)
{
    struct source source = {0};
    struct pages_options options = {
        .arena_bytes = 16 * PAGE,
        .spare_bytes = 40 * PAGE,
        .limit_bytes = 1000 * PAGE,
        .alloc = source_alloc,
        .free = source_free,
        .arg = &source,
    };
    struct pages *pages = pages_create(&options);
    void *ptr[40];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(ptr); i++) { /* eight to an arena of 17 pages */
        ptr[i] = pages_alloc(pages, 2 * PAGE);
        assert_non_null(ptr[i]);
    }
    assert_int_equal(pages_bytes_held(pages), 5 * 17 * PAGE);
    for (size_t i = 0; i < COUNT_OF(ptr); i++)
        pages_free(pages, ptr[i]);
    assert_int_equal(pages_bytes_held(pages), 2 * 17 * PAGE);
    pages_check(pages);
    pages_set_limit(pages, 20 * PAGE);
    assert_int_equal(pages_bytes_held(pages), 17 * PAGE);
    pages_set_limit(pages, 0);
    assert_int_equal(pages_bytes_held(pages), 0);
    pages_destroy(&pages);
}

static void test_lowered_limit_takes_effect_as_arenas_empty(void **state)
{
    struct source source = {0};
    struct pages *pages = create(&source, 8, 100);
    void *ptr[100];
    size_t count = 0;

    (void)state;
    while ((ptr[count] = pages_alloc(pages, PAGE)) != NULL)
        count++;
    assert_int_equal(count, 99); /* one page is no arena: it might lie across two */
    uint64_t held = pages_bytes_held(pages);
    pages_set_limit(pages, 16 * PAGE);
    assert_int_equal(pages_bytes_held(pages), held); /* all in use */
    for (size_t i = 0; i < count; i++) {
        pages_free(pages, ptr[i]);
        pages_check(pages);
    }
    assert_true(pages_bytes_held(pages) <= 16 * PAGE);
    pages_destroy(&pages);
}

/* Where the machine has not enough for a large arena, one that just fits the object will do. */
static void test_machine_without_room_gets_a_small_arena(void **state)
{
    struct source source = {0};
    struct pages *pages = create(&source, 64, 1000);

    (void)state;
    fault_arm(&source.fault, 1, false);
    void *ptr = pages_alloc(pages, 3 * PAGE);
    assert_non_null(ptr);
    assert_int_equal(pages_bytes_held(pages), 4 * PAGE);
    fault_arm(&source.fault, 1, true);
    assert_null(pages_alloc(pages, 3 * PAGE));
    assert_int_equal(pages_bytes_held(pages), 4 * PAGE);
    pages_free(pages, ptr);
    pages_check(pages);
    pages_destroy(&pages);
}

/* Anonymous memory: small arenas, those of huge pages, and one that no machine has. */
static void test_anonymous_memory(void **state)
{
    struct pages_options options = {.limit_bytes = UINT64_MAX};
    struct pages *pages = pages_create(&options);

    (void)state;
    unsigned char *a = pages_alloc(pages, 5 << 20);
    assert_non_null(a);
    assert_int_equal(pages_bytes_held(pages), 64 << 20);
    assert_int_equal((uintptr_t)a % (2 << 20), 0);
    memset(a, 1, 5 << 20);
    assert_null(pages_alloc(pages, UINT64_C(1) << 50));
    assert_int_equal(pages_bytes_held(pages), 64 << 20);
    unsigned char *b =
        pages_alloc(pages, UINT64_C(3) << 30); /* larger than any arena; not touched */
    if (b != NULL)
        pages_free(pages, b);
    pages_free(pages, a);
    pages_check(pages);
    pages_destroy(&pages);
    pages = create(NULL, 3, 10);
    a = pages_alloc(pages, 3 * PAGE);
    memset(a, 1, 3 * PAGE);
    assert_int_equal(pages_bytes_held(pages), 10 * PAGE);
    pages_free(pages, a);
    pages_destroy(&pages);
}

/* ---- ahead ---- */

static struct pages *create_ahead(uint64_t arena_bytes, uint64_t limit_bytes)
{
    return pages_create(&(struct pages_options){
        .arena_bytes = arena_bytes, .limit_bytes = limit_bytes, .ahead = true});
}

/* Until it is made; a machine that is slower than this gives no memory to a test either. */
static void wait_for_held(const struct pages *pages, uint64_t bytes)
{
    for (int tries = 0; pages_bytes_held(pages) != bytes && tries < 20000; tries++)
        usleep(1000);
    assert_int_equal(pages_bytes_held(pages), bytes);
}

/* Whether all pages are in memory, so that a write never waits for one. */
static bool is_touched(void *ptr, size_t bytes)
{
    unsigned char here[4096];
    bool all = true;

    assert_true(bytes / PAGE <= sizeof(here));
    assert_int_equal(mincore(ptr, bytes, here), 0);
    for (size_t i = 0; i < bytes / PAGE; i++)
        all = all && (here[i] & 1);
    return all;
}

static void test_an_arena_is_made_ahead(void **state)
{
    enum { PIECE = 512 << 10, ARENA = 8 * PIECE };
    struct pages *pages = NULL;
    void *ptr[9] = {NULL};

    (void)state;
    for (useconds_t wait_us = 1000; pages == NULL;
         wait_us *= 2) { /* the machine may be slow, but not for ever */
        pages = create_ahead(ARENA, 16 * ARENA);
        usleep(wait_us);
        ptr[0] = pages_alloc(pages, PIECE);
        if (is_touched(ptr[0], PIECE))
            break;
        assert_true(wait_us < 5000000);
        pages_free(pages, ptr[0]);
        pages_destroy(&pages);
    }
    wait_for_held(pages, 2 * ARENA); /* the first is not empty any more */
    for (size_t i = 1; i < COUNT_OF(ptr); i++)
        ptr[i] = pages_alloc(pages, PIECE);
    wait_for_held(pages, 3 * ARENA);
    pages_check(pages);
    for (size_t i = 0; i < COUNT_OF(ptr); i++)
        pages_free(pages, ptr[i]);
    pages_set_limit(pages, 0);
    wait_for_held(pages, 0);
    pages_set_limit(pages, 16 * ARENA);
    wait_for_held(pages, ARENA);
    pages_destroy(&pages);
}

/* Memory that is slow to get is kept ready in bulk, refilled as it is used, never above the
 * limit, and kept when it is empty again. */
static void test_many_bytes_are_made_ahead(void **state)
{
    enum { ARENA = 1 << 20, AHEAD = 8 * ARENA, LIMIT = 16 * ARENA };
    struct pages *pages = pages_create(&(struct pages_options){
        .arena_bytes = ARENA, .limit_bytes = LIMIT, .ahead = true, .ahead_bytes = AHEAD});
    void *a, *b;

    (void)state;
    wait_for_held(pages, AHEAD);
    a = pages_alloc(pages, ARENA);
    assert_non_null(a);
    wait_for_held(pages, AHEAD + ARENA);
    b = pages_alloc(pages, ARENA);
    assert_non_null(b);
    wait_for_held(pages, AHEAD + 2 * ARENA);
    pages_free(pages, a);
    pages_free(pages, b);
    pages_check(pages);
    wait_for_held(pages, AHEAD + ARENA);
    pages_destroy(&pages);
}

static void *count_alloc(size_t size, void *calls)
{
    atomic_fetch_add((atomic_uint *)calls, 1);
    return mem_try_alloc_aligned(PAGE, size);
}

static void count_free(void *ptr, void *calls)
{
    atomic_fetch_add((atomic_uint *)calls, 1);
    mem_free(ptr);
}

/* Bytes ahead that are no multiple of an arena: it is made once, and not given back at once. */
static void test_making_ahead_ends(void **state)
{
    enum { UNIT = 1 << 20 };
    atomic_uint calls = 0;
    struct pages *pages = pages_create(&(struct pages_options){.arena_bytes = 3 * UNIT,
                                                               .limit_bytes = 64 * UNIT,
                                                               .ahead = true,
                                                               .ahead_bytes = 8 * UNIT,
                                                               .alloc = count_alloc,
                                                               .free = count_free,
                                                               .arg = &calls});

    (void)state;
    wait_for_held(pages, 9 * UNIT);
    usleep(20000);
    assert_int_equal(atomic_load(&calls), 3);
    pages_destroy(&pages);
}

struct slow {
    sem_t holds, go;
    struct pages *pages;
    void *first;
};

static void *slow_alloc(size_t size, void *arg)
{
    struct slow *slow = arg;

    sem_post(&slow->holds);
    sem_wait(&slow->go);
    return mem_try_alloc_aligned(PAGE, size);
}

static void slow_free(void *ptr, void *arg)
{
    (void)arg;
    mem_free(ptr);
}

static void alloc_first(void *arg)
{
    struct slow *slow = arg;

    slow->first = pages_alloc(slow->pages, PAGE);
}

static void let_go(void *arg)
{
    struct slow *slow = arg;

    usleep(20000);
    sem_post(&slow->go);
}

/* Two threads need memory at once, and the first arena takes all that the limit allows: both fit
 * into it, so the second one waits for it. */
static void test_an_arena_on_its_way_is_awaited(void **state)
{
    struct slow slow;
    struct thread first = {0}, later = {0};

    (void)state;
    sem_init(&slow.holds, 0, 0);
    sem_init(&slow.go, 0, 0);
    slow.pages = pages_create(&(struct pages_options){
        .limit_bytes = 1 << 20, .alloc = slow_alloc, .free = slow_free, .arg = &slow});
    assert_ok(thread_start(&first, "first", alloc_first, &slow, NULL));
    sem_wait(&slow.holds);
    assert_ok(thread_start(&later, "later", let_go, &slow, NULL));
    void *second = pages_alloc(slow.pages, PAGE);
    thread_join(&first);
    thread_join(&later);
    assert_non_null(slow.first);
    assert_non_null(second);
    pages_free(slow.pages, slow.first);
    pages_free(slow.pages, second);
    pages_destroy(&slow.pages);
    sem_destroy(&slow.holds);
    sem_destroy(&slow.go);
}

/* A small cache needs what it has for objects. */
static void test_nothing_is_made_ahead_of_a_small_limit(void **state)
{
    enum { ARENA = 64 << 10 };
    struct pages *pages = create_ahead(ARENA, 7 * ARENA);
    void *ptr[7];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(ptr); i++)
        assert_non_null(ptr[i] = pages_alloc(pages, ARENA));
    assert_int_equal(pages_bytes_held(pages), 7 * ARENA);
    for (size_t i = 0; i < COUNT_OF(ptr); i++)
        pages_free(pages, ptr[i]);
    pages_destroy(&pages);
}

/* At every moment: before the thread runs, while it touches, and after it. */
static void test_the_end_does_not_wait_for_what_is_ahead(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 50; i++) {
        struct pages *pages = create_ahead(1 << 20, 64 << 20);
        usleep(i * 40);
        void *ptr = pages_alloc(pages, PAGE);
        assert_non_null(ptr);
        pages_check(pages);
        pages_free(pages, ptr);
        pages_destroy(&pages);
    }
}

/* ---- fragmentation ---- */

/* A cache at its limit: 64 arenas' worth of objects of 28 and 50 parts in 64 of an arena, victims
 * freed until the new one fits. Returns the mean of held / used. */
static double churn(uint64_t seed, bool oldest_first, double *worst)
{
    enum { UNIT = 4 * PAGE, STEPS = 20000 };
    struct pages *pages = create(NULL, 256, 64 * 256);
    static void *ptr[64 * 64];
    double sum = 0;
    size_t first = 0, count = 0;

    *worst = 0;
    for (int step = 0; step < STEPS; step++) {
        uint64_t bytes = (test_random_below(&seed, 2) ? 28 : 50) * UNIT;
        void *got;
        bytes -= test_random_below(&seed, UNIT);
        while ((got = pages_alloc(pages, bytes)) == NULL) {
            assert_true(count > 0);
            size_t victim = (first + (oldest_first ? 0 : test_random_below(&seed, count)));
            pages_free(pages, ptr[victim % COUNT_OF(ptr)]);
            ptr[victim % COUNT_OF(ptr)] = ptr[first % COUNT_OF(ptr)];
            first++;
            count--;
        }
        ptr[(first + count++) % COUNT_OF(ptr)] = got;
        double ratio = (double)pages_bytes_held(pages) / (double)pages_bytes_used(pages);
        if (step >= STEPS / 4) {
            sum += ratio / (STEPS - STEPS / 4);
            *worst = MAX(*worst, ratio);
        }
    }
    pages_check(pages);
    for (size_t i = 0; i < count; i++)
        pages_free(pages, ptr[(first + i) % COUNT_OF(ptr)]);
    pages_destroy(&pages);
    return sum;
}

static void test_fragmentation_stays_low(void **state)
{
    uint64_t seed = test_seed();
    double worst;

    (void)state;
    double oldest = churn(seed, true, &worst);
    printf("held / used, oldest freed first: mean %.3f, worst %.3f\n", oldest, worst);
    assert_true(oldest < 1.15 && worst < 1.3);
    double any = churn(seed, false, &worst);
    printf("held / used, any freed:          mean %.3f, worst %.3f\n", any, worst);
    assert_true(any < 1.25);
}

/* ---- threads ---- */

struct worker {
    struct thread thread;
    struct pages *pages;
    uint64_t seed;
    int refused;
};

/* cmocka's assertions belong to the main thread; here plain ones stop the process. */
static void work(void *arg)
{
    struct worker *worker = arg;
    uint64_t *ptr[16] = {0};

    for (int step = 0; step < 3000; step++) {
        size_t i = test_random_below(&worker->seed, COUNT_OF(ptr));
        if (ptr[i] != NULL) {
            if (*ptr[i] != (uintptr_t)ptr[i] + (uintptr_t)worker)
                abort();
            pages_free(worker->pages, ptr[i]);
            ptr[i] = NULL;
            continue;
        }
        uint64_t bytes = 1 + test_random_below(&worker->seed, 20 * PAGE);
        ptr[i] = pages_alloc(worker->pages, bytes);
        if (ptr[i] == NULL) {
            worker->refused++;
            continue;
        }
        *ptr[i] = (uintptr_t)ptr[i] + (uintptr_t)worker;
        if (step % 3 == 0)
            pages_shrink(worker->pages, ptr[i], 1 + bytes / 2);
        if (step % 500 == 0)
            pages_check(worker->pages);
        if (step % 700 == 0)
            pages_set_limit(worker->pages, (step % 1400 ? 200 : 400) * PAGE);
    }
    for (size_t i = 0; i < COUNT_OF(ptr); i++)
        if (ptr[i] != NULL)
            pages_free(worker->pages, ptr[i]);
}

static void test_threads_share_it(void **state)
{
    struct pages *pages = create(NULL, 32, 400);
    struct worker workers[4];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(workers); i++) {
        workers[i] = (struct worker){.pages = pages, .seed = i};
        assert_ok(thread_start(&workers[i].thread, "pages-test", work, &workers[i], NULL));
    }
    for (size_t i = 0; i < COUNT_OF(workers); i++)
        thread_join(&workers[i].thread);
    pages_check(pages);
    assert_int_equal(pages_bytes_used(pages), 0);
    pages_destroy(&pages);
}

/* ---- misuse ---- */

static bool aborts(void (*misuse)(struct pages *pages, char *ptr))
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct pages *pages = create(NULL, 16, 100);
        char *ptr = pages_alloc(pages, 3 * PAGE);
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(2);
        signal(SIGABRT, SIG_DFL);
        misuse(pages, ptr);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void nothing_wrong(struct pages *pages, char *ptr)
{
    pages_free(pages, ptr);
    pages_destroy(&pages);
}

static void free_twice(struct pages *pages, char *ptr)
{
    pages_free(pages, ptr);
    pages_free(pages, ptr);
}

static void free_inside(struct pages *pages, char *ptr)
{
    pages_free(pages, ptr + PAGE);
}

static void grow(struct pages *pages, char *ptr)
{
    pages_shrink(pages, ptr, 4 * PAGE);
}

static void shrink_to_nothing(struct pages *pages, char *ptr)
{
    pages_shrink(pages, ptr, 0);
}

static void leak(struct pages *pages, char *ptr)
{
    (void)ptr;
    pages_destroy(&pages);
}

static void test_misuse_aborts(void **state)
{
    (void)state;
    assert_false(aborts(nothing_wrong));
    assert_true(aborts(free_twice));
    assert_true(aborts(free_inside));
    assert_true(aborts(grow));
    assert_true(aborts(shrink_to_nothing));
    assert_true(aborts(leak));
}

TEST_SUITE(TEST(test_an_arena_is_made_ahead), TEST(test_many_bytes_are_made_ahead),
           TEST(test_an_arena_on_its_way_is_awaited), TEST(test_making_ahead_ends),
           TEST(test_nothing_is_made_ahead_of_a_small_limit),
           TEST(test_the_end_does_not_wait_for_what_is_ahead), TEST(test_equals_oracle),
           TEST(test_survives_every_failed_arena), TEST(test_alloc_is_aligned_and_counted),
           TEST(test_limit_refuses_and_sizes_cannot_overflow), TEST(test_empty_arenas_make_room),
           TEST(test_used_max), TEST(test_spare_arenas_are_kept_and_no_more),
           TEST(test_lowered_limit_takes_effect_as_arenas_empty),
           TEST(test_machine_without_room_gets_a_small_arena), TEST(test_anonymous_memory),
           TEST(test_fragmentation_stays_low), TEST(test_threads_share_it),
           TEST(test_misuse_aborts))

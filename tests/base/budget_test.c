#include "base/budget.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"
#include "support/test.h"

static budget_owner add(struct budget *budget, const char *name, uint64_t share)
{
    budget_owner owner;

    assert_ok(budget_add_owner(budget, name, share, &owner, NULL));
    assert_true(owner >= 0);
    return owner;
}

static void test_cap_is_a_cap(void **state)
{
    struct budget *budget = budget_create(100);
    budget_owner a = add(budget, "a", 0), b = add(budget, "b", 0);

    (void)state;
    assert_int_equal(budget_cap(budget), 100);
    assert_true(budget_try_reserve(budget, a, 60));
    assert_false(budget_try_reserve(budget, b, 41));
    assert_true(budget_try_reserve(budget, b, 40));
    assert_int_equal(budget_used(budget), 100);
    assert_true(budget_try_reserve(budget, a, 0));
    assert_false(budget_try_reserve(budget, a, 1));
    budget_release(budget, b, 1);
    assert_true(budget_try_reserve(budget, a, 1));
    budget_release(budget, a, 61);
    budget_release(budget, b, 39);
    assert_int_equal(budget_used(budget), 0);
    budget_destroy(&budget);
    assert_null(budget);
    budget_destroy(&budget);
}

static void test_share_is_kept_from_others_only(void **state)
{
    struct budget *budget = budget_create(100);
    budget_owner a = add(budget, "a", 30), b = add(budget, "b", 20), c = add(budget, "c", 0);

    (void)state;
    assert_int_equal(budget_available(budget, a), 80);
    assert_int_equal(budget_available(budget, b), 70);
    assert_int_equal(budget_available(budget, c), 50);
    assert_false(budget_try_reserve(budget, c, 51));
    assert_true(budget_try_reserve(budget, c, 50));
    /* What is left is promised: each owner gets its own part, and no more. */
    assert_false(budget_try_reserve(budget, a, 31));
    assert_true(budget_try_reserve(budget, a, 10));
    assert_int_equal(budget_available(budget, a), 20);
    assert_false(budget_try_reserve(budget, c, 1));
    assert_true(budget_try_reserve(budget, a, 20));
    assert_true(budget_try_reserve(budget, b, 20));
    assert_int_equal(budget_used(budget), 100);
    /* Given back below the share, it is kept for the one who gave it; above, it is anybody's. */
    budget_release(budget, a, 5);
    assert_int_equal(budget_available(budget, c), 0);
    assert_int_equal(budget_available(budget, a), 5);
    budget_release(budget, c, 7);
    assert_int_equal(budget_available(budget, b), 7);
    budget_release(budget, a, 25);
    budget_release(budget, b, 20);
    budget_release(budget, c, 43);
    budget_destroy(&budget);
}

static void test_lowered_cap_stops_grants_until_it_is_met(void **state)
{
    struct budget *budget = budget_create(100);
    budget_owner a = add(budget, "a", 0);

    (void)state;
    assert_true(budget_try_reserve(budget, a, 80));
    budget_set_cap(budget, 50);
    assert_int_equal(budget_excess(budget), 30);
    assert_int_equal(budget_available(budget, a), 0);
    assert_false(budget_try_reserve(budget, a, 1));
    budget_release(budget, a, 30);
    assert_int_equal(budget_excess(budget), 0);
    assert_false(budget_try_reserve(budget, a, 1));
    budget_release(budget, a, 1);
    assert_true(budget_try_reserve(budget, a, 1));
    budget_set_cap(budget, 51);
    assert_true(budget_try_reserve(budget, a, 1));
    budget_release(budget, a, 51);
    budget_destroy(&budget);
}

static void test_move_is_never_refused_and_never_free(void **state)
{
    struct budget *budget = budget_create(100);
    budget_owner staging = add(budget, "staging", 40), tier = add(budget, "tier", 0);

    (void)state;
    assert_true(budget_try_reserve(budget, staging, 40));
    assert_true(budget_try_reserve(budget, tier, 60));
    budget_move(budget, staging, tier, 30);
    assert_int_equal(budget_used(budget), 100);
    assert_int_equal(budget_excess(budget), 0);
    /* The share is uncovered now: what the tier gives back goes to the share, not to the tier. */
    assert_int_equal(budget_available(budget, staging), 0);
    budget_release(budget, tier, 10);
    assert_int_equal(budget_available(budget, tier), 0);
    assert_int_equal(budget_available(budget, staging), 10);
    budget_release(budget, tier, 25);
    assert_int_equal(budget_available(budget, tier), 5);
    assert_int_equal(budget_available(budget, staging), 35);
    budget_move(budget, tier, tier, 55);
    assert_int_equal(budget_available(budget, tier), 5);
    budget_release(budget, tier, 55);
    budget_release(budget, staging, 10);
    budget_destroy(&budget);
}

static void test_share_over_bytes_in_use_is_covered_later(void **state)
{
    struct budget *budget = budget_create(100);
    budget_owner old = add(budget, "old", 0);

    (void)state;
    assert_true(budget_try_reserve(budget, old, 90));
    budget_owner late = add(budget, "late", 50);
    assert_int_equal(budget_available(budget, late), 10);
    assert_int_equal(budget_available(budget, old), 0);
    budget_release(budget, old, 40);
    assert_int_equal(budget_available(budget, old), 0);
    assert_true(budget_try_reserve(budget, late, 50));
    budget_release(budget, late, 50);
    budget_remove_owner(budget, late);
    assert_int_equal(budget_available(budget, old), 50);
    budget_release(budget, old, 50);
    budget_destroy(&budget);
}

static void test_owners_are_limited_with_a_sentence(void **state)
{
    struct budget *budget = budget_create(100);
    struct errinfo info = {0};
    budget_owner owner, first = add(budget, "first", 60);

    (void)state;
    assert_err(budget_add_owner(budget, "greedy", 41, &owner, &info), ERR_LIMIT);
    assert_int_equal(owner, -1);
    assert_non_null(strstr(info.text, "'greedy'"));
    assert_non_null(strstr(info.text, "41 bytes"));
    assert_err(budget_add_owner(budget, "wraps", UINT64_MAX - 10, &owner, NULL), ERR_LIMIT);
    for (int i = 1; i < BUDGET_OWNERS_MAX; i++)
        add(budget, "filler", i == 1 ? 40 : 0);
    assert_err(budget_add_owner(budget, "late", 0, &owner, &info), ERR_LIMIT);
    assert_int_equal(owner, -1);
    assert_non_null(strstr(info.text, "'late'"));
    budget_remove_owner(budget, first);
    assert_int_equal(add(budget, "late", 60), first);
    budget_destroy(&budget);
}

static void test_numbers_do_not_wrap(void **state)
{
    struct budget *budget = budget_create(UINT64_MAX);
    budget_owner a = add(budget, "a", 0), b;

    (void)state;
    assert_true(budget_available(budget, a) == UINT64_MAX);
    assert_true(budget_try_reserve(budget, a, UINT64_MAX));
    assert_false(budget_try_reserve(budget, a, 1));
    assert_false(budget_try_reserve(budget, a, UINT64_MAX));
    b = add(budget, "b", UINT64_MAX);
    assert_int_equal(budget_available(budget, b), 0);
    budget_set_cap(budget, 0);
    assert_true(budget_excess(budget) == UINT64_MAX);
    budget_move(budget, a, b, UINT64_MAX);
    budget_set_cap(budget, UINT64_MAX);
    budget_release(budget, b, UINT64_MAX);
    assert_int_equal(budget_available(budget, a), 0);
    assert_true(budget_available(budget, b) == UINT64_MAX);
    budget_destroy(&budget);
}

/* ---- misuse ---- */

static void assert_aborts(void (*fn)(struct budget *budget, budget_owner owner))
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        struct budget *budget = budget_create(100);
        budget_owner owner = add(budget, "a", 0);
        close(2);
        if (budget_try_reserve(budget, owner, 10))
            fn(budget, owner);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void release_too_much(struct budget *budget, budget_owner owner)
{
    budget_release(budget, owner, 11);
}

static void move_too_much(struct budget *budget, budget_owner owner)
{
    budget_move(budget, owner, add(budget, "b", 0), 11);
}

static void remove_in_use(struct budget *budget, budget_owner owner)
{
    budget_remove_owner(budget, owner);
}

static void destroy_in_use(struct budget *budget, budget_owner owner)
{
    (void)owner;
    budget_destroy(&budget);
}

static void use_of_nobody(struct budget *budget, budget_owner owner)
{
    (void)owner;
    (void)!budget_try_reserve(budget, -1, 0);
}

static void use_after_removal(struct budget *budget, budget_owner owner)
{
    budget_release(budget, owner, 10);
    budget_remove_owner(budget, owner);
    (void)!budget_try_reserve(budget, owner, 1);
}

static void test_misuse_aborts(void **state)
{
    (void)state;
    assert_aborts(release_too_much);
    assert_aborts(move_too_much);
    assert_aborts(remove_in_use);
    assert_aborts(destroy_in_use);
    assert_aborts(use_of_nobody);
    assert_aborts(use_after_removal);
}

/* ---- oracle ---- */

/* Adds up what the ledger subtracts, in numbers that are wide enough. */
typedef __int128 wide;

struct model {
    uint64_t cap;
    struct {
        bool taken;
        uint64_t used, share;
    } lines[BUDGET_OWNERS_MAX];
};

static wide model_used(const struct model *model)
{
    wide sum = 0;

    for (int i = 0; i < BUDGET_OWNERS_MAX; i++)
        sum += model->lines[i].taken ? model->lines[i].used : 0;
    return sum;
}

/* Used, or promised, by all but one owner. */
static wide model_committed(const struct model *model, int except)
{
    wide sum = 0;

    for (int i = 0; i < BUDGET_OWNERS_MAX; i++)
        if (model->lines[i].taken && i != except)
            sum += MAX(model->lines[i].used, model->lines[i].share);
    return sum;
}

static bool model_allows(const struct model *model, int owner, wide bytes)
{
    return bytes == 0 ||
           model->lines[owner].used + bytes + model_committed(model, owner) <= model->cap;
}

static uint64_t clamp(wide number)
{
    return number < 0 ? 0 : number > UINT64_MAX ? UINT64_MAX : (uint64_t)number;
}

static void compare(const struct budget *budget, const struct model *model)
{
    for (int i = 0; i < BUDGET_OWNERS_MAX; i++) {
        if (!model->lines[i].taken)
            continue;
        uint64_t available = budget_available(budget, i);
        assert_true(model_allows(model, i, available));
        assert_false(model_allows(model, i, (wide)available + 1));
    }
    assert_true(budget_cap(budget) == model->cap);
    assert_true(budget_used(budget) == model_used(model));
    assert_true(budget_excess(budget) == clamp(model_used(model) - model->cap));
}

/* Mostly numbers of a size that can be granted, now and then any number at all. */
static uint64_t some_bytes(uint64_t *seed, uint64_t scale)
{
    return test_random_below(seed, 20) == 0 ? test_random(seed) : test_random(seed) % scale;
}

static int some_owner(uint64_t *seed, const struct model *model)
{
    int start = (int)test_random_below(seed, BUDGET_OWNERS_MAX);

    for (int i = 0; i < BUDGET_OWNERS_MAX; i++)
        if (model->lines[(start + i) % BUDGET_OWNERS_MAX].taken)
            return (start + i) % BUDGET_OWNERS_MAX;
    return -1;
}

static void set_model_used(struct model *model, int owner, uint64_t used)
{
    model->lines[owner].used = used;
}

static void step_owners(uint64_t *seed, struct budget *budget, struct model *model, uint64_t scale)
{
    int owner = some_owner(seed, model);

    if (owner >= 0 && model->lines[owner].used == 0 && test_random_below(seed, 2) == 0) {
        budget_remove_owner(budget, owner);
        model->lines[owner].taken = false;
        return;
    }
    uint64_t share = test_random_below(seed, 2) ? some_bytes(seed, scale / 4 + 1) : 0;
    wide shares = 0;
    int taken = 0;
    for (int i = 0; i < BUDGET_OWNERS_MAX; i++) {
        taken += model->lines[i].taken;
        shares += model->lines[i].taken ? model->lines[i].share : 0;
    }
    bool fits = taken < BUDGET_OWNERS_MAX && (share == 0 || shares + share <= model->cap);
    budget_owner added;
    assert_err(budget_add_owner(budget, "x", share, &added, NULL), fits ? ERR_OK : ERR_LIMIT);
    if (!fits)
        return;
    assert_false(model->lines[added].taken);
    memset(&model->lines[added], 0, sizeof(model->lines[added]));
    model->lines[added].taken = true;
    model->lines[added].share = share;
}

static void step_share(uint64_t *seed, struct budget *budget, struct model *model, uint64_t scale)
{
    int owner = some_owner(seed, model);
    uint64_t share = some_bytes(seed, scale / 4 + 1);
    wide shares = share;

    for (int i = 0; i < BUDGET_OWNERS_MAX; i++)
        shares += model->lines[i].taken && i != owner ? model->lines[i].share : 0;
    if (owner < 0 || shares > UINT64_MAX)
        return;
    budget_set_share(budget, owner, share);
    model->lines[owner].share = share;
}

static void step_bytes(uint64_t *seed, struct budget *budget, struct model *model, uint64_t scale)
{
    int owner = some_owner(seed, model), other = some_owner(seed, model);
    uint64_t choice = test_random_below(seed, 10), bytes;

    if (owner < 0)
        return;
    uint64_t used = model->lines[owner].used;
    if (choice < 6) {
        bytes = some_bytes(seed, scale / 4 + 1);
        bool allowed = model_allows(model, owner, bytes);
        assert_int_equal(budget_try_reserve(budget, owner, bytes), allowed);
        if (allowed)
            set_model_used(model, owner, used + bytes);
        return;
    }
    bytes = test_random_below(seed, 3) == 0 ? used : test_random(seed) % (used / 2 + 1);
    if (choice < 9) {
        budget_release(budget, owner, bytes);
        set_model_used(model, owner, used - bytes);
        return;
    }
    budget_move(budget, owner, other, bytes);
    set_model_used(model, owner, used - bytes);
    set_model_used(model, other, model->lines[other].used + bytes);
}

static void test_equals_oracle(void **state)
{
    static const uint64_t scales[] = {4, 1000, UINT64_C(1) << 40, UINT64_MAX};
    uint64_t seed = test_seed();
    int steps = 0;

    (void)state;
    for (int round = 0; round < 24; round++) {
        uint64_t scale = scales[round % (int)COUNT_OF(scales)];
        struct model model = {.cap = scale};
        struct budget *budget = budget_create(scale);
        for (int step = 0; step < 300; step++) {
            uint64_t choice = test_random_below(&seed, 100);
            if (choice < 2) {
                model.cap = test_random_below(&seed, 3) ? scale : test_random(&seed) % scale;
                budget_set_cap(budget, model.cap);
            } else if (choice < 4) {
                step_share(&seed, budget, &model, scale);
            } else if (choice < 14) {
                step_owners(&seed, budget, &model, scale);
            } else {
                step_bytes(&seed, budget, &model, scale);
            }
            compare(budget, &model);
            steps++;
        }
        for (int i = 0; i < BUDGET_OWNERS_MAX; i++)
            if (model.lines[i].taken)
                budget_release(budget, i, model.lines[i].used);
        budget_destroy(&budget);
    }
    assert_int_equal(steps, 24 * 300);
}

/* ---- many threads ---- */

enum { WORKERS = 4, TURNS = 2000, CONCURRENT_CAP = 1000, CONCURRENT_SHARE = 150 };

/* `granted` is raised after each grant and lowered before the bytes are given back, so it never
 * exceeds what the ledger has given out: if it is ever above the cap, so was the ledger. */
struct load {
    struct budget *budget;
    atomic_long granted;
    atomic_int running, over;
};

struct worker {
    struct load *load;
    budget_owner owner, neighbour; /* who takes over what is moved; -1: nothing is */
    uint64_t share, seed, held;
    int broken; /* promises, that is */
    struct thread thread;
};

static bool reserve_counted(struct worker *worker, uint64_t bytes)
{
    struct load *load = worker->load;

    if (!budget_try_reserve(load->budget, worker->owner, bytes))
        return false;
    if (atomic_fetch_add(&load->granted, (long)bytes) + (long)bytes > CONCURRENT_CAP)
        atomic_fetch_add(&load->over, 1);
    worker->held += bytes;
    return true;
}

static void release_counted(struct worker *worker)
{
    struct load *load = worker->load;

    if (worker->neighbour >= 0) {
        budget_move(load->budget, worker->owner, worker->neighbour, worker->held);
        budget_move(load->budget, worker->neighbour, worker->owner, worker->held);
    }
    atomic_fetch_sub(&load->granted, (long)worker->held);
    budget_release(load->budget, worker->owner, worker->held);
    worker->held = 0;
}

static void work(void *arg)
{
    struct worker *worker = arg;

    for (int turn = 0; turn < TURNS; turn++) {
        uint64_t bytes = 1 + test_random_below(&worker->seed, 400);
        if (!reserve_counted(worker, bytes) && worker->held + bytes <= worker->share)
            worker->broken++;
        if (test_random_below(&worker->seed, 3) == 0)
            release_counted(worker);
    }
    release_counted(worker);
    atomic_fetch_sub(&worker->load->running, 1);
}

/* Every second worker has a share and must always get it. Those without one take whatever they can,
 * and one of them moves bytes to the other and back, which leaves all shares covered. */
static void test_holds_its_cap_under_load(void **state)
{
    struct load load = {.budget = budget_create(CONCURRENT_CAP), .running = WORKERS};
    struct worker workers[WORKERS];
    uint64_t seed = test_seed();

    (void)state;
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.load = &load, .share = i % 2 ? CONCURRENT_SHARE : 0};
        workers[i].seed = test_random(&seed);
        workers[i].owner = add(load.budget, "worker", workers[i].share);
        workers[i].neighbour = i == 2 ? workers[0].owner : -1;
    }
    for (int i = 0; i < WORKERS; i++)
        assert_ok(thread_start(&workers[i].thread, "worker", work, &workers[i], NULL));
    while (atomic_load(&load.running) > 0) {
        if (budget_used(load.budget) > CONCURRENT_CAP)
            atomic_fetch_add(&load.over, 1);
        sched_yield();
    }
    for (int i = 0; i < WORKERS; i++)
        thread_join(&workers[i].thread);
    assert_int_equal(atomic_load(&load.over), 0);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(workers[i].broken, 0);
    assert_int_equal(budget_used(load.budget), 0);
    budget_destroy(&load.budget);
}

static void move_to_and_fro(void *arg)
{
    struct worker *worker = arg;

    for (int turn = 0; turn < 5 * TURNS; turn++) {
        budget_move(worker->load->budget, worker->owner, worker->neighbour, CONCURRENT_CAP);
        budget_move(worker->load->budget, worker->neighbour, worker->owner, CONCURRENT_CAP);
    }
    atomic_fetch_sub(&worker->load->running, 1);
}

/* All bytes are on the move all the time, so that there is never one to be had. */
static void test_move_leaves_no_gap_for_others(void **state)
{
    struct load load = {.budget = budget_create(CONCURRENT_CAP), .running = 1};
    struct worker mover = {.load = &load};
    int caught = 0;

    (void)state;
    mover.owner = add(load.budget, "here", 0);
    mover.neighbour = add(load.budget, "there", 0);
    budget_owner thief = add(load.budget, "thief", 0);
    assert_true(budget_try_reserve(load.budget, mover.owner, CONCURRENT_CAP));
    assert_ok(thread_start(&mover.thread, "mover", move_to_and_fro, &mover, NULL));
    while (atomic_load(&load.running) > 0)
        caught +=
            budget_used(load.budget) != CONCURRENT_CAP || budget_try_reserve(load.budget, thief, 1);
    thread_join(&mover.thread);
    assert_int_equal(caught, 0);
    budget_release(load.budget, mover.owner, CONCURRENT_CAP);
    budget_destroy(&load.budget);
}

TEST_SUITE(TEST(test_cap_is_a_cap), TEST(test_share_is_kept_from_others_only),
           TEST(test_lowered_cap_stops_grants_until_it_is_met),
           TEST(test_move_is_never_refused_and_never_free),
           TEST(test_share_over_bytes_in_use_is_covered_later),
           TEST(test_owners_are_limited_with_a_sentence), TEST(test_numbers_do_not_wrap),
           TEST(test_misuse_aborts), TEST(test_equals_oracle), TEST(test_holds_its_cap_under_load),
           TEST(test_move_leaves_no_gap_for_others))

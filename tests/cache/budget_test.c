#include "cache/budget.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "support/test.h"

static void test_cap_is_a_cap(void **state)
{
    struct budget budget = {.cap = 100};
    struct budget_line a = {0}, b = {0};

    (void)state;
    assert_true(budget_try_reserve(&budget, &a, 60));
    assert_false(budget_try_reserve(&budget, &b, 41));
    assert_true(budget_try_reserve(&budget, &b, 40));
    assert_int_equal(budget.used, 100);
    assert_true(budget_try_reserve(&budget, &a, 0));
    assert_false(budget_try_reserve(&budget, &a, 1));
    budget_release(&budget, &b, 1);
    assert_true(budget_try_reserve(&budget, &a, 1));
    budget_release(&budget, &a, 61);
    budget_release(&budget, &b, 39);
    assert_int_equal(budget.used, 0);
}

static void share(struct budget *budget, struct budget_line *line, uint64_t bytes)
{
    assert_true(budget_try_share(budget, line, bytes));
}

static void test_share_is_kept_from_others_only(void **state)
{
    struct budget budget = {.cap = 100};
    struct budget_line a = {0}, b = {0}, c = {0};

    (void)state;
    share(&budget, &a, 30);
    share(&budget, &b, 20);
    assert_int_equal(budget_available(&budget, &a), 80);
    assert_int_equal(budget_available(&budget, &b), 70);
    assert_int_equal(budget_available(&budget, &c), 50);
    assert_false(budget_try_reserve(&budget, &c, 51));
    assert_true(budget_try_reserve(&budget, &c, 50));
    /* What is left is promised: each owner gets its own part, and no more. */
    assert_false(budget_try_reserve(&budget, &a, 31));
    assert_true(budget_try_reserve(&budget, &a, 10));
    assert_int_equal(budget_available(&budget, &a), 20);
    assert_false(budget_try_reserve(&budget, &c, 1));
    assert_true(budget_try_reserve(&budget, &a, 20));
    assert_true(budget_try_reserve(&budget, &b, 20));
    assert_int_equal(budget.used, 100);
    /* Given back below the share, it is kept for the one who gave it; above, it is anybody's. */
    budget_release(&budget, &a, 5);
    assert_int_equal(budget_available(&budget, &c), 0);
    assert_int_equal(budget_available(&budget, &a), 5);
    budget_release(&budget, &c, 7);
    assert_int_equal(budget_available(&budget, &b), 7);
}

static void test_lowered_cap_stops_grants_until_it_is_met(void **state)
{
    struct budget budget = {.cap = 100};
    struct budget_line a = {0};

    (void)state;
    assert_true(budget_try_reserve(&budget, &a, 80));
    budget.cap = 50;
    assert_int_equal(budget_excess(&budget), 30);
    assert_int_equal(budget_available(&budget, &a), 0);
    assert_false(budget_try_reserve(&budget, &a, 1));
    budget_release(&budget, &a, 30);
    assert_int_equal(budget_excess(&budget), 0);
    assert_false(budget_try_reserve(&budget, &a, 1));
    budget_release(&budget, &a, 1);
    assert_true(budget_try_reserve(&budget, &a, 1));
    budget.cap = 51;
    assert_true(budget_try_reserve(&budget, &a, 1));
}

static void test_share_over_bytes_in_use_is_covered_later(void **state)
{
    struct budget budget = {.cap = 100};
    struct budget_line old = {0}, late = {0};

    (void)state;
    assert_true(budget_try_reserve(&budget, &old, 90));
    share(&budget, &late, 50);
    assert_int_equal(budget_available(&budget, &late), 10);
    assert_int_equal(budget_available(&budget, &old), 0);
    budget_release(&budget, &old, 40);
    assert_int_equal(budget_available(&budget, &old), 0);
    assert_true(budget_try_reserve(&budget, &late, 50));
    budget_release(&budget, &late, 50);
    budget_set_share(&budget, &late, 0);
    assert_int_equal(budget_available(&budget, &old), 50);
    assert_int_equal(budget.shares, 0);
}

static void test_shares_are_within_the_cap(void **state)
{
    struct budget budget = {.cap = 100};
    struct budget_line first = {0}, second = {0}, none = {0};

    (void)state;
    share(&budget, &first, 60);
    assert_false(budget_try_share(&budget, &second, 41));
    assert_false(budget_try_share(&budget, &second, UINT64_MAX - 10));
    assert_int_equal(second.share, 0);
    share(&budget, &second, 40);
    share(&budget, &none, 0);
    budget.cap = 10;
    share(&budget, &none, 0);
    budget.cap = 100;
    budget_set_share(&budget, &first, 0);
    share(&budget, &first, 60);
}

static void test_numbers_do_not_wrap(void **state)
{
    struct budget budget = {.cap = UINT64_MAX};
    struct budget_line a = {0}, b = {0};

    (void)state;
    assert_true(budget_available(&budget, &a) == UINT64_MAX);
    assert_true(budget_try_reserve(&budget, &a, UINT64_MAX));
    assert_false(budget_try_reserve(&budget, &a, 1));
    assert_false(budget_try_reserve(&budget, &a, UINT64_MAX));
    share(&budget, &b, UINT64_MAX);
    assert_int_equal(budget_available(&budget, &b), 0);
    budget.cap = 0;
    assert_true(budget_excess(&budget) == UINT64_MAX);
    budget.cap = UINT64_MAX;
    budget_release(&budget, &a, UINT64_MAX);
    assert_int_equal(budget_available(&budget, &a), 0);
    assert_true(budget_available(&budget, &b) == UINT64_MAX);
}

/* ---- misuse ---- */

static void assert_aborts(void (*fn)(struct budget *budget, struct budget_line *line))
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        struct budget budget = {.cap = 100};
        struct budget_line line = {0};
        close(2);
        if (budget_try_reserve(&budget, &line, 10))
            fn(&budget, &line);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void release_too_much(struct budget *budget, struct budget_line *line)
{
    budget_release(budget, line, 11);
}

static void share_twice(struct budget *budget, struct budget_line *line)
{
    if (budget_try_share(budget, line, 1))
        (void)!budget_try_share(budget, line, 1);
}

static void share_too_much(struct budget *budget, struct budget_line *line)
{
    struct budget_line other = {0};

    budget_set_share(budget, line, UINT64_MAX);
    budget_set_share(budget, &other, 1);
}

static void test_misuse_aborts(void **state)
{
    (void)state;
    assert_aborts(release_too_much);
    assert_aborts(share_twice);
    assert_aborts(share_too_much);
}

/* ---- oracle ---- */

/* Adds up what the budget subtracts, in numbers that are wide enough. */
typedef __int128 wide;

enum { LINES = 64 };

struct model {
    uint64_t cap;
    struct budget_line lines[LINES];
};

static wide model_used(const struct model *model)
{
    wide sum = 0;

    for (int i = 0; i < LINES; i++)
        sum += model->lines[i].used;
    return sum;
}

static wide model_shares(const struct model *model, int except)
{
    wide sum = 0;

    for (int i = 0; i < LINES; i++)
        sum += i != except ? model->lines[i].share : 0;
    return sum;
}

/* Used, or promised, by all but one owner. */
static wide model_committed(const struct model *model, int except)
{
    wide sum = 0;

    for (int i = 0; i < LINES; i++)
        if (i != except)
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

static void compare(const struct budget *budget, const struct budget_line *lines,
                    const struct model *model)
{
    for (int i = 0; i < LINES; i++) {
        uint64_t available = budget_available(budget, &lines[i]);
        assert_true(model_allows(model, i, available));
        assert_false(model_allows(model, i, (wide)available + 1));
    }
    assert_memory_equal(lines, model->lines, sizeof(model->lines));
    assert_true(budget->used == model_used(model));
    assert_true(budget->shares == model_shares(model, LINES));
    assert_true(budget_excess(budget) == clamp(model_used(model) - model->cap));
}

/* Mostly numbers of a size that can be granted, now and then any number at all. */
static uint64_t some_bytes(uint64_t *seed, uint64_t scale)
{
    return test_random_below(seed, 20) == 0 ? test_random(seed) : test_random(seed) % scale;
}

/* A line ends, or a new one gets its share. */
static void step_owners(uint64_t *seed, struct budget *budget, struct budget_line *lines,
                        struct model *model, uint64_t scale)
{
    int owner = (int)test_random_below(seed, LINES);
    uint64_t bytes = test_random_below(seed, 2) ? some_bytes(seed, scale / 4 + 1) : 0;

    if (model->lines[owner].share > 0) {
        budget_set_share(budget, &lines[owner], 0);
        model->lines[owner].share = 0;
        return;
    }
    bool fits = bytes == 0 || model_shares(model, LINES) + bytes <= model->cap;
    assert_int_equal(budget_try_share(budget, &lines[owner], bytes), fits);
    if (fits)
        model->lines[owner].share = bytes;
}

static void step_share(uint64_t *seed, struct budget *budget, struct budget_line *lines,
                       struct model *model, uint64_t scale)
{
    int owner = (int)test_random_below(seed, LINES);
    uint64_t bytes = some_bytes(seed, scale / 4 + 1);

    if (model_shares(model, owner) + bytes > UINT64_MAX)
        return;
    budget_set_share(budget, &lines[owner], bytes);
    model->lines[owner].share = bytes;
}

static void step_bytes(uint64_t *seed, struct budget *budget, struct budget_line *lines,
                       struct model *model, uint64_t scale)
{
    int owner = (int)test_random_below(seed, LINES);
    uint64_t bytes, used = model->lines[owner].used;

    if (test_random_below(seed, 10) < 6) {
        bytes = some_bytes(seed, scale / 4 + 1);
        bool allowed = model_allows(model, owner, bytes);
        assert_int_equal(budget_try_reserve(budget, &lines[owner], bytes), allowed);
        model->lines[owner].used += allowed ? bytes : 0;
        return;
    }
    bytes = test_random_below(seed, 3) == 0 ? used : test_random(seed) % (used / 2 + 1);
    budget_release(budget, &lines[owner], bytes);
    model->lines[owner].used -= bytes;
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
        struct budget budget = {.cap = scale};
        struct budget_line lines[LINES] = {{0}};
        for (int step = 0; step < 300; step++) {
            uint64_t choice = test_random_below(&seed, 100);
            if (choice < 2) {
                model.cap = test_random_below(&seed, 3) ? scale : test_random(&seed) % scale;
                budget.cap = model.cap;
            } else if (choice < 4) {
                step_share(&seed, &budget, lines, &model, scale);
            } else if (choice < 14) {
                step_owners(&seed, &budget, lines, &model, scale);
            } else {
                step_bytes(&seed, &budget, lines, &model, scale);
            }
            compare(&budget, lines, &model);
            steps++;
        }
        for (int i = 0; i < LINES; i++) {
            budget_release(&budget, &lines[i], model.lines[i].used);
            budget_set_share(&budget, &lines[i], 0);
        }
        assert_true(budget.used == 0 && budget.shares == 0 && budget.promised == 0);
    }
    assert_int_equal(steps, 24 * 300);
}

TEST_SUITE(TEST(test_cap_is_a_cap), TEST(test_share_is_kept_from_others_only),
           TEST(test_lowered_cap_stops_grants_until_it_is_met),
           TEST(test_share_over_bytes_in_use_is_covered_later),
           TEST(test_shares_are_within_the_cap), TEST(test_numbers_do_not_wrap),
           TEST(test_misuse_aborts), TEST(test_equals_oracle))

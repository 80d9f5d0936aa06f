#include "cache/flight.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "support/test.h"

static const int32_t alphabet[] = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19};

/* A caller that waits: what it was told, how often, and the how-manieth call it was. */
struct caller {
    int calls;
    uint32_t reached;
    int turn;
    int *turns;
};

static void on_call(uint32_t reached, void *arg)
{
    struct caller *caller = arg;

    caller->calls++;
    caller->reached = reached;
    caller->turn = caller->turns != NULL ? ++*caller->turns : 0;
}

/* ---- what it promises, one thing at a time ---- */

static void test_i1_waiters_see_only_completed_boundaries(void **state)
{
    struct flights *flights = flights_create(4, 4);
    struct flight *flight = flights_open(flights, alphabet, 10);
    struct flight_call *due = NULL;
    struct caller caller = {0};
    uint32_t reached = 99;

    (void)state;
    assert_int_equal(flights_find(flights, alphabet, 10, &reached), 9);
    assert_int_equal(reached, 0); /* it will be there; it is not there yet */
    assert_true(flights_wait(flights, alphabet, 10, 6, on_call, &caller));
    flights_reached(flights, flight, 5, &due);
    assert_null(due);
    flights_reached(flights, flight, 6, &due);
    assert_non_null(due);
    assert_int_equal(caller.calls, 0); /* only collected */
    flight_calls_make(&due);
    assert_null(due);
    assert_int_equal(caller.calls, 1);
    assert_int_equal(caller.reached, 6);
    assert_false(flights_wait(flights, alphabet, 10, 6, on_call, &caller)); /* it is there now */
    flights_close(flights, &flight, &due);
    assert_null(due);
    flights_destroy(&flights);
}

static void test_i96_waiter_goes_on_when_the_flight_dies(void **state)
{
    struct flights *flights = flights_create(4, 4);
    struct flight *flight = flights_open(flights, alphabet, 10);
    struct flight_call *due = NULL;
    struct caller half = {0}, none = {0};

    (void)state;
    assert_true(flights_wait(flights, alphabet, 10, 8, on_call, &half));
    flights_reached(flights, flight, 3, &due);
    flights_close(flights, &flight, &due);
    assert_null(flight);
    flight_calls_make(&due);
    assert_int_equal(half.calls, 1);
    assert_int_equal(half.reached, 3);

    flight = flights_open(flights, alphabet, 10);
    assert_true(flights_wait(flights, alphabet, 10, 8, on_call, &none));
    flights_close(flights, &flight, &due);
    flight_calls_make(&due);
    assert_int_equal(none.calls, 1);
    assert_int_equal(none.reached, 0);
    assert_int_equal(flights_find(flights, alphabet, 10, NULL), 0);
    assert_false(flights_wait(flights, alphabet, 10, 8, on_call, &none));
    flights_destroy(&flights);
}

static void test_waits_for_what_is_shared_and_no_more(void **state)
{
    static const int32_t branch[] = {10, 11, 12, 13, 77, 78, 79}, foreign[] = {9, 10, 11};
    struct flights *flights = flights_create(4, 4);
    struct flight *flight = flights_open(flights, alphabet, 10);
    struct flight_call *due = NULL;
    struct caller caller = {0};

    (void)state;
    assert_int_equal(flights_find(flights, foreign, 3, NULL), 0);
    assert_false(flights_wait(flights, foreign, 3, 2, on_call, &caller));
    assert_int_equal(flights_find(flights, branch, 7, NULL), 4);
    assert_true(flights_wait(flights, branch, 7, 6, on_call, &caller));
    flights_reached(flights, flight, 10, &due);
    flight_calls_make(&due);
    assert_int_equal(caller.reached, 4); /* the other six are not this prompt's */
    flights_close(flights, &flight, &due);
    flights_destroy(&flights);
}

static void test_i12_one_token_is_left_to_run(void **state)
{
    struct flights *flights = flights_create(4, 4);
    struct flight *flight = flights_open(flights, alphabet, 10);
    struct flight_call *due = NULL;
    struct caller caller = {0};

    (void)state;
    assert_int_equal(flights_find(flights, alphabet, 4, NULL), 3);
    assert_int_equal(flights_find(flights, alphabet, 1, NULL), 0);
    assert_int_equal(flights_find(flights, alphabet, 0, NULL), 0);
    assert_false(flights_wait(flights, alphabet, 1, 1, on_call, &caller));
    assert_false(flights_wait(flights, alphabet, 10, 0, on_call, &caller));
    assert_true(flights_wait(flights, alphabet, 4, 4, on_call, &caller));
    flights_reached(flights, flight, 3, &due);
    flight_calls_make(&due);
    assert_int_equal(caller.reached, 3);
    flights_close(flights, &flight, &due);
    flights_destroy(&flights);
}

static void test_reached_never_goes_back_nor_beyond_its_end(void **state)
{
    struct flights *flights = flights_create(4, 4);
    struct flight *flight = flights_open(flights, alphabet, 6);
    struct flight_call *due = NULL;
    uint32_t reached;

    (void)state;
    flights_reached(flights, flight, 4, &due);
    flights_reached(flights, flight, 2, &due);
    assert_int_equal(flights_find(flights, alphabet, 10, &reached), 6);
    assert_int_equal(reached, 4);
    flights_reached(flights, flight, UINT32_MAX, &due);
    flights_find(flights, alphabet, 10, &reached);
    assert_int_equal(reached, 6);
    flights_close(flights, &flight, &due);
    flights_close(flights, &flight, &due); /* NULL is closed already */
    flights_destroy(&flights);
    flights_destroy(&flights);
}

static void test_calls_come_in_the_order_they_became_due(void **state)
{
    struct flights *flights = flights_create(4, 8);
    struct flight *flight = flights_open(flights, alphabet, 10);
    struct flight_call *due = NULL;
    int turns = 0;
    struct caller late = {.turns = &turns}, soon = late, soon_too = late, dead = late;

    (void)state;
    assert_true(flights_wait(flights, alphabet, 10, 9, on_call, &dead));
    assert_true(flights_wait(flights, alphabet, 10, 6, on_call, &late));
    assert_true(flights_wait(flights, alphabet, 10, 2, on_call, &soon));
    assert_true(flights_wait(flights, alphabet, 10, 3, on_call, &soon_too));
    flights_reached(flights, flight, 3, &due);
    flights_reached(flights, flight, 6, &due);
    flights_close(flights, &flight, &due);
    assert_int_equal(flights_waiters(flights), 0);
    flight_calls_make(&due);
    assert_int_equal(soon.turn, 1);
    assert_int_equal(soon_too.turn, 2);
    assert_int_equal(late.turn, 3);
    assert_int_equal(dead.turn, 4);
    flights_destroy(&flights);
}

static void test_i108_flights_and_waiters_are_bounded(void **state)
{
    struct flights *flights = flights_create(2, 3);
    struct flight *a = flights_open(flights, alphabet, 10);
    struct flight *b = flights_open(flights, alphabet + 1, 9);
    struct flight_call *due = NULL;
    struct caller callers[4] = {0};

    (void)state;
    assert_non_null(b);
    assert_null(flights_open(flights, alphabet, 10));
    assert_int_equal(flights_count(flights), 2);
    assert_true(flights_wait(flights, alphabet, 10, 5, on_call, &callers[0]));
    assert_true(flights_wait(flights, alphabet + 1, 9, 5, on_call, &callers[1]));
    assert_true(flights_wait(flights, alphabet, 10, 5, on_call, &callers[2]));
    assert_false(flights_wait(flights, alphabet, 10, 5, on_call, &callers[3]));
    flights_close(flights, &b, &due);
    assert_int_equal(flights_waiters(flights), 2);
    assert_true(flights_wait(flights, alphabet, 10, 5, on_call, &callers[3]));
    b = flights_open(flights, alphabet, 10);
    assert_non_null(b);
    assert_null(flights_open(flights, alphabet, 0));
    flights_close(flights, &a, &due);
    flights_close(flights, &b, &due);
    flight_calls_make(&due);
    for (int i = 0; i < 4; i++)
        assert_int_equal(callers[i].calls, 1);
    flights_destroy(&flights);
}

static void test_no_memory_is_no_flight(void **state)
{
    struct fault fault = {0};

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct flights *flights = flights_create(2, 2);
        struct flight *flight = flights_open(flights, alphabet, 10);
        struct flight_call *due = NULL;
        assert_int_equal(flight == NULL, atomic_load(&fault.fired) > 0);
        assert_int_equal(flights_count(flights), flight != NULL);
        flights_close(flights, &flight, &due);
        flights_destroy(&flights);
    }
    mem_set_fault(NULL);
}

static void test_destroying_an_open_flight_aborts(void **state)
{
    int status;
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit none = {0};
        struct flights *flights = flights_create(2, 2);
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL); /* cmocka catches it */
        close(2);
        if (flights_open(flights, alphabet, 10) != NULL)
            flights_destroy(&flights);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* ---- random flights and callers against arrays ---- */

enum { FLIGHTS_MAX = 5, WAITERS_MAX = 12, LENGTH_MAX = 12, CALLERS = 40 };

struct model_flight {
    struct flight *flight; /* NULL: closed */
    int32_t tokens[LENGTH_MAX];
    uint32_t count, reached;
    uint64_t opened;
};

struct model_caller {
    struct caller caller;
    int flight; /* it waits for this one; -1 = it does not wait */
    uint32_t shared, target;
};

struct model {
    struct flights *flights;
    struct model_flight open[FLIGHTS_MAX];
    struct model_caller callers[CALLERS];
    struct flight_call *due;
    uint64_t seed, opens;
    int waits, calls;
};

static void random_tokens(struct model *m, int32_t *tokens)
{
    for (int i = 0; i < LENGTH_MAX; i++)
        tokens[i] = test_random_below(&m->seed, 8) == 0; /* long common prefixes are likely */
}

static uint32_t shared_with(const struct model_flight *f, const int32_t *tokens, uint32_t limit)
{
    uint32_t n = 0;

    while (n < f->count && n < limit && f->tokens[n] == tokens[n])
        n++;
    return n;
}

/* Index of the flight that is to be found, or -1. */
static int model_find(const struct model *m, const int32_t *tokens, uint32_t limit)
{
    int best = -1;

    for (int i = 0; i < FLIGHTS_MAX; i++) {
        const struct model_flight *f = &m->open[i], *b = best < 0 ? NULL : &m->open[best];
        if (f->flight == NULL || shared_with(f, tokens, limit) == 0)
            continue;
        uint32_t f_shared = shared_with(f, tokens, limit),
                 b_shared = b ? shared_with(b, tokens, limit) : 0;
        uint32_t f_reached = MIN(f->reached, f_shared),
                 b_reached = b ? MIN(b->reached, b_shared) : 0;
        if (b == NULL || f_shared > b_shared || (f_shared == b_shared && f_reached > b_reached) ||
            (f_shared == b_shared && f_reached == b_reached && f->opened < b->opened))
            best = i;
    }
    return best;
}

static size_t model_waiting(const struct model *m)
{
    size_t n = 0;

    for (int i = 0; i < CALLERS; i++)
        n += m->callers[i].flight >= 0;
    return n;
}

static void step_open(struct model *m, struct model_flight *f)
{
    if (f->flight != NULL)
        return;
    random_tokens(m, f->tokens);
    f->count = 1 + (uint32_t)test_random_below(&m->seed, LENGTH_MAX);
    f->reached = 0;
    f->opened = ++m->opens;
    f->flight = flights_open(m->flights, f->tokens, f->count);
    assert_non_null(f->flight);
}

static void step_find(struct model *m)
{
    int32_t tokens[LENGTH_MAX];
    uint32_t count = (uint32_t)test_random_below(&m->seed, LENGTH_MAX + 1), reached = 99;

    random_tokens(m, tokens);
    uint32_t limit = count > 0 ? count - 1 : 0;
    int best = model_find(m, tokens, limit);
    uint32_t shared = best < 0 ? 0 : shared_with(&m->open[best], tokens, limit);
    assert_int_equal(flights_find(m->flights, tokens, count, &reached), shared);
    assert_int_equal(reached, best < 0 ? 0 : MIN(m->open[best].reached, shared));
}

static void step_wait(struct model *m, struct model_caller *c)
{
    int32_t tokens[LENGTH_MAX];
    uint32_t count = 1 + (uint32_t)test_random_below(&m->seed, LENGTH_MAX);
    uint32_t boundary = (uint32_t)test_random_below(&m->seed, LENGTH_MAX + 2);

    if (c->flight >= 0)
        return;
    random_tokens(m, tokens);
    int best = model_find(m, tokens, MIN(boundary, count - 1));
    uint32_t target = best < 0 ? 0 : shared_with(&m->open[best], tokens, MIN(boundary, count - 1));
    bool expected = model_waiting(m) < WAITERS_MAX && best >= 0 && m->open[best].reached < target;
    c->caller = (struct caller){0};
    assert_int_equal(flights_wait(m->flights, tokens, count, boundary, on_call, &c->caller),
                     expected);
    if (!expected)
        return;
    c->flight = best;
    c->target = target;
    c->shared = shared_with(&m->open[best], tokens, count - 1);
    m->waits++;
}

/* After the calls were made: exactly those who wait for flight i and are due (or all, when it
 * ended) were called, once. */
static void check_calls(struct model *m, int i, bool ended)
{
    for (int j = 0; j < CALLERS; j++) {
        struct model_caller *c = &m->callers[j];
        bool due = c->flight == i && (ended || c->target <= m->open[i].reached);
        if (!due) {
            assert_true(c->flight < 0 || c->caller.calls == 0);
            continue;
        }
        assert_int_equal(c->caller.calls, 1);
        assert_int_equal(c->caller.reached, MIN(m->open[i].reached, c->shared));
        c->flight = -1;
        m->calls++;
    }
}

static void step_move(struct model *m, int i, bool end)
{
    struct model_flight *f = &m->open[i];

    if (f->flight == NULL)
        return;
    if (end) {
        flights_close(m->flights, &f->flight, &m->due);
    } else {
        uint32_t boundary = (uint32_t)test_random_below(&m->seed, LENGTH_MAX + 2);
        f->reached = MAX(f->reached, MIN(boundary, f->count));
        flights_reached(m->flights, f->flight, boundary, &m->due);
    }
    flight_calls_make(&m->due);
    check_calls(m, i, end);
}

static void test_equals_oracle(void **state)
{
    struct model m = {.flights = flights_create(FLIGHTS_MAX, WAITERS_MAX), .seed = test_seed()};

    (void)state;
    for (int i = 0; i < CALLERS; i++)
        m.callers[i].flight = -1;
    for (int step = 0; step < 100000; step++) {
        int i = (int)test_random_below(&m.seed, FLIGHTS_MAX);
        size_t open = 0;
        switch (test_random_below(&m.seed, 8)) {
        case 0:
            step_open(&m, &m.open[i]);
            break;
        case 1:
            step_find(&m);
            break;
        case 2:
            step_move(&m, i, false);
            break;
        case 3:
            step_move(&m, i, test_random_below(&m.seed, 4) == 0);
            break;
        default:
            step_wait(&m, &m.callers[test_random_below(&m.seed, CALLERS)]);
            break;
        }
        for (int j = 0; j < FLIGHTS_MAX; j++)
            open += m.open[j].flight != NULL;
        assert_int_equal(flights_count(m.flights), open);
        assert_int_equal(flights_waiters(m.flights), model_waiting(&m));
    }
    for (int i = 0; i < FLIGHTS_MAX; i++)
        step_move(&m, i, true);
    assert_int_equal(m.calls, m.waits); /* nobody was forgotten */
    assert_true(m.waits > 1000);
    flights_destroy(&m.flights);
}

TEST_SUITE(TEST(test_i1_waiters_see_only_completed_boundaries),
           TEST(test_i96_waiter_goes_on_when_the_flight_dies),
           TEST(test_waits_for_what_is_shared_and_no_more), TEST(test_i12_one_token_is_left_to_run),
           TEST(test_reached_never_goes_back_nor_beyond_its_end),
           TEST(test_calls_come_in_the_order_they_became_due),
           TEST(test_i108_flights_and_waiters_are_bounded), TEST(test_no_memory_is_no_flight),
           TEST(test_destroying_an_open_flight_aborts), TEST(test_equals_oracle))

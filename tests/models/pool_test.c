/* pool_test.c: states, uses, room, time and files of many models, on fake engines and files that
 * are records. */
#include "models/pool.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/engine_fake.h"
#include "models/pool_impl.h"
#include "sched/memory.h"
#include "support/pool_kit.h"
#include "support/test.h"

/* ---- names ---- */

static void test_names(void **state)
{
    struct pool_kit kit;
    struct errinfo info = {0};

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){0}, 2);
    assert_int_equal(pool_count(kit.pool), 2);
    assert_int_equal(pool_find(kit.pool, STR("b"), true), 1);
    assert_int_equal(pool_find(kit.pool, STR("B"), true), 1);
    assert_int_equal(pool_find(kit.pool, STR("b:latest"), true), 1);
    assert_ok(pool_add(
        kit.pool, &(struct pool_spec){.name = "c", .aliases = "fast,small,b", .path = "2"}, NULL));
    assert_int_equal(pool_find(kit.pool, STR("small"), true), 2);
    assert_int_equal(pool_find(kit.pool, STR("Fast:latest"), true), 2);
    assert_int_equal(pool_find(kit.pool, STR("b"), true), 1); /* a name counts before an alias */
    assert_true(pool_find(kit.pool, STR("fast,small"), true) == SIZE_MAX);
    assert_true(pool_find(kit.pool, STR(":latest"), true) == SIZE_MAX);
    assert_true(pool_find(kit.pool, STR("b:8b"), true) == SIZE_MAX);
    assert_true(pool_find(kit.pool, STR("gpt-4"), true) == SIZE_MAX);
    assert_int_equal(pool_find(kit.pool, STR("gpt-4"), false), 0);
    assert_int_equal(pool_find(kit.pool, STR(""), false), 0);
    assert_err(pool_add(kit.pool, &(struct pool_spec){.name = "b", .path = "1"}, &info),
               ERR_EXISTS);
    assert_non_null(strstr(info.text, "'b'"));
    assert_err(pool_add(kit.pool, &(struct pool_spec){.name = "", .path = "1"}, &info),
               ERR_INVALID);
    assert_err(pool_load(kit.pool, STR("gpt-4"), &info), ERR_NOT_FOUND);
    assert_err(pool_unload(kit.pool, STR("gpt-4"), &info), ERR_NOT_FOUND);
    pool_kit_close(&kit);
}

static void test_unknown_names(void **state)
{
    struct pool_kit kit;
    enum err err;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){0}, 2);
    struct model *model = pool_kit_get(&kit, "gpt-4", NULL);
    assert_string_equal(model_name(model), "a");
    pool_release(kit.pool, model);
    pool_kit_close(&kit);

    pool_kit_open(&kit, &(struct pool_options){0}, 0);
    assert_null(pool_kit_get(&kit, "gpt-4", &err));
    assert_err(err, ERR_NOT_FOUND);
    pool_kit_close(&kit);
}

/* ---- loading ---- */

static void test_loads_on_demand_with_progress(void **state)
{
    struct pool_client first, second;
    struct pool_kit kit;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){0}, 2);
    pool_client_init(&first);
    pool_client_init(&second);
    assert_int_equal(pool_kit_view(&kit, "b").state, POOL_KNOWN);
    pool_kit_set_gate(&kit, true);
    assert_int_equal(pool_client_ask(&kit, &first, "b"), POOL_ANSWER_WAITING);
    pool_kit_wait_gate(&kit);
    assert_int_equal(pool_kit_view(&kit, "b").state, POOL_LOADING);
    assert_true(pool_kit_view(&kit, "b").progress == 0.25F);
    assert_int_equal(pool_client_ask(&kit, &second, "b"), POOL_ANSWER_WAITING);
    assert_string_equal(second.wait.name, "b");
    assert_int_equal(pool_kit_view(&kit, "b").waits, 2);
    pool_kit_set_gate(&kit, false);
    assert_non_null(pool_client_wait(&first));
    assert_ptr_equal(pool_client_wait(&second), first.wait.model);
    assert_true(first.progress == 2 && second.progress == 1);
    assert_int_equal(pool_kit_loads(&kit), 1);
    assert_int_equal(kit.warm_loads, 0); /* a waiting request is not delayed by a warm-up */
    assert_int_equal(pool_kit_view(&kit, "b").uses, 2);
    assert_int_equal(pool_client_ask(&kit, &first, "b"), POOL_ANSWER_READY);
    for (int i = 0; i < 3; i++)
        pool_release(kit.pool, second.wait.model);
    assert_int_equal(pool_kit_view(&kit, "b").uses, 0);
    assert_int_equal(pool_kit_view(&kit, "a").state, POOL_KNOWN);
    pool_client_fini(&first);
    pool_client_fini(&second);
    pool_kit_close(&kit);
}

static void test_load_and_unload_by_hand(void **state)
{
    struct pool_kit kit;
    struct errinfo info = {0};

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){0}, 1);
    assert_ok(pool_load(kit.pool, STR("a"), NULL));
    assert_ok(pool_wait_ready(kit.pool, STR("a"), NULL));
    assert_int_equal(kit.warm_loads, 1);
    assert_ok(pool_load(kit.pool, STR("a"), NULL));
    assert_int_equal(pool_kit_loads(&kit), 1);
    struct model *model = pool_kit_get(&kit, "a", NULL);
    assert_ok(pool_unload(kit.pool, STR("a"), NULL));
    assert_int_equal(pool_kit_view(&kit, "a").state, POOL_UNLOADING); /* in use */
    assert_null(pool_peek(kit.pool, 0));
    assert_ok(pool_load(kit.pool, STR("a"), NULL)); /* again, then */
    pool_release(kit.pool, model);
    assert_ok(pool_wait_ready(kit.pool, STR("a"), NULL));
    assert_int_equal(pool_kit_loads(&kit), 2);
    assert_ok(pool_unload(kit.pool, STR("a"), NULL));
    assert_err(pool_wait_ready(kit.pool, STR("a"), &info), ERR_CANCELLED);
    assert_int_equal(pool_kit_view(&kit, "a").state, POOL_KNOWN);
    assert_ok(pool_unload(kit.pool, STR("a"), NULL));
    pool_kit_close(&kit);
}

/* I90: an unload ends a running load at its next progress report: waiting requests get an error,
 * nothing is left of it, and it does not count as a failure. Later requests are served. */
static void test_i90_unload_while_loading(void **state)
{
    struct pool_client early, late;
    struct pool_kit kit;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){0}, 1);
    pool_client_init(&early);
    pool_client_init(&late);
    pool_kit_set_gate(&kit, true);
    assert_int_equal(pool_client_ask(&kit, &early, "a"), POOL_ANSWER_WAITING);
    pool_kit_wait_gate(&kit);
    assert_ok(pool_unload(kit.pool, STR("a"), NULL));
    assert_null(pool_client_wait(&early));
    assert_err(early.wait.info.code, ERR_CANCELLED);
    assert_int_equal(pool_client_ask(&kit, &late, "a"), POOL_ANSWER_WAITING);
    pool_kit_set_gate(&kit, false);
    assert_non_null(pool_client_wait(&late));
    assert_int_equal(pool_kit_loads(&kit), 2);
    pool_release(kit.pool, late.wait.model);
    assert_ok(pool_unload(kit.pool, STR("a"), NULL));
    pool_kit_wait_state(&kit, "a", POOL_KNOWN);
    pool_kit_set_gate(&kit, true);
    assert_ok(pool_load(kit.pool, STR("a"), NULL));
    pool_kit_wait_gate(&kit);
    assert_ok(pool_unload(kit.pool, STR("a"), NULL));
    pool_kit_set_gate(&kit, false);
    pool_kit_wait_state(&kit, "a", POOL_KNOWN); /* not failed */
    assert_int_equal(pool_kit_view(&kit, "a").loads, 1);
    pool_client_fini(&early);
    pool_client_fini(&late);
    pool_kit_close(&kit);
}

/* The last word counts: a model that is unloaded and loaded again while it loads stays, also if the
 * load is too far to be ended. */
static void test_load_again_while_loading(void **state)
{
    struct pool_kit kit;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){0}, 2);
    kit.deaf = true;
    pool_kit_set_gate(&kit, true);
    assert_ok(pool_load(kit.pool, STR("a"), NULL));
    pool_kit_wait_gate(&kit);
    assert_ok(pool_unload(kit.pool, STR("a"), NULL));
    assert_ok(pool_load(kit.pool, STR("a"), NULL));
    pool_kit_set_gate(&kit, false);
    assert_ok(pool_load(kit.pool, STR("b"), NULL)); /* unloads come before it */
    assert_ok(pool_wait_ready(kit.pool, STR("b"), NULL));
    assert_int_equal(pool_kit_view(&kit, "a").state, POOL_READY);
    assert_int_equal(pool_kit_view(&kit, "a").loads, 1);
    pool_kit_close(&kit);
}

static void test_a_failure_is_remembered_for_a_while(void **state)
{
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct pool_kit kit;
    enum err err;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){.clock = clock}, 1);
    kit.fail_load = ERR_ENGINE;
    assert_null(pool_kit_get(&kit, "a", &err));
    assert_err(err, ERR_ENGINE);
    assert_int_equal(pool_kit_view(&kit, "a").state, POOL_FAILED);
    assert_null(pool_kit_get(&kit, "a", &err));
    assert_int_equal(pool_kit_loads(&kit), 1);
    clock_fake_advance(clock, 10 * NS_PER_S);
    assert_null(pool_kit_get(&kit, "a", &err));
    assert_int_equal(pool_kit_loads(&kit), 2);
    lock_enter(&kit.lock);
    kit.fail_load = ERR_OK;
    lock_leave(&kit.lock);
    assert_ok(pool_load(kit.pool, STR("a"), NULL)); /* by hand: at once */
    assert_ok(pool_wait_ready(kit.pool, STR("a"), NULL));
    pool_kit_use(&kit, "a");
    pool_kit_close(&kit);
    clock_destroy_fake(&clock);
}

static void test_deadline_and_cancel(void **state)
{
    struct pool_client late, gone, patient;
    struct pool_kit kit;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){0}, 2);
    pool_client_init(&late);
    pool_client_init(&gone);
    pool_client_init(&patient);
    pool_kit_set_gate(&kit, true);
    assert_int_equal(pool_client_ask(&kit, &patient, "a"), POOL_ANSWER_WAITING);
    late.wait.deadline_ns = 1;
    assert_int_equal(pool_client_ask(&kit, &late, "b"), POOL_ANSWER_WAITING);
    assert_null(pool_client_wait(&late));
    assert_err(late.wait.info.code, ERR_TIMEOUT);
    pool_kit_wait_state(&kit, "b", POOL_KNOWN); /* no request needs it any more */
    assert_int_equal(pool_client_ask(&kit, &gone, "a"), POOL_ANSWER_WAITING);
    pool_cancel(kit.pool, &gone.wait);
    assert_null(pool_client_wait(&gone));
    assert_err(gone.wait.info.code, ERR_CANCELLED);
    /* it was cancelled before it began */
    assert_int_equal(pool_client_ask(&kit, &gone, "a"), POOL_ANSWER_REFUSED);
    pool_kit_set_gate(&kit, false);
    assert_non_null(pool_client_wait(&patient));
    pool_release(kit.pool, patient.wait.model);
    assert_int_equal(pool_kit_loads(&kit), 1);
    pool_client_fini(&late);
    pool_client_fini(&gone);
    pool_client_fini(&patient);
    pool_kit_close(&kit);
}

static void test_too_many_wait(void **state)
{
    struct pool_client one, more;
    struct pool_kit kit;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){.waits_max = 1}, 1);
    pool_client_init(&one);
    pool_client_init(&more);
    pool_kit_set_gate(&kit, true);
    assert_int_equal(pool_client_ask(&kit, &one, "a"), POOL_ANSWER_WAITING);
    assert_int_equal(pool_client_ask(&kit, &more, "a"), POOL_ANSWER_REFUSED);
    assert_err(more.wait.info.code, ERR_BUSY);
    pool_kit_set_gate(&kit, false);
    pool_release(kit.pool, pool_client_wait(&one));
    pool_client_fini(&one);
    pool_client_fini(&more);
    pool_kit_close(&kit);
}

/* ---- room ---- */

static void test_the_least_recently_used_leaves(void **state)
{
    struct pool_kit kit;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){.models_max = 2}, 3);
    pool_kit_use(&kit, "a");
    pool_kit_use(&kit, "b");
    pool_kit_use(&kit, "a");
    pool_kit_use(&kit, "c");
    assert_int_equal(pool_kit_view(&kit, "a").state, POOL_READY);
    assert_int_equal(pool_kit_view(&kit, "b").state, POOL_KNOWN);
    assert_int_equal(pool_kit_view(&kit, "c").state, POOL_READY);
    pool_kit_close(&kit);
}

static void test_under_the_ceiling(void **state)
{
    struct pool_kit kit;
    enum err err;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){.bytes_max = 250}, 4);
    pool_kit_set_file(&kit, 2, (struct pool_kit_file){.content = 2, .stamp = 1, .bytes = 200});
    pool_kit_set_file(&kit, 3, (struct pool_kit_file){.content = 3, .stamp = 1, .bytes = 251});
    pool_kit_use(&kit, "a");
    pool_kit_use(&kit, "b"); /* 200 together */
    assert_int_equal(pool_kit_view(&kit, "a").state, POOL_READY);
    pool_kit_use(&kit, "c"); /* both must leave */
    assert_int_equal(pool_kit_view(&kit, "a").state, POOL_KNOWN);
    assert_int_equal(pool_kit_view(&kit, "b").state, POOL_KNOWN);
    assert_null(pool_kit_get(&kit, "d", &err)); /* can never fit: nothing is unloaded for it */
    assert_err(err, ERR_LIMIT);
    assert_int_equal(pool_kit_view(&kit, "c").state, POOL_READY);
    assert_non_null(strstr(pool_kit_view(&kit, "d").error.text, "no room"));
    pool_kit_close(&kit);
}

/* What a model was measured to need includes its draft model. */
static void test_draft_models_count(void **state)
{
    uint64_t alone = 0;

    (void)state;
    for (uint64_t draft = 0; draft <= 500; draft += 500) {
        struct pool_kit kit;
        pool_kit_open(&kit, &(struct pool_options){0}, 1);
        kit.weights_bytes = 1000;
        kit.draft_bytes = draft;
        pool_kit_use(&kit, "a");
        uint64_t bytes = pool_kit_view(&kit, "a").bytes;
        alone = draft == 0 ? bytes : alone;
        assert_true(alone >= 1000);
        if (draft > 0) /* its cells are as many as the model's */
            assert_int_equal(bytes, 2 * alone - 1000 + draft);
        pool_kit_close(&kit);
    }
}

static void test_pinned_models_stay(void **state)
{
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct pool_spec pinned = {.name = "p", .path = "5", .pinned = true, .ttl_ns = 1};
    struct pool_kit kit;
    enum err err;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){.models_max = 1, .clock = clock}, 1);
    assert_ok(pool_add(kit.pool, &pinned, NULL));
    pool_kit_use(&kit, "p");
    assert_null(pool_kit_get(&kit, "a", &err));
    assert_err(err, ERR_LIMIT);
    clock_fake_advance(clock, 10 * NS_PER_S);
    pool_check(kit.pool);
    assert_int_equal(pool_kit_view(&kit, "p").state, POOL_READY);
    assert_ok(pool_unload(kit.pool, STR("p"), NULL)); /* by hand it may */
    pool_kit_use(&kit, "a");
    pool_kit_close(&kit);
    clock_destroy_fake(&clock);
}

/* A model that does not fit beside the pinned ones is refused, and none is unloaded for it, however
 * often clients ask. */
static void test_nobody_leaves_for_what_cannot_come(void **state)
{
    struct pool_spec pinned = {.name = "p", .path = "5", .pinned = true};
    struct pool_kit kit;
    enum err err;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){.bytes_max = 250}, 3);
    pool_kit_set_file(&kit, 5, (struct pool_kit_file){.content = 5, .stamp = 1, .bytes = 100});
    pool_kit_set_file(&kit, 2, (struct pool_kit_file){.content = 2, .stamp = 1, .bytes = 151});
    assert_ok(pool_add(kit.pool, &pinned, NULL));
    pool_kit_use(&kit, "p");
    pool_kit_use(&kit, "a");
    assert_null(pool_kit_get(&kit, "c", &err));
    assert_err(err, ERR_LIMIT);
    assert_int_equal(pool_kit_view(&kit, "a").state, POOL_READY);
    pool_kit_use(&kit, "b"); /* for what fits, it does */
    assert_int_equal(pool_kit_view(&kit, "a").state, POOL_KNOWN);
    pool_kit_close(&kit);
}

/* A model that is always in use cannot keep another one out: it takes no new users, and comes back
 * behind. */
static void test_a_busy_model_gives_way(void **state)
{
    struct pool_client other, again;
    struct pool_kit kit;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){.models_max = 1}, 2);
    pool_client_init(&other);
    pool_client_init(&again);
    struct model *model = pool_kit_get(&kit, "a", NULL);
    assert_int_equal(pool_client_ask(&kit, &other, "b"), POOL_ANSWER_WAITING);
    pool_kit_wait_state(&kit, "a", POOL_UNLOADING);
    assert_int_equal(pool_client_ask(&kit, &again, "a"), POOL_ANSWER_WAITING);
    assert_int_equal(pool_kit_loads(&kit), 1); /* it runs on until it is given back */
    pool_release(kit.pool, model);
    assert_string_equal(model_name(pool_client_wait(&other)), "b");
    pool_release(kit.pool, other.wait.model);
    assert_string_equal(model_name(pool_client_wait(&again)), "a");
    pool_release(kit.pool, again.wait.model);
    assert_int_equal(pool_kit_loads(&kit), 3);
    pool_client_fini(&other);
    pool_client_fini(&again);
    pool_kit_close(&kit);
}

static uint64_t process_of(void *arg)
{
    return *(const uint64_t *)arg;
}

/* Memory is short: the model that was used least recently leaves, one per check; never one that is
 * pinned or in use, and never the last. */
static void test_i68_idle_models_leave_under_pressure(void **state)
{
    uint64_t process = 0;
    struct memory_options limits = {
        .ceiling = 100 << 20, .process = process_of, .arg = &process, .poll_ns = 1};
    struct memory *memory = memory_create(&limits);
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct pool_spec pinned = {.name = "p", .path = "5", .pinned = true};
    struct memory_member *member;
    struct pool_kit kit;

    (void)state;
    assert_ok(memory_join(memory, "x", &(struct guard_model){0}, &member, NULL));
    pool_kit_open(&kit, &(struct pool_options){.clock = clock, .memory = memory}, 3);
    assert_ok(pool_add(kit.pool, &pinned, NULL));
    pool_kit_use(&kit, "p");
    for (size_t i = 0; i < 3; i++) {
        clock_fake_advance(clock, NS_PER_S);
        pool_kit_use(&kit, (const char *[]){"b", "a", "c"}[i]);
    }
    struct model *busy = pool_kit_get(&kit, "c", NULL);
    process = 90 << 20; /* soft: the RAM tier's turn */
    memory_poll(member);
    pool_check(kit.pool);
    assert_int_equal(pool_kit_view(&kit, "b").state, POOL_READY);
    process = 96 << 20; /* hard */
    memory_poll(member);
    pool_check(kit.pool);
    pool_kit_wait_state(&kit, "b", POOL_KNOWN);
    assert_int_equal(pool_kit_view(&kit, "a").state, POOL_READY);
    pool_check(kit.pool);
    pool_kit_wait_state(&kit, "a", POOL_KNOWN);
    pool_check(kit.pool);
    assert_int_equal(pool_kit_view(&kit, "c").state, POOL_READY);
    assert_int_equal(pool_kit_view(&kit, "p").state, POOL_READY);
    pool_release(kit.pool, busy);
    pool_check(kit.pool);
    pool_kit_wait_state(&kit, "c", POOL_KNOWN);
    pool_kit_close(&kit);
    /* the last one stays */
    pool_kit_open(&kit, &(struct pool_options){.clock = clock, .memory = memory}, 1);
    pool_kit_use(&kit, "a");
    pool_check(kit.pool);
    assert_int_equal(pool_kit_view(&kit, "a").state, POOL_READY);
    pool_kit_close(&kit);
    memory_leave(&member);
    memory_destroy(&memory);
    clock_destroy_fake(&clock);
}

static void test_ttl(void **state)
{
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct pool_spec spec = {.name = "t", .path = "5", .ttl_ns = 60 * NS_PER_S};
    struct pool_kit kit;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){.clock = clock}, 0);
    assert_ok(pool_add(kit.pool, &spec, NULL));
    struct model *model = pool_kit_get(&kit, "t", NULL);
    clock_fake_advance(clock, 100 * NS_PER_S);
    pool_check(kit.pool); /* in use */
    assert_int_equal(pool_kit_view(&kit, "t").state, POOL_READY);
    pool_release(kit.pool, model);
    clock_fake_advance(clock, 59 * NS_PER_S);
    pool_check(kit.pool);
    assert_int_equal(pool_kit_view(&kit, "t").state, POOL_READY);
    assert_int_equal(pool_kit_view(&kit, "t").idle_ns, 59 * NS_PER_S);
    model = pool_peek(kit.pool, 0); /* a peek does not reset the TTL */
    pool_unpeek(kit.pool, model);
    clock_fake_advance(clock, NS_PER_S);
    pool_check(kit.pool);
    pool_kit_wait_state(&kit, "t", POOL_KNOWN);
    pool_set_ttl(kit.pool, 10 * NS_PER_S); /* another one, while it runs */
    model = pool_kit_get(&kit, "t", NULL);
    pool_release(kit.pool, model);
    assert_int_equal(pool_kit_view(&kit, "t").ttl_ns, 10 * NS_PER_S);
    clock_fake_advance(clock, 10 * NS_PER_S);
    pool_check(kit.pool);
    pool_kit_wait_state(&kit, "t", POOL_KNOWN);
    pool_kit_close(&kit);
    clock_destroy_fake(&clock);
}

/* ---- files ---- */

/* I83: what was loaded is compared with the disk before it is used and before it is reported. */
static void test_i83_a_changed_file_is_loaded_anew(void **state)
{
    struct pool_kit kit;
    enum err err;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){0}, 1);
    struct model *model = pool_kit_get(&kit, "a", NULL);
    struct hash256 before = model_facts(model)->fingerprint;
    pool_release(kit.pool, model);
    /* Touched only: it is loaded anew, and finds its state. */
    pool_kit_set_file(&kit, 0, (struct pool_kit_file){.content = 0, .stamp = 2, .bytes = 100});
    model = pool_kit_get(&kit, "a", NULL);
    assert_int_equal(pool_kit_loads(&kit), 2);
    assert_true(hash256_eq(&before, &model_facts(model)->fingerprint));
    pool_release(kit.pool, model);
    unsigned inspects = kit.inspects;
    pool_kit_use(&kit, "a"); /* the new stamp was remembered */
    assert_int_equal(kit.inspects, inspects + 1);
    pool_kit_set_file(&kit, 0, (struct pool_kit_file){.content = 7, .stamp = 3, .bytes = 100});
    model = pool_kit_get(&kit, "a", NULL);
    assert_int_equal(pool_kit_loads(&kit), 3);
    assert_false(hash256_eq(&before, &model_facts(model)->fingerprint));
    pool_release(kit.pool, model);
    pool_kit_set_file(&kit, 0, (struct pool_kit_file){.content = 7, .stamp = 4, .damaged = true});
    assert_null(pool_kit_get(&kit, "a", &err)); /* half written: not used, not loaded */
    assert_err(err, ERR_CORRUPT);
    assert_int_equal(pool_kit_view(&kit, "a").state, POOL_FAILED);
    pool_kit_close(&kit);
}

static void test_i83_a_missing_file_is_reported(void **state)
{
    struct pool_kit kit;
    enum err err;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){0}, 1);
    pool_kit_use(&kit, "a");
    pool_kit_set_file(&kit, 0, (struct pool_kit_file){.missing = true});
    assert_false(pool_kit_view(&kit, "a").file_missing);
    pool_check(kit.pool);
    assert_true(pool_kit_view(&kit, "a").file_missing);
    pool_kit_use(&kit, "a"); /* its memory is whole */
    assert_int_equal(pool_kit_loads(&kit), 1);
    assert_ok(pool_unload(kit.pool, STR("a"), NULL));
    assert_null(pool_kit_get(&kit, "a", &err)); /* but it cannot come back */
    assert_err(err, ERR_NOT_FOUND);
    pool_kit_set_file(&kit, 0, (struct pool_kit_file){.stamp = 5, .bytes = 100});
    assert_ok(pool_load(kit.pool, STR("a"), NULL));
    assert_ok(pool_wait_ready(kit.pool, STR("a"), NULL));
    assert_false(pool_kit_view(&kit, "a").file_missing);
    pool_kit_close(&kit);
}

/* ---- statistics ---- */

/* Of a sum of one nothing is missing and nothing is in it twice, whichever fields there will be: a
 * byte pattern has no padding to hide in. */
static void test_every_number_is_added_once(void **state)
{
    struct sched_stats one, sum = {0};

    (void)state;
    memset(&one, 0x11, sizeof(one));
    sched_add_stats(&sum, &one, true);
    assert_memory_equal(&sum, &one, sizeof(sum));
    sched_add_stats(&sum, &one, false); /* what is no more has a past, and no present */
    assert_true(sum.restarts == 2 * one.restarts && sum.idle == one.idle && sum.cells == one.cells);
}

/* ---- the cache ---- */

static void test_the_cache_outlives_an_unload(void **state)
{
    struct sched_stats stats;
    struct pool_kit kit;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){.models_max = 1}, 2);
    struct model *model = pool_kit_get(&kit, "a", NULL);
    struct gen_usage cold = pool_kit_run(model, 1, 300);
    assert_int_equal(cold.computed, 300);
    pool_release(kit.pool, model);
    pool_kit_use(&kit, "b"); /* a leaves */
    assert_int_equal(pool_kit_view(&kit, "a").state, POOL_KNOWN);
    model = pool_kit_get(&kit, "a", NULL);
    struct gen_usage warm = pool_kit_run(model, 1, 300);
    assert_true(warm.ram >= 256);
    assert_int_equal(warm.device, 0);
    pool_release(kit.pool, model);
    pool_get_stats(kit.pool, &stats);
    assert_int_equal(stats.submitted, 2); /* numbers of what was unloaded stay */
    assert_int_equal(stats.tokens_prompt, 600);
    pool_kit_close(&kit);
}

/* Numbers since the start never fall, neither while a model waits for its last user nor while it is
 * closed. */
static void test_numbers_stay_while_a_model_leaves(void **state)
{
    struct sched_stats stats;
    struct pool_kit kit;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){0}, 1);
    struct model *model = pool_kit_get(&kit, "a", NULL);
    pool_kit_run(model, 1, 300);
    assert_ok(pool_unload(kit.pool, STR("a"), NULL));
    assert_int_equal(pool_kit_view(&kit, "a").state, POOL_UNLOADING);
    pool_get_stats(kit.pool, &stats);
    assert_int_equal(stats.tokens_prompt, 300);
    pool_release(kit.pool, model);
    while (pool_kit_view(&kit, "a").state == POOL_UNLOADING) {
        pool_get_stats(kit.pool, &stats);
        assert_int_equal(stats.tokens_prompt, 300);
    }
    pool_get_stats(kit.pool, &stats);
    assert_int_equal(stats.tokens_prompt, 300);
    pool_kit_close(&kit);
}

/* I6: two models in one process never cross entries, whatever tokens they have in common. */
static void test_i6_models_share_nothing(void **state)
{
    struct pool_kit kit;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){0}, 2);
    struct model *a = pool_kit_get(&kit, "a", NULL), *b = pool_kit_get(&kit, "b", NULL);
    assert_int_equal(pool_kit_run(a, 1, 300).computed, 300);
    assert_int_equal(pool_kit_run(b, 1, 300).computed, 300);
    assert_true(pool_kit_run(b, 1, 300).computed < 300);
    pool_release(kit.pool, a);
    pool_release(kit.pool, b);
    /* Other content under the same name is another model. */
    pool_kit_set_file(&kit, 0, (struct pool_kit_file){.content = 9, .stamp = 2, .bytes = 100});
    a = pool_kit_get(&kit, "a", NULL);
    assert_int_equal(pool_kit_run(a, 1, 300).computed, 300);
    pool_release(kit.pool, a);
    pool_kit_close(&kit);
}

/* ---- life ---- */

/* Requests that wait at shutdown get an error, even in the middle of a load. */
static void test_ends_with_waits(void **state)
{
    struct pool_client loading, queued;
    struct pool_kit kit;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){0}, 2);
    pool_client_init(&loading);
    pool_client_init(&queued);
    pool_kit_set_gate(&kit, true);
    assert_int_equal(pool_client_ask(&kit, &loading, "a"), POOL_ANSWER_WAITING);
    pool_kit_wait_gate(&kit);
    assert_int_equal(pool_client_ask(&kit, &queued, "b"), POOL_ANSWER_WAITING);
    pool_cancel(kit.pool, &loading.wait);
    assert_null(pool_client_wait(&loading));
    pool_kit_close(&kit);
    assert_null(pool_client_wait(&queued));
    assert_err(queued.wait.info.code, ERR_CLOSED);
    pool_client_fini(&loading);
    pool_client_fini(&queued);
}

/* A load that the end interrupts did not fail: the server ends. */
static void test_ends_while_loading(void **state)
{
    struct pool_client client;
    struct pool_kit kit;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){0}, 1);
    pool_client_init(&client);
    pool_kit_set_gate(&kit, true);
    assert_int_equal(pool_client_ask(&kit, &client, "a"), POOL_ANSWER_WAITING);
    pool_kit_wait_gate(&kit);
    pool_kit_close(&kit);
    assert_null(pool_client_wait(&client));
    assert_err(client.wait.info.code, ERR_CLOSED);
    pool_client_fini(&client);
}

/* Allocations on the way to a loaded model fail (one in STEP of them: they are thousands, most of
 * them the template's): the client gets an error, and the next one is served. */
static void test_faults(void **state)
{
    enum { STEP = 17 };
    struct fault fault = {0};
    long failed = 0;

    (void)state;
    for (long n = 1, before = -1; before != failed; n += STEP) {
        before = failed;
        fault_arm(&fault, n, false);
        struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
        struct pool_kit kit;
        enum err err;

        pool_kit_open(&kit, &(struct pool_options){.clock = clock}, 1);
        mem_set_fault(&fault);
        struct model *model = pool_kit_get(&kit, "a", &err);
        mem_set_fault(NULL);
        if (model == NULL) {
            failed++;
            assert_err(err, ERR_NOMEM);
            clock_fake_advance(clock, 10 * NS_PER_S);
            model = pool_kit_get(&kit, "a", NULL);
        }
        pool_release(kit.pool, model);
        pool_kit_close(&kit);
        clock_destroy_fake(&clock);
    }
    assert_true(failed > 0);
}

TEST_SUITE(TEST(test_every_number_is_added_once), TEST(test_names), TEST(test_unknown_names),
           TEST(test_loads_on_demand_with_progress), TEST(test_load_and_unload_by_hand),
           TEST(test_i90_unload_while_loading), TEST(test_load_again_while_loading),
           TEST(test_a_failure_is_remembered_for_a_while), TEST(test_deadline_and_cancel),
           TEST(test_too_many_wait), TEST(test_the_least_recently_used_leaves),
           TEST(test_under_the_ceiling), TEST(test_draft_models_count),
           TEST(test_pinned_models_stay), TEST(test_nobody_leaves_for_what_cannot_come),
           TEST(test_a_busy_model_gives_way), TEST(test_i68_idle_models_leave_under_pressure),
           TEST(test_ttl), TEST(test_i83_a_changed_file_is_loaded_anew),
           TEST(test_i83_a_missing_file_is_reported), TEST(test_the_cache_outlives_an_unload),
           TEST(test_numbers_stay_while_a_model_leaves), TEST(test_i6_models_share_nothing),
           TEST(test_ends_with_waits), TEST(test_ends_while_loading), TEST(test_faults))

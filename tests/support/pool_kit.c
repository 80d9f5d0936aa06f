#include "support/pool_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "support/engine_fake.h"
#include "support/test.h"

enum { TOKENS_MAX = 2048, STATE_TRIES = 20000 };

/* ---- files and loads ---- */

static enum err inspect(const struct pool_spec *spec, bool quick, struct model_file *file,
                        struct errinfo *info, void *arg)
{
    struct pool_kit *kit = arg;
    struct pool_kit_file is = pool_kit_file(kit, (size_t)strtoul(spec->path, NULL, 10));

    lock_enter(&kit->lock);
    kit->inspects++;
    lock_leave(&kit->lock);
    if (is.missing)
        return err_set(info, ERR_NOT_FOUND, "%s: gone", spec->path);
    *file = (struct model_file){.bytes = is.bytes, .stamp = is.stamp};
    if (quick)
        return ERR_OK;
    if (is.damaged)
        return err_set(info, ERR_CORRUPT, "%s: damaged", spec->path);
    file->memory_bytes = is.bytes;
    return ERR_OK;
}

/* At its end. As in a real load, a cancellation is noticed meanwhile. */
static enum err stand_at_gate(struct pool_kit *kit, bool warm,
                              bool (*progress)(float done, void *arg), void *progress_arg)
{
    enum { LOOK_MS = 1 };
    bool go_on = true;

    lock_enter(&kit->lock);
    kit->at_gate++;
    cond_broadcast(&kit->changed);
    while (kit->gate_closed && !kit->ending)
        cond_wait(&kit->changed, &kit->lock);
    while (kit->gate_closed && go_on) {
        (void)!cond_wait_until(&kit->changed, &kit->lock,
                               clock_mono_ns(clock_real()) + LOOK_MS * NS_PER_MS);
        lock_leave(&kit->lock);
        go_on = progress(0.25F, progress_arg);
        lock_enter(&kit->lock);
    }
    kit->at_gate--;
    kit->loads++;
    kit->warm_loads += warm;
    enum err err = kit->fail_load;
    lock_leave(&kit->lock);
    return err;
}

static bool is_deaf(struct pool_kit *kit)
{
    lock_enter(&kit->lock);
    bool deaf = kit->deaf;
    lock_leave(&kit->lock);
    return deaf;
}

static enum err load(const struct pool_spec *spec, bool warm,
                     bool (*progress)(float done, void *arg), void *progress_arg,
                     struct model **model, struct errinfo *info, void *arg)
{
    struct pool_kit *kit = arg;
    struct engine_fake_options fake = {
        .salt = pool_kit_file(kit, (size_t)strtoul(spec->path, NULL, 10)).content + 1,
        .context = 4096,
        .weights_bytes = kit->weights_bytes,
        .chunk = 64};
    struct model_options options = {.name = spec->name, .cache = kit->cache, .clock = clock_real()};

    if (!progress(0.25F, progress_arg))
        return err_set(info, ERR_CANCELLED, "cancelled");
    TRY(stand_at_gate(kit, warm, progress, progress_arg));
    if (!progress(0.5F, progress_arg) && !is_deaf(kit))
        return err_set(info, ERR_CANCELLED, "cancelled");
    TRY(engine_fake_create(&options.engine, &fake, info));
    fake.weights_bytes = kit->draft_bytes;
    if (kit->draft_bytes > 0)
        TRY(engine_fake_create(&options.draft_engine, &fake, info));
    return model_open(model, &options, info);
}

/* ---- life ---- */

void pool_kit_open(struct pool_kit *kit, const struct pool_options *options, size_t models)
{
    struct hearth_options cache = {
        .struct_size = sizeof(cache), .ram_bytes = 4 << 20, .block_tokens = 16, .run_tokens = 64};
    struct pool_options filled = *options;

    memset(kit, 0, sizeof(*kit));
    lock_init(&kit->lock, "kit", LOCK_RANK_TEST_HIGH);
    cond_init(&kit->changed);
    assert_int_equal(hearth_open(&kit->cache, &cache, NULL), HEARTH_OK);
    filled.ops = (struct pool_ops){inspect, load, kit};
    assert_ok(pool_create(&kit->pool, &filled, NULL));
    for (size_t i = 0; i < models; i++) {
        const char name[] = {(char)('a' + i), '\0'}, path[] = {(char)('0' + i), '\0'};

        kit->files[i] = (struct pool_kit_file){.content = i, .stamp = 1, .bytes = 100};
        assert_ok(pool_add(kit->pool, &(struct pool_spec){.name = name, .path = path}, NULL));
    }
}

void pool_kit_close(struct pool_kit *kit)
{
    lock_enter(&kit->lock);
    kit->ending = true;
    cond_broadcast(&kit->changed);
    lock_leave(&kit->lock);
    pool_destroy(&kit->pool);
    hearth_close(&kit->cache);
    cond_fini(&kit->changed);
    lock_fini(&kit->lock);
}

void pool_kit_set_gate(struct pool_kit *kit, bool closed)
{
    lock_enter(&kit->lock);
    kit->gate_closed = closed;
    cond_broadcast(&kit->changed);
    lock_leave(&kit->lock);
}

void pool_kit_wait_gate(struct pool_kit *kit)
{
    lock_enter(&kit->lock);
    while (kit->at_gate == 0)
        cond_wait(&kit->changed, &kit->lock);
    lock_leave(&kit->lock);
}

void pool_kit_set_file(struct pool_kit *kit, size_t index, struct pool_kit_file file)
{
    lock_enter(&kit->lock);
    kit->files[index] = file;
    lock_leave(&kit->lock);
}

struct pool_kit_file pool_kit_file(struct pool_kit *kit, size_t index)
{
    lock_enter(&kit->lock);
    struct pool_kit_file file = kit->files[index];
    lock_leave(&kit->lock);
    return file;
}

unsigned pool_kit_loads(struct pool_kit *kit)
{
    lock_enter(&kit->lock);
    unsigned loads = kit->loads;
    lock_leave(&kit->lock);
    return loads;
}

/* ---- clients ---- */

static void on_done(struct pool_wait *wait)
{
    struct pool_client *client = CONTAINER_OF(wait, struct pool_client, wait);

    lock_enter(&client->lock);
    assert_false(client->done);
    client->done = true;
    cond_broadcast(&client->changed);
    lock_leave(&client->lock);
}

static void on_progress(struct pool_wait *wait, float done)
{
    struct pool_client *client = CONTAINER_OF(wait, struct pool_client, wait);

    lock_enter(&client->lock);
    assert_false(client->done);
    assert_true(done >= 0 && done <= 1);
    client->progress++;
    cond_broadcast(&client->changed);
    lock_leave(&client->lock);
}

void pool_client_init(struct pool_client *client)
{
    memset(client, 0, sizeof(*client));
    lock_init(&client->lock, "client", LOCK_RANK_TEST_HIGH);
    cond_init(&client->changed);
    client->wait.done = on_done;
    client->wait.progress = on_progress;
}

void pool_client_fini(struct pool_client *client)
{
    cond_fini(&client->changed);
    lock_fini(&client->lock);
}

enum pool_answer pool_client_ask(struct pool_kit *kit, struct pool_client *client, const char *name)
{
    return pool_acquire(kit->pool, str_from(name), &client->wait);
}

struct model *pool_client_wait(struct pool_client *client)
{
    lock_enter(&client->lock);
    while (!client->done)
        cond_wait(&client->changed, &client->lock);
    lock_leave(&client->lock);
    return client->wait.model;
}

struct model *pool_kit_get(struct pool_kit *kit, const char *name, enum err *err)
{
    struct pool_client client;

    pool_client_init(&client);
    if (pool_client_ask(kit, &client, name) == POOL_ANSWER_WAITING)
        (void)pool_client_wait(&client);
    struct model *model = client.wait.model;
    if (err != NULL)
        *err = model != NULL ? ERR_OK : client.wait.info.code;
    else if (model == NULL)
        fail_msg("%s: %s", name, client.wait.info.text);
    pool_client_fini(&client);
    return model;
}

void pool_kit_use(struct pool_kit *kit, const char *name)
{
    pool_release(kit->pool, pool_kit_get(kit, name, NULL));
}

struct pool_view pool_kit_view(struct pool_kit *kit, const char *name)
{
    struct pool_view view;

    assert_true(pool_view(kit->pool, pool_find(kit->pool, str_from(name), true), &view));
    return view;
}

void pool_kit_wait_state(struct pool_kit *kit, const char *name, enum pool_state state)
{
    for (int i = 0; i < STATE_TRIES; i++) {
        if (pool_kit_view(kit, name).state == state)
            return;
        clock_sleep_ns(clock_real(), NS_PER_MS);
    }
    fail_msg("%s never was %s", name, pool_state_name(state));
}

/* ---- running ---- */

struct run {
    struct lock lock;
    struct cond changed;
    bool done GUARDED_BY(lock);
    struct gen_usage usage GUARDED_BY(lock);
};

static bool on_token(void *arg, const struct gen_token *token)
{
    (void)arg;
    (void)token;
    return true;
}

static void on_end(void *arg, const struct gen_result *result)
{
    struct run *run = arg;

    lock_enter(&run->lock);
    run->done = true;
    run->usage = result->usage;
    cond_broadcast(&run->changed);
    lock_leave(&run->lock);
}

struct gen_usage pool_kit_run(struct model *model, uint32_t seed, uint32_t count)
{
    static _Thread_local int32_t tokens[TOKENS_MAX];
    struct run run = {0};
    struct gen gen = {.id = seed,
                      .tenant = "",
                      .tokens = tokens,
                      .tokens_count = count,
                      .max_tokens = 2,
                      .sample = sample_params_default(),
                      .sink = {.token = on_token, .done = on_end, .arg = &run}};

    assert_true(count <= TOKENS_MAX);
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (int32_t)((i * 7 + seed * 13 + i / 5) % 200);
    lock_init(&run.lock, "run", LOCK_RANK_TEST_HIGH);
    cond_init(&run.changed);
    assert_ok(model_space(model, "", NULL, &gen.space, NULL));
    assert_ok(sched_submit(model_sched(model), &gen, NULL));
    lock_enter(&run.lock);
    while (!run.done)
        cond_wait(&run.changed, &run.lock);
    lock_leave(&run.lock);
    cond_fini(&run.changed);
    lock_fini(&run.lock);
    return run.usage;
}

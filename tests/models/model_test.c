#include "models/model.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "support/engine_fake.h"
#include "support/models.h"
#include "support/test.h"

static struct hearth_cache *open_cache(void)
{
    struct hearth_options options = {.struct_size = sizeof(options), .ram_bytes = 4 << 20};
    struct hearth_cache *cache;

    assert_int_equal(hearth_open(&cache, &options, NULL), HEARTH_OK);
    return cache;
}

static struct model *open_fake(struct hearth_cache *cache, const char *tmpl,
                               const char *own_template)
{
    struct engine_fake_options fake = {.chat_template = own_template};
    struct model_options options = {
        .cache = cache, .clock = clock_real(), .template_text = tmpl, .name = "small"};
    struct errinfo info = {0};
    struct model *model;

    assert_ok(engine_fake_create(&options.engine, &fake, NULL));
    if (model_open(&model, &options, &info) != ERR_OK)
        assert_string_not_equal(info.text, "");
    return model;
}

static void test_has_all_parts(void **state)
{
    struct hearth_cache *cache = open_cache();
    struct model *model = open_fake(cache, NULL, NULL);

    (void)state;
    assert_string_equal(model_name(model), "small");
    assert_non_null(model_sched(model));
    assert_non_null(model_template(model));
    assert_non_null(model_tokens(model));
    assert_true(model_loaded_s(model) > 0);
    assert_ptr_equal(engine_facts(model_engine(model)), model_facts(model));
    model_close(&model);
    assert_null(model);
    hearth_close(&cache);
}

/* Tenants have their own spaces, the same one each time. */
static void test_spaces_of_tenants(void **state)
{
    struct hearth_cache *cache = open_cache();
    struct model *model = open_fake(cache, NULL, NULL);
    struct hearth_space *none, *anna, *again, *bert;

    (void)state;
    assert_ok(model_space(model, "", NULL, &none, NULL));
    assert_ok(model_space(model, "anna", NULL, &anna, NULL));
    assert_ok(model_space(model, "bert", NULL, &bert, NULL));
    assert_ok(model_space(model, "anna", NULL, &again, NULL));
    assert_ptr_equal(anna, again);
    assert_true(anna != bert && anna != none && bert != none);
    model_close(&model);
    hearth_close(&cache);
}

/* Opens spaces of salts until one is refused; returns how many there are. */
static size_t flood(struct model *model, const char *tenant)
{
    struct hearth_space *space;
    char name[64];

    for (size_t i = 0;; i++) {
        snprintf(name, sizeof(name), "%s/%zx", tenant, i);
        enum err err = model_space(model, name, NULL, &space, NULL);
        if (err == ERR_OK)
            continue;
        assert_err(err, ERR_LIMIT);
        return i;
    }
}

/* A tenant that sends another salt with each request takes no other tenant's cache, and keeps its
 * own (I100). */
static void test_i100_salts_of_one_tenant(void **state)
{
    struct hearth_options large = {.struct_size = sizeof(large), .ram_bytes = 256 << 20};
    struct hearth_space *anna, *again, *other;
    struct hearth_cache *cache;
    struct model *model;
    char name[64];

    (void)state;
    assert_int_equal(hearth_open(&cache, &large, NULL), HEARTH_OK);
    model = open_fake(cache, NULL, NULL);
    assert_ok(model_space(model, "anna/0", NULL, &anna, NULL));
    size_t most = flood(model, "anna");
    assert_ok(model_space(model, "anna/0", NULL, &again, NULL));
    assert_ptr_equal(anna, again);
    assert_ok(model_space(model, "anna", NULL, &other, NULL));
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "tenant%d", i);
        assert_ok(model_space(model, name, NULL, &other, NULL));
    }
    size_t rest = flood(model, "ann"); /* not a part of anna */
    assert_true(rest >= 1000 && rest < most);
    assert_ok(model_space(model, "bert/1", NULL, &other, NULL));
    model_close(&model);
    hearth_close(&cache);
}

/* ---- shares ---- */

enum { BLOCK = 256, OBJECT = 256 << 10 };

static void fill(int32_t tokens[BLOCK + 1], uint32_t seed)
{
    for (uint32_t i = 0; i <= BLOCK; i++)
        tokens[i] = (int32_t)((seed * 7919 + i) % 250);
}

/* False: there was no room, as long as nothing that fills the memory is on the disk. */
static bool put(struct hearth_space *space, uint32_t seed)
{
    struct hearth_store_hints hints = {.struct_size = sizeof(hints), .prompt = BLOCK};
    struct hearth_store *store;
    int32_t tokens[BLOCK + 1];
    uint32_t begin, end;
    bool done = false;
    void *memory;

    fill(tokens, seed);
    tokens[0] = (int32_t)(seed % 250);
    assert_int_equal(hearth_store_open(space, tokens, BLOCK, &hints, &store), HEARTH_OK);
    if (hearth_store_next(store, &begin, &end) &&
        hearth_store_reserve(store, HEARTH_OBJECT_ROWS, begin, end, OBJECT, &memory) == HEARTH_OK) {
        memset(memory, 1, OBJECT);
        done = hearth_store_commit(store, OBJECT, "x", 1) == HEARTH_OK;
        assert_true(done);
    }
    hearth_store_close(&store);
    return done;
}

static bool holds(struct hearth_space *space, uint32_t seed)
{
    struct hearth_lookup_options options = {.struct_size = sizeof(options),
                                            .flags = HEARTH_LOOKUP_PEEK};
    struct hearth_plan *plan;
    int32_t tokens[BLOCK + 1];

    fill(tokens, seed);
    tokens[0] = (int32_t)(seed % 250);
    assert_int_equal(hearth_lookup(space, tokens, BLOCK + 1, &options, &plan), HEARTH_OK);
    bool held = hearth_plan_info(plan)->boundary == BLOCK;
    hearth_plan_release(&plan);
    return held;
}

static bool survives_flood(const struct model_share *shares, size_t count)
{
    struct hearth_cache *cache = open_cache();
    struct model_options options = {
        .cache = cache, .clock = clock_real(), .shares = shares, .shares_count = count};
    struct hearth_space *anna, *bert;
    struct model *model;

    assert_ok(engine_fake_create(&options.engine, &(struct engine_fake_options){0}, NULL));
    assert_ok(model_open(&model, &options, NULL));
    assert_ok(model_space(model, "anna", NULL, &anna, NULL));
    assert_ok(model_space(model, "bert", NULL, &bert, NULL));
    assert_true(put(anna, 1));
    assert_true(holds(anna, 1));
    for (uint32_t seed = 2; seed < 100; seed++)
        (void)!put(bert, seed);
    bool held = holds(anna, 1);
    model_close(&model);
    hearth_close(&cache);
    return held;
}

/* What a tenant holds within its share is still there after another one's flood (I100). */
static void test_i100_shares_of_tenants(void **state)
{
    static const struct model_share own[] = {{"bertha", 1 << 20, 0}, {"anna", 1 << 20, 0}},
                                    others[] = {{"bert", 1 << 20, 0}},
                                    wild[] = {{"anna", UINT64_C(1) << 40, 0}};

    (void)state;
    assert_true(survives_flood(own, COUNT_OF(own)));
    assert_false(survives_flood(NULL, 0));
    assert_false(survives_flood(others, COUNT_OF(others)));
    assert_false(survives_flood(wild, COUNT_OF(wild))); /* cannot be had: a space without a share */
}

/* A process with a disk of 4 MiB: anna stores one object, or bert floods it, or neither.
 * Returns whether anna's object is still there. */
static bool run_with_disk(const struct model_share *share, struct hearth_ssd_options *ssd,
                          const char *who)
{
    static const unsigned char key[HEARTH_KEY_BYTES] = "an installation";
    struct hearth_options memory = {
        .struct_size = sizeof(memory), .ram_bytes = 4 << 20, .key = key};
    struct model_options options = {.clock = clock_real(), .shares = share, .shares_count = 1};
    struct hearth_space *space;
    struct model *model;
    bool held = false;

    assert_int_equal(hearth_open(&options.cache, &memory, NULL), HEARTH_OK);
    assert_int_equal(hearth_attach_ssd(options.cache, ssd, NULL), HEARTH_OK);
    assert_ok(engine_fake_create(&options.engine, &(struct engine_fake_options){0}, NULL));
    assert_ok(model_open(&model, &options, NULL));
    if (who != NULL) {
        assert_ok(model_space(model, who, NULL, &space, NULL));
        for (uint32_t seed = 1; seed < (who[0] == 'a' ? 2 : 100); seed++)
            while (!put(space, seed))
                usleep(1000);
    } else {
        assert_ok(model_space(model, "anna", NULL, &space, NULL));
        held = holds(space, 1);
    }
    model_close(&model);
    hearth_close(&options.cache);
    return held;
}

/* The same on disk, from the load of the model on: anna is not there while bert floods it. */
static void test_i100_shares_of_the_disk(void **state)
{
    static const struct model_share shares[] = {{"anna", 0, 1 << 20}, {"anna", 0, 0}};
    char path[1024];

    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%d", test_dir(), i);
        struct hearth_ssd_options ssd = {
            .struct_size = sizeof(ssd), .path = path, .bytes_max = 4 << 20};
        (void)run_with_disk(&shares[i], &ssd, "anna");
        assert_true(run_with_disk(&shares[i], &ssd, NULL));
        (void)run_with_disk(&shares[i], &ssd, "bert");
        assert_int_equal(run_with_disk(&shares[i], &ssd, NULL), i == 0);
    }
}

static void test_without_a_cache(void **state)
{
    struct model *model = open_fake(NULL, NULL, NULL);
    struct hearth_space *space;

    (void)state;
    assert_ok(model_space(model, "anna", NULL, &space, NULL));
    assert_null(space);
    model_close(&model);
}

static int count_lines(const char *path, const char *text)
{
    char line[4096];
    int count = 0;
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        count += strstr(line, text) != NULL;
    fclose(file);
    return count;
}

/* A model whose state cannot be moved says so, once, and differs from one whose cache is off
 * (I48). */
static void test_i48_unsupported_is_not_off(void **state)
{
    struct engine_fake_options fake = {.slicing = ENGINE_FAKE_NONE};
    struct hearth_cache *cache = open_cache();
    struct hearth_space *space;
    struct model *model;
    char path[4096];

    (void)state;
    snprintf(path, sizeof(path), "%s/log", test_dir());
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    struct log *log = log_create(&(struct log_options){.fd = fd, .clock = clock_real()});
    struct model_options options = {.cache = cache, .clock = clock_real(), .log = log};
    assert_ok(engine_fake_create(&options.engine, &fake, NULL));
    assert_ok(model_open(&model, &options, NULL));
    for (int i = 0; i < 3; i++) {
        assert_ok(model_space(model, "anna", NULL, &space, NULL));
        assert_null(space);
    }
    assert_int_equal(model_cache(model), MODEL_CACHE_UNSUPPORTED);
    assert_string_equal(model_cache_name(model_cache(model)), "unsupported (see log)");
    assert_string_equal(model_cache_reason(model),
                        "the library cannot save the state of this model");
    assert_int_equal(count_lines(path, "reason=\"the library cannot save the state"), 1);
    model_close(&model);
    model = open_fake(cache, NULL, NULL);
    assert_int_equal(model_cache(model), MODEL_CACHE_ON);
    assert_string_equal(model_cache_reason(model), "");
    model_close(&model);
    model = open_fake(NULL, NULL, NULL);
    assert_int_equal(model_cache(model), MODEL_CACHE_OFF);
    assert_string_equal(model_cache_reason(model), "--no-cache");
    model_close(&model);
    log_destroy(&log);
    close(fd);
    hearth_close(&cache);
}

/* The other half of I48: reuse works, but not at any token. */
static void test_i48_hybrids_say_that_they_have_no_tails(void **state)
{
    struct engine_fake_options fake = {.kinds = KIND_BIT(KIND_FULL) | KIND_BIT(KIND_RECURRENT)};
    struct hearth_cache *cache = open_cache();
    struct model *model;
    char path[4096];

    (void)state;
    snprintf(path, sizeof(path), "%s/log", test_dir());
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    struct log *log = log_create(&(struct log_options){.fd = fd, .clock = clock_real()});
    struct model_options options = {.cache = cache, .clock = clock_real(), .log = log};
    assert_ok(engine_fake_create(&options.engine, &fake, NULL));
    assert_ok(model_open(&model, &options, NULL));
    assert_int_equal(model_cache(model), MODEL_CACHE_ON);
    assert_false(model_has_tails(model));
    assert_int_equal(count_lines(path, "continue from snapshots"), 1);
    assert_int_equal(count_lines(path, "kinds=full+recurrent"), 1);
    model_close(&model);
    model = open_fake(cache, NULL, NULL);
    assert_true(model_has_tails(model));
    model_close(&model);
    log_destroy(&log);
    close(fd);
    hearth_close(&cache);
}

/* A template of the model that cannot be used is replaced; one that was asked for is an error. */
static void test_bad_templates(void **state)
{
    struct model *model = open_fake(NULL, NULL, "{% if %}");

    (void)state;
    assert_non_null(model_template(model));
    model_close(&model);
    model = open_fake(NULL, "{% if %}", NULL);
    assert_null(model);
}

/* Tools in, calls that nothing reads out: said when the model is loaded. */
static void test_unreadable_calls_are_reported(void **state)
{
    static const char source[] =
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role ~ ': ' ~ "
        "m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name | upper }}{% endfor %}\n"
        "{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}";
    struct engine_fake_options fake = {.chat_template = source};
    struct model *model;
    char path[4096];

    (void)state;
    snprintf(path, sizeof(path), "%s/log", test_dir());
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    struct log *log = log_create(&(struct log_options){.fd = fd, .clock = clock_real()});
    struct model_options options = {.clock = clock_real(), .log = log};
    assert_ok(engine_fake_create(&options.engine, &fake, NULL));
    assert_ok(model_open(&model, &options, NULL));
    assert_int_equal(count_lines(path, "tool calls of this model come as text"), 1);
    assert_int_equal(chat_template_calls(model_template(model)), CHAT_CALLS_UNREADABLE);
    model_close(&model);
    log_destroy(&log);
    close(fd);
}

TEST_SUITE(TEST(test_unreadable_calls_are_reported), TEST(test_has_all_parts),
           TEST(test_spaces_of_tenants), TEST(test_i100_salts_of_one_tenant),
           TEST(test_i100_shares_of_tenants), TEST(test_i100_shares_of_the_disk),
           TEST(test_without_a_cache), TEST(test_i48_unsupported_is_not_off),
           TEST(test_i48_hybrids_say_that_they_have_no_tails), TEST(test_bad_templates))

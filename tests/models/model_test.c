#include "models/model.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_fake.h"
#include "support/models.h"
#include "support/test.h"

static struct hearth_cache *open_cache(void)
{
    struct hearth_options options = {.struct_size = sizeof(options), .ram_bytes = 4 << 20};
    struct hearth_cache *cache;

    assert_int_equal(hearth_open(&cache, &options, NULL), HEARTH_OK);
    return cache;
}

static struct model *open_fake(struct hearth_cache *cache, const char *tmpl, const char *own_template)
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

/* Tenants have spaces of their own, the same one each time. */
static void test_spaces_of_tenants(void **state)
{
    struct hearth_cache *cache = open_cache();
    struct model *model = open_fake(cache, NULL, NULL);
    struct hearth_space *none, *anna, *again, *bert;

    (void)state;
    assert_ok(model_space(model, "", &none, NULL));
    assert_ok(model_space(model, "anna", &anna, NULL));
    assert_ok(model_space(model, "bert", &bert, NULL));
    assert_ok(model_space(model, "anna", &again, NULL));
    assert_ptr_equal(anna, again);
    assert_true(anna != bert && anna != none && bert != none);
    model_close(&model);
    hearth_close(&cache);
}

static void test_without_a_cache(void **state)
{
    struct model *model = open_fake(NULL, NULL, NULL);
    struct hearth_space *space;

    (void)state;
    assert_ok(model_space(model, "anna", &space, NULL));
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

/* A model whose state cannot be moved says so, once, and is told apart from one whose cache is off (I48). */
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
        assert_ok(model_space(model, "anna", &space, NULL));
        assert_null(space);
    }
    assert_int_equal(model_cache(model), MODEL_CACHE_UNSUPPORTED);
    assert_string_equal(model_cache_name(model_cache(model)), "unsupported (see log)");
    assert_int_equal(count_lines(path, "cannot move the state"), 1);
    model_close(&model);
    model = open_fake(cache, NULL, NULL);
    assert_int_equal(model_cache(model), MODEL_CACHE_ON);
    model_close(&model);
    model = open_fake(NULL, NULL, NULL);
    assert_int_equal(model_cache(model), MODEL_CACHE_OFF);
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

TEST_SUITE(TEST(test_has_all_parts), TEST(test_spaces_of_tenants), TEST(test_without_a_cache),
           TEST(test_i48_unsupported_is_not_off), TEST(test_bad_templates))

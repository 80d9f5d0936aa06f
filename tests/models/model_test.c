#include "models/model.h"

#include <string.h>

#include "base/clock.h"
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
           TEST(test_bad_templates))

#include "lab/model_impl.h"

#include <string.h>

#include "support/test.h"

static void test_names_find_their_rows(void **state)
{
    (void)state;
    for (size_t i = 0; model_families[i].name != NULL; i++) {
        assert_ptr_equal(model_family_find(model_families[i].name), &model_families[i]);
        assert_null(model_preset_find(model_families[i].name)); /* a name means one thing */
    }
    for (size_t i = 0; model_presets[i].name != NULL; i++) {
        assert_ptr_equal(model_preset_find(model_presets[i].name), &model_presets[i]);
        assert_non_null(model_family_find(model_presets[i].family));
        assert_int_not_equal(model_presets[i].quant, MODEL_QUANT_DEFAULT);
        assert_true(strlen(model_presets[i].about) > 0);
    }
    assert_null(model_family_find("random"));
    assert_null(model_preset_find("llama"));
    assert_null(model_family_find(""));
}

static void test_traits_agree_with_shapes(void **state)
{
    (void)state;
    for (size_t i = 0; model_families[i].name != NULL; i++) {
        const struct model_family *family = &model_families[i];
        assert_int_equal((family->traits & MODEL_TRAIT_EXPERTS_MUST) != 0,
                         family->shape.experts != 0);
        assert_int_equal((family->traits & MODEL_TRAIT_WINDOW) != 0, family->shape.window != 0);
        assert_int_equal((family->traits & MODEL_TRAIT_NO_HEADS) != 0, family->shape.heads == 0);
        assert_true(!(family->traits & MODEL_TRAIT_DELTA) || family->shape.state_size != 0);
        assert_true(family->layers_min >= 1 && family->layers_min <= family->shape.layers);
    }
}

TEST_SUITE(TEST(test_names_find_their_rows), TEST(test_traits_agree_with_shapes))

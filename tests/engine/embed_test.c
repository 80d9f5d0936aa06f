#include "engine/embed.h"

#include <math.h>
#include <string.h>

#include "support/test.h"

static void test_i87_a_vector_gets_length_one(void **state)
{
    float vector[] = {3, 0, -4}, zero[] = {0, 0};

    (void)state;
    embed_normalize(vector, COUNT_OF(vector));
    assert_float_equal(vector[0], 0.6F, 1e-7);
    assert_float_equal(vector[2], -0.8F, 1e-7);
    float before = vector[0];
    embed_normalize(vector, COUNT_OF(vector));
    assert_float_equal(vector[0], before, 1e-7);
    embed_normalize(zero, COUNT_OF(zero));
    assert_float_equal(zero[0], 0, 0);
}

static void test_the_cosine_knows_directions_only(void **state)
{
    const float a[] = {1, 2, 3}, same[] = {10, 20, 30}, other[] = {-2, 1, 0}, zero[3] = {0};

    (void)state;
    assert_float_equal(embed_cosine(a, same, 3), 1, 1e-7);
    assert_float_equal(embed_cosine(a, other, 3), 0, 1e-7);
    assert_float_equal(embed_cosine(a, zero, 3), 0, 0);
}

static void test_every_pooling_has_a_name(void **state)
{
    (void)state;
    for (int i = 0; i < ENGINE_POOLING_COUNT; i++)
        assert_non_null(engine_pooling_names[i]);
    assert_null(engine_pooling_names[ENGINE_POOLING_COUNT]);
}

TEST_SUITE(TEST(test_i87_a_vector_gets_length_one), TEST(test_the_cosine_knows_directions_only),
           TEST(test_every_pooling_has_a_name))

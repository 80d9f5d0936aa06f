
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "lab/model_impl.h"
#include "support/test.h"

enum { WIDTH = 256, ROWS = 64 };

static const struct model_weights_plan PLAN = {.seed = 1, .layers = 8};
static const struct model_weights_plan PLAN_TIED = {.seed = 1, .layers = 8, .tied = true};
static const int64_t MATRIX[4] = {WIDTH, ROWS, 1, 1};

static float values[ROWS * WIDTH];

static void fill(const struct model_weights_plan *plan, const char *tensor, const int64_t *dims)
{
    struct model_weights weights;

    model_weights_init(&weights, plan, tensor, dims);
    for (int64_t row = 0; row < dims[1]; row++)
        model_weights_row(&weights, (uint64_t)row, values + row * dims[0]);
}

static double deviation(size_t from, size_t count)
{
    double sum = 0, squares = 0;

    for (size_t i = from; i < from + count; i++) {
        sum += values[i];
        squares += (double)values[i] * values[i];
    }
    return sqrt(squares / (double)count - sum / (double)count * (sum / (double)count));
}

/* Whatever the machine and compiler: these are the bits. A change here makes every made model
 * another one. */
static void test_bits_are_the_same_everywhere(void **state)
{
    static const struct {
        const char *tensor, *digest;
    } cases[] = {
        {"blk.0.ffn_up.weight", "1d7ef6cf1c2803f9"},
        {"blk.0.attn_norm.weight", "9cd64701adb27197"},
        {"blk.3.attn_output.weight", "82ef9c1eb2642654"},
        {"token_embd.weight", "aa93f5e99165027b"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char hex[HASH256_HEX_BYTES];
        fill(&PLAN, cases[i].tensor, MATRIX);
        struct hash256 hash = hash256_of(values, sizeof(values));
        hash256_hex(&hash, hex);
        hex[16] = '\0';
        assert_string_equal(hex, cases[i].digest);
    }
}

static void test_seed_name_and_row_all_count(void **state)
{
    static float first[WIDTH];
    struct model_weights_plan other = PLAN;

    (void)state;
    other.seed = 2;
    fill(&PLAN, "blk.0.ffn_up.weight", MATRIX);
    memcpy(first, values, sizeof(first));
    assert_memory_not_equal(first, values + WIDTH, sizeof(first));
    fill(&other, "blk.0.ffn_up.weight", MATRIX);
    assert_memory_not_equal(first, values, sizeof(first));
    fill(&PLAN, "blk.1.ffn_up.weight", MATRIX);
    assert_memory_not_equal(first, values, sizeof(first));
}

static void test_scale_by_kind_of_tensor(void **state)
{
    const double usual = 1 / sqrt(WIDTH);

    (void)state;
    fill(&PLAN, "blk.0.ffn_up.weight", MATRIX);
    assert_double_equal(deviation(0, ROWS * WIDTH) / usual, 1, 0.02);
    fill(&PLAN, "blk.0.attn_q.weight", MATRIX);
    assert_double_equal(deviation(0, ROWS * WIDTH) / usual, 4, 0.1);
    fill(&PLAN, "blk.0.ffn_down.weight", MATRIX);
    assert_double_equal(deviation(WIDTH, (ROWS - 1) * WIDTH) / usual, 0.25,
                        0.01); /* 2 * 8 layers */
    fill(&PLAN, "output.weight", MATRIX);
    assert_double_equal(deviation(1, WIDTH - 1) / usual, 2, 0.3);
    for (const char *const *name = (const char *const[]){"blk.2.ssm_a", "blk.2.ssm_dt.bias", NULL};
         *name; name++) {
        fill(&PLAN, *name, (const int64_t[]){WIDTH, 1, 1, 1});
        for (size_t i = 0; i < WIDTH; i++)
            assert_true(values[i] < 0 && values[i] >= -5);
    }
}

static void test_norms_are_about_one(void **state)
{
    size_t negative = 0;

    (void)state;
    fill(&PLAN, "blk.0.attn_norm.weight", (const int64_t[]){WIDTH, 1, 1, 1});
    for (size_t i = 0; i < WIDTH; i++)
        assert_true(values[i] >= 0.9F && values[i] <= 1.1F);
    fill(&PLAN, "output_norm.weight", (const int64_t[]){WIDTH, 1, 1, 1});
    for (size_t i = 0; i < WIDTH; i++) {
        assert_true(fabsf(values[i]) >= 0.9F && fabsf(values[i]) <= 1.1F);
        negative += values[i] < 0;
    }
    assert_true(negative > WIDTH / 3 && negative < WIDTH * 2 / 3);
    assert_true(values[0] > 0); /* the column of speech keeps its sign */
}

/* Experts lie behind each other in one tensor; each has a row that writes column 0. */
static void test_writers_leave_column_zero_alone(void **state)
{
    struct model_weights weights;
    float row[WIDTH];

    (void)state;
    model_weights_init(&weights, &PLAN, "blk.0.ffn_down_exps.weight",
                       (const int64_t[]){WIDTH, 4, 2, 1});
    for (uint64_t i = 0; i < 8; i++) {
        double sum = 0;
        model_weights_row(&weights, i, row);
        for (size_t c = 0; c < WIDTH; c++)
            sum += fabsf(row[c]);
        assert_int_equal(sum == 0, i % 4 == 0);
    }
}

static void test_column_zero_tells_what_is_said(void **state)
{
    const uint32_t word = 256 + 6, byte = 0xC3; /* " the", half a character */
    struct model_weights weights;
    float row[WIDTH];

    (void)state;
    assert_int_equal(model_vocab_speech(word), MODEL_SPEECH_OFTEN);
    assert_int_equal(model_vocab_speech(byte), MODEL_SPEECH_NEVER);
    model_weights_init(&weights, &PLAN, "output.weight", (const int64_t[]){WIDTH, 1000, 1, 1});
    model_weights_row(&weights, word, row);
    assert_true(row[0] == 0.0F);
    model_weights_row(&weights, byte, row);
    assert_true(row[0] < -10);
    model_weights_init(&weights, &PLAN_TIED, "token_embd.weight",
                       (const int64_t[]){WIDTH, 1000, 1, 1});
    model_weights_row(&weights, word, row);
    assert_true(row[0] > 1);
    model_weights_row(&weights, byte, row);
    assert_true(row[0] < -1);
}

static void test_matrices_are_what_may_be_quantized(void **state)
{
    static const char *const matrices[] = {"token_embd.weight", "output.weight",
                                           "blk.0.ffn_up_exps.weight", "blk.10.attn_k_b.weight"};
    static const char *const others[] = {"blk.0.ssm_norm.weight",     "blk.0.ssm_conv1d.weight",
                                         "blk.0.ffn_gate_inp.weight", "blk.0.ssm_a",
                                         "blk.0.ffn_up_exps.bias",    "blk.0.ssm_conv1d_q.weight"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(matrices); i++)
        assert_true(model_weights_is_matrix(matrices[i], MATRIX));
    for (size_t i = 0; i < COUNT_OF(others); i++)
        assert_false(model_weights_is_matrix(others[i], MATRIX));
    assert_false(
        model_weights_is_matrix("blk.0.attn_sinks.weight", (const int64_t[]){64, 1, 1, 1}));
}

TEST_SUITE(TEST(test_bits_are_the_same_everywhere), TEST(test_seed_name_and_row_all_count),
           TEST(test_scale_by_kind_of_tensor), TEST(test_norms_are_about_one),
           TEST(test_writers_leave_column_zero_alone), TEST(test_column_zero_tells_what_is_said),
           TEST(test_matrices_are_what_may_be_quantized))

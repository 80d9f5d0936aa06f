/* warm_test.c: the warm-up goes the way of requests. */
#include "models/model.h"

#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "support/engine_fake.h"
#include "support/test.h"

static struct model *open_fake(const char *tmpl, struct fault *fault)
{
    struct engine_fake_options fake = {.chat_template = tmpl, .fault_run = fault};
    struct model_options options = {.clock = clock_real(), .name = "org/small"};
    struct model *model;

    assert_ok(engine_fake_create(&options.engine, &fake, NULL));
    assert_ok(model_open(&model, &options, NULL));
    return model;
}

/* I82: the prompt is what the model's own template makes, under the model's own name. */
static void test_i82_the_real_template(void **state)
{
    static const char tmpl[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}:{{ m.content }}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant:{% endif %}";
    /* a token per byte, and three control tokens */
    static const char text[] = "user:Helloassistant:";
    struct model *model = open_fake(tmpl, NULL);
    struct sched_stats stats;
    uint32_t tokens = 0;

    (void)state;
    assert_ok(model_warm(model, &tokens, NULL));
    assert_int_equal(tokens, strlen(text) + 3);
    sched_get_stats(model_sched(model), &stats);
    assert_int_equal(stats.submitted, 1);
    assert_int_equal(stats.tokens_prompt, tokens);
    assert_int_equal(stats.tokens_generated, 1);
    model_close(&model);
}

static void test_what_fails_is_said(void **state)
{
    struct errinfo info = {0};
    struct fault fault = {0};
    struct model *model = open_fake("{{ raise_exception('no user is welcome') }}", NULL);

    (void)state;
    assert_true(model_warm(model, NULL, &info) != ERR_OK);
    assert_string_not_equal(info.text, "");
    model_close(&model);
    fault_arm(&fault, 1, true);
    model = open_fake(NULL, &fault);
    assert_err(model_warm(model, NULL, &info), ERR_ENGINE);
    model_close(&model);
}

TEST_SUITE(TEST(test_i82_the_real_template), TEST(test_what_fails_is_said))

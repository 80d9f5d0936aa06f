/* Volatile text made constant (I106). */
#include "chat/neutral.h"

#include <string.h>
#include <yyjson.h>

#include "base/arena.h"
#include "base/mem.h"
#include "chat/template.h"
#include "chat/prepare_impl.h"
#include "support/chat_kit.h"
#include "support/test.h"

#define HEX16 "0123456789abcdef"
#define HEX64 HEX16 HEX16 HEX16 HEX16

static void assert_becomes(struct neutral *neutral, const char *text, const char *expected)
{
    struct neutral_tally tally = {0};
    struct arena arena;
    struct str out;
    size_t len = strlen(text);

    arena_init(&arena, 1 << 20);
    struct str guarded = {test_guarded(text, len), len};
    assert_ok(neutral_text(neutral, &arena, guarded, &tally, &out));
    if (!str_eq(out, str_from(expected)))
        fail_msg("'%s' became '" STR_FMT "'", text, STR_ARG(out));
    if (strcmp(text, expected) == 0)
        assert_ptr_equal(out.ptr, guarded.ptr);
    arena_fini(&arena);
}

static void test_i106_rules(void **state)
{
    static const char *const rows[][2] = {
        {"", ""},
        {"x-anthropic-billing-header: cc_version=2.1.37; cch=a1b2c;", ""},
        {"x-anthropic-billing-header: a\nYou are", "You are"},
        {"Hi.\n  x-anthropic-billing-header: a\nYou", "Hi.\nYou"},
        {"x-anthropic-billing-header: a\nx-anthropic-billing-header: b\n", ""},
        {"x-anthropic-billing-header: cc_version=2.1.150.52e; cch=b9480;You are", "You are"},
        {"x-anthropic-billing-header: a=1; b=2; You are; x=1\nBe", " You are; x=1\nBe"},
        {"x-anthropic-billing-header: a=1; b=2 \nBe", "Be"},
        {"Never send x-anthropic-billing-header: a", "Never send x-anthropic-billing-header: a"},
        {"v=1; cch=a1b2c; e", "v=1; cch=0; e"},
        {"cch=00000", "cch=0"},
        {"cch=0", "cch=0"},
        {"cch=" HEX64, "cch=0"},
        {"cch=" HEX64 "f", "cch=" HEX64 "f"}, /* no checksum is that long */
        {"batch=12", "batch=12"},
        {"cch=xyz cch= cch=12g", "cch=xyz cch= cch=12g"},
        {"Today's date: 2026-11-15 10:33:12", "Today's date: 2026-11-15"},
        {"2026-11-15T10:33:12.345Z.", "2026-11-15."},
        {"2026-11-15T10:33:12+01:00 x", "2026-11-15 x"},
        {"at 2026/11/15 9:05 PM, or", "at 2026/11/15, or"},
        {"11/15/2026, 10:33:12 AM", "11/15/2026"},
        {"15.11.2026 10:33", "15.11.2026"},
        {"Sun Nov 15 2026 10:33:12 GMT+0000", "Sun Nov 15 2026"},
        {"Sun Nov 15 10:33:12 UTC 2026", "Sun Nov 15 2026"},
        {"November 15, 2026 at 10:33 AM", "November 15, 2026"},
        {"15 Nov 2026, 10:33", "15 Nov 2026"},
        {"2026-11-15", "2026-11-15"},
        {"2026-11-15 and 10 things: two", "2026-11-15 and 10 things: two"},
        {"meet at 10:33:12", "meet at 10:33:12"},
        {"ratio 16:10, localhost:8080", "ratio 16:10, localhost:8080"},
        {"1.2.3 10:33", "1.2.3 10:33"},
        {"2026-11-15 10:3", "2026-11-15 10:3"},
        {"Nov 15th, 2026, 10:33 and Sept. 3 at 9:05pm", "Nov 15th, 2026 and Sept. 3"},
        {"15-Nov-2026 10:33 amended, 15.1.26 10:33 Zeta",
         "15-Nov-2026 amended, 15.1.26 10:33 Zeta"},
        {"15.11.26 10:33 Zeta", "15.11.26 Zeta"},
        {"Marching 12 10", "Marching 12 10"},
        {"Marketing 12 at 10:33", "Marketing 12 at 10:33"},
        {"In May we met 12 at 10:33", "In May we met 12 at 10:33"},
        {"192.168.10.20 10:33, 192.168.10.200 10:33", "192.168.10.20 10:33, 192.168.10.200 10:33"},
        {"build 10.0.19045 10:33, 555-123-12 10:33", "build 10.0.19045 10:33, 555-123-12 10:33"},
        {":", ":"},
        {"1:", "1:"},
        {" 1:22", " 1:22"},
    };
    struct neutral *neutral = neutral_create();

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_becomes(neutral, rows[i][0], rows[i][1]);
    assert_int_equal(neutral_info(neutral, NEUTRAL_BILLING).count, 8);
    assert_int_equal(neutral_info(neutral, NEUTRAL_CCH).count, 3);
    assert_int_equal(neutral_info(neutral, NEUTRAL_CLOCK).count, 14);
    neutral_destroy(&neutral);
}

static void test_i106_rules_are_visible_and_can_be_switched(void **state)
{
    static const char text[] = "x-anthropic-billing-header: v\ncch=12ab 2026-11-15 10:33";
    struct neutral *neutral = neutral_create();

    (void)state;
    for (int i = 0; i < NEUTRAL_COUNT; i++) {
        struct neutral_info info = neutral_info(neutral, (enum neutral_rule)i);
        assert_int_equal(info.on, i != NEUTRAL_PARAMETER_ORDER);
        assert_true(strlen(info.name) > 0 && strlen(info.description) > 0);
        assert_int_equal(info.count, 0);
        assert_ok(neutral_switch(neutral, str_from(info.name), false));
        assert_false(neutral_info(neutral, (enum neutral_rule)i).on);
    }
    assert_becomes(neutral, text, text);
    assert_int_equal(neutral_now(neutral, 1700000000), 1700000000);
    assert_ok(neutral_switch(neutral, STR("cch"), true));
    assert_becomes(neutral, text, "x-anthropic-billing-header: v\ncch=0 2026-11-15 10:33");
    assert_ok(neutral_switch(neutral, STR("template-clock"), true));
    assert_int_equal(neutral_now(neutral, 1700000000), 1699920000);
    assert_int_equal(neutral_now(neutral, -1), -86400);
    assert_err(neutral_switch(neutral, STR("nonsense"), true), ERR_NOT_FOUND);
    neutral_destroy(&neutral);
}

static void test_transient_spans_are_found(void **state)
{
    static const struct {
        const char *text;
        size_t at;
    } rows[] = {
        {"", SIZE_MAX},
        {"system-reminder", SIZE_MAX},
        {"<system-reminder", SIZE_MAX},
        {"<system-reminder>", 0},
        {" \n<system-reminder>", 0},
        {"Go on.\n\n<environment_details>\nx", 6},
        {"a <env> b <system-reminder> c", 1},
        {"a <total_tokens>9</total_tokens> b <env>", 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t len = strlen(rows[i].text);
        struct str text = {test_guarded(rows[i].text, len), len};
        assert_int_equal(neutral_find_transient(text), rows[i].at);
    }
}

static void render(struct neutral *neutral, const char *messages, char *out, size_t size)
{
    struct chat_template_options options = {0};
    const struct prepare_tools tools = {.neutral = neutral};
    struct gen_request read;
    struct prepared prepared = {0};
    struct prepare_run run = {.out = &prepared, .request = &read, .tools = &tools};
    struct chat_template *tmpl;
    struct chat_text text;
    struct errinfo info;
    struct arena arena;
    char body[2048];

    arena_init(&arena, 64 << 20);
    snprintf(body, sizeof(body), "{\"messages\":%s}", messages);
    assert_ok(chat_kit_read(&read, body, &info));
    assert_ok(prepare_messages(&run));
    struct chat_request request = chat_kit_request(&read);
    request.add_generation_prompt = false;
    assert_ok(chat_template_create(&options, &tmpl, &info));
    assert_ok(chat_template_render(tmpl, &request, &arena, &text, &info));
    assert_true(text.text.len < size);
    memcpy(out, text.text.ptr, text.text.len + 1);
    chat_template_destroy(&tmpl);
    gen_request_fini(&read);
    arena_fini(&arena);
}

/* I106: two turns of a client that stamps its system prompt render to the same text; other text
 * stays as it is. */
static void test_i106_turns_of_a_stamping_client_are_equal(void **state)
{
#define TURN(cch, time)                                                                            \
    "[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header:" \
    " cc_version=2; cch=" cch ";\"},{\"type\":\"text\",\"text\":\"Today is 2026-11-15 " time       \
    ". cch=" cch "\"}]},"                                                                          \
    "{\"role\":\"user\",\"content\":\"At 2026-11-15 10:33 cch=12ab\"}]"
    struct neutral *neutral = neutral_create();
    char first[1024], second[1024];

    (void)state;
    render(neutral, TURN("a1b2c", "10:33:12"), first, sizeof(first));
    render(neutral, TURN("ffe01", "10:34:59"), second, sizeof(second));
    assert_string_equal(first, second);
    assert_non_null(strstr(first, "Today is 2026-11-15. cch=0"));
    assert_non_null(strstr(first, "At 2026-11-15 10:33 cch=12ab"));
    render(NULL, TURN("a1b2c", "10:33:12"), first, sizeof(first));
    assert_non_null(strstr(first, "10:33:12. cch=a1b2c"));
    neutral_destroy(&neutral);
#undef TURN
}

static void test_no_memory(void **state)
{
    struct neutral_tally tally = {0};
    struct neutral *neutral = neutral_create();
    struct fault fault = {0};
    struct arena arena;
    struct str out;

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        arena_init(&arena, 1 << 20);
        enum err err = neutral_text(neutral, &arena, STR("cch=12 2026-11-15 10:33"), &tally, &out);
        assert_true(err == ERR_OK ? atomic_load(&fault.fired) == 0 : err == ERR_NOMEM);
        arena_fini(&arena);
    }
    mem_set_fault(NULL);
    arena_init(&arena, 4);
    assert_err(neutral_text(neutral, &arena, STR("cch=12 2026-11-15 10:33"), &tally, &out),
               ERR_LIMIT);
    arena_fini(&arena);
    neutral_destroy(&neutral);
}

TEST_SUITE(TEST(test_i106_rules), TEST(test_transient_spans_are_found),
           TEST(test_i106_rules_are_visible_and_can_be_switched),
           TEST(test_i106_turns_of_a_stamping_client_are_equal), TEST(test_no_memory))

#include "base/option.h"

#include "base/mem.h"
#include "support/options.h"
#include "support/test.h"

static void test_help_text(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 10000);
    assert_ok(option_help(&options_table, &out, 80));
    assert_string_equal(
        buf_str(&out),
        "Network:\n"
        "      --host ADDRESS        Address to listen on. [default 127.0.0.1;\n"
        "                            HEARTH_HOST]\n"
        "  -p, --port N              Port to listen on; 0 lets the system choose. [0 to\n"
        "                            65535; default 4117; HEARTH_PORT]\n"
        "      --api-key KEY         Key that clients must send. [HEARTH_API_KEY]\n"
        "\n"
        "Cache:\n"
        "  -r, --ram-cache SIZE      Memory for the cache. [at least 4.0 KiB; default\n"
        "                            10%; HEARTH_RAM_CACHE]\n"
        "      --wait TIME           How long to wait. [at most 1.5 s; default 1s;\n"
        "                            HEARTH_WAIT]\n"
        "  -s, -sh, --shift N        Positions to shift by. [-5 to 5; HEARTH_SHIFT]\n"
        "      --heat X              Heat. [0 to 2; default 0.8; HEARTH_HEAT]\n"
        "  -v, --verbose             Say more. [HEARTH_VERBOSE]\n"
        "  -x, --exact               Same bits as a cold run. [HEARTH_EXACT]\n"
        "      --no-color            Do without colours. [HEARTH_COLOR]\n"
        "  -f, --format text|json|binary\n"
        "                            Shape of the output. [default json; HEARTH_FORMAT]\n"
        "  -m, -np, --model FILE     A model to load; with a path, or with the name of a\n"
        "                            file in the folder of models. [may be repeated;\n"
        "                            HEARTH_MODEL]\n"
        "  -h, --help                Show this help.\n");
    buf_clear(&out);
    assert_ok(option_help(&(struct option_table){"none", NULL, 0}, &out, 0));
    assert_string_equal(buf_str(&out), "Options:\n"
                                       "  -h, --help                Show this help.\n");
    buf_fini(&out);
}

static void test_help_reports_a_full_buffer(void **state)
{
    struct fault fault = {0};
    struct buf out;

    (void)state;
    buf_init(&out, 300);
    assert_err(option_help(&options_table, &out, 80), ERR_LIMIT);
    buf_fini(&out);
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        buf_init(&out, 10000);
        enum err err = option_help(&options_table, &out, 80);
        assert_err(err, atomic_load(&fault.fired) ? ERR_NOMEM : ERR_OK);
        buf_fini(&out);
    }
    mem_set_fault(NULL);
}

TEST_SUITE(TEST(test_help_text), TEST(test_help_reports_a_full_buffer))

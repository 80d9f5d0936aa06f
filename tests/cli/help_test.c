#include <string.h>

#include "cli/cli.h"
#include "support/cli_run.h"
#include "support/test.h"

static void test_overview(void **state)
{
    static const char *const spellings[] = {"--help", "-h", "help"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(spellings); i++) {
        assert_int_equal(cli_run(spellings[i]), CLI_EXIT_OK);
        assert_string_equal(
            cli_got.out,
            "usage: hearth COMMAND [options]\n       hearth --version | --help\n\nAn LLM server "
            "that never prefills the same tokens twice.\n\nCommands:\n  greet      Say hello.\n  "
            "fail       Fail.\n  version    Show the versions of hearth and its libraries.\n  help "
            "      Show help for hearth or a command.\n\n'hearth COMMAND --help' lists the options "
            "of a command. Exit status: 0 success,\n1 failure, 2 usage error.\n");
        assert_string_equal(cli_got.err, "");
    }
}

static void test_help_has_own_and_common_options(void **state)
{
    static const char *const spellings[] = {"greet --help", "greet -h", "help greet",
                                            "greet --bogus --help"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(spellings); i++) {
        assert_int_equal(cli_run(spellings[i]), CLI_EXIT_OK);
        assert_string_equal(
            cli_got.out,
            "usage: hearth greet [options] NAME...\n"
            "\n"
            "Say hello.\n"
            "\n"
            "Options:\n"
            "  -t, --times N             How often. [0 to 9; default 1; HEARTH_TIMES]\n"
            "      --bytes SIZE          How much. [default 50%; HEARTH_BYTES]\n"
            "      --loud                With a mark. [HEARTH_LOUD]\n"
            "\n"
            "Common options:\n"
            "      --config FILE         INI file with settings; default: hearth/hearth.ini\n"
            "                            in your configuration folder. [HEARTH_CONFIG]\n"
            "      --log-level LEVEL     Minimum level of log lines. [debug, info, warn,\n"
            "                            error, off; default info; HEARTH_LOG_LEVEL]\n"
            "      --log-format text|json\n"
            "                            Log format: text or json. [default text;\n"
            "                            HEARTH_LOG_FORMAT]\n"
            "      --no-color            Disable colors. [HEARTH_COLOR]\n"
            "  -h, --help                Show this help.\n");
        assert_string_equal(cli_got.err, "");
    }
}

static void test_help_for_an_unknown_command(void **state)
{
    (void)state;
    assert_int_equal(cli_run("help gret"), CLI_EXIT_USAGE);
    assert_string_equal(cli_got.out, "");
    assert_string_equal(cli_got.err, "hearth help: unknown command \"gret\"; did you mean greet?\n"
                                     "Try 'hearth help --help'.\n");
    assert_int_equal(cli_run("help greet fail"), CLI_EXIT_USAGE);
}

TEST_SUITE(TEST(test_overview), TEST(test_help_has_own_and_common_options),
           TEST(test_help_for_an_unknown_command))

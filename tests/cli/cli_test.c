#include "cli/cli.h"

#include <string.h>

#include "base/mem.h"
#include "support/cli_run.h"
#include "support/test.h"

static void test_command_gets_options_and_arguments(void **state)
{
    (void)state;
    assert_int_equal(cli_run("greet -t2 --loud moon sun"), CLI_EXIT_OK);
    assert_string_equal(cli_got.out, "hello moon!\nhello sun!\nhello moon!\nhello sun!\n"
                                     "500 bytes, config none, debug 0, times from 4\n");
    assert_string_equal(cli_got.err, "");
    assert_int_equal(cli_run("greet --log-level debug --bytes 7 -- --moon"), CLI_EXIT_OK);
    assert_string_equal(cli_got.out, "hello --moon\n7 bytes, config none, debug 1, times from 0\n");
}

static void test_failure_is_said_and_returned(void **state)
{
    (void)state;
    assert_int_equal(cli_run("fail"), CLI_EXIT_FAILURE);
    assert_string_equal(cli_got.out, "");
    assert_string_equal(cli_got.err, "hearth fail: no luck\n");
}

/* Messages quote servers, files and arguments, which must not move the cursor. */
static void test_errors_are_cleaned(void **state)
{
    (void)state;
    assert_int_equal(cli_run("greet a b \x1b]0;c\a"), CLI_EXIT_USAGE);
    assert_string_equal(cli_got.err, "hearth greet: unexpected argument \"?]0;c?\"\n"
                                     "Try 'hearth greet --help'.\n");
}

static void test_arguments_are_counted(void **state)
{
    (void)state;
    assert_int_equal(cli_run("greet"), CLI_EXIT_USAGE);
    assert_string_equal(cli_got.err, "hearth greet: missing argument. Usage: hearth greet "
                                     "[options] NAME...\nTry 'hearth greet --help'.\n");
    assert_int_equal(cli_run("greet a b c"), CLI_EXIT_USAGE);
    assert_string_equal(cli_got.err, "hearth greet: unexpected argument \"c\"\n"
                                     "Try 'hearth greet --help'.\n");
    assert_string_equal(cli_got.out, "");
}

static void test_every_failed_allocation_is_a_failure(void **state)
{
    struct fault fault = {0};
    const char *path = cli_write_ini("times = 2\n");

    (void)state;
    cli_set_env(0, "HEARTH_CONFIG", path);
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        int status = cli_run("greet x y");
        if (atomic_load(&fault.fired) == 0)
            assert_int_equal(status, CLI_EXIT_OK);
        else if (status != CLI_EXIT_OK) /* the log may do without a line */
            assert_int_equal(status, CLI_EXIT_FAILURE);
    }
    FAULT_LOOP (&fault) {
        int status = cli_run("greet --help");
        assert_int_equal(status, atomic_load(&fault.fired) ? CLI_EXIT_FAILURE : CLI_EXIT_OK);
    }
    mem_set_fault(NULL);
}

TEST_SUITE(TEST(test_command_gets_options_and_arguments), TEST(test_failure_is_said_and_returned),
           TEST(test_errors_are_cleaned), TEST(test_arguments_are_counted),
           TEST(test_every_failed_allocation_is_a_failure))

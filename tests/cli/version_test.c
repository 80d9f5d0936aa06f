#include <stdio.h>
#include <string.h>

#include <blake3.h>
#include <xxhash.h>

#include "cli/cli.h"
#include "support/cli_run.h"
#include "support/test.h"
#include "version.h"

static void test_version_of_the_program_and_of_libraries(void **state)
{
    static const char *const spellings[] = {"--version", "version"};
    char want[256];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(spellings); i++) {
        assert_int_equal(cli_run(spellings[i]), CLI_EXIT_OK);
        assert_string_equal(cli_got.err, "");
        /* The commit is not compared: this file may be compiled before or after it changed. */
        snprintf(want, sizeof(want), "hearth %s (commit ", HEARTH_VERSION);
        assert_memory_equal(cli_got.out, want, strlen(want));
        snprintf(want, sizeof(want), ", %s build)\n", HEARTH_VARIANT);
        assert_non_null(strstr(cli_got.out, want));
        snprintf(want, sizeof(want), "\n  BLAKE3     %s\n", BLAKE3_VERSION_STRING);
        assert_non_null(strstr(cli_got.out, want));
        snprintf(want, sizeof(want), "\n  xxHash     %d.%d.%d\n", XXH_VERSION_MAJOR,
                 XXH_VERSION_MINOR, XXH_VERSION_RELEASE);
        assert_non_null(strstr(cli_got.out, want));
        assert_non_null(strstr(cli_got.out, "\n  compiler   "));
    }
    assert_int_equal(cli_run("version now"), CLI_EXIT_USAGE);
}

TEST_SUITE(TEST(test_version_of_the_program_and_of_libraries))

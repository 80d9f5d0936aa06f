#include "lab/micro.h"

#include <stdlib.h>

#include "support/test.h"

static void test_made_models_go_to_the_folder_of_the_run(void **state)
{
    char path[MICRO_PATH_BYTES];

    (void)state;
    setenv("TMPDIR", "/some/where", 1);
    micro_path(path, "dense");
    assert_string_equal(path, "/some/where/dense.gguf");
    setenv("TMPDIR", "", 1);
    micro_path(path, "dense");
    assert_string_equal(path, "/tmp/dense.gguf");
    unsetenv("TMPDIR");
    micro_path(path, "dense");
    assert_string_equal(path, "/tmp/dense.gguf");
}

TEST_SUITE(TEST(test_made_models_go_to_the_folder_of_the_run))

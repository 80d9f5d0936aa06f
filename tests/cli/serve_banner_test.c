/*
 * What the banner says about the cache: where it is, that it is off, or why a model has none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/serve.h"
#include "engine/engine.h"
#include "support/test.h"

static char *banner(const struct engine_facts *facts, size_t models_count, bool cached)
{
    struct serve_model list[2] = {{.name = "first"}, {.name = "second"}};
    struct serve_models models = {.list = list, .count = models_count};
    struct serve_place place = {.host = "127.0.0.1", .port = 1, .models = &models};
    /* The cache itself is not looked at. */
    struct serve_store store = {.cache = cached ? (void *)&models : NULL, .ram_bytes = 1 << 30};
    struct cli cli = {0};
    char *text = NULL;
    size_t len;

    cli.out = open_memstream(&text, &len);
    assert_non_null(cli.out);
    serve_print_banner(&cli, &place, facts, &store, 1);
    fclose(cli.out);
    return text;
}

static void expect_line(char *text, const char *line)
{
    if (strstr(text, line) == NULL)
        fail_msg("no '%s' in:\n%s", line, text);
    free(text);
}

static void test_cache_of_the_banner(void **state)
{
    struct engine_facts facts = {
        .description = "d", .kinds = KIND_BIT(KIND_FULL), .slicing = ENGINE_SLICING_ROWS};

    (void)state;
    expect_line(banner(&facts, 1, true), "\n  cache     RAM 1.0 GiB, SSD none\n");
    expect_line(banner(&facts, 1, false), "\n  cache     off\n");
    facts.slicing = ENGINE_SLICING_NONE;
    facts.fault = ENGINE_FAULT_IMPORT;
    expect_line(banner(&facts, 1, true),
                "\n  cache     off for this model: the library refuses the "
                "state that it has saved\n");
    expect_line(banner(&facts, 2, true), "\n  cache     RAM 1.0 GiB, SSD none\n");
}

TEST_SUITE(TEST(test_cache_of_the_banner))

/*
 * From the words of a command line to a loaded model: each option has to arrive, each mistake has
 * to be a sentence and a status. A command of the test's own loads the model and keeps the facts.
 */
#include "cli/model_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/cli.h"
#include "support/models.h"
#include "support/test.h"

struct load_options {
    bool before;
    struct model_settings model;
};

static const struct option_desc options_table[] = {
    {"before", 0, OPTION_FLAG, offsetof(struct load_options, before), .help = "Something else."},
    MODEL_SETTINGS_OPTIONS(struct load_options, model),
};

/* What the last load gave; facts.name and its like are gone with the engine. */
static struct got {
    bool loaded;
    struct engine_facts facts;
    double seconds;
    int status;
    char *err;
    size_t err_len;
} got;

static enum cli_exit run_load(struct cli *cli, const void *options)
{
    const struct load_options *settings = options;
    struct engine *engine = (struct engine *)&got;
    enum cli_exit status =
        cli_load_model(cli, &settings->model, cli->args[0], &engine, &got.seconds);

    assert_int_equal(status == CLI_EXIT_OK, engine != NULL);
    if (engine != NULL) {
        got.loaded = true;
        got.facts = *engine_facts(engine);
        engine_close(&engine);
    }
    return status;
}

static const struct command load_command = {
    .name = "load",
    .summary = "Load.",
    .usage = "[options] FILE",
    .table = {"load", options_table, COUNT_OF(options_table)},
    .options_size = sizeof(struct load_options),
    .args_min = 1,
    .args_max = 1,
    .run = run_load,
};

/* `hearth load <line> FILE`, with one thread and a small context unless the line says otherwise. */
static int load_file(const char *line, const char *path)
{
    static const struct command *const commands[] = {&load_command, NULL};
    char text[1024], *argv[40] = {(char *)"hearth", (char *)"load", (char *)"-t", (char *)"1"};
    int argc = 4;

    free(got.err); /* a memstream's memory is the C library's */
    got = (struct got){0};
    snprintf(text, sizeof(text), "%s", line);
    for (char *rest = text, *word; (word = strsep(&rest, " ")) != NULL;)
        if (word[0] != '\0')
            argv[argc++] = word;
    argv[argc++] = (char *)path;
    FILE *err = open_memstream(&got.err, &got.err_len);
    assert_non_null(err);
    struct cli_setup setup = {.commands = commands,
                              .fs = file_sys_real(),
                              .clock = clock_real(),
                              .out = stdout,
                              .err = err,
                              .memory_bytes = 1u << 30};
    got.status = cli_main(&setup, argc, argv);
    fclose(err);
    return got.status;
}

static int load(const char *line)
{
    return load_file(line, test_model("gemma3"));
}

static void expect_loaded(const char *line)
{
    if (load(line) != CLI_EXIT_OK || !got.loaded)
        fail_msg("load %s: status %d, %s", line, got.status, got.err);
    assert_string_equal(got.err, "");
    assert_true(got.seconds > 0);
}

static void expect_refused(const char *line, int status, const char *words)
{
    load(line);
    if (got.status != status || got.loaded || strstr(got.err, words) == NULL)
        fail_msg("load %s: status %d, '%s' does not say '%s'", line, got.status, got.err, words);
    assert_int_equal(strstr(got.err, "Try 'hearth load --help'") != NULL, status == CLI_EXIT_USAGE);
}

static void test_defaults(void **state)
{
    (void)state;
    expect_loaded("");
    assert_int_equal(got.facts.context, got.facts.context_trained);
    assert_int_equal(got.facts.sequences, 8);
    assert_int_equal(got.facts.chunk, 512);
    assert_int_equal(got.facts.slicing, ENGINE_SLICING_ROWS);
}

static void test_sizes_arrive(void **state)
{
    (void)state;
    expect_loaded("--ctx-size 1024 --parallel 3 --ubatch-size 64");
    assert_int_equal(got.facts.context, 1024);
    assert_int_equal(got.facts.sequences, 3);
    assert_int_equal(got.facts.chunk, 64);
    expect_loaded("-c 512 -np 254 -ub 32"); /* as llama.cpp spells them; the most there can be */
    assert_int_equal(got.facts.context, 512);
    assert_int_equal(got.facts.sequences, 254);
    assert_int_equal(got.facts.chunk, 32);
}

static void test_types_of_rows_arrive(void **state)
{
    uint64_t bytes[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        static const char *const lines[] = {
            "-c 512", "-c 512 -ctk q8_0", "-c 512 --cache-type-v f32", "-c 512 -ctk f32 -ctv f32"};
        expect_loaded(lines[i]);
        bytes[i] = got.facts.rows_bytes_per_token;
    }
    assert_true(bytes[1] < bytes[0] && bytes[0] < bytes[2] && bytes[2] < bytes[3]);
}

/* What changes the meaning of state changes the fingerprint, so every option that arrives there
 * shows. */
static void test_every_option_arrives(void **state)
{
    static const char *const lines[] = {
        "-c 512",
        "-c 512 -ub 64",
        "-c 512 -ctk q8_0",
        "-c 512 -ctv f32",
        "-c 512 --flash-attn off",
        "-c 512 --kv-streams",
        "-c 512 --swa-full",
        "-c 512 --rope-freq-base 5000",
        "-c 512 --rope-freq-scale 0.5",
    };
    static const char *const same[] = {
        "-c 1024",         "-c 512 --flash-attn auto", "-c 512 -fa on", /* as auto becomes here */
        "-c 512 -tb 1",    "-c 512 --parallel 2",      "-c 512 -ngl 0",
        "-c 512 -ngl all", "-c 512 --device CPU",      "-c 512 --max-memory 50%",
    };
    struct hash256 seen[COUNT_OF(lines)];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        expect_loaded(lines[i]);
        seen[i] = got.facts.fingerprint;
        for (size_t k = 0; k < i; k++)
            if (hash256_eq(&seen[i], &seen[k]))
                fail_msg("'%s' and '%s' load the same", lines[k], lines[i]);
        assert_int_equal(got.facts.slicing == ENGINE_SLICING_WHOLE,
                         strstr(lines[i], "streams") != NULL);
    }
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        expect_loaded(same[i]);
        if (!hash256_eq(&got.facts.fingerprint, &seen[0]))
            fail_msg("'%s' changes the fingerprint", same[i]);
    }
}

static void test_what_cannot_be_loaded_is_a_failure(void **state)
{
    (void)state;
    expect_refused("--max-memory 1000", CLI_EXIT_FAILURE, "1000 B are allowed");
    expect_refused("--device CPU,Nonsense9", CLI_EXIT_FAILURE, "there is no device 'Nonsense9'");
    expect_refused("-c 512 -fa off -ctv q8_0", CLI_EXIT_FAILURE, "no context of 512 tokens");
    assert_int_equal(load_file("", "/nonexistent/x.gguf"), CLI_EXIT_FAILURE);
    assert_non_null(strstr(got.err, "hearth load: /nonexistent/x.gguf: no such file"));
    assert_int_equal(load_file("", "/dev/null"), CLI_EXIT_FAILURE);
}

static void test_folder_without_backends(void **state)
{
    (void)state;
    expect_refused("--backends /nonexistent", CLI_EXIT_FAILURE, "no backends are loaded");
}

static void test_wrong_values_are_usage_errors(void **state)
{
    static const char *const lines[] = {
        "--parallel 0",   "--parallel 255",
        "-ub 0",          "-c -1",
        "-ctk q9_0",      "-fa maybe",
        "-ngl -2",        "--threads 1025",
        "-tb x",          "--rope-freq-base -1",
        "--lora",         "--kv-streams=7",
        "--max-memory x", "--rope-freq-scale 1e9",
        "-c 1073741825",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        expect_refused(lines[i], CLI_EXIT_USAGE, "hearth load: ");
}

static void test_adapters(void **state)
{
    static const char *const wrong[] = {"x=", "x=1x", "=2", "=", "x=nan", "x=1e300", "x=-1e300"};
    char line[64];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        snprintf(line, sizeof(line), "--lora %s", wrong[i]);
        expect_refused(line, CLI_EXIT_USAGE, "expected FILE or FILE=SCALE");
    }
    /* Of several the last counts as well; and a name may have a sign in it. */
    expect_refused("--lora good --lora x=", CLI_EXIT_USAGE, "--lora x=: expected");
    expect_refused("-c 512 --lora /nonexistent/a", CLI_EXIT_FAILURE, "the adapter /nonexistent/a");
    expect_refused("-c 512 --lora /nonexistent/a=b=-0.5", CLI_EXIT_FAILURE,
                   "the adapter /nonexistent/a=b:");
    /* A list counts like several options. */
    expect_refused("--lora good,x=", CLI_EXIT_USAGE, "--lora x=: expected");
    expect_refused("--lora good,", CLI_EXIT_USAGE, "--lora : expected");
    expect_refused("-c 512 --lora /nonexistent/a=1,/nonexistent/b", CLI_EXIT_FAILURE,
                   "the adapter /nonexistent/a:");
    snprintf(line, sizeof(line), "-c 512 --lora /dev/null=1.5");
    expect_refused(line, CLI_EXIT_FAILURE, "the adapter /dev/null:");
}

TEST_SUITE(TEST(test_defaults), TEST(test_sizes_arrive), TEST(test_types_of_rows_arrive),
           TEST(test_every_option_arrives), TEST(test_what_cannot_be_loaded_is_a_failure),
           TEST(test_folder_without_backends), TEST(test_wrong_values_are_usage_errors),
           TEST(test_adapters))

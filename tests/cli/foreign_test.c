/*
 * llama-server's command lines: those of tests/data/llama-server/lines.txt are read by the table of
 * `hearth serve`, and each has to arrive as the file says.
 */
#include "cli/foreign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "support/cli_run.h"
#include "support/test.h"

enum { WORDS_MAX = 48, LINES = 22 };

/* What the last line gave: "name=value" per line, and the note. */
static char settings[1 << 16], notes[1024];

static enum cli_exit run_show(struct cli *cli, const void *options)
{
    struct buf text;

    (void)options;
    buf_init(&text, sizeof(settings));
    for (size_t i = 0; i < cli->table->count; i++) {
        const struct option_desc *desc = &cli->table->options[i];
        const struct option_list *list = (const void *)((const char *)cli->values + desc->offset);
        buf_appendf(&text, "\n%s=", desc->name);
        if (desc->type != OPTION_LIST || list->count == 0)
            option_show(desc, cli->values, &text);
        else /* ", " is between settings */
            for (size_t item = 0; item < list->count; item++)
                buf_appendf(&text, "%s%s", item > 0 ? "," : "", list->items[item]);
    }
    buf_append_char(&text, '\n');
    assert_int_equal(text.err, ERR_OK);
    snprintf(settings, sizeof(settings), "%s", buf_str(&text));
    snprintf(notes, sizeof(notes), "%s", cli->notes ? cli->notes : "");
    buf_fini(&text);
    return CLI_EXIT_OK;
}

/* `hearth serve <line>` up to the point where it would start. */
static void read_line(const char *line)
{
    struct command serve = command_serve;
    const struct command *const commands[] = {&serve, NULL};
    char text[1024], *argv[WORDS_MAX] = {(char *)"hearth", (char *)"serve"};
    int argc = 2;

    serve.run = run_show;
    snprintf(text, sizeof(text), "%s", line);
    for (char *rest = text, *word; (word = strsep(&rest, " ")) != NULL;) {
        assert_true(argc < WORDS_MAX);
        argv[argc++] = word;
    }
    settings[0] = notes[0] = '\0';
    cli_run_args(commands, argc, argv);
}

static void expect_setting(const char *line, const char *setting)
{
    char wanted[1100];

    snprintf(wanted, sizeof(wanted), "\n%s\n", setting);
    if (strstr(settings, wanted) == NULL)
        fail_msg("'%s': no '%s'; status %d, %s%s", line, setting, cli_got.status, cli_got.err,
                 settings);
}

static void expect_settings(const char *line, const char *list)
{
    char text[1024];

    assert_int_equal(cli_got.status, CLI_EXIT_OK);
    snprintf(text, sizeof(text), "%s", list);
    for (char *at = text, *comma; at != NULL; at = comma ? comma + 2 : NULL) {
        comma = strstr(at, ", ");
        if (comma != NULL)
            *comma = '\0';
        expect_setting(line, at);
    }
}

static void expect_refused(const char *line, const char *sentence)
{
    char wanted[512];

    snprintf(wanted, sizeof(wanted), "hearth serve: %s", sentence);
    if (cli_got.status != CLI_EXIT_USAGE || strncmp(cli_got.err, wanted, strlen(wanted)) != 0)
        fail_msg("'%s': status %d, '%s' is not '%s'", line, cli_got.status, cli_got.err, wanted);
}

static void test_lines_of_the_file(void **state)
{
    FILE *file = fopen("tests/data/llama-server/lines.txt", "r");
    char text[1024], line[1024] = "", noted[1024] = "";
    int lines = 0;

    (void)state;
    assert_non_null(file);
    while (fgets(text, sizeof(text), file) != NULL) {
        text[strcspn(text, "\n")] = '\0';
        if (text[0] == '-') {
            if (noted[0] == '\0' && notes[0] != '\0')
                fail_msg("'%s' has the note '%s'", line, notes);
            snprintf(line, sizeof(line), "%s", text);
            read_line(line);
            lines++;
            noted[0] = '\0';
        } else if (text[0] == '=') {
            expect_settings(line, text + 2);
        } else if (text[0] == '?') {
            snprintf(noted, sizeof(noted), "%s", text + 2);
            assert_string_equal(notes, noted);
        } else if (text[0] == '!') {
            expect_refused(line, text + 2);
        }
    }
    fclose(file);
    assert_int_equal(lines, LINES);
}

static void test_sizes_in_mib(void **state)
{
    (void)state;
    read_line("-cram 2048");
    expect_setting("-cram 2048", "ram-cache=2.0 GiB");
    read_line("--cache-ram=512");
    expect_setting("--cache-ram=512", "ram-cache=512.0 MiB");
    read_line("-cram 8GiB");
    expect_setting("-cram 8GiB", "ram-cache=8.0 GiB");
    read_line("--ram-cache 64MiB -cram -1"); /* no limit: what it would be without */
    expect_setting("-cram -1", "ram-cache=64.0 MiB");
    read_line("-cram 0");
    expect_refused("-cram 0", "llama-server's -cram 0 is not supported: --no-cache disables");
}

static void test_layers_by_word_and_number(void **state)
{
    static const char *const lines[][2] = {
        {"-m x", "gpu-layers=auto"},         {"-ngl 0", "gpu-layers=0"},
        {"-ngl 33", "gpu-layers=33"},        {"-ngl auto", "gpu-layers=auto"},
        {"-ngl -1", "gpu-layers=auto"},      {"--gpu-layers ALL", "gpu-layers=all"},
        {"--n-gpu-layers=7", "gpu-layers=7"}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        read_line(lines[i][0]);
        expect_setting(lines[i][0], lines[i][1]);
    }
    read_line("-ngl -3");
    expect_refused("-ngl -3",
                   "--gpu-layers: \"-3\" is out of range; expected auto, all, or 0 to 10000");
}

static void test_flash_attention_with_and_without_a_value(void **state)
{
    (void)state;
    read_line("-fa -c 512");
    expect_settings("-fa", "flash-attn=on, ctx-size=512");
    read_line("-fa off -c 512");
    expect_settings("-fa off", "flash-attn=off, ctx-size=512");
    read_line("-fa=0");
    expect_settings("-fa=0", "flash-attn=off");
    read_line("--flash-attn auto m.gguf");
    expect_settings("--flash-attn auto", "flash-attn=auto");
    read_line("-fa m.gguf"); /* a model, not a value */
    expect_settings("-fa m.gguf", "flash-attn=on");
    read_line("--flash-attn=sometimes");
    expect_refused("--flash-attn=sometimes", "--flash-attn: \"sometimes\" is not one of auto, on");
}

/* "-hfoo" once printed the help and succeeded, "-md x" was "-m d x". */
static void test_letters_are_not_cut_off_names(void **state)
{
    static const char *const refused[][2] = {
        {"-hfd user/repo m.gguf", "llama-server's -hfd is not supported: download it"},
        {"-hft secret", "llama-server's -hft is not supported: set HF_TOKEN"},
        {"-hfoo", "unknown option \"-hfoo\""},
        {"-nocb", "llama-server's -nocb is not supported"},
        {"--spec-draft-cpu-moe", "llama-server's --spec-draft-cpu-moe is not supported: see"},
        {"--spec-type draft-mtp", "llama-server's --spec-type draft-mtp is not supported"},
        {"-b --jinja", "-b needs a value"},
        {"--rope-scale none", "--rope-scale: \"none\" is not a positive number"},
        {"--lora-scaled a:1,b", "llama-server's --lora-scaled a:1,b is not supported: give"},
        {"--t 4", "unknown option \"--t\""},
        {"--jinjo", "unknown option \"--jinjo\""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        read_line(refused[i][0]);
        expect_refused(refused[i][0], refused[i][1]);
    }
    read_line("-hfr user/repo:Q8_0 -- -hfd");
    expect_settings("-hfr", "hf-repo=user/repo:Q8_0, model=none");
}

static void test_values_that_change_nothing(void **state)
{
    (void)state;
    read_line("-sm layer -n -1 --reasoning-format auto --seed -1 -t -1 -tb=-1 --mirostat 0");
    expect_settings("-sm layer ...", "threads=0, threads-batch=0");
    assert_string_equal(notes, "");
    read_line("-rea off --reasoning-budget 512 --chat-template-kwargs {\"a\":1}");
    expect_settings("-rea ...",
                    "reasoning=off, reasoning-budget=512, chat-template-kwargs={\"a\":1}");
    read_line("--sleep-idle-seconds 300 --threads-http 3 --no-kv-unified --log-disable");
    expect_settings("--sleep ...", "model-ttl=5 min 00 s, workers=3, kv-streams=on, log-level=off");
}

TEST_SUITE(TEST(test_lines_of_the_file), TEST(test_sizes_in_mib),
           TEST(test_layers_by_word_and_number),
           TEST(test_flash_attention_with_and_without_a_value),
           TEST(test_letters_are_not_cut_off_names), TEST(test_values_that_change_nothing))

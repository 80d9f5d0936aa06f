/* run.c: `hearth run [MODEL] [PROMPT]`: the options, and which of its two ways is taken. */
#include "cli/run.h"

#include <string.h>

#define AT(field) offsetof(struct run_options, field)

static const struct option_desc options_table[] = {
    {"raw", 0, OPTION_FLAG, AT(raw), HERE, .group = "Answer",
     .help = "Continue PROMPT as plain text, without a chat template."},
    {"system", 0, OPTION_TEXT, AT(system), .value = "TEXT", .help = "System prompt of the chat."},
    {"predict", 'n', OPTION_UINT, AT(tokens), .value = "N", .max = 1u << 30,
     .help = "Maximum number of tokens to generate; default: 2048, 128 with --raw."},
    {"temp", 0, OPTION_FLOAT, AT(temperature), .value = "N", .initial = "0.8", .fmax = 100,
     .help = "Temperature; 0 = always the most probable token."},
    {"top-k", 0, OPTION_INT, AT(top_k), .value = "N", .initial = "40", .imin = 0, .imax = 1 << 30,
     .help = "Sample from the N most probable tokens; 0 = all."},
    {"top-p", 0, OPTION_FLOAT, AT(top_p), .value = "N", .initial = "0.95", .fmax = 1,
     .help = "Sample from the tokens that make up this probability."},
    {"min-p", 0, OPTION_FLOAT, AT(min_p), .value = "N", .initial = "0.05", .fmax = 1,
     .help = "Drop tokens less probable than this fraction of the best one."},
    {"seed", 's', OPTION_INT, AT(seed), .value = "N", .initial = "-1", .imin = -1,
     .imax = UINT32_MAX, .help = "Random seed; -1 = a new one each time."},
    {"ignore-eos", 0, OPTION_FLAG, AT(ignore_end),
     .help = "Do not stop at the end-of-answer token."},
    MODEL_SETTINGS_OPTIONS(struct run_options, model),
    REMOTE_OPTIONS(struct run_options, remote),
};

static bool is_set(const struct cli *cli, const char *name)
{
    for (size_t i = 0; i < cli->table->count; i++)
        if (strcmp(cli->table->options[i].name, name) == 0)
            return cli->sources[i] != OPTION_FROM_TABLE;
    return false;
}

static enum cli_exit run(struct cli *cli, const void *values)
{
    struct run_options options = *(const struct run_options *)values;

    options.tokens_set = is_set(cli, "predict");
    options.temperature_set = is_set(cli, "temp");
    options.top_p_set = is_set(cli, "top-p");
    options.min_p_set = is_set(cli, "min-p");
    options.top_k_set = is_set(cli, "top-k");
    if (!options.raw)
        return run_chat(cli, &options);
    if (cli->args_count < 2)
        return cli_usage_error(cli, "missing argument. Usage: hearth run --raw FILE PROMPT");
    return run_raw(cli, &options);
}

const struct command command_run = {
    .name = "run",
    .summary = "Chat with a model in the terminal, or complete a prompt.",
    .usage = "[options] [MODEL [PROMPT]]",
    .table = {.command = "run", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct run_options),
    .args_max = 2,
    .run = run,
};

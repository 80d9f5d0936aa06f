/* run.c: `hearth run [MODEL] [PROMPT]`: the options, and which of its two ways is taken. */
#include "cli/run.h"

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

static enum cli_exit run(struct cli *cli, const void *options)
{
    if (!((const struct run_options *)options)->raw)
        return run_chat(cli, options);
    if (cli->args_count < 2)
        return cli_usage_error(cli, "missing argument. Usage: hearth run --raw FILE PROMPT");
    return run_raw(cli, options);
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

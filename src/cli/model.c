/*
 * model.c: `hearth model make`: a model file with random weights; `hearth model show` is in
 * model_show.c.
 *
 * The options are the fields of struct model_make_options; src/engine checks them for the family
 * and writes the error messages.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/model_settings.h"
#include "engine/model_make.h"

struct model_options {
    const char *family, *out;
    uint64_t layers, width, heads, kv_heads, head_dim, ff;
    uint64_t experts, experts_used, expert_ff, window, ctx, vocab, seed;
    int quant;
    bool tied;
    struct model_settings load; /* show */
};

#define AT(field)     offsetof(struct model_options, field)
#define SIZE_OF_MODEL .value = "N", .max = 1 << 24, .not_in_file = true

static const struct option_desc options_table[] = {
    {"family", 'f', OPTION_TEXT, AT(family), .value = "NAME", .initial = "demo",
     .not_in_file = true, .group = "What to make",
     .help = "Preset (demo, qwen3-0.6b, qwen3.5-hybrid-1b, gemma3-1b) or architecture (llama, "
             "qwen2, qwen3, qwen3moe, "
             "qwen35, qwen35moe, qwen3next, gemma2, gemma3, gpt-oss, llama4, deepseek2, mamba2, "
             "falcon-h1, nemotron_h, "
             "granitehybrid, jamba, kimi-linear, qwen4exp, bert)."},
    {"out", 'o', OPTION_TEXT, AT(out), .value = "FILE", .not_in_file = true,
     .help = "Output file; default: NAME.gguf in the current folder."},
    {"quant", 'q', OPTION_CHOICE, AT(quant), .value = "TYPE", .initial = "default",
     .choices = model_quant_names, .not_in_file = true,
     .help = "Data type of the weights; default: that of the preset, f16 for an architecture."},
    {"seed", 's', OPTION_UINT, AT(seed), .value = "N", .not_in_file = true,
     .help = "Random seed; the same seed and options give the same file."},
    {"layers", 0, OPTION_UINT, AT(layers), SIZE_OF_MODEL,
     .group = "Its shape (what is not given follows from the family)", .help = "Number of layers."},
    {"width", 0, OPTION_UINT, AT(width), SIZE_OF_MODEL, .help = "Embedding width."},
    {"heads", 0, OPTION_UINT, AT(heads), SIZE_OF_MODEL, .help = "Attention heads per layer."},
    {"kv-heads", 0, OPTION_UINT, AT(kv_heads), SIZE_OF_MODEL, .help = "KV heads per layer."},
    {"head-dim", 0, OPTION_UINT, AT(head_dim), SIZE_OF_MODEL,
     .help = "Width of an attention head."},
    {"ff", 0, OPTION_UINT, AT(ff), SIZE_OF_MODEL, .help = "Feed-forward width."},
    {"experts", 0, OPTION_UINT, AT(experts), SIZE_OF_MODEL, .help = "Experts per layer."},
    {"experts-used", 0, OPTION_UINT, AT(experts_used), SIZE_OF_MODEL,
     .help = "Experts used per token."},
    {"expert-ff", 0, OPTION_UINT, AT(expert_ff), SIZE_OF_MODEL,
     .help = "Feed-forward width of an expert."},
    {"window", 0, OPTION_UINT, AT(window), SIZE_OF_MODEL,
     .help = "Window of sliding layers, in tokens."},
    {"ctx", 0, OPTION_UINT, AT(ctx), SIZE_OF_MODEL,
     .help = "Training context to declare, in tokens."},
    {"vocab", 0, OPTION_UINT, AT(vocab), SIZE_OF_MODEL, .help = "Vocabulary size."},
    {"tied", 0, OPTION_FLAG, AT(tied), .not_in_file = true,
     .help = "Share weights between embedding and output."},
    MODEL_SETTINGS_OPTIONS(struct model_options, load),
};

static struct model_shape shape_of(const struct model_options *options)
{
    return (struct model_shape){
        .layers = (uint32_t)options->layers,
        .width = (uint32_t)options->width,
        .heads = (uint32_t)options->heads,
        .kv_heads = (uint32_t)options->kv_heads,
        .head_dim = (uint32_t)options->head_dim,
        .ff = (uint32_t)options->ff,
        .experts = (uint32_t)options->experts,
        .experts_used = (uint32_t)options->experts_used,
        .expert_ff = (uint32_t)options->expert_ff,
        .window = (uint32_t)options->window,
        .context = (uint32_t)options->ctx,
        .vocab = (uint32_t)options->vocab,
        .tied = options->tied,
    };
}

enum { PROGRESS_STEPS = 1000 };

static bool show_progress(float done, void *arg)
{
    progress_update(arg, (uint64_t)(done * PROGRESS_STEPS), PROGRESS_STEPS);
    return true;
}

static void print_made(struct cli *cli, const struct model_make_options *make, uint64_t took_ns)
{
    struct model_make_plan plan;
    struct stat st = {0};
    char size[UNITS_TEXT_BYTES], time[UNITS_TEXT_BYTES];

    if (model_make_resolve(make, &plan, NULL) != ERR_OK)
        return;
    cli->setup->fs->ops->fstatat(cli->setup->fs->ctx, AT_FDCWD, make->out, &st);
    fprintf(cli->out, "%s: %s, %u layers, width %u, %s, %s, %s\n", make->out, plan.name,
            plan.shape.layers, plan.shape.width, model_quant_names[plan.quant],
            units_format_size((uint64_t)st.st_size, size), units_format_duration(took_ns, time));
}

static enum cli_exit run_make(struct cli *cli, const struct model_options *options)
{
    const uint64_t start_ns = clock_mono_ns(cli->setup->clock);
    struct model_make_options make = {
        .family = options->family,
        .out = options->out,
        .shape = shape_of(options),
        .quant = (enum model_quant)options->quant,
        .seed = options->seed,
        .fs = cli->setup->fs,
        .on_progress = show_progress,
    };
    struct errinfo info;

    if (make.out == NULL)
        make.out = arena_printf(cli->arena, "%s.gguf", make.family);
    if (make.out == NULL) {
        cli_error(cli, "%s", err_sentence(ERR_NOMEM));
        return CLI_EXIT_FAILURE;
    }
    struct progress *progress =
        progress_create(fileno(cli->err), PROGRESS_STYLE_AUTO, "making model", PROGRESS_UNIT_NONE,
                        cli->setup->clock);
    make.arg = progress;
    enum err err = model_make(&make, &info);
    progress_finish(&progress, err == ERR_OK);
    if (err == ERR_INVALID)
        return cli_usage_error(cli, "%s", info.text);
    if (err != ERR_OK) {
        cli_error(cli,
                  err == ERR_NO_SPACE
                      ? "%s: %s; free some space, or choose another place with --out"
                      : "%s: %s",
                  make.out, err == ERR_NO_SPACE ? err_sentence(err) : info.text);
        return CLI_EXIT_FAILURE;
    }
    print_made(cli, &make, clock_mono_ns(cli->setup->clock) - start_ns);
    return CLI_EXIT_OK;
}

static enum cli_exit run(struct cli *cli, const void *options)
{
    if (strcmp(cli->args[0], "make") == 0)
        return cli->args_count == 1
                   ? run_make(cli, options)
                   : cli_usage_error(cli, "make takes no file argument: use --out");
    if (strcmp(cli->args[0], "show") == 0)
        return model_show(cli, &((const struct model_options *)options)->load);
    return cli_usage_error(cli, "unknown model command \"%s\"; use make or show", cli->args[0]);
}

static const char *const words[] = {"make", "show", NULL};

const struct command command_model = {
    .name = "model",
    .summary = "Create a model file with random weights, or describe a model file.",
    .usage = "make [options] | show [options] FILE",
    .table = {.command = "model", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct model_options),
    .args_min = 1,
    .args_max = 2,
    .words = words,
    .run = run,
};

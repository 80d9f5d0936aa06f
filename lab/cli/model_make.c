/*
 * model_make.c: `hearth model make`: a model file with random weights, or an adapter for one.
 *
 * The options are the fields of struct model_make_options; lab/model_shape.c checks them for the
 * family and writes the error messages.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/units.h"
#include "cli/cli.h"
#include "lab/cli/lab.h"
#include "lab/model_make.h"

struct model_options {
    const char *family, *out, *adapter_for, *invocation;
    uint64_t layers, width, heads, kv_heads, head_dim, ff;
    uint64_t experts, experts_used, expert_ff, window, ctx, vocab, seed;
    int quant;
    bool tied;
};

#define AT(field)     offsetof(struct model_options, field)
#define SIZE_OF_MODEL .value = "N", .max = 1 << 24, HERE

static const struct option_desc options_table[] = {
    {"family", 'f', OPTION_TEXT, AT(family), .value = "NAME", .initial = "random", HERE,
     .group = "Model to make",
     .help = "Preset (random, qwen3-0.6b, qwen3.5-hybrid-1b, gemma3-1b) or architecture of the "
             "library (llama, qwen3, gemma3, deepseek32, mamba2, ...)."},
    {"out", 'o', OPTION_TEXT, AT(out), .value = "FILE", HERE,
     .help = "Output file; default: NAME.gguf in the current folder."},
    {"quant", 'q', OPTION_ENUM, AT(quant), .value = "TYPE", .initial = "default",
     .names = model_quant_names, HERE,
     .help = "Data type of the weights; default: that of the preset, f16 for an architecture."},
    {"seed", 's', OPTION_UINT, AT(seed), .value = "N", HERE,
     .help = "Random seed; the same seed and options give the same file."},
    {"adapter-for", 0, OPTION_TEXT, AT(adapter_for), .value = "FILE", HERE,
     .help = "Make a LoRA adapter for this model instead of a model."},
    {"invocation", 0, OPTION_TEXT, AT(invocation), .value = "TEXT", HERE,
     .help = "With --adapter-for: text of the prompt that activates it (aLoRA)."},
    {"layers", 0, OPTION_UINT, AT(layers), SIZE_OF_MODEL,
     .group = "Shape (default: that of the family)", .help = "Number of layers."},
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
    {"tied", 0, OPTION_FLAG, AT(tied), HERE, .help = "Share weights between embedding and output."},
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
        .on_progress = progress_part,
    };
    struct errinfo info;

    if (make.out == NULL)
        make.out = arena_printf(cli->arena, "%s.gguf", make.family);
    if (make.out == NULL)
        return cli_error(cli, "%s", err_sentence(ERR_NOMEM));
    struct progress *progress = cli_progress(cli, "making model", PROGRESS_UNIT_NONE);
    make.arg = progress;
    enum err err = model_make(&make, &info);
    progress_finish(&progress, err == ERR_OK);
    if (err == ERR_INVALID)
        return cli_usage_error(cli, "%s", info.text);
    if (err == ERR_NO_SPACE)
        return cli_error(cli, "%s: %s; free some space, or choose another place with --out",
                         make.out, err_sentence(err));
    if (err != ERR_OK)
        return cli_error(cli, "%s: %s", make.out, info.text);
    print_made(cli, &make, clock_mono_ns(cli->setup->clock) - start_ns);
    return CLI_EXIT_OK;
}

static enum cli_exit run_make_adapter(struct cli *cli, const struct model_options *options)
{
    struct model_adapter_options make = {.base = options->adapter_for,
                                         .out = options->out,
                                         .invocation = options->invocation,
                                         .seed = options->seed};
    struct errinfo info = {0};

    if (make.out == NULL)
        return cli_usage_error(cli, "--adapter-for needs --out");
    enum err err = model_make_adapter(&make, &info);
    if (err != ERR_OK)
        return cli_error(cli, "%s: %s", make.out, info.text);
    fprintf(cli->out, "%s: LoRA adapter for %s\n", make.out, make.base);
    return CLI_EXIT_OK;
}

static enum cli_exit run(struct cli *cli, const void *arg)
{
    const struct model_options *options = arg;

    if (options->invocation != NULL && options->adapter_for == NULL)
        return cli_usage_error(cli, "--invocation needs --adapter-for");
    return options->adapter_for != NULL ? run_make_adapter(cli, options) : run_make(cli, options);
}

const struct command command_model_make = {
    .name = "model-make",
    .summary = "Make a model file with random weights.",
    .usage = "[options]",
    .table = {.command = "model-make", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct model_options),
    .run = run,
};

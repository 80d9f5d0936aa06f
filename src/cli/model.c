/*
 * model.c: `hearth model make`: a model file with random weights; `hearth model show` and `hearth model
 * quantize`.
 *
 * The options of make are the fields of struct model_make_options; src/engine checks them for the family
 * and writes the error messages.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/units.h"
#include "chat/template.h"
#include "cli/cli.h"
#include "cli/model_settings.h"
#include "engine/model_make.h"
#include "engine/quantize.h"
#include "engine/state.h"

struct model_options {
    const char *family, *out, *adapter_for, *invocation;
    uint64_t layers, width, heads, kv_heads, head_dim, ff;
    uint64_t experts, experts_used, expert_ff, window, ctx, vocab, seed;
    int quant;
    bool tied;
    bool requantize;
    struct model_settings load; /* show, and some of it for quantize */
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
    {"allow-requantize", 0, OPTION_FLAG, AT(requantize), HERE, .group = "Quantization",
     .help = "Let quantize read a model that is quantized already, which costs quality."},
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

/* ---- show ----
 *
 * A model's properties that matter to the cache: kinds of layers, bytes per token, snapshots,
 * fingerprint. The sizes are measured, not computed from metadata, so the model is really loaded,
 * with the settings of the command line: another KV type gives other sizes and another
 * fingerprint. */

static void line(const struct cli *cli, const char *name, const char *value)
{
    fprintf(cli->out, "%-14s %s\n", name, value);
}

static void show_kinds(const struct cli *cli, const struct engine_facts *facts)
{
    fprintf(cli->out, "%-14s", "layers");
    for (size_t i = 0; i < facts->groups_count; i++) {
        const struct engine_layer_group *group = &facts->groups[i];
        if (group->layers > 0)
            fprintf(cli->out, "%s%u %s", i ? ", " : " ", group->layers, kind_name(group->kind));
        else
            fprintf(cli->out, "%ssome %s", i ? ", " : " ", kind_name(group->kind));
    }
    fprintf(cli->out, " (%u in all)\n", facts->layers);
    if (facts->window > 0)
        fprintf(cli->out, "%-14s %u tokens\n", "window", facts->window);
}

static void show_state(const struct cli *cli, const struct engine *engine)
{
    static const char *const modes[] = {
        [ENGINE_SLICING_NONE] = "cannot be moved",
        [ENGINE_SLICING_WHOLE] = "whole sequences only",
        [ENGINE_SLICING_ROWS] = "rows and snapshots",
    };
    const struct engine_facts *facts = engine_facts(engine);
    char rows[UNITS_TEXT_BYTES], block[UNITS_TEXT_BYTES], snapshot[UNITS_TEXT_BYTES];

    fprintf(cli->out, "%-14s %s%s\n", "state", modes[facts->slicing],
            facts->exact ? ", bit-identical after a restore" : "");
    fprintf(cli->out, "%-14s %s per token, %s per block of 256\n", "rows",
            units_format_size(facts->rows_bytes_per_token, rows),
            units_format_size(state_rows_bytes(engine, 256), block));
    line(cli, "snapshot",
         facts->snapshot_bytes_max ? units_format_size(facts->snapshot_bytes_max, snapshot)
                                   : "not needed");
}

/* What the template supports, found out as the server does. */
static void show_template(const struct cli *cli, const char *source)
{
    struct chat_template *template;
    struct errinfo info = {0};

    if (source == NULL) {
        line(cli, "chat template", "none");
        return;
    }
    fprintf(cli->out, "%-14s %zu bytes", "chat template", strlen(source));
    if (chat_template_create(&(struct chat_template_options){.source = source}, &template, &info) !=
        ERR_OK) {
        fprintf(cli->out, ", cannot be used: %s\n", info.text);
        return;
    }
    const struct chat_caps *caps = chat_template_caps(template);
    struct output_formats formats = chat_template_formats(template);
    enum chat_calls calls = chat_template_calls(template);
    const struct {
        bool has;
        const char *feature;
    } features[] = {{caps->tools, "tools"},
                    {caps->calls, "tool calls"},
                    {formats.reasoning != REASONING_NONE, "reasoning"},
                    {caps->thinking, "a switch for it"}};
    const char *separator = ": ";
    for (size_t i = 0; i < COUNT_OF(features); i++) {
        if (features[i].has) {
            fprintf(cli->out, "%s%s", separator, features[i].feature);
            separator = ", ";
        }
    }
    fputc('\n', cli->out);
    fprintf(cli->out, "%-14s %s: %s\n", "tool calls", toolcall_format_name(formats.calls),
            chat_calls_sentence(calls));
    enum chat_turns turns = chat_template_turns(template);
    fprintf(cli->out, "%-14s %s: %s\n", "turns", chat_turns_name(turns),
            chat_turns_sentence(turns));
    chat_template_destroy(&template);
}

static void show_size(const struct cli *cli, const struct engine_facts *facts)
{
    char parameters[UNITS_TEXT_BYTES], bytes[UNITS_TEXT_BYTES], trained[UNITS_TEXT_BYTES];

    fprintf(cli->out, "%-14s %s parameters, %s of weights, vocabulary of %u\n", "size",
            units_format_count(facts->parameters, parameters),
            units_format_size(facts->weights_bytes, bytes), facts->vocab);
    fprintf(cli->out, "%-14s %u tokens here, trained for %s\n", "context", facts->context,
            units_format_count(facts->context_trained, trained));
}

static enum cli_exit run_show(struct cli *cli, const struct model_settings *settings)
{
    char hex[HASH256_HEX_BYTES];
    struct engine *engine;
    double seconds;

    if (cli->args_count != 2)
        return cli_usage_error(cli, "show needs a model file");
    enum cli_exit status = cli_load_model(cli, settings, cli->args[1], &engine, &seconds);
    if (status != CLI_EXIT_OK)
        return status;
    const struct engine_facts *facts = engine_facts(engine);
    hash256_hex(&facts->fingerprint, hex);
    line(cli, "name", facts->name);
    line(cli, "architecture", facts->architecture);
    line(cli, "type", facts->description);
    show_size(cli, facts);
    show_kinds(cli, facts);
    show_state(cli, engine);
    show_template(cli, facts->chat_template);
    line(cli, "fingerprint", hex);
    fprintf(cli->out, "%-14s %.2f s on %s\n", "loaded in", seconds, facts->backend);
    engine_close(&engine);
    return CLI_EXIT_OK;
}

/* ---- quantize ---- */

static bool on_quantized(float done, void *bar)
{
    progress_part(done, bar);
    return !cli_interrupted;
}

static enum cli_exit run_quantize(struct cli *cli, const struct model_options *options)
{
    struct errinfo info = {0};

    if (cli->args_count != 4)
        return cli_usage_error(cli, "quantize needs a model file, an output file and a type, as in "
                                    "'hearth model quantize in.gguf out.gguf Q4_K_M'");
    struct quantize_options quantize = {
        .in = cli->args[1],
        .out = cli->args[2],
        .type = cli->args[3],
        .threads = (uint32_t)options->load.threads,
        .requantize = options->requantize,
        .backends = options->load.backends,
        .fs = cli->setup->fs,
        .on_progress = on_quantized,
    };
    cli_catch(SIGINT, 0);
    cli_catch(SIGTERM, 0);
    const uint64_t start_ns = clock_mono_ns(cli->setup->clock);
    struct progress *bar = cli_progress(cli, "quantizing", PROGRESS_UNIT_NONE);
    quantize.arg = bar;
    enum err err = quantize_file(&quantize, &info);
    progress_finish(&bar, err == ERR_OK);
    if (err == ERR_INVALID)
        return cli_usage_error(cli, "%s", info.text);
    if (err != ERR_OK)
        return cli_error(cli, "%s%s", info.text,
                         strstr(info.text, "requantizing") != NULL && !options->requantize
                             ? "; --allow-requantize permits it"
                             : "");
    struct stat before = {0}, after = {0};
    char from[UNITS_TEXT_BYTES], to[UNITS_TEXT_BYTES], time[UNITS_TEXT_BYTES];
    stat(quantize.in, &before);
    stat(quantize.out, &after);
    fprintf(cli->out, "%s: %s, %s (%s before), %s\n", quantize.out, quantize.type,
            units_format_size((uint64_t)after.st_size, to),
            units_format_size((uint64_t)before.st_size, from),
            units_format_duration(clock_mono_ns(cli->setup->clock) - start_ns, time));
    return CLI_EXIT_OK;
}

/* ---- the command ---- */

static enum cli_exit run(struct cli *cli, const void *arg)
{
    const struct model_options *options = arg;

    if (strcmp(cli->args[0], "make") == 0) {
        if (cli->args_count != 1)
            return cli_usage_error(cli, "make takes no file argument: use --out");
        if (options->invocation != NULL && options->adapter_for == NULL)
            return cli_usage_error(cli, "--invocation needs --adapter-for");
        return options->adapter_for != NULL ? run_make_adapter(cli, options)
                                            : run_make(cli, options);
    }
    if (strcmp(cli->args[0], "show") == 0)
        return run_show(cli, &options->load);
    if (strcmp(cli->args[0], "quantize") == 0)
        return run_quantize(cli, options);
    return cli_usage_error(cli, "unknown model command \"%s\"; use make, show or quantize",
                           cli->args[0]);
}

static const char *word(size_t number)
{
    static const char *const words[] = {"make", "show", "quantize", NULL};

    return words[number];
}

const struct command command_model = {
    .name = "model",
    .summary = "Quantize or describe a model file, or create a random one.",
    .usage = "make [options] | show [options] FILE | quantize [options] IN OUT TYPE",
    .table = {.command = "model", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct model_options),
    .args_min = 1,
    .args_max = 4,
    .word = word,
    .run = run,
};

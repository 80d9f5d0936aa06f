/*
 * model.c: `hearth model show` and `hearth model quantize`. (`hearth model make` is a program of
 * lab/.)
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
#include "engine/quantize.h"
#include "engine/state.h"

struct model_options {
    bool requantize;
    struct model_settings load; /* show, and some of it for quantize */
};

#define AT(field) offsetof(struct model_options, field)

static const struct option_desc options_table[] = {
    {"allow-requantize", 0, OPTION_FLAG, AT(requantize), HERE, .group = "Quantization",
     .help = "Let quantize read a model that is quantized already, which costs quality."},
    MODEL_SETTINGS_OPTIONS(struct model_options, load),
};

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

    if (strcmp(cli->args[0], "show") == 0)
        return run_show(cli, &options->load);
    if (strcmp(cli->args[0], "quantize") == 0)
        return run_quantize(cli, options);
    return cli_usage_error(cli, "unknown model command \"%s\"; use show or quantize", cli->args[0]);
}

static const char *word(size_t number)
{
    static const char *const words[] = {"show", "quantize", NULL};

    return words[number];
}

const struct command command_model = {
    .name = "model",
    .summary = "Describe a model file, or quantize it.",
    .usage = "show [options] FILE | quantize [options] IN OUT TYPE",
    .table = {.command = "model", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct model_options),
    .args_min = 1,
    .args_max = 4,
    .word = word,
    .run = run,
};

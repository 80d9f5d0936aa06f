/*
 * model_show.c: `hearth model show FILE`: a model's properties that matter to the cache: kinds of
 * layers, bytes per token, snapshots, fingerprint.
 *
 * The sizes are measured, not computed from metadata, so the model is really loaded, with the
 * settings of the command line: another KV type gives other sizes and another fingerprint.
 */

#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/model_settings.h"
#include "engine/state.h"

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

/* Features that the chat template mentions; for display only. */
static void show_template(const struct cli *cli, const char *template)
{
    static const struct {
        const char *word, *feature;
    } features[] = {
        {"tools", "tools"},     {"tool_calls", "tool calls"},
        {"think", "reasoning"}, {"enable_thinking", "a switch for it"},
        {"image", "images"},
    };
    const char *separator = ": ";

    if (template == NULL) {
        line(cli, "chat template", "none");
        return;
    }
    fprintf(cli->out, "%-14s %zu bytes", "chat template", strlen(template));
    for (size_t i = 0; i < COUNT_OF(features); i++) {
        if (strstr(template, features[i].word) != NULL) {
            fprintf(cli->out, "%s%s", separator, features[i].feature);
            separator = ", ";
        }
    }
    fputc('\n', cli->out);
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

enum cli_exit model_show(struct cli *cli, const struct model_settings *settings)
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

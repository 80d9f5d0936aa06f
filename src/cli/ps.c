/*
 * ps.c: `hearth ps`: the models of a running server, and what it is working on.
 */
#include <math.h>
#include <stdio.h>

#include "base/json_write.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/units.h"
#include "lab/sheet.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/remote.h"

enum { TEXT_BYTES_MAX = 16 << 20 };

struct ps_options {
    struct remote_options remote;
    bool json;
};

static const struct option_desc options_table[] = {
    {"json", 0, OPTION_FLAG, offsetof(struct ps_options, json), .not_in_file = true,
     .group = "Output", .help = "Print JSON."},
    REMOTE_OPTIONS(struct ps_options, remote),
};

static const char *seconds_text(double seconds, char out[UNITS_TEXT_BYTES])
{
    return seconds >= 0 && seconds < 1e9
               ? units_format_duration((uint64_t)(seconds * (double)NS_PER_S), out)
               : "-";
}

static void add_model(struct sheet *sheet, yyjson_val *model)
{
    char text[UNITS_TEXT_BYTES];
    double ttl_s = fields_number(model, "ttl_s", 0);

    sheet_text(sheet, fields_text(model, "id", "?"));
    sheet_text(sheet, fields_text(model, "state", "-"));
    sheet_text(sheet, units_format_size(fields_uint(model, "memory_bytes"), text));
    sheet_number(sheet, fields_number(model, "context", NAN));
    sheet_text(sheet, fields_bool(model, "pinned") ? "pinned"
                      : ttl_s > 0                  ? seconds_text(ttl_s, text)
                                                   : "never");
    sheet_text(sheet, seconds_text(fields_number(model, "idle_s", NAN), text));
    sheet_number(sheet, fields_number(model, "requests", NAN));
    sheet_text(sheet, fields_text(model, "features.reuse", "-"));
}

static void print_models(yyjson_val *models, struct buf *out)
{
    static const struct sheet_column columns[] = {
        {"id", "MODEL", SHEET_TEXT},           {"state", "STATE", SHEET_TEXT},
        {"memory", "MEMORY", SHEET_TEXT},      {"context", "CONTEXT", 0},
        {"ttl", "UNLOADED AFTER", SHEET_TEXT}, {"idle", "IDLE", SHEET_TEXT},
        {"requests", "REQUESTS", 0},           {"reuse", "REUSE", SHEET_TEXT},
    };
    struct sheet *sheet = sheet_create(columns, COUNT_OF(columns));
    yyjson_arr_iter iter;
    yyjson_val *model;

    yyjson_arr_iter_init(models, &iter);
    while ((model = yyjson_arr_iter_next(&iter)) != NULL)
        add_model(sheet, model);
    (void)sheet_write_table(sheet, out);
    sheet_destroy(&sheet);
}

static void add_request(struct sheet *sheet, yyjson_val *request)
{
    char text[UNITS_TEXT_BYTES], id[32];
    yyjson_val *number = fields_get(request, "id");

    snprintf(id, sizeof(id), "%.0f", yyjson_get_num(number));
    sheet_text(sheet, yyjson_is_str(number) ? yyjson_get_str(number) : id);
    sheet_text(sheet, fields_text(request, "model", "-"));
    sheet_text(sheet, fields_text(request, "tenant", "-"));
    sheet_text(sheet, fields_text(request, "phase", "-"));
    sheet_number(sheet, fields_number(request, "prompt_tokens", NAN));
    sheet_number(sheet, fields_number(request, "cached_tokens", NAN));
    sheet_number(sheet, fields_number(request, "computed_tokens", NAN));
    sheet_number(sheet, fields_number(request, "generated_tokens", NAN));
    sheet_number(sheet, fields_number(request, "tokens_per_s", NAN));
    sheet_text(sheet, seconds_text(fields_number(request, "eta_s", NAN), text));
    sheet_text(sheet, seconds_text(fields_number(request, "age_s", NAN), text));
}

static void print_requests(yyjson_val *requests, struct buf *out)
{
    static const struct sheet_column columns[] = {
        {"id", "REQUEST", SHEET_TEXT},
        {"model", "MODEL", SHEET_TEXT},
        {"tenant", "TENANT", SHEET_TEXT},
        {"phase", "PHASE", SHEET_TEXT},
        {"prompt", "PROMPT", 0},
        {"cached", "CACHED", 0},
        {"computed", "COMPUTED", 0},
        {"generated", "GENERATED", 0},
        {"rate", "TOK/S", 1},
        {"eta", "ETA", SHEET_TEXT},
        {"age", "AGE", SHEET_TEXT},
    };
    struct sheet *sheet = sheet_create(columns, COUNT_OF(columns));
    yyjson_arr_iter iter;
    yyjson_val *request;

    yyjson_arr_iter_init(requests, &iter);
    while ((request = yyjson_arr_iter_next(&iter)) != NULL)
        add_request(sheet, request);
    if (sheet_rows(sheet) > 0)
        (void)sheet_write_table(sheet, out);
    else
        buf_append_str(out, "no request is running\n");
    sheet_destroy(&sheet);
}

/* {"models": [...], "requests": [...]}: both answers as one. */
static void print_json(const struct cli *cli, yyjson_val *models, yyjson_val *requests)
{
    struct buf out;
    struct json json;

    json = json_begin(&out, TEXT_BYTES_MAX, '{');
    json_key(&json, "models");
    json_value(&json, models);
    json_key(&json, "requests");
    json_value(&json, requests);
    json_close(&json, '}');
    fprintf(cli->out, "%s\n", buf_str(&out));
    buf_fini(&out);
}

static void print_tables(const struct cli *cli, yyjson_val *models, yyjson_val *requests)
{
    struct buf out;

    buf_init(&out, TEXT_BYTES_MAX);
    print_models(models, &out);
    buf_append_char(&out, '\n');
    print_requests(requests, &out);
    cli_put_text(cli, &out);
    buf_fini(&out);
}

static enum cli_exit run(struct cli *cli, const void *options)
{
    const struct ps_options *settings = options;
    yyjson_doc *models = NULL, *requests = NULL;
    struct errinfo info = {0};
    struct remote remote;

    enum err err = remote_open(&remote, cli, &settings->remote, &info);
    if (err != ERR_OK)
        return cli_usage_error(cli, "%s", info.text);
    err = remote_ask_json(&remote, "/admin/models", NULL, &models, &info);
    if (err == ERR_OK)
        err = remote_ask_json(&remote, "/admin/requests", NULL, &requests, &info);
    if (err != ERR_OK)
        cli_error(cli, "%s", info.text);
    else
        (settings->json ? print_json
                        : print_tables)(cli, fields_get(yyjson_doc_get_root(models), "models"),
                                        fields_get(yyjson_doc_get_root(requests), "requests"));
    yyjson_doc_free(models);
    yyjson_doc_free(requests);
    return err == ERR_OK ? CLI_EXIT_OK : CLI_EXIT_FAILURE;
}

const struct command command_ps = {
    .name = "ps",
    .summary = "List loaded models and running requests.",
    .usage = "[options]",
    .table = {.command = "ps", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct ps_options),
    .run = run,
};

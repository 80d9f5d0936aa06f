/* ps.c: `hearth ps`: the models of a running server, and what it is working on. */
#include <stdio.h>

#include "base/json_write.h"
#include "base/attr.h"
#include "base/buf.h"
#include "cli/cli.h"
#include "cli/remote.h"

enum { TEXT_BYTES_MAX = 16 << 20 };

struct ps_options {
    struct remote_options remote;
    bool json;
};

static const struct option_desc options_table[] = {
    {"json", 0, OPTION_FLAG, offsetof(struct ps_options, json), HERE, .group = "Output",
     .help = "Print JSON."},
    REMOTE_OPTIONS(struct ps_options, remote),
};

static const char *show_ttl(yyjson_val *model, const char *path, char out[FIELDS_TEXT_BYTES])
{
    if (fields_bool(model, "pinned"))
        return "pinned";
    return fields_number(model, path, 0) > 0 ? fields_time(model, path, out) : "never";
}

static const char *show_device(yyjson_val *model, const char *path, char out[FIELDS_TEXT_BYTES])
{
    return fields_number(model, path, 0) > 0 ? fields_size(model, path, out) : "-";
}

static const char *show_id(yyjson_val *request, const char *path, char out[FIELDS_TEXT_BYTES])
{
    yyjson_val *id = fields_get(request, path);

    snprintf(out, FIELDS_TEXT_BYTES, "%.0f", yyjson_get_num(id));
    return yyjson_is_str(id) ? yyjson_get_str(id) : out;
}

static const struct fields_column model_columns[] = {
    {"id", "MODEL", fields_word, 0},
    {"state", "STATE", fields_word, 0},
    {"memory_bytes", "MEMORY", fields_size, 0},
    {"device_bytes", "DEVICE", show_device, 0},
    {"context", "CONTEXT", NULL, 0},
    {"draft_model", "DRAFT MODEL", fields_word, 0},
    {"ttl_s", "UNLOADED AFTER", show_ttl, 0},
    {"idle_s", "IDLE", fields_time, 0},
    {"requests", "REQUESTS", NULL, 0},
    {"features.reuse", "REUSE", fields_word, 0},
};

static const struct fields_column request_columns[] = {
    {"id", "REQUEST", show_id, 0},
    {"model", "MODEL", fields_word, 0},
    {"tenant", "TENANT", fields_word, 0},
    {"phase", "PHASE", fields_word, 0},
    {"prompt_tokens", "PROMPT", NULL, 0},
    {"cached_tokens", "CACHED", NULL, 0},
    {"computed_tokens", "COMPUTED", NULL, 0},
    {"generated_tokens", "GENERATED", NULL, 0},
    {"tokens_per_s", "TOK/S", NULL, 1},
    {"eta_s", "ETA", fields_time, 0},
    {"age_s", "AGE", fields_time, 0},
};

static const struct fields_table models_table = {.columns = model_columns,
                                                 .count = COUNT_OF(model_columns)},
                                 requests_table = {.columns = request_columns,
                                                   .count = COUNT_OF(request_columns),
                                                   .none = "no request is running\n"};

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
    fields_print(&models_table, models, &out);
    buf_append_char(&out, '\n');
    fields_print(&requests_table, requests, &out);
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
    if (err == ERR_OK)
        err = remote_ask_json(&remote, "/admin/models", NULL, &models, &info);
    if (err == ERR_OK)
        err = remote_ask_json(&remote, "/admin/requests", NULL, &requests, &info);
    if (err == ERR_OK)
        (settings->json ? print_json
                        : print_tables)(cli, fields_get(yyjson_doc_get_root(models), "models"),
                                        fields_get(yyjson_doc_get_root(requests), "requests"));
    yyjson_doc_free(models);
    yyjson_doc_free(requests);
    return err == ERR_OK ? CLI_EXIT_OK : cli_fail(cli, err, &info);
}

const struct command command_ps = {
    .name = "ps",
    .summary = "List loaded models and running requests.",
    .usage = "[options]",
    .table = {.command = "ps", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct ps_options),
    .run = run,
};

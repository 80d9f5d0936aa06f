/*
 * launch.c: `hearth launch CLIENT [-- ARGS]`: starts a client that uses this server, or prints the
 * settings it needs.
 *
 * First asks the server whether it is up, which model it serves, whether the client's first prompt
 * fits into the context, and how long it takes. No prompt is sent for that. Then execs the client
 * with a few more variables and arguments (the table of clients). With --print nothing is started, and keys are not shown: the
 * lines name the variable that holds the key.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json_scan.h"
#include "base/mem.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/config.h"
#include "cli/remote.h"
#include "cli/process.h"
#include "sched/cost.h"

/* ---- clients: a new one is a row here and a line in docs/cli.md ----
 *
 * The texts of a row contain {url} (the server), {v1} (the same with /v1), {key}, {model},
 * {context} (tokens), {output} (maximum tokens of an answer), {file}, and {model:json}: the name
 * inside a quoted JSON or TOML text. A row sets environment variables and arguments for the client
 * only. No user file is ever written: a client that reads providers only from files gets one in
 * hearth's own state folder. */

enum { LAUNCH_ENV_MAX = 16, LAUNCH_ARGS_MAX = 24 };

struct launch_client {
    const char *name;    /* as it is typed */
    const char *alias;   /* another name, or NULL */
    const char *program; /* in PATH; NULL: nothing is started, lines are printed */
    const char *get;     /* how to install it */
    struct launch_env {
        /* value NULL: removed from the environment, because it would take precedence */
        const char *name, *value;
    } env[LAUNCH_ENV_MAX];             /* ended by a name that is NULL, as are the arguments */
    const char *args[LAUNCH_ARGS_MAX]; /* before those of the user */
    const char *alone;                 /* the argument where the user gives none; NULL: none */
    const char *file;                  /* in the state folder, with `lines`; NULL: it needs none */
    const char *lines;
    /* of its first prompt, for a short question: as many bytes of SAMPLE have as many tokens */
    uint32_t prompt_bytes;
};

#define NPM(package) "npm install -g " package

static const struct launch_client launch_clients[] = {
    {.name = "claude",
     .program = "claude",
     .get = NPM("@anthropic-ai/claude-code"),
     .env =
         {{"ANTHROPIC_BASE_URL", "{url}"},
          {"ANTHROPIC_AUTH_TOKEN", "{key}"},
          {"ANTHROPIC_API_KEY", NULL},
          {"ANTHROPIC_MODEL", "{model}"},
          {"ANTHROPIC_DEFAULT_OPUS_MODEL", "{model}"},
          {"ANTHROPIC_DEFAULT_SONNET_MODEL", "{model}"},
          {"ANTHROPIC_DEFAULT_HAIKU_MODEL", "{model}"},
          {"ANTHROPIC_DEFAULT_FABLE_MODEL", "{model}"},
          {"CLAUDE_CODE_SUBAGENT_MODEL", "{model}"},
          /* otherwise it assumes a million tokens for an unknown model */
          {"CLAUDE_CODE_MAX_CONTEXT_TOKENS", "{context}"},
          {"CLAUDE_CODE_AUTO_COMPACT_WINDOW", NULL}, /* is never below 100,000 */
          /* changes each turn: nothing after it could be reused */
          {"CLAUDE_CODE_ATTRIBUTION_HEADER", "0"},
          {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"},
          /* a first prefill may take long: without it, Claude Code hangs up after five minutes */
          {"API_TIMEOUT_MS", "3000000"},
          {"CLAUDE_STREAM_IDLE_TIMEOUT_MS", "3000000"}},
     .prompt_bytes = 60000},
    {.name = "codex",
     .program = "codex",
     .get = NPM("@openai/codex"),
     .env = {{"HEARTH_API_KEY", "{key}"}},
     .args = {"-c", "model_provider=\"hearth\"", "-c", "model_providers.hearth.name=\"hearth\"",
              "-c", "model_providers.hearth.base_url=\"{v1}\"", "-c",
              "model_providers.hearth.wire_api=\"responses\"", "-c",
              "model_providers.hearth.env_key=\"HEARTH_API_KEY\"", "-c",
              "model_providers.hearth.stream_idle_timeout_ms=3000000", "-c",
              "model_context_window={context}", "-c", "model=\"{model:json}\""},
     .prompt_bytes = 41000},
    {.name = "opencode",
     .program = "opencode",
     .get = NPM("opencode-ai"),
     .env = {{"OPENCODE_CONFIG_CONTENT",
              "{\"provider\":{\"hearth\":{\"npm\":\"@ai-sdk/"
              "openai-compatible\",\"name\":\"hearth\",\"options\":{\"baseURL\":\"{v1}\","
              "\"apiKey\":\"{key}\"},\"models\":{\"{model:json}\":{\"limit\":{\"context\":{context}"
              ",\"output\":{output}}}}}},"
              "\"model\":\"hearth/{model:json}\",\"small_model\":\"hearth/{model:json}\"}"}},
     .prompt_bytes = 34000},
    {.name = "pi",
     .program = "pi",
     .get = NPM("@earendil-works/pi-coding-agent"),
     .env = {{"HEARTH_API_KEY", "{key}"}},
     .args = {"--extension", "{file}", "--provider", "hearth", "--model", "{model}"},
     .file = "launch-pi.mjs",
     .lines = "export default function (pi) {\n"
              "  pi.registerProvider('hearth', {\n"
              "    baseUrl: '{v1}', api: 'openai-completions', apiKey: 'HEARTH_API_KEY',\n"
              "    models: [{ id: \"{model:json}\", name: \"{model:json}\", reasoning: false,\n"
              "      input: ['text'], cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },\n"
              "      contextWindow: {context}, maxTokens: {output} }],\n"
              "  });\n"
              "}\n",
     .prompt_bytes = 6000},
    {.name = "aider",
     .program = "aider",
     .get = "python -m pip install aider-install && aider-install",
     /* the second takes precedence where it is set */
     .env = {{"OPENAI_API_BASE", "{v1}"}, {"OPENAI_BASE_URL", "{v1}"}, {"OPENAI_API_KEY", "{key}"}},
     .args = {"--model", "openai/{model}", "--model-metadata-file", "{file}"},
     .file = "launch-aider.json",
     .lines = "{\"openai/{model:json}\": {\"litellm_provider\": \"openai\", \"mode\": \"chat\",\n"
              "  \"max_input_tokens\": {context}, \"max_output_tokens\": {output},\n"
              "  \"input_cost_per_token\": 0, \"output_cost_per_token\": 0}}\n"},
    {.name = "qwen",
     .alias = "qwen-code",
     .program = "qwen",
     .get = NPM("@qwen-code/qwen-code"),
     .env = {{"OPENAI_BASE_URL", "{v1}"}, {"OPENAI_API_KEY", "{key}"}, {"OPENAI_MODEL", "{model}"}},
     .prompt_bytes = 72000},
    {.name = "goose",
     .program = "goose",
     .get = "curl -fsSL https://github.com/aaif-goose/goose/releases/download/stable/"
            "download_cli.sh | bash",
     .env = {{"GOOSE_PROVIDER", "openai"},
             {"GOOSE_MODEL", "{model}"},
             {"GOOSE_CONTEXT_LIMIT", "{context}"},
             {"OPENAI_HOST", "{url}"},
             {"OPENAI_BASE_PATH", "v1/chat/completions"},
             {"OPENAI_API_KEY", "{key}"},
             {"OPENAI_TIMEOUT", "3000"}}, /* seconds; a first prefill may take longer than 600 */
     .alone = "session",                  /* without it, a new user is asked for a provider */
     .prompt_bytes = 22000},
    {.name = "open-webui",
     .program = "open-webui",
     .get = "pip install open-webui",
     .env = {{"OPENAI_API_BASE_URL", "{v1}"},
             {"OPENAI_API_KEY", "{key}"},
             {"ENABLE_OLLAMA_API", "false"}},
     .args = {"serve"}},
    {.name = "env",
     .env = {{"OPENAI_BASE_URL", "{v1}"},
             {"OPENAI_API_KEY", "{key}"},
             {"OPENAI_MODEL", "{model}"},
             {"ANTHROPIC_BASE_URL", "{url}"},
             {"ANTHROPIC_AUTH_TOKEN", "{key}"},
             {"ANTHROPIC_MODEL", "{model}"}}},
};

/* ---- the command ---- */

enum {
    TEXT_BYTES_MAX = 1 << 20,
    CONTEXT_UNKNOWN = 32768,
    OUTPUT_MAX = 32768,
    USER_ARGS_MAX = 4096
};

/* Stands for the key in printed text; none of our texts contains it. */
#define KEY_MARK "\1"

struct launch_options {
    struct remote_options remote;
    const char *model;
    bool print, force;
};

#define AT(field) offsetof(struct launch_options, field)

static const struct option_desc options_table[] = {
    {"print", 'p', OPTION_FLAG, AT(print), HERE, .group = "Client",
     .help = "Print the command line and environment without starting the client."},
    {"force", 'f', OPTION_FLAG, AT(force), HERE,
     .help = "Start the client even if its first prompt does not fit into the context."},
    {"served-model", 'm', OPTION_TEXT, AT(model), .value = "NAME",
     .help = "Model to use; default: the server's."},
    REMOTE_OPTIONS(struct launch_options, remote),
};

struct launch {
    struct cli *cli;
    const struct launch_options *options;
    const struct launch_client *client;
    struct remote remote;
    char url[CLIENT_URL_BYTES];
    const char *model; /* in the arena */
    const char *file;  /* of the client's lines, in the arena; NULL: it needs none */
    uint64_t context;
    struct cost cost; /* of a prefill */
    uint32_t chunk;
    bool show; /* for display: the key is not shown */
};

/* ---- the server ---- */

/* What the server has learned; an older server says nothing. */
static void take_cost(struct launch *launch, yyjson_val *row)
{
    static const char *const paths[COST_PARTS] = {
        "meta.prefill_cost.run_ns", "meta.prefill_cost.output_ns", "meta.prefill_cost.token_ns",
        "meta.prefill_cost.depth_ns"};

    launch->chunk = (uint32_t)fields_number(row, "meta.prefill_cost.chunk", 0);
    for (int i = 0; i < COST_PARTS; i++)
        launch->cost.ns[i] = fields_number(row, paths[i], 0);
    launch->cost.samples = launch->cost.ns[COST_TOKEN] > 0;
}

static enum err choose_model(struct launch *launch, yyjson_val *list, struct errinfo *info)
{
    const char *wanted = launch->options->model;
    yyjson_val *model, *chosen = NULL;

    FIELDS_FOREACH (model, list)
        if (chosen == NULL && (wanted == NULL || strcmp(fields_text(model, "id", ""), wanted) == 0))
            chosen = model;
    if (chosen == NULL)
        return err_set(info, ERR_NOT_FOUND, "%s does not serve %s; 'hearth ps' lists its models",
                       launch->url, wanted != NULL ? wanted : "any model");
    launch->model =
        arena_strdup(launch->cli->arena, str_from(fields_text(chosen, "id", "default")));
    launch->context = fields_uint(chosen, "context_length");
    if (launch->context == 0)
        launch->context = fields_uint(chosen, "meta.n_ctx");
    take_cost(launch, chosen);
    return launch->model != NULL ? ERR_OK : err_set(info, ERR_NOMEM, "no memory for a name");
}

static enum err ask_server(struct launch *launch, struct errinfo *info)
{
    yyjson_doc *doc;

    TRY(remote_open(&launch->remote, launch->cli, &launch->options->remote, info));
    client_url_text(&launch->remote.url, launch->url);
    if (launch->remote.url.socket[0] != '\0')
        return err_set(info, ERR_INVALID,
                       "clients cannot use a local socket: the server must listen on a port");
    TRY(remote_ask_json(&launch->remote, "/v1/models", NULL, &doc, info));
    enum err err = choose_model(launch, fields_get(yyjson_doc_get_root(doc), "data"), info);
    yyjson_doc_free(doc);
    return err;
}

/* ---- whether it fits ---- */

/* Text like that of agents' prompts: tokenizers differ by a factor of two and more. */
#define SAMPLE                                                                                    \
    "You are an agent that helps users with software engineering tasks. Use the tools below. "    \
    "IMPORTANT: never guess URLs; read files before you edit them, and run the tests.\n"          \
    "- `file_path`: the absolute path of the file to read, e.g. /home/user/project/src/main.py\n" \
    "{\"type\": \"object\", \"properties\": {\"command\": {\"type\": \"string\", "                \
    "\"description\": \"The command to execute\"}}, \"required\": [\"command\"]}\n"

enum { ANSWER_ROOM = 8192, CONTEXT_STEP = 16384, SAY_S = 10 };

static enum err count_sample(struct launch *launch, uint64_t *count, struct errinfo *info)
{
    yyjson_doc *doc;
    struct buf body;

    buf_init(&body, TEXT_BYTES_MAX);
    buf_append_str(&body, "{\"model\":\"");
    json_scan_escape(&body, str_from(launch->model));
    buf_append_str(&body, "\",\"content\":\"");
    json_scan_escape(&body, STR(SAMPLE));
    buf_append_str(&body, "\"}");
    enum err err = body.err != ERR_OK
                       ? err_set(info, body.err, "no memory for a request")
                       : remote_ask_json(&launch->remote, "/tokenize", buf_str(&body), &doc, info);
    buf_fini(&body);
    if (err != ERR_OK)
        return err;
    *count = yyjson_arr_size(fields_get(yyjson_doc_get_root(doc), "tokens"));
    yyjson_doc_free(doc);
    return ERR_OK;
}

/* Whether a request lately had a first prompt of this client: its state is cached. Only admins see
 * requests; for all others nothing is known. */
static bool is_cached(struct launch *launch, uint64_t need)
{
    yyjson_doc *doc;
    yyjson_val *row;
    bool found = false;

    if (remote_ask_json(&launch->remote, "/admin/requests", NULL, &doc, NULL) != ERR_OK)
        return false;
    FIELDS_FOREACH (row, fields_get(yyjson_doc_get_root(doc), "recent"))
        found |= strcasestr(fields_text(row, "client", ""), launch->client->name) != NULL &&
                 strcmp(fields_text(row, "model", ""), launch->model) == 0 &&
                 fields_number(row, "prompt_tokens", 0) > (double)need / 3;
    yyjson_doc_free(doc);
    return found;
}

/* Says how long the first prompt takes, if that is long. */
static void say_duration(struct launch *launch, uint64_t need)
{
    char count[UNITS_TEXT_BYTES], time[UNITS_TEXT_BYTES];
    double ns = cost_prompt_ns(&launch->cost, (uint32_t)MIN(need, UINT32_MAX), launch->chunk);

    if (ns < SAY_S * (double)NS_PER_S || is_cached(launch, need))
        return;
    fprintf(launch->cli->err,
            "hearth launch: the first prompt of %s has about %s tokens (about %s if nothing is "
            "cached)\n",
            launch->client->name, units_format_count(need / 1000 * 1000, count),
            units_format_duration((uint64_t)ns, time));
}

/* ERR_LIMIT: the client's first request would be refused. */
static enum err check_context(struct launch *launch, struct errinfo *info)
{
    char need_text[UNITS_TEXT_BYTES], context_text[UNITS_TEXT_BYTES];
    uint64_t sample;

    if (launch->client->prompt_bytes == 0 || launch->context == 0 || launch->options->force)
        return ERR_OK;
    TRY(count_sample(launch, &sample, info));
    uint64_t need = launch->client->prompt_bytes * sample / (sizeof(SAMPLE) - 1);
    if (need <= launch->context) {
        say_duration(launch, need);
        return ERR_OK;
    }
    return err_set(
        info, ERR_LIMIT,
        "the first prompt of %s has about %s tokens with this model, and the context has "
        "%s: start the server with '-c %llu', or use --force",
        launch->client->name, units_format_count(need / 1000 * 1000, need_text),
        units_format_count(launch->context, context_text),
        (unsigned long long)((need + ANSWER_ROOM) / CONTEXT_STEP + 1) * CONTEXT_STEP);
}

/* ---- texts of a row ---- */

/* A client gets the admin key only if there is no other. */
static const char *key_of(const struct launch *launch)
{
    return launch->remote.api_key != NULL ? launch->remote.api_key : launch->remote.key;
}

/* A placeholder is {name}; any other bracket, as in JSON, is literal. Returns its length, 0: it is
 * none. */
static size_t append_place(const struct launch *launch, const char *text, struct buf *out)
{
    uint64_t context = launch->context > 0 ? launch->context : CONTEXT_UNKNOWN;
    const char *key = key_of(launch);
    char v1[CLIENT_URL_BYTES + 4], tokens[24], output[24];
    const struct {
        const char *name, *value;
    } places[] = {
        {"{url}", launch->url},     {"{v1}", v1},
        {"{context}", tokens},      {"{output}", output},
        {"{model}", launch->model}, {"{key}", key == NULL ? "none" : launch->show ? KEY_MARK : key},
        {"{file}", launch->file},   {"{model:json}", NULL},
    };

    snprintf(v1, sizeof(v1), "%s/v1", launch->url);
    snprintf(tokens, sizeof(tokens), "%llu", (unsigned long long)context);
    snprintf(output, sizeof(output), "%llu",
             (unsigned long long)MIN(context / 2, (uint64_t)OUTPUT_MAX));
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        size_t len = strlen(places[i].name);
        if (strncmp(text, places[i].name, len) != 0)
            continue;
        if (i + 1 < COUNT_OF(places))
            buf_append_str(out, places[i].value != NULL ? places[i].value : "");
        else
            json_scan_escape(out, str_from(launch->model));
        return len;
    }
    return 0;
}

/* In the arena; NULL without memory. */
static const char *filled(const struct launch *launch, const char *text)
{
    struct str result;
    struct buf out;

    buf_init(&out, TEXT_BYTES_MAX);
    while (*text != '\0') {
        size_t len = *text == '{' ? append_place(launch, text, &out) : 0;
        if (len == 0)
            buf_append_char(&out, *text);
        text += MAX(len, 1);
    }
    return buf_move(&out, launch->cli->arena, &result) == ERR_OK ? result.ptr : NULL;
}

/* ---- for people ---- */

/* In shell syntax: quoted where needed, the key as its variable. */
static void append_quoted(struct buf *out, const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@,+";

    if (text[0] != '\0' && text[strspn(text, plain)] == '\0') {
        buf_append_str(out, text);
        return;
    }
    if (strcmp(text, KEY_MARK) == 0) {
        buf_append_str(out, "\"$HEARTH_API_KEY\"");
        return;
    }
    buf_append_char(out, '\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            buf_append_str(out, "'\\''");
        else if (*text == KEY_MARK[0])
            buf_append_str(out, "'\"$HEARTH_API_KEY\"'");
        else
            buf_append_char(out, *text);
    }
    buf_append_char(out, '\'');
}

static void print_env(const struct launch *launch, struct buf *out)
{
    for (const struct launch_env *env = launch->client->env; env->name != NULL; env++) {
        if (env->value == NULL) {
            buf_appendf(out, "unset %s\n", env->name);
            continue;
        }
        const char *value = filled(launch, env->value);
        /* The variable that already holds the key needs no line. */
        if (value == NULL ||
            (strcmp(value, KEY_MARK) == 0 && strcmp(env->name, "HEARTH_API_KEY") == 0))
            continue;
        buf_appendf(out, "export %s=", env->name);
        append_quoted(out, value);
        buf_append_char(out, '\n');
    }
}

/* NULL: none, or the user gives arguments. */
static const char *alone_of(const struct launch *launch)
{
    return launch->cli->args_count == 1 ? launch->client->alone : NULL;
}

static void print_command(const struct launch *launch, struct buf *out)
{
    if (launch->client->program == NULL)
        return;
    buf_append_str(out, launch->client->program);
    for (const char *const *arg = launch->client->args; *arg != NULL; arg++) {
        const char *text = filled(launch, *arg);
        buf_append_char(out, ' ');
        append_quoted(out, text != NULL ? text : "");
    }
    if (alone_of(launch) != NULL)
        buf_appendf(out, " %s", alone_of(launch));
    for (size_t i = 1; i < launch->cli->args_count; i++) {
        buf_append_char(out, ' ');
        append_quoted(out, launch->cli->args[i]);
    }
    buf_append_char(out, '\n');
}

static enum cli_exit print(struct launch *launch)
{
    struct buf out;

    launch->show = true;
    buf_init(&out, TEXT_BYTES_MAX);
    if (launch->file != NULL) {
        const char *lines = filled(launch, launch->client->lines);
        buf_append_str(&out, "cat >");
        append_quoted(&out, launch->file);
        buf_appendf(&out, " <<'END'\n%sEND\n", lines != NULL ? lines : "");
    }
    print_env(launch, &out);
    print_command(launch, &out);
    cli_put_text(launch->cli, &out);
    enum err err = out.err;
    buf_fini(&out);
    return err == ERR_OK ? CLI_EXIT_OK : cli_error(launch->cli, "%s", err_sentence(err));
}

/* ---- starting ---- */

/* The place of the client's lines, if it needs some. */
static enum err choose_file(struct launch *launch, struct errinfo *info)
{
    const char *dir = folders_state(launch->cli, NULL);

    if (launch->client->file == NULL)
        return ERR_OK;
    if (dir == NULL)
        return err_set(info, ERR_NOT_FOUND, "%s needs a file, and there is no home folder for it",
                       launch->client->name);
    launch->file = arena_printf(launch->cli->arena, "%s/%s", dir, launch->client->file);
    return launch->file != NULL ? ERR_OK : err_set(info, ERR_NOMEM, "no memory for a path");
}

static enum err write_file(const struct launch *launch, struct errinfo *info)
{
    const struct file_sys *fs = launch->cli->setup->fs;
    int dir = FILE_NO;

    if (launch->file == NULL)
        return ERR_OK;
    const char *lines = filled(launch, launch->client->lines);
    if (lines == NULL)
        return err_set(info, ERR_NOMEM, "no memory for a file");
    TRY(file_open_dir(fs, folders_state(launch->cli, NULL), true, &dir, info));
    enum err err = file_replace(fs, dir, launch->client->file, lines, strlen(lines), 0600, info);
    file_close(fs, &dir);
    return err;
}

/* The program's path, in the arena; NULL: not in PATH. */
static const char *find_program(const struct launch *launch)
{
    struct str rest = str_from(cli_env(launch->cli->setup, "PATH")), folder;

    while (str_next(&rest, ':', &folder)) {
        const char *path = arena_printf(launch->cli->arena, STR_FMT "/%s", STR_ARG(folder),
                                        launch->client->program);
        struct stat st;
        if (folder.len > 0 && path != NULL && stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
            access(path, X_OK) == 0)
            return path;
    }
    return NULL;
}

static const char **make_args(const struct launch *launch)
{
    size_t count = 0, users = launch->cli->args_count - 1;
    const char **argv =
        arena_alloc_array(launch->cli->arena, LAUNCH_ARGS_MAX + users + 3, sizeof(*argv));

    if (argv == NULL)
        return NULL;
    argv[count++] = launch->client->program;
    for (const char *const *arg = launch->client->args; *arg != NULL; arg++)
        if ((argv[count++] = filled(launch, *arg)) == NULL)
            return NULL;
    if (alone_of(launch) != NULL)
        argv[count++] = alone_of(launch);
    for (size_t i = 0; i < users; i++)
        argv[count++] = launch->cli->args[1 + i];
    return argv;
}

/* The current environment with the variables of the row; NULL without memory. */
static const char **make_env(const struct launch *launch)
{
    const char *changes[LAUNCH_ENV_MAX + 1] = {NULL};
    size_t count = 0;

    for (const struct launch_env *row = launch->client->env; row->name != NULL; row++, count++) {
        const char *value = row->value != NULL ? filled(launch, row->value) : NULL;
        changes[count] =
            value != NULL ? arena_printf(launch->cli->arena, "%s=%s", row->name, value) : row->name;
        if (changes[count] == NULL || (row->value != NULL && value == NULL))
            return NULL;
    }
    return process_make_env(launch->cli->setup->env, changes);
}

/* Does not return on success. */
static enum cli_exit start(struct launch *launch)
{
    const struct launch_client *client = launch->client;
    const char *path = find_program(launch);
    struct errinfo info = {0};

    if (path == NULL)
        return cli_error(
            launch->cli,
            "%s is not in PATH: install it with '%s', or use --print to see its settings",
            client->program, client->get);
    if (check_context(launch, &info) != ERR_OK || write_file(launch, &info) != ERR_OK)
        return cli_error(launch->cli, "%s", info.text);
    const char **argv = make_args(launch), **env = make_env(launch);
    if (argv == NULL || env == NULL)
        return cli_error(launch->cli, "no memory for its arguments");
    fflush(launch->cli->out);
    fflush(launch->cli->err);
    execve(path, (char *const *)argv, (char *const *)env);
    mem_free(env);
    return cli_error(launch->cli, "%s cannot be started: %s", path, strerror(errno));
}

/* ---- the command ---- */

static const char *client_name(size_t number)
{
    return number < COUNT_OF(launch_clients) ? launch_clients[number].name : NULL;
}

static const struct launch_client *find_client(const struct cli *cli)
{
    for (size_t i = 0; i < COUNT_OF(launch_clients); i++)
        if (strcmp(launch_clients[i].name, cli->args[0]) == 0 ||
            (launch_clients[i].alias != NULL && strcmp(launch_clients[i].alias, cli->args[0]) == 0))
            return &launch_clients[i];
    cli_usage_error(cli, "unknown client \"%s\"; known clients: %s", cli->args[0],
                    cli_list_words(cli));
    return NULL;
}

static enum cli_exit run(struct cli *cli, const void *options)
{
    struct launch launch = {.cli = cli, .options = options, .client = find_client(cli)};
    struct errinfo info = {0};

    if (launch.client == NULL)
        return CLI_EXIT_USAGE;
    enum err err = ask_server(&launch, &info);
    if (err == ERR_OK)
        err = choose_file(&launch, &info);
    if (err != ERR_OK)
        return cli_fail(cli, err, &info);
    return launch.options->print || launch.client->program == NULL ? print(&launch)
                                                                   : start(&launch);
}

const struct command command_launch = {
    .name = "launch",
    .summary = "Start a client (claude, codex, ...) against a running server.",
    .usage = "[options] CLIENT [-- ARGUMENTS]",
    .table = {.command = "launch", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct launch_options),
    .args_min = 1,
    .args_max = USER_ARGS_MAX,
    .word = client_name,
    .run = run,
};

/*
 * launch.c: `hearth launch CLIENT [-- ARGS]`: starts a client that uses this server, or prints the
 * settings it needs.
 *
 * First asks the server whether it is up, which model it serves, and how long its context is. Then
 * execs the client with a few more variables and arguments (the table of clients). With --print
 * nothing is started, and keys are not shown: the lines name the variable that holds the key.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json_scan.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/remote.h"

/* ---- clients: a new one is a row here and a line in docs/cli.md ----
 *
 * The texts of a row contain {url} (the server), {v1} (the same with /v1), {key}, {model},
 * {context} (tokens), {output} (maximum tokens of an answer), and {model:json}: the name inside a
 * quoted JSON or TOML text. A row sets environment variables and arguments for the client only. No
 * user file is ever written: if a client reads providers only from a file, the row has the lines
 * for it, and they are printed. */

enum { LAUNCH_ENV_MAX = 16, LAUNCH_ARGS_MAX = 24 };

struct launch_client {
    const char *name;    /* as it is typed */
    const char *program; /* in PATH; NULL: nothing is started, lines are printed */
    const char *get;     /* how to install it */
    struct launch_env {
        /* value NULL: removed from the environment, because it would take precedence */
        const char *name, *value;
    } env[LAUNCH_ENV_MAX];             /* ended by a name that is NULL, as are the arguments */
    const char *args[LAUNCH_ARGS_MAX]; /* before those of the user */
    /* below the home folder, where the client looks for `lines`; NULL: it needs none */
    const char *file;
    const char *lines; /* must be there */
    const char *mark;  /* text that shows that they are there */
};

#define NPM(package) "npm install -g " package

static const struct launch_client launch_clients[] = {
    {.name = "claude",
     .program = "claude",
     .get = NPM("@anthropic-ai/claude-code"),
     .env = {{"ANTHROPIC_BASE_URL", "{url}"},
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
             {"API_TIMEOUT_MS", "3000000"}}}, /* a first prefill may take long */
    {.name = "codex",
     .program = "codex",
     .get = NPM("@openai/codex"),
     .env = {{"HEARTH_API_KEY", "{key}"}},
     .args = {"-c", "model_provider=\"hearth\"", "-c", "model_providers.hearth.name=\"hearth\"",
              "-c", "model_providers.hearth.base_url=\"{v1}\"", "-c",
              "model_providers.hearth.wire_api=\"responses\"", "-c",
              "model_providers.hearth.env_key=\"HEARTH_API_KEY\"", "-c",
              "model_providers.hearth.stream_idle_timeout_ms=3000000", "-c",
              "model_context_window={context}", "-c", "model=\"{model:json}\""}},
    {.name = "opencode",
     .program = "opencode",
     .get = NPM("opencode-ai"),
     .env = {{"OPENCODE_CONFIG_CONTENT",
              "{\"provider\":{\"hearth\":{\"npm\":\"@ai-sdk/"
              "openai-compatible\",\"name\":\"hearth\",\"options\":{\"baseURL\":\"{v1}\","
              "\"apiKey\":\"{key}\"},\"models\":{\"{model:json}\":{\"limit\":{\"context\":{context}"
              ",\"output\":{output}}}}}},"
              "\"model\":\"hearth/{model:json}\",\"small_model\":\"hearth/{model:json}\"}"}}},
    {.name = "pi",
     .program = "pi",
     .get = NPM("@mariozechner/pi-coding-agent"),
     .env = {{"HEARTH_API_KEY", "{key}"}},
     .args = {"--provider", "hearth", "--model", "{model}"},
     .file = ".pi/agent/models.json",
     .mark = "\"hearth\"",
     .lines = "{\"providers\":{\"hearth\":{\"baseUrl\":\"{v1}\",\"api\":\"openai-completions\","
              "\"apiKey\":\"HEARTH_API_KEY\","
              "\"models\":[{\"id\":\"{model:json}\",\"contextWindow\":{context},\"maxTokens\":{"
              "output}}]}}}"},
    {.name = "aider",
     .program = "aider",
     .get = "python -m pip install aider-install && aider-install",
     .env = {{"OPENAI_API_BASE", "{v1}"}, {"OPENAI_API_KEY", "{key}"}},
     .args = {"--model", "openai/{model}"}},
    {.name = "qwen",
     .program = "qwen",
     .get = NPM("@qwen-code/qwen-code"),
     .env = {{"OPENAI_BASE_URL", "{v1}"},
             {"OPENAI_API_KEY", "{key}"},
             {"OPENAI_MODEL", "{model}"}}},
    {.name = "goose",
     .program = "goose",
     .get = "see goose-docs.ai",
     .env = {{"GOOSE_PROVIDER", "openai"},
             {"GOOSE_MODEL", "{model}"},
             {"OPENAI_HOST", "{url}"},
             {"OPENAI_BASE_PATH", "v1/chat/completions"},
             {"OPENAI_API_KEY", "{key}"}}},
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
    bool print;
};

#define AT(field) offsetof(struct launch_options, field)

static const struct option_desc options_table[] = {
    {"print", 'p', OPTION_FLAG, AT(print), HERE, .group = "Client",
     .help = "Print the command line and environment without starting the client."},
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
    uint64_t context;
    bool show; /* for display: the key is not shown */
};

/* ---- the server ---- */

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
        {"{model:json}", NULL},
    };

    snprintf(v1, sizeof(v1), "%s/v1", launch->url);
    snprintf(tokens, sizeof(tokens), "%llu", (unsigned long long)context);
    snprintf(output, sizeof(output), "%llu",
             (unsigned long long)MIN(context / 2, (uint64_t)OUTPUT_MAX));
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        size_t len = strlen(places[i].name);
        if (strncmp(text, places[i].name, len) != 0)
            continue;
        if (places[i].value != NULL)
            buf_append_str(out, places[i].value);
        else
            json_scan_escape(out, str_from(launch->model));
        return len;
    }
    return 0;
}

/* In the arena; NULL without memory. */
static const char *filled(const struct launch *launch, const char *text)
{
    struct buf out;

    buf_init(&out, TEXT_BYTES_MAX);
    while (*text != '\0') {
        size_t len = *text == '{' ? append_place(launch, text, &out) : 0;
        if (len == 0)
            buf_append_char(&out, *text);
        text += MAX(len, 1);
    }
    const char *result =
        out.err == ERR_OK ? arena_strdup(launch->cli->arena, (struct str){buf_str(&out), out.len})
                          : NULL;
    buf_fini(&out);
    return result;
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
    if (launch->client->lines != NULL) {
        const char *lines = filled(launch, launch->client->lines);
        buf_appendf(&out, "# once, into ~/%s: %s\n", launch->client->file,
                    lines != NULL ? lines : "");
    }
    print_env(launch, &out);
    print_command(launch, &out);
    cli_put_text(launch->cli, &out);
    enum err err = out.err;
    buf_fini(&out);
    if (err != ERR_OK)
        cli_error(launch->cli, "%s", err_sentence(err));
    return err == ERR_OK ? CLI_EXIT_OK : CLI_EXIT_FAILURE;
}

/* ---- starting ---- */

/* Whether the client's own file has our lines; false if it cannot be read. */
static bool file_is_ready(const struct launch *launch)
{
    const struct launch_client *client = launch->client;
    const char *home = cli_env(launch->cli->setup, "HOME");
    char *data;
    size_t len;

    if (client->file == NULL)
        return true;
    const char *path =
        home != NULL ? arena_printf(launch->cli->arena, "%s/%s", home, client->file) : NULL;
    if (path == NULL || file_read_all(launch->cli->setup->fs, AT_FDCWD, path, TEXT_BYTES_MAX, &data,
                                      &len, NULL) != ERR_OK)
        return false;
    bool ready = str_find((struct str){data, len}, str_from(client->mark)) != SIZE_MAX;
    mem_free(data);
    return ready;
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
        arena_alloc_array(launch->cli->arena, LAUNCH_ARGS_MAX + users + 2, sizeof(*argv));

    if (argv == NULL)
        return NULL;
    argv[count++] = launch->client->program;
    for (const char *const *arg = launch->client->args; *arg != NULL; arg++)
        if ((argv[count++] = filled(launch, *arg)) == NULL)
            return NULL;
    for (size_t i = 0; i < users; i++)
        argv[count++] = launch->cli->args[1 + i];
    return argv;
}

static const struct launch_env *find_env(const struct launch_client *client, const char *entry)
{
    for (const struct launch_env *env = client->env; env->name != NULL; env++) {
        size_t len = strlen(env->name);
        if (strncmp(entry, env->name, len) == 0 && entry[len] == '=')
            return env;
    }
    return NULL;
}

/* The current environment without the variables that the row names; then the row's. */
static const char **make_env(const struct launch *launch)
{
    const char *const *old = launch->cli->setup->env;
    size_t count = 0, kept = 0;

    while (old != NULL && old[count] != NULL)
        count++;
    const char **env =
        arena_alloc_array(launch->cli->arena, count + LAUNCH_ENV_MAX + 1, sizeof(*env));
    if (env == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (find_env(launch->client, old[i]) == NULL)
            env[kept++] = old[i];
    for (const struct launch_env *row = launch->client->env; row->name != NULL; row++) {
        const char *value = row->value != NULL ? filled(launch, row->value) : NULL;
        if (value != NULL &&
            (env[kept++] = arena_printf(launch->cli->arena, "%s=%s", row->name, value)) == NULL)
            return NULL;
    }
    return env;
}

/* Does not return on success. */
static enum cli_exit start(struct launch *launch)
{
    const struct launch_client *client = launch->client;
    const char *path = find_program(launch);

    if (path == NULL)
        return cli_error(
            launch->cli,
            "%s is not in PATH: install it with '%s', or use --print to see its settings",
            client->program, client->get);
    if (!file_is_ready(launch)) {
        return cli_error(
            launch->cli,
            "%s reads providers from ~/%s only, and hearth is not there: 'hearth launch %s "
            "--print' shows the lines",
            client->name, client->file, client->name);
    }
    const char **argv = make_args(launch), **env = make_env(launch);
    if (argv == NULL || env == NULL)
        return cli_error(launch->cli, "no memory for its arguments");
    fflush(launch->cli->out);
    fflush(launch->cli->err);
    execve(path, (char *const *)argv, (char *const *)env);
    return cli_error(launch->cli, "%s cannot be started: %s", path, strerror(errno));
}

/* ---- the command ---- */

static const struct launch_client *find_client(const struct cli *cli)
{
    struct buf all;

    for (size_t i = 0; i < COUNT_OF(launch_clients); i++)
        if (strcmp(launch_clients[i].name, cli->args[0]) == 0)
            return &launch_clients[i];
    buf_init(&all, TEXT_BYTES_MAX);
    for (size_t i = 0; i < COUNT_OF(launch_clients); i++)
        buf_appendf(&all, "%s%s", i > 0 ? ", " : "", launch_clients[i].name);
    cli_usage_error(cli, "unknown client \"%s\"; known clients: %s", cli->args[0], buf_str(&all));
    buf_fini(&all);
    return NULL;
}

static enum cli_exit run(struct cli *cli, const void *options)
{
    struct launch launch = {.cli = cli, .options = options, .client = find_client(cli)};
    struct errinfo info = {0};

    if (launch.client == NULL)
        return CLI_EXIT_USAGE;
    enum err err = ask_server(&launch, &info);
    if (err == ERR_INVALID)
        return cli_usage_error(cli, "%s", info.text);
    if (err != ERR_OK)
        return cli_error(cli, "%s", info.text);
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
    .run = run,
};

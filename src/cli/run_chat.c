/*
 * run_chat.c: `hearth run [MODEL [PROMPT]]`: a conversation in the terminal.
 *
 *      MODEL is a file, or no running server has it  -->  a server of our own, for this conversation
 *      MODEL is a model of the running server, or absent  -->  that server
 *
 * In both cases the chat is a client of the HTTP interface: template, history and cache are the
 * server's. The answer goes to standard output, the line of figures after it to standard error.
 * With a PROMPT, or with a prompt on standard input, there is one answer.
 *
 * Ctrl-C stops an answer, and Ctrl-D ends the conversation. A second Ctrl-C during an answer kills.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json_write.h"
#include "base/units.h"
#include "cli/run.h"
#include "cli/process.h"
#include "cli/child_server.h"

enum {
    HISTORY_BYTES_MAX = 64 << 20,
    PROMPT_BYTES_MAX = 16 << 20,
    CHAT_TOKENS = 2048,
};

struct chat {
    struct cli *cli;
    const struct run_options *options;
    struct remote remote;
    struct server server; /* our own; its process is NULL if there is none */
    char scratch[SERVER_PATH_BYTES];
    const char *model;   /* NULL: the server's default */
    struct buf messages; /* JSON objects with commas between them */
    bool shows;          /* a person looks at standard output */
};

/* One answer, as it comes. */
struct reply {
    struct chat *chat;
    struct buf text;
    bool thinks; /* the last piece was reasoning */
    bool stopped;
    bool cut; /* it has as many tokens as allowed */
    uint64_t prompt, computed, generated;
    double ttft_ms, speed;
};

/* ---- the server ---- */

static bool is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

/* ERR_NOT_FOUND: the running server does not have this model. */
static enum err ask_running(struct chat *chat, const char *name, struct errinfo *info)
{
    yyjson_doc *doc;
    yyjson_val *model;
    bool found = false;

    TRY(remote_ask_json(&chat->remote, "/v1/models", NULL, &doc, info));
    FIELDS_FOREACH (model, fields_get(yyjson_doc_get_root(doc), "data"))
        found = found || name == NULL || strcmp(fields_text(model, "id", ""), name) == 0;
    yyjson_doc_free(doc);
    return found ? ERR_OK
                 : err_set(info, ERR_NOT_FOUND,
                           "the server has no model '%s': 'hearth ps' lists its models", name);
}

/* Appends "--NAME=TEXT" to the arguments; without a name, their end. */
static enum err push(const struct cli *cli, const char *name, const char *text,
                     struct option_list *args, struct errinfo *info)
{
    const char **items = arena_push(cli->arena, args->items, args->count, sizeof(*items));
    const char *item = text != NULL ? arena_printf(cli->arena, "--%s=%s", name, text) : NULL;

    if (items == NULL || (name != NULL && item == NULL))
        return err_set(info, ERR_NOMEM, "no memory for the options of the server");
    items[args->count++] = item;
    args->items = items;
    return ERR_OK;
}

static enum err forward(const struct cli *cli, const struct option_desc *desc,
                        struct option_list *args, struct errinfo *info)
{
    const void *at = (const char *)cli->values + desc->offset;
    const struct option_list *list = at;

    if (desc->type == OPTION_SIZE) /* shown, it would be rounded */
        return push(cli, desc->name,
                    arena_printf(cli->arena, "%llu", (unsigned long long)*(const uint64_t *)at),
                    args, info);
    if (desc->type != OPTION_LIST)
        return push(cli, desc->name, cli_show_value(cli->arena, desc, cli->values), args, info);
    for (size_t i = 0; i < list->count; i++)
        TRY(push(cli, desc->name, list->items[i], args, info));
    return ERR_OK;
}

/* The settings of the model that were given here, for our own server; ended by NULL. */
static enum err forward_all(const struct cli *cli, struct option_list *args, struct errinfo *info)
{
    static const struct run_options layout;
    size_t begin = offsetof(struct run_options, model), end = begin + sizeof(layout.model);

    TRY(push(cli, "ssd-dir", "none", args, info));
    for (size_t i = 0; i < cli->table->count; i++) {
        const struct option_desc *desc = &cli->table->options[i];
        if (desc->offset >= begin && desc->offset < end && cli->sources[i] >= OPTION_FROM_FILE &&
            cli->sources[i] != OPTION_FROM_ENV) /* which the child has as well */
            TRY(forward(cli, desc, args, info));
    }
    return push(cli, NULL, NULL, args, info);
}

/* What our own server said last. */
static enum err explain(const struct chat *chat, struct errinfo *info)
{
    static const struct str begin = STR("hearth serve: ");
    struct str rest, line, last = STR_NONE;
    struct buf log;

    buf_init(&log, PROMPT_BYTES_MAX);
    (void)!server_read_log(&chat->server, &log, info); /* then there are no lines */
    rest = buf_text(&log);
    while (str_next(&rest, '\n', &line))
        if (str_starts(line, begin))
            last = str_skip(line, begin.len);
    enum err err = last.len > 0 ? err_set(info, ERR_NOT_FOUND, STR_FMT, STR_ARG(last))
                                : err_set(info, ERR_ENGINE, "the server did not start");
    buf_fini(&log);
    return err;
}

static enum err start_own(struct chat *chat, const char *model, struct errinfo *info)
{
    struct option_list more = {0};
    struct server_setup setup = {
        .scratch = chat->scratch,
        .name = "run",
        .model = model,
        .context = (uint32_t)chat->options->model.context,
        .parallel = (uint32_t)chat->options->model.sequences,
        .threads = (uint32_t)chat->options->model.threads,
    };

    TRY(forward_all(chat->cli, &more, info));
    if (!process_make_scratch(chat->scratch, sizeof(chat->scratch), false))
        return err_set_errno(info, errno, "no place for temporary files");
    setup.more = more.items;
    if (chat->shows)
        fprintf(chat->cli->err, "loading %s ...\n", model);
    enum err err = server_start_hearth(&chat->server, &setup, info);
    if (err == ERR_ENGINE)
        return explain(chat, info);
    if (err == ERR_OK)
        chat->remote.url = chat->server.url;
    chat->model = NULL; /* it has only this one, by another name */
    return err;
}

static enum err find_server(struct chat *chat, struct errinfo *info)
{
    const char *name = chat->cli->args_count > 0 ? chat->cli->args[0] : NULL;
    bool only = cli_source(chat->cli, "url") == OPTION_FROM_COMMAND; /* this one or none */

    TRY(remote_open(&chat->remote, chat->cli, &chat->options->remote, info));
    chat->model = name;
    if (name != NULL && is_file(name) && !only)
        return start_own(chat, name, info);
    enum err err = ask_running(chat, name, info);
    return err == ERR_OK || name == NULL || only || err == ERR_DENIED ? err
                                                                      : start_own(chat, name, info);
}

/* ---- one answer ---- */

static void write_sampling(struct json *json, const struct chat *chat)
{
    const struct run_options *options = chat->options;

    json_key_uint(json, "max_tokens",
                  cli_is_set(chat->cli, "predict") ? options->tokens : CHAT_TOKENS);
    if (cli_is_set(chat->cli, "temp"))
        json_key_float(json, "temperature", options->temperature);
    if (cli_is_set(chat->cli, "top-p"))
        json_key_float(json, "top_p", options->top_p);
    if (cli_is_set(chat->cli, "min-p"))
        json_key_float(json, "min_p", options->min_p);
    if (cli_is_set(chat->cli, "top-k"))
        json_key_int(json, "top_k", options->top_k);
    if (options->seed >= 0)
        json_key_int(json, "seed", options->seed);
    if (options->ignore_end)
        json_key_bool(json, "ignore_eos", true);
}

static void write_request(const struct chat *chat, struct buf *out)
{
    struct json json = json_begin(out, HISTORY_BYTES_MAX + PROMPT_BYTES_MAX, '{');

    if (chat->model != NULL)
        json_key_text(&json, "model", chat->model);
    json_key_open(&json, "messages", '[');
    json_raw(&json, buf_text(&chat->messages));
    json_close(&json, ']');
    json_key_bool(&json, "stream", true);
    json_key_open(&json, "stream_options", '{');
    json_key_bool(&json, "include_usage", true);
    json_close(&json, '}');
    json_key_bool(&json, "return_progress", true); /* Ctrl-C is noticed between two events */
    write_sampling(&json, chat);
    json_close(&json, '}');
}

static void add_message(struct chat *chat, const char *role, struct str content)
{
    struct json json = json_to(&chat->messages);

    json.comma = chat->messages.len > 0;
    json_open(&json, '{');
    json_key_text(&json, "role", role);
    json_key_str(&json, "content", content);
    json_close(&json, '}');
}

/* Reasoning is shown dimmed to people, and not at all to programs. */
static void show_piece(struct reply *reply, const char *text, bool thinks)
{
    const struct cli *cli = reply->chat->cli;
    struct buf piece;

    if (thinks && !reply->chat->shows)
        return;
    if (reply->chat->shows && thinks != reply->thinks)
        fputs(thinks ? "\033[2m" : "\033[0m\n\n", cli->out);
    reply->thinks = thinks;
    buf_init(&piece, PROMPT_BYTES_MAX);
    buf_append_str(&piece, text);
    cli_put_text(cli, &piece);
    buf_fini(&piece);
    fflush(cli->out);
}

static enum err take_event(struct reply *reply, struct str data, struct errinfo *info)
{
    yyjson_doc *doc = yyjson_read(data.ptr, data.len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    yyjson_val *choice = yyjson_arr_get_first(fields_get(root, "choices")),
               *delta = fields_get(choice, "delta");
    const char *text = fields_text(delta, "content", ""),
               *thought = fields_text(delta, "reasoning_content", ""),
               *problem = fields_text(root, "error.message", NULL);
    enum err err = problem != NULL ? err_set(info, ERR_ENGINE, "%s", problem) : ERR_OK;

    reply->cut |= strcmp(fields_text(choice, "finish_reason", ""), "length") == 0;
    if (thought[0] != '\0')
        show_piece(reply, thought, true);
    if (text[0] != '\0') {
        show_piece(reply, text, false);
        buf_append_str(&reply->text, text);
    }
    if (fields_get(root, "x_cache") != NULL) {
        reply->computed = fields_uint(root, "x_cache.computed");
        reply->prompt = fields_uint(root, "usage.prompt_tokens");
        reply->generated = fields_uint(root, "timings.predicted_n");
        reply->ttft_ms = fields_number(root, "timings.ttft_ms", 0);
        reply->speed = fields_number(root, "timings.predicted_per_second", 0);
    }
    yyjson_doc_free(doc);
    return err;
}

/* An answer that is not a stream is an error message. */
static enum err read_refusal(struct client *client, struct errinfo *info)
{
    struct buf body;

    buf_init(&body, PROMPT_BYTES_MAX);
    enum err err = client_read_all(client, &body, info);
    yyjson_doc *doc = err == ERR_OK ? yyjson_read(buf_str(&body), body.len, 0) : NULL;
    if (err == ERR_OK)
        err = err_set(info, ERR_INVALID, "%s",
                      fields_text(yyjson_doc_get_root(doc), "error.message", "the server refused"));
    yyjson_doc_free(doc);
    buf_fini(&body);
    return err;
}

static enum err read_reply(struct reply *reply, struct client *client, struct errinfo *info)
{
    struct client_head head;
    struct str data;
    bool end = false;

    TRY(client_read_head(client, &head, info));
    if (head.status != 200)
        return read_refusal(client, info);
    while (!cli_interrupted && !ferror(reply->chat->cli->out)) {
        TRY(client_read_event(client, &data, &end, info));
        if (end || str_eq(data, STR("[DONE]")))
            return ERR_OK;
        TRY(take_event(reply, data, info));
    }
    reply->stopped = true;
    return ERR_OK;
}

static void show_figures(const struct reply *reply)
{
    FILE *err = reply->chat->cli->err;
    char reused[UNITS_TEXT_BYTES], prompt[UNITS_TEXT_BYTES];

    if (reply->thinks)
        fputs("\033[0m", reply->chat->cli->out);
    fputc('\n', reply->chat->cli->out);
    fflush(reply->chat->cli->out);
    if (reply->stopped) {
        fprintf(err, "stopped\n");
        return;
    }
    fprintf(err, "%s of %s prompt tokens reused | ttft %.2f s | %llu tokens, %.1f tok/s%s\n",
            units_format_count(reply->prompt - MIN(reply->computed, reply->prompt), reused),
            units_format_count(reply->prompt, prompt), reply->ttft_ms / 1000.0,
            (unsigned long long)reply->generated, reply->speed,
            reply->cut ? " | cut: -n N allows more tokens" : "");
}

static enum err exchange(struct reply *reply, struct errinfo *info)
{
    struct remote *remote = &reply->chat->remote;
    struct client *client = NULL;
    struct buf body;

    write_request(reply->chat, &body);
    enum err err = body.err != ERR_OK
                       ? err_set(info, body.err, "the conversation is too long")
                       : client_open(&client, &remote->url, remote->timeout_ms, info);
    if (err == ERR_OK)
        err =
            client_send(client, "POST", "/v1/chat/completions", remote->key, buf_str(&body), info);
    if (err == ERR_OK)
        err = read_reply(reply, client, info);
    client_close(&client); /* which cancels an answer that was stopped */
    buf_fini(&body);
    return err;
}

/* Adds the message and its answer to the conversation. After a failure it is as before. */
static enum err say(struct chat *chat, struct str text, struct errinfo *info)
{
    struct reply reply = {.chat = chat};
    size_t before = chat->messages.len;

    cli_interrupted = 0;
    buf_init(&reply.text, PROMPT_BYTES_MAX);
    add_message(chat, "user", text);
    struct sigaction old = cli_catch(SIGINT, SA_RESETHAND);
    enum err err = exchange(&reply, info);
    sigaction(SIGINT, &old, NULL);
    if (err == ERR_OK) {
        add_message(chat, "assistant", buf_text(&reply.text));
        show_figures(&reply);
    } else {
        buf_truncate(&chat->messages, before);
    }
    buf_fini(&reply.text);
    return err;
}

/* ---- the conversation ---- */

static void begin(struct chat *chat, struct str system)
{
    buf_clear(&chat->messages);
    if (system.len > 0)
        add_message(chat, "system", system);
}

/* True: the line was a command. `end`: of the conversation. */
static bool take_command(struct chat *chat, struct str line, bool *end)
{
    struct str rest = line, word;

    if (line.ptr[0] != '/' || !str_next(&rest, ' ', &word))
        return false;
    if (str_eq(word, STR("/bye")) || str_eq(word, STR("/exit")) || str_eq(word, STR("/quit"))) {
        *end = true;
    } else if (str_eq(word, STR("/clear"))) {
        begin(chat, str_from(chat->options->system));
        fprintf(chat->cli->err, "a new conversation\n");
    } else if (str_eq(word, STR("/system"))) {
        begin(chat, str_trim(rest));
        fprintf(chat->cli->err, "a new conversation with this system prompt\n");
    } else {
        fprintf(chat->cli->err, "/system TEXT  start again with this system prompt\n"
                                "/clear        start a new conversation\n"
                                "/bye          end (or Ctrl-D)\n"
                                "Ctrl-C stops an answer. A line that ends in \\ is continued.\n");
    }
    return true;
}

/* Appends a line, without its end; ERR_CANCELLED: Ctrl-C; ERR_CLOSED: the input has ended. */
static enum err read_line(struct buf *out)
{
    char piece[256];

    for (;;) {
        if (fgets(piece, sizeof(piece), stdin) == NULL) {
            bool again = errno == EINTR && cli_interrupted;
            clearerr(stdin);
            return again ? ERR_CANCELLED : ERR_CLOSED;
        }
        size_t len = strlen(piece);
        bool ends = len > 0 && piece[len - 1] == '\n';
        buf_append(out, piece, ends ? len - 1 : len);
        if (ends)
            return ERR_OK;
    }
}

/* A line, with those that it is continued by. False: the input has ended. */
static bool read_prompt(const struct chat *chat, struct buf *prompt)
{
    buf_clear(prompt);
    for (;;) {
        fputs(prompt->len > 0 ? "... " : ">>> ", chat->cli->out);
        fflush(chat->cli->out);
        cli_interrupted = 0;
        errno = 0;
        enum err err = read_line(prompt);
        if (err == ERR_CLOSED)
            return false;
        if (err == ERR_CANCELLED) { /* the line is forgotten */
            fputs("\n(Ctrl-D ends)\n", chat->cli->out);
            buf_clear(prompt);
        } else if (prompt->len > 0 && prompt->data[prompt->len - 1] == '\\') {
            prompt->data[prompt->len - 1] = '\n';
        } else {
            return true;
        }
    }
}

/* Until the end of the input. An error ends an answer, not the conversation. */
static void talk(struct chat *chat)
{
    struct sigaction old = cli_catch(SIGINT, 0); /* reading must return */
    struct buf prompt;
    bool end = false;

    buf_init(&prompt, PROMPT_BYTES_MAX);
    fprintf(chat->cli->err, "/help lists commands, Ctrl-D ends.\n");
    while (!end && read_prompt(chat, &prompt)) {
        struct str text = str_trim(buf_text(&prompt));
        struct errinfo info = {0};
        if (text.len == 0 || take_command(chat, text, &end))
            continue;
        if (say(chat, text, &info) != ERR_OK)
            cli_error(chat->cli, "%s", info.text);
    }
    sigaction(SIGINT, &old, NULL);
    fputc('\n', chat->cli->out);
    buf_fini(&prompt);
}

static enum err read_input(struct buf *text, struct errinfo *info)
{
    char piece[4096];
    size_t len;

    while ((len = fread(piece, 1, sizeof(piece), stdin)) > 0)
        buf_append(text, piece, len);
    return text->err == ERR_OK ? ERR_OK : err_set(info, text->err, "the prompt is too long");
}

static enum err answer_once(struct chat *chat, struct errinfo *info)
{
    struct buf text;

    buf_init(&text, PROMPT_BYTES_MAX);
    enum err err = ERR_OK;
    if (chat->cli->args_count > 1)
        buf_append_str(&text, chat->cli->args[1]);
    else
        err = read_input(&text, info);
    struct str prompt = str_trim(buf_text(&text));
    if (err == ERR_OK)
        err = prompt.len > 0 ? say(chat, prompt, info)
                             : err_set(info, ERR_INVALID, "the prompt is empty");
    if (err == ERR_OK &&
        cli_interrupted) /* a script must not take half an answer for a whole one */
        err = err_set(info, ERR_CANCELLED, "interrupted");
    buf_fini(&text);
    return err;
}

enum cli_exit run_chat(struct cli *cli, const struct run_options *options)
{
    struct chat chat = {.cli = cli, .options = options, .shows = isatty(fileno(cli->out))};
    bool talks = cli->args_count < 2 && isatty(STDIN_FILENO);
    struct errinfo info = {0};

    buf_init(&chat.messages, HISTORY_BYTES_MAX);
    begin(&chat, str_from(options->system));
    enum err err = find_server(&chat, &info);
    if (err == ERR_OK && talks)
        talk(&chat);
    else if (err == ERR_OK)
        err = answer_once(&chat, &info);
    if (chat.server.process != NULL)
        process_kill(&chat.server.process);
    if (chat.scratch[0] != '\0')
        process_remove_tree(chat.scratch);
    buf_fini(&chat.messages);
    return err == ERR_OK ? CLI_EXIT_OK : cli_error(cli, "%s", info.text);
}

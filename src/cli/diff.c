/*
 * diff.c: `hearth diff A B`: the first difference between the prompts of two requests, in tokens.
 *
 * A cache can reuse only the common prefix of two prompts, so the first difference is all that
 * matters. It is often not where people expect it (a clock in a system prompt, another order of
 * tools). The requests are tokenized by exactly the server's code: with -m in this process, with
 * the model's own template and vocabulary; otherwise by a running server.
 *
 * Exit status as in diff(1): 0 same, 1 different, 2 error.
 */
#include <stdio.h>
#include <string.h>

#include "dialect/answer.h"
#include "chat/gen_request.h"
#include "base/json_write.h"
#include "chat/prepare.h"
#include "serve/log_line.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/model_settings.h"
#include "cli/request_file.h"
#include "models/model.h"
#include "chat/neutral.h"
#include "engine/picture.h"

enum {
    ARENA_BYTES_MAX = 1 << 30,
    TEXT_BYTES_MAX = 1 << 20,
    BODY_BYTES_MAX = 512 << 20,
    BEFORE = 24, /* tokens that are shown */
    BEHIND = 16,
    PIECE_BYTES_MAX = 1024,
    CONTEXT_TOKENS = 512, /* nothing is computed */
};

enum diff_exit {
    DIFF_SAME = CLI_EXIT_OK,
    DIFF_OTHER = CLI_EXIT_FAILURE,
    DIFF_TROUBLE = CLI_EXIT_USAGE
};

static const char *const dialect_names[] = {"auto",      "chat",        "messages",
                                            "responses", "completions", NULL};
/* In the order of their names. */
static const struct dialect *const dialects[] = {
    NULL, &dialect_openai_chat, &dialect_anthropic_messages, &dialect_openai_responses,
    &dialect_openai_completions};

struct diff_options {
    struct remote_options remote;
    const char *model, *backends, *projector;
    int dialect;
    bool json, keep_volatile;
};

#define AT(field) offsetof(struct diff_options, field)

static const struct option_desc options_table[] = {
    {"model", 'm', OPTION_TEXT, AT(model), .value = "FILE", HERE, .group = "Requests",
     .help = "Render with this model instead of asking a server."},
    {"dialect", 0, OPTION_ENUM, AT(dialect), .value = "NAME", .initial = "auto",
     .names = dialect_names, HERE,
     .help = "API of the requests; by default recognized by their fields."},
    {"all-volatile", 0, OPTION_FLAG, AT(keep_volatile), HERE,
     .help = "With -m: do not normalize changing text (clocks, billing headers)."},
    {"json", 0, OPTION_FLAG, AT(json), HERE, .help = "Print JSON."},
    {"mmproj", 0, OPTION_TEXT, AT(projector), .value = "FILE", HERE,
     .help = "Projector of the model, for requests with pictures."},
    {"backends", 0, OPTION_TEXT, AT(backends), .value = "DIR",
     .help = "Folder with ggml's backends, instead of the built-in one."},
    REMOTE_OPTIONS(struct diff_options, remote),
};

/* One of the two requests. */
struct side {
    struct request_file file;
    struct gen_request request;
    struct prepared prepared;
};

struct diff {
    struct cli *cli;
    const struct diff_options *options;
    struct side sides[2];
    struct model *model;
    struct neutral *neutral;
};

/* The result, from either source. */
struct found {
    bool same;
    uint64_t token, counts[2];
    char place[64];    /* "user[3]" */
    const char *field; /* "content"; NULL: not known */
    struct buf before, texts[2];
};

/* NULL: by the fields of each request. */
static const char *said_dialect(const struct diff *diff)
{
    return diff->options->dialect > 0 ? dialect_names[diff->options->dialect] : NULL;
}

/* ---- rendering here ---- */

/* A file of plain text becomes the body of a completion. The request owns the document. */
static enum err take_body(struct side *side, struct errinfo *info)
{
    struct buf text;
    struct json json;

    side->request.body = side->file.doc;
    side->file.doc = NULL;
    if (side->request.body != NULL)
        return ERR_OK;
    json = json_begin(&text, BODY_BYTES_MAX, '{');
    json_key_str(&json, "prompt", (struct str){side->file.text, side->file.len});
    json_close(&json, '}');
    side->request.body = yyjson_read(buf_str(&text), text.len, 0);
    buf_fini(&text);
    return side->request.body != NULL
               ? ERR_OK
               : err_set(info, ERR_NOMEM, "no memory for %s", side->file.name);
}

static enum err render(struct diff *diff, struct side *side, struct errinfo *info)
{
    const struct sample_params sample = sample_params_default();
    const struct prepare_tools tools = {
        .model = model_chat(diff->model),
        .neutral = diff->options->keep_volatile ? NULL : diff->neutral,
        .tenant = "",
        .now_s = (int64_t)(clock_wall_ns(diff->cli->setup->clock) / NS_PER_S),
        .any_length = true, /* nothing is computed, and the context is minimal */
    };
    struct api_error error = {0};

    const struct dialect *dialect = dialects[diff->options->dialect];
    gen_request_init(&side->request, ARENA_BYTES_MAX, &sample);
    TRY(take_body(side, info));
    yyjson_val *root = yyjson_doc_get_root(side->request.body);
    if (dialect == NULL)
        dialect = dialect_recognize(root);
    enum err err = dialect->parse(&side->request, root, &error);
    if (err == ERR_OK)
        err = prepare(&side->prepared, &side->request, &tools, &error);
    if (err == ERR_OK)
        return ERR_OK;
    return err_set(info, err, "%s: %s", side->file.name,
                   error.message[0] != '\0' ? error.message : err_sentence(err));
}

/* Only the tokenizer is needed: a minimal context, one sequence. */
static enum err open_model(struct diff *diff, struct errinfo *info)
{
    const struct cli_setup *setup = diff->cli->setup;
    struct engine_options engine = {.context = CONTEXT_TOKENS,
                                    .sequences = 1,
                                    .chunk = CONTEXT_TOKENS,
                                    .backends = diff->options->backends,
                                    .projector = diff->options->projector,
                                    .log = diff->cli->log};
    struct model_options model = {
        .clock = setup->clock, .log = diff->cli->log, .sched = {.parallel = 1, .queue = 1}};

    TRY(cli_find_model(diff->cli, NULL, diff->options->model, &engine.path, info));
    TRY(cli_load_engine(&(struct model_settings){0}, &engine, &model.engine, info));
    return model_open(&diff->model, &model, info);
}

/* ---- the first difference ---- */

static uint64_t first_difference(const struct token_prompt *a, const struct token_prompt *b)
{
    uint64_t at = 0;

    while (at < a->count && at < b->count && a->tokens[at] == b->tokens[at])
        at++;
    return at;
}

static bool same_json(yyjson_val *a, yyjson_val *b)
{
    return a == b || (a != NULL && b != NULL && yyjson_equals(a, b));
}

static bool same_tools(const struct conversation *a, const struct conversation *b)
{
    if (a->tools_count != b->tools_count)
        return false;
    for (size_t i = 0; i < a->tools_count; i++) {
        const struct tool *x = &a->tools[i], *y = &b->tools[i];
        if (!str_eq(x->name, y->name) || !str_eq(x->description, y->description) ||
            x->strict != y->strict || !same_json(x->schema, y->schema))
            return false;
    }
    return true;
}

static bool same_content(const struct message *a, const struct message *b)
{
    if (a->form != b->form || a->parts_count != b->parts_count)
        return false;
    for (size_t i = 0; i < a->parts_count; i++)
        if (!str_eq(a->parts[i].text, b->parts[i].text))
            return false;
    return true;
}

static bool same_calls(const struct message *a, const struct message *b)
{
    if (a->calls_count != b->calls_count)
        return false;
    for (size_t i = 0; i < a->calls_count; i++) {
        const struct tool_call *x = &a->calls[i], *y = &b->calls[i];
        if (!str_eq(x->id, y->id) || !str_eq(x->name, y->name) ||
            !str_eq(x->arguments, y->arguments))
            return false;
    }
    return true;
}

/* The first member that differs, by the name that OpenAI gives it; NULL: none. */
static const char *differing_member(const struct message *a, const struct message *b)
{
    static const struct message none = {.role = ROLE_NONE};

    a = a != NULL ? a : &none;
    b = b != NULL ? b : &none;
    if (a->role != b->role)
        return "role";
    if (!same_content(a, b))
        return "content";
    if (!str_eq(a->thought, b->thought))
        return "reasoning_content";
    if (!same_calls(a, b))
        return "tool_calls";
    if (!str_eq(a->call_id, b->call_id))
        return "tool_call_id";
    return str_eq(a->name, b->name) ? NULL : "name";
}

static const struct message *message_at(const struct conversation *talk, size_t index)
{
    return index < talk->count ? &talk->messages[index] : NULL;
}

/* The field of the request behind it, as far as the bodies tell: of the message, else tools or
 * settings of the template. */
static const char *field_of(const struct diff *diff, const struct mark *message)
{
    const struct gen_request *a = &diff->sides[0].request, *b = &diff->sides[1].request;
    const char *member = differing_member(message_at(&a->conversation, message->message),
                                          message_at(&b->conversation, message->message));
    bool tools = !same_tools(&a->conversation, &b->conversation);

    if (tools && member == NULL)
        return "tools";
    if (member == NULL && (!same_json(a->kwargs, b->kwargs) || a->thinking != b->thinking))
        return "settings of the template";
    return member;
}

static void append_tokens(const struct diff *diff, const struct token_prompt *prompt, uint64_t from,
                          uint64_t to, struct buf *out)
{
    char piece[PIECE_BYTES_MAX];

    for (uint64_t i = from; i < MIN(to, prompt->count); i++) {
        if (token_is_picture(prompt->tokens[i])) {
            i = picture_describe(prompt->tokens, prompt->count, i, out) - 1;
            continue;
        }
        size_t len = engine_token_bytes(model_engine(diff->model), prompt->tokens[i], true, piece,
                                        sizeof(piece));
        buf_append(out, piece, MIN(len, sizeof(piece)));
    }
}

static void compare(const struct diff *diff, struct found *found)
{
    const struct token_prompt *prompts[] = {&diff->sides[0].prepared.prompt,
                                            &diff->sides[1].prepared.prompt};
    uint64_t at = first_difference(prompts[0], prompts[1]);

    found->token = at;
    found->counts[0] = prompts[0]->count;
    found->counts[1] = prompts[1]->count;
    found->same = at == prompts[0]->count && at == prompts[1]->count;
    if (found->same)
        return;
    const struct side *longer = &diff->sides[at == prompts[0]->count];
    struct mark message = {0};
    if (log_line_message_at(longer->prepared.marks, longer->prepared.marks_count, (uint32_t)at,
                            &message))
        snprintf(found->place, sizeof(found->place), "%s[%u]", role_name(message.role),
                 message.message);
    if (diff->sides[0].request.source == GEN_SOURCE_MESSAGES &&
        diff->sides[1].request.source == GEN_SOURCE_MESSAGES)
        found->field = field_of(diff, &message);
    append_tokens(diff, &longer->prepared.prompt, at > BEFORE ? at - BEFORE : 0, at,
                  &found->before);
    for (int i = 0; i < 2; i++)
        append_tokens(diff, prompts[i], at, at + BEHIND, &found->texts[i]);
}

static enum err diff_here(struct diff *diff, struct found *found, struct errinfo *info)
{
    TRY(open_model(diff, info));
    diff->neutral = neutral_create();
    for (int i = 0; i < 2; i++)
        TRY(render(diff, &diff->sides[i], info));
    compare(diff, found);
    return ERR_OK;
}

/* ---- by a server ---- */

/* The common prefix of both texts, in whole characters. */
static size_t common_prefix(const char *a, const char *b)
{
    size_t len = str_common(str_from(a), str_from(b));

    while (len > 0 && ((unsigned char)a[len] & 0xc0) == 0x80)
        len--;
    return len;
}

/* The server shows both from the same token on, somewhere before the difference. */
static void read_answer(yyjson_val *root, struct found *found)
{
    yyjson_val *difference = fields_get(root, "first_difference");
    const char *want = fields_text(difference, "want", ""),
               *have = fields_text(difference, "have", "");
    size_t same = common_prefix(want, have);

    found->same = !yyjson_is_obj(difference);
    found->counts[0] = fields_uint(root, "prompt_tokens");
    found->counts[1] = fields_uint(root, "against_tokens");
    found->token = fields_uint(difference, "token");
    snprintf(found->place, sizeof(found->place), "%s", fields_text(difference, "message", ""));
    buf_append(&found->before, want, same);
    buf_append_str(&found->texts[0], want + same);
    buf_append_str(&found->texts[1], have + same);
}

static enum err diff_there(struct diff *diff, struct found *found, struct errinfo *info)
{
    struct remote remote;
    struct buf body;
    struct json json;
    yyjson_doc *doc = NULL;

    TRY(remote_open(&remote, diff->cli, &diff->options->remote, info));
    json = json_begin(&body, BODY_BYTES_MAX, '{');
    request_file_write(&diff->sides[0].file, NULL, said_dialect(diff), &json);
    json_key_open(&json, "against", '{');
    request_file_write(&diff->sides[1].file, NULL, said_dialect(diff), &json);
    json_close(&json, '}');
    json_close(&json, '}');
    enum err err = body.err == ERR_OK
                       ? remote_ask_json(&remote, "/admin/cache/probe", buf_str(&body), &doc, info)
                       : err_set(info, body.err, "the requests are too large");
    if (err == ERR_OK)
        read_answer(yyjson_doc_get_root(doc), found);
    yyjson_doc_free(doc);
    buf_fini(&body);
    return err;
}

/* ---- showing ---- */

static void show_json(const struct diff *diff, const struct found *found)
{
    struct buf out;
    struct json json;

    json = json_begin(&out, TEXT_BYTES_MAX, '{');
    json_key_bool(&json, "same", found->same);
    json_key_open(&json, "tokens", '[');
    for (int i = 0; i < 2; i++)
        json_uint(&json, found->counts[i]);
    json_close(&json, ']');
    if (!found->same) {
        json_key_uint(&json, "first_difference", found->token);
        json_key_text(&json, "message", found->place[0] != '\0' ? found->place : NULL);
        json_key_text(&json, "field", found->field);
        json_key_str(&json, "before", (struct str){buf_str(&found->before), found->before.len});
        json_key_str(&json, "a", (struct str){buf_str(&found->texts[0]), found->texts[0].len});
        json_key_str(&json, "b", (struct str){buf_str(&found->texts[1]), found->texts[1].len});
    }
    json_close(&json, '}');
    fprintf(diff->cli->out, "%s\n", buf_str(&out));
    buf_fini(&out);
}

/* Quoted as in JSON: line ends and unprintable characters are visible, broken characters are
 * replaced. */
static void append_shown(struct buf *out, const char *label, const struct buf *text)
{
    struct json json = json_to(out);

    buf_appendf(out, "  %-8s", label);
    if (text->len > 0)
        json_str(&json, (struct str){buf_str(text), text->len});
    else
        buf_append_str(out, "(nothing more)");
    buf_append_char(out, '\n');
}

static void show_lines(const struct diff *diff, const struct found *found)
{
    char token[UNITS_TEXT_BYTES], a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES];
    struct buf out;

    buf_init(&out, TEXT_BYTES_MAX);
    units_format_count(found->token, token);
    units_format_count(found->counts[0], a);
    units_format_count(found->counts[1], b);
    if (found->same) {
        buf_appendf(&out, "the same %s tokens\n", a);
    } else {
        buf_appendf(&out, "%s tokens are the same", token);
        if (found->counts[1] > 0)
            buf_appendf(&out, ", of %s and %s", a, b);
        if (found->place[0] != '\0')
            buf_appendf(&out, "; first difference in %s", found->place);
        if (found->field != NULL)
            buf_appendf(&out, " (%s)", found->field);
        buf_append_char(&out, '\n');
        append_shown(&out, "before", &found->before);
        append_shown(&out, "A", &found->texts[0]);
        append_shown(&out, "B", &found->texts[1]);
    }
    cli_put_text(diff->cli, &out);
    buf_fini(&out);
}

/* ---- the command ---- */

static void close_all(struct diff *diff, struct found *found)
{
    for (int i = 0; i < 2; i++) {
        prepare_fini(&diff->sides[i].prepared);
        if (diff->model != NULL)
            gen_request_fini(&diff->sides[i].request);
        request_file_free(&diff->sides[i].file);
        buf_fini(&found->texts[i]);
    }
    buf_fini(&found->before);
    neutral_destroy(&diff->neutral);
    model_close(&diff->model);
}

static enum cli_exit run(struct cli *cli, const void *options)
{
    struct diff diff = {.cli = cli, .options = options};
    struct found found = {0};
    struct errinfo info = {0};

    buf_init(&found.before, TEXT_BYTES_MAX);
    for (int i = 0; i < 2; i++)
        buf_init(&found.texts[i], TEXT_BYTES_MAX);
    enum err err = request_file_read(&diff.sides[0].file, cli, cli->args[0], &info);
    if (err == ERR_OK)
        err = request_file_read(&diff.sides[1].file, cli, cli->args[1], &info);
    if (err == ERR_OK)
        err = diff.options->model != NULL ? diff_here(&diff, &found, &info)
                                          : diff_there(&diff, &found, &info);
    if (err == ERR_OK)
        (diff.options->json ? show_json : show_lines)(&diff, &found);
    else
        cli_error(cli, "%s", info.text);
    close_all(&diff, &found);
    return (enum cli_exit)(err != ERR_OK ? DIFF_TROUBLE : found.same ? DIFF_SAME : DIFF_OTHER);
}

const struct command command_diff = {
    .name = "diff",
    .summary = "Show the first token where two requests differ.",
    .usage = "[options] REQUEST REQUEST",
    .table = {.command = "diff", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct diff_options),
    .args_min = 2,
    .args_max = 2,
    .run = run,
};

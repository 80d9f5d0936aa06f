/* prompt.c: prompts in requests to /admin (admin_impl.h). */
#include "admin/admin_impl.h"

#include <stdio.h>

#include "admin/monitor.h"
#include "engine/picture.h"

enum { PIECE_BYTES_MAX = 256 };

/* ---- reading ---- */

static enum err choose(const struct json_reader *reader, const struct dialect **dialect)
{
    static const char *const names[] = {"chat", "completions", "messages", "responses", NULL};
    static const struct dialect *const dialects[] = {
        &dialect_openai_chat, &dialect_openai_completions, &dialect_anthropic_messages,
        &dialect_openai_responses};
    struct str name = STR_NONE;
    size_t index = 0;

    TRY(json_read_str(reader, "dialect", &name));
    if (name.len > 0)
        TRY(json_read_name(reader, "dialect", names,
                           "must be \"chat\", \"completions\", \"messages\" or \"responses\"",
                           &index));
    *dialect = name.len > 0 ? dialects[index] : dialect_recognize(reader->object);
    return ERR_OK;
}

static enum err read_tokens(struct gen_request *request, const struct json_reader *reader)
{
    yyjson_val *list = NULL;

    request->source = GEN_SOURCE_TOKENS;
    TRY(json_read_array(reader, "tokens", &list));
    TRY(json_read_tokens(reader, "tokens", list, &request->arena, &request->prompt_tokens,
                         &request->prompt_tokens_count));
    return json_read_str(reader, "model", &request->model);
}

enum err admin_prompt_parse(struct gen_request *request, yyjson_val *root, struct api_error *error)
{
    struct json_reader reader = {root, "", error, NULL, NULL};
    const struct dialect *dialect;

    if (json_read_get(&reader, "tokens"))
        return read_tokens(request, &reader);
    TRY(choose(&reader, &dialect));
    if (!json_read_get(&reader, "messages") && !json_read_get(&reader, "prompt") &&
        !json_read_get(&reader, "input"))
        return json_read_error(&reader, "messages",
                               "is missing: give 'messages', 'input', 'prompt' or 'tokens'");
    return dialect->parse(request, root, error);
}

static enum err parse_target(struct gen_request *request, yyjson_val *root, struct api_error *error)
{
    struct json_reader reader = {root, "", error, NULL, NULL};

    request->no_model = json_read_get(&reader, "key") != NULL;
    return request->no_model ? ERR_OK : admin_prompt_parse(request, root, error);
}

/* A key alone says nothing about tokens. */
static enum err parse_prompt(struct gen_request *request, yyjson_val *root, struct api_error *error)
{
    struct json_reader reader = {root, "", error, NULL, NULL};

    if (json_read_get(&reader, "key"))
        return json_read_error(&reader, "key", "is not possible here: give a prompt");
    return admin_prompt_parse(request, root, error);
}

/* Samples and discards one token, because the prompt's last token is computed separately. */
static enum err parse_warm(struct gen_request *request, yyjson_val *root, struct api_error *error)
{
    TRY(parse_prompt(request, root, error));
    request->prefill_only = true;
    request->stream = false;
    request->choices = 1;
    request->max_tokens = 1;
    return ERR_OK;
}

enum err admin_prompt_take_tenant(struct call *call, struct api_error *error)
{
    struct json_reader reader = {yyjson_doc_get_root(call->request.body), "", error, NULL, NULL};
    struct str tenant = STR_NONE;

    TRY(json_read_str(&reader, "tenant", &tenant));
    if (tenant.len == 0)
        return ERR_OK;
    if (tenant.len >= sizeof(call->tenant))
        return json_read_error(&reader, "tenant", "is too long for a name");
    snprintf(call->tenant, sizeof(call->tenant), STR_FMT, STR_ARG(tenant));
    snprintf(call->who, sizeof(call->who), STR_FMT, STR_ARG(tenant));
    return ERR_OK;
}

/* ---- writing ---- */

static void write_warmed(struct answer *answer, struct buf *out)
{
    struct json json = json_to(out);

    json_open(&json, '{');
    json_key_uint(&json, "prompt_tokens", answer->usage.prompt);
    json_key_uint(&json, "computed", answer->usage.computed);
    recent_write_tokens(&json, &answer->usage);
    json_key_uint(&json, "stored_bytes", answer->usage.stored_bytes);
    json_close(&json, '}');
}

void admin_prompt_text(const struct model *model, const token_id *tokens, size_t count,
                       struct buf *out)
{
    char piece[PIECE_BYTES_MAX];

    for (size_t i = 0; i < count; i++) {
        if (token_is_picture(tokens[i])) {
            i = picture_describe(tokens, count, i, out) - 1;
            continue;
        }
        size_t len = engine_token_bytes(model_engine(model), tokens[i], true, piece, sizeof(piece));

        buf_append(out, piece, MIN(len, sizeof(piece)));
    }
}

const struct dialect dialect_admin_prompt = {
    .name = "admin", .parse = parse_prompt, .error = openai_error_body};
const struct dialect dialect_admin_target = {
    .name = "admin", .parse = parse_target, .error = openai_error_body};
const struct dialect dialect_admin_warm = {
    .name = "admin", .parse = parse_warm, .error = openai_error_body, .body = write_warmed};

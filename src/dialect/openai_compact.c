/*
 * openai_compact.c: POST /v1/responses/compact: a conversation in, a summary out, which replaces it
 * as input of later requests.
 *
 *      {"model":...,"input":[...]}  -->  {"object":"response.compaction","output":[{"type":
 *          "compaction","encrypted_content":"hearth:<summary>"}],"usage":...}
 *
 * The model itself writes the summary, as the next turn of the conversation. The prompt is the one
 * of that conversation with a question at its end, tools included, so all of it is cached. Tools
 * stay visible but cannot be called. `encrypted_content` is plain text after a mark: it only says
 * what the client has sent, and the server keeps no key for it.
 */
#include "dialect/openai_impl.h"

#include <assert.h>

#include "dialect/usage.h"

enum { SUMMARY_TOKENS_MAX = 4096 };

static const char question[] =
    "Summarize our conversation so far, so that it can be continued from the summary alone. Keep "
    "facts, decisions, names, numbers, file paths and open tasks. Write only the summary.";

static enum err compact_parse(struct gen_request *request, yyjson_val *root,
                              struct api_error *error)
{
    struct json_reader body = {root, "", error, &request->asked, NULL};
    struct conversation *talk = &request->conversation;

    if (json_read_get(&body, "model") == NULL)
        return json_read_error(&body, "model", "is missing");
    TRY(openai_responses_parse(request, root, error));
    if (request->stream)
        return json_read_error_kind(&body, API_ERROR_UNSUPPORTED, "stream",
                                    "must be false: a compaction is sent as a whole");
    for (size_t i = 0; i < talk->tools_count; i++)
        talk->tools[i].barred = true;
    request->tool_choice = CONSTRAINT_AUTO;
    request->format = CONSTRAINT_ANSWER_TEXT;
    request->needs_text = true;
    if (request->max_tokens == 0)
        request->max_tokens = SUMMARY_TOKENS_MAX;
    return openai_add_text(request, ROLE_USER, STR(question));
}

static void write_item(struct json *json, const struct answer *answer)
{
    struct buf text;
    char id[OPENAI_ID_BYTES];

    buf_init(&text, json->out->limit);
    buf_append_str(&text, OPENAI_COMPACTION_MARK);
    buf_append(&text, buf_str(&answer->choices[0].content), answer->choices[0].content.len);
    json_open(json, '{');
    json_key_text(json, "id", openai_id(id, "cmp_", answer->id));
    json_key_text(json, "type", "compaction");
    json_key_str(json, "encrypted_content", buf_text(&text));
    json_close(json, '}');
    if (json->out->err == ERR_OK)
        json->out->err = text.err;
    buf_fini(&text);
}

static void compact_body(struct answer *answer, struct buf *out)
{
    struct json json = json_to(out);
    char id[OPENAI_ID_BYTES];

    assert(answer->choices_count == 1);
    json_open(&json, '{');
    json_key_text(&json, "id", openai_id(id, "resp_", answer->id));
    json_key_text(&json, "object", "response.compaction");
    json_key_uint(&json, "created_at", answer->created_s);
    json_key_text(&json, "model", answer->model);
    json_key_open(&json, "output", '[');
    write_item(&json, answer);
    json_close(&json, ']');
    openai_write_usage(&json, answer);
    openai_write_timings(&json, answer);
    usage_write_x_cache(&json, answer);
    json_close(&json, '}');
}

/* Never streamed: compact_parse refuses it. */
const struct dialect dialect_openai_compact = {
    .name = "openai_compact",
    .keepalive = "",
    .parse = compact_parse,
    .continues = true,
    .error = openai_error_body,
    .body = compact_body,
};

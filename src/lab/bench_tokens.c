/*
 * bench_tokens.c: two requests to a server, and their answers.
 */
#include "lab/bench_tokens.h"

#include <string.h>
#include <yyjson.h>

#include "base/json_write.h"
#include "base/mem.h"

enum { BYTES_MAX = 256 << 20, TIMEOUT_MS = 60 * 1000, OK = 200 };

/* Sends the JSON; `*doc` (the caller frees it) is the answer's. */
static enum err fetch(const struct client_url *url, const char *path, const struct buf *body,
                      yyjson_doc **doc, struct errinfo *info)
{
    const struct client_request request = {.url = url,
                                           .method = "POST",
                                           .path = path,
                                           .body = buf_str(body),
                                           .timeout_ms = TIMEOUT_MS};
    struct buf answer;
    int status = 0;

    buf_init(&answer, BYTES_MAX);
    enum err err = client_fetch(&request, &status, &answer, info);
    *doc = err == ERR_OK && status == OK ? yyjson_read(buf_str(&answer), answer.len, 0) : NULL;
    buf_fini(&answer);
    if (err == ERR_OK && *doc == NULL)
        err =
            err_set(info, ERR_INVALID, "%s: status %d, and no JSON that can be used", path, status);
    return err;
}

enum err tokens_render(const struct client_url *url, const struct ask_message *messages,
                       size_t count, struct buf *out, struct errinfo *info)
{
    const struct ask ask = {.messages = messages, .messages_count = count, .max_tokens = 1};
    yyjson_doc *doc;
    struct buf body;

    if (messages[0].role == NULL)
        return buf_append(out, messages[0].text, strlen(messages[0].text)), ERR_OK;
    buf_init(&body, BYTES_MAX);
    ask_write_body(&ask, &body);
    enum err err = fetch(url, "/apply-template", &body, &doc, info);
    buf_fini(&body);
    TRY(err);
    yyjson_val *prompt = yyjson_obj_get(yyjson_doc_get_root(doc), "prompt");
    if (yyjson_is_str(prompt))
        buf_append(out, yyjson_get_str(prompt), yyjson_get_len(prompt));
    else
        err = err_set(info, ERR_INVALID, "/apply-template: no prompt");
    yyjson_doc_free(doc);
    return err;
}

enum err tokens_of(const struct client_url *url, const char *text, struct tokens *out,
                   struct errinfo *info)
{
    yyjson_doc *doc;
    yyjson_val *id;
    size_t index, count;
    struct buf body;

    *out = (struct tokens){0};
    buf_init(&body, BYTES_MAX);
    struct json json = json_to(&body);
    json_open(&json, '{');
    json_key_text(&json, "content", text);
    json_key_bool(&json, "add_special", true);
    json_key_bool(&json, "parse_special", true);
    json_close(&json, '}');
    enum err err = fetch(url, "/tokenize", &body, &doc, info);
    buf_fini(&body);
    TRY(err);
    yyjson_val *ids = yyjson_obj_get(yyjson_doc_get_root(doc), "tokens");
    out->ids = mem_alloc_array(yyjson_arr_size(ids) + 1, sizeof(*out->ids));
    yyjson_arr_foreach(ids, index, count, id)
    {
        out->ids[out->count++] = (uint32_t)yyjson_get_uint(id);
    }
    if (out->count == 0)
        err = err_set(info, ERR_INVALID, "/tokenize: no tokens");
    yyjson_doc_free(doc);
    return err;
}

void tokens_fini(struct tokens *tokens)
{
    mem_free(tokens->ids);
    *tokens = (struct tokens){0};
}

size_t tokens_common(const struct tokens *a, const struct tokens *b)
{
    size_t at = 0, most = MIN(a->count, b->count);

    while (at < most && a->ids[at] == b->ids[at])
        at++;
    return at;
}

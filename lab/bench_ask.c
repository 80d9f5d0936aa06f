/* bench_ask.c: the request's JSON, the events of the stream, and the numbers in them. */
#include "lab/bench_ask.h"

#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "base/json_alc.h"
#include "base/json_write.h"
#include "base/clock.h"
#include "base/mem.h"

enum { TEXT_BYTES_MAX = 64 << 20, BODY_BYTES_MAX = 256 << 20, TOKENIZE_MS = 60 * 1000 };

/* ---- the request ---- */

static bool is_part(const struct ask *ask, size_t index)
{
    return index < ask->messages_count && ask->messages[index].role[0] == '\0';
}

static void write_part(struct json *json, const char *text)
{
    json_open(json, '{');
    json_key_text(json, "type", "text");
    json_key_text(json, "text", text);
    json_close(json, '}');
}

/* The message that begins at `index`; returns where the next one does. */
static size_t write_message(struct json *json, const struct ask *ask, size_t index)
{
    const struct ask_message *message = &ask->messages[index++];

    json_open(json, '{');
    json_key_text(json, "role", message->role);
    if (!is_part(ask, index)) {
        json_key_text(json, "content", message->text);
    } else {
        json_key_open(json, "content", '[');
        write_part(json, message->text);
        for (; is_part(ask, index); index++)
            write_part(json, ask->messages[index].text);
        json_close(json, ']');
    }
    json_close(json, '}');
    return index;
}

void ask_write_body(const struct ask *ask, struct buf *out)
{
    struct json json = json_to(out);

    json_open(&json, '{');
    if (ask->model != NULL)
        json_key_text(&json, "model", ask->model);
    if (ask->messages[0].role == NULL) {
        json_key_text(&json, "prompt", ask->messages[0].text);
    } else {
        json_key_open(&json, "messages", '[');
        for (size_t i = 0; i < ask->messages_count;)
            i = write_message(&json, ask, i);
        json_close(&json, ']');
    }
    json_key_uint(&json, "max_tokens", ask->max_tokens);
    json_key_uint(&json, "temperature", 0);
    json_key_bool(&json, "stream", true);
    json_key(&json, "stream_options");
    json_raw(&json, STR("{\"include_usage\":true}"));
    if (ask->grammar != NULL)
        json_key_text(&json, "grammar", ask->grammar);
    if (ask->prediction != NULL) {
        json_key_open(&json, "prediction", '{');
        json_key_text(&json, "type", "content");
        json_key_text(&json, "content", ask->prediction);
        json_close(&json, '}');
    }
    if (!ask->plain) {
        json_key_bool(&json, "ignore_eos", true);
        json_key_bool(&json, "cache_prompt", true);
    }
    json_close(&json, '}');
}

/* ---- what the server says ---- */

/* Numbers of an answer; where one is missing, the value stays as it is. */
struct number {
    const char *name;
    size_t at;     /* in struct ask_result */
    bool fraction; /* a double; otherwise an int64_t */
};

/* clang-format off */
#define COUNT(name, field) {name, offsetof(struct ask_result, field), false}
#define MS(name, field)    {name, offsetof(struct ask_result, field), true}
/* clang-format on */

static void read_numbers(struct ask_result *result, yyjson_val *object,
                         const struct number *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        yyjson_val *value = yyjson_obj_get(object, numbers[i].name);
        char *to = (char *)result + numbers[i].at;
        if (yyjson_is_num(value) && numbers[i].fraction)
            *(double *)(void *)to = yyjson_get_num(value);
        else if (yyjson_is_num(value))
            *(int64_t *)(void *)to = (int64_t)yyjson_get_num(value);
    }
}

static void copy_text(yyjson_val *value, char *out, size_t size)
{
    if (yyjson_is_str(value))
        snprintf(out, size, "%s", yyjson_get_str(value));
}

static void read_figures(struct ask_result *result, yyjson_val *root)
{
    static const struct number
        usage[] = {COUNT("prompt_tokens", prompt), COUNT("completion_tokens", generated)},
        details[] = {COUNT("cached_tokens", cached), COUNT("cache_write_tokens", written)},
        reused[] = {COUNT("cache_n", cached)}, drafts[] = {COUNT("draft_n_accepted", accepted)},
        prefill[] = {MS("prompt_ms", cache.replay_ms)},
        restore[] = {MS("lookup_ms", cache.lookup_ms), MS("fetch_ms", cache.fetch_ms),
                     MS("verify_ms", cache.verify_ms), MS("import_ms", cache.import_ms)},
        parts[] = {
            COUNT("device", cache.device),     COUNT("ram", cache.ram),
            COUNT("ssd", cache.ssd),           COUNT("remote", cache.remote),
            COUNT("computed", cache.computed), COUNT("first_difference", cache.first_difference)};
    yyjson_val *used = yyjson_obj_get(root, "usage"), *timings = yyjson_obj_get(root, "timings"),
               *cache = yyjson_obj_get(root, "x_cache");

    read_numbers(result, used, usage, COUNT_OF(usage));
    read_numbers(result, yyjson_obj_get(used, "prompt_tokens_details"), details, COUNT_OF(details));
    if (result->cached < 0)
        read_numbers(result, timings, reused, COUNT_OF(reused));
    read_numbers(result, timings, drafts, COUNT_OF(drafts));
    read_numbers(result, timings, prefill, COUNT_OF(prefill));
    read_numbers(result, yyjson_obj_get(cache, "restore"), restore, COUNT_OF(restore));
    read_numbers(result, cache, parts, COUNT_OF(parts));
    copy_text(yyjson_obj_get(cache, "match"), result->cache.match, sizeof(result->cache.match));
    copy_text(yyjson_obj_get(cache, "reason"), result->cache.reason, sizeof(result->cache.reason));
}

static void read_error(struct ask_result *result, yyjson_val *error)
{
    if (yyjson_is_obj(error))
        copy_text(yyjson_obj_get(error, "message"), result->error, sizeof(result->error));
    else
        copy_text(error, result->error, sizeof(result->error));
    if (error != NULL && result->error[0] == '\0')
        snprintf(result->error, sizeof(result->error), "an error without words");
}

/* The text of an event; reasoning counts as text. */
static struct str piece_of(yyjson_val *choice)
{
    yyjson_val *delta = yyjson_obj_get(choice, "delta"), *text = yyjson_obj_get(choice, "text");

    if (delta != NULL)
        text = yyjson_obj_get(delta, "content");
    if (delta != NULL && !yyjson_is_str(text))
        text = yyjson_obj_get(delta, "reasoning_content");
    return json_get_text(text);
}

/* ---- the stream ---- */

struct listener {
    const struct ask *ask;
    struct ask_result *result;
    uint64_t sent_ns, last_ns;
};

static void add_gap(struct ask_result *result, double ms)
{
    mem_reserve_one(&result->gaps_ms, result->gaps_count, &result->gaps_capacity, sizeof(ms));
    result->gaps_ms[result->gaps_count++] = ms;
}

static void take_piece(struct listener *listener, struct str piece)
{
    struct ask_result *result = listener->result;
    uint64_t now_ns = clock_mono_ns(clock_real());
    double ms = (double)NS_PER_MS;

    if (piece.len == 0)
        return;
    if (result->chunks++ == 0)
        result->ttft_ms = (double)(now_ns - listener->sent_ns) / ms;
    else
        add_gap(result, (double)(now_ns - listener->last_ns) / ms);
    listener->last_ns = now_ns;
    buf_append(&result->text, piece.ptr, piece.len);
}

static void take_event(struct listener *listener, struct str data)
{
    struct ask_result *result = listener->result;
    yyjson_doc *doc = yyjson_read(data.ptr, data.len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    yyjson_val *choice = yyjson_arr_get_first(yyjson_obj_get(root, "choices"));

    take_piece(listener, piece_of(choice));
    copy_text(yyjson_obj_get(choice, "finish_reason"), result->finish, sizeof(result->finish));
    read_figures(result, root);
    read_error(result, yyjson_obj_get(root, "error"));
    yyjson_doc_free(doc);
}

static enum err listen_to(struct listener *listener, struct client *client, struct errinfo *info)
{
    struct ask_result *result = listener->result;
    struct str data;
    bool end = false;

    while (!end) {
        TRY(client_read_event(client, &data, &end, info));
        result->bytes += data.len;
        if (end || str_eq(data, STR("[DONE]")))
            break;
        take_event(listener, data);
        if (listener->ask->leave_after > 0 && result->chunks >= listener->ask->leave_after) {
            result->left = true;
            break;
        }
    }
    return ERR_OK;
}

/* An answer that is not a stream is an error message. */
static enum err read_refusal(struct ask_result *result, struct client *client, struct errinfo *info)
{
    struct buf body;

    buf_init(&body, TEXT_BYTES_MAX);
    enum err err = client_read_all(client, &body, info);
    yyjson_doc *doc = yyjson_read(buf_str(&body), body.len, 0);
    read_error(result, yyjson_obj_get(yyjson_doc_get_root(doc), "error"));
    if (result->error[0] == '\0')
        snprintf(result->error, sizeof(result->error), "status %d", result->status);
    yyjson_doc_free(doc);
    buf_fini(&body);
    return err;
}

static const char *path_of(const struct ask *ask)
{
    bool chat = ask->messages[0].role != NULL;

    if (str_ends(str_from(ask->url->base), STR("/v1")))
        return chat ? "/chat/completions" : "/completions";
    return chat ? "/v1/chat/completions" : "/v1/completions";
}

static enum err exchange(const struct ask *ask, const char *body, struct client *client,
                         struct ask_result *result, struct errinfo *info)
{
    struct listener listener = {
        .ask = ask, .result = result, .sent_ns = clock_mono_ns(clock_real())};
    struct client_head head;

    TRY(client_send(client, "POST", path_of(ask), ask->key, body, info));
    TRY(client_read_head(client, &head, info));
    result->status = head.status;
    memcpy(result->request_id, head.request_id, sizeof(result->request_id));
    enum err err = head.status == 200 ? listen_to(&listener, client, info)
                                      : read_refusal(result, client, info);
    result->total_ms = (double)(clock_mono_ns(clock_real()) - listener.sent_ns) / (double)NS_PER_MS;
    return err;
}

enum err ask_run(const struct ask *ask, struct ask_result *result, struct errinfo *info)
{
    struct client *client = NULL;
    struct buf body;

    *result = (struct ask_result){
        .prompt = -1, .cached = -1, .written = -1, .generated = -1, .accepted = -1};
    result->cache = (struct ask_cache){-1, -1, -1, -1, -1, -1, "", "", 0, 0, 0, 0, 0};
    buf_init(&result->text, TEXT_BYTES_MAX);
    buf_init(&body, BODY_BYTES_MAX);
    ask_write_body(ask, &body);
    enum err err = body.err;
    if (err == ERR_OK)
        err = client_open(&client, ask->url, ask->timeout_ms, info);
    if (err == ERR_OK)
        err = exchange(ask, buf_str(&body), client, result, info);
    client_close(&client);
    buf_fini(&body);
    return err;
}

void ask_result_fini(struct ask_result *result)
{
    buf_fini(&result->text);
    mem_free(result->gaps_ms);
    result->gaps_ms = NULL;
    result->gaps_count = result->gaps_capacity = 0;
}

/* ---- tokens ---- */

/* Sends the JSON; `*doc` (the caller frees it) is the answer's. */
static enum err fetch(const struct client_url *url, const char *key, const char *path,
                      const struct buf *body, yyjson_doc **doc, struct errinfo *info)
{
    const struct client_request request = {.url = url,
                                           .method = "POST",
                                           .path = path,
                                           .key = key,
                                           .body = buf_str(body),
                                           .timeout_ms = TOKENIZE_MS};
    struct buf answer;
    int status = 0;

    buf_init(&answer, BODY_BYTES_MAX);
    enum err err = client_fetch(&request, &status, &answer, info);
    *doc = err == ERR_OK && status == 200 ? yyjson_read(buf_str(&answer), answer.len, 0) : NULL;
    buf_fini(&answer);
    if (err == ERR_OK && *doc == NULL)
        err =
            err_set(info, ERR_INVALID, "%s: status %d, and no JSON that can be used", path, status);
    return err;
}

enum err tokens_render(const struct client_url *url, const char *key,
                       const struct ask_message *messages, size_t count, struct buf *out,
                       struct errinfo *info)
{
    const struct ask ask = {.messages = messages, .messages_count = count, .max_tokens = 1};
    yyjson_doc *doc;
    struct buf body;

    if (messages[0].role == NULL)
        return buf_append(out, messages[0].text, strlen(messages[0].text)), ERR_OK;
    buf_init(&body, BODY_BYTES_MAX);
    ask_write_body(&ask, &body);
    enum err err = fetch(url, key, "/apply-template", &body, &doc, info);
    buf_fini(&body);
    TRY(err);
    struct str prompt = json_get_text(yyjson_obj_get(yyjson_doc_get_root(doc), "prompt"));
    if (prompt.ptr != NULL)
        buf_append(out, prompt.ptr, prompt.len);
    else
        err = err_set(info, ERR_INVALID, "/apply-template: no prompt");
    yyjson_doc_free(doc);
    return err;
}

enum err tokens_of(const struct client_url *url, const char *key, const char *text,
                   struct tokens *out, struct errinfo *info)
{
    yyjson_doc *doc;
    yyjson_val *id;
    size_t index, count;
    struct buf body;

    *out = (struct tokens){0};
    struct json json = json_begin(&body, BODY_BYTES_MAX, '{');
    json_key_text(&json, "content", text);
    json_key_bool(&json, "add_special", true);
    json_key_bool(&json, "parse_special", true);
    json_close(&json, '}');
    enum err err = fetch(url, key, "/tokenize", &body, &doc, info);
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

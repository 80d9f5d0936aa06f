/*
 * bench_ask.c: the request's JSON, the events of the stream, and the numbers in them.
 */
#include "lab/bench_ask.h"

#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "base/json_write.h"
#include "base/clock.h"
#include "base/mem.h"

enum { TEXT_BYTES_MAX = 64 << 20, BODY_BYTES_MAX = 256 << 20 };

/* ---- the request ---- */

void ask_write_body(const struct ask *ask, struct buf *out)
{
    struct json json = json_to(out);

    json_open(&json, '{');
    if (ask->model != NULL)
        json_key_text(&json, "model", ask->model);
    if (ask->messages[0].role == NULL) {
        json_key_text(&json, "prompt", ask->messages[0].text);
    } else {
        json_key(&json, "messages");
        json_open(&json, '[');
        for (size_t i = 0; i < ask->messages_count; i++) {
            json_open(&json, '{');
            json_key_text(&json, "role", ask->messages[i].role);
            json_key_text(&json, "content", ask->messages[i].text);
            json_close(&json, '}');
        }
        json_close(&json, ']');
    }
    json_key_uint(&json, "max_tokens", ask->max_tokens);
    json_key_uint(&json, "temperature", 0);
    json_key_bool(&json, "stream", true);
    json_key(&json, "stream_options");
    json_raw(&json, STR("{\"include_usage\":true}"));
    if (!ask->plain) {
        json_key_bool(&json, "ignore_eos", true);
        json_key_bool(&json, "cache_prompt", true);
    }
    json_close(&json, '}');
}

/* ---- what the server says ---- */

static int64_t number_of(yyjson_val *object, const char *key, int64_t otherwise)
{
    yyjson_val *value = yyjson_obj_get(object, key);

    return yyjson_is_num(value) ? (int64_t)yyjson_get_num(value) : otherwise;
}

static double float_of(yyjson_val *object, const char *key)
{
    yyjson_val *value = yyjson_obj_get(object, key);

    return yyjson_is_num(value) ? yyjson_get_num(value) : 0;
}

static void copy_text(yyjson_val *value, char *out, size_t size)
{
    if (yyjson_is_str(value))
        snprintf(out, size, "%s", yyjson_get_str(value));
}

static void read_usage(struct ask_result *result, yyjson_val *usage)
{
    yyjson_val *details = yyjson_obj_get(usage, "prompt_tokens_details");

    if (!yyjson_is_obj(usage))
        return;
    result->prompt = number_of(usage, "prompt_tokens", result->prompt);
    result->generated = number_of(usage, "completion_tokens", result->generated);
    result->cached = number_of(details, "cached_tokens", result->cached);
    result->written = number_of(details, "cache_write_tokens", result->written);
}

static void read_timings(struct ask_result *result, yyjson_val *timings)
{
    yyjson_val *restore = yyjson_obj_get(timings, "restore");
    struct ask_cache *cache = &result->cache;

    if (!yyjson_is_obj(timings))
        return;
    if (result->cached < 0)
        result->cached = number_of(timings, "cache_n", result->cached);
    cache->replay_ms = float_of(timings, "prompt_ms");
    cache->lookup_ms = float_of(restore, "lookup_ms");
    cache->fetch_ms = float_of(restore, "fetch_ms");
    cache->verify_ms = float_of(restore, "verify_ms");
    cache->import_ms = float_of(restore, "import_ms");
}

static void read_x_cache(struct ask_result *result, yyjson_val *x_cache)
{
    struct ask_cache *cache = &result->cache;

    if (!yyjson_is_obj(x_cache))
        return;
    cache->device = number_of(x_cache, "device", -1);
    cache->ram = number_of(x_cache, "ram", -1);
    cache->ssd = number_of(x_cache, "ssd", -1);
    cache->remote = number_of(x_cache, "remote", -1);
    cache->computed = number_of(x_cache, "computed", -1);
    cache->first_difference = number_of(x_cache, "first_difference", -1);
    copy_text(yyjson_obj_get(x_cache, "match"), cache->match, sizeof(cache->match));
    copy_text(yyjson_obj_get(x_cache, "reason"), cache->reason, sizeof(cache->reason));
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
    return yyjson_is_str(text) ? (struct str){yyjson_get_str(text), yyjson_get_len(text)}
                               : STR_NONE;
}

/* ---- the stream ---- */

struct listener {
    const struct ask *ask;
    struct ask_result *result;
    uint64_t sent_ns, last_ns;
};

static void add_gap(struct ask_result *result, double ms)
{
    if (result->gaps_count == result->gaps_capacity) {
        size_t wanted = result->gaps_capacity > 0 ? 2 * result->gaps_capacity : 64;
        double *more = mem_alloc_array(wanted, sizeof(*more));
        if (result->gaps_count > 0)
            memcpy(more, result->gaps_ms, result->gaps_count * sizeof(*more));
        mem_free(result->gaps_ms);
        result->gaps_ms = more;
        result->gaps_capacity = wanted;
    }
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
    read_usage(result, yyjson_obj_get(root, "usage"));
    read_timings(result, yyjson_obj_get(root, "timings"));
    read_x_cache(result, yyjson_obj_get(root, "x_cache"));
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
    struct str piece = {"", 1};
    struct buf body;
    enum err err = ERR_OK;

    buf_init(&body, TEXT_BYTES_MAX);
    while (err == ERR_OK && piece.len > 0) {
        err = client_read(client, &piece, info);
        if (err == ERR_OK && piece.len > 0)
            err = buf_append(&body, piece.ptr, piece.len);
    }
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

    *result = (struct ask_result){.prompt = -1, .cached = -1, .written = -1, .generated = -1};
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

/* stored.c: chains of stored responses, and their endpoints. */
#include "serve/stored.h"

#include <string.h>

#include "base/json_alc.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "dialect/json_read.h"
#include "serve/call.h"
#include "serve/shelf.h"

enum {
    CHAIN_MAX = 4096, /* responses */
    CHAIN_BYTES_MAX = 512 * 1024 * 1024,
    REFERENCES_BYTES_MAX = 64 * 1024 * 1024, /* of a body without them: as much as http accepts */
    REFERENCES_WORK_MAX = 256 * 1024 * 1024, /* bytes read for them */
    ITEM_WORK = 16,                          /* one that is looked at counts as so many bytes */
    LIST_DEFAULT = 20,
    LIST_MAX = 100,
};

/* "resp_ID" */
static struct str plain_id(struct str id)
{
    static const struct str prefix = STR("resp_");

    return str_starts(id, prefix) ? str_skip(id, prefix.len) : id;
}

/* The record as a document; NULL: it is not there. */
static yyjson_doc *read_record(struct shelf *shelf, const char *tenant, struct str id)
{
    yyjson_doc *doc = NULL;
    struct buf text;

    buf_init(&text, CHAIN_BYTES_MAX);
    if (shelf != NULL && shelf_get(shelf, tenant, plain_id(id), &text))
        doc = yyjson_read_opts(text.data, text.len, 0, json_alc(), NULL);
    buf_fini(&text);
    return doc;
}

/* ---- chains ---- */

struct chain {
    yyjson_doc *records[CHAIN_MAX]; /* the newest first */
    size_t count;
    struct str missing; /* the id that was not found; empty: none */
};

static void read_chain(struct shelf *shelf, const char *tenant, struct str id, struct chain *chain)
{
    while (id.len > 0 && chain->count < CHAIN_MAX) {
        yyjson_doc *record = read_record(shelf, tenant, id);

        if (record == NULL)
            break;
        chain->records[chain->count++] = record;
        id = json_get_text(yyjson_obj_get(yyjson_doc_get_root(record), "previous_response_id"));
    }
    chain->missing = id;
}

static void free_chain(struct chain *chain)
{
    for (size_t i = 0; i < chain->count; i++)
        yyjson_doc_free(chain->records[i]);
    mem_free(chain);
}

/* Items of a chain, in order; valid as long as it. */
struct items {
    yyjson_val **list; /* owned */
    size_t count, cap;
};

static enum err add_items(struct items *items, yyjson_val *array)
{
    yyjson_val *item;
    size_t i, count;

    if (!mem_try_reserve(&items->list, items->count + yyjson_arr_size(array), &items->cap,
                         sizeof(yyjson_val *)))
        return ERR_NOMEM;
    yyjson_arr_foreach(array, i, count, item)
    {
        items->list[items->count++] = item;
    }
    return ERR_OK;
}

/* The items of the whole conversation. `last`: with the output of the newest response. */
static enum err collect_items(const struct chain *chain, bool last, struct items *items)
{
    for (size_t i = chain->count; i-- > 0;) {
        yyjson_val *record = yyjson_doc_get_root(chain->records[i]);

        TRY(add_items(items, yyjson_obj_get(record, "input")));
        if (i > 0 || last)
            TRY(add_items(items, yyjson_obj_get(yyjson_obj_get(record, "response"), "output")));
    }
    return ERR_OK;
}

static enum err not_found(struct api_error *error, struct str id)
{
    (void)api_error_set(error, API_ERROR_INVALID, "previous_response_id",
                        "Previous response with id '" STR_FMT "' not found.",
                        (int)MIN(id.len, SHELF_ID_BYTES), id.ptr);
    error->code = "previous_response_not_found";
    return ERR_INVALID;
}

static enum err join(const struct chain *chain, struct gen_request *request,
                     struct api_error *error)
{
    struct items items = {0};
    struct buf text;
    struct json json = json_begin(&text, CHAIN_BYTES_MAX, '{');
    enum err err = collect_items(chain, true, &items);

    json_key_open(&json, "input", '[');
    for (size_t i = 0; i < items.count; i++)
        json_value(&json, items.list[i]);
    json_close(&json, ']');
    json_close(&json, '}');
    if (err == ERR_OK)
        err = text.err;
    if (err == ERR_OK)
        err = json_read_body(buf_text(&text), &request->earlier, error);
    buf_fini(&text);
    mem_free(items.list);
    return err;
}

/* ---- references to items ---- */

/* {"type": "item_reference", "id": ...}, or an object that has nothing but an id. */
static bool is_reference(yyjson_val *item)
{
    yyjson_val *type = yyjson_obj_get(item, "type");

    return yyjson_equals_str(type, "item_reference") ||
           (yyjson_is_str(yyjson_obj_get(item, "id")) &&
            yyjson_obj_size(item) == 1 + (yyjson_is_null(type) ? 1 : 0));
}

static bool has_references(yyjson_val *input)
{
    yyjson_val *item;
    size_t i, count;

    yyjson_arr_foreach(yyjson_is_arr(input) ? input : NULL, i, count, item)
    {
        if (is_reference(item))
            return true;
    }
    return false;
}

/* What is read to replace references. They come in the order of the conversation, so those to items of
 * one response follow each other, and its record is read once. */
struct source {
    struct shelf *shelf;
    const char *tenant;
    char id[SHELF_ID_BYTES]; /* of the record */
    yyjson_doc *record;      /* NULL: it is not there */
    uint64_t work;
};

static yyjson_doc *open_record(struct source *source, struct str id)
{
    id = plain_id(id);
    if (id.len >= sizeof(source->id))
        return NULL;
    if (!str_eq(id, str_from(source->id))) {
        yyjson_doc_free(source->record);
        source->record = read_record(source->shelf, source->tenant, id);
        source->work += yyjson_doc_get_read_size(source->record);
        snprintf(source->id, sizeof(source->id), STR_FMT, STR_ARG(id));
    }
    return source->record;
}

/* The record that has the item: "msg_ID_0" names it, "fc_CALL" is the id of a call. */
static yyjson_doc *open_record_of(struct source *source, struct str item)
{
    struct str rest = item, prefix;
    yyjson_doc *record = NULL;
    struct buf response;

    if (source->shelf == NULL || !str_next(&rest, '_', &prefix) || rest.len == 0)
        return NULL;
    const char *last = memrchr(rest.ptr, '_', rest.len);
    if (last != NULL)
        return open_record(source, (struct str){rest.ptr, (size_t)(last - rest.ptr)});
    buf_init(&response, SHELF_ID_BYTES);
    if (shelf_get(source->shelf, source->tenant, rest, &response))
        record = open_record(source, buf_text(&response));
    buf_fini(&response);
    return record;
}

static yyjson_val *find_item(struct source *source, yyjson_val *items, struct str id)
{
    yyjson_val *item;
    size_t i, count;

    yyjson_arr_foreach(items, i, count, item)
    {
        source->work += ITEM_WORK;
        if (str_eq(json_get_text(yyjson_obj_get(item, "id")), id))
            return item;
    }
    return NULL;
}

static enum err write_reference(struct json *json, struct source *source, struct str id,
                                struct api_error *error)
{
    yyjson_val *root = yyjson_doc_get_root(open_record_of(source, id));
    yyjson_val *output = yyjson_obj_get(yyjson_obj_get(root, "response"), "output");
    yyjson_val *item = find_item(source, output, id);

    if (item == NULL)
        item = find_item(source, yyjson_obj_get(root, "input"), id);
    if (item == NULL)
        return api_error_set(error, API_ERROR_NOT_FOUND, "input",
                             "Item with id '" STR_FMT "' not found. Items of responses with "
                             "store: false are not kept.",
                             (int)MIN(id.len, SHELF_ID_BYTES), id.ptr);
    json_value(json, item);
    if (source->work <= REFERENCES_WORK_MAX && json->out->err != ERR_LIMIT)
        return ERR_OK;
    return api_error_set(error, API_ERROR_TOO_LARGE, "input",
                         "'input' refers to items of responses that are too large together. "
                         "Continue the last response with 'previous_response_id' instead.");
}

static enum err write_resolved(struct json *json, struct source *source, yyjson_val *body,
                               struct api_error *error)
{
    static const char *const skip[] = {"input", NULL};
    yyjson_val *item;
    size_t i, count;

    json_members(json, body, skip);
    json_key_open(json, "input", '[');
    yyjson_arr_foreach(yyjson_obj_get(body, "input"), i, count, item)
    {
        if (is_reference(item))
            TRY(write_reference(json, source, json_get_text(yyjson_obj_get(item, "id")), error));
        else
            json_value(json, item);
    }
    json_close(json, ']');
    return ERR_OK;
}

static enum err resolve(struct shelf *shelf, const char *tenant, struct gen_request *request,
                        struct api_error *error)
{
    struct source source = {.shelf = shelf, .tenant = tenant};
    yyjson_doc *resolved = NULL;
    struct buf text;
    struct json json = json_begin(&text, REFERENCES_BYTES_MAX, '{');
    enum err err = write_resolved(&json, &source, yyjson_doc_get_root(request->body), error);

    yyjson_doc_free(source.record);
    json_close(&json, '}');
    if (err == ERR_OK)
        err = text.err;
    if (err == ERR_OK)
        err = json_read_body(buf_text(&text), &resolved, error);
    buf_fini(&text);
    if (err == ERR_OK) {
        yyjson_doc_free(request->body);
        request->body = resolved;
    }
    return err;
}

/* ---- loading and keeping ---- */

enum err stored_load(struct shelf *shelf, const char *tenant, struct gen_request *request,
                     struct api_error *error)
{
    if (has_references(yyjson_obj_get(yyjson_doc_get_root(request->body), "input")))
        TRY(resolve(shelf, tenant, request, error));
    struct str id =
        json_get_text(yyjson_obj_get(yyjson_doc_get_root(request->body), "previous_response_id"));

    if (id.len == 0)
        return ERR_OK;
    struct chain *chain = mem_alloc(sizeof(*chain));
    read_chain(shelf, tenant, id, chain);
    enum err err =
        chain->missing.len > 0 ? not_found(error, chain->missing) : join(chain, request, error);
    free_chain(chain);
    return err;
}

void stored_keep(struct shelf *shelf, const char *tenant, const struct dialect *dialect,
                 struct answer *answer)
{
    struct buf record;

    if (shelf == NULL || dialect->record == NULL || !answer->request->store)
        return;
    buf_init(&record, CHAIN_BYTES_MAX);
    dialect->record(answer, &record);
    bool kept =
        record.err == ERR_OK && shelf_put(shelf, tenant, str_from(answer->id), buf_text(&record));
    for (size_t i = 0; kept && i < answer->choices[0].calls_count; i++)
        (void)shelf_put(shelf, tenant, str_from(answer->choices[0].calls[i].id),
                        str_from(answer->id));
    buf_fini(&record);
}

/* ---- endpoints ---- */

static enum err fail_unknown(const struct call *call, struct api_error *error)
{
    return api_error_set(error, API_ERROR_NOT_FOUND, "id", "Response with id '%.*s' not found.",
                         SHELF_ID_BYTES, buf_str(&call->capture));
}

/* A client that wants the events again must not take their absence for the end. */
enum err endpoint_response(struct call *call, const struct json_reader *body, struct json *json)
{
    static const char *const none[] = {NULL};
    struct str stream;

    TRY(call_query(call, "stream", &stream, body->error));
    if (str_eq(stream, STR("true")))
        return api_error_set(body->error, API_ERROR_UNSUPPORTED, "stream",
                             "'stream' is not supported: a stored response is sent as a whole.");
    yyjson_doc *record =
        read_record(call->api->options.stored, call->who, buf_text(&call->capture));
    if (record == NULL)
        return fail_unknown(call, body->error);
    json_members(json, yyjson_obj_get(yyjson_doc_get_root(record), "response"), none);
    yyjson_doc_free(record);
    return ERR_OK;
}

enum err endpoint_response_delete(struct call *call, const struct json_reader *body,
                                  struct json *json)
{
    struct shelf *shelf = call->api->options.stored;
    struct str id = buf_text(&call->capture);

    if (shelf == NULL || !shelf_remove(shelf, call->who, plain_id(id)))
        return fail_unknown(call, body->error);
    json_key_str(json, "id", id);
    json_key_text(json, "object", "response");
    json_key_bool(json, "deleted", true);
    return ERR_OK;
}

/* ---- input items ---- */

struct list_params {
    uint64_t limit;
    bool ascending;
    struct str after;
};

static enum err read_params(struct call *call, struct list_params *params, struct api_error *error)
{
    struct str limit, order;

    params->limit = LIST_DEFAULT;
    TRY(call_query(call, "limit", &limit, error));
    if (limit.len > 0 &&
        (!str_to_u64(limit, &params->limit) || params->limit == 0 || params->limit > LIST_MAX))
        return api_error_set(error, API_ERROR_INVALID, "limit",
                             "'limit' must be a whole number from 1 to %d", LIST_MAX);
    TRY(call_query(call, "order", &order, error));
    params->ascending = str_eq(order, STR("asc"));
    if (order.len > 0 && !params->ascending && !str_eq(order, STR("desc")))
        return api_error_set(error, API_ERROR_INVALID, "order", "'order' must be asc or desc");
    return call_query(call, "after", &params->after, error);
}

static void write_content(struct json *json, yyjson_val *item)
{
    yyjson_val *content = yyjson_obj_get(item, "content");
    bool assistant = yyjson_equals_str(yyjson_obj_get(item, "role"), "assistant");

    json_key(json, "content");
    if (!yyjson_is_str(content)) {
        json_value(json, content);
        return;
    }
    json_open(json, '[');
    json_open(json, '{');
    json_key_text(json, "type", assistant ? "output_text" : "input_text");
    json_key_str(json, "text", json_get_text(content));
    json_close(json, '}');
    json_close(json, ']');
}

/* As in OpenAI's lists, a message has its type, and a list of parts as its content. */
static void write_item(struct json *json, yyjson_val *item)
{
    static const char *const skip[] = {"content", "type", NULL};
    struct str type = json_get_text(yyjson_obj_get(item, "type"));

    if (type.len > 0 && !str_eq(type, STR("message"))) {
        json_value(json, item);
        return;
    }
    json_open(json, '{');
    json_members(json, item, skip);
    json_key_text(json, "type", "message");
    write_content(json, item);
    json_close(json, '}');
}

static void write_id(struct json *json, const char *key, yyjson_val *item)
{
    json_key_str(json, key, json_get_text(yyjson_obj_get(item, "id")));
}

static void write_list(struct json *json, const struct items *items,
                       const struct list_params *params)
{
    size_t count = items->count, from = 0;
    yyjson_val *first = NULL, *last = NULL;

#define AT(i) items->list[params->ascending ? (i) : count - 1 - (i)]
    while (params->after.len > 0 && from < count &&
           !str_eq(json_get_text(yyjson_obj_get(AT(from), "id")), params->after))
        from++;
    from += params->after.len > 0;
    json_key_text(json, "object", "list");
    json_key_open(json, "data", '[');
    size_t i = from;
    for (; i < count && i - from < params->limit; i++) {
        last = AT(i);
        first = first != NULL ? first : last;
        write_item(json, last);
    }
#undef AT
    json_close(json, ']');
    write_id(json, "first_id", first);
    write_id(json, "last_id", last);
    json_key_bool(json, "has_more", i < count);
}

/* The items of the whole conversation before the response. */
enum err endpoint_response_items(struct call *call, const struct json_reader *body,
                                 struct json *json)
{
    struct list_params params = {0};
    struct items items = {0};

    TRY(read_params(call, &params, body->error));
    struct chain *chain = mem_alloc(sizeof(*chain));
    read_chain(call->api->options.stored, call->who, buf_text(&call->capture), chain);
    enum err err =
        chain->count > 0 ? collect_items(chain, false, &items) : fail_unknown(call, body->error);
    if (err == ERR_OK)
        write_list(json, &items, &params);
    mem_free(items.list);
    free_chain(chain);
    return err;
}

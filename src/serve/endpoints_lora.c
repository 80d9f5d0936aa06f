/*
 * endpoints_lora.c: /lora-adapters as llama-server has it: the adapters of a model with the scales
 * that requests without `lora` get, and a change of these scales. For the default model, or the one
 * that the query names (?model=NAME).
 *
 * On the loop thread. A change is for requests from now on: running ones keep their set.
 */
#include "serve/api_impl.h"

#include "base/json_write.h"
#include "dialect/json_read.h"
#include "models/pool.h"

enum { BODY_BYTES_MAX = 1 << 20 };

/* The loaded model that the request is about, to be returned with pool_unpeek; NULL: see `error`. */
static struct model *peek_model(const struct loop_request *req, struct pool *pool,
                                struct api_error *error)
{
    size_t index = props_find_model(req, pool);
    struct model *model = index != SIZE_MAX ? pool_peek(pool, index) : NULL;

    if (model == NULL)
        api_error_set(error, API_ERROR_MODEL, "model",
                      index != SIZE_MAX ? "The model is not loaded."
                                        : "There is no such model. GET /v1/models lists those "
                                          "that exist.");
    return model;
}

static void write_adapter(struct json *json, const struct lora_adapter *adapter, size_t id,
                          float scale)
{
    json_open(json, '{');
    json_key_uint(json, "id", id);
    json_key_text(json, "path", adapter->name); /* not the folder: it is the server's own affair */
    json_key_single(json, "scale", scale);
    if (adapter->invocation_count > 0) {
        json_key_open(json, "alora_invocation_tokens", '[');
        for (uint32_t i = 0; i < adapter->invocation_count; i++)
            json_int(json, adapter->invocation[i]);
        json_close(json, ']');
    }
    json_close(json, '}');
}

static void respond_adapters(const struct loop_request *req, struct model *model)
{
    const struct lora_facts *facts = &model_facts(model)->lora;
    struct lora_set set = model_lora(model);
    struct buf body;
    struct json json = json_begin(&body, BODY_BYTES_MAX, '[');

    for (size_t i = 0; i < facts->count; i++)
        write_adapter(&json, &facts->list[i], i, set.scale[i]);
    json_close(&json, ']');
    loop_respond(req, &body);
}

/* The body is a list; as a field of an object it is read like that of a request. */
static enum err read_set(struct str list, struct lora_set *set, struct api_error *error)
{
    struct json_reader reader = {.error = error};
    yyjson_doc *doc = NULL;
    bool found = false;
    struct buf text;

    buf_init(&text, BODY_BYTES_MAX);
    buf_append_str(&text, "{\"lora\":");
    buf_append(&text, list.ptr, list.len);
    buf_append_str(&text, "}");
    enum err err = text.err == ERR_OK ? json_read_body(buf_text(&text), &doc, error) : text.err;
    reader.object = yyjson_doc_get_root(doc);
    if (err == ERR_OK)
        err = json_read_lora(&reader, &found, set);
    if (err == ERR_OK && !found)
        err = json_read_error(&reader, "lora", "must be a list: [{\"id\": 0, \"scale\": 1}]");
    yyjson_doc_free(doc);
    buf_fini(&text);
    return err;
}

static enum err change(const struct loop_request *req, struct model *model, struct api_error *error)
{
    struct errinfo info = {0};
    struct lora_set set;

    TRY(read_set(req->request->body, &set, error));
    if (model_set_lora(model, &set, &info) == ERR_OK)
        return ERR_OK;
    return api_error_set(error, API_ERROR_INVALID, "lora", "%s", info.text);
}

static void answer(const struct loop_request *req, bool changes)
{
    struct api_error error = {0};
    struct pool *pool = api_pool(req->api, &error);
    struct model *model = pool != NULL ? peek_model(req, pool, &error) : NULL;

    if (model == NULL || (changes && change(req, model, &error) != ERR_OK))
        loop_fail(req, &error);
    else
        respond_adapters(req, model);
    if (model != NULL)
        pool_unpeek(pool, model);
}

void endpoint_lora(const struct loop_request *req)
{
    answer(req, false);
}

void endpoint_lora_change(const struct loop_request *req)
{
    answer(req, true);
}

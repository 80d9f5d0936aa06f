/*
 * endpoints_ollama.c: Ollama's endpoints about models and the server: tags, ps, show, version; and
 * those that hearth has in another form, which name it.
 *
 * Figures of a model are known while it is loaded. A model that is not loaded is listed without
 * them: no client loads a model by looking at the list.
 */
#include "serve/api_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_write.h"
#include "dialect/json_read.h"
#include "models/pool.h"

/* Clients compare it to decide which features to use: it is the version of Ollama whose interface
 * this follows. */
#define OLLAMA_VERSION "0.13.0"

/* When a model that has no TTL expires: clients need a time. */
#define NEVER_S 253402300799ull /* the end of 9999 */

/* ---- models ---- */

/* "494.03M", "7.62B" */
static void write_size(struct json *json, uint64_t parameters)
{
    char text[32];

    if (parameters >= 1000000000)
        snprintf(text, sizeof(text), "%.1fB", (double)parameters / 1e9);
    else
        snprintf(text, sizeof(text), "%.2fM", (double)parameters / 1e6);
    json_key_text(json, "parameter_size", text);
}

/* "Q4_K_M", from libllama's "qwen3 0.6B Q4_K - Medium". */
static void write_quantization(struct json *json, const char *description)
{
    struct str rest = str_from(description), type = STR_NONE;
    char text[32];

    for (int i = 0; i < 3 && str_next(&rest, ' ', &type); i++)
        ;
    int len = (int)MIN(type.len, (size_t)24);
    if (str_starts(rest, STR("- ")) && rest.len > 2)
        snprintf(text, sizeof(text), "%.*s_%c", len, type.ptr, rest.ptr[2]);
    else
        snprintf(text, sizeof(text), "%.*s", len, type.ptr);
    json_key_text(json, "quantization_level", text);
}

static void write_details(struct json *json, const struct model *model)
{
    const struct engine_facts *facts = model ? model_facts(model) : NULL;

    json_key_open(json, "details", '{');
    json_key_text(json, "parent_model", "");
    json_key_text(json, "format", "gguf");
    json_key_text(json, "family", facts ? facts->architecture : "");
    json_key_open(json, "families", '[');
    if (facts)
        json_text(json, facts->architecture);
    json_close(json, ']');
    if (facts) {
        write_size(json, facts->parameters);
        write_quantization(json, facts->description);
    } else {
        json_key_text(json, "parameter_size", "");
        json_key_text(json, "quantization_level", "");
    }
    json_close(json, '}');
}

/* Name, digest and details; `size` is given. */
static void write_model(struct json *json, const char *name, const struct model *model,
                        uint64_t size)
{
    char digest[HASH256_HEX_BYTES] = "";

    if (model)
        hash256_hex(&model_facts(model)->fingerprint, digest);
    json_key_text(json, "name", name);
    json_key_text(json, "model", name);
    json_key_uint(json, "size", size);
    json_key_text(json, "digest", digest);
    write_details(json, model);
}

enum err endpoint_ollama_tags(const struct loop_request *req, struct json *json,
                              struct api_error *error)
{
    struct pool *pool = api_pool(req->api, error);
    struct pool_view view;

    if (!pool)
        return ERR_INVALID;
    json_key_open(json, "models", '[');
    for (size_t i = 0; pool_view(pool, i, &view); i++) {
        struct model *model = pool_peek(pool, i);

        json_open(json, '{');
        write_model(json, view.name, model, view.file_bytes);
        if (model) {
            json_key_time(json, "modified_at", model_loaded_s(model));
            pool_unpeek(pool, model);
        }
        json_close(json, '}');
    }
    json_close(json, ']');
    return ERR_OK;
}

static uint64_t expires_s(const struct api *api, const struct pool_view *view)
{
    uint64_t left = view->ttl_ns > view->idle_ns ? view->ttl_ns - view->idle_ns : 0;

    return view->ttl_ns == 0 || view->pinned ? NEVER_S
                                             : (clock_wall_ns(api->clock) + left) / NS_PER_S;
}

enum err endpoint_ollama_ps(const struct loop_request *req, struct json *json,
                            struct api_error *error)
{
    struct pool *pool = api_pool(req->api, error);
    struct model *model;

    if (!pool)
        return ERR_INVALID;
    json_key_open(json, "models", '[');
    for (size_t i = 0; (model = pool_next(pool, &i));) {
        struct pool_view view = {0};

        (void)pool_view(pool, i - 1, &view);
        json_open(json, '{');
        write_model(json, view.name, model, view.bytes);
        json_key_time(json, "expires_at", expires_s(req->api, &view));
        json_key_uint(json, "size_vram", model_facts(model)->device_bytes);
        json_key_uint(json, "context_length", model_facts(model)->context);
        json_close(json, '}');
        pool_unpeek(pool, model);
    }
    json_close(json, ']');
    return ERR_OK;
}

/* ---- show ---- */

static void write_arch(struct json *json, const struct engine_facts *facts, const char *key,
                       uint64_t value)
{
    char name[128];

    snprintf(name, sizeof(name), "%s.%s", facts->architecture, key);
    json_key_uint(json, name, value);
}

static void write_info(struct json *json, const struct engine_facts *facts)
{
    json_key_open(json, "model_info", '{');
    if (facts) {
        json_key_text(json, "general.architecture", facts->architecture);
        json_key_text(json, "general.basename", facts->name);
        json_key_uint(json, "general.parameter_count", facts->parameters);
        write_arch(json, facts, "context_length", facts->context);
        write_arch(json, facts, "block_count", facts->layers);
        write_arch(json, facts, "vocab_size", facts->vocab);
    }
    json_close(json, '}');
}

static void write_capabilities(struct json *json, const struct model *model)
{
    json_key_open(json, "capabilities", '[');
    json_text(json, "completion");
    if (model) {
        enum chat_calls calls = chat_template_calls(model_template(model));

        if (calls != CHAT_CALLS_NONE && calls != CHAT_CALLS_UNREADABLE)
            json_text(json, "tools");
        if (chat_template_caps(model_template(model))->thinking)
            json_text(json, "thinking");
        if (model_facts(model)->images)
            json_text(json, "vision");
        if (engine_has_fim(model_facts(model)))
            json_text(json, "insert");
    }
    json_close(json, ']');
}

enum err endpoint_ollama_show(struct call *call, const struct json_reader *body, struct json *json)
{
    struct pool *pool = api_pool(call->api, body->error);
    size_t index = pool ? pool_find(pool, call->request.model, true) : SIZE_MAX;

    if (!pool)
        return ERR_INVALID;
    if (index == SIZE_MAX)
        return api_error_set(body->error, API_ERROR_MODEL, "model", "model '" STR_FMT "' not found",
                             (int)MIN(call->request.model.len, 128), call->request.model.ptr);
    struct model *model = pool_peek(pool, index);
    const struct engine_facts *facts = model ? model_facts(model) : NULL;
    json_key_text(json, "license", "");
    json_key_text(json, "modelfile", "");
    json_key_text(json, "parameters", "");
    json_key_text(json, "template", facts && facts->chat_template ? facts->chat_template : "");
    write_details(json, model);
    write_info(json, facts);
    write_capabilities(json, model);
    if (model) {
        json_key_time(json, "modified_at", model_loaded_s(model));
        pool_unpeek(pool, model);
    }
    return ERR_OK;
}

/* ---- the server ---- */

enum err endpoint_ollama_version(const struct loop_request *req, struct json *json,
                                 struct api_error *error)
{
    (void)error;
    json_key_text(json, "version", OLLAMA_VERSION);
    json_key_text(json, "hearth",
                  req->api->options.version ? req->api->options.version : "unknown");
    return ERR_OK;
}

static const struct {
    const char *name, *sentence;
} others[] = {
    {"ollama_pull", "Models are not pulled through this API. Run 'hearth pull NAME' on the "
                    "server's machine and start the server with the model."},
    {"ollama_push", "Models cannot be pushed from here."},
    {"ollama_create", "Models are not created through this API. Serve a GGUF file with 'hearth "
                      "serve -m NAME=FILE'."},
    {"ollama_copy", "Models are not copied through this API. 'hearth serve -m NAME=FILE' gives a "
                    "model another name."},
    {"ollama_delete", "Models are not deleted through this API. Run 'hearth rm NAME' on the "
                      "server's machine."},
};

enum err endpoint_ollama_refuse(const struct loop_request *req, struct json *json,
                                struct api_error *error)
{
    const char *sentence = "";

    (void)json;
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (strcmp(others[i].name, req->endpoint->name) == 0)
            sentence = others[i].sentence;
    return api_error_set(error, API_ERROR_UNSUPPORTED, NULL, "%s", sentence);
}

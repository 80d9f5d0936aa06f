/*
 * endpoints_ollama.c: Ollama's endpoints about models and the server: tags, ps, show, version; and
 * those that hearth has in another form, which name it.
 *
 * Facts of a model that is not loaded come from the header of its file: no client loads a model by
 * looking at the list. They are kept as long as the file is the same, because reading a vocabulary
 * takes tens of milliseconds.
 */
#include "serve/api_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_write.h"
#include "base/file.h"
#include "dialect/json_read.h"
#include "engine/file_digest.h"
#include "engine/gguf_file.h"
#include "engine/quantize.h"
#include "models/pool.h"
#include "serve/shelf.h"

/* Clients compare it to decide which features to use: it is the version of Ollama whose interface
 * this follows. */
#define OLLAMA_VERSION "0.13.0"

/* When a model that has no TTL expires: clients need a time. */
#define NEVER_S 253402300799ull /* the end of 9999 */

enum { TEMPLATE_BYTES_MAX = 1024 * 1024 };

/* ---- facts ---- */

struct about {
    char architecture[64], name[128], quantization[32];
    uint64_t parameters, context, layers, vocab; /* 0: unknown */
    uint64_t modified_s; /* of a loaded model, when it was loaded; many clients need a time */
    bool embeds;         /* it does not generate */
};

/* "Q4_K_M", from libllama's "qwen3 0.6B Q4_K - Medium". */
static void set_quantization(struct about *about, const char *description)
{
    struct str rest = str_from(description), type = STR_NONE;

    for (int i = 0; i < 3 && str_next(&rest, ' ', &type); i++)
        ;
    int len = (int)MIN(type.len, (size_t)24);
    bool sized = str_starts(rest, STR("- ")) && rest.len > 2;
    snprintf(about->quantization, sizeof(about->quantization), "%.*s%s%.*s", len, type.ptr,
             sized ? "_" : "", sized, sized ? rest.ptr + 2 : "");
}

static struct about about_loaded(const struct model *model)
{
    const struct engine_facts *facts = model_facts(model);
    struct about about = {.parameters = facts->parameters,
                          .context = model_request_context(model),
                          .layers = facts->layers,
                          .vocab = facts->vocab,
                          .modified_s = model_loaded_s(model),
                          .embeds = facts->embed.only};

    snprintf(about.architecture, sizeof(about.architecture), "%s", facts->architecture);
    snprintf(about.name, sizeof(about.name), "%s", facts->name);
    set_quantization(&about, facts->description);
    return about;
}

/* `out` is all zero if the file cannot be read. `chat` (or NULL) gets its chat template. */
static void read_file(const char *path, struct about *out, struct buf *chat)
{
    struct file_identity identity = {0};
    struct gguf_file *file = NULL;
    const char *name, *source;

    memset(out, 0, sizeof(*out)); /* padding is kept, too */
    if (path == NULL || file_identity_of(file_sys_real(), path, &identity, NULL) != ERR_OK ||
        gguf_file_open(&file, path, NULL) != ERR_OK)
        return;
    name = gguf_file_text(file, "general.name");
    source = gguf_file_text(file, "tokenizer.chat_template");
    snprintf(out->architecture, sizeof(out->architecture), "%s", gguf_file_architecture(file));
    snprintf(out->name, sizeof(out->name), "%s", name ? name : "");
    snprintf(out->quantization, sizeof(out->quantization), "%s",
             quantize_type_name(gguf_file_uint(file, "general.file_type", UINT64_MAX)));
    out->parameters = gguf_file_elements(file);
    out->context = gguf_file_arch_uint(file, "context_length", 0);
    out->layers = gguf_file_arch_uint(file, "block_count", 0);
    out->vocab = gguf_file_arch_uint(file, "vocab_size", 0);
    out->modified_s = identity.modified_ns / NS_PER_S;
    out->embeds = !gguf_file_arch_bool(file, "attention.causal", true) ||
                  gguf_file_arch_uint(file, "pooling_type", 0) != 0;
    if (chat != NULL && source != NULL)
        buf_append_str(chat, source);
    gguf_file_close(&file);
}

static struct about about_file(const struct api *api, const char *path)
{
    struct model_file file;
    struct about about = {0};
    char id[SHELF_ID_BYTES];
    struct buf kept;

    if (path == NULL || model_file_stamp(file_sys_real(), path, &file, NULL) != ERR_OK)
        return about;
    snprintf(id, sizeof(id), "%016llx", (unsigned long long)file.stamp);
    buf_init(&kept, sizeof(about));
    if (shelf_get(api->abouts, "", str_from(id), &kept) && kept.len == sizeof(about)) {
        memcpy(&about, kept.data, sizeof(about));
    } else {
        read_file(path, &about, NULL);
        (void)shelf_put(api->abouts, "", str_from(id),
                        (struct str){(const char *)&about, sizeof(about)});
    }
    buf_fini(&kept);
    return about;
}

struct shelf *endpoint_ollama_create_abouts(void)
{
    return shelf_create(&(struct shelf_options){.count_max = POOL_MODELS_MAX,
                                                .bytes_max = POOL_MODELS_MAX * sizeof(struct about),
                                                .dir = FILE_NO});
}

/* ---- models ---- */

/* "494.03M", "7.6B" */
static void write_size(struct json *json, uint64_t parameters)
{
    char text[32] = "";

    if (parameters >= 1000000000)
        snprintf(text, sizeof(text), "%.1fB", (double)parameters / 1e9);
    else if (parameters > 0)
        snprintf(text, sizeof(text), "%.2fM", (double)parameters / 1e6);
    json_key_text(json, "parameter_size", text);
}

static void write_details(struct json *json, const struct about *about)
{
    json_key_open(json, "details", '{');
    json_key_text(json, "parent_model", "");
    json_key_text(json, "format", "gguf");
    json_key_text(json, "family", about->architecture);
    json_key_open(json, "families", '[');
    if (about->architecture[0] != '\0')
        json_text(json, about->architecture);
    json_close(json, ']');
    write_size(json, about->parameters);
    json_key_text(json, "quantization_level", about->quantization);
    json_close(json, '}');
}

/* Name, digest and details; `size` is given. */
static void write_model(struct json *json, const char *name, const struct model *model,
                        const struct about *about, uint64_t size)
{
    char digest[HASH256_HEX_BYTES] = "";

    if (model)
        hash256_hex(&model_facts(model)->fingerprint, digest);
    json_key_text(json, "name", name);
    json_key_text(json, "model", name);
    json_key_uint(json, "size", size);
    json_key_text(json, "digest", digest);
    write_details(json, about);
}

enum err endpoint_ollama_tags(struct call *call, const struct json_reader *body, struct json *json)
{
    struct pool *pool = api_pool(call->api, body->error);
    struct pool_view view;

    if (!pool)
        return ERR_INVALID;
    json_key_open(json, "models", '[');
    for (size_t i = 0; pool_view(pool, i, &view); i++) {
        struct model *model = pool_peek(pool, i);
        struct about about = model ? about_loaded(model) : about_file(call->api, view.path);

        json_open(json, '{');
        write_model(json, view.name, model, &about, view.file_bytes);
        json_key_time(json, "modified_at", about.modified_s);
        json_close(json, '}');
        if (model)
            pool_unpeek(pool, model);
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
        struct about about = about_loaded(model);
        struct pool_view view = {0};

        (void)pool_view(pool, i - 1, &view);
        json_open(json, '{');
        write_model(json, view.name, model, &about, view.bytes);
        json_key_time(json, "expires_at", expires_s(req->api, &view));
        json_key_uint(json, "size_vram", model_facts(model)->device_bytes);
        json_key_uint(json, "context_length", model_request_context(model));
        json_close(json, '}');
        pool_unpeek(pool, model);
    }
    json_close(json, ']');
    return ERR_OK;
}

/* ---- show ---- */

static void write_arch(struct json *json, const struct about *about, const char *key,
                       uint64_t value)
{
    char name[128];

    snprintf(name, sizeof(name), "%s.%s", about->architecture, key);
    if (value > 0)
        json_key_uint(json, name, value);
}

static void write_info(struct json *json, const struct about *about)
{
    json_key_open(json, "model_info", '{');
    if (about->architecture[0] != '\0') {
        json_key_text(json, "general.architecture", about->architecture);
        json_key_text(json, "general.basename", about->name);
        json_key_uint(json, "general.parameter_count", about->parameters);
        write_arch(json, about, "context_length", about->context);
        write_arch(json, about, "block_count", about->layers);
        write_arch(json, about, "vocab_size", about->vocab);
    }
    json_close(json, '}');
}

/* `facts` of a loaded model, or NULL. */
static void write_capabilities(struct json *json, const struct about *about,
                               const struct chat_template *tmpl, const struct engine_facts *facts)
{
    enum chat_calls calls = tmpl ? chat_template_calls(tmpl) : CHAT_CALLS_NONE;

    if (about->embeds) {
        json_key_raw(json, "capabilities", STR("[\"embedding\"]"));
        return;
    }
    json_key_open(json, "capabilities", '[');
    json_text(json, "completion");
    if (calls != CHAT_CALLS_NONE && calls != CHAT_CALLS_UNREADABLE)
        json_text(json, "tools");
    if (tmpl && chat_template_caps(tmpl)->thinking)
        json_text(json, "thinking");
    if (facts && facts->images)
        json_text(json, "vision");
    if (facts && engine_has_fim(facts))
        json_text(json, "insert");
    json_close(json, ']');
}

static void write_show(struct json *json, const struct about *about, const char *source,
                       const struct chat_template *tmpl, const struct engine_facts *facts)
{
    json_key_text(json, "license", "");
    json_key_text(json, "modelfile", "");
    json_key_text(json, "parameters", "");
    json_key_text(json, "template", source);
    write_details(json, about);
    write_info(json, about);
    write_capabilities(json, about, tmpl, facts);
    json_key_time(json, "modified_at", about->modified_s);
}

/* A model that is not loaded: what its file says. */
static void show_file(struct json *json, const char *path)
{
    struct chat_template_options options = {0};
    struct chat_template *tmpl = NULL;
    struct about about;
    struct buf source;

    buf_init(&source, TEMPLATE_BYTES_MAX);
    read_file(path, &about, &source);
    options.source = buf_str(&source);
    if (source.len > 0 && chat_template_create(&options, &tmpl, NULL) != ERR_OK)
        tmpl = NULL;
    write_show(json, &about, buf_str(&source), tmpl, NULL);
    chat_template_destroy(&tmpl);
    buf_fini(&source);
}

enum err endpoint_ollama_show(struct call *call, const struct json_reader *body, struct json *json)
{
    struct pool *pool = api_pool(call->api, body->error);
    size_t index = pool ? pool_find(pool, call->request.model, true) : SIZE_MAX;
    struct pool_view view = {0};

    if (!pool)
        return ERR_INVALID;
    if (index == SIZE_MAX || !pool_view(pool, index, &view))
        return api_error_set(body->error, API_ERROR_MODEL, "model", "model '" STR_FMT "' not found",
                             (int)MIN(call->request.model.len, 128), call->request.model.ptr);
    struct model *model = pool_peek(pool, index);
    if (model == NULL) {
        show_file(json, view.path);
        return ERR_OK;
    }
    const struct engine_facts *facts = model_facts(model);
    struct about about = about_loaded(model);
    write_show(json, &about, facts->chat_template ? facts->chat_template : "",
               model_template(model), facts);
    pool_unpeek(pool, model);
    return ERR_OK;
}

/* ---- the server ---- */

enum err endpoint_ollama_version(const struct loop_request *req, struct json *json,
                                 struct api_error *error)
{
    (void)error;
    json_key_text(json, "version", OLLAMA_VERSION);
    json_key_text(json, "hearth", req->api->options.version);
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

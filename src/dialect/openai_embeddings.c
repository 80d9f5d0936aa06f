/*
 * openai_embeddings.c: POST /v1/embeddings.
 *
 *      {"input": "a" | ["a","b"] | [1,2] | [[1,2],[3]], "dimensions": n,
 *       "encoding_format": "float" | "base64"}
 *      --> {"object":"list","data":[{"object":"embedding","index":0,"embedding":[...]}],"usage":{}}
 *
 * base64 has the floats as little-endian bytes, which is what OpenAI's own clients ask for.
 */
#include "dialect/openai_impl.h"

#include <sodium.h>
#include <string.h>

#include "base/le.h"
#include "chat/embed_request.h"

struct embeddings {
    struct embed_request request;
    bool base64;
};

/* ---- reading ---- */

static enum err read_one(struct gen_request *request, const struct json_reader *body,
                         const char *key, yyjson_val *value, struct embed_input *input)
{
    if (yyjson_is_str(value)) {
        input->text = json_get_text(value);
        return ERR_OK;
    }
    if (!yyjson_is_arr(value) || yyjson_arr_size(value) == 0)
        return json_read_error(body, key, "must be text, tokens, or a list of either");
    return json_read_tokens(body, key, value, &request->arena, &input->tokens,
                            &input->tokens_count);
}

enum err openai_read_inputs(struct gen_request *request, const struct json_reader *body,
                            const char *key, struct embed_request *embed)
{
    yyjson_val *input = json_read_get(body, key), *value;
    bool list = yyjson_is_arr(input) && !yyjson_is_num(yyjson_arr_get_first(input));
    size_t count = list ? yyjson_arr_size(input) : 1, i;

    if (input == NULL)
        return json_read_error(body, key, "is missing");
    if (count == 0 || count > EMBED_INPUTS_MAX)
        return json_read_error(body, key, "must have 1 to %d entries", EMBED_INPUTS_MAX);
    embed->inputs = arena_alloc_array(&request->arena, count, sizeof(*embed->inputs));
    if (embed->inputs == NULL)
        return request->arena.err;
    embed->count = count;
    embed->field = key;
    if (!list)
        return read_one(request, body, key, input, &embed->inputs[0]);
    yyjson_arr_foreach(input, i, count, value)
        TRY(read_one(request, body, key, value, &embed->inputs[i]));
    return ERR_OK;
}

static enum err embeddings_parse(struct gen_request *request, yyjson_val *root,
                                 struct api_error *error)
{
    static const char *const formats[] = {"float", "base64", NULL};
    struct json_reader body = {root, "", error, &request->asked, NULL};
    struct embeddings *own = arena_alloc(&request->arena, sizeof(*own));
    uint64_t dimensions = 0;
    size_t format = 0;

    if (own == NULL)
        return request->arena.err;
    TRY(json_read_str(&body, "model", &request->model));
    TRY(json_read_uint(&body, "dimensions", 1, UINT32_MAX, &dimensions));
    TRY(json_read_name(&body, "encoding_format", formats, "must be 'float' or 'base64'", &format));
    TRY(openai_read_inputs(request, &body, "input", &own->request));
    own->request.dimensions = (uint32_t)dimensions;
    own->base64 = format == 1;
    request->embed = &own->request;
    request->dialect_data = own;
    return ERR_OK;
}

/* ---- writing ---- */

static void write_base64(struct json *json, const float *vector, size_t size)
{
    struct buf bytes, text;

    buf_init(&bytes, size * sizeof(*vector));
    buf_init(&text, json->out->limit);
    for (size_t i = 0; i < size; i++) {
        unsigned char le[4];
        uint32_t bits;
        memcpy(&bits, &vector[i], sizeof(bits));
        le_put_u32(le, bits);
        buf_append(&bytes, (const char *)le, sizeof(le));
    }
    size_t room = sodium_base64_encoded_len(bytes.len, sodium_base64_VARIANT_ORIGINAL);
    char *to = buf_reserve(&text, room);
    if (to != NULL) {
        sodium_bin2base64(to, room, (const unsigned char *)bytes.data, bytes.len,
                          sodium_base64_VARIANT_ORIGINAL);
        buf_commit(&text, room - 1); /* not the NUL */
    }
    if (bytes.err != ERR_OK || text.err != ERR_OK)
        json->out->err = ERR_NOMEM;
    json_str(json, buf_text(&text));
    buf_fini(&text);
    buf_fini(&bytes);
}

void openai_write_vector(struct json *json, const float *vector, size_t size)
{
    json_open(json, '[');
    for (size_t i = 0; i < size; i++)
        json_single(json, vector[i]);
    json_close(json, ']');
}

void openai_write_embed_usage(struct json *json, const struct answer *answer)
{
    json_key_open(json, "usage", '{');
    json_key_uint(json, "prompt_tokens", answer->usage.prompt);
    json_key_uint(json, "total_tokens", answer->usage.prompt);
    json_close(json, '}');
}

static void embeddings_body(struct answer *answer, struct buf *out)
{
    const struct embeddings *own = answer->request->dialect_data;
    struct json json = json_to(out);

    json_open(&json, '{');
    json_key_text(&json, "object", "list");
    json_key_text(&json, "model", answer->model);
    json_key_open(&json, "data", '[');
    for (size_t i = 0; i < own->request.count; i++) {
        const float *vector = answer->vectors.values + i * answer->vectors.size;
        json_open(&json, '{');
        json_key_text(&json, "object", "embedding");
        json_key_uint(&json, "index", i);
        json_key(&json, "embedding");
        (own->base64 ? write_base64 : openai_write_vector)(&json, vector, answer->vectors.size);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    openai_write_embed_usage(&json, answer);
    json_close(&json, '}');
}

const struct dialect dialect_openai_embeddings = {
    .name = "openai embeddings",
    .parse = embeddings_parse,
    .error = openai_error_body,
    .body = embeddings_body,
};

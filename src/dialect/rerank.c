/*
 * rerank.c: scores of documents: POST /v1/rerank in the form of Jina and Cohere, POST /v1/score in
 * vLLM's.
 *
 *      {"query":"a","documents":["b",{"text":"c"}],"top_n":1,"return_documents":true}
 *      --> {"results":[{"index":1,"relevance_score":0.9,"document":{"text":"c"}}],"usage":{}}
 *
 *      {"text_1":"a" | [...],"text_2":"b" | [...]}, or with other names (score_names)
 *      --> {"data":[{"index":0,"object":"score","score":0.9}],"usage":{}}
 */
#include "dialect/openai_impl.h"

#include <stdlib.h>

#include "chat/embed_request.h"

struct rerank {
    struct embed_request request;
    size_t top;
    bool documents; /* repeat them */
};

/* ---- reading ---- */

/* A text, or an object that has one. */
static bool read_text(yyjson_val *value, struct embed_input *input)
{
    yyjson_val *text = yyjson_is_obj(value) ? yyjson_obj_get(value, "text") : value;

    *input = (struct embed_input){.text = json_get_text(text)};
    return yyjson_is_str(text);
}

static enum err read_texts(struct gen_request *request, const struct json_reader *body,
                           const char *key, struct embed_input **inputs, size_t *count)
{
    yyjson_val *field = json_read_get(body, key), *value;
    bool list = yyjson_is_arr(field);
    size_t i, n = list ? yyjson_arr_size(field) : 1;

    if (field == NULL)
        return json_read_error(body, key, "is missing");
    if (n == 0 || n > EMBED_INPUTS_MAX)
        return json_read_error(body, key, "must have 1 to %d entries", EMBED_INPUTS_MAX);
    *inputs = arena_alloc_array(&request->arena, n, sizeof(**inputs));
    if (*inputs == NULL)
        return request->arena.err;
    *count = n;
    if (!list)
        return read_text(field, *inputs) ? ERR_OK : json_read_error(body, key, "must be text");
    yyjson_arr_foreach(field, i, n, value)
    {
        if (!read_text(value, *inputs + i))
            return json_read_error(body, key, "must have texts, or objects with a text, only");
    }
    return ERR_OK;
}

static struct rerank *begin(struct gen_request *request, const char *queries, const char *inputs)
{
    struct rerank *own = arena_alloc(&request->arena, sizeof(*own));

    if (own == NULL)
        return NULL;
    *own = (struct rerank){.request = {.field = inputs, .queries_field = queries}};
    request->embed = &own->request;
    request->dialect_data = own;
    return own;
}

static enum err rerank_parse(struct gen_request *request, yyjson_val *root, struct api_error *error)
{
    struct json_reader body = {root, "", error, &request->asked, NULL};
    struct rerank *own = begin(request, "query", "documents");
    uint64_t top = EMBED_INPUTS_MAX;

    if (own == NULL)
        return request->arena.err;
    struct embed_request *embed = &own->request;
    own->documents = true; /* keeps I86 */
    TRY(json_read_str(&body, "model", &request->model));
    TRY(json_read_uint(&body, "top_n", 0, UINT32_MAX, &top));
    TRY(json_read_bool(&body, "return_documents", &own->documents));
    TRY(read_texts(request, &body, "query", &embed->queries, &embed->queries_count));
    if (embed->queries_count != 1)
        return json_read_error(&body, "query", "must be one text");
    bool tei = json_read_get(&body, "documents") == NULL && json_read_get(&body, "texts") != NULL;
    TRY(read_texts(request, &body, tei ? "texts" : "documents", &embed->inputs, &embed->count));
    own->top = top > 0 ? (size_t)MIN(top, embed->count) : embed->count; /* 0: all, as in vLLM */
    return ERR_OK;
}

/* The names that releases of vLLM have for the two sides. */
static const char *const score_names[][2] = {
    {"text_1", "text_2"}, {"queries", "documents"}, {"queries", "items"}, {"data_1", "data_2"}};

/* The pair whose second name the body has; the first pair if it has none. */
static const char *const *find_names(const struct json_reader *body)
{
    for (size_t i = 0; i < COUNT_OF(score_names); i++)
        if (json_read_get(body, score_names[i][1]) != NULL)
            return score_names[i];
    return score_names[0];
}

static enum err score_parse(struct gen_request *request, yyjson_val *root, struct api_error *error)
{
    struct json_reader body = {root, "", error, &request->asked, NULL};
    const char *const *names = find_names(&body);
    struct rerank *own = begin(request, names[0], names[1]);

    if (own == NULL)
        return request->arena.err;
    struct embed_request *embed = &own->request;
    TRY(json_read_str(&body, "model", &request->model));
    TRY(read_texts(request, &body, names[0], &embed->queries, &embed->queries_count));
    TRY(read_texts(request, &body, names[1], &embed->inputs, &embed->count));
    if (embed->queries_count != 1 && embed->queries_count != embed->count)
        return json_read_error(&body, names[0], "must be one text, or as many as %s has", names[1]);
    return ERR_OK;
}

/* ---- writing ---- */

struct place {
    size_t index;
    float score;
};

/* The best first; equal ones in the order of the request. */
static int compare(const void *a, const void *b)
{
    const struct place *left = a, *right = b;

    if (left->score != right->score)
        return left->score < right->score ? 1 : -1;
    return left->index < right->index ? -1 : 1;
}

static void write_result(struct json *json, const struct rerank *own, const struct place *place)
{
    json_open(json, '{');
    json_key_uint(json, "index", place->index);
    json_key_single(json, "relevance_score", place->score);
    if (own->documents) {
        json_key_open(json, "document", '{');
        json_key_str(json, "text", own->request.inputs[place->index].text);
        json_close(json, '}');
    }
    json_close(json, '}');
}

static void rerank_body(struct answer *answer, struct buf *out)
{
    const struct rerank *own = answer->request->dialect_data;
    struct place places[EMBED_INPUTS_MAX];
    struct json json = json_to(out);
    char id[OPENAI_ID_BYTES];

    for (size_t i = 0; i < own->request.count; i++)
        places[i] = (struct place){i, answer->vectors.values[i]};
    qsort(places, own->request.count, sizeof(*places), compare);
    json_open(&json, '{');
    json_key_text(&json, "id", openai_id(id, "rerank-", answer->id));
    json_key_text(&json, "object", "list");
    json_key_text(&json, "model", answer->model);
    json_key_open(&json, "results", '[');
    for (size_t i = 0; i < own->top; i++)
        write_result(&json, own, &places[i]);
    json_close(&json, ']');
    openai_write_embed_usage(&json, answer);
    json_close(&json, '}');
}

static void score_body(struct answer *answer, struct buf *out)
{
    const struct rerank *own = answer->request->dialect_data;
    struct json json = json_to(out);
    char id[OPENAI_ID_BYTES];

    json_open(&json, '{');
    json_key_text(&json, "id", openai_id(id, "score-", answer->id));
    json_key_text(&json, "object", "list");
    json_key_uint(&json, "created", answer->created_s);
    json_key_text(&json, "model", answer->model);
    json_key_open(&json, "data", '[');
    for (size_t i = 0; i < own->request.count; i++) {
        json_open(&json, '{');
        json_key_uint(&json, "index", i);
        json_key_text(&json, "object", "score");
        json_key_single(&json, "score", answer->vectors.values[i]);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    openai_write_embed_usage(&json, answer);
    json_close(&json, '}');
}

const struct dialect dialect_rerank = {
    .name = "rerank",
    .parse = rerank_parse,
    .error = openai_error_body,
    .body = rerank_body,
};

const struct dialect dialect_score = {
    .name = "score",
    .parse = score_parse,
    .error = openai_error_body,
    .body = score_body,
};

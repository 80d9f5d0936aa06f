/* kv_hints.c: retain and pin (keep for a time), prefetch, deref (release), demote (to disk). */
#include "dialect/kv_hints.h"

enum { RETAIN_DEFAULT_S = 300, RETAIN_MAX_S = 30 * 24 * 60 * 60 };

typedef enum err action_fn(struct gen_request *request, const struct json_reader *payload);

static void keep_for(struct gen_request *request, double seconds)
{
    uint32_t ttl_s = (uint32_t)(seconds < RETAIN_MAX_S ? seconds : RETAIN_MAX_S);

    request->cache_ttl_s = MAX(request->cache_ttl_s, ttl_s);
}

static enum err read_seconds(const struct json_reader *holder, float *out)
{
    static const char *const keys[] = {"duration", "ttl_seconds", "ttl"};

    for (size_t i = 0; i < COUNT_OF(keys); i++)
        TRY(json_read_float(holder, keys[i], 0, 1e9, out));
    return ERR_OK;
}

/* {"duration": 600}, or vLLM's directives about ranges, which count for the whole prompt: priority 0
 * releases. */
static enum err retain(struct gen_request *request, const struct json_reader *payload)
{
    struct json_list list = json_list(payload, "directives");
    float seconds = RETAIN_DEFAULT_S;
    struct json_reader directive;
    size_t kept = 0, count = 0;

    TRY(read_seconds(payload, &seconds));
    for (; json_next(&list, &directive); count++) {
        float each = seconds;
        uint64_t priority = 1;

        TRY(read_seconds(&directive, &each));
        TRY(json_read_uint(&directive, "priority", 0, 100, &priority));
        if (priority == 0)
            continue;
        keep_for(request, (double)each);
        kept++;
    }
    TRY(list.err);
    if (count == 0)
        keep_for(request, (double)seconds);
    request->cache_release |= count > 0 && kept == 0;
    return ERR_OK;
}

static enum err prefetch(struct gen_request *request, const struct json_reader *payload)
{
    (void)payload;
    request->prefill_only = true;
    request->max_tokens = 1;
    return ERR_OK;
}

static enum err release(struct gen_request *request, const struct json_reader *payload)
{
    (void)payload;
    request->cache_release = true;
    return ERR_OK;
}

static enum err demote(struct gen_request *request, const struct json_reader *payload)
{
    (void)payload;
    request->cache_demote = true;
    return ERR_OK;
}

static const struct {
    struct str type;
    action_fn *act;
} actions[] = {
    {STR("kv.retain"), retain}, {STR("kv.pin"), retain},    {STR("kv.prefetch"), prefetch},
    {STR("kv.deref"), release}, {STR("kv.demote"), demote},
};

enum err kv_hints_read(struct gen_request *request, const struct json_reader *body)
{
    struct json_reader hints, action, payload;

    TRY(json_read_nested(body, "kv_hints", &hints));
    if (hints.object == NULL ||
        !str_eq(json_get_text(json_read_get(&hints, "protocol_version")), STR("0.1")))
        return ERR_OK;
    struct json_list list = json_list(&hints, "actions");
    while (json_next(&list, &action)) {
        struct str type = json_get_text(json_read_get(&action, "action_type"));

        TRY(json_read_nested(&action, "payload", &payload));
        for (size_t i = 0; i < COUNT_OF(actions); i++)
            if (str_eq(type, actions[i].type))
                TRY(actions[i].act(request, &payload));
    }
    TRY(list.err);
    if (request->cache_release) /* no request will continue it */
        request->cache_write = false;
    return ERR_OK;
}

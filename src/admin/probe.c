/*
 * probe.c: simulates a prompt, or computes it without an answer.
 *
 *      POST /admin/cache/probe   prompt [, "against": prompt] -> where each block of it is, how
 *                                much would be reused, why no more, and the first token that
 *                                differs, in context
 *      POST /admin/cache/warm    prompt -> computed and kept, as for a request
 *
 * A probe does not count as a use of the cache or of the device. The text around a difference is
 * the caller's own; cached text is never shown.
 */
#include "admin/admin_impl.h"

#include "admin/monitor.h"
#include "serve/log_line.h"
#include "base/mem.h"

enum { BLOCKS_MAX = 4096, DEVICE_MS = 1000, CONTEXT_TOKENS = 12, TEXT_BYTES_MAX = 64 * 1024 };

/* What is known about a prompt that has not been sent. */
struct probe {
    struct call *call;
    struct hearth_probe cache;
    struct hearth_block *blocks; /* BLOCKS_MAX */
    size_t blocks_count;
    struct sched_device device;
    bool device_known; /* its engine answered */
    uint32_t reused;   /* from whichever source would be used */
    bool from_device;
    bool differs; /* `difference` is the position, `other` the other token there */
    size_t difference;
    struct prepared other;
    bool compared;
};

static uint32_t count_of(const struct probe *probe)
{
    return (uint32_t)MIN(probe->call->prepared.prompt.count, UINT32_MAX);
}

/* ---- asking ---- */

static void ask_cache(struct probe *probe, struct hearth_space *space)
{
    const struct token_prompt *prompt = &probe->call->prepared.prompt;

    probe->cache = (struct hearth_probe){.struct_size = sizeof(probe->cache),
                                         .reason = HEARTH_REASON_DISABLED};
    if (space && hearth_probe(space, prompt->tokens, prompt->count, &probe->cache, probe->blocks,
                              BLOCKS_MAX) == HEARTH_OK)
        probe->blocks_count = MIN(probe->cache.blocks_count, BLOCKS_MAX);
}

/* Does not wait long for a busy engine: then nothing is reported about the device. */
static void ask_device(struct probe *probe, struct hearth_space *space)
{
    struct call *call = probe->call;
    struct sched_prompt prompt = {space, call->who, call->prepared.prompt.tokens, count_of(probe),
                                  &call->lora};
    struct errinfo info = {0};

    probe->device_known =
        sched_probe(model_sched(call->model), &prompt, DEVICE_MS, &probe->device, &info) == ERR_OK;
}

static void look(struct probe *probe)
{
    struct hearth_space *space = call_space(probe->call);

    probe->blocks = mem_alloc_array(BLOCKS_MAX, sizeof(*probe->blocks));
    ask_cache(probe, space);
    ask_device(probe, space);
    /* The scheduler prefers the device unless the cache has more. */
    probe->from_device = probe->device.length > 0 && probe->device.length >= probe->cache.boundary;
    probe->reused = probe->from_device ? probe->device.length : probe->cache.boundary;
    probe->difference = MAX(probe->cache.first_difference, probe->device.shared);
    probe->differs = probe->difference < count_of(probe);
}

/* ---- comparing with a second prompt ---- */

static enum err prepare_other(struct probe *probe, struct gen_request *request, yyjson_val *against,
                              struct api_error *error)
{
    struct prepare_tools tools = call_tools(probe->call);

    tools.any_length = false;
    TRY(admin_prompt_parse(request, against, error));
    return prepare(&probe->other, request, &tools, error);
}

static void find_difference(struct probe *probe)
{
    const struct token_prompt *a = &probe->call->prepared.prompt, *b = &probe->other.prompt;
    size_t at = 0;

    while (at < a->count && at < b->count && a->tokens[at] == b->tokens[at])
        at++;
    probe->compared = true;
    probe->difference = at;
    probe->differs = at < a->count || at < b->count;
}

/* ---- answering ---- */

static void write_would(struct json *json, const struct probe *probe)
{
    const uint32_t *tiers = probe->cache.tokens_by_tier;
    bool device = probe->from_device;

    json_key_open(json, "would", '{');
    json_key_uint(json, "device", device ? probe->reused : 0);
    for (int tier = 0; tier < HEARTH_TIER_COUNT; tier++)
        json_key_uint(json, hearth_tier_name((enum hearth_tier)tier), device ? 0 : tiers[tier]);
    json_key_uint(json, "computed", count_of(probe) - probe->reused);
    json_close(json, '}');
}

/* As in the request's log line. */
static void write_reason(struct json *json, const struct probe *probe)
{
    enum hearth_match match = probe->cache.match;
    enum hearth_reason reason = probe->cache.reason;

    if (probe->from_device && probe->device.shared >= count_of(probe) - 1) {
        match = HEARTH_MATCH_SUPERSEQUENCE;
        reason = HEARTH_REASON_NONE;
    } else if (probe->from_device) {
        match = probe->device.ends ? HEARTH_MATCH_PREFIX : HEARTH_MATCH_LCP;
        reason = probe->device.ends ? HEARTH_REASON_SHORT : HEARTH_REASON_DIVERGED;
    }
    json_key_text(json, "reason", hearth_reason_name(reason));
    json_key_text(json, "match", hearth_match_name(match));
}

static void write_block(struct json *json, uint32_t begin, uint32_t end, const char *tier,
                        const unsigned char *key)
{
    json_open(json, '{');
    json_key_uint(json, "begin", begin);
    json_key_uint(json, "end", end);
    json_key_text(json, "tier", tier);
    admin_write_key(json, "key", key);
    json_close(json, '}');
}

/* The whole prompt in order: blocks in the cache, blocks only on the device, missing blocks. */
static void write_blocks(struct json *json, const struct probe *probe)
{
    uint32_t at = 0, device = probe->from_device ? probe->device.length : 0;

    json_key_open(json, "blocks", '[');
    for (size_t i = 0; i < probe->blocks_count; i++) {
        const struct hearth_block *block = &probe->blocks[i];
        const char *tier = block->tier < HEARTH_TIER_COUNT ? hearth_tier_name(block->tier) : "none";

        write_block(json, block->begin, block->end, block->end <= device ? "device" : tier,
                    block->key);
        at = block->end;
    }
    if (at < device) {
        write_block(json, at, device, "device", NULL);
        at = device;
    }
    if (at < count_of(probe))
        write_block(json, at, count_of(probe), "none", NULL);
    json_close(json, ']');
}

static void write_context(struct json *json, const char *name, const struct probe *probe,
                          const struct token_prompt *prompt)
{
    size_t at = probe->difference, begin = at - MIN(at, CONTEXT_TOKENS);
    size_t end = MIN(at + CONTEXT_TOKENS, prompt->count);
    struct buf text;

    buf_init(&text, TEXT_BYTES_MAX);
    admin_prompt_text(probe->call->model, prompt->tokens + begin, end - MIN(begin, end), &text);
    json_key_str(json, name, buf_text(&text));
    buf_fini(&text);
}

static void write_difference(struct json *json, const struct probe *probe)
{
    const struct prepared *prepared = &probe->call->prepared;
    struct mark message = {.role = ROLE_NONE};

    if (!probe->differs) {
        json_key_null(json, "first_difference");
        return;
    }
    (void)!log_line_message_at(prepared->marks, prepared->marks_count, (uint32_t)probe->difference,
                               &message);
    json_key_open(json, "first_difference", '{');
    json_key_uint(json, "token", probe->difference);
    recent_write_message(json, message.role, message.message);
    if (probe->compared)
        write_context(json, "have", probe, &probe->other.prompt);
    else
        json_key_null(json, "have"); /* other users' text, or our own from another time */
    write_context(json, "want", probe, &probe->call->prepared.prompt);
    json_close(json, '}');
}

static void write_probe(struct json *json, const struct probe *probe)
{
    json_key_uint(json, "prompt_tokens", count_of(probe));
    write_would(json, probe);
    json_key_bool(json, "device_known", probe->device_known);
    json_key_uint(json, "boundary", probe->reused);
    json_key_uint(json, "matched", MAX(probe->cache.matched, probe->device.shared));
    write_reason(json, probe);
    write_blocks(json, probe);
    json_key_uint(json, "blocks_left_out", probe->cache.blocks_count - probe->blocks_count);
    if (probe->compared)
        json_key_uint(json, "against_tokens", probe->other.prompt.count);
    write_difference(json, probe);
}

static enum err run(struct probe *probe, struct gen_request *request,
                    const struct json_reader *body, struct json *json)
{
    yyjson_val *against = NULL;

    TRY(admin_prompt_take_tenant(probe->call, body->error));
    TRY(json_read_object(body, "against", &against));
    TRY(call_prepare(probe->call, body->error));
    if (against)
        TRY(prepare_other(probe, request, against, body->error));
    look(probe);
    if (against)
        find_difference(probe);
    write_probe(json, probe);
    return ERR_OK;
}

enum err endpoint_cache_probe(struct call *call, const struct json_reader *body, struct json *json)
{
    struct probe probe = {.call = call};
    struct gen_request request;

    gen_request_init(&request, call->api->options.request_bytes_max, &call->api->sample);
    enum err err = run(&probe, &request, body, json);
    prepare_fini(&probe.other);
    gen_request_fini(&request);
    mem_free(probe.blocks);
    return err;
}

void endpoint_cache_warm(struct call *call)
{
    struct api_error error = {0};

    if (admin_prompt_take_tenant(call, &error) != ERR_OK)
        call_fail(call, &error);
    else
        call_generate(call);
}

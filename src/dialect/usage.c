/* usage.c: the token counts of a prompt, and the cache fields of an answer. */
#include "dialect/usage.h"

#include <assert.h>

#include "base/clock.h"

uint32_t usage_cached(const struct gen_usage *usage)
{
    uint32_t cached = gen_usage_reused(usage);

    assert(cached + usage->computed == usage->prompt);
    return cached;
}

/* If the request allowed reading but the plan says "disabled", the cache itself is off. */
uint32_t usage_written(const struct answer *answer)
{
    const struct gen_usage *usage = &answer->usage;
    const struct gen_request *request = answer->request;
    bool off = request->cache_read && usage->reason == HEARTH_REASON_DISABLED;

    if (!request->cache_write || off || usage->computed == 0)
        return 0;
    if (request->cache_write_max == 0) /* the last token of each prompt is not written */
        return usage->computed - MIN(usage->computed, (uint32_t)request->more_count + 1);
    uint32_t cached = usage_cached(usage);
    return request->cache_write_max > cached ? request->cache_write_max - cached : 0;
}

/* The lookup knows the exact place, if the earlier prompt is still cached. */
uint32_t usage_missed(const struct answer *answer)
{
    const struct diagnosis *found = &answer->diagnosis;
    uint32_t same = MIN(MAX(answer->usage.first_difference, found->same_min), found->same_max);

    return found->kind == DIAGNOSIS_MODEL ? found->earlier : found->earlier - same;
}

void usage_write_sources(struct json *json, const struct gen_usage *usage)
{
    json_key_uint(json, "device", usage->device);
    json_key_uint(json, "ram", usage->ram);
    json_key_uint(json, "ssd", usage->ssd);
    json_key_uint(json, "remote", usage->remote);
    json_key_uint(json, "computed", usage->computed);
}

/* The time spent loading state, as opposed to computing it (keeps I26). */
static void write_restore(struct json *json, const struct gen_times *times)
{
    const double ms = (double)NS_PER_MS;

    if (times->lookup_ns == 0)
        return;
    json_key_open(json, "restore", '{');
    json_key_float(json, "lookup_ms", (double)times->lookup_ns / ms);
    json_key_float(json, "fetch_ms", (double)times->fetch_ns / ms);
    json_key_float(json, "verify_ms", (double)times->verify_ns / ms);
    json_key_float(json, "import_ms", (double)times->import_ns / ms);
    json_close(json, '}');
}

void usage_write_x_cache(struct json *json, const struct answer *answer)
{
    const struct gen_usage *usage = &answer->usage;

    json_key_open(json, "x_cache", '{');
    usage_write_sources(json, usage);
    json_key_text(json, "match", hearth_match_name(usage->match));
    json_key_text(json, "reason", hearth_reason_name(usage->reason));
    json_key_uint(json, "first_difference", usage->first_difference);
    if (usage->new_conversation)
        json_key_bool(json, "new_conversation", true);
    if (usage->compute_s > 0)
        json_key_float(json, "compute_s", usage->compute_s);
    if (usage->later != GEN_LATER_NONE)
        json_key_text(json, "later_snapshot", gen_later_name(usage->later));
    write_restore(json, &answer->times);
    json_close(json, '}');
    for (size_t i = 0; i < answer->choices_count; i++)
        if (answer->choices[i].unread_call[0] != '\0') {
            json_key_text(json, "x_unread_call", answer->choices[i].unread_call);
            break;
        }
}

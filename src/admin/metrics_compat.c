/*
 * metrics_compat.c: metrics under the names of other servers.
 *
 * Only metrics with the same meaning are included: an empty panel is better than a wrong one.
 * Differences: llama.cpp's prompt_tokens_total excludes reused tokens, vLLM's does not. vLLM has
 * one cache on the device and calls everything else external, and so do these. Its label model_name
 * is the default model, although the figures cover all models.
 */

#include "admin/metrics.h"
#include "base/attr.h"
#include "base/clock.h"

enum { LABELS_BYTES_MAX = 4096 };

/* A figure of the scheduler. */
struct compat_number {
    const char *name, *help;
    enum metric_type type;
    double value;
};

/* A metric of stats.h. */
struct compat_metric {
    const char *name, *help;
    enum stats_id id;
    size_t label;
};

static double per_second(uint64_t tokens, uint64_t ns)
{
    return ns > 0 ? (double)tokens * (double)NS_PER_S / (double)ns : 0;
}

static uint64_t reused_outside(const struct sched_stats *sched)
{
    return sched->tokens_ram + sched->tokens_ssd + sched->tokens_remote;
}

static const struct compat_metric vllm_metrics[] = {
    {"vllm:time_to_first_token_seconds", "Time to first token.", STATS_TTFT, METRIC_ALL},
    {"vllm:inter_token_latency_seconds", "Time between two tokens, its mean, once per generation.",
     STATS_TOKEN, METRIC_ALL},
    {"vllm:e2e_request_latency_seconds", "Time of a call from end to end.", STATS_SECONDS,
     METRIC_ALL},
    {"vllm:request_queue_time_seconds", "Time spent waiting.", STATS_PHASE, STATS_PHASE_QUEUE},
    {"vllm:request_prefill_time_seconds", "Time spent in prefill.", STATS_PHASE,
     STATS_PHASE_PREFILL},
    {"vllm:request_decode_time_seconds", "Time spent decoding.", STATS_PHASE, STATS_PHASE_DECODE},
    {"vllm:request_prompt_tokens", "Prompt tokens of a request.", STATS_LENGTH,
     STATS_LENGTH_PROMPT},
    {"vllm:request_generation_tokens", "Tokens generated for a request.", STATS_LENGTH,
     STATS_LENGTH_GENERATED},
};

bool stats_compat_add(struct str name, unsigned *set)
{
    unsigned bit = str_eq(name, STR("llamacpp")) ? STATS_COMPAT_LLAMACPP
                   : str_eq(name, STR("vllm"))   ? STATS_COMPAT_VLLM
                                                 : 0;

    *set |= bit;
    return bit != 0;
}

static void write_numbers(const struct compat_number *numbers, size_t count, const char *labels,
                          struct buf *out)
{
    for (size_t i = 0; i < count; i++) {
        struct metric_alias alias = {numbers[i].name, numbers[i].help, labels};
        (void)metric_render_number(&alias, numbers[i].type, numbers[i].value, out);
    }
}

static void write_llamacpp(const struct sched_stats *sched, struct buf *out)
{
    uint64_t outside = reused_outside(sched);
    const struct compat_number numbers[] = {
        {"llamacpp:prompt_tokens_total", "Number of prompt tokens processed.", METRIC_COUNTER,
         (double)sched->tokens_computed},
        {"llamacpp:prompt_tokens_cached_total", "Number of prompt tokens that were reused.",
         METRIC_COUNTER, (double)(sched->tokens_device + outside)},
        {"llamacpp:prompt_seconds_total", "Prompt process time.", METRIC_COUNTER,
         (double)sched->prefill_ns / (double)NS_PER_S},
        {"llamacpp:tokens_predicted_total", "Number of generation tokens processed.",
         METRIC_COUNTER, (double)sched->tokens_generated},
        {"llamacpp:tokens_predicted_seconds_total", "Predict process time.", METRIC_COUNTER,
         (double)sched->decode_ns / (double)NS_PER_S},
        {"llamacpp:n_decode_total", "Total number of runs of the engine.", METRIC_COUNTER,
         (double)sched->turns},
        {"llamacpp:prompt_tokens_seconds", "Average prompt throughput in tokens/s.", METRIC_GAUGE,
         per_second(sched->prefill_tokens, sched->prefill_ns)},
        {"llamacpp:predicted_tokens_seconds", "Average generation throughput in tokens/s.",
         METRIC_GAUGE, per_second(sched->decode_tokens, sched->decode_ns)},
        {"llamacpp:requests_processing", "Number of requests processing.", METRIC_GAUGE,
         (double)sched->active},
        {"llamacpp:requests_deferred", "Number of requests deferred.", METRIC_GAUGE,
         (double)sched->queued},
    };

    write_numbers(numbers, COUNT_OF(numbers), "", out);
}

static void write_vllm(const struct sched_stats *sched, const struct metric_set *api,
                       const char *model, struct buf *out)
{
    uint64_t outside = reused_outside(sched);
    const struct compat_number numbers[] = {
        {"vllm:prompt_tokens_total", "Number of prefill tokens, reused ones included.",
         METRIC_COUNTER, (double)sched->tokens_prompt},
        {"vllm:generation_tokens_total", "Number of generation tokens processed.", METRIC_COUNTER,
         (double)sched->tokens_generated},
        {"vllm:prompt_tokens_cached_total", "Number of prompt tokens that were reused.",
         METRIC_COUNTER, (double)(sched->tokens_device + outside)},
        {"vllm:prefix_cache_queries_total", "Tokens looked up on the device.", METRIC_COUNTER,
         (double)sched->tokens_prompt},
        {"vllm:prefix_cache_hits_total", "Tokens found on the device.", METRIC_COUNTER,
         (double)sched->tokens_device},
        {"vllm:external_prefix_cache_queries_total", "Tokens looked up outside of the device.",
         METRIC_COUNTER, (double)(sched->tokens_prompt - sched->tokens_device)},
        {"vllm:external_prefix_cache_hits_total", "Tokens found there.", METRIC_COUNTER,
         (double)outside},
        {"vllm:num_preemptions_total", "Number of preemptions.", METRIC_COUNTER,
         (double)sched->preempted},
        {"vllm:num_requests_running", "Number of requests that run.", METRIC_GAUGE,
         (double)sched->active},
        {"vllm:num_requests_waiting", "Number of requests that wait.", METRIC_GAUGE,
         (double)sched->queued},
        {"vllm:kv_cache_usage_perc", "Part of the cells on the device that is in use; 1 is all.",
         METRIC_GAUGE, sched->cells > 0 ? 1 - (double)sched->cells_free / (double)sched->cells : 0},
    };
    struct buf labels;

    buf_init(&labels, LABELS_BYTES_MAX);
    metric_append_label(&labels, "engine", "0");
    metric_append_label(&labels, "model_name", model);
    write_numbers(numbers, COUNT_OF(numbers), buf_str(&labels), out);
    for (size_t i = 0; i < COUNT_OF(vllm_metrics); i++) {
        struct metric_alias alias = {vllm_metrics[i].name, vllm_metrics[i].help, buf_str(&labels)};
        (void)metric_render_as(api, vllm_metrics[i].id, vllm_metrics[i].label, &alias, out);
    }
    buf_fini(&labels);
}

void stats_compat_write(unsigned set, const struct sched_stats *sched, const struct metric_set *api,
                        const char *model, struct buf *out)
{
    if (set & STATS_COMPAT_LLAMACPP)
        write_llamacpp(sched, out);
    if (set & STATS_COMPAT_VLLM)
        write_vllm(sched, api, model, out);
}

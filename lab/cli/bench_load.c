/*
 * bench_load.c: `hearth bench serve`: requests per second and latencies of a server under load: the
 * given number of clients, each with one request at a time, until all are answered. Prompts differ
 * from their first word on.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/mem.h"
#include "lab/spread.h"
#include "lab/cli/bench.h"

enum { CLIENTS_MAX = 256, TEXT_BYTES_MAX = 64 << 20 };
#define BYTES_PER_TOKEN_UNKNOWN 4.0 /* of English, with current tokenizers */

static const struct sheet_column columns[] = {
    {"concurrency", "clients", 0},
    {"prompt_tokens", "prompt", 0},
    {"generation_tokens", "gen", 0},
    {"requests", "requests", 0},
    {"failed", "failed", 0},
    {"requests_per_s", "req/s", 2},
    {"prompt_tokens_per_s", "prompt tok/s", 0},
    {"generated_tokens_per_s", "gen tok/s", 1},
    {"ttft_ms_p50", "TTFT p50", 1},
    {"ttft_ms_p90", "p90", 1},
    {"ttft_ms_p99", "p99", 1},
    {"gap_ms_p50", "gap p50", 2},
    {"gap_ms_p90", "p90", 2},
    {"gap_ms_p99", "p99", 2},
    {"request_ms_p50", "request p50", 1},
    {"request_ms_p99", "p99", 1},
    {"cached_tokens", "cached", 0},
};

struct load {
    struct bench *bench;
    struct client_url url;
    bool own; /* server */
    double bytes_per_token;
    uint32_t clients, prompt, generation, requests;
    atomic_uint next;
    uint64_t salt;
    struct ask_result *results; /* one per request, each filled by the client that took it */
    bool *answered;
};

static void ask_next(struct load *load, uint32_t index)
{
    const struct bench_options *options = load->bench->options;
    struct errinfo info = {0};
    struct buf text;

    buf_init(&text, TEXT_BYTES_MAX);
    words_append(&text, (size_t)((double)load->prompt * load->bytes_per_token), load->salt + index);
    const struct ask_message message = {options->chat ? "user" : NULL, buf_str(&text)};
    const struct ask ask = {
        .url = &load->url,
        .key = options->key,
        .model = options->name,
        .messages = &message,
        .messages_count = 1,
        .max_tokens = load->generation,
        .timeout_ms = options->timeout_ns / NS_PER_MS,
        .plain = !load->own,
    };
    struct ask_result *result = &load->results[index];
    load->answered[index] = ask_run(&ask, result, &info) == ERR_OK && result->status == 200 &&
                            result->error[0] == '\0' && result->chunks > 0;
    if (result->error[0] == '\0')
        snprintf(result->error, sizeof(result->error), "%.255s", info.text);
    buf_fini(&text);
}

static void client(void *arg)
{
    struct load *load = arg;
    uint32_t index;

    /* Relaxed: each number need only be taken once; results are read after the join. */
    while ((index = atomic_fetch_add_explicit(&load->next, 1, memory_order_relaxed)) <
           load->requests)
        ask_next(load, index);
}

static double run_clients(struct load *load)
{
    struct thread threads[CLIENTS_MAX] = {0};
    uint64_t begin_ns = clock_mono_ns(clock_real());

    atomic_store(&load->next, 0);
    for (uint32_t i = 0; i < load->clients; i++)
        if (thread_start(&threads[i], "client", client, load, NULL) != ERR_OK)
            bench_fail(load->bench, "cannot start a thread for client %u", i);
    for (uint32_t i = 0; i < load->clients; i++)
        thread_join(&threads[i]);
    return (double)(clock_mono_ns(clock_real()) - begin_ns) / (double)NS_PER_S;
}

struct sums {
    size_t good, gaps;
    double prompt, generated, cached;
};

static struct sums add_up(const struct load *load)
{
    struct sums sums = {0};

    for (uint32_t i = 0; i < load->requests; i++) {
        const struct ask_result *result = &load->results[i];
        if (!load->answered[i])
            continue;
        sums.good++;
        sums.gaps += result->gaps_count;
        sums.prompt += (double)MAX(result->prompt, 0);
        sums.generated +=
            (double)(result->generated >= 0 ? result->generated : (int64_t)result->chunks);
        sums.cached += (double)MAX(result->cached, 0);
    }
    return sums;
}

static void add_row(struct load *load, double seconds)
{
    struct sheet *sheet = load->bench->sheet;
    struct sums sums = add_up(load);
    double *ttft = mem_alloc_array(sums.good + 1, sizeof(double)),
           *total = mem_alloc_array(sums.good + 1, sizeof(double));
    double *gaps = mem_alloc_array(sums.gaps + 1, sizeof(double));
    size_t at = 0, gap = 0;

    for (uint32_t i = 0; i < load->requests; i++) {
        const struct ask_result *result = &load->results[i];
        if (!load->answered[i])
            continue;
        ttft[at] = result->ttft_ms;
        total[at++] = result->total_ms;
        for (size_t k = 0; k < result->gaps_count; k++)
            gaps[gap++] = result->gaps_ms[k];
    }
    struct spread first = spread_of(ttft, at), between = spread_of(gaps, gap),
                  whole = spread_of(total, at);
    const double numbers[] = {
        load->clients,
        sums.good > 0 ? sums.prompt / (double)sums.good : 0,
        load->generation,
        load->requests,
        (double)(load->requests - sums.good),
        (double)sums.good / seconds,
        sums.prompt / seconds,
        sums.generated / seconds,
        first.p50,
        first.p90,
        first.p99,
        between.p50,
        between.p90,
        between.p99,
        whole.p50,
        whole.p99,
        sums.cached,
    };
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        sheet_number(sheet, numbers[i]);
    mem_free(ttft);
    mem_free(total);
    mem_free(gaps);
}

static void run_row(struct load *load)
{
    load->results = mem_alloc_array(load->requests, sizeof(*load->results));
    load->answered = mem_alloc_array(load->requests, sizeof(*load->answered));
    double seconds = run_clients(load);
    add_row(load, seconds);
    for (uint32_t i = 0; i < load->requests; i++) {
        if (!load->answered[i] && !load->bench->failed)
            bench_fail(load->bench, "request %u failed: %s", i, load->results[i].error);
        ask_result_fini(&load->results[i]);
    }
    mem_free(load->results);
    mem_free(load->answered);
    load->salt += load->requests;
    bench_step(load->bench);
}

struct lists {
    struct bench_list clients, prompts, generations;
};

static bool read_lists(struct bench *bench, struct lists *lists)
{
    const struct bench_options *options = bench->options;

    if (!bench_numbers(bench, "concurrency", &options->concurrency, &lists->clients) ||
        !bench_numbers(bench, "prompt-tokens", &options->prompts, &lists->prompts) ||
        !bench_numbers(bench, "generation-tokens", &options->generations, &lists->generations))
        return false;
    for (size_t i = 0; i < lists->clients.count; i++)
        if (lists->clients.items[i] > CLIENTS_MAX)
            return bench_fail(bench, "--concurrency %u: the maximum is %d", lists->clients.items[i],
                              CLIENTS_MAX);
    return true;
}

static uint32_t largest(const struct bench_list *list)
{
    uint32_t most = 0;

    for (size_t i = 0; i < list->count; i++)
        most = MAX(most, list->items[i]);
    return most;
}

/* Without a URL: starts a server that has room for all clients. */
static bool start_own(struct load *load, struct server *server, const struct lists *lists)
{
    struct bench *bench = load->bench;
    const char *model = bench_model(bench, bench->options->model);
    uint32_t clients = MIN(largest(&lists->clients), 64);
    uint32_t tokens = largest(&lists->prompts) + largest(&lists->generations) + 256;
    struct errinfo info = {0};
    char state[SERVER_PATH_BYTES + 16];
    const char *more[] = {"--state-dir", state, "--ssd-dir", "none", NULL};

    if (model == NULL)
        return false;
    struct server_setup setup = bench_setup(bench, model, tokens * clients * 5 / 4);
    setup.parallel = clients;
    setup.more = more;
    snprintf(state, sizeof(state), "%s/state", bench->scratch);
    if (server_start_hearth(server, &setup, &info) != ERR_OK)
        return bench_fail(bench, "%s", info.text);
    load->url = server->url;
    load->own = true;
    load->bytes_per_token = bench_bytes_per_token(bench, server);
    sheet_note(bench->sheet, "model %s, %u threads, a private server; all prompts differ",
               file_base_name(model), setup.threads);
    return load->bytes_per_token > 0;
}

static bool use_url(struct load *load)
{
    struct bench *bench = load->bench;
    struct errinfo info = {0};

    load->bytes_per_token = BYTES_PER_TOKEN_UNKNOWN;
    if (client_parse_url(bench->options->url, &load->url, &info) != ERR_OK)
        return bench_fail(bench, "--url %s", info.text);
    sheet_note(bench->sheet, "%s; all prompts differ, four bytes per token", bench->options->url);
    return true;
}

static void run_rows(struct load *load, const struct lists *lists)
{
    size_t rows = lists->clients.count * lists->prompts.count * lists->generations.count;

    /* a server that cached the last run has not seen these */
    load->salt = clock_wall_ns(clock_real());
    bench_expect(load->bench, "asking", rows);
    for (size_t i = 0; i < rows && !load->bench->failed; i++) {
        load->clients = lists->clients.items[i % lists->clients.count];
        load->prompt = lists->prompts.items[i / lists->clients.count % lists->prompts.count];
        load->generation =
            lists->generations.items[i / lists->clients.count / lists->prompts.count];
        load->requests = (uint32_t)MAX(load->bench->options->requests, load->clients);
        run_row(load);
    }
}

static enum cli_exit run(struct bench *bench)
{
    struct load *load = mem_alloc(sizeof(*load));
    struct server server = {.process = NULL};
    struct lists lists;
    enum cli_exit status = CLI_EXIT_OK;

    load->bench = bench;
    if (!read_lists(bench, &lists))
        status = CLI_EXIT_USAGE;
    else if (bench->options->url != NULL ? use_url(load) : start_own(load, &server, &lists))
        run_rows(load, &lists);
    server_kill(&server);
    mem_free(load);
    return status;
}

const struct bench_kind bench_load = {
    .name = "serve",
    .columns = columns,
    .columns_count = COUNT_OF(columns),
    .plot = {.title = "latency under load, ms",
             .labels = {"concurrency", "prompt_tokens", "generation_tokens"},
             .values = {"ttft_ms_p50", "ttft_ms_p99", "gap_ms_p50", "gap_ms_p99"},
             .logarithmic = true},
    .run = run,
};

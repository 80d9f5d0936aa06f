/*
 * bench_prefix.c: `hearth bench prefix`: the cost of a prefix, cold and from every tier.
 *
 *      exact     the same prompt again: one token is computed
 *      nearest   its last tenth is another one
 *      suffix    its last 23 tokens are others, as in mlx-lm's benchmark of prompt caches
 *
 *      server 1  warm-up | A cold | A, A", A' from the device | B | A from RAM | B | A" | B | A'
 *                (the device holds one prompt: B evicts A)
 *      server 2  the same folders after a restart: A;  server 3: A'
 *      server 4  RAM for one prompt only: A | B | A from SSD | B | A' from SSD
 *
 * Each A' has another last tenth, each A" another end. Only A, B and these are ever computed, so
 * that large sizes take no longer than necessary. The rows of the SSD show the disk's speed: the
 * page cache is emptied of the files. After a restart it still has them, as for a user.
 *
 * Each row says where the tokens really came from, whatever the case is called. A hot case that
 * reused nothing is a failure, unless the server says that computing was faster.
 */
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hearth/hearth.h"

#include "base/file.h"
#include "lab/spread.h"
#include "lab/cli/bench.h"

enum {
    STEPS = 18,
    SUFFIX_TOKENS = 23,
    WARM_TOKENS = 1024,
    TEXT_BYTES_MAX = 256 << 20,
    RAM_MIN = 2 << 20,
    ANSWER_ROOM = 320
};

static const struct sheet_column columns[] = {
    {"size", "size", 0},
    {"case", "case", SHEET_TEXT},
    {"prompt", "prompt", 0},
    {"cached", "cached", 0},
    {"device", "device", 0},
    {"ram", "ram", 0},
    {"ssd", "ssd", 0},
    {"replayed", "replayed", 0},
    {"generated", "gen", 0},
    {"ttft_ms", "TTFT ms", 1},
    {"total_ms", "total ms", 1},
    {"ttft_speedup", "TTFT x", 1},
    {"total_speedup", "total x", 1},
    {"lookup_ms", "lookup", 2},
    {"fetch_ms", "fetch", 2},
    {"verify_ms", "verify", 2},
    {"import_ms", "import", 2},
    {"replay_ms", "replay", 2},
    {"ram_mib", "RAM MiB", 1},
    {"process_mib", "process MiB", 1},
    {"match", "match", SHEET_TEXT},
    {"reason", "reason", SHEET_TEXT},
};

static const double MIB = 1 << 20;

struct prefix {
    struct bench *bench;
    struct server server;
    char ssd[SERVER_PATH_BYTES + 64]; /* the server's folder */
    uint32_t size;
    double bytes_per_token;
    double cold_ttft_ms, cold_total_ms;
    uint64_t salt;
};

/* What is different in a prompt: its last tenth, or its last tokens; from another seed. 0 = nothing
 * is. */
struct edit {
    uint64_t seed;
    uint32_t tokens; /* 0 = a tenth */
};

static const struct edit none = {0, 0};

static struct buf prompt(const struct prefix *prefix, uint64_t seed, struct edit edit)
{
    size_t bytes = (size_t)((double)prefix->size * prefix->bytes_per_token),
           tail = edit.seed == 0    ? 0
                  : edit.tokens > 0 ? (size_t)(edit.tokens * prefix->bytes_per_token)
                                    : bytes / 10;
    struct buf text;

    buf_init(&text, TEXT_BYTES_MAX);
    words_append(&text, bytes, seed);
    if (tail > 0 && text.len > tail) {
        buf_truncate(&text, text.len - tail);
        words_append(&text, tail, edit.seed);
    }
    return text;
}

static double known(int64_t count)
{
    return count >= 0 ? (double)count : NAN;
}

static void add_row(struct prefix *prefix, const char *name, const struct ask_result *result)
{
    struct sheet *sheet = prefix->bench->sheet;
    const struct ask_cache *cache = &result->cache;
    const double numbers[] = {
        known(result->prompt),
        known(result->cached),
        known(cache->device),
        known(cache->ram),
        known(cache->ssd),
        known(cache->computed),
        known(result->generated),
        result->ttft_ms,
        result->total_ms,
        prefix->cold_ttft_ms / result->ttft_ms,
        prefix->cold_total_ms / result->total_ms,
        cache->lookup_ms,
        cache->fetch_ms,
        cache->verify_ms,
        cache->import_ms,
        cache->replay_ms,
        server_metric(&prefix->server, "hearth_cache_tier_bytes{tier=\"ram\"}") / MIB,
        server_metric(&prefix->server, "hearth_memory_process_bytes") / MIB,
    };

    sheet_number(sheet, prefix->size);
    sheet_text(sheet, name);
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        sheet_number(sheet, numbers[i]);
    sheet_text(sheet, cache->match);
    sheet_text(sheet, cache->reason);
    bench_tell(prefix->bench, "%u tokens, %s: %.1f ms to the first token, %.1f in all, %.0f cached",
               prefix->size, name, result->ttft_ms, result->total_ms, known(result->cached));
}

/* `name` NULL: only evicts others. */
static bool measure(struct prefix *prefix, const char *name, uint64_t seed, struct edit edit)
{
    struct ask_result result;
    struct buf text = prompt(prefix, seed, edit);
    bool cold = name != NULL && strcmp(name, "cold") == 0;
    const struct ask_message prompt = {NULL, buf_str(&text)};
    bool good = bench_ask(prefix->bench, &prefix->server.url, &prompt, 1,
                          (uint32_t)prefix->bench->options->generate, &result);

    if (good && cold) {
        prefix->cold_ttft_ms = result.ttft_ms;
        prefix->cold_total_ms = result.total_ms;
    }
    if (good && name != NULL)
        add_row(prefix, name, &result);
    bool chosen = strcmp(result.cache.reason, hearth_reason_name(HEARTH_REASON_CHEAPER)) == 0;
    if (good && name != NULL && !cold && !chosen && result.cached <= 0)
        bench_fail(prefix->bench, "%u tokens, %s: nothing was reused (%s)", prefix->size, name,
                   result.cache.reason);
    buf_fini(&text);
    ask_result_fini(&result);
    if (good)
        server_wait_idle(&prefix->server);
    bench_step(prefix->bench);
    return good;
}

static int drop_pages(const char *path, const struct stat *st, int type, struct FTW *at)
{
    const struct file_sys *fs = file_sys_real();
    int fd;

    (void)st;
    (void)at;
    if (type != FTW_F || file_open_at(fs, AT_FDCWD, path, O_RDONLY, 0, &fd, NULL) != ERR_OK)
        return 0;
    (void)!posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    file_close(fs, &fd);
    return 0;
}

static bool measure_disk(struct prefix *prefix, const char *name, uint64_t seed, struct edit edit)
{
    enum { HANDLES = 16 };

    sync(); /* pages that were not written yet cannot be dropped */
    if (nftw(prefix->ssd, drop_pages, HANDLES, FTW_PHYS) != 0)
        return bench_fail(prefix->bench, "%s cannot be listed", prefix->ssd);
    return measure(prefix, name, seed, edit);
}

static bool start(struct prefix *prefix, const char *model, uint64_t ram_bytes)
{
    struct bench *bench = prefix->bench;
    char state[SERVER_PATH_BYTES + 64], ram[32];
    const char *more[] = {"--state-dir", state,         "--ssd-dir", prefix->ssd, "--ssd-free",
                          "1MiB",        "--ram-cache", ram,         NULL};
    struct errinfo info = {0};
    /* Room for one and a quarter: a second prompt evicts the first. */
    struct server_setup setup = bench_setup(bench, model,
                                            prefix->size + prefix->size / 4 + ANSWER_ROOM +
                                                (uint32_t)bench->options->generate);

    setup.more = more;
    snprintf(state, sizeof(state), "%s/%u-state", bench->scratch, prefix->size);
    snprintf(prefix->ssd, sizeof(prefix->ssd), "%s/%u-ssd", bench->scratch, prefix->size);
    snprintf(ram, sizeof(ram), "%llu", (unsigned long long)ram_bytes);
    if (server_start_hearth(&prefix->server, &setup, &info) != ERR_OK)
        return bench_fail(bench, "%s", info.text);
    if (prefix->bytes_per_token == 0)
        prefix->bytes_per_token = bench_bytes_per_token(bench, &prefix->server);
    return prefix->bytes_per_token > 0;
}

static bool stop(struct prefix *prefix)
{
    struct errinfo info = {0};

    if (server_stop(&prefix->server, &info) != ERR_OK)
        return bench_fail(prefix->bench, "%s", info.text);
    sync(); /* the next server does not compete with the system that writes for this one */
    return true;
}

/* The first prompt of a process compiles shaders and loads kernels: a cold row that includes it
 * would make every other row look better than it is. */
static bool warm_up(struct prefix *prefix)
{
    uint32_t size = prefix->size;

    prefix->size = MIN(size, WARM_TOKENS);
    bool good = measure(prefix, NULL, ++prefix->salt, none);
    prefix->size = size;
    return good;
}

static bool run_size(struct prefix *prefix, const char *model)
{
    const struct edit end1 = {111, SUFFIX_TOKENS}, end2 = {112, SUFFIX_TOKENS};
    uint64_t a = ++prefix->salt, b = ++prefix->salt;

    if (!start(prefix, model, 0) || !warm_up(prefix) || !measure(prefix, "cold", a, none))
        return false;
    double held = server_metric(&prefix->server, "hearth_cache_budget_bytes");
    uint64_t one = MAX((uint64_t)(held > 0 ? held * 1.2 : 0), RAM_MIN);
    return measure(prefix, "device, exact", a, none) &&
           measure(prefix, "device, suffix", a, end1) &&
           measure(prefix, "device, nearest", a, (struct edit){101, 0}) &&
           measure(prefix, NULL, b, none) && measure(prefix, "ram, exact", a, none) &&
           measure(prefix, NULL, b, none) && measure(prefix, "ram, suffix", a, end2) &&
           measure(prefix, NULL, b, none) &&
           measure(prefix, "ram, nearest", a, (struct edit){102, 0}) && stop(prefix) &&
           start(prefix, model, 0) && measure(prefix, "restart, exact", a, none) && stop(prefix) &&
           start(prefix, model, 0) &&
           measure(prefix, "restart, nearest", a, (struct edit){103, 0}) && stop(prefix) &&
           start(prefix, model, one) && measure(prefix, NULL, a, none) &&
           measure(prefix, NULL, b, none) && measure_disk(prefix, "ssd, exact", a, none) &&
           measure(prefix, NULL, b, none) &&
           measure_disk(prefix, "ssd, nearest", a, (struct edit){104, 0}) && stop(prefix);
}

static enum cli_exit run(struct bench *bench)
{
    struct prefix prefix = {.bench = bench};
    struct bench_list sizes = {0};
    const char *model;

    if (!bench_numbers(bench, "size", &bench->options->sizes, &sizes))
        return CLI_EXIT_USAGE;
    if ((model = bench_model(bench, bench->options->model)) == NULL)
        return CLI_EXIT_FAILURE;
    struct server_setup setup = bench_setup(bench, model, 0);
    sheet_note(bench->sheet,
               "model %s, %u threads, chunks of %u; times in ms as the client sees them, lookup to "
               "replay as the server does",
               file_base_name(model), setup.threads, setup.chunk);
    sheet_note(bench->sheet,
               "exact: the same prompt again; suffix: its last %d tokens are others (mlx-lm's "
               "nearest); nearest: its last tenth is another; fetch is mlx-lm's copy, import its "
               "restore",
               SUFFIX_TOKENS);
    for (size_t i = 0; i < sizes.count && !bench->failed; i++) {
        char label[40];
        prefix.size = sizes.items[i];
        snprintf(label, sizeof(label), "%u tokens", prefix.size);
        bench_expect(bench, label, STEPS);
        run_size(&prefix, model);
        server_kill(&prefix.server);
    }
    return CLI_EXIT_OK;
}

const struct bench_kind bench_prefix = {
    .name = "prefix",
    .columns = columns,
    .columns_count = COUNT_OF(columns),
    .plot = {.title = "time to the first token of a prefix, by where it comes from",
             .labels = {"size", "case"},
             .values = {"ttft_ms"},
             .logarithmic = true},
    .run = run,
};

/*
 * replay.c: `hearth replay`: traces against the real cache, without a model.
 *
 * Reads all files into one trace, replays it once per policy and capacity, and writes the results. See
 * src/lab/trace.h and docs/replay-traces.md. With --model, bytes and kinds are those of a file, and
 * text is tokenised with its vocabulary.
 *
 * Exit status: 0; 1 when something failed, or when --margin was given and a policy fell below lru-
 * tail by more; 2 for a usage error.
 */
#include <stdio.h>
#include <string.h>

#include <hearth/hearth.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/units.h"
#include "cache/policy.h"
#include "cli/cli.h"
#include "cli/model_settings.h"
#include "lab/cli/lab.h"
#include "lab/cli/sheets.h"
#include "engine/engine.h"
#include "lab/trace_read.h"
#include "lab/trace_sim.h"
#include "lab/trace.h"

enum {
    FILES_MAX = 100000,
    SPARSE_TOKENS = 8192, /* default: the grid of the scheduler */
    DENSE_TOKENS = 2048,
    RUN_TOKENS = 2048, /* default: that of the cache */
    TEXT_BYTES = 256,
    CAPACITIES_DEFAULT = 4, /* 1/64, 1/16, 1/4 and all of the distinct blocks */
};

struct replay_options {
    struct option_list policies, blocks, tokens, bytes;
    uint64_t users, agents, seed, run_tokens, block_tokens, snapshot_tokens, snapshot_bytes;
    int place; /* enum sim_place */
    const char *preset, *model;
    double prefill, bandwidth, margin;
    bool best, compare;
    struct sheet_outputs outputs;
    struct model_settings load;
};

#define AT(field) offsetof(struct replay_options, field)

static const struct option_desc options_table[] = {
    {"policy", 'p', OPTION_LIST, AT(policies), .value = "NAME",
     .initial = "lru-tail,expected-reuse,opt", .commas = true, HERE, .group = "Comparison",
     .help = "Eviction policy: expected-reuse, saving-per-byte (no better than lru-tail), "
             "lru-tail, or opt (knows the future)."},
    {"blocks", 0, OPTION_LIST, AT(blocks), .value = "N", .commas = true, HERE,
     .help = "Capacity in blocks of the trace; default: 1/64, 1/16, 1/4 and all of the distinct "
             "blocks."},
    {"tokens", 0, OPTION_LIST, AT(tokens), .value = "N", .commas = true, HERE,
     .help = "Capacity in tokens."},
    {"bytes", 0, OPTION_LIST, AT(bytes), .value = "SIZE", .commas = true, HERE,
     .help = "Capacity in bytes of the whole cache, including metadata and fragmentation."},
    {"snapshots", 0, OPTION_ENUM, AT(place), .value = "WHERE", .initial = "policy",
     .names = sim_place_names, HERE,
     .help = "Where models that need snapshots get them: by policy, densely, or only at the end of "
             "prompts."},
    {"snapshot-tokens", 0, OPTION_UINT, AT(snapshot_tokens), .value = "N", .max = TRACE_TOKENS_MAX,
     HERE, .help = "Tokens between dense snapshots (2048), or of the policy's grid (8192)."},
    {"snapshot-bytes", 0, OPTION_SIZE, AT(snapshot_bytes), .value = "SIZE", HERE,
     .help = "Evict snapshots beyond this size; 0 = no limit but the capacity."},
    {"best", 0, OPTION_FLAG, AT(best), HERE,
     .help = "Also compute the best snapshot positions in hindsight."},
    {"compare-snapshots", 0, OPTION_FLAG, AT(compare), HERE,
     .help = "Compare a snapshot every 2048 tokens with the policy's, without a limit and with a "
             "tenth and a twentieth of those bytes."},
    {"margin", 0, OPTION_FLOAT, AT(margin), .value = "POINTS", .fmax = 100, HERE,
     .help = "Fail if the hit rate of a policy is more than this many points below lru-tail; 0 = "
             "do not check."},
    {"users", 'u', OPTION_UINT, AT(users), .value = "N", .initial = "1", .min = 1, .max = 1000000,
     HERE, .group = "Workload",
     .help = "Simulate this many users, each replaying the trace at different times."},
    {"seed", 's', OPTION_UINT, AT(seed), .value = "N", .initial = "1", HERE,
     .help = "Random seed of --users and --agents."},
    {"agents", 0, OPTION_UINT, AT(agents), .value = "N", .max = 100000, HERE,
     .help = "Add this many generated sessions of coding agents: 43 turns, 142,000 tokens and 444 "
             "generated ones at the median, subagents in 44 % of them."},
    {"block-tokens", 0, OPTION_UINT, AT(block_tokens), .value = "N", .initial = "64", .min = 1,
     .max = 65536, HERE,
     .help = "Tokens per block for text traces; other traces define their own."},
    {"run-tokens", 0, OPTION_UINT, AT(run_tokens), .value = "N", .max = TRACE_TOKENS_MAX, HERE,
     .help = "Maximum tokens kept and evicted as one object; 0 = one block, or 2048 where "
             "snapshots are needed."},
    {"preset", 0, OPTION_TEXT, AT(preset), .value = "NAME", .initial = "llama-8b", HERE,
     .group = "What state costs",
     .help = "llama-8b, qwen3-0.6b, hybrid-1b, sliding-1b or mamba-1b."},
    {"model", 'm', OPTION_TEXT, AT(model), .value = "FILE", HERE,
     .help = "Model file to take layer kinds, sizes and vocabulary from."},
    {"prefill", 0, OPTION_FLOAT, AT(prefill), .value = "TOKENS/S", .fmax = 1e9, HERE,
     .help = "Prefill speed in tokens/s; 0 = the preset's."},
    {"bandwidth", 0, OPTION_FLOAT, AT(bandwidth), .value = "GB/S", .fmax = 1e6, HERE,
     .help = "Import bandwidth from memory; 0 = the preset's."},
    SHEET_OUTPUT_OPTIONS(struct replay_options, outputs),
    MODEL_SETTINGS_OPTIONS(struct replay_options, load),
};

struct capacity {
    uint64_t bytes, blocks; /* blocks 0: of the whole cache */
};

/* One way to place snapshots, for --compare-snapshots; the first one is the measure. */
static const struct variant {
    const char *suffix;
    enum sim_place place;
    uint32_t tokens;
    uint32_t part; /* of the bytes of the first one; 0 = all it needs */
} variants[] = {
    {", dense", SIM_PLACE_DENSE, DENSE_TOKENS, 0},
    {"", SIM_PLACE_POLICY, SPARSE_TOKENS, 0},
    {", 1/10", SIM_PLACE_POLICY, SPARSE_TOKENS, 10},
    {", 1/20", SIM_PLACE_POLICY, SPARSE_TOKENS, 20},
};

/* The result of a policy at a capacity. */
struct row {
    const char *policy;
    const struct variant *variant; /* NULL: as the options say */
    struct capacity capacity;
    struct sim_result result;
};

struct replay {
    struct cli *cli;
    const struct replay_options *options;
    struct engine *engine; /* NULL = a preset */
    struct cost cost;
    struct trace trace;
    uint32_t blocks_distinct;
    char files[TEXT_BYTES];
    struct capacity *capacities;
    size_t capacities_count;
    struct row *rows;
    size_t rows_count, runs;
    struct progress *progress;
    struct place_result best;
};

/* ---- what state costs ---- */

static enum cli_exit load_cost(struct replay *replay)
{
    const struct replay_options *options = replay->options;
    const struct cost *preset = cost_find(options->preset);
    double seconds;

    if (preset == NULL)
        return cli_usage_error(replay->cli, "there is no preset \"%s\"", options->preset);
    replay->cost = *preset;
    if (options->model != NULL) {
        enum cli_exit status =
            cli_load_model(replay->cli, &options->load, options->model, &replay->engine, &seconds);
        if (status != CLI_EXIT_OK)
            return status;
        const struct engine_facts *facts = engine_facts(replay->engine);
        bool whole = facts->slicing == ENGINE_SLICING_WHOLE;
        replay->cost.name = facts->name;
        replay->cost.kinds = whole ? HEARTH_KIND_RECURRENT : facts->kinds;
        replay->cost.rows_bytes_per_token = facts->rows_bytes_per_token;
        replay->cost.snapshot_bytes = facts->snapshot_bytes_max;
    }
    if (options->prefill > 0)
        replay->cost.prefill_tokens_per_s = options->prefill;
    if (options->bandwidth > 0)
        replay->cost.import_bytes_per_s = options->bandwidth * 1e9;
    return CLI_EXIT_OK;
}

/* ---- the trace ---- */

static enum err tokenize(struct str text, int32_t **tokens, size_t *count, struct errinfo *info,
                         void *arg)
{
    const struct engine *engine = arg;
    size_t max = text.len + 8; /* no token is shorter than a byte; BOS and the like come on top */

    *tokens = mem_try_alloc_array(max, sizeof(**tokens));
    if (*tokens == NULL)
        return ERR_NOMEM;
    return engine_tokenize(engine, text, ENGINE_TOKENIZE_BOS | ENGINE_TOKENIZE_CONTROL, *tokens,
                           max, count, info);
}

static enum cli_exit read_files(struct replay *replay)
{
    const struct cli *cli = replay->cli;

    if (cli->args_count == 0 && replay->options->agents == 0)
        return cli_usage_error(cli, "name a trace, or use --agents");
    struct read_options options = {.fs = cli->setup->fs,
                                   .block_tokens = (uint32_t)replay->options->block_tokens,
                                   .tokenize = replay->engine ? tokenize : NULL,
                                   .arg = replay->engine};
    enum read_format format = READ_FORMAT_COUNT;
    struct errinfo info = {0};
    struct progress *progress = cli_progress(cli, "reading traces", PROGRESS_UNIT_NONE);
    enum err err = ERR_OK;

    for (size_t i = 0; err == ERR_OK && i < cli->args_count; i++) {
        err = trace_read(&replay->trace, cli->args[i], &options, &format, &info);
        progress_update(progress, i + 1, cli->args_count);
    }
    if (err == ERR_OK && replay->options->agents > 0)
        err = trace_make_agents(&replay->trace, (uint32_t)replay->options->agents,
                                replay->options->seed, &info);
    if (err == ERR_OK && replay->trace.requests_count == 0)
        err = err_set(&info, ERR_INVALID, "the trace has no requests");
    progress_finish(&progress, err == ERR_OK);
    if (err != ERR_OK)
        return cli_error(replay->cli, "%s", info.text);
    if (cli->args_count == 0)
        snprintf(replay->files, sizeof(replay->files), "agents: %llu generated sessions",
                 (unsigned long long)replay->options->agents);
    else
        snprintf(replay->files, sizeof(replay->files), "%s: %s%s", read_format_names[format],
                 file_base_name(cli->args[0]), cli->args_count > 1 ? " and others" : "");
    return CLI_EXIT_OK;
}

static enum cli_exit make_load(struct replay *replay)
{
    const struct replay_options *options = replay->options;
    struct errinfo info = {0};

    trace_sort(&replay->trace);
    if (options->users > 1 &&
        trace_multiply(&replay->trace, (uint32_t)options->users, options->seed, &info) != ERR_OK)
        return cli_error(replay->cli, "%s", info.text);
    replay->blocks_distinct = replay->trace.ids_end;
    return CLI_EXIT_OK;
}

/* ---- capacities ---- */

static void add_capacity(struct replay *replay, uint64_t bytes, uint64_t blocks)
{
    replay->capacities[replay->capacities_count++] = (struct capacity){bytes, blocks};
}

/* Bytes of a block of the trace; a snapshot where there are no rows. */
static uint64_t block_bytes(const struct replay *replay)
{
    uint64_t rows = replay->cost.rows_bytes_per_token * replay->trace.block_tokens;

    return rows ? rows : replay->cost.snapshot_bytes;
}

static enum cli_exit add_counts(struct replay *replay, const struct option_list *list,
                                uint32_t divisor)
{
    for (size_t i = 0; i < list->count; i++) {
        uint64_t count;
        if (!str_to_u64(str_from(list->items[i]), &count) || count / divisor == 0 ||
            count / divisor > (UINT64_C(1) << 50) / block_bytes(replay))
            return cli_usage_error(replay->cli, "\"%s\" is not a capacity of at least one block",
                                   list->items[i]);
        add_capacity(replay, count / divisor * block_bytes(replay), count / divisor);
    }
    return CLI_EXIT_OK;
}

static enum cli_exit add_sizes(struct replay *replay, const struct option_list *list)
{
    struct errinfo info = {0};

    for (size_t i = 0; i < list->count; i++) {
        uint64_t bytes;
        if (units_parse_size(str_from(list->items[i]), replay->cli->setup->memory_bytes, &bytes,
                             &info) != ERR_OK)
            return cli_usage_error(replay->cli, "%s", info.text);
        add_capacity(replay, bytes, 0);
    }
    return CLI_EXIT_OK;
}

static enum cli_exit find_capacities(struct replay *replay)
{
    const struct replay_options *options = replay->options;
    size_t count = options->blocks.count + options->tokens.count + options->bytes.count;

    replay->capacities =
        mem_alloc_array(MAX(count, CAPACITIES_DEFAULT), sizeof(*replay->capacities));
    for (int i = 0; count == 0 && i < CAPACITIES_DEFAULT; i++) {
        uint64_t blocks = MAX(replay->blocks_distinct >> 2 * (CAPACITIES_DEFAULT - 1 - i), 1);
        add_capacity(replay, blocks * block_bytes(replay), blocks);
    }
    enum cli_exit status = add_counts(replay, &options->blocks, 1);
    if (status == CLI_EXIT_OK)
        status = add_counts(replay, &options->tokens, replay->trace.block_tokens);
    return status == CLI_EXIT_OK ? add_sizes(replay, &options->bytes) : status;
}

/* ---- replaying ---- */

static void show_progress(size_t done, size_t total, void *arg)
{
    struct replay *replay = arg;

    progress_update(replay->progress, replay->rows_count * total + done, replay->runs * total);
}

static uint32_t place_tokens(const struct replay *replay)
{
    const struct replay_options *options = replay->options;

    if (options->snapshot_tokens > 0)
        return (uint32_t)options->snapshot_tokens;
    return options->place == SIM_PLACE_DENSE ? DENSE_TOKENS : SPARSE_TOKENS;
}

static uint32_t run_blocks(const struct replay *replay)
{
    uint64_t tokens = replay->options->run_tokens;

    if (tokens == 0 && cost_needs_snapshot(&replay->cost))
        tokens = RUN_TOKENS; /* the unit for the value of a snapshot */
    return (uint32_t)MAX(tokens / replay->trace.block_tokens, 1);
}

static enum err run_one(struct replay *replay, const char *policy, const struct capacity *capacity,
                        const struct variant *variant, struct errinfo *info)
{
    struct row *row = &replay->rows[replay->rows_count];
    struct sim_options options = {
        .policy = policy,
        .capacity_bytes = capacity->bytes,
        .whole = capacity->blocks == 0,
        .cost = &replay->cost,
        .run_blocks = run_blocks(replay),
        .place = (enum sim_place)replay->options->place,
        .place_tokens = place_tokens(replay),
        .snapshot_bytes = replay->options->snapshot_bytes,
        .fn = show_progress,
        .arg = replay,
    };

    if (variant != NULL) {
        const struct sim_result *dense = &row[-(variant - variants)].result;
        options.snapshot_bytes = 0;
        options.place = variant->place;
        options.place_tokens = variant->tokens;
        if (variant->part > 0)
            options.snapshot_bytes = MAX(dense->snapshot_bytes_max / variant->part, 1);
    }
    *row = (struct row){.policy = policy, .variant = variant, .capacity = *capacity};
    TRY(sim_run(&replay->trace, &options, &row->result, info));
    replay->rows_count++;
    return ERR_OK;
}

static enum err find_best(struct replay *replay, struct errinfo *info)
{
    const struct cost *cost = &replay->cost;
    uint64_t price = cost->rows_bytes_per_token ? cost->snapshot_bytes / cost->rows_bytes_per_token
                                                : replay->trace.block_tokens;
    enum err err = place_best(&replay->trace, price, &replay->best);

    return err == ERR_OK ? ERR_OK : err_set(info, err, "the best placement: %s", err_sentence(err));
}

static enum err run_variants(struct replay *replay, const char *policy,
                             const struct capacity *capacity, struct errinfo *info)
{
    if (!replay->options->compare)
        return run_one(replay, policy, capacity, NULL, info);
    for (size_t i = 0; i < COUNT_OF(variants); i++)
        TRY(run_one(replay, policy, capacity, &variants[i], info));
    return ERR_OK;
}

static enum cli_exit run_all(struct replay *replay)
{
    const struct option_list *policies = &replay->options->policies;
    struct cli *cli = replay->cli;
    struct errinfo info = {0};
    enum err err = ERR_OK;

    replay->runs = policies->count * replay->capacities_count *
                   (replay->options->compare ? COUNT_OF(variants) : 1);
    replay->rows = mem_alloc_array(MAX(replay->runs, 1), sizeof(*replay->rows));
    replay->progress = cli_progress(cli, "replaying", PROGRESS_UNIT_NONE);
    for (size_t i = 0; err == ERR_OK && i < policies->count; i++)
        for (size_t j = 0; err == ERR_OK && j < replay->capacities_count; j++)
            err = run_variants(replay, policies->items[i], &replay->capacities[j], &info);
    if (err == ERR_OK && replay->options->best)
        err = find_best(replay, &info);
    progress_finish(&replay->progress, err == ERR_OK);
    return err == ERR_OK ? CLI_EXIT_OK : cli_error(replay->cli, "%s", info.text);
}

static enum cli_exit check_policies(const struct replay *replay)
{
    const struct option_list *policies = &replay->options->policies;
    enum policy policy;

    for (size_t i = 0; replay->options->compare && i < policies->count; i++)
        if (strcmp(policies->items[i], SIM_OPT) == 0)
            return cli_usage_error(
                replay->cli, "opt does not support snapshots: choose other policies with --policy");
    for (size_t i = 0; i < policies->count; i++)
        if (strcmp(policies->items[i], SIM_OPT) != 0 && !policy_find(policies->items[i], &policy))
            return cli_usage_error(replay->cli, "there is no policy \"%s\"", policies->items[i]);
    return CLI_EXIT_OK;
}

/* ---- results ---- */

static const struct sheet_column columns[] = {
    {"policy", "policy", SHEET_TEXT},
    {"capacity", "capacity", SHEET_CAPTION}, /* as given */
    {"capacity_bytes", NULL, 0},
    {"capacity_blocks", NULL, 0},
    {"token_hit_rate", "tokens", SHEET_PERCENT},
    {"block_hit_rate", "blocks", SHEET_PERCENT},
    {"tokens", NULL, 0},
    {"tokens_computed", "computed", SHEET_COUNT},
    {"evictions", "evictions", SHEET_COUNT},
    {"refused", NULL, 0},
    {"ttft_s_mean", "TTFT s", 3},
    {"ttft_s_p50", "p50", 3},
    {"ttft_s_p99", "p99", 3},
    {"seconds", NULL, 3},
    /* Where snapshots are needed. */
    {"snapshots", "snapshots", SHEET_COUNT},
    {"snapshot_bytes", "written", SHEET_SIZE},
    {"snapshot_bytes_max", "held at most", SHEET_SIZE},
    {"snapshot_bytes_live_max", "live at most", SHEET_SIZE},
};
enum { COLUMNS_SNAPSHOTS = 4 };

static const struct plot plot = {.kind = PLOT_LINES,
                                 .title = "token hit rate over capacity",
                                 .series = "policy",
                                 .x = "capacity_bytes",
                                 .tick = "capacity",
                                 .y = "token_hit_rate",
                                 .logarithmic = true};

static void note_trace(const struct replay *replay, struct sheet *sheet)
{
    const struct trace *trace = &replay->trace;
    struct trace_sums sums = trace_sum(trace);
    char requests[UNITS_TEXT_BYTES], blocks[UNITS_TEXT_BYTES], distinct[UNITS_TEXT_BYTES],
        span[UNITS_TEXT_BYTES];
    char users[64] = "";

    if (replay->options->users > 1)
        snprintf(users, sizeof(users), "; %u users, seed %llu", (unsigned)replay->options->users,
                 (unsigned long long)replay->options->seed);
    sheet_note(sheet, "%s: %s requests in %s, %s blocks of %u tokens, %s of them distinct%s",
               replay->files, units_format_count(trace->requests_count, requests),
               units_format_duration(sums.ns, span), units_format_count(sums.blocks, blocks),
               trace->block_tokens, units_format_count(replay->blocks_distinct, distinct), users);
    sheet_fact_text(sheet, "files", replay->files);
    sheet_fact_number(sheet, "requests", (double)trace->requests_count);
    sheet_fact_number(sheet, "blocks", (double)sums.blocks);
    sheet_fact_number(sheet, "blocks_distinct", replay->blocks_distinct);
    sheet_fact_number(sheet, "tokens", (double)sums.tokens);
    sheet_fact_number(sheet, "block_tokens", trace->block_tokens);
    sheet_fact_number(sheet, "run_blocks", run_blocks(replay));
    sheet_fact_number(sheet, "users", (double)replay->options->users);
    sheet_fact_number(sheet, "seed", (double)replay->options->seed);
    sheet_fact_number(sheet, "span_s", (double)sums.ns / (double)NS_PER_S);
}

/* A record also has the result of the server itself. */
static void note_recorded(const struct replay *replay, struct sheet *sheet)
{
    const struct trace_recorded *recorded = &replay->trace.recorded;
    double rate =
        recorded->tokens > 0 ? (double)recorded->tokens_hit / (double)recorded->tokens : 0;

    if (recorded->lost > 0)
        sheet_note(sheet, "%llu requests are missing from the recording",
                   (unsigned long long)recorded->lost);
    if (recorded->requests == 0)
        return;
    sheet_note(sheet, "as recorded, the server reused %.2f%% of the tokens", 100 * rate);
    sheet_fact_number(sheet, "recorded_lost", (double)recorded->lost);
    sheet_fact_number(sheet, "recorded_tokens_hit", (double)recorded->tokens_hit);
    sheet_fact_number(sheet, "recorded_token_hit_rate", rate);
}

static void note_cost(const struct replay *replay, struct sheet *sheet)
{
    const struct cost *cost = &replay->cost;
    char rows[UNITS_TEXT_BYTES], snapshot[UNITS_TEXT_BYTES];

    sheet_note(sheet,
               "%s: %s of rows per token, %s per snapshot, %.0f tokens/s of prefill, %.1f GB/s",
               cost->name, units_format_size(cost->rows_bytes_per_token, rows),
               units_format_size(cost->snapshot_bytes, snapshot), cost->prefill_tokens_per_s,
               cost->import_bytes_per_s / 1e9);
    sheet_fact_text(sheet, "model", cost->name);
    if (cost_needs_snapshot(cost)) {
        sheet_note(sheet, "snapshots: %s, every %u tokens", sim_place_names[replay->options->place],
                   place_tokens(replay));
        sheet_fact_text(sheet, "snapshot_placement", sim_place_names[replay->options->place]);
        sheet_fact_number(sheet, "snapshot_tokens", place_tokens(replay));
    }
    if (replay->options->best) {
        double rate = (double)replay->best.tokens_saved / (double)trace_sum(&replay->trace).tokens;
        sheet_note(sheet, "best placement in hindsight: %llu snapshots, %.2f%% of tokens",
                   (unsigned long long)replay->best.snapshots, 100 * rate);
        sheet_fact_number(sheet, "best_snapshots", (double)replay->best.snapshots);
        sheet_fact_number(sheet, "best_token_hit_rate", rate);
    }
}

/* What a part of the bytes is worth. */
static void note_variant(struct sheet *sheet, const struct row *row)
{
    if (row->variant == NULL || row->variant->part == 0)
        return;
    const struct sim_result *dense = &row[-(row->variant - variants)].result;
    if (dense->snapshot_bytes_max == 0 || dense->tokens_hit == 0)
        return; /* all prompts are too short */
    sheet_note(sheet, "%s%s: %.1f%% of the bytes of one snapshot per %u tokens, %.1f%% of its hits",
               row->policy, row->variant->suffix,
               100.0 * (double)row->result.snapshot_bytes_max / (double)dense->snapshot_bytes_max,
               DENSE_TOKENS, 100 * sim_hit_rate(&row->result) / sim_hit_rate(dense));
}

static void add_row(struct sheet *sheet, const struct row *row, bool snapshots)
{
    const struct sim_result *result = &row->result;
    uint64_t blocks = row->capacity.blocks;
    char capacity[UNITS_TEXT_BYTES], name[64];
    const double numbers[] = {
        (double)row->capacity.bytes,
        (double)blocks,
        sim_hit_rate(result),
        sim_block_hit_rate(result),
        (double)result->tokens,
        (double)(result->tokens - result->tokens_hit),
        (double)result->evictions,
        (double)result->refused,
        result->ttft_s_mean,
        result->ttft_s_p50,
        result->ttft_s_p99,
        result->seconds,
        (double)result->snapshots,
        (double)result->snapshot_bytes,
        (double)result->snapshot_bytes_max,
        (double)result->snapshot_bytes_live_max,
    };

    snprintf(name, sizeof(name), "%s%s", row->policy, row->variant ? row->variant->suffix : "");
    sheet_text(sheet, name);
    sheet_text(sheet, blocks ? units_format_count(blocks, capacity)
                             : units_format_size(row->capacity.bytes, capacity));
    for (size_t i = 0; i < COUNT_OF(numbers) - (snapshots ? 0 : COLUMNS_SNAPSHOTS); i++)
        sheet_number(sheet, numbers[i]);
}

static enum cli_exit write_results(struct replay *replay)
{
    bool snapshots = cost_needs_snapshot(&replay->cost);
    struct sheet *sheet =
        sheet_create(columns, COUNT_OF(columns) - (snapshots ? 0 : COLUMNS_SNAPSHOTS));

    cli_note_machine(replay->cli, sheet);
    note_trace(replay, sheet);
    note_recorded(replay, sheet);
    note_cost(replay, sheet);
    for (size_t i = 0; i < replay->rows_count; i++)
        note_variant(sheet, &replay->rows[i]);
    for (size_t i = 0; i < replay->rows_count; i++)
        add_row(sheet, &replay->rows[i], snapshots);
    enum cli_exit status = cli_write_sheet(replay->cli, &replay->options->outputs, sheet, &plot);
    sheet_destroy(&sheet);
    return status;
}

static const struct row *lru_of(const struct replay *replay, const struct row *row)
{
    for (size_t i = 0; i < replay->rows_count; i++) {
        const struct row *other = &replay->rows[i];
        if (strcmp(other->policy, policy_names[POLICY_LRU_TAIL]) == 0 &&
            other->capacity.bytes == row->capacity.bytes &&
            other->capacity.blocks == row->capacity.blocks)
            return other;
    }
    return NULL;
}

/* For regression checks: whether all policies are as good as the simplest, within the margin. */
static enum cli_exit check_margin(const struct replay *replay)
{
    double margin = replay->options->margin;
    enum cli_exit status = CLI_EXIT_OK;

    for (size_t i = 0; margin > 0 && i < replay->rows_count; i++) {
        const struct row *row = &replay->rows[i], *lru = lru_of(replay, row);
        double below = lru ? 100 * (sim_hit_rate(&lru->result) - sim_hit_rate(&row->result)) : 0;
        if (below <= margin)
            continue;
        cli_error(replay->cli, "%s is %.2f points below lru-tail at %llu bytes", row->policy, below,
                  (unsigned long long)row->capacity.bytes);
        status = CLI_EXIT_FAILURE;
    }
    return status;
}

static enum cli_exit run(struct cli *cli, const void *options)
{
    static enum cli_exit (*const steps[])(struct replay *) = {
        load_cost, read_files, make_load, find_capacities, run_all, write_results,
    };
    struct replay replay = {.cli = cli, .options = options};
    enum cli_exit status = check_policies(&replay);

    trace_init(&replay.trace);
    for (size_t i = 0; status == CLI_EXIT_OK && i < COUNT_OF(steps); i++)
        status = steps[i](&replay);
    if (status == CLI_EXIT_OK)
        status = check_margin(&replay);
    trace_fini(&replay.trace);
    mem_free(replay.capacities);
    mem_free(replay.rows);
    engine_close(&replay.engine);
    return status;
}

const struct command command_replay = {
    .name = "replay",
    .summary = "Replay traces without a model and compare eviction policies.",
    .usage = "[options] [FILE]...",
    .table = {.command = "replay", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct replay_options),
    .args_max = FILES_MAX,
    .run = run,
};

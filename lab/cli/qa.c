/*
 * qa.c: `hearth qa`: the agent-cache regression on models of every kind, and the proof that it can
 * fail.
 *
 * A scenario is a kind of model, made small with random weights, or a user's file. --prove runs a
 * server with each injected fault (base/drill.h) instead, and succeeds when each is reported under
 * the invariant that it violates.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json_write.h"
#include "base/clock.h"
#include "base/progress.h"
#include "lab/cli/lab.h"
#include "cli/process.h"
#include "lab/qa.h"
#include "lab/bench_server.h"
#include "cli/cli.h"
#include "lab/cli/sheets.h"
#include "lab/model_make.h"
#include "version.h"

enum { REPORT_BYTES_MAX = 256 << 20, SCENARIOS_MAX = 32 };

struct qa_command {
    uint64_t concurrent, prompt, tokens, threads, ram_bytes, timeout_ns;
    bool prove, keep;
    struct option_list faults;
    struct sheet_outputs outputs;
};

#define AT(field) offsetof(struct qa_command, field)

static const struct option_desc options_table[] = {
    {"max-concurrent", 0, OPTION_UINT, AT(concurrent), .value = "N", .initial = "2", .min = 1,
     .max = QA_SESSIONS_MAX, .group = "Requests",
     .help = "Parallel sequences of the server, and concurrent sessions (at least 2)."},
    {"prompt-bytes", 0, OPTION_UINT, AT(prompt), .value = "N", .initial = "1200", .min = 200,
     .max = 1 << 20, .help = "Size of the first prompt of a conversation, in bytes."},
    {"max-tokens", 0, OPTION_UINT, AT(tokens), .value = "N", .initial = "16", .min = 2, .max = 4096,
     .help = "Tokens to generate per answer."},
    {"threads", 't', OPTION_UINT, AT(threads), .value = "N", .initial = "1", .min = 1, .max = 1024,
     .help = "Threads of the server."},
    {"ram-cache", 0, OPTION_SIZE, AT(ram_bytes), .value = "SIZE", .initial = "256MiB",
     .min = 4 << 20, .help = "RAM for the prefix cache."},
    {"request-timeout", 0, OPTION_DURATION, AT(timeout_ns), .value = "TIME", .initial = "1h",
     .help = "Timeout of a request."},
    {"prove", 0, OPTION_FLAG, AT(prove), HERE, .group = "Faults",
     .help = "Run servers with one injected fault each; succeed if every fault is detected."},
    {"fault", 0, OPTION_LIST, AT(faults), .value = "NAME", .commas = true, HERE,
     .help = "With --prove: only these faults. Alone: run with one fault, which must fail."},
    {"keep", 0, OPTION_FLAG, AT(keep), HERE,
     .help = "Keep the folder with logs and models, and print its path."},
    SHEET_OUTPUT_OPTIONS(struct qa_command, outputs),
};

static const struct kind {
    const char *name, *family; /* family NULL: a pair of kinds in one process, `other` with it */
    const char *first, *other;
    const char *alias; /* as other regressions call it */
} kinds[] = {
    {"dense", "qwen3", NULL, NULL, "qwen-dense"},
    {"sliding", "gemma3", NULL, NULL, "gemma-dense"},
    {"hybrid", "qwen35", NULL, NULL, NULL},
    {"moe-dense", "qwen3moe", NULL, NULL, "qwen-moe"},
    {"moe-sliding", "gpt-oss", NULL, NULL, "gemma-moe"},
    {"moe-hybrid", "qwen35moe", NULL, NULL, NULL},
    {"multi", NULL, "sliding", "hybrid", "multi-dense"},
    {"multi-moe", NULL, "moe-sliding", "moe-hybrid", NULL},
};

static const struct sheet_column columns[] = {
    {"scenario", "scenario", SHEET_TEXT},
    {"fault", "fault", SHEET_TEXT},
    {"status", "status", SHEET_TEXT},
    {"cold_misses", "cold miss", 0},
    {"cold_writes", "writes", 0},
    {"cold_write_tokens", "write tokens", 0},
    {"warm_hits", "warm hits", 0},
    {"warm_read_tokens", "read tokens", 0},
    {"exact_hits", "exact hits", 0},
    {"checks", "checks", 0},
    {"failed", "failed", 0},
    {"fell", "failed checks", SHEET_TEXT},
};

struct session {
    struct cli *cli;
    const struct qa_command *options;
    char scratch[SERVER_PATH_BYTES];
    unsigned count;          /* of scenarios that were started */
    const char *other_model; /* of the scenario; NULL = none */
    struct sheet *sheet;
    struct buf report;
    struct json json;
    bool failed;
};

/* ---- one scenario ---- */

static void on_progress(unsigned done, unsigned total, void *arg)
{
    progress_update(arg, done, total);
}

/* "I3 I92", each once. */
static void list_fallen(const struct qa_scenario *scenario, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (unsigned number = 1; number < 256; number++)
        if (qa_fell(scenario, number) && len + 8 < size)
            len += (size_t)snprintf(out + len, size - len, "%sI%u", len > 0 ? " " : "", number);
}

static void add_row(struct session *session, const struct qa_scenario *scenario, const char *status)
{
    struct qa_totals cold = qa_totals(scenario, "cold"), warm = qa_totals(scenario, "warm");
    struct qa_totals exact = qa_totals(scenario, "exact");
    char fallen[200];
    size_t failures = 0;

    for (size_t i = 0; i < scenario->checks_count; i++)
        failures += !scenario->checks[i].passed;
    list_fallen(scenario, fallen, sizeof(fallen));
    sheet_text(session->sheet, scenario->options->id);
    sheet_text(session->sheet, drill_names[scenario->options->drill]);
    sheet_text(session->sheet, status);
    sheet_number(session->sheet, cold.misses);
    sheet_number(session->sheet, cold.writes);
    sheet_number(session->sheet, (double)cold.write_tokens);
    sheet_number(session->sheet, warm.hits);
    sheet_number(session->sheet, (double)warm.read_tokens);
    sheet_number(session->sheet, exact.hits);
    sheet_number(session->sheet, (double)scenario->checks_count);
    sheet_number(session->sheet, (double)failures);
    sheet_text(session->sheet, fallen);
}

static void complain(const struct session *session, const struct qa_scenario *scenario)
{
    for (size_t i = 0; i < scenario->checks_count; i++) {
        const struct qa_check *check = &scenario->checks[i];
        if (!check->passed)
            cli_error(session->cli, "%s, %s: I%u fell: %s (%s)", scenario->options->id,
                      qa_probe_name(check->probe), check->invariant, check->text, check->detail);
    }
}

/* A fault must be reported under its own invariant; without one, all must hold. */
static bool is_good(const struct qa_scenario *scenario, bool prove)
{
    enum drill drill = scenario->options->drill;

    return prove ? qa_fell(scenario, drill_invariant(drill)) : qa_passed(scenario);
}

static void report(struct session *session, const struct qa_scenario *scenario, bool good)
{
    enum drill drill = scenario->options->drill;
    bool prove = session->options->prove;

    add_row(session, scenario,
            prove ? (good ? "noticed" : "MISSED") : (good ? "passed" : "FAILED"));
    qa_write_json(scenario, &session->json);
    if (!prove)
        complain(session, scenario);
    else if (!good)
        cli_error(session->cli, "fault %s was not detected: I%u should have failed",
                  drill_names[drill], drill_invariant(drill));
}

static bool run_scenario(struct session *session, const char *id, const char *model,
                         enum drill drill)
{
    const struct qa_command *command = session->options;
    struct cli *cli = session->cli;
    const char *folder = arena_printf(cli->arena, "%s/%u", session->scratch, ++session->count);
    const char *label =
        arena_printf(cli->arena, "%s %s", id, drill != DRILL_NONE ? drill_names[drill] : "");
    struct progress *bar = cli_progress(cli, label != NULL ? label : id, PROGRESS_UNIT_NONE);
    const struct qa_options options = {
        .scratch = folder,
        .id = id,
        .model = model,
        .other_model = session->other_model,
        .prompt_bytes = (uint32_t)command->prompt,
        .max_tokens = (uint32_t)command->tokens,
        .threads = (uint32_t)command->threads,
        .concurrent = (uint32_t)command->concurrent,
        .ram_bytes = command->ram_bytes,
        .timeout_ms = command->timeout_ns / NS_PER_MS,
        .drill = drill,
        .progress = on_progress,
        .arg = bar,
    };
    struct qa_scenario scenario = {0};
    struct errinfo info = {0};

    enum err err = folder != NULL && mkdir(folder, 0700) == 0
                       ? qa_run(&scenario, &options, &info)
                       : err_set(&info, ERR_IO, "no folder for it");
    bool good = err == ERR_OK && is_good(&scenario, command->prove);
    progress_finish(&bar, err == ERR_OK);
    if (err == ERR_OK)
        report(session, &scenario, good);
    else
        cli_error(cli, "%s: %s", id, info.text);
    qa_scenario_fini(&scenario);
    session->failed |= !good;
    return good;
}

/* ---- models ---- */

static const char *make_model(struct session *session, const struct kind *kind)
{
    struct errinfo info = {0};
    struct model_make_options make = {
        .family = kind->family,
        .out = arena_printf(session->cli->arena, "%s/%s.gguf", session->scratch, kind->name),
        .shape = {.layers = strcmp(kind->name, "dense") == 0 ? 2 : 0, .width = 64},
        .fs = session->cli->setup->fs,
    };
    struct stat st;

    if (make.out == NULL)
        return NULL;
    if (stat(make.out, &st) == 0 || model_make(&make, &info) == ERR_OK)
        return make.out;
    cli_error(session->cli, "%s: %s", kind->name, info.text);
    session->failed = true;
    return NULL;
}

static const char *kind_name(size_t number)
{
    return number < COUNT_OF(kinds) ? kinds[number].name : NULL;
}

static const struct kind *find_kind(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0 ||
            (kinds[i].alias != NULL && strcmp(kinds[i].alias, name) == 0))
            return &kinds[i];
    return NULL;
}

static enum drill drill_of(const char *name)
{
    for (int i = 0; i < DRILL_COUNT; i++)
        if (strcmp(drill_names[i], name) == 0)
            return (enum drill)i;
    return DRILL_COUNT;
}

static bool is_wanted(const struct qa_command *options, enum drill drill)
{
    for (size_t i = 0; i < options->faults.count; i++)
        if (drill_of(options->faults.items[i]) == drill)
            return true;
    return options->faults.count == 0;
}

/* Runs with every requested fault, or with none. */
static void run_model(struct session *session, const char *id, const char *model)
{
    const struct qa_command *options = session->options;

    if (!options->prove) {
        enum drill drill =
            options->faults.count > 0 ? drill_of(options->faults.items[0]) : DRILL_NONE;
        run_scenario(session, id, model, drill);
        return;
    }
    /* Two models are for the fault that needs them: the others show with one. */
    for (int drill = DRILL_NONE + 1; drill < DRILL_COUNT; drill++)
        if (is_wanted(options, (enum drill)drill) &&
            (drill == DRILL_FORGET_MODELS) == (session->other_model != NULL))
            run_scenario(session, id, model, (enum drill)drill);
}

/* "A.gguf+B.gguf": two files in one process; one file otherwise. False: something is missing. */
static bool split_files(const struct cli *cli, const char *text, const char **first,
                        const char **second)
{
    const char *plus = strstr(text, ".gguf+");
    struct stat st;

    *first = text;
    *second = NULL;
    if (plus != NULL && stat(text, &st) != 0) {
        *first = arena_strdup(cli->arena, (struct str){text, (size_t)(plus - text) + 5});
        *second = plus + 6;
    }
    return *first != NULL && stat(*first, &st) == 0 && (*second == NULL || stat(*second, &st) == 0);
}

static void run_named(struct session *session, const char *name)
{
    const struct kind *kind = find_kind(name);

    if (kind == NULL) {
        const char *first;
        (void)split_files(session->cli, name, &first, &session->other_model);
        run_model(session, name, first);
        session->other_model = NULL;
        return;
    }
    const char *model = make_model(session, kind->family != NULL ? kind : find_kind(kind->first));
    if (kind->other != NULL)
        session->other_model = make_model(session, find_kind(kind->other));
    if (model != NULL && (kind->other == NULL || session->other_model != NULL))
        run_model(session, kind->name, model);
    session->other_model = NULL;
}

/* Calls fn for each name of the arguments, which may be lists with commas; false when fn is. */
static bool each_name(struct cli *cli, bool (*fn)(const char *name, void *arg), void *arg)
{
    for (size_t i = 0; i < cli->args_count; i++) {
        struct str rest = str_from(cli->args[i]), name;
        while (str_next(&rest, ',', &name)) {
            const char *text = arena_strdup(cli->arena, name);
            if (text == NULL || !fn(text, arg))
                return false;
        }
    }
    return true;
}

static bool run_each(const char *name, void *session)
{
    run_named(session, name);
    return true;
}

/* ---- the command ---- */

static bool is_known(const char *name, void *arg)
{
    struct cli *cli = arg;
    const char *first, *second;

    if (find_kind(name) != NULL || split_files(cli, name, &first, &second))
        return true;
    cli_usage_error(cli, "'%s' is neither a scenario (%s) nor a file nor FILE+FILE", name,
                    cli_list_words(cli));
    return false;
}

static enum cli_exit check(struct cli *cli, const struct qa_command *options)
{
    for (size_t i = 0; i < options->faults.count; i++)
        if (drill_of(options->faults.items[i]) == DRILL_COUNT)
            return cli_usage_error(cli, "there is no fault '%s'", options->faults.items[i]);
    if (!options->prove && options->faults.count > 1)
        return cli_usage_error(cli, "one fault at a time; --prove runs many");
    if (!each_name(cli, is_known, cli))
        return CLI_EXIT_USAGE;
    return CLI_EXIT_OK;
}

static void write_head(struct session *session)
{
    struct json *json = &session->json;
    const struct qa_command *options = session->options;

    json_open(json, '{');
    json_key_uint(json, "createdAt", clock_wall_ns(session->cli->setup->clock) / NS_PER_S);
    json_key_text(json, "hearth", HEARTH_VERSION " " HEARTH_COMMIT);
    json_key_text(json, "machine", cli_machine(session->cli));
    json_key_uint(json, "promptBytes", options->prompt);
    json_key_uint(json, "maxTokens", options->tokens);
    json_key_uint(json, "maxConcurrentRequests", options->concurrent);
    json_key_uint(json, "ramCacheBytes", options->ram_bytes);
    json_key_open(json, "scenarios", '[');
}

static void run_all(struct session *session)
{
    const struct cli *cli = session->cli;

    write_head(session);
    (void)each_name(session->cli, run_each, session);
    /* A proof needs one kind of model, and one pair; the regression runs every kind. */
    for (size_t i = 0; cli->args_count == 0 && i < COUNT_OF(kinds); i++)
        if (!session->options->prove || i == 0 || strcmp(kinds[i].name, "multi") == 0)
            run_named(session, kinds[i].name);
    json_close(&session->json, ']');
    json_key_text(&session->json, "status", session->failed ? "failed" : "passed");
    json_close(&session->json, '}');
    buf_append_char(&session->report, '\n');
}

/* The JSON is the full report; table, CSV and picture summarise it. */
static enum cli_exit write_results(struct session *session)
{
    static const struct plot plot = {.title = "hearth qa: tokens read from the cache",
                                     .labels = {"scenario", "fault", "status"},
                                     .values = {"cold_write_tokens", "warm_read_tokens"}};
    struct sheet_outputs outputs = session->options->outputs;
    const char *json = outputs.json;

    outputs.json = NULL;
    if (json != NULL && !cli_write_text(session->cli, json, &session->report))
        return CLI_EXIT_FAILURE;
    if (json != NULL && strcmp(json, "-") == 0)
        return CLI_EXIT_OK;
    return cli_write_sheet(session->cli, &outputs, session->sheet, &plot);
}

static enum cli_exit run(struct cli *cli, const void *options)
{
    struct session session = {.cli = cli, .options = options};
    enum cli_exit status = check(cli, options);

    if (status != CLI_EXIT_OK)
        return status;
    int turn = cli_take_turn(cli);
    if (!process_make_scratch(session.scratch, sizeof(session.scratch), session.options->keep))
        return cli_error(cli, "no folder for temporary files: %s", session.scratch);
    session.sheet = sheet_create(columns, COUNT_OF(columns));
    buf_init(&session.report, REPORT_BYTES_MAX);
    session.json = json_to(&session.report);
    cli_note_machine(cli, session.sheet);
    run_all(&session);
    status = write_results(&session);
    if (session.options->keep)
        fprintf(cli->err, "logs and models: %s\n", session.scratch);
    else
        process_remove_tree(session.scratch);
    sheet_destroy(&session.sheet);
    buf_fini(&session.report);
    process_unlock(turn);
    return session.failed ? CLI_EXIT_FAILURE : status;
}

const struct command command_qa = {
    .name = "qa",
    .summary = "Run the cache regression test for agent workloads.",
    .usage = "[options] [SCENARIO | MODEL.gguf | MODEL.gguf+MODEL.gguf]...",
    .table = {.command = "qa", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct qa_command),
    .args_min = 0,
    .args_max = SCENARIOS_MAX,
    .word = kind_name,
    .run = run,
};

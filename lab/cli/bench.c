/*
 * bench.c: `hearth bench WHAT`: options and what all kinds share.
 *
 * Exit status: 0; 1 when a request failed, something that must be reused was not, or a file cannot
 * be written; 2 for a usage error.
 */
#include "lab/cli/lab.h"
#include "lab/cli/bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/progress.h"
#include "base/sysinfo.h"
#include "cli/process.h"
#include "lab/spread.h"
#include "cli/cli.h"
#include "cli/model_settings.h"
#include "lab/model_make.h"

enum { ARGS_MAX = 32, SAMPLE_BYTES = 8000, COUNT_MAX = 10 * 1000 * 1000 };

#define AT(field) offsetof(struct bench_options, field)

static const struct option_desc options_table[] = {
    {"model", 'm', OPTION_TEXT, AT(model), .value = "FILE", HERE,
     .group = "prefix, serve, peer, forks, drafts",
     .help = "Model as for `hearth serve`, or a family of `hearth model make`; default: "
             "random."},
    {"threads", 't', OPTION_UINT, AT(threads), .value = "N", .max = 1024, HERE,
     .help = "Threads of the servers; 0 = number of physical cores."},
    {"ubatch-size", 0, OPTION_UINT, AT(chunk), .value = "N", .initial = "512", .min = 1,
     .max = 1 << 20, .alias = "ub", HERE,
     .help = "Maximum tokens per prefill chunk of the servers."},
    {"generate", 'n', OPTION_UINT, AT(generate), .value = "N", .initial = "16", .min = 1,
     .max = 1 << 20, HERE, .help = "prefix: tokens to generate."},
    {"size", 0, OPTION_LIST, AT(sizes), .value = "TOKENS", .initial = "2K,20K,100K", .commas = true,
     HERE, .help = "prefix, peer, forks: prompt sizes in tokens (peer and forks use the first)."},
    {"long", 0, OPTION_FLAG, AT(is_long), HERE,
     .help = "forks: also a question after a document of 17.5 times --size."},
    {"rounds", 0, OPTION_UINT, AT(rounds), .value = "N", .initial = "3", .min = 1, .max = 1000,
     HERE, .help = "peer, drafts: number of rounds; the median counts."},
    {"answer-tokens", 0, OPTION_UINT, AT(tokens), .value = "N", .initial = "128", .min = 8,
     .max = 4096, HERE, .help = "drafts: tokens of an answer."},
    {"other-model", 0, OPTION_TEXT, AT(other_model), .value = "FILE", HERE,
     .help = "peer: model to swap in."},
    {"llama-server", 0, OPTION_TEXT, AT(llama), .value = "FILE", HERE,
     .help = "peer, forks, drafts: path of llama-server."},
    {"answers", 0, OPTION_TEXT, AT(answers), .value = "PATH", HERE,
     .help =
         "drafts: edits to use, as JSON lines with `input` and `output`: a file, or a folder of "
         "*.jsonl files; default: changes of hearth's own code."},
    {"rows", 0, OPTION_LIST, AT(rows), .value = "NAMES", .commas = true, HERE,
     .help = "drafts: rows to measure, of nothing, regenerate, branch, edit, predict and streams; "
             "default: all."},
    {"row-time", 0, OPTION_DURATION, AT(row_ns), .value = "TIME", .initial = "0", HERE,
     .help = "drafts: begin no more pairs of rounds of a row after this time; 0 = all --rounds."},
    {"drafts", 0, OPTION_TEXT, AT(drafts), .value = "N", .initial = "auto", HERE,
     .help = "drafts: --drafts of the servers with drafts; off shows the error of the "
             "measurement."},
    {"model-draft", 0, OPTION_TEXT, AT(draft_model), .value = "FILE", .alias = "md", HERE,
     .help = "drafts: draft model of the servers with drafts."},
    {"url", 'u', OPTION_TEXT, AT(url), .value = "URL", HERE, .group = "serve",
     .help = "Server to measure, as http://host:port[/v1]; by default hearth is started."},
    {"api-key", 0, OPTION_TEXT, AT(key), .value = "KEY", .secret = true, HERE,
     .help = "API key of that server."},
    {"name", 0, OPTION_TEXT, AT(name), .value = "NAME", HERE,
     .help = "Name of the model on that server."},
    {"chat", 0, OPTION_FLAG, AT(chat), HERE, .help = "Send chat requests instead of completions."},
    {"concurrency", 'j', OPTION_LIST, AT(concurrency), .value = "N", .initial = "1,4",
     .commas = true, HERE, .help = "Concurrent requests."},
    {"prompt-tokens", 0, OPTION_LIST, AT(prompts), .value = "N", .initial = "512", .commas = true,
     HERE, .help = "Approximate prompt size in tokens."},
    {"generation-tokens", 0, OPTION_LIST, AT(generations), .value = "N", .initial = "64",
     .commas = true, HERE, .help = "Tokens to generate."},
    {"requests", 0, OPTION_UINT, AT(requests), .value = "N", .initial = "16", .min = 1,
     .max = 1 << 20, HERE, .help = "Requests per row."},
    {"request-timeout", 0, OPTION_DURATION, AT(timeout_ns), .value = "TIME", .initial = "1h", HERE,
     .group = "All", .help = "Timeout of a request."},
    {"keep", 0, OPTION_FLAG, AT(keep), HERE,
     .help = "Keep the folder with logs and models, and print its path."},
    {"raw", 0, OPTION_FLAG, AT(raw), HERE,
     .help = "Microbenchmarks: print only CSV rows, as they come."},
    SHEET_OUTPUT_OPTIONS(struct bench_options, outputs),
};

/* ---- what the kinds share ---- */

bool bench_fail(struct bench *bench, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    progress_finish(&bench->bar, false);
    cli_error(bench->cli, "%s", text);
    bench->failed = true;
    return false;
}

void bench_tell(struct bench *bench, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vfprintf(bench->cli->err, fmt, args);
    va_end(args);
    fputc('\n', bench->cli->err);
    fflush(bench->cli->err);
}

void bench_expect(struct bench *bench, const char *label, uint64_t steps)
{
    progress_finish(&bench->bar, true);
    bench->done = 0;
    bench->total = steps;
    bench->bar = cli_progress(bench->cli, label, PROGRESS_UNIT_NONE);
}

void bench_step(struct bench *bench)
{
    bench->done++;
    if (bench->bar != NULL)
        progress_update(bench->bar, bench->done, bench->total);
}

/* "512", "20K". */
static bool parse_count(struct str text, uint32_t *count)
{
    bool thousands = str_ends(text, STR("K")) || str_ends(text, STR("k"));
    uint64_t number = 0, unit = thousands ? 1000 : 1;

    text.len -= thousands;
    if (!str_to_u64(text, &number) || number == 0 || number > COUNT_MAX / unit)
        return false;
    *count = (uint32_t)(number * unit);
    return true;
}

bool bench_numbers(struct bench *bench, const char *option, const struct option_list *list,
                   struct bench_list *out)
{
    if (list->count > COUNT_OF(out->items))
        return bench_fail(bench, "--%s: more than %zu numbers", option, COUNT_OF(out->items));
    out->count = list->count;
    for (size_t i = 0; i < list->count; i++)
        if (!parse_count(str_from(list->items[i]), &out->items[i]))
            return bench_fail(bench, "--%s %s: expected a number such as 512 or 20K, at most %dK",
                              option, list->items[i], COUNT_MAX / 1000);
    return true;
}

const char *bench_model(struct bench *bench, const char *name)
{
    const char *family = name != NULL ? name : "random", *path;
    struct errinfo info = {0};
    struct stat st;

    enum err err =
        name != NULL ? cli_find_model(bench->cli, NULL, name, &path, &info) : ERR_NOT_FOUND;
    if (err == ERR_OK)
        return path;
    struct model_make_options make = {
        .family = family,
        .out = arena_printf(bench->cli->arena, "%s/%s.gguf", bench->scratch, family),
        .fs = bench->cli->setup->fs,
        .on_progress = progress_part,
    };
    if (make.out == NULL || err != ERR_NOT_FOUND || strchr(family, '/') != NULL) {
        bench_fail(bench, "%s", info.text);
        return NULL;
    }
    if (stat(make.out, &st) == 0)
        return make.out;
    bench_expect(bench, "making model", 1000);
    make.arg = bench->bar;
    if (model_make(&make, &info) == ERR_OK)
        return make.out;
    bench_fail(bench, "%s: %s", family, info.text);
    return NULL;
}

struct server_setup bench_setup(const struct bench *bench, const char *model, uint32_t context)
{
    return (struct server_setup){
        .scratch = bench->scratch,
        .name = "hearth",
        .model = model,
        .context = context,
        .parallel = 1,
        .threads =
            bench->options->threads > 0 ? (uint32_t)bench->options->threads : sysinfo_cores(),
        .chunk = (uint32_t)bench->options->chunk,
    };
}

double bench_bytes_per_token(struct bench *bench, const struct server *server)
{
    struct errinfo info = {0};
    struct tokens tokens;
    struct buf text;

    buf_init(&text, SAMPLE_BYTES);
    words_append(&text, SAMPLE_BYTES, 1);
    enum err err = tokens_of(&server->url, NULL, buf_str(&text), &tokens, &info);
    double bytes = err == ERR_OK ? (double)SAMPLE_BYTES / (double)tokens.count : 0;
    tokens_fini(&tokens);
    buf_fini(&text);
    if (err != ERR_OK)
        bench_fail(bench, "the server cannot tokenize: %s", info.text);
    return bytes;
}

bool bench_ask(struct bench *bench, const struct client_url *url,
               const struct ask_message *messages, size_t count, uint32_t tokens,
               struct ask_result *result)
{
    const struct ask ask = {.url = url,
                            .messages = messages,
                            .messages_count = count,
                            .max_tokens = tokens,
                            .timeout_ms = bench->options->timeout_ns / NS_PER_MS};
    struct errinfo info = {0};

    if (ask_run(&ask, result, &info) != ERR_OK)
        return bench_fail(bench, "%s", info.text);
    return (result->status == 200 && result->error[0] == '\0') ||
           bench_fail(bench, "status %d: %s", result->status, result->error);
}

/* ---- the command ---- */

static const struct bench_kind *const kinds[] = {&bench_prefix, &bench_load, &bench_peer,
                                                 &bench_forks, &bench_drafts};

static enum cli_exit run_kind(struct cli *cli, const struct bench_options *options,
                              const struct bench_kind *kind)
{
    struct bench bench = {.cli = cli, .options = options};
    int turn = cli_take_turn(cli);

    if (!process_make_scratch(bench.scratch, sizeof(bench.scratch), options->keep))
        return cli_error(cli, "no folder for temporary files: %s", bench.scratch);
    bench.sheet = sheet_create(kind->columns, kind->columns_count);
    cli_note_machine(cli, bench.sheet);
    enum cli_exit status = kind->run(&bench);
    progress_finish(&bench.bar, !bench.failed);
    if (status == CLI_EXIT_OK && sheet_rows(bench.sheet) > 0)
        status = cli_write_sheet(cli, &options->outputs, bench.sheet, &kind->plot);
    if (options->keep)
        fprintf(cli->err, "logs and models: %s\n", bench.scratch);
    else
        process_remove_tree(bench.scratch);
    sheet_destroy(&bench.sheet);
    process_unlock(turn);
    return bench.failed && status == CLI_EXIT_OK ? CLI_EXIT_FAILURE : status;
}

static const char *name_of(size_t number)
{
    return number < COUNT_OF(kinds) ? kinds[number]->name
                                    : bench_micro_name(number - COUNT_OF(kinds));
}

static enum cli_exit run(struct cli *cli, const void *options)
{
    if (bench_is_micro(cli->args[0]))
        return bench_micro(cli, options);
    if (cli->args_count > 1)
        return cli_usage_error(cli, "'%s': only microbenchmarks take arguments", cli->args[1]);
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (strcmp(kinds[i]->name, cli->args[0]) == 0)
            return run_kind(cli, options, kinds[i]);
    return cli_usage_error(cli, "unknown benchmark '%s'. Usage: hearth bench %s", cli->args[0],
                           command_bench.usage);
}

const struct command command_bench = {
    .name = "bench",
    .summary = "Run benchmarks: reuse, serving, llama-server, or one component.",
    .usage = "prefix | serve | peer | forks | drafts [options], or state | cache | tier | jinja | "
             "tokens | "
             "pages | decode | worker | fleet [ARG]...",
    .table = {.command = "bench", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct bench_options),
    .args_min = 1,
    .args_max = ARGS_MAX,
    .word = name_of,
    .run = run,
};

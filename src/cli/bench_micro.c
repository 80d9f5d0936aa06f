/*
 * bench_micro.c: `hearth bench state` and its kin: a microbenchmark in a child process, and its
 * results in the common output formats.
 *
 *      hearth bench state --starts--> hearth bench --raw state --CSV rows--> a file --> a sheet
 *
 * With --raw the rows go to standard output as they come.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/progress.h"
#include "lab/micro.h"
#include "lab/bench_process.h"
#include "cli/bench.h"

enum { ARGS_MAX = 32, OUTPUT_BYTES_MAX = 64 << 20, PAUSE_MS = 100, STOP_MS = 1000 };

static const struct micro {
    const char *name;
    int (*run)(int argc, char **argv);
    struct plot plot;
} micros[] = {
    {"state",
     micro_state,
     {.title = "moving state: bandwidth beside memcpy of the same bytes",
      .labels = {"model", "tokens_per_object"},
      .values = {"export_to_memcpy", "import_to_memcpy", "checked_import_to_memcpy"}}},
    {"cache",
     micro_cache,
     {.kind = PLOT_LINES,
      .title = "microseconds over blocks held",
      .series = "part",
      .x = "blocks",
      .y = "us_p50",
      .logarithmic = true}},
    {"tier",
     micro_tier,
     {.title = "the SSD tier beside plain files", .labels = {"what"}, .values = {"ratio"}}},
    {"jinja",
     micro_jinja,
     {.title = "rendering 200 messages, microseconds",
      .labels = {"template"},
      .values = {"compile_us", "render_us_median"},
      .logarithmic = true}},
    {"tokens",
     micro_tokens,
     {.title = "a conversation as tokens, microseconds",
      .labels = {"way"},
      .values = {"us_median", "us_best"},
      .logarithmic = true}},
    {"pages",
     micro_pages,
     {.title = "memory for objects beside memcpy",
      .labels = {"what", "bytes"},
      .values = {"of_memcpy"}}},
    {"decode",
     micro_decode,
     {.title = "decoding alone and beside writes to disk, ms per token",
      .labels = {"what"},
      .values = {"wall_ms_per_token", "cpu_ms_per_token"}}},
    {"worker",
     micro_worker,
     {.title = "an engine in a child process, relative to one in this process",
      .labels = {"model"},
      .values = {"decode_time_ratio", "restore_ratio", "store_ratio"}}},
    {"fleet",
     micro_fleet,
     {.title = "a shared store beside valkey-benchmark", .labels = {"what"}, .values = {"ratio"}}},
};

static const struct micro *find_micro(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(micros); i++)
        if (strcmp(micros[i].name, name) == 0)
            return &micros[i];
    return NULL;
}

bool bench_is_micro(const char *name)
{
    return find_micro(name) != NULL;
}

const char *bench_micro_name(size_t number)
{
    return number < COUNT_OF(micros) ? micros[number].name : NULL;
}

/* Runs it in this process; its output goes to the user, its temporary files into the folder. */
static enum cli_exit run_raw(struct bench *bench, const struct micro *micro)
{
    const struct cli *cli = bench->cli;
    char *argv[ARGS_MAX + 1] = {NULL};

    setenv("TMPDIR", bench->scratch, 1);
    printf("# %s\n", cli_machine_line(cli));
    for (size_t i = 0; i < cli->args_count && i < ARGS_MAX; i++)
        argv[i] = (char *)(uintptr_t)cli->args[i];
    return micro->run((int)MIN(cli->args_count, ARGS_MAX), argv) == 0 ? CLI_EXIT_OK
                                                                      : CLI_EXIT_FAILURE;
}

/* ---- in a separate process ---- */

static void fill_argv(const struct cli *cli, const char *self, const char *argv[ARGS_MAX + 4])
{
    size_t count = 0;

    argv[count++] = self;
    argv[count++] = "bench";
    argv[count++] = "--raw";
    for (size_t i = 0; i < cli->args_count && i < ARGS_MAX; i++)
        argv[count++] = cli->args[i];
    argv[count] = NULL;
}

static void await(struct bench *bench, struct process *process, const char *path)
{
    struct stat st;

    bench_expect(bench, bench->cli->args[0], 0);
    while (process_runs(process)) {
        clock_sleep_ns(clock_real(), PAUSE_MS * NS_PER_MS);
        if (stat(path, &st) == 0 && bench->bar != NULL)
            /* shows progress; the total is unknown */
            progress_update(bench->bar, (uint64_t)st.st_size, 0);
    }
}

static bool run_child(struct bench *bench, const char *out)
{
    char self[SERVER_PATH_BYTES];
    const char *argv[ARGS_MAX + 4];
    struct process *process = NULL;
    struct errinfo info = {0};

    if (!process_own_path(self, sizeof(self)))
        return bench_fail(bench, "hearth cannot find itself");
    fill_argv(bench->cli, self, argv);
    /* Its folder is below ours: if it dies, we clean up. */
    char folder[SERVER_PATH_BYTES + 8];
    const char *const env[] = {folder, NULL};
    const struct process_options options = {.argv = argv, .env = env, .out = out};
    snprintf(folder, sizeof(folder), "TMPDIR=%s", bench->scratch);
    enum err err = process_start(&process, &options, &info);
    if (err == ERR_OK) {
        await(bench, process, out);
        err = process_stop(&process, STOP_MS, &info);
    }
    return err == ERR_OK || bench_fail(bench, "%s: %s", bench->cli->args[0], info.text);
}

/* Its output; the first line describes the machine. */
static bool read_output(struct bench *bench, const char *out)
{
    struct errinfo info = {0};
    char *data;
    size_t len;

    enum err err =
        file_read_all(bench->cli->setup->fs, AT_FDCWD, out, OUTPUT_BYTES_MAX, &data, &len, &info);
    if (err == ERR_OK) {
        err = sheet_read_csv(&bench->sheet, (struct str){data, len}, &info);
        mem_free(data);
    }
    if (err != ERR_OK)
        return bench_fail(bench, "%s: %s", bench->cli->args[0], info.text);
    cli_fact_machine(bench->cli, bench->sheet);
    return true;
}

/* Rows first, then the requested formats. */
static enum cli_exit run_sheet(struct bench *bench, const struct micro *micro)
{
    char out[SERVER_PATH_BYTES + 16];

    snprintf(out, sizeof(out), "%s/rows.csv", bench->scratch);
    bool good = run_child(bench, out) && read_output(bench, out);
    progress_finish(&bench->bar, good);
    return good ? cli_write_sheet(bench->cli, &bench->options->outputs, bench->sheet, &micro->plot)
                : CLI_EXIT_FAILURE;
}

enum cli_exit bench_micro(struct cli *cli, const struct bench_options *options)
{
    const struct micro *micro = find_micro(cli->args[0]);
    struct bench bench = {.cli = cli, .options = options};

    if (!process_make_scratch(bench.scratch, sizeof(bench.scratch), false))
        return cli_error(cli, "no folder for temporary files: %s", bench.scratch);
    enum cli_exit status = options->raw ? run_raw(&bench, micro) : run_sheet(&bench, micro);
    process_remove_tree(bench.scratch);
    sheet_destroy(&bench.sheet);
    return status;
}

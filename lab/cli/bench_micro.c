/*
 * bench_micro.c: `hearth bench state` and its kin: a microbenchmark in a child process, which also
 * writes its results in the common output formats.
 *
 * With --raw the rows go to standard output as they come.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/progress.h"
#include "lab/cli/bench.h"
#include "cli/process.h"
#include "lab/micro.h"

enum { ARGS_MAX = 32 };

static const struct micro *const micros[] = {
    &micro_state, &micro_cache,  &micro_tier,   &micro_jinja, &micro_tokens,
    &micro_pages, &micro_decode, &micro_worker, &micro_fleet,
};

static const struct micro *find_micro(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(micros); i++)
        if (strcmp(micros[i]->name, name) == 0)
            return micros[i];
    return NULL;
}

bool bench_is_micro(const char *name)
{
    return find_micro(name) != NULL;
}

const char *bench_micro_name(size_t number)
{
    return number < COUNT_OF(micros) ? micros[number]->name : NULL;
}

/* In the child: temporary files go into the folder, which the parent removes. */
static int run_micro(struct bench *bench, const struct micro *micro)
{
    const struct cli *cli = bench->cli;
    bool raw = bench->options->raw;
    char *argv[ARGS_MAX + 1] = {NULL};

    setenv("TMPDIR", bench->scratch, 1);
    for (size_t i = 0; i < cli->args_count && i < ARGS_MAX; i++)
        argv[i] = (char *)(uintptr_t)cli->args[i];
    if (raw) {
        printf("# %s\n", cli_machine_line(cli));
    } else {
        bench->sheet = sheet_create(micro->columns, micro->columns_count);
        cli_note_machine(cli, bench->sheet);
        bench_expect(bench, micro->name, 0); /* the total is unknown */
    }
    micro_begin(micro, bench->sheet, bench->bar);
    int status = micro->run((int)MIN(cli->args_count, ARGS_MAX), argv);
    progress_finish(&bench->bar, status == 0);
    if (status == 0 && !raw)
        status = (int)cli_write_sheet(cli, &bench->options->outputs, bench->sheet, &micro->plot);
    sheet_destroy(&bench->sheet);
    return status;
}

/* Waits for the child; false: it failed, which was said. */
static bool await(struct bench *bench, const struct micro *micro, pid_t child)
{
    int status = 0;

    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    return WIFSIGNALED(status)
               ? bench_fail(bench, "%s: it died of signal %d", micro->name, WTERMSIG(status))
               : bench_fail(bench, "%s: it ended with status %d", micro->name, WEXITSTATUS(status));
}

enum cli_exit bench_micro(struct cli *cli, const struct bench_options *options)
{
    const struct micro *micro = find_micro(cli->args[0]);
    struct bench bench = {.cli = cli, .options = options};

    if (!process_make_scratch(bench.scratch, sizeof(bench.scratch), false))
        return cli_error(cli, "no folder for temporary files: %s", bench.scratch);
    fflush(NULL); /* or the child would print it as well */
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        exit(getppid() == parent ? run_micro(&bench, micro) : 1);
    }
    bool good = child > 0 ? await(&bench, micro, child)
                          : bench_fail(&bench, "%s: no process: %s", micro->name, strerror(errno));
    process_remove_tree(bench.scratch);
    return good ? CLI_EXIT_OK : CLI_EXIT_FAILURE;
}

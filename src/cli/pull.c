/*
 * pull.c: `hearth pull`, `hearth list` and `hearth rm`: models of Hugging Face's hub (models/hub.h).
 */
#include <stdbool.h>
#include <stdio.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/pull.h"
#include "models/hub.h"

static struct hub hub_of(const struct cli *cli)
{
    return (struct hub){
        .where = {.fs = cli->setup->fs, .env = cli_env_of, .env_arg = (void *)cli->setup},
        .clock = cli->setup->clock,
        .progress_fd = fileno(cli->err),
    };
}

enum err pull_model(const struct cli *cli, const char *name, char path[MODEL_FILE_PATH_BYTES],
                    struct errinfo *info)
{
    const struct hub hub = hub_of(cli);

    return hub_pull(&hub, name, path, info);
}

static enum cli_exit run_pull(struct cli *cli, const void *options)
{
    char path[MODEL_FILE_PATH_BYTES];
    struct errinfo info = {0};

    (void)options;
    enum err err = pull_model(cli, cli->args[0], path, &info);
    if (err != ERR_OK)
        return cli_fail(cli, err, &info);
    fprintf(cli->out, "%s\n", path);
    return CLI_EXIT_OK;
}

struct listing {
    const struct cli *cli;
    bool any;
};

static void print_model(const char *repo, const char *file, uint64_t bytes, void *arg)
{
    struct listing *listing = arg;
    char size[UNITS_TEXT_BYTES];

    listing->any = true;
    fprintf(listing->cli->out, "%-40s %10s  %s\n", repo, units_format_size(bytes, size), file);
}

static enum cli_exit run_list(struct cli *cli, const void *options)
{
    const struct hub hub = hub_of(cli);
    struct listing listing = {.cli = cli};
    struct errinfo info = {0};

    (void)options;
    enum err err = hub_list(&hub, print_model, &listing, &info);
    if (err != ERR_OK)
        return cli_fail(cli, err, &info);
    if (!listing.any)
        fputs("no models; download one with 'hearth pull USER/REPO[:QUANT]'\n", cli->err);
    return CLI_EXIT_OK;
}

static enum cli_exit run_rm(struct cli *cli, const void *options)
{
    const struct hub hub = hub_of(cli);
    struct errinfo info = {0};
    char size[UNITS_TEXT_BYTES];
    uint64_t freed;

    (void)options;
    enum err err = hub_remove(&hub, cli->args[0], &freed, &info);
    if (err != ERR_OK)
        return cli_fail(cli, err, &info);
    fprintf(cli->out, "%s: removed, %s freed\n", cli->args[0], units_format_size(freed, size));
    return CLI_EXIT_OK;
}

const struct command command_pull = {
    .name = "pull",
    .summary = "Download a model from Hugging Face.",
    .usage = "USER/REPO[:QUANT]",
    .table = {.command = "pull"},
    .args_min = 1,
    .args_max = 1,
    .run = run_pull,
};

const struct command command_list = {
    .name = "list",
    .summary = "List the downloaded models.",
    .usage = "",
    .table = {.command = "list"},
    .run = run_list,
};

const struct command command_rm = {
    .name = "rm",
    .summary = "Remove a downloaded model.",
    .usage = "USER/REPO[:QUANT]",
    .table = {.command = "rm"},
    .args_min = 1,
    .args_max = 1,
    .run = run_rm,
};

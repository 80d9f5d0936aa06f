/*
 * worker.c: `hearth worker`: offers the devices of this machine to a server elsewhere
 * (`hearth serve --rpc`, docs/fleet.md).
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "engine/rpc.h"
#include "http/host.h"

struct worker_options {
    const char *listen, *backends;
    uint64_t threads;
};

#define AT(field) offsetof(struct worker_options, field)

static const struct option_desc options_table[] = {
    {"listen", 0, OPTION_TEXT, AT(listen), .value = "HOST:PORT", .initial = "127.0.0.1:50052",
     .group = "Worker", .help = "Address to listen on. Every client that reaches it is trusted."},
    {"threads", 't', OPTION_UINT, AT(threads), .value = "N", .max = 4096,
     .help = "Threads of a processor that is offered; 0 = physical cores."},
    {"backends", 0, OPTION_TEXT, AT(backends), .value = "DIR",
     .help = "Folder with ggml's backends, instead of the built-in one."},
};

static bool is_local(const char *listen)
{
    const char *colon = strrchr(listen, ':');

    return http_is_loopback((struct str){listen, (size_t)(colon - listen)});
}

static enum cli_exit run(struct cli *cli, const void *given)
{
    const struct worker_options *options = given;
    struct errinfo info = {0};

    if (strrchr(options->listen, ':') == NULL)
        return cli_usage_error(cli, "--listen %s: expected HOST:PORT", options->listen);
    fprintf(cli->out, "hearth worker listens on %s\n", options->listen);
    if (!is_local(options->listen))
        fprintf(cli->out, "The protocol has no authentication and no encryption: keep this address "
                          "on a private network.\n");
    fflush(cli->out);
    signal(SIGPIPE, SIG_IGN); /* a server that disconnects must not end the worker */
    (void)!rpc_serve(options->listen, options->backends, (unsigned)options->threads, &info);
    return cli_error(cli, "%s", info.text);
}

const struct command command_worker = {
    .name = "worker",
    .summary = "Offer the devices of this machine to a server that runs elsewhere.",
    .usage = "[options]",
    .table = {.command = "worker", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct worker_options),
    .run = run,
};

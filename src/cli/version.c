/*
 * version.c: `hearth version`: the build, its sources, and the libraries in use.
 *
 * Libraries are asked for their version at run time where that is possible: the header that was
 * compiled against says nothing about the shared library that runs.
 */
#include <stdio.h>

#include <blake3.h>
#include <xxhash.h>

#include "cli/cli.h"
#include "engine/backend.h"
#include "engine/engine.h"
#include "version.h"

#ifdef __clang__
#define COMPILER __VERSION__ /* says that it is clang */
#else
#define COMPILER "gcc " __VERSION__
#endif

/* inih cannot be asked and has no version in its header. */
static enum cli_exit run(struct cli *cli, const void *options)
{
    unsigned xxhash = XXH_versionNumber();

    (void)options;
    fprintf(cli->out,
            "hearth %s (commit %s, %s build)\n  libllama   %s\n  libggml    %s\n"
            "  BLAKE3     %s\n  xxHash     %u.%u.%u\n  compiler   %s\n",
            HEARTH_VERSION, HEARTH_COMMIT, HEARTH_VARIANT, engine_library_version(),
            engine_ggml_version(), blake3_version(), xxhash / 10000, xxhash / 100 % 100,
            xxhash % 100, COMPILER);
    return CLI_EXIT_OK;
}

const struct command command_version = {
    .name = "version",
    .summary = "Show the versions of hearth and its libraries.",
    .usage = "[options]",
    .table = {.command = "version"},
    .ignores_config = true,
    .run = run,
};

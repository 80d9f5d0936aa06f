/*
 * version.c: `hearth version`: the build, its sources, and the libraries in use.
 *
 * Libraries are asked for their version at run time where that is possible: the header that was
 * compiled against says nothing about the shared library that runs.
 */
#include <stdio.h>

#include <blake3.h>
#include <xxhash.h>

#include "base/attr.h"
#include "cli/cli.h"
#include "engine/engine.h"
#include "version.h"

enum { VERSION_TEXT_BYTES = 64 };

/* One line below the program's own; `text` may use `out` and returns what to print. */
struct version_line {
    const char *name;
    const char *(*text)(char out[VERSION_TEXT_BYTES]);
};

static const char *llama_text(char out[VERSION_TEXT_BYTES])
{
    (void)out;
    return engine_library_version();
}

static const char *ggml_text(char out[VERSION_TEXT_BYTES])
{
    (void)out;
    return engine_ggml_version();
}

static const char *blake3_text(char out[VERSION_TEXT_BYTES])
{
    (void)out;
    return blake3_version();
}

static const char *xxhash_text(char out[VERSION_TEXT_BYTES])
{
    unsigned n = XXH_versionNumber();

    snprintf(out, VERSION_TEXT_BYTES, "%u.%u.%u", n / 10000, n / 100 % 100, n % 100);
    return out;
}

static const char *compiler_text(char out[VERSION_TEXT_BYTES])
{
#ifdef __clang__
    (void)out;
    return __VERSION__; /* says that it is clang */
#else
    snprintf(out, VERSION_TEXT_BYTES, "gcc %s", __VERSION__);
    return out;
#endif
}

/* inih cannot be asked and has no version in its header. */
static const struct version_line lines[] = {
    {"libllama", llama_text}, {"libggml", ggml_text},      {"BLAKE3", blake3_text},
    {"xxHash", xxhash_text},  {"compiler", compiler_text},
};

static enum cli_exit run(struct cli *cli, const void *options)
{
    char text[VERSION_TEXT_BYTES];

    (void)options;
    fprintf(cli->out, "hearth %s (commit %s, %s build)\n", HEARTH_VERSION, HEARTH_COMMIT,
            HEARTH_VARIANT);
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        fprintf(cli->out, "  %-10s %s\n", lines[i].name, lines[i].text(text));
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

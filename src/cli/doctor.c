/*
 * doctor.c: `hearth doctor`: what hearth found on this machine, from where, and what is wrong with it.
 *
 * Each check prints one line: ok, note or FAIL, and for the latter two what to do. The exit status is 1 when something failed.
 */
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/hash.h"
#include "base/sysinfo.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "engine/engine.h"
#include "version.h"

enum { DEVICES_MAX = 16, FILES_WANTED = 1024 };

struct doctor_options {
    const char *backends;
};

static const struct option_desc options_table[] = {
    {"backends", 0, OPTION_TEXT, offsetof(struct doctor_options, backends), .value = "DIR",
     .help = "Folder with ggml's backends, instead of the one of the build."},
};

struct report {
    struct cli *cli;
    const struct doctor_options *options;
    int failures;
};

enum verdict { VERDICT_OK, VERDICT_NOTE, VERDICT_FAIL };

PRINTF(4, 5)
static void say(struct report *report, enum verdict verdict, const char *what, const char *fmt, ...)
{
    static const char *const names[] = {"ok", "note", "FAIL"};
    va_list args;

    report->failures += verdict == VERDICT_FAIL;
    fprintf(report->cli->out, "%-4s  %-9s  ", names[verdict], what);
    va_start(args, fmt);
    vfprintf(report->cli->out, fmt, args);
    va_end(args);
    fputc('\n', report->cli->out);
}

static void check_libraries(struct report *report)
{
    say(report, VERDICT_OK, "hearth", "%s (commit %s, %s build)", HEARTH_VERSION, HEARTH_COMMIT,
        HEARTH_VARIANT);
    say(report, VERDICT_OK, "libllama", "%s from %s", engine_library_version(),
        engine_library_origin());
    say(report, VERDICT_OK, "libggml", "%s from %s", engine_ggml_version(), engine_ggml_origin());
    say(report, VERDICT_OK, "BLAKE3", "%s from %s", blake3_version(),
        sysinfo_origin((void *)blake3_version));
}

static void check_devices(struct report *report)
{
    struct engine_backend_info list[DEVICES_MAX];
    const char *dir = engine_backends_dir(report->options->backends);
    size_t count = engine_backends(report->options->backends, list, DEVICES_MAX);

    if (count == 0) {
        say(report, VERDICT_FAIL, "backends",
            "none in %s: no model can be loaded. Give the folder with --backends, or run make again",
            dir);
        return;
    }
    say(report, VERDICT_OK, "backends", "%s", dir);
    for (size_t i = 0; i < count && i < DEVICES_MAX; i++) {
        char free_text[UNITS_TEXT_BYTES], total_text[UNITS_TEXT_BYTES];
        say(report, VERDICT_OK, "device", "%s: %s, %s of %s free", list[i].name,
            list[i].description, units_format_size(list[i].memory_free, free_text),
            units_format_size(list[i].memory_total, total_text));
    }
}

static void check_machine(struct report *report)
{
    char total[UNITS_TEXT_BYTES], available[UNITS_TEXT_BYTES];
    struct rlimit files;

    say(report, VERDICT_OK, "machine", "%u cores, %s of %s memory available", sysinfo_cores(),
        units_format_size(sysinfo_memory_available(), available),
        units_format_size(sysinfo_memory_total(), total));
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    if (files.rlim_cur < FILES_WANTED)
        say(report, VERDICT_NOTE, "files",
            "only %llu may be open at once; `ulimit -n %d` gives room for many clients",
            (unsigned long long)files.rlim_cur, FILES_WANTED);
    else
        say(report, VERDICT_OK, "files", "%llu may be open at once",
            (unsigned long long)files.rlim_cur);
}

static void check_config(struct report *report)
{
    say(report, VERDICT_OK, "config", "%s",
        report->cli->config ? report->cli->config
                            : "none; settings come from options and the environment");
}

static enum cli_exit run(struct cli *cli, const void *options)
{
    struct report report = {.cli = cli, .options = options};

    check_libraries(&report);
    check_devices(&report);
    check_machine(&report);
    check_config(&report);
    return report.failures == 0 ? CLI_EXIT_OK : CLI_EXIT_FAILURE;
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "Show what hearth found on this machine, and what is wrong with it.",
    .usage = "[options]",
    .table = {.command = "doctor", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct doctor_options),
    .run = run,
};

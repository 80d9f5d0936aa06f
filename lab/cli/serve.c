/*
 * serve.c: `hearth-lab serve`: `hearth serve` with two more options, which break its promises on
 * purpose. `hearth qa --prove` and `make soak` show with them that their checks notice.
 */
#include <errno.h>
#include <string.h>

#include "base/drill.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/serve.h"
#include "lab/cli/lab.h"
#include "lab/file_fault.h"

/* `serve` is first: the rows of hearth serve are offsets into it. */
struct lab_serve_options {
    struct serve_options serve;
    int drill;           /* enum drill */
    uint64_t disk_fault; /* every n-th call of the disk fails; 0 = none */
};

struct lab_faults {
    struct serve_faults faults; /* first */
    struct file_fault disk;
    uint64_t every;
};

enum { ROWS_MAX = 256 };

static struct option_desc rows[ROWS_MAX];

/* Errors of the disk begin once it is open, and must only cause misses (I94). */
static void arm(const struct serve_faults *faults)
{
    struct lab_faults *lab = (struct lab_faults *)faults;

    fault_arm_every(&lab->disk.when, (long)lab->every);
}

static enum cli_exit run(struct cli *cli, const void *values)
{
    const struct lab_serve_options *options = values;
    struct lab_faults lab = {.faults.drill = (enum drill)options->drill,
                             .every = options->disk_fault};
    struct cli_setup setup = *cli->setup;

    if (options->drill != DRILL_NONE)
        LOG_WARN(cli->log, "serve", "fault injection is on: not for production",
                 LOG_STR("fault", drill_names[options->drill]));
    if (options->disk_fault > 0) {
        LOG_WARN(cli->log, "serve", "disk fault injection is on: not for production",
                 LOG_UINT("every", options->disk_fault));
        file_fault_init(&lab.disk, setup.fs);
        lab.disk.kind = FILE_FAULT_TORN;
        lab.disk.errnum = EIO;
        lab.faults.disk = &lab.disk.sys;
        lab.faults.on_disk_open = arm;
    }
    setup.faults = &lab.faults;
    cli->setup = &setup;
    return command_serve.run(cli, &options->serve);
}

struct command command_lab_serve;

void lab_serve_setup(void)
{
    static const struct option_desc faults[] = {
        {"fault", 0, OPTION_ENUM, offsetof(struct lab_serve_options, drill), .value = "NAME",
         .initial = "none", .names = drill_names, .hidden = true, HERE,
         .help = "Inject a fault, for `hearth qa --prove`."},
        {"fault-disk", 0, OPTION_UINT, offsetof(struct lab_serve_options, disk_fault), .value = "N",
         .max = 1u << 30, .hidden = true, HERE,
         .help = "Fail every N-th disk call, for `make soak`."},
    };
    const size_t count = command_serve.table.count;

    assert(count + COUNT_OF(faults) <= ROWS_MAX);
    memcpy(rows, command_serve.table.options, count * sizeof(rows[0]));
    memcpy(rows + count, faults, sizeof(faults));
    command_lab_serve = command_serve;
    command_lab_serve.table.options = rows;
    command_lab_serve.table.count = count + COUNT_OF(faults);
    command_lab_serve.options_size = sizeof(struct lab_serve_options);
    command_lab_serve.run = run;
}

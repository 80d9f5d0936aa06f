/*
 * doctor.h: what the files of `hearth doctor` share: the report that checks write their lines to.
 */
#ifndef HEARTH_CLI_DOCTOR_H
#define HEARTH_CLI_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"

struct cli;

struct doctor_options {
    const char *backends, *ssd_dir, *state_dir, *host;
    uint64_t port, ssd_free, disk_bytes;
};

struct doctor {
    struct cli *cli;
    const struct doctor_options *options;
    int failures;
};

/* Warnings and failures say what to do. */
enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL };

/* "ok    disk       ..." */
void doctor_say(struct doctor *doctor, enum verdict verdict, const char *what, const char *fmt, ...)
    PRINTF(4, 5);

/* doctor_disk.c: the folders of state and cache: permissions, room, O_DIRECT, speed. */
void doctor_check_folders(struct doctor *doctor);

#endif

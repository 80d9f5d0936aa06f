/*
 * sheets.h: results of commands that measure: a table on standard output, and the same as JSON, CSV
 * and a picture on request.
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"
#include "base/option.h"
#include "cli/cli.h"
#include "lab/plot.h"
#include "cli/sheet.h"

struct buf;

/* "-" is standard output, instead of the table. NULL = not written. */
struct sheet_outputs {
    const char *json, *csv, *svg;
};

/* Rows of an option table; `type` is the command's struct, `field` where the outputs are in it. */
/* clang-format off */
#define SHEET_OUTPUT_OPTIONS(type, field) \
    {"json", 0, OPTION_TEXT, offsetof(type, field.json), .value = "FILE", .not_in_file = true, \
     .group = "Results", .help = "Write the results as JSON; - = standard output."}, \
    {"csv", 0, OPTION_TEXT, offsetof(type, field.csv), .value = "FILE", .not_in_file = true, \
     .help = "Write the results as CSV; - = standard output."}, \
    {"svg", 0, OPTION_TEXT, offsetof(type, field.svg), .value = "FILE", .not_in_file = true, \
     .help = "Draw the results as SVG."}
/* clang-format on */

/* The first line of every sheet, and facts: program, version, library, machine. */
void cli_note_machine(const struct cli *cli, struct sheet *sheet);
void cli_fact_machine(const struct cli *cli, struct sheet *sheet); /* without the line */
/* the line alone, in the arena */
const char *cli_machine_line(const struct cli *cli);
const char *cli_machine(const struct cli *cli); /* in the arena */

/* Writes a file, or standard output for "-". On failure prints an error and returns false. */
bool cli_write_text(const struct cli *cli, const char *path, const struct buf *text) NODISCARD;
/* Writes all requested formats. Prints errors and returns the exit status. */
enum cli_exit cli_write_sheet(const struct cli *cli, const struct sheet_outputs *outputs,
                              const struct sheet *sheet, const struct plot *plot) NODISCARD;

/* Waits until no other `hearth qa` or `hearth bench` of this user runs: they would disturb each
 * other. The result is for process_unlock. */
int cli_take_turn(const struct cli *cli);

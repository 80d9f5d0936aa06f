/*
 * sheet.h: results as rows and columns, and every form that they are wanted in.
 *
 *      table   for people, columns as wide as they need to be, under the notes
 *      csv     notes as lines that begin with '#', names, rows
 *      json    {"notes": [...], "rows": [{"name": value, ...}]}
 *      svg     bars, one group per row; stands alone, no script, no font
 *
 * Pure: cells in, text out. Owner: one thread.
 */
#ifndef HEARTH_BENCH_SHEET_H
#define HEARTH_BENCH_SHEET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"

struct buf;
struct sheet;

enum { SHEET_TEXT = -1 }; /* decimals of a column that holds text */

struct sheet_column {
    const char *name;  /* for programs: "ttft_ms" */
    const char *label; /* for people: "TTFT ms" */
    int decimals;      /* of its numbers, or SHEET_TEXT */
};

/* The columns must outlive it. */
struct sheet *sheet_create(const struct sheet_column *columns, size_t count);
void sheet_destroy(struct sheet **sheet);

/* A line of the head: what was measured, with what, on what. */
void sheet_note(struct sheet *sheet, const char *fmt, ...) PRINTF(2, 3);

/* The next cells, row by row. What is not a number (NAN) is "-", empty or null. A cell of the wrong kind is a caller's bug. */
void sheet_text(struct sheet *sheet, const char *text);
void sheet_number(struct sheet *sheet, double value);

size_t sheet_rows(const struct sheet *sheet);

/* Fail as buf_append does. */
enum err sheet_write_table(const struct sheet *sheet, struct buf *out);
enum err sheet_write_csv(const struct sheet *sheet, struct buf *out);
enum err sheet_write_json(const struct sheet *sheet, struct buf *out);

/* Bars for up to four columns of numbers, named by columns of text. */
struct sheet_plot {
    const char *title;
    const char *labels[3]; /* names of columns; NULL = fewer */
    const char *values[4];
    bool logarithmic;
};
enum err sheet_write_svg(const struct sheet *sheet, const struct sheet_plot *plot, struct buf *out);

#endif

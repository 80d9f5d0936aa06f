/*
 * sheet.h: results as rows and columns, and their output formats.
 *
 *      table   for people: columns as wide as they need to be, under the notes
 *      csv     notes as lines that begin with '#', names, rows
 *      json    {facts..., "notes": [...], "rows": [{"name": value, ...}]}
 *      svg     plot.h
 *
 * Pure: cells in, text out. Owner: one thread.
 */
#pragma once

#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"

struct buf;
struct sheet;

/* The type of a column, if not numbers with a fixed number of decimals (>= 0). People see units,
 * programs plain numbers. */
enum sheet_form {
    SHEET_TEXT = -1,
    SHEET_COUNT = -2,   /* 28,412 */
    SHEET_SIZE = -3,    /* bytes: 1.5 GiB */
    SHEET_PERCENT = -4, /* of 1: 38.46% */
    /* text for people that repeats other columns: not in CSV and JSON */
    SHEET_CAPTION = -5,
};

struct sheet_column {
    const char *name;  /* for programs: "ttft_ms" */
    const char *label; /* for people: "TTFT ms"; NULL = for programs only */
    int form;          /* decimals of its numbers, or an enum sheet_form */
};

/* The columns must outlive it. */
struct sheet *sheet_create(const struct sheet_column *columns, size_t count);
void sheet_destroy(struct sheet **sheet);

/* A line of the head: what was measured, with what, on which machine. */
void sheet_note(struct sheet *sheet, const char *fmt, ...) PRINTF(2, 3);

/* The same for programs, under a name (a literal): only in JSON. */
void sheet_fact_text(struct sheet *sheet, const char *name, const char *text);
void sheet_fact_number(struct sheet *sheet, const char *name, double value);

/* The next cells, row by row. What is not a number (NAN) is "-", empty or null. A cell of the wrong
 * kind is a caller's bug. */
void sheet_text(struct sheet *sheet, const char *text);
void sheet_number(struct sheet *sheet, double value);

size_t sheet_rows(const struct sheet *sheet);

/* Fail as buf_append does. */
enum err sheet_write_table(const struct sheet *sheet, struct buf *out);
enum err sheet_write_csv(const struct sheet *sheet, struct buf *out);
enum err sheet_write_json(const struct sheet *sheet, struct buf *out);

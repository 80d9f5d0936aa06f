/*
 * web_files.h: the files of the dashboard, embedded in the program: web/ and the chart library, put
 * into a table by tools/embed.sh.
 *
 * Threads: read-only.
 */
#pragma once

struct web_file {
    const char *name;        /* "index.html"; NULL ends the table */
    const char *type;        /* content type */
    const char *tag;         /* an entity tag, including its quotes */
    const char *begin, *end; /* end[0] is a NUL */
};

extern const struct web_file web_files[];

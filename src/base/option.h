/*
 * option.h: self-describing settings.
 *
 * A command declares its options in one table, which gives the command line, the environment, the
 * INI file, the help text, manual pages and completions. Values are stored in the command's own
 * struct, by offset:
 *
 *      struct serve_options { const char *host; uint64_t port; uint64_t ram_cache; bool exact; };
 *      static const struct option_desc serve_table[] = {
 *          {"host", 0, OPTION_TEXT, offsetof(struct serve_options, host), .value = "ADDRESS",
 *           .initial = "127.0.0.1", .help = "Address to listen on, or a path ending in .sock."},
 *          {"port", 0, OPTION_UINT, offsetof(struct serve_options, port), .value = "N",
 *           .initial = "4327", .max = 65535,
 *           .help = "Port to listen on; 0 lets the system choose."},
 *      };
 *
 * A setting comes from, strongest first: the command line (--port 8000, --port=8000, -p8000), the
 * environment (HEARTH_PORT; empty counts as not set), the INI file ("port = 8000" in [serve], then
 * before any section), the table. `--no-NAME` clears a flag; flags of one letter combine (-vx).
 * Flags in the environment and in the file are on, true, yes, 1 or off, false, no, 0. A list has
 * one item per --NAME or per line of the file; in the environment and in the table, where a name
 * cannot be repeated, commas separate items. A stronger source replaces the list of a weaker one.
 * "--" ends options; other arguments are positional and returned in order.
 *
 * Error messages name the option, the value, its source, and what would be valid; for an unknown
 * option they suggest the nearest known one. Values of a weaker source are checked even when a
 * stronger one overrides them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* The C type at the offset is in brackets. */
enum option_type {
    OPTION_FLAG,  /* [bool] */
    OPTION_UINT,  /* [uint64_t] min..max */
    OPTION_INT,   /* [int64_t] imin..imax, or one of `names`, stored as -1, -2, ... */
    OPTION_FLOAT, /* [double] fmin..fmax */
    OPTION_TEXT,  /* [const char *] NULL when not given and no initial value */
    OPTION_ENUM,  /* [int] index into names */
    OPTION_SIZE,  /* [uint64_t] bytes; a percentage is of `whole`; `names` as UINT64_MAX, ... - 1 */
    OPTION_DURATION, /* [uint64_t] nanoseconds */
    OPTION_LIST,     /* [struct option_list] texts; may be given several times */
};

/* From the weakest to the strongest. */
enum option_source {
    OPTION_FROM_TABLE,
    OPTION_FROM_FILE,
    OPTION_FROM_SECTION, /* of the file: a list in [serve] replaces one before any section */
    OPTION_FROM_ENV,
    OPTION_FROM_COMMAND,
};

struct option_list {
    const char **items;
    size_t count;
};

struct option_desc {
    /* long name without dashes; the INI key; HEARTH_<NAME> in the environment, '-' as '_' */
    const char *name;
    char letter; /* short option, or 0 */
    enum option_type type;
    size_t offset;
    /* placeholder for the value in help: "N", "SIZE", "FILE"; NULL: by type */
    const char *value;
    const char *initial;      /* as a user would write it; NULL: zero, false, none */
    const char *help;         /* one sentence */
    const char *const *names; /* ENUM, INT, SIZE; NULL-terminated */
    uint64_t min, max;        /* UINT, SIZE, DURATION (ns): max 0 = no bound */
    int64_t imin, imax;       /* INT: both 0 = no bound */
    double fmin, fmax;        /* FLOAT: both 0 = no bound */
    const char *group;        /* heading in the help; NULL = the previous one */
    /* a second long name ("np"); matched with one or two dashes; or NULL */
    const char *alias;
    bool commas;      /* LIST: they separate items on the command line and in the file, too */
    bool secret;      /* its value is never shown */
    bool not_in_file; /* not a key of the INI file */
    bool hidden;      /* not in the help: for internal tools */
};

struct option_table {
    const char *command; /* the INI section */
    const struct option_desc *options;
    size_t count;
};

/* How an argument of another program's command line is understood. */
struct option_foreign {
    const char *arg, *next; /* as written; next is NULL at the end of the line */
    /* results */
    bool known;
    bool uses_next;
    const char *instead; /* "--name=value" that is read in its place; NULL = nothing */
};

/* Input and results of one parse. Texts live in `arena`. */
struct option_parse {
    struct arena *arena;
    uint64_t whole;         /* what percentages of sizes refer to */
    const char *ini_text;   /* content of the INI file, or NULL */
    const char *ini_name;   /* for messages */
    const char *const *env; /* environ, or NULL to ignore it */
    /* The tables of the other commands, NULL-terminated: all share the file, so a key before any
     * section may be theirs, and a key of none of them is a mistake. NULL: other sections are
     * skipped. */
    const struct option_table *const *others;
    /* sections "[NAMED name]" are skipped: see option_sections, option_read_section. NULL: none */
    const char *named;
    /* Asked about every option of the command line before the table is; NULL = none. */
    enum err (*foreign)(void *arg, struct option_foreign *option, struct errinfo *info);
    void *foreign_arg;
    /* results */
    const char **positional;
    size_t positional_count;
    bool help;                   /* --help or -h was given; nothing else was checked */
    enum option_source *sources; /* one per option of the table */
};

/* Fills *values from all sources. argv holds arguments only (no program name). On an error `info`
 * has the message and *values must not be used. ERR_NOMEM or ERR_LIMIT when the arena is exhausted.
 * A line of the INI file may have 198 bytes, which is inih's limit. */
enum err option_parse(const struct option_table *table, int argc, char **argv, void *values,
                      struct option_parse *parse, struct errinfo *info) NODISCARD;

/* Whether the table has this name or alias, without dashes. */
bool option_has(const struct option_table *table, struct str name);

/* The sections "[KIND name]" of the parse's INI text: their names, in order, in its arena. */
enum err option_sections(struct option_parse *parse, const char *kind, struct option_list *names,
                         struct errinfo *info) NODISCARD;

/* Overrides *values, filled before, with the settings of the section "[KIND name]". A missing
 * section changes nothing. */
enum err option_read_section(const struct option_table *table, const char *kind, const char *name,
                             void *values, struct option_parse *parse,
                             struct errinfo *info) NODISCARD;

/* The options part of `hearth CMD --help`: groups, defaults, ranges, environment names. `width`
 * columns, at least 60. A flag that is on by default is listed as --no-NAME, its only useful form.
 * Fails as buf_append does. */
enum err option_help(const struct option_table *table, struct buf *out, int width);

/* How an option is written in explanations. */
struct option_spelling {
    bool negative;            /* a flag that is on by default: --no-NAME */
    const char *alias_dashes; /* "-" or "--" */
};

struct option_spelling option_spelling(const struct option_desc *desc);

/* The placeholder for the value in help, or NULL for a flag and for an ENUM without its own
 * word. */
const char *option_value_word(const struct option_desc *desc);

/* The options part of a manual page, man(7): as options of a command, or as keys of the INI file.
 * Fails as buf_append does. */
enum option_man_style { OPTION_MAN_OPTIONS, OPTION_MAN_KEYS };
enum err option_man(const struct option_table *table, enum option_man_style style, struct buf *out);
/* Text that roff shows literally; and prose, in lines of limited length, ended by a newline. */
void option_roff(struct buf *out, struct str text);
void option_roff_text(struct buf *out, struct str text);

/* An INI section's content with every key of the table, explained, commented out, with its default.
 * Fails as buf_append does. */
enum err option_example(const struct option_table *table, struct buf *out);

/* The setting as text ("8.0 GiB", "on", "none"), for `doctor` and /props; "***" for a secret that
 * is set. Fails as buf_append does. */
enum err option_show(const struct option_desc *desc, const void *values, struct buf *out);

/* The nearest of `count` names to `text`, or NULL when none is near enough to be a typo or a
 * prefix. */
const char *option_nearest(struct str text, const char *const *names, size_t count);

/*
 * launch.h: the clients that `hearth launch` knows: one row each, all that is particular about
 * them.
 *
 * In the texts of a row stand {url} (the server), {v1} (the same with /v1), {key}, {model},
 * {context} (tokens), {output} (tokens of an answer at most), and {model:json}: the name inside of
 * a quoted JSON or TOML text. A row sets environment variables and arguments, which end with the
 * client. No file of the user is ever written: where a client reads providers from a file only, the
 * row has the lines for it, to be shown.
 */
#ifndef HEARTH_CLI_LAUNCH_H
#define HEARTH_CLI_LAUNCH_H

#include <stddef.h>

enum { LAUNCH_ENV_MAX = 16, LAUNCH_ARGS_MAX = 24 };

struct launch_client {
    const char *name;    /* as it is typed */
    const char *program; /* in PATH; NULL: nothing is started, lines are printed */
    const char *get;     /* how to get it, for people who have not */
    struct launch_env {
        const char *name, *value; /* value NULL: taken out of the environment, since it would win */
    } env[LAUNCH_ENV_MAX];        /* ended by a name that is NULL, as are the arguments */
    const char *args[LAUNCH_ARGS_MAX]; /* before those of the user */
    /* below the home folder, where the client looks for `lines`; NULL: it needs none */
    const char *file;
    const char *lines; /* must be there */
    const char *mark;  /* what shows that they are */
};

extern const struct launch_client launch_clients[];
extern const size_t launch_clients_count;

#endif

/*
 * tool.h: a tool that a model may call, as the client described it: for the template that shows it,
 * the grammar that allows calls of it, and the reader of those calls.
 */
#pragma once

#include <stdbool.h>

#include "base/str.h"

struct yyjson_val;

/* Everything is borrowed: from the request's body, or from its arena. */
struct tool {
    struct str name;
    struct str space;          /* the part of the name that the client has separately; or empty */
    struct str description;    /* ptr == NULL: none */
    struct yyjson_val *schema; /* of the parameters; NULL: it takes none */
    bool strict;
    bool custom; /* the client gets a text, not arguments */
    bool barred; /* shown to the model, but not to be called: the prompt stays the same */
};

/*
 * toolcall_syntax.h: the markers of the formats, passed to the step functions by the table in
 * toolcall_formats.c.
 */
#ifndef HEARTH_OUTPUT_TOOLCALL_SYNTAX_H
#define HEARTH_OUTPUT_TOOLCALL_SYNTAX_H

#include <stdbool.h>

#include "base/str.h"

/* A name, then JSON (toolcall_named.c). */
struct tc_named_syntax {
    /* empty: the opener begins the call, and calls are not in a section */
    struct str call_begin;
    struct str name_end;
    struct str call_end;
    bool numbered; /* names look like functions.f:0 */
    bool fenced;   /* the name may be on its own line, the arguments in a code block */
};

/* Arguments one by one, between tags (toolcall_xml.c). */
struct tc_xml_syntax {
    struct str call_begin; /* empty: the opener begins the call */
    struct str name_end;   /* empty: the next tag or the end of the line */
    struct str parameter_begin;
    struct str key_end;
    struct str value_begin; /* empty: key_end begins the value */
    struct str value_end;
    struct str call_end; /* empty: the closer ends the call */
    bool lines;          /* values are on their own lines */
    bool typed;          /* key_end is followed by  string="true">  or  string="false">  */
};

/* Calls written as expressions (toolcall_expr.c). */
struct tc_expr_syntax {
    struct str prefix; /* before the name */
    struct str quote;  /* around strings, which then have no escapes; empty = as in Python */
    char open, between, close; /* f(a=1) or f{a:1} */
};

#endif

/*
 * call_format.h: how a family of models writes tool calls, as data that one reader and one writer of
 * grammars share.
 *
 *      OPENER ( CALL_BEGIN [id ID_END] name [HEAD_BEGIN ...] NAME_END arguments CALL_END )* CLOSER
 *
 *      form         name and arguments
 *      OBJECT       {"name": "f", "arguments": {"a": 1}}, one, several, or a list of them
 *      NAMED        name NAME_END {"a": 1}
 *      TAGS         name NAME_END ( PARAMETER_BEGIN key KEY_END [VALUE_BEGIN] value VALUE_END )*
 *      EXPRESSION   f(a=1) or f{a:1}
 *      MESSAGES     the whole output is messages, each with a header that names its recipient
 *
 * Empty marks are absent. The rows of the table (toolcall_formats.c) are static; a format that was
 * learned from a template (chat/template_learn.c) belongs to the template.
 */
#pragma once

#include <stdbool.h>

#include "base/str.h"

enum { CALL_OPENERS_MAX = 3, CALL_CLOSERS_MAX = 2, CALL_SHOWN_MAX = 3, CALL_ENDS_MAX = 5 };

enum call_form {
    CALL_NONE,
    CALL_OBJECT,
    CALL_NAMED,
    CALL_TAGS,
    CALL_EXPRESSION,
    CALL_MESSAGES,
    CALL_FORM_COUNT
};

/* For CALL_MESSAGES. */
struct call_messages {
    struct str starts[CALL_ENDS_MAX]; /* a header begins with one of these */
    struct str header_end;
    struct str ends[CALL_ENDS_MAX]; /* of a body; the first `ends_own` belong to it */
    unsigned ends_own;
    struct str opening; /* the prompt ends with it, and the header follows */
};

struct call_format {
    enum call_form form;
    struct str openers[CALL_OPENERS_MAX]; /* lead from content to calls */
    struct str closers[CALL_CLOSERS_MAX]; /* lead back to content; none: the end of the call does */

    struct str call_begin; /* empty, or equal to an opener: the opener begins the call */
    struct str id_end;     /* an id comes before the name and ends here */
    struct str head_begin; /* text from here to name_end may follow the name, and is dropped */
    struct str name_end;   /* empty: the next tag or the end of the line */
    struct str name_close; /* instead of name_end: the call has no arguments and ends here */
    struct str call_end;   /* empty: the closer or the end of the arguments ends the call */

    /* OBJECT: for grammars; readers accept all known names */
    const char *name_key, *arguments_key;

    /* TAGS */
    struct str parameter_begin;
    struct str key_end;
    struct str attributes_end; /* attributes that say the type follow the key, and end here */
    struct str object_begin;   /* all arguments as one JSON object, after attributes */
    struct str value_begin;    /* empty: key_end begins the value */
    struct str value_end;
    struct str value_tail; /* the value ends with value_end, its key, value_tail */

    /* EXPRESSION */
    struct str quote; /* around strings, which then have no escapes; empty = as in Python */
    char open, between, close;

    const struct call_messages *messages;

    bool list;     /* OBJECT: models write lists, not single objects */
    bool keyed;    /* OBJECT: {"f": {"a": 1}}: the name is a key */
    bool numbered; /* NAMED: names look like functions.f:0 */
    bool fenced;   /* NAMED: the name may be on its own line, the arguments in a code block */
    bool lines;    /* TAGS: values are on their own lines */
    bool cdata;    /* TAGS: a value may be <![CDATA[...]]> */
    bool nested;   /* TAGS: objects and lists are tags inside the value */
    bool control;  /* the openers are control tokens */
    bool bare;     /* a JSON call or a list of calls where content would begin is one, too */

    /* A template uses the format if it has all of these; without any, or with or_opener, if it has
     * the first opener. */
    struct str shown[CALL_SHOWN_MAX];
    bool or_opener;
};

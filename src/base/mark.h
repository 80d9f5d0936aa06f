/*
 * mark.h: the roles of messages, and the places in a prompt where messages begin and end.
 *
 * All code that handles prompts shares these types: the template sets marks in the text (bytes),
 * the tokenizer moves them into the prompt (tokens), the scheduler cuts there, and reports name the
 * message.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/str.h"

/* X(value, name) */
#define ROLE_TABLE(X)                                         \
    X(ROLE_SYSTEM, "system") /* clients also say developer */ \
    X(ROLE_USER, "user")                                      \
    X(ROLE_ASSISTANT, "assistant")                            \
    X(ROLE_TOOL, "tool")                                      \
    X(ROLE_NONE, "")

enum role { ROLE_TABLE(TABLE_VALUE) ROLE_COUNT };

/* "user"; "" for ROLE_NONE and for invalid roles. */
const char *role_name(enum role role);

/* ROLE_NONE: no role has that name. */
enum role role_from(struct str name);

/* X(value, name) */
#define MARK_TABLE(X)                                                                   \
    X(MARK_SYSTEM_END, "system_end") /* end of system text and tools */                 \
    X(MARK_MESSAGE_BEGIN, "message_begin")                                              \
    X(MARK_MESSAGE_END, "message_end")                                                  \
    X(MARK_GENERATION, "generation") /* the prompt for the answer begins */             \
    X(MARK_TRANSIENT, "transient")   /* text that may be gone next turn begins */       \
    X(MARK_PART, "part")             /* a part of a message ends, and another begins */ \
    X(MARK_CUT, "cut")               /* a breakpoint inside a message */

enum mark_kind { MARK_TABLE(TABLE_VALUE) MARK_COUNT };

struct mark {
    size_t at; /* bytes of the text, or tokens of the prompt, before it */
    enum mark_kind kind;
    /* index in the request; of SYSTEM_END and GENERATION the message before it, or 0 */
    uint32_t message;
    enum role role; /* of that message */
};

const char *mark_name(enum mark_kind kind);

/*
 * neutral.h: makes constant what changes with every request but carries no meaning (I106).
 *
 * Clients put billing headers, checksums and clocks into the system prompt, and send tools in the
 * order of a hash map. One changed byte near the beginning turns the whole prompt into a cache
 * miss. Each rule replaces one such item by a placeholder of the same meaning, or puts it into a
 * fixed order. Text rules apply to system and developer messages only; messages of users,
 * assistants and tools are never changed. Every rule has a name, can be switched, and counts its
 * changes.
 *
 * Threads: rules are enabled or disabled before the set is shared; applying them is lock-free.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct arena;
struct buf;
struct conversation;
struct neutral;

/* X(value, name, on by default, description) */
#define NEUTRAL_TABLE(X)                                                                \
    X(NEUTRAL_BILLING, "billing-header", true,                                          \
      "removes lines that begin with x-anthropic-billing-header:")                      \
    X(NEUTRAL_CCH, "cch", true, "replaces the value of cch=<hex> by zeros")             \
    X(NEUTRAL_CLOCK, "clock", true,                                                     \
      "removes the time of day after a date: 2026-11-15 10:33:12 becomes 2026-11-15")   \
    X(NEUTRAL_TEMPLATE_CLOCK, "template-clock", true,                                   \
      "lets a template that asks for the time see the beginning of the day")            \
    X(NEUTRAL_TOOL_ORDER, "tool-order", true, "shows tools sorted by name")             \
    X(NEUTRAL_SCHEMA_KEYS, "schema-keys", true,                                         \
      "writes the keywords of tools' schemas, and the names in required, in one order") \
    X(NEUTRAL_PARAMETER_ORDER, "parameter-order", false,                                \
      "shows the parameters of each tool sorted by name")                               \
    X(NEUTRAL_LATE_SYSTEM, "late-system", true,                                         \
      "shows a long system message that follows the first user message before it")      \
    X(NEUTRAL_TRANSIENT, "transient-spans", true,                                       \
      "stores state directly before text that clients add to the last message only")

enum neutral_rule { NEUTRAL_TABLE(TABLE_VALUE) NEUTRAL_COUNT };

struct neutral_info {
    const char *name;
    const char *description;
    bool on;
    uint64_t count; /* changes since creation */
};

/* The changes to one request. */
struct neutral_tally {
    uint32_t counts[NEUTRAL_COUNT];
};

struct neutral *neutral_create(void);
void neutral_destroy(struct neutral **neutral);

/* ERR_NOT_FOUND: no rule of that name. */
enum err neutral_switch(struct neutral *neutral, struct str name, bool on) NODISCARD;
struct neutral_info neutral_info(const struct neutral *neutral, enum neutral_rule rule);

bool neutral_is_on(const struct neutral *neutral, enum neutral_rule rule);

/* Adds to the counts of the rule and of the request. */
void neutral_count(struct neutral *neutral, struct neutral_tally *tally, enum neutral_rule rule,
                   uint32_t changes);

/* Applies the text rules. *out is `text` itself if nothing matched, otherwise a copy in the arena.
 * ERR_NOMEM, ERR_LIMIT. */
enum err neutral_text(struct neutral *neutral, struct arena *arena, struct str text,
                      struct neutral_tally *tally, struct str *out) NODISCARD;

/* Applies the rules about tools to those that the template shows (neutral_tools.c). ERR_NOMEM,
 * ERR_LIMIT. */
enum err neutral_tools(struct neutral *neutral, struct conversation *talk,
                       struct neutral_tally *tally) NODISCARD;

/* Where the first span begins that clients add to the last message and remove a turn later, such
 * as <environment_details>, with the white space before it. SIZE_MAX: there is none. */
size_t neutral_find_transient(struct str text);

/* The time to render a template at. */
int64_t neutral_now(const struct neutral *neutral, int64_t now_s);

/* "cch 2, tool-order", the rules that changed a request; nothing if none did. */
void neutral_write_tally(const struct neutral_tally *tally, struct buf *out);

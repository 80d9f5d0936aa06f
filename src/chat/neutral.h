/*
 * neutral.h: makes text constant that changes with every request but carries no meaning (I106).
 *
 * Clients put billing headers, checksums and clocks into the system prompt. One changed byte near
 * the beginning turns the whole prompt into a cache miss. Each rule replaces one such item by a
 * placeholder of the same meaning. Rules apply to system and developer messages only; messages of
 * users, assistants and tools are never changed. Every rule has a name, can be disabled, and counts
 * its replacements.
 *
 * Threads: rules are enabled or disabled before the set is shared; applying them is lock-free.
 */
#ifndef HEARTH_CHAT_NEUTRAL_H
#define HEARTH_CHAT_NEUTRAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct arena;
struct neutral;

/* X(value, name, on by default, description) */
#define NEUTRAL_TABLE(X)                                                              \
    X(NEUTRAL_BILLING, "billing-header", true,                                        \
      "removes lines that begin with x-anthropic-billing-header:")                    \
    X(NEUTRAL_CCH, "cch", true, "replaces the value of cch=<hex> by zeros")           \
    X(NEUTRAL_CLOCK, "clock", true,                                                   \
      "removes the time of day after a date: 2026-11-15 10:33:12 becomes 2026-11-15") \
    X(NEUTRAL_TEMPLATE_CLOCK, "template-clock", true,                                 \
      "lets a template that asks for the time see the beginning of the day")

enum neutral_rule {
#define X(value, name, on, description) value,
    NEUTRAL_TABLE(X)
#undef X
        NEUTRAL_COUNT
};

struct neutral_info {
    const char *name;
    const char *description;
    bool on;
    uint64_t count; /* replacements since creation */
};

struct neutral *neutral_create(void);
void neutral_destroy(struct neutral **neutral);

/* ERR_NOT_FOUND: no rule of that name. */
enum err neutral_switch(struct neutral *neutral, struct str name, bool on) NODISCARD;
struct neutral_info neutral_info(const struct neutral *neutral, enum neutral_rule rule);

/* Applies the rules. *out is `text` itself if nothing matched, otherwise a copy in the arena.
 * ERR_NOMEM, ERR_LIMIT. */
enum err neutral_text(struct neutral *neutral, struct arena *arena, struct str text,
                      struct str *out) NODISCARD;

/* The time to render a template at. */
int64_t neutral_now(struct neutral *neutral, int64_t now_s);

#endif

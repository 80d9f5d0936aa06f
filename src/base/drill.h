/*
 * drill.h: injected faults. `hearth serve --fault NAME` breaks one promise on purpose, so that
 * `hearth qa --prove` can show that its checks notice. Never for production servers.
 *
 * Each fault names the invariant (docs/invariants.md) that it breaks. Search for its enum value to
 * find where it is injected.
 */
#pragma once

#include "base/attr.h"

/* X(value, name, invariant, what it does) */
#define DRILL_TABLE(X)                                                                           \
    X(DRILL_NONE, "none", 0, "nothing")                                                          \
    X(DRILL_FORGET_ALL, "forget-all", 2, "no computed state is kept")                            \
    X(DRILL_FORGET_OTHERS, "forget-others", 3, "a new conversation drops all others")            \
    X(DRILL_FORGET_MODELS, "forget-models", 6, "a new prompt drops the state of all models")     \
    X(DRILL_KEEP_FIRST, "keep-first", 9, "only the first conversation is stored")                \
    X(DRILL_WHOLE_ONLY, "whole-only", 10, "a prompt that differs anywhere reuses nothing")       \
    X(DRILL_IGNORE_LIMIT, "ignore-limit", 22, "--ram-cache does not reach the cache")            \
    X(DRILL_FORGET_BRANCH, "forget-branch", 92, "an edit drops the branch it came from")         \
    X(DRILL_FAIL_RESTORE, "fail-restore", 94, "a failed restore ends the request")               \
    X(DRILL_FORGET_CANCELLED, "forget-cancelled", 95, "a cancelled request keeps nothing")       \
    X(DRILL_LIE_USAGE, "lie-usage", 99, "usage reports more cached tokens than were used")       \
    X(DRILL_SHARE_TENANTS, "share-tenants", 100, "keys see each other's prefixes")               \
    X(DRILL_NO_REASON, "no-reason", 104, "a miss has no reason")                                 \
    X(DRILL_KEEP_VOLATILE, "keep-volatile", 106, "a clock in the system prompt makes a new one") \
    X(DRILL_LOSE_WRITES, "lose-writes", 107, "nothing reaches the disk")                         \
    X(DRILL_WRONG_STATE, "wrong-state", 110, "restored state has bits flipped after its check")  \
    X(DRILL_WHOLE_MESSAGES, "whole-messages", 112, "state inside of a message is not reused")

enum drill { DRILL_TABLE(TABLE_VALUE) DRILL_COUNT };

/* NULL-terminated, in the order of the enum: the names of an option */
extern const char *const drill_names[];

unsigned drill_invariant(enum drill drill);

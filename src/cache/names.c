/*
 * names.c: the public enums of libhearth as strings.
 *
 * Names are a contract: they appear in log lines, metrics and server responses, so a name never
 * changes its meaning and is never reused. They are lower case with underscores; error texts are
 * for people. An unknown value (a newer program with an older library) also has a name: nothing
 * here returns NULL.
 */
#include "hearth/hearth.h"

#include <stddef.h>

#include "base/attr.h"

static const char *const error_texts[] = {
    [HEARTH_OK] = "no error",
    [HEARTH_ERROR_MEMORY] = "no memory, or the budget is full",
    [HEARTH_ERROR_INVALID] = "invalid argument",
    [HEARTH_ERROR_MISSING] = "the object is gone or damaged",
    [HEARTH_ERROR_EXISTS] = "already stored",
    [HEARTH_ERROR_REFUSED] = "refused by the policy",
    [HEARTH_ERROR_TIMEOUT] = "timed out",
    [HEARTH_ERROR_BUSY] = "in use by another process",
    [HEARTH_ERROR_SYSTEM] = "a system call failed",
};

static const char *const reason_names[] = {
    [HEARTH_REASON_NONE] = "none",
    [HEARTH_REASON_COLD] = "cold",
    [HEARTH_REASON_DIVERGED] = "diverged",
    [HEARTH_REASON_SHORT] = "short",
    [HEARTH_REASON_NO_SNAPSHOT] = "no_snapshot",
    [HEARTH_REASON_EVICTED] = "evicted",
    [HEARTH_REASON_FOREIGN] = "foreign_namespace",
    [HEARTH_REASON_UNVERIFIED] = "unverified",
    [HEARTH_REASON_CHEAPER] = "cheaper_to_compute",
    [HEARTH_REASON_TIMEOUT] = "timeout",
    [HEARTH_REASON_TIER_ERROR] = "tier_error",
    [HEARTH_REASON_REFUSED] = "refused",
    [HEARTH_REASON_DISABLED] = "disabled",
};

static const char *const match_names[] = {
    [HEARTH_MATCH_NONE] = "none",     [HEARTH_MATCH_EXACT] = "exact",
    [HEARTH_MATCH_PREFIX] = "prefix", [HEARTH_MATCH_SUPERSEQUENCE] = "supersequence",
    [HEARTH_MATCH_LCP] = "lcp",
};

/* HEARTH_TIER_COUNT means "in no tier" wherever a tier is recorded. */
static const char *const tier_names[] = {
    [HEARTH_TIER_RAM] = "ram",
    [HEARTH_TIER_SSD] = "ssd",
    [HEARTH_TIER_REMOTE] = "remote",
    [HEARTH_TIER_COUNT] = "none",
};

static const char *const event_names[] = {
    [HEARTH_EVENT_LOOKUP] = "lookup",
    [HEARTH_EVENT_HIT] = "hit",
    [HEARTH_EVENT_MISS] = "miss",
    [HEARTH_EVENT_PARTIAL] = "partial",
    [HEARTH_EVENT_WRITE] = "write",
    [HEARTH_EVENT_REPLACE] = "replace",
    [HEARTH_EVENT_EVICT] = "evict",
    [HEARTH_EVENT_PROMOTE] = "promote",
    [HEARTH_EVENT_DEMOTE] = "demote",
    [HEARTH_EVENT_DROP] = "drop",
    [HEARTH_EVENT_VERIFY_FAIL] = "verify-fail",
    [HEARTH_EVENT_CLEAR] = "clear",
};

static const char *const object_names[] = {
    "none",
    [HEARTH_OBJECT_ROWS] = "rows",
    [HEARTH_OBJECT_SLIDING] = "sliding",
    [HEARTH_OBJECT_SNAPSHOT] = "snapshot",
};

static const char *const state_names[] = {
    [HEARTH_STATE_OFF] = "off",
    [HEARTH_STATE_OK] = "ok",
    [HEARTH_STATE_DEGRADED] = "degraded",
    [HEARTH_STATE_READ_ONLY] = "read_only",
};

_Static_assert(COUNT_OF(event_names) == HEARTH_EVENT_COUNT, "an event has no name");
_Static_assert(COUNT_OF(reason_names) == HEARTH_REASON_COUNT, "a reason has no name");

static const char *name_of(const char *const *names, size_t count, size_t value)
{
    return value < count && names[value] != NULL ? names[value] : "unknown";
}

const char *hearth_error_text(int error)
{
    /* A negative error is a large size_t. */
    return (size_t)error < COUNT_OF(error_texts) ? error_texts[error] : "unknown error";
}

const char *hearth_reason_name(enum hearth_reason reason)
{
    return name_of(reason_names, COUNT_OF(reason_names), (size_t)reason);
}

const char *hearth_match_name(enum hearth_match match)
{
    return name_of(match_names, COUNT_OF(match_names), (size_t)match);
}

const char *hearth_tier_name(enum hearth_tier tier)
{
    return name_of(tier_names, COUNT_OF(tier_names), (size_t)tier);
}

const char *hearth_event_name(enum hearth_event_kind kind)
{
    return name_of(event_names, COUNT_OF(event_names), (size_t)kind);
}

const char *hearth_object_kind_name(enum hearth_object_kind kind)
{
    return name_of(object_names, COUNT_OF(object_names), (size_t)kind);
}

const char *hearth_tier_state_name(enum hearth_tier_state state)
{
    return name_of(state_names, COUNT_OF(state_names), (size_t)state);
}

unsigned hearth_api_version(void)
{
    return HEARTH_API_VERSION;
}

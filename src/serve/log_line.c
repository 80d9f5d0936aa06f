/* log_line.c: the log line that shows what the cache did for a request. */
#include "serve/log_line.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/units.h"

enum { TURN_END_TOKENS = 8 }; /* the most that a template writes after the text of a message */

bool log_line_message_at(const struct mark *marks, size_t count, uint32_t position,
                         struct mark *message)
{
    bool found = false;

    for (size_t i = 0; i < count && marks[i].at <= position; i++) {
        if (marks[i].kind != MARK_MESSAGE_BEGIN)
            continue;
        *message = marks[i];
        found = true;
    }
    return found;
}

bool log_line_new_message(const struct mark *marks, size_t count, enum hearth_reason reason,
                          uint32_t first_difference, struct mark *message)
{
    for (size_t i = 0; i < count && reason == HEARTH_REASON_SHORT; i++) {
        if (marks[i].kind != MARK_MESSAGE_BEGIN || marks[i].at <= first_difference)
            continue;
        if (marks[i].at - first_difference > TURN_END_TOKENS)
            break;
        *message = marks[i];
        return true;
    }
    return log_line_message_at(marks, count, first_difference, message);
}

static void write_parts(const struct gen_usage *usage, struct buf *out)
{
    assert(usage->prompt == gen_usage_reused(usage) + usage->computed);
    buf_appendf(out, "prompt %u", usage->prompt);
    if (usage->cut > 0)
        buf_appendf(out, " of %u", usage->prompt + usage->cut);
    buf_appendf(out, " = device %u + ram %u + ssd %u", usage->device, usage->ram, usage->ssd);
    if (usage->remote > 0)
        buf_appendf(out, " + remote %u", usage->remote);
    buf_appendf(out, " + computed %u", usage->computed);
}

/* In words; the API uses the names of enum hearth_reason. */
static void write_reason_name(const struct gen_usage *usage, struct buf *out)
{
    const char *name = usage->reason == HEARTH_REASON_SHORT  ? "new text"
                       : usage->reason != HEARTH_REASON_NONE ? hearth_reason_name(usage->reason)
                       : gen_usage_reused(usage) > 0         ? "full hit"
                                                             : "too short to cache";

    for (; *name != '\0'; name++)
        buf_append_char(out, *name == '_' ? ' ' : *name);
}

/* What the next snapshot was, and why it was not nearer. */
static void write_later(const struct gen_usage *usage, struct buf *out)
{
    static const char *const words[GEN_LATER_COUNT] = {
        [GEN_LATER_NO_PLACE] = "no chunk ended later",
        [GEN_LATER_BUDGET] = "later ones did not fit the budget",
        [GEN_LATER_EVICTED] = "a later one was evicted"};

    if (words[usage->later] != NULL)
        buf_appendf(out, ", the last one is at %u: %s", gen_usage_reused(usage),
                    words[usage->later]);
}

/* Why no more was reused, and where reuse ended. */
static void write_reason(const struct gen_usage *usage, const struct mark *marks, size_t count,
                         struct buf *out)
{
    bool is_new = usage->reason == HEARTH_REASON_SHORT;
    uint32_t at = usage->first_difference;
    struct mark message;

    if (usage->prompt == 0)
        return;
    buf_append_str(out, " | ");
    if (usage->new_conversation) {
        buf_appendf(out, "new conversation; %u tokens shared", at);
        return;
    }
    bool placed = usage->reason != HEARTH_REASON_NONE && usage->reason != HEARTH_REASON_COLD &&
                  at < usage->prompt;
    if (!placed || !is_new)
        write_reason_name(usage, out);
    if (!placed)
        return;
    buf_appendf(out, is_new ? "new from token %u" : " at %u", at);
    if (log_line_new_message(marks, count, usage->reason, at, &message))
        buf_appendf(out, " (%s[%u])", role_name(message.role), message.message);
    write_later(usage, out);
}

static void write_speed(const struct gen_usage *usage, const struct answer_timings *timings,
                        struct buf *out)
{
    double ttft_s = timings->ttft_ms / 1000;
    char text[UNITS_TEXT_BYTES];

    if (ttft_s > 0)
        buf_appendf(out, " | ttft %s",
                    units_format_duration((uint64_t)(ttft_s * (double)NS_PER_S), text));
    if (ttft_s > 0 && usage->compute_s > ttft_s && gen_usage_reused(usage) > 0)
        buf_appendf(out, " (about %s without the cache)",
                    units_format_duration((uint64_t)(usage->compute_s * (double)NS_PER_S), text));
    if (timings->predicted_per_s > 0)
        buf_appendf(out, " | %.*f tok/s", timings->predicted_per_s < 10 ? 1 : 0,
                    timings->predicted_per_s);
    if (usage->drafted > 0)
        buf_appendf(out, " | drafts %u of %u", usage->accepted, usage->drafted);
}

void log_line_write(const struct gen_usage *usage, const struct answer_timings *timings,
                    const struct mark *marks, size_t marks_count, struct buf *out)
{
    write_parts(usage, out);
    write_reason(usage, marks, marks_count, out);
    write_speed(usage, timings, out);
}

void log_line_write_changes(const struct neutral_tally *tally, struct buf *out)
{
    static const struct neutral_tally none;

    if (memcmp(tally, &none, sizeof(none)) == 0)
        return;
    buf_append_str(out, " | rules: ");
    neutral_write_tally(tally, out);
}

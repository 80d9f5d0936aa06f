/* log_line.c: the log line that shows what the cache did for a request. */
#include "serve/log_line.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/units.h"

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
static void write_reason_name(enum hearth_reason reason, struct buf *out)
{
    const char *name = reason == HEARTH_REASON_NONE    ? "full hit"
                       : reason == HEARTH_REASON_SHORT ? "new text"
                                                       : hearth_reason_name(reason);

    buf_append_str(out, " | ");
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
    struct mark message;

    if (usage->prompt == 0)
        return;
    write_reason_name(usage->reason, out);
    if (usage->reason == HEARTH_REASON_NONE || usage->reason == HEARTH_REASON_COLD ||
        usage->first_difference >= usage->prompt)
        return;
    buf_appendf(out, " at %u", usage->first_difference);
    if (log_line_message_at(marks, count, usage->first_difference, &message))
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

/*
 * log_line.h: one line per request: where its prompt came from, why no more was reused, and its
 * speed.
 *
 *      prompt 28412 = device 0 + ram 16276 + ssd 11264 + computed 872 | diverged at 27540 (user[3])
 *      | ttft 1.9 s | 41 tok/s
 *
 * The parts always add up to the prompt (keeps I99). `user[3]` is the message that contains the
 * first token not found: the fourth message of the request, whatever the others are, and a user's.
 * Unknown parts are omitted. Rules of neutral.h that changed the request are named at the end.
 *
 * Pure functions; any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "dialect/answer.h"
#include "base/buf.h"
#include "chat/neutral.h"
#include "sched/gen.h"

/* The message that contains a token of the prompt: the last one that begins at or before it. False:
 * the token is before the first message, or there are no marks. */
bool log_line_message_at(const struct mark *marks, size_t count, uint32_t position,
                         struct mark *message) NODISCARD;

/* The message that the first token that was not cached belongs to. After all that was cached
 * (`short`), the end of a turn may come before it: then the message after that is what is new. False:
 * all tokens were cached, or as above. */
bool log_line_new_message(const struct mark *marks, size_t count, enum hearth_reason reason,
                          uint32_t first_difference, struct mark *message) NODISCARD;

/* Appends the line, without a line end. */
void log_line_write(const struct gen_usage *usage, const struct answer_timings *timings,
                    const struct mark *marks, size_t marks_count, struct buf *out);

/* Appends " | rules: cch, tool-order", or nothing. */
void log_line_write_changes(const struct neutral_tally *tally, struct buf *out);

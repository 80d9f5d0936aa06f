/*
 * log_line.h: one honest line per request: where its prompt came from, why not more of it, and how
 * fast it went.
 *
 *      prompt 28412 = device 0 + ram 16276 + ssd 11264 + computed 872 | diverged at 27540 (user[3]) | ttft 1.9 s | 41 tok/s
 *
 * The parts always add up to the prompt (keeps I99). `user[3]` is the message that the first token
 * not held belongs to: the fourth of the request's messages, whatever the others are, and it is a
 * user's. A part of which nothing is known is left out, not invented.
 *
 * Pure functions; any thread.
 */
#ifndef HEARTH_SERVE_LOG_LINE_H
#define HEARTH_SERVE_LOG_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "dialect/answer.h"
#include "base/buf.h"
#include "sched/gen.h"

/* The message that a token of the prompt belongs to: the last one that begins at or before it.
 * False: it stands before the first one, or there are no marks. */
bool report_message_at(const struct mark *marks, size_t count, uint32_t position,
                       struct mark *message) NODISCARD;

/* Appends the line, without an end of line. */
void report_line(const struct gen_usage *usage, const struct answer_timings *timings,
                 const struct mark *marks, size_t marks_count, struct buf *out);

#endif

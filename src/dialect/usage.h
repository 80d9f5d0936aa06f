/*
 * usage.h: where the tokens of a prompt came from. All dialects report it from here, so that the
 * numbers agree (keeps I99).
 *
 *      prompt = cached + written + the rest
 *
 *      cached    device + ram + ssd + remote: what did not have to be computed
 *      written   what was computed and handed to the cache, so that a later request finds it: all
 *                but the last token, which every request computes because the answer begins with
 *                its logits; 0 when the request or the configuration keeps the cache from being
 *                written; with explicit breakpoints, up to the last of them. It is known before the prompt is computed, and the same at the end.
 *
 * Pure functions; any thread.
 */
#pragma once

#include <stdint.h>

#include "dialect/answer.h"
#include "base/json_write.h"

uint32_t usage_cached(const struct gen_usage *usage);
uint32_t usage_written(const struct answer *answer);
/* Tokens of the earlier prompt (answer->diagnosis) that this one could not continue. */
uint32_t usage_missed(const struct answer *answer);

/* "device","ram","ssd","remote","computed", added to an open object. */
void usage_write_sources(struct json *json, const struct gen_usage *usage);
/* "x_cache":{"device","ram","ssd","remote","computed","match","reason","first_difference",
 * "new_conversation" (if true), "compute_s" (if known)}, added to an open object: where the prompt came from and why not more of it was
 * cached. And "x_unread_call", if text of the answer looks like a call and is none: why it could not
 * be read. Clients ignore unknown fields. */
void usage_write_x_cache(struct json *json, const struct answer *answer);

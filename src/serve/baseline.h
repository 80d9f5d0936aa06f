/*
 * baseline.h: why a prompt did not continue an earlier one: the comparison that clients request with
 * Anthropic's diagnostics.previous_message_id and OpenAI's comparison_response_id.
 *
 *      answer ends     baseline_keep      digests of model, system, tools, settings and messages, and
 *                                         of the prompt's tokens, under the id of the answer
 *      later request   baseline_compare   the first of these that differs
 *
 * Requests are compared as the model gets them: after neutral rules and context edits. Prompts that
 * are no conversations are compared by their tokens. No text is kept, only digests. Entries are kept per tenant (serve/shelf.h), in memory only.
 *
 * Threads: any; a request belongs to the caller.
 */
#pragma once

#include "base/str.h"
#include "chat/gen_request.h"
#include "chat/prepare.h"
#include "dialect/answer.h"

struct clock;
struct shelf;

enum { BASELINE_COUNT_MAX = 256, BASELINE_TTL_S = 24 * 60 * 60 }; /* of one tenant */

struct shelf *baseline_create(struct clock *clock);

/* Both do nothing for embeddings and infill. `id` is the answer's, without a prefix; `model`
 * is the fingerprint of its state. */
void baseline_keep(struct shelf *shelf, const char *tenant, const char *id,
                   const struct gen_request *request, const struct prepared *prepared,
                   const struct hash256 *model);
/* Does nothing unless the request asks for a comparison. */
void baseline_compare(struct shelf *shelf, const char *tenant, const struct gen_request *request,
                      const struct prepared *prepared, const struct hash256 *model,
                      struct diagnosis *out);

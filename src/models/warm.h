/*
 * warm.h: runs one token through all of a model: its template, tokenizer, scheduler and engine
 * (I82).
 *
 * So the first client finds compiled templates, mapped weights and warm threads, and a model that
 * cannot answer is detected before the first request.
 */
#ifndef HEARTH_MODELS_WARM_H
#define HEARTH_MODELS_WARM_H

#include "base/attr.h"
#include "base/err.h"
#include "models/model.h"

/* Waits for it. Nothing of it enters the cache. `tokens` (may be NULL) returns the length of the
 * prompt. */
enum err model_warm(struct model *model, uint32_t *tokens, struct errinfo *info) NODISCARD;

#endif

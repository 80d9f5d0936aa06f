/*
 * warm.h: one token through all of a model: its own template, its tokenizer, its scheduler, its
 * engine (I82).
 *
 * So the first client finds compiled templates, mapped weights and warm threads; and a model that
 * cannot answer is known before anyone asks.
 */
#ifndef HEARTH_MODELS_WARM_H
#define HEARTH_MODELS_WARM_H

#include "base/attr.h"
#include "base/err.h"
#include "models/model.h"

/* Waits for it. Nothing of it enters the cache. `tokens` (may be NULL) is how long the prompt was.
 */
enum err model_warm(struct model *model, uint32_t *tokens, struct errinfo *info) NODISCARD;

#endif

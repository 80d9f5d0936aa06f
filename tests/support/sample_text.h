/*
 * sample_text.h: what a tiny random model says under some sampling parameters.
 */
#pragma once

#include "base/buf.h"
#include "engine/sample.h"

enum { SAMPLE_TEXT_TOKENS_MAX = 400 };

/* Appends the text up to the end of the generation, control tokens as text. Temperature 1, this
 * seed; the parameters' biases (at most 8) count. Fails the test when it does not end within
 * SAMPLE_TEXT_TOKENS_MAX tokens or nothing is allowed any more. */
void sample_text(struct engine *engine, const struct sample_params *params, uint64_t seed,
                 struct buf *text);

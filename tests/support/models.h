/*
 * models.h: tiny models for tests, made once per build folder and shared by all suites.
 *
 * tests/support is linked into suites that never load a model as well; what is here is only pulled
 * in by those that do.
 */
#pragma once

#include "engine/engine.h"

/* The path of a tiny random model of a family ("qwen3"); made on first use, safe from several
 * processes. Fails the test when it cannot be made. Borrowed until the next call. */
const char *test_model(const char *family);

/* The same with half of the width: four times as fast, for campaigns that compute a lot. All experts
 * are used: a choice of some would make large differences of rounding. */
const char *test_model_narrow(const char *family);

/* Loads the first. `options->path` is filled in; NULL: 4,096 tokens, 6 sequences, chunks of 128, 1 thread
 * (tests run side by side, and threads that wait for each other on a busy machine wait long). Fails
 * the test on an error. */
struct engine *test_engine(const char *family, const struct engine_options *options);

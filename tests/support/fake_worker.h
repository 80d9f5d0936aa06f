/*
 * fake_worker.h: the fake engine (engine_fake.h) in its own process. The program of that
 * process is tests/worker.c: hearth itself has no fake.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "engine/engine_worker.h"
#include "support/engine_fake.h"

/* As engine_worker_load. The fake's hooks, faults and chat template stay behind, its times are real
 * ones: it can hang. `worker->program` may be NULL. */
enum err fake_worker_load(struct engine **engine, const struct engine_fake_options *fake,
                          const struct engine_worker_options *worker,
                          struct errinfo *info) NODISCARD;

/* The program with the fake engine, below HEARTH_BUILD. Fails the test when there is none. */
const char *fake_worker_program(void);

/* For that program: the engine that fake_worker_load described in options->path. One per process.
 */
enum err fake_worker_create(struct engine **engine, const struct engine_options *options,
                            struct errinfo *info) NODISCARD;

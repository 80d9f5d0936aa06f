/*
 * vet.h: loads a model after a check that the library survives it.
 *
 * libllama aborts on unexpected input: memory that does not support what the self-test does,
 * contradictory metadata. An abort in the server ends it for every client. So a file that has not
 * been vetted is first loaded in a child process:
 *
 *      architecture                 what the child does
 *      known to this release        builds the model and its context without reading a weight
 *      not known                    loads it and runs the self-test
 *
 * With a projector, it encodes a picture as well.
 *
 * No child is needed for a model of a known architecture that is loaded before there is any client
 * (`alone`): a fault then ends a process that serves nothing, with a sentence.
 *
 * A pass is recorded on disk under everything that it depends on: releases of libllama and ggml,
 * the headers of its files, the options. So a model that was loaded once costs a look-up in that
 * file. A refusal is kept until the server ends: a child can also die of a temporary cause, such as
 * a lack of memory.
 *
 * Owner: the thread that loads models.
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"

struct engine;
struct engine_options;
struct file_sys;
struct vet;

struct vet_options {
    const char *program; /* executable that has worker_main; NULL = this one. Borrowed */
    const struct file_sys *fs;
    /* where passes are recorded, borrowed; FILE_NO = in memory only, until vet_destroy */
    int dir;
    struct log *log; /* may be NULL */
};

struct vet *vet_create(const struct vet_options *options);
void vet_destroy(struct vet **vet);

/* Whether our fidelity tests ran models of this architecture with this release of the library. */
bool vet_is_tested(const char *architecture);

enum { VET_FAULT_EXIT = 1 }; /* status of a process that dies of a model that it loads alone */

/* ERR_UNSUPPORTED: the child died of it; the message names architecture, release and the child's
 * last output, and no path. Any other: as engine_load. `alone`: no client depends on this process
 * yet; for one load at a time. */
enum err vet_load(struct vet *vet, const struct engine_options *options, bool alone,
                  struct engine **engine, struct errinfo *info) NODISCARD;

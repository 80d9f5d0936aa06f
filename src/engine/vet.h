/*
 * vet.h: checks that the library survives loading a model before this process loads it.
 *
 * libllama aborts on unexpected input: memory that does not support what the self-test does,
 * contradictory metadata. An abort in the server ends it for every client. So a file that has not
 * been vetted is first loaded in a child process:
 *
 *      architecture                 what the child does
 *      known to this release        builds the model and its context without reading a weight
 *      not known                    loads it and runs the self-test
 *
 * A pass is recorded on disk under everything that it depends on: releases of libllama and ggml,
 * the file's header, the options. So a model that was loaded once costs a look-up in that file. A
 * refusal is kept until the server ends: a child can also die of a temporary cause, such as a lack
 * of memory.
 *
 * Owner: the thread that loads models.
 */
#ifndef HEARTH_ENGINE_VET_H
#define HEARTH_ENGINE_VET_H

#include "base/attr.h"
#include "base/err.h"

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

/* ERR_OK: it can be loaded. ERR_UNSUPPORTED: the child died of it; the message names
 * architecture, release and the child's last output, and no path. Any other: as engine_load,
 * which the child tried. */
enum err vet_check(struct vet *vet, const struct engine_options *options,
                   struct errinfo *info) NODISCARD;

#endif

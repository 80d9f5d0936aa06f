/*
 * vet.h: whether the library survives loading a model, found out before this process loads it.
 *
 * libllama aborts on what it does not expect: memory that cannot do what the self-test asks for,
 * metadata that contradict each other. An abort in the server ends it for every client. So a file
 * that was not vetted yet is loaded in a child process first:
 *
 *      architecture                 what the child does
 *      known to this release        builds the model and its context without reading a weight
 *      not known                    loads it and runs the self-test
 *
 * A pass is remembered on disk by everything that decides it: releases of libllama and ggml, the
 * file's header, the options. So a model that was loaded once costs a look into that file. A
 * refusal is remembered until the server ends: a child can also die of something that passes, such
 * as a lack of memory.
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
    const char *program; /* that has worker_main; NULL = this one. Borrowed */
    const struct file_sys *fs;
    /* where passes are remembered, borrowed; FILE_NO = until vet_destroy only */
    int dir;
    struct log *log; /* may be NULL */
};

struct vet *vet_create(const struct vet_options *options);
void vet_destroy(struct vet **vet);

/* ERR_OK: it can be loaded. ERR_UNSUPPORTED: the child died of it; the sentence names architecture,
 * release and the child's last words, and no path. Any other: as engine_load, which the child
 * tried. */
enum err vet_check(struct vet *vet, const struct engine_options *options,
                   struct errinfo *info) NODISCARD;

#endif

/*
 * slot_file.h: the state of one prompt as one file, for llama-server's save and restore of slots.
 *
 *      save      path of the prompt --hearth_export--> temporary folder --pack--> NAME
 *      restore   NAME --unpack--> temporary folder --hearth_import--> cache
 *
 * A file belongs to the installation: the tokens in it are encrypted, and a keyed digest covers all
 * of it. Objects are those of the SSD tier, encrypted where that one is. A file appears under its
 * name when it is complete.
 *
 * Threads: any, one at a time per folder and name; waits for the disk.
 */
#pragma once

#include <hearth/hearth.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"

struct file_sys;

/* Pointers are borrowed. */
struct slot_files {
    const char *path; /* the folder; NULL: saving is off */
    const struct file_sys *fs;
    struct hash256 key;            /* of the installation */
    const unsigned char *seal_key; /* of the SSD tier; NULL: it is not encrypted */
};

/* Creates the folder, and removes what an earlier process left unfinished. */
enum err slot_files_prepare(const struct slot_files *files, struct errinfo *info) NODISCARD;

/* What a file contains besides the objects. */
struct slot_state {
    struct hash256 owner; /* of the model and tenant: another one cannot use it */
    struct buf tokens;    /* as bytes */
};

/* Writes the objects up to the one with this key (NULL: none). *bytes is the size of the file. */
enum err slot_file_save(const struct slot_files *files, const char *name,
                        const struct slot_state *state, struct hearth_cache *cache,
                        const unsigned char *key, uint64_t *bytes, struct errinfo *info) NODISCARD;

/* Fills `state`, whose buffer is initialized, and imports the objects if `state->owner` is the
 * owner of the file. ERR_NOT_FOUND; ERR_CORRUPT: damaged, or of another installation; ERR_DENIED: of
 * another owner, or not a regular file. */
enum err slot_file_restore(const struct slot_files *files, const char *name,
                           struct slot_state *state, struct hearth_cache *cache, uint64_t *bytes,
                           struct errinfo *info) NODISCARD;

/*
 * hub.h: models of Hugging Face's hub: download, list, remove. For commands only: the server never
 * downloads.
 *
 *      GET ENDPOINT/api/models/USER/REPO/revision/main?blobs=true    revision, files, SHA-256 sums
 *      GET ENDPOINT/USER/REPO/resolve/REVISION/FILE                  the bytes, also a range of them
 *
 * Files go into the cache that other tools share (resolve.h finds them there):
 *
 *      ROOT/models--user--repo/blobs/SHA256.incomplete     while it is downloaded, locked
 *                             /blobs/SHA256                when its sum is right
 *                             /snapshots/REVISION/FILE     a link to the blob
 *                             /refs/main                   the revision, written last
 *
 * A download that broke off continues where it ended, in this run or in a later one.
 *
 * Threads: one call at a time.
 */
#pragma once

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "models/resolve.h"

struct clock;

struct hub {
    struct resolve_options where; /* HF_ENDPOINT and HF_TOKEN are read from its environment */
    struct clock *clock;
    int progress_fd; /* where progress is shown */
};

/* "user/repo[:QUANT]": all shards of one model. Without QUANT: Q4_K_M, else the first model by name.
 * `path` is its file (the first shard).
 *   ERR_INVALID     the name has another form
 *   ERR_NOT_FOUND   the hub does not have it, and `info` says which quantizations it has
 *   ERR_DENIED      the hub refuses: a token is needed, or another one
 *   ERR_CORRUPT     the bytes have another sum; they were removed
 *   ERR_NO_SPACE, ERR_BUSY (another process downloads it), ERR_CLOSED (after several tries) */
enum err hub_pull(const struct hub *hub, const char *name, char path[MODEL_FILE_PATH_BYTES],
                  struct errinfo *info) NODISCARD;

/* Each model in the cache: "user/repo", its file's name, and the bytes of all shards. */
enum err hub_list(const struct hub *hub,
                  void (*fn)(const char *repo, const char *file, uint64_t bytes, void *arg),
                  void *arg, struct errinfo *info) NODISCARD;

/* Removes a model, and its repository when nothing else is left of it. */
enum err hub_remove(const struct hub *hub, const char *name, uint64_t *freed,
                    struct errinfo *info) NODISCARD;

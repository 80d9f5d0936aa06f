/*
 * record.h: records requests as hashes: the event log of `hearth serve --record FILE`, which
 * `hearth replay` reads.
 *
 *      {"hearth_record":1,"block_tokens":16,"key":"4f1c..."}
 *      {"t_us":...,"model":"m","tenant":"9a0b...","in":600,"out":31,"anchor":512,"device":0,
 *       "ram":592,...,"blocks":"00ff..."}
 *
 * One line per prompt of an answered request; docs/replay-traces.md has the fields. A block's hash
 * is keyed with the installation's key and covers model, tenant and all tokens before it. So the
 * file alone allows no test of a guess, and blocks are equal exactly when the cache could share
 * them.
 *
 * Requests never wait for it: record_add copies the tokens and queues them; a separate thread
 * hashes and writes. Requests that do not fit into the queue are lost, counted, and reported in the
 * file. When the file reaches its maximum size, or the disk fails, recording ends with a log line,
 * the file ends with a whole line, and the server continues. An existing file is continued if it
 * was written with the same key and block size.
 *
 * Threads: open and close from one; record_add from any.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "sched/gen.h"

struct file_sys;
struct hash256;
struct log;
struct record;

enum { RECORD_BLOCK_TOKENS = 16, RECORD_VERSION = 1 };

struct record_options {
    const struct file_sys *fs;
    const char *path;
    const struct hash256 *key; /* of the installation; copied */
    uint32_t block_tokens;     /* 0 = RECORD_BLOCK_TOKENS */
    uint64_t bytes_max;        /* of the file */
    uint64_t queue_bytes_max;  /* of prompts waiting to be written; 0 = 64 MiB */
    struct log *log;           /* may be NULL */
};

/* Borrowed for the call. */
struct record_entry {
    uint64_t at_wall_ns; /* arrival of the request */
    const char *model;
    const char *tenant;     /* of the cache: "" = shared by all */
    struct str salt;        /* from the client */
    const token_id *tokens; /* the prompt: usage->prompt of them */
    uint32_t anchor;
    const struct gen_usage *usage;
};

/* ERR_INVALID: not a record that can be continued; ERR_BUSY: another server is writing it; else the
 * error of the file. */
enum err record_open(struct record **record, const struct record_options *options,
                     struct errinfo *info) NODISCARD;
/* Writes all queued requests. Accepts a pointer to NULL. */
void record_close(struct record **record);

void record_add(struct record *record, const struct record_entry *entry);

struct record_stats {
    uint64_t requests; /* written */
    uint64_t lost;     /* not written: no room in the queue, or recording has ended */
    uint64_t bytes;    /* of the file */
};
void record_get_stats(const struct record *record, struct record_stats *stats);

/*
 * shelf.h: what earlier answers left behind, by tenant and id: byte strings, bounded in number, bytes
 * and age.
 *
 *      put   newest --[ ]--[ ]--[ ]-- oldest      one list per tenant: a tenant evicts only its own
 *      get   makes an entry the newest again
 *
 * With a folder, each entry is also a file, written when it is put and removed with it, so that
 * entries outlive the process. A file is encrypted and authenticated (base/seal.h) with a key that is
 * derived from the installation's key, which itself may be derived from a seal key. Files that have
 * expired are removed at the start. Those that cannot be opened are not used: they may belong to
 * another key. A file that cannot be written is logged: the entry is then in memory only.
 *
 * Threads: any; one lock, never held during disk calls.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/str.h"

struct clock;
struct file_sys;
struct log;
struct shelf;

enum { SHELF_ID_BYTES = 80 };

struct shelf_options {
    size_t count_max, bytes_max; /* of one tenant */
    uint64_t ttl_s;              /* since it was put; 0 = no limit */
    struct clock *clock;         /* NULL = the machine's */
    struct log *log;             /* may be NULL */
    /* The folder for files; FILE_NO: none. The key is copied, the rest borrowed. */
    int dir;
    const struct file_sys *fs;
    struct hash256 key;
};

/* Reads the files of the folder. Never fails: entries that cannot be read are left out. */
struct shelf *shelf_create(const struct shelf_options *options);
void shelf_destroy(struct shelf **shelf); /* files stay; NULL is a no-op */

/* Replaces an entry of the same id. False: it is larger than all of a tenant's may be, the id is too
 * long, or there is no memory. */
bool shelf_put(struct shelf *shelf, const char *tenant, struct str id, struct str data);
/* Appends the bytes to `out`; false: there is no such entry, or out->err. */
bool shelf_get(struct shelf *shelf, const char *tenant, struct str id, struct buf *out);
bool shelf_remove(struct shelf *shelf, const char *tenant, struct str id); /* false: not there */

struct shelf_stats {
    size_t entries, bytes; /* of all tenants */
};
struct shelf_stats shelf_stats(struct shelf *shelf);

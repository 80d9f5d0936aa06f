/*
 * cache.h: what the files of `hearth cache` share.
 *
 *      cache.c          the command: options, the table of actions, where each works
 *      cache_remote.c   on a running server: the admin API
 *      cache_dir.c      on the directory of an SSD tier, without a server
 *      cache_print.c    answers as tables
 *      cache_dump.c     one file, byte by byte
 *
 * Both return the same JSON (docs/api.md, "Administration"), so --json and the tables look the
 * same.
 */
#ifndef HEARTH_CLI_CACHE_H
#define HEARTH_CLI_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "cli/cli.h"
#include "cli/remote.h"

struct buf;

struct cache_options {
    struct remote_options remote;
    const char *dir, *state_dir, *key_file, *seal_file;
    const char *tier, *model, *tenant, *after;
    uint64_t limit, older_ns, tokens;
    bool pinned, json;
};

/* One run of the command. */
struct cache_run {
    struct cli *cli;
    const struct cache_options *options;
    const char *const *args; /* after the name of the action */
    size_t args_count;
    struct remote remote; /* unless --dir is given */
};

/* Appends the answer's JSON; on failure `info` has the message. */
typedef enum err (*cache_fn)(struct cache_run *run, struct buf *json, struct errinfo *info);

/* ---- cache_remote.c ---- */
enum err cache_remote_stats(struct cache_run *run, struct buf *json,
                            struct errinfo *info) NODISCARD;
enum err cache_remote_ls(struct cache_run *run, struct buf *json, struct errinfo *info) NODISCARD;
enum err cache_remote_show(struct cache_run *run, struct buf *json, struct errinfo *info) NODISCARD;
enum err cache_remote_verify(struct cache_run *run, struct buf *json,
                             struct errinfo *info) NODISCARD;
enum err cache_remote_gc(struct cache_run *run, struct buf *json, struct errinfo *info) NODISCARD;
enum err cache_remote_clear(struct cache_run *run, struct buf *json,
                            struct errinfo *info) NODISCARD;
enum err cache_remote_pin(struct cache_run *run, struct buf *json, struct errinfo *info) NODISCARD;
enum err cache_remote_unpin(struct cache_run *run, struct buf *json,
                            struct errinfo *info) NODISCARD;
enum err cache_remote_probe(struct cache_run *run, struct buf *json,
                            struct errinfo *info) NODISCARD;
enum err cache_remote_warm(struct cache_run *run, struct buf *json, struct errinfo *info) NODISCARD;
enum err cache_remote_export(struct cache_run *run, struct buf *json,
                             struct errinfo *info) NODISCARD;
enum err cache_remote_import(struct cache_run *run, struct buf *json,
                             struct errinfo *info) NODISCARD;

/* ---- cache_dir.c ---- */
enum err cache_dir_stats(struct cache_run *run, struct buf *json, struct errinfo *info) NODISCARD;
enum err cache_dir_ls(struct cache_run *run, struct buf *json, struct errinfo *info) NODISCARD;
enum err cache_dir_show(struct cache_run *run, struct buf *json, struct errinfo *info) NODISCARD;
enum err cache_dir_verify(struct cache_run *run, struct buf *json, struct errinfo *info) NODISCARD;
enum err cache_dir_gc(struct cache_run *run, struct buf *json, struct errinfo *info) NODISCARD;
enum err cache_dir_clear(struct cache_run *run, struct buf *json, struct errinfo *info) NODISCARD;
enum err cache_dir_export(struct cache_run *run, struct buf *json, struct errinfo *info) NODISCARD;
enum err cache_dir_import(struct cache_run *run, struct buf *json, struct errinfo *info) NODISCARD;

/* The keys of the objects of a directory. */
struct cache_keys {
    struct hash256 key, seal_key;
    bool sealed;
};

/* From --key-file, --encrypt-key, or the state folder; the caller wipes them (seal_wipe). */
enum err cache_read_keys(const struct cli *cli, const struct cache_options *options,
                         struct cache_keys *keys, struct errinfo *info) NODISCARD;

/* ---- cache_print.c: one answer for people, appended ---- */
void cache_print_stats(yyjson_val *root, struct buf *out);
void cache_print_ls(yyjson_val *root, struct buf *out);
void cache_print_show(yyjson_val *root, struct buf *out);
void cache_print_verify(yyjson_val *root, struct buf *out);
void cache_print_gc(yyjson_val *root, struct buf *out);
void cache_print_clear(yyjson_val *root, struct buf *out);
void cache_print_pin(yyjson_val *root, struct buf *out);
void cache_print_probe(yyjson_val *root, struct buf *out);
void cache_print_warm(yyjson_val *root, struct buf *out);
void cache_print_moved(yyjson_val *root, struct buf *out);

/* ---- cache_dump.c ---- */
enum cli_exit cache_dump(struct cli *cli, const struct cache_options *options);

#endif

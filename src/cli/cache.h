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
#pragma once

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

struct cache_run;

/* Appends the answer's JSON; on failure `info` has the message. */
typedef enum err cache_fn(struct cache_run *run, struct buf *json, struct errinfo *info);
/* Appends an answer for people. */
typedef void cache_print_fn(yyjson_val *root, struct buf *out);

struct cache_action {
    const char *name;
    const char *takes; /* arguments after the name */
    size_t args_min, args_max;
    const char *path;       /* of the admin API */
    cache_fn *remote, *dir; /* NULL: not supported there */
    cache_print_fn *print;
};

/* One run of the command. */
struct cache_run {
    struct cli *cli;
    const struct cache_options *options;
    const struct cache_action *action;
    const char *const *args; /* after the name of the action */
    size_t args_count;
    struct remote remote; /* unless --dir is given */
};

/* ---- cache_remote.c: a request without a body, with one, with a prompt, or by key or prompt ---- */
cache_fn cache_remote_get, cache_remote_ls, cache_remote_post, cache_remote_prompt,
    cache_remote_pin;

/* Digits of a key, whole or abbreviated; ERR_INVALID says so otherwise. */
enum { CACHE_KEY_DIGITS = 2 * sizeof(struct hash256), CACHE_KEY_DIGITS_MIN = 8 };
enum err cache_check_key(const char *text, struct errinfo *info) NODISCARD;
/* What is wrong with an abbreviation of which there are no or several keys. */
enum err cache_check_matches(const char *digits, size_t matches, struct errinfo *info) NODISCARD;

/* ---- cache_dir.c ---- */
cache_fn cache_dir_stats, cache_dir_ls, cache_dir_show, cache_dir_verify, cache_dir_gc,
    cache_dir_clear, cache_dir_export, cache_dir_import;

/* The keys of the objects of a directory. */
struct cache_keys {
    struct hash256 key, seal_key;
    bool sealed;
};

/* From --key-file, --encrypt-key, or the state folder; the caller wipes them (seal_wipe). */
enum err cache_read_keys(const struct cli *cli, const struct cache_options *options,
                         struct cache_keys *keys, struct errinfo *info) NODISCARD;

/* ---- cache_print.c ---- */
cache_print_fn cache_print_stats, cache_print_ls, cache_print_show, cache_print_verify,
    cache_print_gc, cache_print_clear, cache_print_pin, cache_print_unpin, cache_print_probe,
    cache_print_warm, cache_print_moved;

/* ---- cache_dump.c ---- */
enum cli_exit cache_dump(struct cli *cli, const struct cache_options *options);

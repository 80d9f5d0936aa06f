/*
 * serve.h: what the files of `hearth serve` share.
 *
 *      serve.c         options, start, signals, end
 *      serve_store.c   the cache, its disk, what it is keyed with, and remembered turns
 *      serve_memory.c  the ceiling, and shares of tenants
 *      serve_banner.c  what is printed when the server is up
 */
#ifndef HEARTH_CLI_SERVE_H
#define HEARTH_CLI_SERVE_H

#include <hearth/hearth.h>

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/option.h"
#include "cli/model_settings.h"

struct cli;
struct engine_facts;
struct memory;
struct model_share;
struct replay;

struct serve_options {
    struct model_settings model;
    const char *path, *alias, *template_file;
    const char *host;
    uint64_t port;
    struct option_list keys, hosts, origins;
    const char *key_file, *admin_key;
    int isolation; /* enum auth_isolation */
    bool open_to_all;
    bool exact, cache, strict_model;
    uint64_t ram_bytes, block_tokens, tails;
    const char *policy;
    const char *ssd_dir;
    uint64_t ssd_bytes, ssd_free, ssd_day_bytes;
    const char *ssd_key_file;
    const char *state_dir;
    struct option_list keep_volatile;
    bool keep_thoughts;
    struct option_list shares; /* TENANT=SIZE */
    uint64_t queue, workers;
    uint64_t drain_ns;
    double temperature, top_p, min_p;
    int64_t top_k;
};

/* The cache and what belongs to it; all zero when it is off. */
struct serve_store {
    struct hearth_cache *cache;
    struct worker_memory *memory; /* of the cache, where engines have processes of their own; NULL = this process's alone */
    struct replay *replay;
    struct hash256 key; /* of the installation */
    bool sealed;        /* what is on disk is encrypted */
    struct hash256 seal_key;
    int dir;            /* state folder; FILE_NO = none */
    uint64_t ram_bytes;
    const char *ssd_dir; /* NULL = none */
};

/* The ceiling over everything: --max-memory, or what the machine allows. *guessed: the latter. */
uint64_t serve_ceiling(const struct serve_options *options, bool *guessed);

/* The account under it; its RAM tier is the store's. */
struct memory *serve_memory_open(const struct cli *cli, const struct serve_options *options,
                                 const struct serve_store *store, const struct model_share *shares);

/* Reads --tenant-share into the arena: ERR_INVALID, or ERR_LIMIT when together they are more than half of the RAM tier. */
enum err serve_read_shares(const struct cli *cli, const struct serve_options *options, uint64_t ram_bytes,
                           struct model_share **shares, struct errinfo *info) NODISCARD;

/* Complains and gives false. */
bool serve_store_open(struct serve_store *store, const struct cli *cli,
                      const struct serve_options *options) NODISCARD;
/* Writes what is to survive. No space may be open any more. */
void serve_store_close(struct serve_store *store, const struct cli *cli);

struct serve_place {
    const char *host; /* as bound; a path ending in .sock is a local socket */
    uint16_t port;
    const char *model;
    bool keys; /* are wanted */
};

/* Where it is and how clients are pointed at it, on cli->out. */
void serve_print_banner(const struct cli *cli, const struct serve_place *place,
                        const struct engine_facts *facts, const struct serve_store *store,
                        double load_s);

#endif

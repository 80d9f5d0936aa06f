/*
 * serve.h: what the files of `hearth serve` share.
 *
 *      serve.c         options, start, signals, end
 *      serve_models.c  which models there are, with which settings, and how they are loaded
 *      serve_store.c   memory and shares of tenants; the cache, its disk, its key, stored turns
 *      serve_wait.c    signals and the service manager while it runs
 *      serve_banner.c  what is printed when the server is up
 */
#pragma once

#include <signal.h>
#include <hearth/hearth.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/option.h"
#include "cli/model_settings.h"
#include "models/model_file.h"
#include "sched/sched.h"

struct cli;
struct engine_facts;
struct memory;
struct model_share;
struct pool;
struct recall;
struct shelf;

struct serve_options {
    struct model_settings model;
    struct option_list pulled; /* user/repo[:QUANT], downloaded when they are missing */
    struct option_list models; /* names or ALIAS=NAME, of files or what resolve.h finds */
    const char *models_dir, *alias, *template_file;
    uint64_t models_max, models_bytes, model_ttl_ns, load_ns;
    struct option_list pinned;
    bool warm;
    const char *host;
    uint64_t port;
    struct option_list keys, hosts, origins;
    const char *key_file, *admin_key;
    const char *tls_cert, *tls_key; /* both or none */
    bool admin_show_text;
    const char *admin_files, *media_path; /* folders; NULL = none */
    int isolation;                        /* enum auth_isolation */
    bool open_to_all;
    bool exact, cache, strict_model;
    const char *drafts; /* auto, off or a number */
    int sharing;        /* enum engine_sharing, without bits */
    uint64_t ram_bytes, block_tokens, tail_bytes, snapshot_bytes;
    const char *policy;
    const char *ssd_dir;
    uint64_t ssd_bytes, ssd_free, ssd_day_bytes;
    const char *ssd_key_file;
    const char *shared, *shared_ca; /* NULL = none */
    uint64_t shared_ttl_ns, shared_wait_ns, shared_share;
    const char *state_dir;
    const char *record; /* NULL = nothing is recorded */
    uint64_t record_bytes, record_block;
    struct option_list keep_volatile, normalize;
    bool keep_thoughts;
    uint64_t stored_bytes;
    struct option_list shares, ssd_shares; /* TENANT=SIZE */
    bool public_metrics;
    struct option_list metrics_compat; /* names of admin/metrics.h */
    uint64_t queue, workers;
    uint64_t connections, connections_per_address;
    uint64_t log_queue, drain_ns;
    int reasoning;
    int64_t reasoning_budget;
    const char *template_kwargs;
    double temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    int64_t top_k, repeat_last;
};

/* Promises that hearth-lab breaks on purpose. The product has none of this: no option leads here. */
struct serve_faults {
    enum drill drill;
    const struct file_sys *disk; /* of the disk tier; NULL = the real one */
    void (*on_disk_open)(const struct serve_faults *faults); /* may be NULL */
};

/* DRILL_NONE without faults. */
enum drill serve_drill(const struct cli *cli);

/* The cache and what belongs to it; all zero when it is off. */
struct serve_store {
    struct hearth_cache *cache;
    /* of the cache, where engines have child processes; NULL = private to this process */
    struct worker_memory *memory;
    struct vet *vet; /* of models that this process loads */
    struct recall *recall;
    struct shelf *stored; /* responses; NULL = none */
    struct hash256 key;   /* of the installation */
    bool sealed;          /* objects on disk are encrypted */
    struct hash256 seal_key;
    int dir, stored_dir; /* state folder, and that of responses; FILE_NO = none */
    uint64_t ram_bytes;
    const char *ssd_dir;     /* NULL = none */
    uint32_t shared_wait_ms; /* 0: there is no shared store */
};

/* The memory ceiling: --max-memory, or derived from the machine; and how much of it is the RAM
 * tier's. */
uint64_t serve_ceiling(const struct serve_options *options);
uint64_t serve_ram_bytes(const struct serve_options *options);

/* The account under it; its RAM tier is the store's. */
struct memory *serve_memory_open(const struct cli *cli, const struct serve_options *options,
                                 const struct serve_store *store, const struct model_share *shares);

/* Reads --tenant-share, then --tenant-ssd-share into the arena: ERR_INVALID, or ERR_LIMIT when
 * together they are more than half of the tier. */
enum err serve_read_shares(const struct cli *cli, const struct serve_options *options,
                           uint64_t ram_bytes, struct model_share **shares,
                           struct errinfo *info) NODISCARD;

/* On failure prints an error and returns false. */
bool serve_store_open(struct serve_store *store, const struct cli *cli,
                      const struct serve_options *options) NODISCARD;
/* Writes unsaved data. All spaces must be closed. */
void serve_store_close(struct serve_store *store, const struct cli *cli);

/* One model that can be served. */
struct serve_model {
    const char *name, *path;
    const char *aliases;       /* further names, separated by commas; NULL = none */
    bool named;                /* named by the user, not after its file */
    const char *template_text; /* NULL: the model's own */
    struct model_settings settings;
    struct engine_options engine; /* of the settings */
    struct model_file_context context;
    uint32_t parallel;
    uint64_t ttl_ns;
    bool pinned;
};

enum { SERVE_MODELS_MAX = 4096 };

/* What a section [model NAME] of the INI file can say. */
extern const struct option_table serve_preset_table;

struct serve_models {
    const struct cli *cli;
    const struct serve_options *options;
    const struct serve_store *store; /* this and the next two are set before they are opened */
    struct memory *memory;
    const struct model_share *shares;
    uint32_t drafts;          /* as in sched_options */
    struct serve_model *list; /* the first is the default; in cli->arena */
    size_t count;
    atomic_bool opened; /* clients may be served */
};

/* Lists all models of the command line, the INI file and --models-dir. Opens nothing; prints
 * errors. */
enum cli_exit serve_models_read(struct serve_models *models, const struct cli *cli,
                                const struct serve_options *options) NODISCARD;

/* The pool of them. One model alone is loaded at once, with a bar, and so are pinned ones;
 * others on first use. `load_s` is how long the first took. Prints errors. */
enum cli_exit serve_models_open(struct serve_models *models, struct pool **pool,
                                double *load_s) NODISCARD;

struct serve_place {
    const char *host; /* as bound; a path ending in .sock is a local socket */
    uint16_t port;
    const struct serve_models *models;
    bool keys; /* are wanted */
    bool tls;
};

/* Prints the address and how to use it from clients on cli->out. `facts` is NULL when none is
 * loaded yet. */
void serve_print_banner(const struct cli *cli, const struct serve_place *place,
                        const struct engine_facts *facts, const struct serve_store *store,
                        double load_s);

/* ---- the main thread while the server runs (serve_wait.c) ----
 *
 *      SIGINT, SIGTERM   the end
 *      SIGHUP            keys, the TLS certificate and the log level are read again; the end when
 *                        the server was started in a terminal, which has closed
 *      NOTIFY_SOCKET     READY=1, STATUS=, RELOADING=1, STOPPING=1; with WATCHDOG_USEC also
 *                        WATCHDOG=1 as long as no engine hangs
 *
 * All signals of the set are blocked in every thread. */

struct api;
struct http_server;

struct serve_wait {
    const struct cli *cli;
    struct api *api;
    struct pool *pool;
    struct http_server *http;
    const sigset_t *signals;
    bool terminal; /* it was started in a terminal */
};

/* The server is ready. Returns at the signal that ends it. */
void serve_wait(const struct serve_wait *wait);

/*
 * pool_kit.h: a pool whose files are records and whose models run on fake engines, and clients that
 * wait.
 *
 * A file's content is a number (the fake engine's salt). Loads stand at a gate while it is closed.
 *
 * Threads: the kit's functions belong to the test's threads, its callbacks to the pool's.
 */
#pragma once

#include <hearth/hearth.h>

#include "base/lock.h"
#include "models/pool.h"

enum { POOL_KIT_FILES = 8 };

struct pool_kit_file {
    uint64_t content, stamp, bytes;
    bool missing, damaged;
};

struct pool_kit {
    struct pool *pool;
    struct hearth_cache *cache;
    struct lock lock;
    struct cond changed;
    struct pool_kit_file files[POOL_KIT_FILES] GUARDED_BY(lock); /* "0", "1", ... are their paths */
    bool gate_closed GUARDED_BY(lock), ending GUARDED_BY(lock);
    bool deaf GUARDED_BY(lock); /* after the gate, loads do not notice that they are cancelled */
    enum err fail_load GUARDED_BY(lock);
    /* of each model; draft: of a draft model, 0 = it has none. Set before the first load */
    uint64_t weights_bytes, draft_bytes;
    unsigned at_gate GUARDED_BY(lock), loads GUARDED_BY(lock),
        warm_loads GUARDED_BY(lock), inspects GUARDED_BY(lock);
};

/* Models "a", "b", ... with the files "0", "1", ...; `options->ops` is filled in. */
void pool_kit_open(struct pool_kit *kit, const struct pool_options *options, size_t models);
void pool_kit_close(struct pool_kit *kit);

void pool_kit_set_gate(struct pool_kit *kit, bool closed);
void pool_kit_wait_gate(struct pool_kit *kit); /* a load stands at it */
void pool_kit_set_file(struct pool_kit *kit, size_t index, struct pool_kit_file file);
struct pool_kit_file pool_kit_file(struct pool_kit *kit, size_t index);
unsigned pool_kit_loads(struct pool_kit *kit);

/* One wait. */
struct pool_client {
    struct pool_wait wait;
    struct lock lock;
    struct cond changed;
    bool done GUARDED_BY(lock);
    unsigned progress GUARDED_BY(lock); /* reports */
};

void pool_client_init(struct pool_client *client);
void pool_client_fini(struct pool_client *client);
enum pool_answer pool_client_ask(struct pool_kit *kit, struct pool_client *client,
                                 const char *name);
/* Until done; gives wait.model. */
struct model *pool_client_wait(struct pool_client *client);

/* Acquires and waits; NULL: *err says why. */
struct model *pool_kit_get(struct pool_kit *kit, const char *name, enum err *err);
/* Acquires and releases; fails the test when it cannot be had. */
void pool_kit_use(struct pool_kit *kit, const char *name);

struct pool_view pool_kit_view(struct pool_kit *kit, const char *name);
/* Until the state is this one. */
void pool_kit_wait_state(struct pool_kit *kit, const char *name, enum pool_state state);

/* Runs a prompt of `count` tokens (a pattern of `seed`) and gives where its tokens came from. */
struct gen_usage pool_kit_run(struct model *model, uint32_t seed, uint32_t count);

/*
 * device.h: the first tier: sequences already in the engine's memory, and storing them.
 *
 *      device.c      finding, forking, parking, and evicting
 *      retain.c      from a sequence to the cache
 *      save_later.c  the same for those that ended, once the engine has time
 *
 * Owner of everything here: the scheduler's thread.
 */
#pragma once

#include "base/list.h"
#include "engine/engine.h"
#include "sched/sched.h"
#include "sched/store_cost.h"

struct job;

enum {
    DEVICE_LINGER_MS = 100, /* idle time before the state of ended jobs is stored */
    /* ended jobs that are not stored; beyond this count or age, one is stored beside other work if
     * that costs next to nothing */
    DEVICE_UNSAVED_MAX = 4,
    DEVICE_UNSAVED_MS_MAX = 1000,
    /* the device is tight if fewer than one in TIGHT_CELLS cells or fewer than TIGHT_SEQS sequences
     * are free: the residents that are evicted next are then stored in advance */
    DEVICE_TIGHT_CELLS = 8,
    DEVICE_TIGHT_SEQS = 2,
    /* as long as it is not measured: how many tokens may be computed beside a resident before its
     * cells have cost as much as restoring it */
    DEVICE_PATIENCE = 16,
    DEVICE_PATIENCE_STORE = 64, /* the same for storing it */
};

/* Runs without outputs, which may return before the device has computed them (batch.c). */
struct burst {
    uint32_t runs;
    uint64_t tokens, ns; /* of the first ones */
    struct cost_work work;
};

/* A finished sequence that stays on the device. */
struct resident {
    struct list_node link; /* least recently used first */
    struct hearth_space *space;
    const char *tenant; /* the tenant's name: never freed before the scheduler */
    struct lora_set lora;
    token_id *tokens;
    uint32_t count, prompt; /* of all tokens those of the prompt */
    uint64_t since;         /* sched->computed when it was used last */
    seq_id seq;
    struct scatter scatter;
    /* the ended job whose state is not in the cache yet (save_later.c); NULL = it is stored, or
     * will not be */
    struct job *unsaved;
};

/* What the cache should keep of the job (retain.c, save_later.c). */
struct job_keep {
    struct hearth_store_hints hints;
    bool stores;     /* state goes to the cache */
    bool released;   /* no request will continue the conversation */
    bool unsaved;    /* ended, and counted as unsaved */
    uint32_t most;   /* tokens to store at most; 0 = all */
    uint32_t stored; /* rows below this were offered to the cache */
    struct scatter scatter;
    /* the price at which the rest was too expensive; STORE_ANY_PRICE: it was not */
    enum store_price refused;

    /* A store that has begun; NULL: none. `length` tokens are offered; [begin, end) are the next
     * rows, none if it is empty. */
    struct hearth_store *store;
    uint32_t length, begin, end;
    bool rows, snapshot; /* what it is to have; the snapshot is taken last */
    uint32_t pieces;     /* stored so far */
};

/* ---- device.c ---- */

/* A sequence in the engine that starts with a prefix of a prompt. */
struct device_match {
    struct resident *resident; /* or */
    struct job *job;
    uint32_t length; /* usable tokens, fewer than the prompt has; 0 = none */
    uint32_t shared; /* tokens in common with the sequence that shares most */
    bool ends;       /* that sequence ends there, rather than diverging */
};

struct device_match device_find(struct job *job);
/* A running job that computes more of this prompt than `have`; NULL when waiting is not worth it.
 */
struct job *device_find_leader(struct job *job, uint32_t have, uint32_t *until);
/* Copies what follows all tokens of the job in a finished sequence, at most `max` tokens, and
 * returns their number. */
uint32_t device_continuation(const struct job *job, token_id *next, uint32_t max);
/* Gives the job a sequence of match->length tokens. False: failed; the job has none. */
bool device_take(struct job *job, const struct device_match *match);
/* Turns the ended job and its sequence into a resident. False: it was not parked, and the caller
 * keeps both. */
bool device_park(struct job *job);
/* State that cannot be truncated: keeps it on the device as it is before the last token of the
 * prompt, for the same prompt again. Otherwise a no-op. */
void device_keep_prompt(struct job *job);
/* Frees the least recently used resident other than `keep`; false when there is none. */
bool device_reclaim(struct sched *sched, const struct resident *keep);
/* Frees residents until that many cells are free; false when that is not enough. */
bool device_make_room(struct sched *sched, uint32_t cells, const struct resident *keep);
/* Acquires an empty sequence, evicting residents if necessary. */
enum err device_acquire(struct sched *sched, seq_id *seq, struct errinfo *info) NODISCARD;
void device_clear(struct sched *sched);
/* As sched_probe and sched_forget (sched.h). */
struct sched_device device_probe(struct sched *sched, const struct sched_prompt *prompt);
uint64_t device_forget(struct sched *sched, const struct hearth_space *space);
/* The engine that had all residents is dead. */
void device_lose(struct sched *sched);
/* Before a job that has `have` tokens starts: frees residents other than `keep` if the job is
 * better off without them and the cache has them. */
void device_trim(struct job *job, const struct resident *keep, uint32_t have);
/* A batch of this many tokens took so long: teaches what cells in use cost. */
void device_learn(struct sched *sched, uint64_t tokens, uint64_t ns);
/* Between two batches: stores a piece of a resident whose cells have cost too much, or frees it.
 * False: there is none. */
bool device_tidy(struct sched *sched);

/* ---- retain.c ---- */

/* Stores what is worth keeping at this point of a prefill. */
void retain_on_the_way(struct job *job);

enum retained {
    RETAIN_MORE,   /* a piece was stored, and others are left */
    RETAIN_DONE,   /* nothing is left to store */
    RETAIN_COSTLY, /* the rest costs more than that price */
};
/* Stores the next piece (one object) of what was computed so far. The sequence may grow between two
 * pieces, if retain_drop is called. */
enum retained retain_piece(struct job *job, enum store_price price);
/* What storing the rows that are left takes, in nanoseconds; 0: not known, or there are none. */
double retain_cost_ns(struct job *job);
/* All pieces. False: some of it costs too much. */
bool retain_all(struct job *job, enum store_price price);
/* Ends a store between two pieces; the next one continues after the stored part. */
void retain_drop(struct job *job);

/* ---- save_later.c ---- */

/* Before the sink is notified: the job counts as unsaved until it is stored (or retracted), so that
 * a client that was answered can see when all of its state is in the cache. */
void save_mark(struct job *job);
void save_unmark(struct job *job);
/* The job's sink was notified of the end: its state is stored once there is time. */
void save_begin(struct resident *resident, struct job *job);
/* Stores all that is worth the price, before the resident is evicted, and counts the rest. A no-op
 * when there is nothing to store. */
void save_now(struct resident *resident, enum store_price price);
/* Stores the next piece of an unsaved one. False: that is too expensive, now or earlier. */
bool save_piece(struct resident *resident, enum store_price price);
/* All pieces of a resident that may stay. False: some of it was too expensive and is still
 * unsaved. */
bool save_try(struct resident *resident, enum store_price price);
/* The conversation has ended: no more than its first tokens are stored, unless the client asked to
 * keep the state. */
void save_at_most(struct resident *resident, uint32_t tokens);
/* A longer sequence, which is stored when `to` ends, contains all of it. NULL: there is none. */
void save_pass_on(struct resident *resident, struct job *to);
/* Its engine is dead. */
void save_lose(struct resident *resident);
/* Stores the next piece of the one that has waited longest, at any price; false when there is
 * none. */
bool save_oldest(struct sched *sched);
/* While other jobs run: stores the next piece of a resident that should not wait longer, if that is
 * cheap. */
void save_beside(struct sched *sched);

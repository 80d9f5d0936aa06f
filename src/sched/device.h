/*
 * device.h: the first tier: sequences that are in the engine's memory already, and when those that
 * have ended are stored.
 *
 *      device.c    finding, forking, parking, and who must leave
 *      linger.c    from the device to the cache, when there is time for it
 *
 * Owner of everything here: the scheduler's thread.
 */
#ifndef HEARTH_SCHED_DEVICE_H
#define HEARTH_SCHED_DEVICE_H

#include "base/list.h"
#include "engine/engine.h"
#include "sched/sched.h"

struct job;

enum {
    DEVICE_LINGER_MS = 100, /* without work, before the state of what has ended is stored */
    /* that have ended and are not stored; one more, or one as old as this, is stored whatever else
     * there is to do */
    DEVICE_UNSAVED_MAX = 4,
    DEVICE_UNSAVED_MS_MAX = 1000,
    /* a token of state, in units of what a token of a guest costs a token that is computed beside
     * it */
    DEVICE_COST_RESTORE = 16,
    DEVICE_COST_STORE = 64, /* the same; with memory that is touched for the first time */
};

/* A finished sequence that stays on the device. */
struct resident {
    struct list_node link; /* least recently used first */
    struct hearth_space *space;
    const char *tenant; /* of a tenant: never freed before the scheduler */
    token_id *tokens;
    uint32_t count;
    seq_id seq;
    /* the ended job whose state is not in the cache yet (linger.c); NULL = it is, or is not to be
     */
    struct job *unsaved;
};

/* ---- device.c ---- */

/* A place in the engine that has the beginning of a prompt. */
struct device_match {
    struct resident *resident; /* or */
    struct job *job;
    uint32_t length; /* tokens that can be used, < target; 0 = none */
    uint32_t shared; /* tokens that are the same, of whichever has most */
    bool ends;       /* what has most ends there, and does not go another way */
};

struct device_match device_find(struct job *job);
/* A running job that computes more of this prompt than `have`; NULL when waiting is not worth it.
 */
struct job *device_find_leader(struct job *job, uint32_t have, uint32_t *until);
/* Gives the job a sequence of match->length tokens. False: it could not; the job has none. */
bool device_take(struct job *job, const struct device_match *match);
/* The job, which has ended, and its sequence become a resident. False: they do not, and are the
 * caller's business. */
bool device_park(struct job *job);
/* Frees the least recently used resident, but not `keep`; false when there is none. */
bool device_reclaim(struct sched *sched, const struct resident *keep);
/* Frees residents until so many cells are free; false when that is not enough. */
bool device_make_room(struct sched *sched, uint32_t cells, const struct resident *keep);
/* An empty sequence, for which residents may have to go. */
enum err device_acquire(struct sched *sched, seq_id *seq, struct errinfo *info) NODISCARD;
void device_clear(struct sched *sched);
/* As sched_probe and sched_forget (sched.h). */
struct sched_device device_probe(struct sched *sched, const struct sched_prompt *prompt);
uint64_t device_forget(struct sched *sched, const struct hearth_space *space);
/* All residents were in an engine that is dead. */
void device_lose(struct sched *sched);
/* Before a job starts that has `have` tokens: residents but `keep` leave if it is better off
 * without them, and the cache has them. */
void device_trim(struct job *job, const struct resident *keep, uint32_t have);
/* Tokens at the beginning that are the same. */
uint32_t device_common(const token_id *a, uint32_t a_count, const token_id *b, uint32_t b_count);

/* ---- linger.c ---- */

/* Before the sink is told: from now on until it is stored (or taken back) the job counts as
 * unsaved, so that whoever was answered can see when all of it is in the cache. */
void linger_announce(struct job *job);
void linger_retract(struct job *job);
/* The job's sink was told the end: its state is stored when there is time for it. */
void linger_begin(struct resident *resident, struct job *job);
/* Stores it now; a no-op when there is nothing to store. */
void linger_settle(struct resident *resident);
/* A longer sequence, which is stored when `to` ends, has all of it. NULL: there is none. */
void linger_hand_over(struct resident *resident, struct job *to);
/* Its engine is dead. */
void linger_lose(struct resident *resident);
/* The longest-waiting one; false when there is none. */
bool linger_settle_one(struct sched *sched);
/* The same, if it must not wait any longer. */
void linger_settle_late(struct sched *sched);

#endif

/*
 * forks.h: where prompts diverge from earlier ones, and which of those places get a snapshot.
 *
 *      prompt --places.h--> joints of its text --+
 *      forks of the tenant's earlier prompts ----+--> spread.h --> places of this prompt
 *      bytes and time that snapshots may take ---+
 *
 * State that can be cut needs none of this. Any other state can be resumed at snapshots only, and a
 * prompt that diverges inside a message would compute it from its beginning.
 *
 * HISTORY. Each kind of joint has a rate: how many of those that were seen became forks. It begins
 * with a prior that stands for PRIOR_PLACES places and was counted in written prompts of retrieval,
 * few-shot, lists, logs and tools (docs/decisions/031-snapshots-for-forks.md). The share of prompts
 * that fork inside a message at all scales how many snapshots a prompt gets. Both forget slowly.
 *
 * Owner of everything here: the scheduler's thread, except forks_prepare.
 */
#pragma once

#include "base/spread.h"
#include "sched/places.h"

struct gen;
struct job;

/* Of a tenant. */
struct forks_history {
    double seen[PLACE_COUNT], forked[PLACE_COUNT];
    double prompts, inside; /* those that were looked up, and those that forked inside a message */
};

/* Of a job. */
struct forks {
    struct places places;
    uint32_t chosen[SPREAD_MAX]; /* ascending */
    size_t chosen_count;
    bool evicted; /* the cache had a snapshot after the one that the job continued from */
};

/* On the thread that submits: finds the joints of the prompt. ERR_NOMEM. */
enum err forks_prepare(struct job *job, const struct gen *gen) NODISCARD;
void forks_fini(struct forks *forks);

/* The prompt was looked up: the history learns where it forks. */
void forks_learn(struct job *job);
/* The prefill begins at job->done: chooses the places after it. */
void forks_choose(struct job *job);
/* Whether a snapshot is wanted after job->done tokens. */
bool forks_is_place(const struct job *job);
/* Whether it is the last of these places: most forks are there (a question after a document, a log
 * that grows), so that it outlives the process. */
bool forks_is_last(const struct job *job);
/* Cuts of an exact run: they depend only on the tokens before them. Returns their number; `cuts` may
 * be NULL. */
size_t forks_exact_cuts(const struct job *job, uint32_t *cuts);

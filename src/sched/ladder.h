/*
 * ladder.h: the scheduler's response to batches that the engine refused. Internal to this folder.
 *
 * Owner: the scheduler's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct job;
struct sched;

#define LADDER_UNLIMITED UINT32_MAX

struct ladder {
    uint32_t items_max, tokens_max; /* limits of a batch: sequences, prefill tokens */
    uint32_t refusals;              /* since a batch ran or a running job ended */
    uint32_t calm;                  /* batches run since the last refusal or change of a limit */
    bool closed;                    /* no queued job is admitted until a running one has ended */
};

/* The engine has no room for the batch in sched->items, of that many tokens. On return, something
 * has changed. */
void ladder_refused(struct sched *sched, uint64_t tokens);
/* A batch ran. */
void ladder_ran(struct sched *sched);
/* A job that had a sequence has ended. */
void ladder_ended(struct sched *sched);
/* The youngest job with a sequence; NULL: none. */
struct job *ladder_youngest(const struct sched *sched);
/* Whether queued jobs may be admitted. */
bool ladder_admits(const struct sched *sched);

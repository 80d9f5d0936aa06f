/*
 * drafts.h: guesses in the batches of the scheduler. draft.h makes them, batch.c verifies them.
 *
 * Owner: the scheduler's thread.
 */
#pragma once

#include <stdbool.h>

struct job;
struct sched;

/* Before the first token of the answer. */
void drafts_begin(struct job *job);
/* After each token of the answer. */
void drafts_follow(struct job *job);
/* A batch has one token of each job that decodes: appends guesses to them. `alone`: no prefill will be
 * in it. */
void drafts_add(struct sched *sched, bool alone);
/* Counts a guess that was right. */
void drafts_accept(struct job *job);
/* Removes the rows of guesses that were wrong. False: failed. */
bool drafts_trim(struct job *job);
/* The same at the end of the job, whose sequence may be forked from now on. */
bool drafts_end(struct job *job);

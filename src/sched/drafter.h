/*
 * drafter.h: a second, smaller model that guesses the next tokens of answers (`--model-draft`). It
 * has the vocabulary of the main model and its own context. The main model's sampler verifies its
 * guesses like those of draft.h.
 *
 *      drafter_create -> drafter_follow (one per job) -> drafter_guess ... -> drafter_leave
 *
 * A sequence of the drafter follows each job. What a job leaves stays in the drafter's context and
 * is forked by the next job of the same owner that begins with the same tokens. Nothing is stored
 * elsewhere: after a restore the drafter computes the prompt again, a chunk per batch, beside the
 * answer (decision 019).
 *
 * Owner: the scheduler's thread.
 */
#ifndef HEARTH_SCHED_DRAFTER_H
#define HEARTH_SCHED_DRAFTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "engine/engine.h"

struct clock;
struct drafter;
struct drafter_job;
struct log;

/* ERR_INVALID: the models have different tokens; ERR_UNSUPPORTED: its state cannot be truncated.
 * The sentence is for the user. */
enum err drafter_check(const struct engine *main, const struct engine *engine,
                       struct errinfo *info) NODISCARD;

/* The engine is borrowed, and was checked. `min`: fewer guesses are not worth a batch. */
struct drafter *drafter_create(struct engine *engine, uint32_t min, struct clock *clock,
                               struct log *log);
void drafter_destroy(struct drafter **drafter);

/* NULL: no memory. `owner`: only jobs of the same one see its sequence; NULL = no other job. */
struct drafter_job *drafter_follow(struct drafter *drafter, const void *owner);
/* Ends it. The sequence, of `count` tokens of the job, stays for others. */
void drafter_leave(struct drafter_job **job, const token_id *tokens, uint32_t count);

/* The chance that a guess is right if those before it are, and what one takes; 0 = not known. */
double drafter_chance(const struct drafter *drafter);
double drafter_guess_ns(const struct drafter *drafter);
/* No guess was wanted: it may be worth another try much later. */
void drafter_skip(struct drafter *drafter);

/* Writes what the model expects after these tokens, at most `max`; returns their number. 0 while it
 * still computes the prompt, and for good after an error. */
uint32_t drafter_guess(struct drafter_job *job, const token_id *tokens, uint32_t count,
                       token_id *next, uint32_t max);

#endif

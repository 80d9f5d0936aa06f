/*
 * drafter.h: a second, smaller model that guesses the next tokens of answers (`--model-draft`). It
 * has the vocabulary of the main model and its own context. The main model's sampler verifies its
 * guesses like those of draft.h.
 *
 *      drafter_create -> drafter_follow (one per job) -> drafter_guess ... -> drafter_leave
 *
 * A sequence of the drafter follows each job. What a job leaves stays in the drafter's context and
 * is forked by the next job of the same owner that begins with the same tokens. Once the engine has
 * time, its rows are stored in a space of the cache, and a job whose tokens are no longer in the
 * context restores them from there, an object per batch, beside the answer. What cannot be restored
 * is computed again. No failure here changes an answer: guesses are verified (decision 019).
 *
 * Owner: the scheduler's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "engine/engine.h"

struct clock;
struct drafter;
struct drafter_job;
struct hearth_space;
struct log;

/* ERR_INVALID: the models have different tokens; ERR_UNSUPPORTED: its state cannot be truncated.
 * The sentence is for the user. */
enum err drafter_check(const struct engine *main, const struct engine *engine,
                       struct errinfo *info) NODISCARD;

/* The engine is borrowed, and was checked. `min`: fewer guesses are not worth a batch. */
struct drafter *drafter_create(struct engine *engine, uint32_t min, struct clock *clock,
                               struct log *log);
void drafter_destroy(struct drafter **drafter);

/* Where the state of a job may go. */
struct drafter_cache {
    const struct hearth_space *owner; /* only its jobs fork the sequence; NULL = no other job */
    struct hearth_space *space;       /* of the draft model; NULL = nothing is restored or stored */
    bool stores, no_disk;
};

/* NULL: no memory. */
struct drafter_job *drafter_follow(struct drafter *drafter, const struct drafter_cache *cache);
/* Ends it. The sequence, of `count` tokens of the job, stays for others. */
void drafter_leave(struct drafter_job **job, const token_id *tokens, uint32_t count);

/* Sequences of ended jobs (drafter may be NULL): whether rows of one are not stored yet; stores the
 * next rows, false: there are none; removes those of a space of either model (NULL: all). */
bool drafter_has_unsaved(const struct drafter *drafter);
bool drafter_save(struct drafter *drafter);
void drafter_forget(struct drafter *drafter, const struct hearth_space *space);

/* The chance that a guess is right if those before it are, and what one takes; 0 = not known. */
double drafter_chance(const struct drafter *drafter);
double drafter_guess_ns(const struct drafter *drafter);
/* No guess was wanted: it may be worth another try much later. */
void drafter_skip(struct drafter *drafter);

/* Writes what the model expects after these tokens, at most `max`; returns their number. 0 while it
 * still computes the prompt, and for good after an error. */
uint32_t drafter_guess(struct drafter_job *job, const token_id *tokens, uint32_t count,
                       token_id *next, uint32_t max);

/*
 * again.h: how often the state of ended jobs is used again, learned from the prompts that follow.
 *
 * The price of keeping state (store_cost.h, device.c) assumes that one state in eight is used
 * again. Turns of a conversation use nearly all of it, unrelated requests none. So the answer is
 * learned: a few tokens from the middle of what each job computed are remembered, and a later
 * prompt with the same tokens at the same place uses that state, whether it was stored or not.
 *
 * Owner: the scheduler's thread.
 */
#pragma once

#include <stdint.h>

#include "engine/engine.h"

enum {
    AGAIN_SAMPLES = 128, /* ended jobs that are remembered */
    /* A sample counts as not used after so many later ones: a few per client that asks at the same
     * time. If it is used after that, it counts as used all the same. */
    AGAIN_LATE_MIN = 12,
    AGAIN_LATE_EACH = 4,
    AGAIN_LATE_MAX = 64,
    AGAIN_TOKENS = 32, /* of a sample */
};

struct again {
    struct again_sample {
        uint32_t end; /* 0 = none, or it was used */
        uint64_t hash;
    } samples[AGAIN_SAMPLES];
    uint64_t count;      /* of all samples so far */
    uint64_t late;       /* of them, those old enough to count as not used */
    double crowd;        /* the most jobs at a time, lately */
    double used, unused; /* the latest count most */
};

/* A job of that owner ended, which computed the tokens [begin, end). Too few are no sample. */
void again_ended(struct again *again, const void *owner, const token_id *tokens, uint32_t begin,
                 uint32_t end);
/* So many jobs are under way or wait. */
void again_crowd(struct again *again, uint32_t jobs);
/* A prompt was submitted. */
void again_submitted(struct again *again, const void *owner, const token_id *tokens,
                     uint32_t count);
/* How many times as likely as one in eight: 1/8 to 4. 1 = not known. */
double again_factor(const struct again *again);

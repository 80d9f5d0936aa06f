/* tier.c: waiting for a result. Everything else is up to each tier. */
#include "tier/tier.h"

#include <assert.h>

void tier_answer_init(struct tier_answer *answer)
{
    *answer = (struct tier_answer){0};
    lock_init(&answer->lock, "answer", LOCK_RANK_QUEUE);
    cond_init(&answer->changed);
}

void tier_answer_fini(struct tier_answer *answer)
{
    cond_fini(&answer->changed);
    lock_fini(&answer->lock);
}

void tier_answer_done(enum tier_result result, void *arg)
{
    struct tier_answer *answer = arg;

    lock_enter(&answer->lock);
    assert(!answer->done); /* the contract: done is called exactly once */
    answer->result = result;
    answer->done = true;
    cond_signal(&answer->changed);
    lock_leave(&answer->lock);
}

enum tier_result tier_answer_wait(struct tier_answer *answer)
{
    lock_enter(&answer->lock);
    while (!answer->done)
        cond_wait(&answer->changed, &answer->lock);
    enum tier_result result = answer->result;
    answer->done = false;
    lock_leave(&answer->lock);
    return result;
}

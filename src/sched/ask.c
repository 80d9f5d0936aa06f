/*
 * ask.c: requests to the engine's thread: how much of a prompt is on the device, and dropping
 * finished sequences.
 *
 *      any thread: list it, nudge --> [ asks ] --> engine's thread, once a turn: answer all, wake
 *
 * Residents belong to the engine's thread, so other threads ask it instead of reading them. It
 * answers between two batches: callers wait for at most one batch and never past their timeout. If
 * the engine's thread hangs, they get ERR_TIMEOUT.
 *
 * A record lives on the caller's stack. It belongs to the list until the engine's thread removes
 * it, then to that thread until `done`. The caller returns only when neither owns it.
 */

#include "base/clock.h"
#include "sched/sched_impl.h"

enum ask_kind { ASK_PROBE, ASK_FORGET, ASK_TURN };

struct ask {
    struct list_node link;
    enum ask_kind kind;
    const struct sched_prompt *prompt; /* PROBE */
    const struct hearth_space *space;  /* FORGET; NULL: all */
    struct sched_device found;         /* the answers */
    uint64_t tokens;
    bool listed, done;
};

/* ---- the engine's thread ---- */

static struct ask *take_ask(struct sched *sched)
{
    struct list_node *link;
    struct ask *ask;

    lock_enter(&sched->lock);
    link = list_pop_front(&sched->asks);
    ask = LIST_ENTRY(link, struct ask, link);
    if (ask != NULL)
        ask->listed = false;
    lock_leave(&sched->lock);
    return ask;
}

/* The nudge has left the inbox, so another one may be queued. */
void ask_take_nudge(struct sched *sched)
{
    lock_enter(&sched->lock);
    sched->nudged = false;
    lock_leave(&sched->lock);
}

static uint64_t forget(struct sched *sched, const struct hearth_space *space)
{
    drafter_forget(sched->drafter, space);
    return device_forget(sched, space);
}

void ask_answer_all(struct sched *sched)
{
    for (struct ask *ask; (ask = take_ask(sched)) != NULL;) {
        if (ask->kind == ASK_PROBE)
            ask->found = device_probe(sched, ask->prompt);
        else if (ask->kind == ASK_FORGET)
            ask->tokens = forget(sched, ask->space);
        else
            while (save_oldest(sched) || drafter_save(sched->drafter))
                ;
        lock_enter(&sched->lock);
        ask->done = true;
        cond_broadcast(&sched->answered);
        lock_leave(&sched->lock);
    }
}

/* ---- callers ---- */

/* The thread may be asleep waiting on its inbox. A pointer to the scheduler itself is not a job and
 * only wakes it. The inbox reserves room for one; a full inbox wakes the thread anyway. */
static void nudge_locked(struct sched *sched) REQUIRES(lock)
{
    lock_assert_held(&sched->lock);
    if (!sched->nudged)
        sched->nudged = queue_try_push(sched->inbox, sched);
}

void ask_nudge(struct sched *sched)
{
    lock_enter(&sched->lock);
    nudge_locked(sched);
    lock_leave(&sched->lock);
}

static enum err put(struct sched *sched, struct ask *ask, uint64_t timeout_ms, struct errinfo *info)
{
    uint64_t deadline_ns = clock_deadline_ns(clock_real(), timeout_ms * NS_PER_MS);
    bool in_time = true;

    lock_enter(&sched->lock);
    ask->listed = true;
    list_push_back(&sched->asks, &ask->link);
    nudge_locked(sched);
    while (!ask->done && (in_time || !ask->listed)) {
        if (in_time)
            in_time = cond_wait_until(&sched->answered, &sched->lock, deadline_ns);
        else
            cond_wait(&sched->answered, &sched->lock); /* it is being answered */
    }
    if (!ask->done)
        list_remove(&sched->asks, &ask->link);
    lock_leave(&sched->lock);
    if (ask->done)
        return ERR_OK;
    return err_set(info, ERR_TIMEOUT, "%s: its engine is busy and did not answer in time",
                   sched->options.model);
}

enum err sched_forget(struct sched *sched, const struct hearth_space *space, uint64_t timeout_ms,
                      uint64_t *tokens, struct errinfo *info)
{
    struct ask ask = {.kind = ASK_FORGET, .space = space};
    enum err err = put(sched, &ask, timeout_ms, info);

    *tokens = ask.tokens;
    return err;
}

enum err sched_probe(struct sched *sched, const struct sched_prompt *prompt, uint64_t timeout_ms,
                     struct sched_device *found, struct errinfo *info)
{
    struct ask ask = {.kind = ASK_PROBE, .prompt = prompt};
    enum err err = put(sched, &ask, timeout_ms, info);

    *found = ask.found;
    return err;
}

enum err sched_wait_turn(struct sched *sched, uint64_t timeout_ms, struct errinfo *info)
{
    struct ask ask = {.kind = ASK_TURN};

    return put(sched, &ask, timeout_ms, info);
}

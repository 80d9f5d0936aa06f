/*
 * history.c: see the header.
 */
#include "admin/history.h"

#include <assert.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"

#define STEP_NS (HISTORY_STEP_S * NS_PER_S)

void history_init(struct history *history, uint64_t now_ns)
{
    memset(history, 0, sizeof(*history));
    history->begin_ns = now_ns;
}

/* The running step; those that nobody looked at are empty. */
static struct history_step *now(struct history *history, uint64_t now_ns)
{
    uint64_t step = (now_ns - MIN(history->begin_ns, now_ns)) / STEP_NS;

    if (step > history->last + HISTORY_STEPS) /* all are too old: once around is enough */
        history->last = step - HISTORY_STEPS;
    while (history->last < step)
        history->steps[++history->last % HISTORY_STEPS] = (struct history_step){0};
    return &history->steps[history->last % HISTORY_STEPS];
}

void history_count_tokens(struct history *history, uint64_t now_ns, const struct gen_usage *usage)
{
    struct history_step *step = now(history, now_ns);

    step->device += usage->device;
    step->ram += usage->ram;
    step->ssd += usage->ssd;
    step->remote += usage->remote;
    step->computed += usage->computed;
    step->generated += usage->generated;
}

void history_count_request(struct history *history, uint64_t now_ns)
{
    now(history, now_ns)->requests++;
}

static size_t held(const struct history *history)
{
    return (size_t)MIN(history->last + 1, HISTORY_STEPS);
}

static const struct history_step *step_at(const struct history *history, size_t back)
{
    return &history->steps[(history->last - back) % HISTORY_STEPS];
}

double history_sum(struct history *history, uint64_t now_ns, uint32_t seconds,
                   struct history_step *sum)
{
    size_t count = MAX(seconds / HISTORY_STEP_S, 1);

    (void)now(history, now_ns);
    count = MIN(count, held(history));
    *sum = (struct history_step){0};
    for (size_t back = 0; back < count; back++) {
#define X(field) sum->field += step_at(history, back)->field;
        HISTORY_TABLE(X)
#undef X
    }
    /* The steps before the running one are whole, of that one a part has passed. */
    uint64_t first_ns = history->begin_ns + (history->last + 1 - count) * STEP_NS;
    double passed_s = (double)(now_ns - MIN(first_ns, now_ns)) / (double)NS_PER_S;
    return MAX(passed_s, 1.0);
}

void history_write(struct json *json, struct history *history, uint64_t now_ns, uint64_t wall_s)
{
    (void)now(history, now_ns);
    size_t count = held(history);
    uint64_t age_s = (now_ns - MIN(history->begin_ns + history->last * STEP_NS, now_ns)) / NS_PER_S;
    uint64_t running_s = wall_s - MIN(age_s, wall_s);

    json_key_uint(json, "step_s", HISTORY_STEP_S);
    json_key(json, "t");
    json_open(json, '[');
    for (size_t back = count; back > 0; back--)
        json_uint(json, running_s - MIN((back - 1) * HISTORY_STEP_S, running_s));
    json_close(json, ']');
#define X(field)                                            \
    json_key(json, #field);                                 \
    json_open(json, '[');                                   \
    for (size_t back = count; back > 0; back--)             \
        json_uint(json, step_at(history, back - 1)->field); \
    json_close(json, ']');
    HISTORY_TABLE(X)
#undef X
}

/*
 * trace_users.c: copies of requests with other times and shifted ids; the ids themselves are not
 * copied, so a million requests stay small.
 */

#include <assert.h>
#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "lab/spread.h"
#include "lab/trace.h"

static const double PAUSE_S = 300; /* between two sessions of one user: the mean */

/* In [0, 1). */
static double next_fraction(uint64_t *state)
{
    return (double)(spread_random(state) >> 11) * 0x1p-53;
}

struct load {
    const struct trace *trace;
    struct trace_request *requests;
    size_t count;
    uint64_t random;
    uint32_t *order;       /* sessions, shuffled for one user */
    uint64_t *begin, *end; /* of each session, by its number */
};

static void shuffle(struct load *load)
{
    uint32_t sessions = load->trace->sessions;

    for (uint32_t i = 0; i < sessions; i++)
        load->order[i] = i + 1;
    for (uint32_t i = sessions; i > 1; i--) {
        uint32_t j = (uint32_t)(spread_random(&load->random) % i), kept = load->order[i - 1];
        load->order[i - 1] = load->order[j];
        load->order[j] = kept;
    }
}

/* Appends a session (or all, TRACE_NO_SESSION) so that what was at `from` is at `to`. */
static void append(struct load *load, uint32_t user, uint32_t session, uint64_t from, uint64_t to)
{
    const struct trace *trace = load->trace;

    for (size_t i = 0; i < trace->requests_count; i++) {
        struct trace_request copy = trace->requests[i];
        if (session != TRACE_NO_SESSION && copy.session != session)
            continue;
        copy.at_ns = copy.at_ns - from + to;
        copy.shift = user * trace->ids_end;
        if (session != TRACE_NO_SESSION)
            copy.session = user * trace->sessions + session;
        load->requests[load->count++] = copy;
    }
}

static void play_sessions(struct load *load, uint32_t user, uint64_t at)
{
    shuffle(load);
    for (uint32_t i = 0; i < load->trace->sessions; i++) {
        uint32_t session = load->order[i];
        append(load, user, session, load->begin[session], at);
        double pause = -log(1 - next_fraction(&load->random)) * PAUSE_S;
        at += load->end[session] - load->begin[session] + (uint64_t)(pause * (double)NS_PER_S);
    }
}

/* When sessions begin and end; the longest of these times. */
static uint64_t find_spans(struct load *load)
{
    const struct trace *trace = load->trace;
    uint64_t longest = 0;

    for (uint32_t i = 0; i <= trace->sessions; i++)
        load->begin[i] = UINT64_MAX;
    for (size_t i = 0; i < trace->requests_count; i++) {
        const struct trace_request *request = &trace->requests[i];
        uint32_t s = request->session;
        load->begin[s] = MIN(load->begin[s], request->at_ns);
        load->end[s] = MAX(load->end[s], request->at_ns);
        longest = MAX(longest, load->end[s] - load->begin[s]);
    }
    return longest;
}

static void fill(struct load *load, uint32_t users)
{
    uint64_t span = find_spans(load);
    bool sessions = load->begin[TRACE_NO_SESSION] == UINT64_MAX;

    for (uint32_t user = 0; user < users; user++) {
        uint64_t at = (uint64_t)(next_fraction(&load->random) * (double)span);
        if (sessions)
            play_sessions(load, user, at);
        else
            append(load, user, TRACE_NO_SESSION, 0, at);
    }
    assert(load->count == load->trace->requests_count * users);
}

enum err trace_multiply(struct trace *trace, uint32_t users, uint64_t seed, struct errinfo *info)
{
    struct load load = {.trace = trace, .random = seed};
    enum err err = ERR_OK;

    assert(users >= 1);
    if (trace->requests_count > TRACE_REQUESTS_MAX / users ||
        (uint64_t)trace->ids_end * users > INT32_MAX ||
        ((uint64_t)trace->sessions + 1) * users > UINT32_MAX)
        return err_set(info, ERR_LIMIT, "%u users of this trace are too many requests", users);
    load.requests = mem_try_alloc_array(trace->requests_count * users, sizeof(*load.requests));
    load.order = mem_alloc_array(trace->sessions + 1, sizeof(*load.order));
    load.begin = mem_alloc_array(trace->sessions + 1, sizeof(*load.begin));
    load.end = mem_alloc_array(trace->sessions + 1, sizeof(*load.end));
    if (load.requests == NULL) {
        err = err_set(info, ERR_NOMEM, "%s", err_sentence(ERR_NOMEM));
    } else {
        fill(&load, users);
        mem_free(trace->requests);
        trace->requests = load.requests;
        trace->requests_count = trace->requests_cap = load.count;
        trace->ids_end *= users;
        trace->sessions *= users;
        trace_sort(trace);
    }
    mem_free(load.order);
    mem_free(load.begin);
    mem_free(load.end);
    return err;
}

/*
 * trace.h: a workload in memory: which blocks each request's prompt consists of, in the order of
 * time.
 *
 *      requests   [ at, session, tokens, first, blocks ] [ ... ] ...
 *                                          |
 *      ids        [ 0 1 2 3 | 0 1 4 5 6 | 0 7 ... ]       one number per block, from 0
 *
 * A number identifies a block AND everything before it: two prompts share a number exactly when
 * they are equal up to the end of that block. So a child never occurs without its parents, which
 * trace_opt.c relies on, and one number can represent a block in the index.
 *
 * Only hashes and lengths are kept, never text. Owner: one thread. Plain data: trace_read.c adds,
 * other modules only read.
 */
#pragma once

#include <hearth/hearth.h>

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

enum {
    TRACE_TOKENS_MAX = 1 << 24, /* of one prompt */
    TRACE_REQUESTS_MAX = 64000000,
    TRACE_NO_SESSION = 0, /* the trace has no session for the request */
};

struct trace_request {
    uint64_t at_ns;
    uint32_t session; /* counted from 1; TRACE_NO_SESSION */
    uint32_t tokens;  /* of the prompt */
    uint32_t generated;
    enum hearth_ending ending; /* of the answer */
    uint32_t anchor;           /* end of system prompt and tools, tokens; 0 = not known */
    uint32_t blocks;           /* ids[first, first + blocks) */
    uint32_t shift; /* added to the ids of blocks outside the anchor: see trace_users.c */
    size_t first;
};

/* The result of the server that recorded it. */
struct trace_recorded {
    uint64_t requests, tokens, tokens_hit;
    uint64_t lost; /* requests that it failed to record */
};

struct trace_names;

struct trace {
    uint32_t block_tokens; /* 0 until the first file sets it */
    struct trace_request *requests;
    size_t requests_count, requests_cap;
    int32_t *ids;
    size_t ids_count, ids_cap;
    struct trace_names *names;         /* keys of blocks -> ids */
    struct trace_names *session_names; /* keys of sessions -> numbers */
    uint32_t ids_end;                  /* ids of blocks are below it, shifts included */
    uint32_t sessions;                 /* the last number in use */
    struct trace_recorded recorded;
};

void trace_init(struct trace *trace);
void trace_fini(struct trace *trace);

/* Adds a request; at_ns need not ascend, see trace_sort. `keys` (request->blocks of them) name
 * blocks; equal keys after equal prefixes are the same block. `first` and `shift` are set here.
 * ERR_LIMIT or ERR_NOMEM: nothing was added but names. */
enum err trace_add(struct trace *trace, const struct trace_request *request,
                   const uint64_t *keys) NODISCARD;

/* The number of the session with this key, a new one when it was not seen before; TRACE_NO_SESSION
 * without memory. */
uint32_t trace_session(struct trace *trace, uint64_t key);

/* The key of a number that is unique only within one scope (a file, a session). */
uint64_t trace_key(uint64_t scope, uint64_t number);

/* All files of one run have one block size. ERR_INVALID otherwise. */
enum err trace_set_block(struct trace *trace, uint32_t block_tokens,
                         struct errinfo *info) NODISCARD;

/* By time; requests at the same time stay in their order. Then time begins at 0. */
void trace_sort(struct trace *trace);

/* The id of block `i` of a request, shift included. */
int32_t trace_id(const struct trace *trace, const struct trace_request *request, uint32_t i);
/* Blocks that lie entirely within system prompt and tools. */
uint32_t trace_anchor_blocks(const struct trace *trace, const struct trace_request *request);

/* Sums that every report needs. */
struct trace_sums {
    uint64_t blocks, tokens;
    uint64_t ns; /* from the first request to the last */
};
struct trace_sums trace_sum(const struct trace *trace);

/* ---- the best places for snapshots (trace_place.c) ----
 *
 * For a cache without limits, and a price per snapshot in tokens: the set of places (a prompt, cut
 * after some block) for which
 *
 *      tokens that need not be computed - price x snapshots
 *
 * is the highest. A place can be used from the request after the one that computed it first. It has
 * the whole trace at hand: no policy that decides when it sees a prompt can do better. */

struct trace;

struct place_result {
    uint64_t snapshots;
    uint64_t tokens_saved;
};

/* O(blocks of the trace + places^2 of one path). ERR_NOMEM; ERR_LIMIT when the trace branches more
 * deeply than the table has room for. */
enum err place_best(const struct trace *trace, uint64_t price_tokens,
                    struct place_result *result) NODISCARD;

/* ---- more load than a trace has (trace_users.c) ----
 *
 *      trace with sessions     each user plays all sessions, in its own order, one after the other,
 *                              with a pause between them
 *      trace without           each user is a copy of the whole trace that begins at another time
 *
 * All begin within the duration of the trace (of its longest session). Blocks of different users
 * are never equal, except those of system prompt and tools, which users of the same session
 * share. */

/* Adds sessions of agents as they are in production (trace_agents.c). The same seed gives the same
 * sessions. ERR_LIMIT, ERR_NOMEM; ERR_INVALID: the trace has another block size. */
enum err trace_make_agents(struct trace *trace, uint32_t sessions, uint64_t seed,
                           struct errinfo *info) NODISCARD;

/* Replaces the requests of a sorted trace by those of `users` (>= 1) users, sorted. The same
 * seed gives the same load. ERR_LIMIT when there would be too many, ERR_NOMEM: then nothing has
 * changed. */
enum err trace_multiply(struct trace *trace, uint32_t users, uint64_t seed,
                        struct errinfo *info) NODISCARD;

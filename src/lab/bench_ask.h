/*
 * bench_ask.h: one generation, as a client sees it: asked for as a stream, and timed where the
 * bytes arrive.
 *
 *      send ... first text (ttft) . text . text ... end (total)
 *                                   gap    gap
 *
 * Works with any server that speaks OpenAI's chat or completions. What hearth says beyond that
 * (`x_cache`, `timings`) is taken along where it is there; llama-server's `timings` as well.
 *
 * Threads: any; each call has a connection of its own.
 */
#ifndef HEARTH_LAB_BENCH_ASK_H
#define HEARTH_LAB_BENCH_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "http/client.h"

struct ask_message {
    const char *role; /* NULL: no chat; `text` is the prompt of a completion, and the only one */
    const char *text;
};

struct ask {
    const struct client_url *url;
    const char *key, *model; /* NULL = none */
    const struct ask_message *messages;
    size_t messages_count;
    uint32_t max_tokens;
    uint64_t timeout_ms;
    uint32_t leave_after; /* pieces of text after which the client leaves; 0 = it stays */
    bool plain;           /* only what every server knows: no ignore_eos, no cache_prompt */
};

/* -1: the server did not say. */
struct ask_cache {
    int64_t device, ram, ssd, remote, computed, first_difference;
    char match[24], reason[24];
    double lookup_ms, fetch_ms, verify_ms, import_ms, replay_ms;
};

struct ask_result {
    int status;
    char request_id[CLIENT_ID_BYTES];
    struct buf text;
    char finish[24]; /* "" when there was none */
    char error[256]; /* what the server said instead of an answer; "" = nothing */
    bool left;       /* the client went, as it was asked to */
    double ttft_ms, total_ms;
    double *gaps_ms; /* between pieces of text */
    size_t gaps_count, gaps_capacity;
    size_t chunks, bytes;
    int64_t prompt, cached, written, generated; /* -1: not told */
    struct ask_cache cache;
};

/* ERR_OK also for an answer that is an error: `status` and `error` tell. Else the connection
 * failed. The caller finishes the result in any case. */
enum err ask_run(const struct ask *ask, struct ask_result *result, struct errinfo *info) NODISCARD;
void ask_result_fini(struct ask_result *result);

/* The JSON of the request. */
void ask_write_body(const struct ask *ask, struct buf *out);

#endif

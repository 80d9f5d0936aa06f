/*
 * bench_ask.h: one generation as a client sees it: requested as a stream, and timed as the bytes
 * arrive.
 *
 *      send ... first text (ttft) . text . text ... end (total)
 *                                   gap    gap
 *
 * Works with any server that speaks OpenAI's chat or completions. Extra fields of hearth
 * (`x_cache`, `timings`) and llama-server (`timings`) are read where present.
 *
 * Threads: any; each call has its own connection.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "http/client.h"

struct ask_message {
    /* NULL: no chat; `text` is the prompt of a completion, and the only one. "": another content
     * part of the message before */
    const char *role;
    const char *text;
};

struct ask {
    const struct client_url *url;
    const char *key, *model; /* NULL = none */
    const struct ask_message *messages;
    size_t messages_count;
    uint32_t max_tokens;
    uint64_t timeout_ms;
    uint32_t leave_after; /* pieces of text after which the client disconnects; 0 = never */
    const char *grammar, *prediction; /* NULL = none */
    bool plain; /* only fields that every server knows: no ignore_eos, no cache_prompt */
};

/* -1: not reported by the server. */
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
    char error[256]; /* the server's error message; "" = none */
    bool left;       /* the client disconnected as requested */
    double ttft_ms, total_ms;
    double *gaps_ms; /* between pieces of text */
    size_t gaps_count, gaps_capacity;
    size_t chunks, bytes;
    int64_t prompt, cached, written, generated, accepted; /* -1: not reported */
    struct ask_cache cache;
};

/* ERR_OK also for an error response: see `status` and `error`. Otherwise the connection failed.
 * The caller finishes the result in any case. */
enum err ask_run(const struct ask *ask, struct ask_result *result, struct errinfo *info) NODISCARD;
void ask_result_fini(struct ask_result *result);

/* The JSON of the request. */
void ask_write_body(const struct ask *ask, struct buf *out);

/* ---- the tokens of a prompt as a server sees it, to compare with "computed" ----
 *
 * Works with hearth and llama-server (`/apply-template`, `/tokenize`). `key` may be NULL. No call
 * touches an engine. */

struct tokens {
    uint32_t *ids;
    size_t count;
};

/* Renders messages to text, appended to `out`; a message without a role is already rendered. */
enum err tokens_render(const struct client_url *url, const char *key,
                       const struct ask_message *messages, size_t count, struct buf *out,
                       struct errinfo *info) NODISCARD;
/* The caller finishes `out` in any case. */
enum err tokens_of(const struct client_url *url, const char *key, const char *text,
                   struct tokens *out, struct errinfo *info) NODISCARD;
void tokens_fini(struct tokens *tokens);

/* The length of the common prefix. */
size_t tokens_common(const struct tokens *a, const struct tokens *b);

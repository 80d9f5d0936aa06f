/*
 * api.h: the server's endpoints: who may call them, what they do, and the threads that do it.
 *
 *      http loop --auth, route--> bounded queue --> workers --> sched --> sinks --> reply
 *                     |               |
 *                  401, 503          429
 *
 * Short answers (health, models, slots, metrics) are given on the loop thread; whatever parses,
 * renders or tokenizes is a worker's. What may be asked without a key is marked in the table of
 * endpoints, and nothing else may (default: no).
 *
 * Order of ends: api_drain, http_server_stop, api_destroy, then the models.
 *
 * Threads: create and destroy from one; all else from any.
 */
#ifndef HEARTH_SERVE_API_H
#define HEARTH_SERVE_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "serve/auth.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/drill.h"
#include "base/err.h"
#include "chat/error.h"
#include "engine/sample.h"
#include "http/problem.h"
#include "http/route.h"

struct api;
struct call;
struct clock;
struct endpoint;
struct gen_result;
struct hearth_cache;
struct log;
struct memory;
struct neutral;
struct pool;
struct replay;

/* What happens to calls, for counters and records above this folder. Functions may be NULL; they
 * must not block. */
struct call_observer {
    /* A request was refused before it became a call; API_ERROR_AUTH and API_ERROR_PERMISSION: for
     * its key. Loop thread. */
    void (*refused)(enum api_error_kind kind, void *arg);
    /* A generation of a call has ended. On the thread that ends calls. */
    void (*generated)(const struct gen_result *result, void *arg);
    /* A call with a prompt is about to be answered to its end. A client that sees the end and asks
     * then finds it counted. On the thread that ends it, as `ended`. */
    void (*answering)(struct call *call, void *arg);
    /* A call is over; its memory is freed after this. */
    void (*ended)(struct call *call, void *arg);
    void *arg;
};

/* Zero is a good default for each field. What is pointed to outlives the api. */
struct api_options {
    struct auth_options auth;
    uint32_t workers;         /* 0 = 2 */
    uint32_t queue;           /* calls that wait for a worker; 0 = 256 */
    size_t request_bytes_max; /* memory of one request beside its body; 0 = 256 MiB */
    uint32_t keepalive_ms;    /* silence of a stream before it is filled; 0 = 8 s (I80) */
    /* how long a call waits for a model that is being loaded; 0 = 5 min */
    uint32_t load_ms;
    const struct sample_params *sample; /* what requests start with; NULL = sample_params_default */
    bool strict_model;       /* unknown names are a 404; else they mean the default model */
    struct neutral *neutral; /* NULL = texts stay as they are */
    struct replay *replay;   /* NULL = off */
    bool replay_keep;
    struct hearth_cache *cache;   /* for its numbers; NULL = off */
    struct memory *memory;        /* for its numbers; NULL = no ceiling */
    bool public_metrics;          /* /metrics needs no key */
    const char *version, *commit; /* of the program; NULL = unknown */
    /* further endpoints than the api's own (api_impl.h), what they belong to, and who is told of
     * calls */
    const struct endpoint *endpoints;
    size_t endpoints_count;
    void *endpoints_arg;
    struct call_observer observer;
    struct log *log;
    struct clock *clock; /* NULL = the machine's */
    enum drill drill;    /* a fault that is practised; 0 = none */
};

enum err api_create(struct api **api, const struct api_options *options,
                    struct errinfo *info) NODISCARD;

/* Ends what is left and waits for it. The http server is stopped, the models still run. Accepts
 * NULL inside. */
void api_destroy(struct api **api);

/* The models that answer; until the call requests get a 503. They outlive the api. */
void api_set_pool(struct api *api, struct pool *pool);

/* Reads the files of keys again: who asks from now on is known by those. On failure, also when the
 * file has no key any more, the old ones stay. One thread at a time. */
enum err api_reload_keys(struct api *api, struct errinfo *info) NODISCARD;

/* For http_server_start. Valid as long as the api. */
const struct http_route *api_routes(const struct api *api, size_t *count);

/* For http_options.error_body: what http refuses by itself, in Anthropic's form below /v1/messages,
 * else in OpenAI's. `arg` is not used. */
void api_http_error(enum http_problem problem, struct str path, struct buf *body, void *arg);

/* Not ready from now on: new calls get a 503. Waits until those on their way are answered, at most
 * so long; then ends the rest, each with its protocol's own ending (keeps I109), and waits for
 * that. False: some were ended. */
bool api_drain(struct api *api, uint64_t timeout_ms);

#endif

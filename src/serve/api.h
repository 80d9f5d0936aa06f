/*
 * api.h: the server's endpoints: access control, dispatch, and the worker threads.
 *
 *      http loop --auth, route--> bounded queue --> workers --> sched --> sinks --> reply
 *                     |               |
 *                  401, 503          429
 *
 * Short answers (health, models, slots, metrics) are given on the loop thread. Anything that
 * parses, renders or tokenizes runs on a worker. Endpoints need a key unless the table marks them
 * as open.
 *
 * Shutdown order: api_drain, http_server_stop, api_destroy, then the models.
 *
 * Threads: create and destroy from one; all else from any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chat/prepare.h"
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
struct recall;
struct shelf;

/* Receives events of calls, for counters and records outside this folder. Functions may be NULL;
 * they must not block. */
struct call_observer {
    /* A request was refused before it became a call; API_ERROR_AUTH and API_ERROR_PERMISSION:
     * because of its key. Loop thread. */
    void (*refused)(enum api_error_kind kind, void *arg);
    /* A generation of a call has ended. On the thread that ends calls. */
    void (*generated)(const struct gen_result *result, void *arg);
    /* Before a call with a prompt gets the end of its answer. Counting here means that a client
     * that asks /admin next sees its own request. On the thread that ends the call, as `ended`. */
    void (*answering)(struct call *call, void *arg);
    /* A call has ended; its memory is freed after this. */
    void (*ended)(struct call *call, void *arg);
    void *arg;
};

#define API_REQUEST_BYTES ((size_t)256 * 1024 * 1024)

/* Zero is a good default for each field. Pointers must outlive the api. */
struct api_options {
    struct auth_options auth;
    uint32_t workers; /* 0 = 2 */
    uint32_t queue;   /* maximum calls waiting for a worker; 0 = 256 */
    /* memory of one request in addition to its body: its JSON tree, and what is made of that; 0 =
     * API_REQUEST_BYTES */
    size_t request_bytes_max;
    uint32_t keepalive_ms; /* silence before a keep-alive; 0 = 8 s (I80) */
    /* how long a call waits for a model to load; 0 = 5 min */
    uint32_t load_ms;
    const struct sample_params *sample; /* sampling defaults; NULL = sample_params_default */
    bool strict_model;       /* unknown names are a 404; otherwise they select the default model */
    struct neutral *neutral; /* NULL = texts are used as they are */
    struct recall *recall;   /* NULL = off */
    bool recall_keep;
    struct prepare_defaults defaults; /* its kwargs are borrowed */
    struct shelf *stored;       /* responses that later requests continue (stored.h); NULL = none */
    const char *media_dir;      /* of file:// URLs: an absolute path; NULL = refused */
    struct hearth_cache *cache; /* for its statistics; NULL = off */
    /* how long a call waits to learn what other machines have stored of its prompt; 0 = not */
    uint32_t discover_ms;
    struct memory *memory;        /* for its statistics; NULL = no ceiling */
    bool public_metrics;          /* /metrics needs no key */
    const char *version, *commit; /* of the program; NULL = unknown */
    /* endpoints in addition to the api's own (api_impl.h), their owner, and the observer of
     * calls */
    const struct endpoint *endpoints;
    size_t endpoints_count;
    void *endpoints_arg;
    struct call_observer observer;
    struct log *log;
    struct clock *clock; /* NULL = the machine's */
    enum drill drill;    /* injected fault; 0 = none */
};

enum err api_create(struct api **api, const struct api_options *options,
                    struct errinfo *info) NODISCARD;

/* Ends all remaining calls and waits for them. The http server must be stopped, the models still
 * running. Accepts a pointer to NULL. */
void api_destroy(struct api **api);

/* Sets the models; before this, requests get a 503. They outlive the api. */
void api_set_pool(struct api *api, struct pool *pool);

/* Reads the key files again; later requests are checked against the new keys. On failure, including
 * a file without keys, the old keys stay. One thread at a time. */
enum err api_reload_keys(struct api *api, struct errinfo *info) NODISCARD;

/* For http_server_start. Valid for the lifetime of the api. */
const struct http_route *api_routes(const struct api *api, size_t *count);

/* For http_options.any_host: health checks, which show nothing, and requests with a valid key, which a
 * page of another site does not have. */
bool api_http_any_host(const struct http_request *request);

/* For http_options.check: a client without a key must not fill memory with a body. */
enum http_problem api_http_check(const struct http_request *request);

/* For http_options.error_body: errors from http itself, in the dialect of the endpoint or, without
 * one, of the path. `arg` is not used. */
void api_http_error(enum http_problem problem, const struct http_request *request,
                    char id[HTTP_ID_BYTES], struct buf *body, void *arg);

/* From now on /ready answers 503, and everything else as before. False: no load balancer is there to
 * see it, as /ready was not asked twice lately. */
bool api_announce_end(struct api *api) NODISCARD;
/* How many times it did so. */
unsigned api_announced(const struct api *api);

/* Reports not ready: new calls get a 503. Waits until running calls are answered. At the timeout it
 * ends the rest, each with its protocol's own ending (keeps I109), and waits for that. False: some
 * were ended. */
bool api_drain(struct api *api, uint64_t timeout_ms);

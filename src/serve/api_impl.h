/*
 * api_impl.h: what the files of the api share: its state, and the table of endpoints.
 */
#ifndef HEARTH_SERVE_API_IMPL_H
#define HEARTH_SERVE_API_IMPL_H

#include <stdatomic.h>

#include "dialect/answer.h"
#include "serve/api.h"
#include "serve/call.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/queue.h"
#include "http/reply.h"
#include "http/route.h"

enum { API_WORKERS_MAX = 64, API_QUEUE_MAX = 65536, API_SETTINGS = 6 };

struct endpoint;
struct feed;
struct json;
struct monitor;
struct watch;

/* A request on the loop thread. */
struct visit {
    struct api *api;
    const struct endpoint *endpoint;
    const struct http_request *request;
    struct http_reply *reply;
    const char *request_id;
    struct auth_result auth;
};

/* A row of the table: exactly one of `now` and `work`. */
struct endpoint {
    enum http_method method;
    const char *path;
    const char *name;              /* for the log and the metrics; several paths may share one */
    const struct dialect *dialect; /* of errors, and of answers; NULL: OpenAI's errors */
    bool open;                     /* without a key */
    bool admin;   /* changes the server for all, or tells of all: with an admin key only */
    bool metrics; /* but without a key if the options say so */
    bool plain;   /* its work needs no model */
    bool slow;    /* its work may take minutes: on a thread of its own, one after the other */
    void (*now)(const struct visit *visit); /* on the loop thread; must not block */
    void (*work)(struct call *call);        /* on a worker */
};

/* What a route's handler gets. */
struct api_route {
    struct api *api;
    const struct endpoint *endpoint;
};

struct api {
    struct api_options options;
    struct sample_params sample;
    _Atomic(struct auth *) auth; /* api_auth */
    struct metric_set *metrics;
    struct monitor *monitor;
    struct feed *feed;
    struct watch *watch; /* the monitor's thread's */
    const struct metric_set *http_metrics;
    struct clock *clock;
    _Atomic(struct pool *) pool;
    atomic_bool draining;
    atomic_ullong next_gen;

    struct queue *queue;
    struct thread workers[API_WORKERS_MAX];
    uint32_t workers_count;
    /* that may wait there; relaxed: a limit that orders nothing, as the next two */
    atomic_uint queue_max;
    atomic_ullong ssd_day_bytes, model_ttl_s;
    uint64_t settings_begin[API_SETTINGS]; /* what those began with that can be changed */
    struct queue *slow;                    /* of endpoints that are */
    struct queue *large; /* calls with large bodies: those with small ones never wait for them */
    struct thread slow_worker, large_worker;

    struct http_route *routes;
    struct api_route *route_args;
    size_t routes_count;

    struct lock lock;
    struct cond calls_gone;
    struct list calls GUARDED_BY(lock);  /* those on their way */
    size_t calls_alive GUARDED_BY(lock); /* those whose memory is not freed yet */
    /* keys before each api_reload_keys; the loop may still look at them. Of the thread that reloads
     */
    struct auth **retired;
    size_t retired_count;
};

extern const struct endpoint api_endpoints[];
extern const size_t api_endpoints_count;

/* The dialect that an endpoint's errors are written in. */
const struct dialect *api_dialect(const struct endpoint *endpoint);

/* The keys as they are now; valid until the end. */
const struct auth *api_auth(const struct api *api);
/* The models, or NULL while the server starts: `error` says so. */
struct pool *api_pool(struct api *api, struct api_error *error);
bool api_is_draining(const struct api *api);
int64_t api_local_time(const struct api *api);

/* Whose running generation it is; false: it is not one of ours, or over. */
struct api_caller {
    char request_id[RESPOND_ID_BYTES], who[AUTH_NAME_BYTES];
};
bool api_gen_caller(struct api *api, uint64_t gen, struct api_caller *caller);

/* Answers a visit: with JSON (the buffer is finished), or with an error. */
void visit_respond(const struct visit *visit, struct buf *body);
void visit_fail(const struct visit *visit, const struct api_error *error);
/* As api_pool; NULL: the visit has failed. */
struct pool *visit_pool(const struct visit *visit);

/* ---- endpoints_model.c ---- */
void endpoint_models(const struct visit *visit);
void endpoint_model(const struct visit *visit);
void endpoint_model_change(const struct visit *visit);
void endpoint_props(const struct visit *visit);
void props_write_memory(struct json *json, struct memory *memory); /* NULL: null */

/* ---- endpoints_status.c ---- */
void endpoint_root(const struct visit *visit);
void endpoint_health(const struct visit *visit);
void endpoint_ready(const struct visit *visit);
void endpoint_version(const struct visit *visit);
void endpoint_metrics(const struct visit *visit);
void endpoint_slots(const struct visit *visit);

/* ---- endpoints_web.c ---- */
void endpoint_home(const struct visit *visit); /* the page for a browser, else endpoint_root */
void endpoint_page(const struct visit *visit);
void endpoint_page_file(const struct visit *visit);

/* ---- endpoints_tokens.c ---- */
void endpoint_tokenize(struct call *call);
void endpoint_detokenize(struct call *call);
void endpoint_apply_template(struct call *call);
void endpoint_count_tokens(struct call *call);

/* ---- endpoints_admin_*.c ---- */
void endpoint_admin_stats(const struct visit *visit);
void endpoint_admin_history(const struct visit *visit);
void endpoint_admin_models(const struct visit *visit);
void endpoint_admin_requests(const struct visit *visit);
void endpoint_admin_events(const struct visit *visit);
void endpoint_admin_settings(const struct visit *visit);
void endpoint_admin_change(struct call *call);
void endpoint_cache_clear(struct call *call);
void endpoint_cache_objects(struct call *call);
void endpoint_cache_object(struct call *call);
void endpoint_cache_tree(struct call *call);
void endpoint_cache_probe(struct call *call);
void endpoint_cache_warm(struct call *call);
void endpoint_cache_pin(struct call *call);
void endpoint_cache_unpin(struct call *call);
void endpoint_cache_evict(struct call *call);
void endpoint_cache_ttl(struct call *call);
void endpoint_cache_verify(struct call *call);
void endpoint_cache_export(struct call *call);
void endpoint_cache_import(struct call *call);

/* Notes what can be changed as it is now. */
void admin_settings_begin(struct api *api);

#endif

/* api_impl.h: shared by the files of the api: its state, and the table of endpoints. */
#pragma once

#include <stdatomic.h>

#include "dialect/answer.h"
#include "serve/api.h"
#include "serve/call.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/turns.h"
#include "http/reply.h"
#include "http/route.h"

enum { API_WORKERS_MAX = 64, API_QUEUE_MAX = 65536 };

struct endpoint;
struct json;
struct json_reader;
struct memory_view;
struct shelf;

/* A request on the loop thread, before it is answered or becomes a call. */
struct loop_request {
    struct api *api;
    const struct endpoint *endpoint;
    const struct http_request *request;
    struct http_reply *reply;
    const char *request_id;
    struct auth_result auth;
};

typedef enum err show_fn(const struct loop_request *req, struct json *json,
                         struct api_error *error);
typedef enum err answer_fn(struct call *call, const struct json_reader *body, struct json *json);

/* A row of the table. */
struct endpoint {
    enum http_method method;
    const char *path;
    const char *name;              /* for the log and the metrics; several paths may share one */
    const struct dialect *dialect; /* for errors and answers; NULL: OpenAI's errors */
    bool open;                     /* without a key */
    bool any_host;                 /* answers to any host name; must show nothing */
    bool admin;                    /* affects or reveals all tenants: needs an admin key */
    bool metrics;                  /* needs no key if the options say so */
    bool plain;                    /* its work needs no model */
    bool bodiless;                 /* a POST may come without a body */
    bool slow; /* its work may take minutes: runs on a separate thread, one at a time */

    /* One of these four. On the loop thread, where they must not block: */
    void (*now)(const struct loop_request *req);
    show_fn *show;
    /* On a worker; `body` is empty for a GET, and has the error: */
    void (*work)(struct call *call);
    answer_fn *answer;
    /* `show` and `answer` write the fields of an object, which is sent if they succeed. */
};

/* Argument of a route's handler. */
struct api_route {
    struct api *api;
    const struct endpoint *endpoint;
};

struct api {
    struct api_options options;
    struct sample_params sample;
    _Atomic(struct auth *) auth; /* api_auth */
    struct clock *clock;
    _Atomic(struct pool *) pool;
    atomic_bool draining;
    /* Checks of /ready: the times of the last two, and how many got a 503 since api_announce_end.
     * Relaxed: figures, written by the loop only */
    atomic_ullong checked_ns, checked_before_ns;
    atomic_bool leaving;
    atomic_uint told;
    atomic_ullong next_gen;

    struct turns *queue;
    struct thread workers[API_WORKERS_MAX];
    uint32_t workers_count;
    atomic_uint queue_max; /* current limit; relaxed: orders nothing */
    struct turns *slow;    /* calls of slow endpoints */
    /* calls with large bodies or pictures, so that small ones never wait for them */
    struct turns *large;
    struct thread slow_worker, large_worker;
    struct call_ends *ends;  /* ended generations go there */
    struct shelf *baselines; /* of comparisons (baseline.h) */
    struct shelf *abouts;    /* facts of files of models */

    struct http_route *routes;
    struct api_route *route_args;
    size_t routes_count;

    struct lock lock;
    struct cond calls_gone;
    struct list calls GUARDED_BY(lock);  /* running calls */
    size_t calls_alive GUARDED_BY(lock); /* calls not freed yet */
    /* keys before each api_reload_keys; the loop may still use them. Owned by the thread that
     * reloads */
    struct auth **retired;
    size_t retired_count;
};

/* Maximum calls waiting for a worker, from the options. */
unsigned api_queue_max(const struct api_options *options);

/* The dialect of an endpoint's errors. */
const struct dialect *api_dialect(const struct endpoint *endpoint);

/* The current keys; valid until the end. */
const struct auth *api_auth(const struct api *api);
/* The models, or NULL while the server starts, with `error` set unless it is NULL. */
struct pool *api_pool(struct api *api, struct api_error *error);
bool api_is_draining(const struct api *api);
int64_t api_local_time(const struct api *api);

struct api_caller {
    char request_id[RESPOND_ID_BYTES], who[AUTH_NAME_BYTES];
    int32_t slot; /* of the first generation of a call; else -1 */
};

/* A running generation and its tenant. */
struct api_gen {
    const struct sched_view *view;
    const char *model;
    struct api_caller caller;
};
/* Visits the generations of all loaded models. Uses the state that schedulers publish, not the
 * engine. */
void api_each_gen(struct api *api, struct pool *pool,
                  void (*fn)(const struct api_gen *gen, void *arg), void *arg);

/* Answers on the loop thread: with JSON (finishes the buffer), or with an error. */
void loop_respond(const struct loop_request *req, struct buf *body);
void loop_fail(const struct loop_request *req, const struct api_error *error);

/* ---- endpoints_model.c ---- */
show_fn endpoint_models;
show_fn endpoint_model;
show_fn endpoint_model_change;
show_fn endpoint_props;
/* The index of the model that ?model= names, without it of the default one; SIZE_MAX: none. */
size_t props_find_model(const struct loop_request *req, struct pool *pool);
/* "memory":{...} or null; and its fields. */
void props_key_memory(struct json *json, struct memory *memory);
void props_write_memory(struct json *json, const struct memory_view *view);

/* ---- endpoints_ollama.c ---- */
answer_fn endpoint_ollama_tags;
show_fn endpoint_ollama_ps;
struct shelf *endpoint_ollama_create_abouts(void); /* for api.abouts */
show_fn endpoint_ollama_version;
show_fn endpoint_ollama_refuse; /* what hearth does in another way */
answer_fn endpoint_ollama_show;

/* ---- endpoints_lora.c ---- */
void endpoint_lora(const struct loop_request *req);
void endpoint_lora_change(const struct loop_request *req);

/* ---- endpoints_status.c ---- */
void endpoint_root(const struct loop_request *req);
void endpoint_health(const struct loop_request *req);
void endpoint_ready(const struct loop_request *req);
show_fn endpoint_version;

/* ---- endpoints_slots.c ---- */
void endpoint_slots(const struct loop_request *req);
answer_fn endpoint_slot_action;

/* ---- endpoints_web.c ---- */
/* the dashboard for a browser, else endpoint_root */
void endpoint_home(const struct loop_request *req);
void endpoint_page(const struct loop_request *req);

/* ---- endpoints_tokens.c ---- */
answer_fn endpoint_tokenize;
answer_fn endpoint_detokenize;
answer_fn endpoint_apply_template;
answer_fn endpoint_count_tokens;
answer_fn endpoint_input_tokens;

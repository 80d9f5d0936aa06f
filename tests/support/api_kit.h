/*
 * api_kit.h: a whole server in the test's process: a model on an engine, the API, and HTTP on a
 * free port of the loopback; and its clients.
 *
 * The fake engine computes at a gate: when it is closed, the engine's thread waits there, so that a
 * test can look at, cancel or disconnect a call in any phase without guessing times. A worker that
 * decodes a picture waits there as well.
 *
 * Threads: all functions belong to the test's thread.
 */
#pragma once

#include <hearth/hearth.h>
#include <yyjson.h>

#include "admin/admin.h"
#include "serve/api.h"
#include "base/lock.h"
#include "support/fake_worker.h"
#include "http/server.h"
#include "models/pool.h"
#include "support/http_client.h"

struct api_kit_options {
    struct engine_fake_options fake;
    const struct engine_worker_options *worker; /* the fake in its own process, without the gate */
    const char *family;                         /* a real, tiny model instead */
    const struct engine_options *engine;        /* of that; NULL = as usual */
    struct sched_options sched;
    struct api_options api;
    struct admin_options admin;
    const char *template_text;
    const char *name;   /* of the model; NULL = "fake" */
    uint64_t ram_bytes; /* of the cache; 0 = none */
    bool loading;       /* the model is not there yet: api_kit_load */
    bool gate_closed;
    bool prompts;                        /* neutral texts and recall are on */
    uint64_t tokens_bytes, recall_bytes; /* remembered of texts and of turns; 0 = the usual */
    struct http_limits limits;
    struct pool *pool; /* instead of a model of the kit's; taken */
};

struct api_kit_gate {
    struct lock lock;
    struct cond changed;
    bool closed GUARDED_BY(lock);
    unsigned waiting GUARDED_BY(lock), passed GUARDED_BY(lock);
};

struct api_kit {
    struct api_kit_gate gate;
    struct hearth_cache *cache;
    struct neutral *neutral;
    struct recall *recall;
    struct pool *pool;
    struct model *model; /* the pool's */
    struct admin *admin;
    struct api *api;
    struct http_server *server;
    uint16_t port;
};

void api_kit_open(struct api_kit *kit, const struct api_kit_options *options);
void api_kit_load(struct api_kit *kit); /* now the model is there */
void api_kit_close(struct api_kit *kit);

/* The engine's thread stands at the gate when `wait` returns. */
void api_kit_gate_wait(struct api_kit *kit);
void api_kit_gate_open(struct api_kit *kit);
void api_kit_gate_close(struct api_kit *kit);

/* One request on its own connection; `headers` may be NULL. The answer is finished by the
 * caller. */
void api_kit_ask(struct api_kit *kit, const char *method, const char *path, const char *headers,
                 const char *body, struct http_answer *answer);

/* The same by a client that allocates nothing, so that only allocations of the server fail. The
 * status, or 0: the connection was broken off. */
int api_kit_ask_plainly(struct api_kit *kit, const char *method, const char *path,
                        const char *body);

/* As api_kit_ask for POST and GET; asserts the status and gives the body as JSON, to be freed. */
yyjson_doc *api_kit_post(struct api_kit *kit, const char *path, const char *body, int status);
yyjson_doc *api_kit_get(struct api_kit *kit, const char *path, int status);

/* A request that is answered later, if ever. */
void api_kit_send(struct api_kit *kit, struct http_client *client, const char *path,
                  const char *body);

/* What a JSON pointer finds: "" and 0 for nothing. */
const char *json_at(yyjson_doc *doc, const char *pointer);
uint64_t json_number_at(yyjson_doc *doc, const char *pointer);

/* Waits until a number of /metrics has the value. */
void api_kit_wait_metric(struct api_kit *kit, const char *name, double value);
double api_kit_metric(struct api_kit *kit, const char *name);

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
#include "engine/sample.h"
#include "http/problem.h"
#include "http/route.h"

struct api;
struct clock;
struct file_sys;
struct hearth_cache;
struct log;
struct memory;
struct metric_set;
struct neutral;
struct pool;
struct record;
struct replay;

/* A setting as /admin/settings shows it: names with underscores, values as people write them; NULL
 * = none. */
struct api_setting {
    const char *name, *value, *initial, *help;
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
    struct record *record;        /* what was asked is written there; NULL = nowhere */
    struct memory *memory;        /* for its numbers; NULL = no ceiling */
    bool public_metrics;          /* /metrics needs no key */
    unsigned metrics_compat;      /* whose names /metrics has, too: enum stats_compat */
    const char *version, *commit; /* of the program; NULL = unknown */
    /* of the state folder, for sums over all runs; NULL = they begin with the server */
    const struct file_sys *state_fs;
    int state_dir;                      /* the folder; used only with state_fs */
    const struct api_setting *settings; /* what the server was started with, for /admin/settings */
    size_t settings_count;
    uint64_t ssd_day_bytes, model_ttl_ns; /* as they were set, for the same */
    /* a folder that /admin may export to and import from; NULL = it may not */
    const char *admin_files;
    const struct file_sys *admin_fs; /* of it */
    /* HEARTH_KEY_BYTES that files are encrypted with; NULL = in the clear */
    const unsigned char *admin_seal_key;
    bool admin_show_text; /* /admin may show tokens and text of what is held */
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

/* Also shown by /metrics; valid until it is set to NULL. Before requests come. */
void api_set_http_metrics(struct api *api, const struct metric_set *metrics);

/* For http_server_start. Valid as long as the api. */
const struct http_route *api_routes(const struct api *api, size_t *count);

/* For http_options.error_body: what http refuses by itself, in Anthropic's form below /v1/messages,
 * else in OpenAI's. `arg` is not used. */
void api_http_error(enum http_problem problem, struct str path, struct buf *body, void *arg);

/* Ends the streams of /admin/events, which would go on for ever; before the http server is drained.
 */
void api_end_events(struct api *api);

/* Not ready from now on: new calls get a 503. Waits until those on their way are answered, at most
 * so long; then ends the rest, each with its protocol's own ending (keeps I109), and waits for
 * that. False: some were ended. */
bool api_drain(struct api *api, uint64_t timeout_ms);

#endif

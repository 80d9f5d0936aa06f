/*
 * admin.h: /admin and /metrics: what the server remembers of its own work, and endpoints for its
 * administrator.
 *
 *      api --call_observer--> counters, monitor, feed, record        endpoints --> api, cache, models
 *
 * It sits on top of serve and adds itself to the options of an api that does not know it.
 *
 * Order of ends: admin_end_events, http_server_stop, api_destroy, admin_destroy, then the models.
 *
 * Threads: create and destroy from one; the rest from any. It has one thread (monitor.h).
 */
#ifndef HEARTH_ADMIN_ADMIN_H
#define HEARTH_ADMIN_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct admin;
struct api_options;
struct file_sys;
struct metric_set;
struct pool;
struct record;

/* A setting as /admin/settings shows it: names with underscores, values as people write them; NULL
 * = none. */
struct admin_setting {
    const char *name, *value, *initial, *help;
};

/* Zero is a good default for each field. What is pointed to outlives the admin. */
struct admin_options {
    /* of the state folder, for sums over all runs; NULL = they begin with the server */
    const struct file_sys *state_fs;
    int state_dir;                        /* the folder; used only with state_fs */
    struct record *record;                /* requests are written there as hashes; NULL = nowhere */
    unsigned metrics_compat;              /* whose names /metrics has, too: enum stats_compat */
    const struct admin_setting *settings; /* what the server was started with */
    size_t settings_count;
    uint64_t ssd_day_bytes, model_ttl_ns; /* as they were set, for the same */
    const char *files;         /* a folder to export to and import from; NULL = neither works */
    const struct file_sys *fs; /* of it */
    /* HEARTH_KEY_BYTES that exported files are encrypted with; NULL = in the clear */
    const unsigned char *seal_key;
    bool show_text; /* tokens and text of cached prompts may be shown */
};

/* Adds its endpoints and its observer to the options that the api is created with; of these it takes
 * the cache, the memory, the log and the clock. */
enum err admin_create(struct admin **admin, const struct admin_options *options,
                      struct api_options *api, struct errinfo *info) NODISCARD;
/* After the api. Accepts NULL inside. */
void admin_destroy(struct admin **admin);

/* As api_set_pool. */
void admin_set_pool(struct admin *admin, struct pool *pool);

/* Also shown by /metrics; valid until it is set to NULL. Before requests come. */
void admin_set_http_metrics(struct admin *admin, const struct metric_set *metrics);

/* Ends the streams of /admin/events, which would go on for ever; before the http server is drained.
 */
void admin_end_events(struct admin *admin);

#endif

/*
 * admin.h: /admin and /metrics: statistics about the server's work, and endpoints for its
 * administrator.
 *
 *      api --call_observer--> counters, monitor, feed, record      endpoints --> api, cache, models
 *
 * It sits on top of serve and adds itself to the options of the api, which does not know it.
 *
 * Shutdown order: admin_end_events, http_server_stop, api_destroy, admin_destroy, then the models.
 *
 * Threads: create and destroy from one; the rest from any. It has one thread (monitor.h).
 */
#pragma once

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

/* A setting as shown by /admin/settings: names with underscores, values as written by users; NULL =
 * none. */
struct admin_setting {
    const char *name, *value, *initial, *help;
};

/* Zero is a good default for each field. Pointers must outlive the admin. */
struct admin_options {
    /* of the state folder, for sums over all runs; NULL = sums start with the server */
    const struct file_sys *state_fs;
    int state_dir;                        /* the folder; used only with state_fs */
    struct record *record;                /* records requests as hashes; NULL = off */
    unsigned metrics_compat;              /* additional names in /metrics: enum stats_compat */
    const struct admin_setting *settings; /* settings at the start of the server */
    size_t settings_count;
    uint64_t ssd_day_bytes, model_ttl_ns; /* as configured, for the same */
    const char *files;                    /* folder for export and import; NULL = disabled */
    const struct file_sys *fs;            /* for it */
    /* HEARTH_KEY_BYTES to encrypt exported files with; NULL = unencrypted */
    const unsigned char *seal_key;
    const char *program; /* runs `hearth model quantize`; NULL = this one */
    bool show_text;      /* tokens and text of cached prompts may be shown */
};

/* Adds its endpoints and its observer to the options for api_create, and uses their cache, memory,
 * log and clock. */
enum err admin_create(struct admin **admin, const struct admin_options *options,
                      struct api_options *api, struct errinfo *info) NODISCARD;
/* After the api. Accepts a pointer to NULL. */
void admin_destroy(struct admin **admin);

/* Like api_set_pool. */
void admin_set_pool(struct admin *admin, struct pool *pool);

struct api;
/* Applies the settings that were changed in an earlier run. Call once, with the pool set. */
void admin_restore_settings(struct admin *admin, struct api *api);

/* Also shown by /metrics; valid until set to NULL. Call before requests arrive. */
void admin_set_http_metrics(struct admin *admin, const struct metric_set *metrics);

/* Ends the streams of /admin/events, which would never end by themselves. Call before draining the
 * http server. */
void admin_end_events(struct admin *admin);

/*
 * settings.c: the server's settings, and changing some of them at run time.
 *
 *      GET  /admin/settings                  {"settings": [{"name", "value", "default", "runtime",
 *           "help"}]}
 *      POST /admin/settings {"name": value}  all or none: the first invalid change is reported, and
 *                                            nothing is changed
 *
 * A change lasts until the server ends; permanent settings belong in its configuration. "default"
 * is the value at the start, for settings that can be changed. Sizes are in bytes, times in
 * seconds.
 */
#include "admin/admin_impl.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "models/pool.h"
#include "sched/memory.h"

/* A requested value: a number, or a name. */
struct wanted {
    uint64_t number;
    enum log_level level;
};

struct setting {
    const char *name, *help;
    uint64_t min, max; /* of a number; both 0: the name of a level */
    uint64_t (*get)(struct admin *admin, struct api *api);
    /* ERR_UNSUPPORTED: the server has nothing to set it for. */
    enum err (*set)(struct admin *admin, struct api *api, const struct wanted *wanted);
};

/* ---- each of them ---- */

static uint64_t tier_cap(struct admin *admin, enum hearth_tier tier)
{
    struct hearth_tier_stats stats = {.struct_size = sizeof(stats)};

    if (admin->cache)
        (void)hearth_get_tier(admin->cache, tier, &stats);
    return stats.cap;
}

static uint64_t get_ram(struct admin *admin, struct api *api)
{
    struct memory_view view;

    (void)api;
    if (!admin->memory)
        return tier_cap(admin, HEARTH_TIER_RAM);
    memory_get_view(admin->memory, &view);
    return view.limits.ram_wanted;
}

static enum err set_ram(struct admin *admin, struct api *api, const struct wanted *wanted)
{
    (void)api;
    if (!admin->cache)
        return ERR_UNSUPPORTED;
    if (admin->memory)
        /* limited by the ceiling */
        memory_set_ram(admin->memory, wanted->number);
    else
        hearth_set_ram_bytes(admin->cache, wanted->number);
    return ERR_OK;
}

static uint64_t get_ssd(struct admin *admin, struct api *api)
{
    (void)api;
    return tier_cap(admin, HEARTH_TIER_SSD);
}

static enum err set_ssd(struct admin *admin, struct api *api, const struct wanted *wanted)
{
    (void)api;
    if (!admin->cache || hearth_set_ssd_bytes(admin->cache, wanted->number) != HEARTH_OK)
        return ERR_UNSUPPORTED;
    return ERR_OK;
}

static uint64_t get_day(struct admin *admin, struct api *api)
{
    (void)api;
    return atomic_load_explicit(&admin->ssd_day_bytes, memory_order_relaxed);
}

static enum err set_day(struct admin *admin, struct api *api, const struct wanted *wanted)
{
    (void)api;
    if (!admin->cache || hearth_set_ssd_day_bytes(admin->cache, wanted->number) != HEARTH_OK)
        return ERR_UNSUPPORTED;
    atomic_store_explicit(&admin->ssd_day_bytes, wanted->number, memory_order_relaxed);
    return ERR_OK;
}

static uint64_t get_level(struct admin *admin, struct api *api)
{
    (void)api;
    return admin->log ? log_get_level(admin->log) : LOG_LEVEL_OFF;
}

static enum err set_level(struct admin *admin, struct api *api, const struct wanted *wanted)
{
    (void)api;
    if (!admin->log)
        return ERR_UNSUPPORTED;
    log_set_level(admin->log, wanted->level);
    return ERR_OK;
}

static uint64_t get_ttl(struct admin *admin, struct api *api)
{
    (void)api;
    return atomic_load_explicit(&admin->model_ttl_s, memory_order_relaxed);
}

/* For all models, including those with their own setting: the last change wins. */
static enum err set_ttl(struct admin *admin, struct api *api, const struct wanted *wanted)
{
    struct pool *pool = atomic_load_explicit(&admin->pool, memory_order_acquire);

    (void)api;
    if (!pool)
        return ERR_UNSUPPORTED;
    pool_set_ttl(pool, wanted->number * NS_PER_S);
    atomic_store_explicit(&admin->model_ttl_s, wanted->number, memory_order_relaxed);
    return ERR_OK;
}

static uint64_t get_queue(struct admin *admin, struct api *api)
{
    (void)admin;
    return atomic_load_explicit(&api->queue_max, memory_order_relaxed);
}

static enum err set_queue(struct admin *admin, struct api *api, const struct wanted *wanted)
{
    (void)admin;
    atomic_store_explicit(&api->queue_max, (unsigned)wanted->number, memory_order_relaxed);
    return ERR_OK;
}

static const struct setting settings[] = {
    {"ram_cache", "Bytes of memory for computed prefixes, as far as the ceiling allows.", 1 << 20,
     INT64_MAX, get_ram, set_ram},
    {"ssd_max", "Bytes that the folder on disk may have at most.", 1 << 20, INT64_MAX, get_ssd,
     set_ssd},
    {"ssd_writes_per_day", "Bytes that are written to disk a day at most; 0 = any.", 0, INT64_MAX,
     get_day, set_day},
    {"log_level", "Lines of the log from this level on.", 0, 0, get_level, set_level},
    {"model_ttl", "Seconds after which an unused model is unloaded; 0 = never.", 0, 366 * 24 * 3600,
     get_ttl, set_ttl},
    {"queue", "Requests that may wait for a worker; more are told to come back.", 1, API_QUEUE_MAX,
     get_queue, set_queue},
};

static_assert(COUNT_OF(settings) == ADMIN_SETTINGS,
              "struct admin has room for what each began with");

/* Before the api exists: its options have the queue limit. */
void admin_settings_begin(struct admin *admin, const struct api_options *api)
{
    for (size_t i = 0; i < COUNT_OF(settings); i++)
        admin->settings_begin[i] =
            settings[i].get == get_queue ? api_queue_max(api) : settings[i].get(admin, NULL);
}

/* ---- writing ---- */

static bool is_level(const struct setting *setting)
{
    return setting->min == 0 && setting->max == 0;
}

static void write_value(struct json *json, const char *key, const struct setting *setting,
                        uint64_t value)
{
    if (is_level(setting))
        json_key_text(json, key, log_level_name((enum log_level)value));
    else
        json_key_uint(json, key, value);
}

static const struct setting *find(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(settings); i++)
        if (strcmp(settings[i].name, name) == 0)
            return &settings[i];
    return NULL;
}

static void write_runtime(struct json *json, struct api *api)
{
    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        json_open(json, '{');
        json_key_text(json, "name", settings[i].name);
        write_value(json, "value", &settings[i], settings[i].get(admin_of(api), api));
        write_value(json, "default", &settings[i], admin_of(api)->settings_begin[i]);
        json_key_bool(json, "runtime", true);
        json_key_text(json, "help", settings[i].help);
        json_close(json, '}');
    }
}

/* The other settings, as on the command line. */
static void write_fixed(struct json *json, const struct admin_options *options)
{
    for (size_t i = 0; i < options->settings_count; i++) {
        const struct admin_setting *setting = &options->settings[i];

        if (find(setting->name))
            continue;
        json_open(json, '{');
        json_key_text(json, "name", setting->name);
        json_key_text(json, "value", setting->value);
        json_key_text(json, "default", setting->initial);
        json_key_bool(json, "runtime", false);
        json_key_text(json, "help", setting->help);
        json_close(json, '}');
    }
}

static void write_settings(struct api *api, struct buf *body)
{
    struct json json;

    json = json_begin(body, ADMIN_BODY_BYTES_MAX, '{');
    json_key_open(&json, "settings", '[');
    write_runtime(&json, api);
    write_fixed(&json, &admin_of(api)->options);
    json_close(&json, ']');
    json_close(&json, '}');
}

void endpoint_admin_settings(const struct loop_request *req)
{
    struct buf body;

    write_settings(req->api, &body);
    loop_respond(req, &body);
}

/* ---- changing ---- */

static enum err read_wanted(const struct json_reader *reader, const struct setting *setting,
                            struct wanted *wanted)
{
    struct str name = STR_NONE;
    char level[16];

    if (!is_level(setting))
        return json_read_uint(reader, setting->name, setting->min, setting->max, &wanted->number);
    TRY(json_read_str(reader, setting->name, &name));
    snprintf(level, sizeof(level), STR_FMT, (int)MIN(name.len, sizeof(level) - 1),
             name.ptr ? name.ptr : "");
    if (!log_level_parse(level, &wanted->level))
        return json_read_error(reader, setting->name,
                               "must be \"debug\", \"info\", \"warn\", \"error\" or \"off\"");
    return ERR_OK;
}

/* Validates every name and value before changing any. */
static enum err read_changes(const struct json_reader *reader,
                             const struct setting *changes[ADMIN_SETTINGS],
                             struct wanted wanted[ADMIN_SETTINGS], size_t *count)
{
    size_t i, all;
    yyjson_val *key, *value;

    *count = 0;
    yyjson_obj_foreach(reader->object, i, all, key, value)
    {
        const struct setting *setting = find(yyjson_get_str(key));

        if (!setting || *count == ADMIN_SETTINGS)
            return api_error_set(
                reader->error, API_ERROR_INVALID, NULL,
                "There is no such setting that can be changed while the server runs: '%.64s'. "
                "GET /admin/settings lists them.",
                yyjson_get_str(key));
        if (yyjson_is_null(value))
            return json_read_error(reader, setting->name, "must have a value");
        TRY(read_wanted(reader, setting, &wanted[*count]));
        changes[(*count)++] = setting;
    }
    return ERR_OK;
}

static enum err apply(struct call *call, const struct setting *setting, const struct wanted *wanted,
                      struct api_error *error)
{
    if (setting->set(admin_of(call->api), call->api, wanted) != ERR_OK)
        return api_error_set(error, API_ERROR_UNSUPPORTED, setting->name,
                             "'%s' cannot be set: this server has no such part.", setting->name);
    LOG_INFO(call->api->options.log, "api", "a setting was changed", LOG_STR("name", setting->name),
             LOG_UINT("value", setting->get(admin_of(call->api), call->api)),
             LOG_STR("request", call->request_id));
    return ERR_OK;
}

void endpoint_admin_change(struct call *call)
{
    const struct setting *changes[ADMIN_SETTINGS];
    struct wanted wanted[ADMIN_SETTINGS] = {0};
    struct api_error error = {0};
    struct json_reader reader = admin_reader(call, &error);
    size_t count;
    struct buf body;
    enum err err = read_changes(&reader, changes, wanted, &count);

    for (size_t i = 0; err == ERR_OK && i < count; i++)
        err = apply(call, changes[i], &wanted[i], &error);
    if (err != ERR_OK) {
        call_fail(call, &error);
        return;
    }
    write_settings(call->api, &body);
    admin_respond(call, &body);
}

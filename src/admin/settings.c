/*
 * settings.c: the server's settings, and changing some of them at run time.
 *
 *      GET  /admin/settings                  {"settings": [{"name", "value", "default", "runtime",
 *           "help"}]}
 *      POST /admin/settings {"name": value}  all or none: the first invalid change is reported, and
 *                                            nothing is changed. null: as at the start
 *
 * Changes are kept in the state folder, each with the value that the configuration had: the next
 * start applies it again, unless the configuration has another value by then. "default" is the value
 * of the configuration, for settings that can be changed. Sizes are in bytes, times in seconds.
 */
#include "admin/admin_impl.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "models/pool.h"
#include "sched/memory.h"

enum setting_id { RAM, SSD, SSD_DAY, LEVEL, MODEL_TTL, QUEUE };

static const struct setting {
    const char *name, *help;
    uint64_t min, max;
} settings[] = {
    [RAM] = {"ram_cache", "RAM for the prefix cache in bytes, if the memory limit allows it.",
             1 << 20, INT64_MAX},
    [SSD] = {"ssd_max", "Maximum size of the SSD cache in bytes.", 1 << 20, INT64_MAX},
    [SSD_DAY] = {"ssd_writes_per_day",
                 "Maximum bytes written to the SSD cache per day; 0 = unlimited.", 0, INT64_MAX},
    [LEVEL] = {"log_level", "Minimum level of log lines.", 0, 0}, /* by its name */
    [MODEL_TTL] = {"model_ttl", "Seconds after which an unused model is unloaded; 0 = never.", 0,
                   366 * 24 * 3600},
    [QUEUE] = {"queue", "Maximum number of queued requests; further ones get 429.", 1,
               API_QUEUE_MAX},
};

static_assert(COUNT_OF(settings) == ADMIN_SETTINGS,
              "struct admin has room for what each began with");

/* ---- each of them ---- */

static struct hearth_tier_stats tier_of(struct admin *admin, enum hearth_tier tier)
{
    struct hearth_tier_stats stats = {.struct_size = sizeof(stats)};

    if (admin->cache)
        (void)hearth_get_tier(admin->cache, tier, &stats);
    return stats;
}

static uint64_t ram_cap(struct admin *admin)
{
    struct memory_view view;

    if (!admin->memory)
        return tier_of(admin, HEARTH_TIER_RAM).cap;
    memory_get_view(admin->memory, &view);
    return view.limits.ram_wanted;
}

static uint64_t get(struct admin *admin, struct api *api, enum setting_id id)
{
    switch (id) {
    case RAM:
        return ram_cap(admin);
    case SSD:
        return tier_of(admin, HEARTH_TIER_SSD).cap;
    case SSD_DAY:
        return atomic_load_explicit(&admin->ssd_day_bytes, memory_order_relaxed);
    case LEVEL:
        return admin->log ? log_get_level(admin->log) : LOG_LEVEL_OFF;
    case MODEL_TTL:
        return atomic_load_explicit(&admin->model_ttl_s, memory_order_relaxed);
    case QUEUE:
        break;
    }
    return atomic_load_explicit(&api->queue_max, memory_order_relaxed);
}

static struct pool *pool_of(struct admin *admin)
{
    return atomic_load_explicit(&admin->pool, memory_order_acquire);
}

/* Whether the server has the part that it belongs to. */
static bool can_set(struct admin *admin, enum setting_id id)
{
    switch (id) {
    case RAM:
        return admin->cache != NULL;
    case SSD:
    case SSD_DAY:
        return tier_of(admin, HEARTH_TIER_SSD).state != HEARTH_STATE_OFF;
    case LEVEL:
        return admin->log != NULL;
    case MODEL_TTL:
        return pool_of(admin) != NULL;
    case QUEUE:
        break;
    }
    return true;
}

/* Limited by the ceiling, if there is one. */
static void set_ram(struct admin *admin, uint64_t bytes)
{
    if (admin->memory)
        memory_set_ram(admin->memory, bytes);
    else
        hearth_set_ram_bytes(admin->cache, bytes);
}

/* Only after can_set, and within the range of the setting: so it does not fail. */
static void set(struct admin *admin, struct api *api, enum setting_id id, uint64_t value)
{
    switch (id) {
    case RAM:
        set_ram(admin, value);
        break;
    case SSD:
        (void)hearth_set_ssd_bytes(admin->cache, value);
        break;
    case SSD_DAY:
        (void)hearth_set_ssd_day_bytes(admin->cache, value);
        atomic_store_explicit(&admin->ssd_day_bytes, value, memory_order_relaxed);
        break;
    case LEVEL:
        log_set_level(admin->log, (enum log_level)value);
        break;
    case MODEL_TTL: /* for all models, including those with their own: the last change wins */
        pool_set_ttl(pool_of(admin), value * NS_PER_S);
        atomic_store_explicit(&admin->model_ttl_s, value, memory_order_relaxed);
        break;
    case QUEUE:
        atomic_store_explicit(&api->queue_max, (unsigned)value, memory_order_relaxed);
        break;
    }
}

/* Before the api exists: its options have the queue limit. */
void admin_settings_begin(struct admin *admin, const struct api_options *api)
{
    for (int id = 0; id < QUEUE; id++)
        admin->settings_begin[id] = get(admin, NULL, (enum setting_id)id);
    admin->settings_begin[QUEUE] = api_queue_max(api);
}

/* ---- writing ---- */

static void write_value(struct json *json, const char *key, int id, uint64_t value)
{
    if (id == LEVEL)
        json_key_text(json, key, log_level_name((enum log_level)value));
    else
        json_key_uint(json, key, value);
}

/* ADMIN_SETTINGS: it cannot be changed. */
static int find(const char *name)
{
    int id = 0;

    while (id < ADMIN_SETTINGS && strcmp(settings[id].name, name) != 0)
        id++;
    return id;
}

static void write_runtime(struct json *json, struct api *api)
{
    for (int id = 0; id < ADMIN_SETTINGS; id++) {
        json_open(json, '{');
        json_key_text(json, "name", settings[id].name);
        write_value(json, "value", id, get(admin_of(api), api, (enum setting_id)id));
        write_value(json, "default", id, admin_of(api)->settings_begin[id]);
        json_key_bool(json, "runtime", true);
        json_key_text(json, "help", settings[id].help);
        json_close(json, '}');
    }
}

/* The other settings, as on the command line. */
static void write_fixed(struct json *json, const struct admin_options *options)
{
    for (size_t i = 0; i < options->settings_count; i++) {
        const struct admin_setting *setting = &options->settings[i];

        if (find(setting->name) < ADMIN_SETTINGS)
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

static enum err write_settings(struct json *json, struct api *api)
{
    json_key_open(json, "settings", '[');
    write_runtime(json, api);
    write_fixed(json, &admin_of(api)->options);
    json_close(json, ']');
    return ERR_OK;
}

enum err endpoint_admin_settings(const struct loop_request *req, struct json *json,
                                 struct api_error *error)
{
    (void)error;
    return write_settings(json, req->api);
}

/* ---- changing ---- */

struct change {
    enum setting_id id;
    uint64_t value;
};

static enum err read_level(const struct json_reader *body, const char *key, uint64_t *value)
{
    struct str name = STR_NONE;
    enum log_level level;
    char text[16];

    TRY(json_read_str(body, key, &name));
    snprintf(text, sizeof(text), STR_FMT, (int)MIN(name.len, sizeof(text) - 1),
             name.ptr ? name.ptr : "");
    if (!log_level_parse(text, &level))
        return json_read_error(body, key,
                               "must be \"debug\", \"info\", \"warn\", \"error\" or \"off\"");
    *value = level;
    return ERR_OK;
}

/* Validates every name and value before changing any. */
static enum err read_changes(const struct json_reader *body, struct admin *admin,
                             struct change changes[ADMIN_SETTINGS], size_t *count)
{
    size_t i, all;
    yyjson_val *key, *value;

    *count = 0;
    yyjson_obj_foreach(body->object, i, all, key, value)
    {
        int id = find(yyjson_get_str(key));
        struct change *change = &changes[*count];

        if (id == ADMIN_SETTINGS || *count == ADMIN_SETTINGS)
            return api_error_set(
                body->error, API_ERROR_INVALID, NULL,
                "There is no such setting that can be changed while the server runs: '%.64s'. "
                "GET /admin/settings lists them.",
                yyjson_get_str(key));
        const struct setting *setting = &settings[id];
        if (!can_set(admin, (enum setting_id)id))
            return api_error_set(body->error, API_ERROR_UNSUPPORTED, setting->name,
                                 "'%s' cannot be set: this server has no such part.",
                                 setting->name);
        change->value = admin->settings_begin[id];
        if (!yyjson_is_null(value))
            TRY(id == LEVEL ? read_level(body, setting->name, &change->value)
                            : json_read_uint(body, setting->name, setting->min, setting->max,
                                             &change->value));
        change->id = (enum setting_id)id;
        ++*count;
    }
    return ERR_OK;
}

static void apply(struct call *call, const struct change *change)
{
    struct admin *admin = admin_of(call->api);

    set(admin, call->api, change->id, change->value);
    LOG_INFO(call->api->options.log, "api", "a setting was changed",
             LOG_STR("name", settings[change->id].name),
             LOG_UINT("value", get(admin, call->api, change->id)),
             LOG_STR("request", call->request_id));
}

/* ---- keeping ---- */

static const char file_name[] = "settings.json";
enum { FILE_BYTES_MAX = 16 * 1024, FILE_MODE = 0600 };

/* As the user wrote it: a size that is derived from the free memory differs from start to start. */
static const char *configured(const struct admin *admin, enum setting_id id, char number[32])
{
    const struct admin_options *options = &admin->options;

    for (size_t i = 0; i < options->settings_count; i++)
        if (strcmp(options->settings[i].name, settings[id].name) == 0)
            return options->settings[i].value ? options->settings[i].value : "";
    snprintf(number, 32, "%llu", (unsigned long long)admin->settings_begin[id]);
    return number;
}

/* Changes that cannot be kept are still in effect. */
static void keep(struct admin *admin, struct api *api)
{
    struct errinfo info = {0};
    struct buf text;
    char number[32];

    if (!admin->options.state_fs)
        return;
    struct json json = json_begin(&text, FILE_BYTES_MAX, '{');
    for (int id = 0; id < ADMIN_SETTINGS; id++) {
        uint64_t value = get(admin, api, (enum setting_id)id);
        if (value == admin->settings_begin[id])
            continue;
        json_key_open(&json, settings[id].name, '{');
        json_key_uint(&json, "value", value);
        json_key_text(&json, "configured", configured(admin, (enum setting_id)id, number));
        json_close(&json, '}');
    }
    json_close(&json, '}');
    enum err err = text.err != ERR_OK
                       ? text.err
                       : file_replace(admin->options.state_fs, admin->options.state_dir, file_name,
                                      text.data, text.len, FILE_MODE, &info);
    if (err != ERR_OK)
        LOG_WARN(admin->log, "api", "the changed settings are lost at the next start",
                 LOG_STR("reason", info.text));
    buf_fini(&text);
}

/* `kept` is NULL when the setting was not changed. */
static void restore(struct admin *admin, struct api *api, enum setting_id id, yyjson_val *kept)
{
    yyjson_val *value = yyjson_obj_get(kept, "value");
    const char *was = yyjson_get_str(yyjson_obj_get(kept, "configured"));
    uint64_t wanted = yyjson_get_uint(value), max = settings[id].max;
    char number[32];

    if (!yyjson_is_uint(value) || wanted < settings[id].min ||
        wanted > (id == LEVEL ? LOG_LEVEL_OFF : max) || !was ||
        strcmp(was, configured(admin, id, number)) != 0 || !can_set(admin, id))
        return;
    set(admin, api, id, wanted);
    LOG_INFO(admin->log, "api", "a changed setting is in effect again",
             LOG_STR("name", settings[id].name), LOG_UINT("value", wanted));
}

enum err endpoint_admin_change(struct call *call, const struct json_reader *body, struct json *json)
{
    struct change changes[ADMIN_SETTINGS];
    size_t count;

    TRY(read_changes(body, admin_of(call->api), changes, &count));
    for (size_t i = 0; i < count; i++)
        apply(call, &changes[i]);
    keep(admin_of(call->api), call->api);
    return write_settings(json, call->api);
}

void admin_restore_settings(struct admin *admin, struct api *api)
{
    struct errinfo info = {0};
    char *data = NULL;
    size_t len = 0;

    if (!admin->options.state_fs)
        return;
    enum err err = file_read_all(admin->options.state_fs, admin->options.state_dir, file_name,
                                 FILE_BYTES_MAX, &data, &len, &info);
    if (err == ERR_NOT_FOUND)
        return;
    yyjson_doc *doc = err == ERR_OK ? yyjson_read(data, len, 0) : NULL;
    if (!yyjson_is_obj(yyjson_doc_get_root(doc)))
        LOG_WARN(admin->log, "api",
                 "the saved settings cannot be read: the configured ones are used",
                 LOG_STR("file", file_name));
    for (int id = 0; id < ADMIN_SETTINGS; id++)
        restore(admin, api, (enum setting_id)id,
                yyjson_obj_get(yyjson_doc_get_root(doc), settings[id].name));
    yyjson_doc_free(doc);
    mem_free(data);
}

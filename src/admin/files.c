/*
 * files.c: exports the cache to a folder and imports it.
 *
 *      POST /admin/cache/export {"path", "key" | "model"} -> {"objects", "bytes", "refused"}
 *      POST /admin/cache/import {"path"}                  -> {"objects", "bytes", "held",
 *                                                         "refused"}
 *
 * Paths are names of folders directly below --admin-files; without that option both are off. A name
 * has no slash, does not begin with a dot, and must not be a link: the admin key gives access to
 * this folder only, not to the machine.
 *
 * On the thread for slow work: it reads and writes as much as the cache holds.
 */
#include "admin/admin_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"

enum { PATH_BYTES_MAX = 4096 };

/* A folder, or (`fresh`) nothing yet. */
static enum err check_place(const struct admin_options *options, const char *path, bool fresh)
{
    struct stat st;
    enum err err = file_stat_at(options->fs, AT_FDCWD, path, &st, NULL);

    if (err == ERR_NOT_FOUND && fresh)
        return ERR_OK;
    return err == ERR_OK && !S_ISDIR(st.st_mode) ? ERR_DENIED : err;
}

/* "path", below the allowed folder. */
static enum err read_path(const struct call *call, const struct json_reader *body, bool fresh,
                          char path[PATH_BYTES_MAX])
{
    const struct admin_options *options = &admin_of(call->api)->options;
    struct str name = STR_NONE;

    TRY(admin_need_cache(call, body->error));
    if (!options->files)
        return api_error_set(body->error, API_ERROR_PERMISSION, NULL,
                             "Export and import are off: start the server with --admin-files DIR.");
    TRY(json_read_str(body, "path", &name));
    if (!file_is_plain_name(name))
        return json_read_error(
            body, "path",
            "must be the name of a folder below --admin-files: letters, digits, '.', '_', '-'");
    snprintf(path, PATH_BYTES_MAX, "%s/" STR_FMT, options->files, STR_ARG(name));
    if (check_place(options, path, fresh) != ERR_OK)
        return json_read_error(body, "path",
                               fresh ? "is not a folder" : "does not exist, or is not a folder");
    return ERR_OK;
}

/* The cache's message goes to the log only: it contains paths of the machine. */
static enum err respond(struct call *call, const struct json_reader *body, int failed,
                        const char *message, const struct hearth_moved *moved, bool import,
                        struct json *json)
{
    if (failed != HEARTH_OK) {
        LOG_WARN(call->api->options.log, "api", "files of the cache",
                 LOG_STR("request", call->request_id), LOG_STR("reason", message));
        return admin_cache_error(body->error, failed, "path");
    }
    LOG_INFO(call->api->options.log, "api", import ? "imported" : "exported",
             LOG_STR("request", call->request_id), LOG_UINT("objects", moved->objects),
             LOG_UINT("bytes", moved->bytes), LOG_UINT("refused", moved->refused));
    json_key_uint(json, "objects", moved->objects);
    json_key_uint(json, "bytes", moved->bytes);
    if (import)
        json_key_uint(json, "held", moved->held);
    json_key_uint(json, "refused", moved->refused);
    return ERR_OK;
}

struct export
{
    struct call *call;
    struct hearth_folder_options options;
    struct hearth_moved moved;
    int failed;
    char message[HEARTH_MESSAGE_BYTES];
};

static void export_space(const struct admin_space *space, void *arg)
{
    struct export *export = arg;
    struct hearth_moved moved = {0};

    if (export->failed != HEARTH_OK)
        return;
    export->options.space = space ? space->space : NULL;
    export->failed =
        hearth_export(export->call->api->options.cache, &export->options, &moved, export->message);
    export->moved.objects += moved.objects;
    export->moved.bytes += moved.bytes;
    export->moved.refused += moved.refused;
}

enum err endpoint_cache_export(struct call *call, const struct json_reader *body, struct json *json)
{
    struct export export = {.call = call};
    unsigned char key[HEARTH_KEY_BYTES];
    char path[PATH_BYTES_MAX];
    struct admin_scope scope;
    bool by_key;

    TRY(read_path(call, body, true, path));
    TRY(admin_read_key_field(body, key, &by_key));
    TRY(admin_read_scope(body, call->api, &scope));
    export.options = (struct hearth_folder_options){
        .struct_size = sizeof(export.options),
        .path = path,
        .key = by_key ? key : NULL,
        .seal_key = admin_of(call->api)->options.seal_key,
    };
    if (scope.model.len > 0 || scope.has_tenant)
        admin_each_space(call->api, &scope, export_space, &export);
    else
        export_space(NULL, &export);
    return respond(call, body, export.failed, export.message, &export.moved, false, json);
}

enum err endpoint_cache_import(struct call *call, const struct json_reader *body, struct json *json)
{
    char path[PATH_BYTES_MAX], message[HEARTH_MESSAGE_BYTES] = "";
    struct hearth_folder_options options = {.struct_size = sizeof(options),
                                            .path = path,
                                            .seal_key = admin_of(call->api)->options.seal_key};
    struct hearth_moved moved = {0};

    TRY(read_path(call, body, false, path));
    int failed = hearth_import(call->api->options.cache, &options, &moved, message);
    return respond(call, body, failed, message, &moved, true, json);
}

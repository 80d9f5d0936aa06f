/*
 * request_file.c: see request_file.h. A file that begins with '{' is JSON; a syntax error must not
 * turn it into a plain-text prompt.
 */
#include "cli/request_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_alc.h"
#include "base/json_write.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"

enum { FILE_BYTES_MAX = 256 << 20, READ_BYTES = 64 << 10 };

/* Standard input has no size: until its end. */
static enum err read_input(struct request_file *file, struct errinfo *info)
{
    struct buf buf;
    ssize_t got = 1;

    buf_init(&buf, FILE_BYTES_MAX);
    while (got > 0 && buf.err == ERR_OK) {
        char *to = buf_reserve(&buf, READ_BYTES);
        got = to != NULL ? read(STDIN_FILENO, to, READ_BYTES) : 0;
        if (got > 0)
            buf_commit(&buf, (size_t)got);
    }
    int error = errno;
    enum err err = buf.err;
    if (err != ERR_OK)
        err_set(info, err, "standard input: %s", err_sentence(err));
    else if (got < 0)
        err = err_set_errno(info, error, "standard input");
    file->len = buf.len;
    file->text = buf.len > 0 ? buf_take(&buf) : mem_strdup("");
    buf_fini(&buf);
    return err;
}

/* Links are followed: the name is the user's own. */
static enum err read_file(struct request_file *file, const struct cli *cli, struct errinfo *info)
{
    char resolved[PATH_MAX];

    if (realpath(file->name, resolved) == NULL)
        return err_set_errno(info, errno, "%s", file->name);
    return file_read_all(cli->setup->fs, AT_FDCWD, resolved, FILE_BYTES_MAX, &file->text,
                         &file->len, info);
}

static enum err parse(struct request_file *file, struct errinfo *info)
{
    struct str text = str_trim((struct str){file->text, file->len});
    yyjson_read_err error;

    if (text.len == 0)
        return err_set(info, ERR_INVALID, "%s is empty", file->name);
    if (text.ptr[0] != '{')
        return ERR_OK;
    file->doc = yyjson_read_opts(file->text, file->len, 0, NULL, &error);
    return file->doc != NULL ? ERR_OK
                             : err_set(info, ERR_INVALID, "%s is not JSON: %s at byte %zu",
                                       file->name, error.msg, error.pos);
}

enum err request_file_read(struct request_file *file, const struct cli *cli, const char *name,
                           struct errinfo *info)
{
    *file = (struct request_file){.name = strcmp(name, "-") == 0 ? "standard input" : name};
    enum err err = strcmp(name, "-") == 0 ? read_input(file, info) : read_file(file, cli, info);
    if (err == ERR_OK)
        err = parse(file, info);
    if (err != ERR_OK)
        request_file_free(file);
    return err;
}

void request_file_free(struct request_file *file)
{
    yyjson_doc_free(file->doc);
    mem_free(file->text);
    *file = (struct request_file){0};
}

/* A name that may need escaping, unlike our own. */
static void write_key(struct json *json, struct str key)
{
    json_str(json, key);
    buf_append_char(json->out, ':');
    json->comma = false;
}

void request_file_write(const struct request_file *file, const char *model, const char *dialect,
                        struct json *json)
{
    yyjson_obj_iter iter;
    yyjson_val *key;

    if (dialect != NULL)
        json_key_text(json, "dialect", dialect);
    if (model != NULL)
        json_key_text(json, "model", model);
    if (file->doc == NULL) {
        json_key_str(json, "prompt", (struct str){file->text, file->len});
        return;
    }
    yyjson_obj_iter_init(yyjson_doc_get_root(file->doc), &iter);
    while ((key = yyjson_obj_iter_next(&iter)) != NULL) {
        if ((dialect != NULL && yyjson_equals_str(key, "dialect")) ||
            (model != NULL && yyjson_equals_str(key, "model")))
            continue;
        write_key(json, json_get_text(key));
        json_value(json, yyjson_obj_iter_get_val(key));
    }
}

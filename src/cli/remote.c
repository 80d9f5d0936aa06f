/* remote.c: requests to a running server, and errors that say what to do. */
#include "cli/remote.h"

#include <assert.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/serve.h"
#include "cli/sheet.h"

enum {
    KEY_FILE_BYTES_MAX = 64 * 1024,
    ANSWER_BYTES_MAX = 256 * 1024 * 1024,
    FIELDS_COLUMNS_MAX = 16
};

/* ---- where, and with which key ---- */

/* What the settings file says to `hearth serve`; its environment has keys and models that are no
 * business of a client. NULL: there is no file. */
static enum err read_serve(const struct cli *cli, const struct serve_options **options,
                           struct errinfo *info)
{
    static const char *const none[] = {NULL};
    struct cli_setup setup = *cli->setup;
    struct cli serve = *cli, again;

    *options = NULL;
    if (cli->config == NULL)
        return ERR_OK;
    setup.env = none;
    serve.setup = &setup;
    serve.command = &command_serve;
    TRY(cli_read_again(&serve, cli->arena, &again, info));
    *options = again.values;
    return ERR_OK;
}

/* As `hearth serve` would listen here; in the arena. The environment has precedence. */
static enum err default_url(const struct cli *cli, const char **url, struct errinfo *info)
{
    const char *host = cli_env(cli->setup, "HEARTH_HOST"),
               *port = cli_env(cli->setup, "HEARTH_PORT");
    const struct serve_options *file;

    TRY(read_serve(cli, &file, info));
    if (host == NULL && file != NULL)
        host = file->host;
    if (port == NULL && file != NULL && file->port != 0) /* 0: any free one */
        port = arena_printf(cli->arena, "%u", (unsigned)file->port);
    bool everywhere = host == NULL || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
    if (!everywhere && str_ends(str_from(host), STR(".sock"))) {
        *url = host;
        return ERR_OK;
    }
    bool literal = !everywhere && strchr(host, ':') != NULL;
    *url = arena_printf(cli->arena, "%s://%s%s%s:%s",
                        file != NULL && file->tls_cert != NULL ? "https" : "http",
                        literal ? "[" : "", everywhere ? "127.0.0.1" : host, literal ? "]" : "",
                        port != NULL ? port : "4327");
    return *url != NULL ? ERR_OK : err_set(info, cli->arena->err, "no memory for the address");
}

static enum err read_key_file(const struct cli *cli, const char *name, const char **key,
                              struct errinfo *info)
{
    struct str rest, line = STR_NONE;
    char *data;
    size_t len;

    TRY(file_read_all(cli->setup->fs, AT_FDCWD, name, KEY_FILE_BYTES_MAX, &data, &len, info));
    rest = (struct str){data, len};
    (void)str_next(&rest, '\n', &line);
    line = str_trim(line);
    *key = line.len > 0 ? arena_strdup(cli->arena, line) : NULL;
    mem_free(data);
    return *key != NULL ? ERR_OK
                        : err_set(info, ERR_INVALID, "%s has no key in its first line", name);
}

/* The first key of "NAME:KEY,KEY,...", as the server parses them. */
static const char *first_key(const struct cli *cli, const char *text)
{
    struct str rest = str_from(text), key = STR_NONE;

    (void)str_next(&rest, ',', &key);
    size_t colon = str_find(key, STR(":"));
    if (colon != SIZE_MAX)
        key = str_skip(key, colon + 1);
    return arena_strdup(cli->arena, str_trim(key));
}

enum err remote_open(struct remote *remote, const struct cli *cli,
                     const struct remote_options *options, struct errinfo *info)
{
    const char *url = options->url;

    *remote = (struct remote){.cli = cli, .timeout_ms = options->timeout_ns / NS_PER_MS};
    if (url == NULL)
        TRY(default_url(cli, &url, info));
    if (options->api_keys.count > 0)
        remote->api_key = first_key(cli, options->api_keys.items[0]);
    remote->key = remote->api_key;
    if (options->admin_key_file != NULL)
        TRY(read_key_file(cli, options->admin_key_file, &remote->key, info));
    if (options->admin_key != NULL)
        remote->key = first_key(cli, options->admin_key);
    return client_parse_url(url, &remote->url, info);
}

/* ---- errors ---- */

static enum err no_server(const struct remote *remote, enum err err, struct errinfo *info)
{
    char url[CLIENT_URL_BYTES], why[128];
    const char *colon = strrchr(info->text, ':'); /* the system's message follows it */

    if (err == ERR_TIMEOUT || err == ERR_CLOSED || err == ERR_CORRUPT)
        return err;
    if (err == ERR_DENIED)
        return err_set(info, err, "%s; SSL_CERT_FILE names the certificate to trust",
                       arena_printf(remote->cli->arena, "%s", info->text));
    snprintf(why, sizeof(why), "%.120s", colon != NULL ? colon + 2 : info->text);
    return err_set(info, ERR_IO,
                   "no server at %s (%s): start one with 'hearth serve MODEL', or set --url",
                   client_url_text(&remote->url, url), why);
}

/* The server's error message, in OpenAI's or Anthropic's format. */
static void server_words(const char *text, char *out, size_t size)
{
    yyjson_doc *doc = yyjson_read(text, strlen(text), 0);
    struct str words = str_from(fields_text(yyjson_doc_get_root(doc), "error.message", ""));

    if (str_ends(words, STR("."))) /* the sentence goes on */
        words.len--;
    snprintf(out, size, STR_FMT, STR_ARG(words));
    yyjson_doc_free(doc);
}

static enum err refused(const struct remote *remote, const char *path, int status, const char *text,
                        struct errinfo *info)
{
    char url[CLIENT_URL_BYTES], words[256];

    client_url_text(&remote->url, url);
    server_words(text, words, sizeof(words));
    const char *colon = words[0] != '\0' ? ": " : "";
    /* None for a 403 that no key changes, such as a folder that the server does not allow. */
    const char *hint = status == 403 && words[0] != '\0' && strstr(words, "key") == NULL ? ""
                       : str_starts(str_from(path), STR("/admin"))
                           ? "; pass the key with --admin-key-file FILE or HEARTH_ADMIN_KEY"
                           : "; pass the key with --api-key or HEARTH_API_KEY";
    switch (status) {
    case 401:
    case 403:
        return err_set(info, ERR_DENIED, "access denied by %s%s%s%s", url, colon, words, hint);
    case 404:
        return err_set(info, ERR_NOT_FOUND, "%s knows no %.80s%s%s", url, path, colon, words);
    case 400:
    case 413:
    case 422:
        return err_set(info, ERR_INVALID, "%s refuses that%s%s", url, colon, words);
    case 429:
    case 503:
        return err_set(info, ERR_BUSY, "%s is not available%s%s; try again", url, colon, words);
    default:
        return err_set(info, ERR_IO, "%s answered with %d%s%s", url, status, colon, words);
    }
}

/* ---- asking ---- */

enum err remote_ask(const struct remote *remote, const char *path, const char *body,
                    struct buf *text, struct errinfo *info)
{
    const struct client_request request = {
        .url = &remote->url,
        .method = body != NULL ? "POST" : "GET",
        .path = path,
        .key = remote->key,
        .body = body,
        .timeout_ms = remote->timeout_ms,
    };
    size_t before = text->len;
    int status = 0;

    enum err err = client_fetch(&request, &status, text, info);
    if (text->err != ERR_OK)
        return err_set(info, text->err, "the answer is too long");
    if (err != ERR_OK)
        return no_server(remote, err, info);
    return status >= 200 && status < 300
               ? ERR_OK
               : refused(remote, path, status, buf_str(text) + before, info);
}

enum err remote_ask_json(const struct remote *remote, const char *path, const char *body,
                         yyjson_doc **doc, struct errinfo *info)
{
    char url[CLIENT_URL_BYTES];
    struct buf text;

    *doc = NULL;
    buf_init(&text, ANSWER_BYTES_MAX);
    enum err err = remote_ask(remote, path, body, &text, info);
    if (err == ERR_OK) {
        *doc = yyjson_read(buf_str(&text), text.len, 0);
        if (!yyjson_is_obj(yyjson_doc_get_root(*doc)))
            err =
                err_set(info, ERR_CORRUPT, "the response of %s is not JSON; is it a hearth server?",
                        client_url_text(&remote->url, url));
    }
    if (err != ERR_OK) {
        yyjson_doc_free(*doc);
        *doc = NULL;
    }
    buf_fini(&text);
    return err;
}

/* ---- fields of answers ---- */

yyjson_val *fields_get(yyjson_val *object, const char *path)
{
    struct str rest = str_from(path), key;

    while (object != NULL && str_next(&rest, '.', &key))
        object = yyjson_obj_getn(object, key.ptr, key.len);
    return object;
}

double fields_number(yyjson_val *object, const char *path, double otherwise)
{
    yyjson_val *value = fields_get(object, path);

    return yyjson_is_num(value) ? yyjson_get_num(value) : otherwise;
}

uint64_t fields_uint(yyjson_val *object, const char *path)
{
    double value = fields_number(object, path, 0);

    return value > 0 && value < 1.8e19 ? (uint64_t)value : 0;
}

const char *fields_text(yyjson_val *object, const char *path, const char *otherwise)
{
    yyjson_val *value = fields_get(object, path);

    return yyjson_is_str(value) ? yyjson_get_str(value) : otherwise;
}

bool fields_bool(yyjson_val *object, const char *path)
{
    return yyjson_get_bool(fields_get(object, path));
}

const char *fields_word(yyjson_val *object, const char *path, char out[FIELDS_TEXT_BYTES])
{
    const char *text = fields_text(object, path, "");

    (void)out;
    return text[0] != '\0' ? text : "-";
}

const char *fields_count(yyjson_val *object, const char *path, char out[FIELDS_TEXT_BYTES])
{
    return units_format_count(fields_uint(object, path), out);
}

const char *fields_size(yyjson_val *object, const char *path, char out[FIELDS_TEXT_BYTES])
{
    return fields_get(object, path) != NULL ? units_format_size(fields_uint(object, path), out)
                                            : "-";
}

const char *fields_time(yyjson_val *object, const char *path, char out[FIELDS_TEXT_BYTES])
{
    double seconds = fields_number(object, path, NAN);

    return seconds >= 0 && seconds < 1e9
               ? units_format_duration((uint64_t)(seconds * (double)NS_PER_S), out)
               : "-";
}

const char *fields_list(yyjson_val *object, const char *path, char out[FIELDS_TEXT_BYTES])
{
    yyjson_val *value;
    size_t len = 0;

    out[0] = '\0';
    FIELDS_FOREACH (value, fields_get(object, path))
        if (len < FIELDS_TEXT_BYTES)
            len += (size_t)snprintf(out + len, FIELDS_TEXT_BYTES - len, "%s%s", len > 0 ? "," : "",
                                    yyjson_is_str(value) ? yyjson_get_str(value) : "?");
    return out[0] != '\0' ? out : "-";
}

const char *fields_reason(const char *name, char out[FIELDS_TEXT_BYTES])
{
    const char *words = strcmp(name, "none") == 0    ? "full hit"
                        : strcmp(name, "short") == 0 ? "new text"
                                                     : name;

    snprintf(out, FIELDS_TEXT_BYTES, "%s", words);
    for (char *at = out; *at != '\0'; at++)
        if (*at == '_')
            *at = ' ';
    return out;
}

static void add_row(struct sheet *sheet, const struct fields_table *table, yyjson_val *row)
{
    char text[FIELDS_TEXT_BYTES];

    for (size_t i = 0; i < table->count; i++) {
        const struct fields_column *column = &table->columns[i];
        if (column->show != NULL)
            sheet_text(sheet, column->show(row, column->path, text));
        else
            sheet_number(sheet, fields_number(row, column->path, NAN));
    }
}

void fields_print(const struct fields_table *table, yyjson_val *array, struct buf *out)
{
    struct sheet_column columns[FIELDS_COLUMNS_MAX];
    yyjson_val *row;

    assert(table->count <= FIELDS_COLUMNS_MAX);
    for (size_t i = 0; i < table->count; i++) {
        const struct fields_column *column = &table->columns[i];
        columns[i] = (struct sheet_column){column->path, column->label,
                                           column->show ? SHEET_TEXT : column->decimals};
    }
    struct sheet *sheet = sheet_create(columns, table->count);
    FIELDS_FOREACH (row, array)
        if (table->skips == NULL || !table->skips(row))
            add_row(sheet, table, row);
    if (sheet_rows(sheet) == 0 && table->none != NULL)
        buf_append_str(out, table->none);
    else
        (void)sheet_write_table(sheet, out);
    sheet_destroy(&sheet);
}

void fields_clean(char *text)
{
    text[utf8_clean(text, strlen(text), "\n")] = '\0';
}

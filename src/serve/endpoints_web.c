/*
 * endpoints_web.c: the dashboard, from files embedded in the program (web_files.h).
 *
 * The page and its files need no key: they are the same for everyone and reveal nothing about this
 * server. The data on the page comes from the admin API, with the key that the user enters.
 *
 * POLICY allows the browser to load scripts, styles and pictures only from here and to connect to
 * no other host. The browser revalidates cached files each time and gets a 304 while the program is
 * the same, so after an upgrade no old script runs against a new server.
 */
#include "serve/api_impl.h"

#include "serve/web_files.h"

#define POLICY                                                                                     \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' " \
    "data:; "                                                                                      \
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

static const struct web_file *find(struct str name)
{
    for (const struct web_file *file = web_files; file->name; file++)
        if (str_eq(str_from(file->name), name))
            return file;
    return NULL;
}

static bool header_has(const struct loop_request *req, const char *name, const char *text)
{
    struct str value;

    return http_request_header(req->request, str_from(name), &value) &&
           str_find(value, str_from(text)) != SIZE_MAX;
}

static void send_file(const struct loop_request *req, const struct web_file *file)
{
    const struct http_header headers[] = {
        {STR("x-request-id"), str_from(req->request_id)},
        {STR("etag"), str_from(file->tag)},
        {STR("cache-control"), STR("no-cache")},
        {STR("vary"), STR("accept")}, /* for GET /, which returns JSON to programs */
        {STR("content-security-policy"), STR(POLICY)},
        {STR("x-content-type-options"), STR("nosniff")},
        {STR("referrer-policy"), STR("no-referrer")},
        {STR("cross-origin-opener-policy"), STR("same-origin")},
        {STR("cross-origin-resource-policy"), STR("same-origin")},
    };
    bool known = header_has(req, "if-none-match", file->tag);
    struct http_head head = {
        .status = known ? 304 : 200,
        .content_type = known ? STR_NONE : str_from(file->type),
        .headers = headers,
        .headers_count = COUNT_OF(headers),
    };
    struct str body = {file->begin, (size_t)(file->end - file->begin)};

    /* On HTTP_FULL nothing was queued: the handle's end then answers with a 500. */
    (void)http_reply_send(req->reply, &head, known ? STR_NONE : body);
}

/* The file named by the path, or else the page. */
void endpoint_page(const struct loop_request *req)
{
    bool named = req->request->captures_count > 0;
    const struct web_file *file = find(named ? req->request->captures[0] : STR("index.html"));
    struct api_error error = {0};

    if (file) {
        send_file(req, file);
        return;
    }
    api_error_set(&error, API_ERROR_NOT_FOUND, NULL, "The dashboard has no file of this name.");
    loop_fail(req, &error);
}

/* A browser asks for text/html first; programs accept anything, or JSON. */
void endpoint_home(const struct loop_request *req)
{
    if (header_has(req, "accept", "text/html"))
        endpoint_page(req);
    else
        endpoint_root(req);
}

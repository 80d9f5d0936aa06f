/* request.c: lookups in a request. */
#include "http/request.h"

#include <assert.h>

const char *http_method_name(enum http_method method)
{
    static const char *const names[] = {HTTP_METHOD_TABLE(TABLE_NAME)};
    assert(method < HTTP_METHOD_COUNT);
    return names[method];
}

bool http_request_header(const struct http_request *request, struct str name, struct str *value)
{
    for (size_t i = 0; i < request->headers_count; i++)
        if (str_eq_nocase(request->headers[i].name, name)) {
            *value = request->headers[i].value;
            return true;
        }
    return false;
}

void http_request_take_body(struct http_request *request, struct buf *body)
{
    assert(request->body_owner != NULL);
    *body = *request->body_owner;
    buf_init(request->body_owner, body->limit);
    request->body_owner = NULL;
}

bool http_request_is_local(const struct http_request *request)
{
    static const struct str relayed[] = {STR("forwarded"), STR("via"), STR("x-forwarded-for"),
                                         STR("x-real-ip")};
    struct str value, peer = request->peer;

    for (size_t i = 0; i < COUNT_OF(relayed); i++)
        if (http_request_header(request, relayed[i], &value))
            return false;
    return str_starts(peer, STR("127.")) || str_eq(peer, STR("::1")) || str_eq(peer, STR("unix")) ||
           str_starts(peer, STR("::ffff:127."));
}

enum err http_query_get(struct str query, struct str name, struct buf *out)
{
    struct str pair, key;

    while (str_next(&query, '&', &pair)) {
        if (!str_next(&pair, '=', &key))
            continue;
        if (str_eq(key, name))
            return buf_append_unescaped(out, pair, true);
    }
    return ERR_NOT_FOUND;
}

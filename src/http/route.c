/*
 * route.c: a linear search of the table for each request. Tables have a few dozen rows: a tree
 * would cost more to read than it saves.
 */
#include "http/route.h"

#include <assert.h>
#include <string.h>

/* Cuts off the part up to the next '/'. */
static struct str next_segment(struct str *rest)
{
    const char *slash = memchr(rest->ptr, '/', rest->len);
    struct str segment = {rest->ptr, slash != NULL ? (size_t)(slash - rest->ptr) : rest->len};

    *rest = str_skip(*rest, segment.len);
    return segment;
}

static bool is_capture(struct str segment)
{
    return segment.len >= 2 && segment.ptr[0] == '{' && segment.ptr[segment.len - 1] == '}';
}

static bool is_rest(struct str segment)
{
    return is_capture(segment) && str_ends(segment, STR("...}"));
}

static void skip_slash(struct str *text)
{
    text->ptr++;
    text->len--;
}

/* Stores captures unless `request` is NULL. */
static bool matches(struct str pattern, struct str path, struct http_request *request)
{
    size_t count = 0;

    while (pattern.len > 0 && path.len > 0) {
        if (pattern.ptr[0] != '/' || path.ptr[0] != '/')
            return false;
        skip_slash(&pattern);
        skip_slash(&path);
        struct str want = next_segment(&pattern), got = path;
        if (!is_rest(want))
            got = next_segment(&path);
        else
            path.len = 0;
        if (is_capture(want) ? got.len == 0 : !str_eq(want, got))
            return false;
        if (is_capture(want) && request != NULL)
            request->captures[count++] = got;
    }
    if (request != NULL)
        request->captures_count = count;
    return pattern.len == 0 && path.len == 0;
}

static bool serves(const struct http_route *route, enum http_method method)
{
    return route->method == method ||
           (method == HTTP_METHOD_HEAD && route->method == HTTP_METHOD_GET);
}

enum http_match http_route_find(const struct http_route *routes, size_t count,
                                struct http_request *request)
{
    enum http_match result = HTTP_MATCH_NO_PATH;

    for (size_t i = 0; i < count; i++) {
        if (!matches(str_from(routes[i].path), request->path, request))
            continue;
        if (serves(&routes[i], request->method)) {
            request->route = &routes[i];
            return HTTP_MATCH_FOUND;
        }
        result = HTTP_MATCH_NO_METHOD;
    }
    request->captures_count = 0;
    return result;
}

static bool any_serves(const struct http_route *routes, size_t count, struct str path,
                       enum http_method method)
{
    for (size_t i = 0; i < count; i++)
        if (serves(&routes[i], method) && matches(str_from(routes[i].path), path, NULL))
            return true;
    return method == HTTP_METHOD_OPTIONS; /* answered by this layer for every known path */
}

void http_route_allow(const struct http_route *routes, size_t count, struct str path,
                      struct buf *out)
{
    const char *comma = "";

    for (enum http_method method = 0; method < HTTP_METHOD_COUNT; method++)
        if (any_serves(routes, count, path, method)) {
            buf_appendf(out, "%s%s", comma, http_method_name(method));
            comma = ", ";
        }
}

bool http_route_named_origins(const struct http_route *routes, size_t count, struct str path)
{
    for (size_t i = 0; i < count; i++)
        if ((routes[i].flags & HTTP_ROUTE_NAMED_ORIGINS) != 0 &&
            matches(str_from(routes[i].path), path, NULL))
            return true;
    return false;
}

static void check_path(struct str path)
{
    size_t captures = 0;

    assert(path.len > 0 && path.ptr[0] == '/');
    while (path.len > 0) {
        skip_slash(&path);
        struct str segment = next_segment(&path);
        captures += is_capture(segment);
        assert(!is_rest(segment) || path.len == 0);
    }
    assert(captures <= HTTP_CAPTURES_MAX);
}

void http_route_check(const struct http_route *routes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        check_path(str_from(routes[i].path));
        assert(routes[i].method < HTTP_METHOD_COUNT && routes[i].handler != NULL);
        for (size_t j = 0; j < i; j++)
            assert(routes[i].method != routes[j].method ||
                   !str_eq(str_from(routes[i].path), str_from(routes[j].path)));
    }
}

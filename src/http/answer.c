/* answer.c: a head and a small body, in one chunk. */
#include "http/answer.h"

#include "base/clock.h"

enum {
    ERROR_BYTES_MAX = 64 * 1024,
    ALLOW_BYTES_MAX = 256,
    CORS_HEADERS_MAX = 2048,
    PROBLEM_HEADERS_MAX = 3,
};

struct str http_answer_origin(const struct http_shared *shared, const struct http_request *request)
{
    struct str origin;

    if (!http_request_header(request, STR("origin"), &origin))
        return STR_NONE;
    bool named = http_route_named_origins(shared->routes, shared->routes_count, request->path);
    return http_origin_allowed(origin, shared->options.cors_origins, named) ? origin : STR_NONE;
}

static struct http_frame frame_of(const struct http_shared *shared,
                                  const struct http_request *request, bool keep_alive)
{
    return (struct http_frame){
        .length = HTTP_LENGTH_KNOWN,
        .keep_alive = keep_alive,
        .old_client = request != NULL && request->version_minor == 0,
        .cors_origin = request != NULL ? http_answer_origin(shared, request) : STR_NONE,
        .cors_checked = shared->options.cors_origins.count > 0,
        .wall_ns = clock_wall_ns(shared->options.clock),
    };
}

/* Returns the content type. */
static const char *write_body(const struct http_options *options, enum http_problem problem,
                              const struct http_request *request, char id[HTTP_ID_BYTES],
                              struct buf *body)
{
    id[0] = '\0';
    if (options->error_body == NULL) {
        buf_appendf(body, "%s\n", http_problem_sentence(problem));
        return "text/plain; charset=utf-8";
    }
    options->error_body(problem, request, id, body, options->error_arg);
    return options->error_content_type != NULL ? options->error_content_type : "application/json";
}

/* Writes the id, and the header that goes with some problems. Returns how many. */
static size_t write_headers(const struct http_shared *shared, enum http_problem problem,
                            const struct http_request *request, const char *id, struct buf *allow,
                            struct http_header headers[PROBLEM_HEADERS_MAX])
{
    size_t count = 0;

    if (id[0] != '\0') {
        headers[count++] = (struct http_header){STR("x-request-id"), str_from(id)};
        headers[count++] = (struct http_header){STR("request-id"), str_from(id)};
    }
    if (http_problem_status(problem) == 401)
        headers[count++] = (struct http_header){STR("www-authenticate"), STR("Bearer")};
    if (problem == HTTP_PROBLEM_BUSY)
        headers[count++] = (struct http_header){STR("retry-after"), STR("1")};
    if (problem == HTTP_PROBLEM_NO_METHOD) {
        http_route_allow(shared->routes, shared->routes_count, request->path, allow);
        headers[count++] = (struct http_header){STR("allow"), {buf_str(allow), allow->len}};
    }
    return count;
}

struct http_chunk *http_answer_problem(const struct http_shared *shared, enum http_problem problem,
                                       const struct http_request *request, bool keep_alive)
{
    bool head_only = request != NULL && request->method == HTTP_METHOD_HEAD;
    struct http_header headers[PROBLEM_HEADERS_MAX];
    char id[HTTP_ID_BYTES];
    struct buf body, allow;

    buf_init(&body, ERROR_BYTES_MAX);
    buf_init(&allow, ALLOW_BYTES_MAX);
    const char *type = write_body(&shared->options, problem, request, id, &body);
    struct http_head head = {
        .status = http_problem_status(problem),
        .content_type = str_from(type),
        .headers = headers,
        .headers_count = write_headers(shared, problem, request, id, &allow, headers),
    };
    struct http_frame frame = frame_of(shared, request, keep_alive);
    frame.bytes = body.len;
    struct http_chunk *chunk =
        http_head_chunk(&head, &frame, head_only ? STR_NONE : (struct str){body.data, body.len});
    buf_fini(&allow);
    buf_fini(&body);
    return chunk;
}

/* The headers that a page wants to send: SDKs have many. Keys are checked later, and an allowed page
 * can send any value in those that browsers always allow. */
static struct str wanted_headers(const struct http_request *request)
{
    struct str wanted;

    if (!http_request_header(request, STR("access-control-request-headers"), &wanted) ||
        wanted.len == 0 || wanted.len > CORS_HEADERS_MAX)
        return STR("authorization, content-type, x-api-key");
    return wanted;
}

struct http_chunk *http_answer_options(const struct http_shared *shared,
                                       const struct http_request *request, bool keep_alive)
{
    struct http_frame frame = frame_of(shared, request, keep_alive);
    struct buf methods;

    buf_init(&methods, ALLOW_BYTES_MAX);
    http_route_allow(shared->routes, shared->routes_count, request->path, &methods);
    struct str allow = {buf_str(&methods), methods.len};
    const struct http_header headers[] = {
        {STR("allow"), allow},
        {STR("access-control-allow-methods"), allow},
        {STR("access-control-allow-headers"), wanted_headers(request)},
        {STR("access-control-max-age"), STR("600")},
    };
    struct http_head head = {
        .status = 204,
        .headers = headers,
        .headers_count = frame.cors_origin.len > 0 ? COUNT_OF(headers) : 1,
    };
    struct http_chunk *chunk = http_head_chunk(&head, &frame, STR_NONE);
    buf_fini(&methods);
    return chunk;
}

/*
 * parse.c: llhttp's callbacks fill one buffer with the target, names and values, and record the
 * offset of each. Once the head is complete, offsets become pointers and the head is checked. The
 * buffer may move while it grows, so nothing points into it before.
 *
 *      head   | /v1/models?x=1 | host | localhost:4327 | accept | * |    spans[i] = { name, value }
 *
 * llhttp, without its lenient flags, refuses a bare LF, folded lines, white space before a colon,
 * control characters, two lengths, a length together with a coding, and bad chunk sizes. It does
 * accept any number of spaces in the request line and of line ends before it. Another parser of the
 * same bytes may not, so positions are checked here: method, one space, target, one space, "HTTP/".
 *
 * A request to upgrade is handled like any other (Java's client asks for h2c by default): llhttp
 * stops after it, as we do.
 *
 * Trailers count against the limits of the head and are dropped. Chunk extensions are ignored, with
 * a small limit on their size.
 */
#include "http/parse.h"

#include <assert.h>
#include <llhttp.h>
#include <string.h>

#include "base/mem.h"
#include "http/host.h"
#include "http/server.h"

enum {
    EXTENSION_BYTES_MAX = 4096,
    LEADING_BYTES_MAX = 2
}; /* one empty line before a request, as RFC 9112 asks */

struct span {
    uint32_t at, len;
};

struct field {
    struct span name, value;
};

struct http_parser {
    llhttp_t llhttp;
    const struct http_limits *limits;
    http_parse_head_fn head_fn;
    void *head_arg;

    enum http_problem problem;
    bool version_known, in_body, done, keep_alive;
    const char *piece; /* the input that llhttp is parsing now */
    uint64_t consumed; /* bytes before `piece` */
    uint64_t method_at, target_at, version_at;

    struct buf head;
    struct span target;
    struct field *fields; /* limits->headers_max */
    struct http_header *headers;
    size_t fields_count;
    bool in_value;
    size_t trailer_bytes, trailers, extension_bytes;
    struct buf body;
    struct http_request request;
};

static int fail(struct http_parser *parser, enum http_problem problem)
{
    if (parser->problem == HTTP_PROBLEM_NONE)
        parser->problem = problem;
    return HPE_USER;
}

static int fail_buf(struct http_parser *parser, enum err err, enum http_problem limit)
{
    return fail(parser, err == ERR_LIMIT ? limit : HTTP_PROBLEM_BUSY);
}

static uint64_t place(const struct http_parser *parser, const char *at)
{
    return parser->consumed + (uint64_t)(at - parser->piece);
}

/* ---- the head, piece by piece ---- */

static int on_method(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *parser = llhttp->data;

    (void)len;
    if (parser->method_at == UINT64_MAX)
        parser->method_at = place(parser, at);
    return parser->method_at > LEADING_BYTES_MAX ? fail(parser, HTTP_PROBLEM_MALFORMED) : 0;
}

static int append(struct http_parser *parser, struct span *span, const char *at, size_t len)
{
    enum err err = buf_append(&parser->head, at, len);

    span->len += (uint32_t)len;
    return err == ERR_OK ? 0 : fail_buf(parser, err, HTTP_PROBLEM_HEADERS);
}

static int on_url(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *parser = llhttp->data;

    if (parser->target_at == UINT64_MAX)
        parser->target_at = place(parser, at);
    if (parser->target.len + len > parser->limits->target_bytes_max)
        return fail(parser, HTTP_PROBLEM_URI);
    return append(parser, &parser->target, at, len);
}

static int on_version(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *parser = llhttp->data;

    (void)len;
    if (parser->version_at == UINT64_MAX)
        parser->version_at = place(parser, at);
    return 0;
}

static int on_version_complete(llhttp_t *llhttp)
{
    struct http_parser *parser = llhttp->data;

    parser->version_known = true;
    return 0;
}

static int count_trailer(struct http_parser *parser, size_t len, bool begins)
{
    parser->trailers += begins;
    parser->trailer_bytes += len;
    return parser->trailers > parser->limits->headers_max ||
                   parser->trailer_bytes > parser->limits->head_bytes_max
               ? fail(parser, HTTP_PROBLEM_HEADERS)
               : 0;
}

static int on_header_field(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *parser = llhttp->data;
    bool begins = parser->in_value || parser->fields_count == 0;

    if (parser->in_body) {
        parser->in_value = false;
        return count_trailer(parser, len, begins);
    }
    if (begins) {
        if (parser->fields_count == parser->limits->headers_max)
            return fail(parser, HTTP_PROBLEM_HEADERS);
        struct field *field = &parser->fields[parser->fields_count++];
        *field = (struct field){.name.at = (uint32_t)parser->head.len};
        parser->in_value = false;
    }
    return append(parser, &parser->fields[parser->fields_count - 1].name, at, len);
}

static int on_header_value(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *parser = llhttp->data;

    if (parser->in_body) {
        parser->in_value = true;
        return count_trailer(parser, len, false);
    }
    struct field *field = &parser->fields[parser->fields_count - 1];
    if (!parser->in_value)
        field->value.at = (uint32_t)parser->head.len;
    parser->in_value = true;
    return append(parser, &field->value, at, len);
}

/* ---- checks of the complete head ---- */

static struct str text_of(const struct http_parser *parser, struct span span)
{
    return (struct str){buf_str(&parser->head) + span.at, span.len};
}

static void point_headers(struct http_parser *parser)
{
    for (size_t i = 0; i < parser->fields_count; i++)
        parser->headers[i] = (struct http_header){
            .name = text_of(parser, parser->fields[i].name),
            .value = str_trim(text_of(parser, parser->fields[i].value)),
        };
    parser->request.headers = parser->headers;
    parser->request.headers_count = parser->fields_count;
}

/* Counts the headers of that name; *value is the first one's. */
static size_t find_all(const struct http_request *request, struct str name, struct str *value)
{
    size_t count = 0;

    for (size_t i = request->headers_count; i-- > 0;)
        if (str_eq_nocase(request->headers[i].name, name)) {
            *value = request->headers[i].value;
            count++;
        }
    return count;
}

static bool check_method(struct http_parser *parser)
{
    const char *name = llhttp_method_name(llhttp_get_method(&parser->llhttp));

    for (enum http_method method = 0; method < HTTP_METHOD_COUNT; method++)
        if (strcmp(http_method_name(method), name) == 0) {
            parser->request.method = method;
            return true;
        }
    return false;
}

static bool check_spaces(const struct http_parser *parser)
{
    const char *name = llhttp_method_name(llhttp_get_method((llhttp_t *)&parser->llhttp));

    return parser->target_at == parser->method_at + strlen(name) + strlen(" ") &&
           parser->version_at == parser->target_at + parser->target.len + strlen(" HTTP/");
}

static enum http_problem check_host(struct http_request *request)
{
    struct str value, name;
    size_t count = find_all(request, STR("host"), &value);

    if (count == 0 && request->version_minor == 0)
        return HTTP_PROBLEM_NONE;
    if (count != 1 || !http_host_split(value, &name, NULL))
        return HTTP_PROBLEM_HOST_HEADER;
    request->host = name;
    return HTTP_PROBLEM_NONE;
}

/* "http://host/path": allowed by the standard, for proxies. The authority must equal the Host
 * header, or two checks could see different hosts. */
static bool cut_absolute(const struct http_request *request, struct str *target)
{
    struct str host;

    if (target->len < 7 || !str_eq_nocase((struct str){target->ptr, 7}, STR("http://")))
        return false;
    *target = str_skip(*target, 7);
    size_t end = 0;
    while (end < target->len && target->ptr[end] != '/' && target->ptr[end] != '?')
        end++;
    struct str authority = {target->ptr, end};
    *target = str_skip(*target, end);
    return find_all(request, STR("host"), &host) == 1 && str_eq_nocase(host, authority);
}

/* Printable ASCII, and no fragment: fragments stay with the client. */
static bool is_clean(struct str target)
{
    for (size_t i = 0; i < target.len; i++) {
        unsigned char c = (unsigned char)target.ptr[i];
        if (c <= 0x20 || c >= 0x7f || c == '#')
            return false;
    }
    return target.len > 0;
}

static bool check_target(struct http_parser *parser)
{
    struct http_request *request = &parser->request;
    struct str target = text_of(parser, parser->target);

    if (!is_clean(target))
        return false;
    if (str_eq(target, STR("*"))) {
        request->path = target;
        return request->method == HTTP_METHOD_OPTIONS;
    }
    if (target.ptr[0] != '/' && !cut_absolute(request, &target))
        return false;
    size_t mark = str_find(target, STR("?"));
    size_t end = mark == SIZE_MAX ? target.len : mark;
    request->path = end > 0 ? (struct str){target.ptr, end} : STR("/");
    request->query = mark == SIZE_MAX ? STR_NONE : str_skip(target, mark + 1);
    return true;
}

static enum http_problem check_framing(const struct http_parser *parser)
{
    struct str value;
    size_t codings = find_all(&parser->request, STR("transfer-encoding"), &value);

    if (codings > 1 || (codings == 1 && parser->request.version_minor == 0))
        return HTTP_PROBLEM_FRAMING;
    if (codings == 1 && !str_eq_nocase(value, STR("chunked")))
        return HTTP_PROBLEM_CODING;
    if (codings == 1 && find_all(&parser->request, STR("content-length"), &value) > 0)
        return HTTP_PROBLEM_FRAMING;
    if (codings == 0 && parser->llhttp.content_length > parser->limits->body_bytes_max)
        return HTTP_PROBLEM_BODY;
    return HTTP_PROBLEM_NONE;
}

static enum http_problem check_head(struct http_parser *parser)
{
    struct http_request *request = &parser->request;
    enum http_problem problem;

    if (llhttp_get_http_major(&parser->llhttp) != 1)
        return HTTP_PROBLEM_VERSION;
    request->version_minor = llhttp_get_http_minor(&parser->llhttp);
    if (!check_spaces(parser))
        return HTTP_PROBLEM_MALFORMED;
    if (!check_method(parser))
        return HTTP_PROBLEM_METHOD;
    if ((problem = check_host(request)) != HTTP_PROBLEM_NONE)
        return problem;
    if (!check_target(parser))
        return HTTP_PROBLEM_TARGET;
    return check_framing(parser);
}

/* The client may be waiting for permission to send. That does not exist before HTTP/1.1. */
static enum http_problem ask_for_body(struct http_parser *parser)
{
    struct str value;
    bool chunked = find_all(&parser->request, STR("transfer-encoding"), &value) > 0;
    struct http_body_plan plan = {
        .expects = parser->request.version_minor >= 1 &&
                   find_all(&parser->request, STR("expect"), &value) > 0,
        .length = chunked ? UINT64_MAX : parser->llhttp.content_length,
        .max = parser->limits->body_bytes_max,
    };

    if (plan.expects && !str_eq_nocase(value, STR("100-continue")))
        return HTTP_PROBLEM_EXPECT;
    if (plan.length == 0)
        return HTTP_PROBLEM_NONE;
    enum http_problem problem = parser->head_fn(&parser->request, &plan, parser->head_arg);
    buf_init(&parser->body, plan.max); /* still empty */
    return problem;
}

static int on_headers_complete(llhttp_t *llhttp)
{
    struct http_parser *parser = llhttp->data;

    point_headers(parser);
    enum http_problem problem = check_head(parser);
    if (problem == HTTP_PROBLEM_NONE)
        problem = ask_for_body(parser);
    if (problem != HTTP_PROBLEM_NONE) {
        fail(parser, problem);
        return -1;
    }
    parser->in_body = true;
    parser->in_value = true; /* for trailers: the next name begins one */
    return 0;
}

/* ---- body and end ---- */

static int on_body(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *parser = llhttp->data;
    enum err err = buf_append(&parser->body, at, len);

    return err == ERR_OK ? 0 : fail_buf(parser, err, HTTP_PROBLEM_BODY);
}

static int on_extension(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *parser = llhttp->data;

    (void)at;
    parser->extension_bytes += len;
    return parser->extension_bytes > EXTENSION_BYTES_MAX ? fail(parser, HTTP_PROBLEM_FRAMING) : 0;
}

static int on_message_complete(llhttp_t *llhttp)
{
    struct http_parser *parser = llhttp->data;

    parser->done = true;
    parser->keep_alive = llhttp_should_keep_alive(llhttp) != 0;
    parser->request.body = (struct str){buf_str(&parser->body), parser->body.len};
    parser->request.body_owner = &parser->body;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_method = on_method,
    .on_url = on_url,
    .on_version = on_version,
    .on_version_complete = on_version_complete,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_chunk_extension_name = on_extension,
    .on_chunk_extension_value = on_extension,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

/* If the version could be read, the error is not in it but in the line after it. */
static enum http_problem problem_of(const struct http_parser *parser, llhttp_errno_t error)
{
    switch (error) {
    case HPE_INVALID_URL:
        return HTTP_PROBLEM_TARGET;
    case HPE_INVALID_VERSION:
    case HPE_PAUSED_H2_UPGRADE:
        return parser->version_known ? HTTP_PROBLEM_MALFORMED : HTTP_PROBLEM_VERSION;
    case HPE_UNEXPECTED_CONTENT_LENGTH:
    case HPE_INVALID_CONTENT_LENGTH:
    case HPE_INVALID_TRANSFER_ENCODING:
    case HPE_INVALID_CHUNK_SIZE:
        return HTTP_PROBLEM_FRAMING;
    default:
        return HTTP_PROBLEM_MALFORMED;
    }
}

/* ---- public functions ---- */

struct http_parser *http_parser_create(const struct http_limits *limits, http_parse_head_fn fn,
                                       void *arg)
{
    struct http_parser *parser = mem_alloc(sizeof(*parser));

    parser->limits = limits;
    parser->head_fn = fn;
    parser->head_arg = arg;
    parser->fields = mem_alloc_array(limits->headers_max, sizeof(*parser->fields));
    parser->headers = mem_alloc_array(limits->headers_max, sizeof(*parser->headers));
    buf_init(&parser->head, limits->head_bytes_max);
    buf_init(&parser->body, limits->body_bytes_max);
    http_parser_reset(parser);
    return parser;
}

void http_parser_destroy(struct http_parser **parser)
{
    struct http_parser *old = *parser;

    if (old == NULL)
        return;
    buf_fini(&old->body);
    buf_fini(&old->head);
    mem_free(old->headers);
    mem_free(old->fields);
    mem_free(old);
    *parser = NULL;
}

void http_parser_reset(struct http_parser *parser)
{
    llhttp_init(&parser->llhttp, HTTP_REQUEST, &settings);
    parser->llhttp.data = parser;
    parser->problem = HTTP_PROBLEM_NONE;
    parser->version_known = parser->in_body = parser->done = parser->keep_alive = parser->in_value =
        false;
    parser->consumed = 0;
    parser->method_at = parser->target_at = parser->version_at = UINT64_MAX;
    buf_clear(&parser->head);
    parser->target = (struct span){0};
    parser->fields_count = 0;
    parser->trailer_bytes = parser->trailers = parser->extension_bytes = 0;
    buf_fini(&parser->body);
    parser->request = (struct http_request){0};
}

/* In the head, no more than the limit allows, so that the result does not depend on the pieces. */
static size_t piece_of(const struct http_parser *parser, size_t len)
{
    uint64_t left = parser->limits->head_bytes_max - parser->consumed;

    return parser->in_body || len < left ? len : (size_t)left;
}

static enum http_parse run(struct http_parser *parser, struct str *bytes)
{
    size_t len = piece_of(parser, bytes->len);

    parser->piece = bytes->ptr;
    llhttp_errno_t error = llhttp_execute(&parser->llhttp, bytes->ptr, len);
    if (parser->done && error == HPE_PAUSED)
        len = (size_t)(llhttp_get_error_pos(&parser->llhttp) - bytes->ptr);
    *bytes = str_skip(*bytes, len);
    parser->consumed += len;
    if (parser->done && error == HPE_PAUSED)
        return HTTP_PARSE_DONE;
    if (error != HPE_OK) {
        fail(parser, problem_of(parser, error));
        return HTTP_PARSE_FAILED;
    }
    if (!parser->in_body && parser->consumed >= parser->limits->head_bytes_max) {
        fail(parser, HTTP_PROBLEM_HEADERS);
        return HTTP_PARSE_FAILED;
    }
    return HTTP_PARSE_MORE;
}

enum http_parse http_parser_feed(struct http_parser *parser, struct str *bytes)
{
    enum http_parse result = HTTP_PARSE_MORE;

    assert(!parser->done && parser->problem == HTTP_PROBLEM_NONE);
    while (bytes->len > 0 && result == HTTP_PARSE_MORE)
        result = run(parser, bytes);
    return result;
}

bool http_parser_in_body(const struct http_parser *parser)
{
    return parser->in_body;
}

size_t http_parser_body_bytes(const struct http_parser *parser)
{
    return parser->body.len;
}

enum http_problem http_parser_problem(const struct http_parser *parser)
{
    return parser->problem;
}

const struct http_request *http_parser_known(const struct http_parser *parser)
{
    return parser->request.path.len > 0 ? &parser->request : NULL;
}

struct http_request *http_parser_request(struct http_parser *parser)
{
    assert(parser->done);
    return &parser->request;
}

void http_parser_drop_body(struct http_parser *parser)
{
    parser->request.body = STR_NONE;
    parser->request.body_owner = NULL;
    buf_fini(&parser->body);
}

bool http_parser_keep_alive(const struct http_parser *parser)
{
    return parser->keep_alive;
}

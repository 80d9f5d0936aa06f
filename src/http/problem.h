/*
 * problem.h: what this layer refuses itself, as a closed list, with the status and the message
 * that the client gets; and the counters of the layer, which use the list as a label.
 */
#pragma once

#include "base/attr.h"
#include "base/buf.h"

/* X(value, status, name, sentence) */
#define HTTP_PROBLEM_TABLE(X)                                                                     \
    X(HTTP_PROBLEM_NONE, 0, "none", "no problem")                                                 \
    X(HTTP_PROBLEM_MALFORMED, 400, "malformed", "The request is not valid HTTP.")                 \
    X(HTTP_PROBLEM_TARGET, 400, "bad_target", "The request target is not valid.")                 \
    X(HTTP_PROBLEM_HOST_HEADER, 400, "bad_host",                                                  \
      "The request needs exactly one valid Host header.")                                         \
    X(HTTP_PROBLEM_FRAMING, 400, "bad_framing",                                                   \
      "The length of the request body is ambiguous or invalid.")                                  \
    X(HTTP_PROBLEM_KEY_MISSING, 401, "key_missing",                                               \
      "An API key is needed: send it as 'Authorization: Bearer KEY' or as 'x-api-key: KEY'.")     \
    X(HTTP_PROBLEM_KEY_WRONG, 401, "key_wrong", "The API key is not valid.")                      \
    X(HTTP_PROBLEM_KEY_ADMIN, 403, "key_not_admin",                                               \
      "This concerns all users of the server: send an admin key (hearth serve --admin-key).")     \
    X(HTTP_PROBLEM_HOST, 403, "host_not_allowed",                                                 \
      "This server does not answer to that host name. --allow-host NAME allows it.")              \
    X(HTTP_PROBLEM_NO_PATH, 404, "not_found", "Unknown endpoint.")                                \
    X(HTTP_PROBLEM_NO_METHOD, 405, "method_not_allowed",                                          \
      "This path does not support that method. See the Allow header.")                            \
    X(HTTP_PROBLEM_SLOW, 408, "request_timeout", "The request did not arrive in time.")           \
    X(HTTP_PROBLEM_BODY, 413, "body_too_large",                                                   \
      "The request body is larger than this server accepts.")                                     \
    X(HTTP_PROBLEM_URI, 414, "target_too_long", "The request target is too long.")                \
    X(HTTP_PROBLEM_EXPECT, 417, "bad_expectation",                                                \
      "The only supported expectation is 100-continue.")                                          \
    X(HTTP_PROBLEM_HEADERS, 431, "headers_too_large",                                             \
      "The request headers are too large or too many.")                                           \
    X(HTTP_PROBLEM_INTERNAL, 500, "internal", "The server gave no answer. That is a bug.")        \
    X(HTTP_PROBLEM_METHOD, 501, "unknown_method", "This server does not support that method.")    \
    X(HTTP_PROBLEM_CODING, 501, "unknown_coding",                                                 \
      "The only supported transfer coding is chunked.")                                           \
    X(HTTP_PROBLEM_BUSY, 503, "overloaded", "Too many connections or requests. Try again later.") \
    X(HTTP_PROBLEM_VERSION, 505, "bad_version", "This server speaks HTTP/1.1 and HTTP/1.0.")

enum { HTTP_ID_BYTES = 40 }; /* of the id of a refused request */

enum http_problem { HTTP_PROBLEM_TABLE(TABLE_VALUE) HTTP_PROBLEM_COUNT };

int http_problem_status(enum http_problem problem);
const char *http_problem_name(enum http_problem problem);     /* "body_too_large" */
const char *http_problem_sentence(enum http_problem problem); /* for users */

/* The reason phrase of a status: "Not Found"; "" for statuses that we never send. */
const char *http_status_phrase(int status);

/* ---- the counters of this layer ---- */

struct metric_set;

enum http_stat {
    HTTP_STAT_ACCEPTED,    /* connections */
    HTTP_STAT_REFUSED,     /* by a limit; label: enum http_refusal */
    HTTP_STAT_CONNECTIONS, /* gauge: open now */
    HTTP_STAT_ACTIVE,      /* gauge: requests in a handler or being answered */
    HTTP_STAT_REQUESTS,    /* handed to a handler */
    HTTP_STAT_BYTES,       /* label: enum http_direction */
    HTTP_STAT_TIMEOUTS,    /* label: enum http_timeout */
    HTTP_STAT_PROBLEMS,    /* label: enum http_problem */
    HTTP_STAT_DISCONNECTS, /* before the answer had ended */
    HTTP_STAT_COUNT
};

enum http_refusal {
    HTTP_REFUSAL_TOTAL,
    HTTP_REFUSAL_ADDRESS,
    HTTP_REFUSAL_DRAIN,
    HTTP_REFUSAL_COUNT
};
enum http_direction { HTTP_DIRECTION_IN, HTTP_DIRECTION_OUT, HTTP_DIRECTION_COUNT };
enum http_timeout {
    HTTP_TIMEOUT_HEAD,
    HTTP_TIMEOUT_BODY,
    HTTP_TIMEOUT_IDLE,
    HTTP_TIMEOUT_WRITE,
    HTTP_TIMEOUT_COUNT
};

/* The server owns the set; its connections count into it. */
struct metric_set *http_stats_create(void); /* freed with metric_set_destroy */

/*
 * limits.c: the defaults of struct http_limits (server.h); docs/http.md has them in a table.
 */
#include "http/server.h"

#define DEFAULTS(X)                     \
    X(connections_max, 1024)            \
    X(connections_per_address_max, 256) \
    X(headers_max, 100)                 \
    X(target_bytes_max, 8 << 10)        \
    X(head_bytes_max, 64 << 10)         \
    X(body_bytes_max, 64 << 20)         \
    X(bodies_bytes_max, 512 << 20)      \
    X(ahead_bytes_max, 64 << 10)        \
    X(answer_bytes_max, 256 << 20)      \
    X(stream_bytes_max, 4 << 20)        \
    X(head_ms, 10 * 1000)               \
    X(body_ms, 10 * 1000)               \
    X(body_rate_min, 1024)              \
    X(idle_ms, 60 * 1000)               \
    X(write_ms, 30 * 1000)              \
    X(linger_ms, 2 * 1000)

void http_limits_complete(struct http_limits *limits)
{
#define X(field, value)     \
    if (limits->field == 0) \
        limits->field = (value);
    DEFAULTS(X)
#undef X
}

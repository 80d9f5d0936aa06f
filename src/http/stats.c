/*
 * stats.c: the table of counters.
 */
#include "http/stats.h"

#include "base/attr.h"
#include "base/metric.h"
#include "http/problem.h"

static const char *const refusals[] = {
    [HTTP_REFUSAL_TOTAL] = "total",
    [HTTP_REFUSAL_ADDRESS] = "address",
    [HTTP_REFUSAL_DRAIN] = "drain",
    [HTTP_REFUSAL_COUNT] = NULL,
};

static const char *const directions[] = {
    [HTTP_DIRECTION_IN] = "in",
    [HTTP_DIRECTION_OUT] = "out",
    [HTTP_DIRECTION_COUNT] = NULL,
};

static const char *const timeouts[] = {
    [HTTP_TIMEOUT_HEAD] = "head",   [HTTP_TIMEOUT_BODY] = "body", [HTTP_TIMEOUT_IDLE] = "idle",
    [HTTP_TIMEOUT_WRITE] = "write", [HTTP_TIMEOUT_COUNT] = NULL,
};

static const char *const problems[] = {
#define X(value, status, name, sentence) name,
    HTTP_PROBLEM_TABLE(X)
#undef X
        NULL,
};

static const struct metric_desc table[] = {
    [HTTP_STAT_ACCEPTED] = {"hearth_http_connections_total", METRIC_COUNTER, NULL,
                            .help = "Connections accepted."},
    [HTTP_STAT_REFUSED] = {"hearth_http_refused_total", METRIC_COUNTER, NULL,
                           .help = "Connections refused, by the limit that said so.",
                           .label = "limit", .values = refusals},
    [HTTP_STAT_CONNECTIONS] = {"hearth_http_connections", METRIC_GAUGE, NULL,
                               .help = "Connections open now."},
    [HTTP_STAT_ACTIVE] = {"hearth_http_active_requests", METRIC_GAUGE, NULL,
                          .help = "Requests that are being answered."},
    [HTTP_STAT_REQUESTS] = {"hearth_http_requests_total", METRIC_COUNTER, NULL,
                            .help = "Requests handed to a handler."},
    [HTTP_STAT_BYTES] = {"hearth_http_bytes_total", METRIC_COUNTER, "bytes",
                         .help = "Bytes received and sent.", .label = "direction",
                         .values = directions},
    [HTTP_STAT_TIMEOUTS] = {"hearth_http_timeouts_total", METRIC_COUNTER, NULL,
                            .help = "Connections closed by a deadline.", .label = "deadline",
                            .values = timeouts},
    [HTTP_STAT_PROBLEMS] = {"hearth_http_problems_total", METRIC_COUNTER, NULL,
                            .help = "Requests that were refused before any handler saw them.",
                            .label = "problem", .values = problems},
    [HTTP_STAT_DISCONNECTS] = {"hearth_http_disconnects_total", METRIC_COUNTER, NULL,
                               .help = "Clients that left before their answer was complete."},
};

struct metric_set *http_stats_create(void)
{
    _Static_assert(COUNT_OF(table) == HTTP_STAT_COUNT, "every counter has a row");
    return metric_set_create(table, COUNT_OF(table));
}

/* problem.c: the tables of problem.h. */
#include "http/problem.h"

#include <assert.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/metric.h"

static const struct {
    int status;
    const char *name, *sentence;
} problems[] = {
#define X(value, status, name, sentence) {status, name, sentence},
    HTTP_PROBLEM_TABLE(X)
#undef X
};

static const struct {
    int status;
    const char *phrase;
} phrases[] = {
    {100, "Continue"},
    {200, "OK"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {417, "Expectation Failed"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
    {529, "Overloaded"},
};

int http_problem_status(enum http_problem problem)
{
    assert(problem < HTTP_PROBLEM_COUNT);
    return problems[problem].status;
}

const char *http_problem_name(enum http_problem problem)
{
    assert(problem < HTTP_PROBLEM_COUNT);
    return problems[problem].name;
}

const char *http_problem_sentence(enum http_problem problem)
{
    assert(problem < HTTP_PROBLEM_COUNT);
    return problems[problem].sentence;
}

const char *http_status_phrase(int status)
{
    for (size_t i = 0; i < COUNT_OF(phrases); i++)
        if (phrases[i].status == status)
            return phrases[i].phrase;
    return "";
}

/* ---- counters ---- */

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

static const char *const problem_names[] = {
#define X(value, status, name, sentence) name,
    HTTP_PROBLEM_TABLE(X)
#undef X
        NULL,
};

static const struct metric_desc counters[] = {
    [HTTP_STAT_ACCEPTED] = {"hearth_http_connections_total", METRIC_COUNTER, NULL,
                            .help = "Connections accepted."},
    [HTTP_STAT_REFUSED] = {"hearth_http_refused_total", METRIC_COUNTER, NULL,
                           .help = "Connections refused, by limit.", .label = "limit",
                           .values = refusals},
    [HTTP_STAT_CONNECTIONS] = {"hearth_http_connections", METRIC_GAUGE, NULL,
                               .help = "Connections open now."},
    [HTTP_STAT_ACTIVE] = {"hearth_http_active_requests", METRIC_GAUGE, NULL,
                          .help = "Requests being answered."},
    [HTTP_STAT_REQUESTS] = {"hearth_http_requests_total", METRIC_COUNTER, NULL,
                            .help = "Requests handed to a handler."},
    [HTTP_STAT_BYTES] = {"hearth_http_bytes_total", METRIC_COUNTER, "bytes",
                         .help = "Bytes received and sent.", .label = "direction",
                         .values = directions},
    [HTTP_STAT_TIMEOUTS] = {"hearth_http_timeouts_total", METRIC_COUNTER, NULL,
                            .help = "Connections closed by a deadline.", .label = "deadline",
                            .values = timeouts},
    [HTTP_STAT_PROBLEMS] = {"hearth_http_problems_total", METRIC_COUNTER, NULL,
                            .help = "Requests refused before they reached a handler.",
                            .label = "problem", .values = problem_names},
    [HTTP_STAT_DISCONNECTS] = {"hearth_http_disconnects_total", METRIC_COUNTER, NULL,
                               .help =
                                   "Clients that disconnected before their answer was complete."},
};

struct metric_set *http_stats_create(void)
{
    _Static_assert(COUNT_OF(counters) == HTTP_STAT_COUNT, "every counter has a row");
    return metric_set_create(counters, COUNT_OF(counters));
}

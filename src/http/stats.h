/*
 * stats.h: the counters of the HTTP layer. A connection counts for its server; the server owns the
 * set.
 */
#ifndef HEARTH_HTTP_STATS_H
#define HEARTH_HTTP_STATS_H

struct metric_set;

enum http_stat {
    HTTP_STAT_ACCEPTED,    /* connections */
    HTTP_STAT_REFUSED,     /* by a limit; label: enum http_refusal */
    HTTP_STAT_CONNECTIONS, /* gauge: open now */
    HTTP_STAT_ACTIVE,      /* gauge: requests with their handler, or being answered */
    HTTP_STAT_REQUESTS,    /* handed to a handler */
    HTTP_STAT_BYTES,       /* label: enum http_direction */
    HTTP_STAT_TIMEOUTS,    /* label: enum http_timeout */
    HTTP_STAT_PROBLEMS,    /* label: enum http_problem (problem.h) */
    HTTP_STAT_DISCONNECTS, /* before the answer was ended */
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

struct metric_set *http_stats_create(void); /* freed with metric_set_destroy */

#endif

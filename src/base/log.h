/*
 * log.h: one line per event, for people or for machines.
 *
 *      2026-11-15T03:37:18.123Z info  [cache] hit id=7 prompt_tokens=28412 read_tokens=27540
 *      {"time":"2026-11-15T03:37:18.123Z","level":"info","tag":"cache","message":"hit","id":7,...}
 *
 * An event is a level, a tag (the module), a constant message, and typed fields:
 *
 *      LOG_INFO(log, "cache", "hit", LOG_UINT("id", id), LOG_STR("match", name));
 *
 * Equal messages (same tag and text) are limited to `burst` lines per `interval`; the next line
 * that passes carries suppressed=N. A line is written with one write(2) call, so that lines of
 * several threads or processes do not mix, and is at most PIPE_BUF bytes: longer texts are cut,
 * fields without room are left out, and the line then ends with cut=true. Values are escaped: no
 * field can forge a line. In text lines they are quoted when they are empty or contain spaces,
 * quotes, '=', backslashes, control characters or invalid UTF-8; in JSON, invalid bytes become
 * U+FFFD and NaN becomes null. Nothing here fails the caller or changes errno; lines that could not
 * be written are counted. The program must handle SIGPIPE.
 *
 * A stalled reader of the descriptor blocks the thread that logs. A server therefore calls
 * log_start_writer: from then on lines go into a bounded queue, and one thread writes them in
 * order. When the queue is full, lines are dropped and counted, and a later line reports that.
 *
 * Threads: any. Formatting happens outside the lock (rank LOCK_RANK_LOG).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct clock;

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR, LOG_LEVEL_OFF };
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

enum log_type {
    LOG_TYPE_END,
    LOG_TYPE_INT,
    LOG_TYPE_UINT,
    LOG_TYPE_FLOAT,
    LOG_TYPE_BOOL,
    LOG_TYPE_STR
};

struct log_field {
    const char *key;
    enum log_type type;
    union {
        int64_t i;
        uint64_t u;
        double f;
        bool b;
        const char *s; /* NULL is written as null, or - */
    } value;
};

#define LOG_INT(k, v)   ((struct log_field){(k), LOG_TYPE_INT, {.i = (v)}})
#define LOG_UINT(k, v)  ((struct log_field){(k), LOG_TYPE_UINT, {.u = (v)}})
#define LOG_FLOAT(k, v) ((struct log_field){(k), LOG_TYPE_FLOAT, {.f = (v)}})
#define LOG_BOOL(k, v)  ((struct log_field){(k), LOG_TYPE_BOOL, {.b = (v)}})
#define LOG_STR(k, v)   ((struct log_field){(k), LOG_TYPE_STR, {.s = (v)}})

struct log_options {
    int fd; /* where lines go; not closed by the log */
    enum log_level level;
    enum log_format format;
    bool color;     /* colours for the level, text format only */
    unsigned burst; /* equal messages per interval; 0 = no limit */
    uint64_t interval_ns;
    const struct clock *clock;
};

struct log;

struct log *log_create(const struct log_options *options);
/* With a writer: waits until the queue is written, for at most LOG_FLUSH_MS; if the reader still
 * stalls, the rest is lost. */
void log_destroy(struct log **log);

enum { LOG_QUEUE_BYTES_MIN = 4096, LOG_FLUSH_MS = 1000 };

/* From now on the log's own thread writes the lines; `bytes` (LOG_QUEUE_BYTES_MIN or more) may be
 * queued. Call it once, while no other thread uses the log. ERR_LIMIT when no thread can be
 * started: then nothing changes. A child of fork must not use such a log. */
enum err log_start_writer(struct log *log, size_t bytes, struct errinfo *info) NODISCARD;

bool log_enabled(const struct log *log, enum log_level level);
enum log_level log_get_level(const struct log *log);
void log_set_level(struct log *log, enum log_level level);

/* `fields` ends with a field of type LOG_TYPE_END; tag and message are literals. `log` may be NULL:
 * a no-op. */
void log_event(struct log *log, enum log_level level, const char *tag, const char *message,
               const struct log_field *fields);

/* A line with a formatted message, without fields and without a rate limit: for lines that come
 * once per request. Cut at LOG_TEXT_BYTES_MAX - 1 bytes. */
enum { LOG_TEXT_BYTES_MAX = 1024 };
void log_text(struct log *log, enum log_level level, const char *tag, const char *fmt, ...)
    PRINTF(4, 5);

/* The last 64 warnings and errors are kept, for monitoring a running server. Without time and
 * level, cut when too long. */
enum { LOG_LINE_BYTES = 512 };
struct log_line {
    uint64_t number; /* counts from 1, without gaps */
    uint64_t wall_ns;
    enum log_level level;
    const char *tag;
    char text[LOG_LINE_BYTES]; /* message and fields, as they were written */
};

/* Copies lines with number > `after`, oldest first, at most max; returns how many. `log` may be
 * NULL: none. */
size_t log_read(struct log *log, uint64_t after, struct log_line *lines, size_t max);

/* With log NULL both are 0. */
uint64_t log_lines_lost(const struct log *log);       /* could not be written */
uint64_t log_lines_dropped(const struct log *log);    /* the queue was full */
uint64_t log_lines_suppressed(const struct log *log); /* over the rate limit */

const char *log_level_name(enum log_level level);
bool log_level_parse(const char *name, enum log_level *level) NODISCARD;

#define LOG_FIELDS(...) \
    ((const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){.type = LOG_TYPE_END}})

#define LOG_AT(log, level, tag, message, ...)                                     \
    do {                                                                          \
        if (log_enabled((log), (level)))                                          \
            log_event((log), (level), (tag), (message), LOG_FIELDS(__VA_ARGS__)); \
    } while (0)

#define LOG_DEBUG(log, tag, ...) LOG_AT(log, LOG_LEVEL_DEBUG, tag, __VA_ARGS__)
#define LOG_INFO(log, tag, ...)  LOG_AT(log, LOG_LEVEL_INFO, tag, __VA_ARGS__)
#define LOG_WARN(log, tag, ...)  LOG_AT(log, LOG_LEVEL_WARN, tag, __VA_ARGS__)
#define LOG_ERROR(log, tag, ...) LOG_AT(log, LOG_LEVEL_ERROR, tag, __VA_ARGS__)

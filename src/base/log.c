/*
 * log.c: rate limit under the lock, formatting on the caller's stack, one write(2) by the caller or
 * by the log's own thread.
 *
 * A line is at most PIPE_BUF bytes, the size up to which the kernel keeps writes to a pipe intact.
 * Values that do not fit are left out, and the line ends with cut=true; it is always valid JSON:
 *
 *      \n | head | fields ............ | tail |   the first byte is written only after a torn line,
 *      0  1                            limit  end so that this one starts on its own line
 *
 * Equal messages are found by searching a small table; a new message replaces the entry with the
 * oldest window. The table is bounded whatever is logged; a message that was replaced starts with a
 * fresh burst, so at worst too much is logged.
 *
 * THE QUEUE of a log with a writer is a ring of bytes. A line ends with its only \n, so the writer
 * needs no lengths. Only the writer ever waits for the descriptor. A write(2) that never returns
 * cannot be cancelled: log_destroy then leaves the log to its thread, which frees it if the write
 * does return, and ends with the process otherwise.
 *
 * Not done here: opening or rotating files (that is up to the reader of our stderr); ignoring
 * SIGPIPE (the main program does); locales (setlocale is never called, so %g writes a point).
 */
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/utf8.h"

enum {
    LINE_BYTES_MAX = PIPE_BUF,
    /* per escaped text, so that one long value does not hide all others */
    VALUE_BYTES_MAX = 1024,
    TAIL_BYTES_MAX = 64, /* suppressed=N, cut=true, the closing brace and the newline */
    /* different messages within an interval; few programs have more in total */
    RATE_SLOTS = 64,
    KEPT_LINES = 64,   /* warnings and errors that are kept */
    CODE_INVALID = -1, /* a byte that is not UTF-8 */
    CODE_REPLACEMENT = 0xFFFD,
};

static_assert(PIPE_BUF <= LOG_QUEUE_BYTES_MIN, "every line fits into an empty queue");

struct rate {
    const char *tag; /* NULL: the slot is free */
    const char *message;
    uint64_t window_ns;  /* when its window began */
    uint64_t lines;      /* in this window */
    uint64_t suppressed; /* since the last line that passed */
};

struct log {
    struct log_options options; /* level: see below */
    atomic_int level;
    atomic_bool torn; /* the last line was written only in part */
    _Atomic uint64_t lost;
    _Atomic uint64_t suppressed;
    struct lock lock;
    struct rate rates[RATE_SLOTS];    /* GUARDED_BY(lock) */
    struct log_line kept[KEPT_LINES]; /* GUARDED_BY(lock); number n is at n % KEPT_LINES */
    uint64_t kept_count;              /* GUARDED_BY(lock) */
    /* The queue; ring NULL: there is no writer. */
    struct thread writer;
    char *ring;
    size_t ring_size;
    size_t ring_at, ring_len; /* GUARDED_BY(lock): the oldest byte, and how many */
    uint64_t untold;          /* GUARDED_BY(lock): dropped lines not yet reported */
    bool ending, ended;       /* GUARDED_BY(lock): log_destroy was called; the writer has ended */
    bool abandoned;           /* GUARDED_BY(lock): the writer frees the log */
    struct cond more;         /* wakes the writer: a line, or the end */
    struct cond through;      /* wakes log_destroy: ended */
    _Atomic uint64_t dropped;
};

struct line {
    char text[LINE_BYTES_MAX];
    size_t len;
    size_t limit; /* len never exceeds it */
    enum log_format format;
    bool cut;
};

static const struct {
    const char *name;
    const char *color;
} levels[] = {
    [LOG_LEVEL_DEBUG] = {"debug", "\x1b[2m"},
    [LOG_LEVEL_INFO] = {"info", "\x1b[32m"},
    [LOG_LEVEL_WARN] = {"warn", "\x1b[33m"},
    [LOG_LEVEL_ERROR] = {"error", "\x1b[31m"},
    [LOG_LEVEL_OFF] = {"off", ""},
};

/* ---- escaping ---- */

/* The code point at `at`, and its length in bytes; CODE_INVALID and 1 for invalid UTF-8. */
static int decode(const char *at, const char *end, size_t *len)
{
    const char *next = at;
    uint32_t code = utf8_next(&next, end);

    *len = (size_t)(next - at);
    return code == CODE_REPLACEMENT && *len == 1 ? CODE_INVALID : (int)code;
}

/* Writes one character escaped for use between quotes; returns its length. */
static size_t escape(enum log_format format, const char *at, size_t at_len, int code, char out[8])
{
    const char *const shorts = "\"\"\\\\\nn\rr\tt";

    for (const char *pair = shorts; *pair != '\0'; pair += 2)
        if (code == pair[0])
            return (size_t)snprintf(out, 8, "\\%c", pair[1]);
    if (code == CODE_INVALID && format == LOG_FORMAT_JSON)
        return (size_t)snprintf(out, 8, "\xEF\xBF\xBD"); /* U+FFFD: JSON cannot express a byte */
    if (code == CODE_INVALID)
        return (size_t)snprintf(out, 8, "\\x%02x", (unsigned char)at[0]);
    if (utf8_is_control((uint32_t)code))
        return (size_t)snprintf(out, 8, "\\u%04x", (unsigned)code);
    memcpy(out, at, at_len);
    return at_len;
}

static bool needs_quotes(const char *text)
{
    const char *end = text + strlen(text);
    size_t len;

    if (text[0] == '\0' || strcmp(text, "-") == 0) /* a bare - means "no value" */
        return true;
    for (const char *at = text; at < end; at += len) {
        int code = decode(at, end, &len);
        if (code == CODE_INVALID || utf8_is_control((uint32_t)code) ||
            (code < 0x80 && strchr(" \"=\\", code)))
            return true;
    }
    return false;
}

/* ---- composing a line ---- */

static bool put(struct line *line, const char *text)
{
    size_t len = strlen(text);

    assert(line->len <= line->limit && line->limit <= sizeof(line->text));
    if (len > line->limit - line->len) {
        line->cut = true;
        return false;
    }
    memcpy(line->text + line->len, text, len);
    line->len += len;
    return true;
}

/* Escapes as much of a text as may be shown. Leaves one byte of the line for the closing quote. */
static void put_escaped(struct line *line, const char *text)
{
    size_t limit = MIN(line->len + VALUE_BYTES_MAX, line->limit - 1), at_len;
    const char *end = text + strlen(text);

    for (const char *at = text; at < end; at += at_len) {
        char out[8];
        int code = decode(at, end, &at_len);
        size_t len = escape(line->format, at, at_len, code, out);
        if (line->len + len > limit) {
            line->cut = true;
            return;
        }
        memcpy(line->text + line->len, out, len);
        line->len += len;
    }
}

static bool put_quoted(struct line *line, const char *text)
{
    if (!put(line, "\""))
        return false;
    put_escaped(line, text);
    return put(line, "\"");
}

static bool put_value(struct line *line, const struct log_field *field)
{
    bool json = line->format == LOG_FORMAT_JSON;
    const char *text = field->value.s;
    char number[32];

    switch (field->type) {
    case LOG_TYPE_INT:
        snprintf(number, sizeof(number), "%" PRId64, field->value.i);
        return put(line, number);
    case LOG_TYPE_UINT:
        snprintf(number, sizeof(number), "%" PRIu64, field->value.u);
        return put(line, number);
    case LOG_TYPE_FLOAT:
        if (json && !isfinite(field->value.f))
            return put(line, "null");
        snprintf(number, sizeof(number), "%.6g", field->value.f);
        return put(line, number);
    case LOG_TYPE_BOOL:
        return put(line, field->value.b ? "true" : "false");
    case LOG_TYPE_STR:
        if (text == NULL)
            return put(line, json ? "null" : "-");
        if (json || needs_quotes(text))
            return put_quoted(line, text);
        put_escaped(line, text);
        return true;
    case LOG_TYPE_END:
        break;
    }
    assert(!"a field of unknown type");
    return false;
}

static bool put_key(struct line *line, const char *key)
{
    if (line->format == LOG_FORMAT_JSON)
        return put(line, ",") && put_quoted(line, key) && put(line, ":");
    if (!put(line, " "))
        return false;
    put_escaped(line, key);
    return put(line, "=");
}

/* Appends the whole field or nothing. A text counts as whole when it was cut. */
static void put_field(struct line *line, const struct log_field *field)
{
    size_t mark = line->len;

    if (!put_key(line, field->key) || !put_value(line, field)) {
        line->len = mark;
        line->cut = true;
    }
}

static void put_time(struct line *line, uint64_t wall_ns)
{
    time_t seconds = (time_t)(wall_ns / NS_PER_S);
    char text[64];
    struct tm tm;

    gmtime_r(&seconds, &tm);
    snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
             tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
             (int)(wall_ns % NS_PER_S / NS_PER_MS));
    put(line, text);
}

static void put_head_text(struct line *line, const struct log *log, enum log_level level,
                          const char *tag, const char *message)
{
    char name[16];

    put_time(line, clock_wall_ns(log->options.clock));
    put(line, " ");
    put(line, log->options.color ? levels[level].color : "");
    snprintf(name, sizeof(name), "%-5s", levels[level].name);
    put(line, name);
    put(line, log->options.color ? "\x1b[0m" : "");
    put(line, " [");
    put_escaped(line, tag);
    put(line, "] ");
    put_escaped(line, message);
}

static void put_head_json(struct line *line, const struct log *log, enum log_level level,
                          const char *tag, const char *message)
{
    put(line, "{\"time\":\"");
    put_time(line, clock_wall_ns(log->options.clock));
    put(line, "\",\"level\":\"");
    put(line, levels[level].name);
    put(line, "\",\"tag\":");
    put_quoted(line, tag);
    put(line, ",\"message\":");
    put_quoted(line, message);
}

static void put_tail(struct line *line, uint64_t suppressed)
{
    line->limit = sizeof(line->text);
    if (suppressed > 0)
        put_field(line, &LOG_UINT("suppressed", suppressed));
    if (line->cut)
        put_field(line, &LOG_BOOL("cut", true));
    bool fits = put(line, line->format == LOG_FORMAT_JSON ? "}\n" : "\n");
    assert(fits); /* TAIL_BYTES_MAX fits the largest number */
}

/* ---- writing ---- */

/* Normally one write. The loop is for signals and for files that accept only a part; the remainder
 * may then follow another process's line, which is the price of not holding a lock while the reader
 * is slow. */
static void write_line(struct log *log, const struct line *line)
{
    /* Relaxed: it does not matter which thread's line gets the newline. */
    bool torn = atomic_exchange_explicit(&log->torn, false, memory_order_relaxed);
    const char *from = line->text + (torn ? 0 : 1), *end = line->text + line->len;

    while (from < end) {
        ssize_t put_len = write(log->options.fd, from, (size_t)(end - from));
        if (put_len > 0) {
            from += put_len;
            torn = true;
        } else if (put_len == 0 || errno != EINTR) {
            atomic_store_explicit(&log->torn, torn, memory_order_relaxed);
            atomic_fetch_add_explicit(&log->lost, 1, memory_order_relaxed); /* only a counter */
            return;
        }
    }
}

/* ---- the rate limit ---- */

static struct rate *find_rate_locked(struct log *log, const char *tag, const char *message,
                                     uint64_t now_ns) REQUIRES(&log->lock)
{
    struct rate *oldest = &log->rates[0];

    lock_assert_held(&log->lock);
    for (size_t i = 0; i < RATE_SLOTS; i++) {
        struct rate *rate = &log->rates[i];
        if (rate->tag ==
            NULL) { /* slots are used in order and never freed, so the rest is free as well */
            oldest = rate;
            break;
        }
        if (strcmp(rate->message, message) == 0 && strcmp(rate->tag, tag) == 0)
            return rate;
        if (rate->window_ns < oldest->window_ns)
            oldest = rate;
    }
    *oldest = (struct rate){.tag = tag, .message = message, .window_ns = now_ns};
    return oldest;
}

/* Whether the line may be written, and how many equal ones were suppressed since the last one. */
static bool admit(struct log *log, const char *tag, const char *message, uint64_t *suppressed)
{
    *suppressed = 0;
    if (log->options.burst == 0)
        return true;
    lock_enter(&log->lock);
    uint64_t now_ns =
        /* under the lock: windows must not begin in the future */
        clock_mono_ns(log->options.clock);
    struct rate *rate = find_rate_locked(log, tag, message, now_ns);
    if (now_ns - rate->window_ns >= log->options.interval_ns) {
        rate->window_ns = now_ns;
        rate->lines = 0;
    }
    bool admitted = rate->lines < log->options.burst;
    if (admitted) {
        rate->lines++;
        *suppressed = rate->suppressed;
        rate->suppressed = 0;
    } else {
        rate->suppressed++;
        atomic_fetch_add_explicit(&log->suppressed, 1, memory_order_relaxed); /* only a counter */
    }
    lock_leave(&log->lock);
    return admitted;
}

/* Keeps the last warnings and errors. */
static void keep(struct log *log, enum log_level level, const char *tag, const char *message,
                 const char *fields, size_t fields_len)
{
    struct log_line *line;

    if (level < LOG_LEVEL_WARN)
        return;
    lock_enter(&log->lock);
    line = &log->kept[++log->kept_count % KEPT_LINES];
    line->number = log->kept_count;
    line->wall_ns = clock_wall_ns(log->options.clock);
    line->level = level;
    line->tag = tag;
    snprintf(line->text, sizeof(line->text), "%s%.*s", message, (int)fields_len, fields);
    lock_leave(&log->lock);
}

static void compose(struct log *log, enum log_level level, const char *tag, const char *message,
                    const struct log_field *fields, uint64_t suppressed, struct line *line)
{
    line->text[0] = '\n';
    line->len = 1;
    line->limit = sizeof(line->text) - TAIL_BYTES_MAX;
    line->format = log->options.format;
    line->cut = false;
    if (line->format == LOG_FORMAT_JSON)
        put_head_json(line, log, level, tag, message);
    else
        put_head_text(line, log, level, tag, message);
    size_t head_len = line->len;
    for (; fields->type != LOG_TYPE_END; fields++)
        put_field(line, fields);
    keep(log, level, tag, message, line->text + head_len, line->len - head_len);
    put_tail(line, suppressed);
}

/* ---- the queue and its writer ---- */

static void enqueue(struct log *log, const struct line *line)
{
    /* only the writer knows whether the last line was torn */
    const char *text = line->text + 1;
    size_t len = line->len - 1;

    lock_enter(&log->lock);
    if (len <= log->ring_size - log->ring_len) {
        size_t to = (log->ring_at + log->ring_len) % log->ring_size;
        size_t first = MIN(len, log->ring_size - to);
        memcpy(log->ring + to, text, first);
        memcpy(log->ring, text + first, len - first);
        log->ring_len += len;
        cond_signal(&log->more);
    } else {
        log->untold++;
        atomic_fetch_add_explicit(&log->dropped, 1, memory_order_relaxed); /* only a counter */
    }
    lock_leave(&log->lock);
}

static void take_line_locked(struct log *log, struct line *line) REQUIRES(&log->lock)
{
    line->text[0] = '\n';
    line->len = 1;
    do {
        assert(log->ring_len > 0 && line->len < sizeof(line->text));
        line->text[line->len++] = log->ring[log->ring_at];
        log->ring_at = (log->ring_at + 1) % log->ring_size;
        log->ring_len--;
    } while (line->text[line->len - 1] != '\n');
}

/* Waits for the next line; or *untold is the number of dropped lines, reported once half of the
 * queue is free again. False: the end. */
static bool await_line(struct log *log, struct line *line, uint64_t *untold)
{
    lock_enter(&log->lock);
    while (log->ring_len == 0 && log->untold == 0 && !log->ending)
        cond_wait(&log->more, &log->lock);
    bool found = log->ring_len > 0 || log->untold > 0;
    *untold = log->ring_len <= log->ring_size / 2 ? log->untold : 0;
    log->untold -= *untold;
    if (found && *untold == 0)
        take_line_locked(log, line);
    lock_leave(&log->lock);
    return found;
}

static void free_log(struct log *log)
{
    if (log->ring != NULL) {
        cond_fini(&log->more);
        cond_fini(&log->through);
        mem_free(log->ring);
    }
    lock_fini(&log->lock);
    mem_free(log);
}

static void run_writer(void *arg)
{
    struct log *log = arg;
    struct line line;
    uint64_t untold;

    while (await_line(log, &line, &untold)) {
        char text[128];

        snprintf(text, sizeof(text),
                 "%" PRIu64 " log lines were dropped: the reader of standard error is too slow",
                 untold);
        if (untold > 0)
            compose(log, LOG_LEVEL_WARN, "log", text, LOG_FIELDS(), 0, &line);
        write_line(log, &line);
    }
    lock_enter(&log->lock);
    log->ended = true;
    cond_signal(&log->through);
    bool abandoned = log->abandoned;
    lock_leave(&log->lock);
    if (abandoned)
        free_log(log);
}

/* False: the writer is stuck in a write, and owns the log from now on. */
static bool stop_writer(struct log *log)
{
    uint64_t deadline_ns = clock_deadline_ns(clock_real(), LOG_FLUSH_MS * NS_PER_MS);

    lock_enter(&log->lock);
    log->ending = true;
    cond_signal(&log->more);
    while (!log->ended && cond_wait_until(&log->through, &log->lock, deadline_ns))
        ;
    bool ended = log->ended;
    log->abandoned = !ended;
    /* an abandoned log may be freed as soon as the lock is left */
    struct thread writer = log->writer;
    lock_leave(&log->lock);
    if (ended)
        thread_join(&writer);
    else
        thread_detach(&writer);
    return ended;
}

/* ---- public ---- */

struct log *log_create(const struct log_options *options)
{
    struct log *log = mem_alloc(sizeof(*log));

    assert(options->clock != NULL && options->level <= LOG_LEVEL_OFF);
    log->options = *options;
    atomic_init(&log->level, (int)options->level);
    lock_init(&log->lock, "log", LOCK_RANK_LOG);
    return log;
}

void log_destroy(struct log **log)
{
    if (*log != NULL && ((*log)->ring == NULL || stop_writer(*log)))
        free_log(*log);
    *log = NULL;
}

enum err log_start_writer(struct log *log, size_t bytes, struct errinfo *info)
{
    assert(log->ring == NULL && bytes >= LOG_QUEUE_BYTES_MIN);
    char *ring = mem_alloc(bytes);
    cond_init(&log->more);
    cond_init(&log->through);
    log->ring = ring;
    log->ring_size = bytes;
    enum err err = thread_start(&log->writer, "log", run_writer, log, info);
    if (err != ERR_OK) {
        log->ring = NULL;
        cond_fini(&log->more);
        cond_fini(&log->through);
        mem_free(ring);
    }
    return err;
}

bool log_enabled(const struct log *log, enum log_level level)
{
    assert(level < LOG_LEVEL_OFF);
    /* Relaxed: a changed level need not take effect at once. */
    return log != NULL && (int)level >= atomic_load_explicit(&log->level, memory_order_relaxed);
}

enum log_level log_get_level(const struct log *log)
{
    return (enum log_level)atomic_load_explicit(&log->level, memory_order_relaxed);
}

void log_set_level(struct log *log, enum log_level level)
{
    assert(level <= LOG_LEVEL_OFF);
    atomic_store_explicit(&log->level, (int)level, memory_order_relaxed);
}

size_t log_read(struct log *log, uint64_t after, struct log_line *lines, size_t max)
{
    size_t count = 0;

    if (log == NULL)
        return 0;
    lock_enter(&log->lock);
    if (log->kept_count > KEPT_LINES)
        after = MAX(after, log->kept_count - KEPT_LINES);
    while (count < max && after < log->kept_count)
        lines[count++] = log->kept[++after % KEPT_LINES];
    lock_leave(&log->lock);
    return count;
}

static void write_event(struct log *log, enum log_level level, const char *tag, const char *message,
                        const struct log_field *fields, uint64_t suppressed)
{
    int errno_before = errno; /* callers often log a failure before they read errno */
    struct line line;

    compose(log, level, tag, message, fields, suppressed, &line);
    if (log->ring != NULL)
        enqueue(log, &line);
    else
        write_line(log, &line);
    errno = errno_before;
}

void log_event(struct log *log, enum log_level level, const char *tag, const char *message,
               const struct log_field *fields)
{
    uint64_t suppressed;

    if (log_enabled(log, level) && admit(log, tag, message, &suppressed))
        write_event(log, level, tag, message, fields, suppressed);
}

void log_text(struct log *log, enum log_level level, const char *tag, const char *fmt, ...)
{
    char text[LOG_TEXT_BYTES_MAX];
    va_list args;

    if (!log_enabled(log, level))
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    write_event(log, level, tag, text, LOG_FIELDS(), 0);
}

uint64_t log_lines_lost(const struct log *log)
{
    return log != NULL ? atomic_load_explicit(&log->lost, memory_order_relaxed) : 0;
}

uint64_t log_lines_dropped(const struct log *log)
{
    return log != NULL ? atomic_load_explicit(&log->dropped, memory_order_relaxed) : 0;
}

uint64_t log_lines_suppressed(const struct log *log)
{
    return atomic_load_explicit(&log->suppressed, memory_order_relaxed);
}

const char *log_level_name(enum log_level level)
{
    return (unsigned)level < COUNT_OF(levels) ? levels[level].name : "unknown";
}

bool log_level_parse(const char *name, enum log_level *level)
{
    for (size_t i = 0; i < COUNT_OF(levels); i++) {
        if (strcmp(name, levels[i].name) == 0) {
            *level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

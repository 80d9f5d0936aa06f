/*
 * monitor.c: see the header.
 *
 * The sums of all runs are those that were read at the start plus those of this run: nothing has to
 * be added up twice. A run without a request writes nothing.
 */
#include "admin/monitor.h"

#include <assert.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"

enum { FILE_BYTES_MAX = 64 * 1024, FILE_MODE = 0600 };

static const char file_name[] = "stats";

struct monitor {
    struct monitor_options options;
    uint64_t started_ns, started_s; /* monotonic, wall */
    struct tally past;              /* of the runs before */
    uint64_t since_s;

    struct thread thread;
    struct lock lock;
    struct cond changed;
    bool closing GUARDED_BY(lock);
    struct tally session GUARDED_BY(lock);
    struct history history GUARDED_BY(lock);
    struct recent recent GUARDED_BY(lock);
    uint64_t saved_requests GUARDED_BY(lock); /* of the session, in the file */
};

static uint64_t now_ns(const struct monitor *monitor)
{
    return clock_mono_ns(monitor->options.clock);
}

static uint64_t wall_s(const struct monitor *monitor)
{
    return clock_wall_ns(monitor->options.clock) / NS_PER_S;
}

/* ---- the file ---- */

static void load(struct monitor *monitor)
{
    const struct monitor_options *options = &monitor->options;
    struct errinfo info = {0};
    char *data = NULL;
    size_t len = 0;
    enum err err;

    monitor->since_s = monitor->started_s;
    if (!options->fs)
        return;
    err = file_read_all(options->fs, options->dir, file_name, FILE_BYTES_MAX, &data, &len, &info);
    if (err == ERR_NOT_FOUND)
        return;
    if (err == ERR_OK)
        err = tally_decode((struct str){data, len}, &monitor->past, &monitor->since_s);
    if (err != ERR_OK)
        LOG_WARN(options->log, "api", "the sums of all runs cannot be read and begin anew",
                 LOG_STR("file", file_name),
                 LOG_STR("reason", info.text[0] ? info.text : err_sentence(err)));
    mem_free(data);
}

enum err monitor_save(struct monitor *monitor, struct errinfo *info)
{
    const struct monitor_options *options = &monitor->options;
    struct monitor_view view;
    struct buf bytes;
    enum err err;

    if (!options->fs)
        return ERR_OK;
    monitor_get_view(monitor, &view);
    buf_init(&bytes, FILE_BYTES_MAX);
    err = tally_encode(&bytes, &view.all, view.since_s);
    if (err == ERR_OK)
        err = file_replace(options->fs, options->dir, file_name, bytes.data, bytes.len, FILE_MODE,
                           info);
    buf_fini(&bytes);
    if (err != ERR_OK)
        return err;
    lock_enter(&monitor->lock);
    monitor->saved_requests = view.session.requests;
    lock_leave(&monitor->lock);
    return ERR_OK;
}

static void save_or_say(struct monitor *monitor)
{
    struct errinfo info = {0};

    if (monitor_save(monitor, &info) != ERR_OK)
        LOG_WARN(monitor->options.log, "api", "the sums of all runs cannot be kept",
                 LOG_STR("reason", info.text));
}

/* ---- the thread ---- */

static bool is_unsaved_locked(const struct monitor *monitor) REQUIRES(lock)
{
    lock_assert_held(&monitor->lock);
    return monitor->session.requests != monitor->saved_requests;
}

/* True: the end has come. */
static bool wait_until(struct monitor *monitor, uint64_t deadline_ns)
{
    bool closing;

    lock_enter(&monitor->lock);
    while (!monitor->closing && cond_wait_until(&monitor->changed, &monitor->lock, deadline_ns))
        ;
    closing = monitor->closing;
    lock_leave(&monitor->lock);
    return closing;
}

static void save_changes(struct monitor *monitor)
{
    bool unsaved;

    lock_enter(&monitor->lock);
    unsaved = is_unsaved_locked(monitor);
    lock_leave(&monitor->lock);
    if (unsaved)
        save_or_say(monitor);
}

static void run(void *arg)
{
    struct monitor *monitor = arg;
    const struct monitor_options *options = &monitor->options;
    uint64_t save_ns = clock_deadline_ns(clock_real(), MONITOR_SAVE_S * NS_PER_S), next_ns;

    do {
        next_ns = save_ns;
        if (options->tick)
            next_ns = MIN(next_ns,
                          clock_deadline_ns(clock_real(), options->tick(options->arg) * NS_PER_MS));
        if (clock_mono_ns(clock_real()) >= save_ns) {
            save_changes(monitor);
            save_ns = clock_deadline_ns(clock_real(), MONITOR_SAVE_S * NS_PER_S);
        }
    } while (!wait_until(monitor, next_ns));
    save_changes(monitor);
}

/* ---- life ---- */

enum err monitor_create(struct monitor **out, const struct monitor_options *options,
                        struct errinfo *info)
{
    struct monitor *monitor = mem_alloc(sizeof(*monitor));
    enum err err;

    monitor->options = *options;
    monitor->started_ns = now_ns(monitor);
    monitor->started_s = wall_s(monitor);
    lock_init(&monitor->lock, "monitor", LOCK_RANK_MONITOR);
    cond_init(&monitor->changed);
    history_init(&monitor->history, monitor->started_ns);
    load(monitor);
    err = thread_start(&monitor->thread, "api-monitor", run, monitor, info);
    if (err != ERR_OK)
        monitor_destroy(&monitor);
    *out = monitor;
    return err;
}

void monitor_destroy(struct monitor **out)
{
    struct monitor *monitor = *out;

    if (!monitor)
        return;
    lock_enter(&monitor->lock);
    monitor->closing = true;
    cond_broadcast(&monitor->changed);
    lock_leave(&monitor->lock);
    thread_join(&monitor->thread); /* keeps what there is */
    cond_fini(&monitor->changed);
    lock_fini(&monitor->lock);
    mem_free(monitor);
    *out = NULL;
}

/* ---- counting ---- */

void monitor_count_tokens(struct monitor *monitor, const struct gen_usage *usage)
{
    uint64_t now = now_ns(monitor);

    lock_enter(&monitor->lock);
    tally_count(&monitor->session, usage);
    history_count_tokens(&monitor->history, now, usage);
    lock_leave(&monitor->lock);
}

void monitor_count_call(struct monitor *monitor, const struct recent_call *call)
{
    uint64_t now = now_ns(monitor);

    lock_enter(&monitor->lock);
    monitor->session.requests++;
    history_count_request(&monitor->history, now);
    recent_add(&monitor->recent, call);
    lock_leave(&monitor->lock);
}

/* ---- looking ---- */

void monitor_get_view(struct monitor *monitor, struct monitor_view *view)
{
    struct tally times = {0};

    if (monitor->options.times)
        monitor->options.times(&times, monitor->options.arg);
    *view = (struct monitor_view){
        .uptime_s = (double)(now_ns(monitor) - monitor->started_ns) / (double)NS_PER_S,
        .started_s = monitor->started_s,
        .since_s = monitor->since_s,
        .all = monitor->past,
    };
    lock_enter(&monitor->lock);
    view->session = monitor->session;
    lock_leave(&monitor->lock);
    tally_add(&view->session, &times);
    tally_add(&view->all, &view->session);
}

double monitor_sum(struct monitor *monitor, uint32_t seconds, struct history_step *sum)
{
    uint64_t now = now_ns(monitor);
    double passed_s;

    lock_enter(&monitor->lock);
    passed_s = history_sum(&monitor->history, now, seconds, sum);
    lock_leave(&monitor->lock);
    return passed_s;
}

void monitor_write_history(struct monitor *monitor, struct json *json)
{
    struct history *copy = mem_alloc(sizeof(*copy));
    uint64_t now = now_ns(monitor);

    lock_enter(&monitor->lock);
    *copy = monitor->history;
    lock_leave(&monitor->lock);
    history_write(json, copy, now, wall_s(monitor));
    mem_free(copy);
}

void monitor_write_recent(struct monitor *monitor, struct json *json)
{
    struct recent *copy = mem_alloc(sizeof(*copy));

    lock_enter(&monitor->lock);
    *copy = monitor->recent;
    lock_leave(&monitor->lock);
    recent_write(json, copy);
    mem_free(copy);
}

/*
 * monitor.h: what the server remembers of its own work, for /admin: sums of this run and of all
 * runs, the last hour, the last requests, and what just happened (feed.h).
 *
 *      sinks, ends of calls --count--> [ session | history | recent | feed ] --> /admin/stats, /history, /requests, /events
 *                                            |
 *                         a thread, every 30 s and at the end --> state folder, "stats" (tally.h)
 *
 * A kill -9 loses at most the last 30 s of the sums of all runs. A file that is damaged is said in
 * the log and begun anew: numbers are no reason not to serve.
 *
 * Threads: any. Lock: LOCK_RANK_MONITOR, for the time of a copy; never across I/O.
 */
#ifndef HEARTH_ADMIN_MONITOR_H
#define HEARTH_ADMIN_MONITOR_H

#include <stdint.h>

#include "admin/history.h"
#include "admin/recent.h"
#include "admin/tally.h"
#include "base/attr.h"
#include "base/err.h"

struct clock;
struct file_sys;
struct log;
struct monitor;

enum { MONITOR_SAVE_S = 30 };

struct monitor_options {
    const struct file_sys *fs; /* NULL: nothing is kept */
    int dir;                   /* the state folder; borrowed */
    /* What engines have counted since the start, into the times of a tally. On the monitor's thread
     * and on those that ask. May be NULL. */
    void (*times)(struct tally *tally, void *arg);
    /* Called on the monitor's thread again and again, each time after as many milliseconds as it
     * said the last time. May be NULL. */
    uint64_t (*tick)(void *arg);
    void *arg;
    struct clock *clock;
    struct log *log;
};

/* Reads what was kept and starts the thread. */
enum err monitor_create(struct monitor **monitor, const struct monitor_options *options,
                        struct errinfo *info) NODISCARD;
/* Keeps what there is. Accepts NULL inside. */
void monitor_destroy(struct monitor **monitor);

/* The tokens of one generation; a request that is over. */
void monitor_count_tokens(struct monitor *monitor, const struct gen_usage *usage);
void monitor_count_call(struct monitor *monitor, const struct recent_call *call);

/* Everything at one moment. */
struct monitor_view {
    struct tally session, all;
    double uptime_s;
    uint64_t started_s, since_s; /* wall time: of the server, of the sums of all runs */
};
void monitor_get_view(struct monitor *monitor, struct monitor_view *view);

/* As history_sum and history_write, recent_write. */
double monitor_sum(struct monitor *monitor, uint32_t seconds, struct history_step *sum);
void monitor_write_history(struct monitor *monitor, struct json *json);
void monitor_write_recent(struct monitor *monitor, struct json *json);

/* Keeps the sums now; the thread does so by itself. */
enum err monitor_save(struct monitor *monitor, struct errinfo *info) NODISCARD;

#endif

/*
 * serve_wait.c: waits for signals, and checks the schedulers every few seconds under a service
 * manager.
 *
 * WATCHDOG. The keep-alive depends on the work, not on this thread: it is sent only if the
 * scheduler of every loaded model waits for work or began its turn within the watchdog interval. A
 * hung engine is thus noticed after one to two intervals, and so is a thread that holds a lock
 * forever, because the check takes these locks.
 */
#include "cli/serve.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "serve/api.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/notify.h"
#include "cli/cli.h"
#include "cli/config.h"
#include "http/server.h"
#include "models/pool.h"

enum { STATUS_S = 10, ARENA_BYTES_MAX = 8 << 20 };

/* A signal of the set within the timeout; 0: none. */
static int wait_signal(const sigset_t *signals, uint64_t wait_ns)
{
    struct timespec timeout = {(time_t)(wait_ns / NS_PER_S), (long)(wait_ns % NS_PER_S)};
    int signal;

    do
        signal = wait_ns == UINT64_MAX ? sigwaitinfo(signals, NULL)
                                       : sigtimedwait(signals, NULL, &timeout);
    while (signal < 0 && errno == EINTR);
    return signal > 0 ? signal : 0;
}

/* ---- reading again ---- */

static void reload_keys(const struct serve_wait *wait)
{
    struct errinfo info = {0};

    if (api_reload_keys(wait->api, &info) == ERR_OK)
        LOG_INFO(wait->cli->log, "serve", "keys were read again");
    else
        LOG_WARN(wait->cli->log, "serve", "the keys stay as they were",
                 LOG_STR("reason", info.text));
}

static void reload_certificate(const struct serve_wait *wait)
{
    struct errinfo info = {0};

    if (wait->http != NULL && http_server_reload_tls(wait->http, &info) != ERR_OK)
        LOG_WARN(wait->cli->log, "serve", "the TLS certificate stays as it was",
                 LOG_STR("reason", info.text));
}

/* Settings of the command line and the environment still take precedence. */
static void reload_log_level(const struct cli *cli)
{
    struct errinfo info = {0};
    struct arena arena;
    struct cli again;

    if (cli->config == NULL || cli_source(cli, "log-level") > OPTION_FROM_SECTION)
        return;
    arena_init(&arena, ARENA_BYTES_MAX);
    if (cli_read_again(cli, &arena, &again, &info) == ERR_OK) {
        log_set_level(cli->log, (enum log_level)common_of(cli->command, again.values)->log_level);
    } else {
        LOG_WARN(cli->log, "serve", "the log level is unchanged", LOG_STR("reason", info.text));
    }
    arena_fini(&arena);
}

static void reload(const struct serve_wait *wait, const struct notify *notify)
{
    notify_send(notify, "RELOADING=1\nMONOTONIC_USEC=%llu",
                (unsigned long long)(clock_mono_ns(clock_real()) / NS_PER_US));
    reload_keys(wait);
    reload_certificate(wait);
    reload_log_level(wait->cli);
    notify_send(notify, "READY=1");
}

/* ---- telling ---- */

static void tell_status(const struct serve_wait *wait, const struct notify *notify,
                        const char *before)
{
    size_t count = pool_count(wait->pool), ready = 0;
    struct sched_stats stats;
    struct pool_view view;

    for (size_t i = 0; i < count; i++)
        ready += pool_view(wait->pool, i, &view) && view.state == POOL_READY;
    pool_get_stats(wait->pool, &stats);
    notify_send(notify,
                "%sSTATUS=%zu of %zu models loaded; %llu running, %llu waiting, %llu answered",
                before, ready, count, (unsigned long long)stats.active,
                (unsigned long long)stats.queued, (unsigned long long)stats.finished);
}

/* One check. */
static void look(const struct serve_wait *wait, const struct notify *notify, uint64_t watchdog_ns)
{
    bool alive = watchdog_ns > 0 && pool_alive(wait->pool, watchdog_ns);

    if (watchdog_ns > 0 && !alive)
        LOG_ERROR(wait->cli->log, "serve",
                  "an engine does not respond; systemd's watchdog is no longer notified");
    tell_status(wait, notify, alive ? "WATCHDOG=1\n" : "");
}

void serve_wait(const struct serve_wait *wait)
{
    const struct cli_setup *setup = wait->cli->setup;
    uint64_t wait_ns = UINT64_MAX, watchdog_ns = 0;
    struct notify notify;
    int signal;

    notify_open(&notify, cli_env(setup, "NOTIFY_SOCKET"));
    if (notify.fd >= 0) {
        watchdog_ns = notify_watchdog_ns(cli_env(setup, "WATCHDOG_USEC"),
                                         cli_env(setup, "WATCHDOG_PID"), getpid());
        wait_ns = STATUS_S * NS_PER_S;
        if (watchdog_ns > 0)
            wait_ns = MIN(wait_ns, watchdog_ns / 2);
    }
    tell_status(wait, &notify, "READY=1\n");
    while ((signal = wait_signal(wait->signals, wait_ns)) == 0 ||
           (signal == SIGHUP && !wait->terminal)) {
        if (signal == SIGHUP)
            reload(wait, &notify);
        else
            look(wait, &notify, watchdog_ns);
    }
    LOG_INFO(wait->cli->log, "serve",
             "shutting down after the running requests; a second signal ends at once",
             LOG_STR("signal", strsignal(signal)));
    notify_send(&notify, "STOPPING=1\nSTATUS=Finishing what runs.");
    notify_close(&notify);
}

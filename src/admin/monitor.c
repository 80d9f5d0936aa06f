/*
 * monitor.c: see the header.
 *
 * The sums of all runs are those read at the start plus those of this run, so nothing is added
 * twice. A run without a request writes nothing. The file, all numbers little-endian:
 *
 *      0   8      magic "HEARTHTL"
 *      8   4      version, 1
 *      12  4      number n of sums
 *      16  8      wall time in seconds that they began at
 *      24  8 * n  sums, in the order of TALLY_TABLE
 *      ..  32     BLAKE3 of all bytes before it
 *
 * Valid if and only if magic and version match, the size is exactly that of n sums, and the hash
 * matches. A file of an older program has fewer sums: the rest are 0. One of a newer program has
 * more, which are lost with the next write: better than refusing the file.
 */
#include "admin/monitor.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "dialect/usage.h"

enum {
    FILE_BYTES_MAX = 64 * 1024,
    FILE_MODE = 0600,
    VERSION = 1,
    HEAD_BYTES = 24,
    SUM_BYTES = 8,
    SUMS_MAX = 256,
};

#define STEP_NS (HISTORY_STEP_S * NS_PER_S)

static const char file_name[] = "stats";
static const char magic[8] = {'H', 'E', 'A', 'R', 'T', 'H', 'T', 'L'};

/* ---- counters ---- */

static uint64_t add(uint64_t a, uint64_t b)
{
    return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

void tally_add(struct tally *sum, const struct tally *more)
{
#define X(field) sum->field = add(sum->field, more->field);
    TALLY_TABLE(X)
#undef X
}

struct tally tally_of(const struct gen_usage *usage)
{
    return (struct tally){
        .prompt = usage->prompt,
        .device = usage->device,
        .ram = usage->ram,
        .ssd = usage->ssd,
        .remote = usage->remote,
        .computed = usage->computed,
        .generated = usage->generated,
        .twice = usage->twice,
        .drafted = usage->drafted,
        .accepted = usage->accepted,
    };
}

uint64_t tally_reused(const struct tally *sum)
{
    return add(add(sum->device, sum->ram), add(sum->ssd, sum->remote));
}

double tally_efficiency(const struct tally *sum)
{
    return sum->prompt > 0 ? (double)tally_reused(sum) / (double)sum->prompt : 0;
}

double tally_saved_s(const struct tally *sum)
{
    return (double)(sum->reused_ns - MIN(sum->restore_ns, sum->reused_ns)) / (double)NS_PER_S;
}

void tally_write(struct json *json, const struct tally *sum)
{
    json_key_uint(json, "requests", sum->requests);
    json_key_uint(json, "prompt_tokens", sum->prompt);
    json_key_open(json, "tokens", '{');
    json_key_uint(json, "device", sum->device);
    json_key_uint(json, "ram", sum->ram);
    json_key_uint(json, "ssd", sum->ssd);
    json_key_uint(json, "remote", sum->remote);
    json_key_uint(json, "computed", sum->computed);
    json_close(json, '}');
    json_key_uint(json, "computed_twice", sum->twice);
    json_key_uint(json, "prefill_tokens", sum->prefilled);
    json_key_uint(json, "generated_tokens", sum->generated);
    json_key_uint(json, "draft_tokens", sum->drafted);
    json_key_uint(json, "draft_tokens_accepted", sum->accepted);
    json_key_float(json, "prefill_s", (double)sum->prefill_ns / (double)NS_PER_S);
    json_key_float(json, "decode_s", (double)sum->decode_ns / (double)NS_PER_S);
    json_key_float(json, "restore_s", (double)sum->restore_ns / (double)NS_PER_S);
    json_key_float(json, "efficiency", tally_efficiency(sum));
    json_key_float(json, "saved_s", tally_saved_s(sum));
}

/* ---- counters as a file ---- */

enum err tally_encode(struct buf *out, const struct tally *sum, uint64_t since_s)
{
    const uint64_t sums[] = {
#define X(field) sum->field,
        TALLY_TABLE(X)
#undef X
    };
    uint8_t bytes[HEAD_BYTES + COUNT_OF(sums) * SUM_BYTES];

    memcpy(bytes, magic, sizeof(magic));
    le_put_u32(bytes + 8, VERSION);
    le_put_u32(bytes + 12, COUNT_OF(sums));
    le_put_u64(bytes + 16, since_s);
    for (size_t i = 0; i < COUNT_OF(sums); i++)
        le_put_u64(bytes + HEAD_BYTES + i * SUM_BYTES, sums[i]);
    buf_append(out, bytes, sizeof(bytes));
    if (out->err != ERR_OK)
        return out->err;
    struct hash256 hash = hash256_of(out->data, out->len);
    return buf_append(out, hash.bytes, sizeof(hash.bytes));
}

/* The number of sums, or SIZE_MAX: not our file, or damaged. */
static size_t check(struct str bytes)
{
    struct hash256 hash, stored;

    if (bytes.len < HEAD_BYTES + HASH256_BYTES || memcmp(bytes.ptr, magic, sizeof(magic)) != 0 ||
        le_get_u32(bytes.ptr + 8) != VERSION)
        return SIZE_MAX;
    size_t count = le_get_u32(bytes.ptr + 12);
    if (count > SUMS_MAX || bytes.len != HEAD_BYTES + count * SUM_BYTES + HASH256_BYTES)
        return SIZE_MAX;
    hash = hash256_of(bytes.ptr, bytes.len - HASH256_BYTES);
    memcpy(stored.bytes, bytes.ptr + bytes.len - HASH256_BYTES, HASH256_BYTES);
    return hash256_eq(&hash, &stored) ? count : SIZE_MAX;
}

enum err tally_decode(struct str bytes, struct tally *sum, uint64_t *since_s)
{
    size_t count = check(bytes), at = 0;

    if (count == SIZE_MAX)
        return ERR_CORRUPT;
    *sum = (struct tally){0};
    *since_s = le_get_u64(bytes.ptr + 16);
#define X(field)    \
    if (at < count) \
        sum->field = le_get_u64(bytes.ptr + HEAD_BYTES + at++ * SUM_BYTES);
    TALLY_TABLE(X)
#undef X
    /* a file of a version that did not count them */
    if (count <= TALLY_prefilled)
        sum->prefilled = sum->computed;
    if (count <= TALLY_reused_ns && sum->prefilled > 0)
        sum->reused_ns = (uint64_t)((double)tally_reused(sum) * (double)sum->prefill_ns /
                                    (double)sum->prefilled);
    return ERR_OK;
}

/* ---- the last hour ---- */

void history_init(struct history *history, uint64_t now_ns)
{
    memset(history, 0, sizeof(*history));
    history->begin_ns = now_ns;
}

/* The current step; skipped steps are empty. */
static struct tally *step_now(struct history *history, uint64_t now_ns)
{
    uint64_t step = (now_ns - MIN(history->begin_ns, now_ns)) / STEP_NS;

    if (step > history->last + HISTORY_STEPS) /* all steps are outdated: once around is enough */
        history->last = step - HISTORY_STEPS;
    while (history->last < step)
        history->steps[++history->last % HISTORY_STEPS] = (struct tally){0};
    return &history->steps[history->last % HISTORY_STEPS];
}

void history_add(struct history *history, uint64_t now_ns, const struct tally *more)
{
    tally_add(step_now(history, now_ns), more);
}

static size_t held(const struct history *history)
{
    return (size_t)MIN(history->last + 1, HISTORY_STEPS);
}

static const struct tally *step_at(const struct history *history, size_t back)
{
    return &history->steps[(history->last - back) % HISTORY_STEPS];
}

double history_sum(struct history *history, uint64_t now_ns, uint32_t seconds, struct tally *sum)
{
    size_t count = MAX(seconds / HISTORY_STEP_S, 1);

    (void)step_now(history, now_ns);
    count = MIN(count, held(history));
    *sum = (struct tally){0};
    for (size_t back = 0; back < count; back++)
        tally_add(sum, step_at(history, back));
    /* The steps before the current one are complete, the current one partly elapsed. */
    uint64_t first_ns = history->begin_ns + (history->last + 1 - count) * STEP_NS;
    double passed_s = (double)(now_ns - MIN(first_ns, now_ns)) / (double)NS_PER_S;
    return MAX(passed_s, 1.0);
}

void history_write(struct json *json, struct history *history, uint64_t now_ns, uint64_t wall_s)
{
    (void)step_now(history, now_ns);
    size_t count = held(history);
    uint64_t age_s = (now_ns - MIN(history->begin_ns + history->last * STEP_NS, now_ns)) / NS_PER_S;
    uint64_t running_s = wall_s - MIN(age_s, wall_s);

    json_key_uint(json, "step_s", HISTORY_STEP_S);
    json_key_open(json, "t", '[');
    for (size_t back = count; back > 0; back--)
        json_uint(json, running_s - MIN((back - 1) * HISTORY_STEP_S, running_s));
    json_close(json, ']');
#define X(field)                                            \
    json_key(json, #field);                                 \
    json_open(json, '[');                                   \
    for (size_t back = count; back > 0; back--)             \
        json_uint(json, step_at(history, back - 1)->field); \
    json_close(json, ']');
    X(device) X(ram) X(ssd) X(remote) X(computed) X(generated) X(requests)
#undef X
}

/* ---- the last requests ---- */

void recent_add(struct recent *recent, const struct recent_call *call)
{
    recent->calls[recent->count++ % RECENT_MAX] = *call;
}

void recent_write_tokens(struct json *json, const struct gen_usage *usage)
{
    json_key_open(json, "tokens", '{');
    usage_write_sources(json, usage);
    json_close(json, '}');
}

void recent_write_message(struct json *json, enum role role, uint32_t message)
{
    char text[32];

    snprintf(text, sizeof(text), "%s[%u]", role_name(role), message);
    json_key_text(json, "message", role != ROLE_NONE ? text : NULL);
}

void recent_write_call(struct json *json, const struct recent_call *call, bool words)
{
    json_open(json, '{');
    json_key_text(json, "id", call->id);
    json_key_text(json, "endpoint", call->endpoint);
    json_key_text(json, "model", call->model);
    json_key_text(json, "tenant", call->tenant);
    json_key_text(json, "client", call->client);
    if (words)
        json_key_text(json, "words", call->words);
    json_key_float(json, "when", call->when_s);
    json_key_uint(json, "prompt_tokens", call->usage.prompt);
    recent_write_tokens(json, &call->usage);
    json_key_uint(json, "generated_tokens", call->usage.generated);
    json_key_text(json, "reason", hearth_reason_name(call->usage.reason));
    json_key_text(json, "match", hearth_match_name(call->usage.match));
    json_key_uint(json, "first_difference", call->usage.first_difference);
    json_key_bool(json, "new_conversation", call->usage.new_conversation);
    json_key_text(json, "later_snapshot",
                  call->usage.later != GEN_LATER_NONE ? gen_later_name(call->usage.later) : NULL);
    recent_write_message(json, call->role, call->message);
    json_key_float(json, "ttft_s", call->ttft_s);
    json_key_float(json, "tokens_per_s", call->tokens_per_s);
    json_key_float(json, "compute_s", call->usage.compute_s);
    json_key_float(json, "seconds", call->seconds);
    json_key_uint(json, "status", call->status);
    json_close(json, '}');
}

void recent_write(struct json *json, const struct recent *recent, bool words)
{
    uint64_t held = MIN(recent->count, RECENT_MAX);

    json_open(json, '[');
    for (uint64_t back = 1; back <= held; back++)
        recent_write_call(json, &recent->calls[(recent->count - back) % RECENT_MAX], words);
    json_close(json, ']');
}

/* ---- all of it ---- */

struct model_history {
    char name[RECENT_NAME_BYTES];
    struct history history;
};

struct monitor {
    struct monitor_options options;
    uint64_t started_ns, started_s; /* monotonic, wall */
    struct tally past;              /* of earlier runs */
    uint64_t since_s;

    struct thread thread;
    struct lock lock;
    struct cond changed;
    bool closing GUARDED_BY(lock);
    struct tally session GUARDED_BY(lock);
    struct history history GUARDED_BY(lock);
    struct recent recent GUARDED_BY(lock);
    struct model_history *models[MONITOR_MODELS_MAX] GUARDED_BY(lock); /* in order of first use */
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

    monitor->since_s = monitor->started_s;
    if (!options->fs)
        return;
    enum err err =
        file_read_all(options->fs, options->dir, file_name, FILE_BYTES_MAX, &data, &len, &info);
    if (err == ERR_NOT_FOUND)
        return;
    if (err == ERR_OK)
        err = tally_decode((struct str){data, len}, &monitor->past, &monitor->since_s);
    if (err != ERR_OK)
        LOG_WARN(options->log, "api", "the all-time totals cannot be read and restart at zero",
                 LOG_STR("file", file_name),
                 LOG_STR("reason", info.text[0] ? info.text : err_sentence(err)));
    mem_free(data);
}

enum err monitor_save(struct monitor *monitor, struct errinfo *info)
{
    const struct monitor_options *options = &monitor->options;
    struct monitor_view view;
    struct buf bytes;

    if (!options->fs)
        return ERR_OK;
    monitor_get_view(monitor, &view);
    buf_init(&bytes, FILE_BYTES_MAX);
    enum err err = tally_encode(&bytes, &view.all, view.since_s);
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

/* ---- the thread ---- */

/* True: stopping. */
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
    struct errinfo info = {0};

    lock_enter(&monitor->lock);
    bool unsaved = monitor->session.requests != monitor->saved_requests;
    lock_leave(&monitor->lock);
    if (unsaved && monitor_save(monitor, &info) != ERR_OK)
        LOG_WARN(monitor->options.log, "api", "the all-time totals cannot be saved",
                 LOG_STR("reason", info.text));
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

    monitor->options = *options;
    monitor->started_ns = now_ns(monitor);
    monitor->started_s = wall_s(monitor);
    lock_init(&monitor->lock, "monitor", LOCK_RANK_MONITOR);
    cond_init(&monitor->changed);
    history_init(&monitor->history, monitor->started_ns);
    load(monitor);
    enum err err = thread_start(&monitor->thread, "api-monitor", run, monitor, info);
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
    thread_join(&monitor->thread); /* saves the sums */
    cond_fini(&monitor->changed);
    lock_fini(&monitor->lock);
    for (size_t i = 0; i < MONITOR_MODELS_MAX; i++)
        mem_free(monitor->models[i]);
    mem_free(monitor);
    *out = NULL;
}

/* ---- counting ---- */

void monitor_count_tokens(struct monitor *monitor, const struct gen_usage *usage)
{
    struct tally tokens = tally_of(usage);
    uint64_t now = now_ns(monitor);

    lock_enter(&monitor->lock);
    tally_add(&monitor->session, &tokens);
    history_add(&monitor->history, now, &tokens);
    lock_leave(&monitor->lock);
}

/* The history of a model, or NULL; created if `create` and there is room. */
static struct history *history_of_locked(struct monitor *monitor, const char *model, bool create)
    REQUIRES(lock)
{
    size_t i = 0;

    while (i < MONITOR_MODELS_MAX && monitor->models[i] &&
           strcmp(monitor->models[i]->name, model) != 0)
        i++;
    if (i == MONITOR_MODELS_MAX)
        return NULL;
    if (!monitor->models[i] && create) {
        monitor->models[i] = mem_alloc(sizeof(*monitor->models[i]));
        snprintf(monitor->models[i]->name, sizeof(monitor->models[i]->name), "%s", model);
        history_init(&monitor->models[i]->history, monitor->started_ns);
    }
    return monitor->models[i] ? &monitor->models[i]->history : NULL;
}

void monitor_count_call(struct monitor *monitor, const struct recent_call *call)
{
    const struct tally request = {.requests = 1};
    uint64_t now = now_ns(monitor);

    lock_enter(&monitor->lock);
    tally_add(&monitor->session, &request);
    history_add(&monitor->history, now, &request);
    recent_add(&monitor->recent, call);
    struct history *history = history_of_locked(monitor, call->model, true);
    if (history) {
        struct tally tokens = tally_of(&call->usage);
        tally_add(&tokens, &request);
        history_add(history, now, &tokens);
    }
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

double monitor_sum(struct monitor *monitor, uint32_t seconds, struct tally *sum)
{
    uint64_t now = now_ns(monitor);

    lock_enter(&monitor->lock);
    double passed_s = history_sum(&monitor->history, now, seconds, sum);
    lock_leave(&monitor->lock);
    return passed_s;
}

double monitor_sum_model(struct monitor *monitor, const char *model, uint32_t seconds,
                         struct tally *sum)
{
    uint64_t now = now_ns(monitor);

    *sum = (struct tally){0};
    lock_enter(&monitor->lock);
    struct history *history = history_of_locked(monitor, model, false);
    double passed_s = history ? history_sum(history, now, seconds, sum) : 0;
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

void monitor_write_recent(struct monitor *monitor, struct json *json, bool words)
{
    struct recent *copy = mem_alloc(sizeof(*copy));

    lock_enter(&monitor->lock);
    *copy = monitor->recent;
    lock_leave(&monitor->lock);
    recent_write(json, copy, words);
    mem_free(copy);
}

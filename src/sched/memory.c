/*
 * memory.c: see the header.
 *
 * The lock is a leaf: neither the cache nor a measurement is called with it held. The cap of the
 * RAM tier is decided under the lock and applied without it, by one thread at a time. A thread that
 * decides meanwhile leaves the work to that thread (apply_ram).
 */
#include "sched/memory.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sysinfo.h"
#include "base/units.h"
#include "engine/engine.h"

enum { RAM_FLOOR_SHARE = 16, RAM_STEP_SHARE = 32, NAME_BYTES = 64 };

static const uint64_t poll_default_ns = 100 * NS_PER_MS, trim_ns = NS_PER_S;

struct memory {
    struct memory_options options;
    struct lock lock;
    struct guard_limits limits GUARDED_BY(lock);
    struct guard_reading reading GUARDED_BY(lock);
    enum guard_level level GUARDED_BY(lock);
    uint64_t ram_cap GUARDED_BY(lock);
    bool ram_moving GUARDED_BY(lock); /* a thread is applying the cap */
    uint64_t polled_ns GUARDED_BY(lock), trimmed_ns GUARDED_BY(lock);
    uint64_t epoch GUARDED_BY(lock);
    size_t members GUARDED_BY(lock), claimants GUARDED_BY(lock);
    uint64_t outside GUARDED_BY(lock); /* of all members: measured in their own processes */
    uint64_t device_used GUARDED_BY(lock), device_total GUARDED_BY(lock);
    uint64_t device_models GUARDED_BY(lock);
    /* Relaxed: each is a figure of its own, for a thread that must not wait for the lock. */
    _Atomic uint64_t bodies, bodies_room;
    uint64_t refused GUARDED_BY(lock), turned_away GUARDED_BY(lock), deferred GUARDED_BY(lock);
    uint64_t shrunk GUARDED_BY(lock), ended GUARDED_BY(lock), ram_moves GUARDED_BY(lock);
};

struct memory_member {
    struct memory *memory;
    char name[NAME_BYTES];
    struct guard_model model;
    uint64_t touched GUARDED_BY(memory->lock); /* of model.compute, by runs */
    uint64_t held GUARDED_BY(memory->lock), claimed GUARDED_BY(memory->lock);
    uint64_t outside GUARDED_BY(memory->lock);
    void (*observe)(struct memory_outside *outside,
                    void *arg); /* with its argument and time: owned by the polling thread */
    void *observe_arg;
    uint64_t observed_ns;
};

/* ---- life ---- */

struct memory *memory_create(const struct memory_options *options)
{
    struct memory *memory = mem_alloc(sizeof(*memory));
    struct memory_options *own = &memory->options;

    *own = *options;
    own->poll_ns = own->poll_ns > 0 ? own->poll_ns : poll_default_ns;
    own->clock = own->clock != NULL ? own->clock : clock_real();
    own->ram_bytes = own->cache != NULL ? own->ram_bytes : 0;
    own->ram_floor = own->ram_floor > 0 ? own->ram_floor : own->ram_bytes / RAM_FLOOR_SHARE;
    memory->limits = guard_limits_of(own->ceiling, own->ram_bytes, own->ram_floor);
    memory->ram_cap = own->ram_bytes;
    atomic_init(&memory->bodies, 0);
    atomic_init(&memory->bodies_room, guard_bodies_room(&memory->limits, &memory->reading));
    lock_init(&memory->lock, "memory", LOCK_RANK_BUDGET);
    return memory;
}

void memory_destroy(struct memory **memory)
{
    if (*memory == NULL)
        return;
    assert((*memory)->members == 0);
    lock_fini(&(*memory)->lock);
    mem_free(*memory);
    *memory = NULL;
}

/* ---- reading ---- */

/* Reads measurements and cache statistics, without the lock. */
static struct guard_reading ask_others(const struct memory *memory)
{
    const struct memory_options *options = &memory->options;
    struct hearth_stats stats = {.struct_size = sizeof(stats)};
    struct guard_reading reading = {0};

    if (options->cache != NULL)
        hearth_get_stats(options->cache, NULL, &stats);
    reading.ram_used = stats.bytes_memory;
    reading.process = options->process != NULL ? options->process(options->arg) : 0;
    reading.available = options->available != NULL ? options->available(options->arg) : 0;
    return reading;
}

static void take_reading_locked(struct memory *memory, const struct guard_reading *now)
    REQUIRES(lock)
{
    struct guard_reading *reading = &memory->reading;

    lock_assert_held(&memory->lock);
    reading->ram_used = now->ram_used;
    reading->process = now->process + memory->outside;
    reading->available = now->available;
    reading->bodies = atomic_load_explicit(&memory->bodies, memory_order_relaxed);
    bool over = guard_level(&memory->limits, reading) == GUARD_OVER;
    reading->over = over ? reading->over + 1 : 0;
}

static void log_pressure(const struct memory *memory, enum guard_level from,
                         const struct memory_view *view)
{
    char used[UNITS_TEXT_BYTES], soft[UNITS_TEXT_BYTES], hard[UNITS_TEXT_BYTES],
        ceiling[UNITS_TEXT_BYTES], ram[UNITS_TEXT_BYTES];

    log_text(
        memory->options.log, view->level > from ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "memory",
        "pressure %s -> %s (in use %s, soft %s, hard %s, ceiling %s; RAM tier up to %s)",
        guard_level_name(from), guard_level_name(view->level), units_format_size(view->used, used),
        units_format_size(view->limits.soft, soft), units_format_size(view->limits.hard, hard),
        units_format_size(view->limits.ceiling, ceiling), units_format_size(view->ram_cap, ram));
}

/* ---- the RAM tier ---- */

/* Shrinks at once, grows in steps: growing by a little is not worth the work. */
static bool choose_cap_locked(struct memory *memory) REQUIRES(lock)
{
    uint64_t cap = guard_ram_cap(&memory->limits, &memory->reading);
    bool enough = cap == memory->limits.ram_wanted ||
                  cap > memory->ram_cap + memory->limits.ram_wanted / RAM_STEP_SHARE;

    lock_assert_held(&memory->lock);
    if (cap == memory->ram_cap || (cap > memory->ram_cap && !enough))
        return false;
    memory->ram_cap = cap;
    memory->ram_moves++;
    return true;
}

/* Applies the last chosen cap, even if another is chosen meanwhile. */
static void apply_ram(struct memory *memory)
{
    uint64_t cap, done;

    lock_enter(&memory->lock);
    if (memory->ram_moving || memory->options.cache == NULL) {
        lock_leave(&memory->lock);
        return;
    }
    memory->ram_moving = true;
    do {
        cap = memory->ram_cap;
        lock_leave(&memory->lock);
        hearth_set_ram_bytes(memory->options.cache, cap);
        lock_enter(&memory->lock);
        done = memory->ram_cap;
    } while (done != cap);
    memory->ram_moving = false;
    lock_leave(&memory->lock);
}

static void fill_view_locked(const struct memory *memory, struct memory_view *view) REQUIRES(lock)
{
    *view = (struct memory_view){
        .limits = memory->limits,
        .reading = memory->reading,
        .level = memory->level,
        .used = guard_used(&memory->reading),
        .ram_cap = memory->ram_cap,
        .device_used = memory->device_used,
        .device_total = memory->device_total,
        .device_models = memory->device_models,
        .refused = memory->refused,
        .turned_away = memory->turned_away,
        .deferred = memory->deferred,
        .shrunk = memory->shrunk,
        .ended = memory->ended,
        .ram_moves = memory->ram_moves,
    };
}

/* After any change of the reading: updates the level and the RAM tier. Releases the lock. */
static void account_and_leave(struct memory *memory)
{
    enum guard_level before = memory->level;
    struct memory_view view;
    bool move;

    lock_assert_held(&memory->lock);
    memory->level = guard_level(&memory->limits, &memory->reading);
    atomic_store_explicit(&memory->bodies_room,
                          guard_bodies_room(&memory->limits, &memory->reading),
                          memory_order_relaxed);
    memory->epoch += memory->level < before;
    move = choose_cap_locked(memory);
    fill_view_locked(memory, &view);
    lock_leave(&memory->lock);
    if (view.level != before)
        log_pressure(memory, before, &view);
    if (move)
        apply_ram(memory);
}

void memory_observe(struct memory_member *member,
                    void (*fn)(struct memory_outside *outside, void *arg), void *arg)
{
    if (member == NULL)
        return;
    member->observe = fn;
    member->observe_arg = arg;
}

/* Every member sees the same devices: the last one to look is right. */
static void set_outside(struct memory_member *member, const struct memory_outside *now)
{
    struct memory *memory = member->memory;

    lock_enter(&memory->lock);
    memory->outside += now->process - member->outside;
    member->outside = now->process;
    if (now->device_total > 0) {
        memory->device_total = now->device_total;
        memory->device_used = now->device_total - now->device_free;
    }
    lock_leave(&memory->lock);
}

/* The model's own process, polled as often as this one. */
static void look_outside(struct memory_member *member, uint64_t now_ns)
{
    bool due =
        member->observed_ns == 0 || now_ns - member->observed_ns >= member->memory->options.poll_ns;

    if (member->observe == NULL || !due)
        return;
    member->observed_ns = MAX(now_ns, 1);
    struct memory_outside now = {0};
    member->observe(&now, member->observe_arg);
    set_outside(member, &now);
}

/* The floor stays as it was unless the new size is smaller. */
void memory_set_ram(struct memory *memory, uint64_t ram_bytes)
{
    lock_enter(&memory->lock);
    memory->limits = guard_limits_of(memory->limits.ceiling, ram_bytes,
                                     MIN(memory->limits.ram_floor, ram_bytes));
    account_and_leave(memory);
}

void memory_poll(struct memory_member *member)
{
    struct memory *memory = member != NULL ? member->memory : NULL;
    bool due;

    if (memory == NULL)
        return;
    uint64_t now_ns = clock_mono_ns(memory->options.clock);
    look_outside(member, now_ns);
    lock_enter(&memory->lock);
    due = memory->polled_ns == 0 || now_ns - memory->polled_ns >= memory->options.poll_ns;
    if (due)
        memory->polled_ns = MAX(now_ns, 1);
    uint64_t ceiling = memory->limits.ceiling;
    bool may_trim = memory->trimmed_ns == 0 || now_ns - memory->trimmed_ns >= trim_ns;
    lock_leave(&memory->lock);
    if (!due)
        return;
    struct guard_reading reading = ask_others(memory);
    bool trim = ceiling > 0 && reading.process > ceiling && may_trim;
    if (trim) {
        sysinfo_memory_trim(); /* of requests that have ended */
        reading = ask_others(memory);
    }
    lock_enter(&memory->lock);
    if (trim)
        memory->trimmed_ns = MAX(now_ns, 1);
    take_reading_locked(memory, &reading);
    account_and_leave(memory);
}

/* ---- members ---- */

struct guard_model memory_model_of(const struct engine_facts *facts)
{
    return (struct guard_model){
        .weights = facts->weights_bytes,
        .cells = facts->kv_bytes,
        .cell_bytes = facts->rows_bytes_per_token,
        .sequence_bytes = facts->snapshot_bytes_max,
        .device = facts->device_bytes,
        .compute = facts->compute_bytes,
        .chunk = facts->chunk,
        .context = facts->context,
    };
}

static enum err too_large(const char *name, const struct guard_model *model, uint64_t others,
                          uint64_t ceiling, struct errinfo *info)
{
    char weights[UNITS_TEXT_BYTES], cells[UNITS_TEXT_BYTES], rest[UNITS_TEXT_BYTES],
        limit[UNITS_TEXT_BYTES];

    return err_set(
        info, ERR_LIMIT,
        "%s needs %s for its weights and %s for its context, beside %s in use; the ceiling is %s. "
        "Use a smaller --ctx-size or a larger --max-memory",
        name, units_format_size(model->weights, weights), units_format_size(model->cells, cells),
        units_format_size(others, rest), units_format_size(ceiling, limit));
}

/* With its first model loaded, the process itself is already above a ceiling that was set. */
static bool is_above_locked(const struct memory *memory, uint64_t process) REQUIRES(lock)
{
    lock_assert_held(&memory->lock);
    return !memory->options.guessed && memory->limits.ceiling > 0 && memory->members == 0 &&
           process > memory->limits.ceiling;
}

/* The first model is loaded and no request runs: the rest of the process is there to stay. Where
 * no ceiling was set, or the model has a process of its own, this decides nothing. */
static void set_base_locked(struct memory *memory, const struct guard_reading *now) REQUIRES(lock)
{
    uint64_t known = memory->reading.fixed + now->ram_used;
    bool counts = !memory->options.guessed && now->process > known;

    lock_assert_held(&memory->lock);
    memory->reading.base = counts ? now->process - known : 0;
}

static enum err process_too_large(const char *name, uint64_t process, uint64_t ceiling,
                                  struct errinfo *info)
{
    char has[UNITS_TEXT_BYTES], limit[UNITS_TEXT_BYTES];

    return err_set(info, ERR_LIMIT,
                   "with %s loaded the process takes %s, and the ceiling is %s. Use a smaller "
                   "--ctx-size or a larger --max-memory",
                   name, units_format_size(process, has), units_format_size(ceiling, limit));
}

/* A guessed ceiling must not reject a model that the user asked for. The new set of limits is
 * created as a whole. */
static bool lift_ceiling_locked(struct memory *memory, uint64_t fixed) REQUIRES(lock)
{
    const struct guard_limits *limits = &memory->limits;
    uint64_t need = memory->reading.fixed + fixed;

    lock_assert_held(&memory->lock);
    if (!memory->options.guessed || need < fixed || need > UINT64_MAX / 2)
        return false;
    memory->limits =
        guard_limits_of(need + need / 4 + limits->ram_floor, limits->ram_wanted, limits->ram_floor);
    return true;
}

enum err memory_join(struct memory *memory, const char *name, const struct guard_model *model,
                     struct memory_member **out, struct errinfo *info)
{
    static const struct guard_need nothing = {0};
    struct memory_member *member;
    uint64_t fixed = guard_model_fixed(model);

    *out = NULL;
    if (memory == NULL)
        return ERR_OK;
    struct guard_reading now = ask_others(memory);
    member = mem_alloc(sizeof(*member));
    member->memory = memory;
    member->model = *model;
    snprintf(member->name, sizeof(member->name), "%s", name);
    lock_enter(&memory->lock);
    uint64_t others = memory->reading.fixed, ceiling = memory->limits.ceiling;
    bool fits =
        fixed <= UINT64_MAX - others && guard_fits(&memory->limits, others + fixed, &nothing);
    bool above = fits && is_above_locked(memory, now.process);
    if (above || (!fits && !lift_ceiling_locked(memory, fixed))) {
        lock_leave(&memory->lock);
        mem_free(member);
        return above ? process_too_large(name, now.process, ceiling, info)
                     : too_large(name, model, others, ceiling, info);
    }
    memory->reading.fixed += fixed;
    if (memory->members == 0)
        set_base_locked(memory, &now);
    memory->device_models += model->device;
    memory->members++;
    account_and_leave(memory);
    if (!fits)
        LOG_WARN(memory->options.log, "memory",
                 "more than the machine seems to have; --max-memory sets a ceiling",
                 LOG_STR("model", name), LOG_UINT("bytes", others + fixed));
    *out = member;
    return ERR_OK;
}

void memory_leave(struct memory_member **out)
{
    struct memory_member *member = *out;

    *out = NULL;
    if (member == NULL)
        return;
    struct memory *memory = member->memory;
    set_outside(member, &(struct memory_outside){0});
    lock_enter(&memory->lock);
    assert(member->held == 0 && member->claimed == 0); /* a leak (I73) */
    memory->reading.fixed -= guard_model_fixed(&member->model);
    memory->device_models -= member->model.device;
    memory->device_used -= MIN(member->model.device, memory->device_used); /* until the next look */
    memory->members--;
    memory->epoch++;
    account_and_leave(memory);
    mem_free(member);
}

/* ---- requests ---- */

struct guard_need memory_need(struct memory_member *member, uint32_t cached, uint32_t fresh,
                              uint32_t answer)
{
    struct guard_ask ask = {
        .cached = cached, .fresh = fresh, .answer = answer, .chunk = GUARD_CHUNK_FLOOR};

    return member != NULL ? guard_need_of(&member->model, &ask) : (struct guard_need){0};
}

/* The figures add up, in the units that are shown but for rounding. */
static enum err never_fits(const struct memory_view *view, const struct guard_need *need,
                           const char *what, enum err err, struct errinfo *info)
{
    const struct guard_limits *limits = &view->limits;
    char claim[UNITS_TEXT_BYTES], records[UNITS_TEXT_BYTES], models[UNITS_TEXT_BYTES],
        base[UNITS_TEXT_BYTES], cache[UNITS_TEXT_BYTES], total[UNITS_TEXT_BYTES],
        ceiling[UNITS_TEXT_BYTES], claims[UNITS_TEXT_BYTES + 40] = "";

    if (need->claim > 0) /* an engine may not report what it needs */
        snprintf(claims, sizeof(claims), "%s to be %s and ", units_format_size(need->claim, claim),
                 what);
    return err_set(
        info, err,
        "the request needs about %s%s for its text and tokens, beside %s of the models, %s of the "
        "program and %s of the cache: %s, and the memory ceiling is %s",
        claims, units_format_size(guard_records(limits, need), records),
        units_format_size(view->reading.fixed, models), units_format_size(view->reading.base, base),
        units_format_size(limits->ram_floor, cache),
        units_format_size(guard_least(limits, guard_idle(&view->reading), need), total),
        units_format_size(limits->ceiling, ceiling));
}

enum err memory_check(struct memory_member *member, const struct guard_need *need,
                      struct errinfo *info)
{
    struct memory_view view;

    if (member == NULL)
        return ERR_OK;
    struct memory *memory = member->memory;
    lock_enter(&memory->lock);
    bool fits = guard_fits(&memory->limits, guard_idle(&memory->reading), need);
    memory->refused += !fits;
    fill_view_locked(memory, &view);
    lock_leave(&memory->lock);
    if (fits)
        return ERR_OK;
    return never_fits(&view, need, "computed", ERR_NOMEM, info);
}

bool memory_fits(struct memory_member *member, const struct guard_need *need)
{
    if (member == NULL)
        return true;
    struct memory *memory = member->memory;
    lock_enter(&memory->lock);
    bool fits = guard_fits(&memory->limits, guard_idle(&memory->reading), need);
    lock_leave(&memory->lock);
    return fits;
}

bool memory_hold(struct memory_member *member, uint64_t records)
{
    if (member == NULL)
        return true;
    struct memory *memory = member->memory;
    lock_enter(&memory->lock);
    bool takes = guard_takes(&memory->limits, &memory->reading, records);
    if (takes) {
        memory->reading.queues += records;
        member->held += records;
    } else {
        memory->turned_away++;
    }
    account_and_leave(memory);
    return takes;
}

void memory_drop(struct memory_member *member, uint64_t records)
{
    if (member == NULL)
        return;
    struct memory *memory = member->memory;
    lock_enter(&memory->lock);
    assert(member->held >= records);
    member->held -= records;
    memory->reading.queues -= records;
    memory->epoch++;
    account_and_leave(memory);
}

enum guard_verdict memory_claim(struct memory_member *member, const struct guard_need *need)
{
    if (member == NULL)
        return GUARD_ADMIT;
    struct memory *memory = member->memory;
    lock_enter(&memory->lock);
    bool alone = memory->claimants == 0 && memory->reading.claims == 0; /* nor is a text charged */
    enum guard_verdict verdict = guard_admit(&memory->limits, &memory->reading, need, alone);
    if (verdict == GUARD_ADMIT) {
        memory->claimants++;
        memory->reading.claims += need->claim;
        member->claimed += need->claim;
    }
    memory->deferred += verdict == GUARD_DEFER;
    memory->refused += verdict == GUARD_REFUSE;
    account_and_leave(memory);
    return verdict;
}

static void take_back(struct memory_member *member, uint64_t bytes, size_t claimants)
{
    if (member == NULL)
        return;
    struct memory *memory = member->memory;
    lock_enter(&memory->lock);
    assert(memory->claimants >= claimants && member->claimed >= bytes);
    memory->claimants -= claimants;
    member->claimed -= bytes;
    memory->reading.claims -= bytes;
    memory->epoch++;
    account_and_leave(memory);
}

void memory_unclaim(struct memory_member *member, uint64_t bytes)
{
    take_back(member, bytes, 1);
}

void memory_uncharge(struct memory_member *member, uint64_t bytes)
{
    take_back(member, bytes, 0);
}

enum err memory_charge(struct memory_member *member, uint64_t bytes, struct errinfo *info)
{
    char wanted[UNITS_TEXT_BYTES], ceiling[UNITS_TEXT_BYTES];
    struct guard_need need = {.claim = bytes, .total = bytes};
    struct memory_view view;

    if (member == NULL)
        return ERR_OK;
    struct memory *memory = member->memory;
    lock_enter(&memory->lock);
    bool alone = memory->reading.claims == 0 && memory->reading.queues == 0;
    enum guard_verdict verdict = guard_admit(&memory->limits, &memory->reading, &need, alone);
    if (verdict == GUARD_ADMIT) {
        memory->reading.claims += bytes;
        member->claimed += bytes;
    }
    memory->refused += verdict == GUARD_REFUSE;
    memory->turned_away += verdict == GUARD_DEFER;
    fill_view_locked(memory, &view);
    account_and_leave(memory);
    if (verdict == GUARD_REFUSE)
        return never_fits(&view, &need, "tokenized", ERR_LIMIT, info);
    if (verdict == GUARD_ADMIT)
        return ERR_OK;
    return err_set(info, ERR_NOMEM,
                   "the text needs about %s of memory to be tokenized, which is not free now; the "
                   "ceiling is %s",
                   units_format_size(bytes, wanted),
                   units_format_size(view.limits.ceiling, ceiling));
}

uint64_t memory_set_bodies(struct memory *memory, uint64_t bytes)
{
    if (memory == NULL)
        return UINT64_MAX;
    atomic_store_explicit(&memory->bodies, bytes, memory_order_relaxed);
    return atomic_load_explicit(&memory->bodies_room, memory_order_relaxed);
}

void memory_assert_promised(struct memory_member *member, uint64_t claims, uint64_t records)
{
    if (member == NULL)
        return;
    lock_enter(&member->memory->lock);
    assert(member->claimed >= claims && member->held >= records);
    assert(member->memory->reading.claims >= member->claimed);
    assert(member->memory->reading.queues >= member->held);
    lock_leave(&member->memory->lock);
}

uint64_t memory_epoch(struct memory_member *member)
{
    if (member == NULL)
        return 0;
    lock_enter(&member->memory->lock);
    uint64_t epoch = member->memory->epoch;
    lock_leave(&member->memory->lock);
    return epoch;
}

/* ---- running ---- */

uint32_t memory_chunk(struct memory_member *member, uint32_t wanted, uint32_t cells)
{
    struct guard_run run = {.wanted = wanted, .cells = cells};

    if (member == NULL)
        return wanted;
    struct memory *memory = member->memory;
    lock_enter(&memory->lock);
    run.touched = member->touched;
    uint32_t chunk = guard_chunk(&memory->limits, &memory->reading, &member->model, &run);
    memory->shrunk += chunk < wanted;
    lock_leave(&memory->lock);
    return chunk;
}

void memory_note_run(struct memory_member *member, uint32_t tokens, uint32_t cells)
{
    if (member == NULL)
        return;
    lock_enter(&member->memory->lock);
    member->touched = MAX(member->touched, guard_compute(&member->model, tokens, cells));
    lock_leave(&member->memory->lock);
}

bool memory_take_over(struct memory_member *member)
{
    if (member == NULL)
        return false;
    struct memory *memory = member->memory;
    lock_enter(&memory->lock);
    bool over = guard_is_over(&memory->limits, &memory->reading);
    if (over) {
        memory->reading.over = 0;
        memory->ended++;
    }
    lock_leave(&memory->lock);
    return over;
}

void memory_explain(struct memory_member *member, struct errinfo *info)
{
    char used[UNITS_TEXT_BYTES], hard[UNITS_TEXT_BYTES], ceiling[UNITS_TEXT_BYTES];
    struct memory_view view;

    if (member == NULL)
        return;
    memory_get_view(member->memory, &view);
    (void)err_set(
        info, ERR_NOMEM,
        "ended for lack of memory: %s are in use, prompts are slow above %s, and the "
        "ceiling is %s; what was computed is kept, try again later, with a shorter prompt, "
        "or with a larger --max-memory",
        units_format_size(view.used, used), units_format_size(view.limits.hard, hard),
        units_format_size(view.limits.ceiling, ceiling));
}

void memory_get_view(struct memory *memory, struct memory_view *view)
{
    lock_enter(&memory->lock);
    fill_view_locked(memory, view);
    lock_leave(&memory->lock);
}

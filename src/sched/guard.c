/*
 * guard.c: see the header. Everything is arithmetic on a few numbers, so that each rule can be
 * tested by one row of a table.
 */
#include "sched/guard.h"

#include "base/attr.h"

enum {
    SOFT_PERCENT = 85,
    HARD_PERCENT = 95,
    /* share of the ceiling for records; smaller than the gap between hard and ceiling, so that
     * requests that arrive after an admission do not push its sum above the ceiling */
    QUEUES_SHARE = 32,
    /* share of the ceiling for bodies: the RAM tier may fill the rest up to soft, and shrinks
     * only with the next reading */
    BODIES_SHARE = 8,
    /* share of the ceiling left to other programs before the RAM tier grows */
    AVAILABLE_SHARE = 16,
};

/* of the machine, when no ceiling is set */
static const uint64_t reserve_max = 4ull << 30, reserve_share = 8;

const char *guard_level_name(enum guard_level level)
{
    static const char *const names[] = {GUARD_LEVEL_TABLE(TABLE_NAME)};

    return (unsigned)level < COUNT_OF(names) ? names[level] : "unknown";
}

/* ---- saturating arithmetic ---- */

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/* ---- limits and readings ---- */

struct guard_limits guard_limits_of(uint64_t ceiling, uint64_t ram_wanted, uint64_t ram_floor)
{
    return (struct guard_limits){
        .ceiling = ceiling,
        .soft = ceiling / 100 * SOFT_PERCENT,
        .hard = ceiling / 100 * HARD_PERCENT,
        .ram_wanted = ram_wanted,
        .ram_floor = MIN(ram_floor, ram_wanted),
        .queues_max = ceiling / QUEUES_SHARE,
        .bodies_max = ceiling / BODIES_SHARE,
        .available_min = ceiling / AVAILABLE_SHARE,
    };
}

uint64_t guard_ceiling_of(uint64_t total, uint64_t available)
{
    return MIN(total - MIN(total / reserve_share, reserve_max), available);
}

static uint64_t ledger(const struct guard_reading *reading)
{
    uint64_t requests = plus(plus(reading->claims, reading->queues), reading->bodies);

    return plus(plus(reading->fixed, requests), reading->ram_used);
}

uint64_t guard_idle(const struct guard_reading *reading)
{
    return plus(reading->fixed, reading->base);
}

uint64_t guard_used(const struct guard_reading *reading)
{
    return MAX(ledger(reading), reading->process);
}

/* Everything but the RAM tier, which can shrink. */
static uint64_t used_by_others(const struct guard_reading *reading)
{
    return minus(guard_used(reading), reading->ram_used);
}

enum guard_level guard_level(const struct guard_limits *limits, const struct guard_reading *reading)
{
    uint64_t used = guard_used(reading);

    if (limits->ceiling == 0 || used < limits->soft)
        return GUARD_OK;
    if (used > limits->ceiling)
        return GUARD_OVER;
    return used < limits->hard ? GUARD_SOFT : GUARD_HARD;
}

bool guard_is_over(const struct guard_limits *limits, const struct guard_reading *reading)
{
    return guard_level(limits, reading) == GUARD_OVER && reading->over >= GUARD_OVER_POLLS;
}

/* ---- what a request needs ---- */

uint64_t guard_model_fixed(const struct guard_model *model)
{
    return minus(plus(model->weights, model->cells), model->device);
}

uint64_t guard_compute(const struct guard_model *model, uint32_t tokens, uint32_t cells)
{
    double whole = (double)model->chunk * model->context, part = (double)tokens * cells;

    if (whole == 0)
        return 0;
    return part < whole ? (uint64_t)((double)model->compute * (part / whole)) : model->compute;
}

struct guard_need guard_need_of(const struct guard_model *model, const struct guard_ask *ask)
{
    uint64_t prompt = (uint64_t)ask->cached + ask->fresh;
    uint32_t cells = (uint32_t)MIN(prompt + ask->answer, UINT32_MAX);
    struct guard_need need = {0};

    if (prompt == 0)
        return need;
    if (model->cells == 0)
        need.cells = plus(times(prompt + ask->answer, model->cell_bytes), model->sequence_bytes);
    need.compute = guard_compute(model, MIN(ask->chunk, ask->fresh), cells);
    need.records = times(prompt + ask->answer, GUARD_RECORD_BYTES);
    need.claim = plus(need.cells, need.compute);
    need.total = plus(need.claim, need.records);
    return need;
}

/* ---- decisions ---- */

uint64_t guard_records(const struct guard_limits *limits, const struct guard_need *need)
{
    return MAX(limits->queues_max, need->records);
}

uint64_t guard_least(const struct guard_limits *limits, uint64_t idle,
                     const struct guard_need *need)
{
    return plus(plus(idle, need->claim), plus(limits->ram_floor, guard_records(limits, need)));
}

bool guard_fits(const struct guard_limits *limits, uint64_t idle, const struct guard_need *need)
{
    return limits->ceiling == 0 || guard_least(limits, idle, need) <= limits->ceiling;
}

enum guard_verdict guard_admit(const struct guard_limits *limits,
                               const struct guard_reading *reading, const struct guard_need *need,
                               bool alone)
{
    uint64_t after = plus(plus(used_by_others(reading), need->claim), limits->ram_floor);

    if (!guard_fits(limits, guard_idle(reading), need))
        return GUARD_REFUSE;
    return limits->ceiling == 0 || alone || after <= limits->hard ? GUARD_ADMIT : GUARD_DEFER;
}

bool guard_takes(const struct guard_limits *limits, const struct guard_reading *reading,
                 uint64_t records)
{
    uint64_t alone =
        plus(plus(guard_idle(reading), reading->claims), plus(limits->ram_floor, records));

    if (limits->ceiling == 0 || plus(reading->queues, records) <= limits->queues_max)
        return true;
    return reading->queues == 0 && alone <= limits->ceiling;
}

uint64_t guard_bodies_room(const struct guard_limits *limits, const struct guard_reading *reading)
{
    uint64_t others = minus(plus(used_by_others(reading), limits->ram_floor), reading->bodies);

    if (limits->ceiling == 0)
        return UINT64_MAX;
    return MIN(minus(limits->hard, others), limits->bodies_max);
}

/* What the machine leaves for the RAM tier, given other programs. */
static uint64_t ram_by_machine(const struct guard_limits *limits,
                               const struct guard_reading *reading)
{
    if (reading->available == 0)
        return UINT64_MAX;
    return minus(plus(reading->ram_used, reading->available), limits->available_min);
}

uint64_t guard_ram_cap(const struct guard_limits *limits, const struct guard_reading *reading)
{
    uint64_t room = minus(limits->soft, used_by_others(reading));

    if (limits->ceiling == 0)
        return limits->ram_wanted;
    room = MIN(room, ram_by_machine(limits, reading));
    return MIN(MAX(room, limits->ram_floor), limits->ram_wanted);
}

uint32_t guard_chunk(const struct guard_limits *limits, const struct guard_reading *reading,
                     const struct guard_model *model, const struct guard_run *run)
{
    uint64_t room = minus(limits->hard, guard_used(reading));
    uint64_t cost = guard_compute(model, run->wanted, run->cells);
    uint32_t floor = MIN(GUARD_CHUNK_FLOOR, run->wanted);

    if (limits->ceiling == 0)
        return run->wanted;
    if (cost == 0)
        return room > 0 ? run->wanted : floor;
    if (plus(room, run->touched) >= cost)
        return run->wanted;
    double share = (double)plus(room, run->touched) / (double)cost;
    return MAX((uint32_t)(share * run->wanted), floor);
}

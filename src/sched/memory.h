/*
 * memory.h: the account of a process's memory under one ceiling, shared by the schedulers of all
 * its models.
 *
 *      join:  weights and cells of a model   --.
 *      hold:  records of a request, bodies    >--  struct guard_reading  -->  guard.h decides
 *      claim: promised to a running request  --'        ^        |
 *      poll:  process and machine, measured ------------'        '--> hearth_set_ram_bytes
 *
 * guard.h has the rules; this module keeps their state and resizes the RAM tier. Limits and
 * readings are read together, under one lock, so that no decision mixes two states (keeps I71). A
 * model loaded later is under the same ceiling from its first request on: a scheduler cannot exist
 * without joining (keeps I68, I78).
 *
 * Everything held or claimed must be returned before memory_leave, which aborts otherwise: nothing
 * leaks (keeps I73).
 *
 * Threads: any. A NULL member has no ceiling: everything is allowed.
 */
#pragma once

#include <hearth/hearth.h>

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "sched/guard.h"

struct clock;
struct engine_facts;
struct log;
struct memory;
struct memory_member;

struct memory_options {
    uint64_t ceiling; /* 0 = none: readings only */
    /* no ceiling was set: a model that needs more raises it, with a log line */
    bool guessed;
    struct hearth_cache *cache; /* its RAM tier is resized; borrowed; NULL = none */
    uint64_t ram_bytes;         /* its size when there is room */
    uint64_t ram_floor;         /* its guaranteed minimum; 0 = 1/16 of ram_bytes */
    /* bytes of this process now; NULL = not known. Any thread; must not block */
    uint64_t (*process)(void *arg);
    /* bytes still available on the machine; NULL = not known */
    uint64_t (*available)(void *arg);
    void *arg;
    uint64_t poll_ns;    /* between two measurements; 0 = 100 ms */
    struct clock *clock; /* NULL = the machine's */
    struct log *log;     /* may be NULL */
};

struct memory *memory_create(const struct memory_options *options);
void memory_destroy(struct memory **memory); /* all members must have left */

/* The known figures of a loaded model. An engine that reports the memory of its cells
 * (facts.kv_bytes) has allocated it at load; any other allocates cells on use. */
struct guard_model memory_model_of(const struct engine_facts *facts);

/* Puts a model under the ceiling. ERR_LIMIT (never with a guessed ceiling): its fixed part does not
 * fit beside the others; the text has the figures. With `memory` NULL the member is NULL. */
enum err memory_join(struct memory *memory, const char *name, const struct guard_model *model,
                     struct memory_member **member, struct errinfo *info) NODISCARD;
void memory_leave(struct memory_member **member);

/* Memory outside this process: of the model's own process, and of the devices. */
struct memory_outside {
    uint64_t process;
    uint64_t device_total, device_free; /* 0 = none, or not known */
};

/* From now on `fn` reports the model's memory outside this process. It is called on the polling
 * thread, as often as the process is measured. Call before that thread starts. */
void memory_observe(struct memory_member *member,
                    void (*fn)(struct memory_outside *outside, void *arg), void *arg);

/* Minimum need of a prompt: in the smallest chunks. */
struct guard_need memory_need(struct memory_member *member, uint32_t cached, uint32_t fresh,
                              uint32_t answer);

/* ERR_NOMEM: the request can never run under this ceiling; the text has the figures. */
enum err memory_check(struct memory_member *member, const struct guard_need *need,
                      struct errinfo *info) NODISCARD;

/* Whether a request with that need can run at all. Counts nothing. */
bool memory_fits(struct memory_member *member, const struct guard_need *need);

/* Records of an accepted request. False: there are too many. */
bool memory_hold(struct memory_member *member, uint64_t records) NODISCARD;
void memory_drop(struct memory_member *member, uint64_t records);

/* GUARD_ADMIT: need->claim bytes are promised from now on, and the RAM tier has shrunk for them. */
enum guard_verdict memory_claim(struct memory_member *member,
                                const struct guard_need *need) NODISCARD;
void memory_unclaim(struct memory_member *member, uint64_t bytes);

/* Memory outside generations, such as for tokenizing. ERR_LIMIT: it never fits; ERR_NOMEM: not now.
 * The text has the figures. */
enum err memory_charge(struct memory_member *member, uint64_t bytes,
                       struct errinfo *info) NODISCARD;
void memory_uncharge(struct memory_member *member, uint64_t bytes);

/* Aborts when less is promised than these sums of held and claimed bytes. For checks. */
void memory_assert_promised(struct memory_member *member, uint64_t claims, uint64_t records);

/* Sets how many bytes the bodies of all requests take. Returns how many they may take now
 * (guard_bodies_room, as of the last change of the account; polls take `bytes` into it). Any thread;
 * never blocks. */
uint64_t memory_set_bodies(struct memory *memory, uint64_t bytes);

/* Grows whenever memory is returned: deferred jobs may try again. */
uint64_t memory_epoch(struct memory_member *member);

/* Measures if it is due, resizes the RAM tier, and logs changes of level. */
void memory_poll(struct memory_member *member);

/* Tokens of the next chunk, with that many cells in use at its end. */
uint32_t memory_chunk(struct memory_member *member, uint32_t wanted, uint32_t cells);
/* So many tokens were computed. */
void memory_note_run(struct memory_member *member, uint32_t tokens, uint32_t cells);

/* A request must end. True once per GUARD_OVER_POLLS readings above the ceiling. */
bool memory_take_over(struct memory_member *member) NODISCARD;

/* For a request that ends for lack of memory: the figures, and what to do. */
void memory_explain(struct memory_member *member, struct errinfo *info);

/* Sets the RAM tier's size when there is room, from now on. */
void memory_set_ram(struct memory *memory, uint64_t ram_bytes);

/* A consistent snapshot, for /props, /metrics and tests. */
struct memory_view {
    struct guard_limits limits;
    struct guard_reading reading;
    enum guard_level level;
    uint64_t used;
    uint64_t ram_cap; /* of the RAM tier now */
    /* of all devices, as measured last: used by any program, and all; and what our models took */
    uint64_t device_used, device_total, device_models;
    uint64_t refused, turned_away, deferred, shrunk, ended, ram_moves; /* since the start */
};

void memory_get_view(struct memory *memory, struct memory_view *view);

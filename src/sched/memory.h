/*
 * memory.h: the account of a process's memory under one ceiling, shared by the schedulers of all
 * its models.
 *
 *      join:  weights and cells of a model          --.
 *      hold:  records of a request, from submit on     >--  struct guard_reading  -->  guard.h decides
 *      claim: what a running request was promised   --'          ^        |
 *      poll:  the process and the machine, measured -------------'        '--> hearth_set_ram_bytes
 *
 * The rules are guard.h's; here is the state that they are asked about, and the hand that moves the
 * RAM tier. Limits and readings are read together, under one lock, so that no decision is made from
 * halves of two states (keeps I71). A model that is loaded later is under the same ceiling from its
 * first request on: without joining there is no scheduler (keeps I68, I78).
 *
 * Whatever is held or claimed must be given back before memory_leave, which aborts otherwise:
 * nothing leaks (keeps I73).
 *
 * Threads: any. A member that is NULL is one without a ceiling: everything is allowed to it.
 */
#ifndef HEARTH_SCHED_MEMORY_H
#define HEARTH_SCHED_MEMORY_H

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
    /* nobody has set the ceiling: a model that needs more lifts it, and the log says so */
    bool guessed;
    struct hearth_cache *cache; /* its RAM tier gives way; borrowed; NULL = there is none */
    uint64_t ram_bytes;         /* what it has when there is room */
    uint64_t ram_floor;         /* what is never taken from it; 0 = one part in 16 of ram_bytes */
    /* bytes of this process now; NULL = not known. Any thread; must not block */
    uint64_t (*process)(void *arg);
    /* bytes that the machine could still give; NULL = not known */
    uint64_t (*available)(void *arg);
    void *arg;
    uint64_t poll_ns;    /* between two measurements; 0 = 100 ms */
    struct clock *clock; /* NULL = the machine's */
    struct log *log;     /* may be NULL */
};

struct memory *memory_create(const struct memory_options *options);
void memory_destroy(struct memory **memory); /* all members have left */

/* What is known of a loaded model. An engine that says how much memory its cells have
 * (facts.kv_bytes) has taken it; one that does not takes them by use. */
struct guard_model memory_model_of(const struct engine_facts *facts);

/* A model under the ceiling. ERR_LIMIT (not when the ceiling was guessed): its fixed part does not
 * fit beside those of the others; the text has the figures. With `memory` NULL the member is NULL.
 */
enum err memory_join(struct memory *memory, const char *name, const struct guard_model *model,
                     struct memory_member **member, struct errinfo *info) NODISCARD;
void memory_leave(struct memory_member **member);

/* What of this model is in memory outside this process is asked of `fn` from now on, on the thread
 * that polls, as often as the process is measured. Before that thread begins. */
void memory_watch(struct memory_member *member, uint64_t (*fn)(void *arg), void *arg);

/* What a prompt needs at its least: in the smallest chunks. */
struct guard_need memory_need(struct memory_member *member, uint32_t cached, uint32_t fresh,
                              uint32_t answer);

/* ERR_NOMEM: it can never be answered under this ceiling; the text has the figures. */
enum err memory_check(struct memory_member *member, const struct guard_need *need,
                      struct errinfo *info) NODISCARD;

/* Records of a request that is taken. False: there are too many. */
bool memory_hold(struct memory_member *member, uint64_t records) NODISCARD;
void memory_drop(struct memory_member *member, uint64_t records);

/* GUARD_ADMIT: need->claim bytes are promised from now on, and the RAM tier has given way for them.
 */
enum guard_verdict memory_claim(struct memory_member *member,
                                const struct guard_need *need) NODISCARD;
void memory_unclaim(struct memory_member *member, uint64_t bytes);

/* Memory beside that of generations, such as for tokenizing. ERR_LIMIT: it never fits; ERR_NOMEM:
 * not now. The text has the figures. */
enum err memory_charge(struct memory_member *member, uint64_t bytes,
                       struct errinfo *info) NODISCARD;
void memory_uncharge(struct memory_member *member, uint64_t bytes);

/* Aborts when less is promised than these sums of what was held and claimed. For checks. */
void memory_assert_promised(struct memory_member *member, uint64_t claims, uint64_t records);

/* Grows whenever something was given back: who was deferred may ask again. */
uint64_t memory_epoch(struct memory_member *member);

/* Measures when it is time to, moves the RAM tier, and says a change of level in the log. */
void memory_poll(struct memory_member *member);

/* Tokens of the next chunk. */
uint32_t memory_chunk(struct memory_member *member, uint32_t wanted);
/* What a run of so many tokens has cost: `before` is memory_measure from before it. */
uint64_t memory_measure(struct memory_member *member); /* 0 = not known */
void memory_note_run(struct memory_member *member, uint64_t before, uint32_t tokens);

/* Someone must end. True once for GUARD_OVER_POLLS readings above the ceiling. */
bool memory_take_over(struct memory_member *member) NODISCARD;

/* What the RAM tier is to have when there is room, from now on. */
void memory_set_ram(struct memory *memory, uint64_t ram_bytes);

/* Everything at one moment, for /props, /metrics and tests. */
struct memory_view {
    struct guard_limits limits;
    struct guard_reading reading;
    enum guard_level level;
    uint64_t used;
    uint64_t ram_cap;                                                  /* of the RAM tier now */
    uint64_t refused, turned_away, deferred, shrunk, ended, ram_moves; /* since the start */
};

void memory_get_view(struct memory *memory, struct memory_view *view);

#endif

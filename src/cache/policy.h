/*
 * policy.h: what is worth keeping, as pure functions on numbers. No clock, no lock, no tree: the same numbers give the same answer, in the
 * server and in a replay.
 *
 * EVICTION. Each evictable object has a priority; the lowest goes first. Priorities are set when an object is stored and when it is used,
 * and the floor rises to the priority of whatever was evicted last, so that what is not used grows old without being touched (the
 * GreedyDual idea). So all policies have one form and one heap:
 *
 *      lru-tail         time of last use; among equals the later tokens first
 *      shortest-first   tokens of the prefix; then time
 *      by-type          assistant before user before system; then time
 *      saving-per-byte  floor + (seconds of computing it saves x chance that it is used again) / bytes        the default
 *
 * Never a parent before its children, never leased or pinned: that is the index's rule and holds for every policy. Anchors (system
 * prompt and tools) get a bonus that lets them outlive conversation tails (keeps I103).
 */
#ifndef HEARTH_CACHE_POLICY_H
#define HEARTH_CACHE_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(value, name) */
#define POLICY_TABLE(X)                                                                            \
    X(POLICY_SAVING_PER_BYTE, "saving-per-byte") X(POLICY_LRU_TAIL, "lru-tail")                    \
    X(POLICY_SHORTEST_FIRST, "shortest-first") X(POLICY_BY_TYPE, "by-type")

enum policy {
#define X(value, name) value,
    POLICY_TABLE(X)
#undef X
        POLICY_COUNT
};

extern const char *const policy_names[]; /* ended by NULL */
bool policy_find(const char *name, enum policy *policy);

/* What is known of an object. */
struct policy_entry {
    uint32_t begin, end;   /* tokens; a snapshot: begin = the boundary before it that needs no snapshot of its own */
    uint64_t bytes;
    uint32_t uses;         /* since it was stored; 0 = never again yet */
    uint64_t age_ns;       /* since the last use */
    uint64_t now_ns;
    uint8_t entry;         /* 0 assistant, 1 user, 2 system */
    bool snapshot;
    double tokens_per_s;   /* of computing; 0 = not known */
    double floor;          /* of the heap */
};

double policy_priority(enum policy policy, const struct policy_entry *entry);

/* How likely it is that an object is used again, by how often it was and how old it is. In [0, 1]. */
double policy_reuse_chance(uint32_t uses, uint64_t age_ns, uint8_t entry);

/* ADMISSION. An entry may be replaced by an update of the same conversation only after a good hit: at least max(1000, system prompt)
 * tokens and at least half of the prompt were reused, and the system prompt matched whole (keeps I13, I14). */
bool policy_may_replace(uint32_t reused, uint32_t prompt, uint32_t system);

/* SNAPSHOTS. Where a prompt of `count` tokens that was restored at `from` should leave snapshots. */
struct policy_snapshot {
    uint32_t count;       /* tokens of the prompt */
    uint32_t from;        /* resumed there; it has one already */
    uint32_t anchor;      /* end of system and tools; 0 = not known */
    uint32_t last_user;   /* start of the last user message; 0 = not known */
    uint32_t junction;    /* rows matched further than any snapshot; 0 = none */
    uint64_t rows_bytes_per_token, snapshot_bytes;
    uint32_t sparse;      /* grid on long prompts, tokens; 0 = none */
};
/* Whether to take one at `at`. */
bool policy_wants_snapshot(const struct policy_snapshot *where, uint32_t at);

/* RESTORE OR RECOMPUTE. Seconds for fetching `bytes` from a tier of that bandwidth and latency and importing them, and for computing. */
double policy_fetch_seconds(uint64_t bytes, double bytes_per_s, double latency_s, double import_bytes_per_s);
bool policy_restore_pays(double fetch_s, double compute_s);

#endif

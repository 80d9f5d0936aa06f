/*
 * policy.h: what is worth keeping, as pure functions on numbers. No clock, no lock, no tree: the
 * same numbers give the same answer, in the server and in a replay.
 *
 * EVICTION. Each evictable object has a priority; the lowest goes first. Priorities are set when an
 * object is stored and when it is used, and the floor rises to the priority of whatever was evicted
 * last, so that what is not used grows old without being touched (the GreedyDual idea). So all
 * policies have one form and one heap:
 *
 *      lru-tail         time of last use; among equals the later tokens first
 *      shortest-first   tokens of the prefix; then time
 *      by-type          assistant before user before system; then time
 *      saving-per-byte  floor + (seconds of computing it saves x chance that it is used again) /
 *                       bytes        the default
 *
 * Never a parent before its children, never leased or pinned: that is the index's rule and holds
 * for every policy.
 *
 * ANCHORS. System prompt and tools that several conversations share outlive conversation tails
 * (keeps I103). Precisely, under saving-per-byte, for a shared anchor and a tail that save as many
 * seconds per byte, both used less than a day ago, however often and in whichever order: the value
 * of the anchor over the floor is at least 1.5 times that of the tail. So its rows outlive those of
 * any tail, and it outlives a turnover of a cache that is full of tails. It goes in the end: what
 * is dead must not stay.
 *
 * More than that, or a bonus for all anchors, shared or not, fills the cache with those of dead
 * sessions: a factor of 18 cost 3 points of hit rate on agent traces (docs/replay-traces.md).
 */
#ifndef HEARTH_CACHE_POLICY_H
#define HEARTH_CACHE_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(value, name) */
#define POLICY_TABLE(X)                          \
    X(POLICY_SAVING_PER_BYTE, "saving-per-byte") \
    X(POLICY_LRU_TAIL, "lru-tail")               \
    X(POLICY_SHORTEST_FIRST, "shortest-first")   \
    X(POLICY_BY_TYPE, "by-type")

enum policy {
#define X(value, name) value,
    POLICY_TABLE(X)
#undef X
        POLICY_COUNT
};

extern const char *const policy_names[]; /* ended by NULL */
/* false: no such policy, *policy is untouched */
bool policy_find(const char *name, enum policy *policy);

/* What is known of an object. */
struct policy_entry {
    /* tokens; a snapshot: begin = the boundary before it that needs no snapshot of its own */
    uint32_t begin, end;
    uint64_t bytes;
    uint32_t uses;   /* since it was stored; 0 = never again yet */
    uint64_t age_ns; /* since the last use */
    uint64_t now_ns;
    uint8_t entry; /* 0 assistant, 1 user, 2 system */
    bool snapshot;
    bool superseded; /* a longer one of its conversation is held */
    /* prompts that differ after it have used it: it serves more than one conversation. Counts for
     * anchors only */
    bool shared;
    double tokens_per_s; /* of computing; 0 = not known */
    double floor;        /* of the heap */
};

/* Finite, and never negative when the floor is not, unless it is superseded: that has a priority
 * below all others. Only priorities of one policy can be compared. Units: lru-tail, nanoseconds
 * (exact for the first 104 days of a clock, to 2 ns for the next); shortest-first, tokens and a
 * fraction; by-type, seconds; saving-per-byte, expected seconds saved per GiB, policy.c. */
double policy_priority(enum policy policy, const struct policy_entry *entry);

/* How likely it is that an object is used again: more with every use, less with age. In [0, 1]. The
 * model is in policy.c. */
double policy_reuse_chance(uint32_t uses, uint64_t age_ns, uint8_t entry);

/* ADMISSION. An entry may be replaced by an update of the same conversation only after a good hit:
 * at least max(1000, system prompt) tokens and at least half of the prompt were reused, and the
 * system prompt matched whole (keeps I13, I14). What that means in a tree that shares blocks is in
 * replace.c. */
bool policy_may_replace(uint32_t reused, uint32_t prompt, uint32_t system);

/* SNAPSHOTS. Where a prompt of `count` tokens that was restored at `from` should leave snapshots:
 * always at its end; at the anchor, the junction and the last user message when that saves enough;
 * and on a sparse grid where none of these is near.
 *
 *      from          anchor             grid               junction  last_user     end
 *       |--------------A------------------g--------------------J---------.----------E      '.' saves too little after J
 *
 * A snapshot saves the tokens between it and the one before. It costs as much as the rows of gap =
 * snapshot_bytes / rows_bytes_per_token tokens (bounded to [256, 16384]; 256 when either is not
 * known), and is taken when it saves as many; anchors and junctions serve other conversations, too,
 * and are taken for a quarter of it; the grid is for whoever happens to branch there, and takes
 * eight times as many. So no two but an end and what is before it are nearer than gap / 4. */
struct policy_snapshot {
    uint32_t count; /* tokens of the prompt */
    /* they end with generated ones: the end is `count`, else count - 1, since one token is left to
     * run */
    bool generated;
    uint32_t from;      /* resumed there; it has one already */
    uint32_t anchor;    /* end of system and tools; 0 = not known */
    uint32_t last_user; /* start of the last user message; 0 = not known */
    uint32_t junction;  /* rows matched further than any snapshot; 0 = none */
    uint64_t rows_bytes_per_token, snapshot_bytes;
    uint32_t sparse; /* grid on long prompts, tokens; 0 = none */
};
/* Whether to take one at `at`. Never at or before `from`, never behind the end. */
bool policy_wants_snapshot(const struct policy_snapshot *where, uint32_t at);

/* RESTORE OR RECOMPUTE. Seconds for fetching `bytes` from a tier of that bandwidth and latency and
 * importing them, and for computing. What is 0 is not known and costs nothing; when compute_s is
 * not known, restoring pays. */
double policy_fetch_seconds(uint64_t bytes, double bytes_per_s, double latency_s,
                            double import_bytes_per_s);
bool policy_restore_pays(double fetch_s, double compute_s);

#endif

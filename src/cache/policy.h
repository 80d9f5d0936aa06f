/*
 * policy.h: what is worth keeping, as pure functions of numbers. No clock, no lock, no tree: the
 * same numbers give the same answer, in the server and in a replay.
 *
 * EVICTION. Each evictable object has a priority; the lowest is evicted first. Priorities are set
 * when an object is stored and when it is used. The floor rises to the priority of the last
 * evicted object, so unused objects age without being touched (the GreedyDual idea). All policies
 * share this form and one heap:
 *
 *      expected-reuse   seconds of computing it saves x expected uses per second (reuse.h) / bytes;
 *                       the default
 *      saving-per-byte  floor + (seconds of computing it saves x chance that it is used again) /
 *                       bytes
 *      lru-tail         time of last use; among equals the later tokens first
 *
 * Never a parent before its children, never a leased or pinned object: the index enforces this for
 * every policy.
 *
 * ANCHORS. A system prompt and tools that several conversations share outlive conversation tails
 * (keeps I103). Precisely, under saving-per-byte, for a shared anchor and a tail that save equally
 * many seconds per byte, both used less than a day ago, however often and in whichever order: the
 * value of the anchor over the floor is at least 1.5 times that of the tail. So its rows outlive
 * those of any tail, and it survives a turnover of a cache full of tails. It is evicted in the
 * end: dead objects must not stay.
 *
 * A larger factor, or a bonus for all anchors, shared or not, fills the cache with anchors of dead
 * sessions: a factor of 18 cost 3 points of hit rate on agent traces (docs/replay-traces.md).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

/* X(value, name) */
#define POLICY_TABLE(X)                          \
    X(POLICY_EXPECTED_REUSE, "expected-reuse")   \
    X(POLICY_SAVING_PER_BYTE, "saving-per-byte") \
    X(POLICY_LRU_TAIL, "lru-tail")

enum policy { POLICY_TABLE(TABLE_VALUE) POLICY_COUNT };

extern const char *const policy_names[]; /* ended by NULL */
/* false: no such policy, *policy is unchanged */
bool policy_find(const char *name, enum policy *policy);

/* The inputs for one object. */
struct policy_entry {
    /* tokens; for a snapshot, begin = the previous boundary that needs no snapshot */
    uint32_t begin, end;
    uint64_t bytes;
    uint32_t uses;   /* since it was stored; 0 = not used again yet */
    uint64_t age_ns; /* since the last use */
    uint64_t now_ns;
    uint8_t entry; /* 0 assistant, 1 user, 2 system */
    bool snapshot;
    bool guess;      /* a snapshot for prompts that may diverge there, and none did */
    bool superseded; /* a longer object of its conversation is held */
    /* used by prompts that differ after it, so it serves more than one conversation. Matters for
     * anchors only */
    bool shared;
    double tokens_per_s; /* prefill speed; 0 = unknown */
    double floor;        /* of the heap */
    double uses_per_s;   /* expected; for expected-reuse only */
};

/* Finite, and never negative if the floor is not, except that superseded objects rank below all
 * others. Only priorities of one policy can be compared. Units: lru-tail, nanoseconds (exact for
 * the first 104 days of a clock, to 2 ns for the next); the others, expected seconds saved per GiB,
 * policy.c. */
double policy_priority(enum policy policy, const struct policy_entry *entry);

/* The probability that an object is used again: rises with every use, falls with age. In [0, 1].
 * The model is in policy.c. */
double policy_reuse_chance(uint32_t uses, uint64_t age_ns, uint8_t entry);

/* ADMISSION. An update of the same conversation may replace an entry only after a good hit: at
 * least max(1000, system prompt) tokens and at least half of the prompt were reused, and the
 * system prompt matched completely (keeps I13, I14). replace.c says what that means in a tree
 * with shared blocks. */
bool policy_may_replace(uint32_t reused, uint32_t prompt, uint32_t system);

/* SNAPSHOTS. Where a prompt of `count` tokens that was restored at `from` should leave
 * snapshots: always at its end; at the anchor, the junction, the last user message and the start of
 * transient text in it when that saves enough; and on a sparse grid where none of these is near.
 *
 *      from          anchor          grid            junction  last_user   end
 *       |--------------A---------------g----------------J---------.---------E
 *                                                   '.' saves too little after J
 *
 * A snapshot saves the tokens between it and the previous one. It costs as much as the rows of
 * gap = snapshot_bytes / rows_bytes_per_token tokens (clamped to [256, 16384]; 256 when either
 * is unknown), and is taken when it saves at least that many. Anchors and junctions also serve
 * other conversations, and the next turn of this one resumes before transient text, so a quarter of
 * that is enough. The grid only serves prompts that happen
 * to branch there, and needs eight times as many. So no two snapshots are nearer than gap / 4,
 * except the end and its predecessor. */
struct policy_snapshot {
    uint32_t count; /* tokens of the prompt */
    /* the prompt ends with generated tokens: the end is `count`, else count - 1, since one token
     * must be left to run */
    bool generated;
    uint32_t from;      /* resumed there; it already has a snapshot */
    uint32_t anchor;    /* end of system and tools; 0 = unknown */
    uint32_t last_user; /* start of the last user message; 0 = unknown */
    uint32_t transient; /* start of text that the next turn may not have; 0 = none */
    uint32_t junction;  /* where the rows match beyond any snapshot; 0 = none */
    uint32_t fork;      /* where the caller expects others to diverge; 0 = none */
    uint64_t rows_bytes_per_token, snapshot_bytes;
    uint32_t sparse; /* grid step on long prompts, tokens; 0 = no grid */
};
/* Whether to take one at `at`. Never at or before `from`, never after the end. */
bool policy_wants_snapshot(const struct policy_snapshot *where, uint32_t at);

/* RESTORE OR RECOMPUTE. Seconds for fetching `bytes` from a tier of the given bandwidth and
 * latency and importing them; and whether that beats computing. 0 means unknown and costs
 * nothing; when compute_s is unknown, restoring pays. */
double policy_fetch_seconds(uint64_t bytes, double bytes_per_s, double latency_s,
                            double import_bytes_per_s);
bool policy_restore_pays(double fetch_s, double compute_s);

/*
 * object.h: one stored object: rows of a run of tokens, or a snapshot. The index points to it, the
 * policy ranks it, and tiers hold it.
 *
 *      RESERVED --commit--> HELD --evict/drop--> (gone, when the last lease is released)
 *
 * An object is in one or more tiers (residency); its bytes are readable exactly when a tier says
 * so (keeps I67). Leases count readers: a leased object is never evicted, moved or freed (keeps
 * I11). An object that must leave the tree while leased (displaced by longer rows, or damaged) is
 * `dropped`: no lookup finds it any more, and its last reader frees it.
 *
 * Owner: the cache, under its lock; `data` of a leased object in RAM may be read without it.
 */
#pragma once

#include <hearth/hearth.h>

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "cache/reuse.h"
#include "cache/treap.h"

enum { OBJECT_SHAPE_BYTES_MAX = 160, OBJECT_NOT_IN_HEAP = -1 };

/* Tiers by level, the fastest first: memory, then the slower ones, each a struct tier. */
#define TIER_SLOWER      ((enum hearth_tier)(HEARTH_TIER_RAM + 1)) /* the first slower one */
#define TIER_BIT(level)  (1u << (level))
#define TIER_BITS_SLOWER (TIER_BIT(HEARTH_TIER_COUNT) - TIER_BIT(TIER_SLOWER))

struct heap;
struct node;
struct hearth_space;

struct object {
    /* identity; fixed at commit */
    struct hash256 key;
    enum hearth_object_kind kind;
    uint32_t begin, end; /* tokens; a snapshot has begin 0 */
    uint32_t shape_bytes;
    uint64_t bytes;
    unsigned char shape[OBJECT_SHAPE_BYTES_MAX];
    /* place in the tree; kept by the index */
    struct hearth_space *space;
    struct node *last;          /* the node that holds its end; NULL when detached */
    struct list_node node_link; /* snapshots of one node */
    struct list_node tail_link; /* tails, or snapshots, of the space in memory */
    struct list_node held_link; /* objects of the space, oldest first */
    /* by slower tier: objects that it declined, the oldest first */
    struct list_node retry_links[HEARTH_TIER_COUNT - TIER_SLOWER];
    struct list_node expiry_link; /* objects with an expiry time, the earliest first */
    /* set aside while room.c looks for a victim; or dropped while being written */
    struct list_node aside_link;
    struct treap_node mark; /* snapshots after one node, by their tokens */
    /* what prevents its eviction: child nodes with rows below its nodes, and pinned nodes */
    uint32_t hold_count;
    /* residency */
    void *data; /* in RAM; NULL when not */
    /* half a digest of its bytes, from the last verification in memory; 0: never verified */
    uint64_t digest;
    uint8_t in;      /* TIER_BITs: where its bytes are */
    uint8_t writing; /* TIER_BITs: slower tiers that are writing it */
    /* those of `writing` that must drop it once it is written, because a user asked for it */
    uint8_t drop_after_write;
    bool reading : 1;        /* a slower tier is reading it into memory */
    bool dropped : 1;        /* out of the index; freed with the last lease */
    bool damaged : 1;        /* a tier returned other bytes than were written */
    bool evicted_below : 1;  /* a slower tier turned out to have evicted it when it was read */
    uint16_t wanted;         /* callers that asked for its read, and still need it */
    struct reuse_mark reuse; /* of the last turn that used it */
    uint32_t leases;
    /* value; read by the policy */
    uint8_t entry; /* enum hearth_entry */
    /* a longer object of its conversation is held: first to be evicted until it is used again */
    bool superseded : 1;
    /* leaves memory first; its copies elsewhere are worth as much as before */
    bool demoted : 1;
    /* a snapshot of the end of a prompt or an answer, not of a place where others may branch */
    bool turn_end : 1;
    /* a snapshot of a place where others may branch, and none did: evicted before what was used, and
     * in memory only */
    bool guess : 1;
    bool shared : 1; /* used by prompts that differ after it */
    uint32_t uses;
    int32_t heap_slot; /* place in the eviction heap, or OBJECT_NOT_IN_HEAP */
    uint64_t used_ns, stored_ns, keep_until_ns;
    uint64_t expires_ns; /* when it is forgotten, with all objects after it; 0 = never */
    double priority;
    struct heap *heap;   /* the heap that it is in; owned by room.c */
    uint64_t heap_order; /* of insertion; maintained by the heap */
};

static inline struct list_node *object_retry_link(struct object *object, enum hearth_tier level)
{
    return &object->retry_links[level - TIER_SLOWER];
}

/*
 * object.h: one stored thing: rows of a run of tokens, or a snapshot. What the index points at, the
 * policy weighs and tiers hold.
 *
 *      RESERVED --commit--> HELD --evict/drop--> (gone, when the last lease is released)
 *
 * An object is in one or more tiers (residency); its bytes are readable exactly when a tier says so
 * (keeps I67). Leases count readers: nothing leased is evicted, moved or freed (keeps I11). An
 * object that must leave the tree while it is leased (longer rows displaced it, its bytes are
 * damaged) is `dropped`: nobody finds it any more, and its last reader frees it.
 *
 * Owner: the cache, under its lock; `data` of a leased object in RAM may be read without it.
 */
#ifndef HEARTH_CACHE_OBJECT_H
#define HEARTH_CACHE_OBJECT_H

#include <hearth/hearth.h>

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "cache/treap.h"

enum object_kind { OBJECT_ROWS = 1, OBJECT_SLIDING = 2, OBJECT_SNAPSHOT = 3 };
enum { OBJECT_SHAPE_BYTES_MAX = 160, OBJECT_NOT_IN_HEAP = -1 };

/* Tiers by level, the fastest first: memory, then the slower ones that a struct tier stands for. */
#define TIER_SLOWER      ((enum hearth_tier)(HEARTH_TIER_RAM + 1)) /* the first of these */
#define TIER_BIT(level)  (1u << (level))
#define TIER_BITS_SLOWER (TIER_BIT(HEARTH_TIER_COUNT) - TIER_BIT(TIER_SLOWER))

struct heap;
struct node;
struct hearth_space;

struct object {
    /* identity; fixed at commit */
    struct hash256 key;
    enum object_kind kind;
    uint32_t begin, end; /* tokens; a snapshot has begin 0 */
    uint32_t shape_bytes;
    uint64_t bytes;
    unsigned char shape[OBJECT_SHAPE_BYTES_MAX];
    /* place in the tree; kept by the index */
    struct hearth_space *space;
    struct node *last;          /* the node that holds its end; NULL when detached */
    struct list_node node_link; /* snapshots of one node */
    struct list_node tail_link; /* tails of the space, least recently used first */
    struct list_node held_link; /* objects of the space, in the order of storing */
    /* by slower tier: what it declined to take, the oldest first */
    struct list_node retry_links[HEARTH_TIER_COUNT - TIER_SLOWER];
    struct list_node expiry_link; /* those with a time to be forgotten at, the next first */
    /* while room.c looks for a victim; of dropped ones that are being written */
    struct list_node aside_link;
    struct treap_node mark; /* snapshots behind one node, by their tokens */
    /* what in the tree speaks against evicting it: children below its nodes that hold rows, pinned
     * nodes */
    uint32_t blockers;
    /* residency */
    void *data; /* in RAM; NULL when not */
    /* half of one, of its bytes when somebody verified them in memory; 0: nobody has */
    uint64_t digest;
    uint8_t in;       /* TIER_BITs: where its bytes are */
    uint8_t writing;  /* TIER_BITs: slower tiers that are writing it */
    uint8_t unwanted; /* of these, those that drop it when it is written */
    bool reading;     /* a slower tier is reading it into memory */
    bool dropped;     /* out of the index; freed with the last lease */
    bool damaged;     /* a tier gave other bytes than it was given */
    bool let_go;      /* a tier had evicted it when it was asked for */
    uint32_t leases;
    /* worth; read by the policy */
    uint8_t entry; /* enum hearth_entry */
    /* a longer one of its conversation is held: first to leave until it is used again */
    bool superseded;
    /* a snapshot of where a prompt or an answer ended, and not of a place that others may branch at
     */
    bool turn_end;
    bool shared; /* prompts that differ after it have used it */
    uint32_t uses;
    int32_t heap_slot; /* place in the eviction heap, or OBJECT_NOT_IN_HEAP */
    uint64_t used_ns, stored_ns, keep_until_ns;
    uint64_t expires_ns; /* forgotten then, with all behind it; 0 = no such time */
    double priority;
    struct heap *heap;   /* that it is in: room.c's */
    uint64_t heap_order; /* of insertion into it; kept by the heap */
};

static inline struct list_node *object_retry_link(struct object *object, enum hearth_tier level)
{
    return &object->retry_links[level - TIER_SLOWER];
}

#endif

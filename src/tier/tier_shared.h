/*
 * tier_shared.h: a tier on servers that other machines use as well: Valkey, Redis, S3
 * (docs/fleet.md).
 *
 *      put --> queue, the most useful first --> writer: already there? parts, head, pages --> done
 *      get --> queue --> readers: head (unless known), parts into the caller's memory --> done
 *      find, read_meta: on the caller's thread
 *
 * What the servers have is not known here: `has` and `each` speak of objects that this process has
 * written or seen. `find` asks. Nothing that a server says is trusted (shared_format.h), and
 * nothing waits longer than its deadline: with its breaker open, a dead server costs nothing.
 *
 * An object is never replaced: of two processes that store the same tokens of the same space, the
 * first one's bytes stay. If they or their shape differ, the second one's put is cancelled: its own
 * shape does not describe them. A later `find` shows them to it. `drop` deletes an object for all;
 * the cache calls it for the shared tier only when a user asked for it. Everything else ends by its
 * time to live.
 *
 * Threads: any (own lock, rank LOCK_RANK_TIER); callbacks come from the tier's own threads, or
 * from within put and get.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "tier/kv.h"
#include "tier/tier.h"

struct log;

struct tier_shared_options {
    struct kv_options kv;
    struct hash256 key;             /* the installation's secret: the same on all machines */
    const struct hash256 *seal_key; /* encrypts objects; NULL = unencrypted */
    uint64_t part_bytes;            /* 0 = what suits the server */
    uint64_t timeout_ns;            /* of questions, and of parts that do not move; 0 = 2 s */
    uint64_t negative_ns;           /* how long an empty page is not asked for again; 0 = 2 s */
    unsigned readers;               /* threads; 0 = 4 */
    uint64_t queue_items_max;       /* queued puts; 0 = 512 */
    uint64_t queue_bytes_max;       /* their bytes, in the caller's memory; 0 = 512 MiB */
    unsigned tenant_percent;        /* of the store, that one tenant may fill; 0 = all */
    uint64_t close_wait_ns;         /* how long close may continue writing */
};

enum err tier_shared_open(struct tier **tier, const struct tier_shared_options *options,
                          struct errinfo *info) NODISCARD;

/* X(name, help). Counted since open. */
#define TIER_SHARED_COUNTER_TABLE(X)                                                  \
    X(refused_queue, "puts refused for a full queue")                                 \
    X(refused_share, "puts refused because their tenant has half of the queue")       \
    X(refused_tenant, "puts refused because their tenant has its share of the store") \
    X(refused_down, "puts refused because no server answers")                         \
    X(refused_full, "puts refused because the servers are nearly full")               \
    X(displaced, "queued puts that a more useful one displaced")                      \
    X(same, "puts of objects that were already stored, by any machine")               \
    X(lost, "puts lost to an error")                                                  \
    X(finds, "questions what other machines have stored")                             \
    X(pages_asked, "pages asked for")                                                 \
    X(pages_skipped, "pages that were empty a moment ago, and not asked for")         \
    X(pages_damaged, "pages and notes that were damaged or foreign")                  \
    X(heads_damaged, "heads that were damaged or foreign")                            \
    X(parts_missing, "objects without one of their parts")                            \
    X(parts_damaged, "objects with a part of another size or digest")                 \
    X(timeouts, "gets that took too long")

struct tier_shared_stats {
#define X(name, help) uint64_t name;
    TIER_SHARED_COUNTER_TABLE(X)
#undef X
};

void tier_shared_stats(struct tier *tier, struct tier_shared_stats *stats);
size_t tier_shared_servers(struct tier *tier);
void tier_shared_server(struct tier *tier, size_t index, struct kv_server_stats *stats);

/* Small values of the caller's own, such as the tokens of a turn. put: queued with the objects,
 * dropped when the queue is full. get: appends to `out`; false: there is none, or it could not be
 * asked for in time. */
void tier_shared_put_note(struct tier *tier, const struct hash256 *key, const void *data,
                          size_t len);
bool tier_shared_get_note(struct tier *tier, const struct hash256 *key, uint64_t deadline_ns,
                          struct buf *out);

/* While held (true), new puts and gets stay in their queues. For tests of queued requests. */
void tier_shared_hold(struct tier *tier, bool hold);

/*
 * kv.h: named values on servers over TCP: what the shared tier is built on.
 *
 * A caller fills an array of operations and runs it. All of them are in flight at once: pipelined
 * on each connection, on all servers in parallel. Bytes move once, between the socket and the
 * caller's memory.
 *
 *      kv_run:   route by name -> connections of the pool -> send, receive (poll) -> results
 *
 * A breaker per server bounds what a dead one costs:
 *
 *                    3 failures in a row             time to retry
 *          CLOSED -----------------------> OPEN ----------------------> HALF-OPEN: one run tries
 *             ^                              ^---------- failure -----------'  |
 *             '------------------------------------------ success -------------'
 *
 * While it is open, operations for that server end at once with KV_DOWN.
 *
 * Protocols: kv_valkey.c (Valkey and Redis, alone or as a cluster), kv_s3.c. TLS is libssl's, which
 * is loaded when it is asked for.
 *
 * Threads: any. A run uses the calling thread, and connections that no other run has.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct kv;
struct kv_server;
struct log;

enum { KV_NAME_BYTES = 320, KV_SERVERS_MAX = 64, KV_HOST_BYTES = 256 };

enum kv_verb {
    KV_GET,
    KV_PUT,
    KV_EXISTS,
    KV_DELETE,
    KV_ADD, /* to a counter, which begins with 0. Not on S3 */
    KV_ASK, /* sends `data` as it is; the reply goes to dst. For protocols */
};

enum kv_result {
    KV_OK,
    KV_MISSING,
    KV_FULL,    /* the server has no room */
    KV_ERROR,   /* anything else, also a value that is larger than `capacity` */
    KV_TIMEOUT, /* not finished at the deadline */
    KV_DOWN,    /* the breaker of its server is open */
};

struct kv_op {
    enum kv_verb verb;
    char name[KV_NAME_BYTES];
    void *dst; /* GET */
    uint64_t capacity;
    const void *data; /* PUT */
    uint64_t bytes;
    int64_t amount; /* ADD */
    bool once;      /* PUT: an existing value stays (`existed`); the result is KV_OK */
    /* results */
    enum kv_result result;
    uint64_t got; /* GET: size of the value */
    bool existed; /* PUT with `once`: another value was there, and stays */
    /* private to kv.c and protocols */
    struct kv_server *server;
    unsigned tries;
    bool asking; /* to be announced: a slot that moves */
    bool flying, ended;
};

/* X(value, name) */
#define KV_BREAKER_TABLE(X)      \
    X(KV_CLOSED, "closed")       \
    X(KV_HALF_OPEN, "half-open") \
    X(KV_OPEN, "open")

enum kv_breaker { KV_BREAKER_TABLE(TABLE_VALUE) };

struct kv_server_stats {
    char name[KV_HOST_BYTES + 8]; /* host:port */
    enum kv_breaker breaker;
    uint64_t replies, failures, opened; /* opened: how often the breaker was */
    double round_trip_s;                /* of small operations, averaged; 0 = not known */
};

struct kv_options {
    /* valkey://[user:pass@]host:port[,host:port...]/prefix, valkeys:// with TLS (redis:// and
     * rediss:// are the same); s3://bucket/prefix */
    const char *url;
    uint64_t ttl_s;      /* of values; refreshed by each get where the server can */
    uint64_t connect_ns; /* 0 = 1 s */
    uint64_t retry_ns;   /* first delay of an open breaker; doubles up to 32 times; 0 = 1 s */
    const char *ca_file; /* TLS: NULL = those of the system */
    struct log *log;     /* may be NULL */
};

/* Connects to nothing: a server that is down is no error. INVALID: the URL; UNSUPPORTED: no TLS
 * here. */
enum err kv_open(struct kv **kv, const struct kv_options *options, struct errinfo *info) NODISCARD;
/* No run may be active. */
void kv_close(struct kv **kv);

/* Ends when each operation has a result; at the latest at the deadline (clock_real) or after
 * kv_stop. */
void kv_run(struct kv *kv, struct kv_op *ops, size_t count, uint64_t deadline_ns);
/* For large values: ends when nothing has moved for idle_ns, so that a slow network is no fault; at
 * the latest at the deadline. Also ends, with KV_TIMEOUT and without counting a failure, when
 * `goes_on` (NULL: never asked) returns false; it is asked at least every 100 ms. */
void kv_run_while_moving(struct kv *kv, struct kv_op *ops, size_t count, uint64_t idle_ns,
                         uint64_t deadline_ns, bool (*goes_on)(void *arg), void *arg);
/* Runs end within 100 ms from now on, with KV_TIMEOUT. For closing. */
void kv_stop(struct kv *kv);

/* "" or "prefix:": what names begin with. */
const char *kv_prefix(const struct kv *kv);
uint64_t kv_part_bytes(const struct kv *kv); /* of one value, at most: what suits the server */
/* Bytes that all servers together may use; 0: no limit, or not known yet (kv_has_room asks). */
uint64_t kv_capacity(struct kv *kv);
bool kv_is_down(struct kv *kv); /* every breaker is open */
/* False: the servers are nearly full. Asks them now and then. */
bool kv_has_room(struct kv *kv, uint64_t deadline_ns);

/* Asks each server whose breaker is open for anything, once its delay is over: an idle server would
 * not learn that the store is well again. For a timer. */
void kv_try_down(struct kv *kv, uint64_t deadline_ns);

size_t kv_servers(struct kv *kv);
void kv_server_stats(struct kv *kv, size_t index, struct kv_server_stats *stats);
const char *kv_breaker_name(enum kv_breaker breaker);

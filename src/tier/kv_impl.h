/* kv_impl.h: what kv.c and the protocols share. Internal to kv.h. */
#pragma once

#include <sys/socket.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/str.h"
#include "tier/kv.h"
#include "tier/kv_socket.h"

enum { KV_SECRET_BYTES = 256 };

struct kv_server {
    char host[KV_HOST_BYTES], port[8];
    /* the rest under the lock of struct kv */
    struct list idle; /* connections */
    enum kv_breaker breaker;
    unsigned failures_in_row;
    uint64_t retry_at_ns, retry_ns;
    struct kv_server_stats stats;
};

/* The start of a reply. */
struct kv_reply {
    size_t head;      /* bytes of it that are not the value */
    uint64_t body;    /* bytes of the value */
    uint32_t trailer; /* bytes after it */
    bool value;       /* the body goes to the caller */
    bool failure;     /* counts against the server, although it answered */
    char why[96];     /* its reason, for the log; "": none */
    bool close;       /* it closes the connection */
    bool existed;     /* to a PUT with `once` */
    enum kv_result result;
    struct kv_server *again; /* repeat the operation there */
    bool asking;
};

enum kv_parse { KV_PARSE_MORE, KV_PARSE_DONE, KV_PARSE_BAD };

struct kv_protocol {
    const char *name;
    unsigned depth; /* operations in flight per connection */
    unsigned conns; /* per run and server */
    uint64_t part_bytes;
    /* What goes before the data, and after it. */
    void (*encode)(const struct kv *kv, const struct kv_op *op, struct buf *head, struct buf *tail);
    enum kv_parse (*parse)(struct kv *kv, struct kv_op *op, const char *bytes, size_t len,
                           struct kv_reply *reply);
    /* What a new connection says first; nothing when it appends nothing. One reply follows. */
    void (*greet)(const struct kv *kv, struct buf *out);
    /* The server of a name; called under the lock. */
    struct kv_server *(*route)(struct kv *kv, const char *name);
    /* Before a run; may run operations itself. NULL: nothing to do. */
    void (*prepare)(struct kv *kv, uint64_t deadline_ns);
    /* Asks whether the servers have room. NULL: not known before a put is refused. */
    bool (*has_room)(struct kv *kv, uint64_t deadline_ns);
    void (*free)(struct kv *kv);
};

struct kv {
    const struct kv_protocol *protocol;
    struct kv_options options;
    char prefix[128];
    char user[KV_SECRET_BYTES], password[KV_SECRET_BYTES];
    struct tls *tls; /* NULL: plain TCP */
    void *own;       /* of the protocol */
    struct lock lock;
    struct kv_server *servers[KV_SERVERS_MAX] GUARDED_BY(lock); /* they stay until the end */
    size_t servers_count GUARDED_BY(lock);
    bool stopped GUARDED_BY(lock);
    bool stale GUARDED_BY(lock); /* a server failed or moved: routes may be wrong */
    uint64_t full_until_ns GUARDED_BY(lock), room_asked_ns GUARDED_BY(lock);
    uint64_t capacity GUARDED_BY(lock); /* kv_capacity */
};

/* The server of that address, added if it is new; NULL: too many. */
struct kv_server *kv_add_server_locked(struct kv *kv, struct str host, struct str port)
    REQUIRES(lock);
/* Runs operations at one server, whatever their names are. */
void kv_run_at(struct kv *kv, struct kv_server *server, struct kv_op *ops, size_t count,
               uint64_t deadline_ns);

extern const struct kv_protocol kv_valkey, kv_s3;
/* Reads the part of the URL after the scheme. */
enum err kv_valkey_init(struct kv *kv, struct str rest, struct errinfo *info) NODISCARD;
enum err kv_s3_init(struct kv *kv, struct str rest, struct errinfo *info) NODISCARD;

/*
 * hearth.h: libhearth, a cache of computed prompt prefixes for any inference engine.
 *
 * You have an engine that computes state for a sequence of tokens: rows of K and V, recurrent
 * states, windows. libhearth remembers that state by the tokens it belongs to, in memory and on
 * disk, and tells you for the next prompt how much of it need not be computed again. It never looks
 * into the state: objects are opaque bytes with a small record that you define (the shape).
 *
 *      hearth_open -> hearth_space_open (one per model and tenant)
 *
 *      before a prefill    hearth_lookup -> plan: a boundary and the objects to import, in order
 *                          hearth_plan_fetch each -> your import -> hearth_plan_accept (now a hit)
 *                             an object is bad or missing -> hearth_plan_shorten: the next shorter
 *                             boundary, or a cold start
 *                          hearth_plan_release
 *
 *      after computing     hearth_store_open -> hearth_store_next: what is not held yet
 *                          hearth_store_reserve: memory to export into -> hearth_store_commit
 *                          hearth_store_close
 *
 * PROMISE. The cache may forget; it may never lie. An object is handed out only for exactly the
 * tokens, model and tenant it was stored for, compared in full, and only with the bytes that were
 * stored. A damaged, late or missing object is a miss, never an error.
 *
 * THREADS. Every function may be called from any thread; a plan or a store belongs to one thread at
 * a time. Nothing here waits for a disk or a server except hearth_plan_fetch, hearth_discover,
 * hearth_get_note, hearth_verify, hearth_export, hearth_import and hearth_close.
 *
 * VERSIONS. Structs that you fill begin with struct_size: set it to sizeof; fields that a newer
 * header adds are zero for older programs. Functions return HEARTH_OK (0) or an enum hearth_error;
 * hearth_error_text describes it.
 */
#ifndef HEARTH_HEARTH_H
#define HEARTH_HEARTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEARTH_API __attribute__((visibility("default")))

/* Increases with every addition; the SONAME increases with every incompatible change. Makefiles
 * read this line. */
#define HEARTH_API_VERSION 7

enum hearth_error {
    HEARTH_OK = 0,
    HEARTH_ERROR_MEMORY = 1,  /* no memory, or the budget is full and nothing may be evicted */
    HEARTH_ERROR_INVALID = 2, /* an argument is not valid */
    HEARTH_ERROR_MISSING = 3, /* the object is gone or damaged: shorten the plan */
    HEARTH_ERROR_EXISTS = 4,  /* held already: nothing to store */
    HEARTH_ERROR_REFUSED = 5, /* the policy does not admit it */
    HEARTH_ERROR_TIMEOUT = 6,
    HEARTH_ERROR_BUSY = 7,   /* a directory is in use by another process */
    HEARTH_ERROR_SYSTEM = 8, /* the system refused something; the message says what */
};

enum { HEARTH_KEY_BYTES = 32, HEARTH_SHAPE_BYTES_MAX = 160, HEARTH_MESSAGE_BYTES = 256 };

/* How a layer's state can be cut; a model is a set of these bits. Unknown layers are recurrent. */
enum hearth_kind {
    HEARTH_KIND_FULL = 1,      /* any prefix of its rows is a state */
    HEARTH_KIND_SLIDING = 2,   /* only the last rows are kept */
    HEARTH_KIND_CHUNKED = 4,   /* as sliding, in chunks */
    HEARTH_KIND_RECURRENT = 8, /* one state, valid at one token count */
};

enum hearth_object_kind {
    HEARTH_OBJECT_ROWS = 1, /* tokens [begin, end) of everything that can be cut */
    /* rows [begin, end) of the sliding layers, where the engine captures them */
    HEARTH_OBJECT_SLIDING = 2,
    HEARTH_OBJECT_SNAPSHOT = 3, /* what cannot be cut, at exactly `end` tokens; begin = 0 */
};

enum hearth_tier {
    HEARTH_TIER_RAM = 0,
    HEARTH_TIER_SSD = 1,
    HEARTH_TIER_REMOTE = 2,
    HEARTH_TIER_COUNT = 3
};

/* How the plan relates to the cached state. */
enum hearth_match {
    HEARTH_MATCH_NONE = 0,
    /* all that is reusable of this prompt, and nothing longer is cached */
    HEARTH_MATCH_EXACT = 1,
    HEARTH_MATCH_PREFIX = 2, /* a cached prefix ends where the plan ends */
    /* all that is reusable of this prompt; the cached sequence is longer */
    HEARTH_MATCH_SUPERSEQUENCE = 3,
    /* the plan ends inside a longer cached sequence that diverges */
    HEARTH_MATCH_LCP = 4,
};

/* Why a plan is not longer; a closed list. */
enum hearth_reason {
    HEARTH_REASON_NONE = 0,     /* nothing more was possible */
    HEARTH_REASON_COLD = 1,     /* nothing is cached for this space */
    HEARTH_REASON_DIVERGED = 2, /* the next token differs from everything cached */
    HEARTH_REASON_SHORT = 3,    /* the cached sequence ends there */
    /* rows go further, but no snapshot allows a later boundary */
    HEARTH_REASON_NO_SNAPSHOT = 4,
    HEARTH_REASON_EVICTED = 5,    /* it was cached and has been evicted */
    HEARTH_REASON_FOREIGN = 6,    /* cached only for another model, configuration or tenant */
    HEARTH_REASON_UNVERIFIED = 7, /* cached, but its bytes failed verification */
    HEARTH_REASON_CHEAPER = 8,    /* computing is expected to be faster than fetching */
    /* a tier did not answer within the time that it could have saved */
    HEARTH_REASON_TIMEOUT = 9,
    HEARTH_REASON_TIER_ERROR = 10, /* a tier failed */
    HEARTH_REASON_REFUSED = 11,    /* the engine refused the import */
    HEARTH_REASON_DISABLED = 12,   /* disabled by the request or the configuration */
    HEARTH_REASON_COUNT = 13,
};

/* What an object belongs to; affects how long it is kept. */
enum hearth_entry {
    HEARTH_ENTRY_ASSISTANT = 0, /* ends with generated tokens */
    HEARTH_ENTRY_USER = 1,      /* ends with a prompt */
    HEARTH_ENTRY_SYSTEM = 2,    /* system prompt and tools: an anchor */
};

/* How the answer ended that a prompt is stored with. Agents that called a tool come back within
 * seconds, people take longer. */
enum hearth_ending {
    HEARTH_ENDING_UNKNOWN = 0,
    HEARTH_ENDING_TEXT = 1,
    HEARTH_ENDING_CALL = 2,
};

/* What the cache did; a closed list. */
enum hearth_event_kind {
    HEARTH_EVENT_LOOKUP = 0,
    HEARTH_EVENT_HIT = 1, /* a plan was accepted */
    /* a plan was released without being accepted; `reason` says why it was not longer */
    HEARTH_EVENT_MISS = 2,
    HEARTH_EVENT_PARTIAL = 3, /* a hit that is shorter than what was matched */
    HEARTH_EVENT_WRITE = 4,   /* an object was committed */
    /* an object was superseded by a longer one of the same conversation */
    HEARTH_EVENT_REPLACE = 5,
    HEARTH_EVENT_EVICT = 6,
    HEARTH_EVENT_PROMOTE = 7, /* from a slower tier into memory */
    HEARTH_EVENT_DEMOTE = 8,  /* out of memory; it stays in a slower tier */
    HEARTH_EVENT_DROP = 9,    /* a tier lost it, or could not read or write it; `reason` */
    HEARTH_EVENT_VERIFY_FAIL = 10,
    HEARTH_EVENT_CLEAR = 11,
    HEARTH_EVENT_COUNT = 12,
};

HEARTH_API const char *hearth_error_text(int error);
HEARTH_API const char *hearth_reason_name(enum hearth_reason reason); /* "no_snapshot" */
HEARTH_API const char *hearth_match_name(enum hearth_match match);
HEARTH_API const char *hearth_tier_name(enum hearth_tier tier);
HEARTH_API const char *hearth_event_name(enum hearth_event_kind kind); /* "hit" */
/* "snapshot"; "none" for 0 */
HEARTH_API const char *hearth_object_kind_name(enum hearth_object_kind kind);
HEARTH_API unsigned hearth_api_version(void);

/* ---- a cache ---- */

struct hearth_options {
    size_t struct_size;
    /* cap on everything that grows: objects with their arenas, reservations, trees, spaces,
     * plans, stores. Fixed tables, less than 1 MiB, are not included */
    uint64_t ram_bytes;
    uint32_t block_tokens; /* 0 = 256; at most 65,536 */
    uint32_t run_tokens;   /* blocks moved as one object, at most; 0 = 2,048 */
    /* memory for tails (the rows after the last whole block), per space; 0 = a quarter of
     * ram_bytes; UINT64_MAX = no tails */
    uint64_t tail_bytes;
    /* eviction: "expected-reuse" (NULL), "saving-per-byte", "lru-tail" */
    const char *policy;
    /* HEARTH_KEY_BYTES of the installation; NULL = random, nothing survives the process */
    const unsigned char *key;
    /* Memory for objects, so that it can be pinned; NULL = pages of the system. */
    void *(*alloc)(size_t size, void *arg);
    void (*free)(void *ptr, void *arg);
    void *alloc_arg;
    /* One line per event, without newline; called without locks held. NULL = none. */
    void (*log)(const char *line, void *arg);
    void *log_arg;
    /* The part of ram_bytes for everything but objects: trees, records, plans, stores. 0 = one
     * part in 32, at least 1 MiB; never more than half. A block takes about 1.3 KiB in any tier:
     * more is needed when a disk holds thousands of times as much as memory. */
    uint64_t books_bytes;
    /* Memory of `alloc` that a thread takes before it is needed, because pinning is slow; part of
     * ram_bytes. 0 = a little. */
    uint64_t ahead_bytes;
    /* memory for snapshots, per space; the least valuable ones beyond it are evicted. 0 = no limit
     * but ram_bytes */
    uint64_t snapshot_bytes;
};

struct hearth_cache;

/* On failure *cache is NULL and message (HEARTH_MESSAGE_BYTES, may be NULL) says why. */
HEARTH_API int hearth_open(struct hearth_cache **cache, const struct hearth_options *options,
                           char *message);
/* All spaces, plans and stores must be closed before. */
HEARTH_API void hearth_close(struct hearth_cache **cache);

/* ---- a disk below the memory ---- */

struct hearth_ssd_options {
    size_t struct_size;
    /* of a folder, created if missing; one process writes to it at a time */
    const char *path;
    uint64_t bytes_max;     /* of everything in it, temporary files included; 0 = 32 GiB */
    uint64_t free_min;      /* bytes of its file system that are left free */
    uint64_t day_bytes_max; /* written per day; 0 = unlimited */
    bool second_sighting;   /* write an object only when it is offered a second time */
    /* also authenticate payloads instead of only checking them for damage */
    bool payload_mac;
    bool read_only; /* can be used beside a process that writes */
    /* expected read speed, compared with computing; 0 = unknown */
    double bytes_per_s;
    /* how long hearth_close may keep writing, to all tiers together; 0 = 5,000. The longest counts */
    uint64_t drain_ms;
    /* HEARTH_KEY_BYTES: objects are encrypted with it (XChaCha20-Poly1305); NULL = not. Objects
     * of the other kind, or of another key, are left alone and not found. Names of files are
     * hashes with the cache's own key: with it, guesses of a prompt can be tested. */
    const unsigned char *seal_key;
};

/* Objects stored from now on are also written there, and objects of earlier processes with the
 * same key can be found at once. Call it once, before any lookup. BUSY: another process writes
 * there. On failure the cache is unchanged, and message (may be NULL) says why. */
HEARTH_API int hearth_attach_ssd(struct hearth_cache *cache,
                                 const struct hearth_ssd_options *options, char *message);

/* ---- a store that other machines use as well ---- */

struct hearth_shared_options {
    size_t struct_size;
    /* valkey://[user:pass@]host:port[,host:port...]/prefix (valkeys:// with TLS), or
     * s3://bucket/prefix */
    const char *url;
    uint64_t ttl_s;                /* of everything written; 0 = a day */
    uint32_t timeout_ms;           /* of a question, and of bytes that do not come; 0 = 2,000 */
    const unsigned char *seal_key; /* as in hearth_ssd_options */
    const char *ca_file;           /* certificates that TLS trusts; NULL = those of the system */
    uint64_t drain_ms;             /* as in hearth_ssd_options */
    /* of a Valkey store with maxmemory: what one tenant may fill, on all machines together; 0 = no
     * limit. Spaces without a tenant have none. */
    uint32_t tenant_percent;
};

/* As hearth_attach_ssd. Machines share objects when their caches have the same key and block
 * size, and their models the same fingerprint. A server that does not answer is not an error:
 * INVALID is a URL that cannot be read. What other machines have stored is found by
 * hearth_discover. */
HEARTH_API int hearth_attach_shared(struct hearth_cache *cache,
                                    const struct hearth_shared_options *options, char *message);

/* Small values beside the objects (at most 512 KiB), by a key of HEARTH_KEY_BYTES: what another
 * machine must know to continue, such as the exact tokens of a turn. put returns at once. get:
 * *len bytes of *data, to be freed with hearth_free; MISSING: there is none, or no answer came in
 * time. */
HEARTH_API void hearth_put_note(struct hearth_cache *cache, const unsigned char *key,
                                const void *data, size_t len);
HEARTH_API int hearth_get_note(struct hearth_cache *cache, const unsigned char *key,
                               uint32_t timeout_ms, void **data, size_t *len);
HEARTH_API void hearth_free(void *data);

struct hearth_shared_server {
    size_t struct_size;
    char name[264];      /* host:port */
    const char *breaker; /* a literal: "closed" (in use), "open" (not asked), "half-open" */
    uint64_t replies, failures;
    uint64_t opened;     /* how often the breaker was opened */
    double round_trip_s; /* averaged; 0 = unknown */
};
/* INVALID: there are not that many. */
HEARTH_API int hearth_get_shared_server(struct hearth_cache *cache, size_t index,
                                        struct hearth_shared_server *server);
/* What the shared store has counted: name and help are literals. INVALID as above. */
HEARTH_API int hearth_get_shared_counter(struct hearth_cache *cache, size_t index,
                                         const char **name, const char **help, uint64_t *value);

/* ---- a space: one model as it is configured, one tenant ---- */

struct hearth_model {
    size_t struct_size;
    /* of weights and of everything that gives state its meaning */
    unsigned char fingerprint[HEARTH_KEY_BYTES];
    uint32_t kinds;  /* enum hearth_kind bits */
    uint32_t window; /* of sliding or chunked layers, tokens */
    /* the engine stores HEARTH_OBJECT_SLIDING: no snapshot needed for windows */
    bool captures_sliding;
    double prefill_tokens_per_s; /* 0 = not known yet: always restore */
    double import_bytes_per_s;   /* 0 = not known */
    /* for comparing snapshots with rows; 0 = unknown */
    uint64_t rows_bytes_per_token;
    uint64_t snapshot_bytes;
};

struct hearth_space;

/* `tenant` ("" for none) is part of every key: spaces share nothing. Opening the same twice
 * gives the same content. `share_bytes` of the budget are reserved for this tenant. The value of
 * the first open counts; MEMORY: that much is not available. */
HEARTH_API int hearth_space_open(struct hearth_cache *cache, const struct hearth_model *model,
                                 const char *tenant, uint64_t share_bytes,
                                 struct hearth_space **space);
/* The same for the disk, counting files with their overhead: objects of this space within its
 * share are not evicted for others, as long as memory has room for their records. Valid until it
 * is set again, and not persistent: every process sets it. 0 = none. INVALID: no disk; MEMORY:
 * not available: the disk is read-only, all shares together exceed half of its cap, or there are
 * more than 63. */
HEARTH_API int hearth_space_set_ssd_share(struct hearth_space *space, uint64_t share_bytes);
/* Its objects stay cached for the next open. Its plans and stores must be closed before. */
HEARTH_API void hearth_space_close(struct hearth_space **space);
/* Measured speeds, as they become known. */
HEARTH_API void hearth_space_set_speed(struct hearth_space *space, double prefill_tokens_per_s,
                                       double import_bytes_per_s);

/* A token costs more the further back it looks: each token before it adds so many seconds. The speed
 * above is then that of the first tokens. 0 = all cost the same. */
HEARTH_API void hearth_space_set_depth(struct hearth_space *space, double seconds_per_token_before);

/* ---- the restore contract: to which token counts a state can go back ---- */

/* What is retained of one layer's state, or of layers that are alike.
 *
 *      kind        retained                     can be restored to pos
 *      full        rows [0, length)             any pos in [0, length]
 *      sliding     rows [start, length)         pos whose window [pos - window, pos) is retained
 *      chunked     rows [start, length)         pos whose chunk, of `window` tokens, is retained
 *      recurrent   no rows                      length alone: an exact checkpoint
 *
 * An unknown kind, a window of 0, and a start beyond the length are treated as recurrent. */
struct hearth_retained {
    uint32_t kind;   /* one enum hearth_kind */
    uint32_t length; /* tokens that the state represents */
    uint32_t window; /* sliding, chunked */
    uint32_t start;  /* sliding, chunked: the first row that is retained */
    uint32_t keep;   /* rows pinned at the front ("attention sinks"): not restorable unless 0 */
};

struct hearth_range {
    uint32_t begin, end; /* tokens whose rows are retained */
};

struct hearth_restored {
    bool restored;
    uint32_t tokens;       /* restored; 0 on failure */
    uint32_t replay_start; /* the first token to compute; 0 on failure */
    const char *reason;    /* a literal, also on success */
};

/* Pure functions: they hold no bytes and need no cache. A model with layers of several kinds is
 * an array of parts, which are restored together or not at all. Lookups choose boundaries with
 * them. */
HEARTH_API struct hearth_range hearth_retained_range(const struct hearth_retained *part);
HEARTH_API bool hearth_can_restore_to(const struct hearth_retained *parts, size_t count,
                                      uint32_t pos);
/* Shortens all parts to pos. On failure they are unchanged, and the reason is that of the first
 * part that cannot be restored. */
HEARTH_API struct hearth_restored hearth_restore_to(struct hearth_retained *parts, size_t count,
                                                    uint32_t pos);
/* The largest pos <= limit that all parts can be restored to; 0 = only a cold start. */
HEARTH_API uint32_t hearth_longest_restore(const struct hearth_retained *parts, size_t count,
                                           uint32_t limit);

/* ---- looking up ---- */

enum hearth_lookup_flags {
    HEARTH_LOOKUP_PEEK = 1, /* changes no order of use and no counters: for probes */
};

struct hearth_lookup_options {
    size_t struct_size;
    /* id of the request, for every event and log line of this lookup; 0 = none */
    uint64_t request;
    uint32_t flags; /* enum hearth_lookup_flags */
    /* Called once for each fetch of the plan that timed out, when that object has arrived or
     * cannot arrive: fetch it again. On a thread of a tier; must not block or use the plan. NULL
     * = never. Not called after hearth_plan_release, which waits for a running call */
    void (*ready)(void *arg);
    void *ready_arg;
    /* TIMEOUT or TIER_ERROR: hearth_discover failed so. The plan gives that reason where it would
     * say that the tokens are not cached; NONE = it did not */
    enum hearth_reason search_failed;
};

struct hearth_object {
    enum hearth_object_kind kind;
    uint32_t begin, end; /* tokens */
    uint64_t bytes;
    enum hearth_tier tier; /* where it is now */
    const void *shape;     /* as it was committed */
    size_t shape_bytes;
};

struct hearth_plan_info {
    /* tokens that need not be computed; 0 = a cold start. At least one token is always left to
     * run */
    uint32_t boundary;
    uint32_t matched; /* tokens that are cached in some form, >= boundary */
    /* rows in order, then sliding rows in order; the snapshot, if any, last. Rows count up to
     * the begin of the next object of their kind, or to the boundary: rows beyond that belong to
     * other tokens (only the beginning of the run is shared), and the engine cuts them */
    const struct hearth_object *objects;
    size_t objects_count;
    enum hearth_match match;
    enum hearth_reason reason; /* why it is not longer */
    /* position of the first token that is not cached; the prompt's length when all are */
    uint32_t first_difference;
    /* a boundary where a snapshot would have helped: take one there; 0 = none */
    uint32_t junction;
    double fetch_s, compute_s; /* expected */
    /* NO_SNAPSHOT: there was a later one, and it was evicted */
    bool snapshot_evicted;
};

struct hearth_plan;

/* Asks a shared store what other machines have stored of these tokens, and lets the next lookup
 * find it. Waits for the answer, at most for the timeout; at once when all of it is cached here,
 * when there is no such store, or when its servers are known to be down. TIMEOUT, SYSTEM: the store
 * did not answer in time, or could not be asked (hearth_lookup_options.search_failed). */
HEARTH_API int hearth_discover(struct hearth_space *space, const int32_t *tokens, size_t count,
                               uint32_t timeout_ms);
/* Copies the tokens that followed these in the sequence of this space that was used last, at most
 * `max`, and returns their number; 0 when no cached sequence begins with all of them. A guess what
 * comes next: it is not a promise that state of these tokens is cached. Changes nothing. */
HEARTH_API size_t hearth_continuation(struct hearth_space *space, const int32_t *tokens,
                                      size_t count, int32_t *next, size_t max);
/* Always returns a plan, a cold one at worst, and leases all of its objects. Copies the tokens.
 * options may be NULL. MEMORY: no room even for the tokens; compute. */
HEARTH_API int hearth_lookup(struct hearth_space *space, const int32_t *tokens, size_t count,
                             const struct hearth_lookup_options *options,
                             struct hearth_plan **plan);
/* Valid until the next call on the plan. */
HEARTH_API const struct hearth_plan_info *hearth_plan_info(const struct hearth_plan *plan);

/* The bytes of object `index`, verified; waits at most timeout_ms for a slower tier. Stay valid
 * until the plan is shortened or released. HEARTH_ERROR_MISSING, HEARTH_ERROR_TIMEOUT: shorten. */
HEARTH_API int hearth_plan_fetch(struct hearth_plan *plan, size_t index, uint32_t timeout_ms,
                                 const void **data);
/* Asks slower tiers for all objects now, so that fetching them one after another overlaps with
 * importing. */
HEARTH_API void hearth_plan_prefetch(struct hearth_plan *plan);
/* Object `index` cannot be used (`why`: UNVERIFIED, REFUSED, ...; NONE: the reason of the last
 * failed fetch): falls back to the longest boundary that needs neither it nor anything after it.
 * Also drops the object, unless why is TIMEOUT or TIER_ERROR, which say nothing about its bytes. */
HEARTH_API void hearth_plan_shorten(struct hearth_plan *plan, size_t index, enum hearth_reason why);
/* Lowers the boundary to the longest possible one <= limit: for engines that resume at certain cuts
 * only. */
HEARTH_API void hearth_plan_lower(struct hearth_plan *plan, uint32_t limit);
/* Objects [begin, end) of the plan are not used: their tokens were computed meanwhile. An accepted
 * plan does not count them. Reads of them that no other plan needs are cancelled. */
HEARTH_API void hearth_plan_skip(struct hearth_plan *plan, size_t begin, size_t end);
/* The state was imported and is in use: counts as a hit. */
HEARTH_API void hearth_plan_accept(struct hearth_plan *plan);
HEARTH_API void hearth_plan_release(struct hearth_plan **plan);

/* What a lookup would find, for diagnosis. Changes no counters and no order of use, fetches
 * nothing, and holds no leases: the result was true while it ran. */
struct hearth_probe {
    size_t struct_size;
    uint32_t boundary, matched; /* as in hearth_plan_info, and so the next three */
    enum hearth_match match;
    enum hearth_reason reason;
    uint32_t first_difference;
    uint32_t tokens_by_tier[HEARTH_TIER_COUNT]; /* of the boundary: where they would come from */
    /* blocks that match, whole or in part: the total, even if it exceeds `max` */
    size_t blocks_count;
};

struct hearth_block {
    uint32_t begin, end; /* what matches of it */
    /* the fastest tier that has all of these rows; HEARTH_TIER_COUNT: none. Models without rows:
     * the tier of the boundary's snapshot, up to the boundary */
    enum hearth_tier tier;
    unsigned char key[HEARTH_KEY_BYTES]; /* as in struct hearth_held */
};

/* Fills `probe`, and `blocks` from the first on, `max` at most. INVALID: no tokens, or too many. */
HEARTH_API int hearth_probe(struct hearth_space *space, const int32_t *tokens, size_t count,
                            struct hearth_probe *probe, struct hearth_block *blocks, size_t max);

/* ---- storing ---- */

/* Bytes of memory that snapshots of this space may take: their limit, or that of the cache. */
HEARTH_API uint64_t hearth_space_snapshot_room(const struct hearth_space *space);

struct hearth_store_hints {
    size_t struct_size;
    enum hearth_entry entry; /* what the end of these tokens is */
    uint32_t anchor;         /* end of system prompt and tools; 0 = not known */
    /* state of these tokens, stored now or before, is kept at least this long; 0 = by policy */
    uint32_t ttl_s;
    /* not evicted from the close of the store on, until hearth_pin unpins these tokens */
    bool pin;
    bool no_disk;     /* memory only */
    uint64_t request; /* for events */
    /* Hints where snapshots are worth their bytes. prompt = 0: unknown, and a snapshot is wanted
     * at every place. */
    /* tokens of the whole prompt that these tokens are the beginning of, generated ones included */
    uint32_t prompt;
    bool generated; /* it ends with generated tokens */
    /* boundary that it was restored at. When that is a good hit (at least 1,000 tokens, the
     * anchor, and half of the prompt), objects of earlier turns of this conversation are evicted
     * first from now on */
    uint32_t resumed;
    uint32_t last_user; /* start of the last user message; 0 = not known */
    uint32_t junction;  /* as the plan said */
    uint32_t sparse;    /* a grid on long prompts, tokens; 0 = none */
    enum hearth_ending ending;
    /* start of text in the last message that the next turn may not have; 0 = none */
    uint32_t transient;
    /* a place inside these tokens where later prompts may diverge, although none did; 0 = none. Its
     * snapshot is evicted before others, until it is used */
    uint32_t fork;
    bool fork_last; /* the last such place: slower tiers get it, too */
};

struct hearth_store;

/* The state of `count` tokens exists in the engine. Copies the tokens. */
HEARTH_API int hearth_store_open(struct hearth_space *space, const int32_t *tokens, size_t count,
                                 const struct hearth_store_hints *hints,
                                 struct hearth_store **store);
/* The next piece that is not cached: rows [*begin, *end) of whole blocks, at most one run, or
 * the tail. False when all rows are cached. */
HEARTH_API bool hearth_store_next(struct hearth_store *store, uint32_t *begin, uint32_t *end);
/* Whether a snapshot at `at` is wanted (by the hints: the end of the prompt, the anchor, the
 * junction, the last user message, transient text, the fork, the grid) and not held yet. */
HEARTH_API bool hearth_store_wants_snapshot(struct hearth_store *store, uint32_t at);
/* Memory of at least `capacity` bytes to export an object into. Evicts others if necessary, but
 * never a prefix of these tokens. MEMORY, EXISTS or REFUSED otherwise: continue without storing.
 * REFUSED: rows whose prefix is not cached (store them in order), tails when they are disabled,
 * and kinds that the model does not need. One reservation at a time per store. */
HEARTH_API int hearth_store_reserve(struct hearth_store *store, enum hearth_object_kind kind,
                                    uint32_t begin, uint32_t end, uint64_t capacity, void **memory);
/* The first `bytes` of the memory are the object; the rest is freed. From now on it can be
 * found. */
HEARTH_API int hearth_store_commit(struct hearth_store *store, uint64_t bytes, const void *shape,
                                   size_t shape_bytes);
/* The export failed: frees the memory. */
HEARTH_API void hearth_store_cancel(struct hearth_store *store);
HEARTH_API void hearth_store_close(struct hearth_store **store); /* cancels what is reserved */

/* ---- sessions: all of this in two calls, for programs with one engine and one sequence ---- */

struct hearth_session_ops {
    size_t struct_size;
    /* Imports objects into a fresh sequence of `boundary` tokens; false: refused. */
    bool (*import)(const struct hearth_object *objects, const void *const *data, size_t count,
                   uint32_t boundary, void *arg);
    /* Capacity for exporting, and the export itself: returns bytes (0 = failed) and fills shape. */
    uint64_t (*capacity)(enum hearth_object_kind kind, uint32_t begin, uint32_t end, void *arg);
    uint64_t (*export_to)(enum hearth_object_kind kind, uint32_t begin, uint32_t end, void *memory,
                          uint64_t capacity, void *shape, size_t *shape_bytes, void *arg);
    void *arg;
};

/* Looks up, fetches, imports; falls back until it works. *reused = tokens that need not be
 * computed. options may be NULL. */
HEARTH_API int hearth_session_lookup(struct hearth_space *space,
                                     const struct hearth_session_ops *ops, const int32_t *tokens,
                                     size_t count, const struct hearth_lookup_options *options,
                                     uint32_t *reused);
/* Stores what is not cached of a sequence of `count` tokens. *stored = bytes written. */
HEARTH_API int hearth_session_insert(struct hearth_space *space,
                                     const struct hearth_session_ops *ops, const int32_t *tokens,
                                     size_t count, const struct hearth_store_hints *hints,
                                     uint64_t *stored);

/* ---- managing ---- */

struct hearth_stats {
    size_t struct_size;
    /* a partial is a hit that is shorter than what was matched */
    uint64_t lookups, hits, misses, partials;
    uint64_t tokens_looked_up, tokens_matched, tokens_reused; /* reused: of accepted plans only */
    uint64_t tokens_reused_by_tier[HEARTH_TIER_COUNT];
    uint64_t stores, stores_refused, stores_failed, evictions, bytes_evicted;
    /* objects superseded by longer ones of their conversation: dropped, or evicted first from
     * then on */
    uint64_t replaces;
    uint64_t promotions, demotions, verify_failures, tier_errors;
    /* writes to a slower tier that was full or busy; retried later; given up */
    uint64_t writes_declined, writes_retried, writes_given_up;
    uint64_t miss_by_reason[HEARTH_REASON_COUNT];
    uint64_t objects, nodes, snapshots, tails; /* cached now */
    uint64_t tail_stashes, tail_hits, tail_evictions;
    uint64_t bytes_by_tier[HEARTH_TIER_COUNT], bytes_index, bytes_budget, bytes_cap;
    /* all memory taken from the system now, gaps included. Never above bytes_cap; when that is
     * lowered, arenas are given back as they become empty */
    uint64_t bytes_memory;
    /* Payload that went in and out of each tier, and how long that took, summed over operations
     * that may overlap. Memory: what was committed, and the objects of accepted plans, which are
     * not copied and take no time. Slower tiers: what was moved there and back. */
    uint64_t bytes_read_by_tier[HEARTH_TIER_COUNT], bytes_written_by_tier[HEARTH_TIER_COUNT];
    uint64_t ns_read_by_tier[HEARTH_TIER_COUNT], ns_written_by_tier[HEARTH_TIER_COUNT];
    /* of tokens_reused, those that came from tails: without tails they would have been computed */
    uint64_t tail_tokens;
    /* memory for tails, per space; 0 = none, or its model cannot be cut at any token */
    uint64_t tail_bytes_max;
};

/* space NULL: all spaces. */
HEARTH_API void hearth_get_stats(struct hearth_cache *cache, struct hearth_space *space,
                                 struct hearth_stats *stats);
/* sets counters to zero; objects stay cached */
HEARTH_API void hearth_reset_stats(struct hearth_cache *cache);
/* Drops everything of a space (NULL: all) in one tier (HEARTH_TIER_COUNT: all), tails included.
 * Returns the bytes freed. */
HEARTH_API uint64_t hearth_clear(struct hearth_cache *cache, struct hearth_space *space,
                                 enum hearth_tier tier);
/* No prompt will continue these tokens: what only they use after the first `keep` of them is evicted
 * first from now on. It can be found until then; a use makes it equal to other objects again. Returns
 * the number of objects. */
HEARTH_API size_t hearth_release(struct hearth_space *space, const int32_t *tokens, size_t count,
                                 uint32_t keep);
/* No prompt will continue these tokens soon: as hearth_release, but only for memory. What is on a
 * disk or a shared store stays there as long as anything else, and what is not is still written. */
HEARTH_API size_t hearth_demote(struct hearth_space *space, const int32_t *tokens, size_t count,
                                uint32_t keep);
/* Pins the path of these tokens, as far as it is cached, in whole blocks or up to the last
 * token; or removes the longest pin that is a prefix of them. Returns how far; 0: nothing was
 * done. Pins are counted: unpin the same tokens as often. Clearing all tiers also removes pins. */
HEARTH_API uint32_t hearth_pin(struct hearth_space *space, const int32_t *tokens, size_t count,
                               bool pin);
/* Changes the cap; evicts down to it. Shares of tenants that it cannot cover are reduced in
 * proportion, until it is raised again. */
HEARTH_API void hearth_set_ram_bytes(struct hearth_cache *cache, uint64_t ram_bytes);
/* The same for the disk: files above the cap are evicted in the background. INVALID: there is no
 * writable disk, or the cap is 0. */
HEARTH_API int hearth_set_ssd_bytes(struct hearth_cache *cache, uint64_t bytes_max);
/* Limit of bytes written per day, today's included; 0 = unlimited. INVALID as above. */
HEARTH_API int hearth_set_ssd_day_bytes(struct hearth_cache *cache, uint64_t day_bytes_max);

enum hearth_tier_state {
    HEARTH_STATE_OFF = 0,
    HEARTH_STATE_OK = 1,
    /* its last write failed, or a part of its folder cannot be read or removed */
    HEARTH_STATE_DEGRADED = 2,
    HEARTH_STATE_READ_ONLY = 3,
};
HEARTH_API const char *hearth_tier_state_name(enum hearth_tier_state state); /* "read_only" */

/* What one tier holds and did since the start, or since hearth_reset_stats. */
struct hearth_tier_stats {
    size_t struct_size;
    enum hearth_tier_state state;
    uint64_t used, cap; /* bytes of cached objects, including overhead */
    uint64_t objects;   /* held now */
    uint64_t hits;      /* accepted plans that took something from it */
    uint64_t stores;    /* objects that came into it from above: committed; written */
    uint64_t evictions; /* objects evicted for room or dropped by a call */
    uint64_t read_bytes, written_bytes; /* as in struct hearth_stats */
    /* of the disk, per UTC day, as its budget counts: includes earlier processes and the
     * overhead of files */
    uint64_t written_today;
    uint64_t errors; /* reads and writes that failed, bytes that were damaged */
    /* Writes to a slower tier. Each accepted one is queued, then stored (`stores`), failed, or
     * cancelled because its object was dropped first. */
    uint64_t accepted, queued, failed, cancelled;
    uint64_t declined; /* writes that were not accepted; some are retried later */
};
/* INVALID: no such tier. A tier that does not exist is OFF, and all zero. */
HEARTH_API int hearth_get_tier(struct hearth_cache *cache, enum hearth_tier tier,
                               struct hearth_tier_stats *stats);

/* ---- contents and events ---- */

/* One cached object. Pointers and keys are valid only during the callback. */
struct hearth_held {
    const unsigned char *space; /* HEARTH_KEY_BYTES: of model and tenant */
    /* "" when there is none, or when the space was not opened since the start */
    const char *tenant;
    /* HEARTH_KEY_BYTES: of all tokens up to the end of the block that it ends in */
    const unsigned char *key;
    /* of the block before its first one; zeros at the beginning of a prompt */
    const unsigned char *parent;
    enum hearth_object_kind kind;
    uint32_t begin, end;
    uint64_t bytes;
    uint32_t tiers; /* bit 1 << enum hearth_tier for each that has it */
    uint32_t uses, leases;
    double age_s; /* since it was used or stored */
    enum hearth_entry entry;
    bool pinned;
    bool shared; /* prompts that differ after it have used it */
    /* a longer one of its conversation is cached: this one is evicted first */
    bool superseded;
    const int32_t *tokens;               /* NULL unless asked for */
    uint32_t tokens_begin, tokens_count; /* those of its own blocks: [tokens_begin, end) */
    double expires_s;                    /* until it expires (hearth_expire); 0 = not set */
};

enum hearth_each_flags {
    HEARTH_EACH_TOKENS = 1, /* include tokens, which reveal what people wrote */
};

/* Calls fn for each object of a space (NULL: all), in the order of storing; fn returns false to
 * end. Returns the number of calls. The lock is taken for a few dozen objects at a time and not
 * held while fn runs, which may call everything but hearth_close: objects stored meanwhile are
 * not shown, objects evicted meanwhile may be. */
HEARTH_API size_t hearth_each(struct hearth_cache *cache, struct hearth_space *space,
                              unsigned flags, bool (*fn)(const struct hearth_held *held, void *arg),
                              void *arg);

/* ---- by key: what people do with single objects ---- */

/* A key is hearth_held.key, of HEARTH_KEY_BYTES. It names a block, so that rows and snapshots
 * that end in it share one. Finding it scans all objects, a few hundred at a time under the
 * lock. */

/* As hearth_each, for objects with this key only. */
HEARTH_API size_t hearth_find(struct hearth_cache *cache, const unsigned char *key, unsigned flags,
                              bool (*fn)(const struct hearth_held *held, void *arg), void *arg);
/* As hearth_pin with the tokens up to the end of that block. Unpinning removes the longest pin
 * that ends in it. */
HEARTH_API uint32_t hearth_pin_key(struct hearth_cache *cache, const unsigned char *key, bool pin);

struct hearth_sum {
    uint64_t objects, bytes; /* each counted once, even if it is in several tiers */
};
/* Drops, in all tiers, the objects with this key and everything after it, which is useless
 * without them. Pinned objects stay; a plan that uses one keeps its bytes until it is released.
 * MISSING: no such key. REFUSED: it is pinned. `sum` may be NULL. Holds the lock until all are
 * dropped, as hearth_clear does. */
HEARTH_API int hearth_evict_key(struct hearth_cache *cache, const unsigned char *key,
                                struct hearth_sum *sum);
/* Drops objects of a space (NULL: all) that were not used for the given time, except those that
 * are pinned, in use, or needed by a younger one. */
HEARTH_API void hearth_evict_older(struct hearth_cache *cache, struct hearth_space *space,
                                   double older_s, struct hearth_sum *sum);
/* Makes the objects with this key, and everything after it, expire in the given number of
 * seconds: from then on they are not found. 0: cancels that. Objects that are pinned by then are
 * kept until they are unpinned. The bytes are freed, also on disk, by the first lookup, store or
 * listing after that time. The time is not stored on disk: if the process ends before, the next
 * one finds the files. MISSING; INVALID: not a valid time; MEMORY: too many are set (4,096). */
HEARTH_API int hearth_expire(struct hearth_cache *cache, const unsigned char *key, double seconds);

/* ---- verifying ---- */

struct hearth_verified {
    uint64_t objects, bytes; /* looked at */
    uint64_t unknown;        /* of them, those without a digest to compare with yet */
    /* that could not be read, which says nothing about them, or were evicted meanwhile */
    uint64_t failed;
    uint64_t damaged;
    uint64_t dropped; /* damaged ones that were removed from the tier */
};

struct hearth_verify_options {
    size_t struct_size;
    struct hearth_space *space; /* NULL = of all */
    enum hearth_tier tier;      /* slower ones are read in full, even if memory has the object */
    uint64_t bytes_per_s;       /* at most, on average; 0 = unlimited */
    /* after each object, no lock held; false ends it. NULL = to the end */
    bool (*more)(const struct hearth_verified *so_far, void *arg);
    void *arg;
};

/* Checks the bytes of all objects of a tier. On disk each has a digest (and a MAC or tags, by
 * its options); a damaged one is quarantined and dropped; if memory has it, it is written again.
 * Objects in memory have no digest at first, because they were verified on entry and only faulty
 * hardware changes them: they are compared with the digest on disk, or with that of an earlier
 * verification (`unknown` counts those verified for the first time). A damaged one is removed
 * from memory, and dropped unless the disk has it. Does not count as use. Waits for the disk;
 * other callers need not. INVALID: no such tier. */
HEARTH_API int hearth_verify(struct hearth_cache *cache,
                             const struct hearth_verify_options *options,
                             struct hearth_verified *result);

/* ---- to and from a folder ---- */

struct hearth_folder_options {
    size_t struct_size;
    const char *path;
    struct hearth_space *space; /* to export; NULL = of all */
    /* exports the objects with this key and the path up to it; NULL = everything */
    const unsigned char *key;
    /* As in hearth_ssd_options: encrypts or decrypts the objects. A cache whose disk is
     * encrypted exports only with a key. */
    const unsigned char *seal_key;
};

struct hearth_moved {
    uint64_t objects, bytes; /* written or imported */
    uint64_t held;           /* of an import: already cached */
    /* of an import: damaged, of another installation, seal, version or block size, of a model or
     * tenant whose space is not open, without what comes before it, or without room; of an export:
     * that could not be read or written */
    uint64_t refused;
};

/* Writes objects to a folder, created if missing, in the format of the disk (docs/ssd-
 * format.md), bound to the cache's key: they cannot be read or imported with another key.
 * Objects that are only on disk pass through memory. The cache itself does not change. On
 * failure message (HEARTH_MESSAGE_BYTES, may be NULL) says why. REFUSED: the export would be
 * unencrypted, but the disk is encrypted. MISSING: no such key. */
HEARTH_API int hearth_export(struct hearth_cache *cache,
                             const struct hearth_folder_options *options,
                             struct hearth_moved *moved, char *message);
/* Imports the objects of a folder as if they were stored now. The folder is not changed. Each
 * object is verified to the last byte and must match its tokens: it is trusted no more than
 * files of an earlier process. Spaces must be open. */
HEARTH_API int hearth_import(struct hearth_cache *cache,
                             const struct hearth_folder_options *options,
                             struct hearth_moved *moved, char *message);

struct hearth_event {
    uint64_t number; /* counts up from 1, without gaps */
    uint64_t wall_ns;
    uint64_t request; /* id of the request that caused it; 0 = none */
    enum hearth_event_kind kind;
    uint32_t prompt_tokens, read_tokens, write_tokens;
    uint64_t bytes;
    enum hearth_tier tier; /* HEARTH_TIER_COUNT = none */
    enum hearth_match match;
    enum hearth_reason reason;
    uint32_t first_difference;
    uint64_t us; /* how long it took */
    /* The object that was written, moved or dropped; 0 and 0 if the event is about none. */
    enum hearth_object_kind object;
    uint32_t position; /* the token count at which it ends */
};

/* Copies events with number > `after`, oldest first, at most max; returns how many. The last
 * 4,096 are kept: when the first one's number is not after + 1, those between are lost to this
 * reader. Start with 0, continue with the number of the last one. */
HEARTH_API size_t hearth_events_read(struct hearth_cache *cache, uint64_t after,
                                     struct hearth_event *events, size_t max);

enum { HEARTH_EVENT_LINE_BYTES = 512 }; /* enough for every line and its NUL */

/* As in the log: one line without newline, with every field under its own name, cut when `size`
 * (>= 1) is too small and always NUL-terminated; returns the length of the text. */
HEARTH_API size_t hearth_event_format(const struct hearth_event *event, char *line, size_t size);

enum { HEARTH_RATE_SECONDS_MAX = 900 };

/* How many events of a kind, and their tokens, in the last `seconds` (<=
 * HEARTH_RATE_SECONDS_MAX): for rates over 1, 5 and 15 minutes. Counted in whole seconds, the
 * current one included; hearth_reset_stats resets them. Sums, not ratios: the caller decides
 * what 0 of 0 means. */
struct hearth_rate {
    uint64_t count, prompt_tokens, read_tokens, write_tokens, bytes;
};
HEARTH_API int hearth_get_rate(struct hearth_cache *cache, enum hearth_event_kind kind,
                               uint32_t seconds, struct hearth_rate *rate);

#ifdef __cplusplus
}
#endif

#endif

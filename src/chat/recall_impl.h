/*
 * recall_impl.h: shared by the files of recall only; recall.h is the public interface.
 *
 * An entry is one block of memory, written once and never changed:
 *
 *      struct recall_entry | ids (struct recall_id each) | tokens | opening | end | reasoning
 */
#pragma once

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "chat/recall.h"

/* One tool-call id of an entry. */
struct recall_id {
    struct map_node node;
    struct hash256 hash; /* of space and id */
    struct recall_entry *entry;
};

struct recall_entry {
    struct list_node lru; /* linked: the entry can be found */
    struct map_node by_key;
    struct hash256 key;     /* of space, history and digest */
    struct hash256 digest;  /* of the message, without ids and thought */
    struct hash256 thought; /* hash of the trimmed thought */
    struct recall_id *ids;
    size_t ids_count;
    const int32_t *tokens;
    size_t tokens_count;
    struct str opening, end, reasoning;
    size_t bytes;
    unsigned holders; /* GUARDED_BY(lock): plans, savers, and the store while linked */
};

struct recall {
    struct lock lock;
    struct list lru;           /* GUARDED_BY(lock): oldest first */
    struct map by_key;         /* GUARDED_BY(lock) */
    struct map by_id;          /* GUARDED_BY(lock) */
    struct recall_stats stats; /* GUARDED_BY(lock) */
    size_t bytes_max;
    uint64_t seed;
    struct log *log;
    bool sealed;
    struct hash256 seal_key;   /* derived; of the file */
    struct recall_share share; /* put == NULL: none */
};

/* ---- recall.c ---- */

/* The contents of a new entry: like a turn, but with hashes where the file has only those. */
struct recall_record {
    struct hash256 key, digest, thought;
    const uint8_t *ids; /* HASH256_BYTES each */
    size_t ids_count;
    const uint8_t *tokens; /* int32 each, aligned or not */
    size_t tokens_count;
    bool tokens_le; /* from the file: little-endian */
    struct str opening, end, reasoning;
};

/* Makes and links an entry. ERR_LIMIT, ERR_NOMEM. */
enum err recall_add(struct recall *recall, const struct recall_record *record) NODISCARD;

/* Returns a reference, or NULL. `wait_ns`: as in recall_prompt. */
struct recall_entry *recall_find_key(struct recall *recall, const struct hash256 *key,
                                     uint64_t *wait_ns);
struct recall_entry *recall_find_message(struct recall *recall, const struct hash256 *space,
                                         const struct recall_message *message,
                                         uint64_t *wait_ns); /* by its ids */
void recall_release(struct recall *recall, struct recall_entry **entries, size_t count);

/* References to all entries, oldest first; free the array with mem_free. ERR_NOMEM. */
enum err recall_hold_all(struct recall *recall, struct recall_entry ***entries,
                         size_t *count) NODISCARD;

void recall_count(struct recall *recall, const enum recall_outcome *outcomes, size_t count);

/* ---- recall_form.c: messages as hashes ---- */

/* Equal for messages that count as the same (recall.h). Pure. */
struct hash256 recall_digest(const struct recall_message *message);
struct hash256 recall_thought_hash(struct str reasoning);
struct hash256 recall_id_hash(const struct hash256 *space, struct str id);
struct hash256 recall_key(const struct hash256 *space, const struct hash256 *history,
                          const struct hash256 *digest);

/* ---- recall_file.c: the file as bytes ---- */

/* Appends the whole file. Returns the buffer's error. */
enum err recall_encode(struct buf *out, struct recall_entry *const *entries, size_t count,
                       const struct hash256 *key) NODISCARD;

/* Adds the turns of a file, oldest first. ERR_CORRUPT: it is invalid and nothing was added;
 * ERR_UNSUPPORTED: another version. Turns that do not fit are skipped. */
enum err recall_decode(struct recall *recall, struct str file, const struct hash256 *key) NODISCARD;

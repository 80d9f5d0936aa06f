/*
 * replay_impl.h: shared by the files of replay only; replay.h is the public interface.
 *
 * An entry is one block of memory, written once and never changed:
 *
 *      struct replay_entry | ids (struct replay_id each) | tokens | opening | end | raw | reasoning
 */
#ifndef HEARTH_CHAT_REPLAY_IMPL_H
#define HEARTH_CHAT_REPLAY_IMPL_H

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "chat/replay.h"

/* One tool-call id of an entry. */
struct replay_id {
    struct map_node node;
    struct hash256 hash; /* of space and id */
    struct replay_entry *entry;
};

struct replay_entry {
    struct list_node lru; /* linked: the entry can be found */
    struct map_node by_key;
    struct hash256 key;     /* of space, history and digest */
    struct hash256 digest;  /* of the message, without ids and thought */
    struct hash256 thought; /* hash of the trimmed thought */
    struct replay_id *ids;
    size_t ids_count;
    const int32_t *tokens;
    size_t tokens_count;
    struct str opening, end, raw, reasoning;
    size_t bytes;
    unsigned holders; /* GUARDED_BY(lock): plans, savers, and the store while linked */
};

struct replay {
    struct lock lock;
    struct list lru;           /* GUARDED_BY(lock): oldest first */
    struct map by_key;         /* GUARDED_BY(lock) */
    struct map by_id;          /* GUARDED_BY(lock) */
    struct replay_stats stats; /* GUARDED_BY(lock) */
    size_t bytes_max;
    uint64_t seed;
    struct log *log;
    bool sealed;
    struct hash256 seal_key; /* derived; of the file */
};

/* ---- replay.c ---- */

/* The contents of a new entry: like a turn, but with hashes where the file has only those. */
struct replay_record {
    struct hash256 key, digest, thought;
    const uint8_t *ids; /* HASH256_BYTES each */
    size_t ids_count;
    const uint8_t *tokens; /* int32 each, aligned or not */
    size_t tokens_count;
    bool tokens_le; /* from the file: little-endian */
    struct str opening, end, raw, reasoning;
};

/* Makes and links an entry. ERR_LIMIT, ERR_NOMEM. */
enum err replay_add(struct replay *replay, const struct replay_record *record) NODISCARD;

/* Returns a reference, or NULL. */
struct replay_entry *replay_find_id(struct replay *replay, const struct hash256 *id);
struct replay_entry *replay_find_key(struct replay *replay, const struct hash256 *key);
struct replay_entry *replay_find_message(struct replay *replay, const struct hash256 *space,
                                         const struct replay_message *message); /* by its ids */
void replay_release(struct replay *replay, struct replay_entry **entries, size_t count);

/* References to all entries, oldest first; free the array with mem_free. ERR_NOMEM. */
enum err replay_hold_all(struct replay *replay, struct replay_entry ***entries,
                         size_t *count) NODISCARD;

void replay_count(struct replay *replay, const enum replay_outcome *outcomes, size_t count);

/* ---- replay_form.c: messages as hashes ---- */

/* Equal for messages that count as the same (replay.h). Pure. */
struct hash256 replay_digest(const struct replay_message *message);
struct hash256 replay_thought(struct str reasoning);
struct hash256 replay_id_hash(const struct hash256 *space, struct str id);
struct hash256 replay_key(const struct hash256 *space, const struct hash256 *history,
                          const struct hash256 *digest);

/* ---- replay_file.c: the file as bytes ---- */

/* Appends the whole file. Returns the buffer's error. */
enum err replay_encode(struct buf *out, struct replay_entry *const *entries, size_t count,
                       const struct hash256 *key) NODISCARD;

/* Adds the turns of a file, oldest first. ERR_CORRUPT: it is invalid and nothing was added;
 * ERR_UNSUPPORTED: another version. Turns that do not fit are skipped. */
enum err replay_decode(struct replay *replay, struct str file, const struct hash256 *key) NODISCARD;

#endif

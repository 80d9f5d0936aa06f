/*
 * token_memo.h: pieces of text and their tokens, remembered up to a number of bytes; the least
 * recently used goes first.
 *
 * The key is BLAKE3 of the text, of how it was tokenized and for whom: texts come from outside, and
 * one that merely had the hash of another would get its tokens.
 *
 * Threads: any; one lock, held only while tokens are copied.
 */
#ifndef HEARTH_CHAT_TOKEN_MEMO_H
#define HEARTH_CHAT_TOKEN_MEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/hash.h"
#include "base/str.h"

struct token_memo;

/* Tokens that grow. Zeroed before its first use; freed by mem_free(ids). */
struct token_list {
    int32_t *ids;
    size_t count, cap;
};
bool token_list_reserve(struct token_list *list, size_t more) NODISCARD; /* false: no memory */

struct token_memo_stats {
    uint64_t hits, misses, evictions;
    size_t entries, bytes;
};

struct token_memo *token_memo_create(size_t bytes_max);
void token_memo_destroy(struct token_memo **memo);

/* Of two tenants, or salts, the same text has two keys: how long it takes shows nothing of what
 * others have sent. */
struct hash256 token_memo_key(struct str tenant, struct str salt, struct str text, unsigned flags);

enum token_memo_answer { TOKEN_MEMO_HIT, TOKEN_MEMO_MISS, TOKEN_MEMO_NOMEM };

/* Appends the tokens of a text that is remembered. */
enum token_memo_answer token_memo_get(struct token_memo *memo, const struct hash256 *key,
                                      struct token_list *out) NODISCARD;

/* Remembers; does nothing without memory, when it is too large, or when somebody else was faster.
 */
void token_memo_put(struct token_memo *memo, const struct hash256 *key, const int32_t *ids,
                    size_t count);

void token_memo_clear(struct token_memo *memo);
struct token_memo_stats token_memo_stats(struct token_memo *memo);

#endif

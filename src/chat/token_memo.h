/*
 * token_memo.h: remembers pieces of text and their tokens, up to a number of bytes; the least
 * recently used piece is evicted first.
 *
 * The key is BLAKE3 of the text, its tokenizer flags and its tenant. Texts are untrusted, and with
 * a weak hash a colliding text would get another text's tokens.
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

/* A growable array of tokens. Zero it before the first use; free with mem_free(ids). */
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

/* The same text has different keys for different tenants or salts, so that timing reveals nothing
 * about what others have sent. */
struct hash256 token_memo_key(struct str tenant, struct str salt, struct str text, unsigned flags);

enum token_memo_answer { TOKEN_MEMO_HIT, TOKEN_MEMO_MISS, TOKEN_MEMO_NOMEM };

/* Appends the tokens of a remembered text. */
enum token_memo_answer token_memo_get(struct token_memo *memo, const struct hash256 *key,
                                      struct token_list *out) NODISCARD;

/* Remembers a text. Does nothing if memory is short, the text is too large, or another thread has
 * already stored it. */
void token_memo_put(struct token_memo *memo, const struct hash256 *key, const int32_t *ids,
                    size_t count);

void token_memo_clear(struct token_memo *memo);
struct token_memo_stats token_memo_stats(struct token_memo *memo);

#endif

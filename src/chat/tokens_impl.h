/*
 * tokens_impl.h: shared by the files of tokens only.
 *
 * Threads: a set of control tokens is immutable once made. The memory has one lock, held only while
 * tokens are copied.
 */
#pragma once

#include "base/hash.h"
#include "chat/tokens.h"

/* ---- token_control.c: finds the control tokens of a vocabulary in text ----
 *
 *      entries, sorted by text:  <|im_end|>  <|im_start|>  <|im_start|>x  ...
 *      parent of an entry: the longest other entry that it begins with
 *
 * A tokenizer extracts the longest tokens first, wherever they occur, before it splits words. A
 * control token is a safe place to cut (`cut`) if no other one can overlap or contain it, it cannot
 * overlap itself, and it strips no white space before it: then the library finds it whatever
 * surrounds it, and both sides are tokenized independently.
 */

struct token_control {
    struct str text;
    int32_t token;
    int32_t parent; /* index, -1: none */
    bool cut;
    bool marker; /* the library finds it in any text */
    bool strips; /* strips the white space after it */
};

struct token_controls;

/* Of the tokens with one of these traits; `cut` is set only if they are the control tokens. */
enum err token_controls_create(const struct engine *engine, unsigned traits,
                               struct token_controls **out) NODISCARD;
void token_controls_destroy(struct token_controls **controls);

/* Is `at` between a letter and a blank that is followed by a letter? */
bool token_words_end(struct str text, size_t at);

/* The first place at or after `at` with a control token, SIZE_MAX if there is none; *found is the
 * longest one there. */
size_t token_controls_find(const struct token_controls *controls, struct str text, size_t at,
                           const struct token_control **found);
/* Does the library find this one, which is at `begin`, whatever the text around it is, and is the text
 * after it tokenized by itself? Not if others overlap it, or if one of them strips white space. */
bool token_controls_alone(const struct token_controls *controls, struct str text, size_t begin,
                          const struct token_control *control);
/* The next shorter one at the same place, or NULL. */
const struct token_control *token_controls_shorter(const struct token_controls *controls,
                                                   const struct token_control *control);

/* Can text be cut between a letter and a blank that is followed by a letter (ASCII)? Not if a
 * special token, marker or control, contains a letter before a blank, or ends with a letter and
 * strips the white space after it. */
bool token_controls_spare_words(const struct token_controls *controls);
/* Some special token strips all white space around it. */
bool token_controls_strip(const struct token_controls *controls);

size_t token_controls_count(const struct token_controls *controls);
const struct token_control *token_controls_get(const struct token_controls *controls, size_t i);

/* ---- token_memo.c: remembers pieces of text and their tokens, up to a number of bytes ----
 *
 * The least recently used piece is evicted first. The key is BLAKE3 of the text, its tokenizer
 * flags and its tenant. Texts are untrusted, and with a weak hash a colliding text would get
 * another text's tokens.
 */

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

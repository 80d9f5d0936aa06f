/*
 * tokens.h: tokenizes prompts and remembers the results.
 *
 *      text:    <|im_start|> user\nHello <|im_end|> \n <|im_start|> assistant\n
 *      pieces:  [ control  ][   text    ][ control ][ ][ control  ][   text    ]
 *
 * A tokenizer cuts text at control tokens before it does anything else, and the text between two of
 * them is tokenized independently. So a piece of text yields the same tokens wherever it occurs,
 * and is remembered by the hash of its bytes: the next turn of a conversation tokenizes only what
 * is new. The result equals that of the library for the whole text at once, with control tokens
 * parsed. Control tokens that could be part of another one, or that strip white space before them,
 * are not used for cutting.
 *
 * A long piece is passed to the library in parts, so that memory stays bounded and a disconnected
 * caller is noticed. It is cut between a letter and a blank that is followed by a letter (ASCII),
 * if the engine guarantees that words always end there and no special token of the vocabulary could
 * span the cut. Text without such a place is passed as a whole, up to run_bytes_max, and is charged
 * to the caller.
 *
 * The library's time grows with the square of the control tokens and markers in a text. So a part also
 * ends after one of them, once it has some, if no other one overlaps it there.
 *
 * Control tokens that the client wrote stay text (I105): nothing that a client's span touches is
 * cut out, and a piece in which the library would find one is tokenized without parsing control
 * tokens. Markers that the model's author declared as ordinary words (user-defined tokens) are not
 * control tokens; the library finds them in any text.
 *
 * Threads: any; one lock around the memory (LOCK_RANK_TOKENS), never held while tokenizing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"
#include "chat/template.h"
#include "engine/engine.h"

struct tokens;

struct tokens_options {
    const struct engine *engine; /* its tokenizer is used, from any thread; outlives this */
    size_t memory_bytes_max;     /* 0: 64 MiB */
    size_t tokens_max;           /* of one prompt; 0: 16 Mi */
    size_t text_bytes_max;       /* of one text; 0: TOKENS_TEXT_BYTES */
    size_t run_bytes_max;        /* of text without a place to cut; 0: TOKENS_RUN_BYTES */
    size_t part_bytes;           /* a longer piece is cut; 0: TOKENS_PART_BYTES */
    size_t part_specials;        /* one with more is cut after them; 0: TOKENS_PART_SPECIALS */
};

enum {
    TOKENS_TEXT_BYTES = 16 << 20,
    TOKENS_RUN_BYTES = 4 << 20,
    TOKENS_PART_BYTES = 64 << 10,
    TOKENS_PART_SPECIALS = 256,
    TOKENS_RUN_SPECIALS = 16 << 10,  /* without a place to cut: refused */
    TOKENS_CHARGE_BYTES = 256 << 10, /* shorter texts are not charged */
    TOKENS_COST = 64,  /* bytes of memory per byte of text, while the tokenizer has it */
    TOKENS_COPIES = 8, /* per byte of text: body, document, rendered text, and 4 for the tokens */
};

/* The caller of a tokenization. NULL: no particular caller, without time and memory limits. */
struct tokens_caller {
    /* remembered texts are shared only within the same tenant and salt (keeps I100) */
    struct str tenant, salt;
    /* Reserves memory before it is used, and releases it. Both may be NULL. */
    enum err (*charge)(void *arg, size_t bytes, struct errinfo *info);
    void (*release)(void *arg, size_t bytes);
    bool (*stopped)(void *arg); /* the result is no longer needed; may be NULL */
    void *arg;
};

/* Examines every token once: a few milliseconds, tens of milliseconds for a vocabulary of 250,000.
 * ERR_NOMEM. */
enum err tokens_create(const struct tokens_options *options, struct tokens **out,
                       struct errinfo *info) NODISCARD;
void tokens_destroy(struct tokens **tokens);

/* The least number of tokens that a text of this many bytes has; 0: unknown. */
size_t tokens_at_least(const struct tokens *tokens, size_t bytes);

/* A prompt. One allocation for the tokens, one for the marks; token_prompt_fini frees both. */
struct token_prompt {
    int32_t *tokens;
    size_t count;
    struct mark *marks; /* ascending */
    size_t mark_count;
    size_t memo_tokens; /* tokens from the memory, and control tokens */
};
void token_prompt_fini(struct token_prompt *prompt);

/* The prompt of a conversation: the template's control tokens are parsed, the client's stay text,
 * BOS as with ENGINE_TOKENIZE_BOS. A mark is kept where a control token begins or ends. A mark
 * inside a piece of text is dropped, as the tokens around it depend on what follows; a few
 * SYSTEM_END, TRANSIENT, PART and CUT in each piece are moved back to where the text before them alone
 * yields the same tokens. ERR_LIMIT: an options limit was exceeded; ERR_CANCELLED: the caller
 * stopped it; ERR_NOMEM; or the error of the engine or the charge. There is nothing to free then. */
enum err tokens_from_text(struct tokens *tokens, const struct tokens_caller *caller,
                          const struct chat_text *text, struct token_prompt *out,
                          struct errinfo *info) NODISCARD;

/* A plain prompt. Without ENGINE_TOKENIZE_CONTROL, BOS is the only control token that can result. */
enum err tokens_from_string(struct tokens *tokens, const struct tokens_caller *caller,
                            struct str text, unsigned flags, struct token_prompt *out,
                            struct errinfo *info) NODISCARD;

/* Numbers that were computed from a text, remembered with the tokens of texts: within the same tenant
 * and salt, and up to the same number of bytes. `digest` is that of the text, and of all else that the
 * numbers depend on. */
bool tokens_get_numbers(struct tokens *tokens, const struct tokens_caller *caller,
                        const struct hash256 *digest, int32_t *out, size_t count) NODISCARD;
void tokens_put_numbers(struct tokens *tokens, const struct tokens_caller *caller,
                        const struct hash256 *digest, const int32_t *numbers, size_t count);

/* Counters since creation; sizes are current. */
struct tokens_stats {
    uint64_t hits, misses, evictions;      /* pieces */
    uint64_t hit_tokens, tokenized_tokens; /* from the memory, from the engine */
    uint64_t parts;                        /* calls of engine_tokenize */
    uint64_t stopped;                      /* texts abandoned because the caller had left */
    uint64_t guarded; /* prompts in which a client's control tokens stayed text (I105) */
    size_t entries, bytes;
};
struct tokens_stats tokens_stats(struct tokens *tokens);

/* Forgets everything. */
void tokens_forget(struct tokens *tokens);

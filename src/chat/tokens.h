/*
 * tokens.h: prompts as tokens, with a memory.
 *
 *      text:    <|im_start|> user\nHello <|im_end|> \n <|im_start|> assistant\n
 *      pieces:  [ control  ][   text    ][ control ][ ][ control  ][   text    ]
 *
 * A tokenizer cuts text at control tokens before it does anything else, and what stands between two
 * of them is tokenized for itself. So a piece of text gives the same tokens wherever it stands, and
 * is remembered by the hash of its bytes: the next turn of a conversation tokenizes only what is
 * new. The result is the same as that of the library for the whole text at once, with control
 * tokens parsed. Control tokens that could be part of another one, or that swallow white space
 * before them, are not used for cutting.
 *
 * A long piece is given to the library in parts, so that memory stays bounded and a caller that has
 * left is noticed. It is cut between a letter and a blank with a letter behind it (ASCII), where
 * the source says that its words always end there, and no special token of the vocabulary could
 * stand across the cut. Text without such a place goes to the library as a whole, up to
 * run_bytes_max, and is charged to the caller.
 *
 * Control tokens that the client wrote stay text (I105): what a span of the client touches is never
 * cut out of it, and a piece in which the library would find one is tokenized without looking for
 * any. Markers that the model's author declared as ordinary words (user-defined tokens) are not
 * control tokens; the library finds them in any text.
 *
 * Threads: any; one lock around the memory (LOCK_RANK_TOKENS), never held while tokenizing.
 */
#ifndef HEARTH_CHAT_TOKENS_H
#define HEARTH_CHAT_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "chat/template.h"

struct tokens;

/* As enum engine_tokenize_flags. */
enum tokens_flags {
    TOKENS_CONTROL = 1, /* control tokens in the text become control tokens: trusted text only */
    TOKENS_BOS = 2,     /* begin with BOS where the model wants it and the text does not have it */
};

/* As enum engine_token_traits. */
enum tokens_traits {
    TOKENS_TRAIT_CONTROL = 1,     /* found in text with TOKENS_CONTROL only */
    TOKENS_TRAIT_MARKER = 2,      /* found in any text */
    TOKENS_TRAIT_STRIP_LEFT = 4,  /* takes the white space before it */
    TOKENS_TRAIT_STRIP_RIGHT = 8, /* ... behind it */
};

/* The model's tokenizer; its functions are called from any thread that calls tokens_*, and outlive
 * the struct tokens. */
struct tokens_source {
    /* As engine_tokenize: *count also when it is more than max (then ERR_LIMIT). Asked with
     * TOKENS_CONTROL or 0 only. */
    enum err (*tokenize)(void *arg, struct str text, unsigned flags, int32_t *out, size_t max,
                         size_t *count, struct errinfo *info);
    /* As engine_token_bytes and engine_token_traits; called by tokens_create only. */
    size_t (*token_bytes)(void *arg, int32_t token, bool control, char *out, size_t size);
    unsigned (*token_traits)(void *arg, int32_t token);
    void *arg;
    uint32_t vocab; /* tokens */
    int32_t bos;    /* -1: none */
    bool add_bos;
    bool words; /* as engine_facts.words */
};

struct tokens_options {
    struct tokens_source source;
    size_t memory_bytes_max; /* 0: 64 MiB */
    size_t tokens_max;       /* of one prompt; 0: 16 Mi */
    size_t text_bytes_max;   /* of one text; 0: TOKENS_TEXT_BYTES */
    size_t run_bytes_max;    /* of text without a place to cut; 0: TOKENS_RUN_BYTES */
    size_t part_bytes;       /* a longer piece is cut; 0: TOKENS_PART_BYTES */
};

enum {
    TOKENS_TEXT_BYTES = 16 << 20,
    TOKENS_RUN_BYTES = 4 << 20,
    TOKENS_PART_BYTES = 64 << 10,
    TOKENS_CHARGE_BYTES = 256 << 10, /* shorter texts are not charged */
    TOKENS_COST = 64,                /* bytes of memory per byte of text, while the source has it */
    TOKENS_COPIES = 8, /* per byte of text: body, document, rendered text, and 4 for the tokens */
};

/* For whom a text is tokenized. NULL stands for nobody in particular, without limits of time and
 * memory. */
struct tokens_caller {
    /* only texts of the same two are remembered for each other (keeps I100) */
    struct str tenant, salt;
    /* Takes memory before it is used, and gives it back. Both may be NULL. */
    enum err (*charge)(void *arg, size_t bytes, struct errinfo *info);
    void (*release)(void *arg, size_t bytes);
    bool (*stopped)(void *arg); /* the result is not wanted any more; may be NULL */
    void *arg;
};

/* Looks at every token once: some milliseconds, some tens for a vocabulary of 250,000. ERR_NOMEM.
 */
enum err tokens_create(const struct tokens_options *options, struct tokens **out,
                       struct errinfo *info) NODISCARD;
void tokens_destroy(struct tokens **tokens);

/* How many tokens a text of so many bytes has at least; 0: not known. */
size_t tokens_at_least(const struct tokens *tokens, size_t bytes);

/* A prompt. One allocation for the tokens, one for the marks; token_prompt_fini frees both. */
struct token_prompt {
    int32_t *tokens;
    size_t count;
    struct mark *marks; /* ascending */
    size_t mark_count;
    size_t memo_tokens; /* how many came out of the memory, and control tokens */
};
void token_prompt_fini(struct token_prompt *prompt);

/* The prompt of a conversation: control tokens of the template are parsed, those of the client are
 * text, BOS as TOKENS_BOS.
 *
 * A mark is kept where a control token begins or ends. One in the middle of a piece of text is left
 * out, as the tokens around it depend on what follows; only SYSTEM_END is moved down to where the
 * text before it alone has the same tokens.
 *
 * ERR_LIMIT: more than a limit of the options; ERR_CANCELLED: the caller has stopped it; ERR_NOMEM;
 * or what the source or the charge answered. Nothing to free then. */
enum err tokens_from_text(struct tokens *tokens, const struct tokens_caller *caller,
                          const struct chat_text *text, struct token_prompt *out,
                          struct errinfo *info) NODISCARD;

/* A plain prompt. Without TOKENS_CONTROL no control token can come out, except BOS. */
enum err tokens_from_string(struct tokens *tokens, const struct tokens_caller *caller,
                            struct str text, unsigned flags, struct token_prompt *out,
                            struct errinfo *info) NODISCARD;

/* Since creation; the sizes are of now. */
struct tokens_stats {
    uint64_t hits, misses, evictions;      /* pieces */
    uint64_t hit_tokens, tokenized_tokens; /* out of the memory, by the source */
    uint64_t parts;                        /* calls of the source */
    uint64_t stopped; /* texts that were given up because their caller had left */
    uint64_t guarded; /* prompts in which control tokens of a client stayed text (I105) */
    size_t entries, bytes;
};
struct tokens_stats tokens_stats(struct tokens *tokens);

/* Forgets everything. */
void tokens_forget(struct tokens *tokens);

#endif

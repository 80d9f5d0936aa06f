/*
 * truth_talk.h: requests of conversations that branch, and what their answers claim.
 *
 * Two kinds: tokens (/completion), whose next prompts are made of earlier prompts and answers token
 * by token, and chats, whose turns are text. What is asked follows from the seed and from the
 * answers so far. Each answer names the tokens of its prompt and the most probable tokens at each
 * place, so that a cold engine can judge it (cold.h).
 *
 * Threads: all functions belong to the test's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "support/cold.h"
#include "support/scenario.h"

enum {
    TRUTH_TOKENS_MAX = 4096, /* of a prompt and its answer */
    TRUTH_KNOWN_MAX = 8,
    TRUTH_CHOICES_MAX = 3,
    TRUTH_ANSWER_MAX = 24,
};

/* A prompt that was answered. */
struct truth_known {
    token_id tokens[TRUTH_TOKENS_MAX];
    uint32_t prompt, count; /* without and with the answer; 0: none */
};

struct truth_talks {
    const struct cold *cold; /* whose tokens they are */
    uint64_t seed;
    uint32_t longest; /* tokens of a prompt */
    bool lora;        /* requests choose an adapter */
    bool drafts;      /* most requests guess their answers */
    struct truth_known known[TRUTH_KNOWN_MAX];
    struct talk chats[TRUTH_KNOWN_MAX];
    const struct truth_known *again; /* whose prompt is asked again; NULL: none */
};

struct truth_ask {
    bool chat, stream;
    unsigned leave_ms; /* of a stream: then its client disconnects */
    bool adapter;      /* is applied */
    char what[96];     /* in words */
    struct talk talk;  /* of a chat */
    struct buf body;
};

/* One choice of an answer. */
struct truth_choice {
    token_id *tokens; /* prompt and answer */
    uint32_t prompt, count;
    struct cold_claim *claims;
    size_t claims_count;
    char *probs; /* as the server wrote them */
};

struct truth_answer {
    bool adapter;
    char what[96];
    char fault[256]; /* why it cannot be read; "": it was */
    char reuse[256]; /* x_cache */
    uint32_t device, ram, ssd, computed, accepted;
    struct truth_choice choices[TRUTH_CHOICES_MAX];
    size_t choices_count;
};

/* Chooses the next request. The caller finishes it. */
void truth_ask_init(struct truth_ask *ask, struct truth_talks *talks);
void truth_ask_fini(struct truth_ask *ask);
const char *truth_ask_path(const struct truth_ask *ask);

/* Reads an answer, and remembers what was said. The caller finishes it. */
void truth_answer_init(struct truth_answer *answer, struct truth_talks *talks,
                       const struct truth_ask *ask, const struct http_answer *http);
void truth_answer_fini(struct truth_answer *answer);

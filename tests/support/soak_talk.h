/*
 * soak_talk.h: what the agents of a soak say: conversations with their own marker, made of
 * pieces of real agents' texts (../shared/traces/mini-swe) or, where those are absent, of words
 * that follow from a seed.
 *
 * Unlike the talks of scenario.h they own their texts: a soak may take hours.
 *
 * Threads: all functions belong to the test's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "support/scenario.h"

enum {
    SOAK_MODELS = 2,
    SOAK_TENANTS = 3,
    SOAK_MARKER_BYTES = 16,
    SOAK_MESSAGES_MAX = 24,
    SOAK_TALK_CHARS_MAX = 2400, /* fits into a context of 4,096 tokens however it is tokenized */
};

/* "dense" and "hybrid"; keys and headers of the tenants. */
extern const char *const soak_models[SOAK_MODELS];
extern const char *const soak_headers[SOAK_TENANTS];

/* ---- texts ---- */

struct soak_texts {
    char **pieces; /* of traces */
    size_t count;
};

/* Reads the traces; none: says so, and words stand in. */
void soak_texts_init(struct soak_texts *texts);
void soak_texts_fini(struct soak_texts *texts);

/* ---- talks ---- */

struct soak_message {
    const char *role; /* a literal */
    char *text;       /* owned */
};

struct soak_talk {
    char marker[SOAK_MARKER_BYTES]; /* "" = there is no talk */
    unsigned model, tenant;
    struct soak_message messages[SOAK_MESSAGES_MAX];
    size_t count;
};

/* A system prompt that other conversations usually share, and a question with the marker. */
void soak_talk_begin(struct soak_talk *talk, const struct soak_texts *texts, uint64_t *seed,
                     unsigned tenant);
void soak_talk_fini(struct soak_talk *talk);
void soak_talk_say(struct soak_talk *talk, const char *role, const char *text);
/* The next question. */
void soak_talk_go_on(struct soak_talk *talk, const struct soak_texts *texts, uint64_t *seed);
/* Another text in place of one question; what followed it is gone. */
void soak_talk_edit(struct soak_talk *talk, const struct soak_texts *texts, uint64_t *seed);
/* No room for another answer and question. */
bool soak_talk_full(const struct soak_talk *talk);

/* How a talk is asked. */
struct soak_ask {
    enum scenario_dialect dialect;
    unsigned tokens;
    bool stream; /* as chat only */
    bool ids;    /* the answer has the tokens of its prompt */
};

/* The body of a greedy request; the caller finishes it. */
struct buf soak_body(const struct soak_talk *talk, const struct soak_ask *ask);

/* Whether the text has a marker that is not this talk's. */
bool soak_has_foreign_marker(const struct soak_talk *talk, const char *text);

/*
 * scenario.h: conversations with a real server, and what every one of their answers must say of
 * itself.
 *
 *      struct talk talk = {0};
 *      talk_say(&talk, "system", talk_words(1, 100));
 *      talk_say(&talk, "user", talk_words(2, 20));
 *      scenario_open(&scenario, "qwen3", "");
 *      struct scenario_answer answer = scenario_ask(&scenario, &talk, 8);
 *      scenario_close(&scenario);
 *
 * Each answer is checked when it is read: prompt = device + ram + ssd + remote + computed, and the
 * dialect's own usage fields say the same. scenario_close checks the sums of /metrics and, line by
 * line, the log's [route] and [cache] events against all answers that were read, and that nothing
 * runs and nothing waits.
 *
 * Threads: all functions belong to the test's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "support/serve_proc.h"

enum { TALK_MESSAGES_MAX = 24, SCENARIO_ANSWERS_MAX = 256, SCENARIO_TEXT_BYTES = 8192 };

/* ---- conversations ---- */

struct talk_message {
    const char *role; /* a literal */
    char *text;       /* lives as long as the process: a test is one */
};

/* A value: copies share their texts, which never change. */
struct talk {
    struct talk_message messages[TALK_MESSAGES_MAX];
    size_t count;
};

/* Words that follow from the seed alone; never freed. */
const char *talk_words(uint64_t seed, unsigned words);
void talk_say(struct talk *talk, const char *role, const char *text);
/* The same talk with another text at a place. */
struct talk talk_edit(const struct talk *talk, size_t index, const char *text);
/* Its first `count` messages. */
struct talk talk_head(const struct talk *talk, size_t count);

/* ---- answers ---- */

/* X(value, path) */
#define SCENARIO_DIALECT_TABLE(X)            \
    X(SCENARIO_CHAT, "/v1/chat/completions") \
    X(SCENARIO_MESSAGES, "/v1/messages")     \
    X(SCENARIO_RESPONSES, "/v1/responses")

enum scenario_dialect {
#define X(value, path) value,
    SCENARIO_DIALECT_TABLE(X)
#undef X
        SCENARIO_DIALECT_COUNT
};

/* JSON pointers: where each dialect has what. NULL: it has no such field. Anthropic's input_tokens
 * are those that were neither read from nor written to the cache. */
struct scenario_fields {
    const char *prompt, *cached, *created, *rest, *generated, *text;
};
const struct scenario_fields *scenario_fields(enum scenario_dialect dialect);

struct scenario_answer {
    uint32_t prompt, device, ram, ssd, remote, computed, generated;
    uint32_t reused; /* all but computed */
    uint32_t first_difference;
    char text[SCENARIO_TEXT_BYTES];
};

/* What the log must have of one answer. */
struct scenario_seen {
    uint32_t prompt, reused, device;
};

struct scenario {
    struct serve_proc proc;
    bool cuttable; /* state can be cut at any token: an edit costs nothing before it */
    bool cached;   /* the cache is on */
    struct scenario_seen seen[SCENARIO_ANSWERS_MAX];
    size_t seen_count;
    /* Since the server was started. */
    uint64_t answers, device, ram, computed, prompt, generated; /* sums of all answers */
    unsigned cancelled; /* generations that were left: the log has them as well */
};

/* A server of this family with small figures and `args`; they may overrule. */
void scenario_open(struct scenario *scenario, const char *family, const char *args);
void scenario_close(struct scenario *scenario);
/* The server ends, in good order or as in a power cut, and starts again with the same folders. */
void scenario_restart(struct scenario *scenario, bool in_order);

/* The body of a request; borrowed until the next call. It is greedy, and its answer has exactly
 * `tokens` tokens. */
const char *scenario_body(const struct talk *talk, enum scenario_dialect dialect, unsigned tokens,
                          bool stream);
const char *scenario_path(enum scenario_dialect dialect);

/* Asks and reads the answer; as chat unless said otherwise. */
struct scenario_answer scenario_ask(struct scenario *scenario, const struct talk *talk,
                                    unsigned tokens);
struct scenario_answer scenario_ask_as(struct scenario *scenario, const struct talk *talk,
                                       unsigned tokens, enum scenario_dialect dialect);
/* Reads the answer to a request that was sent before with `client`, which is closed. */
struct scenario_answer scenario_read(struct scenario *scenario, struct http_client *client,
                                     enum scenario_dialect dialect);

/* How many tokens two talks have in common at their beginning, by the tokenizer's word alone. */
uint32_t scenario_common(const struct scenario *scenario, const struct talk *a,
                         const struct talk *b);

/* How many turns of the talk stand in its prompt as they were sampled. */
uint32_t scenario_recalled(const struct scenario *scenario, const struct talk *talk);

/* ---- what runs ---- */

/* What /slots says of the generation of this rank, the oldest being 0. False: there are not so
 * many. */
struct scenario_slot {
    char phase[16];
    uint32_t prompt, done, generated;
};
bool scenario_slot(const struct scenario *scenario, size_t rank, struct scenario_slot *slot);
/* Waits until that generation has the phase; false when it has passed it. */
bool scenario_wait_phase(const struct scenario *scenario, size_t rank, const char *phase,
                         struct scenario_slot *slot);
/* The client leaves; waits until the server has noticed: one generation less, and counted. */
void scenario_leave(struct scenario *scenario, struct http_client *client, bool reset);
/* Nothing runs, nothing waits, and all slots are idle. */
void scenario_wait_idle(const struct scenario *scenario);

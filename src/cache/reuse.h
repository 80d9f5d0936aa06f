/*
 * reuse.h: how soon the state of a prompt will be used again, learned from recent prompts.
 *
 *      store of a prompt --> which earlier turn does it continue? --> class, pace --> objects
 *      eviction          --> class, pace, age of an object        --> expected uses per second
 *
 * A turn is a prompt that was stored. It continues an earlier one when it contains four fifths of
 * its blocks, also when these were evicted meanwhile: turns are remembered by the hash of one
 * block. Turns fall into classes: how the answer ended (in a tool call, in text, unknown), whether
 * it is the first of its conversation, and how much it added. For each class, the share of turns
 * that were continued after each age is counted among the last REUSE_TURNS, on top of a prior that
 * all classes of an ending share. So nothing has to be trained, and a server adapts to its clients.
 *
 * RATE. An object that will be used after t seconds occupies its bytes for t seconds. The rate of an
 * object of some age is the best ratio of the two that keeping it can have:
 *
 *      max over T of   chance of a use within T / expected seconds until that use, or T
 *
 * (the Gittins index), or the highest rate of any greater age: a rate never rises with age, so within
 * a class the least recently used object is evicted first. Agents that call tools come back at their own pace; their ages are divided
 * by it.
 *
 * Owner: the cache, under its lock. No clock: times are arguments.
 */
#pragma once

#include <hearth/hearth.h>

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

enum { REUSE_TURNS = 4096 };

struct reuse;

/* What an object inherits from the last turn that used it, in a byte, because there are many objects.
 * Zero: nothing is known. */
struct reuse_mark {
    uint8_t class : 4;
    uint8_t pace : 4; /* of tool calls: a power of 1.4 */
};
/* For prefixes of several conversations. */
extern const struct reuse_mark REUSE_SHARED;

struct reuse_turn {
    const struct hash256 *space; /* turns of different spaces never continue each other */
    const int32_t *tokens;
    size_t count;
    uint32_t block_tokens;
    enum hearth_ending ending;
    uint64_t request; /* several stores of one request are one turn; 0 = unknown */
    uint64_t now_ns;
};

struct reuse *reuse_create(void);
void reuse_destroy(struct reuse **reuse);

/* Remembers the turn, and the earlier one as continued. */
struct reuse_mark reuse_note(struct reuse *reuse, const struct reuse_turn *turn);

/* Changes when rates do. */
uint64_t reuse_version(const struct reuse *reuse);

/* Expected uses per second of room taken. Finite and positive. */
double reuse_rate(const struct reuse *reuse, struct reuse_mark mark, uint64_t age_ns);

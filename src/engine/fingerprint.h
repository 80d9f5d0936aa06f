/*
 * fingerprint.h: the identity of an engine's state: what must be equal for bytes that one engine
 * wrote to mean the same to another (keeps I97).
 *
 *      part          contents                                              hashed with sharing
 *      meaning       weights, K and V types, chunk, flash attention,       any
 *                    streams, rope, plain weights, releases of
 *                    libllama and ggml, version of the state
 *      arithmetic    build IDs of libllama, ggml, its plug-ins (so the     build, bits
 *                    variant for this processor), libm and the libraries
 *                    of devices; kind and name of each device
 *      bits          logits of the self-test, numbers of threads           bits
 *
 * Adapters are not a part: each set of them has a fingerprint derived from this one (lora.h).
 *
 * The context is not a part: it changes no bit of the result. The exception is a model with one set
 * of rope factors for short contexts and one for long ones, where the choice is a part. Threads
 * change the last bits: attention over long rows is divided among them when a token is decoded.
 *
 * Threads: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/hash.h"

struct engine_facts;
struct engine_options;
struct log;

/* What --flash-attn became. `auto` that became on is the same as `on`. One that became off is not
 * the same as `off`: the library transposes V only where it knows that before it makes the cells.
 * The numbers are hashed: those of `auto` (0) and `off` in older releases. */
enum fingerprint_attention {
    ATTENTION_FLASH = 0,
    ATTENTION_PLAIN = -1,
    ATTENTION_PLAIN_AUTO = 2,
};

struct fingerprint {
    const struct engine_options *options;
    const struct engine_facts *facts;
    struct hash256 weights;
    enum fingerprint_attention attention;
    bool long_rope; /* the rope factors for long contexts are used */
    /* Weights are kept out of AMX's buffers, in which ggml computes this model wrongly. Hearth has
     * not always done that, so that there is state of the same builds which is wrong. */
    bool plain_weights;
    uint32_t threads, threads_prefill;
    struct hash256 bits; /* of the self-test */
};

/* After the backends and the model have been loaded: libraries are those of this process now. */
struct hash256 fingerprint_make(const struct fingerprint *parts);

/* The parts that users choose, a line each: "--flash-attn on\n--ubatch-size 512\n...". */
struct fingerprint_words {
    char text[384];
};
void fingerprint_words(const struct fingerprint *parts, struct fingerprint_words *words);

struct fingerprint_seen {
    const struct hash256 *weights, *fingerprint;
    const struct fingerprint_words *words;
    /* the folder knows the model, perhaps from a release that did not remember fingerprints */
    bool loaded_before;
    bool stored; /* the cache has some state */
};

/* Remembers in `dir` which fingerprints a model's state was stored under. Logs once for each new one
 * that state from before is not used, and which settings differ. `dir` may be NULL. */
void fingerprint_remember(const char *dir, const struct fingerprint_seen *seen, struct log *log);

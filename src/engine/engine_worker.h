/*
 * engine_worker.h: an engine in a process of its own: a model that hangs or dies inside the library
 * takes nobody along.
 *
 *      parent                                             child (the same program, worker_main.h)
 *      engine.h --> engine_worker.c --messages----------> engine_llama.c
 *                        |                                       |
 *                        '--------- shared segments -------------'      tokens, logits, state (worker_memory.h)
 *
 * TOKENS. The parent has the vocabulary, too (a load without weights): tokenizing, detokenizing and
 * grammars work from any thread and go on working when the child is dead.
 *
 * STATE. Memory of engine_alloc, and of the worker_memory in the options, is mapped in both
 * processes: exports and imports copy nothing in between. Any other memory goes through a staging
 * segment, one copy more.
 *
 * DEATH. A closed socket is seen at once, a hang after `hang_ms` without a sign of life: the child
 * is killed. From then on every call fails with ERR_ENGINE and a sentence that says why;
 * engine_restart() loads the model again. What the parent keeps of a sequence is its state in the
 * cache, and that the new child can import: its fingerprint is the same, or the restart fails.
 *
 * A damaged child can write into every segment it was shown, so into cached state; whoever restores
 * checks the digest of the bytes (state.h), so that this is a miss and not a wrong answer.
 *
 * Threads: as engine.h.
 */
#ifndef HEARTH_ENGINE_ENGINE_WORKER_H
#define HEARTH_ENGINE_ENGINE_WORKER_H

#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "engine/engine.h"

struct worker_memory;

/* Zero is a good default for each field. */
struct engine_worker_options {
    /* that has worker_main; NULL = this one. Borrowed until engine_close */
    const char *program;
    struct worker_memory *memory; /* borrowed until engine_close; NULL = one of its own */
    uint32_t hang_ms;             /* 0 = 10,000 */
    uint32_t load_hang_ms;        /* while loading, where signs of life are rare; 0 = 120,000 */
    uint64_t staging_bytes_max;   /* 0 = 1 GiB */
    /* The parent's vocabulary; NULL = from the model file. A test whose `program` has another
     * engine than libllama gives its own. */
    enum err (*load_vocab)(struct engine **engine, const struct engine_options *options,
                           struct errinfo *info);
    /* Tests: called on the engine's thread after each request was sent, before its reply is waited
     * for. */
    void (*on_call)(struct engine *engine, void *arg);
    void *arg;
};

/* As engine_load. Progress and log lines of the child arrive as those of engine_load do. ERR_ENGINE as well when the child dies of it. */
enum err engine_worker_load(struct engine **engine, const struct engine_options *options,
                            const struct engine_worker_options *worker,
                            struct errinfo *info) NODISCARD;

/* The child's; `engine` must be a worker. */
pid_t engine_worker_pid(const struct engine *engine);

#endif

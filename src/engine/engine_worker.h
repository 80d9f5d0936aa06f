/*
 * engine_worker.h: an engine in a child process, so that a hang or crash inside the library does
 * not affect the server.
 *
 *      parent                                             child (the same program, worker_main.h)
 *      engine.h --> engine_worker.c --messages----------> engine_llama.c
 *                        |                                       |
 *                        '--------- shared segments -------------'
 *                          tokens, logits, state (worker_memory.h)
 *
 * TOKENS. The parent also loads the vocabulary (a load without weights): tokenizing, detokenizing
 * and grammars work from any thread, even when the child is dead.
 *
 * STATE. Memory of the worker_memory in the options is mapped in both processes: exports and
 * imports need no extra copy. Any other memory goes through a staging segment, which costs one
 * copy.
 *
 * DEATH. A closed socket is noticed at once, a hang after `hang_ms` without a sign of life: the
 * child is killed. From then on every call fails with ERR_ENGINE and a message that says why;
 * engine_restart() loads the model again. The new child can import the state that is in the cache:
 * its fingerprint is the same, or the restart fails.
 *
 * A damaged child can write into every attached segment, hence into cached state. A restore checks
 * the digest of the bytes (state.h), so this causes a miss, not a wrong answer.
 *
 * Threads: as engine.h.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "engine/engine.h"

struct worker_memory;

/* Zero is a good default for each field. */
struct engine_worker_options {
    /* executable that has worker_main; NULL = this one. Borrowed until engine_close */
    const char *program;
    struct worker_memory *memory; /* borrowed until engine_close; NULL = a private one */
    uint32_t hang_ms;             /* 0 = 10,000 */
    uint32_t load_hang_ms;        /* while loading, where signs of life are rare; 0 = 120,000 */
    uint64_t staging_bytes_max;   /* 0 = 1 GiB */
    /* The parent's vocabulary; NULL = from the model file. A test whose `program` has an engine
     * other than libllama passes its own. */
    enum err (*load_vocab)(struct engine **engine, const struct engine_options *options,
                           struct errinfo *info);
    /* Tests: called on the engine's thread after each request was sent, before its reply is waited
     * for. */
    void (*on_call)(struct engine *engine, void *arg);
    void *arg;
};

/* As engine_load. Progress and log lines of the child arrive as those of engine_load do.
 * ERR_ENGINE also when the child dies. */
enum err engine_worker_load(struct engine **engine, const struct engine_options *options,
                            const struct engine_worker_options *worker,
                            struct errinfo *info) NODISCARD;

/* The child's process id; `engine` must be a worker. */
pid_t engine_worker_pid(const struct engine *engine);

/*
 * worker_process.h: the parent's end of an engine's process: starts it, sends calls, detects that
 * it died or hangs, stops it.
 *
 *      parent --socketpair (messages, SOCK_SEQPACKET)-- child fd 3
 *      parent <-pipe (every line goes to the log)------ child fd 1, 2
 *
 *                start              call fails: closed socket, invalid message, no tick in time
 *      (nothing) -------> RUNNING --------------------------> DEAD (killed; `death` says why)
 *                            '-------------- stop --------------'--> (nothing)
 *
 * The child is the same program, in a process group of its own. It ends itself when the socket
 * closes, so it never outlives the parent, not even stopped (spawn); PR_SET_PDEATHSIG is not used because it fires when the *thread* that started the child
 * ends.
 *
 * OWNER: the engine's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "engine/worker_wire.h"

struct log;
struct worker_process;

/* The argument that makes the program a child, and the descriptor of its socket. */
#define WORKER_ARGUMENT "engine-worker"
enum { WORKER_SOCKET = 3 };

struct worker_process_options {
    const char *program; /* NULL = this one */
    const char *name;    /* of the model, for messages; cut at 127 bytes */
    /* borrowed; the control page that the LOAD passes as its descriptor */
    const struct worker_control *control;
    struct log *log; /* may be NULL */
};

/* ERR_LIMIT, ERR_NOT_FOUND, ... as the system says; *process is then NULL. */
enum err worker_process_start(struct worker_process **process,
                              const struct worker_process_options *options,
                              struct errinfo *info) NODISCARD;
/* Ends it: closes the socket, then kills it. Waits for its end. */
void worker_process_stop(struct worker_process **process);

/* Whether it accepts calls. Checks the socket, so that a child that died is noticed. */
bool worker_process_alive(struct worker_process *process);
/* a sentence; "" when alive */
const char *worker_process_death(const struct worker_process *process);
/* the signal that it died of, if not killed by us; 0: none, or alive */
int worker_process_signal(const struct worker_process *process);
pid_t worker_process_pid(const struct worker_process *process);

struct worker_wait {
    const char *what;    /* what is being waited for, in messages */
    uint32_t silence_ms; /* without a tick, a message or an exit it counts as hung */
    /* Called between sending and waiting: tests. May be NULL. */
    void (*on_sent)(void *arg);
    void *sent_arg;
    /* As engine_options.on_progress, and called again ten times a second; false: the child is
     * killed, ERR_CANCELLED. May be NULL. */
    bool (*on_progress)(float done, void *arg);
    void *progress_arg;
};

/* Sends `message`, with a file descriptor unless it is FILE_NO, and waits for its reply.
 * ERR_ENGINE: the child is dead, or this killed it; `info` says why. The reply's own error is in
 * reply->err; texts of its facts are borrowed until the next call. */
enum err worker_process_call(struct worker_process *process, const unsigned char *message,
                             size_t len, int fd, uint32_t number, const struct worker_wait *wait,
                             struct worker_reply *reply, struct errinfo *info) NODISCARD;

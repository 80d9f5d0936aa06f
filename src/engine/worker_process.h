/*
 * worker_process.h: the parent's end of an engine's process: starts it, asks it, notices that it
 * died or hangs, ends it.
 *
 *      parent  --socketpair (messages, SOCK_SEQPACKET)--  child fd 3 <-pipe (its standard output
 *              and error)---  child fd 1, 2     every line goes to the parent's log
 *
 *                start                     call fails: closed socket, a message that is not valid,
 *                                          no tick in time
 *      (nothing) -------> RUNNING ------------------------------------------------> DEAD (killed; `death` says why)
 *                            '-------------------- stop ------------------------------'--> (nothing)
 *
 * The child is the same program. It ends itself when the socket closes, so it never outlives the
 * parent; that is not left to PR_SET_PDEATHSIG, which fires when the *thread* that started the
 * child ends.
 *
 * OWNER: the engine's thread.
 */
#ifndef HEARTH_ENGINE_WORKER_PROCESS_H
#define HEARTH_ENGINE_WORKER_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "engine/worker_wire.h"

struct log;
struct worker_process;

/* The argument by which the program knows that it is to be a child, and the socket that it finds
 * then. */
#define WORKER_ARGUMENT "engine-worker"
enum { WORKER_SOCKET = 3 };

struct worker_process_options {
    const char *program; /* NULL = this one */
    const char *name;    /* of the model, for messages; cut at 127 bytes */
    /* borrowed; of what is behind the call's descriptor for the LOAD */
    const struct worker_control *control;
    struct log *log; /* may be NULL */
};

/* ERR_LIMIT, ERR_NOT_FOUND, ... as the system says; *process is then NULL. */
enum err worker_process_start(struct worker_process **process,
                              const struct worker_process_options *options,
                              struct errinfo *info) NODISCARD;
/* Ends it: politely, then not. Waits for its end. */
void worker_process_stop(struct worker_process **process);

/* Whether it can be asked. Looks at the socket: a child that died by itself is noticed. */
bool worker_process_alive(struct worker_process *process);
/* a sentence; "" when alive */
const char *worker_process_death(const struct worker_process *process);
/* that it died of by itself; 0: of none, or it lives */
int worker_process_signal(const struct worker_process *process);
pid_t worker_process_pid(const struct worker_process *process);

struct worker_wait {
    const char *what;    /* is waited for, in messages */
    uint32_t silence_ms; /* without a tick, a message or an end: it hangs */
    /* Called between sending and waiting: tests. May be NULL. */
    void (*on_sent)(void *arg);
    void *sent_arg;
    /* As engine_options.on_progress; false: the child is killed, ERR_CANCELLED. May be NULL. */
    bool (*on_progress)(float done, void *arg);
    void *progress_arg;
};

/* Sends `message`, with a file descriptor unless it is FILE_NO, and waits for its reply.
 * ERR_ENGINE: the child is dead, or this killed it; `info` says why. What the reply itself says is
 * in reply->err; texts of its facts are borrowed until the next call. */
enum err worker_process_call(struct worker_process *process, const unsigned char *message,
                             size_t len, int fd, uint32_t number, const struct worker_wait *wait,
                             struct worker_reply *reply, struct errinfo *info) NODISCARD;

#endif

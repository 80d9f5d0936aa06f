/*
 * lock.h: mutexes with a name, an owner and a rank, condition variables, threads, and what belongs
 * to one thread.
 *
 * RANKS. A thread may take a lock only if its rank is higher than that of every lock it already
 * holds; this order makes deadlocks impossible. The ranks are in the enum below and in
 * docs/threads.md. In builds with HEARTH_DEBUG (all sanitizer builds, DEBUG=1) a violation prints
 * both names and aborts; a release build only tracks the owner. Locks may be left in any order.
 *
 * Never hold a lock across I/O, a callback, an engine call or a function boundary.
 */
#pragma once

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

/* Lower ranks are taken first. Leave gaps; a new lock gets a line here and in docs/threads.md. */
enum lock_rank {
    LOCK_RANK_TEST_LOW = 1,
    LOCK_RANK_MODELS = 10,
    LOCK_RANK_API = 12,
    LOCK_RANK_CALL = 14,
    LOCK_RANK_POOL = 16,
    LOCK_RANK_SCHED = 20,
    LOCK_RANK_ENGINE = 25,
    LOCK_RANK_CACHE = 30,
    LOCK_RANK_TOKENS = 35,
    LOCK_RANK_RECALL = 36,
    LOCK_RANK_SHELF = 37,
    LOCK_RANK_TIER = 40,
    LOCK_RANK_MONITOR = 45,
    LOCK_RANK_QUEUE = 50,
    LOCK_RANK_BUDGET = 60,
    LOCK_RANK_LOG = 80, /* anything may log */
    LOCK_RANK_TEST_HIGH = 99,
};

struct lock {
    pthread_mutex_t mutex;
    atomic_ulong owner; /* the thread that holds it; 0 = none */
    enum lock_rank rank;
    const char *name; /* a literal */
};

void lock_init(struct lock *lock, const char *name, enum lock_rank rank);
void lock_fini(struct lock *lock); /* aborts when held */

void lock_enter(struct lock *lock);         /* aborts when this thread already holds it */
void lock_leave(struct lock *lock);         /* aborts when this thread does not hold it */
bool lock_is_held(const struct lock *lock); /* by this thread */

#define lock_assert_held(lock) assert(lock_is_held(lock))

/* A condition variable, with monotonic time. The lock must be the only one that the thread
 * holds: the thread that signals may need the others, and ranks would not show that. Checked
 * like ranks. */
struct cond {
    pthread_cond_t cond;
};

void cond_init(struct cond *cond);
void cond_fini(struct cond *cond);
void cond_signal(struct cond *cond);
void cond_broadcast(struct cond *cond);
void cond_wait(struct cond *cond, struct lock *lock) REQUIRES(lock);

/* False when `deadline_ns` (of the real monotonic clock; UINT64_MAX is never) has passed. Spurious
 * wakeups happen: loop over the condition. */
bool cond_wait_until(struct cond *cond, struct lock *lock, uint64_t deadline_ns)
    REQUIRES(lock) NODISCARD;

/* A thread with a name that `top -H` shows (cut at 15 characters). Signals belong to the main
 * thread, so all are blocked except those that a thread causes by its own fault (SIGSEGV and the
 * like): blocking these would only hide the crash. Must be zeroed before its first start. */
struct thread {
    pthread_t id;
    bool started;
};

/* Runs fn(arg) in a new thread; ERR_LIMIT when the system refuses. Only the starter uses
 * `thread`. */
enum err thread_start(struct thread *thread, const char *name, void (*fn)(void *arg), void *arg,
                      struct errinfo *info) NODISCARD;
/* Waits until fn has returned; a no-op when it was not started. */
void thread_join(struct thread *thread);
/* Never to be joined: for a thread that hangs in a call that cannot be cancelled. */
void thread_detach(struct thread *thread);
/* Lowers the priority of the calling thread, for background work. A no-op where the system cannot
 * do so for a single thread. The thread may be preempted while it holds a lock, so it must hold
 * locks only briefly. */
void thread_set_background(void);

/* The thread that may use something without a lock; `what` it is, for the message. Must be zeroed;
 * until a thread takes it, every thread may use it. */
struct thread_owner {
    atomic_ulong thread; /* 0 = none */
};

/* Aborts when a thread has it. */
void thread_owner_take(struct thread_owner *owner, const char *what);
/* Aborts when this thread does not have it. */
void thread_owner_leave(struct thread_owner *owner, const char *what);
/* Aborts when another thread has it. */
void thread_owner_check(const struct thread_owner *owner, const char *what);

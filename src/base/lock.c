/*
 * lock.c: pthread mutexes, conditions and threads, with the checks that turn a deadlock, or a
 * wrong thread, into a message.
 *
 * Each lock stores the thread that holds it, and so does a thread_owner. A thread only compares
 * that field with its own id, and only the thread itself stores its id there, so a relaxed load is
 * exact where it matters: it equals my id if and only if I hold the lock.
 *
 * For the rank check each thread keeps a list of the locks it holds:
 *
 *      held.locks   [ cache 30 | queue 50 | log 80 ]    strictly rising, so the last is the highest
 *                                             ^ a new lock must rank above this one
 *
 * Leaving in another order removes an entry from the middle, which keeps the order. The check
 * precedes the lock: a wrong order is reported the first time it is tried, not the one time in a
 * million when it deadlocks. The code of the list is compiled in every build, so that it cannot
 * rot, and does nothing unless HEARTH_DEBUG is defined.
 *
 * There are no recursive locks, no reader-writer locks and no trylock: each of them hides a
 * question about ownership.
 */
#include "base/lock.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"

#ifdef HEARTH_DEBUG
enum { RANKS_CHECKED = 1 };
#else
enum { RANKS_CHECKED = 0 };
#endif

/* More than there are ranks in use; no thread should nest deeper. */
enum { HELD_MAX = 16 };

enum { THREAD_NAME_SIZE = 16 }; /* the kernel's limit, including the NUL */

static _Thread_local struct {
    const struct lock *locks[HELD_MAX];
    int count;
} held;

/* The start arguments of a thread; allocated by the starter, freed by the thread. */
struct thread_begin {
    void (*fn)(void *arg);
    void *arg;
    char name[THREAD_NAME_SIZE];
};

NORETURN PRINTF(1, 2) static void violation(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    fputs("hearth: lock: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

/* For pthread calls that fail only on misuse. */
static void must(int rc, const char *call)
{
    if (rc != 0)
        violation("%s: %s", call, strerror(rc));
}

static void check_rank(const struct lock *lock)
{
    if (!RANKS_CHECKED || held.count == 0)
        return;
    const struct lock *top = held.locks[held.count - 1];
    if (lock->rank <= top->rank)
        violation("'%s' (rank %d) is taken while '%s' (rank %d) is held", lock->name, lock->rank,
                  top->name, top->rank);
}

static void held_add(const struct lock *lock)
{
    if (!RANKS_CHECKED)
        return;
    assert(held.count < HELD_MAX);
    held.locks[held.count++] = lock;
}

static void held_remove(const struct lock *lock)
{
    int i = 0;

    if (!RANKS_CHECKED)
        return;
    while (i < held.count && held.locks[i] != lock)
        i++;
    assert(i < held.count);
    held.count--;
    memmove(&held.locks[i], &held.locks[i + 1], (size_t)(held.count - i) * sizeof(held.locks[0]));
}

static unsigned long owner_of(const struct lock *lock)
{
    return atomic_load_explicit(&lock->owner, memory_order_relaxed);
}

/* Called with the mutex held: right after locking and right before unlocking. */
static void own(struct lock *lock)
{
    atomic_store_explicit(&lock->owner, (unsigned long)pthread_self(), memory_order_relaxed);
    held_add(lock);
}

static void disown(struct lock *lock)
{
    held_remove(lock);
    atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
}

/* Without a deadline when `until` is NULL. False when it has passed. */
static bool wait_for(struct cond *cond, struct lock *lock, const struct timespec *until)
{
    if (!lock_is_held(lock))
        violation("a wait under '%s' by a thread that does not hold it", lock->name);
    /* Waiting for a condition releases only one lock. */
    for (int i = 0; i < held.count; i++)
        if (held.locks[i] != lock)
            violation("waits under '%s' while '%s' is held", lock->name, held.locks[i]->name);
    disown(lock);
    int rc = until ? pthread_cond_timedwait(&cond->cond, &lock->mutex, until)
                   : pthread_cond_wait(&cond->cond, &lock->mutex);
    own(lock);
    if (rc != ETIMEDOUT)
        must(rc, "pthread_cond_wait");
    return rc == 0;
}

static void *thread_main(void *arg)
{
    struct thread_begin begin = *(struct thread_begin *)arg;

    mem_free(arg);
    /* The name is for people; a failure does not matter. */
    (void)pthread_setname_np(pthread_self(), begin.name);
    begin.fn(begin.arg);
    if (held.count > 0)
        violation("thread '%s' ends while '%s' is held", begin.name, held.locks[0]->name);
    return NULL;
}

/* Blocks every signal except those that the kernel sends to a thread for its own fault. */
static void set_of_others_signals(sigset_t *set)
{
    static const int own_fault[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

    sigfillset(set);
    for (size_t i = 0; i < COUNT_OF(own_fault); i++)
        sigdelset(set, own_fault[i]);
}

void lock_init(struct lock *lock, const char *name, enum lock_rank rank)
{
    assert(name != NULL && rank > 0);
    must(pthread_mutex_init(&lock->mutex, NULL), "pthread_mutex_init");
    atomic_init(&lock->owner, 0);
    lock->rank = rank;
    lock->name = name;
}

void lock_fini(struct lock *lock)
{
    if (owner_of(lock) != 0)
        violation("'%s' is destroyed while it is held", lock->name);
    must(pthread_mutex_destroy(&lock->mutex), "pthread_mutex_destroy");
}

void lock_enter(struct lock *lock)
{
    if (lock_is_held(lock))
        violation("'%s' is taken twice by one thread", lock->name);
    check_rank(lock);
    must(pthread_mutex_lock(&lock->mutex), "pthread_mutex_lock");
    own(lock);
}

void lock_leave(struct lock *lock)
{
    if (!lock_is_held(lock))
        violation("'%s' is left by a thread that does not hold it", lock->name);
    disown(lock);
    must(pthread_mutex_unlock(&lock->mutex), "pthread_mutex_unlock");
}

bool lock_is_held(const struct lock *lock)
{
    return owner_of(lock) == (unsigned long)pthread_self();
}

void cond_init(struct cond *cond)
{
    pthread_condattr_t attr;

    must(pthread_condattr_init(&attr), "pthread_condattr_init");
    must(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC), "pthread_condattr_setclock");
    must(pthread_cond_init(&cond->cond, &attr), "pthread_cond_init");
    must(pthread_condattr_destroy(&attr), "pthread_condattr_destroy");
}

void cond_fini(struct cond *cond)
{
    must(pthread_cond_destroy(&cond->cond), "pthread_cond_destroy");
}

void cond_signal(struct cond *cond)
{
    must(pthread_cond_signal(&cond->cond), "pthread_cond_signal");
}

void cond_broadcast(struct cond *cond)
{
    must(pthread_cond_broadcast(&cond->cond), "pthread_cond_broadcast");
}

void cond_wait(struct cond *cond, struct lock *lock)
{
    wait_for(cond, lock, NULL);
}

bool cond_wait_until(struct cond *cond, struct lock *lock, uint64_t deadline_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / NS_PER_S),
                             .tv_nsec = (long)(deadline_ns % NS_PER_S)};

    return wait_for(cond, lock, &until);
}

enum err thread_start(struct thread *thread, const char *name, void (*fn)(void *arg), void *arg,
                      struct errinfo *info)
{
    sigset_t blocked, before;

    assert(!thread->started);
    struct thread_begin *begin = mem_alloc(sizeof(*begin));
    begin->fn = fn;
    begin->arg = arg;
    snprintf(begin->name, sizeof(begin->name), "%s", name);
    /* A thread inherits the mask, so it can never receive a signal in between. */
    set_of_others_signals(&blocked);
    must(pthread_sigmask(SIG_SETMASK, &blocked, &before), "pthread_sigmask");
    int rc = pthread_create(&thread->id, NULL, thread_main, begin);
    must(pthread_sigmask(SIG_SETMASK, &before, NULL), "pthread_sigmask");
    if (rc != 0) {
        mem_free(begin);
        return err_set(info, ERR_LIMIT, "cannot start thread '%s': %s", name,
                       "the system's limit of threads or memory is reached");
    }
    thread->started = true;
    return ERR_OK;
}

void thread_join(struct thread *thread)
{
    if (!thread->started)
        return;
    must(pthread_join(thread->id, NULL), "pthread_join");
    thread->started = false;
}

void thread_detach(struct thread *thread)
{
    must(pthread_detach(thread->id), "pthread_detach");
    thread->started = false;
}

void thread_set_background(void)
{
#ifdef __linux__
    enum { NICENESS = 10 }; /* about a tenth of a contended processor */

    (void)setpriority(PRIO_PROCESS, 0,
                      /* Linux: 0 is the thread; elsewhere it would be the whole process */
                      NICENESS);
#endif
}

/* ---- owners ---- */

void thread_owner_take(struct thread_owner *owner, const char *what)
{
    unsigned long none = 0, self = (unsigned long)pthread_self();

    if (!atomic_compare_exchange_strong_explicit(&owner->thread, &none, self, memory_order_relaxed,
                                                 memory_order_relaxed))
        violation("'%s' already belongs to a thread", what);
}

void thread_owner_leave(struct thread_owner *owner, const char *what)
{
    unsigned long self = (unsigned long)pthread_self();

    if (!atomic_compare_exchange_strong_explicit(&owner->thread, &self, 0, memory_order_relaxed,
                                                 memory_order_relaxed))
        violation("'%s' is left by a thread that does not have it", what);
}

void thread_owner_check(const struct thread_owner *owner, const char *what)
{
    unsigned long thread = atomic_load_explicit(&owner->thread, memory_order_relaxed);

    if (thread != 0 && thread != (unsigned long)pthread_self())
        violation("'%s' is used by a thread that does not have it", what);
}

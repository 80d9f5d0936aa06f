/*
 * state_digest.c: tasks in a list, pieces taken one by one.
 *
 *      tasks   [ A: 12 pieces, all taken ]  [ B: 59 pieces, 7 taken ]  [ C: 59, none ]
 *                                                          ^ the next thread takes piece 7 of B
 *
 * A task leaves the list when its last piece is taken, and is ready when its last piece is done.
 * A thread that waits for a task hashes pieces of it itself: it needs no other thread to end.
 */
#include "engine/state_digest.h"

#include <assert.h>
#include <pthread.h>

#include "base/attr.h"
#include "base/le.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/sysinfo.h"
#include "engine/state.h"

enum { PIECE_BYTES = 4 << 20, THREADS_MAX = 8 };

struct state_digest_task {
    struct list_node link;
    struct state_shape shape;
    const unsigned char *data;
    void (*done)(void *arg);
    void *arg;
    size_t count, taken; /* pieces */
    size_t left;         /* not done yet */
    bool called;         /* `done` has returned, or there is none */
    struct hash128 pieces[];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct lock lock;
static struct cond work, progress;
static struct list tasks GUARDED_BY(lock);
static struct thread threads[THREADS_MAX];
static unsigned threads_count;

static void hash_piece(struct state_digest_task *task, size_t index)
{
    uint64_t at = index * (uint64_t)PIECE_BYTES;

    task->pieces[index] = hash128_of(task->data + at, MIN(task->shape.bytes - at, PIECE_BYTES));
}

/* The next piece of the task is the caller's. */
static size_t take_piece_locked(struct state_digest_task *task) REQUIRES(lock)
{
    assert(task->taken < task->count);
    size_t index = task->taken++;
    if (task->taken == task->count && list_node_linked(&task->link))
        list_remove(&tasks, &task->link);
    return index;
}

/* A piece is done. Called and left with the lock held, which is released for the callback. */
static void end_piece_locked(struct state_digest_task *task) REQUIRES(lock)
{
    if (--task->left > 0)
        return;
    if (task->done != NULL) {
        lock_leave(&lock);
        task->done(task->arg);
        lock_enter(&lock);
    }
    task->called = true;
    cond_broadcast(&progress);
}

static void run(void *arg)
{
    (void)arg;
    lock_enter(&lock);
    for (;;) {
        if (list_empty(&tasks)) {
            cond_wait(&work, &lock);
            continue;
        }
        struct state_digest_task *task =
            LIST_ENTRY(list_first(&tasks), struct state_digest_task, link);
        size_t index = take_piece_locked(task);
        lock_leave(&lock);
        hash_piece(task, index);
        lock_enter(&lock);
        end_piece_locked(task);
    }
}

/* Half of the cores: the others import, or compute. The threads last as long as the process. */
static void init_once(void)
{
    unsigned wanted = MAX(1u, MIN(sysinfo_cores() / 2, (unsigned)THREADS_MAX));

    lock_init(&lock, "state digests", LOCK_RANK_ENGINE);
    cond_init(&work);
    cond_init(&progress);
    list_init(&tasks);
    while (threads_count < wanted &&
           thread_start(&threads[threads_count], "digest", run, NULL, NULL) == ERR_OK)
        threads_count++;
}

static struct state_digest_task *create(const struct state_shape *shape, const void *data)
{
    size_t count = (size_t)((shape->bytes + PIECE_BYTES - 1) / PIECE_BYTES);
    struct state_digest_task *task = mem_alloc(sizeof(*task) + count * sizeof(task->pieces[0]));

    *task = (struct state_digest_task){
        .shape = *shape, .data = data, .count = count, .left = count, .called = count == 0};
    return task;
}

static void hash_all(struct state_digest_task *task)
{
    for (size_t i = 0; i < task->count; i++)
        hash_piece(task, i);
    task->taken = task->count;
    task->left = 0;
    if (task->done != NULL)
        task->done(task->arg);
    task->called = true;
}

static struct hash128 combine(const struct state_digest_task *task)
{
    const struct state_shape *shape = &task->shape;
    struct hash128_state state;
    unsigned char fields[4 * 8];

    le_put_u64(fields, shape->kind);
    le_put_u64(fields + 8, shape->begin);
    le_put_u64(fields + 16, shape->end);
    le_put_u64(fields + 24, shape->bytes);
    hash128_init(&state);
    hash128_update(&state, fields, sizeof(fields));
    hash128_update(&state, shape->engine.bytes, sizeof(shape->engine.bytes));
    hash128_update(&state, task->pieces, task->count * sizeof(task->pieces[0]));
    return hash128_final(&state);
}

struct state_digest_task *state_digest_start(const struct state_shape *shape, const void *data,
                                             void (*done)(void *arg), void *arg)
{
    struct state_digest_task *task = create(shape, data);

    task->done = done;
    task->arg = arg;
    if (task->count > 1)
        pthread_once(&once, init_once);
    if (task->count <= 1 || threads_count == 0) {
        hash_all(task);
        return task;
    }
    lock_enter(&lock);
    list_push_back(&tasks, &task->link);
    cond_broadcast(&work);
    lock_leave(&lock);
    return task;
}

static bool is_shared(const struct state_digest_task *task)
{
    return task->count > 1 && threads_count > 0;
}

bool state_digest_ready(const struct state_digest_task *task)
{
    if (!is_shared(task))
        return true;
    lock_enter(&lock);
    bool ready = task->left == 0;
    lock_leave(&lock);
    return ready;
}

struct hash128 state_digest_finish(struct state_digest_task **out)
{
    struct state_digest_task *task = *out;

    if (is_shared(task)) {
        lock_enter(&lock);
        while (task->taken < task->count) {
            size_t index = take_piece_locked(task);
            lock_leave(&lock);
            hash_piece(task, index);
            lock_enter(&lock);
            end_piece_locked(task);
        }
        while (!task->called)
            cond_wait(&progress, &lock);
        lock_leave(&lock);
    }
    struct hash128 digest = combine(task);
    mem_free(task);
    *out = NULL;
    return digest;
}

void state_digest_cancel(struct state_digest_task **out)
{
    struct state_digest_task *task = *out;

    if (task == NULL)
        return;
    if (is_shared(task)) {
        lock_enter(&lock);
        if (task->taken < task->count) { /* else the last piece is done, or its thread says so */
            list_remove(&tasks, &task->link);
            task->left -= task->count - task->taken;
            task->count = task->taken;
            task->called = task->left == 0;
        }
        while (!task->called)
            cond_wait(&progress, &lock);
        lock_leave(&lock);
    }
    mem_free(task);
    *out = NULL;
}

struct hash128 state_digest(const struct state_shape *shape, const void *data)
{
    struct state_digest_task *task = state_digest_start(shape, data, NULL, NULL);

    return state_digest_finish(&task);
}

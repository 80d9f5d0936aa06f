/*
 * Memory that can be shared with other processes: lookups, what a second mapping sees, and what no
 * process can do to it.
 */
#include "engine/worker_memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "support/test.h"

enum { BYTES = 3 * 4096 + 17 };

static void test_blocks_are_found_by_any_part_of_them(void **state)
{
    struct worker_memory *memory = worker_memory_create();
    char *a = worker_memory_alloc(BYTES, memory), *b = worker_memory_alloc(1, memory);
    struct worker_segment first, segment;

    (void)state;
    assert_true(worker_memory_find(memory, a, BYTES, &first));
    assert_true(first.id > 0 && first.offset == 0 && first.bytes == BYTES);
    assert_true(worker_memory_find(memory, a + BYTES - 1, 1, &segment));
    assert_true(segment.id == first.id && segment.offset == BYTES - 1);
    assert_true(worker_memory_find(memory, b, 1, &segment));
    assert_true(segment.id != first.id);
    /* Ranges that reach beyond a block, or belong to none, are not. */
    assert_false(worker_memory_find(memory, a, BYTES + 1, &segment));
    assert_false(worker_memory_find(memory, a + BYTES - 1, 2, &segment));
    assert_false(worker_memory_find(memory, a, UINT64_MAX, &segment));
    assert_false(worker_memory_find(memory, &memory, 1, &segment));
    assert_false(worker_memory_find(memory, NULL, 0, &segment));
    worker_memory_free(a, memory);
    worker_memory_free(b, memory);
    worker_memory_free(NULL, memory);
    worker_memory_destroy(&memory);
    assert_null(memory);
}

/* In the order in which they were made. A descriptor outlives the block that it belongs to. */
static void test_one_block_after_the_other(void **state)
{
    struct worker_memory *memory = worker_memory_create();
    char *blocks[] = {worker_memory_alloc(BYTES, memory), worker_memory_alloc(1, memory),
                      worker_memory_alloc(BYTES + 1, memory)};
    struct worker_segment segment, last;

    (void)state;
    memcpy(blocks[2], "still here", sizeof("still here"));
    assert_true(worker_memory_next(memory, 0, BYTES, &segment));
    assert_true(segment.bytes == BYTES && segment.offset == 0);
    close(segment.fd);
    assert_true(worker_memory_next(memory, segment.id, BYTES, &last));
    assert_int_equal(last.bytes, BYTES + 1);
    assert_false(worker_memory_next(memory, last.id, 0, &segment));
    worker_memory_free(blocks[2], memory);
    assert_false(worker_memory_next(memory, segment.id, BYTES, &segment));
    char *other = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, last.fd, 0);
    assert_true(other != MAP_FAILED);
    assert_string_equal(other, "still here");
    munmap(other, BYTES);
    close(last.fd);
    worker_memory_free(blocks[0], memory);
    worker_memory_free(blocks[1], memory);
    worker_memory_destroy(&memory);
}

static void test_freed_blocks_are_gone_and_counted(void **state)
{
    struct worker_memory *memory = worker_memory_create();
    void *a = worker_memory_alloc(BYTES, memory);
    struct worker_segment segment;
    uint64_t before = worker_memory_freed(memory);

    (void)state;
    assert_true(worker_memory_find(memory, a, 1, &segment));
    assert_true(worker_memory_has(memory, segment.id));
    worker_memory_free(a, memory);
    assert_true(worker_memory_freed(memory) != before);
    assert_false(worker_memory_has(memory, segment.id));
    a = worker_memory_alloc(BYTES, memory);
    assert_false(worker_memory_has(memory, segment.id)); /* a number is used once */
    worker_memory_free(a, memory);
    worker_memory_destroy(&memory);
}

/* What the other process would do: the same bytes, and no way to make them fewer. */
static void test_a_second_mapping_is_the_same_memory(void **state)
{
    struct worker_memory *memory = worker_memory_create();
    char *here = worker_memory_alloc(BYTES, memory);
    struct worker_segment segment;

    (void)state;
    assert_true(worker_memory_find(memory, here, BYTES, &segment));
    char *there = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, segment.fd, 0);
    assert_true(there != MAP_FAILED && here[5] == 0);
    here[5] = 'x';
    there[BYTES - 1] = 'y';
    assert_true(there[5] == 'x' && here[BYTES - 1] == 'y');
    assert_int_equal(ftruncate(segment.fd, 0), -1);
    assert_int_equal(errno, EPERM);
    munmap(there, BYTES);
    worker_memory_free(here, memory);
    worker_memory_destroy(&memory);
}

static void test_more_than_there_is(void **state)
{
    struct worker_memory *memory = worker_memory_create();

    (void)state;
    assert_null(worker_memory_alloc(SIZE_MAX, memory));
    assert_null(worker_memory_alloc(SIZE_MAX / 2, memory));
    worker_memory_destroy(&memory);
}

static void *allocate_often(void *arg)
{
    struct worker_segment segment;

    for (int i = 0; i < 200; i++) {
        char *block = worker_memory_alloc(4096, arg);
        assert_true(worker_memory_find(arg, block + 100, 1, &segment));
        assert_true(worker_memory_has(arg, segment.id));
        worker_memory_free(block, arg);
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct worker_memory *memory = worker_memory_create();
    pthread_t threads[3];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_often, memory), 0);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(worker_memory_freed(memory), 600);
    worker_memory_destroy(&memory);
}

struct acceptor {
    int listener;
    bool ordered;         /* the accept happens before the block is made, but not the use */
    atomic_bool accepted; /* if ordered */
    atomic_int closed;    /* relaxed, so that nothing is ordered by it; -1 = not yet */
};

/* As libuv does: the close is a bare system call. */
static void *accept_and_close(void *arg)
{
    struct acceptor *acceptor = arg;
    int fd = accept4(acceptor->listener, NULL, NULL, SOCK_CLOEXEC);
    char byte;

    if (acceptor->ordered)
        atomic_store_explicit(&acceptor->accepted, true, memory_order_release);
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(syscall(SYS_close, fd), 0);
    atomic_store_explicit(&acceptor->closed, fd, memory_order_relaxed);
    return NULL;
}

static void reuse_number(bool ordered)
{
    struct worker_memory *memory = worker_memory_create();
    /* the kernel finds a name */
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "\0"};
    socklen_t len = sizeof(sa_family_t);
    struct acceptor acceptor = {
        .listener = socket(AF_UNIX, SOCK_STREAM, 0), .ordered = ordered, .closed = -1};
    int client = socket(AF_UNIX, SOCK_STREAM, 0), closed;
    struct worker_segment segment;
    pthread_t thread;

    assert_int_equal(bind(acceptor.listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(acceptor.listener, 1), 0);
    len = sizeof(address);
    assert_int_equal(getsockname(acceptor.listener, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(pthread_create(&thread, NULL, accept_and_close, &acceptor), 0);
    assert_int_equal(connect(client, (struct sockaddr *)&address, len), 0);
    while (ordered && !atomic_load_explicit(&acceptor.accepted, memory_order_acquire))
        sched_yield();
    while ((closed = atomic_load_explicit(&acceptor.closed, memory_order_relaxed)) < 0)
        sched_yield();
    void *block = worker_memory_alloc(BYTES, memory);
    assert_true(worker_memory_find(memory, block, BYTES, &segment));
    assert_int_equal(segment.fd, closed);
    worker_memory_free(block, memory);
    pthread_join(thread, NULL);
    close(client);
    close(acceptor.listener);
    worker_memory_destroy(&memory);
}

/* The number of a socket that another thread has closed comes back for a block: for
 * ThreadSanitizer, which sees neither the close nor the memfd, the mapping is a race with the
 * accept, and the close with the use of the socket. tools/tsan.supp knows both. */
static void test_a_number_that_was_a_socket(void **state)
{
    (void)state;
    reuse_number(false);
}

static void test_a_number_that_was_a_socket_in_use(void **state)
{
    (void)state;
    reuse_number(true);
}

TEST_SUITE(TEST(test_blocks_are_found_by_any_part_of_them), TEST(test_one_block_after_the_other),
           TEST(test_freed_blocks_are_gone_and_counted),
           TEST(test_a_second_mapping_is_the_same_memory), TEST(test_more_than_there_is),
           TEST(test_threads), TEST(test_a_number_that_was_a_socket),
           TEST(test_a_number_that_was_a_socket_in_use))

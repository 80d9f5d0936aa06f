/*
 * SIGKILL: a process that uses the SSD tier dies inside its n-th write, rename or unlink, for every
 * n of five workloads, and at random moments under load. The next process must find everything that
 * was stored (I107), serve nothing else, and find no temporary file.
 *
 * A run of CI takes every STRIDE-th call and a few random kills; `make kills N=` all calls and N
 * random kills (HEARTH_KILLS).
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/file_fault.h"
#include "base/mem.h"
#include "support/ssd_kit.h"
#include "support/test.h"
#include "support/tier_suite.h"

#define WAIT_NS (20 * NS_PER_S)
#define ROOM    (UINT64_C(8) << 20)

enum { KEYS = 24, VERSIONS = 4, BYTES_MAX = 30000, STRIDE = 7, RANDOM_KILLS = 12, CAP = 300000 };

static uint64_t size_of(uint32_t n)
{
    return 100 + n * 2711 % (BYTES_MAX - 100);
}

/* 0: the small part that CI takes. */
static long kills_wanted(void)
{
    const char *text = getenv("HEARTH_KILLS");

    return text != NULL ? strtol(text, NULL, 10) : 0;
}

/* ---- what the child tells before and after it does something ---- */

enum news_kind { NEWS_BEGIN, NEWS_STORED, NEWS_DROP, NEWS_DAMAGE };

struct news {
    enum news_kind kind;
    uint32_t n, version;
};

/* What the parent knows of a key. */
struct known {
    unsigned allowed; /* bit per version that may be served */
    bool must;        /* one of them has to be */
    bool harmed;      /* or be found damaged */
};

static int news_pipe;

static void tell(enum news_kind kind, uint32_t n, uint32_t version)
{
    struct news news = {kind, n, version};

    if (write(news_pipe, &news, sizeof(news)) != sizeof(news))
        _exit(2);
}

static void hear(int from, struct known known[KEYS])
{
    struct news news;

    while (read(from, &news, sizeof(news)) == sizeof(news)) {
        struct known *key = &known[news.n];
        unsigned bit = 1u << news.version;
        if (news.kind == NEWS_BEGIN)
            key->allowed |= bit;
        else if (news.kind == NEWS_STORED)
            *key = (struct known){.allowed = bit, .must = true};
        else {
            key->must = false;
            key->harmed |= news.kind == NEWS_DAMAGE;
        }
    }
}

/* ---- workloads, in the child ---- */

static struct tier *open_in_child(const struct tier_ssd_options *options)
{
    struct tier *tier;

    if (tier_ssd_open(&tier, options, NULL) != ERR_OK)
        _exit(3);
    return tier;
}

static void store(struct tier *tier, uint32_t n, uint32_t version)
{
    tell(NEWS_BEGIN, n, version);
    enum tier_result result = ssd_kit_put(tier, n, version, size_of(n));
    if (result != TIER_OK) {
        fprintf(stderr, "object %u, version %u: %s\n", n, version,
                result < TIER_RESULT_COUNT ? tier_result_name(result) : "refused");
        _exit(4);
    }
    tell(NEWS_STORED, n, version);
}

static void drop(struct tier *tier, uint32_t n)
{
    tell(NEWS_DROP, n, 0);
    ssd_kit_drop(tier, n);
}

static const char *child_path;

static void damage(uint32_t n)
{
    char path[1024];

    ssd_kit_object_path(child_path, n, path);
    int fd = open(path, O_WRONLY);
    if (fd < 0 || pwrite(fd, "damage", 6, 4096) != 6 || close(fd) != 0)
        _exit(7);
}

static void work_store(struct tier *tier)
{
    for (uint32_t n = 0; n < 12; n++)
        store(tier, n, 0);
}

static void work_replace(struct tier *tier)
{
    for (uint32_t i = 0; i < 12; i++)
        store(tier, i % 4, i / 4);
}

static void work_evict(struct tier *tier)
{
    for (uint32_t n = 0; n < KEYS; n++)
        store(tier, n, 0);
}

static void work_drop(struct tier *tier)
{
    work_store(tier);
    for (uint32_t n = 0; n < 12; n += 2)
        drop(tier, n);
    if (!tier->ops->flush(tier, WAIT_NS))
        _exit(5);
    for (uint32_t n = 0; n < 6; n++)
        store(tier, n, 1);
}

/* Damaged files go into quarantine, and most others leave, so that the catalogue is written anew at
 * the end. */
static void work_damage(struct tier *tier)
{
    unsigned char data[BYTES_MAX];

    work_store(tier);
    for (uint32_t n = 0; n < 9; n++)
        if (n % 3 > 0) {
            drop(tier, n);
        } else {
            tell(NEWS_DAMAGE, n, 0);
            damage(n);
            if (ssd_kit_get(tier, n, data, size_of(n)) != TIER_DAMAGED)
                _exit(6);
        }
    if (!tier->ops->flush(tier, WAIT_NS))
        _exit(5);
}

static const struct workload {
    const char *name;
    void (*run)(struct tier *tier);
    uint64_t cap;
    bool evicts;
    bool twice; /* in the directory that a first run without a kill left */
} workloads[] = {
    {"store", work_store, ROOM, false, false},  {"replace", work_replace, ROOM, false, true},
    {"evict", work_evict, CAP, true, true},     {"drop", work_drop, ROOM, false, false},
    {"damage", work_damage, ROOM, false, true},
};

/* ---- a child that dies ---- */

static void live(const struct workload *workload, const char *path, struct file_fault *fault)
{
    struct tier_ssd_options options = ssd_kit_options(path, workload->cap);

    options.fs = &fault->sys;
    options.writers = 1;
    struct tier *tier = open_in_child(&options);
    workload->run(tier);
    tier_close(&tier);
}

NORETURN static void child(const struct workload *workload, const char *path, long n)
{
    struct file_fault fault;

    child_path = path;
    file_fault_init(&fault, file_sys_real());
    fault.kind = FILE_FAULT_KILL;
    fault.calls = UINT64_C(1) << FILE_CALL_PWRITE | UINT64_C(1) << FILE_CALL_RENAMEAT |
                  UINT64_C(1) << FILE_CALL_UNLINKAT;
    if (workload->twice)
        live(workload, path, &fault);
    fault_arm(&fault.when, n, false);
    live(workload, path, &fault);
    _exit(0);
}

/* True: it was killed. Fails when it ended in any other way but well. */
static bool run_child(const struct workload *workload, const char *path, long n,
                      struct known known[KEYS])
{
    int pipes[2], status;

    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        news_pipe = pipes[1];
        close(pipes[0]);
        child(workload, path, n);
    }
    close(pipes[1]);
    hear(pipes[0], known);
    close(pipes[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status)) {
        assert_int_equal(WEXITSTATUS(status), 0);
        return false;
    }
    assert_int_equal(WTERMSIG(status), SIGKILL);
    return true;
}

/* ---- what must hold afterwards ---- */

static int version_of(const unsigned char *data, uint32_t n)
{
    unsigned char expected[BYTES_MAX];

    for (int version = 0; version < VERSIONS; version++) {
        tier_suite_fill(expected, size_of(n), n, (uint32_t)version);
        if (memcmp(data, expected, size_of(n)) == 0)
            return version;
    }
    return -1;
}

static void must_serve(struct tier *tier, const struct known known[KEYS], bool evicts)
{
    static unsigned char data[BYTES_MAX];

    for (uint32_t n = 0; n < KEYS; n++) {
        enum tier_result result = ssd_kit_get(tier, n, data, size_of(n));
        if (result == TIER_OK) {
            int version = version_of(data, n);
            assert_true(version >= 0 && (known[n].allowed >> version & 1) != 0);
        } else {
            assert_true(result == TIER_MISSING || (result == TIER_DAMAGED && known[n].harmed));
            assert_true(evicts || !known[n].must);
        }
    }
}

static void look_after(const char *path, uint64_t cap, const struct known known[KEYS], bool evicts)
{
    struct tier_ssd_options options = ssd_kit_options(path, cap);
    struct tier *tier = ssd_kit_open(&options);

    must_serve(tier, known, evicts);
    assert_int_equal(ssd_kit_count_files(path, ".tmp"), 0);
    assert_int_equal(ssd_kit_put(tier, KEYS, 0, BYTES_MAX), TIER_OK); /* and it goes on */
    assert_true(tier->ops->flush(tier, WAIT_NS));
    assert_true(ssd_kit_disk_bytes(path) <= cap);
    tier_ssd_check(tier);
    tier_close(&tier);
}

/* ---- all calls ---- */

static void kill_everywhere(size_t number)
{
    const struct workload *workload = &workloads[number];
    long stride = kills_wanted() > 0 ? 1 : STRIDE, kills = 0;

    for (long n = 1 + (long)number % stride;; n += stride) {
        struct known known[KEYS] = {{0}};
        const char *path = ssd_kit_new_path();
        if (!run_child(workload, path, n, known))
            break;
        look_after(path, workload->cap, known, workload->evicts);
        ssd_kit_remove(path);
        kills++;
    }
    printf("%-8s killed in %ld of its writes, renames and unlinks: %ld passed\n", workload->name,
           kills, kills);
    assert_true(kills >= 5);
}

#define KILL_TEST(name, number)                  \
    static void test_i107_kills_##name(void **s) \
    {                                            \
        (void)s;                                 \
        kill_everywhere(number);                 \
    }
KILL_TEST(store, 0)
KILL_TEST(replace, 1)
KILL_TEST(evict, 2)
KILL_TEST(drop, 3)
KILL_TEST(damage, 4)

/* ---- random moments ---- */

static void on_stored(enum tier_result result, void *data)
{
    (void)result;
    mem_free(data);
}

static void put_without_waiting(struct tier *tier, uint32_t n, uint32_t version)
{
    struct tier_meta meta = tier_suite_meta(n, size_of(n));
    unsigned char *data = mem_alloc(size_of(n));

    tier_suite_fill(data, size_of(n), n, version);
    if (!tier->ops->put(tier, &meta, data, on_stored, data))
        mem_free(data);
}

/* Puts, gets and drops without an end. */
NORETURN static void child_under_load(const char *path, uint64_t seed)
{
    struct tier_ssd_options options = ssd_kit_options(path, CAP);
    static unsigned char data[BYTES_MAX];

    options.sync = seed % 2;
    struct tier *tier = open_in_child(&options);
    for (;;) {
        uint32_t n = (uint32_t)test_random_below(&seed, KEYS);
        uint64_t what = test_random_below(&seed, 8);
        if (what == 0)
            ssd_kit_drop(tier, n);
        else if (what > 4)
            put_without_waiting(tier, n, (uint32_t)test_random_below(&seed, VERSIONS));
        else if (ssd_kit_get(tier, n, data, size_of(n)) == TIER_OK && version_of(data, n) < 0)
            abort(); /* seen by the parent */
    }
}

static void test_i107_random_kills(void **state)
{
    const char *path = ssd_kit_new_path();
    long wanted = kills_wanted() > 0 ? kills_wanted() : RANDOM_KILLS;
    uint64_t seed = test_seed();
    struct known any[KEYS];
    int status;

    (void)state;
    for (uint32_t n = 0; n < KEYS; n++)
        any[n] = (struct known){.allowed = (1 << VERSIONS) - 1};
    for (long kills = 0; kills < wanted; kills++) {
        uint64_t wait_ns = test_random_below(&seed, 20 * NS_PER_MS), work = test_random(&seed);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            child_under_load(path, work);
        clock_sleep_ns(clock_real(),
                       wait_ns); /* the moment is the test's, not a wait for anything */
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        look_after(path, CAP, any, true);
    }
    printf("%ld random kills under load: %ld passed\n", wanted, wanted);
}

TEST_SUITE(TEST(test_i107_kills_store), TEST(test_i107_kills_replace), TEST(test_i107_kills_evict),
           TEST(test_i107_kills_drop), TEST(test_i107_kills_damage), TEST(test_i107_random_kills))

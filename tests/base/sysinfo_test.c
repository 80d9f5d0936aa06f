#include "base/sysinfo.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return ok;
}

static void test_cores_are_between_one_and_the_affinity(void **state)
{
    (void)state;
    assert_true(sysinfo_cores() >= 1 && sysinfo_cores() <= (unsigned)sysconf(_SC_NPROCESSORS_CONF));
}

static void test_cores_follow_the_affinity(void **state)
{
    cpu_set_t all, one;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
        assert_int_equal(sysinfo_cores(), 1);
    }
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

static void test_memory_is_plausible(void **state)
{
    uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

    (void)state;
    assert_true(sysinfo_memory_total() > 0 && sysinfo_memory_total() <= physical + physical / 8);
    assert_true(sysinfo_memory_available() > 0);
    assert_true(sysinfo_memory_available() <= sysinfo_memory_total());
}

/* A process in a group with a limit, made where the system lets us make one. */
static void test_a_limit_of_the_own_group_counts(void **state)
{
    static const struct {
        const char *dir, *limit;
    } trees[] = {{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
                 {"/sys/fs/cgroup", "memory.max"}};
    char group[64], path[128];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(trees); i++) {
        snprintf(group, sizeof(group), "%s/hearth_test_%d", trees[i].dir, (int)getpid());
        snprintf(path, sizeof(path), "%s/%s", group, trees[i].limit);
        if (mkdir(group, 0700) != 0)
            continue;
        bool set = write_text(path, "268435456");
        pid_t pid = set ? fork() : -1;
        if (pid == 0) {
            snprintf(path, sizeof(path), "%s/cgroup.procs", group);
            if (!write_text(path, "0"))
                _exit(2);
            _exit(sysinfo_memory_total() == 256 << 20 && sysinfo_memory_available() < 256 << 20
                      ? 0
                      : 1);
        }
        int status = 0;
        if (pid > 0)
            assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(rmdir(group), 0);
        if (pid > 0 && WEXITSTATUS(status) != 2) {
            assert_int_equal(status, 0);
            return;
        }
    }
    TEST_SKIP("no cgroup can be made here");
}

static void test_a_process_grows_by_what_it_touches(void **state)
{
    size_t bytes = 32 << 20;
    uint64_t before = sysinfo_memory_process();
    char *memory = malloc(bytes);

    (void)state;
    assert_non_null(memory);
    memset(memory, 1, bytes);
    assert_true(before > 0 && sysinfo_memory_process() >= before + bytes / 2);
    assert_true(sysinfo_memory_process() <= sysinfo_memory_total());
    free(memory);
}

/* Its private pages count, pages shared with us do not; a process that has ended has none. */
static void test_memory_of_another_process(void **state)
{
    size_t bytes = 32 << 20;
    int ready[2];
    char byte;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        for (size_t step = 0; step < 3; step++) {
            /* touched by the kernel: a sanitizer has memory of its own for each byte that we touch */
            int flags = MAP_ANONYMOUS | MAP_POPULATE | (step == 1 ? MAP_SHARED : MAP_PRIVATE);
            if (step > 0 && mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
                _exit(1);
            if (write(ready[1], "x", 1) != 1)
                _exit(1);
            raise(SIGSTOP);
        }
        _exit(0);
    }
    uint64_t seen[3];
    for (size_t step = 0; step < 3; step++) {
        assert_int_equal(read(ready[0], &byte, 1), 1);
        assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
        seen[step] = sysinfo_memory_of(pid);
        kill(pid, SIGCONT);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(seen[0] > 0 && seen[1] < seen[0] + bytes / 4);
    assert_true(seen[2] >= seen[1] + bytes && seen[2] < seen[1] + 2 * bytes);
    assert_int_equal(sysinfo_memory_of(pid), 0);
    close(ready[0]);
    close(ready[1]);
}

static void test_origin_names_the_library(void **state)
{
    (void)state;
    assert_non_null(strstr(sysinfo_origin((void *)_cmocka_run_group_tests), "libcmocka"));
    assert_string_equal(sysinfo_origin(NULL), "the program");
}

static void test_program(void **state)
{
    (void)state;
    unsetenv("HEARTH_PROGRAM");
    assert_string_equal(sysinfo_program(), "/proc/self/exe");
    setenv("HEARTH_PROGRAM", "", 1);
    assert_string_equal(sysinfo_program(), "/proc/self/exe");
    setenv("HEARTH_PROGRAM", "/opt/hearth/bin/hearth", 1);
    assert_string_equal(sysinfo_program(), "/opt/hearth/bin/hearth");
}

TEST_SUITE(TEST(test_cores_are_between_one_and_the_affinity), TEST(test_cores_follow_the_affinity),
           TEST(test_memory_is_plausible), TEST(test_a_limit_of_the_own_group_counts),
           TEST(test_a_process_grows_by_what_it_touches), TEST(test_memory_of_another_process),
           TEST(test_origin_names_the_library), TEST(test_program))

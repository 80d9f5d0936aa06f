#include "base/sysinfo.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"

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

static void test_origin_names_the_library(void **state)
{
    (void)state;
    assert_non_null(strstr(sysinfo_origin((void *)_cmocka_run_group_tests), "libcmocka"));
    assert_string_equal(sysinfo_origin(NULL), "the program");
}

TEST_SUITE(TEST(test_cores_are_between_one_and_the_affinity), TEST(test_cores_follow_the_affinity),
           TEST(test_memory_is_plausible), TEST(test_a_process_grows_by_what_it_touches), TEST(test_origin_names_the_library))

/*
 * test.c: the command line of a suite, seeds, scratch folders and guarded memory.
 */
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char scratch_dir[512];

int test_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < count; i++)
            printf("%s\n", tests[i].name);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "--run") == 0)
        cmocka_set_test_filter(argv[2]);
    else if (argc != 1) {
        fprintf(stderr, "usage: %s [--list | --run NAME]\n", argv[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    return _cmocka_run_group_tests("suite", tests, count, NULL, NULL) == 0 ? 0 : 1;
}

void test_print_skip(const char *reason)
{
    printf("SKIP %s\n", reason);
    fflush(stdout);
}

uint64_t test_seed(void)
{
    const char *text = getenv("HEARTH_TEST_SEED");
    uint64_t seed;

    if (text != NULL) {
        seed = strtoull(text, NULL, 0);
    } else {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint64_t)now.tv_nsec * 0x9E3779B97F4A7C15u ^ (uint64_t)getpid();
        seed &= 0xFFFFFFFFu; /* short enough to type */
    }
    printf("HEARTH_TEST_SEED=0x%llx\n", (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

uint64_t test_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t test_random_below(uint64_t *state, uint64_t n)
{
    return test_random(state) % n;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_scratch(void)
{
    nftw(scratch_dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *test_dir(void)
{
    if (scratch_dir[0] == '\0') {
        const char *build = getenv("HEARTH_BUILD");
        snprintf(scratch_dir, sizeof(scratch_dir), "%s/scratch.XXXXXX", build ? build : "/tmp");
        if (mkdtemp(scratch_dir) == NULL)
            fail_msg("mkdtemp %s: %s", scratch_dir, strerror(errno));
        atexit(remove_scratch);
    }
    return scratch_dir;
}

const char *test_guarded(const void *data, size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = (len + page - 1) / page * page;
    char *base =
        mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED || mprotect(base + body, page, PROT_NONE) != 0)
        fail_msg("mmap: %s", strerror(errno));
    if (len > 0)
        memcpy(base + body - len, data, len);
    return base + body - len;
}

const char *test_shared(const char *name)
{
    static char path[1024];
    const char *root = getenv("HEARTH_TEST_SHARED");

    snprintf(path, sizeof(path), "%s/%s", root ? root : "../shared", name);
    return access(path, R_OK) == 0 ? path : NULL;
}

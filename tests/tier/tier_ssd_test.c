#include "tier/tier_ssd.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/object_path.h"
#include "support/ssd_kit.h"
#include "support/test.h"
#include "support/tier_suite.h"

#define ROOM    (UINT64_C(64) << 20)
#define WAIT_NS (20 * NS_PER_S)

/* ---- the suite of every tier ---- */

static const char *suite_path;
static bool suite_sealed;

static struct tier *open_in(const char *path, uint64_t bytes_max)
{
    struct tier_ssd_options options = ssd_kit_options(path, bytes_max);

    options.seal_key = suite_sealed ? ssd_kit_seal_key() : NULL;
    options.keep_all = true; /* the contract of tier.h: told when it is full */
    suite_path = path;
    return ssd_kit_open(&options);
}

static struct tier *open_new(uint64_t bytes_max)
{
    return open_in(ssd_kit_new_path(), bytes_max);
}

static struct tier *open_new_sealed(uint64_t bytes_max)
{
    suite_sealed = true; /* each test is a process */
    return open_new(bytes_max);
}

static struct tier *open_again(uint64_t bytes_max)
{
    return open_in(suite_path, bytes_max);
}

static void damage(struct tier *tier, const struct hash256 *key)
{
    char path[1024], name[OBJECT_PATH_BYTES];
    unsigned char byte;
    struct stat st;

    (void)tier;
    object_path(key, name);
    snprintf(path, sizeof(path), "%s/%s", suite_path, name);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    off_t at = SSD_ALIGNMENT + (st.st_size - SSD_ALIGNMENT) / 2;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static const struct tier_factory factory = {
    .name = "ssd",
    .open = open_new,
    .reopen = open_again,
    .damage = damage,
    .hold = tier_ssd_hold,
};

static const struct tier_factory sealed_factory = {
    .name = "ssd",
    .open = open_new_sealed,
    .reopen = open_again,
    .damage = damage,
    .hold = tier_ssd_hold,
};

TIER_SUITE_DEFINE(ssd, &factory)
TIER_SUITE_DEFINE(sealed, &sealed_factory)

TEST_SUITE(TIER_SUITE_TESTS(ssd, &factory) TIER_SUITE_TESTS(sealed, &sealed_factory))

#include "engine/host_memory.h"

#include <string.h>

#include "base/fault.h"
#include "base/mem.h"
#include "support/test.h"

enum { BLOCKS = 5, BYTES = 1 << 20 };

/* Blocks are usable, and every byte is counted as pinned or as plain until it is freed. */
static void test_blocks_are_usable_and_counted(void **state)
{
    bool pins = host_memory_can_pin(NULL);
    void *blocks[BLOCKS];

    (void)state;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = host_memory_alloc(BYTES + (size_t)i, NULL);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        memset(blocks[i], i, BYTES + (size_t)i);
    }
    struct host_memory_stats stats = host_memory_stats();
    assert_int_equal(stats.pinned + stats.plain, BLOCKS * BYTES + 0 + 1 + 2 + 3 + 4);
    if (!pins) /* no device here has any */
        assert_int_equal(stats.pinned, 0);
    for (int i = BLOCKS; i-- > 0;) {
        assert_int_equal(((char *)blocks[i])[BYTES - 1], i);
        host_memory_free(blocks[i], NULL);
    }
    host_memory_free(NULL, NULL); /* a no-op */
    stats = host_memory_stats();
    assert_int_equal(stats.pinned + stats.plain, 0);
}

/* Each allocation fails once: no block, nothing counted. */
static void test_no_memory_is_no_block(void **state)
{
    struct fault fault = {0};
    int failures = 0;

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        void *block = host_memory_alloc(BYTES, NULL);
        struct host_memory_stats stats = host_memory_stats();
        failures += block == NULL;
        assert_int_equal(stats.pinned + stats.plain, block != NULL ? BYTES : 0);
        host_memory_free(block, NULL);
    }
    mem_set_fault(NULL);
    assert_true(failures >= 1);
}

TEST_SUITE(TEST(test_blocks_are_usable_and_counted), TEST(test_no_memory_is_no_block))

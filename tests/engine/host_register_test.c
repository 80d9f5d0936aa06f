#include "engine/host_register.h"

#include <stdlib.h>
#include <string.h>

#include "engine/worker_memory.h"
#include "support/fake_cuda.h"
#include "support/test.h"

enum { MIB = 1 << 20 };

static void test_without_a_driver(void **state)
{
    struct host_register *reg;
    struct errinfo info = {0};

    (void)state;
    assert_err(host_register_open(&reg, &info), ERR_UNSUPPORTED);
    assert_null(reg);
    assert_string_equal(info.text,
                        "pinning shared memory needs the CUDA backend: it is not loaded");
    host_register_close(&reg); /* a no-op */
}

/* The driver is there, because a Vulkan driver has loaded it or the model is on the CPU. */
static void test_a_device_must_be_in_use(void **state)
{
    struct host_register *reg;
    struct errinfo info = {0};

    (void)state;
    setenv("FAKE_CUDA_ACTIVE", "-1", 1);
    fake_cuda_load();
    assert_err(host_register_open(&reg, &info), ERR_UNSUPPORTED);
    assert_string_equal(info.text, "no device of CUDA is in use");
    assert_string_equal(fake_cuda_calls(), "");
}

static void test_memory_is_registered(void **state)
{
    struct worker_memory *memory = worker_memory_create();
    void *blocks[] = {worker_memory_alloc(2 * MIB, memory), worker_memory_alloc(3 * MIB, memory)};
    struct host_register *reg;

    (void)state;
    fake_cuda_load(); /* whose second device is in use */
    assert_ok(host_register_open(&reg, NULL));
    assert_ok(host_register_add(reg, blocks[0], 2 * MIB, NULL));
    assert_ok(host_register_add(reg, blocks[1], 3 * MIB, NULL));
    host_register_remove(reg, blocks[0]);
    host_register_remove(reg, blocks[1]);
    host_register_close(&reg);
    assert_null(reg);
    assert_string_equal(fake_cuda_calls(),
                        "register 2, register 3, unregister 2, unregister 3, release 0");
    worker_memory_free(blocks[0], memory);
    worker_memory_free(blocks[1], memory);
    worker_memory_destroy(&memory);
}

static void test_a_refusal_has_the_drivers_reason(void **state)
{
    struct worker_memory *memory = worker_memory_create();
    void *block = worker_memory_alloc(MIB, memory);
    struct host_register *reg;
    struct errinfo info = {0};

    (void)state;
    setenv("FAKE_CUDA_FAIL", "1", 1);
    fake_cuda_load();
    assert_ok(host_register_open(&reg, NULL));
    assert_err(host_register_add(reg, block, MIB, &info), ERR_ENGINE);
    assert_string_equal(info.text, "CUDA_ERROR_OUT_OF_MEMORY");
    assert_ok(host_register_add(reg, block, MIB, NULL));
    host_register_remove(reg, block);
    host_register_close(&reg);
    assert_string_equal(fake_cuda_calls(), "refuse 1, register 1, unregister 1, release 0");
    worker_memory_free(block, memory);
    worker_memory_destroy(&memory);
}

TEST_SUITE(TEST(test_without_a_driver), TEST(test_a_device_must_be_in_use),
           TEST(test_memory_is_registered), TEST(test_a_refusal_has_the_drivers_reason))

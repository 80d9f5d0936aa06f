/*
 * rpc.c: workers that cannot be reached are said to be, before the plug-in is asked, which would end
 * the process. A model over workers that can: tests/scenario/rpc_test.c.
 */
#include "engine/rpc.h"

#include <string.h>
#include <unistd.h>

#include "engine/backend.h"
#include "support/test.h"

static const char backends[] = ".deps/fleet/backends";

static void test_unreachable_workers(void **state)
{
    /* nobody listens, and no route: such an attempt fails at once */
    static const char *const servers[] = {"127.0.0.1:1", "255.255.255.255:1"};
    struct errinfo info;

    (void)state;
    if (access(".deps/fleet/backends/libggml-rpc.so", R_OK) != 0)
        TEST_SKIP("no RPC plug-in here; tools/deps.sh --tools fetches it");
    backend_init(backends);
    for (size_t i = 0; i < COUNT_OF(servers); i++) {
        assert_err(rpc_add_servers(servers[i], &info), ERR_IO);
        assert_non_null(strstr(info.text, "does not answer"));
    }
    assert_err(rpc_add_servers("127.0.0.1", &info), ERR_INVALID);
}

TEST_SUITE(TEST(test_unreachable_workers))

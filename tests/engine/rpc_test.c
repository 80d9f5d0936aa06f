/*
 * rpc.c: workers that cannot be reached are said to be, before the plug-in is asked, which would end
 * the process. A model over workers that can: tests/scenario/rpc_test.c.
 */
#include "engine/rpc.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
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

/* A stopped process: the kernel accepts, and no one answers. */
static void test_a_worker_that_says_nothing(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct errinfo info;
    char server[32];

    (void)state;
    if (access(".deps/fleet/backends/libggml-rpc.so", R_OK) != 0)
        TEST_SKIP("no RPC plug-in here; tools/deps.sh --tools fetches it");
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    snprintf(server, sizeof(server), "127.0.0.1:%u", ntohs(address.sin_port));
    backend_init(backends);
    assert_err(rpc_add_servers(server, &info), ERR_IO);
    assert_non_null(strstr(info.text, "does not answer"));
    close(fd);
}

TEST_SUITE(TEST(test_unreachable_workers), TEST(test_a_worker_that_says_nothing))

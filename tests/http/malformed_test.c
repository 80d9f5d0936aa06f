/*
 * malformed_test.c: broken HTTP from a generator, against a server with sockets.
 *
 * Requests with a defect of a known kind must be refused with a status from 400 on and a closed
 * connection, and no handler may see them. Requests with random damage may come out as anything,
 * but the server lives on, answers in whole answers, and gives everything back. The seed is
 * printed; HEARTH_MALFORMED_N sets how many of each are sent (300).
 */
#include <dirent.h>

#include "http/problem.h"
#include "support/broken_http.h"
#include "support/http_client.h"
#include "support/http_kit.h"
#include "support/test.h"

enum { REQUEST_BYTES_MAX = 1 << 20, ALIVE_EVERY = 50 };

static void check_alive(struct http_kit *kit)
{
    struct http_client client;
    struct http_answer answer;

    http_client_connect(&client, kit->port);
    http_client_request(&client, "POST", "/echo", "", STR("alive"));
    assert_true(http_client_answer(&client, false, &answer, NULL));
    assert_string_equal(buf_str(&answer.body), "POST /echo alive");
    http_answer_fini(&answer);
    http_client_close(&client);
}

static void test_defects(void **state)
{
    uint64_t seed = test_seed(), count = broken_http_count();
    struct http_kit kit;
    struct buf request;

    (void)state;
    buf_init(&request, REQUEST_BYTES_MAX);
    http_kit_start(&kit, NULL);
    for (uint64_t i = 0; i < count; i++) {
        broken_http_defect(&request, &seed);
        double handled = http_kit_stat(&kit, HTTP_STAT_REQUESTS, 0);
        broken_http_check_refused(kit.port, &request, &seed);
        if (http_kit_stat(&kit, HTTP_STAT_REQUESTS, 0) != handled)
            fail_msg("a handler saw:\n%s", request.data);
        if (i % ALIVE_EVERY == 0)
            check_alive(&kit);
    }
    buf_fini(&request);
    http_kit_stop(&kit);
}

static size_t count_descriptors(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");

    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

static void test_damage(void **state)
{
    uint64_t seed = test_seed(), count = broken_http_count();
    struct http_kit kit;
    struct buf request;

    (void)state;
    buf_init(&request, REQUEST_BYTES_MAX);
    http_kit_start(&kit, NULL);
    check_alive(&kit);
    http_kit_wait_stat_down(&kit, HTTP_STAT_CONNECTIONS, 0, 0);
    size_t before = count_descriptors();
    for (uint64_t i = 0; i < count; i++) {
        broken_http_good(&request, &seed);
        broken_http_damage(&request, &seed);
        broken_http_check_survived(kit.port, &request, &seed);
        if (i % ALIVE_EVERY == 0)
            check_alive(&kit);
    }
    http_kit_wait_stat_down(&kit, HTTP_STAT_CONNECTIONS, 0, 0);
    assert_true(http_kit_stat(&kit, HTTP_STAT_ACTIVE, 0) == 0);
    assert_int_equal(count_descriptors(), before);
    buf_fini(&request);
    http_kit_stop(&kit);
}

TEST_SUITE(TEST(test_defects), TEST(test_damage))

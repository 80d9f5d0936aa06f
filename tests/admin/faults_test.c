/* admin_faults_test.c: every allocation on the way of every endpoint of /admin fails once: the
 * client gets an answer or sees the connection end, and the server goes on. */
#include "serve/api_impl.h"
#include "base/mem.h"
#include "support/api_kit.h"
#include "support/test.h"

#define PROMPT "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello there\"}]"

static const struct {
    const char *method, *path, *body;
} requests[] = {
    {"GET", "/admin/stats", ""},
    {"GET", "/admin/history", ""},
    {"GET", "/admin/models", ""},
    {"GET", "/admin/requests", ""},
    {"GET", "/admin/settings", ""},
    {"GET", "/admin/cache/objects?limit=3", ""},
    {"GET", "/admin/cache/tree", ""},
    {"GET", "/admin/cache/objects/0000000000000000000000000000000000000000000000000000000000000000",
     ""},
    {"POST", "/admin/cache/probe", PROMPT ",\"against\":" PROMPT "}}"},
    {"POST", "/admin/cache/warm", PROMPT "}"},
    {"POST", "/admin/cache/pin", PROMPT "}"},
    {"POST", "/admin/cache/verify", "{}"},
    {"POST", "/admin/cache/evict", "{\"older_s\":3600}"},
    {"POST", "/admin/cache/clear", "{\"tier\":\"ram\",\"model\":\"fake\"}"},
    {"POST", "/admin/settings", "{\"queue\":7}"},
};

static void test_every_allocation_may_fail(void **state)
{
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 4 << 20});
    yyjson_doc_free(api_kit_post(&kit, "/v1/chat/completions", PROMPT ",\"max_tokens\":2}", 200));
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        struct fault fault = {0};
        unsigned rounds = 0;

        mem_set_fault(&fault);
        FAULT_LOOP (&fault) {
            int status =
                api_kit_ask_plainly(&kit, requests[i].method, requests[i].path, requests[i].body);

            if (status != 0 && status != 200 && status != 404 && status != 413 && status < 500)
                fail_msg("%s: %d", requests[i].path, status);
            rounds++;
            mem_set_fault(NULL); /* not for the check */
            api_kit_wait_metric(&kit, "hearth_api_calls_active", 0);
            mem_set_fault(&fault);
        }
        mem_set_fault(NULL);
        assert_true(rounds > 1); /* it really was in the way */
    }
    yyjson_doc_free(api_kit_get(&kit, "/admin/stats", 200));
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_every_allocation_may_fail))

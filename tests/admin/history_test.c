/* history_test.c: the last hour in steps, against a plain list of what happened when. */
#include "admin/history.h"

#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/test.h"

enum { SECONDS = 3 * HISTORY_STEPS * HISTORY_STEP_S, NOTES = 400 };

#define BEGIN_NS (77 * NS_PER_S)

static struct history history;

/* What the window has, from what happened in each second. */
static uint64_t sum_of(const uint64_t *ram, uint64_t now_s, uint32_t seconds)
{
    uint64_t step = now_s / HISTORY_STEP_S, steps = MAX(seconds / HISTORY_STEP_S, 1), sum = 0;
    uint64_t first = step + 1 > steps ? step + 1 - steps : 0;

    for (uint64_t s = first * HISTORY_STEP_S; s <= now_s; s++)
        sum += ram[s];
    return sum;
}

static void test_sums_against_a_list(void **state)
{
    static const uint32_t windows[] = {1, 5, 60, 300, 900, 3600};
    uint64_t *ram = mem_alloc_array(SECONDS, sizeof(*ram)), now_s = 0;

    (void)state;
    srand((unsigned)test_seed());
    history_init(&history, BEGIN_NS);
    for (int i = 0; i < NOTES; i++) {
        struct gen_usage usage = {.prompt = 9, .ram = (uint32_t)(rand() % 100), .computed = 1};
        struct history_step sum;
        uint32_t window = windows[(size_t)rand() % COUNT_OF(windows)];

        now_s += (uint64_t)(rand() % 4 == 0 ? rand() % 40 : rand() % 3);
        if (rand() % 50 == 0)
            now_s += (uint64_t)(rand() % 1500);
        if (now_s >= SECONDS)
            break;
        ram[now_s] += usage.ram;
        history_count_tokens(&history, BEGIN_NS + now_s * NS_PER_S, &usage);
        history_count_request(&history, BEGIN_NS + now_s * NS_PER_S);
        double passed_s = history_sum(&history, BEGIN_NS + now_s * NS_PER_S, window, &sum);
        assert_int_equal(sum.ram, sum_of(ram, now_s, window));
        assert_true(sum.requests >= 1 && sum.computed == sum.requests);
        assert_true(passed_s >= 1 && passed_s <= MAX((double)window, HISTORY_STEP_S));
    }
    mem_free(ram);
}

/* After a long silence nothing old is left, and looking is as good as counting. */
static void test_a_long_silence(void **state)
{
    struct gen_usage usage = {.prompt = 5, .ssd = 4, .computed = 1};
    struct history_step sum;

    (void)state;
    history_init(&history, BEGIN_NS);
    history_count_tokens(&history, BEGIN_NS, &usage);
    history_sum(&history, BEGIN_NS + UINT64_C(400000) * NS_PER_S, 3600, &sum);
    assert_int_equal(sum.ssd, 0);
    history_count_tokens(&history, BEGIN_NS + UINT64_C(400001) * NS_PER_S, &usage);
    history_sum(&history, BEGIN_NS + UINT64_C(400001) * NS_PER_S, 60, &sum);
    assert_int_equal(sum.ssd, 4);
}

static yyjson_doc *write_at(uint64_t now_ns, uint64_t wall_s)
{
    struct buf body;
    struct json json;
    yyjson_doc *doc;

    buf_init(&body, 1 << 20);
    json = json_to(&body);
    json_open(&json, '{');
    history_write(&json, &history, now_ns, wall_s);
    json_close(&json, '}');
    doc = yyjson_read(body.data, body.len, 0);
    assert_non_null(doc);
    buf_fini(&body);
    return doc;
}

static void test_written(void **state)
{
    struct gen_usage usage = {.prompt = 5, .device = 4, .computed = 1, .generated = 7};
    yyjson_doc *doc;

    (void)state;
    history_init(&history, BEGIN_NS);
    history_count_tokens(&history, BEGIN_NS + 12 * NS_PER_S, &usage);
    doc = write_at(BEGIN_NS + 16 * NS_PER_S, 1000);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/t")), 4);
    /* begun a second ago */
    assert_int_equal(yyjson_get_uint(yyjson_doc_ptr_get(doc, "/t/3")), 999);
    assert_int_equal(yyjson_get_uint(yyjson_doc_ptr_get(doc, "/t/0")), 984);
    assert_int_equal(yyjson_get_uint(yyjson_doc_ptr_get(doc, "/device/2")), 4);
    assert_int_equal(yyjson_get_uint(yyjson_doc_ptr_get(doc, "/generated/2")), 7);
    assert_int_equal(yyjson_get_uint(yyjson_doc_ptr_get(doc, "/device/3")), 0);
    yyjson_doc_free(doc);
    doc = write_at(BEGIN_NS + UINT64_C(99999) * NS_PER_S, 200000); /* never more than an hour */
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/t")), HISTORY_STEPS);
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/requests")), HISTORY_STEPS);
    yyjson_doc_free(doc);
}

TEST_SUITE(TEST(test_sums_against_a_list), TEST(test_a_long_silence), TEST(test_written))

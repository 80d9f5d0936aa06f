/* monitor_test.c: counters, the last hour against a plain list, the last requests, and sums that
 * survive: a good end, a kill, a damaged file, a disk that fails. */
#include "admin/monitor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>

#include "base/clock.h"
#include "base/file.h"
#include "lab/file_fault.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/mem.h"
#include "support/test.h"

/* ---- counters ---- */

static const struct tally sample = {
    .requests = 3,
    .prompt = 1000,
    .device = 100,
    .ram = 200,
    .ssd = 300,
    .remote = 0,
    .computed = 400,
    .generated = 77,
    .prefill_ns = 4 * NS_PER_S,
    .decode_ns = 5,
    .restore_ns = NS_PER_S,
    .twice = 6,
    .prefilled = 400,
    .drafted = 9,
    .accepted = 8,
    .reused_ns = 6 * NS_PER_S,
};

static void test_sums_and_quotients(void **state)
{
    struct tally sum = {0};
    struct gen_usage tokens = {.prompt = 10,
                               .device = 1,
                               .ram = 2,
                               .ssd = 3,
                               .remote = 0,
                               .computed = 4,
                               .generated = 5,
                               .twice = 1,
                               .drafted = 7,
                               .accepted = 6};
    struct tally one = tally_of(&tokens);

    (void)state;
    assert_true(tally_efficiency(&sum) == 0 && tally_saved_s(&sum) == 0); /* of nothing */
    tally_add(&sum, &one);
    tally_add(&sum, &one);
    assert_int_equal(sum.prompt, 20);
    assert_int_equal(sum.generated, 10);
    assert_int_equal(sum.twice, 2);
    assert_int_equal(sum.drafted, 14);
    assert_int_equal(sum.accepted, 12);
    assert_true(tally_efficiency(&sum) == 0.6);
    assert_true(tally_efficiency(&sample) == 0.6);
    /* less the second that bringing them took */
    assert_true(tally_saved_s(&sample) == 5.0);
    sum = sample;
    sum.restore_ns = 100 * NS_PER_S;
    assert_true(tally_saved_s(&sum) == 0); /* not below */
    sum.prompt = UINT64_MAX - 5;
    tally_add(&sum, &sample);
    assert_int_equal(sum.prompt, UINT64_MAX);
    assert_int_equal(sum.ram, 400);
}

static void encode(struct buf *bytes)
{
    buf_init(bytes, 65536);
    assert_ok(tally_encode(bytes, &sample, 1794713838));
}

static void test_the_file_gives_back_what_was_written(void **state)
{
    struct tally sum;
    uint64_t since_s;
    struct buf bytes;

    (void)state;
    encode(&bytes);
    assert_ok(tally_decode((struct str){bytes.data, bytes.len}, &sum, &since_s));
    assert_memory_equal(&sum, &sample, sizeof(sum));
    assert_int_equal(since_s, 1794713838);
    buf_fini(&bytes);
}

/* A file of a version that counted less: what it has is read. Without tokens of prefills, those
 * that were computed stand for them. */
static void test_older_files_are_read(void **state)
{
    static const struct {
        uint32_t sums;
        uint64_t prefilled, drafted, reused_ns;
    } versions[] = {{TALLY_prefilled, 400, 0, 6 * NS_PER_S}, /* 600 tokens at 10 ms */
                    {TALLY_drafted, 5, 0, 480 * NS_PER_S},
                    {TALLY_COUNT, 5, 9, 6 * NS_PER_S}};
    struct tally sum, old = sample;
    uint64_t since_s;

    (void)state;
    old.prefilled = 5;
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        struct buf bytes;
        buf_init(&bytes, 65536);
        assert_ok(tally_encode(&bytes, &old, 1));
        size_t len = bytes.len - HASH256_BYTES - 8 * (TALLY_COUNT - versions[i].sums);
        le_put_u32(bytes.data + 12, versions[i].sums);
        struct hash256 hash = hash256_of(bytes.data, len);
        memcpy(bytes.data + len, hash.bytes, HASH256_BYTES);
        assert_ok(tally_decode((struct str){bytes.data, len + HASH256_BYTES}, &sum, &since_s));
        assert_int_equal(sum.generated, 77);
        assert_int_equal(sum.prefilled, versions[i].prefilled);
        assert_int_equal(sum.drafted, versions[i].drafted);
        assert_int_equal(sum.reused_ns, versions[i].reused_ns);
        buf_fini(&bytes);
    }
}

/* No bit can change unnoticed, and nothing behind the end is read. */
static void test_every_damage_is_noticed(void **state)
{
    struct tally sum;
    uint64_t since_s;
    struct buf bytes;

    (void)state;
    encode(&bytes);
    for (size_t len = 0; len < bytes.len; len++)
        assert_err(tally_decode((struct str){bytes.data, len}, &sum, &since_s), ERR_CORRUPT);
    for (size_t bit = 0; bit < 8 * bytes.len; bit++) {
        bytes.data[bit / 8] ^= (char)(1 << bit % 8);
        assert_err(tally_decode((struct str){bytes.data, bytes.len}, &sum, &since_s), ERR_CORRUPT);
        bytes.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    buf_append_char(&bytes, 'x');
    assert_err(tally_decode((struct str){bytes.data, bytes.len}, &sum, &since_s), ERR_CORRUPT);
    buf_fini(&bytes);
}

static void test_a_file_without_memory(void **state)
{
    struct fault fault = {0};

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct buf bytes;
        enum err err;

        buf_init(&bytes, 65536);
        err = tally_encode(&bytes, &sample, 1);
        assert_int_equal(err == ERR_OK, fault.fired == 0);
        buf_fini(&bytes);
    }
    mem_set_fault(NULL);
}

/* ---- the last hour ---- */

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
        uint32_t ram_tokens = (uint32_t)(rand() % 100);
        struct tally sum;
        uint32_t window = windows[(size_t)rand() % COUNT_OF(windows)];

        now_s += (uint64_t)(rand() % 4 == 0 ? rand() % 40 : rand() % 3);
        if (rand() % 50 == 0)
            now_s += (uint64_t)(rand() % 1500);
        if (now_s >= SECONDS)
            break;
        ram[now_s] += ram_tokens;
        struct tally tokens =
            tally_of(&(struct gen_usage){.prompt = 9, .ram = ram_tokens, .computed = 1});

        tokens.requests = 1;
        history_add(&history, BEGIN_NS + now_s * NS_PER_S, &tokens);
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
    struct tally tokens = {.prompt = 5, .ssd = 4, .computed = 1};
    struct tally sum;

    (void)state;
    history_init(&history, BEGIN_NS);
    history_add(&history, BEGIN_NS, &tokens);
    history_sum(&history, BEGIN_NS + UINT64_C(400000) * NS_PER_S, 3600, &sum);
    assert_int_equal(sum.ssd, 0);
    history_add(&history, BEGIN_NS + UINT64_C(400001) * NS_PER_S, &tokens);
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

static void test_the_hour_is_written(void **state)
{
    struct tally tokens = {.prompt = 5, .device = 4, .computed = 1, .generated = 7};
    yyjson_doc *doc;

    (void)state;
    history_init(&history, BEGIN_NS);
    history_add(&history, BEGIN_NS + 12 * NS_PER_S, &tokens);
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

/* ---- the last requests ---- */

static yyjson_doc *written(const struct recent *recent)
{
    struct buf body;
    struct json json;
    yyjson_doc *doc;

    buf_init(&body, 1 << 20);
    json = json_to(&body);
    recent_write(&json, recent, true);
    doc = yyjson_read(buf_str(&body), body.len, 0);
    assert_non_null(doc);
    buf_fini(&body);
    return doc;
}

static void test_the_newest_first(void **state)
{
    static struct recent recent;
    yyjson_doc *doc = written(&recent);

    (void)state;
    assert_int_equal(yyjson_arr_size(yyjson_doc_get_root(doc)), 0);
    yyjson_doc_free(doc);
    for (unsigned i = 0; i < RECENT_MAX + 10; i++) {
        struct recent_call one = {
            .endpoint = "chat", .usage = {.prompt = i}, .role = ROLE_NONE, .status = 200};

        snprintf(one.id, sizeof(one.id), "req_%u", i);
        recent_add(&recent, &one);
    }
    doc = written(&recent);
    assert_int_equal(yyjson_arr_size(yyjson_doc_get_root(doc)), RECENT_MAX);
    assert_string_equal(yyjson_get_str(yyjson_doc_ptr_get(doc, "/0/id")), "req_73");
    assert_string_equal(yyjson_get_str(yyjson_doc_ptr_get(doc, "/63/id")), "req_10");
    assert_true(yyjson_is_null(yyjson_doc_ptr_get(doc, "/0/message")));
    yyjson_doc_free(doc);
}

static void test_every_field(void **state)
{
    static struct recent recent;
    struct recent_call one = {
        .id = "req_1",
        .model = "m",
        .tenant = "alice",
        .client = "curl/8",
        .words = "Hello there",
        .endpoint = "chat",
        .when_s = 5,
        .usage = {.prompt = 10,
                  .ram = 6,
                  .computed = 4,
                  .generated = 3,
                  .reason = HEARTH_REASON_DIVERGED,
                  .match = HEARTH_MATCH_LCP,
                  .first_difference = 6},
        .role = ROLE_USER,
        .message = 3,
        .ttft_s = 0.5,
        .seconds = 1.5,
        .status = 200,
    };
    yyjson_doc *doc;

    (void)state;
    recent_add(&recent, &one);
    doc = written(&recent);
    assert_string_equal(yyjson_get_str(yyjson_doc_ptr_get(doc, "/0/reason")), "diverged");
    assert_string_equal(yyjson_get_str(yyjson_doc_ptr_get(doc, "/0/match")), "lcp");
    assert_string_equal(yyjson_get_str(yyjson_doc_ptr_get(doc, "/0/message")), "user[3]");
    assert_string_equal(yyjson_get_str(yyjson_doc_ptr_get(doc, "/0/tenant")), "alice");
    assert_string_equal(yyjson_get_str(yyjson_doc_ptr_get(doc, "/0/client")), "curl/8");
    assert_string_equal(yyjson_get_str(yyjson_doc_ptr_get(doc, "/0/words")), "Hello there");
    assert_int_equal(yyjson_get_uint(yyjson_doc_ptr_get(doc, "/0/tokens/ram")), 6);
    assert_int_equal(yyjson_get_uint(yyjson_doc_ptr_get(doc, "/0/first_difference")), 6);
    yyjson_doc_free(doc);
}

/* ---- all of it ---- */

static const struct gen_usage usage = {.prompt = 10, .ram = 7, .computed = 3, .generated = 2};
static const struct recent_call call = {.id = "req_1", .endpoint = "chat", .role = ROLE_NONE};

static int open_dir(void)
{
    int dir = FILE_NO;

    assert_ok(file_open_dir(file_sys_real(), test_dir(), true, &dir, NULL));
    return dir;
}

static struct monitor *open_monitor(const struct file_sys *fs, int dir)
{
    struct monitor_options options = {.fs = fs, .dir = dir, .clock = clock_real()};
    struct monitor *monitor;

    assert_ok(monitor_create(&monitor, &options, NULL));
    return monitor;
}

static void count_one(struct monitor *monitor)
{
    monitor_count_tokens(monitor, &usage);
    monitor_count_call(monitor, &call);
}

static struct monitor_view view_of(struct monitor *monitor)
{
    struct monitor_view view;

    monitor_get_view(monitor, &view);
    return view;
}

static void test_sums_survive_a_good_end(void **state)
{
    int dir = open_dir();
    uint64_t since_s = 0;

    (void)state;
    (void)!file_remove_at(file_sys_real(), dir, "stats", false, NULL);
    for (uint64_t run = 0; run < 3; run++) {
        struct monitor *monitor = open_monitor(file_sys_real(), dir);
        struct monitor_view view = view_of(monitor);

        assert_int_equal(view.session.requests, 0);
        assert_int_equal(view.all.requests, 2 * run);
        assert_int_equal(view.all.ram, 14 * run);
        since_s = run == 0 ? view.since_s : since_s;
        assert_int_equal(view.since_s, since_s);
        count_one(monitor);
        count_one(monitor);
        assert_int_equal(view_of(monitor).all.requests, 2 * run + 2);
        monitor_destroy(&monitor);
    }
    file_close(file_sys_real(), &dir);
}

/* What was kept last is there, whatever happens after it: here the process that counted is never
 * ended in order. */
static void test_a_kill_loses_what_was_not_kept(void **state)
{
    int dir = open_dir();
    struct monitor *killed = open_monitor(file_sys_real(), dir), *next;
    uint64_t before = view_of(killed).all.requests;

    (void)state;
    count_one(killed);
    assert_ok(monitor_save(killed, NULL));
    count_one(killed);
    next = open_monitor(file_sys_real(), dir);
    assert_int_equal(view_of(next).all.requests, before + 1);
    monitor_destroy(&next);
    monitor_destroy(&killed);
    file_close(file_sys_real(), &dir);
}

static void test_a_damaged_file_begins_anew(void **state)
{
    static const char *const contents[] = {
        "", "x", "HEARTHTL and then something else that is none of ours at all, but longer"};
    int dir = open_dir();

    (void)state;
    for (size_t i = 0; i < COUNT_OF(contents); i++) {
        struct monitor *monitor;

        assert_ok(file_replace(file_sys_real(), dir, "stats", contents[i], strlen(contents[i]),
                               0600, NULL));
        monitor = open_monitor(file_sys_real(), dir);
        assert_int_equal(view_of(monitor).all.requests, 0);
        count_one(monitor);
        monitor_destroy(&monitor);
        monitor = open_monitor(file_sys_real(), dir);
        assert_int_equal(view_of(monitor).all.requests, 1);
        monitor_destroy(&monitor);
    }
    file_close(file_sys_real(), &dir);
}

/* Each call of the file system fails once: the old sums or the new ones, never others. */
static void test_every_call_of_the_disk_may_fail(void **state)
{
    int dir = open_dir();
    struct file_fault fault;
    struct monitor *monitor;
    uint64_t before;

    (void)state;
    file_fault_init(&fault, file_sys_real());
    fault.errnum = EIO;
    monitor = open_monitor(&fault.sys, dir);
    before = view_of(monitor).all.requests;
    FAULT_LOOP (&fault.when) {
        struct monitor *after;
        uint64_t now;
        enum err err;

        count_one(monitor);
        err = monitor_save(monitor, NULL);
        after = open_monitor(file_sys_real(), dir);
        now = view_of(after).all.requests;
        monitor_destroy(&after);
        assert_true(now == before || now == view_of(monitor).all.requests);
        assert_true(err != ERR_OK || now == view_of(monitor).all.requests);
        before = now;
    }
    assert_int_equal(before, view_of(monitor).all.requests);
    monitor_destroy(&monitor);
    file_close(file_sys_real(), &dir);
}

static void add_times(struct tally *tally, void *arg)
{
    tally->prefill_ns = *(uint64_t *)arg;
    tally->prefilled = 3;
    tally->reused_ns = 7 * NS_PER_S;
}

static void test_times_of_engines_count(void **state)
{
    uint64_t prefill_ns = 3 * NS_PER_S;
    struct monitor_options options = {
        .times = add_times, .arg = &prefill_ns, .clock = clock_real()};
    struct monitor_view view;
    struct monitor *monitor;

    (void)state;
    assert_ok(monitor_create(&monitor, &options, NULL));
    count_one(monitor);
    view = view_of(monitor);
    assert_int_equal(view.session.prefill_ns, 3 * NS_PER_S);
    assert_true(tally_saved_s(&view.session) == 7);
    assert_ok(monitor_save(monitor, NULL)); /* nowhere to keep it: no failure */
    monitor_destroy(&monitor);
}

static void test_no_memory(void **state)
{
    struct fault fault = {0};

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct monitor_options options = {.clock = clock_real()};
        struct monitor *monitor;

        if (monitor_create(&monitor, &options, NULL) == ERR_OK)
            count_one(monitor);
        monitor_destroy(&monitor);
    }
    mem_set_fault(NULL);
}

TEST_SUITE(TEST(test_sums_and_quotients), TEST(test_the_file_gives_back_what_was_written),
           TEST(test_older_files_are_read), TEST(test_every_damage_is_noticed),
           TEST(test_a_file_without_memory), TEST(test_sums_against_a_list),
           TEST(test_a_long_silence), TEST(test_the_hour_is_written), TEST(test_the_newest_first),
           TEST(test_every_field), TEST(test_sums_survive_a_good_end),
           TEST(test_a_kill_loses_what_was_not_kept), TEST(test_a_damaged_file_begins_anew),
           TEST(test_every_call_of_the_disk_may_fail), TEST(test_times_of_engines_count),
           TEST(test_no_memory))

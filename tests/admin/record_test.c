#include "admin/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "lab/file_fault.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/mem.h"
#include "support/api_kit.h"
#include "support/test.h"
#include "lab/trace_read.h"
#include "lab/trace.h"

enum { TOKENS = 100, BLOCK = 16, MANY = 50, THREADS = 4 };

static const struct hash256 key = {.bytes = "an installation"},
                            other_key = {.bytes = "another one"};
static token_id tokens[TOKENS];
static char path[512];

static void begin_file(const char *name)
{
    snprintf(path, sizeof(path), "%s/%s", test_dir(), name);
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = 7001 + i;
}

static struct record_options options_of(const struct file_sys *fs)
{
    return (struct record_options){.fs = fs, .path = path, .key = &key, .bytes_max = 1 << 20};
}

static struct record *open_with(const struct record_options *options)
{
    struct record *record = NULL;
    struct errinfo info = {0};

    if (record_open(&record, options, &info) != ERR_OK)
        fail_msg("%s", info.text);
    return record;
}

static struct record *open_plain(void)
{
    struct record_options options = options_of(file_sys_real());

    return open_with(&options);
}

struct asked {
    uint32_t count;
    const char *model, *tenant, *salt;
};

static void add(struct record *record, uint64_t at_us, struct asked asked)
{
    const struct gen_usage usage = {
        .prompt = asked.count, .ram = asked.count - 1, .computed = 1, .generated = 3};

    record_add(record, &(struct record_entry){
                           .at_wall_ns = at_us * 1000,
                           .model = asked.model ? asked.model : "m",
                           .tenant = asked.tenant ? asked.tenant : "",
                           .salt = str_from(asked.salt),
                           .tokens = tokens,
                           .anchor = 20,
                           .usage = &usage,
                       });
}

static char *content(size_t *len)
{
    char *data;

    assert_ok(file_read_all(file_sys_real(), AT_FDCWD, path, 1 << 20, &data, len, NULL));
    return data;
}

/* The file as replay reads it. */
static struct trace read_back(void)
{
    const struct read_options options = {.fs = file_sys_real()};
    enum read_format format;
    struct errinfo info = {0};
    struct trace trace;

    trace_init(&trace);
    if (trace_read(&trace, path, &options, &format, &info) != ERR_OK)
        fail_msg("%s", info.text);
    assert_int_equal(format, READ_FORMAT_RECORD);
    return trace;
}

static void test_what_is_written_is_what_replay_reads(void **state)
{
    struct record_stats stats;
    struct record *record;

    (void)state;
    begin_file("plain");
    record = open_plain();
    add(record, 5, (struct asked){.count = 100});
    tokens[40] = 1;
    add(record, 9, (struct asked){.count = 64});
    record_close(&record);
    assert_null(record);

    struct trace trace = read_back();
    assert_int_equal(trace.block_tokens, BLOCK);
    assert_int_equal(trace.requests_count, 2);
    assert_int_equal(trace.requests[0].at_ns, 5000);
    assert_int_equal(trace.requests[0].tokens, 100);
    assert_int_equal(trace.requests[0].generated, 3);
    assert_int_equal(trace.requests[0].anchor, 20);
    assert_int_equal(trace.requests[0].blocks, 6);
    assert_int_equal(trace.requests[1].blocks, 4);
    for (uint32_t i = 0; i < 4; i++) /* the third block differs, and all behind it do */
        assert_int_equal(trace_id(&trace, &trace.requests[0], i) ==
                             trace_id(&trace, &trace.requests[1], i),
                         i < 2);
    assert_int_equal(trace.recorded.requests, 2);
    assert_int_equal(trace.recorded.tokens, 164);
    assert_int_equal(trace.recorded.tokens_hit, 162);
    trace_fini(&trace);

    record = open_plain(); /* stats begin anew, the file does not */
    record_get_stats(record, &stats);
    assert_int_equal(stats.requests, 0);
    assert_true(stats.bytes > 200);
    record_close(&record);
}

/* Blocks are shared exactly where the cache could share them. */
static void test_i100_tenants_and_models_have_no_hash_in_common(void **state)
{
    struct record *record;

    (void)state;
    begin_file("tenants");
    record = open_plain();
    add(record, 1, (struct asked){.count = 16, .tenant = "alice"});
    add(record, 2, (struct asked){.count = 16, .tenant = "bob"});
    add(record, 3, (struct asked){.count = 16, .tenant = "alice", .salt = "s"});
    add(record, 4, (struct asked){.count = 16, .tenant = "alice", .model = "n"});
    add(record, 5, (struct asked){.count = 16, .tenant = "alice"});
    record_close(&record);
    struct trace trace = read_back();
    assert_int_equal(trace.requests_count, 5);
    assert_int_equal(trace.ids_end, 4);
    assert_int_equal(trace_id(&trace, &trace.requests[0], 0),
                     trace_id(&trace, &trace.requests[4], 0));
    trace_fini(&trace);
}

/* Neither names nor tokens are in it, and hashes are those of this installation alone. */
static void test_nothing_can_be_guessed(void **state)
{
    struct record_options options;
    struct record *record;
    size_t len;

    (void)state;
    begin_file("secret");
    record = open_plain();
    add(record, 1, (struct asked){.count = 16, .tenant = "alice"});
    record_close(&record);
    char *first = content(&len);
    assert_null(strstr(first, "alice"));
    assert_null(strstr(first, "7001"));

    begin_file("secret-other");
    options = options_of(file_sys_real());
    options.key = &other_key;
    record = open_with(&options);
    add(record, 1, (struct asked){.count = 16, .tenant = "alice"});
    record_close(&record);
    char *second = content(&len);
    const char *blocks = strstr(first, "\"blocks\":\""), *tenant = strstr(first, "\"tenant\":\"");
    assert_null(strstr(second, blocks));
    assert_memory_not_equal(strstr(second, "\"tenant\":\""), tenant, strlen("\"tenant\":\"") + 16);
    mem_free(first);
    mem_free(second);
}

static void append(const char *text)
{
    struct stat st;
    int fd;

    assert_ok(file_open_at(file_sys_real(), AT_FDCWD, path, O_RDWR | O_CREAT, 0600, &fd, NULL));
    assert_ok(file_stat(file_sys_real(), fd, &st, NULL));
    assert_ok(file_write_at(file_sys_real(), fd, text, strlen(text), (uint64_t)st.st_size, NULL));
    file_close(file_sys_real(), &fd);
}

/* As after kill -9 in the middle of a line, be it short or longer than what is read at once. */
static void test_a_torn_line_is_cut_off(void **state)
{
    static char torn[200000];

    (void)state;
    memset(torn, 'x', sizeof(torn) - 1);
    for (int i = 0; i < 2; i++) {
        begin_file(i == 0 ? "torn" : "torn-long");
        struct record *record = open_plain();
        add(record, 1, (struct asked){.count = 16});
        record_close(&record);
        append(i == 0 ? "{\"t_us\":" : torn);
        record = open_plain();
        add(record, 2, (struct asked){.count = 32});
        record_close(&record);
        struct trace trace = read_back();
        assert_int_equal(trace.requests_count, 2);
        assert_int_equal(trace_id(&trace, &trace.requests[0], 0),
                         trace_id(&trace, &trace.requests[1], 0));
        trace_fini(&trace);
    }
}

static void expect_refused(const struct record_options *options, enum err expected)
{
    struct record *record = NULL;
    struct errinfo info = {0};
    size_t before_len, after_len;
    char *before = content(&before_len);

    assert_err(record_open(&record, options, &info), expected);
    assert_null(record);
    char *after = content(&after_len);
    assert_int_equal(after_len, before_len);
    assert_memory_equal(after, before, before_len);
    mem_free(before);
    mem_free(after);
}

static void test_what_is_no_record_of_ours_is_left_alone(void **state)
{
    struct record_options options;

    (void)state;
    begin_file("letter");
    append("Dear Sir or Madam, this is a letter of more than a hundred bytes, which nobody wants "
           "to lose to a server's log.\n");
    options = options_of(file_sys_real());
    expect_refused(&options, ERR_INVALID);

    begin_file("ours");
    struct record *record = open_plain();
    expect_refused(&options, ERR_BUSY);
    record_close(&record);
    options.block_tokens = 32;
    expect_refused(&options, ERR_INVALID);
    options.block_tokens = 0;
    options.key = &other_key;
    expect_refused(&options, ERR_INVALID);
}

static void expect_whole_lines(size_t bytes_max)
{
    size_t len;
    char *data = content(&len);

    assert_true(len > 0 && len <= bytes_max);
    assert_int_equal(data[len - 1], '\n');
    mem_free(data);
    struct trace trace = read_back();
    trace_fini(&trace);
}

static void test_i108_the_file_has_a_size(void **state)
{
    struct record_options options;

    (void)state;
    begin_file("full");
    options = options_of(file_sys_real());
    options.bytes_max = 2000;
    struct record *record = open_with(&options);
    for (uint64_t i = 0; i < MANY; i++)
        add(record, i, (struct asked){.count = 16});
    record_close(&record);
    expect_whole_lines(2000);
    record = open_with(&options); /* the next start finds it full, and says so again */
    add(record, 100, (struct asked){.count = 16});
    add(record, 100, (struct asked){.count = 16});
    record_close(&record);
    expect_whole_lines(2000);
    struct trace trace = read_back();
    assert_true(trace.requests_count > 2 && trace.requests_count < MANY);
    trace_fini(&trace);
}

/* The n-th call of the file fails, or a write stops half way as on a full disk: the file ends with
 * a whole line all the same. */
static void test_i94_a_full_disk_ends_the_record_not_the_server(void **state)
{
    const enum file_fault_kind kinds[] = {FILE_FAULT_ERROR, FILE_FAULT_TORN, FILE_FAULT_SHORT};

    (void)state;
    for (size_t kind = 0; kind < COUNT_OF(kinds); kind++) {
        struct file_fault fault;
        file_fault_init(&fault, file_sys_real());
        fault.kind = kinds[kind];
        fault.errnum = ENOSPC;
        fault.calls = UINT64_C(1) << FILE_CALL_PWRITE;
        char name[32];
        int run = 0;
        FAULT_LOOP (&fault.when) {
            snprintf(name, sizeof(name), "enospc-%zu-%d", kind, run++);
            begin_file(name);
            struct record_options options = options_of(&fault.sys);
            struct record *record = NULL;
            if (record_open(&record, &options, NULL) != ERR_OK)
                continue; /* not even the head could be written: said at the start */
            for (uint64_t i = 0; i < 5; i++)
                add(record, i, (struct asked){.count = 40});
            record_close(&record);
            expect_whole_lines(1 << 20);
        }
        assert_true(run > 5);
    }
}

/* What does not fit into the queue is missing, and the file says how many are. */
static void test_i98_what_is_lost_is_counted(void **state)
{
    struct record_options options;
    struct record_stats stats;

    (void)state;
    begin_file("lost");
    options = options_of(file_sys_real());
    options.queue_bytes_max = 600; /* room for 16 tokens, not for 100 */
    struct record *record = open_with(&options);
    add(record, 1, (struct asked){.count = 100});
    add(record, 2, (struct asked){.count = 100});
    add(record, 3, (struct asked){.count = 16});
    record_get_stats(record, &stats);
    assert_int_equal(stats.lost, 2);
    record_close(&record);
    struct trace trace = read_back();
    assert_int_equal(trace.requests_count, 1);
    assert_int_equal(trace.recorded.lost, 2);
    trace_fini(&trace);
}

static void add_many(void *arg)
{
    for (uint64_t i = 0; i < MANY; i++)
        add(arg, i, (struct asked){.count = 32});
}

static void test_many_threads(void **state)
{
    struct thread threads[THREADS] = {0};
    struct record_stats stats;

    (void)state;
    begin_file("threads");
    struct record *record = open_plain();
    for (int i = 0; i < THREADS; i++)
        assert_ok(thread_start(&threads[i], "adds", add_many, record, NULL));
    for (int i = 0; i < THREADS; i++)
        thread_join(&threads[i]);
    record_get_stats(record, &stats);
    record_close(&record);
    struct trace trace = read_back();
    assert_int_equal(trace.requests_count + stats.lost, THREADS * MANY);
    assert_int_equal(stats.lost, 0);
    trace_fini(&trace);
}

/* Each prompt of a request is a line: one has the tokens of the other only where they are equal. */
static void test_a_request_with_several_prompts(void **state)
{
    static const char prefix[] = "sixteen tokens or more that two prompts begin with,";
    char body[512];
    struct api_kit kit;

    (void)state;
    begin_file("several");
    struct record *record = open_plain();
    api_kit_open(&kit, &(struct api_kit_options){.admin.record = record});
    snprintf(body, sizeof(body),
             "{\"prompt\":[\"%s and one\",\"%s and two, longer\"],\"n\":2,\"max_tokens\":3}",
             prefix, prefix);
    yyjson_doc *doc = api_kit_post(&kit, "/v1/completions", body, 200);
    uint64_t prompts = json_number_at(doc, "/usage/prompt_tokens"),
             generated = json_number_at(doc, "/usage/completion_tokens");
    yyjson_doc_free(doc);
    api_kit_close(&kit);
    record_close(&record);

    struct trace trace = read_back();
    assert_int_equal(trace.requests_count, 2);
    const struct trace_request *first = &trace.requests[0], *second = &trace.requests[1];
    assert_int_equal(first->tokens + second->tokens, prompts);
    assert_int_equal(first->generated + second->generated, generated);
    assert_true(first->tokens < second->tokens);
    assert_int_equal(trace_id(&trace, first, 0), trace_id(&trace, second, 0));
    assert_int_not_equal(trace_id(&trace, first, first->blocks - 1),
                         trace_id(&trace, second, second->blocks - 1));
    trace_fini(&trace);
}

TEST_SUITE(TEST(test_what_is_written_is_what_replay_reads),
           TEST(test_i100_tenants_and_models_have_no_hash_in_common),
           TEST(test_nothing_can_be_guessed), TEST(test_a_torn_line_is_cut_off),
           TEST(test_what_is_no_record_of_ours_is_left_alone), TEST(test_i108_the_file_has_a_size),
           TEST(test_i94_a_full_disk_ends_the_record_not_the_server),
           TEST(test_i98_what_is_lost_is_counted), TEST(test_many_threads),
           TEST(test_a_request_with_several_prompts))

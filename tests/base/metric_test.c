#include "base/metric.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "support/test.h"

enum { M_HITS, M_QUEUE, M_LOOKUP, M_READ };

static const char *const tiers[] = {"device", "ram", "ssd", NULL};
static const double small_buckets[] = {0.001, 0.5, 2, INFINITY};
static const struct metric_desc table[] = {
    [M_HITS] = {"hearth_hit_tokens_total", METRIC_COUNTER, "tokens", "Tokens served from a tier.",
                .label = "tier", .values = tiers},
    [M_QUEUE] = {"hearth_queue_length", METRIC_GAUGE, NULL, .help = "Waiting requests."},
    [M_LOOKUP] = {"hearth_lookup_seconds", METRIC_HISTOGRAM, "seconds", "Time of a lookup.",
                  .buckets = small_buckets},
    [M_READ] = {"hearth_read_seconds", METRIC_HISTOGRAM, "seconds", "Time of a read.",
                .label = "tier", .values = tiers, .buckets = small_buckets},
};

/* The text of a set, freed by the next call. */
static const char *render(const struct metric_set *set)
{
    static struct buf out;

    buf_fini(&out);
    buf_init(&out, 100000);
    assert_ok(metric_render(set, &out));
    return buf_str(&out);
}

static void test_text_is_what_prometheus_reads(void **state)
{
    struct metric_set *set = metric_set_create(table, 3);

    (void)state;
    metric_add(set, M_HITS, 1, 27540);
    metric_add(set, M_HITS, 1, 1);
    metric_add(set, M_HITS, 2, 0);
    metric_put(set, M_QUEUE, 0, 7);
    metric_add(set, M_QUEUE, 0, -2.5);
    metric_observe(set, M_LOOKUP, 0, 0.0005);
    metric_observe(set, M_LOOKUP, 0, 0.5); /* a bound belongs to its own bucket */
    metric_observe(set, M_LOOKUP, 0, 0.75);
    metric_observe(set, M_LOOKUP, 0, 1e9);
    assert_string_equal(render(set), "# HELP hearth_hit_tokens_total Tokens served from a tier.\n"
                                     "# TYPE hearth_hit_tokens_total counter\n"
                                     "hearth_hit_tokens_total{tier=\"device\"} 0\n"
                                     "hearth_hit_tokens_total{tier=\"ram\"} 27541\n"
                                     "hearth_hit_tokens_total{tier=\"ssd\"} 0\n"
                                     "# HELP hearth_queue_length Waiting requests.\n"
                                     "# TYPE hearth_queue_length gauge\n"
                                     "hearth_queue_length 4.5\n"
                                     "# HELP hearth_lookup_seconds Time of a lookup.\n"
                                     "# TYPE hearth_lookup_seconds histogram\n"
                                     "hearth_lookup_seconds_bucket{le=\"0.001\"} 1\n"
                                     "hearth_lookup_seconds_bucket{le=\"0.5\"} 2\n"
                                     "hearth_lookup_seconds_bucket{le=\"2\"} 3\n"
                                     "hearth_lookup_seconds_bucket{le=\"+Inf\"} 4\n"
                                     "hearth_lookup_seconds_sum 1000000001.2505\n"
                                     "hearth_lookup_seconds_count 4\n");
    metric_set_destroy(&set);
    assert_null(set);
    metric_set_destroy(&set);
}

static void test_labels_of_a_histogram_are_apart(void **state)
{
    struct metric_set *set = metric_set_create(table, COUNT_OF(table));

    (void)state;
    metric_observe(set, M_READ, 0, 1);
    metric_observe(set, M_READ, 2, 3);
    metric_observe(set, M_READ, 2, INFINITY);
    assert_int_equal(metric_count(set, M_READ, 0), 1);
    assert_int_equal(metric_count(set, M_READ, 1), 0);
    assert_int_equal(metric_count(set, M_READ, 2), 2);
    assert_true(metric_value(set, M_READ, 0) == 1);
    assert_true(metric_value(set, M_READ, 1) == 0);
    assert_int_equal(metric_count(set, M_LOOKUP, 0), 0);
    const char *text = render(set);
    assert_non_null(strstr(text, "hearth_read_seconds_bucket{tier=\"device\",le=\"2\"} 1\n"));
    assert_non_null(strstr(text, "hearth_read_seconds_bucket{tier=\"ssd\",le=\"2\"} 0\n"));
    assert_non_null(strstr(text, "hearth_read_seconds_bucket{tier=\"ssd\",le=\"+Inf\"} 2\n"));
    assert_non_null(strstr(text, "hearth_read_seconds_sum{tier=\"ssd\"} +Inf\n"));
    assert_non_null(strstr(text, "hearth_read_seconds_count{tier=\"ram\"} 0\n"));
    metric_set_destroy(&set);
}

/* The text that fn appends to `out`; freed by the next call. */
static struct buf other;

static struct buf *other_empty(void)
{
    buf_fini(&other);
    buf_init(&other, 100000);
    return &other;
}

static void test_one_metric_under_another_name(void **state)
{
    struct metric_set *set = metric_set_create(table, COUNT_OF(table));
    struct metric_alias alias = {"other:name", "Of somebody else.", "model=\"m\""};

    (void)state;
    metric_add(set, M_HITS, 0, 3);
    metric_add(set, M_HITS, 2, 4);
    assert_ok(metric_render_as(set, M_HITS, METRIC_ALL, &alias, other_empty()));
    assert_string_equal(buf_str(&other),
                        "# HELP other:name Of somebody else.\n# TYPE other:name counter\n"
                        "other:name{model=\"m\"} 7\n");
    assert_ok(metric_render_as(set, M_HITS, 2, &alias, other_empty()));
    assert_non_null(strstr(buf_str(&other), "\nother:name{model=\"m\"} 4\n"));
    metric_observe(set, M_READ, 0, 1);
    metric_observe(set, M_READ, 2, 0.25);
    assert_ok(metric_render_as(set, M_READ, METRIC_ALL, &alias, other_empty()));
    assert_non_null(strstr(buf_str(&other), "# TYPE other:name histogram\n"));
    assert_non_null(strstr(buf_str(&other), "\nother:name_bucket{model=\"m\",le=\"0.5\"} 1\n"));
    assert_non_null(strstr(buf_str(&other), "\nother:name_bucket{model=\"m\",le=\"+Inf\"} 2\n"));
    assert_non_null(strstr(buf_str(&other), "\nother:name_sum{model=\"m\"} 1.25\n"));
    metric_set_destroy(&set);
}

static void test_labels_as_text(void **state)
{
    struct metric_alias alias = {"info", "I.", ""};
    struct buf labels;

    (void)state;
    buf_init(&labels, 1000);
    metric_append_label(&labels, "a", "1\"2");
    metric_append_label(&labels, "b", "x\n");
    alias.labels = buf_str(&labels);
    assert_ok(metric_render_number(&alias, METRIC_GAUGE, 1, other_empty()));
    assert_non_null(strstr(buf_str(&other), "\ninfo{a=\"1\\\"2\",b=\"x\\n\"} 1\n"));
    buf_fini(&labels);
}

/* Those of two that were added up are those of one that saw everything. */
static void test_latencies_add_up(void **state)
{
    static const double seconds[] = {0, 1e-4, 2e-4, 0.3, 1, 99, 101, 5000};
    struct metric_latency one = {0}, two = {0}, all = {0};
    struct metric_alias alias = {"t_seconds", "T.", ""};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(seconds); i++) {
        metric_latency_observe(i % 2 ? &one : &two, seconds[i]);
        metric_latency_observe(&all, seconds[i]);
    }
    metric_latency_add(&one, &two);
    assert_memory_equal(one.counts, all.counts, sizeof(all.counts));
    assert_true(fabs(one.sum - all.sum) < 1e-9);
    assert_int_equal(all.counts[0], 2);
    assert_int_equal(all.counts[METRIC_LATENCY_BUCKETS - 1], 2);
    assert_ok(metric_latency_render(&all, &alias, other_empty()));
    assert_non_null(
        strstr(buf_str(&other), "# TYPE t_seconds histogram\nt_seconds_bucket{le=\"0.0001\"} 2\n"));
    assert_non_null(strstr(buf_str(&other), "\nt_seconds_bucket{le=\"100\"} 6\n"));
    assert_non_null(strstr(buf_str(&other), "\nt_seconds_count 8\n"));
    buf_fini(&other);
}

static void test_help_and_labels_are_escaped(void **state)
{
    static const char *const odd[] = {"a\"b", "c\\d", "e\nf", NULL};
    static const struct metric_desc desc = {"x_total",    METRIC_COUNTER,
                                            NULL,         "One \"line\",\nback\\slash.",
                                            .label = "l", .values = odd};
    struct metric_set *set = metric_set_create(&desc, 1);

    (void)state;
    assert_string_equal(render(set), "# HELP x_total One \"line\",\\nback\\\\slash.\n"
                                     "# TYPE x_total counter\n"
                                     "x_total{l=\"a\\\"b\"} 0\n"
                                     "x_total{l=\"c\\\\d\"} 0\n"
                                     "x_total{l=\"e\\nf\"} 0\n");
    metric_set_destroy(&set);
}

static void expect_number(double v, const char *expected)
{
    static const struct metric_desc desc = {"g", METRIC_GAUGE, NULL, .help = "G."};
    struct metric_set *set = metric_set_create(&desc, 1);
    char want[64];

    metric_put(set, 0, 0, v);
    snprintf(want, sizeof(want), "\ng %s\n", expected);
    assert_non_null(strstr(render(set), want));
    metric_set_destroy(&set);
}

static void test_numbers_read_back_exactly(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    expect_number(-0.0, "0");
    expect_number(-3, "-3");
    expect_number(0.1, "0.1");
    expect_number(1.0 / 3, "0.3333333333333333");
    expect_number(123456789012345, "123456789012345");
    expect_number(1e300, "1e+300");
    expect_number(NAN, "NaN");
    expect_number(INFINITY, "+Inf");
    expect_number(-INFINITY, "-Inf");
    static const struct metric_desc desc = {"g", METRIC_GAUGE, NULL, .help = "G."};
    struct metric_set *set = metric_set_create(&desc, 1);
    for (int i = 0; i < 1000; i++) {
        uint64_t bits = test_random(&seed);
        double v;
        memcpy(&v, &bits, sizeof(v));
        if (!isfinite(v))
            continue;
        metric_put(set, 0, 0, v);
        assert_true(metric_value(set, 0, 0) == v);
        assert_true(strtod(strstr(render(set), "\ng ") + 3, NULL) == v);
    }
    metric_set_destroy(&set);
}

/* Against a list of all observations, counted the slow way. */
static void test_histogram_equals_oracle(void **state)
{
    uint64_t seed = test_seed();
    static const struct metric_desc desc = {"t_seconds", METRIC_HISTOGRAM, "seconds", "T.",
                                            .buckets = metric_buckets_latency};
    struct metric_set *set = metric_set_create(&desc, 1);
    static double seen[2000];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(seen); i++) {
        seen[i] = exp((double)test_random_below(&seed, 2400) / 100 - 14);
        metric_observe(set, 0, 0, seen[i]);
    }
    const char *at = strstr(render(set), "t_seconds_bucket");
    for (size_t b = 0;; b++) {
        long below = 0;
        for (size_t i = 0; i < COUNT_OF(seen); i++)
            below += seen[i] <= metric_buckets_latency[b];
        at = strstr(at, "\"} ") + 3;
        assert_int_equal(strtol(at, NULL, 10), below);
        if (isinf(metric_buckets_latency[b]))
            break;
    }
    metric_set_destroy(&set);
}

static void test_ready_made_buckets_span_what_they_say(void **state)
{
    size_t latency = 0, bytes = 0;

    (void)state;
    while (!isinf(metric_buckets_latency[latency]))
        latency++;
    while (!isinf(metric_buckets_bytes[bytes]))
        bytes++;
    assert_true(metric_buckets_latency[0] == 1e-4 && metric_buckets_latency[latency - 1] == 100);
    assert_true(metric_buckets_bytes[0] == 1024);
    assert_true(metric_buckets_bytes[bytes - 1] == 16.0 * 1024 * 1024 * 1024);
}

enum { THREADS = 4, UPDATES = 5000 };

static void *update(void *arg)
{
    struct metric_set *set = arg;

    for (int i = 0; i < UPDATES; i++) {
        metric_add(set, M_HITS, (size_t)i % 3, 1);
        metric_add(set, M_QUEUE, 0, i % 2 ? -1 : 1);
        metric_observe(set, M_LOOKUP, 0, i % 4);
    }
    return NULL;
}

static void test_no_update_is_lost_between_threads(void **state)
{
    struct metric_set *set = metric_set_create(table, COUNT_OF(table));
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, update, set), 0);
    for (int i = 0; i < 20; i++) { /* rendering at the same time keeps its own promise */
        const char *text = render(set);
        const char *inf = strstr(text, "hearth_lookup_seconds_bucket{le=\"+Inf\"} ");
        const char *count = strstr(text, "hearth_lookup_seconds_count ");
        assert_int_equal(strtol(strchr(inf, ' '), NULL, 10), strtol(strchr(count, ' '), NULL, 10));
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    double hits = 0;
    for (size_t tier = 0; tier < 3; tier++)
        hits += metric_value(set, M_HITS, tier);
    assert_true(hits == THREADS * UPDATES);
    assert_true(metric_value(set, M_QUEUE, 0) == 0);
    assert_int_equal(metric_count(set, M_LOOKUP, 0), THREADS * UPDATES);
    assert_true(metric_value(set, M_LOOKUP, 0) == THREADS * UPDATES * 1.5);
    metric_set_destroy(&set);
}

static void test_render_reports_a_full_buffer(void **state)
{
    struct metric_set *set = metric_set_create(table, COUNT_OF(table));
    struct fault fault = {0};
    struct buf out;

    (void)state;
    buf_init(&out, 100);
    assert_err(metric_render(set, &out), ERR_LIMIT);
    buf_fini(&out);
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        buf_init(&out, 100000);
        enum err err = metric_render(set, &out);
        assert_err(err, atomic_load(&fault.fired) ? ERR_NOMEM : ERR_OK);
        buf_fini(&out);
    }
    mem_set_fault(NULL);
    metric_set_destroy(&set);
}

/* True when creating a set of these aborts. */
static bool aborts(const struct metric_desc *descs, size_t count)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit none = {0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL); /* cmocka catches it */
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(1);
        struct metric_set *set = metric_set_create(descs, count);
        metric_set_destroy(&set);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#define ABORTS(...) aborts((const struct metric_desc[]){__VA_ARGS__}, 1)

static void test_invalid_tables_abort(void **state)
{
    static const char *const none[] = {NULL}, *const twice[] = {"a", "b", "a", NULL};
    static const double flat[] = {1, 1, INFINITY}, back[] = {2, 1, INFINITY};
    static const double minus[] = {-INFINITY, 1, INFINITY}, ok[] = {1, INFINITY};
    static const struct metric_desc pair[] = {{"g", METRIC_GAUGE, NULL, .help = "G."},
                                              {"g", METRIC_GAUGE, NULL, .help = "G."}};

    (void)state;
    assert_false(aborts(table, COUNT_OF(table)));
    assert_true(aborts(pair, 2));
    assert_true(ABORTS({NULL, METRIC_GAUGE, NULL, .help = "G."}));
    assert_true(ABORTS({"", METRIC_GAUGE, NULL, .help = "G."}));
    assert_true(ABORTS({"9g", METRIC_GAUGE, NULL, .help = "G."}));
    assert_true(ABORTS({"g-g", METRIC_GAUGE, NULL, .help = "G."}));
    assert_true(ABORTS({"g", METRIC_GAUGE, NULL, .help = NULL}));
    assert_true(ABORTS({"g", METRIC_GAUGE, "bytes", .help = "G."}));
    assert_true(ABORTS({"c", METRIC_COUNTER, NULL, .help = "C."}));
    assert_true(ABORTS({"g_total", METRIC_GAUGE, NULL, .help = "G."}));
    assert_true(ABORTS({"g", METRIC_GAUGE, NULL, "G.", .label = "l"}));
    assert_true(ABORTS({"g", METRIC_GAUGE, NULL, "G.", .values = tiers}));
    assert_true(ABORTS({"g", METRIC_GAUGE, NULL, "G.", .label = "l", .values = none}));
    assert_true(ABORTS({"g", METRIC_GAUGE, NULL, "G.", .label = "l", .values = twice}));
    assert_true(ABORTS({"g", METRIC_GAUGE, NULL, "G.", .label = "a:b", .values = tiers}));
    assert_true(ABORTS({"g", METRIC_GAUGE, NULL, "G.", .label = "__a", .values = tiers}));
    assert_true(ABORTS({"g", METRIC_GAUGE, NULL, "G.", .buckets = ok}));
    assert_true(ABORTS({"h", METRIC_HISTOGRAM, NULL, .help = "H."}));
    assert_true(ABORTS({"h", METRIC_HISTOGRAM, NULL, "H.", .buckets = flat}));
    assert_true(ABORTS({"h", METRIC_HISTOGRAM, NULL, "H.", .buckets = back}));
    assert_true(ABORTS({"h", METRIC_HISTOGRAM, NULL, "H.", .buckets = minus}));
    assert_true(
        ABORTS({"h", METRIC_HISTOGRAM, NULL, "H.", .label = "le", .values = tiers, .buckets = ok}));
}

TEST_SUITE(TEST(test_text_is_what_prometheus_reads), TEST(test_labels_of_a_histogram_are_apart),
           TEST(test_one_metric_under_another_name), TEST(test_labels_as_text),
           TEST(test_latencies_add_up), TEST(test_help_and_labels_are_escaped),
           TEST(test_numbers_read_back_exactly), TEST(test_histogram_equals_oracle),
           TEST(test_ready_made_buckets_span_what_they_say),
           TEST(test_no_update_is_lost_between_threads), TEST(test_render_reports_a_full_buffer),
           TEST(test_invalid_tables_abort))

/* stats_test.c: the numbers of /admin/stats and /admin/history are those that clients were told. */
#include "serve/api_impl.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "cache/cache.h"
#include "support/api_kit.h"
#include "support/test.h"
#include "support/tier_kept.h"

#define CHAT "/v1/chat/completions"
#define BODY                                                 \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello " \
    "there\"}],\"max_tokens\":4,\"temperature\":0}"

static void chat(struct api_kit *kit)
{
    yyjson_doc_free(api_kit_post(kit, CHAT, BODY, 200));
}

static uint64_t sum(yyjson_doc *doc, const char *pointer)
{
    size_t i, count;
    yyjson_val *value;
    uint64_t all = 0;

    yyjson_arr_foreach(yyjson_doc_ptr_get(doc, pointer), i, count, value) all +=
        yyjson_get_uint(value);
    return all;
}

static void test_i99_sums_are_what_clients_were_told(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc, *answer;
    uint64_t prompt, cached;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 4 << 20, .api.version = "1.2.3"});
    chat(&kit);
    answer = api_kit_post(&kit, CHAT, BODY, 200);
    prompt = json_number_at(answer, "/usage/prompt_tokens");
    cached = json_number_at(answer, "/usage/prompt_tokens_details/cached_tokens");
    doc = api_kit_get(&kit, "/admin/stats", 200);
    assert_string_equal(json_at(doc, "/version"), "1.2.3");
    assert_int_equal(json_number_at(doc, "/session/requests"), 2);
    assert_int_equal(json_number_at(doc, "/session/prompt_tokens"), 2 * prompt);
    assert_int_equal(json_number_at(doc, "/session/tokens/ram"), cached);
    assert_int_equal(json_number_at(doc, "/session/tokens/computed"), 2 * prompt - cached);
    assert_int_equal(json_number_at(doc, "/session/generated_tokens"), 8);
    assert_int_equal(json_number_at(doc, "/all_time/requests"), 2);
    assert_true(yyjson_get_num(yyjson_doc_ptr_get(doc, "/session/efficiency")) > 0.4);
    assert_true(yyjson_get_num(yyjson_doc_ptr_get(doc, "/rates/1m/hit_rate")) > 0.4);
    assert_true(yyjson_get_num(yyjson_doc_ptr_get(doc, "/rates/15m/stored_bytes_per_s")) > 0);
    assert_int_equal(yyjson_obj_size(yyjson_doc_ptr_get(doc, "/miss")), HEARTH_REASON_COUNT - 2);
    assert_int_equal(json_number_at(doc, "/miss/cold"), prompt);
    assert_int_equal(json_number_at(doc, "/session/computed_twice"), 0);
    assert_string_equal(json_at(doc, "/tiers/0/tier"), "device");
    assert_string_equal(json_at(doc, "/tiers/1/state"), "ok");
    assert_true(json_number_at(doc, "/tiers/1/used") > 0 &&
                json_number_at(doc, "/tiers/1/objects") > 0);
    assert_int_equal(json_number_at(doc, "/tiers/1/hits"), 1);
    assert_string_equal(json_at(doc, "/tiers/2/state"), "off");
    yyjson_doc_free(doc);
    doc = api_kit_get(&kit, "/admin/history", 200);
    assert_int_equal(sum(doc, "/requests"), 2);
    assert_int_equal(sum(doc, "/ram"), cached);
    assert_int_equal(sum(doc, "/computed"), 2 * prompt - cached);
    yyjson_doc_free(doc);
    yyjson_doc_free(answer);
    api_kit_close(&kit);
}

/* A request has one figure of what it would take without the cache, wherever it is shown. */
static void test_one_figure_without_the_cache(void **state)
{
    static char body[4096], log_text[16384];
    struct log_options log = {.level = LOG_LEVEL_INFO, .clock = clock_real()};
    struct api_kit_options options = {
        .ram_bytes = 4 << 20,
        .fake = {.clock = clock_real(), .prefill_ns = NS_PER_MS, .chunk = 64}};
    char shown[64], time[UNITS_TEXT_BYTES];
    struct api_kit kit;
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    log.fd = ends[1];
    options.api.log = log_create(&log);
    api_kit_open(&kit, &options);
    snprintf(body, sizeof(body),
             "{\"messages\":[{\"role\":\"user\",\"content\":\"%0300d\"}],\"max_tokens\":2}", 7);
    yyjson_doc_free(api_kit_post(&kit, CHAT, body, 200));
    yyjson_doc *answer = api_kit_post(&kit, CHAT, body, 200);
    double compute_s = yyjson_get_num(yyjson_doc_ptr_get(answer, "/x_cache/compute_s"));
    double prompt = (double)json_number_at(answer, "/usage/prompt_tokens");
    assert_true(compute_s > prompt * 0.0009 && compute_s < prompt * 0.01);
    yyjson_doc *recent = api_kit_get(&kit, "/admin/requests", 200);
    assert_true(yyjson_get_num(yyjson_doc_ptr_get(recent, "/recent/0/compute_s")) == compute_s);
    yyjson_doc *stats = api_kit_get(&kit, "/admin/stats", 200);
    double saved_s = yyjson_get_num(yyjson_doc_ptr_get(stats, "/session/saved_s"));
    assert_true(saved_s > 0.8 * compute_s && saved_s <= compute_s);
    double reused_s = api_kit_metric(&kit, "hearth_sched_reused_seconds_total");
    assert_true(saved_s <= reused_s + 0.001 && reused_s <= compute_s);
    api_kit_close(&kit);
    log_destroy(&options.api.log);
    close(ends[1]);
    ssize_t got = read(ends[0], log_text, sizeof(log_text) - 1);
    log_text[MAX(got, 0)] = '\0';
    close(ends[0]);
    snprintf(shown, sizeof(shown), "(about %s without the cache)",
             units_format_duration((uint64_t)(compute_s * (double)NS_PER_S), time));
    if (strstr(log_text, shown) == NULL)
        fail_msg("no '%s' in: %s", shown, log_text);
    yyjson_doc_free(stats);
    yyjson_doc_free(recent);
    yyjson_doc_free(answer);
}

/* A new question is no miss, whatever it has in common with earlier ones. */
static void test_new_conversations_are_no_misses(void **state)
{
    static const char *const bodies[] = {
        "{\"messages\":[{\"role\":\"user\",\"content\":\"The first question of all of "
        "them\"}],\"max_tokens\":4}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"The other question, which is "
        "new\"}],\"max_tokens\":4}",
        /* an earlier message has changed */
        "{\"messages\":[{\"role\":\"user\",\"content\":\"The first question of all of "
        "them\"},{\"role\":\"assistant\",\"content\":\"x y z\"},{\"role\":\"user\","
        "\"content\":\"And the next?\"}],\"max_tokens\":4}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"The first question of all of "
        "them\"},{\"role\":\"assistant\",\"content\":\"x q q\"},{\"role\":\"user\","
        "\"content\":\"And the next?\"}],\"max_tokens\":4}"};
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 4 << 20});
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        yyjson_doc *answer = api_kit_post(&kit, CHAT, bodies[i], 200);
        bool begins = yyjson_get_bool(yyjson_doc_ptr_get(answer, "/x_cache/new_conversation"));
        assert_int_equal(begins, i == 1);
        if (i > 0 && i != 2)
            assert_string_equal(json_at(answer, "/x_cache/reason"), "diverged");
        yyjson_doc_free(answer);
        doc = api_kit_get(&kit, "/admin/stats", 200);
        if (i < 2)
            assert_int_equal(json_number_at(doc, "/miss/diverged"), 0);
        else if (i == 3)
            assert_true(json_number_at(doc, "/miss/diverged") > 0);
        yyjson_doc_free(doc);
    }
    doc = api_kit_get(&kit, "/admin/requests", 200);
    assert_true(yyjson_get_bool(yyjson_doc_ptr_get(doc, "/recent/2/new_conversation")));
    yyjson_doc_free(doc);
    api_kit_close(&kit);
}

/* Without a cache, and before there is a model: zeros, and no failure. */
static void test_nothing_yet(void **state)
{
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.loading = true});
    doc = api_kit_get(&kit, "/admin/stats", 200);
    assert_int_equal(json_number_at(doc, "/session/requests"), 0);
    assert_true(yyjson_get_num(yyjson_doc_ptr_get(doc, "/session/efficiency")) == 0);
    assert_string_equal(json_at(doc, "/tiers/1/state"), "off");
    assert_true(yyjson_is_null(yyjson_doc_ptr_get(doc, "/memory")));
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_get(&kit, "/admin/history", 200));
    yyjson_doc_free(api_kit_get(&kit, "/admin/models", 503));
    yyjson_doc_free(api_kit_get(&kit, "/admin/requests", 503));
    api_kit_load(&kit);
    api_kit_close(&kit);
}

/* Clears a tier, and waits until nothing moves; the bytes that left. */
static uint64_t clear(struct api_kit *kit, const char *body)
{
    yyjson_doc *doc = api_kit_post(kit, "/admin/cache/clear", body, 200);
    uint64_t bytes = json_number_at(doc, "/cleared");

    yyjson_doc_free(doc);
    mover_drain(kit->cache, 20000);
    return bytes;
}

/* A third tier, of which nothing here knows more than its level, is shown everywhere. */
static void test_a_third_tier_is_shown(void **state)
{
    struct tier_kept remote;
    struct api_kit kit;
    yyjson_doc *doc;

    (void)state;
    tier_kept_open(&remote, 8 << 20, 0);
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 4 << 20});
    cache_attach_tier(kit.cache, HEARTH_TIER_REMOTE, &remote.tier, 0);
    chat(&kit);
    clear(&kit, "{\"tier\":\"device\"}"); /* the state of the answer is stored by then */
    doc = api_kit_get(&kit, "/admin/stats", 200);
    assert_string_equal(json_at(doc, "/tiers/2/state"), "off");
    assert_string_equal(json_at(doc, "/tiers/3/tier"), "remote");
    assert_string_equal(json_at(doc, "/tiers/3/state"), "ok");
    assert_int_equal(json_number_at(doc, "/tiers/3/objects"), tier_kept_objects(&remote));
    assert_true(tier_kept_objects(&remote) > 0 && json_number_at(doc, "/tiers/3/cap") == 8 << 20);
    yyjson_doc_free(doc);
    assert_true(api_kit_metric(&kit, "hearth_cache_tier_bytes{tier=\"remote\"}") > 0);
    doc = api_kit_get(&kit, "/admin/cache/objects?tier=remote", 200);
    assert_string_equal(json_at(doc, "/objects/0/tiers/1"), "remote");
    yyjson_doc_free(doc);
    doc = api_kit_post(&kit, "/admin/cache/verify", "{\"tier\":\"remote\"}", 200);
    assert_int_equal(json_number_at(doc, "/objects"), tier_kept_objects(&remote));
    yyjson_doc_free(doc);

    assert_true(clear(&kit, "{\"tier\":\"ram\"}") > 0);
    chat(&kit);
    doc = api_kit_get(&kit, "/admin/stats", 200);
    assert_true(json_number_at(doc, "/session/tokens/remote") > 0);
    assert_int_equal(json_number_at(doc, "/tiers/3/hits"), 1);
    yyjson_doc_free(doc);
    assert_true(clear(&kit, "{\"tier\":\"remote\"}") > 0);
    assert_int_equal(tier_kept_objects(&remote), 0);
    api_kit_close(&kit);
    tier_kept_close(&remote);
}

TEST_SUITE(TEST(test_i99_sums_are_what_clients_were_told), TEST(test_nothing_yet),
           TEST(test_one_figure_without_the_cache), TEST(test_new_conversations_are_no_misses),
           TEST(test_a_third_tier_is_shown))

/*
 * truth_test.c: a server that reuses state answers as one that computes everything.
 *
 * Several clients at a time talk to a real server: they go on, branch, edit, repeat, disconnect in
 * the middle of prompts and answers, ask for several choices, with grammars, predictions, salts and
 * adapters; the cache is cleared and the server restarted now and then. Every answer has the
 * log-probabilities of the most probable tokens at each place. A cold engine in this process judges
 * them (tests/support/cold.h): it computes prompt and answer with the same settings, in several ways
 * if one is not enough, so that rounding is measured for these very tokens. With --exact, they must
 * be the same digits as those of a second server without a cache.
 *
 * For each setting, the table shows how far answers were away, and what answers from wrong states
 * would have been: one token of the prompt changed, and so on. Those must be found.
 *
 * `make test` runs a few answers of two settings. `make truth` runs all families and settings
 * (TRUTH_ANSWERS=, FAMILY=, SETTING=, HEARTH_TEST_SEED=). What is asked follows from the seed and
 * the answers; what happens at the same time does not.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "lab/model_make.h"
#include "support/models.h"
#include "support/test.h"
#include "support/truth_talk.h"

enum {
    CLIENTS = 6,
    PENDING_MAX = 64,
    ANSWERS = 16, /* in `make test` */
    MORE_MAX = 20,
    CLEAR_EVERY = 60,
    RESTART_EVERY = 20,
    POWER_PROMPTS = 4,
    POWER_TOKENS = 300,
    FAILURES_MAX = 5,
    LONGEST = 1500,
};

struct setting {
    const char *name, *args;
    const char *without;        /* a family that cannot have it */
    struct engine_options cold; /* what changes values */
    uint32_t longest;           /* tokens of a prompt; 0 = LONGEST */
    bool exact, disk, lora;     /* disk: the server is restarted, too */
    bool drafts;                /* answers are guessed */
};

static const struct setting settings[] = {
    {.name = "default", .args = "", .longest = 3000},
    {.name = "alone", .args = "-np 1"},
    {.name = "few", .args = "-np 2 -c 2048 --ram-cache 1MiB", .longest = 800},
    {.name = "streams", .args = "--kv-streams -np 4 -c 32768"},
    {.name = "isolate", .args = "--isolate -np 4"},
    {.name = "streams-isolate", .args = "--kv-streams --isolate -np 4 -c 32768"},
    {.name = "kv-q8",
     .args = "-ctk q8_0 -ctv q8_0",
     .cold = {.kv_k = ENGINE_KV_Q8_0, .kv_v = ENGINE_KV_Q8_0}},
    {.name = "k-q8", .args = "-ctk q8_0", .cold = {.kv_k = ENGINE_KV_Q8_0}, .without = "deepseek2"},
    {.name = "drafts", .args = "--drafts 4 -np 4", .drafts = true},
    {.name = "no-drafts", .args = "--drafts off"},
    {.name = "chunks", .args = "-ub 32"},
    {.name = "flash-off", .args = "-fa off", .cold = {.flash = -1}},
    {.name = "swa-full", .args = "--swa-full", .cold = {.sliding_full = true}},
    {.name = "disk", .args = "--ram-cache 2MiB -np 2", .disk = true},
    {.name = "lora", .args = "-np 4", .lora = true, .without = "mamba2"},
    {.name = "exact", .args = "--exact", .exact = true},
    {.name = "exact-disk", .args = "--exact --ram-cache 2MiB", .exact = true, .disk = true},
};

static const char *const families[] = {"qwen3",     "llama",      "gemma3",        "qwen35",
                                       "lfm2",      "nemotron_h", "granitehybrid", "mamba2",
                                       "deepseek2", "qwen3moe"};

struct client {
    struct http_client http;
    struct truth_ask ask;
    bool open, ended;
    uint64_t leave_ns; /* 0: it stays */
};

struct counts {
    uint64_t asked, left, answers, judged, twice, failures, device, ram, ssd, computed, accepted;
    double furthest;      /* from the first way */
    double furthest_part; /* nearest way, as a part of what rounding explains */
};

struct campaign {
    const char *family;
    const struct setting *setting;
    uint64_t seed;
    struct serve_proc server, reference;
    struct cold cold;
    struct truth_talks talks;
    struct client clients[CLIENTS];
    struct truth_answer pending[PENDING_MAX];
    size_t pending_count;
    struct counts counts;
    char adapter[512];
};

/* ---- clients ---- */

static void ask(struct campaign *campaign, struct client *client)
{
    static const char *const headers = "Content-Type: application/json\r\nConnection: close\r\n";

    truth_ask_init(&client->ask, &campaign->talks);
    http_client_connect(&client->http, campaign->server.port);
    http_client_request(&client->http, "POST", truth_ask_path(&client->ask), headers,
                        (struct str){client->ask.body.data, client->ask.body.len});
    client->open = true;
    client->ended = false;
    client->leave_ns = client->ask.stream ? clock_mono_ns(clock_real()) +
                                                client->ask.leave_ms * (uint64_t)NS_PER_MS
                                          : 0;
    campaign->counts.asked++;
}

static void wait_for_clients(struct campaign *campaign, int ms)
{
    struct pollfd fds[CLIENTS];
    struct client *at[CLIENTS];
    nfds_t count = 0;

    for (int i = 0; i < CLIENTS; i++) {
        struct client *client = &campaign->clients[i];
        if (client->open && client->leave_ns > 0 &&
            client->leave_ns <= clock_mono_ns(clock_real())) {
            http_client_close(&client->http);
            truth_ask_fini(&client->ask);
            client->open = false;
            campaign->counts.left++;
        }
        if (!client->open || client->ended)
            continue;
        at[count] = client;
        fds[count++] = (struct pollfd){.fd = client->http.fd, .events = POLLIN};
    }
    if (count == 0 || poll(fds, count, ms) <= 0)
        return;
    for (nfds_t i = 0; i < count; i++)
        if (fds[i].revents != 0)
            at[i]->ended = !http_client_read(&at[i]->http);
}

static void take_answer(struct campaign *campaign, struct client *client)
{
    struct truth_answer *answer = &campaign->pending[campaign->pending_count];
    struct http_answer http = {0};

    if (!http_client_answer(&client->http, false, &http, NULL) || !http.complete)
        fail_msg("the connection broke off: %s", client->ask.what);
    if (!client->ask.stream) {
        truth_answer_init(answer, &campaign->talks, &client->ask, &http);
        if (answer->fault[0] != '\0')
            fail_msg("%s: %s", client->ask.what, answer->fault);
        campaign->pending_count++;
        campaign->counts.answers++;
        campaign->counts.device += answer->device;
        campaign->counts.ram += answer->ram;
        campaign->counts.ssd += answer->ssd;
        campaign->counts.computed += answer->computed;
        campaign->counts.accepted += answer->accepted;
    }
    http_answer_fini(&http);
    http_client_close(&client->http);
    client->open = client->ended = false;
}

/* ---- verdicts ---- */

static void report(struct campaign *campaign, const struct truth_answer *answer, size_t number,
                   const char *why)
{
    const struct truth_choice *choice = &answer->choices[number];
    char path[1024];
    const char *build = getenv("HEARTH_BUILD");

    printf("WRONG  %s, %s (%s), seed 0x%llx, answer %llu, choice %zu of: %s\n"
           "       %s\n       reuse %s\n       HEARTH_TEST_SEED=0x%llx make truth FAMILY=%s "
           "SETTING=%s\n",
           campaign->family, campaign->setting->name, campaign->setting->args,
           (unsigned long long)campaign->seed, (unsigned long long)campaign->counts.judged, number,
           answer->what, why, answer->reuse, (unsigned long long)campaign->seed, campaign->family,
           campaign->setting->name);
    snprintf(path, sizeof(path), "%s/truth-%s-%s-%llu.json", build != NULL ? build : test_dir(),
             campaign->family, campaign->setting->name,
             (unsigned long long)campaign->counts.judged);
    FILE *file = fopen(path, "w");
    for (uint32_t i = 0; file != NULL && i < choice->count; i++)
        fprintf(file, "%s%d", i == 0 ? "{\"tokens\":[" : ",", choice->tokens[i]);
    if (file != NULL) {
        fprintf(file, "],\"prompt\":%u,\"probabilities\":%s}\n", choice->prompt, choice->probs);
        fclose(file);
        printf("       tokens and probabilities: %s\n", path);
    }
    campaign->counts.failures++;
}

static void judge(struct campaign *campaign, const struct truth_answer *answer, size_t number)
{
    const struct truth_choice *choice = &answer->choices[number];
    struct cold_subject subject = {choice->tokens, choice->count, choice->claims,
                                   choice->claims_count};
    struct counts *counts = &campaign->counts;
    char why[160];

    if (choice->claims_count == 0)
        return;
    if (campaign->setting->lora)
        assert_ok(engine_set_lora(campaign->cold.engine,
                                  &(struct lora_set){{answer->adapter ? 1.0f : 0.0f}}, NULL));
    struct cold_verdict verdict = cold_judge(&campaign->cold, &subject);
    double part = verdict.nearest / (COLD_FACTOR * MAX(campaign->cold.usual, verdict.spread));
    counts->judged++;
    counts->twice += verdict.ways > 1;
    counts->furthest = MAX(counts->furthest, verdict.distance);
    counts->furthest_part = MAX(counts->furthest_part, part);
    snprintf(why, sizeof(why),
             "off by %.4f, at least %.4f; %u cold runs differ by %.4f from each other, usual ones "
             "by %.4f",
             verdict.distance, verdict.nearest, verdict.ways, verdict.spread, campaign->cold.usual);
    if (verdict.wrong)
        report(campaign, answer, number, why);
    else if (getenv("HEARTH_TRUTH_TRACE") != NULL)
        printf("%s: %s; reuse %s\n", answer->what, why, answer->reuse);
}

static void judge_one(struct campaign *campaign)
{
    struct truth_answer *answer = &campaign->pending[--campaign->pending_count];

    for (size_t i = 0; i < answer->choices_count; i++)
        judge(campaign, answer, i);
    truth_answer_fini(answer);
}

static void judge_all(struct campaign *campaign)
{
    while (campaign->pending_count > 0)
        judge_one(campaign);
}

/* With --exact: the digits of a server that has no cache. */
static void compare(struct campaign *campaign, struct client *client)
{
    const struct truth_answer *answer = &campaign->pending[campaign->pending_count - 1];
    static struct truth_talks talks;
    struct truth_answer cold;
    struct http_answer http;

    talks = (struct truth_talks){.cold = &campaign->cold, .seed = 1};
    serve_proc_ask(&campaign->reference, "POST", truth_ask_path(&client->ask),
                   buf_str(&client->ask.body), &http);
    truth_answer_init(&cold, &talks, &client->ask, &http);
    http_answer_fini(&http);
    for (size_t i = 0; i < answer->choices_count; i++) {
        const struct truth_choice *a = &answer->choices[i], *b = &cold.choices[i];
        /* A chat of this server may have turns as they were sampled: then the prompt is another. */
        if (i >= cold.choices_count || a->prompt != b->prompt ||
            memcmp(a->tokens, b->tokens, a->prompt * sizeof(*a->tokens)) != 0)
            continue;
        campaign->counts.judged++;
        if (strcmp(a->probs, b->probs) != 0)
            report(campaign, answer, i, "other digits than without a cache");
    }
    truth_answer_fini(&cold);
    truth_answer_fini(&campaign->pending[--campaign->pending_count]);
}

/* ---- a campaign ---- */

static void take_ended(struct campaign *campaign)
{
    for (int i = 0; i < CLIENTS; i++) {
        struct client *client = &campaign->clients[i];
        if (!client->open || !client->ended || campaign->pending_count == PENDING_MAX)
            continue;
        size_t before = campaign->pending_count;
        take_answer(campaign, client);
        if (campaign->setting->exact && campaign->pending_count > before)
            compare(campaign, client);
        truth_ask_fini(&client->ask);
    }
}

static bool is_quiet(const struct campaign *campaign)
{
    for (int i = 0; i < CLIENTS; i++)
        if (campaign->clients[i].open)
            return false;
    return true;
}

static void drain(struct campaign *campaign)
{
    while (!is_quiet(campaign)) {
        wait_for_clients(campaign, 10);
        take_ended(campaign);
    }
    judge_all(campaign);
}

static void disturb(struct campaign *campaign)
{
    struct http_answer http;

    if (test_random_below(&campaign->talks.seed, CLEAR_EVERY) == 0) {
        serve_proc_ask(&campaign->server, "POST", "/admin/cache/clear", "{\"tier\":\"all\"}",
                       &http);
        assert_int_equal(http.status, 200);
        http_answer_fini(&http);
    }
    if (!campaign->setting->disk || test_random_below(&campaign->talks.seed, RESTART_EVERY) != 0)
        return;
    drain(campaign);
    if (test_random_below(&campaign->talks.seed, 2) == 0)
        serve_proc_stop(&campaign->server);
    else
        serve_proc_kill(&campaign->server);
    serve_proc_restart(&campaign->server);
}

/* Tokens that were reused. */
static uint64_t reused(const struct counts *counts)
{
    return counts->device + counts->ram + counts->ssd;
}

/* In few answers nothing may be reused by chance: then there are some more. */
static bool is_over(const struct counts *counts, uint64_t answers)
{
    return counts->failures >= FAILURES_MAX || counts->answers >= MORE_MAX * answers ||
           (counts->answers >= answers && reused(counts) > 0);
}

/* Judging takes longer than answering, and no client asks meanwhile. So many answers are judged at
 * once: otherwise the server would seldom have several requests at a time. */
static void talk(struct campaign *campaign, uint64_t answers)
{
    while (!is_over(&campaign->counts, answers)) {
        for (int i = 0; i < CLIENTS; i++)
            if (!campaign->clients[i].open) {
                disturb(campaign);
                ask(campaign, &campaign->clients[i]);
            }
        wait_for_clients(campaign, 10);
        take_ended(campaign);
        if (campaign->pending_count + CLIENTS > PENDING_MAX)
            judge_all(campaign);
    }
    drain(campaign);
}

static void open_campaign(struct campaign *campaign)
{
    const struct setting *setting = campaign->setting;
    struct engine_options cold = setting->cold;
    struct engine_adapter adapter = {campaign->adapter, 0};
    char args[1024], model[1024];

    snprintf(model, sizeof(model), "%s", test_model_narrow(campaign->family));
    snprintf(args, sizeof(args), "-c 16384 --ssd-dir none --ram-cache 64MiB %s", setting->args);
    if (setting->disk)
        snprintf(args, sizeof(args), "-c 16384 --ssd-dir %s/ssd-%s --ssd-free 1MiB %s", test_dir(),
                 campaign->family, setting->args);
    if (setting->lora) {
        size_t len = strlen(args);
        snprintf(campaign->adapter, sizeof(campaign->adapter), "%s/%s-lora.gguf", test_dir(),
                 campaign->family);
        assert_ok(model_make_adapter(
            &(struct model_adapter_options){.base = model, .out = campaign->adapter, .seed = 3},
            NULL));
        snprintf(args + len, sizeof(args) - len, " --lora %s=0", campaign->adapter);
        cold.adapters = &adapter;
        cold.adapters_count = 1;
    }
    cold.path = model;
    cold_open(&campaign->cold, &cold, campaign->seed);
    serve_proc_start(&campaign->server, model, args);
    campaign->talks = (struct truth_talks){.cold = &campaign->cold,
                                           .seed = campaign->seed,
                                           .longest = setting->longest ? setting->longest : LONGEST,
                                           .lora = setting->lora,
                                           .drafts = setting->drafts};
    if (setting->exact)
        serve_proc_start(&campaign->reference, model, "-c 16384 --ssd-dir none --exact --no-cache");
}

/* What the judge is worth with these settings; of the lies that it is to find, each. */
static void show_power(struct campaign *campaign)
{
    struct cold_power power[COLD_LIE_COUNT];

    cold_measure_power(&campaign->cold, POWER_TOKENS, POWER_PROMPTS, power);
    for (enum cold_lie lie = 0; lie < COLD_LIE_COUNT; lie++)
        printf("    %-52s found %u of %u, off by %.3f\n", cold_lie_text(lie), power[lie].found,
               power[lie].tried, power[lie].median);
}

static uint64_t run_campaign(const char *family, const struct setting *setting, uint64_t seed,
                             uint64_t answers)
{
    struct campaign *campaign = mem_alloc(sizeof(*campaign));

    *campaign = (struct campaign){.family = family, .setting = setting, .seed = seed};
    open_campaign(campaign);
    talk(campaign, answers);
    const struct counts *counts = &campaign->counts;
    printf(
        "%-13s %-15s %5llu judged, %4llu of them twice, %llu wrong; off by %.4f at most, usual "
        "%.4f, %3.0f %% of what is allowed; %llu left, reused %llu device %llu ram %llu ssd, %llu "
        "computed, %llu drafted\n",
        family, setting->name, (unsigned long long)counts->judged,
        (unsigned long long)counts->twice, (unsigned long long)counts->failures, counts->furthest,
        campaign->cold.usual, 100 * counts->furthest_part, (unsigned long long)counts->left,
        (unsigned long long)counts->device, (unsigned long long)counts->ram,
        (unsigned long long)counts->ssd, (unsigned long long)counts->computed,
        (unsigned long long)counts->accepted);
    if (getenv("HEARTH_TRUTH_POWER") != NULL && !setting->exact)
        show_power(campaign);
    fflush(stdout);
    uint64_t failures = counts->failures;
    assert_true(counts->judged > 0);
    assert_true(reused(counts) > 0);
    serve_proc_stop(&campaign->server);
    if (setting->exact)
        serve_proc_stop(&campaign->reference);
    cold_close(&campaign->cold);
    mem_free(campaign);
    return failures;
}

static uint64_t wanted_answers(void)
{
    const char *text = getenv("HEARTH_TRUTH_ANSWERS");
    uint64_t count;

    return text != NULL && str_to_u64(str_from(text), &count) && count > 0 ? count : ANSWERS;
}

static bool is_wanted(const char *variable, const char *name)
{
    const char *wanted = getenv(variable);

    return wanted == NULL || wanted[0] == '\0' || strcmp(wanted, name) == 0;
}

/* A part of `make test`. */
static void test_a_few(void **state)
{
    uint64_t failures = 0, seed = test_seed();

    (void)state;
    failures += run_campaign("qwen3", &settings[0], seed, ANSWERS);
    failures += run_campaign("qwen35", &settings[0], seed, ANSWERS);
    assert_int_equal(failures, 0);
}

static void test_all(void **state)
{
    uint64_t failures = 0, seed = test_seed();

    (void)state;
    if (getenv("HEARTH_TRUTH_ANSWERS") == NULL)
        TEST_SKIP("a campaign: make truth");
    for (size_t i = 0; i < COUNT_OF(families); i++)
        for (size_t k = 0; k < COUNT_OF(settings); k++)
            if (is_wanted("HEARTH_TRUTH_FAMILY", families[i]) &&
                is_wanted("HEARTH_TRUTH_SETTING", settings[k].name) &&
                (settings[k].without == NULL || strcmp(settings[k].without, families[i]) != 0))
                failures += run_campaign(families[i], &settings[k], seed, wanted_answers());
    assert_int_equal(failures, 0);
}

TEST_SUITE(TEST(test_a_few), TEST(test_all))

/*
 * scenario.c: see scenario.h. Texts of talks are made once and live as long as the process.
 */
#include "support/scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/attr.h"
#include "base/mem.h"
#include "support/api_kit.h"
#include "support/test.h"

enum { BODY_BYTES_MAX = 1 << 20, TOKENS_MAX = 16384 };

/* ---- conversations ---- */

/* Keeps a text until the process ends. Takes it. */
static char *keep_text(char *text)
{
    static char **kept;
    static size_t count;

    kept = realloc(kept, (count + 1) * sizeof(*kept));
    assert_true(kept != NULL && text != NULL);
    return kept[count++] = text;
}

const char *talk_words(uint64_t seed, unsigned words)
{
    static const char *const syllables[] = {"ba", "ko", "li", "mu", "ra", "se", "ti", "vo"};
    struct buf text;

    buf_init(&text, BODY_BYTES_MAX);
    for (unsigned i = 0; i < words; i++) {
        buf_append_str(&text, i > 0 ? " " : "");
        for (uint64_t n = 1 + test_random_below(&seed, 3); n > 0; n--)
            buf_append_str(&text, syllables[test_random_below(&seed, COUNT_OF(syllables))]);
    }
    return keep_text(buf_take(&text));
}

void talk_say(struct talk *talk, const char *role, const char *text)
{
    assert_true(talk->count < TALK_MESSAGES_MAX);
    talk->messages[talk->count++] = (struct talk_message){role, keep_text(mem_strdup(text))};
}

struct talk talk_edit(const struct talk *talk, size_t index, const char *text)
{
    struct talk copy = *talk;

    assert_true(index < talk->count);
    copy.messages[index].text = keep_text(mem_strdup(text));
    return copy;
}

struct talk talk_head(const struct talk *talk, size_t count)
{
    struct talk copy = *talk;

    assert_true(count <= talk->count);
    copy.count = count;
    return copy;
}

/* ---- requests ---- */

const char *scenario_path(enum scenario_dialect dialect)
{
    static const char *const paths[] = {
#define X(value, path) [value] = path,
        SCENARIO_DIALECT_TABLE(X)
#undef X
    };

    return paths[dialect];
}

static void add_messages(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct talk *talk,
                         enum scenario_dialect dialect)
{
    yyjson_mut_val *list =
        yyjson_mut_obj_add_arr(doc, root, dialect == SCENARIO_RESPONSES ? "input" : "messages");

    for (size_t i = 0; i < talk->count; i++) {
        const struct talk_message *message = &talk->messages[i];
        if (dialect == SCENARIO_MESSAGES && strcmp(message->role, "system") == 0) {
            yyjson_mut_obj_add_str(doc, root, "system", message->text);
            continue;
        }
        yyjson_mut_val *object = yyjson_mut_arr_add_obj(doc, list);
        yyjson_mut_obj_add_str(doc, object, "role", message->role);
        yyjson_mut_obj_add_str(doc, object, "content", message->text);
    }
}

const char *scenario_body(const struct talk *talk, enum scenario_dialect dialect, unsigned tokens,
                          bool stream)
{
    static char *body;
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);

    yyjson_mut_doc_set_root(doc, root);
    add_messages(doc, root, talk, dialect);
    yyjson_mut_obj_add_uint(
        doc, root, dialect == SCENARIO_RESPONSES ? "max_output_tokens" : "max_tokens", tokens);
    yyjson_mut_obj_add_str(doc, root, "model", "any");
    yyjson_mut_obj_add_uint(doc, root, "temperature", 0);
    yyjson_mut_obj_add_bool(doc, root, "ignore_eos", true);
    yyjson_mut_obj_add_bool(doc, root, "stream", stream);
    free(body);
    body = yyjson_mut_write(doc, 0, NULL);
    yyjson_mut_doc_free(doc);
    assert_non_null(body);
    return body;
}

/* ---- answers ---- */

static const struct scenario_fields fields_of[SCENARIO_DIALECT_COUNT] = {
    [SCENARIO_CHAT] = {.prompt = "/usage/prompt_tokens",
                       .cached = "/usage/prompt_tokens_details/cached_tokens",
                       .generated = "/usage/completion_tokens",
                       .text = "/choices/0/message/content"},
    [SCENARIO_MESSAGES] = {.rest = "/usage/input_tokens",
                           .cached = "/usage/cache_read_input_tokens",
                           .created = "/usage/cache_creation_input_tokens",
                           .generated = "/usage/output_tokens",
                           .text = "/content/0/text"},
    [SCENARIO_RESPONSES] = {.prompt = "/usage/input_tokens",
                            .cached = "/usage/input_tokens_details/cached_tokens",
                            .generated = "/usage/output_tokens",
                            .text = "/output/0/content/0/text"},
};

const struct scenario_fields *scenario_fields(enum scenario_dialect dialect)
{
    return &fields_of[dialect];
}

static uint32_t number(yyjson_doc *doc, const char *pointer)
{
    yyjson_val *value = yyjson_doc_ptr_get(doc, pointer);

    if (!yyjson_is_uint(value))
        fail_msg("there is no number at %s", pointer);
    return (uint32_t)yyjson_get_uint(value);
}

/* Keeps I99: the same sums in all dialects. */
static void check_usage(yyjson_doc *doc, enum scenario_dialect dialect,
                        const struct scenario_answer *answer)
{
    const struct scenario_fields *fields = &fields_of[dialect];

    assert_int_equal(number(doc, fields->cached), answer->reused);
    if (fields->prompt != NULL)
        assert_int_equal(number(doc, fields->prompt), answer->prompt);
    else
        assert_int_equal(number(doc, fields->rest) + number(doc, fields->cached) +
                             number(doc, fields->created),
                         answer->prompt);
    if (dialect == SCENARIO_CHAT) {
        assert_int_equal(number(doc, "/timings/cache_n"), answer->reused);
        assert_int_equal(number(doc, "/timings/prompt_n"), answer->computed);
    }
}

static void note(struct scenario *scenario, const struct scenario_answer *answer)
{
    assert_true(scenario->seen_count < SCENARIO_ANSWERS_MAX);
    scenario->seen[scenario->seen_count++] =
        (struct scenario_seen){answer->prompt, answer->reused, answer->device};
    scenario->answers++;
    scenario->device += answer->device;
    scenario->ram += answer->ram;
    scenario->computed += answer->computed;
    scenario->prompt += answer->prompt;
    scenario->generated += answer->generated;
}

static struct scenario_answer take_answer(struct scenario *scenario, yyjson_doc *doc,
                                          enum scenario_dialect dialect)
{
    struct scenario_answer answer = {
        .device = number(doc, "/x_cache/device"),
        .ram = number(doc, "/x_cache/ram"),
        .ssd = number(doc, "/x_cache/ssd"),
        .remote = number(doc, "/x_cache/remote"),
        .computed = number(doc, "/x_cache/computed"),
        .first_difference = number(doc, "/x_cache/first_difference"),
        .generated = number(doc, fields_of[dialect].generated),
    };

    answer.reused = answer.device + answer.ram + answer.ssd + answer.remote;
    answer.prompt = answer.reused + answer.computed;
    snprintf(answer.text, sizeof(answer.text), "%s", json_at(doc, fields_of[dialect].text));
    check_usage(doc, dialect, &answer);
    note(scenario, &answer);
    return answer;
}

struct scenario_answer scenario_read(struct scenario *scenario, struct http_client *client,
                                     enum scenario_dialect dialect)
{
    struct http_answer http;

    if (!http_client_answer(client, false, &http, NULL) || http.status != 200 || !http.complete)
        fail_msg("status %d: %s", http.status, buf_str(&http.body));
    yyjson_doc *doc = yyjson_read(buf_str(&http.body), http.body.len, 0);
    assert_non_null(doc);
    struct scenario_answer answer = take_answer(scenario, doc, dialect);
    yyjson_doc_free(doc);
    http_answer_fini(&http);
    http_client_close(client);
    return answer;
}

struct scenario_answer scenario_ask_as(struct scenario *scenario, const struct talk *talk,
                                       unsigned tokens, enum scenario_dialect dialect)
{
    struct http_client client;

    serve_proc_send(&scenario->proc, &client, scenario_path(dialect),
                    scenario_body(talk, dialect, tokens, false));
    return scenario_read(scenario, &client, dialect);
}

struct scenario_answer scenario_ask(struct scenario *scenario, const struct talk *talk,
                                    unsigned tokens)
{
    return scenario_ask_as(scenario, talk, tokens, SCENARIO_CHAT);
}

/* ---- tokens ---- */

static yyjson_doc *post(const struct scenario *scenario, const char *path, const char *body)
{
    struct http_answer http;

    serve_proc_ask(&scenario->proc, "POST", path, body, &http);
    if (http.status != 200)
        fail_msg("%s gave %d: %s", path, http.status, buf_str(&http.body));
    yyjson_doc *doc = yyjson_read(buf_str(&http.body), http.body.len, 0);
    assert_non_null(doc);
    http_answer_fini(&http);
    return doc;
}

static yyjson_doc *tokens_of(const struct scenario *scenario, const struct talk *talk)
{
    yyjson_doc *text =
        post(scenario, "/apply-template", scenario_body(talk, SCENARIO_CHAT, 1, false));
    yyjson_mut_doc *ask = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(ask);

    yyjson_mut_doc_set_root(ask, root);
    yyjson_mut_obj_add_str(ask, root, "content", json_at(text, "/prompt"));
    yyjson_mut_obj_add_bool(ask, root, "parse_special", true);
    char *body = yyjson_mut_write(ask, 0, NULL);
    yyjson_doc *tokens = post(scenario, "/tokenize", body);
    free(body);
    yyjson_mut_doc_free(ask);
    yyjson_doc_free(text);
    return tokens;
}

uint32_t scenario_common(const struct scenario *scenario, const struct talk *a,
                         const struct talk *b)
{
    yyjson_doc *tokens[2] = {tokens_of(scenario, a), tokens_of(scenario, b)};
    yyjson_val *list[2] = {yyjson_doc_ptr_get(tokens[0], "/tokens"),
                           yyjson_doc_ptr_get(tokens[1], "/tokens")};
    size_t most = MIN(yyjson_arr_size(list[0]), yyjson_arr_size(list[1]));
    uint32_t at = 0;

    assert_true(most > 0);
    while (at < most && yyjson_get_int(yyjson_arr_get(list[0], at)) ==
                            yyjson_get_int(yyjson_arr_get(list[1], at)))
        at++;
    yyjson_doc_free(tokens[0]);
    yyjson_doc_free(tokens[1]);
    return at;
}

uint32_t scenario_recalled(const struct scenario *scenario, const struct talk *talk)
{
    yyjson_doc *doc =
        post(scenario, "/apply-template", scenario_body(talk, SCENARIO_CHAT, 1, false));
    uint32_t turns = number(doc, "/replayed");

    yyjson_doc_free(doc);
    return turns;
}

/* ---- what runs ---- */

static uint64_t age_of(yyjson_val *slot)
{
    return yyjson_get_uint(yyjson_obj_get(slot, "age_ms"));
}

/* The running generation that is younger than `rank` others; NULL: there are not so many. */
static yyjson_val *slot_of_rank(yyjson_val *slots, size_t rank)
{
    size_t count = yyjson_arr_size(slots);

    for (size_t i = 0; i < count; i++) {
        yyjson_val *slot = yyjson_arr_get(slots, i);
        size_t older = 0;

        for (size_t k = 0; k < count; k++) {
            yyjson_val *other = yyjson_arr_get(slots, k);

            older += k != i && yyjson_obj_get(other, "phase") != NULL &&
                     (age_of(other) > age_of(slot) || (age_of(other) == age_of(slot) && k < i));
        }
        if (yyjson_obj_get(slot, "phase") != NULL && older == rank)
            return slot;
    }
    return NULL;
}

bool scenario_slot(const struct scenario *scenario, size_t rank, struct scenario_slot *slot)
{
    struct http_answer http;

    serve_proc_ask(&scenario->proc, "GET", "/slots", NULL, &http);
    yyjson_doc *doc = yyjson_read(buf_str(&http.body), http.body.len, 0);
    http_answer_fini(&http);
    assert_non_null(doc);
    yyjson_val *found = slot_of_rank(yyjson_doc_get_root(doc), rank);
    yyjson_val *usage = yyjson_obj_get(found, "usage");
    *slot = (struct scenario_slot){0};
    if (found != NULL) {
        snprintf(slot->phase, sizeof(slot->phase), "%s",
                 yyjson_get_str(yyjson_obj_get(found, "phase")));
        slot->done = (uint32_t)yyjson_get_uint(yyjson_obj_get(found, "prompt_done"));
        slot->prompt = (uint32_t)yyjson_get_uint(yyjson_obj_get(usage, "prompt"));
        slot->generated = (uint32_t)yyjson_get_uint(yyjson_obj_get(usage, "generated"));
    }
    yyjson_doc_free(doc);
    return found != NULL;
}

static int order_of(const char *phase)
{
    static const char *const order[] = {"queued",  "deferred", "lookup",  "restore",
                                        "prefill", "decode",   "finished"};

    for (size_t i = 0; i < COUNT_OF(order); i++)
        if (strcmp(order[i], phase) == 0)
            return (int)i;
    return COUNT_OF(order);
}

bool scenario_wait_phase(const struct scenario *scenario, size_t rank, const char *phase,
                         struct scenario_slot *slot)
{
    for (unsigned waited_ms = 0;; serve_proc_pause(&scenario->proc, &waited_ms, phase)) {
        if (!scenario_slot(scenario, rank, slot))
            continue;
        if (order_of(slot->phase) >= order_of(phase))
            return strcmp(slot->phase, phase) == 0;
    }
}

void scenario_leave(struct scenario *scenario, struct http_client *client, bool reset)
{
    if (reset)
        http_client_reset(client);
    else
        http_client_close(client);
    scenario->cancelled++;
    serve_proc_wait_metric(&scenario->proc, "hearth_sched_cancelled_total", scenario->cancelled);
}

void scenario_wait_idle(const struct scenario *scenario)
{
    struct scenario_slot slot;

    serve_proc_wait_metric(&scenario->proc, "hearth_api_calls_active", 0);
    serve_proc_wait_metric(&scenario->proc, "hearth_sched_active", 0);
    serve_proc_wait_metric(&scenario->proc, "hearth_sched_queued", 0);
    assert_false(scenario_slot(scenario, 0, &slot));
}

/* ---- opening and closing ---- */

void scenario_open(struct scenario *scenario, const char *family, const char *args)
{
    char all[1024];

    *scenario = (struct scenario){
        .cuttable = strcmp(family, "qwen3") == 0 || strcmp(family, "qwen3moe") == 0,
        .cached = strstr(args, "--no-cache") == NULL,
    };
    snprintf(all, sizeof(all), "-c 4096 --ram-cache 64MiB --ssd-dir none --log-level debug %s",
             args);
    serve_proc_start(&scenario->proc, family, all);
}

static void check_metrics(const struct scenario *scenario)
{
    const struct serve_proc *proc = &scenario->proc;
    const struct {
        const char *name;
        uint64_t value;
    } wanted[] = {
        {"hearth_api_prompt_tokens_total{source=\"device\"}", scenario->device},
        {"hearth_api_prompt_tokens_total{source=\"ram\"}", scenario->ram},
        {"hearth_api_prompt_tokens_total{source=\"computed\"}", scenario->computed},
        {"hearth_api_generated_tokens_total", scenario->generated},
        {"hearth_sched_finished_total", scenario->answers},
        {"hearth_sched_submitted_total", scenario->answers + scenario->cancelled},
        {"hearth_sched_failed_total", 0},
    };

    /* Tokens of a cancelled generation are in some of these sums, and no answer reported
     * them. */
    for (size_t i = scenario->cancelled > 0 ? 4 : 0; i < COUNT_OF(wanted); i++)
        serve_proc_wait_metric(proc, wanted[i].name, (double)wanted[i].value);
    serve_proc_wait_metric(proc, "hearth_sched_cancelled_total", scenario->cancelled);
}

static uint32_t value_in(struct str line, const char *key)
{
    char name[64];
    int len = snprintf(name, sizeof(name), " %s=", key);
    size_t at = str_find(line, (struct str){name, (size_t)len});

    if (at == SIZE_MAX)
        fail_msg("no %s in: " STR_FMT, key, STR_ARG(line));
    return (uint32_t)strtoul(line.ptr + at + len, NULL, 10);
}

/* Takes the answer that this line of a lookup tells of out of the list. */
static bool claim(struct scenario *scenario, struct str line, bool hit)
{
    uint32_t prompt = value_in(line, "prompt_tokens"), read = value_in(line, "read_tokens");

    assert_true(hit == (read > 0));
    for (size_t i = 0; i < scenario->seen_count; i++) {
        if (scenario->seen[i].prompt != prompt || scenario->seen[i].reused != read)
            continue;
        scenario->seen[i] = scenario->seen[--scenario->seen_count];
        return true;
    }
    return false;
}

/* Each generation has one [route] line and one [cache] line that says hit, partial or miss, with
 * the numbers of its answer. */
static void check_log(struct scenario *scenario)
{
    struct buf log = serve_proc_log(&scenario->proc);
    struct str rest = {buf_str(&log), log.len}, line;
    size_t answers = scenario->seen_count, routes = 0, strangers = 0;

    while (str_next(&rest, '\n', &line)) {
        bool cache = str_find(line, STR("[cache] ")) != SIZE_MAX;
        bool hit = cache && (str_find(line, STR(" hit ")) != SIZE_MAX ||
                             str_find(line, STR(" partial ")) != SIZE_MAX);
        routes += str_find(line, STR("[route] ")) != SIZE_MAX;
        if (hit || (cache && str_find(line, STR(" miss ")) != SIZE_MAX))
            strangers += !claim(scenario, line, hit);
        if (str_find(line, STR(" error [")) != SIZE_MAX ||
            str_find(line, STR(" warn  [")) != SIZE_MAX)
            fail_msg("the log complains: " STR_FMT, STR_ARG(line));
    }
    if (scenario->cached && scenario->seen_count > 0)
        fail_msg("%zu answers are not in the log, the first with %u of %u tokens reused:\n%s",
                 scenario->seen_count, scenario->seen[0].reused, scenario->seen[0].prompt,
                 buf_str(&log));
    assert_true(routes >= answers && routes <= answers + scenario->cancelled);
    assert_true(strangers <= scenario->cancelled);
    buf_fini(&log);
}

void scenario_restart(struct scenario *scenario, bool in_order)
{
    scenario_wait_idle(scenario);
    check_metrics(scenario);
    if (in_order)
        serve_proc_stop(&scenario->proc);
    else
        serve_proc_kill(&scenario->proc);
    scenario->answers = scenario->device = scenario->ram = scenario->computed = 0;
    scenario->prompt = scenario->generated = 0;
    serve_proc_restart(&scenario->proc);
}

void scenario_close(struct scenario *scenario)
{
    scenario_wait_idle(scenario);
    check_metrics(scenario);
    serve_proc_stop(&scenario->proc);
    check_log(scenario);
}

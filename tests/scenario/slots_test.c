/*
 * slots_test.c: the state of a slot, saved to a file, is exact after a restart that lost everything
 * else: the same log-probabilities as a cold run, on models with and without rows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "support/api_kit.h"
#include "support/scenario.h"
#include "support/test.h"

enum { PROBS_BYTES = 16384 };

#define FILE_A "{\"filename\":\"talk.bin\"}"

static yyjson_doc *post(const struct serve_proc *proc, const char *path, const char *body)
{
    struct http_answer http;

    serve_proc_ask(proc, "POST", path, body, &http);
    if (http.status != 200)
        fail_msg("%s: %d %s", path, http.status, buf_str(&http.body));
    yyjson_doc *doc = yyjson_read(buf_str(&http.body), http.body.len, 0);
    http_answer_fini(&http);
    assert_non_null(doc);
    return doc;
}

/* Log-probabilities of the answer; the result is the number of tokens that came from RAM. */
static uint64_t ask(const struct serve_proc *proc, unsigned words, const char *salt,
                    char probs[PROBS_BYTES])
{
    char body[8192];

    snprintf(body, sizeof(body),
             "{\"prompt\":\"%s\",\"n_predict\":4,\"temperature\":0,\"n_probs\":5,"
             "\"cache_salt\":\"%s\",\"id_slot\":0}",
             talk_words(1, words), salt);
    yyjson_doc *doc = post(proc, "/completion", body);
    char *text = yyjson_val_write(yyjson_doc_ptr_get(doc, "/completion_probabilities"), 0, NULL);
    assert_non_null(text);
    assert_true(strlen(text) < PROBS_BYTES);
    snprintf(probs, PROBS_BYTES, "%s", text);
    uint64_t ram = json_number_at(doc, "/x_cache/ram");
    free(text);
    yyjson_doc_free(doc);
    return ram;
}

static void check(const char *family)
{
    static char cold[PROBS_BYTES], restored[PROBS_BYTES];
    struct serve_proc proc = {0};
    char args[1024];

    snprintf(args, sizeof(args),
             "--exact --ubatch-size 64 -t 1 --ssd-dir none --slot-save-path %s/slots-%s",
             test_dir(), family);
    serve_proc_start(&proc, family, args);
    ask(&proc, 200, "", restored);
    yyjson_doc *doc = post(&proc, "/slots/0?action=save", FILE_A);
    uint64_t saved = json_number_at(doc, "/n_saved");
    yyjson_doc_free(doc);
    assert_true(saved >= 128);
    ask(&proc, 260, "cold", cold); /* continues the saved prompt, with nothing to reuse */
    serve_proc_stop(&proc);
    serve_proc_restart(&proc);
    doc = post(&proc, "/slots/0?action=restore", FILE_A);
    assert_int_equal(json_number_at(doc, "/n_restored"), saved);
    yyjson_doc_free(doc);
    uint64_t ram = ask(&proc, 260, "", restored);
    /* of the saved tokens, all but the answer are in the longer prompt */
    assert_true(ram >= 128);
    assert_string_equal(restored, cold);
    serve_proc_stop(&proc);
}

static void test_restored_slot_of_a_hybrid_is_exact(void **state)
{
    (void)state;
    check("qwen35");
}

static void test_restored_slot_of_states_is_exact(void **state)
{
    (void)state;
    check("mamba2");
}

TEST_SUITE(TEST(test_restored_slot_of_a_hybrid_is_exact),
           TEST(test_restored_slot_of_states_is_exact))

/*
 * families_test.c: every architecture that model_make can make, as a served model: its answers from
 * the cache have the log-probabilities of a cold run (keeps I110).
 *
 * For each family a server with --exact, RAM and disk. Each prompt is asked with a salt of its own
 * (nothing is found, all is computed), and without one: again (state from RAM), as a longer talk,
 * as a branch, and after a restart (from disk). Log-probabilities are compared as they are written.
 * Texts would prove little: most stay the same when the state is left out. A row has power when
 * another beginning of the same prompt changes them.
 *
 * `make test` runs one family of each class of memory that fidelity_test does not have, `make
 * fidelity` all of them as a table, with a reason for each architecture that is missing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "lab/model_impl.h"
#include "support/models.h"
#include "support/scenario.h"
#include "support/test.h"

enum { ANSWER = 6, SYSTEM_WORDS = 40, USER_WORDS = 10, PROBS_BYTES = 16384 };

/* Architectures of libllama 0.7.0 without a row in model_families.c. */
static const struct {
    const char *name, *reason;
} absent[] = {
    {"arwkv7", "no shape was found that the library computes (assert when its graph is built)"},
    {"chameleon", "its graph needs the 8,192 image tokens of the published vocabulary"},
    {"clef", "a classifier: has a decision head instead of text"},
    {"clip", "an image encoder, used through a projector file"},
    {"dflash", "a drafter: runs beside a target model only"},
    {"eagle3", "a drafter: runs beside a target model only"},
    {"gemma4-assistant", "a drafter: runs beside a target model only"},
    {"gptj", "libllama 0.7.0 has its name and no code for it"},
    {"jina-bert-v2", "an encoder; others of its kind are in tests/engine/embed_llama_test.c"},
    {"llama-embed", "an encoder with llama's tensors"},
    {"minimax-01", "no shape was found that the library loads (assert on a missing buffer)"},
    {"plm", "no shape was found that the library computes (assert in set_rows)"},
    {"qwen3tts", "speech: its token types are not text"},
    {"rwkv6", "no shape was found that the library computes (assert in reshape)"},
    {"rwkv6qwen2", "no shape was found that the library computes (fault when its graph is built)"},
    {"vllm-decision2", "a classifier: has a decision head instead of text"},
    {"wavtokenizer-dec", "a vocoder: makes sound from codes"},
};

struct answer {
    uint32_t prompt, ram, ssd;
    char probs[PROBS_BYTES]; /* the log-probabilities as JSON */
};

struct row {
    struct answer cold, warm, turn, cold_turn, branch, cold_branch, disk, other;
};

static uint32_t number(yyjson_doc *doc, const char *pointer)
{
    return (uint32_t)yyjson_get_uint(yyjson_doc_ptr_get(doc, pointer));
}

/* With a salt nothing is shared: a cold run. */
static void ask(const struct serve_proc *proc, const struct talk *talk, const char *salt,
                struct answer *answer)
{
    const char *plain = scenario_body(talk, SCENARIO_CHAT, ANSWER, false);
    struct http_answer http;
    struct buf body;

    buf_init(&body, 1 << 20);
    buf_appendf(&body, "{\"logprobs\":true,\"top_logprobs\":5,\"cache_salt\":\"%s\",%s", salt,
                plain + 1);
    serve_proc_ask(proc, "POST", "/v1/chat/completions", buf_str(&body), &http);
    buf_fini(&body);
    if (http.status != 200)
        fail_msg("%s: %d %s", proc->model, http.status, buf_str(&http.body));
    yyjson_doc *doc = yyjson_read(buf_str(&http.body), http.body.len, 0);
    char *probs = yyjson_val_write(yyjson_doc_ptr_get(doc, "/choices/0/logprobs/content"), 0, NULL);
    assert_non_null(probs);
    assert_true(strlen(probs) < PROBS_BYTES && strstr(probs, "logprob") != NULL);
    snprintf(answer->probs, PROBS_BYTES, "%s", probs);
    answer->ram = number(doc, "/x_cache/ram");
    answer->ssd = number(doc, "/x_cache/ssd");
    answer->prompt = number(doc, "/usage/prompt_tokens");
    free(probs);
    yyjson_doc_free(doc);
    http_answer_fini(&http);
}

static bool same(const struct answer *a, const struct answer *b)
{
    return strcmp(a->probs, b->probs) == 0;
}

static void fill(struct row *row, const char *family)
{
    struct serve_proc proc = {0};
    struct talk talk = {0};
    char args[1024];

    talk_say(&talk, "system", talk_words(1, SYSTEM_WORDS));
    talk_say(&talk, "user", talk_words(2, USER_WORDS));
    struct talk branch = talk_edit(&talk, 1, talk_words(3, USER_WORDS)), turn = talk;
    struct talk other = talk_edit(&talk, 0, talk_words(4, SYSTEM_WORDS));
    talk_say(&turn, "assistant", talk_words(5, USER_WORDS));
    talk_say(&turn, "user", talk_words(6, USER_WORDS));
    snprintf(args, sizeof(args),
             "--exact --ubatch-size 64 -t 1 --ssd-dir %s/ssd.%s --ssd-free 1MiB", test_dir(),
             family);
    serve_proc_start(&proc, family, args);
    ask(&proc, &talk, "1", &row->cold);
    ask(&proc, &other, "2", &row->other);
    ask(&proc, &turn, "3", &row->cold_turn);
    ask(&proc, &branch, "4", &row->cold_branch);
    ask(&proc, &talk, "", &row->warm); /* computed: its state is stored */
    assert_true(same(&row->warm, &row->cold));
    ask(&proc, &talk, "", &row->warm);
    ask(&proc, &turn, "", &row->turn);
    ask(&proc, &branch, "", &row->branch);
    serve_proc_stop(&proc);
    serve_proc_restart(&proc);
    ask(&proc, &talk, "", &row->disk);
    serve_proc_stop(&proc);
}

static bool is_equal(const struct row *row)
{
    return same(&row->warm, &row->cold) && same(&row->turn, &row->cold_turn) &&
           same(&row->branch, &row->cold_branch) && same(&row->disk, &row->cold);
}

static bool is_reused(const struct row *row)
{
    return row->warm.ram > 0 && row->turn.ram > 0 && row->disk.ssd > 0;
}

static void check(const char *family)
{
    struct row *row = calloc(1, sizeof(*row));

    assert_non_null(row);
    fill(row, family);
    if (!is_reused(row))
        fail_msg("%s: reused %u, %u and %u of %u tokens", family, row->warm.ram, row->turn.ram,
                 row->disk.ssd, row->cold.prompt);
    if (!is_equal(row))
        fail_msg("%s: other log-probabilities", family);
    assert_false(same(&row->other, &row->cold));
    free(row);
}

/* ---- a sample of each class ---- */

#define SAMPLE(name, family)                   \
    static void test_i110_##name(void **state) \
    {                                          \
        (void)state;                           \
        check(family);                         \
    }

SAMPLE(sparse, "deepseek32")               /* dsa */
SAMPLE(sparse_and_sliding, "dots3note")    /* dsa_iswa */
SAMPLE(blocks, "minimax-m3")               /* msa */
SAMPLE(compressed, "deepseek4")            /* dsv4 */
SAMPLE(recurrent_and_sliding, "lfm2")      /* hybrid_iswa */
SAMPLE(recurrent_and_indexed, "glm5-next") /* hybrid_idx */
SAMPLE(sliding_only, "sliding-only")       /* iswa without a layer that has all rows */

/* ---- all of them ---- */

static bool print_row(const struct model_family *family, unsigned *cached)
{
    struct row *row = calloc(1, sizeof(*row));

    assert_non_null(row);
    fill(row, family->name);
    bool equal = is_equal(row), reused = is_reused(row), power = !same(&row->other, &row->cold);
    printf("%-18s %6u %5u %5u %6u   %-9s %s\n", family->name, row->cold.prompt, row->warm.ram,
           row->disk.ssd, row->turn.ram, equal ? "equal" : "DIFFERENT", power ? "yes" : "no");
    fflush(stdout);
    free(row);
    *cached += reused;
    return equal;
}

static void test_table(void **state)
{
    const char *only = getenv("HEARTH_FIDELITY_TABLE");
    unsigned rows = 0, bad = 0, encoders = 0, cached = 0;

    (void)state;
    if (only == NULL)
        TEST_SKIP("it takes minutes: `make fidelity` runs it");
    printf("family             prompt   ram   ssd   turn   log-probs power\n");
    for (const struct model_family *family = model_families; family->name != NULL; family++) {
        if (only[0] != '\0' && strcmp(only, family->name) != 0)
            continue;
        bool embeds = strcmp(family->name, "qwen3-embedding") == 0 ||
                      (family->traits & (MODEL_TRAIT_ENCODER | MODEL_TRAIT_RANK)) != 0;
        encoders += embeds;
        if (embeds)
            continue;
        rows++;
        bad += !print_row(family, &cached);
    }
    printf("%u families, %u reused, %u different; %u more make no text (engine/embed_llama)\n\n",
           rows, cached, bad, encoders);
    for (size_t i = 0; only[0] == '\0' && i < COUNT_OF(absent); i++)
        printf("%-18s %s\n", absent[i].name, absent[i].reason);
    assert_int_equal(bad, 0);
}

TEST_SUITE(TEST(test_i110_sparse), TEST(test_i110_sparse_and_sliding), TEST(test_i110_blocks),
           TEST(test_i110_compressed), TEST(test_i110_recurrent_and_sliding),
           TEST(test_i110_recurrent_and_indexed), TEST(test_i110_sliding_only), TEST(test_table))

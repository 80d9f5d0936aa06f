/*
 * tokens_bench.c: a conversation of 200,000 tokens turned into tokens: cold, again, and one turn
 * later, beside libllama's own call for the whole text. Takes a model file, or makes a small one
 * (its tokenizer has 777 tokens, so its texts have more of them).
 *
 * One row per way; times in us, the median and the best of the rounds. `render` is the
 * template, `whole` is libllama alone; the ratio is that of the median to the median of `whole`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yyjson.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "lab/micro.h"
#include "engine/engine.h"
#include "lab/model_make.h"
#include "chat/neutral.h"
#include "chat/prepare_impl.h"
#include "chat/template.h"
#include "chat/tokens.h"
#include "dialect/answer.h"
#include "dialect/json_read.h"

enum {
    TOKENS = 200000,
    ROUNDS = 11,
    MESSAGE_BYTES = 2000,
    SYSTEM_BYTES = 20000,
    TEXT_BYTES_MAX = 64 << 20,
    ARENA_BYTES = 1 << 30,
};

struct bench {
    struct engine *engine;
    struct chat_template *tmpl;
    struct tokens *tokens;
    struct neutral *neutral;
    struct gen_request request;
    int32_t *ids;
    size_t ids_max;
    uint64_t baseline_ns;
};

static void die(const char *why)
{
    fprintf(stderr, "tokens_bench: %s\n", why);
    exit(1);
}

static uint64_t now(void)
{
    return clock_mono_ns(clock_real());
}

/* ---- the conversation ---- */

static void append_words(struct buf *json, size_t bytes, size_t seed)
{
    static const char *const words[] = {
        "the ",    "file ",   "is ",      "read ",       "by ",  "struct ", "option ", "return ",
        "value; ", "error, ", "message ", "(line 7)\\n", "not ", "found ",  "in ",     "hash "};
    size_t end = json->len + bytes;

    for (uint64_t x = seed * 2654435761u + 1; json->len < end; x = x * 6364136223846793005u + 1)
        buf_append_str(json, words[(x >> 33) % COUNT_OF(words)]);
}

static void append_message(struct buf *json, const char *role, size_t bytes, size_t i)
{
    buf_appendf(json, "%s{\"role\":\"%s\",\"content\":\"%zu ", i > 0 ? "," : "{\"messages\":[",
                role, i);
    append_words(json, bytes, i);
    buf_append_str(json, "\"}");
}

/* A system prompt and `count` messages. */
static void make_conversation(struct buf *json, size_t count)
{
    buf_clear(json);
    append_message(json, "system", SYSTEM_BYTES, 0);
    for (size_t i = 1; i <= count; i++)
        append_message(json, i % 2 ? "user" : "assistant", MESSAGE_BYTES, i);
    buf_append_str(json, "]}");
    if (json->err != ERR_OK)
        die("no memory");
}

/* From the bytes of a request to its text. */
static void render(struct bench *b, const struct buf *json, struct chat_text *out)
{
    const struct prepare_tools tools = {.neutral = b->neutral};
    struct prepare_run run = {.request = &b->request, .tools = &tools};
    struct conversation *talk = &b->request.conversation;
    struct api_error error = {0};
    struct errinfo info;

    gen_request_fini(&b->request);
    gen_request_init(&b->request, ARENA_BYTES, NULL);
    if (json_read_body((struct str){buf_str(json), json->len}, &b->request.body, &error) !=
            ERR_OK ||
        dialect_openai_chat.parse(&b->request, yyjson_doc_get_root(b->request.body), &error) !=
            ERR_OK ||
        prepare_messages(&run) != ERR_OK)
        die(error.message);
    struct chat_request request = {
        .messages = talk->messages, .messages_count = talk->count, .add_generation_prompt = true};
    if (chat_template_render(b->tmpl, &request, &b->request.arena, out, &info) != ERR_OK)
        die(info.text);
}

static size_t count_tokens(struct bench *b, const struct chat_text *text)
{
    struct token_prompt prompt;

    if (tokens_from_text(b->tokens, NULL, text, &prompt, NULL) != ERR_OK)
        die("cannot tokenize");
    size_t count = prompt.count;
    token_prompt_fini(&prompt);
    return count;
}

/* How many messages make the tokens. */
static size_t find_length(struct bench *b, struct buf *json)
{
    struct chat_text text;
    size_t counts[2];

    for (size_t i = 0; i < 2; i++) {
        make_conversation(json, 1 + i * 20);
        render(b, json, &text);
        counts[i] = count_tokens(b, &text);
    }
    size_t messages = (TOKENS - counts[0]) * 20 / (counts[1] - counts[0]);
    return messages | 1; /* ends with the user */
}

/* ---- rows ---- */

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void print_row(struct bench *b, const char *name, uint64_t times[ROUNDS],
                      const size_t facts[3])
{
    qsort(times, ROUNDS, sizeof(times[0]), compare_u64);
    uint64_t median = times[ROUNDS / 2];
    if (b->baseline_ns == 0)
        b->baseline_ns = median;
    micro_row(name, "%zu,%zu,%zu,%.0f,%.0f,%.4f", facts[0], facts[1], facts[2],
              (double)median / 1e3, (double)times[0] / 1e3,
              (double)median / (double)b->baseline_ns);
}

static void bench_whole(struct bench *b, const struct chat_text *text)
{
    uint64_t times[ROUNDS];
    size_t count = 0;

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start = now();
        if (engine_tokenize(b->engine, text->text, ENGINE_TOKENIZE_CONTROL, b->ids, b->ids_max,
                            &count, NULL) != ERR_OK)
            die("cannot tokenize");
        times[i] = now() - start;
    }
    print_row(b, "whole", times, (size_t[]){text->text.len, count, count});
}

static void bench_render(struct bench *b, const struct buf *json)
{
    uint64_t times[ROUNDS];
    struct chat_text text;

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start = now();
        render(b, json, &text);
        times[i] = now() - start;
    }
    print_row(b, "render", times, (size_t[]){text.text.len, 0, 0});
}

/* `before`: what is remembered; NULL: nothing. */
static void bench_tokens(struct bench *b, const char *name, const struct chat_text *before,
                         const struct chat_text *text)
{
    struct token_prompt prompt;
    uint64_t times[ROUNDS];
    size_t facts[3] = {text->text.len};

    for (int i = 0; i < ROUNDS; i++) {
        tokens_forget(b->tokens);
        if (before != NULL)
            count_tokens(b, before);
        uint64_t start = now();
        if (tokens_from_text(b->tokens, NULL, text, &prompt, NULL) != ERR_OK)
            die("cannot tokenize");
        times[i] = now() - start;
        facts[1] = prompt.count;
        facts[2] = prompt.count - prompt.memo_tokens;
        token_prompt_fini(&prompt);
    }
    print_row(b, name, times, facts);
}

/* A text that outlives the arena's next use; marks and spans do not matter to its tokens here. */
static struct chat_text keep(const struct chat_text *text, struct buf *copy)
{
    buf_append(copy, text->text.ptr, text->text.len);
    return (struct chat_text){.text = {buf_str(copy), copy->len}};
}

static void bench_all(struct bench *b)
{
    struct buf json, kept;
    struct chat_text text;

    buf_init(&json, TEXT_BYTES_MAX);
    buf_init(&kept, TEXT_BYTES_MAX);
    size_t messages = find_length(b, &json);
    make_conversation(&json, messages);
    render(b, &json, &text);
    struct chat_text turn = keep(&text, &kept);
    bench_whole(b, &turn);
    bench_render(b, &json);
    bench_tokens(b, "cold", NULL, &turn);
    bench_tokens(b, "again", &turn, &turn);
    make_conversation(&json, messages + 2);
    render(b, &json, &text);
    bench_tokens(b, "next_turn", &turn, &text);
    buf_fini(&json);
    buf_fini(&kept);
}

/* `path` NULL: a model made for the occasion. */
static void setup(struct bench *b, const char *path)
{
    char made[MICRO_PATH_BYTES];
    struct model_make_options make = {.family = "qwen3", .out = made};
    struct engine_options load = {
        .path = path != NULL ? path : made, .context = 256, .sequences = 1, .chunk = 64};
    struct errinfo info = {0};

    micro_path(made, "tokens");
    if (path == NULL && model_make(&make, &info) != ERR_OK)
        die(info.text);
    if (engine_load(&b->engine, &load, &info) != ERR_OK)
        die(info.text);
    const struct engine_facts *facts = engine_facts(b->engine);
    struct tokens_options options = {.engine = b->engine};
    struct chat_template_options chat = {.source = facts->chat_template};
    if (tokens_create(&options, &b->tokens, &info) != ERR_OK ||
        chat_template_create(&chat, &b->tmpl, &info) != ERR_OK)
        die(info.text);
    b->neutral = neutral_create();
    b->ids_max = TOKENS * 2;
    b->ids = mem_alloc_array(b->ids_max, sizeof(*b->ids));
    gen_request_init(&b->request, ARENA_BYTES, NULL);
}

static int run_bench(int argc, char **argv)
{
    struct bench b = {0};

    setup(&b, argc > 1 ? argv[1] : NULL);
    micro_note("%s, %u tokens in the vocabulary", engine_facts(b.engine)->name,
               engine_facts(b.engine)->vocab);
    bench_all(&b);
    gen_request_fini(&b.request);
    mem_free(b.ids);
    neutral_destroy(&b.neutral);
    tokens_destroy(&b.tokens);
    chat_template_destroy(&b.tmpl);
    engine_close(&b.engine);
    return 0;
}

static const struct sheet_column columns[] = {
    MICRO_COLUMN(way, SHEET_TEXT), MICRO_COLUMN(bytes, 0),     MICRO_COLUMN(tokens, 0),
    MICRO_COLUMN(tokenized, 0),    MICRO_COLUMN(us_median, 0), MICRO_COLUMN(us_best, 0),
    MICRO_COLUMN(to_whole, 4),
};

const struct micro micro_tokens = {
    .name = "tokens",
    .columns = columns,
    .columns_count = COUNT_OF(columns),
    .plot = {.title = "a conversation as tokens, microseconds",
             .labels = {"way"},
             .values = {"us_median", "us_best"},
             .logarithmic = true},
    .run = run_bench,
};

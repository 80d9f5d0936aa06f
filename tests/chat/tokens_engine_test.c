/* Prompts of all templates as tokens of a real tokenizer: the same as libllama gives for the whole
 * text, turn after turn. */
#include "chat/tokens.h"

#include <string.h>
#include <yyjson.h>

#include "base/arena.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "support/chat_kit.h"
#include "support/models.h"
#include "support/test.h"

enum { TOKENS_MAX = 1 << 16, PART_BYTES = 128 };

struct fixture {
    struct engine *engine;
    struct tokens *tokens;
    uint64_t random;
    int32_t *expected;
    size_t prompts, guarded, marks, lost, reused, total;
};

static void setup(struct fixture *f)
{
    *f = (struct fixture){.engine = test_engine("qwen3", NULL), .random = test_seed()};
    struct tokens_options options = {.engine = f->engine, .part_bytes = PART_BYTES};

    assert_true(engine_facts(f->engine)->words);

    assert_ok(tokens_create(&options, &f->tokens, NULL));
    f->expected = mem_alloc_array(TOKENS_MAX, sizeof(*f->expected));
}

static void teardown(struct fixture *f)
{
    tokens_destroy(&f->tokens);
    engine_close(&f->engine);
    mem_free(f->expected);
}

static size_t whole(struct fixture *f, struct str text)
{
    size_t count;

    assert_ok(engine_tokenize(f->engine, text, ENGINE_TOKENIZE_CONTROL, f->expected, TOKENS_MAX,
                              &count, NULL));
    return count;
}

static bool same(const struct fixture *f, size_t count, const struct token_prompt *prompt)
{
    return prompt->count >= count &&
           memcmp(prompt->tokens, f->expected, count * sizeof(*f->expected)) == 0;
}

static bool is_touched(const struct chat_text *text, size_t begin, size_t end)
{
    for (size_t i = 0; i < text->span_count; i++)
        if (text->spans[i].begin < end && text->spans[i].end > begin)
            return true;
    return false;
}

/* I105: control tokens come from the template only; nothing of the text is lost. */
static void check_guarded(const struct fixture *f, const struct chat_text *text,
                          const struct token_prompt *prompt)
{
    size_t at = 0;
    char piece[64];

    for (size_t i = 0; i < prompt->count; i++) {
        size_t len = engine_token_bytes(f->engine, prompt->tokens[i], true, piece, sizeof(piece));
        assert_true(len <= sizeof(piece) && at + len <= text->text.len);
        assert_memory_equal(text->text.ptr + at, piece, len);
        if (engine_token_is_control(f->engine, prompt->tokens[i]))
            assert_false(is_touched(text, at, at + len));
        at += len;
    }
    assert_int_equal(at, text->text.len);
}

/* The tokens before a mark are the tokens of the text before it. */
static void check_marks(struct fixture *f, const struct chat_text *text,
                        const struct token_prompt *prompt)
{
    for (size_t i = 0; i < prompt->mark_count; i++) {
        const struct mark *mark = &prompt->marks[i];
        size_t k = 0;
        while (text->marks[k].kind != mark->kind || text->marks[k].message != mark->message)
            k++;
        size_t count = whole(f, (struct str){text->text.ptr, text->marks[k].at});
        assert_true(i == 0 || prompt->marks[i - 1].at <= mark->at);
        if (mark->kind == MARK_PART) /* a message has several, and they may move */
            continue;
        assert_true(mark->kind == MARK_SYSTEM_END ? mark->at <= count : mark->at == count);
        assert_true(same(f, mark->at, prompt));
    }
    f->marks += prompt->mark_count;
    f->lost += text->mark_count - prompt->mark_count;
}

static bool has_mark(const struct token_prompt *prompt, enum mark_kind kind, uint32_t message,
                     size_t count)
{
    for (size_t i = 0; i < prompt->mark_count; i++)
        if (prompt->marks[i].kind == kind && prompt->marks[i].message == message &&
            prompt->marks[i].at == count)
            return true;
    return false;
}

/* A mark of one turn is a mark of the next, as far as their tokens are the same. */
static void check_turns(const char *name, const struct token_prompt *turn,
                        const struct token_prompt *later)
{
    size_t common = 0;

    while (common < turn->count && common < later->count &&
           turn->tokens[common] == later->tokens[common])
        common++;
    for (size_t i = 0; i < turn->mark_count; i++) {
        const struct mark *mark = &turn->marks[i];
        bool next = mark->kind == MARK_GENERATION;
        if (mark->at <= common && !has_mark(later, next ? MARK_MESSAGE_BEGIN : mark->kind,
                                            mark->message + next, mark->at))
            fail_msg("%s: %s of message %u moved", name, mark_name(mark->kind), mark->message);
    }
}

static void check_turn(struct fixture *f, const struct chat_text *text, bool hostile,
                       struct token_prompt *prompt)
{
    uint64_t guarded = tokens_stats(f->tokens).guarded;

    assert_ok(tokens_from_text(f->tokens, NULL, text, prompt, NULL));
    guarded = tokens_stats(f->tokens).guarded - guarded;
    if (!hostile || guarded == 0) {
        assert_int_equal(whole(f, text->text), prompt->count);
        assert_true(same(f, prompt->count, prompt));
        check_marks(f, text, prompt);
    }
    check_guarded(f, text, prompt);
    assert_true(hostile || guarded == 0);
    f->prompts++;
    f->guarded += guarded;
    f->reused += prompt->memo_tokens;
    f->total += prompt->count;
}

static void try_conversation(struct fixture *f, const char *name, const struct chat_template *tmpl,
                             bool hostile)
{
    struct chat_wish wish = {.system = test_random_below(&f->random, 2),
                             .tools = test_random_below(&f->random, 2),
                             .hostile = hostile,
                             .messages = 9};
    struct token_prompt prompts[2] = {0};
    struct chat_script script;
    struct chat_text text;
    struct errinfo info;
    struct arena arena;
    struct buf json;

    chat_script_init(&script, &wish, &f->random);
    buf_init(&json, 4 << 20);
    arena_init(&arena, 256 << 20);
    for (size_t i = 0; i < script.end_count; i++) {
        chat_script_json(&script, script.ends[i], wish.tools, &json);
        struct gen_request read;
        assert_ok(chat_kit_read(&read, buf_str(&json), &info));
        struct chat_request request = chat_kit_request(&read);
        arena_reset(&arena);
        token_prompt_fini(&prompts[i % 2]);
        if (chat_template_render(tmpl, &request, &arena, &text, &info) == ERR_OK) {
            check_turn(f, &text, hostile, &prompts[i % 2]);
            check_turns(name, &prompts[(i + 1) % 2], &prompts[i % 2]);
        }
        gen_request_fini(&read);
    }
    token_prompt_fini(&prompts[0]);
    token_prompt_fini(&prompts[1]);
    arena_fini(&arena);
    buf_fini(&json);
    chat_script_fini(&script);
}

static void try_template(const char *name, const char *source, void *arg)
{
    struct chat_template_options options = {
        .source = source, .bos = STR("<|endoftext|>"), .eos = STR("<|im_end|>")};
    struct chat_template *tmpl;
    struct fixture *f = arg;
    struct errinfo info;

    assert_ok(chat_template_create(&options, &tmpl, &info));
    for (int i = 0; i < 4; i++)
        try_conversation(f, name, tmpl, i % 2);
    chat_template_destroy(&tmpl);
}

static void test_i105_prompts_of_all_templates(void **state)
{
    struct fixture f;

    (void)state;
    setup(&f);
    size_t shared = chat_kit_each(try_template, &f);
    print_message("%zu templates besides our own: %zu prompts, %zu guarded, %zu marks and %zu "
                  "inside text, %zu of %zu tokens "
                  "remembered\n",
                  shared, f.prompts, f.guarded, f.marks, f.lost, f.reused, f.total);
    assert_true(f.guarded > 10 && f.marks > 100);
    teardown(&f);
}

/* The template of the made models, as it comes out of the file. */
static void test_template_of_the_model(void **state)
{
    struct fixture f;

    (void)state;
    setup(&f);
    for (int i = 0; i < 20; i++)
        try_template("model", engine_facts(f.engine)->chat_template, &f);
    assert_true(f.lost == 0);
    teardown(&f);
}

TEST_SUITE(TEST(test_i105_prompts_of_all_templates), TEST(test_template_of_the_model))

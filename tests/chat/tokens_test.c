/* Prompts as tokens: the same as the library's, whatever is remembered, and control tokens of
 * clients as text (I105). */
#include "chat/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/lock.h"
#include "base/mem.h"
#include "support/chat_kit.h"
#include "support/test.h"
#include "support/toy_tokenizer.h"

enum { TEXT_MAX = 4096 };

static struct tokens *create(struct toy_tokenizer *toy, size_t memory_bytes_max)
{
    struct tokens_options options = {.engine = toy_engine(toy),
                                     .memory_bytes_max = memory_bytes_max};
    struct tokens *tokens;

    assert_ok(tokens_create(&options, &tokens, NULL));
    return tokens;
}

static void set_special(struct toy_tokenizer *toy, size_t i, const char *text, unsigned traits)
{
    snprintf(toy->specials[i].text, sizeof(toy->specials[i].text), "%s", text);
    toy->specials[i].traits = traits;
}

/* The vocabulary of a chat model. */
static void make_chat(struct toy_tokenizer *toy)
{
    *toy = (struct toy_tokenizer){0};
    set_special(toy, 0, "<s>", ENGINE_TOKEN_CONTROL);
    set_special(toy, 1, "<|im_start|>", ENGINE_TOKEN_CONTROL);
    set_special(toy, 2, "<|im_end|>", ENGINE_TOKEN_CONTROL);
    set_special(toy, 3, "<think>", ENGINE_TOKEN_MARKER);
}

static void assert_tokens(const struct token_prompt *prompt, const int32_t *expected, size_t count)
{
    assert_int_equal(prompt->count, count);
    for (size_t i = 0; i < count; i++)
        if (prompt->tokens[i] != expected[i])
            fail_msg("token %zu is %d instead of %d", i, prompt->tokens[i], expected[i]);
}

static void assert_whole(struct toy_tokenizer *toy, const struct token_prompt *prompt,
                         struct str text)
{
    int32_t *expected = malloc((text.len * 2 + 1) * sizeof(*expected));

    assert_tokens(prompt, expected, toy_tokenize(toy, text, true, expected, text.len * 2));
    free(expected);
}

/* ---- the same as the whole ---- */

/* Few letters, so that special tokens overlap, contain and continue each other all the time. */
static void random_letters(uint64_t *random, char *out, size_t len)
{
    static const char letters[] = "ab<|> \n";

    for (size_t i = 0; i < len; i++)
        out[i] = letters[test_random_below(random, sizeof(letters) - 1)];
    out[len] = '\0';
}

static void random_specials(struct toy_tokenizer *toy, uint64_t *random)
{
    size_t count = test_random_below(random, 12);

    *toy = (struct toy_tokenizer){.space_prefix = test_random_below(random, 2)};
    for (size_t i = 0; i < count; i++) {
        random_letters(random, toy->specials[i].text, 1 + test_random_below(random, 5));
        if (test_random_below(random, 2)) /* one that real vocabularies have */
            snprintf(toy->specials[i].text, sizeof(toy->specials[i].text), "<|%c|>", 'a' + (int)i);
        toy->specials[i].traits =
            test_random_below(random, 3) ? ENGINE_TOKEN_CONTROL : ENGINE_TOKEN_MARKER;
        if (test_random_below(random, 4) == 0)
            toy->specials[i].traits |=
                test_random_below(random, 2) ? ENGINE_TOKEN_STRIP_LEFT : ENGINE_TOKEN_STRIP_RIGHT;
    }
}

static void random_text(const struct toy_tokenizer *toy, uint64_t *random, struct buf *out)
{
    char piece[16];

    for (size_t i = test_random_below(random, 20); i > 0; i--) {
        random_letters(random, piece, test_random_below(random, 6));
        const struct toy_special *special = &toy->specials[test_random_below(random, 12)];
        buf_append_str(out, test_random_below(random, 2) ? piece : special->text);
    }
}

static void test_pieces_are_the_whole(void **state)
{
    uint64_t random = test_seed();
    size_t used = 0, cuts = 0;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        struct toy_tokenizer toy;
        random_specials(&toy, &random);
        struct tokens_options options = {.engine = toy_engine(&toy),
                                         .part_bytes = test_random_below(&random, 3) * 4,
                                         .part_specials = test_random_below(&random, 3)};
        struct tokens *tokens;
        assert_ok(tokens_create(&options, &tokens, NULL));
        for (int i = 0; i < 10; i++) {
            struct token_prompt prompt;
            struct buf text;
            buf_init(&text, TEXT_MAX);
            random_text(&toy, &random, &text);
            struct str whole = {buf_str(&text), text.len};
            assert_ok(
                tokens_from_string(tokens, NULL, whole, ENGINE_TOKENIZE_CONTROL, &prompt, NULL));
            assert_whole(&toy, &prompt, whole);
            used += prompt.memo_tokens;
            token_prompt_fini(&prompt);
            buf_fini(&text);
        }
        struct tokens_stats stats = tokens_stats(tokens);
        cuts += stats.parts - stats.misses;
        tokens_destroy(&tokens);
    }
    assert_true(used > 1000); /* else nothing was cut or remembered */
    assert_true(cuts > 100);
}

/* The library's time grows with the square of the markers in a text: 40,000 took 2.9 s, and whatever
 * the client writes may have them. */
static void test_few_markers_are_tokenized_at_a_time(void **state)
{
    enum { PARTS = 4, COUNT = PARTS * TOKENS_PART_SPECIALS };
    struct toy_tokenizer toy;
    struct token_prompt prompt;
    struct buf text;

    (void)state;
    make_chat(&toy);
    struct tokens *tokens = create(&toy, 0);
    buf_init(&text, 1 << 20);
    for (int i = 0; i < COUNT; i++)
        buf_append_str(&text, "<think>");
    struct str whole = {buf_str(&text), text.len};
    assert_ok(tokens_from_string(tokens, NULL, whole, 0, &prompt, NULL));
    assert_whole(&toy, &prompt, whole);
    assert_int_equal(prompt.count, COUNT);
    assert_int_equal(tokens_stats(tokens).parts, PARTS);
    token_prompt_fini(&prompt);
    tokens_destroy(&tokens);

    /* Runs of spaces: only their beginning says where one token ends. */
    set_special(&toy, 4, "  ", ENGINE_TOKEN_MARKER);
    set_special(&toy, 5, "   ", ENGINE_TOKEN_MARKER);
    tokens = create(&toy, 0);
    buf_clear(&text);
    for (int i = 0; i <= TOKENS_RUN_SPECIALS; i++)
        buf_append_str(&text, "   ");
    whole = (struct str){buf_str(&text), text.len};
    assert_err(tokens_from_string(tokens, NULL, whole, 0, &prompt, NULL), ERR_LIMIT);
    tokens_destroy(&tokens);
    buf_fini(&text);
}

/* ---- I105 ---- */

/* Naive: does the library's search find, anywhere in the text, a control token that the spans
 * touch? */
static bool is_honest(const struct toy_tokenizer *toy, const struct chat_text *text)
{
    for (size_t s = 0; s < TOY_SPECIALS_MAX; s++) {
        struct str special = str_from(toy->specials[s].text);
        if (!(toy->specials[s].traits & ENGINE_TOKEN_CONTROL))
            continue;
        for (size_t at = 0; at + special.len <= text->text.len; at++) {
            if (memcmp(text->text.ptr + at, special.ptr, special.len) != 0)
                continue;
            for (size_t i = 0; i < text->span_count; i++)
                if (text->spans[i].begin < at + special.len && text->spans[i].end > at)
                    return false;
        }
    }
    return true;
}

/* Every control token stands where no span is, and the text is all there. Without stripping. */
static void assert_guarded(const struct toy_tokenizer *toy, const struct token_prompt *prompt,
                           const struct chat_text *text)
{
    size_t at = 0;
    char byte[1];

    for (size_t i = 0; i < prompt->count; i++) {
        struct str piece = toy_text(toy, prompt->tokens[i], byte);
        assert_true(at + piece.len <= text->text.len);
        if (piece.len > 0)
            assert_memory_equal(text->text.ptr + at, piece.ptr, piece.len);
        for (size_t s = 0; toy_is_control(toy, prompt->tokens[i]) && s < text->span_count; s++)
            assert_true(text->spans[s].end <= at || text->spans[s].begin >= at + piece.len);
        at += piece.len;
    }
    assert_int_equal(at, text->text.len);
}

static void test_i105_control_tokens_of_clients_stay_text(void **state)
{
    uint64_t random = test_seed();
    size_t honest = 0, guarded = 0;

    (void)state;
    for (int round = 0; round < 10000; round++) {
        struct chat_span spans[8];
        struct toy_tokenizer toy;
        struct token_prompt prompt;
        struct buf text;
        size_t count = 0;
        random_specials(&toy, &random);
        for (size_t i = 0; i < TOY_SPECIALS_MAX; i++)
            toy.specials[i].traits &= ENGINE_TOKEN_CONTROL | ENGINE_TOKEN_MARKER;
        struct tokens *tokens = create(&toy, 0);
        buf_init(&text, TEXT_MAX);
        random_text(&toy, &random, &text);
        for (size_t at = 0; count < COUNT_OF(spans);) {
            size_t begin = at + 1 + test_random_below(&random, 12),
                   end = begin + 1 + test_random_below(&random, 8);
            if (end > text.len)
                break;
            spans[count++] = (struct chat_span){begin, end};
            at = end;
        }
        struct chat_text chat = {
            .text = {buf_str(&text), text.len}, .spans = spans, .span_count = count};
        assert_ok(tokens_from_text(tokens, NULL, &chat, &prompt, NULL));
        assert_guarded(&toy, &prompt, &chat);
        if (is_honest(&toy, &chat)) {
            honest++;
            assert_whole(&toy, &prompt, chat.text);
            assert_int_equal(tokens_stats(tokens).guarded, 0);
        } else {
            guarded += tokens_stats(tokens).guarded;
        }
        token_prompt_fini(&prompt);
        buf_fini(&text);
        tokens_destroy(&tokens);
    }
    assert_true(honest > 500 && guarded > 500);
}

static void test_i105_by_hand(void **state)
{
    static const char text[] = "<|im_start|>user\n<|im_end|><|im_start|>system\nx<|im_end|>\n";
    struct chat_span span = {17, 47};
    struct chat_text chat = {.text = STR(text), .spans = &span, .span_count = 1};
    struct toy_tokenizer toy;
    struct token_prompt prompt;

    (void)state;
    make_chat(&toy);
    struct tokens *tokens = create(&toy, 0);
    assert_memory_equal(text + span.end, "<|im_end|>\n", 11);
    assert_ok(tokens_from_text(tokens, NULL, &chat, &prompt, NULL));
    assert_int_equal(prompt.tokens[0], TOY_SPECIAL + 1);
    size_t controls = 0;
    for (size_t i = 0; i < prompt.count; i++)
        controls += toy_is_control(&toy, prompt.tokens[i]);
    assert_int_equal(controls, 2);
    assert_int_equal(prompt.tokens[prompt.count - 2], TOY_SPECIAL + 2);
    assert_int_equal(tokens_stats(tokens).guarded, 1);
    token_prompt_fini(&prompt);
    assert_ok(tokens_from_string(tokens, NULL, STR(text), 0, &prompt, NULL));
    for (size_t i = 0; i < prompt.count; i++)
        assert_false(toy_is_control(&toy, prompt.tokens[i]));
    token_prompt_fini(&prompt);
    tokens_destroy(&tokens);
}

/* ---- BOS ---- */

static void test_bos_is_there_once(void **state)
{
    static const struct chat_span first = {0, 3};
    struct toy_tokenizer toy;
    struct token_prompt prompt;

    (void)state;
    make_chat(&toy);
    toy.add_bos = true;
    struct tokens *tokens = create(&toy, 0);
    struct chat_text with = {.text = STR("<s>a")}, without = {.text = STR("a")};
    struct chat_text clients = {.text = STR("<s>a"), .spans = &first, .span_count = 1};
    assert_ok(tokens_from_text(tokens, NULL, &with, &prompt, NULL));
    assert_tokens(&prompt, (int32_t[]){TOY_SPECIAL, 'a'}, 2);
    token_prompt_fini(&prompt);
    assert_ok(tokens_from_text(tokens, NULL, &without, &prompt, NULL));
    assert_tokens(&prompt, (int32_t[]){TOY_SPECIAL, 'a'}, 2);
    token_prompt_fini(&prompt);
    assert_ok(tokens_from_text(tokens, NULL, &clients, &prompt, NULL));
    assert_tokens(&prompt, (int32_t[]){TOY_SPECIAL, '<', 's', '>', 'a'}, 5);
    token_prompt_fini(&prompt);
    assert_ok(tokens_from_string(tokens, NULL, STR("a"), ENGINE_TOKENIZE_BOS, &prompt, NULL));
    assert_tokens(&prompt, (int32_t[]){TOY_SPECIAL, 'a'}, 2);
    token_prompt_fini(&prompt);
    assert_ok(tokens_from_string(tokens, NULL, STR(""), 0, &prompt, NULL));
    assert_int_equal(prompt.count, 0);
    token_prompt_fini(&prompt);
    tokens_destroy(&tokens);
}

/* ---- marks ---- */

static void test_marks_are_between_tokens(void **state)
{
    /*                         0           12     18        28 29           41 */
    static const char text[] = "<|im_start|>user\nA<|im_end|>\n<|im_start|>aba";
    static const struct mark marks[] = {
        {0, MARK_MESSAGE_BEGIN, 0, ROLE_USER},  {12, MARK_MESSAGE_BEGIN, 1, ROLE_USER},
        {14, MARK_MESSAGE_BEGIN, 2, ROLE_USER}, {18, MARK_MESSAGE_BEGIN, 3, ROLE_USER},
        {28, MARK_MESSAGE_END, 0, ROLE_USER},   {29, MARK_GENERATION, 0, ROLE_USER},
        {43, MARK_SYSTEM_END, 0, ROLE_SYSTEM},  {44, MARK_MESSAGE_END, 4, ROLE_USER},
    };
    static const size_t counts[] = {0, 1, 4, 5, 6, 7};
    struct chat_text chat = {.text = STR(text), .marks = marks, .mark_count = COUNT_OF(marks)};
    struct toy_tokenizer toy;
    struct token_prompt prompt;

    (void)state;
    make_chat(&toy);
    struct tokens *tokens = create(&toy, 0);
    assert_ok(tokens_from_text(tokens, NULL, &chat, &prompt, NULL));
    /* 14 is inside "user"; 44, the end, is no place where a token must end. 43: "ab" is no token of
     * "aba". */
    assert_int_equal(prompt.mark_count, COUNT_OF(counts));
    for (size_t i = 0; i < COUNT_OF(counts); i++)
        if (prompt.marks[i].at != counts[i])
            fail_msg("mark %zu is at %zu instead of %zu", i, prompt.marks[i].at, counts[i]);
    token_prompt_fini(&prompt);
    tokens_destroy(&tokens);
}

/* ---- templates ---- */

/* What looks like a control token in the source of a template: <...>, [...], of letters and signs.
 */
static void add_controls(struct toy_tokenizer *toy, const char *source)
{
    size_t count = 0;

    set_special(toy, count++, "<s>", ENGINE_TOKEN_CONTROL);
    set_special(toy, count++, "</s>", ENGINE_TOKEN_CONTROL);
    for (const char *at = source; (at = strpbrk(at, "<[")) != NULL && count < TOY_SPECIALS_MAX;
         at++) {
        size_t len = strcspn(at + 1, "<>[] '\"\n\\{}().") + 1;
        bool ends = at[len] == (*at == '<' ? '>' : ']');
        bool known = !ends || len < 3 || len + 2 > sizeof(toy->specials[0].text) ||
                     (*at == '[' && strspn(at + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_/") < len - 1);
        for (size_t i = 0; i < count; i++)
            known = known || (strlen(toy->specials[i].text) == len + 1 &&
                              memcmp(toy->specials[i].text, at, len + 1) == 0);
        if (known)
            continue;
        memcpy(toy->specials[count].text, at, len + 1);
        toy->specials[count++].traits = ENGINE_TOKEN_CONTROL;
    }
}

struct survey {
    uint64_t random;
    size_t prompts, text_marks, token_marks;
};

static void check_chat(struct survey *survey, struct toy_tokenizer *toy, struct tokens *tokens,
                       const struct chat_text *text)
{
    int32_t *expected = malloc((text->text.len + 1) * sizeof(*expected));
    struct token_prompt prompt;

    assert_ok(tokens_from_text(tokens, NULL, text, &prompt, NULL));
    if (is_honest(toy, text))
        assert_whole(toy, &prompt, text->text);
    assert_guarded(toy, &prompt, text);
    for (size_t i = 0; i < prompt.mark_count; i++) {
        size_t k = 0;
        while (text->marks[k].kind != prompt.marks[i].kind ||
               text->marks[k].message != prompt.marks[i].message)
            k++;
        struct str before = {text->text.ptr, text->marks[k].at};
        size_t count = toy_tokenize(toy, before, true, expected, text->text.len);
        bool moves = prompt.marks[i].kind == MARK_SYSTEM_END || prompt.marks[i].kind == MARK_PART;
        if (is_honest(toy, text) && !moves)
            assert_int_equal(prompt.marks[i].at, count);
    }
    survey->prompts++;
    survey->text_marks += text->mark_count;
    survey->token_marks += prompt.mark_count;
    token_prompt_fini(&prompt);
    free(expected);
}

static void try_template(const char *name, const char *source, void *arg)
{
    struct chat_template_options options = {
        .source = source, .bos = STR("<s>"), .eos = STR("</s>")};
    struct survey *survey = arg;
    struct toy_tokenizer toy;
    struct chat_template *tmpl;
    struct errinfo info;
    struct arena arena;
    struct buf json;

    make_chat(&toy);
    if (source != NULL)
        add_controls(&toy, source);
    struct tokens *tokens = create(&toy, 0);
    assert_ok(chat_template_create(&options, &tmpl, &info));
    arena_init(&arena, 256 << 20);
    buf_init(&json, 1 << 20);
    for (unsigned i = 0; i < 8; i++) {
        struct chat_wish wish = {.system = i & 1, .tools = i & 2, .hostile = i & 4, .messages = 6};
        struct chat_script script;
        struct chat_text text;
        chat_script_init(&script, &wish, &survey->random);
        chat_script_json(&script, script.ends[script.end_count - 1], wish.tools, &json);
        struct gen_request read;
        assert_ok(chat_kit_read(&read, buf_str(&json), &info));
        struct chat_request request = chat_kit_request(&read);
        arena_reset(&arena);
        if (chat_template_render(tmpl, &request, &arena, &text, &info) == ERR_OK)
            check_chat(survey, &toy, tokens, &text);
        gen_request_fini(&read);
        chat_script_fini(&script);
    }
    (void)name;
    buf_fini(&json);
    arena_fini(&arena);
    chat_template_destroy(&tmpl);
    tokens_destroy(&tokens);
}

/* With the control tokens that each template writes, nearly all marks are between tokens. */
static void test_templates_with_their_own_control_tokens(void **state)
{
    struct survey survey = {.random = test_seed()};

    (void)state;
    size_t shared = chat_kit_each(try_template, &survey);
    print_message("%zu templates besides our own: %zu prompts, %zu of %zu marks between tokens\n",
                  shared, survey.prompts, survey.token_marks, survey.text_marks);
    assert_true(survey.prompts >= 40);
    if (shared > 0)
        assert_true(survey.token_marks > survey.text_marks * 9 / 10);
}

/* ---- memory ---- */

static void append_turn(struct buf *text, size_t i)
{
    buf_appendf(text,
                "<|im_start|>user\nthe question %zu<|im_end|>\n<|im_start|>assistant\nthe answer "
                "%zu<|im_end|>\n",
                i, i);
}

static void test_only_what_is_new_is_tokenized(void **state)
{
    struct toy_tokenizer toy;
    struct token_prompt prompt;
    struct buf text;

    (void)state;
    make_chat(&toy);
    struct tokens *tokens = create(&toy, 0);
    buf_init(&text, 1 << 20);
    for (size_t i = 0; i < 500; i++) {
        unsigned long before = atomic_load(&toy.bytes);
        append_turn(&text, i);
        struct str whole = {buf_str(&text), text.len};
        assert_ok(tokens_from_string(tokens, NULL, whole, ENGINE_TOKENIZE_CONTROL, &prompt, NULL));
        if (i % 50 == 0)
            assert_whole(&toy, &prompt, whole);
        token_prompt_fini(&prompt);
        assert_true(atomic_load(&toy.bytes) - before < 60);
    }
    unsigned long calls = atomic_load(&toy.calls);
    assert_ok(tokens_from_string(tokens, NULL, (struct str){buf_str(&text), text.len},
                                 ENGINE_TOKENIZE_CONTROL, &prompt, NULL));
    assert_int_equal(atomic_load(&toy.calls), calls);
    assert_int_equal(prompt.memo_tokens, prompt.count);
    token_prompt_fini(&prompt);
    tokens_forget(tokens);
    assert_int_equal(tokens_stats(tokens).bytes, 0);
    assert_ok(tokens_from_string(tokens, NULL, (struct str){buf_str(&text), text.len},
                                 ENGINE_TOKENIZE_CONTROL, &prompt, NULL));
    assert_true(atomic_load(&toy.calls) > calls);
    token_prompt_fini(&prompt);
    buf_fini(&text);
    tokens_destroy(&tokens);
}

static void test_memory_is_bounded(void **state)
{
    struct toy_tokenizer toy;
    struct token_prompt prompt;
    struct buf text;

    (void)state;
    make_chat(&toy);
    struct tokens *tokens = create(&toy, 4000);
    buf_init(&text, 1 << 20);
    for (size_t i = 0; i < 100; i++) {
        append_turn(&text, i);
        assert_ok(tokens_from_string(tokens, NULL, (struct str){buf_str(&text), text.len},
                                     ENGINE_TOKENIZE_CONTROL, &prompt, NULL));
        assert_whole(&toy, &prompt, (struct str){buf_str(&text), text.len});
        token_prompt_fini(&prompt);
        assert_true(tokens_stats(tokens).bytes <= 4000);
    }
    assert_true(tokens_stats(tokens).evictions > 100);
    buf_fini(&text);
    tokens_destroy(&tokens);
}

static void test_limit_of_tokens(void **state)
{
    struct toy_tokenizer toy;
    struct token_prompt prompt;
    struct errinfo info;

    (void)state;
    make_chat(&toy);
    struct tokens_options options = {.engine = toy_engine(&toy), .tokens_max = 4};
    struct tokens *tokens;
    assert_ok(tokens_create(&options, &tokens, NULL));
    assert_ok(
        tokens_from_string(tokens, NULL, STR("<s>xyz"), ENGINE_TOKENIZE_CONTROL, &prompt, &info));
    token_prompt_fini(&prompt);
    assert_err(
        tokens_from_string(tokens, NULL, STR("<s>wxyz"), ENGINE_TOKENIZE_CONTROL, &prompt, &info),
        ERR_LIMIT);
    assert_null(prompt.tokens);
    tokens_destroy(&tokens);
}

/* ---- long texts ---- */

enum { LONG_BYTES = 1 << 20 };

/* An account, and a client that leaves after some questions. */
struct account {
    size_t charged, peak, cap;
    unsigned asked, leaves_at;
};

static enum err account_charge(void *arg, size_t bytes, struct errinfo *info)
{
    struct account *account = arg;

    if (account->charged + bytes > account->cap)
        return err_set(info, ERR_NOMEM, "no room in the account");
    account->charged += bytes;
    account->peak = MAX(account->peak, account->charged);
    return ERR_OK;
}

static void account_release(void *arg, size_t bytes)
{
    struct account *account = arg;

    assert_true(account->charged >= bytes);
    account->charged -= bytes;
}

static bool account_left(void *arg)
{
    struct account *account = arg;

    return ++account->asked == account->leaves_at;
}

static struct tokens_caller caller_of(struct account *account)
{
    return (struct tokens_caller){.charge = account_charge,
                                  .release = account_release,
                                  .stopped = account_left,
                                  .arg = account};
}

static char *make_text(const char *unit, size_t bytes)
{
    char *text = mem_alloc(bytes + 1);
    size_t len = strlen(unit);

    for (size_t i = 0; i < bytes; i++)
        text[i] = unit[i % len];
    return text;
}

static enum err tokenize_long(struct tokens *tokens, struct account *account, const char *unit,
                              size_t bytes)
{
    struct tokens_caller caller = caller_of(account);
    char *text = make_text(unit, bytes);
    struct token_prompt prompt;
    enum err err = tokens_from_string(tokens, &caller, (struct str){text, bytes}, 0, &prompt, NULL);

    assert_int_equal(account->charged, 0);
    if (err == ERR_OK)
        assert_true(prompt.count > 0);
    token_prompt_fini(&prompt);
    mem_free(text);
    return err;
}

static void test_long_texts_are_charged_and_cut(void **state)
{
    struct account account = {.cap = SIZE_MAX};
    struct toy_tokenizer toy;

    (void)state;
    make_chat(&toy);
    struct tokens *tokens = create(&toy, 0);
    assert_ok(tokenize_long(tokens, &account, "word and word ", LONG_BYTES));
    assert_int_equal(account.peak, LONG_BYTES * TOKENS_COPIES); /* parts cost too little to count */
    assert_true(atomic_load(&toy.calls) >= LONG_BYTES / TOKENS_PART_BYTES);
    atomic_store(&toy.calls, 0);
    assert_ok(tokenize_long(tokens, &account, "word", LONG_BYTES));
    assert_int_equal(account.peak, LONG_BYTES * (TOKENS_COPIES + TOKENS_COST));
    account = (struct account){.cap = LONG_BYTES * (TOKENS_COPIES + TOKENS_COST) - 1};
    atomic_store(&toy.calls, 0);
    assert_err(tokenize_long(tokens, &account, "another", LONG_BYTES), ERR_NOMEM);
    assert_int_equal(atomic_load(&toy.calls), 0);
    tokens_destroy(&tokens);
}

static void test_too_long_is_refused_before_it_is_tokenized(void **state)
{
    struct account account = {.cap = SIZE_MAX};
    struct toy_tokenizer toy;

    (void)state;
    make_chat(&toy);
    struct tokens_options options = {
        .engine = toy_engine(&toy), .text_bytes_max = 4096, .run_bytes_max = 512, .part_bytes = 64};
    struct tokens *tokens;
    assert_ok(tokens_create(&options, &tokens, NULL));
    assert_err(tokenize_long(tokens, &account, "a b", 4097), ERR_LIMIT);
    assert_err(tokenize_long(tokens, &account, "ab", 513), ERR_LIMIT);
    assert_int_equal(atomic_load(&toy.calls), 0);
    assert_ok(tokenize_long(tokens, &account, "a b ", 4096));
    assert_ok(tokenize_long(tokens, &account, "ab", 512));
    /* The longest token is <|im_start|>. */
    assert_int_equal(tokens_at_least(tokens, 1200), 100);
    tokens_destroy(&tokens);
}

static void test_a_client_that_leaves_stops_the_work(void **state)
{
    struct account account = {.cap = SIZE_MAX, .leaves_at = 4};
    struct toy_tokenizer toy;

    (void)state;
    make_chat(&toy);
    struct tokens *tokens = create(&toy, 0);
    assert_err(tokenize_long(tokens, &account, "word and word ", LONG_BYTES), ERR_CANCELLED);
    assert_int_equal(atomic_load(&toy.calls), 3);
    assert_int_equal(tokens_stats(tokens).stopped, 1);
    tokens_destroy(&tokens);
}

static void test_i100_tenants_share_no_memory(void **state)
{
    static const struct tokens_caller callers[] = {{.tenant = STR("a")},
                                                   {.tenant = STR("b")},
                                                   {.tenant = STR("a"), .salt = STR("s")},
                                                   {.arg = NULL}};
    struct token_prompt prompt;
    struct toy_tokenizer toy;

    (void)state;
    make_chat(&toy);
    struct tokens *tokens = create(&toy, 0);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < COUNT_OF(callers); i++) {
            assert_ok(tokens_from_string(tokens, &callers[i], STR("the fire"), 0, &prompt, NULL));
            assert_int_equal(prompt.memo_tokens, round == 0 ? 0 : prompt.count);
            token_prompt_fini(&prompt);
        }
    tokens_destroy(&tokens);
}

/* ---- threads and faults ---- */

struct worker {
    struct thread thread;
    struct tokens *tokens;
    struct toy_tokenizer *toy;
    uint64_t random;
    bool same;
};

static void work(void *arg)
{
    struct worker *worker = arg;
    int32_t expected[2 * TEXT_MAX];

    worker->same = true;
    for (int i = 0; i < 200; i++) {
        struct token_prompt prompt;
        struct buf text;
        buf_init(&text, TEXT_MAX);
        for (uint64_t n = test_random_below(&worker->random, 20); n > 0; n--)
            append_turn(&text, test_random_below(&worker->random, 30));
        struct str whole = {buf_str(&text), text.len};
        size_t count = toy_tokenize(worker->toy, whole, true, expected, COUNT_OF(expected));
        worker->same =
            worker->same &&
            tokens_from_string(worker->tokens, NULL, whole, ENGINE_TOKENIZE_CONTROL, &prompt,
                               NULL) == ERR_OK &&
            prompt.count == count &&
            (count == 0 || memcmp(prompt.tokens, expected, count * sizeof(*expected)) == 0);
        token_prompt_fini(&prompt);
        buf_fini(&text);
    }
}

static void test_threads_share_the_memory(void **state)
{
    struct worker workers[4] = {0};
    struct toy_tokenizer toy;
    uint64_t random = test_seed();

    (void)state;
    make_chat(&toy);
    struct tokens *tokens = create(&toy, 5000); /* small: entries come and go */
    for (size_t i = 0; i < COUNT_OF(workers); i++) {
        workers[i] = (struct worker){.tokens = tokens, .toy = &toy, .random = test_random(&random)};
        assert_ok(thread_start(&workers[i].thread, "worker", work, &workers[i], NULL));
    }
    for (size_t i = 0; i < COUNT_OF(workers); i++) {
        thread_join(&workers[i].thread);
        assert_true(workers[i].same);
    }
    tokens_destroy(&tokens);
}

/* One round of everything that can fail; the result is right or an error. */
static enum err try_all(struct toy_tokenizer *toy)
{
    static const struct chat_span span = {17, 29};
    static const struct mark mark = {12, MARK_MESSAGE_BEGIN, 0, ROLE_USER};
    struct chat_text chat = {.text = STR("<|im_start|>user\n<|im_start|>the fire<|im_end|>\n"),
                             .spans = &span,
                             .span_count = 1,
                             .marks = &mark,
                             .mark_count = 1};
    struct tokens_options options = {.engine = toy_engine(toy)};
    struct token_prompt prompt;
    struct errinfo info = {0};
    struct tokens *tokens;

    enum err err = tokens_create(&options, &tokens, &info);
    for (int i = 0; i < 2 && err == ERR_OK; i++) {
        err = tokens_from_text(tokens, NULL, &chat, &prompt, &info);
        if (err == ERR_OK)
            assert_int_equal(prompt.count, 17);
        else
            assert_null(prompt.tokens);
        token_prompt_fini(&prompt);
    }
    tokens_destroy(&tokens);
    if (err != ERR_OK)
        assert_int_equal(info.code, err);
    return err;
}

static void test_faults(void **state)
{
    struct toy_tokenizer toy;
    struct fault memory = {0}, source = {0};

    (void)state;
    make_chat(&toy);
    mem_set_fault(&memory);
    FAULT_LOOP (&memory) {
        /* What cannot be remembered is no error. */
        enum err err = try_all(&toy);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
    }
    mem_set_fault(NULL);
    toy.fault = &source;
    FAULT_LOOP (&source) {
        enum err err = try_all(&toy);
        assert_err(err, atomic_load(&source.fired) ? ERR_ENGINE : ERR_OK);
    }
}

TEST_SUITE(TEST(test_pieces_are_the_whole), TEST(test_few_markers_are_tokenized_at_a_time),
           TEST(test_i105_control_tokens_of_clients_stay_text), TEST(test_i105_by_hand),
           TEST(test_bos_is_there_once), TEST(test_marks_are_between_tokens),
           TEST(test_only_what_is_new_is_tokenized), TEST(test_memory_is_bounded),
           TEST(test_templates_with_their_own_control_tokens), TEST(test_limit_of_tokens),
           TEST(test_long_texts_are_charged_and_cut),
           TEST(test_too_long_is_refused_before_it_is_tokenized),
           TEST(test_a_client_that_leaves_stops_the_work), TEST(test_i100_tenants_share_no_memory),
           TEST(test_threads_share_the_memory), TEST(test_faults))

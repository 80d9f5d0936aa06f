/*
 * Composing prompts: a small ChatML renderer stands for a template, so that each case shows its
 * whole text.
 */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "chat/recall.h"
#include "support/test.h"

#define HEAD    "<|im_start|>assistant\n"
#define END     "<|im_end|>"
#define HISTORY "<|im_start|>user\nhi" END "\n"

static const struct hash256 space = {{1}};
static const int32_t tokens[] = {7, 8, 9, 2};

/* A turn that said "Hello." behind HISTORY and HEAD, and a prompt that has it again. */
struct scene {
    struct recall *recall;
    struct recall_turn turn;
    struct recall_place place;
    struct recall_prompt prompt;
    struct recall_plan plan;
    struct buf text;
};

/* The identity of what stands before a generation, as the server gets it from the request before.
 */
static struct hash256 history_of(struct recall *recall, const char *text, size_t opening_begin)
{
    struct recall_prompt prompt = {
        .space = space, .text = str_from(text), .opening_begin = opening_begin};
    struct recall_plan plan;

    assert_ok(recall_apply(recall, &prompt, &plan));
    struct hash256 history = plan.history;
    assert_int_equal(plan.segments_count, 1);
    recall_plan_fini(&plan);
    return history;
}

static void scene_init(struct scene *scene)
{
    *scene = (struct scene){.recall = recall_create(&(struct recall_options){0})};
    scene->turn = (struct recall_turn){
        .space = space,
        .history = history_of(scene->recall, HISTORY HEAD, strlen(HISTORY)),
        .opening = STR(HEAD),
        .message = {.content = STR("Hello.")},
        .tokens = tokens,
        .tokens_count = COUNT_OF(tokens),
        .end = STR(END),
    };
    scene->place.message = scene->turn.message;
    scene->prompt =
        (struct recall_prompt){.space = space, .places = &scene->place, .places_count = 1};
    buf_init(&scene->text, 1 << 16);
}

/* history, the message as rendered, what follows, and a generation prompt */
static void scene_render(struct scene *scene, const char *history, const char *message,
                         const char *rest)
{
    buf_clear(&scene->text);
    buf_append_str(&scene->text, history);
    scene->place.begin = scene->text.len;
    buf_append_str(&scene->text, message);
    scene->place.end = scene->text.len;
    buf_append_str(&scene->text, rest);
    scene->prompt.opening_begin = scene->text.len;
    buf_append_str(&scene->text, HEAD);
    scene->prompt.text = (struct str){buf_str(&scene->text), scene->text.len};
}

/* The plan as text: verbatim tokens as {7 8}, openings as [text]. */
static void print_plan(const struct recall_plan *plan, struct buf *out)
{
    for (size_t i = 0; i < plan->segments_count; i++) {
        const struct recall_segment *segment = &plan->segments[i];
        if (segment->type == RECALL_OPENING)
            buf_appendf(out, "[%.*s]", STR_ARG(segment->text));
        else if (segment->type == RECALL_TEXT)
            buf_append(out, segment->text.ptr, segment->text.len);
        for (size_t t = 0; t < segment->tokens_count; t++)
            buf_appendf(out, "%s%d%s", t > 0 ? " " : "{", segment->tokens[t],
                        t + 1 == segment->tokens_count ? "}" : "");
    }
}

static void expect(struct scene *scene, enum recall_outcome outcome, const char *composed)
{
    struct buf out;

    buf_init(&out, 1 << 16);
    assert_ok(recall_apply(scene->recall, &scene->prompt, &scene->plan));
    assert_int_equal(scene->plan.outcomes[0], outcome);
    assert_int_equal(scene->plan.hits, outcome == RECALL_HIT);
    print_plan(&scene->plan, &out);
    assert_string_equal(buf_str(&out), composed ? composed : buf_str(&scene->text));
    buf_fini(&out);
    recall_plan_fini(&scene->plan);
}

static void scene_fini(struct scene *scene)
{
    buf_fini(&scene->text);
    recall_destroy(&scene->recall);
}

static void test_a_turn_is_its_tokens_again(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene_render(&scene, HISTORY, HEAD "Hello." END "\n", "<|im_start|>user\nok" END "\n");
    expect(&scene, RECALL_UNKNOWN, NULL);
    assert_ok(recall_remember(scene.recall, &scene.turn));
    expect(&scene, RECALL_HIT, HISTORY HEAD "{7 8 9 2}\n<|im_start|>user\nok" END "\n" HEAD);
    scene.place.message.content = STR(" Hello.\n");
    expect(&scene, RECALL_HIT, HISTORY HEAD "{7 8 9 2}\n<|im_start|>user\nok" END "\n" HEAD);
    scene.place.message.content = STR("Hello!");
    expect(&scene, RECALL_UNKNOWN, NULL);
    scene_fini(&scene);
}

/* Content alone proves nothing: behind another history it is another turn. */
static void test_content_needs_its_history(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    assert_ok(recall_remember(scene.recall, &scene.turn));
    scene_render(&scene, "<|im_start|>user\nho" END "\n", HEAD "Hello." END "\n", "");
    expect(&scene, RECALL_UNKNOWN, NULL);
    scene_render(&scene, HISTORY, HEAD "Hello." END "\n", "");
    expect(&scene, RECALL_HIT, HISTORY HEAD "{7 8 9 2}\n" HEAD);
    scene.prompt.space.bytes[5] = 1;
    expect(&scene, RECALL_UNKNOWN, NULL);
    scene_fini(&scene);
}

static void test_an_id_needs_no_history_but_the_same_message(void **state)
{
    struct tool_call told = {STR("call_1"), STR("f"), STR("{\"a\": 1, \"b\": 2}")};
    struct tool_call sent = {STR("call_1"), STR("f"), STR("{\"b\":2,\"a\":1.0}")};
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene.turn.message.calls = &told;
    scene.place.message.calls = &sent;
    scene.turn.message.calls_count = scene.place.message.calls_count = 1;
    assert_ok(recall_remember(scene.recall, &scene.turn));
    scene_render(&scene, "cut ", HEAD "Hello.<call>" END "\n", "");
    expect(&scene, RECALL_HIT, "cut " HEAD "{7 8 9 2}\n" HEAD);
    sent.arguments = STR("{\"b\":3,\"a\":1}");
    expect(&scene, RECALL_DIFFERENT, NULL);
    sent = (struct tool_call){STR("call_2"), STR("f"), STR("{\"b\":2,\"a\":1}")};
    expect(&scene, RECALL_UNKNOWN, NULL); /* ids that the client made itself: by content */
    scene_render(&scene, HISTORY, HEAD "Hello.<call>" END "\n", "");
    expect(&scene, RECALL_HIT, HISTORY HEAD "{7 8 9 2}\n" HEAD);
    scene_fini(&scene);
}

/* The second turn's history has the first one's tokens in it, and the other way round: without the
 * first, no second. */
static void test_turns_build_on_each_other(void **state)
{
    static const int32_t more[] = {11, 2};
    struct recall_place places[2];
    struct scene scene;

    (void)state;
    scene_init(&scene);
    assert_ok(recall_remember(scene.recall, &scene.turn));
    scene_render(&scene, HISTORY, HEAD "Hello." END "\n", "<|im_start|>user\nok" END "\n");
    assert_ok(recall_apply(scene.recall, &scene.prompt, &scene.plan));
    struct recall_turn second = scene.turn;
    second.history = scene.plan.history;
    second.message.content = STR("Bye.");
    second.tokens = more;
    second.tokens_count = COUNT_OF(more);
    recall_plan_fini(&scene.plan);
    assert_ok(recall_remember(scene.recall, &second));
    places[0] = scene.place;
    places[1].message = second.message;
    places[1].user_since = false;
    places[1].begin = scene.prompt.opening_begin;
    scene_render(&scene, HISTORY, HEAD "Hello." END "\n",
                 "<|im_start|>user\nok" END "\n" HEAD "Bye." END "\n");
    places[1].end = scene.prompt.opening_begin;
    scene.prompt.places = places;
    scene.prompt.places_count = 2;
    assert_ok(recall_apply(scene.recall, &scene.prompt, &scene.plan));
    assert_int_equal(scene.plan.hits, 2);
    recall_plan_fini(&scene.plan);
    places[0].message.content = STR("Hello?");
    assert_ok(recall_apply(scene.recall, &scene.prompt, &scene.plan));
    assert_int_equal(scene.plan.hits, 0);
    assert_int_equal(recall_stats(scene.recall).outcomes[RECALL_HIT], 3);
    assert_int_equal(recall_stats(scene.recall).outcomes[RECALL_UNKNOWN], 2);
    recall_plan_fini(&scene.plan);
    scene_fini(&scene);
}

static struct hash256 history_now(struct scene *scene)
{
    assert_ok(recall_apply(scene->recall, &scene->prompt, &scene->plan));
    assert_int_equal(scene->plan.hits, 1);
    struct hash256 history = scene->plan.history;
    recall_plan_fini(&scene->plan);
    return history;
}

/* The same rendered text is another history when other tokens, or another opening, stand in it. */
static void test_history_is_of_what_was_composed(void **state)
{
    static const int32_t others[] = {7, 8, 10, 2};
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene_render(&scene, HISTORY, HEAD "Hello." END "\n", "");
    assert_ok(recall_remember(scene.recall, &scene.turn));
    struct hash256 first = history_now(&scene);
    scene.turn.tokens = others;
    assert_ok(recall_remember(scene.recall, &scene.turn));
    struct hash256 second = history_now(&scene);
    scene.turn.opening = STR(HEAD "<think>\n\n</think>\n\n");
    assert_ok(recall_remember(scene.recall, &scene.turn));
    struct hash256 third = history_now(&scene);
    scene.turn.opening = STR(HEAD "<think>\n</think>\n");
    assert_ok(recall_remember(scene.recall, &scene.turn));
    struct hash256 fourth = history_now(&scene);
    assert_false(hash256_eq(&first, &second));
    assert_false(hash256_eq(&second, &third));
    assert_false(hash256_eq(&third, &fourth));
    scene_fini(&scene);
}

/* ---- thoughts ---- */

static void think(struct scene *scene, bool opened)
{
    scene->turn.message.reasoning = STR("\nLet me see.\n");
    if (opened)
        scene->turn.opening = STR(HEAD "<think>\n");
    assert_ok(recall_remember(scene->recall, &scene->turn));
}

static void test_template_that_shows_the_thought(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    think(&scene, true);
    scene_render(&scene, HISTORY, HEAD "<think>\nLet me see.\n</think>\n\nHello." END "\n", "");
    scene.place.message.reasoning = STR("Let me see.");
    scene.place.user_since = true;
    expect(&scene, RECALL_HIT, HISTORY HEAD "<think>\n{7 8 9 2}\n" HEAD);
    scene.place.message.reasoning = STR("Let me think.");
    expect(&scene, RECALL_DIFFERENT, NULL);
    scene_fini(&scene);
}

static void test_template_that_leaves_the_thought_out_is_followed(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    think(&scene, false);
    scene_render(&scene, HISTORY, HEAD "Hello." END "\n", "");
    scene.place.user_since = true;
    scene.place.message.reasoning = STR("Let me see.");
    expect(&scene, RECALL_THOUGHT_LEFT_OUT, NULL);
    scene.place.message.reasoning = STR_NONE;
    expect(&scene, RECALL_THOUGHT_LEFT_OUT, NULL);
    scene.prompt.keep = true;
    expect(&scene, RECALL_HIT, HISTORY HEAD "{7 8 9 2}\n" HEAD);
    /* In a loop of calls the client's word counts: it dropped the thought, or the template did. */
    scene.prompt.keep = false;
    scene.place.user_since = false;
    expect(&scene, RECALL_HIT, HISTORY HEAD "{7 8 9 2}\n" HEAD);
    scene.place.message.reasoning = STR("Let me see.");
    expect(&scene, RECALL_THOUGHT_LEFT_OUT, NULL);
    scene_fini(&scene);
}

/* The words of the thought in the content are not the thought. */
static void test_thought_is_looked_for_before_the_content(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene.turn.message = (struct recall_message){.content = STR("OK"), .reasoning = STR("OK")};
    scene.place.message = scene.turn.message;
    scene.place.user_since = true;
    assert_ok(recall_remember(scene.recall, &scene.turn));
    scene_render(&scene, HISTORY, HEAD "OK" END "\n", "");
    expect(&scene, RECALL_THOUGHT_LEFT_OUT, NULL);
    scene_render(&scene, HISTORY, HEAD "OK\n\nOK" END "\n", "");
    expect(&scene, RECALL_HIT, HISTORY HEAD "{7 8 9 2}\n" HEAD);
    scene_fini(&scene);
}

/* The prompt had opened a thought, which the template does not repeat: the opening is put back,
 * while no user came. */
static void test_opening_is_put_back(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    think(&scene, true);
    scene_render(&scene, HISTORY, HEAD "Hello." END "\n", "");
    expect(&scene, RECALL_HIT, HISTORY "[" HEAD "<think>\n]{7 8 9 2}\n" HEAD);
    scene.place.user_since = true;
    expect(&scene, RECALL_THOUGHT_LEFT_OUT, NULL);
    scene_fini(&scene);
    /* The same for a block that the template closed itself. */
    scene_init(&scene);
    scene.turn.opening = STR(HEAD "<think>\n\n</think>\n\n");
    assert_ok(recall_remember(scene.recall, &scene.turn));
    scene_render(&scene, HISTORY, HEAD "Hello." END "\n", "");
    expect(&scene, RECALL_HIT, HISTORY "[" HEAD "<think>\n\n</think>\n\n]{7 8 9 2}\n" HEAD);
    scene.place.user_since = true;
    expect(&scene, RECALL_THOUGHT_LEFT_OUT, NULL);
    scene_fini(&scene);
}

/* ---- seams ---- */

static void test_seams(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    assert_ok(recall_remember(scene.recall, &scene.turn));
    /* Text behind the end marker: not ours to cut. */
    scene_render(&scene, HISTORY, HEAD "Hello." END "!", "");
    expect(&scene, RECALL_NO_PLACE, NULL);
    /* The message has another beginning than the one it was generated behind. */
    scene_render(&scene, HISTORY, "<|im_start|Hello." END "\n", "");
    expect(&scene, RECALL_HIT, HISTORY "[" HEAD "]{7 8 9 2}\n" HEAD);
    scene_render(&scene, HISTORY, "<b>Hello." END "\n", "");
    expect(&scene, RECALL_NO_PLACE, NULL);
    /* The template ends turns with something else: gpt-oss samples <|return|> and shows <|end|>. */
    scene_render(&scene, HISTORY, HEAD "Hello.<|end|>\n", "");
    expect(&scene, RECALL_NO_PLACE, NULL);
    scene.prompt.end = STR("<|end|>");
    expect(&scene, RECALL_HIT, HISTORY HEAD "{7 8 9}<|end|>\n" HEAD);
    /* It ends them with nothing, and the next message begins with the token: GLM. */
    scene_render(&scene, HISTORY, HEAD "Hello.", END "\nmore");
    expect(&scene, RECALL_HIT, HISTORY HEAD "{7 8 9}" END "\nmore" HEAD);
    scene_fini(&scene);
}

/* Places that overlap, or stand where no message can. */
static void test_places_that_make_no_sense(void **state)
{
    struct recall_place places[3];
    struct scene scene;

    (void)state;
    scene_init(&scene);
    assert_ok(recall_remember(scene.recall, &scene.turn));
    scene_render(&scene, HISTORY, HEAD "Hello." END "\n", "");
    places[0] = places[1] = places[2] = scene.place;
    places[1].begin++;
    places[2].end = scene.text.len;
    scene.prompt.places = places;
    scene.prompt.places_count = 3;
    assert_ok(recall_apply(scene.recall, &scene.prompt, &scene.plan));
    assert_int_equal(scene.plan.outcomes[0], RECALL_HIT);
    assert_int_equal(scene.plan.outcomes[1], RECALL_NO_PLACE);
    assert_int_equal(scene.plan.outcomes[2], RECALL_NO_PLACE);
    recall_plan_fini(&scene.plan);
    places[0].begin = places[0].end + 1;
    expect(&scene, RECALL_NO_PLACE, NULL);
    scene_fini(&scene);
}

static void test_a_turn_that_was_cut_off(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene.turn.end = STR_NONE;
    assert_ok(recall_remember(scene.recall, &scene.turn));
    scene_render(&scene, HISTORY, HEAD "Hello." END "\n", "");
    expect(&scene, RECALL_NO_PLACE, NULL);
    scene.prompt.end = STR(END);
    expect(&scene, RECALL_HIT, HISTORY HEAD "{7 8 9 2}" END "\n" HEAD);
    scene_fini(&scene);
}

/* A plan keeps what it shows, whatever happens to the store. */
static void test_plans_outlive_eviction(void **state)
{
    static char opening[3000];
    struct scene scene;

    (void)state;
    scene_init(&scene);
    recall_destroy(&scene.recall);
    scene.recall = recall_create(&(struct recall_options){.bytes_max = 4000});
    assert_ok(recall_remember(scene.recall, &scene.turn));
    scene_render(&scene, HISTORY, HEAD "Hello." END "\n", "");
    assert_ok(recall_apply(scene.recall, &scene.prompt, &scene.plan));
    assert_int_equal(scene.plan.hits, 1);
    scene.turn.opening = (struct str){opening, sizeof(opening)};
    scene.turn.message.content = STR("Other.");
    assert_ok(recall_remember(scene.recall, &scene.turn));
    scene.turn.message.content = STR("Another.");
    assert_ok(recall_remember(scene.recall, &scene.turn));
    assert_int_equal(recall_stats(scene.recall).turns, 1);
    assert_memory_equal(scene.plan.segments[1].tokens, tokens, sizeof(tokens));
    recall_plan_fini(&scene.plan);
    recall_plan_fini(&scene.plan);
    scene_fini(&scene);
}

static void test_no_memory_leaves_no_plan(void **state)
{
    struct fault fault = {0};
    struct scene scene;

    (void)state;
    scene_init(&scene);
    assert_ok(recall_remember(scene.recall, &scene.turn));
    scene_render(&scene, HISTORY, HEAD "Hello." END "\n", "");
    FAULT_LOOP (&fault) {
        mem_set_fault(&fault);
        enum err err = recall_apply(scene.recall, &scene.prompt, &scene.plan);
        mem_set_fault(NULL);
        assert_err(err, fault.fired > 0 ? ERR_NOMEM : ERR_OK);
        assert_true(err == ERR_OK || (scene.plan.segments == NULL && scene.plan.hits == 0));
        recall_plan_fini(&scene.plan);
    }
    scene_fini(&scene);
}

TEST_SUITE(TEST(test_a_turn_is_its_tokens_again), TEST(test_content_needs_its_history),
           TEST(test_an_id_needs_no_history_but_the_same_message),
           TEST(test_turns_build_on_each_other), TEST(test_history_is_of_what_was_composed),
           TEST(test_template_that_shows_the_thought),
           TEST(test_template_that_leaves_the_thought_out_is_followed),
           TEST(test_thought_is_looked_for_before_the_content), TEST(test_opening_is_put_back),
           TEST(test_seams), TEST(test_places_that_make_no_sense),
           TEST(test_a_turn_that_was_cut_off), TEST(test_plans_outlive_eviction),
           TEST(test_no_memory_leaves_no_plan))

/* template_turns_test.c: whether a template only appends. */
#include "chat/template.h"

#include <string.h>

#include "support/chat_kit.h"
#include "support/test.h"

#define HEAD "{% for m in messages %}<{{ m.role }}>"
#define TAIL                                                                               \
    "{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}" \
    "</tool_call>{% endfor %}</{{ m.role }}>\n{% endfor %}"                                \
    "{% if add_generation_prompt %}<assistant>{% endif %}"
#define TOOLS   "{% if tools %}{{ tools | tojson }}{% endif %}"
#define THOUGHT "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
/* Thoughts after the last question only. */
#define LAST_QUESTION                                                                  \
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}" \
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
#define IF_RECENT "{% if loop.index0 > ns.last %}" THOUGHT "{% endif %}"
/* Only in the last message. */
#define IF_LAST "{% if loop.last %}" THOUGHT "{% endif %}"
/* Only in answers without calls, after the last question. */
#define IF_ANSWER "{% if loop.index0 > ns.last and not m.tool_calls %}" THOUGHT "{% endif %}"

static void check(const char *source, enum chat_turns expected)
{
    struct chat_template *tmpl;
    struct errinfo info = {0};

    if (chat_template_create(&(struct chat_template_options){.source = source}, &tmpl, &info) !=
        ERR_OK)
        fail_msg("%s", info.text);
    assert_string_equal(chat_turns_name(chat_template_turns(tmpl)), chat_turns_name(expected));
    assert_true(strlen(chat_turns_sentence(expected)) > 20);
    chat_template_destroy(&tmpl);
}

static void test_what_a_template_keeps(void **state)
{
    (void)state;
    check(NULL, CHAT_TURNS_APPEND);
    check(TOOLS HEAD TAIL, CHAT_TURNS_APPEND);
    check(TOOLS HEAD THOUGHT TAIL, CHAT_TURNS_APPEND);
    check(TOOLS LAST_QUESTION HEAD IF_ANSWER TAIL, CHAT_TURNS_LOSE_ANSWER);
    check(TOOLS LAST_QUESTION HEAD IF_RECENT TAIL, CHAT_TURNS_LOSE_LOOP);
    check("{{ messages | length }}" TOOLS HEAD TAIL, CHAT_TURNS_CHANGE);
}

/* A thought in the last message only: calls are followed by results, so only answers have one. */
static void test_thoughts_of_the_last_message(void **state)
{
    (void)state;
    check(TOOLS HEAD IF_LAST TAIL, CHAT_TURNS_LOSE_ANSWER);
}

TEST_SUITE(TEST(test_what_a_template_keeps), TEST(test_thoughts_of_the_last_message))

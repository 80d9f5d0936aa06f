/*
 * template.h: renders a conversation as the text format that a model was trained on.
 *
 *      conversation -->  chat_template_render --> text | spans of the client's text | marks
 *
 * <|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assist...
 * ^BEGIN 0             ~~~~~~~~~           ^END 0, BEGIN 1     ~~~~~           ^END 1, GENERATION
 *                                          ^SYSTEM_END
 *
 * The template is the model's own (Jinja) or, without one, ChatML. Its features are probed once, by
 * rendering small conversations (struct chat_caps). Missing features are emulated: system text and
 * tools that it does not support are folded into messages that it does.
 *
 * SPANS are the ranges that came from the client's strings, so that control tokens written there
 * stay text (I105). Roles and member names of a message are the template's own text.
 *
 * MARKS are the useful places to cut a prompt. A mark depends only on the text before it: two
 * consecutive turns have the same marks up to where their texts differ. A mark that violates this
 * is left out: state stored there would never be found.
 *
 * Threads: a template is immutable; any number of threads may render with it, each with its own
 * arena.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/mark.h"
#include "base/str.h"
#include "chat/conversation.h"
#include "output/output.h"

struct arena;
struct chat_template;
struct yyjson_val;

enum chat_thinking { CHAT_THINKING_DEFAULT, CHAT_THINKING_ON, CHAT_THINKING_OFF };

struct chat_span {
    size_t begin, end;
};

/* What a template supports natively. */
struct chat_caps {
    bool system;       /* shows system messages */
    bool system_late;  /* and those after the first user message, in place */
    bool system_twice; /* and a second one before it, as further on */
    bool tools;        /* shows tools */
    /* fails on tools without these members, which clients may leave out: they are written empty */
    bool needs_description, needs_properties;
    bool calls;            /* shows tool_calls of assistants */
    bool calls_parallel;   /* more than one of them */
    bool tool_role;        /* shows tool messages */
    bool user_after_tool;  /* and a user message right after one, without an answer between them */
    bool arguments_object; /* requires the arguments of calls as objects, not as text */
    bool calls_no_content; /* shows calls only if the content is null */
    bool ids_short;        /* accepts only call ids of 9 letters and digits: others are replaced */
    /* shows calls only by their ids, which must be functions.NAME:NUMBER: they are replaced */
    bool ids_named;
    bool content_parts;  /* shows content that is a list of parts */
    bool content_string; /* shows content that is a string; nearly all do */
    bool thinking;       /* the prompt changes with enable_thinking */
    bool opening_goes;   /* what opens an answer is not there after the next question */
};

struct chat_template_options {
    const char *source;  /* Jinja; NULL: ChatML with tools in the Hermes style. Not kept */
    struct str bos, eos; /* texts of these tokens, may be empty; copied */
};

/* ERR_INVALID, ERR_UNSUPPORTED, ERR_LIMIT: the template cannot be used; `info` says why and
 * where. */
enum err chat_template_create(const struct chat_template_options *options,
                              struct chat_template **out, struct errinfo *info) NODISCARD;
void chat_template_destroy(struct chat_template **tmpl);

/* How sure it is that calls can be read; X(value, name, sentence) */
#define CHAT_CALLS_TABLE(X)                                                                      \
    X(CHAT_CALLS_NONE, "none", "the template has no tools")                                      \
    X(CHAT_CALLS_READ, "read", "a call that the template renders is read back")                  \
    X(CHAT_CALLS_OURS, "described", "the template has no tools, so hearth describes them")       \
    X(CHAT_CALLS_ASSUMED, "assumed", "the template renders no calls; its text shows the format") \
    X(CHAT_CALLS_UNREADABLE, "unreadable",                                                       \
      "the template has tools, but hearth cannot read the calls that it renders")

enum chat_calls { CHAT_CALLS_TABLE(TABLE_VALUE) };
const char *chat_calls_name(enum chat_calls calls);
const char *chat_calls_sentence(enum chat_calls calls);

/* What the next prompt of a conversation keeps of the one before it and its answer;
 * X(value, name, sentence) */
#define CHAT_TURNS_TABLE(X)                                                                     \
    X(CHAT_TURNS_APPEND, "append", "each prompt begins with the one before it and its answer")  \
    X(CHAT_TURNS_LOSE_ANSWER, "lose_answer",                                                    \
      "an answer is written differently after the next question, and is computed again")        \
    X(CHAT_TURNS_LOSE_LOOP, "lose_loop",                                                        \
      "thoughts disappear (or tools move) with the next question: all calls and results since " \
      "the last one are computed again")                                                        \
    X(CHAT_TURNS_CHANGE, "change", "each tool result changes earlier text, which is computed again")

enum chat_turns { CHAT_TURNS_TABLE(TABLE_VALUE) };
/* Renders a few conversations: some milliseconds. */
enum chat_turns chat_template_turns(const struct chat_template *tmpl);
const char *chat_turns_name(enum chat_turns turns);
const char *chat_turns_sentence(enum chat_turns turns);

/* All are valid as long as the template. */
const struct chat_caps *chat_template_caps(const struct chat_template *tmpl);
struct output_formats
chat_template_formats(const struct chat_template *tmpl); /* how to read the answers */
enum chat_calls chat_template_calls(const struct chat_template *tmpl);

/* One request, all borrowed for the call. */
struct chat_request {
    const struct message *messages;
    size_t messages_count; /* >= 1 */
    const struct tool *tools;
    size_t tools_count;
    /* object: more variables for the template (chat_template_kwargs), or NULL */
    struct yyjson_val *kwargs, *default_kwargs; /* those of the server come first */
    const char *reasoning_effort;               /* variable of that name; NULL: not set */
    enum chat_thinking thinking; /* variables enable_thinking and thinking; kwargs win */
    bool add_generation_prompt;
    /* continue the last message, which is the assistant's: the text ends with its content, or with
     * its thought if it has nothing else; thinking is then on */
    bool continue_final;
    bool transient; /* sets MARK_TRANSIENT where neutral_find_transient finds a span */
    int64_t now_s;  /* local wall time, for templates that write the date */
};

/* A text in the rendered one that stands for a picture: its tokens take its place. */
struct chat_picture {
    struct str marker; /* begins with PICTURE_MARKER */
    const int32_t *tokens;
    size_t count;
};

struct chat_text {
    struct str text;
    const struct chat_span *spans; /* ascending, disjoint */
    size_t span_count;
    const struct mark *marks; /* ascending */
    size_t mark_count;
    /* where the template began to open the answer; text.len: it did not. The text from here on is
     * the prompt_tail of output.h */
    size_t generation;
    size_t thought;   /* where the thought that is continued begins; 0: none is */
    bool time_of_day; /* the template wrote it */
    const struct chat_picture *pictures; /* of prepare.c; a template knows none */
    size_t picture_count;
};

/* Everything in *out is in the arena. ERR_INVALID (the client's error): the request is not a
 * conversation, or the template refuses it with its own message. ERR_LIMIT: the arena or a limit of
 * the template engine. ERR_NOMEM. */
enum err chat_template_render(const struct chat_template *tmpl, const struct chat_request *request,
                              struct arena *arena, struct chat_text *out,
                              struct errinfo *info) NODISCARD;

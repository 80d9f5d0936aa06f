/*
 * template.h: a conversation as the text that a model was trained on.
 *
 *      conversation -->  chat_template_render --> text | spans of the client's text | marks
 *
 *      <|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n
 *      ^BEGIN 0             ~~~~~~~~~           ^END 0, BEGIN 1     ~~~~~           ^END 1, GENERATION
 *                                               ^SYSTEM_END
 *
 * The template is the model's own (Jinja) or, without one, ChatML. What it can do is found once, by
 * rendering small conversations (struct chat_caps); what it cannot do is done around it: system
 * text and tools that it does not know are folded into messages that it does.
 *
 * SPANS are the ranges that came from the client's strings, so that control tokens written there
 * stay text (I105). Roles and names of a message's members are the template's own text.
 *
 * MARKS are where a prompt can be cut with profit. A mark depends only on what stands before it: up
 * to where their texts part, one turn and the next have the same marks. A mark for which that does
 * not hold is left out: state would be kept where nobody looks.
 *
 * Threads: a template is immutable; any number of threads render with it, each with an arena of its
 * own.
 */
#ifndef HEARTH_CHAT_TEMPLATE_H
#define HEARTH_CHAT_TEMPLATE_H

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

/* What a template does by itself. */
struct chat_caps {
    bool system;           /* shows system messages */
    bool system_late;      /* and those behind the first user's where they stand */
    bool tools;            /* shows tools */
    bool calls;            /* shows tool_calls of assistants */
    bool calls_parallel;   /* more than one of them */
    bool tool_role;        /* shows messages of tools */
    bool user_after_tool;  /* and a user's behind one of them, without an answer between */
    bool arguments_object; /* wants the arguments of calls as objects, not as text */
    bool calls_no_content; /* shows calls only beside a content that is null */
    bool ids_short; /* refuses ids of calls that are not 9 letters and digits: they are replaced */
    /* shows calls by their ids only, which must be functions.NAME:NUMBER: likewise */
    bool ids_named;
    bool content_parts;  /* shows content that is a list of parts */
    bool content_string; /* shows content that is a string; nearly all do */
    bool thinking;       /* the prompt changes with enable_thinking */
};

struct chat_template_options {
    const char *source;  /* Jinja; NULL: ChatML with tools in the manner of Hermes. Not kept */
    struct str bos, eos; /* texts of these tokens, may be empty; copied */
};

/* ERR_INVALID, ERR_UNSUPPORTED, ERR_LIMIT: not a template that can be used; `info` says why and
 * where. */
enum err chat_template_create(const struct chat_template_options *options,
                              struct chat_template **out, struct errinfo *info) NODISCARD;
void chat_template_destroy(struct chat_template **tmpl);

/* Both valid as long as the template. */
const struct chat_caps *chat_template_caps(const struct chat_template *tmpl);
struct output_formats
chat_template_formats(const struct chat_template *tmpl); /* how to read the answers */

/* One request, all borrowed for the call. */
struct chat_request {
    const struct message *messages;
    size_t messages_count; /* >= 1 */
    const struct tool *tools;
    size_t tools_count;
    /* object: more variables for the template (chat_template_kwargs), or NULL */
    struct yyjson_val *kwargs;
    const char *reasoning_effort; /* variable of that name; NULL: not set */
    enum chat_thinking thinking;  /* variables enable_thinking and thinking; kwargs win */
    bool add_generation_prompt;
    /* the last message is the assistant's and is to be continued: the text ends with its content */
    bool continue_final;
    int64_t now_s; /* local wall time, for templates that write the date */
};

struct chat_text {
    struct str text;
    const struct chat_span *spans; /* ascending, disjoint */
    size_t span_count;
    const struct mark *marks; /* ascending */
    size_t mark_count;
    /* where the template began to open the answer; text.len: it did not. From here on it is the
     * prompt_tail of output.h */
    size_t generation;
};

/* Everything of *out is in the arena. ERR_INVALID: the request is no conversation, or the template
 * refuses it in its own words: the client's error; ERR_LIMIT: the arena or a limit of the template
 * engine; ERR_NOMEM. */
enum err chat_template_render(const struct chat_template *tmpl, const struct chat_request *request,
                              struct arena *arena, struct chat_text *out,
                              struct errinfo *info) NODISCARD;

#endif

/*
 * chat_kit.h: templates and conversations for tests of prompts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "chat/gen_request.h"

struct chat_fixture {
    const char *name;
    const char *source; /* NULL: the built-in one */
};

/* Small templates that each do something that published ones do as well; ended by a NULL name. */
extern const struct chat_fixture chat_fixtures[];
const char *
chat_fixture_source(const char *name); /* fails the test when there is none of that name */

/* Calls for the fixtures and for all of templates.h; returns how many were published ones. */
size_t chat_kit_each(void (*fn)(const char *name, const char *source, void *arg), void *arg);

struct chat_wish {
    bool system, tools; /* tools: with calls and results */
    bool hostile;       /* contents with control tokens in them */
    size_t messages;    /* at most; a conversation ends with a user or a tool */
};

/* A random conversation as JSON texts of messages, one after another; `ends` are the counts after
 * which a turn of the model would come. */
enum { CHAT_MESSAGES_MAX = 64 };
struct chat_script {
    char *messages[CHAT_MESSAGES_MAX];
    size_t count;
    size_t ends[CHAT_MESSAGES_MAX];
    size_t end_count;
};
void chat_script_init(struct chat_script *script, const struct chat_wish *wish, uint64_t *random);
void chat_script_fini(struct chat_script *script);

/* {"messages": [the first count], "tools": [...]} */
void chat_script_json(const struct chat_script *script, size_t count, bool tools, struct buf *out);

/* A random text: words, markup, Unicode, white space; with control tokens, whole and in pieces,
 * when hostile. */
void chat_random_text(struct buf *out, uint64_t *random, bool hostile);

/* ---- conversations as JSON ---- */

/* Reads a body of chat completions as the server does; the request is finished in any case. Answers
 * what the parser answered. */
enum err chat_kit_read(struct gen_request *request, const char *body, struct errinfo *info);

/* Its conversation, for the template: the answer is opened. */
struct chat_request chat_kit_request(const struct gen_request *request);

/* `tools` is JSON in OpenAI's or Anthropic's form; the array is in the arena, its schemas are
 * borrowed. */
const struct tool *chat_kit_read_tools(struct arena *arena, yyjson_val *tools, size_t *count);

/* What a conversation has, against JSON in OpenAI's form; the order of members does not matter.
 * "null": there are no tools, or none that are not shown. */
void chat_assert_messages(const struct conversation *talk, const char *expected);
void chat_assert_message(const struct message *message, const char *expected);
void chat_assert_tools(const struct conversation *talk, const char *expected);
void chat_assert_shown(const struct conversation *talk, const char *expected);

extern const char chat_kit_tools[]; /* a JSON array of two tools */

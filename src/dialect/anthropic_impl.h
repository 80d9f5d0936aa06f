/*
 * anthropic_impl.h: shared by the files of Anthropic's Messages API.
 *
 *      POST /v1/messages                 dialect_anthropic_messages: anthropic_parse.c reads,
 *                                        anthropic_compose.c writes
 *      POST /v1/messages/count_tokens    dialect_anthropic_count: the same, but max_tokens is not
 *                                        needed and nothing is generated
 *
 * A request becomes a conversation in one pass, in the order of Anthropic's prompt: tools, system,
 * messages. Breakpoints are recorded in that pass, so they are in ascending order.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <yyjson.h>

#include "chat/error.h"
#include "chat/gen_request.h"
#include "dialect/answer.h"
#include "dialect/json_read.h"
#include "base/attr.h"
#include "base/str.h"

/* The two lifetimes of cache_control, "5m" and "1h". The longest one in a request becomes
 * gen_request.cache_ttl_s and decides under which name creation is reported. */
enum { ANTHROPIC_TTL_SHORT_S = 300, ANTHROPIC_TTL_LONG_S = 3600 };

/* clear_tool_uses without a trigger, in tokens, or without keep, in tool uses. */
enum { ANTHROPIC_EDIT_TRIGGER = 100000, ANTHROPIC_EDIT_KEEP = 3 };

/* As dialect->parse. Counting needs no max_tokens; all other fields are checked in the same way. */
enum err anthropic_parse(struct gen_request *request, yyjson_val *root,
                         struct api_error *error) NODISCARD;
enum err anthropic_parse_count(struct gen_request *request, yyjson_val *root,
                               struct api_error *error) NODISCARD;

/* A tool by its name. */
struct anthropic_late_tool {
    struct str name;
    yyjson_val *tool;
    bool deferred, mentioned;
};

/* Tools that are announced during the conversation: anthropic_late.c. In the request's arena. */
struct anthropic_late {
    struct anthropic_late_tool *tools; /* all that may be called, sorted */
    size_t count;
    struct anthropic_late_tool *added; /* those defined only in messages, likewise */
    size_t added_count;
};

/* Owner: anthropic_parse, for one call. */
struct anthropic_build {
    struct gen_request *request;
    struct conversation *talk; /* the request's */
    struct anthropic_late late;
};

/* When a tool is announced: at the beginning, where it is mentioned, or not at all. */
enum anthropic_when { ANTHROPIC_NOW, ANTHROPIC_LATE, ANTHROPIC_NEVER };

/* A required string. `empty`: it is text for the model, which may be empty and may contain NUL. */
enum err anthropic_need_str(const struct json_reader *reader, const char *key, bool empty,
                            struct str *out) NODISCARD;

/* Does `holder` ask for a breakpoint? Also takes its ttl. Malformed ones are not errors: it is a
 * hint. */
bool anthropic_has_break(struct gen_request *request, yyjson_val *holder) NODISCARD;

/* "tools", and tool_choice. anthropic_tools.c */
enum err anthropic_read_tools(struct anthropic_build *build,
                              const struct json_reader *body) NODISCARD;
/* A tool that runs on Anthropic's servers or needs images. */
bool anthropic_is_foreign_tool(yyjson_val *tool) NODISCARD;
/* One that is not. */
enum err anthropic_read_tool(struct anthropic_build *build, const struct json_reader *tool,
                             struct tool *out) NODISCARD;
enum err anthropic_read_tool_choice(const struct anthropic_build *build,
                                    const struct json_reader *body) NODISCARD;

/* Called first: finds which tools the messages mention. anthropic_late.c */
enum err anthropic_late_read(struct anthropic_build *build,
                             const struct json_reader *body) NODISCARD;
enum anthropic_when anthropic_late_when(const struct anthropic_build *build,
                                        yyjson_val *tool) NODISCARD;
/* The text of a block of type tool_reference, tool_addition or tool_removal. */
enum err anthropic_late_tell(struct anthropic_build *build, const struct json_reader *block,
                             struct str type, struct str *out) NODISCARD;

/* System prompt and messages; sets continue_final. anthropic_turns.c */
enum err anthropic_read_messages(struct anthropic_build *build,
                                 const struct json_reader *body) NODISCARD;

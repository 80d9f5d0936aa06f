/*
 * constraint.h: `tool_choice` and `response_format` as a grammar that constrains what a model
 * generates.
 *
 *      mode, tools, formats of calls and thoughts  --constraint_write-->  GBNF and its triggers
 *
 *      none       no calls: the request is rendered without tools
 *      auto       content is free, and a call that begins names a known tool with arguments that
 *                 satisfy its schema. The grammar is a promise if a tool is strict or barred, and
 *                 else a help that may be missing (see OPTIONAL)
 *      required   an optional thought, then calls and nothing else
 *      named      the same, for that one tool
 *
 * Tools that are `barred` cannot be called in any mode: other calls are held to the grammar, and if
 * all are barred, no call may begin.
 *
 * A FORMAT of the answer (json_object, json_schema, a pattern, one of several texts) applies to text generated instead of calls:
 *
 *      none       an optional thought, then the JSON and nothing else
 *      auto       a thought, then either calls or the JSON, with no other text. All tools are held
 *                 to their schemas as far as possible. The output must be read the same way
 *                 (`either` in output.h): the JSON may quote a call. If a call is itself an object
 *                 (TOOLCALL_LLAMA), JSON that begins like a tool call is one
 *      required   no effect: calls are not the answer
 *
 * WHERE IT STARTS. Required and named start at once: the grammar also describes the thought, so
 * that the model cannot end its turn inside it or instead of a call. Auto is lazy where that is
 * safe: it waits for the beginning of a call. It is not safe if a thought may merely mention calls
 * in the same characters (<tool_call> is plain text to many models), nor if a call needs no opening
 * at all (TOOLCALL_LLAMA). There the grammar describes the whole output, with content as any text
 * without an opening. Where calls need no opening, content then cannot begin with a bracket.
 *
 * OPTIONAL. In the mode auto without strict and barred tools nothing is promised, so nothing is
 * refused, and no plain answer changes: the grammar is always lazy, arguments with a schema that no
 * grammar can express are any object, and where even that does not help there is no grammar. Then
 * the reader of the output decides alone. A call that needs no opening is held from the point where
 * only a call reads so: after {"name": "f", "parameters of a known tool. Not held are calls that a
 * thought forgot to close before, unless their opening is one token, and all but the first message
 * to a recipient (Functionary v3.2); Muse's calls are not held at all.
 *
 * ARGUMENTS follow the tool's schema as schema.h writes it: sound, not complete. A schema that no
 * grammar can express is an error if the tool is strict; otherwise only the parts that must be are
 * left free, up to any object. A tool without a schema takes no arguments, as with OpenAI.
 * Arguments between tags (Qwen3-Coder, GLM, MiniMax, DSML) or in a call like f(a=1) are written
 * parameter by parameter in the order of `properties`, text between tags unquoted. There, beyond
 * schema.h:
 *   - the top of the schema has only type, properties and required, and declares all required ones
 *   - between tags a text has no pattern and no format that schema.h enforces; with length limits
 *     it has no `<`; and a parameter that may be a string has no other type except null
 *   - a JSON value ends at a closing tag inside one of its strings: the only unsound case here
 *   - names of tools and parameters consist of letters, digits, _ - and .
 *
 * Pure functions; any thread. Tools and schemas may be hostile: the size of the grammar is bounded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "output/output.h"
#include "output/tool.h"

struct yyjson_val;

enum constraint_mode {
    CONSTRAINT_NONE,
    CONSTRAINT_AUTO,
    CONSTRAINT_REQUIRED,
    CONSTRAINT_NAMED,
    CONSTRAINT_MODE_COUNT
};

enum constraint_answer {
    CONSTRAINT_ANSWER_TEXT,
    CONSTRAINT_ANSWER_OBJECT,
    CONSTRAINT_ANSWER_SCHEMA,
    CONSTRAINT_ANSWER_REGEX,   /* a text that a pattern matches as a whole */
    CONSTRAINT_ANSWER_CHOICE,  /* one of several texts */
    CONSTRAINT_ANSWER_GRAMMAR, /* the client's own grammar: nothing is written for it */
};

enum {
    CONSTRAINT_BYTES_MAX = 1024 * 1024,
    CONSTRAINT_TOOLS_MAX = 256,
    CONSTRAINT_TRIGGERS_MAX = 4,
    CONSTRAINT_RULES_MAX = 4096 /* as many as the engine reads */
};

struct constraint_request {
    enum constraint_mode mode;
    struct str name; /* of CONSTRAINT_NAMED */
    /* several calls in one turn. Where no grammar says so, the caller ends the turn after the first */
    bool parallel;
    const struct tool *tools;
    size_t tools_count;
    struct output_formats formats;
    /* end of the prompt as written by the template: is a thought open, or closed? */
    struct str prompt_tail;
    enum constraint_answer answer;
    const struct yyjson_val *schema; /* of CONSTRAINT_ANSWER_SCHEMA */
    struct str regex;                /* of CONSTRAINT_ANSWER_REGEX */
    struct yyjson_val *choices;      /* of CONSTRAINT_ANSWER_CHOICE: a list of strings, not empty */
};

/* A grammar as struct sample_params takes it. */
struct constraint {
    struct buf grammar;                            /* GBNF; empty = none is needed */
    const char *triggers[CONSTRAINT_TRIGGERS_MAX]; /* static */
    size_t triggers_count;
    /* it follows the text from the beginning, and starts when this has come; static, NULL = none.
     * Without triggers and point it starts at once */
    const char *point;
    /* around a thought, where triggers may be quoted; NULL = there is none */
    const char *thought_open, *thought_close;
    bool in_thought;     /* it is open at the end of the prompt */
    bool optional;       /* the answer is read without it as well */
    bool answer_refused; /* after an error: it concerns the answer format, not the tools */
};

/* No grammar; owns nothing. */
void constraint_init(struct constraint *constraint);
void constraint_fini(struct constraint *constraint);

/* ERR_INVALID: no tool of that name, no tools at all, a tool without a name or a duplicate name;
 * json_schema without a schema. ERR_UNSUPPORTED: the model's template shows no calls, or a schema
 * or a name cannot be expressed; the text says which and what to do. ERR_LIMIT, ERR_NOMEM. After an
 * error there is no grammar. */
enum err constraint_write(struct constraint *constraint, const struct constraint_request *request,
                          struct errinfo *info) NODISCARD;

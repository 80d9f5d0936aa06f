/*
 * toolcall.h: separates tool calls from other generated text, while it is generated.
 *
 *      text, in any pieces  -->  toolcall_push  -->  CONTENT
 *                                                    | CALL_BEGIN, CALL_ARGUMENTS, CALL_END
 *                                                    | ERROR
 *
 * Each family of models writes calls in its own format. The format is detected in the chat
 * template, which shows the model its own calls, or learned there (chat/template_learn.c). Text that
 * may be the beginning of a call is held back until that is decided, so that no part of the markup
 * is ever content. How the text is split into pieces makes no difference to the joined events. White
 * space between content and a call is dropped with the markup (up to MARKER_SPACE_MAX bytes).
 *
 * Arguments come out as JSON text whatever the model writes. Where it writes plain text (XML and
 * the like), the tool's JSON schema decides the type:
 *      string                       a string, unchanged
 *      other types, without string  the text as JSON, also Python's True, False, None; a string if
 *                                   it is not JSON
 *      string among others          the text as JSON if that has one of the other types, else a
 *                                   string
 *      no schema for it             as JSON if it is an object, array, number, true, false or null;
 *                                   else a string
 * Python-like calls (`f(a=1)`) have literals; positional arguments take their names from the
 * schema, in its order.
 *
 * A call that cannot be read, that names no tool which may be called, or that is incomplete at the
 * end of the text, is an ERROR (keeps I79). Its text and everything after it follow as CONTENT,
 * with the markup: a client must not lose what the model wrote. A missing closing tag after complete arguments is accepted,
 * because many models stop there; so is noise between complete arguments and their closing tag.
 *
 * Owner: one generation; not thread-safe. Pieces of whole UTF-8 characters give events of whole
 * characters.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "output/output_event.h"

struct call_format;
struct tool;
struct toolcall;

/* X(value, name), in the order of toolcall_detect */
#define TOOLCALL_TABLE(X)                                                                          \
    X(TOOLCALL_NONE, "none")               /* all text is content */                               \
    X(TOOLCALL_MUSE, "muse")               /* to=f<|message|><atem:function_calls>... */           \
    X(TOOLCALL_HARMONY, "harmony")         /* <|channel|>commentary to=functions.f<|message|>{} */ \
    X(TOOLCALL_RECIPIENTS, "recipients")   /* >>>f\n{} */                                          \
    X(TOOLCALL_DSML, "dsml")               /* <|DSML|invoke name="f">, with wide bars */           \
    X(TOOLCALL_DEEPSEEK, "deepseek")       /* <|tool_calls_begin|>..., wide bars; V3 and V3.1 */   \
    X(TOOLCALL_KIMI, "kimi")               /* <|tool_calls_section_begin|>... */                   \
    X(TOOLCALL_KIMI_TAGS, "kimi_tags")     /* <|open|>call tool="f"<|sep|>... */                   \
    X(TOOLCALL_MINIMAX, "minimax")         /* <minimax:tool_call><invoke name="f"> */              \
    X(TOOLCALL_MINIMAX_M3, "minimax_m3")   /* ]<]minimax[>[<invoke name="f"> */                    \
    X(TOOLCALL_GEMMA, "gemma")             /* <|tool_call>call:f{a:1}<tool_call|> */               \
    X(TOOLCALL_GEMMA_CALL, "gemma_call")   /* <start_function_call>call:f{a:1}... */               \
    X(TOOLCALL_GEMMA_CODE, "gemma_code")   /* ```tool_code f(a=1)``` */                            \
    X(TOOLCALL_GLM, "glm")                 /* <tool_call>f <arg_key>a</arg_key>... */              \
    X(TOOLCALL_SEED, "seed")               /* <seed:tool_call><function=f><parameter=a> */         \
    X(TOOLCALL_QWEN_XML, "qwen_xml")       /* <tool_call><function=f><parameter=a> */              \
    X(TOOLCALL_MINICPM, "minicpm")         /* <function name="f"><param name="a"> */               \
    X(TOOLCALL_FUNCTIONARY, "functionary") /* <function=f>{}</function> */                         \
    X(TOOLCALL_MISTRAL, "mistral")         /* [TOOL_CALLS][{...}] or [TOOL_CALLS]f[ARGS]{} */      \
    X(TOOLCALL_SOLAR, "solar")             /* <|tool_call:begin|>id<|tool_call:name|>f... */       \
    X(TOOLCALL_LFM, "lfm")                 /* <|tool_call_start|>[f(a=1)]<|tool_call_end|> */      \
    X(TOOLCALL_PHI, "phi")                 /* <|tool_call|>[{...}]<|/tool_call|> */                \
    X(TOOLCALL_GRANITE, "granite")         /* <|tool_call|>[{...}] */                              \
    X(TOOLCALL_NEMOTRON, "nemotron")       /* <TOOLCALL>[{...}]</TOOLCALL> */                      \
    X(TOOLCALL_COHERE, "cohere")           /* <|START_ACTION|>[{...}]<|END_ACTION|> */             \
    X(TOOLCALL_COHERE_PLUS, "cohere_plus") /* Action: ```json [{...}]``` */                        \
    X(TOOLCALL_TAGGED_LIST, "tagged_list") /* <tool_calls>[{...}]</tool_calls> */                  \
    X(TOOLCALL_APERTUS, "apertus")         /* <|tools_prefix|>[{"f": {}}]<|tools_suffix|> */       \
    X(TOOLCALL_INTERNLM, "internlm")       /* <|action_start|><|plugin|>{...}<|action_end|> */     \
    X(TOOLCALL_HERMES, "hermes")           /* <tool_call>{"name", "arguments"}</tool_call> */      \
    X(TOOLCALL_FUNCTOOLS, "functools")     /* functools[{...}] */                                  \
    X(TOOLCALL_GIGACHAT_CALL, "gigachat_call") /* <|function_call|>{...} */                        \
    X(TOOLCALL_GIGACHAT, "gigachat")           /* function call<|role_sep|>{...} */                \
    X(TOOLCALL_LLAMA, "llama")     /* {"name", "parameters"}, <|python_tag|>f.call(a=1) */         \
    X(TOOLCALL_BARE, "bare")       /* [{"name", "arguments"}] or [f(a=1)], nothing else */         \
    X(TOOLCALL_LEARNED, "learned") /* found in the template's own rendering of a call */

enum toolcall_format { TOOLCALL_TABLE(TABLE_VALUE) TOOLCALL_COUNT };

struct toolcall_options {
    enum toolcall_format format;
    enum toolcall_format also;         /* a second one that is read, too; TOOLCALL_NONE: only one */
    const struct call_format *learned; /* of TOOLCALL_LEARNED, borrowed */
    /* calls or content, not both: text that does not begin with a call is content to its end, even
     * if it quotes a call */
    bool either;
    /* the request's tools, borrowed; others are not called. NULL = any may be, without schemas */
    const struct tool *tools;
    size_t tools_count;
    /* end of the prompt as written by the template; used by toolcall_create only */
    struct str prompt_tail;
    size_t held_bytes_max; /* limit of undecided text; 0 = 1 MiB. Beyond: an ERROR */
    unsigned calls_max;    /* 0 = 128. Beyond: an ERROR */
};

const char *toolcall_format_name(enum toolcall_format format);

/* The format whose markup a chat template shows, or TOOLCALL_NONE. Looks only at the text. */
enum toolcall_format toolcall_detect(struct str template_text);

/* The description of a format; `learned` is that of TOOLCALL_LEARNED. */
const struct call_format *toolcall_row(enum toolcall_format format,
                                       const struct call_format *learned);

/* Never NULL. Destroy accepts a pointer to NULL. */
struct toolcall *toolcall_create(const struct toolcall_options *options, output_event_fn *fn,
                                 void *arg) NODISCARD;
void toolcall_destroy(struct toolcall **call);

/* Reads more text. After ERR_NOMEM only destroy may be called. */
enum err toolcall_push(struct toolcall *call, struct str text) NODISCARD;

/* Ends the text: text held back becomes content, an unfinished call an ERROR. Nothing may be pushed
 * afterwards. */
enum err toolcall_finish(struct toolcall *call) NODISCARD;

/* Whether the text so far ends inside a call, so that what follows belongs to it. */
bool toolcall_in_call(struct toolcall *call);

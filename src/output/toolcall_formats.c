/*
 * toolcall_formats.c: the table of formats, and the detection of the one that a template uses.
 *
 * Rows are searched in order: a format whose markup contains that of another comes first
 * (Qwen3-Coder's <tool_call> before that of Hermes). A template is searched for the markup itself,
 * never for the name of a model, because templates are copied between models and models are
 * renamed. Only LFM's templates do not show calls at all; they are detected by how they list tools.
 */
#include <assert.h>

#include "output/toolcall_impl.h"

/* STR is not a constant expression for every compiler. */
#define S(literal)                     \
    {                                  \
        (literal), sizeof(literal) - 1 \
    }

static const struct call_messages harmony = {
    .starts = {S("<|start|>"), S("<|channel|>"), S("<|message|>"), S("to="), S("<|constrain|>")},
    .header_end = S("<|message|>"),
    .ends = {S("<|end|>"), S("<|return|>"), S("<|call|>"), S("<|start|>"), S("<|channel|>")},
    .ends_own = 3,
};

static const struct call_messages muse = {
    .starts = {S("<|start|>"), S("<|message|>"), S("to=")},
    .header_end = S("<|message|>"),
    .ends = {S("<|eom|>"), S("<|eot|>"), S("<|start|>")},
    .ends_own = 2,
};

static const struct call_messages recipients = {
    .header_end = S("\n"),
    .ends = {S(">>>")},
    .opening = S(">>>"),
};

#define MINIMAX_M3 "]<]minimax[>["

#define PYTHON .form = CALL_EXPRESSION, .open = '(', .between = '=', .close = ')'
#define GEMMA \
    .form = CALL_EXPRESSION, .call_begin = S("call:"), .open = '{', .between = ':', .close = '}'
#define OBJECT     .form = CALL_OBJECT, .name_key = "name", .arguments_key = "arguments"
#define OBJECTS    OBJECT, .list = true
#define PARAMETERS .form = CALL_OBJECT, .name_key = "name", .arguments_key = "parameters"
#define COHERE \
    .form = CALL_OBJECT, .name_key = "tool_name", .arguments_key = "parameters", .list = true
#define QWEN                                                                                \
    .form = CALL_TAGS, .call_begin = S("<function="), .name_end = S(">"),                   \
    .parameter_begin = S("<parameter="), .key_end = S(">"), .value_end = S("</parameter>"), \
    .call_end = S("</function>")
#define INVOKE(prefix)                                                         \
    .call_begin = S("<" prefix "invoke name=\""), .name_end = S("\">"),        \
    .parameter_begin = S("<" prefix "parameter name=\""), .key_end = S("\">"), \
    .value_end = S("</" prefix "parameter>"), .call_end = S("</" prefix "invoke>")

const struct call_format tc_formats[TOOLCALL_COUNT] = {
    [TOOLCALL_MUSE] = {.form = CALL_MESSAGES,
                       .messages = &muse,
                       .openers = {S("<atem:function_calls>")},
                       .closers = {S("</atem:function_calls>")},
                       INVOKE("atem:"),
                       .control = true},
    [TOOLCALL_HARMONY] = {.form = CALL_MESSAGES,
                          .messages = &harmony,
                          .control = true,
                          .shown = {S("<|channel|>"), S("<|message|>"), S("commentary")}},
    [TOOLCALL_RECIPIENTS] = {.form = CALL_MESSAGES,
                             .messages = &recipients,
                             .shown = {S(">>>all\\n")}},
    [TOOLCALL_DSML] = {.form = CALL_TAGS,
                       .openers = {S("<｜DSML｜function_calls>"), S("<｜DSML｜tool_calls>")},
                       .closers = {S("</｜DSML｜function_calls>"), S("</｜DSML｜tool_calls>")},
                       .call_begin = S("<｜DSML｜invoke name=\""),
                       .name_end = S("\">"),
                       .parameter_begin = S("<｜DSML｜parameter name=\""),
                       .key_end = S("\""),
                       .attributes_end = S(">"),
                       .value_end = S("</｜DSML｜parameter>"),
                       .call_end = S("</｜DSML｜invoke>"),
                       .control = true,
                       .shown = {S("｜DSML｜")}},
    [TOOLCALL_DEEPSEEK] = {.form = CALL_NAMED,
                           .openers = {S("<｜tool▁calls▁begin｜>"), S("<｜tool▁call▁begin｜>")},
                           .closers = {S("<｜tool▁calls▁end｜>")},
                           .call_begin = S("<｜tool▁call▁begin｜>"),
                           .name_end = S("<｜tool▁sep｜>"),
                           .call_end = S("<｜tool▁call▁end｜>"),
                           .fenced = true,
                           .control = true,
                           .shown = {S("<｜tool▁call▁begin｜>")}},
    [TOOLCALL_KIMI] = {.form = CALL_NAMED,
                       .openers = {S("<|tool_calls_section_begin|>"), S("<|tool_call_begin|>")},
                       .closers = {S("<|tool_calls_section_end|>")},
                       .call_begin = S("<|tool_call_begin|>"),
                       .name_end = S("<|tool_call_argument_begin|>"),
                       .call_end = S("<|tool_call_end|>"),
                       .numbered = true,
                       .control = true},
    [TOOLCALL_KIMI_TAGS] = {.form = CALL_TAGS,
                            .openers = {S("<|open|>tools<|sep|>")},
                            .closers = {S("<|close|>tools<|sep|>")},
                            .call_begin = S("<|open|>call tool=\""),
                            .head_begin = S("\""),
                            .name_end = S("<|sep|>"),
                            .parameter_begin = S("<|open|>argument key=\""),
                            .key_end = S("\""),
                            .attributes_end = S("<|sep|>"),
                            .object_begin = S("<|open|>json"),
                            .value_end = S("<|close|>argument<|sep|>"),
                            .call_end = S("<|close|>call<|sep|>"),
                            .control = true,
                            .shown = {S("'<|open|>'"), S("'<|sep|>'"), S("'argument'")}},
    [TOOLCALL_MINIMAX] = {.form = CALL_TAGS,
                          .openers = {S("<minimax:tool_call>")},
                          .closers = {S("</minimax:tool_call>")},
                          INVOKE("")},
    [TOOLCALL_MINIMAX_M3] = {.form = CALL_TAGS,
                             .openers = {S(MINIMAX_M3 "<tool_call>")},
                             .closers = {S(MINIMAX_M3 "</tool_call>")},
                             .call_begin = S(MINIMAX_M3 "<invoke name=\""),
                             .name_end = S("\">"),
                             .parameter_begin = S(MINIMAX_M3 "<"),
                             .key_end = S(">"),
                             .value_end = S(MINIMAX_M3 "</"),
                             .value_tail = S(">"),
                             .call_end = S(MINIMAX_M3 "</invoke>"),
                             .nested = true,
                             .control = true,
                             .shown = {S(MINIMAX_M3)}},
    [TOOLCALL_GEMMA] = {GEMMA, .openers = {S("<|tool_call>")}, .closers = {S("<tool_call|>")},
                        .quote = S("<|\"|>"), .control = true},
    [TOOLCALL_GEMMA_CALL] = {GEMMA, .openers = {S("<start_function_call>")},
                             .closers = {S("<end_function_call>")}, .quote = S("<escape>"),
                             .control = true},
    [TOOLCALL_GEMMA_CODE] = {PYTHON, .openers = {S("```tool_code")}, .closers = {S("```")}},
    [TOOLCALL_GLM] = {.form = CALL_TAGS,
                      .openers = {S("<tool_call>")},
                      .closers = {S("</tool_call>")},
                      .parameter_begin = S("<arg_key>"),
                      .key_end = S("</arg_key>"),
                      .value_begin = S("<arg_value>"),
                      .value_end = S("</arg_value>"),
                      .shown = {S("<tool_call>"), S("<arg_key>")}},
    [TOOLCALL_SEED] = {QWEN, .openers = {S("<seed:tool_call>")},
                       .closers = {S("</seed:tool_call>")}},
    [TOOLCALL_QWEN_XML] = {QWEN, .openers = {S("<tool_call>"), S("<function=")},
                           .closers = {S("</tool_call>")}, .lines = true,
                           .shown = {S("<function="), S("<parameter=")}},
    [TOOLCALL_MINICPM] = {.form = CALL_TAGS,
                          .openers = {S("<function name=\"")},
                          .name_end = S("\">"),
                          .parameter_begin = S("<param name=\""),
                          .key_end = S("\">"),
                          .value_end = S("</param>"),
                          .call_end = S("</function>"),
                          .cdata = true,
                          .shown = {S("<function name=\""), S("<param name=\"")}},
    [TOOLCALL_FUNCTIONARY] = {.form = CALL_NAMED,
                              .openers = {S("<function=")},
                              .name_end = S(">"),
                              .call_end = S("</function>"),
                              .shown = {S("<function="), S("</function>")}},
    [TOOLCALL_MISTRAL] = {.form = CALL_NAMED,
                          .openers = {S("[TOOL_CALLS]")},
                          .head_begin = S("[CALL_ID]"),
                          .name_end = S("[ARGS]"),
                          .name_key = "name",
                          .arguments_key = "arguments",
                          .control = true},
    [TOOLCALL_SOLAR] = {.form = CALL_NAMED,
                        .openers = {S("<|begin|>assistant<|tool_calls|>"), S("<|tool_calls|>")},
                        .call_begin = S("<|tool_call:begin|>"),
                        .id_end = S("<|tool_call:name|>"),
                        .name_end = S("<|tool_call:args|>"),
                        .call_end = S("<|tool_call:end|>"),
                        .control = true,
                        .shown = {S("<|tool_call:begin|>"), S("<|tool_call:name|>")}},
    /* its templates leave the rest to the model */
    [TOOLCALL_LFM] = {PYTHON, .openers = {S("<|tool_call_start|>")},
                      .closers = {S("<|tool_call_end|>")}, .control = true,
                      .shown = {S("List of tools: ")}, .or_opener = true},
    [TOOLCALL_PHI] = {OBJECTS, .openers = {S("<|tool_call|>")}, .closers = {S("<|/tool_call|>")},
                      .control = true, .shown = {S("<|tool_call|>"), S("<|/tool_call|>")}},
    [TOOLCALL_GRANITE] = {OBJECTS, .openers = {S("<|tool_call|>")}, .control = true},
    [TOOLCALL_NEMOTRON] = {OBJECTS, .openers = {S("<TOOLCALL>")}, .closers = {S("</TOOLCALL>")}},
    [TOOLCALL_COHERE] = {COHERE, .openers = {S("<|START_ACTION|>")},
                         .closers = {S("<|END_ACTION|>")}, .control = true},
    [TOOLCALL_COHERE_PLUS] = {COHERE, .openers = {S("Action:\n```json\n"), S("Action: ```json\n")},
                              .closers = {S("```")},
                              .shown = {S("Action:"), S("```json"), S("\"tool_name\"")}},
    [TOOLCALL_TAGGED_LIST] = {OBJECTS, .openers = {S("<tool_calls>")},
                              .closers = {S("</tool_calls>")}},
    [TOOLCALL_APERTUS] = {.form = CALL_OBJECT,
                          .openers = {S("<|tools_prefix|>")},
                          .closers = {S("<|tools_suffix|>")},
                          .list = true,
                          .keyed = true,
                          .control = true},
    [TOOLCALL_INTERNLM] = {PARAMETERS, .openers = {S("<|action_start|><|plugin|>")},
                           .closers = {S("<|action_end|>")}, .control = true,
                           .shown = {S("<|action_start|>"), S("<|plugin|>")}},
    [TOOLCALL_HERMES] = {OBJECT, .openers = {S("<tool_call>")}, .closers = {S("</tool_call>")}},
    [TOOLCALL_FUNCTOOLS] = {OBJECTS, .openers = {S("functools[")}},
    [TOOLCALL_GIGACHAT_CALL] = {OBJECT, .openers = {S("<|function_call|>")}, .control = true},
    [TOOLCALL_GIGACHAT] = {OBJECT,
                           .openers = {S("<|message_sep|>\n\nfunction call<|role_sep|>"),
                                       S("function call<|role_sep|>")},
                           .control = true, .shown = {S("function call"), S("<|role_sep|>")}},
    [TOOLCALL_LLAMA] = {PYTHON, .openers = {S("<|python_tag|>")}, .name_key = "name",
                        .arguments_key = "parameters", .control = true, .bare = true,
                        .shown = {S("{\"name\": "), S("\"parameters\": ")}, .or_opener = true},
    [TOOLCALL_BARE] = {PYTHON, .name_key = "name", .arguments_key = "arguments", .bare = true},
};

tc_step_fn *const *const tc_steps[CALL_FORM_COUNT] = {
    [CALL_OBJECT] = tc_json_steps,      [CALL_NAMED] = tc_named_steps,
    [CALL_TAGS] = tc_named_steps,       [CALL_EXPRESSION] = tc_expr_steps,
    [CALL_MESSAGES] = tc_message_steps,
};

static bool shows(struct str text, const struct call_format *format)
{
    struct str opener = format->openers[0];
    bool all = format->shown[0].len > 0, by_opener = !all || format->or_opener;

    for (size_t i = 0; i < COUNT_OF(format->shown) && all; i++)
        all = format->shown[i].len == 0 || str_find(text, format->shown[i]) != SIZE_MAX;
    return all || (by_opener && opener.len > 0 && str_find(text, opener) != SIZE_MAX);
}

enum toolcall_format toolcall_detect(struct str template_text)
{
    for (size_t i = 0; i < TOOLCALL_COUNT; i++)
        if (shows(template_text, &tc_formats[i]))
            return (enum toolcall_format)i;
    return TOOLCALL_NONE;
}

const struct call_format *toolcall_row(enum toolcall_format format,
                                       const struct call_format *learned)
{
    assert((unsigned)format < TOOLCALL_COUNT);
    assert(format != TOOLCALL_LEARNED || learned != NULL);
    return format == TOOLCALL_LEARNED ? learned : &tc_formats[format];
}

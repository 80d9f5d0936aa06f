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

static const struct call_messages harmony = {
    .starts = {STR("<|start|>"), STR("<|channel|>"), STR("<|message|>"), STR("to="),
               STR("<|constrain|>")},
    .header_end = STR("<|message|>"),
    .ends = {STR("<|end|>"), STR("<|return|>"), STR("<|call|>"), STR("<|start|>"),
             STR("<|channel|>")},
    .ends_own = 3,
};

static const struct call_messages muse = {
    .starts = {STR("<|start|>"), STR("<|message|>"), STR("to=")},
    .header_end = STR("<|message|>"),
    .ends = {STR("<|eom|>"), STR("<|eot|>"), STR("<|start|>")},
    .ends_own = 2,
};

static const struct call_messages recipients = {
    .header_end = STR("\n"),
    .ends = {STR(">>>")},
    .opening = STR(">>>"),
};

#define MINIMAX_M3 "]<]minimax[>["

#define PYTHON .form = CALL_EXPRESSION, .open = '(', .between = '=', .close = ')'
#define GEMMA \
    .form = CALL_EXPRESSION, .call_begin = STR("call:"), .open = '{', .between = ':', .close = '}'
#define OBJECT     .form = CALL_OBJECT, .name_key = "name", .arguments_key = "arguments"
#define OBJECTS    OBJECT, .list = true
#define PARAMETERS .form = CALL_OBJECT, .name_key = "name", .arguments_key = "parameters"
#define COHERE \
    .form = CALL_OBJECT, .name_key = "tool_name", .arguments_key = "parameters", .list = true
#define QWEN                                                                                      \
    .form = CALL_TAGS, .call_begin = STR("<function="), .name_end = STR(">"),                     \
    .parameter_begin = STR("<parameter="), .key_end = STR(">"), .value_end = STR("</parameter>"), \
    .call_end = STR("</function>")
#define INVOKE(prefix)                                                             \
    .call_begin = STR("<" prefix "invoke name=\""), .name_end = STR("\">"),        \
    .parameter_begin = STR("<" prefix "parameter name=\""), .key_end = STR("\">"), \
    .value_end = STR("</" prefix "parameter>"), .call_end = STR("</" prefix "invoke>")

const struct call_format tc_formats[TOOLCALL_COUNT] = {
    [TOOLCALL_MUSE] = {.form = CALL_MESSAGES,
                       .messages = &muse,
                       .openers = {STR("<atem:function_calls>")},
                       .closers = {STR("</atem:function_calls>")},
                       INVOKE("atem:"),
                       .control = true},
    [TOOLCALL_HARMONY] = {.form = CALL_MESSAGES,
                          .messages = &harmony,
                          .control = true,
                          .shown = {STR("<|channel|>"), STR("<|message|>"), STR("commentary")}},
    [TOOLCALL_RECIPIENTS] = {.form = CALL_MESSAGES,
                             .messages = &recipients,
                             .shown = {STR(">>>all\\n")}},
    [TOOLCALL_DSML] = {.form = CALL_TAGS,
                       .openers = {STR("<｜DSML｜function_calls>"), STR("<｜DSML｜tool_calls>"),
                                   STR("<｜DSML｜invoke name=\"")},
                       .closers = {STR("</｜DSML｜function_calls>"), STR("</｜DSML｜tool_calls>")},
                       .call_begin = STR("<｜DSML｜invoke name=\""),
                       .name_end = STR("\">"),
                       .name_close = STR("\"/>"),
                       .parameter_begin = STR("<｜DSML｜parameter name=\""),
                       .key_end = STR("\""),
                       .attributes_end = STR(">"),
                       .value_end = STR("</｜DSML｜parameter>"),
                       .call_end = STR("</｜DSML｜invoke>"),
                       .control = true,
                       .shown = {STR("｜DSML｜")}},
    [TOOLCALL_DEEPSEEK] = {.form = CALL_NAMED,
                           .openers = {STR("<｜tool▁calls▁begin｜>"), STR("<｜tool▁call▁begin｜>")},
                           .closers = {STR("<｜tool▁calls▁end｜>")},
                           .call_begin = STR("<｜tool▁call▁begin｜>"),
                           .name_end = STR("<｜tool▁sep｜>"),
                           .call_end = STR("<｜tool▁call▁end｜>"),
                           .fenced = true,
                           .control = true,
                           .shown = {STR("<｜tool▁call▁begin｜>")}},
    [TOOLCALL_KIMI] = {.form = CALL_NAMED,
                       .openers = {STR("<|tool_calls_section_begin|>"), STR("<|tool_call_begin|>")},
                       .closers = {STR("<|tool_calls_section_end|>")},
                       .call_begin = STR("<|tool_call_begin|>"),
                       .name_end = STR("<|tool_call_argument_begin|>"),
                       .call_end = STR("<|tool_call_end|>"),
                       .numbered = true,
                       .control = true},
    [TOOLCALL_KIMI_TAGS] = {.form = CALL_TAGS,
                            .openers = {STR("<|open|>tools<|sep|>")},
                            .closers = {STR("<|close|>tools<|sep|>")},
                            .call_begin = STR("<|open|>call tool=\""),
                            .head_begin = STR("\""),
                            .name_end = STR("<|sep|>"),
                            .parameter_begin = STR("<|open|>argument key=\""),
                            .key_end = STR("\""),
                            .attributes_end = STR("<|sep|>"),
                            .object_begin = STR("<|open|>json"),
                            .value_end = STR("<|close|>argument<|sep|>"),
                            .call_end = STR("<|close|>call<|sep|>"),
                            .control = true,
                            .shown = {STR("'<|open|>'"), STR("'<|sep|>'"), STR("'argument'")}},
    [TOOLCALL_MINIMAX] = {.form = CALL_TAGS,
                          .openers = {STR("<minimax:tool_call>")},
                          .closers = {STR("</minimax:tool_call>")},
                          INVOKE("")},
    [TOOLCALL_MINIMAX_M3] = {.form = CALL_TAGS,
                             .openers = {STR(MINIMAX_M3 "<tool_call>")},
                             .closers = {STR(MINIMAX_M3 "</tool_call>")},
                             .call_begin = STR(MINIMAX_M3 "<invoke name=\""),
                             .name_end = STR("\">"),
                             .parameter_begin = STR(MINIMAX_M3 "<"),
                             .key_end = STR(">"),
                             .value_end = STR(MINIMAX_M3 "</"),
                             .value_tail = STR(">"),
                             .call_end = STR(MINIMAX_M3 "</invoke>"),
                             .nested = true,
                             .control = true,
                             .shown = {STR(MINIMAX_M3)}},
    [TOOLCALL_GEMMA] = {GEMMA, .openers = {STR("<|tool_call>")}, .closers = {STR("<tool_call|>")},
                        .quote = STR("<|\"|>"), .control = true},
    [TOOLCALL_GEMMA_CALL] = {GEMMA, .openers = {STR("<start_function_call>")},
                             .closers = {STR("<end_function_call>")}, .quote = STR("<escape>"),
                             .control = true},
    [TOOLCALL_GEMMA_CODE] = {PYTHON, .openers = {STR("```tool_code")}, .closers = {STR("```")}},
    [TOOLCALL_GLM] = {.form = CALL_TAGS,
                      .openers = {STR("<tool_call>")},
                      .closers = {STR("</tool_call>")},
                      .parameter_begin = STR("<arg_key>"),
                      .key_end = STR("</arg_key>"),
                      .value_begin = STR("<arg_value>"),
                      .value_end = STR("</arg_value>"),
                      .shown = {STR("<tool_call>"), STR("<arg_key>")}},
    [TOOLCALL_SEED] = {QWEN, .openers = {STR("<seed:tool_call>")},
                       .closers = {STR("</seed:tool_call>")}},
    [TOOLCALL_QWEN_XML] = {QWEN, .openers = {STR("<tool_call>"), STR("<function=")},
                           .closers = {STR("</tool_call>")}, .lines = true,
                           .shown = {STR("<function="), STR("<parameter=")}},
    [TOOLCALL_MINICPM] = {.form = CALL_TAGS,
                          .openers = {STR("<function name=\"")},
                          .name_end = STR("\">"),
                          .parameter_begin = STR("<param name=\""),
                          .key_end = STR("\">"),
                          .value_end = STR("</param>"),
                          .call_end = STR("</function>"),
                          .cdata = true,
                          .shown = {STR("<function name=\""), STR("<param name=\"")}},
    [TOOLCALL_FUNCTIONARY] = {.form = CALL_NAMED,
                              .openers = {STR("<function=")},
                              .name_end = STR(">"),
                              .call_end = STR("</function>"),
                              .shown = {STR("<function="), STR("</function>")}},
    [TOOLCALL_MISTRAL] = {.form = CALL_NAMED,
                          .openers = {STR("[TOOL_CALLS]")},
                          .head_begin = STR("[CALL_ID]"),
                          .name_end = STR("[ARGS]"),
                          .name_key = "name",
                          .arguments_key = "arguments",
                          .control = true},
    [TOOLCALL_SOLAR] = {.form = CALL_NAMED,
                        .openers = {STR("<|begin|>assistant<|tool_calls|>"), STR("<|tool_calls|>")},
                        .call_begin = STR("<|tool_call:begin|>"),
                        .id_end = STR("<|tool_call:name|>"),
                        .name_end = STR("<|tool_call:args|>"),
                        .call_end = STR("<|tool_call:end|>"),
                        .control = true,
                        .shown = {STR("<|tool_call:begin|>"), STR("<|tool_call:name|>")}},
    /* its templates leave the rest to the model */
    [TOOLCALL_LFM] = {PYTHON, .openers = {STR("<|tool_call_start|>")},
                      .closers = {STR("<|tool_call_end|>")}, .control = true,
                      .shown = {STR("List of tools: ")}, .or_opener = true},
    [TOOLCALL_PHI] = {OBJECTS, .openers = {STR("<|tool_call|>")},
                      .closers = {STR("<|/tool_call|>")}, .control = true,
                      .shown = {STR("<|tool_call|>"), STR("<|/tool_call|>")}},
    [TOOLCALL_GRANITE] = {OBJECTS, .openers = {STR("<|tool_call|>")}, .control = true},
    [TOOLCALL_NEMOTRON] = {OBJECTS, .openers = {STR("<TOOLCALL>")},
                           .closers = {STR("</TOOLCALL>")}},
    [TOOLCALL_COHERE] = {COHERE, .openers = {STR("<|START_ACTION|>")},
                         .closers = {STR("<|END_ACTION|>")}, .control = true},
    [TOOLCALL_COHERE_PLUS] = {COHERE,
                              .openers = {STR("Action:\n```json\n"), STR("Action: ```json\n")},
                              .closers = {STR("```")},
                              .shown = {STR("Action:"), STR("```json"), STR("\"tool_name\"")}},
    [TOOLCALL_TAGGED_LIST] = {OBJECTS, .openers = {STR("<tool_calls>")},
                              .closers = {STR("</tool_calls>")}},
    [TOOLCALL_APERTUS] = {.form = CALL_OBJECT,
                          .openers = {STR("<|tools_prefix|>")},
                          .closers = {STR("<|tools_suffix|>")},
                          .list = true,
                          .keyed = true,
                          .control = true},
    [TOOLCALL_INTERNLM] = {PARAMETERS, .openers = {STR("<|action_start|><|plugin|>")},
                           .closers = {STR("<|action_end|>")}, .control = true,
                           .shown = {STR("<|action_start|>"), STR("<|plugin|>")}},
    [TOOLCALL_HERMES] = {OBJECT, .openers = {STR("<tool_call>")}, .closers = {STR("</tool_call>")}},
    [TOOLCALL_FUNCTOOLS] = {OBJECTS, .openers = {STR("functools[")}},
    [TOOLCALL_GIGACHAT_CALL] = {OBJECT, .openers = {STR("<|function_call|>")}, .control = true},
    [TOOLCALL_GIGACHAT] = {OBJECT,
                           .openers = {STR("<|message_sep|>\n\nfunction call<|role_sep|>"),
                                       STR("function call<|role_sep|>")},
                           .control = true, .shown = {STR("function call"), STR("<|role_sep|>")}},
    [TOOLCALL_LLAMA] = {PYTHON, .openers = {STR("<|python_tag|>")}, .name_key = "name",
                        .arguments_key = "parameters", .control = true, .bare = true,
                        .shown = {STR("{\"name\": "), STR("\"parameters\": ")}, .or_opener = true},
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

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
#include "output/toolcall_syntax.h"

/* STR is not a constant expression for every compiler. */
#define S(literal)                     \
    {                                  \
        (literal), sizeof(literal) - 1 \
    }

static const struct tc_named_syntax deepseek = {
    .call_begin = S("<｜tool▁call▁begin｜>"),
    .name_end = S("<｜tool▁sep｜>"),
    .call_end = S("<｜tool▁call▁end｜>"),
    .fenced = true,
};

static const struct tc_named_syntax kimi = {
    .call_begin = S("<|tool_call_begin|>"),
    .name_end = S("<|tool_call_argument_begin|>"),
    .call_end = S("<|tool_call_end|>"),
    .numbered = true,
};

static const struct tc_named_syntax functionary = {
    .name_end = S(">"),
    .call_end = S("</function>"),
};

static const struct tc_xml_syntax dsml = {
    .call_begin = S("<｜DSML｜invoke name=\""),
    .name_end = S("\">"),
    .parameter_begin = S("<｜DSML｜parameter name=\""),
    .key_end = S("\""),
    .value_end = S("</｜DSML｜parameter>"),
    .call_end = S("</｜DSML｜invoke>"),
    .typed = true,
};

static const struct tc_xml_syntax minimax = {
    .call_begin = S("<invoke name=\""),
    .name_end = S("\">"),
    .parameter_begin = S("<parameter name=\""),
    .key_end = S("\">"),
    .value_end = S("</parameter>"),
    .call_end = S("</invoke>"),
};

static const struct tc_xml_syntax glm = {
    .parameter_begin = S("<arg_key>"),
    .key_end = S("</arg_key>"),
    .value_begin = S("<arg_value>"),
    .value_end = S("</arg_value>"),
};

static const struct tc_xml_syntax qwen = {
    .call_begin = S("<function="),
    .name_end = S(">"),
    .parameter_begin = S("<parameter="),
    .key_end = S(">"),
    .value_end = S("</parameter>"),
    .call_end = S("</function>"),
    .lines = true,
};

static const struct tc_expr_syntax python = {.open = '(', .between = '=', .close = ')'};

static const struct tc_expr_syntax gemma = {
    .prefix = S("call:"), .quote = S("<|\"|>"), .open = '{', .between = ':', .close = '}'};

static const struct tc_expr_syntax gemma_call = {
    .prefix = S("call:"), .quote = S("<escape>"), .open = '{', .between = ':', .close = '}'};

const struct tc_format tc_formats[TOOLCALL_COUNT] = {
    [TOOLCALL_NONE] = {.id = TOOLCALL_NONE},
    [TOOLCALL_HARMONY] = {.id = TOOLCALL_HARMONY,
                          .control = true,
                          .all = true,
                          .step = tc_harmony_step,
                          .shown = {S("<|channel|>"), S("<|message|>"), S("commentary")}},
    [TOOLCALL_DSML] = {.id = TOOLCALL_DSML,
                       .openers = {S("<｜DSML｜function_calls>"), S("<｜DSML｜tool_calls>")},
                       .control = true,
                       .step = tc_xml_step,
                       .closers = {S("</｜DSML｜function_calls>"), S("</｜DSML｜tool_calls>")},
                       .syntax = &dsml,
                       .shown_alone = S("｜DSML｜")},
    [TOOLCALL_DEEPSEEK] = {.id = TOOLCALL_DEEPSEEK,
                           .openers = {S("<｜tool▁calls▁begin｜>"), S("<｜tool▁call▁begin｜>")},
                           .control = true,
                           .step = tc_named_step,
                           .closers = {S("<｜tool▁calls▁end｜>")},
                           .syntax = &deepseek,
                           .shown_alone = S("<｜tool▁call▁begin｜>")},
    [TOOLCALL_KIMI] = {.id = TOOLCALL_KIMI,
                       .openers = {S("<|tool_calls_section_begin|>"), S("<|tool_call_begin|>")},
                       .control = true,
                       .step = tc_named_step,
                       .closers = {S("<|tool_calls_section_end|>")},
                       .syntax = &kimi,
                       .shown_alone = S("<|tool_calls_section_begin|>")},
    [TOOLCALL_MINIMAX] = {.id = TOOLCALL_MINIMAX,
                          .openers = {S("<minimax:tool_call>")},
                          .step = tc_xml_step,
                          .closers = {S("</minimax:tool_call>")},
                          .syntax = &minimax,
                          .shown_alone = S("<minimax:tool_call>")},
    [TOOLCALL_GEMMA] = {.id = TOOLCALL_GEMMA,
                        .openers = {S("<|tool_call>")},
                        .control = true,
                        .step = tc_expr_step,
                        .closers = {S("<tool_call|>")},
                        .syntax = &gemma,
                        .shown_alone = S("<|tool_call>")},
    [TOOLCALL_GEMMA_CALL] = {.id = TOOLCALL_GEMMA_CALL,
                             .openers = {S("<start_function_call>")},
                             .control = true,
                             .step = tc_expr_step,
                             .closers = {S("<end_function_call>")},
                             .syntax = &gemma_call,
                             .shown_alone = S("<start_function_call>")},
    [TOOLCALL_GEMMA_CODE] = {.id = TOOLCALL_GEMMA_CODE,
                             .openers = {S("```tool_code")},
                             .step = tc_expr_step,
                             .closers = {S("```")},
                             .syntax = &python,
                             .shown_alone = S("```tool_code")},
    [TOOLCALL_GLM] = {.id = TOOLCALL_GLM,
                      .openers = {S("<tool_call>")},
                      .step = tc_xml_step,
                      .closers = {S("</tool_call>")},
                      .syntax = &glm,
                      .shown = {S("<tool_call>"), S("<arg_key>")}},
    [TOOLCALL_QWEN_XML] = {.id = TOOLCALL_QWEN_XML,
                           .openers = {S("<tool_call>"), S("<function=")},
                           .step = tc_xml_step,
                           .closers = {S("</tool_call>")},
                           .syntax = &qwen,
                           .shown = {S("<function="), S("<parameter=")}},
    [TOOLCALL_FUNCTIONARY] = {.id = TOOLCALL_FUNCTIONARY,
                              .openers = {S("<function=")},
                              .step = tc_named_step,
                              .syntax = &functionary,
                              .shown = {S("<function="), S("</function>")}},
    [TOOLCALL_MISTRAL] = {.id = TOOLCALL_MISTRAL,
                          .openers = {S("[TOOL_CALLS]")},
                          .control = true,
                          .step = tc_mistral_step,
                          .shown_alone = S("[TOOL_CALLS]")},
    [TOOLCALL_LFM] = {.id = TOOLCALL_LFM,
                      .openers = {S("<|tool_call_start|>")},
                      .control = true,
                      .step = tc_expr_step,
                      .closers = {S("<|tool_call_end|>")},
                      .syntax = &python,
                      .shown = {S(
                          "List of tools: ")}, /* its templates leave the rest to the model */
                      .shown_alone = S("<|tool_call_start|>")},
    [TOOLCALL_GRANITE] = {.id = TOOLCALL_GRANITE,
                          .openers = {S("<|tool_call|>")},
                          .control = true,
                          .step = tc_json_step,
                          .shown_alone = S("<|tool_call|>")},
    [TOOLCALL_NEMOTRON] = {.id = TOOLCALL_NEMOTRON,
                           .openers = {S("<TOOLCALL>")},
                           .step = tc_json_step,
                           .closers = {S("</TOOLCALL>")},
                           .shown_alone = S("<TOOLCALL>")},
    [TOOLCALL_COHERE] = {.id = TOOLCALL_COHERE,
                         .openers = {S("<|START_ACTION|>")},
                         .control = true,
                         .step = tc_json_step,
                         .closers = {S("<|END_ACTION|>")},
                         .shown_alone = S("<|START_ACTION|>")},
    [TOOLCALL_COHERE_PLUS] = {.id = TOOLCALL_COHERE_PLUS,
                              .openers = {S("Action:\n```json\n"), S("Action: ```json\n")},
                              .step = tc_json_step,
                              .closers = {S("```")},
                              .shown = {S("Action:"), S("```json"), S("\"tool_name\"")}},
    [TOOLCALL_TAGGED_LIST] = {.id = TOOLCALL_TAGGED_LIST,
                              .openers = {S("<tool_calls>")},
                              .step = tc_json_step,
                              .closers = {S("</tool_calls>")},
                              .shown_alone = S("<tool_calls>")},
    [TOOLCALL_HERMES] = {.id = TOOLCALL_HERMES,
                         .openers = {S("<tool_call>")},
                         .step = tc_json_step,
                         .closers = {S("</tool_call>")},
                         .shown_alone = S("<tool_call>")},
    [TOOLCALL_FUNCTOOLS] = {.id = TOOLCALL_FUNCTOOLS,
                            .openers = {S("functools[")},
                            .step = tc_json_step,
                            .shown_alone = S("functools[")},
    [TOOLCALL_GIGACHAT] = {.id = TOOLCALL_GIGACHAT,
                           .openers = {S("<|message_sep|>\n\nfunction call<|role_sep|>"),
                                       S("function call<|role_sep|>")},
                           .control = true,
                           .step = tc_json_step,
                           .shown = {S("function call"), S("<|role_sep|>")}},
    [TOOLCALL_LLAMA] = {.id = TOOLCALL_LLAMA,
                        .openers = {S("<|python_tag|>")},
                        .control = true,
                        .bare = true,
                        .step = tc_expr_step,
                        .syntax = &python,
                        .shown = {S("{\"name\": "), S("\"parameters\": ")},
                        .shown_alone = S("<|python_tag|>")},
};

static bool shows(struct str text, const struct tc_format *format)
{
    bool all = format->shown[0].len > 0;

    for (size_t i = 0; i < COUNT_OF(format->shown) && all; i++)
        all = format->shown[i].len == 0 || str_find(text, format->shown[i]) != SIZE_MAX;
    return all || (format->shown_alone.len > 0 && str_find(text, format->shown_alone) != SIZE_MAX);
}

enum toolcall_format toolcall_detect(struct str template_text)
{
    for (size_t i = 0; i < TOOLCALL_COUNT; i++)
        if (shows(template_text, &tc_formats[i]))
            return tc_formats[i].id;
    return TOOLCALL_NONE;
}

const struct str *toolcall_openers(enum toolcall_format format, size_t *count, bool *control)
{
    assert((unsigned)format < TOOLCALL_COUNT);
    const struct tc_format *row = &tc_formats[format];
    *count = 0;
    while (*count < TC_OPENERS_MAX && row->openers[*count].len > 0)
        ++*count;
    *control = row->control;
    return row->openers;
}

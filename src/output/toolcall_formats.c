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

/* Openers, closers, steps, their syntax; then flags, and what templates show. */
const struct tc_format tc_formats[TOOLCALL_COUNT] = {
    [TOOLCALL_HARMONY] = {.steps = tc_harmony_steps,
                          .control = true,
                          .all = true,
                          .shown = {S("<|channel|>"), S("<|message|>"), S("commentary")}},
    [TOOLCALL_DSML] = {{S("<｜DSML｜function_calls>"), S("<｜DSML｜tool_calls>")},
                       {S("</｜DSML｜function_calls>"), S("</｜DSML｜tool_calls>")},
                       tc_xml_steps,
                       &dsml,
                       .control = true,
                       .shown = {S("｜DSML｜")}},
    [TOOLCALL_DEEPSEEK] = {{S("<｜tool▁calls▁begin｜>"), S("<｜tool▁call▁begin｜>")},
                           {S("<｜tool▁calls▁end｜>")},
                           tc_named_steps,
                           &deepseek,
                           .control = true,
                           .shown = {S("<｜tool▁call▁begin｜>")}},
    [TOOLCALL_KIMI] = {{S("<|tool_calls_section_begin|>"), S("<|tool_call_begin|>")},
                       {S("<|tool_calls_section_end|>")},
                       tc_named_steps,
                       &kimi,
                       .control = true},
    [TOOLCALL_MINIMAX] = {{S("<minimax:tool_call>")},
                          {S("</minimax:tool_call>")},
                          tc_xml_steps,
                          &minimax},
    [TOOLCALL_GEMMA] =
        {{S("<|tool_call>")}, {S("<tool_call|>")}, tc_expr_steps, &gemma, .control = true},
    [TOOLCALL_GEMMA_CALL] = {{S("<start_function_call>")},
                             {S("<end_function_call>")},
                             tc_expr_steps,
                             &gemma_call,
                             .control = true},
    [TOOLCALL_GEMMA_CODE] = {{S("```tool_code")}, {S("```")}, tc_expr_steps, &python},
    [TOOLCALL_GLM] = {{S("<tool_call>")},
                      {S("</tool_call>")},
                      tc_xml_steps,
                      &glm,
                      .shown = {S("<tool_call>"), S("<arg_key>")}},
    [TOOLCALL_QWEN_XML] = {{S("<tool_call>"), S("<function=")},
                           {S("</tool_call>")},
                           tc_xml_steps,
                           &qwen,
                           .shown = {S("<function="), S("<parameter=")}},
    [TOOLCALL_FUNCTIONARY] = {{S("<function=")},
                              {{0}},
                              tc_named_steps,
                              &functionary,
                              .shown = {S("<function="), S("</function>")}},
    [TOOLCALL_MISTRAL] = {{S("[TOOL_CALLS]")}, {{0}}, tc_mistral_steps, .control = true},
    /* its templates leave the rest to the model */
    [TOOLCALL_LFM] = {{S("<|tool_call_start|>")},
                      {S("<|tool_call_end|>")},
                      tc_expr_steps,
                      &python,
                      .control = true,
                      .shown = {S("List of tools: ")},
                      .or_opener = true},
    [TOOLCALL_GRANITE] = {{S("<|tool_call|>")}, {{0}}, tc_json_steps, .control = true},
    [TOOLCALL_NEMOTRON] = {{S("<TOOLCALL>")}, {S("</TOOLCALL>")}, tc_json_steps},
    [TOOLCALL_COHERE] = {{S("<|START_ACTION|>")},
                         {S("<|END_ACTION|>")},
                         tc_json_steps,
                         .control = true},
    [TOOLCALL_COHERE_PLUS] = {{S("Action:\n```json\n"), S("Action: ```json\n")},
                              {S("```")},
                              tc_json_steps,
                              .shown = {S("Action:"), S("```json"), S("\"tool_name\"")}},
    [TOOLCALL_TAGGED_LIST] = {{S("<tool_calls>")}, {S("</tool_calls>")}, tc_json_steps},
    [TOOLCALL_HERMES] = {{S("<tool_call>")}, {S("</tool_call>")}, tc_json_steps},
    [TOOLCALL_FUNCTOOLS] = {{S("functools[")}, {{0}}, tc_json_steps},
    [TOOLCALL_GIGACHAT] = {{S("<|message_sep|>\n\nfunction call<|role_sep|>"),
                            S("function call<|role_sep|>")},
                           {{0}},
                           tc_json_steps,
                           .control = true,
                           .shown = {S("function call"), S("<|role_sep|>")}},
    [TOOLCALL_LLAMA] = {{S("<|python_tag|>")},
                        {{0}},
                        tc_expr_steps,
                        &python,
                        .control = true,
                        .bare = true,
                        .shown = {S("{\"name\": "), S("\"parameters\": ")},
                        .or_opener = true},
};

static bool shows(struct str text, const struct tc_format *format)
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

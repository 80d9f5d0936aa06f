#include "output/output.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/output_log.h"
#include "support/templates.h"
#include "support/test.h"

/* What templates show: those of tests/data, then published ones. */
static const struct {
    const char *name;
    enum toolcall_format calls;
    enum reasoning_format reasoning;
} templates[] = {
    {"bars", TOOLCALL_DEEPSEEK, REASONING_THINK},
    {"channels", TOOLCALL_HARMONY, REASONING_HARMONY},
    {"chatml", TOOLCALL_NONE, REASONING_NONE},
    {"headers", TOOLCALL_LLAMA, REASONING_NONE},
    {"hermes", TOOLCALL_HERMES, REASONING_NONE},
    {"inst", TOOLCALL_MISTRAL, REASONING_NONE},
    {"keys", TOOLCALL_GLM, REASONING_THINK},
    {"parameters", TOOLCALL_QWEN_XML, REASONING_NONE},
    {"plain", TOOLCALL_NONE, REASONING_NONE},
    {"roles", TOOLCALL_GRANITE, REASONING_NONE},
    {"sections", TOOLCALL_KIMI, REASONING_THINK},
    {"thinking", TOOLCALL_HERMES, REASONING_THINK},
    {"turns", TOOLCALL_NONE, REASONING_NONE},
    {"Apriel-1.6-15b-Thinker-fixed", TOOLCALL_TAGGED_LIST, REASONING_APRIEL},
    {"CohereForAI-c4ai-command-r-plus-tool_use", TOOLCALL_COHERE_PLUS, REASONING_NONE},
    {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", TOOLCALL_COHERE, REASONING_COHERE},
    {"GLM-4.6", TOOLCALL_GLM, REASONING_THINK},
    {"GLM-4.7-Flash", TOOLCALL_GLM, REASONING_THINK},
    {"GigaChat3-10B-A1.8B", TOOLCALL_GIGACHAT, REASONING_NONE},
    {"HuggingFaceTB-SmolLM3-3B", TOOLCALL_NONE, REASONING_THINK},
    {"Kimi-K2-Instruct", TOOLCALL_KIMI, REASONING_NONE},
    {"Kimi-K2-Thinking", TOOLCALL_KIMI, REASONING_THINK},
    {"LFM2-8B-A1B", TOOLCALL_LFM, REASONING_NONE},
    {"LFM2.5-Instruct", TOOLCALL_LFM, REASONING_THINK},
    {"MiMo-VL", TOOLCALL_HERMES, REASONING_NONE},
    {"MiniMax-M1", TOOLCALL_TAGGED_LIST, REASONING_NONE},
    {"MiniMax-M2", TOOLCALL_MINIMAX, REASONING_THINK},
    {"Mistral-Small-3.2-24B-Instruct-2506", TOOLCALL_MISTRAL, REASONING_NONE},
    {"NVIDIA-Nemotron-Nano-v2", TOOLCALL_NEMOTRON, REASONING_THINK},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", TOOLCALL_HERMES, REASONING_NONE},
    {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", TOOLCALL_HERMES, REASONING_NONE},
    {"Qwen-QwQ-32B", TOOLCALL_HERMES, REASONING_THINK},
    {"Qwen-Qwen2.5-7B-Instruct", TOOLCALL_HERMES, REASONING_NONE},
    {"Qwen-Qwen3-0.6B", TOOLCALL_HERMES, REASONING_THINK},
    {"Qwen3-Coder", TOOLCALL_QWEN_XML, REASONING_NONE},
    {"Qwen3.5-4B", TOOLCALL_QWEN_XML, REASONING_THINK},
    {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", TOOLCALL_DEEPSEEK, REASONING_THINK},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", TOOLCALL_DEEPSEEK, REASONING_THINK},
    {"deepseek-ai-DeepSeek-V3.1", TOOLCALL_DEEPSEEK, REASONING_THINK},
    {"deepseek-ai-DeepSeek-V3.2", TOOLCALL_DSML, REASONING_THINK},
    {"deepseek-ai-DeepSeek-V4", TOOLCALL_DSML, REASONING_THINK},
    {"fireworks-ai-llama-3-firefunction-v2", TOOLCALL_FUNCTOOLS, REASONING_NONE},
    {"google-gemma-2-2b-it", TOOLCALL_NONE, REASONING_NONE},
    {"google-gemma-4-31B-it-interleaved", TOOLCALL_GEMMA, REASONING_GEMMA},
    {"google-gemma-4-31B-it", TOOLCALL_GEMMA, REASONING_GEMMA},
    {"ibm-granite-granite-3.3-2B-Instruct", TOOLCALL_GRANITE, REASONING_THINK},
    {"ibm-granite-granite-4.0", TOOLCALL_HERMES, REASONING_NONE},
    {"llama-cpp-deepseek-r1", TOOLCALL_DEEPSEEK, REASONING_THINK},
    {"llama-cpp-rwkv-world", TOOLCALL_NONE, REASONING_THINK},
    {"meetkai-functionary-medium-v3.1", TOOLCALL_FUNCTIONARY, REASONING_NONE},
    {"meta-llama-Llama-3.1-8B-Instruct", TOOLCALL_LLAMA, REASONING_NONE},
    {"meta-llama-Llama-3.2-3B-Instruct", TOOLCALL_LLAMA, REASONING_NONE},
    {"meta-llama-Llama-3.3-70B-Instruct", TOOLCALL_LLAMA, REASONING_NONE},
    {"microsoft-Phi-3.5-mini-instruct", TOOLCALL_NONE, REASONING_NONE},
    {"mistralai-Ministral-3-14B-Reasoning-2512", TOOLCALL_MISTRAL, REASONING_MISTRAL},
    {"mistralai-Mistral-Nemo-Instruct-2407", TOOLCALL_MISTRAL, REASONING_NONE},
    {"moonshotai-Kimi-K2", TOOLCALL_KIMI, REASONING_NONE},
    {"openai-gpt-oss-120b", TOOLCALL_HARMONY, REASONING_HARMONY},
    {"poolside-Laguna-S-2.1", TOOLCALL_GLM, REASONING_THINK},
    {"poolside-Laguna-XS.2", TOOLCALL_GLM, REASONING_THINK},
    {"unsloth-Apriel-1.5", TOOLCALL_TAGGED_LIST, REASONING_APRIEL},
};

static void try_template(const char *name, const char *source, void *arg)
{
    size_t *known = arg;
    struct output_formats formats = output_detect(str_from(source));

    for (size_t i = 0; i < COUNT_OF(templates); i++) {
        size_t len = strlen(templates[i].name);
        if (strncmp(name, templates[i].name, len) != 0 || strcmp(name + len, ".jinja") != 0)
            continue;
        if (formats.calls != templates[i].calls || formats.reasoning != templates[i].reasoning)
            fail_msg("%s shows %s, reasoning %d", name, toolcall_format_name(formats.calls),
                     (int)formats.reasoning);
        (*known)++;
    }
}

static void test_templates(void **state)
{
    size_t known = 0;

    (void)state;
    size_t published = templates_each(try_template, &known);
    assert_int_equal(known, published > 0 ? COUNT_OF(templates) : TEMPLATES_OWN);
}

/* The markup alone decides, whatever is around it. */
static void test_markup_decides(void **state)
{
    static const struct {
        const char *text;
        enum toolcall_format calls;
        enum reasoning_format reasoning;
    } cases[] = {
        {"", TOOLCALL_NONE, REASONING_NONE},
        {"{# Qwen3-Coder, Llama, gpt-oss #}{{ messages }}", TOOLCALL_NONE, REASONING_NONE},
        {"{{ '<tool_call>' }}", TOOLCALL_HERMES, REASONING_NONE},
        {"{{ '<tool_call><function=' }}<parameter=", TOOLCALL_QWEN_XML, REASONING_NONE},
        {"<tool_call><arg_key>", TOOLCALL_GLM, REASONING_NONE},
        {"<start_function_call>call:", TOOLCALL_GEMMA_CALL, REASONING_NONE},
        {"```tool_code", TOOLCALL_GEMMA_CODE, REASONING_NONE},
        {"<|tool_call_start|>", TOOLCALL_LFM, REASONING_NONE},
        {"<seed:think>", TOOLCALL_NONE, REASONING_SEED},
        {"<tool_call> </think>", TOOLCALL_HERMES, REASONING_THINK},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct output_formats formats = output_detect(str_from(cases[i].text));
        assert_int_equal(formats.calls, cases[i].calls);
        assert_int_equal(formats.reasoning, cases[i].reasoning);
    }
}

struct golden {
    struct output_formats formats;
    const char *tail;
    const char *text;
    const char *events;
};

static const struct golden goldens[] = {
    {{.reasoning = REASONING_THINK, .calls = TOOLCALL_HERMES},
     "<|im_start|>assistant\n",
     "<think>\nI see a <tool_call> coming.\n</think>\n\nFine.\n<tool_call>\n{\"name\": \"f\", "
     "\"arguments\": {}}\n</tool_call>",
     "reasoning|I see a <tool_call> coming.\ncontent|Fine.\ncall 0|f|{}\n"},
    {{.reasoning = REASONING_THINK, .calls = TOOLCALL_HERMES},
     "<think>\n",
     "Hm.\n<tool_call>{\"name\": \"f\"}</tool_call>",
     "reasoning|Hm.\ncall 0|f|{}\n"},
    {{.reasoning = REASONING_THINK, .calls = TOOLCALL_KIMI},
     "<think>",
     "Hm. <|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
     "{}<|tool_call_end|><|tool_calls_section_end|>",
     "reasoning|Hm.\ncall 0|f|{}\n"},
    {{.reasoning = REASONING_THINK, .calls = TOOLCALL_QWEN_XML},
     "<think>\n",
     "a\n</think>\n\n<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n"
     "</tool_call>",
     "reasoning|a\ncall 0|f|{\"x\":1}\n"},
    {{.reasoning = REASONING_GEMMA, .calls = TOOLCALL_GEMMA},
     "<|turn>model\n",
     "<|channel>thought\na\n<channel|><|tool_call>call:f{x:<|\"|>y<|\"|>}<tool_call|>",
     "reasoning|a\ncall 0|f|{\"x\":\"y\"}\n"},
    {{.reasoning = REASONING_MISTRAL, .calls = TOOLCALL_MISTRAL},
     "[/INST]",
     "[THINK]a[/THINK]b[TOOL_CALLS]f[ARGS]{\"x\": 1}",
     "reasoning|a\ncontent|b\ncall 0|f|{\"x\": 1}\n"},
    /* what arguments say about marks is theirs */
    {{.reasoning = REASONING_MISTRAL, .calls = TOOLCALL_MISTRAL},
     "[/INST]",
     "[TOOL_CALLS]f[ARGS]{\"x\": \"[THINK] opens, [/THINK] closes\"}[THINK]a[/THINK]b",
     "call 0|f|{\"x\": \"[THINK] opens, [/THINK] closes\"}\nreasoning|a\ncontent|b\n"},
    {{.reasoning = REASONING_GEMMA, .calls = TOOLCALL_GEMMA},
     "<|turn>model\n",
     "<|tool_call>call:f{x:<|\"|>a<|channel>thought b<channel|>c<|\"|>}<tool_call|>"
     "<|channel>thought\nd<channel|>e<|channel>",
     "call 0|f|{\"x\":\"a<|channel>thought b<channel|>c\"}\nreasoning|d\ncontent|e\n"},
    {{.reasoning = REASONING_COHERE, .calls = TOOLCALL_COHERE},
     "",
     "<|START_THINKING|>a<|END_THINKING|><|START_ACTION|>[{\"tool_name\": \"f\", \"parameters\": "
     "{}}]<|END_ACTION|>",
     "reasoning|a\ncall 0|f|{}\n"},
    {{.reasoning = REASONING_HARMONY, .calls = TOOLCALL_HARMONY},
     "<|start|>assistant",
     "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
     "reasoning|a\ncontent|b\n"},
    {{.reasoning = REASONING_THINK, .calls = TOOLCALL_DEEPSEEK},
     "<｜Assistant｜></think>",
     "b<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{",
     "content|b\nopen 0|f|{\nerror|the call is not complete\n"},
};

static struct output_options options_of(const struct golden *golden)
{
    return (struct output_options){
        .formats = golden->formats, .calls = true, .prompt_tail = str_from(golden->tail)};
}

static void test_every_cut_gives_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(goldens); i++) {
        struct output_options options = options_of(&goldens[i]);
        size_t len = strlen(goldens[i].text);
        for (size_t cut = 0; cut <= len; cut++) {
            struct output_log log;
            output_log_init(&log);
            struct output *output = output_create(&options, output_log_event, &log);
            assert_ok(output_push(output, (struct str){goldens[i].text, cut}));
            assert_ok(output_push(output, (struct str){goldens[i].text + cut, len - cut}));
            assert_ok(output_finish(output, false));
            assert_string_equal(output_log_text(&log), goldens[i].events);
            output_destroy(&output);
            output_log_fini(&log);
        }
    }
}

static void run(struct output_options options, const char *text, const char *events)
{
    struct output_log log;

    output_log_init(&log);
    struct output *output = output_create(&options, output_log_event, &log);
    for (const char *at = text; *at != '\0'; at++)
        assert_ok(output_push(output, (struct str){at, 1}));
    assert_ok(output_finish(output, false));
    assert_string_equal(output_log_text(&log), events);
    output_destroy(&output);
    output_log_fini(&log);
}

static void test_without_tools_markup_is_text(void **state)
{
    struct output_options options = {
        .formats = {.reasoning = REASONING_THINK, .calls = TOOLCALL_HERMES}};

    (void)state;
    run(options, "<think>a</think><tool_call>{}", "reasoning|a\ncontent|<tool_call>{}\n");
}

static void test_thoughts_can_be_dropped(void **state)
{
    struct output_options options = {
        .formats = {.reasoning = REASONING_HARMONY, .calls = TOOLCALL_HARMONY},
        .reasoning = REASONING_DROP};

    (void)state;
    run(options, "<|channel|>analysis<|message|>a<|end|><|channel|>final<|message|>b",
        "content|b\n");
    options.formats =
        (struct output_formats){.reasoning = REASONING_THINK, .calls = TOOLCALL_HERMES};
    run(options, "<think>a</think>b", "content|b\n");
    options.reasoning = REASONING_RAW;
    run(options, "<think>a</think>b", "content|<think>a</think>b\n");
}

/* Calls or content: what is decided at the beginning is not changed by what the content quotes. */
static void test_either_calls_or_content(void **state)
{
    struct output_options options = {
        .formats = {.reasoning = REASONING_THINK, .calls = TOOLCALL_HERMES},
        .calls = true,
        .either = true};

    (void)state;
    run(options, "<think>a</think>\n{\"a\":\"<tool_call>{\"}",
        "reasoning|a\ncontent|{\"a\":\"<tool_call>{\"}\n");
    run(options, "<think>a</think>\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
        "reasoning|a\ncall 0|f|{}\n");
    options.reasoning = REASONING_RAW; /* a thought is content, and a call may follow */
    run(options, "<think>a</think><tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
        "content|<think>a</think>\ncall 0|f|{}\n");
}

/* The rest is text, and a thought in it still one. The log checks that it has no calls. */
static void test_i79_no_call_follows_an_error(void **state)
{
    struct output_options options = {
        .formats = {.reasoning = REASONING_MISTRAL, .calls = TOOLCALL_MISTRAL}, .calls = true};

    (void)state;
    run(options, "a[TOOL_CALLS]f[ARGS]x[THINK]b[/THINK]c",
        "content|a\nopen 0|f|\nerror|the arguments are not a JSON object\nreasoning|b\n");
}

static void check_whole_calls(const char *text, bool cut, const char *events)
{
    struct output_options options = {
        .formats = {.calls = TOOLCALL_HERMES}, .calls = true, .whole_calls = true};
    struct output_log log;

    output_log_init(&log);
    struct output *output = output_create(&options, output_log_event, &log);
    for (const char *at = text; *at != '\0'; at++)
        assert_ok(output_push(output, (struct str){at, 1}));
    assert_ok(output_finish(output, cut));
    assert_string_equal(output_log_text(&log), events);
    output_destroy(&output);
    output_log_fini(&log);
}

/* A call that breaks is not one that began; one that was cut is passed on as far as it came. */
static void test_whole_calls(void **state)
{
    static const char whole[] = "a<tool_call>{\"name\":\"f\",\"arguments\":{\"b\":1}}</tool_call>";
    static const char broken[] = "<tool_call>{\"name\":\"f\",\"arguments\":{\"b\",1}}</tool_call>c";
    static const char part[] = "<tool_call>{\"name\":\"f\",\"arguments\":{\"b\":";

    (void)state;
    check_whole_calls(whole, false, "content|a\ncall 0|f|{\"b\":1}\n");
    check_whole_calls(broken, false, "error|the call is not valid JSON\n");
    check_whole_calls(part, false, "error|the call is not complete\n");
    check_whole_calls(part, true, "open 0|f|{\"b\":\n");
    check_whole_calls("<tool_call>{\"na", true, "");
}

static void discard(const struct output_event *event, void *arg)
{
    (void)event;
    (void)arg;
}

static void test_no_memory_is_an_error(void **state)
{
    struct output_options options = options_of(&goldens[0]);
    struct fault fault = {0};

    (void)state;
    FAULT_LOOP (&fault) {
        struct output *output = output_create(&options, discard, NULL);
        mem_set_fault(&fault);
        enum err err = output_push(output, str_from(goldens[0].text));
        if (err == ERR_OK)
            err = output_finish(output, false);
        mem_set_fault(NULL);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
        output_destroy(&output);
    }
}

TEST_SUITE(TEST(test_templates), TEST(test_markup_decides), TEST(test_every_cut_gives_the_same),
           TEST(test_without_tools_markup_is_text), TEST(test_thoughts_can_be_dropped),
           TEST(test_either_calls_or_content), TEST(test_i79_no_call_follows_an_error),
           TEST(test_whole_calls), TEST(test_no_memory_is_an_error))

/*
 * toolcall_goldens.c: see toolcall_goldens.h. What a format writes is what its template shows; what
 * is wrong about a text is what models were seen to do.
 */
#include "support/toolcall_goldens.h"

#include "base/attr.h"

enum { WITHOUT, WITH }; /* tools */

#define M3           "]<]minimax[>["
#define ERROR_JSON   "error|the call is not valid JSON\n"
#define ERROR_OPEN   "error|the call is not complete\n"
#define ERROR_OBJECT "error|the arguments are not a JSON object\n"
#define ERROR_NONE   "error|there is no call where one was announced\n"
#define ERROR_NAME   "error|the call names no tool\n"
#define ERROR_FORM   "error|the call is not of the form that was announced\n"

const char toolcall_goldens_tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":"
    "\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"},"
    "\"wind\":{\"type\":\"boolean\"},\"tags\":{\"type\":\"array\"},\"where\":{\"$ref\":"
    "\"#/$defs/where\"},\"note\":{\"type\":[\"string\",\"null\"]},\"unit\":{\"enum\":[\"C\",\"F\"]}"
    "},\"$defs\":{\"where\":{\"type\":\"object\"}}}}},"
    "{\"name\":\"write_file\",\"input_schema\":{\"type\":\"object\",\"properties\":{\"path\":{"
    "\"type\":\"string\"},\"text\":{\"type\":\"string\"},\"mode\":{\"anyOf\":[{\"type\":"
    "\"number\"},{\"type\":\"null\"}]}}}},{\"name\":\"now\"}]";

const struct toolcall_golden toolcall_goldens[] = {
    /* nothing is markup */
    {TOOLCALL_NONE, WITHOUT, "a <tool_call>{}</tool_call> \n",
     "content|a <tool_call>{}</tool_call> \\n\n"},

    /* text that looks like markup for a while */
    {TOOLCALL_HERMES, WITHOUT, "", ""},
    {TOOLCALL_HERMES, WITHOUT, " \n", "content| \\n\n"},
    {TOOLCALL_HERMES, WITHOUT, "a < b <tool <tool_cal> c\n\n d\n",
     "content|a < b <tool <tool_cal> c\\n\\n d\\n\n"},
    {TOOLCALL_HERMES, WITHOUT, "a<tool_call", "content|a<tool_call\n"},
    {TOOLCALL_HERMES, WITHOUT, "<<tool_call>{\"name\":\"f\"}</tool_call>",
     "content|<\ncall 0|f|{}\n"},

    /* Hermes, Qwen */
    {TOOLCALL_HERMES, WITHOUT,
     "Let me see.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris "
     "\\u00e9\\ud83d\\ude00\", \"n\": [1, -2.5e+3, "
     "true, null, {}]}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": "
     "{}}\n</tool_call>\n",
     "content|Let me see.\n"
     "call 0|get_weather|{\"city\": \"Paris \\u00e9\\ud83d\\ude00\", \"n\": [1, -2.5e+3, true, "
     "null, {}]}\n"
     "call 1|now|{}\n"},
    {TOOLCALL_HERMES, WITHOUT,
     "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"f\"}</tool_call>after",
     "call 0|f|{\"a\": 1}\ncontent|after\n"},
    {TOOLCALL_HERMES, WITHOUT,
     "<tool_call>{\"id\": 12, \"type\": \"function\", \"name\": \"f\", \"arguments\": null, \"x\": "
     "[1]}",
     "call 0|f|{}\n"},
    {TOOLCALL_HERMES, WITHOUT,
     "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": \\\"b\\\"}\"}</tool_call>",
     "call 0|f|{\"a\": \"b\"}\n"},
    {TOOLCALL_HERMES, WITHOUT,
     "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\":\n\\\"b\\nc\\\"}\"}</tool_call>",
     "call 0|f|{\"a\":\\n\"b\\nc\"}\n"},
    {TOOLCALL_HERMES, WITHOUT, "<tool_call>{\"name\": \"f\", \"arguments\": \" \"}</tool_call>",
     "call 0|f|{}\n"},
    {TOOLCALL_HERMES, WITHOUT,
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"line\nline\ttab\"}}</tool_call>",
     "call 0|f|{\"a\": \"line\\nline\\ttab\"}\n"},
    {TOOLCALL_HERMES, WITHOUT, "<tool_call>{\"name\": \"f\", \"arguments\": {}}}noise</tool_call>x",
     "call 0|f|{}\ncontent|x\n"},
    {TOOLCALL_HERMES, WITHOUT,
     "<tool_call>{\"name\": \"f\", \"arguments\": {}}\n<tool_call>{\"name\": \"g\"}",
     "call 0|f|{}\ncall 1|g|{}\n"},
    {TOOLCALL_HERMES, WITHOUT, "<tool_call>{\"name\": \"f\"}{\"name\": \"g\"}</tool_call>",
     "call 0|f|{}\ncall 1|g|{}\n"},
    {TOOLCALL_HERMES, WITHOUT, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": </tool_call>",
     "open 0|f|{\"a\": \n" ERROR_JSON},
    {TOOLCALL_HERMES, WITHOUT, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"\\ud83d\"}}",
     "open 0|f|{\"a\": \"\\ud83d\n" ERROR_JSON},
    {TOOLCALL_HERMES, WITHOUT, "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
     "open 0|f|\n" ERROR_OBJECT},
    {TOOLCALL_HERMES, WITHOUT, "<tool_call>{\"name\": \"f\", \"arguments\": \"x\"}</tool_call>",
     "open 0|f|\n" ERROR_OBJECT},
    {TOOLCALL_HERMES, WITHOUT, "<tool_call>{\"arguments\": {}}</tool_call>", ERROR_NAME},
    {TOOLCALL_HERMES, WITHOUT, "<tool_call>{\"name\": \"\"}</tool_call>", ERROR_NAME},
    {TOOLCALL_HERMES, WITHOUT, "<tool_call>{\"name\": \"f\", \"arguments\": {}, \"arguments\": {}}",
     "open 0|f|{}\nerror|the call has two sets of arguments\n"},
    {TOOLCALL_HERMES, WITHOUT, "<tool_call>hello</tool_call>", ERROR_NONE},
    {TOOLCALL_HERMES, WITHOUT, "x<tool_call>", "content|x\n" ERROR_OPEN},

    /* lists in tags, and their kin */
    {TOOLCALL_TAGGED_LIST, WITHOUT,
     "Sure\n<tool_calls>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", "
     "\"arguments\": {}, \"id\": \"7\"}]</tool_calls>",
     "content|Sure\ncall 0|f|{\"a\": 1}\ncall 1|g|{}\n"},
    {TOOLCALL_TAGGED_LIST, WITHOUT,
     "<tool_calls>\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": "
     "{}}\n</tool_calls>",
     "call 0|f|{}\ncall 1|g|{}\n"},
    {TOOLCALL_NEMOTRON, WITHOUT, "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}]</TOOLCALL>",
     "call 0|f|{}\n"},
    {TOOLCALL_NEMOTRON, WITHOUT, "<TOOLCALL>[]</TOOLCALL>", ERROR_NONE},
    {TOOLCALL_GRANITE, WITHOUT,
     "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": [\"]\"]}}, {\"name\": \"g\"}] x",
     "call 0|f|{\"a\": [\"]\"]}\ncall 1|g|{}\ncontent|x\n"},
    {TOOLCALL_GRANITE, WITHOUT, "<|tool_call|> {\"name\": \"f\", \"arguments\": {}} x",
     "call 0|f|{}\ncontent|x\n"},
    {TOOLCALL_COHERE, WITHOUT,
     "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": "
     "{\"a\": \"b\"}}\n]<|END_ACTION|>",
     "call 0|f|{\"a\": \"b\"}\n"},
    {TOOLCALL_COHERE_PLUS, WITHOUT,
     "Action:\n```json\n[\n    {\n        \"tool_name\": \"f\",\n        \"parameters\": {}\n    "
     "}\n]```",
     "call 0|f|{}\n"},
    {TOOLCALL_COHERE_PLUS, WITHOUT, "Actions\nAction:\n```python\n",
     "content|Actions\\nAction:\\n```python\\n\n"},
    {TOOLCALL_FUNCTOOLS, WITHOUT,
     "ok functools[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]",
     "content|ok\ncall 0|f|{}\ncall 1|g|{}\n"},
    {TOOLCALL_GIGACHAT, WITHOUT,
     "ok<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
     "content|ok\ncall 0|f|{\"a\": 1}\n"},

    /* Llama */
    {TOOLCALL_LLAMA, WITHOUT, "{\"name\": \"f\", \"parameters\": {\"a\": \"b\"}}",
     "call 0|f|{\"a\": \"b\"}\n"},
    {TOOLCALL_LLAMA, WITHOUT,
     "\n\n{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", "
     "\"parameters\": {}}\nok",
     "call 0|f|{}\ncall 1|g|{}\ncontent|ok\n"},
    {TOOLCALL_LLAMA, WITHOUT, "{\"name\": \"Ann\", \"age\": 3}",
     "content|{\"name\": \"Ann\", \"age\": 3}\n"},
    {TOOLCALL_LLAMA, WITHOUT, "{\"name\": \"Ann\"}", "content|{\"name\": \"Ann\"}\n"},
    {TOOLCALL_LLAMA, WITHOUT, "{\"name\"", "content|{\"name\"\n"},
    {TOOLCALL_LLAMA, WITHOUT, "Use {\"name\": \"f\", \"parameters\": {}}",
     "content|Use {\"name\": \"f\", \"parameters\": {}}\n"},
    {TOOLCALL_LLAMA, WITH, "{\"name\": \"f\", \"parameters\": {}}",
     "content|{\"name\": \"f\", \"parameters\": {}}\n"},
    {TOOLCALL_LLAMA, WITH, "{\"name\": \"now\", \"parameters\": {}}", "call 0|now|{}\n"},
    {TOOLCALL_LLAMA, WITHOUT, "{\"name\": \"f\", \"parameters\": {\"a\"}}",
     "open 0|f|{\"a\"\n" ERROR_JSON},
    {TOOLCALL_LLAMA, WITHOUT, "<|python_tag|>brave_search.call(query=\"a \\\"b\\\"\")",
     "call 0|brave_search|{\"query\":\"a \\\"b\\\"\"}\n"},
    {TOOLCALL_LLAMA, WITHOUT, "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}",
     "call 0|f|{}\n"},
    {TOOLCALL_LLAMA, WITHOUT, "<|python_tag|>import os\nos.exit()", ERROR_FORM},

    {TOOLCALL_LLAMA, WITH, "[now(), get_weather(city=\"Rome\", days=2)] done",
     "call 0|now|{}\ncall 1|get_weather|{\"city\":\"Rome\",\"days\":2}\ncontent|done\n"},
    {TOOLCALL_BARE, WITH,
     " [{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"now\", \"arguments\": {\"a\": 1}}]",
     "call 0|now|{}\ncall 1|now|{\"a\": 1}\n"},
    {TOOLCALL_BARE, WITH, "[now](http://x) and [f(1)]", "content|[now](http://x) and [f(1)]\n"},
    {TOOLCALL_BARE, WITH, "[", "content|[\n"},

    /* Mistral */
    {TOOLCALL_MISTRAL, WITHOUT,
     "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": "
     "{}, \"id\": \"abcdefghi\"}]",
     "call 0|f|{\"a\": 1}\ncall 1|g|{}\n"},
    {TOOLCALL_MISTRAL, WITHOUT,
     "ok [TOOL_CALLS]f[ARGS]{\"a\": \"[ARGS]\"}[TOOL_CALLS]g[CALL_ID]abcdefghi[ARGS]{}",
     "content|ok\ncall 0|f|{\"a\": \"[ARGS]\"}\ncall 1|g|{}\n"},
    {TOOLCALL_MISTRAL, WITHOUT, "[TOOL_CALLS]f{\"a\": 1}", "call 0|f|{\"a\": 1}\n"},
    {TOOLCALL_MISTRAL, WITHOUT, "[TOOL_CALLS]f[ARGS]x", "open 0|f|\n" ERROR_OBJECT},
    {TOOLCALL_MISTRAL, WITHOUT, "a [TOOL] b [TOOL_CALL", "content|a [TOOL] b [TOOL_CALL\n"},

    /* Functionary */
    {TOOLCALL_RECIPIENTS, WITH, "all\nHello\n>>> 1 + 1\n2\n>>>now\n{}",
     "content|Hello\\n>>> 1 + 1\\n2\\n\ncall 0|now|{}\n"},
    {TOOLCALL_RECIPIENTS, WITH, "now\n{\"a\": 1}\n>>>get_weather\n{}",
     "call 0|now|{\"a\": 1}\ncall 1|get_weather|{}\n"},
    {TOOLCALL_RECIPIENTS, WITH, "Hello", "content|Hello\n"},
    {TOOLCALL_FUNCTIONARY, WITHOUT, "ok <function=f>{\"a\": 1}</function><function=g>{}</function>",
     "content|ok\ncall 0|f|{\"a\": 1}\ncall 1|g|{}\n"},

    /* Kimi */
    {TOOLCALL_KIMI, WITHOUT,
     "I "
     "look.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_"
     "argument_begin|>{\"city\": \"Rome\"}<|tool_call_end|>"
     "<|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_"
     "calls_section_end|>",
     "content|I look.\ncall 0|get_weather|{\"city\": \"Rome\"}\ncall 1|now|{}\n"},
    {TOOLCALL_KIMI, WITHOUT, "<|tool_call_begin|>f<|tool_call_argument_begin|>{}", "call 0|f|{}\n"},
    {TOOLCALL_KIMI, WITHOUT, "<|tool_calls_section_begin|><|tool_calls_section_end|>", ERROR_NONE},

    /* DeepSeek */
    {TOOLCALL_DEEPSEEK, WITHOUT,
     "ok\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"
     "\"city\": \"Rome\"}\n```<｜tool▁call▁end｜>\n"
     "<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><"
     "｜tool▁calls▁end｜>",
     "content|ok\ncall 0|get_weather|{\"city\": \"Rome\"}\ncall 1|now|{}\n"},
    {TOOLCALL_DEEPSEEK, WITHOUT,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": "
     "1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
     "<｜tool▁calls▁end｜>",
     "call 0|f|{\"a\": 1}\ncall 1|g|{}\n"},
    {TOOLCALL_DEEPSEEK, WITHOUT, "<｜tool▁calls▁begin｜>what", ERROR_NONE},
    {TOOLCALL_DEEPSEEK, WITHOUT, "<｜tool▁", "content|<｜tool▁\n"},

    /* DSML */
    {TOOLCALL_DSML, WITHOUT,
     "ok\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"s\" "
     "string=\"true\">1 < 2 \"q\"\n</｜DSML｜parameter>\n"
     "<｜DSML｜parameter name=\"n\" string=\"false\">[1, "
     "2]</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke "
     "name=\"g\">\n\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     "content|ok\ncall 0|f|{\"s\":\"1 < 2 \\\"q\\\"\\n\",\"n\":[1, 2]}\ncall 1|g|{}\n"},
    {TOOLCALL_DSML, WITHOUT,
     "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"b\" "
     "string=\"false\">True</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>x",
     "call 0|f|{\"b\":true}\ncontent|x\n"},

    /* MiniMax */
    {TOOLCALL_MINIMAX, WITH,
     "ok\n<minimax:tool_call>\n<invoke name=\"get_weather\"><parameter "
     "name=\"city\">12</parameter><parameter name=\"days\">3</parameter>"
     "<parameter name=\"other\">{\"a\": [1]}</parameter></invoke>\n<invoke "
     "name=\"now\"></invoke>\n</minimax:tool_call>",
     "content|ok\ncall 0|get_weather|{\"city\":\"12\",\"days\":3,\"other\":{\"a\": [1]}}\ncall "
     "1|now|{}\n"},

    {TOOLCALL_MINIMAX, WITHOUT,
     "<minimax:tool_call><invoke name=\"f\"></invoke></minimax:x><invoke "
     "name=\"g\"></minimax:tool_call>x",
     "call 0|f|{}\ncontent|x\n"},
    {TOOLCALL_KIMI, WITHOUT,
     "<|tool_calls_section_begin|><|tool_call_begin|>f<|tool_call_argument_begin|>{}<|tool_call_"
     "end|>?<|tool_call_x<|tool_calls_section_end|>x",
     "call 0|f|{}\ncontent|x\n"},

    {TOOLCALL_MINIMAX_M3, WITH,
     "ok" M3 "<tool_call>\n" M3 "<invoke name=\"get_weather\">" M3 "<city>12" M3 "</city>" M3
     "<days>3" M3 "</days>" M3 "<where>" M3 "<x>" M3 "<item>1" M3 "</item>" M3 "<item>b" M3
     "</item>" M3 "</x>" M3 "<where>y" M3 "</where>" M3 "</where>" M3 "</invoke>\n" M3
     "<invoke name=\"now\">" M3 "</invoke>\n" M3 "</tool_call>",
     "content|ok\ncall 0|get_weather|{\"city\":\"12\",\"days\":3,\"where\":{\"x\":[1,\"b\"],"
     "\"where\":\"y\"}}\ncall 1|now|{}\n"},
    {TOOLCALL_MINIMAX_M3, WITH,
     M3 "<tool_call>" M3 "<invoke name=\"get_weather\">" M3 "<where>{\"x\": 1}" M3 "</where>" M3
        "</invoke>" M3 "</tool_call>x",
     "call 0|get_weather|{\"where\":{\"x\": 1}}\ncontent|x\n"},

    /* Kimi K3 */
    {TOOLCALL_KIMI_TAGS, WITHOUT,
     "ok<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a\" "
     "type=\"number\"<|sep|>1<|close|>argument<|sep|><|open|>argument key=\"b\" "
     "type=\"string\"<|sep|>true<|close|>argument<|sep|><|close|>call<|sep|><|open|>call "
     "tool=\"g\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
     "content|ok\ncall 0|f|{\"a\":1,\"b\":\"true\"}\ncall 1|g|{}\n"},

    {TOOLCALL_KIMI_TAGS, WITHOUT,
     "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>json "
     "type=\"object\"<|sep|>{\"a\": 1}<|close|>json<|sep|><|close|>call<|sep|><|open|>call "
     "tool=\"g\" index=\"2\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>x",
     "call 0|f|{\"a\": 1}\ncall 1|g|{}\ncontent|x\n"},

    /* MiniCPM5 */
    {TOOLCALL_MINICPM, WITH,
     "<function name=\"write_file\"><param name=\"text\"><![CDATA[</param>\n]]></param><param "
     "name=\"mode\">1</param></function>\n<function name=\"now\"></function>ok",
     "call 0|write_file|{\"text\":\"</param>\\n\",\"mode\":1}\ncall 1|now|{}\ncontent|ok\n"},

    /* Seed-OSS */
    {TOOLCALL_SEED, WITH,
     "ok\n<seed:tool_call>\n<function=write_file>\n<parameter=text>a\n</parameter>\n</function>\n"
     "</seed:tool_call>",
     "content|ok\ncall 0|write_file|{\"text\":\"a\\n\"}\n"},

    /* Muse */
    {TOOLCALL_MUSE, WITH,
     " to=self<|message|>a <atem:function_calls> b<|eom|><|start|>assistant to=user<|message|>c"
     "<|eom|><|start|>assistant to=get_weather<|message|><atem:function_calls>\n<atem:invoke "
     "name=\"get_weather\">\n<atem:parameter name=\"days\">3</atem:parameter>\n</atem:invoke>\n"
     "</atem:function_calls><|eot|>",
     "reasoning|a <atem:function_calls> b\ncontent|c\ncall 0|get_weather|{\"days\":3}\n"},

    /* objects in other marks */
    {TOOLCALL_APERTUS, WITHOUT,
     "ok <|tools_prefix|>[{\"f\": {\"a\": 1}}, {\"g\": {}}]<|tools_suffix|>x",
     "content|ok\ncall 0|f|{\"a\": 1}\ncall 1|g|{}\ncontent|x\n"},
    {TOOLCALL_GIGACHAT_CALL, WITHOUT,
     "ok<|function_call|>{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
     "content|ok\ncall 0|f|{\"a\": 1}\n"},
    {TOOLCALL_INTERNLM, WITHOUT,
     "ok<|action_start|><|plugin|>\n{\"name\": \"f\", \"parameters\": {}}<|action_end|>\n",
     "content|ok\ncall 0|f|{}\n"},
    {TOOLCALL_PHI, WITHOUT, "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]<|/tool_call|>ok",
     "call 0|f|{}\ncontent|ok\n"},
    {TOOLCALL_SOLAR, WITHOUT,
     "<|tool_calls|><|tool_call:begin|>abc1<|tool_call:name|>f<|tool_call:args|>{\"a\": 1}"
     "<|tool_call:end|><|tool_call:begin|>abc2<|tool_call:name|>g<|tool_call:args|>{}"
     "<|tool_call:end|>",
     "call 0|f|{\"a\": 1}\ncall 1|g|{}\n"},

    /* GLM */
    {TOOLCALL_GLM, WITHOUT,
     "\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>New "
     "York</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</"
     "tool_call>\n<tool_call>now\n</tool_call>",
     "call 0|get_weather|{\"city\":\"New York\",\"days\":3}\ncall 1|now|{}\n"},
    {TOOLCALL_GLM, WITHOUT,
     "<tool_call>f<arg_key>a</arg_key><arg_value>true "
     "story</arg_value><arg_key>b</arg_key><arg_value>true</arg_value></tool_call>x",
     "call 0|f|{\"a\":\"true story\",\"b\":true}\ncontent|x\n"},
    {TOOLCALL_GLM, WITHOUT, "<tool_call>f<arg_key>a</arg_key>1</tool_call>",
     "open 0|f|\nerror|a parameter has no value\n"},
    {TOOLCALL_GLM, WITHOUT, "<tool_call>\n</tool_call>", ERROR_NAME},

    /* Qwen3-Coder */
    {TOOLCALL_QWEN_XML, WITH,
     "I "
     "write.\n\n<tool_call>\n<function=write_file>\n<parameter=path>\na/b.c\n</"
     "parameter>\n<parameter=text>\n\tif (a < b && \"x\")\n\n</param>\n</parameter>\n"
     "<parameter=mode>\n420\n</parameter>\n</function>\n</"
     "tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
     "content|I write.\ncall 0|write_file|{\"path\":\"a/b.c\",\"text\":\"\\tif (a < b && "
     "\\\"x\\\")\\n\\n</param>\",\"mode\":420}\ncall 1|now|{}\n"},
    {TOOLCALL_QWEN_XML, WITH,
     "<tool_call><function=get_weather><parameter=city>12</parameter><parameter=wind>True</"
     "parameter><parameter=tags>[\"a\", 1]</parameter><parameter=where>{\"x\": "
     "1}</parameter><parameter=note>null</parameter><parameter=unit>1</"
     "parameter><parameter=days>many</parameter></function></tool_call>",
     "call 0|get_weather|{\"city\":\"12\",\"wind\":true,\"tags\":[\"a\", 1],\"where\":{\"x\": "
     "1},\"note\":null,\"unit\":\"1\",\"days\":\"many\"}\n"},
    {TOOLCALL_QWEN_XML, WITH,
     "<tool_call><function=get_weather><parameter=note>nullable</parameter></function></tool_call>",
     "call 0|get_weather|{\"note\":\"nullable\"}\n"},
    {TOOLCALL_QWEN_XML, WITHOUT,
     "<function=f>\n<parameter=a>\n-\n</parameter>\n</function>\n</tool_call>done",
     "call 0|f|{\"a\":\"-\"}\ncontent|done\n"},
    {TOOLCALL_QWEN_XML, WITHOUT, "<function=f>\n<parameter=a>\n\n</parameter>\n</tool_call>",
     "call 0|f|{\"a\":\"\"}\n"},
    {TOOLCALL_QWEN_XML, WITHOUT, "<tool_call>\n<function=f>\nhm\n</function>",
     "open 0|f|\nerror|there is text between the parameters\n"},
    {TOOLCALL_QWEN_XML, WITHOUT, "<tool_call>{\"name\": \"f\"}</tool_call>", ERROR_NONE},

    /* Gemma */
    {TOOLCALL_GEMMA, WITHOUT,
     "ok<|tool_call>call:get_weather{city:<|\"|>New "
     "\"York\"\n<|\"|>,days:3,o:{a:[1,true,<|\"|>x<|\"|>],<|\"|>b<|\"|>:None},u:abc}<tool_call|><|"
     "tool_call>call:now{}<tool_call|>",
     "content|ok\ncall 0|get_weather|{\"city\":\"New "
     "\\\"York\\\"\\n\",\"days\":3,\"o\":{\"a\":[1,true,\"x\"],\"b\":null},\"u\":\"abc\"}\ncall "
     "1|now|{}\n"},
    {TOOLCALL_GEMMA_CALL, WITHOUT,
     "<start_function_call>call:f{a:<escape>b, {c}<escape>}<end_function_call>",
     "call 0|f|{\"a\":\"b, {c}\"}\n"},
    {TOOLCALL_GEMMA, WITHOUT, "<|tool_call>f{}<tool_call|>", ERROR_NONE},
    {TOOLCALL_GEMMA_CODE, WITHOUT, "Fine:\n```tool_code\nprint(f(a=1, b=['x', \"y\"]))\n```\ndone",
     "content|Fine:\ncall 0|f|{\"a\":1,\"b\":[\"x\",\"y\"]}\ncontent|done\n"},
    {TOOLCALL_GEMMA_CODE, WITHOUT, "```tool_code\nf()\nprinter(a=1)\n```",
     "call 0|f|{}\ncall 1|printer|{\"a\":1}\n"},
    {TOOLCALL_GEMMA_CODE, WITHOUT, "```python\nx\n```", "content|```python\\nx\\n```\n"},

    /* LFM */
    {TOOLCALL_LFM, WITHOUT,
     "<|tool_call_start|>[get_weather(city=\"Paris\", days=3, o={'a': None, 'b': (1, 2.5e+1)}, "
     "t='''it's\\n''', e='\\x41\\u00e9\\U0001F600\\q'), now()]<|tool_call_end|>Checking.",
     "call "
     "0|get_weather|{\"city\":\"Paris\",\"days\":3,\"o\":{\"a\":null,\"b\":[1,2.5e+1]},\"t\":\"it'"
     "s\\n\",\"e\":\"A\\u00e9\\ud83d\\ude00\\\\q\"}\ncall 1|now|{}\ncontent|Checking.\n"},
    {TOOLCALL_LFM, WITH,
     "<|tool_call_start|>[get_weather(\"Rome\", 2, wind=False)]<|tool_call_end|>",
     "call 0|get_weather|{\"city\":\"Rome\",\"days\":2,\"wind\":false}\n"},
    {TOOLCALL_LFM, WITHOUT, "<|tool_call_start|>[f(a=\"x\\/y\")]<|tool_call_end|>",
     "call 0|f|{\"a\":\"x/y\"}\n"},
    {TOOLCALL_LFM, WITHOUT, "<|tool_call_start|>[f(\"Rome\")]<|tool_call_end|>",
     "open 0|f|\nerror|an argument is not a literal\n"},
    {TOOLCALL_LFM, WITHOUT, "<|tool_call_start|>[f(a=b)]<|tool_call_end|>",
     "open 0|f|\nerror|an argument is not a literal\n"},
    {TOOLCALL_LFM, WITHOUT, "<|tool_call_start|>[f(a=\"\\ud800\")]<|tool_call_end|>",
     "open 0|f|\nerror|an argument is not a literal\n"},
    {TOOLCALL_LFM, WITHOUT,
     "<|tool_call_start|>[{\"name\": \"f\", \"arguments\": {}}]<|tool_call_end|>", "call 0|f|{}\n"},
    {TOOLCALL_LFM, WITHOUT, "<|tool_call_start|>[]<|tool_call_end|>", ERROR_NONE},

    /* Harmony */
    {TOOLCALL_HARMONY, WITHOUT,
     "<|channel|>analysis<|message|>Need "
     "<b>weather</b>.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|>"
     "<|start|>assistant<|channel|>commentary to=functions.get_weather "
     "<|constrain|>json<|message|>{\"city\":\"Rome\"}<|call|>",
     "reasoning|Need <b>weather</b>.\ncontent|I look.\ncall 0|get_weather|{\"city\":\"Rome\"}\n"},
    {TOOLCALL_HARMONY, WITHOUT,
     "<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{} "
     "<|call|><|start|>assistant<|channel|>final<|message|>Done.<|return|>",
     "call 0|f|{}\ncontent|Done.\n"},
    {TOOLCALL_HARMONY, WITHOUT,
     "<|channel|>analysis<|message|>a<|channel|>final<|message|>b <|no|>",
     "reasoning|a\ncontent|b <|no|>\n"},
    {TOOLCALL_HARMONY, WITHOUT, "Plain text.", "content|Plain text.\n"},
    {TOOLCALL_HARMONY, WITHOUT, "<|channel|>final<|message|>a<|e", "content|a<|e\n"},
    {TOOLCALL_HARMONY, WITHOUT, "<|channel|>commentary to=f<|message|>{\"a\":\"<|call|>\"}<|call|>",
     "call 0|f|{\"a\":\"<|call|>\"}\n"},
    {TOOLCALL_HARMONY, WITHOUT, "<|channel|>commentary to=f<|message|>{\"a\":1<|call|>",
     "open 0|f|{\"a\":1\n" ERROR_JSON},
    {TOOLCALL_HARMONY, WITHOUT, "<|channel|>commentary to=f<|message|><|call|>", "call 0|f|{}\n"},
    {TOOLCALL_HARMONY, WITHOUT, "<|channel|>commentary to=python<|message|>print(1)<|call|>",
     "content|print(1)\n"}, /* not a tool of the client: better shown than lost */
    {TOOLCALL_HARMONY, WITH, "<|channel|>commentary to=now<|message|>print(1)<|call|>",
     "open 0|now|\n" ERROR_OBJECT},
    {TOOLCALL_HARMONY, WITHOUT,
     "<|channel|>commentary to=assistant<|channel|>analysis<|message|>a<|end|><|start|>assistant"
     "<|channel|>commentary to=assistant<|channel|>final<|message|>b",
     "reasoning|a\ncontent|b\n"},

    /* the closing tag of the last parameter is missing; a value may mention the end of a call */
    {TOOLCALL_QWEN_XML, WITH,
     "<tool_call>\n<function=get_weather>\n<parameter=days>\n3\n</function>\n</tool_call>",
     "call 0|get_weather|{\"days\":3}\n"},
    {TOOLCALL_QWEN_XML, WITH,
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</function>\n</tool_call>x",
     "call 0|get_weather|{\"city\":\"Rome\"}\ncontent|x\n"},
    {TOOLCALL_QWEN_XML, WITH,
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</function>",
     "call 0|get_weather|{\"city\":\"Rome\"}\n"},
    {TOOLCALL_QWEN_XML, WITH,
     "<function=write_file>\n<parameter=text>\n</function>\n</tool\n</parameter>\n</function>",
     "call 0|write_file|{\"text\":\"</function>\\n</tool\"}\n"},

    /* without arguments, with one object, without the outer tags */
    {TOOLCALL_DSML, WITH,
     "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"now\"/>\n<｜DSML｜invoke "
     "name=\"now\"/>\n</｜DSML｜tool_calls>",
     "call 0|now|{}\ncall 1|now|{}\n"},
    {TOOLCALL_DSML, WITH,
     "<｜DSML｜tool_calls>\n<｜DSML｜invoke "
     "name=\"get_weather\">{\"city\":\"Rome\"}</｜DSML｜invoke>\n"
     "</｜DSML｜tool_calls>",
     "call 0|get_weather|{\"city\":\"Rome\"}\n"},
    {TOOLCALL_DSML, WITH,
     "Ok.\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" "
     "string=\"true\">Rome"
     "</｜DSML｜parameter>\n</｜DSML｜invoke>",
     "content|Ok.\ncall 0|get_weather|{\"city\":\"Rome\"}\n"},

    /* the number of the call where its name belongs; a stray mark */
    {TOOLCALL_KIMI, WITH,
     "<|tool_calls_section_begin|><|tool_call_begin|>0<|tool_call_argument_begin|>{\"city\": "
     "\"Rome\"}<|tool_call_end|><|tool_calls_section_end|>",
     "call 0|get_weather|{\"city\": \"Rome\"}\n"},
    {TOOLCALL_KIMI, WITH,
     "<|tool_call_begin|>1<|tool_call_argument_begin|>{\"path\": \"a\", \"text\": "
     "\"b\"}<|tool_call_end|>",
     "call 0|write_file|{\"path\": \"a\", \"text\": \"b\"}\n"},
    {TOOLCALL_KIMI, WITH, "<|tool_call_begin|>1<|tool_call_argument_begin|>{}<|tool_call_end|>",
     ERROR_NAME},
    {TOOLCALL_KIMI, WITH,
     "<|tool_call_begin|>1<|tool_call_argument_begin|>{\"z\": 1}<|tool_call_end|>", ERROR_NAME},
    {TOOLCALL_KIMI, WITH, "Done.<|tool_calls_section_end|>", "content|Done.\n"},

    /* literals that are not Python's, or sets */
    {TOOLCALL_LFM, WITH, "<|tool_call_start|>[get_weather(days=07)]<|tool_call_end|>",
     "call 0|get_weather|{\"days\":7}\n"},
    {TOOLCALL_LFM, WITH, "<|tool_call_start|>[get_weather(days=-007, tags=[00])]<|tool_call_end|>",
     "call 0|get_weather|{\"days\":-7,\"tags\":[0]}\n"},
    {TOOLCALL_LFM, WITH, "<|tool_call_start|>[get_weather(tags={'a', 'b'})]<|tool_call_end|>",
     "call 0|get_weather|{\"tags\":[\"a\",\"b\"]}\n"},
    {TOOLCALL_LFM, WITH,
     "<|tool_call_start|>[get_weather(tags={1}, where={'a': {}})]<|tool_call_end|>",
     "call 0|get_weather|{\"tags\":[1],\"where\":{\"a\":{}}}\n"},
    {TOOLCALL_LFM, WITH,
     "<|tool_call_start|>[get_weather(city='grep -n 'x' f.c')]<|tool_call_end|>",
     "call 0|get_weather|{\"city\":\"grep -n 'x' f.c\"}\n"},
    {TOOLCALL_LFM, WITH,
     "<|tool_call_start|>[get_weather(city='f('a', 'b')\\n', days=2)]<|tool_call_end|>",
     "call 0|get_weather|{\"city\":\"f('a', 'b')\\n\",\"days\":2}\n"},

    /* a key without a value */
    {TOOLCALL_GLM, WITH,
     "<tool_call>get_weather\n<arg_key>days</arg_key>\n<arg_key>tags</arg_key>\n<arg_value>[1]"
     "</arg_value>\n</tool_call>",
     "call 0|get_weather|{\"tags\":[1]}\n"},

    /* a list after text, or in a code block */
    {TOOLCALL_BARE, WITH, "Sure.\n[{\"name\": \"now\", \"arguments\": {}}]",
     "content|Sure.\ncall 0|now|{}\n"},
    {TOOLCALL_BARE, WITH, "```json\n[{\"name\": \"now\", \"arguments\": {}}]\n```\nok",
     "call 0|now|{}\ncontent|ok\n"},
    {TOOLCALL_BARE, WITH, "Like so:\n```\n[{\"name\": \"now\", \"arguments\": {}}]\n```",
     "content|Like so:\ncall 0|now|{}\n"},
    {TOOLCALL_BARE, WITH, "A list:\n[1, 2]\n```json\n[{\"name\": \"Ann\", \"arguments\": 1}]\n```",
     "content|A list:\\n[1, 2]\\n```json\\n[{\"name\": \"Ann\", \"arguments\": 1}]\\n```\n"},
    {TOOLCALL_BARE, WITH, "An array a[0], see [1].", "content|An array a[0], see [1].\n"},
};

const size_t toolcall_goldens_count = COUNT_OF(toolcall_goldens);

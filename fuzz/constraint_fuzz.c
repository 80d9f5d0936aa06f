/*
 * constraint_fuzz.c: any bytes that are JSON as the tools of a request, in every format. The first two
 * bytes choose format, mode and thought. Nothing may crash, leak or take long; what is written must
 * be taken by gbnf_check (or be refused for its size).
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <yyjson.h>

#include "engine/gbnf.h"
#include "grammar/constraint.h"
#include "base/json_alc.h"

enum { INPUT_BYTES = 1 << 15, TOOLS_MAX = CONSTRAINT_TOOLS_MAX + 1 };

static void check(const struct constraint_request *request)
{
    struct errinfo info = {0};
    struct constraint constraint;

    constraint_init(&constraint);
    enum err err = constraint_write(&constraint, request, &info);
    if (err != ERR_OK && (info.text[0] == '\0' || constraint.grammar.len > 0))
        abort();
    if (constraint.grammar.len > 0 &&
        gbnf_check(buf_str(&constraint.grammar), "root", &info) != ERR_OK &&
        info.code != ERR_LIMIT) {
        fprintf(stderr, "%s\n%s", info.text, buf_str(&constraint.grammar));
        abort();
    }
    constraint_fini(&constraint);
}

static size_t read_tools(yyjson_val *list, struct tool tools[TOOLS_MAX])
{
    size_t i, max, count = 0;
    yyjson_val *value;

    yyjson_arr_foreach(list, i, max, value)
    {
        yyjson_val *function = yyjson_obj_get(value, "function");
        function = function != NULL ? function : value;
        if (count < TOOLS_MAX)
            tools[count++] = (struct tool){
                .name = json_get_text(yyjson_obj_get(function, "name")),
                .schema = yyjson_obj_get(function, "parameters"),
                .strict = yyjson_is_true(yyjson_obj_get(function, "strict")),
            };
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const tails[] = {"", "<think>\n", "<think></think>"};
    static struct tool tools[TOOLS_MAX];
    yyjson_doc *doc;

    if (size < 2 || size > INPUT_BYTES ||
        (doc = yyjson_read((const char *)data + 2, size - 2, 0)) == NULL)
        return 0;
    struct constraint_request request = {
        .mode = (enum constraint_mode)(data[1] % CONSTRAINT_MODE_COUNT),
        .name = STR("f"),
        .parallel = data[1] & 0x80,
        .tools = tools,
        .tools_count = read_tools(yyjson_doc_get_root(doc), tools),
        .formats = {.reasoning = data[0] & 0x80 ? REASONING_THINK : REASONING_NONE,
                    .calls = (enum toolcall_format)(data[0] % TOOLCALL_LEARNED)},
        .prompt_tail = str_from(tails[(data[1] >> 3) % COUNT_OF(tails)]),
    };
    const struct call_messages *messages = output_call_format(&request.formats)->messages;
    if (messages != NULL)
        request.prompt_tail =
            messages->opening.len > 0 ? messages->opening : STR("<|start|>assistant");
    check(&request);
    yyjson_doc_free(doc);
    return 0;
}

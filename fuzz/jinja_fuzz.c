/*
 * jinja_fuzz.c: any bytes as a template, rendered with small limits over variables of every kind.
 * Nothing may crash, leak, or take longer than the limits allow; and where both succeed, a second
 * render gives the same bytes.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "jinja/jinja.h"

enum { ARENA_BYTES = 32 << 20, OUTPUT_BYTES = 1 << 20, INPUT_BYTES = 1 << 16 };

static const char vars_json[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"Be "
    "kind.\"},{\"role\":\"user\",\"content\":\" h\\u00e9 <b> "
    "\\ud83d\\ude00\\n\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\","
    "\"function\":{"
    "\"name\":\"f\",\"arguments\":{\"x\":1,\"y\":[1.5,true,null]}}}]}],\"tools\":[{\"type\":"
    "\"function\","
    "\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"x\":{"
    "\"type\":\"integer\"}}}"
    "}}],\"add_generation_prompt\":true,\"bos_token\":\"<s>\",\"n\":7,\"f\":-2.5,\"s\":\"Hello "
    "World\","
    "\"l\":[3,1,2],\"d\":{\"b\":2,\"a\":1},\"e\":\"\",\"big\":123456789012345678901234567890}";

static enum err render(const struct jinja *tmpl, yyjson_doc *doc, struct buf *text)
{
    struct jinja_options options = {
        .limits = {.steps = 200000, .output_bytes = OUTPUT_BYTES, .depth = 200, .range = 100000},
        .now_s = 1700000000,
    };
    struct jinja_output output;
    struct jinja_error error;
    struct jinja_value vars;
    struct arena arena;
    uint32_t origin = 1;

    arena_init(&arena, ARENA_BYTES);
    jinja_output_init(&output, text);
    enum err err = jinja_value_from_json(&arena, yyjson_doc_get_root(doc), &origin, &vars);
    if (err == ERR_OK)
        err = jinja_render(tmpl, vars, &options, &arena, jinja_output_sink, &output, &error);
    for (size_t i = 0; i < output.span_count; i++)
        if (output.spans[i].begin >= output.spans[i].end || output.spans[i].end > text->len ||
            output.spans[i].origin == 0 || output.spans[i].origin >= origin)
            abort();
    jinja_output_fini(&output);
    arena_fini(&arena);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf first, second;
    struct jinja_error error;
    struct jinja *tmpl;

    if (size > INPUT_BYTES ||
        jinja_compile((struct str){(const char *)data, size}, &tmpl, &error) != ERR_OK)
        return 0;
    yyjson_doc *doc = yyjson_read(vars_json, sizeof(vars_json) - 1, YYJSON_READ_BIGNUM_AS_RAW);
    if (doc == NULL)
        abort();
    buf_init(&first, OUTPUT_BYTES);
    buf_init(&second, OUTPUT_BYTES);
    enum err err = render(tmpl, doc, &first);
    if (render(tmpl, doc, &second) != err || first.len != second.len ||
        memcmp(buf_str(&first), buf_str(&second), first.len) != 0)
        abort();
    buf_fini(&first);
    buf_fini(&second);
    yyjson_doc_free(doc);
    jinja_destroy(&tmpl);
    return 0;
}

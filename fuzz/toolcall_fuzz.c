/*
 * toolcall_fuzz.c: any bytes as generated text, for every format of calls and thoughts. However the
 * text is cut, the events add up to the same; calls do not overlap; arguments of a call that ended
 * are one JSON object; nothing follows an error.
 *
 *      byte 0: format of calls    1: of thoughts    2: bit 0 tools, bit 1 opened by the prompt, bit 2 cut off    3: pieces
 */
#include "fuzz.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>
#include <yyjson.h>

#include "base/buf.h"
#include "output/output.h"
#include "output/tool.h"

enum { INPUT_BYTES = 1 << 16, LOG_BYTES = 16 << 20, HEAD_BYTES = 4 };

static const char schema_json[] =
    "{\"properties\":{\"s\":{\"type\":\"string\"},"
    "\"n\":{\"type\":\"integer\"},\"b\":{\"type\":[\"boolean\",\"string\"]},\"r\":{\"$ref\":\"#\"},"
    "\"o\":{\"anyOf\":[{\"type\":\"object\"},{\"type\":\"null\"}]}}}";

struct log {
    struct buf text;
    struct buf arguments;
    int last; /* type of the event before, -1: none */
    bool in_call;
    bool failed; /* a call could not be read; one after it may be cut off */
};

static void on_event(const struct output_event *event, void *arg)
{
    struct log *log = arg;

    if (log->last != (int)event->type)
        buf_appendf(&log->text, "\n%d %u|", (int)event->type, event->call);
    buf_append(&log->text, event->text.ptr, event->text.len);
    log->last = (int)event->type;
    switch (event->type) {
    case OUTPUT_CALL_BEGIN:
        assert(!log->in_call && event->text.len > 0);
        log->in_call = true;
        buf_clear(&log->arguments);
        break;
    case OUTPUT_CALL_ARGUMENTS:
        assert(log->in_call && event->text.len > 0);
        buf_append(&log->arguments, event->text.ptr, event->text.len);
        break;
    case OUTPUT_CALL_END: {
        assert(log->in_call);
        log->in_call = false;
        yyjson_doc *doc =
            yyjson_read(buf_str(&log->arguments), log->arguments.len,
                        YYJSON_READ_ALLOW_INVALID_UNICODE | YYJSON_READ_NUMBER_AS_RAW);
        assert(yyjson_is_obj(yyjson_doc_get_root(doc)));
        yyjson_doc_free(doc);
        break;
    }
    case OUTPUT_ERROR: /* what follows is the text of the call that cannot be read */
        log->in_call = false;
        log->failed = true;
        break;
    default:
        assert(!log->in_call && event->text.len > 0);
    }
}

/* Pieces of 1 to `step` bytes; 0: all at once. */
static void run(const struct output_options *options, struct str text, size_t step, bool cut,
                struct log *log)
{
    *log = (struct log){.last = -1};
    buf_init(&log->text, LOG_BYTES);
    buf_init(&log->arguments, LOG_BYTES);
    struct output *output = output_create(options, on_event, log);
    for (size_t at = 0, n; at < text.len; at += n) {
        n = step == 0 ? text.len : 1 + (at * 7) % step;
        n = n < text.len - at ? n : text.len - at;
        assert(output_push(output, (struct str){text.ptr + at, n}) == ERR_OK);
    }
    assert(output_finish(output, cut) == ERR_OK);
    assert(!log->in_call || log->failed || cut);
    output_destroy(&output);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char *const tails[] = {"", "", "<think>\n", "[THINK]", "<|start|>assistant"};
    struct log whole, pieces;

    if (len < HEAD_BYTES || len > INPUT_BYTES)
        return 0;
    yyjson_doc *schema = yyjson_read(schema_json, sizeof(schema_json) - 1, 0);
    const struct tool tool = {.name = STR("f"), .schema = yyjson_doc_get_root(schema)};
    struct output_options options = {
        .formats = {.calls = data[0] % TOOLCALL_LEARNED, .reasoning = data[1] % REASONING_LEARNED},
        .calls = true,
        .tools = data[2] & 1 ? &tool : NULL,
        .tools_count = data[2] & 1,
        .prompt_tail = str_from(tails[data[2] & 2 ? data[3] % 5 : 0]),
    };
    struct str text = {(const char *)data + HEAD_BYTES, len - HEAD_BYTES};
    run(&options, text, 0, data[2] & 4, &whole);
    run(&options, text, 1 + data[3] % 16, data[2] & 4, &pieces);
    assert(whole.text.len == pieces.text.len &&
           memcmp(buf_str(&whole.text), buf_str(&pieces.text), whole.text.len) == 0);
    buf_fini(&whole.text);
    buf_fini(&whole.arguments);
    buf_fini(&pieces.text);
    buf_fini(&pieces.arguments);
    yyjson_doc_free(schema);
    return 0;
}

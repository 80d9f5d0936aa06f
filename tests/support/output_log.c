/*
 * output_log.c: see output_log.h. Breaking a promise of output_event.h fails the test.
 */
#include "support/output_log.h"

#include <string.h>
#include <yyjson.h>

#include "support/test.h"

enum { LOG_BYTES_MAX = 16 << 20 };

void output_log_init(struct output_log *log)
{
    *log = (struct output_log){.type = -1};
    buf_init(&log->text, LOG_BYTES_MAX);
    buf_init(&log->line, LOG_BYTES_MAX);
    buf_init(&log->content, LOG_BYTES_MAX);
    buf_init(&log->thought, LOG_BYTES_MAX);
    buf_init(&log->unread, LOG_BYTES_MAX);
    buf_init(&log->name, LOG_BYTES_MAX);
}

void output_log_fini(struct output_log *log)
{
    buf_fini(&log->text);
    buf_fini(&log->line);
    buf_fini(&log->content);
    buf_fini(&log->thought);
    buf_fini(&log->unread);
    buf_fini(&log->name);
}

static void append_escaped(struct buf *out, const struct buf *text)
{
    for (size_t i = 0; i < text->len; i++) {
        if (text->data[i] == '\n')
            buf_append_str(out, "\\n");
        else
            buf_append_char(out, text->data[i]);
    }
}

static void end_line(struct output_log *log)
{
    if (log->type == OUTPUT_CONTENT)
        buf_append_str(&log->text, "content|");
    if (log->type == OUTPUT_REASONING)
        buf_append_str(&log->text, "reasoning|");
    if (log->type == OUTPUT_CALL_ARGUMENTS)
        buf_appendf(&log->text, "open %u|%s|", log->calls, buf_str(&log->name));
    if (log->type == OUTPUT_CALL_END)
        buf_appendf(&log->text, "call %u|%s|", log->calls, buf_str(&log->name));
    if (log->type >= 0) {
        append_escaped(&log->text, &log->line);
        buf_append_char(&log->text, '\n');
    }
    buf_clear(&log->line);
    log->type = -1;
}

static void end_call(struct output_log *log)
{
    yyjson_doc *doc = yyjson_read(buf_str(&log->line), log->line.len,
                                  YYJSON_READ_ALLOW_INVALID_UNICODE | YYJSON_READ_NUMBER_AS_RAW);

    if (!yyjson_is_obj(yyjson_doc_get_root(doc)))
        fail_msg("arguments are no JSON object: %s", buf_str(&log->line));
    yyjson_doc_free(doc);
    log->type = OUTPUT_CALL_END;
    end_line(log);
    log->calls++;
    log->in_call = false;
}

static void text_event(struct output_log *log, const struct output_event *event)
{
    bool content = event->type == OUTPUT_CONTENT;

    assert_true(!log->in_call || log->failed);
    assert_true(event->text.len > 0);
    if (log->type != (int)event->type)
        end_line(log);
    log->type = (int)event->type;
    buf_append(&log->line, event->text.ptr, event->text.len);
    buf_append(content ? &log->content : &log->thought, event->text.ptr, event->text.len);
}

void output_log_event(const struct output_event *event, void *arg)
{
    struct output_log *log = arg;

    if (log->failed) /* no calls */
        assert_true(event->type == OUTPUT_CONTENT || event->type == OUTPUT_REASONING);
    switch (event->type) {
    case OUTPUT_CONTENT:
        if (log->failed) {
            buf_append(&log->unread, event->text.ptr, event->text.len);
            break;
        }
        text_event(log, event);
        break;
    case OUTPUT_REASONING:
        text_event(log, event);
        break;
    case OUTPUT_CALL_BEGIN:
        assert_false(log->in_call);
        assert_true(event->text.len > 0);
        assert_int_equal(event->call, log->calls);
        end_line(log);
        log->in_call = true;
        log->type = OUTPUT_CALL_ARGUMENTS;
        buf_clear(&log->name);
        buf_append(&log->name, event->text.ptr, event->text.len);
        break;
    case OUTPUT_CALL_ARGUMENTS:
        assert_true(log->in_call);
        assert_true(event->text.len > 0);
        assert_int_equal(event->call, log->calls);
        buf_append(&log->line, event->text.ptr, event->text.len);
        break;
    case OUTPUT_CALL_END:
        assert_true(log->in_call);
        assert_int_equal(event->call, log->calls);
        end_call(log);
        break;
    default:
        assert_int_equal(event->type, OUTPUT_ERROR);
        assert_true(event->text.len > 0);
        end_line(log);
        buf_appendf(&log->text, "error|" STR_FMT "\n", STR_ARG(event->text));
        log->failed = true;
    }
}

const char *output_log_text(struct output_log *log)
{
    end_line(log);
    return buf_str(&log->text);
}

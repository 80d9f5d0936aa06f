/*
 * anthropic_fuzz.c: any bytes as a body of POST /v1/messages. What is taken is a conversation in
 * OpenAI's form, with breakpoints that are places in it; what is refused has an error with words.
 * Counting takes whatever generating takes, and makes the same of it.
 */
#include "fuzz.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "dialect/anthropic_impl.h"
#include "dialect/json_read.h"

enum { INPUT_BYTES = 1 << 16, LIMIT_BYTES = 16 << 20 };

typedef enum err parse_fn(struct gen_request *request, yyjson_val *root, struct api_error *error);

static void check_messages(const struct gen_request *request)
{
    const struct conversation *talk = &request->conversation;

    assert(talk->count > 0);
    for (size_t i = 0; i < talk->count; i++) {
        const struct message *message = &talk->messages[i];
        assert(message->role < ROLE_NONE);
        assert(message->form == CONTENT_TEXT ||
               (message->form == CONTENT_NONE && message->calls_count > 0));
    }
    for (size_t i = 0; i < request->breakpoints_count; i++) {
        assert(request->breakpoints[i] >= GEN_BREAK_TOOLS);
        assert(request->breakpoints[i] < (int)talk->count);
        assert(i == 0 || request->breakpoints[i - 1] < request->breakpoints[i]);
    }
    assert(request->tool_choice != CONSTRAINT_REQUIRED || talk->tools_count > 0);
    assert(request->format != CONSTRAINT_ANSWER_SCHEMA || yyjson_is_obj(request->schema));
}

static bool parse(struct gen_request *request, struct str text, parse_fn *fn)
{
    struct api_error error = {0};

    gen_request_init(request, LIMIT_BYTES, NULL);
    enum err err = json_read_body(text, &request->body, &error);
    if (err == ERR_OK)
        err = fn(request, yyjson_doc_get_root(request->body), &error);
    if (err == ERR_OK)
        check_messages(request);
    else
        assert(err == ERR_INVALID && error.kind != API_OK && error.message[0] != '\0');
    return err == ERR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct str text = {(const char *)data, len};
    struct gen_request generate, count;

    if (len > INPUT_BYTES)
        return 0;
    bool taken = parse(&generate, text, anthropic_parse);
    bool counted = parse(&count, text, anthropic_parse_count);
    assert(counted || !taken);
    if (taken)
        assert(generate.conversation.count == count.conversation.count);
    gen_request_fini(&generate);
    gen_request_fini(&count);
    return 0;
}

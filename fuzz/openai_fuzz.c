/*
 * openai_fuzz.c: any bytes as the body of a request to each of OpenAI's endpoints. What is refused
 * says why, in JSON; what is taken has the form that templates rely on, and its answer, which
 * repeats parts of the request, is JSON.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "dialect/answer.h"
#include "dialect/json_read.h"

enum { INPUT_BYTES = 1 << 16, ARENA_BYTES = 1 << 20, OUT_BYTES = 1 << 24 };

static void check(bool fine)
{
    if (!fine)
        abort();
}

static void check_json(struct buf *out)
{
    check(out->err == ERR_OK);
    yyjson_doc *doc = yyjson_read(out->data, out->len, 0);
    check(doc != NULL);
    yyjson_doc_free(doc);
    buf_clear(out);
}

static void check_messages(const struct conversation *talk)
{
    for (size_t i = 0; i < talk->count; i++) {
        const struct message *message = &talk->messages[i];
        check(message->role < ROLE_NONE);
        check(message->form != CONTENT_TEXT || message->parts_count == 1);
        check(message->form != CONTENT_NONE || message->role == ROLE_ASSISTANT);
        for (size_t k = 0; k < message->calls_count; k++)
            check(message->calls[k].name.len > 0 && message->calls[k].arguments.len > 0);
    }
    for (size_t i = 0; i < talk->tools_count; i++)
        check(talk->tools[i].name.len > 0 && yyjson_is_obj(talk->tools[i].schema));
}

/* What the parsers promise to gen_request.h. */
static void check_request(const struct gen_request *request)
{
    check(request->choices >= 1 && request->choices <= ANSWER_CHOICES_MAX);
    check(request->stops_count <= GEN_STOPS_MAX);
    if (request->source == GEN_SOURCE_MESSAGES)
        check_messages(&request->conversation);
    if (request->source == GEN_SOURCE_TOKENS)
        check(request->prompt_tokens_count >= 1);
    if (request->tool_choice == CONSTRAINT_NAMED || request->tool_choice == CONSTRAINT_REQUIRED)
        check(request->conversation.tools_count > 0);
    if (request->format == CONSTRAINT_ANSWER_SCHEMA)
        check(yyjson_is_obj(request->schema));
}

static void check_answer(const struct dialect *dialect, const struct gen_request *request,
                         struct buf *out)
{
    struct output_event event = {OUTPUT_CONTENT, 0, STR("text")};
    struct answer answer;

    answer_init(&answer, request);
    answer.model = "m";
    for (size_t i = 0; i < answer.choices_count; i++) {
        check(answer_add(&answer, i, &event) == ERR_OK);
        answer.choices[i].finish = ANSWER_STOP;
    }
    dialect->body(&answer, out);
    check_json(out);
    answer_fini(&answer);
}

static void run(const struct dialect *dialect, struct str text)
{
    struct gen_request request;
    struct api_error error = {0};
    struct buf out;

    buf_init(&out, OUT_BYTES);
    gen_request_init(&request, ARENA_BYTES, NULL);
    enum err err = json_read_body(text, &request.body, &error);
    if (err == ERR_OK)
        err = dialect->parse(&request, yyjson_doc_get_root(request.body), &error);
    if (err == ERR_OK) {
        check_request(&request);
        check_answer(dialect, &request, &out);
    } else if (err == ERR_INVALID) {
        check(error.kind != API_OK && error.message[0] != '\0');
        dialect->error(&error, "id", &out);
        check_json(&out);
    } else {
        check(err == ERR_LIMIT); /* the arena */
    }
    gen_request_fini(&request);
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct str text = {(const char *)data, len};

    if (len > INPUT_BYTES)
        return 0;
    run(&dialect_openai_chat, text);
    run(&dialect_openai_completions, text);
    run(&dialect_openai_responses, text);
    return 0;
}

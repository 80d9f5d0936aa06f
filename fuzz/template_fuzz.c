/*
 * template_fuzz.c: any JSON as a body of chat completions, rendered with templates that can do everything and next
 * to nothing, then tokenized byte by byte. Spans and marks are in order and inside the text, a
 * second render is the same, the tokens are the text, and no control token stands where the client
 * wrote (I105).
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/arena.h"
#include "chat/template.h"
#include "chat/tokens.h"
#include "engine/engine_ops.h"
#include "dialect/answer.h"
#include "dialect/json_read.h"

enum { ARENA_BYTES = 32 << 20, INPUT_BYTES = 1 << 14, CONTROL = 256, VOCAB = 258 };

static const char *const sources[] = {
    NULL,
    /* No system role, no tools, users and models take turns. */
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' or (m.role == 'user') != "
    "(loop.index0 % 2 == 0) %}"
    "{{ raise_exception('order') }}{% endif %}<|im_start|>{{ m.role }}\n{{ m.content | trim "
    "}}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>model\n{% endif %}",
    /* Parts, objects, ids; the answer is opened in the last round. */
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}<|im_start|>{{ "
    "m.role }}"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content or [] %}{{ p.text "
    "}}{% endfor %}{% endif %}"
    "{% for c in m.tool_calls or [] %}{{ c.id }}{{ c.function.arguments | tojson }}{% endfor %}{{ "
    "m.tool_call_id }}<|im_end|>"
    "{% if loop.last and add_generation_prompt %}<|im_start|>{% endif %}{% endfor %}",
};

static const struct str controls[] = {{"<|im_start|>", 12}, {"<|im_end|>", 10}};

static size_t token_bytes(const struct engine *engine, token_id token, bool control, char *out,
                          size_t size)
{
    char byte = (char)token;
    struct str text = token < CONTROL ? (struct str){&byte, 1} : controls[token - CONTROL];

    (void)engine;
    (void)control;
    memcpy(out, text.ptr, text.len < size ? text.len : size);
    return text.len;
}

static unsigned token_traits(const struct engine *engine, token_id token)
{
    (void)engine;
    return token < CONTROL ? 0 : ENGINE_TOKEN_CONTROL;
}

static enum err tokenize(const struct engine *engine, struct str text, unsigned flags,
                         token_id *out, size_t max, size_t *count)
{
    (void)engine;
    *count = 0;
    for (size_t at = 0, len; at < text.len; at += len) {
        int32_t token = (unsigned char)text.ptr[at];
        len = 1;
        for (size_t i = 0; (flags & ENGINE_TOKENIZE_CONTROL) && i < 2; i++)
            if (str_starts((struct str){text.ptr + at, text.len - at}, controls[i])) {
                token = CONTROL + (int32_t)i;
                len = controls[i].len;
            }
        if (++*count <= max)
            out[*count - 1] = token;
    }
    return ERR_OK;
}

static void require(bool holds)
{
    if (!holds)
        abort();
}

static bool is_touched(const struct chat_text *text, size_t begin, size_t end)
{
    for (size_t i = 0; i < text->span_count; i++)
        if (text->spans[i].begin < end && text->spans[i].end > begin)
            return true;
    return false;
}

static void check_tokens(const struct chat_text *text)
{
    static const struct engine_ops ops = {
        .tokenize = tokenize, .token_bytes = token_bytes, .token_traits = token_traits};
    static const struct engine engine = {.ops = &ops, .facts = {.vocab = VOCAB, .bos = -1}};
    struct tokens_options options = {.engine = &engine};
    struct token_prompt prompt;
    struct tokens *tokens;
    char piece[16];
    size_t at = 0;

    require(tokens_create(&options, &tokens, NULL) == ERR_OK);
    require(tokens_from_text(tokens, NULL, text, &prompt, NULL) == ERR_OK);
    for (size_t i = 0; i < prompt.count; i++) {
        size_t len = token_bytes(NULL, prompt.tokens[i], true, piece, sizeof(piece));
        require(at + len <= text->text.len && memcmp(text->text.ptr + at, piece, len) == 0);
        require(prompt.tokens[i] < CONTROL || !is_touched(text, at, at + len));
        at += len;
    }
    require(at == text->text.len);
    for (size_t i = 0; i < prompt.mark_count; i++)
        require(prompt.marks[i].at <= prompt.count &&
                (i == 0 || prompt.marks[i - 1].at <= prompt.marks[i].at));
    token_prompt_fini(&prompt);
    tokens_destroy(&tokens);
}

static void check_text(const struct chat_text *text)
{
    for (size_t i = 0; i < text->span_count; i++)
        require(text->spans[i].begin < text->spans[i].end && text->spans[i].end <= text->text.len &&
                (i == 0 || text->spans[i - 1].end < text->spans[i].begin));
    for (size_t i = 0; i < text->mark_count; i++)
        require(text->marks[i].at <= text->text.len &&
                (i == 0 || text->marks[i - 1].at <= text->marks[i].at));
    require(text->generation <= text->text.len);
}

static void try_template(const struct chat_template *tmpl, const struct chat_request *request)
{
    struct chat_text first, second;
    struct arena arenas[2];
    struct errinfo info;

    arena_init(&arenas[0], ARENA_BYTES);
    arena_init(&arenas[1], ARENA_BYTES);
    enum err err = chat_template_render(tmpl, request, &arenas[0], &first, &info);
    require(chat_template_render(tmpl, request, &arenas[1], &second, &info) == err);
    if (err == ERR_OK) {
        require(str_eq(first.text, second.text));
        check_text(&first);
        check_tokens(&first);
    }
    arena_fini(&arenas[0]);
    arena_fini(&arenas[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct chat_template
        *templates[COUNT_OF(sources)]; /* made once; the process ends with them */
    static bool made;
    struct errinfo info;

    for (size_t i = 0; !made && i < COUNT_OF(sources); i++) {
        struct chat_template_options options = {.source = sources[i], .bos = STR("<|im_end|>")};
        require(chat_template_create(&options, &templates[i], &info) == ERR_OK);
    }
    made = true;
    struct gen_request read;
    struct api_error error = {0};
    gen_request_init(&read, ARENA_BYTES, NULL);
    enum err err = size > INPUT_BYTES
                       ? ERR_LIMIT
                       : json_read_body((struct str){(const char *)data, size}, &read.body, &error);
    if (err == ERR_OK)
        err = dialect_openai_chat.parse(&read, yyjson_doc_get_root(read.body), &error);
    struct chat_request request = {.messages = read.conversation.messages,
                                   .messages_count = read.conversation.count,
                                   .tools = read.conversation.tools,
                                   .tools_count = read.conversation.tools_shown,
                                   .kwargs = read.kwargs,
                                   .continue_final = read.continue_final,
                                   .add_generation_prompt = !read.continue_final};
    for (size_t i = 0; err == ERR_OK && i < COUNT_OF(sources); i++)
        try_template(templates[i], &request);
    gen_request_fini(&read);
    return 0;
}

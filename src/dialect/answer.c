/*
 * answer.c: collects the output of a model.
 *
 * Sizes are bounded twice: by the token limit of a generation, and by the limits below, because one
 * token may represent many bytes and a tool-call parser may write more JSON than it has read.
 * Exceeding a limit ends the answer with ERR_LIMIT; nothing is truncated silently.
 */
#include "dialect/answer.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"

/* 32 unguessable hex digits. */
static void make_id(char id[ANSWER_ID_BYTES])
{
    uint8_t random[16]; /* 128 bits: a client cannot guess another client's call id */

    hash_random(random, sizeof(random));
    hash_hex(random, sizeof(random), id);
}

static void begin_choice(struct answer_choice *choice)
{
    buf_init(&choice->content, ANSWER_TEXT_BYTES_MAX);
    buf_init(&choice->reasoning, ANSWER_TEXT_BYTES_MAX);
    choice->block = -1;
}

static void end_choice(struct answer_choice *choice)
{
    for (size_t i = 0; i < choice->calls_count; i++) {
        mem_free(choice->calls[i].name);
        buf_fini(&choice->calls[i].arguments);
    }
    mem_free(choice->calls);
    mem_free(choice->logprobs);
    mem_free(choice->tokens);
    buf_fini(&choice->content);
    buf_fini(&choice->reasoning);
}

void answer_init(struct answer *answer, const struct gen_request *request)
{
    size_t choices = gen_request_choices(request);

    assert(choices >= 1 && choices <= ANSWER_ALL_CHOICES_MAX);
    memset(answer, 0, sizeof(*answer));
    answer->request = request;
    answer->choices_count = choices;
    answer->choices = mem_alloc_array(choices, sizeof(*answer->choices));
    make_id(answer->id);
    for (size_t i = 0; i < answer->choices_count; i++)
        begin_choice(&answer->choices[i]);
}

void answer_fini(struct answer *answer)
{
    for (size_t i = 0; i < answer->choices_count; i++)
        end_choice(&answer->choices[i]);
    mem_free(answer->choices);
    buf_fini(&answer->items);
    mem_free(answer->vectors.values);
    memset(answer, 0, sizeof(*answer));
}

static enum err call_begin(struct answer_choice *choice, const struct output_event *event)
{
    struct answer_call *call;

    /* output_event.h: calls come in order and do not overlap */
    assert(event->call == choice->calls_count);
    if (choice->calls_count >= ANSWER_CALLS_MAX)
        return ERR_LIMIT;
    if (!mem_try_reserve(&choice->calls, choice->calls_count + 1, &choice->calls_cap,
                         sizeof(*choice->calls)))
        return ERR_NOMEM;
    char *name = mem_try_alloc(event->text.len + 1);
    if (!name)
        return ERR_NOMEM;
    memcpy(name, event->text.ptr, event->text.len);
    name[event->text.len] = '\0';

    call = &choice->calls[choice->calls_count++];
    memset(call, 0, sizeof(*call));
    make_id(call->id);
    call->name = name;
    buf_init(&call->arguments, ANSWER_TEXT_BYTES_MAX);
    return ERR_OK;
}

static struct answer_call *open_call(struct answer_choice *choice, const struct output_event *event)
{
    struct answer_call *call;

    assert(choice->calls_count > 0 && event->call == choice->calls_count - 1);
    call = &choice->calls[choice->calls_count - 1];
    assert(!call->complete);
    return call;
}

bool answer_has_calls(const struct answer_choice *choice)
{
    return choice->calls_count > 0 && choice->calls[0].complete;
}

enum err answer_add(struct answer *answer, size_t index, const struct output_event *event)
{
    struct answer_choice *choice = &answer->choices[index];

    assert(index < answer->choices_count);
    switch (event->type) {
    case OUTPUT_CONTENT:
        return buf_append(&choice->content, event->text.ptr, event->text.len);
    case OUTPUT_REASONING:
        return buf_append(&choice->reasoning, event->text.ptr, event->text.len);
    case OUTPUT_CALL_BEGIN:
        return call_begin(choice, event);
    case OUTPUT_CALL_ARGUMENTS:
        return buf_append(&open_call(choice, event)->arguments, event->text.ptr, event->text.len);
    case OUTPUT_CALL_END:
        open_call(choice, event)->complete = true;
        return ERR_OK;
    case OUTPUT_ERROR: /* handled by the call; its text follows */
    case OUTPUT_EVENT_COUNT:
        break;
    }
    return ERR_OK;
}

enum err answer_add_token(struct answer *answer, size_t index, token_id token)
{
    struct answer_choice *choice = &answer->choices[index];

    assert(index < answer->choices_count);
    if (!mem_try_reserve(&choice->tokens, choice->tokens_count + 1, &choice->tokens_cap,
                         sizeof(*choice->tokens)))
        return ERR_NOMEM;
    choice->tokens[choice->tokens_count++] = token;
    return ERR_OK;
}

enum err answer_add_logprob(struct answer *answer, size_t index, const struct sample_pick *pick)
{
    struct answer_choice *choice = &answer->choices[index];

    assert(index < answer->choices_count && pick->top_count <= SAMPLE_TOP_MAX);
    if (!mem_try_reserve(&choice->logprobs, choice->logprobs_count + 1, &choice->logprobs_cap,
                         sizeof(*choice->logprobs)))
        return ERR_NOMEM;
    struct answer_logprob *entry = &choice->logprobs[choice->logprobs_count++];
    entry->token = pick->token;
    entry->logprob = pick->logprob;
    entry->top_count = pick->top_count;
    memcpy(entry->top, pick->top, pick->top_count * sizeof(pick->top[0]));
    return ERR_OK;
}

void answer_keep_logprobs(struct answer *answer, size_t index, size_t bytes)
{
    struct answer_choice *choice = &answer->choices[index];
    size_t first = choice->logprobs_count, kept = choice->logprobs_kept;
    char text[16]; /* only its length counts */

    while (first > kept && bytes > 0) {
        token_id token = choice->logprobs[--first].token;
        bytes -=
            MIN(bytes, answer->token_bytes(answer->token_bytes_arg, token, text, sizeof(text)));
    }
    choice->logprobs_kept = kept + choice->logprobs_count - first;
    if (first > kept)
        memmove(&choice->logprobs[kept], &choice->logprobs[first],
                (choice->logprobs_count - first) * sizeof(*choice->logprobs));
    choice->logprobs_count = choice->logprobs_kept;
}

/* Milliseconds from `from` to `to`; 0 if either never happened. */
static double span_ms(uint64_t from, uint64_t to)
{
    return from != 0 && to > from ? (double)(to - from) / (double)NS_PER_MS : 0;
}

static double per_s(uint32_t count, double ms)
{
    return ms > 0 ? (double)count * 1000.0 / ms : 0;
}

struct answer_timings answer_timings(const struct answer *answer)
{
    const struct gen_times *times = &answer->times;
    const struct gen_usage *usage = &answer->usage;
    uint64_t computing = times->restored ? times->restored : times->looked_up;
    /* tokens after the first of each choice: those that decoding time produced */
    struct answer_timings timings = {
        .prompt_ms = span_ms(computing, times->first_token ? times->first_token : times->ended),
        .predicted_ms = span_ms(times->first_token, times->ended),
        .ttft_ms = span_ms(times->submitted, times->first_token),
        .total_ms = span_ms(times->submitted, times->ended),
    };

    uint32_t later = usage->generated > answer->choices_count
                         ? usage->generated - (uint32_t)answer->choices_count
                         : 0;
    timings.prompt_per_s = per_s(usage->computed, timings.prompt_ms);
    timings.predicted_per_s = per_s(later, timings.predicted_ms);
    return timings;
}

/* ---- requests without a path ---- */

/* Content that only Anthropic's messages have. */
static bool has_blocks(yyjson_val *message)
{
    static const char *const types[] = {"tool_use", "tool_result", "thinking"};
    yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(message, "content"));
    yyjson_val *part;

    while ((part = yyjson_arr_iter_next(&iter)) != NULL) {
        if (yyjson_obj_get(part, "cache_control") != NULL)
            return true;
        for (size_t i = 0; i < COUNT_OF(types); i++)
            if (yyjson_equals_str(yyjson_obj_get(part, "type"), types[i]))
                return true;
    }
    return false;
}

/* Anthropic's requests have a separate system prompt, or tools or blocks that OpenAI's have not. */
static bool is_anthropic(yyjson_val *root)
{
    yyjson_val *tool = yyjson_arr_get_first(yyjson_obj_get(root, "tools"));
    yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(root, "messages"));
    yyjson_val *message;
    bool found = yyjson_obj_get(root, "system") != NULL ||
                 yyjson_obj_get(root, "anthropic_version") != NULL ||
                 yyjson_obj_get(tool, "input_schema") != NULL;

    while (!found && (message = yyjson_arr_iter_next(&iter)) != NULL)
        found = has_blocks(message);
    return found;
}

const struct dialect *dialect_recognize(yyjson_val *root)
{
    if (yyjson_obj_get(root, "prompt") != NULL)
        return &dialect_openai_completions;
    if (yyjson_obj_get(root, "input") != NULL)
        return &dialect_openai_responses;
    return is_anthropic(root) ? &dialect_anthropic_messages : &dialect_openai_chat;
}

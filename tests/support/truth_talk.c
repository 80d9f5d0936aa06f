/*
 * truth_talk.c: see truth_talk.h. Answers never end early (ignore_eos), so that their length is
 * known; grammars, predictions, salts, temperatures and adapters are those of the request and must
 * not change what the model's own distribution is.
 */
#include "support/truth_talk.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/json_write.h"
#include "base/mem.h"
#include "support/test.h"

enum { BODY_MAX = 1 << 20, TOPS = 10, SYSTEMS = 3, CHAT_MESSAGES_MAX = 12, WRONG_EACH = 16 };

static uint32_t below(struct truth_talks *talks, uint64_t n)
{
    return (uint32_t)test_random_below(&talks->seed, n);
}

/* ---- prompts of tokens ---- */

static void append_new(struct truth_talks *talks, struct truth_known *prompt)
{
    uint32_t how = below(talks, 12);
    uint32_t count = how == 0  ? 200 + below(talks, 800)
                     : how < 4 ? 60 + below(talks, 200)
                               : 1 + below(talks, 40);

    count = MIN(count, talks->longest - MIN(talks->longest, prompt->count));
    for (uint32_t i = 0; i < count; i++)
        prompt->tokens[prompt->count++] = cold_random_token(talks->cold, &talks->seed);
}

/* Few different beginnings, as system prompts are. */
static void begin_new(struct truth_talks *talks, struct truth_known *prompt)
{
    uint64_t number = below(talks, SYSTEMS), seed = 1000 + number;

    prompt->count = 0;
    for (uint32_t i = 0; i < 20 + 160 * number; i++)
        prompt->tokens[prompt->count++] = cold_random_token(talks->cold, &seed);
    append_new(talks, prompt);
}

static void change_some(struct truth_talks *talks, struct truth_known *prompt)
{
    uint32_t count = 1 + below(talks, 8), at = below(talks, prompt->count);

    for (uint32_t i = at; i < MIN(prompt->count, at + count); i++)
        prompt->tokens[i] = cold_random_token(talks->cold, &talks->seed);
}

static void choose_tokens(struct truth_talks *talks, struct truth_known *prompt, char what[96])
{
    const struct truth_known *known = &talks->known[below(talks, TRUTH_KNOWN_MAX)];
    uint32_t how = below(talks, 12);

    bool again = how == 1 || how > (talks->drafts ? 3 : 9);
    talks->again = known->count > 0 && again ? known : NULL;

    *prompt = *known;
    if (known->count == 0 || how == 0) {
        begin_new(talks, prompt);
        snprintf(what, 96, "new, %u tokens", prompt->count);
    } else if (talks->again != NULL) {
        prompt->count = known->prompt;
        snprintf(what, 96, "the prompt of %u tokens again", prompt->count);
    } else if (how < 4) {
        prompt->count = 1 + below(talks, known->count);
        uint32_t at = prompt->count;
        append_new(talks, prompt);
        snprintf(what, 96, "branch at %u of %u, %u tokens", at, known->count, prompt->count);
    } else if (how < 6) {
        change_some(talks, prompt);
        snprintf(what, 96, "edit, %u tokens", prompt->count);
    } else {
        append_new(talks, prompt);
        snprintf(what, 96, "go on after %u, %u tokens", known->count, prompt->count);
    }
    prompt->count = MIN(prompt->count, talks->longest);
}

/* ---- chats ---- */

static void choose_chat(struct truth_talks *talks, struct talk *talk, char what[96])
{
    const struct talk *known = &talks->chats[below(talks, TRUTH_KNOWN_MAX)];
    uint32_t how = below(talks, 6);

    *talk = *known;
    if (known->count == 0 || how == 0) {
        *talk = (struct talk){0};
        talk_say(talk, "system", talk_words(1 + below(talks, SYSTEMS), 30 + 20 * below(talks, 4)));
        talk_say(talk, "user", talk_words(talks->seed, 5 + below(talks, 40)));
        snprintf(what, 96, "chat: new");
    } else if (how == 1) {
        *talk = talk_edit(known, 1 + below(talks, known->count - 1),
                          talk_words(talks->seed, 5 + below(talks, 30)));
        snprintf(what, 96, "chat: edit of %zu messages", talk->count);
    } else if (how == 2) {
        *talk = talk_head(known, 2 + 2 * below(talks, known->count / 2));
        snprintf(what, 96, "chat: %zu of %zu messages", talk->count, known->count);
    } else {
        snprintf(what, 96, "chat: %zu messages", talk->count);
    }
}

static void write_messages(struct json *json, const struct talk *talk)
{
    json_key_open(json, "messages", '[');
    for (size_t i = 0; i < talk->count; i++) {
        json_open(json, '{');
        json_key_text(json, "role", talk->messages[i].role);
        json_key_text(json, "content", talk->messages[i].text);
        json_close(json, '}');
    }
    json_close(json, ']');
}

/* ---- requests ---- */

/* A guess of the answer: that of the same prompt, or text that some answer had, with errors. */
static void write_prediction(struct json *json, struct truth_talks *talks)
{
    const struct truth_known *known =
        talks->again != NULL ? talks->again : &talks->known[below(talks, TRUTH_KNOWN_MAX)];
    char text[512];
    size_t len = 0;

    for (uint32_t i = known->prompt; i < known->count && len + 64 < sizeof(text); i++)
        len += MIN(engine_token_bytes(talks->cold->engine, known->tokens[i], false, text + len, 64),
                   (size_t)64);
    for (size_t i = 0; i < len; i++)
        text[i] = text[i] >= ' ' && text[i] < 127 ? text[i] : ' ';
    for (size_t i = below(talks, WRONG_EACH); i < len; i += 1 + below(talks, 2 * WRONG_EACH))
        text[i] = '#';
    json_key_open(json, "prediction", '{');
    json_key_text(json, "type", "content");
    json_key_str(json, "content", (struct str){text, len});
    json_close(json, '}');
}

static void write_settings(struct json *json, struct truth_ask *ask, struct truth_talks *talks)
{
    uint32_t tokens = 1 + below(talks, TRUTH_ANSWER_MAX);
    bool random = below(talks, talks->drafts ? 8 : 2) == 0;

    json_key_uint(json, ask->chat ? "max_tokens" : "n_predict", ask->stream ? 200 : tokens);
    json_key_bool(json, "ignore_eos", true);
    json_key_uint(json, "temperature", random);
    json_key_uint(json, "seed", below(talks, 1000));
    json_key_bool(json, "stream", ask->stream);
    if (below(talks, 4) == 0)
        json_key_text(json, "cache_salt", below(talks, 2) ? "a" : "b");
    if (below(talks, 10) == 0)
        json_key_text(json, "grammar", "root ::= [a-z ]*");
    if (below(talks, talks->again == NULL ? 4 : talks->drafts ? 1 : 2) == 0)
        write_prediction(json, talks);
    if (talks->lora) {
        ask->adapter = below(talks, 2) == 0;
        json_key_open(json, "lora", '[');
        json_open(json, '{');
        json_key_uint(json, "id", 0);
        json_key_uint(json, "scale", ask->adapter);
        json_close(json, '}');
        json_close(json, ']');
    }
}

void truth_ask_init(struct truth_ask *ask, struct truth_talks *talks)
{
    static struct truth_known prompt;

    *ask = (struct truth_ask){.chat = below(talks, 4) == 0, .stream = below(talks, 8) == 0};
    ask->leave_ms = below(talks, 80);
    buf_init(&ask->body, BODY_MAX);
    struct json json = json_to(&ask->body);
    json_open(&json, '{');
    talks->again = NULL;
    if (ask->chat) {
        choose_chat(talks, &ask->talk, ask->what);
        write_messages(&json, &ask->talk);
        json_key_bool(&json, "logprobs", true);
        json_key_uint(&json, "top_logprobs", TOPS);
        json_key_uint(&json, "n", 1 + below(talks, TRUTH_CHOICES_MAX));
        json_key_bool(&json, "return_token_ids", true);
    } else {
        choose_tokens(talks, &prompt, ask->what);
        json_key_open(&json, "prompt", '[');
        for (uint32_t i = 0; i < prompt.count; i++)
            json_int(&json, prompt.tokens[i]);
        json_close(&json, ']');
        json_key_uint(&json, "n_probs", TOPS);
        json_key_bool(&json, "return_tokens", true);
    }
    write_settings(&json, ask, talks);
    json_close(&json, '}');
    assert_ok(ask->body.err);
}

void truth_ask_fini(struct truth_ask *ask)
{
    buf_fini(&ask->body);
}

const char *truth_ask_path(const struct truth_ask *ask)
{
    return ask->chat ? scenario_path(SCENARIO_CHAT) : "/completion";
}

/* ---- answers ---- */

static uint32_t number(yyjson_doc *doc, const char *pointer)
{
    return (uint32_t)yyjson_get_uint(yyjson_doc_ptr_get(doc, pointer));
}

/* The token with these bytes; TOKEN_NONE: none, or several. */
static token_id token_of(const struct cold *cold, yyjson_val *entry)
{
    yyjson_val *id = yyjson_obj_get(entry, "id"), *bytes = yyjson_obj_get(entry, "bytes");
    size_t len = yyjson_arr_size(bytes);
    token_id found = TOKEN_NONE;
    char wanted[64], text[64];

    if (id != NULL)
        return (token_id)yyjson_get_int(id);
    if (len == 0 || len > sizeof(wanted))
        return TOKEN_NONE;
    for (size_t i = 0; i < len; i++)
        wanted[i] = (char)yyjson_get_uint(yyjson_arr_get(bytes, i));
    for (token_id token = 0; token < (token_id)cold->facts->vocab; token++) {
        size_t got = engine_token_bytes(cold->engine, token, false, text, sizeof(text));
        if (got != len || memcmp(text, wanted, len) != 0)
            continue;
        if (found != TOKEN_NONE)
            return TOKEN_NONE;
        found = token;
    }
    return found;
}

static void add_claim(struct truth_choice *choice, uint32_t at, token_id token, yyjson_val *entry)
{
    yyjson_val *logprob = yyjson_obj_get(entry, "logprob");

    assert_true(yyjson_is_num(logprob));
    if (token != TOKEN_NONE)
        choice->claims[choice->claims_count++] =
            (struct cold_claim){at, token, (float)yyjson_get_num(logprob)};
}

/* A chat has no probabilities of thoughts and stop texts: then places are not known. */
static void read_claims(struct truth_choice *choice, const struct cold *cold, yyjson_val *probs)
{
    size_t i, count, k, tops, answer = choice->count - choice->prompt;
    yyjson_val *entry, *top;

    choice->claims = mem_alloc_array(answer * (TOPS + 1) + 1, sizeof(*choice->claims));
    choice->probs = yyjson_val_write(probs, 0, NULL);
    if (yyjson_arr_size(probs) != answer)
        return;
    yyjson_arr_foreach(probs, i, count, entry)
    {
        uint32_t at = choice->prompt + (uint32_t)i;
        add_claim(choice, at, choice->tokens[at], entry);
        yyjson_arr_foreach(yyjson_obj_get(entry, "top_logprobs"), k, tops, top)
            add_claim(choice, at, token_of(cold, top), top);
    }
}

static size_t append_ids(token_id *tokens, size_t count, yyjson_val *list)
{
    size_t i, more;
    yyjson_val *id;

    yyjson_arr_foreach(list, i, more, id) tokens[count++] = (token_id)yyjson_get_int(id);
    return count;
}

static void read_choice(struct truth_answer *answer, const struct cold *cold, yyjson_val *prompt,
                        yyjson_val *ids, yyjson_val *probs)
{
    struct truth_choice *choice = &answer->choices[answer->choices_count++];
    size_t most = yyjson_arr_size(prompt) + yyjson_arr_size(ids);

    choice->tokens = mem_alloc_array(most + 1, sizeof(*choice->tokens));
    choice->prompt = (uint32_t)append_ids(choice->tokens, 0, prompt);
    choice->count = (uint32_t)append_ids(choice->tokens, choice->prompt, ids);
    if (choice->prompt == 0 || choice->count == choice->prompt)
        snprintf(answer->fault, sizeof(answer->fault), "the answer has no tokens");
    read_claims(choice, cold, probs);
}

static void remember(struct truth_talks *talks, const struct truth_choice *choice)
{
    struct truth_known *known = &talks->known[below(talks, TRUTH_KNOWN_MAX)];

    if (choice->count > TRUTH_TOKENS_MAX)
        return;
    known->prompt = choice->prompt;
    known->count = choice->count;
    memcpy(known->tokens, choice->tokens, choice->count * sizeof(*known->tokens));
}

static void go_on_chat(struct truth_talks *talks, const struct truth_ask *ask, const char *text)
{
    struct talk *talk = &talks->chats[below(talks, TRUTH_KNOWN_MAX)];

    *talk = ask->talk;
    if (talk->count + 2 > CHAT_MESSAGES_MAX)
        *talk = talk_head(talk, 2);
    if (talk->messages[talk->count - 1].role[0] == 'u')
        talk_say(talk, "assistant", text);
    talk_say(talk, "user", talk_words(talks->seed, 3 + below(talks, 30)));
}

static void read_chat(struct truth_answer *answer, struct truth_talks *talks,
                      const struct truth_ask *ask, yyjson_doc *doc)
{
    yyjson_val *prompt = yyjson_doc_ptr_get(doc, "/prompt_token_ids"), *choice;
    size_t i, count;

    yyjson_arr_foreach(yyjson_doc_ptr_get(doc, "/choices"), i, count, choice)
    {
        if (answer->choices_count < TRUTH_CHOICES_MAX)
            read_choice(answer, talks->cold, prompt, yyjson_obj_get(choice, "token_ids"),
                        yyjson_ptr_get(choice, "/logprobs/content"));
    }
    const char *text = yyjson_get_str(yyjson_doc_ptr_get(doc, "/choices/0/message/content"));
    if (text != NULL)
        go_on_chat(talks, ask, text);
}

void truth_answer_init(struct truth_answer *answer, struct truth_talks *talks,
                       const struct truth_ask *ask, const struct http_answer *http)
{
    yyjson_doc *doc = yyjson_read(buf_str(&http->body), http->body.len, 0);
    yyjson_doc *asked = yyjson_read(ask->body.data, ask->body.len, 0);

    *answer = (struct truth_answer){.adapter = ask->adapter};
    snprintf(answer->what, sizeof(answer->what), "%s", ask->what);
    if (doc == NULL || http->status != 200) {
        snprintf(answer->fault, sizeof(answer->fault), "status %d: %.200s", http->status,
                 buf_str(&http->body));
    } else {
        char *reuse = yyjson_val_write(yyjson_doc_ptr_get(doc, "/x_cache"), 0, NULL);
        snprintf(answer->reuse, sizeof(answer->reuse), "%s", reuse != NULL ? reuse : "");
        free(reuse);
        answer->device = number(doc, "/x_cache/device");
        answer->ram = number(doc, "/x_cache/ram");
        answer->ssd = number(doc, "/x_cache/ssd");
        answer->computed = number(doc, "/x_cache/computed");
        answer->accepted = number(doc, "/timings/draft_n_accepted");
        if (ask->chat)
            read_chat(answer, talks, ask, doc);
        else
            read_choice(answer, talks->cold, yyjson_doc_ptr_get(asked, "/prompt"),
                        yyjson_doc_ptr_get(doc, "/tokens"),
                        yyjson_doc_ptr_get(doc, "/completion_probabilities"));
        if (answer->choices_count == 0 && answer->fault[0] == '\0')
            snprintf(answer->fault, sizeof(answer->fault), "no choices");
        for (size_t i = 0; i < answer->choices_count; i++)
            remember(talks, &answer->choices[i]);
    }
    yyjson_doc_free(asked);
    yyjson_doc_free(doc);
}

void truth_answer_fini(struct truth_answer *answer)
{
    for (size_t i = 0; i < answer->choices_count; i++) {
        mem_free(answer->choices[i].tokens);
        mem_free(answer->choices[i].claims);
        free(answer->choices[i].probs);
    }
}

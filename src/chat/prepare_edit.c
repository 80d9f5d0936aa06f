/*
 * prepare_edit.c: context edits: old tool results and thoughts are cleared before the template sees
 * them.
 *
 * A cleared result changes the prompt from there on, so all that follows is computed again. Edits are
 * therefore made in steps, and a step is never undone:
 *
 *      turn      1   2   3   4   5   6   7   8   9   10         trigger 100, keep 2
 *      size     20  40  60  80 104                              5 is above the trigger: 1 to 3 are
 *                               \-> 44  64  84 106              cleared. 9 is above it again:
 *                                                \-> 46  66     4 to 7 are cleared, too
 *
 * The steps are found by going through the conversation as it grew, so they depend on the request
 * alone, and on its beginning only: the next turn of the conversation has the same ones. The size of
 * a turn is that of its prompt: the beginning of the conversation is rendered and tokenized. Sums
 * over the messages' texts, which may be a fifth too low, tell which turns are not near the
 * trigger and need not be rendered. A step that would clear less than clear_at_least, or without it
 * a sixteenth of the trigger, waits.
 *
 * Where the steps are after a turn is remembered by the digest of the conversation up to there, so
 * the next turn looks at its new messages only. When it was forgotten, the steps are found again.
 *
 * Thoughts are cleared in steps of THINKING_STEP turns. The tokens that this clears are counted by
 * rendering the prompt before and after it, as templates leave out thoughts, too. Those of results
 * are counted from their texts.
 */
#include "chat/prepare_impl.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "base/json_write.h"

enum {
    MESSAGE_TOKENS = 16, /* around the text of a message, at most about */
    SUM_PARTS = 4,       /* a prompt has at most a quarter more tokens than its texts */
    STEP_PARTS = 16,
    THINKING_STEP = 8,
    LONG_TEXT = 64,
};

static const struct str placeholder = STR("[Old tool result cleared to save context]");

/* ---- sizes ---- */

static enum err count_text(struct prepare_run *run, struct str text, uint32_t *sum)
{
    struct token_prompt prompt = {0};

    if (text.len == 0)
        return ERR_OK;
    TRY(tokens_from_string(run->tools->model.tokens, &run->caller, text, 0, &prompt, &run->info));
    *sum += (uint32_t)prompt.count;
    token_prompt_fini(&prompt);
    return ERR_OK;
}

static enum err count_content(struct prepare_run *run, const struct message *message, uint32_t *sum)
{
    for (size_t i = 0; i < message->parts_count; i++)
        TRY(count_text(run, message->parts[i].text, sum));
    return ERR_OK;
}

/* Thoughts are left out: many templates drop old ones. */
static enum err count_message(struct prepare_run *run, const struct message *message, uint32_t *sum)
{
    *sum += MESSAGE_TOKENS;
    for (size_t i = 0; i < message->calls_count; i++) {
        TRY(count_text(run, message->calls[i].name, sum));
        TRY(count_text(run, message->calls[i].arguments, sum));
    }
    return count_content(run, message, sum);
}

/* The tools as the template gets them, or nearly so. */
static enum err tools_text(struct prepare_run *run, struct str *out)
{
    const struct conversation *talk = &run->request->conversation;
    struct buf text;
    struct json json = json_to(&text);

    buf_init(&text, talk->arena->limit);
    for (size_t i = 0; i < talk->tools_shown; i++)
        tool_write(&json, &talk->tools[i]);
    return buf_move(&text, talk->arena, out);
}

/* ---- tool uses ---- */

/* A result, and the call that it answers. */
struct use {
    size_t message;
    struct tool_call *call; /* NULL: none is known */
    bool kept;              /* it must stay */
};

/* Where the steps are after a turn. */
struct progress {
    uint32_t end;            /* tool uses before this one are cleared, or kept */
    uint32_t cleared, saved; /* tool uses, and their tokens */
    uint32_t sum;            /* of the texts so far, in tokens */
    uint32_t size, sum_at;   /* of the prompt that was counted last, and the sum there */
};

struct uses {
    struct use *all;
    size_t count;
    struct progress at;
};

static struct tool_call *find_call(const struct conversation *talk, size_t result)
{
    struct str id = talk->messages[result].call_id;

    for (size_t i = result; i-- > 0;)
        for (size_t k = 0; k < talk->messages[i].calls_count; k++)
            if (id.len > 0 && str_eq(talk->messages[i].calls[k].id, id))
                return &talk->messages[i].calls[k];
    return NULL;
}

static bool is_in(const struct str *names, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(names[i], name))
            return true;
    return false;
}

static bool clears_input(const struct gen_edit *edit, const struct use *use)
{
    return use->call != NULL &&
           (edit->all_inputs || is_in(edit->inputs, edit->inputs_count, use->call->name));
}

static void add_use(const struct conversation *talk, const struct gen_edit *edit, size_t message,
                    struct uses *uses)
{
    struct use *use = &uses->all[uses->count++];

    *use = (struct use){.message = message, .call = find_call(talk, message)};
    use->kept = use->call != NULL && is_in(edit->exclude, edit->exclude_count, use->call->name);
}

/* Tokens that are saved when it is cleared. */
static enum err count_use(struct prepare_run *run, const struct gen_edit *edit,
                          const struct use *use, uint32_t *sum)
{
    uint32_t before = 0, after = 0;

    TRY(count_content(run, &run->request->conversation.messages[use->message], &before));
    if (clears_input(edit, use))
        TRY(count_text(run, use->call->arguments, &before));
    TRY(count_text(run, placeholder, &after));
    *sum += before - MIN(before, after);
    return ERR_OK;
}

/* Tokens of the prompt that asked for an answer after this message. */
static enum err count_prompt_at(struct prepare_run *run, size_t message, uint32_t *tokens)
{
    struct gen_request *request = run->request;
    struct conversation *talk = &request->conversation;
    struct arena_mark mark = arena_mark(talk->arena);
    struct token_prompt prompt = {0};
    size_t count = talk->count;
    bool continues = request->continue_final;

    talk->count = message + 1;
    request->continue_final = continues && message + 1 == count;
    enum err err = prepare_render(run);
    if (err == ERR_OK)
        err = tokens_from_text(run->tools->model.tokens, &run->caller, &run->out->text, &prompt,
                               &run->info);
    talk->count = count;
    request->continue_final = continues;
    *tokens = (uint32_t)prompt.count;
    token_prompt_fini(&prompt);
    arena_release(talk->arena, mark);
    return err;
}

static enum err is_triggered(struct prepare_run *run, const struct gen_edit *edit, size_t message,
                             struct uses *uses, bool *triggered)
{
    struct progress *at = &uses->at;
    uint64_t grown = at->sum - at->sum_at;

    *triggered = edit->by_uses ? uses->count - at->cleared > edit->trigger
                               : at->size > edit->trigger; /* a step waits */
    if (*triggered || edit->by_uses || at->size + grown + grown / SUM_PARTS <= edit->trigger)
        return ERR_OK;
    TRY(count_prompt_at(run, message, &at->size));
    at->sum_at = at->sum;
    *triggered = at->size > edit->trigger;
    return ERR_OK;
}

static enum err clear_range(struct prepare_run *run, const struct gen_edit *edit, struct uses *uses,
                            size_t begin, size_t end)
{
    struct conversation *talk = &run->request->conversation;

    for (size_t i = begin; i < end; i++) {
        struct use *use = &uses->all[i];

        if (use->kept)
            continue;
        if (clears_input(edit, use))
            use->call->arguments = STR("{}");
        TRY(message_set_text(&talk->messages[use->message], talk->arena, placeholder));
    }
    return ERR_OK;
}

/* One step, if it clears enough. */
static enum err clear_step(struct prepare_run *run, const struct gen_edit *edit, struct uses *uses)
{
    size_t end = uses->count > edit->keep ? uses->count - edit->keep : 0;
    uint32_t least = edit->clear_at_least, saves = 0, found = 0;
    struct progress *at = &uses->at;

    if (least == 0 && !edit->by_uses)
        least = edit->trigger / STEP_PARTS;
    for (size_t i = at->end; i < end; i++) {
        if (uses->all[i].kept)
            continue;
        found++;
        TRY(count_use(run, edit, &uses->all[i], &saves));
    }
    if (found == 0 || saves < least)
        return ERR_OK;
    TRY(clear_range(run, edit, uses, at->end, end));
    at->end = (uint32_t)end;
    at->cleared += found;
    at->saved += saves;
    at->size -= MIN(at->size, saves);
    return ERR_OK;
}

/* The model was asked after this message. */
static bool ends_a_request(const struct conversation *talk, size_t message)
{
    enum role role = talk->messages[message].role;

    return (role == ROLE_USER || role == ROLE_TOOL) &&
           (message + 1 == talk->count || talk->messages[message + 1].role == ROLE_ASSISTANT);
}

/* ---- remembered steps ---- */

/* A long text by its fast hash. Texts that were made to collide only get each other's steps, which
 * are possible ones for both: all that counts messages and tool uses is in the digest. */
static void digest_text(struct hash256_state *state, struct str text)
{
    hash256_update_u64(state, text.len);
    if (text.len <= LONG_TEXT) {
        hash256_update(state, text.ptr, text.len);
    } else {
        struct hash128 hash = hash128_of(text.ptr, text.len);

        hash256_update(state, hash.bytes, sizeof(hash.bytes));
    }
}

static void digest_names(struct hash256_state *state, const struct str *names, size_t count)
{
    hash256_update_u64(state, count);
    for (size_t i = 0; i < count; i++)
        digest_text(state, names[i]);
}

/* What the steps depend on besides the messages. */
static enum err digest_request(struct prepare_run *run, const struct gen_edit *edit,
                               struct str tools, struct hash256_state *state)
{
    struct gen_request *request = run->request;
    struct str kwargs = STR_NONE;

    if (request->kwargs != NULL)
        TRY(conversation_json(&request->conversation, request->kwargs, &kwargs));
    digest_text(state, kwargs);
    digest_text(state, request->reasoning_effort);
    hash256_update_u32(state, (uint32_t)request->thinking);
    hash256_update_u32(state, (uint32_t)request->tool_choice);
    hash256_update_u32(state, (uint32_t)edit->by_uses << 1 | edit->all_inputs);
    hash256_update_u32(state, edit->trigger);
    hash256_update_u32(state, edit->keep);
    hash256_update_u32(state, edit->clear_at_least);
    digest_names(state, edit->exclude, edit->exclude_count);
    digest_names(state, edit->inputs, edit->inputs_count);
    digest_text(state, tools);
    return ERR_OK;
}

static void digest_message(struct hash256_state *state, const struct message *message)
{
    hash256_update_u32(state, (uint32_t)message->role << 1 | (message->thought.ptr != NULL));
    hash256_update_u32(state, (uint32_t)message->form);
    hash256_update_u64(state, message->parts_count);
    for (size_t i = 0; i < message->parts_count; i++)
        digest_text(state, message->parts[i].text);
    digest_text(state, message->thought);
    hash256_update_u64(state, message->calls_count);
    for (size_t i = 0; i < message->calls_count; i++) {
        digest_text(state, message->calls[i].id);
        digest_text(state, message->calls[i].name);
        digest_text(state, message->calls[i].arguments);
    }
    digest_text(state, message->call_id);
    digest_text(state, message->name);
}

/* One for each message that the model was asked after. */
static enum err digest_turns(struct prepare_run *run, const struct gen_edit *edit, struct str tools,
                             struct hash256 *digests)
{
    const struct conversation *talk = &run->request->conversation;
    struct hash256_state state;

    hash256_init(&state);
    TRY(digest_request(run, edit, tools, &state));
    for (size_t i = 0; i < talk->count; i++) {
        digest_message(&state, &talk->messages[i]);
        if (ends_a_request(talk, i))
            digests[i] = hash256_final(&state);
    }
    return ERR_OK;
}

enum { NUMBERS = sizeof(struct progress) / sizeof(int32_t) };

/* Continues after the last turn that is remembered: *from is the message after it, or 0. */
static enum err resume(struct prepare_run *run, const struct gen_edit *edit,
                       const struct hash256 *digests, struct uses *uses, size_t *from)
{
    const struct conversation *talk = &run->request->conversation;
    int32_t numbers[NUMBERS];

    for (*from = talk->count; *from > 0; (*from)--)
        if (ends_a_request(talk, *from - 1) &&
            tokens_get_numbers(run->tools->model.tokens, &run->caller, &digests[*from - 1], numbers,
                               NUMBERS))
            break;
    if (*from == 0)
        return ERR_OK;
    memcpy(&uses->at, numbers, sizeof(uses->at));
    for (size_t i = 0; i < *from; i++)
        if (talk->messages[i].role == ROLE_TOOL)
            add_use(talk, edit, i, uses);
    assert(uses->at.end <= uses->count);
    return clear_range(run, edit, uses, 0, uses->at.end);
}

static void remember(struct prepare_run *run, const struct hash256 *digest,
                     const struct progress *at)
{
    int32_t numbers[NUMBERS];

    memcpy(numbers, at, sizeof(numbers));
    tokens_put_numbers(run->tools->model.tokens, &run->caller, digest, numbers, NUMBERS);
}

static enum err find_steps(struct prepare_run *run, const struct gen_edit *edit, struct uses *uses)
{
    const struct conversation *talk = &run->request->conversation;
    struct hash256 *digests = arena_alloc_array(talk->arena, talk->count, sizeof(*digests));
    struct str tools;
    size_t from;

    uses->all = arena_alloc_array(talk->arena, talk->count, sizeof(*uses->all));
    if (digests == NULL || uses->all == NULL)
        return talk->arena->err;
    TRY(tools_text(run, &tools));
    TRY(digest_turns(run, edit, tools, digests));
    TRY(resume(run, edit, digests, uses, &from));
    if (from == 0)
        TRY(count_text(run, tools, &uses->at.sum));
    for (size_t i = from; i < talk->count; i++) {
        bool triggered = false;

        TRY(count_message(run, &talk->messages[i], &uses->at.sum));
        if (talk->messages[i].role == ROLE_TOOL)
            add_use(talk, edit, i, uses);
        if (!ends_a_request(talk, i))
            continue;
        TRY(is_triggered(run, edit, i, uses, &triggered));
        if (triggered)
            TRY(clear_step(run, edit, uses));
        remember(run, &digests[i], &uses->at);
    }
    return ERR_OK;
}

static enum err clear_tool_uses(struct prepare_run *run, struct gen_edit *edit, bool *changed)
{
    struct uses uses = {0};

    TRY(find_steps(run, edit, &uses));
    edit->cleared = uses.at.cleared;
    edit->cleared_tokens = uses.at.saved;
    *changed = edit->cleared > 0;
    return ERR_OK;
}

/* ---- thoughts ---- */

/* `made`: the prompt of the messages as they are exists already. */
static enum err clear_thinking(struct prepare_run *run, struct gen_edit *edit, bool *made)
{
    struct conversation *talk = &run->request->conversation;
    size_t turns = 0, end, before;

    for (size_t i = 0; i < talk->count; i++)
        turns += talk->messages[i].thought.ptr != NULL;
    end = turns > edit->keep ? (turns - edit->keep) / THINKING_STEP * THINKING_STEP : 0;
    if (end == 0)
        return ERR_OK;
    if (!*made)
        TRY(prepare_prompt(run, false));
    before = run->out->prompt.count;
    edit->cleared = (uint32_t)end;
    for (size_t i = 0; i < talk->count && end > 0; i++) {
        struct message *message = &talk->messages[i];

        if (message->thought.ptr == NULL)
            continue;
        message->thought = STR_NONE;
        message->thought_cleared = true;
        end--;
    }
    TRY(prepare_prompt(run, false));
    *made = true;
    edit->cleared_tokens = (uint32_t)(before - MIN(before, run->out->prompt.count));
    return ERR_OK;
}

/* ---- all edits ---- */

enum err prepare_edit(struct prepare_run *run)
{
    struct gen_request *request = run->request;
    size_t cleared = 0;
    bool made = false;

    for (size_t i = 0; i < request->edits_count; i++) {
        struct gen_edit *edit = &request->edits[i];
        bool changed = false;

        TRY(edit->kind == GEN_EDIT_THINKING ? clear_thinking(run, edit, &made)
                                            : clear_tool_uses(run, edit, &changed));
        made = made && !changed;
        cleared += edit->cleared_tokens;
    }
    if (made)
        TRY(prepare_check_length(run, run->out->text.text.len));
    else
        TRY(prepare_prompt(run, true));
    run->out->original = run->out->prompt.count + cleared;
    return ERR_OK;
}

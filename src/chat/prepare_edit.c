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
 * over the messages' texts, which may be a fifth too low, tell which turns cannot be above the
 * trigger and need not be rendered. A step that would clear less than clear_at_least, or without it
 * a sixteenth of the trigger, waits.
 *
 * Thoughts are cleared in steps of THINKING_STEP turns. Tokens that an edit has cleared are counted by
 * rendering the prompt before and after it.
 */
#include "chat/prepare_impl.h"

#include "base/json_write.h"

enum {
    MESSAGE_TOKENS = 4, /* around the text of a message, about */
    SUM_FACTOR = 2,     /* a prompt has at most so many tokens per token of its texts */
    STEP_PARTS = 16,
    THINKING_STEP = 8,
};

static const struct str placeholder = STR("[Old tool result cleared to save context]");

/* ---- sizes ---- */

static enum err count_text(struct prepare_run *run, struct str text, uint64_t *sum)
{
    struct token_prompt prompt = {0};

    if (text.len == 0)
        return ERR_OK;
    TRY(tokens_from_string(run->tools->model.tokens, &run->caller, text, 0, &prompt, &run->info));
    *sum += prompt.count;
    token_prompt_fini(&prompt);
    return ERR_OK;
}

static enum err count_content(struct prepare_run *run, const struct message *message, uint64_t *sum)
{
    for (size_t i = 0; i < message->parts_count; i++)
        TRY(count_text(run, message->parts[i].text, sum));
    return ERR_OK;
}

/* Thoughts are left out: many templates drop old ones. */
static enum err count_message(struct prepare_run *run, const struct message *message, uint64_t *sum)
{
    *sum += MESSAGE_TOKENS;
    for (size_t i = 0; i < message->calls_count; i++) {
        TRY(count_text(run, message->calls[i].name, sum));
        TRY(count_text(run, message->calls[i].arguments, sum));
    }
    return count_content(run, message, sum);
}

static enum err count_tools(struct prepare_run *run, uint64_t *sum)
{
    const struct conversation *talk = &run->request->conversation;
    struct buf text;
    struct json json = json_to(&text);

    buf_init(&text, run->request->arena.limit);
    for (size_t i = 0; i < talk->tools_shown; i++)
        tool_write(&json, &talk->tools[i]);
    enum err err = text.err != ERR_OK ? text.err : count_text(run, buf_text(&text), sum);
    buf_fini(&text);
    return err;
}

/* ---- tool uses ---- */

/* A result, and the call that it answers. */
struct use {
    size_t message;
    struct tool_call *call; /* NULL: none is known */
    uint64_t saves;         /* tokens */
    bool kept, cleared;     /* kept: it must stay */
};

struct uses {
    struct use *all;
    size_t count, cleared;
    uint64_t sum;          /* of the texts so far, in tokens */
    uint64_t size, sum_at; /* of a prompt that was counted, and the sum there */
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

static enum err add_use(struct prepare_run *run, const struct gen_edit *edit, size_t message,
                        struct uses *uses)
{
    const struct conversation *talk = &run->request->conversation;
    struct use *use = &uses->all[uses->count++];
    uint64_t after = 0;

    *use = (struct use){.message = message, .call = find_call(talk, message)};
    use->kept = use->call != NULL && is_in(edit->exclude, edit->exclude_count, use->call->name);
    TRY(count_content(run, &talk->messages[message], &use->saves));
    if (clears_input(edit, use))
        TRY(count_text(run, use->call->arguments, &use->saves));
    TRY(count_text(run, placeholder, &after));
    use->saves -= MIN(use->saves, after);
    return ERR_OK;
}

/* Tokens of the prompt that asked for an answer after this message. */
static enum err count_prompt_at(struct prepare_run *run, size_t message, uint64_t *tokens)
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
    *tokens = prompt.count;
    token_prompt_fini(&prompt);
    arena_release(talk->arena, mark);
    return err;
}

static enum err is_triggered(struct prepare_run *run, const struct gen_edit *edit, size_t message,
                             struct uses *uses, bool *triggered)
{
    *triggered = edit->by_uses ? uses->count - uses->cleared > edit->trigger
                               : uses->size > edit->trigger; /* a step waits */
    if (*triggered || edit->by_uses ||
        uses->size + SUM_FACTOR * (uses->sum - uses->sum_at) <= edit->trigger)
        return ERR_OK;
    TRY(count_prompt_at(run, message, &uses->size));
    uses->sum_at = uses->sum;
    *triggered = uses->size > edit->trigger;
    return ERR_OK;
}

static enum err clear(struct prepare_run *run, const struct gen_edit *edit, struct use *use)
{
    struct conversation *talk = &run->request->conversation;

    use->cleared = true;
    if (clears_input(edit, use))
        use->call->arguments = STR("{}");
    return message_set_text(&talk->messages[use->message], talk->arena, placeholder);
}

/* One step, if it clears enough. */
static enum err clear_step(struct prepare_run *run, const struct gen_edit *edit, struct uses *uses)
{
    size_t end = uses->count > edit->keep ? uses->count - edit->keep : 0, found = 0;
    uint64_t least = edit->clear_at_least, saves = 0;

    if (least == 0 && !edit->by_uses)
        least = edit->trigger / STEP_PARTS;
    for (size_t i = 0; i < end; i++) {
        const struct use *use = &uses->all[i];

        found += !use->kept && !use->cleared;
        saves += !use->kept && !use->cleared ? use->saves : 0;
    }
    if (found == 0 || saves < least)
        return ERR_OK;
    for (size_t i = 0; i < end; i++)
        if (!uses->all[i].kept && !uses->all[i].cleared)
            TRY(clear(run, edit, &uses->all[i]));
    uses->cleared += found;
    uses->size -= MIN(uses->size, saves);
    return ERR_OK;
}

/* The model was asked after this message. */
static bool ends_a_request(const struct conversation *talk, size_t message)
{
    enum role role = talk->messages[message].role;

    return (role == ROLE_USER || role == ROLE_TOOL) &&
           (message + 1 == talk->count || talk->messages[message + 1].role == ROLE_ASSISTANT);
}

static enum err find_steps(struct prepare_run *run, const struct gen_edit *edit, struct uses *uses)
{
    const struct conversation *talk = &run->request->conversation;

    uses->all = arena_alloc_array(talk->arena, talk->count, sizeof(*uses->all));
    if (uses->all == NULL)
        return talk->arena->err;
    TRY(count_tools(run, &uses->sum));
    for (size_t i = 0; i < talk->count; i++) {
        bool triggered = false;

        TRY(count_message(run, &talk->messages[i], &uses->sum));
        if (talk->messages[i].role == ROLE_TOOL)
            TRY(add_use(run, edit, i, uses));
        if (ends_a_request(talk, i))
            TRY(is_triggered(run, edit, i, uses, &triggered));
        if (triggered)
            TRY(clear_step(run, edit, uses));
    }
    return ERR_OK;
}

static enum err clear_tool_uses(struct prepare_run *run, struct gen_edit *edit, bool *changed)
{
    struct uses uses = {0};

    if (!edit->by_uses && run->out->original <= edit->trigger)
        return ERR_OK;
    TRY(find_steps(run, edit, &uses));
    edit->cleared = (uint32_t)uses.cleared;
    *changed = uses.cleared > 0;
    return ERR_OK;
}

/* ---- thoughts ---- */

static enum err clear_thinking(struct prepare_run *run, struct gen_edit *edit, bool *changed)
{
    struct conversation *talk = &run->request->conversation;
    size_t turns = 0, end;

    for (size_t i = 0; i < talk->count; i++)
        turns += talk->messages[i].thought.ptr != NULL;
    end = turns > edit->keep ? (turns - edit->keep) / THINKING_STEP * THINKING_STEP : 0;
    edit->cleared = (uint32_t)end;
    for (size_t i = 0; i < talk->count && end > 0; i++) {
        end -= talk->messages[i].thought.ptr != NULL;
        talk->messages[i].thought = STR_NONE;
        *changed = true;
    }
    return ERR_OK;
}

/* ---- all edits ---- */

static enum err count_prompt(struct prepare_run *run, size_t *tokens)
{
    TRY(prepare_render(run));
    TRY(prepare_tokens(run));
    *tokens = run->out->prompt.count;
    token_prompt_fini(&run->out->prompt);
    run->out->recalled = 0;
    return ERR_OK;
}

enum err prepare_edit(struct prepare_run *run)
{
    struct gen_request *request = run->request;
    size_t before, after;

    if (request->edits_count == 0)
        return ERR_OK;
    TRY(count_prompt(run, &run->out->original));
    before = run->out->original;
    for (size_t i = 0; i < request->edits_count; i++) {
        struct gen_edit *edit = &request->edits[i];
        bool changed = false;

        TRY(edit->kind == GEN_EDIT_THINKING ? clear_thinking(run, edit, &changed)
                                            : clear_tool_uses(run, edit, &changed));
        if (!changed)
            continue;
        TRY(count_prompt(run, &after));
        edit->cleared_tokens = (uint32_t)(before - MIN(before, after));
        before = after;
    }
    return ERR_OK;
}

/*
 * prepare_recall.c: the rendered text as tokens, with this server's own turns as they were sampled.
 *
 *      text      |------ TEXT ------|OPENING|== TOKENS ==|------ TEXT ------|
 *      runs      |--------- run 0 ----------|            |------ run 1 -----|
 *
 * Adjacent TEXT and OPENING segments form one run and go to the tokenizer as one text; verbatim
 * tokens separate the runs. The client's spans and the marks of the rendered text are mapped into
 * the runs; a mark inside a replaced turn is dropped.
 *
 * BOS belongs only at the start of the first run. The tokenizer adds one to every text if the model
 * requires it, so it is removed from the other runs.
 *
 * A failure of recall never fails the request: the text is then tokenized as rendered.
 */
#include "chat/prepare_impl.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

enum { TOKEN_TEXT_BYTES = 256 };

/* ---- where the assistant's messages are ---- */

/* Where each message of the conversation is rendered; SIZE_MAX where a mark is missing. */
static struct chat_span *spans_of_messages(const struct chat_text *text, size_t count,
                                           struct arena *arena)
{
    struct chat_span *spans = arena_alloc_array(arena, count, sizeof(*spans));

    for (size_t i = 0; spans != NULL && i < count; i++)
        spans[i] = (struct chat_span){SIZE_MAX, SIZE_MAX};
    for (size_t i = 0; spans != NULL && i < text->mark_count; i++) {
        const struct mark *mark = &text->marks[i];
        bool begin = mark->kind == MARK_MESSAGE_BEGIN, end = mark->kind == MARK_MESSAGE_END;

        assert(!(begin || end) || mark->message < count);
        if (begin && spans[mark->message].begin == SIZE_MAX)
            spans[mark->message].begin = mark->at;
        if (end && spans[mark->message].end == SIZE_MAX)
            spans[mark->message].end = mark->at;
    }
    return spans;
}

/* The number of messages up to the last one of a user. */
static size_t count_to_user(const struct conversation *talk)
{
    size_t i = talk->count;

    while (i > 0 && talk->messages[i - 1].role != ROLE_USER)
        i--;
    return i;
}

/* One place per assistant message with both ends known; a template may reorder messages or nest
 * them. A message to be continued is not finished and has none. One whose thought an edit cleared
 * has none either: as it was sampled it would have its thought. */
static enum err find_places(struct prepare_run *run, struct recall_place **out, size_t *count)
{
    const struct conversation *talk = &run->request->conversation;
    struct arena *arena = &run->request->arena;
    struct recall_place *places = arena_alloc_array(arena, talk->count, sizeof(*places));
    struct chat_span *spans = spans_of_messages(&run->out->text, talk->count, arena);
    size_t end = talk->count - run->request->continue_final, users = count_to_user(talk), at = 0;

    *count = 0;
    if (places == NULL || spans == NULL)
        return arena->err;
    for (size_t i = 0; i < end; i++) {
        const struct message *message = &talk->messages[i];

        if (message->role != ROLE_ASSISTANT || message->thought_cleared || spans[i].begin < at ||
            spans[i].begin > spans[i].end || spans[i].end > run->out->text.generation)
            continue;
        struct recall_place *place = &places[(*count)++];
        *place = (struct recall_place){
            .begin = spans[i].begin, .end = spans[i].end, .user_since = i < users};
        TRY(prepare_read_message(arena, message, &place->message));
        at = place->end;
    }
    *out = places;
    return ERR_OK;
}

/* ---- runs of text ---- */

/* A run to be tokenized; its arrays have room for all spans and marks of the whole text. */
struct text_run {
    struct chat_text text;
    char *bytes;
    size_t len;
    size_t tokens_room, marks_room; /* of the prompt */
    struct chat_span *spans;
    struct mark *marks;
    /* positions in the whole text's arrays: a mark goes to the first run that contains it, a span
     * may be split */
    size_t marks_taken, spans_passed;
};

static enum err run_bytes(struct text_run *run, struct arena *arena, struct str text)
{
    char *bytes = arena_grow(arena, run->bytes, run->len, run->len + text.len);

    if (!bytes)
        return arena->err;
    memcpy(bytes + run->len, text.ptr, text.len);
    run->bytes = bytes;
    run->len += text.len;
    return ERR_OK;
}

/* Spans and marks of the part [begin, end) of `whole`, which begins at `base` of the run. */
static void carry_over(struct text_run *run, const struct chat_text *whole,
                       const struct recall_segment *segment, size_t base)
{
    while (run->spans_passed < whole->span_count &&
           whole->spans[run->spans_passed].end <= segment->begin)
        run->spans_passed++;
    for (size_t i = run->spans_passed;
         i < whole->span_count && whole->spans[i].begin < segment->end; i++) {
        size_t begin = MAX(whole->spans[i].begin, segment->begin);
        size_t end = MIN(whole->spans[i].end, segment->end);

        if (begin < end)
            run->spans[run->text.span_count++] =
                (struct chat_span){begin - segment->begin + base, end - segment->begin + base};
    }
    for (size_t *i = &run->marks_taken; *i < whole->mark_count; (*i)++) {
        struct mark mark = whole->marks[*i];

        if (mark.at > segment->end)
            break;
        if (mark.at < segment->begin) /* inside a turn that was replaced */
            continue;
        mark.at = mark.at - segment->begin + base;
        run->marks[run->text.mark_count++] = mark;
    }
}

static void run_reset(struct text_run *run)
{
    run->bytes = NULL;
    run->len = 0;
    run->text.span_count = 0;
    run->text.mark_count = 0;
}

static bool drops_bos(const struct prepare_run *run, const struct chat_text *text,
                      const struct token_prompt *tokens)
{
    const struct engine_facts *facts = engine_facts(run->tools->model.engine);
    char bos[TOKEN_TEXT_BYTES];
    size_t len;

    if (!facts->add_bos || tokens->count == 0 || tokens->tokens[0] != facts->bos)
        return false;
    len = engine_token_bytes(run->tools->model.engine, facts->bos, true, bos, sizeof(bos));
    return len == 0 || len > sizeof(bos) || !str_starts(text->text, (struct str){bos, len});
}

/* ---- putting the prompt together ---- */

static enum err append_tokens(struct text_run *run, struct token_prompt *prompt,
                              const int32_t *tokens, size_t count)
{
    if (!mem_try_reserve(&prompt->tokens, prompt->count + count, &run->tokens_room,
                         sizeof(*tokens)))
        return ERR_NOMEM;
    if (count > 0)
        memcpy(prompt->tokens + prompt->count, tokens, count * sizeof(*tokens));
    prompt->count += count;
    return ERR_OK;
}

static enum err append_marks(struct text_run *run, struct token_prompt *prompt,
                             const struct token_prompt *part, size_t base, size_t dropped)
{
    if (!mem_try_reserve(&prompt->marks, prompt->mark_count + part->mark_count, &run->marks_room,
                         sizeof(*part->marks)))
        return ERR_NOMEM;
    for (size_t i = 0; i < part->mark_count; i++) {
        struct mark mark = part->marks[i];

        mark.at = mark.at > dropped ? mark.at - dropped + base : base;
        prompt->marks[prompt->mark_count++] = mark;
    }
    return ERR_OK;
}

/* Tokenizes a run and appends it. */
static enum err flush(struct prepare_run *prepare, struct text_run *run,
                      struct token_prompt *prompt)
{
    struct token_prompt part = {0};
    size_t base = prompt->count, dropped;
    enum err err;

    if (run->len == 0) {
        run_reset(run); /* a mark between two verbatim turns: there is no text to cut */
        return ERR_OK;
    }
    run->text.text = (struct str){run->bytes, run->len};
    run->text.spans = run->spans;
    run->text.marks = run->marks;
    run->text.generation = run->len;
    run->text.pictures = prepare->out->text.pictures;
    run->text.picture_count = prepare->out->text.picture_count;
    TRY(tokens_from_text(prepare->tools->model.tokens, &prepare->caller, &run->text, &part,
                         &prepare->info));
    dropped = base > 0 && drops_bos(prepare, &run->text, &part) ? 1 : 0;
    err = append_tokens(run, prompt, part.tokens + dropped, part.count - dropped);
    if (err == ERR_OK)
        err = append_marks(run, prompt, &part, base, dropped);
    prompt->memo_tokens += part.memo_tokens;
    token_prompt_fini(&part);
    run_reset(run);
    return err;
}

static enum err append_segment(struct prepare_run *prepare, struct text_run *run,
                               const struct recall_segment *segment, struct token_prompt *prompt)
{
    size_t base = run->len;

    if (segment->type == RECALL_TOKENS) {
        TRY(flush(prepare, run, prompt));
        return append_tokens(run, prompt, segment->tokens, segment->tokens_count);
    }
    TRY(run_bytes(run, &prepare->request->arena, segment->text));
    if (segment->type == RECALL_TEXT)
        carry_over(run, &prepare->out->text, segment, base);
    return ERR_OK;
}

static enum err compose(struct prepare_run *prepare, const struct recall_plan *plan,
                        struct token_prompt *prompt)
{
    struct arena *arena = &prepare->request->arena;
    const struct chat_text *whole = &prepare->out->text;
    struct text_run run = {0};

    /* A replaced turn may split a span: at most two more pieces per segment. */
    run.spans =
        arena_alloc_array(arena, whole->span_count + 2 * plan->segments_count, sizeof(*run.spans));
    run.marks = arena_alloc_array(arena, whole->mark_count, sizeof(*run.marks));
    if (!run.spans || !run.marks)
        return arena->err;
    for (size_t i = 0; i < plan->segments_count; i++)
        TRY(append_segment(prepare, &run, &plan->segments[i], prompt));
    return flush(prepare, &run, prompt);
}

/* The end marker that the template writes after an assistant's message: the text of one of the
 * end-of-turn tokens. Needed where the turn has no such token because it was cut off by its length
 * limit. */
static struct str turn_end(const struct prepare_run *run, const struct recall_prompt *prompt,
                           char *out, size_t size)
{
    const struct engine_facts *facts = engine_facts(run->tools->model.engine);
    const token_id candidates[] = {facts->eot, facts->eos};

    for (size_t i = 0; i < COUNT_OF(candidates) && prompt->places_count > 0; i++) {
        const struct recall_place *place = &prompt->places[0];
        struct str rendered = {prompt->text.ptr + place->begin, place->end - place->begin};
        size_t len = candidates[i] < 0 ? 0
                                       : engine_token_bytes(run->tools->model.engine, candidates[i],
                                                            true, out, size);

        if (len > 0 && len <= size && str_ends(str_trim(rendered), (struct str){out, len}))
            return (struct str){out, len};
    }
    return STR_NONE;
}

static enum err make_plan(struct prepare_run *run, struct recall_plan *plan)
{
    char end[TOKEN_TEXT_BYTES];
    struct recall_prompt prompt = {
        .space = run->out->space,
        .text = run->out->text.text,
        .opening_begin = run->out->text.generation,
        .keep = run->tools->recall_keep,
        .wait_ns = run->tools->store_wait_ns,
    };
    struct recall_place *places = NULL;

    TRY(find_places(run, &places, &prompt.places_count));
    prompt.places = places;
    prompt.end = turn_end(run, &prompt, end, sizeof(end));
    return recall_apply(run->tools->recall, &prompt, plan);
}

enum err prepare_tokens(struct prepare_run *run)
{
    struct tokens *tokens = run->tools->model.tokens;
    struct recall_plan plan = {0};
    enum err err;

    if (run->tools->recall && make_plan(run, &plan) == ERR_OK) {
        run->out->history = plan.history;
        run->out->history_known = true;
        run->out->recalled = plan.hits;
    }
    if (plan.hits > 0)
        err = compose(run, &plan, &run->out->prompt);
    else
        err =
            tokens_from_text(tokens, &run->caller, &run->out->text, &run->out->prompt, &run->info);
    recall_plan_fini(&plan);
    return err;
}

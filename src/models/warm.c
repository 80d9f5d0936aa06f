/*
 * warm.c: see the header. The prompt is rendered by the template that requests will use, so a
 * warm-up cannot use a wrong one.
 */
#include "models/warm.h"

#include "base/arena.h"
#include "base/lock.h"
#include "base/mem.h"

enum { ARENA_BYTES_MAX = 16 << 20 };

struct warm_run {
    struct lock lock;
    struct cond over;
    bool done GUARDED_BY(lock);
    struct errinfo info GUARDED_BY(lock);
};

/* ---- the prompt ---- */

static enum err render(struct model *model, struct arena *arena, struct token_prompt *prompt,
                       struct errinfo *info)
{
    struct part hello = {PART_TEXT, STR("Hello")};
    const struct message message = {
        .role = ROLE_USER, .form = CONTENT_TEXT, .parts = &hello, .parts_count = 1};
    const struct chat_request request = {
        .messages = &message, .messages_count = 1, .add_generation_prompt = true};
    struct chat_text text;

    TRY(chat_template_render(model_template(model), &request, arena, &text, info));
    return tokens_from_text(model_tokens(model), NULL, &text, prompt, info);
}

static enum err make_prompt(struct model *model, struct token_prompt *prompt, struct errinfo *info)
{
    struct arena arena;

    arena_init(&arena, ARENA_BYTES_MAX);
    enum err err = render(model, &arena, prompt, info);
    arena_fini(&arena);
    return err;
}

/* ---- the run ---- */

static bool on_token(void *arg, const struct gen_token *token)
{
    (void)arg;
    (void)token;
    return true;
}

/* On the scheduler's thread. */
static void on_done(void *arg, const struct gen_result *result)
{
    struct warm_run *run = arg;

    lock_enter(&run->lock);
    run->done = true;
    if (result->end == GEN_END_ERROR)
        run->info = result->info;
    else if (result->end == GEN_END_CANCELLED)
        err_set(&run->info, ERR_CANCELLED, "cancelled");
    cond_broadcast(&run->over);
    lock_leave(&run->lock);
}

static enum err run_prompt(struct model *model, const struct token_prompt *prompt,
                           struct errinfo *info)
{
    struct warm_run run = {0};
    struct gen gen = {
        .tenant = "",
        .tokens = prompt->tokens,
        .tokens_count = (uint32_t)prompt->count,
        .max_tokens = 1,
        .sample = sample_params_default(),
        .cache = {.no_read = true, .no_write = true},
        .sink = {.token = on_token, .done = on_done, .arg = &run},
    };

    lock_init(&run.lock, "warm", LOCK_RANK_MODELS);
    cond_init(&run.over);
    enum err err = sched_submit(model_sched(model), &gen, info);
    lock_enter(&run.lock);
    while (err == ERR_OK && !run.done)
        cond_wait(&run.over, &run.lock);
    lock_leave(&run.lock);
    if (err == ERR_OK && run.info.code != ERR_OK)
        err = err_set(info, run.info.code, "%s", run.info.text);
    cond_fini(&run.over);
    lock_fini(&run.lock);
    return err;
}

enum err model_warm(struct model *model, uint32_t *tokens, struct errinfo *info)
{
    struct token_prompt prompt = {0};

    TRY(make_prompt(model, &prompt, info));
    if (tokens != NULL)
        *tokens = (uint32_t)prompt.count;
    enum err err = run_prompt(model, &prompt, info);
    token_prompt_fini(&prompt);
    return err;
}

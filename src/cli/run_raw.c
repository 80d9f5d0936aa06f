/*
 * run_raw.c: `hearth run --raw FILE PROMPT`: loads a model, continues the text, prints as it comes,
 * then one line of figures.
 *
 * The smallest user of the engine: one sequence, no cache, no template. Ctrl-C ends the answer; the
 * figures are still printed.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/progress.h"
#include "cli/cli.h"
#include "cli/run.h"
#include "output/detok.h"
#include "engine/sample.h"
#include "engine/schedule.h"

enum { PIECE_BYTES_MAX = 4096, RAW_TOKENS = 128 };

/* One answer being generated. */
struct answer {
    struct cli *cli;
    const struct run_options *options;
    struct engine *engine;
    struct sampler *sampler;
    token_id *prompt;
    size_t prompt_count;
    uint32_t room; /* tokens that the sequence can have */
    seq_id seq;
    uint64_t generated;
    uint64_t started_ns, first_ns, ended_ns;
};

static enum err tokenize(struct answer *answer, const char *text, struct errinfo *info)
{
    size_t max = strlen(text) + 8;

    answer->prompt = mem_try_alloc_array(max, sizeof(*answer->prompt));
    if (answer->prompt == NULL)
        return err_set(info, ERR_NOMEM, "no memory for a prompt of %zu bytes", strlen(text));
    TRY(engine_tokenize(answer->engine, str_from(text),
                        ENGINE_TOKENIZE_BOS | ENGINE_TOKENIZE_CONTROL, answer->prompt, max,
                        &answer->prompt_count, info));
    if (answer->prompt_count == 0)
        return err_set(info, ERR_INVALID, "the prompt is empty");
    answer->room = engine_cells_free(answer->engine); /* not all of the context with --kv-streams */
    if (answer->prompt_count >= answer->room)
        return err_set(
            info, ERR_LIMIT,
            "the prompt has %zu tokens but the context has only %u: use a larger --ctx-size",
            answer->prompt_count, answer->room);
    return ERR_OK;
}

static enum err make_sampler(struct answer *answer, struct errinfo *info)
{
    const struct run_options *options = answer->options;
    struct sample_params params = sample_params_default();

    params.temperature = (float)options->temperature;
    params.top_k = (int32_t)options->top_k;
    params.top_p = (float)options->top_p;
    params.min_p = (float)options->min_p;
    params.seed = options->seed < 0 ? SAMPLE_SEED_RANDOM : (uint64_t)options->seed;
    params.ignore_end = options->ignore_end;
    return sampler_create(&answer->sampler, answer->engine, &params, info);
}

static enum err prefill(struct answer *answer, struct errinfo *info)
{
    const struct schedule schedule = {.count = (uint32_t)answer->prompt_count,
                                      .grid = engine_facts(answer->engine)->chunk};
    struct progress *bar = cli_progress(answer->cli, "prefill", PROGRESS_UNIT_TOKENS);
    enum err err = ERR_OK;

    for (uint32_t at = 0; at < schedule.count && err == ERR_OK && !cli_interrupted;) {
        uint32_t end = schedule_next(&schedule, at);
        struct engine_item item = {answer->seq, answer->prompt + at, end - at,
                                   end == schedule.count};
        err = engine_run(answer->engine, &item, 1, info);
        at = end;
        progress_update(bar, at, schedule.count);
    }
    progress_finish(&bar, err == ERR_OK);
    if (err == ERR_OK && cli_interrupted)
        err = err_set(info, ERR_CANCELLED, "interrupted");
    return err;
}

static void print_piece(struct answer *answer, struct buf *piece)
{
    cli_put_text(answer->cli, piece);
    fflush(answer->cli->out);
    buf_clear(piece);
}

static uint64_t tokens_max(const struct answer *answer)
{
    return cli_is_set(answer->cli, "predict") ? answer->options->tokens : RAW_TOKENS;
}

static enum err generate(struct answer *answer, struct buf *piece, struct errinfo *info)
{
    struct engine *engine = answer->engine;
    struct detok detok;
    struct sample_pick pick;

    detok_init(&detok, engine, false);
    /* An answer that can no longer be written is not worth computing. */
    while (answer->generated < tokens_max(answer) && !cli_interrupted &&
           !ferror(answer->cli->out)) {
        TRY(sampler_pick(answer->sampler, 0, &pick, info));
        if (answer->generated == 0)
            answer->first_ns = clock_mono_ns(answer->cli->setup->clock);
        if (engine_token_is_end(engine, pick.token) && !answer->options->ignore_end)
            break;
        answer->generated++;
        TRY(detok_push(&detok, pick.token, piece));
        print_piece(answer, piece);
        if (engine_seq_length(engine, answer->seq) == answer->room)
            break;
        struct engine_item item = {answer->seq, &pick.token, 1, true};
        TRY(engine_run(engine, &item, 1, info));
    }
    TRY(detok_finish(&detok, piece));
    print_piece(answer, piece);
    return ERR_OK;
}

static enum err answer_prompt(struct answer *answer, const char *text, struct errinfo *info)
{
    struct clock *clock = answer->cli->setup->clock;
    struct buf piece;

    TRY(tokenize(answer, text, info));
    TRY(make_sampler(answer, info));
    TRY(engine_seq_acquire(answer->engine, &answer->seq, info));
    answer->started_ns = clock_mono_ns(clock);
    TRY(prefill(answer, info));
    answer->first_ns = clock_mono_ns(clock); /* in case no token follows */
    buf_init(&piece, PIECE_BYTES_MAX);
    enum err err = generate(answer, &piece, info);
    buf_fini(&piece);
    answer->ended_ns = clock_mono_ns(clock);
    fputc('\n', answer->cli->out);
    return err;
}

static double seconds(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / (double)NS_PER_S : 1e-9;
}

static void print_figures(const struct answer *answer, double load_s)
{
    double prompt_s = seconds(answer->started_ns, answer->first_ns);
    double answer_s = seconds(answer->first_ns, answer->ended_ns);

    fflush(answer->cli->out);
    fprintf(answer->cli->err,
            "loaded in %.2f s | prompt %zu tokens, %.0f tok/s | ttft %.2f s | %llu tokens, %.1f "
            "tok/s | seed %u | %s\n",
            load_s, answer->prompt_count, (double)answer->prompt_count / prompt_s, prompt_s,
            (unsigned long long)answer->generated, (double)answer->generated / answer_s,
            sampler_seed(answer->sampler), engine_facts(answer->engine)->backend);
}

enum cli_exit run_raw(struct cli *cli, const struct run_options *settings)
{
    struct answer answer = {.cli = cli, .options = settings, .seq = SEQ_NONE};
    struct errinfo info = {0};
    double load_s;

    enum cli_exit status =
        cli_load_model(cli, &settings->model, cli->args[0], &answer.engine, &load_s);
    if (status != CLI_EXIT_OK)
        return status;
    /* A second one kills. SA_RESTART: a write that waits for a slow reader must not fail. */
    struct sigaction old = cli_catch(SIGINT, SA_RESETHAND | SA_RESTART);
    enum err err = answer_prompt(&answer, cli->args[1], &info);
    sigaction(SIGINT, &old, NULL);
    if (err == ERR_OK)
        print_figures(&answer, load_s);
    else
        cli_error(cli, "%s", info.text);
    engine_seq_release(answer.engine, &answer.seq);
    sampler_destroy(&answer.sampler);
    engine_close(&answer.engine);
    mem_free(answer.prompt);
    return err == ERR_OK ? CLI_EXIT_OK : CLI_EXIT_FAILURE;
}

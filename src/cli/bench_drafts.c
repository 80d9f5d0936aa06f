/*
 * bench_drafts.c: `hearth bench drafts`: answers with and without drafts. Two servers with the same
 * model, one of them with `--drafts off`, get the same requests in turn, in one run. A row has the
 * time from token to token, the median of all rounds.
 *
 *      nothing      a prompt that was never seen: there is nothing to guess from but the answer
 *      regenerate   the same prompt again
 *      branch       the same prompt again after the conversation went on
 *      edit         the same prompt again, and a grammar that forces the answer to be the earlier
 *                   text with some words replaced
 *      streams      eight clients regenerate at the same time
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/mem.h"
#include "cli/bench.h"
#include "lab/spread.h"

enum { SIDES = 2, STREAMS = 8, PROMPT_BYTES = 800, EDIT_BYTES = 600, ROUNDS_MAX = 100 };

static const struct sheet_column columns[] = {
    {"shape", "shape", SHEET_TEXT},
    {"plain_ms", "ms per token", 2},
    {"drafts_ms", "with drafts", 2},
    {"ratio", "ratio", 2},
};

struct side {
    struct bench *bench;
    struct server server;
    uint64_t seed; /* of the round and the shape */
};

/* ---- asking ---- */

/* Asks; *ms is the time per token after the first. */
static bool say(const struct side *side, const struct ask_message *messages, size_t count,
                const char *grammar, struct buf *text, double *ms)
{
    const struct bench_options *options = side->bench->options;
    const struct ask ask = {.url = &side->server.url,
                            .messages = messages,
                            .messages_count = count,
                            .max_tokens = grammar != NULL ? EDIT_BYTES : (uint32_t)options->tokens,
                            .timeout_ms = options->timeout_ns / NS_PER_MS,
                            .grammar = grammar,
                            .plain = grammar != NULL};
    struct errinfo info = {0};
    struct ask_result result;
    bool good = ask_run(&ask, &result, &info) == ERR_OK && result.status == 200 &&
                result.error[0] == '\0' && result.generated > 1;

    if (good)
        *ms = (result.total_ms - result.ttft_ms) / (double)(result.generated - 1);
    if (text != NULL)
        buf_append(text, buf_str(&result.text), result.text.len);
    if (!good)
        bench_fail(side->bench, "no answer: %s%s", info.text, result.error);
    ask_result_fini(&result);
    return good;
}

static struct buf words(size_t bytes, uint64_t seed)
{
    struct buf text;

    buf_init(&text, 1 << 20);
    words_append(&text, bytes, seed);
    return text;
}

static bool regenerate_from(const struct side *side, uint64_t seed, double *ms)
{
    struct buf prompt = words(PROMPT_BYTES, seed);
    const struct ask_message message = {"user", buf_str(&prompt)};
    bool good = say(side, &message, 1, NULL, NULL, ms) && say(side, &message, 1, NULL, NULL, ms);

    buf_fini(&prompt);
    return good;
}

/* ---- shapes ---- */

static bool nothing(const struct side *side, double *ms)
{
    struct buf prompt = words(PROMPT_BYTES, side->seed);
    const struct ask_message message = {"user", buf_str(&prompt)};
    bool good = say(side, &message, 1, NULL, NULL, ms);

    buf_fini(&prompt);
    return good;
}

static bool regenerate(const struct side *side, double *ms)
{
    return regenerate_from(side, side->seed, ms);
}

static bool branch(const struct side *side, double *ms)
{
    struct buf prompt = words(PROMPT_BYTES, side->seed), answer;

    buf_init(&answer, 1 << 20);
    bool good = say(side, &(struct ask_message){"user", buf_str(&prompt)}, 1, NULL, &answer, ms);
    const struct ask_message messages[] = {
        {"user", buf_str(&prompt)}, {"assistant", buf_str(&answer)}, {"user", "and then"}};
    good = good && say(side, messages, COUNT_OF(messages), NULL, NULL, ms) &&
           say(side, messages, 1, NULL, NULL, ms);
    buf_fini(&prompt);
    buf_fini(&answer);
    return good;
}

/* Every twentieth word is replaced: letters become 'e'. */
static void edit_words(struct buf *text)
{
    size_t word = 0;

    for (size_t i = 0; i < text->len; i++) {
        word += text->data[i] == ' ';
        if (word % 20 == 19 && text->data[i] != ' ')
            text->data[i] = 'e';
    }
}

static bool edit(const struct side *side, double *ms)
{
    struct buf prompt = words(PROMPT_BYTES, side->seed), text = words(EDIT_BYTES, side->seed + 1);
    const struct ask_message message = {"user", buf_str(&prompt)};
    bool good = true;

    for (int pass = 0; pass < 2 && good; pass++) {
        struct buf grammar;
        buf_init(&grammar, 1 << 20);
        buf_appendf(&grammar, "root ::= \"%s\"", buf_str(&text));
        good = say(side, &message, 1, buf_str(&grammar), NULL, ms);
        edit_words(&text);
        buf_fini(&grammar);
    }
    buf_fini(&prompt);
    buf_fini(&text);
    return good;
}

struct stream {
    const struct side *side;
    uint64_t seed;
    bool good;
    double ms;
};

static void run_stream(void *arg)
{
    struct stream *stream = arg;

    stream->good = regenerate_from(stream->side, stream->seed, &stream->ms);
}

static bool streams(const struct side *side, double *ms)
{
    struct stream list[STREAMS];
    struct thread threads[STREAMS] = {0};
    bool good = true;

    for (uint64_t i = 0; i < STREAMS; i++) {
        list[i] = (struct stream){.side = side, .seed = side->seed + i};
        if (thread_start(&threads[i], "client", run_stream, &list[i], NULL) != ERR_OK)
            good = bench_fail(side->bench, "cannot start a thread");
    }
    *ms = 0;
    for (size_t i = 0; i < STREAMS; i++) {
        thread_join(&threads[i]);
        good = good && list[i].good;
        *ms += list[i].ms / STREAMS;
    }
    return good;
}

static const struct {
    const char *name;
    bool (*run)(const struct side *side, double *ms);
} shapes[] = {{"nothing", nothing},
              {"regenerate", regenerate},
              {"branch", branch},
              {"edit", edit},
              {"streams", streams}};

/* ---- the whole run ---- */

static bool start(struct side *sides, struct bench *bench)
{
    static const char *const how[SIDES] = {"off", "auto"};
    const char *model = bench_model(bench, bench->options->model);

    for (int i = 0; i < SIDES && model != NULL; i++) {
        char state[SERVER_PATH_BYTES + 16], name[16];
        const char *more[] = {"--state-dir", state, "--ssd-dir", "none", "--drafts", how[i], NULL};
        struct server_setup setup = bench_setup(bench, model, 16384);
        struct errinfo info = {0};
        snprintf(state, sizeof(state), "%s/%s", bench->scratch, how[i]);
        snprintf(name, sizeof(name), "drafts-%s", how[i]);
        setup.parallel = STREAMS;
        setup.more = more;
        setup.name = name;
        sides[i].bench = bench;
        if (server_start_hearth(&sides[i].server, &setup, &info) != ERR_OK)
            return bench_fail(bench, "%s", info.text);
    }
    if (model != NULL)
        sheet_note(bench->sheet, "model %s, %u threads, %u tokens, temperature 0",
                   file_base_name(model), sides[0].server.setup.threads,
                   (unsigned)bench->options->tokens);
    return model != NULL;
}

static void run_shape(struct side *sides, size_t shape, uint64_t rounds)
{
    double ms[SIDES][ROUNDS_MAX];

    for (uint64_t round = 0; round < rounds; round++)
        for (int i = 0; i < SIDES; i++) {
            sides[i].seed = 1 + 1000 * (shape * ROUNDS_MAX + round);
            if (!shapes[shape].run(&sides[i], &ms[i][round]))
                return;
        }
    double plain = spread_of(ms[0], rounds).p50, drafts = spread_of(ms[1], rounds).p50;
    struct sheet *sheet = sides[0].bench->sheet;
    sheet_text(sheet, shapes[shape].name);
    sheet_number(sheet, plain);
    sheet_number(sheet, drafts);
    sheet_number(sheet, drafts > 0 ? plain / drafts : 0);
    bench_step(sides[0].bench);
}

static enum cli_exit run(struct bench *bench)
{
    struct side sides[SIDES] = {{0}};
    uint64_t rounds = MIN(bench->options->rounds, ROUNDS_MAX);
    double ms;

    if (start(sides, bench)) {
        bench_expect(bench, "asking", COUNT_OF(shapes));
        for (int i = 0; i < SIDES; i++) /* teaches the costs of widths */
            (void)!regenerate_from(&sides[i], UINT64_MAX, &ms);
        for (size_t i = 0; i < COUNT_OF(shapes) && !bench->failed; i++)
            run_shape(sides, i, rounds);
    }
    for (int i = 0; i < SIDES; i++)
        server_kill(&sides[i].server);
    return CLI_EXIT_OK;
}

const struct bench_kind bench_drafts = {
    .name = "drafts",
    .columns = columns,
    .columns_count = COUNT_OF(columns),
    .plot = {.title = "milliseconds per token",
             .labels = {"shape"},
             .values = {"plain_ms", "drafts_ms"}},
    .run = run,
};

/*
 * bench_drafts.c: `hearth bench drafts`: answers with and without drafts. Servers with the same
 * model get the same requests in turn, in one run: hearth with `--drafts off`, hearth with drafts,
 * and llama-server with its own n-gram drafts, if there is one.
 *
 *      nothing      a prompt that was never seen: there is nothing to guess from but the answer
 *      regenerate   the same prompt again
 *      branch       the same prompt again after the conversation went on
 *      edit         a text in the prompt comes again with changes. A grammar that names each token
 *                   forces the answer, so that any model gives it
 *      streams      eight clients with an edit each, at the same time
 *
 * A row has the time from token to token, the median of all rounds. Ratios are taken round by
 * round, since other programs slow down both sides of a round; that of processor time, without
 * prefill, is independent of them. `tokens per run` is what drafts could gain if a wide batch took as long as a
 * single token: it does not depend on the machine.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <yyjson.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/mem.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include "engine/backend.h"
#include "engine/engine.h"
#include "lab/bench_process.h"
#include "lab/spread.h"

enum {
    PLAIN,
    DRAFTS,
    LLAMA,
    SIDES,
    STREAMS = 8,
    CONTEXT = 32768,
    PROMPT_BYTES = 800,
    CASE_BYTES_MIN = 200, /* shorter answers are left out */
    CASE_PROMPT_BYTES_MAX = 6000,
    ANSWERS_BYTES_MAX = 256 << 20,
    ROUNDS_MAX = 1000,
};

static const struct sheet_column columns[] = {
    {"shape", "shape", SHEET_TEXT},
    {"plain_ms", "ms per token", 2},
    {"drafts_ms", "with drafts", 2},
    {"ratio", "ratio", 2},
    {"noise", "+- %", 1},
    {"cpu_ratio", "cpu ratio", 3},
    {"cpu_noise", "+- %", 1},
    {"run_tokens", "tokens per run", 1},
    {"llama_ms", "llama-server ms", 2},
    {"llama_ratio", "llama / drafts", 2},
};

/* Recorded prompts with their answers. */
struct cases {
    struct {
        struct buf prompt, answer;
    } * list;
    size_t count, cap;
};

struct side {
    struct bench *bench;
    const struct cases *cases;
    struct server server;
    uint64_t seed; /* of the round and the shape */
};

/* What one shape measured on one side: of the last request of each stream. */
struct outcome {
    double ms, cpu_ms;       /* per token */
    double tokens, accepted; /* of all rounds */
};

/* ---- asking ---- */

struct question {
    const struct ask_message *messages;
    size_t count;
    const char *grammar; /* NULL: none */
    uint32_t tokens;
    struct buf *text; /* NULL: the answer is not needed */
};

/* Asks; *out has the time per token after the first. */
static bool say(const struct side *side, const struct question *question, struct outcome *out)
{
    const struct ask ask = {.url = &side->server.url,
                            .messages = question->messages,
                            .messages_count = question->count,
                            .max_tokens = question->tokens,
                            .timeout_ms = side->bench->options->timeout_ns / NS_PER_MS,
                            .grammar = question->grammar,
                            .plain = question->grammar != NULL};
    struct errinfo info = {0};
    struct ask_result result;
    double cpu_s = process_cpu_s(side->server.process);
    bool good = ask_run(&ask, &result, &info) == ERR_OK && result.status == 200 &&
                result.error[0] == '\0' && result.generated >= MIN(question->tokens, 2);

    if (good && out != NULL) {
        double tokens = (double)result.generated;
        out->ms = (result.total_ms - result.ttft_ms) / (tokens - 1);
        out->cpu_ms = (process_cpu_s(side->server.process) - cpu_s) * 1000 / tokens;
        out->tokens = tokens;
        out->accepted = (double)MAX(result.accepted, 0);
    }
    if (question->text != NULL)
        buf_append(question->text, buf_str(&result.text), result.text.len);
    if (!good)
        bench_fail(side->bench, "no answer: %s%s", info.text, result.error);
    ask_result_fini(&result);
    return good;
}

/* One token: the prompt is cached then, so that only decoding is measured. */
static bool prepare(const struct side *side, const struct ask_message *messages, size_t count)
{
    return say(side, &(struct question){messages, count, NULL, 1, NULL}, NULL);
}

static bool chat(const struct side *side, const struct ask_message *messages, size_t count,
                 struct buf *text, struct outcome *out)
{
    return say(
        side,
        &(struct question){messages, count, NULL, (uint32_t)side->bench->options->tokens, text},
        out);
}

static struct buf words(size_t bytes, uint64_t seed)
{
    struct buf text;

    buf_init(&text, 1 << 20);
    words_append(&text, bytes, seed);
    return text;
}

/* ---- shapes ---- */

static bool nothing(const struct side *side, struct outcome *out)
{
    struct buf prompt = words(PROMPT_BYTES, side->seed);
    const struct ask_message message = {"user", buf_str(&prompt)};
    bool good = prepare(side, &message, 1) && chat(side, &message, 1, NULL, out);

    buf_fini(&prompt);
    return good;
}

static bool regenerate(const struct side *side, struct outcome *out)
{
    return nothing(side, out) && nothing(side, out);
}

static bool branch(const struct side *side, struct outcome *out)
{
    struct buf prompt = words(PROMPT_BYTES, side->seed), answer;

    buf_init(&answer, 1 << 20);
    bool good = chat(side, &(struct ask_message){"user", buf_str(&prompt)}, 1, &answer, out);
    const struct ask_message messages[] = {
        {"user", buf_str(&prompt)}, {"assistant", buf_str(&answer)}, {"user", "and then"}};
    good = good && chat(side, messages, COUNT_OF(messages), NULL, out) &&
           chat(side, messages, 1, NULL, out);
    buf_fini(&prompt);
    buf_fini(&answer);
    return good;
}

/* ---- edits ---- */

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

/* A grammar that allows these tokens only. */
static void name_tokens(const struct tokens *tokens, size_t count, struct buf *grammar)
{
    buf_append_str(grammar, "root ::=");
    for (size_t i = 0; i < count; i++)
        buf_appendf(grammar, " <[%u]>", tokens->ids[i]);
}

/* Forces the answer to a prompt, as far as `--answer-tokens` allows: four times as many as those of
 * other shapes. */
static bool force(const struct side *side, const char *prompt, const char *answer,
                  struct outcome *out)
{
    const struct ask_message message = {"user", prompt};
    struct errinfo info = {0};
    struct tokens tokens;
    struct buf grammar;

    buf_init(&grammar, 1 << 20);
    bool good = tokens_of(&side->server.url, answer, &tokens, &info) == ERR_OK;
    if (good) {
        size_t count = MIN(tokens.count, 4 * side->bench->options->tokens);
        name_tokens(&tokens, count, &grammar);
        const struct question question = {&message, 1, buf_str(&grammar), (uint32_t)count, NULL};
        good = prepare(side, &message, 1) && say(side, &question, out);
    } else {
        bench_fail(side->bench, "no tokens: %s", info.text);
    }
    tokens_fini(&tokens);
    buf_fini(&grammar);
    return good;
}

static bool edit(const struct side *side, struct outcome *out)
{
    const struct cases *cases = side->cases;

    if (cases->count > 0) {
        size_t i = (size_t)(side->seed % cases->count);
        return force(side, buf_str(&cases->list[i].prompt), buf_str(&cases->list[i].answer), out);
    }
    struct buf prompt = words(PROMPT_BYTES, side->seed), answer = words(PROMPT_BYTES, side->seed);
    edit_words(&answer);
    bool good = force(side, buf_str(&prompt), buf_str(&answer), out);
    buf_fini(&prompt);
    buf_fini(&answer);
    return good;
}

struct stream {
    struct side side;
    bool good;
    struct outcome out;
};

static void run_stream(void *arg)
{
    struct stream *stream = arg;

    stream->good = edit(&stream->side, &stream->out);
}

static bool streams(const struct side *side, struct outcome *out)
{
    struct stream list[STREAMS];
    struct thread threads[STREAMS] = {0};
    double cpu_s = process_cpu_s(side->server.process);
    bool good = true;

    for (uint64_t i = 0; i < STREAMS; i++) {
        list[i] = (struct stream){.side = *side};
        list[i].side.seed += i;
        if (thread_start(&threads[i], "client", run_stream, &list[i], NULL) != ERR_OK)
            good = bench_fail(side->bench, "cannot start a thread");
    }
    *out = (struct outcome){0};
    for (size_t i = 0; i < STREAMS; i++) {
        thread_join(&threads[i]);
        good = good && list[i].good;
        out->ms += list[i].out.ms / STREAMS;
        out->tokens += list[i].out.tokens;
        out->accepted += list[i].out.accepted;
    }
    out->cpu_ms = (process_cpu_s(side->server.process) - cpu_s) * 1000 / MAX(out->tokens, 1);
    return good;
}

static const struct {
    const char *name;
    bool (*run)(const struct side *side, struct outcome *out);
} shapes[] = {{"nothing", nothing},
              {"regenerate", regenerate},
              {"branch", branch},
              {"edit", edit},
              {"streams", streams}};

/* ---- recorded answers ---- */

/* The end of a long prompt. */
static struct str end_of(struct str text)
{
    size_t cut = text.len - MIN(text.len, CASE_PROMPT_BYTES_MAX);

    while (cut < text.len && ((unsigned char)text.ptr[cut] & 0xC0) == 0x80)
        cut++;
    return (struct str){text.ptr + cut, text.len - cut};
}

static struct str text_of(yyjson_val *object, const char *name)
{
    yyjson_val *value = yyjson_obj_get(object, name);

    return yyjson_is_str(value) ? (struct str){yyjson_get_str(value), yyjson_get_len(value)}
                                : STR_NONE;
}

static void add_case(struct cases *cases, yyjson_val *line)
{
    struct str prompt = text_of(line, "input"), answer = text_of(line, "output");

    if (prompt.len == 0 || answer.len < CASE_BYTES_MIN ||
        !mem_try_reserve(&cases->list, cases->count + 1, &cases->cap, sizeof(*cases->list)))
        return;
    size_t i = cases->count++;
    buf_init(&cases->list[i].prompt, ANSWERS_BYTES_MAX);
    buf_init(&cases->list[i].answer, ANSWERS_BYTES_MAX);
    prompt = end_of(prompt);
    buf_append(&cases->list[i].prompt, prompt.ptr, prompt.len);
    buf_append(&cases->list[i].answer, answer.ptr, answer.len);
}

/* A file of JSON lines with `input` and `output`. */
static bool read_cases(struct bench *bench, struct cases *cases)
{
    const char *path = bench->options->answers;
    struct errinfo info = {0};
    size_t len = 0, at = 0;
    char *data = NULL;

    if (path == NULL)
        return true;
    if (file_read_all(bench->cli->setup->fs, AT_FDCWD, path, ANSWERS_BYTES_MAX, &data, &len,
                      &info) != ERR_OK)
        return bench_fail(bench, "%s: %s", path, info.text);
    while (at < len) {
        char *line = data + at;
        char *end = memchr(line, '\n', len - at);
        size_t bytes = end != NULL ? (size_t)(end - line) : len - at;
        yyjson_doc *doc = yyjson_read(line, bytes, 0);
        if (doc != NULL)
            add_case(cases, yyjson_doc_get_root(doc));
        yyjson_doc_free(doc);
        at += bytes + 1;
    }
    mem_free(data);
    return cases->count > 0 ||
           bench_fail(bench, "%s has no answers of %d bytes or more", path, CASE_BYTES_MIN);
}

static void free_cases(struct cases *cases)
{
    for (size_t i = 0; i < cases->count; i++) {
        buf_fini(&cases->list[i].prompt);
        buf_fini(&cases->list[i].answer);
    }
    mem_free(cases->list);
}

/* ---- the whole run ---- */

static bool start_llama(struct side *sides, struct server_setup *setup)
{
    /* eight drafts must fit into a batch, or it aborts */
    static const char *const more[] = {"--spec-default", "-b", "2048", NULL};
    struct bench *bench = sides[0].bench;
    struct errinfo info = {0};

    if (!server_find_llama(&sides[LLAMA].server, bench->options->llama,
                           engine_backends_dir(NULL))) {
        sheet_note(bench->sheet, "no llama-server (%s)", sides[LLAMA].server.llama);
        return true;
    }
    setup->more = more;
    setup->name = "llama-server";
    if (server_start_llama(&sides[LLAMA].server, setup, &sides[PLAIN].server, &info) != ERR_OK)
        return bench_fail(bench, "%s", info.text);
    return true;
}

static bool start(struct side *sides, struct bench *bench)
{
    static const char *const how[] = {[PLAIN] = "off", [DRAFTS] = "auto"};
    const char *model = bench_model(bench, bench->options->model);
    struct server_setup setup;

    for (int i = PLAIN; i <= DRAFTS && model != NULL; i++) {
        char state[SERVER_PATH_BYTES + 16], name[16];
        const char *more[] = {"--state-dir", state, "--ssd-dir", "none", "--drafts", how[i], NULL};
        struct errinfo info = {0};
        setup = bench_setup(bench, model, CONTEXT);
        snprintf(state, sizeof(state), "%s/%s", bench->scratch, how[i]);
        snprintf(name, sizeof(name), "drafts-%s", how[i]);
        setup.parallel = STREAMS;
        setup.more = more;
        setup.name = name;
        if (server_start_hearth(&sides[i].server, &setup, &info) != ERR_OK)
            return bench_fail(bench, "%s", info.text);
    }
    if (model == NULL)
        return false;
    sheet_note(bench->sheet, "model %s, %u threads, %u tokens, %u rounds, temperature 0",
               file_base_name(model), sides[PLAIN].server.setup.threads,
               (unsigned)bench->options->tokens, (unsigned)bench->options->rounds);
    return start_llama(sides, &setup);
}

/* Ratios of rounds: their median, and two standard errors in percent. */
static void write_ratio(struct sheet *sheet, double *ratios, size_t count)
{
    double sum = 0, square = 0;

    for (size_t i = 0; i < count; i++) {
        sum += ratios[i];
        square += ratios[i] * ratios[i];
    }
    double mean = sum / (double)count;
    double variance = MAX(square / (double)count - mean * mean, 0);
    sheet_number(sheet, spread_of(ratios, count).p50);
    sheet_number(sheet, count > 1 ? 200 * sqrt(variance / (double)(count - 1)) / mean : NAN);
}

struct rounds {
    double ms[SIDES][ROUNDS_MAX], ratio[ROUNDS_MAX], cpu_ratio[ROUNDS_MAX];
    double tokens, accepted; /* with drafts */
};

static void write_row(const struct side *sides, const char *name, struct rounds *rounds,
                      uint64_t count)
{
    struct sheet *sheet = sides[0].bench->sheet;
    double drafts = spread_of(rounds->ms[DRAFTS], count).p50;
    double llama =
        sides[LLAMA].server.process != NULL ? spread_of(rounds->ms[LLAMA], count).p50 : NAN;

    sheet_text(sheet, name);
    sheet_number(sheet, spread_of(rounds->ms[PLAIN], count).p50);
    sheet_number(sheet, drafts);
    write_ratio(sheet, rounds->ratio, count);
    write_ratio(sheet, rounds->cpu_ratio, count);
    sheet_number(sheet, rounds->tokens / MAX(rounds->tokens - rounds->accepted, 1));
    sheet_number(sheet, llama);
    sheet_number(sheet, llama / drafts);
}

/* The order of the sides changes from round to round. */
static bool run_round(struct side *sides, size_t shape, uint64_t round, struct rounds *rounds)
{
    struct outcome outs[SIDES] = {{0}};

    for (size_t i = 0; i < SIDES; i++) {
        size_t at = round % 2 == 0 ? i : SIDES - 1 - i;
        sides[at].seed = 1 + 1000 * (shape * ROUNDS_MAX + round) + round * STREAMS;
        if (sides[at].server.process != NULL && !shapes[shape].run(&sides[at], &outs[at]))
            return false;
        rounds->ms[at][round] = outs[at].ms;
    }
    rounds->ratio[round] = outs[PLAIN].ms / outs[DRAFTS].ms;
    rounds->cpu_ratio[round] = outs[PLAIN].cpu_ms / outs[DRAFTS].cpu_ms;
    rounds->tokens += outs[DRAFTS].tokens;
    rounds->accepted += outs[DRAFTS].accepted;
    return true;
}

static void run_shapes(struct side *sides, struct bench *bench)
{
    struct rounds *rounds = mem_alloc(sizeof(*rounds));
    uint64_t count = MIN(bench->options->rounds, ROUNDS_MAX);
    struct outcome out;

    bench_expect(bench, "asking", COUNT_OF(shapes) * count);
    for (size_t i = 0; i < SIDES; i++) { /* teaches the costs of widths */
        sides[i].seed = UINT64_MAX;
        if (sides[i].server.process != NULL)
            (void)!regenerate(&sides[i], &out);
    }
    for (size_t i = 0; i < COUNT_OF(shapes) && !bench->failed; i++) {
        uint64_t round = 0;
        *rounds = (struct rounds){.tokens = 0};
        for (; round < count && run_round(sides, i, round, rounds); round++)
            bench_step(bench);
        if (round == count)
            write_row(sides, shapes[i].name, rounds, count);
    }
    mem_free(rounds);
}

static enum cli_exit run(struct bench *bench)
{
    struct cases cases = {0};
    struct side sides[SIDES] = {{0}};

    for (size_t i = 0; i < SIDES; i++)
        sides[i] = (struct side){.bench = bench, .cases = &cases};
    if (read_cases(bench, &cases) && start(sides, bench))
        run_shapes(sides, bench);
    for (size_t i = 0; i < SIDES; i++)
        server_kill(&sides[i].server);
    free_cases(&cases);
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

/*
 * bench_drafts.c: `hearth bench drafts`: answers with and without drafts. Servers with the same
 * model get the same requests in turn, in one run: hearth with `--drafts off`, hearth with drafts,
 * and llama-server with its own n-gram drafts, if there is one.
 *
 *      nothing      a prompt that was never seen: there is nothing to guess from but the answer
 *      regenerate   the same prompt again
 *      branch       the same prompt again after the conversation went on
 *      edit         a text in the prompt comes again with changes
 *      predict      the same edits, with the answer as `prediction`, less some of its words
 *      streams      eight clients at the same time, each with its own history and its own edit
 *
 * In all but the first, a grammar that names each token forces the answer, so that any model gives
 * it.
 *
 * A row is printed as soon as it is measured, so that nothing is lost if the run ends early. It has
 * the time from token to token, the median of all rounds. Ratios are taken round by round, since
 * other programs slow down both sides of a round; that of processor time, without prefill, is
 * independent of them. `tokens per run` is what drafts could gain if a wide batch took as long as
 * a single token: it does not depend on the machine.
 *
 * A machine that warms up or slows down favours one place in the order of the sides. So that order
 * is reversed from round to round, and the ratio of two rounds in a row is the geometric mean of
 * theirs. `--drafts off` compares two servers without drafts: a ratio other than 1 is the error of
 * the measurement.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json_alc.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/progress.h"
#include "lab/cli/bench.h"
#include "cli/cli.h"
#include "engine/backend.h"
#include "engine/engine.h"
#include "cli/process.h"
#include "lab/spread.h"

enum {
    PLAIN,
    DRAFTS,
    LLAMA,
    SIDES,
    SHAPE_REGENERATE = 1,
    STREAMS = 8,
    CONTEXT = 32768,
    PROMPT_BYTES = 800,
    CASE_BYTES_MIN = 200, /* shorter answers are left out */
    CASE_PROMPT_BYTES_MAX = 6000,
    CASE_NEW_BYTES = 60, /* before each prompt, so that no earlier one begins like it */
    ANSWERS_BYTES_MAX = 256 << 20,
    ROUNDS_MAX = 1000,
    HISTORY_SEED = 500, /* away from those of prompts in the same round */
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
    struct case_text {
        struct buf prompt, answer;
    } * list;
    size_t count, cap;
};

struct side {
    struct bench *bench;
    const struct cases *cases;
    struct server server;
    uint64_t seed, edit;  /* of the round and the shape; which case */
    struct errinfo error; /* why the last request failed */
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
    const char *grammar, *prediction; /* NULL: none */
    uint32_t tokens;
};

/* Asks; *out has the time per token after the first. */
static bool say(struct side *side, const struct question *question, struct outcome *out)
{
    const struct ask ask = {.url = &side->server.url,
                            .messages = question->messages,
                            .messages_count = question->count,
                            .max_tokens = question->tokens,
                            .timeout_ms = side->bench->options->timeout_ns / NS_PER_MS,
                            .grammar = question->grammar,
                            .prediction = question->prediction,
                            .plain = question->grammar != NULL};
    struct ask_result result;
    double cpu_s = process_cpu_s(side->server.process);
    bool answered = ask_run(&ask, &result, &side->error) == ERR_OK;
    bool good = answered && result.status == 200 && result.error[0] == '\0' &&
                result.generated >= MIN(question->tokens, 2);

    if (good && out != NULL) {
        double tokens = (double)result.generated;
        out->ms = (result.total_ms - result.ttft_ms) / (tokens - 1);
        out->cpu_ms = (process_cpu_s(side->server.process) - cpu_s) * 1000 / tokens;
        out->tokens = tokens;
        out->accepted = (double)MAX(result.accepted, 0);
    }
    if (answered && !good)
        err_set(&side->error, ERR_ENGINE, "status %d, %d tokens: %s", result.status,
                (int)result.generated, result.error);
    ask_result_fini(&result);
    return good;
}

/* One token: the prompt is cached then, so that only decoding is measured. */
static bool prepare(struct side *side, const struct ask_message *messages, size_t count)
{
    return say(side, &(struct question){messages, count, NULL, NULL, 1}, NULL);
}

static bool chat(struct side *side, const struct ask_message *messages, size_t count,
                 struct outcome *out)
{
    uint32_t tokens = (uint32_t)side->bench->options->tokens;

    return say(side, &(struct question){messages, count, NULL, NULL, tokens}, out);
}

static struct buf words(size_t bytes, uint64_t seed)
{
    struct buf text;

    buf_init(&text, 1 << 20);
    words_append(&text, bytes, seed);
    return text;
}

/* ---- shapes ---- */

static bool nothing(struct side *side, struct outcome *out)
{
    struct buf prompt = words(PROMPT_BYTES, side->seed);
    const struct ask_message message = {"user", buf_str(&prompt)};
    bool good = prepare(side, &message, 1) && chat(side, &message, 1, out);

    buf_fini(&prompt);
    return good;
}

/* ---- forced answers ---- */

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

/* A prompt, perhaps after an earlier turn, and the grammar of its answer. */
struct edit {
    struct buf history, prompt, answer, grammar, prediction;
    struct ask_message messages[3];
    size_t count;
    uint32_t tokens;
};

static void edit_begin(const struct side *side, bool history, struct edit *edit)
{
    const struct case_text *text = &side->cases->list[side->edit % side->cases->count];

    *edit = (struct edit){.history = words(history ? PROMPT_BYTES : 0, side->seed + HISTORY_SEED),
                          .prompt = words(CASE_NEW_BYTES, side->seed),
                          .answer = words(0, 1),
                          .prediction = words(0, 1)};
    buf_init(&edit->grammar, 1 << 20);
    buf_append_str(&edit->prompt, "\n\n");
    buf_append(&edit->prompt, text->prompt.data, text->prompt.len);
    buf_append(&edit->answer, text->answer.data, text->answer.len);
    if (history) {
        edit->messages[edit->count++] = (struct ask_message){"user", buf_str(&edit->history)};
        edit->messages[edit->count++] = (struct ask_message){"assistant", "yes"};
    }
    edit->messages[edit->count++] = (struct ask_message){"user", buf_str(&edit->prompt)};
}

static void edit_end(struct edit *edit)
{
    buf_fini(&edit->history);
    buf_fini(&edit->prompt);
    buf_fini(&edit->answer);
    buf_fini(&edit->grammar);
    buf_fini(&edit->prediction);
}

/* Has the prompt cached and the grammar written: of four times `--answer-tokens`, at most. */
static bool edit_prepare(struct side *side, struct edit *edit)
{
    struct tokens tokens;
    bool good =
        tokens_of(&side->server.url, NULL, buf_str(&edit->answer), &tokens, &side->error) == ERR_OK;

    if (good) {
        edit->tokens = (uint32_t)MIN(tokens.count, 4 * side->bench->options->tokens);
        name_tokens(&tokens, edit->tokens, &edit->grammar);
        good = prepare(side, edit->messages, edit->count);
    }
    tokens_fini(&tokens);
    return good;
}

static bool edit_force(struct side *side, const struct edit *edit, struct outcome *out)
{
    const struct question question = {edit->messages, edit->count, buf_str(&edit->grammar),
                                      edit->prediction.len > 0 ? buf_str(&edit->prediction) : NULL,
                                      edit->tokens};

    return say(side, &question, out);
}

static bool edit(struct side *side, struct outcome *out)
{
    struct edit one;

    edit_begin(side, false, &one);
    bool good = edit_prepare(side, &one) && edit_force(side, &one, out);
    edit_end(&one);
    return good;
}

static bool predict(struct side *side, struct outcome *out)
{
    struct edit one;

    edit_begin(side, false, &one);
    buf_append(&one.prediction, one.answer.data, one.answer.len);
    edit_words(&one.prediction);
    bool good = edit_prepare(side, &one) && edit_force(side, &one, out);
    edit_end(&one);
    return good;
}

/* A prompt whose answer has nothing in common with it: it can be guessed only if it was given
 * before. It is forced as well: with random weights on a GPU, a batch of another size gives another
 * answer now and then. */
static void fresh_begin(const struct side *side, struct edit *fresh)
{
    *fresh = (struct edit){.history = words(0, 1),
                           .prompt = words(PROMPT_BYTES, side->seed),
                           .answer = words(PROMPT_BYTES, side->seed + HISTORY_SEED),
                           .prediction = words(0, 1),
                           .count = 1};
    buf_init(&fresh->grammar, 1 << 20);
    fresh->messages[0] = (struct ask_message){"user", buf_str(&fresh->prompt)};
}

static bool regenerate(struct side *side, struct outcome *out)
{
    struct edit fresh;

    fresh_begin(side, &fresh);
    bool good = edit_prepare(side, &fresh) && edit_force(side, &fresh, out) &&
                edit_force(side, &fresh, out);
    edit_end(&fresh);
    return good;
}

static bool branch(struct side *side, struct outcome *out)
{
    struct edit fresh;

    fresh_begin(side, &fresh);
    const struct ask_message messages[] = {
        fresh.messages[0], {"assistant", buf_str(&fresh.answer)}, {"user", "and then"}};
    bool good = edit_prepare(side, &fresh) && edit_force(side, &fresh, out) &&
                chat(side, messages, COUNT_OF(messages), out) && edit_force(side, &fresh, out);
    edit_end(&fresh);
    return good;
}

struct stream {
    struct side side;
    struct edit edit;
    bool good;
    struct outcome out;
};

static void prepare_stream(void *arg)
{
    struct stream *stream = arg;

    stream->good = edit_prepare(&stream->side, &stream->edit);
}

static void force_stream(void *arg)
{
    struct stream *stream = arg;

    stream->good = edit_force(&stream->side, &stream->edit, &stream->out);
}

/* Runs one thread for each stream and waits for all. */
static bool all_streams(struct side *side, struct stream *list, void (*run)(void *arg))
{
    struct thread threads[STREAMS] = {0};
    bool good = true;

    for (size_t i = 0; i < STREAMS; i++)
        if (thread_start(&threads[i], "client", run, &list[i], &list[i].side.error) != ERR_OK)
            list[i].good = false;
    for (size_t i = 0; i < STREAMS; i++) {
        thread_join(&threads[i]);
        if (good && !list[i].good)
            side->error = list[i].side.error;
        good = good && list[i].good;
    }
    return good;
}

/* All prompts are cached before the first answer begins, so that only decoding is measured. */
static bool streams(struct side *side, struct outcome *out)
{
    struct stream *list = mem_alloc_array(STREAMS, sizeof(*list));

    for (uint64_t i = 0; i < STREAMS; i++) {
        list[i] = (struct stream){.side = *side};
        list[i].side.seed += i;
        list[i].side.edit += i;
        edit_begin(&list[i].side, true, &list[i].edit);
    }
    bool good = all_streams(side, list, prepare_stream);
    double cpu_s = process_cpu_s(side->server.process);
    good = good && all_streams(side, list, force_stream);
    *out = (struct outcome){0};
    for (size_t i = 0; i < STREAMS; i++) {
        out->ms += list[i].out.ms / STREAMS;
        out->tokens += list[i].out.tokens;
        out->accepted += list[i].out.accepted;
        edit_end(&list[i].edit);
    }
    out->cpu_ms = (process_cpu_s(side->server.process) - cpu_s) * 1000 / MAX(out->tokens, 1);
    mem_free(list);
    return good;
}

static const struct {
    const char *name;
    bool (*run)(struct side *side, struct outcome *out);
} shapes[] = {{"nothing", nothing}, [SHAPE_REGENERATE] = {"regenerate", regenerate},
              {"branch", branch},   {"edit", edit},
              {"predict", predict}, {"streams", streams}};

/* ---- recorded answers ---- */

/* Real changes of this repository, each as a part of a file and the same after the change. */
__asm__(".pushsection .rodata\n"
        "bench_edits: .incbin \"lab/bench/edits.jsonl\"\n"
        "bench_edits_end: .byte 0\n"
        ".popsection");
extern const char bench_edits[], bench_edits_end[];

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
    return json_get_text(yyjson_obj_get(object, name));
}

/* Traces of agents (with `session_id`) have steps of all kinds; only those that write files count. */
static bool is_edit(yyjson_val *line, struct str answer)
{
    return yyjson_obj_get(line, "session_id") == NULL ||
           str_find(answer, STR("sed -i")) != SIZE_MAX || str_find(answer, STR("<<")) != SIZE_MAX ||
           str_find(answer, STR("cat >")) != SIZE_MAX;
}

static void add_case(struct cases *cases, yyjson_val *line)
{
    struct str prompt = text_of(line, "input"), answer = text_of(line, "output");

    if (prompt.len == 0 || answer.len < CASE_BYTES_MIN || !is_edit(line, answer) ||
        !mem_try_reserve(&cases->list, cases->count + 1, &cases->cap, sizeof(*cases->list)))
        return;
    size_t i = cases->count++;
    buf_init(&cases->list[i].prompt, ANSWERS_BYTES_MAX);
    buf_init(&cases->list[i].answer, ANSWERS_BYTES_MAX);
    prompt = end_of(prompt);
    buf_append(&cases->list[i].prompt, prompt.ptr, prompt.len);
    buf_append(&cases->list[i].answer, answer.ptr, answer.len);
}

/* JSON lines with `input` and `output`. */
static void add_lines(struct cases *cases, struct str lines)
{
    struct str line;

    while (str_next(&lines, '\n', &line)) {
        yyjson_doc *doc = yyjson_read(line.ptr, line.len, 0);
        if (doc != NULL)
            add_case(cases, yyjson_doc_get_root(doc));
        yyjson_doc_free(doc);
    }
}

struct reading {
    const struct file_sys *fs;
    struct cases *cases;
    int dir;
    enum err err;
    struct errinfo *info;
};

/* Those of a folder; after an error the rest is left out. */
static void add_file(const char *name, unsigned char d_type, void *arg)
{
    struct reading *reading = arg;
    char *data;
    size_t len;
    bool wanted = reading->dir == AT_FDCWD || str_ends(str_from(name), STR(".jsonl"));

    if (reading->err != ERR_OK || d_type == DT_DIR || !wanted)
        return;
    reading->err = file_read_all(reading->fs, reading->dir, name, ANSWERS_BYTES_MAX, &data, &len,
                                 reading->info);
    if (reading->err != ERR_OK)
        return;
    add_lines(reading->cases, (struct str){data, len});
    mem_free(data);
}

static int compare_cases(const void *a, const void *b)
{
    const struct case_text *one = a, *two = b;

    return strcmp(buf_str(&one->answer), buf_str(&two->answer));
}

/* A file of JSON lines, a folder of such files, or what is part of the program. */
static bool read_cases(struct bench *bench, struct cases *cases)
{
    const char *path = bench->options->answers;
    struct errinfo info = {0};
    struct reading reading = {bench->cli->setup->fs, cases, AT_FDCWD, ERR_OK, &info};

    if (path == NULL) {
        add_lines(cases, (struct str){bench_edits, (size_t)(bench_edits_end - bench_edits)});
        return true;
    }
    if (file_open_dir(reading.fs, path, false, &reading.dir, &info) == ERR_OK) {
        enum err err = file_list(reading.fs, reading.dir, add_file, &reading, &info);
        file_close(reading.fs, &reading.dir);
        reading.err = err != ERR_OK ? err : reading.err;
        if (cases->count > 0) /* a folder has no order */
            qsort(cases->list, cases->count, sizeof(*cases->list), compare_cases);
    } else {
        reading.dir = AT_FDCWD;
        add_file(path, DT_REG, &reading);
    }
    if (reading.err != ERR_OK)
        return bench_fail(bench, "%s: %s", path, info.text);
    return cases->count > 0 ||
           bench_fail(bench, "%s has no edits of %d bytes or more", path, CASE_BYTES_MIN);
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

/* Without llama-server, the rows lack its figures. */
static void give_up_llama(struct side *side, const char *why)
{
    struct bench *bench = side->bench;

    server_kill(&side->server);
    progress_finish(&bench->bar, false);
    bench_tell(bench, "llama-server is not compared: %s", why);
    sheet_note(bench->sheet, "llama-server is not compared: %s", why);
}

static void start_llama(struct side *sides, struct server_setup *setup, const char *draft_model)
{
    /* eight drafts must fit into a batch, or it aborts */
    const char *const more[] = {"-b", "2048", draft_model != NULL ? "-md" : "--spec-default",
                                draft_model, NULL};
    struct bench *bench = sides[0].bench;
    struct errinfo info = {0};
    char why[SERVER_PATH_BYTES + 32];

    if (!server_find_llama(&sides[LLAMA].server, bench->options->llama,
                           engine_backends_dir(NULL))) {
        snprintf(why, sizeof(why), "there is no %s", sides[LLAMA].server.llama);
        give_up_llama(&sides[LLAMA], why);
        return;
    }
    setup->more = more;
    setup->name = "llama-server";
    if (server_start_llama(&sides[LLAMA].server, setup, &sides[PLAIN].server, &info) != ERR_OK)
        give_up_llama(&sides[LLAMA], info.text);
}

static bool start(struct side *sides, struct bench *bench)
{
    const struct bench_options *options = bench->options;
    const char *const how[] = {[PLAIN] = "off", [DRAFTS] = options->drafts};
    static const char *const names[] = {[PLAIN] = "plain", [DRAFTS] = "drafts"};
    const char *model = bench_model(bench, options->model);
    const char *draft_model =
        options->draft_model != NULL ? bench_model(bench, options->draft_model) : NULL;
    struct server_setup setup = bench_setup(bench, model, CONTEXT);

    for (int i = PLAIN; i <= DRAFTS && !bench->failed; i++) {
        char state[SERVER_PATH_BYTES + 16];
        const char *more[] = {"--state-dir",
                              state,
                              "--ssd-dir",
                              "none",
                              "--drafts",
                              how[i],
                              i == DRAFTS && draft_model != NULL ? "--model-draft" : NULL,
                              draft_model,
                              NULL};
        struct errinfo info = {0};
        snprintf(state, sizeof(state), "%s/%s", bench->scratch, names[i]);
        setup.parallel = STREAMS;
        setup.more = more;
        setup.name = names[i];
        if (server_start_hearth(&sides[i].server, &setup, &info) != ERR_OK)
            bench_fail(bench, "%s", info.text);
    }
    if (bench->failed)
        return false;
    sheet_note(bench->sheet, "model %s%s%s, %u threads, %u tokens, %u rounds, temperature 0",
               file_base_name(model), draft_model != NULL ? ", draft model " : "",
               draft_model != NULL ? file_base_name(draft_model) : "", setup.threads,
               (unsigned)options->tokens, (unsigned)options->rounds);
    start_llama(sides, &setup, draft_model);
    return true;
}

/* Ratios of rounds: their median, and two standard errors in percent. */
struct ratio {
    double median, noise;
};

/* Of two rounds in a row, whose orders are opposite; the last one of an odd number is alone. */
static size_t join_pairs(double *ratios, size_t count)
{
    for (size_t i = 0; i + 1 < count; i += 2)
        ratios[i / 2] = sqrt(ratios[i] * ratios[i + 1]);
    if (count % 2 == 1)
        ratios[count / 2] = ratios[count - 1];
    return (count + 1) / 2;
}

static struct ratio ratio_of(double *ratios, size_t count)
{
    double sum = 0, square = 0;

    count = join_pairs(ratios, count);
    for (size_t i = 0; i < count; i++) {
        sum += ratios[i];
        square += ratios[i] * ratios[i];
    }
    double mean = sum / (double)count;
    double variance = MAX(square / (double)count - mean * mean, 0);
    return (struct ratio){spread_median(ratios, count),
                          count > 1 ? 200 * sqrt(variance / (double)(count - 1)) / mean : NAN};
}

struct rounds {
    double ms[SIDES][ROUNDS_MAX], ratio[ROUNDS_MAX], cpu_ratio[ROUNDS_MAX];
    double tokens, accepted; /* with drafts */
};

static void write_row(const struct side *sides, const char *name, struct rounds *rounds,
                      uint64_t count)
{
    struct bench *bench = sides[0].bench;
    bool llama = sides[LLAMA].server.process != NULL;
    struct ratio time = ratio_of(rounds->ratio, count), cpu = ratio_of(rounds->cpu_ratio, count);
    double drafts = spread_median(rounds->ms[DRAFTS], count);
    const double cells[] = {spread_median(rounds->ms[PLAIN], count),
                            drafts,
                            time.median,
                            time.noise,
                            cpu.median,
                            cpu.noise,
                            rounds->tokens / MAX(rounds->tokens - rounds->accepted, 1),
                            llama ? spread_median(rounds->ms[LLAMA], count) : NAN};

    _Static_assert(COUNT_OF(cells) + 2 == COUNT_OF(columns), "a cell for each column");
    sheet_text(bench->sheet, name);
    for (size_t i = 0; i < COUNT_OF(cells); i++)
        sheet_number(bench->sheet, cells[i]);
    sheet_number(bench->sheet, cells[7] / drafts);
    progress_finish(&bench->bar, true);
    char peer[48] = "";
    if (llama)
        snprintf(peer, sizeof(peer), "; llama-server %.2f ms", cells[7]);
    bench_tell(
        bench,
        "%s: %.2f ms per token, %.2f with drafts (%.2fx, of processor time %.2fx), %.1f tokens "
        "per run%s",
        name, cells[0], drafts, time.median, cpu.median, cells[6], peer);
}

/* False: the row cannot be measured. */
static bool run_side(struct side *side, bool llama, size_t shape, struct outcome *out)
{
    if (side->server.process == NULL || shapes[shape].run(side, out))
        return true;
    if (!llama)
        return bench_fail(side->bench, "%s: %s", shapes[shape].name, side->error.text);
    give_up_llama(side, side->error.text);
    return true;
}

/* The order of the sides changes from round to round. */
static bool run_round(struct side *sides, size_t shape, uint64_t round, struct rounds *rounds)
{
    struct outcome outs[SIDES] = {{0}};

    for (size_t i = 0; i < SIDES; i++) {
        size_t at = round % 2 == 0 ? i : SIDES - 1 - i;
        sides[at].seed = 1 + 1000 * (shape * ROUNDS_MAX + round) + round * STREAMS;
        sides[at].edit = round;
        if (!run_side(&sides[at], at == LLAMA, shape, &outs[at]))
            return false;
        rounds->ms[at][round] = outs[at].ms;
    }
    rounds->ratio[round] = outs[PLAIN].ms / outs[DRAFTS].ms;
    rounds->cpu_ratio[round] = outs[PLAIN].cpu_ms / outs[DRAFTS].cpu_ms;
    rounds->tokens += outs[DRAFTS].tokens;
    rounds->accepted += outs[DRAFTS].accepted;
    return true;
}

/* After `--row-time`, and each order of the sides as often as the other. */
static bool row_is_over(const struct bench *bench, uint64_t round, uint64_t begin_ns)
{
    uint64_t limit_ns = bench->options->row_ns;

    return limit_ns > 0 && round > 0 && round % 2 == 0 &&
           clock_mono_ns(clock_real()) - begin_ns >= limit_ns;
}

/* A row that fails does not end the run, unless a server died. */
static void run_shapes(struct side *sides, struct bench *bench, const bool *wanted)
{
    struct rounds *rounds = mem_alloc(sizeof(*rounds));
    uint64_t count = MIN(bench->options->rounds, ROUNDS_MAX);
    struct outcome out;

    for (size_t i = 0; i < SIDES; i++) { /* teaches the costs of widths */
        sides[i].seed = UINT64_MAX;
        if (!run_side(&sides[i], i == LLAMA, SHAPE_REGENERATE, &out))
            break;
    }
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        if (!wanted[i] || !process_runs(sides[PLAIN].server.process) ||
            !process_runs(sides[DRAFTS].server.process))
            continue;
        uint64_t round = 0;
        *rounds = (struct rounds){.tokens = 0};
        bench_expect(bench, shapes[i].name, count);
        uint64_t begin_ns = clock_mono_ns(clock_real());
        bool good = true;
        while (good && round < count && !row_is_over(bench, round, begin_ns)) {
            good = run_round(sides, i, round, rounds);
            round += good;
            bench_step(bench);
        }
        if (good)
            write_row(sides, shapes[i].name, rounds, round);
    }
    mem_free(rounds);
}

/* Those of `--rows`; all of them without it. */
static bool choose_shapes(struct bench *bench, bool *wanted)
{
    const struct option_list *list = &bench->options->rows;

    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        wanted[i] = list->count == 0;
    for (size_t i = 0; i < list->count; i++) {
        size_t at = 0;
        while (at < COUNT_OF(shapes) && strcmp(list->items[i], shapes[at].name) != 0)
            at++;
        if (at == COUNT_OF(shapes))
            return bench_fail(bench,
                              "--rows %s: known are nothing, regenerate, branch, edit, predict and "
                              "streams",
                              list->items[i]);
        wanted[at] = true;
    }
    return true;
}

static enum cli_exit run(struct bench *bench)
{
    struct cases cases = {0};
    struct side sides[SIDES] = {{0}};
    bool wanted[COUNT_OF(shapes)];

    for (size_t i = 0; i < SIDES; i++)
        sides[i] = (struct side){.bench = bench, .cases = &cases};
    if (choose_shapes(bench, wanted) && read_cases(bench, &cases) && start(sides, bench))
        run_shapes(sides, bench, wanted);
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

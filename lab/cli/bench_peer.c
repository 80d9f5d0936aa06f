/*
 * bench_peer.c: `hearth bench peer`: hearth and llama-server with the same model, threads and
 * requests, in one run.
 *
 * For each workload shape both get the same prompts, one server after the other. A row has the time
 * to the first token, the processor time, and the waste: prompt tokens that a server computed
 * although an earlier request of the shape had computed the same prefix. The tokens that must be
 * computed are those of the prompt, as the server itself tokenizes it, after the longest prefix
 * that it shares with an earlier prompt and its answer. An answer may consist of other tokens than
 * its text would give. These are unknown and count as waste.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/lock.h"
#include "base/mem.h"
#include "cli/process.h"
#include "lab/spread.h"
#include "lab/cli/bench.h"
#include "engine/backend.h"
#include "engine/engine.h"

enum {
    SIDES = 2,
    SAID_MAX = 16,
    BRANCHES = 4,
    TURNS = 3,
    DECODE_TOKENS = 64,
    ROUNDS_MAX = 1000,
    TEXT_BYTES_MAX = 64 << 20,
    ANSWER_TOKENS = 8
};

static const struct sheet_column columns[] = {
    {"shape", "shape", SHEET_TEXT},
    {"hearth_ms", "hearth ms", 1},
    {"llama_ms", "llama ms", 1},
    {"ratio", "ratio", 2},
    {"hearth_cpu_ms", "hearth cpu", 0},
    {"llama_cpu_ms", "llama cpu", 0},
    {"cpu_ratio", "cpu ratio", 2},
    {"prompt", "prompt", 0},
    {"needed", "needed", 0},
    {"hearth_computed", "hearth computed", 0},
    {"llama_computed", "llama computed", 0},
    {"hearth_waste", "hearth waste %", 1},
    {"llama_waste", "llama waste %", 1},
};

/* The result of one round of a shape. */
struct outcome {
    double ms, cpu_ms, computed, needed, prompt;
};

struct side {
    struct bench *bench;
    struct server server;
    const char *model, *other_model;
    double bytes_per_token;
    uint32_t tokens;
    struct tokens said[SAID_MAX]; /* prompts of this round, with their answers */
    size_t said_count;
    struct outcome outcome;
    bool failed;
};

/* ---- asking ---- */

/* Tokens of a prompt that have not been computed yet; the last one always counts. */
static double needed_of(const struct side *side, const struct tokens *prompt)
{
    size_t shared = 0;

    for (size_t i = 0; i < side->said_count; i++)
        shared = MAX(shared, tokens_common(prompt, &side->said[i]));
    return (double)MAX(1, prompt->count - shared);
}

static void forget(struct side *side)
{
    while (side->said_count > 0)
        tokens_fini(&side->said[--side->said_count]);
    side->outcome = (struct outcome){0};
}

/* A prompt: messages, as text and as tokens. */
struct speech {
    const struct ask_message *messages;
    size_t count;
    struct buf text;
    struct tokens tokens;
};

static bool fail_side(struct side *side, const char *why)
{
    side->failed = true;
    return bench_fail(side->bench, "%s", why);
}

static bool speech_init(struct speech *speech, struct side *side,
                        const struct ask_message *messages, size_t count)
{
    const struct client_url *url = &side->server.url;
    struct errinfo info = {0};

    *speech = (struct speech){.messages = messages, .count = count};
    buf_init(&speech->text, TEXT_BYTES_MAX);
    if (tokens_render(url, NULL, messages, count, &speech->text, &info) == ERR_OK &&
        tokens_of(url, NULL, buf_str(&speech->text), &speech->tokens, &info) == ERR_OK)
        return true;
    return fail_side(side, info.text);
}

static void speech_fini(struct speech *speech)
{
    buf_fini(&speech->text);
    tokens_fini(&speech->tokens);
}

/* Records the prompt and its answer. The answer's tokens are known only where it continues as
 * text of the next prompt. */
static bool remember(struct side *side, struct speech *speech, const struct buf *answer)
{
    struct errinfo info = {0};

    if (side->said_count == SAID_MAX)
        return true;
    struct tokens *said = &side->said[side->said_count++];
    if (answer == NULL) {
        *said = speech->tokens;
        speech->tokens = (struct tokens){0};
        return true;
    }
    buf_append(&speech->text, buf_str(answer), answer->len);
    return tokens_of(&side->server.url, NULL, buf_str(&speech->text), said, &info) == ERR_OK ||
           fail_side(side, info.text);
}

static void count_result(struct side *side, const struct speech *speech,
                         const struct ask_result *result)
{
    struct outcome *outcome = &side->outcome;
    double prompt = (double)MAX(result->prompt, 0);

    outcome->prompt += prompt;
    outcome->computed += prompt - (double)MAX(result->cached, 0);
    outcome->needed += needed_of(side, &speech->tokens);
}

/* Adds to the outcome when it counts; `answer` (may be NULL) gets the text. */
static bool say(struct side *side, struct speech *speech, uint32_t tokens, bool counts,
                struct buf *answer)
{
    struct ask_result result;
    double cpu_s = process_cpu_s(side->server.process);
    bool good =
        bench_ask(side->bench, &side->server.url, speech->messages, speech->count, tokens, &result);

    if (good && counts) {
        side->outcome.ms += result.ttft_ms;
        side->outcome.cpu_ms += 1000 * (process_cpu_s(side->server.process) - cpu_s);
        count_result(side, speech, &result);
    }
    if (answer != NULL)
        buf_append(answer, buf_str(&result.text), result.text.len);
    good = good && remember(side, speech, answer);
    side->failed |= !good;
    ask_result_fini(&result);
    return good;
}

/* ---- texts ---- */

static void extend(const struct side *side, struct buf *text, double part, uint64_t seed)
{
    words_append(text, (size_t)(part * side->tokens * side->bytes_per_token) + 1, seed);
}

static struct buf piece(const struct side *side, double part, uint64_t seed)
{
    struct buf text;

    buf_init(&text, TEXT_BYTES_MAX);
    extend(side, &text, part, seed);
    return text;
}

enum act { ACT_END, ACT_SAY, ACT_COUNT, ACT_RESTART, ACT_SWAP };

/* A step of a shape: a chat of a system prompt and a user message, or the latter alone (second = 0),
 * as parts of the size of a prompt, from seeds that are added to the round's; its time may count.
 * As agents send it: state that cannot be cut inside a message can be cut between messages. Or a
 * restart with the same or the other model. */
struct step {
    enum act act;
    double first;
    uint64_t first_seed;
    double second;
    uint64_t second_seed;
};

static bool say_line(struct side *side, const struct step *step, uint64_t seed)
{
    struct buf first = piece(side, step->first, seed + step->first_seed),
               second = piece(side, step->second, seed + step->second_seed);
    bool two = step->second > 0;
    const struct ask_message messages[] = {{two ? "system" : "user", buf_str(&first)},
                                           {"user", buf_str(&second)}};
    struct speech speech;

    bool good = speech_init(&speech, side, messages, two ? 2 : 1) &&
                say(side, &speech, 1, step->act == ACT_COUNT, NULL);
    speech_fini(&speech);
    buf_fini(&second);
    buf_fini(&first);
    return good;
}

/* ---- shapes ---- */

/* The time from one token to the next, not the time to the first token. */
static bool shape_decode(struct side *side, uint64_t seed)
{
    struct buf text = piece(side, 0.5, seed);
    const struct ask_message message = {"user", buf_str(&text)};
    struct ask_result result;
    double cpu_s = process_cpu_s(side->server.process);
    bool good = bench_ask(side->bench, &side->server.url, &message, 1, DECODE_TOKENS, &result) &&
                result.generated > 1;

    if (good) {
        double steps = (double)(result.generated - 1);
        side->outcome.ms = (result.total_ms - result.ttft_ms) / steps;
        side->outcome.cpu_ms = 1000 * (process_cpu_s(side->server.process) - cpu_s);
        side->outcome.prompt = side->outcome.needed = side->outcome.computed =
            (double)MAX(result.prompt, 0);
    }
    side->failed |= !good;
    ask_result_fini(&result);
    buf_fini(&text);
    return good;
}

static bool shape_turns(struct side *side, uint64_t seed)
{
    struct buf text = piece(side, 0.5, seed);
    bool good = true;

    for (uint64_t turn = 0; good && turn <= TURNS; turn++) {
        const struct ask_message prompt = {NULL, buf_str(&text)};
        struct speech speech;
        struct buf answer;
        buf_init(&answer, TEXT_BYTES_MAX);
        good = speech_init(&speech, side, &prompt, 1) &&
               say(side, &speech, ANSWER_TOKENS, turn > 0, &answer);
        speech_fini(&speech);
        buf_append(&text, buf_str(&answer), answer.len);
        extend(side, &text, 0.03, seed + 1 + turn);
        buf_fini(&answer);
    }
    buf_fini(&text);
    return good;
}

/* Four branches of one cold prefix, at the same time. */
struct branch {
    struct side *side;
    struct buf text;
    struct ask_result result;
    bool good;
};

static void ask_branch(void *arg)
{
    struct branch *branch = arg;
    const struct ask_message prompt = {NULL, buf_str(&branch->text)};
    const struct ask ask = {.url = &branch->side->server.url,
                            .messages = &prompt,
                            .messages_count = 1,
                            .max_tokens = 1,
                            .timeout_ms = 3600 * 1000};

    branch->good = ask_run(&ask, &branch->result, NULL) == ERR_OK && branch->result.status == 200;
}

static void count_branch(struct branch *branch)
{
    const struct ask_message prompt = {NULL, buf_str(&branch->text)};
    struct side *side = branch->side;
    struct speech speech;

    side->failed |= !branch->good;
    /* until the last has begun */
    side->outcome.ms = fmax(side->outcome.ms, branch->result.ttft_ms);
    if (speech_init(&speech, side, &prompt, 1)) {
        count_result(side, &speech, &branch->result);
        remember(side, &speech, NULL);
    }
    speech_fini(&speech);
    ask_result_fini(&branch->result);
    buf_fini(&branch->text);
}

static bool shape_fan_out(struct side *side, uint64_t seed)
{
    struct branch branches[BRANCHES];
    struct thread threads[BRANCHES] = {0};
    double cpu_s = process_cpu_s(side->server.process);

    for (uint64_t i = 0; i < BRANCHES; i++) {
        branches[i] = (struct branch){.side = side, .text = piece(side, 1, seed)};
        extend(side, &branches[i].text, 0.01, seed + 1 + i);
        if (thread_start(&threads[i], "branch", ask_branch, &branches[i], NULL) != ERR_OK)
            ask_branch(&branches[i]);
    }
    for (size_t i = 0; i < BRANCHES; i++)
        thread_join(&threads[i]);
    side->outcome.cpu_ms = 1000 * (process_cpu_s(side->server.process) - cpu_s);
    for (size_t i = 0; i < BRANCHES; i++)
        count_branch(&branches[i]);
    return !side->failed;
}

static bool restart(struct side *side, const char *model)
{
    struct errinfo info = {0};

    return server_restart(&side->server, model, &info) == ERR_OK || fail_side(side, info.text);
}

static bool run_steps(struct side *side, const struct step *step, uint64_t seed)
{
    bool good = true;

    for (; good && step->act != ACT_END; step++)
        good = step->act == ACT_RESTART ? restart(side, side->model)
               : step->act == ACT_SWAP  ? restart(side, side->other_model)
                                        : say_line(side, step, seed);
    return good;
}

/* clang-format off */
#define SAY(part, seed)                  {ACT_SAY, part, seed, 0, 0}
#define COUNT(part, seed)                {ACT_COUNT, part, seed, 0, 0}
#define SAY_TWO(part, seed, rest, its)   {ACT_SAY, part, seed, rest, its}
#define COUNT_TWO(part, seed, rest, its) {ACT_COUNT, part, seed, rest, its}
#define DO(act)                          {act, 0, 0, 0, 0}
/* clang-format on */

static const struct shape {
    const char *name;
    bool (*run)(struct side *side, uint64_t seed); /* NULL: its steps */
    struct step steps[8];
} shapes[] = {
    {"cold", NULL, {COUNT(1, 0)}},
    {"decode, per token", shape_decode, {DO(ACT_END)}},
    {"repeat", NULL, {SAY(1, 0), COUNT(1, 0)}},
    {"second session", NULL, {SAY_TWO(0.5, 0, 0.5, 1), COUNT_TWO(0.5, 0, 0.5, 2)}},
    {"A again after others",
     NULL,
     {SAY(1, 0), SAY(0.5, 1), SAY(0.5, 2), SAY(0.5, 3), SAY(0.5, 4), SAY(0.5, 5), COUNT(1, 0)}},
    {"turns", shape_turns, {DO(ACT_END)}},
    {"edit", NULL, {SAY_TWO(0.8, 0, 0.2, 1), COUNT_TWO(0.8, 0, 0.2, 2)}},
    {"other system prompt", NULL, {SAY_TWO(0.5, 0, 0.5, 1), COUNT_TWO(0.5, 2, 0.5, 1)}},
    {"and back",
     NULL,
     {SAY_TWO(0.5, 0, 0.5, 1), SAY_TWO(0.5, 2, 0.5, 1), COUNT_TWO(0.5, 0, 0.5, 1)}},
    {"fan-out of four", shape_fan_out, {DO(ACT_END)}},
    {"restart", NULL, {SAY(1, 0), DO(ACT_RESTART), COUNT(1, 0)}},
    {"model swap", NULL, {SAY(1, 0), DO(ACT_SWAP), SAY(0.1, 1), DO(ACT_RESTART), COUNT(1, 0)}},
};

/* ---- rounds ---- */

static double middle(const struct outcome *rounds, size_t count, size_t offset)
{
    double values[ROUNDS_MAX];

    for (size_t i = 0; i < count; i++)
        memcpy(&values[i], (const char *)&rounds[i] + offset, sizeof(double));
    return spread_of(values, count).p50;
}

static double waste(const struct outcome *outcome)
{
    double wasted = fmax(0, outcome->computed - outcome->needed);

    return outcome->prompt > 0 ? 100 * wasted / outcome->prompt : 0;
}

/* Processor time has a resolution of 10 ms: below that a ratio is meaningless. */
static double ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

static void add_row(struct bench *bench, const char *name, struct outcome *rounds[SIDES],
                    size_t count)
{
    struct outcome all[SIDES];

    for (size_t side = 0; side < SIDES; side++) {
        all[side] = rounds[side][0]; /* tokens are the same in each round */
        all[side].ms = middle(rounds[side], count, offsetof(struct outcome, ms));
        all[side].cpu_ms = middle(rounds[side], count, offsetof(struct outcome, cpu_ms));
    }
    const double numbers[] = {
        all[0].ms,       all[1].ms,      ratio(all[1].ms, all[0].ms),
        all[0].cpu_ms,   all[1].cpu_ms,  ratio(all[1].cpu_ms, all[0].cpu_ms),
        all[0].prompt,   all[0].needed,  all[0].computed,
        all[1].computed, waste(&all[0]), waste(&all[1]),
    };
    sheet_text(bench->sheet, name);
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        sheet_number(bench->sheet, numbers[i]);
    bench_tell(bench, "%s: hearth %.1f ms, llama-server %.1f ms, ratio %.2f", name, all[0].ms,
               all[1].ms, ratio(all[1].ms, all[0].ms));
}

static bool run_shape(struct bench *bench, struct side sides[SIDES], const struct shape *shape,
                      uint64_t *seed)
{
    size_t count = (size_t)bench->options->rounds;
    struct outcome *rounds[SIDES] = {mem_alloc_array(count, sizeof(struct outcome)),
                                     mem_alloc_array(count, sizeof(struct outcome))};
    bool good = true;

    for (size_t round = 0; good && round < count; round++) {
        *seed += 1000;
        for (size_t side = 0; good && side < SIDES; side++) {
            good = shape->run != NULL ? shape->run(&sides[side], *seed)
                                      : run_steps(&sides[side], shape->steps, *seed);
            good = good && !sides[side].failed;
            rounds[side][round] = sides[side].outcome;
            forget(&sides[side]);
        }
    }
    if (good)
        add_row(bench, shape->name, rounds, count);
    else if (!bench->failed)
        bench_fail(bench, "%s: a request failed", shape->name);
    for (size_t side = 0; side < SIDES; side++)
        mem_free(rounds[side]);
    bench_step(bench);
    return good;
}

/* ---- both servers ---- */

static bool start_sides(struct bench *bench, struct side sides[SIDES], const char *const *more)
{
    uint32_t context = MAX(4096, sides[0].tokens * 8);
    struct server_setup setup = bench_setup(bench, sides[0].model, context);
    struct errinfo info = {0};

    setup.parallel = BRANCHES;
    setup.more = more;
    enum err err = server_start_hearth(&sides[0].server, &setup, &info);
    setup.name = "llama-server";
    setup.more = NULL;
    if (err == ERR_OK)
        err = server_start_llama(&sides[1].server, &setup, &sides[0].server, &info);
    if (err != ERR_OK)
        return bench_fail(bench, "%s", info.text);
    sides[0].bytes_per_token = sides[1].bytes_per_token =
        bench_bytes_per_token(bench, &sides[0].server);
    sheet_note(bench->sheet,
               "model %s, prompts of %u tokens, %u threads each, median of %llu rounds; ratios are "
               "llama-server's time to hearth's",
               file_base_name(sides[0].model), sides[0].tokens, setup.threads,
               (unsigned long long)bench->options->rounds);
    return sides[0].bytes_per_token > 0;
}

static void run_shapes(struct bench *bench, struct side sides[SIDES])
{
    uint64_t seed = 1;

    bench_expect(bench, "hearth and llama-server", COUNT_OF(shapes) + 1);
    for (size_t i = 0; i < SIDES; i++) /* warms up pages and threads */
        if (!say_line(&sides[i], &(struct step)SAY(0.5, 0), 1))
            return;
    forget(&sides[0]);
    forget(&sides[1]);
    bench_step(bench);
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        if (!run_shape(bench, sides, &shapes[i], &seed))
            break;
}

static enum cli_exit run(struct bench *bench)
{
    struct side *sides = mem_alloc_array(SIDES, sizeof(*sides));
    char state[SERVER_PATH_BYTES + 16], ssd[SERVER_PATH_BYTES + 16];
    const char *const more[] = {"--state-dir", state, "--ssd-dir", ssd, "--ssd-free", "1MiB", NULL};
    struct bench_list sizes = {0};
    enum cli_exit status = CLI_EXIT_OK;

    snprintf(state, sizeof(state), "%s/state", bench->scratch);
    snprintf(ssd, sizeof(ssd), "%s/ssd", bench->scratch);
    if (!bench_numbers(bench, "size", &bench->options->sizes, &sizes)) {
        status = CLI_EXIT_USAGE;
    } else if (!server_find_llama(&sides[1].server, bench->options->llama,
                                  engine_backends_dir(NULL))) {
        fprintf(bench->cli->out, "skipped: no llama-server (%s); `make peer` fetches it\n",
                sides[1].server.llama);
    } else {
        for (size_t i = 0; i < SIDES; i++) {
            sides[i].bench = bench;
            sides[i].tokens = sizes.items[0];
            sides[i].model = bench_model(bench, bench->options->model);
            sides[i].other_model = bench_model(
                bench, bench->options->other_model != NULL ? bench->options->other_model : "qwen3");
        }
        if (sides[0].model != NULL && sides[0].other_model != NULL &&
            start_sides(bench, sides, more))
            run_shapes(bench, sides);
    }
    for (size_t i = 0; i < SIDES; i++) {
        server_kill(&sides[i].server);
        forget(&sides[i]);
    }
    mem_free(sides);
    return status;
}

const struct bench_kind bench_peer = {
    .name = "peer",
    .columns = columns,
    .columns_count = COUNT_OF(columns),
    .plot = {.title = "hearth and llama-server, ms to the first token",
             .labels = {"shape"},
             .values = {"hearth_ms", "llama_ms"},
             .logarithmic = true},
    .run = run,
};

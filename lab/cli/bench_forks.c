/*
 * bench_forks.c: `hearth bench forks`: prompts that diverge inside a message from one that was
 * computed once, on hearth and llama-server with the same model, threads and requests, in one run.
 *
 * Each shape is an everyday prompt and one or several forks of it. Of each fork counts what the
 * server computed beyond its new tokens: those after the longest prefix that it shares with an
 * earlier prompt of the shape and its answer, as the server itself renders and tokenizes them.
 *
 * llama-server runs twice: with its own settings, and with a checkpoint after each chunk
 * (--ctx-checkpoints 32 --checkpoint-min-step 0), which is the most that it can do. Neither takes
 * requests while the other is measured.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json_alc.h"
#include "base/mem.h"
#include "lab/spread.h"
#include "lab/cli/bench.h"
#include "engine/backend.h"

enum {
    SIDES = 3,
    SAID_MAX = 8,
    FORKS_MAX = 32,
    MESSAGES_MAX = 8,
    ITEMS = 10,
    LINES = 60,
    LINES_MORE = 3,
    TYPED = 12, /* times that a message grows, by so many bytes */
    TYPED_BYTES = 40,
    EDITS = 20,
    ALTERNATIONS = 5,
    QUESTION_TOKENS = 30,
    ANSWER_TOKENS = 8,
    CANCELLED_TOKENS = 256,
    BLOCK_TOKENS = 64, /* of the cache */
    TEXT_BYTES_MAX = 64 << 20,
    ARENA_BYTES_MAX = 256 << 20,
};

static const double document_size = 3, long_size = 17.5; /* of a prompt of --size */

static const struct sheet_column columns[] = {
    {"kind", "kind", SHEET_TEXT},
    {"shape", "shape", SHEET_TEXT},
    {"forks", "forks", 0},
    {"prompt", "prompt", 0},
    {"new", "new", 0},
    {"goal", "goal", SHEET_TEXT},
    {"met", "met", SHEET_TEXT},
    {"hearth_more", "hearth +", 0},
    {"hearth_worst", "worst", 0},
    {"llama_more", "llama +", 0},
    {"llama_worst", "worst", 0},
    {"llama_each_more", "each chunk +", 0},
    {"llama_each_worst", "worst", 0},
    {"hearth_part", "part", 2},
    {"hearth_part_worst", "worst", 2},
    {"hearth_ms", "hearth ms", 1},
    {"llama_ms", "llama ms", 1},
    {"llama_each_ms", "each chunk ms", 1},
    {"ratio", "ratio", 2},
};

/* A request that is measured. more: computed beyond the new tokens. */
struct fork {
    double more, fresh, prompt, ms;
};

struct side {
    struct bench *bench;
    struct server server;
    double bytes_per_token;
    uint32_t tokens;
    struct arena texts;           /* of the shape */
    struct tokens said[SAID_MAX]; /* prompts of the shape, with their answers; the last ones */
    size_t said_count;
    struct fork forks[FORKS_MAX];
    size_t forks_count;
};

struct talk {
    struct ask_message messages[MESSAGES_MAX];
    size_t count;
};

/* ---- asking ---- */

static void forget(struct side *side)
{
    for (size_t i = 0; i < MIN(side->said_count, SAID_MAX); i++)
        tokens_fini(&side->said[i]);
    side->said_count = side->forks_count = 0;
    arena_reset(&side->texts);
}

static enum err render(const struct side *side, const struct talk *talk, const struct buf *answer,
                       struct tokens *tokens, struct errinfo *info)
{
    const struct client_url *url = &side->server.url;
    struct buf text;

    buf_init(&text, TEXT_BYTES_MAX);
    *tokens = (struct tokens){0};
    enum err err = tokens_render(url, NULL, talk->messages, talk->count, &text, info);
    if (answer != NULL)
        buf_append(&text, buf_str(answer), answer->len);
    if (err == ERR_OK)
        err = tokens_of(url, NULL, buf_str(&text), tokens, info);
    buf_fini(&text);
    return err;
}

/* Tokens of a prompt that have not been computed yet; the last one always counts. */
static double fresh_of(const struct side *side, const struct tokens *prompt)
{
    size_t shared = 0;

    for (size_t i = 0; i < MIN(side->said_count, SAID_MAX); i++)
        shared = MAX(shared, tokens_common(prompt, &side->said[i]));
    return (double)MAX(1, prompt->count - shared);
}

static void count_fork(struct side *side, const struct tokens *prompt,
                       const struct ask_result *result)
{
    double fresh = fresh_of(side, prompt);
    double computed = (double)(result->prompt - MAX(result->cached, 0));

    if (side->forks_count < FORKS_MAX)
        side->forks[side->forks_count++] = (struct fork){fmax(0, computed - fresh), fresh,
                                                         (double)result->prompt, result->ttft_ms};
}

static void remember(struct side *side, struct tokens *tokens)
{
    struct tokens *said = &side->said[side->said_count++ % SAID_MAX];

    if (side->said_count > SAID_MAX)
        tokens_fini(said);
    *said = *tokens;
    *tokens = (struct tokens){0};
}

/* What is asked: the answer's tokens; after how many pieces the client disconnects (0 = never);
 * whether it is a fork that counts. `answer` (may be NULL) gets the text. */
struct asking {
    uint32_t tokens, leave_after;
    bool counts;
    const char **answer;
};

static bool ask_talk(struct side *side, const struct talk *talk, const struct asking *asking)
{
    struct bench *bench = side->bench;
    const struct ask ask = {.url = &side->server.url,
                            .messages = talk->messages,
                            .messages_count = talk->count,
                            .max_tokens = asking->tokens,
                            .leave_after = asking->leave_after,
                            .timeout_ms = bench->options->timeout_ns / NS_PER_MS};
    struct tokens prompt = {0}, said = {0};
    struct ask_result result = {0};
    struct errinfo info = {0};

    if (side->texts.err != ERR_OK)
        return bench_fail(bench, "no memory for the prompts");
    enum err err = render(side, talk, NULL, &prompt, &info);
    if (err == ERR_OK)
        err = ask_run(&ask, &result, &info);
    if (err == ERR_OK && result.status != 200)
        err = err_set(&info, ERR_INVALID, "status %d: %s", result.status, result.error);
    if (err == ERR_OK && asking->counts)
        count_fork(side, &prompt, &result);
    if (err == ERR_OK)
        err = render(side, talk, &result.text, &said, &info);
    if (err == ERR_OK)
        remember(side, &said);
    if (asking->answer != NULL)
        *asking->answer =
            arena_strdup(&side->texts, (struct str){buf_str(&result.text), result.text.len});
    tokens_fini(&prompt);
    tokens_fini(&said);
    ask_result_fini(&result);
    return err == ERR_OK || bench_fail(bench, "%s", info.text);
}

/* The prompt that is there before. */
static bool say(struct side *side, const struct talk *talk)
{
    return ask_talk(side, talk, &(struct asking){.tokens = 1});
}

static bool fork_to(struct side *side, const struct talk *talk)
{
    return ask_talk(side, talk, &(struct asking){.tokens = 1, .counts = true});
}

/* ---- texts ---- */

static const char *words_of(struct side *side, double tokens, uint64_t seed)
{
    struct buf text;

    buf_init(&text, TEXT_BYTES_MAX);
    words_append(&text, (size_t)(tokens * side->bytes_per_token) + 1, seed);
    const char *copy = arena_strdup(&side->texts, (struct str){buf_str(&text), text.len});
    buf_fini(&text);
    return copy != NULL ? copy : "";
}

/* As a part of a prompt of --size. */
static const char *piece(struct side *side, double part, uint64_t seed)
{
    return words_of(side, part * side->tokens, seed);
}

static void add(struct talk *talk, const char *role, const char *text)
{
    talk->messages[talk->count++] = (struct ask_message){.role = role, .text = text};
}

static struct talk chat(struct side *side, const char *text, uint64_t seed)
{
    struct talk talk = {.count = 0};

    add(&talk, "system", piece(side, 0.15, seed));
    add(&talk, "user", text);
    return talk;
}

/* Takes the text of a buffer that is being written. */
static const char *keep(struct side *side, struct buf *text)
{
    const char *copy = arena_strdup(&side->texts, (struct str){buf_str(text), text->len});

    buf_fini(text);
    return copy;
}

/* ---- shapes ---- */

/* Writes the text of a message; `other`: that of the fork. */
typedef const char *write_fn(struct side *side, uint64_t seed, bool other);

static bool fork_text(struct side *side, uint64_t seed, write_fn *write)
{
    struct talk first = chat(side, write(side, seed, false), seed + 1),
                second = chat(side, write(side, seed, true), seed + 1);

    return say(side, &first) && fork_to(side, &second);
}

static const char *question(struct side *side, uint64_t seed, bool other)
{
    return arena_printf(&side->texts, "\n\nQuestion: %s",
                        words_of(side, QUESTION_TOKENS, seed + 100 + other));
}

static bool shape_question(struct side *side, uint64_t seed, double size)
{
    const char *document = piece(side, size, seed);
    bool good = true;

    for (int other = 0; good && other < 2; other++) {
        struct talk talk =
            chat(side, arena_printf(&side->texts, "%s%s", document, question(side, seed, other)),
                 seed + 1);
        good = other ? fork_to(side, &talk) : say(side, &talk);
    }
    return good;
}

static bool shape_parts(struct side *side, uint64_t seed, double size)
{
    const char *document = piece(side, size, seed);
    bool good = true;

    for (int other = 0; good && other < 2; other++) {
        struct talk talk = chat(side, document, seed + 1);
        add(&talk, "", question(side, seed, other));
        good = other ? fork_to(side, &talk) : say(side, &talk);
    }
    return good;
}

static bool shape_completion(struct side *side, uint64_t seed, double size)
{
    const char *document = piece(side, size, seed);
    bool good = true;

    for (int other = 0; good && other < 2; other++) {
        struct talk talk = {.count = 0};
        add(&talk, NULL,
            arena_printf(&side->texts, "%s%s\nAnswer:", document, question(side, seed, other)));
        good = other ? fork_to(side, &talk) : say(side, &talk);
    }
    return good;
}

/* The last example is another one. */
static const char *write_examples(struct side *side, uint64_t seed, bool other)
{
    struct buf text;

    buf_init(&text, TEXT_BYTES_MAX);
    for (uint64_t i = 0; i <= ITEMS; i++) {
        uint64_t number = i == ITEMS ? i + other : i;
        buf_appendf(&text, "Text: %s\nLabel:%s", piece(side, 0.9 / (ITEMS + 1), seed + 10 + number),
                    i == ITEMS ? "" : " good\n\n");
    }
    return keep(side, &text);
}

static const char *write_list(struct side *side, uint64_t seed, bool other)
{
    struct buf text;

    buf_init(&text, TEXT_BYTES_MAX);
    buf_appendf(&text, "Sort this list.\n\n");
    for (uint64_t i = 0; i < LINES; i++)
        buf_appendf(&text, "- %s\n",
                    piece(side, 0.9 / LINES, seed + 10 + i + (i == LINES - 1 ? other : 0)));
    return keep(side, &text);
}

/* Ten documents in this order; the last one may be another. */
static const char *write_documents(struct side *side, uint64_t seed, const uint64_t *order)
{
    struct buf text;

    buf_init(&text, TEXT_BYTES_MAX);
    buf_appendf(&text, "Use these documents.\n\n");
    for (uint64_t i = 0; i < ITEMS; i++)
        buf_appendf(&text, "## Document %u\n\n%s\n\n", (unsigned)order[i] + 1,
                    piece(side, 0.9 / ITEMS, seed + 10 + order[i]));
    buf_appendf(&text, "%s", question(side, seed, false));
    return keep(side, &text);
}

static const char *write_changed(struct side *side, uint64_t seed, bool other)
{
    const uint64_t order[ITEMS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, other ? 10 : 9};

    return write_documents(side, seed, order);
}

static const char *write_moved(struct side *side, uint64_t seed, bool other)
{
    const uint64_t order[ITEMS] = {0, 1, 2, 3, 4, 5, 6, 7, other ? 9 : 8, other ? 8 : 9};

    return write_documents(side, seed, order);
}

/* Three more lines before the question. */
static const char *write_log(struct side *side, uint64_t seed, bool other)
{
    struct buf text;

    buf_init(&text, TEXT_BYTES_MAX);
    buf_appendf(&text, "This is the log:\n\n");
    for (uint64_t i = 0; i < LINES + (other ? LINES_MORE : 0); i++)
        buf_appendf(&text, "12:%02u:00 info %s\n", (unsigned)i,
                    piece(side, 0.9 / LINES, seed + 10 + i));
    buf_appendf(&text, "%s", question(side, seed, false));
    return keep(side, &text);
}

#define SHAPE_OF_TEXT(name)                                                 \
    static bool shape_##name(struct side *side, uint64_t seed, double size) \
    {                                                                       \
        (void)size;                                                         \
        return fork_text(side, seed, write_##name);                         \
    }
SHAPE_OF_TEXT(examples)
SHAPE_OF_TEXT(list)
SHAPE_OF_TEXT(changed)
SHAPE_OF_TEXT(moved)
SHAPE_OF_TEXT(log)

/* Tools as templates write them into the system prompt; the seventh of ten is gone. */
static bool shape_tools(struct side *side, uint64_t seed, double size)
{
    bool good = true;

    for (int other = 0; good && other < 2; other++) {
        struct talk talk = {.count = 0};
        struct buf text;
        buf_init(&text, TEXT_BYTES_MAX);
        buf_appendf(&text, "Use these tools.\n\n");
        for (uint64_t i = 0; i < ITEMS; i++)
            if (!other || i != 6)
                buf_appendf(&text, "{\"name\": \"tool_%u\", \"description\": \"%s\"}\n",
                            (unsigned)i, piece(side, size / ITEMS, seed + 10 + i));
        add(&talk, "system", keep(side, &text));
        add(&talk, "user", question(side, seed, false));
        good = other ? fork_to(side, &talk) : say(side, &talk);
    }
    return good;
}

/* A client that asks while the message is being written. */
static bool shape_typed(struct side *side, uint64_t seed, double size)
{
    struct buf text;
    bool good = true;

    buf_init(&text, TEXT_BYTES_MAX);
    buf_appendf(&text, "%s", piece(side, size, seed));
    for (uint64_t i = 0; good && i <= TYPED; i++) {
        struct talk talk = chat(side, buf_str(&text), seed + 1);
        good = i > 0 ? fork_to(side, &talk) : say(side, &talk);
        words_append(&text, TYPED_BYTES, seed + 10 + i);
    }
    buf_fini(&text);
    return good;
}

static struct talk turns(struct side *side, uint64_t seed, double size)
{
    struct talk talk = chat(side, piece(side, size / 2, seed), seed + 1);

    add(&talk, "assistant", piece(side, size / 8, seed + 2));
    add(&talk, "user", piece(side, size / 8, seed + 3));
    return talk;
}

/* The last question of a conversation, in other words each time. */
static bool shape_alternating(struct side *side, uint64_t seed, double size)
{
    struct talk talk = turns(side, seed, size);
    bool good = true;

    for (uint64_t i = 0; good && i <= ALTERNATIONS; i++) {
        talk.messages[3].text = words_of(side, 2 * QUESTION_TOKENS, seed + 10 + i);
        good = i > 0 ? fork_to(side, &talk) : say(side, &talk);
    }
    return good;
}

/* One word is another one, at a random place of a long message; a new message each time. */
static bool shape_edits(struct side *side, uint64_t seed, double size)
{
    uint64_t random = seed;
    bool good = true;

    for (uint64_t i = 0; good && i < EDITS; i++) {
        struct talk talk = chat(side, piece(side, size, seed + 10 + i), seed + 1);
        const char *text = talk.messages[1].text;
        size_t len = strlen(text), at = (size_t)(spread_random(&random) % MAX(len, 1));
        good = say(side, &talk);
        at += strcspn(text + at, " ");
        talk.messages[1].text =
            arena_printf(&side->texts, "%.*s changed%s", (int)at, text,
                         text + MIN(at + 1 + strcspn(text + MIN(at + 1, len), " "), len));
        good = good && fork_to(side, &talk);
    }
    return good;
}

/* The second question gets another end; what came after it is gone. */
static bool shape_older(struct side *side, uint64_t seed, double size)
{
    struct talk talk = turns(side, seed, size);

    add(&talk, "assistant", piece(side, size / 8, seed + 4));
    add(&talk, "user", piece(side, size / 8, seed + 5));
    bool good = say(side, &talk);
    talk.count = 4;
    talk.messages[3].text =
        arena_printf(&side->texts, "%s%s", talk.messages[3].text, question(side, seed, false));
    return good && fork_to(side, &talk);
}

static bool shape_regenerate(struct side *side, uint64_t seed, double size)
{
    struct talk talk = turns(side, seed, size), next;
    const char *answer = "";
    bool good = ask_talk(side, &talk, &(struct asking){.tokens = ANSWER_TOKENS, .answer = &answer});

    next = talk;
    add(&next, "assistant", answer);
    add(&next, "user", piece(side, size / 8, seed + 5));
    return good && say(side, &next) && fork_to(side, &talk);
}

static bool shape_cancelled(struct side *side, uint64_t seed, double size)
{
    struct talk talk = turns(side, seed, size);
    const char *answer = "";
    bool good =
        ask_talk(side, &talk,
                 &(struct asking){.tokens = CANCELLED_TOKENS, .leave_after = 4, .answer = &answer});

    add(&talk, "assistant", answer);
    add(&talk, "user", piece(side, size / 8, seed + 5));
    return good && fork_to(side, &talk);
}

/* ---- goals ---- */

enum layers { LAYERS_FULL, LAYERS_WINDOW, LAYERS_RECURRENT, LAYERS_COUNT };
enum goal { GOAL_END, GOAL_FORK, GOAL_EDIT, GOAL_PEER };

static const struct shape {
    const char *name;
    bool (*run)(struct side *side, uint64_t seed, double size);
    double size;
    enum goal goal;
    bool is_long; /* only with --long */
} shapes[] = {
    {"question after a document", shape_question, document_size, GOAL_END, false},
    {"the same, in two parts", shape_parts, document_size, GOAL_END, false},
    {"the same, raw completion", shape_completion, document_size, GOAL_END, false},
    {"question after a long document", shape_question, long_size, GOAL_END, true},
    {"few-shot, another last example", shape_examples, 1, GOAL_FORK, false},
    {"list, another last item", shape_list, 1, GOAL_FORK, false},
    {"ten documents, the last changed", shape_changed, 1, GOAL_FORK, false},
    {"ten documents, the last two moved", shape_moved, 1, GOAL_FORK, false},
    {"log that grows by three lines", shape_log, 1, GOAL_FORK, false},
    {"ten tools, one less", shape_tools, 1, GOAL_FORK, false},
    {"message being typed", shape_typed, 1, GOAL_FORK, false},
    {"last question asked differently", shape_alternating, 1, GOAL_PEER, false},
    {"edit anywhere in the last message", shape_edits, 1, GOAL_EDIT, false},
    {"edit in an older message", shape_older, 1, GOAL_PEER, false},
    {"regenerate", shape_regenerate, 1, GOAL_PEER, false},
    {"continue after a cancelled answer", shape_cancelled, 1, GOAL_PEER, false},
};

/* Of the forks of a shape on one side. */
struct result {
    double more, worst, sum, part, part_worst, fresh, prompt, ms;
};

static double middle(const struct side *side, size_t offset)
{
    double values[FORKS_MAX];

    for (size_t i = 0; i < side->forks_count; i++)
        memcpy(&values[i], (const char *)&side->forks[i] + offset, sizeof(double));
    return spread_median(values, side->forks_count);
}

static struct result result_of(const struct side *side)
{
    struct result result = {.more = middle(side, offsetof(struct fork, more)),
                            .fresh = middle(side, offsetof(struct fork, fresh)),
                            .prompt = middle(side, offsetof(struct fork, prompt)),
                            .ms = middle(side, offsetof(struct fork, ms))};
    double parts[FORKS_MAX];

    for (size_t i = 0; i < side->forks_count; i++) {
        const struct fork *fork = &side->forks[i];
        parts[i] = fork->more / fork->fresh;
        result.worst = fmax(result.worst, fork->more);
        result.part_worst = fmax(result.part_worst, parts[i]);
        result.sum += fork->more;
    }
    result.part = spread_median(parts, side->forks_count);
    return result;
}

/* Writes the goal; true: it was reached. */
static bool judge(const struct bench *bench, enum layers layers, enum goal goal,
                  const struct result results[SIDES], char *out, size_t size)
{
    static const double most[][LAYERS_COUNT] = {
        [GOAL_END] = {0, 64, 256}, [GOAL_FORK] = {0, 64, 512}};
    const struct result *own = &results[0];
    double chunk = (double)bench->options->chunk + BLOCK_TOKENS;
    bool peer = own->sum <= results[1].sum && own->sum <= results[2].sum;

    if (goal == GOAL_PEER) {
        snprintf(out, size, "llama-server");
        return peer;
    }
    if (goal == GOAL_EDIT && layers == LAYERS_RECURRENT) {
        snprintf(out, size, "0.1, 0.5");
        return peer && own->part <= 0.1 && own->part_worst <= 0.5;
    }
    double limit = goal != GOAL_EDIT ? most[goal][layers] : layers == LAYERS_FULL ? 0 : chunk;
    snprintf(out, size, "%.0f", limit);
    return peer && own->worst <= limit;
}

static void add_row(struct bench *bench, const char *kinds, enum layers layers,
                    const struct shape *shape, const struct side sides[SIDES])
{
    struct result results[SIDES];
    char goal[32];

    for (size_t i = 0; i < SIDES; i++)
        results[i] = result_of(&sides[i]);
    bool met = judge(bench, layers, shape->goal, results, goal, sizeof(goal));
    const struct result *own = &results[0], *llama = &results[1], *each = &results[2];
    sheet_text(bench->sheet, kinds);
    sheet_text(bench->sheet, shape->name);
    sheet_number(bench->sheet, (double)sides[0].forks_count);
    sheet_number(bench->sheet, own->prompt);
    sheet_number(bench->sheet, own->fresh);
    sheet_text(bench->sheet, goal);
    sheet_text(bench->sheet, met ? "yes" : "NO");
    const double numbers[] = {own->more,  own->worst,  llama->more, llama->worst,
                              each->more, each->worst, own->part,   own->part_worst,
                              own->ms,    llama->ms,   each->ms,    llama->ms / own->ms};
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        sheet_number(bench->sheet, numbers[i]);
    bench_tell(bench,
               "%s, %s: %s; beyond %.0f new ones hearth %.0f (at most %.0f), llama-server "
               "%.0f (%.0f) and %.0f (%.0f); %.1f, %.1f and %.1f ms",
               kinds, shape->name, met ? "met" : "MISSED", own->fresh, own->more, own->worst,
               llama->more, llama->worst, each->more, each->worst, own->ms, llama->ms, each->ms);
}

/* ---- servers ---- */

/* The kinds of layers, as the server names them. */
static bool read_kinds(struct bench *bench, const struct server *server, char *out, size_t size)
{
    const struct client_request request = {
        .url = &server->url, .method = "GET", .path = "/v1/models", .timeout_ms = 60 * 1000};
    struct errinfo info = {0};
    struct buf body;
    int status = 0;

    buf_init(&body, TEXT_BYTES_MAX);
    enum err err = client_fetch(&request, &status, &body, &info);
    yyjson_doc *doc = err == ERR_OK ? yyjson_read(buf_str(&body), body.len, 0) : NULL;
    struct str kinds = json_get_text(yyjson_ptr_get(yyjson_doc_get_root(doc), "/data/0/kinds"));
    if (kinds.ptr != NULL)
        snprintf(out, size, "%.*s", (int)kinds.len, kinds.ptr);
    yyjson_doc_free(doc);
    buf_fini(&body);
    return kinds.ptr != NULL || bench_fail(bench, "the server does not say its kinds of layers");
}

static enum layers layers_of(const char *kinds)
{
    return strcmp(kinds, "full") == 0           ? LAYERS_FULL
           : strstr(kinds, "recurrent") == NULL ? LAYERS_WINDOW
                                                : LAYERS_RECURRENT;
}

static bool start_sides(struct bench *bench, struct side sides[SIDES], const char *model)
{
    static const char *const each[] = {"--ctx-checkpoints", "32", "--checkpoint-min-step", "0",
                                       NULL};
    char state[SERVER_PATH_BYTES + 16], ssd[SERVER_PATH_BYTES + 16];
    const char *const more[] = {"--state-dir", state, "--ssd-dir", ssd, "--ssd-free", "1MiB", NULL};
    double longest = bench->options->is_long ? long_size : document_size;
    struct server_setup setup =
        bench_setup(bench, model, (uint32_t)(sides[0].tokens * (longest + 1)) + 2048);
    struct errinfo info = {0};

    snprintf(state, sizeof(state), "%s/state", bench->scratch);
    snprintf(ssd, sizeof(ssd), "%s/ssd", bench->scratch);
    setup.more = more;
    enum err err = server_start_hearth(&sides[0].server, &setup, &info);
    setup.name = "llama-server";
    setup.more = NULL;
    if (err == ERR_OK)
        err = server_start_llama(&sides[1].server, &setup, &sides[0].server, &info);
    setup.name = "llama-server-each";
    setup.more = each;
    if (err == ERR_OK)
        err = server_start_llama(&sides[2].server, &setup, &sides[0].server, &info);
    for (size_t i = 0; i < SIDES; i++)
        sides[i].server.setup.more = NULL; /* it is on this stack */
    if (err != ERR_OK)
        return bench_fail(bench, "%s", info.text);
    double bytes = bench_bytes_per_token(bench, &sides[0].server);
    for (size_t i = 0; i < SIDES; i++)
        sides[i].bytes_per_token = bytes;
    return bytes > 0;
}

static bool run_shape(struct side sides[SIDES], const struct shape *shape, uint64_t seed)
{
    bool good = true;

    for (size_t i = 0; good && i < SIDES; i++) {
        forget(&sides[i]);
        good = shape->run(&sides[i], seed, shape->size);
    }
    return good;
}

static bool run_model(struct bench *bench, struct side sides[SIDES], const char *name)
{
    const char *model = bench_model(bench, name);
    char kinds[64];
    bool good = model != NULL && start_sides(bench, sides, model) &&
                read_kinds(bench, &sides[0].server, kinds, sizeof(kinds));
    const struct shape warm = {.run = shape_question, .size = 0.5};

    good = good && run_shape(sides, &warm, 1); /* pages and threads */
    if (good)
        sheet_note(bench->sheet, "%s: %s", kinds, file_base_name(model));
    for (size_t i = 0; good && i < COUNT_OF(shapes); i++) {
        if (shapes[i].is_long && !bench->options->is_long)
            continue;
        good = run_shape(sides, &shapes[i], 1000 * (i + 2));
        if (good)
            add_row(bench, kinds, layers_of(kinds), &shapes[i], sides);
    }
    for (size_t i = 0; i < SIDES; i++) {
        server_kill(&sides[i].server);
        forget(&sides[i]);
    }
    return good;
}

static void run_models(struct bench *bench, struct side sides[SIDES])
{
    static const char *const families[] = {"qwen3", "gemma3", "qwen35", "mamba2"};

    sheet_note(bench->sheet,
               "prompts of %u tokens, documents of %.0f; tokens computed beyond the new ones, and "
               "ms to the first token, median of the forks; llama-server with its own settings, "
               "and with --ctx-checkpoints 32 --checkpoint-min-step 0",
               sides[0].tokens, document_size * sides[0].tokens);
    if (bench->options->model != NULL) {
        run_model(bench, sides, bench->options->model);
        return;
    }
    for (size_t i = 0; i < COUNT_OF(families); i++)
        if (!run_model(bench, sides, families[i]))
            return;
}

static enum cli_exit run(struct bench *bench)
{
    struct side *sides = mem_alloc_array(SIDES, sizeof(*sides));
    struct bench_list sizes = {0};
    enum cli_exit status = CLI_EXIT_OK;

    if (!bench_numbers(bench, "size", &bench->options->sizes, &sizes)) {
        status = CLI_EXIT_USAGE;
    } else if (!server_find_llama(&sides[1].server, bench->options->llama,
                                  engine_backends_dir(NULL))) {
        fprintf(bench->cli->out, "skipped: no llama-server (%s); `make peer` fetches it\n",
                sides[1].server.llama);
    } else {
        sides[2].server = sides[1].server;
        for (size_t i = 0; i < SIDES; i++) {
            sides[i].bench = bench;
            sides[i].tokens = sizes.items[0];
            arena_init(&sides[i].texts, ARENA_BYTES_MAX);
        }
        run_models(bench, sides);
        for (size_t i = 0; i < SIDES; i++)
            arena_fini(&sides[i].texts);
    }
    mem_free(sides);
    return status;
}

const struct bench_kind bench_forks = {
    .name = "forks",
    .columns = columns,
    .columns_count = COUNT_OF(columns),
    .plot = {.title = "tokens computed beyond the new ones, hearth and llama-server",
             .labels = {"kind", "shape"},
             .values = {"hearth_more", "llama_more", "llama_each_more"}},
    .run = run,
};

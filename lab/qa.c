/* qa.c: the phases: which servers run, and which requests they get in which order. */
#include "lab/qa.h"

#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "base/mem.h"
#include "lab/bench_server.h"
#include "lab/spread.h"

enum {
    RUN_SERVE = 1,
    RUN_RESTART = 2,
    RUN_EXACT = 3,
    STEPS = 16,       /* phases, for the bar */
    STEPS_SECOND = 3, /* more with a second model */
    CONTEXT_MIN = 8192,
    DOCUMENT_FACTOR = 4, /* a document is as long as so many first prompts */
    QUESTION_BYTES = 40,
    LEAVE_TOKENS = 512, /* that a cancelled answer would have had */
    LEAVE_AFTER = 3,
    TEXT_BYTES_MAX = 1 << 20,
    MESSAGES = 6,
};

static const char key_owner[] = "qa-owner", key_other[] = "qa-other";

static const char *const probe_names[] = {QA_PROBE_TABLE(TABLE_NAME)};

const char *qa_probe_name(enum qa_probe probe)
{
    return probe_names[probe];
}

/* A client: its conversation so far. Owns its texts. */
struct talk {
    char *texts[MESSAGES];
    struct ask_message messages[MESSAGES];
    size_t count;
    char *volatile_text; /* instead of the first text, or NULL */
};

struct stage {
    struct qa_scenario *scenario;
    const struct qa_options *options;
    struct server server;
    unsigned run, step;
    const char *key;
    const char *model; /* to send requests to; NULL = the first */
    struct talk talks[QA_SESSIONS_MAX];
    size_t talks_count;
    char folder[2][SERVER_PATH_BYTES]; /* state and disk of the run */
};

/* ---- conversations ---- */

static void talk_add(struct talk *talk, const char *role, char *text)
{
    talk->texts[talk->count] = text;
    talk->messages[talk->count] = (struct ask_message){role, text};
    talk->count++;
}

static char *words(size_t bytes, uint64_t seed)
{
    struct buf text;

    buf_init(&text, TEXT_BYTES_MAX);
    words_append(&text, bytes, seed);
    return buf_take(&text);
}

/* The system prompt is more than half, so that editing the question keeps most of the prompt. */
static void talk_init(struct talk *talk, uint32_t bytes, uint64_t seed)
{
    *talk = (struct talk){.count = 0};
    talk_add(talk, "system", words(bytes * 2 / 3, seed));
    talk_add(talk, "user", words(bytes / 3, seed + 1000));
}

static void talk_fini(struct talk *talk)
{
    for (size_t i = 0; i < talk->count; i++)
        mem_free(talk->texts[i]);
    mem_free(talk->volatile_text);
    talk->count = 0;
}

/* ---- asking ---- */

/* The data for the row of a request. */
struct question {
    struct stage *stage;
    const struct talk *talk;
    struct qa_request *request;
    uint32_t tokens, leave_after;
};

static void ask_one(void *arg)
{
    struct question *question = arg;
    const struct stage *stage = question->stage;
    const struct ask ask = {
        .url = &stage->server.url,
        .key = stage->key,
        .model = stage->model,
        .messages = question->talk->messages,
        .messages_count = question->talk->count,
        .max_tokens = question->tokens,
        .timeout_ms = stage->options->timeout_ms,
        .leave_after = question->leave_after,
    };
    struct errinfo info = {0};

    if (ask_run(&ask, &question->request->result, &info) != ERR_OK)
        snprintf(question->request->failure, sizeof(question->request->failure), "%.255s",
                 info.text);
}

static struct question ask_for(struct stage *stage, enum qa_probe probe, const char *phase,
                               char session, const struct talk *talk)
{
    struct qa_scenario *scenario = stage->scenario;
    struct qa_request *request = &scenario->requests[scenario->requests_count++];

    *request =
        (struct qa_request){.probe = probe, .phase = phase, .session = session, .run = stage->run};
    return (struct question){stage, talk, request, stage->options->max_tokens, 0};
}

static void advance(struct stage *stage)
{
    stage->step++;
    if (stage->options->progress != NULL)
        stage->options->progress(stage->step,
                                 STEPS + (stage->options->other_model ? STEPS_SECOND : 0),
                                 stage->options->arg);
}

static const struct qa_request *ask_alone(struct stage *stage, enum qa_probe probe,
                                          const char *phase, char session, const struct talk *talk)
{
    struct question question = ask_for(stage, probe, phase, session, talk);

    ask_one(&question);
    return question.request;
}

/* All sessions at the same time. */
static void ask_together(struct stage *stage, enum qa_probe probe, const char *phase)
{
    struct question questions[QA_SESSIONS_MAX];
    struct thread threads[QA_SESSIONS_MAX] = {0};

    for (size_t i = 0; i < stage->talks_count; i++) {
        questions[i] = ask_for(stage, probe, phase, (char)('a' + i), &stage->talks[i]);
        if (thread_start(&threads[i], "qa-client", ask_one, &questions[i], NULL) != ERR_OK)
            ask_one(&questions[i]);
    }
    for (size_t i = 0; i < stage->talks_count; i++)
        thread_join(&threads[i]);
    advance(stage);
}

/* ---- servers ---- */

static enum err start(struct stage *stage, unsigned run, const char *name, const char *folder,
                      bool exact, struct errinfo *info)
{
    const struct qa_options *options = stage->options;
    char ram[32], second[SERVER_PATH_BYTES + 16];
    /* clang-format off */
    const char *more[24] = {
        "--log-level", "debug",
        "--ssd-free", "1MiB",
        "--ram-cache", ram,
        "--api-key", "owner:qa-owner",
        "--api-key", "other:qa-other",
        "--public-metrics",
        "--state-dir", stage->folder[0],
        "--ssd-dir", stage->folder[1],
    };
    /* clang-format on */
    size_t count = 0;
    const struct server_setup setup = {
        .scratch = options->scratch,
        .name = name,
        .model = options->model,
        .key = key_owner,
        .context = (uint32_t)MAX(CONTEXT_MIN, options->prompt_bytes * 8),
        .parallel = MAX(options->concurrent, 1),
        .threads = options->threads,
        .chunk = QA_CHUNK,
        .more = more,
        .faults = options->drill != DRILL_NONE,
    };

    while (more[count] != NULL)
        count++;
    if (setup.faults) {
        more[count++] = "--fault";
        more[count++] = drill_names[options->drill];
    }
    if (exact)
        more[count++] = "--exact";
    if (options->other_model != NULL) {
        snprintf(second, sizeof(second), "second=%s", options->other_model);
        more[count++] = "-m";
        more[count++] = second;
    }
    stage->run = run;
    stage->key = key_owner;
    snprintf(ram, sizeof(ram), "%llu", (unsigned long long)options->ram_bytes);
    snprintf(stage->folder[0], sizeof(stage->folder[0]), "%s/%s-state", options->scratch, folder);
    snprintf(stage->folder[1], sizeof(stage->folder[1]), "%s/%s-ssd", options->scratch, folder);
    return server_start_hearth(&stage->server, &setup, info);
}

/* The log is complete only when the server has exited. */
static enum err end(struct stage *stage, struct errinfo *info)
{
    struct buf log;

    TRY(server_stop(&stage->server, info));
    buf_init(&log, 1u << 30);
    enum err err = server_read_log(&stage->server, &log, info);
    if (err == ERR_OK)
        qa_collect_events(stage->scenario, stage->run, (struct str){buf_str(&log), log.len});
    buf_fini(&log);
    advance(stage);
    return err;
}

/* ---- phases ---- */

const struct qa_ab qa_ab[2] = {
    {QA_PROBE_AB, "cold", "warm", "exact", {"aba-1", "aba-2", "aba-3"}},
    {QA_PROBE_MODELS,
     "second-cold",
     "second-warm",
     "second-exact",
     {"second-aba-1", "second-aba-2", "second-aba-3"}},
};

static void probe_ab(struct stage *stage, const struct qa_ab *ab)
{
    ask_together(stage, ab->probe, ab->cold);
    /* Later phases depend on what these requests stored, and it is stored once the server is
     * idle. */
    server_wait_idle(&stage->server);
    ask_together(stage, ab->probe, ab->warm);
    ask_alone(stage, ab->probe, ab->exact, 'a', &stage->talks[0]);
    ask_alone(stage, ab->probe, ab->aba[0], 'a', &stage->talks[0]);
    ask_alone(stage, ab->probe, ab->aba[1], 'b', &stage->talks[1]);
    ask_alone(stage, ab->probe, ab->aba[2], 'a', &stage->talks[0]);
    advance(stage);
}

/* A clock at the beginning of the system prompt, as some clients have it: it must not make each
 * turn a new prompt. */
static void set_clock(struct talk *talk, unsigned second)
{
    struct buf text;

    buf_init(&text, TEXT_BYTES_MAX);
    buf_appendf(&text, "Now: 2026-11-15 10:33:%02u\n%s", second, talk->texts[0]);
    mem_free(talk->volatile_text);
    talk->volatile_text = buf_take(&text);
    talk->messages[0].text = talk->volatile_text;
}

/* Continues a new session: each turn includes the previous answer as the client received it. */
static void probe_turns(struct stage *stage)
{
    static const char *const phases[] = {"turn-1", "turn-2", "turn-3"};
    struct talk talk;

    talk_init(&talk, stage->options->prompt_bytes, 500);
    for (unsigned i = 0; i < COUNT_OF(phases); i++) {
        set_clock(&talk, 10 + i);
        const struct qa_request *turn = ask_alone(stage, QA_PROBE_TURNS, phases[i], 't', &talk);
        advance(stage);
        if (i + 1 == COUNT_OF(phases))
            break;
        talk_add(&talk, "assistant", mem_strdup(buf_str(&turn->result.text)));
        talk_add(&talk, "user", words(stage->options->prompt_bytes / 10, 77 + i));
    }
    talk_fini(&talk);
}

/* ---- prompts that diverge inside a message ---- */

static enum err tokenize(const struct stage *stage, const struct talk *talk, struct tokens *tokens,
                         struct errinfo *info)
{
    struct buf text;

    buf_init(&text, TEXT_BYTES_MAX);
    *tokens = (struct tokens){0};
    enum err err =
        tokens_render(&stage->server.url, stage->key, talk->messages, talk->count, &text, info);
    if (err == ERR_OK)
        err = tokens_of(&stage->server.url, stage->key, buf_str(&text), tokens, info);
    buf_fini(&text);
    return err;
}

/* Tokens that both begin with, by the tokenizer's word alone. */
static enum err count_shared(const struct stage *stage, const struct talk *before,
                             const struct talk *after, size_t *shared, struct errinfo *info)
{
    struct tokens a, b = {0};

    enum err err = tokenize(stage, before, &a, info);
    if (err == ERR_OK)
        err = tokenize(stage, after, &b, info);
    *shared = tokens_common(&a, &b);
    tokens_fini(&a);
    tokens_fini(&b);
    return err;
}

/* `before` with another last message, which is owned by the caller. */
static void ask_fork(struct stage *stage, enum qa_probe probe, const char *phase, char session,
                     const struct talk *before, const char *text)
{
    struct talk fork = *before;
    struct errinfo info = {0};
    size_t shared;

    fork.messages[fork.count - 1].text = text;
    enum err err = count_shared(stage, before, &fork, &shared, &info);
    struct question question = ask_for(stage, probe, phase, session, &fork);
    question.request->shared = shared;
    ask_one(&question);
    if (err != ERR_OK)
        snprintf(question.request->failure, sizeof(question.request->failure), "%.255s", info.text);
}

/* The text with another second half. */
static void change_half(struct buf *out, const char *text)
{
    size_t half = strlen(text) / 2;

    buf_init(out, TEXT_BYTES_MAX);
    buf_append(out, text, half);
    words_append(out, half, 4711);
}

/* A with another second half of its question; then the original A. */
static void probe_edit(struct stage *stage)
{
    const struct talk *talk = &stage->talks[0];
    struct buf text;

    change_half(&text, talk->texts[1]);
    ask_fork(stage, QA_PROBE_EDIT, "edit", 'a', talk, buf_str(&text));
    ask_alone(stage, QA_PROBE_EDIT, "unedited", 'a', talk);
    buf_fini(&text);
    advance(stage);
}

static char *document(const struct stage *stage, uint64_t question)
{
    struct buf text;

    buf_init(&text, TEXT_BYTES_MAX);
    words_append(&text, (size_t)stage->options->prompt_bytes * DOCUMENT_FACTOR, 600);
    buf_appendf(&text, "\n\nQuestion: ");
    words_append(&text, QUESTION_BYTES, 700 + question);
    return buf_take(&text);
}

/* A long message of a document and a question; another question; an edit inside the document. */
static void probe_fork(struct stage *stage)
{
    struct talk talk = {.count = 0};
    char *second = document(stage, 2);
    struct buf edited;

    talk_add(&talk, "system", words(stage->options->prompt_bytes / 3, 601));
    talk_add(&talk, "user", document(stage, 1));
    change_half(&edited, talk.texts[1]);
    ask_alone(stage, QA_PROBE_FORK, "document", 'd', &talk);
    server_wait_idle(&stage->server);
    ask_fork(stage, QA_PROBE_FORK, "question", 'd', &talk, second);
    ask_fork(stage, QA_PROBE_FORK, "inside", 'd', &talk, buf_str(&edited));
    buf_fini(&edited);
    mem_free(second);
    talk_fini(&talk);
    advance(stage);
}

static void probe_cancel(struct stage *stage)
{
    struct talk talk;

    talk_init(&talk, stage->options->prompt_bytes, 900);
    struct question question = ask_for(stage, QA_PROBE_CANCEL, "cancel", 'x', &talk);
    question.tokens = LEAVE_TOKENS;
    question.leave_after = LEAVE_AFTER;
    ask_one(&question);
    server_wait_idle(&stage->server);
    ask_alone(stage, QA_PROBE_CANCEL, "resume", 'x', &talk);
    talk_fini(&talk);
    advance(stage);
}

static void probe_tenant(struct stage *stage)
{
    stage->key = key_other;
    ask_alone(stage, QA_PROBE_TENANT, "other-key", 'a', &stage->talks[0]);
    stage->key = key_owner;
    advance(stage);
}

/* The same prompt to another model of the process: it must reuse nothing of the first, and its
 * own state from then on. */
static void probe_models(struct stage *stage)
{
    if (stage->options->other_model == NULL)
        return;
    stage->model = "second";
    probe_ab(stage, &qa_ab[1]);
    stage->model = NULL;
    ask_alone(stage, QA_PROBE_MODELS, "first-again", 'a', &stage->talks[0]);
}

static enum err run_serve(struct stage *stage, struct errinfo *info)
{
    TRY(start(stage, RUN_SERVE, "serve", "main", false, info));
    stage->scenario->cap_bytes = server_metric(&stage->server, "hearth_cache_cap_bytes");
    probe_ab(stage, &qa_ab[0]);
    probe_turns(stage);
    probe_edit(stage);
    probe_fork(stage);
    probe_cancel(stage);
    probe_tenant(stage);
    probe_models(stage);
    return end(stage, info);
}

static enum err run_restart(struct stage *stage, struct errinfo *info)
{
    TRY(start(stage, RUN_RESTART, "restart", "main", false, info));
    ask_alone(stage, QA_PROBE_RESTART, "restart", 'a', &stage->talks[0]);
    advance(stage);
    return end(stage, info);
}

static enum err run_exact(struct stage *stage, struct errinfo *info)
{
    TRY(start(stage, RUN_EXACT, "exact", "exact", true, info));
    ask_alone(stage, QA_PROBE_EXACT, "exact-cold", 'a', &stage->talks[0]);
    ask_alone(stage, QA_PROBE_EXACT, "exact-other", 'b', &stage->talks[1]);
    ask_alone(stage, QA_PROBE_EXACT, "exact-warm", 'a', &stage->talks[0]);
    advance(stage);
    return end(stage, info);
}

enum err qa_run(struct qa_scenario *scenario, const struct qa_options *options,
                struct errinfo *info)
{
    struct stage *stage = mem_alloc(sizeof(*stage));

    *scenario = (struct qa_scenario){.options = options};
    scenario->requests = mem_alloc_array(QA_REQUESTS_MAX, sizeof(*scenario->requests));
    scenario->checks = mem_alloc_array(QA_CHECKS_MAX, sizeof(*scenario->checks));
    stage->scenario = scenario;
    stage->options = options;
    stage->talks_count = MIN(MAX(options->concurrent, 2), QA_SESSIONS_MAX);
    for (size_t i = 0; i < stage->talks_count; i++)
        talk_init(&stage->talks[i], options->prompt_bytes, 1 + i);
    enum err err = run_serve(stage, info);
    if (err == ERR_OK)
        err = run_restart(stage, info);
    if (err == ERR_OK)
        err = run_exact(stage, info);
    server_kill(&stage->server);
    for (size_t i = 0; i < stage->talks_count; i++)
        talk_fini(&stage->talks[i]);
    mem_free(stage);
    if (err == ERR_OK)
        qa_check_all(scenario);
    return err;
}

void qa_scenario_fini(struct qa_scenario *scenario)
{
    for (size_t i = 0; i < scenario->requests_count; i++)
        ask_result_fini(&scenario->requests[i].result);
    mem_free(scenario->requests);
    mem_free(scenario->checks);
    *scenario = (struct qa_scenario){0};
}

const struct qa_request *qa_find(const struct qa_scenario *scenario, const char *phase,
                                 char session)
{
    for (size_t i = 0; i < scenario->requests_count; i++)
        if (scenario->requests[i].session == session &&
            strcmp(scenario->requests[i].phase, phase) == 0)
            return &scenario->requests[i];
    return NULL;
}

/*
 * llama_session.c: keep the KV of your own engine. The engine here is libllama; yours takes its
 * place in four functions.
 *
 *      cc llama_session.c $(pkg-config --cflags --libs hearth llama ggml) -o llama_session
 *      ./llama_session model.gguf
 *
 * Four prompts: two and two share their instructions, and all four the beginning of these. What one
 * has computed it leaves in the cache; the next one finds it there, imports it, computes the rest,
 * and must come to exactly the logits of a run that computed everything.
 *
 * WHAT THE CACHE HAS TO KNOW about the state is its kind, and there are two ways to hold it here:
 *
 *      full attention    One row per token, and any prefix of them is a state. libhearth asks for
 *                        rows [begin, end) in whole blocks, shares them among all prompts that
 *                        begin alike, and may end a match at any token, even inside of a block.
 *      all others        (recurrent, hybrid, sliding windows.) The state cannot be cut, so the
 *                        whole of it is stored as a snapshot: good for exactly the tokens that it
 *                        was taken at. It has to be taken where prompts part: here, after the
 *                        instructions.
 *
 * With libllama the bytes of both come from llama_state_seq_get_data_ext and go back through
 * llama_state_seq_set_data_ext. To get at a range of rows it is copied to another sequence first;
 * in a unified cache (kv_unified) that moves no data.
 */
#include <hearth/hearth.h>

#include <ggml-backend.h>
#include <llama.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAIN = 0, TEMP = 1, SEQUENCES = 2 }; /* the prompt's sequence, and one to cut ranges with */
enum { CONTEXT = 4096, ANSWER_TOKENS = 8 };
enum {
    CHUNK = 64,   /* tokens computed at once */
    FORK = CHUNK, /* where the second instructions leave the first ones */
};

struct engine {
    struct llama_model *model;
    struct llama_context *context;
    llama_memory_t memory;
    bool rows; /* full attention: state can be cut */
};

static void die(const char *what)
{
    fprintf(stderr, "llama_session: %s\n", what);
    exit(1);
}

static void clear(struct engine *engine, llama_seq_id sequence)
{
    llama_memory_seq_rm(engine->memory, sequence, -1, -1);
}

/* ---- the four functions: capacity, export, import, and computing itself ---- */

/* An upper limit for the bytes of an object; 0 when there is no such object. */
static uint64_t capacity(enum hearth_object_kind kind, uint32_t begin, uint32_t end, void *arg)
{
    struct engine *engine = arg;

    if (kind == HEARTH_OBJECT_SLIDING)
        return 0;
    if (kind == HEARTH_OBJECT_SNAPSHOT)
        return llama_state_seq_get_size_ext(engine->context, MAIN, LLAMA_STATE_SEQ_FLAGS_NONE);
    llama_memory_seq_cp(engine->memory, MAIN, TEMP, (llama_pos)begin, (llama_pos)end);
    uint64_t bytes =
        llama_state_seq_get_size_ext(engine->context, TEMP, LLAMA_STATE_SEQ_FLAGS_NONE);
    clear(engine, TEMP);
    return bytes;
}

/* Writes straight into the memory where the object will stay: it is never copied again. The shape
 * is a small record of your own that comes back with the object, for what an import must know or
 * check; libllama's bytes describe themselves. */
static uint64_t export_to(enum hearth_object_kind kind, uint32_t begin, uint32_t end, void *memory,
                          uint64_t bytes, void *shape, size_t *shape_bytes, void *arg)
{
    struct engine *engine = arg;
    llama_seq_id from = kind == HEARTH_OBJECT_SNAPSHOT ? MAIN : TEMP;

    (void)shape;
    *shape_bytes = 0;
    if (from == TEMP)
        llama_memory_seq_cp(engine->memory, MAIN, TEMP, (llama_pos)begin, (llama_pos)end);
    size_t written = llama_state_seq_get_data_ext(engine->context, memory, bytes, from,
                                                  LLAMA_STATE_SEQ_FLAGS_NONE);
    if (from == TEMP)
        clear(engine, TEMP);
    return written; /* 0: it failed, and the cache goes without */
}

static bool import_one(struct engine *engine, const struct hearth_object *object, const void *data)
{
    llama_seq_id to = object->kind == HEARTH_OBJECT_SNAPSHOT ? MAIN : TEMP;

    if (llama_state_seq_set_data_ext(engine->context, data, object->bytes, to,
                                     LLAMA_STATE_SEQ_FLAGS_NONE) != object->bytes)
        return false;
    if (to == TEMP) {
        llama_memory_seq_cp(engine->memory, TEMP, MAIN, -1, -1);
        clear(engine, TEMP);
    }
    return true;
}

/* Makes a fresh sequence of exactly `boundary` tokens from the objects, or says no; then it is
 * asked again with a shorter boundary. */
static bool import(const struct hearth_object *objects, const void *const *data, size_t count,
                   uint32_t boundary, void *arg)
{
    struct engine *engine = arg;

    clear(engine, MAIN);
    for (size_t i = 0; i < count; i++) {
        /* Rows are shared, and those before may go on as another prompt did. */
        if (objects[i].kind == HEARTH_OBJECT_ROWS)
            llama_memory_seq_rm(engine->memory, MAIN, (llama_pos)objects[i].begin, -1);
        if (!import_one(engine, &objects[i], data[i])) {
            clear(engine, TEMP);
            clear(engine, MAIN);
            return false;
        }
    }
    if (engine->rows)
        llama_memory_seq_rm(engine->memory, MAIN, (llama_pos)boundary, -1);
    return llama_memory_seq_pos_max(engine->memory, MAIN) == (llama_pos)boundary - 1;
}

/* Computes tokens [begin, end); the sequence stands at begin. Chunks end at multiples of CHUNK,
 * wherever they begin: chunks of other sizes take other kernels, and then the last bits of the same
 * tokens' state differ. */
static void compute(struct engine *engine, llama_token *tokens, uint32_t begin, uint32_t end)
{
    while (begin < end) {
        uint32_t stop = begin - begin % CHUNK + CHUNK < end ? begin - begin % CHUNK + CHUNK : end;
        if (llama_decode(engine->context,
                         llama_batch_get_one(tokens + begin, (int32_t)(stop - begin))) != 0)
            die("llama_decode failed");
        begin = stop;
    }
}

/* ---- a prompt ---- */

struct prompt {
    llama_token tokens[CONTEXT];
    uint32_t count, shared; /* shared: tokens of the instructions at its beginning */
};

static void append(const struct engine *engine, struct prompt *prompt, const char *text)
{
    int32_t count = llama_tokenize(llama_model_get_vocab(engine->model), text,
                                   (int32_t)strlen(text), prompt->tokens + prompt->count,
                                   (int32_t)(CONTEXT - ANSWER_TOKENS - prompt->count),
                                   prompt->count == 0, false);

    if (count < 1)
        die("the prompt is too long for this example");
    prompt->count += (uint32_t)count;
}

static const char keeper[] = "You are the keeper of a lighthouse and answer the questions of "
                             "sailors. Speak plainly. Give bearings in degrees and distances "
                             "in nautical miles. When fog is reported, say so first. The light "
                             "shows two white flashes every fifteen seconds and is seen "
                             "eighteen miles away in clear weather. To the south there is a reef "
                             "which dries at low water; vessels pass it to the west, leaving "
                             "the red buoy to port. The harbour lies four miles east and has three "
                             "metres of water at all times.\n";
static const char at_night[] = "At night only the leading lights are to be trusted. Keep them in "
                               "line, the lower one below the upper one, and go slowly. Whoever "
                               "sees one of them alone has left the channel and must stop. The "
                               "pilot answers on channel twelve until midnight, and after that "
                               "nobody does; wait for the morning at the anchorage in the north, "
                               "which has good holding ground in nine metres.\n";

/* In parts, so that the beginning has the same tokens whatever follows. The second instructions
 * leave the first ones after FORK tokens. */
static void make_prompt(const struct engine *engine, struct prompt *prompt, bool night,
                        const char *question)
{
    prompt->count = 0;
    append(engine, prompt, keeper);
    if (night) {
        prompt->count = prompt->count < FORK ? prompt->count : FORK;
        append(engine, prompt, at_night);
    }
    prompt->shared = prompt->count;
    append(engine, prompt, question);
}

static double milliseconds(void)
{
    struct timespec now;

    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static size_t logits_bytes(const struct engine *engine)
{
    return (size_t)llama_vocab_n_tokens(llama_model_get_vocab(engine->model)) * sizeof(float);
}

static float *copy_logits(struct engine *engine)
{
    float *copy = malloc(logits_bytes(engine));

    if (copy == NULL)
        die("no memory");
    return memcpy(copy, llama_get_logits_ith(engine->context, -1), logits_bytes(engine));
}

/* Looks up, computes what is missing, stores what is new. Returns the tokens that were reused. */
static uint32_t run(struct engine *engine, struct hearth_space *space, struct prompt *prompt)
{
    const struct hearth_session_ops ops = {.struct_size = sizeof(ops),
                                           .import = import,
                                           .capacity = capacity,
                                           .export_to = export_to,
                                           .arg = engine};
    struct hearth_store_hints hints = {
        .struct_size = sizeof(hints), .entry = HEARTH_ENTRY_SYSTEM, .anchor = prompt->shared};
    uint64_t stored;
    uint32_t reused;

    if (hearth_session_lookup(space, &ops, prompt->tokens, prompt->count, NULL, &reused) !=
        HEARTH_OK)
        die("hearth_session_lookup failed");
    if (reused == 0)
        clear(engine, MAIN); /* of the prompt before, or of an import that did not work out */
    uint32_t at = reused;
    if (at < prompt->shared) {
        /* Others will begin like this. A state that cannot be cut is of use to them only if it is
         * stored now, before the question. */
        compute(engine, prompt->tokens, at, prompt->shared);
        at = prompt->shared;
        hearth_session_insert(space, &ops, prompt->tokens, at, &hints, &stored);
    }
    compute(engine, prompt->tokens, at, prompt->count);
    hints.entry = HEARTH_ENTRY_USER;
    hearth_session_insert(space, &ops, prompt->tokens, prompt->count, &hints, &stored);
    return reused;
}

/* The same without a cache. */
static void run_cold(struct engine *engine, struct prompt *prompt)
{
    clear(engine, MAIN);
    compute(engine, prompt->tokens, 0, prompt->shared);
    compute(engine, prompt->tokens, prompt->shared, prompt->count);
}

/* The most likely tokens, one after another: the sequence stands at the end of the prompt. */
static void answer(struct engine *engine)
{
    const struct llama_vocab *vocab = llama_model_get_vocab(engine->model);
    struct llama_sampler *greedy = llama_sampler_init_greedy();
    char piece[64];

    printf(", answer:");
    for (int i = 0; i < ANSWER_TOKENS; i++) {
        llama_token token = llama_sampler_sample(greedy, engine->context, -1);
        if (llama_vocab_is_eog(vocab, token))
            break;
        int32_t length = llama_token_to_piece(vocab, token, piece, sizeof(piece), 0, false);
        putchar(' ');
        for (int32_t k = 0; k < length; k++)
            putchar(piece[k] >= ' ' && piece[k] < 127 ? piece[k] : '.');
        compute(engine, &token, 0, 1);
    }
    putchar('\n');
    llama_sampler_free(greedy);
}

/* ---- opening ---- */

static void quiet(enum ggml_log_level level, const char *text, void *arg)
{
    (void)arg;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static struct engine open_engine(const char *path, const char *backends)
{
    struct llama_context_params params = llama_context_default_params();
    struct engine engine;

    llama_log_set(quiet, NULL);
    if (backends != NULL)
        ggml_backend_load_all_from_path(backends);
    else
        ggml_backend_load_all();
    engine.model = llama_model_load_from_file(path, llama_model_default_params());
    if (engine.model == NULL)
        die("the model cannot be loaded");
    params.n_ctx = CONTEXT;
    params.n_batch = params.n_ubatch = CHUNK;
    params.n_seq_max = SEQUENCES;
    params.kv_unified = true;
    engine.context = llama_init_from_model(engine.model, params);
    if (engine.context == NULL)
        die("no context");
    engine.memory = llama_get_memory(engine.context);
    engine.rows = !llama_model_is_recurrent(engine.model) && !llama_model_is_hybrid(engine.model) &&
                  llama_model_n_swa(engine.model) == 0;
    return engine;
}

/* Two programs, or two runs of one, share state only when the fingerprint is the same: everything
 * that gives the bytes their meaning belongs into it. This cache dies with the process, so telling
 * models apart is enough; one on disk needs a hash of the weights. */
static void fingerprint(const struct engine *engine, unsigned char out[HEARTH_KEY_BYTES])
{
    char name[96];
    uint64_t hash = 14695981039346656037u;

    llama_model_desc(engine->model, name, sizeof(name));
    for (const char *c = name; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    uint64_t facts[] = {hash, llama_model_size(engine->model), llama_model_n_params(engine->model),
                        LLAMA_STATE_SEQ_VERSION};
    _Static_assert(sizeof(facts) == HEARTH_KEY_BYTES, "fills it");
    memcpy(out, facts, sizeof(facts));
}

static struct hearth_space *open_space(struct hearth_cache *cache, const struct engine *engine)
{
    struct hearth_model model = {.struct_size = sizeof(model),
                                 .kinds = engine->rows ? HEARTH_KIND_FULL : HEARTH_KIND_RECURRENT};
    struct hearth_space *space;

    fingerprint(engine, model.fingerprint);
    int error = hearth_space_open(cache, &model, "", 0, &space);
    if (error != HEARTH_OK)
        die(hearth_error_text(error));
    return space;
}

/* Runs a prompt with the cache and without; false when the two are not the same. */
static bool compare(struct engine *engine, struct hearth_space *space, struct prompt *prompt,
                    uint32_t *reused)
{
    double start = milliseconds();

    *reused = run(engine, space, prompt);
    double warm_ms = milliseconds() - start;
    float *warm = copy_logits(engine);
    answer(engine);
    start = milliseconds();
    run_cold(engine, prompt);
    double cold_ms = milliseconds() - start;
    float *cold = copy_logits(engine);
    bool same = memcmp(warm, cold, logits_bytes(engine)) == 0;
    printf("  %u tokens, %u reused: %.1f ms, cold %.1f ms; logits %s\n", prompt->count, *reused,
           warm_ms, cold_ms, same ? "equal" : "DIFFER");
    free(warm);
    free(cold);
    return same;
}

int main(int argc, char **argv)
{
    static const struct {
        bool night;
        const char *question;
    } prompts[] = {
        {false, "How do I pass the reef?\n"},
        {false, "What is the depth of the harbour?\n"},
        {true, "How do I pass the reef?\n"},
        {true, "What is the depth of the harbour?\n"},
    };
    struct hearth_options options = {
        .struct_size = sizeof(options),
        .ram_bytes = 1u << 30, /* for state, index and books */
        .block_tokens = 16,    /* 256 when not said; small here, as these prompts are */
    };
    struct hearth_cache *cache;
    char message[HEARTH_MESSAGE_BYTES];
    struct prompt prompt;
    bool fine = true;

    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: llama_session MODEL.gguf [FOLDER OF GGML'S BACKENDS]\n");
        return 2;
    }
    struct engine engine = open_engine(argv[1], argv[2]);
    if (hearth_open(&cache, &options, message) != HEARTH_OK)
        die(message);
    struct hearth_space *space = open_space(cache, &engine);
    printf("state is held as %s\n", engine.rows ? "rows" : "snapshots");
    for (int i = 0; i < 4; i++) {
        uint32_t reused;
        make_prompt(&engine, &prompt, prompts[i].night, prompts[i].question);
        printf("prompt %d", i + 1);
        fine = compare(&engine, space, &prompt, &reused) && fine;
        /* The second question to the same instructions finds all of them. */
        if (i % 2 == 1)
            fine = reused == prompt.shared && fine;
    }
    hearth_space_close(&space);
    hearth_close(&cache);
    llama_free(engine.context);
    llama_model_free(engine.model);
    printf("%s\n", fine ? "every answer is that of a cold run, bit by bit" : "something is wrong");
    return fine ? 0 : 1;
}

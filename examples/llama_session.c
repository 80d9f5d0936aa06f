/*
 * llama_session.c: keep the KV of your own engine. The engine here is libllama; yours takes its place in four functions.
 *
 *      cc llama_session.c $(pkg-config --cflags --libs hearth llama ggml) -o llama_session
 *      ./llama_session model.gguf
 *
 * Two prompts share a long beginning. The first one computes it and leaves its state in the cache; the second one finds it there, imports
 * it, computes the rest, and must come to exactly the logits of a run that computed everything.
 *
 * WHAT THE CACHE HAS TO KNOW about the state is its kind, and there are two ways to hold it here:
 *
 *      full attention    One row per token, and any prefix of them is a state. libhearth asks for rows [begin, end) in whole blocks, shares
 *                        them among all prompts that begin alike, and may end a match at any token, even inside of a block.
 *      all others        (recurrent, hybrid, sliding windows.) The state cannot be cut, so the whole of it is stored as a snapshot: good
 *                        for exactly the tokens that it was taken at. It has to be taken where prompts part: here, after the instructions.
 *
 * With libllama the bytes of both come from llama_state_seq_get_data_ext and go back through llama_state_seq_set_data_ext. To get at a range
 * of rows it is copied to another sequence first; in a unified cache (kv_unified) that moves no data.
 */
#include <hearth/hearth.h>

#include <ggml-backend.h>
#include <llama.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAIN = 0, TEMP = 1, SEQUENCES = 2 }; /* the prompt's sequence, and one to cut ranges with */
enum { CONTEXT = 4096, BATCH = 512, ANSWER_TOKENS = 16 };

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

    if (kind == HEARTH_OBJECT_SNAPSHOT)
        return llama_state_seq_get_size_ext(engine->context, MAIN, LLAMA_STATE_SEQ_FLAGS_NONE);
    llama_memory_seq_cp(engine->memory, MAIN, TEMP, (llama_pos)begin, (llama_pos)end);
    uint64_t bytes =
        llama_state_seq_get_size_ext(engine->context, TEMP, LLAMA_STATE_SEQ_FLAGS_NONE);
    clear(engine, TEMP);
    return bytes;
}

/* Writes straight into the memory where the object will stay: it is never copied again. The shape is a small record of your own that comes
 * back with the object, for what an import must know or check; libllama's bytes describe themselves. */
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

/* Makes a fresh sequence of exactly `boundary` tokens from the objects, or says no; then it is asked again with a shorter boundary. */
static bool import(const struct hearth_object *objects, const void *const *data, size_t count,
                   uint32_t boundary, void *arg)
{
    struct engine *engine = arg;

    clear(engine, MAIN);
    for (size_t i = 0; i < count; i++)
        if (!import_one(engine, &objects[i], data[i])) {
            clear(engine, TEMP);
            clear(engine, MAIN);
            return false;
        }
    /* The last rows may go further than this prompt does. */
    if (engine->rows)
        llama_memory_seq_rm(engine->memory, MAIN, (llama_pos)boundary, -1);
    return llama_memory_seq_pos_max(engine->memory, MAIN) == (llama_pos)boundary - 1;
}

/* Computes tokens [begin, end); the sequence stands at begin. */
static void compute(struct engine *engine, llama_token *tokens, uint32_t begin, uint32_t end)
{
    for (uint32_t n; begin < end; begin += n) {
        n = end - begin < BATCH ? end - begin : BATCH;
        if (llama_decode(engine->context, llama_batch_get_one(tokens + begin, (int32_t)n)) != 0)
            die("llama_decode failed");
    }
}

/* ---- a prompt ---- */

struct prompt {
    llama_token tokens[CONTEXT];
    uint32_t count, shared; /* shared: tokens of the instructions at its beginning */
};

static uint32_t tokenize(const struct engine *engine, const char *text, bool begin,
                         llama_token *tokens, uint32_t room)
{
    int32_t count = llama_tokenize(llama_model_get_vocab(engine->model), text,
                                   (int32_t)strlen(text), tokens, (int32_t)room, begin, false);

    if (count < 1)
        die("the prompt is too long for this example");
    return (uint32_t)count;
}

/* In two parts, so that the beginning has the same tokens whatever follows. */
static struct prompt make_prompt(const struct engine *engine, const char *question)
{
    static const char instructions[] =
        "You are the keeper of a lighthouse and answer the questions of sailors. Speak plainly. "
        "Give bearings in degrees and "
        "distances in nautical miles. When fog is reported, say so first. The light shows two "
        "white flashes every fifteen seconds "
        "and is seen eighteen miles away in clear weather. To the south there is a reef which "
        "dries at low water; vessels pass it "
        "to the west, leaving the red buoy to port. The harbour lies four miles east and has three "
        "metres of water at all times.\n";
    struct prompt prompt;

    prompt.shared = tokenize(engine, instructions, true, prompt.tokens, CONTEXT - ANSWER_TOKENS);
    prompt.count = prompt.shared + tokenize(engine, question, false, prompt.tokens + prompt.shared,
                                            CONTEXT - ANSWER_TOKENS - prompt.shared);
    return prompt;
}

static double milliseconds(void)
{
    struct timespec now;

    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static float *copy_logits(struct engine *engine)
{
    size_t bytes =
        (size_t)llama_vocab_n_tokens(llama_model_get_vocab(engine->model)) * sizeof(float);
    float *copy = malloc(bytes);

    if (copy == NULL)
        die("no memory");
    return memcpy(copy, llama_get_logits_ith(engine->context, -1), bytes);
}

/* Looks up, computes what is missing, stores what is new. The logits of the last token are the caller's. */
static float *run(struct engine *engine, struct hearth_space *space, struct prompt *prompt,
                  uint32_t *reused)
{
    const struct hearth_session_ops ops = {.struct_size = sizeof(ops),
                                           .import = import,
                                           .capacity = capacity,
                                           .export_to = export_to,
                                           .arg = engine};
    struct hearth_store_hints hints = {
        .struct_size = sizeof(hints), .entry = HEARTH_ENTRY_SYSTEM, .anchor = prompt->shared};
    uint64_t stored = 0, more = 0;
    double start = milliseconds();

    clear(engine, MAIN);
    if (hearth_session_lookup(space, &ops, prompt->tokens, prompt->count, reused) != HEARTH_OK)
        die("hearth_session_lookup failed");
    if (*reused == 0) /* what was touched by an import that did not work out */
        clear(engine, MAIN);
    uint32_t at = *reused;
    if (at < prompt->shared) {
        /* Others will begin like this: stop here once, so that a state which cannot be cut is held for just these tokens. */
        compute(engine, prompt->tokens, at, prompt->shared);
        at = prompt->shared;
        hearth_session_insert(space, &ops, prompt->tokens, at, &hints, &stored);
    }
    compute(engine, prompt->tokens, at, prompt->count);
    float *logits = copy_logits(engine);
    double end = milliseconds();
    hints.entry = HEARTH_ENTRY_USER;
    hearth_session_insert(space, &ops, prompt->tokens, prompt->count, &hints, &more);
    printf("%u tokens, %u reused, %.1f ms, %llu bytes stored\n", prompt->count, *reused,
           end - start, (unsigned long long)(stored + more));
    return logits;
}

/* The same without a cache. Cut where the other run was cut: chunks of other sizes take other kernels, and the last bits differ. */
static float *run_cold(struct engine *engine, struct prompt *prompt, uint32_t cut)
{
    clear(engine, MAIN);
    compute(engine, prompt->tokens, 0, cut);
    compute(engine, prompt->tokens, cut, prompt->count);
    return copy_logits(engine);
}

/* The most likely tokens, one after another: the sequence stands at the end of the prompt. */
static void answer(struct engine *engine)
{
    const struct llama_vocab *vocab = llama_model_get_vocab(engine->model);
    struct llama_sampler *greedy = llama_sampler_init_greedy();
    char piece[64];

    printf("  answer:");
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
    params.n_batch = params.n_ubatch = BATCH;
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

/* Two programs, or two runs of one, share state only when the fingerprint is the same: everything that gives the bytes their meaning
 * belongs into it. This cache dies with the process, so telling models apart is enough; one on disk needs a hash of the weights. */
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

int main(int argc, char **argv)
{
    struct hearth_options options = {
        .struct_size = sizeof(options),
        .ram_bytes = 1u << 30, /* of everything, the library's own books included */
        .block_tokens =
            64, /* what prompts share is a multiple of it; small, as these prompts are */
    };
    struct hearth_cache *cache;
    char message[HEARTH_MESSAGE_BYTES];
    uint32_t reused;

    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: llama_session MODEL.gguf [FOLDER OF GGML'S BACKENDS]\n");
        return 2;
    }
    struct engine engine = open_engine(argv[1], argv[2]);
    if (hearth_open(&cache, &options, message) != HEARTH_OK)
        die(message);
    struct hearth_space *space = open_space(cache, &engine);
    struct prompt first = make_prompt(&engine, "How do I pass the reef?\n");
    struct prompt second = make_prompt(&engine, "What is the depth of the harbour?\n");

    printf("state: %s\nfirst prompt: ", engine.rows ? "rows, cut anywhere" : "snapshots");
    free(run(&engine, space, &first, &reused));
    answer(&engine);
    printf("second prompt: ");
    float *warm = run(&engine, space, &second, &reused);
    answer(&engine);
    float *cold = run_cold(&engine, &second, reused);
    bool equal = memcmp(warm, cold,
                        (size_t)llama_vocab_n_tokens(llama_model_get_vocab(engine.model)) *
                            sizeof(float)) == 0;
    printf("logits of the second prompt: %s\n",
           equal ? "equal to a cold run, bit by bit" : "NOT those of a cold run");

    free(warm);
    free(cold);
    hearth_space_close(&space);
    hearth_close(&cache);
    llama_free(engine.context);
    llama_model_free(engine.model);
    return equal && reused >= second.shared ? 0 : 1;
}

/*
 * vet.c: see the header.
 *
 * Passes are keys of 32 bytes, one after the other in a file of the state folder; a damaged or lost
 * key only costs a second vetting. There are two kinds of keys: of a file with its options, and of
 * an architecture's form (the names of its keys), which is what decides the class of the library's
 * memory and so whether the self-test must be run.
 */
#include "engine/vet.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/backend.h"
#include "engine/engine.h"
#include "engine/gguf_file.h"
#include "engine/worker_memory.h"
#include "engine/worker_process.h"

enum { PASSES_MAX = 1024, REFUSALS_MAX = 64, SILENCE_MS = 120000 };

static const char passes_name[] = "vetted";

/* The release that tests/fidelity ran these architectures with. With any other release, each is
 * vetted in full once. */
static const char tested_release[] = "0.7.0";

/* Sorted. tests/engine/vet_test.c compares them with the families of lab/model_families.c. */
/* clang-format off */
static const char *const tested[] = {
    "afmoe", "apertus", "arcee", "arctic", "baichuan", "bailingmoe", "bailingmoe2", "bailingmoe3",
    "bitnet", "bloom", "chatglm", "codeshell", "cogvlm", "cohere2", "cohere2moe", "command-r",
    "dbrx", "deci", "deepseek", "deepseek2", "deepseek2-ocr", "deepseek32", "deepseek4", "dots1",
    "dots3note", "ernie4_5", "ernie4_5-moe", "exaone", "exaone-moe", "exaone4", "falcon",
    "falcon-h1", "gemma", "gemma2", "gemma3", "gemma3n", "gemma4", "glm-dsa", "glm4", "glm4moe",
    "glm5-next", "gpt-oss", "gpt2", "gptneox", "granite", "granite_swa", "granitehybrid",
    "granitemoe", "graniteswitch", "grok", "grovemoe", "hrm_text", "hunyuan-dense", "hunyuan-moe",
    "hunyuan_vl", "hy_v3", "hy_v4", "internlm2", "jais", "jais2", "jamba", "k2-horizon", "kimi-k3",
    "kimi-linear", "laguna", "lfm2", "lfm2moe", "llama", "llama4", "maincoder", "maion-coder",
    "mamba", "mamba2", "maple", "mellum", "mimo2", "minicpm", "minicpm3", "minimax-m2",
    "minimax-m3", "mistral3", "mistral4", "mpt", "muse-glimmer", "nanbeige", "nemotron",
    "nemotron_h", "nemotron_h_moe", "olmo", "olmo2", "olmoe", "openelm", "orion", "paddleocr",
    "pangu-embedded", "phi2", "phi3", "phimoe", "plamo", "plamo2", "plamo3", "pockettts", "qwen",
    "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen35", "qwen35moe", "qwen3moe", "qwen3next",
    "qwen3vl", "qwen3vlmoe", "qwen4exp", "refact", "rwkv7", "seed_oss", "smallthinker", "smollm3",
    "spark2_5", "stablelm", "starcoder", "starcoder2", "step35", "talkie", "xverse",
};
/* clang-format on */

/* Faults of the program, which the same file would cause again; not a kill from outside, such as
 * the kernel's out-of-memory killer. SIGBUS is one as well, and has its own handler (bus_error). */
static const int faults[] = {SIGABRT, SIGSEGV, SIGFPE, SIGILL};

struct refusal {
    struct hash256 key;
    struct errinfo info;
};

struct vet {
    struct vet_options options;
    struct hash256 passes[PASSES_MAX]; /* the oldest first */
    size_t passes_count;
    struct refusal refusals[REFUSALS_MAX];
    size_t refusals_made;       /* a ring */
    struct engine_options load; /* as the child is told to */
    unsigned char message[WORKER_MESSAGE_BYTES_MAX];
};

/* ---- what is remembered ---- */

static bool has_passed(const struct vet *vet, const struct hash256 *key)
{
    for (size_t i = 0; i < vet->passes_count; i++)
        if (hash256_eq(&vet->passes[i], key))
            return true;
    return false;
}

static void add_pass(struct vet *vet, const struct hash256 *key)
{
    if (has_passed(vet, key))
        return;
    if (vet->passes_count == PASSES_MAX)
        memmove(vet->passes, vet->passes + 1, --vet->passes_count * sizeof(*vet->passes));
    vet->passes[vet->passes_count++] = *key;
}

static void save_passes(const struct vet *vet)
{
    struct errinfo info = {0};

    if (vet->options.dir != FILE_NO &&
        file_replace(vet->options.fs, vet->options.dir, passes_name, vet->passes,
                     vet->passes_count * sizeof(*vet->passes), 0600, &info) != ERR_OK)
        LOG_WARN(vet->options.log, "engine", "that a model was vetted is not remembered",
                 LOG_STR("reason", info.text));
}

static void load_passes(struct vet *vet)
{
    char *data;
    size_t len;

    if (vet->options.dir == FILE_NO ||
        file_read_all(vet->options.fs, vet->options.dir, passes_name, sizeof(vet->passes), &data,
                      &len, NULL) != ERR_OK)
        return; /* start with an empty list */
    vet->passes_count = len / sizeof(*vet->passes);
    memcpy(vet->passes, data, vet->passes_count * sizeof(*vet->passes));
    mem_free(data);
}

static const struct errinfo *find_refusal(const struct vet *vet, const struct hash256 *key)
{
    for (size_t i = 0; i < MIN(vet->refusals_made, REFUSALS_MAX); i++)
        if (hash256_eq(&vet->refusals[i].key, key))
            return &vet->refusals[i].info;
    return NULL;
}

static void add_refusal(struct vet *vet, const struct hash256 *key, const struct errinfo *info)
{
    vet->refusals[vet->refusals_made++ % REFUSALS_MAX] = (struct refusal){*key, *info};
}

/* ---- keys ---- */

static void begin_key(struct hash256_state *state, const char *what)
{
    const char *const texts[] = {what, engine_library_version(), engine_ggml_version()};

    hash256_init(state);
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        hash256_update_framed(state, texts[i], strlen(texts[i]));
}

static struct hash256 form_key(const struct gguf_file *file)
{
    struct hash256_state state;

    begin_key(&state, "hearth vet: form");
    gguf_file_hash_form(file, &state);
    return hash256_final(&state);
}

static enum err hash_path(const char *path, struct hash256_state *state, struct errinfo *info)
{
    struct gguf_file *file;

    TRY(gguf_file_open(&file, path, info));
    enum err err = gguf_file_hash_header(file, state, info);
    gguf_file_close(&file);
    return err;
}

/* Fails as the load would (load_llama.c). */
static enum err hash_adapter(const char *path, struct hash256_state *state, struct errinfo *info)
{
    if (hash_path(path, state, info) == ERR_OK)
        return ERR_OK;
    return err_wrap(info, ERR_ENGINE, "cannot load the adapter %.200s", path);
}

/* `message` has the options, the paths among them. */
static enum err file_key(const struct vet *vet, const struct gguf_file *file, size_t len,
                         struct hash256 *key, struct errinfo *info)
{
    const struct engine_options *options = &vet->load;
    struct hash256_state state;

    begin_key(&state, "hearth vet: file");
    TRY(gguf_file_hash_header(file, &state, info));
    hash256_update_framed(&state, vet->message, len);
    for (size_t i = 0; i < options->adapters_count; i++)
        TRY(hash_adapter(options->adapters[i].path, &state, info));
    if (options->projector != NULL)
        TRY(hash_path(options->projector, &state, info));
    *key = hash256_final(&state);
    return ERR_OK;
}

bool vet_is_tested(const char *architecture)
{
    for (size_t i = 0; i < COUNT_OF(tested); i++)
        if (strcmp(tested[i], architecture) == 0)
            return strcmp(engine_library_version(), tested_release) == 0;
    return false;
}

static bool is_known(const struct vet *vet, const struct gguf_file *file,
                     const struct hash256 *form)
{
    return vet_is_tested(gguf_file_architecture(file)) || has_passed(vet, form);
}

/* ---- the child ---- */

/* The load that follows shows its progress; here the callback only tells whether to continue. */
static bool on_progress(float done, void *arg)
{
    const struct engine_options *options = arg;

    (void)done;
    return options->on_progress == NULL || options->on_progress(0, options->arg);
}

static enum err ask_child(struct vet *vet, struct worker_process *process, size_t len, int control,
                          const struct engine_options *options, struct worker_reply *reply,
                          struct errinfo *info)
{
    struct worker_wait wait = {.what = "vetting",
                               .silence_ms = SILENCE_MS,
                               .on_progress = on_progress,
                               .progress_arg = (void *)options};

    TRY(worker_process_call(process, vet->message, len, control, 0, &wait, reply, info));
    return reply->err == ERR_OK ? ERR_OK : err_set(info, reply->err, "%s", reply->text);
}

static bool is_fault(int signal)
{
    for (size_t i = 0; i < COUNT_OF(faults); i++)
        if (faults[i] == signal)
            return true;
    return signal == SIGBUS;
}

static enum err run_child(struct vet *vet, size_t len, const struct engine_options *options,
                          const struct gguf_file *file, bool *fault, struct errinfo *info)
{
    struct worker_memory *memory = worker_memory_create();
    struct worker_control *control = worker_memory_alloc(sizeof(*control), memory);
    struct worker_process_options process_options = {.program = vet->options.program,
                                                     .name = file_base_name(options->path),
                                                     .control = control,
                                                     .log = vet->options.log};
    struct worker_process *process = NULL;
    struct worker_segment segment;
    struct worker_reply *reply = mem_alloc(sizeof(*reply));
    enum err err = ERR_NOMEM;

    if (control == NULL || !worker_memory_find(memory, control, sizeof(*control), &segment))
        err_set(info, err, "no shared memory for a process that vets a model");
    else
        err = worker_process_start(&process, &process_options, info);
    if (err == ERR_OK)
        err = ask_child(vet, process, len, segment.fd, options, reply, info);
    *fault = process != NULL && is_fault(worker_process_signal(process));
    if (*fault)
        err = err_set(info, ERR_UNSUPPORTED, "libllama %s aborts on it (architecture %s): %s",
                      engine_library_version(), gguf_file_architecture(file),
                      worker_process_death(process));
    worker_process_stop(&process);
    worker_memory_free(control, memory);
    worker_memory_destroy(&memory);
    mem_free(reply);
    return err;
}

/* ---- a load without a child ---- */

static char guard_text[512];
static struct sigaction guard_before[COUNT_OF(faults)];

static void on_fault(int signal)
{
    ssize_t sent = write(STDERR_FILENO, guard_text, strlen(guard_text));

    (void)sent; /* there is nowhere else to report it */
    (void)signal;
    _exit(VET_FAULT_EXIT);
}

static void begin_guard(const struct gguf_file *file, const char *path)
{
    struct sigaction action = {.sa_handler = on_fault};

    snprintf(
        guard_text, sizeof(guard_text),
        "\nhearth: libllama %s aborts on %.256s (architecture %.64s): the file or its projector "
        "is damaged, or this release cannot load it\n",
        engine_library_version(), path, gguf_file_architecture(file));
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < COUNT_OF(faults); i++)
        (void)sigaction(faults[i], &action, &guard_before[i]); /* fails for invalid numbers only */
}

static void end_guard(void)
{
    for (size_t i = 0; i < COUNT_OF(faults); i++)
        (void)sigaction(faults[i], &guard_before[i], NULL);
}

static enum err load_guarded(struct vet *vet, const struct engine_options *options,
                             const struct gguf_file *file, const struct hash256 *key,
                             struct engine **engine, struct errinfo *info)
{
    struct engine_options first = *options;

    first.trial = true;
    begin_guard(file, options->path);
    enum err err = engine_load(engine, &first, info);
    end_guard();
    if (err == ERR_OK) {
        add_pass(vet, key);
        save_passes(vet);
    }
    return err;
}

/* ---- all of it ---- */

static enum err ask(struct vet *vet, const struct engine_options *options,
                    const struct gguf_file *file, const struct hash256 *key,
                    const struct hash256 *form, struct errinfo *info)
{
    bool fault = false;
    size_t len = worker_load_encode(&vet->load, vet->message);
    enum err err = run_child(vet, len, options, file, &fault, info);

    if (fault)
        add_refusal(vet, key, info);
    if (err != ERR_OK)
        return err;
    add_pass(vet, key);
    if (!vet->load.dry)
        add_pass(vet, form);
    save_passes(vet);
    return ERR_OK;
}

static enum err load_file(struct vet *vet, const struct engine_options *options, bool alone,
                          const struct gguf_file *file, struct engine **engine,
                          struct errinfo *info)
{
    struct hash256 form = form_key(file), key;

    vet->load = *options;
    vet->load.dry = false; /* how it is vetted is not part of the key */
    size_t len = worker_load_encode(&vet->load, vet->message);
    if (len == 0)
        return err_set(info, ERR_LIMIT,
                       "the paths and adapters of a model are too long for its process");
    TRY(file_key(vet, file, len, &key, info));
    if (has_passed(vet, &key))
        return engine_load(engine, options, info);
    const struct errinfo *refused = find_refusal(vet, &key);
    if (refused != NULL) {
        *info = *refused;
        return refused->code;
    }
    bool usual = is_known(vet, file, &form) && gguf_file_is_ordinary(file);
    if (alone && usual)
        return load_guarded(vet, options, file, &key, engine, info);
    /* Adapters are applied to weights, so they need them. */
    vet->load.dry = usual && options->adapters_count == 0;
    vet->load.trial = true;
    TRY(ask(vet, options, file, &key, &form, info));
    return engine_load(engine, options, info);
}

enum err vet_load(struct vet *vet, const struct engine_options *options, bool alone,
                  struct engine **engine, struct errinfo *info)
{
    struct gguf_file *file;
    struct errinfo own = {0};

    *engine = NULL;
    TRY(gguf_file_open(&file, options->path, info));
    enum err err = load_file(vet, options, alone, file, engine, info != NULL ? info : &own);
    gguf_file_close(&file);
    return err;
}

struct vet *vet_create(const struct vet_options *options)
{
    struct vet *vet = mem_alloc(sizeof(*vet));

    vet->options = *options;
    load_passes(vet);
    return vet;
}

void vet_destroy(struct vet **vet)
{
    mem_free(*vet);
    *vet = NULL;
}

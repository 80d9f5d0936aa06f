/*
 * load_llama.c: a model file becomes an engine: checks before the library reads it, the library's
 * model and context, adapters, the projector, facts and the fingerprint.
 */
#include "engine/engine_llama.h"

#include <stdio.h>
#include <string.h>

#include "base/bus_error.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/sysinfo.h"
#include "base/units.h"
#include "engine/backend.h"
#include "engine/context_room.h"
#include "engine/fingerprint.h"
#include "engine/gguf_check.h"
#include "engine/gguf_file.h"
#include "engine/projector.h"
#include "engine/rpc.h"

#define DIGEST_REPORT_NS (100 * NS_PER_MS)

struct load {
    const struct engine_options *options;
    bool vocab_only;
    struct gguf_file *file;
    struct gguf_file **adapters;
    struct gguf_file *projector;    /* NULL: none */
    struct file_digest *digest;     /* of all files; computed while the library loads them */
    ggml_backend_dev_t devices[17]; /* ended by NULL */
    float loaded;                   /* 0..1, by the library */
    bool known;                     /* digests of all files were cached */
    bool cancelled;
};

/* If files must be hashed, hashing counts as half of the progress. */
static float progress_of(const struct load *load)
{
    uint64_t bytes = load->digest != NULL ? file_digest_bytes(load->digest) : 0;

    if (bytes == 0)
        return load->loaded;
    return (load->loaded + (float)((double)file_digest_read(load->digest) / (double)bytes)) / 2;
}

static bool report_progress(struct load *load)
{
    if (load->options->on_progress == NULL ||
        load->options->on_progress(progress_of(load), load->options->arg))
        return true;
    load->cancelled = true;
    return false;
}

static bool on_progress(float done, void *arg)
{
    struct load *load = arg;

    load->loaded = done;
    return report_progress(load);
}

static enum err was_cancelled(const struct load *load, struct errinfo *info)
{
    return err_set(info, ERR_CANCELLED, "loading %s was cancelled", load->options->path);
}

/* Of the GPUs that may take a part of the weights. Asking a driver takes memory there, so a process
 * that has the vocabulary alone does not. */
static struct backend_memory device_memory(const struct load *load)
{
    bool used = load->options->gpu_layers >= 0 && !load->vocab_only;

    return used ? backend_device_memory() : (struct backend_memory){0, 0};
}

/* Of all weights; adapters are small. */
static uint64_t weights_bytes(const struct load *load)
{
    uint64_t projector = load->projector != NULL ? gguf_file_bytes(load->projector) : 0;

    return gguf_file_bytes(load->file) + projector;
}

static enum err check_memory(const struct load *load, struct errinfo *info)
{
    uint64_t limit = load->options->memory_max ? load->options->memory_max : sysinfo_memory_total();
    limit += MIN(device_memory(load).free, UINT64_MAX - limit);
    uint64_t need = weights_bytes(load);
    char needs[UNITS_TEXT_BYTES], has[UNITS_TEXT_BYTES];

    if (need <= limit)
        return ERR_OK;
    return err_set(info, ERR_LIMIT,
                   "%s needs %s for its weights alone, %s are allowed. Use a smaller quantization",
                   load->options->path, units_format_size(need, needs),
                   units_format_size(limit, has));
}

/* Once before the weights are loaded, and again when it is known whether there are windows. Rows of
 * other machines are theirs to check, and encoders have none. */
static enum err check_context(const struct load *load, bool windows, struct errinfo *info)
{
    const struct engine_options *options = load->options;
    uint64_t limit = options->memory_max ? options->memory_max : sysinfo_memory_total();
    uint64_t weights = MIN(weights_bytes(load), limit);
    uint64_t trained = gguf_file_arch_uint(load->file, "context_length", CONTEXT_DEFAULT_MAX);
    uint64_t tokens = options->context ? options->context : MIN(trained, CONTEXT_DEFAULT_MAX);

    if (load->vocab_only || options->rpc != NULL || embed_llama_is_encoder(load->file))
        return ERR_OK;
    uint64_t room = MIN(limit - weights, sysinfo_memory_available());
    room += MIN(device_memory(load).free, UINT64_MAX - room);
    return context_check_room(load->file, options, windows, (uint32_t)tokens, room, info);
}

static enum err choose_devices(struct load *load, struct errinfo *info)
{
    struct str rest = str_from(load->options->devices), name;
    size_t count = 0;

    while (str_next(&rest, ',', &name)) {
        char text[64];
        snprintf(text, sizeof(text), STR_FMT, STR_ARG(name));
        ggml_backend_dev_t device = ggml_backend_dev_by_name(text);
        if (device == NULL)
            return err_set(info, ERR_NOT_FOUND,
                           "there is no device '%s'; `hearth doctor` lists those that are", text);
        if (count + 1 == COUNT_OF(load->devices))
            return err_set(info, ERR_LIMIT, "more than %zu devices", COUNT_OF(load->devices) - 1);
        load->devices[count++] = device;
    }
    return ERR_OK;
}

/* Clients see these messages, so they name no path. */
static enum err check_kind(const struct engine_llama *llama, const struct load *load,
                           struct errinfo *info)
{
    const char *why = NULL;

    if (llama_model_has_encoder(llama->model))
        why = "encodes its input in a pass of its own, as T5 does";
    else if (llama_model_is_diffusion(llama->model))
        why = "generates by diffusion, not one token after the other";
    else if (!llama_model_has_decoder(llama->model))
        why = "is neither a decoder nor an encoder of text";
    if (why == NULL)
        return ERR_OK;
    return err_set(info, ERR_UNSUPPORTED,
                   "its architecture, %s, %s; hearth serves decoders (text) and encoders "
                   "(embeddings)",
                   gguf_file_architecture(load->file), why);
}

/* Whether weights must not be in the buffers that the processor's backend arranges for AMX (ggml
 * 0.27): those are right for a matrix times a matrix only. With three-dimensional weights (latent
 * attention, grouped outputs) the library aborts. Three-dimensional inputs, as recurrent layers have
 * them for several sequences and inputs per layer always, give wrong logits: the library takes the
 * next matrix for each of their planes, and reads past the end of the weights. */
static bool needs_plain_weights(const struct load *load)
{
    static const char *const keys[] = {"attention.key_length_mla",
                                       "attention.output_group_count",
                                       "ssm.conv_kernel",
                                       "shortconv.l_cache",
                                       "wkv.head_size",
                                       "embedding_length_per_layer_input"};

    for (size_t i = 0; i < COUNT_OF(keys); i++)
        if (gguf_file_has_arch_key(load->file, keys[i]))
            return true;
    return false;
}

static bool has_amx(void)
{
    return backend_has_feature("AMX_INT8");
}

static enum err load_model(struct engine_llama *llama, struct load *load, struct errinfo *info)
{
    const struct engine_options *options = load->options;
    struct llama_model_params params = llama_model_default_params();

    if (options->rpc != NULL && !load->vocab_only && !options->dry)
        TRY(rpc_add_servers(options->rpc, info));
    TRY(choose_devices(load, info));
    if (load->devices[0] != NULL)
        params.devices = load->devices;
    params.n_gpu_layers = options->gpu_layers == 0 ? -1 : MAX(options->gpu_layers, 0);
    params.vocab_only = load->vocab_only;
    if (options->no_mmap || options->dry)
        params.load_mode = LLAMA_LOAD_MODE_NONE;
    params.no_alloc = options->dry;
    params.use_extra_bufts = params.use_extra_bufts && !(needs_plain_weights(load) && has_amx());
    /* Values that are not numbers: looked for when the file is read anyway, for its digest. */
    params.check_tensors = load->digest != NULL && file_digest_bytes(load->digest) > 0;
    params.progress_callback = on_progress;
    params.progress_callback_user_data = load;
    backend_take_error();
    llama->model = llama_model_load_from_file(options->path, params);
    if (load->cancelled)
        return was_cancelled(load, info);
    if (llama->model == NULL) {
        char what[256];
        snprintf(what, sizeof(what), "the library cannot load %.200s", options->path);
        return backend_failed(info, what);
    }
    TRY(check_kind(llama, load, info));
    llama->vocab = llama_model_get_vocab(llama->model);
    if (llama_vocab_n_tokens(llama->vocab) <= 0)
        return err_set(info, ERR_UNSUPPORTED, "the model has no vocabulary");
    return ERR_OK;
}

/* False: there are more of them than fit, or the vocabulary does not have them. */
static bool note_invocation(const struct engine *engine, const struct llama_adapter_lora *from,
                            struct lora_adapter *adapter)
{
    uint64_t count = llama_adapter_get_alora_n_invocation_tokens(from);
    const llama_token *tokens = llama_adapter_get_alora_invocation_tokens(from);

    if (count > LORA_INVOCATION_MAX)
        return false;
    adapter->invocation_count = (uint32_t)count;
    for (uint64_t i = 0; i < count; i++) {
        adapter->invocation[i] = tokens[i];
        if (!engine_token_valid(engine, tokens[i]))
            return false;
    }
    return true;
}

static enum err load_adapter(struct engine_llama *llama, const char *path, size_t id,
                             struct errinfo *info)
{
    struct lora_adapter *adapter = &llama->base.facts.lora.list[id];
    char what[256];

    snprintf(what, sizeof(what), "cannot load the adapter %.200s", path);
    llama->adapters[id] = llama_adapter_lora_init(llama->model, path);
    if (llama->adapters[id] == NULL)
        return backend_failed(info, what);
    if (!note_invocation(&llama->base, llama->adapters[id], adapter))
        return err_set(info, ERR_LIMIT,
                       "%s: it has more than %d invocation tokens, or some that the model lacks",
                       what, LORA_INVOCATION_MAX);
    snprintf(adapter->name, sizeof(adapter->name), "%s", file_base_name(path));
    return ERR_OK;
}

static enum err load_adapters(struct engine_llama *llama, const struct load *load,
                              struct errinfo *info)
{
    const struct engine_options *options = load->options;
    struct lora_facts *lora = &llama->base.facts.lora;

    if (options->adapters_count > LORA_MAX)
        return err_set(info, ERR_LIMIT, "%zu adapters; at most %d", options->adapters_count,
                       LORA_MAX);
    llama->adapters = mem_alloc_array(LORA_MAX, sizeof(*llama->adapters));
    for (size_t i = 0; i < options->adapters_count; i++) {
        TRY(load_adapter(llama, options->adapters[i].path, i, info));
        lora->count++;
        /* -0 would be another set than 0 */
        lora->initial.scale[i] = options->adapters[i].scale + 0.0f;
    }
    if (lora_set_check(lora, &lora->initial, info) == ERR_OK)
        return ERR_OK;
    return err_wrap(info, ERR_INVALID, "--lora (FILE=0 applies one only where a request asks)");
}

/* Each of these was checked in llama-vocab.cpp: a run of letters ends at a space, nothing looks
 * at the text before a word, and words become tokens byte by byte. */
const char *const engine_llama_words[] = {
    "chatglm-bpe", "command-r", "dbrx",   "deepseek-r1-qwen", "deepseek-v3", "falcon3",
    "glm4",        "gpt-2",     "gpt-4o", "llama-bpe",        "llama-v3",    "llama3",
    "llama4",      "pixtral",   "qwen2",  "qwen35",           "smollm",      "stablelm2",
    "starcoder",   "tekken",    NULL,
};

static bool cuts_words(const struct engine_llama *llama, const struct gguf_file *file)
{
    const char *pre = gguf_file_text(file, "tokenizer.ggml.pre");

    if (llama_vocab_type(llama->vocab) != LLAMA_VOCAB_TYPE_BPE || pre == NULL)
        return false;
    for (size_t i = 0; engine_llama_words[i] != NULL; i++)
        if (strcmp(pre, engine_llama_words[i]) == 0)
            return true;
    return false;
}

/* "qwen3 0.6B Q4_K - Medium". The library writes "?B" for a size that it has no name for. */
static void describe(const struct llama_model *model, char *out, size_t size)
{
    char text[128], millions[32];

    llama_model_desc(model, text, sizeof(text));
    const char *unknown = strstr(text, "?B");
    int before = unknown != NULL ? (int)(unknown - text) : (int)strlen(text);
    snprintf(millions, sizeof(millions), "%.1fM", (double)llama_model_n_params(model) / 1e6);
    snprintf(out, size, "%.*s%s%s", before, text, unknown != NULL ? millions : "",
             unknown != NULL ? unknown + 2 : "");
}

static void fill_facts(struct engine_llama *llama, const struct load *load)
{
    struct engine_facts *facts = &llama->base.facts;
    const char *name = gguf_file_text(load->file, "general.name");
    const char *template = llama_model_chat_template(llama->model, NULL);
    char description[128];

    describe(llama->model, description, sizeof(description));
    llama->name = mem_strdup(name ? name : file_base_name(load->options->path));
    llama->description = mem_strdup(description);
    llama->chat_template = template ? mem_strdup(template) : NULL;
    facts->name = llama->name;
    facts->architecture = llama->architecture = mem_strdup(gguf_file_architecture(load->file));
    facts->description = llama->description;
    facts->chat_template = llama->chat_template;
    facts->parameters = llama_model_n_params(llama->model);
    facts->weights_bytes = llama_model_size(llama->model);
    facts->vocab = (uint32_t)llama_vocab_n_tokens(llama->vocab);
    facts->layers = (uint32_t)llama_model_n_layer(llama->model);
    facts->window = (uint32_t)llama_model_n_swa(llama->model);
    /* The library says 0 where its window cannot be rolled back; it has an order all the same. */
    if (facts->window == 0 && gguf_file_has_arch_key(load->file, "attention.compress_ratios"))
        facts->window = (uint32_t)gguf_file_arch_uint(load->file, "attention.sliding_window", 0);
    facts->bos = llama_vocab_bos(llama->vocab);
    facts->eos = llama_vocab_eos(llama->vocab);
    facts->eot = llama_vocab_eot(llama->vocab);
    facts->add_bos = llama_vocab_get_add_bos(llama->vocab);
    facts->fim =
        (struct engine_fim){llama_vocab_fim_pre(llama->vocab), llama_vocab_fim_suf(llama->vocab),
                            llama_vocab_fim_mid(llama->vocab), llama_vocab_fim_rep(llama->vocab),
                            llama_vocab_fim_sep(llama->vocab)};
    facts->words = cuts_words(llama, load->file);
    embed_llama_describe(llama);
    ggml_backend_dev_t device = load->devices[0] ? load->devices[0] : ggml_backend_dev_get(0);
    snprintf(llama->backend, sizeof(llama->backend), "%s (%s)", ggml_backend_dev_name(device),
             ggml_backend_dev_description(device));
    facts->backend = llama->backend;
}

/* ---- fingerprint ---- */

static size_t parts_max(const struct load *load)
{
    return (load->options->adapters_count + 2) * GGUF_FILE_SHARDS_MAX;
}

/* Starts hashing every file that holds weights. */
static enum err start_digest(struct load *load, struct errinfo *info)
{
    const struct engine_options *options = load->options;
    const struct file_digest_options digest = {.fs = file_sys_real(),
                                               .memory_dir = options->state_dir,
                                               .clock = clock_real(),
                                               .log = options->log};

    load->adapters = mem_alloc_array(MAX(options->adapters_count, 1), sizeof(*load->adapters));
    for (size_t i = 0; i < options->adapters_count; i++) {
        const char *path = options->adapters[i].path;
        if (gguf_file_open(&load->adapters[i], path, info) != ERR_OK)
            return err_wrap(info, ERR_ENGINE, "cannot load the adapter %.200s", path);
    }
    struct file_digest_part *parts = mem_alloc_array(parts_max(load), sizeof(*parts));
    size_t count = gguf_file_parts(load->file, parts);
    for (size_t i = 0; i < options->adapters_count; i++)
        count += gguf_file_parts(load->adapters[i], parts + count);
    if (load->projector != NULL)
        count += gguf_file_parts(load->projector, parts + count);
    enum err err = file_digest_start(&load->digest, &digest, parts, count, info);
    mem_free(parts);
    return err;
}

/* Some models have one set of rope factors for contexts up to the trained length, and one beyond. */
static bool has_long_rope(const struct engine_llama *llama, const struct gguf_file *file)
{
    uint64_t trained = gguf_file_arch_uint(file, "rope.scaling.original_context_length",
                                           llama->base.facts.context_trained);

    return gguf_file_has_tensor(file, "rope_factors_long.weight") &&
           llama_n_ctx_seq(llama->ctx) > trained;
}

static enum fingerprint_attention attention_of(const struct engine_llama *llama,
                                               const struct engine_options *options)
{
    if (options->flash != 0)
        return options->flash > 0 ? ATTENTION_FLASH : ATTENTION_PLAIN;
    return llama->flash ? ATTENTION_FLASH : ATTENTION_PLAIN_AUTO;
}

static void make_fingerprint(struct engine_llama *llama, const struct load *load,
                             const struct hash256 *digests)
{
    const struct engine_options *options = load->options;
    /* Machines that share across builds may have had AMX, whether this one has it or not. */
    bool amx = has_amx() || options->sharing == ENGINE_SHARING_RELEASE;
    struct fingerprint parts = {.options = options,
                                .facts = &llama->base.facts,
                                .weights = gguf_file_fingerprint(load->file, digests),
                                .attention = attention_of(llama, options),
                                .long_rope = has_long_rope(llama, load->file),
                                .plain_weights = amx && needs_plain_weights(load),
                                .threads = (uint32_t)llama_n_threads(llama->ctx),
                                .threads_prefill = (uint32_t)llama_n_threads_batch(llama->ctx),
                                .bits = llama->bits};

    digests += gguf_file_parts(load->file, NULL);
    for (size_t i = 0; i < options->adapters_count; i++) {
        llama->base.facts.lora.list[i].digest = gguf_file_fingerprint(load->adapters[i], digests);
        digests += gguf_file_parts(load->adapters[i], NULL);
    }
    if (load->projector != NULL) { /* it is a part of the identity of pictures */
        struct hash256 digest = gguf_file_fingerprint(load->projector, digests);
        projector_identify(llama->projector, &digest);
    }
    struct hash256 *fingerprint = &llama->base.facts.fingerprint;
    *fingerprint = fingerprint_make(&parts);
    if (options->no_cache || options->state_dir == NULL)
        return;
    struct fingerprint_words words;
    fingerprint_words(&parts, &words);
    const struct fingerprint_seen seen = {.weights = &parts.weights,
                                          .fingerprint = fingerprint,
                                          .words = &words,
                                          .loaded_before = load->known,
                                          .stored = options->stored};
    fingerprint_remember(options->state_dir, &seen, options->log);
}

/* Waits for the digests: no state may be stored or used before all of the weights are known. */
static enum err fingerprint(struct engine_llama *llama, struct load *load, struct errinfo *info)
{
    bool done;

    do {
        done = file_digest_wait(load->digest, DIGEST_REPORT_NS);
        if (!report_progress(load))
            return was_cancelled(load, info);
    } while (!done);
    load->known = file_digest_bytes(load->digest) == 0;
    struct hash256 *digests = mem_alloc_array(parts_max(load), sizeof(*digests));
    enum err err = file_digest_finish(&load->digest, digests, info);
    if (err == ERR_OK)
        make_fingerprint(llama, load, digests);
    mem_free(digests);
    return err;
}

/* ---- the projector ---- */

static bool beat(void *arg)
{
    return !engine_llama_tick(arg);
}

static enum err load_projector(struct engine_llama *llama, const struct load *load,
                               struct errinfo *info)
{
    const struct engine_options *options = load->options;
    const struct projector_options wish = {
        .path = options->projector,
        .model = llama->model,
        .threads = llama_n_threads_batch(llama->ctx),
        .gpu = options->gpu_layers >= 0,
        .tokens_min = options->picture_tokens_min,
        .tokens_max = options->picture_tokens_max,
        .chunk = llama->base.facts.chunk,
        .beat = beat,
        .arg = llama,
    };

    if (load->projector == NULL)
        return ERR_OK;
    TRY(projector_open(&llama->projector, &wish, info));
    llama->base.facts.images = true;
    llama->base.facts.weights_bytes += gguf_file_bytes(load->projector);
    llama->base.facts.mrope = projector_uses_mrope(llama->projector);
    if (options->trial)
        projector_try(llama->projector);
    return ERR_OK;
}

/* What loading took is measured: the library does not say which part went where. */
static void note_device(struct engine_facts *facts, const struct load *load, uint64_t free_before)
{
    struct backend_memory now = device_memory(load);

    facts->device_total = now.total;
    facts->device_bytes = free_before - MIN(now.free, free_before);
}

/* Earlier states that do not work must not cost the reuse of state: without them once more. */
static enum err probe(struct engine_llama *llama, const struct load *load, struct errinfo *info)
{
    struct engine_options without = *load->options;
    struct log *log = load->options->log;

    if (llama->base.facts.embed.whole)
        return embed_llama_probe(llama, info);
    TRY(engine_llama_probe(llama, load->file, log, info));
    if (llama->states == 0 || llama->base.facts.rollback > 0)
        return ERR_OK;
    enum rollback why = llama->base.facts.no_rollback;
    without.rollback = 0;
    context_llama_free(llama);
    TRY(context_llama_make(llama, &without, load->file, info));
    TRY(engine_llama_probe(llama, load->file, log, info));
    llama->base.facts.no_rollback = why;
    return ERR_OK;
}

static enum err load_all(struct engine_llama *llama, struct load *load, struct errinfo *info)
{
    uint64_t device_free = device_memory(load).free;

    TRY(gguf_file_open(&load->file, load->options->path, info));
    TRY(gguf_check(load->file, info));
    if (!load->vocab_only && load->options->projector != NULL)
        TRY(gguf_file_open(&load->projector, load->options->projector, info));
    TRY(check_memory(load, info));
    TRY(check_context(load, true, info));
    if (!load->vocab_only && !load->options->dry)
        TRY(start_digest(load, info));
    TRY(load_model(llama, load, info));
    fill_facts(llama, load);
    if (load->vocab_only)
        return ERR_OK;
    TRY(check_context(load, llama->base.facts.window > 0, info));
    TRY(context_llama_make(llama, load->options, load->file, info));
    if (load->options->dry)
        return load_projector(llama, load, info);
    TRY(load_adapters(llama, load, info));
    TRY(probe(llama, load, info));
    TRY(load_projector(llama, load, info));
    struct lora_facts *lora = &llama->base.facts.lora;
    struct lora_set initial = lora_set_before(lora, &lora->initial);
    TRY(engine_set_lora(&llama->base, &initial, info));
    note_device(&llama->base.facts, load, device_free);
    return fingerprint(llama, load, info); /* last: the file is hashed during the self-test */
}

static void end_load(struct load *load)
{
    file_digest_cancel(&load->digest);
    for (size_t i = 0; load->adapters != NULL && i < load->options->adapters_count; i++)
        gguf_file_close(&load->adapters[i]);
    mem_free(load->adapters);
    gguf_file_close(&load->projector);
    gguf_file_close(&load->file);
}

static enum err load_engine(struct engine **engine, const struct engine_options *options,
                            bool vocab_only, struct errinfo *info)
{
    struct engine_llama *llama = mem_alloc(sizeof(*llama));
    struct load load = {.options = options, .vocab_only = vocab_only};

    *engine = NULL;
    llama->on_tick = options->on_tick;
    llama->tick_arg = options->tick_arg;
    backend_init(options->backends);
    bus_error_install();
    llama->base.ops = &engine_llama_ops;
    enum err err = load_all(llama, &load, info);
    if (err == ERR_OK) {
        *engine = &llama->base;
    } else {
        struct engine *failed = &llama->base;
        engine_close(&failed);
    }
    end_load(&load);
    return err;
}

struct loading {
    struct engine **engine;
    const struct engine_options *options;
    struct errinfo *info;
    enum err err;
};

static void run_load(void *arg)
{
    struct loading *loading = arg;

    loading->err = load_engine(loading->engine, loading->options, false, loading->info);
}

/* Runs in a temporary thread: the probe computes, and OpenMP keeps a team of threads for every
 * thread that ever did. When the teams exceed the processors, barriers sleep instead of spinning
 * as long as the other team exists: 6.1 instead of 4.6 ms per token on two cores. */
enum err engine_load(struct engine **engine, const struct engine_options *options,
                     struct errinfo *info)
{
    struct loading loading = {engine, options, info, ERR_OK};
    struct thread thread = {0};

    TRY(thread_start(&thread, "load", run_load, &loading, info));
    thread_join(&thread);
    return loading.err;
}

enum err engine_llama_load_vocab(struct engine **engine, const struct engine_options *options,
                                 struct errinfo *info)
{
    struct engine_options quiet = *options;

    quiet.on_progress = NULL; /* progress comes from the child's load */
    return load_engine(engine, &quiet, true, info);
}

/*
 * foreign.c: one table of llama-server's options, read from its help (0.7).
 *
 * Each row is one of these:
 *
 *      SAME    another name of one of our options, with its value
 *      READ    one of our options, with a value in other units or words
 *      FIXED   hearth always does this, or needs no such setting: accepted, with a note
 *      LACKS   not supported, and the answers or the memory would differ: refused
 *
 * FIXED and LACKS give way when `hearth serve` gets an option with that name.
 */
#include "cli/foreign.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/str.h"
#include "cli/cli.h"

enum meaning { SAME, READ, FIXED, LACKS };

/* One option of a line. */
struct spelled {
    struct cli_foreign *to;
    struct option_foreign *option;
    struct str name;   /* with its dashes */
    const char *value; /* NULL: none */
    struct errinfo *info;
};

struct row {
    const char *names; /* separated by spaces, without dashes; a final '*' matches any ending */
    int values;        /* how many it takes */
    enum meaning meaning;
    const char *text;  /* SAME: our option. FIXED: why. LACKS: what to do */
    const char *plain; /* values that say what hearth does without the option */
    enum err (*read)(struct spelled *spelled);
};

static enum err read_flash(struct spelled *spelled);
static enum err read_lora(struct spelled *spelled);
static enum err read_mib(struct spelled *spelled);
static enum err read_rope_scale(struct spelled *spelled);
static enum err read_seconds(struct spelled *spelled);

#define ALWAYS     "always on"
#define REQUEST    "send it in each request"
#define PIN        "not applied; use taskset or numactl"
#define NO_DRAFT   "see --model-draft and --drafts for what can be set"
#define DRAFTS     "see --drafts: guesses come from known text"
#define NO_EXPERTS "weights are placed by whole layers; lower --gpu-layers until the model fits"
#define NO_YARN    "RoPE follows the model file; --rope-freq-base and --rope-freq-scale override it"
#define NO_TOOLS   "tools run in clients (docs/decisions/020)"
#define NAME_IT    "name the model, as in -hf USER/REPO:QUANT"

static const struct row rows[] = {
    /* the model and where it comes from */
    {"hfr", 1, SAME, .text = "hf-repo"},
    {"hff hf-file", 1, LACKS, .text = "name the quantization, as in -hf USER/REPO:Q4_K_M"},
    {"hft hf-token", 1, LACKS,
     .text = "set HF_TOKEN in the environment, where other users cannot read it"},
    {"mu model-url", 1, LACKS,
     .text = "download the file and pass its path, or use -hf USER/REPO:QUANT"},
    {"dr docker-repo", 1, LACKS, .text = "use -hf USER/REPO:QUANT, or the path of a file"},
    {"offline", 0, LACKS, .text = "-m never downloads, so use it instead of -hf"},
    {"models-preset", 1, LACKS,
     .text = "put a section [model NAME] into hearth.ini for each model"},
    {"models-autoload", 0, FIXED, .text = ALWAYS},
    {"no-models-autoload", 0, LACKS,
     .text = "models load on first use; limit them with --models-max"},
    {"embd-gemma-default gpt-oss-20b-default gpt-oss-120b-default fim-* vision-gemma-*", 0, LACKS,
     .text = NAME_IT},
    {"mmu mmproj-url", 1, LACKS, .text = "download the projector and give --mmproj FILE"},
    {"mmproj-device mmdev", 1, LACKS, .text = "the projector uses the GPU where the model does"},
    {"mmproj-auto no-mmproj no-mmproj-auto", 0, FIXED, .text = "--mmproj FILE loads one"},
    {"mmproj-offload no-mmproj-offload", 0, FIXED,
     .text = "the projector uses the GPU where the model does"},
    {"mtmd-batch-max-tokens", 1, FIXED, .text = ALWAYS},
    {"lora-scaled", 1, READ, .read = read_lora},
    {"lora-init-without-apply", 0, LACKS, .text = "give --lora FILE=0"},
    {"control-vector control-vector-scaled", 1, LACKS, .text = "control vectors are missing"},
    {"control-vector-layer-range", 2, LACKS, .text = "control vectors are missing"},
    {"override-kv", 1, LACKS,
     .text = "write the value into the model file with gguf_set_metadata.py"},
    {"check-tensors", 0, FIXED, .text = "model files are always vetted before they are loaded"},
    {"tags", 1, FIXED, .text = "models have no tags here"},
    /* memory and devices */
    {"n-gpu-layers gpu-layers ngl", 1, SAME, .text = "gpu-layers", .plain = "-1 -2"},
    {"cram cache-ram", 1, READ, .plain = "-1", .read = read_mib},
    {"fit", 1, FIXED, .text = "-c and -ngl fit by themselves unless they are set"},
    {"fitt fit-target fitc fit-ctx", 1, FIXED,
     .text = "-c and -ngl fit by themselves unless they are set"},
    {"ot override-tensor ncmoe n-cpu-moe", 1, LACKS, .text = NO_EXPERTS, .plain = "0"},
    {"cmoe cpu-moe", 0, LACKS, .text = NO_EXPERTS},
    {"sm split-mode", 1, LACKS, .text = "layers are split over the devices of --device",
     .plain = "layer"},
    {"ts tensor-split", 1, LACKS,
     .text = "layers are split by free memory; choose GPUs with --device"},
    {"mg main-gpu", 1, LACKS, .text = "choose the GPU with --device", .plain = "0"},
    {"nkvo no-kv-offload", 0, LACKS,
     .text = "the KV cache is where its layers are; lower --gpu-layers"},
    {"kvo kv-offload repack op-offload", 0, FIXED, .text = ALWAYS},
    {"nr no-repack no-op-offload no-host", 0, FIXED, .text = "left to the library"},
    {"mlock", 0, FIXED,
     .text = "weights are mapped and not locked; --no-mmap reads them into memory"},
    {"dio direct-io ndio no-direct-io", 0, FIXED, .text = "left to the library"},
    {"lm load-mode", 1, FIXED, .text = "weights are mapped; --no-mmap reads them into memory"},
    {"fa flash-attn", 0, READ, .read = read_flash},
    {"kvu kv-unified", 0, FIXED, .text = ALWAYS},
    {"no-kvu no-kv-unified", 0, SAME, .text = "kv-streams"},
    /* threads */
    {"t threads", 1, SAME, .text = "threads", .plain = "-1"},
    {"tb threads-batch", 1, SAME, .text = "threads-batch", .plain = "-1"},
    {"np parallel", 1, SAME, .text = "parallel", .plain = "-1"},
    {"threads-http", 1, SAME, .text = "workers", .plain = "-1"},
    {"C cpu-mask Cr cpu-range Cb cpu-mask-batch Crb cpu-range-batch cpu-strict cpu-strict-batch "
     "numa",
     1, FIXED, .text = PIN},
    {"prio prio-batch", 1, FIXED, .text = "not applied; use nice"},
    {"poll poll-batch", 1, FIXED, .text = "left to the library"},
    /* context and cache */
    {"b batch-size", 1, FIXED, .text = "batches are sized by the scheduler; see -ub"},
    {"cb cont-batching", 0, FIXED, .text = ALWAYS},
    {"nocb no-cont-batching", 0, LACKS,
     .text = "requests are always batched; -np 1 runs one at a time"},
    {"cache-prompt", 0, FIXED, .text = ALWAYS},
    {"no-cache-prompt", 0, SAME, .text = "no-cache"},
    {"cache-reuse", 1, FIXED, .text = "only exact prefixes are reused, as far as they go"},
    {"slot-save-path", 1, FIXED, .text = "every prompt is cached, also over a restart"},
    {"sps slot-prompt-similarity", 1, FIXED, .text = "one cache serves all slots"},
    {"cache-idle-slots no-cache-idle-slots", 0, FIXED, .text = "one cache serves all slots"},
    {"ctxcp ctx-checkpoints swa-checkpoints cms checkpoint-min-step", 1, FIXED,
     .text = "snapshots are placed by themselves"},
    {"no-context-shift", 0, FIXED, .text = ALWAYS},
    {"context-shift", 0, LACKS, .text = "an answer ends where the context ends; raise -c"},
    {"keep dt defrag-thold", 1, FIXED, .text = "there is nothing to set"},
    {"rope-scaling", 1, LACKS, .text = NO_YARN, .plain = "linear"},
    {"rope-scale", 1, READ, .read = read_rope_scale},
    {"yarn-*", 1, LACKS, .text = NO_YARN, .plain = "-1 -1.0"},
    {"lcs lookup-cache-static lcd lookup-cache-dynamic", 1, LACKS, .text = NO_DRAFT},
    /* speculative decoding */
    {"spec-draft-model", 1, SAME, .text = "model-draft"},
    {"hfd hfrd hf-repo-draft spec-draft-hf", 1, LACKS,
     .text = "download it with `hearth pull`, and pass the file with --model-draft"},
    {"draft draft-n spec-draft-n-max", 1, SAME, .text = "draft-max"},
    {"draft-n-min spec-draft-n-min", 1, SAME, .text = "draft-min"},
    {"n-gpu-layers-draft spec-draft-ngl", 1, SAME, .text = "gpu-layers-draft"},
    {"draft-p-min spec-draft-p-min draft-p-split spec-draft-p-split", 1, FIXED,
     .text = "a draft ends where the draft model is unsure"},
    {"spec-default", 0, FIXED, .text = DRAFTS},
    {"spec-ngram-*", 1, FIXED, .text = DRAFTS},
    {"spec-type", 1, LACKS, .text = NO_DRAFT,
     .plain = "none ngram-simple ngram-map-k ngram-map-k4v ngram-mod ngram-cache"},
    {"spec-draft-cpu-moe cmoed cpu-moe-draft spec-draft-backend-sampling "
     "no-spec-draft-backend-sampling",
     0, LACKS, .text = NO_DRAFT},
    {"draft-* spec-* devd device-draft td tbd "
     "threads-draft threads-batch-draft ctkd ctvd cache-type-k-draft cache-type-v-draft "
     "Cd Crd Cbd cpu-mask-draft cpu-range-draft cpu-strict-draft prio-draft "
     "poll-draft cpu-mask-batch-draft cpu-strict-batch-draft prio-batch-draft poll-batch-draft "
     "otd override-tensor-draft ncmoed n-cpu-moe-draft",
     1, LACKS, .text = NO_DRAFT},
    /* templates and reasoning */
    {"jinja", 0, FIXED, .text = ALWAYS},
    {"no-jinja", 0, LACKS,
     .text = "templates are always Jinja; the model's own, or --chat-template-file"},
    {"chat-template", 1, LACKS,
     .text = "write the template to a file and pass --chat-template-file"},
    {"reasoning-format", 1, LACKS, .text = "reasoning is always separated from the answer",
     .plain = "auto deepseek"},
    {"reasoning-effort", 1, LACKS, .text = REQUEST, .plain = "default"},
    {"reasoning-budget-message", 1, LACKS, .text = "there is no such message"},
    {"reasoning-preserve", 0, SAME, .text = "keep-thoughts"},
    {"no-reasoning-preserve prefill-assistant no-skip-chat-parsing", 0, FIXED, .text = ALWAYS},
    {"no-prefill-assistant skip-chat-parsing", 0, LACKS,
     .text = "answers are always read by the template"},
    {"sp special", 0, LACKS, .text = "special tokens are never part of an answer"},
    {"spm-infill", 0, FIXED, .text = "the order follows the model file"},
    /* sampling defaults */
    {"temperature", 1, SAME, .text = "temp"},
    {"s seed", 1, LACKS, .text = REQUEST, .plain = "-1"},
    {"n predict n-predict", 1, LACKS, .text = "send max_tokens in each request", .plain = "-1"},
    {"top-nsigma top-n-sigma", 1, LACKS, .text = REQUEST, .plain = "-1 -1.0 -1.00"},
    {"xtc-probability dry-multiplier dynatemp-range mirostat", 1, LACKS, .text = REQUEST,
     .plain = "0 0.0 0.00"},
    {"typical typical-p dynatemp-exp", 1, LACKS, .text = REQUEST, .plain = "1 1.0 1.00"},
    {"xtc-threshold dry-base dry-allowed-length dry-penalty-last-n dry-sequence-breaker samplers "
     "sampler-seq sampling-seq adaptive-target adaptive-decay mirostat-lr mirostat-ent l "
     "logit-bias grammar grammar-file j json-schema jf json-schema-file",
     1, LACKS, .text = REQUEST},
    {"ignore-eos", 0, LACKS, .text = REQUEST},
    {"bs backend-sampling", 0, FIXED, .text = "sampling runs on the CPU"},
    {"r reverse-prompt", 1, LACKS, .text = "send stop in each request"},
    /* the server */
    {"ssl-key-file", 1, SAME, .text = "tls-key"},
    {"ssl-cert-file", 1, SAME, .text = "tls-cert"},
    {"sleep-idle-seconds", 1, READ, .plain = "-1", .read = read_seconds},
    {"metrics slots ui webui", 0, FIXED, .text = ALWAYS},
    {"props", 0, FIXED, .text = "settings change through /admin/settings with --admin-key"},
    {"no-slots no-ui no-webui", 0, FIXED,
     .text = "always served; --api-key protects what it shows"},
    {"ui-config webui-config ui-config-file webui-config-file", 1, FIXED,
     .text = "the page has none"},
    {"to timeout", 1, FIXED,
     .text = "an answer may take any time; a stalled client is closed after 30 s"},
    {"sse-ping-interval", 1, FIXED, .text = "pings are sent by themselves"},
    {"cors-methods cors-headers", 1, FIXED, .text = "follow from the routes"},
    {"cors-credentials no-cors-credentials", 0, FIXED, .text = "cookies are never used; keys are"},
    {"path", 1, LACKS, .text = "hearth serves its own page only; use a web server for other files"},
    {"api-prefix", 1, LACKS, .text = "let a reverse proxy remove the prefix"},
    {"reuse-port", 0, LACKS, .text = "each server needs its own --port"},
    {"embedding embeddings rerank reranking", 0, FIXED, .text = ALWAYS},
    {"embd-normalize", 1, FIXED, .plain = "2", .text = "vectors have length 1"},
    {"tools tools-runtime mcp-servers-config mcp-servers-json", 1, LACKS, .text = NO_TOOLS},
    {"ag agent", 0, LACKS, .text = NO_TOOLS},
    {"no-ag no-agent no-ui-mcp-proxy no-webui-mcp-proxy", 0, FIXED, .text = ALWAYS},
    {"ui-mcp-proxy webui-mcp-proxy", 0, LACKS, .text = NO_TOOLS},
    /* log and information */
    {"v verbose log-verbose", 0, SAME, .text = "log-level=debug"},
    {"log-disable", 0, SAME, .text = "log-level=off"},
    {"lv verbosity log-verbosity", 1, FIXED, .text = "see --log-level"},
    {"log-file", 1, LACKS, .text = "redirect standard error to the file"},
    {"log-prompts-dir", 1, LACKS, .text = "--record writes requests as hashes"},
    {"log-colors", 1, FIXED, .text = "colours are used in a terminal; --no-color disables them"},
    {"log-prefix no-log-prefix log-timestamps no-log-timestamps", 0, FIXED,
     .text = "see --log-format"},
    {"perf no-perf", 0, FIXED, .text = "timings are part of every answer"},
    {"e escape no-escape", 0, FIXED, .text = "there is nothing to escape"},
    {"version", 0, LACKS, .text = "run `hearth version`"},
    {"usage", 0, LACKS, .text = "run `hearth serve --help`"},
    {"cl cache-list", 0, LACKS, .text = "run `hearth list`"},
    {"list-devices", 0, LACKS, .text = "run `hearth doctor`"},
    {"completion-bash", 0, LACKS, .text = "run `hearth completion bash`"},
};

/* ---- results ---- */

static enum err no_memory(struct spelled *spelled)
{
    return err_set(spelled->info, ERR_NOMEM, "no memory for the options");
}

static enum err note(struct spelled *spelled, const char *why)
{
    struct cli_foreign *to = spelled->to;

    to->notes = arena_printf(to->arena, "%s%s" STR_FMT ": %s", to->notes ? to->notes : "",
                             to->notes ? "; " : "", STR_ARG(spelled->name), why);
    return to->notes != NULL ? ERR_OK : no_memory(spelled);
}

static enum err lacks(struct spelled *spelled, const char *way_out)
{
    return err_set(spelled->info, ERR_INVALID,
                   "llama-server's " STR_FMT "%s%s is not supported: %s", STR_ARG(spelled->name),
                   spelled->value != NULL ? " " : "", spelled->value ? spelled->value : "",
                   way_out);
}

/* Reads "--name=value" in its place. */
static enum err instead(struct spelled *spelled, const char *name, const char *value,
                        const char *unit)
{
    spelled->option->instead =
        value == NULL ? arena_printf(spelled->to->arena, "--%s", name)
                      : arena_printf(spelled->to->arena, "--%s=%s%s", name, value, unit);
    return spelled->option->instead != NULL ? ERR_OK : no_memory(spelled);
}

/* ---- values in other units ---- */

/* Old releases have the flag alone, newer ones a value. */
static enum err read_flash(struct spelled *spelled)
{
    static const char *const words[][2] = {
        {"on", "on"}, {"off", "off"}, {"auto", "auto"}, {"1", "on"}, {"0", "off"}, {"-1", "auto"},
    };
    const char *value = spelled->value ? spelled->value : spelled->option->next;

    for (size_t i = 0; value != NULL && i < COUNT_OF(words); i++) {
        if (strcmp(value, words[i][0]) != 0)
            continue;
        spelled->option->uses_next = spelled->value == NULL;
        return instead(spelled, "flash-attn", words[i][1], "");
    }
    return instead(spelled, "flash-attn", spelled->value ? spelled->value : "on", "");
}

static enum err read_mib(struct spelled *spelled)
{
    uint64_t number;

    if (strcmp(spelled->value, "0") == 0)
        return lacks(spelled, "--no-cache disables the cache, --ram-cache SIZE makes it small");
    bool bare = str_to_u64(str_from(spelled->value), &number);
    return instead(spelled, "ram-cache", spelled->value, bare ? "MiB" : "");
}

static enum err read_seconds(struct spelled *spelled)
{
    return instead(spelled, "model-ttl", spelled->value, "s");
}

static enum err read_rope_scale(struct spelled *spelled)
{
    double factor;
    char text[32];

    if (!str_to_f64(str_from(spelled->value), &factor) || !(factor > 0))
        return err_set(spelled->info, ERR_INVALID, "--rope-scale: \"%s\" is not a positive number",
                       spelled->value);
    snprintf(text, sizeof(text), "%.9g", 1 / factor);
    return instead(spelled, "rope-freq-scale", text, "");
}

/* FILE:SCALE, or a list of them with commas */
static enum err read_lora(struct spelled *spelled)
{
    char *value = arena_strdup(spelled->to->arena, str_from(spelled->value));
    struct str rest = str_from(value != NULL ? value : ""), item;

    if (value == NULL)
        return no_memory(spelled);
    while (str_next(&rest, ',', &item)) {
        char *colon = memrchr(item.ptr, ':', item.len);

        if (colon == NULL)
            return lacks(spelled, "give FILE:SCALE, or --lora FILE=SCALE");
        *colon = '=';
    }
    return instead(spelled, "lora", value, "");
}

/* ---- looking up ---- */

static bool has_word(const char *words, struct str wanted)
{
    struct str rest = str_from(words != NULL ? words : ""), word;

    while (str_next(&rest, ' ', &word)) {
        bool open = str_ends(word, STR("*"));
        struct str stem = {word.ptr, word.len - open};
        if (open ? str_starts(wanted, stem) : str_eq(wanted, word))
            return true;
    }
    return false;
}

static const struct row *find_row(struct str name)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (has_word(rows[i].names, name))
            return &rows[i];
    return NULL;
}

static enum err take_value(struct spelled *spelled, const struct row *row)
{
    const char *next = spelled->option->next;

    if (row->values == 0 || spelled->value != NULL)
        return ERR_OK;
    if (next == NULL || strncmp(next, "--", 2) == 0)
        return err_set(spelled->info, ERR_INVALID, STR_FMT " needs a value",
                       STR_ARG(spelled->name));
    spelled->value = next;
    spelled->option->uses_next = true;
    return ERR_OK;
}

enum err foreign_option(void *arg, struct option_foreign *option, struct errinfo *info)
{
    size_t len = strcspn(option->arg, "="), dashes = strspn(option->arg, "-");
    struct spelled spelled = {.to = arg, .option = option, .info = info};

    if (len <= dashes)
        return ERR_OK;
    spelled.name = (struct str){option->arg, len};
    spelled.value = option->arg[len] == '=' ? option->arg + len + 1 : NULL;
    struct str name = {option->arg + dashes, len - dashes};
    /* One letter is matched with one dash, so that "--t" stays unknown. */
    const struct row *row = dashes == 1 || name.len > 1 ? find_row(name) : NULL;
    if (row == NULL)
        return ERR_OK;
    if (row->meaning >= FIXED && option_has(spelled.to->table, name))
        return ERR_OK;
    option->known = true;
    TRY(take_value(&spelled, row));
    if (spelled.value != NULL && has_word(row->plain, str_from(spelled.value)))
        return ERR_OK;
    switch (row->meaning) {
    case SAME:
        return instead(&spelled, row->text, spelled.value, "");
    case READ:
        return row->read(&spelled);
    case FIXED:
        return note(&spelled, row->text);
    case LACKS:
        break;
    }
    if (row->plain == NULL) /* no value would do, and one may be a secret */
        spelled.value = NULL;
    return lacks(&spelled, row->text);
}

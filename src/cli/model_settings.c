/* model_settings.c: from options to an engine, with a bar. */
#include "cli/model_settings.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/progress.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/config.h"
#include "engine/engine_worker.h"
#include "engine/vet.h"
#include "models/resolve.h"

const char *const model_settings_flash[] = {"auto", "on", "off", NULL};
const char *const model_settings_layers[] = {"auto", "all", NULL};

/* For the engine 0 means all that fit, and -1 none. */
static int engine_layers(int64_t layers)
{
    return layers < 0 ? 0 : layers == 0 ? -1 : (int)layers;
}

static enum err parse_adapter(const char *text, struct arena *arena, struct engine_adapter *adapter,
                              struct errinfo *info)
{
    const char *equals = strrchr(text, '=');
    size_t len = equals != NULL ? (size_t)(equals - text) : strlen(text);
    double scale = 1;

    if (len == 0 || (equals != NULL && !str_to_f64(str_from(equals + 1), &scale)) ||
        fabs(scale) > FLT_MAX)
        return err_set(info, ERR_INVALID, "--lora %s: expected FILE or FILE=SCALE", text);
    adapter->scale = (float)scale;
    adapter->path = arena_strdup(arena, (struct str){text, len});
    return adapter->path ? ERR_OK : err_set(info, ERR_NOMEM, "no memory for --lora");
}

static enum err fill_adapters(const struct cli *cli, const struct model_settings *settings,
                              struct engine_options *options, struct errinfo *info)
{
    size_t count = settings->adapters.count;
    struct engine_adapter *adapters = arena_alloc_array(cli->arena, count, sizeof(*adapters));

    if (adapters == NULL)
        return err_set(info, ERR_NOMEM, "no memory for --lora");
    for (size_t i = 0; i < count; i++)
        TRY(parse_adapter(settings->adapters.items[i], cli->arena, &adapters[i], info));
    options->adapters = adapters;
    options->adapters_count = count;
    return ERR_OK;
}

static struct engine_options to_engine(const struct cli *cli, const struct model_settings *settings,
                                       const char *path)
{
    return (struct engine_options){
        .path = path,
        .context = (uint32_t)settings->context,
        .sequences = (uint32_t)settings->sequences,
        .chunk = (uint32_t)settings->chunk,
        .threads = (uint32_t)settings->threads,
        .threads_prefill = (uint32_t)settings->threads_prefill,
        .kv_k = (enum engine_kv)settings->kv_k,
        .kv_v = (enum engine_kv)settings->kv_v,
        .pooling = (enum engine_pooling)settings->pooling,
        .flash = settings->flash == 2 ? -1 : settings->flash,
        .gpu_layers = engine_layers(settings->gpu_layers),
        .devices = settings->devices,
        .rpc = settings->rpc,
        .streams = settings->streams,
        .sliding_full = settings->sliding_full,
        .rope_base = (float)settings->rope_base,
        .rope_scale = (float)settings->rope_scale,
        .no_mmap = !settings->mmap,
        .projector = settings->projector,
        .picture_tokens_min = (uint32_t)settings->picture_tokens_min,
        .picture_tokens_max = (uint32_t)settings->picture_tokens_max,
        .state_dir = folders_state(cli, NULL),
        .backends = settings->backends,
        .memory_max = settings->memory_max,
        .log = cli->log,
    };
}

enum err cli_load_engine(const struct model_settings *settings,
                         const struct engine_options *options, struct engine **engine,
                         struct errinfo *info)
{
    struct engine_worker_options worker = {.memory = settings->memory};

    if (settings->isolate || settings->rpc != NULL)
        return engine_worker_load(engine, options, &worker, info);
    if (settings->vet != NULL)
        return vet_load(settings->vet, options, settings->alone, engine, info);
    /* A command that serves nothing: an abort of the library ends it with a sentence. */
    struct vet *vet = vet_create(&(struct vet_options){.fs = file_sys_real(), .dir = FILE_NO});
    enum err err = vet_load(vet, options, true, engine, info);
    vet_destroy(&vet);
    return err;
}

/* The settings of the model, but for what a draft model has of its own. */
enum err cli_load_draft(const struct model_settings *settings, const struct engine_options *options,
                        const struct engine *engine, struct engine **draft, struct errinfo *info)
{
    const struct engine_facts *facts = engine_facts(engine);
    struct engine_options wish = *options;
    uint64_t taken = facts->weights_bytes + facts->kv_bytes;

    *draft = NULL;
    if (settings->draft == NULL)
        return ERR_OK;
    if (settings->isolate || settings->rpc != NULL)
        return err_set(
            info, ERR_UNSUPPORTED,
            "--model-draft cannot be combined with --isolate or --rpc: it guesses in the "
            "server's own process");
    wish.path = settings->draft;
    wish.context = settings->draft_context > 0 ? (uint32_t)settings->draft_context : facts->context;
    wish.gpu_layers = engine_layers(settings->draft_gpu_layers);
    wish.adapters = NULL;
    wish.adapters_count = 0;
    wish.projector = NULL;
    wish.pooling = ENGINE_POOLING_AUTO;
    wish.rope_base = wish.rope_scale = 0;
    wish.streams = wish.sliding_full = false;
    wish.rollback = 0;
    wish.no_cache = true;
    if (wish.memory_max > 0) /* 0 would be all of the machine's */
        wish.memory_max -= MIN(wish.memory_max - 1, taken);
    enum err err = cli_load_engine(settings, &wish, draft, info);
    return err == ERR_OK ? err : err_wrap(info, err, "--model-draft");
}

enum err cli_engine_options(const struct cli *cli, const struct model_settings *settings,
                            const char *path, struct engine_options *options, struct errinfo *info)
{
    *options = to_engine(cli, settings, path);
    return fill_adapters(cli, settings, options, info);
}

enum err cli_find_model(const struct cli *cli, const char *models_dir, const char *name,
                        const char **path, struct errinfo *info)
{
    const struct resolve_options where = {.fs = cli->setup->fs,
                                          .models_dir = models_dir,
                                          .env = cli_env_of,
                                          .env_arg = (void *)cli->setup};
    struct resolved found;
    struct errinfo why = {0};

    enum err err = resolve_model(&where, name, &found, &why);
    if (err != ERR_OK)
        return err_set(info, err, "%.400s%s", why.text,
                       err == ERR_NOT_FOUND ? "; pass the path of a GGUF file, or download a model "
                                              "with 'hearth pull' ('demo' needs neither)"
                                            : "");
    *path = arena_strdup(cli->arena, str_from(found.path));
    return *path != NULL ? ERR_OK : err_set(info, ERR_NOMEM, "no memory for a path");
}

enum cli_exit cli_load_model(const struct cli *cli, const struct model_settings *settings,
                             const char *name, struct engine **engine, double *seconds)
{
    struct engine_options options;
    struct errinfo info = {0};
    uint64_t started = clock_mono_ns(cli->setup->clock);

    *engine = NULL;
    *seconds = 0;
    enum err err = cli_engine_options(cli, settings, name, &options, &info);
    if (err == ERR_INVALID)
        return cli_usage_error(cli, "%s", info.text);
    if (err == ERR_OK)
        err = cli_find_model(cli, NULL, name, &options.path, &info);
    if (err == ERR_OK) {
        struct progress *bar = cli_progress(cli, "loading", PROGRESS_UNIT_NONE);
        options.no_cache = true; /* only servers have one */
        options.on_progress = progress_part;
        options.arg = bar;
        err = cli_load_engine(settings, &options, engine, &info);
        progress_finish(&bar, err == ERR_OK);
    }
    *seconds = (double)(clock_mono_ns(cli->setup->clock) - started) / (double)NS_PER_S;
    if (err == ERR_OK)
        return CLI_EXIT_OK;
    return cli_error(cli, "%s", info.text);
}

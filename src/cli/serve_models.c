/*
 * serve_models.c: from the command line and the INI file to a pool of models.
 *
 *      MODEL, -m, [model NAME] with "model = ", --models-dir  --resolve.h-->  files with names
 *      options of the command  <--over-- [model NAME]                         settings of each
 *
 * A model's section takes precedence over settings for all models, even those on the command line.
 *
 * Everything is read before the first thread starts; the loader's thread only reads it.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/drill.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "cli/cli.h"
#include "cli/config.h"
#include "cli/pull.h"
#include "cli/serve.h"
#include "engine/backend.h"
#include "models/pool.h"
#include "models/resolve.h"
#include "models/model.h"
#include "sched/cost_file.h"

enum { TEMPLATE_BYTES_MAX = 1 << 20, RESIDENTS_MAX = 4, CHECK_MS = 5000 };

/* What a [model NAME] section can say. */
struct preset {
    struct model_settings model;
    const char *file, *template_file;
    uint64_t ttl_ns;
    bool pinned;
};

#define AT(field) offsetof(struct preset, field)

static const struct option_desc preset_options[] = {
    {"model", 'm', OPTION_TEXT, AT(file), .value = "MODEL",
     .help = "Model to load, if the section name does not say."},
    {"chat-template-file", 0, OPTION_TEXT, AT(template_file), .value = "FILE",
     .help = "Jinja chat template to use instead of the one in the model."},
    {"model-ttl", 0, OPTION_DURATION, AT(ttl_ns), .value = "TIME",
     .help = "Unload the model after this idle time."},
    {"pin-model", 0, OPTION_FLAG, AT(pinned),
     .help = "Load the model at startup and never unload it."},
    MODEL_SETTINGS_OPTIONS(struct preset, model),
};

const struct option_table serve_preset_table = {"model", preset_options, COUNT_OF(preset_options)};

/* State of one pass over the settings; `status` is the first error. */
struct reading {
    struct serve_models *models;
    const struct cli *cli;
    struct option_parse ini;
    struct option_list sections; /* names of [model NAME] */
    enum cli_exit status;
};

/* Returns false. */
static bool complain(struct reading *reading, enum err err, const struct errinfo *info)
{
    if (err == ERR_INVALID || err == ERR_EXISTS || err == ERR_LIMIT)
        reading->status = cli_usage_error(reading->cli, "%s", info->text);
    else
        cli_error(reading->cli, "%s", info->text);
    if (reading->status == CLI_EXIT_OK)
        reading->status = CLI_EXIT_FAILURE;
    return false;
}

/* ---- names and files ---- */

static const char *find_file(struct reading *reading, const char *name)
{
    const char *path;
    struct errinfo info = {0};

    enum err err =
        cli_find_model(reading->cli, reading->models->options->models_dir, name, &path, &info);
    if (err == ERR_OK)
        return path;
    if (err == ERR_INVALID)
        err = ERR_NOT_FOUND; /* a failure, not a usage error */
    complain(reading, err, &info);
    return NULL;
}

static bool is_taken(const struct serve_models *models, const char *name)
{
    for (size_t i = 0; i < models->count; i++)
        if (strcmp(models->list[i].name, name) == 0)
            return true;
    return false;
}

/* Adds a model to the list. `name` NULL: named after the file. */
static void add(struct reading *reading, const char *name, const char *path)
{
    struct serve_models *models = reading->models;
    char stem[RESOLVE_NAME_BYTES];
    struct errinfo info = {0};
    bool named = name != NULL;

    if (reading->status != CLI_EXIT_OK)
        return;
    resolve_stem(path, stem);
    name = arena_strdup(reading->cli->arena, str_from(name != NULL ? name : stem));
    path = arena_strdup(reading->cli->arena, str_from(path));
    enum err err = ERR_OK;
    if (name == NULL || path == NULL)
        err = err_set(&info, ERR_NOMEM, "no memory for the models");
    else if (is_taken(models, name))
        err = err_set(&info, ERR_EXISTS,
                      "two models have the name '%s': give one of them an alias with -m ALIAS=FILE",
                      name);
    else if (models->count == SERVE_MODELS_MAX)
        err = err_set(&info, ERR_LIMIT, "more than %d models", SERVE_MODELS_MAX);
    if (err != ERR_OK)
        complain(reading, err, &info);
    else
        models->list[models->count++] =
            (struct serve_model){.name = name, .path = path, .named = named};
}

/* "MODEL" or "ALIAS=MODEL"; an existing file with '=' in its name is a MODEL. */
static void add_spelled(struct reading *reading, const char *text, const char *alias)
{
    const char *equals = strchr(text, '='), *slash = strchr(text, '/');
    struct stat st;
    const char *path;

    if (equals != NULL && (slash == NULL || equals < slash) && equals != text &&
        file_stat_at(reading->cli->setup->fs, AT_FDCWD, text, &st, NULL) != ERR_OK) {
        alias = arena_strdup(reading->cli->arena, (struct str){text, (size_t)(equals - text)});
        text = equals + 1;
    }
    path = find_file(reading, text);
    /* A blob of Ollama's store is called after its content: it keeps the name that it was found by. */
    if (path != NULL && alias == NULL && str_starts(str_from(file_base_name(path)), STR("sha256-")))
        alias = text;
    if (path != NULL)
        add(reading, alias, path);
}

/* A model of --hf-repo, downloaded unless it is there: the only way in which a server fetches one. */
static void add_pulled(struct reading *reading, const char *name, const char *alias)
{
    char pulled[MODEL_FILE_PATH_BYTES];
    const char *path = pulled;
    struct errinfo info = {0};

    enum err err = cli_find_model(reading->cli, NULL, name, &path, &info);
    if (err == ERR_NOT_FOUND)
        err = pull_model(reading->cli, name, pulled, &info);
    if (err == ERR_OK)
        add(reading, alias, path);
    else
        complain(reading, err, &info);
}

static void add_from_dir(const char *name, const char *path, void *arg)
{
    struct reading *reading = arg;

    for (size_t i = 0; i < reading->models->count; i++)
        if (strcmp(reading->models->list[i].path, path) == 0)
            return; /* named before */
    if (!is_taken(reading->models, name))
        add(reading, name, path);
}

static void add_dir(struct reading *reading)
{
    const char *dir = reading->models->options->models_dir;
    struct errinfo info = {0};
    enum err err = ERR_OK;

    if (dir != NULL)
        err = resolve_list(reading->cli->setup->fs, dir, add_from_dir, reading, &info);
    if (err == ERR_OK && dir != NULL && reading->models->count == 0)
        err = err_set(&info, ERR_NOT_FOUND, "%s has no GGUF file", dir);
    if (err != ERR_OK)
        complain(reading, err == ERR_LIMIT ? ERR_IO : err, &info);
}

/* ---- the INI file ---- */

static bool open_ini(struct reading *reading)
{
    const struct cli *cli = reading->cli;
    struct errinfo info = {0};

    reading->ini = (struct option_parse){.arena = cli->arena,
                                         .whole = cli->setup->memory_bytes,
                                         .ini_text = cli->config_text,
                                         .ini_name = cli->config};
    enum err err = option_sections(&reading->ini, "model", &reading->sections, &info);
    return err == ERR_OK || complain(reading, err, &info);
}

static bool has_name(const struct option_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], name) == 0)
            return true;
    return false;
}

static bool read_preset(struct reading *reading, const char *name, struct preset *preset)
{
    const struct serve_options *options = reading->models->options;
    struct errinfo info = {0};

    *preset = (struct preset){.model = options->model,
                              .template_file = options->template_file,
                              .ttl_ns = options->model_ttl_ns,
                              .pinned = has_name(&options->pinned, name)};
    enum err err =
        option_read_section(&serve_preset_table, "model", name, preset, &reading->ini, &info);
    return err == ERR_OK || complain(reading, err, &info);
}

/* Sections of models that are named nowhere else. */
static void add_sections(struct reading *reading)
{
    for (size_t i = 0; i < reading->sections.count && reading->status == CLI_EXIT_OK; i++) {
        const char *name = reading->sections.items[i], *path;
        struct preset preset;

        if (is_taken(reading->models, name) || !read_preset(reading, name, &preset))
            continue;
        path = find_file(reading, preset.file != NULL ? preset.file : name);
        if (path != NULL)
            add(reading, name, path);
    }
}

/* ---- settings of each ---- */

static bool read_template(struct reading *reading, const char *path, const char **text)
{
    struct errinfo info = {0};
    char *data;
    size_t len;

    *text = NULL;
    if (path == NULL)
        return true;
    if (file_read_all(reading->cli->setup->fs, AT_FDCWD, path, TEMPLATE_BYTES_MAX, &data, &len,
                      &info) != ERR_OK)
        return complain(reading, ERR_IO, &info);
    *text = arena_strdup(reading->cli->arena, (struct str){data, len});
    mem_free(data);
    return *text != NULL;
}

/* Bytes of a value in a row, on average. */
static double row_value_bytes(const struct model_settings *settings)
{
    return (engine_kv_bytes((enum engine_kv)settings->kv_k) +
            engine_kv_bytes((enum engine_kv)settings->kv_v)) /
           2;
}

/* Sequences of the engine: running ones, and some that stay on the device afterwards. */
static void set_sequences(struct model_settings *settings, bool exact)
{
    if (exact)
        settings->sequences = 1;
    else
        settings->sequences += MIN(settings->sequences, RESIDENTS_MAX);
}

/* Bytes for weights and rows: of the GPUs, where there are some, else what the RAM tier leaves. */
static uint64_t room_of(const struct serve_options *options)
{
    struct backend_memory device = {0, 0};
    uint64_t ceiling = serve_ceiling(options), ram = serve_ram_bytes(options);

    if (options->model.gpu_layers != 0) {
        backend_init(options->model.backends);
        device = backend_device_memory();
    }
    return device.total > 0 ? device.free : ceiling - MIN(ceiling, ram);
}

/* A context that fits, for a model that has the memory for itself. A child process loads the
 * backends of --isolate: nothing is known about its devices here. */
static void choose_context(const struct reading *reading, const struct serve_model *model,
                           struct preset *preset)
{
    double bytes = row_value_bytes(&preset->model);
    uint32_t tokens = 0;

    if (preset->model.context > 0 || reading->models->count > 1 || preset->model.isolate)
        return;
    if (model_file_fit(model->path, bytes, room_of(reading->models->options), &tokens, NULL) ==
        ERR_OK) /* otherwise loading reports the error */
        preset->model.context = tokens;
}

static void fill(struct reading *reading, struct serve_model *model)
{
    const struct serve_options *options = reading->models->options;
    struct errinfo info = {0};
    struct preset preset;

    if (!read_preset(reading, model->name, &preset) ||
        !read_template(reading, preset.template_file, &model->template_text))
        return;
    choose_context(reading, model, &preset);
    model->parallel = (uint32_t)preset.model.sequences;
    set_sequences(&preset.model, options->exact);
    model->settings = preset.model;
    model->ttl_ns = preset.ttl_ns;
    model->pinned = preset.pinned;
    model->context = (struct model_file_context){
        .tokens = (uint32_t)preset.model.context,
        .bytes_per_value = row_value_bytes(&preset.model),
    };
    enum err err =
        cli_engine_options(reading->cli, &preset.model, model->path, &model->engine, &info);
    if (err != ERR_OK)
        complain(reading, err, &info);
    model->engine.state_dir = folders_state(reading->cli, options->state_dir);
    model->engine.sharing =
        options->exact ? ENGINE_SHARING_BITS : (enum engine_sharing)options->sharing;
}

/* The model of --alias NAME,NAME: the first is its name. */
static void add_aliases(struct reading *reading)
{
    const char *alias = reading->models->options->alias;
    struct serve_model *model = reading->models->list;
    size_t len = alias != NULL ? strcspn(alias, ",") : 0;

    if (len == 0 || alias[len] == '\0' || reading->models->count == 0 ||
        strcmp(model->name, alias) != 0)
        return;
    model->name = arena_strdup(reading->cli->arena, (struct str){alias, len});
    model->aliases = alias + len + 1;
    if (model->name == NULL)
        reading->status = cli_error(reading->cli, "no memory for --alias");
}

static void check_pins(struct reading *reading)
{
    const struct option_list *pinned = &reading->models->options->pinned;
    struct errinfo info = {0};

    for (size_t i = 0; i < pinned->count && reading->status == CLI_EXIT_OK; i++)
        if (!is_taken(reading->models, pinned->items[i])) {
            err_set(&info, ERR_INVALID, "--pin-model %s: unknown model", pinned->items[i]);
            complain(reading, ERR_INVALID, &info);
        }
}

static void read_all(struct reading *reading)
{
    const struct cli *cli = reading->cli;
    const struct serve_options *options = reading->models->options;
    const char *alias = options->alias;
    struct serve_models *models = reading->models;

    for (size_t i = 0; i < cli->args_count && reading->status == CLI_EXIT_OK; i++, alias = NULL)
        add_spelled(reading, cli->args[i], alias);
    for (size_t i = 0; i < options->pulled.count && reading->status == CLI_EXIT_OK;
         i++, alias = NULL)
        add_pulled(reading, options->pulled.items[i], alias);
    for (size_t i = 0; i < options->models.count && reading->status == CLI_EXIT_OK;
         i++, alias = NULL)
        add_spelled(reading, options->models.items[i], alias);
    if (reading->status == CLI_EXIT_OK)
        add_sections(reading);
    if (reading->status == CLI_EXIT_OK)
        add_dir(reading);
    if (reading->status == CLI_EXIT_OK && models->count == 0)
        reading->status =
            cli_usage_error(cli, "no model given. Usage: hearth serve MODEL.gguf "
                                 "(`hearth serve demo` serves the one that comes with it)");
    add_aliases(reading);
    check_pins(reading);
    for (size_t i = 0; i < models->count && reading->status == CLI_EXIT_OK; i++)
        fill(reading, &models->list[i]);
}

enum cli_exit serve_models_read(struct serve_models *models, const struct cli *cli,
                                const struct serve_options *options)
{
    struct reading reading = {.models = models, .cli = cli};

    *models = (struct serve_models){.cli = cli, .options = options};
    models->list = arena_alloc_array(cli->arena, SERVE_MODELS_MAX, sizeof(*models->list));
    if (models->list == NULL)
        return cli_error(cli, "no memory for the models");
    if (open_ini(&reading))
        read_all(&reading);
    return reading.status;
}

/* ---- loading; on the pool's threads ---- */

/* The memory of a draft model is that of its model. */
static enum err add_draft(const struct file_sys *fs, const struct serve_model *model,
                          struct model_file *file, struct errinfo *info)
{
    struct model_file_context context = model->context;
    struct model_file draft;

    if (model->settings.draft == NULL)
        return ERR_OK;
    if (model->settings.draft_context > 0)
        context.tokens = (uint32_t)model->settings.draft_context;
    enum err err = model_file_inspect(fs, model->settings.draft, &context, &draft, info);
    if (err != ERR_OK)
        return err_wrap(info, err, "--model-draft");
    file->memory_bytes += draft.memory_bytes;
    return ERR_OK;
}

static enum err inspect(const struct pool_spec *spec, bool quick, struct model_file *file,
                        struct errinfo *info, void *arg)
{
    const struct serve_models *models = arg;
    const struct serve_model *model = spec->settings;
    const struct file_sys *fs = models->cli->setup->fs;

    if (quick)
        return model_file_stamp(fs, spec->path, file, info);
    TRY(model_file_inspect(fs, spec->path, &model->context, file, info));
    return add_draft(fs, model, file, info);
}

static void warm_up(const struct serve_models *models, struct model *model)
{
    struct errinfo info = {0};

    if (model_warm(model, NULL, &info) != ERR_OK)
        LOG_WARN(models->cli->log, "models", "the warm-up failed",
                 LOG_STR("model", model_name(model)), LOG_STR("error", info.text));
}

/* Also on disk, of earlier processes. */
static bool has_state(struct hearth_cache *cache)
{
    struct hearth_stats stats = {.struct_size = sizeof(stats)};

    if (cache == NULL)
        return false;
    hearth_get_stats(cache, NULL, &stats);
    return stats.objects > 0;
}

static enum err load(const struct pool_spec *spec, bool warm,
                     bool (*progress)(float done, void *arg), void *progress_arg,
                     struct model **out, struct errinfo *info, void *arg)
{
    const struct serve_models *models = arg;
    const struct serve_options *options = models->options;
    const struct serve_model *model = spec->settings;
    struct engine_options engine = model->engine;
    struct model_settings settings = model->settings;
    struct model_options filled = {
        .name = spec->name,
        .template_text = model->template_text,
        .cache = models->store->cache,
        .shares = models->shares,
        .shares_count = options->shares.count + options->ssd_shares.count,
        .sched = {.parallel = model->parallel,
                  .queue = (uint32_t)options->queue,
                  .exact = options->exact,
                  .drafts = models->drafts,
                  .draft_max = (uint32_t)model->settings.draft_max,
                  .draft_min = (uint32_t)model->settings.draft_min,
                  /* State that a drill drops must not be on the device either. */
                  .park = options->cache && serve_drill(models->cli) == DRILL_NONE,
                  .memory = models->memory,
                  .progress = true,
                  .drill = serve_drill(models->cli),
                  .cache = models->store->cache},
        .clock = models->cli->setup->clock,
        .log = models->cli->log,
    };

    engine.stored = has_state(models->store->cache);
    engine.on_progress = progress;
    engine.arg = progress_arg;
    engine.rollback = options->exact ? 0 : models->drafts;
    settings.memory = models->store->memory;
    settings.vet = models->store->vet;
    settings.alone = models->count == 1 && !atomic_load(&models->opened);
    TRY(cli_load_engine(&settings, &engine, &filled.engine, info));
    enum err err = cli_load_draft(&settings, &engine, filled.engine, &filled.draft_engine, info);
    if (err != ERR_OK) {
        engine_close(&filled.engine);
        return err;
    }
    filled.sched.cost_dir = engine.state_dir;
    filled.sched.cost_key = cost_file_key(engine_facts(filled.engine), &engine);
    TRY(model_open(out, &filled, info));
    if (warm && options->warm &&
        models->count > 1) /* a single model is tested when it is loaded, and its clients wait */
        warm_up(models, *out);
    return ERR_OK;
}

/* ---- opening ---- */

static uint64_t memory_of(const struct serve_models *models)
{
    uint64_t ceiling = serve_ceiling(models->options), cache = models->store->ram_bytes;

    if (models->options->models_bytes > 0 || models->count == 1)
        return models->options->models_bytes;
    return ceiling - MIN(ceiling, cache);
}

static enum err add_all(struct serve_models *models, struct pool *pool, struct errinfo *info)
{
    for (size_t i = 0; i < models->count; i++) {
        const struct serve_model *model = &models->list[i];

        TRY(pool_add(pool,
                     &(struct pool_spec){.name = model->name,
                                         .aliases = model->aliases,
                                         .path = model->path,
                                         .settings = model,
                                         .ttl_ns = model->ttl_ns,
                                         .pinned = model->pinned},
                     info));
    }
    return ERR_OK;
}

static void on_progress(const char *name, float done, void *arg)
{
    (void)name;
    (void)progress_part(done, arg);
}

/* Loads one with a bar. */
static enum err load_now(const struct cli *cli, struct pool *pool, const char *name,
                         struct errinfo *info)
{
    struct progress *bar = cli_progress(cli, "loading", PROGRESS_UNIT_NONE);

    pool_on_progress(pool, on_progress, bar);
    enum err err = pool_load(pool, str_from(name), info);
    if (err == ERR_OK)
        err = pool_wait_ready(pool, str_from(name), info);
    pool_on_progress(pool, NULL, NULL);
    progress_finish(&bar, err == ERR_OK);
    return err;
}

static enum err load_first(struct serve_models *models, struct pool *pool, struct errinfo *info)
{
    for (size_t i = 0; i < models->count; i++)
        if (models->count == 1 || models->list[i].pinned)
            TRY(load_now(models->cli, pool, models->list[i].name, info));
    return ERR_OK;
}

enum cli_exit serve_models_open(struct serve_models *models, struct pool **pool, double *load_s)
{
    struct pool_options options = {
        .ops = {inspect, load, models},
        .bytes_max = memory_of(models),
        .models_max = (uint32_t)models->options->models_max,
        .check_ms = CHECK_MS,
        .clock = models->cli->setup->clock,
        .log = models->cli->log,
        .memory = models->memory,
    };
    struct errinfo info = {0};
    struct pool_view view = {0};

    enum err err = pool_create(pool, &options, &info);
    if (err == ERR_OK)
        err = add_all(models, *pool, &info);
    if (err == ERR_OK)
        err = load_first(models, *pool, &info);
    if (err == ERR_OK)
        (void)pool_view(*pool, 0, &view);
    *load_s = view.load_s;
    atomic_store(&models->opened, true);
    if (err == ERR_OK)
        return CLI_EXIT_OK;
    return cli_error(models->cli, "%s", info.text);
}

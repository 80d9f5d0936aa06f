/*
 * serve.c: `hearth serve MODEL`: the server, from options to the last answer.
 *
 *      store (cache, disk, key) -> api -> http up (503 while loading) -> models -> 200s
 *         -> signal -> drain -> close
 *
 * The socket is open before a model is loaded, so that clients can already connect and a port in
 * use is reported at once. All signals are blocked before the first thread starts; this thread
 * waits for them (serve_wait.c). A second SIGINT or SIGTERM ends without waiting.
 */
#include "cli/serve.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <yyjson.h>

#include "serve/api.h"
#include "admin/admin.h"
#include "admin/record.h"
#include "admin/metrics.h"
#include "base/clock.h"
#include "base/drill.h"
#include "base/file.h"
#include "base/json_alc.h"
#include "base/log.h"
#include "base/progress.h"
#include "cli/cli.h"
#include "cli/foreign.h"
#include "engine/sample.h"
#include "http/server.h"
#include "models/pool.h"
#include "chat/neutral.h"
#include "sched/draft.h"
#include "sched/memory.h"
#include "version.h"

#define AT(field) offsetof(struct serve_options, field)

/* descriptors: for everything but connections, and to start at all */
enum { FILES_BESIDE = 1024, FILES_MIN = 64 };

/* How long /ready answers 503 before the end, at most, and how often: load balancers take a server
 * out after two or three failed checks. */
#define ANNOUNCE_NS (5 * NS_PER_S)
enum { ANNOUNCE_CHECKS = 3 };

/* in the order of enum engine_sharing */
static const char *const tails_names[] = {"none", NULL}; /* UINT64_MAX, as in the library */
static const char *const sharing_names[] = {"build", "release", NULL};

enum { THINK_AUTO, THINK_ON, THINK_OFF };
static const char *const reasoning_names[] = {"auto", "on", "off", NULL};

static const struct option_desc options_table[] = {
    {"model", 'm', OPTION_LIST, AT(models), .value = "[ALIAS=]MODEL", .group = "Server",
     .help = "Model to serve: a GGUF file, a folder, user/repo[:QUANT] or an Ollama name."},
    {"hf-repo", 0, OPTION_LIST, AT(pulled), .value = "USER/REPO[:QUANT]", .alias = "hf",
     .help = "Model of Hugging Face to serve; downloaded first unless it is there."},
    {"alias", 'a', OPTION_TEXT, AT(alias), .value = "NAME[,NAME...]",
     .help = "Names of the first model in the API; the first one is shown."},
    {"models-dir", 0, OPTION_TEXT, AT(models_dir), .value = "DIR",
     .help = "Also serve every model in this folder."},
    {"models-max", 0, OPTION_UINT, AT(models_max), .value = "N", .max = SERVE_MODELS_MAX,
     .help = "Maximum number of loaded models; 0 = as many as fit."},
    {"models-memory", 0, OPTION_SIZE, AT(models_bytes), .value = "SIZE",
     .help = "Memory for loaded models; 0 = --max-memory minus the cache."},
    {"model-ttl", 0, OPTION_DURATION, AT(model_ttl_ns), .value = "TIME", .initial = "0s",
     .help = "Unload a model after this idle time; 0 = never."},
    {"pin-model", 0, OPTION_LIST, AT(pinned), .value = "NAME",
     .help = "Load this model at startup and never unload it."},
    {"load-timeout", 0, OPTION_DURATION, AT(load_ns), .value = "TIME", .initial = "5m",
     .min = NS_PER_MS, .max = 24 * 3600 * NS_PER_S,
     .help = "How long a request waits for its model to load."},
    {"warmup", 0, OPTION_FLAG, AT(warm), .initial = "on",
     .help = "Skip the warm-up run after a model is loaded."},
    {"host", 0, OPTION_TEXT, AT(host), .value = "ADDRESS", .initial = "127.0.0.1",
     .help = "Address to listen on, or a path that ends in .sock."},
    {"port", 0, OPTION_UINT, AT(port), .value = "N", .initial = "4327", .max = 65535,
     .help = "Port to listen on; 0 = any free port."}, /* "hear" on a telephone */
    {"tls-cert", 0, OPTION_TEXT, AT(tls_cert), .value = "FILE",
     .help = "Serve https with this certificate (PEM, with its chain); needs --tls-key."},
    {"tls-key", 0, OPTION_TEXT, AT(tls_key), .value = "FILE",
     .help = "Private key of --tls-cert (PEM, without a password)."},
    {"api-key", 0, OPTION_LIST, AT(keys), .value = "KEY", .secret = true,
     .help = "Key that clients must send: KEY or NAME:KEY."},
    {"api-key-file", 0, OPTION_TEXT, AT(key_file), .value = "FILE",
     .help = "File with one key per line."},
    {"admin-key", 0, OPTION_TEXT, AT(admin_key), .value = "KEY", .secret = true,
     .help = "Key for /admin, which can change the server for all users."},
    {"admin-show-text", 0, OPTION_FLAG, AT(admin_show_text),
     .help = "Let /admin show cached tokens and text instead of hashes and sizes only."},
    {"admin-files", 0, OPTION_TEXT, AT(admin_files), .value = "DIR",
     .help = "Folder that /admin may export to and import from; without it, neither is allowed."},
    {"media-path", 0, OPTION_TEXT, AT(media_path), .value = "DIR",
     .help = "Folder whose pictures requests may name by file:// URLs; without it, none."},
    {"tenant-share", 0, OPTION_LIST, AT(shares), .value = "TENANT=SIZE",
     .help = "RAM cache reserved for a tenant."},
    {"tenant-ssd-share", 0, OPTION_LIST, AT(ssd_shares), .value = "TENANT=SIZE",
     .help = "SSD cache reserved for a tenant, as part of --ssd-max."},
    {"cache-isolation", 0, OPTION_ENUM, AT(isolation), .value = "WHAT", .initial = "auto",
     .names = auth_isolation_names, .help = "Whether API keys share the cache."},
    {"allow-any", 0, OPTION_FLAG, AT(open_to_all),
     .help = "Accept remote clients without an API key (insecure)."},
    {"allow-host", 0, OPTION_LIST, AT(hosts), .value = "NAME",
     .help = "Host name that clients may use, besides localhost."},
    {"cors-origins", 0, OPTION_LIST, AT(origins), .value = "ORIGIN", .initial = HTTP_ORIGIN_LOCAL,
     .commas = true,
     .help = "Origin of web pages that may call the server: SCHEME://HOST[:PORT], localhost (all "
             "pages of this machine, but not to /admin), * (any), or none."},
    {"strict-model", 0, OPTION_FLAG, AT(strict_model),
     .help = "Reject requests that name a model that is not served."},
    {"chat-template-file", 0, OPTION_TEXT, AT(template_file), .value = "FILE",
     .help = "Jinja chat template to use instead of the one in the model."},
    {"metrics-compat", 0, OPTION_LIST, AT(metrics_compat), .value = "SERVER", .commas = true,
     .help = "Also export /metrics under the names of another server: llamacpp, vllm."},
    {"public-metrics", 0, OPTION_FLAG, AT(public_metrics),
     .help = "Serve /metrics without a key. It contains totals over all tenants."},
    {"queue", 0, OPTION_UINT, AT(queue), .value = "N", .initial = "256", .min = 1, .max = 65536,
     .help = "Maximum number of queued requests; further ones get 429."},
    {"workers", 0, OPTION_UINT, AT(workers), .value = "N", .initial = "2", .min = 1, .max = 64,
     .help = "Threads that parse requests and render prompts."},
    {"connections", 0, OPTION_UINT, AT(connections), .value = "N", .initial = "1024", .min = 1,
     .max = 1u << 20, .help = "Maximum number of connections; further ones get 503."},
    {"connections-per-address", 0, OPTION_UINT, AT(connections_per_address), .value = "N",
     .initial = "256", .min = 1, .max = 1u << 20,
     .help = "Maximum number of connections per address; local sockets do not count."},
    {"log-queue", 0, OPTION_SIZE, AT(log_queue), .value = "SIZE", .initial = "1MiB",
     .min = LOG_QUEUE_BYTES_MIN, .max = 1u << 30,
     .help = "Log lines to buffer while standard error is blocked; further lines are dropped and "
             "counted."},
    {"drain", 0, OPTION_DURATION, AT(drain_ns), .value = "TIME", .initial = "30s",
     .help = "How long running requests may take to finish after SIGTERM."},
    {"ram-cache", 0, OPTION_SIZE, AT(ram_bytes), .value = "SIZE", .group = "Cache",
     .help = "RAM for the prefix cache; 0 = a quarter of --max-memory."},
    {"ssd-dir", 0, OPTION_TEXT, AT(ssd_dir), .value = "DIR",
     .help = "Folder of the SSD cache, which survives restarts; `none` disables it."},
    {"ssd-max", 0, OPTION_SIZE, AT(ssd_bytes), .value = "SIZE", .initial = "32GiB",
     .help = "Maximum size of the SSD cache."},
    {"ssd-free", 0, OPTION_SIZE, AT(ssd_free), .value = "SIZE", .initial = "8GiB",
     .help = "Disk space to leave free."},
    {"ssd-writes-per-day", 0, OPTION_SIZE, AT(ssd_day_bytes), .value = "SIZE",
     .help = "Maximum bytes written to the SSD cache per day; 0 = unlimited."},
    {"ssd-encrypt", 0, OPTION_TEXT, AT(ssd_key_file), .value = "KEYFILE",
     .help = "Encrypt the SSD cache with the key in this file (mode 0600)."},
    {"shared", 0, OPTION_TEXT, AT(shared), .value = "URL", .secret = true,
     .help = "Store that several machines share: valkey://[USER:PASSWORD@]HOST:PORT[,...]/PREFIX "
             "(valkeys:// with TLS), or s3://BUCKET/PREFIX."},
    {"shared-ttl", 0, OPTION_DURATION, AT(shared_ttl_ns), .value = "TIME", .initial = "24h",
     .min = NS_PER_S, .help = "How long objects stay in the shared store after their last use."},
    {"shared-wait", 0, OPTION_DURATION, AT(shared_wait_ns), .value = "TIME", .initial = "200ms",
     .min = NS_PER_MS, .max = 60 * NS_PER_S,
     .help = "How long a request waits to learn what the shared store has of its prompt."},
    {"shared-share", 0, OPTION_UINT, AT(shared_share), .value = "PERCENT", .initial = "50",
     .min = 1, .max = 100,
     .help = "The part of the shared store's maxmemory that one tenant may fill; 100 = no limit."},
    {"shared-ca", 0, OPTION_TEXT, AT(shared_ca), .value = "FILE",
     .help = "Certificates that the TLS of the shared store trusts, instead of the system's."},
    {"state-dir", 0, OPTION_TEXT, AT(state_dir), .value = "DIR",
     .help = "Folder for the installation key and other state."},
    {"record", 0, OPTION_TEXT, AT(record), .value = "FILE",
     .help = "Record requests as keyed hashes, for `hearth replay`."},
    {"record-max", 0, OPTION_SIZE, AT(record_bytes), .value = "SIZE", .initial = "1GiB",
     .min = 4096, .help = "File size at which recording stops."},
    {"record-block", 0, OPTION_UINT, AT(record_block), .value = "N", .initial = "16", .min = 1,
     .max = 65536, .help = "Tokens per recorded hash."},
    {"block-size", 0, OPTION_UINT, AT(block_tokens), .value = "N", .initial = "256", .min = 1,
     .max = 65536, .help = "Tokens per cache block."},
    {"tails", 0, OPTION_SIZE, AT(tail_bytes), .value = "SIZE", .names = tails_names,
     .help = "RAM for partial last blocks, per model and tenant; 0 = a quarter of the RAM cache, "
             "none = "
             "do not cache them."},
    {"snapshots", 0, OPTION_SIZE, AT(snapshot_bytes), .value = "SIZE",
     .help = "RAM for snapshots (hybrid, recurrent and sliding models), per model and tenant; 0 = "
             "no limit but the RAM cache."},
    {"cache-policy", 0, OPTION_TEXT, AT(policy), .value = "NAME", .initial = "expected-reuse",
     .help =
         "Eviction policy: expected-reuse, saving-per-byte (no better than lru-tail), lru-tail."},
    {"exact", 0, OPTION_FLAG, AT(exact),
     .help = "Run one request at a time, so that every answer is bit-identical to a cold run."},
    {"drafts", 0, OPTION_TEXT, AT(drafts), .value = "HOW", .initial = "auto",
     .help = "Guess the next tokens of answers from known text and verify them in one batch: as "
             "many as pay (auto), off, or always up to this number (1 to 63)."},
    {"share-state", 0, OPTION_ENUM, AT(sharing), .value = "HOW", .initial = "build",
     .names = sharing_names,
     .help = "Use cached state of the same library build and kind of device (build), or of the "
             "same release on any device, equal except for rounding (release)."},
    {"cache", 0, OPTION_FLAG, AT(cache), .initial = "on", .help = "Disable the prefix cache."},
    {"keep-volatile", 0, OPTION_LIST, AT(keep_volatile), .value = "RULE",
     .help = "Do not normalize this kind of changing text (clocks, billing headers); /props lists "
             "the rules."},
    {"normalize", 0, OPTION_LIST, AT(normalize), .value = "RULE",
     .help = "Also apply this rule, which is off by default (parameter-order)."},
    {"stored-responses", 0, OPTION_SIZE, AT(stored_bytes), .value = "SIZE", .initial = "64MiB",
     .max = UINT64_C(64) << 30,
     .help =
         "Responses (/v1/responses) that each tenant may store and continue, in memory and, with "
         "an SSD tier, on disk; 0 = none."},
    {"keep-thoughts", 0, OPTION_FLAG, AT(keep_thoughts),
     .help = "Send reasoning of earlier turns to the model even if the template drops it."},
    {"reasoning", 0, OPTION_ENUM, AT(reasoning), .initial = "auto", .names = reasoning_names,
     .alias = "rea", .group = "Reasoning",
     .help = "Let models think before they answer, if requests do not say it; auto = on where the "
             "chat template has a switch."},
    {"reasoning-budget", 0, OPTION_INT, AT(reasoning_budget), .value = "N", .initial = "-1",
     .imin = -1, .imax = INT32_MAX,
     .help = "Maximum tokens of a thought, if requests do not say it; -1 = no limit, 0 = off."},
    {"chat-template-kwargs", 0, OPTION_TEXT, AT(template_kwargs), .value = "JSON",
     .help = "Variables for the chat template as a JSON object; those of a request win."},
    {"temp", 0, OPTION_FLOAT, AT(temperature), .value = "N", .initial = "0.8", .fmax = 100,
     .group = "Answers", .help = "Default temperature."},
    {"top-k", 0, OPTION_INT, AT(top_k), .value = "N", .initial = "40", .imin = 0, .imax = 1 << 30,
     .help = "Default top-k: sample from the N most probable tokens; 0 = all."},
    {"top-p", 0, OPTION_FLOAT, AT(top_p), .value = "N", .initial = "0.95", .fmax = 1,
     .help = "Default top-p: sample from the tokens that make up this probability."},
    {"min-p", 0, OPTION_FLOAT, AT(min_p), .value = "N", .initial = "0.05", .fmax = 1,
     .help = "Default min-p: drop tokens less probable than this fraction of the best one."},
    {"repeat-penalty", 0, OPTION_FLOAT, AT(repeat_penalty), .value = "N", .initial = "1",
     .fmin = 0.001, .fmax = 1000, .help = "Default penalty of repeated tokens; 1 = none."},
    {"repeat-last-n", 0, OPTION_INT, AT(repeat_last), .value = "N", .initial = "64", .imin = -1,
     .imax = 1 << 30, .help = "Tokens that the penalties look back; -1 = the context."},
    {"presence-penalty", 0, OPTION_FLOAT, AT(presence_penalty), .value = "N", .initial = "0",
     .fmin = -100, .fmax = 100, .help = "Default penalty of tokens that occurred."},
    {"frequency-penalty", 0, OPTION_FLOAT, AT(frequency_penalty), .value = "N", .initial = "0",
     .fmin = -100, .fmax = 100, .help = "Default penalty of tokens for each occurrence."},
    MODEL_SETTINGS_OPTIONS(struct serve_options, model),
    {"isolate", 0, OPTION_FLAG, AT(model.isolate),
     .help = "Run the model in a separate process, which is restarted if it dies or hangs."},
    {"model-draft", 0, OPTION_TEXT, AT(model.draft), .value = "FILE", .alias = "md",
     .help = "Smaller model with the same vocabulary that guesses the next tokens of answers."},
    {"ctx-size-draft", 0, OPTION_UINT, AT(model.draft_context), .value = "N", .max = 1u << 30,
     .alias = "cd", .help = "Context size of the draft model in tokens; 0 = that of the model."},
    {"gpu-layers-draft", 0, OPTION_INT, AT(model.draft_gpu_layers), .value = "N", .initial = "auto",
     .imax = 10000, .names = model_settings_layers, .alias = "ngld",
     .help = "Layers of the draft model to put on the GPU; auto = as many as fit, 0 = none."},
    {"draft-max", 0, OPTION_UINT, AT(model.draft_max), .value = "N", .max = DRAFT_TOKENS_MAX,
     .help = "Maximum tokens that the draft model guesses at a time; 0 = as many as pay."},
    {"draft-min", 0, OPTION_UINT, AT(model.draft_min), .value = "N", .max = DRAFT_TOKENS_MAX,
     .help = "Minimum tokens of a draft of the draft model; shorter ones are not used."},
    {"rpc", 0, OPTION_TEXT, AT(model.rpc), .value = "HOST:PORT,...",
     .help = "Split the model over these machines, which run `hearth worker`; implies --isolate."},
};

/* The server with all its parts; opened from the top down, closed from the bottom up. */
struct server {
    struct cli *cli;
    const struct serve_options *options;
    bool keyed;               /* clients need a key */
    char media_dir[PATH_MAX]; /* of --media-path; for the api */
    struct serve_models models;
    sigset_t signals, signals_before;
    struct serve_store store;
    struct record *record;
    struct neutral *neutral;
    struct sample_params sample;
    yyjson_doc *kwargs; /* of --chat-template-kwargs; NULL: none */
    struct memory *memory;
    struct model_share *shares;
    unsigned metrics_compat;
    struct admin *admin;
    struct api *api;
    struct http_server *http;
    struct pool *pool;
    double load_s;
};

static bool is_socket(const char *host)
{
    return str_ends(str_from(host), STR(".sock"));
}

/* ---- checks before anything is opened ---- */

static bool read_drafts(struct server *server, uint32_t *drafts)
{
    struct str text = str_from(server->options->drafts);
    uint64_t number = SCHED_DRAFTS_AUTO;

    if (str_eq(text, STR("off")))
        number = 0;
    else if (!str_eq(text, STR("auto")) &&
             (!str_to_u64(text, &number) || number < 1 || number > DRAFT_TOKENS_MAX)) {
        cli_usage_error(server->cli, "--drafts %.40s: expected auto, off, or a number from 1 to %d",
                        text.ptr, DRAFT_TOKENS_MAX);
        return false;
    }
    *drafts = (uint32_t)number;
    return true;
}

static bool read_metrics_compat(struct server *server)
{
    const struct option_list *whose = &server->options->metrics_compat;

    for (size_t i = 0; i < whose->count; i++)
        if (!stats_compat_add(str_from(whose->items[i]), &server->metrics_compat)) {
            cli_usage_error(server->cli, "--metrics-compat %s: expected llamacpp or vllm",
                            whose->items[i]);
            return false;
        }
    return true;
}

/* Those of --cors-origins; `none`, alone, disables CORS. */
static struct option_list origins_of(const struct serve_options *options)
{
    const struct option_list *given = &options->origins;
    bool none =
        given->count == 1 && (given->items[0][0] == '\0' || strcmp(given->items[0], "none") == 0);

    return none ? (struct option_list){0} : *given;
}

static bool check_origins(struct server *server)
{
    struct option_list origins = origins_of(server->options);

    for (size_t i = 0; i < origins.count; i++)
        if (!http_origin_valid(str_from(origins.items[i]))) {
            cli_usage_error(server->cli,
                            "--cors-origins %s: expected SCHEME://HOST[:PORT] in lower case, "
                            "localhost, * or none",
                            origins.items[i]);
            return false;
        }
    return true;
}

static struct auth_options auth_of(const struct server *server)
{
    const struct serve_options *options = server->options;

    return (struct auth_options){
        .keys = options->keys.items,
        .keys_count = options->keys.count,
        .file = options->key_file,
        .admin = options->admin_key,
        .fs = server->cli->setup->fs,
        .isolation = serve_drill(server->cli) == DRILL_SHARE_TENANTS
                         ? AUTH_ISOLATION_NONE
                         : (enum auth_isolation)options->isolation,
    };
}

/* Asks what is in force, not what was given: an admin key alone leaves the other endpoints open. */
static enum cli_exit check_access(struct server *server)
{
    const struct serve_options *options = server->options;
    struct auth_options keys = auth_of(server);
    struct errinfo info = {0};
    struct auth *auth;

    enum err err = auth_create(&auth, &keys, &info);
    if (err != ERR_OK)
        return cli_fail(server->cli, err, &info);
    server->keyed = auth_wanted(auth);
    auth_destroy(&auth);
    if (!is_socket(options->host) && !http_is_loopback(str_from(options->host)) && !server->keyed &&
        !options->open_to_all)
        return cli_usage_error(server->cli,
                               "--host %s exposes the server to the network: set --api-key, or "
                               "--allow-any to run without one",
                               options->host);
    return CLI_EXIT_OK;
}

static enum cli_exit check(struct server *server)
{
    const struct serve_options *options = server->options;
    struct cli *cli = server->cli;

    enum cli_exit exit = check_access(server);
    if (exit != CLI_EXIT_OK)
        return exit;
    if ((options->tls_cert != NULL) != (options->tls_key != NULL))
        return cli_usage_error(cli, "--tls-cert and --tls-key belong together");
    if (options->tls_cert != NULL && is_socket(options->host))
        return cli_usage_error(cli, "--tls-cert needs a --host with a port: a local socket has no "
                                    "TLS");
    if (options->exact && options->sharing == ENGINE_SHARING_RELEASE)
        return cli_usage_error(cli, "--exact needs state of this build and device: it cannot be "
                                    "combined with --share-state release");
    uint32_t drafts;
    if (!read_metrics_compat(server) || !check_origins(server) || !read_drafts(server, &drafts))
        return CLI_EXIT_USAGE;
    if (options->model.draft != NULL && (drafts == 0 || options->exact))
        return cli_usage_error(cli, "--model-draft would not be used: there are no drafts with %s",
                               drafts == 0 ? "--drafts off" : "--exact");
    exit = serve_models_read(&server->models, cli, options);
    server->models.drafts = drafts;
    return exit;
}

/* ---- opening ---- */

static enum cli_exit switch_rules(struct server *server, const char *option,
                                  const struct option_list *rules, bool on)
{
    for (size_t i = 0; i < rules->count; i++)
        if (neutral_switch(server->neutral, str_from(rules->items[i]), on) != ERR_OK)
            return cli_usage_error(server->cli, "--%s %s: unknown rule", option, rules->items[i]);
    return CLI_EXIT_OK;
}

static enum cli_exit open_neutral(struct server *server)
{
    server->neutral = neutral_create();
    enum cli_exit exit = switch_rules(server, "normalize", &server->options->normalize, true);
    if (exit != CLI_EXIT_OK)
        return exit;
    return switch_rules(server, "keep-volatile", &server->options->keep_volatile, false);
}

/* Without a cache there is no installation key: use one for the life of this process. */
static enum cli_exit open_record(struct server *server)
{
    const struct serve_options *options = server->options;
    struct hash256 key = server->store.key;
    struct errinfo info = {0};

    if (options->record == NULL)
        return CLI_EXIT_OK;
    if (!options->cache)
        hash_random(key.bytes, sizeof(key.bytes));
    const struct record_options record = {
        .fs = server->cli->setup->fs,
        .path = options->record,
        .key = &key,
        .block_tokens = (uint32_t)options->record_block,
        .bytes_max = options->record_bytes,
        .log = server->cli->log,
    };
    return record_open(&server->record, &record, &info) == ERR_OK
               ? CLI_EXIT_OK
               : cli_error(server->cli, "--record: %s", info.text);
}

static const char *name_of(struct arena *arena, const char *option)
{
    char *name = arena_strdup(arena, str_from(option));

    for (char *at = name; at != NULL && *at != '\0'; at++)
        if (*at == '-')
            *at = '_';
    return name;
}

/* Everything that the server was started with, in the arena, as /admin/settings shows it: names as
 * in JSON, values as in the help; secrets are masked. */
static struct admin_setting *settings_of(const struct cli *cli, const struct option_table *table,
                                         const void *values, size_t *count)
{
    struct admin_setting *settings = arena_alloc_array(cli->arena, table->count, sizeof(*settings));

    *count = 0;
    for (size_t i = 0; settings != NULL && i < table->count; i++) {
        const struct option_desc *desc = &table->options[i];
        const char *name = name_of(cli->arena, desc->name);

        if (name == NULL || desc->hidden)
            continue;
        settings[(*count)++] = (struct admin_setting){
            .name = name,
            .value = cli_show_value(cli->arena, desc, values), /* NULL is shown as none */
            .initial = desc->initial,
            .help = desc->help,
        };
    }
    return settings;
}

static enum err open_admin(struct server *server, struct api_options *api, struct errinfo *info)
{
    const struct serve_options *options = server->options;
    struct admin_options admin = {
        .state_fs = server->store.dir != FILE_NO ? server->cli->setup->fs : NULL,
        .state_dir = server->store.dir,
        .record = server->record,
        .metrics_compat = server->metrics_compat,
        .ssd_day_bytes = options->ssd_day_bytes,
        .model_ttl_ns = options->model_ttl_ns,
        .files = options->admin_files,
        .fs = server->cli->setup->fs,
        .seal_key = server->store.sealed ? server->store.seal_key.bytes : NULL,
        .show_text = options->admin_show_text,
    };

    admin.settings = settings_of(server->cli, &command_serve.table, options, &admin.settings_count);
    return admin_create(&server->admin, &admin, api, info);
}

/* What requests get that do not say. */
static struct sample_params sample_of(const struct serve_options *options)
{
    struct sample_params sample = sample_params_default();

    sample.temperature = (float)options->temperature;
    sample.top_k = (int32_t)options->top_k;
    sample.top_p = (float)options->top_p;
    sample.min_p = (float)options->min_p;
    sample.penalty_repeat = (float)options->repeat_penalty;
    sample.penalty_last = (int32_t)options->repeat_last;
    sample.penalty_presence = (float)options->presence_penalty;
    sample.penalty_frequency = (float)options->frequency_penalty;
    return sample;
}

/* The share of the memory ceiling that all bodies have; UINT64_MAX: there is no ceiling. */
static uint64_t bodies_max(const struct server *server)
{
    struct memory_view memory;

    memory_get_view(server->memory, &memory);
    return memory.limits.ceiling > 0 ? memory.limits.bodies_max : UINT64_MAX;
}

/* As llama-server: models that can think do, unless told otherwise. */
static enum chat_thinking thinking_of(const struct serve_options *options)
{
    bool off = options->reasoning == THINK_OFF || options->reasoning_budget == 0;

    return off ? CHAT_THINKING_OFF : CHAT_THINKING_ON;
}

static enum cli_exit read_kwargs(struct server *server)
{
    const char *text = server->options->template_kwargs;

    if (text == NULL)
        return CLI_EXIT_OK;
    server->kwargs = yyjson_read_opts((char *)(uintptr_t)text, strlen(text), 0, json_alc(), NULL);
    if (yyjson_is_obj(yyjson_doc_get_root(server->kwargs)))
        return CLI_EXIT_OK;
    return cli_error(server->cli, "--chat-template-kwargs must be a JSON object, such as "
                                  "'{\"enable_thinking\": false}'");
}

static enum cli_exit open_api(struct server *server)
{
    const struct serve_options *options = server->options;
    struct errinfo info = {0};

    enum cli_exit kwargs = read_kwargs(server);
    if (kwargs != CLI_EXIT_OK)
        return kwargs;
    server->sample = sample_of(options);
    struct api_options api = {
        .auth = auth_of(server),
        .workers = (uint32_t)options->workers,
        .queue = (uint32_t)options->queue,
        .request_bytes_max = MIN(API_REQUEST_BYTES, (size_t)bodies_max(server)),
        .sample = &server->sample,
        .strict_model = options->strict_model,
        .load_ms = (uint32_t)(options->load_ns / NS_PER_MS),
        .neutral = serve_drill(server->cli) != DRILL_KEEP_VOLATILE ? server->neutral : NULL,
        .recall = server->store.recall,
        .recall_keep = options->keep_thoughts,
        .defaults = {.thinking = thinking_of(options),
                     .reasoning_budget = (uint32_t)MAX(options->reasoning_budget, 0),
                     .kwargs = yyjson_doc_get_root(server->kwargs)},
        .stored = server->store.stored,
        .cache = server->store.cache,
        .discover_ms = server->store.shared_wait_ms,
        .memory = server->memory,
        .public_metrics = options->public_metrics,
        .version = HEARTH_VERSION,
        .commit = HEARTH_COMMIT,
        .log = server->cli->log,
        .clock = server->cli->setup->clock,
        .drill = serve_drill(server->cli),
    };
    api.auth.log = server->cli->log;
    api.media_dir =
        options->media_path != NULL ? realpath(options->media_path, server->media_dir) : NULL;
    if (options->media_path != NULL && api.media_dir == NULL)
        return cli_error(server->cli, "--media-path: there is no folder '%s'", options->media_path);
    if (open_admin(server, &api, &info) == ERR_OK &&
        api_create(&server->api, &api, &info) == ERR_OK)
        return CLI_EXIT_OK;
    return cli_error(server->cli, "%s", info.text);
}

static uint64_t bodies_room(uint64_t bytes, void *memory)
{
    return memory_set_bodies(memory, bytes);
}

static enum cli_exit open_http(struct server *server)
{
    const struct serve_options *options = server->options;
    bool local = is_socket(options->host);
    struct errinfo info = {0};
    size_t count;
    const struct http_route *routes = api_routes(server->api, &count);
    struct option_list origins = origins_of(options);
    struct http_options http = {
        .host = local ? NULL : options->host,
        .port = (uint16_t)options->port,
        .tls_cert = options->tls_cert,
        .tls_key = options->tls_key,
        .unix_path = local ? options->host : NULL,
        .limits = {.connections_max = (uint32_t)options->connections,
                   .connections_per_address_max = (uint32_t)options->connections_per_address},
        .allowed_hosts = {options->hosts.items, options->hosts.count},
        .cors_origins = {origins.items, origins.count},
        .log = server->cli->log,
        .clock = server->cli->setup->clock,
        .bodies_room = bodies_room,
        .bodies_arg = server->memory,
        .any_host = api_http_any_host,
        .check = api_http_check,
        .error_body = api_http_error,
    };
    http_limits_complete(&http.limits);
    http.limits.bodies_bytes_max = MIN(http.limits.bodies_bytes_max, bodies_max(server));

    enum err err = http_server_start(&http, routes, count, &server->http, &info);
    if (err != ERR_OK)
        return cli_error(server->cli,
                         err == ERR_BUSY ? "%s; choose another --port, or stop that program" : "%s",
                         info.text);
    admin_set_http_metrics(server->admin, http_server_metrics(server->http));
    return CLI_EXIT_OK;
}

static enum cli_exit open_models(struct server *server)
{
    server->models.store = &server->store;
    server->models.memory = server->memory;
    server->models.shares = server->shares;
    enum cli_exit status = serve_models_open(&server->models, &server->pool, &server->load_s);
    if (status == CLI_EXIT_OK) {
        admin_set_pool(server->admin, server->pool);
        api_set_pool(server->api, server->pool);
        admin_restore_settings(server->admin, server->api);
    }
    return status;
}

/* Each connection takes a descriptor, and with --isolate each arena of the cache; so take as
 * many as the system allows. */
static enum cli_exit raise_file_limit(struct server *server)
{
    uint64_t wanted = server->options->connections + FILES_BESIDE;
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted)
        return CLI_EXIT_OK;
    if (files.rlim_max < FILES_MIN)
        return cli_error(server->cli,
                         "the limit of open files is %llu, and a server needs %d at least (ulimit "
                         "-n, LimitNOFILE)",
                         (unsigned long long)files.rlim_max, FILES_MIN);
    files.rlim_cur = files.rlim_max < wanted ? files.rlim_max : wanted;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur < wanted)
        LOG_WARN(server->cli->log, "serve", "the limit of open files is too low for --connections",
                 LOG_UINT("limit", files.rlim_cur), LOG_UINT("wanted", wanted));
    return CLI_EXIT_OK;
}

/* ---- running ---- */

static void print_banner(struct server *server)
{
    const struct serve_options *options = server->options;
    struct serve_place place = {
        .host = options->host,
        .port = http_server_port(server->http),
        .models = &server->models,
        .keys = server->keyed,
        .tls = options->tls_cert != NULL,
    };

    if (!progress_has_room(fileno(server->cli->out)))
        return; /* the reader of stdout has stalled, and this thread must still see SIGTERM */
    struct model *model = pool_peek(server->pool, 0);
    serve_print_banner(server->cli, &place, model != NULL ? model_facts(model) : NULL,
                       &server->store, server->load_s);
    if (model != NULL)
        pool_unpeek(server->pool, model);
}

/* A load balancer that asks /ready gets a few 503s before connections are refused, so that it sends
 * no request into the end. Without one, this takes no time. False: the second signal came. */
static bool announce_end(struct server *server, const sigset_t *signals)
{
    const struct timespec pause = {.tv_nsec = 20 * NS_PER_MS};
    uint64_t wait_ns = MIN(server->options->drain_ns / 2, ANNOUNCE_NS);
    uint64_t deadline_ns = clock_deadline_ns(clock_real(), wait_ns);

    if (!api_announce_end(server->api))
        return true;
    while (api_announced(server->api) < ANNOUNCE_CHECKS &&
           clock_mono_ns(clock_real()) < deadline_ns)
        if (sigtimedwait(signals, NULL, &pause) > 0)
            return false;
    return true;
}

/* Running answers may continue for a while; the second signal ends them. */
static void drain(struct server *server)
{
    uint64_t deadline_ns = clock_deadline_ns(clock_real(), server->options->drain_ns);
    const struct timespec none = {0};

    sigset_t signals = server->signals;
    sigdelset(&signals, SIGHUP); /* no more reloads */
    bool waits = announce_end(server, &signals);
    admin_end_events(server->admin);
    while (!http_server_drain(server->http, waits ? 200 : 0) && waits &&
           clock_mono_ns(clock_real()) < deadline_ns)
        if (sigtimedwait(&signals, NULL, &none) > 0)
            break;
    api_drain(server->api, 1000);
}

static void close_all(struct server *server)
{
    if (server->http != NULL) {
        drain(server);
        admin_set_http_metrics(server->admin, NULL);
    }
    http_server_stop(&server->http);
    api_destroy(&server->api);
    yyjson_doc_free(server->kwargs);
    admin_destroy(&server->admin);
    record_close(&server->record);
    pool_destroy(&server->pool);
    memory_destroy(&server->memory);
    serve_store_close(&server->store, server->cli);
    neutral_destroy(&server->neutral);
    sigprocmask(SIG_SETMASK, &server->signals_before, NULL);
}

static enum cli_exit open_memory(struct server *server)
{
    struct errinfo info = {0};
    enum err err = serve_read_shares(server->cli, server->options, server->store.ram_bytes,
                                     &server->shares, &info);

    if (err != ERR_OK)
        return cli_usage_error(server->cli, "%s", info.text);
    server->memory =
        serve_memory_open(server->cli, server->options, &server->store, server->shares);
    return CLI_EXIT_OK;
}

static enum cli_exit open_store(struct server *server)
{
    return serve_store_open(&server->store, server->cli, server->options) ? CLI_EXIT_OK
                                                                          : CLI_EXIT_FAILURE;
}

static enum cli_exit open_all(struct server *server)
{
    static enum cli_exit (*const steps[])(struct server *) = {
        open_neutral, open_store, open_memory, open_record, open_api, open_http, open_models,
    };
    enum cli_exit status = CLI_EXIT_OK;

    for (size_t i = 0; status == CLI_EXIT_OK && i < COUNT_OF(steps); i++)
        status = steps[i](server);
    return status;
}

/* A stalled reader of standard error must not stop the engine. */
static void start_log_writer(struct cli *cli, const struct serve_options *options)
{
    struct errinfo info = {0};

    if (log_start_writer(cli->log, options->log_queue, &info) != ERR_OK)
        LOG_WARN(
            cli->log, "serve",
            "could not start the log thread; a blocked reader of the log would stop the server",
            LOG_STR("reason", info.text));
}

static enum cli_exit run(struct cli *cli, const void *options)
{
    struct server server = {.cli = cli, .options = options, .store = {.dir = FILE_NO}};
    enum cli_exit status = check(&server);

    if (status != CLI_EXIT_OK)
        return status;
    sigemptyset(&server.signals);
    sigaddset(&server.signals, SIGINT);
    sigaddset(&server.signals, SIGTERM);
    sigaddset(&server.signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &server.signals, &server.signals_before);
    signal(SIGPIPE, SIG_IGN); /* a client that disconnects must not kill the server */
    start_log_writer(cli, server.options);
    status = raise_file_limit(&server);
    if (status == CLI_EXIT_OK)
        status = open_all(&server);
    if (status == CLI_EXIT_OK) {
        print_banner(&server);
        serve_wait(&(struct serve_wait){.cli = cli,
                                        .api = server.api,
                                        .pool = server.pool,
                                        .http = server.http,
                                        .signals = &server.signals,
                                        .terminal = isatty(STDIN_FILENO) == 1});
    }
    close_all(&server);
    return status;
}

const struct command command_serve = {
    .name = "serve",
    .summary = "Serve models to clients of OpenAI, Anthropic and Ollama.",
    .usage = "[options] MODEL",
    .table = {.command = "serve", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct serve_options),
    .args_min = 0,
    .args_max = 1,
    .foreign = foreign_option,
    .run = run,
};

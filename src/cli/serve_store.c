/*
 * serve_store.c: the cache of a server: its budgets from options or from the machine, its key from
 * the state folder, its disk, and the turns that are stored for recall.
 *
 *      state folder (0700)     key            32 random bytes, 0600: keys every digest on disk
 *                              replay.turns   exact tokens of generated turns
 *      cache folder            ssd/           objects (docs/ssd-format.md)
 *
 * With --ssd-encrypt objects and turns are sealed with the key of that file, and the installation's
 * own key is derived from it instead of lying in the state folder: names of objects are hashes with
 * it, so the names and the key together would allow to test guesses of prompts.
 *
 * Only explicit settings that fail stop the server. Without a home directory there is no state
 * folder, and its contents live as long as the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/drill.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/seal.h"
#include "base/sysinfo.h"
#include "base/units.h"
#include "cache/cache.h"
#include "cli/cli.h"
#include "cli/config.h"
#include "cli/serve.h"
#include "engine/vet.h"
#include "engine/host_memory.h"
#include "engine/host_register.h"
#include "engine/worker_memory.h"
#include "models/model.h"
#include "sched/memory.h"
#include "chat/recall.h"
#include "serve/shelf.h"
#include "serve/stored.h"

static const char turns_name[] = "replay.turns", responses_name[] = "responses";

enum { SSD_ROOM_MIN = 1 << 20 }; /* less than any object of a real model takes */
/* A smaller tier has no room for objects of hundreds of megabytes and memory taken ahead. */
#define AHEAD_RAM_MIN (UINT64_C(4) << 30)

/* ---- how much memory the server may use ---- */

uint64_t serve_ceiling(const struct serve_options *options)
{
    if (options->model.memory_max > 0)
        return options->model.memory_max;
    return guard_ceiling_of(sysinfo_memory_total(), sysinfo_memory_available());
}

uint64_t serve_ram_bytes(const struct serve_options *options)
{
    return options->ram_bytes > 0 ? options->ram_bytes : serve_ceiling(options) / 4;
}

static uint64_t process_bytes(void *arg)
{
    (void)arg;
    return sysinfo_memory_process();
}

static uint64_t available_bytes(void *arg)
{
    (void)arg;
    return sysinfo_memory_available();
}

struct memory *serve_memory_open(const struct cli *cli, const struct serve_options *options,
                                 const struct serve_store *store, const struct model_share *shares)
{
    struct memory_options memory = {
        .cache = store->cache,
        .ram_bytes = store->ram_bytes,
        .ceiling = serve_ceiling(options),
        .guessed = options->model.memory_max == 0,
        .process = process_bytes,
        .available = available_bytes,
        .clock = cli->setup->clock,
        .log = cli->log,
    };

    /* Shares are promised: the RAM tier is not made smaller than twice their sum. */
    for (size_t i = 0; i < options->shares.count; i++)
        memory.ram_floor += 2 * shares[i].bytes;
    LOG_INFO(cli->log, "memory", "ceiling", LOG_UINT("bytes", memory.ceiling),
             LOG_STR("by", memory.guessed ? "the machine" : "--max-memory"));
    return memory_create(&memory);
}

/* ---- the tenants' shares of its tiers ---- */

static enum err read_share(const struct cli *cli, const char *option, const char *text,
                           uint64_t whole, const char **tenant, uint64_t *bytes,
                           struct errinfo *info)
{
    const char *equals = strrchr(text, '=');
    struct str name = {text, equals != NULL ? (size_t)(equals - text) : 0};

    if (name.len == 0 || units_parse_size(str_from(equals + 1), whole, bytes, NULL) != ERR_OK)
        return err_set(info, ERR_INVALID, "--%s %s: expected TENANT=SIZE", option, text);
    *tenant = arena_strdup(cli->arena, name);
    return *tenant != NULL ? ERR_OK : err_set(info, ERR_NOMEM, "no memory for --%s", option);
}

static uint64_t add(uint64_t sum, uint64_t bytes)
{
    return bytes > UINT64_MAX - sum ? UINT64_MAX : sum + bytes;
}

enum err serve_read_shares(const struct cli *cli, const struct serve_options *options,
                           uint64_t ram_bytes, struct model_share **out, struct errinfo *info)
{
    size_t count = options->shares.count, disk = options->ssd_shares.count;
    uint64_t sum = 0, disk_sum = 0;

    *out = arena_alloc_array(cli->arena, count + disk, sizeof(**out));
    if (*out == NULL)
        return err_set(info, ERR_NOMEM, "no memory for --tenant-share");
    for (size_t i = 0; i < count + disk; i++) {
        struct model_share *share = &(*out)[i];
        *share = (struct model_share){0};
        if (i < count)
            TRY(read_share(cli, "tenant-share", options->shares.items[i], ram_bytes, &share->tenant,
                           &share->bytes, info));
        else
            TRY(read_share(cli, "tenant-ssd-share", options->ssd_shares.items[i - count],
                           options->ssd_bytes, &share->tenant, &share->ssd_bytes, info));
        sum = add(sum, share->bytes);
        disk_sum = add(disk_sum, share->ssd_bytes);
    }
    if (sum > ram_bytes / 2)
        return err_set(info, ERR_LIMIT,
                       "--tenant-share: the sum must not exceed half of --ram-cache; the rest is "
                       "shared by all");
    if (disk_sum > options->ssd_bytes / 2)
        return err_set(info, ERR_LIMIT,
                       "--tenant-ssd-share: the sum must not exceed half of --ssd-max; the rest is "
                       "shared by all");
    return ERR_OK;
}

/* ---- folders ---- */

static void open_state(struct serve_store *store, const struct cli *cli,
                       const struct serve_options *options)
{
    const char *path = folders_state(cli, options->state_dir);
    struct errinfo info = {0};

    store->dir = FILE_NO;
    if (path != NULL && file_open_dir(cli->setup->fs, path, true, &store->dir, &info) != ERR_OK)
        LOG_WARN(cli->log, "serve", "no state folder: nothing will survive a restart",
                 LOG_STR("reason", info.text));
}

/* ---- the key of the installation ---- */

static bool read_key(struct serve_store *store, const struct cli *cli)
{
    char *data;
    size_t len;

    if (file_read_all(cli->setup->fs, store->dir, folders_key_name, 4096, &data, &len, NULL) !=
        ERR_OK)
        return false;
    bool good = len == sizeof(store->key.bytes);
    if (good)
        memcpy(store->key.bytes, data, len);
    mem_free(data);
    return good;
}

/* An error when it cannot be used: never continue unencrypted. */
static bool load_seal_key(struct serve_store *store, const struct cli *cli,
                          const struct serve_options *options)
{
    struct errinfo info = {0};

    if (options->ssd_key_file == NULL)
        return true;
    if (seal_read_key(cli->setup->fs, options->ssd_key_file, &store->seal_key, &info) != ERR_OK) {
        cli_error(cli, "--ssd-encrypt: %s", info.text);
        return false;
    }
    store->sealed = true;
    return true;
}

/* Without a key on disk the objects there cannot be used. */
static void load_key(struct serve_store *store, const struct cli *cli)
{
    struct errinfo info = {0};

    if (store->sealed)
        store->key = seal_installation_key(&store->seal_key);
    if (store->sealed || (store->dir != FILE_NO && read_key(store, cli)))
        return;
    hash_random(store->key.bytes, sizeof(store->key.bytes));
    if (store->dir != FILE_NO &&
        file_replace(cli->setup->fs, store->dir, folders_key_name, store->key.bytes,
                     sizeof(store->key.bytes), 0600, &info) != ERR_OK)
        LOG_WARN(cli->log, "serve",
                 "cannot save the installation key, so the SSD cache will not survive a restart: "
                 "free some space, or choose another --state-dir",
                 LOG_STR("reason", info.text));
}

/* ---- the cache ---- */

/* "[cache] ID hit ...": the log adds the tag. Debug: at info level a request has one line. What a
 * tier lost, damaged or could not read is a warning: each such error that is counted has its line. */
static void on_cache_line(const char *line, void *arg)
{
    static const char tag[] = "[cache] ";
    const char *text = strncmp(line, tag, sizeof(tag) - 1) == 0 ? line + sizeof(tag) - 1 : line;
    struct str rest = str_from(text), id, event = STR_NONE;
    bool named = str_next(&rest, ' ', &id) && str_next(&rest, ' ', &event);
    bool bad = named && (str_eq(event, str_from(hearth_event_name(HEARTH_EVENT_DROP))) ||
                         str_eq(event, str_from(hearth_event_name(HEARTH_EVENT_VERIFY_FAIL))));

    log_text(arg, bad ? LOG_LEVEL_WARN : LOG_LEVEL_DEBUG, "cache", "%s", text);
}

/* Memory that a GPU reaches at full speed, where there is one; shared with the engines' processes
 * if they have any. */
static void set_memory(struct serve_store *store, const struct serve_options *options,
                       struct hearth_options *cache)
{
    const char *backends = options->model.backends;
    bool large = cache->ram_bytes >= AHEAD_RAM_MIN, pins = false;

    if (options->model.isolate || options->model.rpc != NULL) {
        store->memory = worker_memory_create();
        cache->alloc = worker_memory_alloc;
        cache->free = worker_memory_free;
        cache->alloc_arg = store->memory;
        pins = large && host_register_expected(backends);
    } else if (large && host_memory_can_pin(backends)) {
        cache->alloc = host_memory_alloc;
        cache->free = host_memory_free;
        pins = true;
    }
    /* All that pages.c takes ahead: most of it while the model loads, the rest when nothing else is
     * done. Later, pinning a gigabyte stops the device for half a second. */
    cache->ahead_bytes = pins ? cache->ram_bytes : 0;
}

static bool open_cache(struct serve_store *store, const struct cli *cli,
                       const struct serve_options *options)
{
    char message[HEARTH_MESSAGE_BYTES];
    struct hearth_options cache = {
        .struct_size = sizeof(cache),
        .ram_bytes = serve_ram_bytes(options),
        .block_tokens = (uint32_t)options->block_tokens,
        .tail_bytes = options->tail_bytes,
        .snapshot_bytes = options->snapshot_bytes,
        .policy = options->policy,
        .key = store->key.bytes,
        .log = on_cache_line,
        .log_arg = cli->log,
    };

    set_memory(store, options, &cache);
    store->ram_bytes = cache.ram_bytes;
    if (serve_drill(cli) == DRILL_IGNORE_LIMIT)
        cache.ram_bytes *= 2;
    if (hearth_open(&store->cache, &cache, message) == HEARTH_OK)
        return true;
    cli_error(cli, "%s", message);
    return false;
}

/* A full disk does not stop the server, but it is reported. */
static void warn_if_full(const struct cli *cli, const struct serve_options *options,
                         const char *path)
{
    const struct file_sys *fs = cli->setup->fs;
    uint64_t bytes = 0;
    int fd;

    if (file_open_dir(fs, path, false, &fd, NULL) != ERR_OK)
        return;
    if (file_free_bytes(fs, fd, &bytes, NULL) == ERR_OK &&
        bytes <= MAX(options->ssd_free, (uint64_t)SSD_ROOM_MIN))
        LOG_WARN(cli->log, "serve",
                 "the SSD cache's disk is full, nothing new is stored: free some space, lower "
                 "--ssd-free, or choose another --ssd-dir",
                 LOG_STR("folder", path), LOG_UINT("free", bytes),
                 LOG_UINT("ssd_free", options->ssd_free));
    file_close(fs, &fd);
}

enum drill serve_drill(const struct cli *cli)
{
    return cli->setup->faults != NULL ? cli->setup->faults->drill : DRILL_NONE;
}

/* A folder named by the user must work; the default one need not. */
static bool open_ssd(struct serve_store *store, const struct cli *cli,
                     const struct serve_options *options)
{
    const struct serve_faults *faults = cli->setup->faults;
    char message[HEARTH_MESSAGE_BYTES] = "";
    struct hearth_ssd_options ssd = {
        .struct_size = sizeof(ssd),
        .path = folders_ssd(cli, options->ssd_dir),
        .bytes_max = options->ssd_bytes,
        .free_min = options->ssd_free,
        .day_bytes_max = options->ssd_day_bytes,
        .drain_ms = options->drain_ns / NS_PER_MS,
        .seal_key = store->sealed ? store->seal_key.bytes : NULL,
    };

    /* Without a persistent key, nothing there could be read again. */
    if (ssd.path == NULL || (store->dir == FILE_NO && !store->sealed))
        return true;
    if (serve_drill(cli) == DRILL_LOSE_WRITES)
        ssd.day_bytes_max = 1;
    cache_set_disk(store->cache, faults != NULL ? faults->disk : NULL, cli->log);
    int error = hearth_attach_ssd(store->cache, &ssd, message);
    if (error == HEARTH_OK) {
        store->ssd_dir = ssd.path;
        warn_if_full(cli, options, ssd.path);
        if (faults != NULL && faults->on_disk_open != NULL)
            faults->on_disk_open(faults);
        return true;
    }
    const char *why = message[0] != '\0' ? message : hearth_error_text(error);
    if (options->ssd_dir == NULL) {
        LOG_WARN(cli->log, "serve", "no SSD tier", LOG_STR("folder", ssd.path),
                 LOG_STR("reason", why));
        return true;
    }
    cli_error(cli, "--ssd-dir: %s", why);
    return false;
}

/* Objects are found again by machines with the same installation key only. */
static bool open_shared(struct serve_store *store, const struct cli *cli,
                        const struct serve_options *options)
{
    char message[HEARTH_MESSAGE_BYTES] = "";
    struct hearth_shared_options shared = {
        .struct_size = sizeof(shared),
        .url = options->shared,
        .ttl_s = options->shared_ttl_ns / NS_PER_S,
        .ca_file = options->shared_ca,
        .tenant_percent = (uint32_t)options->shared_share,
        .drain_ms = options->drain_ns / NS_PER_MS,
        .seal_key = store->sealed ? store->seal_key.bytes : NULL,
    };

    if (options->shared == NULL)
        return true;
    cache_set_disk(store->cache, store->cache->fs, cli->log);
    int error = hearth_attach_shared(store->cache, &shared, message);
    store->shared_wait_ms = (uint32_t)(options->shared_wait_ns / NS_PER_MS);
    if (error == HEARTH_OK)
        return true;
    cli_error(cli, "--shared: %s", message[0] != '\0' ? message : hearth_error_text(error));
    return false;
}

/* ---- turns ---- */

static void put_turn(void *arg, const struct hash256 *key, const void *data, size_t len)
{
    const struct serve_store *store = arg;

    hearth_put_note(store->cache, key->bytes, data, len);
}

static bool get_turn(void *arg, const struct hash256 *key, uint64_t *wait_ns, struct buf *out)
{
    const struct serve_store *store = arg;
    uint64_t begin_ns = clock_mono_ns(clock_real());
    void *data;
    size_t len;

    int error =
        hearth_get_note(store->cache, key->bytes, (uint32_t)(*wait_ns / NS_PER_MS), &data, &len);
    *wait_ns -= MIN(*wait_ns, clock_mono_ns(clock_real()) - begin_ns);
    if (error != HEARTH_OK)
        return false;
    bool kept = buf_append(out, data, len) == ERR_OK;
    hearth_free(data);
    return kept;
}

static void open_recall(struct serve_store *store, const struct cli *cli)
{
    struct errinfo info = {0};
    const struct recall_share share = {
        .put = put_turn, .get = get_turn, .arg = store, .key = store->key};

    store->recall =
        recall_create(&(struct recall_options){.log = cli->log,
                                               .seal_key = store->sealed ? &store->seal_key : NULL,
                                               .share = store->shared_wait_ms > 0 ? &share : NULL});
    if (store->dir != FILE_NO && recall_load(store->recall, cli->setup->fs, store->dir, turns_name,
                                             &store->key, &info) != ERR_OK)
        LOG_WARN(cli->log, "serve", "cannot read the saved turns", LOG_STR("reason", info.text));
}

/* ---- responses ---- */

/* On disk where other state of conversations is: with an SSD tier. */
static void open_stored(struct serve_store *store, const struct cli *cli,
                        const struct serve_options *options)
{
    const struct file_sys *fs = cli->setup->fs;
    struct shelf_options shelf = {
        .count_max = STORED_COUNT_MAX,
        .bytes_max = (size_t)options->stored_bytes,
        .ttl_s = STORED_TTL_S,
        .log = cli->log,
        .dir = FILE_NO,
        .fs = fs,
        .key = store->key,
    };
    struct errinfo info = {0};

    if (options->stored_bytes == 0)
        return;
    if (store->ssd_dir != NULL && store->dir != FILE_NO) {
        enum err err = file_make_dir_at(fs, store->dir, responses_name, &info);

        if (err == ERR_OK || err == ERR_EXISTS)
            err = file_open_at(fs, store->dir, responses_name, O_RDONLY | O_DIRECTORY, 0,
                               &store->stored_dir, &info);
        if (err != ERR_OK)
            LOG_WARN(cli->log, "serve", "responses are stored in memory only",
                     LOG_STR("reason", info.text));
        shelf.dir = store->stored_dir;
    }
    store->stored = shelf_create(&shelf);
}

static void open_vet(struct serve_store *store, const struct cli *cli)
{
    store->vet =
        vet_create(&(struct vet_options){.fs = cli->setup->fs, .dir = store->dir, .log = cli->log});
}

bool serve_store_open(struct serve_store *store, const struct cli *cli,
                      const struct serve_options *options)
{
    *store = (struct serve_store){.dir = FILE_NO, .stored_dir = FILE_NO};
    if (!load_seal_key(store, cli, options))
        return false;
    if (!options->cache) {
        /* A prompt's tokens must not depend on the cache setting: turns are kept, but not on
         * disk. */
        open_recall(store, cli);
        open_stored(store, cli, options);
        open_vet(store, cli);
        return true;
    }
    open_state(store, cli, options);
    load_key(store, cli);
    if (!open_cache(store, cli, options) || !open_ssd(store, cli, options) ||
        !open_shared(store, cli, options))
        return false;
    open_recall(store, cli);
    open_stored(store, cli, options);
    open_vet(store, cli);
    return true;
}

void serve_store_close(struct serve_store *store, const struct cli *cli)
{
    struct errinfo info = {0};

    if (store->recall != NULL && store->dir != FILE_NO &&
        recall_save(store->recall, cli->setup->fs, store->dir, turns_name, &store->key, &info) !=
            ERR_OK)
        LOG_ERROR(cli->log, "serve", "cannot save the turns", LOG_STR("reason", info.text));
    recall_destroy(&store->recall);
    shelf_destroy(&store->stored);
    file_close(cli->setup->fs, &store->stored_dir);
    hearth_close(&store->cache);
    vet_destroy(&store->vet);
    worker_memory_destroy(&store->memory);
    seal_wipe(&store->seal_key, sizeof(store->seal_key));
    file_close(cli->setup->fs, &store->dir);
}

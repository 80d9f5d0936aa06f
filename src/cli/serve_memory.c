/*
 * serve_memory.c: how much memory the server may use, and the tenants' shares of its tiers.
 */
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/sysinfo.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/serve.h"
#include "models/model.h"
#include "sched/memory.h"

uint64_t serve_ceiling(const struct serve_options *options, bool *guessed)
{
    *guessed = options->model.memory_max == 0;
    if (!*guessed)
        return options->model.memory_max;
    return guard_ceiling_of(sysinfo_memory_total(), sysinfo_memory_available());
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
        .process = process_bytes,
        .available = available_bytes,
        .clock = cli->setup->clock,
        .log = cli->log,
    };

    memory.ceiling = serve_ceiling(options, &memory.guessed);
    /* Shares are promised: the RAM tier is not made smaller than twice their sum. */
    for (size_t i = 0; i < options->shares.count; i++)
        memory.ram_floor += 2 * shares[i].bytes;
    LOG_INFO(cli->log, "memory", "ceiling", LOG_UINT("bytes", memory.ceiling),
             LOG_STR("by", memory.guessed ? "the machine" : "--max-memory"));
    return memory_create(&memory);
}

/* ---- shares ---- */

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

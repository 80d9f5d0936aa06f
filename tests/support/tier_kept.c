/* tier_kept.c: a table of forwards; a verify that reads; and a close that keeps everything. */
#include "support/tier_kept.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/mem.h"
#include "support/tier_fault.h"
#include "support/tier_ram.h"

static struct tier_kept *kept_of(struct tier *tier)
{
    return CONTAINER_OF(tier, struct tier_kept, tier);
}

static bool kept_put(struct tier *tier, const struct tier_meta *meta, const void *data,
                     tier_done_fn done, void *arg)
{
    struct tier *fault = kept_of(tier)->fault;

    return fault->ops->put(fault, meta, data, done, arg);
}

static void kept_get(struct tier *tier, const struct hash256 *key, void *dst, uint64_t capacity,
                     tier_done_fn done, void *arg, struct tier_op **op)
{
    struct tier *fault = kept_of(tier)->fault;

    fault->ops->get(fault, key, dst, capacity, done, arg, op);
}

static void kept_cancel(struct tier *tier, struct tier_op *op)
{
    struct tier *fault = kept_of(tier)->fault;

    fault->ops->cancel(fault, op);
}

static void kept_drop(struct tier *tier, const struct hash256 *key)
{
    struct tier *fault = kept_of(tier)->fault;

    fault->ops->drop(fault, key);
}

static bool kept_has(struct tier *tier, const struct hash256 *key)
{
    struct tier *fault = kept_of(tier)->fault;

    return fault->ops->has(fault, key);
}

static void kept_each(struct tier *tier, bool (*fn)(const struct tier_meta *meta, void *arg),
                      void *arg)
{
    struct tier *fault = kept_of(tier)->fault;

    fault->ops->each(fault, fn, arg);
}

static void kept_stats(struct tier *tier, struct tier_stats *stats)
{
    struct tier *fault = kept_of(tier)->fault;

    fault->ops->stats(fault, stats);
    stats->evictions += kept_of(tier)->evictions;
}

static bool kept_flush(struct tier *tier, uint64_t timeout_ns)
{
    struct tier *fault = kept_of(tier)->fault;

    return fault->ops->flush(fault, timeout_ns);
}

struct verify {
    struct tier_kept *kept;
    struct hash256 key;
    tier_done_fn done;
    void *arg;
    void *bytes;
};

static void on_verified(enum tier_result result, void *arg)
{
    struct verify *verify = arg;

    if (result == TIER_DAMAGED)
        kept_drop(&verify->kept->tier, &verify->key);
    verify->done(result, verify->arg);
    mem_free(verify->bytes);
    mem_free(verify);
}

static void kept_verify(struct tier *tier, const struct hash256 *key, tier_done_fn done, void *arg)
{
    struct tier_kept *kept = kept_of(tier);
    uint64_t bytes = 1;
    const void *data = tier_ram_borrow(kept->ram, key, &bytes);

    if (data != NULL)
        tier_ram_return(kept->ram, data);
    struct verify *verify = mem_alloc(sizeof(*verify));
    *verify = (struct verify){kept, *key, done, arg, mem_alloc(bytes)};
    kept_get(tier, key, verify->bytes, bytes, on_verified, verify, NULL);
}

/* After close no callback is running. Operations run one after the other, so when one more is done
 * the others are. */
static void kept_closed(struct tier *tier)
{
    const struct hash256 none = {{0}};
    struct tier_answer answer;
    char byte;

    tier_answer_init(&answer);
    kept_get(tier, &none, &byte, sizeof(byte), tier_answer_done, &answer, NULL);
    (void)tier_answer_wait(&answer);
    tier_answer_fini(&answer);
}

static const struct tier_ops kept_ops = {
    .name = "kept",
    .put = kept_put,
    .get = kept_get,
    .cancel = kept_cancel,
    .drop = kept_drop,
    .has = kept_has,
    .each = kept_each,
    .stats = kept_stats,
    .flush = kept_flush,
    .verify = kept_verify,
    .close = kept_closed,
};

void tier_kept_open(struct tier_kept *kept, uint64_t bytes_max, uint64_t delay_ns)
{
    struct tier *ram = tier_ram_open(&(struct tier_ram_options){.bytes_max = bytes_max});

    *kept = (struct tier_kept){
        .tier.ops = &kept_ops,
        .fault = tier_fault_open(
            &(struct tier_fault_options){.inner = ram, .threaded = true, .delay_ns = delay_ns}),
        .ram = ram,
    };
}

void tier_kept_close(struct tier_kept *kept)
{
    tier_close(&kept->fault);
}

uint64_t tier_kept_objects(struct tier_kept *kept)
{
    struct tier_stats stats;

    kept->ram->ops->stats(kept->ram, &stats);
    return stats.objects;
}

static bool damage(const struct tier_meta *meta, void *arg)
{
    struct tier_kept *kept = arg;
    uint64_t bytes;
    const void *data = tier_ram_borrow(kept->ram, &meta->key, &bytes);

    *(unsigned char *)(uintptr_t)data ^= 1;
    tier_ram_return(kept->ram, data);
    return true;
}

void tier_kept_damage(struct tier_kept *kept)
{
    kept->ram->ops->each(kept->ram, damage, kept);
}

struct evicting {
    struct tier_kept *kept;
    uint32_t begin, end;
};

static bool evict(const struct tier_meta *meta, void *arg)
{
    const struct evicting *evicting = arg;
    struct tier *ram = evicting->kept->ram;

    if (meta->begin >= evicting->begin && meta->begin < evicting->end) {
        ram->ops->drop(ram, &meta->key);
        evicting->kept->evictions++;
    }
    return true;
}

void tier_kept_evict(struct tier_kept *kept, uint32_t begin, uint32_t end)
{
    struct evicting evicting = {kept, begin, end};

    kept->ram->ops->each(kept->ram, evict, &evicting);
}

/*
 * beside.c: computing the front of a prompt while the rest is still being read.
 *
 *      objects   |  RAM  |  disk  |  disk  |  disk  |  disk  |  disk  |
 *                 imported  computed --->     ?        <--- read, last one first
 *                                          they meet
 *
 * Reading from a slow tier is the long part of a restore, and the engine has nothing to do
 * meanwhile. So the job prefills, and the objects are read from the last to the first. When the
 * prefill reaches an object from which on all have arrived and are verified, the job returns to
 * RESTORE and imports those (restore.c). Reads of objects that were computed meanwhile are cancelled,
 * so that those of the others get the whole speed of the tier.
 *
 * This requires state that can be cut at any token, so that rows do not depend on what follows
 * them. It also requires that a chunk takes much less time than the reads: an import cannot start
 * during a chunk.
 */
#include <assert.h>

#include "sched/sched_impl.h"

enum {
    CHUNKS_MIN = 2,   /* that can be computed while the rest is read */
    PROBE_FACTOR = 4, /* how much faster chunks are than the few tokens of the self-test, at best */
};

/* Bytes per second assumed for a slow tier that has not been measured yet: a disk, a network. */
static const double read_guess[HEARTH_TIER_COUNT] = {
    [HEARTH_TIER_SSD] = 2e9, [HEARTH_TIER_REMOTE] = 5e8};

static bool is_slow(const struct hearth_object *object)
{
    return object->tier > HEARTH_TIER_RAM;
}

uint64_t beside_bytes(const struct job *job, enum hearth_tier tier)
{
    const struct hearth_plan_info *info = hearth_plan_info(job->restore.plan);
    uint64_t bytes = 0;

    for (size_t i = 0; i < info->objects_count; i++)
        bytes += info->objects[i].tier == tier ? info->objects[i].bytes : 0;
    return bytes;
}

bool beside_pays(const struct job *job)
{
    const struct sched *sched = job->sched;
    uint32_t at = restore_done(job), chunk = sched->facts->chunk;
    double chunk_s = cost_ns(&sched->cost, at, at + chunk) / (double)NS_PER_S, read_s = 0;
    uint64_t bytes = 0;

    for (int tier = HEARTH_TIER_SSD; tier < HEARTH_TIER_COUNT; tier++) {
        double rate = sched->read_bytes_per_s[tier];
        uint64_t part = beside_bytes(job, (enum hearth_tier)tier);
        bytes += part;
        read_s += (double)part / (rate > 0 ? rate : read_guess[tier]);
    }
    if (chunk_s == 0 && sched->facts->tokens_per_s > 0)
        chunk_s = chunk / (double)PROBE_FACTOR / sched->facts->tokens_per_s;
    if (bytes == 0 || job->runs_count > 0 || !sched->cuttable || sched->whole ||
        sched->options.exact || chunk_s <= 0)
        return false;
    bool pays = read_s > CHUNKS_MIN * chunk_s;
    log_text(sched->options.log, LOG_LEVEL_DEBUG, "restore",
             "%llu reading %llu bytes takes about %.3f s, a chunk %.3f s: %s",
             (unsigned long long)job->id, (unsigned long long)bytes, read_s, chunk_s,
             pays ? "compute the front meanwhile" : "wait for the bytes");
    return pays;
}

void beside_read(struct job *job)
{
    const struct hearth_plan_info *info = hearth_plan_info(job->restore.plan);
    const void *data;

    for (size_t i = info->objects_count; i-- > 0;)
        (void)hearth_plan_fetch(job->restore.plan, i, 0, &data); /* take_arrived collects them */
}

bool beside_begin(struct job *job)
{
    struct job_restore *restore = &job->restore;
    const struct hearth_plan_info *info = hearth_plan_info(restore->plan);

    if (restore->imported != restore->fetched || restore->fetched == restore->objects_count ||
        !is_slow(&info->objects[restore->fetched]) || !restore->pays)
        return false;
    if (restore->seq == SEQ_NONE && device_acquire(job->sched, &restore->seq, NULL) != ERR_OK)
        return false;
    job->done = restore_done(job);
    job->seq = restore->seq;
    restore->seq = SEQ_NONE;
    restore_credit(job, 0, restore->imported);
    restore->beside = true;
    restore->front = restore->imported;
    /* counted from the end until they meet */
    restore->fetched = restore->verified = restore->objects_count;
    return true;
}

void beside_end(struct job *job)
{
    struct job_restore *restore = &job->restore;

    if (!restore->beside)
        return;
    restore->beside = false;
    const struct hearth_plan_info *info = hearth_plan_info(restore->plan);
    size_t count = info->objects_count; /* the plan may have been shortened since */
    if (!job->started && count < restore->objects_count)
        job->usage.reason = info->reason;
    else if (!job->started && job->done >= info->boundary)
        job->usage.reason = HEARTH_REASON_CHEAPER; /* it won the race */
    hearth_plan_skip(restore->plan, MIN(restore->front, count), count);
    if (restore->front > 0 && restore->front <= count) /* only these were used */
        hearth_plan_accept(restore->plan);
    restore_drop(job);
    job_announce(job);
}

/* The last object that begins at or before the end of the prefill so far. */
static size_t object_at(const struct job *job)
{
    const struct job_restore *restore = &job->restore;
    size_t index = restore->objects_count - 1;

    while (index > 0 && restore->objects[index].shape.begin > job->done)
        index--;
    return index;
}

/* False: an object cannot be used, so waiting for the others is useless. */
static bool take_arrived(struct job *job, size_t needed)
{
    struct job_restore *restore = &job->restore;
    const void *data;

    while (restore->fetched > needed) {
        int error = hearth_plan_fetch(restore->plan, restore->fetched - 1, 0, &data);
        if (error == HEARTH_ERROR_TIMEOUT)
            break;
        if (error != HEARTH_OK) {
            restore_stop_verifying(job); /* shortening ends the leases of what is read */
            hearth_plan_shorten(restore->plan, restore->fetched - 1, HEARTH_REASON_NONE);
            return false;
        }
        restore_verify(job, --restore->fetched, data);
    }
    while (restore->verified > restore->fetched) {
        enum restore_verdict verdict = restore_verdict(job, restore->verified - 1);
        if (verdict == RESTORE_UNKNOWN)
            break;
        if (verdict == RESTORE_BAD) {
            restore_stop_verifying(job);
            hearth_plan_shorten(restore->plan, restore->verified - 1, HEARTH_REASON_UNVERIFIED);
            return false;
        }
        restore->verified--;
    }
    return true;
}

/* The prefill has reached this object, and all objects from it on are verified. */
static enum step meet(struct job *job, size_t index)
{
    struct job_restore *restore = &job->restore;
    struct engine *engine = job->sched->engine;
    uint32_t begin = restore->objects[index].shape.begin;

    if (begin == 0) {
        engine_seq_release(engine, &job->seq);
    } else if (job->done > begin && engine_seq_truncate(engine, job->seq, begin, NULL) != ERR_OK) {
        beside_end(job);
        return STEP_BATCH;
    }
    restore->seq = job->seq;
    job->seq = SEQ_NONE;
    job->done = 0;
    restore->beside = false;
    restore->front = restore->imported = index;
    restore->fetched = restore->verified = restore->objects_count;
    job_set_phase(job, GEN_RESTORE);
    return STEP_MORE;
}

enum step beside_poll(struct job *job)
{
    const struct job_restore *restore = &job->restore;
    size_t index = object_at(job);

    assert(restore->beside && job->phase == GEN_PREFILL);
    if (job->done >= hearth_plan_info(restore->plan)->boundary || !take_arrived(job, index)) {
        beside_end(job);
        return STEP_BATCH;
    }
    hearth_plan_skip(restore->plan, restore->front, index); /* ends their reads */
    return restore->verified <= index ? meet(job, index) : STEP_BATCH;
}

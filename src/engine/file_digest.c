/*
 * file_digest.c: see the header.
 *
 *      start    identity of each file -> memory -> known, or a run of chunks to read
 *      threads  take the next chunk of all files by a counter, read it, write its digest into its
 *               place
 *      finish   join -> identities again -> digests of files -> memory
 *
 * The memory is one small file that is replaced as a whole:
 *
 *      "hearth digests 1"   16 bytes
 *      entries              64 bytes each: key, digest; the newest first
 *      BLAKE3 of all that   32 bytes
 *
 * When two processes replace it at the same time an entry is lost, which costs one more read.
 */
#include "engine/file_digest.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sysinfo.h"

enum {
    CHUNK_BYTES = 16 << 20,
    READ_BYTES =
        256 << 10, /* fits a core's cache, so that hashing does not read from memory again */
    THREADS_MAX = 8,
    ENTRIES_MAX = 1024,
    MAGIC_BYTES = 16,
};

#define AGE_MIN_NS (2 * NS_PER_S)

static const char memory_name[] = "digests";
static const char memory_magic[MAGIC_BYTES + 1] = "hearth digests 1";

struct entry {
    struct hash256 key, digest;
};

enum { MEMORY_BYTES_MAX = MAGIC_BYTES + ENTRIES_MAX * sizeof(struct entry) + HASH256_BYTES };

struct part {
    const char *path;
    int fd;
    struct file_identity identity;
    struct hash256 key, digest;
    bool known;         /* the digest was in the file */
    size_t first_chunk; /* of all that are read */
};

struct file_digest {
    struct file_digest_options options;
    struct part *parts;
    size_t count;
    uint64_t bytes;
    uint64_t started_ns, started_wall_ns;
    struct hash256 *chunks;
    size_t chunks_count;
    atomic_size_t next_chunk;
    atomic_ullong read;
    atomic_bool cancelled;
    struct thread threads[THREADS_MAX];
    size_t threads_count;
    struct lock lock;
    struct cond ended;
    size_t running GUARDED_BY(lock);
    enum err err GUARDED_BY(lock); /* the first one */
    struct errinfo info GUARDED_BY(lock);
};

/* ---- identity ---- */

static uint64_t time_ns(struct timespec time)
{
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

static enum err identify(const struct file_sys *fs, int fd, const char *path,
                         struct file_identity *identity, struct errinfo *info)
{
    struct stat st;

    TRY(file_stat(fs, fd, &st, info));
    if (!S_ISREG(st.st_mode))
        return err_set(info, ERR_INVALID, "%s is not a file", path);
    *identity = (struct file_identity){
        .device = st.st_dev,
        .inode = st.st_ino,
        .bytes = (uint64_t)st.st_size,
        .modified_ns = time_ns(st.st_mtim),
        .changed_ns = time_ns(st.st_ctim),
    };
    return ERR_OK;
}

enum err file_identity_of(const struct file_sys *fs, const char *path,
                          struct file_identity *identity, struct errinfo *info)
{
    int fd;

    /* Links are followed: other programs' model caches use them. A pipe must not block. */
    do
        fd = fs->ops->openat(fs->ctx, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    while (fd == -EINTR);
    if (fd < 0)
        return err_set_errno(info, -fd, "open %s", path);
    enum err err = identify(fs, fd, path, identity, info);
    file_close(fs, &fd);
    return err;
}

static bool same_identity(const struct file_identity *a, const struct file_identity *b)
{
    return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
           a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns;
}

static struct hash256 key_of(const char *path, const struct file_identity *identity)
{
    struct hash256_state state;

    hash256_init(&state);
    hash256_update_framed(&state, path, strlen(path));
    hash256_update_u64(&state, identity->device);
    hash256_update_u64(&state, identity->inode);
    hash256_update_u64(&state, identity->bytes);
    hash256_update_u64(&state, identity->modified_ns);
    hash256_update_u64(&state, identity->changed_ns);
    return hash256_final(&state);
}

/* ---- memory ---- */

/* Reads the entries; none when the file is missing, foreign or damaged. `entries` has room for
 * all. */
static size_t read_memory(const struct file_sys *fs, int dir, struct entry *entries)
{
    size_t len, body, count = 0;
    char *data;

    if (file_read_all(fs, dir, memory_name, MEMORY_BYTES_MAX, &data, &len, NULL) != ERR_OK)
        return 0;
    body = len - MIN(len, HASH256_BYTES);
    if (body >= MAGIC_BYTES && memcmp(data, memory_magic, MAGIC_BYTES) == 0 &&
        (body - MAGIC_BYTES) % sizeof(*entries) == 0) {
        struct hash256 sum = hash256_of(data, body), was;
        memcpy(was.bytes, data + body, sizeof(was.bytes));
        if (hash256_eq(&sum, &was))
            count = (body - MAGIC_BYTES) / sizeof(*entries);
        memcpy(entries, data + MAGIC_BYTES, count * sizeof(*entries));
    }
    mem_free(data);
    return count;
}

static enum err write_memory(const struct file_sys *fs, int dir, const struct entry *entries,
                             size_t count, struct errinfo *info)
{
    size_t body = MAGIC_BYTES + count * sizeof(*entries);
    char *data = mem_alloc(body + HASH256_BYTES);

    memcpy(data, memory_magic, MAGIC_BYTES);
    memcpy(data + MAGIC_BYTES, entries, count * sizeof(*entries));
    struct hash256 sum = hash256_of(data, body);
    memcpy(data + body, sum.bytes, sizeof(sum.bytes));
    enum err err = file_replace(fs, dir, memory_name, data, body + HASH256_BYTES, 0600, info);
    mem_free(data);
    return err;
}

static void recall(struct file_digest *task)
{
    const struct file_sys *fs = task->options.fs;
    int dir = FILE_NO;

    if (task->options.memory_dir == NULL ||
        file_open_dir(fs, task->options.memory_dir, false, &dir, NULL) != ERR_OK)
        return;
    struct entry *entries = mem_alloc_array(ENTRIES_MAX, sizeof(*entries));
    size_t count = read_memory(fs, dir, entries);
    for (size_t i = 0; i < task->count; i++) {
        struct part *part = &task->parts[i];
        for (size_t k = 0; k < count && !part->known; k++) {
            part->known = hash256_eq(&entries[k].key, &part->key);
            part->digest = entries[k].digest;
        }
    }
    mem_free(entries);
    file_close(fs, &dir);
}

/* A file that changed just before it was read may change again with the same change time. */
static bool is_old_enough(const struct file_digest *task, const struct part *part)
{
    return part->identity.changed_ns + AGE_MIN_NS <= task->started_wall_ns;
}

/* Puts the computed entries before the existing ones; the oldest are dropped when there are too
 * many. */
static size_t add_entries(const struct file_digest *task, struct entry *entries, size_t count)
{
    size_t added = 0;

    for (size_t i = 0; i < task->count; i++) {
        const struct part *part = &task->parts[i];
        if (part->known || !is_old_enough(task, part))
            continue;
        memmove(entries + 1, entries, MIN(count, ENTRIES_MAX - 1) * sizeof(*entries));
        entries[0] = (struct entry){part->key, part->digest};
        count = MIN(count + 1, ENTRIES_MAX);
        added++;
    }
    return added > 0 ? count : 0;
}

static enum err remember(const struct file_digest *task, struct errinfo *info)
{
    const struct file_sys *fs = task->options.fs;
    int dir = FILE_NO;

    assert(task->options.memory_dir != NULL);
    TRY(file_open_dir(fs, task->options.memory_dir, true, &dir, info));
    struct entry *entries = mem_alloc_array(ENTRIES_MAX, sizeof(*entries));
    size_t count = add_entries(task, entries, read_memory(fs, dir, entries));
    enum err err = count > 0 ? write_memory(fs, dir, entries, count, info) : ERR_OK;
    mem_free(entries);
    file_close(fs, &dir);
    return err;
}

/* ---- reading ---- */

static uint64_t chunks_of(uint64_t bytes)
{
    return (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
}

static const struct part *part_of_chunk(const struct file_digest *task, size_t chunk)
{
    for (size_t i = 0; i < task->count; i++) {
        const struct part *part = &task->parts[i];
        if (!part->known && chunk >= part->first_chunk &&
            chunk - part->first_chunk < chunks_of(part->identity.bytes))
            return part;
    }
    assert(!"every chunk is of a file");
    return NULL;
}

static enum err read_chunk(struct file_digest *task, size_t chunk, void *buffer,
                           struct errinfo *info)
{
    const struct part *part = part_of_chunk(task, chunk);
    uint64_t begin = (uint64_t)(chunk - part->first_chunk) * CHUNK_BYTES;
    uint64_t end = MIN(begin + CHUNK_BYTES, part->identity.bytes);
    struct hash256_state state;

    hash256_init(&state);
    for (uint64_t at = begin; at < end && !atomic_load(&task->cancelled);) {
        size_t len = (size_t)MIN(end - at, READ_BYTES);
        enum err err = file_read_at(task->options.fs, part->fd, buffer, len, at, info);
        if (err != ERR_OK)
            return err_wrap(info, err, "cannot read the model file %s", part->path);
        hash256_update(&state, buffer, len);
        atomic_fetch_add(&task->read, len);
        at += len;
    }
    task->chunks[chunk] = hash256_final(&state);
    return ERR_OK;
}

static void end_thread(struct file_digest *task, enum err err, const struct errinfo *info)
{
    lock_enter(&task->lock);
    if (err != ERR_OK && task->err == ERR_OK) {
        task->err = err;
        task->info = *info;
    }
    task->running--;
    cond_broadcast(&task->ended);
    lock_leave(&task->lock);
}

static void run(void *arg)
{
    struct file_digest *task = arg;
    void *buffer = mem_alloc(READ_BYTES);
    struct errinfo info = {0};
    enum err err = ERR_OK;

    while (err == ERR_OK && !atomic_load(&task->cancelled)) {
        size_t chunk = atomic_fetch_add(&task->next_chunk, 1);
        if (chunk >= task->chunks_count)
            break;
        err = read_chunk(task, chunk, buffer, &info);
    }
    if (err != ERR_OK)
        atomic_store(&task->cancelled, true); /* the other threads may stop as well */
    mem_free(buffer);
    end_thread(task, err, &info);
}

static enum err start_threads(struct file_digest *task, struct errinfo *info)
{
    size_t count = MIN(MIN(task->chunks_count, sysinfo_cores()), THREADS_MAX);

    for (size_t i = 0; i < count; i++) {
        lock_enter(&task->lock);
        task->running++;
        lock_leave(&task->lock);
        enum err err = thread_start(&task->threads[i], "digest", run, task, info);
        if (err == ERR_OK) {
            task->threads_count++;
            continue;
        }
        end_thread(task, ERR_OK, NULL);
        if (i == 0) /* fewer threads are enough */
            return err;
        break;
    }
    return ERR_OK;
}

/* ---- the task ---- */

static enum err open_parts(struct file_digest *task, struct errinfo *info)
{
    for (size_t i = 0; i < task->count; i++) {
        struct part *part = &task->parts[i];
        TRY(identify(task->options.fs, part->fd, part->path, &part->identity, info));
        part->key = key_of(part->path, &part->identity);
    }
    recall(task);
    for (size_t i = 0; i < task->count; i++) {
        struct part *part = &task->parts[i];
        if (part->known)
            continue;
        part->first_chunk = task->chunks_count;
        task->chunks_count += chunks_of(part->identity.bytes);
        task->bytes += part->identity.bytes;
    }
    task->chunks = mem_alloc_array(MAX(task->chunks_count, 1), sizeof(*task->chunks));
    return ERR_OK;
}

enum err file_digest_start(struct file_digest **out, const struct file_digest_options *options,
                           const struct file_digest_part *parts, size_t count, struct errinfo *info)
{
    struct file_digest *task = *out = mem_alloc(sizeof(*task));

    task->options = *options;
    task->count = count;
    task->parts = mem_alloc_array(MAX(count, 1), sizeof(*task->parts));
    for (size_t i = 0; i < count; i++)
        task->parts[i] = (struct part){.path = parts[i].path, .fd = parts[i].fd};
    task->started_ns = clock_mono_ns(options->clock);
    task->started_wall_ns = clock_wall_ns(options->clock);
    lock_init(&task->lock, "file digest", LOCK_RANK_ENGINE);
    cond_init(&task->ended);
    enum err err = open_parts(task, info);
    if (err == ERR_OK)
        err = start_threads(task, info);
    if (err != ERR_OK)
        file_digest_cancel(out);
    return err;
}

uint64_t file_digest_bytes(const struct file_digest *task)
{
    return task->bytes;
}

uint64_t file_digest_read(const struct file_digest *task)
{
    return atomic_load(&task->read);
}

bool file_digest_wait(struct file_digest *task, uint64_t timeout_ns)
{
    uint64_t deadline_ns = clock_deadline_ns(clock_real(), timeout_ns);

    lock_enter(&task->lock);
    while (task->running > 0 && cond_wait_until(&task->ended, &task->lock, deadline_ns))
        ;
    bool done = task->running == 0;
    lock_leave(&task->lock);
    return done;
}

static enum err join(struct file_digest *task, struct errinfo *info)
{
    for (size_t i = 0; i < task->threads_count; i++)
        thread_join(&task->threads[i]);
    lock_enter(&task->lock);
    enum err err = task->err;
    if (err != ERR_OK && info != NULL)
        *info = task->info;
    lock_leave(&task->lock);
    return err;
}

/* Checks that the path still names the file that was read, unchanged: the library opened it by
 * its path. */
static enum err check_parts(const struct file_digest *task, struct errinfo *info)
{
    for (size_t i = 0; i < task->count; i++) {
        const struct part *part = &task->parts[i];
        struct file_identity handle, named;
        TRY(identify(task->options.fs, part->fd, part->path, &handle, info));
        enum err err = file_identity_of(task->options.fs, part->path, &named, info);
        if (err != ERR_OK && err != ERR_NOT_FOUND)
            return err;
        if (err != ERR_OK || !same_identity(&handle, &part->identity) ||
            !same_identity(&named, &part->identity))
            return err_set(info, ERR_BUSY,
                           "%s was changed while it was loaded. Load it again when it is complete",
                           part->path);
    }
    return ERR_OK;
}

static void digest_part(const struct file_digest *task, struct part *part)
{
    struct hash256_state state;

    if (part->known)
        return;
    hash256_init(&state);
    hash256_update_framed(&state, "hearth file 1", 13);
    hash256_update_u64(&state, part->identity.bytes);
    for (uint64_t i = 0; i < chunks_of(part->identity.bytes); i++)
        hash256_update(&state, task->chunks[part->first_chunk + i].bytes, HASH256_BYTES);
    part->digest = hash256_final(&state);
}

static void log_and_remember(const struct file_digest *task)
{
    struct errinfo info = {0};
    double seconds =
        (double)(clock_mono_ns(task->options.clock) - task->started_ns) / (double)NS_PER_S;

    if (task->bytes == 0)
        return;
    LOG_DEBUG(task->options.log, "engine", "model files hashed", LOG_UINT("bytes", task->bytes),
              LOG_UINT("threads", task->threads_count), LOG_FLOAT("seconds", seconds));
    /* Commands that load a model once have no state folder, and nothing to warn about. */
    if (task->options.memory_dir != NULL && remember(task, &info) != ERR_OK)
        LOG_WARN(task->options.log, "engine",
                 "the digest cannot be remembered, so that every start reads the whole model file: "
                 "choose a --state-dir that can be written",
                 LOG_STR("reason", info.text));
}

enum err file_digest_finish(struct file_digest **out, struct hash256 *digests, struct errinfo *info)
{
    struct file_digest *task = *out;
    enum err err = join(task, info);

    if (err == ERR_OK)
        err = check_parts(task, info);
    for (size_t i = 0; err == ERR_OK && i < task->count; i++) {
        digest_part(task, &task->parts[i]);
        digests[i] = task->parts[i].digest;
    }
    if (err == ERR_OK)
        log_and_remember(task);
    file_digest_cancel(out);
    return err;
}

void file_digest_cancel(struct file_digest **out)
{
    struct file_digest *task = *out;

    if (task == NULL)
        return;
    *out = NULL;
    atomic_store(&task->cancelled, true);
    (void)join(task, NULL);
    cond_fini(&task->ended);
    lock_fini(&task->lock);
    mem_free(task->chunks);
    mem_free(task->parts);
    mem_free(task);
}

/*
 * record.c: the queue, the hashes, and a file that always ends with a whole line.
 *
 *      any thread:  record_add -> [task with a copy of the tokens] -> queue (bounded)
 *      record:      task -> hashes -> line -> pwrite at the end; the end moves after a full write
 *
 *      recording --write failed, or the line does not fit--> ended (stop_recording; later tasks are
 *                                                            dropped and counted)
 *
 * A line torn by a dead process is cut off at the next start, one torn by a full disk at once.
 */
#include "admin/record.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/json_write.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/queue.h"
#include "dialect/usage.h"

enum {
    QUEUE_TASKS = 1024,
    QUEUE_BYTES = 64 << 20,
    LINE_BYTES_MAX = 64 << 20,
    HEAD_BYTES_MAX = 256,
    SCAN_BYTES = 64 << 10,
    SHORT_BYTES = 8, /* of a hash: 64 bits distinguish the blocks of one installation */
    SHORT_HEX_BYTES = 2 * SHORT_BYTES + 1,
    MODEL_BYTES = 128,
};

struct task {
    uint64_t at_us;
    char model[MODEL_BYTES];
    char tenant[SHORT_HEX_BYTES]; /* "" = none */
    struct hash256 root;          /* the input of the first block's hash */
    struct gen_usage usage;
    uint32_t anchor;
    token_id tokens[]; /* usage.prompt */
};

struct record {
    const struct file_sys *fs;
    struct log *log;
    char *path;
    struct hash256 key;
    uint32_t block_tokens;
    uint64_t bytes_max, queue_bytes_max;
    struct queue *queue;
    struct thread thread;
    /* Counters and a flag shared by several threads; nothing depends on their order. */
    atomic_ullong queued_bytes, requests, lost, end;
    atomic_bool ended;

    /* Owned by the thread. */
    int fd;
    uint64_t lost_said;
    struct buf line, hashes;
};

/* ---- the file ---- */

/* The end has not moved: bytes after it are cut off. */
static void stop_recording(struct record *record, const char *why)
{
    struct errinfo info = {0};

    atomic_store_explicit(&record->ended, true, memory_order_relaxed);
    if (file_truncate(record->fs, record->fd, atomic_load(&record->end), &info) != ERR_OK)
        LOG_WARN(record->log, "record", "the last line may be torn", LOG_STR("reason", info.text));
    LOG_WARN(record->log, "record", "recording has ended", LOG_STR("file", record->path),
             LOG_STR("reason", why));
}

static bool write_end(struct record *record, const struct buf *text)
{
    uint64_t end = atomic_load(&record->end);
    struct errinfo info = {0};

    if (text->err != ERR_OK || end + text->len > record->bytes_max) {
        stop_recording(record, "it has reached its size");
        return false;
    }
    if (file_write_at(record->fs, record->fd, text->data, text->len, end, &info) != ERR_OK) {
        stop_recording(record, info.text);
        return false;
    }
    atomic_store(&record->end, end + text->len);
    return true;
}

static void write_head(const struct record *record, struct buf *out)
{
    struct json json = json_to(out);
    struct hash256 id = hash256_keyed(&record->key, "key", 3);
    char hex[SHORT_HEX_BYTES];

    hash_hex(id.bytes, SHORT_BYTES, hex);
    json_open(&json, '{');
    json_key_uint(&json, "hearth_record", RECORD_VERSION);
    json_key_uint(&json, "block_tokens", record->block_tokens);
    json_key_text(&json, "key", hex);
    json_close(&json, '}');
    buf_append_char(out, '\n');
}

/* End of the last whole line. There is always one: the head. */
static enum err find_end(const struct record *record, uint64_t size, uint64_t *end,
                         struct errinfo *info)
{
    char *chunk = mem_alloc(SCAN_BYTES);
    enum err err = ERR_OK;

    for (*end = size; err == ERR_OK && *end > 0;) {
        size_t len = (size_t)MIN(*end, SCAN_BYTES);
        err = file_read_at(record->fs, record->fd, chunk, len, *end - len, info);
        while (err == ERR_OK && len > 0 && chunk[len - 1] != '\n') {
            len--;
            --*end;
        }
        if (len > 0)
            break;
    }
    mem_free(chunk);
    return err;
}

static enum err continue_file(struct record *record, uint64_t size, const struct buf *head,
                              struct errinfo *info)
{
    char found[HEAD_BYTES_MAX];
    uint64_t end;

    if (size < head->len || head->len > sizeof(found))
        return err_set(info, ERR_INVALID, "%s: is not a record that can be continued",
                       record->path);
    TRY(file_read_at(record->fs, record->fd, found, head->len, 0, info));
    if (memcmp(found, head->data, head->len) != 0)
        return err_set(info, ERR_INVALID,
                       "%s: is not a record of this installation with blocks of %u tokens; choose "
                       "another file",
                       record->path, record->block_tokens);
    TRY(find_end(record, size, &end, info));
    TRY(file_truncate(record->fs, record->fd, end, info));
    atomic_store(&record->end, end);
    return ERR_OK;
}

static enum err open_file(struct record *record, struct errinfo *info)
{
    struct buf head;
    struct stat st;

    TRY(file_open_at(record->fs, AT_FDCWD, record->path, O_RDWR | O_CREAT, 0600, &record->fd,
                     info));
    TRY(file_lock(record->fs, record->fd, info));
    TRY(file_stat(record->fs, record->fd, &st, info));
    if (!S_ISREG(st.st_mode))
        return err_set(info, ERR_INVALID, "%s: is no regular file", record->path);
    buf_init(&head, HEAD_BYTES_MAX);
    write_head(record, &head);
    enum err err = head.err;
    if (err == ERR_OK && st.st_size > 0)
        err = continue_file(record, (uint64_t)st.st_size, &head, info);
    else if (err == ERR_OK)
        err = file_write_at(record->fs, record->fd, head.data, head.len, 0, info);
    if (err == ERR_OK && st.st_size == 0)
        atomic_store(&record->end, head.len);
    buf_fini(&head);
    return err;
}

/* ---- lines ---- */

/* Each whole block's hash includes that of the block before it. */
static void hash_blocks(struct record *record, const struct task *task)
{
    struct hash256 hash = task->root;
    char hex[SHORT_HEX_BYTES];

    buf_clear(&record->hashes);
    for (uint32_t at = 0; at + record->block_tokens <= task->usage.prompt;
         at += record->block_tokens) {
        struct hash256_state state;
        hash256_init_keyed(&state, &record->key);
        hash256_update(&state, hash.bytes, sizeof(hash.bytes));
        for (uint32_t i = 0; i < record->block_tokens; i++)
            hash256_update_u32(&state, (uint32_t)task->tokens[at + i]);
        hash = hash256_final(&state);
        hash_hex(hash.bytes, SHORT_BYTES, hex);
        buf_append(&record->hashes, hex, SHORT_HEX_BYTES - 1);
    }
}

static void write_line(struct record *record, const struct task *task)
{
    const struct gen_usage *usage = &task->usage;
    struct json json = json_to(&record->line);

    json_open(&json, '{');
    json_key_uint(&json, "t_us", task->at_us);
    json_key_text(&json, "model", task->model);
    if (task->tenant[0] != '\0')
        json_key_text(&json, "tenant", task->tenant);
    json_key_uint(&json, "in", usage->prompt);
    json_key_uint(&json, "out", usage->generated);
    if (task->anchor > 0)
        json_key_uint(&json, "anchor", task->anchor);
    usage_write_sources(&json, usage);
    json_key_text(&json, "reason", hearth_reason_name(usage->reason));
    json_key_str(&json, "blocks", buf_text(&record->hashes));
    json_close(&json, '}');
    buf_append_char(&record->line, '\n');
    if (record->hashes.err != ERR_OK)
        record->line.err = record->hashes.err;
}

/* The number of lost requests so far, so that a reader knows that some are missing. */
static void write_lost(struct record *record)
{
    uint64_t lost = atomic_load(&record->lost);

    if (lost == record->lost_said)
        return;
    LOG_WARN(record->log, "record", "the disk is too slow: requests are missing from the record",
             LOG_UINT("lost", lost - record->lost_said));
    buf_appendf(&record->line, "{\"lost\":%llu}\n", (unsigned long long)(lost - record->lost_said));
    record->lost_said = lost;
}

static void write_task(struct record *record, const struct task *task)
{
    if (atomic_load_explicit(&record->ended, memory_order_relaxed)) {
        atomic_fetch_add_explicit(&record->lost, 1, memory_order_relaxed);
        return;
    }
    buf_clear(&record->line);
    write_lost(record);
    hash_blocks(record, task);
    write_line(record, task);
    bool written = write_end(record, &record->line);
    atomic_fetch_add_explicit(written ? &record->requests : &record->lost, 1, memory_order_relaxed);
}

static size_t task_bytes(uint32_t tokens)
{
    return sizeof(struct task) + tokens * sizeof(token_id);
}

static void run(void *arg)
{
    struct record *record = arg;
    struct task *task;

    thread_set_background();
    while ((task = queue_pop(record->queue, UINT64_MAX)) != NULL) {
        write_task(record, task);
        atomic_fetch_sub_explicit(&record->queued_bytes, task_bytes(task->usage.prompt),
                                  memory_order_relaxed);
        mem_free(task);
    }
}

/* ---- from outside ---- */

static struct hash256 root_of(const struct record *record, const struct record_entry *entry)
{
    struct hash256_state state;

    hash256_init_keyed(&state, &record->key);
    hash256_update_framed(&state, entry->model, strlen(entry->model));
    hash256_update_framed(&state, entry->tenant, strlen(entry->tenant));
    hash256_update_framed(&state, entry->salt.ptr, entry->salt.len);
    return hash256_final(&state);
}

static struct task *make_task(struct record *record, const struct record_entry *entry)
{
    uint32_t count = entry->usage->prompt;
    struct task *task = mem_try_alloc(task_bytes(count));

    if (task == NULL)
        return NULL;
    task->at_us = entry->at_wall_ns / NS_PER_US;
    snprintf(task->model, sizeof(task->model), "%s", entry->model);
    task->tenant[0] = '\0';
    if (entry->tenant[0] != '\0') {
        struct hash256 tenant = hash256_keyed(&record->key, entry->tenant, strlen(entry->tenant));
        hash_hex(tenant.bytes, SHORT_BYTES, task->tenant);
    }
    task->root = root_of(record, entry);
    task->usage = *entry->usage;
    task->anchor = entry->anchor;
    memcpy(task->tokens, entry->tokens, count * sizeof(token_id));
    return task;
}

void record_add(struct record *record, const struct record_entry *entry)
{
    size_t bytes = task_bytes(entry->usage->prompt);
    struct task *task = NULL;

    /* Added before the check, so that the bound holds with concurrent callers. */
    uint64_t before = atomic_fetch_add_explicit(&record->queued_bytes, bytes, memory_order_relaxed);
    if (!atomic_load_explicit(&record->ended, memory_order_relaxed) &&
        before + bytes <= record->queue_bytes_max)
        task = make_task(record, entry);
    if (task != NULL && queue_try_push(record->queue, task))
        return;
    mem_free(task);
    atomic_fetch_sub_explicit(&record->queued_bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&record->lost, 1, memory_order_relaxed);
}

void record_get_stats(const struct record *record, struct record_stats *stats)
{
    *stats = (struct record_stats){
        .requests = atomic_load_explicit(&record->requests, memory_order_relaxed),
        .lost = atomic_load_explicit(&record->lost, memory_order_relaxed),
        .bytes = atomic_load_explicit(&record->end, memory_order_relaxed),
    };
}

enum err record_open(struct record **out, const struct record_options *options,
                     struct errinfo *info)
{
    struct record *record = mem_alloc(sizeof(*record));

    *out = NULL;
    *record = (struct record){
        .fs = options->fs,
        .log = options->log,
        .path = mem_strdup(options->path),
        /* A derived key, so that no hash in the file is used anywhere else. */
        .key = hash256_derive("hearth record 1", options->key->bytes, sizeof(options->key->bytes)),
        .block_tokens = options->block_tokens > 0 ? options->block_tokens : RECORD_BLOCK_TOKENS,
        .bytes_max = options->bytes_max,
        .queue_bytes_max = options->queue_bytes_max > 0 ? options->queue_bytes_max : QUEUE_BYTES,
        .fd = FILE_NO,
    };
    buf_init(&record->line, LINE_BYTES_MAX);
    buf_init(&record->hashes, LINE_BYTES_MAX);
    enum err err = open_file(record, info);
    if (err == ERR_OK)
        err = queue_create(&record->queue, "record", QUEUE_TASKS, info);
    if (err == ERR_OK)
        err = thread_start(&record->thread, "record", run, record, info);
    if (err == ERR_OK)
        *out = record;
    else
        record_close(&record);
    return err;
}

static void log_sums(const struct record *record)
{
    struct record_stats stats;

    record_get_stats(record, &stats);
    LOG_INFO(record->log, "record", "closed", LOG_STR("file", record->path),
             LOG_UINT("requests", stats.requests), LOG_UINT("lost", stats.lost),
             LOG_UINT("bytes", stats.bytes));
}

void record_close(struct record **out)
{
    struct record *record = *out;

    if (record == NULL)
        return;
    if (record->queue != NULL)
        queue_close(record->queue);
    bool ran = record->thread.started;
    thread_join(&record->thread);
    if (ran)
        log_sums(record);
    queue_destroy(&record->queue);
    file_close(record->fs, &record->fd);
    buf_fini(&record->line);
    buf_fini(&record->hashes);
    mem_free(record->path);
    mem_free(record);
    *out = NULL;
}

/*
 * shelf.c: entries in memory, and their files.
 *
 *      file   8 magic "HEARTHSH", 16 nonce, 16 tag, sealed: 8 wall time in seconds, 1 length of the
 *             tenant, 1 length of the id, tenant, id, data
 *      name   32 hex digits of a keyed hash of tenant and id, ".entry"
 *
 * Times are those of the wall clock, so that an entry expires across restarts.
 */
#include "serve/shelf.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/le.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/seal.h"
#include "serve/auth.h"

enum {
    NONCE_AT = 8,
    TAG_AT = NONCE_AT + SEAL_DRAW_BYTES,
    SEALED_AT = TAG_AT + SEAL_TAG_BYTES,
    INNER_BYTES = 10, /* before the tenant */
    NAME_DIGITS = 32,
    FILE_MODE = 0600,
};

#define SUFFIX ".entry"
enum { NAME_BYTES = NAME_DIGITS + sizeof(SUFFIX) };

#define DOUBT_NS (24 * 3600 * NS_PER_S) /* a wrong clock is set right within that */

static const char magic[8] = {'H', 'E', 'A', 'R', 'T', 'H', 'S', 'H'};

struct owner {
    struct list_node link;
    struct list entries; /* the newest last */
    size_t bytes;
    char name[AUTH_NAME_BYTES];
};

struct entry {
    struct list_node link; /* in its owner's list; in a list of evicted ones */
    struct map_node node;
    struct owner *owner;
    uint64_t put_s;
    size_t len;
    char id[SHELF_ID_BYTES];
    char data[];
};

struct shelf {
    struct shelf_options options;
    uint64_t created_ns; /* monotonic */
    uint64_t seed;
    struct lock lock;
    struct list owners GUARDED_BY(lock); /* never removed: as many as there are keys */
    struct map entries GUARDED_BY(lock);
    size_t bytes GUARDED_BY(lock);
};

struct key {
    const char *tenant;
    struct str id;
};

/* ---- memory; under the lock ---- */

static uint64_t hash_key(const struct shelf *shelf, const char *tenant, struct str id)
{
    return map_hash(id.ptr, id.len, map_hash(tenant, strlen(tenant), shelf->seed));
}

static bool is_entry(const struct map_node *node, const void *arg)
{
    const struct entry *entry = CONTAINER_OF(node, struct entry, node);
    const struct key *key = arg;

    return str_eq(str_from(entry->id), key->id) && strcmp(entry->owner->name, key->tenant) == 0;
}

static struct entry *find(struct shelf *shelf, const char *tenant, struct str id)
{
    struct key key = {tenant, id};
    struct map_node *node = map_find(&shelf->entries, hash_key(shelf, tenant, id), is_entry, &key);

    return node != NULL ? CONTAINER_OF(node, struct entry, node) : NULL;
}

static struct owner *find_owner(struct shelf *shelf, const char *tenant)
{
    LIST_FOREACH (struct owner, owner, &shelf->owners, link)
        if (strcmp(owner->name, tenant) == 0)
            return owner;
    struct owner *owner = mem_alloc(sizeof(*owner));
    snprintf(owner->name, sizeof(owner->name), "%s", tenant);
    list_init(&owner->entries);
    list_push_back(&shelf->owners, &owner->link);
    return owner;
}

/* Moves an entry to the list of those whose file and memory are freed outside the lock. */
static void take_out(struct shelf *shelf, struct entry *entry, struct list *out)
{
    map_remove(&shelf->entries, &entry->node);
    list_remove(&entry->owner->entries, &entry->link);
    entry->owner->bytes -= entry->len;
    shelf->bytes -= entry->len;
    list_push_back(out, &entry->link);
}

static bool is_expired(const struct shelf *shelf, const struct entry *entry, uint64_t now_s)
{
    return shelf->options.ttl_s > 0 && now_s >= entry->put_s + shelf->options.ttl_s;
}

/* It expired long ago, and not while the server ran: the server was off, or the clock is wrong and
 * will be set right. Until then the entry is not found, and it stays for a day. */
static bool may_be_alive(const struct shelf *shelf, const struct entry *entry, uint64_t now_s)
{
    return now_s >= entry->put_s + 2 * shelf->options.ttl_s &&
           clock_mono_ns(shelf->options.clock) - shelf->created_ns < DOUBT_NS;
}

/* Entries of a tenant that must leave: expired ones, then the oldest until it is within limits. */
static void trim(struct shelf *shelf, struct owner *owner, struct list *out)
{
    uint64_t now_s = clock_wall_ns(shelf->options.clock) / NS_PER_S;

    LIST_FOREACH_SAFE (struct entry, entry, &owner->entries, link) {
        bool expired = is_expired(shelf, entry, now_s) && !may_be_alive(shelf, entry, now_s);

        if (expired || owner->bytes > shelf->options.bytes_max ||
            owner->entries.count > shelf->options.count_max)
            take_out(shelf, entry, out);
    }
}

/* ---- files ---- */

static void file_name(const struct shelf *shelf, const char *tenant, const char *id,
                      char out[NAME_BYTES])
{
    struct hash256_state state;
    char hex[HASH256_HEX_BYTES];

    hash256_init_keyed(&state, &shelf->options.key);
    hash256_update_framed(&state, tenant, strlen(tenant));
    hash256_update_framed(&state, id, strlen(id));
    struct hash256 hash = hash256_final(&state);
    hash256_hex(&hash, hex);
    snprintf(out, NAME_BYTES, "%.*s%s", NAME_DIGITS, hex, SUFFIX);
}

static struct seal seal_of(const struct shelf *shelf, const uint8_t *file)
{
    return (struct seal){
        .key = &shelf->options.key, .drawn = file + NONCE_AT, .data = file, .data_len = TAG_AT};
}

static void warn(const struct shelf *shelf, const char *what, const struct errinfo *info)
{
    LOG_WARN(shelf->options.log, "shelf", what, LOG_STR("reason", info->text));
}

static size_t file_bytes_max(const struct shelf *shelf)
{
    return shelf->options.bytes_max + SEALED_AT + INNER_BYTES + AUTH_NAME_BYTES + SHELF_ID_BYTES;
}

static enum err encode(const struct shelf *shelf, const struct entry *entry, struct buf *out)
{
    size_t tenant = strlen(entry->owner->name), id = strlen(entry->id);
    uint8_t *at = (uint8_t *)buf_reserve(out, SEALED_AT + INNER_BYTES + tenant + id + entry->len);

    if (at == NULL)
        return out->err;
    buf_commit(out, SEALED_AT + INNER_BYTES + tenant + id + entry->len);
    memcpy(at, magic, sizeof(magic));
    hash_random(at + NONCE_AT, SEAL_DRAW_BYTES);
    uint8_t *inner = at + SEALED_AT;
    le_put_u64(inner, entry->put_s);
    inner[8] = (uint8_t)tenant;
    inner[9] = (uint8_t)id;
    memcpy(inner + INNER_BYTES, entry->owner->name, tenant);
    memcpy(inner + INNER_BYTES + tenant, entry->id, id);
    memcpy(inner + INNER_BYTES + tenant + id, entry->data, entry->len);
    struct seal seal = seal_of(shelf, at);
    seal_close(&seal, inner, inner, out->len - SEALED_AT, at + TAG_AT);
    return ERR_OK;
}

static void remove_file(const struct shelf *shelf, const char *name)
{
    struct errinfo info = {0};
    enum err err = file_remove_at(shelf->options.fs, shelf->options.dir, name, false, &info);

    if (err != ERR_OK && err != ERR_NOT_FOUND)
        warn(shelf, "cannot remove a file", &info);
}

static void free_all(const struct shelf *shelf, struct list *entries, bool files)
{
    char name[NAME_BYTES];

    LIST_FOREACH_SAFE (struct entry, entry, entries, link) {
        list_remove(entries, &entry->link);
        file_name(shelf, entry->owner->name, entry->id, name);
        if (files && shelf->options.dir != FILE_NO)
            remove_file(shelf, name);
        mem_free(entry);
    }
}

/* In place and without a sync: a torn file does not authenticate, and is not used.
 * The thread that ends answers must not wait for a disk. */
static enum err write_bytes(const struct shelf *shelf, const char *name, const struct buf *file,
                            struct errinfo *info)
{
    const struct file_sys *fs = shelf->options.fs;
    int fd = FILE_NO;

    TRY(file_open_at(fs, shelf->options.dir, name, O_WRONLY | O_CREAT | O_TRUNC, FILE_MODE, &fd,
                     info));
    enum err err = file_write_at(fs, fd, file->data, file->len, 0, info);
    file_close(fs, &fd);
    return err;
}

/* Looks afterwards whether the entry is still there: one that was removed meanwhile must not come
 * back at the next start. */
static void write_file(struct shelf *shelf, const char *tenant, const char *id,
                       const struct buf *file)
{
    struct errinfo info = {0};
    char name[NAME_BYTES];

    file_name(shelf, tenant, id, name);
    if (write_bytes(shelf, name, file, &info) != ERR_OK)
        warn(shelf, "an entry is in memory only", &info);
    lock_enter(&shelf->lock);
    bool gone = find(shelf, tenant, str_from(id)) == NULL;
    lock_leave(&shelf->lock);
    if (gone)
        remove_file(shelf, name);
}

/* ---- putting ---- */

static struct entry *make_entry(struct str id, struct str data, uint64_t put_s)
{
    struct entry *entry = mem_try_alloc(sizeof(*entry) + data.len);

    if (entry == NULL)
        return NULL;
    *entry = (struct entry){.put_s = put_s, .len = data.len};
    memcpy(entry->id, id.ptr, id.len);
    if (data.len > 0)
        memcpy(entry->data, data.ptr, data.len);
    return entry;
}

/* The file of a replaced entry has the name of the new one: it must not be removed. */
static void insert(struct shelf *shelf, const char *tenant, struct entry *entry,
                   struct list *replaced, struct list *evicted)
{
    struct str id = str_from(entry->id);
    struct entry *old = find(shelf, tenant, id);

    if (old != NULL)
        take_out(shelf, old, replaced);
    entry->owner = find_owner(shelf, tenant);
    map_insert(&shelf->entries, &entry->node, hash_key(shelf, tenant, id));
    list_push_back(&entry->owner->entries, &entry->link);
    entry->owner->bytes += entry->len;
    shelf->bytes += entry->len;
    trim(shelf, entry->owner, evicted);
}

bool shelf_put(struct shelf *shelf, const char *tenant, struct str id, struct str data)
{
    struct list replaced, evicted;
    struct entry *entry;
    struct buf file;

    if (id.len == 0 || id.len >= SHELF_ID_BYTES || data.len > shelf->options.bytes_max ||
        shelf->options.count_max == 0 || strlen(tenant) >= AUTH_NAME_BYTES)
        return false;
    entry = make_entry(id, data, clock_wall_ns(shelf->options.clock) / NS_PER_S);
    if (entry == NULL)
        return false;
    list_init(&replaced);
    list_init(&evicted);
    buf_init(&file, file_bytes_max(shelf));
    lock_enter(&shelf->lock);
    insert(shelf, tenant, entry, &replaced, &evicted);
    bool encoded = shelf->options.dir != FILE_NO && encode(shelf, entry, &file) == ERR_OK;
    lock_leave(&shelf->lock);
    char name[SHELF_ID_BYTES];
    snprintf(name, sizeof(name), STR_FMT, STR_ARG(id));
    if (encoded)
        write_file(shelf, tenant, name, &file);
    buf_fini(&file);
    free_all(shelf, &replaced, false);
    free_all(shelf, &evicted, true);
    return true;
}

bool shelf_get(struct shelf *shelf, const char *tenant, struct str id, struct buf *out)
{
    uint64_t now_s = clock_wall_ns(shelf->options.clock) / NS_PER_S;
    bool found = false;

    lock_enter(&shelf->lock);
    struct entry *entry = find(shelf, tenant, id);
    if (entry != NULL && !is_expired(shelf, entry, now_s)) {
        list_move_back(&entry->owner->entries, &entry->link);
        found = buf_append(out, entry->data, entry->len) == ERR_OK;
    }
    lock_leave(&shelf->lock);
    return found;
}

bool shelf_remove(struct shelf *shelf, const char *tenant, struct str id)
{
    struct list out;

    list_init(&out);
    lock_enter(&shelf->lock);
    struct entry *entry = find(shelf, tenant, id);
    if (entry != NULL)
        take_out(shelf, entry, &out);
    lock_leave(&shelf->lock);
    free_all(shelf, &out, true);
    return entry != NULL;
}

struct shelf_stats shelf_stats(struct shelf *shelf)
{
    lock_enter(&shelf->lock);
    struct shelf_stats stats = {shelf->entries.count, shelf->bytes};
    lock_leave(&shelf->lock);
    return stats;
}

/* ---- reading the folder ---- */

struct loaded {
    char name[NAME_BYTES];
    struct entry *entry;
    char tenant[AUTH_NAME_BYTES];
};

struct loading {
    struct loaded *files;
    size_t count, cap;
};

static void note_name(const char *name, unsigned char type, void *arg)
{
    struct loading *loading = arg;

    (void)type;
    if (!str_ends(str_from(name), STR(SUFFIX)) || strlen(name) >= NAME_BYTES ||
        !mem_try_reserve(&loading->files, loading->count + 1, &loading->cap,
                         sizeof(*loading->files)))
        return;
    struct loaded *file = &loading->files[loading->count++];
    *file = (struct loaded){0};
    snprintf(file->name, sizeof(file->name), "%s", name);
}

/* The entry of an opened file; NULL: it is not one, or there is no memory. */
static struct entry *decode(const uint8_t *inner, size_t len, struct loaded *file)
{
    if (len < INNER_BYTES)
        return NULL;
    size_t tenant = inner[8], id = inner[9], head = INNER_BYTES + tenant + id;
    if (len < head || tenant >= AUTH_NAME_BYTES || id == 0 || id >= SHELF_ID_BYTES)
        return NULL;
    const char *text = (const char *)inner + INNER_BYTES;
    snprintf(file->tenant, sizeof(file->tenant), "%.*s", (int)tenant, text);
    return make_entry((struct str){text + tenant, id},
                      (struct str){(const char *)inner + head, len - head}, le_get_u64(inner));
}

/* A file that cannot be opened may belong to another key: it stays as long as its entry would. */
static void remove_old(const struct shelf *shelf, const char *name)
{
    uint64_t now_s = clock_wall_ns(shelf->options.clock) / NS_PER_S;
    struct errinfo info = {0};
    struct stat st;

    if (shelf->options.ttl_s > 0 &&
        file_stat_at(shelf->options.fs, shelf->options.dir, name, &st, &info) == ERR_OK &&
        (uint64_t)st.st_mtime + shelf->options.ttl_s <= now_s)
        remove_file(shelf, name);
}

static void load_file(const struct shelf *shelf, struct loaded *file)
{
    struct errinfo info = {0};
    char *data = NULL;
    size_t len = 0;

    if (file_read_all(shelf->options.fs, shelf->options.dir, file->name, file_bytes_max(shelf),
                      &data, &len, &info) != ERR_OK) {
        warn(shelf, "cannot read a file", &info);
        return;
    }
    uint8_t *at = (uint8_t *)data;
    struct seal seal = seal_of(shelf, at);
    if (len >= SEALED_AT && memcmp(at, magic, sizeof(magic)) == 0 &&
        seal_open(&seal, at + SEALED_AT, at + SEALED_AT, len - SEALED_AT, at + TAG_AT))
        file->entry = decode(at + SEALED_AT, len - SEALED_AT, file);
    mem_free(data);
    if (file->entry == NULL)
        remove_old(shelf, file->name);
}

/* The oldest first; those without an entry anywhere. */
static int compare_age(const void *a, const void *b)
{
    const struct entry *x = ((const struct loaded *)a)->entry;
    const struct entry *y = ((const struct loaded *)b)->entry;

    if (x == NULL || y == NULL)
        return (y != NULL) - (x != NULL);
    return (x->put_s > y->put_s) - (x->put_s < y->put_s);
}

static void load_folder(struct shelf *shelf)
{
    struct loading loading = {0};
    struct errinfo info = {0};
    struct list replaced, evicted;

    list_init(&replaced);
    list_init(&evicted);
    if (file_list(shelf->options.fs, shelf->options.dir, note_name, &loading, &info) != ERR_OK)
        warn(shelf, "cannot list the folder", &info);
    for (size_t i = 0; i < loading.count; i++)
        load_file(shelf, &loading.files[i]);
    if (loading.count > 0)
        qsort(loading.files, loading.count, sizeof(*loading.files), compare_age);
    lock_enter(&shelf->lock);
    for (size_t i = 0; i < loading.count; i++)
        if (loading.files[i].entry != NULL)
            insert(shelf, loading.files[i].tenant, loading.files[i].entry, &replaced, &evicted);
    lock_leave(&shelf->lock);
    free_all(shelf, &replaced, false);
    free_all(shelf, &evicted, true);
    mem_free(loading.files);
}

/* ---- life ---- */

struct shelf *shelf_create(const struct shelf_options *options)
{
    struct shelf *shelf = mem_alloc(sizeof(*shelf));

    shelf->options = *options;
    shelf->options.key =
        hash256_derive("hearth shelf 1", options->key.bytes, sizeof(options->key.bytes));
    if (options->clock == NULL)
        shelf->options.clock = clock_real();
    shelf->created_ns = clock_mono_ns(shelf->options.clock);
    hash_random(&shelf->seed, sizeof(shelf->seed));
    lock_init(&shelf->lock, "shelf", LOCK_RANK_SHELF);
    list_init(&shelf->owners);
    map_init(&shelf->entries);
    if (options->dir != FILE_NO)
        load_folder(shelf);
    return shelf;
}

void shelf_destroy(struct shelf **out)
{
    struct shelf *shelf = *out;

    if (shelf == NULL)
        return;
    LIST_FOREACH_SAFE (struct owner, owner, &shelf->owners, link) {
        free_all(shelf, &owner->entries, false);
        mem_free(owner);
    }
    map_fini(&shelf->entries);
    lock_fini(&shelf->lock);
    seal_wipe(&shelf->options.key, sizeof(shelf->options.key));
    mem_free(shelf);
    *out = NULL;
}

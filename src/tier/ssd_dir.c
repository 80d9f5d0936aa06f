/*
 * ssd_dir.c: names below a directory handle.
 *
 *      temp:    create_temp -> (write) -> publish: rename to ab/cd/...
 *               a crash leaves tmp/..., which the next open removes
 *      object:  publish -> remove | quarantine
 *               each is one rename or unlink, so a file is never half there
 *
 * A leaf directory is made when a rename finds none, and removed when an unlink may have emptied
 * it. The two may race: a new leaf can be removed before the rename, so publish tries a few times.
 *
 * Not here: fsync. An object is published while its bytes may still be in the page cache. After a
 * power failure its name may exist without them; the reader detects this by the digests
 * (docs/ssd-format.md, "Without fsync").
 */
#include "tier/ssd_dir.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/object_path.h"

enum { PUBLISH_TRIES = 4, TOP_NAME_BYTES = 3 };

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY)

/* The parts of "ab/cd/abcd....hobj". */
struct path {
    char text[OBJECT_PATH_BYTES];
    const char *top, *leaf, *file;
};

static void split_path(const struct hash256 *key, struct path *path)
{
    object_path(key, path->text);
    path->text[OBJECT_PATH_LEAF_AT - 1] = '\0';
    path->text[OBJECT_PATH_FILE_AT - 1] = '\0';
    path->top = path->text;
    path->leaf = path->text + OBJECT_PATH_LEAF_AT;
    path->file = path->text + OBJECT_PATH_FILE_AT;
}

static enum err open_leaf(const struct ssd_dir *dir, const struct path *path, bool create,
                          int *leaf, struct errinfo *info)
{
    int top;

    *leaf = FILE_NO;
    TRY(file_open_dir_at(dir->fs, dir->root, path->top, create, &top, info));
    enum err err = file_open_dir_at(dir->fs, top, path->leaf, create, leaf, info);
    file_close(dir->fs, &top);
    return err;
}

/* Removes a leaf if it is empty; otherwise, or if it is in use, it stays. */
static void remove_leaf(const struct ssd_dir *dir, const struct path *path)
{
    int top;

    if (file_open_dir_at(dir->fs, dir->root, path->top, false, &top, NULL) != ERR_OK)
        return;
    (void)!file_remove_at(dir->fs, top, path->leaf, true, NULL);
    file_close(dir->fs, &top);
}

/* Whether access was denied because the entry is not ours: a link, or owned by another user. For
 * our own files, denied access is an error that may be temporary. */
static bool is_strange(const struct ssd_dir *dir, int parent, const char *name, mode_t type)
{
    struct stat st;

    return file_stat_at(dir->fs, parent, name, &st, NULL) == ERR_OK &&
           ((st.st_mode & S_IFMT) != type || st.st_uid != geteuid());
}

/* ---- open and close ---- */

static void add_left(struct ssd_dir *dir, const char *name)
{
    struct ssd_dir_left *left = mem_alloc(sizeof(*left));
    struct stat st = {0};

    (void)!file_stat_at(dir->fs, dir->tmp, name, &st, NULL);
    *left = (struct ssd_dir_left){
        .next = dir->left, .name = mem_strdup(name), .bytes = (uint64_t)st.st_blocks * 512};
    dir->left = left;
}

static void remove_temp(const char *name, unsigned char d_type, void *arg)
{
    struct ssd_dir *dir = arg;
    size_t len = strlen(name), suffix = strlen(FILE_TEMP_SUFFIX);

    (void)d_type;
    if (len <= suffix || strcmp(name + len - suffix, FILE_TEMP_SUFFIX) != 0)
        return; /* not ours */
    if (file_remove_at(dir->fs, dir->tmp, name, false, NULL) == ERR_OK)
        dir->temps_removed++;
    else
        add_left(dir, name);
}

static enum err take_lock(struct ssd_dir *dir, struct errinfo *info)
{
    enum err err = file_open_at(dir->fs, dir->root, "lock", O_RDWR | O_CREAT | O_NONBLOCK, 0600,
                                &dir->lock, info);

    if (err == ERR_OK)
        err = file_lock(dir->fs, dir->lock, info);
    return err == ERR_BUSY ? err_set(info, err, "another process uses it") : err;
}

static enum err open_parts(struct ssd_dir *dir, struct errinfo *info)
{
    if (dir->read_only)
        return ERR_OK;
    TRY(take_lock(dir, info));
    TRY(file_open_dir_at(dir->fs, dir->root, "tmp", true, &dir->tmp, info));
    TRY(file_open_dir_at(dir->fs, dir->root, "quarantine", true, &dir->quarantine, info));
    return file_list(dir->fs, dir->tmp, remove_temp, dir, info);
}

enum err ssd_dir_open(struct ssd_dir *dir, const struct file_sys *fs, const char *path,
                      bool read_only, struct errinfo *info)
{
    *dir = (struct ssd_dir){.fs = fs,
                            .root = FILE_NO,
                            .tmp = FILE_NO,
                            .quarantine = FILE_NO,
                            .lock = FILE_NO,
                            .read_only = read_only};
    enum err err = file_open_dir(fs, path, !read_only, &dir->root, info);
    if (err == ERR_OK)
        err = open_parts(dir, info);
    if (err == ERR_OK)
        return ERR_OK;
    ssd_dir_close(dir);
    return err_wrap(info, err, "SSD directory %s", path);
}

void ssd_dir_close(struct ssd_dir *dir)
{
    struct ssd_dir_left *left;

    if (dir->fs == NULL)
        return;
    while ((left = dir->left) != NULL) {
        dir->left = left->next;
        mem_free(left->name);
        mem_free(left);
    }
    file_close(dir->fs, &dir->quarantine);
    file_close(dir->fs, &dir->tmp);
    file_close(dir->fs, &dir->lock); /* also releases the lock */
    file_close(dir->fs, &dir->root);
}

/* ---- objects ---- */

/* Some file systems refuse O_DIRECT with EINVAL. O_NONBLOCK: opening a pipe under our name must not
 * block. */
static enum err open_file(const struct ssd_dir *dir, int leaf, const char *name, bool *direct,
                          int *fd, struct errinfo *info)
{
    const int flags = O_RDONLY | O_NONBLOCK;

    if (*direct) {
        enum err err = file_open_at(dir->fs, leaf, name, flags | O_DIRECT, 0, fd, info);
        if (err != ERR_INVALID)
            return err;
    }
    *direct = false;
    return file_open_at(dir->fs, leaf, name, flags, 0, fd, info);
}

static enum err stat_regular(const struct ssd_dir *dir, int fd, struct stat *st,
                             struct errinfo *info)
{
    TRY(file_stat(dir->fs, fd, st, info));
    return S_ISREG(st->st_mode) ? ERR_OK : err_set(info, ERR_INVALID, "not a regular file");
}

enum err ssd_dir_open_object(const struct ssd_dir *dir, const struct hash256 *key, bool *direct,
                             int *fd, struct stat *st, struct errinfo *info)
{
    struct path path;
    int leaf;

    *fd = FILE_NO;
    split_path(key, &path);
    TRY(open_leaf(dir, &path, false, &leaf, info));
    enum err err = open_file(dir, leaf, path.file, direct, fd, info);
    if (err == ERR_DENIED && is_strange(dir, leaf, path.file, S_IFREG))
        err = ERR_INVALID;
    file_close(dir->fs, &leaf);
    if (err == ERR_OK)
        err = stat_regular(dir, *fd, st, info);
    if (err != ERR_OK)
        file_close(dir->fs, fd);
    return err;
}

enum err ssd_dir_create_temp(const struct ssd_dir *dir, char name[SSD_DIR_TEMP_BYTES], int *fd,
                             struct errinfo *info)
{
    uint64_t number;

    assert(!dir->read_only);
    hash_random(&number, sizeof(number));
    snprintf(name, SSD_DIR_TEMP_BYTES, "%016" PRIx64 FILE_TEMP_SUFFIX, number);
    return file_open_at(dir->fs, dir->tmp, name, O_WRONLY | O_CREAT | O_EXCL, 0600, fd, info);
}

enum err ssd_dir_publish(const struct ssd_dir *dir, const char *temp, const struct hash256 *key,
                         struct errinfo *info)
{
    enum err err = ERR_NOT_FOUND;
    struct path path;

    split_path(key, &path);
    for (int tries = 0; err == ERR_NOT_FOUND && tries < PUBLISH_TRIES; tries++) {
        int leaf;
        err = open_leaf(dir, &path, true, &leaf, info);
        if (err != ERR_OK)
            continue;
        err = file_rename_at(dir->fs, dir->tmp, temp, leaf, path.file, info);
        file_close(dir->fs, &leaf);
    }
    return err;
}

enum err ssd_dir_discard(const struct ssd_dir *dir, const char *temp, struct errinfo *info)
{
    enum err err = file_remove_at(dir->fs, dir->tmp, temp, false, info);

    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* ---- quarantine ---- */

struct sum {
    const struct ssd_dir *dir;
    uint64_t files, bytes;
};

static void add_quarantined(const char *name, unsigned char d_type, void *arg)
{
    struct sum *sum = arg;
    struct stat st;

    (void)d_type;
    sum->files++;
    if (file_stat_at(sum->dir->fs, sum->dir->quarantine, name, &st, NULL) == ERR_OK)
        sum->bytes += (uint64_t)st.st_blocks * 512;
}

enum err ssd_dir_quarantined(const struct ssd_dir *dir, uint64_t *files, uint64_t *bytes,
                             struct errinfo *info)
{
    struct sum sum = {.dir = dir};
    enum err err = file_list(dir->fs, dir->quarantine, add_quarantined, &sum, info);

    *files = sum.files;
    *bytes = sum.bytes;
    return err;
}

static void remove_quarantined(const char *name, unsigned char d_type, void *arg)
{
    const struct ssd_dir *dir = arg;

    (void)!file_remove_at(dir->fs, dir->quarantine, name, d_type == DT_DIR, NULL);
}

void ssd_dir_empty_quarantine(const struct ssd_dir *dir)
{
    (void)!file_list(dir->fs, dir->quarantine, remove_quarantined, (void *)dir, NULL);
}

/* Never replaces a file of the same name: the accounting would not notice. */
static bool may_quarantine(const struct ssd_dir *dir, int leaf, const char *name,
                           uint64_t bytes_max)
{
    uint64_t files, bytes;
    struct stat st, other;

    return bytes_max > 0 && ssd_dir_quarantined(dir, &files, &bytes, NULL) == ERR_OK &&
           files < SSD_DIR_QUARANTINE_MAX && bytes <= bytes_max &&
           file_stat_at(dir->fs, leaf, name, &st, NULL) == ERR_OK &&
           (uint64_t)st.st_blocks * 512 <= bytes_max - bytes &&
           file_stat_at(dir->fs, dir->quarantine, name, &other, NULL) == ERR_NOT_FOUND;
}

enum err ssd_dir_remove(const struct ssd_dir *dir, const struct hash256 *key,
                        uint64_t quarantine_max, bool *kept, struct errinfo *info)
{
    struct path path;
    int leaf;

    assert(!dir->read_only);
    *kept = false;
    split_path(key, &path);
    enum err err = open_leaf(dir, &path, false, &leaf, info);
    if (err == ERR_OK) {
        *kept =
            may_quarantine(dir, leaf, path.file, quarantine_max) &&
            file_rename_at(dir->fs, leaf, path.file, dir->quarantine, path.file, NULL) == ERR_OK;
        if (!*kept)
            err = file_remove_at(dir->fs, leaf, path.file, false, info);
        file_close(dir->fs, &leaf);
    }
    if (err == ERR_OK)
        remove_leaf(dir, &path);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* ---- listing ---- */

struct listing {
    const struct ssd_dir *dir;
    int fd;                       /* of the directory that is listed */
    char path[OBJECT_PATH_BYTES]; /* "ab/cd/", followed by the name */
    ssd_dir_fn fn;
    void *arg;
    enum err err; /* the first error below this directory */
};

static void see_odd(struct listing *listing)
{
    listing->fn(&(struct ssd_dir_entry){.regular = false}, listing->arg);
}

static void see_file(const char *name, unsigned char d_type, void *arg)
{
    struct listing *listing = arg;
    struct ssd_dir_entry entry = {.regular = true};
    size_t len = strlen(name);

    if (len != OBJECT_PATH_BYTES - 1 - OBJECT_PATH_FILE_AT ||
        (d_type != DT_REG && d_type != DT_UNKNOWN)) {
        see_odd(listing);
        return;
    }
    memcpy(listing->path + OBJECT_PATH_FILE_AT, name, len + 1);
    enum err err = file_stat_at(listing->dir->fs, listing->fd, name, &entry.st, NULL);
    if (err == ERR_NOT_FOUND)
        return; /* removed meanwhile */
    if (err != ERR_OK)
        listing->err = err;
    else if (!S_ISREG(entry.st.st_mode) ||
             !object_path_parse(listing->path, OBJECT_PATH_FILE_AT + len, &entry.key))
        see_odd(listing);
    else
        listing->fn(&entry, listing->arg);
}

static bool is_byte_name(const char *name)
{
    static const char digits[] = "0123456789abcdef";

    return strlen(name) == 2 && strchr(digits, name[0]) != NULL && strchr(digits, name[1]) != NULL;
}

/* A leaf "cd" below the top that is listed. */
static void see_leaf(const char *name, unsigned char d_type, void *arg)
{
    struct listing *listing = arg;
    struct listing inner = *listing;
    int top = listing->fd;

    if (!is_byte_name(name) || (d_type != DT_DIR && d_type != DT_UNKNOWN)) {
        see_odd(listing);
        return;
    }
    enum err err = file_open_at(listing->dir->fs, top, name, DIR_FLAGS, 0, &inner.fd, NULL);
    if (err == ERR_NOT_FOUND)
        return; /* removed meanwhile */
    if (err == ERR_DENIED && is_strange(listing->dir, top, name, S_IFDIR)) {
        see_odd(listing);
        return;
    }
    memcpy(inner.path + OBJECT_PATH_LEAF_AT, name, 2);
    inner.path[OBJECT_PATH_FILE_AT - 1] = '/';
    inner.err = err;
    if (err == ERR_OK) {
        err = file_list(listing->dir->fs, inner.fd, see_file, &inner, NULL);
        file_close(listing->dir->fs, &inner.fd);
    }
    if (err != ERR_OK || inner.err != ERR_OK)
        listing->err = err != ERR_OK ? err : inner.err;
}

enum err ssd_dir_list(const struct ssd_dir *dir, unsigned top, ssd_dir_fn fn, void *arg,
                      struct errinfo *info)
{
    struct listing listing = {.dir = dir, .fn = fn, .arg = arg};
    char name[TOP_NAME_BYTES];

    assert(top < SSD_DIR_TOPS);
    snprintf(name, TOP_NAME_BYTES, "%02x", top);
    memcpy(listing.path, name, 2);
    listing.path[OBJECT_PATH_LEAF_AT - 1] = '/';
    enum err err = file_open_at(dir->fs, dir->root, name, DIR_FLAGS, 0, &listing.fd, info);
    if (err == ERR_NOT_FOUND)
        return ERR_OK;
    if (err == ERR_DENIED && is_strange(dir, dir->root, name, S_IFDIR)) {
        see_odd(&listing); /* nothing below it is ours */
        return ERR_OK;
    }
    TRY(err);
    err = file_list(dir->fs, listing.fd, see_leaf, &listing, info);
    file_close(dir->fs, &listing.fd);
    if (err == ERR_OK && listing.err != ERR_OK)
        err = err_set(info, listing.err, "list %s: %s", name, err_sentence(listing.err));
    return err;
}

static void see_top(const char *name, unsigned char d_type, void *arg)
{
    bool *tops = arg;

    if (is_byte_name(name) && (d_type == DT_DIR || d_type == DT_UNKNOWN))
        tops[strtoul(name, NULL, 16)] = true;
}

enum err ssd_dir_list_tops(const struct ssd_dir *dir, bool tops[SSD_DIR_TOPS], struct errinfo *info)
{
    memset(tops, 0, SSD_DIR_TOPS * sizeof(tops[0]));
    return file_list(dir->fs, dir->root, see_top, tops, info);
}

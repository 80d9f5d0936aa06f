/*
 * disk_model.c: inodes, names and handles in arrays, and a log of what was done to them.
 *
 *      inodes[0]      the root: where AT_FDCWD points
 *      inode          a file's bytes, or a directory's names; a number that is never used again
 *      event          WRITE inode, offset, bytes | SIZE inode, length | ENTER dir, name, inode | LEAVE dir, name | SYNC inode
 *
 * A crash builds the inodes anew from the log: first what was synced, then what the power failure
 * let through. A rename is an ENTER and a LEAVE, which is how it can be half done. Times are not
 * part of the log: a crashed disk has those of the last moment.
 */
#include "support/disk_model.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "support/test.h"

enum { SECTOR = 512, NAME_BYTES = 80, FD_FIRST = 1 << 20, FDS_MAX = 1024, ROOT = 0 };

#define FREE_BYTES (UINT64_C(1) << 40)

struct name {
    char text[NAME_BYTES];
    uint32_t inode;
};

struct inode {
    bool is_dir;
    bool removed; /* a directory that an rmdir took */
    unsigned char *data;
    size_t len, cap;
    struct name *names;
    size_t names_count, names_cap;
    uint64_t wall_ns;
    int locked_by; /* handle, or FILE_NO */
};

enum event_kind { EVENT_WRITE, EVENT_SIZE, EVENT_ENTER, EVENT_LEAVE, EVENT_SYNC };

struct event {
    enum event_kind kind;
    uint32_t inode; /* the file, or the directory */
    uint32_t child;
    uint64_t offset; /* or the size */
    size_t len;
    unsigned char *data;
    char name[NAME_BYTES];
};

struct disk_model {
    struct file_sys sys;
    struct lock lock;
    struct inode *inodes;
    size_t inodes_count, inodes_cap;
    struct event *events;
    size_t events_count, events_cap;
    size_t events_base;   /* those that describe what it was made with */
    int handles[FDS_MAX]; /* inode + 1; 0: free */
};

/* ---- growing ---- */

/* Room for one more; `array` may move. */
static void *grow(void *array, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return array;
    *cap = *cap ? 2 * *cap : 16;
    array = realloc(array, *cap * size);
    assert(array != NULL);
    return array;
}

static uint32_t add_inode(struct disk_model *disk, bool is_dir)
{
    disk->inodes =
        grow(disk->inodes, disk->inodes_count, &disk->inodes_cap, sizeof(disk->inodes[0]));
    disk->inodes[disk->inodes_count] = (struct inode){
        .is_dir = is_dir, .locked_by = FILE_NO, .wall_ns = clock_wall_ns(clock_real())};
    return (uint32_t)disk->inodes_count++;
}

static struct event *add_event(struct disk_model *disk, enum event_kind kind, uint32_t inode)
{
    disk->events =
        grow(disk->events, disk->events_count, &disk->events_cap, sizeof(disk->events[0]));
    struct event *event = &disk->events[disk->events_count++];
    *event = (struct event){.kind = kind, .inode = inode};
    return event;
}

/* ---- bytes and names, without a log ---- */

static void set_size(struct inode *inode, size_t len)
{
    if (len > inode->cap) {
        inode->cap = len + len / 2;
        inode->data = realloc(inode->data, inode->cap);
        assert(inode->data != NULL);
    }
    if (len > inode->len)
        memset(inode->data + inode->len, 0, len - inode->len);
    inode->len = len;
}

static void set_bytes(struct inode *inode, size_t offset, const void *data, size_t len)
{
    if (offset + len > inode->len)
        set_size(inode, offset + len);
    if (len > 0)
        memcpy(inode->data + offset, data, len);
}

static struct name *find_name(const struct inode *dir, const char *name)
{
    for (size_t i = 0; i < dir->names_count; i++)
        if (strcmp(dir->names[i].text, name) == 0)
            return &dir->names[i];
    return NULL;
}

static void set_name(struct inode *dir, const char *name, uint32_t inode)
{
    struct name *there = find_name(dir, name);

    if (there == NULL) {
        dir->names = grow(dir->names, dir->names_count, &dir->names_cap, sizeof(dir->names[0]));
        there = &dir->names[dir->names_count++];
    }
    *there = (struct name){.inode = inode};
    memcpy(there->text, name, strlen(name) + 1);
}

static void unset_name(struct inode *dir, const char *name)
{
    struct name *there = find_name(dir, name);

    if (there != NULL)
        *there = dir->names[--dir->names_count];
}

/* ---- the same, with a log ---- */

static void do_write(struct disk_model *disk, uint32_t inode, const void *data, size_t len,
                     uint64_t offset)
{
    struct event *event = add_event(disk, EVENT_WRITE, inode);

    event->offset = offset;
    event->len = len;
    event->data = malloc(len + 1);
    assert(event->data != NULL);
    memcpy(event->data, data, len);
    set_bytes(&disk->inodes[inode], offset, data, len);
}

static void do_size(struct disk_model *disk, uint32_t inode, uint64_t len)
{
    add_event(disk, EVENT_SIZE, inode)->offset = len;
    set_size(&disk->inodes[inode], len);
}

static void do_enter(struct disk_model *disk, uint32_t dir, const char *name, uint32_t child)
{
    struct event *event = add_event(disk, EVENT_ENTER, dir);

    assert(strlen(name) < NAME_BYTES && strchr(name, '/') == NULL);
    event->child = child;
    memcpy(event->name, name, strlen(name) + 1);
    set_name(&disk->inodes[dir], name, child);
}

static void do_leave(struct disk_model *disk, uint32_t dir, const char *name)
{
    struct event *event = add_event(disk, EVENT_LEAVE, dir);

    memcpy(event->name, name, strlen(name) + 1);
    unset_name(&disk->inodes[dir], name);
}

/* ---- handles ---- */

static uint32_t inode_of(const struct disk_model *disk, int fd)
{
    if (fd == AT_FDCWD)
        return ROOT;
    assert(fd >= FD_FIRST && fd < FD_FIRST + FDS_MAX && disk->handles[fd - FD_FIRST] > 0);
    return (uint32_t)disk->handles[fd - FD_FIRST] - 1;
}

static int new_handle(struct disk_model *disk, uint32_t inode)
{
    for (int i = 0; i < FDS_MAX; i++)
        if (disk->handles[i] == 0) {
            disk->handles[i] = (int)inode + 1;
            return FD_FIRST + i;
        }
    return -EMFILE;
}

/* ---- the table; each of these has the lock ---- */

static int open_locked(struct disk_model *disk, int dir, const char *name, int flags)
{
    uint32_t parent = inode_of(disk, dir);
    struct name *there = find_name(&disk->inodes[parent], name);

    if (there == NULL) {
        if ((flags & O_CREAT) == 0 || disk->inodes[parent].removed)
            return -ENOENT;
        uint32_t inode = add_inode(disk, false);
        do_enter(disk, parent, name, inode);
        return new_handle(disk, inode);
    }
    uint32_t inode = there->inode;
    if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0)
        return -EEXIST;
    if ((flags & O_DIRECTORY) != 0 && !disk->inodes[inode].is_dir)
        return -ENOTDIR;
    if ((flags & O_ACCMODE) != O_RDONLY && disk->inodes[inode].is_dir)
        return -EISDIR;
    if ((flags & O_TRUNC) != 0)
        do_size(disk, inode, 0);
    return new_handle(disk, inode);
}

static int rename_locked(struct disk_model *disk, int from_dir, const char *from, int to_dir,
                         const char *to)
{
    uint32_t source = inode_of(disk, from_dir), target = inode_of(disk, to_dir);
    struct name *there = find_name(&disk->inodes[source], from);

    if (there == NULL || disk->inodes[target].removed)
        return -ENOENT;
    do_enter(disk, target, to, there->inode);
    do_leave(disk, source, from);
    return 0;
}

static int unlink_locked(struct disk_model *disk, int dir, const char *name, bool is_dir)
{
    uint32_t parent = inode_of(disk, dir);
    struct name *there = find_name(&disk->inodes[parent], name);

    if (there == NULL)
        return -ENOENT;
    struct inode *inode = &disk->inodes[there->inode];
    if (inode->is_dir != is_dir)
        return is_dir ? -ENOTDIR : -EISDIR;
    if (inode->names_count > 0)
        return -ENOTEMPTY;
    inode->removed = is_dir;
    do_leave(disk, parent, name);
    return 0;
}

static int mkdir_locked(struct disk_model *disk, int dir, const char *name)
{
    uint32_t parent = inode_of(disk, dir);

    if (find_name(&disk->inodes[parent], name) != NULL)
        return -EEXIST;
    if (disk->inodes[parent].removed)
        return -ENOENT;
    uint32_t inode = add_inode(disk, true);
    do_enter(disk, parent, name, inode);
    return 0;
}

static int close_locked(struct disk_model *disk, int fd)
{
    struct inode *inode = &disk->inodes[inode_of(disk, fd)];

    if (inode->locked_by == fd)
        inode->locked_by = FILE_NO;
    disk->handles[fd - FD_FIRST] = 0;
    return 0;
}

static ssize_t read_locked(struct disk_model *disk, int fd, void *buf, size_t len, off_t offset)
{
    const struct inode *inode = &disk->inodes[inode_of(disk, fd)];
    size_t at = (size_t)offset;

    if (at >= inode->len)
        return 0;
    len = MIN(len, inode->len - at);
    memcpy(buf, inode->data + at, len);
    return (ssize_t)len;
}

static ssize_t write_locked(struct disk_model *disk, int fd, const void *buf, size_t len,
                            off_t offset)
{
    do_write(disk, inode_of(disk, fd), buf, len, (uint64_t)offset);
    return (ssize_t)len;
}

static int size_locked(struct disk_model *disk, int fd, off_t len)
{
    do_size(disk, inode_of(disk, fd), (uint64_t)len);
    return 0;
}

static int allocate_locked(struct disk_model *disk, int fd, off_t len)
{
    uint32_t inode = inode_of(disk, fd);

    if ((size_t)len > disk->inodes[inode].len)
        do_size(disk, inode, (uint64_t)len);
    return 0;
}

static int sync_locked(struct disk_model *disk, int fd)
{
    (void)add_event(disk, EVENT_SYNC, inode_of(disk, fd));
    return 0;
}

static int stat_inode(const struct inode *inode, uint32_t number, struct stat *st)
{
    *st = (struct stat){.st_ino = number + 1,
                        .st_mode = inode->is_dir ? S_IFDIR | 0700 : S_IFREG | 0600,
                        .st_nlink = 1,
                        .st_uid = geteuid(),
                        .st_size = (off_t)inode->len,
                        .st_blocks = (blkcnt_t)((inode->len + 4095) / 4096 * 8)};
    st->st_mtim.tv_sec = (time_t)(inode->wall_ns / NS_PER_S);
    st->st_mtim.tv_nsec = (long)(inode->wall_ns % NS_PER_S);
    return 0;
}

static int stat_locked(struct disk_model *disk, int fd, struct stat *st)
{
    uint32_t inode = inode_of(disk, fd);

    return stat_inode(&disk->inodes[inode], inode, st);
}

static int stat_at_locked(struct disk_model *disk, int dir, const char *name, struct stat *st)
{
    const struct name *there = find_name(&disk->inodes[inode_of(disk, dir)], name);

    return there == NULL ? -ENOENT : stat_inode(&disk->inodes[there->inode], there->inode, st);
}

static int take_lock_locked(struct disk_model *disk, int fd)
{
    struct inode *inode = &disk->inodes[inode_of(disk, fd)];

    if (inode->locked_by != FILE_NO && inode->locked_by != fd)
        return -EWOULDBLOCK;
    inode->locked_by = fd;
    return 0;
}

static int time_locked(struct disk_model *disk, int fd, uint64_t wall_ns)
{
    disk->inodes[inode_of(disk, fd)].wall_ns = wall_ns;
    return 0;
}

/* ---- the table ---- */

/* A wrapper: the lock around the function that does it. */
#define LOCKED(type, call)         \
    struct disk_model *disk = ctx; \
    lock_enter(&disk->lock);       \
    type result = call;            \
    lock_leave(&disk->lock);       \
    return result

static int model_openat(void *ctx, int dir, const char *name, int flags, mode_t mode)
{
    (void)mode;
    LOCKED(int, open_locked(disk, dir, name, flags));
}

static int model_close(void *ctx, int fd)
{
    LOCKED(int, close_locked(disk, fd));
}

static ssize_t model_pread(void *ctx, int fd, void *buf, size_t len, off_t offset)
{
    LOCKED(ssize_t, read_locked(disk, fd, buf, len, offset));
}

static ssize_t model_pwrite(void *ctx, int fd, const void *buf, size_t len, off_t offset)
{
    LOCKED(ssize_t, write_locked(disk, fd, buf, len, offset));
}

static int model_fsync(void *ctx, int fd)
{
    LOCKED(int, sync_locked(disk, fd));
}

static int model_ftruncate(void *ctx, int fd, off_t len)
{
    LOCKED(int, size_locked(disk, fd, len));
}

static int model_fallocate(void *ctx, int fd, off_t len)
{
    LOCKED(int, allocate_locked(disk, fd, len));
}

static int model_fstat(void *ctx, int fd, struct stat *st)
{
    LOCKED(int, stat_locked(disk, fd, st));
}

static int model_fstatat(void *ctx, int dir, const char *name, struct stat *st)
{
    LOCKED(int, stat_at_locked(disk, dir, name, st));
}

static int model_fstatvfs(void *ctx, int fd, struct statvfs *vfs)
{
    (void)ctx;
    (void)fd;
    *vfs = (struct statvfs){.f_bsize = 4096,
                            .f_frsize = 4096,
                            .f_blocks = FREE_BYTES / 4096,
                            .f_bfree = FREE_BYTES / 4096,
                            .f_bavail = FREE_BYTES / 4096};
    return 0;
}

static int model_renameat(void *ctx, int from_dir, const char *from, int to_dir, const char *to)
{
    LOCKED(int, rename_locked(disk, from_dir, from, to_dir, to));
}

static int model_unlinkat(void *ctx, int dir, const char *name, bool is_dir)
{
    LOCKED(int, unlink_locked(disk, dir, name, is_dir));
}

static int model_mkdirat(void *ctx, int dir, const char *name, mode_t mode)
{
    (void)mode;
    LOCKED(int, mkdir_locked(disk, dir, name));
}

static int model_lock(void *ctx, int fd, bool exclusive)
{
    (void)exclusive;
    LOCKED(int, take_lock_locked(disk, fd));
}

static int model_futimens(void *ctx, int fd, uint64_t wall_ns)
{
    LOCKED(int, time_locked(disk, fd, wall_ns));
}

/* From a copy: fn may change the directory. */
static int model_list(void *ctx, int dir,
                      void (*fn)(const char *name, unsigned char d_type, void *arg), void *arg)
{
    struct disk_model *disk = ctx;

    lock_enter(&disk->lock);
    const struct inode *inode = &disk->inodes[inode_of(disk, dir)];
    size_t count = inode->names_count;
    struct name *names = mem_alloc_array(count + 1, sizeof(*names));
    bool *dirs = mem_alloc_array(count + 1, sizeof(*dirs));
    for (size_t i = 0; i < count; i++) {
        names[i] = inode->names[i];
        dirs[i] = disk->inodes[names[i].inode].is_dir;
    }
    lock_leave(&disk->lock);
    for (size_t i = 0; i < count; i++)
        fn(names[i].text, dirs[i] ? DT_DIR : DT_REG, arg);
    mem_free(names);
    mem_free(dirs);
    return 0;
}

static const struct file_ops model_ops = {
    .openat = model_openat,
    .close = model_close,
    .pread = model_pread,
    .pread_cached = model_pread,
    .pwrite = model_pwrite,
    .fsync = model_fsync,
    .ftruncate = model_ftruncate,
    .fallocate = model_fallocate,
    .fstat = model_fstat,
    .fstatat = model_fstatat,
    .fstatvfs = model_fstatvfs,
    .renameat = model_renameat,
    .unlinkat = model_unlinkat,
    .mkdirat = model_mkdirat,
    .lock = model_lock,
    .futimens = model_futimens,
    .list = model_list,
};

/* ---- its life ---- */

static struct disk_model *create_empty(void)
{
    struct disk_model *disk = mem_alloc(sizeof(*disk));

    disk->sys = (struct file_sys){.ops = &model_ops, .ctx = disk};
    lock_init(&disk->lock, "disk", LOCK_RANK_TEST_HIGH);
    return disk;
}

struct disk_model *disk_model_create(void)
{
    struct disk_model *disk = create_empty();

    (void)add_inode(disk, true);
    return disk;
}

void disk_model_destroy(struct disk_model **disk)
{
    struct disk_model *old = *disk;

    if (old == NULL)
        return;
    for (size_t i = 0; i < old->inodes_count; i++) {
        free(old->inodes[i].data);
        free(old->inodes[i].names);
    }
    for (size_t i = 0; i < old->events_count; i++)
        free(old->events[i].data);
    free(old->inodes);
    free(old->events);
    lock_fini(&old->lock);
    mem_free(old);
    *disk = NULL;
}

const struct file_sys *disk_model_sys(struct disk_model *disk)
{
    return &disk->sys;
}

size_t disk_model_events(struct disk_model *disk)
{
    lock_enter(&disk->lock);
    size_t count = disk->events_count;
    lock_leave(&disk->lock);
    return count;
}

/* ---- the power failure ---- */

struct crash {
    const struct disk_model *from;
    struct disk_model *to;
    size_t at;
    unsigned how;
    uint64_t random;
    size_t *synced; /* by inode: the events before this one are safe */
    size_t *loose;  /* data events that are not, in the order in which they reach the disk */
    size_t loose_count;
};

/* One in n, if this kind of harm is wanted. */
static bool strikes(struct crash *crash, enum disk_crash harm, uint64_t n)
{
    return (crash->how & harm) != 0 && test_random_below(&crash->random, n) == 0;
}

static bool is_data(const struct event *event)
{
    return event->kind == EVENT_WRITE || event->kind == EVENT_SIZE;
}

static void find_synced(struct crash *crash)
{
    for (size_t i = 0; i < crash->at; i++)
        if (crash->from->events[i].kind == EVENT_SYNC || i < crash->from->events_base)
            crash->synced[crash->from->events[i].inode] = i + 1;
    for (size_t i = 0; i < crash->at; i++)
        if (is_data(&crash->from->events[i]) && i >= crash->synced[crash->from->events[i].inode])
            crash->loose[crash->loose_count++] = i;
}

static void shuffle(struct crash *crash)
{
    for (size_t i = crash->loose_count; i > 1; i--) {
        size_t other = test_random_below(&crash->random, i), index = crash->loose[i - 1];
        crash->loose[i - 1] = crash->loose[other];
        crash->loose[other] = index;
    }
}

static void apply_whole(struct crash *crash, const struct event *event)
{
    struct inode *inode = &crash->to->inodes[event->inode];

    if (event->kind == EVENT_SIZE)
        set_size(inode, event->offset);
    else
        set_bytes(inode, event->offset, event->data, event->len);
}

static void put_garbage(struct crash *crash, struct inode *inode, size_t at, size_t len)
{
    unsigned char garbage[SECTOR];

    for (size_t i = 0; i < sizeof(garbage); i += 8) {
        uint64_t word = test_random(&crash->random);
        memcpy(garbage + i, &word, sizeof(word));
    }
    set_bytes(inode, at, garbage, len);
}

/* Sector by sector, as the disk does it. */
static void apply_sectors(struct crash *crash, const struct event *event, bool torn, bool garbage)
{
    struct inode *inode = &crash->to->inodes[event->inode];

    for (size_t done = 0; done < event->len;) {
        size_t at = event->offset + done;
        size_t len = MIN(event->len - done, SECTOR - at % SECTOR);
        if (garbage && test_random_below(&crash->random, 4) == 0)
            put_garbage(crash, inode, at, len);
        else if (!torn || test_random_below(&crash->random, 2) == 0)
            set_bytes(inode, at, event->data + done, len);
        done += len;
    }
}

static void apply_loose(struct crash *crash, const struct event *event)
{
    if (strikes(crash, DISK_CRASH_DROP, 8)) {
        if (event->kind == EVENT_WRITE && strikes(crash, DISK_CRASH_DROP, 2)) /* the size came */
            set_bytes(&crash->to->inodes[event->inode], event->offset + event->len, NULL, 0);
        return;
    }
    bool torn = strikes(crash, DISK_CRASH_TEAR, 8), garbage = strikes(crash, DISK_CRASH_GARBAGE, 8);
    if (event->kind == EVENT_WRITE && (torn || garbage))
        apply_sectors(crash, event, torn, garbage);
    else
        apply_whole(crash, event);
}

static void apply_data(struct crash *crash)
{
    for (size_t i = 0; i < crash->at; i++) {
        const struct event *event = &crash->from->events[i];
        if (is_data(event) && i < crash->synced[event->inode])
            apply_whole(crash, event);
    }
    if ((crash->how & DISK_CRASH_REORDER) != 0)
        shuffle(crash);
    for (size_t i = 0; i < crash->loose_count; i++)
        apply_loose(crash, &crash->from->events[crash->loose[i]]);
}

static void apply_names(struct crash *crash)
{
    for (size_t i = 0; i < crash->at; i++) {
        const struct event *event = &crash->from->events[i];
        bool name = event->kind == EVENT_ENTER || event->kind == EVENT_LEAVE;
        if (!name || (i >= crash->synced[event->inode] && strikes(crash, DISK_CRASH_NAMES, 16)))
            continue;
        struct inode *dir = &crash->to->inodes[event->inode];
        if (event->kind == EVENT_ENTER)
            set_name(dir, event->name, event->child);
        else
            unset_name(dir, event->name);
    }
}

/* The state of the new disk as its own log's beginning, all of it safe. */
static void describe(struct disk_model *disk)
{
    for (uint32_t i = 0; i < disk->inodes_count; i++) {
        struct inode *inode = &disk->inodes[i];
        if (inode->len > 0)
            do_write(disk, i, inode->data, inode->len, 0);
        for (size_t n = 0; n < inode->names_count; n++) {
            struct name name = inode->names[n];
            do_enter(disk, i, name.text, name.inode);
        }
    }
    disk->events_base = disk->events_count;
}

struct disk_model *disk_model_crash(struct disk_model *disk, size_t at, unsigned how, uint64_t seed)
{
    struct crash crash = {.from = disk, .to = create_empty(), .how = how, .random = seed};

    lock_enter(&disk->lock);
    assert(at <= disk->events_count);
    crash.at = MAX(at, disk->events_base);
    crash.synced = mem_alloc_array(disk->inodes_count, sizeof(crash.synced[0]));
    crash.loose = mem_alloc_array(crash.at + 1, sizeof(crash.loose[0]));
    for (size_t i = 0; i < disk->inodes_count; i++) {
        uint32_t inode = add_inode(crash.to, disk->inodes[i].is_dir);
        crash.to->inodes[inode].wall_ns = disk->inodes[i].wall_ns;
    }
    find_synced(&crash);
    apply_data(&crash);
    apply_names(&crash);
    lock_leave(&disk->lock);
    describe(crash.to);
    mem_free(crash.synced);
    mem_free(crash.loose);
    return crash.to;
}

/*
 * doctor_disk.c: the folders that a server would use: whether they can be, by whom else, and how
 * fast their disk is.
 *
 * Nothing is left behind: what is written for measuring has no name (O_TMPFILE). A folder that is
 * not there yet is not made; the nearest one above it that is there is looked at instead, on whose
 * disk it would come to lie.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/doctor.h"
#include "cli/folders.h"

/* Enough to see a disk behind its cache, little enough for every disk: PIECE at a time, and not
 * longer than MEASURE_NS each way. */
enum { PIECE = 1 << 20, ALIGNMENT = 4096, SLOW_BYTES_PER_S = 100 << 20 };

#define MEASURE_NS (2 * NS_PER_S)

/* ---- permissions ---- */

/* The folder, or the nearest above it that is there; in `out`. */
static bool nearest_folder(const char *path, char out[PATH_MAX], bool *exists)
{
    struct stat st;

    snprintf(out, PATH_MAX, "%s", path);
    *exists = true;
    while (stat(out, &st) != 0) {
        char *slash = strrchr(out, '/');
        *exists = false;
        if (slash == NULL || slash == out)
            return false;
        *slash = '\0';
    }
    return S_ISDIR(st.st_mode);
}

/* False: it cannot be used, and that was said. `what` is "state" or "cache", `option` how another
 * one is chosen. */
static bool check_access(struct doctor *doctor, const char *what, const char *path,
                         const char *option, char folder[PATH_MAX])
{
    struct stat st;
    bool exists;

    if (!nearest_folder(path, folder, &exists)) {
        doctor_say(doctor, VERDICT_FAIL, what, "%s is not a folder: choose another one with %s",
                   path, option);
        return false;
    }
    if (access(folder, W_OK | X_OK) != 0) {
        doctor_say(doctor, VERDICT_FAIL, what,
                   "%s is not writable: run `chown %u %s`, or choose another one with %s", folder,
                   (unsigned)geteuid(), folder, option);
        return false;
    }
    if (!exists) {
        doctor_say(doctor, VERDICT_OK, what, "%s (created by the first `hearth serve`)", path);
        return true;
    }
    if (stat(folder, &st) == 0 && (st.st_mode & 022) != 0) {
        doctor_say(doctor, VERDICT_WARN, what, "%s is writable by other users: run `chmod 700 %s`",
                   path, path);
        return true;
    }
    doctor_say(doctor, VERDICT_OK, what, "%s", path);
    return true;
}

/* Who reads it can make objects that are believed. */
static void check_key(struct doctor *doctor, const char *state)
{
    const char *path = arena_printf(doctor->cli->arena, "%s/%s", state, folders_key_name);
    struct stat st;

    if (path == NULL || stat(path, &st) != 0)
        return;
    if ((st.st_mode & 077) != 0)
        doctor_say(doctor, VERDICT_FAIL, "key", "%s is readable by other users: run `chmod 600 %s`",
                   path, path);
    else if (st.st_size != HASH256_BYTES)
        doctor_say(doctor, VERDICT_WARN, "key",
                   "%s is damaged: the next `hearth serve` creates a new one and starts with an "
                   "empty cache",
                   path);
    else
        doctor_say(doctor, VERDICT_OK, "key", "%s", path);
}

/* ---- room ---- */

static void check_room(struct doctor *doctor, int dir)
{
    const struct file_sys *fs = doctor->cli->setup->fs;
    char have[UNITS_TEXT_BYTES], wanted[UNITS_TEXT_BYTES];
    uint64_t bytes;

    if (file_free_bytes(fs, dir, &bytes, NULL) != ERR_OK)
        return;
    units_format_size(bytes, have);
    units_format_size(doctor->options->ssd_free, wanted);
    if (bytes <= doctor->options->ssd_free)
        doctor_say(doctor, VERDICT_WARN, "room",
                   "only %s free on the SSD cache's disk and --ssd-free is %s: nothing will be "
                   "stored. Free some space, lower --ssd-free, or choose another --ssd-dir",
                   have, wanted);
    else
        doctor_say(doctor, VERDICT_OK, "room",
                   "%s free on the SSD cache's disk, %s of it reserved by --ssd-free", have,
                   wanted);
}

/* ---- speed ---- */

struct measure {
    const struct file_sys *fs;
    struct clock *clock;
    int fd;
    char *piece;
    uint64_t bytes_max, bytes;
    double write_s, read_s;
    bool direct;
};

static double seconds_since(const struct measure *measure, uint64_t start_ns)
{
    return (double)(clock_mono_ns(measure->clock) - start_ns) / (double)NS_PER_S + 1e-9;
}

static enum err measure_write(struct measure *measure, struct errinfo *info)
{
    uint64_t start_ns = clock_mono_ns(measure->clock);

    hash_random(measure->piece, PIECE); /* a disk that compresses must not win */
    while (measure->bytes < measure->bytes_max &&
           clock_mono_ns(measure->clock) - start_ns < MEASURE_NS) {
        TRY(file_write_at(measure->fs, measure->fd, measure->piece, PIECE, measure->bytes, info));
        measure->bytes += PIECE;
    }
    TRY(file_sync(measure->fs, measure->fd, info));
    measure->write_s = seconds_since(measure, start_ns);
    return ERR_OK;
}

/* Past the page cache where the file system allows it; else without what is in it, as far as the
 * kernel is so kind. */
static enum err measure_read(struct measure *measure, struct errinfo *info)
{
    int flags = fcntl(measure->fd, F_GETFL);
    uint64_t at = 0;

    measure->direct = flags >= 0 && fcntl(measure->fd, F_SETFL, flags | O_DIRECT) == 0;
    (void)!posix_fadvise(measure->fd, 0, 0, POSIX_FADV_DONTNEED);
    uint64_t start_ns = clock_mono_ns(measure->clock);
    for (; at < measure->bytes && clock_mono_ns(measure->clock) - start_ns < MEASURE_NS;
         at += PIECE)
        TRY(file_read_at(measure->fs, measure->fd, measure->piece, PIECE, at, info));
    measure->read_s =
        seconds_since(measure, start_ns) * (double)measure->bytes / (double)MAX(at, 1);
    return ERR_OK;
}

static void say_speed(struct doctor *doctor, const struct measure *measure)
{
    double write_rate = (double)measure->bytes / measure->write_s,
           read_rate = (double)measure->bytes / measure->read_s;
    char write_text[UNITS_TEXT_BYTES], read_text[UNITS_TEXT_BYTES], bytes[UNITS_TEXT_BYTES];

    units_format_size((uint64_t)write_rate, write_text);
    units_format_size((uint64_t)read_rate, read_text);
    units_format_size(measure->bytes, bytes);
    if (read_rate < SLOW_BYTES_PER_S)
        doctor_say(doctor, VERDICT_WARN, "disk",
                   "writes %s/s, reads %s/s (tested with %s): recomputing may be faster. Choose a "
                   "faster disk with --ssd-dir, or --ssd-dir none",
                   write_text, read_text, bytes);
    else
        doctor_say(doctor, VERDICT_OK, "disk", "writes %s/s, reads %s/s (tested with %s)",
                   write_text, read_text, bytes);
    if (measure->direct)
        doctor_say(doctor, VERDICT_OK, "O_DIRECT", "works on the cache's disk");
    else
        doctor_say(doctor, VERDICT_WARN, "O_DIRECT",
                   "is not supported by the SSD cache's file system: reads go through the page "
                   "cache. ext4, XFS and Btrfs support it");
}

static void check_speed(struct doctor *doctor, int dir)
{
    struct measure measure = {.fs = doctor->cli->setup->fs,
                              .clock = doctor->cli->setup->clock,
                              .fd = FILE_NO,
                              .bytes_max = doctor->options->disk_bytes};
    struct errinfo info = {0};

    if (measure.bytes_max == 0)
        return;
    measure.piece = mem_try_alloc_aligned(ALIGNMENT, PIECE);
    if (measure.piece == NULL)
        return;
    enum err err = file_open_at(measure.fs, dir, ".", O_RDWR | O_TMPFILE, 0600, &measure.fd, &info);
    if (err == ERR_OK)
        err = measure_write(&measure, &info);
    if (err == ERR_OK)
        err = measure_read(&measure, &info);
    if (err == ERR_OK)
        say_speed(doctor, &measure);
    else if (err == ERR_NO_SPACE)
        doctor_say(doctor, VERDICT_FAIL, "disk",
                   "is full: free some space, or choose another --ssd-dir");
    else
        doctor_say(doctor, VERDICT_WARN, "disk", "its speed could not be measured: %s", info.text);
    file_close(measure.fs, &measure.fd);
    mem_free(measure.piece);
}

/* ---- public ---- */

void doctor_check_folders(struct doctor *doctor)
{
    const struct file_sys *fs = doctor->cli->setup->fs;
    const char *state = folders_state(doctor->cli, doctor->options->state_dir);
    const char *cache = folders_ssd(doctor->cli, doctor->options->ssd_dir);
    char folder[PATH_MAX];
    int dir;

    if (state == NULL)
        doctor_say(doctor, VERDICT_WARN, "state",
                   "no home folder: nothing will survive a restart. Set --state-dir");
    else if (check_access(doctor, "state", state, "--state-dir", folder))
        check_key(doctor, state);
    if (cache == NULL) {
        doctor_say(doctor, VERDICT_OK, "cache", "in memory only");
        return;
    }
    if (!check_access(doctor, "cache", cache, "--ssd-dir", folder) ||
        file_open_dir(fs, folder, false, &dir, NULL) != ERR_OK)
        return;
    check_room(doctor, dir);
    check_speed(doctor, dir);
    file_close(fs, &dir);
}

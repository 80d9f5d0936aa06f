/*
 * doctor.c: `hearth doctor`: checks this machine and hearth's settings, and reports problems.
 *
 * Each check prints one line: ok, warn or FAIL, with advice for the latter two. The exit status
 * is 1 when something failed. Folders and port are those that `hearth serve` would use with the
 * same settings; nothing is changed, and measurements are bounded.
 */
#include <assert.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/sysinfo.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/config.h"
#include "cli/remote.h"
#include "engine/rpc.h"
#include "engine/backend.h"
#include "engine/engine.h"
#include "engine/host_memory.h"
#include "engine/host_register.h"
#include "engine/worker_memory.h"
#include "http/listen.h"
#include "version.h"

struct doctor_options {
    const char *backends, *ssd_dir, *state_dir, *host;
    uint64_t port, ssd_free, disk_bytes;
};

struct doctor {
    struct cli *cli;
    struct doctor_options options; /* settings of [serve] included */
    int failures;
};

/* Warnings and failures say what to do. */
enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL };

enum {
    DEVICES_MAX = 16,
    FILES_WANTED = 1024,
    SYSTEM_FILE_BYTES_MAX = 4096,
    ANSWER_MS = 1000,
    PIN_BYTES = 64 << 20, /* as the arenas of the RAM cache */
    YEAR_MIN = 2026,      /* a clock set before this program was written is wrong */
};

#define AT(field) offsetof(struct doctor_options, field)

static const struct option_desc options_table[] = {
    {"backends", 0, OPTION_TEXT, AT(backends), .value = "DIR", .group = "Checks",
     .help = "Folder with ggml's backends, instead of the built-in one."},
    {"ssd-dir", 0, OPTION_TEXT, AT(ssd_dir), .value = "DIR",
     .help = "Folder of the SSD cache, as for `hearth serve`; `none` skips it."},
    {"ssd-free", 0, OPTION_SIZE, AT(ssd_free), .value = "SIZE", .initial = "8GiB",
     .help = "Disk space to leave free, as for `hearth serve`."},
    {"state-dir", 0, OPTION_TEXT, AT(state_dir), .value = "DIR",
     .help = "Folder for the installation key, as for `hearth serve`."},
    {"host", 0, OPTION_TEXT, AT(host), .value = "ADDRESS", .initial = "127.0.0.1",
     .help = "Address the server would listen on."},
    {"port", 0, OPTION_UINT, AT(port), .value = "N", .initial = "4327", .max = 65535,
     .help = "Port the server would listen on."},
    {"disk-test", 0, OPTION_SIZE, AT(disk_bytes), .value = "SIZE", .initial = "64MiB",
     .max = UINT64_C(64) << 30, .help = "Bytes to write for a disk speed test; 0 = skip the test."},
};

/* "ok    disk       ..." False: it is a failure. */
PRINTF(4, 5)
static bool doctor_say(struct doctor *doctor, enum verdict verdict, const char *what,
                       const char *fmt, ...)
{
    static const char *const names[] = {"ok", "warn", "FAIL"};
    va_list args;

    doctor->failures += verdict == VERDICT_FAIL;
    fprintf(doctor->cli->out, "%-4s  %-9s  ", names[verdict], what);
    va_start(args, fmt);
    vfprintf(doctor->cli->out, fmt, args);
    va_end(args);
    fputc('\n', doctor->cli->out);
    fflush(doctor->cli->out); /* some checks take a moment */
    return verdict != VERDICT_FAIL;
}

/* ---- program and libraries ---- */

static void check_libraries(struct doctor *doctor)
{
    doctor_say(doctor, VERDICT_OK, "hearth", "%s (commit %s, %s build)", HEARTH_VERSION,
               HEARTH_COMMIT, HEARTH_VARIANT);
    doctor_say(doctor, VERDICT_OK, "libllama", "%s from %s", engine_library_version(),
               engine_library_origin());
    doctor_say(doctor, VERDICT_OK, "libggml", "%s from %s", engine_ggml_version(),
               engine_ggml_origin());
    doctor_say(doctor, VERDICT_OK, "BLAKE3", "%s from %s", blake3_version(),
               sysinfo_origin((void *)blake3_version));
    doctor_say(doctor, VERDICT_OK, "libsodium", "%s from %s", sodium_version_string(),
               sysinfo_origin((void *)sodium_version_string));
    doctor_say(doctor, VERDICT_OK, "libuv", "%s from %s", uv_version_string(),
               sysinfo_origin((void *)uv_version_string));
}

/* ---- GPUs ---- */

static bool exists(const char *pattern)
{
    glob_t found;
    bool any = glob(pattern, 0, NULL, &found) == 0;

    globfree(&found);
    return any;
}

/* A plug-in in the folder that is not in use: the loader's own words, or that it is of another
 * release. */
static void check_plugin(struct doctor *doctor, const char *path)
{
    const char *file = strrchr(path, '/') + 1;
    const char *from = file + strlen("libggml-"); /* "cpu-haswell.so", "vulkan.so" */
    char name[32];

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(from, "-."), from);
    /* A folder of libraries may hold the plug-ins as well. */
    if (strcmp(name, "cpu") == 0 || strcmp(name, "base") == 0 || backend_is_loaded(name))
        return;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        doctor_say(doctor, VERDICT_WARN, "plug-in", "%s cannot be loaded: %s", file, dlerror());
    else
        doctor_say(doctor, VERDICT_WARN, "plug-in",
                   "%s is of another release: it has to be built for ggml %s", file,
                   engine_ggml_version());
    if (handle != NULL)
        dlclose(handle);
}

static void check_plugins(struct doctor *doctor, const char *dir)
{
    const char *pattern = arena_printf(doctor->cli->arena, "%s/libggml-*.so", dir);
    glob_t found;

    if (pattern != NULL && glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            check_plugin(doctor, found.gl_pathv[i]);
        globfree(&found);
    }
}

/* Cards that programs here may use, but no backend does. */
static void check_cards(struct doctor *doctor)
{
    bool nvidia = exists("/dev/nvidia[0-9]*");

    if (!nvidia && !exists("/dev/dri/renderD*"))
        return;
    if (!backend_is_loaded("vulkan") && !backend_is_loaded("cuda") && !backend_is_loaded("hip"))
        doctor_say(doctor, VERDICT_WARN, "card",
                   "%s has no backend and is not used: run `make GPU=vulkan`, or build llama.cpp "
                   "for it (docs/gpu.md)",
                   nvidia ? "an NVIDIA card" : "a card in /dev/dri");
    else if (nvidia && backend_is_loaded("vulkan"))
        doctor_say(doctor, VERDICT_WARN, "card",
                   "Vulkan's backend finds no device. Without a display NVIDIA's driver answers "
                   "through libEGL_nvidia.so.0: set VK_DRIVER_FILES to an ICD file that names it");
    else
        doctor_say(doctor, VERDICT_WARN, "card",
                   "its backend finds no device: is the card's driver installed?");
}

/* As an engine's process does: its driver is in use now, because memory was just pinned. */
static enum err register_shared(struct errinfo *info)
{
    struct worker_memory *memory = worker_memory_create();
    void *block = worker_memory_alloc(PIN_BYTES, memory);
    struct host_register *reg = NULL;

    enum err err = block != NULL ? host_register_open(&reg, info)
                                 : err_set(info, ERR_NOMEM, "there is no shared memory");
    if (err == ERR_OK)
        err = host_register_add(reg, block, PIN_BYTES, info);
    if (err == ERR_OK)
        host_register_remove(reg, block);
    host_register_close(&reg);
    worker_memory_free(block, memory);
    worker_memory_destroy(&memory);
    return err;
}

static void check_pinned(struct doctor *doctor)
{
    if (!host_memory_can_pin(doctor->options.backends)) {
        doctor_say(doctor, VERDICT_WARN, "pinned",
                   "this backend has no pinned memory: restores "
                   "from RAM are several times slower");
        return;
    }
    struct errinfo info = {0};
    void *block = host_memory_alloc(PIN_BYTES, NULL);
    if (block == NULL || host_memory_stats().plain > 0)
        doctor_say(doctor, VERDICT_WARN, "pinned",
                   "memory could not be pinned, so restores from RAM are several times slower: "
                   "raise the limit of locked memory (`ulimit -l unlimited`)");
    else if (register_shared(&info) == ERR_OK)
        doctor_say(doctor, VERDICT_OK, "pinned",
                   "memory for the RAM cache can be pinned, also with --isolate");
    else
        doctor_say(doctor, VERDICT_OK, "pinned",
                   "memory for the RAM cache can be pinned, but not with --isolate: %s", info.text);
    host_memory_free(block, NULL);
}

static void check_gpu(struct doctor *doctor, const struct engine_backend_info *device)
{
    if (!device->flash)
        doctor_say(doctor, VERDICT_WARN, "flash",
                   "%s has no flash attention: long prompts are slower and need more memory",
                   device->name);
}

static void check_devices(struct doctor *doctor)
{
    struct engine_backend_info list[DEVICES_MAX];
    const char *dir = engine_backends_dir(doctor->options.backends);
    size_t count = engine_backends(doctor->options.backends, list, DEVICES_MAX);

    if (count == 0) {
        doctor_say(doctor, VERDICT_FAIL, "backends",
                   "none in %s: no model can be loaded. Pass the right folder with --backends, or "
                   "run make again",
                   dir);
        return;
    }
    doctor_say(doctor, VERDICT_OK, "backends", "%s", dir);
    check_plugins(doctor, dir);
    if (rpc_is_here())
        doctor_say(doctor, VERDICT_OK, "rpc",
                   "models can be split over workers. RPC has no authentication and no encryption: "
                   "use it on a private network only, and without a disk cache in the workers");
    bool gpu = false;
    for (size_t i = 0; i < count && i < DEVICES_MAX; i++) {
        char free_text[UNITS_TEXT_BYTES], total_text[UNITS_TEXT_BYTES];
        doctor_say(doctor, VERDICT_OK, "device", "%s: %s, %s of %s free", list[i].name,
                   list[i].description, units_format_size(list[i].memory_free, free_text),
                   units_format_size(list[i].memory_total, total_text));
        if (list[i].gpu)
            check_gpu(doctor, &list[i]);
        gpu |= list[i].gpu;
    }
    if (gpu)
        check_pinned(doctor);
    else
        check_cards(doctor);
}

/* ---- machine ---- */

static void check_files(struct doctor *doctor)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    if (files.rlim_cur < FILES_WANTED)
        doctor_say(doctor, VERDICT_WARN, "files",
                   "limit of open files is %llu; raise it with `ulimit -n %d` for many clients",
                   (unsigned long long)files.rlim_cur, FILES_WANTED);
    else
        doctor_say(doctor, VERDICT_OK, "files", "%llu may be open at once",
                   (unsigned long long)files.rlim_cur);
}

/* GPU drivers lock the memory that they copy from; without a GPU nothing is locked here. */
static void check_locked(struct doctor *doctor)
{
    char bytes[UNITS_TEXT_BYTES];
    struct rlimit locked;

    if (getrlimit(RLIMIT_MEMLOCK, &locked) != 0)
        return;
    if (locked.rlim_cur == RLIM_INFINITY)
        doctor_say(doctor, VERDICT_OK, "memlock", "memory locking is unlimited");
    else
        doctor_say(doctor, VERDICT_OK, "memlock",
                   "limit of locked memory is %s; a GPU may need more (`ulimit -l unlimited`)",
                   units_format_size(locked.rlim_cur, bytes));
}

static void check_machine(struct doctor *doctor)
{
    char total[UNITS_TEXT_BYTES], available[UNITS_TEXT_BYTES];

    doctor_say(doctor, VERDICT_OK, "machine", "%u cores, %s of %s memory available",
               sysinfo_cores(), units_format_size(sysinfo_memory_available(), available),
               units_format_size(sysinfo_memory_total(), total));
    check_files(doctor);
    check_locked(doctor);
}

/* A small file of /sys, trimmed, in the arena; NULL when it is missing. Its reported size is
 * wrong. */
static const char *read_system(struct doctor *doctor, const char *path)
{
    const struct file_sys *fs = doctor->cli->setup->fs;
    char text[SYSTEM_FILE_BYTES_MAX];
    int fd;

    if (file_open_at(fs, AT_FDCWD, path, O_RDONLY, 0, &fd, NULL) != ERR_OK)
        return NULL;
    ssize_t got = fs->ops->pread(fs->ctx, fd, text, sizeof(text), 0);
    file_close(fs, &fd);
    return got > 0 ? arena_strdup(doctor->cli->arena, str_trim((struct str){text, (size_t)got}))
                   : NULL;
}

static void check_huge_pages(struct doctor *doctor)
{
    static const char path[] = "/sys/kernel/mm/transparent_hugepage/enabled";
    const char *text = read_system(doctor, path);

    if (text == NULL)
        doctor_say(doctor, VERDICT_WARN, "hugepages",
                   "not supported by this kernel: lookups in a large cache are slightly slower");
    else if (strstr(text, "[never]") != NULL)
        doctor_say(doctor, VERDICT_WARN, "hugepages",
                   "switched off: lookups in a large cache are slightly slower; run `echo madvise "
                   ">%s` as root",
                   path);
    else
        doctor_say(doctor, VERDICT_OK, "hugepages", "%s", text);
}

/* Ages on disk, daily write limits and log lines use wall time; intervals use the monotonic
 * clock, which is read often. */
static void check_clock(struct doctor *doctor)
{
    const char *source =
        read_system(doctor, "/sys/devices/system/clocksource/clocksource0/current_clocksource");
    time_t now = (time_t)(clock_wall_ns(doctor->cli->setup->clock) / NS_PER_S);
    struct tm utc;
    char date[32] = "?";

    if (gmtime_r(&now, &utc) != NULL)
        strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S UTC", &utc);
    if (utc.tm_year + 1900 < YEAR_MIN)
        doctor_say(doctor, VERDICT_WARN, "clock",
                   "is at %s: ages of cached objects will be wrong; set it with `timedatectl "
                   "set-ntp true`",
                   date);
    else if (source != NULL && (strcmp(source, "hpet") == 0 || strcmp(source, "acpi_pm") == 0))
        doctor_say(doctor, VERDICT_WARN, "clock",
                   "%s, from %s, which is slow to read: the kernel log says why it is not tsc",
                   date, source);
    else
        doctor_say(doctor, VERDICT_OK, "clock", "%s, from %s", date,
                   source != NULL ? source : "the system");
}

/* ---- settings and port ---- */

static const struct option_desc *find_option(const struct option_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->options[i].name, name) == 0)
            return &table->options[i];
    return NULL;
}

/* Settings of [serve] hold for options that were not given to the doctor. */
static void take_settings(struct doctor *doctor, const struct cli *serve)
{
    const struct option_table *table = &command_doctor.table;

    for (size_t i = 0; i < table->count; i++) {
        const struct option_desc *mine = &table->options[i],
                                 *its = find_option(serve->table, mine->name);
        if (its == NULL || doctor->cli->sources[i] != OPTION_FROM_TABLE)
            continue;
        assert(its->type == mine->type);
        memcpy((char *)&doctor->options + mine->offset, (const char *)serve->values + its->offset,
               mine->type == OPTION_TEXT ? sizeof(const char *) : sizeof(uint64_t));
    }
}

/* Takes the settings of `hearth serve`. Returns what is wrong with them, or NULL. */
static const char *read_settings(struct doctor *doctor)
{
    struct cli *cli = doctor->cli, serve = *cli, again;
    struct errinfo info = {0};

    if (cli->config_error != NULL)
        return cli->config_error;
    serve.command = &command_serve;
    if (cli_read_again(&serve, cli->arena, &again, &info) != ERR_OK)
        return arena_strdup(cli->arena, str_from(info.text));
    take_settings(doctor, &again);
    return NULL;
}

static void say_config(struct doctor *doctor, const char *problem)
{
    const char *config = doctor->cli->config;

    if (problem != NULL)
        doctor_say(doctor, VERDICT_FAIL, "config",
                   "%s: correct it, `hearth serve` does not start with it", problem);
    else
        doctor_say(doctor, VERDICT_OK, "config", "%s",
                   config != NULL ? config : "none; using options and environment only");
}

/* Which program uses the port, if it identifies itself. */
static void say_taken(struct doctor *doctor, const char *url)
{
    const struct remote_options options = {.url = url, .timeout_ns = ANSWER_MS * NS_PER_MS};
    yyjson_doc *doc = NULL;
    struct errinfo info = {0};
    struct remote remote;

    enum err err = remote_open(&remote, doctor->cli, &options, &info);
    if (err == ERR_OK)
        err = remote_ask_json(&remote, "/version", NULL, &doc, &info);
    const char *name = fields_text(yyjson_doc_get_root(doc), "name", "");
    if (err == ERR_OK && strcmp(name, "hearth") == 0)
        doctor_say(doctor, VERDICT_OK, "port", "hearth %s runs at %s",
                   fields_text(yyjson_doc_get_root(doc), "version", ""), url);
    else
        doctor_say(doctor, VERDICT_WARN, "port",
                   "%s is in use by another program: choose another --port", url);
    yyjson_doc_free(doc);
}

static void on_connection(uv_stream_t *stream, int status)
{
    (void)stream;
    (void)status;
}

/* Listens as the server would, and closes the socket at once. */
static enum err try_port(const char *host, uint16_t port, struct errinfo *info)
{
    uv_loop_t loop;
    uv_tcp_t tcp;
    uint16_t bound;

    if (uv_loop_init(&loop) != 0)
        return err_set(info, ERR_NOMEM, "no loop for a socket");
    enum err err = uv_tcp_init(&loop, &tcp) == 0 ? ERR_OK : err_set(info, ERR_NOMEM, "no socket");
    if (err == ERR_OK) {
        err = http_listen_tcp(&tcp, host, port, on_connection, &bound, info);
        uv_close((uv_handle_t *)&tcp, NULL);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    return err;
}

static void check_port(struct doctor *doctor)
{
    const char *host = doctor->options.host;
    unsigned port = (unsigned)doctor->options.port;
    bool literal = strchr(host, ':') != NULL;
    struct errinfo info = {0};

    if (str_ends(str_from(host), STR(".sock")) || port == 0)
        return;
    const char *url =
        arena_printf(doctor->cli->arena, literal ? "http://[%s]:%u" : "http://%s:%u", host, port);
    enum err err = try_port(host, (uint16_t)port, &info);
    if (err == ERR_OK && url != NULL)
        doctor_say(doctor, VERDICT_OK, "port", "%s is free", url);
    else if (err == ERR_BUSY && url != NULL)
        say_taken(doctor, url);
    else
        doctor_say(doctor, VERDICT_FAIL, "port", "%s: choose another --host or --port", info.text);
}

/* ---- folders of state and cache: permissions, room, O_DIRECT, speed ---- */

/* Enough to measure a disk beyond its cache, little enough for every disk: PIECE at a time, at
 * most MEASURE_NS each way. */
enum { PIECE = 1 << 20, ALIGNMENT = 4096, SLOW_BYTES_PER_S = 100 << 20 };

#define MEASURE_NS (2 * NS_PER_S)

/* ---- permissions ---- */

/* The folder, or its nearest existing parent; in `out`. */
static bool nearest_folder(const char *path, char out[PATH_MAX], bool *exists)
{
    struct stat st;

    snprintf(out, PATH_MAX, "%s", path);
    *exists = true;
    while (stat(out, &st) != 0) {
        char *slash = strrchr(out, '/');
        *exists = false;
        if (strcmp(out, "/") == 0 || strcmp(out, ".") == 0)
            return false;
        if (slash == NULL)
            snprintf(out, PATH_MAX, ".");
        else
            slash[slash == out] = '\0'; /* the root keeps its slash */
    }
    return S_ISDIR(st.st_mode);
}

/* False: it cannot be used, which has been reported. `what` is "state" or "cache", `option`
 * selects another one. */
static bool check_access(struct doctor *doctor, const char *what, const char *path,
                         const char *option, char folder[PATH_MAX])
{
    struct stat st;
    bool exists;

    if (!nearest_folder(path, folder, &exists))
        return doctor_say(doctor, VERDICT_FAIL, what,
                          "%s is not a folder: choose another one with %s", path, option);
    if (access(folder, W_OK | X_OK) != 0)
        return doctor_say(doctor, VERDICT_FAIL, what,
                          "%s is not writable: run `chown %u %s`, or choose another one with %s",
                          folder, (unsigned)geteuid(), folder, option);
    if (!exists)
        return doctor_say(doctor, VERDICT_OK, what, "%s (created by the first `hearth serve`)",
                          path);
    if (stat(folder, &st) == 0 && (st.st_mode & 022) != 0)
        return doctor_say(doctor, VERDICT_WARN, what,
                          "%s is writable by other users: run `chmod 700 %s`", path, path);
    return doctor_say(doctor, VERDICT_OK, what, "%s", path);
}

/* Anyone who can read the key can forge valid objects. */
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
    units_format_size(doctor->options.ssd_free, wanted);
    if (bytes <= doctor->options.ssd_free)
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

    /* random data: a disk that compresses must not look faster */
    hash_random(measure->piece, PIECE);
    while (measure->bytes < measure->bytes_max &&
           clock_mono_ns(measure->clock) - start_ns < MEASURE_NS) {
        TRY(file_write_at(measure->fs, measure->fd, measure->piece, PIECE, measure->bytes, info));
        measure->bytes += PIECE;
    }
    TRY(file_sync(measure->fs, measure->fd, info));
    measure->write_s = seconds_since(measure, start_ns);
    return ERR_OK;
}

/* Bypasses the page cache where the file system allows it; otherwise asks the kernel to drop the
 * cached pages. */
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
                              .bytes_max = doctor->options.disk_bytes};
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

static void check_folders(struct doctor *doctor)
{
    const struct file_sys *fs = doctor->cli->setup->fs;
    const char *state = folders_state(doctor->cli, doctor->options.state_dir);
    const char *cache = folders_ssd(doctor->cli, doctor->options.ssd_dir);
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

/* ---- the command ---- */

static enum cli_exit run(struct cli *cli, const void *options)
{
    struct doctor doctor = {.cli = cli, .options = *(const struct doctor_options *)options};
    const char *problem = read_settings(&doctor);
    check_libraries(&doctor);
    check_devices(&doctor);
    check_machine(&doctor);
    check_huge_pages(&doctor);
    check_clock(&doctor);
    say_config(&doctor, problem);
    check_port(&doctor);
    check_folders(&doctor);
    return doctor.failures == 0 ? CLI_EXIT_OK : CLI_EXIT_FAILURE;
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "Check this machine: libraries, devices, disk, ports.",
    .usage = "[options]",
    .table = {.command = "doctor", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct doctor_options),
    .reports_config = true,
    .run = run,
};

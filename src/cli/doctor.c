/*
 * doctor.c: `hearth doctor`: what hearth found on this machine, from where, and what is wrong with
 * it.
 *
 * Each check prints one line: ok, warn or FAIL, and for the latter two what to do. The exit status
 * is 1 when something failed. Folders and port are those that `hearth serve` would use with the
 * same settings; nothing is changed, and what is measured is bounded.
 */
#include "cli/doctor.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <uv.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/sysinfo.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/fields.h"
#include "cli/remote.h"
#include "engine/engine.h"
#include "http/listen.h"
#include "version.h"

enum {
    DEVICES_MAX = 16,
    FILES_WANTED = 1024,
    SYSTEM_FILE_BYTES_MAX = 4096,
    ANSWER_MS = 1000,
    YEAR_MIN = 2026, /* a clock that stands before this program was written is wrong */
};

#define AT(field) offsetof(struct doctor_options, field)

static const struct option_desc options_table[] = {
    {"backends", 0, OPTION_TEXT, AT(backends), .value = "DIR", .group = "What to look at",
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

void doctor_say(struct doctor *doctor, enum verdict verdict, const char *what, const char *fmt, ...)
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

static void check_devices(struct doctor *doctor)
{
    struct engine_backend_info list[DEVICES_MAX];
    const char *dir = engine_backends_dir(doctor->options->backends);
    size_t count = engine_backends(doctor->options->backends, list, DEVICES_MAX);

    if (count == 0) {
        doctor_say(doctor, VERDICT_FAIL, "backends",
                   "none in %s: no model can be loaded. Pass the right folder with --backends, or "
                   "run make again",
                   dir);
        return;
    }
    doctor_say(doctor, VERDICT_OK, "backends", "%s", dir);
    for (size_t i = 0; i < count && i < DEVICES_MAX; i++) {
        char free_text[UNITS_TEXT_BYTES], total_text[UNITS_TEXT_BYTES];
        doctor_say(doctor, VERDICT_OK, "device", "%s: %s, %s of %s free", list[i].name,
                   list[i].description, units_format_size(list[i].memory_free, free_text),
                   units_format_size(list[i].memory_total, total_text));
    }
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

/* Drivers of GPUs lock what they copy from; without one nothing is locked here. */
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

/* A small file of /sys, trimmed, in the arena; NULL when it is not there. Its size is not what it
 * says. */
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

/* Ages on disk, days of writing and log lines are of wall time; intervals of the monotonic one,
 * which is read often. */
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

static void check_config(struct doctor *doctor)
{
    const char *config = doctor->cli->config;

    doctor_say(doctor, VERDICT_OK, "config", "%s",
               config != NULL ? config : "none; using options and environment only");
}

/* Who is there, if he says so. */
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

/* Listens as the server would, and ends that at once. */
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
    const char *host = doctor->options->host;
    unsigned port = (unsigned)doctor->options->port;
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

/* ---- the command ---- */

static enum cli_exit run(struct cli *cli, const void *options)
{
    struct doctor doctor = {.cli = cli, .options = options};

    check_libraries(&doctor);
    check_devices(&doctor);
    check_machine(&doctor);
    check_huge_pages(&doctor);
    check_clock(&doctor);
    check_config(&doctor);
    check_port(&doctor);
    doctor_check_folders(&doctor);
    return doctor.failures == 0 ? CLI_EXIT_OK : CLI_EXIT_FAILURE;
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "Check this machine: libraries, devices, disk, ports.",
    .usage = "[options]",
    .table = {.command = "doctor", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct doctor_options),
    .run = run,
};

/*
 * soak_server.c: see soak_server.h. Sizes come from /proc: smaps_rollup for memory, since pages
 * that processes share (arenas of the cache, code) must count once.
 */
#include "support/soak_server.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "support/models.h"
#include "support/test.h"

enum { HARMED_MAX = 4096, DU_BLOCK = 512 };

/* Both servers cut prompts at the same places, or their bits would differ. */
#define COMMON                                                                   \
    "-a dense --pin-model hybrid --api-key anna:key-anna --api-key ben:key-ben " \
    "--api-key cleo:key-cleo --admin-key key-root -c 4096 --ubatch-size 128 --block-size 64"

/* ---- servers ---- */

/* One is loaded when it is first wanted, and the pinned one not before the server listens: until
 * then there are fewer threads and less memory. */
static void wait_for_model(const struct serve_proc *proc, const char *path)
{
    for (unsigned waited_ms = 0;; serve_proc_pause(proc, &waited_ms, path)) {
        struct http_answer answer;
        serve_proc_ask(proc, "GET", path, NULL, &answer);
        bool ready = strstr(buf_str(&answer.body), "\"state\":\"ready\"") != NULL;
        http_answer_fini(&answer);
        if (ready)
            return;
    }
}

static void load_models(const struct serve_proc *proc)
{
    struct http_answer answer;

    serve_proc_ask(proc, "POST", "/v1/models/dense/load", "{}", &answer);
    if (answer.status / 100 != 2)
        fail_msg("status %d: %s", answer.status, buf_str(&answer.body));
    http_answer_fini(&answer);
    wait_for_model(proc, "/v1/models/dense");
    wait_for_model(proc, "/v1/models/hybrid");
}

void soak_server_start(struct serve_proc *proc, const char *args)
{
    char all[sizeof(proc->args)];

    snprintf(all, sizeof(all), "-m hybrid=%s " COMMON " %s", test_model("qwen35"), args);
    serve_proc_start(proc, "qwen3", all);
    proc->headers = "Authorization: Bearer key-root\r\n";
    load_models(proc);
}

void soak_reference_start(struct serve_proc *proc)
{
    soak_server_start(proc, "--exact --no-cache --queue 4096");
}

/* ---- disk ---- */

const char *soak_ssd_dir(void)
{
    static char path[1024];

    snprintf(path, sizeof(path), "%s/ssd", test_dir());
    return path;
}

static uint64_t du_bytes;

static int add_blocks(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)path;
    (void)ftw;
    if (type == FTW_F)
        du_bytes += (uint64_t)st->st_blocks * DU_BLOCK;
    return 0;
}

uint64_t soak_ssd_bytes(void)
{
    du_bytes = 0;
    nftw(soak_ssd_dir(), add_blocks, 16, FTW_PHYS);
    return du_bytes;
}

static char *found[HARMED_MAX];
static size_t found_count;

static int note_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type == FTW_F && st->st_size > 0 && found_count < HARMED_MAX)
        found[found_count++] = strdup(path);
    return 0;
}

static void flip_bit(const char *path, uint64_t *seed)
{
    int fd = open(path, O_RDWR);
    struct stat st;
    unsigned char byte;

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
        off_t at = (off_t)test_random_below(seed, (uint64_t)st.st_size);
        if (pread(fd, &byte, 1, at) == 1) {
            byte ^= (unsigned char)(1u << test_random_below(seed, 8));
            if (pwrite(fd, &byte, 1, at) != 1)
                fail_msg("cannot write %s", path);
        }
    }
    if (fd >= 0)
        close(fd);
}

/* The server may delete it meanwhile: then nothing is harmed, which is no matter. */
bool soak_ssd_harm(uint64_t *seed)
{
    found_count = 0;
    nftw(soak_ssd_dir(), note_file, 16, FTW_PHYS);
    size_t count = found_count;
    const char *path = count > 0 ? found[test_random_below(seed, count)] : NULL;
    struct stat st;

    switch (path != NULL ? test_random_below(seed, 3) : 3) {
    case 0:
        flip_bit(path, seed);
        break;
    case 1:
        if (stat(path, &st) == 0 && truncate(path, st.st_size / 2) != 0)
            count = 0;
        break;
    case 2:
        unlink(path);
        break;
    default:
        break;
    }
    for (size_t i = 0; i < found_count; i++)
        free(found[i]);
    return count > 0;
}

/* ---- processes ---- */

static struct buf read_proc(const char *path)
{
    struct buf text;
    FILE *file = fopen(path, "r");
    char piece[4096];
    size_t got;

    buf_init(&text, 1 << 20);
    while (file != NULL && (got = fread(piece, 1, sizeof(piece), file)) > 0)
        buf_append(&text, piece, got);
    if (file != NULL)
        fclose(file);
    return text;
}

static size_t take_children(const char *path, pid_t *workers, size_t count)
{
    struct buf text = read_proc(path);
    char *rest = (char *)(uintptr_t)buf_str(&text);

    for (char *end; count < SOAK_WORKERS_MAX; rest = end) {
        long pid = strtol(rest, &end, 10);
        if (end == rest)
            break;
        workers[count++] = (pid_t)pid;
    }
    buf_fini(&text);
    return count;
}

/* A child is listed with the thread that started it. */
size_t soak_workers(const struct serve_proc *proc, pid_t workers[SOAK_WORKERS_MAX])
{
    char path[512];
    size_t count = 0;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)proc->pid);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        snprintf(path, sizeof(path), "/proc/%d/task/%.32s/children", (int)proc->pid, entry->d_name);
        if (entry->d_name[0] != '.')
            count = take_children(path, workers, count);
    }
    closedir(dir);
    return count;
}

static uint64_t field(const struct buf *text, const char *name)
{
    const char *at = strstr(buf_str(text), name);

    return at != NULL ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

/* A process that has just ended has no memory. */
static void add_memory(pid_t pid, uint64_t *own, uint64_t *all)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
    struct buf text = read_proc(path);
    *own += field(&text, "Private_Dirty:") + field(&text, "Private_Clean:");
    *all += field(&text, "\nPss:");
    buf_fini(&text);
}

struct soak_size soak_size(const struct serve_proc *proc)
{
    struct serve_proc_size plain = serve_proc_size(proc);
    struct soak_size size = {
        .descriptors = plain.descriptors, .threads = plain.threads, .sockets = plain.sockets};
    pid_t workers[SOAK_WORKERS_MAX];
    size_t count = soak_workers(proc, workers);

    add_memory(proc->pid, &size.own_bytes, &size.all_bytes);
    for (size_t i = 0; i < count; i++)
        add_memory(workers[i], &size.workers_bytes, &size.all_bytes);
    return size;
}

void soak_wait_cells_free(const struct serve_proc *proc)
{
    struct http_answer answer;

    serve_proc_wait_metric(proc, "hearth_sched_unsaved", 0);
    serve_proc_ask(proc, "POST", "/admin/cache/clear", "{\"tier\": \"device\"}", &answer);
    if (answer.status != 200 || strstr(buf_str(&answer.body), "\"failed\":[]") == NULL)
        fail_msg("status %d: %s", answer.status, buf_str(&answer.body));
    http_answer_fini(&answer);
    serve_proc_wait_metric(proc, "hearth_sched_idle", 0);
    serve_proc_wait_metric(proc, "hearth_sched_cells_free",
                           serve_proc_metric(proc, "hearth_sched_cells"));
}

/* ---- metrics ---- */

bool soak_metrics_read(struct soak_metrics *metrics, const struct serve_proc *proc)
{
    struct http_answer answer;

    serve_proc_ask(proc, "GET", "/metrics", NULL, &answer);
    metrics->text = answer.body;
    buf_fini(&answer.head);
    return answer.status == 200;
}

void soak_metrics_fini(struct soak_metrics *metrics)
{
    buf_fini(&metrics->text);
}

double soak_metric(const struct soak_metrics *metrics, const char *name)
{
    const char *text = buf_str(&metrics->text);
    size_t len = strlen(name);

    for (const char *at = strstr(text, name); at != NULL; at = strstr(at + 1, name))
        if ((at == text || at[-1] == '\n') && at[len] == ' ')
            return strtod(at + len, NULL);
    fail_msg("there is no %s in:\n%s", name, text);
    return 0;
}

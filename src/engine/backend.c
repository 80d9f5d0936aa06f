/*
 * backend.c: loading ggml's plug-ins, what they offer, and catching what the libraries log.
 *
 * The libraries report the reason for a failure only in their log, so the first error line is kept
 * per thread for our own error message. Everything else is dropped unless HEARTH_LLAMA_LOG is set,
 * or backend_show_log was called.
 */
#include "engine/backend.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ggml-backend.h>
#include <llama.h>
#ifdef HEARTH_MTMD
#include <mtmd-helper.h>
#endif

#include "base/attr.h"
#include "base/progress.h"
#include "base/str.h"
#include "base/sysinfo.h"

/* Turns of the loop in which a thread waits, some 20 to 90 us. libgomp's default is 300,000. */
#define SPINS "2000"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic(const char *) once_dir;
static atomic_bool shows_log;
static _Thread_local char last_error[256], taken_error[256];
static _Thread_local bool flash; /* the library said that it uses flash attention */

/* In MiB, of the context that this thread makes. */
static _Thread_local struct compute {
    double processor, host;
} compute;

static void keep_error(const char *text)
{
    /* "llama_model_load: error loading model: unknown architecture" -> without the function's
     * name. */
    const char *colon = strstr(text, ": ");
    const char *space = strchr(text, ' ');

    if (colon != NULL && colon < space)
        text = colon + 2;
    size_t len = strcspn(text, "\n");
    if (len == 0 || last_error[0] != '\0')
        return; /* the first line has the cause; "failed to load model" comes after it */
    len = len < sizeof(last_error) ? len : sizeof(last_error) - 1;
    memcpy(last_error, text, len);
    last_error[len] = '\0';
}

/* What `auto` becomes is in the log only: "Flash Attention enabled" since 0.7.0, "Flash Attention was
 * auto, set to enabled" before. */
static void keep_flash(const char *text)
{
    const char *found = strstr(text, "Flash Attention");

    if (found != NULL && (strstr(found, "enabled") != NULL || strstr(found, "disabled") != NULL))
        flash = strstr(found, "enabled") != NULL;
}

/* "sched_reserve:        CPU compute buffer size =    67.55 MiB": of the processor, or of memory of
 * this machine that a device reads ("CUDA_Host"). No function says it. The library may reserve
 * twice: the last line of a buffer counts. */
static void keep_compute(const char *text)
{
    static const char says[] = " compute buffer size = ";
    const char *found = strstr(text, says);

    if (found == NULL)
        return;
    struct str name = {text, (size_t)(found - text)}, size, rest;
    double mib;
    rest = str_trim(str_from(found + strlen(says)));
    if (!str_next(&rest, ' ', &size) || !str_to_f64(size, &mib))
        return;
    if (str_ends(name, STR(" CPU")))
        compute.processor = mib;
    else if (str_ends(name, STR("_Host")))
        compute.host = mib;
}

uint64_t backend_compute_bytes(void)
{
    double mib = compute.processor + compute.host;

    compute = (struct compute){0};
    return (uint64_t)(mib * 1024 * 1024);
}

/* A text is dropped when the reader of standard error has stalled: it may come from the engine's
 * thread. */
static void show(const char *text)
{
    if (!progress_has_room(STDERR_FILENO))
        return;
    ssize_t len = write(STDERR_FILENO, text, MIN(strlen(text), (size_t)PIPE_BUF));
    (void)len; /* a line of the debug log is lost */
}

static void on_log(enum ggml_log_level level, const char *text, void *arg)
{
    (void)arg;
    if (level == GGML_LOG_LEVEL_ERROR)
        keep_error(text);
    keep_flash(text);
    keep_compute(text);
    if ((atomic_load(&shows_log) && level >= GGML_LOG_LEVEL_INFO) ||
        getenv("HEARTH_LLAMA_LOG") != NULL)
        show(text);
}

void backend_show_log(void)
{
    atomic_store(&shows_log, true);
}

void backend_wait_briefly(char **argv)
{
    char path[PATH_MAX];

    if (getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL ||
        setenv("GOMP_SPINCOUNT", SPINS, 0) != 0 || dlsym(RTLD_DEFAULT, "GOMP_parallel") == NULL)
        return;
    /* Its path, because a process is shown by the last name of what it was started as. If it cannot
     * be started, threads spin as long as libgomp lets them. */
    if (realpath(sysinfo_program(), path) != NULL)
        (void)execv(path, argv);
}

static void init_once(void)
{
    llama_log_set(on_log, NULL);
#ifdef HEARTH_MTMD
    mtmd_helper_log_set(on_log, NULL);
#endif
    ggml_backend_load_all_from_path(once_dir);
    /* Without a backend it would look for plug-ins where nobody said: in the system's folder, beside
     * the program and in the current folder. A model is then refused ("no backends are loaded"). */
    if (ggml_backend_reg_count() > 0)
        llama_backend_init();
}

const char *backend_dir(void)
{
    const char *dir = getenv("HEARTH_BACKENDS");

    return dir != NULL && dir[0] != '\0' ? dir : HEARTH_BACKENDS;
}

void backend_init(const char *dir)
{
    once_dir = dir != NULL ? dir : backend_dir();
    pthread_once(&once, init_once);
}

bool backend_is_loaded(const char *name)
{
    /* The backend of libggml-hip.so is CUDA's, compiled for another maker. */
    return ggml_backend_reg_by_name(strcmp(name, "hip") == 0 ? "ROCm" : name) != NULL;
}

bool backend_has_feature(const char *name)
{
    ggml_backend_reg_t cpu = ggml_backend_reg_by_name("CPU");
    ggml_backend_get_features_t features = NULL;

    if (cpu != NULL)
        *(void **)&features = ggml_backend_reg_get_proc_address(cpu, "ggml_backend_get_features");
    for (const struct ggml_backend_feature *feature = features != NULL ? features(cpu) : NULL;
         feature != NULL && feature->name != NULL; feature++)
        if (strcmp(feature->name, name) == 0)
            return true;
    return false;
}

bool backend_is_gpu(struct ggml_backend_device *device)
{
    enum ggml_backend_dev_type type = ggml_backend_dev_type(device);

    return type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU;
}

/* An integrated GPU uses the machine's memory, which others count. */
struct backend_memory backend_device_memory(void)
{
    struct backend_memory sum = {0, 0};

    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);
        size_t free_bytes = 0, total_bytes = 0;
        if (ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_GPU)
            continue;
        ggml_backend_dev_memory(device, &free_bytes, &total_bytes);
        sum.free += free_bytes;
        sum.total += total_bytes;
    }
    return sum;
}

/* Asked with heads of a usual size; nothing is allocated or computed. */
static bool backend_has_flash(struct ggml_backend_device *device)
{
    enum { WIDTH = 128, HEADS = 8, CELLS = 256, TENSORS = 8 };
    struct ggml_context *ctx = ggml_init(
        (struct ggml_init_params){.mem_size = TENSORS * ggml_tensor_overhead(), .no_alloc = true});

    if (ctx == NULL)
        return false;
    struct ggml_tensor *q = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, WIDTH, 1, HEADS);
    struct ggml_tensor *k = ggml_new_tensor_3d(ctx, GGML_TYPE_F16, WIDTH, CELLS, HEADS);
    struct ggml_tensor *v = ggml_new_tensor_3d(ctx, GGML_TYPE_F16, WIDTH, CELLS, HEADS);
    struct ggml_tensor *mask = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, CELLS, 1);
    struct ggml_tensor *op = ggml_flash_attn_ext(ctx, q, k, v, mask, 1, 0, 0);
    bool has = ggml_backend_dev_supports_op(device, op);
    ggml_free(ctx);
    return has;
}

const char *backend_take_error(void)
{
    memcpy(taken_error, last_error, sizeof(taken_error));
    last_error[0] = '\0';
    return taken_error;
}

bool backend_take_flash(void)
{
    bool taken = flash;

    flash = false;
    return taken;
}

enum err backend_failed(struct errinfo *info, const char *what)
{
    const char *reason = backend_take_error();

    return err_set(info, ERR_ENGINE, "%s%s%s", what, reason[0] ? ": " : "", reason);
}

const char *engine_library_version(void)
{
    return llama_version();
}

const char *engine_ggml_version(void)
{
    return ggml_version();
}

const char *engine_library_origin(void)
{
    return sysinfo_origin((void *)llama_version);
}

const char *engine_ggml_origin(void)
{
    return sysinfo_origin((void *)ggml_version);
}

const char *engine_backends_dir(const char *backends)
{
    return backends ? backends : backend_dir();
}

size_t engine_backends(const char *backends, struct engine_backend_info *list, size_t max)
{
    backend_init(backends);
    size_t count = ggml_backend_dev_count();
    for (size_t i = 0; i < MIN(count, max); i++) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);
        size_t free_bytes = 0, total_bytes = 0;
        ggml_backend_dev_memory(device, &free_bytes, &total_bytes);
        snprintf(list[i].name, sizeof(list[i].name), "%s", ggml_backend_dev_name(device));
        snprintf(list[i].description, sizeof(list[i].description), "%s",
                 ggml_backend_dev_description(device));
        list[i].memory_free = free_bytes;
        list[i].memory_total = total_bytes;
        list[i].gpu = backend_is_gpu(device);
        list[i].flash = backend_has_flash(device);
    }
    return count;
}

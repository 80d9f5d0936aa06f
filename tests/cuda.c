/*
 * cuda.c: stands in for NVIDIA's driver, libcuda.so.1: the functions of src/engine/host_register.c,
 * which check how they are called and append a line per call to the file that FAKE_CUDA_LOG names:
 *
 *      PID register BYTES        PID refuse BYTES        PID unregister BYTES        PID wrong WHY
 *
 * There are two devices. FAKE_CUDA_ACTIVE (0, 1 or -1 = none) is the one that a backend uses. The
 * FAKE_CUDA_FAIL-th registration fails. FAKE_CUDA_MS is how long one takes.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONTEXT = 201, BLOCKS = 256 };
enum { PORTABLE = 1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    void *base;
    size_t bytes;
} blocks[BLOCKS];
static int registrations, contexts[2];
static _Thread_local int depth;

static int number_of(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? (int)strtol(text, NULL, 10) : otherwise;
}

static void note(const char *what, const char *why, size_t bytes)
{
    const char *path = getenv("FAKE_CUDA_LOG");
    char line[128];
    int fd = path != NULL ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;

    if (fd < 0)
        return;
    int len = snprintf(line, sizeof(line), "%d %s %s%zu\n", (int)getpid(), what, why, bytes);
    ssize_t written = write(fd, line, (size_t)len);
    (void)written;
    close(fd);
}

int cuDeviceGetCount(int *count)
{
    *count = 2;
    return OK;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal + 10; /* a handle is no ordinal */
    return ordinal < 2 ? OK : INVALID_VALUE;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    *flags = 0;
    *active = device == number_of("FAKE_CUDA_ACTIVE", 1) + 10;
    return OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    if (device != number_of("FAKE_CUDA_ACTIVE", 1) + 10)
        note("wrong", "a context on an idle device ", 0);
    *context = &contexts[device - 10];
    contexts[device - 10]++;
    return OK;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    contexts[device - 10]--;
    note("release", "", (size_t)(contexts[0] + contexts[1]));
    return OK;
}

int cuCtxPushCurrent_v2(void *context)
{
    if (context != &contexts[0] && context != &contexts[1])
        return INVALID_CONTEXT;
    depth++;
    return OK;
}

int cuCtxPopCurrent_v2(void **context)
{
    *context = NULL;
    return depth-- > 0 ? OK : INVALID_CONTEXT;
}

/* The block at `base`, or a free place for NULL. */
static int find(const void *base)
{
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].base == base)
            return i;
    return -1;
}

static int is_mapped(void *base, size_t bytes)
{
    return msync(base, bytes, MS_ASYNC) == 0;
}

static void wait_as_told(void)
{
    int ms = number_of("FAKE_CUDA_MS", 0);
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&time, NULL);
}

int cuMemHostRegister_v2(void *base, size_t bytes, unsigned flags)
{
    if (depth != 1)
        return INVALID_CONTEXT;
    if (flags != PORTABLE || (size_t)base % 4096 != 0 || !is_mapped(base, bytes))
        note("wrong", "registration ", bytes);
    pthread_mutex_lock(&lock);
    int twice = find(base) >= 0, fails = ++registrations == number_of("FAKE_CUDA_FAIL", 0);
    int at = find(NULL);
    if (!twice && !fails && at >= 0) {
        blocks[at].base = base;
        blocks[at].bytes = bytes;
    }
    pthread_mutex_unlock(&lock);
    if (twice)
        note("wrong", "memory twice ", bytes);
    note(fails ? "refuse" : "register", "", bytes);
    wait_as_told();
    return fails ? OUT_OF_MEMORY : OK;
}

int cuMemHostUnregister(void *base)
{
    if (depth != 1)
        return INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    int at = find(base);
    size_t bytes = at >= 0 ? blocks[at].bytes : 0;
    if (at >= 0)
        blocks[at].base = NULL;
    pthread_mutex_unlock(&lock);
    if (at < 0)
        note("wrong", "memory that is not registered ", 0);
    else if (!is_mapped(base, bytes))
        note("wrong", "memory that is not mapped any more ", bytes);
    else
        note("unregister", "", bytes);
    return at >= 0 ? OK : INVALID_VALUE;
}

int cuGetErrorName(int error, const char **name)
{
    *name = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : NULL;
    return *name != NULL ? OK : INVALID_VALUE;
}

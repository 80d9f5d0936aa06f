/*
 * host_register.c: the driver's own functions, found in the library that the CUDA backend has
 * loaded. Its interface is stable; the few functions in use are declared here.
 *
 * Each call needs a context of the calling thread. The one of a device that the backend uses is
 * borrowed: making one on an idle device would take hundreds of megabytes there. PORTABLE makes the
 * memory pinned for all devices, whichever it is.
 */
#include "engine/host_register.h"

#include <assert.h>

#include "base/library.h"
#include "base/mem.h"
#include "engine/backend.h"
#include "engine/host_memory.h"

enum { REGISTER_PORTABLE = 1 };

struct host_register {
    int (*device_count)(int *count);
    int (*device_get)(int *device, int ordinal);
    int (*context_state)(int device, unsigned *flags, int *active);
    int (*context_retain)(void **context, int device);
    int (*context_release)(int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*add)(void *base, size_t bytes, unsigned flags);
    int (*remove)(void *base);
    int (*error_name)(int error, const char **name);
    int device;
    void *context;
};

bool host_register_expected(const char *backends)
{
    return host_memory_can_pin(backends) && backend_is_loaded("cuda");
}

static enum err find_driver(struct host_register *reg, struct errinfo *info)
{
    static const char *const names[] = {"libcuda.so.1", NULL};
    const struct library_symbol symbols[] = {
        {"cuDeviceGetCount", (void **)&reg->device_count},
        {"cuDeviceGet", (void **)&reg->device_get},
        {"cuDevicePrimaryCtxGetState", (void **)&reg->context_state},
        {"cuDevicePrimaryCtxRetain", (void **)&reg->context_retain},
        {"cuDevicePrimaryCtxRelease_v2", (void **)&reg->context_release},
        {"cuCtxPushCurrent_v2", (void **)&reg->push},
        {"cuCtxPopCurrent_v2", (void **)&reg->pop},
        {"cuMemHostRegister_v2", (void **)&reg->add},
        {"cuMemHostUnregister", (void **)&reg->remove},
        {"cuGetErrorName", (void **)&reg->error_name},
    };

    return library_load(&(struct library){.names = names,
                                          .purpose = "pinning shared memory",
                                          .package = "the CUDA backend",
                                          .resident = true,
                                          .symbols = symbols,
                                          .symbols_count = COUNT_OF(symbols)},
                        info);
}

/* The first device that has a context already. */
static enum err find_context(struct host_register *reg, struct errinfo *info)
{
    int count = 0, active = 0;
    unsigned flags;

    if (reg->device_count(&count) != 0)
        count = 0;
    for (int i = 0; i < count; i++)
        if (reg->device_get(&reg->device, i) == 0 &&
            reg->context_state(reg->device, &flags, &active) == 0 && active != 0 &&
            reg->context_retain(&reg->context, reg->device) == 0)
            return ERR_OK;
    return err_set(info, ERR_UNSUPPORTED, "no device of CUDA is in use");
}

enum err host_register_open(struct host_register **out, struct errinfo *info)
{
    struct host_register *reg = mem_alloc(sizeof(*reg));

    *out = NULL;
    enum err err = find_driver(reg, info);
    if (err == ERR_OK)
        err = find_context(reg, info);
    if (err == ERR_OK)
        *out = reg;
    else
        mem_free(reg);
    return err;
}

void host_register_close(struct host_register **reg)
{
    if (*reg == NULL)
        return;
    (*reg)->context_release((*reg)->device);
    mem_free(*reg);
    *reg = NULL;
}

static enum err refused(const struct host_register *reg, int error, struct errinfo *info)
{
    const char *name = NULL;

    if (reg->error_name(error, &name) != 0 || name == NULL)
        name = "an unknown error";
    return err_set(info, ERR_ENGINE, "%s", name);
}

enum err host_register_add(struct host_register *reg, void *base, size_t bytes,
                           struct errinfo *info)
{
    void *popped;
    int error = reg->push(reg->context);

    if (error != 0)
        return refused(reg, error, info);
    error = reg->add(base, bytes, REGISTER_PORTABLE);
    reg->pop(&popped);
    return error == 0 ? ERR_OK : refused(reg, error, info);
}

/* Fails only when the device is lost, and then the whole process is. */
void host_register_remove(struct host_register *reg, void *base)
{
    void *popped;

    if (reg->push(reg->context) != 0)
        return;
    reg->remove(base);
    reg->pop(&popped);
}

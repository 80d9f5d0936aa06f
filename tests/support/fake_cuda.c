#include "support/fake_cuda.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "support/test.h"

enum { WAIT_MS = 20000, CALLS_BYTES_MAX = 4096 };

void fake_cuda_offer(void)
{
    char path[1024];
    const char *build = getenv("HEARTH_BUILD");

    snprintf(path, sizeof(path), "%s/tests/libcuda.so.1", build != NULL ? build : "");
    setenv("FAKE_CUDA", path, 1);
    snprintf(path, sizeof(path), "%s/cuda.log", test_dir());
    setenv("FAKE_CUDA_LOG", path, 1);
}

void fake_cuda_load(void)
{
    fake_cuda_offer();
    if (dlopen(getenv("FAKE_CUDA"), RTLD_NOW | RTLD_LOCAL) == NULL)
        fail_msg("%s", dlerror());
}

/* "123 register 67108864" -> "register 64" */
static void append_call(char *calls, char *line)
{
    const char *what = strchr(line, ' ') + 1;
    char *last = strrchr(line, ' ');
    size_t len = strlen(calls);

    *last = '\0';
    snprintf(calls + len, CALLS_BYTES_MAX - len, "%s%s %llu", len > 0 ? ", " : "", what,
             strtoull(last + 1, NULL, 10) >> 20);
}

const char *fake_cuda_calls(void)
{
    static char calls[CALLS_BYTES_MAX];
    char *data, *rest, *line;
    size_t len;

    calls[0] = '\0';
    if (file_read_all(file_sys_real(), AT_FDCWD, getenv("FAKE_CUDA_LOG"), 1 << 20, &data, &len,
                      NULL) != ERR_OK)
        return calls;
    rest = data; /* ends with a zero byte */
    while ((line = strsep(&rest, "\n")) != NULL)
        if (line[0] != '\0')
            append_call(calls, line);
    mem_free(data);
    return calls;
}

void fake_cuda_expect(const char *calls)
{
    uint64_t deadline_ns = clock_deadline_ns(clock_real(), WAIT_MS * NS_PER_MS);

    while (strcmp(fake_cuda_calls(), calls) != 0) {
        if (clock_mono_ns(clock_real()) > deadline_ns)
            fail_msg("calls are: %s", fake_cuda_calls());
        clock_sleep_ns(clock_real(), NS_PER_MS);
    }
}

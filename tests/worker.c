/*
 * worker.c: the process of an engine, as `hearth engine-worker` is, with the fake engine instead of
 * libllama. tests/support/fake_worker.h starts it. A backend would load its driver; here
 * tests/support/fake_cuda.h says which.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/worker_main.h"
#include "engine/worker_process.h"
#include "support/fake_worker.h"

int main(int argc, char **argv)
{
    const char *driver = getenv("FAKE_CUDA");

    if (driver != NULL && dlopen(driver, RTLD_NOW | RTLD_LOCAL) == NULL)
        fprintf(stderr, "%s\n", dlerror());
    if (argc == 2 && strcmp(argv[1], WORKER_ARGUMENT) == 0)
        return worker_main(WORKER_SOCKET, fake_worker_create);
    fprintf(stderr, "worker: it is started by tests\n");
    return 2;
}

/* library.c: dlopen and dlsym. */
#include "base/library.h"

#include <dlfcn.h>

enum err library_load(const struct library *library, struct errinfo *info)
{
    void *handle = NULL;
    const char *why = NULL;
    int flags = RTLD_NOW | RTLD_LOCAL | (library->resident ? RTLD_NOLOAD : 0);

    for (size_t i = 0; library->names[i] != NULL && handle == NULL; i++) {
        handle = dlopen(library->names[i], flags);
        if (handle == NULL && why == NULL)
            why = dlerror();
    }
    if (library->resident)
        why = "it is not loaded";
    if (handle == NULL)
        return err_set(info, ERR_UNSUPPORTED, "%s needs %s: %s", library->purpose, library->package,
                       why != NULL ? why : "not found");
    for (size_t i = 0; i < library->symbols_count; i++) {
        *library->symbols[i].to = dlsym(handle, library->symbols[i].name);
        if (*library->symbols[i].to == NULL)
            return err_set(info, ERR_UNSUPPORTED, "%s needs %s: it has no %s", library->purpose,
                           library->package, library->symbols[i].name);
    }
    return ERR_OK;
}

/*
 * sysinfo.c: reads /proc and /sys. These are kernel files, not files on a disk: they are read with
 * plain calls, not through the file table, and unreadable numbers fall back to sysconf.
 */
#include "base/sysinfo.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"

/* The content of a small kernel file, NUL-terminated; false when it cannot be read. */
static bool read_small(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    ssize_t n = read(fd, out, size - 1);
    close(fd);
    if (n < 0)
        return false;
    out[n] = '\0';
    return true;
}

unsigned sysinfo_cores(void)
{
    cpu_set_t set;
    unsigned cores = 0;

    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char path[96], siblings[64];
        if (!CPU_ISSET(cpu, &set))
            continue;
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 cpu);
        /* "3,11" or "3-4": the first number identifies the core. A core counts by its first thread
         * that we may use. */
        long leader =
            read_small(path, siblings, sizeof(siblings)) ? strtol(siblings, NULL, 10) : cpu;
        if (leader == cpu || leader < 0 || leader >= CPU_SETSIZE || !CPU_ISSET(leader, &set))
            cores++;
    }
    return MAX(cores, 1);
}

/* ---- cgroups ---- */

/* Per version: where the memory controller is mounted, the start of its line in /proc/self/cgroup,
 * and the names of its files. */
static const struct controller {
    const char *mount, *line, *limit, *used;
} controllers[] = {
    {"/sys/fs/cgroup", "0::", "memory.max", "memory.current"},
    {"/sys/fs/cgroup/memory", ":memory:", "memory.limit_in_bytes", "memory.usage_in_bytes"},
};

/* A number of bytes from a cgroup file; UINT64_MAX for "max" and for a missing file. */
static uint64_t read_cgroup(const struct controller *controller, const char *group,
                            const char *name)
{
    char path[1024], text[32];

    snprintf(path, sizeof(path), "%s%s/%s", controller->mount, group, name);
    if (!read_small(path, text, sizeof(text)) || strncmp(text, "max", 3) == 0)
        return UINT64_MAX;
    return strtoull(text, NULL, 10);
}

/* The path of this process's group, "" for the root: a container may see nothing else. */
static void find_group(const struct controller *controller, char *group, size_t size)
{
    char text[4096];

    group[0] = '\0';
    if (!read_small("/proc/self/cgroup", text, sizeof(text)))
        return;
    const char *line = strstr(text, controller->line);
    if (line == NULL)
        return;
    line += strlen(controller->line);
    size_t len = strcspn(line, "\n");
    if (len > 1 && len < size)
        snprintf(group, size, "%.*s", (int)len, line);
}

/* Limits of all groups from this process's own up to the root count. */
static void read_limits(uint64_t *limit, uint64_t *rest)
{
    *limit = *rest = UINT64_MAX;
    for (size_t i = 0; i < COUNT_OF(controllers); i++) {
        char group[512], *slash;
        find_group(&controllers[i], group, sizeof(group));
        do {
            uint64_t max = read_cgroup(&controllers[i], group, controllers[i].limit);
            uint64_t used = read_cgroup(&controllers[i], group, controllers[i].used);
            *limit = MIN(*limit, max);
            if (max != UINT64_MAX && used != UINT64_MAX)
                *rest = MIN(*rest, max > used ? max - used : 0);
            slash = strrchr(group, '/');
            if (slash != NULL)
                *slash = '\0';
        } while (slash != NULL);
    }
}

static uint64_t read_meminfo(const char *key, uint64_t otherwise)
{
    char text[4096];

    if (!read_small("/proc/meminfo", text, sizeof(text)))
        return otherwise;
    const char *line = strstr(text, key);
    return line ? strtoull(line + strlen(key), NULL, 10) * 1024 : otherwise;
}

uint64_t sysinfo_memory_total(void)
{
    uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t limit, rest;

    read_limits(&limit, &rest);
    return MIN(read_meminfo("MemTotal:", physical), limit);
}

uint64_t sysinfo_memory_available(void)
{
    uint64_t limit, rest;

    read_limits(&limit, &rest);
    return MIN(read_meminfo("MemAvailable:", sysinfo_memory_total() / 2), rest);
}

uint64_t sysinfo_memory_process(void)
{
    char text[128];

    /* "size resident shared ...", in pages */
    if (!read_small("/proc/self/statm", text, sizeof(text)))
        return 0;
    const char *resident = strchr(text, ' ');
    return resident ? strtoull(resident, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

void sysinfo_memory_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* "NAME:   N kB" of a status file; 0 when there is no such line. */
static uint64_t status_bytes(const char *text, const char *name)
{
    const char *line = strstr(text, name);

    return line ? strtoull(line + strlen(name), NULL, 10) * 1024 : 0;
}

uint64_t sysinfo_memory_of(pid_t pid)
{
    char path[64], text[4096];

    snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
    if (!read_small(path, text, sizeof(text)))
        return 0;
    return status_bytes(text, "RssAnon:") + status_bytes(text, "RssFile:");
}

const char *sysinfo_origin(void *function)
{
    Dl_info info;

    return dladdr(function, &info) != 0 && info.dli_fname != NULL ? info.dli_fname : "the program";
}

const char *sysinfo_program(void)
{
    const char *own = getenv("HEARTH_PROGRAM");

    return own != NULL && own[0] != '\0' ? own : "/proc/self/exe";
}

/*
 * sysinfo.h: what this machine gives us: cores and memory, cgroup limits included.
 *
 * Threads: any; nothing is cached.
 */
#ifndef HEARTH_BASE_SYSINFO_H
#define HEARTH_BASE_SYSINFO_H

#include <stdint.h>
#include <sys/types.h>

/* Physical cores that this process may run on (hyper-threads of one core count once); at least 1.
 */
unsigned sysinfo_cores(void);

/* The memory this process may use: physical, or the cgroup's limit when that is lower. */
uint64_t sysinfo_memory_total(void);

/* What could be allocated now without swapping (MemAvailable, the cgroup's rest when lower). */
uint64_t sysinfo_memory_available(void);

/* What of this process is in memory now: its own pages and those of files that it has mapped. 0 =
 * not known. */
uint64_t sysinfo_memory_process(void);

/* What of another process is in memory now, without the segments that it shares with us, which are
 * ours already: its own pages and those of files that it has mapped (weights; and code, which all
 * processes of a program share). 0 = not known, or gone. Numbers that the kernel keeps, not a walk
 * over pages. */
uint64_t sysinfo_memory_of(pid_t pid);

/* The file that a function was loaded from, for people; "the program" when it is our own or not
 * known. Valid as long as the file is loaded. */
const char *sysinfo_origin(void *function);

#endif

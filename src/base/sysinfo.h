/*
 * sysinfo.h: the cores and memory available to us, cgroup limits included.
 *
 * Threads: any; nothing is cached.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Physical cores that this process may run on (hyper-threads of one core count once); at least 1.
 */
unsigned sysinfo_cores(void);

/* The memory this process may use: physical, or the cgroup's limit when that is lower. */
uint64_t sysinfo_memory_total(void);

/* What could be allocated now without swapping (MemAvailable, or what the cgroup has left when
 * lower). */
uint64_t sysinfo_memory_available(void);

/* Resident memory of this process: its own pages and those of mapped files. 0 = unknown. */
uint64_t sysinfo_memory_process(void);

/* Returns memory that this process has freed to the system. Takes milliseconds. */
void sysinfo_memory_trim(void);

/* Resident memory of another process, without segments that it shares with us, which count as ours:
 * its own pages and those of mapped files (weights; and code, which all processes of a program
 * share). 0 = unknown, or gone. Uses the kernel's counters, not a walk over pages. */
uint64_t sysinfo_memory_of(pid_t pid);

/* The file that a function was loaded from, for people; "the program" when it is our own or
 * unknown. Valid as long as the file is loaded. */
const char *sysinfo_origin(void *function);

/* The file that starts this program again: HEARTH_PROGRAM of the environment, else the link of the
 * system. The tarball's program is started by its own loader, which that link names then. */
const char *sysinfo_program(void);

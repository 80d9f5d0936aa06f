/*
 * soak_server.h: the servers of a soak: the one that is tried, with two models (dense and hybrid)
 * and three tenants, and a reference without a cache that says what is right; and what the system
 * says of them, engine processes included.
 *
 * Threads: all functions belong to the test's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "support/serve_proc.h"

enum { SOAK_WORKERS_MAX = 8 };

/* Starts it with both models loaded, the tenants' keys and `args`. Its own questions (metrics) have
 * the administrator's key. */
void soak_server_start(struct serve_proc *proc, const char *args);
/* The same models and tenants, --exact, and nothing kept. */
void soak_reference_start(struct serve_proc *proc);

/* A folder of the test's, for --ssd-dir; its bytes as `du` counts them, files that are being
 * written included. */
const char *soak_ssd_dir(void);
uint64_t soak_ssd_bytes(void);
/* Harms a file there that the seed chooses: a bit is flipped, its end is cut off, or it is gone.
 * False: there is none. */
bool soak_ssd_harm(uint64_t *seed);

/* The engines' processes: children of the server. */
size_t soak_workers(const struct serve_proc *proc, pid_t workers[SOAK_WORKERS_MAX]);

struct soak_size {
    size_t descriptors, threads, sockets; /* of the server itself */
    uint64_t own_bytes;                   /* its private memory */
    uint64_t workers_bytes;               /* of the engines' processes, as much */
    uint64_t all_bytes;                   /* of all together, shared pages counted once (PSS) */
};
struct soak_size soak_size(const struct serve_proc *proc);

/* Waits until all that ended is stored, lets the device go, and waits until every cell is free. */
void soak_wait_cells_free(const struct serve_proc *proc);

/* Numbers of /metrics, asked once. */
struct soak_metrics {
    struct buf text;
};
bool soak_metrics_read(struct soak_metrics *metrics, const struct serve_proc *proc);
void soak_metrics_fini(struct soak_metrics *metrics);
/* Fails when there is no such number. */
double soak_metric(const struct soak_metrics *metrics, const char *name);

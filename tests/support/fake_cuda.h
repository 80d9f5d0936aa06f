/*
 * fake_cuda.h: the stand-in for NVIDIA's driver (tests/cuda.c), for this process or for an engine's
 * process that it starts, and what that driver was asked to do.
 */
#pragma once

/* From now on engines' processes (fake_worker.h) have the driver, and its calls are recorded. */
void fake_cuda_offer(void);
/* This process has it as well. */
void fake_cuda_load(void);

/* The calls so far, without the numbers of the processes, separated by ", "; valid until the next
 * call. A size is in MiB. */
const char *fake_cuda_calls(void);
/* Waits until the calls are these; fails the test after 20 s. */
void fake_cuda_expect(const char *calls);

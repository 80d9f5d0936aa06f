/*
 * quantize.h: a model file in another data type, by libllama.
 *
 * The library works in a child process: what it does not like ends that process, not this one. It
 * writes to a temporary name beside the output, which is synced and renamed when it is complete, so
 * that the output never exists half-written. The temporary file is removed on every failure.
 *
 * Owner: a process with one thread, as long as it runs: the child is a fork.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct file_sys;

/* As llama-quantize calls them: "Q4_K_M"; ended by NULL. */
extern const char *const quantize_types[];
/* The name of a file's "general.file_type"; "unknown" for others. */
const char *quantize_type_name(uint64_t number);

struct quantize_options {
    const char *in;  /* a file, or the first shard */
    const char *out; /* must not exist */
    const char *type;
    uint32_t threads;     /* 0 = all */
    bool requantize;      /* the input may be quantized, which costs quality */
    const char *backends; /* NULL = the built-in folder */
    const struct file_sys *fs;
    /* Called several times a second; false cancels. */
    bool (*on_progress)(float done, void *arg);
    void *arg;
};

/* ERR_INVALID: an unknown type, or an output that exists or is part of the input. ERR_NO_SPACE
 * before anything is written, or when the disk fills up. ERR_CANCELLED. ERR_ENGINE: the library's
 * reason, or the signal that ended it. */
enum err quantize_file(const struct quantize_options *options, struct errinfo *info) NODISCARD;

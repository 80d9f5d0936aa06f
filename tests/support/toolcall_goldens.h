/*
 * toolcall_goldens.h: what models write, format by format, and the events it adds up to, as
 * output_log.h writes them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "output/toolcall.h"

struct toolcall_golden {
    enum toolcall_format format;
    bool tools; /* the schemas below are known */
    const char *text;
    const char *events;
};

extern const struct toolcall_golden toolcall_goldens[];
extern const size_t toolcall_goldens_count;
extern const char toolcall_goldens_tools[]; /* JSON */

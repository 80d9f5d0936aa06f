/*
 * templates.h: the chat templates that tests go through: those of tests/data, and the published ones
 * of ../shared where this clone has them.
 */
#pragma once

#include <stddef.h>

/* How many there are in tests/data. */
enum { TEMPLATES_OWN = 13 };

/* Calls for each one, with its file name ("chatml.jinja"). Returns how many were published ones. */
size_t templates_each(void (*fn)(const char *name, const char *source, void *arg), void *arg);

/*
 * catch.h: calls into a C++ library that may throw.
 *
 * libllama throws std::bad_alloc, and other exceptions, through its C interface. An exception that
 * finds no handler ends the process. catch_call is a handler: see
 * docs/decisions/014-exceptions-are-caught-in-c.md.
 *
 * Threads: any.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"

/* Calls body(arg). ERR_NOMEM: it threw std::bad_alloc or std::length_error. ERR_ENGINE: it threw
 * something else. The C frames that the exception passes are dropped as by longjmp: `body` must
 * hold no lock and own no memory while it calls the library. */
enum err catch_call(void (*body)(void *arg), void *arg) NODISCARD;

/*
 * answer.h: the answers that this layer gives by itself: refusals, and OPTIONS. Loop thread.
 */
#ifndef HEARTH_HTTP_ANSWER_H
#define HEARTH_HTTP_ANSWER_H

#include <stdbool.h>

#include "base/attr.h"
#include "base/str.h"
#include "http/conn.h"
#include "http/problem.h"
#include "http/request.h"

/* Each gives a whole answer, or NULL without memory. `request` is NULL when there is none that
 * could be read. */
struct http_chunk *http_answer_problem(const struct http_shared *shared, enum http_problem problem,
                                       const struct http_request *request,
                                       bool keep_alive) NODISCARD;

/* To OPTIONS: which methods there are, and, to a browser that may, leave to call them. */
struct http_chunk *http_answer_options(const struct http_shared *shared,
                                       const struct http_request *request,
                                       bool keep_alive) NODISCARD;

/* The Origin of a request if it is allowed, else empty. */
struct str http_answer_origin(const struct http_shared *shared, const struct http_request *request);

#endif

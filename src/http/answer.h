/* answer.h: the answers that this layer gives itself: refusals, and OPTIONS. Loop thread. */
#pragma once

#include <stdbool.h>

#include "base/attr.h"
#include "base/str.h"
#include "http/conn.h"
#include "http/problem.h"
#include "http/request.h"

/* Each returns a whole answer, or NULL when out of memory. `request` is NULL if none could be
 * parsed. */
struct http_chunk *http_answer_problem(const struct http_shared *shared, enum http_problem problem,
                                       const struct http_request *request,
                                       bool keep_alive) NODISCARD;

/* Answers OPTIONS: the methods of the path and, for an allowed browser origin, the CORS headers. */
struct http_chunk *http_answer_options(const struct http_shared *shared,
                                       const struct http_request *request,
                                       bool keep_alive) NODISCARD;

/* The Origin of a request if it is allowed, otherwise empty. */
struct str http_answer_origin(const struct http_shared *shared, const struct http_request *request);

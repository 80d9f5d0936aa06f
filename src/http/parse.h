/*
 * parse.h: bytes to requests, without a socket: llhttp in its strict mode, plus the checks that it
 * leaves to its user: limits, the form of the target, the Host header, and the supported methods,
 * versions and codings.
 *
 *      feed -> MORE ... feed -> DONE, use the request, reset, feed the rest
 *                          '-> FAILED: the connection is unusable, as the start of the next
 *                              request is unknown
 *
 * How the bytes are split into pieces does not change what is accepted or refused; it may only
 * change which of two defects is reported. Owner: one connection, loop thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/str.h"
#include "http/problem.h"
#include "http/request.h"

struct http_limits;
struct http_parser;

enum http_parse { HTTP_PARSE_MORE, HTTP_PARSE_DONE, HTTP_PARSE_FAILED };

struct http_body_plan {
    bool expects;    /* the client waits for "100 Continue" */
    uint64_t length; /* UINT64_MAX: not known */
    uint64_t max;    /* of its bytes; to be lowered */
};

/* Called when the headers are complete and a body follows, before any of it is read. A result other
 * than HTTP_PROBLEM_NONE makes the request fail. */
typedef enum http_problem (*http_parse_head_fn)(struct http_request *request,
                                                struct http_body_plan *plan, void *arg);

/* `limits` (without zeros) must outlive the parser. */
struct http_parser *http_parser_create(const struct http_limits *limits, http_parse_head_fn fn,
                                       void *arg);
void http_parser_destroy(struct http_parser **parser);

/* Drops the request; ready for the next. */
void http_parser_reset(struct http_parser *parser);

/* Consumes bytes from the front of `bytes`: all of them (MORE), or up to the end of the request
 * (DONE). */
enum http_parse http_parser_feed(struct http_parser *parser, struct str *bytes);

bool http_parser_in_body(const struct http_parser *parser);      /* the headers are complete */
size_t http_parser_body_bytes(const struct http_parser *parser); /* body bytes held in memory */
enum http_problem http_parser_problem(const struct http_parser *parser); /* after FAILED */

/* The request as far as it was read, or NULL before its target is complete. Also after FAILED,
 * until the reset. */
const struct http_request *http_parser_known(const struct http_parser *parser);

/* After DONE, until the reset. */
struct http_request *http_parser_request(struct http_parser *parser);
void http_parser_drop_body(struct http_parser *parser); /* frees its memory */
bool http_parser_keep_alive(
    const struct http_parser *parser); /* the client keeps the connection open */

/*
 * parse.h: bytes to requests, without a socket: llhttp in its strict mode, plus what it leaves to
 * its user: limits, the shape of the target, the Host header, which methods, versions and codings
 * there are.
 *
 *      feed -> MORE ... feed -> DONE, use the request, reset, feed the rest
 *                          '-> FAILED: the connection cannot go on, as nobody knows where the next request begins
 *
 * How the bytes are cut into pieces does not change what is taken and what is refused; only which
 * of two defects is named. Owner: one connection, loop thread.
 */
#ifndef HEARTH_HTTP_PARSE_H
#define HEARTH_HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/str.h"
#include "http/problem.h"
#include "http/request.h"

struct http_limits;
struct http_parser;

enum http_parse { HTTP_PARSE_MORE, HTTP_PARSE_DONE, HTTP_PARSE_FAILED };

/* Called when the headers are there and a body is to follow, before any of it is read. What it
 * returns, if not HTTP_PROBLEM_NONE, is the failure. `expects` says that the client waits for a
 * "100 Continue". */
typedef enum http_problem (*http_parse_head_fn)(struct http_request *request, bool expects,
                                                void *arg);

/* `limits` (with no zeros in it) outlive the parser. */
struct http_parser *http_parser_create(const struct http_limits *limits, http_parse_head_fn fn,
                                       void *arg);
void http_parser_destroy(struct http_parser **parser);

/* Forgets the request; ready for the next. */
void http_parser_reset(struct http_parser *parser);

/* Takes bytes from the front of `bytes`: all of them (MORE), or those up to the end of the request
 * (DONE). */
enum http_parse http_parser_feed(struct http_parser *parser, struct str *bytes);

bool http_parser_in_body(const struct http_parser *parser);      /* the headers are complete */
size_t http_parser_body_bytes(const struct http_parser *parser); /* of body held in memory */
enum http_problem http_parser_problem(const struct http_parser *parser); /* after FAILED */

/* As far as it was read, if that goes beyond its target; else NULL. Also after FAILED, until the
 * reset. */
const struct http_request *http_parser_known(const struct http_parser *parser);

/* After DONE, until the reset. */
struct http_request *http_parser_request(struct http_parser *parser);
void http_parser_drop_body(struct http_parser *parser); /* gives its memory back */
bool http_parser_keep_alive(
    const struct http_parser *parser); /* the client wants the connection to go on */

#endif

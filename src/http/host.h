/*
 * host.h: names of hosts: which are this machine, which may stand in a Host header, which origins
 * may call from a browser.
 *
 * A page that a browser got from elsewhere can have its name resolve to 127.0.0.1 and then talk to
 * us as "same origin" (DNS rebinding). What it cannot change is the Host header, which has its own
 * name. So a server on loopback answers only to names that mean loopback and to those that it was
 * told. Threads: any.
 */
#ifndef HEARTH_HTTP_HOST_H
#define HEARTH_HTTP_HOST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/str.h"

/* True for what only this machine can reach: "localhost" and names below it, 127.0.0.0/8, ::1 (also
 * mapped), with or without brackets. An empty text, "0.0.0.0", "::" and every other name are not.
 * Nothing is looked up. */
bool http_is_loopback(struct str host) NODISCARD;

/* Cuts "name:port", "[::1]:port" apart; `name` keeps brackets. False when it is no valid host: bad
 * characters, a bad port. The port (-1 when there is none) may be NULL. */
bool http_host_split(struct str value, struct str *name, int *port) NODISCARD;

/* A list of names from the options; "*" stands for any. */
struct http_names {
    const char *const *names;
    size_t count;
};

/* For a name from http_host_split: loopback, or in the list (any case, a final dot ignored). */
bool http_host_allowed(struct str name, struct http_names allowed) NODISCARD;

/* For an Origin header: in the list, byte for byte, or the list has "*". */
bool http_origin_allowed(struct str origin, struct http_names allowed) NODISCARD;

#endif

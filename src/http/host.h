/*
 * host.h: host names: which ones mean this machine, which are allowed in a Host header, which
 * origins may call from a browser.
 *
 * A page loaded from elsewhere can make its name resolve to 127.0.0.1 and then talk to us as "same
 * origin" (DNS rebinding). It cannot change the Host header, which carries its own name. So a
 * server on loopback answers only to names that mean loopback and to those in its options.
 * http_options.any_host makes exceptions (docs/decisions/024-which-hosts-are-answered.md). Threads:
 * any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/str.h"

/* True for names that only this machine can reach: "localhost" and its subdomains, 127.0.0.0/8, ::1
 * (also mapped), with or without brackets. False for an empty text, "0.0.0.0", "::" and every other
 * name. Nothing is looked up. */
bool http_is_loopback(struct str host) NODISCARD;

/* Splits "name:port" or "[::1]:port"; `name` keeps its brackets. False if it is not a valid host:
 * bad characters or a bad port. `port` (-1 = none given) may be NULL. */
bool http_host_split(struct str value, struct str *name, int *port) NODISCARD;

/* A list of names from the options; "*" matches any. */
struct http_names {
    const char *const *names;
    size_t count;
};

/* For a name from http_host_split: loopback, or in the list (any case, a final dot ignored). */
bool http_host_allowed(struct str name, struct http_names allowed) NODISCARD;

/* In a list of origins: pages of this machine, on any port. */
#define HTTP_ORIGIN_LOCAL "localhost"

/* For an Origin header: in the list, byte for byte, or the list has "*". HTTP_ORIGIN_LOCAL in the
 * list allows http and https pages of "localhost" and of loopback addresses, unless `named`: then
 * only listed origins and "*" count. */
bool http_origin_allowed(struct str origin, struct http_names allowed, bool named) NODISCARD;

/* Whether a text can be in such a list: SCHEME://HOST[:PORT] in lower case, "*", "null" or
 * HTTP_ORIGIN_LOCAL. */
bool http_origin_valid(struct str origin) NODISCARD;

/*
 * host.c: host names, compared as text. No resolver is asked: the check must not depend on an
 * answer from outside.
 */
#include "http/host.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>

enum { NAME_BYTES_MAX = 255, PORT_MAX = 65535 };

static struct str without_brackets(struct str host)
{
    if (host.len >= 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']')
        return (struct str){host.ptr + 1, host.len - 2};
    return host;
}

static struct str without_dot(struct str host)
{
    if (host.len > 1 && host.ptr[host.len - 1] == '.')
        host.len--;
    return host;
}

static bool is_loopback_v6(const struct in6_addr *address)
{
    return IN6_IS_ADDR_LOOPBACK(address) ||
           (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127);
}

bool http_is_loopback(struct str host)
{
    char text[NAME_BYTES_MAX + 1];
    struct in_addr v4;
    struct in6_addr v6;

    host = without_dot(host);
    if (host.len == 0 || host.len > NAME_BYTES_MAX || memchr(host.ptr, 0, host.len) != NULL)
        return false;
    if (str_eq_nocase(host, STR("localhost")) || str_ends_nocase(host, STR(".localhost")))
        return true;
    struct str bare = without_brackets(host);
    memcpy(text, bare.ptr, bare.len);
    text[bare.len] = '\0';
    if (bare.len == host.len && inet_pton(AF_INET, text, &v4) == 1)
        return (ntohl(v4.s_addr) >> 24) == 127;
    return inet_pton(AF_INET6, text, &v6) == 1 && is_loopback_v6(&v6);
}

static bool parse_port(struct str text, int *port)
{
    uint64_t value;

    *port = -1;
    if (text.len == 0) /* "name:" is allowed and means the default port */
        return true;
    if (text.len > 5 || !str_to_u64(text, &value) || value > PORT_MAX)
        return false;
    *port = (int)value;
    return true;
}

/* Names and IPv4 addresses. Underscores are not in the standard, but many networks use them. */
static bool is_name(struct str name)
{
    if (name.len == 0 || name.len > NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (!isalnum((unsigned char)name.ptr[i]) && strchr("-._", name.ptr[i]) == NULL)
            return false;
    return memchr(name.ptr, 0, name.len) == NULL;
}

static bool is_bracketed(struct str name)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr v6;
    struct str bare = without_brackets(name);

    if (bare.len == name.len || bare.len >= sizeof(text))
        return false;
    memcpy(text, bare.ptr, bare.len);
    text[bare.len] = '\0';
    return memchr(text, 0, bare.len) == NULL && inet_pton(AF_INET6, text, &v6) == 1;
}

bool http_host_split(struct str value, struct str *name, int *port)
{
    int ignored;
    bool bracketed = value.len > 0 && value.ptr[0] == '[';
    size_t end = bracketed ? str_find(value, STR("]")) : str_find(value, STR(":"));

    if (bracketed && end == SIZE_MAX)
        return false;
    if (bracketed)
        end++;
    if (end > value.len)
        end = value.len;
    *name = (struct str){value.ptr, end};
    struct str rest = str_skip(value, end);
    if (rest.len > 0 && rest.ptr[0] != ':')
        return false;
    if (rest.len > 0)
        rest = str_skip(rest, 1);
    return parse_port(rest, port != NULL ? port : &ignored) &&
           (bracketed ? is_bracketed(*name) : is_name(*name));
}

bool http_host_allowed(struct str name, struct http_names allowed)
{
    if (http_is_loopback(name))
        return true;
    for (size_t i = 0; i < allowed.count; i++) {
        struct str one = str_from(allowed.names[i]);
        if (str_eq(one, STR("*")) || str_eq_nocase(without_dot(one), without_dot(name)))
            return true;
    }
    return false;
}

/* The name in "http://name:port"; false for other forms. */
static bool split_origin(struct str origin, struct str *name)
{
    static const struct str schemes[] = {STR("http://"), STR("https://")};

    for (size_t i = 0; i < COUNT_OF(schemes); i++) {
        size_t len = schemes[i].len;
        if (str_starts(origin, schemes[i]))
            return http_host_split(str_skip(origin, len), name, NULL);
    }
    return false;
}

/* Not subdomains of localhost: a resolver may answer for them. */
static bool is_local_page(struct str origin)
{
    struct str name;

    return split_origin(origin, &name) && http_is_loopback(name) &&
           !str_ends_nocase(without_dot(name), STR(".localhost"));
}

bool http_origin_allowed(struct str origin, struct http_names allowed, bool named)
{
    for (size_t i = 0; i < allowed.count; i++) {
        struct str one = str_from(allowed.names[i]);
        if (str_eq(one, STR(HTTP_ORIGIN_LOCAL)) ? !named && is_local_page(origin)
                                                : str_eq(one, STR("*")) || str_eq(one, origin))
            return true;
    }
    return false;
}

bool http_origin_valid(struct str origin)
{
    struct str name;

    if (str_eq(origin, STR("*")) || str_eq(origin, STR("null")) ||
        str_eq(origin, STR(HTTP_ORIGIN_LOCAL)))
        return true;
    for (size_t i = 0; i < origin.len; i++)
        if (isupper((unsigned char)origin.ptr[i]))
            return false;
    return split_origin(origin, &name) && !str_ends(origin, STR(":"));
}

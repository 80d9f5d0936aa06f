/*
 * kv_s3.c: values as objects of an S3 bucket, over HTTP/1.1.
 *
 *      GET, PUT (If-None-Match: * where an existing value stays), HEAD, DELETE. Nothing is listed.
 *
 * Endpoint and credentials come from the environment, as for the tools of AWS:
 *
 *      AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL    http(s)://host[:port]; unset: that of the region
 *      AWS_REGION, AWS_DEFAULT_REGION           unset: us-east-1
 *      AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *
 * Requests are signed with Signature Version 4, payloads are not: their digests are in our heads, and
 * hashing them once more costs more than sending them. libcurl was not needed for this: connections,
 * deadlines, TLS and the breaker are those of kv.c, and libsodium has SHA-256. One request at a time
 * is on a connection, because servers do not pipeline; so a run has up to 16 of them.
 *
 * Values have no time to live of their own: the bucket needs a lifecycle rule (docs/fleet.md).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/seal.h"
#include "tier/kv_impl.h"

enum {
    HEAD_BYTES_MAX = 16 << 10,
    DATE_BYTES = 20,
    PATH_BYTES = 3 * KV_NAME_BYTES + 160,
    SCOPE_BYTES = 128,
    CANONICAL_BYTES = 4 << 10,
};

struct s3 {
    char host[KV_HOST_BYTES + 8]; /* of the Host header */
    char base[128];               /* of every path: "/" or "/bucket/" */
    char region[64], id[KV_SECRET_BYTES], secret[KV_SECRET_BYTES], token[4096];
};

static const char *from_env(const char *first, const char *second, const char *otherwise)
{
    const char *value = getenv(first);

    if ((value == NULL || value[0] == '\0') && second != NULL)
        value = getenv(second);
    return value != NULL && value[0] != '\0' ? value : otherwise;
}

/* ---- signing ---- */

static struct hash256 sign_text(const struct hash256 *key, const char *text)
{
    return seal_hmac_sha256(key->bytes, sizeof(key->bytes), text, strlen(text));
}

/* The key of a day, region and service, then the signature. */
static struct hash256 sign(const struct s3 *s3, const char *date, const char *text)
{
    char first[KV_SECRET_BYTES + 8], day[9];

    snprintf(day, sizeof(day), "%.8s", date);
    int len = snprintf(first, sizeof(first), "AWS4%s", s3->secret);
    struct hash256 key = seal_hmac_sha256(first, (size_t)len, day, strlen(day));
    key = sign_text(&key, s3->region);
    key = sign_text(&key, "s3");
    key = sign_text(&key, "aws4_request");
    seal_wipe(first, sizeof(first));
    return sign_text(&key, text);
}

static void append_signature(const struct s3 *s3, const char *method, const char *path,
                             const char *date, struct buf *head)
{
    const char *names = s3->token[0] != '\0'
                            ? "host;x-amz-content-sha256;x-amz-date;x-amz-security-token"
                            : "host;x-amz-content-sha256;x-amz-date";
    char scope[SCOPE_BYTES], text[512], hex[HASH256_HEX_BYTES];
    struct buf canonical;

    buf_init(&canonical, CANONICAL_BYTES + sizeof(s3->token));
    buf_appendf(&canonical, "%s\n%s\n\nhost:%s\nx-amz-content-sha256:UNSIGNED-PAYLOAD\n", method,
                path, s3->host);
    buf_appendf(&canonical, "x-amz-date:%s\n", date);
    if (s3->token[0] != '\0')
        buf_appendf(&canonical, "x-amz-security-token:%s\n", s3->token);
    buf_appendf(&canonical, "\n%s\nUNSIGNED-PAYLOAD", names);
    struct hash256 hash = seal_sha256(canonical.data, canonical.len);
    hash256_hex(&hash, hex);
    snprintf(scope, sizeof(scope), "%.8s/%s/s3/aws4_request", date, s3->region);
    snprintf(text, sizeof(text), "AWS4-HMAC-SHA256\n%s\n%s\n%s", date, scope, hex);
    struct hash256 signature = sign(s3, date, text);
    hash256_hex(&signature, hex);
    buf_appendf(head, "x-amz-date: %s\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n", date);
    if (s3->token[0] != '\0')
        buf_appendf(head, "x-amz-security-token: %s\r\n", s3->token);
    buf_appendf(head,
                "Authorization: AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, "
                "Signature=%s\r\n",
                s3->id, scope, names, hex);
    buf_fini(&canonical);
}

/* ---- requests ---- */

static const char *method_of(enum kv_verb verb)
{
    switch (verb) {
    case KV_PUT:
        return "PUT";
    case KV_EXISTS:
        return "HEAD";
    case KV_DELETE:
        return "DELETE";
    default:
        return "GET";
    }
}

static void encode(const struct kv *kv, const struct kv_op *op, struct buf *head, struct buf *tail)
{
    const struct s3 *s3 = kv->own;
    const char *method = method_of(op->verb);
    time_t now = (time_t)(clock_wall_ns(clock_real()) / NS_PER_S);
    char date[DATE_BYTES];
    struct buf path;
    struct tm utc;

    (void)tail;
    gmtime_r(&now, &utc);
    strftime(date, sizeof(date), "%Y%m%dT%H%M%SZ", &utc);
    buf_init(&path, PATH_BYTES);
    buf_append_str(&path, s3->base);
    buf_append_percent(&path, str_from(op->name), "-_.~/"); /* as the signature wants it */
    buf_appendf(head, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, buf_str(&path), s3->host);
    if (s3->id[0] != '\0')
        append_signature(s3, method, buf_str(&path), date, head);
    buf_fini(&path);
    if (op->verb == KV_PUT)
        buf_appendf(head, "Content-Length: %llu\r\n", (unsigned long long)op->bytes);
    if (op->verb == KV_PUT && op->once)
        buf_append_str(head, "If-None-Match: *\r\n");
    buf_append_str(head, "\r\n");
}

/* ---- replies ---- */

/* The value of a header, without blanks around it; empty: there is none. */
static struct str header(struct str head, struct str name)
{
    struct str line;

    while (str_next(&head, '\n', &line)) {
        size_t colon = str_find(line, STR(":"));
        if (colon != SIZE_MAX && str_eq_nocase((struct str){line.ptr, colon}, name))
            return str_trim(str_skip(line, colon + 1));
    }
    return STR_NONE;
}

static void read_status(const struct kv_op *op, unsigned status, struct kv_reply *reply)
{
    reply->existed = op->verb == KV_PUT && op->once && (status == 409 || status == 412);
    reply->failure = false;
    if (status == 200 || status == 204 || reply->existed) /* 409: another one writes it now */
        reply->result = KV_OK;
    else if (status == 404 && op->verb != KV_PUT)
        reply->result = KV_MISSING;
    else {
        reply->result = status == 507 ? KV_FULL : KV_ERROR;
        reply->failure = true;
        snprintf(reply->why, sizeof(reply->why), "HTTP status %u%s", status,
                 status == 403 ? ": check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the clock"
                               : "");
    }
}

static enum kv_parse parse(struct kv *kv, struct kv_op *op, const char *bytes, size_t len,
                           struct kv_reply *reply)
{
    struct str all = {bytes, len}, length;
    size_t end = str_find(all, STR("\r\n\r\n"));
    uint64_t status = 0, body = 0;

    (void)kv;
    if (end == SIZE_MAX)
        return len > HEAD_BYTES_MAX ? KV_PARSE_BAD : KV_PARSE_MORE;
    struct str head = {bytes, end};
    if (!str_starts(head, STR("HTTP/1.")) || head.len < 12 ||
        !str_to_u64((struct str){bytes + 9, 3}, &status) || status < 200)
        return KV_PARSE_BAD;
    reply->head = end + 4;
    read_status(op, (unsigned)status, reply);
    length = header(head, STR("content-length"));
    bool chunked = header(head, STR("transfer-encoding")).len > 0;
    bool bodiless = op->verb == KV_EXISTS || status == 204 || status == 304;
    if (!bodiless && length.len > 0 && !str_to_u64(length, &body))
        return KV_PARSE_BAD;
    reply->value = op->verb == KV_GET && reply->result == KV_OK;
    /* A body of unknown length ends with the connection: it is not needed. */
    reply->close = str_eq_nocase(header(head, STR("connection")), STR("close")) ||
                   (!bodiless && (chunked || length.len == 0));
    if (reply->value && (chunked || length.len == 0))
        return KV_PARSE_BAD;
    reply->body = chunked ? 0 : body;
    return KV_PARSE_DONE;
}

static void greet(const struct kv *kv, struct buf *out)
{
    (void)kv;
    (void)out;
}

static struct kv_server *route(struct kv *kv, const char *name)
{
    (void)name;
    return kv->servers[0];
}

/* ---- the URL ---- */

/* "http(s)://host[:port]" */
static enum err read_endpoint(struct kv *kv, struct str url, struct errinfo *info)
{
    bool tls = str_starts(url, STR("https://"));
    size_t skip = tls ? 8 : str_starts(url, STR("http://")) ? 7 : 0;
    struct str host = str_skip(url, skip), port = tls ? STR("443") : STR("80");
    size_t slash = MIN(str_find(host, STR("/")), host.len);
    struct s3 *s3 = kv->own;

    host.len = slash;
    if (skip == 0 ||
        snprintf(s3->host, sizeof(s3->host), STR_FMT, STR_ARG(host)) >= (int)sizeof(s3->host))
        return err_set(info, ERR_INVALID, "AWS_ENDPOINT_URL: expected http(s)://HOST[:PORT]");
    size_t colon = str_find(host, STR(":"));
    if (colon != SIZE_MAX) {
        port = str_skip(host, colon + 1);
        host.len = colon;
    }
    if (tls)
        TRY(tls_open_client(&kv->tls, kv->options.ca_file, info));
    lock_enter(&kv->lock);
    bool added = kv_add_server_locked(kv, host, port) != NULL;
    lock_leave(&kv->lock);
    return added ? ERR_OK : err_set(info, ERR_INVALID, "AWS_ENDPOINT_URL: no host");
}

/* bucket[/prefix] */
enum err kv_s3_init(struct kv *kv, struct str rest, struct errinfo *info)
{
    const char *endpoint = from_env("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", NULL);
    struct s3 *s3 = kv->own = mem_alloc(sizeof(*s3));
    size_t slash = MIN(str_find(rest, STR("/")), rest.len);
    struct str bucket = {rest.ptr, slash}, prefix = str_skip(rest, slash);
    char url[256];

    snprintf(s3->region, sizeof(s3->region), "%s",
             from_env("AWS_REGION", "AWS_DEFAULT_REGION", "us-east-1"));
    snprintf(s3->id, sizeof(s3->id), "%s", from_env("AWS_ACCESS_KEY_ID", NULL, ""));
    snprintf(s3->secret, sizeof(s3->secret), "%s", from_env("AWS_SECRET_ACCESS_KEY", NULL, ""));
    snprintf(s3->token, sizeof(s3->token), "%s", from_env("AWS_SESSION_TOKEN", NULL, ""));
    if (bucket.len == 0 || bucket.len > 63 || prefix.len > sizeof(kv->prefix) - 2)
        return err_set(info, ERR_INVALID, "expected s3://BUCKET/PREFIX");
    if (prefix.len > 1)
        snprintf(kv->prefix, sizeof(kv->prefix), STR_FMT "/", (int)prefix.len - 1, prefix.ptr + 1);
    snprintf(s3->base, sizeof(s3->base), "/");
    if (endpoint != NULL)
        snprintf(s3->base, sizeof(s3->base), "/" STR_FMT "/", STR_ARG(bucket));
    snprintf(url, sizeof(url), "https://" STR_FMT ".s3.%s.amazonaws.com", STR_ARG(bucket),
             s3->region);
    return read_endpoint(kv, str_from(endpoint != NULL ? endpoint : url), info);
}

static void free_own(struct kv *kv)
{
    if (kv->own != NULL)
        seal_wipe(kv->own, sizeof(struct s3));
    mem_free(kv->own);
}

const struct kv_protocol kv_s3 = {
    .name = "s3",
    .depth = 1,
    .conns = 16,
    .part_bytes = UINT64_C(16) << 20,
    .encode = encode,
    .parse = parse,
    .greet = greet,
    .route = route,
    .free = free_own,
};

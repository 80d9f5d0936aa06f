/*
 * broken_http.c: see broken_http.h. A good request is made of parts; a defect replaces one of them,
 * damage falls anywhere.
 */
#include "support/broken_http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "support/http_client.h"
#include "support/test.h"

enum { DEFAULT_COUNT = 300 };

uint64_t broken_http_count(void)
{
    const char *text = getenv("HEARTH_MALFORMED_N");
    uint64_t count;

    return text != NULL && str_to_u64(str_from(text), &count) ? count : DEFAULT_COUNT;
}

/* ---- requests ---- */

/* The parts of a request, so that a defect can be put into one of them. */
struct parts {
    char line[256], host[64], length[256], middle[256];
    char body[256];
};

static void random_word(uint64_t *seed, char *to, size_t len_max)
{
    size_t len = 1 + test_random_below(seed, len_max);

    for (size_t i = 0; i < len; i++)
        to[i] = "abcdefghijklmnopqrstuvwxyz0123456789-"[test_random_below(seed, 37)];
    to[len] = '\0';
}

static void make_good(uint64_t *seed, struct parts *parts)
{
    char word[32], value[32];

    random_word(seed, word, 20);
    snprintf(parts->line, sizeof(parts->line), "POST /echo?%s HTTP/1.1\r\n", word);
    snprintf(parts->host, sizeof(parts->host), "Host: localhost\r\n");
    random_word(seed, value, 20);
    snprintf(parts->middle, sizeof(parts->middle), "X-%s: %s\r\n", word, value);
    if (test_random_below(seed, 2) == 0) {
        snprintf(parts->length, sizeof(parts->length), "Content-Length: %zu\r\n", strlen(value));
        snprintf(parts->body, sizeof(parts->body), "%s", value);
    } else {
        snprintf(parts->length, sizeof(parts->length), "Transfer-Encoding: chunked\r\n");
        snprintf(parts->body, sizeof(parts->body), "%zx\r\n%s\r\n0\r\n\r\n", strlen(value), value);
    }
}

static void join(const struct parts *parts, struct buf *out)
{
    buf_clear(out);
    buf_appendf(out, "%s%s%s%s\r\n%s", parts->line, parts->host, parts->middle, parts->length,
                parts->body);
}

/* ---- defects ---- */

static void set(char *to, const char *text)
{
    snprintf(to, 256, "%s", text);
}

static void lose_cr(uint64_t *seed, struct parts *parts)
{
    char *part[] = {parts->line, parts->middle, parts->length};
    char *end = strstr(part[test_random_below(seed, 3)], "\r\n");

    memmove(end, end + 1, strlen(end));
}

static void lose_lf(uint64_t *seed, struct parts *parts)
{
    char *part[] = {parts->line, parts->middle, parts->length};

    *strchr(part[test_random_below(seed, 3)], '\n') = 'x';
}

static void fold(uint64_t *seed, struct parts *parts)
{
    set(parts->middle,
        test_random_below(seed, 2) ? "X: a\r\n b\r\n" : "X: a\r\n\tContent-Length: 1\r\n");
}

static void break_name(uint64_t *seed, struct parts *parts)
{
    static const char bad[] = " \t\"(),/:;<=>?@[\\]{}\x01\x7f\x80\xff";
    char c = bad[test_random_below(seed, sizeof(bad) - 1)];

    if (c == ':') /* that would only be a shorter name */
        c = ' ';
    snprintf(parts->middle, sizeof(parts->middle), "X%cY: z\r\n", c);
}

static void break_value(uint64_t *seed, struct parts *parts)
{
    static const char bad[] = "\x01\x02\x07\x08\x0b\x0c\x0e\x1b\x1f\x7f";

    snprintf(parts->middle, sizeof(parts->middle), "X: a%cb\r\n",
             bad[test_random_below(seed, sizeof(bad) - 1)]);
}

static void two_lengths(uint64_t *seed, struct parts *parts)
{
    static const char *const lengths[] = {
        "Content-Length: 3\r\nContent-Length: 3\r\n",
        "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: 3, 3\r\n",
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "transfer-encoding: \tchunked,\r\n",
        "Transfer-Encoding: chunk\r\n",
    };
    set(parts->length, lengths[test_random_below(seed, COUNT_OF(lengths))]);
}

static void break_length(uint64_t *seed, struct parts *parts)
{
    static const char *const lengths[] = {
        "-1", "+1", "0x10", "1 1", "1e3", "99999999999999999999999", "one", "1;", "\xb2", ""};

    snprintf(parts->length, sizeof(parts->length), "Content-Length: %s\r\n",
             lengths[test_random_below(seed, COUNT_OF(lengths))]);
}

static void break_chunk(uint64_t *seed, struct parts *parts)
{
    static const char *const bodies[] = {
        "g\r\n",           "-1\r\nx\r\n",       " 1\r\nx\r\n",       "1\nx\r\n0\r\n\r\n",
        "\r\n\r\n",        "0x1\r\nx\r\n",      "1\r\nxx0\r\n\r\n",  "fffffffffffffffff1\r\nx\r\n",
        "1\r\nx0\r\n\r\n", "1\rx\r\n0\r\n\r\n", "1\r\nx\n0\r\n\r\n", ";x\r\n0\r\n\r\n",
    };
    set(parts->length, "Transfer-Encoding: chunked\r\n");
    set(parts->body, bodies[test_random_below(seed, COUNT_OF(bodies))]);
}

static void break_line(uint64_t *seed, struct parts *parts)
{
    static const char *const lines[] = {
        "POST /echo HTTP/1.1 \r\n",
        "POST  /echo HTTP/1.1\r\n",
        "POST /echo  HTTP/1.1\r\n",
        "POST\t/echo HTTP/1.1\r\n",
        " POST /echo HTTP/1.1\r\n",
        "POST /echo HTTP/1.9\r\n",
        "POST /echo HTTP/2.0\r\n",
        "POST /echo HTTP/0.9\r\n",
        "POST /echo http/1.1\r\n",
        "POST /echo\r\n",
        "POST HTTP/1.1\r\n",
        "post /echo HTTP/1.1\r\n",
        "POSTX /echo HTTP/1.1\r\n",
        "POST echo HTTP/1.1\r\n",
        "POST /echo#x HTTP/1.1\r\n",
        "POST /\x80 HTTP/1.1\r\n",
        "POST http://evil/echo HTTP/1.1\r\n",
        "POST * HTTP/1.1\r\n",
        "TRACE /echo HTTP/1.1\r\n",
        "CONNECT localhost:1 HTTP/1.1\r\n",
        "\r\n\r\nPOST /echo HTTP/1.1\r\n",
        "POST /echo HTTP/1.1\r\n\t: x\r\n",
    };
    set(parts->line, lines[test_random_below(seed, COUNT_OF(lines))]);
}

static void break_host(uint64_t *seed, struct parts *parts)
{
    static const char *const hosts[] = {
        "",
        "Host:\r\n",
        "Host: localhost\r\nHost: localhost\r\n",
        "Host: a b\r\n",
        "Host: a,b\r\n",
        "Host: evil.example\r\n",
        "Host: [::1\r\n",
        "Host: localhost:99999\r\n",
        "Host: x@localhost\r\n",
    };
    snprintf(parts->host, sizeof(parts->host), "%s",
             hosts[test_random_below(seed, COUNT_OF(hosts))]);
}

static void lose_colon(uint64_t *seed, struct parts *parts)
{
    set(parts->middle, test_random_below(seed, 2) ? "novalue\r\n" : ": noname\r\n");
}

typedef void (*defect_fn)(uint64_t *seed, struct parts *parts);
static const defect_fn defects[] = {
    lose_cr,      lose_lf,     fold,       break_name, break_value, two_lengths,
    break_length, break_chunk, break_line, break_host, lose_colon,
};

void broken_http_defect(struct buf *request, uint64_t *seed)
{
    struct parts parts;

    make_good(seed, &parts);
    defects[test_random_below(seed, COUNT_OF(defects))](seed, &parts);
    join(&parts, request);
}

void broken_http_good(struct buf *request, uint64_t *seed)
{
    struct parts parts;

    make_good(seed, &parts);
    join(&parts, request);
}

/* ---- random damage ---- */

void broken_http_damage(struct buf *request, uint64_t *seed)
{
    for (uint64_t n = 1 + test_random_below(seed, 4); n > 0 && request->len > 2; n--) {
        size_t at = test_random_below(seed, request->len);
        switch (test_random_below(seed, 4)) {
        case 0:
            request->data[at] = (char)test_random(seed);
            break;
        case 1:                                        /* a piece twice */
            assert_non_null(buf_reserve(request, at)); /* which may move the text */
            memcpy(request->data + request->len, request->data, at);
            buf_commit(request, at);
            break;
        case 2:
            buf_truncate(request, at);
            break;
        default: /* a piece lost */
            memmove(request->data + at / 2, request->data + at, request->len - at);
            buf_truncate(request, request->len - (at - at / 2));
        }
    }
}

/* ---- sending ---- */

/* In one to four pieces; what the server no longer reads is dropped. */
static void send_in_pieces(struct http_client *client, struct str text, uint64_t *seed)
{
    for (uint64_t pieces = test_random_below(seed, 4); pieces > 0 && text.len > 1; pieces--) {
        size_t len = 1 + test_random_below(seed, text.len - 1);
        http_client_try_send(client, (struct str){text.ptr, len});
        text = (struct str){text.ptr + len, text.len - len};
    }
    http_client_try_send(client, text);
}

void broken_http_check_refused(uint16_t port, const struct buf *request, uint64_t *seed)
{
    struct http_client client;
    struct http_answer answer;

    http_client_connect(&client, port);
    send_in_pieces(&client, (struct str){request->data, request->len}, seed);
    http_client_shut(&client);
    bool answered = http_client_answer(&client, false, &answer, NULL);
    if (answered && (answer.status < 400 || answer.keep_alive || !answer.complete))
        fail_msg("status %d for:\n%s", answer.status, request->data);
    assert_true(http_client_wait_closed(&client));
    http_answer_fini(&answer);
    http_client_close(&client);
}

void broken_http_check_survived(uint16_t port, const struct buf *request, uint64_t *seed)
{
    struct http_client client;
    struct http_answer answer;

    http_client_connect(&client, port);
    send_in_pieces(&client, (struct str){request->data, request->len}, seed);
    if (test_random_below(seed, 8) == 0) {
        http_client_reset(&client);
        return;
    }
    http_client_shut(&client);
    while (http_client_answer(&client, false, &answer, NULL)) {
        assert_true(answer.status >= 200 && answer.status < 600 && answer.complete);
        http_answer_fini(&answer);
    }
    http_answer_fini(&answer);
    http_client_close(&client);
}

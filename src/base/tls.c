/*
 * tls.c: libssl, without its headers: every struct of it is opaque, and the functions used have had
 * the same signatures since 1.1. Macros of its headers are the numbers below.
 *
 * A server's session has two memory BIOs, so that the owner of the socket does all reading and
 * writing, and libssl never blocks. They grow by what is fed and sealed at a time, and no more.
 */
#include "base/tls.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "base/library.h"
#include "base/mem.h"

/* X(result, name, arguments) */
#define TLS_TABLE(X)                                                            \
    X(void *, TLS_client_method, (void))                                        \
    X(void *, TLS_server_method, (void))                                        \
    X(void *, SSL_CTX_new, (void *))                                            \
    X(void, SSL_CTX_free, (void *))                                             \
    X(long, SSL_CTX_ctrl, (void *, int, long, void *))                          \
    X(uint64_t, SSL_CTX_set_options, (void *, uint64_t))                        \
    X(int, SSL_CTX_set_default_verify_paths, (void *))                          \
    X(int, SSL_CTX_load_verify_locations, (void *, const char *, const char *)) \
    X(void, SSL_CTX_set_verify, (void *, int, void *))                          \
    X(void, SSL_CTX_set_default_passwd_cb, (void *, no_password_fn))            \
    X(int, SSL_CTX_use_certificate_chain_file, (void *, const char *))          \
    X(int, SSL_CTX_use_PrivateKey_file, (void *, const char *, int))            \
    X(int, SSL_CTX_check_private_key, (const void *))                           \
    X(void *, SSL_new, (void *))                                                \
    X(void, SSL_free, (void *))                                                 \
    X(int, SSL_set_fd, (void *, int))                                           \
    X(void, SSL_set_bio, (void *, void *, void *))                              \
    X(void, SSL_set_accept_state, (void *))                                     \
    X(long, SSL_ctrl, (void *, int, long, void *))                              \
    X(int, SSL_set1_host, (void *, const char *))                               \
    X(int, SSL_connect, (void *))                                               \
    X(int, SSL_is_init_finished, (const void *))                                \
    X(int, SSL_read, (void *, void *, int))                                     \
    X(int, SSL_write, (void *, const void *, int))                              \
    X(int, SSL_shutdown, (void *))                                              \
    X(int, SSL_get_error, (const void *, int))                                  \
    X(long, SSL_get_verify_result, (const void *))                              \
    X(const char *, X509_verify_cert_error_string, (long))                      \
    X(const void *, BIO_s_mem, (void))                                          \
    X(void *, BIO_new, (const void *))                                          \
    X(int, BIO_free, (void *))                                                  \
    X(int, BIO_read, (void *, void *, int))                                     \
    X(int, BIO_write, (void *, const void *, int))                              \
    X(size_t, BIO_ctrl_pending, (void *))                                       \
    X(void, ERR_clear_error, (void))                                            \
    X(unsigned long, ERR_peek_last_error, (void))                               \
    X(const char *, ERR_reason_error_string, (unsigned long))

enum {
    CTRL_SET_MIN_VERSION = 123,
    VERSION_1_2 = 0x0303,
    VERIFY_PEER = 1,
    CTRL_SET_HOST_NAME = 55,
    CTRL_MODE = 33,
    MODE_PARTIAL_WRITE = 1,
    MODE_MOVING_BUFFER = 2, /* a retry may come from another address */
    MODE_RELEASE_BUFFERS = 16,
    OPTION_NO_RENEGOTIATION = 1 << 30,
    FILE_PEM = 1,
    ERROR_WANT_READ = 2,
    ERROR_WANT_WRITE = 3,
    ERROR_SYSCALL = 5,
    ERROR_ZERO_RETURN = 6,
    PIECE_BYTES_MAX = 1 << 20,
    REASON_BYTES = 160,
};

typedef int (*no_password_fn)(char *to, int size, int writing, void *arg);

/* Of the whole process. */
static struct {
#define X(result, name, arguments) result(*name) arguments;
    TLS_TABLE(X)
#undef X
    enum err err;
    struct errinfo info;
} ssl;

static pthread_once_t once = PTHREAD_ONCE_INIT;

struct tls {
    void *context;
};

struct tls_session {
    void *handle;
    void *in, *out; /* memory BIOs that the handle owns; NULL: it has a socket */
    enum tls_state state;
    char reason[REASON_BYTES];
};

static void load(void)
{
    static const char *const names[] = {"libssl.so.3", "libssl.so.1.1", NULL};
    static const struct library_symbol symbols[] = {
#define X(result, name, arguments) {#name, (void **)&ssl.name},
        TLS_TABLE(X)
#undef X
    };
    static const struct library library = {
        .names = names,
        .purpose = "TLS",
        .package = "libssl (Debian: apt install libssl3)",
        .symbols = symbols,
        .symbols_count = COUNT_OF(symbols),
    };

    ssl.err = library_load(&library, &ssl.info);
}

/* The last reason that libssl recorded on this thread. */
static const char *reason(void)
{
    unsigned long code = ssl.ERR_peek_last_error();
    const char *text = code != 0 ? ssl.ERR_reason_error_string(code) : NULL;

    return text != NULL ? text : "no reason given";
}

/* ---- contexts ---- */

static enum err open_context(struct tls **out, bool server, struct errinfo *info)
{
    *out = NULL;
    pthread_once(&once, load);
    if (ssl.err != ERR_OK)
        return err_set(info, ssl.err, "%s", ssl.info.text);
    ssl.ERR_clear_error();
    void *context = ssl.SSL_CTX_new(server ? ssl.TLS_server_method() : ssl.TLS_client_method());
    if (context == NULL)
        return err_set(info, ERR_NOMEM, "libssl cannot make a context: %s", reason());
    struct tls *tls = mem_alloc(sizeof(*tls));
    tls->context = context;
    *out = tls;
    (void)ssl.SSL_CTX_ctrl(context, CTRL_SET_MIN_VERSION, VERSION_1_2, NULL);
    (void)ssl.SSL_CTX_ctrl(context, CTRL_MODE,
                           MODE_PARTIAL_WRITE | MODE_MOVING_BUFFER | MODE_RELEASE_BUFFERS, NULL);
    (void)ssl.SSL_CTX_set_options(context, OPTION_NO_RENEGOTIATION);
    return ERR_OK;
}

enum err tls_open_client(struct tls **tls, const char *ca_file, struct errinfo *info)
{
    TRY(open_context(tls, false, info));
    void *context = (*tls)->context;
    int good = ca_file != NULL ? ssl.SSL_CTX_load_verify_locations(context, ca_file, NULL)
                               : ssl.SSL_CTX_set_default_verify_paths(context);
    ssl.SSL_CTX_set_verify(context, VERIFY_PEER, NULL);
    if (good == 1)
        return ERR_OK;
    tls_close(tls);
    return err_set(info, ERR_INVALID, "cannot read certificates from %s: %s",
                   ca_file != NULL ? ca_file : "the system's folders", reason());
}

/* Without this, libssl would ask at the terminal. */
static int no_password(char *to, int size, int writing, void *arg)
{
    (void)to, (void)size, (void)writing, (void)arg;
    return -1;
}

enum err tls_open_server(struct tls **tls, const char *cert_file, const char *key_file,
                         struct errinfo *info)
{
    enum err err = ERR_OK;

    TRY(open_context(tls, true, info));
    void *context = (*tls)->context;
    ssl.SSL_CTX_set_default_passwd_cb(context, no_password);
    if (ssl.SSL_CTX_use_certificate_chain_file(context, cert_file) != 1)
        err = err_set(info, ERR_INVALID, "cannot read a certificate from %s: %s", cert_file,
                      reason());
    else if (ssl.SSL_CTX_use_PrivateKey_file(context, key_file, FILE_PEM) != 1 ||
             ssl.SSL_CTX_check_private_key(context) != 1)
        err = err_set(info, ERR_INVALID, "cannot use the key in %s with the certificate in %s: %s",
                      key_file, cert_file, reason());
    if (err != ERR_OK)
        tls_close(tls);
    return err;
}

void tls_close(struct tls **tls)
{
    if (*tls == NULL)
        return;
    ssl.SSL_CTX_free((*tls)->context); /* sessions have counted references */
    mem_free(*tls);
    *tls = NULL;
}

void tls_session_destroy(struct tls_session **session)
{
    if (*session == NULL)
        return;
    ssl.SSL_free((*session)->handle);
    mem_free(*session);
    *session = NULL;
}

static struct tls_session *create_session(const struct tls *tls)
{
    ssl.ERR_clear_error();
    void *handle = ssl.SSL_new(tls->context);
    if (handle == NULL)
        return NULL;
    struct tls_session *session = mem_alloc(sizeof(*session));
    session->handle = handle;
    return session;
}

/* ---- clients ---- */

enum err tls_session_connect(struct tls_session **out, const struct tls *tls, int fd,
                             const char *host, struct errinfo *info)
{
    struct tls_session *session = create_session(tls);

    *out = session;
    if (session == NULL)
        return err_set(info, ERR_NOMEM, "libssl has no memory");
    (void)ssl.SSL_ctrl(session->handle, CTRL_SET_HOST_NAME, 0, (void *)(uintptr_t)host);
    if (ssl.SSL_set1_host(session->handle, host) == 1 && ssl.SSL_set_fd(session->handle, fd) == 1)
        return ERR_OK;
    tls_session_destroy(out);
    return err_set(info, ERR_NOMEM, "libssl refuses the host name %s", host);
}

/* What a result means: bytes, 0 (would block) or -1. */
static ssize_t moved(struct tls_session *session, int result, short *wants)
{
    *wants = 0;
    if (result > 0)
        return result;
    int why = ssl.SSL_get_error(session->handle, result);
    *wants = why == ERROR_WANT_READ ? POLLIN : why == ERROR_WANT_WRITE ? POLLOUT : 0;
    return *wants != 0 ? 0 : -1;
}

enum err tls_session_handshake(struct tls_session *session, short *wants, struct errinfo *info)
{
    ssl.ERR_clear_error();
    ssize_t result = moved(session, ssl.SSL_connect(session->handle), wants);
    if (result != 0)
        session->state = result > 0 ? TLS_STATE_OPEN : TLS_STATE_FAILED;
    if (result > 0)
        return ERR_OK;
    if (result == 0)
        return ERR_BUSY;
    long verified = ssl.SSL_get_verify_result(session->handle);
    return err_set(info, ERR_IO, "TLS handshake failed: %s",
                   verified != 0 ? ssl.X509_verify_cert_error_string(verified) : reason());
}

ssize_t tls_session_write(struct tls_session *session, const void *data, size_t len, short *wants)
{
    ssl.ERR_clear_error();
    return moved(session,
                 ssl.SSL_write(session->handle, data, (int)MIN(len, (size_t)PIECE_BYTES_MAX)),
                 wants);
}

ssize_t tls_session_read(struct tls_session *session, void *to, size_t len, short *wants)
{
    ssl.ERR_clear_error();
    return moved(session, ssl.SSL_read(session->handle, to, (int)MIN(len, (size_t)PIECE_BYTES_MAX)),
                 wants);
}

/* ---- servers ---- */

struct tls_session *tls_session_accept(const struct tls *tls)
{
    struct tls_session *session = create_session(tls);

    if (session == NULL)
        return NULL;
    session->in = ssl.BIO_new(ssl.BIO_s_mem());
    session->out = ssl.BIO_new(ssl.BIO_s_mem());
    if (session->in == NULL || session->out == NULL) {
        ssl.BIO_free(session->in);
        ssl.BIO_free(session->out);
        tls_session_destroy(&session);
        return NULL;
    }
    ssl.SSL_set_bio(session->handle, session->in, session->out);
    ssl.SSL_set_accept_state(session->handle);
    return session;
}

enum tls_state tls_session_state(const struct tls_session *session)
{
    return session->state;
}

const char *tls_session_reason(const struct tls_session *session)
{
    return session->reason;
}

static void fail(struct tls_session *session, const char *why)
{
    session->state = TLS_STATE_FAILED;
    snprintf(session->reason, sizeof(session->reason), "%s", why);
}

/* Notes what a result says about the session. */
static void note(struct tls_session *session, int result)
{
    int why = result > 0 ? 0 : ssl.SSL_get_error(session->handle, result);

    if (session->state == TLS_STATE_HANDSHAKE && ssl.SSL_is_init_finished(session->handle) == 1)
        session->state = TLS_STATE_OPEN;
    if (result > 0 || why == ERROR_WANT_READ || why == ERROR_WANT_WRITE)
        return;
    if (why == ERROR_ZERO_RETURN)
        session->state = TLS_STATE_ENDED;
    else
        fail(session, why == ERROR_SYSCALL ? "the connection broke" : reason());
}

bool tls_session_feed(struct tls_session *session, struct str bytes)
{
    ssl.ERR_clear_error();
    return ssl.BIO_write(session->in, bytes.ptr, (int)bytes.len) == (int)bytes.len;
}

size_t tls_session_open(struct tls_session *session, void *to, size_t len)
{
    if (session->state >= TLS_STATE_ENDED)
        return 0;
    ssl.ERR_clear_error();
    int got = ssl.SSL_read(session->handle, to, (int)MIN(len, (size_t)INT_MAX));
    note(session, got);
    return got > 0 ? (size_t)got : 0;
}

bool tls_session_seal(struct tls_session *session, struct str bytes)
{
    if (session->state != TLS_STATE_OPEN && session->state != TLS_STATE_ENDED)
        return false;
    while (bytes.len > 0) {
        ssl.ERR_clear_error();
        int done =
            ssl.SSL_write(session->handle, bytes.ptr, (int)MIN(bytes.len, (size_t)PIECE_BYTES_MAX));
        if (done <= 0) { /* memory is all it can want */
            fail(session, reason());
            return false;
        }
        bytes = (struct str){bytes.ptr + done, bytes.len - (size_t)done};
    }
    return true;
}

void tls_session_end(struct tls_session *session)
{
    if (session->state != TLS_STATE_OPEN && session->state != TLS_STATE_ENDED)
        return;
    ssl.ERR_clear_error();
    (void)ssl.SSL_shutdown(session->handle); /* only writes the alert: nothing is waited for */
}

size_t tls_session_pending(struct tls_session *session)
{
    return ssl.BIO_ctrl_pending(session->out);
}

enum err tls_session_take(struct tls_session *session, struct buf *out)
{
    size_t pending = ssl.BIO_ctrl_pending(session->out);
    char piece[16 * 1024];

    while (pending > 0) {
        int got = ssl.BIO_read(session->out, piece, (int)MIN(pending, sizeof(piece)));
        if (got <= 0)
            return ERR_NOMEM;
        TRY(buf_append(out, piece, (size_t)got));
        pending -= (size_t)got;
    }
    return ERR_OK;
}

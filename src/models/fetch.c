/* fetch.c: libcurl by dlopen. Names of options are numbers of its stable interface. */
#include "models/fetch.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/library.h"

/* Of curl/curl.h, which is not needed to build: the type of a value is its number's ten thousands. */
enum {
    OPT_WRITEDATA = 10001,
    OPT_URL = 10002,
    OPT_ERRORBUFFER = 10010,
    OPT_USERAGENT = 10018,
    OPT_LOW_SPEED_LIMIT = 19,
    OPT_LOW_SPEED_TIME = 20,
    OPT_HTTPHEADER = 10023,
    OPT_FOLLOWLOCATION = 52,
    OPT_MAXREDIRS = 68,
    OPT_CONNECTTIMEOUT = 78,
    OPT_NOSIGNAL = 99,
    OPT_PROTOCOLS = 181,
    OPT_REDIR_PROTOCOLS = 182,
    OPT_WRITEFUNCTION = 20011,
    OPT_RESUME_FROM_LARGE = 30116,
    INFO_RESPONSE_CODE = 0x200002,
    PROTOCOLS_HTTP_AND_HTTPS = 3,
    CODE_WRITE_ERROR = 23,
    CODE_RANGE_ERROR = 33, /* the server ignores ranges */
    ERROR_BYTES = 256,
    HEADER_BYTES_MAX = 64 << 10,
    STALL_S = 30,
};

/* Of the whole process; the library is never unloaded. */
static struct {
    void *(*easy_init)(void);
    int (*setopt)(void *easy, int option, ...);
    int (*perform)(void *easy);
    int (*getinfo)(void *easy, int info, ...);
    void (*cleanup)(void *easy);
    void *(*append)(void *list, const char *text);
    void (*free_list)(void *list);
    const char *(*describe)(int code);
} curl;

static enum err load(struct errinfo *info)
{
    /* GnuTLS's form first: OpenSSL's needs a libcrypto that may be here in another version. */
    static const char *const names[] = {"libcurl-gnutls.so.4", "libcurl.so.4", NULL};
    static const struct library_symbol symbols[] = {
        {"curl_easy_init", (void **)&curl.easy_init},
        {"curl_easy_setopt", (void **)&curl.setopt},
        {"curl_easy_perform", (void **)&curl.perform},
        {"curl_easy_getinfo", (void **)&curl.getinfo},
        {"curl_easy_cleanup", (void **)&curl.cleanup},
        {"curl_slist_append", (void **)&curl.append},
        {"curl_slist_free_all", (void **)&curl.free_list},
        {"curl_easy_strerror", (void **)&curl.describe},
    };

    return library_load(&(struct library){.names = names,
                                          .purpose = "a download",
                                          .package = "libcurl (Debian: apt install libcurl4)",
                                          .symbols = symbols,
                                          .symbols_count = COUNT_OF(symbols)},
                        info);
}

struct transfer {
    const struct fetch *fetch;
    void *easy;
};

static size_t take(const char *data, size_t size, size_t count, void *arg)
{
    struct transfer *transfer = arg;
    long status = 0;

    curl.getinfo(transfer->easy, INFO_RESPONSE_CODE, &status);
    return transfer->fetch->on_data(status, data, size * count, transfer->fetch->arg) ? size * count
                                                                                      : 0;
}

static void set_options(const struct fetch *fetch, struct transfer *transfer, void *headers,
                        char *error)
{
    static const struct {
        int option;
        long value;
    } numbers[] = {
        {OPT_FOLLOWLOCATION, 1},
        {OPT_MAXREDIRS, 8},
        {OPT_NOSIGNAL, 1},
        {OPT_CONNECTTIMEOUT, STALL_S},
        {OPT_LOW_SPEED_LIMIT, 1},
        {OPT_LOW_SPEED_TIME, STALL_S},
        {OPT_PROTOCOLS, PROTOCOLS_HTTP_AND_HTTPS},
        {OPT_REDIR_PROTOCOLS, PROTOCOLS_HTTP_AND_HTTPS},
    };

    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        curl.setopt(transfer->easy, numbers[i].option, numbers[i].value);
    curl.setopt(transfer->easy, OPT_URL, fetch->url);
    curl.setopt(transfer->easy, OPT_USERAGENT, "hearth");
    curl.setopt(transfer->easy, OPT_ERRORBUFFER, error);
    curl.setopt(transfer->easy, OPT_WRITEFUNCTION, take);
    curl.setopt(transfer->easy, OPT_WRITEDATA, transfer);
    if (headers != NULL)
        curl.setopt(transfer->easy, OPT_HTTPHEADER, headers);
    if (fetch->from > 0)
        curl.setopt(transfer->easy, OPT_RESUME_FROM_LARGE, (int64_t)fetch->from);
}

/* Without a token there are none: NULL. */
static enum err make_headers(const struct fetch *fetch, void **headers, struct errinfo *info)
{
    struct buf header;

    *headers = NULL;
    if (fetch->token == NULL)
        return ERR_OK;
    buf_init(&header, HEADER_BYTES_MAX);
    buf_appendf(&header, "Authorization: Bearer %s", fetch->token);
    enum err err = header.err;
    if (err == ERR_OK && (*headers = curl.append(NULL, buf_str(&header))) == NULL)
        err = ERR_NOMEM;
    buf_fini(&header);
    return err == ERR_OK ? err : err_set(info, err, "the token: %s", err_sentence(err));
}

enum err fetch_run(const struct fetch *fetch, long *status, struct errinfo *info)
{
    struct transfer transfer = {.fetch = fetch};
    char error[ERROR_BYTES] = "";
    void *headers;

    *status = 0;
    if (curl.describe == NULL)
        TRY(load(info));
    TRY(make_headers(fetch, &headers, info));
    transfer.easy = curl.easy_init();
    if (transfer.easy == NULL) {
        curl.free_list(headers);
        return err_set(info, ERR_NOMEM, "no memory for a download");
    }
    set_options(fetch, &transfer, headers, error);
    int code = curl.perform(transfer.easy);
    curl.getinfo(transfer.easy, INFO_RESPONSE_CODE, status);
    curl.cleanup(transfer.easy);
    curl.free_list(headers);
    if (code == CODE_WRITE_ERROR)
        return err_set(info, ERR_CANCELLED, "cancelled");
    if (code != 0)
        return err_set(info, code == CODE_RANGE_ERROR ? ERR_INVALID : ERR_CLOSED, "%s",
                       error[0] != '\0' ? error : curl.describe(code));
    return ERR_OK;
}

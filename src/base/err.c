/*
 * err.c: the table of errors and the formatting of their texts.
 *
 * Nothing is allocated here: out-of-memory errors must be reportable without memory.
 */
#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static const struct {
    const char *name;
    const char *sentence;
} err_table[] = {
#define X(value, name, sentence) [value] = {name, sentence},
    ERR_TABLE(X)
#undef X
};

const char *err_name(enum err code)
{
    return (unsigned)code < ERR_COUNT ? err_table[code].name : "unknown";
}

const char *err_sentence(enum err code)
{
    return (unsigned)code < ERR_COUNT ? err_table[code].sentence : "unknown error";
}

static void set_text(struct errinfo *info, const char *fmt, va_list args, const char *suffix)
{
    int len = vsnprintf(info->text, sizeof(info->text), fmt, args);

    if (len < 0)
        len = 0;
    if (suffix && (size_t)len < sizeof(info->text))
        len += snprintf(info->text + len, sizeof(info->text) - (size_t)len, ": %s", suffix);
    if ((size_t)len >= sizeof(info->text))
        info->text[utf8_whole((struct str){info->text, sizeof(info->text) - 1})] = '\0';
}

enum err err_set(struct errinfo *info, enum err code, const char *fmt, ...)
{
    assert(code != ERR_OK);
    if (info) {
        va_list args;
        va_start(args, fmt);
        info->code = code;
        info->retry_s = 0;
        set_text(info, fmt, args, NULL);
        va_end(args);
    }
    return code;
}

enum err err_set_errno(struct errinfo *info, int errnum, const char *fmt, ...)
{
    enum err code = err_from_errno(errnum);

    if (info) {
        char reason[128];
        va_list args;
        va_start(args, fmt);
        info->code = code;
        info->retry_s = 0;
        /* GNU strerror_r may return its own string instead of filling the buffer. */
        set_text(info, fmt, args, strerror_r(errnum, reason, sizeof(reason)));
        va_end(args);
    }
    return code;
}

enum err err_wrap(struct errinfo *info, enum err code, const char *fmt, ...)
{
    assert(code != ERR_OK);
    if (info) {
        struct errinfo old = *info;
        va_list args;
        va_start(args, fmt);
        info->code = code;
        set_text(info, fmt, args, old.text[0] ? old.text : err_sentence(code));
        va_end(args);
    }
    return code;
}

enum err err_from_errno(int errnum)
{
    switch (errnum) {
    case ENOMEM:
        return ERR_NOMEM;
    case ENOENT:
    case ENOTDIR:
        return ERR_NOT_FOUND;
    case EEXIST:
    case ENOTEMPTY:
        return ERR_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
        return ERR_DENIED;
    case ENOSPC:
    case EDQUOT:
        return ERR_NO_SPACE;
    case EMFILE:
    case ENFILE:
    case EFBIG:
    case E2BIG:
    case ENAMETOOLONG:
        return ERR_LIMIT;
    case EINVAL:
    case EISDIR:
        return ERR_INVALID;
    case EBUSY:
    case EWOULDBLOCK:
    case ETXTBSY:
    case EADDRINUSE:
        return ERR_BUSY;
    case ETIMEDOUT:
        return ERR_TIMEOUT;
    case ECANCELED:
        return ERR_CANCELLED;
    case EPIPE:
    case ECONNRESET:
    case EBADF:
        return ERR_CLOSED;
    case ENOSYS:
    case EOPNOTSUPP:
        return ERR_UNSUPPORTED;
    default:
        return ERR_IO;
    }
}

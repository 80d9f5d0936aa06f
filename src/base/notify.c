/*
 * notify.c: one connected datagram socket.
 *
 * A manager that does not read never blocks us: a message that cannot be sent at once is lost, and
 * periodic messages are sent again anyway.
 */
#include "base/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"

enum { MESSAGE_BYTES_MAX = 1024 };

void notify_open(struct notify *notify, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = path != NULL ? strlen(path) : 0;

    notify->fd = -1;
    if (len < 2 || len >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(address.sun_path, path, len);
    if (path[0] == '@')
        address.sun_path[0] = '\0'; /* a name, not a file */
    notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (path[0] == '/'));
    if (notify->fd >= 0 && connect(notify->fd, (struct sockaddr *)&address, size) != 0)
        notify_close(notify);
}

void notify_close(struct notify *notify)
{
    if (notify->fd >= 0)
        close(notify->fd);
    notify->fd = -1;
}

bool notify_send(const struct notify *notify, const char *fmt, ...)
{
    char text[MESSAGE_BYTES_MAX];
    va_list args;

    if (notify->fd < 0)
        return false;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (len <= 0 || (size_t)len >= sizeof(text))
        return false;
    return send(notify->fd, text, (size_t)len, MSG_NOSIGNAL) == len;
}

static bool read_number(const char *text, uint64_t *number)
{
    return text != NULL && str_to_u64(str_from(text), number);
}

uint64_t notify_watchdog_ns(const char *usec, const char *pid, pid_t self)
{
    uint64_t interval, wanted;

    if (!read_number(usec, &interval) || interval > UINT64_MAX / NS_PER_US)
        return 0;
    if (pid != NULL && (!read_number(pid, &wanted) || wanted != (uint64_t)self))
        return 0; /* meant for another process, from which we inherited the environment */
    return interval * NS_PER_US;
}

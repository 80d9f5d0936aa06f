/*
 * canned_server.c: accept, read a request, write, close.
 */
#include "support/canned_server.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/attr.h"
#include "support/test.h"

/* Up to the end of the head, and the body "{}" that the tests send. */
static bool is_whole(const char *request)
{
    const char *end = strstr(request, "\r\n\r\n");

    return end != NULL && (strstr(request, "Content-Length") == NULL || end[4] != '\0');
}

static void serve(void *arg)
{
    struct canned_server *server = arg;
    int fd = accept(server->fd, NULL, NULL), one = 1;
    size_t len = 0;

    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    while (!is_whole(server->request) && len + 1 < sizeof(server->request)) {
        ssize_t got = recv(fd, server->request + len, sizeof(server->request) - 1 - len, 0);
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    for (size_t at = 0; at < server->len; at += server->step)
        if (send(fd, server->answer + at, MIN(server->step, server->len - at), MSG_NOSIGNAL) < 0)
            break;
    close(fd);
}

void canned_server_start(struct canned_server *server, const char *answer, size_t len, size_t step)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);

    *server = (struct canned_server){.answer = answer, .len = len, .step = step};
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(server->fd, 4), 0);
    assert_int_equal(getsockname(server->fd, (struct sockaddr *)&address, &size), 0);
    server->port = ntohs(address.sin_port);
    assert_ok(thread_start(&server->thread, "canned", serve, server, NULL));
}

void canned_server_stop(struct canned_server *server)
{
    shutdown(server->fd, SHUT_RDWR); /* wakes an accept without a client */
    thread_join(&server->thread);
    close(server->fd);
}

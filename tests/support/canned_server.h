/*
 * canned_server.h: a server that says the same to everyone, a few bytes at a time, and closes. For
 * tests of clients.
 *
 * It serves one connection. Owner: the test's thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

struct canned_server {
    uint16_t port;
    int fd;
    const char *answer;
    size_t len, step;
    char request[4096]; /* what was asked, as far as it came before the answer; after stop */
    struct thread thread;
};

/* `answer` must live until stop; `step` bytes are sent at a time. */
void canned_server_start(struct canned_server *server, const char *answer, size_t len, size_t step);
/* Waits until it has answered; one without a request ends at once. */
void canned_server_stop(struct canned_server *server);

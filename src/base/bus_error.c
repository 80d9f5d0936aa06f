/*
 * bus_error.c: see the header. The handler makes only async-signal-safe calls: it finds the file of
 * an address by reading /proc/self/maps into static memory, one line at a time.
 */
#include "base/bus_error.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

enum { LINE_BYTES = 4096 + 128, BLOCK_BYTES = 4096 };

static atomic_flag entered = ATOMIC_FLAG_INIT;

static void say(const char *text)
{
    size_t len = strlen(text);

    while (len > 0) {
        ssize_t sent = write(STDERR_FILENO, text, len);
        if (sent <= 0)
            return; /* there is nowhere else to report it */
        text += sent;
        len -= (size_t)sent;
    }
}

/* Reads hexadecimal digits. */
static uintptr_t read_hex(const char **text)
{
    uintptr_t value = 0;

    for (; str_hex(**text) >= 0; (*text)++)
        value = value * 16 + (uintptr_t)str_hex(**text);
    return value;
}

/* "begin-end perms offset device inode   /path": the path, if the address is in it. */
static const char *path_in_line(const char *line, uintptr_t address)
{
    uintptr_t begin = read_hex(&line);

    if (*line++ != '-' || address < begin || address >= read_hex(&line))
        return NULL;
    return strchr(line, '/');
}

/* The mapped file that contains the address; NULL when there is none. */
static const char *find_file(uintptr_t address)
{
    static char line[LINE_BYTES], block[BLOCK_BYTES];
    const char *path = NULL;
    size_t used = 0;
    ssize_t got;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

    while (fd >= 0 && path == NULL && (got = read(fd, block, sizeof(block))) > 0)
        for (ssize_t i = 0; i < got && path == NULL; i++) {
            if (block[i] != '\n') {
                if (used + 1 < sizeof(line))
                    line[used++] = block[i];
                continue;
            }
            line[used] = '\0';
            used = 0;
            path = path_in_line(line, address);
        }
    if (fd >= 0)
        close(fd);
    return path;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (atomic_flag_test_and_set(&entered))
        for (;;) /* another thread reports it and ends the process */
            pause();
    const char *path = info->si_code == BUS_ADRERR ? find_file((uintptr_t)info->si_addr) : NULL;
    if (path == NULL) {
        signal(number, SIG_DFL);
        raise(number); /* takes effect when the handler returns */
        atomic_flag_clear(&entered);
        return;
    }
    say("hearth: a mapped page of ");
    say(path);
    say(" cannot be read: the file became shorter, or its disk fails. Start hearth again. Replace "
        "a model file by renaming a new one over it, never in place; or use --no-mmap, which reads "
        "weights into memory.\n");
    _exit(BUS_ERROR_EXIT);
}

void bus_error_install(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};

    sigemptyset(&action.sa_mask);
    (void)sigaction(SIGBUS, &action, NULL); /* fails only for invalid signal numbers */
}

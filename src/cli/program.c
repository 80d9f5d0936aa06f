/* program.c: see the header. */
#include "cli/program.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/sysinfo.h"
#include "cli/cli.h"
#include "engine/backend.h"
#include "engine/engine.h"
#include "engine/worker_main.h"
#include "engine/worker_process.h"

/* Our parent may have closed a standard stream. The next file we open would take its number, and
 * output would end up in a cache file. So the descriptor is filled with a file that cannot be
 * used in the stream's direction: using it is still an error. */
static void hold_standard_streams(const struct file_sys *fs)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        int held = FILE_NO;
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        if (file_open_at(fs, AT_FDCWD, "/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY, 0,
                         &held, NULL) != ERR_OK)
            return;
    }
}

void program_prepare(char **argv, const char *command)
{
    /* When ggml aborts, it starts a debugger on the process, which then hangs for minutes where
     * one is installed. Set before `environ` is handed over; children inherit it. A value set by
     * the user is kept. */
    (void)setenv("GGML_NO_BACKTRACE", "1", 0);
    if (command != NULL && (strcmp(command, "serve") == 0 || strcmp(command, "worker") == 0))
        backend_wait_briefly(argv);
}

int program_run(const struct command *const *commands, int argc, char **argv)
{
    struct cli_setup setup = {
        .commands = commands,
        .fs = file_sys_real(),
        .clock = clock_real(),
        .out = stdout,
        .err = stderr,
        .env = (const char *const *)environ,
        .memory_bytes = sysinfo_memory_total(),
    };

    /* An engine's child process is this program as well; users do not type this. */
    if (argc == 2 && strcmp(argv[1], WORKER_ARGUMENT) == 0)
        return worker_main(WORKER_SOCKET, engine_load);
    hold_standard_streams(setup.fs);
    return cli_main(&setup, argc, argv);
}

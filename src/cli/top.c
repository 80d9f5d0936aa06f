/*
 * top.c: `hearth top`: a running server, live in the terminal; one picture when the output goes
 * elsewhere.
 *
 * The terminal's size is read before every picture, so a resize only needs a redraw. Keys: q quits,
 * any other key redraws at once. The terminal is always restored: a signal only sets a flag.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/top_view.h"

enum { PICTURE_BYTES_MAX = 4 << 20, ANSWER_MS_MAX = 5000 };

struct top_options {
    struct remote_options remote;
    uint64_t interval_ns;
    bool once;
};

#define AT(field) offsetof(struct top_options, field)

static const struct option_desc options_table[] = {
    {"interval", 'i', OPTION_DURATION, AT(interval_ns), .value = "TIME", .initial = "1s",
     .min = 50 * NS_PER_MS, .max = 3600 * NS_PER_S, .group = "View", .help = "Refresh interval."},
    {"once", 0, OPTION_FLAG, AT(once), HERE, .help = "Print once and exit."},
    REMOTE_OPTIONS(struct top_options, remote),
};

struct top {
    struct cli *cli;
    const struct top_options *options;
    struct remote remote;
    char url[CLIENT_URL_BYTES];
    yyjson_doc *stats, *requests; /* the latest answers */
    struct errinfo trouble;
    struct termios before;
    bool raw; /* the terminal is in raw mode */
};

/* Set by signals: a handler can only access globals. */
static volatile sig_atomic_t ended, resized;

static void on_signal(int signal)
{
    if (signal == SIGWINCH)
        resized = 1;
    else
        ended = 1;
}

/* ---- answers ---- */

/* Keeps the last answers when the server does not respond. */
static enum err renew(struct top *top, const char *path, yyjson_doc **doc)
{
    yyjson_doc *fresh;
    enum err err = remote_ask_json(&top->remote, path, NULL, &fresh, &top->trouble);

    if (err != ERR_OK)
        return err;
    yyjson_doc_free(*doc);
    *doc = fresh;
    return ERR_OK;
}

static enum err renew_all(struct top *top)
{
    top->trouble = (struct errinfo){0};
    TRY(renew(top, "/admin/stats", &top->stats));
    return renew(top, "/admin/requests", &top->requests);
}

static void draw(struct top *top, bool screen)
{
    struct winsize size = {0};
    struct buf picture;

    if (screen)
        ioctl(fileno(top->cli->out), TIOCGWINSZ, &size);
    const struct top_view view = {
        .url = top->url,
        .trouble = top->trouble.text[0] != '\0' ? top->trouble.text : NULL,
        .stats = yyjson_doc_get_root(top->stats),
        .requests = yyjson_doc_get_root(top->requests),
        .columns = size.ws_col,
        .rows = size.ws_row,
        .color = screen && top->cli->color,
        .screen = screen,
    };
    buf_init(&picture, PICTURE_BYTES_MAX);
    top_view_draw(&view, &picture);
    fwrite(buf_str(&picture), 1, picture.len, top->cli->out);
    fflush(top->cli->out);
    buf_fini(&picture);
}

/* ---- the terminal ---- */

static void take_terminal(struct top *top)
{
    struct termios raw;
    struct sigaction action = {.sa_handler = on_signal}; /* without SA_RESTART: poll is to end */

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGWINCH, &action, NULL);
    if (tcgetattr(STDIN_FILENO, &top->before) == 0) {
        raw = top->before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VSUSP] = _POSIX_VDISABLE; /* stopping it would leave the terminal in raw mode */
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        top->raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
    }
    fputs("\x1b[?1049h\x1b[?25l", top->cli->out); /* the alternate screen, without a cursor */
}

static void give_terminal_back(struct top *top)
{
    fputs("\x1b[?25h\x1b[?1049l", top->cli->out);
    fflush(top->cli->out);
    if (top->raw)
        tcsetattr(STDIN_FILENO, TCSANOW, &top->before);
}

/* Waits for the next picture, a key, or a signal. False: quit. */
static bool wait_for_next(struct top *top)
{
    struct pollfd keys = {.fd = top->raw ? STDIN_FILENO : -1, .events = POLLIN};
    char key = 0;

    int got = poll(&keys, 1, (int)(top->options->interval_ns / NS_PER_MS));
    if (got < 0 && errno != EINTR)
        return false;
    if (got > 0 && (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q'))
        return false;
    return !ended;
}

static enum cli_exit run_live(struct top *top)
{
    enum err err = renew_all(top);

    if (err == ERR_DENIED) /* retrying does not help */
        return cli_error(top->cli, "%s", top->trouble.text);
    take_terminal(top);
    do {
        draw(top, true);
        if (!wait_for_next(top))
            break;
        if (resized)
            resized = 0;
        else
            (void)!renew_all(top);
    } while (!ferror(top->cli->out));
    give_terminal_back(top);
    return CLI_EXIT_OK;
}

static enum cli_exit show_once(struct top *top)
{
    if (renew_all(top) != ERR_OK)
        return cli_error(top->cli, "%s", top->trouble.text);
    draw(top, false);
    return CLI_EXIT_OK;
}

static enum cli_exit run(struct cli *cli, const void *options)
{
    struct top top = {.cli = cli, .options = options};
    struct errinfo info = {0};

    enum err err = remote_open(&top.remote, cli, &top.options->remote, &info);
    if (err != ERR_OK)
        return cli_fail(cli, err, &info);
    client_url_text(&top.remote.url, top.url);
    /* a slow server must not freeze the picture */
    top.remote.timeout_ms = MIN(top.remote.timeout_ms, (uint64_t)ANSWER_MS_MAX);
    bool live = !top.options->once && isatty(fileno(cli->out));
    enum cli_exit status = live ? run_live(&top) : show_once(&top);
    yyjson_doc_free(top.stats);
    yyjson_doc_free(top.requests);
    return status;
}

const struct command command_top = {
    .name = "top",
    .summary = "Monitor a running server: what is reused, and from which tier.",
    .usage = "[options]",
    .table = {.command = "top", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct top_options),
    .run = run,
};

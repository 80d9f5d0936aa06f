/* sheets.c: sheets to files and to the terminal. */
#include "lab/cli/sheets.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/sysinfo.h"
#include "base/units.h"
#include "engine/backend.h"
#include "engine/engine.h"
#include "cli/process.h"
#include "version.h"

enum { TEXT_BYTES_MAX = 64 << 20 };

const char *cli_machine(const struct cli *cli)
{
    char memory[UNITS_TEXT_BYTES];

    return arena_printf(cli->arena, "%u cores, %s", sysinfo_cores(),
                        units_format_size(sysinfo_memory_total(), memory));
}

static const char *text_or_none(const char *text)
{
    return text != NULL ? text : ""; /* the arena is full */
}

const char *cli_machine_line(const struct cli *cli)
{
    return text_or_none(arena_printf(cli->arena, "hearth %s (%s, %s), libllama %s; %s",
                                     HEARTH_VERSION, HEARTH_COMMIT, HEARTH_VARIANT,
                                     engine_library_version(), text_or_none(cli_machine(cli))));
}

void cli_fact_machine(const struct cli *cli, struct sheet *sheet)
{
    sheet_fact_text(sheet, "hearth", HEARTH_VERSION);
    sheet_fact_text(sheet, "commit", HEARTH_COMMIT);
    sheet_fact_text(sheet, "libllama", engine_library_version());
    sheet_fact_text(sheet, "machine", text_or_none(cli_machine(cli)));
}

void cli_note_machine(const struct cli *cli, struct sheet *sheet)
{
    sheet_note(sheet, "%s", cli_machine_line(cli));
    cli_fact_machine(cli, sheet);
}

static bool is_stdout(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

bool cli_write_text(const struct cli *cli, const char *path, const struct buf *text)
{
    const struct file_sys *fs = cli->setup->fs;
    struct errinfo info = {0};
    int fd = FILE_NO;

    if (is_stdout(path)) {
        fwrite(buf_str(text), 1, text->len, cli->out);
        return true;
    }
    enum err err = file_open_at(fs, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0644, &fd, &info);
    if (err == ERR_OK)
        err = file_write_at(fs, fd, text->data, text->len, 0, &info);
    file_close(fs, &fd);
    if (err != ERR_OK)
        cli_error(cli, "%s: %s", path, info.text);
    return err == ERR_OK;
}

/* Writes one format, or a picture if there is no `form`; nothing if the path is NULL. */
static bool write_form(const struct cli *cli, const char *path, const struct sheet *sheet,
                       enum err (*form)(const struct sheet *sheet, struct buf *out),
                       const struct plot *plot)
{
    struct buf text;

    if (path == NULL)
        return true;
    buf_init(&text, TEXT_BYTES_MAX);
    enum err err = form != NULL ? form(sheet, &text) : plot_write(sheet, plot, &text);
    bool written = err == ERR_OK && cli_write_text(cli, path, &text);
    if (err != ERR_OK)
        cli_error(cli, "%s", err_sentence(err));
    buf_fini(&text);
    return written;
}

enum cli_exit cli_write_sheet(const struct cli *cli, const struct sheet_outputs *outputs,
                              const struct sheet *sheet, const struct plot *plot)
{
    bool table = !is_stdout(outputs->json) && !is_stdout(outputs->csv) && !is_stdout(outputs->svg);
    bool good = write_form(cli, table ? "-" : NULL, sheet, sheet_write_table, NULL);

    good &= write_form(cli, outputs->json, sheet, sheet_write_json, NULL);
    good &= write_form(cli, outputs->csv, sheet, sheet_write_csv, NULL);
    good &= write_form(cli, outputs->svg, sheet, NULL, plot);
    return good ? CLI_EXIT_OK : CLI_EXIT_FAILURE;
}

int cli_take_turn(const struct cli *cli)
{
    bool busy;
    int turn = process_lock(false, &busy);

    if (!busy)
        return turn;
    fprintf(cli->err, "waiting for another hearth qa or bench to end\n");
    return process_lock(true, &busy);
}

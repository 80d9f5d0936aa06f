/*
 * help.c: `hearth help [COMMAND]`, and what --help prints; with --man manual pages, with --ini a
 * template INI file. Options come from the option tables; the descriptions of commands are below.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "cli/config.h"
#include "cli/serve.h"
#include "version.h"

struct help_options {
    bool man, ini;
};

#define AT(field) offsetof(struct help_options, field)

static const struct option_desc options_table[] = {
    {"man", 0, OPTION_FLAG, AT(man), HERE,
     .help = "Print the manual page of hearth, a command or hearth.ini in man(1) format."},
    {"ini", 0, OPTION_FLAG, AT(ini), HERE,
     .help = "Print an INI file with every setting of `hearth serve`."},
};

enum { HELP_BYTES_MAX = 1 << 20, COLUMNS_DEFAULT = 80, COLUMNS_MAX = 110 };

/* The terminal's width, if it is one, limited: very long lines are harder to read than wrapped
 * ones. */
static int columns_of(FILE *file)
{
    struct winsize size;
    int fd = fileno(file);

    if (fd < 0 || ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return COLUMNS_DEFAULT;
    return MIN(size.ws_col, COLUMNS_MAX);
}

void cli_print_overview(const struct cli_setup *setup, FILE *to)
{
    fputs("usage: hearth COMMAND [options]\n"
          "       hearth --version | --help\n"
          "\n"
          "An LLM server that never prefills the same tokens twice.\n"
          "\n"
          "Commands:\n",
          to);
    for (const struct command *const *command = setup->commands; *command != NULL; command++)
        fprintf(to, "  %-10s %s\n", (*command)->name, (*command)->summary);
    if (setup->commands == cli_commands)
        fputs("\nOf hearth-lab: bench, qa, replay, model make.\n", to);
    fputs("\n'hearth COMMAND --help' lists the options of a command. Exit status: 0 success,\n1 "
          "failure, 2 usage error.\n",
          to);
}

enum cli_exit cli_print_help(const struct cli *cli, const struct command *command)
{
    const struct option_table *table = common_table(command, cli->arena);
    struct buf text;

    buf_init(&text, HELP_BYTES_MAX);
    buf_appendf(&text, "usage: hearth %s%s%s\n\n%s\n\n", command->name,
                command->usage[0] != '\0' ? " " : "", command->usage, command->summary);
    return cli_print_text(
        cli, table ? option_help(table, &text, columns_of(cli->out)) : cli->arena->err, &text);
}

/* ---- manual pages: man(7), the simplest form that every man page reader supports ---- */

static const char ini_page[] = "hearth.ini";

/* The text of a page besides its table: paragraphs and examples, ended by NULL. */
struct page_text {
    const char *page;
    const char *about;
    const char *const *examples; /* line, meaning, line, meaning, ..., NULL */
};

static const char *const overview_examples[] = {
    "hearth serve model.gguf",
    "Serve a model on port 4327 of this machine.",
    "hearth serve demo",
    "Try it without a model: a small one that knows hearth comes with the program.",
    "hearth doctor",
    "Check this machine.",
    NULL,
};

static const char *const serve_examples[] = {
    "hearth serve model.gguf",
    "One model, on the loopback interface, without keys.",
    "hearth serve -m chat=big.gguf -m small=small.gguf --model-ttl 10m",
    "Two models, loaded on demand and unloaded after ten idle minutes.",
    "hearth serve model.gguf --host 0.0.0.0 --api-key-file keys",
    "Accessible from other machines, with one NAME:KEY per line in the key file.",
    NULL,
};

static const struct page_text texts[] = {
    {"",
     "hearth serves GGUF models to clients of OpenAI, Anthropic and Ollama. It keeps the state of "
     "the prompt "
     "prefixes it has computed: on the device, in RAM and on SSD. One log line per request says "
     "what was reused, and why the rest was computed.",
     overview_examples},
    {"serve",
     "Loads the models, prints the addresses and settings for clients, and serves until SIGINT or "
     "SIGTERM. Running answers may then take as long as --drain says; a second signal ends the "
     "server at once. SIGHUP reads the key files, the TLS certificate and the log level again.\n"
     "A model is a file, a folder, user/repo[:QUANT] of the Hugging Face cache, or the name of an "
     "Ollama model.\n"
     "The server notifies systemd when it is ready and, with WatchdogSec=, while its engines are "
     "alive.",
     serve_examples},
    {"cache",
     "A REQUEST is a file with the body of a request, or plain text, which is a prompt; - is "
     "standard input. A KEY is shown by ls, and may be abbreviated as long as it is unique.",
     NULL},
    {"bench", "docs/bench.md explains the figures.", NULL},
    {"help", "--man prints manual pages, --ini a commented file of settings.", NULL},
};

static const struct page_text *text_of(const char *page)
{
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (strcmp(texts[i].page, page) == 0)
            return &texts[i];
    return NULL;
}

/* ---- parts of a page ---- */

static void append_head(struct buf *out, const char *name, int section)
{
    buf_append_str(out, ".TH ");
    for (const char *c = name; *c; c++) {
        char upper = (char)toupper((unsigned char)*c);
        option_roff(out, (struct str){&upper, 1});
    }
    buf_appendf(out, " %d %s \"hearth %s\" \"hearth manual\"\n", section, HEARTH_DATE,
                HEARTH_VERSION);
}

static void append_section(struct buf *out, const char *title)
{
    buf_appendf(out, ".SH %s\n", title);
}

static enum err append_name(struct buf *out, struct arena *arena, const char *name,
                            const char *summary)
{
    struct str text = str_from(summary);

    if (str_ends(text, STR(".")))
        text.len--; /* by convention of this section */
    const char *line = arena_printf(arena, "%s - " STR_FMT, name, STR_ARG(text));
    if (line == NULL)
        return arena->err;
    append_section(out, "NAME");
    option_roff_text(out, str_from(line));
    return ERR_OK;
}

static void append_paragraphs(struct buf *out, const char *text)
{
    struct str rest = str_from(text), paragraph;

    for (bool first = true; str_next(&rest, '\n', &paragraph); first = false) {
        if (!first)
            buf_append_str(out, ".PP\n");
        option_roff_text(out, paragraph);
    }
}

static void append_examples(struct buf *out, const char *const *examples)
{
    append_section(out, "EXAMPLES");
    for (; *examples != NULL; examples += 2) {
        buf_append_str(out, ".TP\n\\fB");
        option_roff(out, str_from(examples[0]));
        buf_append_str(out, "\\fR\n");
        option_roff_text(out, str_from(examples[1]));
    }
}

/* All other pages. */
static void append_see_also(struct buf *out, const struct cli_setup *setup, const char *page)
{
    bool ini = strcmp(page, ini_page) == 0;

    append_section(out, "SEE ALSO");
    for (const struct command *const *command = setup->commands; *command != NULL; command++) {
        if (strcmp((*command)->name, page) == 0)
            continue;
        buf_append_str(out, ".BR hearth\\-");
        option_roff(out, str_from((*command)->name));
        buf_append_str(out, " (1),\n");
    }
    if (page[0] != '\0')
        buf_appendf(out, ".BR hearth (1)%s\n", ini ? "" : ",");
    if (!ini)
        buf_appendf(out, ".BR %s (5)\n", ini_page);
}

static void append_ends(struct buf *out)
{
    append_section(out, "ENVIRONMENT");
    option_roff_text(out,
                     STR("Every option can also be set by the environment variable shown in "
                         "brackets. The command line takes precedence. NO_COLOR is honoured."));
    append_section(out, "FILES");
    buf_append_str(out, ".TP\n.I ~/.config/hearth/hearth.ini\n");
    option_roff_text(out, STR("Settings. Environment and command line take precedence. --config or "
                              "HEARTH_CONFIG selects another file."));
    append_section(out, "EXIT STATUS");
    option_roff_text(
        out, STR("0: success. 1: failure. 2: usage error in arguments, environment or INI file."));
}

/* ---- pages ---- */

static enum err write_overview(const struct cli_setup *setup, struct arena *arena, struct buf *out)
{
    const struct page_text *text = text_of("");

    append_head(out, "hearth", 1);
    TRY(append_name(out, arena, "hearth",
                    "serve language models and never prefill the same tokens twice"));
    append_section(out, "SYNOPSIS");
    buf_append_str(out, ".B hearth\n.I COMMAND\n[\\fIoptions\\fR]\n");
    append_section(out, "DESCRIPTION");
    append_paragraphs(out, text->about);
    append_section(out, "COMMANDS");
    for (const struct command *const *command = setup->commands; *command != NULL; command++) {
        buf_append_str(out, ".TP\n.BR hearth\\-");
        option_roff(out, str_from((*command)->name));
        buf_append_str(out, " (1)\n");
        option_roff_text(out, str_from((*command)->summary));
    }
    append_examples(out, text->examples);
    append_ends(out);
    append_see_also(out, setup, "");
    return out->err;
}

static enum err write_command(const struct cli_setup *setup, const struct command *command,
                              struct arena *arena, struct buf *out)
{
    const struct option_table *table = common_table(command, arena);
    const struct page_text *text = text_of(command->name);
    const char *name = arena_printf(arena, "hearth-%s", command->name);

    if (table == NULL || name == NULL)
        return arena->err;
    append_head(out, name, 1);
    TRY(append_name(out, arena, name, command->summary));
    append_section(out, "SYNOPSIS");
    buf_append_str(out, ".B hearth ");
    option_roff(out, str_from(command->name));
    buf_append_char(out, '\n');
    option_roff_text(out, str_from(command->usage));
    append_section(out, "DESCRIPTION");
    option_roff_text(out, str_from(command->summary));
    if (text != NULL) {
        buf_append_str(out, ".PP\n");
        append_paragraphs(out, text->about);
    }
    append_section(out, "OPTIONS");
    TRY(option_man(table, OPTION_MAN_OPTIONS, out));
    buf_append_str(out, ".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nShow the options.\n");
    if (text != NULL && text->examples != NULL)
        append_examples(out, text->examples);
    append_ends(out);
    append_see_also(out, setup, command->name);
    return out->err;
}

static bool has_keys(const struct option_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        if (!table->options[i].not_in_file && !table->options[i].hidden)
            return true;
    return false;
}

static enum err write_ini(const struct cli_setup *setup, struct arena *arena, struct buf *out)
{
    append_head(out, ini_page, 5);
    TRY(append_name(out, arena, ini_page, "settings of hearth"));
    append_section(out, "DESCRIPTION");
    append_paragraphs(
        out,
        "Lines \"name = value\", sections \"[name]\", and comments that begin with # or ;. A "
        "line has 198 bytes at most.\nA section with the name of a command has the settings of "
        "that command. Keys before any section apply to every command that has them. The "
        "environment and the command line take precedence.\nA section \"[model NAME]\" has the "
        "settings of one model. They take precedence over settings for all models, even over "
        "those on the command line. A list has one line for each item.\nSizes are written as "
        "4096, 64K, 8GiB (all powers of 1024), or as a percentage of the machine's memory; times "
        "as 90, 90s, "
        "1h30m, 250ms; flags as on and off. Unknown names are errors.");
    for (const struct command *const *command = setup->commands; *command != NULL; command++) {
        if (!has_keys(&(*command)->table))
            continue;
        buf_appendf(out, ".SH [%s]\n", (*command)->name);
        buf_appendf(out, "Of\n.BR hearth\\-%s (1).\n", (*command)->name);
        TRY(option_man(&(*command)->table, OPTION_MAN_KEYS, out));
    }
    append_section(out, "[model NAME]");
    TRY(option_man(&serve_preset_table, OPTION_MAN_KEYS, out));
    append_section(out, "FILES");
    buf_append_str(out, ".I /etc/hearth/hearth.ini\nis what the service reads,\n.I "
                        "~/.config/hearth/hearth.ini\nwhat a user\\(aqs own "
                        "commands read.\n");
    append_see_also(out, setup, ini_page);
    return out->err;
}

enum err cli_write_man(const struct cli_setup *setup, const char *page, struct arena *arena,
                       struct buf *out)
{
    if (page[0] == '\0')
        return write_overview(setup, arena, out);
    if (strcmp(page, ini_page) == 0)
        return write_ini(setup, arena, out);
    const struct command *command = cli_command_named(setup, page);
    return command != NULL ? write_command(setup, command, arena, out) : ERR_NOT_FOUND;
}

enum err cli_write_example(const struct cli_setup *setup, struct arena *arena, struct buf *out)
{
    const struct command *command = cli_command_named(setup, "serve");
    const struct option_table *table = command != NULL ? common_table(command, arena) : NULL;

    if (table == NULL)
        return command != NULL ? arena->err : ERR_NOT_FOUND;
    buf_append_str(out,
                   "# hearth.ini: settings of hearth serve; hearth.ini(5) explains the format.\n"
                   "# Lines that are commented out show the default, or the kind of value.\n"
                   "# HEARTH_... is the environment variable that overrides the setting.\n"
                   "\n[serve]\n");
    return option_example(table, out);
}

/* ---- the command ---- */

/* A manual page, or the template INI file. */
static enum cli_exit print_text(const struct cli *cli, bool man, const char *page)
{
    struct buf text;

    buf_init(&text, HELP_BYTES_MAX);
    return cli_print_text(cli,
                          man ? cli_write_man(cli->setup, page, cli->arena, &text)
                              : cli_write_example(cli->setup, cli->arena, &text),
                          &text);
}

static enum cli_exit run(struct cli *cli, const void *options)
{
    const struct help_options *help = options;
    const char *name = cli->args_count > 0 ? cli->args[0] : "";

    if (help->ini && (help->man || name[0] != '\0'))
        return cli_usage_error(cli, "--ini takes no other arguments");
    if (help->ini || (help->man && (name[0] == '\0' || strcmp(name, ini_page) == 0)))
        return print_text(cli, help->man, name);
    if (name[0] == '\0') {
        cli_print_overview(cli->setup, cli->out);
        return CLI_EXIT_OK;
    }
    const struct command *command = cli_find_command(cli, name);
    if (command == NULL)
        return CLI_EXIT_USAGE;
    return help->man ? print_text(cli, true, name) : cli_print_help(cli, command);
}

const struct command command_help = {
    .name = "help",
    .summary = "Show help for hearth or a command.",
    .usage = "[options] [COMMAND]",
    .table = {.command = "help", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct help_options),
    .args_max = 1,
    .ignores_config = true,
    .run = run,
};

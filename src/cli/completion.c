/*
 * completion.c: `hearth completion SHELL`: a script that completes commands, options and their
 * values, from the same tables as the help.
 *
 * The script is self-contained and does not call the program: completion works while the
 * program is being replaced, and costs nothing. What is completed:
 *
 *      hearth <commands>        hearth serve --<options>    hearth serve --log-level <names>
 *      hearth model <words>     hearth serve -<letters>     hearth serve --template-file <files>
 *                               MODEL <files>               hearth serve --models-dir <folders>
 *
 * A flag that is on by default is offered as --no-NAME, as in the help.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/option.h"
#include "cli/cli.h"
#include "cli/config.h"

enum { SCRIPT_BYTES_MAX = 1 << 20, NAME_BYTES = 96 };

/* The kind of value that an option takes. */
enum value_kind {
    VALUE_NONE, /* it is a flag */
    VALUE_CHOICE,
    VALUE_FILE,
    VALUE_FOLDER,
    VALUE_OTHER, /* numbers, names: nothing to offer */
};

static bool has(const char *word, const char *part)
{
    return word != NULL && strstr(word, part) != NULL;
}

static enum value_kind value_kind(const struct option_desc *desc)
{
    const char *word = option_value_word(desc);

    if (desc->type == OPTION_FLAG)
        return VALUE_NONE;
    if (desc->type == OPTION_ENUM)
        return VALUE_CHOICE;
    if (has(word, "FILE") || has(word, "MODEL"))
        return VALUE_FILE;
    return has(word, "DIR") ? VALUE_FOLDER : VALUE_OTHER;
}

/* "host", "no-color" */
static const char *long_name(const struct option_desc *desc, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "%s%s", option_spelling(desc).negative ? "no-" : "", desc->name);
    return out;
}

/* Every spelling of an option, with `between` after each. */
static void append_spellings(struct buf *out, const struct option_desc *desc, const char *between)
{
    char name[NAME_BYTES];

    buf_appendf(out, "--%s%s", long_name(desc, name), between);
    if (desc->letter != 0)
        buf_appendf(out, "-%c%s", desc->letter, between);
    if (desc->alias != NULL)
        buf_appendf(out, "%s%s%s", option_spelling(desc).alias_dashes, desc->alias, between);
}

static void append_names(struct buf *out, const char *const *names)
{
    for (int i = 0; names[i] != NULL; i++)
        buf_appendf(out, "%s%s", i ? " " : "", names[i]);
}

static void append_commands(struct buf *out, const struct cli_setup *setup)
{
    for (size_t i = 0; setup->commands[i] != NULL; i++)
        buf_appendf(out, "%s%s", i ? " " : "", setup->commands[i]->name);
}

/* What the first argument of a command can be: its own words, or for `help` all commands. Otherwise
 * it is a file, or anything. */
static bool has_words(const struct command *command)
{
    return command->word != NULL || strcmp(command->name, "help") == 0;
}

static void append_words(struct buf *out, const struct cli_setup *setup,
                         const struct command *command)
{
    const char *word;

    if (command->word == NULL)
        append_commands(out, setup);
    for (size_t i = 0; command->word != NULL && (word = command->word(i)) != NULL; i++)
        buf_appendf(out, "%s%s", i ? " " : "", word);
}

/* ---- bash ---- */

static void bash_value(struct buf *out, const struct option_desc *desc)
{
    enum value_kind kind = value_kind(desc);

    if (kind == VALUE_NONE || desc->hidden)
        return;
    buf_append_str(out, "        ");
    append_spellings(out, desc, " | ");
    buf_truncate(out, out->len - MIN(out->len, strlen(" | ")));
    buf_append_str(out, ") ");
    if (kind == VALUE_CHOICE) {
        buf_append_str(out, "_hearth_offer '");
        append_names(out, desc->names);
        buf_append_str(out, "' ;;\n");
    } else {
        buf_appendf(out, "%s ;;\n",
                    kind == VALUE_FILE     ? "_hearth_files -f"
                    : kind == VALUE_FOLDER ? "_hearth_files -d"
                                           : "return 0");
    }
}

static void bash_command(struct buf *out, const struct cli_setup *setup,
                         const struct command *command, const struct option_table *table)
{
    buf_appendf(out, "    %s)\n        case $prev in\n", command->name);
    for (size_t i = 0; i < table->count; i++)
        bash_value(out, &table->options[i]);
    buf_append_str(out, "        *)\n            case $cur in\n            -*) _hearth_offer '");
    for (size_t i = 0; i < table->count; i++)
        if (!table->options[i].hidden)
            append_spellings(out, &table->options[i], " ");
    buf_append_str(out, "--help' ;;\n            *) ");
    if (has_words(command)) {
        buf_append_str(out, "if [ \"$COMP_CWORD\" = 2 ]; then _hearth_offer '");
        append_words(out, setup, command);
        buf_append_str(out, "'; else _hearth_files -f; fi ;;\n");
    } else {
        buf_append_str(out, "_hearth_files -f ;;\n");
    }
    buf_append_str(out, "            esac\n            ;;\n        esac\n        ;;\n");
}

static void bash_head(struct buf *out, const struct cli_setup *setup)
{
    buf_append_str(out,
                   "# bash completion for hearth, by `hearth completion bash`.\n"
                   "# shellcheck shell=bash\n"
                   "_hearth_offer() { mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\"); }\n"
                   "_hearth_files() { mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$cur\"); "
                   "compopt -o filenames 2>/dev/null; return 0; }\n"
                   "_hearth() {\n"
                   "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
                   "    COMPREPLY=()\n"
                   "    # bash takes --name=value for three words\n"
                   "    if [ \"$cur\" = = ]; then cur=; elif [ \"$prev\" = = ]; then "
                   "prev=${COMP_WORDS[COMP_CWORD - 2]}; fi\n"
                   "    if [ \"$COMP_CWORD\" = 1 ]; then\n        _hearth_offer '");
    append_commands(out, setup);
    buf_append_str(out,
                   " --help --version'\n        return 0\n    fi\n    case ${COMP_WORDS[1]} in\n");
}

static const char bash_tail[] = "    esac\n}\ncomplete -F _hearth hearth\n";

/* ---- zsh ---- */

/* Text inside '...[text]:...': characters special to _arguments are escaped. */
static void zsh_text(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            buf_append_str(out, "'\\''");
        else if (strchr("[]:\\", *text) != NULL)
            buf_appendf(out, "\\%c", *text);
        else
            buf_append_char(out, *text);
    }
}

static void zsh_spelling(struct buf *out, const struct option_desc *desc, const char *dashes,
                         const char *name)
{
    const char *word = option_value_word(desc);
    enum value_kind kind = value_kind(desc);

    buf_appendf(out, "            '%s%s%s%s[", desc->type == OPTION_LIST ? "*" : "", dashes, name,
                kind == VALUE_NONE ? "" : "=");
    zsh_text(out, desc->help);
    buf_append_char(out, ']');
    if (kind != VALUE_NONE) {
        buf_append_char(out, ':');
        zsh_text(out, word != NULL ? word : desc->name);
        buf_append_char(out, ':');
    }
    if (kind == VALUE_CHOICE) {
        buf_append_char(out, '(');
        append_names(out, desc->names);
        buf_append_char(out, ')');
    } else if (kind == VALUE_FILE) {
        buf_append_str(out, "_files");
    } else if (kind == VALUE_FOLDER) {
        buf_append_str(out, "_files -/");
    }
    buf_append_str(out, "' \\\n");
}

static void zsh_option(struct buf *out, const struct option_desc *desc)
{
    char name[NAME_BYTES], letter[2] = {desc->letter, '\0'};

    if (desc->hidden)
        return;
    zsh_spelling(out, desc, "--", long_name(desc, name));
    if (desc->letter != 0)
        zsh_spelling(out, desc, "-", letter);
    if (desc->alias != NULL)
        zsh_spelling(out, desc, option_spelling(desc).alias_dashes, desc->alias);
}

static void zsh_head(struct buf *out, const struct cli_setup *setup)
{
    buf_append_str(out, "#compdef hearth\n"
                        "# zsh completion for hearth, by `hearth completion zsh`.\n"
                        "_hearth() {\n"
                        "    local -a commands=(\n");
    for (size_t i = 0; setup->commands[i] != NULL; i++) {
        buf_appendf(out, "        '%s:", setup->commands[i]->name);
        zsh_text(out, setup->commands[i]->summary);
        buf_append_str(out, "'\n");
    }
    buf_append_str(out, "    )\n"
                        "    if (( CURRENT == 2 )); then\n"
                        "        _describe command commands\n"
                        "        return\n"
                        "    fi\n"
                        "    local command=$words[2]\n"
                        "    shift words\n"
                        "    (( CURRENT-- ))\n"
                        "    case $command in\n");
}

static void zsh_command(struct buf *out, const struct cli_setup *setup,
                        const struct command *command, const struct option_table *table)
{
    buf_appendf(out, "    %s)\n        _arguments \\\n", command->name);
    for (size_t i = 0; i < table->count; i++)
        zsh_option(out, &table->options[i]);
    buf_append_str(out, "            '--help[Show the options.]' \\\n");
    if (has_words(command)) {
        buf_append_str(out, "            '1:what:(");
        append_words(out, setup, command);
        buf_append_str(out, ")' \\\n");
    }
    buf_append_str(out, "            '*:file:_files'\n        ;;\n");
}

static const char zsh_tail[] = "    esac\n}\nif [ \"$funcstack[1]\" = _hearth ]; then _hearth "
                               "\"$@\"; else compdef _hearth hearth; fi\n";

/* ---- fish ---- */

static void fish_text(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            buf_append_char(out, '\\');
        buf_append_char(out, *text);
    }
}

static void fish_option(struct buf *out, const struct command *command,
                        const struct option_desc *desc)
{
    enum value_kind kind = value_kind(desc);
    char name[NAME_BYTES];

    if (desc->hidden)
        return;
    buf_appendf(out, "complete -c hearth -n '__fish_seen_subcommand_from %s' -l %s", command->name,
                long_name(desc, name));
    if (desc->letter != 0)
        buf_appendf(out, " -s %c", desc->letter);
    if (desc->alias != NULL)
        buf_appendf(out, " -%c %s", option_spelling(desc).alias_dashes[1] != '\0' ? 'l' : 'o',
                    desc->alias);
    if (kind == VALUE_CHOICE) {
        buf_append_str(out, " -x -a '");
        append_names(out, desc->names);
        buf_append_char(out, '\'');
    } else if (kind != VALUE_NONE) {
        buf_append_str(out, kind == VALUE_FILE     ? " -r -F"
                            : kind == VALUE_FOLDER ? " -x -a '(__fish_complete_directories)'"
                                                   : " -x");
    }
    buf_append_str(out, " -d '");
    fish_text(out, desc->help);
    buf_append_str(out, "'\n");
}

static void fish_head(struct buf *out, const struct cli_setup *setup)
{
    buf_append_str(out, "# fish completion for hearth, by `hearth completion fish`.\n");
    for (size_t i = 0; setup->commands[i] != NULL; i++) {
        buf_appendf(out, "complete -c hearth -n __fish_use_subcommand -f -a %s -d '",
                    setup->commands[i]->name);
        fish_text(out, setup->commands[i]->summary);
        buf_append_str(out, "'\n");
    }
}

static void fish_command(struct buf *out, const struct cli_setup *setup,
                         const struct command *command, const struct option_table *table)
{
    if (has_words(command)) {
        buf_appendf(out, "complete -c hearth -n '__fish_seen_subcommand_from %s' -f -a '",
                    command->name);
        append_words(out, setup, command);
        buf_append_str(out, "'\n");
    }
    for (size_t i = 0; i < table->count; i++)
        fish_option(out, command, &table->options[i]);
}

/* ---- the command ---- */

struct shell {
    const char *name;
    void (*head)(struct buf *out, const struct cli_setup *setup);
    void (*command)(struct buf *out, const struct cli_setup *setup, const struct command *command,
                    const struct option_table *table);
    const char *tail;
};

static const struct shell shells[] = {
    {"bash", bash_head, bash_command, bash_tail},
    {"zsh", zsh_head, zsh_command, zsh_tail},
    {"fish", fish_head, fish_command, ""},
};

static const char *shell_name(size_t number)
{
    return number < COUNT_OF(shells) ? shells[number].name : NULL;
}

static enum err write_script(const struct cli *cli, const struct shell *shell, struct buf *out)
{
    const struct cli_setup *setup = cli->setup;

    shell->head(out, setup);
    for (const struct command *const *command = setup->commands; *command != NULL; command++) {
        const struct option_table *table = common_table(*command, cli->arena);
        if (table == NULL)
            return cli->arena->err;
        shell->command(out, setup, *command, table);
    }
    buf_append_str(out, shell->tail);
    return out->err;
}

static enum cli_exit run(struct cli *cli, const void *options)
{
    const struct shell *shell = NULL;
    struct buf script;

    (void)options;
    for (size_t i = 0; i < COUNT_OF(shells); i++)
        if (strcmp(shells[i].name, cli->args[0]) == 0)
            shell = &shells[i];
    if (shell == NULL)
        return cli_usage_error(cli, "unknown shell \"%s\"; expected bash, zsh or fish",
                               cli->args[0]);
    buf_init(&script, SCRIPT_BYTES_MAX);
    return cli_print_text(cli, write_script(cli, shell, &script), &script);
}

const struct command command_completion = {
    .name = "completion",
    .summary = "Print a shell completion script.",
    .usage = "bash | zsh | fish",
    .table = {.command = "completion"},
    .args_min = 1,
    .args_max = 1,
    .word = shell_name,
    .ignores_config = true,
    .run = run,
};

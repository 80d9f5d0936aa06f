/*
 * options.c: see options.h.
 */
#include "support/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/option_impl.h"
#include "support/test.h"

enum { ARGS_MAX = 32 };

#define AT(field) offsetof(struct options_values, field)

const char *const options_formats[] = {"text", "json", "binary", NULL};
static const struct option_desc options[] = {
    {"host", 0, OPTION_TEXT, AT(host), .value = "ADDRESS", .initial = "127.0.0.1",
     .help = "Address to listen on.", .group = "Network"},
    {"port", 'p', OPTION_UINT, AT(port), .initial = "4117", .max = 65535,
     .help = "Port to listen on; 0 lets the system choose."},
    {"api-key", 0, OPTION_TEXT, AT(key), .value = "KEY", .help = "Key that clients must send.",
     .secret = true},
    {"ram-cache", 'r', OPTION_SIZE, AT(ram), .initial = "10%", .min = 4096,
     .help = "Memory for the cache.", .group = "Cache"},
    {"wait", 0, OPTION_DURATION, AT(wait), .initial = "1s", .max = 1500 * NS_PER_MS,
     .help = "How long to wait."},
    {"shift", 's', OPTION_INT, AT(shift), .imin = -5, .imax = 5, .help = "Positions to shift by.",
     .alias = "sh"},
    {"heat", 0, OPTION_FLOAT, AT(heat), .initial = "0.8", .fmin = 0, .fmax = 2, .help = "Heat."},
    {"verbose", 'v', OPTION_FLAG, AT(verbose), .help = "Say more."},
    {"exact", 'x', OPTION_FLAG, AT(exact), .help = "Same bits as a cold run."},
    {"color", 0, OPTION_FLAG, AT(color), .initial = "on", .help = "Do without colours."},
    {"format", 'f', OPTION_ENUM, AT(format), .initial = "json", .names = options_formats,
     .help = "Shape of the output."},
    {"model", 'm', OPTION_LIST, AT(models), .value = "FILE", .alias = "np",
     .help = "A model to load; with a path, or with the name of a file in the folder of models."},
};
const struct option_table options_table = {"serve", options, COUNT_OF(options)};

struct options_got options_got;

enum err options_parse_all(const char *line, const char *ini, const char *const *env)
{
    static char text[1024];
    char *argv[ARGS_MAX];
    int argc = 0;

    snprintf(text, sizeof(text), "%s", line);
    for (char *rest = text, *word; (word = strsep(&rest, " ")) != NULL;)
        if (word[0] != '\0')
            argv[argc++] = word;
    arena_fini(&options_got.arena);
    arena_init(&options_got.arena, 1 << 20);
    memset(&options_got.values, 0xA5,
           sizeof(options_got.values)); /* nothing may be left as it was */
    memset(&options_got.info, 0, sizeof(options_got.info));
    const struct option_table *const *others = options_got.parse.others;
    const char *named = options_got.parse.named;
    options_got.parse = (struct option_parse){.arena = &options_got.arena,
                                              .whole = 1000000,
                                              .ini_text = ini,
                                              .ini_name = "h.ini",
                                              .env = env,
                                              .others = others,
                                              .named = named};
    return option_parse(&options_table, argc, argv, &options_got.values, &options_got.parse,
                        &options_got.info);
}

enum err options_parse(const char *line)
{
    return options_parse_all(line, NULL, NULL);
}

void options_expect_error(const char *line, const char *sentence)
{
    assert_err(options_parse(line), ERR_INVALID);
    assert_string_equal(options_got.info.text, sentence);
}

void options_expect_ini_error(const char *ini, const char *sentence)
{
    assert_err(options_parse_all("", ini, NULL), ERR_INVALID);
    assert_string_equal(options_got.info.text, sentence);
}

enum option_source options_source(const char *name)
{
    for (size_t i = 0; i < options_table.count; i++)
        if (strcmp(options_table.options[i].name, name) == 0)
            return options_got.parse.sources[i];
    fail_msg("no option %s", name);
    return OPTION_FROM_TABLE;
}

/* ---- the check of a table ---- */

NORETURN static void bad_table(const struct option_table *table, const struct option_desc *desc,
                               const char *what)
{
    fprintf(stderr, "hearth: options of %s, --%s: %s\n", table->command ? table->command : "(null)",
            desc->name ? desc->name : "(null)", what);
    abort();
}

static bool is_name(const char *name)
{
    return name != NULL && name[0] != '\0' && name[0] != '-' && strlen(name) < 64 &&
           name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0' &&
           strncmp(name, "no-", 3) != 0 && strcmp(name, "help") != 0;
}

static bool same(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

static void check_names(const struct option_table *table, size_t index)
{
    const struct option_desc *desc = &table->options[index];
    bool letter = (desc->letter >= 'a' && desc->letter <= 'z') ||
                  (desc->letter >= 'A' && desc->letter <= 'Z');

    if (!is_name(desc->name) || (desc->alias != NULL && !is_name(desc->alias)))
        bad_table(table, desc, "bad name");
    if (desc->letter != 0 && (!letter || desc->letter == 'h'))
        bad_table(table, desc, "bad letter");
    if (same(desc->name, desc->alias))
        bad_table(table, desc, "the alias is the name");
    for (size_t i = 0; i < index; i++) {
        const struct option_desc *other = &table->options[i];
        if (same(other->name, desc->name) || same(other->name, desc->alias) ||
            same(other->alias, desc->name) || same(other->alias, desc->alias))
            bad_table(table, desc, "the name is duplicated");
        if (desc->letter != 0 && desc->letter == other->letter)
            bad_table(table, desc, "the letter is duplicated");
    }
}

/* The table's initial value must be valid for a user as well. */
static void check_initial(const struct option_table *table, const struct option_desc *desc)
{
    union {
        bool flag;
        int value;
        uint64_t number;
        double real;
        const char *text;
        struct option_list list;
    } value = {0};
    struct option_desc alone = *desc;
    struct errinfo info = {0};
    struct arena arena;

    if (desc->initial == NULL)
        return;
    arena_init(&arena, 65536);
    alone.offset = 0;
    /* The value of a percentage depends on the machine, so only other sizes are checked against the
     * bounds. */
    bool checked = !str_ends(str_from(desc->initial), STR("%"));
    struct option_value_from from = {
        .arena = &arena, .whole = UINT64_C(1) << 40, .checked = checked};
    if (option_value_parse(&alone, str_from(desc->initial), &value, &from, &info) != ERR_OK)
        bad_table(table, desc, info.text);
    arena_fini(&arena);
}

void option_check_table(const struct option_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct option_desc *desc = &table->options[i];
        size_t len = desc->help ? strlen(desc->help) : 0;
        check_names(table, i);
        if (len == 0 || desc->help[len - 1] != '.')
            bad_table(table, desc, "the help is not a sentence");
        bool may_have_names = desc->type == OPTION_INT || desc->type == OPTION_SIZE;
        if (!may_have_names && (desc->type == OPTION_ENUM) != (desc->names != NULL))
            bad_table(table, desc, "only ENUM, INT and SIZE have names, and an ENUM needs them");
        if (desc->names != NULL && desc->names[0] == NULL)
            bad_table(table, desc, "nothing to choose from");
        if ((desc->max > 0 && desc->min > desc->max) || desc->imin > desc->imax ||
            desc->fmin > desc->fmax)
            bad_table(table, desc, "the range is empty");
        check_initial(table, desc);
    }
}

/*
 * option.c: the command line, the environment, and the order of the sources.
 *
 * The sources are read from the weakest to the strongest, each overwriting earlier values: table,
 * file, environment, command line. So only the rank of each value's source must be remembered,
 * which lists need to know whether an item begins a new list or continues one.
 *
 * Deliberately not here: abbreviated long options (a new option must not change what an old script
 * means), options that may have a value or not, and any printing.
 */
#include "base/option.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/option_impl.h"

/* ---- names ---- */

const struct option_desc *option_find(const struct option_table *table, struct str name)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct option_desc *desc = &table->options[i];
        if (str_eq(name, str_from(desc->name)))
            return desc;
        if (desc->alias != NULL && str_eq(name, str_from(desc->alias)))
            return desc;
    }
    return NULL;
}

bool option_has(const struct option_table *table, struct str name)
{
    return option_find(table, name) != NULL;
}

static const struct option_desc *find_letter(const struct option_table *table, char letter)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->options[i].letter == letter)
            return &table->options[i];
    return NULL;
}

/* A typo is one change in a short word, two in a longer one, three in a long one. A prefix counts
 * as the worst typo. */
void option_guess_name(struct option_guess *guess, struct str text, const char *name)
{
    struct str known = str_from(name);
    int limit = text.len <= 3 ? 1 : text.len <= 7 ? 2 : 3;
    int distance = str_distance(text, known, limit);

    if (distance > limit && text.len >= 3 && str_starts(known, text))
        distance = limit;
    /* Otherwise a short word would be "near" every other one with nothing in common. */
    if (distance > limit || (size_t)distance >= MAX(text.len, known.len))
        return;
    if (guess->name == NULL || distance < guess->distance)
        *guess = (struct option_guess){name, distance};
}

void option_guess(struct option_guess *guess, struct str text, const struct option_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        option_guess_name(guess, text, table->options[i].name);
        if (table->options[i].alias != NULL)
            option_guess_name(guess, text, table->options[i].alias);
    }
}

const char *option_nearest(struct str text, const char *const *names, size_t count)
{
    struct option_guess guess = {0};

    for (size_t i = 0; i < count; i++)
        option_guess_name(&guess, text, names[i]);
    return guess.name;
}

/* ---- setting one value ---- */

static enum err set_items(const struct option_desc *desc, struct str text, void *values,
                          const struct option_value_from *from, struct errinfo *info)
{
    struct str item;

    while (str_next(&text, ',', &item))
        TRY(option_value_parse(desc, str_trim(item), values, from, info));
    return ERR_OK;
}

enum err option_set(struct option_run *run, const struct option_desc *desc,
                    const struct option_origin *origin, struct str text)
{
    size_t index = (size_t)(desc - run->table->options);
    struct option_value_from from = {
        .arena = run->parse->arena,
        .whole = run->parse->whole,
        .checked = origin->source != OPTION_FROM_TABLE,
    };
    bool one_text =
        desc->commas || origin->source == OPTION_FROM_TABLE || origin->source == OPTION_FROM_ENV;
    enum err err;

    assert(index < run->table->count && run->sources[index] <= origin->source);
    if (desc->type == OPTION_LIST && run->sources[index] != origin->source)
        memset((char *)run->values + desc->offset, 0, sizeof(struct option_list));
    if (desc->type == OPTION_LIST && one_text && text.len > 0)
        err = set_items(desc, text, run->values, &from, run->info);
    else
        err = option_value_parse(desc, text, run->values, &from, run->info);
    run->sources[index] = origin->source;
    if (err == ERR_OK)
        return ERR_OK;
    if (desc->secret) /* the message may quote it */
        err_set(run->info, err, "the value is not valid");
    return err_wrap(run->info, err, "%s", origin->name);
}

/* ---- table and environment ---- */

static size_t value_bytes(enum option_type type)
{
    static const size_t bytes[] = {
        [OPTION_FLAG] = sizeof(bool),
        [OPTION_UINT] = sizeof(uint64_t),
        [OPTION_INT] = sizeof(int64_t),
        [OPTION_FLOAT] = sizeof(double),
        [OPTION_TEXT] = sizeof(const char *),
        [OPTION_ENUM] = sizeof(int),
        [OPTION_SIZE] = sizeof(uint64_t),
        [OPTION_DURATION] = sizeof(uint64_t),
        [OPTION_LIST] = sizeof(struct option_list),
    };

    return bytes[type];
}

static enum err read_table(struct option_run *run)
{
    for (size_t i = 0; i < run->table->count; i++) {
        const struct option_desc *desc = &run->table->options[i];
        struct option_origin origin = {.source = OPTION_FROM_TABLE};

        memset((char *)run->values + desc->offset, 0, value_bytes(desc->type));
        snprintf(origin.name, sizeof(origin.name), "default of --%s", desc->name);
        if (desc->initial != NULL)
            TRY(option_set(run, desc, &origin, str_from(desc->initial)));
    }
    return ERR_OK;
}

static const char *env_value(const char *const *env, const char *name)
{
    size_t len = strlen(name);

    for (; *env != NULL; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

static enum err read_env(struct option_run *run)
{
    for (size_t i = 0; run->parse->env != NULL && i < run->table->count; i++) {
        const struct option_desc *desc = &run->table->options[i];
        struct option_origin origin = {.source = OPTION_FROM_ENV};
        char name[OPTION_NAME_BYTES];

        const char *value = env_value(run->parse->env, option_env_name(desc, name));
        if (value == NULL || value[0] == '\0')
            continue;
        snprintf(origin.name, sizeof(origin.name), "%s in the environment", name);
        TRY(option_set(run, desc, &origin, str_from(value)));
    }
    return ERR_OK;
}

/* ---- command line ---- */

struct args {
    char **next; /* not yet read */
    char **end;
};

/* One option as written on the command line. */
struct spelled {
    const struct option_desc *desc;
    bool negated;      /* --no-NAME */
    struct str name;   /* with dashes, without value */
    const char *value; /* in the same argument, or NULL */
};

/* Splits "--name=value" or "-name=value"; the name is without the dashes. */
static struct str split(const char *arg, size_t dashes, struct spelled *out)
{
    size_t len = strcspn(arg, "=");

    out->name = (struct str){arg, len};
    out->value = arg[len] == '=' ? arg + len + 1 : NULL;
    return (struct str){arg + dashes, len - dashes};
}

/* Understands --name, --no-name, --alias, -alias, each optionally with =value; not letters. */
static bool find_spelled(const struct option_table *table, const char *arg, struct spelled *out)
{
    bool is_long = strncmp(arg, "--", 2) == 0;
    struct str name = split(arg, is_long ? 2 : 1, out);

    out->negated = false;
    out->desc = option_find(table, name);
    if (!is_long) /* one dash is for aliases only */
        return out->desc != NULL && out->desc->alias != NULL &&
               str_eq(name, str_from(out->desc->alias));
    if (out->desc == NULL && str_starts(name, STR("no-"))) {
        out->desc = option_find(table, str_skip(name, 3));
        out->negated = out->desc != NULL;
    }
    return out->desc != NULL;
}

/* Whether an argument in the place of a value is a known option. A negative number is not. */
static bool is_known_option(const struct option_table *table, const char *arg)
{
    struct spelled spelled;

    if (arg[0] != '-' || arg[1] == '\0')
        return false;
    if (arg[1] != '-' && arg[2] == '\0' && find_letter(table, arg[1]) != NULL)
        return true;
    return strcmp(arg, "--") == 0 || find_spelled(table, arg, &spelled);
}

static enum err missing_value(struct option_run *run, const struct spelled *spelled,
                              const char *next)
{
    const char *word = option_value_word(spelled->desc);
    const char *shown = word ? word : spelled->desc->names[0];

    if (next == NULL)
        return err_set(run->info, ERR_INVALID, STR_FMT " needs a value, as in " STR_FMT " %s",
                       STR_ARG(spelled->name), STR_ARG(spelled->name), shown);
    return err_set(run->info, ERR_INVALID,
                   STR_FMT " needs a value, but %s is an option; write --%s=%s if you mean it",
                   STR_ARG(spelled->name), next, spelled->desc->name, next);
}

/* Sets the option, with a value from the same argument or from the next one. */
static enum err set_spelled(struct option_run *run, const struct spelled *spelled,
                            struct args *args)
{
    struct option_origin origin = {.source = OPTION_FROM_COMMAND};
    const struct option_desc *desc = spelled->desc;
    const char *value = spelled->value;

    snprintf(origin.name, sizeof(origin.name), STR_FMT, STR_ARG(spelled->name));
    if (spelled->negated && desc->type != OPTION_FLAG)
        return err_set(run->info, ERR_INVALID,
                       "%s: only a flag can be turned off, and --%s is not one", origin.name,
                       desc->name);
    if (spelled->negated && value != NULL)
        return err_set(run->info, ERR_INVALID, "%s takes no value", origin.name);
    if (desc->type == OPTION_FLAG) {
        if (value == NULL)
            value = spelled->negated ? "off" : "on";
    } else if (value == NULL) {
        if (args->next == args->end)
            return missing_value(run, spelled, NULL);
        if (is_known_option(run->table, *args->next))
            return missing_value(run, spelled, *args->next);
        value = *args->next++;
    }
    return option_set(run, desc, &origin, str_from(value));
}

/* `name` includes the dashes; the guess uses the rest. */
static enum err unknown_option(struct option_run *run, struct str name)
{
    struct str bare = name;
    struct option_guess guess = {0};
    char quoted[OPTION_QUOTE_BYTES];
    const char *no = "";

    while (bare.len > 0 && bare.ptr[0] == '-')
        bare = str_skip(bare, 1);
    option_guess(&guess, bare, run->table);
    option_guess_name(&guess, bare, "help");
    if (guess.name == NULL && str_starts(bare, STR("no-"))) {
        option_guess(&guess, str_skip(bare, 3), run->table);
        const struct option_desc *desc =
            guess.name != NULL ? option_find(run->table, str_from(guess.name)) : NULL;
        no = desc != NULL && desc->type == OPTION_FLAG ? "no-" : "";
    }
    option_quote(name, quoted);
    if (guess.name == NULL)
        return err_set(run->info, ERR_INVALID, "unknown option %s", quoted);
    return err_set(run->info, ERR_INVALID, "unknown option %s; did you mean --%s%s?", quoted, no,
                   guess.name);
}

/* -v, -vx, -p8000, -p=8000, -p 8000, -vp 8000; or an alias: -np 4. */
static enum err read_short(struct option_run *run, const char *arg, struct args *args)
{
    struct spelled spelled;

    if (find_spelled(run->table, arg, &spelled))
        return set_spelled(run, &spelled, args);
    for (const char *at = arg + 1; *at; at++) {
        char name[] = {'-', *at, '\0'};
        spelled = (struct spelled){.desc = find_letter(run->table, *at), .name = str_from(name)};
        if (*at == 'h' && at[1] == '\0') { /* "-hfoo" is a mistake, not a request for help */
            run->parse->help = true;
            return ERR_OK;
        }
        if (spelled.desc == NULL)
            return unknown_option(run, at == arg + 1 ? split(arg, 0, &spelled) : str_from(name));
        if (spelled.desc->type == OPTION_FLAG) {
            TRY(set_spelled(run, &spelled, args));
            continue;
        }
        if (at[1] != '\0')
            spelled.value = at + 1 + (at[1] == '=');
        return set_spelled(run, &spelled, args);
    }
    return ERR_OK;
}

static enum err read_long(struct option_run *run, const char *arg, struct args *args)
{
    struct spelled spelled;

    if (!find_spelled(run->table, arg, &spelled))
        return unknown_option(run, spelled.name);
    return set_spelled(run, &spelled, args);
}

/* An option of another program that the caller understands. */
static enum err read_foreign(struct option_run *run, const char *arg, struct args *args,
                             bool *known)
{
    struct option_parse *parse = run->parse;
    struct option_foreign option = {
        .arg = arg,
        .next = args->next < args->end ? *args->next : NULL,
    };

    *known = false;
    if (parse->foreign == NULL)
        return ERR_OK;
    TRY(parse->foreign(parse->foreign_arg, &option, run->info));
    *known = option.known;
    if (option.uses_next)
        args->next++;
    return option.instead != NULL ? read_long(run, option.instead, args) : ERR_OK;
}

static enum err read_option(struct option_run *run, const char *arg, struct args *args)
{
    bool known;

    TRY(read_foreign(run, arg, args, &known));
    if (known)
        return ERR_OK;
    return arg[1] == '-' ? read_long(run, arg, args) : read_short(run, arg, args);
}

static enum err read_args(struct option_run *run, struct args *args)
{
    struct option_parse *parse = run->parse;
    bool options = true; /* until "--" */

    while (args->next < args->end && !parse->help) {
        const char *arg = *args->next++;
        if (options && strcmp(arg, "--") == 0)
            options = false;
        else if (options && arg[0] == '-' && arg[1] != '\0')
            TRY(read_option(run, arg, args));
        else if ((parse->positional[parse->positional_count] =
                      arena_strdup(parse->arena, str_from(arg))) == NULL)
            return err_set(run->info, parse->arena->err, "no memory for the arguments");
        else
            parse->positional_count++;
    }
    return ERR_OK;
}

/* A request for help is served, whatever else is wrong with the line. */
static bool wants_help(const struct args *args)
{
    for (char **arg = args->next; arg < args->end && strcmp(*arg, "--") != 0; arg++)
        if (strcmp(*arg, "--help") == 0 || strcmp(*arg, "-h") == 0)
            return true;
    return false;
}

enum err option_parse(const struct option_table *table, int argc, char **argv, void *values,
                      struct option_parse *parse, struct errinfo *info)
{
    struct args args = {argv, argv + argc};
    struct option_run run = {.table = table, .parse = parse, .values = values, .info = info};

    assert(argc >= 0);
    parse->help = wants_help(&args);
    parse->positional_count = 0;
    parse->positional = arena_alloc_array(parse->arena, (size_t)argc, sizeof(*parse->positional));
    parse->sources = arena_alloc_array(parse->arena, table->count, sizeof(*parse->sources));
    run.sources = parse->sources;
    if (parse->positional == NULL || parse->sources == NULL)
        return err_set(info, parse->arena->err, "no memory for the options");
    if (parse->help)
        return ERR_OK;
    TRY(read_table(&run));
    TRY(option_read_ini(&run));
    TRY(read_env(&run));
    return read_args(&run, &args);
}

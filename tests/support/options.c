/*
 * options.c: see options.h.
 */
#include "support/options.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
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
    {"format", 'f', OPTION_CHOICE, AT(format), .initial = "json", .choices = options_formats,
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

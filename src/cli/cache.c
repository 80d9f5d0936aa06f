/*
 * cache.c: `hearth cache WHAT`: inspects and controls a cache: a running server's, or the directory
 * of an SSD tier without a server.
 *
 * Each row of the table is an action, and where it works. The answer is JSON in both cases; --json
 * prints it unchanged.
 */
#include "cli/cache.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "tier/ssd_format.h"

enum { ANSWER_BYTES_MAX = 1 << 30 };

#define AT(field) offsetof(struct cache_options, field)

static const struct option_desc options_table[] = {
    {"dir", 'd', OPTION_TEXT, AT(dir), .value = "DIR", HERE, .group = "Cache",
     .help = "Folder of an SSD cache to inspect instead of a running server."},
    {"json", 0, OPTION_FLAG, AT(json), HERE, .help = "Print JSON."},
    {"tier", 0, OPTION_TEXT, AT(tier), .value = "TIER", HERE,
     .help = "ls, verify: only this tier (ram, ssd); clear: ram, ssd or all."},
    {"served-model", 'm', OPTION_TEXT, AT(model), .value = "NAME", HERE,
     .help = "Model, by its API name."},
    {"tenant", 0, OPTION_TEXT, AT(tenant), .value = "NAME", HERE,
     .help = "ls, clear: only this tenant."},
    {"pinned", 0, OPTION_FLAG, AT(pinned), HERE, .help = "ls: only pinned objects."},
    {"limit", 'n', OPTION_UINT, AT(limit), .value = "N", .initial = "100", .max = UINT32_MAX, HERE,
     .help = "ls: maximum number of rows; 0 = all."},
    {"after", 0, OPTION_TEXT, AT(after), .value = "CURSOR", HERE,
     .help = "ls: continue after this row of an earlier list."},
    {"older", 0, OPTION_DURATION, AT(older_ns), .value = "TIME", HERE,
     .help = "gc: remove objects that were not used for this time."},
    {"state-dir", 0, OPTION_TEXT, AT(state_dir), .value = "DIR", .group = "Keys of a directory",
     .help = "Folder with the installation key, as for `hearth serve`."},
    {"key-file", 'k', OPTION_TEXT, AT(key_file), .value = "FILE", HERE,
     .help = "Installation key, instead of the one in the state folder."},
    {"encrypt-key", 'e', OPTION_TEXT, AT(seal_file), .value = "FILE", HERE,
     .help = "Key of --ssd-encrypt, to read encrypted objects (mode 0600)."},
    {"tokens", 't', OPTION_UINT, AT(tokens), .value = "N", .max = SSD_TOKENS_MAX, HERE,
     .help = "dump: number of token ids to print. They reveal the prompt."},
    REMOTE_OPTIONS(struct cache_options, remote),
};

#define CACHE_PATH "/admin/cache/"

static const struct cache_action actions[] = {
    {"stats", "", 0, 0, "/admin/stats", cache_remote_get, cache_dir_stats, cache_print_stats},
    {"ls", "", 0, 0, CACHE_PATH "objects", cache_remote_ls, cache_dir_ls, cache_print_ls},
    {"show", "KEY", 1, 1, CACHE_PATH "objects", cache_remote_get, cache_dir_show, cache_print_show},
    {"verify", "", 0, 0, CACHE_PATH "verify", cache_remote_post, cache_dir_verify,
     cache_print_verify},
    {"gc", "", 0, 0, CACHE_PATH "evict", cache_remote_post, cache_dir_gc, cache_print_gc},
    {"clear", "", 0, 0, CACHE_PATH "clear", cache_remote_post, cache_dir_clear, cache_print_clear},
    {"pin", "KEY|REQUEST", 1, 1, CACHE_PATH "pin", cache_remote_pin, NULL, cache_print_pin},
    {"unpin", "KEY|REQUEST", 1, 1, CACHE_PATH "unpin", cache_remote_pin, NULL, cache_print_unpin},
    {"probe", "REQUEST [REQUEST]", 1, 2, CACHE_PATH "probe", cache_remote_prompt, NULL,
     cache_print_probe},
    {"warm", "REQUEST", 1, 1, CACHE_PATH "warm", cache_remote_prompt, NULL, cache_print_warm},
    {"export", "FOLDER [KEY]", 1, 2, CACHE_PATH "export", cache_remote_post, cache_dir_export,
     cache_print_moved},
    {"import", "FOLDER", 1, 1, CACHE_PATH "import", cache_remote_post, cache_dir_import,
     cache_print_moved},
    {"dump", "FILE", 1, 1, NULL, NULL, NULL, NULL},
};

static const struct cache_action *find_action(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(actions); i++)
        if (strcmp(actions[i].name, name) == 0)
            return &actions[i];
    return NULL;
}

static const char *action_name(size_t number)
{
    return number < COUNT_OF(actions) ? actions[number].name : NULL;
}

static enum cli_exit unknown(const struct cli *cli)
{
    const char *names[COUNT_OF(actions)], *nearest;

    for (size_t i = 0; i < COUNT_OF(actions); i++)
        names[i] = actions[i].name;
    nearest = option_nearest(str_from(cli->args[0]), names, COUNT_OF(names));
    if (nearest != NULL)
        return cli_usage_error(cli, "unknown cache command \"%s\"; did you mean %s?", cli->args[0],
                               nearest);
    return cli_usage_error(cli, "unknown cache command \"%s\"; expected %s", cli->args[0],
                           cli_list_words(cli));
}

static enum cli_exit show(const struct cache_run *run, const struct buf *json)
{
    yyjson_doc *doc = yyjson_read(buf_str(json), json->len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    struct buf text;

    if (doc == NULL)
        return cli_error(run->cli, "the response is not JSON; is this a hearth server?");
    if (run->options->json) {
        fwrite(buf_str(json), 1, json->len, run->cli->out);
        fputc('\n', run->cli->out);
    } else {
        buf_init(&text, ANSWER_BYTES_MAX);
        run->action->print(root, &text);
        cli_put_text(run->cli, &text);
        buf_fini(&text);
    }
    /* An export or import of which nothing was taken: a script must not take it for a success. */
    bool refused = fields_uint(root, "refused") > 0 && fields_uint(root, "objects") == 0 &&
                   fields_uint(root, "held") == 0;
    yyjson_doc_free(doc);
    return refused ? CLI_EXIT_FAILURE : CLI_EXIT_OK;
}

static enum cli_exit run_action(struct cli *cli, const struct cache_options *options,
                                const struct cache_action *action)
{
    struct cache_run run = {.cli = cli,
                            .options = options,
                            .action = action,
                            .args = cli->args + 1,
                            .args_count = cli->args_count - 1};
    struct errinfo info = {0};
    struct buf json;

    cache_fn *fn = options->dir != NULL ? action->dir : action->remote;
    if (fn == NULL)
        return cli_usage_error(cli, "%s needs a running server: omit --dir", action->name);
    enum err err =
        options->dir == NULL ? remote_open(&run.remote, cli, &options->remote, &info) : ERR_OK;
    buf_init(&json, ANSWER_BYTES_MAX);
    if (err == ERR_OK)
        err = fn(&run, &json, &info);
    if (err == ERR_OK && json.err != ERR_OK)
        err = err_set(&info, json.err, "%s", err_sentence(json.err));
    enum cli_exit status = err == ERR_OK ? show(&run, &json) : cli_fail(cli, err, &info);
    buf_fini(&json);
    return status;
}

static enum cli_exit run(struct cli *cli, const void *options)
{
    const struct cache_action *action = find_action(cli->args[0]);
    size_t given = cli->args_count - 1;

    if (action == NULL)
        return unknown(cli);
    if (given < action->args_min || given > action->args_max)
        return cli_usage_error(cli, "usage: hearth cache %s%s%s%s", action->name,
                               action->takes[0] != '\0' ? " " : "", action->takes,
                               action->dir != NULL ? " [--dir DIR]" : "");
    return strcmp(action->name, "dump") == 0 ? cache_dump(cli, options)
                                             : run_action(cli, options, action);
}

const struct command command_cache = {
    .name = "cache",
    .summary = "Inspect and manage the cache of a server or a folder.",
    .usage = "stats | ls | verify | gc | clear | show KEY | pin KEY|REQUEST | unpin KEY|REQUEST |\n"
             "                    probe REQUEST [REQUEST] | warm REQUEST | export FOLDER [KEY] | "
             "import FOLDER | dump FILE [options]",
    .table = {.command = "cache", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct cache_options),
    .args_min = 1,
    .args_max = 3,
    .word = action_name,
    .run = run,
};

/*
 * cache_print.c: answers about a cache as lines and tables for people. Fields that an answer lacks
 * are omitted.
 */
#include <stdio.h>
#include <string.h>

#include "base/json_write.h"
#include "base/attr.h"
#include "base/buf.h"
#include "cli/cache.h"

enum { KEY_SHOWN = 16 }; /* of the digits of a key */

/* ---- stats ---- */

/* "prompt 28,412 = device 0 + ram 16,276 + ssd 11,264 + computed 872" */
static void print_tokens(yyjson_val *tokens, const char *total, struct buf *out)
{
    static const char *const names[] = {"device", "ram", "ssd", "remote", "computed"};
    char text[FIELDS_TEXT_BYTES];

    buf_appendf(out, "prompt %s =", total);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(names[i], "remote") != 0 || fields_uint(tokens, names[i]) > 0)
            buf_appendf(out, "%s %s %s", i > 0 ? " +" : "", names[i],
                        fields_count(tokens, names[i], text));
}

static void print_period(yyjson_val *period, const char *name, struct buf *out)
{
    char requests[FIELDS_TEXT_BYTES], tokens[FIELDS_TEXT_BYTES], saved[FIELDS_TEXT_BYTES];
    char twice[FIELDS_TEXT_BYTES];

    if (!yyjson_is_obj(period))
        return;
    buf_appendf(out, "%-9s %s requests, ", name, fields_count(period, "requests", requests));
    print_tokens(fields_get(period, "tokens"), fields_count(period, "prompt_tokens", tokens), out);
    buf_appendf(out, " | %.1f %% reused, %s saved, %s computed twice\n",
                100 * fields_number(period, "efficiency", 0), fields_time(period, "saved_s", saved),
                fields_count(period, "computed_twice", twice));
}

static void print_misses(yyjson_val *miss, struct buf *out)
{
    char text[FIELDS_TEXT_BYTES];
    yyjson_obj_iter iter;
    yyjson_val *key;
    bool any = false;

    yyjson_obj_iter_init(miss, &iter);
    while ((key = yyjson_obj_iter_next(&iter)) != NULL) {
        double tokens = yyjson_get_num(yyjson_obj_iter_get_val(key));
        if (tokens <= 0)
            continue;
        buf_appendf(out, "%s %s %.0f", any ? "," : "misses   ",
                    fields_reason(yyjson_get_str(key), text), tokens);
        any = true;
    }
    buf_append_str(out, any ? " tokens\n" : "");
}

static bool is_off(yyjson_val *tier)
{
    return strcmp(fields_text(tier, "state", "-"), "off") == 0; /* not attached */
}

static const char *show_name(yyjson_val *object, const char *path, char out[FIELDS_TEXT_BYTES])
{
    snprintf(out, KEY_SHOWN + 1, "%s", fields_text(object, path, "?"));
    return out;
}

static const struct fields_column tier_columns[] = {
    {"tier", "TIER", show_name, 0},
    {"state", "STATE", fields_word, 0},
    {"used", "USED", fields_size, 0},
    {"cap", "CAP", fields_size, 0},
    {"objects", "OBJECTS", NULL, 0},
    {"hits", "HITS", NULL, 0},
    {"stores", "STORES", NULL, 0},
    {"evictions", "EVICTIONS", NULL, 0},
    {"read_bytes", "READ", fields_size, 0},
    {"written_bytes", "WRITTEN", fields_size, 0},
    {"written_today", "TODAY", fields_size, 0},
    {"errors", "ERRORS", NULL, 0},
};
static const struct fields_table tiers_table = {
    .columns = tier_columns, .count = COUNT_OF(tier_columns), .skips = is_off};

/* Of a directory: files that are not objects. */
static void print_leftovers(yyjson_val *root, struct buf *out)
{
    char bytes[FIELDS_TEXT_BYTES];

    if (fields_get(root, "dir") == NULL)
        return;
    buf_appendf(out, "directory %s: %s free on its disk\n", fields_text(root, "dir", ""),
                fields_size(root, "free", bytes));
    buf_appendf(out, "          %.0f foreign files (%s), ", fields_number(root, "foreign.files", 0),
                fields_size(root, "foreign.bytes", bytes));
    buf_appendf(out, "%.0f in quarantine (%s)\n\n", fields_number(root, "quarantine.files", 0),
                fields_size(root, "quarantine.bytes", bytes));
}

void cache_print_stats(yyjson_val *root, struct buf *out)
{
    char text[FIELDS_TEXT_BYTES];

    if (fields_get(root, "version") != NULL)
        buf_appendf(out, "hearth %s, up %s\n", fields_text(root, "version", "?"),
                    fields_time(root, "uptime_s", text));
    print_period(fields_get(root, "session"), "session", out);
    print_period(fields_get(root, "all_time"), "all time", out);
    print_misses(fields_get(root, "miss"), out);
    if (fields_get(root, "session") != NULL)
        buf_append_char(out, '\n');
    print_leftovers(root, out);
    fields_print(&tiers_table, fields_get(root, "tiers"), out);
}

/* ---- objects ---- */

static const char *show_range(yyjson_val *object, const char *path, char out[FIELDS_TEXT_BYTES])
{
    snprintf(out, FIELDS_TEXT_BYTES, "%.0f-%.0f", fields_number(object, path, 0),
             fields_number(object, "end", 0));
    return out;
}

static const char *show_note(yyjson_val *object, const char *path, char out[FIELDS_TEXT_BYTES])
{
    (void)out;
    return fields_bool(object, path)           ? "pinned"
           : fields_bool(object, "superseded") ? "superseded"
                                               : "-";
}

static const struct fields_column object_columns[] = {
    {"key", "KEY", show_name, 0},
    {"model", "MODEL", fields_word, 0},
    {"tenant", "TENANT", fields_word, 0},
    {"kind", "KIND", fields_word, 0},
    {"begin", "TOKENS", show_range, 0},
    {"bytes", "SIZE", fields_size, 0},
    {"tiers", "TIERS", fields_list, 0},
    {"uses", "USES", NULL, 0},
    {"age_s", "UNUSED FOR", fields_time, 0},
    {"pinned", "NOTE", show_note, 0},
};
static const struct fields_table objects_table = {
    .columns = object_columns, .count = COUNT_OF(object_columns), .none = "no objects\n"};

void cache_print_ls(yyjson_val *root, struct buf *out)
{
    fields_print(&objects_table, fields_get(root, "objects"), out);
    const char *next = fields_text(root, "next", NULL);
    if (next != NULL)
        buf_appendf(
            out, "\nmore rows exist: continue with --after %s, or list all with --limit 0\n", next);
    else if (fields_bool(root, "more"))
        buf_append_str(out, "\nmore rows exist: list all with --limit 0\n");
}

/* A line per field, in the order of the answer. */
void cache_print_show(yyjson_val *root, struct buf *out)
{
    yyjson_obj_iter iter;
    yyjson_val *key;

    yyjson_obj_iter_init(root, &iter);
    while ((key = yyjson_obj_iter_next(&iter)) != NULL) {
        yyjson_val *value = yyjson_obj_iter_get_val(key);
        struct json json = json_to(out);

        if (yyjson_is_null(value))
            continue;
        buf_appendf(out, "%-12s ", yyjson_get_str(key));
        if (yyjson_is_str(value))
            buf_append_str(out, yyjson_get_str(value));
        else
            json_value(&json, value);
        buf_append_char(out, '\n');
    }
}

/* ---- what was done ---- */

void cache_print_verify(yyjson_val *root, struct buf *out)
{
    char objects[FIELDS_TEXT_BYTES], bytes[FIELDS_TEXT_BYTES], took[FIELDS_TEXT_BYTES];

    buf_appendf(out, "%s objects, %s read in %s: ", fields_count(root, "objects", objects),
                fields_size(root, "bytes", bytes), fields_time(root, "seconds", took));
    if (fields_uint(root, "damaged") == 0)
        buf_append_str(out, "all are whole\n");
    else
        buf_appendf(out, "%.0f damaged, %.0f of them removed\n", fields_number(root, "damaged", 0),
                    fields_number(root, "dropped", 0));
    if (fields_uint(root, "failed") > 0)
        buf_appendf(out, "%.0f could not be read\n", fields_number(root, "failed", 0));
}

void cache_print_gc(yyjson_val *root, struct buf *out)
{
    char bytes[FIELDS_TEXT_BYTES];

    buf_appendf(out, "%.0f objects removed, %s\n", fields_number(root, "evicted", 0),
                fields_size(root, "bytes", bytes));
    if (fields_get(root, "leftovers") != NULL)
        buf_appendf(out, "%.0f leftovers removed, %s\n", fields_number(root, "leftovers.files", 0),
                    fields_size(root, "leftovers.bytes", bytes));
}

void cache_print_clear(yyjson_val *root, struct buf *out)
{
    char bytes[FIELDS_TEXT_BYTES];
    yyjson_val *failed;

    buf_appendf(out, "%s cleared\n", fields_size(root, "cleared", bytes));
    FIELDS_FOREACH (failed, fields_get(root, "failed"))
        buf_appendf(out, "%s: %s\n", fields_text(failed, "model", "?"),
                    fields_text(failed, "message", "failed"));
}

static void print_pinned(yyjson_val *root, const char *how, struct buf *out)
{
    char tokens[FIELDS_TEXT_BYTES];

    buf_appendf(out, "%s tokens %s\n", fields_count(root, "pinned_tokens", tokens), how);
}

void cache_print_pin(yyjson_val *root, struct buf *out)
{
    print_pinned(root, "pinned", out);
}

void cache_print_unpin(yyjson_val *root, struct buf *out)
{
    print_pinned(root, "unpinned", out);
}

void cache_print_warm(yyjson_val *root, struct buf *out)
{
    char total[FIELDS_TEXT_BYTES], computed[FIELDS_TEXT_BYTES];

    buf_appendf(out, "%s tokens are warm, %s of them computed now\n",
                fields_count(root, "prompt_tokens", total),
                fields_count(root, "computed", computed));
}

void cache_print_moved(yyjson_val *root, struct buf *out)
{
    char objects[FIELDS_TEXT_BYTES], bytes[FIELDS_TEXT_BYTES];

    buf_appendf(out, "%s objects, %s", fields_count(root, "objects", objects),
                fields_size(root, "bytes", bytes));
    if (fields_uint(root, "refused") > 0)
        buf_appendf(out, "; %.0f refused", fields_number(root, "refused", 0));
    buf_append_char(out, '\n');
}

/* ---- probe ---- */

/* Quoted as in JSON, so that line ends are visible. */
static void print_text(const char *label, yyjson_val *difference, const char *field,
                       struct buf *out)
{
    const char *text = fields_text(difference, field, NULL);
    struct json json = json_to(out);

    if (text == NULL)
        return; /* cached text is never shown */
    buf_appendf(out, "  %-8s ", label);
    json_str(&json, str_from(text));
    buf_append_char(out, '\n');
}

/* Of two requests, or of one and the cache. */
static void print_difference(yyjson_val *root, struct buf *out)
{
    yyjson_val *difference = fields_get(root, "first_difference");
    bool two = fields_get(root, "against_tokens") != NULL;

    if (!yyjson_is_obj(difference)) {
        buf_append_str(out, two ? "the two prompts are the same\n" : "");
        return;
    }
    buf_appendf(out, "%s at token %.0f, in %s\n",
                two ? "the two prompts diverge" : "diverges from the cache",
                fields_number(difference, "token", 0),
                fields_text(difference, "message", "the prompt"));
    print_text(two ? "A" : "prompt", difference, "want", out);
    print_text("B", difference, "have", out);
}

static void print_run(double begin, double end, const char *tier, struct buf *out)
{
    if (end > begin)
        buf_appendf(out, "  %7.0f - %-7.0f %s\n", begin, end,
                    strcmp(tier, "none") == 0 ? "to be computed" : tier);
}

/* Adjacent blocks of one tier share a line. */
static void print_blocks(yyjson_val *blocks, struct buf *out)
{
    const char *tier = "none";
    double begin = 0, end = 0;
    yyjson_val *block;

    FIELDS_FOREACH (block, blocks) {
        const char *its = fields_text(block, "tier", "none");
        if (strcmp(its, tier) != 0) {
            print_run(begin, end, tier, out);
            begin = fields_number(block, "begin", end);
            tier = its;
        }
        end = fields_number(block, "end", end);
    }
    print_run(begin, end, tier, out);
}

void cache_print_probe(yyjson_val *root, struct buf *out)
{
    char total[FIELDS_TEXT_BYTES], reason[FIELDS_TEXT_BYTES];

    print_tokens(fields_get(root, "would"), fields_count(root, "prompt_tokens", total), out);
    buf_appendf(out, " | %s\n", fields_reason(fields_text(root, "reason", "-"), reason));
    print_blocks(fields_get(root, "blocks"), out);
    print_difference(root, out);
}

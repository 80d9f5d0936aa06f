/*
 * cache_print.c: answers about a cache as lines and tables for people. Fields that an answer lacks
 * are omitted.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json_write.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/units.h"
#include "lab/sheet.h"
#include "cli/cache.h"
#include "cli/remote.h"

enum { KEY_SHOWN = 16, LIST_BYTES = 64 };

static const char *size_of(yyjson_val *object, const char *path, char out[UNITS_TEXT_BYTES])
{
    return fields_get(object, path) != NULL ? units_format_size(fields_uint(object, path), out)
                                            : "-";
}

static const char *count_of(yyjson_val *object, const char *path, char out[UNITS_TEXT_BYTES])
{
    return units_format_count(fields_uint(object, path), out);
}

static const char *time_of(double seconds, char out[UNITS_TEXT_BYTES])
{
    return seconds >= 0 && seconds < 1e9
               ? units_format_duration((uint64_t)(seconds * (double)NS_PER_S), out)
               : "-";
}

/* The strings of an array, separated by commas. */
static const char *list_of(yyjson_val *array, char out[LIST_BYTES])
{
    yyjson_arr_iter iter;
    yyjson_val *value;
    size_t len = 0;

    out[0] = '\0';
    yyjson_arr_iter_init(array, &iter);
    while ((value = yyjson_arr_iter_next(&iter)) != NULL && len < LIST_BYTES)
        len += (size_t)snprintf(out + len, LIST_BYTES - len, "%s%s", len > 0 ? "," : "",
                                yyjson_is_str(value) ? yyjson_get_str(value) : "?");
    return out[0] != '\0' ? out : "-";
}

static void print_sheet(struct sheet **sheet, struct buf *out)
{
    (void)sheet_write_table(*sheet, out);
    sheet_destroy(sheet);
}

/* ---- stats ---- */

/* "prompt 28,412 = device 0 + ram 16,276 + ssd 11,264 + computed 872" */
static void print_tokens(yyjson_val *tokens, const char *total, struct buf *out)
{
    static const char *const names[] = {"device", "ram", "ssd", "remote", "computed"};
    char text[UNITS_TEXT_BYTES];

    buf_appendf(out, "prompt %s =", total);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(names[i], "remote") != 0 || fields_uint(tokens, names[i]) > 0)
            buf_appendf(out, "%s %s %s", i > 0 ? " +" : "", names[i],
                        count_of(tokens, names[i], text));
}

static void print_period(yyjson_val *period, const char *name, struct buf *out)
{
    char requests[UNITS_TEXT_BYTES], tokens[UNITS_TEXT_BYTES], saved[UNITS_TEXT_BYTES];

    if (!yyjson_is_obj(period))
        return;
    buf_appendf(out, "%-9s %s requests, ", name, count_of(period, "requests", requests));
    print_tokens(fields_get(period, "tokens"), count_of(period, "prompt_tokens", tokens), out);
    buf_appendf(out, " | %.1f %% reused, %s saved\n", 100 * fields_number(period, "efficiency", 0),
                time_of(fields_number(period, "saved_s", NAN), saved));
}

static void print_misses(yyjson_val *miss, struct buf *out)
{
    yyjson_obj_iter iter;
    yyjson_val *key;
    bool any = false;

    yyjson_obj_iter_init(miss, &iter);
    while ((key = yyjson_obj_iter_next(&iter)) != NULL) {
        double count = yyjson_get_num(yyjson_obj_iter_get_val(key));
        if (count <= 0 || yyjson_equals_str(key, "none")) /* not a miss */
            continue;
        buf_appendf(out, "%s %s %.0f", any ? "," : "misses   ", yyjson_get_str(key), count);
        any = true;
    }
    buf_append_str(out, any ? "\n" : "");
}

static void print_tiers(yyjson_val *tiers, struct buf *out)
{
    static const struct sheet_column columns[] = {
        {"tier", "TIER", SHEET_TEXT},   {"state", "STATE", SHEET_TEXT},
        {"used", "USED", SHEET_TEXT},   {"cap", "CAP", SHEET_TEXT},
        {"objects", "OBJECTS", 0},      {"hits", "HITS", 0},
        {"stores", "STORES", 0},        {"evictions", "EVICTIONS", 0},
        {"read", "READ", SHEET_TEXT},   {"written", "WRITTEN", SHEET_TEXT},
        {"today", "TODAY", SHEET_TEXT}, {"errors", "ERRORS", 0},
    };
    struct sheet *sheet = sheet_create(columns, COUNT_OF(columns));
    char text[UNITS_TEXT_BYTES];
    yyjson_arr_iter iter;
    yyjson_val *tier;

    yyjson_arr_iter_init(tiers, &iter);
    while ((tier = yyjson_arr_iter_next(&iter)) != NULL) {
        if (strcmp(fields_text(tier, "state", "-"), "off") == 0)
            continue; /* not attached */
        sheet_text(sheet, fields_text(tier, "tier", "?"));
        sheet_text(sheet, fields_text(tier, "state", "-"));
        sheet_text(sheet, size_of(tier, "used", text));
        sheet_text(sheet, size_of(tier, "cap", text));
        sheet_number(sheet, fields_number(tier, "objects", NAN));
        sheet_number(sheet, fields_number(tier, "hits", NAN));
        sheet_number(sheet, fields_number(tier, "stores", NAN));
        sheet_number(sheet, fields_number(tier, "evictions", NAN));
        sheet_text(sheet, size_of(tier, "read_bytes", text));
        sheet_text(sheet, size_of(tier, "written_bytes", text));
        sheet_text(sheet, size_of(tier, "written_today", text));
        sheet_number(sheet, fields_number(tier, "errors", NAN));
    }
    print_sheet(&sheet, out);
}

/* Of a directory: files that are not objects. */
static void print_leftovers(yyjson_val *root, struct buf *out)
{
    char bytes[UNITS_TEXT_BYTES];

    if (fields_get(root, "dir") == NULL)
        return;
    buf_appendf(out, "directory %s: %s free on its disk\n", fields_text(root, "dir", ""),
                size_of(root, "free", bytes));
    buf_appendf(out, "          %.0f foreign files (%s), ", fields_number(root, "foreign.files", 0),
                size_of(root, "foreign.bytes", bytes));
    buf_appendf(out, "%.0f in quarantine (%s)\n\n", fields_number(root, "quarantine.files", 0),
                size_of(root, "quarantine.bytes", bytes));
}

void cache_print_stats(yyjson_val *root, struct buf *out)
{
    char text[UNITS_TEXT_BYTES];

    if (fields_get(root, "version") != NULL)
        buf_appendf(out, "hearth %s, up %s\n", fields_text(root, "version", "?"),
                    time_of(fields_number(root, "uptime_s", NAN), text));
    print_period(fields_get(root, "session"), "session", out);
    print_period(fields_get(root, "all_time"), "all time", out);
    print_misses(fields_get(root, "miss"), out);
    if (fields_get(root, "session") != NULL)
        buf_append_char(out, '\n');
    print_leftovers(root, out);
    print_tiers(fields_get(root, "tiers"), out);
}

/* ---- objects ---- */

static void add_object(struct sheet *sheet, yyjson_val *object)
{
    char text[UNITS_TEXT_BYTES], list[LIST_BYTES], range[LIST_BYTES], key[KEY_SHOWN + 1];
    const char *flags = fields_bool(object, "pinned")       ? "pinned"
                        : fields_bool(object, "superseded") ? "superseded"
                                                            : "-";

    snprintf(key, sizeof(key), "%s", fields_text(object, "key", "?"));
    snprintf(range, sizeof(range), "%.0f-%.0f", fields_number(object, "begin", 0),
             fields_number(object, "end", 0));
    sheet_text(sheet, key);
    sheet_text(sheet, fields_text(object, "model", "-"));
    sheet_text(sheet, fields_text(object, "tenant", "-"));
    sheet_text(sheet, fields_text(object, "kind", "-"));
    sheet_text(sheet, range);
    sheet_text(sheet, size_of(object, "bytes", text));
    sheet_text(sheet, list_of(fields_get(object, "tiers"), list));
    sheet_number(sheet, fields_number(object, "uses", NAN));
    sheet_text(sheet, time_of(fields_number(object, "age_s", NAN), text));
    sheet_text(sheet, flags);
}

void cache_print_ls(yyjson_val *root, struct buf *out)
{
    static const struct sheet_column columns[] = {
        {"key", "KEY", SHEET_TEXT},        {"model", "MODEL", SHEET_TEXT},
        {"tenant", "TENANT", SHEET_TEXT},  {"kind", "KIND", SHEET_TEXT},
        {"range", "TOKENS", SHEET_TEXT},   {"bytes", "SIZE", SHEET_TEXT},
        {"tiers", "TIERS", SHEET_TEXT},    {"uses", "USES", 0},
        {"age", "UNUSED FOR", SHEET_TEXT}, {"note", "NOTE", SHEET_TEXT},
    };
    struct sheet *sheet = sheet_create(columns, COUNT_OF(columns));
    yyjson_arr_iter iter;
    yyjson_val *object;

    yyjson_arr_iter_init(fields_get(root, "objects"), &iter);
    while ((object = yyjson_arr_iter_next(&iter)) != NULL)
        add_object(sheet, object);
    if (sheet_rows(sheet) == 0)
        buf_append_str(out, "nothing is held\n");
    else
        (void)sheet_write_table(sheet, out);
    sheet_destroy(&sheet);
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
    char objects[UNITS_TEXT_BYTES], bytes[UNITS_TEXT_BYTES], took[UNITS_TEXT_BYTES];

    buf_appendf(out, "%s objects, %s read in %s: ", count_of(root, "objects", objects),
                size_of(root, "bytes", bytes), time_of(fields_number(root, "seconds", NAN), took));
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
    char bytes[UNITS_TEXT_BYTES];

    buf_appendf(out, "%.0f objects removed, %s\n", fields_number(root, "evicted", 0),
                size_of(root, "bytes", bytes));
    if (fields_get(root, "leftovers") != NULL)
        buf_appendf(out, "%.0f leftovers removed, %s\n", fields_number(root, "leftovers.files", 0),
                    size_of(root, "leftovers.bytes", bytes));
}

void cache_print_clear(yyjson_val *root, struct buf *out)
{
    char bytes[UNITS_TEXT_BYTES];
    yyjson_arr_iter iter;
    yyjson_val *failed;

    buf_appendf(out, "%s cleared\n", size_of(root, "cleared", bytes));
    yyjson_arr_iter_init(fields_get(root, "failed"), &iter);
    while ((failed = yyjson_arr_iter_next(&iter)) != NULL)
        buf_appendf(out, "%s: %s\n", fields_text(failed, "model", "?"),
                    fields_text(failed, "message", "failed"));
}

void cache_print_pin(yyjson_val *root, struct buf *out)
{
    char tokens[UNITS_TEXT_BYTES];

    buf_appendf(out, "%s tokens\n", count_of(root, "pinned_tokens", tokens));
}

void cache_print_warm(yyjson_val *root, struct buf *out)
{
    char total[UNITS_TEXT_BYTES], computed[UNITS_TEXT_BYTES];

    buf_appendf(out, "%s tokens are warm, %s of them computed now\n",
                count_of(root, "prompt_tokens", total), count_of(root, "computed", computed));
}

void cache_print_moved(yyjson_val *root, struct buf *out)
{
    char objects[UNITS_TEXT_BYTES], bytes[UNITS_TEXT_BYTES];

    buf_appendf(out, "%s objects, %s", count_of(root, "objects", objects),
                size_of(root, "bytes", bytes));
    if (fields_uint(root, "refused") > 0)
        buf_appendf(out, "; %.0f refused", fields_number(root, "refused", 0));
    buf_append_char(out, '\n');
}

/* ---- probe ---- */

static void print_difference(yyjson_val *difference, struct buf *out)
{
    if (!yyjson_is_obj(difference))
        return;
    buf_appendf(out, "parts at token %.0f, in %s\n", fields_number(difference, "token", 0),
                fields_text(difference, "message", "the prompt"));
    if (fields_get(difference, "have") != NULL)
        buf_appendf(out, "  held      %s\n", fields_text(difference, "have", ""));
    if (fields_get(difference, "want") != NULL)
        buf_appendf(out, "  asked for %s\n", fields_text(difference, "want", ""));
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
    yyjson_arr_iter iter;
    yyjson_val *block;

    yyjson_arr_iter_init(blocks, &iter);
    while ((block = yyjson_arr_iter_next(&iter)) != NULL) {
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
    char total[UNITS_TEXT_BYTES];

    print_tokens(fields_get(root, "would"), count_of(root, "prompt_tokens", total), out);
    buf_appendf(out, " | %s, %s\n", fields_text(root, "match", "-"),
                fields_text(root, "reason", "-"));
    print_blocks(fields_get(root, "blocks"), out);
    print_difference(fields_get(root, "first_difference"), out);
}

/*
 * metric.c: one flat array of 64-bit cells per set.
 *
 *      first[id] --> label 0: [cell ...] label 1: [cell ...] ...
 *
 *      counter, gauge   1 cell per label     the value
 *      histogram        n + 1 cells          n buckets (not cumulative, last: +Inf), then the sum
 *
 * A cell holds either a count or the bits of a double; doubles are added with a compare-and-swap
 * loop, which does not spin in practice with our few updates per token. The number of observations
 * is the sum of the buckets and has no cell: otherwise a scrape during an update could see `_count`
 * differ from the +Inf bucket, which scrapers reject.
 *
 * Not here: timestamps, summaries, exemplars, labels that come and go. Cells of several metrics
 * share cache lines; values that many threads update millions of times a second do not belong in a
 * metric.
 */
#include "base/metric.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

enum { BUCKETS_MAX = 64, LABELS_BYTES_MAX = 4096 };

struct metric_set {
    const struct metric_desc *table;
    size_t count;
    size_t *first; /* cell of label 0, by id; the extra last entry is the number of cells */
    _Atomic uint64_t *cells;
};

NORETURN static void bad_table(const struct metric_desc *desc, const char *what)
{
    fprintf(stderr, "hearth: metric %s: %s\n", desc->name ? desc->name : "(null)", what);
    abort();
}

static bool is_name(const char *text, bool colon)
{
    if (text == NULL || text[0] == '\0' || str_is_digit(text[0]))
        return false;
    for (; *text; text++) {
        if (!str_is_letter(*text) && !str_is_digit(*text) && *text != '_' &&
            !(colon && *text == ':'))
            return false;
    }
    return true;
}

static size_t bucket_count(const struct metric_desc *desc)
{
    size_t n = 0;

    while (!isinf(desc->buckets[n]))
        n++;
    return n + 1;
}

static size_t label_count(const struct metric_desc *desc)
{
    size_t n = 0;

    if (desc->label == NULL)
        return 1;
    while (desc->values[n] != NULL)
        n++;
    return n;
}

static size_t cells_per_label(const struct metric_desc *desc)
{
    return desc->type == METRIC_HISTOGRAM ? bucket_count(desc) + 1 : 1;
}

static void check_label(const struct metric_desc *desc)
{
    if ((desc->label == NULL) != (desc->values == NULL))
        bad_table(desc, "a label needs values, and values a label");
    if (desc->label == NULL)
        return;
    if (!is_name(desc->label, false) || strncmp(desc->label, "__", 2) == 0)
        bad_table(desc, "bad label name");
    if (desc->type == METRIC_HISTOGRAM && strcmp(desc->label, "le") == 0)
        bad_table(desc, "the label le belongs to the buckets");
    if (label_count(desc) == 0)
        bad_table(desc, "the label has no values");
    for (size_t i = 0; desc->values[i] != NULL; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(desc->values[i], desc->values[j]) == 0)
                bad_table(desc, "a label value is duplicated");
}

static void check_buckets(const struct metric_desc *desc)
{
    if ((desc->type == METRIC_HISTOGRAM) != (desc->buckets != NULL))
        bad_table(desc, "histograms, and only they, have buckets");
    if (desc->buckets == NULL)
        return;
    /* Every step is checked before the next is read, so that a list without INFINITY is detected at
     * its first descent instead of being read past its end. */
    for (const double *bound = desc->buckets; *bound != INFINITY; bound++)
        if (isnan(*bound) || *bound == -INFINITY || !(bound[0] < bound[1]))
            bad_table(desc, "the buckets are not ascending to INFINITY");
    if (bucket_count(desc) > BUCKETS_MAX)
        bad_table(desc, "too many buckets for a snapshot");
}

static void check_desc(const struct metric_desc *table, size_t id)
{
    const struct metric_desc *desc = &table[id];

    if (!is_name(desc->name, true))
        bad_table(desc, "bad name");
    size_t len = strlen(desc->name);
    bool total = len > 6 && strcmp(desc->name + len - 6, "_total") == 0;
    if (total != (desc->type == METRIC_COUNTER))
        bad_table(desc, "counters, and only they, end in _total");
    if (desc->unit != NULL && strstr(desc->name, desc->unit) == NULL)
        bad_table(desc, "the unit is not in the name");
    if (desc->help == NULL || desc->help[0] == '\0')
        bad_table(desc, "no help");
    for (size_t i = 0; i < id; i++)
        if (strcmp(table[i].name, desc->name) == 0)
            bad_table(desc, "the name is duplicated");
    check_label(desc);
    check_buckets(desc);
}

static double double_of(uint64_t bits)
{
    double v;

    memcpy(&v, &bits, sizeof(v));
    return v;
}

static uint64_t bits_of(double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

/* Relaxed everywhere: each cell is independent, and its value orders no other memory. */
static uint64_t load(const _Atomic uint64_t *cell)
{
    return atomic_load_explicit(cell, memory_order_relaxed);
}

static void add_double(_Atomic uint64_t *cell, double v)
{
    uint64_t old = load(cell);

    while (!atomic_compare_exchange_weak_explicit(cell, &old, bits_of(double_of(old) + v),
                                                  memory_order_relaxed, memory_order_relaxed))
        continue;
}

static _Atomic uint64_t *cells_of(const struct metric_set *set, size_t id, size_t label)
{
    assert(id < set->count);
    size_t at = set->first[id] + label * cells_per_label(&set->table[id]);
    assert(at < set->first[id + 1]); /* the label is one of the table's */
    return &set->cells[at];
}

static void append_escaped(struct buf *out, const char *text, bool quote)
{
    for (; *text; text++) {
        if (*text == '\n')
            buf_append_str(out, "\\n");
        else if (*text == '\\' || (quote && *text == '"'))
            buf_appendf(out, "\\%c", *text);
        else
            buf_append_char(out, *text);
    }
}

/* Counts as integers, everything else in the fewest digits. */
static void append_number(struct buf *out, double v)
{
    if (isnan(v)) {
        buf_append_str(out, "NaN");
    } else if (isinf(v)) {
        buf_append_str(out, v > 0 ? "+Inf" : "-Inf");
    } else if (v == floor(v) && fabs(v) < 1e15) {
        buf_appendf(out, "%.0f", v + 0.0); /* + 0.0 turns -0 into 0 */
    } else {
        buf_append_double(out, v);
    }
}

/* name_suffix{labels,le="bound"}, and a space. `labels` are written verbatim, "" is none; `bound`
 * is NULL outside buckets. */
static void append_series(struct buf *out, const char *name, const char *suffix, const char *labels,
                          const double *bound)
{
    bool any = labels[0] != '\0';

    buf_appendf(out, "%s%s", name, suffix);
    if (any || bound != NULL)
        buf_appendf(out, "{%s%s", labels, any && bound != NULL ? "," : "");
    if (bound != NULL) {
        buf_append_str(out, "le=\"");
        append_number(out, *bound);
        buf_append_char(out, '"');
    }
    buf_append_str(out, any || bound != NULL ? "} " : " ");
}

/* One label value of a metric, in a buffer that is emptied first; "" for a metric without
 * labels. */
static const char *label_text(const struct metric_desc *desc, size_t label, struct buf *out)
{
    buf_clear(out);
    if (desc->label == NULL)
        return "";
    metric_append_label(out, desc->label, desc->values[label]);
    return buf_str(out);
}

static void render_value(const char *name, const char *labels, double v, struct buf *out)
{
    append_series(out, name, "", labels, NULL);
    append_number(out, v);
    buf_append_char(out, '\n');
}

/* The current counts of the buckets. */
struct picture {
    const double *bounds;
    uint64_t counts[BUCKETS_MAX];
    double sum;
};

static void render_histogram(const char *name, const char *labels, const struct picture *picture,
                             struct buf *out)
{
    uint64_t below = 0;
    size_t i = 0;

    do {
        below += picture->counts[i];
        append_series(out, name, "_bucket", labels, &picture->bounds[i]);
        buf_appendf(out, "%llu\n", (unsigned long long)below);
    } while (!isinf(picture->bounds[i++]));
    append_series(out, name, "_sum", labels, NULL);
    append_number(out, picture->sum);
    buf_append_char(out, '\n');
    append_series(out, name, "_count", labels, NULL);
    buf_appendf(out, "%llu\n", (unsigned long long)below);
}

/* Adds one label's histogram to a snapshot. */
static void look(const struct metric_set *set, size_t id, size_t label, struct picture *picture)
{
    const struct metric_desc *desc = &set->table[id];
    const _Atomic uint64_t *cells = cells_of(set, id, label);
    size_t buckets = bucket_count(desc);

    picture->bounds = desc->buckets;
    for (size_t i = 0; i < buckets; i++)
        picture->counts[i] += load(&cells[i]);
    picture->sum += double_of(load(&cells[buckets]));
}

static void render_head(const char *name, const char *help, enum metric_type type, struct buf *out)
{
    static const char *const types[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"};

    buf_appendf(out, "# HELP %s ", name);
    append_escaped(out, help, false);
    buf_appendf(out, "\n# TYPE %s %s\n", name, types[type]);
}

struct metric_set *metric_set_create(const struct metric_desc *table, size_t count)
{
    struct metric_set *set = mem_alloc(sizeof(*set));

    set->table = table;
    set->count = count;
    set->first = mem_alloc_array(count + 1, sizeof(*set->first));
    for (size_t id = 0; id < count; id++) {
        check_desc(table, id);
        set->first[id + 1] = set->first[id] + label_count(&table[id]) * cells_per_label(&table[id]);
    }
    /* Zeroed memory is the number 0, as a count and as a double. */
    set->cells = mem_alloc_array(set->first[count], sizeof(*set->cells));
    return set;
}

void metric_set_destroy(struct metric_set **set)
{
    if (*set == NULL)
        return;
    mem_free((*set)->first);
    mem_free((void *)(*set)->cells);
    mem_free(*set);
    *set = NULL;
}

void metric_add(struct metric_set *set, size_t id, size_t label, double v)
{
    _Atomic uint64_t *cell = cells_of(set, id, label);

    assert(set->table[id].type != METRIC_HISTOGRAM);
    assert(set->table[id].type == METRIC_GAUGE || v >= 0);
    add_double(cell, v);
}

void metric_put(struct metric_set *set, size_t id, size_t label, double v)
{
    _Atomic uint64_t *cell = cells_of(set, id, label);

    assert(set->table[id].type == METRIC_GAUGE);
    atomic_store_explicit(cell, bits_of(v), memory_order_relaxed);
}

static size_t bucket_of(const double *bounds, double v)
{
    size_t i = 0;

    assert(!isnan(v));
    while (v > bounds[i]) /* ends at INFINITY */
        i++;
    return i;
}

void metric_observe(struct metric_set *set, size_t id, size_t label, double v)
{
    _Atomic uint64_t *cells = cells_of(set, id, label);

    assert(set->table[id].type == METRIC_HISTOGRAM);
    atomic_fetch_add_explicit(&cells[bucket_of(set->table[id].buckets, v)], 1,
                              memory_order_relaxed);
    add_double(&cells[bucket_count(&set->table[id])], v);
}

double metric_value(const struct metric_set *set, size_t id, size_t label)
{
    const _Atomic uint64_t *cells = cells_of(set, id, label);
    const struct metric_desc *desc = &set->table[id];

    return double_of(load(desc->type == METRIC_HISTOGRAM ? &cells[bucket_count(desc)] : cells));
}

uint64_t metric_count(const struct metric_set *set, size_t id, size_t label)
{
    const _Atomic uint64_t *cells = cells_of(set, id, label);
    uint64_t sum = 0;

    assert(set->table[id].type == METRIC_HISTOGRAM);
    for (size_t i = 0; i < bucket_count(&set->table[id]); i++)
        sum += load(&cells[i]);
    return sum;
}

static void render_metric(const struct metric_set *set, size_t id, struct buf *labels,
                          struct buf *out)
{
    const struct metric_desc *desc = &set->table[id];

    render_head(desc->name, desc->help, desc->type, out);
    for (size_t label = 0; label < label_count(desc) && labels->err == ERR_OK; label++) {
        const char *text = label_text(desc, label, labels);
        struct picture picture = {0};
        if (desc->type != METRIC_HISTOGRAM) {
            render_value(desc->name, text, metric_value(set, id, label), out);
            continue;
        }
        look(set, id, label, &picture);
        render_histogram(desc->name, text, &picture, out);
    }
}

enum err metric_render(const struct metric_set *set, struct buf *out)
{
    struct buf labels;

    buf_init(&labels, LABELS_BYTES_MAX);
    for (size_t id = 0; id < set->count && labels.err == ERR_OK; id++)
        render_metric(set, id, &labels, out);
    enum err err = labels.err != ERR_OK ? labels.err : out->err;
    buf_fini(&labels);
    return err;
}

/* ---- under other names, and from other sources ---- */

enum err metric_render_as(const struct metric_set *set, size_t id, size_t label,
                          const struct metric_alias *alias, struct buf *out)
{
    const struct metric_desc *desc = &set->table[id];
    size_t first = label == METRIC_ALL ? 0 : label;
    size_t end = label == METRIC_ALL ? label_count(desc) : label + 1;
    struct picture picture = {0};
    double sum = 0;

    render_head(alias->name, alias->help, desc->type, out);
    for (size_t i = first; i < end; i++) {
        if (desc->type == METRIC_HISTOGRAM)
            look(set, id, i, &picture);
        else
            sum += metric_value(set, id, i);
    }
    if (desc->type == METRIC_HISTOGRAM)
        render_histogram(alias->name, alias->labels, &picture, out);
    else
        render_value(alias->name, alias->labels, sum, out);
    return out->err;
}

enum err metric_render_number(const struct metric_alias *alias, enum metric_type type, double v,
                              struct buf *out)
{
    assert(type != METRIC_HISTOGRAM);
    render_head(alias->name, alias->help, type, out);
    render_value(alias->name, alias->labels, v, out);
    return out->err;
}

void metric_append_label(struct buf *out, const char *label, const char *value)
{
    assert(is_name(label, false));
    buf_appendf(out, "%s%s=\"", out->len > 0 ? "," : "", label);
    append_escaped(out, value, true);
    buf_append_char(out, '"');
}

void metric_latency_observe(struct metric_latency *latency, double seconds)
{
    latency->counts[bucket_of(metric_buckets_latency, seconds)]++;
    latency->sum += seconds;
}

void metric_latency_add(struct metric_latency *sum, const struct metric_latency *one)
{
    for (size_t i = 0; i < METRIC_LATENCY_BUCKETS; i++)
        sum->counts[i] += one->counts[i];
    sum->sum += one->sum;
}

enum err metric_latency_render(const struct metric_latency *latency,
                               const struct metric_alias *alias, struct buf *out)
{
    struct picture picture = {.bounds = metric_buckets_latency, .sum = latency->sum};

    memcpy(picture.counts, latency->counts, sizeof(latency->counts));
    render_head(alias->name, alias->help, METRIC_HISTOGRAM, out);
    render_histogram(alias->name, alias->labels, &picture, out);
    return out->err;
}

/* Three steps per decade resolve a latency to about a factor of two, enough for percentiles. */
const double metric_buckets_latency[METRIC_LATENCY_BUCKETS] = {
    1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1,
    0.25, 0.5,    1,    2.5,  5,      10,   25,   50,     100,  INFINITY,
};

#define KIB 1024.0
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

const double metric_buckets_bytes[] = {
    KIB,      4 * KIB,  16 * KIB,  64 * KIB, 256 * KIB, MIB,      4 * MIB,
    16 * MIB, 64 * MIB, 256 * MIB, GIB,      4 * GIB,   16 * GIB, INFINITY,
};

/*
 * report.c: table, CSV and JSON. Texts come from the user's command line: JSON quotes them, CSV and the table show them as they are.
 */
#include "trace/report.h"

#include <stdbool.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/units.h"
#include "trace/cost.h"

/* ---- for people ---- */

static void write_head(const struct report *report, const char *begin, struct buf *out)
{
    char requests[UNITS_TEXT_BYTES], blocks[UNITS_TEXT_BYTES], distinct[UNITS_TEXT_BYTES];
    char span[UNITS_TEXT_BYTES], rows[UNITS_TEXT_BYTES], snapshot[UNITS_TEXT_BYTES];

    buf_appendf(out, "%shearth %s, %s\n", begin, report->version, report->machine);
    buf_appendf(out, "%s%s\n", begin, report->files);
    buf_appendf(out, "%s%s requests in %s, %s blocks of %u tokens, %s of them distinct", begin,
                units_format_count(report->requests, requests),
                units_format_duration(report->ns, span), units_format_count(report->blocks, blocks),
                report->block_tokens, units_format_count(report->blocks_distinct, distinct));
    if (report->users > 1)
        buf_appendf(out, "; %u users, seed %llu", report->users, (unsigned long long)report->seed);
    buf_appendf(
        out, "\n%s%s: %s of rows per token, %s per snapshot, %.0f tokens/s of prefill, %.1f GB/s\n",
        begin, report->cost->name, units_format_size(report->cost->rows_bytes_per_token, rows),
        units_format_size(report->cost->snapshot_bytes, snapshot),
        report->cost->prefill_tokens_per_s, report->cost->import_bytes_per_s / 1e9);
    if (report->snapshots != NULL)
        buf_appendf(out, "%ssnapshots: %s\n", begin, report->snapshots);
}

static const char *capacity_text(const struct report_row *row, char out[UNITS_TEXT_BYTES])
{
    return row->capacity_blocks ? units_format_count(row->capacity_blocks, out)
                                : units_format_size(row->capacity_bytes, out);
}

static void write_row(const struct report_row *row, bool snapshots, struct buf *out)
{
    const struct sim_result *result = &row->result;
    char capacity[UNITS_TEXT_BYTES], computed[UNITS_TEXT_BYTES], evictions[UNITS_TEXT_BYTES];
    char written[UNITS_TEXT_BYTES], live[UNITS_TEXT_BYTES];

    buf_appendf(out, "%-16s %12s  %6.2f%%  %6.2f%%  %15s  %12s  %8.3f  %8.3f  %8.3f", row->policy,
                capacity_text(row, capacity), 100 * sim_hit_rate(result),
                100 * sim_block_hit_rate(result),
                units_format_count(result->tokens - result->tokens_hit, computed),
                units_format_count(result->evictions, evictions), result->ttft_s_mean,
                result->ttft_s_p50, result->ttft_s_p99);
    if (snapshots)
        buf_appendf(out, "  %10s  %10s", units_format_size(result->snapshot_bytes, written),
                    units_format_size(result->snapshot_bytes_live_max, live));
    buf_append_char(out, '\n');
}

static void write_table(const struct report *report, struct buf *out)
{
    bool snapshots = report->snapshots != NULL;

    write_head(report, "", out);
    buf_appendf(out, "\n%-16s %12s  %7s  %7s  %15s  %12s  %8s  %8s  %8s%s\n", "policy", "capacity",
                "tokens", "blocks", "computed", "evictions", "TTFT s", "p50", "p99",
                snapshots ? "   snapshots   of it live" : "");
    for (size_t i = 0; i < report->rows_count; i++)
        write_row(&report->rows[i], snapshots, out);
    if (report->best != NULL)
        buf_appendf(out, "\nbest placement, knowing the future: %llu snapshots, %.2f%% of tokens\n",
                    (unsigned long long)report->best->snapshots, 100 * report->best->hit_rate);
}

/* ---- for programs ---- */

/* Every number of a row: X(name, format, value). */
#define ROW_TABLE(X)                                                                              \
    X("capacity_bytes", "%llu", (unsigned long long)row->capacity_bytes)                          \
    X("capacity_blocks", "%llu", (unsigned long long)row->capacity_blocks)                        \
    X("token_hit_rate", "%.6f", sim_hit_rate(&row->result))                                       \
    X("block_hit_rate", "%.6f", sim_block_hit_rate(&row->result))                                 \
    X("tokens", "%llu", (unsigned long long)row->result.tokens)                                   \
    X("tokens_computed", "%llu",                                                                  \
      (unsigned long long)(row->result.tokens - row->result.tokens_hit))                          \
    X("evictions", "%llu", (unsigned long long)row->result.evictions)                             \
    X("refused", "%llu", (unsigned long long)row->result.refused)                                 \
    X("snapshots", "%llu", (unsigned long long)row->result.snapshots)                             \
    X("snapshot_bytes", "%llu", (unsigned long long)row->result.snapshot_bytes)                   \
    X("snapshot_bytes_max", "%llu", (unsigned long long)row->result.snapshot_bytes_max)           \
    X("snapshot_bytes_live_max", "%llu", (unsigned long long)row->result.snapshot_bytes_live_max) \
    X("ttft_s_mean", "%.6f", row->result.ttft_s_mean)                                             \
    X("ttft_s_p50", "%.6f", row->result.ttft_s_p50)                                               \
    X("ttft_s_p99", "%.6f", row->result.ttft_s_p99)                                               \
    X("seconds", "%.3f", row->result.seconds)

static void write_csv(const struct report *report, struct buf *out)
{
    write_head(report, "# ", out);
    buf_append_str(out, "policy");
#define X(name, format, value) buf_append_str(out, "," name);
    ROW_TABLE(X)
#undef X
    buf_append_char(out, '\n');
    for (size_t i = 0; i < report->rows_count; i++) {
        const struct report_row *row = &report->rows[i];
        buf_append_str(out, row->policy);
#define X(name, format, value) buf_appendf(out, "," format, value);
        ROW_TABLE(X)
#undef X
        buf_append_char(out, '\n');
    }
}

static void write_string(const char *text, struct buf *out)
{
    buf_append_char(out, '"');
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            buf_append_char(out, '\\');
        if (c < 0x20)
            buf_appendf(out, "\\u%04x", c);
        else
            buf_append_char(out, (char)c);
    }
    buf_append_char(out, '"');
}

static void write_field(const char *name, const char *text, struct buf *out)
{
    buf_appendf(out, "  \"%s\": ", name);
    write_string(text, out);
    buf_append_str(out, ",\n");
}

static void write_json_head(const struct report *report, struct buf *out)
{
    write_field("hearth", report->version, out);
    write_field("machine", report->machine, out);
    write_field("files", report->files, out);
    write_field("model", report->cost->name, out);
    if (report->snapshots != NULL)
        write_field("snapshot_placement", report->snapshots, out);
    buf_appendf(out,
                "  \"requests\": %llu,\n  \"blocks\": %llu,\n  \"blocks_distinct\": %llu,\n"
                "  \"tokens\": %llu,\n  \"block_tokens\": %u,\n  \"run_blocks\": %u,\n"
                "  \"users\": %u,\n  \"seed\": %llu,\n  \"span_s\": %.3f,\n",
                (unsigned long long)report->requests, (unsigned long long)report->blocks,
                (unsigned long long)report->blocks_distinct, (unsigned long long)report->tokens,
                report->block_tokens, report->run_blocks, report->users,
                (unsigned long long)report->seed, (double)report->ns / (double)NS_PER_S);
    if (report->best != NULL)
        buf_appendf(out, "  \"best_snapshots\": %llu,\n  \"best_token_hit_rate\": %.6f,\n",
                    (unsigned long long)report->best->snapshots, report->best->hit_rate);
}

static void write_json(const struct report *report, struct buf *out)
{
    buf_append_str(out, "{\n");
    write_json_head(report, out);
    buf_append_str(out, "  \"rows\": [");
    for (size_t i = 0; i < report->rows_count; i++) {
        const struct report_row *row = &report->rows[i];
        buf_appendf(out, "%s\n    {\"policy\": ", i > 0 ? "," : "");
        write_string(row->policy, out);
#define X(name, format, value) buf_appendf(out, ", \"" name "\": " format, value);
        ROW_TABLE(X)
#undef X
        buf_append_char(out, '}');
    }
    buf_append_str(out, "\n  ]\n}\n");
}

enum err report_write(const struct report *report, enum report_format format, struct buf *out)
{
    switch (format) {
    case REPORT_TABLE:
        write_table(report, out);
        break;
    case REPORT_CSV:
        write_csv(report, out);
        break;
    case REPORT_JSON:
        write_json(report, out);
        break;
    case REPORT_SVG:
        report_write_svg(report, out);
        break;
    }
    return out->err;
}

/*
 * jinja_bench.c: how long a render takes: a conversation of 200 messages and 400 KB, with the
 * template files that are named on the command line, or with one of our own (the aim is below 5 ms).
 *
 * csv: template, bytes of output, compile in us, render in us (median and best of the rounds).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "lab/micro.h"
#include "jinja/jinja.h"

enum {
    MESSAGES = 200,
    MESSAGE_BYTES = 2000,
    ROUNDS = 50,
    ARENA_BYTES = 512 << 20,
    OUTPUT_BYTES = 64 << 20,
};

static char content[MESSAGE_BYTES];

static struct jinja_value conversation(struct arena *arena)
{
    static const char words[] = "The quick brown fox jumps over the lazy dog; it's \"fine\".\n";
    struct jinja_value messages = jinja_list_new(arena), vars = jinja_dict_new(arena);
    bool ok = true;

    for (size_t i = 0; i < MESSAGE_BYTES; i++)
        content[i] = words[i % (sizeof(words) - 1)];
    for (int i = 0; i < MESSAGES; i++) {
        struct jinja_value message = jinja_dict_new(arena);
        struct str role = i % 2 ? STR("assistant") : STR("user");
        ok =
            ok && jinja_dict_set(arena, message, jinja_str(STR("role")), jinja_str(role)) &&
            jinja_dict_set(arena, message, jinja_str(STR("content")),
                           jinja_str_from((struct str){content, MESSAGE_BYTES}, (uint32_t)i + 1)) &&
            jinja_list_add(arena, messages, message);
    }
    ok = ok && jinja_dict_set(arena, vars, jinja_str(STR("messages")), messages) &&
         jinja_dict_set(arena, vars, jinja_str(STR("bos_token")), jinja_str(STR("<s>"))) &&
         jinja_dict_set(arena, vars, jinja_str(STR("eos_token")), jinja_str(STR("</s>"))) &&
         jinja_dict_set(arena, vars, jinja_str(STR("add_generation_prompt")), jinja_bool(true));
    if (!ok)
        abort();
    return vars;
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Prints one row; false when the template refuses the conversation. */
static bool measure(const char *name, const struct jinja *tmpl, uint64_t compile_ns)
{
    struct jinja_options options = {.limits = jinja_limits_default, .now_s = 1700000000};
    struct arena input, arena;
    struct jinja_error error;
    uint64_t times[ROUNDS];
    struct buf text;
    bool ok = true;

    arena_init(&input, ARENA_BYTES);
    arena_init(&arena, ARENA_BYTES);
    buf_init(&text, OUTPUT_BYTES);
    struct jinja_value vars = conversation(&input);
    for (int i = 0; i < ROUNDS && ok; i++) {
        struct jinja_output output;
        jinja_output_init(&output, &text);
        buf_clear(&text);
        arena_reset(&arena);
        uint64_t start = clock_mono_ns(clock_real());
        ok = jinja_render(tmpl, vars, &options, &arena, jinja_output_sink, &output, &error) ==
             ERR_OK;
        times[i] = clock_mono_ns(clock_real()) - start;
        jinja_output_fini(&output);
    }
    if (ok) {
        qsort(times, ROUNDS, sizeof(times[0]), compare_u64);
        micro_row(name, "%zu,%.0f,%.0f,%.0f", text.len, (double)compile_ns / 1e3,
                  (double)times[ROUNDS / 2] / 1e3, (double)times[0] / 1e3);
    } else {
        micro_note("%s: %s", name, error.message);
    }
    buf_fini(&text);
    arena_fini(&arena);
    arena_fini(&input);
    return ok;
}

static void bench(const char *name, struct str source)
{
    struct jinja_error error;
    struct jinja *tmpl;

    uint64_t start = clock_mono_ns(clock_real());
    enum err err = jinja_compile(source, &tmpl, &error);
    uint64_t compile_ns = clock_mono_ns(clock_real()) - start;
    if (err == ERR_OK)
        measure(name, tmpl, compile_ns);
    else
        micro_note("%s: %s", name, error.message);
    jinja_destroy(&tmpl);
}

/* What most templates do for each message: look for the last question, compare roles, cut thoughts. */
static const char own[] =
    "{%- set ns = namespace(last=-1) -%}"
    "{%- for m in messages -%}{%- if m.role == 'user' -%}{%- set ns.last = loop.index0 -%}{%- "
    "endif "
    "-%}{%- endfor -%}"
    "{%- for m in messages -%}{{- '<|im_start|>' + m.role + '\n' -}}"
    "{%- if m.role == 'assistant' and '</think>' in m.content and loop.index0 < ns.last -%}"
    "{{- m.content.split('</think>')[-1].lstrip('\n') -}}{%- else -%}{{- m.content | trim -}}{%- "
    "endif -%}"
    "{{- '<|im_end|>\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}";

static int run_bench(int argc, char **argv)
{
    micro_note("%d messages of %d bytes", MESSAGES, MESSAGE_BYTES);
    if (argc == 1)
        bench("own", STR(own));
    for (int i = 1; i < argc; i++) {
        struct errinfo info;
        char *text;
        size_t len;
        if (file_read_all(file_sys_real(), AT_FDCWD, argv[i], JINJA_SOURCE_BYTES_MAX, &text, &len,
                          &info) != ERR_OK) {
            fprintf(stderr, "jinja_bench: %s: %s\n", argv[i], info.text);
            return 1;
        }
        bench(argv[i], (struct str){text, len});
        mem_free(text);
    }
    return 0;
}

static const struct sheet_column columns[] = {
    MICRO_COLUMN(template, SHEET_TEXT), MICRO_COLUMN(output_bytes, 0),
    MICRO_COLUMN(compile_us, 0),        MICRO_COLUMN(render_us_median, 0),
    MICRO_COLUMN(render_us_best, 0),
};

const struct micro micro_jinja = {
    .name = "jinja",
    .columns = columns,
    .columns_count = COUNT_OF(columns),
    .plot = {.title = "rendering 200 messages, microseconds",
             .labels = {"template"},
             .values = {"compile_us", "render_us_median"},
             .logarithmic = true},
    .run = run_bench,
};

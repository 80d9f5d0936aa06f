#include "jinja/jinja.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/lock.h"
#include "base/mem.h"
#include "support/templates.h"
#include "support/test.h"

#define CASES "tests/jinja/cases/"

enum { ARENA_MAX = 256 << 20, TEXT_MAX = 64 << 20, NOW = 1700000000 };

/* One render and all that belongs to it. */
struct rendered {
    enum err err;
    struct jinja_error error;
    struct arena arena;
    struct buf text;
    struct jinja_output output;
};

static const struct jinja_limits *test_limits = &jinja_limits_default;

static void render_values(struct rendered *r, const struct jinja *tmpl, struct jinja_value vars)
{
    struct jinja_options options = {.limits = *test_limits, .now_s = NOW};

    r->err =
        jinja_render(tmpl, vars, &options, &r->arena, jinja_output_sink, &r->output, &r->error);
}

static void rendered_init(struct rendered *r)
{
    *r = (struct rendered){0};
    arena_init(&r->arena, ARENA_MAX);
    buf_init(&r->text, TEXT_MAX);
    jinja_output_init(&r->output, &r->text);
}

static void rendered_fini(struct rendered *r)
{
    jinja_output_fini(&r->output);
    buf_fini(&r->text);
    arena_fini(&r->arena);
}

static void render_json(struct rendered *r, struct str source, yyjson_val *vars)
{
    struct jinja *tmpl;
    struct jinja_value values;
    uint32_t origin = 1;

    rendered_init(r);
    r->err = jinja_compile(source, &tmpl, &r->error);
    if (r->err != ERR_OK)
        return;
    assert_ok(jinja_value_from_json(&r->arena, vars, &origin, &values));
    render_values(r, tmpl, values);
    jinja_destroy(&tmpl);
    assert_null(tmpl);
}

static void render_text(struct rendered *r, const char *source, const char *vars)
{
    yyjson_doc *doc = yyjson_read(vars, strlen(vars), 0);

    assert_non_null(doc);
    render_json(r, str_from(source), yyjson_doc_get_root(doc));
    /* Everything that is compared later was copied into r->text. */
    yyjson_doc_free(doc);
}

static void assert_renders(const char *source, const char *vars, const char *expected)
{
    struct rendered r;

    render_text(&r, source, vars);
    if (r.err != ERR_OK)
        fail_msg("%s: %s", source, r.error.message);
    assert_string_equal(buf_str(&r.text), expected);
    rendered_fini(&r);
}

static void assert_refused(const char *source, enum err expected)
{
    struct rendered r;

    render_text(&r, source, "{}");
    if (r.err == ERR_OK)
        fail_msg("%s: rendered as '%s'", source, buf_str(&r.text));
    assert_err(r.err, expected);
    assert_int_equal(r.error.code, expected);
    assert_true(r.error.message[0] != '\0');
    rendered_fini(&r);
}

static yyjson_doc *read_json(const char *path)
{
    yyjson_doc *doc = yyjson_read_file(path, YYJSON_READ_BIGNUM_AS_RAW, NULL, NULL);

    if (doc == NULL)
        fail_msg("%s cannot be read", path);
    return doc;
}

/* A file as a buffer; the caller frees. */
static struct buf read_file(const char *path)
{
    struct buf buf;
    size_t got = 1;
    FILE *file = fopen(path, "rb");

    buf_init(&buf, TEXT_MAX);
    if (file == NULL)
        fail_msg("%s cannot be read", path);
    while (got > 0) {
        char *to = buf_reserve(&buf, 65536);
        assert_non_null(to);
        got = fread(to, 1, 65536, file);
        buf_commit(&buf, got);
    }
    fclose(file);
    return buf;
}

/* ---- against jinja2 ---- */

static bool same_as_jinja2(const struct rendered *r, yyjson_val *expected)
{
    yyjson_val *out = yyjson_obj_get(expected, "out");

    if (out == NULL)
        return r->err != ERR_OK;
    return r->err == ERR_OK && r->text.len == yyjson_get_len(out) &&
           memcmp(buf_str(&r->text), yyjson_get_str(out), r->text.len) == 0;
}

static void test_language_as_jinja2(void **state)
{
    struct buf file = read_file(CASES "language.jsonl");
    struct str rest = {buf_str(&file), file.len}, line;
    yyjson_doc *shared = NULL;
    int cases = 0, refused = 0, bad = 0;

    (void)state;
    while (str_next(&rest, '\n', &line)) {
        struct rendered r;
        if (line.len == 0)
            continue;
        yyjson_doc *doc = yyjson_read(line.ptr, line.len, 0);
        assert_non_null(doc);
        if (shared == NULL) {
            shared = doc;
            continue;
        }
        yyjson_val *root = yyjson_doc_get_root(doc), *source = yyjson_obj_get(root, "t");
        yyjson_val *vars = yyjson_obj_get(root, "v");
        if (vars == NULL)
            vars = yyjson_obj_get(yyjson_doc_get_root(shared), "v");
        render_json(&r, (struct str){yyjson_get_str(source), yyjson_get_len(source)}, vars);
        cases++;
        refused += r.err != ERR_OK;
        if (!same_as_jinja2(&r, root)) {
            bad++;
            print_error(STR_FMT "\n  gave %s '%s'\n", STR_ARG(line), err_name(r.err),
                        r.err == ERR_OK ? buf_str(&r.text) : r.error.message);
        }
        rendered_fini(&r);
        yyjson_doc_free(doc);
    }
    yyjson_doc_free(shared);
    buf_fini(&file);
    assert_int_equal(bad, 0);
    assert_true(cases >= 1300);
    assert_true(refused > 100 && refused < cases / 2);
}

static uint64_t fnv(const char *data, size_t len)
{
    uint64_t value = 0xCBF29CE484222325u;

    for (size_t i = 0; i < len; i++)
        value = (value ^ (unsigned char)data[i]) * 0x100000001B3u;
    return value;
}

/* "name digest length" or "name refused": one line of digests.txt behind the template's name. */
static void describe(const struct rendered *r, const char *name, struct buf *out)
{
    if (r->err != ERR_OK)
        buf_appendf(out, "%s refused", name);
    else
        buf_appendf(out, "%s %016llx %zu", name,
                    (unsigned long long)fnv(buf_str(&r->text), r->text.len), r->text.len);
    assert_ok(out->err);
}

/* The variables of one conversation; "long" repeats messages. */
static struct jinja_value conversation_values(struct arena *arena, yyjson_val *item)
{
    yyjson_val *repeated = yyjson_obj_get(item, "long");
    struct jinja_value vars, more;
    uint32_t origin = 1;

    assert_ok(jinja_value_from_json(arena, yyjson_obj_get(item, "vars"), &origin, &vars));
    if (repeated == NULL)
        return vars;
    assert_ok(jinja_value_from_json(arena, yyjson_obj_get(repeated, "messages"), &origin, &more));
    const struct jinja_value *messages = jinja_dict_get_str(vars.dict, STR("messages"));
    int64_t times = yyjson_get_sint(yyjson_obj_get(repeated, "times"));
    for (int64_t i = 0; i < times; i++)
        for (size_t k = 0; k < more.list->count; k++)
            assert_true(jinja_list_add(arena, *messages, more.list->items[k]));
    return vars;
}

struct comparison {
    yyjson_doc *conversations;
    struct buf expected; /* the files of digests, each line with a line end before it */
    int compared, bad;
};

/* Renders a template with every conversation and compares with the digests of jinja2's renders. */
static void compare_template(const char *name, const char *source, void *arg)
{
    struct comparison *comparison = arg;
    struct jinja_error error;
    struct jinja *tmpl;
    yyjson_val *item;
    size_t i, count;

    assert_ok(jinja_compile(str_from(source), &tmpl, &error));
    yyjson_arr_foreach(yyjson_doc_get_root(comparison->conversations), i, count, item)
    {
        struct rendered r;
        struct buf line;
        rendered_init(&r);
        buf_init(&line, 4096);
        render_values(&r, tmpl, conversation_values(&r.arena, item));
        assert_ok(buf_appendf(&line, "\n%s ", name));
        describe(&r, yyjson_get_str(yyjson_obj_get(item, "name")), &line);
        assert_ok(buf_append_char(&line, '\n'));
        comparison->compared++;
        if (strstr(buf_str(&comparison->expected), buf_str(&line)) == NULL) {
            comparison->bad++;
            print_error("not as jinja2: %s (%s)\n", buf_str(&line), r.error.message);
        }
        buf_fini(&line);
        rendered_fini(&r);
    }
    jinja_destroy(&tmpl);
}

static void test_templates_as_jinja2(void **state)
{
    static const char *const files[] = {CASES "digests.txt", CASES "digests_published.txt"};
    struct comparison comparison = {.conversations = read_json(CASES "conversations.json")};

    (void)state;
    buf_init(&comparison.expected, TEXT_MAX);
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        struct buf file = read_file(files[i]);
        assert_ok(buf_appendf(&comparison.expected, "\n%s", buf_str(&file)));
        buf_fini(&file);
    }
    size_t published = templates_each(compare_template, &comparison);
    yyjson_doc_free(comparison.conversations);
    buf_fini(&comparison.expected);
    assert_int_equal(comparison.bad, 0);
    assert_true(comparison.compared >= 41 * TEMPLATES_OWN + (published > 0 ? 1900 : 0));
}

/* ---- spans ---- */

/* The spans as text, "origin:piece", separated by '|'. Strings are numbered in the order of the
 * JSON, keys included. */
static void assert_spans(const char *source, const char *vars, const char *expected)
{
    struct rendered r;
    struct buf spans;
    size_t end = 0;

    buf_init(&spans, 4096);
    render_text(&r, source, vars);
    assert_ok(r.err);
    for (size_t i = 0; i < r.output.span_count; i++) {
        const struct jinja_span *span = &r.output.spans[i];
        assert_true(span->begin >= end && span->begin < span->end && span->end <= r.text.len);
        end = span->end;
        assert_ok(buf_appendf(&spans, "%s%u:%.*s", i ? "|" : "", span->origin,
                              (int)(span->end - span->begin), r.text.data + span->begin));
    }
    assert_string_equal(buf_str(&spans), expected);
    buf_fini(&spans);
    rendered_fini(&r);
}

static void test_spans_tell_what_users_wrote(void **state)
{
    const char *vars =
        "{\"a\": \"alpha \", \"b\": \"beta\"}"; /* a = 1, "alpha " = 2, b = 3, "beta" = 4 */

    (void)state;
    assert_spans("x{{ a }}y{{ b }}", vars, "2:alpha |4:beta");
    assert_spans("{{ 'x' + a + 'y' + b }}", vars, "2:alpha |4:beta");
    assert_spans("{{ a ~ b }}", vars, "2:alpha |4:beta");
    assert_spans("{{ a|trim }}{{ b[1:3] }}", vars, "2:alpha|4:et");
    assert_spans("{% set x = 'p' + a + 'q' %}{{ x }}{{ x[3:] }}", vars, "2:alpha |2:pha ");
    assert_spans("{% macro m(t) %}<{{ t }}>{% endmacro %}{{ m(b) }}", vars, "4:beta");
    assert_spans("{% set x %}[{{ a }}]{% endset %}{{ x|trim }}", vars, "2:alpha ");
    assert_spans("{{ (a + '|' + b).split('|')[1] }}", vars, "4:beta");
    assert_spans("{{ [a, b]|join(', ') }}", vars, "2:alpha |4:beta");
    assert_spans("{{ b|upper }}", vars, "4:BETA"); /* computed from it: still the user's */
    assert_spans("{{ b.replace('t', '<t>') }}", vars, "4:be|4:a");
    assert_spans("{{ {'k': a}|tojson }}", vars, "2:alpha ");
    assert_spans("{{ '%s!' % b }}", vars, "4:beta");
    assert_spans("{{ '<{}>'.format(b) }}", vars, "4:beta");
    assert_spans("{{ ('<' ~ a ~ '{:>2}>').format(1) }}", vars, "2:alpha ");
    assert_spans("{{ '<b>&amp;</b>'|striptags }}", vars, "");
    assert_spans("{{ ('&lt;' ~ b ~ '&x')|striptags }}", vars, "4:<beta&x");
    assert_spans("{% for k, v in {'x': b}.items() %}{{ k }}{{ v }}{% endfor %}", vars, "4:beta");
    assert_spans("plain {{ 1 + 2 }} {{ 'text' }}", vars, "");
}

/* ---- errors ---- */

static void test_errors_have_their_place(void **state)
{
    struct rendered r;

    (void)state;
    render_text(&r, "one\ntwo {{ x.y }} end\nthree", "{}");
    assert_err(r.err, ERR_INVALID);
    assert_int_equal(r.error.line, 2);
    assert_int_equal(r.error.column, 9);
    assert_string_equal(r.error.source, "two {{ x.y }} end");
    assert_string_equal(r.error.message, "'x' is undefined");
    assert_false(r.error.raised);
    rendered_fini(&r);

    render_text(&r, "a\n\n  {% if x %}", "{}");
    assert_err(r.err, ERR_INVALID);
    assert_int_equal(r.error.line, 3);
    rendered_fini(&r);

    render_text(&r, "\n{{ raise_exception('roles must ' ~ 'alternate') }}", "{}");
    assert_err(r.err, ERR_INVALID);
    assert_true(r.error.raised);
    assert_int_equal(r.error.line, 2);
    assert_string_equal(r.error.message, "roles must alternate");
    rendered_fini(&r);

    render_text(&r, "{{ '%\xC3\xA9 %d' % 1 }}",
                "{}"); /* whole characters: clients get it as JSON */
    assert_err(r.err, ERR_INVALID);
    assert_string_equal(r.error.message, "unsupported format character '\xC3\xA9'");
    rendered_fini(&r);
}

static void test_refusals_have_their_code(void **state)
{
    (void)state;
    assert_refused("{% include 'x' %}", ERR_UNSUPPORTED);
    assert_refused("{% import 'x' as y %}", ERR_UNSUPPORTED);
    assert_refused("{% extends 'x' %}", ERR_UNSUPPORTED);
    assert_refused("{% autoescape true %}{% endautoescape %}", ERR_UNSUPPORTED);
    assert_refused("{{ 2 ** 64 }}", ERR_LIMIT);
    assert_refused("{{ 9223372036854775807 + 1 }}", ERR_LIMIT);
    assert_refused("{{ 9223372036854775808 }}", ERR_INVALID);
    assert_refused("{{ [1, 2].pop() }}", ERR_INVALID);
    assert_refused("\xff", ERR_INVALID);
    assert_refused("{{ 'a\xc3' }}", ERR_INVALID);
}

/* ---- hostile templates ---- */

/* A template of n times `part`, then `middle`, then n times `end`. */
static void assert_repeated(const char *part, int n, const char *middle, const char *end,
                            enum err expected)
{
    struct buf source;
    struct rendered r;

    buf_init(&source, TEXT_MAX);
    for (int i = 0; i < n; i++)
        buf_append_str(&source, part);
    buf_append_str(&source, middle);
    for (int i = 0; i < n; i++)
        buf_append_str(&source, end);
    assert_ok(source.err);
    render_text(&r, buf_str(&source), "{}");
    assert_err(r.err, expected);
    rendered_fini(&r);
    buf_fini(&source);
}

static void test_deep_nesting_is_refused(void **state)
{
    (void)state;
    assert_repeated("{{ ", 1, "1", " }}", ERR_OK);
    assert_repeated("{% if 1 %}", 50, "x", "{% endif %}", ERR_OK);
    assert_repeated("{% if 1 %}", 5000, "x", "{% endif %}", ERR_INVALID);
    assert_repeated("", 0, "{{ 1 }}", "", ERR_OK);
    assert_repeated("{{ (", 1, "1", ") }}", ERR_OK);
    assert_refused(
        "{{ ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((("
        "((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1))))))))))))))))))"
        "))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))"
        ")))))))))))))))))))))))))))))))))))) }}",
        ERR_INVALID);
    assert_refused("{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}", ERR_LIMIT);
    assert_refused("{% set ns = namespace(x=[]) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}"
                   "{% endfor %}{{ ns.x }}",
                   ERR_LIMIT);
    assert_refused("{% set ns = namespace(x=[]) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}"
                   "{% endfor %}{{ ns.x|tojson }}",
                   ERR_LIMIT);
}

static void test_unbounded_work_is_refused(void **state)
{
    struct jinja_limits limits = jinja_limits_default;

    (void)state;
    limits.steps = 200000;
    limits.output_bytes = 1 << 20;
    test_limits = &limits;
    assert_refused("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
                   ERR_LIMIT);
    assert_refused("{{ 'x' * 9999999 }}", ERR_LIMIT);
    assert_refused("{{ ('x' * 1000000)|length }}{{ 'x' * 2000000 }}", ERR_LIMIT);
    assert_refused("{% for i in range(99999) %}0123456789abcdef{% endfor %}", ERR_LIMIT);
    assert_refused(
        "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}"
        "{% endfor %}",
        ERR_LIMIT);
    assert_refused(
        "{% set ns = namespace(s=[1]) %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}"
        "{% endfor %}",
        ERR_LIMIT);
    assert_refused("{{ [0] * 999999999999 }}", ERR_LIMIT);
    assert_refused("{{ '' * 999999999999 }}{{ '%999999999s' % 1 }}", ERR_INVALID);
    assert_refused("{{ 'a'.ljust(999999999) }}", ERR_LIMIT);
    assert_refused("{{ '{:999999}'.format(1)|length }}{{ ('a' * 500000).replace('', 'b' * 9999) }}",
                   ERR_LIMIT);
    assert_refused("{{ range(100001) }}", ERR_INVALID);
    assert_refused("{{ ('a' * 9999).strip('b' * 9999 + 'a') }}", ERR_LIMIT);
    assert_refused("{{ ('a' * 9999).rfind('a' * 5000 + 'b') }}", ERR_LIMIT);
    assert_refused("{{ ('a' * 9999).rsplit('a' * 5000 + 'b') }}", ERR_LIMIT);
    assert_refused("{% set k = 'a' * 99999 %}{% set d = {k: 1} %}{% for i in range(999) %}"
                   "{{ d[k] }}{{ d.get(k) }}{{ k in d }}{% endfor %}",
                   ERR_LIMIT);
    test_limits = &jinja_limits_default;
}

/* Work that grows with the square of a text would take hours here. */
static void test_long_runs_are_read_once(void **state)
{
    struct rendered r;

    (void)state;
    render_text(&r, "{{ ('-' * 1000000)|wordwrap|length }}", "{}");
    assert_ok(r.err);
    assert_string_equal(buf_str(&r.text), "1012658");
    rendered_fini(&r);
}

/* Each name of a call is compared with those before it. */
static void test_many_keyword_arguments_are_refused(void **state)
{
    struct buf text;

    (void)state;
    buf_init(&text, 1 << 20);
    buf_append_str(&text, "{{ dict(");
    for (int i = 0; i < 2000; i++)
        buf_appendf(&text, "k%d=1,", i);
    buf_append_str(&text, ") }}");
    assert_ok(text.err);
    assert_refused(buf_str(&text), ERR_INVALID);
    buf_fini(&text);
}

/* A filter that reads all of a text costs as many steps as that takes. */
static void test_long_texts_cost_steps(void **state)
{
    static const char *const uses[] = {
        "s|escape",         "s|int",       "s|float", "s|center(9)", "s.zfill(9)",
        "s.isidentifier()", "s|urlencode", "s|upper", "s|title",     "s.swapcase()"};
    struct jinja_limits limits = jinja_limits_default;
    char text[256];

    (void)state;
    limits.steps = 200000;
    test_limits = &limits;
    for (size_t i = 0; i < COUNT_OF(uses); i++) {
        snprintf(text, sizeof(text),
                 "{%% set s = '\u00e9' * 100000 %%}{%% for i in range(%d) %%}{%% set x = %s %%}"
                 "{%% endfor %%}",
                 i < 5 ? 20 : 3, uses[i]);
        assert_refused(text, ERR_LIMIT);
    }
    test_limits = &jinja_limits_default;
}

/* Two trees of 2 to the 40 leaves that share their branches are small, but comparing them is not.
 */
static void test_comparing_costs_steps(void **state)
{
    static const char trees[] = "{% set ns = namespace(a=(1,), b=(1,)) %}{% for i in range(40) %}"
                                "{% set ns.a = (ns.a, ns.a) %}{% set ns.b = (ns.b, ns.b) %}"
                                "{% endfor %}";
    static const char *const uses[] = {
        "{{ ns.a == ns.b }}",
        "{{ ns.a < ns.b }}",
        "{{ ns.a in [ns.b] }}",
        "{{ [ns.a, ns.b]|sort|length }}",
        "{{ ns.a is eq ns.b }}",
        "{{ [ns.a].count(ns.b) }}",
        "{% set s = 'a' * 1000000 %}{% set t = 'a' * 999999 + 'b' %}{% for i in range(99999) %}"
        "{% if s == t or s > t %}{% endif %}{% endfor %}",
        "{% set s = 'a' * 1000000 %}{% for i in range(99999) %}{% set x = s.split() %}{% endfor %}",
    };
    char text[1024];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(uses); i++) {
        snprintf(text, sizeof(text), "%s%s", trees, uses[i]);
        assert_refused(text, ERR_LIMIT);
    }
    snprintf(text, sizeof(text), "%s{{ {ns.a: 1}[ns.b] }}", trees);
    assert_refused(text, ERR_INVALID); /* too large for a key */
}

static void test_arena_limit_is_an_error(void **state)
{
    struct jinja_options options = {.limits = jinja_limits_default, .now_s = NOW};
    struct jinja_error error;
    struct jinja *tmpl;
    struct rendered r;

    (void)state;
    assert_ok(
        jinja_compile(STR("{% for i in range(1000) %}{{ [i] * 100 }}{% endfor %}"), &tmpl, &error));
    for (size_t limit = 64; limit < 65536; limit *= 2) {
        rendered_init(&r);
        arena_fini(&r.arena);
        arena_init(&r.arena, limit);
        struct jinja_value vars = jinja_dict_new(&r.arena);
        if (vars.kind != JINJA_MISSING)
            assert_err(
                jinja_render(tmpl, vars, &options, &r.arena, jinja_output_sink, &r.output, &error),
                ERR_LIMIT);
        rendered_fini(&r);
    }
    jinja_destroy(&tmpl);
}

/* ---- faults, prefixes, threads ---- */

static const char everything[] =
    "{%- macro m(a, b='x', c=1) %}[{{ a }}|{{ b }}{{ varargs }}{{ kwargs }}{{ caller() if caller "
    "}}]"
    "{% endmacro %}{% for k, v in {'a': 1, 'b': [2, 3]}.items() if v recursive %}{{ loop.index }}"
    "{{ k ~ v|tojson(indent=2) }}{{ loop.cycle('x', 'y') }}{% else %}none{% endfor %}"
    "{% call(x) m(1, 2, 3, 4, z=5) %}c{{ x }}{% endcall %}{% set ns = namespace(n=0) %}"
    "{% for i in range(20) %}{% set ns.n = ns.n + i %}{% if i is odd %}{% continue %}{% endif %}"
    "{{ 'k%03d' % i }}{% endfor %}{% filter upper %}{{ '{:>5}'.format(ns.n) }}{% endfilter %}"
    "{% with q = messages %}{% for u in q|selectattr('role', 'equalto', 'user')|list %}"
    "{{ u.content|trim|replace('a', 'b') }}{{ u['role'][::-1] }}{% endfor %}{% endwith %}"
    "{% set block %}{{ messages|map(attribute='role')|join(',') }}{% endset %}{{ block|title }}"
    "{# comment #}{% raw %}{{ raw }}{% endraw %}{{ 1 if x is defined else 'no' }}{{ -3 // 2 ** 2 "
    "}}";
static const char everything_vars[] = "{\"messages\": [{\"role\": \"user\", \"content\": \" a cat "
                                      "\"}, {\"role\": \"system\", \"content\": \"x\"}]}";

static void test_no_memory_is_an_error(void **state)
{
    struct fault fault = {0};
    yyjson_doc *doc = yyjson_read(everything_vars, sizeof(everything_vars) - 1, 0);
    int rounds = 0;

    (void)state;
    FAULT_LOOP (&fault) {
        struct rendered r;
        mem_set_fault(&fault);
        rendered_init(&r);
        struct jinja *tmpl;
        struct jinja_value values;
        r.err = jinja_compile(STR(everything), &tmpl, &r.error);
        if (r.err == ERR_OK)
            r.err = jinja_value_from_json(&r.arena, yyjson_doc_get_root(doc), NULL, &values);
        if (r.err == ERR_OK)
            render_values(&r, tmpl, values);
        mem_set_fault(NULL);
        assert_true(r.err == ERR_OK || r.err == ERR_NOMEM);
        jinja_destroy(&tmpl);
        rendered_fini(&r);
        rounds++;
    }
    assert_true(rounds > 5);
    yyjson_doc_free(doc);
}

static void test_every_prefix_is_read_within_bounds(void **state)
{
    (void)state;
    for (size_t len = 0; len < sizeof(everything); len++) {
        struct jinja_error error;
        struct jinja *tmpl;
        const char *copy = test_guarded(everything, len);
        if (jinja_compile((struct str){copy, len}, &tmpl, &error) == ERR_OK)
            jinja_destroy(&tmpl);
        assert_null(tmpl);
    }
}

enum { THREADS = 4, ROUNDS = 30 };

struct worker {
    const struct jinja *tmpl;
    yyjson_val *vars;
    uint64_t digest;
};

static void work(void *arg)
{
    struct worker *worker = arg;

    for (int i = 0; i < ROUNDS; i++) {
        struct rendered r;
        struct jinja_value vars;
        rendered_init(&r);
        if (jinja_value_from_json(&r.arena, worker->vars, NULL, &vars) == ERR_OK)
            render_values(&r, worker->tmpl, vars);
        worker->digest += r.err == ERR_OK ? fnv(buf_str(&r.text), r.text.len) : 1;
        rendered_fini(&r);
    }
}

static void test_threads_share_a_template(void **state)
{
    struct worker workers[THREADS];
    struct thread threads[THREADS] = {0};
    struct jinja_error error;
    struct jinja *tmpl;
    yyjson_doc *doc = yyjson_read(everything_vars, sizeof(everything_vars) - 1, 0);

    (void)state;
    assert_ok(jinja_compile(STR(everything), &tmpl, &error));
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){tmpl, yyjson_doc_get_root(doc), 0};
        assert_ok(thread_start(&threads[i], "render", work, &workers[i], NULL));
    }
    for (int i = 0; i < THREADS; i++)
        thread_join(&threads[i]);
    for (int i = 1; i < THREADS; i++)
        assert_true(workers[i].digest == workers[0].digest);
    jinja_destroy(&tmpl);
    yyjson_doc_free(doc);
}

static void test_a_sink_can_stop_the_render(void **state)
{
    struct jinja_options options = {.limits = jinja_limits_default, .now_s = NOW};
    struct jinja_error error;
    struct jinja *tmpl;
    struct rendered r;

    (void)state;
    rendered_init(&r);
    buf_fini(&r.text);
    buf_init(&r.text, 3);
    assert_ok(jinja_compile(STR("abc{{ 'd' }}"), &tmpl, &error));
    struct jinja_value vars = jinja_dict_new(&r.arena);
    assert_err(jinja_render(tmpl, vars, &options, &r.arena, jinja_output_sink, &r.output, &error),
               ERR_LIMIT);
    assert_string_equal(buf_str(&r.text), "abc");
    jinja_destroy(&tmpl);
    rendered_fini(&r);
}

/* What rounds wrote, as [item:text]; rounds without a listener do not count. */
struct hearing {
    struct buf told;
    const struct buf *text;
    size_t begin;
};

static void on_round(void *arg, const struct jinja_value *item, bool end)
{
    struct hearing *hearing = arg;

    if (!end)
        hearing->begin = hearing->text->len;
    else
        buf_appendf(&hearing->told, "[%d:%s]", (int)item->integer,
                    buf_str(hearing->text) + hearing->begin);
}

static void test_rounds_are_told(void **state)
{
    static const char source[] =
        "a{% for i in [1, 2, 3, 4] %}{% if i == 2 %}{% continue %}{% endif %}x{{ i }}"
        "{% if i == 3 %}{% break %}{% endif %}{% endfor %}"
        "{% set s %}{% for i in [5] %}{{ i }}{% endfor %}{% endset %}b";
    struct hearing hearing = {0};
    struct jinja_options options = {
        .limits = jinja_limits_default, .on_round = on_round, .arg = &hearing};
    struct jinja_error error;
    struct jinja *tmpl;
    struct rendered r;

    (void)state;
    rendered_init(&r);
    buf_init(&hearing.told, 1 << 10);
    hearing.text = r.output.text;
    assert_ok(jinja_compile(STR(source), &tmpl, &error));
    assert_ok(jinja_render(tmpl, jinja_dict_new(&r.arena), &options, &r.arena, jinja_output_sink,
                           &r.output, &error));
    assert_string_equal(buf_str(&hearing.told), "[1:x1][2:][3:x3]");
    jinja_destroy(&tmpl);
    buf_fini(&hearing.told);
    rendered_fini(&r);
}

static void test_large_numbers_pass_through(void **state)
{
    (void)state;
    assert_renders("{{ x|tojson }} {{ x }} {{ x is number }}", "{\"x\": 18446744073709551615}",
                   "18446744073709551615 18446744073709551615 True");
    assert_renders("{{ x == y }}", "{\"x\": 18446744073709551615, \"y\": 18446744073709551615}",
                   "True");
}

TEST_SUITE(TEST(test_language_as_jinja2), TEST(test_templates_as_jinja2),
           TEST(test_spans_tell_what_users_wrote), TEST(test_errors_have_their_place),
           TEST(test_refusals_have_their_code), TEST(test_deep_nesting_is_refused),
           TEST(test_unbounded_work_is_refused), TEST(test_long_runs_are_read_once),
           TEST(test_many_keyword_arguments_are_refused), TEST(test_long_texts_cost_steps),
           TEST(test_comparing_costs_steps), TEST(test_arena_limit_is_an_error),
           TEST(test_no_memory_is_an_error), TEST(test_every_prefix_is_read_within_bounds),
           TEST(test_threads_share_a_template), TEST(test_a_sink_can_stop_the_render),
           TEST(test_rounds_are_told), TEST(test_large_numbers_pass_through))

#!/bin/sh
# Each test writes a tiny tree with one kind of mistake and says exactly which `path:line: rule` lint.sh must print for it:
# one line too many is as wrong as one too few.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
lint=$here/../../tools/lint.sh
t='test' # kept apart from _i<n>: names of tests written out here would count for this tree

tests='
test_this_tree_passes
test_clean_tree_passes
test_folder_without_sources_is_an_error
test_includes_point_down
test_libllama_belongs_to_engine
test_cache_and_engine_never_meet
test_unknown_folder
test_unsafe_calls
test_wrapped_calls
test_comments_and_strings_are_not_code
test_function_length
test_function_length_of_every_shape
test_function_length_can_be_allowed
test_conditions_keep_braces_even
test_uneven_braces_are_reported
test_file_length
test_file_length_can_be_allowed
test_typedef_hides_struct
test_work_left_needs_an_issue
test_white_space
test_source_needs_a_test
test_functions_need_a_caller
test_allow_lines_must_be_right
test_invariants_that_tests_name
test_invariants_that_do_not_exist
test_lock_ranks_are_documented
test_measures
test_prose_has_100_columns
test_odd_words_in_texts_for_users
'

case ${1:-} in
--list)
    printf '%s' "$tests" | sed '/^$/d'
    exit
    ;;
--run) [ $# -eq 2 ] ;;
*)
    echo "usage: $0 --list | --run NAME" >&2
    exit 2
    ;;
esac

# ---- helpers ---------------------------------------------------------------------------------------------------

tree=$(mktemp -d "${HEARTH_BUILD:-${TMPDIR:-/tmp}}/lint.XXXXXX")
trap 'rm -rf "$tree"' EXIT

die() {
    printf '%s\n' "$*" >&2
    exit 1
}

put() { # PATH, the text on stdin
    mkdir -p "$tree/$(dirname "$1")"
    cat >"$tree/$1"
}

# A source that is fine and the test that it needs.
put_clean() { # FOLDER/NAME
    echo 'int x;' | put "src/$1.c"
    echo 'int x;' | put "tests/$1_test.c"
}

lines() { # COUNT TEXT
    yes "$2" | head -n "$1"
}

run_lint() {
    status=0
    "$lint" "$tree" >"$tree/out" 2>&1 || status=$?
}

# The run fails with exactly these `path:line: rule`, in any order; without any, it passes.
expect() {
    run_lint
    for want in "$@"; do echo "$want"; done | sort >"$tree/want"
    sed -n 's/^\([^ ]*:[0-9]*: [a-z-]*\): .*/\1/p' "$tree/out" | sort >"$tree/got"
    diff "$tree/want" "$tree/got" >"$tree/diff" || die "expected (<) and printed (>):
$(cat "$tree/diff" "$tree/out")"
    [ "$status" -eq "$(($# > 0))" ] || die "exit status $status after $# mistakes: $(cat "$tree/out")"
}

expect_output() { # PATTERN
    grep -q "$1" "$tree/out" || die "no line like '$1' in: $(cat "$tree/out")"
}

put_clean base/fine

# ---- tests -----------------------------------------------------------------------------------------------------

test_this_tree_passes() {
    "$lint" || die "this tree breaks a rule"
}

test_clean_tree_passes() {
    expect
}

test_folder_without_sources_is_an_error() {
    rm -r "$tree/src"
    run_lint
    [ "$status" -eq 2 ] || die "exit status $status"
}

test_includes_point_down() {
    folders='base tier cache engine jinja http sched serve models cli admin'
    for folder in $folders; do
        put_clean "$folder/from"
        for to in $folders support; do printf '#include "%s/x.h"\n' "$to"; done | put "src/$folder/from.c"
    done
    cp "$tree/src/cli/from.c" "$tree/src/main.c"
    echo 'no-test src/main.c wiring' | put tools/lint.allow
    printf '#include "base/x.h"\n' | put include/hearth/hearth.h
    printf '#include "engine/x.h"\n#include <llama.h>\n' | put tests/base/fine_test.c
    set -- include/hearth/hearth.h:1 src/main.c:12
    # folder, then the lines that must fail, by their place in `folders`; 12 is support
    while read -r folder bad; do
        for line in $bad; do set -- "$@" "src/$folder/from.c:$line"; done
    done <<'TABLE'
base 2 3 4 5 6 7 8 9 10 11 12
tier 3 4 5 6 7 8 9 10 11 12
cache 5 6 7 8 9 10 11 12
engine 2 5 6 7 8 9 10 11 12
jinja 2 3 4 6 7 8 9 10 11 12
http 2 3 4 5 7 8 9 10 11 12
sched 2 3 5 6 8 9 10 11 12
serve 2 3 5 10 11 12
models 2 5 6 8 10 11 12
cli 12
admin 2 3 5 10 12
TABLE
    want=
    for place in "$@"; do want="$want|$place: include"; done
    IFS='|'
    # shellcheck disable=SC2086 # split at the bars
    set -- ${want#|}
    unset IFS
    expect "$@" 'src/cache/from.c:4: cache-engine' 'src/engine/from.c:3: cache-engine'
}

test_libllama_belongs_to_engine() {
    for folder in engine sched cli; do
        put_clean $folder/from
        printf '#include <%s>\n' llama.h ggml.h ggml-backend.h gguf.h sys/stat.h uv.h | put src/$folder/from.c
    done
    expect 'src/sched/from.c:1: include' 'src/sched/from.c:2: include' 'src/sched/from.c:3: include' \
        'src/sched/from.c:4: include' 'src/cli/from.c:1: include' 'src/cli/from.c:2: include' \
        'src/cli/from.c:3: include' 'src/cli/from.c:4: include'
}

test_cache_and_engine_never_meet() {
    put_clean cache/a
    put_clean tier/a
    put_clean engine/a
    put src/cache/a.c <<'C'
struct engine;
int cache_engine_bytes;
void f(struct engine *engine);
C
    echo 'int n = llama_state_seq_size;' | put src/tier/a.c
    printf 'struct cache_shape;\nstruct cache *x;\n' | put src/engine/a.c
    for folder in cache cli; do # cli sees all, but by its name
        put_clean $folder/b
        echo '#include "base/../engine/a.h"' | put src/$folder/b.c
    done
    expect 'src/cache/a.c:1: cache-engine' 'src/cache/a.c:3: cache-engine' 'src/tier/a.c:1: cache-engine' \
        'src/engine/a.c:2: cache-engine' 'src/cache/b.c:1: include' 'src/cli/b.c:1: include'
}

test_unknown_folder() {
    put_clean nowhere/a
    echo 'int x;' | put src/stray.c
    echo 'int x;' | put tests/stray_test.c
    expect 'src/nowhere/a.c:1: include' 'src/stray.c:1: include'
}

test_unsafe_calls() {
    put src/base/fine.c <<'C'
static void f(void)
{
    strcpy(a, b);
    strcat(a, b);
    sprintf(a, b);
    sscanf(a, b);
    if (atoi(a)) return;
    x = y+atol (a);
    strtok(a, b);
    gets(a);
    alloca(1);
    snprintf(a, b);
    fgets(a);
    my_strcpy(a, b);
    mem_strdup(strcpy_safe(a));
    table->gets(a);
    int strcpy = atoi_max;
}
#define COPY(a, b) strcpy(a, b)
C
    cp "$tree/src/base/fine.c" "$tree/tests/base/fine_test.c"
    set --
    for file in src/base/fine.c tests/base/fine_test.c; do
        for line in 3 4 5 6 7 8 9 10 11 19; do set -- "$@" "$file:$line: banned"; done
    done
    expect "$@"
}

test_wrapped_calls() {
    put_clean base/mem
    put_clean cli/other
    put src/cli/other.c <<'C'
static void f(void)
{
    malloc(1);
    calloc(1, 1);
    realloc(a, 1);
    free(a);
    strdup(a);
    open(a);
    openat(a);
    fopen(a);
    pthread_mutex_lock(a);
    pthread_create(a);
    mem_free(a);
    ops.open(a);
    ops->openat(a);
    file_open(reopen(a));
}
static pthread_mutex_t lock;
struct ops { int (*openat)(int dir); size_t free; };
C
    cp "$tree/src/cli/other.c" "$tree/src/base/mem.c"
    cp "$tree/src/cli/other.c" "$tree/src/base/fine.c"
    cp "$tree/src/cli/other.c" "$tree/tests/cli/other_test.c"
    set --
    for line in 3 4 5 6 7; do set -- "$@" "src/base/fine.c:$line: banned"; done
    for line in 3 4 5 6 7 8 9 10 11 12 18; do set -- "$@" "src/cli/other.c:$line: banned"; done
    expect "$@"
}

test_comments_and_strings_are_not_code() {
    put src/base/fine.c <<'C'
/* strcpy(a, b); { */ // strcpy(a, b); {
/*
 * malloc(1) {
#include "engine/x.h"
   typedef struct a b; */
const char *s = "strcpy(a, b); \" { /* malloc(1)";
const char c[] = {'"', '{', '\'', '{', '\\'};
const char *u = "//";
/* two */ int a; /* comments */ int b = 1 /* and { */ + 2;
static void f(void)
{
    x = "}"; /* } */
    strcpy(a, b); // it's }
    strcpy(a, b);
}
C
    expect 'src/base/fine.c:13: banned' 'src/base/fine.c:14: banned'
}

test_function_length() {
    {
        printf 'static void fits(void)\n{\n'
        lines 67 '    x();'
        printf '}\n\nstatic void does_not(void)\n{\n'
        lines 68 '    x();'
        printf '}\n'
    } | put src/base/fine.c
    cp "$tree/src/base/fine.c" "$tree/tests/base/fine_test.c"
    expect 'src/base/fine.c:72: function-length' 'tests/base/fine_test.c:72: function-length'
    expect_output 'does_not has 71 lines'
}

test_function_length_of_every_shape() {
    {
        printf 'struct a {\n'
        lines 80 '    int x;'
        printf '};\nstatic const struct a table[] = {\n'
        lines 80 '    {CALL(1), 2},'
        printf '};\nenum {\n'
        lines 80 '    VALUE(x) A,'
        printf '};\n#define MACRO(x) \\\n'
        lines 80 '    do { x(); } while (0); \'
        printf '    end()\nTEST_SUITE(TEST(a),\n'
        lines 80 '    TEST((struct a){1}),'
        printf '    TEST(b))\n'
        printf 'PRINTF(1, 2) __attribute__((noreturn)) static struct a *\nlong_one(int a,\n         int (*fn)(void))\n{\n'
        lines 66 '    if (x) { y(); }'
        printf '}\nstatic inline void ok(void) { x(); }\n'
    } | put src/base/fine.c
    expect 'src/base/fine.c:411: function-length'
    expect_output 'long_one has 71 lines'
}

test_function_length_can_be_allowed() {
    {
        printf 'static void table(void)\n{\n'
        lines 80 '    x();'
        printf '}\n'
    } | put src/base/fine.c
    echo 'function-length src/base/fine.c table one case a line' | put tools/lint.allow
    expect
    echo 'function-length src/base/fine.c other one case a line' | put tools/lint.allow
    expect 'src/base/fine.c:1: function-length' 'tools/lint.allow:1: allow'
}

test_conditions_keep_braces_even() {
    {
        printf '#ifdef __cplusplus\nextern "C" {\n#endif\n'
        printf '#ifdef A\nvoid f(int a)\n{\n#else\nvoid f(void)\n{\n#endif\n    x();\n}\n'
        printf 'static void h(\n#if A\n    int a)\n{\n#ifdef B\n#endif\n#else\n    void)\n{\n#endif\n}\n'
        printf '#ifdef __cplusplus\n}\n#endif\nstatic void g(void)\n{\n'
        lines 80 '    x();'
        printf '}\n'
    } | put src/base/fine.c
    expect 'src/base/fine.c:27: function-length'
}

test_uneven_braces_are_reported() {
    printf 'static void f(void)\n{\n    if (x) {\n}\n' | put src/base/fine.c
    printf '/* no end\n' | put tests/base/fine_test.c
    expect 'src/base/fine.c:4: parse' 'tests/base/fine_test.c:1: parse'
}

test_file_length() {
    for name in a b c; do put_clean base/$name; done
    lines 600 'int x;' | put src/base/a.c
    lines 1200 'int x;' | put src/base/b.c
    lines 1201 'int x;' | put src/base/c.c
    lines 120 'int x;' | put src/base/a.h
    lines 300 'int x;' | put src/base/b.h
    lines 301 'int x;' | put src/base/c.h
    expect 'src/base/c.c:1201: file-length' 'src/base/c.h:301: file-length'
    expect_output '^note: src/base/b.c: 1200 lines'
    expect_output '^note: src/base/b.h: 300 lines'
    ! grep -q '^note: src/base/a' "$tree/out" || die "a note below the soft limit"
}

test_file_length_can_be_allowed() {
    lines 301 'int x;' | put src/base/fine.h
    echo 'file-length src/base/fine.h one table' | put tools/lint.allow
    expect
    expect_output '^note: src/base/fine.h: 301 lines'
    lines 300 'int x;' | put src/base/fine.h
    expect 'tools/lint.allow:1: allow'
    echo 'file-length src/base/fine.h' | put tools/lint.allow
    expect 'tools/lint.allow:1: allow'
}

test_typedef_hides_struct() {
    put src/base/fine.c <<'C'
typedef struct a a;
typedef struct { int x; } b;
typedef const struct a *c;
typedef union {
    int x;
} d;
typedef int id;
typedef bool (*equals_fn)(const struct a *node);
typedef struct a *(*make_fn)(void);
struct typedef_struct { int x; };
static void f(void)
{
    typedef struct a e;
}
C
    expect 'src/base/fine.c:1: typedef' 'src/base/fine.c:2: typedef' 'src/base/fine.c:3: typedef' \
        'src/base/fine.c:4: typedef' 'src/base/fine.c:13: typedef'
}

test_work_left_needs_an_issue() {
    word=TO
    word=${word}DO
    {
        echo "int x; /* $word: later */"
        echo "int x; /* $word(#12): later */"
        echo "int x; /* issue #12 $word */"
    } | put src/base/fine.c
    echo "# $word" | put tools/a.sh
    echo "$word is a word" | put docs/a.md
    expect 'src/base/fine.c:1: todo' 'src/base/fine.c:3: todo' 'tools/a.sh:1: todo'
}

test_white_space() {
    printf 'int x; \nint y;\n\tint z;\nint w;\r\n' | put src/base/fine.c
    printf 'all:\n\techo\n\techo \n' | put Makefile
    printf 'text \n' | put docs/a.md
    printf '\tx\n' | put tests/a.sh
    printf '\tx \n' | put web/vendor/x.js
    printf '\tx \n' | put fuzz/corpus/x.js
    printf '\tx \n' | put web/x.min.js
    expect 'src/base/fine.c:1: white-space' 'src/base/fine.c:3: white-space' 'src/base/fine.c:4: white-space' \
        'Makefile:3: white-space' 'docs/a.md:1: white-space' 'tests/a.sh:1: white-space'
}

test_source_needs_a_test() {
    echo 'int x;' | put src/base/none.c
    echo 'int x;' | put src/cli/shell.c
    echo ':' | put tests/cli/shell_test.sh
    echo 'int x;' | put src/chat/deep/a.c
    echo 'int x;' | put tests/chat/a_test.c
    : | put src/base/empty.c
    expect 'src/base/none.c:1: test' 'src/chat/deep/a.c:1: test' 'src/base/empty.c:1: test'
    printf 'no-test src/base/%s.c has a reason\n' none empty | put tools/lint.allow
    echo 'int x;' | put tests/chat/deep/a_test.c
    expect
}

test_functions_need_a_caller() {
    put src/base/fine.h <<'C'
/* only_tested() is named here, and that is not a call. */
int called(void);
int only_tested(void);
int from_macro(void), from_inline(void), in_table(void), from_bench(void), hearth_open(void), waived(void), member(void);
#define ALIAS(x) from_macro(x)
static inline int twice(void) { return from_inline(); }
C
    put src/base/fine.c <<'C'
int called(void) { return 1; }
int only_tested(void)
{
    return called(); /* not only_tested() */
}
int from_macro(void) { return 1; }
int from_inline(void) { return 1; }
int in_table(void) { return 1; }
int from_bench(void) { return 1; }
int hearth_open(void) { return 1; }
int waived(void) { return 1; }
int member(void) { return x.member() + y->member(); }
static int quiet(void) { return 1; }
int (*const table[])(void) = {in_table};
C
    echo 'int test(void) { return only_tested() + waived(); }' | put tests/base/fine_test.c
    echo 'int main(void) { return from_bench(); }' | put lab/bench/fine_bench.c
    echo 'int hearth_open(void);' | put include/hearth/hearth.h
    echo 'uncalled src/base/fine.c waived tests look into it' | put tools/lint.allow
    expect 'src/base/fine.c:2: uncalled' 'src/base/fine.c:12: uncalled'
}

test_allow_lines_must_be_right() {
    put tools/lint.allow <<'ALLOW'
# comment

no-test src/base/fine.c it has one
no-test src/base/gone.c was here once
no-test src/base/fine.c
function-length src/base/fine.c f
function-length src/base/fine.c f is short
banned src/base/fine.c strcpy is nice
no-test src/base/none.c has none
no-test src/base/none.c said twice
ALLOW
    echo 'int x;' | put src/base/none.c
    set --
    for line in 3 4 5 6 7 8 10; do set -- "$@" "tools/lint.allow:$line: allow"; done
    expect "$@"
}

put_invariants() { # COUNT
    awk -v n="$1" 'BEGIN { print "# List"; while (i < n) print ++i ". It holds." }' | put docs/invariants.md
}

test_invariants_that_tests_name() {
    put_invariants 12
    {
        echo "static void ${t}_i3_holds(void **state)"
        echo "TEST(${t}_i5_i6_hold_both)"
        echo "TEST(la${t}_i8_is_no_name) /* ${t}_i9_in_a_comment */"
        echo "const char *s = \"${t}_i9_in_a_string\"; /* keeps I9 */"
    } | put tests/base/fine_test.c
    printf '%s_i11_shell() {\n# %s_i12_comment\n' $t $t | put tests/cli/a_test.sh
    echo "TEST(${t}_i1_in_no_suite)" | put tests/support/a.c
    expect
    expect_output '^invariants that no test names: 8 of 12$'
    expect_output '^  I1-I2 I4 I7-I10 I12$'
    printf '1. (peer; not applicable) One.\n2. (peer) Two, not applicable.\n' | put docs/invariants.md
    : | put tests/base/fine_test.c
    : | put tests/cli/a_test.sh
    expect
    expect_output '^invariants that no test names: 1 of 2$'
    expect_output '^  I2$'
}

test_invariants_that_do_not_exist() {
    put_invariants 12
    printf 'TEST(%s_i13_what)\nTEST(%s_i0_what)\n' $t $t | put tests/base/fine_test.c
    printf '/* keeps I12 */\n/* keeps I14. */\n' | put src/base/fine.c
    expect 'tests/base/fine_test.c:1: invariant' 'tests/base/fine_test.c:2: invariant' 'src/base/fine.c:2: invariant'
    printf '1. One.\n2. Two.\n4. Four.\n' | put docs/invariants.md
    : | put tests/base/fine_test.c
    : | put src/base/fine.c
    expect 'docs/invariants.md:3: invariant'
}

test_lock_ranks_are_documented() {
    printf 'enum lock_rank {\n    LOCK_RANK_A = 1,\n    LOCK_RANK_B = 20,\n    LOCK_RANK_C = 30\n};\n' | put src/base/lock.h
    # shellcheck disable=SC2016
    printf '| `LOCK_RANK_A` | 1 | x |\n| `LOCK_RANK_B` | 2 | x |\n' | put docs/threads.md
    expect 'src/base/lock.h:3: lock-rank' 'src/base/lock.h:4: lock-rank'
}

test_prose_has_100_columns() {
    line=$(printf ' word%.0s' $(seq 25))
    line=${line# }
    printf '# Page\n\n%s\n\n- %s\n' "$line" "$line" | put docs/page.md
    printf '%s\n' "$line" | put README.md
    # Tables and examples are as wide as they must be.
    printf '| %s |\n\n```\n%s\n```\n\n- an item\n\n      %s\n' "$line" "$line" "$line" | put docs/decisions/001-a.md
    expect 'README.md:1: width' 'docs/page.md:3: width' 'docs/page.md:5: width'
}
test_odd_words_in_texts_for_users() {
    put_clean base/a
    printf '/* nobody reads this */\nconst char *x = "nobody is there";\n' | put src/base/a.c
    printf 'It waits so long as it must.\n' | put docs/page.md
    printf 'Whoever reads it is told.\n' | put docs/decisions/001-a.md
    printf "title('What is held');\n// of ours\n" | put web/page.js
    expect 'src/base/a.c:2: words' 'docs/page.md:1: words' 'docs/decisions/001-a.md:1: words' 'web/page.js:1: words'
}

test_measures() {
    put src/base/fine.c <<'C'
/* One line of ten that are not blank. */
static int a(void) { return 0; }

static int b(void)
{
    assert(x);
    lock_assert_held(y); /* not a line of its own */
}
static int c(void)
{ return 1; }
int d;
C
    lines 22 'int x;' | put tests/base/fine_test.c
    expect
    expect_output '^\.c size median / max  *11 / 11  *<= 400 / 1200$'
    expect_output '^\.h size median / max  *0 / 0 '
    expect_output '^function median / p90 / max  *2 / 5 / 5 '
    expect_output '^comment %  *10 '
    expect_output '^asserts per function  *0\.67 '
    expect_output '^tests : code  *22 : 11 (2\.00) '
}

case $tests in
*"
$2
"*) "$2" ;;
*) die "there is no test '$2'" ;;
esac

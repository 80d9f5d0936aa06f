#!/usr/bin/env bash
# The Makefile itself, in a tree of two sources: how many steps it announces, how many jobs it runs, what `make serve` needs.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"

top=$(cd "$(dirname "$0")/../.." && pwd)

# Variables of the make that runs the tests, which it exports.
unset SAN DEBUG COV SYSTEM LLAMA

setup() {
    mkdir -p tree/tools tree/src/base tree/tests tree/include/hearth tree/.deps
    cp "$top/Makefile" tree/
    cp "$top"/tools/*.mk "$top"/tools/{deps.sh,embed.sh} tree/tools/
    echo '#define HEARTH_API_VERSION 3' >tree/include/hearth/hearth.h
    echo 'int one(void);' >tree/src/base/one.h
    printf '#include "base/one.h"\nint one(void) { return 1; }\n' >tree/src/base/one.c
    printf '#include "base/one.h"\nint two(void);\nint two(void) { return 2 * one(); }\n' >tree/src/base/two.c
    echo 'DEPS_MODE := system' >tree/.deps/config.mk
}

make_() {
    run env -u MAKELEVEL -u MAKEFLAGS make --no-print-directory -C tree "$@"
}

objects='build/release/src/base/one.o build/release/src/base/two.o'

expect_steps() { # LINE...
    expect_status 0
    [ "$(grep '^\[' "$scratch/out" | sort)" = "$(printf '%s\n' "$@")" ] || fail "expected: $*"
}

test_steps_are_counted() {
    setup
    # shellcheck disable=SC2086
    make_ CC=gcc -j4 $objects
    expect_steps '[  1/2] CC    src/base/one.c' '[  2/2] CC    src/base/two.c'
    # shellcheck disable=SC2086
    make_ CC=gcc $objects
    expect_status 0
    ! grep '^\[' "$scratch/out" || fail 'there was nothing to do'
    touch -d '+2 seconds' tree/src/base/two.c
    # shellcheck disable=SC2086
    make_ CC=gcc $objects
    expect_steps '[  1/1] CC    src/base/two.c'
    touch -d '+4 seconds' tree/src/base/one.h
    # shellcheck disable=SC2086
    make_ CC=gcc CPPFLAGS='-DA="1 2" -DB' -j1 $objects
    expect_steps '[  1/2] CC    src/base/one.c' '[  2/2] CC    src/base/two.c'
}

jobs_of() { # prints the -j of a run with these arguments
    printf 'include Makefile\nshow:\n\t@echo $(filter -j%%,$(MAKEFLAGS))\n' >tree/show.mk
    env -u MAKELEVEL make --no-print-directory -C tree -f show.mk "$@" show 2>/dev/null | tail -n 1
}

test_jobs() {
    setup
    unset MAKEFLAGS
    [ "$(jobs_of)" = "-j$(nproc)" ] || fail "all processors, not '$(jobs_of)'"
    [ "$(jobs_of -j3)" = -j3 ] || fail 'the command line decides'
    [ "$(MAKEFLAGS='-k -j3' jobs_of)" = -j3 ] || fail 'so does the environment'
}

# A first look at hearth compiles the program, and neither the library nor tests.
test_serve_builds_the_program_only() {
    setup
    echo 'int main(void) { return 0; }' >tree/src/main.c
    mkdir tree/web && cp "$top"/web/no-uplot.js tree/web/
    run env -u MAKELEVEL -u MAKEFLAGS make --no-print-directory -C tree -n CC=gcc serve
    expect_status 0
    expect_out "CC 'src/main.c'"
    ! grep -E 'PIC|libhearth|tests/' "$scratch/out" || fail 'that is not needed'
}

flags_of() { # GOAL...: the flags that src/base/one.c would be compiled with
    env -u MAKELEVEL -u MAKEFLAGS -u CFLAGS make --no-print-directory -C tree -n CC=gcc "$@" 2>/dev/null |
        sed -n 's/^gcc.* -pthread  \(.*\) -MMD .*one\.o .*/\1/p'
}

# Only a tree in which nothing else was built is compiled for a first look; `make serve` never replaces a full build.
test_serve_compiles_quickly() {
    setup
    echo 'int main(void) { return 0; }' >tree/src/main.c
    mkdir tree/web && cp "$top"/web/no-uplot.js tree/web/
    [ "$(flags_of serve)" = -O1 ] || fail "not '$(flags_of serve)'"
    [ "$(flags_of serve)" = -O1 ] || fail 'the second time'
    [ "$(flags_of all)" = '-O2 -g' ] || fail "a full build has '$(flags_of all)'"
    [ "$(flags_of serve)" = '-O2 -g' ] || fail 'the full build is kept'
}

suite_main "$@"

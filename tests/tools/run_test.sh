#!/usr/bin/env bash
# The runner of the tests: what it makes of suites that pass, fail, skip, hang, or leave something behind.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"

runner=${HEARTH_BUILD:-$(cd "$(dirname "$0")/../.." && pwd)/build/release}/tests/run

suite() { # NAME COMMAND: a suite of one test
    mkdir -p tests outside
    printf '#!/bin/sh\n[ "$1" = --list ] && { echo only; exit; }\n%s\n' "$2" >"tests/$1_test"
    chmod +x "tests/$1_test"
}

test_outcomes() {
    suite good true
    suite bad 'echo its words; exit 3'
    suite none 'echo SKIP no reason'
    run "$runner" --outside outside tests/good_test tests/none_test
    expect_status 0
    expect_out 'skip none only: no reason'
    expect_out '1 passed, 0 failed'
    run "$runner" --outside outside tests/good_test tests/bad_test
    expect_status 1
    expect_out 'its words'
    expect_out 'FAIL bad only: exit status 3'
    expect_out '1 passed, 1 failed'
}

test_a_hang_ends() {
    suite hangs 'sleep 600'
    run "$runner" --timeout 1 --outside outside tests/hangs_test
    expect_status 1
    expect_out 'FAIL hangs only: no end after 1 s'
}

test_what_is_left_outside_is_a_failure() {
    suite tidy 'touch outside/known'
    suite untidy 'mkdir outside/new'
    suite sorted 'touch outside/a outside/zz'
    mkdir -p outside && touch outside/known outside/m
    run "$runner" --outside outside tests/tidy_test
    expect_status 0
    run "$runner" --outside outside tests/tidy_test tests/untidy_test
    expect_status 1
    expect_out "FAIL a test made 'new' in outside"
    expect_out '2 passed, 1 failed'
    run "$runner" --outside outside tests/sorted_test
    expect_status 1
    expect_out '1 passed, 2 failed'
}

test_the_home_and_the_tree_are_watched() {
    suite home 'touch "$HOME/made-at-home"'
    suite tree 'touch made-here'
    suite tidy true
    mkdir -p home
    HOME=$PWD/home run "$runner" tests/home_test tests/tidy_test
    expect_status 1
    expect_out "FAIL a test made 'made-at-home' in"
    expect_out '2 passed, 1 failed'
    HOME=$PWD/home run "$runner" tests/tree_test
    expect_status 1
    expect_out "FAIL a test made 'made-here' in ."
    HOME=$PWD/home run "$runner" tests/tree_test
    expect_status 0
}

suite_main "$@"

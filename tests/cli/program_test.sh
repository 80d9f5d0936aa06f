#!/usr/bin/env bash
# The program as a user or a script meets it: statuses, streams, sentences.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"

# Whoever runs the tests may have settings.
unset HEARTH_CONFIG HEARTH_LOG_LEVEL HEARTH_LOG_FORMAT HEARTH_COLOR
export XDG_CONFIG_HOME=/dev/null/nowhere

test_help_goes_to_stdout() {
    local spelling
    for spelling in --help -h help; do
        run "$HEARTH" $spelling
        expect_status 0
        expect_out 'usage: hearth COMMAND'
        expect_out '  version '
        expect_no_err
    done
}

test_no_command_is_a_usage_error() {
    run "$HEARTH"
    expect_status 2
    expect_no_out
    expect_err 'usage: hearth COMMAND'
}

test_version_names_itself_and_its_libraries() {
    local spelling
    for spelling in --version version; do
        run "$HEARTH" $spelling
        expect_status 0
        grep -qE '^hearth [0-9]+\.[0-9]+\.[0-9]+ \(commit [0-9a-z-]+, [a-z-]+ build\)$' \
            "$scratch/out" || fail 'the first line is not the version'
        grep -qE '^  BLAKE3 +[0-9]+\.[0-9.]+$' "$scratch/out" || fail 'no BLAKE3'
        grep -qE '^  xxHash +[0-9]+\.[0-9]+\.[0-9]+$' "$scratch/out" || fail 'no xxHash'
        expect_no_err
    done
}

test_help_of_a_command() {
    local line
    run "$HEARTH" version --help
    expect_status 0
    expect_no_err
    expect_out 'usage: hearth version [options]'
    for line in '--config FILE' '--log-level LEVEL' '--log-format text|json' --no-color HEARTH_CONFIG; do
        expect_out "$line"
    done
    cp "$scratch/out" first
    run "$HEARTH" help version
    expect_status 0
    cmp -s first "$scratch/out" || fail 'help version differs from version --help'
}

test_help_wins_over_mistakes() {
    run "$HEARTH" version --bogus --help
    expect_status 0
    expect_out 'usage: hearth version'
    expect_no_err
}

test_unknown_command_names_the_nearest() {
    run "$HEARTH" versoin
    expect_status 2
    expect_no_out
    expect_err 'hearth: unknown command "versoin"; did you mean version?'
    expect_err "Try 'hearth --help'."
    run "$HEARTH" help versoin
    expect_status 2
    expect_err 'unknown command "versoin"; did you mean version?'
    run "$HEARTH" quuxquux
    expect_status 2
    expect_err 'hearth: unknown command "quuxquux"'
    run "$HEARTH" ''
    expect_status 2
}

test_unknown_option_names_the_nearest() {
    run "$HEARTH" version --log-levl debug
    expect_status 2
    expect_no_out
    expect_err 'hearth version: unknown option "--log-levl"; did you mean --log-level?'
    expect_err "Try 'hearth version --help'."
    run "$HEARTH" --versoin
    expect_status 2
    expect_err 'unknown option "--versoin"; did you mean --version?'
    run "$HEARTH" --log-level debug version
    expect_status 2
    expect_err "options go after the command: hearth COMMAND --log-level"
    run "$HEARTH" --qqqqqqqq
    expect_status 2
    expect_err 'unknown option "--qqqqqqqq"'
}

test_values_are_checked() {
    run "$HEARTH" version --log-level loud
    expect_status 2
    expect_err '--log-level: "loud" is not one of debug, info, warn, error, off'
    run env HEARTH_LOG_FORMAT=xml "$HEARTH" version
    expect_status 2
    expect_err 'HEARTH_LOG_FORMAT in the environment: "xml"'
    run "$HEARTH" version extra
    expect_status 2
    expect_err 'unexpected argument "extra"'
    run "$HEARTH" version --no-color --log-level=off --log-format json
    expect_status 0
}

test_help_and_version_work_with_a_broken_configuration() {
    echo 'broken' >hearth.ini
    run env HEARTH_CONFIG=hearth.ini "$HEARTH" version
    expect_status 0
    run env HEARTH_CONFIG=hearth.ini "$HEARTH" --help
    expect_status 0
}

test_closed_stdout_is_a_failure() {
    local arg
    for arg in --help --version 'help version' 'version --help'; do
        # shellcheck disable=SC2016,SC2086 # expanded by the inner shell, and meant to be split
        run bash -c '"$@" >&-' bash "$HEARTH" $arg
        expect_status 1
        expect_err 'cannot write the output: Bad file descriptor'
    done
}

test_full_stdout_is_a_failure() {
    [ -w /dev/full ] || skip 'no /dev/full'
    local arg
    for arg in --help --version 'version --help'; do
        # shellcheck disable=SC2016,SC2086
        run bash -c '"$@" >/dev/full' bash "$HEARTH" $arg
        expect_status 1
        expect_err 'cannot write the output: No space left on device'
    done
}

test_closed_streams_do_not_hide_a_usage_error() {
    # shellcheck disable=SC2016
    run bash -c '"$1" --bogus <&- >&- 2>&-' bash "$HEARTH"
    expect_status 2
    # shellcheck disable=SC2016
    run bash -c '"$1" --version 2>&- <&-' bash "$HEARTH"
    expect_status 0
    expect_out 'hearth '
}

suite_main "$@"

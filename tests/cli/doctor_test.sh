#!/usr/bin/env bash
# `hearth doctor`: a line per check, and a status that a script can rely on.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"

unset HEARTH_CONFIG HEARTH_LOG_LEVEL HEARTH_LOG_FORMAT HEARTH_COLOR HEARTH_BACKENDS
export XDG_CONFIG_HOME=/nonexistent

expect_line() { # REGEX
    grep -qE -- "$1" "$scratch/out" || fail "no line like $1"
}

test_a_good_machine_passes() {
    run "$HEARTH" doctor
    expect_status 0
    expect_no_err
    expect_line '^ok    hearth     [0-9]+\.[0-9]+\.[0-9]+ \(commit [0-9a-z-]+, [a-z-]+ build\)$'
    expect_line '^ok    libllama   [^ ]+ from /.*libllama'
    expect_line '^ok    libggml    [^ ]+ from /.*libggml'
    expect_line '^ok    BLAKE3     [0-9.]+ from /'
    expect_line '^ok    backends   /'
    expect_line '^ok    device     [^:]+: .*, .* of .* free$'
    expect_line '^ok    machine    [1-9][0-9]* cores, .* of .* memory available$'
    expect_line '^(ok|note)  +files '
    expect_line '^ok    config     none; settings come from options and the environment$'
    grep -q '^FAIL' "$scratch/out" && fail 'a failure on a good machine'
    grep -qvE '^(ok|note|FAIL)  ' "$scratch/out" && fail 'a line without a verdict'
    return 0
}

# Wherever the folder comes from.
test_no_backends_is_a_failure() {
    local how
    mkdir empty
    for how in option option-empty environment file; do
        rm -f hearth.ini
        case $how in
        option) run "$HEARTH" doctor --backends /nonexistent ;;
        option-empty) run "$HEARTH" doctor --backends "$PWD/empty" ;;
        environment) run env HEARTH_BACKENDS=/nonexistent "$HEARTH" doctor ;;
        file)
            printf '[doctor]\nbackends = /nonexistent\n' >hearth.ini
            run "$HEARTH" doctor --config hearth.ini
            ;;
        esac
        expect_status 1
        expect_no_err
        expect_line '^FAIL  backends   none in /.*: no model can be loaded\. Give the folder with --backends'
        grep -q '^ok    device' "$scratch/out" && fail "$how: a device without backends"
        expect_line '^ok    machine ' # the other checks are made all the same
    done
}

test_option_wins_over_the_environment() {
    local folder
    run "$HEARTH" doctor
    folder=$(sed -n 's/^ok    backends   //p' "$scratch/out")
    run env HEARTH_BACKENDS=/nonexistent "$HEARTH" doctor --backends "$folder"
    expect_status 0
    expect_out "ok    backends   $folder"
}

test_few_files_are_a_note() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    run bash -c 'ulimit -n 100 && "$1" doctor' bash "$HEARTH"
    expect_status 0
    # shellcheck disable=SC2016 # the backticks are meant
    expect_line '^note  files      only 100 may be open at once; `ulimit -n 1024` gives room'
}

test_config_is_named() {
    printf '[doctor]\n' >hearth.ini
    run "$HEARTH" doctor --config hearth.ini
    expect_status 0
    expect_line '^ok    config     .*hearth\.ini$'
}

test_mistakes_are_usage_errors() {
    run "$HEARTH" doctor me
    expect_status 2
    expect_no_out
    expect_err 'hearth doctor: unexpected argument "me"'
    run "$HEARTH" doctor --bakends x
    expect_status 2
    expect_err 'did you mean --backends?'
}

test_closed_stdout_is_a_failure() {
    # shellcheck disable=SC2016
    run bash -c '"$1" doctor >&-' bash "$HEARTH"
    expect_status 1
    expect_err 'hearth doctor: cannot write the output'
}

suite_main "$@"

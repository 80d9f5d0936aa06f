# suite.sh: what every shell suite sources. A suite is a script whose functions test_* are its tests:
#
#     . "$(dirname "$0")/../support/suite.sh"
#     test_help_goes_to_stdout() { run "$HEARTH" --help; expect_status 0; expect_out usage; }
#     suite_main "$@"
#
# It speaks the protocol of tests/run.c: --list, --run NAME, or no argument for all. Each test runs in its own shell and
# its own empty folder ($PWD), which is removed afterwards. HEARTH is the program under test, by default the release build.
# shellcheck shell=bash
set -uo pipefail
HEARTH=${HEARTH:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/release/hearth}

fail() {
    printf 'FAIL %s: %s\n' "$test_name" "$*"
    if [ -f "$scratch/out" ]; then
        printf -- '--- command: %s\n--- status: %s\n--- stdout:\n' "$last_command" "$status"
        cat "$scratch/out"
        printf -- '--- stderr:\n'
        cat "$scratch/err"
    fi
    exit 1
}

skip() {
    printf 'SKIP %s\n' "$*"
    exit 0
}

# Runs a command; its status, standard output and standard error are what the expect_* below look at.
run() {
    last_command=$*
    "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
}

expect_status() {
    [ "$status" = "$1" ] || fail "expected status $1"
}

expect_out() {
    grep -qF -- "$1" "$scratch/out" || fail "not on stdout: $1"
}

expect_err() {
    grep -qF -- "$1" "$scratch/err" || fail "not on stderr: $1"
}

expect_no_out() {
    [ ! -s "$scratch/out" ] || fail 'stdout is not empty'
}

expect_no_err() {
    [ ! -s "$scratch/err" ] || fail 'stderr is not empty'
}

# Standard error without the bars of what takes long: whether they show depends on the machine.
err_without_bars() {
    grep -vE '^(loading|prefill|making model): ' "$scratch/err"
}

# As expect_no_err, for commands that have bars.
expect_no_complaint() {
    [ -z "$(err_without_bars)" ] || fail 'stderr has more than bars'
}

suite_environment() { :; } # a suite may set variables here that depend on $PWD or $scratch

suite_list() {
    # In the order of the script, which is how a reader knows them.
    sed -n 's/^\(test_[a-z0-9_]*\)() {.*/\1/p' "$0"
}

suite_run() {
    test_name=$1 status=none last_command=none
    scratch=$(mktemp -d "${HEARTH_BUILD:-/tmp}/scratch.XXXXXX") && mkdir "$scratch/work" || exit 1
    # Programs keep their state beside $PWD, which tests list, and never in the home folder.
    (cd "$scratch/work" && export XDG_STATE_HOME="$scratch/state" && suite_environment && "$test_name")
    local result=$?
    rm -rf "$scratch"
    return $result
}

suite_main() {
    local name failed=0

    case ${1-} in
    --list) suite_list ;;
    --run)
        suite_list | grep -qx -- "${2-}" || { echo "no test ${2-}"; exit 2; }
        suite_run "$2"
        ;;
    '')
        for name in $(suite_list); do
            if suite_run "$name"; then echo "ok   $name"; else failed=1; fi
        done
        exit $failed
        ;;
    *)
        echo "usage: $0 [--list | --run NAME]" >&2
        exit 2
        ;;
    esac
}

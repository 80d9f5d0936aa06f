#!/bin/sh
# Are the results that jinja_test.c compares with still what jinja2 says? Needs python3 with jinja2 (Debian: python3-jinja2).
set -eu

here=$(cd "$(dirname "$0")" && pwd)

find_python() {
    for python in /usr/bin/python3 python3; do # the Debian package first
        if "$python" -c 'import jinja2' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
}

test_committed_results_are_those_of_jinja2() {
    python=$(find_python)
    if [ -z "$python" ]; then
        echo 'SKIP python3 has no jinja2'
        return
    fi
    # Those of the published templates take jinja2 half a minute; HEARTH_ORACLE=full looks at them as well.
    templates=
    if [ "${HEARTH_ORACLE:-}" = full ]; then
        templates=${HEARTH_TEST_SHARED:-../shared}/templates
    fi
    # shellcheck disable=SC2086 # no argument at all when empty
    "$python" -W ignore "$here/oracle.py" check $templates
}

case ${1:-} in
--list) echo test_committed_results_are_those_of_jinja2 ;;
--run) "$2" ;;
*) test_committed_results_are_those_of_jinja2 ;;
esac

#!/usr/bin/env bash
# The released server cannot be told to break its promises; hearth-lab's can.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../../support/suite.sh"

top=$(cd "$(dirname "$0")/../../.." && pwd)
unset HEARTH_CONFIG HEARTH_LOG_LEVEL HEARTH_LOG_FORMAT HEARTH_COLOR
export XDG_CONFIG_HOME=/dev/null/nowhere

test_the_product_has_no_faults() {
    local name
    run "$HEARTH" serve --fault wrong-state demo
    expect_status 2
    expect_err 'unknown option "--fault"'
    run "$HEARTH" serve --fault-disk 3 demo
    expect_status 2
    tr '\0' '\n' <"$HEARTH" >product
    tr '\0' '\n' <"$HEARTH-lab" >lab
    # A name that is not even in the lab's program would prove nothing.
    for name in $(sed -n 's/.*X(DRILL_[A-Z_]*, "\([a-z-]*\)".*/\1/p' "$top/src/base/drill.h" | grep -v '^none$'); do
        [ "$name" != keep-volatile ] || continue # also an option of the server
        grep -aqx "$name" lab || fail "hearth-lab has no fault $name"
        ! grep -aqx "$name" product || fail "hearth has the fault $name"
    done
    [ -n "$name" ] || fail 'no fault was found in the table'
}

test_the_lab_has_them() {
    run "$HEARTH-lab" serve --fault nothing demo
    expect_status 2
    expect_err 'nothing'
    run "$HEARTH-lab" serve --help
    expect_status 0
    ! grep -q -- '--fault' "$scratch/out" || fail 'the fault option is shown to people'
}

# As git does: hearth runs the programs beside it.
test_commands_of_the_lab() {
    run "$HEARTH" replay --help
    expect_status 0
    expect_out 'usage: hearth replay'
    run "$HEARTH" model make --help
    expect_status 0
    expect_out 'usage: hearth model-make'
    run "$HEARTH-lab" bench --help
    expect_status 0
    cp "$HEARTH" alone
    HEARTH_PROGRAM=$PWD/alone run ./alone replay --help
    expect_status 2
    expect_err 'unknown command "replay"'
    printf '#!/bin/sh\necho "ran $0 $*"\n' >hearth-other && chmod +x hearth-other
    HEARTH_PROGRAM=$PWD/alone run ./alone other -x y
    expect_status 0
    expect_out "ran $PWD/hearth-other -x y"
}

suite_main "$@"

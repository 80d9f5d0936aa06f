#!/usr/bin/env bash
# tools/compat.sh: what it reads from the logs of two releases, and what it says of them. Nothing is fetched or built.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"

compat=$(cd "$(dirname "$0")/../.." && pwd)/tools/compat.sh

test_rows_of_both_logs() {
    cat >fidelity <<'EOF2'
FAIL fidelity/rollback test_i110_turns: exit status 1
again: build/release/tests/fidelity/rollback_test --run test_i110_turns
FAIL fidelity/rollback              2 passed, 1 failed, 1 skipped  8.29 s
skip fidelity/vulkan test_i110_dense: no Vulkan in software here
ok   fidelity/lora                  2 passed  11.79 s
family             prompt   ram   ssd   turn   log-probs power
qwen3                  93    92    92    100   equal     yes
mamba2                 93     0     0      0   equal     yes
gemma3                 93    92    92    100   DIFFERENT yes
3 families, 2 reused, 1 different; 0 more are no decoders, and are refused
EOF2
    cat >qa <<'EOF2'
scenario  fault  status  cold_misses
dense     none   passed  2
dense     spoil  MISSED  2
EOF2
    run "$compat" rows fidelity qa
    expect_status 0
    printf 'fidelity/rollback\t2 passed, 1 failed, 1 skipped\nfidelity/lora\t2 passed\n' >expected
    printf 'qwen3\tequal, reused\nmamba2\tequal, not reused\ngemma3\tDIFFERENT, reused\nqa dense, none\tpassed\nqa dense, spoil\tMISSED\n' >>expected
    cmp -s expected "$scratch/out" || fail 'other rows'
}

test_equal_results() {
    printf 'a\tequal\nb\tequal\n' >old
    run "$compat" compare old old
    expect_status 0
    expect_out 'nothing changed in 2 rows'
}

test_changed_added_and_lost_rows() {
    printf 'same\tequal\nlost\tequal\nworse\tequal, reused\n' >old
    printf 'worse\tDIFFERENT, reused\nsame\tequal\nadded\tequal\n' >new
    run "$compat" compare old new
    expect_status 1
    expect_out '3 of 4 rows changed'
    grep -q '^added  *absent  *equal$' "$scratch/out" || fail 'no added row'
    grep -q '^lost  *equal  *absent$' "$scratch/out" || fail 'no lost row'
    grep -q '^worse  *equal, reused  *DIFFERENT, reused$' "$scratch/out" || fail 'no changed row'
    if grep -q ^same "$scratch/out"; then fail 'a row that did not change'; fi
}

test_wrong_arguments() {
    run "$compat" compare only
    expect_status 2
    expect_err 'usage: compat.sh compare OLD NEW'
    run "$compat" compare nowhere "$compat"
    expect_status 2
    expect_err 'no file nowhere'
    run "$compat" nonsense
    expect_status 2
    expect_err 'unknown command "nonsense"'
}

suite_main "$@"

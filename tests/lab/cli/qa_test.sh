#!/usr/bin/env bash
# `hearth qa`: it passes on a good server, and names the invariant that fell on each bad one.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../../support/suite.sh"

unset HEARTH_CONFIG HEARTH_LOG_LEVEL HEARTH_LOG_FORMAT HEARTH_COLOR HEARTH_BACKENDS HEARTH_API_KEYS
export XDG_CONFIG_HOME=/dev/null/nowhere

qa() {
    export TMPDIR=$PWD XDG_CACHE_HOME=$PWD/cache # of the test, not of the suite
    run "$HEARTH" qa --prompt-bytes 600 "$@"
}

passes() { # SCENARIO [MODEL]
    local model=${2:-$1}
    qa "$1" --json report.json --csv report.csv --svg report.svg
    expect_status 0
    expect_out "passed"
    grep -q '"status":"passed"}' report.json || fail 'the report does not say so'
    for key in '"phase":"cold-a"' '"phase":"exact-a"' "\"id\":\"$model-ab-warm-replay\"" "\"models\":\\[\"$model\"" '"targets":\[{"id":' \
        '"coldClientUsage":\[{"session":"a","promptTokens":' '"warmClientReadTokens":[1-9]' '"exactReplayClientReadTokens":[1-9]' '"responseId":"req_' '"cacheReadTokens":' '"tiers":{"device":' '"promptCache":\["' \
        '"criterion":"' '"invariant":107,' '"routes":\["'; do
        grep -q "$key" report.json || fail "no $key in the report"
    done
    ! grep -q '"passed":false' report.json || fail 'a criterion fell'
    grep -q "^$1,none,passed," report.csv || fail "$(cat report.csv)"
    grep -q '</svg>' report.svg || fail 'no picture'
    [ -z "$(find . -name 'hearth.*' -type d)" ] || fail 'it left its folder'
}

test_dense_passes() { passes dense; }
test_hybrid_passes() { passes hybrid; }

# Every fault is noticed by a check of the invariant that it breaks.
test_every_fault_is_noticed() {
    qa --prove dense
    expect_status 0
    ! grep -q MISSED "$scratch/out" || fail 'a fault was missed'
    [ "$(grep -c ' noticed ' "$scratch/out")" -ge 10 ] || fail 'too few faults'
    for invariant in 2 3 9 10 22 92 94 95 99 100 104 106 107 110 112; do
        grep -qE "noticed .*I$invariant( |\$)" "$scratch/out" || fail "I$invariant never fell"
    done
}

# State inside a message that is lost is noticed on every kind, whatever it is kept in.
test_i112_whole_messages_are_noticed() {
    qa --prove --fault whole-messages sliding,hybrid
    expect_status 0
    [ "$(grep -cE ' whole-messages +noticed .*I112( |$)' "$scratch/out")" = 2 ] || fail 'not on both'
}

test_a_fault_makes_it_fail() {
    qa --fault lose-writes dense
    expect_status 1
    expect_err 'I107 fell: restart a'
    expect_out 'FAILED'
}

test_many_at_a_time() {
    qa --max-concurrent 4 moe-dense
    expect_status 0
    expect_out passed
}

# Two models in one process.
test_i6_multi_passes() {
    passes multi sliding
    for phase in cold-a cold-b warm-a warm-b exact-a aba-1-a aba-2-b aba-3-a; do
        grep -q "\"phase\":\"second-$phase\"" report.json || fail "the second model had no $phase"
    done
    grep -q '"id":"hybrid-two-models","modelId":"hybrid"' report.json || fail 'the probe has the wrong model'
    qa --prove multi
    expect_status 0
    grep -qE '^multi +forget-models +noticed .*I6( |$)' "$scratch/out" || fail 'I6 never fell'
}

# Kinds that have no test of their own; names as other regressions have them, and lists.
test_the_other_kinds_pass() {
    qa --prompt-bytes 300 --max-tokens 4 gemma-dense,moe-hybrid gemma-moe
    expect_status 0
    [ "$(grep -cE '^(sliding|moe-hybrid|moe-sliding) +none +passed' "$scratch/out")" = 3 ] || fail 'not all three ran'
}

test_two_files() {
    "$HEARTH" model make --family qwen3 --layers 2 --width 64 --out a.gguf >/dev/null 2>&1 || fail 'no model'
    "$HEARTH" model make --family gemma3 --layers 2 --width 64 --out b.gguf >/dev/null 2>&1 || fail 'no model'
    qa a.gguf+b.gguf --max-tokens 4 --json report.json
    expect_status 0
    grep -q '"models":\["a","b"\]' report.json || fail 'not both'
    qa a.gguf+c.gguf
    expect_status 2
}

# Two at a time would disturb each other: the second one waits.
test_one_at_a_time() {
    exec 8>"hearth-bench-$(id -u).lock"
    flock 8
    export TMPDIR=$PWD
    "$HEARTH" qa --prompt-bytes 300 --max-tokens 4 dense >out 2>err 8>&- & # else it would have the lock itself
    local pid=$!
    until grep -q 'waiting for another hearth qa or bench to end' err; do sleep 0.05; done
    [ ! -s out ] || fail 'it did not wait'
    exec 8>&-
    wait "$pid" || fail "$(cat err)"
    grep -q passed out || fail 'it did not run'
}

test_usage() {
    qa nothing
    expect_status 2
    expect_err "'nothing' is neither a scenario"
    qa --fault nothing dense
    expect_status 2
    expect_err "no fault 'nothing'"
    run "$HEARTH" serve --help
    expect_status 0
    ! grep -q -- '--fault' "$scratch/out" || fail 'the fault option is shown to people'
}

suite_main "$@"

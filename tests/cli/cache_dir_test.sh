#!/usr/bin/env bash
# `hearth cache --dir`: the directory of an SSD tier without a server, and beside one.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/serve.sh
. "$(dirname "$0")/../support/serve.sh"


cache() { run "$HEARTH" cache "$@" --dir ssd; }
objects() { find ssd -path ssd/quarantine -prune -o -name '*.hobj' -print; }
is_written() { [ "$(objects | wc -l)" -ge 2 ]; }

# A directory with objects, and the server that wrote them.
start_server() {
    make_model
    export HEARTH_STATE_DIR=$PWD/state
    start --ssd-dir "$PWD/ssd" --ssd-free 1MiB "$@"
    ask /v1/completions "{\"prompt\": \"$(letters 7 1000)\", \"max_tokens\": 4}"
    await 'the time to write' is_written
}

fill() {
    start_server "$@"
    stop
}

test_list_stats_and_show() {
    fill
    count=$(objects | wc -l)
    cache ls --limit 0
    expect_status 0
    expect_no_err
    [ "$(grep -cE '^[0-9a-f]{16} .* ssd ' "$scratch/out")" = "$count" ] || fail "not $count objects"
    grep -q 'there are more' "$scratch/out" && fail 'there are no more'
    cache ls --limit 1
    [ "$(grep -c ' ssd ' "$scratch/out")" = 1 ] || fail 'not one'
    expect_out 'more rows exist: list all with --limit 0'
    cache stats --json
    expect_out "\"objects\":$count"
    cache stats
    expect_out '0 in quarantine'
    name=$(basename "$(objects | head -1)" .hobj)
    cache show "${name:0:10}"
    expect_status 0
    grep -qx "key          $name" "$scratch/out" || fail 'another one'
    cache show 0123456789
    expect_status 1
    [ "$(objects | wc -l)" = "$count" ] || fail 'looking changed something'
}

# What looks works beside the server, what changes is its business.
test_beside_a_server() {
    start_server
    cache ls
    expect_status 0
    cache stats
    expect_status 0
    cache verify
    expect_status 0
    expect_no_complaint
    expect_out 'all are whole'
    for what in clear gc; do
        cache $what
        expect_status 1
        expect_no_out
        expect_err 'ssd is in use by a server: use --url to ask the server, or stop it first'
    done
    stop
    cache clear
    expect_status 0
    [ "$(objects | wc -l)" = 0 ] || fail 'files are left'
}

test_damage_is_found_moved_aside_and_removed() {
    fill
    file=$(objects | head -1)
    printf 'x' | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") - 1)) conv=notrunc 2>/dev/null
    cache verify --json
    expect_status 0
    expect_out '"damaged":1,"dropped":1'
    [ ! -e "$file" ] || fail 'it is still there'
    cache stats
    expect_out '1 in quarantine'
    : >ssd/tmp/0123456789abcdef.tmp
    cache gc
    expect_status 0
    expect_out '0 objects removed'
    expect_out '2 leftovers removed'
    cache verify
    expect_out 'all are whole'
}

test_gc_by_age() {
    fill
    cache gc --older 1h
    expect_out '0 objects removed'
    touch -d '2 hours ago' $(objects)
    cache gc --older 1h
    expect_status 0
    grep -qE '^[1-9][0-9]* objects removed' "$scratch/out" || fail 'nothing was removed'
    [ "$(objects | wc -l)" = 0 ] || fail 'files are left'
}

# What was exported, removed and imported again is found by the next server.
test_export_and_import() {
    fill
    count=$(objects | wc -l)
    cache export taken
    expect_status 0
    expect_out "$count objects, "
    [ "$(objects | wc -l)" = "$count" ] || fail 'it took them away'
    file=$(find taken -name '*.hobj' | sort | tail -1)
    cache clear
    cache import taken
    expect_status 0
    expect_out "$count objects, "
    cache verify
    expect_out "$count objects, "
    expect_out 'all are whole'
    start --ssd-dir "$PWD/ssd" --ssd-free 1MiB
    ask /v1/completions "{\"prompt\": \"$(letters 7 1000)\", \"max_tokens\": 4}"
    grep -qE '"ssd":[1-9]' body || fail "nothing came from the disk: $(cat body)"
    stop
    printf 'x' | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") - 1)) conv=notrunc 2>/dev/null
    cache clear
    cache import taken
    expect_status 0
    expect_out '; 1 refused'
    cache export more 0123456789
    expect_status 2
    cache import nowhere
    expect_status 1
}

test_keys() {
    fill
    run env HEARTH_STATE_DIR="$PWD/other" "$HEARTH" cache ls --dir ssd
    expect_status 1
    expect_err 'no installation key in'
    cache ls --key-file state/key
    expect_status 0
    head -c 32 /dev/urandom >wrong
    count=$(objects | wc -l)
    cache stats --key-file wrong
    expect_out "$count foreign files"
    cache clear --key-file wrong
    expect_status 0
    [ "$(objects | wc -l)" = "$count" ] || fail 'what is of others was removed'
}

test_encrypted() {
    head -c 32 /dev/urandom >seal && chmod 600 seal
    fill --ssd-encrypt "$PWD/seal"
    cache ls --encrypt-key seal
    expect_status 0
    grep -qE '^[0-9a-f]{16} ' "$scratch/out" || fail 'nothing was opened'
    cache verify --encrypt-key seal
    expect_out 'all are whole'
}

test_mistakes() {
    mkdir ssd
    mkdir -p state && head -c 32 /dev/urandom >state/key
    export HEARTH_STATE_DIR=$PWD/state
    cache ls --tier ram
    expect_status 2
    expect_err 'only the ssd tier'
    cache ls -m qwen3
    expect_status 2
    expect_err 'ask a running server'
    rmdir ssd
    for what in ls clear gc; do
        cache $what
        expect_status 1
        expect_err 'ssd'
        [ ! -e ssd ] || fail "$what made a directory"
    done
}

suite_main "$@"

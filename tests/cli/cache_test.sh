#!/usr/bin/env bash
# `hearth cache` on a real server: what it shows is there, and what it does takes effect.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/serve.sh
. "$(dirname "$0")/../support/serve.sh"

cache() { run "$HEARTH" cache "$@"; }

# A server with one prompt of 1,000 letters in its cache, which is also in the file prompt.txt.
start_warm() { # options
    make_model
    start "$@"
    letters 7 1000 >prompt.txt
    ask /v1/completions "{\"prompt\": \"$(cat prompt.txt)\", \"max_tokens\": 4}"
    grep -q '"text"' body || fail "$(cat body)"
    await 'the time to store what was computed' is_held
}

uses() { "$HEARTH" cache ls --json | grep -oE '"(key|uses)":"?[0-9a-f]+' | sort; }
is_held() { [ -n "$(uses)" ]; }

test_stats_say_what_happened() {
    start_warm
    ask /v1/completions "{\"prompt\": \"$(cat prompt.txt)\", \"max_tokens\": 4}"
    cache stats
    expect_status 0
    expect_no_err
    grep -qE '^hearth [0-9.]+, up ' "$scratch/out" || fail 'no version'
    grep -qE '^session +2 requests, prompt [0-9,]+ = device [0-9,]+ \+ ram [0-9,]+ \+ ssd 0 \+ computed [0-9,]+ \| 4[0-9]\.[0-9] % reused' \
        "$scratch/out" || fail 'no sums'
    grep -qE '^misses +cold [0-9]{2,} tokens$' "$scratch/out" || fail 'no reason'
    grep -qE '^ram +ok ' "$scratch/out" || fail 'no table of tiers'
    cache stats --json
    [ "$(field requests)" != '' ] || fail 'no JSON'
    stop
}

test_list_and_show() {
    start_warm
    cache ls
    expect_status 0
    grep -qE '^[0-9a-f]{16} +m .* rows +0-[0-9]+ ' "$scratch/out" || fail 'no rows'
    cache ls --json
    key=$(field key)
    [ "${#key}" = 64 ] || fail "no key: $key"
    cache show "${key:0:12}"
    expect_status 0
    grep -qx "key          $key" "$scratch/out" || fail 'another one'
    cache ls --limit 1
    expect_status 0
    expect_out 'continue with --after'
    cache ls --limit 0 --tier ssd
    expect_out 'no objects'
    cache show 0123456789abcdef
    expect_status 1
    expect_err 'no object has a key that begins with'
    cache show nothing
    expect_status 2
    expect_err 'is not a key'
    key=
    stop
}

test_probe_counts_nothing_and_tells_the_difference() {
    start_warm
    before=$(uses)
    [ -n "$before" ] || fail 'nothing is cached'
    cache probe prompt.txt
    expect_status 0
    grep -qE '^prompt [0-9,]+ = device [0-9,]+ \+ ram [0-9,]+ ' "$scratch/out" || fail 'no sum'
    { letters 7 500 && letters 8 500; } >other.txt
    cache probe other.txt prompt.txt
    expect_status 0
    expect_out 'the two prompts diverge at token '
    [ "$(uses)" = "$before" ] || fail 'it was counted'
    stop
}

test_warm_then_a_request_computes_little() {
    make_model
    start
    printf '{"messages": [{"role": "user", "content": "%s"}]}' "$(letters 9 1500)" >request.json
    cache warm request.json
    expect_status 0
    grep -qE '^[0-9,]+ tokens are warm, [0-9,]+ of them computed now$' "$scratch/out" || fail 'not said'
    ask /v1/chat/completions "$(sed 's/}$/, "max_tokens": 2}/' request.json)"
    grep -qE '"cached_tokens":[1-9][0-9]{2,}' body || fail "$(cat body)"
    stop
}

test_pin_and_unpin() {
    start_warm
    cache pin prompt.txt
    expect_status 0
    grep -qE '^[1-9][0-9,]* tokens pinned$' "$scratch/out" || fail 'nothing was pinned'
    cache ls --pinned
    grep -q ' pinned$' "$scratch/out" || fail 'not in the list'
    cache unpin prompt.txt
    expect_status 0
    cache ls --pinned
    expect_out 'no objects'
    cache ls --json
    key=$(field key)
    cache pin "${key:0:16}"
    expect_status 0
    key=
    cache pin zz
    expect_status 1
    expect_err "\"zz\" is neither a file nor a key of 8 to 64 hex digits, as shown by 'hearth cache ls'"
    stop
}

# No key would help there.
test_export_that_is_off_does_not_ask_for_a_key() {
    start_warm
    cache export out
    expect_status 1
    expect_err '--admin-files DIR'
    ! grep -q HEARTH_ADMIN_KEY "$scratch/err" || fail "$(cat "$scratch/err")"
    stop
}

test_clear_gc_and_verify() {
    start_warm --ssd-dir "$PWD/ssd" --ssd-free 1MiB
    cache verify --tier ssd
    expect_status 0
    expect_out 'all are whole'
    cache clear
    expect_status 2
    expect_err 'what should be cleared? Use --tier ram'
    cache gc
    expect_status 2
    expect_err '--older'
    cache gc --older 1h
    expect_status 0
    expect_out '0 objects removed'
    cache clear --tier all
    expect_status 0
    grep -qE '^[1-9].* cleared$' "$scratch/out" || fail 'nothing was cleared'
    cache ls
    expect_out 'no objects'
    stop
}

test_export_and_import() {
    mkdir files
    start_warm --admin-files "$PWD/files"
    cache export taken
    expect_status 0
    grep -qE '^[1-9][0-9,]* objects, ' "$scratch/out" || fail 'nothing was exported'
    cache clear --tier all
    cache import taken
    expect_status 0
    grep -qE '^[1-9][0-9,]* objects, ' "$scratch/out" || fail 'nothing was imported'
    cache probe prompt.txt
    grep -qE ' ram [1-9]' "$scratch/out" || fail 'it is not there'
    cache import taken # nothing new, and nothing refused
    expect_status 0
    stop
    # Another installation's: all of it is refused, and the exit status says so.
    rm -rf state
    start_warm --admin-files "$PWD/files"
    cache import taken
    expect_status 1
    grep -qE '^0 objects, .*[1-9] refused' "$scratch/out" || fail 'not said'
    cache import taken --json
    expect_status 1
    stop
}

test_the_admin_key() {
    make_model
    printf 'top-secret\n' >admin
    start --api-key user-key --admin-key top-secret
    cache stats
    expect_status 1
    expect_err '--admin-key-file'
    run env HEARTH_API_KEY=user-key "$HEARTH" cache stats
    expect_status 1
    for how in '--admin-key top-secret' '--admin-key-file admin'; do
        # shellcheck disable=SC2086
        cache stats $how
        expect_status 0
    done
    run env HEARTH_ADMIN_KEY=top-secret "$HEARTH" cache stats
    expect_status 0
    grep -q 'secret' "$scratch/out" "$scratch/err" log && fail 'the key was shown'
    stop
}

test_local_socket() {
    make_model
    start --host "$PWD/h.sock"
    cache stats --url "$PWD/h.sock"
    expect_status 0
    cache stats --url "unix:$PWD/h.sock"
    expect_status 0
    run env -u HEARTH_URL HEARTH_HOST="$PWD/h.sock" "$HEARTH" cache stats
    expect_status 0
    stop
}

test_nobody_there() {
    cache stats --url http://127.0.0.1:1
    expect_status 1
    expect_no_out
    expect_err "no server at http://127.0.0.1:1 (Connection refused): start one with 'hearth serve MODEL', or set --url"
}

test_mistakes() {
    cache
    expect_status 2
    cache stat
    expect_status 2
    expect_err 'did you mean stats?'
    cache show
    expect_status 2
    expect_err "usage: hearth cache show KEY [--dir DIR]"
    run "$HEARTH" cache verify ssd
    expect_status 2
    expect_err 'usage: hearth cache verify [--dir DIR]'
    cache stats --url ftp://x
    expect_status 2
    cache probe nowhere.json --url http://127.0.0.1:1
    expect_status 1
    expect_err 'nowhere.json'
    printf '{"messages": [}' >bad.json
    cache probe bad.json --url http://127.0.0.1:1
    expect_status 2
    expect_err 'bad.json is not JSON'
    cache pin abc --dir .
    expect_status 2
    expect_err 'pin needs a running server'
}

suite_main "$@"

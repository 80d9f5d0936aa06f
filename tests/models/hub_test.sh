#!/usr/bin/env bash
# `hearth pull`, `list`, `rm` and `serve -hf` against a local server that speaks the hub's interface, with its faults.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/serve.sh
. "$(dirname "$0")/../support/serve.sh"

folder=$(cd "$(dirname "$0")" && pwd)
hub=
end_hub() { [ -z "$hub" ] || kill "$hub" 2>/dev/null; }
trap 'end_hub; end_server' EXIT

# Repositories: one with two quantizations and a model of three shards below a folder.
start_hub() {
    command -v node >/dev/null || skip 'no node'
    mkdir -p repos/user/tiny-GGUF/big
    make_model qwen3 repos/user/tiny-GGUF/tiny-Q4_K_M.gguf
    head -c 700000 "$HEARTH" >repos/user/tiny-GGUF/tiny-Q8_0.gguf
    head -c 1000 "$HEARTH" >'repos/user/tiny-GGUF/a #1 50%-F16.gguf'
    for i in 1 2 3; do head -c "${i}0000" "$HEARTH" >"repos/user/tiny-GGUF/big/tiny-BF16-0000$i-of-00003.gguf"; done
    echo text >repos/user/tiny-GGUF/README.md
    node "$folder/hub_server.mjs" "$PWD/repos" "$PWD/port" >hub_log 2>&1 &
    hub=$!
    await 'the port' test -s port
    HF_ENDPOINT=http://127.0.0.1:$(cat port)
    export HF_ENDPOINT HF_HUB_CACHE=$PWD/hub HOME=$PWD/home
    unset HF_TOKEN LLAMA_CACHE http_proxy HTTP_PROXY
}

faults() { echo "$@" >repos/faults; }
root=hub/models--user--tiny-GGUF

same() { # FILE
    cmp -s "$root/snapshots/$(cat $root/refs/main)/$1" "repos/user/tiny-GGUF/$1" || fail "$1 has other bytes"
}

# One file that says to be the first of many: nothing is taken for a whole model.
test_a_model_of_too_many_shards() {
    start_hub
    mkdir -p repos/user/many-GGUF
    head -c 1000 "$HEARTH" >repos/user/many-GGUF/m-00001-of-99999.gguf
    run "$HEARTH" pull user/many-GGUF
    grep -q 'need libcurl' "$scratch/err" && skip "$(cat "$scratch/err")"
    expect_status 1
    expect_err 'm-00001-of-99999.gguf has 99999 files, more than'
    expect_no_out
}

test_pull_list_rm() {
    start_hub
    run "$HEARTH" pull user/tiny-GGUF
    grep -q 'need libcurl' "$scratch/err" && skip "$(cat "$scratch/err")"
    expect_status 0
    expect_out "snapshots/$(cat $root/refs/main)/tiny-Q4_K_M.gguf"
    same tiny-Q4_K_M.gguf
    [ -L "$root/snapshots/$(cat $root/refs/main)/tiny-Q4_K_M.gguf" ] || fail 'no link'
    [ "$(basename "$(readlink -f "$(cat "$scratch/out")")")" = "$(sha256sum <repos/user/tiny-GGUF/tiny-Q4_K_M.gguf | cut -d' ' -f1)" ] ||
        fail 'the blob is not called by its sum'
    run "$HEARTH" pull user/tiny-GGUF:bf16
    expect_status 0
    for i in 1 2 3; do same "big/tiny-BF16-0000$i-of-00003.gguf"; done
    run "$HEARTH" pull user/tiny-GGUF:f16 # a name that an address cannot have as it is
    expect_status 0
    same 'a #1 50%-F16.gguf'
    run "$HEARTH" rm user/tiny-GGUF:f16
    expect_status 0
    : >repos/log
    run "$HEARTH" pull user/tiny-GGUF:bf16
    expect_status 0
    [ "$(wc -l <repos/log)" = 1 ] || fail "downloaded again: $(cat repos/log)"
    run "$HEARTH" list
    expect_status 0
    grep -qE '^user/tiny-GGUF +58\.6 KiB +tiny-BF16-00001' "$scratch/out" || fail 'no model of shards'
    expect_out tiny-Q4_K_M.gguf
    run "$HEARTH" rm user/tiny-GGUF:BF16
    expect_status 0
    expect_out '58.6 KiB freed'
    same tiny-Q4_K_M.gguf
    run "$HEARTH" rm user/tiny-GGUF
    expect_status 0
    [ -e $root ] && fail "left: $(find $root)"
    run "$HEARTH" rm user/tiny-GGUF
    expect_status 1
    run "$HEARTH" list
    expect_status 0
    expect_no_out
    expect_err "no models; download one with 'hearth pull"
}

# `serve` and `rm` find a model in every cache, so `list` shows them all, and each once.
test_list_shows_every_cache() {
    other=home/.cache/huggingface/hub/models--user--other-GGUF/snapshots/1
    export HF_HUB_CACHE=$PWD/hub XDG_CACHE_HOME=$PWD/home/.cache HOME=$PWD/home
    unset LLAMA_CACHE HF_HOME HUGGINGFACE_HUB_CACHE
    mkdir -p $root/snapshots/1 $other
    make_model qwen3 $root/snapshots/1/tiny-Q4_K_M.gguf
    make_model qwen3 $other/other-Q4_K_M.gguf
    run "$HEARTH" list
    expect_status 0
    expect_out tiny-Q4_K_M.gguf
    [ "$(grep -c other-Q4_K_M.gguf "$scratch/out")" = 1 ] || fail 'the other cache is not listed once'
}

# A name is found in any case and in every cache, so that is where it is removed.
test_rm_removes_what_it_finds() {
    start_hub
    run "$HEARTH" pull user/tiny-GGUF:Q8_0
    grep -q 'need libcurl' "$scratch/err" && skip "$(cat "$scratch/err")"
    expect_status 0
    run "$HEARTH" rm User/Tiny-gguf:q8_0
    expect_status 0
    expect_out '683.6 KiB freed'
    [ -e $root ] && fail "left: $(find $root)"
    run "$HEARTH" pull user/tiny-GGUF:Q8_0
    expect_status 0
    mkdir other
    LLAMA_CACHE=$PWD/other run "$HEARTH" rm user/tiny-GGUF:Q8_0
    expect_status 0
    expect_out '683.6 KiB freed'
    [ -e $root ] && fail "left: $(find $root)"
    return 0
}

test_a_shared_blob_stays_until_its_last_file_goes() {
    start_hub
    cp repos/user/tiny-GGUF/tiny-Q8_0.gguf repos/user/tiny-GGUF/tiny-Q6_K.gguf
    run "$HEARTH" pull user/tiny-GGUF:Q8_0
    grep -q 'need libcurl' "$scratch/err" && skip "$(cat "$scratch/err")"
    expect_status 0
    run "$HEARTH" pull user/tiny-GGUF:Q6_K
    expect_status 0
    [ "$(find $root/blobs -type f | wc -l)" = 1 ] || fail "not one blob: $(find $root/blobs)"
    run "$HEARTH" rm user/tiny-GGUF:Q8_0
    expect_status 0
    expect_out '0 B freed'
    same tiny-Q6_K.gguf
    run "$HEARTH" rm user/tiny-GGUF:Q6_K
    expect_status 0
    expect_out '683.6 KiB freed'
    [ -e $root ] && fail "left: $(find $root)"
    return 0
}

# A repository whose name begins like another one's is another one.
test_a_blob_of_another_repository_stays() {
    mkdir -p $root/snapshots/abcdef0 $root/refs $root-2/blobs
    export HF_HUB_CACHE=$PWD/hub
    unset LLAMA_CACHE
    printf abcdef0 >$root/refs/main
    echo bytes >$root-2/blobs/1
    ln -s ../../../models--user--tiny-GGUF-2/blobs/1 $root/snapshots/abcdef0/tiny-Q8_0.gguf
    run "$HEARTH" rm user/tiny-GGUF:Q8_0
    expect_status 0
    expect_out '0 B freed'
    [ -e $root-2/blobs/1 ] || fail 'the other repository has lost its blob'
}

test_a_broken_download_continues() {
    start_hub
    faults cut=100000
    run "$HEARTH" pull user/tiny-GGUF:Q8_0
    expect_status 0
    same tiny-Q8_0.gguf
    [ "$(grep -c 'bytes=' repos/log)" = 6 ] || fail "not in seven parts: $(cat repos/log)"
    # Killed in the middle, continued by the next run.
    "$HEARTH" rm user/tiny-GGUF:Q8_0 >/dev/null || fail 'not removed'
    part=$root/blobs/$(sha256sum <repos/user/tiny-GGUF/tiny-Q8_0.gguf | cut -d' ' -f1).incomplete
    mkdir -p $root/blobs
    head -c 300000 repos/user/tiny-GGUF/tiny-Q8_0.gguf >"$part"
    faults ''
    : >repos/log
    run "$HEARTH" pull user/tiny-GGUF:Q8_0
    expect_status 0
    same tiny-Q8_0.gguf
    grep -q 'bytes=300000-' repos/log || fail "not continued: $(cat repos/log)"
    [ -e "$part" ] && fail 'a part is left'
    return 0
}

test_servers_without_ranges() {
    start_hub
    part=$root/blobs/$(sha256sum <repos/user/tiny-GGUF/tiny-Q8_0.gguf | cut -d' ' -f1).incomplete
    mkdir -p $root/blobs
    head -c 300000 repos/user/tiny-GGUF/tiny-Q8_0.gguf >"$part"
    faults norange
    run "$HEARTH" pull user/tiny-GGUF:Q8_0
    expect_status 0
    same tiny-Q8_0.gguf
}

# Without ranges and without an end: no try brings more than the one before.
test_hopeless_servers_are_given_up() {
    start_hub
    faults norange cut=100000
    run "$HEARTH" pull user/tiny-GGUF:Q8_0
    expect_status 1
}

test_damage_is_found() {
    start_hub
    faults bad
    run "$HEARTH" pull user/tiny-GGUF:Q8_0
    expect_status 1
    expect_err 'SHA-256'
    [ -z "$(find hub -name '*.incomplete' -o -name '*.gguf')" ] || fail "left: $(find hub)"
    # A part of other content is noticed at the end, and the next run begins anew.
    faults ''
    part=$root/blobs/$(sha256sum <repos/user/tiny-GGUF/tiny-Q8_0.gguf | cut -d' ' -f1).incomplete
    head -c 1000 /dev/zero >"$part"
    run "$HEARTH" pull user/tiny-GGUF:Q8_0
    expect_status 1
    run "$HEARTH" pull user/tiny-GGUF:Q8_0
    expect_status 0
    same tiny-Q8_0.gguf
}

test_too_much_is_refused() {
    start_hub
    faults more
    run "$HEARTH" pull user/tiny-GGUF:Q8_0
    expect_status 1
    expect_err 'longer than the hub says'
    faults long
    run "$HEARTH" pull user/tiny-GGUF:Q8_0
    expect_status 1
    expect_err 'longer than 64 MiB'
}

# A terminal would do what such a name says.
test_names_with_control_characters_are_skipped() {
    start_hub
    head -c 1000 "$HEARTH" >"repos/user/tiny-GGUF/"$'\e[31m-Q5_0.gguf'
    run "$HEARTH" pull user/tiny-GGUF:Q5_0
    expect_status 1
    expect_err "no 'Q5_0'"
    grep -q $'\e' "$scratch/out" "$scratch/err" && fail 'an escape sequence was printed'
    [ -z "$(find hub -name '*Q5_0*' 2>/dev/null)" ] || fail "left: $(find hub)"
}

test_busy_servers_are_asked_again() {
    start_hub
    faults busy=2
    run "$HEARTH" pull user/tiny-GGUF:Q8_0
    expect_status 0
    same tiny-Q8_0.gguf
}

test_tokens_stay_with_the_hub() {
    start_hub
    faults token=secret elsewhere
    run "$HEARTH" pull user/tiny-GGUF
    expect_status 1
    expect_err 'HF_TOKEN'
    export HF_TOKEN=wrong
    run "$HEARTH" pull user/tiny-GGUF
    expect_status 1
    expect_err 'no access'
    export HF_TOKEN=secret
    run "$HEARTH" pull user/tiny-GGUF
    expect_status 0
    same tiny-Q4_K_M.gguf
    grep -q '^127.0.0.1 /user.* Bearer secret' repos/log || fail 'no token for the hub'
    grep -q '^localhost /cdn.* -$' repos/log || fail "the other host got it, or was not asked: $(cat repos/log)"
    expect_no_secret=$(grep -c secret "$scratch/err" "$scratch/out" | grep -v ':0' || :)
    [ -z "$expect_no_secret" ] || fail 'the token is shown'
    HF_TOKEN=$(printf 'x%.0s' $(seq 3000)) # as long as those that are signed claims
    faults "token=$HF_TOKEN"
    run "$HEARTH" pull user/tiny-GGUF:q8_0
    expect_status 0
    same tiny-Q8_0.gguf
}

test_mistakes_are_sentences() {
    start_hub
    run "$HEARTH" pull tiny
    expect_status 2
    expect_err 'user/repo'
    run "$HEARTH" pull user/none
    expect_status 1
    expect_err 'does not have it'
    run "$HEARTH" pull user/tiny-GGUF:Q2_K
    expect_status 1
    expect_err "no 'Q2_K'; it has"
    expect_err tiny-Q8_0.gguf
    kill "$hub"
    run "$HEARTH" pull user/tiny-GGUF
    expect_status 1
    HF_ENDPOINT=file:///etc run "$HEARTH" pull user/tiny-GGUF
    expect_status 1
}

test_two_at_once() {
    start_hub
    part=$root/blobs/$(sha256sum <repos/user/tiny-GGUF/tiny-Q8_0.gguf | cut -d' ' -f1).incomplete
    mkdir -p $root/blobs
    : >"$part"
    exec 8<"$part"
    flock 8
    run "$HEARTH" pull user/tiny-GGUF:Q8_0
    expect_status 1
    expect_err 'another process'
}

test_serve_downloads_only_when_asked() {
    start_hub
    run "$HEARTH" serve user/tiny-GGUF --port 0
    expect_status 1
    [ -e repos/log ] && fail "asked: $(cat repos/log)"
    serve -hf user/tiny-GGUF -c 4096
    ask /v1/completions '{"prompt": "a", "max_tokens": 2, "ignore_eos": true}'
    grep -q '"completion_tokens":2' body || fail "no answer: $(cat body)"
    stop
    same tiny-Q4_K_M.gguf
    # What is there is not asked for again: it starts without a network.
    kill "$hub"
    serve -hf user/tiny-GGUF -c 4096
    stop
}

suite_main "$@"

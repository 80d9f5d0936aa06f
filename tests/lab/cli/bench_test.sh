#!/usr/bin/env bash
# `hearth bench`: every form of its results, on a model that is made in no time. Figures are not looked at: only what is counted in tokens.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../../support/suite.sh"
# shellcheck source=tests/support/serve.sh
. "$(dirname "$0")/../../support/serve.sh"

unset HEARTH_API_KEYS

bench() {
    export TMPDIR=$PWD
    run "$HEARTH" bench "$@"
}

left_nothing() {
    [ -z "$(find . -name 'hearth.*' -type d)" ] || fail 'it left its folder'
}

# The number in a column of a row of t.csv; names of cases have a comma inside of their quotes.
cell() { # CASE COLUMN
    sed '/^#/d; s/"\([a-z]*\), \([a-z]*\)"/\1; \2/' t.csv |
        awk -F, -v want="${1/,/;}" -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i; next } $2 == want { print $at }'
}

# One token is computed of an exact repeat, wherever it comes from, and the parts of a restore are shown separately.
test_i26_prefix() {
    make_model
    export HEARTH_DEMO=$PWD/m.gguf # a name, as for `hearth serve`
    bench prefix -m demo -t 1 --size 1K -n 2 -ub 256 --csv t.csv --json t.json --svg t.svg
    expect_status 0
    expect_out 'hearth 0.'
    for name in 'device, exact' 'ram, exact' 'restart, exact' 'ssd, exact'; do
        [ "$(cell "$name" replayed)" = 1 ] || fail "$name: $(cat t.csv)"
    done
    [ "$(cell 'cold' cached)" = 0 ] || fail "not cold: $(cat t.csv)"
    [ "$(cell 'ram, exact' ram)" -gt 900 ] || fail "not from RAM: $(cat t.csv)"
    [ "$(cell 'restart, exact' ssd)" -gt 900 ] || fail "not from disk: $(cat t.csv)"
    for name in 'device, suffix' 'ram, suffix'; do # 23 tokens, give or take one of the tokenizer's
        [ "$(cell "$name" replayed)" -ge 20 ] && [ "$(cell "$name" replayed)" -le 28 ] || fail "$name: $(cat t.csv)"
        [ "$(cell "$name" match)" = lcp ] || fail "$name: $(cat t.csv)"
    done
    [ "$(cell 'ram, nearest' ram)" -gt 800 ] || fail "not the nearest: $(cat t.csv)"
    expect_out "last 23 tokens are others (mlx-lm's nearest)"
    grep -q '"lookup_ms":' t.json || fail 'no lookup'
    grep -qE '"import_ms":[0-9.]*[1-9]' t.json || fail 'no time of an import'
    grep -q '</svg>' t.svg || fail 'no picture'
    left_nothing
}

has_a_log() { [ -n "$(find hearth.* -name "*.log" -size +0 2>/dev/null)" ]; }
has_left_nothing() { [ -z "$(find . -name 'hearth.*' -type d)" ]; }

# Neither does one that is killed: Ctrl-C must not fill /tmp with caches and models.
test_a_killed_one_leaves_nothing() {
    make_model
    TMPDIR=$PWD "$HEARTH" bench prefix -m m.gguf -t 1 --size 4K -n 2 -ub 256 >/dev/null 2>&1 &
    await 'a server' has_a_log
    kill -9 $!
    wait $! 2>/dev/null
    await 'the end of its folder' has_left_nothing
}

# What the user has set for the own server is not for one that is measured: neither keys nor an address.
test_settings_of_the_user_do_not_count() {
    make_model
    export HEARTH_API_KEY=secret HEARTH_MODEL=none.gguf HEARTH_TLS_CERT=none.pem XDG_CONFIG_HOME=$PWD/config
    mkdir -p config/hearth
    printf '[serve]\nhost = localhost\napi-key = other\nstrict-model = on\nalias = x\n' >config/hearth/hearth.ini
    bench prefix -m m.gguf -t 1 --size 300 -n 2 -ub 256
    expect_status 0
    left_nothing
}

test_numbers_have_limits() {
    bench prefix --size 10000000K
    expect_status 2
    expect_err '--size 10000000K: expected a number such as 512 or 20K, at most 10000K'
    bench prefix --size 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17
    expect_status 2
    expect_err '--size: more than 16 numbers'
    bench prefix --size ''
    expect_status 2
}

test_serve_starts_a_server() {
    make_model
    bench serve -m m.gguf -t 1 -j 1,3 --prompt-tokens 64 --generation-tokens 4 --requests 6 --csv t.csv --json -
    expect_status 0
    expect_out '"requests_per_s":'
    [ "$(grep -vc '^#' t.csv)" = 3 ] || fail "$(cat t.csv)"
    grep -q '^3,.*,4,6,0,' t.csv || fail "requests failed: $(cat t.csv)"
    left_nothing
}

test_serve_asks_any_server() {
    make_model
    serve m.gguf -c 4096 --api-key secret
    url=$(sed -n 's/^ *OpenAI *\(http.*\)/\1/p' served)
    bench serve --url "$url" --api-key secret --chat -j 2 --prompt-tokens 32 --generation-tokens 4 --requests 4
    expect_status 0
    expect_out "$url"
    bench serve --url "$url" -j 1 --requests 1
    expect_status 1
    expect_err 'request 0 failed: '
    kill -9 "$server"
    wait "$server" 2>/dev/null
    bench serve --url "$url" -j 1 --requests 1
    expect_status 1
}

test_peer() {
    make_model
    bench peer -m m.gguf --other-model m.gguf -t 1 --size 300 --rounds 1 --csv t.csv
    expect_status 0
    if grep -q '^skipped: no llama-server' "$scratch/out"; then skip 'there is no llama-server here: make peer'; fi
    [ "$(grep -vc '^#' t.csv)" = 13 ] || fail "$(cat t.csv)"
    left_nothing
}

# Every shape on one kind; of a state that can be cut nothing is computed twice.
test_forks() {
    make_model
    bench forks -m m.gguf -t 1 --size 200 --csv t.csv --json t.json --svg t.svg
    expect_status 0
    if grep -q '^skipped: no llama-server' "$scratch/out"; then skip 'there is no llama-server here: make peer'; fi
    [ "$(grep -vc '^#' t.csv)" = 16 ] || fail "$(cat t.csv)"
    [ "$(grep -c '^full,' t.csv)" = 15 ] || fail "$(cat t.csv)"
    grep -o '"shape":"question after a document"[^}]*' t.json | grep -q '"hearth_worst":0[,}]' || fail "$(cat t.json)"
    grep -q '</svg>' t.svg || fail 'no picture'
    left_nothing
}

test_forks_say_what_is_missing() {
    bench forks --llama-server /nonexistent/llama-server
    expect_status 0
    expect_out 'skipped: no llama-server (/nonexistent/llama-server); `make peer` fetches it'
}

test_peer_says_what_is_missing() {
    bench peer --llama-server /nonexistent/llama-server
    expect_status 0
    expect_out 'skipped: no llama-server (/nonexistent/llama-server); `make peer` fetches it'
}

# Every shape on both servers. A llama-server that dies costs its columns only.
test_drafts() {
    make_model
    bench drafts -m m.gguf -t 1 --rounds 1 --answer-tokens 8 --csv t.csv --llama-server /bin/false
    expect_status 0
    expect_err 'llama-server is not compared: llama-server ended at its start'
    grep -q '^streams: [0-9.]* ms per token, [0-9.]* with drafts' "$scratch/err" || fail "$(cat "$scratch/err")"
    ! grep -q 'llama-server .*nan\|: .*nan ms' "$scratch/err" || fail "a peer that was not measured: $(cat "$scratch/err")"
    [ "$(grep -v '^#' t.csv | cut -d, -f1 | tr '\n' ' ')" = 'shape nothing regenerate branch edit predict streams ' ] ||
        fail "$(cat t.csv)"
    left_nothing
}

# Two servers without drafts guess nothing, even of an answer that comes again. A row ends with the first pair of rounds after its time.
test_drafts_of_nothing_in_time() {
    make_model
    bench drafts -m m.gguf -t 1 --rounds 1000 --row-time 1ms --answer-tokens 8 --rows regenerate --drafts off --csv t.csv --llama-server /bin/false
    expect_status 0
    [ "$(awk -F, '$1 == "regenerate" { print ($8 == 1) }' t.csv)" = 1 ] || fail "$(cat t.csv)"
    bench drafts -m m.gguf -t 1 --rounds 1000 --row-time 1ms --answer-tokens 16 --rows regenerate --drafts 8 --csv t.csv --llama-server /bin/false
    expect_status 0
    [ "$(awk -F, '$1 == "regenerate" { print ($8 > 1.5) }' t.csv)" = 1 ] || fail "$(cat t.csv)"
    left_nothing
}

# A folder of traces: only steps that write a file are used.
test_drafts_of_a_folder() {
    make_model
    mkdir traces
    printf '{"session_id":"1","input":"list","output":"%s"}\n' "$(seq -s ' ' 100)" >traces/a.jsonl
    bench drafts -m m.gguf --answers traces
    expect_status 1
    expect_err 'traces has no edits of 200 bytes or more'
    printf '{"session_id":"1","input":"edit","output":"sed -i %s"}\n' "$(seq -s ' ' 100)" >traces/b.jsonl
    bench drafts -m m.gguf -t 1 --rounds 1 --answer-tokens 16 --answers traces --rows predict --csv t.csv --llama-server /bin/false
    expect_status 0
    grep -q '^predict,' t.csv || fail "$(cat t.csv)"
    left_nothing
}

test_usage() {
    bench nothing
    expect_status 2
    expect_err "unknown benchmark 'nothing'"
    bench prefix --size much
    expect_status 2
    expect_err '--size much: expected a number'
    bench prefix -m no/such.gguf
    expect_status 1
    expect_err 'no/such.gguf: no such file or folder'
    bench drafts --answers no/such.jsonl
    expect_status 1
    expect_err 'no/such.jsonl'
    bench drafts --rows edit,much
    expect_status 1
    expect_err '--rows much: known are nothing, regenerate'
    bench serve --url ftp://host
    expect_status 1
    expect_err 'only http:// and https:// are supported'
    left_nothing
}

# A microbenchmark prints CSV, and becomes a table like all others.
test_micro_is_a_sheet() {
    bench cache 1000 --raw
    expect_status 0
    expect_out 'part,block_tokens,blocks,'
    bench cache 1000 --json t.json --csv t.csv --svg t.svg
    expect_status 0
    expect_out 'us_p50'
    expect_out 'hearth 0.'
    grep -q '"us_p50":[0-9]' t.json || fail "$(cat t.json)"
    grep -q '^part,block_tokens,blocks,' t.csv || fail "$(cat t.csv)"
    grep -q '<polyline' t.svg || fail 'no picture'
    left_nothing
}

# What goes wrong in it is said, and is a failure of the command.
test_micro_fails() {
    bench tier /nonexistent
    expect_status 1
    expect_err 'tier: it ended with status 1'
    left_nothing
}

suite_main "$@"

#!/usr/bin/env bash
# `hearth serve` as a user meets it: the lines it prints, what they promise, and how it ends.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/serve.sh
. "$(dirname "$0")/../support/serve.sh"

start() { serve m.gguf -c 2048 --log-level debug "$@"; } # options

ask() { # PATH JSON
    run curl -sS -o body -w '%{http_code}' "$url$1" -H 'Content-Type: application/json' -d "$2"
    expect_status 0
    code=$(cat "$scratch/out")
}

top=$(cd "$(dirname "$0")/../.." && pwd)
chat='{"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 8}'

test_the_printed_line_works() {
    make_model
    start
    # The three lines of curl as they stand there.
    sed -n '/^ *curl /,/-d /p' served >line
    [ -s line ] || fail 'no curl line'
    run bash line
    expect_status 0
    expect_out '"object":"chat.completion"'
    # And the page, as a browser asks for it.
    run curl -sS -H 'Accept: text/html' "$(sed -n 's/^ *page *\(http[^ ]*\) .*/\1/p' served)"
    expect_status 0
    expect_out '<title>hearth'
    stop
    grep -q '\[route\] 1 model=m route=continuous reason=batch kinds=full' log || fail "no route: $(cat log)"
    grep -qE '\[cache\] 1 miss prompt_tokens=[0-9]+ read_tokens=0 ' log || fail "no miss: $(cat log)"
    [ "$(grep -cE ' info +\[(api|cache|phase|route)\]' log)" = 1 ] || fail "not one info line per request: $(cat log)"
    grep -qE 'prompt [0-9]+ = device 0 \+ ram 0 \+ ssd 0 \+ computed [0-9]+ \| cold' log || fail "no honest line: $(cat log)"
}

test_health_and_version() {
    make_model
    start
    for path in /health /v1/health /ready /version /props /slots /v1/models /metrics; do
        run curl -sS -o body -w '%{http_code}' "$url$path"
        expect_out 200
    done
    stop
}

has_spins() { [ "$(spins)" = "GOMP_SPINCOUNT=$1 " ]; }
spins() { tr '\0' '\n' <"/proc/$server/environ" | grep -E '^(GOMP|OMP)_' | sort | tr '\n' ' '; }

# Waiting threads leave their cores to other programs, and the process keeps its name. A user may decide otherwise.
test_threads_wait_briefly() {
    make_model
    unset OMP_WAIT_POLICY GOMP_SPINCOUNT
    start
    has_spins 2000 || fail "without a setting: $(spins)"
    [ "$(cat "/proc/$server/comm")" = "$(basename "$HEARTH" | cut -c1-15)" ] || fail "shown as $(cat "/proc/$server/comm")"
    stop
    export GOMP_SPINCOUNT=7
    start
    has_spins 7 || fail "with spins: $(spins)"
    stop
    unset GOMP_SPINCOUNT
    export OMP_WAIT_POLICY=active
    start
    [ "$(spins)" = 'OMP_WAIT_POLICY=active ' ] || fail "with a policy: $(spins)"
    stop
}

# A pasted line starts, and says which of its options change nothing.
test_a_line_of_llama_server() {
    make_model
    serve -m m.gguf -c 16384 -np 2 -ngl 0 -fa --jinja -cb --metrics -b 2048 --repeat-penalty 1.1
    grep -q 'options that change nothing here options="--jinja: always on; -cb: always on; --metrics: always on; -b: ' log || fail "$(cat log)"
    grep -q 'the context is longer than the model was trained for.* context=16384 trained=8192' log || fail "$(cat log)"
    ask /v1/chat/completions "$chat"
    [ "$code" = 200 ] || fail "$code: $(cat body)"
    stop
    run "$HEARTH" serve m.gguf -c 1000000000 --max-memory 1GiB --port 0 --ssd-dir none --state-dir state
    expect_status 1
    expect_err 'a context of 1000000000 tokens needs at least'
    expect_err ' fits, or use --cache-type-k and --cache-type-v q8_0'
}

preflight() { # ORIGIN PATH
    run curl -sS -i -X OPTIONS "$url$2" -H "Origin: $1" -H 'Access-Control-Request-Method: POST' \
        -H 'Access-Control-Request-Headers: content-type,x-stainless-lang'
    expect_status 0
}

# Pages of this machine may call the API, but not /admin; others may not.
test_pages_of_this_machine() {
    make_model
    start --api-key secret
    for origin in http://localhost:5173 https://127.0.0.1:8443 'http://[::1]:3000'; do
        preflight "$origin" /v1/chat/completions
        expect_out "access-control-allow-origin: $origin"
        expect_out 'access-control-allow-headers: content-type,x-stainless-lang'
        preflight "$origin" /admin/stats
        ! grep -qi 'access-control' "$scratch/out" || fail "$(cat "$scratch/out")"
    done
    preflight http://evil.example /v1/chat/completions
    ! grep -qi 'access-control' "$scratch/out" || fail "$(cat "$scratch/out")"
    run curl -sS -i "$url/v1/chat/completions" -H 'Origin: http://localhost:5173' -H 'Content-Type: application/json' -d "$chat"
    expect_out '401 Unauthorized' # a page needs the key, too
    expect_out 'access-control-allow-origin: http://localhost:5173'
    stop
    start --cors-origins none
    preflight http://localhost:5173 /v1/chat/completions
    ! grep -qi 'access-control\|^vary' "$scratch/out" || fail "$(cat "$scratch/out")"
    stop
    start --cors-origins 'https://app.example,http://localhost:5173'
    preflight http://localhost:5173 /admin/stats
    expect_out 'access-control-allow-origin: http://localhost:5173'
    preflight http://localhost:5174 /v1/models
    ! grep -qi 'access-control' "$scratch/out" || fail "$(cat "$scratch/out")"
    stop
    run "$HEARTH" serve m.gguf --cors-origins app.example
    expect_status 2
    expect_err '--cors-origins app.example: expected SCHEME://HOST[:PORT] in lower case, localhost, * or none'
}

test_local_socket() {
    make_model
    start --host "$PWD/h.sock"
    run curl -sS --unix-socket h.sock http://localhost/v1/chat/completions -d "$chat"
    expect_out '"object":"chat.completion"'
    [ "$(stat -c %a h.sock)" = 600 ] || fail 'others can connect'
    stop
}

# Standard output is a pipe that was full at the start and is never read.
test_a_stalled_reader_of_the_banner() {
    make_model
    mkfifo full
    exec 8<>full
    dd if=/dev/zero of=full oflag=nonblock bs=4096 count=1000 2>/dev/null
    "$HEARTH" serve m.gguf -c 2048 -t 1 --ssd-dir none --state-dir state --host "$PWD/h.sock" >full 2>log &
    server=$!
    until [ "$(curl -sS --unix-socket h.sock http://localhost/health 2>/dev/null)" = '{"status":"ok"}' ]; do
        kill -0 "$server" || fail "$(cat log)"
        sleep 0.05
    done
    run curl -sS --unix-socket h.sock http://localhost/v1/chat/completions -d "$chat"
    expect_out '"finish_reason"'
    stop
}

test_keys_are_wanted() {
    make_model
    printf '# people\nanna:first-key\n' >keys
    start --api-key second-key --api-key-file keys
    ask /v1/chat/completions "$chat"
    [ "$code" = 401 ] || fail "without a key: $code"
    for key in first-key second-key; do
        run curl -sS -o body -w '%{http_code}' "$url/v1/chat/completions" -H "Authorization: Bearer $key" -d "$chat"
        expect_out 200
        run curl -sS -o body -w '%{http_code}' "$url/v1/messages" -H "x-api-key: $key" -d "$chat"
        expect_out 200
    done
    grep -q 'first-key\|second-key' log served && fail 'a key was shown'
    stop
}

# Everything that could be mistaken for a key, and every address that is not this machine's. A server that starts is
# ended, and its status is not 2.
refused() { # SENTENCE [VARIABLE=VALUE...] [options]
    local sentence=$1 variables=()
    shift
    while [[ ${1-} == HEARTH_*=* ]]; do
        variables+=("$1")
        shift
    done
    run env "${variables[@]}" timeout 20 "$HEARTH" serve m.gguf --port 0 --ssd-dir none --state-dir state "$@"
    expect_status 2
    expect_err "$sentence"
}

test_open_to_the_world_needs_a_key() {
    make_model
    printf '# nobody\n' >empty
    printf '[serve]\napi-key =\n' >section.ini
    printf 'api-key =\n' >plain.ini
    printf '[serve]\nadmin-key =\napi-key = good\n' >admin.ini
    local world='exposes the server to the network: set --api-key, or --allow-any' none='is set, but it has no key' host
    for host in 0.0.0.0 :: '[::]' 192.0.2.1 example.org 127.1 '' a.sock/; do
        refused "$world" --host "$host"
        refused "$world" --host "$host" --admin-key secret
        refused "$world" HEARTH_API_KEY= --host "$host"
        refused "$none" --host "$host" --api-key ''
    done
    refused "$world" --host 127.0.0.1 --host 0.0.0.0
    refused "$world" HEARTH_HOST=0.0.0.0
    for host in 127.0.0.1 0.0.0.0 "$PWD/h.sock"; do
        refused "api-key $none" --host "$host" --api-key ''
        refused "api-key $none" --host "$host" --api-key '' --admin-key secret
        refused "api-key $none" --host "$host" --api-key '' --allow-any
        refused "api-key $none" --host "$host" --api-key good --api-key ''
        refused "api-key $none" --host "$host" --config section.ini
        refused "api-key $none" --host "$host" --config plain.ini
        refused 'api-key has an API key that is empty' --host "$host" --api-key ,
        refused "api-key $none" HEARTH_API_KEY=, --host "$host"
        refused "admin-key $none" --host "$host" --api-key good --admin-key ''
        refused "admin-key $none" --host "$host" --config admin.ini
        refused 'empty has no API key' --host "$host" --api-key-file empty
        refused 'empty has no API key' --host "$host" --api-key-file empty --admin-key secret
    done
}

# A file that loses its keys while the server runs leaves the old ones in force.
test_a_reload_does_not_open_the_server() {
    make_model
    printf 'k1\n' >keys
    start --host 0.0.0.0 --api-key-file keys
    for content in '' '# nobody'; do
        printf '%s' "$content" >keys
        : >log
        kill -HUP "$server"
        await 'the reload' grep -q 'the keys stay as they were' log
        [ "$(curl -s -o /dev/null -w '%{http_code}' "$url/v1/models")" = 401 ] || fail 'open without a key'
        [ "$(curl -s -o /dev/null -w '%{http_code}' "$url/v1/models" -H 'x-api-key: k1')" = 200 ] || fail 'the old key is not valid'
    done
    stop
}

ready() { curl -s -o /dev/null -w '%{http_code}' "$url/ready"; }

# A load balancer sees 503 before the server is gone, and what it still sends is answered.
test_ready_says_that_the_server_ends() {
    make_model
    start
    [ "$(ready)$(ready)" = 200200 ] || fail 'not ready'
    kill -TERM "$server"
    await 'the 503' eval '[ "$(ready)" = 503 ]'
    ask /v1/chat/completions "$chat"
    [ "$code" = 200 ] || fail "$code: $(cat body)"
    [ "$(ready)$(ready)" = 503503 ] || fail 'ready again'
    wait "$server" || fail "ended with $?: $(cat log)"
    # One check is no load balancer, and the second signal ends at once.
    start
    ready >/dev/null
    SECONDS=0
    stop
    [ "$SECONDS" -lt 4 ] || fail "waited $SECONDS s for nobody"
    start --drain 60s
    ready >/dev/null
    ready >/dev/null
    kill -TERM "$server"
    await 'the 503' eval '[ "$(ready)" = 503 ]'
    SECONDS=0
    stop
    [ "$SECONDS" -lt 4 ] || fail "the second signal took $SECONDS s"
}

test_too_few_files() {
    make_model
    for limit in 6 12 63; do
        run timeout 20 prlimit --nofile=$limit "$HEARTH" serve m.gguf --port 0 --ssd-dir none --state-dir state
        expect_status 1
        expect_err "the limit of open files is $limit, and a server needs 64 at least"
    done
}

# The disk of the log is full: the alert must see it.
test_a_log_that_cannot_be_written() {
    make_model
    : >served
    "$HEARTH" serve m.gguf -c 2048 -t 1 --ssd-dir none --state-dir state --port 0 >served 2>/dev/full &
    server=$!
    : >log
    await 'the banner' is_serving
    url=$(sed -n 's/^ *Anthropic \(http.*\)/\1/p' served)
    run curl -sS "$url/metrics"
    grep -qE '^hearth_log_dropped_total [1-9]' "$scratch/out" || fail "$(grep log_dropped "$scratch/out")"
    stop
}

test_a_port_in_use() {
    make_model
    start
    run "$HEARTH" serve m.gguf --port "${url##*:}" -t 1 --ssd-dir none --state-dir "$PWD/other"
    expect_status 1
    expect_err 'choose another --port'
    stop
}

test_what_is_missing_is_said() {
    run "$HEARTH" serve
    expect_status 2
    expect_err 'no model given'
    run "$HEARTH" serve nowhere.gguf --port 0 --ssd-dir none --state-dir "$PWD/state"
    expect_status 1
    expect_err 'nowhere.gguf'
    expect_err "download a model with 'hearth pull'"
    make_model
    run "$HEARTH" serve m.gguf -m m.gguf
    expect_status 2
    run "$HEARTH" serve m.gguf --port 0 --ssd-dir none --chat-template-file none.jinja --state-dir "$PWD/state"
    expect_status 1
    expect_err 'none.jinja'
    for option in keep-volatile normalize; do
        run "$HEARTH" serve m.gguf --port 0 --$option everything
        expect_status 2
        expect_err "$option everything: unknown rule"
    done
}

# It serves all the same, and says why nothing is stored, and what to do.
test_a_failed_start_is_said_once() {
    echo 'no model at all' >m.gguf
    run "$HEARTH" serve m.gguf --port 0 --state-dir state --ssd-dir none
    expect_status 1
    expect_err 'hearth serve: m.gguf has only 16 bytes: it is not a model'
    [ "$(grep -c 'it is not a model' "$scratch/err")" = 1 ] || fail 'it is said twice'
}

test_a_full_disk() {
    make_model
    start --ssd-dir "$PWD/ssd" --ssd-free 100TiB
    ask /v1/chat/completions "$chat"
    [ "$code" = 200 ] || fail "it does not serve: $code"
    stop
    grep -q "the SSD cache's disk is full, nothing new is stored: free some space, lower --ssd-free, or choose another --ssd-dir" log ||
        fail "not said: $(cat log)"
    [ -z "$(find ssd -name '*.hobj')" ] || fail 'stored all the same'
    start --ssd-dir "$PWD/ssd" --ssd-free 1MiB
    stop
    grep -q 'is full' log && fail 'said without need'
    return 0
}

# The limits of the disk and of snapshots are not only shown: each of them reaches the cache.
test_limits_reach_the_cache() {
    local long
    long=$(printf 'word%04d ' $(seq 60))
    long="{\"messages\":[{\"role\":\"user\",\"content\":\"$long\"}],\"max_tokens\":1}"
    make_model
    start --ssd-dir "$PWD/none" --ssd-free 1MiB --ssd-writes-per-day 1KiB
    ask /v1/chat/completions "$long"
    [ "$code" = 200 ] || fail "$code: $(cat body)"
    stop
    [ -z "$(find none -name '*.hobj')" ] || fail 'more was written than a day allows'
    start --ssd-dir "$PWD/some" --ssd-free 1MiB
    ask /v1/chat/completions "$long"
    stop
    [ -n "$(find some -name '*.hobj')" ] || fail 'nothing was written without a limit'
    "$HEARTH" model make -f qwen35 --layers 4 --width 64 --out m.gguf >/dev/null 2>&1 || fail 'no model'
    for limit in 64MiB 1KiB; do
        start --ssd-dir none --snapshots "$limit"
        for i in 1 2 3; do ask /v1/chat/completions "${long/word0001/new$i}"; done
        curl -s "$url/admin/cache/objects?tier=ram&limit=1000" | tr '{' '\n' | grep -c '"kind":"snapshot"' >"held.$limit" || true
        stop
    done
    [ "$(cat held.1KiB)" -lt "$(cat held.64MiB)" ] || fail "as many snapshots with 1 KiB: $(cat held.*)"
}

# Each option of the table is read by the code that starts the server: none is parsed and forgotten.
test_every_option_is_read() {
    local field
    sed -n '/^static const struct option_desc options_table/,/^};/p' "$top/src/cli/serve.c" | grep -o 'AT([a-z_]*)' | sed 's/AT(//; s/)//' | sort -u >fields
    [ "$(wc -l <fields)" -gt 60 ] || fail 'hardly any option was found'
    while read -r field; do
        grep -qE "(options|own)(->|\.)$field\b|\b(SAMPLE|LIMIT)\($field" "$top"/src/cli/serve*.c || echo "$field"
    done <fields >forgotten
    [ ! -s forgotten ] || fail "no code reads: $(tr '\n' ' ' <forgotten)"
}

# The key stays with its owner and stays the same.
test_the_key_of_the_installation() {
    make_model
    start
    stop
    [ "$(stat -c '%a %s' state/key)" = '600 32' ] || fail "$(ls -l state)"
    cp state/key before
    start
    stop
    cmp -s state/key before || fail 'another key'
}

# An answer in progress is finished before the server ends.
test_drains() {
    make_model
    start
    curl -sSN "$url/v1/completions" -d '{"prompt": "a", "max_tokens": 1500, "ignore_eos": true, "stream": true}' >stream &
    client=$!
    await 'the first token' test -s stream
    stop
    wait "$client" || fail 'the stream was broken off'
    grep -q '^data: \[DONE\]' stream || fail 'the stream has no end'
    grep -q '"finish_reason":"length"' stream || fail 'it was cut short'
}

test_no_cache() {
    make_model
    start --no-cache
    ask /v1/chat/completions "$chat"
    ask /v1/chat/completions "$chat"
    grep -q '"cached_tokens":0' body || fail "$(cat body)"
    grep -q 'cache *off' served || fail "$(cat served)"
    stop
}

# What keeps a request out of the batch is named.
test_i25_the_route_has_a_reason() {
    make_model qwen35
    start --exact
    ask /v1/chat/completions "$chat"
    stop
    grep -q '\[route\] 1 model=m route=single reason=exact kinds=full+recurrent' log || fail "$(cat log)"
}

# Exact, warm and without a cache: the same text.
test_exact_is_the_same_text() {
    for family in qwen3 qwen35; do
        make_model "$family"
        prompt=$(head -c 600 /dev/zero | tr '\0' 'x')
        body="{\"prompt\": \"Once $prompt upon a time\", \"max_tokens\": 24, \"temperature\": 0, \"ignore_eos\": true}"
        start --exact --no-cache
        ask /v1/completions "$body"
        sed 's/.*"text":"\([^"]*\)".*/\1/' body >cold
        stop
        start --exact
        for _ in 1 2 3; do
            ask /v1/completions "$body"
            sed 's/.*"text":"\([^"]*\)".*/\1/' body >warm
            cmp -s cold warm || fail "$family: $(cat cold) / $(cat warm)"
        done
        grep -qE '"ram":[1-9]' body || fail "nothing was reused: $(cat body)"
        stop
    done
}

text_of() { sed 's/.*"text":"\([^"]*\)".*/\1/' body; }

long_prompt() { # SEED: 900 tokens or so
    awk -v seed="$1" 'BEGIN { srand(seed); for (i = 0; i < 900; i++) printf "%c", 97 + int(rand() * 26) }'
}

# Fill, end, start: the text is that of a cold run, and its beginning came from disk. Then the same after kill -9.
restart() { # FAMILY
    make_model "$1"
    body_of="{\"prompt\": \"$(long_prompt 7)\", \"max_tokens\": 16, \"temperature\": 0, \"ignore_eos\": true}"
    start --exact --no-cache
    ask /v1/completions "$body_of"
    text_of >cold
    stop
    start --exact --ssd-dir "$PWD/ssd" --ssd-free 1MiB
    ask /v1/completions "$body_of"
    grep -q '"ssd":0' body || fail "not cold: $(cat body)"
    stop
    start --exact --ssd-dir "$PWD/ssd" --ssd-free 1MiB
    ask /v1/completions "$body_of"
    text_of >warm
    cmp -s cold warm || fail "$1: $(cat cold) / $(cat warm)"
    grep -qE '"ssd":[1-9]' body || fail "$1: nothing from disk: $(cat body; cat log)"
    grep -qE '\[cache\] 1 (hit|partial) .*tier=ssd' log || fail "$1: no hit from disk: $(cat log)"
    kill -9 "$server"
    wait "$server" 2>/dev/null
    start --exact --ssd-dir "$PWD/ssd" --ssd-free 1MiB
    ask /v1/completions "$body_of"
    text_of >warm
    cmp -s cold warm || fail "$1 after a kill: $(cat cold) / $(cat warm)"
    grep -qE '"ssd":[1-9]' body || fail "$1: nothing from disk after a kill: $(cat body)"
    stop
}

test_i107_restart_dense() { restart qwen3; }
test_i107_restart_sliding() { restart gemma3; }
test_i107_restart_hybrid() { restart qwen35; }

# With --ssd-encrypt: the same, and no file of the folders has a word, a token or a key in the clear.
test_encrypted_restart() {
    make_model qwen35
    head -c 32 /dev/urandom >keyfile && chmod 600 keyfile
    secret='Please keep this phrase for yourself'
    turn="{\"messages\": [{\"role\": \"user\", \"content\": \"$secret $(long_prompt 3)\"}], \"max_tokens\": 8, \"temperature\": 0}"
    body_of="{\"prompt\": \"$secret $(long_prompt 7)\", \"max_tokens\": 16, \"temperature\": 0, \"ignore_eos\": true}"
    start --exact --no-cache
    ask /v1/completions "$body_of"
    text_of >cold
    stop
    for round in 1 2; do
        start --exact --ssd-dir "$PWD/ssd" --ssd-free 1MiB --ssd-encrypt "$PWD/keyfile"
        grep -q 'ssd, encrypted' served || fail "not in the banner: $(cat served)"
        ask /v1/completions "$body_of"
        text_of >warm
        cmp -s cold warm || fail "$round: $(cat cold) / $(cat warm)"
        [ "$round" = 1 ] || grep -qE '"ssd":[1-9]' body || fail "nothing from disk: $(cat body; cat log)"
        ask /v1/chat/completions "$turn"
        # A stored response is continued after the restart.
        previous=$([ "$round" = 1 ] || echo ", \"previous_response_id\": \"$id\"")
        ask /v1/responses "{\"input\": \"$secret\", \"max_output_tokens\": 4$previous}"
        id=$(grep -o 'resp_[0-9a-f]*' body | head -n 1)
        stop
        [ -n "$(ls state/responses)" ] || fail 'no response was stored'
        [ -s state/replay.turns ] || fail 'no turns were kept'
        [ "$(head -c 8 state/replay.turns)" = HEARTHRS ] || fail 'turns lie in the clear'
        [ ! -e state/key ] || fail 'a key lies beside what it names'
        ! grep -raqF "$secret" ssd state || fail 'a prompt can be read'
        ! grep -raqF '<|im_start|>' ssd state || fail 'a prompt can be read'
    done
    object=$(find ssd -name '*.hobj' | head -n 1)
    run "$HEARTH" cache dump --encrypt-key keyfile "$object"
    expect_status 0
    expect_out 'object is     ok'
    run "$HEARTH" cache dump "$object"
    expect_out 'sealed'
    # Another key, then none: nothing is found, nothing fails, nothing is touched.
    find ssd -name '*.hobj' | sort >before
    head -c 32 /dev/urandom >other && chmod 600 other
    for key in "--ssd-encrypt $PWD/other" ''; do
        # shellcheck disable=SC2086 # two words or none
        start --exact --ssd-dir "$PWD/ssd" --ssd-free 1MiB $key
        ask /v1/completions "$body_of"
        text_of >warm
        cmp -s cold warm || fail "with another key: $(cat warm)"
        grep -q '"ssd":0' body || fail "found with another key: $(cat body)"
        stop
        find ssd -name '*.hobj' | sort | comm -23 before - >gone
        [ ! -s gone ] || fail "gone: $(cat gone)"
    done
}

test_a_key_file_for_all_is_refused() {
    make_model
    head -c 32 /dev/urandom >keyfile && chmod 644 keyfile
    for more in '' --no-cache; do
        # shellcheck disable=SC2086
        run "$HEARTH" serve m.gguf --port 0 --ssd-dir "$PWD/ssd" --state-dir "$PWD/state" --ssd-encrypt keyfile $more
        expect_status 1
        expect_err '--ssd-encrypt: keyfile has mode 0644'
    done
    [ ! -e ssd ] || fail 'the folder was made'
    printf 'short' >keyfile && chmod 600 keyfile
    run "$HEARTH" serve m.gguf --port 0 --ssd-dir "$PWD/ssd" --state-dir "$PWD/state" --ssd-encrypt keyfile
    expect_status 1
    expect_err '64 hex digits'
    run "$HEARTH" serve m.gguf --port 0 --ssd-dir "$PWD/ssd" --state-dir "$PWD/state" --ssd-encrypt nowhere
    expect_status 1
    expect_err nowhere
}

test_a_folder_in_use() {
    make_model
    start --ssd-dir "$PWD/ssd" --ssd-free 1MiB
    run "$HEARTH" serve m.gguf --port 0 -t 1 --ssd-dir "$PWD/ssd" --state-dir "$PWD/state"
    expect_status 1
    expect_err "--ssd-dir: SSD directory $PWD/ssd"
    stop
}

# The ceiling that was set is the ceiling (I70); levels and limits are shown.
# --tails reaches the cache; 0 is a share of the RAM tier, none disables tails.
test_i40_tails_are_limited() {
    local wanted
    make_model
    for wanted in '2MiB 2097152' '0 8388608' 'none 0'; do
        start --tails "${wanted% *}"
        ask /v1/completions '{"prompt":"Once upon a time","max_tokens":4}'
        run curl -sS "$url/metrics"
        grep -qE "^hearth_model_cache_tails_max_bytes\{.*\} ${wanted#* }\$" "$scratch/out" || fail "$wanted: $(grep tail "$scratch/out")"
        stop
    done
    grep -qE '^hearth_cache_tails 0$' "$scratch/out" || fail "$(grep tail "$scratch/out")"
}

test_i70_a_ceiling() {
    make_model
    start --max-memory 1GiB
    run curl -sS "$url/props"
    expect_out '"ceiling_bytes":1073741824'
    expect_out '"level":"ok"'
    run curl -sS "$url/metrics"
    expect_out 'hearth_memory_ceiling_bytes 1073741824'
    expect_out 'hearth_memory_level{level="ok"} 1'
    ask /v1/chat/completions "$chat"
    [ "$code" = 200 ] || fail "under a ceiling: $code"
    stop
    grep -q 'ceiling.*1073741824' log || fail "no ceiling in the log: $(cat log)"
    run "$HEARTH" serve m.gguf --port 0 -t 1 -c 23552 --ram-cache 8MiB --ssd-dir none --state-dir "$PWD/state" --max-memory 12MiB
    expect_status 1
    expect_err 'for its context'
    expect_err 'the ceiling is 12.0 MiB'
}

# A ceiling 8 MiB above what the server takes with its model. The records of a prompt that fills the context have twice as much, and each
# route says so with figures that add up. A short prompt is answered.
test_i72_a_prompt_that_does_not_fit_into_memory() {
    local tight=(m.gguf -c 262144 -np 1 --ram-cache 16MiB --no-warmup)
    "$HEARTH" model make --family qwen3 --layers 1 --width 64 --kv-heads 1 --head-dim 32 --ctx 262144 --out m.gguf >/dev/null 2>&1 || fail 'no model'
    serve "${tight[@]}" --max-memory 4GiB
    idle=$(curl -sS "$url/props" | sed -n 's/.*"fixed_bytes":\([0-9]*\),"program_bytes":\([0-9]*\),.*/\1 + \2/p')
    stop
    serve "${tight[@]}" --max-memory $((idle + (9 << 20))) # one is the floor of the RAM tier
    long=$(head -c 500000 /dev/zero | tr '\0' ' ' | sed 's/  / a/g')
    for route in 'chat/completions "messages":[{"role":"user","content":"TEXT"}]' 'completions "prompt":"TEXT"' \
        'responses "input":"TEXT"' 'messages "messages":[{"role":"user","content":"TEXT"}]'; do
        for stream in true false; do
            json="{\"model\":\"m\",\"max_tokens\":4,\"stream\":$stream,${route#* }}"
            printf '%s' "${json/TEXT/$long}" >json
            ask "/v1/${route%% *}" @json
            [ "$code" = 413 ] || fail "$route: $code $(head -c 500 body)"
            grep -q '"request_too_large"' body || fail "$(cat body)"
            adds_up <body || fail "$(cat body)"
        done
    done
    run curl -sS "$url/metrics"
    expect_out 'hearth_memory_refused_total 8'
    if [[ $HEARTH == */release/hearth ]]; then # sanitizers keep freed memory
        ask /v1/chat/completions "$chat"
        [ "$code" = 200 ] || fail "a short prompt: $code $(cat body)"
    fi
    stop
}

# The sum of a refusal is that of its parts but for the rounding of each, and above its ceiling.
adds_up() {
    sed 's/.*needs about/needs about/' | grep -oE '[0-9.]+ (B|KiB|MiB|GiB)' |
        awk '{ f = $2 == "B" ? 1 / 1048576 : $2 == "KiB" ? 1 / 1024 : $2 == "GiB" ? 1024 : 1; n[NR] = $1 * f }
             END { sum = n[1] + n[2] + n[3] + n[4] + n[5]; exit !(NR == 7 && sum - n[6] < 0.4 && n[6] - sum < 0.4 && n[6] > n[7]) }'
}

test_shares_of_tenants() {
    make_model
    start --api-key anna:a --api-key bert:b --tenant-share anna=8MiB
    run curl -sS -o body -w '%{http_code}' "$url/v1/chat/completions" -H 'Authorization: Bearer a' -d "$chat"
    expect_out 200
    stop
    for share in anna anna=much =1MiB; do
        run "$HEARTH" serve m.gguf --port 0 --ram-cache 32MiB --ssd-dir none --state-dir "$PWD/state" --tenant-share "$share"
        expect_status 2
        expect_err 'expected TENANT=SIZE'
    done
    run "$HEARTH" serve m.gguf --port 0 --ram-cache 32MiB --ssd-dir none --state-dir "$PWD/state" --tenant-share anna=17MiB
    expect_status 2
    expect_err 'must not exceed half'
    start --api-key anna:a --api-key bert:b --ssd-dir "$PWD/ssd" --ssd-max 64MiB --tenant-ssd-share anna=32MiB
    run curl -sS -o body -w '%{http_code}' "$url/v1/chat/completions" -H 'Authorization: Bearer b' -d "$chat"
    expect_out 200
    stop
    run "$HEARTH" serve m.gguf --port 0 --ssd-dir "$PWD/ssd" --ssd-max 64MiB --state-dir "$PWD/state" --tenant-ssd-share anna=33MiB
    expect_status 2
    expect_err 'must not exceed half of --ssd-max'
    run "$HEARTH" serve m.gguf --port 0 --ssd-dir "$PWD/ssd" --state-dir "$PWD/state" --tenant-ssd-share anna
    expect_status 2
    expect_err 'tenant-ssd-share anna: expected TENANT=SIZE'
}

is_saved() { curl -sS "$url/metrics" | grep -q '^hearth_sched_unsaved 0'; }

# The process of the model is killed: a request that was under way gets its dialect's error, the next one an answer from the cache.
test_isolate_survives_its_model() {
    make_model
    start --isolate
    ask /v1/chat/completions "$chat"
    [ "$code" = 200 ] || fail "$code: $(cat body)"
    await 'the time to store its state' is_saved
    curl -sS -o late -w '%{http_code}' "$url/v1/messages" -H 'Content-Type: application/json' \
        -d '{"max_tokens": 1900, "messages": [{"role": "user", "content": "And now a long one."}]}' >late_code &
    client=$!
    await 'the second request' grep -q '\[route\] 2 ' log
    kill -9 "$(pgrep -P "$server")"
    wait "$client"
    if [ "$(cat late_code)" != 200 ]; then # it may have been done before
        [ "$(cat late_code)" = 529 ] || fail "$(cat late_code): $(cat late)"
        grep -q '"type":"error"' late || fail "not Anthropic's error: $(cat late)"
        grep -q 'the process of model m died' late || fail "it does not say why: $(cat late)"
    fi
    ask /v1/chat/completions "$chat"
    [ "$code" = 200 ] || fail "$code: $(cat body)"
    grep -q '"ram":0,' body && fail "not from the cache: $(cat body)"
    stop
    grep -q "an engine's process is dead" log || fail "no line: $(cat log)"
    grep -q 'an engine has a new process' log || fail "no line: $(cat log)"
}

suite_main "$@"

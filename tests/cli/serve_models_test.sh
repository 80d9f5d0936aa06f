#!/usr/bin/env bash
# `hearth serve` with several models, as a user meets it: names, presets, loading on demand, and a cache that outlives an unload.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/serve.sh
. "$(dirname "$0")/../support/serve.sh"

unset HEARTH_API_KEYS LLAMA_CACHE HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_HOME OLLAMA_MODELS
export HOME=/dev/null/nowhere

start() { serve -c 2048 --parallel 2 "$@"; } # options

ask() { # PATH JSON
    run curl -sS -o body -w '%{http_code}' "$url$1" -H 'Content-Type: application/json' -d "$2"
    expect_status 0
    code=$(cat "$scratch/out")
}

get() { # PATH
    run curl -sS "$url$1"
    expect_status 0
}

long_prompt() { awk -v seed="$1" 'BEGIN { srand(seed); for (i = 0; i < 900; i++) printf "%c", 97 + int(rand() * 26) }'; }

body_for() { # MODEL
    echo "{\"model\": \"$1\", \"prompt\": \"$(long_prompt 7)\", \"max_tokens\": 8, \"temperature\": 0, \"ignore_eos\": true}"
}

text_of() { sed 's/.*"text":"\([^"]*\)".*/\1/' body; }

state_of() { # MODEL
    get "/v1/models/$1"
    sed 's/.*"state":"\([a-z]*\)".*/\1/' "$scratch/out"
}

is_known() { [ "$(state_of "$1")" = known ]; } # MODEL

# A, B, A again after A had to leave for B: its prompt is in the cache, and the text is the same.
come_back() { # FAMILY_A FAMILY_B
    make_model "$1" a.gguf
    make_model "$2" b.gguf
    start -m a.gguf -m second=b.gguf --models-max 1
    grep -q 'serves 2 models' served || fail "$(cat served)"
    [ "$(state_of a)" = known ] || fail "$(state_of a)"
    ask /v1/completions "$(body_for a)"
    [ "$code" = 200 ] || fail "$code: $(cat body)"
    grep -qE '"ram":0[,}]' body || fail "not cold: $(cat body)"
    text_of >cold
    ask /v1/completions "$(body_for second)"
    grep -q '"model":"second"' body || fail "$(cat body)"
    grep -qE '"ram":0[,}]' body || fail "it found blocks of the other model: $(cat body)"
    [ "$(state_of a)" = known ] || fail "a is $(state_of a)"
    [ "$(state_of second)" = ready ] || fail "second is $(state_of second)"
    ask /v1/completions "$(body_for a)"
    grep -qE '"ram":[1-9]' body || fail "nothing from the cache: $(cat body log)"
    text_of >warm
    cmp -s cold warm || fail "$(cat cold) / $(cat warm)"
    get /metrics
    expect_out 'hearth_sched_submitted_total 3'
    stop
}

test_a_model_comes_back_to_its_blocks() { come_back qwen3 gemma3; }
test_a_hybrid_comes_back_to_its_blocks() { come_back qwen35 qwen3; }

test_a_folder_and_its_presets() {
    mkdir -p models/sub
    make_model qwen3 models/one.gguf
    make_model qwen3 models/sub/other-name.gguf
    cat >h.ini <<INI
[serve]
strict-model = on

[model sub]
ctx-size = 512
pin-model = on
INI
    start --models-dir models --config h.ini
    [ "$(state_of sub)" = ready ] || fail "it was to be loaded at start: $(state_of sub)"
    [ "$(state_of one)" = known ] || fail "$(state_of one)"
    get /v1/models/sub
    expect_out '"context_length":512'
    expect_out '"pinned":true'
    ask /v1/completions "$(body_for one)"
    [ "$code" = 200 ] || fail "$code: $(cat body)"
    get /v1/models/one
    expect_out '"context_length":2048'
    ask /v1/completions "$(body_for three)"
    [ "$code" = 404 ] || fail "$code: $(cat body)"
    ask /v1/models/one/unload ''
    await 'the unload' is_known one
    stop
}

# A file that is replaced under the server is loaded anew (I83).
test_i83_a_file_is_replaced() {
    make_model qwen3 a.gguf
    start -m a.gguf
    ask /v1/completions "$(body_for a)"
    text_of >before
    "$HEARTH" model make --family qwen3 --layers 2 --width 64 --seed 77 --out new.gguf >/dev/null 2>&1 || fail 'no model'
    mv new.gguf a.gguf
    ask /v1/completions "$(body_for a)"
    [ "$code" = 200 ] || fail "$code: $(cat body)"
    grep -qE '"ram":0[,}]' body || fail "blocks of other weights: $(cat body)"
    text_of >after
    ! cmp -s before after || fail 'the old one answered'
    grep -q 'the file has changed' log || fail "$(cat log)"
    stop
}

test_names_of_caches() {
    mkdir -p cache/huggingface/hub/models--Some--Tiny-GGUF/refs cache/huggingface/hub/models--Some--Tiny-GGUF/snapshots/abc1
    make_model qwen3 cache/huggingface/hub/models--Some--Tiny-GGUF/snapshots/abc1/Tiny-Q8_0.gguf
    printf abc1 >cache/huggingface/hub/models--Some--Tiny-GGUF/refs/main
    start -m tiny=some/tiny-gguf:q8_0 --warmup
    ask /v1/completions "$(body_for tiny)"
    grep -q '"model":"tiny"' body || fail "$(cat body)"
    stop
    # Several names, as in llama-server; the first one is shown.
    serve some/tiny-gguf:q8_0 -c 4096 --alias tiny,second --strict-model
    ask /v1/completions "$(body_for second)"
    grep -q '"model":"tiny"' body || fail "$(cat body)"
    run curl -s "$url/v1/models"
    expect_out '"id":"tiny"'
    expect_out '"aliases":["second"]'
    stop
}

test_a_model_alone_gets_the_context_that_fits() {
    "$HEARTH" model make --family qwen3 --layers 2 --width 64 --ctx 200000 --out long.gguf >/dev/null 2>&1 || fail 'no model'
    serve long.gguf # its metadata have another name
    run curl -s "$url/v1/models"
    expect_out '"id":"long"'
    grep -q ' 131072 tokens of context' served || fail "$(grep context served)"
    stop
    if [[ $HEARTH == */release/hearth ]]; then # sanitizers take memory of the limit
        # 1 KiB per token: the limit leaves some megabytes, half of them for the context.
        serve long.gguf --max-memory 400MiB --ram-cache 280MiB
        tokens=$(sed -n 's/.* \([0-9]*\) tokens of context.*/\1/p' served)
        [ "$tokens" -gt 32768 ] && [ "$tokens" -lt 131072 ] || fail "$tokens tokens"
        stop
    fi
    serve long.gguf -c 2048
    grep -q ' 2048 tokens of context' served || fail "$(grep context served)"
    stop
}

test_what_is_wrong_is_said() {
    make_model qwen3 a.gguf
    run "$HEARTH" serve -m a.gguf -m a.gguf --port 0
    expect_status 2
    expect_err "two models have the name 'a'"
    run "$HEARTH" serve -m a.gguf -m x=nowhere.gguf --port 0
    expect_status 1
    expect_err nowhere.gguf
    run "$HEARTH" serve a.gguf --pin-model b --port 0
    expect_status 2
    expect_err '--pin-model b'
    run "$HEARTH" serve --models-dir nowhere --port 0
    expect_status 1
    expect_err nowhere
    mkdir empty
    run "$HEARTH" serve --models-dir empty --port 0
    expect_status 1
    expect_err 'no GGUF'
    printf '[model a]\nctx-sise = 5\n' >h.ini
    run "$HEARTH" serve a.gguf --config h.ini --port 0
    expect_status 2
    expect_err 'did you mean "ctx-size"?'
    # Other commands read the same file.
    run "$HEARTH" doctor --config h.ini
    expect_status 0
}

suite_main "$@"

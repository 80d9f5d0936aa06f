#!/usr/bin/env bash
# `hearth launch`: what a client is started with, and what is said when it cannot be. The clients here are scripts of the same names that show
# their arguments and variables.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/serve.sh
. "$(dirname "$0")/../support/serve.sh"

clients='claude codex opencode pi aider qwen goose open-webui env'

client() { # NAME: puts it into PATH
    mkdir -p bin
    printf '#!/bin/sh\nfor arg; do printf "arg: %%s\\n" "$arg"; done\nenv\nexit 7\n' >"bin/$1"
    chmod +x "bin/$1"
    PATH=$PWD/bin:$PATH
}

test_claude_is_started() {
    make_model
    start
    client claude
    export ANTHROPIC_API_KEY=elsewhere ANTHROPIC_BASE_URL=http://elsewhere
    run "$HEARTH" launch claude --force -- --continue 'two words'
    expect_status 7 # its own
    expect_out 'arg: --continue'
    expect_out 'arg: two words'
    grep -qx "ANTHROPIC_BASE_URL=$url" "$scratch/out" || fail 'another server'
    grep -qx 'ANTHROPIC_AUTH_TOKEN=none' "$scratch/out" || fail 'no token'
    grep -qx 'ANTHROPIC_MODEL=m' "$scratch/out" || fail 'no model'
    grep -qx 'CLAUDE_CODE_MAX_CONTEXT_TOKENS=4096' "$scratch/out" || fail 'no context'
    grep -qx 'CLAUDE_STREAM_IDLE_TIMEOUT_MS=3000000' "$scratch/out" || fail 'it hangs up after five minutes'
    grep -q '^ANTHROPIC_API_KEY' "$scratch/out" && fail 'the key of another service is still there'
    stop
}

# The lines do in a shell what the launch does.
test_printed_lines_start_it() {
    make_model
    start --api-key "it's-secret"
    export HEARTH_API_KEY="it's-secret"
    client opencode
    client codex
    run "$HEARTH" launch opencode --print
    expect_status 0
    grep -q 'secret' "$scratch/out" && fail 'the key was shown'
    cp "$scratch/out" lines
    run "$HEARTH" launch opencode --force
    grep '^OPENCODE_CONFIG_CONTENT=' "$scratch/out" >launched || fail 'no configuration'
    grep -qF "\"apiKey\":\"it's-secret\"" launched || fail 'no key'
    run bash lines
    grep '^OPENCODE_CONFIG_CONTENT=' "$scratch/out" >pasted
    cmp -s launched pasted || fail "not the same: $(cat launched pasted)"
    run "$HEARTH" launch codex --print -- exec 'a b'
    cp "$scratch/out" lines
    run bash lines
    grep '^arg: ' "$scratch/out" >pasted
    run "$HEARTH" launch codex --force -- exec 'a b'
    grep '^arg: ' "$scratch/out" >launched
    cmp -s launched pasted || fail "not the same: $(cat launched pasted)"
    grep -qx "arg: model_providers.hearth.base_url=\"$url/v1\"" launched || fail 'another server'
    stop
}

# goose by itself asks a new user for a provider; its session does not.
test_goose_starts_a_session() {
    make_model
    start
    client goose
    run "$HEARTH" launch goose --force
    expect_out 'arg: session'
    grep -qx "OPENAI_HOST=$url" "$scratch/out" || fail 'another server'
    grep -qx 'GOOSE_CONTEXT_LIMIT=4096' "$scratch/out" || fail 'no context'
    run "$HEARTH" launch goose --print
    grep -qx 'goose session' "$scratch/out" || fail 'no session'
    run "$HEARTH" launch goose --force -- run -t hello
    grep '^arg: ' "$scratch/out" | tr '\n' ' ' >launched
    [ "$(cat launched)" = 'arg: run arg: -t arg: hello ' ] || fail "started with $(cat launched)"
    stop
}

# Nothing of the user's is written.
test_files_of_the_user_are_left_alone() {
    make_model
    start
    export HOME=$PWD/home
    mkdir home
    for name in $clients; do
        [ "$name" = env ] || client "$name"
        run "$HEARTH" launch "$name" --print
        expect_status 0
        grep -q "$url" "$scratch/out" || fail "$name: no address"
        grep -qE '\{(url|v1|key|model|context|output)' "$scratch/out" && fail "$name: a place was not filled"
        run "$HEARTH" launch "$name"
    done
    [ -z "$(ls -A home)" ] || fail "written: $(find home)"
    stop
}

# Pi takes providers from an extension, which is in our own folder; printed lines make the same file.
test_pi_gets_an_extension() {
    make_model
    start
    client pi
    run "$HEARTH" launch pi -- -p hello
    expect_status 7
    file=$(sed -n '/^arg: --extension/{n;s/^arg: //p;}' "$scratch/out")
    case $file in "$scratch/state/"*) ;; *) fail "the file is $file" ;; esac
    grep -q "baseUrl: '$url/v1'" "$file" || fail 'no address'
    grep -q 'id: "m".*name: "m"' "$file" || fail 'no model'
    mv "$file" launched
    run "$HEARTH" launch pi --print
    cp "$scratch/out" lines
    run bash lines
    expect_status 7
    cmp "$file" launched || fail 'not the same file'
    node --check "$file" 2>/dev/null || ! command -v node >/dev/null || fail 'not a module'
    stop
}

# aider learns the context size from a file, and prefers a base URL that the user has set.
test_aider_gets_the_context() {
    make_model
    start
    client aider
    export OPENAI_BASE_URL=http://elsewhere/v1
    run "$HEARTH" launch aider -- --message hello
    expect_status 7
    expect_out 'arg: openai/m'
    grep -qx "OPENAI_API_BASE=$url/v1" "$scratch/out" || fail 'no address'
    grep -qx "OPENAI_BASE_URL=$url/v1" "$scratch/out" || fail 'another server'
    file=$(sed -n '/^arg: --model-metadata-file/{n;s/^arg: //p;}' "$scratch/out")
    case $file in "$scratch/state/"*) ;; *) fail "the file is $file" ;; esac
    grep -q '"openai/m"' "$file" || fail 'no model'
    grep -q '"max_input_tokens": 4096,' "$file" || fail 'no context'
    stop
}

# 4,096 tokens are too few for Claude Code, with any tokenizer.
test_a_prompt_that_does_not_fit_is_said_before() {
    make_model
    start
    client claude
    client qwen
    run "$HEARTH" launch claude
    expect_status 1
    expect_no_out
    grep -qE "^hearth launch: the first prompt of claude has about [0-9]+,000 tokens with this model, and the context has 4,096: start the server with '-c [0-9]+', or use --force$" \
        "$scratch/err" || fail 'no sentence'
    run "$HEARTH" launch claude --force
    expect_status 7
    enough=$("$HEARTH" launch claude 2>&1 | sed -n "s/.*'-c \([0-9]*\)'.*/\1/p")
    run "$HEARTH" launch claude --print
    expect_status 0
    stop
    serve m.gguf -c "$enough"
    run "$HEARTH" launch claude --force
    [ ! -s "$scratch/err" ] || fail 'estimated'
    run "$HEARTH" launch claude
    expect_status 7
    [ ! -s "$scratch/err" ] || fail 'it says that a short prompt takes long'
    run "$HEARTH" launch qwen-code
    expect_status 7
    stop
}

# A model that needs minutes for such a prompt.
test_a_long_prompt_is_said_before() {
    "$HEARTH" model make -f qwen3-0.6b --layers 6 --width 1024 -o m.gguf >/dev/null 2>&1
    serve m.gguf -c 65536
    client claude
    run "$HEARTH" launch claude
    expect_status 7
    grep -qE '^hearth launch: the first prompt of claude has about [0-9]+,000 tokens \(about ([0-9.]+ s|[0-9]+ min [0-9]+ s) if nothing is cached\)$' \
        "$scratch/err" || fail 'no duration'
    # It left nothing behind.
    "$HEARTH" launch claude >/dev/null 2>&1 || :
    curl -sS -o requests "$url/admin/requests"
    curl -sS -o stats "$url/admin/stats"
    curl -sS -o metrics "$url/metrics"
    grep -q '"recent":\[\]' requests || fail 'a request of its own is shown'
    grep -q '"session":{"requests":0,"prompt_tokens":0' stats || fail 'it counts'
    grep -qx 'hearth_sched_prefill_tokens_total 0' metrics || fail 'it computes'
    [ "$("$HEARTH" cache ls 2>/dev/null | grep -c ram)" = 0 ] || fail 'it stores'
    stop
}

test_what_is_missing_is_said() {
    run "$HEARTH" launch claude --url http://127.0.0.1:1
    expect_status 1
    expect_err "no server at http://127.0.0.1:1 (Connection refused): start one with 'hearth serve MODEL'"
    run "$HEARTH" launch emacs
    expect_status 2
    expect_err 'unknown client "emacs"; known clients: claude, codex, '
    make_model
    start
    mkdir nothing
    run env PATH="$PWD/nothing" "$HEARTH" launch claude
    expect_status 1
    expect_err "claude is not in PATH: install it with 'npm install -g @anthropic-ai/claude-code', or use --print to see its settings"
    run "$HEARTH" launch claude --print -m gpt-9
    expect_status 1
    expect_err "does not serve gpt-9; 'hearth ps' lists its models"
    stop
}

suite_main "$@"

#!/usr/bin/env bash
# `hearth ps`: models and what runs, on a real server.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/serve.sh
. "$(dirname "$0")/../support/serve.sh"

shows_a_request() {
    run "$HEARTH" ps
    expect_status 0
    grep -qE '^req_[0-9a-f]+ +m ' "$scratch/out"
}

test_models_and_requests() {
    make_model
    start
    run "$HEARTH" ps
    expect_status 0
    expect_no_err
    grep -qE '^MODEL +STATE +MEMORY ' "$scratch/out" || fail 'no head'
    grep -qE '^m +ready +[0-9.]+ [KM]iB +- +4096 +- +never ' "$scratch/out" || fail 'no model'
    expect_out 'no request is running'
    (while curl -sSN "$url/v1/completions" -d '{"prompt": "a", "max_tokens": 3000, "ignore_eos": true, "stream": true}'; do :; done) >stream 2>&1 &
    client=$!
    await 'a request' shows_a_request # between two of them there is none
    run "$HEARTH" ps --json
    grep -q '"models":\[{.*"requests":\[' "$scratch/out" || fail 'no JSON'
    kill "$client"
    wait "$client" 2>/dev/null
    stop
}

test_without_a_server() {
    run "$HEARTH" ps --url http://127.0.0.1:1
    expect_status 1
    expect_no_out
    expect_err 'no server at'
    run "$HEARTH" ps now
    expect_status 2
}

suite_main "$@"

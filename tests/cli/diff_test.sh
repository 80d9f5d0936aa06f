#!/usr/bin/env bash
# `hearth diff`: the first difference between two requests. The exit status is that of diff(1).
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/serve.sh
. "$(dirname "$0")/../support/serve.sh"

diff_() { run "$HEARTH" diff -m m.gguf "$@"; }

chat() { # SYSTEM USER
    printf '{"messages": [{"role": "system", "content": "%s"}, {"role": "user", "content": "%s"}]}' "$1" "$2"
}

test_the_same() {
    make_model
    chat kind hello >a.json
    chat kind hello >b.json
    diff_ a.json b.json
    expect_status 0
    expect_no_complaint
    grep -qE '^the same [0-9]+ tokens$' "$scratch/out" || fail 'not said'
    printf '{"model": "x", "temperature": 0.1, "max_tokens": 3, %s' "$(chat kind hello | cut -c2-)" >b.json
    diff_ a.json b.json # sampling is not part of the prompt
    expect_status 0
}

test_the_place_of_a_difference() {
    make_model
    chat kind 'the weather in Paris' >a.json
    chat kind 'the weather in Rome' >b.json
    diff_ a.json b.json
    expect_status 1
    grep -qE '^[0-9]+ tokens are the same, of [0-9]+ and [0-9]+; first difference in user\[1\] \(content\)$' "$scratch/out" || fail 'no place'
    grep -qE '^  before  ".*the weather in' "$scratch/out" || fail 'no text before'
    grep -qE '^  A       ".*Paris' "$scratch/out" || fail 'no A'
    grep -qE '^  B       ".*Rome' "$scratch/out" || fail 'no B'
    chat unkind 'the weather in Paris' >b.json
    diff_ a.json b.json
    expect_status 1
    expect_out 'first difference in system[0] (content)'
    diff_ --json a.json b.json
    expect_status 1
    expect_out '"same":false'
    expect_out '"message":"system[0]","field":"content"'
}

# Agents' prompts: nothing is computed, so no context has to hold them.
test_long_requests() {
    make_model
    words=$(printf 'word%d and a few more words. ' {1..400})
    chat "$words" Paris >a.json
    chat "$words" Rome >b.json
    diff_ --json a.json b.json
    expect_status 1
    expect_out '"message":"user[1]","field":"content"'
    [ "$(field first_difference)" -gt 2000 ] || fail 'too short for the test'
}

# One more message: all of the first is the same, up to the opening of the answer.
test_a_longer_one() {
    make_model
    chat kind hello >a.json
    printf '{"messages": [{"role": "system", "content": "kind"}, {"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "bye"}]}' >b.json
    diff_ --json a.json b.json
    expect_status 1
    same=$(field first_difference)
    total=$(sed -n 's/.*"tokens":\[\([0-9]*\),.*/\1/p' "$scratch/out")
    [ "$same" -ge $((total - 8)) ] || fail "$same of $total"
}

test_tools() {
    make_model
    tool='{"type": "function", "function": {"name": "NAME", "description": "d", "parameters": {"type": "object", "properties": {}}}}'
    printf '{"tools": [%s], %s' "${tool/NAME/look}" "$(chat kind hello | cut -c2-)" >a.json
    printf '{"tools": [%s], %s' "${tool/NAME/seek}" "$(chat kind hello | cut -c2-)" >b.json
    diff_ a.json b.json
    expect_status 1
    expect_out '(tools)'
}

# The same conversation in three dialects has the same tokens.
test_dialects() {
    make_model
    chat kind hello >chat.json
    printf '{"model": "m", "max_tokens": 9, "system": "kind", "messages": [{"role": "user", "content": "hello"}]}' >messages.json
    printf '{"instructions": "kind", "input": "hello"}' >responses.json
    diff_ chat.json messages.json
    expect_status 0
    diff_ chat.json responses.json
    expect_status 0
    printf 'plain text' >text
    printf '{"prompt": "plain text"}' >prompt.json
    diff_ text prompt.json
    expect_status 0
    diff_ - prompt.json <text
    expect_status 0
}

test_by_a_server() {
    make_model
    start
    chat kind 'the weather in Paris' >a.json
    chat kind 'the weather in Rome' >b.json
    run "$HEARTH" diff a.json a.json
    expect_status 0
    run "$HEARTH" diff --json a.json b.json
    expect_status 1
    there=$(field first_difference)
    expect_out '"message":"user[1]"'
    diff_ --json a.json b.json
    [ "$(field first_difference)" = "$there" ] || fail "there $there, here $(field first_difference)"
    stop
}

test_trouble_is_2() {
    make_model
    chat kind hello >a.json
    diff_ a.json nowhere.json
    expect_status 2
    expect_no_out
    expect_err 'nowhere.json'
    printf '{"messages": 3}' >bad.json
    diff_ a.json bad.json
    expect_status 2
    expect_err "bad.json: 'messages'"
    run "$HEARTH" diff -m nowhere.gguf a.json a.json
    expect_status 2
    expect_err 'nowhere.gguf'
    run "$HEARTH" diff --url http://127.0.0.1:1 a.json a.json
    expect_status 2
    expect_err 'no server at'
    run "$HEARTH" diff a.json
    expect_status 2
}

suite_main "$@"

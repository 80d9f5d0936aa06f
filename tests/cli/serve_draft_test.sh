#!/usr/bin/env bash
# `hearth serve --model-draft`: the answers of a server without it, and draft models that are refused.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/serve.sh
. "$(dirname "$0")/../support/serve.sh"

body() { echo "{\"prompt\": \"$(letters 5 120)\", \"max_tokens\": 24, \"temperature\": 0, \"ignore_eos\": true}"; }

text_of() { sed 's/.*"text":"\([^"]*\)".*/\1/' body; }

test_answers_are_those_without() {
    make_model
    make_model qwen3 d.gguf
    start --drafts off
    run curl -sS -o body "$url/v1/completions" -d "$(body)"
    text_of >plain
    stop
    start -md d.gguf --drafts 4 --draft-max 3 -cd 1024 -ngld 0
    run curl -sS "$url/props"
    expect_out '"draft_model":"qwen3"'
    run curl -sS -o body "$url/v1/completions" -d "$(body)"
    text_of >drafted
    cmp -s plain drafted || fail "$(cat plain) / $(cat drafted)"
    run "$HEARTH" ps --url "$url"
    expect_out 'DRAFT MODEL'
    expect_out ' qwen3 '
    stop
}

refuses() { # SENTENCE options
    local sentence=$1
    shift
    run "$HEARTH" serve m.gguf -c 1024 --port 0 --ssd-dir none --state-dir "$PWD/state" "$@"
    expect_status 1
    expect_err "$sentence"
}

test_draft_models_that_are_refused() {
    make_model
    make_model qwen35 hybrid.gguf
    "$HEARTH" model make --family qwen3 --layers 2 --width 64 --vocab 2048 --out other.gguf >/dev/null 2>&1 || fail 'no model'
    head -c 4000 m.gguf >cut.gguf
    refuses 'model-draft: open none.gguf: No such file' -md none.gguf
    refuses '; both need the same vocabulary' -md other.gguf
    refuses 'has layers of the kinds full+recurrent, whose state cannot be truncated' -md hybrid.gguf
    refuses 'model-draft: ' -md cut.gguf
    refuses 'model-draft cannot be combined with --isolate' -md m.gguf --isolate
    run "$HEARTH" serve m.gguf -md m.gguf --drafts off
    expect_status 2
    expect_err 'would not be used: there are no drafts with --drafts off'
}

suite_main "$@"

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

# ---- stop texts ----

# The text of a streamed answer, as JSON escapes it.
stream() { # PATH BODY
    curl -sS "$url$1" -H 'Content-Type: application/json' -d "$2" >streamed || fail "no answer from $1"
    grep -oE '"(text|content|response)":"([^"\\]|\\.)*"' streamed | sed -E 's/^"[a-z]*":"(.*)"$/\1/' | tr -d '\n'
}

# path | body without a stop text | the same with it, written @
dialects() {
    local chat='"messages":[{"role":"user","content":"hello there"}]' settings='"temperature":0,"stream":true'
    echo "/v1/completions|{\"prompt\":\"hello there\",\"max_tokens\":60,$settings}|{\"prompt\":\"hello there\",\"max_tokens\":60,$settings,\"stop\":[\"@\"]}"
    echo "/v1/chat/completions|{$chat,\"max_tokens\":60,$settings}|{$chat,\"max_tokens\":60,$settings,\"stop\":\"@\"}"
    echo "/v1/messages|{\"model\":\"m\",$chat,\"max_tokens\":60,$settings}|{\"model\":\"m\",$chat,\"max_tokens\":60,$settings,\"stop_sequences\":[\"@\"]}"
    echo "/completion|{\"prompt\":\"hello there\",\"n_predict\":60,$settings}|{\"prompt\":\"hello there\",\"n_predict\":60,$settings,\"stop\":[\"@\"]}"
    for how in "/api/chat|$chat" '/api/generate|"prompt":"hello there"'; do
        echo "${how%%|*}|{\"model\":\"m\",${how#*|},\"options\":{\"temperature\":0,\"num_predict\":60}}|{\"model\":\"m\",${how#*|},\"options\":{\"temperature\":0,\"num_predict\":60,\"stop\":[\"@\"]}}"
    done
}

# Six characters that begin and end inside of words, in the middle of the text and not before.
choose_stop() { # TEXT
    local at part
    for at in $(seq 80 140); do
        part=${1:at:6}
        [[ $part =~ ^[a-zA-Z\ ]{6}$ ]] && [ "$(expr length "${1%%"$part"*}")" = "$at" ] && echo "$part" && return
    done
    fail "no stop text in: $1"
}

# The stop text is inside of a draft: the answer was given before, and all its tokens are guessed.
test_stop_texts_end_drafts() {
    local path whole_body cut_body whole part cut again
    make_model
    start --drafts off
    while IFS='|' read -r path whole_body cut_body; do
        whole=$(stream "$path" "$whole_body")
        part=$(choose_stop "$whole") || fail "$part"
        cut=$(stream "$path" "${cut_body//@/$part}")
        [ "$cut" = "${whole%%"$part"*}" ] || fail "$path, '$part': '$cut' of '$whole'"
        printf '%s|%s|%s|%s\n' "$path" "$whole_body" "${cut_body//@/$part}" "$cut"
    done < <(dialects) >plain
    stop
    start --drafts 8
    while IFS='|' read -r path whole_body cut_body cut; do
        stream "$path" "$whole_body" >/dev/null
        again=$(stream "$path" "$cut_body")
        [ "$again" = "$cut" ] || fail "$path with drafts: '$again', not '$cut'"
        tail -1 log | grep -qE '\| drafts [1-9][0-9]* of ' || fail "$path: no draft: $(tail -1 log)"
    done <plain
    [ "$(wc -l <plain)" = 6 ] || fail "$(cat plain)"
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

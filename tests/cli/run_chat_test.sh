#!/usr/bin/env bash
# `hearth run` as a chat: with a running server and with its own, for one answer, and in a terminal (a pty that script(1) makes).
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/serve.sh
. "$(dirname "$0")/../support/serve.sh"

figures='^[0-9,]* of [0-9,]* prompt tokens reused | ttft [0-9.]* s | [0-9]* tokens, [0-9.]* tok/s'

# The reused and all prompt tokens of the n-th answer in a file.
tokens_of() { # FILE N
    tr -d '\r,' <"$1" | grep -a -o '[0-9]* of [0-9]* prompt tokens' | sed -n "$2s/ of / /p" | cut -d ' ' -f 1,2
}

no_server() { export HEARTH_URL=http://127.0.0.1:1 TMPDIR=$PWD; }

test_one_answer_with_a_server_of_its_own() {
    make_model
    no_server
    run "$HEARTH" run -t 1 -c 2048 -n 6 --temp 0 --ignore-eos m.gguf 'The fire'
    expect_status 0
    grep -q "$figures" "$scratch/err" || fail 'no figures'
    expect_err '| 6 tokens, '
    expect_err '| cut: -n N allows more tokens'
    cp "$scratch/out" chat
    [ "$(wc -c <chat)" -gt 5 ] || fail 'no answer'
    # The template is used: the plain text is continued in another way.
    run "$HEARTH" run --raw -t 1 -c 2048 -n 6 --temp 0 --ignore-eos m.gguf 'The fire'
    cmp -s "$scratch/out" chat && fail 'there was no template'
    printf 'The fire\n' >prompt
    run "$HEARTH" run -t 1 -c 2048 -n 6 --temp 0 --ignore-eos m.gguf <prompt
    expect_status 0
    cmp -s "$scratch/out" chat || fail 'a prompt on standard input is another one'
    find . -maxdepth 1 -name 'hearth.*' | grep -q . && fail 'the scratch folder is still there'
    return 0
}

# All of them reach the server, however many there are.
test_settings_reach_a_server_of_its_own() {
    make_model
    no_server
    set -- -t 1 -c 2048 -ub 256 --parallel 2 --threads-batch 1 -ctk f16 -ctv f16 -fa off --pooling auto --gpu-layers 0 \
        --rope-freq-base 10000 --rope-freq-scale 1 --image-min-tokens 1 --image-max-tokens 9 --max-memory 4GiB --no-mmap
    run "$HEARTH" run "$@" -n 2 m.gguf 'The fire'
    expect_status 0
    run "$HEARTH" run "$@" --backends "$PWD/none" -n 2 m.gguf 'The fire'
    expect_status 1
}

test_a_running_server_is_used() {
    make_model
    start
    run "$HEARTH" run m 'Hello there' -n 4 --ignore-eos
    expect_status 0
    run "$HEARTH" run m 'Hello there' -n 4 --ignore-eos
    expect_status 0
    # All but the last token, which is always computed.
    set -- $(tokens_of "$scratch/err" 1)
    [ "$1" -ge "$(($2 - 1))" ] || fail 'the server did not answer before'
    printf 'Hello there' | "$HEARTH" run --system 'Be kind.' -n 4 --ignore-eos >out 2>err || fail "$(cat err)"
    grep -q "$figures" err || fail 'no figures'
    stop
}

# A script must not take half an answer for a whole one.
test_an_interrupted_answer_is_a_failure() {
    make_model
    start
    "$HEARTH" run m 'Tell me a long story.' -n 4000 --ignore-eos >out 2>err &
    asked=$!
    await 'the begin of an answer' eval '[ "$(wc -c <out)" -gt 20 ]'
    kill -INT $asked
    wait $asked && fail 'it succeeded'
    grep -q '^hearth run: interrupted$' err || fail "$(cat err)"
    stop
}

test_what_is_missing_is_said() {
    no_server
    run "$HEARTH" run
    expect_status 1
    expect_err "hearth run: no server at http://127.0.0.1:1 (Connection refused): start one with 'hearth serve MODEL', or set --url"
    run "$HEARTH" run none.gguf hello
    expect_status 1
    expect_err 'hearth run: none.gguf: no such file or folder'
    make_model
    run "$HEARTH" run -t 1 -c 2048 m.gguf ''
    expect_status 1
    expect_err 'hearth run: the prompt is empty'
}

# A model of this machine must not answer in the place of a server that was named, or that refuses.
test_another_server_does_not_answer_instead() {
    make_model
    start --api-key secret
    run "$HEARTH" run -n 2 m.gguf hello # a file: no server is asked
    expect_status 0
    cp m.gguf other
    run "$HEARTH" run --url "$HEARTH_URL" -n 2 other hello
    expect_status 1
    expect_err "access denied by $HEARTH_URL: An API key is needed"
    run "$HEARTH" run -n 2 m hello
    expect_status 1
    expect_err "'x-api-key: KEY'; pass the key with --api-key or HEARTH_API_KEY"
    stop
    run "$HEARTH" run --url http://127.0.0.1:1 -n 2 m.gguf hello
    expect_status 1
    expect_err 'no server at http://127.0.0.1:1'
}

# Keys are written to fd 4, the screen is a file.
terminal() { # COMMAND
    mkfifo keys
    script -qec "$1" /dev/null <keys >screen 2>&1 &
    shell=$!
    exec 4>keys
}

type() { printf "$@" >&4; }

answers() { [ "$(tr -d '\r' <screen | grep -a -c "$figures")" -ge "$1" ]; } # COUNT
shows() { grep -a -q -- "$1" screen; }

test_a_conversation_in_a_terminal() {
    command -v script >/dev/null || skip 'no script(1)'
    make_model
    start
    terminal "$HEARTH run --temp 0 --ignore-eos -n 12"
    await 'the prompt' shows '>>> '
    type 'The river runs under the old stone bridge in the night.\n'
    await 'an answer' answers 1
    type 'And then \\\nthe lamp is lit.\n'
    await 'a second answer' answers 2
    set -- $(tokens_of screen 1) $(tokens_of screen 2)
    [ "$3" -ge "$2" ] || fail "the second turn reuses $3 tokens, the first had $2"
    type '/clear\n'
    await 'the command' shows 'a new conversation'
    type 'The river runs under the old stone bridge in the night.\n'
    await 'a third answer' answers 3
    set -- $(tokens_of screen 1) $(tokens_of screen 3)
    [ "$2" = "$4" ] || fail 'the conversation was not forgotten'
    type '/what\n'
    await 'help' shows 'Ctrl-C stops an answer'
    type '\004'
    wait $shell || fail "it ended with $?: $(cat screen)"
    stop
}

test_ctrl_c_stops_an_answer_and_not_the_conversation() {
    command -v script >/dev/null || skip 'no script(1)'
    make_model
    start
    terminal "$HEARTH run --temp 0 --ignore-eos -n 4000 --system 'Be brief.'"
    await 'the prompt' shows '>>> '
    type 'Tell me a long story.\n'
    await 'the begin of an answer' eval '[ "$(wc -c <screen)" -gt 200 ]'
    type '\003'
    await 'the end of the answer' shows stopped
    type 'half a line\003'
    await 'the end of the line' shows 'Ctrl-D ends)'
    type '/bye\n'
    wait $shell || fail "it ended with $?: $(cat screen)"
    stop
}

suite_main "$@"

#!/usr/bin/env bash
# `hearth run --raw` as a user meets it: the answer on standard output, figures and complaints on standard error. The chat is in run_chat_test.sh.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"

unset HEARTH_CONFIG HEARTH_LOG_LEVEL HEARTH_LOG_FORMAT HEARTH_COLOR HEARTH_BACKENDS
export XDG_CONFIG_HOME=/dev/null/nowhere

make_model() { # NAME [options]
    local name=$1
    shift
    "$HEARTH" model make --layers 2 --width 64 --out "$name" "$@" >/dev/null 2>&1 || fail "no model $name"
}

# One thread: tests run side by side. The random model rarely ends by itself; with --ignore-eos never.
answer() { # options, FILE, PROMPT
    run "$HEARTH" run --raw -t 1 -c 512 --ignore-eos "$@"
}

# The figure in front of the given words, in the line of figures.
figure() {
    sed -n "s/^loaded in .* \\([0-9]*\\) $1, .*/\\1/p" "$scratch/err"
}

expect_answer() { # the run succeeded, and one line of figures is all that it said
    expect_status 0
    grep -qE '^loaded in [0-9.]+ s \| prompt [0-9]+ tokens, [0-9]+ tok/s \| ttft [0-9.]+ s \| [0-9]+ tokens, [0-9.]+ tok/s \| seed [0-9]+ \| .+$' \
        "$scratch/err" || fail 'no figures'
    [ "$(err_without_bars | wc -l)" = 1 ] || fail 'more than the figures'
}

test_answer_and_figures() {
    make_model m.gguf
    answer -n 20 m.gguf 'The fire'
    expect_answer
    expect_err '| 20 tokens, '
    [ "$(wc -c <"$scratch/out")" -gt 20 ] || fail 'no answer'
    [ -z "$(tail -c 1 "$scratch/out" | tr -d '\n')" ] || fail 'no newline at the end'
    grep -q 'loaded in' "$scratch/out" && fail 'figures in the answer'
    return 0
}

test_number_of_tokens_is_respected() {
    local n
    make_model m.gguf
    for n in 0 1 7; do
        answer -n $n m.gguf x
        expect_answer
        [ "$(figure tokens)" = $n ] || fail "not $n tokens"
    done
    answer --predict 0 m.gguf x
    [ "$(wc -c <"$scratch/out")" = 1 ] || fail 'an answer of no tokens is not empty'
    # A time that was measured, not divided by nothing.
    sed -n 's/.*prompt [0-9]* tokens, \([0-9]*\) tok.*/\1/p' "$scratch/err" | grep -qE '^[0-9]{1,7}$' || fail 'a speed that cannot be'
}

test_greedy_is_repeatable() {
    make_model m.gguf
    answer -n 40 --temp 0 m.gguf 'The fire'
    expect_answer
    cp "$scratch/out" first
    answer -n 40 --temp 0 -s 5 m.gguf 'The fire'
    cmp -s first "$scratch/out" || fail 'greedy answers differ'
    answer -n 40 --temp 0 m.gguf 'The water'
    cmp -s first "$scratch/out" && fail 'the prompt does not matter'
    return 0
}

test_seed_is_repeatable() {
    make_model m.gguf
    answer -n 40 --temp 2 --top-k 0 --top-p 1 --min-p 0 --seed 7 m.gguf x
    expect_answer
    expect_err '| seed 7 |'
    cp "$scratch/out" first
    answer -n 40 --temp 2 --top-k 0 --top-p 1 --min-p 0 -s 7 m.gguf x
    cmp -s first "$scratch/out" || fail 'the same seed gave another answer'
    answer -n 40 --temp 2 --top-k 0 --top-p 1 --min-p 0 -s 8 m.gguf x
    cmp -s first "$scratch/out" && fail 'another seed gave the same answer'
    # The seed that is shown when none was given repeats the answer.
    answer -n 40 --temp 2 --top-k 0 --top-p 1 --min-p 0 m.gguf x
    cp "$scratch/out" first
    answer -n 40 --temp 2 --top-k 0 --top-p 1 --min-p 0 \
        -s "$(sed -n 's/.*| seed \([0-9]*\) |.*/\1/p' "$scratch/err")" m.gguf x
    cmp -s first "$scratch/out" || fail 'the seed that was shown gave another answer'
}

# At this temperature all tokens are about as probable, so the one that ends an answer comes soon.
test_answer_ends_by_itself() {
    make_model m.gguf
    run "$HEARTH" run --raw -t 1 -c 8192 --temp 100 --top-k 0 --top-p 1 --min-p 0 -s 1 -n 8000 m.gguf x
    expect_answer
    [ "$(figure tokens)" -lt 8000 ] || fail 'it never ended'
    run "$HEARTH" run --raw -t 1 -c 8192 --temp 100 --top-k 0 --top-p 1 --min-p 0 -s 1 -n 1500 --ignore-eos m.gguf x
    expect_answer
    [ "$(figure tokens)" = 1500 ] || fail 'it ended all the same'
}

# Every sort of memory, and other ways to load.
test_families_and_settings() {
    local family
    for family in llama gemma3 qwen35 mamba2; do
        run "$HEARTH" model make -f $family --out m.gguf
        answer -n 4 m.gguf 'The fire'
        expect_answer
    done
    make_model m.gguf
    answer -n 4 -ctk q8_0 m.gguf 'The fire'
    expect_answer
    answer -n 4 --kv-streams --parallel 2 m.gguf 'The fire'
    expect_answer
    answer -n 4 -ub 3 m.gguf 'The fire in the hearth is warm and it burns'
    expect_answer
}

test_chunks_do_not_change_the_answer() {
    make_model m.gguf
    answer -n 20 --temp 0 -ub 512 m.gguf 'The fire in the hearth is warm and it burns'
    cp "$scratch/out" first
    answer -n 20 --temp 0 -ub 4 m.gguf 'The fire in the hearth is warm and it burns'
    cmp -s first "$scratch/out" || fail 'chunks change the answer'
}

# The answer ends where the context does; that is no error.
test_full_context_ends_the_answer() {
    local streams
    make_model m.gguf
    for streams in '' --kv-streams; do
        # shellcheck disable=SC2086 # none or one word
        run "$HEARTH" run --raw -t 1 -c 256 --parallel 2 --ignore-eos $streams -n 1000 m.gguf x
        expect_answer
        # The token that fills the last cell is followed by one more, which needs none.
        [ "$(figure tokens)" = 256 ] || fail "the answer has $(figure tokens) tokens"
    done
}

test_prompt_longer_than_the_context() {
    local streams
    make_model m.gguf
    for streams in '' --kv-streams; do
        # shellcheck disable=SC2086
        run "$HEARTH" run --raw -t 1 -c 256 --parallel 2 $streams m.gguf "$(yes fire | head -n 300)"
        expect_status 1
        expect_no_out
        grep -qE '^hearth run: the prompt has [0-9]+ tokens but the context has only 256: use a larger --ctx-size$' \
            "$scratch/err" || fail 'no sentence'
    done
}

test_missing_and_wrong_files() {
    run "$HEARTH" run --raw none.gguf x
    expect_status 1
    expect_no_out
    expect_err 'hearth run: none.gguf: no such file or folder'
    echo 'This is a text, and not a short one.' >text.gguf
    run "$HEARTH" run --raw text.gguf x
    expect_status 1
    expect_err 'text.gguf is not a GGUF file (it begins with 54 68 69 73)'
    mkdir folder
    run "$HEARTH" run --raw folder x
    expect_status 1
    expect_err 'folder has no GGUF file'
    make_model m.gguf
    head -c 20000 m.gguf >cut.gguf
    run "$HEARTH" run --raw cut.gguf x
    expect_status 1
    expect_err 'cut.gguf is '
    run "$HEARTH" run --raw --backends /nonexistent m.gguf x
    expect_status 1
    expect_err 'no backends are loaded'
}

test_empty_prompt_is_a_sentence() {
    make_model m.gguf
    answer m.gguf ''
    expect_status 1
    expect_no_out
    expect_err 'hearth run: the prompt is empty'
}

test_mistakes_are_usage_errors() {
    local wrong
    run "$HEARTH" run --raw
    expect_status 2
    expect_err 'Usage: hearth run --raw FILE PROMPT'
    run "$HEARTH" run --raw m.gguf
    expect_status 2
    run "$HEARTH" run --raw m.gguf two words
    expect_status 2
    expect_err 'unexpected argument "words"'
    for wrong in --temp=-1 --temp=hot --top-p=2 --min-p=-0.1 --top-k=-1 --seed=-2 --seed=4294967296 \
        --predict=-1 --predict=x --parallel=0 -ctk=q9 --lora=x= --lora==1 --lora=x=y --nonsense; do
        run "$HEARTH" run --raw "$wrong" m.gguf x
        expect_status 2
        expect_no_out
        expect_err "Try 'hearth run --help'."
    done
    run "$HEARTH" run --raw --lora x=much m.gguf x
    expect_status 2
    expect_err 'hearth run: --lora x=much: expected FILE or FILE=SCALE'
}

test_adapter_that_is_none() {
    make_model m.gguf
    answer --lora none.gguf m.gguf x
    expect_status 1
    expect_err 'hearth run: cannot load the adapter none.gguf'
    answer --lora m.gguf=0.5 m.gguf x
    expect_status 1
    expect_err 'cannot load the adapter m.gguf'
}

# The first byte of the answer says that it is being generated; then the user presses Ctrl-C.
test_interrupt_ends_the_answer_well() {
    local first
    make_model m.gguf --ctx 32768
    mkfifo pipe
    "$HEARTH" run --raw -t 1 -c 32768 --ignore-eos -n 1000000 m.gguf x >pipe 2>"$scratch/err" &
    exec 3<pipe
    IFS= read -r -N 1 first <&3 || fail 'no answer'
    kill -INT $!
    { printf %s "$first"; cat; } <&3 >"$scratch/out"
    wait $!
    status=$? last_command='hearth run, interrupted'
    expect_answer
    [ "$(figure tokens)" -lt 32000 ] || fail 'it went on to the end'
    [ -z "$(tail -c 1 "$scratch/out" | tr -d '\n')" ] || fail 'no newline at the end'
}

# Ctrl-C while the reader of a pipe is slow: buffered output is not lost.
test_interrupt_while_the_pipe_is_full() {
    [ -e /proc/self/stat ] || skip 'no /proc'
    make_model m.gguf --family mamba2 --layers 1 --ctx 32768 # not slower with each token
    mkfifo pipe
    "$HEARTH" run --raw -t 1 -c 32768 --ignore-eos -n 1000000 m.gguf x >pipe 2>"$scratch/err" &
    exec 3<pipe
    IFS= read -r -N 1 _ <&3 || fail 'no answer'
    # Generating needs no sleep, so who sleeps waits for room in the pipe.
    until [ "$(cut -d ' ' -f 3 /proc/$!/stat)" = S ]; do :; done
    kill -INT $!
    cat <&3 >/dev/null
    wait $!
    status=$? last_command='hearth run, interrupted'
    expect_answer
}

# Nobody can read what comes: it is said, and not computed to the end.
test_output_that_cannot_be_written() {
    make_model m.gguf
    # shellcheck disable=SC2016 # expanded by the inner shell
    run bash -c '"$@" >&-' bash "$HEARTH" run --raw -t 1 -c 512 --ignore-eos -n 300 m.gguf x
    expect_status 1
    expect_err 'hearth run: cannot write the output'
    [ "$(figure tokens)" -lt 10 ] || fail 'it went on to the end'
    [ -w /dev/full ] || return 0
    # shellcheck disable=SC2016
    run bash -c '"$@" >/dev/full' bash "$HEARTH" run --raw -t 1 -c 512 --ignore-eos -n 300 m.gguf x
    expect_status 1
    expect_err 'hearth run: cannot write the output'
    [ "$(figure tokens)" -lt 10 ] || fail 'it went on to the end'
}

# A closed standard stream must not lend its number to the model file.
test_closed_streams_do_not_touch_the_model() {
    make_model m.gguf
    cp m.gguf before.gguf
    # shellcheck disable=SC2016
    run bash -c '"$@" <&- >&- 2>&-' bash "$HEARTH" run --raw -t 1 -c 512 --ignore-eos -n 5 m.gguf x
    expect_status 1
    cmp -s m.gguf before.gguf || fail 'the model was written to'
    # shellcheck disable=SC2016
    run bash -c '"$@" <&- 2>&-' bash "$HEARTH" run --raw -t 1 -c 512 --ignore-eos -n 5 m.gguf x
    expect_status 0
    [ "$(wc -c <"$scratch/out")" -gt 5 ] || fail 'no answer'
}

# The paths are occupied by something that is not one of our files and cannot be used.
test_places_of_closed_streams_are_held() {
    local place
    [ -e /proc/self/fd/0 ] || skip 'no /proc'
    make_model m.gguf --ctx 32768
    mkfifo pipe
    "$HEARTH" run --raw -t 1 -c 32768 --ignore-eos -n 1000000 m.gguf x >pipe <&- 2>&- &
    exec 3<pipe
    IFS= read -r -N 1 _ <&3 || fail 'no answer'
    for place in 0 2; do
        [ "$(readlink /proc/$!/fd/$place)" = /dev/null ] || fail "place $place is $(readlink /proc/$!/fd/$place)"
    done
    kill -INT $!
    cat <&3 >/dev/null
    wait $! || fail 'it did not end well'
}

test_settings_come_from_files_and_the_environment() {
    make_model m.gguf
    printf '[run]\npredict = 3\nctx-size = 512\nthreads = 1\nignore-eos = yes\n' >hearth.ini
    run "$HEARTH" run --raw --config hearth.ini m.gguf x
    expect_answer
    [ "$(figure tokens)" = 3 ] || fail 'the file was not read'
    run env HEARTH_PREDICT=4 "$HEARTH" run --raw --config hearth.ini m.gguf x
    [ "$(figure tokens)" = 4 ] || fail 'the environment does not win'
    run env HEARTH_PREDICT=4 "$HEARTH" run --raw -n 5 --config hearth.ini m.gguf x
    [ "$(figure tokens)" = 5 ] || fail 'the command line does not win'
}

suite_main "$@"

#!/usr/bin/env bash
# `hearth model show`: what a model is to a cache, for each sort of memory.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"

unset HEARTH_CONFIG HEARTH_LOG_LEVEL HEARTH_LOG_FORMAT HEARTH_COLOR HEARTH_BACKENDS
export XDG_CONFIG_HOME=/dev/null/nowhere

make_model() { # FAMILY [options]
    local family=$1
    shift
    "$HEARTH" model make -f "$family" --out "$family.gguf" "$@" >/dev/null 2>&1 || fail "no model of $family"
}

show() { # options, FILE
    run "$HEARTH" model show -t 1 -c 512 "$@"
}

expect_line() { # REGEX
    grep -qE -- "$1" "$scratch/out" || fail "no line like $1"
}

expect_no_line() { # REGEX
    grep -qE -- "$1" "$scratch/out" && fail "a line like $1"
    return 0
}

# What every model has.
expect_shown() { # FAMILY LINES
    expect_status 0
    expect_no_complaint
    expect_line "^name           $1$"
    expect_line "^architecture   $1$"
    expect_line '^type           .+'
    expect_line '^size           [0-9.,]+[KMB]* parameters, [0-9.]+ [KMG]iB of weights, vocabulary of [0-9]+$'
    expect_line '^context        512 tokens here, trained for 8,192$'
    expect_line '^chat template  [0-9]+ bytes: tools, tool calls, reasoning'
    expect_line '^tool calls     [a-z_]+: a call that the template renders is read back$'
    expect_line '^turns          lose_loop: thoughts disappear .* are computed again$'
    expect_line '^fingerprint    [0-9a-f]{64}$'
    expect_line '^loaded in      [0-9.]+ s on .+'
    expect_line '^state          rows and snapshots, bit-identical after a restore$'
    [ "$(wc -l <"$scratch/out")" = "$2" ] || fail "not $2 lines"
}

fingerprint() {
    sed -n 's/^fingerprint    //p' "$scratch/out"
}

test_dense() {
    make_model qwen3
    show qwen3.gguf
    expect_shown qwen3 14
    expect_line '^layers         4 full \(4 in all\)$'
    expect_line '^rows           [0-9.]+ KiB per token, [0-9.]+ KiB per block of 256$'
    expect_line '^snapshot       not needed$'
    expect_no_line '^window'
}

test_hybrid() {
    make_model qwen35
    show qwen35.gguf
    expect_shown qwen35 14
    expect_line '^layers         1 full, 3 recurrent \(4 in all\)$'
    expect_line '^rows           [0-9]+ B per token, [0-9.]+ KiB per block of 256$'
    expect_line '^snapshot       [0-9.]+ [KM]iB$'
    expect_no_line '^window'
}

test_sliding() {
    make_model gemma3
    show gemma3.gguf
    expect_shown gemma3 15
    expect_line '^layers         1 full, 3 sliding \(4 in all\)$'
    expect_line '^window         128 tokens$'
    expect_line '^snapshot       [0-9.]+ [KM]iB$'
}

test_recurrent() {
    make_model mamba2
    show mamba2.gguf
    expect_shown mamba2 14
    expect_line '^layers         4 recurrent \(4 in all\)$'
    expect_line '^rows           0 B per token, 0 B per block of 256$'
}

# The settings of the command line are those of the model that is shown.
test_settings_change_what_is_shown() {
    local plain
    make_model qwen3
    show qwen3.gguf
    plain=$(fingerprint)
    show qwen3.gguf
    [ "$(fingerprint)" = "$plain" ] || fail 'another fingerprint each time'
    mv qwen3.gguf renamed.gguf
    show renamed.gguf
    [ "$(fingerprint)" = "$plain" ] || fail 'the name of the file changes the fingerprint'
    expect_line '^name           qwen3$'
    show -ctk q8_0 -ctv q8_0 renamed.gguf
    expect_status 0
    [ "$(fingerprint)" != "$plain" ] || fail 'the type of the rows does not change the fingerprint'
    expect_line '^rows           1\.1 KiB per token'
    show --kv-streams --parallel 2 renamed.gguf
    expect_status 0
    expect_line '^state          whole sequences only, bit-identical after a restore$'
    expect_line '^context        512 tokens here'
}

test_shards_need_all_of_them() {
    make_model qwen3
    cp qwen3.gguf m-00001-of-00001.gguf
    show m-00001-of-00001.gguf
    expect_shown qwen3 14
    mv qwen3.gguf m-00001-of-00002.gguf
    show m-00001-of-00002.gguf
    expect_status 1
    expect_no_out
    expect_err 'hearth model: cannot open the model m-00002-of-00002.gguf: No such file or directory'
}

# As for `hearth serve`.
test_a_name() {
    make_model qwen3
    export HEARTH_DEMO=$PWD/qwen3.gguf
    show demo
    expect_status 0
    expect_out 'architecture   qwen3'
}

test_wrong_files_are_sentences() {
    show none.gguf
    expect_status 1
    expect_no_out
    expect_err 'hearth model: none.gguf: no such file or folder'
    show .
    expect_status 1
    expect_err 'hearth model: . has no GGUF file'
    : >empty.gguf
    show empty.gguf
    expect_status 1
    expect_err 'empty.gguf has only 0 bytes: it is not a model'
    seq 100 >text.gguf
    show text.gguf
    expect_status 1
    expect_err 'text.gguf is not a GGUF file (it begins with 31 0a 32 0a). hearth serves GGUF models only'
    make_model qwen3
    head -c 100000 qwen3.gguf >cut.gguf
    show cut.gguf
    expect_status 1
    expect_err 'cut.gguf is truncated: it has 97.7 KiB, its tensors need '
    head -c 3000 qwen3.gguf >cut.gguf
    show cut.gguf
    expect_status 1
    expect_err 'cut.gguf is damaged or truncated: its header cannot be read'
    sed 's/qwen3/qwenX/g' qwen3.gguf >foreign.gguf
    show foreign.gguf
    expect_status 1
    expect_err "the library cannot load foreign.gguf: "
    expect_err qwenX
    mkfifo pipe.gguf
    show pipe.gguf
    expect_status 1
    expect_err 'pipe.gguf is not a file'
}

test_mistakes_are_usage_errors() {
    run "$HEARTH" model show
    expect_status 2
    expect_err 'hearth model: show needs a model file'
    run "$HEARTH" model show a b
    expect_status 2
    run "$HEARTH" model show --lora x= a
    expect_status 2
    expect_err '--lora x=: expected FILE or FILE=SCALE'
    run "$HEARTH" model show -ctk q9 a
    expect_status 2
}

test_closed_stdout_is_a_failure() {
    make_model qwen3
    # shellcheck disable=SC2016 # expanded by the inner shell
    run bash -c '"$@" >&-' bash "$HEARTH" model show -t 1 -c 512 qwen3.gguf
    expect_status 1
    expect_err 'hearth model: cannot write the output'
}

test_words_are_checked() {
    run "$HEARTH" model bake
    expect_status 2
    expect_err "unknown model command \"bake\"; use show or quantize"
    run "$HEARTH" model
    expect_status 2
}

test_quantize() {
    "$HEARTH" model make --family qwen3 --layers 2 --width 64 --out m.gguf >/dev/null 2>&1 || fail 'no model'
    run "$HEARTH" model quantize m.gguf q.gguf Q8_0 -t 1
    expect_status 0
    expect_out 'q.gguf: Q8_0, '
    run "$HEARTH" model show q.gguf
    expect_out 'Q8_0'
    run "$HEARTH" model quantize m.gguf q.gguf Q8_0
    expect_status 2
    expect_err 'q.gguf exists already: choose another name, or remove it'
    run "$HEARTH" model quantize m.gguf p.gguf
    expect_status 2
    expect_err "'hearth model quantize in.gguf out.gguf Q4_K_M'"
    run "$HEARTH" model quantize q.gguf p.gguf Q4_0
    expect_status 1
    expect_err '--allow-requantize permits it'
    run "$HEARTH" model quantize q.gguf p.gguf Q4_0 --allow-requantize
    expect_status 0
    [ "$(echo *)" = 'm.gguf p.gguf q.gguf' ] || fail "$(echo *)"
}

suite_main "$@"

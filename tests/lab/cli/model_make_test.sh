#!/usr/bin/env bash
# `hearth model make` as a user meets it.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../../support/suite.sh"

unset HEARTH_CONFIG HEARTH_LOG_LEVEL HEARTH_LOG_FORMAT HEARTH_COLOR
export XDG_CONFIG_HOME=/dev/null/nowhere

test_make_writes_what_it_says() {
    run "$HEARTH" model make --family qwen35 --layers 4 --width 128 --quant q8_0 -o tiny.gguf
    expect_status 0
    expect_no_complaint
    expect_out 'tiny.gguf: qwen35, 4 layers, width 128, q8_0, '
    [ "$(head -c 4 tiny.gguf)" = GGUF ] || fail 'not a GGUF file'
    [ "$(ls -A | wc -l)" = 1 ] || fail "something else was left: $(ls -A)"
}

test_the_default_is_small() {
    run "$HEARTH" model make
    expect_status 0
    expect_out 'random.gguf: random, 6 layers'
    [ -s random.gguf ] || fail 'no random.gguf'
}

test_seed_decides() {
    local seed
    for seed in 1 1 2; do
        run "$HEARTH" model make -f llama --layers 1 --width 64 -s $seed -o "$seed.gguf"
        expect_status 0
        [ -e first ] || cp 1.gguf first
    done
    cmp -s first 1.gguf || fail 'the same seed gave another file'
    cmp -s first 2.gguf && fail 'another seed gave the same file'
    return 0
}

test_mistakes_are_sentences() {
    run "$HEARTH" model make --family lama
    expect_status 2
    expect_no_out
    expect_err "hearth model-make: no model family is called 'lama'; did you mean 'llama'?"
    run "$HEARTH" model make --family llama --width 100
    expect_status 2
    expect_err 'the width is 100: llama needs a multiple of 32, such as 96 or 128'
    run "$HEARTH" model make -o nowhere/x.gguf
    expect_status 1
    expect_err "cannot write 'nowhere/x.gguf'"
}

test_help_names_presets_and_some_families() {
    run "$HEARTH" model make --help
    expect_status 0
    expect_no_err
    local name
    for name in random qwen3-0.6b qwen3.5-hybrid-1b gemma3-1b llama deepseek32 mamba2; do
        expect_out "$name"
    done
}

# A closed standard stream must not lend its number to the model: what is printed would end up in it.
test_closed_streams_do_not_damage_the_model() {
    local closed
    "$HEARTH" model make -f llama --layers 1 --width 64 -o good.gguf >/dev/null || fail 'no model'
    for closed in '<&-' '>&-' '2>&-' '<&- >&-' '<&- >&- 2>&-'; do
        rm -f x.gguf
        # shellcheck disable=SC2016 # expanded by the inner shell
        run bash -c '"$@" '"$closed" bash "$HEARTH" model make -f llama --layers 1 --width 64 -o x.gguf
        case $closed in
        *'>&-'*' '*'2>&-' | *'<&- >&-' | '>&-')
            expect_status 1 # it was made, but that could not be said
            ;;
        *) expect_status 0 ;;
        esac
        cmp -s good.gguf x.gguf || fail "with $closed another model was made"
        rm -f x.gguf
        # shellcheck disable=SC2016
        run bash -c '"$@" '"$closed" bash "$HEARTH" model make -f lama -o x.gguf
        expect_status 2
        [ ! -e x.gguf ] || fail 'a file in spite of an error'
    done
    [ "$(ls -A)" = good.gguf ] || fail "something was left: $(ls -A)"
}

suite_main "$@"

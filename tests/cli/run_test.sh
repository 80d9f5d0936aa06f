#!/usr/bin/env bash
# `hearth run`: which of its two ways is taken. Each has its own suite: run_chat_test.sh, run_raw_test.sh.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"

unset HEARTH_CONFIG HEARTH_URL HEARTH_HOST HEARTH_PORT
export XDG_CONFIG_HOME=/dev/null/nowhere

test_without_arguments_it_is_a_chat() {
    run "$HEARTH" run --url http://127.0.0.1:1
    expect_status 1
    expect_err 'hearth run: no server at http://127.0.0.1:1'
}

test_raw_text_needs_a_model_and_a_prompt() {
    run "$HEARTH" run --raw
    expect_status 2
    expect_err 'Usage: hearth run --raw FILE PROMPT'
    run "$HEARTH" run --raw none.gguf
    expect_status 2
    run "$HEARTH" run --raw none.gguf x
    expect_status 1
    expect_err 'hearth run: none.gguf: no such file or folder'
}

suite_main "$@"

#!/usr/bin/env bash
# The official SDKs of OpenAI, Anthropic and Ollama, and the AI SDK, against the real server on a small model. They come from the npm
# registry, pinned in package-lock.json; without a registry these tests are skipped.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"

folder=$(cd "$(dirname "$0")" && pwd)
unset HEARTH_API_KEY HEARTH_ADMIN_KEY HEARTH_CONFIG HEARTH_LOG_LEVEL HEARTH_LOG_FORMAT HEARTH_COLOR HEARTH_BACKENDS
export XDG_CONFIG_HOME=/dev/null/nowhere HEARTH

# Once for all tests, which may run side by side.
install_sdks() {
    command -v npm >/dev/null || skip 'no npm'
    (
        flock 9
        [ "$folder/node_modules/.stamp" -nt "$folder/package-lock.json" ] && exit 0
        cd "$folder" && npm ci --no-audit --no-fund >"$scratch/npm" 2>&1 && touch node_modules/.stamp
    ) 9>"$folder/.npm.lock" || skip "the SDKs cannot be installed: $(grep -m1 'npm error' "$scratch/npm")"
}

run_sdk() { # FILE [FAMILY]
    install_sdks
    MODEL=$PWD/m.gguf
    export MODEL
    "$HEARTH" model make --family "${2:-qwen3}" --layers 2 --width 64 --out "$MODEL" >/dev/null 2>&1 || fail 'no model'
    run node --test --test-reporter=spec "$folder/$1"
    expect_status 0
    expect_out 'fail 0'
}

test_openai() { run_sdk openai.test.mjs; }
test_anthropic() { run_sdk anthropic.test.mjs; }
test_ollama() { run_sdk ollama.test.mjs; }
test_ai_sdk() { run_sdk ai.test.mjs; }
test_giving_up() { run_sdk giveup.test.mjs; }
test_giving_up_hybrid() { run_sdk giveup.test.mjs qwen35; }
test_pictures() {
    export MMPROJ=$PWD/p.gguf
    "$HEARTH" model make --family mmproj-mlp --width 64 --out "$MMPROJ" >/dev/null 2>&1 || fail 'no projector'
    run_sdk pictures.test.mjs llama
}

suite_main "$@"

#!/usr/bin/env bash
# The dashboard in Chromium against the real server on a small model. playwright-core comes from the npm registry, pinned in package-lock.json,
# the browser from the machine or from Debian (tools/browser.sh); without either these tests are skipped.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"

folder=$(cd "$(dirname "$0")" && pwd)
browser_sh=$folder/../../tools/browser.sh
unset HEARTH_API_KEY HEARTH_ADMIN_KEY HEARTH_CONFIG HEARTH_LOG_LEVEL HEARTH_LOG_FORMAT HEARTH_COLOR HEARTH_BACKENDS
export HEARTH

# Once for all tests, which may run side by side.
install_playwright() {
    command -v npm >/dev/null || skip 'no npm'
    (
        flock 9
        [ "$folder/node_modules/.stamp" -nt "$folder/package-lock.json" ] && exit 0
        cd "$folder" && npm ci --no-audit --no-fund >"$scratch/npm" 2>&1 && touch node_modules/.stamp
    ) 9>"$folder/.npm.lock" || skip "playwright-core cannot be installed: $(grep -m1 'npm error' "$scratch/npm")"
}

run_page() { # FILE [FAMILY]
    BROWSER=$("$browser_sh" 2>"$scratch/browser") || skip "$(cat "$scratch/browser")"
    install_playwright
    MODEL=$PWD/m.gguf
    # A folder that is there: Chromium writes to it, and as root it would make any other.
    mkdir config
    export MODEL BROWSER XDG_CONFIG_HOME=$PWD/config
    "$HEARTH" model make --family "${2:-qwen3}" --layers 2 --width 64 --out "$MODEL" >/dev/null 2>&1 || fail 'no model'
    run node --test --test-reporter=spec "$folder/$1"
    expect_status 0
    expect_out 'fail 0'
}

test_page() { run_page page.test.mjs; }
test_actions() { run_page actions.test.mjs; }
test_chat() { run_page chat.test.mjs; }
test_keys() { run_page keys.test.mjs; }
test_pictures() {
    export MMPROJ=$PWD/p.gguf
    "$HEARTH" model make --family mmproj-mlp --width 64 --out "$MMPROJ" >/dev/null 2>&1 || fail 'no projector'
    run_page pictures.test.mjs llama
}

test_a_browser_that_is_not_there_is_named() {
    run env HEARTH_CHROMIUM=/nonexistent/chromium "$browser_sh"
    expect_status 1
    expect_err 'no browser: HEARTH_CHROMIUM=/nonexistent/chromium is not there'
    expect_no_out
    printf '#!/bin/sh\n' >mine && chmod +x mine
    run env HEARTH_CHROMIUM="$PWD/mine" "$browser_sh"
    expect_status 0
    expect_out "$PWD/mine"
}

suite_main "$@"

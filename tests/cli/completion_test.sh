#!/usr/bin/env bash
# Completion scripts in the shells that read them, and manual pages in the programs that show them.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/tools.sh
. "$(dirname "$0")/../support/tools.sh"

script() { # SHELL
    "$HEARTH-lab" completion "$1" >script || fail 'no script'
}

# What bash would offer for the last word.
bash_offers() { # WORD...
    bash --norc -c '. ./script; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _hearth hearth; printf "%s\n" "${COMPREPLY[@]}"' bash "$@" >offers 2>errors
    [ ! -s errors ] || fail "bash: $(cat errors)"
}

expect_offer() { # TEXT...
    for offer; do grep -qxF -- "$offer" offers || fail "not offered: $offer; but: $(tr '\n' ' ' <offers)"; done
}

expect_no_offer() { # TEXT
    ! grep -qxF -- "$1" offers || fail "offered: $1"
}

test_bash_commands_and_options() {
    script bash
    bash -n script || fail 'it does not parse'
    bash_offers hearth ''
    expect_offer serve help completion --version
    bash_offers hearth serve --po
    expect_offer --port
    expect_no_offer --host
    bash_offers hearth serve -
    expect_offer --port -m --no-cache --help --ram-cache
    expect_no_offer --cache
    expect_no_offer --fault
    bash_offers hearth model ''
    expect_offer show quantize
    bash_offers hearth cache ''
    expect_offer stats unpin dump
    bash_offers hearth launch c
    expect_offer claude codex
    bash_offers hearth bench ''
    expect_offer prefix peer fleet
    bash_offers hearth qa m
    expect_offer moe-dense multi
    bash_offers hearth help ser
    expect_offer serve
}

test_bash_values() {
    script bash
    bash_offers hearth serve --log-level ''
    expect_offer debug off
    expect_no_offer --port
    bash_offers hearth serve --log-level = wa
    expect_offer warn
    expect_no_offer debug
    touch a.gguf
    mkdir folder
    bash_offers hearth serve --models-dir ''
    expect_offer folder
    expect_no_offer a.gguf
    bash_offers hearth serve ''
    expect_offer a.gguf
    bash_offers hearth serve --port ''
    [ ! -s offers ] || [ "$(cat offers)" = '' ] || fail 'something is offered for a number'
}

# Every option that the help shows is offered.
test_bash_knows_all_that_help_shows() {
    script bash
    for command in $("$HEARTH" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
        bash_offers hearth "$command" --
        "$HEARTH" "$command" --help | grep -o '^ .\{0,12\}--[a-z][a-z0-9-]*' | grep -o -- '--[a-z0-9-]*$' >shown
        [ -s shown ] || fail "no options in the help of $command"
        while read -r option; do expect_offer "$option"; done <shown
    done
}

test_bash_script_is_clean() {
    command -v shellcheck >/dev/null || skip 'no shellcheck here'
    script bash
    run shellcheck -e SC2034 script
    expect_status 0
}

# The functions of zsh's own completion are stood in for: they print what they are given.
test_zsh() {
    need_tool zsh
    script zsh
    run "${tool[@]}" -n script
    expect_status 0
    expect_no_err
    # One that was unpacked does not find its own modules.
    echo "[ -d '$tools' ] && module_path+=('$tools'/usr/lib/*/zsh/*(N))" >drive
    cat >>drive <<'EOF'
_arguments() { print -rl -- "$@" }
_describe() { print -rl -- "${(P@)2}" }
compdef() { }
source ./script
words=(hearth ser) CURRENT=2; _hearth
words=(hearth serve --po) CURRENT=3; _hearth
print -- "left: $words[1] $CURRENT"
EOF
    run "${tool[@]}" -f drive
    expect_status 0
    expect_no_err
    expect_out 'serve:Serve models'
    expect_out '--port=[Port to listen on; 0 = any free port.]:N:'
    expect_out '--log-level=[Minimum level of log lines.]:LEVEL:(debug info warn error off)'
    expect_out 'left: serve 2'
}

test_fish() {
    need_tool fish
    script fish
    run "${tool[@]}" --no-config -n script
    expect_status 0
    # One that was unpacked does not find its own functions.
    # shellcheck disable=SC2016 # the inner shell expands these
    run env HOME="$PWD" "${tool[@]}" --no-config -c "set -a fish_function_path '$tools/usr/share/fish/functions';"' source script; complete -C "hearth serve --po"; complete -C "hearth serve --log-level "; complete -C "hearth ser"'
    expect_out '--port'
    expect_out 'debug'
    expect_out 'serve'
}

test_unknown_shell() {
    run "$HEARTH" completion tcsh
    expect_status 2
    expect_err 'expected bash, zsh or fish'
}

# ---- manual pages ----------------------------------------------------------------------------------------------

pages() {
    for page in '' hearth.ini $("$HEARTH" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
        # shellcheck disable=SC2086 # the empty name is no argument
        "$HEARTH" help --man $page >"page-$page" || fail "no page $page"
    done
}

test_pages_in_man() {
    command -v man >/dev/null && command -v groff >/dev/null || skip 'no man and groff here'
    pages
    for page in page-*; do
        run env LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l "$PWD/$page"
        expect_status 0
        expect_no_err
    done
    grep -q 'Port to listen on' "$scratch/out" || man -l "$PWD/page-serve" 2>/dev/null | grep -q 'Port to listen on' || fail 'no text'
}

test_pages_in_mandoc() {
    need_tool mandoc
    pages
    for page in page-*; do
        run "${tool[@]}" -T lint -W style "$page"
        expect_status 0
        expect_no_out
    done
}

suite_main "$@"

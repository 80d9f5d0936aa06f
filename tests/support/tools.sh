# tools.sh: for suites that hold what we make against the programs that will read it (promtool, mandoc, zsh, fish). They are the machine's, or
# those that `tools/deps.sh --tools` has fetched into .deps/tools; without either the test is skipped. Sourced after suite.sh.
# shellcheck shell=bash
# shellcheck disable=SC2034 # the suites use these

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/.deps/tools

# Sets tool to the command, as an array.
need_tool() { # NAME
    local libs

    if command -v "$1" >/dev/null; then
        tool=("$(command -v "$1")")
        return
    fi
    libs=$(find "$tools/usr/lib" -name 'lib*.so*' -printf '%h\n' 2>/dev/null | sort -u | tr '\n' ':')
    for file in "$tools/usr/bin/$1" "$tools/bin/$1"; do
        [ -x "$file" ] && tool=(env LD_LIBRARY_PATH="$libs" "$file") && return
    done
    skip "no $1 here; tools/deps.sh --tools fetches one"
}

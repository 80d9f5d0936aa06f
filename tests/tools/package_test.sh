#!/usr/bin/env bash
# `make package`: the tarball holds everything that the program needs and runs from any folder.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/serve.sh
. "$(dirname "$0")/../support/serve.sh"

top=$(cd "$(dirname "$0")/../.." && pwd)

test_a_tarball_runs_anywhere() {
    grep -q 'DEPS_MODE *:= sysroot' "$top/.deps/config.mk" 2>/dev/null || skip 'no private libraries'
    case ${HEARTH_BUILD:-release} in *release) ;; *) skip 'only of the release build' ;; esac
    command -v xz >/dev/null || skip 'no xz'
    run make -C "$top" package-tarball PACKAGE="$PWD/package" PACKAGE_XZ=-0
    expect_status 0
    mkdir 'other place' bin
    tar -C 'other place' -xf package/hearth-*.tar.xz || fail 'it cannot be unpacked'
    rm -rf package/hearth-*-linux-*/
    ln -s "$PWD/other place"/hearth-*/bin/hearth bin/hearth
    run bin/hearth version
    expect_status 0
    expect_out libllama
    # hearth runs the programs of the lab beside it.
    run bin/hearth model make -f llama --layers 1 --width 64 -o made.gguf
    expect_status 0
    [ -s made.gguf ] || fail 'no model'
    # Its own libraries and backends, none of the tree's; and it finds itself, for the process of a model.
    HEARTH=$PWD/bin/hearth serve demo -c 1024 --isolate
    ask /v1/completions '{"prompt": "a", "max_tokens": 2, "ignore_eos": true}'
    grep -q '"completion_tokens":2' body || fail "no answer: $(cat body)"
    grep -q "$top/.deps" "/proc/$server/maps" && fail "it uses the tree: $(grep "$top/.deps" "/proc/$server/maps")"
    stop
}

suite_main "$@"

# lib.sh: for suites that use libhearth as a stranger does: from a prefix outside of the tree, with a compiler and pkg-config.
# Sourced after suite.sh. HEARTH_CC is the compiler with what this build's libraries ask of it (a sanitizer, say).
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the suites use these, suite.sh sets those

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${HEARTH_BUILD:-$top/build/release}
variant=$(basename "$build")
lib=$build/lib
read -ra cc <<<"${HEARTH_CC:-${CC:-gcc}}"
cxx=("${cc[@]/%gcc/g++}") # the compiler need not be the first word: "ccache gcc"
cxx=("${cxx[@]/%clang/clang++}")

expect_same() { # EXPECTED ACTUAL
    [ "$1" = "$2" ] || fail "expected: $1
got: $2"
}

need_lib() {
    [ -e "$lib/libhearth.so" ] || skip 'this machine has no headers of a C library, so there is no libhearth'
}

# Make, with the variables (SAN, CC, ...) of the one that runs the tests but without its jobs.
make_() {
    local flags=''
    case ${MAKEFLAGS-} in *' -- '*) flags="-- ${MAKEFLAGS#* -- }" ;; esac
    run env -u MAKELEVEL -u PREFIX -u DESTDIR MAKEFLAGS="$flags" make --no-print-directory -C "$top" \
        INSTALL_BUILD="$PWD/build" "$@"
}

build_for_tests() {
    case $variant in address* | thread* | undefined* | coverage*) ;; *) false ;; esac
}

# A prefix with the library, outside of the tree; $place is removed at the end.
install_lib() {
    need_lib
    ! build_for_tests || skip 'a build for tests cannot be installed'
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
    use_prefix "$place/opt"
    make_ install PREFIX="$prefix"
    expect_status 0
}

use_prefix() { # FOLDER
    prefix=$1
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
}

# The words that pkg-config answers.
flags() { # OPTION...
    pkg-config "$@" hearth || fail "pkg-config $* hearth failed"
}

# Fails with what the compiler said.
compile() { # COMMAND...
    run "$@"
    [ "$status" = 0 ] || fail 'it does not compile'
}

#!/usr/bin/env bash
# libhearth: what it gives away and what it needs, its header in other dialects of C, and programs outside of the tree that use it.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

header=$top/include/hearth/hearth.h
program=$top/tests/tools/lib_use.c

# ---- the files -------------------------------------------------------------------------------------------------

declared() {
    sed -n 's/^HEARTH_API .*[ *]\(hearth_[a-z_]*\)(.*/\1/p' "$header" | sort
}

test_only_what_the_header_declares_is_exported() {
    need_lib
    declared >expected
    [ "$(grep -c . expected)" = "$(grep -c '^HEARTH_API' "$header")" ] || fail 'this test does not understand the header'
    nm -D --defined-only --with-symbol-versions "$lib/libhearth.so" | awk '$2 != "A" {print $3}' | sort >shared
    sed 's/$/@@HEARTH_0/' expected | diff - shared || fail 'libhearth.so exports (>) something else than is declared (<)'
    nm --defined-only --extern-only "$lib/libhearth.a" | awk 'NF == 3 {print $3}' | sort >static
    diff expected static || fail 'libhearth.a exports (>) something else than is declared (<)'
}

test_no_engine_is_needed() {
    need_lib
    local what='llama|ggml|gguf|engine|cli_|option_|ini_|uv_|yyjson|redis'
    nm -D --undefined-only "$lib/libhearth.so" >needed
    nm --undefined-only "$lib/libhearth.a" >>needed
    sed -i '/ __[a-z]*san_/d' needed # of a sanitizer
    grep -q ' blake3_hasher_update' needed || fail 'this test does not understand nm'
    ! grep -E "$what" needed || fail 'that is not of the cache'
    ! nm "$lib/libhearth.a" | grep -E " ($what)" || fail 'a part of it is in libhearth.a'
    case ${cc[*]} in *--no-as-needed*) return ;; esac # these flags ask for more libraries
    readelf -d "$lib/libhearth.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -vE '^(libblake3|libxxhash|libsodium|libc|libm|libpthread|ld-linux.*|libgcc_s|lib[a-z]*san)\.so' && fail 'needed, but why?'
    return 0
}

test_soname_and_links() {
    need_lib
    local api
    api=$(sed -n 's/^#define HEARTH_API_VERSION \([0-9]*\).*/\1/p' "$header")
    [ -n "$api" ] || fail 'the header has no line with HEARTH_API_VERSION and a number'
    expect_same libhearth.so.0 "$(readelf -d "$lib/libhearth.so" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')"
    expect_same libhearth.so.0 "$(readlink "$lib/libhearth.so")"
    expect_same "libhearth.so.0.$api" "$(readlink "$lib/libhearth.so.0")"
    [ ! -L "$lib/libhearth.so.0.$api" ] || fail 'the library itself is a link'
}

# Links that make takes for old would be remade for ever, and everything behind them.
test_second_make_does_nothing() {
    need_lib
    make_ -q lib
    expect_status 0
}

# ---- the header ------------------------------------------------------------------------------------------------

test_header_is_c99_c11_and_c17() {
    local std
    printf '#include <hearth/hearth.h>\nint main(void) { return HEARTH_OK; }\n' >a.c
    for std in c99 c11 c17 gnu17; do
        compile "${cc[@]}" -std=$std -pedantic -Wall -Wextra -Wstrict-prototypes -Werror -fsyntax-only -I"$top/include" a.c
    done
}

test_header_is_cxx() {
    local std
    command -v "${cxx[0]}" >/dev/null || skip "no ${cxx[0]}"
    printf '#include <hearth/hearth.h>\nint main() { return HEARTH_OK; }\n' >a.cc
    for std in c++11 c++17; do
        compile "${cxx[@]}" -std=$std -pedantic -Wall -Wextra -Werror -fsyntax-only -I"$top/include" a.cc
    done
}

# ---- programs, with the libraries where they were built --------------------------------------------------------

expect_use() { # COMMAND...
    run "$@"
    expect_status 0
    expect_out 'reused 550 tokens'
}

test_program_with_the_shared_library() {
    need_lib
    local std
    for std in c99 c11; do
        compile "${cc[@]}" -std=$std -pedantic -Wall -Wextra -Werror -I"$top/include" "$program" -o use -L"$lib" -lhearth
        expect_use env LD_LIBRARY_PATH="$lib" ./use
    done
}

test_program_in_cxx() {
    need_lib
    command -v "${cxx[0]}" >/dev/null || skip "no ${cxx[0]}"
    compile "${cxx[@]}" -x c++ -std=c++17 -pedantic -Wall -Wextra -Werror -I"$top/include" "$program" -o use -L"$lib" -lhearth
    expect_use env LD_LIBRARY_PATH="$lib" ./use
}

# ---- programs, with an installed prefix ------------------------------------------------------------------------

test_installed_shared() {
    install_lib
    # shellcheck disable=SC2046 # words
    compile "${cc[@]}" -Wall -Wextra -Werror "$program" -o "$place/use" $(flags --cflags --libs)
    expect_use env LD_LIBRARY_PATH="$prefix/lib" "$place/use"
    # Without a word about where it is, and from another folder.
    # shellcheck disable=SC2046
    compile "${cc[@]}" "$program" -o "$place/use" $(flags --cflags --libs) -Wl,-rpath,"$(flags --variable=libdir)"
    cd / && expect_use "$place/use"
}

test_installed_static() {
    install_lib
    local words
    words=$(flags --static --cflags --libs)
    # shellcheck disable=SC2086
    compile "${cc[@]}" "$program" -o "$place/use" ${words/-lhearth/-l:libhearth.a}
    expect_use "$place/use"
    ! readelf -d "$place/use" | grep libhearth || fail 'the shared library is used'
}

# Names inside of the archive are its own: a program may have them as well.
test_static_names_do_not_clash() {
    install_lib
    local words
    words=$(flags --static --cflags --libs)
    printf 'int mem_alloc, mem_free, lock_init, index_create, cache_enter, hash_random, pages_alloc;\n' >clash.c
    nm "$prefix/lib/libhearth.a" >names
    grep -q ' t mem_alloc$' names || fail 'there is no such name'
    # shellcheck disable=SC2086
    compile "${cc[@]}" "$program" clash.c -o "$place/use" ${words/-lhearth/-l:libhearth.a}
    expect_use "$place/use"
}

test_installed_library_needs_nothing_of_the_tree() {
    install_lib
    # shellcheck disable=SC2046
    compile "${cc[@]}" "$program" -o "$place/use" $(flags --cflags --libs) -Wl,-rpath,"$prefix/lib"
    run ldd "$place/use"
    expect_status 0
    expect_out "=> $prefix/lib/libhearth.so.0"
    ! grep -F 'not found' "$scratch/out" || fail 'something is not found'
    case $variant in *-system) return ;; esac # there a stranger's flags point into the tree
    ! grep -F "$top" "$scratch/out" || fail 'the tree is used'
    # The machine's own C library, never the private one: two in one process do not get along.
    ! grep -E "=> $prefix/lib/hearth/.*lib(c|m)\.so" "$scratch/out" || fail 'a private C library is used'
}

test_prefix_can_be_moved() {
    install_lib
    mv "$prefix" "$place/moved"
    use_prefix "$place/moved"
    # shellcheck disable=SC2046
    compile "${cc[@]}" "$program" -o "$place/use" $(flags --define-prefix --cflags --libs)
    expect_use env LD_LIBRARY_PATH="$prefix/lib" "$place/use"
}

test_pkg_config_file() {
    install_lib
    expect_same "$(make -s -C "$top" version)" "$(flags --modversion)"
    expect_same "$prefix" "$(flags --variable=prefix)"
    ! grep @ "$prefix/lib/pkgconfig/hearth.pc" || fail 'something was not filled in'
    run pkg-config --print-requires-private hearth
    case $(sed -n 's/^DEPS_MODE *:= //p' "$top/.deps/config.mk") in
    sysroot) case $variant in *-system) expect_out libblake3 ;; *) expect_no_out ;; esac ;;
    *) expect_out libblake3 ;;
    esac
}

suite_main "$@"

#!/usr/bin/env bash
# make install and make uninstall, from the build under test into folders outside of the tree; and tools/install.sh, which
# does the work on files, with its own files.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"

top=$(cd "$(dirname "$0")/../.." && pwd)
install=$top/tools/install.sh
variant=$(basename "${HEARTH_BUILD:-release}")

# ---- helpers ---------------------------------------------------------------------------------------------------

# Make, with the variables (SAN, CC, ...) of the one that runs the tests but without its jobs.
make_() {
    local flags=''
    case ${MAKEFLAGS-} in *' -- '*) flags="-- ${MAKEFLAGS#* -- }" ;; esac
    run env -u MAKELEVEL -u PREFIX -u DESTDIR MAKEFLAGS="$flags" make --no-print-directory -C "$top" \
        INSTALL_BUILD="$PWD/build" "$@"
}

# An empty place outside of the tree, so that a path below the tree is always wrong.
setup() {
    case $variant in
    address* | thread* | undefined* | coverage*) skip 'a build for tests cannot be installed' ;;
    esac
    place=$(mktemp -d)
    trap 'chmod -R u+w "$place" && rm -rf "$place"' EXIT
    prefix=$place/opt/hearth
    config=$top/.deps/config.mk
    case $variant in *-system) config=$top/.deps/config-system.mk ;; esac
    mode=$(sed -n 's/^DEPS_MODE *:= //p' "$config")
    libs=$prefix/lib/hearth
}

setup_sysroot() {
    setup
    [ "$mode" = sysroot ] || skip 'with libraries of the system none are installed'
    libdir=$top/.deps/sysroot$(sed -n 's/^DEPS_LIBDIR *:= [^/]*//p' "$config")
    loader=$(basename "$(sed -n 's/^DEPS_LOADER *:= //p' "$config")")
}

install_ok() { # [VARIABLE=VALUE]...
    make_ install PREFIX="$prefix" "$@"
    expect_status 0
}

# What the dynamic loader opens when the program runs: one path per line.
opened() { # COMMAND...
    LD_DEBUG=libs LD_DEBUG_OUTPUT=$PWD/trace "$@" >/dev/null
    cat trace.* | sed -n 's/.*calling init: //p; s/.*trying file=//p'
    rm trace.*
}

state() { # FOLDER
    find "$1" -printf '%P %y %i %s %T@\n' | sort
}

expect_same() { # EXPECTED ACTUAL
    [ "$1" = "$2" ] || fail "expected: $1
got: $2"
}

# ---- the installed program -------------------------------------------------------------------------------------

test_program_uses_nothing_of_the_tree() {
    setup_sysroot
    install_ok
    expect_same "$("$HEARTH" --version)" "$("$prefix/bin/hearth" --version)"
    run "$prefix/bin/hearth" qa --help
    expect_status 0
    opened "$prefix/bin/hearth" --version >files
    grep -q "^$libs/libllama.so" files || fail 'the private libllama is not used'
    ! grep -v "^$prefix/" files || fail 'files outside of PREFIX are looked for'
    strip --strip-debug -o program "$prefix/bin/hearth"
    ! grep -aF "$top" program || fail 'the program knows the tree'
    ! grep -rlF "$top" "$prefix/lib" "$prefix/share" || fail 'a file knows the tree'
}

test_program_runs_when_the_tree_is_gone() {
    setup_sysroot
    # In its own mount namespace, an empty folder covers the tree.
    unshare -rm mount -t tmpfs none "$top" 2>/dev/null || skip 'this user may not have a mount namespace'
    install_ok
    # shellcheck disable=SC2016 # the inner shell expands these
    run unshare -rm sh -c 'mount -t tmpfs none "$1" && ! ls "$1/Makefile" 2>/dev/null && cd / && "$2/bin/hearth" --version' \
        sh "$top" "$prefix"
    expect_status 0
    expect_out 'hearth '
}

test_backends_are_found() {
    setup_sysroot
    install_ok
    grep -qaF "$libs/backends" "$prefix/bin/hearth" || fail 'the program does not know the folder'
    diff -r "$libs/backends" "$libdir/ggml/backends0" || fail 'the folder is not complete'
}

test_doctor_loads_the_installed_backends() {
    setup_sysroot
    install_ok
    "$prefix/bin/hearth" --help | grep -q '^  doctor ' || skip 'hearth doctor does not exist yet'
    opened "$prefix/bin/hearth" doctor >files
    grep -q "^$libs/backends/libggml-cpu-" files || fail 'doctor loads no backend'
    ! grep -v "^$prefix/" files || fail 'doctor loads files outside of PREFIX'
}

# The loader's own list is the oracle for our walk.
test_libraries_are_those_that_are_needed() {
    setup_sysroot
    install_ok
    local file
    for file in "$HEARTH" "$libdir"/ggml/backends0/*.so; do
        "$libdir/$loader" --library-path "$libdir" --list "$file"
    done | awk '$1 !~ /vdso/ {sub(/.*\//, "", $1); print $1}' | sort -u >expected
    (cd "$libs" && find . -maxdepth 1 -type f ! -name installed -printf '%f\n') | sort | diff expected - ||
        fail 'other libraries are installed (>) than are needed (<)'
    while read -r file; do
        cmp "$libs/$file" "$libdir/$file" || fail "$file is another one"
    done <expected
}

test_licences_of_the_libraries() {
    setup_sysroot
    install_ok
    local doc=$prefix/share/doc/hearth package
    cmp "$top/LICENSE" "$doc/LICENSE" || fail 'no licence of our own'
    for package in libc6 libllama0 libggml0 libstdc++6 libgomp1 node-uplot; do
        [ -s "$doc/copyright/$package" ] || fail "no licence of $package"
    done
    # What is not installed has no licence there.
    ! find "$doc/copyright" | grep -e -dev -e cmocka || fail 'the licence of something that is not installed'
}

test_system_libraries_stay_where_they_are() {
    setup
    [ "$mode" = system ] || skip 'this build has private libraries'
    install_ok
    cmp "$HEARTH" "$prefix/bin/hearth" || fail 'the program is not the one that was built'
    expect_same installed "$(ls "$libs")"
    expect_same "$("$HEARTH" --version)" "$("$prefix/bin/hearth" --version)"
}

# ---- PREFIX and DESTDIR ----------------------------------------------------------------------------------------

test_destdir_is_a_stage() {
    setup
    install_ok DESTDIR="$place/stage"
    [ ! -e "$prefix" ] || fail 'something went past the stage'
    [ -x "$place/stage$prefix/bin/hearth" ] || fail 'the stage has no program'
    ! grep -rlF "$place/stage" "$place/stage" || fail 'a file knows the stage'
    # What is new on the stage is not ours on a machine: no empty /usr/share is to be removed there some day.
    expect_same '' "$(sed -n 's/^d //p' "$place/stage$libs/installed" | grep -v "^$prefix/.*/hearth\(/\|\$\)")"
    # A package that is unpacked: from there it runs.
    mkdir -p "$place/opt"
    mv "$place/stage$prefix" "$prefix"
    expect_same "$("$HEARTH" --version)" "$("$prefix/bin/hearth" --version)"
    # And what was staged can be removed where it is now.
    make_ uninstall PREFIX="$prefix"
    expect_status 0
    expect_same '' "$(find "$prefix" ! -type d -o -name '*hearth*' ! -path "$prefix")"
    [ -d "$prefix/share" ] || fail 'a folder that may be of the machine was removed'
}

test_destdir_uninstall() {
    setup
    install_ok DESTDIR="$place/stage"
    make_ uninstall PREFIX="$prefix" DESTDIR="$place/stage"
    expect_status 0
    expect_same '' "$(find "$place/stage" ! -type d)"
}

test_another_prefix_links_again() {
    setup_sysroot
    install_ok
    prefix=$place/other
    install_ok
    expect_out ' LINK  '
    opened "$prefix/bin/hearth" --version | grep -v "^$prefix/" && fail 'the first PREFIX is used'
    expect_same "$prefix/lib/hearth/$loader" \
        "$(readelf -l "$prefix/bin/hearth" | sed -n 's/.*interpreter: \(.*\)\]/\1/p')"
}

test_second_install_does_nothing() {
    setup
    install_ok
    local before_prefix before_build
    before_prefix=$(state "$prefix") before_build=$(state build | grep -v '^list \|^ ')
    install_ok
    expect_no_err
    expect_same "$before_prefix" "$(state "$prefix")"
    expect_same "$before_build" "$(state build | grep -v '^list \|^ ')"
    grep -qE '^install: [0-9]+ files below .*, 0 of them new$' "$scratch/out" || fail 'it says something else'
    [ "$(wc -l <"$scratch/out")" = 1 ] || fail 'it did something'
}

test_prefix_must_be_usable() {
    setup
    local bad
    for bad in '' relative './here' '/with space' '/with"quote' "/with'quote" '/with,comma' '/with:colon' '/with;sign'; do
        make_ install PREFIX="$bad"
        expect_status 2
        expect_err 'expected an absolute path'
    done
    # What only looks unusual is put right.
    make_ install PREFIX="$place/./a//b/../c/"
    expect_status 0
    [ -x "$place/a/c/bin/hearth" ] || fail 'no program in a/c'
    "$place/a/c/bin/hearth" --version >/dev/null || fail 'it does not run'
}

# In its own tree: make would leave the beginnings of another variant in this one.
test_builds_for_tests_are_refused() {
    local what
    mkdir -p tree/tools tree/src tree/tests tree/.deps
    cp "$top/Makefile" tree/
    cp "$top"/tools/{deps.sh,install.mk,lib.mk} tree/tools/
    echo 'DEPS_MODE := system' >tree/.deps/config.mk
    for what in SAN=address COV=1; do
        run env -u MAKELEVEL -u MAKEFLAGS make -C tree install $what PREFIX=/nowhere
        expect_status 2
        expect_err 'cannot be installed'
    done
}

# ---- make uninstall --------------------------------------------------------------------------------------------

test_uninstall_leaves_nothing() {
    setup
    install_ok
    make_ uninstall PREFIX="$prefix"
    expect_status 0
    expect_same '' "$(find "$place" -mindepth 1)"
}

test_uninstall_leaves_what_is_not_ours() {
    setup
    mkdir -p "$prefix/bin" "$prefix/empty"
    touch "$prefix/bin/other"
    install_ok
    touch "$prefix/share/doc/hearth/note"
    make_ uninstall PREFIX="$prefix"
    expect_status 0
    expect_same 'bin bin/other empty share share/doc share/doc/hearth share/doc/hearth/note' \
        "$(cd "$prefix" && find . -mindepth 1 -printf '%P\n' | sort | tr '\n' ' ' | sed 's/ $//')"
}

test_uninstall_of_nothing() {
    setup
    make_ uninstall PREFIX="$prefix"
    expect_status 2
    expect_err "nothing is installed below $prefix"
}

# ---- tools/install.sh ------------------------------------------------------------------------------------------

put() { # LINE...
    printf '%s\n' "$@" >lines
    run "$install" put '' "$PWD/to" <lines
}

test_upgrade_removes_old_files() {
    echo one >a
    put '644 a lib/hearth/liba.so.1' '644 a share/x/a'
    expect_status 0
    put '644 a lib/hearth/liba.so.2'
    expect_status 0
    expect_same 'installed liba.so.2' "$(cd to/lib/hearth && echo *)"
    [ ! -e to/share/x/a ] || fail 'an old file is still there'
    run "$install" drop '' "$PWD/to"
    expect_status 0
    [ ! -e to ] || fail "left: $(find to)"
}

# A running server has the old file mapped: it must stay whole, under no name.
test_changed_file_is_a_new_file() {
    echo old >a
    put '755 a bin/a'
    exec 5<to/bin/a
    echo new >a
    put '755 a bin/a'
    expect_status 0
    expect_out '1 of them new'
    expect_same old "$(cat <&5)"
    expect_same new "$(cat to/bin/a)"
    expect_same '-rwxr-xr-x' "$(stat -c %A to/bin/a)"
    expect_same 'a' "$(ls -A to/bin)"
}

test_links() {
    echo one >a
    put '644 a lib/liba.so.1' 'link liba.so.1 lib/liba.so'
    expect_status 0
    expect_out '2 files below'
    expect_same liba.so.1 "$(readlink to/lib/liba.so)"
    put '644 a lib/liba.so.1' 'link liba.so.1 lib/liba.so'
    expect_out '0 of them new'
    # Another text is another link; what was a link may become a file and the other way round.
    put '644 a lib/liba.so.2' 'link liba.so.2 lib/liba.so'
    expect_same 'liba.so liba.so.2' "$(cd to/lib && echo liba*)"
    expect_same liba.so.2 "$(readlink to/lib/liba.so)"
    put '644 a lib/liba.so' 'link liba.so lib/liba.so.2'
    expect_status 0
    [ ! -L to/lib/liba.so ] || fail 'still a link'
    expect_same one "$(cat to/lib/liba.so.2)"
    run "$install" drop '' "$PWD/to"
    [ ! -e to ] || fail "left: $(find to)"
}

test_broken_off_install_can_be_undone() {
    echo a >a
    put '644 a x/a' '644 missing y/z/b' '644 a x/c'
    expect_status 1
    expect_err 'install: error: cannot write'
    [ -e to/x/a ] || fail 'nothing was installed before it broke'
    run "$install" drop '' "$PWD/to"
    expect_status 0
    [ ! -e to ] || fail "left: $(find to)"
}

test_list_of_somebody_else_removes_nothing() {
    local path
    echo a >a
    echo precious >precious
    for path in "$PWD/precious" "$PWD/to/../precious" "$PWD/to/x/../../precious"; do
        put '644 a x/a'
        printf 'f %s\n' "$path" >>to/lib/hearth/installed
        run "$install" drop '' "$PWD/to"
        expect_status 1
        expect_err 'which is not below'
        [ -e precious ] || fail "removed by $path"
    done
    printf 'd %s\nf %s\n' "$PWD" "$PWD/to/lib/hearth/installed" >to/lib/hearth/installed
    run "$install" drop '' "$PWD/to"
    expect_status 0
    [ -e precious ] || fail 'a folder was removed with what was in it'
}

test_no_permission_is_a_sentence() {
    local user=()
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null || skip 'root can write everywhere'
        user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    fi
    place=$(mktemp -d)
    trap 'chmod -R u+w "$place" && rm -rf "$place"' EXIT
    cp "$install" "$place/"
    chmod 555 "$place"
    echo "644 $place/install.sh x/a" >lines
    run "${user[@]}" "$place/install.sh" put '' "$place/to" <lines
    expect_status 1
    expect_err "install: error: cannot make $place/to. Use another PREFIX, or install as root."
}

# A library in sysroot/ that needs others, and nothing of any system.
put_library() { # NAME [-lOTHER]
    # shellcheck disable=SC2086 # CC may have arguments
    (cd sysroot && ${CC:-gcc} -shared -nostdlib -Wl,--no-as-needed -Wl,-soname,"$1" -x c /dev/null -o "$1" -L. "${@:2}") ||
        skip 'this compiler makes no library without a system'
    echo "pack /$1" >>sysroot/files
}

# prog -> liba -> libb -> liba, and a backend -> libc.
test_needs_of_needs_are_found() {
    mkdir -p sysroot/backends sysroot/usr/share/doc/pack
    echo licence >sysroot/usr/share/doc/pack/copyright
    put_library libb.so
    put_library liba.so -lb
    put_library libb.so -la
    put_library libc.so
    put_library backends/x.so -lc
    put_library prog -la
    run "$install" private sysroot sysroot sysroot/backends sysroot/prog
    expect_status 0
    cut -d' ' -f1,3 "$scratch/out" | sort | diff - <(sort <<EOF
755 lib/hearth/liba.so
755 lib/hearth/libb.so
755 lib/hearth/libc.so
644 lib/hearth/backends/x.so
644 share/doc/hearth/copyright/pack
EOF
    ) || fail 'the list is another one (>: expected)'
}

test_missing_library_is_a_sentence() {
    setup_sysroot
    mkdir -p sysroot/lib sysroot/backends
    cp "$libdir/libllama.so.0" sysroot/backends/b.so
    run "$install" private sysroot sysroot/lib sysroot/backends "$HEARTH"
    expect_status 1
    expect_err 'is needed but is not in sysroot/lib.'
}

test_usage() {
    run "$install" magic
    expect_status 2
    expect_out 'tools/install.sh drop DESTDIR PREFIX'
}

suite_main "$@"

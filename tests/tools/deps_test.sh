#!/usr/bin/env bash
# tools/deps.sh without a network: in its own copy, with an apt-get that serves three tiny packages from a folder and
# writes down what it was asked. dpkg-deb, sha256sum and the rest are the machine's.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"

top=$(cd "$(dirname "$0")/../.." && pwd)
good=http://good.example/debian

# ---- the stage -------------------------------------------------------------------------------------------------

# Always a new file: what has the name may be a link to something that is not ours.
put() { # PATH, the text on stdin
    mkdir -p "$(dirname "$1")" && rm -f "$1" && cat >"$1"
}

put_tool() { # NAME, the script on stdin
    put "fake/$1" && chmod 755 "fake/$1"
}

# A package with one file per PATH; each file holds its own name and TEXT.
put_deb() { # PACKAGE VERSION TEXT PATH...
    local package=$1 version=$2 text=$3 path
    shift 3
    printf 'Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: nobody\nDescription: none\n' "$package" "$version" |
        put "pack/DEBIAN/control"
    for path in "$@" "usr/share/doc/$package/copyright"; do
        echo "$path $text" | put "pack/$path"
    done
    # An absolute link, as some packages have: in a sysroot it must not lead out.
    ln -s /usr/lib/x86_64-linux-gnu/absolute "pack/usr/share/doc/$package/link"
    dpkg-deb --root-owner-group -b pack mirror >/dev/null || fail 'dpkg-deb cannot build a package'
    rm -r pack
}

# The network, a machine with one good mirror, and a tree that has nothing yet.
setup() {
    command -v dpkg-deb >/dev/null || skip 'there is no dpkg-deb on this machine'
    path=$PWD/fake:$PATH
    mkdir -p mirror fake pc home
    put_deb libc6 1 first usr/lib64/ld-linux-x86-64.so.2 usr/lib/x86_64-linux-gnu/libc.so.6
    put_deb libllama-dev 1 first usr/lib/x86_64-linux-gnu/libllama.so
    put_deb libggml0 1 first usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-cpu.so
    put_tool apt-config <<EOF
echo "d='$PWD/etc/'"
EOF
    put_tool apt-cache <<EOF
[ -f tree/.deps/apt/lists/arrived ]
EOF
    put_tool apt-get <<EOF
#!/bin/sh
# The sources.list is the line "deb [signed-by=KEY] URL SUITE main".
deps=\$(dirname "\$(dirname "\$(for a; do case \$a in */apt.conf) echo "\$a" ;; esac; done)")")
case " \$* " in
*' update '*)
    cat "\$deps/apt/sources.list" >>$PWD/asked
    rm -f "\$deps/apt/lists/arrived"
    grep -q " $good forky main" "\$deps/apt/sources.list" && : >"\$deps/apt/lists/arrived"
    exit 0 ;;
*' --print-uris '*)
    echo "\$@" >$PWD/wanted
    [ ! -f $PWD/refuses ] || { cat $PWD/refuses >&2; exit 100; }
    for deb in $PWD/mirror/*.deb; do
        printf "'%s' %s %d SHA256:%s\n" "$good/\${deb##*/}" "\${deb##*/}" "\$(wc -c <"\$deb")" \\
            "\$(sha256sum <"\$deb" | cut -d' ' -f1)"
    done ;;
*' --download-only '*)
    left=\$(cat $PWD/stop_after 2>/dev/null || echo 99)
    for deb in $PWD/mirror/*.deb; do
        to=\$deps/debs/\${deb##*/}
        # Like apt, it takes a file of the right size for the right file.
        [ "\$(wc -c <"\$to" 2>/dev/null)" = "\$(wc -c <"\$deb")" ] && continue
        [ "\$left" -gt 0 ] || { echo 'E: the cable was pulled'; exit 100; }
        left=\$((left - 1))
        echo "got \${deb##*/}" >>$PWD/asked
        cp "\$deb" "\$to"
    done ;;
esac
EOF
    printf 'Types: deb\nURIs: %s\nSuites: bookworm\n' $good | put etc/sources.list.d/debian.sources
    clone
}

# A fresh clone of the tree, in the place of the old one.
clone() {
    rm -rf tree
    mkdir -p tree/tools
    cp "$top/tools/deps.sh" tree/tools/
}

deps() { # [VAR=VALUE]... [-- ARGUMENT...]
    local settings=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        settings+=("$1")
        shift
    done
    run env -i PATH="$path" HOME="$PWD/home" HEARTH_CACHE_DIR="$PWD/cache" HEARTH_DEPS=sysroot \
        HEARTH_DEPS_ROOT="$PWD/root" PKG_CONFIG_LIBDIR="$PWD/pc" "${settings[@]}" tree/tools/deps.sh "${@:2}"
}

# Goes to a folder that others may enter: the usual one may be below one that is closed to them.
open_scratch() {
    place=$(mktemp -d)
    cd "$place" || fail 'no scratch folder'
    chmod 755 "$place"
    trap 'cd / && chmod -R u+w "$place" && rm -rf "$place"' EXIT
}

# It fails with its own sentence, not with a tool's, and leaves nothing that make would take for a result.
expect_sentence() { # TEXT
    expect_status 1
    expect_err 'deps: error: '
    expect_err "$1"
    [ ! -e tree/.deps/config.mk ] || fail 'there is a configuration all the same'
}

expect_sysroot() { # [TEXT of libllama.so]
    expect_status 0
    [ "$(cat tree/.deps/sysroot/usr/lib/x86_64-linux-gnu/libllama.so)" = "usr/lib/x86_64-linux-gnu/libllama.so ${1:-first}" ] ||
        fail 'libllama.so is not what the mirror has'
    [ "$(find tree/.deps/sysroot -name 'lib*.so*' -type f | wc -l)" = 3 ] || fail 'the sysroot is not complete'
    grep -q '^DEPS_MODE *:= sysroot$' tree/.deps/config.mk || fail 'no configuration'
}

expect_asked() { # LINE...
    diff <(for line in "$@"; do echo "$line"; done) <(cat asked 2>/dev/null) || fail 'the mirror was asked for something else (<: expected)'
}

# From now on nothing is found but these tools and the fakes. (No links to the real ones: see put.)
only_tools() { # LACKING...
    local tool real
    for tool in sh env awk cat cmp cp cut df dirname dpkg dpkg-deb du find flock grep head ln ls mkdir mv pkg-config \
        readlink rm sed sha256sum sort tail tar touch tr wc; do
        [ ! -e "fake/$tool" ] && real=$(command -v "$tool") && printf '#!/bin/sh\nexec %s "$@"\n' "$real" | put_tool "$tool"
    done
    for tool in "$@"; do
        rm -f "fake/$tool"
    done
    path=$PWD/fake
}

# The first byte of a file's second half, changed.
damage() { # FILE
    local at=$(($(wc -c <"$1") / 2)) byte
    byte=$(od -An -tu1 -j$at -N1 "$1")
    # A new file: the old one may have other names.
    cp "$1" "$1.new"
    printf '%b' "\\0$(printf %o $((byte ^ 255)))" | dd of="$1.new" bs=1 seek=$at conv=notrunc status=none
    mv "$1.new" "$1"
}

# ---- what it makes ---------------------------------------------------------------------------------------------

test_fetches_and_unpacks() {
    setup
    deps
    expect_sysroot
    diff - tree/.deps/config.mk <<'EOF' || fail 'the configuration is another one'
# Written by tools/deps.sh; safe to delete.
DEPS_MODE     := sysroot
DEPS_GPU      := none
DEPS_SYSROOT  := $(CURDIR)/.deps/sysroot
DEPS_LIBDIR   := $(DEPS_SYSROOT)/usr/lib/x86_64-linux-gnu
DEPS_LOADER   := $(DEPS_SYSROOT)/usr/lib64/ld-linux-x86-64.so.2
DEPS_BACKENDS := $(DEPS_SYSROOT)/usr/lib/x86_64-linux-gnu/ggml/backends0
DEPS_UPLOT    := $(DEPS_SYSROOT)/usr/share/nodejs/uplot
EOF
    [ "$(readlink tree/.deps/sysroot/lib)" = usr/lib ] || fail '/lib is not usr/lib'
    case $(readlink tree/.deps/sysroot/usr/share/doc/libc6/link) in
    /*) fail 'a link leads out of the sysroot' ;;
    esac
    grep -qx 'libggml0 /usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-cpu.so' tree/.deps/sysroot/files ||
        fail 'it is not noted which package a library is from'
    expect_asked "deb $good forky main" 'got libc6_1_amd64.deb' 'got libggml0_1_amd64.deb' 'got libllama-dev_1_amd64.deb'
}

test_second_run_does_nothing() {
    setup
    deps
    expect_sysroot
    local before
    before=$(find tree/.deps ! -name config.mk ! -name lock ! -path tree/.deps -printf '%p %i %T@\n' | sort)
    rm asked
    # Not even tools or space are asked for.
    only_tools apt-get apt-cache apt-config dpkg-deb
    put_tool df </dev/null
    deps
    expect_sysroot
    expect_no_out
    expect_no_err
    expect_asked
    [ "$before" = "$(find tree/.deps ! -name config.mk ! -name lock ! -path tree/.deps -printf '%p %i %T@\n' | sort)" ] ||
        fail 'files changed'
}

test_second_clone_needs_no_network() {
    setup
    deps
    rm -r asked mirror
    clone
    deps
    expect_sysroot
    expect_asked
}

test_update_asks_again() {
    setup
    deps
    rm mirror/libllama-dev*
    put_deb libllama-dev 2 second usr/lib/x86_64-linux-gnu/libllama.so
    deps
    expect_sysroot first
    deps -- --update
    expect_sysroot second
}

test_configuration_can_go_elsewhere() {
    setup
    deps HEARTH_DEPS_CONFIG="$PWD/other.mk"
    expect_status 0
    grep -q '^DEPS_MODE *:= sysroot$' other.mk || fail 'other.mk is not there'
    [ ! -e tree/.deps/config.mk ] || fail 'the usual one was written, too'
}

test_two_at_once_download_once() {
    setup
    command -v flock >/dev/null || skip 'there is no flock on this machine'
    (scratch=$PWD && deps && exit "$status") & # its output goes to its own files
    deps
    expect_sysroot
    wait $! || fail 'the other one failed'
    [ "$(grep -c '^got' asked)" = 3 ] || fail 'something was downloaded twice'
}

test_needs_no_root() {
    local user=()
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null || skip 'root cannot become nobody here'
        user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    fi
    open_scratch
    setup
    [ ${#user[@]} = 0 ] || chown -R 65534:65534 .
    run env -i PATH="$path" HOME="$PWD/home" HEARTH_DEPS=sysroot "${user[@]}" tree/tools/deps.sh
    expect_sysroot
    [ -d home/.cache/hearth/debs ] || fail 'nothing is kept for other clones'
}

# ---- what may be wrong -----------------------------------------------------------------------------------------

test_unknown_mode() {
    setup
    deps HEARTH_DEPS=magic
    expect_sentence 'HEARTH_DEPS=magic: expected auto, system or sysroot.'
}

test_unknown_argument_gets_the_usage() {
    setup
    deps -- --magic
    expect_status 2
    expect_out 'tools/deps.sh --update'
}

test_no_apt() {
    setup
    only_tools apt-get
    deps
    expect_sentence "'apt-get' is not here"
    expect_err 'llama (>= 0.7.0)'
    expect_err "with the system's package manager"
}

test_no_pkg_config() {
    setup
    only_tools pkg-config
    deps
    expect_sentence "'pkg-config' is not here. Install it"
}

test_no_mirror() {
    setup
    rm -r etc
    deps
    expect_sentence "apt sources name no mirror. Set HEARTH_DEPS_MIRROR"
}

test_mirror_without_the_suite() {
    setup
    deps HEARTH_DEPS_MIRROR=http://old.example/
    expect_sentence "answered with Debian 'forky'"
    expect_err 'Check the network, or set HEARTH_DEPS_MIRROR'
}

test_unreachable_mirror() {
    command -v apt-get >/dev/null || skip 'there is no apt-get on this machine'
    setup
    rm fake/apt-get fake/apt-cache
    deps HEARTH_DEPS_MIRROR=http://127.0.0.1:1/ http_proxy=
    expect_sentence 'Check the network, or set HEARTH_DEPS_MIRROR'
    expect_err '127.0.0.1:1' # apt's own words come before ours
}

test_little_space() {
    setup
    put_tool df <<'EOF'
echo Filesystem 1024-blocks Used Available Capacity Mounted
echo /dev/sda 1000000 897600 102400 90% /
EOF
    deps
    expect_sentence 'only 100 MiB are free'
    expect_err '488 MiB are needed'
    expect_asked
}

test_read_only_tree() {
    local user=()
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null || skip 'root can write everywhere'
        user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    fi
    open_scratch
    setup
    chmod 555 tree
    run env -i PATH="$path" HEARTH_DEPS=sysroot "${user[@]}" tree/tools/deps.sh
    expect_sentence 'Is the tree read-only?'
    # The same when an earlier run of another user has left a folder.
    chmod 755 tree
    mkdir -m 555 tree/.deps
    run env -i PATH="$path" HEARTH_DEPS=sysroot "${user[@]}" tree/tools/deps.sh
    expect_sentence 'Is the tree read-only?'
}

test_interrupted_download_goes_on() {
    setup
    echo 2 >stop_after
    deps
    expect_sentence 'What arrived is kept: run make again'
    expect_err 'the cable was pulled'
    rm stop_after asked
    deps
    expect_sysroot
    expect_asked "deb $good forky main" 'got libllama-dev_1_amd64.deb'
}

test_lost_package_is_fetched_alone() {
    setup
    deps
    rm -r asked tree/.deps/sysroot tree/.deps/debs/libggml0* cache/debs/libggml0*
    deps
    expect_sysroot
    expect_asked "deb $good forky main" 'got libggml0_1_amd64.deb'
    [ -f cache/debs/libggml0_1_amd64.deb ] || fail 'it is not kept for other clones'
}

test_damaged_package_is_not_used() {
    setup
    deps
    damage cache/debs/libllama-dev_1_amd64.deb
    clone
    mv fake/apt-get away
    put_tool apt-get <<'EOF'
exit 100
EOF
    deps
    expect_sentence 'Check the network'
    expect_err 'libllama-dev_1_amd64.deb is damaged'
    [ ! -d tree/.deps/sysroot ] || fail 'it was unpacked all the same'
    # With a network again only that file is fetched, and the cache is whole again.
    mv away fake/apt-get
    rm asked
    deps
    expect_sysroot
    expect_asked "deb $good forky main" 'got libllama-dev_1_amd64.deb'
    cmp mirror/libllama-dev_1_amd64.deb cache/debs/libllama-dev_1_amd64.deb || fail 'the cache still has the damaged one'
}

test_damaged_package_of_the_mirror_is_not_used() {
    setup
    put_tool sha256sum <<EOF
# The signed list, made from stdin, says one thing and the files that arrive say another.
[ \$# -gt 0 ] || exec $(command -v sha256sum)
cp $PWD/damaged $PWD/tree/.deps/debs/libc6_1_amd64.deb 2>/dev/null
exec $(command -v sha256sum) "\$@"
EOF
    cp mirror/libc6_1_amd64.deb damaged
    damage damaged
    deps
    expect_sentence 'the download stopped'
    expect_err 'libc6_1_amd64.deb: FAILED'
}

test_broken_off_unpacking_starts_again() {
    setup
    deps
    # As if it had been killed: an old half, no whole one.
    mv tree/.deps/sysroot tree/.deps/sysroot.new
    : >tree/.deps/sysroot.new/usr/lib/x86_64-linux-gnu/libstale.so
    rm asked
    deps
    expect_sysroot
    expect_asked
}

# ---- the system's libraries ------------------------------------------------------------------------------------

put_modules() { # VERSION of every module
    local module
    for module in llama ggml libuv libllhttp yyjson libblake3 libxxhash libsodium inih cmocka; do
        printf 'libdir=%s\nName: x\nDescription: x\nVersion: %s\n' "$PWD/lib" "$1" >pc/$module.pc
    done
}

test_system_libraries_are_taken() {
    local mode
    setup
    put_modules 999
    mkdir -p lib/ggml/backends0
    for mode in auto system; do
        rm -rf tree/.deps
        deps HEARTH_DEPS=$mode
        expect_status 0
        printf 'DEPS_MODE     := system\nDEPS_GPU      := none\nDEPS_BACKENDS := %s\nDEPS_UPLOT    := %s\n' "$PWD/lib/ggml/backends0" /usr/share/nodejs/uplot |
            diff - <(grep -v '^#' tree/.deps/config.mk) || fail 'the configuration is another one'
    done
    expect_asked
}

test_missing_system_libraries_are_named() {
    setup
    put_modules 999
    rm pc/yyjson.pc pc/inih.pc
    deps HEARTH_DEPS=system
    expect_sentence 'the system lacks: yyjson>=0.8.0 inih>=56'
    expect_asked
    deps HEARTH_DEPS=auto
    expect_sysroot
}

test_old_system_libraries_are_named() {
    setup
    put_modules 999
    sed -i 's/999/0.6.9/' pc/llama.pc
    deps HEARTH_DEPS=system
    expect_sentence 'the system lacks: llama>=0.7.0'
}

# The configuration of an earlier run is no excuse to ignore what is asked for now.
test_make_asks_again_for_another_mode() {
    setup
    cp "$top/Makefile" tree/
    cp "$top"/tools/*.mk tree/tools/
    mkdir tree/src tree/tests
    deps
    expect_sysroot
    run env -i PATH="$path" HOME="$PWD/home" PKG_CONFIG_LIBDIR="$PWD/pc" HEARTH_DEPS=system make -C tree -n all
    expect_status 2
    expect_err 'HEARTH_DEPS=system, but the system lacks: llama'
}

# ---- a llama.cpp at a prefix -----------------------------------------------------------------------------------

# An installed llama.cpp; its libraries need each other as real ones do.
put_llama() { # LIBDIR
    local lib
    echo 'int a;' >empty.c
    mkdir -p "$1" llama/include
    touch llama/include/llama.h llama/include/ggml.h
    gcc -shared -nostdlib -Wl,-soname,libggml-base.so.0 -o "$1/libggml-base.so" empty.c
    gcc -shared -nostdlib -Wl,-soname,libggml.so.0 -Wl,--no-as-needed -o "$1/libggml.so" empty.c "$1/libggml-base.so"
    for lib in libllama.so.0.2.0 libggml-cpu.so; do
        gcc -shared -nostdlib -o "$1/$lib" empty.c
    done
    ln -s libllama.so.0.2.0 "$1/libllama.so"
}

llama_line() { # NAME
    sed -n "s,^DEPS_$1 *:= ,,p" tree/.deps/config.mk | tail -n 1 | sed 's, *$,,'
}

expect_llama() { # LIBDIR INCLUDE BACKENDS
    expect_status 0
    [ "$(llama_line LLAMA_LIBDIR) $(llama_line LLAMA_INCLUDE) $(llama_line BACKENDS)" = "$1 $2 $3" ] ||
        fail "$(cat tree/.deps/config.mk)"
}

# The libraries of the system without a llama.cpp: it is asked for nothing that the prefix has.
test_llama_of_a_prefix() {
    setup
    put_modules 999
    rm pc/llama.pc pc/ggml.pc
    put_llama llama/lib
    deps HEARTH_DEPS=system HEARTH_DEPS_LLAMA="$PWD/llama"
    expect_llama "$PWD"/llama/{lib,include,lib}
    [ "$(llama_line MODE) $(llama_line LLAMA_VERSION)" = 'system 0.2.0' ] || fail "$(cat tree/.deps/config.mk)"
    mkdir -p llama/bin && mv llama/lib/libggml-cpu.so llama/bin/
    deps HEARTH_DEPS=system HEARTH_DEPS_LLAMA="$PWD/llama"
    expect_llama "$PWD"/llama/{lib,include,bin}
    mkdir -p llama/lib/ggml && mv llama/bin llama/lib/ggml/backends0
    deps HEARTH_DEPS_LLAMA="$PWD/llama"
    expect_llama "$PWD"/llama/{lib,include,lib/ggml/backends0}
    [ "$(llama_line MODE)" = sysroot ] || fail "$(cat tree/.deps/config.mk)"
    deps
    expect_sysroot
    [ -z "$(llama_line LLAMA)" ] || fail 'the prefix is still there'
}

# pkg-config's files of the prefix are read as they are: a sysroot is not put in front of what they say.
test_llama_with_pkg_config_files() {
    setup
    put_llama llama/elsewhere/libs
    mkdir -p llama/lib/pkgconfig && mv llama/include llama/elsewhere/
    printf 'libdir=${pcfiledir}/../../elsewhere/libs\nincludedir=${pcfiledir}/../../elsewhere/include\nName: x\nDescription: x\nVersion: 7.8\n' \
        >llama/lib/pkgconfig/llama.pc
    deps PKG_CONFIG_SYSROOT_DIR=/nonexistent HEARTH_DEPS_LLAMA="$PWD/llama"
    expect_llama "$PWD"/llama/elsewhere/{libs,include,libs}
    [ "$(llama_line LLAMA_VERSION)" = 7.8 ] || fail "$(cat tree/.deps/config.mk)"
}

# In a build folder of the sources the libraries are in bin/, the headers above it.
test_llama_of_a_build_folder() {
    setup
    put_llama llama/build/bin
    mkdir -p llama/ggml/include && mv llama/include/ggml.h llama/ggml/include/
    deps HEARTH_DEPS_LLAMA="$PWD/llama/build"
    expect_llama "$PWD/llama/build/bin" "$PWD/llama/include $PWD/llama/ggml/include" "$PWD/llama/build/bin"
}

# Backends that are no plug-ins are libraries that libggml.so needs: they are linked directly as well.
test_llama_with_linked_backends() {
    setup
    put_llama llama/lib
    gcc -shared -nostdlib -Wl,--no-as-needed -o llama/lib/libggml.so empty.c -Lllama/lib -lggml-base -lggml-cpu
    deps HEARTH_DEPS_LLAMA="$PWD/llama"
    expect_status 0
    [ "$(llama_line LLAMA_LIBS)" = '-lllama -lggml -lggml-base -lggml-cpu' ] || fail "$(llama_line LLAMA_LIBS)"
}

test_llama_that_is_not_there() {
    setup
    deps HEARTH_DEPS_LLAMA="$PWD/llama"
    expect_sentence 'no llama.h and ggml.h are there'
    put_llama llama/lib
    rm llama/lib/libggml-base.so
    deps HEARTH_DEPS_LLAMA="$PWD/llama"
    expect_sentence 'no libllama.so, libggml.so and libggml-base.so are there'
}

# ---- plug-ins of GPUs ------------------------------------------------------------------------------------------

expect_gpu() { # NAME PACKAGE
    expect_status 0
    [ "$(llama_line GPU)" = "$1" ] || fail "the configuration says $(llama_line GPU)"
    grep -q " $2" wanted || fail "apt was asked for: $(cat wanted)"
}

test_gpu_by_name() {
    local name
    setup
    for name in vulkan hip cuda; do
        deps HEARTH_DEPS_GPU=$name
        expect_gpu $name libggml0-backend-$name
    done
    grep -q ' forky main contrib non-free$' tree/.deps/apt/sources.list || fail 'CUDA is not in main'
    # It stays when nothing is asked for, and goes when that is.
    deps
    expect_gpu cuda libggml0-backend-cuda
    deps HEARTH_DEPS_GPU=none
    expect_gpu none libllama-dev
    ! grep -q backend wanted || fail "apt was asked for: $(cat wanted)"
    clone
    deps HEARTH_DEPS_GPU=magic
    expect_sentence 'GPU=magic: expected auto, none, vulkan, hip or cuda.'
}

# Only a card that programs here may use counts, and only one that computes.
test_gpu_that_is_found() {
    setup
    mkdir -p root/sys/class/drm/renderD128/device
    echo 0x1002 >root/sys/class/drm/renderD128/device/vendor
    deps
    expect_gpu none libllama-dev
    mkdir -p root/dev/dri && touch root/dev/dri/renderD128
    deps
    expect_gpu vulkan libggml0-backend-vulkan
    deps HEARTH_DEPS_GPU=none
    expect_gpu none libllama-dev
    clone
    echo 0x1af4 >root/sys/class/drm/renderD128/device/vendor # a virtual machine's
    deps
    expect_gpu none libllama-dev
    touch root/dev/nvidia0
    deps
    expect_gpu vulkan libggml0-backend-vulkan
}

test_gpu_without_a_package() {
    setup
    echo 'E: Unable to locate package libggml0-backend-cuda' >refuses
    deps HEARTH_DEPS_GPU=cuda
    expect_sentence "GPU=cuda: Debian 'forky' has no package of it. Use GPU=vulkan"
}

# With libraries of the system or of a prefix the plug-in has to be there.
test_gpu_of_other_libraries() {
    setup
    put_modules 999
    mkdir -p lib/ggml/backends0
    deps HEARTH_DEPS=system HEARTH_DEPS_GPU=vulkan
    expect_sentence "GPU=vulkan: there is no libggml-vulkan.so in $PWD/lib/ggml/backends0"
    touch lib/ggml/backends0/libggml-vulkan.so
    deps HEARTH_DEPS=system HEARTH_DEPS_GPU=vulkan
    expect_status 0
    put_llama llama/lib
    clone
    deps HEARTH_DEPS_LLAMA="$PWD/llama" HEARTH_DEPS_GPU=cuda
    expect_sentence "GPU=cuda: there is no libggml-cuda.so in $PWD/llama/lib"
    touch llama/lib/libggml-cuda.so.0
    deps HEARTH_DEPS_LLAMA="$PWD/llama" HEARTH_DEPS_GPU=cuda
    expect_status 0
}

# ---- the machine's mirrors -------------------------------------------------------------------------------------

# Each mirror is asked in turn until one has the suite; the good one is in the security stanza and so comes last.
test_deb822_sources() {
    setup
    touch key.gpg
    put etc/sources.list.d/debian.sources <<EOF
# The security archive
Types: deb
URIs: $good
Suites: bookworm-security
Signed-By: $PWD/key.gpg

Types: deb-src
URIs: http://source.example/

Enabled: no
Types: deb
URIs: http://disabled.example/

types: deb-src deb
uris: http://one.example/ http://two.example/
Suites: bookworm bookworm-updates
# a comment between fields
Components: main
Signed-By: $PWD/key.gpg

Types: deb
URIs:
 http://three.example/
# a comment between lines of a field
 http://four.example/
Suites: bookworm
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 /AAAA
 -----END PGP PUBLIC KEY BLOCK-----
EOF
    printf 'Types: deb\nURIs: http://one.example/\nSuites: x\n\n\nTypes: deb\nEnabled: False\nURIs: http://off.example/' |
        put etc/sources.list.d/other.sources
    printf 'Types: deb\nURIs: http://backup.example/\n' | put etc/sources.list.d/third.sources.bak
    deps
    expect_sysroot
    grep '^deb' asked | diff - <(sed 's/^/deb /; s/$/ forky main/' <<EOF
[signed-by=$PWD/key.gpg] http://one.example/
[signed-by=$PWD/key.gpg] http://two.example/
http://three.example/
http://four.example/
[signed-by=$PWD/key.gpg] $good
EOF
    ) || fail 'the mirrors are not asked in this way (>: expected)'
}

test_one_line_sources() {
    setup
    touch key.gpg
    rm -r etc
    put etc/sources.list <<EOF
# deb http://comment.example/ bookworm main
deb cdrom:[Debian 12 _Bookworm_]/ bookworm main
deb-src http://source.example/ bookworm main
deb $good bookworm-security main
deb http://one.example/ bookworm main # the first
  deb [arch=amd64 signed-by=$PWD/key.gpg] http://two.example/ bookworm main
EOF
    printf 'deb [ signed-by=%s ] http://three.example/ x main\ndeb [arch=amd64] http://one.example/ y main\n' \
        "$PWD/nowhere.gpg" | put etc/sources.list.d/more.list
    printf 'deb http://disabled.example/ x main\n' | put etc/sources.list.d/more.list.disabled
    deps
    expect_sysroot
    grep '^deb' asked | diff - <(sed 's/^/deb /; s/$/ forky main/' <<EOF
http://one.example/
[signed-by=$PWD/key.gpg] http://two.example/
http://three.example/
$good
EOF
    ) || fail 'the mirrors are not asked in this way (>: expected)'
}

test_given_mirror_is_the_only_one() {
    setup
    printf 'Types: deb\nURIs: http://machine.example\nSuites: bookworm\n' | put etc/sources.list.d/debian.sources
    deps HEARTH_DEPS_MIRROR=$good
    expect_sysroot
    ! grep -q machine.example asked || fail "the machine's mirror was asked"
}

# ---- --status --------------------------------------------------------------------------------------------------

test_status_changes_nothing() {
    setup
    deps -- --status
    expect_status 0
    expect_err 'not in the system: llama>=0.7.0'
    expect_err 'no sysroot here'
    [ ! -e tree/.deps ] || fail 'it made something'
    deps
    deps -- --status
    expect_status 0
    expect_err '3 packages'
    expect_err 'kept for other clones'
}

suite_main "$@"

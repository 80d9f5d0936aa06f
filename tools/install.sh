#!/bin/sh
# install.sh: put files below DESTDIR/PREFIX, remember which, and take exactly those away again.
#
#   tools/install.sh put DESTDIR PREFIX      install the files named on stdin, one "MODE SOURCE TARGET" per line, TARGET
#                                            relative to PREFIX; what an earlier put left and this one lacks is removed.
#                                            MODE "link" makes a symbolic link to SOURCE, which is text then
#   tools/install.sh drop DESTDIR PREFIX     remove what put installed
#   tools/install.sh private SYSROOT LIBDIR BACKENDS PROGRAM [LLAMA_LIBDIR]
#                                            print such lines for what PROGRAM needs of a private sysroot. What LLAMA_LIBDIR has
#                                            stays there, and so do its backends
#
# The memory is PREFIX/lib/hearth/installed: "f PATH" for a file, "d PATH" for a folder that was not there before, paths
# absolute and without DESTDIR. On a stage (DESTDIR) every folder is new, /usr too, and that says nothing about the machine
# where the files will go: there only folders of our own name are noted. The list is written before the first file is, so that a broken-off install can be undone. Any
# clone can uninstall what another one installed, and an upgrade leaves no old library behind.
#
# A file that is already there with the same bytes is not touched; another one is replaced by rename, so that a running
# server keeps the program and the libraries it has mapped. Nothing here asks for root: who may not write gets a sentence.
set -eu
umask 022

die() {
    printf 'install: error: %s\n' "$*" >&2
    exit 1
}

# ---- what a program needs --------------------------------------------------------------------------------

# Prints the libraries of DIR that the FILEs need, directly or not. The loader is among them: the C library needs it.
closure() { # DIR FILE...
    dir=$1
    shift
    seen=' '
    while [ $# -gt 0 ]; do
        dynamic=$(LC_ALL=C readelf -d "$1") || die "cannot read what $1 needs."
        shift
        for name in $(printf '%s\n' "$dynamic" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
            case $seen in *" $name "*) continue ;; esac
            seen="$seen$name "
            if [ -n "$llama" ] && [ -e "$llama/$name" ]; then continue; fi
            [ -f "$dir/$name" ] || die "$name is needed but is not in $dir."
            printf '%s\n' "$dir/$name"
            set -- "$@" "$dir/$name"
        done
    done
}

# The package that a file of the sysroot came with; deps.sh has noted it.
package_of() { # SYSROOT FILE
    path=$(readlink -f "$2")
    awk -v path="${path#"$(readlink -f "$1")"}" '$2 == path {print $1; exit}' "$1/files"
}

private() { # SYSROOT LIBDIR BACKENDS PROGRAM
    # NVIDIA's Vulkan driver is loaded at run time and needs this library and libX11, which this one needs. GPU=vulkan has fetched them.
    driver=$2/libXext.so.6
    [ -e "$driver" ] || driver=
    plugins=
    [ -n "$llama" ] || plugins=$(printf '%s\n' "$3"/*.so)
    # shellcheck disable=SC2086 # lists
    libs="$driver $(closure "$2" "$4" $plugins $driver)"
    for lib in $libs; do
        echo "755 $lib lib/hearth/${lib##*/}"
    done
    for lib in $plugins; do
        echo "644 $lib lib/hearth/backends/${lib##*/}"
    done
    for lib in $libs $plugins; do
        package=$(package_of "$1" "$lib")
        [ -n "$package" ] || die "no package is known for $lib, so its licence is not either. Remove .deps and run make again."
        echo "644 $1/usr/share/doc/$package/copyright share/doc/hearth/copyright/$package"
    done | sort -u
}

# ---- putting and dropping --------------------------------------------------------------------------------

# Makes a folder and notes each level that was not there.
make_dir() { # PATH
    if [ -z "$1" ] || [ -d "$root$1" ]; then return; fi
    make_dir "${1%/*}"
    mkdir "$root$1" || die "cannot make $root$1. Use another PREFIX, or install as root."
    case $root:$1/ in
        :* | *:"$prefix"/*/hearth/*) printf 'd %s\n' "$1" >>"$new" ;;
    esac
}

copy() { # MODE SOURCE PATH
    if [ "$1" = link ]; then ln -s "$2" "$3"; else cp "$2" "$3" && chmod "$1" "$3"; fi
}

put_file() { # MODE SOURCE PATH
    if [ "$1" = link ]; then
        [ "$(readlink "$root$3")" = "$2" ] && return
    else
        [ ! -L "$root$3" ] && cmp -s "$2" "$root$3" && return
    fi
    # The name of the copy has no ".so": a program that starts just now does not take it for a backend.
    part=$root${3%/*}/.hearth.$$
    if ! { copy "$1" "$2" "$part" && mv -f "$part" "$root$3"; }; then
        rm -f "$part"
        die "cannot write $root$3. Is the disk full?"
    fi
    changed=$((changed + 1))
}

# Files first, then folders from the deepest up, unless they contain other files: rmdir, never more. A list that
# names files of others was not written here.
remove() { # LIST
    sed -n 's/^f //p' "$1" | while read -r path; do
        case $path in
            */../*) die "$root$list names $path, which is not below ${prefix:-/}." ;;
            "$prefix"/*) ;;
            *) die "$root$list names $path, which is not below ${prefix:-/}." ;;
        esac
        rm -f "$root$path" || die "cannot remove $root$path. Uninstall as the user who installed."
    done
    sed -n 's/^d //p' "$1" | LC_ALL=C sort -r | while read -r path; do
        rmdir "$root$path" 2>/dev/null || :
    done
}

put() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    new=$work/new changed=0
    cat >"$work/lines"
    [ -z "$root" ] || mkdir -p "$root" || die "cannot make $root. Use another DESTDIR."
    if [ -f "$root$list" ]; then cp "$root$list" "$work/old"; else : >"$work/old"; fi
    while read -r _ _ target; do
        make_dir "$(dirname "$prefix/$target")"
        printf 'f %s\n' "$prefix/$target" >>"$new"
    done <"$work/lines"
    make_dir "${list%/*}"
    printf 'f %s\n' "$list" >>"$new"
    # A folder that an earlier put made is still ours.
    sed -n '/^d /p' "$work/old" >>"$new"
    LC_ALL=C sort -u "$new" -o "$new"
    LC_ALL=C sort -u "$new" "$work/old" >"$work/both"
    put_file 644 "$work/both" "$list"
    changed=0
    while read -r mode source target; do
        put_file "$mode" "$source" "$prefix/$target"
    done <"$work/lines"
    LC_ALL=C comm -13 "$new" "$work/both" >"$work/gone"
    remove "$work/gone"
    files=$(wc -l <"$work/lines")
    printf 'install: %d files below %s, %d of them new\n' "$files" "$root${prefix:-/}" "$changed"
    put_file 644 "$new" "$list"
}

drop() {
    [ -f "$root$list" ] || die "nothing is installed below $root${prefix:-/} ($root$list is not there)."
    old=$(mktemp)
    trap 'rm -f "$old"' EXIT
    cp "$root$list" "$old"
    remove "$old"
    printf 'install: %d files removed below %s\n' "$(($(grep -c '^f ' "$old") - 1))" "$root${prefix:-/}"
}

case ${1:-} in
    put | drop)
        [ $# -eq 3 ] || die "$1 takes DESTDIR and PREFIX."
        root=${2%/} prefix=${3%/} list=${3%/}/lib/hearth/installed
        "$1"
        ;;
    private)
        [ $# -eq 5 ] || [ $# -eq 6 ] || die 'private takes SYSROOT, LIBDIR, BACKENDS, PROGRAM and perhaps LLAMA_LIBDIR.'
        shift
        llama=${5:-}
        private "$@"
        ;;
    *) sed -n '2,/^set -eu/{/^#/s/^# \{0,1\}//p}' "$0" && exit 2 ;;
esac

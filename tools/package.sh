#!/bin/sh
# package.sh: archives of what `make install` has staged. `make package` calls it.
#
#   tools/package.sh tarball DIR VERSION   DIR/tarball/opt/hearth becomes DIR/hearth-VERSION-linux-x86_64.tar.xz
#   tools/package.sh deb DIR VERSION       DIR/deb becomes DIR/hearth_VERSION_amd64.deb, and DIR/hearth-lab_VERSION_amd64.deb
#
# Both have the private libraries inside, the C library and its loader included, so they run on older systems. The path of a
# loader in a program is absolute. A tarball can be unpacked anywhere, so bin/hearth there (and bin/hearth-lab) is a script that starts the program
# with its own loader. PACKAGE_XZ sets the strength of the compression.
set -eu
umask 022

die() {
    printf 'package: error: %s\n' "$*" >&2
    exit 1
}

[ $# -eq 3 ] || die 'expected tarball or deb, a folder and a version'
kind=$1 dir=$2 version=$3

# For programs that link libhearth; not for people who run the server.
drop_development() { # PREFIX
    rm -rf "$1/include" "$1/lib/hearth/host" "$1/lib/hearth/installed" "$1/lib/pkgconfig" "$1"/lib/libhearth.*
}

need_loader() { # PREFIX
    set -- "$1"/lib/hearth/ld-linux*
    [ -e "$1" ] || die 'there are no private libraries to put in; run make package HEARTH_DEPS=sysroot'
    loader=${1##*/}
}

tarball() {
    name=hearth-$version-linux-$(uname -m)
    need_loader "$dir/tarball/opt/hearth"
    mv "$dir/tarball/opt/hearth" "$dir/$name"
    drop_development "$dir/$name"
    rm -rf "$dir/$name/lib/systemd" "$dir/$name/lib/sysusers.d" "$dir/$name/lib/tmpfiles.d"
    for program in hearth hearth-lab; do
        mv "$dir/$name/bin/$program" "$dir/$name/lib/hearth/$program"
        strip "$dir/$name/lib/hearth/$program"
        starter $program >"$dir/$name/bin/$program"
        chmod 755 "$dir/$name/bin/$program"
    done
    tar -C "$dir" --owner=0 --group=0 --sort=name -c "$name" | xz -T0 "${PACKAGE_XZ:--6}" >"$dir/$name.tar.xz"
    show "$dir/$name.tar.xz"
}

# hearth-lab has links, whose names say what it should do.
starter() { # PROGRAM
    cat <<EOF
#!/bin/sh
# Starts $1 with the loader and the libraries beside it, wherever this folder is. A link to this script works as well.
me=\$(readlink -f "\$0") || exit 1
libs=\${me%/bin/*}/lib/hearth
export HEARTH_PROGRAM="\$me" HEARTH_BACKENDS="\${HEARTH_BACKENDS:-\$libs/backends}"
exec "\$libs/$loader" --argv0 "\$0" --library-path "\$libs" "\$libs/$1" "\$@"
EOF
}

deb() {
    arch=$(dpkg --print-architecture)
    root=$dir/deb
    need_loader "$root/usr"
    drop_development "$root/usr"
    rm -rf "$root/usr/share/doc/hearth/LICENSE" "$root/usr/share/doc/hearth/examples"
    mv "$root/usr/share/doc/hearth/copyright" "$root/usr/share/doc/hearth/licences"
    cp "${0%/*}/../debian/copyright" "$root/usr/share/doc/hearth/copyright"
    strip "$root/usr/bin/hearth" "$root/usr/bin/hearth-lab"
    rm -rf "$root-lab"
    mkdir -p "$root/DEBIAN" "$root-lab/DEBIAN" "$root-lab/usr/bin"
    mv "$root"/usr/bin/hearth-* "$root-lab/usr/bin/"
    control hearth "$root" ''  >"$root/DEBIAN/control"
    control hearth-lab "$root-lab" "Depends: hearth (= $version)" >"$root-lab/DEBIAN/control"
    # The user and the settings, where systemd can make them; without it the program runs all the same.
    cat >"$root/DEBIAN/postinst" <<'EOF'
#!/bin/sh
set -e
if [ "$1" = configure ] && command -v systemd-sysusers >/dev/null && command -v systemd-tmpfiles >/dev/null; then
    systemd-sysusers hearth.conf
    systemd-tmpfiles --create hearth.conf
fi
EOF
    for script in prerm postrm; do sed '/^#DEBHELPER#/d' "${0%/*}/../debian/hearth.$script" >"$root/DEBIAN/$script"; done
    chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm" "$root/DEBIAN/postrm"
    for package in hearth hearth-lab; do
        dpkg-deb -Zxz --root-owner-group -z "${PACKAGE_XZ#-}" --build "$dir/deb${package#hearth}" "$dir/${package}_${version}_$arch.deb" >/dev/null
        show "$dir/${package}_${version}_$arch.deb"
    done
}

# Of debian/control; with the private libraries it needs no packages of others.
control() { # PACKAGE ROOT DEPENDS
    printf 'Package: %s\nVersion: %s\nArchitecture: %s\nInstalled-Size: %s\n' "$1" "$version" "$arch" "$(du -sk "$2/usr" | cut -f1)"
    [ -z "$3" ] || echo "$3"
    sed -n '/^Maintainer:/p; /^Section:/p; /^Priority:/p' "${0%/*}/../debian/control" | sort -u -t: -k1,1
    sed -n "/^Package: $1\$/,/^\$/{/^Depends:/d; /^Package:/d; /^Architecture:/d; /^\$/d; p}" "${0%/*}/../debian/control"
}

show() { # FILE
    printf 'package: %s, %s\n' "$1" "$(du -h "$1" | cut -f1)"
}

PACKAGE_XZ=${PACKAGE_XZ:--6}
case $kind in
    tarball | deb) "$kind" ;;
    *) die "expected tarball or deb, not $kind" ;;
esac

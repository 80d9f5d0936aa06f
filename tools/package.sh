#!/bin/sh
# package.sh: archives of what `make install` has staged. `make package` calls it.
#
#   tools/package.sh tarball DIR VERSION   DIR/tarball/opt/hearth becomes DIR/hearth-VERSION-linux-x86_64.tar.xz
#   tools/package.sh deb DIR VERSION       DIR/deb becomes DIR/hearth_VERSION_amd64.deb
#
# Both have the private libraries inside, the C library and its loader included, so they run on older systems. The path of a
# loader in a program is absolute. A tarball can be unpacked anywhere, so bin/hearth there is a script that starts the program
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
    mv "$dir/$name/bin/hearth" "$dir/$name/lib/hearth/hearth"
    strip "$dir/$name/lib/hearth/hearth"
    cat >"$dir/$name/bin/hearth" <<EOF
#!/bin/sh
# Starts hearth with the loader and the libraries beside it, wherever this folder is. A link to this script works as well.
me=\$(readlink -f "\$0") || exit 1
libs=\${me%/bin/*}/lib/hearth
export HEARTH_PROGRAM="\$me" HEARTH_BACKENDS="\${HEARTH_BACKENDS:-\$libs/backends}"
exec "\$libs/$loader" --library-path "\$libs" "\$libs/hearth" "\$@"
EOF
    chmod 755 "$dir/$name/bin/hearth"
    tar -C "$dir" --owner=0 --group=0 --sort=name -c "$name" | xz -T0 "${PACKAGE_XZ:--6}" >"$dir/$name.tar.xz"
    show "$dir/$name.tar.xz"
}

deb() {
    arch=$(dpkg --print-architecture)
    root=$dir/deb
    need_loader "$root/usr"
    drop_development "$root/usr"
    rm -rf "$root/usr/share/doc/hearth/LICENSE" "$root/usr/share/doc/hearth/examples"
    mv "$root/usr/share/doc/hearth/copyright" "$root/usr/share/doc/hearth/licences"
    cp "${0%/*}/../debian/copyright" "$root/usr/share/doc/hearth/copyright"
    strip "$root/usr/bin/hearth"
    mkdir -p "$root/DEBIAN"
    {
        printf 'Package: hearth\nVersion: %s\nArchitecture: %s\nInstalled-Size: %s\n' "$version" "$arch" "$(du -sk "$root/usr" | cut -f1)"
        sed -n '/^Maintainer:/p; /^Section:/p; /^Priority:/p' "${0%/*}/../debian/control" | sort -u -t: -k1,1
        sed -n '/^Package: hearth$/,/^$/{/^Depends:/d; /^Package:/d; /^Architecture:/d; /^$/d; p}' "${0%/*}/../debian/control"
    } >"$root/DEBIAN/control"
    # The user and the settings, where systemd can make them; without it the program runs all the same.
    cat >"$root/DEBIAN/postinst" <<'EOF'
#!/bin/sh
set -e
if [ "$1" = configure ] && command -v systemd-sysusers >/dev/null && command -v systemd-tmpfiles >/dev/null; then
    systemd-sysusers hearth.conf
    systemd-tmpfiles --create hearth.conf
fi
EOF
    sed '/^#DEBHELPER#/d' "${0%/*}/../debian/hearth.postrm" >"$root/DEBIAN/postrm"
    chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/postrm"
    dpkg-deb -Zxz --root-owner-group -z "${PACKAGE_XZ#-}" --build "$root" "$dir/hearth_${version}_$arch.deb" >/dev/null
    show "$dir/hearth_${version}_$arch.deb"
}

show() { # FILE
    printf 'package: %s, %s\n' "$1" "$(du -h "$1" | cut -f1)"
}

PACKAGE_XZ=${PACKAGE_XZ:--6}
case $kind in
    tarball | deb) "$kind" ;;
    *) die "expected tarball or deb, not $kind" ;;
esac

#!/usr/bin/env bash
# The service of systemd, as systemd reads it; and what is installed beside the program.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"

top=$(cd "$(dirname "$0")/../.." && pwd)
units=$top/contrib/systemd
variant=$(basename "${HEARTH_BUILD:-release}")

# The unit with a program that is there; pages of the manual are looked for on the machine, where they are not yet.
unit() {
    mkdir -p bin
    ln -sf "$HEARTH" bin/hearth
    sed "s,@PREFIX@,$PWD,; /^Documentation=/d" "$units/hearth.service.in" >hearth.service
}

test_unit_is_read_without_a_word() {
    command -v systemd-analyze >/dev/null || skip 'no systemd-analyze here'
    unit
    run systemd-analyze verify ./hearth.service
    expect_status 0
    # Other units of the machine are ignored.
    ! grep 'hearth' "$scratch/err" || fail 'systemd complains'
    echo 'Nonsense=1' >>hearth.service # it does look
    run systemd-analyze verify ./hearth.service
    expect_err 'Nonsense'
}

test_exposure() {
    command -v systemd-analyze >/dev/null || skip 'no systemd-analyze here'
    systemd-analyze security --help | grep -q -e --offline || skip 'this systemd-analyze needs a running systemd'
    unit
    run systemd-analyze security --offline=true --threshold=15 "$PWD/hearth.service"
    expect_status 0
    expect_out 'Overall exposure level'
    sed -i '/^CapabilityBoundingSet=/d; /^SystemCallFilter=/d' hearth.service
    run systemd-analyze security --offline=true --threshold=15 "$PWD/hearth.service"
    [ "$status" != 0 ] || fail 'the threshold means nothing'
}

# Every setting of the file is one that the program knows, and is shown as it is.
test_settings_to_begin_with() {
    "$HEARTH" help --ini >hearth.ini || fail 'no settings'
    grep -q '^#port = 4327$' hearth.ini || fail 'no port'
    # In force, with what has a default: the server reads them and gets as far as the model that is not there.
    sed -n '1,/^\[serve\]/p; s/^#\([a-z-]* = [a-z0-9.%-]*\)$/\1/p' hearth.ini | grep -v '^\(log-format\|color\)' >forced.ini
    [ "$(grep -c ' = ' forced.ini)" -gt 30 ] || fail 'hardly any'
    run "$HEARTH" serve --config forced.ini --ssd-dir none /nonexistent.gguf
    expect_status 1
    expect_err 'nonexistent.gguf'
    echo 'prot = 1' >>forced.ini
    run "$HEARTH" serve --config forced.ini --ssd-dir none /nonexistent.gguf
    expect_status 2
    expect_err 'port'
}

test_what_is_installed_beside_the_program() {
    case $variant in
    address* | thread* | undefined* | coverage*) skip 'a build for tests cannot be installed' ;;
    esac
    local flags='' prefix
    case ${MAKEFLAGS-} in *' -- '*) flags="-- ${MAKEFLAGS#* -- }" ;; esac
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
    prefix=$place/usr
    run env -u MAKELEVEL -u PREFIX -u DESTDIR MAKEFLAGS="$flags" make --no-print-directory -C "$top" INSTALL_BUILD="$PWD/build" \
        install PREFIX="$prefix"
    expect_status 0
    for file in share/man/man1/hearth.1 share/man/man1/hearth-serve.1 share/man/man5/hearth.ini.5 lib/systemd/system/hearth.service \
        lib/sysusers.d/hearth.conf lib/tmpfiles.d/hearth.conf share/hearth/hearth.ini share/bash-completion/completions/hearth \
        share/zsh/site-functions/_hearth share/fish/vendor_completions.d/hearth.fish share/doc/hearth/examples/grafana.json; do
        [ -s "$prefix/$file" ] || fail "no $file"
    done
    grep -q "^ExecStart=$prefix/bin/hearth serve$" "$prefix/lib/systemd/system/hearth.service" || fail 'another program'
    grep -q "$prefix/share/hearth/hearth.ini" "$prefix/lib/tmpfiles.d/hearth.conf" || fail 'other settings'
    ! grep -r '@PREFIX@' "$prefix/lib/systemd" "$prefix/lib/tmpfiles.d" || fail 'a place was not filled in'
    ! grep -rlF "$top" "$prefix/share/man" "$prefix/share/hearth" || fail 'a file knows the tree'
    # On its own root: the user, the folders, the settings.
    command -v systemd-sysusers >/dev/null && command -v systemd-tmpfiles >/dev/null || return 0
    mkdir -p "$place/root/etc" "$place/root$prefix/share/hearth"
    cp "$prefix/share/hearth/hearth.ini" "$place/root$prefix/share/hearth/"
    run systemd-sysusers --root="$place/root" "$prefix/lib/sysusers.d/hearth.conf"
    expect_status 0
    grep -q '^hearth:' "$place/root/etc/passwd" || fail 'no user'
    [ "$(id -u)" = 0 ] || return 0
    run systemd-tmpfiles --create --root="$place/root" "$prefix/lib/tmpfiles.d/hearth.conf"
    expect_status 0
    grep -q '^models-dir = /var/lib/hearth/models$' "$place/root/etc/hearth/hearth.ini" || fail 'no settings'
    [ "$(stat -c %a "$place/root/etc/hearth/hearth.ini")" = 640 ] || fail 'everyone can read them'
}

suite_main "$@"

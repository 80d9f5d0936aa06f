#!/bin/sh
# browser.sh: print the command of a Chromium for tests/web, fetching one into the user's cache folder if there is none.
#
#   HEARTH_CHROMIUM, then chromium-headless-shell of the machine or of the cache folder, which takes a third of the processor time of a whole
#   browser, then chromium or google-chrome of the machine. If there is none, Debian's chromium-headless-shell is unpacked below the cache
#   folder with the libraries that the machine lacks (about 100 MB to download, once per user). Nothing is installed and no root is needed:
#   apt runs with its own lists and archives and a copy of the machine's package status, so that it names exactly what is missing here, for
#   the suite that the machine has.
#
# All of it takes at most HEARTH_BROWSER_SECONDS (90). Without a browser the exit status is 1, and one line on stderr says why.
set -eu
umask 022

cache=${HEARTH_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/hearth}/browser
seconds=${HEARTH_BROWSER_SECONDS:-90}
package=chromium-headless-shell

die() { printf 'no browser: %s\n' "$*" >&2; exit 1; }

for program in ${HEARTH_CHROMIUM:-chromium-headless-shell "$cache/chromium" chromium google-chrome}; do
    command -v "$program" && exit 0
done
[ -z "${HEARTH_CHROMIUM:-}" ] || die "HEARTH_CHROMIUM=$HEARTH_CHROMIUM is not there"

mkdir -p "$cache" 2>/dev/null && [ -w "$cache" ] || die "cannot write to $cache"
exec 9>"$cache/lock"
command -v flock >/dev/null 2>&1 && flock 9 # tests run side by side
if [ -x "$cache/chromium" ]; then
    echo "$cache/chromium"
    exit 0
fi
for tool in apt-get apt-cache dpkg-deb timeout; do
    command -v "$tool" >/dev/null 2>&1 || die "'$tool' is not here, so Debian's package cannot be had; install Chromium yourself"
done

# ---- fetch -------------------------------------------------------------------------------------------------------

new=$cache/new
rm -rf "$new"
mkdir -p "$new/apt/lists/partial" "$new/debs/partial" "$new/root"
trap 'rm -rf "$new"' EXIT
end=$(($(date +%s) + seconds))

apt() {
    left=$((end - $(date +%s)))
    [ "$left" -gt 0 ] && LC_ALL=C timeout "$left" apt-get -q -y -o "Dir::State::status=$new/status" -o "Dir::State::lists=$lists" \
        -o "Dir::Cache=$new/apt" -o "Dir::Cache::archives=$new/debs" -o APT::Install-Recommends=false -o APT::Sandbox::User=root \
        -o Acquire::Languages=none -o Acquire::Retries=1 "$@" >"$new/log" 2>&1
}

cp "$(apt-config shell f Dir::State::status/f | sed "s/^f='//; s/'$//")" "$new/status" || die 'this machine has no list of its packages'
lists=$(apt-config shell d Dir::State::lists/d | sed "s/^d='//; s/'$//")
# The machine's own lists may be missing, or name versions that its mirror has no more.
if ! apt install --download-only "$package"; then
    lists=$new/apt/lists
    apt update && apt install --download-only "$package" ||
        die "$package cannot be downloaded in $seconds s: $(grep -m 1 '^E:' "$new/log" || echo 'too slow')"
fi
for deb in "$new"/debs/*.deb; do
    dpkg-deb -x "$deb" "$new/root" || die "cannot unpack ${deb##*/}"
done

# The libraries that came with it are found by their folders; what the machine has is used from there.
folders=$(cd "$new/root" && find . -name '*.so*' -exec dirname {} + | sort -u | sed "s,^\\.,$cache/root," | paste -s -d :)
cat >"$new/chromium" <<EOC
#!/bin/sh
LD_LIBRARY_PATH=$folders\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} exec '$cache/root/usr/lib/chromium/$package' "\$@"
EOC
chmod 755 "$new/chromium"
rm -rf "$cache/root"
mv "$new/root" "$cache/root"
mv "$new/chromium" "$cache/chromium"
"$cache/chromium" --version >/dev/null 2>"$cache/log" || { rm "$cache/chromium"; die "it does not start here: $(head -n 1 "$cache/log")"; }
echo "$cache/chromium"

#!/bin/sh
# deps.sh: find the libraries hearth is built on, or fetch them into a private sysroot.
#
#   tools/deps.sh            make .deps/config.mk say where the libraries are (does the least it can)
#   tools/deps.sh --update   forget what was resolved and ask the mirror again
#   tools/deps.sh --peer     add llama-server, the peer that benchmarks compare with
#   tools/deps.sh --tools    fetch programs that some tests hold our output against into .deps/tools, a Vulkan device in software
#                            with its plug-in into .deps/vulkan, and servers of Valkey, Redis and S3 into .deps/fleet
#   tools/deps.sh --fleet    of that, only these servers
#   tools/deps.sh --status   say what is there, change nothing
#
# Two outcomes, written to .deps/config.mk for the Makefile:
#   system   pkg-config finds every library new enough; nothing is downloaded
#   sysroot  Debian's own packages, unpacked below .deps/sysroot. Nothing is installed on the machine, no root
#            is needed: apt runs with its own configuration, lists and status file. The status is empty,
#            so that apt resolves the whole closure, libc included, and the result runs on an older system.
#
# What was downloaded stays in .deps/debs and in the user's cache folder with a manifest of SHA-256 sums, so that
# a second run and a second clone need no network. The mirror is taken from the machine's own apt sources.
#
# Environment:
#   HEARTH_DEPS=auto|system|sysroot   what to use (auto)
#   HEARTH_DEPS_SUITE=NAME            Debian suite that has libllama (forky)
#   HEARTH_DEPS_MIRROR=URL            a Debian mirror, instead of the machine's own
#   HEARTH_DEPS_CONFIG=FILE           what to write, instead of .deps/config.mk
#   HEARTH_DEPS_GPU=NAME              plug-in for a GPU: vulkan, hip, cuda, none, or auto (vulkan when this machine has a GPU)
#   HEARTH_DEPS_RPC=1                 also fetch ggml's plug-in for other machines; stays until it is 0
#   HEARTH_DEPS_ROOT=DIR              where auto looks for a GPU, instead of / (for tests)
#   HEARTH_DEPS_LLAMA=PREFIX          where llama.cpp is, of any release; of the rest nothing changes
#   HEARTH_CACHE_DIR=DIR              where downloads are kept for other clones ($XDG_CACHE_HOME/hearth)
set -eu
umask 022

top=$(cd "$(dirname "$0")/.." && pwd)
deps=$top/.deps
config=${HEARTH_DEPS_CONFIG:-$deps/config.mk}
sysroot=$deps/sysroot
mode=${HEARTH_DEPS:-auto}
llama=${HEARTH_DEPS_LLAMA:-}
gpu=${HEARTH_DEPS_GPU:-auto}
rpc=${HEARTH_DEPS_RPC:-}
components=main
libs= # of LLAMA's prefix
suite=${HEARTH_DEPS_SUITE:-forky}
cache=${HEARTH_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-$deps/home}/.cache}/hearth}
space_kib=500000 # downloads 30 MB, unpacked 130 MB, twice while a new sysroot replaces an old one

# pkg-config module, oldest version that will do, Debian package.
modules='
llama      0.7.0   libllama-dev
ggml       0.27.0  libggml-dev
libuv      1.44.0  libuv1-dev
libllhttp  8.1.0   libllhttp-dev
yyjson     0.8.0   libyyjson-dev
libblake3  1.3.0   libblake3-dev
libxxhash  0.8.1   libxxhash-dev
libsodium  1.0.18  libsodium-dev
inih       56      libinih-dev
cmocka     1.1.5   libcmocka-dev
'
# The dashboard draws with uPlot; a build without it shows tables instead.
packages="libc6-dev linux-libc-dev libgcc-s1 libstdc++6 libgomp1 node-uplot
$(printf '%s' "$modules" | awk 'NF{print $3}')"
peer_packages='llama.cpp-tools'
# NVIDIA's driver needs X11's libraries for Vulkan even without a display. It is the machine's own driver, so that Debian's is not fetched.
vulkan_packages='libggml0-backend-vulkan libx11-6 libxext6'
hip_packages='libggml0-backend-hip'
cuda_packages='libggml0-backend-cuda'
# For tests: llvmpipe, a Vulkan device that computes on the CPU.
software_packages='libggml0-backend-vulkan mesa-vulkan-drivers'

# For tests of a fleet: servers, the programs that drive them, and ggml's plug-in for other machines.
# radosgw is an S3 server that needs no cluster.
fleet_packages='valkey-server valkey-tools redis-server redis-tools libggml0-backend-rpc radosgw'

# Programs for tests, and what else of the machine's own suite they need. Not installed: unpacked below .deps/tools.
tool_packages='prometheus mandoc zsh zsh-common fish fish-common libpcre2-32-0'

say() { printf 'deps: %s\n' "$*" >&2; }
die() { printf 'deps: error: %s\n' "$*" >&2; exit 1; }
size_of() { du -sh "$1" 2>/dev/null | cut -f1; }

# ---- the system's own libraries --------------------------------------------------------------------------

# Names of the modules that pkg-config does not find new enough; empty when the system has them all.
system_missing() {
    command -v pkg-config >/dev/null 2>&1 || { echo 'pkg-config'; return; } # only --status gets here without it
    printf '%s' "$modules" | while read -r module version _; do
        [ -n "$module" ] || continue
        case $llama:$module in ?*:llama | ?*:ggml) continue ;; esac
        pkg-config --atleast-version="$version" "$module" || printf '%s>=%s ' "$module" "$version"
    done
}

config_system() {
    cat <<EOC
# Written by tools/deps.sh; safe to delete.
DEPS_MODE     := system
DEPS_GPU      := $gpu
DEPS_BACKENDS := $([ -n "$llama" ] || backend_dir "$(pkg-config --variable=libdir ggml)")
DEPS_UPLOT    := /usr/share/nodejs/uplot
EOC
    [ -z "$llama" ] || config_llama
}

# The folder that holds ggml's CPU and GPU backends, below a library folder.
backend_dir() {
    for dir in "$1"/ggml/backends*; do
        [ -d "$dir" ] && { echo "$dir"; return; }
    done
    echo "$1"
}

# ---- a llama.cpp of any release, at a prefix -------------------------------------------------------------

# What pkg-config says of it, with the prefix's own files only.
llama_pkg() { # ARGUMENT...
    PKG_CONFIG_LIBDIR=$(printf '%s:' "$llama"/lib/pkgconfig "$llama"/lib64/pkgconfig "$llama"/lib/*/pkgconfig "$llama"/share/pkgconfig) \
        PKG_CONFIG_PATH='' PKG_CONFIG_SYSROOT_DIR='' pkg-config "$@" llama 2>/dev/null || :
}

# The first of the folders that has the file; nothing when none has.
folder_of() { # FILE FOLDER...
    wanted=$1
    shift
    for folder in "$@"; do
        if [ -e "$folder/$wanted" ]; then (cd "$folder" && pwd) && return; fi
    done
}

# Folders of an installed llama.cpp, or of a build folder in its source tree, which has headers above it.
find_llama() {
    headers=$(folder_of llama.h "$llama/include" "$(llama_pkg --variable=includedir)" "$llama/../include" "$llama/../../include")
    ggml_headers=$(folder_of ggml.h "$headers" "${headers%/include}/ggml/include")
    libs=$(folder_of libllama.so "$llama/lib" "$llama/lib64" "$llama"/lib/*-linux-gnu* "$(llama_pkg --variable=libdir)" "$llama/bin")
    [ -n "$headers" ] && [ -n "$ggml_headers" ] ||
        die "LLAMA=$llama: no llama.h and ggml.h are there. Expected a prefix with include/ and lib/, or a build folder of llama.cpp."
    [ -n "$libs" ] && [ -e "$libs/libggml.so" ] && [ -e "$libs/libggml-base.so" ] ||
        die "LLAMA=$llama: no libllama.so, libggml.so and libggml-base.so are there." \
            "Build llama.cpp with -DBUILD_SHARED_LIBS=ON and install it, or name its build folder."
    plugins=$(folder_of . "$libs"/ggml/backends*)
    for plugin in "$llama"/bin/libggml-cpu*.so; do
        if [ -z "$plugins" ] && [ -e "$plugin" ]; then plugins=$llama/bin; fi
    done
}

config_llama() {
    # Without plug-ins the backends are libraries that libggml.so needs.
    linked=$(LC_ALL=C readelf -d "$libs/libggml.so" | sed -n 's/.*(NEEDED).*\[lib\(ggml-[^.]*\)\.so.*/-l\1/p' |
        grep -vx -e -lggml-base | tr '\n' ' ')
    version=$(llama_pkg --modversion)
    [ -n "$version" ] || version=$(readlink -f "$libs/libllama.so" | sed -n 's/.*\.so\.//p')
    cat <<EOC
DEPS_LLAMA         := $llama
DEPS_LLAMA_VERSION := ${version:-unknown}
DEPS_LLAMA_SUM     := $(cat "$headers"/llama.h "$ggml_headers"/ggml*.h | sha256sum | cut -c1-12)
DEPS_LLAMA_INCLUDE := $(printf '%s\n' "$headers" "$ggml_headers" | uniq | tr '\n' ' ')
DEPS_LLAMA_LIBDIR  := $libs
DEPS_LLAMA_LIBS    := -lllama -lggml -lggml-base $linked
DEPS_BACKENDS      := ${plugins:-$libs}
EOC
}

# ---- GPUs ------------------------------------------------------------------------------------------------

# The backend that this machine's cards get without being asked: Vulkan's is small and serves those of every maker. The nodes of /dev are
# looked for, because in a container /sys and /proc also show cards that it may not use.
find_gpu() {
    for node in "${HEARTH_DEPS_ROOT:-}"/dev/nvidia[0-9]* "${HEARTH_DEPS_ROOT:-}"/dev/dri/renderD*; do
        [ -e "$node" ] || continue
        case $node in */nvidia*) echo vulkan; return ;; esac
        case $(cat "${HEARTH_DEPS_ROOT:-}/sys/class/drm/${node##*/}/device/vendor" 2>/dev/null) in
            0x10de | 0x1002 | 0x8086) echo vulkan; return ;; # NVIDIA, AMD, Intel
        esac
    done
    echo none
}

# What was asked for by name stays until another is; what was not there before may be now.
choose_gpu() {
    case $gpu in
        auto)
            gpu=$(sed -n 's/^DEPS_GPU *:= *//p' "$config" 2>/dev/null) || :
            case $gpu in '' | none) gpu=$(find_gpu) ;; esac
            ;;
        none | vulkan | hip | cuda) ;;
        *) die "GPU=$gpu: expected auto, none, vulkan, hip or cuda." ;;
    esac
}

# With libraries that are not ours the plug-in has to be there already.
need_plugin() { # FOLDER
    case ${HEARTH_DEPS_GPU:-auto} in auto | none) return ;; esac
    for file in "$1/libggml-$gpu"*.so "$libs/libggml-$gpu"*.so*; do
        [ ! -e "$file" ] || return 0
    done
    die "GPU=$gpu: there is no libggml-$gpu.so in $1." \
        "Install the backend of this ggml (Debian: libggml0-backend-$gpu), or build llama.cpp with it."
}

# As with a GPU, what was asked for once stays.
choose_rpc() {
    [ -n "$rpc" ] || rpc=$(sed -n 's/^DEPS_RPC *:= *//p' "$config" 2>/dev/null) || :
    [ "$rpc" != 1 ] || packages="$packages libggml0-backend-rpc"
}

add_gpu() {
    case $gpu in
        vulkan) packages="$packages $vulkan_packages" ;;
        hip) packages="$packages $hip_packages" space_kib=12000000 ;;
        cuda) packages="$packages $cuda_packages" space_kib=8000000 components='main contrib non-free' ;;
    esac
}

# ---- the private sysroot ---------------------------------------------------------------------------------

# Asked for just before they are needed: a machine without apt can still unpack what another one has downloaded, and a
# full disk does no harm when there is nothing to do.
need() { # TOOL...
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 || die "'$tool' is not here, so Debian's packages cannot be had." \
            "Install these libraries with the system's package manager instead and run make again:" \
            "$(printf '%s' "$modules" | awk 'NF{printf "%s (>= %s) ", $1, $2}')"
    done
}

need_space() {
    free_kib=$(df -Pk "$deps" | awk 'NR==2{print $4}')
    [ "$free_kib" -ge "$space_kib" ] || die "only $((free_kib / 1024)) MiB are free below $deps;" \
        "$((space_kib / 1024)) MiB are needed. Free some space and run make again."
}

# Mirrors of this machine, as "URL keyring" lines, best first: deb822 files, then one-line files. Security archives have
# no suite that we use, and come last only because they are useless.
machine_mirrors() {
    etc=$(apt-config shell d Dir::Etc/d | sed "s/^d='//; s/'$//")
    for file in "$etc"/sources.list.d/*.sources; do
        [ -f "$file" ] && awk '
            function flush(  n, i, u) {
                if (value["types"] ~ /(^| )deb( |$)/ && tolower(value["enabled"]) !~ /^ *(no|false|without|off|disable|0) *$/) {
                    n = split(value["uris"], u, " ")
                    split(value["signed-by"], key, " ")
                    # A key may also be given in full, on its own lines.
                    for (i = 1; i <= n; i++)
                        print (value["suites"] ~ /security/ ? 1 : 0), u[i], (key[1] ~ /^\// ? key[1] : "-")
                }
                split("", value)
            }
            /^#/ { next }
            /^[[:space:]]*$/ { flush(); next }
            /^[^[:space:]]/ { name = tolower($0); sub(/:.*/, "", name); sub(/^[^:]*:/, "") }
            { gsub(/[[:space:]]+/, " "); value[name] = value[name] $0 }
            END { flush() }' "$file"
    done
    for file in "$etc"/sources.list "$etc"/sources.list.d/*.list; do
        [ -f "$file" ] && awk '
            { sub(/#.*/, "") }
            $1 == "deb" {
                key = "-"
                if ($2 ~ /^\[/ && match($0, /\[[^]]*\]/)) {
                    opts = substr($0, RSTART + 1, RLENGTH - 2); $0 = "deb " substr($0, RSTART + RLENGTH)
                    if (match(opts, /signed-by=[^ ,]+/)) key = substr(opts, RSTART + 10, RLENGTH - 10)
                }
                if ($2 !~ /^cdrom:/) print ($3 ~ /security/ ? 1 : 0), $2, key
            }' "$file"
    done
}

mirrors() {
    if [ -n "${HEARTH_DEPS_MIRROR:-}" ]; then
        printf '%s %s\n' "$HEARTH_DEPS_MIRROR" /usr/share/keyrings/debian-archive-keyring.gpg
    else
        machine_mirrors | sort -s -n -k1,1 | awk '!seen[$2]++ {print $2, $3}'
    fi
}

# An apt that knows nothing of this machine but its proxy and credentials. The hooks of the machine's own configuration
# are cleared: they would refresh caches that are not ours.
write_apt_conf() { # URL KEYRING
    mkdir -p "$deps/apt/lists/partial" "$deps/apt/cache" "$deps/debs/partial"
    # The driver's library belongs to the kernel module of the machine: apt treats it as installed.
    printf 'Package: libcuda1\nStatus: install ok installed\nVersion: 99999\nArchitecture: %s\nMaintainer: -\nDescription: -\n' \
        "$(dpkg --print-architecture)" >"$deps/apt/status"
    signed=
    [ "$2" != - ] && [ -r "$2" ] && signed="[signed-by=$2] "
    printf 'deb %s%s %s %s\n' "$signed" "$1" "$suite" "$components" >"$deps/apt/sources.list"
    cat >"$deps/apt/apt.conf" <<EOC
Dir::State "$deps/apt";
Dir::State::status "$deps/apt/status";
Dir::State::lists "$deps/apt/lists";
Dir::Cache "$deps/apt/cache";
Dir::Cache::archives "$deps/debs";
Dir::Etc::sourcelist "$deps/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Get::AllowUnauthenticated "false";
APT::Keep-Downloaded-Packages "true";
APT::Install-Recommends "false";
APT::Sandbox::User "root"; // who is not root is in no sandbox anyway
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::ForceHash "SHA256";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Install-Pkgs;
#clear DPkg::Post-Invoke;
EOC
}

apt() { LC_ALL=C apt-get -q -y -c "$deps/apt/apt.conf" "$@"; }

# Finds a mirror that has the suite, and reads its package lists.
update_lists() {
    found=
    mirrors >"$deps/mirrors"
    [ -s "$deps/mirrors" ] || die "this machine's apt sources name no mirror." \
        "Set HEARTH_DEPS_MIRROR to a Debian mirror's URL and run make again."
    while read -r url key; do
        write_apt_conf "$url" "$key"
        # A failed index is only a warning to apt-get update, hence the look at what arrived.
        if apt -o Acquire::Retries=1 update >"$deps/apt/update.log" 2>&1 && apt-cache -c "$deps/apt/apt.conf" show libllama-dev >/dev/null 2>&1
        then
            found=1
            break
        fi
    done <"$deps/mirrors"
    rm -f "$deps/mirrors"
    [ -n "$found" ] && return
    tail -n 4 "$deps/apt/update.log" >&2
    die "no mirror of this machine answered with Debian '$suite' (last tries above)." \
        "Check the network, or set HEARTH_DEPS_MIRROR to a Debian mirror's URL, and run make again."
}

# The manifest of a set of packages: one "sha256  file" line per .deb. Its name carries what was asked for, so that a
# changed list of packages is a new manifest.
manifest_name() { # PACKAGES
    printf 'manifest-%s-%s-%s' "$suite" "$(dpkg --print-architecture)" \
        "$(printf '%s' "$1" | tr -s ' \n' '\n' | LC_ALL=C sort | sha256sum | cut -c1-12)"
}

# True when every file of a manifest is in .deps/debs, unharmed; what the user's cache folder has is linked in first. A
# damaged file is removed, or apt, which looks at sizes only, would take it for downloaded.
have_debs() { # MANIFEST
    [ -f "$deps/$1" ] || { cp "$cache/debs/$1" "$deps/$1.new" && mv "$deps/$1.new" "$deps/$1"; } 2>/dev/null || return 1
    mkdir -p "$deps/debs"
    while read -r _ file; do
        [ -f "$deps/debs/$file" ] || [ ! -f "$cache/debs/$file" ] ||
            ln "$cache/debs/$file" "$deps/debs/$file" 2>/dev/null || cp "$cache/debs/$file" "$deps/debs/$file"
    done <"$deps/$1"
    (cd "$deps/debs" && sha256sum --status --strict -c "$deps/$1") 2>/dev/null && return
    (cd "$deps/debs" && LC_ALL=C sha256sum -c "$deps/$1" 2>/dev/null) | sed -n 's/: FAILED.*//p' | while read -r file; do
        [ ! -f "$deps/debs/$file" ] || say "$file is damaged and is fetched again"
        rm -f "$deps/debs/$file"
    done
    return 1
}

keep_debs() { # MANIFEST
    if ! mkdir -p "$cache/debs" 2>/dev/null || [ ! -w "$cache/debs" ]; then
        say "note: $cache is not writable; another clone will download again"
        return 0
    fi
    while read -r _ file; do
        cmp -s "$deps/debs/$file" "$cache/debs/$file" && continue
        cp "$deps/debs/$file" "$cache/debs/.$file.$$" && mv "$cache/debs/.$file.$$" "$cache/debs/$file"
    done <"$deps/$1"
    cp "$deps/$1" "$cache/debs/.$1.$$" && mv "$cache/debs/.$1.$$" "$cache/debs/$1"
}

download() { # MANIFEST PACKAGES
    need apt-get apt-cache apt-config
    say "reading the package lists of Debian $suite, which has libllama"
    update_lists
    # Asked with an empty archive folder, apt names every file of the closure with the sum from its signed lists: that is
    # the manifest. What is in .deps/debs from an earlier, interrupted or older run does not confuse it.
    mkdir -p "$deps/apt/none/partial"
    # shellcheck disable=SC2086 # the list of packages is meant to be split
    if ! apt -o "Dir::Cache::archives=$deps/apt/none" install --print-uris $2 >"$deps/apt/uris" 2>"$deps/apt/install.log"
    then
        cat "$deps/apt/install.log" >&2
        grep -q "locate package libggml0-backend-$gpu" "$deps/apt/install.log" && die "GPU=$gpu: Debian '$suite' has no package of it." \
            "Use GPU=vulkan, or build llama.cpp with it and run make LLAMA=PREFIX."
        die "apt could not resolve the packages in '$suite' (its words are above)." \
            "The suite may be in the middle of a transition: try again later, or set HEARTH_DEPS_SUITE."
    fi
    awk "/^'/ && sub(/^SHA256:/, \"\", \$4) {print \$4 \"  \" \$2}" "$deps/apt/uris" >"$deps/$1.new"
    [ -s "$deps/$1.new" ] || die "the mirror's lists carry no SHA-256 sums; use another mirror (HEARTH_DEPS_MIRROR)."
    say "downloading $(awk "/^'/ {n++; s += \$3} END {printf \"%d packages, %.1f MB\", n, s / 1e6}" "$deps/apt/uris")"
    # shellcheck disable=SC2086
    if ! apt install --download-only $2 >"$deps/apt/install.log" 2>&1 ||
        ! (cd "$deps/debs" && sha256sum --quiet -c "$deps/$1.new" >>"$deps/apt/install.log" 2>&1); then
        tail -n 6 "$deps/apt/install.log" >&2
        die "the download stopped (the reason is above). What arrived is kept: run make again to go on."
    fi
    mv "$deps/$1.new" "$deps/$1"
}

unpack() { # MANIFEST
    rm -rf "$sysroot.new"
    mkdir -p "$sysroot.new/usr/lib" "$sysroot.new/usr/lib64"
    # Debian's packages know /lib as a link to usr/lib; the link must be there before the first file is.
    ln -s usr/lib "$sysroot.new/lib"
    ln -s usr/lib64 "$sysroot.new/lib64"
    while read -r _ file; do
        dpkg-deb -X "$deps/debs/$file" "$sysroot.new" >"$deps/names" ||
            die "cannot unpack $file (disk full?). Run make again."
        # Which package a library is from: make install looks there for its licence.
        sed -n "/\\.so/s/^\\./${file%%_*} /p" "$deps/names" >>"$sysroot.new/files"
    done <"$deps/$1"
    rm -f "$deps/names"
    # Absolute links would point out of the sysroot, at the machine's own files.
    find "$sysroot.new" -type l -lname '/*' | while read -r link; do
        ln -sfnr "$sysroot.new$(readlink "$link")" "$link"
    done
    rm -rf "$sysroot"
    mv "$sysroot.new" "$sysroot"
    cp "$deps/$1" "$deps/sysroot.manifest"
}

config_sysroot() {
    triplet=$(cd "$sysroot/usr/lib" && ls -d ./*/libllama.so | head -n 1 | cut -d/ -f2)
    loader=$(cd "$sysroot" && ls usr/lib64/ld-linux*.so.* usr/lib/ld-linux*.so.* 2>/dev/null | head -n 1)
    [ -n "$triplet" ] && [ -n "$loader" ] || die "the sysroot has no C library; remove .deps and run make again."
    backends=$(backend_dir "$sysroot/usr/lib/$triplet")
    cat <<EOC
# Written by tools/deps.sh; safe to delete.
DEPS_MODE     := sysroot
DEPS_GPU      := $gpu
DEPS_SYSROOT  := \$(CURDIR)/.deps/sysroot
DEPS_LIBDIR   := \$(DEPS_SYSROOT)/usr/lib/$triplet
DEPS_LOADER   := \$(DEPS_SYSROOT)/$loader
DEPS_BACKENDS := \$(DEPS_SYSROOT)${backends#"$sysroot"}
DEPS_UPLOT    := \$(DEPS_SYSROOT)/usr/share/nodejs/uplot
EOC
    [ -z "$rpc" ] || echo "DEPS_RPC      := $rpc"
    [ -z "$llama" ] || config_llama
}

make_sysroot() { # PACKAGES
    need dpkg sha256sum awk
    manifest=$(manifest_name "$1")
    if cmp -s "$deps/$manifest" "$deps/sysroot.manifest" && [ -f "$sysroot/files" ]; then
        return
    fi
    need dpkg-deb
    need_space
    if ! have_debs "$manifest"; then
        download "$manifest" "$1"
        keep_debs "$manifest"
    fi
    say "unpacking $(wc -l <"$deps/$manifest") packages into .deps/sysroot"
    unpack "$manifest"
    say "done: $(size_of "$deps/debs") of packages, $(size_of "$sysroot") unpacked"
}

# ---- for tests ---------------------------------------------------------------------------------------

# From the machine's own suite, because they run with its C library; without what they depend on, which nearly every machine has.
fetch_tools() {
    need apt-get dpkg-deb
    rm -rf "$deps/tools.new"
    mkdir -p "$deps/tools.new/debs"
    # shellcheck disable=SC2086 # the list of packages is meant to be split
    (cd "$deps/tools.new/debs" && apt-get -q download $tool_packages >"$deps/tools.log" 2>&1) || {
        tail -n 4 "$deps/tools.log" >&2
        die "apt could not fetch $tool_packages (its words are above)."
    }
    for deb in "$deps/tools.new/debs"/*.deb; do
        dpkg-deb -x "$deb" "$deps/tools.new" || die "cannot unpack ${deb##*/} (disk full?)."
    done
    rm -rf "$deps/tools" "$deps/tools.new/debs" "$deps/tools.log"
    mv "$deps/tools.new" "$deps/tools"
    say "tools for tests: $(size_of "$deps/tools") in .deps/tools"
}

# A Vulkan device without a GPU: the packages that the sysroot does not have, and a folder with its plug-ins and Vulkan's. The driver is
# named relative to its description, so that the tree can be moved.
fetch_software() { # PACKAGES
    need dpkg dpkg-deb sha256sum awk
    manifest=$(manifest_name "$1")
    if ! have_debs "$manifest"; then
        download "$manifest" "$1"
        keep_debs "$manifest"
    fi
    rm -rf "$deps/vulkan.new"
    mkdir -p "$deps/vulkan.new/backends"
    grep 'libggml0_' "$deps/$manifest" | grep -qxFf "$deps/sysroot.manifest" ||
        die "Debian has a newer ggml than the one in .deps/sysroot. Run tools/deps.sh --update first."
    while read -r _ file; do
        grep -q " ${file%%_*}_" "$deps/sysroot.manifest" || dpkg-deb -x "$deps/debs/$file" "$deps/vulkan.new" || die "cannot unpack $file (disk full?)."
    done <"$deps/$manifest"
    triplet=$(cd "$sysroot/usr/lib" && ls -d ./*/libllama.so | head -n 1 | cut -d/ -f2)
    for plugin in "$sysroot/usr/lib/$triplet"/ggml/backends*/*.so "$deps/vulkan.new/usr/lib/$triplet"/ggml/backends*/*.so; do
        case $plugin in
            "$sysroot"/*) ln -sf "../../sysroot/${plugin#"$sysroot"/}" "$deps/vulkan.new/backends/" ;;
            *) [ ! -e "$plugin" ] || ln -sf "../${plugin#"$deps/vulkan.new/"}" "$deps/vulkan.new/backends/" ;;
        esac
    done
    ln -s "usr/lib/$triplet" "$deps/vulkan.new/lib"
    find "$deps/vulkan.new" -name 'libvulkan_*.so' ! -name libvulkan_lvp.so -delete # drivers of real cards
    printf '{"file_format_version": "1.0.1", "ICD": {"library_path": "./lib/libvulkan_lvp.so", "api_version": "1.4.0"}}\n' \
        >"$deps/vulkan.new/icd.json"
    rm -rf "$deps/vulkan"
    mv "$deps/vulkan.new" "$deps/vulkan"
    say "Vulkan in software for tests: $(size_of "$deps/vulkan") in .deps/vulkan"
}

# Valkey and Redis: the packages that the sysroot does not have, and in bin/ a script per program, because they run with the sysroot's loader.
fetch_fleet() { # PACKAGES
    manifest=$(manifest_name "$1")
    if ! have_debs "$manifest"; then
        download "$manifest" "$1"
        keep_debs "$manifest"
    fi
    rm -rf "$deps/fleet.new"
    mkdir -p "$deps/fleet.new/bin"
    while read -r _ file; do
        grep -q " ${file%%_*}_" "$deps/sysroot.manifest" || dpkg-deb -x "$deps/debs/$file" "$deps/fleet.new" || die "cannot unpack $file (disk full?)."
    done <"$deps/$manifest"
    triplet=$(cd "$sysroot/usr/lib" && ls -d ./*/libllama.so | head -n 1 | cut -d/ -f2)
    rm -rf "$deps/fleet.new/usr/share" "$deps/fleet.new"/usr/lib/python3* "$deps/fleet.new/usr/lib/systemd"
    for program in "$deps/fleet.new"/usr/bin/valkey-* "$deps/fleet.new"/usr/bin/redis-* "$deps/fleet.new"/usr/bin/radosgw*; do
        [ -x "$program" ] || continue
        cat >"$deps/fleet.new/bin/${program##*/}" <<EOC
#!/bin/sh
here=\$(cd "\$(dirname "\$0")/.." && pwd)
lib=\$here/../sysroot/usr/lib/$triplet
set -- --argv0 ${program##*/} --library-path "\$here/usr/lib/$triplet:\$here/usr/lib/$triplet/ceph:\$lib" "\$here/usr/bin/${program##*/}" "\$@"
exec "\$(ls "\$here"/../sysroot/usr/lib64/ld-linux*.so.* "\$lib"/ld-linux*.so.* 2>/dev/null | head -n 1)" "\$@"
EOC
        chmod +x "$deps/fleet.new/bin/${program##*/}"
    done
    mkdir -p "$deps/fleet.new/backends"
    for plugin in "$sysroot/usr/lib/$triplet"/ggml/backends*/*.so "$deps/fleet.new/usr/lib/$triplet"/ggml/backends*/*.so; do
        case $plugin in
            "$sysroot"/*) ln -sf "../../sysroot/${plugin#"$sysroot"/}" "$deps/fleet.new/backends/" ;;
            *) [ ! -e "$plugin" ] || ln -sf "../${plugin#"$deps/fleet.new/"}" "$deps/fleet.new/backends/" ;;
        esac
    done
    rm -rf "$deps/fleet"
    mv "$deps/fleet.new" "$deps/fleet"
    # An S3 server for tests, if there is npm.
    if command -v npm >/dev/null 2>&1; then
        npm install --prefix "$deps/s3" --no-audit --no-fund s3rver@3.7.1 >"$deps/s3.log" 2>&1 || say "note: npm could not install s3rver"
    fi
    say "Valkey, Redis and Ceph's S3 gateway for tests: $(size_of "$deps/fleet") in .deps/fleet"
}

# ---- main ------------------------------------------------------------------------------------------------

status() {
    missing=$(system_missing)
    if [ -z "$missing" ]; then say 'the system has every library'; else say "not in the system: $missing"; fi
    if [ -d "$sysroot" ]; then
        say "sysroot: $(size_of "$sysroot"), $(wc -l <"$deps/sysroot.manifest") packages"
    else
        say 'no sysroot here'
    fi
    [ -d "$cache/debs" ] && say "kept for other clones: $(size_of "$cache/debs") in $cache/debs"
    return 0
}

write_config() { # FUNCTION
    "$1" >"$config.new"
    if cmp -s "$config.new" "$config"; then
        rm "$config.new"
        touch "$config" # newer than this script: make need not ask again
    else
        mv "$config.new" "$config"
    fi
}

case ${1:-} in
    '') ;;
    --status) status; exit 0 ;;
    --tools) mkdir -p "$deps"; fetch_tools; [ ! -f "$deps/sysroot.manifest" ] || { fetch_software "$packages $software_packages"; fetch_fleet "$packages $fleet_packages"; }; exit 0 ;;
    --fleet) fetch_fleet "$packages $fleet_packages"; exit 0 ;;
    --update) rm -f "$deps"/manifest-* "$deps/sysroot.manifest" "$cache/debs/manifest-$suite"-* ; rm -rf "$deps/debs" ;;
    --peer) packages="$packages $peer_packages"; mode=sysroot ;;
    *) sed -n '2,/^set -eu/{/^#/s/^# \{0,1\}//p}' "$0"; exit 2 ;;
esac
case $mode in auto | system | sysroot) ;; *) die "HEARTH_DEPS=$mode: expected auto, system or sysroot." ;; esac

# The Makefile asks it for the flags of either kind of library.
command -v pkg-config >/dev/null 2>&1 || die "'pkg-config' is not here. Install it (package pkgconf or pkg-config) and run" \
    "make again."
if ! mkdir -p "$deps" 2>/dev/null || [ ! -w "$deps" ]; then
    die "cannot write to $deps. Is the tree read-only? Copy it to a place that is yours and run make there."
fi
[ -z "$llama" ] || find_llama
choose_gpu
exec 9>"$deps/lock" # two makes at once: the second waits and then finds everything done
command -v flock >/dev/null 2>&1 && flock 9

if [ "$mode" != sysroot ]; then
    missing=$(system_missing)
    if [ -z "$missing" ]; then
        say 'using the libraries of the system'
        need_plugin "${plugins:-$(backend_dir "$(pkg-config --variable=libdir ggml)")}"
        write_config config_system
        exit 0
    fi
    [ "$mode" = auto ] || die "HEARTH_DEPS=system, but the system lacks: $missing"
fi
if [ -n "$llama" ]; then need_plugin "${plugins:-$libs}"; else add_gpu; choose_rpc; fi
make_sysroot "$packages"
write_config config_sysroot

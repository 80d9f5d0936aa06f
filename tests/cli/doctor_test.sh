#!/usr/bin/env bash
# `hearth doctor`: a line per check, and a status that a script can rely on.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/serve.sh
. "$(dirname "$0")/../support/serve.sh"

unset HEARTH_SSD_FREE
export HEARTH_PORT=0 HEARTH_DISK_TEST=1MiB

# The test has its own folders: the home folder of the user must not matter.
here() { export XDG_STATE_HOME=$PWD/state XDG_CACHE_HOME=$PWD/cache HEARTH_SSD_FREE=1MiB; }

expect_line() { # REGEX
    grep -qE -- "$1" "$scratch/out" || fail "no line like $1"
}

test_a_good_machine_passes() {
    here
    run "$HEARTH" doctor
    expect_status 0
    expect_no_err
    expect_line '^ok    hearth     [0-9]+\.[0-9]+\.[0-9]+ \(commit [0-9a-z-]+, [a-z-]+ build\)$'
    expect_line '^ok    libllama   [^ ]+ from /.*libllama'
    expect_line '^ok    libggml    [^ ]+ from /.*libggml'
    expect_line '^ok    BLAKE3     [0-9.]+ from /'
    expect_line '^ok    backends   /'
    expect_line '^ok    device     [^:]+: .*, .* of .* free$'
    expect_line '^ok    machine    [1-9][0-9]* cores, .* of .* memory available$'
    expect_line '^(ok|warn)  +files '
    expect_line '^ok    config     none; using options and environment only$'
    expect_line '^ok    libsodium  [0-9.]+ from /'
    expect_line '^ok    libuv      [0-9.]+ from /'
    expect_line '^ok    memlock    '
    expect_line '^(ok|warn)  +hugepages  '
    expect_line '^(ok|warn)  +clock      20[0-9]{2}-[0-9]{2}-[0-9]{2} .* UTC, from '
    expect_line "^ok    state      $PWD/state/hearth \(created by the first"
    expect_line "^ok    cache      $PWD/cache/hearth/ssd \(created by the first"
    expect_line '^ok    room       .* free on the SSD cache.s disk'
    expect_line '^(ok|warn)  +disk       writes .*/s, reads .*/s \(tested with 1\.0 MiB\)'
    expect_line '^(ok|warn)  +O_DIRECT   '
    [ -z "$(ls -A)" ] || fail "it left something: $(find .)"
    grep -q '^FAIL' "$scratch/out" && fail 'a failure on a good machine'
    grep -qvE '^(ok|warn|FAIL)  ' "$scratch/out" && fail 'a line without a verdict'
    return 0
}

# A plug-in that is there and not in use is named, with the reason.
test_plugins_that_do_not_load() {
    local dir
    here
    dir=$(dirname "$("$HEARTH" doctor --disk-test 0 | sed -n 's,^ok    backends   \(.*\),\1/x,p')")
    mkdir plug-ins && ln -s "$dir"/libggml-cpu* plug-ins/
    echo 'int unrelated;' >other.c
    gcc -shared -nostdlib -o plug-ins/libggml-other.so other.c || skip 'there is no compiler'
    echo 'not a library' >plug-ins/libggml-broken.so
    cp plug-ins/libggml-other.so plug-ins/libggml-base.so
    run "$HEARTH" doctor --backends "$PWD/plug-ins"
    expect_status 0
    expect_line '^warn  plug-in    libggml-other.so is of another release: it has to be built for ggml [0-9.]+$'
    expect_line '^warn  plug-in    libggml-broken.so cannot be loaded: .*(invalid|too short)'
    ! grep 'plug-in .*cpu' "$scratch/out" || fail 'the CPU has many plug-ins, and one is used'
    ! grep 'plug-in .*base' "$scratch/out" || fail 'libggml-base.so is no plug-in'
}

# Vulkan in software is a GPU to ggml.
test_a_gpu() {
    local vulkan=$HEARTH_BUILD/../../.deps/vulkan
    here
    [ -e "$vulkan/icd.json" ] || skip 'no Vulkan in software here; tools/deps.sh --tools fetches it'
    run env VK_DRIVER_FILES="$vulkan/icd.json" GGML_VK_VISIBLE_DEVICES=0 LD_LIBRARY_PATH="$vulkan/lib" \
        "$HEARTH" doctor --backends "$vulkan/backends"
    expect_status 0
    expect_line '^ok    device     Vulkan0: llvmpipe'
    expect_line '^ok    pinned     memory for the RAM cache can be pinned, but not with --isolate: .* it is not loaded$'
    # as if its backend had loaded NVIDIA's driver
    run env VK_DRIVER_FILES="$vulkan/icd.json" GGML_VK_VISIBLE_DEVICES=0 LD_LIBRARY_PATH="$vulkan/lib" \
        ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0" \
        LD_PRELOAD="$HEARTH_BUILD/tests/libcuda.so.1" "$HEARTH" doctor --backends "$vulkan/backends"
    expect_status 0
    expect_line '^ok    pinned     memory for the RAM cache can be pinned, also with --isolate$'
    ! grep -E '(plug-in|card|flash) ' "$scratch/out" || fail 'nothing is wrong with it'
}

# Wherever the folder comes from.
test_no_backends_is_a_failure() {
    local how
    mkdir empty
    for how in option option-empty environment file; do
        rm -f hearth.ini
        case $how in
        option) run "$HEARTH" doctor --backends /nonexistent ;;
        option-empty) run "$HEARTH" doctor --backends "$PWD/empty" ;;
        environment) run env HEARTH_BACKENDS=/nonexistent "$HEARTH" doctor ;;
        file)
            printf '[doctor]\nbackends = /nonexistent\n' >hearth.ini
            run "$HEARTH" doctor --config hearth.ini
            ;;
        esac
        expect_status 1
        expect_no_err
        expect_line '^FAIL  backends   none in /.*: no model can be loaded\. Pass the right folder with --backends'
        grep -q '^ok    device' "$scratch/out" && fail "$how: a device without backends"
        expect_line '^ok    machine ' # the other checks are made all the same
    done
}

test_option_wins_over_the_environment() {
    local folder
    run "$HEARTH" doctor
    folder=$(sed -n 's/^ok    backends   //p' "$scratch/out")
    run env HEARTH_BACKENDS=/nonexistent "$HEARTH" doctor --backends "$folder"
    expect_status 0
    expect_out "ok    backends   $folder"
}

test_few_files_are_a_warning() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    run bash -c 'ulimit -n 100 && "$1" doctor' bash "$HEARTH"
    expect_status 0
    # shellcheck disable=SC2016 # the backticks are meant
    expect_line '^warn  files      limit of open files is 100; raise it with `ulimit -n 1024`'
}

test_folders_of_others() {
    here
    mkdir -p state/hearth cache/hearth/ssd
    chmod 777 cache/hearth/ssd
    head -c 32 /dev/urandom >state/hearth/key
    chmod 644 state/hearth/key
    run "$HEARTH" doctor
    expect_status 1
    # shellcheck disable=SC2016 # the backticks are meant
    expect_line '^FAIL  key        .*state/hearth/key is readable by other users: run `chmod 600 '
    # shellcheck disable=SC2016
    expect_line '^warn  cache      .* is writable by other users: run `chmod 700 '
    chmod 600 state/hearth/key
    chmod 700 cache/hearth/ssd
    run "$HEARTH" doctor
    expect_status 0
    expect_line '^ok    key '
    : >file
    run "$HEARTH" doctor --ssd-dir "$PWD/file"
    expect_status 1
    expect_line '^FAIL  cache      .*/file is not a folder: choose another one with --ssd-dir'
    run "$HEARTH" doctor --ssd-dir none
    expect_status 0
    expect_line '^ok    cache      in memory only$'
}

# As `hearth serve` makes them: below the current folder, or in the root.
test_folders_without_a_parent_in_their_name() {
    run "$HEARTH" doctor --ssd-dir new --state-dir new/state --ssd-free 1MiB
    expect_status 0
    expect_line '^ok    cache      new .created by the first `hearth serve`.$'
    expect_line '^ok    state      new/state .created by the first `hearth serve`.$'
    expect_line '^ok    room '
    [ ! -e new ] || fail 'it made the folder'
    [ "$(id -u)" = 0 ] || return 0
    run "$HEARTH" doctor --state-dir /hearth-has-no-such-folder
    expect_line '^ok    state      /hearth-has-no-such-folder .created '
}

test_no_room() {
    here
    run "$HEARTH" doctor --ssd-free 100TiB --disk-test 0
    expect_status 0
    expect_line '^warn  room       .* nothing will be stored. Free some space, lower --ssd-free, or choose another --ssd-dir$'
    grep -q '^ok    disk' "$scratch/out" && fail 'it was measured all the same'
    return 0
}

test_ports() {
    here
    run "$HEARTH" doctor --host 127.0.0.1 --port 1 --disk-test 0 # unused; only root may
    expect_line '^(ok|FAIL)  +port '
    make_model
    serve m.gguf -c 512
    port=$(sed -n 's/^ *Anthropic http.*:\([0-9]*\)$/\1/p' served)
    run "$HEARTH" doctor --port "$port" --disk-test 0
    expect_status 0
    expect_line "^ok    port       hearth [0-9.]+ runs at http://127.0.0.1:$port$"
    run env HEARTH_PORT="$port" "$HEARTH" doctor --disk-test 0
    expect_line '^ok    port       hearth '
    stop
    run "$HEARTH" doctor --port "$port" --disk-test 0
    expect_line "^ok    port       http://127.0.0.1:$port is free$"
}

test_config_is_named() {
    printf '[doctor]\n' >hearth.ini
    run "$HEARTH" doctor --config hearth.ini
    expect_status 0
    expect_line '^ok    config     .*hearth\.ini$'
}

# Port and folders are those of the server that has this file.
test_settings_of_the_server() {
    here
    unset HEARTH_PORT HEARTH_SSD_FREE
    printf '[serve]\nhost = %s/no.sock\nssd-dir = %s/disk\nssd-free = 100TiB\n' "$PWD" "$PWD" >hearth.ini
    run "$HEARTH" doctor --config hearth.ini --disk-test 0
    expect_status 0
    expect_line "^ok    cache      $PWD/disk \(created by the first"
    expect_line '^warn  room       .* --ssd-free is 100\.0 TiB'
    ! grep ' port ' "$scratch/out" || fail 'the server would not listen on a port'
    printf '[doctor]\nssd-free = 1MiB\n' >>hearth.ini # its own section is stronger
    run "$HEARTH" doctor --config hearth.ini --disk-test 0 --ssd-dir "$PWD/other"
    expect_status 0
    expect_line "^ok    cache      $PWD/other "
    expect_line '^ok    room '
}

# The file that keeps every other command from starting.
test_broken_config_is_a_failure() {
    here
    printf '[serve]\nprot = 12\n' >key.ini
    printf '[serve]\nport = twelve\n' >value.ini
    mkdir folder.ini
    for name in key value folder none; do
        run "$HEARTH" doctor --config $name.ini --disk-test 0
        expect_status 1
        expect_no_err
        expect_line "^FAIL  config     .*$name\.ini.*: correct it"
        expect_line '^ok    machine ' # the other checks are made all the same
        expect_line '^ok    cache '
    done
}

test_mistakes_are_usage_errors() {
    run "$HEARTH" doctor me
    expect_status 2
    expect_no_out
    expect_err 'hearth doctor: unexpected argument "me"'
    run "$HEARTH" doctor --bakends x
    expect_status 2
    expect_err 'did you mean --backends?'
}

test_closed_stdout_is_a_failure() {
    # shellcheck disable=SC2016
    run bash -c '"$1" doctor >&-' bash "$HEARTH"
    expect_status 1
    expect_err 'hearth doctor: cannot write the output'
}

suite_main "$@"

#!/usr/bin/env bash
# The examples, as a reader would try them: from an installed prefix, outside of the tree. A build for tests, which cannot be installed,
# runs them where they are.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

# ---- helpers ---------------------------------------------------------------------------------------------------

# Where the examples and the library are, and the $words to compile with.
use_build() {
    need_lib
    examples=$top/examples where=$lib words=(-I"$top/include" -L"$lib" "-Wl,-rpath,$lib" -lhearth)
}

use_installed() {
    if build_for_tests; then
        use_build
        return
    fi
    install_lib
    examples=$prefix/share/doc/hearth/examples where=$prefix/lib
    read -ra words <<<"$(flags --cflags --libs) -Wl,-rpath,$where"
}

setup_llama() {
    case $variant in thread*) skip 'the example has one thread, and those of libllama cannot be seen' ;; esac
    use_installed
    read -ra llama <<<"${HEARTH_LLAMA-$(pkg-config --cflags --libs llama ggml 2>/dev/null)}"
    printf '#include <llama.h>\nint main(void) { llama_backend_init(); return 0; }\n' >probe.c
    "${cc[@]}" probe.c -o probe "${llama[@]}" 2>/dev/null || skip 'libllama cannot be linked here'
    compile "${cc[@]}" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wshadow -Werror "$examples/llama_session.c" -o llama_session \
        "${words[@]}" "${llama[@]}"
}

expect_session() { # FAMILY, HOW ITS STATE IS HELD, TOKENS REUSED BY EACH PROMPT
    run "$HEARTH" model make --family "$1" --out model.gguf
    expect_status 0
    # Other tests run beside this one: threads that wait for each other by spinning would wait for these.
    run env OMP_WAIT_POLICY=passive ./llama_session model.gguf ${HEARTH_GGML:+"$HEARTH_GGML"}
    expect_status 0
    expect_out "state is held as $2"
    expect_same "$3" "$(sed -n 's/.* tokens, \([0-9]*\) reused.*logits equal$/\1/p' "$scratch/out" | tr '\n' ' ')"
    expect_out 'every answer is that of a cold run, bit by bit'
}

setup_python() { # use_build or use_installed
    command -v python3 >/dev/null || skip 'no python3'
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 8))' || skip 'python3 is older than 3.8'
    case $variant in address* | thread* | undefined*) skip 'python3 is not built with the sanitizer that the library needs' ;; esac
    "$1"
    export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$examples
    # An installed hearth.py finds the library by itself; in the tree it would take that of the release build.
    if [ "$where" = "$lib" ]; then export HEARTH_LIBRARY=$lib/libhearth.so.0; fi
    run python3 -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1])' "$where/libhearth.so.0"
    ! grep -q "version .GLIBC_.* not found" "$scratch/err" || skip 'this libhearth is for a newer C library than that of python3'
    expect_status 0
}

# ---- llama_session.c -------------------------------------------------------------------------------------------

test_llama_with_rows() {
    setup_llama
    expect_session qwen3 rows '0 222 64 222 '
}

test_llama_with_snapshots() {
    setup_llama
    local family
    for family in qwen35 mamba2 gemma3; do # hybrid, recurrent, sliding windows
        expect_session $family snapshots '0 222 0 222 '
    done
}

test_llama_says_what_is_wrong() {
    setup_llama
    run ./llama_session
    expect_status 2
    expect_err 'usage: llama_session MODEL.gguf'
    run ./llama_session /nowhere.gguf ${HEARTH_GGML:+"$HEARTH_GGML"}
    expect_status 1
    expect_err 'the model cannot be loaded'
}

# ---- restore_contract.c ----------------------------------------------------------------------------------------

test_restore_contract() {
    use_installed
    compile "${cc[@]}" -std=c11 -Wall -Wextra -Wshadow -Werror "$examples/restore_contract.c" -o restore_contract "${words[@]}"
    run ./restore_contract
    expect_status 0
    expect_out 'to  400: yes, compute from 400 (cut)'
    expect_out 'to  960: yes, compute from 960 (restored all parts)'
    expect_out 'to  400: no, compute from 0 (the window is no longer retained)'
    expect_out 'to  960: no, compute from 0 (recurrent state requires an exact checkpoint or replay)'
    expect_out 'to 1000: yes, compute from 1000 (restored all parts)'
    expect_out 'resumes at 970, and at 0 with recurrent layers'
}

# The program in the guide is a program.
test_guide_has_a_program_that_runs() {
    use_installed
    local guide=$top/docs/library.md
    build_for_tests || guide=$prefix/share/doc/hearth/library.md
    # shellcheck disable=SC2016 # these are no commands
    sed -n '/^```c$/,/^```$/{/^```/d;p}' "$guide" >guide.c
    compile "${cc[@]}" -std=c11 -Wall -Wextra -Werror guide.c -o guide "${words[@]}"
    run ./guide
    expect_status 0
    expect_out '0 tokens reused, 4000 bytes stored'
    expect_out '999 tokens reused, 0 bytes stored'
}

# A guide that needs the tree would be no guide.
test_examples_use_public_headers_only() {
    grep -hoE '^# *include +["<][^">]*' "$top"/examples/*.c | sed 's/.*["<]//' | sort -u >includes
    grep -qx hearth/hearth.h includes || fail 'this test does not understand the example'
    while read -r name; do
        [ ! -e "$top/src/$name" ] || fail "$name is of src/"
    done <includes
}

# ---- Python ----------------------------------------------------------------------------------------------------

test_python_session() {
    setup_python use_installed
    run python3 "$examples/session.py"
    expect_status 0
    expect_out 'RowsEngine: 308 tokens, 289 reused'
    expect_out 'RowsEngine: 250 tokens, 232 reused'
    expect_out 'StateEngine: 308 tokens, 284 reused'
    expect_out 'StateEngine: 250 tokens, 232 reused'
    expect_out '7 hits of 10 lookups'
    ! grep WRONG "$scratch/out" || fail 'an answer is wrong'
}

test_python_wrapper() {
    setup_python use_build
    run python3 "$top/tests/examples/wrapper.py"
    expect_status 0
}

test_python_has_the_structs_of_the_header() {
    setup_python use_build
    run python3 "$top/tests/examples/wrapper.py" --layout
    expect_status 0
    cp "$scratch/out" layout.c
    grep -q 'struct hearth_stats, bytes_memory' layout.c || fail 'the list is not complete'
    compile "${cc[@]}" -std=c11 -fsyntax-only "${words[@]}" layout.c
}

suite_main "$@"

#!/bin/sh
# coverage.sh: which lines of src/ the tests ran. `tools/coverage.sh BUILD_DIR`, after `make test COV=1` (which calls it).
#
# Prints lines, lines run and percent for each file and in all, and writes the same with the line numbers that never ran to
# BUILD_DIR/coverage.txt. Needs only the gcov of the compiler that made the build; GCOV=... names another.
#
# A line counts as run when any object ran it: a header's inline function is in many. Objects that no test ever loaded count
# as not run. Counts add up over runs since the object was compiled; `rm -r BUILD_DIR` starts afresh. A test that ends by a
# signal leaves no counts behind.
set -eu
export LC_ALL=C

if [ $# -ne 1 ] || [ ! -d "$1" ]; then
    echo "usage: tools/coverage.sh BUILD_DIR" >&2
    exit 2
fi
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/.." # gcov's names of sources are relative to where the compiler ran

# The first word of BUILD_DIR/flags is the compiler: gcc-12 -> gcov-12, clang-14 -> llvm-cov-14.
find_gcov() {
    compiler=gcc
    [ ! -r "$build/flags" ] || read -r compiler _ <"$build/flags"
    case $compiler in
    *clang*) echo "$compiler" | sed 's/\(.*\)clang/\1llvm-cov/; s/$/ gcov/' ;;
    *gcc*) echo "$compiler" | sed 's/\(.*\)gcc/\1gcov/' ;;
    *) echo gcov ;;
    esac
}
gcov=${GCOV:-$(find_gcov)}
command -v "${gcov%% *}" >/dev/null || { echo "coverage: '${gcov%% *}' is not here; set GCOV" >&2; exit 1; }

[ -n "$(find "$build/src" -name '*.gcda' 2>/dev/null | head -n 1)" ] ||
    { echo "coverage: no counts below $build/src; run make test COV=1 first" >&2; exit 1; }

# gcov -t prints each source with "count:line:text"; a count of "-" is no code, of ##### was never run.
# shellcheck disable=SC2086 # llvm-cov needs its word `gcov`
find "$build/src" -name '*.gcno' -print | sort | xargs $gcov -t 2>/dev/null | awk -v out="$build/coverage.txt" '
function ranges(file,    n, from, to, text) {
    for (n = 1; n <= last[file] + 1; n++) {
        if ((file, n) in run && !run[file, n]) {
            from = from ? from : n
        } else if (from && ((file, n) in run || n > last[file])) {
            # Lines without code do not end a range, but it ends at its last line of code.
            text = text " " from (to > from ? "-" to : "")
            from = 0
        }
        if ((file, n) in run)
            to = n
    }
    return text
}

function show(name, lines, ran, missed,    text) {
    text = sprintf("%-36s %6d %6d %6.1f%%", name, lines, ran, lines ? 100 * ran / lines : 100)
    print text
    print text (missed == "" ? "" : " ") missed > out
}

/^ *-: *0:Source:/ {
    file = $0
    sub(/^[^S]*Source:/, "", file)
    sub(/^\.\//, "", file)
    ours = file ~ /^(src|include)\//
    if (ours && !(file in last)) {
        files[++count] = file
        last[file] = 0
    }
    next
}

ours && /^ *[0-9#=]+\*?: *[0-9]+:/ {
    split($0, part, ":")
    n = part[2] + 0
    run[file, n] += part[1] ~ /[0-9]/ ? 1 : 0
    last[file] = n > last[file] ? n : last[file]
}

END {
    head = sprintf("%-36s %6s %6s %7s", "file", "lines", "run", "%")
    print head
    print head "  never run" > out
    for (i = 1; i <= count; i++) {
        file = files[i]
        lines = ran = 0
        for (n = 1; n <= last[file]; n++) {
            if ((file, n) in run) {
                lines++
                ran += run[file, n] > 0
            }
        }
        all_lines += lines
        all_ran += ran
        show(file, lines, ran, ranges(file))
    }
    show("total", all_lines, all_ran, "")
    exit all_lines ? 0 : 1
}'
echo "lines that did not run: ${build#"$PWD"/}/coverage.txt"

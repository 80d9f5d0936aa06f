#!/bin/sh
# compat.sh: what changes with Debian's newest libllama: builds against it, runs the fidelity table and `hearth qa`, compares.
#
#   tools/compat.sh [run] [DIR]        everything; DIR (build/compat) gets a copy of the tree with its own sysroot and build folder
#   tools/compat.sh rows FIDELITY QA   the rows of two logs
#   tools/compat.sh compare OLD NEW    two results: a line for each row that differs; status 1 if there is one
#
# The newest release is that of Debian's suite HEARTH_COMPAT_SUITE (sid), from the mirror of tools/deps.sh. This tree, its sysroot and
# its build folder stay as they are. Results are build/compat/old.txt and new.txt, one row per family or check: NAME, a tab, the verdict.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
suite=${HEARTH_COMPAT_SUITE:-sid}

say() { printf 'compat: %s\n' "$*" >&2; }
die() { printf 'compat: error: %s\n' "$*" >&2; exit 2; }

# ---- comparing ----

# Rows that only one of the files has are differences, too.
compare() { # OLD NEW
    [ -f "$1" ] || die "no file $1"
    [ -f "$2" ] || die "no file $2"
    awk -F '\t' '
        FNR == NR { old[$1] = $2; next }
        { now[$1] = $2 }
        END {
            for (name in old) all[name]
            for (name in now) all[name]
            for (name in all) {
                rows++
                a = name in old ? old[name] : "absent"
                b = name in now ? now[name] : "absent"
                if (a != b) { changed++; printf "%-24s %-28s %s\n", name, a, b | "sort" }
            }
            close("sort")
            if (changed == 0) { printf "nothing changed in %d rows\n", rows; exit 0 }
            printf "%d of %d rows changed\n", changed, rows
            exit 1
        }' "$1" "$2"
}

# ---- results ----

# The table of `make fidelity`: "family prompt ram ssd turn log-probs power".
families() { # LOG
    awk 'NF == 7 && $6 ~ /^(equal|DIFFERENT)$/ { printf "%s\t%s, %s\n", $1, $6, ($3 > 0 ? "reused" : "not reused") }' "$1"
}

# The table of `hearth qa`: "scenario fault status ...".
checks() { # LOG
    awk '$3 ~ /^(passed|FAILED|noticed|MISSED)$/ { printf "qa %s, %s\t%s\n", $1, $2, $3 }' "$1"
}

results() { # TREE NAME
    say "$2: make fidelity and make qa in $1"
    make -C "$1" fidelity >"$dir/$2.fidelity.log" 2>&1 || say "$2: make fidelity fails, see $dir/$2.fidelity.log"
    make -C "$1" qa >"$dir/$2.qa.log" 2>&1 || say "$2: make qa fails, see $dir/$2.qa.log"
    { families "$dir/$2.fidelity.log"; checks "$dir/$2.qa.log"; } >"$dir/$2.txt"
    [ -s "$dir/$2.txt" ] || die "$2: no results; see the logs in $dir"
}

release_of() { # TREE
    sed -n 's/^Version: *//p' "$1"/.deps/sysroot/usr/lib/*/pkgconfig/llama.pc 2>/dev/null || :
}

run() {
    tree=$dir/tree
    mkdir -p "$tree"
    (cd "$top" && git ls-files -z | xargs -0 tar cf - --no-recursion) | tar xf - -C "$tree"
    (cd "$tree" && HEARTH_DEPS=sysroot HEARTH_DEPS_SUITE=$suite tools/deps.sh --update) || die "the packages of $suite cannot be fetched"
    old=$(release_of "$top") new=$(release_of "$tree")
    say "libllama ${old:-of the system} here, ${new:-unknown} in $suite"
    [ "$old" != "$new" ] || say "$suite has the same release: every difference would be an error of ours"
    make -C "$tree" all >"$dir/build.log" 2>&1 || die "hearth does not build against libllama $new; see $dir/build.log"
    results "$top" old
    results "$tree" new
    printf '%-24s %-28s %s\n' '' "libllama ${old:-of the system}" "libllama $new"
    compare "$dir/old.txt" "$dir/new.txt"
}

case ${1:-run} in
run)
    [ $# -le 2 ] || die "usage: compat.sh [run] [DIR]"
    dir=${2:-$top/build/compat}
    mkdir -p "$dir"
    dir=$(cd "$dir" && pwd)
    run
    ;;
rows) # FIDELITY_LOG QA_LOG: what `run` compares
    [ $# -eq 3 ] || die "usage: compat.sh rows FIDELITY_LOG QA_LOG"
    families "$2"
    checks "$3"
    ;;
compare)
    [ $# -eq 3 ] || die "usage: compat.sh compare OLD NEW"
    compare "$2" "$3"
    ;;
*) die "unknown command \"$1\"; use run, rows or compare" ;;
esac

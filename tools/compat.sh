#!/bin/sh
# compat.sh: what changes with Debian's newest libllama: builds against it, runs `make fidelity` and `make qa`, compares.
#
#   tools/compat.sh [run] [DIR]        everything; DIR (build/compat) gets a copy of the tree with its own sysroot and build folder
#   tools/compat.sh rows FIDELITY QA   the rows of two logs
#   tools/compat.sh compare OLD NEW    two results: a line for each row that differs; status 1 if there is one
#
# The newest release is that of Debian's suite HEARTH_COMPAT_SUITE (sid), from the mirror of tools/deps.sh. This tree, its sysroot and
# its build folder stay as they are. Both releases run at the same time, with the same prompts (HEARTH_TEST_SEED, ROUNDS). Results
# are build/compat/old.txt and new.txt, one row per suite, family or check: NAME, a tab, the verdict. A run that was interrupted
# continues: a finished step is not run again for the same sources and packages.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
suite=${HEARTH_COMPAT_SUITE:-sid}
export HEARTH_TEST_SEED="${HEARTH_TEST_SEED:-0x20261116}" ROUNDS="${ROUNDS:-2}"
unset MAKEFLAGS MAKELEVEL # each make below has all processors, not a share of the first one's jobs

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

# The runner's line of a suite: "ok fidelity/lora 2 passed 11.79 s".
suites() { # LOG
    awk '$1 ~ /^(ok|FAIL)$/ && $NF == "s" && $4 ~ /^passed,?$/ {
        verdict = $3
        for (i = 4; i < NF - 1; i++) verdict = verdict " " $i
        printf "%s\t%s\n", $2, verdict
    }' "$1"
}

# The table of `make fidelity`: "family prompt ram ssd turn log-probs power".
families() { # LOG
    awk 'NF == 7 && $6 ~ /^(equal|DIFFERENT)$/ { printf "%s\t%s, %s\n", $1, $6, ($3 > 0 ? "reused" : "not reused") }' "$1"
}

# The table of `hearth qa`: "scenario fault status ...".
checks() { # LOG
    awk '$3 ~ /^(passed|FAILED|noticed|MISSED)$/ { printf "qa %s, %s\t%s\n", $1, $2, $3 }' "$1"
}

rows() { # FIDELITY_LOG QA_LOG
    suites "$1"
    families "$1"
    checks "$2"
}

# What a result depends on: sources, packages, prompts.
key_of() { # TREE
    { (cd "$top" && git ls-files -z | xargs -0 cksum); cat "$1/.deps/config.mk" "$1"/.deps/sysroot.manifest 2>/dev/null || :
      echo "$ROUNDS $HEARTH_TEST_SEED"; } | cksum
}

# `make WHAT`, unless an earlier run finished it. The log of a step that ended gets the step's name.
step() { # TREE NAME WHAT
    log=$dir/$2.$3.log key=$(key_of "$1")
    if [ -f "$log" ] && [ "$(head -n 1 "$log")" = "$key" ]; then
        say "$2: make $3 was run before: $log"
        return
    fi
    say "$2: make $3"
    begin=$(date +%s)
    { echo "$key"; make -C "$1" "$3" 2>&1 || echo "compat: make $3 fails"; } >"$log.part"
    mv "$log.part" "$log"
    if tail -n 1 "$log" | grep -q '^compat: '; then say "$2: make $3 fails, see $log"; fi
    say "$2: make $3 took $(($(date +%s) - begin)) s"
}

results() { # TREE NAME
    step "$1" "$2" fidelity
    step "$1" "$2" qa
    rows "$dir/$2.fidelity.log" "$dir/$2.qa.log" >"$dir/$2.txt"
    [ -s "$dir/$2.txt" ] || die "$2: no results; see the logs in $dir"
}

release_of() { # TREE
    sed -n 's/^Version: *//p' "$1"/.deps/sysroot/usr/lib/*/pkgconfig/llama.pc 2>/dev/null || :
}

# A copy of this tree; what it has built and fetched stays.
copy_tree() { # TREE
    mkdir -p "$1"
    find "$1" -mindepth 1 -maxdepth 1 ! -name .deps ! -name build -exec rm -rf {} +
    (cd "$top" && git ls-files -z | xargs -0 tar cf - --no-recursion) | tar xf - -C "$1"
}

build() { # TREE NAME
    say "$2: make all"
    make -C "$1" all >"$dir/$2.build.log" 2>&1 || die "$2: hearth does not build; see $dir/$2.build.log"
}

run() {
    tree=$dir/tree
    copy_tree "$tree"
    (cd "$tree" && HEARTH_DEPS=sysroot HEARTH_DEPS_SUITE=$suite tools/deps.sh --update) || die "the packages of $suite cannot be fetched"
    build "$top" old
    build "$tree" new
    old=$(release_of "$top") new=$(release_of "$tree")
    say "libllama ${old:-of the system} here, ${new:-unknown} in $suite"
    [ "$old" != "$new" ] || say "$suite has the same release: every difference would be an error of hearth"
    results "$top" old &
    here=$!
    trap 'kill "$here" 2>/dev/null || :' INT TERM
    results "$tree" new
    wait "$here" || die "no results of this tree"
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
    rows "$2" "$3"
    ;;
compare)
    [ $# -eq 3 ] || die "usage: compat.sh compare OLD NEW"
    compare "$2" "$3"
    ;;
*) die "unknown command \"$1\"; use run, rows or compare" ;;
esac

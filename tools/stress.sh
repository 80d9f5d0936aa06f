#!/bin/sh
# stress.sh: the random suites of the cache with one seed after the other, for a time. `tools/stress.sh BUILD_DIR` (make stress calls it).
#
# HEARTH_STRESS_S is that time in seconds (60), HEARTH_STRESS_STEPS the steps of one run (100,000; fewer with a sanitizer). What fails is shown
# whole, with its seed, and ends the campaign. Prints the steps that were made in all.
set -eu
export LC_ALL=C

if [ $# -ne 1 ] || [ ! -d "$1" ]; then
    echo "usage: tools/stress.sh BUILD_DIR" >&2
    exit 2
fi
suites=$1/tests/cache
steps=${HEARTH_STRESS_STEPS:-}
if [ -z "$steps" ]; then
    case ${1##*/} in
    release*) steps=100000 ;;
    *) steps=10000 ;;
    esac
fi
log=$1/stress.log
end=$(($(date +%s) + ${HEARTH_STRESS_S:-60}))
runs=0 oracle=0 threads=0

# run SUITE STEPS
run() {
    if ! HEARTH_ORACLE_STEPS=$2 "$suites/$1_test" >"$log" 2>&1; then
        cat "$log"
        echo "stress: cache/$1 failed after $oracle steps of the oracle and $threads lookups of threads" >&2
        exit 1
    fi
}

while [ "$(date +%s)" -lt "$end" ]; do
    run cache_oracle "$steps"
    oracle=$((oracle + $(sed -n 's/^\([0-9]*\) steps in .*/\1/p' "$log")))
    run cache_threads "$((steps / 10))"
    threads=$((threads + $(sed -n 's/.* hits of \([0-9]*\) lookups.*/\1/p' "$log")))
    runs=$((runs + 1))
done
echo "stress: $runs runs, $oracle steps of the oracle, $threads lookups of threads, nothing wrong"

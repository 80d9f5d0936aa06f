#!/usr/bin/env bash
# /metrics of a real server, as Prometheus and Grafana read it: with Prometheus' own checker, and against the queries of our board.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/serve.sh
. "$(dirname "$0")/../support/serve.sh"
# shellcheck source=tests/support/tools.sh
. "$(dirname "$0")/../support/tools.sh"

top=$(cd "$(dirname "$0")/../.." && pwd)
board=$top/contrib/grafana/hearth.json

# The text of a server that has answered the same question twice, in the file metrics.
scrape() { # options
    make_model
    serve m.gguf -c 2048 --ssd-dir "$PWD/ssd" "$@"
    for _ in 1 2; do
        curl -sSf -o answer "$url/v1/completions" -H 'Content-Type: application/json' \
            -d '{"prompt": "The hearth keeps what was computed, and says why something was not.", "max_tokens": 4}' || fail 'no answer'
    done
    curl -sSf "$url/metrics" >metrics || fail 'no metrics'
    stop
}

expressions() {
    jq -r '.panels[].targets[]?.expr, (.templating.list[].query.query? // empty)' "$board"
}

# Every name that is shown has its help and type once, before its values.
test_every_series_has_a_head() {
    scrape --metrics-compat llamacpp,vllm
    awk '/^# TYPE / { if (type[$3]++) { print "twice: " $3; bad = 1 } kind[$3] = $4; next }
        /^# HELP / { if (NF < 4) { print "no help: " $3; bad = 1 } next }
        { name = $1; sub(/\{.*/, "", name)
          base = name; if (!(base in kind)) sub(/_(bucket|sum|count)$/, "", base)
          if (!(base in kind)) { print "no type: " name; bad = 1 }
          if (kind[base] == "counter" && name !~ /_total$/) { print "no _total: " name; bad = 1 } }
        END { exit bad }' metrics || fail 'see above'
    grep -q '^hearth_api_first_token_seconds_count{cache="hit"} 1$' metrics || fail 'the second question is no hit'
    grep -q '^hearth_build_info{version="' metrics || fail 'no build'
}

# What clients write never becomes a label: two servers that were asked different things show the same series.
test_labels_do_not_come_from_requests() {
    scrape
    sed -n 's/^\([a-z][^ ]*\) .*/\1/p' metrics >series
    ! grep -i 'hearth keeps\|127\.0\.0\.1\|m\.gguf' series || fail 'text of a request is in a label'
    [ "$(wc -l <series)" -lt 2000 ] || fail "$(wc -l <series) series"
}

test_promtool_likes_them() {
    need_tool promtool
    scrape --metrics-compat llamacpp,vllm
    # Names of others have colons, which are for rules; they are checked as what they are here: names without.
    sed 's/\(llamacpp\|vllm\):/\1_/g' metrics >checked
    run "${tool[@]}" check metrics <checked
    # Whose names these are is not ours to change: units that are not base units, and totals that are gauges.
    err=$(grep -v '^\(llamacpp\|vllm\)_' "$scratch/err")
    [ -z "$err" ] || fail 'see above'
    [ ! -s "$scratch/out" ] || fail 'see above'
}

test_board_asks_for_what_is_there() {
    command -v jq >/dev/null || skip 'no jq here'
    scrape --shared valkey://127.0.0.1:1/test # no store is there: its numbers are
    expressions | grep -o 'hearth_[a-z_]*' | sort -u >asked
    [ "$(wc -l <asked)" -gt 20 ] || fail 'the board asks for nearly nothing'
    sed -n 's/^\([a-z][a-z_]*\).*/\1/p' metrics | sort -u >there
    comm -23 asked there >missing
    [ ! -s missing ] || fail "not in /metrics: $(tr '\n' ' ' <missing)"
    # Values of labels as well: source="computed".
    expressions | grep -o '[a-z]*!\?="[a-z]*"' | grep -v '^job' | sed 's/!=/=/' | sort -u >labels
    [ -s labels ] || fail 'the board asks for no label'
    while read -r label; do
        grep -qF "$label" metrics || fail "no series has $label"
    done <labels
}

# The queries are queries.
test_board_is_promql() {
    command -v jq >/dev/null || skip 'no jq here'
    need_tool promtool
    jq -r '.panels[].targets[]?.expr' "$board" | sed "s/\\\$__rate_interval/5m/g; s/\\\$job/hearth/g; s/'/''/g" |
        awk 'BEGIN { print "groups:\n- name: board\n  rules:" } { printf "  - record: board:query:%d\n    expr: '"'%s'"'\n", NR, $0 }' >rules.yml
    run "${tool[@]}" check rules rules.yml
    expect_status 0
}

suite_main "$@"

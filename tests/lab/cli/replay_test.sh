#!/usr/bin/env bash
# `hearth replay` as a user meets it.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../../support/suite.sh"
# shellcheck source=tests/support/serve.sh
. "$(dirname "$0")/../../support/serve.sh"

# Two conversations of three turns that share their first block, and a stranger.
write_trace() {
    cat >trace.jsonl <<'EOF'
{"timestamp": 0, "input_length": 1024, "output_length": 9, "hash_ids": [0, 1]}
{"timestamp": 1000, "input_length": 1024, "output_length": 9, "hash_ids": [0, 2]}
{"timestamp": 2000, "input_length": 1536, "output_length": 9, "hash_ids": [0, 1, 3]}
{"timestamp": 3000, "input_length": 1536, "output_length": 9, "hash_ids": [9, 8, 7]}
{"timestamp": 4000, "input_length": 1536, "output_length": 9, "hash_ids": [0, 2, 4]}
EOF
}

test_a_table_says_what_and_where() {
    write_trace
    run "$HEARTH" replay trace.jsonl --blocks 8
    expect_status 0
    expect_out 'hearth 0'
    expect_out 'mooncake: trace.jsonl'
    expect_out '5 requests'
    expect_out 'lru-tail'
    expect_out 'opt'
}

# 13 blocks; 0 + 1 + 2 + 0 + 2 of them are held when nothing must leave.
test_csv_has_the_numbers() {
    write_trace
    run "$HEARTH" replay trace.jsonl --blocks 8 --policy lru-tail --csv -
    expect_status 0
    expect_out 'policy,capacity_bytes,capacity_blocks,token_hit_rate,block_hit_rate,'
    expect_out 'lru-tail,536870912,8,0.384615,0.384615,6656,4096,0,'
}

test_json_and_svg_are_written() {
    write_trace
    run "$HEARTH" replay trace.jsonl --tokens 1024 --tokens 4096 --json - --svg plot.svg
    expect_status 0
    expect_out '"policy":"expected-reuse"'
    expect_out '"capacity_blocks":2,'
    expect_out '"machine":"'
    expect_out '"block_tokens":512,'
    grep -q '<polyline' plot.svg || fail 'no line in the plot'
}

test_lists_have_commas() {
    write_trace
    run "$HEARTH" replay trace.jsonl --blocks 8,4 --policy lru-tail,opt --csv -
    expect_status 0
    expect_out 'lru-tail,536870912,8,'
    expect_out 'opt,268435456,4,'
}

test_bytes_are_a_capacity_too() {
    write_trace
    run "$HEARTH" replay trace.jsonl --bytes 1GiB --policy lru-tail --csv -
    expect_status 0
    expect_out 'lru-tail,1073741824,0,0.384615,'
}

test_users_and_seed_decide_the_load() {
    write_trace
    run "$HEARTH" replay trace.jsonl --blocks 8 --users 10 --seed 3 --policy lru-tail
    expect_status 0
    expect_out '50 requests'
    expect_out '10 users, seed 3'
}

test_hybrids_show_snapshots_and_the_best() {
    write_trace
    run "$HEARTH" replay trace.jsonl --blocks 64 --preset hybrid-1b --policy lru-tail --best --csv -
    expect_status 0
    expect_out 'snapshots: policy, every 8192 tokens'
    run "$HEARTH" replay trace.jsonl --blocks 64 --preset hybrid-1b --policy lru-tail --best
    expect_out 'best placement in hindsight:'
    run "$HEARTH" replay --agents 1 --blocks 100000 --preset hybrid-1b --policy lru-tail --compare-snapshots
    expect_status 0
    expect_out '% of the bytes of one snapshot per 2048 tokens, '
    expect_out 'lru-tail, 1/10: '
    expect_out 'lru-tail, dense '
    run "$HEARTH" replay trace.jsonl --compare-snapshots
    expect_status 2
    expect_err 'opt does not support snapshots'
}

test_a_model_file_says_what_state_costs() {
    write_trace
    printf '%s\n' '{"timestamp": 1, "input": "the quick brown fox jumps over the lazy dog", "output": "", "session_id": "a"}' \
        '{"timestamp": 2, "input": "the quick brown fox jumps over the lazy dog again", "output": "", "session_id": "a"}' >text.jsonl
    run "$HEARTH" model make --family llama --layers 1 --width 64 -o tiny.gguf
    run "$HEARTH" replay text.jsonl --model tiny.gguf --ctx-size 512 --block-tokens 4 --blocks 1000 --policy lru-tail
    expect_status 0
    expect_out 'text: text.jsonl'
    expect_out '2 requests'
}

test_mistakes_are_sentences() {
    write_trace
    run "$HEARTH" replay
    expect_status 2
    run "$HEARTH" replay trace.jsonl --policy nothing
    expect_status 2
    expect_err 'there is no policy "nothing"'
    run "$HEARTH" replay trace.jsonl --preset nothing
    expect_status 2
    expect_err 'there is no preset "nothing"'
    run "$HEARTH" replay trace.jsonl --blocks 0
    expect_status 2
    expect_err 'is not a capacity'
    run "$HEARTH" replay trace.jsonl --csv /nonexistent/x.csv
    expect_status 1
    expect_err '/nonexistent/x.csv: '
    run "$HEARTH" replay missing.jsonl
    expect_status 1
    echo nonsense >bad.jsonl
    run "$HEARTH" replay bad.jsonl
    expect_status 1
    expect_err 'bad.jsonl:1: is not JSON'
}

# Six prompts that were asked often and never again, then each one once more, soon: made for LRU. CI can see that
# another policy is worse. Objects of 2,048 tokens leave gaps of various sizes, which must not count against a policy.
test_gaps_do_not_count() {
    run "$HEARTH" replay --agents 2 --seed 1 --run-tokens 2048 --policy lru-tail --policy expected-reuse \
        --tokens 100000 --margin 0.3
    expect_status 0
}

test_the_margin_is_an_exit_status() {
    awk 'function ask(n) { time += 10000; printf "{\"timestamp\": %d, \"input_length\": 1536, \"output_length\": 1, \"hash_ids\": [%d, %d, %d]}\n", time, n * 3, n * 3 + 1, n * 3 + 2 }
        BEGIN {
            for (round = 0; round < 20; round++) for (n = 0; n < 6; n++) ask(n)
            for (n = 100; n < 200; n++) { ask(n); if (n >= 103) ask(n - 3) }
        }' >mixed.jsonl
    run "$HEARTH" replay mixed.jsonl --blocks 21 --policy lru-tail --policy saving-per-byte --margin 0.5
    expect_status 1
    expect_err 'saving-per-byte is'
    run "$HEARTH" replay mixed.jsonl --blocks 21 --policy lru-tail --policy opt --margin 0.5
    expect_status 0
}

# ---- a record of a real server ----

words() { # SEED COUNT
    awk -v seed="$1" -v count="$2" 'BEGIN { srand(seed); for (i = 0; i < count; i++) printf "%s ", substr("lorem ipsum dolor sit amet consectetur", 1 + int(rand() * 30), 2 + int(rand() * 6)) }'
}

ask() { # TEXT
    run curl -sS "$url/v1/completions" -H 'Content-Type: application/json' -d "{\"prompt\": \"$1\", \"max_tokens\": 1}"
    expect_out '"object":"text_completion"'
}

number() { # NAME: of the report
    sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" report.json | head -1
}

# Replaying what a server recorded, with the memory that it had, gives the hits that it had: all of them when each token has its hash, and up to a
# block per request less when blocks have.
test_a_recorded_session_replays() {
    make_model
    a=$(words 1 120) b=$(words 2 40) c=$(words 3 150)
    for block in 1 16; do
        # 524 bytes per token; trees of single tokens would take more than that.
        capacity=$([ "$block" = 1 ] && echo --tokens 64000 || echo --bytes 32MiB)
        rm -rf state rec.jsonl
        start --record rec.jsonl --record-block "$block"
        for text in "$a" "$a" "$c" "$a$b" "$a$c" "$c" "$(words 4 30)" "$a$b$c"; do ask "$text"; done
        stop
        grep -q '\[record\] closed file=rec.jsonl requests=8 lost=0 bytes=' log || fail "no sums: $(cat log)"
        [ "$(wc -l <rec.jsonl)" = 9 ] || fail "lines: $(cut -c1-200 rec.jsonl)"
        # shellcheck disable=SC2086
        run "$HEARTH" replay rec.jsonl --model m.gguf --ctx-size 512 --policy saving-per-byte $capacity --json report.json
        expect_status 0
        expect_out 'record: rec.jsonl: 8 requests'
        expect_out 'as recorded, the server reused '
        said=$(grep -o 'computed [0-9]*' log | awk '{ sum += $2 } END { print sum }')
        tokens=$(number tokens) hit=$(number recorded_tokens_hit) computed=$(number tokens_computed)
        [ "$hit" -gt 1000 ] || fail "too little was reused: $hit"
        [ $((tokens - hit)) = "$said" ] || fail "the record says $hit of $tokens, the log $said computed"
        less=$((hit - (tokens - computed)))
        [ "$less" -ge 0 ] && [ "$less" -le $((8 * (block - 1))) ] || fail "blocks of $block: recorded $hit, replayed $((tokens - computed))"
    done
}

# The record goes on after a restart, and one that is full ends, not the server.
test_a_record_goes_on_and_ends() {
    make_model
    a=$(words 1 400)
    start --record rec.jsonl
    ask "$a"
    kill -9 "$server"
    wait "$server" 2>/dev/null
    start --record rec.jsonl --record-max 4KiB
    for _ in 1 2 3 4 5 6; do ask "$a"; done
    stop
    grep -q 'recording has ended' log || fail "nothing was said: $(cat log)"
    [ "$(wc -c <rec.jsonl)" -le 4096 ] || fail 'it is larger than it may be'
    run "$HEARTH" replay rec.jsonl --blocks 1000
    expect_status 0
    run "$HEARTH" serve m.gguf --port 0 -c 512 --ssd-dir none --state-dir "$PWD/state" --record rec.jsonl --record-block 4
    expect_status 1
    expect_err '--record: rec.jsonl: is not a record of this installation with blocks of 4 tokens; choose another file'
}

suite_main "$@"

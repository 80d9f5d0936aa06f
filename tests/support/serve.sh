# serve.sh: a real server for shell suites. Sourced after suite.sh.
#
#     make_model; start [options]; ask PATH JSON; ...; stop
#
# The server has its own folders below $PWD, a free port ($url, also in HEARTH_URL), and is gone when the test is.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the suites use these, suite.sh sets those

unset HEARTH_API_KEY HEARTH_ADMIN_KEY HEARTH_ADMIN_KEY_FILE HEARTH_URL HEARTH_HOST HEARTH_PORT HEARTH_CONFIG HEARTH_LOG_LEVEL HEARTH_LOG_FORMAT \
    HEARTH_COLOR HEARTH_BACKENDS HEARTH_STATE_DIR HEARTH_SSD_DIR
export XDG_CONFIG_HOME=/dev/null/nowhere
# Called by suite.sh in the folder of each test.
suite_environment() { export XDG_CACHE_HOME=$PWD/cache; }
server=

make_model() { # [FAMILY [FILE]]
    "$HEARTH" model make --family "${1:-qwen3}" --layers 2 --width 64 --out "${2:-m.gguf}" >/dev/null 2>&1 || fail 'no model'
}

end_server() { [ -z "$server" ] || kill -9 "$server" 2>/dev/null; }
trap end_server EXIT

# Tries until it succeeds, for a minute at least: the machine may be busy, and the runner ends what hangs.
await() { # WHAT COMMAND...
    local what=$1
    shift
    for _ in $(seq 1200); do
        "$@" && return
        sleep 0.05
    done
    fail "in vain: $what"
}

is_serving() {
    kill -0 "$server" 2>/dev/null || fail "it ended: $(cat log)"
    grep -q 'Ctrl-C' served
}

# Starts it with small figures and waits for the banner.
serve() { # [MODEL] options
    : >served # an earlier one's banner is not this one's
    "$HEARTH" serve --port 0 -t 1 --ram-cache 32MiB --ssd-dir none --state-dir "$PWD/state" "$@" >served 2>log &
    server=$!
    await 'the banner' is_serving
    url=$(sed -n 's/^ *Anthropic \(http.*\)/\1/p' served)
    [ -n "$url" ] || grep -q '\.sock' served || fail "no address in the banner: $(cat served)"
    export HEARTH_URL=$url
}

start() { serve m.gguf -c 4096 "$@"; } # options

stop() {
    kill -TERM "$server"
    wait "$server"
    status=$?
    server=
    [ "$status" = 0 ] || fail "ended with $status: $(cat log)"
}

ask() { # PATH JSON
    curl -sS -o body "$url$1" -H 'Content-Type: application/json' ${key:+-H "Authorization: Bearer $key"} -d "$2" || fail "no answer from $1"
}

letters() { # SEED COUNT
    awk -v seed="$1" -v count="$2" 'BEGIN { srand(seed); for (i = 0; i < count; i++) printf "%c", 97 + int(rand() * 26) }'
}

# A field of the JSON on standard output of the last run: a key and a number or text.
field() { # KEY
    sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" "$scratch/out" | head -1
}

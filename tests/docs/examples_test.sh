#!/usr/bin/env bash
# The examples of the documentation, executed against a real server. A block that begins with ```sh run or ```js run is run with the server's own
# address in place of the one that is written there; a line "# -> TEXT" in it says what its output contains.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/serve.sh
. "$(dirname "$0")/../support/serve.sh"

top=$(cd "$(dirname "$0")/../.." && pwd)
sdk=$top/tests/sdk

begin() {
    make_model
    serve m.gguf -c 2048
}

# The blocks of a file with this first line, as block.1, block.2, ...; with the address of the server.
blocks() { # FILE INFO
    rm -f block.*
    awk -v info="$2" '$0 == "```" info { n++; inside = 1; next } /^```/ { inside = 0 } inside { print > ("block." n) }' "$1"
    ls block.* >/dev/null 2>&1 || fail "$1 has no block $2"
    sed -i "s,http://127\.0\.0\.1:4327,$url,g" block.*
}

run_blocks() { # FILE
    [ -n "$server" ] || begin
    blocks "$1" 'sh run'
    for block in block.*; do
        run bash -e "$block"
        expect_status 0
        sed -n 's/^# -> //p' "$block" >expected
        [ -s expected ] || fail "$block says nothing of its output"
        while read -r text; do expect_out "$text"; done <expected
    done
}

test_api() { run_blocks "$top/docs/api.md"; }
test_ollama() { run_blocks "$top/docs/ollama.md"; }
test_embeddings() { run_blocks "$top/docs/embeddings.md"; }
test_pictures() {
    make_model llama
    make_model mmproj-mlp mmproj.gguf
    base64 -d >photo.png <<'END'
iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==
END
    serve m.gguf -c 2048 --mmproj mmproj.gguf --media-path .
    run_blocks "$top/docs/pictures.md"
}
test_clients() { run_blocks "$top/docs/clients.md"; }

# The line of the README: what a person tries first.
test_readme() {
    begin
    sed -n '/^curl http/,/^```/p' "$top/README.md" | grep -v '^```' | sed "s,http://127\.0\.0\.1:4327,$url," >first
    run bash -e first
    expect_status 0
    expect_out '"object":"chat.completion"'
}

# With the SDKs that tests/sdk has installed.
test_clients_js() {
    [ -e "$sdk/node_modules/.stamp" ] || skip 'the SDKs are not installed: make test ONLY=sdk does that'
    begin
    blocks "$top/docs/clients.md" 'js run'
    ln -s "$sdk/node_modules" node_modules
    for block in block.*; do
        cp "$block" block.mjs
        run node block.mjs
        expect_status 0
        expect_out 'prompt tokens were reused'
        rm block.mjs
    done
}

# Settings that are shown for clients are well-formed, and lead to this server.
test_settings_of_clients() {
    begin
    blocks "$top/docs/clients.md" json
    if command -v jq >/dev/null; then
        for block in block.*; do
            base=$(jq -er '.provider[].options.baseURL' "$block") || fail "$block is not JSON, or has no address"
            run curl -sf "$base/models"
            expect_status 0
        done
    fi
    blocks "$top/docs/clients.md" toml
    base=$(sed -n 's/^base_url = "\(.*\)"$/\1/p' block.1)
    run curl -sf "$base/models"
    expect_status 0
    if python3 -c 'import tomllib' 2>/dev/null; then
        run python3 -c 'import sys, tomllib; tomllib.load(open(sys.argv[1], "rb"))' block.1
        expect_status 0
    fi
}

test_python_is_python() {
    command -v python3 >/dev/null || skip 'no python3 here'
    url=http://127.0.0.1:4327
    blocks "$top/docs/clients.md" python
    for block in block.*; do
        run python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$block"
        expect_status 0
    done
}

# Writes "known": the options of all commands, and those of llama-server that are understood.
know_options() {
    for command in $("$HEARTH-lab" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p'); do
        "$HEARTH-lab" help --man "$command"
    done | sed 's/\\-/-/g' | grep -o -- '--[a-z][a-z0-9-]*' | sort -u >all
    sed 's/^--no-/--/' all | sort -u - all >known
    printf -- '--version\n--fault\n--provider\n' >>known # the last one is Pi's
    sed -n 's/^ *{"\([^"]*\)".*/\1/p' "$top/src/cli/foreign.c" | tr ' ' '\n' | sed 's/^/--/' >>known
    sort -u -o known known
}

# Every option that the documentation names exists.
test_options_in_the_documentation_exist() {
    know_options
    # In backquotes and after `hearth`: options of hearth.
    grep -hoE '`(hearth [a-z]+[^`]*|--[a-z][^`]*)`' "$top"/README.md "$top"/docs/{admin,api,bench,cache,cli,clients,dashboard,models,operations,qa,replay-traces,request-life}.md |
        grep -v 'git\|systemd\|systemctl\|docker' | grep -o -- '--[a-z][a-z0-9-]*' | sort -u >named
    [ "$(wc -l <named)" -gt 20 ] || fail 'hardly any options are named'
    comm -23 named known >unknown
    [ ! -s unknown ] || fail "no such options: $(tr '\n' ' ' <unknown)"
}

# So does every one that a message of the program names.
test_options_in_messages_exist() {
    know_options
    # Of Pi, aider, curl and ld.so.
    printf -- '--%s\n' extension model-metadata-file unix-socket library-path >>known
    find "$top/src" -name '*.[ch]' -exec grep -hoE '"([^"\\]|\\.)*"' {} + | grep -oE -- '--[a-z][a-z0-9-]+' | sort -u >named
    [ "$(wc -l <named)" -gt 50 ] || fail 'hardly any options are named'
    comm -23 named <(sort -u known) >unknown
    [ ! -s unknown ] || fail "no such options: $(tr '\n' ' ' <unknown)"
}

# ARCHITECTURE.md has a phrase for every module, and for none that is not there any more. A paragraph begins with its folder's name; `prefix*`
# stands for many.
test_architecture_names_every_module() {
    for folder in "$top"/src/*/ "$top"/lab/; do
        name=$(basename "$folder")
        awk -v name="### $name" '/^#/ { on = $0 == name } on && /^\| `/ { print }' "$top/ARCHITECTURE.md" | sed 's/^\(|[^|]*|\).*/\1/' | grep -oE '`[a-z_0-9]+\*?`' | tr -d '`' >named
        [ -s named ] || fail "$name has no table"
        ls "$folder" | sed -n 's/\.[ch]$//p' | grep -v '_impl$' | sort -u >modules
        while read -r pattern; do
            grep -qE "^${pattern/\*/.*}$" modules || fail "$name has no $pattern"
        done <named
        sed 's/\*/.*/' named >patterns
        grep -vxEf patterns modules >missing
        [ ! -s missing ] || fail "$name: not named: $(tr '\n' ' ' <missing)"
    done
}

# Links between the pages lead somewhere.
# The reasons in the table of docs/cache.md are those on the wire.
test_reasons_are_those_on_the_wire() {
    sed -n 's/^    \[HEARTH_REASON_[A-Z_]*\] = "\([a-z_]*\)",$/\1/p' "$top/src/cache/names.c" | sort >wire
    [ "$(wc -l <wire)" -ge 13 ] || fail 'no names in names.c'
    sed -n '/^| reason /,/^$/s/^| `\([a-z_]*\)` |.*/\1/p' "$top/docs/cache.md" | sort >table
    diff wire table >different || fail "docs/cache.md and names.c differ: $(cat different)"
}

test_links_lead_somewhere() {
    for page in "$top"/*.md "$top"/docs/*.md "$top"/docs/*/*.md; do
        grep -oE '\]\([^)#: ]+[)#]' "$page" | sed 's/^](//; s/.$//' | while read -r target; do
            [ -e "$(dirname "$page")/$target" ] || echo "${page#"$top"/}: $target"
        done
    done >broken
    [ ! -s broken ] || fail "$(cat broken)"
}

suite_main "$@"

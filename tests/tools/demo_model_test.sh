#!/usr/bin/env bash
# The demo model of tools/demo-model as a newcomer meets it: `hearth serve demo`.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/serve.sh
. "$(dirname "$0")/../support/serve.sh"

folder=$(cd "$(dirname "$0")" && pwd)
model=$folder/../../tools/demo-model/demo.gguf

talk() { # PART
    command -v node >/dev/null || skip 'no node'
    serve demo -c 4096
    run node "$folder/demo_model.mjs" "$url" "$1"
    expect_status 0
    stop
}

test_it_knows_hearth() { talk facts; }
test_it_calls_tools() { talk tools; }
test_it_remembers_names() { talk names; }
test_it_follows_schemas() { talk schemas; }
test_it_talks() { talk talk; }
test_it_talks_in_every_api() { talk apis; }

test_it_talks_in_the_terminal() {
    HEARTH_URL=http://127.0.0.1:1 run "$HEARTH" run -t 1 -c 2048 --temp 0 demo 'Good morning! I am Ada.'
    expect_status 0
    expect_out Ada
}

test_it_is_small() {
    [ "$(stat -c %s "$model")" -le 12000000 ] || fail 'more than 12 MB'
}

# The template is written down once, in lab/model_vocab.c; a change there needs the model written anew.
test_its_template_is_that_of_the_tree() {
    make_model
    run "$HEARTH" model show m.gguf
    expect_status 0
    grep '^chat template' "$scratch/out" >random
    run "$HEARTH" model show "$model"
    expect_status 0
    grep '^chat template' "$scratch/out" | cmp -s - random || fail 'another template'
    expect_out 'trained for 65,536'
}

suite_main "$@"

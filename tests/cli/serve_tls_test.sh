#!/usr/bin/env bash
# `hearth serve` with TLS, for curl, for Node.js and for hearth's own commands.
# shellcheck source=tests/support/suite.sh
. "$(dirname "$0")/../support/suite.sh"
# shellcheck source=tests/support/serve.sh
. "$(dirname "$0")/../support/serve.sh"
files=$(cd "$(dirname "$0")/../data/tls" && pwd)

chat='{"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 8'
start() { # options
    make_model
    cp "$files/cert.pem" "$files/key.pem" .
    serve m.gguf -c 2048 --tls-cert cert.pem --tls-key key.pem "$@"
}

test_curl() {
    start
    [ "${url#https://127.0.0.1:}" != "$url" ] || fail "$url"
    run curl -sS --cacert cert.pem "$url/v1/chat/completions" -H 'Content-Type: application/json' -d "$chat}"
    expect_out '"object":"chat.completion"'
    run curl -sSN --cacert cert.pem "$url/v1/chat/completions" -H 'Content-Type: application/json' -d "$chat, \"stream\": true}"
    expect_out 'data: [DONE]'
    # One connection for two requests.
    run curl -sS --cacert cert.pem -o body -w '%{num_connects}%{http_code} ' "$url/health" -o body "$url/v1/models"
    [ "$(cat "$scratch/out")" = '1200 0200 ' ] || fail "$(cat "$scratch/out")"
    run curl -sS --tls-max 1.1 --cacert cert.pem "$url/health"
    expect_status 35
    run curl -sS "http${url#https}/health" # plain HTTP gets no answer, and the log says why
    expect_status 52
    await 'the log line' grep -q 'plain HTTP on the TLS port: the client must use https://' log
    stop
}

test_node() {
    command -v node >/dev/null || skip 'no node here'
    start
    cat >ask.mjs <<'JS'
import fs from 'node:fs';
import https from 'node:https';
const agent = new https.Agent({keepAlive: true, maxSockets: 1, ca: fs.readFileSync('cert.pem')});
const ask = (path, body) => new Promise((resolve, reject) => {
  const req = https.request(process.argv[2] + path, {agent, method: body ? 'POST' : 'GET', headers: body ? {'content-type': 'application/json'} : {}}, (res) => {
    let text = '', pieces = 0;
    res.on('data', (data) => { text += data; pieces++; });
    res.on('end', () => resolve({status: res.statusCode, text, pieces, reused: req.reusedSocket}));
    res.on('error', reject);
  });
  req.on('error', reject);
  req.end(body);
});
const chat = (stream) => JSON.stringify({messages: [{role: 'user', content: 'Hello! '.repeat(150)}], max_tokens: 100, ignore_eos: true, stream});
const first = await ask('/v1/chat/completions', chat(false));
const second = await ask('/v1/chat/completions', chat(true));
const third = await ask('/health');
agent.destroy();
if (first.status !== 200 || !first.text.includes('"usage"')) throw new Error(first.text);
if (!second.reused || !second.text.trim().endsWith('data: [DONE]')) throw new Error(second.text);
if (!third.reused || third.text !== '{"status":"ok"}') throw new Error(third.text);
console.log('fine');
JS
    run node ask.mjs "$url"
    expect_status 0
    expect_out fine
    stop
}

test_commands() {
    start --admin-key secret
    export HEARTH_ADMIN_KEY=secret
    SSL_CERT_FILE=$PWD/cert.pem run "$HEARTH" ps
    expect_status 0
    expect_out ready
    run "$HEARTH" ps
    expect_status 1
    expect_err 'TLS handshake failed: self-signed certificate; SSL_CERT_FILE names the certificate to trust'
    stop
}

test_certificate_is_read_again() {
    start
    cp "$files/other-key.pem" key.pem
    kill -HUP "$server"
    await 'the refusal' grep -q 'the TLS certificate stays as it was' log
    run curl -sS --cacert "$files/cert.pem" "$url/health"
    expect_out ok
    cp "$files/other.pem" cert.pem
    kill -HUP "$server"
    new_one() { curl -sS --cacert "$files/other.pem" "$url/health" >/dev/null 2>&1; }
    await 'the new certificate' new_one
    stop
}

test_mistakes() {
    make_model
    run "$HEARTH" serve m.gguf --tls-cert "$files/cert.pem"
    expect_status 2
    expect_err '--tls-cert and --tls-key belong together'
    run "$HEARTH" serve m.gguf --tls-cert "$files/cert.pem" --tls-key "$files/key.pem" --host "$PWD/h.sock"
    expect_status 2
    expect_err 'a local socket has no TLS'
    run "$HEARTH" serve m.gguf --port 0 --ssd-dir none --state-dir state --tls-cert "$files/cert.pem" --tls-key "$files/other-key.pem"
    expect_status 1
    expect_err "cannot use the key in $files/other-key.pem with the certificate in $files/cert.pem: key values mismatch"
    run "$HEARTH" serve m.gguf --port 0 --ssd-dir none --state-dir state --ssl-cert-file none.pem --ssl-key-file "$files/key.pem"
    expect_status 1
    expect_err 'cannot read a certificate from none.pem'
}

suite_main "$@"

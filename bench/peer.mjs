/*
 * peer.mjs: hearth and llama-server side by side: the same model, threads and requests, in one run.
 *
 *      node bench/peer.mjs HEARTH SYSROOT [--model FILE] [--tokens N] [--threads N] [--rounds N] [--csv FILE]
 *
 * For each shape of what agents do it sends the same prompts to both, one server after the other, and prints the times, their ratio, and the
 * waste: prompt tokens that a server computed although an earlier request had computed the same beginning. Times are of whole
 * requests for one token, so they are times to the first token. `make peer` runs it.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync, existsSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const [hearthPath, sysroot, ...rest] = process.argv.slice(2);
const option = (name, initial) => {
    const at = rest.indexOf('--' + name);
    return at >= 0 ? rest[at + 1] : initial;
};
const tokens = Number(option('tokens', 2000));
const threads = Number(option('threads', 2));
const rounds = Number(option('rounds', 3));
const scratch = mkdtempSync(join(tmpdir(), 'hearth-peer-'));
const children = [];

process.on('exit', () => {
    for (const child of children) child.kill('SIGKILL');
    rmSync(scratch, { recursive: true, force: true });
});
process.on('SIGINT', () => process.exit(130));

/* ---- servers ---- */

const libraries = () => {
    const base = join(sysroot, 'usr/lib/x86_64-linux-gnu');
    return [base, join(base, 'llama')].join(':');
};

/* llama-server looks for backends at a fixed path; it gets the one that hearth has loaded. */
const backendOf = (server) => {
    const line = readFileSync(`/proc/${server.child.pid}/maps`, 'utf8').split('\n').find((entry) => entry.includes('/libggml-cpu-'));
    return line.slice(line.indexOf('/'));
};

async function start(name, command, args, env, port) {
    const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    let said = '';
    child.stdout.on('data', (data) => (said += data));
    child.stderr.on('data', (data) => (said += data));
    children.push(child);
    for (let i = 0; i < 600; i++) {
        if (child.exitCode !== null) throw new Error(`${name} ended:\n${said}`);
        const up = await fetch(`http://127.0.0.1:${port}/health`).catch(() => null);
        if (up?.ok) return { name, port, child, log: () => said };
        await new Promise((wake) => setTimeout(wake, 100));
    }
    throw new Error(`${name} does not come up:\n${said}`);
}

const startHearth = (model, context) =>
    start('hearth', hearthPath, ['serve', model, '--port', '4999', '-t', `${threads}`, '-c', `${context}`, '-np', '4',
        '--ram-cache', '2GiB', '--ssd-dir', 'none', '--state-dir', join(scratch, 'state')], {}, 4999);

const startPeer = (model, context, backend) =>
    start('llama-server', join(sysroot, 'usr/lib64/ld-linux-x86-64.so.2'),
        ['--library-path', libraries(), join(sysroot, 'usr/bin/llama-server'), '-m', model, '--port', '4998', '-t', `${threads}`,
            '-c', `${context}`, '-np', '4', '-ub', '512', '-b', '512', '--no-webui'],
        { GGML_BACKEND_PATH: backend }, 4998);

/* ---- requests ---- */

let salt = 1;
/* Text of about n tokens that no earlier prompt begins with; the small models have a token per letter. */
function text(n, seed = salt++) {
    let state = (seed * 2654435761) >>> 0;
    let out = '';
    while (out.length < n) {
        state = (Math.imul(state ^ (state >>> 15), 2246822519) + 374761393) >>> 0;
        out += 'abcdefghijklmnopqrstuvwxyz     '[state % 31];
    }
    return out;
}

async function ask(server, prompt, count = 1) {
    const begin = performance.now();
    const answer = await fetch(`http://127.0.0.1:${server.port}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ prompt, max_tokens: count, temperature: 0, ignore_eos: true, cache_prompt: true, stream: false }),
    });
    const body = await answer.json();
    if (!answer.ok) throw new Error(`${server.name}: ${answer.status} ${JSON.stringify(body)}`);
    const ms = performance.now() - begin;
    const cached = body.usage.prompt_tokens_details?.cached_tokens ?? body.timings?.cache_n ?? 0;
    return { ms, text: body.choices[0].text, prompt: body.usage.prompt_tokens, cached, computed: body.usage.prompt_tokens - cached };
}

/* ---- shapes: each gives milliseconds, tokens computed, and tokens that had to be ---- */

const sum = (list, key) => list.reduce((total, item) => total + item[key], 0);

const shapes = {
    async cold(server, seed) {
        const one = await ask(server, text(tokens, seed));
        return { ms: one.ms, computed: one.computed, needed: one.prompt, prompt: one.prompt };
    },
    async repeat(server, seed) {
        const prompt = text(tokens, seed);
        await ask(server, prompt);
        const one = await ask(server, prompt);
        return { ms: one.ms, computed: one.computed, needed: 1, prompt: one.prompt };
    },
    async 'A again after B'(server, seed) {
        const prompt = text(tokens, seed);
        await ask(server, prompt);
        for (let other = 1; other <= 5; other++) await ask(server, text(tokens / 2, seed + 1000 * other));
        const one = await ask(server, prompt);
        return { ms: one.ms, computed: one.computed, needed: 1, prompt: one.prompt };
    },
    async turns(server, seed) {
        let prompt = text(tokens / 2, seed);
        const all = [];
        for (let turn = 0; turn < 4; turn++) {
            const one = await ask(server, prompt, 8);
            all.push(one);
            prompt += one.text + text(60, seed + 7000 + turn);
        }
        const later = all.slice(1);
        return { ms: sum(later, 'ms'), computed: sum(later, 'computed'), needed: 3 * 68, prompt: sum(later, 'prompt') };
    },
    async edit(server, seed) {
        const begin = text(tokens * 0.8, seed);
        await ask(server, begin + text(tokens * 0.2, seed + 100));
        const one = await ask(server, begin + text(tokens * 0.2, seed + 200));
        return { ms: one.ms, computed: one.computed, needed: tokens * 0.2, prompt: one.prompt };
    },
    async 'four cold branches'(server, seed) {
        const begin = text(tokens, seed);
        const started = performance.now();
        const all = await Promise.all([1, 2, 3, 4].map((i) => ask(server, begin + text(20, seed + i), 1)));
        return { ms: performance.now() - started, computed: sum(all, 'computed'), needed: tokens + 80, prompt: sum(all, 'prompt') };
    },
    async 'decode 128 tokens'(server, seed) {
        const prompt = text(64, seed);
        const one = await ask(server, prompt, 1);
        const many = await ask(server, prompt, 129);
        return { ms: many.ms - one.ms, computed: 0, needed: 0, prompt: many.prompt };
    },
};

/* ---- the table ---- */

/* Milliseconds of processor time that a server has used: what a shape costs, however busy the machine is. */
function cpu(server) {
    const fields = readFileSync(`/proc/${server.child.pid}/stat`, 'utf8').replace(/.*\) /, '').split(' ');
    return (Number(fields[11]) + Number(fields[12])) * 10;
}

const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];

async function main() {
    if (!existsSync(join(sysroot, 'usr/bin/llama-server'))) {
        console.log('peer: no llama-server in the sysroot; `make peer` brings it');
        return;
    }
    const model = resolve(option('model'));
    const context = Math.max(4096, tokens * 8);
    const hearth = await startHearth(model, context);
    const servers = [hearth, await startPeer(model, context, backendOf(hearth))];
    console.log(`model ${model}, prompts of ${tokens} tokens, ${threads} threads, median of ${rounds} rounds`);
    console.log('shape                  hearth ms  llama ms   ratio  cpu ratio   hearth waste  llama waste');
    const rows = ['shape,hearth_ms,llama_ms,ratio,hearth_cpu_ms,llama_cpu_ms,hearth_computed,llama_computed,needed,prompt'];
    for (const server of servers) await ask(server, text(600)); /* pages touched, threads awake */
    for (const [name, shape] of Object.entries(shapes)) {
        const found = servers.map(() => []);
        for (let round = 0; round < rounds; round++) {
            const seed = salt++ * 101 + 5000000;
            for (let i = 0; i < servers.length; i++) {
                const before = cpu(servers[i]);
                const one = await shape(servers[i], seed);
                found[i].push({ ...one, cpu: cpu(servers[i]) - before });
            }
        }
        const ms = found.map((list) => median(list.map((one) => one.ms)));
        const used = found.map((list) => median(list.map((one) => one.cpu)));
        const waste = found.map((list) => {
            const wasted = Math.max(0, list[0].computed - list[0].needed);
            return `${((100 * wasted) / list[0].prompt).toFixed(1)} %`;
        });
        console.log(`${name.padEnd(22)} ${ms[0].toFixed(1).padStart(9)} ${ms[1].toFixed(1).padStart(9)} ${(ms[1] / ms[0]).toFixed(2).padStart(7)}x ${(used[1] / used[0]).toFixed(2).padStart(9)}x ${waste[0].padStart(13)} ${waste[1].padStart(12)}`);
        rows.push([name, ms[0].toFixed(2), ms[1].toFixed(2), (ms[1] / ms[0]).toFixed(3), used[0], used[1], found[0][0].computed, found[1][0].computed, found[0][0].needed, found[0][0].prompt].join(','));
    }
    if (option('csv')) writeFileSync(option('csv'), rows.join('\n') + '\n');
}

main().then(() => process.exit(0), (error) => {
    console.error(`peer: ${error.message}`);
    process.exit(1);
});

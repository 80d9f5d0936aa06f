/* Clients of the official SDKs that give up in a long prefill and ask again by themselves: the next attempt continues where the last was
 * cut, so an answer comes although no attempt is long enough for the whole prompt. A stream is kept alive and needs one attempt only.
 * A limit is half of what the same length took before, so that the load of the machine matters little. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { startServer } from './server.mjs';

const WORDS = 3000, STEP = 512, RETRIES = 8;
let server, limit; /* limit: ms */

before(async () => {
    server = await startServer(process.env.MODEL, ['-c', '32768', '-ub', String(STEP)]);
});
after(async () => assert.equal(await server.stop(), 0));

/* The first word differs, so prompts share nothing but the template. */
const prompt = (name) => [{ role: 'user', content: Array.from({ length: WORDS }, (_, i) => `${name}${i % 7}`).join(' ') }];

/* Each attempt of an SDK is one call of fetch, and one line in the log. */
let sent = 0, seen = 0;
const counted = { apiKey: 'none', fetch: (...args) => (sent++, fetch(...args)) };

/* The attempts since the last call. */
const attempts = async () => {
    for (;;) {
        const lines = server.log().split('\n').filter((line) => / \[api\] .* prompt \d/.test(line));
        if (lines.length >= sent)
            return lines.slice(seen, seen = sent).map((line) => ({
                prompt: Number(line.match(/prompt (?:\d+ of )?(\d+) =/)[1]),
                computed: Number(line.match(/computed (\d+)/)[1]),
            }));
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
};

const openai = (options) => new OpenAI({ baseURL: `${server.url}/v1`, ...counted, ...options });
const asks = {
    chat: (options, name) => openai(options).chat.completions.create({ model: 'm', max_tokens: 2, messages: prompt(name) }),
    responses: (options, name) => openai(options).responses.create({ model: 'm', max_output_tokens: 2, input: prompt(name) }),
    messages: (options, name) => new Anthropic({ baseURL: server.url, ...counted, ...options })
        .messages.create({ model: 'm', max_tokens: 2, messages: prompt(name) }),
};

const timed = async (what) => {
    const begin = performance.now();
    await what;
    return performance.now() - begin;
};

/* Until the limit was shorter than the prefill: the machine may have been slower when it was measured. */
const untilShort = async (ask) => {
    for (let round = 0; ; round++, limit = Math.ceil(limit / 2))
        if (await ask(round)) return;
};

for (const [dialect, ask] of Object.entries(asks))
    test(`${dialect}: an attempt continues where the last was cut`, async () => {
        limit = Math.ceil(await timed(ask({ maxRetries: 0 }, `a${dialect[0]}`)) / 2);
        assert.equal((await attempts()).length, 1);
        await untilShort(async (round) => {
            await ask({ timeout: limit, maxRetries: RETRIES }, `${'bcde'[round]}${dialect[0]}`);
            const all = await attempts(), [{ prompt: whole }] = all;
            const computed = all.reduce((sum, one) => sum + one.computed, 0);
            assert.ok(computed <= whole + STEP, `${computed} tokens computed for a prompt of ${whole}`);
            return all.length > 1;
        });
    });

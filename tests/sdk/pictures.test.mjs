/* Pictures through the official clients of OpenAI and Anthropic: the same picture hits in every form, another one never does. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { crc32, deflateSync } from 'node:zlib';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { startServer } from './server.mjs';

let server, openai, anthropic;
const model = 'demo', side = 64;

function chunk(type, data) {
    const body = Buffer.concat([Buffer.from(type), data]), out = Buffer.alloc(body.length + 8);
    out.writeUInt32BE(data.length);
    body.copy(out, 4);
    out.writeUInt32BE(crc32(body), out.length - 4);
    return out;
}

function png(seed, level) {
    const header = Buffer.alloc(13), rows = Buffer.alloc(side * (side * 3 + 1));
    header.writeUInt32BE(side);
    header.writeUInt32BE(side, 4);
    header.set([8, 2], 8);
    for (let y = 0; y < side; y++)
        for (let x = 0; x < side * 3; x++) rows[y * (side * 3 + 1) + 1 + x] = (x >> 3) * seed * 37 + (y >> 3) * 91;
    return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', header), chunk('IDAT', deflateSync(rows, { level })), chunk('IEND', Buffer.alloc(0))]);
}

const one = png(1).toString('base64'), two = png(2).toString('base64'), recoded = png(1, 0).toString('base64');
const url = (data) => `data:image/png;base64,${data}`;

before(async () => {
    writeFileSync('one.png', png(1));
    server = await startServer(process.env.MODEL, ['--mmproj', process.env.MMPROJ, '--media-path', '.']);
    openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
    anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
});
after(async () => assert.equal(await server.stop(), 0));

/* What was reused of the prompts of the first picture, of it again, and of the second one. */
async function check(ask) {
    const [first, again, other] = [await ask(one), await ask(one), await ask(two)];
    assert.equal(again.cached, first.prompt - 1);
    assert.equal(other.prompt, first.prompt);
    assert.ok(other.cached < first.prompt - 16, `${other.cached} of ${other.prompt}`);
}

const chat = async (address) => {
    const content = [{ type: 'text', text: 'What is this?' }, { type: 'image_url', image_url: { url: address } }];
    const { usage } = await openai.chat.completions.create({ model, messages: [{ role: 'user', content }], max_completion_tokens: 3, temperature: 0 });
    return { prompt: usage.prompt_tokens, cached: usage.prompt_tokens_details.cached_tokens };
};

test('image_url of chat', () => check((data) => chat(url(data))));

test('a file below --media-path is the same picture', async () => {
    const file = await chat('file://one.png');
    assert.equal(file.cached, file.prompt - 1);
    await assert.rejects(chat('file:///etc/hostname'), (error) => error.status === 400 && /--media-path/.test(error.message));
    await assert.rejects(chat('https://example.com/one.png'), (error) => error.status === 400 && /never fetched/.test(error.message));
});

test('input_image of responses', () => check(async (data) => {
    const content = [{ type: 'input_text', text: 'What is here?' }, { type: 'input_image', image_url: url(data), detail: 'auto' }];
    const { usage } = await openai.responses.create({ model, input: [{ role: 'user', content }], max_output_tokens: 3, temperature: 0 });
    return { prompt: usage.input_tokens, cached: usage.input_tokens_details.cached_tokens };
}));

const message = (data, more = {}) => anthropic.messages.create({
    model, max_tokens: 3, temperature: 0, ...more,
    messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data } }, { type: 'text', text: 'What is it?' }] }],
});

test('image blocks of messages', () => check(async (data) => {
    const { usage } = await message(data);
    return { prompt: usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens, cached: usage.cache_read_input_tokens };
}));

test('another picture is a changed message', async () => {
    const compare = async (data, previous_message_id) => (await message(data, { diagnostics: { previous_message_id } }));
    const first = await compare(one, null);
    assert.equal((await compare(one, first.id)).diagnostics, null);
    assert.notEqual(recoded, one);
    assert.equal((await compare(recoded, first.id)).diagnostics, null, 'pixels count, not the file');
    assert.equal((await compare(two, first.id)).diagnostics.cache_miss_reason.type, 'messages_changed');
});

test('audio is refused', async () => {
    const content = [{ type: 'input_audio', input_audio: { data: one, format: 'wav' } }];
    await assert.rejects(openai.chat.completions.create({ model, messages: [{ role: 'user', content }] }),
        (error) => error.status === 400 && /only text and pictures/.test(error.message));
});
